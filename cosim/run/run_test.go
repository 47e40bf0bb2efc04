package run_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

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
