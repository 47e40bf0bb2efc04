package rank

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/neighbour"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// Options of an endpoint.
type Options struct {
	Name string      // of the rank, for messages
	Link device.Link // Close closes it
	MAC  roce.MAC
	IP   netip.Addr
}

// maxQueued is how many frames wait for a congested link before more are dropped, as a NIC's queue would.
const maxQueued = 1 << 15

// maxFree is how many buffers are kept to be used again.
const maxFree = 1 << 10

// Endpoint is one host on a link. Its methods may be called from several goroutines at once.
//
// Three goroutines work for it: one receives, one sends, and one is woken for timers. So a link that is congested in
// one direction never stops the other.
type Endpoint struct {
	o      Options
	other  atomic.Pointer[func(frame []byte)]
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu       sync.Mutex
	rank     *host.Rank // nil before the first queue pair
	works    []*Work    // not done, in order
	err      error      // why it has failed
	failed   chan struct{}
	progress Progress
	stats    Stats

	start    time.Time
	due      []time.Duration // since start, of each queue pair's timers at 2q and 2q+1; 0: not armed
	timer    *time.Timer
	timerDue time.Duration // when timer fires; 0: it does not

	queue, free [][]byte // encoded frames that wait, and buffers to use again
	wake        chan struct{}
}

// Progress says how far an endpoint is: it grows with every message sent and acknowledged, or received.
type Progress struct {
	Messages uint64
	At       time.Time // of the last; of the start, if there was none
}

// Stats counts frames.
type Stats struct {
	Received, Sent uint64
	Answered       uint64 // ARP, neighbour discovery, echo
	Dropped        uint64 // did not fit the queue of a congested link
	// Bad are frames to the endpoint that were no good, by verdict; ICRC errors are among them.
	Bad map[spec.Verdict]uint64
}

// New starts an endpoint without queue pairs.
func New(o Options) (*Endpoint, error) {
	if o.Link == nil || !o.IP.IsValid() || o.MAC == (roce.MAC{}) {
		return nil, fmt.Errorf("rank %s: got link %v, MAC %v, IP %v; want all three", o.Name, o.Link != nil, o.MAC, o.IP)
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &Endpoint{o: o, cancel: cancel, failed: make(chan struct{}), start: time.Now(), wake: make(chan struct{}, 1)}
	e.progress.At = e.start
	e.stats.Bad = map[spec.Verdict]uint64{}
	e.timer = time.AfterFunc(time.Hour, e.expire)
	e.timer.Stop()
	e.all.Go(func() { e.receive(ctx) })
	e.all.Go(func() { e.send(ctx) })
	return e, nil
}

// Close ends the endpoint at once, closes its link, and fails what is not done.
func (e *Endpoint) Close() error {
	e.Abort(fmt.Errorf("rank %s: %w", e.o.Name, device.ErrClosed))
	e.cancel()
	err := e.o.Link.Close()
	e.all.Wait()
	return err
}

// MAC is its Ethernet address.
func (e *Endpoint) MAC() roce.MAC { return e.o.MAC }

// IP is its address.
func (e *Endpoint) IP() netip.Addr { return e.o.IP }

// LinkMTU is the largest IP packet of its link, in bytes.
func (e *Endpoint) LinkMTU() int { return e.o.Link.MTU() }

// AddQP connects a queue pair, of which the library sends messages of M packets and has at most MW packets
// outstanding, and returns its index.
func (e *Endpoint) AddQP(cfg host.Config, messagePackets, windowPackets int) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return 0, e.err
	}
	if cfg.IP != e.o.IP || cfg.MAC != e.o.MAC {
		return 0, fmt.Errorf("rank %s: queue pair %#06x has MAC %v, IP %v; want %v and %v, the endpoint's", e.o.Name, cfg.QPN, cfg.MAC, cfg.IP, e.o.MAC, e.o.IP)
	}
	if need, has := roce.IPBytes(cfg.MTU, cfg.IP.Is6()), e.o.Link.MTU(); need > has {
		return 0, fmt.Errorf("rank %s: queue pair %#06x has packets of %d bytes, which the link does not carry: its MTU is %d, want at least %d", e.o.Name, cfg.QPN, cfg.MTU, has, need)
	}
	index, err := 0, error(nil)
	if e.rank == nil {
		e.rank, err = host.NewRank(host.RankConfig{Name: e.o.Name, QPs: []host.Config{cfg}, MessagePackets: messagePackets, WindowPackets: windowPackets})
	} else {
		index, err = e.rank.AddQP(cfg, messagePackets, windowPackets)
	}
	if err != nil {
		return 0, err
	}
	e.due = append(e.due, 0, 0)
	return index, nil
}

// Work is steps that were posted together.
type Work struct {
	last int // number of its last step
	done chan struct{}
	err  error
}

// Done is closed when every step has ended or the endpoint has failed. Until then the steps' vectors are the
// endpoint's.
func (w *Work) Done() <-chan struct{} { return w.done }

// Err is why the work was not done, once Done is closed; nil if it was.
func (w *Work) Err() error {
	select {
	case <-w.done:
		return w.err
	default:
		return errors.New("not done yet")
	}
}

// Post adds steps to what the rank does, after all that was posted before.
func (e *Endpoint) Post(ops ...host.Op) (*Work, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return nil, e.err
	}
	if e.rank == nil || len(ops) == 0 {
		return nil, fmt.Errorf("rank %s: got %d steps and no queue pair: %v; want at least one of each", e.o.Name, len(ops), e.rank == nil)
	}
	outs, err := e.rank.Post(ops...)
	if err != nil {
		return nil, err
	}
	w := &Work{last: e.rank.Steps() - 1, done: make(chan struct{})}
	e.works = append(e.works, w)
	e.take(outs)
	return w, nil
}

// Progress says how far the endpoint is.
func (e *Endpoint) Progress() Progress {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.progress
}

// Stats counts what it saw.
func (e *Endpoint) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Bad = map[spec.Verdict]uint64{}
	for v, n := range e.stats.Bad {
		s.Bad[v] = n
	}
	return s
}

// NextPSN is the psn that queue pair q sends next, after all that is posted.
func (e *Endpoint) NextPSN(q int) psn.PSN {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.rank == nil {
		return 0
	}
	return e.rank.NextPSN(q)
}

// Failed is closed when the endpoint has failed; Err says why.
func (e *Endpoint) Failed() <-chan struct{} { return e.failed }

// Err is why it has failed: a queue pair in error, a link that is closed, Abort. It is nil while it works.
func (e *Endpoint) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// Abort fails the endpoint and all its work; it sends and takes no RoCE any more, and no vector is read or written
// after Abort has returned. It goes on answering for its address, and Transmit works.
func (e *Endpoint) Abort(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fail(err)
}

// fail is called with mu held.
func (e *Endpoint) fail(err error) {
	if e.err != nil {
		return
	}
	e.err = err
	close(e.failed)
	for _, w := range e.works {
		w.err = err
		close(w.done)
	}
	e.works = nil
	clear(e.due)
	e.timer.Stop()
}

// Handle gives every frame to the endpoint's MAC that is not RoCE, and that it does not answer itself, to f, which owns
// it. The goroutine that receives calls it.
func (e *Endpoint) Handle(f func(frame []byte)) { e.other.Store(&f) }

// Transmit sends a frame that is not RoCE. It does not wait for the link.
func (e *Endpoint) Transmit(frame []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.enqueue(append(e.buffer(), frame...))
}

// Linger waits until nothing has come for a while, as long as most: a peer whose last ACK was lost asks again, and
// there must be somebody to answer.
func (e *Endpoint) Linger(ctx context.Context, quiet, most time.Duration) {
	end := time.Now().Add(most)
	for seen := e.Stats().Received; time.Now().Before(end); {
		select {
		case <-time.After(quiet):
		case <-ctx.Done():
			return
		}
		now := e.Stats().Received
		if now == seen {
			return
		}
		seen = now
	}
}

// receive takes what comes from the link.
func (e *Endpoint) receive(ctx context.Context) {
	for {
		frame, err := e.o.Link.Receive(ctx)
		if err != nil {
			e.Abort(fmt.Errorf("rank %s: %w", e.o.Name, err))
			return
		}
		if len(frame) < device.HeaderBytes || frame[0]&1 == 0 && roce.MAC(frame[:6]) != e.o.MAC {
			continue
		}
		pkt, malformed := roce.Decode(frame)
		switch {
		case malformed == nil:
			e.deliver(pkt)
		case malformed.Verdict.Class() == spec.ClassBypass:
			e.answer(frame)
		default:
			e.mu.Lock()
			e.stats.Received++
			e.stats.Bad[malformed.Verdict]++
			e.mu.Unlock()
		}
	}
}

func (e *Endpoint) deliver(pkt *roce.Packet) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stats.Received++
	if e.err != nil || e.rank == nil {
		return
	}
	e.take(e.rank.Run(host.Event{Kind: host.Deliver, Packet: pkt}))
}

func (e *Endpoint) answer(frame []byte) {
	reply := neighbour.Reply(frame, func(ip netip.Addr) (roce.MAC, bool) { return e.o.MAC, ip == e.o.IP })
	if reply != nil {
		e.mu.Lock()
		e.stats.Answered++
		e.enqueue(reply)
		e.mu.Unlock()
		return
	}
	if f := e.other.Load(); f != nil && frame[0]&1 == 0 {
		(*f)(frame)
	}
}

// take carries out what came of an event. It is called with mu held: frames are encoded here, in the order of their
// PSNs, and the vectors they are cut from are not touched afterwards.
func (e *Endpoint) take(outs []host.Output) {
	for _, o := range outs {
		switch o.Kind {
		case host.Frame:
			e.enqueue(o.Packet.AppendFrame(e.buffer()))
		case host.Complete:
			e.progress.Messages++
			e.progress.At = time.Now()
		case host.SetTimer:
			e.arm(2*o.QP+int(o.Timer), o.Arm, o.After)
		}
	}
	for len(e.works) > 0 && e.works[0].last < e.rank.Ended() {
		close(e.works[0].done)
		e.works = e.works[1:]
		e.rank.Forget()
	}
	if err := e.rank.Err(); err != nil {
		e.fail(err)
	}
}

// buffer is an empty one that enqueue takes. It is called with mu held, like enqueue.
func (e *Endpoint) buffer() []byte {
	n := len(e.free)
	if n == 0 {
		return make([]byte, 0, device.MaxFrame(e.o.Link.MTU()))
	}
	b := e.free[n-1]
	e.free = e.free[:n-1]
	return b[:0]
}

func (e *Endpoint) enqueue(frame []byte) {
	if len(e.queue) == maxQueued {
		e.stats.Dropped++
		e.free = append(e.free, frame)
		return
	}
	e.queue = append(e.queue, frame)
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// send gives the link what waits.
func (e *Endpoint) send(ctx context.Context) {
	var batch [][]byte
	for {
		e.mu.Lock()
		e.stats.Sent += uint64(len(batch))
		if len(e.free) < maxFree {
			e.free = append(e.free, batch...)
		}
		batch, e.queue = e.queue, batch[:0]
		e.mu.Unlock()
		for _, frame := range batch {
			if err := e.o.Link.Send(ctx, frame); err != nil {
				e.Abort(fmt.Errorf("rank %s: %w", e.o.Name, err))
				return
			}
		}
		if len(batch) > 0 {
			continue
		}
		select {
		case <-e.wake:
		case <-ctx.Done():
			return
		}
	}
}

// arm sets or stops a timer of a queue pair. One clock serves all: it may fire early, when what it was set for has
// been stopped or put off, and is then set anew. It is called with mu held.
func (e *Endpoint) arm(i int, on bool, after time.Duration) {
	if !on {
		e.due[i] = 0
		return
	}
	at := max(1, time.Since(e.start)+after)
	e.due[i] = at
	if e.timerDue == 0 || at < e.timerDue {
		e.timerDue = at
		e.timer.Reset(after)
	}
}

// expire is the timer's: what is due happens, and the timer is set for what is due next.
func (e *Endpoint) expire() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.timerDue = 0
	now := time.Since(e.start)
	for i := range e.due {
		if e.err != nil {
			return
		}
		if e.due[i] != 0 && e.due[i] <= now {
			e.due[i] = 0
			e.take(e.rank.Run(host.Event{Kind: host.Expire, QP: i / 2, Timer: host.Timer(i % 2)}))
		}
	}
	for _, at := range e.due {
		if at != 0 && (e.timerDue == 0 || at < e.timerDue) {
			e.timerDue = at
		}
	}
	if e.timerDue != 0 {
		e.timer.Reset(e.timerDue - time.Since(e.start))
	}
}
