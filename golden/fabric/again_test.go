package fabric

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/tree"
)

// Engines that lose all they hold, again and again, with frames, results and ACKs on the links: the subgroups
// are created again with their PSNs moved, what was left is done, and nothing of before gets into a result.
func TestAgain(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			o := group.DefaultOptions()
			shape(&o)
			o.Mode, o.Tree, o.Ranks, o.Reorder = 1+int(seed/3)%3, group.TreeShapes()[seed%3], 4, 0.2
			o.Collective = "allreduce,reduce:2,broadcast:1,barrier,allreduce"
			set, err := group.GenerateSet(o, o)
			require.NoError(t, err)
			steps, err := o.Steps()
			require.NoError(t, err)
			var work []*Work
			for g := range 2 {
				w, err := RandomWork(set.Groups[g], seed+uint64(g), steps, 8000)
				require.NoError(t, err)
				work = append(work, w)
			}
			job, err := NewJob(set, work...)
			require.NoError(t, err)
			hosts, switches := make([]*Host, len(set.Hosts)), make([]*Switch, len(set.Switches))
			n, err := Build(set, seed, func(i int) (_ Node, err error) { switches[i], err = GoldenSwitch(set, i); return switches[i], err },
				func(i int) (_ Node, err error) { hosts[i], err = job.Host(i, 0); return hosts[i], err })
			require.NoError(t, err)
			rng, resets := rand.New(rand.NewPCG(seed, 1)), 0
			for !job.Done() {
				require.Less(t, n.Now(), uint64(1<<40))
				// No frame lives through two of them (protocol.md 2): one that is late does so for 2250 clocks.
				next := n.Now() + 1300 + rng.Uint64N(5000)
				if resets == 4 {
					next = 1 << 40
				}
				n.RunWhile(func() bool { require.NoError(t, job.Err()); return !job.Done() }, next)
				if job.Done() {
					break
				}
				n.Run(next)
				resets++
				job, err = job.Again()
				require.NoError(t, err)
				for i, s := range switches {
					fresh, err := GoldenSwitch(job.Set(), i)
					require.NoError(t, err)
					s.Restart(fresh.Engine)
					n.Rouse(n.Switches[i])
				}
				for i, h := range hosts {
					job.Take(h, i, n.Now())
					n.Rouse(n.Hosts[i])
				}
			}
			require.NoError(t, job.Check())
			require.Equal(t, 4, resets)
		})
	}
}

// Every subgroup begins 2^22 behind the last psn that one of its ranks used.
func TestAgainMovesPSNs(t *testing.T) {
	o := group.DefaultOptions()
	o.Collective, o.Ranks, o.PSN0, o.MTU = "allreduce,reduce:1", 3, 0xfffffe, 256
	set, err := group.GenerateSet(o)
	require.NoError(t, err)
	w, err := RandomWork(set.Groups[0], 1, []tree.Step{{Collective: tree.AllReduce}, {Collective: tree.Reduce, Root: 1}}, 256*5)
	require.NoError(t, err)
	for r := range w.Input[1] {
		w.Input[1][r] = w.Input[1][r][:256*3]
	}
	job, err := NewJob(set, w)
	require.NoError(t, err)
	n, err := Build(set, 1, func(i int) (Node, error) { return GoldenSwitch(set, i) }, func(i int) (Node, error) { return job.Host(i, 0) })
	require.NoError(t, err)
	require.True(t, n.RunWhile(func() bool { return job.Collectives(0) == 0 }, 1<<40))
	again, err := job.Again()
	require.NoError(t, err)
	require.Len(t, again.groups[0].work.Steps, 1)
	cfg, err := again.Set().EngineConfig("root")
	require.NoError(t, err)
	require.EqualValues(t, 0x400002, cfg.Pipes[0].PSN0, "five packets from 0xfffffe on: the last was 2")
	reduce, err := again.Set().Groups[0].HostConfig(0, 1)
	require.NoError(t, err)
	require.Equal(t, cfg.Pipes[1].PSN0, reduce.SendPSN)
	require.EqualValues(t, 0x400000, cfg.Pipes[1].PSN0, "three packets")
	require.EqualValues(t, 0xfffffe, set.Groups[0].Switches[0].Pipes[0].PSN0, "the old group is as it was")
}
