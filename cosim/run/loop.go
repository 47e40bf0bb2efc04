package run

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/epic-inc/epic/cosim/scoreboard"
	"github.com/epic-inc/epic/golden/fabric"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/spec"
)

// loop runs the RTL engines and the network around them in step until `done`, and then until nothing is left
// to do in the engines: no frame in them, nothing due, no timer running.
//
// A quantum Q is half of the delay L of the shortest link to an engine. While the simulators run the clocks of
// [T, T+Q), the network runs [T-Q, T): what the engines sent before T-Q is in it already, and whatever they send
// later arrives after T. All work at once, and nobody's pace shows in the run. Each engine's own clock is ahead
// of the network's time by what its set-up took.
type loop struct {
	engines []*rtl
	net     *fabric.Network
	at      []fabric.ID // of the engines
	o       *Options
	rep     *Report

	// resets are times of the network at which the engines are reset; restart begins everything else anew, and
	// returns the set whose entries the engines get.
	resets  []uint64
	restart func() (*group.Set, error)

	await func(ctx context.Context, clock uint64) error // of a run in real time: Live.Await

	idleMost uint64 // clocks without anything after which a run is stuck
	told     time.Time
	started  time.Time
	doneBy   func() (done, total int) // for the progress line
}

const progressEvery = 2 * time.Second

func newLoop(o *Options, engines []*rtl, n *fabric.Network, rep *Report) *loop {
	l := &loop{engines: engines, net: n, o: o, rep: rep, told: time.Now(), started: time.Now()}
	for _, i := range o.rtlAt {
		l.at = append(l.at, n.Switches[i])
	}
	// The longest that an engine may be silent while it waits for something: its last, longest timeout,
	// or the hosts' whole retries, which double less.
	for _, g := range o.set.Groups {
		tick := uint64(g.Clock.PerTick)
		engineWait := uint64(g.Timers.TimeoutTicks) << g.Timers.BackoffMax * tick
		hostWait := fabric.ScaleOf(g.Clock).Of(host.AckTimeout(g.Host.TimeoutCode)) * uint64(g.Host.RetryCnt+1)
		l.idleMost = max(l.idleMost, 2*max(engineWait, hostWait)+100_000+o.Skew)
	}
	return l
}

func (l *loop) run(ctx context.Context, done func() (bool, error)) error {
	ahead := l.net.LookAhead(l.at[0])
	for _, id := range l.at {
		ahead = min(ahead, l.net.LookAhead(id))
	}
	q := max(1, ahead/2)
	granted := uint64(0)
	for {
		if l.await != nil {
			if err := l.await(ctx, granted); err != nil {
				return err
			}
		}
		for i, r := range l.engines {
			arrivals, err := l.net.Arrivals(l.at[i], granted+q)
			if err != nil {
				return err
			}
			for _, a := range arrivals {
				if err := r.drive(r.base+a.At, a.Port, a.Frame); err != nil {
					return err
				}
			}
			if err := r.engine.Grant(r.base + granted + q); err != nil {
				return err
			}
		}
		granted += q
		if l.engines[0].engine.Outstanding() < 2 {
			continue
		}
		if err := l.window(ctx, granted-q); err != nil {
			return err
		}
		finished, err := done()
		if err != nil {
			if fault := l.fault(); fault != "" {
				err = fmt.Errorf("%w: %s", err, fault)
			}
			return err
		}
		if finished && l.idle() {
			break
		}
		if len(l.resets) > 0 && granted >= l.resets[0] && !finished {
			if err := l.reset(ctx, granted); err != nil {
				return err
			}
			continue
		}
		busyAt := uint64(0)
		for _, r := range l.engines {
			busyAt = max(busyAt, r.busyAt)
		}
		if l.await == nil && granted-busyAt > l.idleMost {
			return fmt.Errorf("%w: seed %d: nothing has happened in the engine for %d clocks: %s", ErrDifference, l.o.Seed,
				granted-busyAt, l.stuck())
		}
		l.progress(granted)
	}
	for l.engines[0].engine.Outstanding() > 0 {
		if err := l.window(ctx, granted); err != nil {
			return err
		}
	}
	return nil
}

// reset resets every engine while frames, results and acknowledgements are under way, and begins again: what the
// engines held is gone, so their manager creates every subgroup again on the same queue pairs, with PSNs moved
// (protocol.md 2), and the ranks do anew what not all of them have ended. Frames that are on the links stay there,
// and reach engines and hosts that must have no use for them.
func (l *loop) reset(ctx context.Context, now uint64) error {
	for l.engines[0].engine.Outstanding() > 0 {
		if err := l.window(ctx, now); err != nil {
			return err
		}
	}
	set, err := l.restart()
	if err != nil {
		return err
	}
	for i, r := range l.engines {
		cfg, err := set.EngineConfig(r.name)
		if err != nil {
			return err
		}
		if err := r.reset(ctx, l.o, cfg, uint32(1+(now+uint64(i))%9), now); err != nil {
			return named(l.o, l.o.rtlAt[i], err)
		}
	}
	l.resets = l.resets[1:]
	l.rep.Resets++
	return nil
}

// stuck says why a run does not end.
func (l *loop) stuck() string {
	if fault := l.fault(); fault != "" {
		return fault
	}
	for _, r := range l.engines {
		if err := r.board.Quiescent(); err != nil {
			return fmt.Sprintf("%s: %v", r.name, err)
		}
	}
	return "everything is acknowledged, but not every rank has its result"
}

// fault names a pipe that is in error; "" if none is.
func (l *loop) fault() string {
	for _, r := range l.engines {
		cfg := r.board.Config()
		for p := range cfg.Pipes {
			if f := r.board.Fault(p); f.Kind != spec.ErrorKindNone {
				return fmt.Sprintf("switch %s: pipe %s is in error, in golden as in the engine: %v at endpoint %s, psn %#06x, got %d, wanted %d",
					r.name, cfg.Pipes[p].Name, f.Kind, cfg.Endpoints[f.Endpoint].Name, uint32(f.PSN), f.Got, f.Wanted)
			}
		}
	}
	return ""
}

// window takes what the engines did before `until`, the network's time, and lets the network run to there.
func (l *loop) window(ctx context.Context, until uint64) error {
	for i, r := range l.engines {
		w, err := r.window(ctx)
		if err != nil {
			return err
		}
		if len(w.Records) > 0 || len(w.Frames) > 0 || len(w.Accepted) > 0 {
			r.busyAt = until
		}
		for k := range w.Frames {
			f := &w.Frames[k]
			if f.Stream != 0 || f.Last < r.base {
				continue
			}
			if err := l.net.Inject(l.at[i], int(f.Port), f.Last-r.base, f.Bytes); err != nil {
				return err
			}
		}
	}
	l.net.Run(until)
	return nil
}

// idle says that the engines have nothing to do and nothing to wait for. Duplicates may still be on their
// way to them; they are not driven.
func (l *loop) idle() bool {
	for _, r := range l.engines {
		if r.board.Outstanding() > 0 || r.board.Quiescent() != nil {
			return false
		}
	}
	return true
}

func (l *loop) progress(clock uint64) {
	if l.o.Progress == nil || time.Since(l.told) < progressEvery {
		return
	}
	l.told = time.Now()
	var all scoreboard.Stats
	for _, r := range l.engines {
		st := r.stats()
		all.Add(&st)
	}
	text := ""
	if l.doneBy != nil {
		done, total := l.doneBy()
		text = fmt.Sprintf(", %d of %d KiB delivered", done>>10, total>>10)
	}
	say(l.o.Progress, "  %5.1f s: clock %d, %d frames in, %d results, %d resends%s", time.Since(l.started).Seconds(), clock,
		all.FramesIn, all.Counters[spec.CounterTxData], all.Counters[spec.CounterTxResend], text)
}

// traffic is the network of a run and what its end is.
type traffic struct {
	net     *fabric.Network
	done    func() (bool, error)
	doneBy  func() (done, total int)
	restart func() (*group.Set, error) // of a run with resets
	await   func(ctx context.Context, clock uint64) error
}

// simulate is what Run, Replay and Bench share: start the engines, run the network, read back. What goes to
// the simulator of the first is copied to record, if that is not nil.
func simulate(ctx context.Context, o *Options, rep *Report, record io.Writer, t traffic) (err error) {
	var engines []*rtl
	defer func() {
		for _, r := range engines {
			if cerr := r.close(); err == nil {
				err = cerr
			}
		}
	}()
	for _, at := range o.rtlAt {
		r, err := startRTL(ctx, o, at, record)
		if err != nil {
			return named(o, at, err)
		}
		record = nil
		engines = append(engines, r)
	}
	l := newLoop(o, engines, t.net, rep)
	l.doneBy, l.restart, l.resets, l.await = t.doneBy, t.restart, o.resetTimes(), t.await
	rep.TrafficFrom = engines[0].base
	if err := l.run(ctx, t.done); err != nil {
		rep.take(engines...)
		rep.Clocks = engines[0].engine.Clock()
		return err
	}
	first := engines[0]
	rep.traffic = phase{clocks: first.engine.Clock() - first.base, rx: first.last.RxBusy - first.before.RxBusy, tx: first.last.TxBusy - first.before.TxBusy,
		busy: first.last.Busy - first.before.Busy, wallS: time.Since(l.started).Seconds()}
	return finish(ctx, rep, engines...)
}

// Clocks between two resets.
const (
	resetLeast = 300
	resetMost  = 6000
)

// resetTimes are the times of Options.Resets.
func (o *Options) resetTimes() []uint64 {
	rng := rand.New(rand.NewPCG(o.Seed, 0x7265736574))
	at := uint64(0)
	var times []uint64
	for range o.Resets {
		at += resetLeast + rng.Uint64N(resetMost-resetLeast)
		times = append(times, at)
	}
	return times
}

// named says at which of several engines an error was.
func named(o *Options, at int, err error) error {
	if len(o.rtlAt) == 1 {
		return err
	}
	return fmt.Errorf("switch %s: %w", o.set.Switches[at], err)
}
