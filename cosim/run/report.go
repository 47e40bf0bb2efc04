package run

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/epic-inc/epic/cosim/points"
	"github.com/epic-inc/epic/cosim/scoreboard"
	"github.com/epic-inc/epic/golden/spec"
)

// Report is what a run found. What is counted is of all its RTL engines together. Its JSON is the output of `epic cosim run --json` and build/demo/report.json.
type Report struct {
	FramesIn      uint64       `json:"frames_in"`      // retired by the RTL engine
	FramesOut     uint64       `json:"frames_out"`     // that left it, each compared byte by byte
	Acks          uint64       `json:"acks"`           // ACKs it sent
	Naks          uint64       `json:"naks"`           // NAKs of any kind it sent, RNR NAKs included
	Resends       uint64       `json:"resends"`        // results it sent again
	Slots         uint64       `json:"slots"`          // results it released
	ComparedBytes uint64       `json:"compared_bytes"` // of frames out
	Mismatches    int          `json:"mismatches"`     // a run ends at the first
	SumEqual      bool         `json:"sum_equal"`      // every rank has the sum, computed independently
	Latency       LatencyStats `json:"latency_clocks"`
	Clocks        uint64       `json:"clocks"` // of the RTL engine, set-up and the end's read-back included
	WallS         float64      `json:"wall_s"`
	Seed          uint64       `json:"seed"`

	DataW       int               `json:"data_w"`
	Ranks       int               `json:"ranks"`
	Bytes       int               `json:"bytes"` // of each rank's vector
	Barriers    int               `json:"barriers,omitempty"`
	Groups      int               `json:"groups"`                // that share the switches
	Resets      int               `json:"resets"`                // of all engines, with traffic under way
	Steps       []string          `json:"collectives,omitempty"` // of the first group, in their order
	RTLAt       string            `json:"rtl_at"`                // with commas between several
	Engines     []EngineReport    `json:"engines,omitempty"`     // of a run with several
	ClockMHz    float64           `json:"clock_mhz"`
	ClocksPerS  float64           `json:"clocks_per_s"` // simulated
	Gbps        float64           `json:"gbps"`         // frames out over the run's simulated time
	RxBusy      uint64            `json:"rx_busy"`      // clocks with a beat taken on s_axis_rx
	TxBusy      uint64            `json:"tx_busy"`      // clocks with a beat taken on m_axis_tx
	Records     uint64            `json:"records"`      // of the engine, each compared field by field
	Counters    map[string]uint64 `json:"counters"`     // the engine's that are not 0, all equal to golden's
	SimTimeNs   float64           `json:"sim_time_ns"`  // from the first frame driven to the last that left
	Cover       points.Counts     `json:"cover"`        // points of functional coverage that happened, and how often
	Difference  string            `json:"difference,omitempty"`
	Artifacts   []string          `json:"artifacts,omitempty"` // files written about the difference, or asked for
	Replay      bool              `json:"replay"`              // frames came from captures
	FirstResult int               `json:"first_result"`        // rank whose result is wrong; -1: none

	TrafficFrom uint64   `json:"traffic_from"` // clock at which set-up ends and frames may come
	Latencies   []uint32 `json:"-"`            // in clocks, one of each slot, sorted: what Latency sums up
	Results     [][]byte `json:"-"`            // what each rank of the first group got of the last collective

	outBytes uint64
	traffic  phase
}

// phase is the part of a run from the end of the engine's set-up to the last frame.
type phase struct {
	clocks       uint64
	rx, tx, busy uint64 // clocks with a beat on s_axis_rx, on m_axis_tx, on either
	wallS        float64
}

// LatencyStats is, in clocks, how long after the beat that ended its headers the packet that completed a
// slot was followed by the first beat of the slot's first result. All 0 if no result left.
type LatencyStats struct {
	Min    uint32 `json:"min"`
	Median uint32 `json:"median"`
	Max    uint32 `json:"max"`
}

// EngineReport is the part of one engine.
type EngineReport struct {
	Switch    string `json:"switch"`
	FramesIn  uint64 `json:"frames_in"`
	FramesOut uint64 `json:"frames_out"`
	Slots     uint64 `json:"slots"`
	Resends   uint64 `json:"resends"`
	Records   uint64 `json:"records"`
}

// take fills in what the scoreboards and the engines counted.
func (r *Report) take(engines ...*rtl) {
	var all scoreboard.Stats
	r.Latencies, r.Engines, r.Cover = nil, nil, points.Counts{}
	for _, e := range engines {
		st := e.stats()
		all.Add(&st)
		for _, b := range e.boards() {
			r.Latencies = append(r.Latencies, b.Latency()...)
			r.Cover.Add(b.Points())
		}
		if len(engines) > 1 {
			r.Engines = append(r.Engines, EngineReport{e.name, st.FramesIn, st.FramesOut, st.Slots, st.Counters[spec.CounterTxResend], st.Records})
		}
	}
	slices.Sort(r.Latencies)
	c := &all.Counters
	r.FramesIn, r.FramesOut, r.Slots, r.ComparedBytes, r.Records = all.FramesIn, all.FramesOut, all.Slots, all.ComparedBytes, all.Records
	r.Acks = c[spec.CounterTxAck]
	r.Naks = c[spec.CounterTxNak] + c[spec.CounterTxRNR] + c[spec.CounterTxFatal]
	r.Resends = c[spec.CounterTxResend]
	r.outBytes = r.ComparedBytes
	if l := r.Latencies; len(l) > 0 {
		r.Latency = LatencyStats{Min: l[0], Median: l[len(l)/2], Max: l[len(l)-1]}
	}
	r.Counters = map[string]uint64{}
	for i, n := range c {
		if n != 0 {
			r.Counters[spec.Counter(i).String()] = n
		}
	}
}

// boards are those of before each reset, and that of now.
func (r *rtl) boards() []*scoreboard.Scoreboard { return append(slices.Clone(r.past), r.board) }

// stats are those of all boards together.
func (r *rtl) stats() (sum scoreboard.Stats) {
	for _, b := range r.boards() {
		st := b.Stats()
		sum.Add(&st)
	}
	return sum
}

// rates fills in what follows from the times.
func (r *Report) rates() {
	if r.WallS > 0 {
		r.ClocksPerS = float64(r.Clocks) / r.WallS
	}
	if r.SimTimeNs > 0 {
		r.Gbps = float64(r.outBytes) * 8 / r.SimTimeNs
	}
}

// WriteText prints the report as a table.
func (r *Report) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	c := func(n spec.Counter) uint64 { return r.Counters[n.String()] }
	row("RTL engine", "%s, %d bits, seed %d", r.RTLAt, r.DataW, r.Seed)
	if len(r.Steps) > 1 {
		row("collectives", "%s", strings.Join(r.Steps, ", "))
	}
	if r.Resets > 0 {
		row("resets", "%d", r.Resets)
	}
	if r.Groups > 1 {
		row("groups", "%d, on the same switches", r.Groups)
	}
	row("frames in", "%d: %d data taken, %d duplicate, %d ACK, %d NAK, %d RNR NAK, %d other", r.FramesIn, c(spec.CounterRxData),
		c(spec.VerdictDuplicate.Counter()), c(spec.CounterRxAck), c(spec.CounterRxNak), c(spec.CounterRxRNR),
		r.FramesIn-c(spec.CounterRxData)-c(spec.VerdictDuplicate.Counter())-c(spec.CounterRxAck)-c(spec.CounterRxNak)-c(spec.CounterRxRNR))
	row("frames out", "%d: %d results, %d resends, %d ACK, %d NAK, %d RNR NAK", r.FramesOut, c(spec.CounterTxData),
		r.Resends, r.Acks, c(spec.CounterTxNak)+c(spec.CounterTxFatal), c(spec.CounterTxRNR))
	row("slots completed", "%d", r.Slots)
	row("compared", "%d bytes of frames, %d records", r.ComparedBytes, r.Records)
	row("mismatches", "%d", r.Mismatches)
	for _, e := range r.Engines {
		row("at "+e.Switch, "%d frames in, %d out, %d slots, %d resends, %d records", e.FramesIn, e.FramesOut, e.Slots, e.Resends, e.Records)
	}
	row("sum equal", "%s", map[bool]string{true: "yes", false: "NO"}[r.SumEqual])
	row("latency", "%d / %d / %d clocks (min, median, max)", r.Latency.Min, r.Latency.Median, r.Latency.Max)
	row("simulated", "%d clocks, %.1f us, %.1f Gb/s out at %g MHz", r.Clocks, r.SimTimeNs/1000, r.Gbps, r.ClockMHz)
	row("speed", "%.0f clocks/s, %.1f s", r.ClocksPerS, r.WallS)
	for _, a := range r.Artifacts {
		row("written", "%s", a)
	}
	if r.Difference != "" {
		row("difference", "%s", r.Difference)
	}
	return t.Flush()
}

// BenchReport compares the speed of the checked simulation with that of the bare one.
type BenchReport struct {
	DataW             int     `json:"data_w"`
	BareClocksPerS    float64 `json:"bare_clocks_per_s"`
	CheckedClocksPerS float64 `json:"checked_clocks_per_s"`
	Ratio             float64 `json:"ratio"`
	CocotbClocksPerS  float64 `json:"cocotb_clocks_per_s,omitempty"` // 0: not asked for
	CocotbRatio       float64 `json:"cocotb_ratio,omitempty"`        // checked by cocotb
	Clocks            uint64  `json:"clocks"`
	Busy              float64 `json:"busy"`    // part of the clocks with a beat on s_axis_rx or m_axis_tx
	RxBusy            float64 `json:"rx_busy"` // on s_axis_rx
	TxBusy            float64 `json:"tx_busy"` // on m_axis_tx
	Runs              int     `json:"runs"`    // of each kind; the fastest counts
	Seed              uint64  `json:"seed"`
}

// WriteText prints the report as a table.
func (r *BenchReport) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "data path\t%d bits\n", r.DataW)
	fmt.Fprintf(t, "run\t%d clocks, %.1f %% of them busy (in %.1f %%, out %.1f %%), seed %d; the fastest of %d runs of each kind\n",
		r.Clocks, 100*r.Busy, 100*r.RxBusy, 100*r.TxBusy, r.Seed, r.Runs)
	fmt.Fprintf(t, "bare\t%.0f clocks/s\n", r.BareClocksPerS)
	fmt.Fprintf(t, "checked\t%.0f clocks/s\n", r.CheckedClocksPerS)
	fmt.Fprintf(t, "ratio\t%.2f\n", r.Ratio)
	if r.CocotbClocksPerS > 0 {
		fmt.Fprintf(t, "cocotb, no checks\t%.0f clocks/s\n", r.CocotbClocksPerS)
		fmt.Fprintf(t, "checked by cocotb\t%.1f\n", r.CocotbRatio)
	}
	return t.Flush()
}
