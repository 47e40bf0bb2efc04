package engine

import (
	"encoding/binary"

	"github.com/epic-inc/epic/golden/psn"
)

// Clone returns an independent engine in the same state.
func (e *Engine) Clone() *Engine {
	c := &Engine{
		cfg:       e.cfg, // shared: a table write replaces it
		space:     e.space,
		byQPN:     e.byQPN, // likewise
		endpoints: append([]endpointState(nil), e.endpoints...),
		pipes:     append([]pipeState(nil), e.pipes...),
		forwards:  append([]forward(nil), e.forwards...),
	}
	for i := range c.endpoints {
		m := &c.endpoints[i].receive
		m.payload = append([]byte(nil), m.payload...)
	}
	for p := range c.pipes {
		st := &c.pipes[p]
		if st.sum.degree() < len(e.cfg.Pipes[p].Ins) { // as of a slot below
			st.sum.payload = append([]byte(nil), st.sum.payload...)
		}
		st.slots = append([]slot(nil), st.slots...)
		for n := range st.slots {
			// The payload of a complete slot is never written again, so only others are copied.
			if s := &st.slots[n]; s.degree < len(e.cfg.Pipes[p].Ins) {
				s.payload = append([]byte(nil), s.payload...)
				s.copies = append([][]byte(nil), s.copies...)
			}
		}
	}
	return c
}

// AppendState appends all that decides what the engine will do, in a canonical form: two engines of
// one configuration are in the same state if and only if they append the same bytes. What no event
// can read any more (slots behind the window, entries not written, the text of a fault) is left out.
func (e *Engine) AppendState(b []byte) []byte {
	for i := range e.endpoints {
		b = e.endpoints[i].append(b)
	}
	for p := range e.pipes {
		b = e.appendPipe(b, p)
	}
	for i := range e.forwards {
		b = e.forwards[i].append(b)
	}
	return b
}

func (st *endpointState) append(b []byte) []byte {
	if !st.valid {
		return append(b, 0)
	}
	b = append(b, 1, flags(st.in.nakSent, st.out.timerArmed, st.out.rnrWait, st.out.failed, st.least.nakPending),
		byte(st.in.ackKind), byte(st.out.retries))
	b = appendPSN(b, st.in.ePSN, psn.PSN(st.in.msn), st.out.lastAcked, st.out.cursor, st.out.sentMax, psn.PSN(st.least.msn))
	if st.least.nakPending {
		b = append(appendPSN(b, st.least.nakPSN), st.least.nakSyndrome)
	}
	return st.receive.append(binary.LittleEndian.AppendUint32(b, uint32(st.in.ackCount)))
}

func (e *Engine) appendPipe(b []byte, p int) []byte {
	st := &e.pipes[p]
	if !st.valid {
		return append(b, 0)
	}
	b = append(b, 1, flags(st.binding, st.failed, st.quiesced), byte(st.window.op), byte(st.window.dtype))
	b = appendPSN(b, st.psnStart, st.nextSend, st.window.start, st.window.control)
	b = binary.LittleEndian.AppendUint32(b, uint32(st.bindNext))
	if st.binding {
		return b // every slot will be cleared
	}
	if e.cfg.Pipes[p].Mode == 1 {
		return binary.LittleEndian.AppendUint64(st.sum.append(b), st.sum.bitmap)
	}
	first, mode2 := st.psnStart, e.cfg.Pipes[p].Mode == 2
	if mode2 {
		first = e.space.Add(st.nextSend, -len(st.slots)/2)
	}
	for n := range st.slots {
		s, belongs := e.slotAt(p, e.space.Add(first, n))
		switch {
		case belongs:
			b = s.append(append(b, 1))
		case mode2 && s.valid && s.degree < len(e.cfg.Pipes[p].Ins):
			b = append(b, 2) // not drained
		default:
			b = append(b, 0)
		}
	}
	return b
}

func (m *message) append(b []byte) []byte {
	if m.packets == 0 {
		return append(b, 0)
	}
	b = appendPSN(append(b, 1, flags(m.ended)), m.first, psn.PSN(m.packets))
	return appendBytes(m.meta.append(b), m.payload)
}

func (s *slot) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(s.meta.append(b), s.bitmap)
	b = appendBytes(b, s.payload)
	for _, c := range s.copies {
		b = appendBytes(b, c)
	}
	return b
}

func (m *meta) append(b []byte) []byte {
	b = append(b, byte(m.opcode), flags(m.se, m.ce, m.ackReq, m.control), byte(m.op), byte(m.dtype))
	b = binary.LittleEndian.AppendUint32(b, m.imm)
	b = binary.LittleEndian.AppendUint64(b, m.offset)
	return binary.LittleEndian.AppendUint32(b, m.dmaLength)
}

func (f *forward) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint16(append(b, byte(f.pipe), f.syndrome), uint16(f.endpoint))
	b = binary.LittleEndian.AppendUint32(appendPSN(b, f.psn, psn.PSN(f.msn)), uint32(f.slot))
	return appendBytes(f.meta.append(b), f.payload)
}

func appendBytes(b, payload []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(payload))), payload...)
}

func appendPSN(b []byte, ps ...psn.PSN) []byte {
	for _, p := range ps {
		b = append(b, byte(p), byte(p>>8), byte(p>>16))
	}
	return b
}

func flags(bits ...bool) byte {
	var f byte
	for i, b := range bits {
		if b {
			f |= 1 << i
		}
	}
	return f
}
