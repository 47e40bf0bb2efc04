package fabric

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/reduce"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// shape is a small group whose PSNs wrap, with links that do everything.
func shape(o *group.Options) {
	o.MTU, o.Slots, o.MessagePackets, o.PSN0, o.ClocksPerTick, o.TimeoutTicks, o.HostTimeout = 256, 8, 3, 0xfffffa, 20, 400, 10
	o.Loss, o.Dup, o.Reorder = 0.01, 0.01, 0.02
}

// play runs groups on golden engines until every rank is done, checks the results, and that the engines
// have nothing left.
func play(t *testing.T, seed uint64, bytes int, options ...group.Options) []*Switch {
	t.Helper()
	set, err := group.GenerateSet(options...)
	require.NoError(t, err)
	var work []*Work
	for i, o := range options {
		steps, err := o.Steps()
		require.NoError(t, err)
		w, err := RandomWork(set.Groups[i], seed+uint64(i), steps, bytes)
		require.NoError(t, err)
		work = append(work, w)
	}
	job, err := NewJob(set, work...)
	require.NoError(t, err)
	return playJob(t, seed, set, job, func(i int) uint64 { return uint64(i) * 1000 }, nil)
}

// playJob is play of a job that is there; host i starts at a time, and retired, if any, sees every record.
func playJob(t *testing.T, seed uint64, set *group.Set, job *Job, start func(i int) uint64, retired func(*spec.Record)) []*Switch {
	t.Helper()
	var switches []*Switch
	n, err := Build(set, seed, func(i int) (Node, error) {
		s, err := GoldenSwitch(set, i)
		if retired != nil {
			s.Retired = func(_ uint64, r *spec.Record) { retired(r) }
		}
		switches = append(switches, s)
		return s, err
	}, func(i int) (Node, error) { return job.Host(i, start(i)) })
	require.NoError(t, err)
	const limit = 1 << 40
	ok := n.RunWhile(func() bool { require.NoError(t, job.Err()); return !job.Done() }, limit)
	require.True(t, ok, "nothing happens any more at %d", n.Now())
	require.NoError(t, job.Err())
	require.NoError(t, job.Check())
	got, total := job.Progress()
	require.Equal(t, total, got)
	for g := range set.Groups {
		require.Equal(t, len(job.groups[g].work.Steps), job.Collectives(g))
	}
	n.Run(limit)
	for _, s := range switches {
		for p := range s.Engine.Config().Pipes {
			require.Equal(t, spec.ErrorKindNone, s.Engine.Fault(p).Kind)
			if s.Engine.Config().Pipes[p].Mode == 2 {
				continue // only its manager knows that the ranks have all they sent acknowledged (protocol.md 9)
			}
			require.True(t, s.Engine.Drained(p), "%s pipe %d is not drained", s.Engine.Config().Name, p)
		}
		require.Empty(t, s.Engine.Enabled())
	}
	return switches
}

// six is each collective once; roots are neither the first nor at one place.
func six() []string {
	return []string{"allreduce", "reduce:2", "broadcast:1", "barrier", "reducescatter", "allgather"}
}

// Every ordered pair of collectives, one right after the other, in trees of depth 1 to 3, in every mode.
func TestPairs(t *testing.T) {
	for _, mode := range []int{1, 2, 3} {
		t.Run(fmt.Sprintf("mode%d", mode), func(t *testing.T) { everyPair(t, mode) })
	}
}

func everyPair(t *testing.T, mode int) {
	for depth, shapeName := range group.TreeShapes() {
		for i, a := range six() {
			for k, b := range six() {
				t.Run(fmt.Sprintf("%s/%s,%s", shapeName, a, b), func(t *testing.T) {
					o := group.DefaultOptions()
					shape(&o)
					o.Mode, o.Tree, o.Ranks, o.Collective = mode, shapeName, 5, a+","+b
					if (i+k)%2 == 0 {
						o.Preset = "strict-nic"
					}
					play(t, uint64(1+i+6*k+36*depth), 5000, o)
				})
			}
		}
	}
}

// All six, twice, with vectors that do not divide into equal parts, and ones so short that ranks have none.
func TestAllSix(t *testing.T) {
	for _, bytes := range []int{4, 12, 1028, 20004} {
		o := group.DefaultOptions()
		shape(&o)
		o.Tree, o.Ranks = group.TreeTwoLevel, 7
		o.Collective = "allreduce,reduce:6,broadcast:0,barrier,reducescatter,allgather,allgather,reducescatter,barrier,broadcast:0,reduce:6,allreduce"
		play(t, uint64(bytes), bytes, o)
	}
}

// Every type by every operator, in every mode.
func TestTypes(t *testing.T) {
	for d := spec.DType(0); d.Valid(); d++ {
		for op := spec.Op(0); op.Valid(); op++ {
			if reduce.Supported(d, op) != nil {
				continue
			}
			o := group.DefaultOptions()
			shape(&o)
			o.Mode, o.Tree, o.Op, o.DType, o.Collective = 1+(int(op)+int(d))%3, group.TreeTwoLevel, op, d, "allreduce,reduce:2,reducescatter"
			play(t, uint64(1+d), 4096, o)
		}
	}
}

// Collectives that control signals open, and slots that keep every contribution, in every mode.
func TestSignals(t *testing.T) {
	for i, shapeName := range group.TreeShapes() {
		for _, mode := range []int{1, 2, 3} {
			for _, kind := range [][2]bool{{true, false}, {false, true}, {true, true}} {
				o := group.DefaultOptions()
				shape(&o)
				o.Mode, o.Tree, o.Ranks, o.Unpinned, o.Reproducible, o.DType = mode, shapeName, 5, kind[0], kind[1], spec.DTypeFloat32
				o.Collective = "allreduce,reduce:2,barrier,broadcast:1,reducescatter,allgather,barrier,barrier,reduce:2,allreduce"
				play(t, uint64(i+10*mode), 5000, o)
			}
		}
	}
}

// Groups that share every switch and host, each with collectives, MTU, first PSN and mode of its own.
func TestGroupsShare(t *testing.T) {
	for n := 2; n <= 4; n++ {
		var options []group.Options
		for i := range n {
			o := group.DefaultOptions()
			shape(&o)
			o.Tree, o.Ranks, o.MTU, o.PSN0 = group.TreeTwoLevel, 4, 256<<(i%2), 0xfffffa+uint64(i)
			o.Collective = []string{"allreduce,barrier", "reduce:1,broadcast:3", "reducescatter", "allgather,allreduce"}[i]
			o.Mode = 1 + (n+i)%3
			options = append(options, o)
		}
		play(t, uint64(n), 6000, options...)
	}
}

// A result with one bit that is not as expected is noticed, at each rank that has one.
func TestWrongResult(t *testing.T) {
	for collective, ranks := range map[string][]int{
		"allreduce": {0, 1, 2, 3}, "reduce:2": {2}, "broadcast:1": {0, 1, 2, 3}, "reducescatter": {0, 1, 2, 3}, "allgather": {0, 1, 2, 3},
	} {
		o := group.DefaultOptions()
		o.Collective = collective
		set, err := group.GenerateSet(o)
		require.NoError(t, err)
		steps, err := tree.ParseSteps(collective)
		require.NoError(t, err)
		w, err := RandomWork(set.Groups[0], 1, steps, 64)
		require.NoError(t, err)
		job, err := NewJob(set, w)
		require.NoError(t, err)
		n, err := Build(set, 1, func(i int) (Node, error) { return GoldenSwitch(set, i) }, func(i int) (Node, error) { return job.Host(i, 0) })
		require.NoError(t, err)
		require.True(t, n.RunWhile(func() bool { return !job.Done() }, 1<<40))
		require.NoError(t, job.Check())
		want := job.groups[0].want[0]
		var noticed []int
		for r, right := range want {
			if len(right) == 0 {
				continue
			}
			want[r] = slices.Clone(right)
			want[r][5] ^= 0x10
			var wrong *WrongResult
			require.ErrorAs(t, job.Check(), &wrong)
			require.Contains(t, wrong.Error(), fmt.Sprintf("result of rank %d of collective 0, %s: element 1 (byte 5) is", r, collective))
			noticed = append(noticed, wrong.Rank)
			want[r] = right
		}
		require.Equal(t, ranks, noticed, collective)
	}
}

// A rank that gets out of a Barrier which another has not entered is noticed.
func TestBarrierEarly(t *testing.T) {
	o := group.DefaultOptions()
	o.Collective, o.Ranks = "barrier", 2
	set, err := group.GenerateSet(o)
	require.NoError(t, err)
	w := &Work{Steps: []tree.Step{{Collective: tree.Barrier}, {Collective: tree.Barrier}}, Input: make([][][]byte, 2)}
	job, err := NewJob(set, w)
	require.NoError(t, err)
	var frames [][]byte
	h, err := job.Host(0, 0)
	require.NoError(t, err)
	h.Bind(func(_ int, f []byte) { frames = append(frames, f) })
	h.Wake(0)
	require.Len(t, frames, 1)
	require.NoError(t, job.Err())
	// An engine that does not wait for the other rank.
	h.Receive(1, 0, answer(t, frames[0]))
	require.EqualError(t, job.Err(), "rank 0 has passed Barrier 1, but rank 1 has entered only 0")
	// It is noticed too if nobody asks before the other rank has entered.
	other, err := job.Host(1, 2)
	require.NoError(t, err)
	other.Bind(func(int, []byte) {})
	other.Wake(2)
	require.EqualError(t, job.Err(), "rank 0 has passed Barrier 1, but rank 1 has entered only 0")
}

// answer sends a rank's own packet back to it.
func answer(t *testing.T, frame []byte) []byte {
	t.Helper()
	pkt, bad := roce.Decode(frame)
	require.Nil(t, bad)
	pkt.SrcMAC, pkt.DstMAC, pkt.Src, pkt.Dst, pkt.DestQP = pkt.DstMAC, pkt.SrcMAC, pkt.Dst, pkt.Src, rankQPN
	return pkt.Encode()
}

const rankQPN = 17 // of generated groups
