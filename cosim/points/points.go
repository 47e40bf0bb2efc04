// Package points says what can happen in an engine, and counts what did, from the records that the scoreboard has
// found right: functional coverage. All lists every point; never.yaml those of them that cannot happen, with the
// reason. What happens without being a point is a mistake here, and panics.
package points

import (
	_ "embed" // never.yaml
	"fmt"
	"path"
	"slices"

	"github.com/goccy/go-yaml"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

//go:embed never.yaml
var neverFile []byte

// Counts is how often each point happened, by its name.
type Counts map[string]uint64

// Add adds other counts.
func (c Counts) Add(o Counts) {
	for name, n := range o {
		c[name] += n
	}
}

// Modes of an RTL engine's pipes.
var modes = []string{"mode2", "mode3"}

// What crosses the end of the PSN space, and what a pipe has at its boundaries.
var (
	wraps    = []string{"data", "ack", "nak", "advance", "release", "recycle", "send", "resend", "ack_out", "forward"}
	bounds   = []string{"first taken", "last taken", "first refused below", "first refused above", "all sent unacknowledged"}
	filling  = []string{"started", "added in the middle", "completed", "completed at once", "beyond a gap", "duplicate of an incomplete", "duplicate of a complete"}
	hazards  = []string{"same slot within 16 clocks", "answer between contributions", "two records in one clock", "same in twice in a row"}
	frames   = []string{"ipv4", "ipv6", "vlan", "no payload", "full payload", "odd payload", "solicited", "congestion experienced"}
	answers  = []string{"ack", "nak", "rnr", "fatal", "cnp", "result"}
	timeouts = []string{"first", "later", "last", "rnr"}
	received = []string{"ack", "nak_sequence", "nak_invalid", "nak_access", "nak_operation", "rnr"}
)

// otherType is a hazard of two pipes, of whatever modes.
const otherType = "other type within 32 clocks"

// All lists every point, those of never.yaml too, in a fixed order.
func All() []string {
	var all []string
	add := func(format string, names ...string) {
		for _, name := range names {
			all = append(all, fmt.Sprintf(format, name))
		}
	}
	verdicts := names(spec.Verdict.Valid)
	add("verdict/%s", verdicts...)
	for _, mode := range modes {
		for _, way := range []string{"contribution", "answer"} {
			add("frame/"+mode+"/"+way+"/%s", verdicts...)
		}
	}
	for _, mode := range modes {
		add("cause/"+mode+"/%s", names(spec.Cause.Valid)...)
		for op := range 256 {
			if info, ok := spec.Opcode(op).Info(); ok && info.Kind == spec.KindData {
				add("opcode/"+mode+"/%s", spec.Opcode(op).String())
			}
		}
		add("received/"+mode+"/%s", received...)
		add("sent/"+mode+"/%s", answers...)
		add("error/"+mode+"/%s", names(spec.ErrorKind.Valid)[1:]...)
		add("wrap/"+mode+"/%s", wraps...)
		add("window/"+mode+"/%s", bounds...)
		add("slot/"+mode+"/%s", filling...)
		add("hazard/"+mode+"/%s", hazards...)
		add("timeout/"+mode+"/%s", timeouts...)
		add("poisoned/%s", mode)
		add("control/"+mode+"/%s", names(spec.CollType.Valid)...)
	}
	add("type/%s", names(spec.DType.Valid)...)
	add("op/%s", names(spec.Op.Valid)...)
	add("taken/%s", frames...)
	add("hazard/%s", otherType)
	return all
}

// names are those of an enumeration that begins at 0.
func names[T interface {
	~uint8 | ~uint32
	fmt.Stringer
}](valid func(T) bool) (list []string) {
	for v := T(0); valid(v); v++ {
		list = append(list, v.String())
	}
	return list
}

// Never are the points that cannot happen, each with the reason.
func Never() (map[string]string, error) { return never(neverFile) }

func never(file []byte) (map[string]string, error) {
	var list []struct {
		Points []string
		Reason string
	}
	if err := yaml.UnmarshalWithOptions(file, &list, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("never.yaml: %w", err)
	}
	all, reasons := All(), map[string]string{}
	for _, l := range list {
		if l.Reason == "" {
			return nil, fmt.Errorf("never.yaml: %v: got no reason, want one", l.Points)
		}
		for _, pattern := range l.Points {
			found := false
			for _, name := range all {
				ok, err := path.Match(pattern, name)
				if err != nil {
					return nil, fmt.Errorf("never.yaml: %s: %w", pattern, err)
				}
				if !ok {
					continue
				}
				if found = true; reasons[name] != "" {
					return nil, fmt.Errorf("never.yaml: %s: got two reasons, want one", name)
				}
				reasons[name] = l.Reason
			}
			if !found {
				return nil, fmt.Errorf("never.yaml: %s: no such point", pattern)
			}
		}
	}
	return reasons, nil
}

// Collector counts the points of one engine.
type Collector struct {
	counts Counts
	known  map[string]bool
	pipes  []engine.Pipe
	byQPN  map[uint32]engine.Endpoint

	state    []spec.Record // by pipe: the last record with its state
	psns     map[place]uint32
	last     [2]spec.Record // the last two frames that retired
	slotAt   map[slot]uint64
	dtype    spec.DType
	dtypeAt  uint64
	clock    uint64
	anything bool
}

type place struct {
	cause    spec.Cause
	pipe, ep uint32
}

type slot struct{ pipe, number uint32 }

// NewCollector counts for an engine that has just been programmed.
func NewCollector(cfg *engine.Config) *Collector {
	c := &Collector{counts: Counts{}, known: map[string]bool{}, pipes: cfg.Pipes, byQPN: map[uint32]engine.Endpoint{},
		state: make([]spec.Record, len(cfg.Pipes)), psns: map[place]uint32{}, slotAt: map[slot]uint64{}}
	for _, name := range All() {
		c.known[name] = true
	}
	for _, e := range cfg.Endpoints {
		c.byQPN[e.QPN] = e
	}
	for p := range cfg.Pipes {
		c.state[p] = spec.Record{PSNStart: uint32(cfg.Pipes[p].PSN0), NextSend: uint32(cfg.Pipes[p].PSN0)}
	}
	return c
}

// Counts are those so far.
func (c *Collector) Counts() Counts { return c.counts }

func (c *Collector) hit(words ...string) {
	name := path.Join(words...)
	if !c.known[name] {
		panic("points: " + name + " happened, and is no point")
	}
	c.counts[name]++
}

func (c *Collector) mode(pipe int) string { return fmt.Sprintf("mode%d", c.pipes[pipe].Mode) }

// Record counts what one record tells. The packets are that which arrived and that which left, nil if there is none;
// fault is what put the pipe in error, if this event did.
func (c *Collector) Record(r *spec.Record, in, out *roce.Packet, fault spec.ErrorKind) {
	frame := r.Cause == spec.CauseDrop || r.Cause == spec.CauseData || r.Cause == spec.CauseAck || r.Cause == spec.CauseNak || r.Cause == spec.CauseCNP
	if frame || r.Verdict == spec.VerdictPoisoned {
		c.hit("verdict", r.Verdict.String())
	}
	if frame && in != nil {
		c.frame(r, in)
	}
	if r.Cause == spec.CauseDrop || r.Cause == spec.CauseTableWrite && r.Groups&spec.GroupPipe == 0 {
		return // of no pipe
	}
	pipe := int(r.PipeID)
	mode, p := c.mode(pipe), &c.pipes[pipe]
	c.hit("cause", mode, r.Cause.String())
	if fault != spec.ErrorKindNone {
		c.hit("error", mode, fault.String())
	}
	if c.anything && r.Clock == c.clock {
		c.hit("hazard", mode, hazards[2])
	}
	c.anything, c.clock = true, r.Clock
	c.wrap(r, mode)
	switch r.Cause {
	case spec.CauseData:
		c.window(r, pipe, mode)
		c.data(r, in, p, mode)
	case spec.CauseAck, spec.CauseNak:
		if r.Verdict == spec.VerdictOk {
			c.hit("received", mode, answerName(in.Syndrome))
		}
	case spec.CauseTimer:
		switch {
		case int(r.Retries) > p.Retries || r.EpError != 0:
			c.hit("timeout", mode, timeouts[2])
		case r.Retries == 1:
			c.hit("timeout", mode, timeouts[0])
		default:
			c.hit("timeout", mode, timeouts[1])
		}
	case spec.CauseRNRExpiry:
		c.hit("timeout", mode, timeouts[3])
	}
	if r.Verdict == spec.VerdictPoisoned {
		c.hit("poisoned", mode)
	} else if out != nil {
		c.sent(out, mode)
	}
	if r.Groups&spec.GroupPipe != 0 {
		c.pipeState(r, pipe, mode)
	}
	if frame {
		c.neighbours(r, p, mode)
	}
}

// frame counts the cross of verdict, mode and way; of a frame whose endpoint is not known, or for which the bypass has
// no room, there is none.
func (c *Collector) frame(r *spec.Record, in *roce.Packet) {
	info, _ := r.Verdict.Info()
	e, ok := c.byQPN[in.DestQP]
	if !ok || info.Stage == spec.StageWire && r.Verdict != spec.VerdictOk || r.Verdict == spec.VerdictBypassFull {
		return
	}
	op, _ := in.Opcode.Info()
	way, pipe, other := "answer", e.OutPipe, e.InPipe
	if op.Kind == spec.KindData {
		way, pipe, other = "contribution", e.InPipe, e.OutPipe
	}
	if pipe == engine.None {
		pipe = other
	}
	if pipe != engine.None {
		c.hit("frame", c.mode(pipe), way, r.Verdict.String())
	}
}

func answerName(syndrome uint8) string {
	switch {
	case syndrome&^0x1f == spec.SyndromeRNR:
		return received[5]
	case syndrome&^0x1f == spec.SyndromeNakSequence:
		return received[1+int(syndrome&0x1f)]
	}
	return received[0]
}

// sent counts what left.
func (c *Collector) sent(out *roce.Packet, mode string) {
	op, _ := out.Opcode.Info()
	switch {
	case op.Kind == spec.KindData:
		c.hit("sent", mode, answers[5])
	case op.Kind == spec.KindCNP:
		c.hit("sent", mode, answers[4])
	case out.Syndrome&^0x1f == spec.SyndromeRNR:
		c.hit("sent", mode, answers[2])
	case out.Syndrome == spec.SyndromeNakSequence:
		c.hit("sent", mode, answers[1])
	case out.Syndrome&^0x1f == spec.SyndromeNakSequence:
		c.hit("sent", mode, answers[3])
	default:
		c.hit("sent", mode, answers[0])
	}
}

// wrap counts what goes on from the last PSNs to the first.
func (c *Collector) wrap(r *spec.Record, mode string) {
	if !slices.Contains(wraps, r.Cause.String()) || r.Verdict != spec.VerdictOk {
		return
	}
	at := place{r.Cause, r.PipeID, r.Endpoint}
	if before, ok := c.psns[at]; ok && before >= 0xffff00 && r.PSN < 0x100 {
		c.hit("wrap", mode, r.Cause.String())
	}
	c.psns[at] = r.PSN
}

// window counts contributions at the boundaries of the window, which is that before the record: nothing of a
// contribution moves it in Mode-III, and in Mode-II the state that the last record left.
func (c *Collector) window(r *spec.Record, pipe int, mode string) {
	p, before := &c.pipes[pipe], &c.state[pipe]
	n, low := p.N, before.PSNStart
	if p.Mode == 2 {
		if len(p.Ins) == 1 {
			return // copies: no slot, no window
		}
		low = uint32(psn.Add(psn.PSN(before.NextSend), -(n / 2)))
	}
	switch k := psn.PSN(r.PSN); {
	case k == psn.PSN(low) && (r.Verdict == spec.VerdictOk || r.Verdict == spec.VerdictDuplicate):
		c.hit("window", mode, bounds[0])
	case k == psn.Add(psn.PSN(low), n-1) && r.Verdict == spec.VerdictOk:
		c.hit("window", mode, bounds[1])
	case k == psn.Add(psn.PSN(low), -1) && (r.Verdict == spec.VerdictBehind || r.Verdict == spec.VerdictStale):
		c.hit("window", mode, bounds[2])
	case k == psn.Add(psn.PSN(low), n) && (r.Verdict == spec.VerdictBeyond || r.Verdict == spec.VerdictStale):
		c.hit("window", mode, bounds[3])
	}
}

// data counts a contribution.
func (c *Collector) data(r *spec.Record, in *roce.Packet, p *engine.Pipe, mode string) {
	complete := int(r.Degree) == len(p.Ins)
	if r.Groups&spec.GroupSlot != 0 {
		switch {
		case r.Verdict == spec.VerdictDuplicate && complete:
			c.hit("slot", mode, filling[6])
		case r.Verdict == spec.VerdictDuplicate:
			c.hit("slot", mode, filling[5])
		case r.Verdict != spec.VerdictOk:
		case complete && r.Degree == 1:
			c.hit("slot", mode, filling[3])
		case complete:
			c.hit("slot", mode, filling[2])
		case r.Degree == 1:
			c.hit("slot", mode, filling[0])
		default:
			c.hit("slot", mode, filling[1])
		}
	}
	if r.Verdict != spec.VerdictOk {
		return
	}
	c.hit("opcode", mode, in.Opcode.String())
	if ahead := (r.PSN - r.EPSN) & 0xffffff; ahead != 0 && ahead < 0x800000 {
		c.hit("slot", mode, filling[4])
	}
	if len(p.Ins) > 1 && !p.Unpinned { // the types of an unpinned pipe are its control signals'
		c.hit("type", p.DType.String())
		c.hit("op", p.Op.String())
	}
	if c.dtypeAt != 0 && c.dtype != p.DType && r.Clock-c.dtypeAt <= 32 {
		c.hit("hazard", otherType)
	}
	c.dtype, c.dtypeAt = p.DType, r.Clock
	at := slot{r.PipeID, r.Slot}
	if before, ok := c.slotAt[at]; ok && r.Clock-before <= 16 {
		c.hit("hazard", mode, hazards[0])
	}
	c.slotAt[at] = r.Clock
	shape := map[string]bool{frames[0]: !in.IsV6(), frames[1]: in.IsV6(), frames[2]: len(in.VLAN) > 0, frames[3]: len(in.Payload) == 0,
		frames[4]: len(in.Payload) == p.MTU, frames[5]: in.Pad() != 0, frames[6]: in.SE, frames[7]: in.CE()}
	for name, is := range shape {
		if is {
			c.hit("taken", name)
		}
	}
}

// pipeState counts the states of a pipe, and keeps the last.
func (c *Collector) pipeState(r *spec.Record, pipe int, mode string) {
	p, before := &c.pipes[pipe], &c.state[pipe]
	if p.Mode == 3 && r.Cause == spec.CauseRelease && int((r.NextSend-r.PSNStart)&0xffffff) == p.N {
		c.hit("window", mode, bounds[4])
	}
	*before = *r
}

// neighbours counts frames that follow one another closely.
func (c *Collector) neighbours(r *spec.Record, p *engine.Pipe, mode string) {
	data := func(r *spec.Record) bool { return r.Cause == spec.CauseData && r.Verdict == spec.VerdictOk }
	answer := c.last[1].Cause == spec.CauseAck || c.last[1].Cause == spec.CauseNak
	if data(r) && answer && c.last[1].Verdict == spec.VerdictOk && data(&c.last[0]) && r.PipeID == c.last[0].PipeID && r.Clock-c.last[0].Clock <= 64 {
		c.hit("hazard", mode, hazards[1])
	}
	if data(r) && data(&c.last[1]) && r.Endpoint == c.last[1].Endpoint {
		c.hit("hazard", mode, hazards[3])
	}
	c.last[0], c.last[1] = c.last[1], *r
}

// Opened counts a window that a control signal opened, or a Barrier that is over.
func (c *Collector) Opened(pipe int, coll spec.CollType) {
	c.hit("control", c.mode(pipe), coll.String())
}
