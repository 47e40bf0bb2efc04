package control_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/coll"
	"github.com/epic-inc/epic/driver/control"
	"github.com/epic-inc/epic/driver/control/controlpb"
	"github.com/epic-inc/epic/driver/control/failure"
	"github.com/epic-inc/epic/driver/control/target"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
)

// told is what each rank's Watch returns, in seconds.
func told(t *testing.T, ranks []*client) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return each(ranks, func(_ int, k *client) error { return k.Watch(ctx) })
}

// A rank that dies is named to the others within its lease; what the job had comes back, and the job can be made again on
// the same queue pairs, far from the PSNs of the dead.
func TestDeadRank(t *testing.T) {
	p := newPlane(t, nil)
	ranks := p.ranks("train", 3)
	join(t, ranks)
	subs := create(t, ranks, allReduce, 17)
	// The switch has counted up to 0x123: no rank has sent a psn from 0x123 + the window of 16 on.
	p.switches["leaf0"].SetState(subs[0].ID, target.State{Known: true, Next: 0x123})
	require.NoError(t, ranks[2].Close()) // its process ends
	for _, err := range told(t, ranks[:2]) {
		assert.Regexp(t, `^job train: lost rank 2 \(10.9.0.3\), last heard of .*s ago$`, kindOf(t, err, controlpb.Kind_KIND_LEASE_LOST, 2))
	}
	p.empty()
	_, err := ranks[0].Subgroup(soon(t), reduce2, 33)
	kindOf(t, err, controlpb.Kind_KIND_LEASE_LOST, 2)

	again := p.ranks("train", 3)
	join(t, again)
	subs = create(t, again, allReduce, 17)
	assert.Equal(t, psn.PSN(0x123+15+0x400000), subs[0].QP.SendPSN)
	assert.Equal(t, uint32(64), subs[0].QP.PeerQPN, "the same queue pairs at the switch")
}

// A rank whose process was started again joins as soon as its old self is known to be dead. One that is alive is not
// pushed aside.
func TestSameRankAgain(t *testing.T) {
	p := newPlane(t, nil)
	ranks := p.ranks("train", 2)
	join(t, ranks)
	create(t, ranks, allReduce, 17)

	began := time.Now()
	twin := p.rank("train", 1, 2, nil)
	_, err := twin.Join(soon(t), twin.member)
	text := kindOf(t, err, controlpb.Kind_KIND_DUPLICATE_RANK, 1)
	assert.Regexp(t, `^job train: rank 1 is there twice: it runs at 10.9.0.2 since .*, and comes again from 10.9.0.2$`, text)
	assert.Less(t, time.Since(began), 2*time.Second)
	five := p.rank("train", 4, 5, nil)
	_, err = five.Join(soon(t), five.member)
	assert.Regexp(t, `^job train: runs with 2 ranks since .*, rank 4 \(10.9.0.5\) says 5$`, kindOf(t, err, controlpb.Kind_KIND_DISAGREE, 4))

	for _, k := range ranks { // both die, and come again at once
		require.NoError(t, k.Close())
	}
	again := p.ranks("train", 2)
	join(t, again)
	create(t, again, allReduce, 17)
}

// What a switch says of a pipe reaches every rank, with the rank at fault.
func TestFault(t *testing.T) {
	p := newPlane(t, nil)
	ranks := p.ranks("train", 3)
	join(t, ranks)
	subs := create(t, ranks, allReduce, 17)
	p.switches["leaf0"].Fault(target.Fault{ID: subs[0].ID, Pipe: "root", Endpoint: "rank1", Kind: spec.ErrorKindMismatchLength, PSN: 0xabcdef, Got: 64, Wanted: 128})
	for _, err := range told(t, ranks) {
		assert.Equal(t, "job train: allreduce: rank 1 (10.9.0.2): switch leaf0: mismatch_length at pipe root, endpoint rank1, psn abcdef: got 64, want 128",
			kindOf(t, err, controlpb.Kind_KIND_FAULT, 1))
	}
	p.empty()
}

// A switch that ends, or comes back without its tables, fails its jobs by its name and no others; afterwards it is used
// again.
func TestSwitchEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		lose bool
		want string
	}{
		{"started again", true, `^job train: switch leaf1 has lost its tables: it was started again$`},
		{"gone", false, `^job train: switch leaf1 has not answered for 2s: no power$`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlane(t, func(o *control.Options) { o.Wait = 20 * time.Second })
			ranks, others := []*client{}, p.ranks("other", 2)
			for r, host := range []int{2, 4} {
				k := p.rank("train", host, 8, nil)
				k.member.Rank, k.member.Ranks = r, 2
				ranks = append(ranks, k)
			}
			join(t, ranks)
			join(t, others)
			create(t, ranks, allReduce, 17)
			create(t, others, allReduce, 17)
			p.switches["leaf1"].Kill(errors.New("no power"))
			if tt.lose {
				p.switches["leaf1"].Start(true)
			}
			for _, err := range told(t, ranks) {
				assert.Regexp(t, tt.want, kindOf(t, err, controlpb.Kind_KIND_SWITCH_LOST))
			}
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			require.ErrorIs(t, others[0].Watch(ctx), context.DeadlineExceeded)
			cancel()
			if !tt.lose {
				p.switches["leaf1"].Start(false)
				require.Eventually(t, func() bool {
					r, err := p.status()
					return err == nil && r.Switches[2].Error == ""
				}, patience, 10*time.Millisecond)
			}
			var again []*client
			for _, k := range ranks {
				n := p.rank("train", 0, 2, nil)
				n.member = k.member
				again = append(again, n)
			}
			join(t, again)
			create(t, again, allReduce, 17)
			assert.Len(t, p.switches["leaf1"].Holds(), 1)
		})
	}
}

// While a switch does not answer, who needs it is told which.
func TestSwitchAway(t *testing.T) {
	p := newPlane(t, nil)
	p.switches["leaf0"].Kill(errors.New("no power"))
	require.Eventually(t, func() bool {
		r, err := p.status()
		return err == nil && r.Switches[1].Error == "no power"
	}, patience, 10*time.Millisecond)
	ranks := p.ranks("train", 2)
	join(t, ranks)
	ctx := soon(t)
	for _, err := range each(ranks, func(r int, k *client) error { _, err := k.Subgroup(ctx, allReduce, 17); return err }) {
		require.ErrorIs(t, err, coll.ErrRefused)
		assert.Equal(t, "job train: switch leaf0 does not answer", kindOf(t, err, controlpb.Kind_KIND_SWITCH_LOST))
	}
}

// Mode-II is quiesced only when every rank has said that its sends are complete (protocol.md 9); without that it is
// taken out by force, later.
func TestQuiesce(t *testing.T) {
	for _, all := range []bool{true, false} {
		t.Run(name("all %v", all), func(t *testing.T) {
			p := newPlane(t, func(o *control.Options) { o.Network.Mode = 2 })
			ranks := p.ranks("train", 3)
			join(t, ranks)
			subs := create(t, ranks, allReduce, 17)
			assert.Equal(t, 2, subs[0].Mode)
			ctx := soon(t)
			for r, k := range ranks[:2] {
				require.NoError(t, k.Quiesced(ctx, subs[r], 0xfffff4))
			}
			assert.NotContains(t, p.switches["leaf0"].History(), "quiesce "+subs[0].ID)
			if all {
				require.NoError(t, ranks[2].Quiesced(ctx, subs[2], 0xfffff4))
			}
			every(t, ranks, func(_ int, k *client) error { return k.Leave(ctx) })
			p.empty()
			want := []string{"install " + subs[0].ID, "remove " + subs[0].ID}
			if all {
				want = []string{"install " + subs[0].ID, "quiesce " + subs[0].ID, "remove " + subs[0].ID}
			}
			assert.Equal(t, want, p.switches["leaf0"].History())
		})
	}
}

// A subgroup that is given back leaves the others alone, and can be made again on its queue pairs.
func TestRelease(t *testing.T) {
	p := newPlane(t, nil)
	ranks := p.ranks("train", 3)
	join(t, ranks)
	kept, subs := create(t, ranks, allReduce, 17), create(t, ranks, reduce2, 33)
	p.switches["leaf0"].SetState(subs[0].ID, target.State{Drained: true})
	ctx := soon(t)
	every(t, ranks, func(r int, k *client) error { return k.Quiesced(ctx, subs[r], 0x000010) })
	every(t, ranks, func(r int, k *client) error { return k.Release(ctx, subs[r]) })
	subs = create(t, ranks, reduce2, 33) // at once: it waits until the old one is out
	assert.Equal(t, psn.PSN(0x400010), subs[0].QP.SendPSN)
	assert.Equal(t, []string{kept[0].ID, subs[0].ID}, p.switches["leaf0"].Holds())
}

// The operator ends a job; its ranks are told.
func TestDestroy(t *testing.T) {
	p := newPlane(t, nil)
	ranks := p.ranks("train", 2)
	join(t, ranks)
	create(t, ranks, allReduce, 17)
	a, err := control.DialAdmin(p.addr)
	require.NoError(t, err)
	defer a.Close()
	_, err = a.Destroy(soon(t), "nothing")
	assert.EqualError(t, err, `job "nothing": there is none; there are: train`)
	_, err = a.Destroy(soon(t), "train")
	require.NoError(t, err)
	for _, err := range told(t, ranks) {
		assert.Equal(t, "job train: was destroyed by the operator", kindOf(t, err, controlpb.Kind_KIND_DESTROYED))
	}
	p.empty()
}

// A control plane that is not there is given up by its address.
func TestNobodyThere(t *testing.T) {
	p := newPlane(t, nil)
	p.kill()
	k := p.rank("train", 0, 2, nil)
	k.Client = mustDial(t, p.addr, time.Second)
	_, err := k.Join(soon(t), k.member)
	require.ErrorIs(t, err, failure.ErrLost)
	assert.ErrorContains(t, err, "control plane at "+p.addr+": does not answer for 1s: ")
}

// A subgroup in a switch that no job knows of is taken out; that of another control plane stays.
func TestOrphans(t *testing.T) {
	p := newPlane(t, nil)
	ranks := p.ranks("train", 2)
	join(t, ranks)
	subs := create(t, ranks, allReduce, 17)
	leaf := p.switches["leaf0"]
	g := documentOf(t, leaf, subs[0].ID)
	p.kill()
	require.NoError(t, leaf.Remove(soon(t), subs[0].ID, true))
	orphan := subs[0].ID[:9] + "99.0.allreduce"
	require.NoError(t, leaf.Install(soon(t), orphan, g, target.Rows{Pipes: []int{0}, Outs: []int{0}, Ins: []int{0}}))
	p.start()
	require.Eventually(t, func() bool { return len(leaf.Holds()) == 0 }, patience, 10*time.Millisecond)
	p.kill()
	require.NoError(t, leaf.Install(soon(t), "feedbeef.1.0.allreduce", g, target.Rows{Pipes: []int{0}, Outs: []int{0}, Ins: []int{0}}))
	p.start()
	time.Sleep(300 * time.Millisecond)
	assert.Equal(t, []string{"feedbeef.1.0.allreduce"}, leaf.Holds())
}
