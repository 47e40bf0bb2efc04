package host

import (
	"encoding/binary"

	"github.com/epic-inc/epic/golden/psn"
)

// Clone returns an independent queue pair in the same state. Payloads of posted messages are shared;
// nobody writes them.
func (q *QP) Clone() *QP {
	c := &QP{cfg: q.cfg, space: q.space, req: q.req, rsp: q.rsp, failed: q.failed}
	c.req.queue = append([]request(nil), q.req.queue...)
	c.rsp.queue = append([]Receive(nil), q.rsp.queue...)
	c.rsp.message = append([]byte(nil), q.rsp.message...)
	return c
}

// AppendState appends all that decides what the queue pair will do, in a canonical form: two of one
// configuration are in the same state if and only if they append the same bytes.
func (q *QP) AppendState(b []byte) []byte {
	r, s := &q.req, &q.rsp
	nakObeyed := r.nakObeyed && q.cfg.Settings.NAKOncePerACK // others do not ask
	b = append(b, flags(q.failed, nakObeyed, r.timerRuns, r.rnrWait, s.nakSent, s.inMessage),
		byte(r.retries), byte(r.rnrRetries))
	b = appendPSN(b, r.unacked, r.next, r.fresh, r.end, s.ePSN, psn.PSN(s.msn))
	b = binary.LittleEndian.AppendUint32(b, uint32(r.sinceAckReq))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.queue)))
	for _, m := range r.queue {
		b = binary.LittleEndian.AppendUint64(b, m.message.ID)
		b = appendPSN(b, m.first)
		b = append(b, flags(m.message.SE, m.message.Imm != nil))
		if m.message.Imm != nil {
			b = binary.LittleEndian.AppendUint32(b, *m.message.Imm)
		}
		b = appendBytes(b, m.message.Payload)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s.queue)))
	for _, v := range s.queue {
		b = binary.LittleEndian.AppendUint64(b, v.ID)
		b = binary.LittleEndian.AppendUint64(b, uint64(v.Bytes))
	}
	return appendBytes(b, s.message)
}

// Clone returns an independent rank in the same state. What it sends, and what its steps are, is shared; results are
// not, unless a step says where they go.
func (r *Rank) Clone() *Rank {
	c := &Rank{cfg: r.cfg, base: r.base, first: r.first, entered: r.entered, passed: r.passed, err: r.err}
	c.steps = append([]step(nil), r.steps...)
	for i := range c.steps {
		if st := &c.steps[i]; st.Into == nil {
			st.result = append([]byte(nil), st.result...)
		}
	}
	for _, ch := range r.channels {
		d := *ch
		d.QP = ch.QP.Clone()
		d.inFlight = append([]flight(nil), ch.inFlight...)
		d.expecting = append([]flight(nil), ch.expecting...)
		d.repoint(c)
		c.channels = append(c.channels, &d)
	}
	return c
}

// repoint puts the posted receives of a clone, and the message that is on its way, where its own results are.
func (c *channel) repoint(r *Rank) {
	at := map[int]int{}
	for i := range c.rsp.queue {
		want, rcv := c.expecting[i], &c.rsp.queue[i]
		st := r.step(want.step)
		if rcv.Into != nil && st.Into == nil {
			from := st.got + at[want.step]
			rcv.Into = st.place(from, want.size)
			at[want.step] += want.size
		}
		if i == 0 && c.rsp.inMessage {
			c.rsp.message = append(rcv.Into[:0], c.rsp.message...)
		}
	}
}

// AppendState appends all that decides what the rank will do and what its results are, in a canonical form, as
// QP.AppendState does. The error of a rank that has failed is only there or not.
func (r *Rank) AppendState(b []byte) []byte {
	b = append(b, flags(r.err != nil))
	for _, n := range []int{r.base, r.first, r.entered, r.passed} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	for i := range r.steps {
		st := &r.steps[i]
		b = append(b, flags(st.begun, st.ended, st.received))
		for _, n := range []int{st.sent, st.packets} {
			b = binary.LittleEndian.AppendUint32(b, uint32(n))
		}
		b = appendBytes(b, st.result[:st.got])
	}
	for _, c := range r.channels {
		b = c.QP.AppendState(b)
		for _, n := range []int{c.packets, len(c.inFlight), len(c.expecting), c.nextRecv, c.recvAt} {
			b = binary.LittleEndian.AppendUint32(b, uint32(n))
		}
	}
	return b
}

func appendPSN(b []byte, ps ...psn.PSN) []byte {
	for _, p := range ps {
		b = append(b, byte(p), byte(p>>8), byte(p>>16))
	}
	return b
}

func appendBytes(b, x []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(x)))
	return append(b, x...)
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
