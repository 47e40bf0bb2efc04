package host

import (
	"fmt"
	"time"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// EventKind says what an Event is.
type EventKind uint8

// The kinds of event.
const (
	PostSend EventKind = iota // Message: a SEND request is posted
	PostRecv                  // Receive: a receive buffer is posted
	Deliver                   // Packet: a frame has arrived and decoded
	Send                      // one packet is sent; only if CanSend
	Expire                    // Timer: an armed timer has run out
)

// Event is one thing that happens to a QP.
type Event struct {
	Kind    EventKind
	Message Message      // PostSend
	Receive Receive      // PostRecv
	Packet  *roce.Packet // Deliver; the QP keeps nothing of it
	Timer   Timer        // Expire
	QP      int          // Expire at a Rank: the index of the queue pair
}

// Message is a SEND request.
type Message struct {
	ID      uint64
	Payload []byte // not copied: it must stay as it is until the completion
	Imm     *uint32
	SE      bool
}

// Receive is a posted receive buffer.
type Receive struct {
	ID    uint64
	Bytes int // the longest message it takes
	// Into is where the message is put, at least Bytes long; nil: in memory of its own. A clone of the queue pair
	// shares it.
	Into []byte
}

// OutputKind says what an Output is.
type OutputKind uint8

// The kinds of output.
const (
	Frame    OutputKind = iota // Packet leaves
	Complete                   // Completion
	SetTimer                   // Timer is armed for After, or stopped
)

// Output is one thing that came of an event.
type Output struct {
	Kind       OutputKind
	Packet     *roce.Packet // Frame: the caller's to keep; its payload must not be written
	Completion Completion
	Timer      Timer
	Arm        bool          // SetTimer; arming an armed timer starts it again
	After      time.Duration // SetTimer, if armed
	QP         int           // of a Rank's outputs: the index of the queue pair
}

// Timer names one of a QP's timers.
type Timer uint8

// The timers.
const (
	Retransmit Timer = iota
	RNRWait
)

// Status is that of a completion, with the numbers of ibv_wc_status.
type Status uint8

// The statuses a QP gives.
const (
	StatusSuccess          Status = 0
	StatusLocalLength      Status = 1 // a message was longer than its receive
	StatusLocalQPError     Status = 2 // the same, as Linux reports it
	StatusFlushed          Status = 5
	StatusRemoteInvalid    Status = 9  // NAK 0x61
	StatusRemoteAccess     Status = 10 // NAK 0x62
	StatusRemoteOperation  Status = 11 // NAK 0x63, 0x64
	StatusRetryExceeded    Status = 12
	StatusRNRRetryExceeded Status = 13
)

// String says what happened, as ibv_wc_status_str does.
func (s Status) String() string {
	switch s {
	case StatusSuccess:
		return "success"
	case StatusLocalLength:
		return "local length error"
	case StatusLocalQPError:
		return "local QP operation error"
	case StatusFlushed:
		return "flushed"
	case StatusRemoteInvalid:
		return "remote invalid request"
	case StatusRemoteAccess:
		return "remote access error"
	case StatusRemoteOperation:
		return "remote operation error"
	case StatusRetryExceeded:
		return "transport retry counter exceeded"
	case StatusRNRRetryExceeded:
		return "RNR retry counter exceeded"
	}
	return fmt.Sprintf("status %d", uint8(s))
}

// Completion ends a posted request.
type Completion struct {
	ID      uint64
	Recv    bool // of a receive, else of a send
	Status  Status
	Payload []byte // of a successful receive: the message
	Imm     *uint32
}

// QP is one queue pair. It is not safe for concurrent use.
type QP struct {
	cfg   Config
	space psn.Space
	req   requester
	rsp   responder
	// failed: the queue pair is in the error state. It sends nothing, ignores everything and flushes
	// what is posted.
	failed    bool
	step, run []Output // reused by Step and Run
}

// New returns a queue pair that is ready to send.
func New(cfg Config) (*QP, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	space, err := cfg.space()
	if err != nil {
		return nil, fmt.Errorf("host %q: %w", cfg.Name, err)
	}
	return &QP{
		cfg:   cfg,
		space: space,
		req: requester{unacked: cfg.SendPSN, next: cfg.SendPSN, fresh: cfg.SendPSN, end: cfg.SendPSN,
			retries: cfg.RetryCnt, rnrRetries: cfg.RNRRetry},
		rsp: responder{ePSN: cfg.RecvPSN},
	}, nil
}

// Config returns what New was given.
func (q *QP) Config() Config { return q.cfg }

// Failed says that the queue pair is in the error state.
func (q *QP) Failed() bool { return q.failed }

// Idle says that every posted send is completed.
func (q *QP) Idle() bool { return len(q.req.queue) == 0 }

// Armed says that a timer runs.
func (q *QP) Armed(t Timer) bool {
	if t == RNRWait {
		return q.req.rnrWait
	}
	return q.req.timerRuns
}

// Step does one event and returns what came of it. The slice is used again by the next Step.
func (q *QP) Step(ev Event) []Output {
	q.step = q.step[:0]
	switch ev.Kind {
	case PostSend:
		q.postSend(ev.Message)
	case PostRecv:
		q.postRecv(ev.Receive)
	case Deliver:
		q.deliver(ev.Packet)
	case Send:
		if q.CanSend() {
			q.send()
		}
	case Expire:
		q.expire(ev.Timer)
	}
	return q.step
}

// Run steps an event and then sends all that may be sent. The slice is used again by the next Run.
func (q *QP) Run(ev Event) []Output {
	q.run = append(q.run[:0], q.Step(ev)...)
	for q.CanSend() {
		q.run = append(q.run, q.Step(Event{Kind: Send})...)
	}
	return q.run
}

// deliver looks at a frame: whose it is, then what it is. What does not fit is ignored silently.
func (q *QP) deliver(pkt *roce.Packet) {
	if q.failed || !q.Accepts(pkt) {
		return
	}
	switch op, _ := pkt.Opcode.Info(); op.Kind {
	case spec.KindAck:
		q.answered(pkt)
	case spec.KindData:
		q.requested(pkt)
	}
}

// Accepts says whether a packet is for this queue pair. MAC addresses, UDP source port, MigReq, TTL
// and reserved bits do not matter.
func (q *QP) Accepts(pkt *roce.Packet) bool {
	return pkt.DestQP == q.cfg.QPN && pkt.Dst == q.cfg.IP && pkt.Src == q.cfg.PeerIP &&
		pkt.PKey&0x7fff == q.cfg.PKey&0x7fff && (pkt.PKey|q.cfg.PKey)&0x8000 != 0
}

// header is a frame to the peer, without what depends on the opcode.
func (q *QP) header(p psn.PSN, opcode spec.Opcode) *roce.Packet {
	pkt := &roce.Packet{
		DstMAC: q.cfg.PeerMAC, SrcMAC: q.cfg.MAC,
		Src: q.cfg.IP, Dst: q.cfg.PeerIP, TOS: q.cfg.TOS, TTL: q.cfg.TTL, DF: q.cfg.IP.Is4(), SrcPort: q.cfg.UDPSport,
		Opcode: opcode, MigReq: q.cfg.MigReq, PKey: q.cfg.PKey, DestQP: q.cfg.PeerQPN, PSN: p,
	}
	if q.cfg.VLAN != nil {
		pkt.VLAN = []roce.VLANTag{{TPID: spec.EtherTypeVLAN, TCI: *q.cfg.VLAN}}
	}
	return pkt
}

func (q *QP) emit(pkt *roce.Packet) {
	q.step = append(q.step, Output{Kind: Frame, Packet: pkt})
}

func (q *QP) complete(c Completion) {
	q.step = append(q.step, Output{Kind: Complete, Completion: c})
}

func (q *QP) arm(t Timer, after time.Duration) {
	q.step = append(q.step, Output{Kind: SetTimer, Timer: t, Arm: true, After: after})
}

func (q *QP) stop(t Timer) {
	q.step = append(q.step, Output{Kind: SetTimer, Timer: t})
}

// fail takes the queue pair to the error state: timers stop, all that is posted is flushed.
func (q *QP) fail() {
	q.failed = true
	q.stopTimer()
	if q.req.rnrWait {
		q.req.rnrWait = false
		q.stop(RNRWait)
	}
	for _, r := range q.req.queue {
		q.complete(Completion{ID: r.message.ID, Status: StatusFlushed})
	}
	q.req.queue = nil
	q.flushReceives()
}

// String names a queue pair in messages.
func (q *QP) String() string { return fmt.Sprintf("%s (QPN %#06x)", q.cfg.Name, q.cfg.QPN) }
