package interop

import (
	"context"
	"fmt"
	"time"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/fabric"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/spec"
)

// runGolden runs a case through golden engines.
func (l *Lab) runGolden(ctx context.Context, w *world) error {
	set, err := group.NewSet(w.group)
	if err != nil {
		return err
	}
	var engines []*fabric.Switch
	n, err := fabric.Build(set, w.c.seed(w.result.Seed), func(i int) (fabric.Node, error) {
		sw, err := fabric.GoldenSwitch(set, i)
		engines = append(engines, sw)
		return sw, err
	}, func(i int) (fabric.Node, error) { return w.node(l, i) })
	if err != nil {
		return err
	}
	for _, e := range engines {
		e.Retired = func(_ uint64, r *spec.Record) {
			if r.Cause == spec.CauseResend {
				w.result.Resends++
			}
		}
	}
	w.bind(n)
	for {
		finished, err := w.done(ctx)
		if fault := faultOf(engines); fault != nil {
			return fault
		}
		if err != nil {
			return err
		}
		if finished && drained(engines) {
			w.result.Clocks = n.Now()
			return nil
		}
		until := n.Now() + uint64(lookEvery/w.pace.period)
		if next, ok := n.Next(); ok {
			until = min(until, max(next, n.Now()+1))
		}
		now, err := w.pace.Await(ctx, until, true)
		if err != nil {
			return err
		}
		n.Run(max(now, n.Now()) + 1)
	}
}

// drained says that the engines have sent and seen acknowledged all that there is. Mode-II knows of nothing more.
func drained(engines []*fabric.Switch) bool {
	for _, s := range engines {
		for p, pipe := range s.Engine.Config().Pipes {
			if pipe.Mode != 2 && !s.Engine.Drained(p) {
				return false
			}
		}
	}
	return true
}

// faultOf names a pipe that is in error.
func faultOf(engines []*fabric.Switch) error {
	for _, s := range engines {
		cfg := s.Engine.Config()
		for p := range cfg.Pipes {
			if f := s.Engine.Fault(p); f.Kind != spec.ErrorKindNone {
				return fmt.Errorf("%w: switch %s: pipe %s is in error: %v", ErrWrong, cfg.Name, cfg.Pipes[p].Name, describe(cfg, f))
			}
		}
	}
	return nil
}

func describe(cfg engine.Config, f engine.Fault) string {
	return fmt.Sprintf("%v at endpoint %s, psn %#06x, got %d, wanted %d", f.Kind, cfg.Endpoints[f.Endpoint].Name, uint32(f.PSN), f.Got, f.Wanted)
}

// period of a clock of the group in real time.
func period(g *group.Group) time.Duration {
	return time.Duration(float64(time.Microsecond) / g.Clock.MHz)
}
