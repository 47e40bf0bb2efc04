package matrix

import (
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/lab"
	"github.com/epic-inc/epic/golden/oracle"
)

func TestCases(t *testing.T) {
	whole := Axes{}.Cases(false)
	require.Len(t, whole, 3*8*2*(5*7+1), "modes, ranks, losses; a Barrier has one size")
	type pair struct{ a, b any }
	pairs := func(list []Case) map[pair]bool {
		m := map[pair]bool{}
		for _, c := range list {
			all := []any{c.Mode, c.Collective, [1]int{c.Ranks}, [1]string{c.Size}, c.Loss}
			for i := range all {
				for j := range i {
					m[pair{all[j], all[i]}] = true
				}
			}
		}
		return m
	}
	slice := Axes{}.Cases(true)
	require.Equal(t, pairs(whole), pairs(slice), "every pair that can stand together does")
	require.Less(t, len(slice), len(whole)/10)
	keys := map[string]bool{}
	for _, c := range slice {
		if c.Size == "1MB" {
			continue // large vectors say nothing more
		}
		_, _, err := c.job(1)
		require.NoError(t, err, c.Key())
		require.False(t, keys[c.Key()])
		keys[c.Key()] = true
	}
}

// Results are kept; a case that fails is a failure, and not taken from the file.
func TestRun(t *testing.T) {
	if err := lab.Permitted(); err != nil {
		oracle.Skip(t, "%v", err)
	}
	o := Options{Axes: Axes{Collectives: []string{"allreduce"}, Modes: []int{3}, Ranks: []int{2, 3}, Sizes: []string{"U+1"}, Losses: []float64{0.01}}, Whole: true, Seed: 3,
		Results: filepath.Join(t.TempDir(), "results.jsonl"), Name: "tmatrx", Folder: t.TempDir(), Progress: io.Discard}
	r, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, 2, r.Passed)
	require.Positive(t, r.Results[0].Frames)
	r, err = Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, 2, r.Reused)

	o.Limit, o.Seed = time.Nanosecond, 4 // no time for any
	r, err = Run(t.Context(), o)
	require.ErrorIs(t, err, ErrFailed)
	require.Equal(t, 2, r.Failed)
	require.Contains(t, r.Results[0].Reason, "deadline")
	o.Limit, o.Budget = time.Minute, time.Nanosecond
	r, err = Run(t.Context(), o)
	require.ErrorContains(t, err, "2 of 2 cases were not run")
	require.Equal(t, 2, r.NotRun)
}
