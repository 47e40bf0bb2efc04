// Package bench measures AllReduce in the lab: through the network, and by the hosts' ring over the same veths.
package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/epic-inc/epic/driver/coll"
	"github.com/epic-inc/epic/driver/lab"
	"github.com/epic-inc/epic/driver/rank"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/expect"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// Options of Run.
type Options struct {
	Ranks    []int
	Mode     int
	Bytes    int     // of each rank's vector of float32
	Gbps     float64 // of every link when paced
	Rounds   int     // small AllReduces, and round trips of the ping-pong; 0: none
	MinRatio float64 // part of the ideal ratio below which it fails
	Unpaced  bool    // measure without pacing too
	Profile  string  // file for a CPU profile of the unpaced AllReduces through the network; empty: none
	Seed     uint64
	Name     string // of the lab
	Folder   string
	Progress io.Writer // nil: silent
}

// Small is how long AllReduces of 8 bytes take without pacing, beside half a round trip of 8 bytes between two hosts
// over the same veths, in microseconds.
type Small struct {
	MedianUs         float64 `json:"median_us"`
	P99Us            float64 `json:"p99_us"`
	PingPongMedianUs float64 `json:"ping_pong_median_us"`
	PingPongP99Us    float64 `json:"ping_pong_p99_us"`
}

// Rate is what both ways reach: bits of a vector in a second.
type Rate struct {
	IncGbps  float64 `json:"inc_gbps"`
	RingGbps float64 `json:"ring_gbps"`
	Ratio    float64 `json:"ratio"`
}

// Row is one number of ranks.
type Row struct {
	Ranks    int     `json:"ranks"`
	Mode     int     `json:"mode"`
	Bytes    int     `json:"bytes"`
	LinkGbps float64 `json:"link_gbps"`
	Rate
	Ideal   float64 `json:"ideal_ratio"` // 2(D-1)/D: what a ring sends more than once
	Unpaced *Rate   `json:"unpaced,omitempty"`
	Small   *Small  `json:"small,omitempty"`
}

// Report is all rows.
type Report struct {
	Rows []Row `json:"rows"`
}

// ErrLimit says that a ratio was below MinRatio of the ideal one.
var ErrLimit = errors.New("below the limit")

// WriteText prints a line a row.
func (r *Report) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "ranks\tmode\tlink Gb/s\tinc Gb/s\tring Gb/s\tratio\tideal\tof it\tunpaced inc\tring\tratio\t8 B median us\tp99\tping-pong\tp99\t")
	for _, row := range r.Rows {
		fmt.Fprintf(t, "%d\t%d\t%.4g\t%.4f\t%.4f\t%.3f\t%.3f\t%.1f %%\t", row.Ranks, row.Mode, row.LinkGbps, row.IncGbps, row.RingGbps, row.Ratio, row.Ideal, 100*row.Ratio/row.Ideal)
		if u := row.Unpaced; u != nil {
			fmt.Fprintf(t, "%.4f\t%.4f\t%.3f\t", u.IncGbps, u.RingGbps, u.Ratio)
		} else {
			fmt.Fprint(t, "-\t-\t-\t")
		}
		if s := row.Small; s != nil {
			fmt.Fprintf(t, "%.0f\t%.0f\t%.0f\t%.0f\t\n", s.MedianUs, s.P99Us, s.PingPongMedianUs, s.PingPongP99Us)
		} else {
			fmt.Fprint(t, "-\t-\t-\t-\t\n")
		}
	}
	return t.Flush()
}

// Run measures. The report is whole also when a limit is not kept.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Bytes < expect.Element(spec.DTypeFloat32) || o.Bytes%expect.Element(spec.DTypeFloat32) != 0 {
		return nil, fmt.Errorf("bytes: got %d, want whole float32, one at least", o.Bytes)
	}
	r := &Report{}
	var errs []error
	for _, n := range o.Ranks {
		row, err := o.row(ctx, n)
		if err != nil {
			return r, fmt.Errorf("%d ranks: %w", n, err)
		}
		r.Rows = append(r.Rows, *row)
		if row.Ratio < o.MinRatio*row.Ideal {
			errs = append(errs, fmt.Errorf("%d ranks: ratio %.3f is %w, %.3g x %.3f", n, row.Ratio, ErrLimit, o.MinRatio, row.Ideal))
		}
	}
	return r, errors.Join(errs...)
}

// shape of the group: windows that keep the paced links busy, and timers that outlast what waits in front of them.
func (o *Options) shape(ranks int) group.Options {
	s := lab.Shape()
	s.Ranks, s.Mode, s.Gbps, s.DType = ranks, o.Mode, o.Gbps, spec.DTypeFloat32
	s.TimeoutTicks, s.HostTimeout = 100_000, 18 // 1 s
	// What a window waits in front of the wires, both ways, must not be taken for a loss.
	const headers, margin = 100, 4
	queued := time.Duration(margin * float64(s.Slots*(s.MTU+headers)*8) / o.Gbps)
	for host.AckTimeout(s.HostTimeout) < queued {
		s.HostTimeout++
	}
	s.TimeoutTicks = min(engine.MaxTimeoutTicks, max(s.TimeoutTicks, int(queued/spec.TickNs)))
	return s
}

func (o *Options) row(ctx context.Context, ranks int) (*Row, error) {
	row := &Row{Ranks: ranks, Mode: o.Mode, Bytes: o.Bytes, LinkGbps: o.Gbps, Ideal: 2 * float64(ranks-1) / float64(ranks)}
	rate, err := o.rate(ctx, ranks, true, nil)
	if err != nil {
		return nil, fmt.Errorf("paced: %w", err)
	}
	row.Rate = *rate
	if !o.Unpaced && o.Rounds == 0 {
		return row, nil
	}
	if o.Rounds > 0 {
		row.Small = new(Small)
	}
	if rate, err = o.rate(ctx, ranks, false, row.Small); err != nil {
		return nil, fmt.Errorf("unpaced: %w", err)
	}
	if o.Unpaced {
		row.Unpaced = rate
	}
	return row, nil
}

// rate makes a lab and measures both ways in it; the latencies too, if small is not nil.
func (o *Options) rate(ctx context.Context, ranks int, paced bool, small *Small) (rate *Rate, err error) {
	set, err := group.GenerateSet(o.shape(ranks))
	if err != nil {
		return nil, err
	}
	l, err := lab.Up(lab.Options{Name: o.Name, Folder: o.Folder, Set: set, Seed: o.Seed, Paced: paced})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	in := expect.Vectors(o.Seed, ranks, o.Bytes, spec.DTypeFloat32, spec.OpSum)
	want, err := expect.Reduce(spec.DTypeFloat32, spec.OpSum, in)
	if err != nil {
		return nil, err
	}
	rate = new(Rate)
	for _, way := range []struct {
		algorithm coll.Algorithm
		to        *float64
	}{{coll.Network, &rate.IncGbps}, {coll.Ring, &rate.RingGbps}} {
		if paced || o.Unpaced {
			took, err := o.profiled(!paced && way.algorithm == coll.Network, func() (time.Duration, error) {
				return o.reduce(ctx, l, way.algorithm, in, want)
			})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", coll.Algorithms()[way.algorithm], err)
			}
			*way.to = float64(o.Bytes) * 8 / took.Seconds() / 1e9
			o.say("%d ranks, %s, paced %v: %.2f s, %.4f Gb/s", ranks, coll.Algorithms()[way.algorithm], paced, took.Seconds(), *way.to)
		}
		if err := l.Regroup(set, o.Seed); err != nil { // the next begins at the first PSNs again
			return nil, err
		}
	}
	if rate.RingGbps > 0 {
		rate.Ratio = rate.IncGbps / rate.RingGbps
	}
	if small == nil {
		return rate, nil
	}
	if small.MedianUs, small.P99Us, err = o.latency(ctx, l); err != nil {
		return nil, fmt.Errorf("8 bytes: %w", err)
	}
	if small.PingPongMedianUs, small.PingPongP99Us, err = o.pingPong(ctx, l); err != nil {
		return nil, fmt.Errorf("ping-pong: %w", err)
	}
	return rate, nil
}

// profiled does something, and writes a CPU profile of it if that is asked for.
func (o *Options) profiled(wanted bool, do func() (time.Duration, error)) (took time.Duration, err error) {
	if !wanted || o.Profile == "" {
		return do()
	}
	f, err := os.Create(o.Profile)
	if err != nil {
		return 0, fmt.Errorf("profile: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := pprof.StartCPUProfile(f); err != nil {
		return 0, fmt.Errorf("profile: %w", err)
	}
	defer pprof.StopCPUProfile()
	return do()
}

func (o *Options) say(format string, args ...any) {
	if o.Progress != nil {
		fmt.Fprintf(o.Progress, format+"\n", args...)
	}
}

// endpoints are those of all ranks of a lab's group.
func endpoints(l *lab.Lab, g *group.Group) ([]*rank.Endpoint, error) {
	var all []*rank.Endpoint
	for r, one := range g.Ranks {
		link, err := l.Link(l.Hosts[0][r])
		if err == nil {
			var e *rank.Endpoint
			if e, err = rank.New(rank.Options{Name: group.RankName(r), Link: link, MAC: roce.MAC(one.MAC), IP: one.IP.Addr}); err == nil {
				all = append(all, e)
			}
		}
		if err != nil {
			for _, e := range all {
				e.Close()
			}
			return nil, err
		}
	}
	return all, nil
}

// each lets every rank of the lab do something with a communicator, and closes it.
func each(ctx context.Context, l *lab.Lab, a coll.Algorithm, do func(r int, c *coll.Comm) error) error {
	g, err := group.Load(l.Groups[0])
	if err != nil {
		return err
	}
	eps, err := endpoints(l, g)
	if err != nil {
		return err
	}
	errs := make([]error, len(eps))
	var all sync.WaitGroup
	for r, e := range eps {
		all.Go(func() {
			static, err := coll.NewStatic(g, r)
			if err != nil {
				errs[r] = errors.Join(err, e.Close())
				return
			}
			c, err := coll.New(ctx, coll.Options{Endpoint: e, Rendezvous: static, Job: "bench", Rank: r, Ranks: len(eps), Algorithm: a})
			if err != nil {
				errs[r] = errors.Join(err, e.Close())
				return
			}
			errs[r] = errors.Join(do(r, c), c.Close(ctx))
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// reduce is how long one AllReduce takes, from a Barrier until the last rank has it.
func (o *Options) reduce(ctx context.Context, l *lab.Lab, a coll.Algorithm, in [][]byte, want []byte) (time.Duration, error) {
	took := make([]time.Duration, len(in))
	err := each(ctx, l, a, func(r int, c *coll.Comm) error {
		out := make([]byte, len(in[r]))
		if err := c.Barrier(ctx); err != nil {
			return err
		}
		start := time.Now()
		if err := c.AllReduce(ctx, in[r], out, spec.DTypeFloat32, spec.OpSum); err != nil {
			return err
		}
		took[r] = time.Since(start)
		if !bytes.Equal(out, want) {
			return fmt.Errorf("rank %d: %s", r, expect.Differs(spec.DTypeFloat32, out, want))
		}
		return nil
	})
	return slices.Max(took), err
}

// latency of AllReduces of 8 bytes, one after the other, at rank 0.
func (o *Options) latency(ctx context.Context, l *lab.Lab) (median, p99 float64, err error) {
	times := make([]time.Duration, 0, o.Rounds)
	err = each(ctx, l, coll.Network, func(r int, c *coll.Comm) error {
		in, out := make([]byte, 8), make([]byte, 8)
		for range o.Rounds {
			start := time.Now()
			if err := c.AllReduce(ctx, in, out, spec.DTypeFloat32, spec.OpSum); err != nil {
				return err
			}
			if r == 0 {
				times = append(times, time.Since(start))
			}
		}
		return nil
	})
	median, p99 = quantiles(times, 1)
	return median, p99, err
}

// quantiles in microseconds, of times divided by n.
func quantiles(times []time.Duration, n float64) (median, p99 float64) {
	if len(times) == 0 {
		return 0, 0
	}
	slices.Sort(times)
	at := func(q float64) float64 { return float64(times[int(q*float64(len(times)-1))].Nanoseconds()) / 1e3 / n }
	return at(0.5), at(0.99)
}

// pingPong is half of the round trip of 8 bytes between golden's queue pairs at the first two hosts.
func (o *Options) pingPong(ctx context.Context, l *lab.Lab) (median, p99 float64, err error) {
	g, err := group.Load(l.Groups[0])
	if err != nil {
		return 0, 0, err
	}
	eps, err := endpoints(l, g)
	if err != nil {
		return 0, 0, err
	}
	defer func() {
		for _, e := range eps {
			err = errors.Join(err, e.Close())
		}
	}()
	for r := range 2 {
		own, err := g.HostConfig(r, 0)
		if err != nil {
			return 0, 0, err
		}
		peer := g.Ranks[1-r]
		const qpn = 0x700000
		own.QPN, own.PeerQPN, own.PeerMAC, own.PeerIP = qpn+uint32(r), qpn+uint32(1-r), roce.MAC(peer.MAC), peer.IP.Addr
		own.SendPSN, own.RecvPSN = psn.PSN(0), psn.PSN(0)
		if _, err := eps[r].AddQP(own, 1, 1); err != nil {
			return 0, 0, err
		}
	}
	wait := func(w *rank.Work, err error) error {
		if err != nil {
			return err
		}
		select {
		case <-w.Done():
			return w.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	send, recv := host.Op{Send: make([]byte, 8)}, host.Op{Recv: 8}
	answered := make(chan error, 1)
	go func() {
		for range o.Rounds {
			if err := wait(eps[1].Post(recv, send)); err != nil {
				answered <- err
				return
			}
		}
		answered <- nil
	}()
	times := make([]time.Duration, 0, o.Rounds)
	for range o.Rounds {
		start := time.Now()
		if err := wait(eps[0].Post(send, recv)); err != nil {
			return 0, 0, err
		}
		times = append(times, time.Since(start))
	}
	median, p99 = quantiles(times, 2)
	return median, p99, <-answered
}

// MinRanks of a row.
const MinRanks = tree.MinRanks
