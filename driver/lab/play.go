package lab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/golden/fabric"
	"github.com/epic-inc/epic/golden/group"
)

// Play runs golden's hosts of a job on the hosts' interfaces, in real time, until every rank is done, and compares the
// results. The clocks of the job's groups are nanoseconds, as Shape has them. It returns how long the ranks took, from
// when they were all there.
func (l *Lab) Play(ctx context.Context, job *fabric.Job) (time.Duration, error) {
	if c := job.Set().Clock; c != (group.Clock{MHz: 1000, PerTick: 10000}) {
		return 0, fmt.Errorf("lab %s: got clocks of %v MHz, %d a tick; want nanoseconds, 1000 and 10000", l.Name, c.MHz, c.PerTick)
	}
	set := job.Set()
	hosts := make([]*player, len(set.Hosts))
	var left atomic.Int64
	left.Store(int64(len(hosts)))
	over, cancel := context.WithCancel(ctx)
	defer cancel()
	begin := make(chan struct{})
	for i := range hosts {
		link, err := l.Link(i)
		if err != nil {
			return 0, err
		}
		defer link.Close()
		h, err := job.Host(i, 0)
		if err != nil {
			return 0, err
		}
		hosts[i] = &player{link: link, host: h, done: func() {
			if left.Add(-1) == 0 {
				cancel() // until then a rank that is done answers those who ask again
			}
		}}
	}
	var all sync.WaitGroup
	errs := make([]error, len(hosts))
	start := time.Now()
	clock := newClock(start)
	all.Go(func() { clock.run(over) })
	for i, p := range hosts {
		p.clock = clock
		all.Go(func() {
			<-begin
			if errs[i] = p.run(over); errs[i] != nil {
				cancel()
			}
		})
	}
	close(begin)
	all.Wait()
	took := time.Since(start)
	if err := errors.Join(job.Err(), errors.Join(errs...)); err != nil {
		return took, err
	}
	if err := ctx.Err(); err != nil {
		got, total := job.Progress()
		return took, fmt.Errorf("lab %s: %d of %d bytes of results were there: %w", l.Name, got, total, err)
	}
	return took, job.Check()
}

// player is a node of a fabric that lives in real time, at an interface.
type player struct {
	link  device.Link
	host  *fabric.Host
	clock *clock
	done  func()
}

// run ends with ctx. done is called once the host is.
func (p *player) run(ctx context.Context) error {
	now := func() uint64 { return uint64(p.clock.now()) }
	var failed error
	p.host.Bind(func(_ int, frame []byte) {
		if err := p.link.Send(ctx, frame); err != nil && ctx.Err() == nil {
			failed = err
		}
	})
	p.host.Wake(now())
	told := false
	for ctx.Err() == nil && failed == nil {
		if !told && p.host.Done() {
			told = true
			p.done()
		}
		frame, err := p.next(ctx)
		switch {
		case err == nil:
			p.host.Receive(now(), 0, frame)
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			p.host.Wake(now())
		case ctx.Err() == nil:
			failed = err
		}
	}
	return failed
}

// next is a frame, or DeadlineExceeded when the host may want to wake.
func (p *player) next(ctx context.Context) ([]byte, error) {
	at, wakes := p.host.NextWake()
	if !wakes {
		return p.link.Receive(ctx)
	}
	const glance = 100 * time.Microsecond // what has arrived comes before a timer that has run out
	ctx, cancel := context.WithTimeout(ctx, max(glance, time.Duration(at)-p.clock.now()))
	defer cancel()
	return p.link.Receive(ctx)
}

// clock is the time in which the process could do something. One that gets no CPU for a while, because others have
// it, finds what has arrived meanwhile and timers that have run out, and would send everything again: then it gets even
// less done. Hosts that are machines of their own are not so.
type clock struct {
	mu      sync.Mutex
	elapsed time.Duration // until last
	last    time.Time
}

// The clock is looked at every tick; of a time in which that was not possible it counts slack.
const (
	tick  = 5 * time.Millisecond
	slack = 2 * tick
)

func newClock(now time.Time) *clock { return &clock{last: now} }

func (c *clock) since(now time.Time) time.Duration { return min(slack, now.Sub(c.last)) }

func (c *clock) now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.elapsed + c.since(time.Now())
}

func (c *clock) run(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.mu.Lock()
			now := time.Now()
			c.elapsed, c.last = c.elapsed+c.since(now), now
			c.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// Regroup gives the lab other groups on the same switches, ports and hosts, and its wires the links of those and a
// seed: their next frame is the first. Nothing of the old groups may be under way.
func (l *Lab) Regroup(set *group.Set, seed uint64) error {
	old := l.o.Set
	same := len(set.Switches) == len(old.Switches) && len(set.Hosts) == len(old.Hosts)
	for i := 0; same && i < len(set.Hosts); i++ {
		a, b := set.Hosts[i], old.Hosts[i]
		same = a.IP == b.IP && a.Switch == b.Switch && a.Port == b.Port
	}
	if !same {
		return fmt.Errorf("lab %s: got groups on other switches or hosts, want those it was made with", l.Name)
	}
	wires, err := set.Wires()
	if err != nil {
		return err
	}
	for i, s := range l.switches {
		for _, id := range s.Installed() {
			if err := s.Remove(id); err != nil {
				return err
			}
		}
		for k, g := range set.Groups {
			if _, there := g.SwitchIndex(set.Switches[i]); !there {
				continue
			}
			cfg, err := g.EngineConfig(set.Switches[i])
			if err != nil {
				return err
			}
			if err := s.Install(GroupID(k), cfg); err != nil {
				return err
			}
		}
	}
	for _, w := range wires {
		if !w.Peer.IsRank() {
			continue
		}
		link := w.Link
		if !l.o.Paced {
			link.Gbps = 0
		}
		if err := l.wires[w.Peer.Index].Reset(link, seed); err != nil {
			return err
		}
	}
	l.o.Set = set
	return nil
}
