package run_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/cosim/run"
	"github.com/epic-inc/epic/cosim/server/servertest"
	"github.com/epic-inc/epic/golden/expect"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/spec"
)

// everyPair is a list of collectives in which each follows each, itself too: an Euler tour of the complete
// graph, by Hierholzer.
func everyPair(names ...string) []string {
	left := make([]int, len(names)) // of each: how many it has been followed by
	var tour []string
	for stack := []int{0}; len(stack) > 0; {
		at := stack[len(stack)-1]
		if left[at] == len(names) {
			tour = append(tour, names[at])
			stack = stack[:len(stack)-1]
			continue
		}
		left[at]++
		stack = append(stack, (at+left[at])%len(names))
	}
	slices.Reverse(tour)
	return tour
}

var pairs = everyPair("allreduce", "reduce:2", "broadcast:1", "barrier", "reducescatter", "allgather")

func TestEveryPair(t *testing.T) {
	seen := map[string]bool{}
	for i := range pairs[1:] {
		seen[pairs[i]+" "+pairs[i+1]] = true
	}
	require.Len(t, pairs, 37)
	require.Len(t, seen, 36)
}

// small is a group whose PSNs wrap, with links that do everything.
func small(o *group.Options) {
	o.MTU, o.Slots, o.MessagePackets, o.PSN0, o.TimeoutTicks, o.HostTimeout = 256, 16, 4, 0xfffff8, 400, 10
	o.Loss, o.Dup, o.Reorder = 0.01, 0.01, 0.02
}

func multi(t *testing.T, shapes ...group.Options) run.Options {
	t.Helper()
	set, err := group.GenerateSet(shapes...)
	require.NoError(t, err)
	o := run.Options{Group: set.Groups[0], RTLAt: run.AllSwitches, DataW: 64, Sim: servertest.Simulator(t, 64), Bytes: 2048, Seed: 5, OutDir: t.TempDir()}
	o.Steps, err = shapes[0].Steps()
	require.NoError(t, err)
	for i, g := range set.Groups[1:] {
		steps, err := shapes[i+1].Steps()
		require.NoError(t, err)
		o.Beside = append(o.Beside, run.Beside{Group: g, Steps: steps})
	}
	return o
}

// Every ordered pair of collectives back to back, in trees of depth 1 to 3, every switch an RTL engine.
func TestPairs(t *testing.T) {
	for _, shape := range group.TreeShapes() {
		t.Run(shape, func(t *testing.T) {
			g := group.DefaultOptions()
			g.ClocksPerTick = 10
			small(&g)
			g.Tree, g.Collective = shape, strings.Join(pairs, ",")
			rep, err := run.Run(t.Context(), multi(t, g))
			require.NoError(t, err)
			assert.True(t, rep.SumEqual)
			assert.Equal(t, pairs, rep.Steps)
			assert.Positive(t, rep.Resends)
			if shape != group.TreeSingle {
				require.Len(t, rep.Engines, 3)
				frames := uint64(0)
				for _, e := range rep.Engines {
					assert.Positive(t, e.Slots)
					frames += e.FramesIn
				}
				assert.Equal(t, rep.FramesIn, frames)
			}
		})
	}
}

// Two to four groups on the same switches, each with its own results; the same seed gives the same run.
func TestGroups(t *testing.T) {
	for n := 2; n <= 4; n++ {
		var shapes []group.Options
		for i := range n {
			g := group.DefaultOptions()
			g.ClocksPerTick = 10
			small(&g)
			g.Tree, g.PSN0 = group.TreeTwoLevel, g.PSN0+uint64(i)
			g.Collective = []string{"allreduce,barrier", "reduce:1,broadcast:3", "allreduce,allreduce", "broadcast:0,reduce:2"}[i]
			shapes = append(shapes, g)
		}
		play := func() string {
			rep, err := run.Run(t.Context(), multi(t, shapes...))
			require.NoError(t, err)
			assert.True(t, rep.SumEqual)
			assert.Equal(t, n, rep.Groups)
			rep.WallS, rep.ClocksPerS = 0, 0
			text, err := json.Marshal(rep)
			require.NoError(t, err)
			return string(text)
		}
		first := play()
		assert.Equal(t, first, play())
	}
}

// Captures and traces of several engines are files of their own.
func TestFilesOfSeveral(t *testing.T) {
	g := group.DefaultOptions()
	g.ClocksPerTick, g.Tree = 10, group.TreeTwoLevel
	o := multi(t, g)
	o.Capture, o.Trace, o.TraceFrom, o.TraceTo = o.OutDir+"/out.pcapng", o.OutDir+"/wave.fst", 1000, 1100
	rep, err := run.Run(t.Context(), o)
	require.NoError(t, err)
	require.Len(t, rep.Artifacts, 6)
	for _, f := range rep.Artifacts {
		_, err := os.Stat(f)
		require.NoError(t, err)
	}
	assert.Contains(t, rep.Artifacts, o.OutDir+"/wave-leaf1.fst")
}

// What the build lacks is said, and is no difference.
func TestUnsupported(t *testing.T) {
	for want, change := range map[string]func(*group.Options){
		"mode 1":  func(o *group.Options) { o.Mode = 1 },
		"blocks,": func(o *group.Options) { o.Slots, o.MTU = 1024, 4096 },
		"endpoints, the build 64": func(o *group.Options) {
			o.Collective, o.Ranks, o.Slots = "allreduce,reducescatter", 8, 16
		},
		"pipes, the build 16": func(o *group.Options) {
			o.Collective, o.Ranks, o.Slots = "allgather,reducescatter,allreduce", 8, 2
		},
	} {
		g := group.DefaultOptions()
		change(&g)
		_, err := run.Run(t.Context(), multi(t, g))
		var lacks *run.Unsupported
		require.ErrorAs(t, err, &lacks, want)
		assert.ErrorContains(t, err, want)
		assert.NotErrorIs(t, err, run.ErrDifference)
	}
}

// Whatever memories and registers hold at first, the results are the same; and so they are if all engines are
// reset, three times, with traffic under way.
func TestRandomStateAndReset(t *testing.T) {
	g := group.DefaultOptions()
	g.ClocksPerTick = 10
	small(&g)
	g.Tree, g.Collective = group.TreeTwoLevel, "allreduce,reduce:2,broadcast:1,barrier,reducescatter,allgather,allreduce"
	o := multi(t, g)
	o.Bytes = 8 << 10
	o.Inputs = expect.Vectors(1, 4, o.Bytes, spec.DTypeInt32, spec.OpSum)
	want, err := expect.Reduce(spec.DTypeInt32, spec.OpSum, o.Inputs)
	require.NoError(t, err)
	for seed := range uint64(10) {
		for _, resets := range []int{0, 3} {
			o.Seed, o.Resets = seed, resets
			rep, err := run.Run(t.Context(), o)
			require.NoError(t, err, "seed %d, %d resets", seed, resets)
			assert.Equal(t, resets, rep.Resets)
			assert.True(t, rep.SumEqual)
			for r := range 4 {
				assert.Equal(t, want, rep.Results[r])
			}
		}
	}
	o.Bytes, o.Inputs, o.Steps = 256, nil, o.Steps[:1]
	_, err = run.Run(t.Context(), o)
	require.ErrorContains(t, err, "resets: the ranks were done after ", "fewer resets than asked for are told")
}
