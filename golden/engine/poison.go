package engine

import (
	"errors"
	"fmt"

	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// poisons says that the event is the end of a result that began to leave too early.
func (ev Event) poisons() bool {
	return ev.Verdict == spec.VerdictPoisoned && (ev.Cause == spec.CauseSend || ev.Cause == spec.CauseForward)
}

// poison: hardware that cuts through began to send, at out ev.Endpoint, the result that frame ev.Packet
// completed, and then found the frame bad (protocol.md 3). The result leaves poisoned and no state moves.
func (e *Engine) poison(ev Event) {
	out, err := e.spoiled(ev)
	if err != nil {
		panic(err) // the caller did not ask Legal
	}
	r := e.record()
	r.Verdict = spec.VerdictPoisoned
	r.PipeID, r.Endpoint, r.PSN, r.Slot = out.Record.PipeID, out.Record.Endpoint, out.Record.PSN, out.Record.Slot
	e.step = append(e.step, Output{Kind: Frame, Endpoint: ev.Endpoint, Port: out.Port, Packet: out.Packet, Poisoned: true})
}

// spoiled is what would have left first at out ev.Endpoint had the frame been good. The frame must complete a
// slot whose result would then be next there.
func (e *Engine) spoiled(ev Event) (Output, error) {
	if ev.Packet == nil {
		return Output{}, errors.New("no frame says what was to leave")
	}
	if ev.Endpoint < 0 || ev.Endpoint >= len(e.endpoints) {
		return Output{}, fmt.Errorf("got endpoint %d, want 0..%d", ev.Endpoint, len(e.endpoints)-1)
	}
	would := e.Clone()
	r := would.Step(Event{Cause: spec.CauseDrop, Port: ev.Port, Packet: ev.Packet})[0].Record
	p := int(r.PipeID)
	if r.Cause != spec.CauseData || r.Verdict != spec.VerdictOk {
		return Output{}, fmt.Errorf("had the frame been good, it would be %v %v", r.Cause, r.Verdict)
	}
	switch e.cfg.Pipes[p].Mode {
	case 1:
		return Output{}, errors.New("Mode-I stores a message before any of it leaves")
	case 2:
		for len(e.forwards) == 0 && len(would.forwards) > 0 {
			if outs := would.Step(Event{Cause: spec.CauseForward}); outs[1].Endpoint == ev.Endpoint {
				return sent(outs, ev, ev.Packet)
			}
		}
		return Output{}, fmt.Errorf("psn %v would not be the next to leave there", ev.Packet.PSN)
	}
	for _, i := range e.cfg.Pipes[p].Ins {
		for would.canAdvance(i) {
			would.Step(Event{Cause: spec.CauseAdvance, Endpoint: i})
		}
	}
	for would.canRelease(p) {
		would.Step(Event{Cause: spec.CauseRelease, Pipe: p})
	}
	if would.outPipe(ev.Endpoint) != p || !would.canSend(ev.Endpoint) {
		return Output{}, fmt.Errorf("psn %v would not leave there", ev.Packet.PSN)
	}
	return sent(would.Step(Event{Cause: spec.CauseSend, Endpoint: ev.Endpoint}), ev, ev.Packet)
}

// sent is the frame of the outputs of a send or forward, with their record.
func sent(outs []Output, ev Event, pkt *roce.Packet) (Output, error) {
	r := outs[0].Record
	for _, o := range outs[1:] {
		if o.Kind == Frame && o.Packet.PSN == pkt.PSN && r.Cause == ev.Cause {
			o.Record = r
			return o, nil
		}
	}
	return Output{}, fmt.Errorf("psn %v would not be the next to leave there", pkt.PSN)
}
