package demo

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/epic-inc/epic/cosim/run"
	"github.com/epic-inc/epic/golden/spec"
)

// Report is what a demo found: build/demo/report.json.
type Report struct {
	Figures
	// LatencyEmpty is the latency with every queue empty, that of the part "quiet".
	LatencyEmpty run.LatencyStats `json:"latency_empty_clocks"`

	DataW      int      `json:"data_w"`
	Pacing     string   `json:"pacing"`
	Loss       float64  `json:"loss"`                 // of every link in the part "loss"
	Parts      []Part   `json:"parts"`                // in the order in which they ran
	Difference string   `json:"difference,omitempty"` // why the demo ended early
	Files      []string `json:"files,omitempty"`      // written
}

// Part is one run of the demo.
type Part struct {
	Name string `json:"name"`
	What string `json:"what"`
	Figures
}

// Figures are those of a part or, added up, of all.
type Figures struct {
	FramesIn      uint64           `json:"frames_in"`
	FramesOut     uint64           `json:"frames_out"`
	In            In               `json:"in"`
	Out           Out              `json:"out"`
	Acks          uint64           `json:"acks"`    // sent by the engine
	Naks          uint64           `json:"naks"`    // sent by the engine, of any kind
	Resends       uint64           `json:"resends"` // results sent again
	Slots         uint64           `json:"slots"`   // completed, and their results released
	ComparedBytes uint64           `json:"compared_bytes"`
	Mismatches    int              `json:"mismatches"`
	SumEqual      bool             `json:"sum_equal"` // what every rank got is sum.i32
	Latency       run.LatencyStats `json:"latency_clocks"`
	Clocks        uint64           `json:"clocks"`
	WallS         float64          `json:"wall_s"`
	Seed          uint64           `json:"seed"`
	Gbps          float64          `json:"gbps,omitempty"` // of frames out, from the first frame in to the last out; of parts alone, for their loads differ
	SimTimeNs     float64          `json:"sim_time_ns"`
	ClocksPerS    float64          `json:"clocks_per_s"`
}

// In are the frames that the engine took, by kind.
type In struct {
	Data   uint64 `json:"data"`   // added to a slot
	Repeat uint64 `json:"repeat"` // data that was added, or acknowledged by all, before
	Ack    uint64 `json:"ack"`
	Nak    uint64 `json:"nak"` // RNR NAKs included
	Other  uint64 `json:"other"`
}

// Out are the frames that left the engine, by kind.
type Out struct {
	Result uint64 `json:"result"`
	Resend uint64 `json:"resend"`
	Ack    uint64 `json:"ack"`
	Nak    uint64 `json:"nak"` // RNR NAKs included
	Other  uint64 `json:"other"`
}

func (r *Report) add(p part, got *run.Report, right bool) {
	c := func(n spec.Counter) uint64 { return got.Counters[n.String()] }
	f := Figures{
		FramesIn: got.FramesIn, FramesOut: got.FramesOut, Acks: got.Acks, Naks: got.Naks, Resends: got.Resends,
		Slots: got.Slots, ComparedBytes: got.ComparedBytes, Mismatches: got.Mismatches, SumEqual: right && got.SumEqual,
		Latency: got.Latency, Clocks: got.Clocks, WallS: got.WallS, Seed: got.Seed, Gbps: got.Gbps,
		SimTimeNs: got.SimTimeNs, ClocksPerS: got.ClocksPerS,
	}
	f.In = In{Data: c(spec.CounterRxData), Repeat: repeated(got),
		Ack: c(spec.CounterRxAck), Nak: c(spec.CounterRxNak) + c(spec.CounterRxRNR)}
	f.In.Other = f.FramesIn - f.In.Data - f.In.Repeat - f.In.Ack - f.In.Nak
	f.Out = Out{Result: c(spec.CounterTxData), Resend: f.Resends, Ack: f.Acks, Nak: f.Naks}
	f.Out.Other = f.FramesOut - f.Out.Result - f.Out.Resend - f.Out.Ack - f.Out.Nak
	if !right && f.Mismatches == 0 {
		f.Mismatches = 1 // found by the demo
	}
	r.Parts = append(r.Parts, Part{Name: p.name, What: p.what, Figures: f})
}

// finish adds the parts up.
func (r *Report) finish(seed uint64, latencies []uint32, wall time.Duration) {
	t := Figures{SumEqual: len(r.Parts) > 0, Seed: seed, WallS: wall.Seconds()}
	simulating := 0.0
	for _, p := range r.Parts {
		t.FramesIn += p.FramesIn
		t.FramesOut += p.FramesOut
		t.In.Data += p.In.Data
		t.In.Repeat += p.In.Repeat
		t.In.Ack += p.In.Ack
		t.In.Nak += p.In.Nak
		t.In.Other += p.In.Other
		t.Out.Result += p.Out.Result
		t.Out.Resend += p.Out.Resend
		t.Out.Ack += p.Out.Ack
		t.Out.Nak += p.Out.Nak
		t.Out.Other += p.Out.Other
		t.Acks += p.Acks
		t.Naks += p.Naks
		t.Resends += p.Resends
		t.Slots += p.Slots
		t.ComparedBytes += p.ComparedBytes
		t.Mismatches += p.Mismatches
		t.SumEqual = t.SumEqual && p.SumEqual
		t.Clocks += p.Clocks
		t.SimTimeNs += p.SimTimeNs
		simulating += p.WallS
	}
	if len(latencies) > 0 {
		l := slices.Sorted(slices.Values(latencies))
		t.Latency = run.LatencyStats{Min: l[0], Median: l[len(l)/2], Max: l[len(l)-1]}
	}
	if simulating > 0 {
		t.ClocksPerS = float64(t.Clocks) / simulating
	}
	r.Figures = t
	if len(r.Parts) > 0 {
		r.LatencyEmpty = r.Parts[0].Latency
	}
}

// LatencyMeans says what latency_clocks are.
const LatencyMeans = `latency: clocks from the beat in which the headers of the packet that completes a slot end, to the
first beat of the slot's first result. In "quiet" every queue is empty: this is the hardware's own
figure. In the others it includes waiting for frames before it and for slots that are due before.`

// WriteText prints the report as a table with a column for each part.
func (r *Report) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	columns := make([]Figures, 0, len(r.Parts)+1)
	head := []string{""}
	for _, p := range r.Parts {
		head = append(head, p.Name)
		columns = append(columns, p.Figures)
	}
	if len(r.Parts) > 1 {
		head = append(head, "all")
		columns = append(columns, r.Figures)
	}
	line := func(cells []string) { fmt.Fprintln(t, strings.Join(cells, "\t")+"\t") }
	row := func(name string, cell func(*Figures) string) {
		cells := []string{pad(name)}
		for i := range columns {
			cells = append(cells, cell(&columns[i]))
		}
		line(cells)
	}
	count := func(name string, n func(*Figures) uint64) {
		row(name, func(f *Figures) string { return fmt.Sprint(n(f)) })
	}
	line(head)
	count("frames in", func(f *Figures) uint64 { return f.FramesIn })
	count("  data taken", func(f *Figures) uint64 { return f.In.Data })
	count("  data repeated", func(f *Figures) uint64 { return f.In.Repeat })
	count("  ACKs", func(f *Figures) uint64 { return f.In.Ack })
	count("  NAKs", func(f *Figures) uint64 { return f.In.Nak })
	count("  other", func(f *Figures) uint64 { return f.In.Other })
	count("frames out", func(f *Figures) uint64 { return f.FramesOut })
	count("  results", func(f *Figures) uint64 { return f.Out.Result })
	count("  resends", func(f *Figures) uint64 { return f.Out.Resend })
	count("  ACKs", func(f *Figures) uint64 { return f.Out.Ack })
	count("  NAKs", func(f *Figures) uint64 { return f.Out.Nak })
	count("slots completed", func(f *Figures) uint64 { return f.Slots })
	count("bytes compared", func(f *Figures) uint64 { return f.ComparedBytes })
	row("mismatches", func(f *Figures) string { return fmt.Sprint(f.Mismatches) })
	row("sum equal", func(f *Figures) string { return map[bool]string{true: "yes", false: "NO"}[f.SumEqual] })
	row("latency, clocks: min", func(f *Figures) string { return fmt.Sprint(f.Latency.Min) })
	row("  median", func(f *Figures) string { return fmt.Sprint(f.Latency.Median) })
	row("  max", func(f *Figures) string { return fmt.Sprint(f.Latency.Max) })
	row("simulated Gb/s out", func(f *Figures) string {
		if f.Gbps == 0 {
			return "-"
		}
		return fmt.Sprintf("%.1f", f.Gbps)
	})
	count("clocks", func(f *Figures) uint64 { return f.Clocks })
	row("clocks per second", func(f *Figures) string { return fmt.Sprintf("%.0f", f.ClocksPerS) })
	row("seconds", func(f *Figures) string { return fmt.Sprintf("%.1f", f.WallS) })
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, p := range r.Parts {
		fmt.Fprintf(w, "%-11s %s\n", p.Name+":", p.What)
	}
	fmt.Fprintln(w, LatencyMeans)
	if r.Difference != "" {
		fmt.Fprintln(w, "difference:", r.Difference)
	}
	if len(r.Files) > 0 {
		fmt.Fprintln(w, "written:", strings.Join(r.Files, ", "))
	}
	_, err := fmt.Fprintf(w, "engine of %d bits, pacing %s, seed %d\n", r.DataW, r.Pacing, r.Seed)
	return err
}

// pad keeps the first column of the right-aligned table to the left.
func pad(name string) string { return fmt.Sprintf("%-20s", name) }

// repeated counts the data frames of a run that the engine had taken before.
func repeated(r *run.Report) uint64 {
	return r.Counters[spec.VerdictDuplicate.Counter().String()] + r.Counters[spec.VerdictBehind.Counter().String()]
}
