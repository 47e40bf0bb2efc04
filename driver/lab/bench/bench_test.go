package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/lab"
	"github.com/epic-inc/epic/golden/oracle"
)

// A small bench: the results are right (Run looks), the links hold both ways to their rate, and the limit is a limit.
func TestBench(t *testing.T) {
	if err := lab.Permitted(); err != nil {
		oracle.Skip(t, "%v", err)
	}
	o := Options{Ranks: []int{3}, Mode: 3, Bytes: 1 << 20, Gbps: 0.02, Rounds: 20, MinRatio: 10, Name: "tbench", Folder: t.TempDir()}
	r, err := Run(t.Context(), o)
	require.ErrorIs(t, err, ErrLimit)
	require.Len(t, r.Rows, 1)
	row := r.Rows[0]
	require.Less(t, row.IncGbps, 0.02, "no vector is through before its bits are")
	require.Less(t, row.RingGbps, 0.02/row.Ideal, "a ring sends more")
	require.Positive(t, row.RingGbps)
	require.InDelta(t, 4.0/3, row.Ideal, 1e-9)
	require.Positive(t, row.Small.MedianUs)
	require.LessOrEqual(t, row.Small.PingPongMedianUs, row.Small.PingPongP99Us)
	require.Nil(t, row.Unpaced)
	var text strings.Builder
	require.NoError(t, r.WriteText(&text))
	require.Contains(t, text.String(), "ideal")
}

func TestQuantiles(t *testing.T) {
	var times []time.Duration
	for i := range 101 {
		times = append(times, time.Duration(100-i)*time.Microsecond)
	}
	median, p99 := quantiles(times, 2)
	require.Equal(t, 25.0, median)
	require.Equal(t, 49.5, p99)
	_, err := Run(t.Context(), Options{Bytes: 3})
	require.EqualError(t, err, "bytes: got 3, want whole float32, one at least")
}
