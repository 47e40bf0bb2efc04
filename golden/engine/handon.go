package engine

import (
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// leastState is what an out of a Mode-II pipe with the rule minimum remembers beside lastAcked. It starts as
// cursor and sentMax do, for hardware keeps it in their place.
type leastState struct {
	msn         uint32 // that came with lastAcked
	nakPending  bool
	nakPSN      psn.PSN // what the NAK or RNR NAK wants
	nakSyndrome uint8
}

// handOnAck decides what becomes of an ACK, NAK or RNR NAK at out o of a Mode-II pipe, and does it
// (protocol.md 5).
func (e *Engine) handOnAck(p, o int, pkt *roce.Packet) spec.Verdict {
	cfg := &e.cfg.Pipes[p]
	if v := e.pipes[p].closed(); v != spec.VerdictOk {
		return v
	}
	switch {
	case cfg.AckRule == spec.AckRuleMinimum:
		return e.handOnLeast(p, o, pkt)
	case cfg.AckRule == spec.AckRuleReplicate:
		e.forwardAck(p, cfg.Ins, pkt.PSN, pkt.Syndrome, pkt.MSN)
	case !e.cfg.Endpoints[o].Leaf:
		return spec.VerdictAckStale
	default:
		e.forwardAck(p, []int{o}, pkt.PSN, pkt.Syndrome, pkt.MSN)
	}
	return spec.VerdictOk
}

// handOnLeast: the one in of the pipe hears what is true of every out.
func (e *Engine) handOnLeast(p, o int, pkt *roce.Packet) spec.Verdict {
	cfg, q := &e.cfg.Pipes[p], pkt.PSN
	if isFatal(pkt.Syndrome) {
		e.forwardAck(p, cfg.Ins, q, pkt.Syndrome, pkt.MSN)
		return spec.VerdictOk
	}
	acked := q
	if !isAck(pkt.Syndrome) { // a NAK names the psn it wants next
		acked = e.space.Prev(q)
	}
	out, st := &e.endpoints[o].out, &e.endpoints[o].least
	before := e.leastAcked(p)
	if e.space.Sub(acked, out.lastAcked) < 0 || e.space.Sub(e.space.Add(before, cfg.N/2), acked) < 0 {
		return spec.VerdictAckStale
	}

	out.lastAcked, st.msn = acked, pkt.MSN
	switch {
	case !isAck(pkt.Syndrome):
		st.nakPending, st.nakPSN, st.nakSyndrome = true, q, pkt.Syndrome
	case st.nakPending && e.space.LessEq(st.nakPSN, acked):
		st.nakPending = false
	}

	if e.mistaken(MinAckArriving) {
		e.forwardAck(p, cfg.Ins, q, pkt.Syndrome, pkt.MSN)
		return spec.VerdictOk
	}
	least := e.leastAcked(p)
	if acked != least || e.mistaken(MinAckOnAdvance) && least == before {
		return spec.VerdictOk // others hold the minimum, and it was told when they moved
	}
	// Also if the minimum did not move: the last one that was sent may have been lost.
	k, syndrome, msn := least, uint8(spec.SyndromeAck), st.msn
	for _, x := range cfg.Outs {
		if nak := &e.endpoints[x].least; nak.nakPending && nak.nakPSN == e.space.Next(least) {
			k, syndrome, msn = nak.nakPSN, nak.nakSyndrome, nak.msn
			break
		}
	}
	e.forwardAck(p, cfg.Ins, k, syndrome, msn)
	return spec.VerdictOk
}

// isFatal: neither an ACK, nor an RNR NAK, nor a NAK that asks for something again.
func isFatal(syndrome uint8) bool {
	return !isAck(syndrome) && !isRNR(syndrome) && syndrome != spec.SyndromeNakSequence
}

// leastAcked is the minimum of lastAcked over the outs of a pipe.
func (e *Engine) leastAcked(p int) psn.PSN {
	outs := e.cfg.Pipes[p].Outs
	least := e.endpoints[outs[0]].out.lastAcked
	for _, o := range outs[1:] {
		least = e.space.Min(least, e.endpoints[o].out.lastAcked)
	}
	return least
}

// handsOnCNP: a congestion notification at endpoint i is for someone else (protocol.md 3).
func (e *Engine) handsOnCNP(i int) bool {
	p := e.outPipe(i)
	return p != None && e.cfg.Pipes[p].Mode == 2 &&
		(e.cfg.Pipes[p].AckRule != spec.AckRuleReflect || e.cfg.Endpoints[i].Leaf)
}

// receiveCNP: a congestion notification at an out, for those who send what leaves there. It has no effect if full.
func (e *Engine) receiveCNP(o int, full bool) {
	p, r := e.outPipe(o), e.record()
	to := e.cfg.Pipes[p].Ins
	if e.cfg.Pipes[p].AckRule == spec.AckRuleReflect {
		to = []int{o}
	}
	r.Cause = spec.CauseCNP
	e.recordAt(p, o)
	if r.Verdict = e.pipes[p].closed(); full {
		r.Verdict = spec.VerdictTxFull
	}
	if r.Verdict != spec.VerdictOk {
		return
	}
	for _, i := range to {
		e.forwards = append(e.forwards, forward{pipe: p, endpoint: i, meta: meta{opcode: spec.OpcodeCNP},
			payload: make([]byte, roce.CNPBodySize)})
	}
}
