package table

import (
	"context"
	"errors"
	"fmt"

	"github.com/epic-inc/epic/golden/spec"
)

// ErrTaken says that a row that was to be written is another's.
var ErrTaken = errors.New("taken")

// Install writes the lists, pipes and endpoints of a plan into an engine that runs others, which it does not touch. It
// returns when the pipes take data. Before anything is written, it refuses rows of endpoints that are in use (ErrTaken) and
// pipes that are not drained (IsBusy).
func (e *Engine) Install(ctx context.Context, plan *Plan) error {
	for i, index := range plan.endpoints {
		var entry spec.EpCfg
		if err := e.ReadEntry(ctx, index, &entry); err != nil {
			return fmt.Errorf("%s: %w", endpointName(plan.cfg, i), err)
		}
		if entry.Valid {
			return fmt.Errorf("%s: row %d has QPN %#06x: %w", endpointName(plan.cfg, i), index, entry.QPN, ErrTaken)
		}
	}
	for i, row := range plan.pipes {
		free, err := e.writable(ctx, row)
		if err != nil {
			return fmt.Errorf("%s: %w", pipeName(plan.cfg, i), err)
		}
		if !free {
			return fmt.Errorf("%s: %w", pipeName(plan.cfg, i), &RefusedError{Table: spec.TablePipeCfg, Index: row, Write: true, Reason: spec.TableErrorBusy})
		}
	}
	for i := range plan.cfg.Pipes {
		if err := e.writeAll(ctx, plan.lists(i)...); err != nil {
			return err
		}
	}
	for i := range plan.cfg.Pipes {
		if err := e.bind(ctx, plan, i); err != nil {
			return err
		}
	}
	for i := range plan.cfg.Endpoints {
		if err := e.writeAll(ctx, plan.endpoint(i)); err != nil {
			return err
		}
	}
	return nil
}

// writable says whether the engine lets a pipe be written: it never was, is drained, or is in error.
func (e *Engine) writable(ctx context.Context, row int) (bool, error) {
	var state spec.PipeState
	if err := e.ReadEntry(ctx, row, &state); err != nil {
		return false, err
	}
	if state.Binding {
		return false, nil
	}
	if !state.Bound || state.PipeError {
		return true, nil
	}
	return e.Drained(ctx, row)
}

// Uninstall takes the endpoints of a plan out of the table: what arrives for them goes to the bypass port from then on. Its
// pipes may be written again when they are drained or in error; until then they are Held.
func (e *Engine) Uninstall(ctx context.Context, plan *Plan) error {
	for i, index := range plan.endpoints {
		if err := e.remove(ctx, index); err != nil {
			return fmt.Errorf("%s: %w", endpointName(plan.cfg, i), err)
		}
	}
	return nil
}

func (e *Engine) remove(ctx context.Context, index int) error {
	var entry spec.EpCfg
	if err := e.ReadEntry(ctx, index, &entry); err != nil {
		return err
	}
	if !entry.Valid {
		return nil
	}
	entry.Valid = false
	return e.WriteEntry(ctx, index, &entry)
}

// Clear takes every endpoint out of the table, whoever wrote it.
func (e *Engine) Clear(ctx context.Context) error {
	for i := range e.caps.Endpoints {
		if err := e.remove(ctx, i); err != nil {
			return fmt.Errorf("endpoint entry %d: %w", i, err)
		}
	}
	return nil
}

// Held is a pipe that cannot be written, and what goes with it: its blocks, entries of the lists, and the endpoint rows
// that the lists name.
type Held struct {
	Pipe         int
	Base, Blocks int
	Out, Outs    int // first entry, and how many
	In, Ins      int // of Mode-II
	Endpoints    []int
}

// Held lists the pipes that are bound and cannot be written: those in use, and those that their users left undrained.
func (e *Engine) Held(ctx context.Context) ([]Held, error) {
	var list []Held
	for row := range e.caps.Pipes {
		free, err := e.writable(ctx, row)
		if err != nil {
			return nil, fmt.Errorf("pipe %d: %w", row, err)
		}
		if free {
			continue
		}
		var c spec.PipeCfg
		if err := e.ReadEntry(ctx, row, &c); err != nil {
			return nil, fmt.Errorf("pipe %d: %w", row, err)
		}
		h := Held{Pipe: row, Base: int(c.BaseBlock), Blocks: 1 << (c.NLog2 + c.MTULog2) / spec.BlockBytes, Out: int(c.OutBase), Outs: int(c.FanOut)}
		if c.Reproducible {
			h.Blocks *= int(c.FanIn)
		}
		if c.Mode == 2 {
			h.In, h.Ins = int(c.InBase), int(c.FanIn)
		}
		for i := range h.Outs {
			var o spec.OutList
			if err := e.ReadEntry(ctx, h.Out+i, &o); err != nil {
				return nil, fmt.Errorf("pipe %d: %w", row, err)
			}
			h.Endpoints = append(h.Endpoints, int(o.Endpoint))
		}
		list = append(list, h)
	}
	return list, nil
}
