package core

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sort"
	"strconv"
)

// Stage is the number of a stage in inc_bench.sv.
type Stage int

// The stages.
const (
	Lookup Stage = iota
	Check
	Aggregate
	SendAck
	ReceiveAck
	Recycle
	Retransmission
	Translate
	Replicate
	Pipe
	HandOn
	ALU
)

// Streams: outputs from 0 on, sources from 8 on, numbered in the stage's file.
const firstSource = 8

const maxEvents = 1 << 22 // of one answer

// Event is one token that moved.
type Event struct {
	Clock  int // in which it was taken or, of a watched signal, seen
	Since  int // first clock in which it was offered
	Stream int
	Token
}

// Session is a run of one stage. It is not safe for concurrent use.
type Session struct {
	Clock   int  // clocks run so far
	Drained bool // every token pushed has been taken

	cmd     *exec.Cmd
	in      *bufio.Writer
	inPipe  io.Closer
	out     *bufio.Reader
	stderr  bytes.Buffer
	layouts Layouts
	streams map[int]string // stream to struct
}

// Options of a session. Idle and Stall are parts per million of the clocks in which a source pauses, and in
// which a sink is not ready.
type Options struct {
	Bench       string // path of the bench binary
	Stage       Stage
	Layouts     Layouts
	Streams     map[int]string // the struct of each stream
	Seed        uint64
	Idle, Stall int
}

// Start begins a run. The model and the Go side must agree on every stream and its width.
func Start(ctx context.Context, o Options) (*Session, error) {
	s := &Session{layouts: o.Layouts, streams: o.Streams}
	s.cmd = exec.CommandContext(ctx, o.Bench, "--core", strconv.Itoa(int(o.Stage)), strconv.FormatUint(o.Seed, 10),
		strconv.Itoa(o.Idle), strconv.Itoa(o.Stall))
	s.cmd.Stderr = &s.stderr
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("stage bench: %w", err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("stage bench: %w", err)
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("stage bench: %w", err)
	}
	s.in, s.inPipe, s.out = bufio.NewWriterSize(in, 1<<16), in, bufio.NewReaderSize(out, 1<<16)
	if err := s.agree(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Session) agree() error {
	n, err := s.word()
	if err != nil {
		return err
	}
	seen := map[int]bool{}
	for range n {
		var w [3]uint32
		for i := range w {
			if w[i], err = s.word(); err != nil {
				return err
			}
		}
		number, width := int(w[0]), int(w[2])
		name, ok := s.streams[number]
		if !ok {
			return fmt.Errorf("stage bench: the model has a stream %d that the test does not know", number)
		}
		if want := s.layouts.New(name).Width; width != want {
			return fmt.Errorf("stage bench: stream %d has %d bits, %s has %d", number, width, name, want)
		}
		seen[number] = true
	}
	for number, name := range s.streams {
		if !seen[number] {
			return fmt.Errorf("stage bench: the model has no stream %d (%s)", number, name)
		}
	}
	return nil
}

// New returns an empty token for a stream.
func (s *Session) New(stream int) Token { return s.layouts.New(s.streams[stream]) }

// Push gives a source its next token, to be offered no sooner than gap clocks after the one before was taken.
func (s *Session) Push(stream, gap int, t Token) {
	if want := s.streams[stream]; stream < firstSource || t.Name != want {
		panic(fmt.Sprintf("stream %d takes %q, got %s", stream, want, t.Name))
	}
	s.command(1, uint32(stream), uint32(gap), append([]uint32{uint32(len(t.Words))}, t.Words...)...)
}

// Pacing changes idle and stall, which hold from the next Run on.
func (s *Session) Pacing(idle, stall int) { s.command(3, uint32(idle), uint32(stall)) }

// Run runs so many clocks and returns what moved, by clock and then by stream.
func (s *Session) Run(clocks int) ([]Event, error) { return s.run(clocks, 0) }

// Drain runs until every token pushed has been taken, at most limit clocks, and then settle clocks more.
func (s *Session) Drain(limit, settle int) ([]Event, error) {
	events, err := s.run(limit, 1)
	if err != nil {
		return nil, err
	}
	if !s.Drained {
		return nil, fmt.Errorf("stage bench: tokens were not taken within %d clocks (clock %d)", limit, s.Clock)
	}
	more, err := s.run(settle, 0)
	return append(events, more...), err
}

func (s *Session) command(op, a, b uint32, words ...uint32) {
	var buf [12]byte
	binary.LittleEndian.PutUint32(buf[0:], op)
	binary.LittleEndian.PutUint32(buf[4:], a)
	binary.LittleEndian.PutUint32(buf[8:], b)
	s.in.Write(buf[:]) // an error of the pipe stays in the writer and comes out at Flush
	for _, w := range words {
		binary.LittleEndian.PutUint32(buf[:], w)
		s.in.Write(buf[:4])
	}
}

func (s *Session) run(clocks int, drain uint32) ([]Event, error) {
	s.command(2, uint32(clocks), drain)
	if err := s.in.Flush(); err != nil {
		return nil, s.lost(err)
	}
	var head [4]uint32
	for i := range head {
		w, err := s.word()
		if err != nil {
			return nil, err
		}
		head[i] = w
	}
	s.Clock, s.Drained = int(head[1]), head[2] != 0
	if head[3] > maxEvents {
		return nil, s.lost(fmt.Errorf("got %d events of %d clocks: no answer to a run", head[3], clocks))
	}
	events := make([]Event, head[3])
	for i := range events {
		var w [3]uint32
		for j := range w {
			var err error
			if w[j], err = s.word(); err != nil {
				return nil, err
			}
		}
		ev := Event{Clock: int(w[0]), Since: int(w[1]), Stream: int(w[2])}
		ev.Token = s.New(ev.Stream)
		for j := range ev.Words {
			var err error
			if ev.Words[j], err = s.word(); err != nil {
				return nil, err
			}
		}
		events[i] = ev
	}
	if head[0] != 0 {
		return nil, s.lost(errors.New("the run has ended"))
	}
	sort.SliceStable(events, func(i, j int) bool {
		a, b := events[i], events[j]
		return a.Clock < b.Clock || a.Clock == b.Clock && a.Stream < b.Stream
	})
	return events, nil
}

func (s *Session) word() (uint32, error) {
	var b [4]byte
	if _, err := io.ReadFull(s.out, b[:]); err != nil {
		return 0, s.lost(err)
	}
	return binary.LittleEndian.Uint32(b[:]), nil
}

// lost adds what the bench has to say to an error of its pipes.
func (s *Session) lost(err error) error {
	s.inPipe.Close()
	s.cmd.Wait() // its status says no more than its stderr
	return fmt.Errorf("stage bench: %w: %s", err, bytes.TrimSpace(s.stderr.Bytes()))
}

// Close ends the run; an exit status other than 0 is an error.
func (s *Session) Close() error {
	if s.cmd.ProcessState != nil {
		return nil
	}
	s.in.Flush()
	s.inPipe.Close()
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("stage bench: %w: %s", err, bytes.TrimSpace(s.stderr.Bytes()))
	}
	return nil
}
