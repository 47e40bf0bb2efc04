package engine

import (
	"fmt"

	"github.com/epic-inc/epic/golden/reduce"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// frame takes a frame through the checks in the order of the spec's verdicts.
func (e *Engine) frame(ev Event) {
	v, pkt := ev.Verdict, ev.Packet
	endpoint := None
	if v == spec.VerdictOk {
		endpoint, v = e.lookup(ev.Port, pkt)
	}
	if v != spec.VerdictOk {
		e.record().Verdict = v
		if v.Class() == spec.ClassBypass {
			e.step = append(e.step, Output{Kind: Bypass, Port: ev.Port, Packet: pkt})
		}
		return
	}
	if pkt.HasAETH() {
		e.receiveAck(endpoint, pkt)
	} else {
		e.receiveData(endpoint, pkt)
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
	case op.Kind == spec.KindCNP:
		return None, spec.VerdictCNP
	case op.Kind == spec.KindAck && e.outPipe(i) == None:
		return None, spec.VerdictNoPipe
	case op.Kind == spec.KindAck:
		return i, spec.VerdictOk
	case e.inPipe(i) == None:
		return None, spec.VerdictNoPipe
	case isWrite(pkt.Opcode):
		return None, spec.VerdictWriteNoRewrite // no endpoint has a rewrite yet
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

// lengthFits: First and Middle carry U bytes, Last 1..U, Only 0..U, all whole elements.
func (e *Engine) lengthFits(p int, pkt *roce.Packet) bool {
	n, u := len(pkt.Payload), e.cfg.Pipes[p].MTU
	size, err := reduce.ElementBytes(e.cfg.Pipes[p].DType)
	if err != nil {
		panic(fmt.Sprintf("pipe %d: %v, but New takes no such pipe", p, err))
	}
	if n > u || n%size != 0 {
		return false
	}
	switch op, _ := pkt.Opcode.Info(); {
	case !op.Last:
		return n == u
	case !op.First:
		return n > 0
	}
	return true
}

// receiveData: a data packet from a configured peer, at an in.
func (e *Engine) receiveData(i int, pkt *roce.Packet) {
	p := e.inPipe(i)
	e.record().Cause = spec.CauseData
	e.retire(p, i, pkt.PSN)
	v := e.aggregate(p, i, pkt)
	e.record().Verdict = v
	e.retireRx(i)
	e.retirePipe(p)
	switch v {
	case spec.VerdictOk, spec.VerdictDuplicate, spec.VerdictMismatch:
		s, _ := e.slotAt(p, pkt.PSN)
		e.retireSlot(s)
	}
}

// aggregate decides what becomes of data psn = p at in i, and does it. The first rule that applies
// counts. Beside the slot it touches only the in's pending answer: ePSN moves by advance alone.
func (e *Engine) aggregate(p, i int, pkt *roce.Packet) spec.Verdict {
	st, in := &e.pipes[p], &e.endpoints[i].in
	d := e.space.Sub(pkt.PSN, st.psnStart)
	expected := pkt.PSN == in.ePSN
	ahead := e.space.Less(in.ePSN, pkt.PSN)

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
		in.ack()
		return spec.VerdictBehind
	case d >= e.cfg.Pipes[p].N:
		if expected && !e.cfg.Variant.PlainNAK { // the sender is only too fast
			in.rnr()
		} else {
			in.nak()
		}
		return spec.VerdictBeyond
	case e.cfg.Variant.Strict && ahead:
		in.nak()
		return spec.VerdictBeyond
	}

	s, belongs := e.slotAt(p, pkt.PSN)
	mask := uint64(1) << e.cfg.Endpoints[i].InIndex
	if belongs && s.bitmap&mask != 0 {
		in.ack()
		return spec.VerdictDuplicate
	}
	if belongs {
		if f := s.meta.differs(pkt); f.Kind != spec.ErrorKindNone {
			f.Endpoint, f.PSN = i, pkt.PSN
			st.fail(f)
			if expected {
				in.ackKind = spec.AckKindFatal
			}
			return spec.VerdictMismatch
		}
		e.add(p, s, pkt)
	} else {
		s.start(e.tag(p, pkt.PSN), pkt)
	}
	s.bitmap |= mask
	s.degree++
	s.meta.se = s.meta.se || pkt.SE
	s.meta.ce = s.meta.ce || pkt.CE()
	s.meta.ackReq = s.meta.ackReq || pkt.AckReq
	if ahead {
		in.nak()
	}
	if e.cfg.Variant.ClearAhead && s.degree == len(e.cfg.Pipes[p].Ins) {
		n := e.cfg.Pipes[p].N
		st.slots[(e.slotIndex(p, pkt.PSN)+n/2)%n].valid = false
	}
	return spec.VerdictOk
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

// start: the first arrival writes, it does not add to what a slot held before.
func (s *slot) start(tag uint32, pkt *roce.Packet) {
	*s = slot{
		valid:   true,
		tag:     tag,
		meta:    meta{opcode: pkt.Opcode, plen: len(pkt.Payload), imm: pkt.Imm},
		payload: append([]byte(nil), pkt.Payload...),
	}
}

func (e *Engine) add(p int, s *slot, pkt *roce.Packet) {
	cfg := &e.cfg.Pipes[p]
	if err := reduce.Accumulate(cfg.DType, cfg.Op, s.payload, pkt.Payload); err != nil {
		panic(fmt.Sprintf("pipe %d psn %v: %v, but lengths agree and New takes no such pipe", p, pkt.PSN, err))
	}
}

// differs returns how a contribution disagrees with those before it, kind none if it does not.
func (m *meta) differs(pkt *roce.Packet) Fault {
	switch {
	case pkt.Opcode != m.opcode:
		return Fault{Kind: spec.ErrorKindMismatchOpcode, Got: uint32(pkt.Opcode), Wanted: uint32(m.opcode)}
	case len(pkt.Payload) != m.plen:
		return Fault{Kind: spec.ErrorKindMismatchLength, Got: uint32(len(pkt.Payload)), Wanted: uint32(m.plen)}
	case pkt.HasImm() && pkt.Imm != m.imm:
		return Fault{Kind: spec.ErrorKindMismatchImm, Got: pkt.Imm, Wanted: m.imm}
	}
	return Fault{}
}

// fail puts the pipe in error. It happens once: in error nothing more is looked at.
func (st *pipeState) fail(f Fault) {
	st.failed = true
	st.fault = f
}
