package bench_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/stream/bench"
	"github.com/epic-inc/epic/golden/oracle"
)

// Both are measured, and a limit that cannot be kept is not.
func TestRun(t *testing.T) {
	if os.Geteuid() != 0 {
		oracle.Skip(t, "to make a veth needs root")
	}
	r, err := bench.Run(t.Context(), bench.Options{Payloads: []int{64}, Frames: 1 << 15, Rounds: 1, MinRatio: 1e6, Seed: 1})
	if err != nil && r == nil {
		assert.ErrorIs(t, err, bench.ErrTool)
		oracle.Skip(t, "%v", err)
	}
	require.ErrorIs(t, err, bench.ErrLimit)
	require.Len(t, r.Rows, 2)
	for _, row := range r.Rows {
		assert.Positive(t, row.Rate)
		assert.Positive(t, row.Tcpreplay)
	}
	_, err = bench.Run(t.Context(), bench.Options{Payloads: []int{64}, Frames: 1, Rounds: 1})
	assert.ErrorContains(t, err, "got 1 frames and 1 rounds")
}
