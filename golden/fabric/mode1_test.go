package fabric

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/expect"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// Sizes at which packets and messages begin and end, in every collective, with both kinds of NIC: nothing, an element,
// one less than a packet, a packet, one more; the same of a message of three packets; a prime.
func TestMode1Sizes(t *testing.T) {
	const u, m = 256, 3 * 256
	sizes := []int{0, 1, u - 1, u, u + 1, m - 1, m, m + 1, 1009}
	for _, tc := range []struct {
		ranks       int
		tree        string
		collectives string
		sizes       []int
	}{
		{2, group.TreeSingle, "allreduce,reduce:1,broadcast:0,barrier,reducescatter,allgather", sizes},
		{3, group.TreeThreeLevel, "allreduce,reduce:1,broadcast:0,barrier,reducescatter,allgather", sizes},
		{4, group.TreeTwoLevel, "allreduce,reduce:3,broadcast:2,barrier,reducescatter,allgather", sizes},
		{5, group.TreeThreeLevel, "allreduce,reduce:4,broadcast:2,barrier,reducescatter,allgather", sizes},
		{8, group.TreeTwoLevel, "allreduce,reduce:0,broadcast:5,barrier", sizes},
		{8, group.TreeSingle, "reducescatter,allgather", []int{u + 1, 1009}},
		{12, group.TreeThreeLevel, "allreduce,reduce:7,broadcast:11,barrier", []int{1, m + 1}},
		{16, group.TreeSingle, "reducescatter,allgather,allreduce", []int{1009}},
		{32, group.TreeSingle, "allreduce,reduce:31,broadcast:7,barrier", []int{1, 1009}},
		{32, group.TreeTwoLevel, "allreduce,reduce:31,broadcast:7,barrier", []int{m + 1}},
	} {
		for _, preset := range []string{"linux-rxe", "strict-nic"} {
			t.Run(fmt.Sprintf("%d-%s/%s", tc.ranks, tc.tree, preset), func(t *testing.T) {
				o := group.DefaultOptions()
				shape(&o)
				o.Mode, o.Ranks, o.Tree, o.Preset, o.Collective = 1, tc.ranks, tc.tree, preset, tc.collectives
				o.DType, o.Op = spec.DTypeInt8, spec.OpMax // an element is a byte
				set, err := group.GenerateSet(o)
				require.NoError(t, err)
				steps, err := o.Steps()
				require.NoError(t, err)
				work := &Work{}
				for i, bytes := range tc.sizes {
					one, err := RandomWork(set.Groups[0], uint64(i), steps, bytes)
					require.NoError(t, err)
					work.Steps, work.Input = append(work.Steps, one.Steps...), append(work.Input, one.Input...)
				}
				job, err := NewJob(set, work)
				require.NoError(t, err)
				playJob(t, uint64(tc.ranks), set, job, func(i int) uint64 { return uint64(i) * 500 }, nil)
			})
		}
	}
}

// Floating point is the sum in the order of endpoints, to the bit, whenever the ranks come: at each switch in the order
// of its neighbours, at the root of a Reduce its own part last.
func TestMode1FloatOrder(t *testing.T) {
	for _, shapeName := range group.TreeShapes() {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("%s/%d", shapeName, seed), func(t *testing.T) {
				o := group.DefaultOptions()
				shape(&o)
				o.Mode, o.Ranks, o.Tree, o.DType, o.Collective = 1, 7, shapeName, spec.DTypeFloat32, "allreduce,reduce:2,reducescatter"
				set, err := group.GenerateSet(o)
				require.NoError(t, err)
				steps, err := o.Steps()
				require.NoError(t, err)
				work, err := RandomWork(set.Groups[0], seed, steps, 4000)
				require.NoError(t, err)
				job, err := NewJob(set, work)
				require.NoError(t, err)
				// A job knows no sum that rounds: its vectors are written anew in place, and what must come of them.
				rng := rand.New(rand.NewPCG(seed, 9))
				for _, in := range work.Input {
					for _, v := range in {
						for at := 0; at < len(v); at += 4 {
							binary.LittleEndian.PutUint32(v[at:], math.Float32bits(float32(math.Ldexp(rng.Float64()-0.5, rng.IntN(30)))))
						}
					}
				}
				other := 0
				tr, err := set.Groups[0].Tree()
				require.NoError(t, err)
				for i, s := range steps {
					want := job.groups[0].want[i]
					for r := range want {
						from, to := 0, 4000
						if s.Collective == tree.ReduceScatter {
							from, to = r*1000/7*4, (r+1)*1000/7*4
						} else if s.Collective == tree.Reduce && r != s.Root {
							continue
						}
						want[r] = nil
						for at := from; at < to; at += 4 {
							sum := inOrder(tr, s, r, func(k int) float32 { return float(work.Input[i][k][at:]) })
							flat := float32(0)
							for k := range 7 {
								flat += float(work.Input[i][6-k][at:])
							}
							if flat != sum {
								other++
							}
							want[r] = binary.LittleEndian.AppendUint32(want[r], math.Float32bits(sum))
						}
					}
				}
				require.Greater(t, other, 1000, "the order makes no difference to these vectors")
				start := rng.Perm(7)
				playJob(t, seed, set, job, func(i int) uint64 { return 3000 * uint64(start[i]) }, nil)
			})
		}
	}
}

func float(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }

// inOrder is what rank r has of an element after a collective: the values of the ranks, added switch by switch.
func inOrder(t *tree.Tree, s tree.Step, r int, value func(rank int) float32) float32 {
	root := s.Root
	if s.Collective == tree.ReduceScatter {
		root = r
	}
	var into func(s int, but tree.Node) float32
	into = func(s int, but tree.Node) float32 {
		sum, first := float32(0), true
		for _, n := range t.Neighbours(s) {
			if n == but {
				continue
			}
			v := float32(0)
			if n.IsRank() {
				v = value(n.Index)
			} else {
				v = into(n.Index, tree.Switch(s))
			}
			if first {
				sum, first = v, false
			} else {
				sum += v
			}
		}
		return sum
	}
	if s.Collective == tree.AllReduce {
		return into(t.Root(), tree.Node{Index: -1})
	}
	for sw := range t.Switches() {
		for _, n := range t.Neighbours(sw) {
			if n == tree.Rank(root) {
				return into(sw, n) + value(root)
			}
		}
	}
	return 0
}

// A rank that comes late holds the others by RNR NAKs alone: no link loses anything, no timer runs out, no queue pair
// fails, and nothing is lost.
func TestMode1BackPressure(t *testing.T) {
	for _, preset := range []string{"linux-rxe", "strict-nic"} {
		for _, shapeName := range group.TreeShapes() {
			t.Run(preset+"/"+shapeName, func(t *testing.T) {
				o := group.DefaultOptions()
				shape(&o)
				o.Loss, o.Dup, o.Reorder, o.WindowPackets = 0, 0, 0, 12
				o.Mode, o.Ranks, o.Tree, o.Preset, o.Collective = 1, 5, shapeName, preset, "allreduce,broadcast:1,reduce:2"
				set, err := group.GenerateSet(o)
				require.NoError(t, err)
				steps, err := o.Steps()
				require.NoError(t, err)
				work, err := RandomWork(set.Groups[0], 1, steps, 256*40)
				require.NoError(t, err)
				job, err := NewJob(set, work)
				require.NoError(t, err)
				rnr, timers := 0, 0
				playJob(t, 1, set, job, func(i int) uint64 { return uint64(i/4) * 4000 }, func(r *spec.Record) {
					if r.Cause == spec.CauseData && r.Verdict == spec.VerdictBeyond && r.AckKind == spec.AckKindRNR {
						rnr++
					}
					if r.Cause == spec.CauseTimer {
						timers++
					}
				})
				t.Logf("%d RNR NAKs", rnr)
				require.Greater(t, rnr, 50)
				require.Zero(t, timers)
			})
		}
	}
}

// A message that is too large for the buffers ends its group by name: the rank that sends it hears Invalid Request,
// the others a fatal NAK, and the engine says who and how much.
func TestMode1MessageTooLarge(t *testing.T) {
	o := group.DefaultOptions()
	o.Mode, o.Ranks, o.MTU, o.MessagePackets = 1, 3, 256, 4
	g, err := group.Generate(o)
	require.NoError(t, err)
	g.Host.MessagePackets = 5 // of which a buffer has no room
	set, err := group.NewSet(g)
	require.NoError(t, err)
	work := &Work{Steps: []tree.Step{{Collective: tree.AllReduce}}, Input: [][][]byte{expect.Vectors(1, 3, 256*10, spec.DTypeInt32, spec.OpSum)}}
	job, err := NewJob(set, work)
	require.NoError(t, err)
	var sw *Switch
	n, err := Build(set, 1, func(i int) (_ Node, err error) { sw, err = GoldenSwitch(set, i); return sw, err },
		func(i int) (Node, error) { return job.Host(i, uint64(10000*i)) })
	require.NoError(t, err)
	n.Run(1 << 30)
	var said []string
	for r := range 3 {
		require.Error(t, job.Rank(0, r).Err())
		said = append(said, job.Rank(0, r).Err().Error())
	}
	require.Contains(t, said[0], "completed with status 9", "remote invalid request")
	require.Contains(t, strings.Join(said[1:], "\n"), "completed with status 11", "remote operational error")
	f := sw.Engine.Fault(0)
	require.Equal(t, spec.ErrorKindMessageSize, f.Kind)
	require.Equal(t, []int{0, 1280, 1024}, []int{f.Endpoint, int(f.Got), int(f.Wanted)})
}
