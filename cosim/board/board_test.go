package board_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/epic-inc/epic/cosim/board"
	"github.com/epic-inc/epic/driver/bitstream"
	"github.com/epic-inc/epic/driver/bitstream/bittest"
	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/device/devicetest"
	"github.com/epic-inc/epic/driver/device/uart"
	"github.com/epic-inc/epic/driver/device/uart/frame"
	"github.com/epic-inc/epic/golden/spec"
)

const root = "../.."

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patient is for a simulation on a machine that does other things too: its seconds are not the board's.
var patient = uart.Options{Timeout: 5 * time.Second}

func start(t *testing.T, args ...string) *board.Board {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a Verilator model: -short")
	}
	program, err := board.Build(t.Context(), root)
	require.NoError(t, err)
	b, err := board.Start(context.Background(), board.Options{Program: program, Args: args})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, b.Close(), "the flash was used as its data sheet says, and the golden image is whole")
		if t.Failed() {
			t.Log(strings.Join(b.Lines(), "\n"))
		}
	})
	return b
}

func open(t *testing.T, b *board.Board) *uart.Board {
	t.Helper()
	u, err := uart.Open(t.Context(), b.Path, patient)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.Zero(t, u.Resent(), "the line of the bench loses nothing")
		assert.NoError(t, u.Close())
	})
	return u
}

// The backend that reaches a board's registers reaches those of the RTL.
func TestConformance(t *testing.T) {
	b := start(t)
	devicetest.RunBoard(t, func() (device.Board, error) { return uart.Open(context.Background(), b.Path, patient) })
}

func TestHello(t *testing.T) {
	u := open(t, start(t))
	assert.Equal(t, frame.Hello{
		Board: uint32(frame.BoardVirtual), DeviceID: board.DeviceID, ClockHz: board.ClockHz, UserBase: board.UserBase,
		WindowBytes: 4095, WindowFrames: 15, Features: frame.FeatureReload,
	}, u.Hello())
	hash, err := u.Read32(t.Context(), device.RegSpecHash)
	require.NoError(t, err)
	assert.EqualValues(t, spec.SpecHash, hash, "it is the real register block")
}

// A register is read and written within 2 ms of board time at 1 Mbaud.
func TestRoundTrip(t *testing.T) {
	b := start(t, "--trace")
	u := open(t, b)
	for i := range uint32(20) {
		require.NoError(t, u.Write32(t.Context(), device.RegScratch, i*0x01010101))
		value, err := u.Read32(t.Context(), device.RegScratch)
		require.NoError(t, err)
		require.Equal(t, i*0x01010101, value)
	}
	require.NoError(t, u.Close())
	require.NoError(t, b.Close())
	times := b.RoundTrips()
	require.Len(t, times, 41) // and hello
	longest := slices.Max(times[1:])
	t.Logf("register access: %v to %v of board time", slices.Min(times[1:]), longest)
	assert.Less(t, longest, 2*time.Millisecond)
	// 17 and 9 bytes of ten bits at the least: the bench's clock is right.
	assert.Greater(t, slices.Min(times[1:]), 200*time.Microsecond)
}

// 4 KB are programmed and read back through the RTL, and are in the flash.
func TestProgram(t *testing.T) {
	dump := filepath.Join(t.TempDir(), "flash")
	b := start(t, "--dump", dump)
	u := open(t, b)
	ctx := t.Context()
	id, err := u.FlashID(ctx)
	require.NoError(t, err)
	assert.Equal(t, device.FlashID{0xef, 0x40, 0x16}, id)
	idle := func() {
		require.Eventually(t, func() bool {
			busy, err := u.FlashBusy(ctx)
			require.NoError(t, err)
			return !busy
		}, 10*time.Second, time.Millisecond)
	}
	random := rand.New(rand.NewPCG(1, 0))
	data := make([]byte, 4096)
	for i := range data {
		data[i] = byte(random.Uint32())
		if i/256 == 3 {
			data[i] = 0 // a page of zeros: each is a run of its own
		}
	}
	const at = board.UserBase + 3<<16
	require.NoError(t, u.Erase(ctx, at, device.BlockLog2))
	idle()
	require.NoError(t, u.Program(ctx, at, data, func(int) {}))
	idle()
	got := make([]byte, len(data)+300)
	require.NoError(t, u.ReadFlash(ctx, at-100, got, func(int) {}))
	assert.Equal(t, data, got[100:4196])
	for _, c := range slices.Concat(got[:100], got[4196:]) {
		assert.EqualValues(t, 0xff, c)
	}
	require.NoError(t, u.Erase(ctx, at+1<<12, device.SectorLog2)) // and the one after stays as it is
	idle()
	require.NoError(t, u.Close())
	require.NoError(t, b.Close())
	whole, err := os.ReadFile(dump)
	require.NoError(t, err)
	assert.Equal(t, data, whole[at:at+4096], "in the flash itself")
	assert.Contains(t, b.Lines(), "flash: 16 pages programmed, 2 erases, golden image untouched")
}

// What may not be asked is refused, with the reason, by the RTL as by the model of it.
func TestRefused(t *testing.T) {
	u := open(t, start(t))
	ctx := t.Context()
	page := make([]byte, 256)
	nothing := func(int) {}
	for _, tt := range []struct {
		err  error
		want frame.Status
	}{
		{u.Erase(ctx, board.UserBase-1<<12, device.SectorLog2), frame.StatusProtected},
		{u.Erase(ctx, 0, device.BlockLog2), frame.StatusProtected},
		{u.Program(ctx, board.UserBase-256, page, nothing), frame.StatusProtected},
		{u.Program(ctx, 0, page, nothing), frame.StatusProtected},
		{u.Program(ctx, board.UserBase+1, page, nothing), frame.StatusAddress},
		{u.Program(ctx, board.UserBase, nil, nothing), 0},
		{u.Erase(ctx, board.UserBase+256, device.SectorLog2), frame.StatusAddress},
		{u.Erase(ctx, board.UserBase+1<<12, device.BlockLog2), frame.StatusAddress},
		{u.Erase(ctx, board.UserBase, 13), frame.StatusAddress},
		{u.Erase(ctx, 1<<24, device.SectorLog2), frame.StatusAddress},
		{u.ReadFlash(ctx, 1<<24-1, page[:2], nothing), frame.StatusAddress},
		{u.ReadFlash(ctx, 1<<24-2, page[:2], nothing), 0},
		{u.Write32(ctx, device.RegID, 1), frame.StatusBusError},
		{u.Write32(ctx, 1<<12|device.RegScratch, 1), frame.StatusBusError},
		{u.Write32(ctx, 1<<31|device.RegScratch, 1), frame.StatusBusError},
		{u.Write32(ctx, 2, 1), frame.StatusAddress},
	} {
		if tt.want == 0 {
			assert.NoError(t, tt.err)
			continue
		}
		var refused *uart.StatusError
		if assert.ErrorAs(t, tt.err, &refused) {
			assert.Equal(t, tt.want, refused.Status, "%v", tt.err)
		}
	}
}

// A flash that is busy for good is told, by requests that end.
func TestStuckFlash(t *testing.T) {
	u := open(t, start(t, "--stuck"))
	_, err := u.FlashID(t.Context())
	var refused *uart.StatusError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, frame.StatusFlashBusy, refused.Status)
	assert.ErrorContains(t, u.Program(t.Context(), board.UserBase, make([]byte, 256), func(int) {}), "still busy")
	id, err := u.Read32(t.Context(), device.RegID)
	require.NoError(t, err)
	assert.Equal(t, device.IDValue, id)
}

// A UART whose clock is off by 2 % is understood; one at another rate is not, and harms nothing.
func TestSkew(t *testing.T) {
	for _, ppm := range []int{-20000, 20000} {
		t.Run(fmt.Sprint(ppm), func(t *testing.T) {
			u := open(t, start(t, "--skew", fmt.Sprint(ppm)))
			data := make([]byte, 512)
			require.NoError(t, u.ReadFlash(t.Context(), 0, data, func(int) {}))
			for i, c := range data {
				require.EqualValues(t, byte(i*131+i>>8), c)
			}
		})
	}
	b := start(t, "--skew", "300000")
	_, err := uart.Open(t.Context(), b.Path, uart.Options{Timeout: 500 * time.Millisecond})
	assert.ErrorIs(t, err, uart.ErrLost)
}

var hello = frame.Request{Version: frame.Version, Op: frame.OpHello, Tag: 1}.Append([]byte{0})

// raw sends bytes and returns the first n responses: what a program does that is not ours.
func raw(t *testing.T, b *board.Board, stream []byte, n int) (answers []frame.Response) {
	t.Helper()
	port, err := os.OpenFile(b.Path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer port.Close()
	go port.Write(stream) // more than a terminal holds: the board takes it as we read
	var scanner frame.Scanner
	buffer := make([]byte, 256)
	for end := time.Now().Add(30 * time.Second); len(answers) < n; {
		require.True(t, time.Now().Before(end), "got %d responses, want %d", len(answers), n)
		got, err := port.Read(buffer)
		if err != nil && !errors.Is(err, io.EOF) { // the port times out as uart left it
			require.NoError(t, err)
		}
		scanner.Feed(buffer[:got], func(body []byte, err error) {
			require.NoError(t, err)
			r, err := frame.DecodeResponse(body)
			require.NoError(t, err)
			answers = append(answers, r)
		})
	}
	return answers
}

// Frames that are spoiled are as if they had not come; those between them are answered.
func TestGarbage(t *testing.T) {
	b := start(t)
	u := open(t, b)
	require.NoError(t, u.Write32(t.Context(), device.RegScratch, 7))
	require.NoError(t, u.Close())
	random := rand.New(rand.NewPCG(2, 0))
	good := frame.Request{Version: frame.Version, Op: frame.OpWriteRegister, Tag: 1, Addr: device.RegScratch, Payload: []byte{9, 9, 9, 9}}.Append(nil)
	var stream []byte
	for i := range good[:len(good)-1] { // every byte spoiled once
		bad := slices.Clone(good)
		bad[i] ^= 1 << random.UintN(8)
		stream = append(append(stream, 0), bad...)
	}
	noise := make([]byte, 1500) // longer than any frame
	for i := range noise {
		noise[i] = byte(1 + random.UintN(255))
	}
	raw(t, b, append(append(append(stream, noise...), 0), hello...), 1)
	value, err := open(t, b).Read32(t.Context(), device.RegScratch)
	require.NoError(t, err)
	assert.EqualValues(t, 7, value, "no spoiled frame was carried out")
}

// A request that comes twice is carried out once: its response was lost, and the host cannot know.
func TestWriteOnce(t *testing.T) {
	b := start(t)
	u := open(t, b)
	require.NoError(t, u.Write32(t.Context(), device.RegScratch, 1))
	require.NoError(t, u.Close())
	write := func(tag uint8, value byte) []byte {
		return frame.Request{
			Version: frame.Version, Op: frame.OpWriteRegister, Tag: tag, Addr: device.RegScratch, Payload: []byte{value, 0, 0, 0},
		}.Append(nil)
	}
	answers := raw(t, b, slices.Concat(hello, write(2, 5), write(2, 6), write(2, 7), write(3, 8), write(2, 9), write(2, 10)), 7)
	for i, a := range answers[1:] {
		assert.Equal(t, frame.StatusOk, a.Status, i)
	}
	value, err := open(t, b).Read32(t.Context(), device.RegScratch)
	require.NoError(t, err)
	assert.EqualValues(t, 9, value, "5, then 8, then 9: the tag of one that is further back is a new request")
}

// A whole load, interrupted once: the very code that loads a board.
func TestLoad(t *testing.T) {
	b := start(t, "--erase-us", "100")
	u := open(t, b)
	image, err := bitstream.Load(bittest.Make(t, 25, true))
	require.NoError(t, err)
	image.Data = image.Data[:3*4096+77] // what 100 KB would show, in less time
	target := bitstream.Target{Flash: u, DeviceID: u.Hello().DeviceID, UserBase: u.Hello().UserBase}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = bitstream.Flash(ctx, target, image, func(s bitstream.Step, done, total int) {
		if s == bitstream.Write && done > total/2 {
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	report, err := bitstream.Flash(t.Context(), target, image, func(bitstream.Step, int, int) {})
	require.NoError(t, err)
	assert.Positive(t, report.Kept)
	got := make([]byte, len(image.Data))
	require.NoError(t, u.ReadFlash(t.Context(), board.UserBase, got, func(int) {}))
	assert.Equal(t, image.Data, got)
	require.NoError(t, u.Reload(t.Context()))
	require.Eventually(t, func() bool { return slices.Contains(b.Lines(), "configured") }, 10*time.Second, 10*time.Millisecond)
	_, err = u.Read32(t.Context(), device.RegID)
	assert.NoError(t, err, "it answers again")
}
