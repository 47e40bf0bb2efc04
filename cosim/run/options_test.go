package run

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/tree"
)

func generated(t *testing.T, collective string) *group.Group {
	t.Helper()
	o := group.DefaultOptions()
	o.Tree, o.Collective = group.TreeTwoLevel, collective
	g, err := group.Generate(o)
	require.NoError(t, err)
	return g
}

func TestBarrierOptions(t *testing.T) {
	sum, barrier := generated(t, "allreduce"), generated(t, "barrier")
	for _, tc := range []struct {
		o    Options
		want string
	}{
		{Options{Group: barrier, Bytes: 64}, ""},
		{Options{Group: barrier, Barriers: -1}, "barriers: got -1"},
		{Options{Group: barrier, Inputs: [][]byte{{1, 2, 3, 4}}}, "and 1 vectors"},
		{Options{Group: sum, Bytes: 4, Barriers: 3}, `barriers: got 3 of the collective "allreduce", want 0`},
	} {
		err := checkRun(&tc.o)
		if tc.want != "" {
			require.ErrorContains(t, err, tc.want, fmt.Sprintf("%+v", tc.o))
			continue
		}
		require.NoError(t, err)
		require.Equal(t, defaultBarriers, tc.o.Barriers)
		require.Len(t, tc.o.Steps, defaultBarriers)
		require.Zero(t, tc.o.Bytes)
	}
}

func TestSteps(t *testing.T) {
	o := Options{Group: generated(t, "reduce:1,allgather"), Bytes: 64}
	require.NoError(t, checkRun(&o))
	require.Equal(t, "[reduce:1 broadcast:0 broadcast:1 broadcast:2 broadcast:3]", fmt.Sprint(o.Steps), "what it carries")
	o.Steps = []tree.Step{{Collective: tree.AllGather}, {Collective: tree.Barrier}}
	require.ErrorContains(t, checkRun(&o), "no subgroup for allreduce, the group has those of reduce:1")
}

func TestRTLAt(t *testing.T) {
	for at, want := range map[string]string{"": "root", "leaf1": "leaf1", "leaf1,root": "root,leaf1", AllSwitches: "root,leaf0,leaf1"} {
		o := Options{Group: generated(t, "allreduce"), RTLAt: at}
		require.NoError(t, o.fill())
		require.Equal(t, want, o.RTLAt)
	}
	for at, want := range map[string]string{"leaf7": `"leaf7" does not exist, want one of root, leaf0, leaf1`, "root,root": "got root twice"} {
		o := Options{Group: generated(t, "allreduce"), RTLAt: at}
		require.ErrorContains(t, o.fill(), want)
	}
	o := Options{Group: generated(t, "allreduce"), RTLAt: AllSwitches}
	require.NoError(t, o.fill())
	require.Equal(t, []string{"x/a-root.fst", "x/a-leaf0.fst", "x/a-leaf1.fst"}, o.files("x/a.fst"))
	require.Empty(t, o.files(""))
}

func TestSkew(t *testing.T) {
	o := Options{Group: generated(t, "allreduce"), Bytes: 64, Skew: 1 << 30}
	require.NoError(t, checkRun(&o))
	g := *o.Group
	g.Mode = 2 // 8 timeouts of 16.8 ms are 33.6 million clocks
	o = Options{Group: &g, Bytes: 64, Skew: 33_000_000}
	require.NoError(t, checkRun(&o))
	o.Skew = 34_000_000
	require.ErrorContains(t, checkRun(&o), "skew: got 34000000 clocks, want less than 335544")
	o.Skew = 1 << 40
	require.ErrorContains(t, checkRun(&o), "want at most 4294967296")
}
