package tree

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// nodes makes expectations short: "s1" is switch 1, "r0" rank 0.
func nodes(t *testing.T, names ...string) []Node {
	t.Helper()
	var out []Node
	for _, s := range names {
		var i int
		_, err := fmt.Sscanf(s[1:], "%d", &i)
		require.NoError(t, err)
		if s[0] == 'r' {
			out = append(out, Rank(i))
		} else {
			out = append(out, Switch(i))
		}
	}
	return out
}

// uneven is
//
//	s0 ─┬─ r0
//	    ├─ s1 ─┬─ r1
//	    │      └─ s2 ─┬─ r2
//	    │             └─ r3
//	    └─ s3 ─── r4
func uneven(t *testing.T) *Tree {
	t.Helper()
	tr, err := New([]string{"a", "b", "c", "d"}, 5, []Edge{
		{Switch(0), Rank(0)}, {Switch(0), Switch(1)}, {Switch(3), Switch(0)},
		{Rank(1), Switch(1)}, {Switch(1), Switch(2)}, {Switch(2), Rank(2)}, {Switch(2), Rank(3)},
		{Switch(3), Rank(4)},
	}, 0)
	require.NoError(t, err)
	return tr
}

func TestPipesByHand(t *testing.T) {
	type want struct {
		sw        int
		role      Role
		ins, outs []string
	}
	two, err := TwoLevel(4)
	require.NoError(t, err)
	one, err := Single(3)
	require.NoError(t, err)
	for _, tc := range []struct {
		name string
		tree *Tree
		c    Collective
		root int
		want []want
	}{
		{"allreduce single", one, AllReduce, 0, []want{
			{0, RoleRoot, []string{"r0", "r1", "r2"}, []string{"r0", "r1", "r2"}},
		}},
		{"reduce single", one, Reduce, 1, []want{{0, RoleReduce, []string{"r0", "r2"}, []string{"r1"}}}},
		{"broadcast single", one, Broadcast, 2, []want{{0, RoleBroadcast, []string{"r2"}, []string{"r0", "r1"}}}},
		{"allreduce two-level", two, AllReduce, 0, []want{
			{0, RoleRoot, []string{"s1", "s2"}, []string{"s1", "s2"}},
			{1, RoleUp, []string{"r0", "r1"}, []string{"s0"}},
			{1, RoleDown, []string{"s0"}, []string{"r0", "r1"}},
			{2, RoleUp, []string{"r2", "r3"}, []string{"s0"}},
			{2, RoleDown, []string{"s0"}, []string{"r2", "r3"}},
		}},
		{"reduce two-level", two, Reduce, 2, []want{
			{0, RoleReduce, []string{"s1"}, []string{"s2"}},
			{1, RoleReduce, []string{"r0", "r1"}, []string{"s0"}},
			{2, RoleReduce, []string{"r3", "s0"}, []string{"r2"}},
		}},
		{"broadcast two-level", two, Broadcast, 2, []want{
			{0, RoleBroadcast, []string{"s2"}, []string{"s1"}},
			{1, RoleBroadcast, []string{"s0"}, []string{"r0", "r1"}},
			{2, RoleBroadcast, []string{"r2"}, []string{"r3", "s0"}},
		}},
		{"reduce uneven", uneven(t), Reduce, 1, []want{
			{0, RoleReduce, []string{"r0", "s3"}, []string{"s1"}},
			{1, RoleReduce, []string{"s2", "s0"}, []string{"r1"}},
			{2, RoleReduce, []string{"r2", "r3"}, []string{"s1"}},
			{3, RoleReduce, []string{"r4"}, []string{"s0"}},
		}},
		{"barrier uneven", uneven(t), Barrier, 0, []want{
			{0, RoleRoot, []string{"r0", "s1", "s3"}, []string{"r0", "s1", "s3"}},
			{1, RoleUp, []string{"r1", "s2"}, []string{"s0"}},
			{1, RoleDown, []string{"s0"}, []string{"r1", "s2"}},
			{2, RoleUp, []string{"r2", "r3"}, []string{"s1"}},
			{2, RoleDown, []string{"s1"}, []string{"r2", "r3"}},
			{3, RoleUp, []string{"r4"}, []string{"s0"}},
			{3, RoleDown, []string{"s0"}, []string{"r4"}},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.tree.Pipes(tc.c, tc.root)
			require.NoError(t, err)
			var want []Pipe
			for _, w := range tc.want {
				want = append(want, Pipe{w.sw, w.role, nodes(t, w.ins...), nodes(t, w.outs...)})
			}
			assert.Equal(t, want, got)
		})
	}
}

func TestPipesRefused(t *testing.T) {
	tr := uneven(t)
	for _, tc := range []struct {
		c    Collective
		root int
		want string
	}{
		{ReduceScatter, 0, "reducescatter is a sequence"},
		{AllGather, 0, "allgather is a sequence"},
		{Reduce, 5, "root rank 5, want 0..4"},
		{Broadcast, -1, "root rank -1, want 0..4"},
		{AllReduce, 1, "root rank 1, want 0"},
		{Collective(6), 0, "collective 6 is unknown"},
	} {
		_, err := tr.Pipes(tc.c, tc.root)
		assert.ErrorContains(t, err, tc.want)
	}
}

func TestSteps(t *testing.T) {
	tr, err := Single(3)
	require.NoError(t, err)
	assert.Equal(t, []Step{{Reduce, 0}, {Reduce, 1}, {Reduce, 2}}, tr.Steps(ReduceScatter, 0))
	assert.Equal(t, []Step{{Broadcast, 0}, {Broadcast, 1}, {Broadcast, 2}}, tr.Steps(AllGather, 0))
	assert.Equal(t, []Step{{Broadcast, 2}}, tr.Steps(Broadcast, 2))
	assert.Equal(t, []Step{{AllReduce, 0}}, tr.Steps(AllReduce, 0))
}

func TestCollectiveNames(t *testing.T) {
	for i, n := range []string{"allreduce", "reduce", "broadcast", "barrier", "reducescatter", "allgather"} {
		c, err := ParseCollective(n)
		require.NoError(t, err)
		assert.Equal(t, Collective(i), c)
		assert.Equal(t, n, c.String())
	}
	_, err := ParseCollective("AllReduce")
	assert.ErrorContains(t, err, `"AllReduce" is unknown`)
	assert.Equal(t, "Collective(9)", Collective(9).String())
}

func TestTwoLevelShape(t *testing.T) {
	for ranks, want := range map[int][]int{ // ranks at each leaf
		2: {2}, 3: {2, 1}, 4: {2, 2}, 5: {3, 2}, 9: {3, 3, 3}, 10: {4, 4, 2}, 16: {4, 4, 4, 4}, 17: {5, 5, 5, 2},
		32: {6, 6, 6, 6, 6, 2},
	} {
		tr, err := TwoLevel(ranks)
		require.NoError(t, err)
		var got []int
		for _, leaf := range tr.Children(tr.Root()) {
			require.False(t, leaf.IsRank())
			got = append(got, len(tr.Children(leaf.Index)))
		}
		assert.Equal(t, want, got, "%d ranks", ranks)
		for r := range ranks {
			leaf, ok := tr.Parent(Rank(r))
			require.True(t, ok)
			root, ok := tr.Parent(leaf)
			require.True(t, ok, "rank %d hangs at the root", r)
			assert.Equal(t, Switch(tr.Root()), root)
		}
	}
}

func TestRefused(t *testing.T) {
	s, r := Switch, Rank
	two := []string{"a", "b"}
	for _, tc := range []struct {
		name     string
		switches []string
		ranks    int
		edges    []Edge
		root     int
		want     string
	}{
		{"no switch", nil, 2, nil, 0, "no switch"},
		{"one rank", two, 1, nil, 0, "1 ranks, want at least 2"},
		{"root", two, 2, nil, 2, "root is switch 2, want 0..1"},
		{"unknown rank", two, 2, []Edge{{s(0), r(2)}}, 0, "edge 0: rank 2 does not exist, want 0..1"},
		{"unknown switch", two, 2, []Edge{{s(-1), r(0)}}, 0, "switch -1 does not exist"},
		{"ranks joined", two, 2, []Edge{{r(0), r(1)}}, 0, "want a switch at one end"},
		{"self", two, 2, []Edge{{s(0), s(0)}}, 0, "a and a again"},
		{"twice", two, 2, []Edge{{s(0), s(1)}, {s(1), s(0)}}, 0, "edge 1 joins b and a again"},
		{"rank without edge", two, 2, []Edge{{s(0), s(1)}, {s(0), r(0)}}, 0, "rank 1 has 0 edges"},
		{"rank with two", two, 2, []Edge{{s(0), s(1)}, {s(0), r(0)}, {s(1), r(0)}, {s(1), r(1)}}, 0, "rank 0 has 2 edges"},
		{"apart", two, 2, []Edge{{s(0), r(0)}, {s(1), r(1)}}, 0, "b is not reachable"},
		{"no children", two, 2, []Edge{{s(0), s(1)}, {s(0), r(0)}, {s(0), r(1)}}, 0, "b has no children"},
		{"loop", []string{"a", "b", "c"}, 2, []Edge{{s(0), s(1)}, {s(1), s(2)}, {s(2), s(0)}, {s(1), r(0)}, {s(2), r(1)}}, 0, "closes a loop"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := New(tc.switches, tc.ranks, tc.edges, tc.root)
			assert.ErrorContains(t, err, tc.want)
		})
	}
	_, err := TwoLevel(1)
	assert.ErrorContains(t, err, "1 ranks")
	_, err = Single(0)
	assert.ErrorContains(t, err, "0 ranks")
}

func TestDraw(t *testing.T) {
	assert.Equal(t, `a
├── rank 0
├── b
│   ├── rank 1
│   └── c
│       ├── rank 2
│       └── rank 3
└── d
    └── rank 4
`, uneven(t).Draw(nil))
	one, err := Single(2)
	require.NoError(t, err)
	assert.Equal(t, "switch 0!\n├── rank 0!\n└── rank 1!\n", one.Draw(func(n Node) string { return n.String() + "!" }))
}

func randomTree(t *testing.T, rnd *rand.Rand) *Tree {
	t.Helper()
	n := 1 + rnd.IntN(8)
	ranks := max(MinRanks, n+rnd.IntN(12))
	var names []string
	var edges []Edge
	for s := range n {
		names = append(names, fmt.Sprintf("s%d", s))
		if s > 0 {
			edges = append(edges, Edge{Switch(s), Switch(rnd.IntN(s))})
		}
	}
	for r := range ranks { // the first n ranks give every switch a child
		s := r
		if r >= n {
			s = rnd.IntN(n)
		}
		edges = append(edges, Edge{Rank(r), Switch(s)})
	}
	rnd.Shuffle(len(edges), func(i, j int) { edges[i], edges[j] = edges[j], edges[i] })
	tr, err := New(names, ranks, edges, rnd.IntN(n))
	require.NoError(t, err)
	return tr
}

// deliver runs a collective symbolically: a packet is the sorted list of ranks added into it. It
// knows nothing of parents and children, only the pipes, and returns what each rank receives.
func deliver(t *testing.T, ranks int, pipes []Pipe, send []int, used map[[2]Node]int) map[int][][]int {
	t.Helper()
	type waiting struct {
		from map[Node]bool
		sum  []int
	}
	state := make([]waiting, len(pipes))
	got := map[int][][]int{}
	type flight struct {
		from, to Node
		sum      []int
	}
	var queue []flight
	at := map[int]Node{} // switch of each rank, learnt from the pipes
	for _, p := range pipes {
		for _, n := range append(append([]Node(nil), p.Ins...), p.Outs...) {
			if n.IsRank() {
				at[n.Index] = Switch(p.Switch)
			}
		}
	}
	for _, r := range send {
		queue = append(queue, flight{Rank(r), at[r], []int{r}})
	}
	for len(queue) > 0 {
		f := queue[0]
		queue = queue[1:]
		used[[2]Node{f.from, f.to}]++
		if f.to.IsRank() {
			got[f.to.Index] = append(got[f.to.Index], f.sum)
			continue
		}
		taken := 0
		for i, p := range pipes {
			if Switch(p.Switch) != f.to {
				continue
			}
			for _, in := range p.Ins {
				if in != f.from {
					continue
				}
				taken++
				if state[i].from == nil {
					state[i].from = map[Node]bool{}
				}
				require.False(t, state[i].from[in], "%v twice at pipe %d", in, i)
				state[i].from[in] = true
				state[i].sum = append(state[i].sum, f.sum...)
				sort.Ints(state[i].sum)
				if len(state[i].from) == len(p.Ins) {
					for _, out := range p.Outs {
						queue = append(queue, flight{f.to, out, state[i].sum})
					}
				}
			}
		}
		require.Equal(t, 1, taken, "%v -> %v enters exactly one pipe", f.from, f.to)
	}
	for i, p := range pipes {
		require.Len(t, state[i].from, len(p.Ins), "pipe %d completes", i)
	}
	return got
}

func all(n int, but ...int) []int {
	var out []int
next:
	for i := range n {
		for _, b := range but {
			if i == b {
				continue next
			}
		}
		out = append(out, i)
	}
	return out
}

func TestPipesDeliver(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		tr := randomTree(t, rnd)
		root := rnd.IntN(tr.Ranks())
		for _, c := range []Collective{AllReduce, Barrier, Reduce, Broadcast} {
			r := 0
			if c.HasRoot() {
				r = root
			}
			pipes, err := tr.Pipes(c, r)
			require.NoError(t, err)
			send := all(tr.Ranks())
			want := map[int][][]int{}
			switch c {
			case Reduce:
				send = all(tr.Ranks(), r)
				want[r] = [][]int{send}
			case Broadcast:
				send = []int{r}
				for _, o := range all(tr.Ranks(), r) {
					want[o] = [][]int{{r}}
				}
			default:
				for o := range tr.Ranks() {
					want[o] = [][]int{all(tr.Ranks())}
				}
			}
			used := map[[2]Node]int{}
			assert.Equal(t, want, deliver(t, tr.Ranks(), pipes, send, used), "%v root %d\n%s", c, r, tr.Draw(nil))
			for dir, n := range used {
				assert.Equal(t, 1, n, "%v: %v -> %v", c, dir[0], dir[1])
			}
			for _, e := range tr.Edges() {
				n := used[[2]Node{e.A, e.B}] + used[[2]Node{e.B, e.A}]
				if c.HasRoot() {
					// A branch with no rank but the root hangs on no path; every other edge one way.
					assert.LessOrEqual(t, n, 1)
				} else {
					assert.Equal(t, 2, n, "%v uses both directions of %v", c, e)
				}
			}
		}
	}
}

func TestParseSteps(t *testing.T) {
	steps, err := ParseSteps("allreduce,reduce:2,broadcast,barrier,reducescatter,allgather")
	require.NoError(t, err)
	require.Equal(t, []Step{{AllReduce, 0}, {Reduce, 2}, {Broadcast, 0}, {Barrier, 0}, {ReduceScatter, 0}, {AllGather, 0}}, steps)
	require.Equal(t, "reduce:2", steps[1].String())
	require.Equal(t, "barrier", steps[3].String())
	for text, want := range map[string]string{
		"": "is unknown", "allreduce,": "is unknown", "allreduce:0": "want none", "reduce:": `got root ""`, "reduce:-1": `got root "-1"`,
	} {
		_, err := ParseSteps(text)
		require.ErrorContains(t, err, want, text)
	}
}

// What is taken is written as it was read.
func FuzzParseSteps(f *testing.F) {
	for _, seed := range []string{"allreduce", "reduce:2,broadcast:0", "barrier,reducescatter,allgather", "reduce:-1", ","} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		steps, err := ParseSteps(text)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		words := make([]string, len(steps))
		for i, s := range steps {
			words[i] = s.String()
		}
		again, err := ParseSteps(strings.Join(words, ","))
		require.NoError(t, err)
		require.Equal(t, steps, again)
	})
}

func TestSubgroups(t *testing.T) {
	tr, err := ThreeLevel(3)
	require.NoError(t, err)
	require.Equal(t, []Step{{AllReduce, 0}, {Reduce, 1}, {Reduce, 0}, {Reduce, 2}, {Broadcast, 0}},
		tr.Subgroups([]Step{{Barrier, 0}, {Reduce, 1}, {ReduceScatter, 0}, {AllReduce, 0}, {Broadcast, 0}}))
	require.Equal(t, "root\n├── rank 0\n└── mid\n    ├── rank 1\n    └── leaf\n        └── rank 2\n", tr.Draw(nil))
	_, err = ThreeLevel(2)
	require.ErrorContains(t, err, "want at least 3")
}
