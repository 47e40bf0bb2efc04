package engine

import (
	"fmt"
	"slices"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// forward is a frame that a Mode-II frame made necessary, and that has not left yet. It holds all that the
// frame carries but what is the endpoint's.
type forward struct {
	pipe, endpoint int // whose it is, and where it leaves
	psn            psn.PSN
	slot           int // psn mod N
	meta           meta
	payload        []byte // shared with the slot, and never written again
	syndrome       uint8  // of an acknowledgement, like the next
	msn            uint32
}

// connect decides what becomes of data at in i of a Mode-II pipe, and does it (protocol.md 5). The first
// rule that applies counts.
func (e *Engine) connect(p, i int, pkt *roce.Packet) spec.Verdict {
	st, cfg := &e.pipes[p], &e.cfg.Pipes[p]
	if v := st.closed(); v != spec.VerdictOk {
		return v
	}
	switch {
	case len(cfg.Ins) == 1: // nothing to add: no slot
		m := e.metaOf(p, i, pkt)
		m.se, m.ce, m.ackReq = pkt.SE, pkt.CE(), pkt.AckReq
		e.forwardData(p, cfg.Outs, pkt.PSN, m, slices.Clone(pkt.Payload))
		return spec.VerdictOk
	case !e.space.InWindow(pkt.PSN, e.space.Add(st.nextSend, -cfg.N/2), cfg.N) && !e.mistaken(AnyTag) && !e.mistaken(ClearAhead):
		return spec.VerdictStale
	}

	v := e.contribute(p, i, pkt)
	s, _ := e.slotAt(p, pkt.PSN)
	complete := s.degree == len(cfg.Ins)
	switch {
	case v == spec.VerdictOk && complete:
		st.nextSend = e.space.Max(st.nextSend, e.space.Next(pkt.PSN))
		e.forwardData(p, cfg.Outs, pkt.PSN, s.meta, s.payload)
	case v == spec.VerdictDuplicate && (complete || e.mistaken(ReplayIncomplete)): // the result was lost: replay it
		m := s.meta
		m.ackReq = true
		outs := cfg.Outs
		if ep := &e.cfg.Endpoints[i]; !cfg.ReplayAll && ep.Leaf && ep.OutPipe == p {
			outs = []int{i} // no one else asked
		}
		e.forwardData(p, outs, pkt.PSN, m, s.payload)
	}
	return v
}

// closed says why a Mode-II pipe takes nothing at all, ok if it does.
func (st *pipeState) closed() spec.Verdict {
	switch {
	case st.failed:
		return spec.VerdictPipeError
	case st.binding:
		return spec.VerdictNoSlots
	}
	return spec.VerdictOk
}

func (e *Engine) forwardData(p int, outs []int, k psn.PSN, m meta, payload []byte) {
	for _, o := range outs {
		e.forwards = append(e.forwards, forward{pipe: p, endpoint: o, psn: k, slot: e.slotIndex(p, k), meta: m, payload: payload})
	}
}

func (e *Engine) forwardAck(p int, to []int, k psn.PSN, syndrome uint8, msn uint32) {
	for _, i := range to {
		e.forwards = append(e.forwards, forward{pipe: p, endpoint: i, psn: k, slot: e.slotIndex(p, k),
			meta: meta{opcode: spec.OpcodeAcknowledge}, syndrome: syndrome, msn: msn})
	}
}

// forward: the oldest frame that waits leaves.
func (e *Engine) forward() {
	f := e.forwards[0]
	e.forwards[0] = forward{} // keep no payload alive
	e.forwards = e.forwards[1:]
	pkt := e.result(f.endpoint, f.psn, &f.meta, f.payload, f.meta.ackReq)
	pkt.Syndrome, pkt.MSN = f.syndrome, f.msn
	e.recordAt(f.pipe, f.endpoint)
	e.record().PSN, e.record().Slot = uint32(f.psn), uint32(f.slot)
	e.emitFrame(f.endpoint, pkt)
}

// refusal is why hardware may refuse a frame with tx_full.
type refusal uint8

const (
	refusesNothing refusal = iota
	noRoom                 // something would leave, and there may be no room for it
	unread                 // it would write a slot of which a frame waits to be read
	reading                // it would write a slot whose result has left; hardware may not have read all of it yet
)

// legalRefusal: a frame that is refused changes nothing, as if it had been lost.
func (e *Engine) legalRefusal(ev Event) error {
	if ev.Packet == nil {
		return fmt.Errorf("got verdict %v without a packet", ev.Verdict)
	}
	why, r := e.mayRefuse(ev)
	if why == refusesNothing {
		return fmt.Errorf("it would make nothing leave, nor write what is to leave: it would be %v %v", r.Cause, r.Verdict)
	}
	return nil
}

// Rereads says that a frame which is refused could be taken, but that it writes a slot whose result has left. Only
// whoever sees when it left on the wire can say whether hardware was still reading it.
func (e *Engine) Rereads(ev Event) bool {
	why, _ := e.mayRefuse(ev)
	return why == reading
}

// mayRefuse also returns the record that the frame would have, were it not refused.
func (e *Engine) mayRefuse(ev Event) (refusal, spec.Record) {
	would := e.Clone()
	ev.Verdict = spec.VerdictOk
	r := would.Step(ev)[0].Record
	if len(would.forwards) > len(e.forwards) {
		return noRoom, r
	}
	p := int(r.PipeID)
	if r.Cause != spec.CauseData || r.Verdict != spec.VerdictOk || r.Degree != 1 || e.cfg.Pipes[p].Mode != 2 {
		return refusesNothing, r
	}
	for _, f := range e.forwards {
		if f.meta.isData() && f.pipe == p && f.slot == int(r.Slot) {
			return unread, r
		}
	}
	if s := &e.pipes[p].slots[r.Slot]; s.valid && s.degree == len(e.cfg.Pipes[p].Ins) {
		return reading, r
	}
	return refusesNothing, r
}

func (m *meta) isData() bool { op, _ := m.opcode.Info(); return op.Kind == spec.KindData }

// incomplete counts the slots of a pipe that were started and not completed, whatever their tag.
func (e *Engine) incomplete(p int) int {
	n := 0
	for i := range e.pipes[p].slots {
		if s := &e.pipes[p].slots[i]; s.valid && s.degree < len(e.cfg.Pipes[p].Ins) {
			n++
		}
	}
	return n
}
