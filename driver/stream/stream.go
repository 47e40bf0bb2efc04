package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/namespace"
)

// DefaultLinger is how long frames are waited for after the last was sent, if none come.
const DefaultLinger = 200 * time.Millisecond

// Options say what is played and where.
type Options struct {
	Send     string   // INTERFACE or INTERFACE@NAMESPACE
	Receive  string   // where the frames come back; empty: the same. "-": nowhere, nothing is received
	Frames   [][]byte // played in turn; each 14 bytes or more
	Total    uint64   // frames to send; 0: each of Frames once
	Rate     float64  // frames a second; 0: as fast as can be
	Linger   time.Duration
	Progress io.Writer // where a progress bar goes; nil: nowhere
	// Other plays the frames through Send in place of this package, and returns how many it sent; nil: none does.
	Other func(ctx context.Context) (sent uint64, err error)
}

// Nowhere stands for the interface at which nothing is received.
const Nowhere = "-"

// Report is what became of the frames.
type Report struct {
	Counts
	Foreign uint64  `json:"foreign"` // frames that came and were not sent, or were changed on the way
	NoRoom  uint64  `json:"no_room"` // came, but the ring was full: they are among the lost
	Seconds float64 `json:"seconds"` // from before the first to after the last was sent
	Rate    float64 `json:"frames_per_second"`
	Gbps    float64 `json:"gbps"` // of sent frames without FCS and gaps
	Flows   []Flow  `json:"flows"`
}

// ErrLoss is that frames did not come back as they were sent.
var ErrLoss = errors.New("frames were lost, doubled, overtaken or changed")

// Err is ErrLoss if something was. Foreign frames alone are no fault: a network has other traffic, and a frame that was changed
// is also one lost.
func (r *Report) Err() error {
	if r.Lost+r.Duplicated+r.Reordered == 0 {
		return nil
	}
	return fmt.Errorf("%w: of %d sent %d lost (%d for want of room in the ring), %d duplicated, %d reordered, and %d foreign or changed came",
		ErrLoss, r.Sent, r.Lost, r.NoRoom, r.Duplicated, r.Reordered, r.Foreign)
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "sent %d frames in %.3f s: %.0f a second, %.3f Gb/s\n", r.Sent, r.Seconds, r.Rate, r.Gbps)
	if err != nil || r.Flows == nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "received %d, lost %d (%d for want of room in the ring), duplicated %d, reordered %d, foreign or changed %d\n",
		r.Received, r.Lost, r.NoRoom, r.Duplicated, r.Reordered, r.Foreign); err != nil {
		return err
	}
	for _, f := range r.Flows {
		if f.Lost+f.Duplicated+f.Reordered == 0 {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s: sent %d, lost %d, duplicated %d, reordered %d\n", f.Name, f.Sent, f.Lost, f.Duplicated, f.Reordered); err != nil {
			return err
		}
	}
	return nil
}

func (o *Options) check() error {
	if len(o.Frames) == 0 {
		return errors.New("frames: got none, want one or more")
	}
	for i, f := range o.Frames {
		if len(f) < device.HeaderBytes {
			return fmt.Errorf("frame %d: got %d bytes, want %d or more, an Ethernet header", i+1, len(f), device.HeaderBytes)
		}
	}
	if !(o.Rate >= 0) || math.IsInf(o.Rate, 1) {
		return fmt.Errorf("rate: got %g frames a second, want more than 0, or 0 for as many as can be", o.Rate)
	}
	if o.Total == 0 {
		o.Total = uint64(len(o.Frames))
	}
	if o.Linger == 0 {
		o.Linger = DefaultLinger
	}
	if o.Receive == "" {
		o.Receive = o.Send
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	return nil
}

// at opens something of an interface in its namespace.
func at[T any](where string, open func(string) (T, error)) (x T, err error) {
	name, ns, _ := strings.Cut(where, "@")
	err = namespace.Inside(ns, func() (err error) {
		x, err = open(name)
		return err
	})
	return x, namespace.Explain(err)
}

// Run plays the frames and reports. With ctx done it ends early, with ctx's error and the report of what was sent until then.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s, err := at(o.Send, openSender)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if longest := slices.MaxFunc(o.Frames, func(a, b []byte) int { return len(a) - len(b) }); len(longest) > device.MaxFrame(s.mtu) {
		return nil, fmt.Errorf("%s: got a frame of %d bytes, want at most %d, for the interface's MTU is %d", o.Send, len(longest), device.MaxFrame(s.mtu), s.mtu)
	}
	var in *intake
	if o.Receive != Nowhere {
		r, err := at(o.Receive, openReceiver)
		if err != nil {
			return nil, err
		}
		defer r.close()
		in = &intake{receiver: r, checker: newChecker(o.Frames)}
	}

	over, stop := context.WithCancel(ctx)
	defer stop()
	var listening sync.WaitGroup
	if in != nil {
		listening.Go(func() {
			in.run(over, o.Linger)
			stop() // an interface that is gone ends the sending too
		})
	}
	bar := progressbar.NewOptions64(int64(min(o.Total, math.MaxInt64)), progressbar.OptionSetWriter(o.Progress), progressbar.OptionSetDescription("frames"),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetWidth(30), progressbar.OptionShowCount(), progressbar.OptionFullWidth())
	start := time.Now()
	if o.Other == nil {
		o.Other = func(ctx context.Context) (uint64, error) {
			return s.play(ctx, o.Frames, o.Total, o.Rate, func(n int) { _ = bar.Add(n) })
		}
	}
	sent, err := o.Other(over)
	took := time.Since(start)
	_ = bar.Exit()
	r := &Report{Seconds: took.Seconds(), Rate: float64(sent) / took.Seconds()}
	r.Sent = sent
	r.Gbps = bits(o.Frames, sent) / took.Seconds() / 1e9
	if in != nil {
		in.sent.Store(max(1, sent))
		listening.Wait()
		err = errors.Join(in.err, err)
		if in.err != nil {
			err = in.err // the rest follows from it
		}
		r.Counts, r.Flows = in.checker.finish(sent)
		r.Foreign = in.foreign
		dropped, statsErr := in.receiver.dropped()
		r.NoRoom, err = dropped, errors.Join(err, statsErr)
	}
	return r, err
}

// RateOf is how many frames a second are so many Gb/s, without FCS and gaps.
func RateOf(frames [][]byte, gbps float64) float64 {
	return gbps * 1e9 * float64(len(frames)) / bits(frames, uint64(len(frames)))
}

// bits of so many frames, played in turn.
func bits(frames [][]byte, sent uint64) float64 {
	var pass, part uint64
	for i, f := range frames {
		pass += uint64(len(f))
		if uint64(i) < sent%uint64(len(frames)) {
			part += uint64(len(f))
		}
	}
	return 8 * float64(pass*(sent/uint64(len(frames)))+part)
}

// intake is what comes back.
type intake struct {
	receiver *receiver
	checker  *checker
	foreign  uint64
	sent     atomic.Uint64 // how many there are, once all have been sent; 0 until then
	err      error
}

// run takes frames until all were sent and have come back, or none of them came for a while, or ctx is done.
func (in *intake) run(ctx context.Context, linger time.Duration) {
	last := time.Now() // when one of them came, or was still to be sent
	for ctx.Err() == nil {
		frame, err := in.receiver.next()
		switch {
		case err != nil:
			in.err = err
			return
		case frame == nil:
		case in.checker.take(frame):
			last = time.Now()
		default:
			in.foreign++
		}
		total := in.sent.Load()
		switch {
		case total == 0:
			last = time.Now()
		case in.checker.received >= total, time.Since(last) >= linger:
			return
		}
	}
}
