package bitstream_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/epic-inc/epic/driver/bitstream"
	"github.com/epic-inc/epic/driver/bitstream/bittest"
	"github.com/epic-inc/epic/driver/device/uart"
	"github.com/epic-inc/epic/driver/device/uart/uarttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	baud = 4000000
	base = 1 << 20 // of the user region
)

// golden is what is in the flash below the user region.
var golden = bytes.Repeat([]byte("golden image! "), base/14)

type rig struct {
	*testing.T
	model *uarttest.Bridge
	board *uart.Board
	image *bitstream.Bitstream
}

func newRig(t *testing.T, o uarttest.Options) *rig {
	t.Helper()
	o.Baud = baud
	if o.Flash == nil {
		o.Flash = uarttest.NewFlash(22)
	}
	o.Flash.Erase = 2 * time.Millisecond
	o.Flash.Set(0, golden)
	image, err := bitstream.Load(bittest.Make(t, 25, true))
	require.NoError(t, err)
	m, err := uarttest.Start(o)
	require.NoError(t, err)
	r := &rig{T: t, model: m, image: image}
	t.Cleanup(func() {
		assert.Equal(t, golden, m.Flash.Get(0, len(golden)), "the golden image is as it was")
		if r.board != nil {
			r.board.Close()
		}
		m.Close()
	})
	r.open()
	return r
}

func (r *rig) open() {
	r.Helper()
	var err error
	r.board, err = uart.Open(r.Context(), r.model.Path, uart.Options{Baud: baud, Timeout: 200 * time.Millisecond, Tries: 9})
	require.NoError(r, err)
}

func (r *rig) target() bitstream.Target {
	return bitstream.Target{Flash: r.board, DeviceID: r.board.Hello().DeviceID, UserBase: r.board.Hello().UserBase}
}

func (r *rig) load(ctx context.Context, p bitstream.Progress) (*bitstream.Report, error) {
	if p == nil {
		p = func(bitstream.Step, int, int) {}
	}
	return bitstream.Flash(ctx, r.target(), r.image, p)
}

// holds says whether the user region is the image, and what comes after it erased.
func (r *rig) holds() bool {
	n := len(r.image.Data)
	tail := (n+4095)/4096*4096 - n
	return bytes.Equal(r.model.Flash.Get(base, n), r.image.Data) &&
		bytes.Equal(r.model.Flash.Get(uint32(base+n), tail), bytes.Repeat([]byte{0xff}, tail))
}

// noPreamble: what is in the user region is nothing that an FPGA would begin to load.
func (r *rig) noPreamble() {
	r.Helper()
	assert.NotContains(r, string(r.model.Flash.Get(base, 4096)), "\xff\xff\xbd\xb3")
}

func TestLoad(t *testing.T) {
	r := newRig(t, uarttest.Options{})
	r.model.Flash.Set(base, bytes.Repeat([]byte{0x5a}, 300000))
	last := map[bitstream.Step][2]int{}
	report, err := r.load(t.Context(), func(s bitstream.Step, done, total int) {
		assert.GreaterOrEqual(t, done, last[s][0], "%s goes back", s)
		last[s] = [2]int{done, total}
	})
	require.NoError(t, err)
	assert.True(t, r.holds())
	assert.Equal(t, len(r.image.Data), report.Written)
	assert.Zero(t, report.Kept)
	assert.Len(t, last, 4)
	for step, end := range last {
		assert.Equal(t, end[1], end[0], "%s ends at its total", step)
	}
	assert.Equal(t, byte(0x5a), r.model.Flash.Get(base+102400, 1)[0], "nothing behind its last sector is erased")

	// Again: nothing to do.
	erased, written := r.model.Flash.Touched()
	report, err = r.load(t.Context(), nil)
	require.NoError(t, err)
	assert.Equal(t, len(r.image.Data), report.Kept)
	erased2, written2 := r.model.Flash.Touched()
	assert.Equal(t, [2]int{len(erased), len(written)}, [2]int{len(erased2), len(written2)})

	// One byte is wrong, far from the first page of its sector: that sector is made anew, and the first.
	r.model.Flash.Set(base+5*4096+3000, []byte{r.image.Data[5*4096+3000] ^ 1})
	report, err = r.load(t.Context(), nil)
	require.NoError(t, err)
	assert.Equal(t, 2*4096, report.Erased)
	assert.True(t, r.holds())
}

// Nothing is erased for an image that does not fit.
func TestLoadRefuses(t *testing.T) {
	other, err := bitstream.Load(bittest.Make(t, 25, true))
	require.NoError(t, err)
	other.Device.ID, other.Device.Name = 0x41113043, "LFE5U-85F"
	small, none := uarttest.NewFlash(20), uarttest.NewFlash(22)
	none.ID = [3]byte{0xff, 0xff, 0xff}
	for _, tt := range []struct {
		name  string
		image *bitstream.Bitstream
		flash *uarttest.Flash
		want  string
	}{
		{"other FPGA", other, nil, "the bitstream is for LFE5U-85F, and the board has LFE5U-25F"},
		{"no room", nil, small, "it has 101692 bytes, and the flash of 1048576 has 0 behind the golden image"},
		{"no flash", nil, none, "its id is ff ff ff, want that of a flash of 64 KiB to 16 MiB: is it wired?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, uarttest.Options{Flash: tt.flash})
			if tt.image != nil {
				r.image = tt.image
			}
			_, err := r.load(t.Context(), nil)
			assert.ErrorContains(t, err, tt.want)
			erased, written := r.model.Flash.Touched()
			assert.Empty(t, erased)
			assert.Empty(t, written)
		})
	}
	// A host that believes in another user region gets nothing from the bridge.
	r := newRig(t, uarttest.Options{})
	target := r.target()
	target.UserBase = base - 4096
	_, err = bitstream.Flash(t.Context(), target, r.image, func(bitstream.Step, int, int) {})
	assert.ErrorContains(t, err, "erase or program below user_base: the golden image")
	target.UserBase = 0
	_, err = bitstream.Flash(t.Context(), target, r.image, func(bitstream.Step, int, int) {})
	assert.ErrorIs(t, err, bitstream.ErrWrongBoard)
}

// Ended in any step, the load leaves no half image that an FPGA would begin to load, and goes on from there.
func TestInterrupted(t *testing.T) {
	for _, tt := range []struct {
		step bitstream.Step
		part float64
		kept int // sectors that the next load need not write again, at least
	}{
		{bitstream.Compare, 0, 0}, {bitstream.Erase, 0, 0}, {bitstream.Erase, 0.5, 0},
		{bitstream.Write, 0.1, 1}, {bitstream.Write, 0.7, 14}, {bitstream.Verify, 0.5, 23},
	} {
		t.Run(string(tt.step), func(t *testing.T) {
			r := newRig(t, uarttest.Options{})
			old := bytes.Clone(r.image.Data) // another image of the same device
			old[len(old)/2] ^= 0xff
			for i := range old[4096:] {
				old[4096+i] ^= 0x33
			}
			r.model.Flash.Set(base, old)
			ctx, cancel := context.WithCancel(t.Context())
			reached := false
			_, err := r.load(ctx, func(s bitstream.Step, done, total int) {
				if s == tt.step && float64(done) >= tt.part*float64(total) {
					reached = true
					cancel()
				}
			})
			require.True(t, reached)
			require.ErrorIs(t, err, context.Canceled)
			assert.ErrorContains(t, err, "the golden image is untouched, and boots when the board is power-cycled")
			if tt.step != bitstream.Compare && !(tt.step == bitstream.Erase && tt.part == 0) {
				r.noPreamble()
			}
			report, err := r.load(t.Context(), nil)
			require.NoError(t, err)
			assert.GreaterOrEqual(t, report.Kept, tt.kept*4096)
			assert.True(t, r.holds())
		})
	}
}

// Unplugged in the middle, and plugged in again.
func TestUnplugged(t *testing.T) {
	flash := uarttest.NewFlash(22)
	r := newRig(t, uarttest.Options{Flash: flash})
	begin := time.Now()
	_, err := r.load(t.Context(), func(s bitstream.Step, done, total int) {
		if s == bitstream.Write && done > total/2 {
			go r.model.Close()
		}
	})
	require.ErrorIs(t, err, uart.ErrLost)
	assert.Less(t, time.Since(begin), 4*time.Second)
	r.noPreamble()
	require.NoError(t, r.board.Close())
	again := newRig(t, uarttest.Options{Flash: flash})
	report, err := again.load(t.Context(), nil)
	require.NoError(t, err)
	assert.Greater(t, report.Kept, 4096)
	assert.True(t, again.holds())
}

// A flash that fails once is written again; one that fails for good is an error, and no image for the FPGA.
func TestFlashFails(t *testing.T) {
	const at = base + 7*4096 + 512
	t.Run("a page once", func(t *testing.T) {
		f := uarttest.NewFlash(22)
		var failed atomic.Bool
		f.FailPage = func(addr uint32) bool { return addr == at && failed.CompareAndSwap(false, true) }
		r := newRig(t, uarttest.Options{Flash: f})
		_, err := r.load(t.Context(), nil)
		require.NoError(t, err)
		assert.True(t, failed.Load())
		assert.True(t, r.holds())
	})
	for name, fail := range map[string]func(*uarttest.Flash){
		"a page always":  func(f *uarttest.Flash) { f.FailPage = func(addr uint32) bool { return addr == at } },
		"a sector stays": func(f *uarttest.Flash) { f.FailErase = func(addr uint32) bool { return addr&^0xffff == at&^0xffff } },
		"first sector":   func(f *uarttest.Flash) { f.FailPage = func(addr uint32) bool { return addr == base } },
	} {
		t.Run(name, func(t *testing.T) {
			f := uarttest.NewFlash(22)
			fail(f)
			r := newRig(t, uarttest.Options{Flash: f})
			r.model.Flash.Set(base, bytes.Repeat([]byte{0x5a}, 110000))
			_, err := r.load(t.Context(), nil)
			require.ErrorIs(t, err, bitstream.ErrFlash)
			assert.ErrorContains(t, err, "after it was written 2 times")
			r.noPreamble()
		})
	}
}

// Over a line that spoils and loses bytes the image is right all the same.
func TestLoadOverBadLine(t *testing.T) {
	r := newRig(t, uarttest.Options{Spoil: 100, Lose: 100, Seed: 5})
	_, err := r.load(t.Context(), nil)
	require.NoError(t, err)
	assert.True(t, r.holds())
	assert.Positive(t, r.board.Resent())
}
