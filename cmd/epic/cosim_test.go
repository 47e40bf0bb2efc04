package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/cosim/server/servertest"
)

const repo = "../.."

// report runs epic, which must end with the status, and returns its report without what depends on
// the machine.
func report(t *testing.T, status int, args ...string) map[string]any {
	t.Helper()
	cmd := epicCommand(t, args...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); status != 0 {
		var ended *exec.ExitError
		require.ErrorAs(t, err, &ended)
		require.Equal(t, status, ended.ExitCode(), stderr.String())
	} else {
		require.NoError(t, err, stderr.String())
	}
	var r map[string]any
	d := json.NewDecoder(strings.NewReader(stdout.String()))
	d.UseNumber()
	require.NoError(t, d.Decode(&r), stdout.String())
	for _, name := range []string{"wall_s", "clocks_per_s"} {
		require.Contains(t, r, name)
		delete(r, name)
	}
	delete(r, "artifacts") // the files' names
	return r
}

// A run without --seed says its seed, and --seed repeats it to the byte.
func TestRandomRunRepeats(t *testing.T) {
	sim, dir := servertest.Simulator(t, 64), t.TempDir()
	args := func(name string, more ...string) []string {
		return append([]string{"cosim", "run", "--sim", sim, "--data-w", "64", "--ranks", "3", "--tree", "two-level", "--bytes", "20000", "--mtu", "256",
			"--psn0", "0xfffff0", "--loss", "0.03", "--dup", "0.02", "--reorder", "0.02", "--backpressure", "0.2", "--pacing", "gap",
			"--json", "--capture", filepath.Join(dir, name)}, more...)
	}
	first := report(t, 0, args("first.pcapng")...)
	assert.Equal(t, true, first["sum_equal"])
	seed := first["seed"].(json.Number).String()
	second := report(t, 0, args("second.pcapng", "--seed", seed)...)
	assert.Equal(t, first, second)
	a, err := os.ReadFile(filepath.Join(dir, "first.pcapng"))
	require.NoError(t, err)
	b, err := os.ReadFile(filepath.Join(dir, "second.pcapng"))
	require.NoError(t, err)
	assert.Equal(t, a, b, "seed %s", seed)
	n, err := strconv.ParseUint(seed, 10, 64)
	require.NoError(t, err)
	third := report(t, 0, args("third.pcapng", "--seed", strconv.FormatUint(n+1, 10))...)
	assert.NotEqual(t, first["clocks"], third["clocks"], "another seed is another run")
}

// The captures' frames make the sum that is known from elsewhere; any other sum is a difference, status 1.
func TestReplaySumAndDifference(t *testing.T) {
	sim := servertest.Simulator(t, 64)
	tensors := filepath.Join(repo, "testdata/allreduce4/tensors")
	args := []string{"cosim", "run", "--sim", sim, "--data-w", "64", "--json", "--out", t.TempDir(), "--config", filepath.Join(repo, "testdata/allreduce4/group.yaml")}
	replay := append([]string{"cosim", "replay"}, args[2:]...)
	for rank := range 4 {
		replay = append(replay, filepath.Join(repo, "testdata/captures/allreduce4", "allreduce4_i32_rank"+strconv.Itoa(rank)+".pcap"))
		args = append(args, "--input", filepath.Join(tensors, "rank"+strconv.Itoa(rank)+".i32"))
	}
	file := filepath.Join(t.TempDir(), "report.json")
	r := report(t, 0, append(replay, "--expect", filepath.Join(tensors, "sum.i32"), "--report", file)...)
	assert.Equal(t, true, r["sum_equal"])
	assert.Equal(t, json.Number("103"), r["slots"], "103 packets a rank")
	assert.Equal(t, json.Number("0"), r["mismatches"])
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Contains(t, string(written), `"sum_equal":true`)

	r = report(t, 0, append(args, "--expect", filepath.Join(tensors, "sum.i32"))...)
	assert.Equal(t, true, r["sum_equal"])
	r = report(t, 1, append(args, "--expect", filepath.Join(tensors, "rank0.i32"))...)
	assert.Equal(t, false, r["sum_equal"])
	assert.Equal(t, json.Number("1"), r["mismatches"])
}
