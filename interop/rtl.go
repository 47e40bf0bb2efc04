package interop

import (
	"context"
	"fmt"

	"github.com/epic-inc/epic/cosim/link"
	"github.com/epic-inc/epic/cosim/run"
	"github.com/epic-inc/epic/golden/fabric"
)

// How the stream transactors of the RTL behave: frames come at once, with idle beats and back-pressure.
const (
	idlePPM         = 50_000
	backpressurePPM = 100_000
)

// runRTL runs a case through the Verilated engine, which golden follows event by event.
func (l *Lab) runRTL(ctx context.Context, w *world, o Options) error {
	rep, err := run.RunLive(ctx, run.Options{
		Group: w.group, DataW: o.DataW, Sim: o.sim(), Seed: w.c.seed(w.result.Seed), OutDir: o.OutDir,
		Pacing: link.PacingBurst, IdlePPM: idlePPM, BackpressurePPM: backpressurePPM, BypassBackpressurePPM: backpressurePPM,
		Prepare: w.bind,
	}, run.Live{
		Host: func(i int) (fabric.Node, error) { return w.node(l, i) },
		Await: func(ctx context.Context, clock uint64) error {
			_, err := w.pace.Await(ctx, clock, false)
			return err
		},
		Done: func() (bool, error) { return w.done(ctx) },
	})
	if rep != nil {
		w.result.Records, w.result.Clocks, w.result.Resends = rep.Records, rep.Clocks, rep.Resends
	}
	if err == nil && rep.Records == 0 {
		return fmt.Errorf("%w: no record of the engine was compared", ErrWrong)
	}
	return err
}
