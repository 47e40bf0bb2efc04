package host

import (
	"time"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// ackTimeoutUnit is the unit of the local ACK timeout (IBTA 9.9.2.1.1.1).
const ackTimeoutUnit = 4096 * time.Nanosecond

// AckTimeout is how long a NIC waits for an ACK with a timeout code, 1..31.
func AckTimeout(code int) time.Duration { return ackTimeoutUnit << code }

// rnrTick is the unit of the RNR timer codes (IBTA table 45).
const rnrTick = spec.TickNs * time.Nanosecond

// unlimited is the retry_cnt and rnr_retry that never runs out.
const unlimited = 7

// request is a posted message with the psns it occupies.
type request struct {
	message Message
	first   psn.PSN
	packets int // at least 1
}

// requester is the sending half of a queue pair. unacked <= next <= fresh <= end.
type requester struct {
	queue   []request // not completed, in order
	unacked psn.PSN   // oldest psn not acknowledged
	next    psn.PSN   // psn to send next; below fresh when sending again
	fresh   psn.PSN   // oldest psn never sent
	end     psn.PSN   // psn after the last message posted

	sinceAckReq int  // packets sent since the last with AckReq
	retries     int  // left, unless unlimited
	rnrRetries  int  // left, unless unlimited
	nakObeyed   bool // a NAK or timeout has been followed, no ACK accepted since
	timerRuns   bool
	rnrWait     bool
}

func (q *QP) postSend(m Message) {
	if q.failed {
		q.complete(Completion{ID: m.ID, Status: StatusFlushed})
		return
	}
	n := max(1, (len(m.Payload)+q.cfg.MTU-1)/q.cfg.MTU)
	q.req.queue = append(q.req.queue, request{message: m, first: q.req.end, packets: n})
	q.req.end = q.space.Add(q.req.end, n)
}

// CanSend says that Send would send a packet now.
func (q *QP) CanSend() bool {
	r := &q.req
	return !q.failed && !r.rnrWait && r.next != r.end && q.space.Sub(r.next, r.unacked) < q.cfg.Settings.Window
}

// send sends the packet of psn next.
func (q *QP) send() {
	r := &q.req
	pkt := q.packet(r.next)
	r.sinceAckReq++
	if op, _ := pkt.Opcode.Info(); op.Last || r.sinceAckReq == q.cfg.Settings.AckReqEvery {
		pkt.AckReq = true
		r.sinceAckReq = 0
	}
	if r.next == r.fresh {
		r.fresh = q.space.Next(r.fresh)
	}
	r.next = q.space.Next(r.next)
	q.emit(pkt)
	if !r.timerRuns {
		q.startTimer()
	}
}

// packet is the one of psn p, cut from its message.
func (q *QP) packet(p psn.PSN) *roce.Packet {
	at := 0
	for q.space.Sub(p, q.req.queue[at].first) >= q.req.queue[at].packets {
		at++
	}
	req := &q.req.queue[at]
	n := q.space.Sub(p, req.first)
	first, last := n == 0, n == req.packets-1

	var op spec.Opcode
	switch {
	case first && last:
		op = spec.OpcodeSendOnly
	case first:
		op = spec.OpcodeSendFirst
	case last:
		op = spec.OpcodeSendLast
	default:
		op = spec.OpcodeSendMiddle
	}
	if last && req.message.Imm != nil {
		op++ // SEND Last, Only -> with Immediate
	}
	pkt := q.header(p, op)
	if last {
		pkt.SE = req.message.SE
		if req.message.Imm != nil {
			pkt.Imm = *req.message.Imm
		}
	}
	payload := req.message.Payload
	pkt.Payload = payload[n*q.cfg.MTU : min((n+1)*q.cfg.MTU, len(payload))]
	return pkt
}

// answered: an ACK, NAK or RNR NAK.
func (q *QP) answered(pkt *roce.Packet) {
	r, p := &q.req, pkt.PSN
	kind := pkt.Syndrome >> 5 // IBTA 9.7.5.1: 0 ACK, 1 RNR NAK, 3 NAK
	// acked: the answer acknowledges everything before this psn.
	acked := p
	if kind == 0 {
		acked = q.space.Next(p)
	}
	switch {
	case q.space.Less(p, r.unacked): // stale
		return
	case !q.space.LessEq(acked, r.fresh): // beyond what was sent
		if !q.cfg.Settings.AckBeyondCompletes {
			return
		}
		acked = r.fresh
	}
	q.progress(acked)

	switch {
	case kind == 0:
		r.retries, r.rnrRetries = q.cfg.RetryCnt, q.cfg.RNRRetry
		r.nakObeyed = false
		q.restartTimer()
	case kind == 1:
		q.notReady(pkt.Syndrome & 0x1f)
	case pkt.Syndrome == spec.SyndromeNakSequence:
		q.goBack()
	default:
		q.failSend(map[uint8]Status{
			spec.SyndromeNakInvalid:   StatusRemoteInvalid,
			spec.SyndromeNakAccess:    StatusRemoteAccess,
			spec.SyndromeNakOperation: StatusRemoteOperation,
			spec.SyndromeNakRd:        StatusRemoteOperation,
		}[pkt.Syndrome])
	}
}

// progress: all before p is acknowledged; messages that end there are complete.
func (q *QP) progress(p psn.PSN) {
	r := &q.req
	if r.unacked != p && !q.cfg.Settings.NAKOncePerACK {
		r.retries, r.rnrRetries = q.cfg.RetryCnt, q.cfg.RNRRetry
	}
	r.unacked = p
	if q.space.Less(r.next, p) {
		r.next = p
	}
	done := 0
	for done < len(r.queue) && q.space.LessEq(q.space.Add(r.queue[done].first, r.queue[done].packets), p) {
		q.complete(Completion{ID: r.queue[done].message.ID, Status: StatusSuccess})
		done++
	}
	r.queue = r.queue[done:]
}

// goBack: a sequence NAK; what comes after the acknowledged is sent again.
func (q *QP) goBack() {
	r := &q.req
	if r.rnrWait {
		return // it was good as an ACK of what is before it
	}
	if r.unacked == r.fresh || r.nakObeyed && q.cfg.Settings.NAKOncePerACK {
		q.restartTimer()
		return
	}
	if !q.spendRetry() {
		return
	}
	r.next = r.unacked
	q.restartTimer()
}

// spendRetry counts a timeout or NAK; false: it was one too many, and the queue pair has failed.
func (q *QP) spendRetry() bool {
	r := &q.req
	switch r.retries {
	case 0:
		q.failSend(StatusRetryExceeded)
		return false
	case unlimited:
	default:
		r.retries--
	}
	r.nakObeyed = true
	return true
}

// notReady: an RNR NAK; nothing is sent for a while.
func (q *QP) notReady(code uint8) {
	r := &q.req
	switch r.rnrRetries {
	case 0:
		q.failSend(StatusRNRRetryExceeded)
		return
	case unlimited:
	default:
		r.rnrRetries--
	}
	r.next = r.unacked
	r.rnrWait = true
	q.stopTimer()
	q.arm(RNRWait, time.Duration(spec.RNRTicks(code))*rnrTick)
}

// expire: a timer has run out. One that was stopped meanwhile does nothing.
func (q *QP) expire(t Timer) {
	r := &q.req
	switch {
	case q.failed:
	case t == RNRWait:
		r.rnrWait = false
	case r.timerRuns:
		r.timerRuns = false
		if r.unacked != r.fresh && q.spendRetry() {
			r.next = r.unacked
		}
	}
}

// failSend: the oldest message completes with a status, everything else is flushed.
func (q *QP) failSend(s Status) {
	if len(q.req.queue) > 0 {
		q.complete(Completion{ID: q.req.queue[0].message.ID, Status: s})
		q.req.queue = q.req.queue[1:]
	}
	q.fail()
}

func (q *QP) startTimer() {
	if q.cfg.Timeout > 0 {
		q.req.timerRuns = true
		q.arm(Retransmit, AckTimeout(q.cfg.Timeout))
	}
}

func (q *QP) stopTimer() {
	if q.req.timerRuns {
		q.req.timerRuns = false
		q.stop(Retransmit)
	}
}

// restartTimer: something was heard. With nothing outstanding the timer stops, or runs on for the
// packet that comes next.
func (q *QP) restartTimer() {
	switch {
	case q.req.rnrWait:
	case q.req.unacked != q.req.fresh:
		q.startTimer()
	case !q.cfg.Settings.LazyTimer:
		q.stopTimer()
	}
}
