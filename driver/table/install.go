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
	// The state of the endpoints first, while they take nothing yet: it begins at their first psn, and whatever the rows held
	// would be taken for a position in the new sequence once the pipe is there.
	for i := range plan.cfg.Endpoints {
		entry := plan.Endpoint(i)
		entry.Valid = false
		if err := e.WriteEntry(ctx, plan.endpoints[i], entry); err != nil {
			return fmt.Errorf("%s: %w", endpointName(plan.cfg, i), err)
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
// pipes may be written again when they are drained or in error; until then they are Held. Those that may be are parked.
func (e *Engine) Uninstall(ctx context.Context, plan *Plan) error {
	for i, index := range plan.endpoints {
		if err := e.remove(ctx, index); err != nil {
			return fmt.Errorf("%s: %w", endpointName(plan.cfg, i), err)
		}
	}
	_, err := e.held(ctx, plan.pipes)
	return err
}

// The endpoint row and the entry of the out list of pipes that nobody has: Reserved.
func (e *Engine) parkRow() int  { return e.caps.Endpoints - 1 }
func (e *Engine) parkList() int { return e.caps.Outs - 1 }

// Reserved are the endpoint row and the entry of the out list that Install must not be given: idle pipes have them.
func (e *Engine) Reserved() (endpoint, out int) { return e.parkRow(), e.parkList() }

// park gives an idle Mode-III pipe an out that is nobody's. A pipe that is bound never ends, and goes on looking at the
// rows of its outs: once they are another pipe's, it would take their state for its own. It stays at its own blocks, whose
// slots the binding clears. A Mode-II pipe does nothing unless a frame comes.
func (e *Engine) park(ctx context.Context, row int) error {
	var c spec.PipeCfg
	if err := e.ReadEntry(ctx, row, &c); err != nil {
		return err
	}
	if c.Mode == 2 || c.FanOut == 1 && int(c.OutBase) == e.parkList() {
		return nil
	}
	if err := e.WriteEntry(ctx, e.parkRow(), &spec.EpCfg{}); err != nil { // not valid; its state starts at psn 0
		return err
	}
	if err := e.WriteEntry(ctx, e.parkList(), &spec.OutList{Endpoint: uint16(e.parkRow())}); err != nil {
		return err
	}
	c.FanIn, c.FanOut, c.OutBase, c.NLog2, c.PSN0, c.Reproducible, c.AckEvery = 1, 1, uint16(e.parkList()), 1, 0, false, 1
	if err := e.WriteEntry(ctx, row, &c); err != nil {
		return err
	}
	return e.WaitBound(ctx, row)
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

// parkBound parks a pipe that may be written, unless nobody ever wrote it.
func (e *Engine) parkBound(ctx context.Context, row int) error {
	var state spec.PipeState
	if err := e.ReadEntry(ctx, row, &state); err != nil {
		return err
	}
	if !state.Bound {
		return nil
	}
	return e.park(ctx, row)
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

// Held lists the pipes that are bound and cannot be written, but for those that `used` says somebody has: those that their
// users left undrained. Those that can be by now are parked.
func (e *Engine) Held(ctx context.Context, used func(row int) bool) ([]Held, error) {
	var rows []int
	for row := range e.caps.Pipes {
		if !used(row) {
			rows = append(rows, row)
		}
	}
	return e.held(ctx, rows)
}

func (e *Engine) held(ctx context.Context, rows []int) ([]Held, error) {
	var list []Held
	for _, row := range rows {
		free, err := e.writable(ctx, row)
		if err != nil {
			return nil, fmt.Errorf("pipe %d: %w", row, err)
		}
		if free {
			if err := e.parkBound(ctx, row); err != nil {
				return nil, fmt.Errorf("pipe %d: %w", row, err)
			}
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
