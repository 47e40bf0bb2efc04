package run

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/epic-inc/epic/golden/fabric"
	"github.com/epic-inc/epic/golden/spec"
)

// loop runs the RTL engine and the network around it in step until `done`, and then until nothing is left
// to do in the engine: no frame in it, nothing due, no timer running.
//
// A quantum Q is half of the shortest link's delay L. While the simulator runs clocks [T, T+Q), the network
// runs [T-Q, T): what the engine sent before T-Q is in it already, and whatever it sends later arrives
// after T. Both work at once, and neither's pace shows in the run.
type loop struct {
	rtl  *rtl
	net  *network
	o    *Options
	rep  *Report
	base uint64 // clock of the engine at the network's time 0

	busyAt   uint64 // last clock of the network at which anything happened in the engine
	idleMost uint64 // clocks without anything after which a run is stuck
	told     time.Time
	started  time.Time
	doneBy   func() (done, total int) // for the progress line
}

const progressEvery = 2 * time.Second

func newLoop(o *Options, r *rtl, n *network, rep *Report) *loop {
	g := o.Group
	// The longest that an engine may be silent while it waits for something: its last, longest timeout,
	// or the hosts' whole retries, which double less.
	tick := uint64(g.Clock.PerTick)
	engineWait := uint64(g.Timers.TimeoutTicks) << g.Timers.BackoffMax * tick
	hostWait := scaleOf(g.Clock).Of(time.Duration(4096)*time.Nanosecond<<g.Host.TimeoutCode) * uint64(g.Host.RetryCnt+1)
	return &loop{rtl: r, net: n, o: o, rep: rep, base: r.engine.Granted(), idleMost: 2*max(engineWait, hostWait) + 100_000,
		told: time.Now(), started: time.Now()}
}

func (l *loop) run(ctx context.Context, done func() (bool, error)) error {
	q := max(1, l.net.LookAhead(l.net.rtl)/2)
	granted := uint64(0)
	for {
		arrivals, err := l.net.Arrivals(l.net.rtl, granted+q)
		if err != nil {
			return err
		}
		for _, a := range arrivals {
			if err := l.rtl.drive(l.base+a.At, a.Port, a.Frame); err != nil {
				return err
			}
		}
		granted += q
		if err := l.rtl.engine.Grant(l.base + granted); err != nil {
			return err
		}
		if l.rtl.engine.Outstanding() < 2 {
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
		if granted-l.busyAt > l.idleMost {
			return fmt.Errorf("%w: seed %d: nothing has happened in the engine for %d clocks: %s", ErrDifference, l.o.Seed,
				granted-l.busyAt, l.stuck())
		}
		l.progress(granted)
	}
	for l.rtl.engine.Outstanding() > 0 {
		if err := l.window(ctx, granted); err != nil {
			return err
		}
	}
	return nil
}

// stuck says why a run does not end.
func (l *loop) stuck() string {
	if fault := l.fault(); fault != "" {
		return fault
	}
	if err := l.rtl.board.Quiescent(); err != nil {
		return err.Error()
	}
	return "everything is acknowledged, but not every rank has its result"
}

// fault names a pipe that is in error; "" if none is.
func (l *loop) fault() string {
	cfg := l.rtl.board.Config()
	for p := range cfg.Pipes {
		if f := l.rtl.board.Fault(p); f.Kind != spec.ErrorKindNone {
			return fmt.Sprintf("pipe %s is in error, in golden as in the engine: %v at endpoint %s, psn %#06x, got %d, wanted %d",
				cfg.Pipes[p].Name, f.Kind, cfg.Endpoints[f.Endpoint].Name, uint32(f.PSN), f.Got, f.Wanted)
		}
	}
	return ""
}

// window takes what the engine did before `until`, the network's time, and lets the network run to there.
func (l *loop) window(ctx context.Context, until uint64) error {
	w, err := l.rtl.window(ctx)
	if err != nil {
		return err
	}
	if len(w.Records) > 0 || len(w.Frames) > 0 || len(w.Accepted) > 0 {
		l.busyAt = until
	}
	for i := range w.Frames {
		f := &w.Frames[i]
		if f.Stream != 0 || f.Last < l.base {
			continue
		}
		if err := l.net.Inject(l.net.rtl, int(f.Port), f.Last-l.base, f.Bytes); err != nil {
			return err
		}
	}
	l.net.Run(until)
	return nil
}

// idle says that the engine has nothing to do and nothing to wait for. Duplicates may still be on their
// way to it; they are not driven.
func (l *loop) idle() bool { return l.rtl.board.Outstanding() == 0 && l.rtl.board.Quiescent() == nil }

func (l *loop) progress(clock uint64) {
	if l.o.Progress == nil || time.Since(l.told) < progressEvery {
		return
	}
	l.told = time.Now()
	st := l.rtl.board.Stats()
	text := ""
	if l.doneBy != nil {
		done, total := l.doneBy()
		text = fmt.Sprintf(", %d of %d KiB delivered", done>>10, total>>10)
	}
	say(l.o.Progress, "  %5.1f s: clock %d, %d frames in, %d results, %d resends%s", time.Since(l.started).Seconds(), clock,
		st.FramesIn, st.Counters[spec.CounterTxData], st.Counters[spec.CounterTxResend], text)
}

// simulate is what Run, Replay and Bench share: start the engine, run the network, read back.
func simulate(ctx context.Context, o *Options, rep *Report, record io.Writer, n *network, done func() (bool, error), doneBy func() (int, int)) (err error) {
	r, err := startRTL(ctx, o, record)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := r.close(); err == nil {
			err = cerr
		}
	}()
	l := newLoop(o, r, n, rep)
	l.doneBy = doneBy
	rep.TrafficFrom = l.base
	before := *r.last
	if err := l.run(ctx, done); err != nil {
		rep.take(r.board)
		rep.Clocks = r.engine.Clock()
		return err
	}
	rep.traffic = phase{clocks: r.engine.Clock() - l.base, rx: r.last.RxBusy - before.RxBusy, tx: r.last.TxBusy - before.TxBusy,
		busy: r.last.Busy - before.Busy, wallS: time.Since(l.started).Seconds()}
	return r.finish(ctx, rep)
}

var _ fabric.Node = (*fabric.Host)(nil)
