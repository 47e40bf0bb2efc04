package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/epic-inc/epic/golden/expect"
	"github.com/epic-inc/epic/golden/fabric"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/tree"
)

// Run lets virtual hosts do the collectives of the groups.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := checkRun(&o); err != nil {
		return nil, err
	}
	return explain(ctx, o, runHosts)
}

const defaultBarriers = 16

// maxSkew is so much that no run waits for it.
const maxSkew = 1 << 32

// checkRun checks what Run alone looks at, and fills in what the groups do.
func checkRun(o *Options) error {
	if o.Group == nil {
		return errors.New("run: no group")
	}
	if o.Resets < 0 {
		return fmt.Errorf("resets: got %d, want at least 0", o.Resets)
	}
	alone := o.Steps == nil && o.Group.Collective == tree.Barrier.String()
	switch {
	case alone && (o.Inputs != nil || o.Barriers < 0):
		return fmt.Errorf("barriers: got %d, and %d vectors; want at least 1, and no vectors", o.Barriers, len(o.Inputs))
	case !alone && o.Barriers != 0:
		return fmt.Errorf("barriers: got %d of the collective %q, want 0", o.Barriers, o.Group.Collective)
	case alone:
		if o.Barriers == 0 {
			o.Barriers = defaultBarriers
		}
		o.Bytes = 0
	}
	if err := carries(o.Group, &o.Steps, o.Barriers); err != nil {
		return err
	}
	if err := checkSkew(o.Group, o.Skew); err != nil {
		return err
	}
	ranks := len(o.Group.Ranks)
	for i := range o.Beside {
		if err := checkSkew(o.Beside[i].Group, o.Skew); err != nil {
			return fmt.Errorf("group %d: %w", i+1, err)
		}
		if err := carries(o.Beside[i].Group, &o.Beside[i].Steps, 0); err != nil {
			return fmt.Errorf("group %d: %w", i+1, err)
		}
		ranks += len(o.Beside[i].Group.Ranks)
	}
	if o.Inputs != nil {
		if len(o.Inputs) != len(o.Group.Ranks) {
			return fmt.Errorf("inputs: got %d vectors for %d ranks", len(o.Inputs), len(o.Group.Ranks))
		}
		o.Bytes = len(o.Inputs[0])
		return nil
	}
	if alone && len(o.Beside) == 0 {
		return nil
	}
	size := 1
	for _, g := range append([]Beside{{Group: o.Group}}, o.Beside...) {
		_, dtype, err := g.Group.Arithmetic()
		if err != nil {
			return err
		}
		size = max(size, expect.Element(dtype))
	}
	if limit := maxRunBytes / ranks / len(o.Steps) &^ (size - 1); o.Bytes < size || o.Bytes > limit || o.Bytes%size != 0 {
		of := fmt.Sprintf("%d ranks", ranks)
		if len(o.Steps) > 1 {
			of += fmt.Sprintf(" and %d collectives", len(o.Steps))
		}
		return fmt.Errorf("bytes: got %d, want a multiple of %d in %d..%d (%d MiB in all, for %s)", o.Bytes, size, size, limit, maxRunBytes>>20, of)
	}
	return nil
}

// checkSkew refuses what ranks of Mode-II cannot wait for: they send again 7 times, and so give up after 8
// timeouts (protocol.md 5).
func checkSkew(g *group.Group, skew uint64) error {
	if skew > maxSkew {
		return fmt.Errorf("skew: got %d clocks, want at most %d", skew, maxSkew)
	}
	wait := 8 * fabric.ScaleOf(g.Clock).Of(host.AckTimeout(g.Host.TimeoutCode))
	for _, sw := range g.Switches {
		for _, p := range sw.Pipes {
			if g.ModeOf(&p) == 2 && skew >= wait {
				return fmt.Errorf("skew: got %d clocks, want less than %d in mode 2: 8 timeouts of code %d", skew, wait, g.Host.TimeoutCode)
			}
		}
	}
	return nil
}

// carries fills in the collectives of a group, and checks that it has their subgroups.
func carries(g *group.Group, steps *[]tree.Step, barriers int) error {
	if *steps == nil {
		*steps = g.Steps()
		for range barriers - 1 {
			*steps = append(*steps, (*steps)[0])
		}
	}
	if len(*steps) == 0 {
		return errors.New("collective: the group names none, want one, or a list of them")
	}
	t, err := g.Tree()
	if err != nil {
		return err
	}
	for _, s := range t.Subgroups(*steps) {
		if _, err := g.SubgroupOf(s); err != nil {
			return fmt.Errorf("collective: %w", err)
		}
	}
	return nil
}

func runHosts(ctx context.Context, o *Options, rep *Report) error {
	return runRecorded(ctx, o, rep, nil)
}

// work is what each group does.
func (o *Options) work() ([]*fabric.Work, error) {
	var list []*fabric.Work
	for i, b := range append([]Beside{{o.Group, o.Steps}}, o.Beside...) {
		w, err := fabric.RandomWork(b.Group, o.Seed+uint64(i)<<48, b.Steps, o.Bytes)
		if err != nil {
			return nil, err
		}
		if i == 0 && o.Inputs != nil {
			for k, s := range b.Steps {
				if s.Collective != tree.Barrier {
					w.Input[k] = o.Inputs
				}
			}
		}
		list = append(list, w)
	}
	return list, nil
}

// runRecorded runs with hosts, and copies what goes to the first simulator to record, if it is not nil.
func runRecorded(ctx context.Context, o *Options, rep *Report, record io.Writer) error {
	work, err := o.work()
	if err != nil {
		return err
	}
	for _, s := range o.Steps {
		rep.Steps = append(rep.Steps, s.String())
	}
	job, err := fabric.NewJob(o.set, work...)
	if err != nil {
		return err
	}
	if o.Expect != nil {
		for i, s := range o.Steps {
			for r := range o.Group.Ranks {
				if want := job.Want(0, r, i); want != nil && !bytes.Equal(want, o.Expect) {
					return fmt.Errorf("%w: the result of %v for rank %d, computed from the inputs, is not what is expected: %s", ErrDifference, s, r,
						job.Differs(0, want, o.Expect))
				}
			}
		}
	}
	hosts := make([]*fabric.Host, len(o.set.Hosts))
	rng := rand.New(rand.NewPCG(o.Seed, 0x736b6577))
	n, golden, err := newNetwork(o, func(i int) (_ fabric.Node, err error) {
		hosts[i], err = job.Host(i, rng.Uint64N(o.Skew+1))
		return hosts[i], err
	})
	if err != nil {
		return err
	}
	wrong := func(err error) error { return fmt.Errorf("%w: seed %d: %w", ErrDifference, o.Seed, err) }
	ended := 0 // collectives, before the last reset
	t := traffic{net: n}
	t.done = func() (bool, error) {
		if err := job.Err(); err != nil {
			return false, wrong(err)
		}
		return job.Done(), nil
	}
	t.doneBy = func() (int, int) { return job.Progress() }
	t.restart = func() (*group.Set, error) {
		ended += job.Collectives(0)
		if job, err = job.Again(); err != nil {
			return nil, wrong(err)
		}
		for i, s := range golden {
			if s == nil {
				continue
			}
			again, err := fabric.GoldenSwitch(job.Set(), i)
			if err != nil {
				return nil, err
			}
			s.Restart(again.Engine)
			n.Rouse(n.Switches[i])
		}
		for i, h := range hosts {
			job.Take(h, i, n.Now())
			n.Rouse(n.Hosts[i])
		}
		return job.Set(), nil
	}
	if err := simulate(ctx, o, rep, record, t); err != nil {
		return err
	}
	if rep.Resets < o.Resets {
		return fmt.Errorf("resets: the ranks were done after %d, want %d: more bytes or collectives", rep.Resets, o.Resets)
	}
	for r := range o.Group.Ranks {
		rep.Results = append(rep.Results, job.Result(0, r, len(o.Steps)-1-ended))
	}
	if err := job.Check(); err != nil {
		var result *fabric.WrongResult
		if errors.As(err, &result) {
			rep.FirstResult = result.Rank
		}
		return wrong(err)
	}
	rep.SumEqual = true
	return nil
}
