package host

import (
	"fmt"

	"github.com/epic-inc/epic/golden/psn"
)

// Rank is the host's library on top of a QP: it sends one tensor as messages and collects one, and
// keeps to the window MW of protocol.md section 1 (outstanding messages x M <= MW), which the NIC by
// itself does not. It takes the QP's events, and posting is its own work.
type Rank struct {
	*QP
	cfg RankConfig

	sent      int // bytes of Send posted
	entered   int // Barriers
	passed    int
	packets   int // of the messages outstanding
	inFlight  []int
	result    []byte
	posted    int // bytes of receives posted; of Barriers, receives
	nextID    uint64
	err       error
	collected []Output
}

// RankConfig says what a rank sends and expects.
type RankConfig struct {
	QP             Config
	Send           []byte // the tensor it contributes; nil: none (the root of a Reduce)
	RecvBytes      int    // how much it is to receive
	Barriers       int    // so many Barriers one after the other, in place of a tensor
	MessagePackets int    // M, packets of a message; the last may be shorter
	WindowPackets  int    // MW, at least M
	PostedReceives int    // receives kept posted; 0: 64
}

// NewRank returns a rank that has not begun; Start begins.
func NewRank(cfg RankConfig) (*Rank, error) {
	q, err := New(cfg.QP)
	if err != nil {
		return nil, err
	}
	if cfg.MessagePackets < 1 || cfg.WindowPackets < cfg.MessagePackets || cfg.RecvBytes < 0 {
		return nil, fmt.Errorf("rank %v: got M %d, MW %d, %d bytes to receive; want 1 <= M <= MW and no less than 0 bytes",
			q, cfg.MessagePackets, cfg.WindowPackets, cfg.RecvBytes)
	}
	if cfg.Barriers < 0 || cfg.Barriers > 0 && (len(cfg.Send) > 0 || cfg.RecvBytes > 0) {
		return nil, fmt.Errorf("rank %v: got %d Barriers, %d bytes to send and %d to receive; want Barriers or bytes",
			q, cfg.Barriers, len(cfg.Send), cfg.RecvBytes)
	}
	if cfg.PostedReceives == 0 {
		cfg.PostedReceives = 64
	}
	return &Rank{QP: q, cfg: cfg}, nil
}

// Start posts what may be posted at once, and sends.
func (r *Rank) Start() []Output {
	r.collected = r.collected[:0]
	r.post()
	return r.collected
}

// Run does one event of the QP, and posts what its completions allow. The slice is used again by the
// next Run. Completions stay in it, for those who count them.
func (r *Rank) Run(ev Event) []Output {
	r.collected = r.collected[:0]
	r.do(ev)
	r.post()
	return r.collected
}

func (r *Rank) do(ev Event) {
	outs := r.QP.Run(ev)
	r.collected = append(r.collected, outs...)
	for _, o := range outs {
		if o.Kind == Complete {
			r.completed(o.Completion)
		}
	}
}

func (r *Rank) completed(c Completion) {
	switch {
	case c.Status != StatusSuccess:
		if r.err == nil && c.Status != StatusFlushed {
			what := "send"
			if c.Recv {
				what = "receive"
			}
			r.err = fmt.Errorf("rank %v: %s %d completed with status %d", r.QP, what, c.ID, c.Status)
		}
	case c.Recv && r.cfg.Barriers > 0:
		r.passed++
		if len(c.Payload) > 0 && r.err == nil {
			r.err = fmt.Errorf("rank %v: Barrier %d came with %d bytes, want none", r.QP, r.passed, len(c.Payload))
		}
	case c.Recv:
		r.result = append(r.result, c.Payload...)
	default:
		r.packets -= r.inFlight[0]
		r.inFlight = r.inFlight[1:]
	}
}

func (r *Rank) post() {
	if r.Failed() {
		return
	}
	if r.cfg.Barriers > 0 {
		r.postBarrier()
		return
	}
	size := r.cfg.MessagePackets * r.cfg.QP.MTU
	for r.posted < r.cfg.RecvBytes && len(r.rsp.queue) < r.cfg.PostedReceives {
		r.nextID++
		r.posted += size
		r.do(Event{Kind: PostRecv, Receive: Receive{ID: r.nextID, Bytes: size}})
	}
	for r.sent < len(r.cfg.Send) {
		m := r.cfg.Send[r.sent:min(len(r.cfg.Send), r.sent+size)]
		n := (len(m) + r.cfg.QP.MTU - 1) / r.cfg.QP.MTU
		if r.packets+n > r.cfg.WindowPackets {
			return
		}
		r.nextID++
		r.sent += len(m)
		r.packets += n
		r.inFlight = append(r.inFlight, n)
		r.do(Event{Kind: PostSend, Message: Message{ID: r.nextID, Payload: m}})
	}
}

// postBarrier enters the next Barrier, a message without payload, once the one before is passed.
func (r *Rank) postBarrier() {
	for r.posted < r.cfg.Barriers && len(r.rsp.queue) < r.cfg.PostedReceives {
		r.nextID++
		r.posted++
		r.do(Event{Kind: PostRecv, Receive: Receive{ID: r.nextID}})
	}
	if r.entered == r.cfg.Barriers || r.entered > r.passed || r.packets == r.cfg.WindowPackets {
		return
	}
	r.nextID++
	r.entered++
	r.packets++
	r.inFlight = append(r.inFlight, 1)
	r.do(Event{Kind: PostSend, Message: Message{ID: r.nextID}})
}

// Done says that everything is sent, acknowledged and received, or that the rank has failed.
func (r *Rank) Done() bool {
	return r.Failed() || r.sent == len(r.cfg.Send) && r.Idle() && len(r.result) >= r.cfg.RecvBytes && r.passed == r.cfg.Barriers
}

// Barriers are how many Barriers it has entered, and how many of them it has passed.
func (r *Rank) Barriers() (entered, passed int) { return r.entered, r.passed }

// Result is what it received so far.
func (r *Rank) Result() []byte { return r.result }

// Err is the first error of a completion, nil if there was none.
func (r *Rank) Err() error {
	if r.err == nil && r.Failed() {
		return fmt.Errorf("rank %v: queue pair is in error", r.QP)
	}
	return r.err
}

// Outstanding is how many packets it has posted and not seen acknowledged: at most MW.
func (r *Rank) Outstanding() int { return r.packets }

// NextPSN is the psn after all that it has posted, where the next collective goes on.
func (r *Rank) NextPSN() psn.PSN { return r.req.end }
