package host

import (
	"bytes"
	"fmt"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/reduce"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// Op is one step of a rank's program: what it sends into one of its queue pairs, and what it gets from it.
type Op struct {
	QP      int    // index in RankConfig.QPs
	Send    []byte // not copied; empty: it sends nothing
	Recv    int    // bytes that come; 0: nothing does
	Barrier bool   // one message goes out and one comes, without payload if there is none to send and to receive

	Imm  *uint32 // goes with the message, and must come with the one received; of a step of one message
	Want []byte  // what must come, if that is known

	// Own is the root's part of a Reduce, as long as Recv: it is reduced into what came, last.
	Own   []byte
	Op    spec.Op
	DType spec.DType

	// Pipelined lets the step begin when the step before has posted all that it sends, if the one before
	// that has ended: two are under way at most.
	Pipelined bool
}

// RankConfig says what a rank does.
type RankConfig struct {
	Name           string   // for messages; empty: the first queue pair's
	QPs            []Config // at least one, with different QPNs
	Ops            []Op     // one after the other
	MessagePackets int      // M, packets of a message; the last may be shorter
	WindowPackets  int      // MW, at least M: the most of one queue pair that are not acknowledged
	PostedReceives int      // receives kept posted at a queue pair; 0: 64
}

// Rank is the host's library on top of its QPs: it runs a program of steps, sends tensors as messages and
// puts together what comes, and keeps to the window MW of protocol.md section 1 (outstanding messages x M
// <= MW), which a NIC by itself does not. It takes the QPs' events, and posting is its own work. Receives
// are posted for all steps from the start, as far as PostedReceives allows.
type Rank struct {
	cfg      RankConfig
	channels []*channel
	ops      []opState
	first    int // oldest step that has not ended
	entered  int // Barriers
	passed   int
	err      error

	collected []Output
}

type opState struct {
	sent, packets int // bytes posted; packets not acknowledged
	begun, ended  bool
	result        []byte
	received      bool // all of it
}

// channel is a QP with what is under way in it.
type channel struct {
	*QP
	index     int
	packets   int // of the messages outstanding
	inFlight  []flight
	expecting []flight // receives posted: step and bytes
	nextRecv  int      // step whose receives are to be posted next
	recvAt    int      // bytes of it that are posted
	nextID    uint64
}

type flight struct{ op, size int }

// NewRank returns a rank that has not begun; Start begins.
func NewRank(cfg RankConfig) (*Rank, error) {
	if cfg.PostedReceives == 0 {
		cfg.PostedReceives = 64
	}
	r := &Rank{cfg: cfg, ops: make([]opState, len(cfg.Ops))}
	for i, c := range cfg.QPs {
		q, err := New(c)
		if err != nil {
			return nil, err
		}
		for _, other := range cfg.QPs[:i] {
			if other.QPN == c.QPN {
				return nil, fmt.Errorf("rank %v: two queue pairs have QPN %#06x, want one", q, c.QPN)
			}
		}
		r.channels = append(r.channels, &channel{QP: q, index: i})
	}
	if len(r.channels) == 0 {
		return nil, fmt.Errorf("rank %s: got no queue pair, want at least one", cfg.Name)
	}
	if cfg.MessagePackets < 1 || cfg.WindowPackets < cfg.MessagePackets {
		return nil, fmt.Errorf("rank %v: got M %d, MW %d; want 1 <= M <= MW", r, cfg.MessagePackets, cfg.WindowPackets)
	}
	for i, op := range cfg.Ops {
		if err := op.check(len(cfg.QPs), cfg.QPs[0].MTU); err != nil {
			return nil, fmt.Errorf("rank %v: step %d: %w", r, i, err)
		}
	}
	return r, nil
}

func (op Op) check(qps, mtu int) error {
	switch {
	case op.QP < 0 || op.QP >= qps:
		return fmt.Errorf("got queue pair %d, want 0..%d", op.QP, qps-1)
	case op.Recv < 0 || op.Barrier && op.Imm == nil && (len(op.Send) > 0 || op.Recv > 0):
		return fmt.Errorf("got Barrier %v, %d bytes to send and %d to receive; want a Barrier or bytes", op.Barrier, len(op.Send), op.Recv)
	case op.Imm != nil && max(len(op.Send), op.Recv) > mtu:
		return fmt.Errorf("got an immediate with %d bytes to send and %d to receive, want one packet, %d", len(op.Send), op.Recv, mtu)
	case op.Own != nil && len(op.Own) != op.Recv:
		return fmt.Errorf("its own part has %d bytes, want %d as it receives", len(op.Own), op.Recv)
	}
	if op.Own != nil {
		return reduce.Supported(op.DType, op.Op)
	}
	return nil
}

// Start posts what may be posted at once, and sends.
func (r *Rank) Start() []Output {
	r.collected = r.collected[:0]
	r.post()
	return r.collected
}

// Run does one event of a QP, and posts what its completions allow. The slice is used again by the
// next Run. Completions stay in it, for those who count them.
func (r *Rank) Run(ev Event) []Output {
	r.collected = r.collected[:0]
	if ev.Kind == Deliver {
		c := r.owner(ev.Packet)
		if c == nil {
			return nil
		}
		ev.QP = c.index
	}
	r.do(r.channels[ev.QP], ev)
	r.post()
	return r.collected
}

// Owns says whether a packet is for one of its queue pairs.
func (r *Rank) Owns(pkt *roce.Packet) bool { return r.owner(pkt) != nil }

func (r *Rank) owner(pkt *roce.Packet) *channel {
	for _, c := range r.channels {
		if c.Accepts(pkt) {
			return c
		}
	}
	return nil
}

func (r *Rank) do(c *channel, ev Event) {
	outs := c.QP.Run(ev)
	for _, o := range outs {
		o.QP = c.index
		r.collected = append(r.collected, o)
	}
	for _, o := range outs {
		if o.Kind == Complete {
			r.completed(c, o.Completion)
		}
	}
}

func (r *Rank) fail(err error) {
	if r.err == nil {
		r.err = fmt.Errorf("rank %v: %w", r, err)
	}
}

func (r *Rank) completed(c *channel, done Completion) {
	switch {
	case done.Status != StatusSuccess:
		if done.Status != StatusFlushed {
			what := "send"
			if done.Recv {
				what = "receive"
			}
			r.fail(fmt.Errorf("%s %d of QPN %#06x completed with status %d", what, done.ID, c.cfg.QPN, done.Status))
		}
	case done.Recv:
		r.received(c, done)
	default:
		f := c.inFlight[0]
		c.inFlight = c.inFlight[1:]
		c.packets -= f.size
		r.ops[f.op].packets -= f.size
	}
}

func (r *Rank) received(c *channel, done Completion) {
	want, payload := c.expecting[0], done.Payload
	c.expecting = c.expecting[1:]
	op, st := &r.cfg.Ops[want.op], &r.ops[want.op]
	switch {
	case (done.Imm == nil) != (op.Imm == nil):
		r.fail(fmt.Errorf("step %d: a message came with immediate %v, want %v", want.op, done.Imm != nil, op.Imm != nil))
	case op.Imm != nil && *done.Imm != *op.Imm:
		r.fail(fmt.Errorf("step %d: a message came with immediate %#08x, want %#08x", want.op, *done.Imm, *op.Imm))
	case op.Want != nil && !bytes.Equal(payload, op.Want):
		r.fail(fmt.Errorf("step %d: got %x, want %x", want.op, payload, op.Want))
	}
	if len(payload) != want.size {
		r.fail(fmt.Errorf("step %d: a message came with %d bytes, want %d", want.op, len(payload), want.size))
	}
	if op.Barrier {
		r.passed++
		st.received = true
		return
	}
	st.result = append(st.result, payload...)
	if len(st.result) < op.Recv || st.received {
		return
	}
	st.received = true
	if op.Own != nil {
		if err := reduce.Accumulate(op.DType, op.Op, st.result, op.Own); err != nil {
			r.fail(fmt.Errorf("step %d: %w", want.op, err))
		}
	}
}

// post posts receives and then what the program allows to send.
func (r *Rank) post() {
	if r.Failed() {
		return
	}
	for _, c := range r.channels {
		r.postReceives(c)
	}
	for i := r.first; i < len(r.ops) && r.mayBegin(i); i++ {
		r.send(i)
		r.end(i)
	}
	for r.first < len(r.ops) && r.ops[r.first].ended {
		r.first++
	}
}

// mayBegin says whether the program has come to step i.
func (r *Rank) mayBegin(i int) bool {
	switch {
	case r.ops[i].begun || i == 0:
		return true
	case i > 1 && !r.ops[i-2].ended && !r.ops[i-2].received:
		return false
	}
	before := &r.ops[i-1]
	if before.ended || r.cfg.Ops[i-1].Barrier && before.received { // the answer to a Barrier says more than its ACK
		return true
	}
	return r.cfg.Ops[i].Pipelined && before.begun && before.sent == len(r.cfg.Ops[i-1].Send)
}

func (r *Rank) postReceives(c *channel) {
	size := r.cfg.MessagePackets * c.cfg.MTU
	for c.nextRecv < len(r.ops) && len(c.rsp.queue) < r.cfg.PostedReceives {
		op := &r.cfg.Ops[c.nextRecv]
		if op.QP != c.index || c.recvAt >= op.Recv && !op.Barrier {
			c.nextRecv, c.recvAt = c.nextRecv+1, 0
			continue
		}
		n := min(size, op.Recv-c.recvAt)
		f := flight{c.nextRecv, n}
		if c.recvAt += n; op.Barrier {
			c.nextRecv, c.recvAt = c.nextRecv+1, 0
		}
		c.nextID++
		c.expecting = append(c.expecting, f)
		r.do(c, Event{Kind: PostRecv, Receive: Receive{ID: c.nextID, Bytes: n}})
	}
}

// send posts the messages of step i, as far as the window allows.
func (r *Rank) send(i int) {
	op, st := &r.cfg.Ops[i], &r.ops[i]
	c := r.channels[op.QP]
	post := func(m []byte, packets int) {
		c.nextID++
		c.packets += packets
		st.packets += packets
		c.inFlight = append(c.inFlight, flight{i, packets})
		r.do(c, Event{Kind: PostSend, Message: Message{ID: c.nextID, Payload: m, Imm: op.Imm}})
	}
	if op.Barrier {
		if !st.begun && c.packets < r.cfg.WindowPackets {
			st.begun = true
			st.sent = len(op.Send)
			r.entered++
			post(op.Send, 1)
		}
		return
	}
	st.begun = true
	size := r.cfg.MessagePackets * c.cfg.MTU
	for st.sent < len(op.Send) {
		m := op.Send[st.sent:min(len(op.Send), st.sent+size)]
		n := (len(m) + c.cfg.MTU - 1) / c.cfg.MTU
		if c.packets+n > r.cfg.WindowPackets {
			return
		}
		st.sent += len(m)
		post(m, n)
	}
}

// end notes whether step i has ended: all sent is acknowledged, all expected is here.
func (r *Rank) end(i int) {
	op, st := &r.cfg.Ops[i], &r.ops[i]
	st.ended = st.begun && st.sent == len(op.Send) && st.packets == 0 && (st.received || op.Recv == 0 && !op.Barrier)
}

// Done says that every step has ended, or that the rank has failed.
func (r *Rank) Done() bool { return r.Failed() || r.first == len(r.ops) }

// Failed says that one of its queue pairs is in the error state.
func (r *Rank) Failed() bool {
	for _, c := range r.channels {
		if c.QP.Failed() {
			return true
		}
	}
	return false
}

// Barriers are how many Barriers it has entered, and how many of them it has passed.
func (r *Rank) Barriers() (entered, passed int) { return r.entered, r.passed }

// Ended is how many steps of its program have ended, all before which have too.
func (r *Rank) Ended() int { return r.first }

// Result is what step i received so far; of a Reduce's root, with its own part once all is there.
func (r *Rank) Result(i int) []byte { return r.ops[i].result }

// Err is the first thing that went wrong, nil if nothing has.
func (r *Rank) Err() error {
	if r.err != nil {
		return r.err
	}
	for _, c := range r.channels {
		if c.QP.Failed() {
			return fmt.Errorf("rank %v: queue pair %#06x is in error", r, c.cfg.QPN)
		}
	}
	return nil
}

// QPs is how many queue pairs it has.
func (r *Rank) QPs() int { return len(r.channels) }

// Outstanding is how many packets of queue pair q it has posted and not seen acknowledged: at most MW.
func (r *Rank) Outstanding(q int) int { return r.channels[q].packets }

// NextPSN is the psn after all that it has posted at queue pair q, where the next collective goes on.
func (r *Rank) NextPSN(q int) psn.PSN { return r.channels[q].req.end }

// NextRecvPSN is the psn that queue pair q expects next.
func (r *Rank) NextRecvPSN(q int) psn.PSN { return r.channels[q].rsp.ePSN }

// String names the rank in messages.
func (r *Rank) String() string {
	if r.cfg.Name != "" || len(r.channels) == 0 {
		return r.cfg.Name
	}
	return r.channels[0].QP.String()
}
