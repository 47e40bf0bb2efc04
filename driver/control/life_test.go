package control_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/coll"
	"github.com/epic-inc/epic/driver/control/controlpb"
	"github.com/epic-inc/epic/driver/control/failure"
	"github.com/epic-inc/epic/driver/control/rendezvous"
	"github.com/epic-inc/epic/driver/control/target"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// From joining to leaving, over both leaves: what the ranks are told, what the switches are given, and that all of it
// comes back.
func TestLife(t *testing.T) {
	p := newPlane(t, nil)
	ranks := []*client{}
	for r, host := range []int{0, 1, 4, 5} { // two at each leaf
		k := p.rank("train", r, 4, nil)
		k.member.IP, k.member.MAC = p.rank("x", host, 8, nil).member.IP, roce.MAC{0x52, 0x54, 0, 0, 0, byte(host + 1)}
		ranks = append(ranks, k)
	}
	peers := join(t, ranks)
	for r := range ranks {
		assert.Equal(t, 1024, peers[r].MTU, "what a link of 1500 bytes carries")
		assert.Equal(t, 16, peers[r].WindowPackets)
		assert.Equal(t, 4, peers[r].MessagePackets)
		assert.Equal(t, host.LinuxRXE(), peers[r].QP.Settings)
		require.Len(t, peers[r].Members, 4)
		for q := range ranks {
			assert.Equal(t, ranks[q].member, peers[r].Members[q])
		}
	}

	subs := create(t, ranks, allReduce, 17)
	for r, s := range subs {
		leaf := map[bool]string{true: "10.10.0.2", false: "10.10.0.3"}[r < 2]
		assert.Equal(t, leaf, s.QP.PeerIP.String())
		assert.Equal(t, ranks[r].member.IP, s.QP.IP)
		assert.Equal(t, ranks[r].member.MAC, s.QP.MAC)
		assert.Equal(t, uint32(17+r), s.QP.QPN)
		assert.Equal(t, uint32(64+r%2), s.QP.PeerQPN, "the first free rows of 64, above them a 1")
		assert.Equal(t, psn.PSN(0xfffff0), s.QP.SendPSN)
		assert.Equal(t, psn.PSN(0xfffff0), s.QP.RecvPSN)
		assert.Equal(t, 1024, s.QP.MTU)
		assert.Equal(t, 7, s.QP.RetryCnt)
		assert.Equal(t, 7, s.QP.RNRRetry)
		assert.Equal(t, 3, s.Mode)
		assert.True(t, s.Unpinned)
		assert.Equal(t, subs[0].ID, s.ID)
	}
	reduces := create(t, ranks, reduce2, 33)
	assert.Equal(t, uint32(64+3), reduces[0].QP.PeerQPN, "after the rows of the AllReduce at the leaf: two ranks and the root")
	for name, f := range p.switches {
		assert.Equal(t, []string{subs[0].ID, reduces[0].ID}, f.Holds(), name)
	}

	ctx := soon(t)
	every(t, ranks, func(r int, k *client) error {
		if err := k.Quiesced(ctx, subs[r], 0x0000ff); err != nil {
			return err
		}
		return k.Quiesced(ctx, reduces[r], 0x000fff)
	})
	every(t, ranks, func(_ int, k *client) error { return k.Leave(ctx) })
	p.empty()

	// The same again, on the same queue pairs: 2^22 after what was used, of each.
	again := p.ranks("train", 4)
	for r := range again {
		again[r].member = ranks[r].member
	}
	join(t, again)
	subs = create(t, again, allReduce, 17)
	assert.Equal(t, psn.PSN(0x4000ff), subs[0].QP.SendPSN)
	assert.Equal(t, uint32(64), subs[0].QP.PeerQPN)
	subs = create(t, again, reduce2, 33)
	assert.Equal(t, psn.PSN(0x400fff), subs[3].QP.SendPSN)
}

// Members whose queue pairs have different pasts begin together where all of them are 2^22 away from theirs.
func TestDifferentPasts(t *testing.T) {
	p := newPlane(t, nil)
	ctx := soon(t)
	// run makes a job of hosts, whose rank i has a queue pair, and lets it end after a psn.
	run := func(job string, hosts []int, qpns []uint32, last psn.PSN) psn.PSN {
		var ranks []*client
		for r, host := range hosts {
			k := p.rank(job, host, 8, nil)
			k.member.Rank, k.member.Ranks = r, len(hosts)
			ranks = append(ranks, k)
		}
		join(t, ranks)
		first := make([]psn.PSN, len(ranks))
		every(t, ranks, func(r int, k *client) error {
			sub, err := k.Subgroup(ctx, allReduce, qpns[r])
			if err != nil {
				return err
			}
			first[r] = sub.QP.SendPSN
			return k.Quiesced(ctx, sub, last)
		})
		every(t, ranks, func(_ int, k *client) error { return k.Leave(ctx) })
		p.empty()
		for _, one := range first {
			assert.Equal(t, first[0], one, "all begin at the same")
		}
		return first[0]
	}
	assert.Equal(t, psn.PSN(0xfffff0), run("a", []int{0, 1}, []uint32{17, 18}, 0x000100))
	assert.Equal(t, psn.PSN(0xfffff0), run("b", []int{1, 0, 2}, []uint32{20, 21, 19}, 0x700000), "other queue pairs, of the switch too")
	// Ranks 0 and 1 have been at 0x000100, rank 2 at 0x700000: 2^22 after the first would be too near to the second.
	assert.Equal(t, psn.PSN(0xb00000), run("c", []int{0, 1, 2}, []uint32{17, 18, 19}, 0xb00010))
	assert.Equal(t, psn.PSN(0xf00010), run("c", []int{0, 1, 2}, []uint32{17, 18, 19}, 0xf00020), "they have one past now")
}

// A job of one leaf does not use the others.
func TestOneLeaf(t *testing.T) {
	p := newPlane(t, nil)
	ranks := p.ranks("small", 3)
	join(t, ranks)
	create(t, ranks, allReduce, 17)
	assert.Empty(t, p.switches["root"].Holds())
	assert.Empty(t, p.switches["leaf1"].Holds())
	assert.Len(t, p.switches["leaf0"].Holds(), 1)
}

// kindOf checks that err is a failure of a kind about ranks, and returns its text.
func kindOf(t *testing.T, err error, kind controlpb.Kind, ranks ...int) string {
	t.Helper()
	var f *failure.Error
	require.ErrorAs(t, err, &f)
	assert.Equal(t, kind, f.Kind, f.Message)
	assert.Equal(t, ranks, f.Ranks, f.Message)
	return f.Message
}

// A rank that does not come is named, to all who wait, after the time limit and no later.
func TestMissing(t *testing.T) {
	p := newPlane(t, nil)
	ranks := p.ranks("train", 4)
	began := time.Now()
	ctx := soon(t)
	errs := each([]*client{ranks[0], ranks[3]}, func(_ int, k *client) error { _, err := k.Join(ctx, k.member); return err })
	assert.Less(t, time.Since(began), 10*time.Second)
	for _, err := range errs {
		text := kindOf(t, err, controlpb.Kind_KIND_MISSING_RANK, 1, 2)
		assert.Regexp(t, `^job train: ranks 1, 2 have not joined within [45].*s; ranks 0, 3 are there$`, text)
	}

	// Nothing is left of it: the job forms when all come.
	join(t, ranks)
	began = time.Now()
	errs = each(ranks[:3], func(r int, k *client) error { _, err := k.Subgroup(ctx, allReduce, uint32(17+r)); return err })
	assert.Less(t, time.Since(began), 10*time.Second)
	for _, err := range errs {
		text := kindOf(t, err, controlpb.Kind_KIND_MISSING_RANK, 3)
		assert.Regexp(t, `^job train: rank 3 has not asked for allreduce within .*s, which ranks 0, 1, 2 have asked for$`, text)
	}
	// It gets the same outcome, late as it is; the next one they all get.
	_, err := ranks[3].Subgroup(ctx, allReduce, 20)
	kindOf(t, err, controlpb.Kind_KIND_MISSING_RANK, 3)
	create(t, ranks, allReduce, 17)
}

// A rank that goes away while it waits is one that has not come.
func TestGoesAway(t *testing.T) {
	p := newPlane(t, nil)
	ranks := p.ranks("train", 2)
	ctx, cancel := context.WithTimeout(soon(t), 300*time.Millisecond)
	defer cancel()
	_, err := ranks[1].Join(ctx, ranks[1].member) // Ctrl-C
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = ranks[0].Join(soon(t), ranks[0].member)
	kindOf(t, err, controlpb.Kind_KIND_MISSING_RANK, 1)
}

// What ranks disagree about, all who wait are told at once.
func TestDisagree(t *testing.T) {
	for _, tt := range []struct {
		name   string
		first  func(*rendezvous.Options, *coll.Member)
		second func(*rendezvous.Options, *coll.Member)
		kind   controlpb.Kind
		ranks  []int
		want   string
	}{
		{"count", nil, func(_ *rendezvous.Options, m *coll.Member) { m.Ranks = 5 }, controlpb.Kind_KIND_DISAGREE, []int{0, 1},
			"job train: ranks disagree: rank 0 (10.9.0.1) says 4 ranks, rank 1 (10.9.0.2) says 5 ranks"},
		{"rank", nil, func(_ *rendezvous.Options, m *coll.Member) { m.Rank = 0 }, controlpb.Kind_KIND_DUPLICATE_RANK, []int{0},
			"job train: rank 0 is there twice: at 10.9.0.1 and at 10.9.0.2"},
		{"mode", func(o *rendezvous.Options, _ *coll.Member) { o.Mode = 2 }, func(o *rendezvous.Options, _ *coll.Member) { o.Mode = 3 }, controlpb.Kind_KIND_DISAGREE, []int{0, 1},
			"job train: ranks disagree: rank 0 (10.9.0.1) says mode 2, rank 1 (10.9.0.2) says mode 3"},
		{"MTU", func(o *rendezvous.Options, _ *coll.Member) { o.MTU = 256 }, func(o *rendezvous.Options, _ *coll.Member) { o.MTU = 512 }, controlpb.Kind_KIND_DISAGREE, []int{0, 1},
			"job train: ranks disagree: rank 0 (10.9.0.1) says MTU 256, rank 1 (10.9.0.2) says MTU 512"},
		{"window", func(o *rendezvous.Options, _ *coll.Member) { o.WindowPackets = 8 }, func(o *rendezvous.Options, _ *coll.Member) { o.WindowPackets = 16 }, controlpb.Kind_KIND_DISAGREE, []int{0, 1},
			"job train: ranks disagree: rank 0 (10.9.0.1) says a window of 8 packets, rank 1 (10.9.0.2) says a window of 16 packets"},
		{"type", func(o *rendezvous.Options, _ *coll.Member) {
			o.Pinned = &rendezvous.Arithmetic{Op: spec.OpSum, DType: spec.DTypeInt32}
		}, nil, controlpb.Kind_KIND_DISAGREE, []int{0, 1},
			`job train: ranks disagree: rank 0 (10.9.0.1) says pinned "sum of int32", rank 1 (10.9.0.2) says pinned ""`},
		{"reproducible", nil, func(o *rendezvous.Options, _ *coll.Member) { o.Reproducible = true }, controlpb.Kind_KIND_DISAGREE, []int{0, 1},
			"job train: ranks disagree: rank 0 (10.9.0.1) says reproducible false, rank 1 (10.9.0.2) says reproducible true"},
		{"address", nil, func(_ *rendezvous.Options, m *coll.Member) { m.IP = m.IP.Prev() }, controlpb.Kind_KIND_DISAGREE, []int{0, 1},
			"job train: ranks 0 and 1 have the same IP 10.9.0.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlane(t, nil)
			var ranks []*client
			for r, change := range []func(*rendezvous.Options, *coll.Member){tt.first, tt.second} {
				k := p.rank("train", r, 4, func(o *rendezvous.Options) {
					if change != nil {
						change(o, &coll.Member{})
					}
				})
				if change != nil {
					change(&rendezvous.Options{}, &k.member)
				}
				ranks = append(ranks, k)
			}
			ctx := soon(t)
			began := time.Now()
			errs := each(ranks, func(r int, k *client) error {
				time.Sleep(time.Duration(r) * 300 * time.Millisecond) // in this order
				_, err := k.Join(ctx, k.member)
				return err
			})
			assert.Less(t, time.Since(began), 4*time.Second, "at once, not at the limit")
			for _, err := range errs {
				assert.Equal(t, tt.want, kindOf(t, err, tt.kind, tt.ranks...))
			}
		})
	}
}

// Ranks that ask for different collectives at the same place are told so, all of them.
func TestDisagreeingSubgroup(t *testing.T) {
	p := newPlane(t, nil)
	ranks := p.ranks("train", 3)
	join(t, ranks)
	ctx := soon(t)
	errs := each(ranks, func(r int, k *client) error {
		time.Sleep(time.Duration(r) * 200 * time.Millisecond)
		_, err := k.Subgroup(ctx, reduceTo(r/2), 17)
		return err
	})
	for _, err := range errs {
		assert.Equal(t, "job train: ranks disagree: the subgroup 0 of rank 0 (10.9.0.1) is for reduce:0, that of rank 2 (10.9.0.3) for reduce:1",
			kindOf(t, err, controlpb.Kind_KIND_DISAGREE, 0, 2))
	}
	create(t, ranks, allReduce, 17)
}

// A switch that is out of something says of what; every rank hears it, and does without the network.
func TestShort(t *testing.T) {
	for _, tt := range []struct {
		name string
		info func(*target.Info)
		want string
	}{
		{"endpoints", func(i *target.Info) { i.EndpointEntries = 4 }, "job train: reduce:2: switch leaf0 has no endpoint left, of 4"},
		{"pipes", func(i *target.Info) { i.PipeEntries = 1 }, "job train: switch leaf0 has no pipe left, of 1"},
		{"blocks", func(i *target.Info) { i.PoolKB = 48 }, "job train: switch leaf0 has no 128 blocks of the pool in one piece left, of 192 (32 slots of 1024 bytes for a window of 16 packets)"},
		{"outs", func(i *target.Info) { i.ListEntries = 3 }, "job train: switch leaf0 has no 1 entries of the out list left, of 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlane(t, nil)
			p.kill()
			info := targettestInfo("leaf0")
			tt.info(&info)
			p.replace("leaf0", info)
			p.start()
			ranks := p.ranks("train", 3)
			join(t, ranks)
			create(t, ranks, allReduce, 17)
			ctx := soon(t)
			errs := each(ranks, func(r int, k *client) error { _, err := k.Subgroup(ctx, reduce2, uint32(33+r)); return err })
			for _, err := range errs {
				require.ErrorIs(t, err, coll.ErrRefused)
				assert.Equal(t, tt.want, kindOf(t, err, controlpb.Kind_KIND_NO_RESOURCE))
			}
			// What a job gives back the next one gets.
			every(t, ranks, func(_ int, k *client) error { return k.Leave(ctx) })
			p.empty()
			ranks = p.ranks("other", 3)
			join(t, ranks)
			create(t, ranks, allReduce, 17)
		})
	}
}

// What cannot be done in the network at all is refused with the reason, and the ranks know each other all the same.
func TestNoTree(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(r int, o *rendezvous.Options, m *coll.Member)
		want   string
	}{
		{"unknown host", func(r int, _ *rendezvous.Options, m *coll.Member) {
			if r == 1 {
				m.IP = roceAddr("10.9.0.77")
			}
		}, "job train: the network's file has no host 10.9.0.77, and rank 1 did not say at which switch and port it is"},
		{"one port", func(r int, o *rendezvous.Options, m *coll.Member) {
			m.IP = roceAddr(name("10.9.1.%d", r+1))
			o.Switch, o.Port = "leaf1", 7
		}, "job train: ranks 0 and 1 are both at port 7 of switch leaf1, want a port for each"},
		{"mode", func(_ int, o *rendezvous.Options, _ *coll.Member) { o.Mode = 1 }, "job train: switch leaf0 has not mode 1, it has [2 3]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlane(t, nil)
			var ranks []*client
			for r := range 2 {
				var m coll.Member
				o := &rendezvous.Options{}
				k := p.rank("train", r, 2, nil)
				m = k.member
				tt.change(r, o, &m)
				k = p.rank("train", r, 2, func(to *rendezvous.Options) { to.Switch, to.Port, to.Mode = o.Switch, o.Port, o.Mode })
				k.member = m
				ranks = append(ranks, k)
			}
			peers := join(t, ranks)
			assert.Equal(t, ranks[1].member, peers[0].Members[1])
			ctx := soon(t)
			for _, err := range each(ranks, func(r int, k *client) error { _, err := k.Subgroup(ctx, allReduce, 17); return err }) {
				require.ErrorIs(t, err, coll.ErrRefused)
				assert.Equal(t, tt.want, kindOf(t, err, controlpb.Kind_KIND_NO_RESOURCE, ranksIn(err)...))
			}
			every(t, ranks, func(_ int, k *client) error { return k.Leave(ctx) })
		})
	}
}

// Two jobs at once share the switches and nothing in them; the end of one changes nothing for the other.
func TestTwoJobs(t *testing.T) {
	p := newPlane(t, nil)
	a, b := p.ranks("a", 3), p.ranks("b", 4)
	for r := range b { // at the same hosts
		b[r].member.MAC, b[r].member.IP = roce.MAC{0x52, 0x54, 0, 0, 0, byte(r + 1)}, roceAddr(name("10.9.0.%d", r+1))
	}
	join(t, a)
	join(t, b)
	x, y := create(t, a, allReduce, 17), create(t, b, allReduce, 33)
	assert.NotEqual(t, x[0].QP.PeerQPN, y[0].QP.PeerQPN)
	z := create(t, a, reduce2, 49)

	// The queue pairs of one are not the other's too.
	ctx := soon(t)
	for _, err := range each(b, func(r int, k *client) error { _, err := k.Subgroup(ctx, reduce2, 17+uint32(r)); return err }) {
		text := kindOf(t, err, controlpb.Kind_KIND_BAD_REQUEST)
		assert.Contains(t, text, "has QPN 0x000011, which another group has there already")
	}
	every(t, a, func(_ int, k *client) error { return k.Leave(ctx) })
	require.Eventually(t, func() bool { return len(p.switches["leaf0"].Holds()) == 1 }, patience, 10*time.Millisecond)
	assert.Equal(t, []string{y[0].ID}, p.switches["leaf0"].Holds())
	history := strings.Join(p.switches["leaf0"].History(), "\n")
	assert.Contains(t, history, "remove "+x[0].ID)
	assert.Contains(t, history, "remove "+z[0].ID)
	for _, k := range b {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		require.ErrorIs(t, k.Watch(ctx), context.DeadlineExceeded, "b runs on")
		cancel()
	}
}
