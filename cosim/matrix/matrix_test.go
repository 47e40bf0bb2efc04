package matrix

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/cosim/run"
	"github.com/epic-inc/epic/cosim/server"
	"github.com/epic-inc/epic/golden/oracle"
	"github.com/epic-inc/epic/golden/spec"
)

// fake is a matrix of few cases whose runs are made up.
type fake struct {
	Options
	mu   sync.Mutex
	runs int
	end  func(run.Options) error
}

func newFake(t *testing.T) *fake {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "w64"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "w64", "inc_sim"), []byte("a simulator"), 0o755))
	f := &fake{}
	f.Options = Options{Axes: Axes{DataW: []int{64}, MTUs: []int{256}, DTypes: []spec.DType{spec.DTypeInt32}, Ops: []spec.Op{spec.OpSum}},
		Whole: true, Jobs: 3, Sims: dir, OutDir: dir}
	f.run = func(_ context.Context, o run.Options) (*run.Report, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.runs++
		if f.end != nil {
			if err := f.end(o); err != nil {
				return nil, err
			}
		}
		return &run.Report{SumEqual: true, Clocks: 7}, nil
	}
	return f
}

const fakeCases = 2 * 6 * 3 // modes, collectives, trees

// What passed is not run again, until the simulator is another; what failed is.
func TestResume(t *testing.T) {
	f := newFake(t)
	rep, err := Run(t.Context(), f.Options)
	require.NoError(t, err)
	require.Equal(t, fakeCases, rep.Cases)
	require.Equal(t, fakeCases, rep.Passed)
	require.Equal(t, fakeCases, f.runs)
	rep, err = Run(t.Context(), f.Options)
	require.NoError(t, err)
	require.Equal(t, []int{fakeCases, fakeCases, fakeCases}, []int{rep.Passed, rep.Reused, f.runs})

	require.NoError(t, os.WriteFile(filepath.Join(f.Sims, "w64", "inc_sim"), []byte("another"), 0o755))
	f.end = func(o run.Options) error {
		if o.Group.Mode == 2 {
			return fmt.Errorf("%w: byte 3", run.ErrDifference)
		}
		return nil
	}
	rep, err = Run(t.Context(), f.Options)
	require.ErrorIs(t, err, run.ErrDifference)
	require.Equal(t, []int{fakeCases / 2, fakeCases / 2, 0, 2 * fakeCases}, []int{rep.Passed, rep.Failed, rep.Reused, f.runs})
	f.end = nil
	rep, err = Run(t.Context(), f.Options)
	require.NoError(t, err)
	require.Equal(t, []int{fakeCases, fakeCases / 2, 2*fakeCases + fakeCases/2}, []int{rep.Passed, rep.Reused, f.runs})
	f.Seed = 9
	rep, err = Run(t.Context(), f.Options)
	require.NoError(t, err)
	require.Zero(t, rep.Reused, "another seed is another case")
}

// A file that was cut off in a line loses that line; one that is none is an error with its place.
func TestTornResults(t *testing.T) {
	f := newFake(t)
	_, err := Run(t.Context(), f.Options)
	require.NoError(t, err)
	file := filepath.Join(f.OutDir, "results.jsonl")
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, whole[:len(whole)-20], 0o644))
	rep, err := Run(t.Context(), f.Options)
	require.NoError(t, err)
	require.Equal(t, fakeCases-1, rep.Reused)
	again, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, bytes.Count(whole, []byte("\n")), bytes.Count(again, []byte("\n")))
	require.NoError(t, os.WriteFile(file, []byte("{}\nno json\n"), 0o644))
	_, err = Run(t.Context(), f.Options)
	require.ErrorContains(t, err, "results.jsonl: line 2: ")
}

// No status is taken for another, and each that is not passed has its reason.
func TestStatuses(t *testing.T) {
	for _, tc := range []struct {
		end    error
		status Status
		is     error
		want   string
	}{
		{fmt.Errorf("x: %w", run.ErrDifference), Failed, run.ErrDifference, "36 of 36 cases failed"},
		{fmt.Errorf("x: %w", server.ErrFault), Failed, run.ErrDifference, "36 of 36 cases failed"},
		{fmt.Errorf("x: %w", server.ErrLost), Lost, server.ErrLost, "in 36 of 36 cases"},
		{errors.New("x"), Broken, nil, "36 of 36 cases could not be set up"},
		{fmt.Errorf("x: %w", &run.Unsupported{Reason: "x"}), Unsupported, nil, ""},
	} {
		f := newFake(t)
		f.end = func(run.Options) error { return tc.end }
		rep, err := Run(t.Context(), f.Options)
		if tc.want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, tc.want)
		}
		if tc.is != nil {
			require.ErrorIs(t, err, tc.is)
		}
		require.Zero(t, rep.Passed)
		for _, r := range rep.Results {
			require.Equal(t, tc.status, r.Status)
			require.True(t, strings.HasPrefix(r.Reason, "x"), r.Reason)
		}
		if tc.status == Unsupported {
			require.Equal(t, fakeCases, rep.Unsupported)
			f.RequireAll = true
			_, err := Run(t.Context(), f.Options)
			require.ErrorIs(t, err, run.ErrDifference)
			require.ErrorContains(t, err, "the build lacks what 36 of 36 cases ask for")
		}
		var text strings.Builder
		require.NoError(t, rep.WriteText(&text))
		require.Equal(t, fakeCases, strings.Count(text.String(), string(tc.status)+"  mode"))
	}
	f := newFake(t)
	f.run = func(context.Context, run.Options) (*run.Report, error) { return &run.Report{}, nil }
	_, err := Run(t.Context(), f.Options)
	require.ErrorIs(t, err, run.ErrDifference, "a run that compared no results has not passed")
}

// What the budget leaves is not passed, and is told.
func TestBudget(t *testing.T) {
	f := newFake(t)
	f.Budget, f.Jobs = time.Millisecond, 1
	f.end = func(run.Options) error { time.Sleep(2 * time.Millisecond); return nil }
	var told strings.Builder
	f.Progress = &told
	rep, err := Run(t.Context(), f.Options)
	require.ErrorContains(t, err, "cases were not run")
	require.Positive(t, rep.NotRun)
	require.Equal(t, fakeCases, rep.NotRun+rep.Passed)
	assert.Contains(t, told.String(), "the budget of 1ms is over: ")
	assert.Equal(t, "the budget of 1ms was over", rep.Results[fakeCases-1].Reason)
	f.Budget, f.end = 0, nil
	before := f.runs
	rep, err = Run(t.Context(), f.Options)
	require.NoError(t, err)
	require.Equal(t, fakeCases, rep.Passed)
	require.Equal(t, fakeCases-before, f.runs-before, "goes on where it stopped")
}

func TestInterrupted(t *testing.T) {
	f := newFake(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.end = func(run.Options) error { cancel(); return context.Canceled }
	f.Jobs = 1
	rep, err := Run(ctx, f.Options)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, fakeCases, rep.NotRun)
}

// Shards are the whole, each case once.
func TestShards(t *testing.T) {
	f := newFake(t)
	keys := map[string]int{}
	for i := range 5 {
		f.Shard, f.Shards = i, 5
		rep, err := Run(t.Context(), f.Options)
		require.NoError(t, err)
		for _, r := range rep.Results {
			keys[r.Key]++
		}
	}
	require.Len(t, keys, fakeCases)
	for k, n := range keys {
		require.Equal(t, 1, n, k)
	}
	f.Shard = 5
	_, err := Run(t.Context(), f.Options)
	require.ErrorContains(t, err, "shard: got 5 of 5, want 0..4")
	f.Shard, f.Sims = 0, t.TempDir()
	_, err = Run(t.Context(), f.Options)
	require.ErrorContains(t, err, "scripts/build-sim 64 builds a simulator")
}

// sbatch of a cluster that runs the tasks at once, one after the other.
const fakeSbatch = `#!/bin/sh
for a; do case $a in --array=0-*) last=${a#--array=0-};; --output=*) log=${a#--output=};; --chdir=*) cd "${a#--chdir=}";; esac; script=$a; done
echo "17;cluster"
i=0
while [ $i -le $last ]; do
  [ "$i" = "$SKIP" ] || SLURM_ARRAY_TASK_ID=$i sh "$script" > "$(echo "$log" | sed "s/%a/$i/")" 2>&1
  i=$((i + 1))
done
exit 1
`

// The shards of an array job are put together; the program is this test, which runs made-up cases.
func TestSlurm(t *testing.T) {
	f := newFake(t)
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	f.Shards = 3
	_, err := Slurm(t.Context(), f.Options)
	require.ErrorContains(t, err, "engine slurm: ")
	require.ErrorContains(t, err, "sbatch")
	require.ErrorContains(t, err, "want Slurm's commands installed")

	require.NoError(t, os.WriteFile(filepath.Join(bin, "sbatch"), []byte("#!/bin/sh\necho no such partition >&2\nexit 1\n"), 0o755))
	_, err = Slurm(t.Context(), f.Options)
	require.ErrorContains(t, err, "sbatch: exit status 1: no such partition")

	t.Setenv("PATH", bin+":/usr/bin:/bin")
	t.Setenv("EPIC_MATRIX_TASK", "1")
	require.NoError(t, os.WriteFile(filepath.Join(bin, "sbatch"), []byte(fakeSbatch), 0o755))
	rep, err := Slurm(t.Context(), f.Options)
	require.NoError(t, err)
	require.Equal(t, fakeCases, rep.Passed)
	require.Zero(t, rep.Reused)

	require.NoError(t, os.Remove(filepath.Join(f.OutDir, "results.jsonl")))
	t.Setenv("SKIP", "1")
	rep, err = Slurm(t.Context(), f.Options)
	require.ErrorContains(t, err, "12 of 36 cases were not run")
	require.Equal(t, fakeCases/3, rep.NotRun)
	require.Contains(t, rep.Results[1].Reason, "shard 1 has no result: see ")
	t.Setenv("SKIP", "")
	rep, err = Slurm(t.Context(), f.Options)
	require.NoError(t, err)
	require.Equal(t, []int{fakeCases, fakeCases * 2 / 3}, []int{rep.Passed, rep.Reused})
}

// The same on a real Slurm: a cluster of this one machine.
func TestSlurmCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("not run on a Slurm cluster: -short")
	}
	for _, tool := range []string{"sbatch", "/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/sbin/munged"} {
		if _, err := exec.LookPath(tool); err != nil {
			oracle.Skip(t, "for a Slurm cluster %s is missing: scripts/setup test", tool)
		}
	}
	if os.Geteuid() != 0 {
		oracle.Skip(t, "only root may run slurmd")
	}
	f := newFake(t)
	require.NoError(t, os.Chmod(f.OutDir, 0o755))
	cmd := exec.CommandContext(t.Context(), "../../scripts/slurm-local", os.Args[0], "submit")
	cmd.Env = append(os.Environ(), "EPIC_MATRIX_TASK=1", "EPIC_MATRIX_DIR="+f.OutDir)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "slurm job ")
	require.Contains(t, string(out), "36 passed in 3 shards\n")
	for i := range 3 {
		known, err := readResults(f.shardFile(filepath.Join(f.OutDir, "slurm"), i))
		require.NoError(t, err)
		require.Len(t, known, fakeCases/3)
	}
}

// TestMain is the program of these tests' tasks too, `cosim matrix --shard I/N --results FILE ...`, and submits
// them, `submit`. Its cases are made up.
func TestMain(m *testing.M) {
	if os.Getenv("EPIC_MATRIX_TASK") == "" || len(os.Args) < 2 || os.Args[1] != "cosim" && os.Args[1] != "submit" {
		os.Exit(m.Run())
	}
	o := Options{Whole: true, Axes: Axes{DataW: []int{64}, MTUs: []int{256}, DTypes: []spec.DType{spec.DTypeInt32}, Ops: []spec.Op{spec.OpSum}}}
	for i, a := range os.Args {
		switch a {
		case "--shard":
			fmt.Sscanf(os.Args[i+1], "%d/%d", &o.Shard, &o.Shards)
		case "--results":
			o.Results = os.Args[i+1]
		case "--sims":
			o.Sims = os.Args[i+1]
		case "--out":
			o.OutDir = os.Args[i+1]
		}
	}
	o.run = func(context.Context, run.Options) (*run.Report, error) { return &run.Report{SumEqual: true}, nil }
	do := Run
	if os.Args[1] == "submit" {
		do, o.Shards, o.Jobs, o.Progress = Slurm, 3, 1, os.Stdout
		o.Sims, o.OutDir = os.Getenv("EPIC_MATRIX_DIR"), os.Getenv("EPIC_MATRIX_DIR")
	}
	rep, err := do(context.Background(), o)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Printf("%d passed in %d shards\n", rep.Passed, o.Shards)
}
