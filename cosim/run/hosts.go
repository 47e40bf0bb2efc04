package run

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/epic-inc/epic/golden/fabric"
	"github.com/epic-inc/epic/golden/host"
)

// Run does one collective of the group with virtual hosts.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := checkRun(&o); err != nil {
		return nil, err
	}
	return explain(ctx, o, runHosts)
}

const defaultBarriers = 16

func checkRun(o *Options) error {
	if o.Group == nil {
		return fmt.Errorf("run: no group")
	}
	if err := checkSum(o.Group); err != nil {
		return err
	}
	if o.Group.Collective == "barrier" {
		if o.Inputs != nil || o.Barriers < 0 {
			return fmt.Errorf("barriers: got %d, and %d vectors; want at least 1, and no vectors", o.Barriers, len(o.Inputs))
		}
		if o.Barriers == 0 {
			o.Barriers = defaultBarriers
		}
		o.Bytes = 0
		return nil
	}
	if o.Barriers != 0 {
		return fmt.Errorf("barriers: got %d of the collective %q, want 0", o.Barriers, o.Group.Collective)
	}
	if limit := maxRunBytes / len(o.Group.Ranks) &^ 3; o.Inputs == nil && (o.Bytes < 4 || o.Bytes > limit || o.Bytes%4 != 0) {
		return fmt.Errorf("bytes: got %d, want a multiple of 4 in 4..%d (%d MiB in all, for %d ranks)",
			o.Bytes, limit, maxRunBytes>>20, len(o.Group.Ranks))
	}
	if o.Inputs != nil && len(o.Inputs) != len(o.Group.Ranks) {
		return fmt.Errorf("inputs: got %d vectors for %d ranks", len(o.Inputs), len(o.Group.Ranks))
	}
	if o.Inputs != nil {
		o.Bytes = len(o.Inputs[0])
	}
	return nil
}

func runHosts(ctx context.Context, o *Options, rep *Report) error {
	return runRecorded(ctx, o, rep, nil)
}

// runRecorded runs with hosts, and copies what goes to the simulator to record, if it is not nil.
func runRecorded(ctx context.Context, o *Options, rep *Report, record io.Writer) error {
	in := o.Inputs
	if in == nil {
		in = vectors(o.Seed, len(o.Group.Ranks), o.Bytes)
	}
	t, err := newTask(o.Group, in)
	if err != nil {
		return err
	}
	for r, want := range t.want {
		if o.Expect != nil && want != nil && !bytes.Equal(want, o.Expect) {
			return fmt.Errorf("%w: the sum of the inputs for rank %d is not what is expected: %s", ErrDifference, r, differs(want, o.Expect))
		}
	}
	hosts := make([]*fabric.Host, len(o.Group.Ranks))
	var early error
	n, err := newNetwork(o, func(r int) (fabric.Node, error) {
		qp, _, _, err := hostConfig(o.Group, r)
		if err != nil {
			return nil, err
		}
		rank, err := host.NewRank(host.RankConfig{QP: qp, Send: t.send[r], RecvBytes: len(t.want[r]), Barriers: o.Barriers,
			MessagePackets: o.Group.Host.MessagePackets, WindowPackets: o.Group.Host.WindowPackets})
		if err != nil {
			return nil, err
		}
		if hosts[r], err = fabric.NewHost(rank, scaleOf(o.Group.Clock), 0); err != nil {
			return nil, err
		}
		hosts[r].Completed = func(uint64, host.Completion) {
			if early == nil {
				early = barrierEarly(hosts, r)
			}
		}
		return hosts[r], nil
	})
	if err != nil {
		return err
	}
	done := func() (bool, error) {
		if early != nil {
			return false, fmt.Errorf("%w: seed %d: %w", ErrDifference, o.Seed, early)
		}
		all := true
		for _, h := range hosts {
			if err := h.Rank.Err(); err != nil {
				return false, fmt.Errorf("%w: seed %d: %w", ErrDifference, o.Seed, err)
			}
			all = all && h.Rank.Done()
		}
		return all, nil
	}
	doneBy := func() (got, total int) {
		for r, h := range hosts {
			got += len(h.Rank.Result())
			total += len(t.want[r])
		}
		return got, total
	}
	if err := simulate(ctx, o, rep, record, n, done, doneBy); err != nil {
		return err
	}
	results := make([][]byte, len(hosts))
	for r, h := range hosts {
		results[r] = h.Rank.Result()
	}
	return checkResults(rep, o.Seed, results, t.want)
}

// barrierEarly says whether rank r has passed a Barrier that another has not entered.
func barrierEarly(hosts []*fabric.Host, r int) error {
	_, passed := hosts[r].Rank.Barriers()
	for other, h := range hosts {
		if entered, _ := h.Rank.Barriers(); entered < passed {
			return fmt.Errorf("rank %d has passed Barrier %d, but rank %d has entered only %d", r, passed, other, entered)
		}
	}
	return nil
}

// checkResults compares what the ranks got with what they must get.
func checkResults(rep *Report, seed uint64, got, want [][]byte) error {
	rep.Results = got
	for r := range want {
		if d := differs(got[r], want[r]); d != "" {
			rep.FirstResult = r
			return fmt.Errorf("%w: seed %d: result of rank %d: %s", ErrDifference, seed, r, d)
		}
	}
	rep.SumEqual = true
	return nil
}
