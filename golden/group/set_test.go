package group

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/tree"
)

// everything is a list that needs every subgroup of its ranks.
const everything = "allreduce,reducescatter,allgather,barrier"

func listed(t *testing.T, shape, list string, ranks int) *Group {
	t.Helper()
	o := DefaultOptions()
	o.Tree, o.Collective, o.Ranks, o.Slots, o.MTU, o.PSN0 = shape, list, ranks, 16, 256, 0xfffff8
	g, err := Generate(o)
	require.NoError(t, err)
	return g
}

// Each subgroup has one queue pair a rank and the pipes of section 2 at each switch that it touches.
func TestSubgroups(t *testing.T) {
	for _, shape := range TreeShapes() {
		g := listed(t, shape, everything, 5)
		require.Len(t, g.Subgroups, 1+2*5)
		tr, err := g.Tree()
		require.NoError(t, err)
		total := 0
		for i, step := range tr.Subgroups([]tree.Step{{Collective: tree.AllReduce}, {Collective: tree.ReduceScatter}, {Collective: tree.AllGather}}) {
			n, err := g.SubgroupOf(step)
			require.NoError(t, err)
			assert.Equal(t, i, n, "%v", step)
			pipes, err := tr.Pipes(step.Collective, step.Root)
			require.NoError(t, err)
			total += len(pipes)
			for r := range 5 {
				qp, err := g.HostConfig(r, n)
				require.NoError(t, err)
				require.NoError(t, qp.Validate())
				assert.EqualValues(t, 17+i, qp.QPN)
				assert.EqualValues(t, 0xfffff8, qp.SendPSN)
				s, e, err := g.RankPeer(r, n)
				require.NoError(t, err)
				assert.Equal(t, qp.PeerQPN, g.Switches[s].Endpoints[e].QPN)
			}
		}
		barrier, err := g.SubgroupOf(tree.Step{Collective: tree.Barrier})
		require.NoError(t, err)
		assert.Zero(t, barrier, "AllReduce's")
		have := 0
		for _, sw := range g.Switches {
			have += len(sw.Pipes)
			cfg, err := g.EngineConfig(sw.Name)
			require.NoError(t, err)
			require.NoError(t, cfg.Validate())
		}
		assert.Equal(t, total, have)
		text, err := g.Marshal()
		require.NoError(t, err)
		back, err := Parse("back", text)
		require.NoError(t, err, "%s", text)
		assert.Equal(t, g, back)
		drawn, err := g.Draw()
		require.NoError(t, err)
		assert.Equal(t, 5*11, strings.Count(drawn, "qpn 0x0000"), "%s", drawn)
	}
	g := listed(t, TreeSingle, "reduce:1,broadcast:2", 3)
	_, err := g.SubgroupOf(tree.Step{Collective: tree.Reduce, Root: 2})
	require.EqualError(t, err, "no subgroup for reduce:2, the group has those of reduce:1, broadcast:2")
}

// A rank of a group of 32 with everything open has 65 queue pairs, and the root a row for each of their ends.
func TestManyEndpoints(t *testing.T) {
	g := listed(t, TreeSingle, everything, 32)
	assert.Len(t, g.Switches[0].Endpoints, 65*32)
	assert.Equal(t, 4096, g.Switches[0].EndpointEntries)
}

func TestSubgroupsWrong(t *testing.T) {
	text, err := listed(t, TreeTwoLevel, "allreduce,reduce:1,broadcast:2", 4).Marshal()
	require.NoError(t, err)
	for _, tc := range []struct{ name, old, new, want string }{
		{"collective beside", "subgroups:", "collective: allreduce\nsubgroups:", "collective: given with subgroups, want one of them"},
		{"qpn beside", `ip: 10.9.0.1}`, `ip: 10.9.0.1, qpn: 17}`, "ranks[0].qpn: given with subgroups, want none"},
		{"unknown", "subgroup: reduce1\n", "subgroup: reduce2\n", `got "reduce2", want a subgroup: allreduce, reduce1, broadcast2`},
		{"none", "        subgroup: reduce1\n", "", `got "", want a subgroup`},
		{"short", "qpns: [0x000012, 0x000012, ", "qpns: [0x000012, ", "qpns: got 3, want 4, one for each rank"},
		{"twice", "qpns: [0x000012, ", "qpns: [0x000011, ", "qpns[0]: got 0x000011, which rank/0 has in subgroup allreduce already"},
		{"no root", "collective: reduce, root_rank: 1,", "collective: reduce,", "reduce has no root_rank, want 0..3"},
		{"root of none", "collective: allreduce,", "collective: allreduce, root_rank: 0,", "got 0 with collective allreduce, want none"},
		{"root beyond", "root_rank: 2", "root_rank: 4", "got 4, want 0..3"},
		{"same name", "name: reduce1,", "name: allreduce,", "subgroup allreduce is entry 0 already"},
		{"same use", "collective: broadcast, root_rank: 2", "collective: reduce, root_rank: 1", "the subgroup of reduce:1 is entry 1 already"},
		{"other pipes", "collective: broadcast, root_rank: 2", "collective: broadcast, root_rank: 3", "want for broadcast: from"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Contains(t, string(text), tc.old)
			_, err := Parse("f", []byte(strings.Replace(string(text), tc.old, tc.new, 1)))
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// A pipe of one subgroup must not take what another's sends.
func TestSubgroupsCrossed(t *testing.T) {
	g := listed(t, TreeTwoLevel, "reduce:2,reduce:3", 4)
	leaf, _ := g.SwitchIndex("leaf0")
	root, _ := g.SwitchIndex("root")
	swap := func(s int, name string) *Endpoint {
		for e := range g.Switches[s].Endpoints {
			if g.Switches[s].Endpoints[e].Name == name {
				return &g.Switches[s].Endpoints[e]
			}
		}
		t.Fatal(name)
		return nil
	}
	a, b := swap(leaf, "reduce2.root"), swap(leaf, "reduce3.root")
	a.PeerQPN, b.PeerQPN = b.PeerQPN, a.PeerQPN
	c, d := swap(root, "reduce2.leaf0"), swap(root, "reduce3.leaf0")
	c.PeerQPN, d.PeerQPN = d.PeerQPN, c.PeerQPN
	text, err := g.Marshal()
	require.NoError(t, err)
	_, err = Parse("f", text)
	require.ErrorContains(t, err, "pipe reduce2.reduce is of subgroup reduce2, but pipe reduce3.reduce of switch root, which it sends to, of reduce3")
}

// The ranks of Mode-II send again by themselves, and half the slots cover their window.
func TestModeTwo(t *testing.T) {
	o := DefaultOptions()
	o.Mode = 2
	_, err := Generate(o)
	require.NoError(t, err)
	o.WindowPackets = 65
	_, err = Generate(o)
	require.ErrorContains(t, err, "slots: got 128, want at least 130 in mode 2: twice window_packets")
	o.WindowPackets, o.HostTimeout = 64, 0
	_, err = Generate(o)
	require.ErrorContains(t, err, "timeout_code 0, want 7, 7 and 1..31")

	g := listed(t, TreeSingle, "allreduce,broadcast:1", 3)
	g.Switches[0].Pipes[1].Mode = 2
	text, err := g.Marshal()
	require.NoError(t, err)
	g, err = Parse("f", text)
	require.NoError(t, err)
	cfg, err := g.EngineConfig("root")
	require.NoError(t, err)
	assert.Equal(t, []int{3, 2}, []int{cfg.Pipes[0].Mode, cfg.Pipes[1].Mode})
}

func TestSet(t *testing.T) {
	o := DefaultOptions()
	o.Tree, o.Slots, o.MTU = TreeTwoLevel, 16, 256
	other := o
	other.Collective, other.MTU, other.PSN0 = "reduce:3,allreduce", 512, 7
	set, err := GenerateSet(o, other, o)
	require.NoError(t, err)
	assert.Equal(t, []string{"root", "leaf0", "leaf1"}, set.Switches)
	require.Len(t, set.Hosts, 4)
	for i, h := range set.Hosts {
		assert.Equal(t, RankName(i), h.Name)
		assert.Equal(t, []Member{{0, i}, {1, i}, {2, i}}, h.Ranks)
	}
	wires, err := set.Wires()
	require.NoError(t, err)
	assert.Len(t, wires, 6)
	cfg, err := set.EngineConfig("leaf1")
	require.NoError(t, err)
	require.NoError(t, cfg.Validate())
	assert.Len(t, cfg.Pipes, 2+3+2)
	assert.Len(t, cfg.Endpoints, 4*3)
	assert.Equal(t, "g1/reduce3.reduce", cfg.Pipes[2].Name)
	_, err = set.EngineConfig("leaf7")
	require.ErrorContains(t, err, `switch "leaf7" does not exist, want one of root, leaf0, leaf1`)
	for r := range 4 {
		c, err := set.Groups[1].RankConfig(r)
		require.NoError(t, err)
		require.Len(t, c.QPs, 2)
		assert.EqualValues(t, 18, c.QPs[0].QPN)
	}
	assert.Equal(t, []tree.Step{{Collective: tree.Reduce, Root: 3}, {Collective: tree.AllReduce}}, set.Groups[1].Steps())
}

func TestSetRefuses(t *testing.T) {
	one, o := DefaultOptions(), DefaultOptions()
	make2 := func() (a, b *Group) {
		s, err := GenerateSet(one, o)
		require.NoError(t, err)
		return s.Groups[0], s.Groups[1]
	}
	for name, tc := range map[string]struct {
		change func(a, b *Group) []*Group
		want   string
	}{
		"none":   {func(a, b *Group) []*Group { return nil }, "got none"},
		"twice":  {func(a, b *Group) []*Group { return []*Group{a, a} }, "has QPN 0x000011, which another group has there"},
		"clock":  {func(a, b *Group) []*Group { b.Clock.PerTick++; return []*Group{a, b} }, "got clock"},
		"sizes":  {func(a, b *Group) []*Group { b.Switches[0].PoolKB++; return []*Group{a, b} }, "pool_kb"},
		"mac":    {func(a, b *Group) []*Group { b.Ranks[1].MAC[5]++; return []*Group{a, b} }, "has MAC"},
		"row":    {func(a, b *Group) []*Group { b.Switches[0].Endpoints[0].QPN = 0x141; return []*Group{a, b} }, "same low bits"},
		"blocks": {func(a, b *Group) []*Group { b.Switches[0].Pipes[0].BaseBlock = new(int); return []*Group{a, b} }, "overlap"},
		"pipes": {func(a, b *Group) []*Group {
			a.Switches[0].PipeEntries, b.Switches[0].PipeEntries = 1, 1
			return []*Group{a, b}
		}, "got 2 pipes in all groups, want at most pipe_entries, 1"},
		"port": {func(a, b *Group) []*Group {
			e := b.Switches[0].Endpoints
			e[0].Port, e[1].Port = e[1].Port, e[0].Port
			return []*Group{a, b}
		}, "want port 0 of root"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewSet(tc.change(make2())...)
			require.ErrorContains(t, err, tc.want)
		})
	}
	o.Ranks = 5
	_, err := GenerateSet(one, o)
	require.ErrorContains(t, err, "want the same for all groups")
}
