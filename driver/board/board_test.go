package board

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/epic-inc/epic/driver/bitstream/bittest"
	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/device/uart/frame"
	"github.com/epic-inc/epic/driver/device/uart/uarttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, o uarttest.Options) (*uarttest.Bridge, Where) {
	t.Helper()
	o.Baud = 4000000
	m, err := uarttest.Start(o)
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return m, Where{Port: m.Path, Baud: o.Baud}
}

func TestList(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ttyUSB0"), nil, 0o600))
	require.NoError(t, os.Symlink("ttyUSB0", filepath.Join(dir, "by-id-adapter")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ttyUSB1"), nil, 0o600))
	l := list([]string{filepath.Join(dir, "by-id-*"), filepath.Join(dir, "ttyUSB*")})
	assert.Equal(t, []string{filepath.Join(dir, "by-id-adapter"), filepath.Join(dir, "ttyUSB1")}, l.Ports, "each once, by its best name")
	var b strings.Builder
	require.NoError(t, list(nil).WriteText(&b))
	assert.Contains(t, b.String(), "serial ports: none\nbitstreams of: LFE5U-12F, ")
}

func TestInfo(t *testing.T) {
	_, w := start(t, uarttest.Options{})
	_, err := Ask(t.Context(), w)
	// The model has no version register: what is asked of an engine that lacks it is an error, not zero.
	assert.ErrorContains(t, err, "read register at 0x4: no register there")
	info := &Info{
		Port: "p", Baud: 1, Board: "virtual", FPGA: "LFE5U-25F", ClockHz: 125e6, FlashID: "ef 40 16", FlashBytes: 4 << 20,
		UserBase: 1 << 20, EngineID: device.IDValue, Major: 1, Minor: 2, SpecHash: 0x1234,
	}
	var b strings.Builder
	require.NoError(t, info.WriteText(&b))
	assert.Equal(t, `port    p at 1 baud
board   virtual
FPGA    LFE5U-25F, clock 125 MHz
flash   id ef 40 16, 4096 KiB: golden image below 0x100000, user image from there
reload  by power-cycling: PROGRAMN is not wired to the FPGA
engine  register map 1.2, spec 0x00001234
`, b.String())
}

func TestRegisters(t *testing.T) {
	m, w := start(t, uarttest.Options{})
	values, err := Registers(t.Context(), w, []string{"scratch=0x12", "SCRATCH", "TABLE_DATA[3]=7", "0x10c", "ID"})
	require.NoError(t, err)
	assert.Equal(t, Values{{"SCRATCH", 0xc, 0x12}, {"0x10c", 0x10c, 7}, {"ID", 0, device.IDValue}}, values)
	assert.Len(t, m.Writes(), 2)
	for arg, want := range map[string]string{
		"NONE":                `got "NONE", want an address or a name`,
		"ID=1":                "register ID cannot be written",
		"CTRL":                "register CTRL cannot be read, want CTRL=VALUE",
		"SCRATCH=x":           `got the value "x", want 0..0xffffffff`,
		"SCRATCH=1":           "", // but the one after it is wrong, and so nothing is written
		"0x2":                 "want a multiple of 4",
		"TABLE_DATA":          "want TABLE_DATA[0] to TABLE_DATA[23]",
		"TABLE_DATA[24]":      `got the index "24", want 0..23`,
		"SCRATCH[1]":          `got the index "1", want 0..0`,
		"SCRATCH=0x1ffffffff": "want 0..0xffffffff",
	} {
		_, err := Registers(t.Context(), w, []string{arg, "NONE"})
		assert.ErrorContains(t, err, want, arg)
	}
	assert.Len(t, m.Writes(), 2)
}

func TestLoad(t *testing.T) {
	file := bittest.Make(t, 25, true)
	m, w := start(t, uarttest.Options{})
	var progress bytes.Buffer
	l, err := Load(t.Context(), LoadOptions{Where: w, File: file, Progress: &progress})
	require.NoError(t, err)
	assert.Equal(t, l.Bytes, l.Written)
	assert.Contains(t, l.Note, "--reload makes it load this image")
	for _, step := range []string{"compare", "erase", "write", "verify"} {
		assert.Contains(t, progress.String(), step)
	}
	assert.Zero(t, m.Reloads())
	l, err = Load(t.Context(), LoadOptions{Where: w, File: file, Reload: true})
	require.NoError(t, err)
	assert.Equal(t, l.Bytes, l.Kept)
	assert.True(t, l.Reloaded)
	assert.Equal(t, 1, m.Reloads())
	assert.Contains(t, l.Note, "the FPGA has loaded it")

	m, w = start(t, uarttest.Options{Hello: frame.Hello{
		DeviceID: 0x41111043, ClockHz: 125e6, UserBase: 1 << 20, WindowBytes: 4096, WindowFrames: 16,
	}})
	l, err = Load(t.Context(), LoadOptions{Where: w, File: file, Reload: true})
	require.NoError(t, err)
	assert.False(t, l.Reloaded)
	assert.Contains(t, l.Note, "power-cycle it")
	assert.Zero(t, m.Reloads())
}

// The tool is a program of the test that writes down what it is asked.
func TestByJTAG(t *testing.T) {
	file := bittest.Make(t, 25, true)
	dir := t.TempDir()
	tool := func(script string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "openFPGALoader"), []byte("#!/bin/sh\n"+script), 0o755))
	}
	t.Setenv("PATH", dir)
	o := LoadOptions{File: file, Via: "openfpgaloader", JTAGBoard: "ecpix5"}
	_, err := Load(t.Context(), o)
	assert.ErrorContains(t, err, "openFPGALoader is not on PATH: scripts/setup board installs it")

	tool(`printf '%s\n' "$@" > "` + dir + `/args"`)
	l, err := Load(t.Context(), o)
	require.NoError(t, err)
	args, err := os.ReadFile(filepath.Join(dir, "args"))
	require.NoError(t, err)
	assert.Equal(t, "--board\necpix5\n--write-flash\n--verify\n"+file+"\n", string(args))
	assert.Contains(t, l.Note, "as the golden image")
	o.JTAGCable = "ft232"
	_, err = Load(t.Context(), o)
	require.NoError(t, err)
	args, err = os.ReadFile(filepath.Join(dir, "args"))
	require.NoError(t, err)
	assert.Contains(t, string(args), "--board\necpix5\n--cable\nft232\n")

	tool("echo one; echo 'unable to open ftdi device' >&2; exit 3")
	_, err = Load(t.Context(), o)
	assert.ErrorIs(t, err, ErrTool)
	assert.ErrorContains(t, err, "exit status 3: unable to open ftdi device")

	tool("exec /bin/sleep 60")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err = Load(ctx, o)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Less(t, time.Since(begin), 3*time.Second)

	// A bad file does not get as far as the tool.
	require.NoError(t, os.Remove(filepath.Join(dir, "args")))
	bad := filepath.Join(dir, "bad.bit")
	require.NoError(t, os.WriteFile(bad, []byte("nothing"), 0o600))
	o.File = bad
	_, err = Load(t.Context(), o)
	assert.ErrorContains(t, err, "not a Lattice .bit file")
	assert.NoFileExists(t, filepath.Join(dir, "args"))
}

func TestLoadRefuses(t *testing.T) {
	good := bittest.Make(t, 25, true)
	for _, tt := range []struct {
		o    LoadOptions
		want string
	}{
		{LoadOptions{File: "none.bit"}, "none.bit: no such file"},
		{LoadOptions{File: good, Via: "telepathy"}, `via: got "telepathy", want one of uart, openfpgaloader`},
		{LoadOptions{File: good, JTAGBoard: "x"}, "jtag-board and jtag-cable are for --via openfpgaloader"},
		{LoadOptions{File: good, Via: "openfpgaloader"}, "jtag-board: got none"},
		{LoadOptions{File: good, Where: Where{Port: "/dev/none"}}, "there is none of this name"},
	} {
		_, err := Load(t.Context(), tt.o)
		assert.ErrorContains(t, err, tt.want)
	}
}
