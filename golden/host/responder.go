package host

import (
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// responder is the receiving half of a queue pair.
type responder struct {
	ePSN    psn.PSN // next psn in order
	msn     uint32  // messages received, mod 2^24
	nakSent bool    // the gap at ePSN has been answered

	queue     []Receive // posted, in order; the first is in use while inMessage
	inMessage bool      // a First has come, its Last has not
	message   []byte    // what has come of it
}

func (q *QP) postRecv(r Receive) {
	if q.failed {
		q.complete(Completion{ID: r.ID, Recv: true, Status: StatusFlushed})
		return
	}
	q.rsp.queue = append(q.rsp.queue, r)
}

func (q *QP) flushReceives() {
	for _, r := range q.rsp.queue {
		q.complete(Completion{ID: r.ID, Recv: true, Status: StatusFlushed})
	}
	q.rsp.queue, q.rsp.inMessage, q.rsp.message = nil, false, nil
}

// requested: a request packet. The order of the checks is IBTA's (9.7.4.1): PSN, opcode sequence,
// receive, length.
func (q *QP) requested(pkt *roce.Packet) {
	r := &q.rsp
	switch d := q.space.Sub(pkt.PSN, r.ePSN); {
	case d < 0: // a duplicate: its ACK was lost; say how far we are, whether it asks or not
		q.answer(q.space.Prev(r.ePSN), spec.SyndromeAck)
		return
	case d > 0: // a gap: say it once
		if !r.nakSent {
			r.nakSent = true
			q.answer(r.ePSN, spec.SyndromeNakSequence)
		}
		return
	}
	r.nakSent = false

	op, _ := pkt.Opcode.Info()
	if pkt.Opcode > spec.OpcodeSendOnlyImm || op.First == r.inMessage {
		// RDMA WRITE finds no memory here; a First within a message or none before it is an error.
		q.refuse(spec.SyndromeNakInvalid, StatusFlushed)
		return
	}
	if len(r.queue) == 0 {
		r.nakSent = q.cfg.Settings.RNRSilences
		q.answer(r.ePSN, spec.SyndromeRNR|uint8(q.cfg.MinRNRTimer))
		return
	}
	n := len(pkt.Payload)
	if n > q.cfg.MTU || q.cfg.Settings.CheckLength && !op.Last && n != q.cfg.MTU {
		q.refuse(spec.SyndromeNakInvalid, StatusFlushed)
		return
	}
	if len(r.message)+n > r.queue[0].Bytes {
		q.refuse(spec.SyndromeNakOperation, q.cfg.Settings.LongStatus)
		return
	}

	if !r.inMessage {
		r.message = r.queue[0].Into[:0]
	}
	r.message = append(r.message, pkt.Payload...)
	r.inMessage = !op.Last
	r.ePSN = q.space.Next(r.ePSN)
	if op.Last {
		r.msn = (r.msn + 1) & psn.Mask
		done := Completion{ID: r.queue[0].ID, Recv: true, Status: StatusSuccess, Payload: r.message}
		if pkt.HasImm() {
			imm := pkt.Imm
			done.Imm = &imm
		}
		r.queue, r.message = r.queue[1:], nil
		q.complete(done)
	}
	if pkt.AckReq {
		q.answer(pkt.PSN, spec.SyndromeAck)
	}
}

// answer sends an ACK or NAK with the MSN of now.
func (q *QP) answer(p psn.PSN, syndrome uint8) {
	pkt := q.header(p, spec.OpcodeAcknowledge)
	pkt.Syndrome, pkt.MSN = syndrome, q.rsp.msn
	q.emit(pkt)
}

// refuse answers with a fatal NAK; the receive in use completes with a status, all else is flushed.
func (q *QP) refuse(syndrome uint8, s Status) {
	q.answer(q.rsp.ePSN, syndrome)
	if len(q.rsp.queue) > 0 {
		q.complete(Completion{ID: q.rsp.queue[0].ID, Recv: true, Status: s})
		q.rsp.queue = q.rsp.queue[1:]
	}
	q.fail()
}
