package cover

import (
	"testing"

	"github.com/stretchr/testify/require"
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

// Constraints that leave a pair without any row: it is not asked for, and nothing else is lost.
func TestPairThatCannotBe(t *testing.T) {
	// b 0 wants c 0, a 0 wants c 1: so a 0 and b 0 cannot stand together, though nothing says so.
	s := &Space{Factors: []Factor{{"a", 2}, {"b", 2}, {"c", 2}}, Never: func(p Pair) bool {
		return p == Pair{0, 0, 2, 0} || p == Pair{1, 0, 2, 1}
	}}
	require.Equal(t, pairKeys(pairsOf(s.Whole())), pairKeys(pairsOf(s.Pairwise())))
	require.NotContains(t, pairsOf(s.Pairwise()), [4]int{0, 0, 1, 0})
}

func pairKeys(m map[[4]int]int) map[[4]int]bool {
	keys := map[[4]int]bool{}
	for k := range m {
		keys[k] = true
	}
	return keys
}
