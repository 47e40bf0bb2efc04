package matrix

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// pairsOf counts the pairs of rows by brute force, with none of the generator's code.
func pairsOf(rows [][]int) map[[4]int]int {
	seen := map[[4]int]int{}
	for _, r := range rows {
		for a := 0; a < len(r); a++ {
			for b := a + 1; b < len(r); b++ {
				seen[[4]int{a, r[a], b, r[b]}]++
			}
		}
	}
	return seen
}

// valid says from the rules in words whether a case may be.
func valid(c Case) bool {
	float := c.DType == spec.DTypeFloat32 || c.DType == spec.DTypeFloat16 || c.DType == spec.DTypeBfloat16
	bitwise := c.Op == spec.OpAnd || c.Op == spec.OpOr || c.Op == spec.OpXor
	switch c.Collective {
	case "barrier":
		return c.DType == spec.DTypeInt32 && c.Op == spec.OpSum
	case "broadcast", "allgather":
		return c.Op == spec.OpSum
	}
	return !float || !bitwise
}

// What the slice covers is all that the whole product has, counted by going through the product.
func TestPairwiseCoversEverything(t *testing.T) {
	a := Axes{}.fill()
	levels := make([][]int, 6)
	for i, n := range []int{len(a.Collectives), len(a.DTypes), len(a.Ops), len(a.DataW), len(a.MTUs), len(a.Trees)} {
		for l := range n {
			levels[i] = append(levels[i], l)
		}
	}
	require.Len(t, a.DTypes, 7)
	require.Len(t, a.Ops, 6)
	var product [][]int
	for _, c := range levels[0] {
		for _, d := range levels[1] {
			for _, o := range levels[2] {
				if !valid(Case{Collective: a.Collectives[c], DType: a.DTypes[d], Op: a.Ops[o]}) {
					continue
				}
				for _, w := range levels[3] {
					for _, u := range levels[4] {
						for _, s := range levels[5] {
							product = append(product, []int{c, d, o, w, u, s})
						}
					}
				}
			}
		}
	}
	require.Len(t, product, (3*33+2*7+1)*4*5*3)
	require.Equal(t, product, a.space().Whole())
	slice := a.space().Pairwise()
	want, got := pairsOf(product), pairsOf(slice)
	for p := range want {
		require.Positive(t, got[p], "pair %v is not covered", p)
	}
	for p := range got {
		require.Positive(t, want[p], "pair %v cannot be", p)
	}
	require.Less(t, len(slice), 90)
	t.Logf("%d cases of %d, %d pairs", len(slice), len(product), len(want))
	require.Equal(t, slice, a.space().Pairwise(), "always the same")
	modes := map[int]int{}
	for _, c := range a.Cases(true) {
		require.True(t, valid(c), c.Key())
		modes[c.Mode]++
	}
	require.Equal(t, map[int]int{2: len(slice), 3: len(slice)}, modes)
}

// Every case makes a group, with vectors whose PSNs wrap in each rank's stream.
func TestEveryCaseHasOptions(t *testing.T) {
	keys := map[string]bool{}
	slice := Axes{}.Cases(true)
	for _, c := range slice {
		o, err := c.Options(1)
		require.NoError(t, err)
		keys[c.Key()] = true
		if c.Collective != tree.Barrier.String() {
			packets := o.Bytes / c.MTU / caseRanks
			require.Greater(t, packets, 1<<24-casePSN0, "the shortest stream of %s", c.Key())
		} else {
			require.Greater(t, len(o.Steps), 1<<24-casePSN0)
		}
	}
	require.Len(t, keys, len(slice))
}
