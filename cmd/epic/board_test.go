package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/bitstream/bittest"
	"github.com/epic-inc/epic/driver/device/uart/uarttest"
)

// The commands against the virtual board, as a person types them.
func TestBoardVirtual(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a Verilator model: -short")
	}
	virtual := epicCommand(t, "board", "virtual", "--root", "../..")
	out, err := virtual.StdoutPipe()
	require.NoError(t, err)
	var complaints strings.Builder
	virtual.Stderr = &complaints
	require.NoError(t, virtual.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan(), "%s", &complaints)
	port, ok := strings.CutPrefix(lines.Text(), "virtual board at ")
	require.True(t, ok, lines.Text())
	port, _, _ = strings.Cut(port, ",")
	run := func(args ...string) string {
		said, err := epicCommand(t, append(append([]string{"board"}, args...), "--port", port)...).CombinedOutput()
		require.NoError(t, err, "%s", said)
		return string(said)
	}
	info := run("info")
	assert.Contains(t, info, "FPGA    LFE5U-25F, clock 8.333333 MHz")
	assert.Contains(t, info, "engine  register map 1.")
	assert.Equal(t, "SCRATCH  0x00c  0x00001234\n", run("reg", "SCRATCH=0x1234", "SCRATCH"))
	assert.Contains(t, run("reg"), "SPEC_HASH")
	refused := epicCommand(t, "board", "reg", "0x8000", "--port", port)
	said, err := refused.CombinedOutput()
	require.Error(t, err)
	assert.Equal(t, 2, refused.ProcessState.ExitCode())
	assert.Contains(t, string(said), "no register there")

	require.NoError(t, virtual.Process.Signal(os.Interrupt))
	var report []string
	for lines.Scan() {
		report = append(report, lines.Text())
	}
	virtual.Wait()
	assert.Equal(t, 130, virtual.ProcessState.ExitCode(), "%s", &complaints)
	require.NotEmpty(t, report)
	assert.Regexp(t, `^board time [0-9.]+ s, wall time [0-9.]+ s, \d+ responses`, report[0])
}

// Ctrl-C ends a load at once, with one line, and the golden image is as it was.
func TestBoardLoadInterrupted(t *testing.T) {
	file := bittest.Make(t, 25, true)
	flash := uarttest.NewFlash(22)
	golden := []byte("golden image")
	flash.Set(0, golden)
	m, err := uarttest.Start(uarttest.Options{Baud: 115200, Flash: flash})
	require.NoError(t, err)
	defer m.Close()
	load := epicCommand(t, "board", "load", file, "--port", m.Path, "--baud", "115200")
	var said strings.Builder
	load.Stderr = &said
	require.NoError(t, load.Start())
	require.Eventually(t, func() bool { _, written := flash.Touched(); return len(written) > 10 }, 20*time.Second, 10*time.Millisecond)
	begin := time.Now()
	require.NoError(t, load.Process.Signal(os.Interrupt))
	var ended *exec.ExitError
	require.ErrorAs(t, load.Wait(), &ended)
	assert.Equal(t, 130, ended.ExitCode())
	assert.Equal(t, "epic: interrupted\n", said.String())
	assert.Less(t, time.Since(begin), 2*time.Second)
	assert.Equal(t, golden, flash.Get(0, len(golden)))
	assert.NotContains(t, string(flash.Get(1<<20, 4096)), "\xff\xff\xbd\xb3", "no half image that an FPGA would begin to load")
}

// A board that does not answer is lost (3), a file for another FPGA bad input (2).
func TestBoardExitStatus(t *testing.T) {
	status := func(args ...string) (int, string) {
		c := epicCommand(t, args...)
		said, err := c.CombinedOutput()
		require.Error(t, err)
		return c.ProcessState.ExitCode(), string(said)
	}
	deaf, err := uarttest.Start(uarttest.Options{Deaf: true})
	require.NoError(t, err)
	defer deaf.Close()
	got, said := status("board", "info", "--port", deaf.Path)
	assert.Equal(t, 3, got)
	assert.Equal(t, 1, strings.Count(said, "\n"), said)

	m, err := uarttest.Start(uarttest.Options{})
	require.NoError(t, err)
	defer m.Close()
	got, said = status("board", "load", bittest.Make(t, 85, true), "--port", m.Path)
	assert.Equal(t, 2, got)
	assert.Contains(t, said, "the bitstream is for LFE5U-85F, and the board has LFE5U-25F")
	erased, _ := m.Flash.Touched()
	assert.Empty(t, erased)

	data, err := os.ReadFile(bittest.Make(t, 25, true))
	require.NoError(t, err)
	cut := filepath.Join(t.TempDir(), "cut.bit")
	require.NoError(t, os.WriteFile(cut, data[:len(data)/2], 0o600))
	got, said = status("board", "load", cut, "--port", m.Path)
	assert.Equal(t, 2, got)
	assert.Contains(t, said, "it is truncated")
}
