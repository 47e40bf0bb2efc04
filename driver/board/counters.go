package board

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/epic-inc/epic/driver/table"
	"github.com/epic-inc/epic/golden/spec"
)

// Counts are an engine's counters by name, in their order, since its reset.
type Counts []Count

// Count is one of them.
type Count struct {
	Name  string `json:"name"` // as in docs/registers.md
	Value uint64 `json:"value"`
}

// WriteText prints those that are not 0.
func (c Counts) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	any := false
	for _, one := range c {
		if one.Value > 0 {
			any = true
			fmt.Fprintf(t, "%s\t%d\t\n", one.Name, one.Value)
		}
	}
	if !any {
		fmt.Fprintln(t, "every counter is 0")
	}
	return t.Flush()
}

// Counters reads the counters of a board's engine, one after the other while it runs.
func Counters(ctx context.Context, w Where) (counts Counts, err error) {
	b, err := w.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	engine, err := table.Open(ctx, b)
	if err != nil {
		return nil, err
	}
	all, err := engine.ReadCounters(ctx)
	if err != nil {
		return nil, err
	}
	for i, v := range all {
		counts = append(counts, Count{spec.Counter(i).String(), v})
	}
	return counts, nil
}
