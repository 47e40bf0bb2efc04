package interop

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/epic-inc/epic/cosim/run"
	"github.com/epic-inc/epic/cosim/server"
	"github.com/epic-inc/epic/golden/ledger"
	"github.com/epic-inc/epic/interop/guest"
)

// Status of a case.
type Status string

// The statuses. Of a case that was not run nothing is known.
const (
	Passed Status = "passed"
	Failed Status = "failed"  // a difference, a wrong result, or a rank that failed
	Lost   Status = "lost"    // a guest or the simulator ended or fell silent
	Broken Status = "broken"  // the case could not be set up
	NotRun Status = "not_run" // the budget was over, or the run interrupted
)

// Options of Run.
type Options struct {
	Axes     Axes
	Whole    bool // every case, not the pairwise slice
	Seed     uint64
	Budget   time.Duration // no case is begun after it; 0: no limit
	Again    bool          // runs what is known to have passed, too
	Accel    guest.Accel   // empty: KVM if it works
	Image    string        // folder of the guest; empty: guest.ImageFolder
	DataW    int           // of the RTL; 0: 512
	Sims     string        // folder of the simulators; empty: build/sim
	OutDir   string        // results, and what explains a difference; empty: build/interop
	Latency  bool          // measures small messages too
	Packets  int           // of a rank's vector; 0: VectorPackets
	Capture  string        // file for the RoCE frames at the port of rank 0, of one case; empty: none
	Progress io.Writer     // nil: silent
}

func (o *Options) fill() error {
	if o.DataW == 0 {
		o.DataW = 512
	}
	if o.Sims == "" {
		o.Sims = server.BinaryFolder
	}
	if o.OutDir == "" {
		o.OutDir = filepath.Join("build", "interop")
	}
	if o.Image == "" {
		o.Image = guest.ImageFolder
	}
	if o.Budget < 0 {
		return fmt.Errorf("budget: got %v, want 0 (none) or more", o.Budget)
	}
	if o.Accel != "" && o.Accel != guest.KVM && o.Accel != guest.TCG {
		return fmt.Errorf("accel: got %q, want %s or %s", o.Accel, guest.KVM, guest.TCG)
	}
	if o.Packets == 0 {
		o.Packets = VectorPackets
	}
	if o.Packets < 1 || o.Packets > maxPackets {
		return fmt.Errorf("packets: got %d, want 1..%d", o.Packets, maxPackets)
	}
	switch n := len(o.cases()); {
	case n == 0:
		return errors.New("interop: got levels that no case has together, as the RTL in mode 1; want one case at least")
	case o.Capture != "" && n > 1:
		return fmt.Errorf("capture: got %d cases, want one: choose a level of each factor", n)
	}
	return nil
}

// maxPackets of a vector: more would not end before the ranks give up.
const maxPackets = 4096

// cases are those of the axes, with vectors of so many packets.
func (o *Options) cases() []Case {
	list := o.Axes.Cases(!o.Whole)
	for i := range list {
		list[i].Packets = o.Packets
	}
	return list
}

func (o *Options) sim() string { return server.BinaryPath(o.Sims, o.DataW) }

// Report of a run.
type Report struct {
	Slice   string   `json:"slice"` // pairwise or whole
	Kernel  string   `json:"kernel,omitempty"`
	Accel   string   `json:"accel,omitempty"`
	Seed    uint64   `json:"seed"`
	Cases   int      `json:"cases"`
	Passed  int      `json:"passed"`
	Failed  int      `json:"failed"`
	Lost    int      `json:"lost"`
	Broken  int      `json:"broken"`
	NotRun  int      `json:"not_run"`
	Reused  int      `json:"reused"` // of those that passed: found in the results file
	WallS   float64  `json:"wall_s"`
	Results []Result `json:"results"`
	Latency *Latency `json:"latency,omitempty"`
}

// caseMost bounds a case; ranks give up before.
const caseMost = (guestGiveUp + 60) * time.Second

// Run boots guests once and runs the cases one after the other. A case that is in the results file as passed, with
// the same guest, simulator and program, is not run again. The error says what is not as it should be; the
// report is whole all the same.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	start := time.Now()
	cases := o.cases()
	content, err := o.hash(cases)
	if err != nil {
		return nil, err
	}
	results := filepath.Join(o.OutDir, "results.jsonl")
	known, err := ledger.Read(results, func(r Result) string { return r.Key })
	if err != nil {
		return nil, err
	}
	file, err := ledger.Append(results)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	rep := &Report{Slice: "pairwise", Seed: o.Seed, Cases: len(cases)}
	if o.Whole {
		rep.Slice = "whole"
	}
	var todo []int
	guests := 2
	for i, c := range cases {
		rep.Results = append(rep.Results, Result{Case: c, Key: c.Key(), Content: content, Seed: o.Seed, Status: NotRun, Reason: "not begun"})
		if r, ok := known[c.Key()]; ok && !o.Again && r.Content == content && r.Seed == o.Seed && r.Status == Passed {
			r.Reused = true
			rep.Results[i] = r
			continue
		}
		todo = append(todo, i)
		guests = max(guests, c.Guests)
	}
	if o.Whole { // hours: what is done when it is stopped is to be something of everything
		slices.SortFunc(todo, func(i, k int) int { return cmp.Compare(cases[i].seed(0), cases[k].seed(0)) })
	}
	say(o.Progress, "%d cases, %d of them known from %s; seed %d", len(cases), len(cases)-len(todo), results, o.Seed)
	if len(todo) > 0 || o.Latency {
		if err := o.runAll(ctx, start, rep, todo, guests, file); err != nil {
			return nil, err
		}
	}
	rep.count()
	rep.WallS = time.Since(start).Seconds()
	if err := context.Cause(ctx); err != nil {
		return rep, err
	}
	return rep, rep.err()
}

// runAll runs cases, and writes each result as soon as it is known. A guest that is lost is booted anew, with all
// the others.
func (o *Options) runAll(ctx context.Context, start time.Time, rep *Report, todo []int, guests int, file io.Writer) (err error) {
	var lab *Lab
	defer func() {
		if lab != nil {
			err = errors.Join(err, lab.Close())
		}
	}()
	boot := func() error {
		if lab != nil {
			return nil
		}
		var err error
		if lab, err = Boot(ctx, o.Image, guests, o.Accel, o.Progress); err != nil {
			return err
		}
		o.Accel = lab.Accel
		rep.Kernel, rep.Accel = lab.Kernel, string(lab.Accel)
		return nil
	}
	for n, i := range todo {
		if o.Budget > 0 && time.Since(start) > o.Budget {
			say(o.Progress, "the budget of %v is over: %d cases are not run", o.Budget, len(todo)-n)
			for _, k := range todo[n:] {
				rep.Results[k].Reason = fmt.Sprintf("the budget of %v was over", o.Budget)
			}
			break
		}
		if ctx.Err() != nil {
			return nil
		}
		if err := boot(); err != nil {
			return err
		}
		content := rep.Results[i].Content
		r := lab.RunCase(ctx, rep.Results[i].Case, *o)
		r.Content = content
		rep.Results[i] = r
		if r.Status != NotRun {
			if err := ledger.Write(file, r); err != nil {
				return err
			}
		}
		reason := ""
		if r.Reason != "" {
			reason = ": " + r.Reason
		}
		say(o.Progress, "%3d/%d  %-7s %5.1f s  %s  (%d frames, %d lost, %d repeated, %d late)%s", n+1, len(todo), r.Status, r.WallS, r.Key, r.Fates.Frames,
			r.Fates.Lost, r.Fates.Duplicates, r.Fates.Late, reason)
		if r.Status == Lost && ctx.Err() == nil {
			err := lab.Close()
			lab = nil
			if err != nil {
				return err
			}
		}
	}
	if !o.Latency || ctx.Err() != nil {
		return nil
	}
	if err := boot(); err != nil {
		return err
	}
	rep.Latency, err = lab.MeasureLatency(ctx, *o)
	return err
}

// hash of what decides the results.
func (o *Options) hash(cases []Case) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("interop: %w", err)
	}
	files := []string{self, filepath.Join(o.Image, "vmlinuz"), filepath.Join(o.Image, "initrd.gz")}
	if slices.ContainsFunc(cases, func(c Case) bool { return c.Engine == RTL }) {
		files = append(files, o.sim())
	}
	h := sha256.New()
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return "", fmt.Errorf("interop: %w (scripts/setup interop makes the guest, scripts/build-sim %d the simulator)", err, o.DataW)
		}
		_, err = io.Copy(h, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return "", fmt.Errorf("interop: %w", err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:12]), nil
}

// RunCase runs one case.
func (l *Lab) RunCase(ctx context.Context, c Case, o Options) Result {
	start := time.Now()
	w, err := l.run(ctx, c, o, extra{})
	r := Result{Case: c, Key: c.Key(), Seed: o.Seed}
	if w != nil {
		r = *w.result
	}
	r.WallS = time.Since(start).Seconds()
	r.Status, r.Reason = Passed, ""
	switch {
	case err == nil:
		return r
	case ctx.Err() != nil:
		r.Status = NotRun
	case errors.Is(err, ErrWrong), errors.Is(err, ErrRank), errors.Is(err, run.ErrDifference), errors.Is(err, server.ErrFault), errors.Is(err, context.DeadlineExceeded):
		r.Status = Failed
	case errors.Is(err, guest.ErrLost), errors.Is(err, server.ErrLost):
		r.Status = Lost
	default:
		r.Status = Broken
	}
	r.Reason = err.Error()
	return r
}

func (l *Lab) run(ctx context.Context, c Case, o Options, x extra) (w *world, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, caseMost, fmt.Errorf("the case has not ended within %v: %w", caseMost, context.DeadlineExceeded))
	defer cancel()
	if err := drain(l.frames); err != nil {
		return nil, err
	}
	w, err = l.start(ctx, c, o.Seed, x)
	if w != nil {
		defer func() { err = errors.Join(err, w.end()) }()
	}
	if err != nil {
		return w, err
	}
	w.pace = &pace{frames: l.frames, period: period(w.group)}
	if o.Capture != "" {
		if w.tape, err = record(o.Capture); err != nil {
			return w, err
		}
		defer func() { err = errors.Join(err, w.tape.close()) }()
	}
	through := func() error { return l.runGolden(ctx, w) }
	if c.Engine == RTL {
		through = func() error { return l.runRTL(ctx, w, o) }
	}
	if err := through(); err != nil {
		return w, err
	}
	return w, w.finish(ctx)
}

func (r *Report) count() {
	for _, one := range r.Results {
		*map[Status]*int{Passed: &r.Passed, Failed: &r.Failed, Lost: &r.Lost, Broken: &r.Broken, NotRun: &r.NotRun}[one.Status]++
		if one.Reused {
			r.Reused++
		}
	}
}

// err is nil if every case passed.
func (r *Report) err() error {
	switch {
	case r.Failed > 0:
		return fmt.Errorf("interop: %w: %d of %d cases failed", run.ErrDifference, r.Failed, r.Cases)
	case r.Lost > 0:
		return fmt.Errorf("interop: %w in %d of %d cases", guest.ErrLost, r.Lost, r.Cases)
	case r.Broken > 0:
		return fmt.Errorf("interop: %d of %d cases could not be set up", r.Broken, r.Cases)
	case r.NotRun > 0:
		return fmt.Errorf("interop: %d of %d cases were not run", r.NotRun, r.Cases)
	}
	return nil
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
	if r.Latency != nil {
		if err := r.Latency.writeText(w); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%s: %d cases: %d passed, %d failed, %d lost, %d broken, %d not run; %d known before; %.0f s; seed %d\n", r.Slice, r.Cases,
		r.Passed, r.Failed, r.Lost, r.Broken, r.NotRun, r.Reused, r.WallS, r.Seed)
	return err
}
