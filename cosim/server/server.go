// Package server runs one Verilated engine (build/sim/w<DATA_W>/inc_sim): it starts the process,
// shakes hands over a Unix socket, hands it frames and grants it clocks, and gathers what it did.
//
// Time is counted in clocks of the engine. Clocks are granted in quanta, and the simulator takes
// messages only between two quanta, so a run depends on what was sent before each grant and on nothing
// else: the same calls give the same run, to the clock. Several quanta may be granted ahead; the
// simulator then runs them while the caller works.
//
// When the simulator dies, or says nothing for too long while it has clocks to run, every call returns
// an error that wraps ErrLost. When this process dies, the simulator's socket closes and it ends by itself.
package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/epic-inc/epic/cosim/link"
	"github.com/epic-inc/epic/golden/spec"
)

// ErrLost means that the simulator is gone or stuck: exit status 3.
var ErrLost = errors.New("the simulator is lost")

// ErrFault means that an assertion of the simulation failed: a difference, exit status 1.
var ErrFault = errors.New("the simulation failed")

const (
	startTimeout = 30 * time.Second // from start of the process to its hello
	stallTimeout = 60 * time.Second // default of Options.Stall
	finishWait   = 2 * time.Second  // for each of: finish, SIGTERM
	exitWait     = 4 * time.Second  // from the end of the socket to the end of the process
	regQuantum   = 32               // clocks granted at a time while a register access is under way
	tailBytes    = 4 << 10          // kept of the simulator's output, for messages
	sunPathMax   = 107              // longest path of a Unix socket
)

// BinaryFolder is the folder, below the project's, in which scripts/build-sim puts the simulators.
const BinaryFolder = "build/sim"

// BinaryPath is the simulator of a width in such a folder.
func BinaryPath(folder string, dataW int) string {
	return filepath.Join(folder, "w"+strconv.Itoa(dataW), "inc_sim")
}

// Options of one run of the simulator.
type Options struct {
	Binary string // path of inc_sim
	Seed   uint64 // of everything random in the simulation: initial state, idling, back-pressure

	Pacing                link.Pacing
	IdlePPM               uint32 // chance of an idle clock before each beat in, in millionths
	BackpressurePPM       uint32 // chance of a clock without ready on m_axis_tx, in millionths
	BypassBackpressurePPM uint32 // the same on m_axis_bypass

	// TraceFile is the FST that clocks TraceFrom..TraceTo-1 are written to; empty: no trace.
	TraceFile          string
	TraceFrom, TraceTo uint64

	NoProbe bool          // no retirement records
	Record  io.Writer     // if not nil: gets all that is sent, for `inc_sim --replay`
	Output  io.Writer     // if not nil: gets the simulator's stdout and stderr
	Stall   time.Duration // longest silence while clocks are granted, and longest write; 0: a minute
}

// Params are the parameters that the simulator was built with.
type Params struct {
	DataW, Ports, Endpoints, Pipes, PoolKB int
}

// Window is what happened in one granted quantum.
type Window struct {
	Clock    uint64 // everything before this clock is known
	Accepted []spec.FrameAck
	Records  []spec.Record
	Frames   []spec.FrameOut // in the order of their last beats
	RxBusy   uint64          // beats accepted on s_axis_rx since reset
	TxBusy   uint64          // beats accepted on m_axis_tx since reset
	Busy     uint64          // clocks since reset with a beat accepted on either

	regs []spec.RegRsp
}

func (w *Window) add(next *Window) {
	w.Clock, w.RxBusy, w.TxBusy, w.Busy = next.Clock, next.RxBusy, next.TxBusy, next.Busy
	w.Accepted = append(w.Accepted, next.Accepted...)
	w.Records = append(w.Records, next.Records...)
	w.Frames = append(w.Frames, next.Frames...)
}

// Engine is a running simulator. Its methods may be used by one goroutine.
type Engine struct {
	opts   Options
	params Params
	cmd    *exec.Cmd
	output *tail
	sock   net.Conn
	writer *writer
	conn   *link.Conn
	dir    string

	windows chan *Window  // from the reader; closed when it ends
	failed  error         // why the reader ended; read after windows is closed
	exited  chan struct{} // closed when the process has ended and waitErr is set
	waitErr error

	granted     uint64
	reached     uint64
	outstanding int     // grants whose window has not been taken
	backlog     *Window // taken while registers were accessed
	regID       uint32
	frames      uint32
	lost        error // the first failure; every later call returns it
	terminated  bool  // SIGTERM was sent, and did not help in time
	closed      bool
}

// Start runs the simulator and shakes hands with it. On return it stands at clock 0, in reset. When ctx
// ends, so does a Drive or Grant that waits for a simulator that takes nothing.
func Start(ctx context.Context, opts Options) (*Engine, error) {
	if opts.Stall == 0 {
		opts.Stall = stallTimeout
	}
	binary, err := filepath.Abs(opts.Binary)
	if err != nil {
		return nil, fmt.Errorf("simulator %q: %w", opts.Binary, err)
	}
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("simulator: %w (make sim builds it, at 64 bits with W=64)", err)
	}
	dir, err := socketDir()
	if err != nil {
		return nil, err
	}
	e := &Engine{opts: opts, dir: dir, output: &tail{also: opts.Output},
		windows: make(chan *Window, 64), exited: make(chan struct{})}
	if err := e.start(ctx, binary); err != nil {
		e.kill()
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return e, nil
}

// socketDir makes a folder of this run alone, where a socket's path is short enough.
func socketDir() (string, error) {
	for _, base := range []string{os.TempDir(), "/tmp"} {
		dir, err := os.MkdirTemp(base, "epic-cosim-")
		if err != nil {
			return "", fmt.Errorf("make a folder for the simulator's socket: %w", err)
		}
		if len(filepath.Join(dir, "link")) <= sunPathMax {
			return dir, nil
		}
		_ = os.RemoveAll(dir)
	}
	return "", fmt.Errorf("no folder whose path leaves a Unix socket within %d bytes", sunPathMax)
}

func (e *Engine) start(ctx context.Context, binary string) error {
	path := filepath.Join(e.dir, "link")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("listen for the simulator: %w", err)
	}
	defer listener.Close()

	args := []string{"--socket", path}
	if e.opts.TraceFile != "" {
		args = append(args, "--trace", e.opts.TraceFile)
	}
	e.cmd = exec.Command(binary, args...)
	e.cmd.Stdout, e.cmd.Stderr = e.output, e.output
	// A group of its own: an interrupt at the terminal reaches this process alone, which then ends
	// the simulator in good order.
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := e.cmd.Start(); err != nil {
		e.cmd = nil
		return fmt.Errorf("start the simulator: %w", err)
	}
	go func() {
		e.waitErr = e.cmd.Wait()
		close(e.exited)
	}()

	if e.sock, err = e.accept(ctx, listener); err != nil {
		return err
	}
	// Nobody else may connect, and a process that is killed leaves nothing behind.
	_ = os.RemoveAll(e.dir)
	e.writer = newWriter(ctx, e.sock, e.opts.Stall)
	stream := struct {
		io.Reader
		io.Writer
	}{e.sock, e.writer}
	if e.opts.Record != nil {
		stream.Writer = io.MultiWriter(e.writer, e.opts.Record)
	}
	e.conn = link.NewConn(stream)
	if err := e.shakeHands(ctx); err != nil {
		return err
	}
	go e.read()
	// The simulator says at once that it has reached clock 0.
	e.outstanding = 1
	_, err = e.wait(ctx)
	return err
}

// accept waits for the simulator's connection, or for its end.
func (e *Engine) accept(ctx context.Context, listener *net.UnixListener) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-e.exited:
			_ = listener.Close()
		case <-ended:
		}
	}()
	sock, err := listener.Accept()
	if err == nil {
		return sock, nil
	}
	select {
	case <-e.exited:
		return nil, e.endedError("before it connected")
	default:
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: no connection within %v: %w", ErrLost, startTimeout, context.Cause(ctx))
	}
	return nil, fmt.Errorf("accept the simulator's connection: %w", err)
}

func (e *Engine) shakeHands(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = e.sock.SetReadDeadline(time.Unix(1, 0)) })
	m, err := e.conn.Read()
	if !stop() {
		return fmt.Errorf("%w: no hello: %w", ErrLost, context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("%w: read its hello: %w", ErrLost, err)
	}
	hello, ok := m.(*spec.Hello)
	if !ok {
		return fmt.Errorf("%w: first message is %s, want hello", ErrLost, m.MessageID())
	}
	if err := link.CheckHello(hello); err != nil {
		return err
	}
	e.params = Params{DataW: int(hello.DataW), Ports: int(hello.Ports), Endpoints: int(hello.Endpoints),
		Pipes: int(hello.Pipes), PoolKB: int(hello.PoolKB)}
	probe := uint32(1)
	if e.opts.NoProbe {
		probe = 0
	}
	if err := e.conn.Write(&spec.Welcome{
		Magic: spec.LinkMagic, Version: spec.LinkVersion, SpecHash: spec.SpecHash,
		Seed: e.opts.Seed, Pacing: uint32(e.opts.Pacing), IdlePPM: e.opts.IdlePPM,
		BackpressurePPM: e.opts.BackpressurePPM, BypassBackpressurePPM: e.opts.BypassBackpressurePPM,
		TraceFrom: e.opts.TraceFrom, TraceTo: e.opts.TraceTo, Probe: probe,
	}); err != nil {
		return err
	}
	return e.conn.Flush()
}

// read gathers the simulator's messages into windows until the socket ends.
func (e *Engine) read() {
	defer close(e.windows)
	w := &Window{}
	for {
		m, err := e.conn.Read()
		if err != nil {
			e.failed = err
			return
		}
		switch m := m.(type) {
		case *spec.FrameOut:
			w.Frames = append(w.Frames, *m)
		case *spec.FrameAck:
			w.Accepted = append(w.Accepted, *m)
		case *spec.Retire:
			if w.Records, err = link.Records(w.Records, m); err != nil {
				e.failed = err
				return
			}
		case *spec.RegRsp:
			w.regs = append(w.regs, *m)
		case *spec.Reached:
			w.Clock, w.RxBusy, w.TxBusy, w.Busy = m.Clock, m.RxBusy, m.TxBusy, m.Busy
			e.windows <- w
			w = &Window{}
		case *spec.Fault:
			// What led to it may still be of use to whoever looks at the records.
			w.Clock = 0
			e.windows <- w
			e.failed = fmt.Errorf("%w: %s", ErrFault, m.Bytes)
			return
		default:
			e.failed = fmt.Errorf("message %s, which the simulator has no business sending", m.MessageID())
			return
		}
	}
}

// Params returns the parameters of the build.
func (e *Engine) Params() Params { return e.params }

// Clock returns the clock that the simulator is known to have reached.
func (e *Engine) Clock() uint64 { return e.reached }

// Granted returns the clock up to which the simulator may run.
func (e *Engine) Granted() uint64 { return e.granted }

// Outstanding returns how many grants have not been answered by a window.
func (e *Engine) Outstanding() int { return e.outstanding }

// Drive hands over a frame for s_axis_rx, to be offered after clock `at` and after every frame driven
// before, and returns its number. Its bytes are those on the wire without the FCS; macError sets tuser.
func (e *Engine) Drive(at uint64, port int, frame []byte, macError bool) (uint32, error) {
	if e.lost != nil {
		return 0, e.lost
	}
	m := spec.FrameIn{Time: at, Port: uint32(port), Bytes: frame}
	if macError {
		m.Error = 1
	}
	if err := e.conn.Write(&m); err != nil {
		return 0, e.fail(err)
	}
	e.frames++
	return e.frames - 1, nil
}

// Reset holds the engine in reset for the next `clocks`, at least 1, and lets it run them. What was driven and
// is not accepted is gone, frames are counted from 0 again, and records of before have all been seen: no grant
// may be outstanding.
func (e *Engine) Reset(ctx context.Context, clocks uint32) error {
	switch {
	case e.lost != nil:
		return e.lost
	case e.outstanding > 0 || e.backlog != nil:
		return fmt.Errorf("reset near clock %d: got %d grants without a window, want none", e.reached, e.outstanding)
	case clocks == 0:
		return errors.New("reset: got 0 clocks, want at least 1")
	}
	if err := e.conn.Write(&spec.Reset{Clocks: clocks}); err != nil {
		return e.fail(err)
	}
	e.frames = 0
	if err := e.Grant(e.granted + uint64(clocks)); err != nil {
		return err
	}
	_, err := e.wait(ctx)
	return err
}

// Grant lets the simulator run every clock below `until`.
func (e *Engine) Grant(until uint64) error {
	if e.lost != nil {
		return e.lost
	}
	if until <= e.granted {
		return fmt.Errorf("grant until clock %d, but %d is granted already", until, e.granted)
	}
	if err := e.conn.Write(&spec.Grant{Until: until}); err != nil {
		return e.fail(err)
	}
	if err := e.conn.Flush(); err != nil {
		return e.fail(err)
	}
	e.granted = until
	e.outstanding++
	return nil
}

// Window waits until the oldest grant that no window answered has been run, and returns what happened
// since the window before. On an error what is returned is what is known of the unfinished quantum.
func (e *Engine) Window(ctx context.Context) (*Window, error) {
	var w *Window
	if e.outstanding > 0 {
		next, err := e.wait(ctx)
		if err != nil {
			if next == nil {
				next = &Window{}
			}
			return e.behindBacklog(next), err
		}
		w = next
	} else {
		if e.lost != nil {
			return &Window{}, e.lost
		}
		w = &Window{Clock: e.reached}
	}
	return e.behindBacklog(w), nil
}

func (e *Engine) behindBacklog(w *Window) *Window {
	if e.backlog == nil {
		return w
	}
	b := e.backlog
	e.backlog = nil
	b.add(w)
	return b
}

// wait takes one window from the reader.
func (e *Engine) wait(ctx context.Context) (*Window, error) {
	if e.lost != nil {
		return nil, e.lost
	}
	stall := time.NewTimer(e.opts.Stall)
	defer stall.Stop()
	select {
	case w, ok := <-e.windows:
		if !ok {
			return nil, e.fail(e.failed)
		}
		if w.Clock == 0 && e.granted > 0 { // what was before a fault
			<-e.windows
			return w, e.fail(e.failed)
		}
		e.outstanding--
		e.reached = w.Clock
		return w, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-stall.C:
		e.kill()
		e.lost = fmt.Errorf("%w: nothing heard for %v while clocks %d..%d were granted", ErrLost,
			e.opts.Stall, e.reached, e.granted)
		return nil, e.lost
	}
}

// fail turns the end of the link into an error that says how the simulator ended, and keeps it.
func (e *Engine) fail(cause error) error {
	if e.lost != nil {
		return e.lost
	}
	if err := e.writer.interrupted(); err != nil && errors.Is(cause, err) {
		e.lost = err
		return e.lost
	}
	if errors.Is(cause, os.ErrDeadlineExceeded) {
		e.kill()
		e.lost = fmt.Errorf("%w: it took nothing for %v near clock %d", ErrLost, e.opts.Stall, e.reached)
		return e.lost
	}
	select {
	case <-e.exited:
	case <-time.After(exitWait):
		e.kill()
	}
	// A write may fail before the reader has told why the simulator ended.
	for open := true; open; {
		select {
		case _, open = <-e.windows:
		case <-time.After(exitWait):
			open = false
		}
	}
	if errors.Is(e.failed, ErrFault) {
		e.lost = fmt.Errorf("%w\n%s", e.failed, e.output)
		return e.lost
	}
	if cause != nil && !errors.Is(cause, io.EOF) && !errors.Is(cause, syscall.EPIPE) &&
		!errors.Is(cause, syscall.ECONNRESET) && !errors.Is(cause, io.ErrUnexpectedEOF) {
		e.lost = fmt.Errorf("%w: %w", e.endedError(fmt.Sprintf("near clock %d", e.reached)), cause)
		return e.lost
	}
	e.lost = e.endedError(fmt.Sprintf("after clock %d", e.reached))
	return e.lost
}

// endedError says how the process ended and what it last said.
func (e *Engine) endedError(when string) error {
	how := "it closed the link"
	select {
	case <-e.exited:
		how = "exit status 0"
		if e.waitErr != nil {
			how = e.waitErr.Error()
		}
	default:
	}
	if text := e.output.String(); text != "" {
		return fmt.Errorf("%w %s: %s\n%s", ErrLost, when, how, text)
	}
	return fmt.Errorf("%w %s: %s", ErrLost, when, how)
}

// access does one register access, granting clocks until it is answered.
func (e *Engine) access(ctx context.Context, write bool, addr, data uint32) (uint32, error) {
	if e.lost != nil {
		return 0, e.lost
	}
	e.regID++
	m := spec.RegReq{ID: e.regID, Addr: addr, Data: data}
	if write {
		m.Write = 1
	}
	if err := e.conn.Write(&m); err != nil {
		return 0, e.fail(err)
	}
	for {
		if e.outstanding == 0 {
			if err := e.Grant(e.granted + regQuantum); err != nil {
				return 0, err
			}
		}
		w, err := e.wait(ctx)
		if err != nil {
			return 0, err
		}
		regs := w.regs
		e.backlog = e.behindBacklog(w)
		for _, r := range regs {
			if r.ID != e.regID {
				return 0, fmt.Errorf("register access %d: got the answer of %d", e.regID, r.ID)
			}
			if r.Resp != 0 {
				return 0, fmt.Errorf("register %#04x: AXI4-Lite response %d, want 0 (OKAY)", addr, r.Resp)
			}
			return r.Data, nil
		}
	}
}

// Read32 reads a register. What else happens meanwhile is part of the next window.
func (e *Engine) Read32(ctx context.Context, addr uint32) (uint32, error) {
	return e.access(ctx, false, addr, 0)
}

// Write32 writes a register. What else happens meanwhile is part of the next window.
func (e *Engine) Write32(ctx context.Context, addr, data uint32) error {
	_, err := e.access(ctx, true, addr, data)
	return err
}

// Close ends the simulator and removes what the run left. It is needed after every successful Start,
// and may be called again. The error is that of a simulator that did not end well by itself.
func (e *Engine) Close() error {
	if e.closed {
		return nil
	}
	e.closed = true
	defer e.kill()
	if e.lost != nil {
		return nil // told already
	}
	e.writer.last(finishWait)
	if err := e.conn.Write(&spec.Finish{}); err != nil {
		return err
	}
	_ = e.conn.Flush()
	go func() { // the reader must not stand still on a full channel
		for range e.windows {
		}
	}()
	select {
	case <-e.exited:
		if e.waitErr != nil {
			return e.endedError("at the end")
		}
		return nil
	case <-time.After(finishWait):
	}
	_ = e.cmd.Process.Signal(syscall.SIGTERM) // closes the trace
	select {
	case <-e.exited:
		return nil
	case <-time.After(finishWait):
		e.terminated = true
		return fmt.Errorf("%w: it neither finished nor ended on SIGTERM", ErrLost)
	}
}

// kill ends the process for certain.
func (e *Engine) kill() {
	if e.sock != nil {
		_ = e.sock.Close()
	}
	if e.cmd == nil {
		return
	}
	select {
	case <-e.exited:
		return
	default:
	}
	if !e.terminated {
		_ = e.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-e.exited:
			return
		case <-time.After(finishWait):
		}
	}
	_ = e.cmd.Process.Kill()
	<-e.exited
}

// PID of the simulator's process.
func (e *Engine) PID() int { return e.cmd.Process.Pid }

// tail keeps the last bytes of what is written to it.
type tail struct {
	mu   sync.Mutex
	b    []byte
	also io.Writer
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if n := len(t.b) - tailBytes; n > 0 {
		t.b = append(t.b[:0], t.b[n:]...)
	}
	if t.also != nil {
		return t.also.Write(p)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.b))
}
