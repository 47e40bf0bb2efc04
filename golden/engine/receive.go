package engine

import (
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// frame takes a frame through the checks in the order of the spec's verdicts.
func (e *Engine) frame(ev Event) {
	v, pkt := ev.Verdict, ev.Packet
	endpoint, full := None, v == spec.VerdictTxFull
	if v == spec.VerdictOk || full {
		endpoint, v = e.lookup(ev.Port, pkt)
	}
	if v != spec.VerdictOk {
		e.record().Verdict = v
		if v.Class() == spec.ClassBypass {
			e.step = append(e.step, Output{Kind: Bypass, Port: ev.Port, Packet: pkt})
		}
		return
	}
	switch op, _ := pkt.Opcode.Info(); op.Kind {
	case spec.KindData:
		e.receiveData(endpoint, pkt, full)
	case spec.KindAck:
		e.receiveAck(endpoint, pkt, full)
	case spec.KindCNP:
		e.receiveCNP(endpoint, full)
	}
}

// lookup does the checks that need the tables: who sent this, and is it well formed for its pipe?
func (e *Engine) lookup(port int, pkt *roce.Packet) (endpoint int, v spec.Verdict) {
	i, ok := e.byQPN[pkt.DestQP]
	if !ok || !e.endpoints[i].valid {
		return None, spec.VerdictNoEndpoint
	}
	ep := &e.cfg.Endpoints[i]
	op, _ := pkt.Opcode.Info()
	switch {
	case pkt.Dst != ep.IP:
		return None, spec.VerdictDstIP
	case port != ep.Port:
		return None, spec.VerdictIngressPort
	case pkt.SrcMAC != ep.PeerMAC:
		return None, spec.VerdictSrcMAC
	case pkt.Src != ep.PeerIP:
		return None, spec.VerdictSrcIP
	case !samePartition(pkt.PKey, ep.PKey):
		return None, spec.VerdictPKey
	case op.Kind == spec.KindCNP && !e.handsOnCNP(i):
		return None, spec.VerdictCNP
	case op.Kind == spec.KindCNP:
		return i, spec.VerdictOk
	case op.Kind == spec.KindAck && e.outPipe(i) == None:
		return None, spec.VerdictNoPipe
	case op.Kind == spec.KindAck:
		return i, spec.VerdictOk
	case e.inPipe(i) == None:
		return None, spec.VerdictNoPipe
	case isWrite(pkt.Opcode) && ep.Rewrite == nil:
		return None, spec.VerdictWriteNoRewrite
	case !e.lengthFits(e.inPipe(i), pkt):
		return None, spec.VerdictPayloadLength
	}
	return i, spec.VerdictOk
}

func isWrite(o spec.Opcode) bool {
	return o >= spec.OpcodeWriteFirst && o <= spec.OpcodeWriteOnlyImm
}

// samePartition: the low 15 bits agree and at least one side is a full member (IBTA 10.9.3).
func samePartition(a, b uint16) bool { return a&0x7fff == b&0x7fff && (a|b)&0x8000 != 0 }

// lengthFits: First and Middle carry U bytes, Last 1..U, Only 0..U; of a pinned pipe all whole elements.
func (e *Engine) lengthFits(p int, pkt *roce.Packet) bool {
	cfg, n := &e.cfg.Pipes[p], len(pkt.Payload)
	if n > cfg.MTU || !cfg.Unpinned && n%elementBytes(cfg.DType) != 0 {
		return false
	}
	switch op, _ := pkt.Opcode.Info(); {
	case !op.Last:
		return n == cfg.MTU
	case !op.First:
		return n > 0
	}
	return true
}

// receiveData: a data packet from a configured peer, at an in. It has no effect if full.
func (e *Engine) receiveData(i int, pkt *roce.Packet, full bool) {
	p := e.inPipe(i)
	cfg := &e.cfg.Pipes[p]
	e.record().Cause = spec.CauseData
	e.retire(p, i, pkt.PSN)
	v := spec.VerdictTxFull
	switch {
	case full:
	case cfg.Mode == 1:
		v = e.terminate(p, i, pkt)
	case cfg.Mode == 2:
		v = e.connect(p, i, pkt)
	default:
		v = e.aggregate(p, i, pkt)
	}
	e.record().Verdict = v
	e.retireRx(i)
	e.retirePipe(p)
	if cfg.Mode == 1 || cfg.Mode == 2 && len(cfg.Ins) == 1 {
		return // no slot is looked at
	}
	switch v {
	case spec.VerdictOk, spec.VerdictDuplicate, spec.VerdictMismatch:
		s, _ := e.slotAt(p, pkt.PSN)
		e.retireSlot(s)
	}
}

// aggregate decides what becomes of data psn = p at in i of a Mode-III pipe, and does it. The first rule
// that applies counts. Beside the slot it touches only the in's pending answer: ePSN moves by advance alone.
func (e *Engine) aggregate(p, i int, pkt *roce.Packet) spec.Verdict {
	st, in := &e.pipes[p], &e.endpoints[i].in
	d := e.space.Sub(pkt.PSN, st.psnStart)
	expected := pkt.PSN == in.ePSN
	ahead := e.space.Less(in.ePSN, pkt.PSN)
	early := func() {
		if expected && !e.cfg.Variant.PlainNAK { // the sender is only too fast
			in.rnr()
		} else {
			in.nak()
		}
	}

	switch {
	case st.failed:
		if expected { // never beyond a gap: a NAK acknowledges all below it
			in.ackKind = spec.AckKindFatal
		}
		return spec.VerdictPipeError
	case st.binding:
		if d < 0 {
			in.ack()
		} else if expected {
			in.rnr()
		}
		return spec.VerdictNoSlots
	case d < 0: // acknowledged downstream already
		if !e.mistaken(DuplicatesIgnored) {
			in.ack()
		}
		return spec.VerdictBehind
	case d >= e.cfg.Pipes[p].N:
		early()
		return spec.VerdictBeyond
	case e.cfg.Variant.Strict && ahead:
		in.nak()
		return spec.VerdictBeyond
	}

	v := e.contribute(p, i, pkt)
	switch v {
	case spec.VerdictDuplicate:
		if !e.mistaken(DuplicatesIgnored) {
			in.ack()
		}
	case spec.VerdictMismatch:
		if expected {
			in.ackKind = spec.AckKindFatal
		}
	case spec.VerdictNoWindow:
		early()
	case spec.VerdictOk:
		switch {
		case ahead && e.mistaken(AckBeyondGap):
			in.ack()
		case ahead:
			in.nak()
		}
	}
	return v
}

// ack asks for an ACK, unless an answer is pending: a NAK or RNR acknowledges as much and says more.
func (in *inState) ack() {
	if in.ackKind == spec.AckKindNone {
		in.ackKind = spec.AckKindAck
	}
}

// nak asks for a NAK sequence error, one per gap.
func (in *inState) nak() {
	if !in.nakSent {
		in.ackKind = spec.AckKindNak
		in.nakSent = true
	}
}

// rnr asks for an RNR NAK, on every packet that comes too early.
func (in *inState) rnr() {
	in.ackKind = spec.AckKindRNR
	in.nakSent = true
}
