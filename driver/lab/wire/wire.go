// Package wire is the lab's cable: a device.Link with a link of golden/fabric in its middle. Both directions are paced,
// delayed, lost, duplicated and reordered by it; the n-th frame of a direction has the fate that the seed gives it.
//
// The rate is a token bucket: a frame leaves when those before it have, at so many bits a second, and what was
// scheduled late, because the process was, is made up for.
package wire

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/golden/fabric"
	"github.com/epic-inc/epic/golden/group"
)

// Options of a wire.
type Options struct {
	Link   group.Link // rate, delay and probabilities, the same in both directions; Gbps 0: not paced
	Seed   uint64
	Number uint64 // of the wire in its lab, from 0; its directions are the links 2n+1 (from the far end) and 2n+2
	// QueueBytes is how much waits in front of the wire before Send blocks, and frames from the far end are lost.
	// 0: 4 MiB.
	QueueBytes int
}

// Counts of one direction.
type Counts struct {
	Frames     uint64 `json:"frames"`
	Lost       uint64 `json:"lost"`
	Duplicated uint64 `json:"duplicated"`
	Late       uint64 `json:"late"`
	Full       uint64 `json:"full"` // lost because too much waited
	Spoiled    uint64 `json:"spoiled"`
}

// Wire is one end of a cable: the link that New was given is its other end.
type Wire struct {
	far      device.Link
	number   uint64
	out      *direction // from here to the far end
	in       *direction
	closed   chan struct{} // by Close, or because the far end has gone
	once     sync.Once
	shut     chan struct{} // by Close
	shutting sync.Once
	cancel   context.CancelFunc
	done     sync.WaitGroup
	// leaving is the context of what is sent to the far end. It outlives the wire by lastWords.
	leaving context.Context
	left    context.CancelFunc

	arrived chan []byte
	mu      sync.Mutex
	err     error
	spoil   atomic.Bool
	cut     atomic.Bool
}

// direction is one way of the wire.
type direction struct {
	w     *Wire
	mu    sync.Mutex
	cross *fabric.Wire
	start time.Time
	seq   uint64
	queue flights
	bytes int
	limit int
	fits  *sync.Cond
	wake  chan struct{}
	count Counts
}

type flight struct {
	at    uint64 // ns since start
	seq   uint64
	frame []byte
}

type flights []flight

func (f flights) Len() int { return len(f) }
func (f flights) Less(i, j int) bool {
	return f[i].at < f[j].at || f[i].at == f[j].at && f[i].seq < f[j].seq
}
func (f flights) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *flights) Push(x any)   { *f = append(*f, x.(flight)) }
func (f *flights) Pop() any {
	last := len(*f) - 1
	x := (*f)[last]
	(*f)[last] = flight{}
	*f = (*f)[:last]
	return x
}

// The clock of a wire is in nanoseconds.
const clockMHz = 1000

// New puts a wire in front of a link, which it closes with itself.
func New(far device.Link, o Options) (*Wire, error) {
	if o.QueueBytes == 0 {
		o.QueueBytes = 4 << 20
	}
	if o.QueueBytes < device.MaxFrame(far.MTU()) {
		return nil, fmt.Errorf("wire: got a queue of %d bytes, want room for a frame, %d", o.QueueBytes, device.MaxFrame(far.MTU()))
	}
	link := linkOf(o.Link)
	ctx, cancel := context.WithCancel(context.Background())
	w := &Wire{far: far, number: o.Number, closed: make(chan struct{}), shut: make(chan struct{}), cancel: cancel, arrived: make(chan []byte, 1024)}
	w.leaving, w.left = context.WithCancel(context.Background())
	for i, d := range []**direction{&w.in, &w.out} {
		cross, err := fabric.NewWire(link, o.Seed, 2*o.Number+uint64(i)+1)
		if err != nil {
			cancel()
			w.left()
			return nil, fmt.Errorf("wire: %w", err)
		}
		*d = &direction{w: w, cross: cross, start: time.Now(), limit: o.QueueBytes, wake: make(chan struct{}, 1)}
		(*d).fits = sync.NewCond(&(*d).mu)
	}
	w.done.Go(func() { w.listen(ctx) })
	w.done.Go(func() { w.in.run(ctx, w.arrive) })
	w.done.Go(func() { w.out.run(ctx, w.leave) })
	return w, nil
}

// linkOf is a link of a group at the wire's clock.
func linkOf(l group.Link) fabric.Link {
	link := fabric.LinkOf(l, group.Clock{MHz: clockMHz})
	link.Rate = fabric.Rate{} // exact: LinkOf rounds to whole bytes in 1000 clocks
	if l.Gbps > 0 {
		const second = uint64(time.Second)
		link.Rate = fabric.Rate{Bytes: max(1, uint64(l.Gbps*1e9/8)), Clocks: second}
	}
	return link
}

// Reset makes it another wire, with another link and seed, of which the next frame is the first. What is on it stays
// there; the counts begin anew.
func (w *Wire) Reset(l group.Link, seed uint64) error {
	for i, d := range []*direction{w.in, w.out} {
		cross, err := fabric.NewWire(linkOf(l), seed, 2*w.number+uint64(i)+1)
		if err != nil {
			return fmt.Errorf("wire: %w", err)
		}
		d.mu.Lock()
		d.cross, d.count = cross, Counts{}
		d.mu.Unlock()
	}
	return nil
}

// MTU is that of the far end.
func (w *Wire) MTU() int { return w.far.MTU() }

// Counts of the direction to the far end, and of the one from there.
func (w *Wire) Counts() (out, in Counts) { return w.out.counts(), w.in.counts() }

// Spoil says whether, from now on, a bit of every frame's last byte but four is turned over in both directions: a cable
// that has a fault, and an ICRC that is wrong.
func (w *Wire) Spoil(on bool) { w.spoil.Store(on) }

// Cut says whether the cable is cut: everything is lost.
func (w *Wire) Cut(on bool) { w.cut.Store(on) }

// Send is device.Link's. It blocks while more than QueueBytes wait.
func (w *Wire) Send(ctx context.Context, frame []byte) error {
	if err := device.CheckFrame(frame, w.far.MTU()); err != nil {
		return fmt.Errorf("wire: %w", err)
	}
	if err := w.over(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.out.enter(ctx, append([]byte(nil), frame...), true)
}

// Receive is device.Link's.
func (w *Wire) Receive(ctx context.Context) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-w.shut:
		return nil, w.over()
	default:
	}
	select {
	case frame := <-w.arrived:
		return frame, nil
	default:
	}
	select {
	case frame := <-w.arrived:
		return frame, nil
	case <-w.closed:
		select {
		case frame := <-w.arrived: // sent before the far end went
			return frame, nil
		default:
			return nil, w.over()
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// lastWords is how long frames that are on the wire when it is closed have to leave.
const lastWords = time.Second

// Close is device.Link's. What is on its way to the far end still arrives there, at once.
func (w *Wire) Close() error {
	w.shutting.Do(func() { close(w.shut) })
	w.end(fmt.Errorf("wire: %w", device.ErrClosed))
	late := time.AfterFunc(lastWords, w.left)
	defer late.Stop()
	w.done.Wait()
	w.out.flush(w.leave)
	w.left()
	return w.far.Close()
}

func (w *Wire) end(err error) {
	w.once.Do(func() {
		w.mu.Lock()
		w.err = err
		w.mu.Unlock()
		close(w.closed)
		w.cancel()
		w.out.fits.Broadcast()
	})
}

func (w *Wire) over() error {
	select {
	case <-w.closed:
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.err
	default:
		return nil
	}
}

// listen takes what the far end has and puts it on the wire.
func (w *Wire) listen(ctx context.Context) {
	for {
		frame, err := w.far.Receive(ctx)
		if err != nil {
			if ctx.Err() == nil {
				w.in.flush(func(_ context.Context, frame []byte) {
					select {
					case w.arrived <- frame:
					default: // nobody has taken the others either
					}
				})
				w.end(fmt.Errorf("wire: %w", err))
			}
			return
		}
		if w.in.enter(ctx, frame, false) != nil {
			return
		}
	}
}

func (w *Wire) arrive(ctx context.Context, frame []byte) {
	select {
	case w.arrived <- frame:
	case <-ctx.Done():
	}
}

func (w *Wire) leave(_ context.Context, frame []byte) {
	if err := w.far.Send(w.leaving, frame); errors.Is(err, device.ErrClosed) {
		w.end(fmt.Errorf("wire: %w", err))
	}
}

func (d *direction) counts() Counts {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count
}

func (d *direction) now() uint64 { return uint64(time.Since(d.start)) }

// enter puts a frame, which is the wire's from now on, behind those before it.
func (d *direction) enter(ctx context.Context, frame []byte, wait bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if wait && d.bytes+len(frame) > d.limit {
		stop := context.AfterFunc(ctx, d.fits.Broadcast)
		defer stop()
		for d.bytes+len(frame) > d.limit {
			if err := errors.Join(ctx.Err(), d.w.over()); err != nil {
				return err
			}
			d.fits.Wait()
		}
	}
	d.count.Frames++
	if d.bytes+len(frame) > d.limit {
		d.count.Full++
		return nil
	}
	c := d.cross.Cross(d.now(), len(frame))
	switch {
	case c.Fate == fabric.Lost || d.w.cut.Load():
		d.count.Lost++
		return nil
	case c.Fate == fabric.Late:
		d.count.Late++
	}
	const icrc = 4
	if d.w.spoil.Load() && len(frame) > device.HeaderBytes+icrc {
		d.count.Spoiled++
		frame[len(frame)-icrc-1] ^= 1
	}
	d.push(c.Arrives, frame)
	if c.Again > 0 {
		d.count.Duplicated++
		d.push(c.Again, append([]byte(nil), frame...))
	}
	return nil
}

func (d *direction) push(at uint64, frame []byte) {
	d.seq++
	d.bytes += len(frame)
	heap.Push(&d.queue, flight{at, d.seq, frame})
	if d.queue[0].seq == d.seq { // before those that wait
		select {
		case d.wake <- struct{}{}:
		default:
		}
	}
}

// next takes the frame that is due, or says for how long there is none; negative: nothing is on its way.
func (d *direction) next() (frame []byte, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue) == 0 {
		return nil, -1
	}
	if at, now := d.queue[0].at, d.now(); at > now {
		return nil, time.Duration(at - now)
	}
	f := heap.Pop(&d.queue).(flight)
	d.bytes -= len(f.frame)
	d.fits.Signal()
	return f.frame, 0
}

// flush delivers all that is on its way, whenever it would be due.
func (d *direction) flush(deliver func(context.Context, []byte)) {
	for {
		d.mu.Lock()
		if len(d.queue) == 0 {
			d.mu.Unlock()
			return
		}
		f := heap.Pop(&d.queue).(flight)
		d.mu.Unlock()
		deliver(context.Background(), f.frame)
	}
}

// briefly is a wait that is slept through in the kernel: Go's timers are only good to a millisecond when the process
// is idle.
const briefly = 2 * time.Millisecond

// run delivers the frames of a direction when they are due.
func (d *direction) run(ctx context.Context, deliver func(context.Context, []byte)) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		frame, wait := d.next()
		switch {
		case frame != nil:
			deliver(ctx, frame)
		case wait >= 0 && wait < briefly:
			ts := unix.NsecToTimespec(int64(wait))
			_ = unix.Nanosleep(&ts, nil) // one that is interrupted is begun again
		default:
			if wait < 0 {
				wait = time.Hour
			}
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-d.wake:
			case <-ctx.Done():
			}
		}
	}
}
