package table

import (
	"context"
	"fmt"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/golden/spec"
)

// State is what an engine holds of a plan: one element per endpoint and pipe of the configuration.
type State struct {
	Rx    []spec.EpRx
	Tx    []spec.EpTx
	Pipes []spec.PipeState
}

// ReadState reads the state of every endpoint and pipe of the plan. Each entry is of one moment, but the engine runs on
// between two entries.
func (e *Engine) ReadState(ctx context.Context, plan *Plan) (*State, error) {
	s := &State{
		Rx:    make([]spec.EpRx, len(plan.endpoints)),
		Tx:    make([]spec.EpTx, len(plan.endpoints)),
		Pipes: make([]spec.PipeState, len(plan.cfg.Pipes)),
	}
	for i, index := range plan.endpoints {
		if err := e.ReadEntry(ctx, index, &s.Rx[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", endpointName(plan.cfg, i), err)
		}
		if err := e.ReadEntry(ctx, index, &s.Tx[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", endpointName(plan.cfg, i), err)
		}
	}
	for i := range s.Pipes {
		if err := e.ReadEntry(ctx, plan.pipes[i], &s.Pipes[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", pipeName(plan.cfg, i), err)
		}
	}
	return s, nil
}

// Counters are all counters of an engine, indexed by spec.Counter. They count from reset and wrap at 2^48.
type Counters [spec.CounterCount]uint64

// Verdict is the number of frames of a verdict.
func (c *Counters) Verdict(v spec.Verdict) uint64 { return c[v.Counter()] }

// Counter reads one counter: its exact value at one clock.
func (e *Engine) Counter(ctx context.Context, c spec.Counter) (uint64, error) {
	if !c.Valid() {
		return 0, fmt.Errorf("counter: got %d, want 0..%d", uint32(c), spec.CounterCount-1)
	}
	if err := e.write(ctx, "CNT_INDEX", device.RegCntIndex, device.CntIndexIndex.Put(uint32(c))); err != nil {
		return 0, fmt.Errorf("counter %v: %w", c, err)
	}
	// The low part first: reading it keeps the high part of the same clock.
	lo, err := e.read(ctx, "CNT_LO", device.RegCntLo)
	if err != nil {
		return 0, fmt.Errorf("counter %v: %w", c, err)
	}
	hi, err := e.read(ctx, "CNT_HI", device.RegCntHi)
	if err != nil {
		return 0, fmt.Errorf("counter %v: %w", c, err)
	}
	return uint64(device.CntHiValue.Get(hi))<<32 | uint64(lo), nil
}

// ReadCounters reads all counters, one after the other.
func (e *Engine) ReadCounters(ctx context.Context) (*Counters, error) {
	var all Counters
	for i := range all {
		var err error
		if all[i], err = e.Counter(ctx, spec.Counter(i)); err != nil {
			return nil, err
		}
	}
	return &all, nil
}

// Fault is an error: what put a pipe in error, where, and what was got and wanted
// as spec.ErrorKind says.
type Fault struct {
	Kind     spec.ErrorKind
	Pipe     int
	Endpoint int // table entry
	PSN      uint32
	Got      uint32
	Wanted   uint32
}

func (f Fault) String() string {
	return fmt.Sprintf("%v at pipe %d, endpoint entry %d, psn %#06x: got %d, want %d", f.Kind, f.Pipe, f.Endpoint, f.PSN, f.Got, f.Wanted)
}

// Fault reads the first error since reset or ClearFault; ok is false if there was none.
func (e *Engine) Fault(ctx context.Context) (f Fault, ok bool, err error) {
	first, err := e.read(ctx, "ERROR_FIRST", device.RegErrorFirst)
	if err != nil || device.ErrorFirstValid.Get(first) == 0 {
		return Fault{}, false, err
	}
	var words [3]uint32
	for i, reg := range []struct {
		name string
		addr uint32
	}{{"ERROR_PSN", device.RegErrorPSN}, {"ERROR_GOT", device.RegErrorGot}, {"ERROR_WANTED", device.RegErrorWanted}} {
		if words[i], err = e.read(ctx, reg.name, reg.addr); err != nil {
			return Fault{}, false, err
		}
	}
	return Fault{
		Kind:     spec.ErrorKind(device.ErrorFirstKind.Get(first)),
		Pipe:     int(device.ErrorFirstPipeID.Get(first)),
		Endpoint: int(device.ErrorFirstEndpoint.Get(first)),
		PSN:      device.ErrorPSNPSN.Get(words[0]),
		Got:      words[1],
		Wanted:   words[2],
	}, true, nil
}

// PipeFault reads what put a pipe in error first; ok is false if nothing did since the pipe was written.
func (e *Engine) PipeFault(ctx context.Context, pipe int) (f Fault, ok bool, err error) {
	var entry spec.PipeError
	if err := e.ReadEntry(ctx, pipe, &entry); err != nil {
		return Fault{}, false, err
	}
	if spec.ErrorKind(entry.Kind) == spec.ErrorKindNone {
		return Fault{}, false, nil
	}
	return Fault{Kind: spec.ErrorKind(entry.Kind), Pipe: pipe, Endpoint: int(entry.Endpoint), PSN: entry.PSN,
		Got: entry.Got, Wanted: entry.Wanted}, true, nil
}

// ClearFault forgets the first error, so that the next one is kept. It takes no pipe out of error.
func (e *Engine) ClearFault(ctx context.Context) error {
	return e.write(ctx, "CTRL", device.RegCtrl, device.CtrlErrorClear.Put(1))
}

// PipesInError lists the pipes that are in error now, ascending.
func (e *Engine) PipesInError(ctx context.Context) ([]int, error) {
	var list []int
	for r := uint32(0); r*32 < uint32(e.caps.Pipes); r++ {
		word, err := e.read(ctx, "PIPE_ERRORS", device.RegPipeErrors+4*r)
		if err != nil {
			return nil, err
		}
		for i := range 32 {
			if word>>i&1 != 0 {
				list = append(list, int(r)*32+i)
			}
		}
	}
	return list, nil
}
