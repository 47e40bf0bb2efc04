package lab

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a run comes to is what its ranks came to: that they lost each other is said only if none failed by itself.
func TestRunSaysWhoIsToBlame(t *testing.T) {
	o := Shape()
	o.Ranks = 2
	l := up(t, o)
	for _, tc := range []struct {
		name  string
		ranks [2]string
		lost  bool
		says  string
	}{
		{"one lost the other", [2]string{"exit 0", "exit 3"}, true, "rank 1: exit status 3"},
		{"one was killed", [2]string{"kill -9 $$", "exit 3"}, true, "rank 0: signal: killed"},
		{"one had a bad flag", [2]string{"exit 2", "exit 3"}, false, "rank 0: exit status 2"},
		{"one is not there", [2]string{"exit 3", "exec /absent/program"}, false, "rank 1: exit status 127"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := l.Run(t.Context(), io.Discard, io.Discard,
				RankCommand{Rank: 0, Args: []string{"sh", "-c", tc.ranks[0]}}, RankCommand{Rank: 1, Args: []string{"sh", "-c", tc.ranks[1]}})
			require.ErrorContains(t, err, tc.says)
			if tc.lost {
				assert.ErrorIs(t, err, ErrLost)
			} else {
				assert.NotErrorIs(t, err, ErrLost)
			}
		})
	}
}

// Ranks run once for each creation of the groups where switches remember them.
func TestClaim(t *testing.T) {
	o := Shape()
	o.Ranks = 2
	l := up(t, o, func(o *Options) { o.Apart = true })
	require.NoError(t, l.Claim(0))
	require.ErrorContains(t, l.Claim(0), "epic lab again --name "+l.Name)
	require.NoError(t, l.Again())
	require.NoError(t, l.Claim(0))
}
