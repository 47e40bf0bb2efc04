package run

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/epic-inc/epic/driver/table"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/expect"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// FuzzOptions of Fuzz. What Options says of vectors and expectations does not count.
type FuzzOptions struct {
	Options
	Frames int  // of one life
	Lives  int  // the engine's pipes are driven into error and bound again so often
	Writes bool // every endpoint has a rewrite, and half of the messages are RDMA WRITEs

	BadSignals bool // a third of the control signals are spoiled in one field, not one of 48
}

// Fuzz plays an adversary against the RTL engine alone: frames near every boundary of its windows (gaps,
// duplicates, what is behind and beyond, ACKs and NAKs of nothing), with every field spoiled in turn, and
// foreign ones between them. There are no hosts and no results: only golden says what must happen.
//
// A life is Frames frames, then an error of a kind that the seed chooses (contributions that do not agree,
// a fatal NAK, an out that stays silent), a few frames into the broken pipes, and the comparison of counters
// and tables. The next life begins with the same entries written again, on the slots that the last one left.
func Fuzz(ctx context.Context, o FuzzOptions) (*Report, error) {
	if o.Frames < 1 || o.Lives < 1 {
		return nil, fmt.Errorf("fuzz: got %d frames and %d lives, want at least 1 of each", o.Frames, o.Lives)
	}
	return explain(ctx, o.Options, func(ctx context.Context, run *Options, rep *Report) error {
		run.writes, run.badSignals = o.Writes, o.BadSignals
		return fuzz(ctx, run, rep, o.Frames, o.Lives)
	})
}

// Clocks of a grant, and how many grants may pass in which the engine must come to rest after an error:
// all R back-offs of all its outs run one beside the other.
const (
	fuzzQuantum   = 256
	fuzzMostWaits = 4000
)

// adversary is one run of Fuzz. What it knows of the engine it has from records, which the scoreboard has
// found right.
type adversary struct {
	rtl    *rtl
	cfg    engine.Config
	rng    *rand.Rand
	plan   *table.Plan
	at     map[uint32]int // table entry -> endpoint
	in     []spec.Record  // by endpoint: the last record with group rx
	out    []spec.Record  // with group tx
	pipe   []spec.Record  // by pipe
	next   []psn.PSN      // by endpoint: what its sender would send next
	silent []bool         // by endpoint: sends no ACKs at present
	life   uint64

	spoilSignals int // one control signal of so many is spoiled
}

func fuzz(ctx context.Context, o *Options, rep *Report, frames, lives int) (err error) {
	if len(o.rtlAt) != 1 {
		return fmt.Errorf("rtl-at: got %s, want one switch: an adversary plays against one engine", o.RTLAt)
	}
	cfg, err := o.engineConfig(o.RTLAt)
	if err != nil {
		return err
	}
	r, err := startRTL(ctx, o, o.rtlAt[0], nil)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := r.close(); err == nil {
			err = cerr
		}
	}()
	defer func() {
		if err != nil {
			rep.take(r)
			rep.Clocks = r.engine.Clock()
		}
	}()
	a := &adversary{rtl: r, cfg: cfg, rng: rand.New(rand.NewPCG(o.Seed, 0x66757a7a)), at: map[uint32]int{},
		in: make([]spec.Record, len(cfg.Endpoints)), out: make([]spec.Record, len(cfg.Endpoints)),
		pipe: make([]spec.Record, len(cfg.Pipes)), next: make([]psn.PSN, len(cfg.Endpoints)), silent: make([]bool, len(cfg.Endpoints)), spoilSignals: 48}
	if o.badSignals {
		a.spoilSignals = 3
	}
	if a.plan, err = table.NewPlan(cfg, r.tables.Capabilities()); err != nil {
		return err
	}
	for i := range cfg.Endpoints {
		a.at[uint32(a.plan.EndpointIndex(i))] = i
	}
	for life := range lives {
		if a.life = uint64(life); life > 0 {
			if err := a.rebind(ctx); err != nil {
				return err
			}
		}
		a.born()
		if err := a.live(ctx, frames); err != nil {
			return err
		}
		if err := a.die(ctx); err != nil {
			return err
		}
		say(o.Progress, "  life %d of %d: clock %d, %d frames in", life+1, lives, r.engine.Clock(), r.board.Stats().FramesIn)
	}
	rep.SumEqual = true // every frame out was golden's; there is no other result
	return finish(ctx, rep, r)
}

// engineConfig makes the engine of a switch, for a run with RDMA WRITEs with memory at every peer: groups have none.
func (o *Options) engineConfig(name string) (engine.Config, error) {
	cfg, err := o.set.EngineConfig(name)
	if o.writes {
		for i := range cfg.Endpoints {
			n := uint64(i)
			cfg.Endpoints[i].Rewrite = &engine.Rewrite{InVA: 0x7f12_3456_789a_0000 + n<<44, OutVA: 0xfedc_ba98_7654_3000 - n<<36,
				RKey: 0x8f3e_5d1a + uint32(n)<<16}
		}
	}
	return cfg, err
}

// born sets what is known of an engine that has just been programmed.
func (a *adversary) born() {
	for i, ep := range a.cfg.Endpoints {
		before := uint32(psn.Add(ep.PSN0, -1))
		a.in[i] = spec.Record{EPSN: uint32(ep.PSN0)}
		a.out[i] = spec.Record{LastAcked: before, SentMax: before}
		a.next[i], a.silent[i] = ep.PSN0, false
	}
	for p := range a.cfg.Pipes {
		a.pipe[p] = spec.Record{PSNStart: uint32(a.cfg.Pipes[p].PSN0), NextSend: uint32(a.cfg.Pipes[p].PSN0),
			ControlPSN: uint32(a.cfg.Pipes[p].PSN0)}
	}
}

// bindSeen is how many slots, a clock each, are cleared at most before the answer to the write that began it
// has been read.
const bindSeen = 128

// rebind writes every entry again. Frames that were driven before meet the engine while it does.
func (a *adversary) rebind(ctx context.Context) error {
	tables := a.rtl.tables
	for i := range a.cfg.Endpoints {
		if err := tables.WriteEntry(ctx, a.plan.EndpointIndex(i), a.plan.Endpoint(i)); err != nil {
			return err
		}
	}
	for p := range a.cfg.Pipes {
		a.born()
		for range 4 {
			if err := a.drive(); err != nil {
				return err
			}
		}
		if err := tables.WriteEntry(ctx, p, a.plan.Pipe(p)); err != nil {
			return err
		}
		if a.cfg.Pipes[p].N > bindSeen { // its valid walk is still on: frames meet it
			for range 4 {
				if err := a.drive(); err != nil {
					return err
				}
			}
			if err := a.step(ctx); err != nil {
				return err
			}
		}
		if err := tables.WaitBound(ctx, p); err != nil {
			return err
		}
	}
	return a.window(ctx)
}

// live drives frames, in bursts with pauses between them, until there were enough or a pipe is in error.
func (a *adversary) live(ctx context.Context, frames int) error {
	for frames > 0 && !a.failed() {
		if a.rng.IntN(8) == 0 { // another mood
			for i := range a.silent {
				a.silent[i] = a.rng.IntN(8) == 0
			}
		}
		for range min(frames, a.rng.IntN(12)) {
			if err := a.drive(); err != nil {
				return err
			}
			frames--
		}
		quiet := 1
		if a.rng.IntN(24) == 0 {
			quiet = 1 + a.rng.IntN(12) // timers expire
		}
		for range quiet {
			if err := a.step(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// die brings every pipe into error and the engine to rest, and compares what it shows of itself.
func (a *adversary) die(ctx context.Context) error {
	how := a.rng.IntN(3)
	for waits := 0; ; waits++ {
		if waits > fuzzMostWaits {
			return fmt.Errorf("%w: %d grants of %d clocks after its life: %w", ErrDifference, waits, fuzzQuantum, a.unrest())
		}
		done := true
		for p := range a.cfg.Pipes {
			if a.pipe[p].PipeError != 0 {
				continue
			}
			if a.cfg.Pipes[p].Mode == 2 && len(a.cfg.Pipes[p].Ins) == 1 { // nothing can go wrong with it
				continue
			}
			done = false
			if waits%64 == 0 { // a frame may come at the wrong time and do nothing
				if err := a.harm(p, how); err != nil {
					return err
				}
				how++
			}
		}
		if done {
			break
		}
		if err := a.step(ctx); err != nil {
			return err
		}
	}
	for range 12 {
		if err := a.drive(); err != nil {
			return err
		}
	}
	for waits := 0; waits == 0 || a.unrest() != nil; waits++ {
		if waits > fuzzMostWaits {
			return fmt.Errorf("%w: the engine does not come to rest: %w", ErrDifference, a.unrest())
		}
		if err := a.step(ctx); err != nil {
			return err
		}
	}
	for p := range a.pipe { // what is not in error is drained once its manager says so
		if a.pipe[p].PipeError == 0 {
			if err := a.rtl.tables.WriteEntry(ctx, p, &spec.PipeCtl{Quiesced: true}); err != nil {
				return err
			}
			if err := a.step(ctx); err != nil {
				return err
			}
		}
	}
	if a.failed() {
		if err := a.fault(ctx); err != nil {
			return err
		}
	}
	return a.rtl.board.Finish(ctx, a.rtl.tables)
}

// unrest says what keeps the engine from being at rest, nil if nothing does.
func (a *adversary) unrest() error {
	if n := a.rtl.board.Outstanding(); n > 0 {
		return fmt.Errorf("%d timers run", n)
	}
	return a.rtl.board.Quiescent()
}

// harm sends what brings a pipe into error, if the pipe listens at present.
func (a *adversary) harm(p, how int) error {
	pipe := a.cfg.Pipes[p]
	if pipe.Mode == 2 {
		how = 0 // the others are the hosts' to see
	}
	switch how % 3 {
	case 0: // contributions to one slot that do not agree in one field
		at := psn.PSN(a.pipe[p].NextSend)
		for n, i := range pipe.Ins {
			pkt := a.data(i, at)
			if pkt.HasRETH() { // not another opcode: most slots have contributions already
				if n%2 == 1 && a.rng.IntN(2) == 0 {
					pkt.VA ^= 1 << a.rng.IntN(64)
				} else if n%2 == 1 {
					pkt.DMALength ^= 1 << a.rng.IntN(32)
				}
				if err := a.send(a.cfg.Endpoints[i].Port, pkt.Encode(), false); err != nil {
					return err
				}
				continue
			}
			pkt.Opcode, pkt.Imm, pkt.Payload = spec.OpcodeSendOnlyImm, 7, make([]byte, 8)
			if n%2 == 1 {
				switch a.rng.IntN(3) {
				case 0:
					pkt.Opcode = spec.OpcodeSendLastImm
				case 1:
					pkt.Payload = pkt.Payload[:4]
				case 2:
					pkt.Imm = 8
				}
			}
			if err := a.send(a.cfg.Endpoints[i].Port, pkt.Encode(), false); err != nil {
				return err
			}
		}
	case 1: // a fatal NAK of any code
		i := pipe.Outs[a.rng.IntN(len(pipe.Outs))]
		pkt := a.ack(i, psn.Add(psn.PSN(a.out[i].LastAcked), 1))
		pkt.Syndrome = 0x61 + uint8(a.rng.IntN(4))
		return a.send(a.cfg.Endpoints[i].Port, pkt.Encode(), false)
	}
	return nil // silence: if something is outstanding, the retries run out
}

// fault compares the first error that the engine shows in its registers with golden's.
func (a *adversary) fault(ctx context.Context) error {
	got, ok, err := a.rtl.tables.Fault(ctx)
	if err != nil {
		return err
	}
	if !ok || got.Pipe >= len(a.cfg.Pipes) {
		return fmt.Errorf("%w: first error: got %v (valid %v), want that of a pipe in error", ErrDifference, got, ok)
	}
	f := a.rtl.board.Fault(got.Pipe)
	want := table.Fault{Kind: f.Kind, Pipe: got.Pipe, Endpoint: a.plan.EndpointIndex(f.Endpoint), PSN: uint32(f.PSN), Got: f.Got, Wanted: f.Wanted}
	if got != want {
		return fmt.Errorf("%w: first error: got %v, want %v", ErrDifference, got, want)
	}
	return a.rtl.tables.ClearFault(ctx)
}

func (a *adversary) failed() bool {
	for p := range a.pipe {
		if a.pipe[p].PipeError != 0 {
			return true
		}
	}
	return false
}

// step grants a quantum, and takes what happened.
func (a *adversary) step(ctx context.Context) error {
	if err := a.rtl.engine.Grant(a.rtl.engine.Granted() + fuzzQuantum); err != nil {
		return err
	}
	return a.window(ctx)
}

func (a *adversary) window(ctx context.Context) error {
	w, err := a.rtl.window(ctx)
	if err != nil {
		return err
	}
	for i := range w.Records {
		r := &w.Records[i]
		if e, ok := a.at[r.Endpoint]; ok && r.Groups&spec.GroupRx != 0 {
			a.in[e] = *r
		}
		if e, ok := a.at[r.Endpoint]; ok && r.Groups&spec.GroupTx != 0 {
			a.out[e] = *r
		}
		if r.Groups&spec.GroupPipe != 0 {
			a.pipe[r.PipeID] = *r
		}
	}
	return nil
}

func (a *adversary) send(port int, frame []byte, macError bool) error {
	return a.rtl.driveMAC(a.rtl.engine.Granted(), port, frame, macError)
}

// drive sends one frame of any kind.
func (a *adversary) drive() error {
	i := a.rng.IntN(len(a.cfg.Endpoints))
	var pkt *roce.Packet
	if a.contributes(i) {
		pkt = a.data(i, a.sequence(i))
	} else {
		pkt = a.answer(i)
	}
	port, frame, macError := a.cfg.Endpoints[i].Port, []byte(nil), false
	if a.rng.IntN(4) == 0 {
		port, frame, macError = a.spoil(i, pkt)
	} else if a.silent[i] && pkt.HasAETH() && a.out[i].Retries < 5 { // not to the end: that is for die
		return nil
	} else {
		frame = a.dress(pkt)
	}
	return a.send(port, frame, macError)
}

// contributes says whether data or an answer is to come at an endpoint. One that is ahead of the others waits
// for them, mostly.
func (a *adversary) contributes(i int) bool {
	ep := a.cfg.Endpoints[i]
	if ep.InPipe == engine.None || ep.OutPipe == engine.None {
		return ep.OutPipe == engine.None
	}
	pipe, last := a.cfg.Pipes[ep.InPipe], psn.PSN(a.in[i].EPSN)
	if pipe.Mode == 2 {
		return a.rng.IntN(4) > 0
	}
	for _, other := range pipe.Ins {
		last = psn.Min(last, psn.PSN(a.in[other].EPSN))
	}
	ahead := psn.Sub(psn.PSN(a.in[i].EPSN), last)
	full := psn.Sub(psn.PSN(a.in[i].EPSN), psn.PSN(a.pipe[ep.InPipe].PSNStart)) >= pipe.N
	if full || ahead > a.rng.IntN(pipe.N) {
		return a.rng.IntN(8) == 0
	}
	return a.rng.IntN(3) > 0
}

// aroundC chooses the psn of a contribution to a Mode-II pipe, from what has been completed.
func (a *adversary) aroundC(i int) psn.PSN {
	pipe := &a.cfg.Pipes[a.cfg.Endpoints[i].InPipe]
	c := psn.PSN(a.pipe[a.cfg.Endpoints[i].InPipe].NextSend)
	if len(pipe.Ins) == 1 {
		c = a.next[i]
	}
	switch p := a.rng.IntN(100); {
	case p < 4: // around the oldest psn of the window
		return psn.Add(c, -pipe.N/2-2+a.rng.IntN(4))
	case p < 8: // around the newest
		return psn.Add(c, pipe.N/2-2+a.rng.IntN(4))
	case p < 9:
		return psn.Add(c, a.rng.IntN(1<<24))
	case p < 25: // again
		return psn.Add(a.next[i], -1-a.rng.IntN(pipe.N))
	case p < 30: // a gap
		a.next[i] = psn.Add(a.next[i], 1)
	case p < 38: // as a sender does that has waited in vain
		a.next[i] = psn.Add(c, -a.rng.IntN(3))
	}
	if psn.Sub(a.next[i], c) >= pipe.N/2 && a.rng.IntN(8) > 0 {
		a.next[i] = c // it waits for its window
	}
	k := a.next[i]
	a.next[i] = psn.Add(k, 1)
	return k
}

// sequence chooses the psn of a contribution.
func (a *adversary) sequence(i int) psn.PSN {
	in, pipe := &a.in[i], a.cfg.Endpoints[i].InPipe
	if a.cfg.Pipes[pipe].Mode == 2 {
		return a.aroundC(i)
	}
	start, slots := psn.PSN(a.pipe[pipe].PSNStart), a.cfg.Pipes[pipe].N
	epsn := psn.PSN(in.EPSN)
	switch p := a.rng.IntN(100); {
	case p < 3: // acknowledged downstream long ago
		return psn.Add(start, -1-a.rng.IntN(4))
	case p < 6: // just beyond the window, or at its very end
		return psn.Add(start, slots-1+a.rng.IntN(4))
	case p < 7: // anything, the middle of the number space too
		return psn.Add(start, a.rng.IntN(1<<24))
	case p < 8:
		return psn.Add(start, 1<<23-1+a.rng.IntN(3))
	case p < 20: // again, or what is missing
		return psn.Add(epsn, a.rng.IntN(4)-2)
	case p < 28: // a gap
		a.next[i] = psn.Add(a.next[i], 1)
	case p < 36: // as a sender does after a NAK
		a.next[i] = epsn
	}
	if psn.Sub(a.next[i], start) >= slots && a.rng.IntN(4) > 0 {
		a.next[i] = epsn // it waits for its window
	}
	p := a.next[i]
	a.next[i] = psn.Add(p, 1)
	return p
}

// data is the contribution of an endpoint at a psn. All contributions of a psn agree in what must agree.
func (a *adversary) data(i int, p psn.PSN) *roce.Packet {
	pkt := a.header(i)
	mtu, dtype := 256, spec.DTypeInt32
	if pipe := a.cfg.Endpoints[i].InPipe; pipe != engine.None {
		mtu, dtype = a.cfg.Pipes[pipe].MTU, a.cfg.Pipes[pipe].DType
	}
	kind := rand.New(rand.NewPCG(uint64(p), a.life))
	pkt.Opcode = []spec.Opcode{spec.OpcodeSendFirst, spec.OpcodeSendMiddle, spec.OpcodeSendLast, spec.OpcodeSendLastImm,
		spec.OpcodeSendOnly, spec.OpcodeSendOnlyImm}[kind.IntN(6)]
	if rewrite := a.cfg.Endpoints[i].Rewrite; rewrite != nil && kind.IntN(2) == 0 {
		pkt.Opcode += spec.OpcodeWriteFirst - spec.OpcodeSendFirst
		pkt.VA, pkt.RKey, pkt.DMALength = rewrite.InVA+kind.Uint64(), a.rng.Uint32(), kind.Uint32()
	}
	size, unit := mtu, expect.Element(dtype)
	switch pkt.Opcode {
	case spec.OpcodeSendLast, spec.OpcodeSendLastImm, spec.OpcodeWriteLast, spec.OpcodeWriteLastImm:
		size = unit * (1 + kind.IntN(mtu/unit))
	case spec.OpcodeSendOnly, spec.OpcodeSendOnlyImm, spec.OpcodeWriteOnly, spec.OpcodeWriteOnlyImm:
		size = unit * kind.IntN(1+mtu/unit)
	}
	if pkt.HasImm() {
		pkt.Imm = kind.Uint32()
	}
	pkt.PSN, pkt.AckReq, pkt.SE = p, a.rng.IntN(3) == 0, a.rng.IntN(8) == 0
	if pipe := a.cfg.Endpoints[i].InPipe; pipe != engine.None && a.cfg.Pipes[pipe].Unpinned && uint32(p) == a.pipe[pipe].ControlPSN &&
		a.rng.IntN(64) > 0 {
		a.control(pkt, &a.cfg.Pipes[pipe], kind)
		return pkt
	}
	pkt.Payload = make([]byte, size)
	for n := range pkt.Payload {
		pkt.Payload[n] = byte(a.rng.Uint32())
	}
	nearby(a.rng, dtype, pkt.Payload)
	return pkt
}

// control makes a packet the control signal that opens the next window of a pipe, the same from every in: kind
// says which. Few are spoiled, in one field.
func (a *adversary) control(pkt *roce.Packet, pipe *engine.Pipe, kind *rand.Rand) {
	signal := roce.Control{Type: pipe.Coll, Op: pipe.Op, DType: pipe.DType, Bytes: uint64(kind.IntN(6 * pipe.MTU)), Sequence: kind.Uint64()}
	if kind.IntN(4) == 0 && pipe.Coll == spec.CollTypeAllreduce {
		signal.Type, signal.Bytes = spec.CollTypeBarrier, 0
	}
	if pipe.Coll == spec.CollTypeReduce || pipe.Coll == spec.CollTypeBroadcast {
		signal.Root = uint16(pipe.Root)
	}
	if pipe.Reproducible {
		signal.Flags = spec.ControlReproducible
	}
	if a.rng.IntN(a.spoilSignals) == 0 {
		switch a.rng.IntN(8) {
		case 0:
			signal.Type ^= spec.CollType(1 << a.rng.IntN(4))
		case 1:
			signal.Op = spec.Op(a.rng.IntN(16))
		case 2:
			signal.DType = spec.DType(7 + a.rng.IntN(9))
		case 3:
			signal.Flags ^= 1 << a.rng.IntN(4)
		case 4:
			signal.Root ^= 1 << a.rng.IntN(16)
		case 5:
			signal.Bytes ^= 1 << a.rng.IntN(64)
		case 6:
			signal.Sequence ^= 1 << a.rng.IntN(64)
		case 7:
			signal.Bytes = uint64(pipe.MTU)<<22 + uint64(a.rng.IntN(2))
		}
	}
	pkt.Opcode, pkt.Imm, pkt.Payload = spec.OpcodeSendOnlyImm, signal.Imm(), signal.Payload()
	if a.rng.IntN(64) == 0 {
		pkt.Payload = pkt.Payload[:12]
	}
}

// nearby gives most floats of a payload one of few exponents, some at the ends of the range: of random bits the larger
// of two elements mostly is the sum. NaNs and infinities are among them. Integers stay as they are.
func nearby(r *rand.Rand, dtype spec.DType, payload []byte) {
	var fraction, top uint16 // bits of the element's upper 16, and the largest exponent
	switch dtype {
	case spec.DTypeFloat32, spec.DTypeBfloat16:
		fraction, top = 7, 255
	case spec.DTypeFloat16:
		fraction, top = 10, 31
	default:
		return
	}
	for at := expect.Element(dtype); at <= len(payload); at += expect.Element(dtype) {
		high := payload[at-2 : at]
		e := uint16(r.UintN(4))
		switch r.IntN(8) {
		case 0, 1: // subnormals among them
		case 2:
			e = top - e
		case 3:
			continue
		default:
			e += top / 2
		}
		x := binary.LittleEndian.Uint16(high)
		binary.LittleEndian.PutUint16(high, x&^(top<<fraction)|e<<fraction)
	}
}

// ack is a plain ACK at an endpoint.
func (a *adversary) ack(i int, p psn.PSN) *roce.Packet {
	pkt := a.header(i)
	pkt.Opcode, pkt.PSN, pkt.Syndrome, pkt.MSN = spec.OpcodeAcknowledge, p, uint8(a.rng.IntN(spec.SyndromeRNR)), a.rng.Uint32()&psn.Mask
	return pkt
}

// answer is an ACK or NAK, mostly of something that is outstanding.
func (a *adversary) answer(i int) *roce.Packet {
	last, most := psn.PSN(a.out[i].LastAcked), psn.PSN(a.out[i].SentMax)
	outstanding := psn.Sub(most, last)
	var p psn.PSN
	switch n := a.rng.IntN(100); {
	case n < 6:
		p = psn.Add(last, -a.rng.IntN(4)) // known already
	case n < 14:
		p = psn.Add(most, a.rng.IntN(4)) // the last one, or never sent
	case n < 16:
		p = psn.Add(last, a.rng.IntN(1<<24))
	default:
		p = psn.Add(last, 1+a.rng.IntN(max(1, outstanding)))
	}
	pkt := a.ack(i, p)
	switch n := a.rng.IntN(100); {
	case n < 14:
		pkt.Syndrome = spec.SyndromeNakSequence
	case n < 22:
		pkt.Syndrome = spec.SyndromeRNR | uint8(1+a.rng.IntN(6)) // code 0 is the longest of all
	case n < 25 && a.cfg.Pipes[a.cfg.Endpoints[i].OutPipe].Mode == 2: // handed on; in Mode-III it is harm's, for it ends the life
		pkt.Syndrome = spec.SyndromeNakSequence + uint8(n-21)
	}
	return pkt
}

// header is what the peer of an endpoint sends before anything else, with any value in what is not checked.
func (a *adversary) header(i int) *roce.Packet {
	ep := a.cfg.Endpoints[i]
	pkt := &roce.Packet{DstMAC: ep.MAC, SrcMAC: ep.PeerMAC, Src: ep.PeerIP, Dst: ep.IP, TOS: uint8(a.rng.Uint32()) &^ 3, TTL: uint8(a.rng.Uint32()),
		SrcPort: uint16(a.rng.Uint32()), PKey: ep.PKey | fullMember, DestQP: ep.QPN, MigReq: a.rng.IntN(2) == 0,
		FECN: a.rng.IntN(2) == 0, BECN: a.rng.IntN(2) == 0, Resv6: uint8(a.rng.IntN(64)), Resv7: uint8(a.rng.IntN(128))}
	if a.rng.IntN(8) == 0 {
		pkt.TOS |= 3
	}
	if a.rng.IntN(8) == 0 {
		pkt.DstMAC[5] ^= 0x55
	}
	if pkt.IsV6() {
		pkt.FlowLabel = a.rng.Uint32() & 0xfffff
	} else {
		pkt.IPID, pkt.DF = uint16(a.rng.Uint32()), a.rng.IntN(2) == 0
	}
	for range max(0, a.rng.IntN(6)-3) {
		pkt.VLAN = append(pkt.VLAN, roce.VLANTag{TPID: []uint16{spec.EtherTypeVLAN, spec.EtherTypeQinQ}[a.rng.IntN(2)], TCI: uint16(a.rng.Uint32())})
	}
	return pkt
}

// dress encodes a packet as it may come: with a checksum, padding and trailers.
func (a *adversary) dress(pkt *roce.Packet) []byte {
	frame := pkt.Encode()
	if a.rng.IntN(6) == 0 {
		setUDPChecksum(frame, pkt)
	}
	if a.rng.IntN(6) == 0 {
		for range 1 + a.rng.IntN(40) {
			frame = append(frame, byte(a.rng.Uint32()))
		}
	}
	return frame
}
