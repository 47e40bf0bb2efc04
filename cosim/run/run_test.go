package run_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/cosim/run"
	"github.com/epic-inc/epic/golden/group"
)

const root = "../.."

// simulator builds the engine's simulator for a width.
func simulator(t *testing.T, width int) string {
	t.Helper()
	out, err := exec.Command(filepath.Join(root, "scripts/build-sim"), strconv.Itoa(width)).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return filepath.Join(root, "build/sim", fmt.Sprintf("w%d", width), "inc_sim")
}

func options(t *testing.T, width int, change func(*group.Options)) run.Options {
	t.Helper()
	g := group.DefaultOptions()
	g.ClocksPerTick = 10 // timers a factor 250 faster than their names
	if change != nil {
		change(&g)
	}
	gr, err := group.Generate(g)
	require.NoError(t, err)
	return run.Options{Group: gr, DataW: width, Sim: simulator(t, width), Bytes: 16 << 10, Seed: 1, OutDir: t.TempDir()}
}

func TestRun(t *testing.T) {
	o := options(t, 64, nil)
	rep, err := run.Run(t.Context(), o)
	require.NoError(t, err)
	require.True(t, rep.SumEqual)
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
			o := run.Options{Group: g, DataW: 512, Sim: simulator(t, 512), Seed: 1, OutDir: t.TempDir(), Expect: want}
			rep, err := run.Replay(t.Context(), o, []string{rank(first), rank("allreduce4_i32_rank1"),
				rank("allreduce4_i32_rank2"), rank("allreduce4_i32_rank3")})
			require.NoError(t, err)
			assert.True(t, rep.SumEqual)
			assert.EqualValues(t, 103, rep.Slots)
			assert.Equal(t, len(want), rep.Bytes)
			_ = rep.WriteText(os.Stderr)
		})
	}
}

func TestBench(t *testing.T) {
	rep, err := run.Bench(t.Context(), run.BenchOptions{DataW: 512, Sim: simulator(t, 512), Seed: 1, Clocks: 200_000, Progress: os.Stderr})
	require.NoError(t, err)
	_ = rep.WriteText(os.Stderr)
}
