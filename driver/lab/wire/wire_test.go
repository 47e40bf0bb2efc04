package wire

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/device/devicetest"
	"github.com/epic-inc/epic/golden/fabric"
	"github.com/epic-inc/epic/golden/group"
)

// cable is a wire and the device at its far end.
func cable(t *testing.T, o Options) (*Wire, device.Link) {
	t.Helper()
	a, b, err := device.Pair(1500)
	require.NoError(t, err)
	w, err := New(a, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w, b
}

func numbered(n, bytes int) []byte {
	f := make([]byte, bytes)
	binary.BigEndian.PutUint32(f[device.HeaderBytes:], uint32(n))
	return f
}

func number(frame []byte) int { return int(binary.BigEndian.Uint32(frame[device.HeaderBytes:])) }

// The frames that arrive are those which the link of a fabric with the same seed lets through.
func TestFates(t *testing.T) {
	link := group.Link{Loss: 0.2, Dup: 0.1, DelayNs: 1000}
	w, far := cable(t, Options{Link: link, Seed: 5, Number: 3})
	const frames = 500
	for direction, way := range map[uint64][2]device.Link{7: {far, w}, 8: {w, far}} {
		model, err := fabric.NewWire(fabric.Link{Delay: 1000, Loss: 0.2, Dup: 0.1}, 5, direction)
		require.NoError(t, err)
		want := map[int]int{}
		total := 0
		for n := range frames {
			c := model.Cross(0, 60)
			if c.Fate != fabric.Lost {
				want[n]++
				total++
			}
			if c.Again > 0 {
				want[n]++
				total++
			}
		}
		got := map[int]int{}
		for n := range frames {
			require.NoError(t, way[0].Send(t.Context(), numbered(n, 60)))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		for range total {
			f, err := way[1].Receive(ctx)
			require.NoError(t, err)
			got[number(f)]++
		}
		cancel()
		require.Equal(t, want, got, "direction %d", direction)
	}
	out, in := w.Counts()
	require.Equal(t, uint64(frames), out.Frames)
	require.Positive(t, in.Lost)
	require.Positive(t, in.Duplicated)
}

// So many bytes take so long, in both directions, and never less.
func TestRate(t *testing.T) {
	const frames, bytes = 100, 1250
	w, far := cable(t, Options{Link: group.Link{Gbps: 0.01}}) // 1 ms a frame
	for _, way := range [][2]device.Link{{w, far}, {far, w}} {
		start := time.Now()
		for n := range frames {
			require.NoError(t, way[0].Send(t.Context(), numbered(n, bytes)))
		}
		for n := range frames {
			f, err := way[1].Receive(t.Context())
			require.NoError(t, err)
			require.Equal(t, n, number(f))
			require.GreaterOrEqual(t, time.Since(start), time.Duration(n+1)*time.Millisecond)
		}
		require.Less(t, time.Since(start), 3*frames*time.Millisecond)
	}
}

// Send waits where too much waits already; what comes from the far end is lost then.
func TestQueue(t *testing.T) {
	w, far := cable(t, Options{Link: group.Link{Gbps: 0.001}, QueueBytes: 3000}) // 10 ms a frame
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	require.NoError(t, w.Send(ctx, numbered(0, 1250)))
	require.NoError(t, w.Send(ctx, numbered(1, 1250)))
	require.ErrorIs(t, w.Send(ctx, numbered(2, 1250)), context.DeadlineExceeded)
	require.NoError(t, w.Send(t.Context(), numbered(2, 1250)), "there is room again")
	for n := range 10 {
		require.NoError(t, far.Send(t.Context(), numbered(n, 1250)))
	}
	require.Eventually(t, func() bool {
		_, in := w.Counts()
		return in.Frames == 10
	}, 5*time.Second, time.Millisecond)
	_, in := w.Counts()
	require.GreaterOrEqual(t, in.Full, uint64(7))
	_, err := New(far, Options{QueueBytes: 1000})
	require.EqualError(t, err, "wire: got a queue of 1000 bytes, want room for a frame, 1522")
	_, err = New(far, Options{Link: group.Link{Loss: -1}})
	require.ErrorContains(t, err, "loss: got -1, want 0..1")
}

func TestCutAndSpoil(t *testing.T) {
	w, far := cable(t, Options{})
	w.Cut(true)
	require.NoError(t, w.Send(t.Context(), numbered(1, 60)))
	w.Cut(false)
	w.Spoil(true)
	require.NoError(t, w.Send(t.Context(), numbered(2, 60)))
	w.Spoil(false)
	require.NoError(t, w.Send(t.Context(), numbered(3, 60)))
	for _, n := range []int{2, 3} {
		f, err := far.Receive(t.Context())
		require.NoError(t, err)
		require.Equal(t, n, number(f))
		require.Equal(t, n == 2, f[55] == 1)
	}
	out, _ := w.Counts()
	require.Equal(t, Counts{Frames: 3, Lost: 1, Spoiled: 1}, out)
}

// A wire with nothing wrong is a link like any other.
func TestConforms(t *testing.T) {
	devicetest.Run(t, devicetest.Backend{Open: func() (device.Link, device.Link, error) {
		a, b, err := device.Pair(1500)
		if err != nil {
			return nil, nil, err
		}
		w, err := New(a, Options{})
		return w, b, err
	}, Notices: true})
}
