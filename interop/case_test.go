package interop

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/tree"
)

// The slice is small enough for `make interop`, has no case that cannot be, and every case makes a group.
func TestSlice(t *testing.T) {
	slice := Axes{}.Cases(true)
	require.LessOrEqual(t, len(slice), 24)
	engines := map[string]int{}
	for _, c := range slice {
		g, err := c.group()
		require.NoError(t, err, c.Key())
		require.Len(t, g.Ranks, c.ranks())
		require.Equal(t, c.IP == 4, g.Ranks[0].IP.Is4(), c.Key())
		require.False(t, c.Engine == RTL && c.Mode == 1, c.Key())
		engines[c.Engine]++
	}
	require.Len(t, engines, 2)
	lossy := map[int]bool{} // modes of the RTL
	for _, c := range slice {
		if c.Engine == RTL && c.Collective == "allreduce" && c.Guests == 2 && c.Hosts == 0 && c.Wire == Lossy {
			lossy[c.Mode] = true
		}
	}
	require.Equal(t, map[int]bool{2: true, 3: true}, lossy, "two guests, AllReduce with loss")
	require.Len(t, Axes{Engines: []string{Golden}, Modes: []int{3}, Collectives: []string{"barrier"}, Members: []Members{{2, 0}}, MTUs: []int{1024},
		IPs: []int{4}, Wires: []string{Quiet}, Unpinned: []bool{false}}.Cases(true), 1, "and nothing of it where it is not asked for")
	require.Equal(t, slice, Axes{}.Cases(true), "always the same")
}

// The numbers of the guests' queue pairs are in the group that the engine gets, and nothing else has changed.
func TestReached(t *testing.T) {
	for _, collective := range []string{"allreduce", "reducescatter"} {
		c := Case{Engine: RTL, Mode: 2, Collective: collective, Numbers: Int32, Guests: 2, Hosts: 1, MTU: 1024, IP: 6, Wire: Quiet, Packets: VectorPackets}
		g, err := c.group()
		require.NoError(t, err)
		qpns := map[int][]uint32{}
		for r := range c.Guests {
			for sub := range g.SubgroupList() {
				qpns[r] = append(qpns[r], uint32(1000+100*r+sub))
			}
		}
		g, err = reached(g, qpns)
		require.NoError(t, err)
		for sub := range g.SubgroupList() {
			for r, want := range []uint32{uint32(1000 + sub), uint32(1100 + sub), uint32(17 + sub)} {
				cfg, err := g.HostConfig(r, sub)
				require.NoError(t, err)
				require.Equal(t, want, cfg.QPN, "%s rank %d subgroup %d", collective, r, sub)
			}
		}
	}
}

func TestActions(t *testing.T) {
	require.Equal(t, []action{
		{step: tree.Step{Collective: tree.Reduce}, of: 1, to: 4},
		{step: tree.Step{Collective: tree.Reduce, Root: 1}, of: 1, from: 4, to: 8},
		{step: tree.Step{Collective: tree.Reduce, Root: 2}, of: 1, from: 8, to: 16},
	}, actions([]tree.Step{{Collective: tree.Barrier}, {Collective: tree.ReduceScatter}}, 3, 16)[1:])
	// What is empty is left out: one element for two ranks.
	require.Equal(t, []action{{step: tree.Step{Collective: tree.Broadcast, Root: 1}, to: 4}}, actions([]tree.Step{{Collective: tree.AllGather}}, 2, 4))
}

func TestMembers(t *testing.T) {
	for _, m := range AllAxes().Members {
		got, err := ParseMembers(m.String())
		require.NoError(t, err)
		require.Equal(t, m, got)
	}
	_, err := ParseMembers("9")
	require.ErrorContains(t, err, `got "9"`)
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Budget: -1}, "budget"},
		{Options{Accel: "hvf"}, "accel"},
		{Options{Packets: -1}, "packets"},
		{Options{Packets: 1 << 20}, "packets"},
		{Options{Capture: "x.pcap"}, "capture"},
		{Options{Axes: Axes{Engines: []string{RTL}, Modes: []int{1}}}, "want one case at least"},
		{Options{Image: "/none", Axes: Axes{Engines: []string{Golden}}, OutDir: t.TempDir()}, "scripts/setup interop"},
	} {
		_, err := Run(t.Context(), c.o)
		require.ErrorContains(t, err, c.want)
	}
}
