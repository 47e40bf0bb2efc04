package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/epic-inc/epic/cosim/run"
	"github.com/epic-inc/epic/cosim/server"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/fabric"
)

// Options of Run.
type Options struct {
	Engines  []string // empty: both
	Modes    []int    // empty: 1 to 3
	DataW    int
	Sim      string // simulator; empty: that of DataW in build/sim
	Every    int    // every Every-th case; 0: 1
	First    int    // which of those is the first, 0..Every-1
	Jobs     int    // at a time; 0: one a core
	OutDir   string // for what explains a difference; empty: build/faults
	Progress io.Writer

	mistake engine.Mistake // of a test: of the golden engine
}

// Row counts the cases of one engine, mode and kind.
type Row struct {
	Engine string `json:"engine"`
	Mode   int    `json:"mode"`
	Fault  string `json:"fault"`
	Cases  int    `json:"cases"`
	Failed int    `json:"failed"`
}

// Failure is a case that was not made good.
type Failure struct {
	Case
	Reason string `json:"reason"`
}

// Report of a run.
type Report struct {
	Classes  []string  `json:"classes"` // of the frames that were struck
	Rows     []Row     `json:"rows"`
	Cases    int       `json:"cases"`
	Failed   int       `json:"failed"`
	Failures []Failure `json:"failures"`
	WallS    float64   `json:"wall_s"`
}

// WriteText writes a table of counts, and what failed.
func (r *Report) WriteText(w io.Writer) error {
	kinds := fabric.FaultKinds()
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "engine\tmode")
	for _, k := range kinds {
		fmt.Fprintf(t, "\t%v", k)
	}
	fmt.Fprintln(t)
	for i := 0; i < len(r.Rows); i += len(kinds) {
		fmt.Fprintf(t, "%s\t%d", r.Rows[i].Engine, r.Rows[i].Mode)
		for _, row := range r.Rows[i : i+len(kinds)] {
			fmt.Fprintf(t, "\t%d", row.Cases)
			if row.Failed > 0 {
				fmt.Fprintf(t, " (%d failed)", row.Failed)
			}
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, f := range r.Failures {
		if _, err := fmt.Fprintf(w, "%s: %s\n", f.Key(), f.Reason); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "frames: %s\n%d cases: %d made good, %d not\n", strings.Join(r.Classes, ", "), r.Cases, r.Cases-r.Failed, r.Failed)
	return err
}

func (o *Options) fill() error {
	if len(o.Engines) == 0 {
		o.Engines = Engines()
	}
	for _, e := range o.Engines {
		if !slices.Contains(Engines(), e) {
			return fmt.Errorf("engine: got %q, want one of %s", e, strings.Join(Engines(), ", "))
		}
	}
	if len(o.Modes) == 0 {
		o.Modes = []int{1, 2, 3}
	}
	for _, m := range o.Modes {
		if m < 1 || m > 3 {
			return fmt.Errorf("mode: got %d, want 1..3", m)
		}
	}
	if o.Every == 0 {
		o.Every = 1
	}
	if o.Every < 1 || o.First < 0 || o.First >= o.Every {
		return fmt.Errorf("slice: got %d of every %d, want 0..%d", o.First, o.Every, max(0, o.Every-1))
	}
	if o.Sim == "" {
		o.Sim = server.BinaryPath(server.BinaryFolder, o.DataW)
	}
	if slices.Contains(o.Engines, RTL) {
		if _, err := os.Stat(o.Sim); err != nil {
			return fmt.Errorf("simulator: %w (scripts/build-sim %d builds it)", err, o.DataW)
		}
	}
	if o.Jobs == 0 {
		o.Jobs = runtime.NumCPU()
	}
	if o.OutDir == "" {
		o.OutDir = filepath.Join("build", "faults")
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	return nil
}

// Run runs the cases. The report is whole also when some were not made good; what ends it early is another error.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	start := time.Now()
	var cases []Case
	for _, b := range Bases(o.Engines, o.Modes) {
		more, err := b.Cases(ctx, &o)
		if err != nil {
			return nil, err
		}
		cases = append(cases, more...)
	}
	cases = o.slice(cases)
	reasons := make([]error, len(cases))
	next := make(chan int)
	var all sync.WaitGroup
	var mu sync.Mutex
	done, told := 0, time.Now()
	for range min(o.Jobs, len(cases)) {
		all.Go(func() {
			for i := range next {
				reasons[i] = cases[i].Do(ctx, &o)
				mu.Lock()
				if done++; time.Since(told) > 2*time.Second {
					told = time.Now()
					fmt.Fprintf(o.Progress, "  %d of %d cases\n", done, len(cases))
				}
				mu.Unlock()
			}
		})
	}
	for i := range cases {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	all.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := report(cases, reasons)
	r.WallS = time.Since(start).Seconds()
	for i, err := range reasons {
		if err != nil && !errors.Is(err, ErrWrong) && !errors.Is(err, run.ErrDifference) && !errors.Is(err, server.ErrFault) {
			return nil, fmt.Errorf("%s: %w", cases[i].Key(), err)
		}
	}
	if r.Failed > 0 {
		return r, fmt.Errorf("%w: %d of %d cases", ErrWrong, r.Failed, r.Cases)
	}
	return r, nil
}

// slice leaves every Every-th case.
func (o *Options) slice(cases []Case) (mine []Case) {
	for i := o.First; i < len(cases); i += o.Every {
		mine = append(mine, cases[i])
	}
	return mine
}

func report(cases []Case, reasons []error) *Report {
	r := &Report{Cases: len(cases)}
	rows := map[Row]int{}
	for i, c := range cases {
		if !slices.Contains(r.Classes, c.Class) {
			r.Classes = append(r.Classes, c.Class)
		}
		key := Row{Engine: c.Engine, Mode: c.Mode}
		at, known := rows[key]
		if !known {
			at = len(r.Rows)
			rows[key] = at
			for _, k := range fabric.FaultKinds() {
				r.Rows = append(r.Rows, Row{Engine: c.Engine, Mode: c.Mode, Fault: k.String()})
			}
		}
		row := &r.Rows[at+int(c.Kind)]
		row.Cases++
		if reasons[i] != nil {
			row.Failed++
			r.Failed++
			r.Failures = append(r.Failures, Failure{c, reasons[i].Error()})
		}
	}
	slices.Sort(r.Classes)
	return r
}
