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
	QP      int    // index of the queue pair: in RankConfig.QPs, or what AddQP returned
	From    *int   // that of the queue pair from which it receives; nil: QP
	Send    []byte // not copied; empty: it sends nothing
	Recv    int    // bytes that come; 0: nothing does
	Barrier bool   // one message goes out and one comes, without payload if there is none to send and to receive

	Imm  *uint32 // goes with the message, and must come with the one received; of a step of one message
	Want []byte  // what must come, if that is known

	// Own is the root's part of a Reduce, as long as Recv: it is reduced into what came, last.
	Own   []byte
	Op    spec.Op
	DType spec.DType
	// Into is where the result is put, message by message as it comes, as long as Recv; nil: in memory of its own.
	// It may be Own, and Send too where what is sent again is not looked at (protocol.md 5, 6: duplicates).
	Into []byte

	// Paced holds what is sent to a window MW beyond what has come, of a step that gets a result for all it sends. A
	// switch that acknowledges at once would otherwise let a rank run into the end of its slots, and tell it again and
	// again that it is too fast.
	Paced bool

	// Pipelined lets the step begin when the step before has posted all that it sends, if the one before
	// that has ended: two are under way at most.
	Pipelined bool
}

// RankConfig says what a rank does.
type RankConfig struct {
	Name           string   // for messages; empty: the first queue pair's
	QPs            []Config // at least one, with different QPNs; AddQP adds others
	Ops            []Op     // one after the other; Post adds others
	MessagePackets int      // M of QPs, packets of a message; the last may be shorter
	WindowPackets  int      // MW of QPs, at least M: the most of one queue pair that are not acknowledged
	PostedReceives int      // receives kept posted at a queue pair; 0: 64
}

// Rank is the host's library on top of its QPs: it runs a program of steps, sends tensors as messages and
// puts together what comes, and keeps to the window MW of protocol.md section 1 (outstanding messages x M
// <= MW), which a NIC by itself does not. It takes the QPs' events, and posting is its own work. Receives
// are posted for all steps from the start, as far as PostedReceives allows. Steps and queue pairs may be
// added to the end of the program while it runs.
type Rank struct {
	cfg      RankConfig
	channels []*channel
	steps    []step // those from number base on
	base     int    // steps before it have ended and are forgotten
	first    int    // oldest step that has not ended
	entered  int    // Barriers
	passed   int
	err      error

	collected []Output
}

// step is one of the program, and how far it is.
type step struct {
	Op
	sent, packets int // bytes posted; packets not acknowledged
	begun, ended  bool
	result        []byte
	got           int  // bytes of the result that are there
	received      bool // all of it
}

// channel is a QP with what is under way in it.
type channel struct {
	*QP
	index     int
	message   int // bytes of a message
	window    int // packets that may be outstanding
	packets   int // of the messages outstanding
	inFlight  []flight
	expecting []flight // receives posted: step and bytes
	nextRecv  int      // step whose receives are to be posted next
	recvAt    int      // bytes of it that are posted
	nextID    uint64
}

type flight struct{ step, size int }

// NewRank returns a rank that has not begun; Start begins.
func NewRank(cfg RankConfig) (*Rank, error) {
	if cfg.PostedReceives == 0 {
		cfg.PostedReceives = 64
	}
	r := &Rank{cfg: cfg}
	for _, c := range cfg.QPs {
		if _, err := r.AddQP(c, cfg.MessagePackets, cfg.WindowPackets); err != nil {
			return nil, err
		}
	}
	if len(r.channels) == 0 {
		return nil, fmt.Errorf("rank %s: got no queue pair, want at least one", cfg.Name)
	}
	if err := r.add(cfg.Ops); err != nil {
		return nil, err
	}
	return r, nil
}

// AddQP gives the rank another queue pair, with its own M and MW, and returns its index.
func (r *Rank) AddQP(cfg Config, messagePackets, windowPackets int) (int, error) {
	q, err := New(cfg)
	if err != nil {
		return 0, err
	}
	for _, c := range r.channels {
		if c.cfg.QPN == cfg.QPN {
			return 0, fmt.Errorf("rank %v: two queue pairs have QPN %#06x, want one", q, cfg.QPN)
		}
	}
	if messagePackets < 1 || windowPackets < messagePackets {
		return 0, fmt.Errorf("rank %v: got M %d, MW %d; want 1 <= M <= MW", q, messagePackets, windowPackets)
	}
	i := len(r.channels)
	r.channels = append(r.channels, &channel{QP: q, index: i, message: messagePackets * cfg.MTU, window: windowPackets, nextRecv: r.Steps()})
	return i, nil
}

// add checks steps and puts them at the end of the program; none if one is wrong.
func (r *Rank) add(ops []Op) error {
	for i, op := range ops {
		if err := op.check(r.channels); err != nil {
			return fmt.Errorf("rank %v: step %d: %w", r, r.Steps()+i, err)
		}
	}
	for _, op := range ops {
		r.steps = append(r.steps, step{Op: op})
	}
	return nil
}

// Post adds steps to the end of a program that has started, and does what it allows at once. The slice is used again
// by the next Run or Post. With an error nothing has been added.
func (r *Rank) Post(ops ...Op) ([]Output, error) {
	r.collected = r.collected[:0]
	if err := r.add(ops); err != nil {
		return nil, err
	}
	r.post()
	return r.collected, nil
}

// Forget drops what is kept of the steps that have ended: their Result is not to be asked for any more.
func (r *Rank) Forget() {
	n := r.first - r.base
	clear(r.steps[:n]) // lets go of the vectors
	r.steps = r.steps[n:]
	r.base = r.first
	for _, c := range r.channels {
		if c.nextRecv < r.base {
			c.nextRecv, c.recvAt = r.base, 0
		}
	}
}

// Steps is how many steps the program has, ended or not: the number of the one added next.
func (r *Rank) Steps() int { return r.base + len(r.steps) }

func (r *Rank) step(i int) *step { return &r.steps[i-r.base] }

// from is the queue pair at which the step receives.
func (op *Op) from() int {
	if op.From != nil {
		return *op.From
	}
	return op.QP
}

func (op Op) check(channels []*channel) error {
	for _, q := range []int{op.QP, op.from()} {
		if q < 0 || q >= len(channels) {
			return fmt.Errorf("got queue pair %d, want 0..%d", q, len(channels)-1)
		}
	}
	mtu := min(channels[op.QP].cfg.MTU, channels[op.from()].cfg.MTU)
	switch {
	case op.Recv < 0 || op.Barrier && op.Imm == nil && (len(op.Send) > 0 || op.Recv > 0):
		return fmt.Errorf("got Barrier %v, %d bytes to send and %d to receive; want a Barrier or bytes", op.Barrier, len(op.Send), op.Recv)
	case op.Imm != nil && max(len(op.Send), op.Recv) > mtu:
		return fmt.Errorf("got an immediate with %d bytes to send and %d to receive, want one packet, %d", len(op.Send), op.Recv, mtu)
	case op.Own != nil && len(op.Own) != op.Recv:
		return fmt.Errorf("its own part has %d bytes, want %d as it receives", len(op.Own), op.Recv)
	case op.Into != nil && len(op.Into) != op.Recv:
		return fmt.Errorf("its result has room for %d bytes, want %d as it receives", len(op.Into), op.Recv)
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
			r.fail(fmt.Errorf("%s %d of QPN %#06x completed with status %d, %v", what, done.ID, c.cfg.QPN, uint8(done.Status), done.Status))
		}
	case done.Recv:
		r.received(c, done)
	default:
		f := c.inFlight[0]
		c.inFlight = c.inFlight[1:]
		c.packets -= f.size
		r.step(f.step).packets -= f.size
	}
}

func (r *Rank) received(c *channel, done Completion) {
	want, payload := c.expecting[0], done.Payload
	c.expecting = c.expecting[1:]
	st := r.step(want.step)
	switch {
	case (done.Imm == nil) != (st.Imm == nil):
		r.fail(fmt.Errorf("step %d: a message came with immediate %v, want %v", want.step, done.Imm != nil, st.Imm != nil))
	case st.Imm != nil && *done.Imm != *st.Imm:
		r.fail(fmt.Errorf("step %d: a message came with immediate %#08x, want %#08x", want.step, *done.Imm, *st.Imm))
	case st.Want != nil && !bytes.Equal(payload, st.Want):
		r.fail(fmt.Errorf("step %d: got %x, want %x", want.step, payload, st.Want))
	}
	if len(payload) != want.size {
		r.fail(fmt.Errorf("step %d: a message came with %d bytes, want %d", want.step, len(payload), want.size))
		return
	}
	if st.Barrier {
		r.passed++
		st.received = true
		return
	}
	to := st.got + len(payload)
	if st.Own != nil {
		if err := reduce.Accumulate(st.DType, st.Op.Op, payload, st.Own[st.got:to]); err != nil {
			r.fail(fmt.Errorf("step %d: %w", want.step, err))
		}
		copy(st.result[st.got:], payload)
	}
	st.got = to
	st.received = to == st.Recv
}

// post posts receives and then what the program allows to send.
func (r *Rank) post() {
	if r.Failed() {
		return
	}
	for _, c := range r.channels {
		r.postReceives(c)
	}
	for i := r.first; i < r.Steps() && r.mayBegin(i); i++ {
		r.send(i)
		r.end(i)
	}
	for r.first < r.Steps() && r.step(r.first).ended {
		r.first++
	}
}

// mayBegin says whether the program has come to step i.
func (r *Rank) mayBegin(i int) bool {
	switch {
	case i == r.base || r.step(i).begun:
		return true
	case i > r.base+1 && !r.step(i-2).ended && !r.step(i-2).received:
		return false
	}
	before := r.step(i - 1)
	if before.ended || before.Barrier && before.received { // the answer to a Barrier says more than its ACK
		return true
	}
	return r.step(i).Pipelined && before.begun && before.sent == len(before.Send)
}

func (r *Rank) postReceives(c *channel) {
	for c.nextRecv < r.Steps() && len(c.rsp.queue) < r.cfg.PostedReceives {
		st := r.step(c.nextRecv)
		if st.from() != c.index || c.recvAt >= st.Recv && !st.Barrier {
			c.nextRecv, c.recvAt = c.nextRecv+1, 0
			continue
		}
		n := min(c.message, st.Recv-c.recvAt)
		f, into := flight{c.nextRecv, n}, st.place(c.recvAt, n)
		if c.recvAt += n; st.Barrier {
			c.nextRecv, c.recvAt = c.nextRecv+1, 0
		}
		c.nextID++
		c.expecting = append(c.expecting, f)
		r.do(c, Event{Kind: PostRecv, Receive: Receive{ID: c.nextID, Bytes: n, Into: into}})
	}
}

// place is where n bytes at an offset of what the step receives are to go: their place in the result, unless its own
// part is to be reduced into them first.
func (st *step) place(at, n int) []byte {
	if st.Barrier {
		return nil
	}
	if st.result == nil {
		if st.result = st.Into; st.result == nil {
			st.result = make([]byte, st.Recv)
		}
	}
	if st.Own != nil {
		return make([]byte, n)
	}
	return st.result[at : at+n : at+n]
}

// send posts the messages of step i, as far as the window allows.
func (r *Rank) send(i int) {
	st := r.step(i)
	c := r.channels[st.QP]
	post := func(m []byte, packets int) {
		c.nextID++
		c.packets += packets
		st.packets += packets
		c.inFlight = append(c.inFlight, flight{i, packets})
		r.do(c, Event{Kind: PostSend, Message: Message{ID: c.nextID, Payload: m, Imm: st.Imm}})
	}
	if st.Barrier {
		if !st.begun && c.packets < c.window {
			st.begun = true
			st.sent = len(st.Send)
			r.entered++
			post(st.Send, 1)
		}
		return
	}
	st.begun = true
	for st.sent < len(st.Send) {
		m := st.Send[st.sent:min(len(st.Send), st.sent+c.message)]
		n := (len(m) + c.cfg.MTU - 1) / c.cfg.MTU
		if c.packets+n > c.window || st.Paced && st.Recv > 0 && st.sent+len(m) > st.got+c.window*c.cfg.MTU {
			return
		}
		st.sent += len(m)
		post(m, n)
	}
}

// end notes whether step i has ended: all sent is acknowledged, all expected is here.
func (r *Rank) end(i int) {
	st := r.step(i)
	st.ended = st.begun && st.sent == len(st.Send) && st.packets == 0 && (st.received || st.Recv == 0 && !st.Barrier)
}

// Done says that every step has ended, or that the rank has failed.
func (r *Rank) Done() bool { return r.err != nil || r.Failed() || r.first == r.Steps() }

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
func (r *Rank) Result(i int) []byte {
	st := r.step(i)
	return st.result[:st.got]
}

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

// Armed says that a timer of queue pair q runs.
func (r *Rank) Armed(q int, t Timer) bool { return r.channels[q].Armed(t) }

// StaleAck says that an ACK or NAK for one of its queue pairs is about what has been acknowledged before: it changes
// nothing, however late it comes.
func (r *Rank) StaleAck(pkt *roce.Packet) bool {
	c := r.owner(pkt)
	return c != nil && c.space.Less(pkt.PSN, c.req.unacked)
}

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
