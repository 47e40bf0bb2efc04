// Package loss measures what lost frames cost in the RTL engine: a group of which a part of what the engine sends to one rank is lost, by itself and
// beside one that loses nothing. Both do AllReduce through the same engine and links, with golden's hosts, and golden checks every byte.
package loss

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"text/tabwriter"

	"github.com/epic-inc/epic/cosim/link"
	"github.com/epic-inc/epic/cosim/run"
	"github.com/epic-inc/epic/golden/fabric"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/roce"
)

// Options of Run.
type Options struct {
	Sim     string // path of inc_sim
	DataW   int
	Modes   []int
	Ranks   int
	Payload int     // bytes of every packet, an MTU
	Packets int     // of each rank's vector
	Loss    float64 // of what the engine sends to one rank of the lossy group, 0..1
	Seed    uint64
	Out     string // folder for what explains a difference

	MaxCost    float64 // part of its goodput that the clean group may lose; 0: no limit
	MinGoodput float64 // part of go-back-N's own that the lossy group must reach; 0: no limit

	Progress io.Writer // nil: silent
}

// Row is one mode. Goodput is in bits of a rank's vector in a clock.
type Row struct {
	Mode int `json:"mode"`
	// Of the clean group, beside one that loses nothing and beside one that does, over the stretch in which both run.
	Clean     float64 `json:"clean_bits_per_clock"`
	Beside    float64 `json:"beside_lossy_bits_per_clock"`
	CleanCost float64 `json:"clean_cost"` // the part that it loses; negative: it gains
	// Of the lossy group by itself.
	Lossless  float64 `json:"lossless_bits_per_clock"`
	Lossy     float64 `json:"lossy_bits_per_clock"`
	Lost      int     `json:"lost"`         // results on their way to the one rank
	PerPacket float64 `json:"p"`            // Lost by the PSNs of a vector
	Window    float64 `json:"w"`            // results that were sent again to that rank, by Lost
	GoBackN   float64 `json:"go_back_n"`    // 1/(1 + p w)
	Ratio     float64 `json:"ratio"`        // Lossy/Lossless
	OfGoBackN float64 `json:"of_go_back_n"` // Ratio/GoBackN
}

// Report is all rows.
type Report []Row

// ErrLimit means that a row is beyond a limit.
var ErrLimit = errors.New("beyond a limit")

// WriteText writes a line a row.
func (r Report) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "mode\tclean bits/clock\tbeside a lossy one\tcost\tlossless\tlossy\tp\tw\tratio\t1/(1+pw)\tof it")
	for _, x := range r {
		fmt.Fprintf(t, "%d\t%.1f\t%.1f\t%.1f %%\t%.1f\t%.1f\t%.4f\t%.1f\t%.3f\t%.3f\t%.0f %%\n", x.Mode, x.Clean, x.Beside, 100*x.CleanCost, x.Lossless, x.Lossy, x.PerPacket, x.Window,
			x.Ratio, x.GoBackN, 100*x.OfGoBackN)
	}
	return t.Flush()
}

// Run measures a row a mode. The report is whole also when a limit is not kept.
func Run(ctx context.Context, o Options) (Report, error) {
	if !(o.Loss > 0 && o.Loss < 1) {
		return nil, fmt.Errorf("loss: got %g, want more than 0 and less than 1", o.Loss)
	}
	if o.Packets < 1 {
		return nil, fmt.Errorf("packets: got %d, want 1 or more", o.Packets)
	}
	var report Report
	var beyond error
	for _, mode := range o.Modes {
		row, err := o.row(ctx, mode)
		if err != nil {
			return nil, fmt.Errorf("bench loss: mode %d: %w", mode, err)
		}
		report = append(report, *row)
		beyond = errors.Join(beyond, o.beyond(row))
	}
	return report, beyond
}

func (o *Options) beyond(row *Row) (err error) {
	if o.MaxCost > 0 && row.CleanCost > o.MaxCost {
		err = fmt.Errorf("%w: mode %d: the clean group loses %.1f %% of its goodput, want at most %.1f %%", ErrLimit, row.Mode, 100*row.CleanCost, 100*o.MaxCost)
	}
	if row.OfGoBackN < o.MinGoodput {
		err = errors.Join(err, fmt.Errorf("%w: mode %d: the lossy group reaches %.0f %% of go-back-N's own goodput, want %.0f %% or more", ErrLimit, row.Mode, 100*row.OfGoBackN, 100*o.MinGoodput))
	}
	return err
}

func (o *Options) row(ctx context.Context, mode int) (*Row, error) {
	row := &Row{Mode: mode}
	measure := func(groups int, loss float64) (flows []*flow, err error) {
		if o.Progress != nil {
			fmt.Fprintf(o.Progress, "mode %d: %d groups, loss %g\n", mode, groups, loss)
		}
		return o.measure(ctx, mode, groups, loss)
	}
	clean, err := measure(2, 0)
	if err != nil {
		return nil, err
	}
	mixed, err := measure(2, o.Loss)
	if err != nil {
		return nil, err
	}
	lossless, err := measure(1, 0)
	if err != nil {
		return nil, err
	}
	lossy, err := measure(1, o.Loss)
	if err != nil {
		return nil, err
	}
	row.Clean, row.Beside = o.goodput(clean[0]), o.goodput(mixed[0])
	row.CleanCost = 1 - row.Beside/row.Clean
	last := lossy[len(lossy)-1]
	row.Lossless, row.Lossy = o.goodput(lossless[0]), o.goodput(last)
	row.Lost, row.PerPacket = last.lost, float64(last.lost)/float64(o.Packets)
	if last.lost > 0 {
		row.Window = float64(last.again) / float64(last.lost)
	}
	row.GoBackN = 1 / (1 + row.PerPacket*row.Window)
	row.Ratio = row.Lossy / row.Lossless
	row.OfGoBackN = row.Ratio / row.GoBackN
	return row, nil
}

func (o *Options) goodput(f *flow) float64 {
	return 8 * float64(o.Packets*o.Payload) / float64(f.end)
}

// flow is the frames of a group.
type flow struct {
	seen        map[[2]uint32]bool
	lost, again int    // results to the one rank
	end         uint64 // arrival of the last result at a rank
}

// measure lets groups run; of several the last, and of one that, loses frames.
func (o *Options) measure(ctx context.Context, mode, groups int, loss float64) ([]*flow, error) {
	g := group.DefaultOptions()
	g.Mode, g.Ranks, g.MTU, g.MessagePackets = mode, o.Ranks, o.Payload, 16
	g.ClocksPerTick, g.TimeoutTicks, g.HostTimeout = 25, 400, 10
	var options []group.Options
	for range groups {
		options = append(options, g)
	}
	set, err := group.GenerateSet(options...)
	if err != nil {
		return nil, err
	}
	cfg, err := set.EngineConfig(set.Switches[0])
	if err != nil {
		return nil, err
	}
	var flows []*flow
	of := map[uint32]*flow{}
	per := len(cfg.Endpoints) / groups // the endpoints of the first group come first
	for i := range groups {
		f := &flow{seen: map[[2]uint32]bool{}}
		flows = append(flows, f)
		for _, e := range cfg.Endpoints[i*per : (i+1)*per] {
			of[e.QPN], of[e.PeerQPN] = f, f
		}
	}
	lossy := flows[groups-1]
	random := rand.New(rand.NewPCG(o.Seed, 0x6c6f7373))
	ro := run.Options{Group: set.Groups[0], DataW: o.DataW, Sim: o.Sim, Bytes: o.Packets * o.Payload, Seed: o.Seed, OutDir: o.Out, Pacing: link.PacingNone, Once: true,
		Prepare: func(n *fabric.Network) {
			n.Lose(func(from fabric.ID, port int, frame []byte) bool {
				if from != n.Switches[0] || port != 0 {
					return false
				}
				pkt, malformed := roce.Decode(frame)
				return malformed == nil && of[pkt.DestQP] == lossy && random.Float64() < loss
			})
			n.SetTap(func(p fabric.Passage) {
				pkt, malformed := roce.Decode(p.Frame)
				if malformed != nil || pkt.HasAETH() {
					return
				}
				f := of[pkt.DestQP]
				key := [2]uint32{uint32(p.From)<<16 | uint32(p.FromPort), uint32(pkt.PSN)}
				lossyWay := p.From == n.Switches[0] && p.FromPort == 0
				if f.seen[key] && lossyWay {
					f.again++
				}
				f.seen[key] = true
				if p.Fate == fabric.Lost {
					f.lost++
				} else if p.To != n.Switches[0] {
					f.end = max(f.end, p.Arrives)
				}
			})
		}}
	for _, beside := range set.Groups[1:] {
		ro.Beside = append(ro.Beside, run.Beside{Group: beside})
	}
	if _, err := run.Run(ctx, ro); err != nil {
		return nil, err
	}
	for i, f := range flows {
		if want := 2 * o.Ranks * o.Packets; len(f.seen) != want {
			return nil, fmt.Errorf("group %d: got %d different frames with data, want %d", i, len(f.seen), want)
		}
	}
	return flows, nil
}
