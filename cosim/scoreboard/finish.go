package scoreboard

import (
	"context"
	"fmt"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/spec"
)

// Tables reads an engine's counters and tables through its registers.
type Tables interface {
	Counter(ctx context.Context, c spec.Counter) (uint64, error)
	// ReadEntry reads entry `index` of the table of e into e.
	ReadEntry(ctx context.Context, index int, e spec.Entry) error
	// Refused returns how many table commands were refused, as whoever gave them was told.
	Refused() uint64
}

// Finish compares what an engine shows through its registers, once it is quiescent: counters and the
// state tables of every endpoint and pipe. The error is a *Difference, or what kept it from looking.
func (s *Scoreboard) Finish(ctx context.Context, t Tables) error {
	if s.first != nil {
		return s.first
	}
	if err := s.Quiescent(); err != nil {
		return s.differ(&Difference{What: "end of the run", Field: "quiescence", Got: err.Error(), Want: "nothing left to do"}, nil)
	}
	for stream, got := range s.got {
		if len(got) > 0 {
			return s.differ(&Difference{What: "end of the run", Field: "frames on " + streamName(stream),
				Got: fmt.Sprintf("%d that no record speaks of", len(got)), Want: "none", Clock: got[0].Clock, GotBytes: got[0].Bytes}, nil)
		}
	}
	if err := s.counters(ctx, t); err != nil {
		return err
	}
	return s.tables(ctx, t)
}

func (s *Scoreboard) counters(ctx context.Context, t Tables) error {
	for c := range spec.Counter(spec.CounterCount) {
		got, err := t.Counter(ctx, c)
		if err != nil {
			return fmt.Errorf("read counter %v: %w", c, err)
		}
		want := s.stats.Counters[c]
		switch c {
		case spec.CounterTableWrite:
			want = s.stats.TableWrites
		case spec.CounterTableRefused:
			want = t.Refused()
		}
		if got != want {
			return s.differ(&Difference{What: "counter", Field: c.String(), Got: fmt.Sprint(got), Want: fmt.Sprint(want)}, nil)
		}
	}
	return nil
}

func (s *Scoreboard) tables(ctx context.Context, t Tables) error {
	for i := range s.cfg.Engine.Endpoints {
		if r, ok := s.state.rx[i]; ok {
			want := spec.EpRx{EPSN: r.EPSN, MSN: r.MSN, NakSent: r.NakSent != 0, AckKind: r.AckKind}
			if err := compareEntry(ctx, s, t, int(s.entry[i]), new(spec.EpRx), &want); err != nil {
				return err
			}
		}
		if r, ok := s.state.tx[i]; ok {
			want := spec.EpTx{LastAcked: r.LastAcked, Cursor: r.Cursor, SentMax: r.SentMax, Retries: uint8(r.Retries),
				TimerArmed: r.TimerArmed != 0, RNRWait: r.RNRWait != 0, EpError: r.EpError != 0}
			if err := compareEntry(ctx, s, t, int(s.entry[i]), new(spec.EpTx), &want); err != nil {
				return err
			}
		}
	}
	for p := range s.cfg.Engine.Pipes {
		if _, written := s.state.pipe[p]; written {
			want := s.golden.PipeState(p)
			if err := compareEntry(ctx, s, t, p, new(spec.PipeState), &want); err != nil {
				return err
			}
			if err := s.pipeError(ctx, t, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// pipeError compares what put a pipe in error. An out in error is in the engine's table at once and puts its pipe in
// error a little later, in golden then: with several causes in between, which was first is not compared.
func (s *Scoreboard) pipeError(ctx context.Context, t Tables, p int) error {
	f := s.golden.Fault(p)
	want := spec.PipeError{Kind: uint8(f.Kind), PSN: uint32(f.PSN), Got: f.Got, Wanted: f.Wanted}
	if f.Kind != spec.ErrorKindNone {
		want.Endpoint = uint16(s.entry[f.Endpoint])
	}
	causes := 0
	for _, o := range s.golden.Config().Pipes[p].Outs {
		if s.state.tx[o].EpError != 0 {
			causes++
		}
	}
	if f.Kind != spec.ErrorKindNone && f.Kind != spec.ErrorKindRetries && f.Kind != spec.ErrorKindFatalNak {
		causes++
	}
	if causes < 2 {
		return compareEntry(ctx, s, t, p, new(spec.PipeError), &want)
	}
	var got spec.PipeError
	if err := t.ReadEntry(ctx, p, &got); err != nil {
		return fmt.Errorf("read %v entry %d: %w", got.Table(), p, err)
	}
	if spec.ErrorKind(got.Kind) == spec.ErrorKindNone {
		return s.differ(&Difference{What: fmt.Sprintf("%v entry %d", got.Table(), p), Field: "kind", Got: spec.ErrorKindNone.String(),
			Want: "the cause of the pipe's error"}, nil)
	}
	return nil
}

// entry is a pointer to a table entry that can be compared.
type entry[T comparable] interface {
	*T
	spec.Entry
}

func compareEntry[T comparable, P entry[T]](ctx context.Context, s *Scoreboard, t Tables, index int, got, want P) error {
	if err := t.ReadEntry(ctx, index, got); err != nil {
		return fmt.Errorf("read %v entry %d: %w", got.Table(), index, err)
	}
	if *got == *want {
		return nil
	}
	return s.differ(&Difference{What: fmt.Sprintf("%v entry %d", got.Table(), index), Field: "state",
		Got: fmt.Sprintf("%+v", *got), Want: fmt.Sprintf("%+v", *want)}, nil)
}

// Config returns golden's entries as they are now. The caller must not change what it points to.
func (s *Scoreboard) Config() engine.Config { return s.golden.Config() }

// Fault returns golden's first cause of a pipe's error.
func (s *Scoreboard) Fault(pipe int) engine.Fault { return s.golden.Fault(pipe) }
