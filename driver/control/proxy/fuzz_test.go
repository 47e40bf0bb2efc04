package proxy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Of the list that a program says, each subgroup is there once and is itself one.
func FuzzParseSubgroups(f *testing.F) {
	for _, seed := range []string{"allreduce/i32", "barrier,allreduce/f32", "reduce:0,reduce:1", "reducescatter", "allgather/", "/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		subgroups, err := ParseSubgroups(list)
		if err != nil {
			require.Empty(t, subgroups)
			return
		}
		require.NotEmpty(t, subgroups)
		for i, s := range subgroups {
			require.Equal(t, s, s.Subgroup())
			require.NotContains(t, subgroups[:i], s)
		}
	})
}
