package uart

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/device/uart/frame"
)

// StatusError is a request that a bridge has refused or could not carry out.
type StatusError struct {
	Op     frame.Op
	Addr   uint32
	Status frame.Status
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%v at %#x: %v", e.Op, e.Addr, e.Status)
}

// maxFrames bounds the window whatever a bridge says: tags have 8 bits, and one that is over must not look like one
// under way.
const maxFrames = 64

// hurried is how often a request is sent again because the answers of later ones have come: a line that spoils every
// second frame still gets through.
const hurried = 16

// flight is a request that has not been answered.
type flight struct {
	index    int // of the caller
	request  frame.Request
	frame    []byte
	order    uint64 // of its last sending: a bridge answers in this order
	timeouts int
	hurries  int
}

// bytes is what the flight takes of the window.
func (f *flight) bytes() int { return frame.RequestHeaderBytes + len(f.request.Payload) }

// one asks for one thing.
func (b *Board) one(ctx context.Context, r frame.Request, answered func(payload []byte) error) error {
	return b.exchange(ctx, 1, func(int) frame.Request { return r }, func(_ int, payload []byte) error { return answered(payload) })
}

// exchange sends n requests and takes their answers, as many at a time as the bridge has room for, which may come in
// another order after a loss. It ends at the first that is refused. What was sent by then is still carried out; its
// answers are nobody's. The next exchange's requests come after.
func (b *Board) exchange(ctx context.Context, n int, request func(i int) frame.Request, answered func(i int, payload []byte) error) error {
	if err := b.acquire(ctx); err != nil {
		return err
	}
	defer b.release()
	if b.strange {
		err := b.fly(ctx, 1, 1, func(int) frame.Request { return frame.Request{Op: frame.OpHello} }, func(_ int, payload []byte) error {
			hello, err := frame.DecodeHello(payload)
			if err == nil {
				b.hello.Store(&hello)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("serial port %s: %w", b.path, err)
		}
	}
	if err := b.fly(ctx, n, b.window(), request, answered); err != nil {
		return fmt.Errorf("serial port %s: %w", b.path, err)
	}
	return nil
}

// window is how many requests may be unanswered at a time.
func (b *Board) window() int { return max(1, min(maxFrames, int(b.Hello().WindowFrames))) }

func (b *Board) fly(ctx context.Context, n, window int, request func(i int) frame.Request, answered func(i int, payload []byte) error) error {
	for len(b.responses) > 0 { // of an exchange before
		<-b.responses
	}
	b.strange = true // until all is answered
	var flights []*flight
	var order uint64
	next, bytes := 0, 0
	send := func(f *flight, again bool) error {
		order++
		f.order = order
		out := f.frame
		if again {
			b.resent.Add(1)
		}
		if again || order == 1 {
			out = append([]byte{frame.Delimiter}, out...) // an end to whatever came before it
		}
		if err := b.port.write(out, b.options.Timeout); err != nil {
			return fmt.Errorf("%w: %w", ErrLost, err)
		}
		return nil
	}
	silence := time.NewTimer(b.options.Timeout)
	defer silence.Stop()
	for next < n || len(flights) > 0 {
		for next < n && len(flights) < window {
			r := request(next)
			r.Version, r.Tag = frame.Version, b.tag
			f := &flight{index: next, request: r, frame: r.Append(nil)}
			if len(flights) > 0 && bytes+f.bytes() > int(b.Hello().WindowBytes) {
				break
			}
			b.tag++
			next++
			bytes += f.bytes()
			flights = append(flights, f)
			if err := send(f, false); err != nil {
				return err
			}
		}
		select {
		case r := <-b.responses:
			i := slices.IndexFunc(flights, func(f *flight) bool { return f.request.Tag == r.Tag && f.request.Op == r.Op })
			if r.Status == frame.StatusVersion {
				return fmt.Errorf("the bridge speaks version %d of the protocol, want %d: the bitstream is of another release", r.Version, frame.Version)
			}
			if i < 0 || r.Version != frame.Version {
				continue // of a request that has been answered, or was given up
			}
			f := flights[i]
			flights = slices.Delete(flights, i, i+1)
			bytes -= f.bytes()
			silence.Reset(b.options.Timeout)
			if r.Status != frame.StatusOk {
				if len(flights) == 0 && next == n {
					b.strange = false
				}
				return &StatusError{f.request.Op, f.request.Addr, r.Status}
			}
			if answered != nil {
				if err := answered(f.index, r.Payload); err != nil {
					return fmt.Errorf("%v at %#x: %w", f.request.Op, f.request.Addr, err)
				}
			}
			// A bridge answers in order: what was sent before this one was lost, or its answer was.
			for _, lost := range flights {
				if lost.order >= f.order {
					continue
				}
				if lost.hurries++; lost.hurries > hurried {
					return fmt.Errorf("%w: %v at %#x has been sent %d times", ErrNoisy, lost.request.Op, lost.request.Addr, lost.hurries)
				}
				if err := send(lost, true); err != nil {
					return err
				}
			}
		case <-silence.C:
			// The first alone: when it is answered, the rest that was lost is known.
			f := flights[0]
			if f.timeouts++; f.timeouts >= b.options.Tries {
				return b.silent(f)
			}
			if err := send(f, true); err != nil {
				return err
			}
			silence.Reset(b.options.Timeout)
		case <-ctx.Done():
			return ctx.Err()
		case <-b.closing:
			return device.ErrClosed
		case <-b.gone:
			return fmt.Errorf("%w: %w", ErrLost, b.why)
		}
	}
	b.strange = false
	return nil
}

// silent is the error when a request was not answered, however often it was sent.
func (b *Board) silent(f *flight) error {
	after := time.Duration(b.options.Tries) * b.options.Timeout
	if b.hello.Load() == nil {
		return fmt.Errorf("%w: no bridge answers at %d baud within %v: another rate, another port, or no bitstream with a bridge in the FPGA",
			ErrLost, b.options.Baud, after)
	}
	return fmt.Errorf("%w: %v at %#x: no answer within %v", ErrLost, f.request.Op, f.request.Addr, after)
}

// Lost says whether an error means that the board is out of reach, rather than that it has refused.
func Lost(err error) bool { return errors.Is(err, ErrLost) }
