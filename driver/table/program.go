package table

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/spec"
)

// Program writes a configuration to an engine that has bound none of its pipes since reset: out and in lists,
// endpoints, pipes. It returns when every pipe takes data, or ctx is done.
func (e *Engine) Program(ctx context.Context, cfg engine.Config) (*Plan, error) {
	plan, err := NewPlan(cfg, e.caps)
	if err != nil {
		return nil, err
	}
	for i := range cfg.Pipes {
		var state spec.PipeState
		if err := e.ReadEntry(ctx, i, &state); err != nil {
			return nil, fmt.Errorf("%s: %w", pipeName(cfg, i), err)
		}
		if state.Bound || state.Binding {
			return nil, fmt.Errorf("%s: bound already: repoint it, or reset the engine", pipeName(cfg, i))
		}
	}
	for i := range cfg.Pipes {
		if err := e.writeAll(ctx, plan.lists(i)...); err != nil {
			return nil, err
		}
	}
	for i := range cfg.Endpoints {
		if err := e.writeAll(ctx, plan.endpoint(i)); err != nil {
			return nil, err
		}
	}
	for i := range cfg.Pipes {
		if err := e.bind(ctx, plan, i); err != nil {
			return nil, err
		}
	}
	return plan, nil
}

// Repoint gives the listed pipes of a running engine, and the endpoints of those pipes, the entries of cfg. Pipes that are
// not listed must be in cfg as they are in the engine, and run on undisturbed.
//
// A pipe that is not drained is refused (IsBusy) before anything is written. The endpoints of the pipes, old and new, are out
// of the tables meanwhile: what arrives for them goes to the bypass port. An endpoint belongs to at most two pipes and its
// two directions start anew together, so both must be listed.
func (e *Engine) Repoint(ctx context.Context, cfg engine.Config, pipes ...int) (*Plan, error) {
	plan, err := NewPlan(cfg, e.caps)
	if err != nil {
		return nil, err
	}
	for _, p := range pipes {
		if p < 0 || p >= len(cfg.Pipes) {
			return nil, fmt.Errorf("repoint: got pipe %d, want 0..%d", p, len(cfg.Pipes)-1)
		}
	}
	for i, ep := range cfg.Endpoints {
		if err := bothListed(endpointName(cfg, i), ep.InPipe, ep.OutPipe, pipes); err != nil {
			return nil, err
		}
	}
	for i := range cfg.Pipes {
		if slices.Contains(pipes, i) {
			continue
		}
		if err := e.verify(ctx, append(plan.lists(i), plan.pipe(i))...); err != nil {
			return nil, fmt.Errorf("%s is not to change: %w", pipeName(cfg, i), err)
		}
	}
	old, err := e.users(ctx, pipes)
	if err != nil {
		return nil, err
	}
	if err := e.checkDrained(ctx, plan, pipes, old); err != nil {
		return nil, err
	}

	for _, u := range old {
		u.entry.Valid = false // the rest stays: its PSN is where the next entry may start from
		if err := e.WriteEntry(ctx, u.index, &u.entry); err != nil {
			return nil, fmt.Errorf("remove endpoint entry %d: %w", u.index, err)
		}
	}
	for _, p := range pipes {
		if err := e.writeAll(ctx, plan.lists(p)...); err != nil {
			return nil, err
		}
	}
	for _, p := range pipes {
		if err := e.bind(ctx, plan, p); err != nil {
			return nil, err
		}
	}
	for i, ep := range cfg.Endpoints {
		if slices.Contains(pipes, ep.InPipe) || slices.Contains(pipes, ep.OutPipe) {
			if err := e.writeAll(ctx, plan.endpoint(i)); err != nil {
				return nil, err
			}
		}
	}
	return plan, nil
}

// Quiesce tells the engine that no rank waits for anything of a Mode-II pipe: every one has reported its send
// completions (protocol.md 9). Only the manager can know that, and without it such a pipe is never drained. Writing the
// pipe takes it back. A pipe of Mode-III knows for itself when it is drained, and is refused.
func (e *Engine) Quiesce(ctx context.Context, pipe int) error {
	var state spec.PipeState
	if err := e.ReadEntry(ctx, pipe, &state); err != nil {
		return fmt.Errorf("quiesce pipe %d: %w", pipe, err)
	}
	var cfg spec.PipeCfg
	if err := e.ReadEntry(ctx, pipe, &cfg); err != nil {
		return fmt.Errorf("quiesce pipe %d: %w", pipe, err)
	}
	switch {
	case !state.Bound && !state.Binding:
		return fmt.Errorf("quiesce pipe %d: not bound, want a pipe of mode 2", pipe)
	case cfg.Mode != 2:
		return fmt.Errorf("quiesce pipe %d: got a pipe of mode %d, want 2", pipe, cfg.Mode)
	}
	if err := e.WriteEntry(ctx, pipe, &spec.PipeCtl{Quiesced: true}); err != nil {
		return fmt.Errorf("quiesce: %w", err)
	}
	return nil
}

// Drained reads whether the engine would let a pipe be written: it is drained, in error, or was never bound.
func (e *Engine) Drained(ctx context.Context, pipe int) (bool, error) {
	if pipe < 0 || pipe >= e.caps.Pipes {
		return false, fmt.Errorf("drained: got pipe %d, want 0..%d", pipe, e.caps.Pipes-1)
	}
	word, err := e.read(ctx, "PIPE_DRAINED", device.RegPipeDrained+4*uint32(pipe/32))
	return word>>(pipe%32)&1 != 0, err
}

// WaitDrained waits until a pipe is drained, or ctx is done.
func (e *Engine) WaitDrained(ctx context.Context, pipe int) error {
	for {
		done, err := e.Drained(ctx, pipe)
		if err != nil || done {
			return err
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("pipe %d: still not drained: %w", pipe, err)
		}
	}
}

// bothListed refuses an endpoint of which one direction would be repointed and the other not.
func bothListed(name string, in, out int, pipes []int) error {
	if in == engine.None || out == engine.None || slices.Contains(pipes, in) == slices.Contains(pipes, out) {
		return nil
	}
	return fmt.Errorf("%s: in-pipe %d and out-pipe %d start anew together, got pipes %v", name, in, out, pipes)
}

// user is a valid endpoint entry of the engine that belongs to a listed pipe.
type user struct {
	index int
	entry spec.EpCfg
}

// users reads the whole endpoint table: whoever wrote it, the entries of the pipes are found.
func (e *Engine) users(ctx context.Context, pipes []int) ([]user, error) {
	var list []user
	for i := range e.caps.Endpoints {
		u := user{index: i}
		if err := e.ReadEntry(ctx, i, &u.entry); err != nil {
			return nil, err
		}
		if !u.entry.Valid {
			continue
		}
		in, out := engine.None, engine.None
		if u.entry.InValid {
			in = int(u.entry.InPipe)
		}
		if u.entry.OutValid {
			out = int(u.entry.OutPipe)
		}
		if err := bothListed(fmt.Sprintf("endpoint entry %d", i), in, out, pipes); err != nil {
			return nil, err
		}
		if slices.Contains(pipes, in) || slices.Contains(pipes, out) {
			list = append(list, u)
		}
	}
	return list, nil
}

// checkDrained refuses to touch a pipe that still holds something. A pipe in error holds nothing worth waiting for.
func (e *Engine) checkDrained(ctx context.Context, plan *Plan, pipes []int, old []user) error {
	for _, p := range pipes {
		name := pipeName(plan.cfg, p)
		var state spec.PipeState
		if err := e.ReadEntry(ctx, p, &state); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		busy := &RefusedError{Table: spec.TablePipeCfg, Index: p, Write: true, Reason: spec.TableErrorBusy}
		if state.Binding {
			return fmt.Errorf("%s: binding: %w", name, busy)
		}
		if !state.Bound || state.PipeError {
			continue
		}
		var cfg spec.PipeCfg
		if err := e.ReadEntry(ctx, p, &cfg); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		var ins []spec.EpRx
		for _, u := range old {
			if u.entry.InValid && int(u.entry.InPipe) == p {
				var rx spec.EpRx
				if err := e.ReadEntry(ctx, u.index, &rx); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				ins = append(ins, rx)
			}
		}
		if why := drained(cfg.Mode, state, ins); why != nil {
			return fmt.Errorf("%s: %w: %w", name, why, busy)
		}
	}
	return nil
}

// bind writes a pipe entry and waits until the pipe takes data.
func (e *Engine) bind(ctx context.Context, plan *Plan, pipe int) error {
	if err := e.writeAll(ctx, plan.pipe(pipe)); err != nil {
		return err
	}
	if err := e.WaitBound(ctx, plan.pipes[pipe]); err != nil {
		return fmt.Errorf("%s: %w", pipeName(plan.cfg, pipe), err)
	}
	return nil
}

// WaitBound waits until the walk over a pipe's slots is over and the pipe takes data, or ctx is done.
func (e *Engine) WaitBound(ctx context.Context, pipe int) error {
	for {
		var state spec.PipeState
		if err := e.ReadEntry(ctx, pipe, &state); err != nil {
			return err
		}
		if state.Bound && !state.Binding {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("pipe %d: still binding: %w", pipe, err)
		}
	}
}

func (e *Engine) writeAll(ctx context.Context, list ...placed) error {
	for _, w := range list {
		if err := e.WriteEntry(ctx, w.index, w.entry); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

// ErrDiffers means that an entry reads back otherwise than it was written.
var ErrDiffers = errors.New("not what was written")

// Verify reads every entry of the plan back and names the first field that is not what was written, in an
// error that wraps ErrDiffers.
func (e *Engine) Verify(ctx context.Context, plan *Plan) error {
	for i := range plan.cfg.Endpoints {
		if err := e.verify(ctx, plan.endpoint(i)); err != nil {
			return err
		}
	}
	for i := range plan.cfg.Pipes {
		if err := e.verify(ctx, append(plan.lists(i), plan.pipe(i))...); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) verify(ctx context.Context, list ...placed) error {
	for _, w := range list {
		got := spec.NewEntry(w.entry.Table())
		if err := e.ReadEntry(ctx, w.index, got); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		if field, g, want, ok := spec.EntryDifference(got, w.entry); ok {
			return fmt.Errorf("%w: %s: %v[%d].%s: got %s, want %s", ErrDiffers, w.name, w.entry.Table(), w.index, field, g, want)
		}
	}
	return nil
}
