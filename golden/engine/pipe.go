package engine

import (
	"fmt"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
)

// canAdvance: the psn that in i expects has arrived from it.
func (e *Engine) canAdvance(i int) bool {
	p := e.inPipe(i)
	if !e.running(p) || e.cfg.Pipes[p].Mode == 1 {
		return false
	}
	s, belongs := e.slotAt(p, e.endpoints[i].in.ePSN)
	return belongs && s.bitmap>>e.cfg.Endpoints[i].InIndex&1 != 0
}

// advance moves ePSN of in i by one, and asks for the ACK that is due.
func (e *Engine) advance(i int) {
	p, in := e.inPipe(i), &e.endpoints[i].in
	k := in.ePSN
	s, _ := e.slotAt(p, k)
	in.ePSN = e.space.Next(k)
	in.nakSent = false
	if op, _ := s.meta.opcode.Info(); op.Last {
		in.msn = (in.msn + 1) & psn.Mask
	}
	in.took(s.meta.ackReq, e.cfg.Pipes[p].AckEvery)
	e.retire(p, i, k)
	e.retireRx(i)
}

// took: ePSN has moved. It asks for the ACK that is due: one that its packet asked for, that of every n-th, and one
// in the place of any answer that waits, which ePSN has made wrong.
func (in *inState) took(asked bool, every int) {
	in.ackCount++
	if in.ackKind != spec.AckKindNone || in.ackCount >= every || asked {
		in.ackKind = spec.AckKindAck
		in.ackCount = 0
	}
}

// canRelease: slot nextSend is complete, and no in has a gap at or below it. Without the second
// condition the scan would later meet slots that were overwritten.
func (e *Engine) canRelease(p int) bool {
	if !e.running(p) {
		return false
	}
	if e.cfg.Pipes[p].Mode == 1 {
		return e.canReleaseMessage(p)
	}
	k, ins := e.pipes[p].nextSend, e.cfg.Pipes[p].Ins
	s, belongs := e.slotAt(p, k)
	if !belongs || s.degree < len(ins) {
		return false
	}
	if e.mistaken(ReleaseEarly) {
		return true
	}
	for _, i := range ins {
		if e.inPipe(i) != p || !e.space.Less(k, e.endpoints[i].in.ePSN) {
			return false
		}
	}
	return true
}

// release makes the result of nextSend one that the outs may send.
func (e *Engine) release(p int) {
	st := &e.pipes[p]
	k := st.nextSend
	if e.cfg.Pipes[p].Mode == 1 {
		e.releaseMessage(p)
	} else {
		st.nextSend = e.space.Next(k)
	}
	e.retire(p, 0, k)
	e.retirePipe(p)
}

// recycleLimit is min over the outs of lastAcked, + 1: what is before it is of no more use.
// It is never beyond nextSend, for no out has sent what was not released.
func (e *Engine) recycleLimit(p int) (limit psn.PSN, ok bool) {
	if !e.running(p) {
		return 0, false
	}
	if e.mistaken(RecycleOnRelease) {
		return e.pipes[p].nextSend, true
	}
	for n, i := range e.cfg.Pipes[p].Outs {
		if e.outPipe(i) != p {
			return 0, false
		}
		acked := e.endpoints[i].out.lastAcked
		if n == 0 {
			limit = acked
		} else {
			limit = e.space.Min(limit, acked)
		}
	}
	return e.space.Next(limit), true
}

// recycle moves the window of pipe p to start.
func (e *Engine) recycle(p int, start psn.PSN) {
	st := &e.pipes[p]
	if st.psnStart = start; start == st.nextSend {
		st.sum = sum{} // every out has the message
	}
	e.retire(p, 0, start)
	e.retirePipe(p)
}

// canError: an out of pipe p is in error and the pipe is not yet.
func (e *Engine) canError(p int) bool {
	return e.running(p) && !e.pipes[p].failed && e.failedOut(p) != None
}

func (e *Engine) failedOut(p int) int {
	for _, i := range e.cfg.Pipes[p].Outs {
		if e.outPipe(i) == p && e.endpoints[i].out.failed {
			return i
		}
	}
	return None
}

// pipeError puts pipe p in error because of its out: it takes no more data and its outs stop sending.
func (e *Engine) pipeError(p int) {
	i := e.failedOut(p)
	out := &e.endpoints[i].out
	f := Fault{Endpoint: i, PSN: e.space.Next(out.lastAcked)}
	if syndrome := e.endpoints[i].fatal; syndrome != 0 {
		f.Kind, f.Got, f.Wanted = spec.ErrorKindFatalNak, uint32(syndrome), spec.SyndromeAck
	} else {
		limit := uint32(e.cfg.Pipes[p].Retries)
		f.Kind, f.Got, f.Wanted = spec.ErrorKindRetries, limit+1, limit
	}
	e.pipes[p].fail(f)
	e.recordAt(p, 0)
	e.retirePipe(p)
}

// bindStep makes slot n of pipe p unused, whatever the memory held.
func (e *Engine) bindStep(p, n int) {
	st := &e.pipes[p]
	st.slots[n] = slot{}
	if e.mistaken(NoValidWalk) {
		st.slots[n] = e.leftover(p, n)
	}
	st.bindNext = n + 1
	e.recordAt(p, 0)
	e.record().Slot = uint32(n)
	e.retirePipe(p)
	e.retireSlot(&st.slots[n])
}

// bindDone opens pipe p for data.
func (e *Engine) bindDone(p int) {
	e.pipes[p].binding = false
	e.recordAt(p, 0)
	e.retirePipe(p)
}

func (e *Engine) legalWrite(ev Event) error {
	switch {
	case ev.Endpoint == None && ev.Pipe == None || ev.Endpoint != None && ev.Pipe != None:
		return fmt.Errorf("want one endpoint or one pipe, the other %d", None)
	case ev.Endpoint != None:
		if ev.Endpoint < 0 || ev.Endpoint >= len(e.endpoints) {
			return fmt.Errorf("got endpoint %d, want 0..%d", ev.Endpoint, len(e.endpoints)-1)
		}
		if ev.NewEndpoint != nil {
			return e.legalConfig(func(c *Config) { c.Endpoints[ev.Endpoint] = *ev.NewEndpoint })
		}
		return nil
	case ev.Pipe < 0 || ev.Pipe >= len(e.pipes):
		return fmt.Errorf("got pipe %d, want 0..%d", ev.Pipe, len(e.pipes)-1)
	}
	st := &e.pipes[ev.Pipe]
	if ev.Quiesce || ev.Unquiesce {
		if ev.Quiesce && ev.Unquiesce || ev.NewPipe != nil {
			return fmt.Errorf("want one of quiesce, unquiesce and a new entry")
		}
		return nil
	}
	if st.binding {
		return fmt.Errorf("busy: binding, %d of %d slots cleared", st.bindNext, len(st.slots))
	}
	if st.valid && !st.failed && !e.Drained(ev.Pipe) {
		if e.cfg.Pipes[ev.Pipe].Mode == 2 {
			return fmt.Errorf("busy: not drained, quiesced %v, %d slots incomplete", st.quiesced, e.incomplete(ev.Pipe))
		}
		return fmt.Errorf("busy: not drained, psnStart %v, nextSend %v", st.psnStart, st.nextSend)
	}
	if ev.NewPipe != nil {
		return e.legalConfig(func(c *Config) { c.Pipes[ev.Pipe] = *ev.NewPipe })
	}
	return nil
}

// legalConfig checks the configuration as it would be. While several entries are being rewritten
// they may disagree on psn0, and an entry that nobody uses yet may have any.
func (e *Engine) legalConfig(change func(*Config)) error {
	c := e.cfg.clone()
	change(&c)
	for i := range c.Endpoints {
		c.Endpoints[i].PSN0 = 0
	}
	for i := range c.Pipes {
		c.Pipes[i].PSN0 = 0
	}
	return c.Validate()
}

// tableWrite writes an entry and takes its state to psn0. After power-up that is endpoints, then
// pipes. A pipe that ran before is written while its endpoints are removed, for their old state would
// be taken for a position in the new sequence: remove the endpoints, write the pipe, let it bind,
// write the endpoints.
func (e *Engine) tableWrite(ev Event) {
	switch {
	case ev.Endpoint != None:
		e.writeEndpoint(ev)
	case ev.Quiesce || ev.Unquiesce:
		e.writeQuiesced(ev.Pipe, ev.Quiesce)
	default:
		e.writePipe(ev)
	}
}

// writeQuiesced: the manager knows whether every rank has had its send completions (protocol.md 9).
func (e *Engine) writeQuiesced(p int, quiesced bool) {
	e.pipes[p].quiesced = quiesced
	e.record().PipeID = uint32(p)
	e.record().Slot, e.record().PSN = uint32(spec.TablePipeCtl), bit(quiesced)
	e.retirePipe(p)
}

func (e *Engine) writeEndpoint(ev Event) {
	i := ev.Endpoint
	e.stopTimer(i)
	e.stopRNRWait(i)
	if ev.NewEndpoint != nil {
		e.cfg = e.cfg.clone() // clones of the engine share the old one
		e.cfg.Endpoints[i] = *ev.NewEndpoint
		e.index()
	}
	psn0 := e.cfg.Endpoints[i].PSN0
	last := e.space.Prev(psn0)
	e.endpoints[i] = endpointState{
		valid: !ev.Remove,
		in:    inState{ePSN: psn0},
		out:   outState{lastAcked: last, cursor: psn0, sentMax: last},
		least: leastState{msn: uint32(psn0), nakPSN: last},
	}
	e.record().Endpoint = uint32(i)
	e.retireRx(i)
	e.retireTx(i)
}

func (e *Engine) writePipe(ev Event) {
	p := ev.Pipe
	if ev.NewPipe != nil {
		e.cfg = e.cfg.clone()
		e.cfg.Pipes[p] = *ev.NewPipe
	}
	cfg := &e.cfg.Pipes[p]
	e.pipes[p] = pipeState{
		valid:    true,
		binding:  true,
		psnStart: cfg.PSN0,
		nextSend: cfg.PSN0,
		window:   window{start: cfg.PSN0, control: cfg.PSN0, op: cfg.Op, dtype: cfg.DType},
	}
	if cfg.Mode != 1 {
		e.pipes[p].slots = make([]slot, cfg.N)
	}
	if cfg.Mode == 2 {
		e.pipes[p].psnStart = 0 // it has none
	}
	e.record().PipeID = uint32(p)
	e.retirePipe(p)
}

// recordAt says in the record where the event happened, if it is about no psn.
func (e *Engine) recordAt(pipe, endpoint int) {
	e.record().PipeID = uint32(pipe)
	e.record().Endpoint = uint32(endpoint)
}
