package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/epic-inc/epic/golden/fabric"
)

// Live is what a run in real time needs from the world outside: hosts that are no models.
type Live struct {
	// Host makes the node of host i of the group. It may be told of the network by Options.Prepare before it runs.
	Host func(i int) (fabric.Node, error)
	// Await returns when real time has come to a clock of the network, to which what came meanwhile has been given.
	Await func(ctx context.Context, clock uint64) error
	// Done says that the hosts have all that they want. The run ends when the engines too have nothing left to do.
	Done func() (bool, error)
}

// RunLive runs engines whose ranks are outside, at the pace of Await: the engines' clocks run freely up to a time that has
// come, and never beyond it. Everything that Run checks is checked but for results, which the caller has.
//
// Such a run cannot be done again. So that a difference can be looked at all the same, the frames at the engine's
// ports are captured, and what the simulator was sent is kept for `inc_sim --replay`, which makes a trace of it; both
// go to OutDir, and are removed if there is no difference.
func RunLive(ctx context.Context, o Options, live Live) (rep *Report, err error) {
	if o.Group == nil {
		return nil, errors.New("run: no group")
	}
	if o.OutDir == "" {
		o.OutDir = filepath.Join("build", "cosim")
	}
	if err := o.fill(); err != nil { // to know the names of the engines' files
		return nil, err
	}
	if err := os.MkdirAll(o.OutDir, 0o755); err != nil {
		return nil, err
	}
	record, err := os.Create(filepath.Join(o.OutDir, "live.rec"))
	if err != nil {
		return nil, err
	}
	o.Capture, o.Once = filepath.Join(o.OutDir, "live.pcapng"), true
	defer func() {
		cerr := record.Close()
		if err == nil {
			err = errors.Join(cerr, os.Remove(record.Name()))
			for _, f := range o.files(o.Capture) {
				err = errors.Join(err, os.Remove(f))
			}
			if rep != nil {
				rep.Artifacts = nil
			}
		} else if rep != nil {
			rep.Artifacts = append(append(rep.Artifacts, record.Name()), o.files(o.Capture)...)
		}
	}()
	return explain(ctx, o, func(ctx context.Context, o *Options, rep *Report) error {
		n, _, err := newNetwork(o, live.Host)
		if err != nil {
			return err
		}
		return simulate(ctx, o, rep, record, traffic{net: n, done: live.Done, await: live.Await})
	})
}
