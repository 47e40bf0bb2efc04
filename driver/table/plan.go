package table

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/reduce"
	"github.com/epic-inc/epic/golden/spec"
)

// Plan is a configuration laid out in the tables of one build: an endpoint at the low bits of its QPN, a pipe at its
// own number, the outs of the pipes one after the other in the out list, the ins of the Mode-II pipes in the in list.
// A plan of NewPlanAt has its pipes and lists where it was told.
type Plan struct {
	cfg       engine.Config
	endpoints []int // entry of each endpoint
	pipes     []int // entry of each pipe
	outBase   []int // first entry of each pipe in the out list
	inBase    []int // first entry of each Mode-II pipe in the in list; 0 for others
}

// NewPlan lays cfg out for a build. The error joins every reason why it does not fit, each with the name of the
// endpoint or pipe, what was got and what the build allows.
func NewPlan(cfg engine.Config, caps Capabilities) (*Plan, error) {
	cfg.Blocks = caps.Blocks()
	if cfg.Ports == 0 || cfg.Ports > caps.Ports {
		cfg.Ports = caps.Ports
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	p := &Plan{cfg: cfg, endpoints: make([]int, len(cfg.Endpoints)), pipes: make([]int, len(cfg.Pipes)), outBase: make([]int, len(cfg.Pipes)),
		inBase: make([]int, len(cfg.Pipes))}
	for i := range p.pipes {
		p.pipes[i] = i
	}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if cfg.PSNBits != 0 && cfg.PSNBits != spec.PSNW {
		bad("PSN bits: got %d, want %d", cfg.PSNBits, spec.PSNW)
	}
	if cfg.Variant != (engine.Variant{}) {
		bad("variant: got %+v, want the default: hardware has no other", cfg.Variant)
	}
	taken := map[int]int{} // entry to endpoint
	for i, ep := range cfg.Endpoints {
		p.endpoints[i] = cfg.EntryIndex(i, caps.Endpoints)
		if other, ok := taken[p.endpoints[i]]; ok {
			bad("%s: QPN %#06x takes entry %d of %d, which is %s's (QPN %#06x)", endpointName(cfg, i), ep.QPN,
				p.endpoints[i], caps.Endpoints, endpointName(cfg, other), cfg.Endpoints[other].QPN)
		}
		taken[p.endpoints[i]] = i
	}
	if len(cfg.Pipes) > caps.Pipes {
		bad("pipes: got %d, want at most %d", len(cfg.Pipes), caps.Pipes)
	}
	outs, ins := 0, 0
	for i, pipe := range cfg.Pipes {
		p.outBase[i] = outs
		outs += len(pipe.Outs)
		if pipe.Mode == 2 {
			p.inBase[i] = ins
			ins += len(pipe.Ins)
		}
		for _, why := range caps.refuse(pipe) {
			bad("%s: %s", pipeName(cfg, i), why)
		}
	}
	if outs > caps.Outs {
		bad("outs of all pipes: got %d, want at most %d", outs, caps.Outs)
	}
	if ins > caps.Outs {
		bad("ins of all Mode-II pipes: got %d, want at most %d", ins, caps.Outs)
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("engine %q does not fit the build: %w", cfg.Name, errors.Join(errs...))
	}
	return p, nil
}

// Rows says where the pipes of a configuration go that has an engine together with others: for each pipe its row, and
// its first entries in the out list and, of Mode-II, in the in list.
type Rows struct{ Pipes, Outs, Ins []int }

// NewPlanAt is NewPlan with the pipes and lists at rows. That nobody else has these is the caller's to know.
func NewPlanAt(cfg engine.Config, caps Capabilities, rows Rows) (*Plan, error) {
	p, err := NewPlan(cfg, caps)
	if err != nil {
		return nil, err
	}
	for what, list := range map[string][]int{"pipe": rows.Pipes, "out": rows.Outs, "in": rows.Ins} {
		if len(list) != len(cfg.Pipes) {
			return nil, fmt.Errorf("engine %q: got %d %s rows, want %d, one for each pipe", cfg.Name, len(list), what, len(cfg.Pipes))
		}
	}
	for i, pipe := range cfg.Pipes {
		for _, r := range []struct {
			what           string
			from, n, limit int
		}{{"pipe row", rows.Pipes[i], 1, caps.Pipes}, {"out list", rows.Outs[i], len(pipe.Outs), caps.Outs}, {"in list", rows.Ins[i], len(pipe.Ins), caps.Outs}} {
			if r.from < 0 || r.from+r.n > r.limit {
				return nil, fmt.Errorf("engine %q: %s: %s: got %d..%d, want 0..%d", cfg.Name, pipeName(cfg, i), r.what, r.from, r.from+r.n-1, r.limit-1)
			}
		}
		if pipe.Mode != 2 {
			rows.Ins[i] = 0 // it has none
		}
	}
	p.pipes, p.outBase, p.inBase = rows.Pipes, rows.Outs, rows.Ins
	return p, nil
}

// refuse says what of a pipe the build does not have.
func (c Capabilities) refuse(pipe engine.Pipe) []string {
	var why []string
	bad := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	if pipe.Mode == 1 || pipe.Mode == 2 && !c.Mode2 || pipe.Mode == 3 && !c.Mode3 {
		bad("mode %d is not in this build, which has mode %s", pipe.Mode, c.modes())
	}
	if len(pipe.Ins) > c.FanIn {
		bad("fan-in %d, want at most %d in this build", len(pipe.Ins), c.FanIn)
	}
	if pipe.MTU > c.MTU {
		bad("MTU %d, want at most %d in this build", pipe.MTU, c.MTU)
	}
	if reduce.IsFloat(pipe.DType) && !c.Float && len(pipe.Ins) > 1 && !pipe.Unpinned {
		bad("%v is not in this build, which has integers only", pipe.DType)
	}
	// A slot starts at a beat of the data path.
	if beat := c.DataW / 8; pipe.MTU < beat {
		bad("MTU %d, want at least %d in this build: its data path has %d bits", pipe.MTU, beat, c.DataW)
	} else if at := pipe.Base * spec.BlockBytes; at%beat != 0 {
		bad("base block %d, want a multiple of %d in this build: its data path has %d bits", pipe.Base,
			beat/spec.BlockBytes, c.DataW)
	}
	return why
}

// EndpointIndex is the entry of an endpoint of the configuration.
func (p *Plan) EndpointIndex(endpoint int) int { return p.endpoints[endpoint] }

// Endpoint is the ep_cfg entry of an endpoint of the configuration.
func (p *Plan) Endpoint(endpoint int) *spec.EpCfg {
	ep := p.cfg.Endpoints[endpoint]
	e := &spec.EpCfg{
		Valid:    true,
		IsV6:     ep.IP.Is6(),
		MigReq:   ep.MigReq,
		Port:     uint8(ep.Port),
		QPN:      ep.QPN,
		PeerQPN:  ep.PeerQPN,
		PKey:     ep.PKey,
		UDPSport: ep.UDPSport,
		TTL:      ep.TTL,
		TOS:      ep.TOS,
		PSN0:     uint32(ep.PSN0),
		MAC:      mac(ep.MAC),
		PeerMAC:  mac(ep.PeerMAC),
		IP:       spec.Uint128FromAddr(ep.IP),
		PeerIP:   spec.Uint128FromAddr(ep.PeerIP),
		Leaf:     ep.Leaf,
	}
	if w := ep.Rewrite; w != nil {
		e.RewriteValid, e.InVA, e.OutVA, e.OutRkey = true, w.InVA, w.OutVA, w.RKey
	}
	if ep.VLAN != nil {
		e.VLANValid, e.VLANTCI = true, *ep.VLAN
	}
	if ep.InPipe != engine.None {
		e.InValid, e.InPipe, e.InIndex = true, uint8(p.pipes[ep.InPipe]), uint8(ep.InIndex)
	}
	if ep.OutPipe != engine.None {
		e.OutValid, e.OutPipe = true, uint8(p.pipes[ep.OutPipe])
	}
	return e
}

// Pipe is the pipe_cfg entry of a pipe of the configuration.
func (p *Plan) Pipe(pipe int) *spec.PipeCfg {
	c := p.cfg.Pipes[pipe]
	return &spec.PipeCfg{
		Valid:      true,
		Mode:       uint8(c.Mode),
		Op:         c.Op,
		DType:      c.DType,
		FanIn:      uint8(len(c.Ins)),
		FanOut:     uint8(len(c.Outs)),
		NLog2:      uint8(bits.TrailingZeros(uint(c.N))),
		MTULog2:    uint8(bits.TrailingZeros(uint(c.MTU))),
		OutBase:    uint16(p.outBase[pipe]),
		InBase:     uint16(p.inBase[pipe]),
		BaseBlock:  uint16(c.Base),
		PSN0:       uint32(c.PSN0),
		AckEvery:   uint16(c.AckEvery),
		RNRCode:    uint8(c.RNRCode),
		Retries:    uint8(c.Retries),
		BackoffMax: uint8(c.BackoffMax),
		Timeout:    uint32(c.Timeout),

		Pinned:       !c.Unpinned,
		Reproducible: c.Reproducible,
		AckRule:      c.AckRule,
		ReplayAsker:  !c.ReplayAll,
		Coll:         uint8(c.Coll),
		Root:         uint16(c.Root),
	}
}

// placed is an entry and its place.
type placed struct {
	name  string // of the endpoint or pipe it is for
	index int
	entry spec.Entry
}

// lists are the out_list entries of a pipe and, of a Mode-II pipe, its in_list entries: there alone something is
// handed on to the ins.
func (p *Plan) lists(pipe int) []placed {
	var list []placed
	for i, o := range p.cfg.Pipes[pipe].Outs {
		list = append(list, placed{fmt.Sprintf("%s, out %d", pipeName(p.cfg, pipe), i), p.outBase[pipe] + i,
			&spec.OutList{Endpoint: uint16(p.endpoints[o])}})
	}
	if p.cfg.Pipes[pipe].Mode != 2 {
		return list
	}
	for i, in := range p.cfg.Pipes[pipe].Ins {
		list = append(list, placed{fmt.Sprintf("%s, in %d", pipeName(p.cfg, pipe), i), p.inBase[pipe] + i,
			&spec.InList{Endpoint: uint16(p.endpoints[in])}})
	}
	return list
}

func (p *Plan) endpoint(i int) placed {
	return placed{endpointName(p.cfg, i), p.endpoints[i], p.Endpoint(i)}
}

func (p *Plan) pipe(i int) placed { return placed{pipeName(p.cfg, i), p.pipes[i], p.Pipe(i)} }

func mac(m [6]byte) uint64 {
	v, err := spec.MACToUint64(m[:])
	if err != nil {
		panic(err) // six bytes by its type
	}
	return v
}

func endpointName(c engine.Config, i int) string { return named("endpoint", i, c.Endpoints[i].Name) }

func pipeName(c engine.Config, i int) string { return named("pipe", i, c.Pipes[i].Name) }

func named(what string, i int, name string) string {
	if name == "" {
		return fmt.Sprintf("%s %d", what, i)
	}
	return fmt.Sprintf("%s %d (%s)", what, i, name)
}

// drained says why a pipe holds something that someone waits for (protocol.md 9), or nil.
func drained(mode uint8, state spec.PipeState, ins []spec.EpRx) error {
	if mode == 2 {
		switch {
		case state.Incomplete != 0:
			return fmt.Errorf("%d slots have started and are not complete", state.Incomplete)
		case !state.Quiesced:
			return errors.New("not quiesced: its ranks may still wait for their sends to complete")
		}
		return nil
	}
	if state.PSNStart != state.NextSend {
		return fmt.Errorf("psnStart is %v, nextSend %v", psn.PSN(state.PSNStart), psn.PSN(state.NextSend))
	}
	for _, rx := range ins {
		if rx.EPSN != state.NextSend {
			return fmt.Errorf("ePSN of an in is %v, nextSend %v", psn.PSN(rx.EPSN), psn.PSN(state.NextSend))
		}
	}
	return nil
}
