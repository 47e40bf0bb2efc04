package table_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/control/target"
	"github.com/epic-inc/epic/driver/table"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
)

// second is another switch's part of a tree, with QPNs and blocks of its own.
func second() engine.Config {
	cfg := inner()
	for i := range cfg.Endpoints {
		cfg.Endpoints[i].QPN += 0x10
	}
	for i := range cfg.Pipes {
		cfg.Pipes[i].Base += 256
	}
	return cfg
}

func planAt(t *testing.T, e *table.Engine, cfg engine.Config, rows table.Rows) *table.Plan {
	t.Helper()
	plan, err := table.NewPlanAt(cfg, e.Capabilities(), rows)
	require.NoError(t, err)
	return plan
}

// Two plans beside each other: the second at rows of its own, and nothing written that is the first's.
func TestInstall(t *testing.T) {
	f := newFake()
	e := open(t, f)
	a := planAt(t, e, inner(), table.Rows{Pipes: []int{0, 1}, Outs: []int{0, 1}, Ins: []int{0, 0}})
	require.NoError(t, e.Install(t.Context(), a))
	f.writes = nil
	b := planAt(t, e, second(), table.Rows{Pipes: []int{7, 4}, Outs: []int{20, 10}, Ins: []int{0, 0}})
	require.NoError(t, e.Install(t.Context(), b))
	assert.Equal(t, []place{{0, 0x11}, {0, 0x12}, {0, 0x13}, {2, 20}, {2, 10}, {2, 11}, {1, 7}, {1, 4}, {0, 0x11}, {0, 0x12}, {0, 0x13}}, f.writes,
		"the endpoints' state, lists, pipes, and endpoints when the pipes are bound")
	require.NoError(t, e.Verify(t.Context(), a))
	require.NoError(t, e.Verify(t.Context(), b))
	var ep spec.EpCfg
	w := f.entries[place{0, 0x11}]
	require.NoError(t, ep.SetWords(w[:spec.Tables[spec.TableEpCfg].Words]))
	assert.Equal(t, uint8(7), ep.InPipe)
	assert.Equal(t, uint8(4), ep.OutPipe)
	var pipe spec.PipeCfg
	w = f.entries[place{1, 7}]
	require.NoError(t, pipe.SetWords(w[:spec.Tables[spec.TablePipeCfg].Words]))
	assert.Equal(t, uint16(20), pipe.OutBase)
	state, err := e.ReadState(t.Context(), b)
	require.NoError(t, err)
	assert.Equal(t, spec.PipeState{PSNStart: 0xfffff0, NextSend: 0xfffff0, Bound: true}, state.Pipes[0])

	require.NoError(t, e.Uninstall(t.Context(), b))
	w = f.entries[place{0, 0x11}]
	require.NoError(t, ep.SetWords(w[:spec.Tables[spec.TableEpCfg].Words]))
	assert.False(t, ep.Valid)
	require.NoError(t, e.Verify(t.Context(), a))
}

// What must not be written is refused before anything is.
func TestInstallRefused(t *testing.T) {
	f := newFake()
	e := open(t, f)
	require.NoError(t, e.Install(t.Context(), planAt(t, e, inner(), table.Rows{Pipes: []int{0, 1}, Outs: []int{0, 1}, Ins: []int{0, 0}})))
	f.writes = nil
	err := e.Install(t.Context(), planAt(t, e, inner(), table.Rows{Pipes: []int{2, 3}, Outs: []int{8, 9}, Ins: []int{0, 0}}))
	assert.EqualError(t, err, "endpoint 0 (child0): row 1 has QPN 0x000101: taken")
	assert.ErrorIs(t, err, table.ErrTaken)
	err = e.Install(t.Context(), planAt(t, e, second(), table.Rows{Pipes: []int{2, 1}, Outs: []int{8, 9}, Ins: []int{0, 0}}))
	assert.EqualError(t, err, "pipe 1 (down): write of pipe_cfg[1] refused: busy: the pipe is binding or not drained")
	assert.True(t, table.IsBusy(err))
	assert.Empty(t, f.writes)

	for _, tt := range []struct {
		rows table.Rows
		want string
	}{
		{table.Rows{Pipes: []int{0, 16}, Outs: []int{0, 1}, Ins: []int{0, 0}}, `engine "leaf": pipe 1 (down): pipe row: got 16..16, want 0..15`},
		{table.Rows{Pipes: []int{0, 1}, Outs: []int{0, 63}, Ins: []int{0, 0}}, `engine "leaf": pipe 1 (down): out list: got 63..64, want 0..63`},
	} {
		_, err := table.NewPlanAt(inner(), e.Capabilities(), tt.rows)
		assert.EqualError(t, err, tt.want)
	}
	_, err = table.NewPlanAt(inner(), e.Capabilities(), table.Rows{Pipes: []int{0}, Outs: []int{0, 1}, Ins: []int{0, 0}})
	assert.EqualError(t, err, `engine "leaf": got 1 pipe rows, want 2, one for each pipe`)
}

// held is what is left of a pipe that is not drained.
func TestHeld(t *testing.T) {
	f := newFake()
	e := open(t, f)
	plan := planAt(t, e, inner(), table.Rows{Pipes: []int{3, 5}, Outs: []int{0, 1}, Ins: []int{0, 0}})
	require.NoError(t, e.Install(t.Context(), plan))
	require.NoError(t, e.Uninstall(t.Context(), plan))
	f.regs[addrDrained] = 1 << 3
	held, err := e.Held(t.Context(), nobody)
	require.NoError(t, err)
	assert.Equal(t, []table.Held{{Pipe: 5, Base: 128, Blocks: 128, Out: 1, Outs: 2, Endpoints: []int{1, 2}}}, held)
	var pipe spec.PipeCfg
	w := f.entries[place{1, 3}]
	require.NoError(t, pipe.SetWords(w[:spec.Tables[spec.TablePipeCfg].Words]))
	assert.Equal(t, [3]int{1, 63, 0}, [3]int{int(pipe.FanOut), int(pipe.OutBase), int(pipe.BaseBlock)}, "parked: its out is nobody's, its blocks are its own")
	assert.Equal(t, uint32(63), f.entries[place{2, 63}][0])

	still, err := e.Held(t.Context(), func(row int) bool { return row == 5 })
	require.NoError(t, err)
	assert.Empty(t, still, "somebody has it")
	f.state(3, spec.PipeState{Bound: true})
	f.state(5, spec.PipeState{Bound: true, PSNStart: 0xfffff0, NextSend: 0xfffff0})
	f.regs[addrDrained] = 1<<3 | 1<<5
	held, err = e.Held(t.Context(), nobody)
	require.NoError(t, err)
	assert.Empty(t, held)
	endpoint, out := e.Reserved()
	assert.Equal(t, [2]int{63, 63}, [2]int{endpoint, out})
}

func nobody(int) bool { return false }

// state sets the entry of a pipe's state.
func (f *fake) state(pipe uint32, s spec.PipeState) { f.put(place{5, pipe}, s.Words()) }

func allReduceOf(t *testing.T) *group.Group {
	t.Helper()
	o := group.DefaultOptions()
	o.Ranks, o.Slots = 3, 32
	g, err := group.Generate(o)
	require.NoError(t, err)
	return g
}

// The engine as the control plane sees it.
func TestTarget(t *testing.T) {
	f := newFake()
	f.put(place{0, 9}, (&spec.EpCfg{Valid: true, QPN: 9}).Words())
	sw, err := target.NewTable(t.Context(), "root", open(t, f))
	require.NoError(t, err)
	info, err := sw.Info(t.Context())
	require.NoError(t, err)
	assert.NotEmpty(t, info.Boot)
	info.Boot = ""
	assert.Equal(t, target.Info{Name: "root", Ports: 8, EndpointEntries: 64, PipeEntries: 16, ListEntries: 64, PoolKB: 128, MTU: 4096, FanIn: 64,
		Modes: []int{3}, NoFloat: true, Held: []table.Held{{Pipe: -1, Out: 63, Outs: 1, Endpoints: []int{63}}}}, info)
	var ep spec.EpCfg
	w := f.entries[place{0, 9}]
	require.NoError(t, ep.SetWords(w[:spec.Tables[spec.TableEpCfg].Words]))
	assert.False(t, ep.Valid, "what was there before belongs to nobody")

	g := allReduceOf(t)
	rows := target.Rows{Pipes: []int{6}, Outs: []int{4}, Ins: []int{0}}
	require.NoError(t, sw.Install(t.Context(), "a", g, rows))
	writes := len(f.writes)
	require.NoError(t, sw.Install(t.Context(), "a", g, rows), "again")
	assert.Len(t, f.writes, writes)
	ids, err := sw.Installed(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"a"}, ids)

	// An in that is ahead of what has been sent counts.
	f.put(place{3, 2}, (&spec.EpRx{EPSN: 7}).Words())
	st, err := sw.State(t.Context(), "a")
	require.NoError(t, err)
	assert.Equal(t, target.State{Known: true, Next: psn.PSN(7)}, st)
	require.ErrorIs(t, sw.Remove(t.Context(), "a", false), target.ErrBusy)
	_, err = sw.State(t.Context(), "b")
	require.ErrorIs(t, err, target.ErrNotInstalled)

	// A pipe in error, with the names of the document.
	f.regs[addrPipeErrors] = 1 << 6
	f.put(place{8, 6}, (&spec.PipeError{Kind: uint8(spec.ErrorKindMismatchLength), Endpoint: 3, PSN: 5, Got: 64, Wanted: 128}).Words())
	faults := make(chan target.Fault, 8)
	ctx, cancel := contextFor(t)
	done := make(chan error, 1)
	go func() { done <- sw.Watch(ctx, func(f target.Fault) { faults <- f }) }()
	assert.Equal(t, target.Fault{ID: "a", Pipe: "root", Endpoint: "rank2", Kind: spec.ErrorKindMismatchLength, PSN: 5, Got: 64, Wanted: 128}, <-faults)
	time.Sleep(100 * time.Millisecond)
	cancel()
	require.Error(t, <-done)
	assert.Empty(t, faults, "told once")

	// By force: the rows are not free until the pipe is drained.
	require.NoError(t, sw.Remove(t.Context(), "a", true))
	info, err = sw.Info(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []table.Held{{Pipe: 6, Base: 0, Blocks: 128, Out: 4, Outs: 3, Endpoints: []int{1, 2, 3}}, {Pipe: -1, Out: 63, Outs: 1, Endpoints: []int{63}}}, info.Held)
	f.regs[addrDrained] = 1 << 6
	info, err = sw.Info(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []table.Held{{Pipe: -1, Out: 63, Outs: 1, Endpoints: []int{63}}}, info.Held)
}

func contextFor(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), 30*time.Second)
}
