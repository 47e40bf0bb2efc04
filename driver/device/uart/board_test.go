package uart_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/device/devicetest"
	"github.com/epic-inc/epic/driver/device/uart"
	"github.com/epic-inc/epic/driver/device/uart/frame"
	"github.com/epic-inc/epic/driver/device/uart/uarttest"
)

// soon is within what a call must have its result or one error.
const soon = 2 * time.Second

// No test of the package leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, o uarttest.Options) *uarttest.Bridge {
	t.Helper()
	m, err := uarttest.Start(o)
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

func open(t *testing.T, m *uarttest.Bridge, o uart.Options) *uart.Board {
	t.Helper()
	b, err := uart.Open(t.Context(), m.Path, o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.Close()) })
	return b
}

// inTime runs f, which must end soon, and returns its error.
func inTime(t *testing.T, f func() error) error {
	t.Helper()
	begin := time.Now()
	err := f()
	assert.Less(t, time.Since(begin), soon)
	return err
}

func TestConformance(t *testing.T) {
	m := start(t, uarttest.Options{Baud: 4000000})
	devicetest.RunBoard(t, func() (device.Board, error) {
		return uart.Open(context.Background(), m.Path, uart.Options{Baud: 4000000})
	})
}

func TestHello(t *testing.T) {
	m := start(t, uarttest.Options{})
	b := open(t, m, uart.Options{})
	assert.EqualValues(t, 0x41111043, b.Hello().DeviceID)
	assert.EqualValues(t, 1<<20, b.Hello().UserBase)
	assert.Equal(t, "virtual", frame.Board(b.Hello().Board).String())
	assert.Empty(t, b.Links())
	id, err := b.FlashID(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "ef 40 16", id.String())
}

// Whatever a line does to the answers, the value is right or there is one error in time.
func TestAnswers(t *testing.T) {
	whole := func(r []byte) []uarttest.Piece { return []uarttest.Piece{{Bytes: r}} }
	bytewise := func(_ int, r []byte) (p []uarttest.Piece) {
		for _, c := range r {
			p = append(p, uarttest.Piece{After: time.Millisecond, Bytes: []byte{c}})
		}
		return p
	}
	from := func(first int, then func(r []byte) []uarttest.Piece) func(int, []byte) []uarttest.Piece {
		return func(n int, r []byte) []uarttest.Piece {
			if n < first {
				return whole(r)
			}
			return then(r)
		}
	}
	once := func(then func(r []byte) []uarttest.Piece) func(int, []byte) []uarttest.Piece {
		return func(n int, r []byte) []uarttest.Piece {
			if n != 1 {
				return whole(r)
			}
			return then(r)
		}
	}
	for _, tt := range []struct {
		name   string
		answer func(int, []byte) []uarttest.Piece
		want   string // error; "" for the right value
	}{
		{"one byte at a time", bytewise, ""},
		{"a pause of 300 ms in the answer", once(func(r []byte) []uarttest.Piece {
			return []uarttest.Piece{{Bytes: r[:5]}, {After: 300 * time.Millisecond, Bytes: r[5:]}}
		}), ""},
		{"half an answer", once(func(r []byte) []uarttest.Piece { return whole(r[:len(r)/2]) }), ""},
		{"half an answer without its end, then another", once(func(r []byte) []uarttest.Piece { return whole(r[:len(r)-1]) }), ""},
		{"no answer", once(func([]byte) []uarttest.Piece { return nil }), ""},
		{"garbage before", from(0, func(r []byte) []uarttest.Piece {
			return whole(append(append(bytes.Repeat([]byte("U!"), 400), 0), r...))
		}), ""},
		{"every answer twice", from(0, func(r []byte) []uarttest.Piece { return append(whole(r), whole(r)...) }), ""},
		{"only halves", from(1, func(r []byte) []uarttest.Piece { return whole(r[:len(r)/2]) }), "no answer within 1.5s"},
		{"silence", from(1, func([]byte) []uarttest.Piece { return nil }), "no answer within 1.5s"},
		{"garbage alone", from(1, func([]byte) []uarttest.Piece { return whole(bytes.Repeat([]byte{0x55}, 500)) }), "no answer within 1.5s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := start(t, uarttest.Options{Answer: tt.answer})
			b, err := uart.Open(t.Context(), m.Path, uart.Options{})
			require.NoError(t, err)
			err = inTime(t, func() error { return b.Write32(t.Context(), device.RegScratch, 0x12345678) })
			if tt.want != "" {
				require.ErrorIs(t, err, uart.ErrLost)
				assert.ErrorContains(t, err, tt.want)
				require.NoError(t, b.Close())
				return
			}
			require.NoError(t, err)
			value, err := b.Read32(t.Context(), device.RegScratch)
			require.NoError(t, err)
			assert.EqualValues(t, 0x12345678, value)
			assert.Len(t, m.Writes(), 1, "a write is carried out once, however often it is sent")
			require.NoError(t, b.Close())
		})
	}
}

// What there is to open, and what is said if it cannot be.
func TestOpenRefuses(t *testing.T) {
	m := start(t, uarttest.Options{})
	notPort := t.TempDir() + "/file"
	require.NoError(t, os.WriteFile(notPort, nil, 0o600))
	old := start(t, uarttest.Options{Version: 2})
	deaf := start(t, uarttest.Options{Deaf: true})
	for _, tt := range []struct {
		name, path string
		baud       int
		want       string
	}{
		{"odd rate", m.Path, 1234567, "baud rate: got 1234567, want one of [9600 19200 "},
		{"no such port", "/dev/none", 0, "serial port /dev/none: there is none of this name (epic board list shows those there are)"},
		{"a file", notPort, 0, "is not a serial port"},
		{"wrong rate", m.Path, 115200, "no bridge answers at 115200 baud within 1.5s: another rate, another port, or no bitstream"},
		{"deaf", deaf.Path, 0, "no bridge answers at 1000000 baud within 1.5s"},
		{"other version", old.Path, 0, "the bridge speaks version 2 of the protocol, want 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leak := goleak.IgnoreCurrent()
			err := inTime(t, func() error {
				_, err := uart.Open(t.Context(), tt.path, uart.Options{Baud: tt.baud})
				return err
			})
			assert.ErrorContains(t, err, tt.want)
			goleak.VerifyNone(t, leak)
		})
	}
	b := open(t, m, uart.Options{})
	_, err := uart.Open(t.Context(), m.Path, uart.Options{})
	assert.ErrorContains(t, err, "is busy: another program has it open")
	require.NoError(t, b.Close())
	open(t, m, uart.Options{}) // and after the other rate, and the other program
}

// A port that goes ends what waits for it at once, and takes no processor time afterwards.
func TestUnplug(t *testing.T) {
	m := start(t, uarttest.Options{Answer: func(n int, r []byte) []uarttest.Piece {
		if n == 0 {
			return []uarttest.Piece{{Bytes: r}}
		}
		return nil
	}})
	b := open(t, m, uart.Options{})
	go func() {
		time.Sleep(100 * time.Millisecond)
		m.Close()
	}()
	begin := time.Now()
	_, err := b.Read32(t.Context(), device.RegID)
	assert.ErrorIs(t, err, uart.ErrLost)
	assert.ErrorContains(t, err, "the port has gone: unplugged?")
	assert.Less(t, time.Since(begin), time.Second)
	_, err = b.Read32(t.Context(), device.RegID)
	assert.ErrorIs(t, err, uart.ErrLost, "and so does whatever comes after")
	before := processorTime(t)
	time.Sleep(300 * time.Millisecond)
	assert.Less(t, processorTime(t)-before, 100*time.Millisecond, "nothing spins")
}

// While nothing is asked, nothing runs but the reads that time out.
func TestIdleDoesNotSpin(t *testing.T) {
	m := start(t, uarttest.Options{})
	open(t, m, uart.Options{})
	before := processorTime(t)
	time.Sleep(500 * time.Millisecond)
	assert.Less(t, processorTime(t)-before, 100*time.Millisecond)
}

func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestFlash(t *testing.T) {
	flash := uarttest.NewFlash(22)
	flash.Erase = 80 * time.Millisecond // as parts take; and the bridge waits for a page that comes too early
	m := start(t, uarttest.Options{Baud: 4000000, Flash: flash})
	b := open(t, m, uart.Options{Baud: 4000000})
	ctx := t.Context()
	const at = 1<<20 + 8192
	m.Flash.Set(at, []byte("old"))
	require.NoError(t, b.Erase(ctx, at, frame.SectorLog2))
	busy, err := b.FlashBusy(ctx)
	require.NoError(t, err)
	assert.True(t, busy)
	require.Eventually(t, func() bool {
		busy, err := b.FlashBusy(ctx)
		require.NoError(t, err)
		return !busy
	}, time.Second, time.Millisecond)
	data := noise(1, 1000)
	done := 0
	require.NoError(t, b.Program(ctx, at, data, func(n int) { done += n }))
	assert.Equal(t, len(data), done)
	got := make([]byte, 1003)
	require.NoError(t, b.ReadFlash(ctx, at-3, got, func(int) {}))
	assert.Equal(t, append([]byte{0xff, 0xff, 0xff}, data...), got)

	// The golden image is out of reach whatever a host asks.
	for _, err := range []error{
		b.Erase(ctx, 1<<20-1<<12, frame.SectorLog2), b.Erase(ctx, 0, frame.BlockLog2), b.Program(ctx, 1<<20-256, data[:256], func(int) {}),
	} {
		var refused *uart.StatusError
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, frame.StatusProtected, refused.Status)
		assert.ErrorContains(t, err, "erase or program below user_base: the golden image")
	}
	for _, err := range []error{
		b.Erase(ctx, at+256, frame.SectorLog2), b.Erase(ctx, at, 13), b.Program(ctx, at+1, data[:256], func(int) {}),
		b.Erase(ctx, 1<<24, frame.SectorLog2), b.ReadFlash(ctx, 1<<24-1, got[:2], func(int) {}),
	} {
		var refused *uart.StatusError
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, frame.StatusAddress, refused.Status)
	}
	require.NoError(t, b.Reload(ctx))
	assert.Equal(t, 1, m.Reloads())
}

func noise(seed uint64, n int) []byte {
	random := rand.New(rand.NewPCG(seed, 0))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// 1 MB is programmed, and read, in at least 90 % of the line's rate, ten bits a byte: at 4 Mbaud. On a machine that is
// so busy with other things that host and model get too little of it for 4 Mbaud, a slower line shows the same.
func TestLineRate(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 6 s of the line at least")
	}
	const at, size = 1 << 20, 1 << 20
	data := noise(2, size)
	// run returns the worse share of the line's rate.
	run := func(baud int) float64 {
		m := start(t, uarttest.Options{Baud: baud})
		b := open(t, m, uart.Options{Baud: baud})
		worse := 1.0
		measure := func(what string, do func() error) {
			begin := time.Now()
			require.NoError(t, do())
			took := time.Since(begin)
			share := size * 10 / float64(baud) / took.Seconds()
			t.Logf("%s: 1 MB at %d baud in %v, %.1f %% of the line's rate, %d sent again", what, baud, took, 100*share, b.Resent())
			worse = min(worse, share)
		}
		measure("program", func() error { return b.Program(t.Context(), at, data, func(int) {}) })
		// 269 bytes for a page is all that the line could do; a model that oversleeps may take its rest for the host's.
		assert.Less(t, worse, 1.01*256/269, "the model is faster than the line")
		assert.True(t, bytes.Equal(data, m.Flash.Get(at, size)))
		got := make([]byte, size)
		measure("read", func() error { return b.ReadFlash(t.Context(), at, got, func(int) {}) })
		assert.True(t, bytes.Equal(data, got))
		assert.Zero(t, m.Overruns())
		require.NoError(t, b.Close())
		return worse
	}
	for _, baud := range []int{4000000, 4000000, 2000000, 1000000} {
		if run(baud) >= 0.9 {
			return
		}
	}
	t.Error("90 % of the line's rate are reached at no rate")
}

// A bad line costs time, not bytes.
func TestBadLine(t *testing.T) {
	for _, tt := range []struct {
		spoil, lose int
	}{{200, 0}, {0, 200}, {500, 500}} {
		t.Run(fmt.Sprintf("%d ppm spoiled, %d ppm lost", tt.spoil, tt.lose), func(t *testing.T) {
			t.Parallel()
			const at, size = 1 << 20, 32 << 10
			m := start(t, uarttest.Options{Baud: 2000000, Spoil: tt.spoil, Lose: tt.lose, Seed: 3})
			b := open(t, m, uart.Options{Baud: 2000000, Timeout: 100 * time.Millisecond, Tries: 10})
			data := noise(4, size)
			require.NoError(t, b.Program(t.Context(), at, data, func(int) {}))
			got := make([]byte, size)
			require.NoError(t, b.ReadFlash(t.Context(), at, got, func(int) {}))
			assert.True(t, bytes.Equal(data, got))
			assert.Positive(t, b.Resent(), "nothing was lost: the test shows nothing")
			for i := range uint32(100) {
				require.NoError(t, b.Write32(t.Context(), device.RegTableData+4*(i%24), i))
			}
			assert.Len(t, m.Writes(), 100, "each write is carried out once")
			assert.Zero(t, m.Overruns())
			t.Logf("%d sent again", b.Resent())
		})
	}
}

// A context ends a transfer at once, and the board goes on.
func TestContextEndsTransfer(t *testing.T) {
	m := start(t, uarttest.Options{Baud: 115200})
	b := open(t, m, uart.Options{Baud: 115200})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	begin := time.Now()
	err := b.Program(ctx, 1<<20, noise(5, 1<<20), func(int) {})
	assert.ErrorIs(t, err, context.Canceled)
	assert.Less(t, time.Since(begin), 400*time.Millisecond)
	id, err := b.Read32(t.Context(), device.RegID)
	require.NoError(t, err)
	assert.Equal(t, device.IDValue, id)
}
