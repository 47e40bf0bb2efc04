package engine

import (
	"math/bits"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/reduce"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// message is a buffer of one message, whole or as far as it has come.
type message struct {
	first   psn.PSN // of its first packet
	packets int     // 0: the buffer is free
	ended   bool    // its last packet is in
	meta    meta    // opcode: of its newest packet; plen: all bytes
	payload []byte
}

// sum is the buffer that a Mode-I pipe sends from: with several ins their messages are added up there, with one
// in it is that of the in.
type sum struct {
	message
	bitmap uint64 // whose messages are in it
}

func (s *sum) degree() int { return bits.OnesCount64(s.bitmap) }

// terminate is the responder of in i of a Mode-I pipe: it takes what comes in order into the in's buffer, and
// acknowledges it (protocol.md 7). The first rule that applies counts.
func (e *Engine) terminate(p, i int, pkt *roce.Packet) spec.Verdict {
	st, in := &e.pipes[p], &e.endpoints[i].in
	d := e.space.Sub(pkt.PSN, in.ePSN)
	early := func() {
		if e.cfg.Variant.PlainNAK {
			in.nak()
		} else {
			in.rnr()
		}
	}
	switch {
	case st.failed:
		if d == 0 {
			in.ackKind = spec.AckKindFatal
		}
		return spec.VerdictPipeError
	case st.binding:
		if d < 0 {
			in.ack()
		} else if d == 0 {
			in.rnr()
		}
		return spec.VerdictNoSlots
	case d < 0 && !e.mistaken(RetakesDuplicates):
		in.ack()
		return spec.VerdictDuplicate
	case d > 0 && !e.mistaken(TakesGaps):
		in.nak()
		return spec.VerdictBeyond
	case !e.hasRoom(p, i, pkt.PSN) && !e.mistaken(Overwrites):
		early()
		return spec.VerdictBeyond
	case !e.mayStart(p, pkt.PSN):
		early()
		return spec.VerdictNoWindow
	}

	m := e.received(p, i, pkt)
	if len(pkt.Payload)%elementBytes(m.meta.dtype) != 0 && !m.meta.control {
		return spec.VerdictPayloadLength
	}
	if f, answer := e.refusesMessage(p, i, pkt, &m); f.Kind != spec.ErrorKindNone {
		f.Endpoint, f.PSN = i, pkt.PSN
		st.fail(f)
		in.ackKind = answer
		return spec.VerdictMismatch
	}

	e.endpoints[i].receive = m
	if d >= 0 {
		in.ePSN = e.space.Next(pkt.PSN)
	}
	in.nakSent = false
	if m.ended {
		in.msn = (in.msn + 1) & psn.Mask
	}
	in.took(pkt.AckReq, e.cfg.Pipes[p].AckEvery)
	return spec.VerdictOk
}

// hasRoom: the buffer of in i has room for psn k. With one in it also holds what some out has not acknowledged.
func (e *Engine) hasRoom(p, i int, k psn.PSN) bool {
	cfg := &e.cfg.Pipes[p]
	full := len(cfg.Ins) == 1 && e.space.Sub(k, e.pipes[p].psnStart) >= cfg.N
	return !full && !e.endpoints[i].receive.ended
}

// received is the buffer of in i with this packet in it.
func (e *Engine) received(p, i int, pkt *roce.Packet) message {
	m, c := e.endpoints[i].receive, e.metaOf(p, i, pkt)
	if m.packets == 0 || m.ended {
		m = message{first: pkt.PSN, meta: c}
		m.meta.plen = 0
	}
	op, _ := pkt.Opcode.Info()
	m.packets++
	m.ended = op.Last
	m.payload = append(m.payload, pkt.Payload...)
	m.meta.opcode, m.meta.imm, m.meta.control = pkt.Opcode, c.imm, c.control
	m.meta.plen += len(pkt.Payload)
	m.meta.se = op.Last && pkt.SE
	m.meta.ce = m.meta.ce || pkt.CE()
	return m
}

// refusesMessage returns why in i cannot go on with this packet, after which its message would be m, kind none if it
// can; and how it is answered. Whatever is wrong with the message itself is an invalid request of its sender.
func (e *Engine) refusesMessage(p, i int, pkt *roce.Packet, m *message) (Fault, spec.AckKind) {
	before, limit := &e.endpoints[i].receive, e.cfg.Pipes[p].MessageBytes()
	op, _ := pkt.Opcode.Info()
	other := e.sameMessage(p, i, m.first)
	switch {
	case m.meta.control && other != nil:
		if f := differsSignal(pkt, other.meta.imm, other.payload); f.Kind != spec.ErrorKindNone {
			return f, spec.AckKindFatal
		}
	case m.meta.control:
		if f := e.refusesSignal(p, pkt); f.Kind != spec.ErrorKindNone {
			return f, spec.AckKindFatal
		}
	}
	switch {
	case op.First != (m.packets == 1) || !op.First && isWrite(pkt.Opcode) != isWrite(before.meta.opcode):
		f := Fault{Kind: spec.ErrorKindMessageOpcode, Got: uint32(pkt.Opcode)}
		if m.packets > 1 {
			f.Wanted = uint32(before.meta.opcode)
		}
		return f, spec.AckKindInvalid
	case m.meta.plen > limit:
		return Fault{Kind: spec.ErrorKindMessageSize, Got: uint32(m.meta.plen), Wanted: uint32(limit)}, spec.AckKindInvalid
	case int64(m.meta.dmaLength) > int64(limit): // a WRITE says at its beginning how long it is
		return Fault{Kind: spec.ErrorKindMessageSize, Got: m.meta.dmaLength, Wanted: uint32(limit)}, spec.AckKindInvalid
	case m.ended && isWrite(pkt.Opcode) && m.meta.plen != int(m.meta.dmaLength):
		return Fault{Kind: spec.ErrorKindMessageSize, Got: uint32(m.meta.plen), Wanted: m.meta.dmaLength}, spec.AckKindInvalid
	case m.ended && other != nil && !m.meta.control:
		return other.meta.differs(&m.meta), spec.AckKindFatal
	}
	return Fault{}, spec.AckKindNone
}

// sameMessage is a whole message of another in that begins at the same psn, nil if none has come. All that have are
// alike, so any of them will do.
func (e *Engine) sameMessage(p, i int, first psn.PSN) *message {
	ins := e.cfg.Pipes[p].Ins
	if s := &e.pipes[p].sum; s.bitmap != 0 && s.first == first && s.degree() < len(ins) {
		return &s.message
	}
	for _, j := range ins {
		if m := &e.endpoints[j].receive; j != i && e.inPipe(j) == p && m.ended && m.first == first {
			return m
		}
	}
	return nil
}

// canAdd: the message of in i is whole, and those of the ins before it have been added.
func (e *Engine) canAdd(i int) bool {
	p := e.inPipe(i)
	if !e.running(p) || e.cfg.Pipes[p].Mode != 1 || e.pipes[p].failed {
		return false
	}
	if m := &e.endpoints[i].receive; !m.ended || m.first != e.pipes[p].nextSend {
		return false
	}
	s, index, ins := &e.pipes[p].sum, e.cfg.Endpoints[i].InIndex, len(e.cfg.Pipes[p].Ins)
	if e.mistaken(ArrivalOrder) {
		return ins > 1 && s.bitmap>>index&1 == 0 && s.degree() < ins
	}
	return ins > 1 && s.degree() == index
}

// addMessage adds the message of in i to the sum, which frees the buffer of the in. The first is taken as it is.
func (e *Engine) addMessage(i int) {
	p, m := e.inPipe(i), e.endpoints[i].receive
	s := &e.pipes[p].sum
	e.endpoints[i].receive = message{}
	switch {
	case s.bitmap == 0:
		s.message = m
	case !m.meta.control: // a signal has been compared already
		if err := reduce.Accumulate(s.meta.dtype, s.meta.op, s.payload, m.payload); err != nil {
			panic(err) // the lengths agree, and neither New nor a signal lets in what cannot be reduced
		}
	}
	s.bitmap |= 1 << e.cfg.Endpoints[i].InIndex
	s.meta.se = s.meta.se || m.meta.se
	s.meta.ce = s.meta.ce || m.meta.ce

	e.retire(p, i, m.first)
	e.retirePipe(p)
	r := e.record()
	r.Groups |= spec.GroupSlot
	r.SlotValid, r.Tag, r.Bitmap, r.Degree = 1, uint32(s.packets), s.bitmap, uint32(s.degree())
}

// canReleaseMessage: the result is whole and not released yet. With one in its message becomes the result.
func (e *Engine) canReleaseMessage(p int) bool {
	st, ins := &e.pipes[p], e.cfg.Pipes[p].Ins
	switch {
	case st.failed || st.psnStart != st.nextSend:
		return false
	case len(ins) == 1:
		m := &e.endpoints[ins[0]].receive
		return e.inPipe(ins[0]) == p && m.ended && m.first == st.nextSend
	case e.mistaken(EarlyRelease):
		return st.sum.bitmap != 0
	}
	return st.sum.degree() == len(ins)
}

// releaseMessage lets the outs send the message, and opens the window if it is a control signal.
func (e *Engine) releaseMessage(p int) {
	st, ins := &e.pipes[p], e.cfg.Pipes[p].Ins
	if len(ins) == 1 {
		st.sum = sum{message: e.endpoints[ins[0]].receive, bitmap: 1}
		e.endpoints[ins[0]].receive = message{}
	}
	st.nextSend = e.space.Add(st.nextSend, st.sum.packets)
	if m := &st.sum; m.meta.control {
		e.openWindow(p, m.first, m.meta.imm, m.payload)
	}
}

// packet is what the n-th packet of a whole message carries. How the message ends, its last packet says.
func (m *message) packet(n, mtu int) (meta, []byte) {
	c := m.meta
	if n < m.packets-1 {
		c.se, c.imm = false, 0
		switch write := isWrite(c.opcode); {
		case n == 0 && write:
			c.opcode = spec.OpcodeWriteFirst
		case n == 0:
			c.opcode = spec.OpcodeSendFirst
		case write:
			c.opcode = spec.OpcodeWriteMiddle
		default:
			c.opcode = spec.OpcodeSendMiddle
		}
	}
	return c, m.payload[n*mtu : min((n+1)*mtu, len(m.payload))]
}
