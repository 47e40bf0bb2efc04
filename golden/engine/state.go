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
	}
	for p := range c.pipes {
		st := &c.pipes[p]
		st.slots = append([]slot(nil), st.slots...)
		for n := range st.slots {
			// The payload of a complete slot is never written again, so only others are copied.
			if s := &st.slots[n]; s.degree < len(e.cfg.Pipes[p].Ins) {
				s.payload = append([]byte(nil), s.payload...)
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
	return b
}

func (st *endpointState) append(b []byte) []byte {
	if !st.valid {
		return append(b, 0)
	}
	b = append(b, 1, flags(st.in.nakSent, st.out.timerArmed, st.out.rnrWait, st.out.failed),
		byte(st.in.ackKind), byte(st.out.retries))
	b = appendPSN(b, st.in.ePSN, psn.PSN(st.in.msn), st.out.lastAcked, st.out.cursor, st.out.sentMax)
	return binary.LittleEndian.AppendUint32(b, uint32(st.in.ackCount))
}

func (e *Engine) appendPipe(b []byte, p int) []byte {
	st := &e.pipes[p]
	if !st.valid {
		return append(b, 0)
	}
	b = append(b, 1, flags(st.binding, st.failed))
	b = appendPSN(b, st.psnStart, st.nextSend)
	b = binary.LittleEndian.AppendUint32(b, uint32(st.bindNext))
	if st.binding {
		return b // every slot will be cleared
	}
	for n := range st.slots {
		s, belongs := e.slotAt(p, e.space.Add(st.psnStart, n))
		if !belongs {
			b = append(b, 0)
			continue
		}
		b = append(b, 1, byte(s.meta.opcode), flags(s.meta.se, s.meta.ce, s.meta.ackReq))
		b = binary.LittleEndian.AppendUint64(b, s.bitmap)
		b = binary.LittleEndian.AppendUint32(b, s.meta.imm)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s.payload)))
		b = append(b, s.payload...)
	}
	return b
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
