package matrix

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/epic-inc/epic/cosim/run"
	"github.com/epic-inc/epic/cosim/server"
	"github.com/epic-inc/epic/golden/ledger"
)

// Status of a case.
type Status string

// The statuses. Of a case that was not run nothing is known.
const (
	Passed      Status = "passed"
	Failed      Status = "failed"      // a difference, or a wrong result
	Unsupported Status = "unsupported" // the build lacks it; the reason says what
	Lost        Status = "lost"        // the simulator ended or fell silent
	Broken      Status = "broken"      // the case could not be set up
	NotRun      Status = "not_run"     // the budget was over, or the run interrupted
)

// Result of one case. It is also a line of the results file.
type Result struct {
	Case
	Key     string  `json:"key"`
	Content string  `json:"content"` // hash of the simulator and of this program
	Status  Status  `json:"status"`
	Reason  string  `json:"reason,omitempty"` // of every status but passed
	Seed    uint64  `json:"seed"`
	Clocks  uint64  `json:"clocks,omitempty"`
	Records uint64  `json:"records,omitempty"` // compared
	Resends uint64  `json:"resends,omitempty"`
	WallS   float64 `json:"wall_s"`
	Reused  bool    `json:"reused,omitempty"` // from the results file
}

// Options of Run.
type Options struct {
	Axes       Axes
	Whole      bool // every case, not the pairwise slice
	Seed       uint64
	Budget     time.Duration // no case is begun after it; 0: no limit
	Jobs       int           // cases at a time; 0: one a core
	Shard      int           // of Shards: every Shards-th case from this one on
	Shards     int           // 0: 1
	Results    string        // results file; empty: build/matrix/results.jsonl
	Sims       string        // folder of the simulators; empty: build/sim
	OutDir     string        // for what explains a difference; empty: build/matrix
	RequireAll bool          // unsupported is failed
	Progress   io.Writer     // nil: silent

	run func(context.Context, run.Options) (*run.Report, error) // of a test
}

// Report of a run.
type Report struct {
	Slice       string   `json:"slice"` // pairwise or whole
	Cases       int      `json:"cases"`
	Passed      int      `json:"passed"`
	Failed      int      `json:"failed"`
	Unsupported int      `json:"unsupported"`
	Lost        int      `json:"lost"`
	Broken      int      `json:"broken"`
	NotRun      int      `json:"not_run"`
	Reused      int      `json:"reused"` // of those that passed or are unsupported: found in the results file
	WallS       float64  `json:"wall_s"`
	Results     []Result `json:"results"`
}

func (o *Options) fill() error {
	if o.Shards == 0 {
		o.Shards = 1
	}
	if o.Shards < 1 || o.Shard < 0 || o.Shard >= o.Shards {
		return fmt.Errorf("shard: got %d of %d, want 0..%d", o.Shard, o.Shards, max(0, o.Shards-1))
	}
	if o.Jobs == 0 {
		o.Jobs = runtime.NumCPU()
	}
	if o.Jobs < 1 {
		return fmt.Errorf("jobs: got %d, want at least 1", o.Jobs)
	}
	if o.Budget < 0 {
		return fmt.Errorf("budget: got %v, want 0 (none) or more", o.Budget)
	}
	if len(o.Axes.Cases(!o.Whole)) == 0 { // nothing run is nothing passed
		return errors.New("matrix: got levels that no case has together, as bitwise operators of floats alone; want one case at least")
	}
	if o.OutDir == "" {
		o.OutDir = filepath.Join("build", "matrix")
	}
	if o.Results == "" {
		o.Results = filepath.Join(o.OutDir, "results.jsonl")
	}
	if o.Sims == "" {
		o.Sims = server.BinaryFolder
	}
	if o.run == nil {
		o.run = run.Run
	}
	return nil
}

// Run runs the cases of the axes, or of a shard of them. A case whose result is in the results file, from the
// same simulator and program, and is that it passed or is not supported, is not run again. The error says
// what is not as it should be; the report is whole all the same.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	start := time.Now()
	cases := o.cases()
	content, err := o.hashes(cases)
	if err != nil {
		return nil, err
	}
	known, err := readResults(o.Results)
	if err != nil {
		return nil, err
	}
	file, err := ledger.Append(o.Results)
	if err != nil {
		return nil, err
	}
	defer file.Close()

	results := make([]Result, len(cases))
	var todo []int
	for i, c := range cases {
		results[i] = Result{Case: c, Key: c.Key(), Content: content[c.DataW], Status: NotRun, Reason: "not begun"}
		if r, ok := known[c.Key()]; ok && r.Content == content[c.DataW] && r.Seed == o.Seed && (r.Status == Passed || r.Status == Unsupported) {
			r.Reused = true
			results[i] = r
			continue
		}
		todo = append(todo, i)
	}
	o.say("%d cases, %d of them known from %s", len(cases), len(cases)-len(todo), o.Results)
	if err := o.runAll(ctx, start, todo, results, file); err != nil {
		return nil, err
	}
	rep := o.report(results, time.Since(start))
	if err := context.Cause(ctx); err != nil {
		return rep, err
	}
	return rep, rep.err(o.RequireAll)
}

// cases are those of the shard.
func (o *Options) cases() []Case {
	var mine []Case
	for i, c := range o.Axes.Cases(!o.Whole) {
		if i%o.Shards == o.Shard {
			mine = append(mine, c)
		}
	}
	return mine
}

func (o *Options) sim(dataW int) string {
	return server.BinaryPath(o.Sims, dataW)
}

// hashes of what decides the results, by data path width.
func (o *Options) hashes(cases []Case) (map[int]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("matrix: %w", err)
	}
	hashes := map[int]string{}
	for _, c := range cases {
		if _, known := hashes[c.DataW]; known {
			continue
		}
		h := sha256.New()
		for _, file := range []string{self, o.sim(c.DataW)} {
			f, err := os.Open(file)
			if err != nil {
				return nil, fmt.Errorf("matrix: %w (scripts/build-sim %d builds a simulator)", err, c.DataW)
			}
			_, err = io.Copy(h, f)
			if err := errors.Join(err, f.Close()); err != nil {
				return nil, fmt.Errorf("matrix: %w", err)
			}
		}
		hashes[c.DataW] = hex.EncodeToString(h.Sum(nil)[:12])
	}
	return hashes, nil
}

// readResults reads the last result of each case.
func readResults(path string) (map[string]Result, error) {
	return ledger.Read(path, func(r Result) string { return r.Key })
}

// runAll runs cases, Jobs at a time, and writes each result as soon as it is known.
func (o *Options) runAll(ctx context.Context, start time.Time, todo []int, results []Result, file io.Writer) error {
	next := make(chan int)
	var mu sync.Mutex
	var wrote error
	done := 0
	var all sync.WaitGroup
	for range min(o.Jobs, len(todo)) {
		all.Go(func() {
			for i := range next {
				r := o.runCase(ctx, results[i])
				mu.Lock()
				results[i] = r
				if done++; r.Status != NotRun {
					wrote = errors.Join(wrote, ledger.Write(file, r))
				}
				o.say("%4d/%d  %-11s %6.1f s  %s%s", done, len(todo), r.Status, r.WallS, r.Key, because(r))
				mu.Unlock()
			}
		})
	}
	for n, i := range todo {
		if o.Budget > 0 && time.Since(start) > o.Budget {
			o.say("the budget of %v is over: %d cases are not run", o.Budget, len(todo)-n)
			for _, k := range todo[n:] {
				mu.Lock()
				results[k].Reason = fmt.Sprintf("the budget of %v was over", o.Budget)
				mu.Unlock()
			}
			break
		}
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	all.Wait()
	return wrote
}

func because(r Result) string {
	if r.Reason == "" {
		return ""
	}
	return ": " + r.Reason
}

// runCase runs one case.
func (o *Options) runCase(ctx context.Context, r Result) Result {
	start := time.Now()
	r.Seed, r.Status, r.Reason = o.Seed, Passed, ""
	ro, err := r.Options(o.Seed)
	if err != nil {
		r.Status, r.Reason = Broken, err.Error()
		return r
	}
	ro.Sim, ro.OutDir = o.sim(r.DataW), o.OutDir
	rep, err := o.run(ctx, ro)
	r.WallS = time.Since(start).Seconds()
	if rep != nil {
		r.Clocks, r.Records, r.Resends = rep.Clocks, rep.Records, rep.Resends
	}
	var lacks *run.Unsupported
	switch {
	case err == nil && rep.SumEqual:
		return r
	case err == nil:
		r.Status, r.Reason = Failed, "the ranks' results were not looked at"
		return r
	case ctx.Err() != nil:
		r.Status = NotRun
	case errors.As(err, &lacks):
		r.Status, r.Reason = Unsupported, lacks.Reason
		return r
	case errors.Is(err, run.ErrDifference), errors.Is(err, server.ErrFault):
		r.Status = Failed
	case errors.Is(err, server.ErrLost):
		r.Status = Lost
	default:
		r.Status = Broken
	}
	r.Reason = err.Error()
	return r
}

func (o *Options) report(results []Result, wall time.Duration) *Report {
	rep := &Report{Slice: "pairwise", Cases: len(results), WallS: wall.Seconds(), Results: results}
	if o.Whole {
		rep.Slice = "whole"
	}
	for _, r := range results {
		*map[Status]*int{Passed: &rep.Passed, Failed: &rep.Failed, Unsupported: &rep.Unsupported, Lost: &rep.Lost, Broken: &rep.Broken,
			NotRun: &rep.NotRun}[r.Status]++
		if r.Reused {
			rep.Reused++
		}
	}
	return rep
}

// err is nil if every case passed, or is one that the build lacks and that is no failure.
func (r *Report) err(requireAll bool) error {
	switch {
	case r.Failed > 0:
		return fmt.Errorf("matrix: %w: %d of %d cases failed", run.ErrDifference, r.Failed, r.Cases)
	case r.Lost > 0:
		return fmt.Errorf("matrix: %w in %d of %d cases", server.ErrLost, r.Lost, r.Cases)
	case r.Broken > 0:
		return fmt.Errorf("matrix: %d of %d cases could not be set up", r.Broken, r.Cases)
	case r.NotRun > 0:
		return fmt.Errorf("matrix: %d of %d cases were not run", r.NotRun, r.Cases)
	case requireAll && r.Unsupported > 0:
		return fmt.Errorf("matrix: %w: the build lacks what %d of %d cases ask for, want all", run.ErrDifference, r.Unsupported, r.Cases)
	}
	return nil
}

func (o *Options) say(format string, args ...any) {
	if o.Progress != nil {
		fmt.Fprintf(o.Progress, format+"\n", args...)
	}
}

// WriteText prints the cases that did not pass, and the counts.
func (r *Report) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, one := range r.Results {
		if one.Status != Passed {
			fmt.Fprintf(t, "%s\t%s\t%s\n", one.Status, one.Key, one.Reason)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s: %d cases: %d passed, %d failed, %d unsupported, %d lost, %d broken, %d not run; %d known before; %.0f s\n", r.Slice,
		r.Cases, r.Passed, r.Failed, r.Unsupported, r.Lost, r.Broken, r.NotRun, r.Reused, r.WallS)
	return err
}
