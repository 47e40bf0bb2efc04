package engine

import (
	"fmt"
	"slices"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/reduce"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// contribute takes data of in i into its slot, in Mode-II and III: ok if it counts from now on, otherwise why
// not. A mismatch puts the pipe in error.
func (e *Engine) contribute(p, i int, pkt *roce.Packet) spec.Verdict {
	st, cfg := &e.pipes[p], &e.cfg.Pipes[p]
	index := e.cfg.Endpoints[i].InIndex
	mask := uint64(1) << index
	s, belongs := e.slotAt(p, pkt.PSN)
	m := e.metaOf(p, i, pkt)

	var f Fault
	switch {
	case e.mistaken(WindowOnReplays) && !e.mayStart(p, pkt.PSN):
		return spec.VerdictNoWindow
	case belongs && s.bitmap&mask != 0:
		return spec.VerdictDuplicate
	case belongs && m.control:
		f = differsSignal(pkt, s.meta.imm, s.payload)
	case belongs:
		f = s.meta.differs(&m)
	case !e.mayStart(p, pkt.PSN):
		return spec.VerdictNoWindow
	case m.control:
		f = e.refusesSignal(p, pkt)
	case len(pkt.Payload)%elementBytes(m.dtype) != 0:
		return spec.VerdictPayloadLength
	}
	if f.Kind != spec.ErrorKindNone {
		f.Endpoint, f.PSN = i, pkt.PSN
		st.fail(f)
		return spec.VerdictMismatch
	}

	switch apart := cfg.Reproducible && len(cfg.Ins) > 1 && !m.control; {
	case !belongs: // the first arrival writes, it does not add to what the slot held before
		*s = slot{valid: true, tag: e.tag(p, pkt.PSN), meta: m}
		if apart {
			s.copies = make([][]byte, len(cfg.Ins))
			s.copies[index] = slices.Clone(pkt.Payload)
		} else {
			s.payload = slices.Clone(pkt.Payload)
		}
	case m.control: // compared already
	case apart:
		s.copies[index] = slices.Clone(pkt.Payload)
	default:
		must(p, pkt, reduce.Accumulate(s.meta.dtype, s.meta.op, s.payload, pkt.Payload))
	}
	s.bitmap |= mask
	s.degree++
	s.meta.se = s.meta.se || pkt.SE
	s.meta.ce = s.meta.ce || pkt.CE()
	s.meta.ackReq = s.meta.ackReq || pkt.AckReq
	if s.degree == len(cfg.Ins) {
		e.complete(p, s, pkt)
	}
	return spec.VerdictOk
}

// complete: the last contribution of a slot is in.
func (e *Engine) complete(p int, s *slot, pkt *roce.Packet) {
	st, n := &e.pipes[p], e.cfg.Pipes[p].N
	if s.copies != nil {
		sum, err := reduce.Fold(s.meta.dtype, s.meta.op, s.copies)
		must(p, pkt, err)
		s.payload, s.copies = sum, nil
	}
	if s.meta.control {
		e.openWindow(p, pkt.PSN, s.meta.imm, s.payload)
	}
	if e.mistaken(ClearAhead) {
		st.slots[(e.slotIndex(p, pkt.PSN)+n/2)%n].valid = false
	}
}

// must: the lengths agree, and neither New nor a control signal lets in what cannot be reduced.
func must(p int, pkt *roce.Packet, err error) {
	if err != nil {
		panic(fmt.Sprintf("pipe %d psn %v: %v", p, pkt.PSN, err))
	}
}

// elementBytes of a type that New or a control signal has let in.
func elementBytes(dtype spec.DType) int {
	n, err := reduce.ElementBytes(dtype)
	if err != nil {
		panic(err)
	}
	return n
}

// metaOf is what a slot that this packet starts remembers of it.
func (e *Engine) metaOf(p, i int, pkt *roce.Packet) meta {
	st := &e.pipes[p]
	m := meta{opcode: pkt.Opcode, plen: len(pkt.Payload), op: st.window.op, dtype: st.window.dtype,
		control: e.cfg.Pipes[p].Unpinned && pkt.PSN == st.window.control}
	if pkt.HasImm() {
		m.imm = pkt.Imm
	}
	if pkt.HasRETH() {
		m.offset, m.dmaLength = pkt.VA-e.cfg.Endpoints[i].Rewrite.InVA, pkt.DMALength
	}
	return m
}

// differs returns how a contribution c disagrees with those before it, kind none if it does not.
func (m *meta) differs(c *meta) Fault {
	switch {
	case c.opcode != m.opcode:
		return Fault{Kind: spec.ErrorKindMismatchOpcode, Got: uint32(c.opcode), Wanted: uint32(m.opcode)}
	case c.plen != m.plen:
		return Fault{Kind: spec.ErrorKindMismatchLength, Got: uint32(c.plen), Wanted: uint32(m.plen)}
	case c.imm != m.imm:
		return Fault{Kind: spec.ErrorKindMismatchImm, Got: c.imm, Wanted: m.imm}
	case c.offset != m.offset:
		return Fault{Kind: spec.ErrorKindMismatchOffset, Got: uint32(c.offset), Wanted: uint32(m.offset)}
	case c.dmaLength != m.dmaLength:
		return Fault{Kind: spec.ErrorKindMismatchDMALength, Got: c.dmaLength, Wanted: m.dmaLength}
	}
	return Fault{}
}

// fail puts the pipe in error. It happens once: in error nothing more is looked at.
func (st *pipeState) fail(f Fault) {
	st.failed = true
	st.fault = f
}

// result is the frame of endpoint i that carries the payload of psn k.
func (e *Engine) result(i int, k psn.PSN, m *meta, payload []byte, ackReq bool) *roce.Packet {
	pkt := e.header(i, k, m.opcode)
	pkt.SE = m.se
	pkt.AckReq = ackReq
	pkt.Imm = m.imm
	pkt.Payload = payload
	if m.ce {
		pkt.TOS |= 3
	}
	if pkt.HasRETH() {
		var w Rewrite // as a table entry without one has it, should it have been taken from an out of a running pipe
		if own := e.cfg.Endpoints[i].Rewrite; own != nil {
			w = *own
		}
		pkt.VA, pkt.RKey, pkt.DMALength = w.OutVA+m.offset, w.RKey, m.dmaLength
	}
	return pkt
}
