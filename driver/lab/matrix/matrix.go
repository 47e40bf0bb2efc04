// Package matrix runs every collective in every mode, with 2 to 32 ranks and vectors of awkward sizes, in the lab,
// without loss and with: the results must be exact.
package matrix

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/epic-inc/epic/driver/lab"
	"github.com/epic-inc/epic/driver/softswitch"
	"github.com/epic-inc/epic/golden/cover"
	"github.com/epic-inc/epic/golden/expect"
	"github.com/epic-inc/epic/golden/fabric"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/ledger"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// The vectors are of int32, the packets of U bytes.
const (
	mtu   = 4096
	dtype = spec.DTypeInt32
)

// Size of a vector.
type Size struct {
	Name     string
	Elements int
}

// Sizes are those of the matrix: around U, and a prime that leaves a tail in every share.
func Sizes() []Size {
	u := mtu / expect.Element(dtype)
	return []Size{{"0", 0}, {"1", 1}, {"U-1", u - 1}, {"U", u}, {"U+1", u + 1}, {"prime", 16411}, {"1MB", 1 << 20 / expect.Element(dtype)}}
}

// Case is one point of the matrix.
type Case struct {
	Mode       int     `json:"mode"`
	Collective string  `json:"collective"`
	Ranks      int     `json:"ranks"`
	Size       string  `json:"size"`
	Loss       float64 `json:"loss"` // of every link, in both directions
}

// Key names the case.
func (c Case) Key() string {
	return fmt.Sprintf("mode%d %s %d ranks size %s loss %g", c.Mode, c.Collective, c.Ranks, c.Size, c.Loss)
}

func (c Case) elements() int {
	for _, s := range Sizes() {
		if s.Name == c.Size {
			return s.Elements
		}
	}
	return -1
}

// Axes are the levels of each factor; empty: all that there are.
type Axes struct {
	Modes       []int
	Collectives []string
	Ranks       []int
	Sizes       []string
	Losses      []float64
}

// Ranks of the whole matrix.
func Ranks() []int { return []int{2, 3, 4, 5, 8, 12, 16, 32} }

func fill[T any](to *[]T, all ...T) {
	if len(*to) == 0 {
		*to = all
	}
}

func (a *Axes) fill() {
	fill(&a.Modes, softswitch.Modes()...)
	fill(&a.Collectives, tree.Collectives()...)
	fill(&a.Ranks, Ranks()...)
	var sizes []string
	for _, s := range Sizes() {
		sizes = append(sizes, s.Name)
	}
	fill(&a.Sizes, sizes...)
	fill(&a.Losses, 0, 0.01)
}

// Cases are all points of the axes, or a pairwise slice of them, those of one number of ranks together. A Barrier has
// no elements: it is taken with size 0 alone.
func (a Axes) Cases(pairwise bool) []Case {
	a.fill()
	const collective, size = 1, 3
	s := &cover.Space{
		Factors: []cover.Factor{{Name: "mode", Levels: len(a.Modes)}, {Name: "collective", Levels: len(a.Collectives)}, {Name: "ranks", Levels: len(a.Ranks)},
			{Name: "size", Levels: len(a.Sizes)}, {Name: "loss", Levels: len(a.Losses)}},
		Never: func(p cover.Pair) bool {
			return p.A == collective && p.B == size && a.Collectives[p.LevelA] == tree.Barrier.String() && a.Sizes[p.LevelB] != Sizes()[0].Name
		},
	}
	rows := s.Whole()
	if pairwise {
		rows = s.Pairwise()
	}
	var list []Case
	for _, r := range rows {
		list = append(list, Case{a.Modes[r[0]], a.Collectives[r[1]], a.Ranks[r[2]], a.Sizes[r[3]], a.Losses[r[4]]})
	}
	slices.SortStableFunc(list, func(x, y Case) int { return x.Ranks - y.Ranks })
	return list
}

// Status of a case.
type Status string

// The statuses.
const (
	Passed Status = "passed"
	Failed Status = "failed"  // a wrong result, or none in time
	NotRun Status = "not_run" // the budget was over, or the run interrupted
)

// Result of one case. It is also a line of the results file.
type Result struct {
	Case
	Key     string  `json:"key"`
	Content string  `json:"content"` // hash of this program
	Status  Status  `json:"status"`
	Reason  string  `json:"reason,omitempty"`
	Seed    uint64  `json:"seed"`
	Frames  uint64  `json:"frames"` // on the wires
	Lost    uint64  `json:"lost"`
	WallS   float64 `json:"wall_s"`
	Reused  bool    `json:"reused,omitempty"` // from the results file
}

// DefaultLimit is how long a case may take. The longest, Mode-I with 32 ranks, 1 MB and loss, takes a minute on a busy machine.
const DefaultLimit = 5 * time.Minute

// Options of Run.
type Options struct {
	Axes     Axes
	Whole    bool
	Seed     uint64
	Budget   time.Duration // no case is begun after it; 0: no limit
	Limit    time.Duration // of one case; 0: DefaultLimit
	Results  string        // results file; empty: build/lab/results.jsonl
	Name     string        // of the lab
	Folder   string        // of the lab's state
	Progress io.Writer     // nil: silent
}

// Report of a run.
type Report struct {
	Slice   string   `json:"slice"` // pairwise or whole
	Seed    uint64   `json:"seed"`
	Cases   int      `json:"cases"`
	Passed  int      `json:"passed"`
	Failed  int      `json:"failed"`
	NotRun  int      `json:"not_run"`
	Reused  int      `json:"reused"`
	WallS   float64  `json:"wall_s"`
	Results []Result `json:"results"`
}

// ErrFailed says that a case gave a wrong result, or none in time.
var ErrFailed = errors.New("wrong or missing results")

// Run runs the cases. One whose result is in the results file, from the same program and seed, and is that it passed, is
// not run again.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Limit == 0 {
		o.Limit = DefaultLimit
	}
	if o.Results == "" {
		o.Results = filepath.Join("build", "lab", "results.jsonl")
	}
	if err := lab.Permitted(); err != nil {
		return nil, err
	}
	start := time.Now()
	cases := o.Axes.Cases(!o.Whole)
	if len(cases) == 0 {
		return nil, errors.New("lab matrix: got levels that no case has together, as barrier with a size; want one case at least")
	}
	content, err := self()
	if err != nil {
		return nil, err
	}
	known, err := ledger.Read(o.Results, func(r Result) string { return r.Key })
	if err != nil {
		return nil, err
	}
	file, err := ledger.Append(o.Results)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	rep := &Report{Slice: "pairwise", Seed: o.Seed}
	if o.Whole {
		rep.Slice = "whole"
	}
	var l *lab.Lab
	ranks := 0
	defer func() {
		if l != nil {
			l.Close()
		}
	}()
	for i, c := range cases {
		r := Result{Case: c, Key: c.Key(), Content: content, Seed: o.Seed, Status: NotRun}
		if k, ok := known[r.Key]; ok && k.Content == content && k.Seed == o.Seed && k.Status == Passed {
			k.Reused = true
			rep.add(k)
			continue
		}
		if ctx.Err() != nil || o.Budget > 0 && time.Since(start) > o.Budget {
			r.Reason = "the budget was over, or the run interrupted"
			rep.add(r)
			continue
		}
		set, job, err := c.job(o.Seed)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Key, err)
		}
		if l == nil || ranks != c.Ranks {
			if l != nil {
				if err := l.Close(); err != nil {
					return nil, err
				}
			}
			if l, err = lab.Up(lab.Options{Name: o.Name, Folder: o.Folder, Set: set, Seed: c.seed(o.Seed)}); err != nil {
				l = nil
				return nil, err
			}
			ranks = c.Ranks
		} else if err := l.Regroup(set, c.seed(o.Seed)); err != nil {
			return nil, err
		}
		o.run(ctx, l, job, &r)
		if r.Status != NotRun {
			if err := ledger.Write(file, r); err != nil {
				return nil, err
			}
		}
		rep.add(r)
		if o.Progress != nil {
			fmt.Fprintf(o.Progress, "%4d/%d  %-7s %6.2f s  %s  %s\n", i+1, len(cases), r.Status, r.WallS, r.Key, r.Reason)
		}
	}
	rep.WallS = time.Since(start).Seconds()
	switch {
	case ctx.Err() != nil:
		return rep, context.Cause(ctx)
	case rep.Failed > 0:
		return rep, fmt.Errorf("lab matrix: %w in %d of %d cases, seed %d", ErrFailed, rep.Failed, rep.Cases, o.Seed)
	case rep.NotRun > 0:
		return rep, fmt.Errorf("lab matrix: %d of %d cases were not run", rep.NotRun, rep.Cases)
	}
	return rep, nil
}

// run plays a case.
func (o *Options) run(ctx context.Context, l *lab.Lab, job *fabric.Job, r *Result) {
	limited, cancel := context.WithTimeout(ctx, o.Limit)
	defer cancel()
	took, err := l.Play(limited, job)
	r.WallS = took.Seconds()
	for i := range r.Ranks {
		out, in := l.Wire(i).Counts()
		r.Frames += out.Frames + in.Frames
		r.Lost += out.Lost + in.Lost
	}
	r.Status = Passed
	for _, s := range l.Switches() {
		for _, f := range s.Faults() {
			err = errors.Join(err, f)
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		r.Status, r.Reason = NotRun, "interrupted"
	case err != nil:
		r.Status, r.Reason = Failed, err.Error()
	}
}

// self is the hash of this program: another one's results are not taken.
func self() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("lab matrix: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("lab matrix: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("lab matrix: %w", err)
	}
	const enough = 12
	return hex.EncodeToString(h.Sum(nil)[:enough]), nil
}

// seed is the case's own, so it is the same run in every slice.
func (c Case) seed(seed uint64) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", seed, c.Key())
	return h.Sum64()
}

// job is the group of the case and its work. Its PSNs lie apart from those of the case before on the same queue pairs.
func (c Case) job(seed uint64) (*group.Set, *fabric.Job, error) {
	n := c.elements()
	if n < 0 {
		return nil, nil, fmt.Errorf("size: got %q, want one of %v", c.Size, Sizes())
	}
	o := lab.Shape()
	o.Mode, o.Ranks, o.Loss, o.DType, o.MTU = c.Mode, c.Ranks, c.Loss, dtype, mtu
	o.Slots, o.WindowPackets, o.MessagePackets = 64, 32, 4
	// All ranks share a few cores: the more there are the later each comes to send. A rank of Mode-II that takes that
	// for a loss sends its window again, which makes the others later still.
	for n := 8; n < c.Ranks; n *= 2 {
		o.HostTimeout++
		o.TimeoutTicks *= 2
	}
	if c.Mode == 2 && c.Ranks > 8 { // what one rank loses all send again, and each of their duplicates draws the result
		o.WindowPackets, o.MessagePackets = 4, 2
	}
	o.PSN0 = c.seed(seed) & psn.Mask
	o.Collective = c.Collective
	root := int(c.seed(seed) >> 32 % uint64(c.Ranks))
	if kind, err := tree.ParseCollective(c.Collective); err == nil && kind.HasRoot() {
		o.Collective = fmt.Sprintf("%s:%d", c.Collective, root)
	}
	set, err := group.GenerateSet(o)
	if err != nil {
		return nil, nil, err
	}
	steps, err := o.Steps()
	if err != nil {
		return nil, nil, err
	}
	work, err := fabric.RandomWork(set.Groups[0], c.seed(seed), steps, n*expect.Element(dtype))
	if err != nil {
		return nil, nil, err
	}
	job, err := fabric.NewJob(set, work)
	return set, job, err
}

func (r *Report) add(one Result) {
	r.Cases++
	switch one.Status {
	case Passed:
		r.Passed++
	case Failed:
		r.Failed++
	case NotRun:
		r.NotRun++
	}
	if one.Reused {
		r.Reused++
	}
	r.Results = append(r.Results, one)
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
	_, err := fmt.Fprintf(w, "%s: %d cases: %d passed, %d failed, %d not run; %d known before; seed %d; %.0f s\n", r.Slice, r.Cases, r.Passed, r.Failed,
		r.NotRun, r.Reused, r.Seed, r.WallS)
	return err
}
