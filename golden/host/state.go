package host

import (
	"encoding/binary"

	"github.com/epic-inc/epic/golden/psn"
)

// Clone returns an independent queue pair in the same state. Payloads of posted messages are shared;
// nobody writes them.
func (q *QP) Clone() *QP {
	c := &QP{cfg: q.cfg, req: q.req, rsp: q.rsp, failed: q.failed}
	c.req.queue = append([]request(nil), q.req.queue...)
	c.rsp.queue = append([]Receive(nil), q.rsp.queue...)
	c.rsp.message = append([]byte(nil), q.rsp.message...)
	return c
}

// AppendState appends all that decides what the queue pair will do, in a canonical form: two of one
// configuration are in the same state if and only if they append the same bytes.
func (q *QP) AppendState(b []byte) []byte {
	r, s := &q.req, &q.rsp
	b = append(b, flags(q.failed, r.nakObeyed, r.timerRuns, r.rnrWait, s.nakSent, s.inMessage),
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
