// Package devicetest is what every device.Link must do, as a suite that any backend runs.
package devicetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/epic-inc/epic/driver/device"
)

// Backend is a kind of link.
type Backend struct {
	// Open makes the two ends of one wire, of MTU 1500 or more.
	Open func() (a, b device.Link, err error)
	// Notices: when one end is closed, the other gets ErrClosed. Others only lose what they send.
	Notices bool
	// Lossless: Send blocks rather than that a frame is lost while nobody receives.
	Lossless bool
	// Untagged: the medium carries no VLAN tags.
	Untagged bool
}

// Check is one demand.
type Check struct {
	Name string
	Run  func(context.Context, Backend) error
}

// Checks are all of them. Each opens its own link and closes it.
func Checks() []Check {
	return []Check{
		{"order", order},
		{"sizes", sizes},
		{"buffers", buffers},
		{"lengths refused", refused},
		{"close while receiving", closeWhileReceiving},
		{"context ends", contextEnds},
		{"peer gone", peerGone},
		{"congestion", congestion},
		{"concurrent", concurrent},
	}
}

// limit is how long a check may take; each ends in a fraction of it on a link that is right.
const limit = 20 * time.Second

// soon is within what a call must end after it was told to.
const soon = 2 * time.Second

// Do runs one check, and sees that no goroutine is left behind.
func (c Check) Do(b Backend) error {
	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err := c.Run(ctx, b)
	if leak := goleak.Find(before); leak != nil && err == nil {
		err = fmt.Errorf("goroutines are left after Close: %w", leak)
	}
	return err
}

// Run runs every check as a test of its own.
func Run(t *testing.T, b Backend) {
	t.Helper()
	for _, c := range Checks() {
		t.Run(c.Name, func(t *testing.T) {
			if err := c.Do(b); err != nil {
				t.Error(err)
			}
		})
	}
}

// etherType is of frames for local experiments (IEEE 802): nobody else's on a wire that others use too.
const etherType = 0x88b5

// seqAt is where a test frame has its number, after the Ethernet header.
const seqAt = device.HeaderBytes

// frame is one of n bytes with a number: a source in the addresses, and a pattern that depends on both.
func frame(source byte, seq uint32, n int) []byte {
	f := make([]byte, n)
	copy(f, []byte{0x02, 0, 0, 0, 0, 0xfe, 0x02, 0, 0, 0, 0, source})
	binary.BigEndian.PutUint16(f[12:], etherType)
	for i := seqAt; i < n; i++ {
		f[i] = byte(i) ^ byte(seq) ^ source
	}
	if n >= seqAt+4 {
		binary.BigEndian.PutUint32(f[seqAt:], seq)
	}
	return f
}

// next receives the next frame that is the suite's.
func next(ctx context.Context, l device.Link) ([]byte, error) {
	for {
		f, err := l.Receive(ctx)
		if err != nil {
			return nil, err
		}
		if len(f) < device.HeaderBytes {
			return nil, fmt.Errorf("received %d bytes, want at least %d", len(f), device.HeaderBytes)
		}
		kind := binary.BigEndian.Uint16(f[12:])
		if kind == etherType || kind == 0x8100 {
			return f, nil
		}
	}
}

// opened calls f with the ends of a wire, and closes them.
func opened(b Backend, f func(a, b device.Link) error) error {
	x, y, err := b.Open()
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	return errors.Join(f(x, y), x.Close(), y.Close())
}

// same says where what came differs from what was sent.
func same(got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	if len(got) != len(want) {
		return fmt.Errorf("a frame came with %d bytes, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			return fmt.Errorf("byte %d of a frame of %d is %#02x, want %#02x", i, len(got), got[i], want[i])
		}
	}
	return nil
}

// within runs f, which must return soon.
func within(what string, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(soon):
		return fmt.Errorf("%s: has not returned after %v", what, soon)
	}
}

// order: what is sent comes, all of it and in order, at several sizes.
func order(ctx context.Context, b Backend) error {
	return opened(b, func(x, y device.Link) error {
		const frames, ahead = 3000, 32 // ahead: sent and not received, so that no buffer overflows
		room := make(chan struct{}, ahead)
		sent := make(chan error, 1)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			for i := range uint32(frames) {
				select {
				case room <- struct{}{}:
				case <-ctx.Done():
					sent <- ctx.Err()
					return
				}
				if err := x.Send(ctx, frame(1, i, 64+int(i)%1400)); err != nil {
					sent <- fmt.Errorf("send frame %d: %w", i, err)
					return
				}
			}
			sent <- nil
		}()
		for i := range uint32(frames) {
			f, err := next(ctx, y)
			if err != nil {
				cancel()
				return fmt.Errorf("receive frame %d: %w", i, errors.Join(err, <-sent))
			}
			if err := same(f, frame(1, i, 64+int(i)%1400)); err != nil {
				cancel()
				<-sent
				return fmt.Errorf("frame %d: %w", i, err)
			}
			<-room
		}
		return <-sent
	})
}

// sizes: from the shortest frame to the MTU, with a VLAN tag too.
func sizes(ctx context.Context, b Backend) error {
	return opened(b, func(x, y device.Link) error {
		mtu := min(x.MTU(), y.MTU())
		if x.MTU() != y.MTU() || mtu < 1500 {
			return fmt.Errorf("MTU: got %d and %d, want the same, at least 1500", x.MTU(), y.MTU())
		}
		for i, n := range []int{14, 15, 17, 59, 60, 61, 64, 1513, 1514, mtu + 13, mtu + 14} {
			if err := through(ctx, x, y, frame(1, uint32(i), n)); err != nil {
				return fmt.Errorf("frame of %d bytes: %w", n, err)
			}
			if b.Untagged || n < 60 {
				continue
			}
			plain := frame(2, uint32(i), n)
			tagged := append(append(append([]byte{}, plain[:12]...), 0x81, 0x00, 0x60, 0x2a), plain[12:]...)
			if err := through(ctx, y, x, tagged); err != nil {
				return fmt.Errorf("frame of %d bytes with a VLAN tag: %w", len(tagged), err)
			}
		}
		return nil
	})
}

func through(ctx context.Context, from, to device.Link, f []byte) error {
	if err := from.Send(ctx, f); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	got, err := next(ctx, to)
	if err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	return same(got, f)
}

// buffers: Send keeps nothing of its argument, and what Receive returned stays as it is.
func buffers(ctx context.Context, b Backend) error {
	return opened(b, func(x, y device.Link) error {
		const frames = 16
		f := frame(1, 0, 512)
		for i := range uint32(frames) {
			copy(f, frame(1, i, 512))
			if err := x.Send(ctx, f); err != nil {
				return err
			}
			clear(f)
		}
		var got [][]byte
		for range frames {
			g, err := next(ctx, y)
			if err != nil {
				return err
			}
			got = append(got, g)
		}
		for i, g := range got {
			if err := same(g, frame(1, uint32(i), 512)); err != nil {
				return fmt.Errorf("frame %d after all have come: %w", i, err)
			}
		}
		return nil
	})
}

// refused: what no link can carry is an error, and harms nothing.
func refused(ctx context.Context, b Backend) error {
	return opened(b, func(x, y device.Link) error {
		for _, n := range []int{0, 1, 13, device.MaxFrame(x.MTU()) + 1, device.MaxFrame(x.MTU()) + 10000} {
			if err := x.Send(ctx, make([]byte, n)); err == nil || errors.Is(err, device.ErrClosed) {
				return fmt.Errorf("send of %d bytes: got %v, want an error that says which lengths there are", n, err)
			}
		}
		return through(ctx, x, y, frame(1, 1, 100))
	})
}

// closeWhileReceiving: Close ends a Receive that waits, and everything after.
func closeWhileReceiving(_ context.Context, b Backend) error {
	return opened(b, func(x, _ device.Link) error {
		ended := make(chan error, 2)
		for range cap(ended) {
			go func() {
				_, err := next(context.Background(), x)
				ended <- err
			}()
		}
		time.Sleep(20 * time.Millisecond) // so that they wait
		if err := within("Close", x.Close); err != nil {
			return err
		}
		for range cap(ended) {
			if err := within("Receive after Close", func() error { return <-ended }); !errors.Is(err, device.ErrClosed) {
				return fmt.Errorf("receive at Close: got %v, want ErrClosed", err)
			}
		}
		if err := within("Receive", func() error { _, err := x.Receive(context.Background()); return err }); !errors.Is(err, device.ErrClosed) {
			return fmt.Errorf("receive after Close: got %v, want ErrClosed", err)
		}
		if err := within("Send", func() error { return x.Send(context.Background(), frame(1, 1, 64)) }); !errors.Is(err, device.ErrClosed) {
			return fmt.Errorf("send after Close: got %v, want ErrClosed", err)
		}
		if err := x.Close(); err != nil {
			return fmt.Errorf("second close: got %w, want nil", err)
		}
		return nil
	})
}

// contextEnds: a context ends the call it was given to, no other, and the link goes on.
func contextEnds(ctx context.Context, b Backend) error {
	return opened(b, func(x, y device.Link) error {
		over, cancel := context.WithCancel(ctx)
		cancel()
		if err := within("Receive", func() error { _, err := y.Receive(over); return err }); !errors.Is(err, context.Canceled) {
			return fmt.Errorf("receive with a context that is over: got %v, want context.Canceled", err)
		}
		if err := within("Send", func() error { return x.Send(over, frame(1, 0, 64)) }); !errors.Is(err, context.Canceled) {
			return fmt.Errorf("send with a context that is over: got %v, want context.Canceled", err)
		}
		for round := range uint32(5) {
			patient := make(chan error, 1)
			go func() {
				f, err := next(ctx, y)
				if err == nil {
					err = same(f, frame(1, round, 64))
				}
				patient <- err
			}()
			for range 3 {
				short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
				err := within("Receive", func() error { _, err := next(short, y); return err })
				cancel()
				if !errors.Is(err, context.DeadlineExceeded) {
					return fmt.Errorf("receive with a deadline of 5 ms: got %v, want context.DeadlineExceeded", err)
				}
			}
			select {
			case err := <-patient:
				return fmt.Errorf("a receive whose context has not ended has ended: %w", err)
			default:
			}
			if err := x.Send(ctx, frame(1, round, 64)); err != nil {
				return fmt.Errorf("send after contexts have ended: %w", err)
			}
			if err := within("Receive", func() error { return <-patient }); err != nil {
				return fmt.Errorf("receive after others' contexts have ended: %w", err)
			}
			// One frame, alone at the link.
			if err := through(ctx, x, y, frame(1, round, 65)); err != nil {
				return fmt.Errorf("after contexts have ended: %w", err)
			}
		}
		return nil
	})
}

// peerGone: what was sent before the peer went still comes; then the link says so, or loses what is sent. It never
// hangs.
func peerGone(ctx context.Context, b Backend) error {
	return opened(b, func(x, y device.Link) error {
		for i := range uint32(3) {
			if err := x.Send(ctx, frame(1, i, 64)); err != nil {
				return err
			}
		}
		if err := x.Close(); err != nil {
			return err
		}
		for i := range uint32(3) {
			f, err := next(ctx, y)
			if err != nil {
				return fmt.Errorf("receive frame %d, sent before the peer went: %w", i, err)
			}
			if err := same(f, frame(1, i, 64)); err != nil {
				return fmt.Errorf("frame %d: %w", i, err)
			}
		}
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		want := context.DeadlineExceeded
		if b.Notices {
			want = device.ErrClosed
		}
		if err := within("Receive", func() error { _, err := next(short, y); return err }); !errors.Is(err, want) {
			return fmt.Errorf("receive when the peer has gone: got %v, want %v", err, want)
		}
		for range 3 {
			err := within("Send", func() error { return y.Send(ctx, frame(2, 0, 64)) })
			if b.Notices && !errors.Is(err, device.ErrClosed) || !b.Notices && err != nil {
				return fmt.Errorf("send when the peer has gone: got %v, want ErrClosed: %v", err, b.Notices)
			}
		}
		return nil
	})
}

// congestion: nobody receives. Send goes on, blocks, or loses, but ends with its context; what comes after all is in
// order, and complete if the link is lossless.
func congestion(ctx context.Context, b Backend) error {
	return opened(b, func(x, y device.Link) error {
		const most = 60000 // more than any buffer of the backends holds
		short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		var count atomic.Uint32
		err := within("Send", func() error {
			for count.Load() < most {
				if err := x.Send(short, frame(1, count.Load(), 1000)); err != nil {
					return err
				}
				count.Add(1)
			}
			return nil
		})
		sent := count.Load()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("send frame %d while nobody receives: %w", sent, err)
		}
		at, came := uint32(0), uint32(0)
		for came < sent {
			idle, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			f, err := next(idle, y)
			cancel()
			if errors.Is(err, context.DeadlineExceeded) {
				break
			}
			if err != nil {
				return err
			}
			seq := binary.BigEndian.Uint32(f[seqAt:])
			if came > 0 && seq <= at {
				return fmt.Errorf("frame %d came after frame %d", seq, at)
			}
			if err := same(f, frame(1, seq, 1000)); err != nil {
				return fmt.Errorf("frame %d: %w", seq, err)
			}
			at = seq
			came++
		}
		if came == 0 || b.Lossless && came != sent {
			return fmt.Errorf("%d of %d frames came, want all: %v, and some in any case", came, sent, b.Lossless)
		}
		return through(ctx, x, y, frame(1, 1<<31, 64)) // it has recovered
	})
}

// concurrent: several senders at both ends and a receiver at each. Every frame comes once, whole, and in the order of
// its sender.
func concurrent(ctx context.Context, b Backend) error {
	return opened(b, func(x, y device.Link) error {
		const senders, frames, ahead = 4, 1000, 16
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var wg sync.WaitGroup
		var mu sync.Mutex
		var failed error
		fail := func(err error) {
			mu.Lock()
			if failed == nil {
				failed = err
				cancel()
			}
			mu.Unlock()
		}
		for _, way := range [][2]device.Link{{x, y}, {y, x}} {
			room := make(chan struct{}, ahead)
			for s := range byte(senders) {
				wg.Go(func() {
					for i := range uint32(frames) {
						select {
						case room <- struct{}{}:
						case <-ctx.Done():
							return
						}
						if err := way[0].Send(ctx, frame(s, i, 64+int(i)%900)); err != nil {
							fail(fmt.Errorf("sender %d, frame %d: %w", s, i, err))
							return
						}
					}
				})
			}
			wg.Go(func() {
				var at [senders]uint32
				for range senders * frames {
					f, err := next(ctx, way[1])
					if err != nil {
						fail(fmt.Errorf("receive, with %v of the senders received: %w", at, err))
						return
					}
					s := f[11]
					if s >= senders {
						fail(fmt.Errorf("a frame came of sender %d, want 0..%d", s, senders-1))
						return
					}
					if err := same(f, frame(s, at[s], 64+int(at[s])%900)); err != nil {
						fail(fmt.Errorf("sender %d, frame %d: %w", s, at[s], err))
						return
					}
					at[s]++
					<-room
				}
			})
		}
		wg.Wait()
		return failed
	})
}
