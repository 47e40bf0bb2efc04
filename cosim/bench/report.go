package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/epic-inc/epic/golden/spec"
)

// Options of a table of rows: every width by mode, dtype, payload, collective and number of ranks.
type Options struct {
	DataW        []int
	Modes        []int
	DTypes       []spec.DType
	Payloads     []int
	Ranks        []int
	Collectives  []string
	Reproducible bool
	Seed         uint64
	Sim          func(dataW int) string // path of the simulator of a width
	Progress     io.Writer              // nil: silent

	// MaxLatency and MinEfficiency are limits: a row beyond one is an ErrLimit, with the report all the
	// same. The efficiency counts for payloads of max(256 bytes, 8 beats) and up; 0: no limit. Below,
	// MaxClocksPerPacket is the limit.
	MaxLatency         uint64
	MinEfficiency      float64
	MaxClocksPerPacket float64
}

// ErrLimit means that a row is beyond a limit.
var ErrLimit = errors.New("beyond a limit")

// Report is a table of rows.
type Report []Row

// Run measures all rows. What the rows have in common is the seed: there is nothing random in them but
// the simulator's initial memory.
func Run(ctx context.Context, o Options) (Report, error) {
	var report Report
	var beyond []error
	for _, c := range o.cases() {
		row, err := Measure(ctx, c)
		if err != nil {
			return report, err
		}
		if o.Progress != nil {
			fmt.Fprintf(o.Progress, "%s: %d clocks, %.1f %%\n", c, row.LatencyClocks, 100*row.Efficiency)
		}
		report = append(report, *row)
		beyond = append(beyond, o.check(row))
	}
	return report, errors.Join(beyond...)
}

// cases are the rows to measure: the last factor changes first.
func (o *Options) cases() []Case {
	cases := []Case{{Reproducible: o.Reproducible, Seed: o.Seed}}
	cases = by(cases, o.DataW, func(c *Case, w int) { c.DataW, c.Sim = w, o.Sim(w) })
	cases = by(cases, o.Modes, func(c *Case, mode int) { c.Mode = mode })
	cases = by(cases, o.DTypes, func(c *Case, dtype spec.DType) { c.DType = dtype })
	cases = by(cases, o.Payloads, func(c *Case, bytes int) { c.Payload = bytes })
	cases = by(cases, o.Collectives, func(c *Case, collective string) { c.Collective = collective })
	return by(cases, o.Ranks, func(c *Case, ranks int) { c.Ranks = ranks })
}

// by is each of the cases with each of the levels.
func by[T any](cases []Case, levels []T, set func(*Case, T)) (list []Case) {
	for _, c := range cases {
		for _, l := range levels {
			set(&c, l)
			list = append(list, c)
		}
	}
	return list
}

// full says that a payload is one for which the efficiency has a limit.
func (r *Row) full() bool { return r.Payload >= max(256, r.DataW) } // 8 beats are DataW bytes

func (o *Options) check(r *Row) error {
	name := fmt.Sprintf("bench rtl: %d bits, mode %d, %s of %d ranks, %s, %d bytes", r.DataW, r.Mode, r.Collective, r.Ranks, r.DType, r.Payload)
	var errs []error
	if o.MaxLatency > 0 && r.LatencyClocks > o.MaxLatency {
		errs = append(errs, fmt.Errorf("%w: %s: got a latency of %d clocks, want at most %d", ErrLimit, name, r.LatencyClocks, o.MaxLatency))
	}
	if o.MinEfficiency > 0 && r.full() && r.Efficiency < o.MinEfficiency {
		errs = append(errs, fmt.Errorf("%w: %s: got %.1f %% of the clocks busy, want at least %.1f %%", ErrLimit, name, 100*r.Efficiency, 100*o.MinEfficiency))
	}
	if o.MaxClocksPerPacket > 0 && !r.full() && r.ClocksPerPacket > o.MaxClocksPerPacket && r.Efficiency < o.MinEfficiency {
		errs = append(errs, fmt.Errorf("%w: %s: got a packet every %.2f clocks, want one every %.2f", ErrLimit, name, r.ClocksPerPacket, o.MaxClocksPerPacket))
	}
	return errors.Join(errs...)
}

// WriteText writes the rows as a table.
func (r Report) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "bits\tmode\tcollective\tranks\tdtype\tpayload\tlatency\tefficiency\trx\ttx\tclocks/packet")
	for _, row := range r {
		fmt.Fprintf(t, "%d\t%d\t%s\t%d\t%s\t%d\t%d\t%.1f %%\t%.1f %%\t%.1f %%\t%.2f\n", row.DataW, row.Mode, row.Collective, row.Ranks, row.DType,
			row.Payload, row.LatencyClocks, 100*row.Efficiency, 100*row.RxBusy, 100*row.TxBusy, row.ClocksPerPacket)
	}
	return t.Flush()
}
