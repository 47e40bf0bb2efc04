package run_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/cosim/link"
	"github.com/epic-inc/epic/cosim/run"
	"github.com/epic-inc/epic/cosim/server/servertest"
	"github.com/epic-inc/epic/golden/group"
)

const root = "../.."

func options(t *testing.T, width int, change func(*group.Options)) run.Options {
	t.Helper()
	g := group.DefaultOptions()
	g.ClocksPerTick = 10 // timers a factor 250 faster than their names
	if change != nil {
		change(&g)
	}
	gr, err := group.Generate(g)
	require.NoError(t, err)
	return run.Options{Group: gr, DataW: width, Sim: servertest.Simulator(t, width), Bytes: 16 << 10, Seed: 1, OutDir: t.TempDir()}
}

// Every shape that can be asked for, with the RTL at each place in the tree.
func TestRun(t *testing.T) {
	for name, tc := range map[string]struct {
		shape func(*group.Options)
		rtlAt string
		slots uint64 // that the RTL must release; 0: not looked at
	}{
		"one switch":       {nil, "", 16},
		"two ranks":        {func(g *group.Options) { g.Ranks = 2 }, "", 16},
		"32 ranks":         {func(g *group.Options) { g.Ranks, g.Slots = 32, 32 }, "", 16},
		"wrap":             {func(g *group.Options) { g.PSN0 = 0xfffff8 }, "root", 16},
		"mtu 256":          {func(g *group.Options) { g.MTU = 256 }, "", 64},
		"mtu 4096":         {func(g *group.Options) { g.MTU = 4096 }, "", 4},
		"two-level, root":  {func(g *group.Options) { g.Ranks, g.Tree = 5, group.TreeTwoLevel }, "root", 16},
		"two-level, leaf0": {func(g *group.Options) { g.Ranks, g.Tree = 5, group.TreeTwoLevel }, "leaf0", 32}, // up and down
		"loss": {func(g *group.Options) {
			g.Loss, g.Dup, g.Reorder, g.PSN0 = 0.05, 0.05, 0.05, 0xfffff0
		}, "", 16},
		"reduce":     {func(g *group.Options) { g.Collective, g.RootRank = "reduce", 2 }, "", 16},
		"broadcast":  {func(g *group.Options) { g.Collective, g.RootRank = "broadcast", 1 }, "", 16},
		"strict NIC": {func(g *group.Options) { g.Preset, g.Loss = "strict-nic", 0.03 }, "", 16},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, 64, tc.shape)
			o.RTLAt = tc.rtlAt
			rep, err := run.Run(t.Context(), o)
			require.NoError(t, err)
			assert.True(t, rep.SumEqual)
			assert.Zero(t, rep.Mismatches)
			assert.Equal(t, tc.slots, rep.Slots)
			assert.Equal(t, -1, rep.FirstResult)
			assert.Positive(t, rep.ComparedBytes)
			assert.Positive(t, rep.Latency.Min)
			assert.LessOrEqual(t, rep.Latency.Min, rep.Latency.Median)
			assert.LessOrEqual(t, rep.Latency.Median, rep.Latency.Max)
			if name == "loss" {
				assert.Positive(t, rep.Resends)
			}
		})
	}
}

// The same options give the same run, to the byte of what left; another seed gives another.
func TestSeed(t *testing.T) {
	play := func(seed uint64, name string) ([]byte, string) {
		o := options(t, 64, func(g *group.Options) { g.Loss, g.Dup, g.Reorder = 0.03, 0.03, 0.03 })
		o.Seed, o.BackpressurePPM, o.IdlePPM, o.Pacing = seed, 200_000, 100_000, link.PacingBurst
		o.Capture = filepath.Join(o.OutDir, name)
		rep, err := run.Run(t.Context(), o)
		require.NoError(t, err)
		assert.Equal(t, []string{o.Capture}, rep.Artifacts)
		b, err := os.ReadFile(o.Capture)
		require.NoError(t, err)
		rep.WallS, rep.ClocksPerS, rep.Artifacts = 0, 0, nil
		text, err := json.Marshal(rep)
		require.NoError(t, err)
		return b, string(text)
	}
	frames, report := play(77, "a.pcapng")
	frames2, report2 := play(77, "b.pcapng")
	assert.True(t, bytes.Equal(frames, frames2))
	assert.Equal(t, report, report2)
	other, _ := play(78, "c.pcapng")
	assert.False(t, bytes.Equal(frames, other))
}

// The JSON has the fields that others read.
func TestReportJSON(t *testing.T) {
	text, err := json.Marshal(&run.Report{Latency: run.LatencyStats{Min: 1, Median: 2, Max: 3}})
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(text, &fields))
	for _, name := range []string{"frames_in", "frames_out", "acks", "naks", "resends", "slots", "compared_bytes", "mismatches",
		"sum_equal", "latency_clocks", "clocks", "wall_s", "seed"} {
		assert.Contains(t, fields, name)
	}
	assert.Equal(t, map[string]any{"min": 1., "median": 2., "max": 3.}, fields["latency_clocks"])
}

func TestTrace(t *testing.T) {
	o := options(t, 64, nil)
	o.Bytes, o.Trace, o.TraceFrom, o.TraceTo = 4096, filepath.Join(o.OutDir, "wave.fst"), 100, 300
	rep, err := run.Run(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, []string{o.Trace}, rep.Artifacts)
	info, err := os.Stat(o.Trace)
	require.NoError(t, err)
	assert.Greater(t, info.Size(), int64(10_000))
}

func TestBadOptions(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*run.Options)
		want   string
	}{
		"bytes":     {func(o *run.Options) { o.Bytes = 6 }, "bytes: got 6, want a multiple of 4"},
		"no bytes":  {func(o *run.Options) { o.Bytes = 0 }, "bytes: got 0"},
		"inputs":    {func(o *run.Options) { o.Inputs = make([][]byte, 3) }, "inputs: got 3 vectors for 4 ranks"},
		"uneven":    {func(o *run.Options) { o.Inputs = [][]byte{{0, 0, 0, 0}, {0}, nil, nil} }, "vector of rank 1: got 1 bytes"},
		"no switch": {func(o *run.Options) { o.RTLAt = "leaf7" }, `"leaf7" does not exist`},
		"simulator": {func(o *run.Options) { o.Sim = filepath.Join(t.TempDir(), "inc_sim") }, "make sim"},
		"width":     {func(o *run.Options) { o.DataW = 128 }, "built for 64 bits, want 128"},
		"group":     {func(o *run.Options) { o.Group = nil }, "no group"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, 64, nil)
			tc.change(&o)
			_, err := run.Run(t.Context(), o)
			require.ErrorContains(t, err, tc.want)
			assert.NotErrorIs(t, err, run.ErrDifference)
		})
	}
}

func TestExpect(t *testing.T) {
	o := options(t, 64, nil)
	o.Inputs = [][]byte{{1, 0, 0, 0}, {2, 0, 0, 0}, {3, 0, 0, 0}, {0xff, 0xff, 0xff, 0xff}}
	o.Expect = []byte{5, 0, 0, 0}
	rep, err := run.Run(t.Context(), o)
	require.NoError(t, err)
	assert.True(t, rep.SumEqual)
	o.Expect = []byte{6, 0, 0, 0}
	_, err = run.Run(t.Context(), o)
	require.ErrorIs(t, err, run.ErrDifference)
}

func TestCancelledRun(t *testing.T) {
	o := options(t, 64, nil)
	o.Bytes = 1 << 20
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	before := time.Now()
	_, err := run.Run(ctx, o)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Less(t, time.Since(before), 10*time.Second)
}

func TestReplay(t *testing.T) {
	captures := filepath.Join(root, "testdata/captures/allreduce4")
	g, err := group.Load(filepath.Join(root, "testdata/allreduce4/group.yaml"))
	require.NoError(t, err)
	want, err := os.ReadFile(filepath.Join(root, "testdata/allreduce4/tensors/sum.i32"))
	require.NoError(t, err)
	rank := func(name string) string { return filepath.Join(captures, name+".pcap") }
	for name, first := range map[string]string{"no loss": "allreduce4_i32_rank0", "retransmitted": "retransmit_rank0"} {
		t.Run(name, func(t *testing.T) {
			o := run.Options{Group: g, DataW: 512, Sim: servertest.Simulator(t, 512), Seed: 1, OutDir: t.TempDir(), Expect: want}
			rep, err := run.Replay(t.Context(), o, []string{rank(first), rank("allreduce4_i32_rank1"),
				rank("allreduce4_i32_rank2"), rank("allreduce4_i32_rank3")})
			require.NoError(t, err)
			assert.True(t, rep.SumEqual)
			assert.EqualValues(t, 103, rep.Slots)
			assert.Equal(t, len(want), rep.Bytes)
		})
	}
}

func TestReplayRefuses(t *testing.T) {
	captures := filepath.Join(root, "testdata/captures/allreduce4")
	load := func(t *testing.T) *group.Group {
		g, err := group.Load(filepath.Join(root, "testdata/allreduce4/group.yaml"))
		require.NoError(t, err)
		return g
	}
	whole, err := os.ReadFile(filepath.Join(captures, "allreduce4_i32_rank0.pcap"))
	require.NoError(t, err)
	file := func(t *testing.T, b []byte) string {
		path := filepath.Join(t.TempDir(), "x.pcap")
		require.NoError(t, os.WriteFile(path, b, 0o600))
		return path
	}
	for name, tc := range map[string]struct {
		files func(t *testing.T) []string
		group func(*group.Group)
		want  string
	}{
		"no such file":  {func(*testing.T) []string { return []string{"/does/not/exist"} }, nil, "open capture"},
		"no capture":    {func(t *testing.T) []string { return []string{file(t, []byte("hello, world"))} }, nil, "magic number"},
		"cut":           {func(t *testing.T) []string { return []string{file(t, whole[:5000])} }, nil, "x.pcap: at byte"},
		"a rank absent": {func(t *testing.T) []string { return []string{file(t, whole)} }, nil, "comes from rank 1"},
		"other psn0": {func(t *testing.T) []string { return []string{file(t, whole)} },
			func(g *group.Group) { g.Switches[0].Pipes[0].PSN0 = 7 }, "rank"},
		"collective": {func(t *testing.T) []string { return []string{file(t, whole)} },
			func(g *group.Group) { g.Collective = "reduce" }, "want allreduce"},
	} {
		t.Run(name, func(t *testing.T) {
			g := load(t)
			if tc.group != nil {
				tc.group(g)
			}
			_, err := run.Replay(t.Context(), run.Options{Group: g, DataW: 64, Seed: 1}, tc.files(t))
			require.ErrorContains(t, err, tc.want)
			assert.NotErrorIs(t, err, run.ErrDifference)
		})
	}
}

// The figure itself is measured by `epic bench cosim` on a quiet machine; here it must only be there.
func TestBench(t *testing.T) {
	rep, err := run.Bench(t.Context(), run.BenchOptions{DataW: 512, Sim: servertest.Simulator(t, 512), Seed: 1, Clocks: 50_000})
	require.NoError(t, err)
	assert.Equal(t, 512, rep.DataW)
	assert.Positive(t, rep.BareClocksPerS)
	assert.Positive(t, rep.CheckedClocksPerS)
	assert.InDelta(t, rep.CheckedClocksPerS/rep.BareClocksPerS, rep.Ratio, 1e-9)
	assert.Greater(t, rep.Busy, 0.8)
	assert.LessOrEqual(t, rep.Busy, 1.0)
	t.Logf("%+v", rep)
}
