package explore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// ErrFound says that a search found something wrong, or did not find what it had to.
var ErrFound = errors.New("the model checker found what must not be")

// WriteText prints a result for people: what was found, how it came about, and where it was looked.
func (r *Result) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s: %d states, %d transitions, diameter %d, %.1f s, %d MB (%s search)\n",
		r.Result, r.States, r.Transitions, r.Diameter, r.TimeS, r.MemoryMB, r.Search)
	if r.Reason != "" {
		fmt.Fprintln(w, r.Reason)
	}
	if r.Trace != nil {
		_, err := io.WriteString(w, r.Trace.String())
		return err
	}
	return nil
}

// Err is ErrFound if something is wrong; a search that was not finished has found nothing, neither right nor wrong.
func (r *Result) Err() error {
	switch r.Result {
	case Pass:
		return nil
	case OutOfMemory:
		return fmt.Errorf("not finished: %s; want more memory, or fewer packets or ranks", r.Reason)
	}
	return fmt.Errorf("%s: %w", r.Result, ErrFound)
}

// Suite is the outcome of cases.
type Suite struct {
	Cases []CaseResult `json:"cases"`
}

// CaseResult is that of one.
type CaseResult struct {
	Name string  `json:"name"`
	Want Verdict `json:"want"`
	*Result
}

// RunCases checks cases one after the other. The error is ErrFound if a verdict is not the one that is wanted.
func RunCases(ctx context.Context, cases []Case, o Options, progress io.Writer) (*Suite, error) {
	s := &Suite{}
	var wrong error
	for i, c := range cases {
		fmt.Fprintf(progress, "%d of %d: %s\n", i+1, len(cases), c.Name)
		r, err := Check(ctx, c.Config, o)
		if err != nil {
			return s, fmt.Errorf("%s: %w", c.Name, err)
		}
		s.Cases = append(s.Cases, CaseResult{c.Name, c.Want, r})
		if r.Result != c.Want {
			wrong = errors.Join(wrong, fmt.Errorf("%s: got %s, want %s: %s: %w", c.Name, r.Result, c.Want, r.Reason, ErrFound))
		}
	}
	return s, wrong
}

// WriteText is a table in Markdown, as docs/verification.md has it.
func (s *Suite) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintln(t, "| case\t| wanted\t| found\t| states\t| transitions\t| diameter\t| steps told\t| s\t|")
	fmt.Fprintln(t, "|---\t|---\t|---\t|---\t|---\t|---\t|---\t|---\t|")
	for _, c := range s.Cases {
		steps := ""
		if c.Trace != nil {
			steps = fmt.Sprint(c.Trace.Steps)
		}
		fmt.Fprintf(t, "| %s\t| %s\t| %s\t| %d\t| %d\t| %d\t| %s\t| %.1f\t|\n", c.Name, c.Want, c.Result.Result, c.States, c.Transitions, c.Diameter, steps, c.TimeS)
	}
	return t.Flush()
}

// String is a line that tells how far a search is.
func (p Progress) String() string {
	return fmt.Sprintf("%s search, round %d: %d states, %d transitions, %d to do, %d MB, %v",
		p.Search, p.Depth, p.States, p.Transitions, p.Frontier, p.MemoryMB, p.Elapsed.Round(time.Second))
}
