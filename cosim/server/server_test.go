package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/cosim/link"
	"github.com/epic-inc/epic/cosim/server"
	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/golden/spec"
)

var _ device.Registers = (*server.Engine)(nil)

const (
	root       = "../.."
	helperEnv  = "EPIC_SERVER_TEST_HELPER"
	endWithin  = 5 * time.Second
	waitForSim = 30 * time.Second
)

// TestMain is also the program that TestServerKilled kills.
func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		helper()
		return
	}
	os.Exit(m.Run())
}

// helper starts a simulator, says its PID and leaves it clocks for hours.
func helper() {
	ctx := context.Background()
	e, err := server.Start(ctx, server.Options{Binary: os.Getenv(helperEnv), Seed: 1,
		TraceFile: os.Getenv(helperEnv + "_TRACE"), TraceTo: 1 << 60})
	if err == nil {
		err = e.Grant(1 << 60)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(e.PID())
	_, err = e.Window(ctx)
	fmt.Println(err)
}

// loopback builds the simulator with the loopback in the engine's place: what comes in at an even port
// leaves on m_axis_tx, at an odd one on m_axis_bypass.
func loopback(t *testing.T, width int) string {
	t.Helper()
	build := exec.Command(filepath.Join(root, "scripts/build-sim"), "--dut", "loop", strconv.Itoa(width))
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return filepath.Join(root, "build/sim-loop", fmt.Sprintf("w%d", width), "inc_sim")
}

func start(t *testing.T, opts server.Options) *server.Engine {
	t.Helper()
	e, err := server.Start(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Close()) })
	return e
}

type frame struct {
	at    uint64
	port  int
	error bool
	bytes []byte
}

// traffic makes frames of every length around a beat and many others, at random times.
func traffic(seed uint64, n int) []frame {
	r := rand.New(rand.NewPCG(seed, 0))
	var at uint64 = 100
	frames := make([]frame, n)
	for i := range frames {
		size := 1 + i
		if i > 140 {
			size = 1 + r.IntN(4200)
		}
		b := make([]byte, size)
		for j := range b {
			b[j] = byte(r.Uint32())
		}
		frames[i] = frame{at: at, port: r.IntN(64), error: r.IntN(4) == 0, bytes: b}
		at += uint64(r.IntN(60))
	}
	return frames
}

// play drives frames quantum by quantum, one quantum granted ahead, and returns everything that came.
func play(t *testing.T, e *server.Engine, frames []frame, quantum uint64) server.Window {
	t.Helper()
	var all server.Window
	collect := func() {
		w, err := e.Window(t.Context())
		require.NoError(t, err)
		all.Accepted = append(all.Accepted, w.Accepted...)
		all.Records = append(all.Records, w.Records...)
		all.Frames = append(all.Frames, w.Frames...)
		all.Clock, all.RxBusy, all.TxBusy = w.Clock, w.RxBusy, w.TxBusy
	}
	next := 0
	for until := e.Granted() + quantum; len(all.Frames) < len(frames); until += quantum {
		for ; next < len(frames) && frames[next].at < until; next++ {
			f := frames[next]
			n, err := e.Drive(f.at, f.port, f.bytes, f.error)
			require.NoError(t, err)
			require.EqualValues(t, next, n)
		}
		require.NoError(t, e.Grant(until))
		if e.Outstanding() > 1 {
			collect()
		}
		require.Less(t, until, uint64(10_000_000), "%d of %d frames came back", len(all.Frames), len(frames))
	}
	return all
}

func TestLoopback(t *testing.T) {
	for _, width := range []int{64, 512, 4096} {
		if testing.Short() && width != 64 {
			continue
		}
		binary := loopback(t, width)
		for name, opts := range map[string]server.Options{
			"free":          {},
			"gap":           {Pacing: link.PacingGap},
			"burst":         {Pacing: link.PacingBurst},
			"idle and busy": {IdlePPM: 300_000, BackpressurePPM: 500_000, BypassBackpressurePPM: 900_000},
		} {
			t.Run(fmt.Sprintf("w%d/%s", width, name), func(t *testing.T) {
				opts.Binary, opts.Seed = binary, 7
				e := start(t, opts)
				assert.Equal(t, server.Params{DataW: width, Ports: 32, Endpoints: 64, Pipes: 16, PoolKB: 1024}, e.Params())
				in := traffic(11, 400)
				got := play(t, e, in, 700)
				checkLoopback(t, in, got, width/8)
			})
		}
	}
}

func checkLoopback(t *testing.T, in []frame, got server.Window, beat int) {
	t.Helper()
	require.Len(t, got.Accepted, len(in))
	require.Len(t, got.Frames, len(in))
	var beats uint64
	for i, a := range got.Accepted {
		require.EqualValues(t, i, a.Frame)
		require.Greater(t, a.First, in[i].at, "frame %d came before its time", i)
		n := uint64((len(in[i].bytes) + beat - 1) / beat)
		beats += n
		require.GreaterOrEqual(t, a.Last-a.First, n-1, "frame %d", i)
		require.LessOrEqual(t, a.First, a.Header)
		require.LessOrEqual(t, a.Header, a.Last)
		if i > 0 {
			require.Greater(t, a.First, got.Accepted[i-1].Last, "frame %d", i)
		}
	}
	assert.Equal(t, beats, got.RxBusy)

	// One stream in, two out: each output stream in the order of the input.
	order := [2][]int{}
	for i, f := range in {
		order[f.port&1] = append(order[f.port&1], i)
	}
	for _, f := range got.Frames {
		require.NotEmpty(t, order[f.Stream])
		i := order[f.Stream][0]
		order[f.Stream] = order[f.Stream][1:]
		require.Equal(t, in[i].bytes, f.Bytes, "frame %d", i)
		require.EqualValues(t, in[i].port, f.Port)
		require.Equal(t, in[i].error && f.Stream == link.StreamTx, f.Error == 1, "frame %d", i)
		require.Greater(t, f.Last, got.Accepted[i].Last, "frame %d", i)
	}

	var rx, tx uint32
	var clock uint64
	for _, r := range got.Records {
		require.GreaterOrEqual(t, r.Clock, clock)
		if r.Cause == spec.CauseSend {
			// Of records of one clock, the tx side's is first.
			require.False(t, rx > 0 && got.Accepted[rx-1].Last == r.Clock, "rx before tx at clock %d", r.Clock)
			require.Equal(t, spec.Record{Clock: r.Clock, Cause: spec.CauseSend, Frame: tx, Degree: 0x76543210}, r)
			tx++
		} else {
			require.Equal(t, spec.Record{Clock: got.Accepted[rx].Last, Frame: rx, PSN: rx}, r)
			rx++
		}
		clock = r.Clock
	}
	require.EqualValues(t, len(in), rx)
	require.EqualValues(t, len(in), tx)
}

// A reset in the middle of frames: what was on its way is gone, whole and in part, frames count from 0 again,
// registers are as after power-up, and traffic of after is not touched by any of it.
func TestReset(t *testing.T) {
	e := start(t, server.Options{Binary: loopback(t, 64), Seed: 7, Pacing: link.PacingBurst, BackpressurePPM: 700_000})
	seen := 0
	for round := range 5 {
		for i, f := range traffic(uint64(20+round), 50) {
			n, err := e.Drive(e.Granted(), f.port, f.bytes, f.error)
			require.NoError(t, err)
			require.EqualValues(t, i, n)
		}
		require.NoError(t, e.Grant(e.Granted()+uint64(300+77*round)))
		require.ErrorContains(t, e.Reset(t.Context(), 3), "got 1 grants without a window, want none")
		w, err := e.Window(t.Context())
		require.NoError(t, err)
		seen += len(w.Frames)
		require.Less(t, len(w.Frames), 50, "all is through before the reset")
		require.NoError(t, e.Write32(t.Context(), device.RegScratch, 0x5eed))
		_, err = e.Window(t.Context())
		require.NoError(t, err)
		require.ErrorContains(t, e.Reset(t.Context(), 0), "got 0 clocks")
		before := e.Granted()
		require.NoError(t, e.Reset(t.Context(), uint32(1+round)))
		require.Equal(t, before+uint64(1+round), e.Granted())
		w, err = e.Window(t.Context())
		require.NoError(t, err)
		require.Empty(t, w.Frames)
	}
	require.Positive(t, seen)
	in := traffic(11, 100)
	base := e.Granted()
	for i := range in {
		in[i].at += base
	}
	got := play(t, e, in, 700)
	require.Len(t, got.Frames, len(in))
	got.RxBusy = beatsOf(in, 8) // it counts from the start
	checkLoopback(t, in, got, 8)
}

func beatsOf(in []frame, beat int) (n uint64) {
	for _, f := range in {
		n += uint64((len(f.bytes) + beat - 1) / beat)
	}
	return n
}

// The same calls give the same run, to the clock; another seed gives another.
func TestDeterminism(t *testing.T) {
	binary := loopback(t, 64)
	run := func(seed uint64) server.Window {
		e := start(t, server.Options{Binary: binary, Seed: seed, IdlePPM: 200_000, BackpressurePPM: 300_000})
		return play(t, e, traffic(3, 200), 500)
	}
	first := run(42)
	assert.Equal(t, first, run(42))
	assert.NotEqual(t, first.Accepted, run(43).Accepted)
}

// What is granted ahead, and how finely, does not show in what the engine does.
func TestQuantumDoesNotShow(t *testing.T) {
	binary := loopback(t, 64)
	run := func(quantum uint64) server.Window {
		e := start(t, server.Options{Binary: binary, Seed: 42, BackpressurePPM: 300_000})
		return play(t, e, traffic(3, 200), quantum)
	}
	a, b := run(100), run(977)
	assert.Equal(t, a.Accepted, b.Accepted)
	assert.Equal(t, a.Frames, b.Frames[:len(a.Frames)])
}

func TestRegisters(t *testing.T) {
	e := start(t, server.Options{Binary: loopback(t, 64), Seed: 1})
	ctx := t.Context()
	n, err := e.Drive(0, 2, []byte("a frame meanwhile"), false)
	require.NoError(t, err)
	assert.Zero(t, n)
	for i := range uint32(15) {
		require.NoError(t, e.Write32(ctx, 4*i, 0x1234_0000+i))
	}
	for i := range uint32(15) {
		v, err := e.Read32(ctx, 4*i)
		require.NoError(t, err)
		assert.Equal(t, 0x1234_0000+i, v)
	}
	_, err = e.Read32(ctx, 0x40)
	assert.ErrorContains(t, err, "register 0x0040: AXI4-Lite response 3")
	assert.ErrorContains(t, e.Write32(ctx, 0x40, 0), "response 3")

	// What came meanwhile is not lost.
	w, err := e.Window(ctx)
	require.NoError(t, err)
	require.Len(t, w.Frames, 1)
	assert.Equal(t, "a frame meanwhile", string(w.Frames[0].Bytes))
	assert.Len(t, w.Records, 2)
}

func TestTwoAtOnce(t *testing.T) {
	binary := loopback(t, 64)
	opts := server.Options{Binary: binary, Seed: 5, BackpressurePPM: 100_000}
	alone := play(t, start(t, opts), traffic(9, 150), 300)
	var wait sync.WaitGroup
	var got [2]server.Window
	engines := [2]*server.Engine{start(t, opts), start(t, opts)}
	for i := range got {
		wait.Go(func() { got[i] = play(t, engines[i], traffic(9, 150), 300) })
	}
	wait.Wait()
	assert.Equal(t, alone, got[0])
	assert.Equal(t, alone, got[1])
}

// Sockets and folders of runs that were killed do not stop a start.
func TestLeftoverSockets(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for i := range 3 {
		left := filepath.Join(dir, fmt.Sprintf("epic-cosim-%d", i))
		require.NoError(t, os.Mkdir(left, 0o700))
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(left, "link"), Net: "unix"})
		require.NoError(t, err)
		l.SetUnlinkOnClose(false)
		require.NoError(t, l.Close())
	}
	e, err := server.Start(t.Context(), server.Options{Binary: loopback(t, 64), Seed: 1})
	require.NoError(t, err)
	require.NoError(t, e.Close())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 3, "a run removes its own and nothing else")
}

// A temporary folder with a path too long for a socket is not used.
func TestLongTempDir(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 120))
	require.NoError(t, os.Mkdir(long, 0o700))
	t.Setenv("TMPDIR", long)
	start(t, server.Options{Binary: loopback(t, 64), Seed: 1})
}

func TestSimulatorKilled(t *testing.T) {
	binary := loopback(t, 64)
	for _, tc := range []struct {
		signal syscall.Signal
		want   string
	}{
		{syscall.SIGKILL, "signal: killed"},
		{syscall.SIGTERM, "stopped by signal 15"},
	} {
		for _, busy := range []bool{true, false} {
			t.Run(fmt.Sprintf("%v/busy=%v", tc.signal, busy), func(t *testing.T) {
				trace := filepath.Join(t.TempDir(), "wave.fst")
				e := start(t, server.Options{Binary: binary, Seed: 1, TraceFile: trace, TraceTo: 1 << 60})
				if busy {
					require.NoError(t, e.Grant(1<<60))
				} else {
					require.NoError(t, e.Grant(1000))
					_, err := e.Window(t.Context())
					require.NoError(t, err)
				}
				time.Sleep(100 * time.Millisecond)
				before := time.Now()
				require.NoError(t, syscall.Kill(e.PID(), tc.signal))
				if !busy { // the next call finds out
					time.Sleep(300 * time.Millisecond)
					_ = e.Grant(2000)
				}
				_, err := e.Window(t.Context())
				assert.Less(t, time.Since(before), endWithin)
				require.ErrorIs(t, err, server.ErrLost)
				assert.ErrorContains(t, err, tc.want)
				if tc.signal == syscall.SIGTERM {
					checkTrace(t, trace)
				}
				_, again := e.Drive(0, 0, []byte{1}, false)
				assert.ErrorIs(t, again, server.ErrLost)
			})
		}
	}
}

// checkTrace wants a finished FST: one whose header block says when it ends.
func checkTrace(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Greater(t, len(b), 330)
	assert.Zero(t, b[0], "block type of an FST header")
	assert.Equal(t, []byte{0, 0, 0, 0, 0, 0, 1, 73}, b[1:9], "length of an FST header")
	assert.NotEqual(t, make([]byte, 8), b[17:25], "the header's end time is written when the file is closed")
	hierarchy, err := filepath.Glob(path + ".hier")
	require.NoError(t, err)
	assert.Empty(t, hierarchy, "the hierarchy is inside the file")
}

func TestServerKilled(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	trace := filepath.Join(t.TempDir(), "wave.fst")
	cmd := exec.Command(self)
	binary, err := filepath.Abs(loopback(t, 64))
	require.NoError(t, err)
	temp := t.TempDir()
	cmd.Env = append(os.Environ(), helperEnv+"="+binary, helperEnv+"_TRACE="+trace, "TMPDIR="+temp)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line := make([]byte, 64)
	n, err := out.Read(line)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(line[:n])))
	require.NoError(t, err, "%s", line[:n])
	require.NoError(t, syscall.Kill(pid, 0), "the simulator runs")

	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Eventually(t, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid) },
		endWithin, 20*time.Millisecond, "the simulator outlived its server")
	checkTrace(t, trace)
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	assert.Empty(t, left, "the socket is gone once the simulator has connected")
}

// zombie says whether the process has ended and only waits to be reaped.
func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && bytes.Contains(b, []byte(") Z "))
}

// simulator runs inc_sim by hand against a listener of the test, which answers with answer.
func simulator(t *testing.T, answer func(*link.Conn, net.Conn)) (code int, output string, took time.Duration) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer l.Close()
	cmd := exec.Command(loopback(t, 64), "--socket", path)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	sock, err := l.Accept()
	require.NoError(t, err)
	c := link.NewConn(sock)
	m, err := c.Read()
	require.NoError(t, err)
	require.IsType(t, &spec.Hello{}, m)
	answer(c, sock)
	before := time.Now()
	watchdog := time.AfterFunc(waitForSim, func() { _ = cmd.Process.Kill() })
	err = cmd.Wait()
	watchdog.Stop()
	sock.Close()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), time.Since(before)
}

func welcome() *spec.Welcome {
	return &spec.Welcome{Magic: spec.LinkMagic, Version: spec.LinkVersion, SpecHash: spec.SpecHash, Probe: 1}
}

// The simulator's end of every way in which a server may go wrong.
func TestSimulatorExits(t *testing.T) {
	send := func(t *testing.T, c *link.Conn, ms ...spec.Message) {
		for _, m := range ms {
			require.NoError(t, c.Write(m))
		}
		require.NoError(t, c.Flush())
	}
	stranger := welcome()
	stranger.SpecHash++
	for name, tc := range map[string]struct {
		answer func(*link.Conn, net.Conn)
		code   int
		want   string
	}{
		"no welcome": {func(_ *link.Conn, s net.Conn) { s.Close() }, 3, "no welcome"},
		"other spec": {func(c *link.Conn, _ net.Conn) { send(t, c, stranger) }, 3, "rebuild both sides"},
		"idle, closed": {func(c *link.Conn, s net.Conn) {
			send(t, c, welcome(), &spec.Grant{Until: 10})
			time.Sleep(50 * time.Millisecond)
			s.Close()
		}, 3, "clock 10: the server is gone"},
		"busy, closed": {func(c *link.Conn, s net.Conn) {
			send(t, c, welcome(), &spec.Grant{Until: 1 << 60})
			time.Sleep(50 * time.Millisecond)
			s.Close()
		}, 3, "the server is gone"},
		"frame before welcome": {func(c *link.Conn, _ net.Conn) { send(t, c, &spec.FrameIn{Bytes: []byte{1}}) }, 3, "before the welcome"},
		"grant backwards": {func(c *link.Conn, _ net.Conn) {
			send(t, c, welcome(), &spec.Grant{Until: 10}, &spec.Grant{Until: 9})
		}, 3, "grant until clock 9"},
		"not the server's": {func(c *link.Conn, _ net.Conn) {
			send(t, c, welcome(), &spec.Reached{})
		}, 3, "not one that the server sends"},
		"garbage": {func(_ *link.Conn, s net.Conn) { _, _ = s.Write([]byte("HTTP/1.0 200 OK\r\n\r\n")) }, 3, "message of"},
		"finish":  {func(c *link.Conn, _ net.Conn) { send(t, c, welcome(), &spec.Finish{Code: 5}) }, 5, ""},
		"assertion": {func(c *link.Conn, _ net.Conn) {
			send(t, c, welcome(), &spec.RegReq{ID: 1, Write: 1, Addr: 60, Data: 0xdead0001}, &spec.Grant{Until: 200})
		}, 1, "loopback: told to fail"},
	} {
		t.Run(name, func(t *testing.T) {
			code, output, took := simulator(t, tc.answer)
			assert.Equal(t, tc.code, code, "%s", output)
			assert.Contains(t, output, tc.want)
			assert.Less(t, took, endWithin)
		})
	}
}

func TestAssertionIsAFault(t *testing.T) {
	e := start(t, server.Options{Binary: loopback(t, 64), Seed: 1})
	err := e.Write32(t.Context(), 60, 0xdead0001)
	require.ErrorIs(t, err, server.ErrFault)
	assert.ErrorContains(t, err, "loopback: told to fail", "what the simulator printed is part of the error")
	assert.NotErrorIs(t, err, server.ErrLost)
}

func TestNoListener(t *testing.T) {
	before := time.Now()
	out, err := exec.Command(loopback(t, 64), "--socket", filepath.Join(t.TempDir(), "none")).CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 3, exit.ExitCode())
	assert.Contains(t, string(out), "connect to")
	assert.Less(t, time.Since(before), 2*endWithin)
}

func TestStall(t *testing.T) {
	e := start(t, server.Options{Binary: loopback(t, 64), Seed: 1, Stall: 300 * time.Millisecond})
	require.NoError(t, syscall.Kill(e.PID(), syscall.SIGSTOP))
	require.NoError(t, e.Grant(1000))
	go func() { // SIGTERM alone does not reach a stopped process
		time.Sleep(500 * time.Millisecond)
		_ = syscall.Kill(e.PID(), syscall.SIGCONT)
	}()
	_, err := e.Window(t.Context())
	require.ErrorIs(t, err, server.ErrLost)
	assert.ErrorContains(t, err, "nothing heard")
}

// A simulator that has stopped, with more to write than the socket holds, neither hangs the writer for
// ever nor outlives it.
func TestStopped(t *testing.T) {
	flood := func(e *server.Engine) (err error) {
		for i := 0; err == nil && i < 10_000; i++ {
			_, err = e.Drive(0, 0, make([]byte, 4096), false)
		}
		return err
	}
	gone := func(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

	t.Run("stall", func(t *testing.T) {
		e := start(t, server.Options{Binary: loopback(t, 64), Seed: 1, Stall: 300 * time.Millisecond})
		require.NoError(t, syscall.Kill(e.PID(), syscall.SIGSTOP))
		before := time.Now()
		err := flood(e)
		require.ErrorIs(t, err, server.ErrLost)
		assert.ErrorContains(t, err, "took nothing for 300ms")
		assert.Less(t, time.Since(before), endWithin)
		assert.True(t, gone(e.PID()))
	})
	t.Run("cancel", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		e, err := server.Start(ctx, server.Options{Binary: loopback(t, 64), Seed: 1})
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(e.PID(), syscall.SIGSTOP))
		time.AfterFunc(200*time.Millisecond, cancel)
		before := time.Now()
		require.ErrorIs(t, flood(e), context.Canceled)
		require.ErrorIs(t, e.Grant(1000), context.Canceled, "every call after it")
		assert.NoError(t, e.Close())
		assert.Less(t, time.Since(before), endWithin)
		assert.True(t, gone(e.PID()))
	})
	t.Run("close", func(t *testing.T) { // nothing waits to be written
		e, err := server.Start(t.Context(), server.Options{Binary: loopback(t, 64), Seed: 1})
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(e.PID(), syscall.SIGSTOP))
		before := time.Now()
		require.ErrorIs(t, e.Close(), server.ErrLost)
		assert.Less(t, time.Since(before), endWithin)
		assert.True(t, gone(e.PID()))
	})
}

func TestCancel(t *testing.T) {
	e := start(t, server.Options{Binary: loopback(t, 64), Seed: 1})
	require.NoError(t, e.Grant(1<<30))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := e.Window(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	before := time.Now()
	_ = e.Close() // has clocks for minutes: ends by SIGTERM
	assert.Less(t, time.Since(before), endWithin)
}

func TestNoBinary(t *testing.T) {
	_, err := server.Start(t.Context(), server.Options{Binary: filepath.Join(t.TempDir(), "inc_sim")})
	assert.ErrorContains(t, err, "make sim")
	_, err = server.Start(t.Context(), server.Options{Binary: "/bin/false"})
	assert.ErrorIs(t, err, server.ErrLost)
}

// A recorded run, played by the simulator alone, takes the same clocks.
func TestReplayOfRecording(t *testing.T) {
	binary := loopback(t, 64)
	var record bytes.Buffer
	e, err := server.Start(t.Context(), server.Options{Binary: binary, Seed: 5, Record: &record})
	require.NoError(t, err)
	got := play(t, e, traffic(1, 100), 500)
	clocks := e.Granted()
	require.NoError(t, e.Close())

	file := filepath.Join(t.TempDir(), "run.link")
	require.NoError(t, os.WriteFile(file, record.Bytes(), 0o600))
	out, err := exec.Command(binary, "--replay", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), fmt.Sprintf(`"clocks":%d,`, clocks))
	assert.Contains(t, string(out), fmt.Sprintf(`"rx_busy":%d}`, got.RxBusy))
}
