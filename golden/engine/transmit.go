package engine

import (
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// receiveAck: an ACK, NAK or RNR NAK from a configured peer, at an out. It has no effect if full.
func (e *Engine) receiveAck(i int, pkt *roce.Packet, full bool) {
	p, r := e.outPipe(i), e.record()
	r.Cause = spec.CauseNak
	if isAck(pkt.Syndrome) {
		r.Cause = spec.CauseAck
	}
	e.retire(p, i, pkt.PSN)
	switch {
	case full:
		r.Verdict = spec.VerdictTxFull
	case e.cfg.Pipes[p].Mode == 2:
		r.Verdict = e.handOnAck(p, i, pkt)
	default:
		r.Verdict = e.acknowledge(i, pkt.PSN, pkt.Syndrome)
	}
	e.retireTx(i)
}

// The kinds of a syndrome are told by its bits 6:5 (IBTA 9.7.5.1).
func isAck(syndrome uint8) bool { return syndrome>>5&3 == 0 }
func isRNR(syndrome uint8) bool { return syndrome>>5&3 == 1 }

func (e *Engine) acknowledge(i int, q psn.PSN, syndrome uint8) spec.Verdict {
	out := &e.endpoints[i].out
	limit := out.sentMax
	if !isAck(syndrome) { // a NAK names the psn it wants next, an ACK the last it has
		limit = e.space.Next(limit)
	}
	switch {
	case out.failed:
		return spec.VerdictEpError
	case e.space.Sub(q, out.lastAcked) <= 0 || e.space.Sub(limit, q) < 0: // half the circle away is neither
		return spec.VerdictAckStale
	}

	if isAck(syndrome) {
		e.progress(i, q)
		return spec.VerdictOk
	}
	if below := e.space.Prev(q); below != out.lastAcked {
		e.progress(i, below)
	}
	switch {
	case isRNR(syndrome): // the wait does not consume retries
		out.cursor = q
		out.rnrWait = true
		e.stopTimer(i)
		if e.mistaken(RNRCountsAsRetry) {
			e.retry(i)
		}
		e.emitTimer(i, Timer{Kind: RNRWait, Arm: true, Ticks: int(spec.RNRTicks(syndrome & 0x1f))})
	case syndrome == spec.SyndromeNakSequence:
		if !out.rnrWait { // go back N
			out.cursor = q
			e.restartTimer(i, e.space.LessEq(q, out.sentMax) && !e.mistaken(NakStopsTimer))
		}
	default:
		e.failEndpoint(i)
		e.endpoints[i].fatal = syndrome
	}
	return spec.VerdictOk
}

// StaleAck says that an ACK or NAK from a configured peer is about what its out has had acknowledged before: it changes
// nothing, however late it comes. Mode-II hands everything on, and knows of none.
func (e *Engine) StaleAck(port int, pkt *roce.Packet) bool {
	i, v := e.lookup(port, pkt)
	if v != spec.VerdictOk {
		return false
	}
	p := e.outPipe(i)
	return e.cfg.Pipes[p].Mode != 2 && e.space.Sub(pkt.PSN, e.endpoints[i].out.lastAcked) <= 0
}

// progress: everything up to q has arrived at the peer of out i.
func (e *Engine) progress(i int, q psn.PSN) {
	out := &e.endpoints[i].out
	if e.mistaken(FastestAck) {
		for _, o := range e.cfg.Pipes[e.outPipe(i)].Outs {
			e.endpoints[o].out.lastAcked = q
			e.endpoints[o].out.cursor = e.space.Max(e.endpoints[o].out.cursor, e.space.Next(q))
		}
	}
	out.lastAcked = q
	out.retries = 0
	out.cursor = e.space.Max(out.cursor, e.space.Next(q))
	if !out.rnrWait {
		e.restartTimer(i, e.space.Less(q, out.sentMax))
	}
}

// restartTimer arms the retransmission timer of out i anew if anything is outstanding, else stops it.
func (e *Engine) restartTimer(i int, outstanding bool) {
	if !outstanding {
		e.stopTimer(i)
		return
	}
	out, p := &e.endpoints[i].out, &e.cfg.Pipes[e.cfg.Endpoints[i].OutPipe]
	out.timerArmed = true
	e.emitTimer(i, Timer{Kind: Retransmit, Arm: true, Ticks: p.Timeout << min(out.retries, p.BackoffMax)})
}

func (e *Engine) stopTimer(i int) {
	if out := &e.endpoints[i].out; out.timerArmed {
		out.timerArmed = false
		e.emitTimer(i, Timer{Kind: Retransmit})
	}
}

func (e *Engine) stopRNRWait(i int) {
	if out := &e.endpoints[i].out; out.rnrWait {
		out.rnrWait = false
		e.emitTimer(i, Timer{Kind: RNRWait})
	}
}

func (e *Engine) emitTimer(i int, t Timer) {
	e.step = append(e.step, Output{Kind: SetTimer, Endpoint: i, Timer: t})
}

func (e *Engine) failEndpoint(i int) {
	e.endpoints[i].out.failed = true
	e.stopTimer(i)
	e.stopRNRWait(i)
}

// timer: nothing was heard for too long; go back to the oldest psn not acknowledged.
func (e *Engine) timer(i int) {
	out, p := &e.endpoints[i].out, e.cfg.Endpoints[i].OutPipe
	out.timerArmed = false
	e.retry(i)
	e.recordAt(p, i)
	e.retireTx(i)
}

// retry sends again what out i has had no acknowledgement of, unless it has done so too often.
func (e *Engine) retry(i int) {
	out := &e.endpoints[i].out
	switch {
	case e.cfg.Variant.Untiring:
	case out.retries == e.cfg.Pipes[e.outPipe(i)].Retries:
		e.failEndpoint(i)
		return
	default:
		out.retries++
	}
	out.cursor = e.space.Next(out.lastAcked)
}

func (e *Engine) rnrExpiry(i int) {
	e.endpoints[i].out.rnrWait = false
	e.recordAt(e.cfg.Endpoints[i].OutPipe, i)
	e.retireTx(i)
}

func (e *Engine) canSend(i int) bool {
	p, out := e.outPipe(i), &e.endpoints[i].out
	if !e.running(p) || e.pipes[p].failed || out.failed || out.rnrWait {
		return false
	}
	st, k := &e.pipes[p], out.cursor
	return e.space.Less(k, st.nextSend) && (e.cfg.Pipes[p].Mode != 1 || e.space.LessEq(st.psnStart, k))
}

// sendCause tells whether what out i sends next has been sent before.
func (e *Engine) sendCause(i int) spec.Cause {
	if out := &e.endpoints[i].out; e.space.LessEq(out.cursor, out.sentMax) {
		return spec.CauseResend
	}
	return spec.CauseSend
}

// send: the result at the cursor leaves on out i.
func (e *Engine) send(i int) {
	p, out := e.outPipe(i), &e.endpoints[i].out
	again := e.sendCause(i) == spec.CauseResend
	k := out.cursor
	m, payload := e.resultOf(p, k)
	out.cursor = e.space.Next(k)
	out.sentMax = e.space.Max(out.sentMax, k)
	e.retire(p, i, k)
	e.emitFrame(i, e.result(i, k, &m, payload, e.asksForAck(p, k, m.opcode, again)))
	if !out.timerArmed && !(again && e.mistaken(NakStopsTimer)) {
		e.restartTimer(i, true)
	}
	e.retireTx(i)
}

// resultOf is what leaves as psn k: of a slot, or of the message in the buffer.
func (e *Engine) resultOf(p int, k psn.PSN) (meta, []byte) {
	if e.cfg.Pipes[p].Mode == 1 {
		return e.pipes[p].sum.packet(e.space.Sub(k, e.pipes[p].sum.first), e.cfg.Pipes[p].MTU)
	}
	s, _ := e.slotAt(p, k)
	return s.meta, s.payload
}

func (e *Engine) asksForAck(p int, k psn.PSN, opcode spec.Opcode, again bool) bool {
	if !e.cfg.Variant.SparseAckReq && e.cfg.Pipes[p].Mode != 1 {
		return true
	}
	op, _ := opcode.Info()
	return op.Last || again || (int(k)+1)%max(1, e.cfg.Pipes[p].N/4) == 0
}

// header is a frame of endpoint i to its peer, without what depends on the opcode.
func (e *Engine) header(i int, k psn.PSN, opcode spec.Opcode) *roce.Packet {
	ep := &e.cfg.Endpoints[i]
	pkt := &roce.Packet{
		DstMAC: ep.PeerMAC, SrcMAC: ep.MAC,
		Src: ep.IP, Dst: ep.PeerIP, TOS: ep.TOS, TTL: ep.TTL, DF: ep.IP.Is4(), SrcPort: ep.UDPSport,
		Opcode: opcode, MigReq: ep.MigReq, PKey: ep.PKey, DestQP: ep.PeerQPN, PSN: k,
	}
	if ep.VLAN != nil {
		pkt.VLAN = []roce.VLANTag{{TPID: spec.EtherTypeVLAN, TCI: *ep.VLAN}}
	}
	return pkt
}

func (e *Engine) emitFrame(i int, pkt *roce.Packet) {
	e.step = append(e.step, Output{Kind: Frame, Endpoint: i, Port: e.cfg.Endpoints[i].Port, Packet: pkt})
}

func (e *Engine) canAckOut(i int) bool {
	return e.endpoints[i].in.ackKind != spec.AckKindNone && e.inPipe(i) != None
}

// ackOut: the pending answer of in i leaves, with the ePSN and MSN of now.
func (e *Engine) ackOut(i int) {
	p, in := e.inPipe(i), &e.endpoints[i].in
	pkt := e.header(i, in.ePSN, spec.OpcodeAcknowledge)
	pkt.MSN = in.msn
	switch in.ackKind {
	case spec.AckKindAck:
		pkt.PSN = e.space.Prev(in.ePSN)
		if e.mistaken(AckBeyondGap) {
			pkt.PSN = e.newest(p, i)
		}
		pkt.Syndrome = spec.SyndromeAck
	case spec.AckKindNak:
		pkt.Syndrome = spec.SyndromeNakSequence
	case spec.AckKindRNR:
		pkt.Syndrome = spec.SyndromeRNR | uint8(e.cfg.Pipes[p].RNRCode)
	case spec.AckKindFatal:
		pkt.Syndrome = spec.SyndromeNakOperation
	case spec.AckKindInvalid:
		pkt.Syndrome = spec.SyndromeNakInvalid
	}
	in.ackKind = spec.AckKindNone
	e.retire(p, i, pkt.PSN)
	e.retireRx(i)
	e.emitFrame(i, pkt)
}
