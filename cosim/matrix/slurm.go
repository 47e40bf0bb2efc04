package matrix

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/epic-inc/epic/golden/ledger"
)

// args are the options as `epic cosim matrix` takes them, without shard and results.
func (o *Options) args() []string {
	a := o.Axes
	list := []string{"--seed", strconv.FormatUint(o.Seed, 10), "--jobs", strconv.Itoa(o.Jobs), "--sims", o.Sims, "--out", o.OutDir}
	if o.Whole {
		list = append(list, "--whole")
	}
	if o.Budget > 0 {
		list = append(list, "--budget", o.Budget.String())
	}
	for _, axis := range [][2]string{{"--mode", join(a.Modes)}, {"--collective", join(a.Collectives)}, {"--dtype", join(a.DTypes)},
		{"--op", join(a.Ops)}, {"--data-w", join(a.DataW)}, {"--mtu", join(a.MTUs)}, {"--tree", join(a.Trees)}} {
		if axis[1] != "" {
			list = append(list, axis[0], axis[1])
		}
	}
	return list
}

func join[T any](levels []T) string {
	var words []string
	for _, l := range levels {
		words = append(words, fmt.Sprint(l))
	}
	return strings.Join(words, ",")
}

// jobScript is what each task of the array runs. Arguments with blanks or quotes are quoted.
const jobScript = `#!/bin/sh
#SBATCH --job-name=epic-matrix
exec %s cosim matrix --shard "$SLURM_ARRAY_TASK_ID/%d" --results %s/shard-"$SLURM_ARRAY_TASK_ID".jsonl %s
`

func quoted(words ...string) string {
	for i, w := range words {
		words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}

// Slurm hands the shards of a run to a Slurm array job, waits for its end, and puts their results together.
// Simulators, program and output folder must be where the nodes find them by the same names.
func Slurm(ctx context.Context, o Options) (*Report, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	if o.Shard != 0 {
		return nil, fmt.Errorf("shard: got %d, want none: Slurm numbers them", o.Shard)
	}
	sbatch, err := exec.LookPath("sbatch")
	if err != nil {
		return nil, fmt.Errorf("engine slurm: %w: want Slurm's commands installed (Debian's slurm-client) and a cluster behind them, or the engine local", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("engine slurm: %w", err)
	}
	for _, path := range []*string{&o.OutDir, &o.Sims, &o.Results} {
		if *path, err = filepath.Abs(*path); err != nil {
			return nil, fmt.Errorf("engine slurm: %w", err)
		}
	}
	start := time.Now()
	dir, err := o.prepare()
	if err != nil {
		return nil, fmt.Errorf("engine slurm: %w", err)
	}
	script := fmt.Sprintf(jobScript, quoted(self), o.Shards, quoted(dir), quoted(o.args()...))
	if err := os.WriteFile(filepath.Join(dir, "job.sh"), []byte(script), 0o755); err != nil {
		return nil, fmt.Errorf("engine slurm: %w", err)
	}
	if err := o.submit(ctx, sbatch, dir); err != nil {
		return nil, err
	}
	return o.gather(dir, start)
}

// prepare makes a folder for the job, with what is known already in the results file of each shard.
func (o *Options) prepare() (string, error) {
	dir := filepath.Join(o.OutDir, "slurm")
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	known, err := os.ReadFile(o.Results)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	for i := range o.Shards {
		if err := os.WriteFile(o.shardFile(dir, i), known, 0o644); err != nil {
			return "", err
		}
	}
	return dir, nil
}

func (o *Options) shardFile(dir string, i int) string {
	return filepath.Join(dir, fmt.Sprintf("shard-%d.jsonl", i))
}

// submit starts the array job and waits for its end. If ctx ends first, so does the job.
func (o *Options) submit(ctx context.Context, sbatch, dir string) error {
	cmd := exec.Command(sbatch, "--parsable", "--wait", fmt.Sprintf("--array=0-%d", o.Shards-1), "--cpus-per-task="+strconv.Itoa(o.Jobs),
		"--chdir="+dir, "--output="+filepath.Join(dir, "shard-%a.log"), filepath.Join(dir, "job.sh"))
	var told bytes.Buffer
	cmd.Stderr = &told
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("engine slurm: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("engine slurm: %w", err)
	}
	first, _ := bufio.NewReader(out).ReadString('\n')
	id, _, _ := strings.Cut(strings.TrimSpace(first), ";") // a cluster's name may follow
	if id != "" {
		o.say("slurm job %s: %d shards, output in %s", id, o.Shards, dir)
	}
	stop := context.AfterFunc(ctx, func() {
		if id != "" {
			_ = exec.Command("scancel", id).Run()
		}
		_ = cmd.Process.Kill()
	})
	defer stop()
	_, _ = io.Copy(io.Discard, out)
	err = cmd.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if id == "" { // not even taken
		return fmt.Errorf("engine slurm: sbatch: %w: %s", err, strings.TrimSpace(told.String()))
	}
	return nil // the status is that of the worst shard; its results say more
}

// gather reads the shards' results, and adds them to the results file.
func (o *Options) gather(dir string, start time.Time) (*Report, error) {
	whole := *o
	whole.Shard, whole.Shards = 0, 1
	cases := whole.cases()
	content, err := o.hashes(cases)
	if err != nil {
		return nil, err
	}
	before, err := readResults(o.Results)
	if err != nil {
		return nil, err
	}
	shards := make([]map[string]Result, o.Shards)
	var lines bytes.Buffer
	for i := range shards {
		if shards[i], err = readResults(o.shardFile(dir, i)); err != nil {
			return nil, err
		}
	}
	results := make([]Result, len(cases))
	for n, c := range cases {
		key, i := c.Key(), n%o.Shards
		r, ok := shards[i][key]
		old, was := before[key]
		switch {
		case !ok || r.Content != content[c.DataW] || r.Seed != o.Seed:
			r = Result{Case: c, Key: key, Content: content[c.DataW], Seed: o.Seed, Status: NotRun,
				Reason: fmt.Sprintf("shard %d has no result: see %s", i, filepath.Join(dir, fmt.Sprintf("shard-%d.log", i)))}
		case was && old == r:
			r.Reused = r.Status == Passed || r.Status == Unsupported
		default:
			if err := ledger.Write(&lines, r); err != nil {
				return nil, err
			}
		}
		results[n] = r
	}
	file, err := ledger.Append(o.Results)
	if err != nil {
		return nil, err
	}
	if _, err := file.Write(lines.Bytes()); err != nil {
		return nil, fmt.Errorf("results: %w", errors.Join(err, file.Close()))
	}
	if err := file.Close(); err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	rep := o.report(results, time.Since(start))
	return rep, rep.err(o.RequireAll)
}
