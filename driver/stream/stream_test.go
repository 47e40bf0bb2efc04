package stream_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"

	"github.com/epic-inc/epic/driver/device/raw"
	"github.com/epic-inc/epic/driver/namespace"
	"github.com/epic-inc/epic/driver/stream"
	"github.com/epic-inc/epic/driver/stream/bench"
	"github.com/epic-inc/epic/golden/oracle"
	"github.com/epic-inc/epic/golden/roce"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// veth is both ends of a cable.
func veth(t *testing.T) (a, b string) {
	t.Helper()
	if os.Geteuid() != 0 {
		oracle.Skip(t, "to make a veth needs root")
	}
	c, err := bench.NewCable()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c.A, c.B
}

func made(t *testing.T, l stream.Load) [][]byte {
	t.Helper()
	frames, err := l.Make()
	require.NoError(t, err)
	return frames
}

// What is played at one end of a cable comes whole at the other, at the rate that is asked for.
func TestCable(t *testing.T) {
	a, b := veth(t)
	frames := made(t, stream.Load{Payload: 1024, Flows: 4, Frames: 1024, Seed: 1})
	r, err := stream.Run(t.Context(), stream.Options{Send: a, Receive: b, Frames: frames, Total: 20000})
	require.NoError(t, err)
	t.Logf("%+v", r)
	require.NoError(t, r.Err())
	assert.EqualValues(t, 20000, r.Received)
	assert.Len(t, r.Flows, 4)
	for _, f := range r.Flows {
		assert.InDelta(t, 5000, f.Sent, 128)
	}
	const rate = 10000
	r, err = stream.Run(t.Context(), stream.Options{Send: a, Receive: b, Frames: frames, Total: 5000, Rate: rate})
	require.NoError(t, err)
	require.NoError(t, r.Err())
	assert.LessOrEqual(t, r.Rate, rate*1.01)
	assert.GreaterOrEqual(t, r.Rate, rate*0.8, "on a machine that does other things too")
}

// What a link does to frames is said: each fault alone, then all. The far end is a program that sends back what comes.
func TestFaults(t *testing.T) {
	a, b := veth(t)
	frames := made(t, stream.Load{Payload: 64, Flows: 2, Frames: 512, Seed: 2})
	const total = 2000
	far, err := raw.Open(raw.Options{Interface: "b", Namespace: b[2:]})
	require.NoError(t, err)
	defer far.Close()
	for name, tt := range map[string]struct {
		answer  func(n int, frame []byte, send func([]byte))
		want    stream.Counts
		foreign uint64
	}{
		"echo": {func(_ int, f []byte, send func([]byte)) { send(f) }, stream.Counts{Sent: total, Received: total}, 0},
		"lost": {func(n int, f []byte, send func([]byte)) {
			if n%100 != 7 {
				send(f)
			}
		}, stream.Counts{Sent: total, Received: total - 20, Lost: 20}, 0},
		"twice": {func(n int, f []byte, send func([]byte)) {
			send(f)
			if n%100 == 7 {
				send(f)
			}
		}, stream.Counts{Sent: total, Received: total, Duplicated: 20}, 0},
		"changed": {func(n int, f []byte, send func([]byte)) {
			if n%100 == 7 {
				f[len(f)-9]++
			}
			send(f)
		}, stream.Counts{Sent: total, Received: total - 20, Lost: 20}, 20},
		"late, twice, and lost": {late(), stream.Counts{Sent: total, Received: total - 20, Lost: 20, Duplicated: 20, Reordered: 20}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				for n := 0; ; n++ {
					frame, err := far.Receive(ctx)
					if err != nil {
						return
					}
					tt.answer(n, frame, func(f []byte) { assert.NoError(t, far.Send(ctx, f)) })
				}
			}()
			r, err := stream.Run(t.Context(), stream.Options{Send: a, Frames: frames, Total: total, Rate: 5000})
			cancel()
			<-done
			require.NoError(t, err)
			assert.Equal(t, tt.want, r.Counts)
			assert.Equal(t, tt.foreign, r.Foreign)
			if name == "echo" {
				assert.NoError(t, r.Err())
			} else {
				assert.ErrorIs(t, r.Err(), stream.ErrLoss)
			}
		})
	}
}

// late loses one in a hundred, sends one twice, and one behind three others of its flow.
func late() func(n int, frame []byte, send func([]byte)) {
	var held []byte
	return func(n int, f []byte, send func([]byte)) {
		switch n % 100 {
		case 7:
		case 20:
			send(f)
			send(f)
		case 50:
			held = slices.Clone(f)
		case 56: // six later are three of each flow
			send(f)
			send(held)
		default:
			send(f)
		}
	}
}

// Captures are played as they are, frames that are the same among them.
func TestCapture(t *testing.T) {
	a, b := veth(t)
	files, err := filepath.Glob("../../testdata/captures/*/*.pcap*")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		frames, err := stream.Capture(file)
		require.NoError(t, err, file)
		r, err := stream.Run(t.Context(), stream.Options{Send: a, Receive: b, Frames: frames, Total: 3 * uint64(len(frames)), Rate: 20000})
		require.NoError(t, err, file)
		assert.NoError(t, r.Err(), file)
	}
}

func TestErrors(t *testing.T) {
	a, b := veth(t)
	frames := made(t, stream.Load{Payload: 64, Flows: 1, Frames: 4, Seed: 1})
	big := made(t, stream.Load{Payload: 4096, Flows: 1, Frames: 1, Seed: 1})
	small := made(t, stream.Load{Payload: 0, Flows: 1, Frames: 1, Seed: 1})
	for want, o := range map[string]stream.Options{
		`frames: got none`:                      {Send: a},
		`frame 1: got 3 bytes, want 14 or more`: {Send: a, Frames: [][]byte{{1, 2, 3}}},
		`interface "none"`:                      {Send: "none@" + a[2:], Frames: frames},
		`interface "x": `:                       {Send: a, Receive: "x@" + a[2:], Frames: frames},
		`namespace "nowhere": got none`:         {Send: "a@nowhere", Frames: frames},
		`rate: got -1 frames a second`:          {Send: a, Frames: frames, Rate: -1},
		`lo: got a frame of`:                    {Send: "lo", Frames: [][]byte{make([]byte, 1<<17)}},
	} {
		_, err := stream.Run(t.Context(), o)
		assert.ErrorContains(t, err, want)
	}
	for want, l := range map[string]stream.Load{
		"payload: got 4097 bytes": {Payload: 4097, Flows: 1, Frames: 1},
		"flows: got 0":            {Frames: 1},
		"frames of a pass: got 3": {Flows: 2, Frames: 3},
	} {
		_, err := l.Make()
		assert.ErrorContains(t, err, want)
	}
	_, err := stream.Capture("stream.go")
	assert.ErrorContains(t, err, "want the magic number")

	// Frames of every size are what they are said to be.
	for _, f := range slices.Concat(frames, big, small) {
		_, malformed := roce.Decode(f)
		assert.Nil(t, malformed)
	}

	// An interface that goes down, or a person who has had enough, end it.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	r, err := stream.Run(ctx, stream.Options{Send: a, Receive: b, Frames: frames, Total: 1 << 40, Rate: 1000})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.InDelta(t, 100, float64(r.Sent), 60)
	time.AfterFunc(100*time.Millisecond, func() {
		assert.NoError(t, namespace.Inside(a[2:], func() error {
			l, err := netlink.LinkByName("b")
			if err != nil {
				return err
			}
			return netlink.LinkSetDown(l)
		}))
	})
	_, err = stream.Run(t.Context(), stream.Options{Send: a, Receive: b, Frames: frames, Total: 1 << 40, Rate: 1000})
	assert.ErrorContains(t, err, "down")
	// Its other end has no carrier now.
	start := time.Now()
	_, err = stream.Run(t.Context(), stream.Options{Send: a, Receive: stream.Nowhere, Frames: frames})
	assert.ErrorContains(t, err, "want one with a carrier")
	assert.Less(t, time.Since(start), 10*time.Second)
}
