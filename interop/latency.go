package interop

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/epic-inc/epic/golden/fabric"
	"github.com/epic-inc/epic/golden/tree"
	"github.com/epic-inc/epic/interop/guest"
)

// Latency is how long small messages take between two guests: perftest's ib_send_lat over one link, and AllReduce
// through the golden engine over a link to it and one from it. A link's delay is DelayUs each way in both. What
// is beyond the delay is the guests' own time, which without KVM is QEMU's: compare the two, no more.
type Latency struct {
	Bytes      int     `json:"bytes"`
	Times      int     `json:"times"`
	DelayUs    float64 `json:"delay_us"`
	SendMedian float64 `json:"ib_send_lat_median_us"` // one way: half of there and back
	SendP99    float64 `json:"ib_send_lat_p99_us"`
	SumMedian  float64 `json:"allreduce_median_us"` // of the slower rank
	SumP99     float64 `json:"allreduce_p99_us"`
}

const (
	latencyBytes = 8
	latencyTimes = 200
	latencyDelay = 20 * time.Microsecond
)

// MeasureLatency measures small messages.
func (l *Lab) MeasureLatency(ctx context.Context, o Options) (*Latency, error) {
	lat := &Latency{Bytes: latencyBytes, Times: latencyTimes, DelayUs: float64(latencyDelay) / 1e3}
	if err := l.sendLatency(ctx, lat); err != nil {
		return nil, fmt.Errorf("ib_send_lat: %w", err)
	}
	c := Case{Engine: Golden, Mode: 3, Collective: tree.AllReduce.String(), Numbers: Int32, Guests: 2, MTU: 1024, IP: 4, Wire: Quiet, Packets: VectorPackets}
	c.small = true
	w, err := l.run(ctx, c, o, extra{repeat: latencyTimes, busyPoll: true})
	if err != nil {
		return nil, fmt.Errorf("small AllReduce: %w", err)
	}
	for _, report := range w.result.reports {
		median, p99, err := stepTimes(report)
		if err != nil {
			return nil, err
		}
		lat.SumMedian, lat.SumP99 = max(lat.SumMedian, median), max(lat.SumP99, p99)
	}
	return lat, nil
}

// stepTimes reads the median and 99th percentile, in us, of step 0 from what epic_rank prints.
func stepTimes(report string) (median, p99 float64, err error) {
	for _, line := range strings.Split(report, "\n") {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "step" || words[1] != "0" {
			continue
		}
		for i := 2; i+1 < len(words); i++ {
			switch v, err := strconv.ParseFloat(words[i+1], 64); {
			case words[i] == "ms_median" && err == nil:
				median = v * 1e3
			case words[i] == "ms_p99" && err == nil:
				p99 = v * 1e3
			}
		}
	}
	if median == 0 || p99 == 0 {
		return 0, 0, fmt.Errorf("no times of step 0 in %q", report)
	}
	return median, p99, nil
}

// sendLatency joins two guests by one link, and lets ib_send_lat measure it.
func (l *Lab) sendLatency(ctx context.Context, lat *Latency) error {
	if err := drain(l.frames); err != nil {
		return err
	}
	n := fabric.New(1)
	p := &pace{net: n, frames: l.frames, period: time.Microsecond, zero: time.Now()}
	for k := range 2 {
		p.ports = append(p.ports, &port{g: l.guests[k]})
		p.ids = append(p.ids, n.Add(fmt.Sprintf("guest %d", k), p.ports[k]))
	}
	link := fabric.Link{Delay: uint64(latencyDelay / p.period), Rate: fabric.Rate{Bytes: goldenGbps * 125, Clocks: 1}}
	if err := n.Connect(p.ids[0], 0, p.ids[1], 0, link, link); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var all errgroup.Group
	all.Go(func() error {
		err := drive(ctx, p)
		if ctx.Err() != nil {
			return nil
		}
		return err
	})
	all.Go(func() error {
		defer stop()
		return l.runSendLat(ctx, lat)
	})
	return all.Wait()
}

// drive runs a network in real time until ctx ends.
func drive(ctx context.Context, p *pace) error {
	for {
		until := p.net.Now() + uint64(lookEvery/p.period)
		if next, ok := p.net.Next(); ok {
			until = min(until, max(next, p.net.Now()+1))
		}
		now, err := p.Await(ctx, until, true)
		if err != nil {
			return err
		}
		p.net.Run(max(now, p.net.Now()) + 1)
		if err := p.err(); err != nil {
			return err
		}
	}
}

func (l *Lab) runSendLat(ctx context.Context, lat *Latency) error {
	const options = "-d rxe0 -x 1 -F -c RC"
	command := fmt.Sprintf("ib_send_lat %s -s %d -n %d -I 0", options, lat.Bytes, lat.Times)
	server, err := l.guests[0].Start(func(*guest.Job) (string, error) { return "exec " + command + "\n", nil })
	if err != nil {
		return err
	}
	client, err := l.guests[1].Start(func(*guest.Job) (string, error) {
		// The server listens when it has its queue pair.
		return "sleep 2\nexec " + command + " 10.9.0.1\n", nil
	})
	if err != nil {
		return err
	}
	result, err := client.Wait(ctx)
	if err != nil {
		return err
	}
	if result.Status != 0 {
		_ = server.Kill()
		return fmt.Errorf("%w: exit status %d: %s %s", ErrRank, result.Status, result.Stderr, result.Stdout)
	}
	if _, err := server.Wait(ctx); err != nil {
		return err
	}
	lat.SendMedian, lat.SendP99, err = sendLatTimes(result.Stdout, lat.Bytes)
	return err
}

// sendLatTimes reads the typical time and the 99th percentile, in us, from what ib_send_lat prints: #bytes
// #iterations t_min t_max t_typical t_avg t_stdev 99% 99.9%.
func sendLatTimes(text string, bytes int) (median, p99 float64, err error) {
	for _, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) != 9 || words[0] != strconv.Itoa(bytes) {
			continue
		}
		median, err1 := strconv.ParseFloat(words[4], 64)
		p99, err2 := strconv.ParseFloat(words[7], 64)
		if err1 == nil && err2 == nil {
			return median, p99, nil
		}
	}
	return 0, 0, fmt.Errorf("no line of %d bytes in %q", bytes, text)
}

func (lat *Latency) writeText(w io.Writer) error {
	_, err := fmt.Fprintf(w, `%d bytes, %d times, links of %.0f us, us: median, 99th percentile
  ib_send_lat, one way over one link   %9.1f %9.1f
  AllReduce, over two links            %9.1f %9.1f
`, lat.Bytes, lat.Times, lat.DelayUs, lat.SendMedian, lat.SendP99, lat.SumMedian, lat.SumP99)
	return err
}
