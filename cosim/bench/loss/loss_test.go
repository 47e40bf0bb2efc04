package loss

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is beyond a limit is said, with the report; and the table has a line a mode.
func TestReport(t *testing.T) {
	o := Options{MaxCost: 0.05, MinGoodput: 0.9}
	right := Row{Mode: 3, CleanCost: 0.02, OfGoBackN: 1.1}
	require.NoError(t, o.beyond(&right))
	slow, costly := right, right
	slow.OfGoBackN, costly.CleanCost = 0.89, 0.051
	assert.ErrorIs(t, o.beyond(&slow), ErrLimit)
	assert.ErrorContains(t, o.beyond(&slow), "89 %")
	assert.ErrorIs(t, o.beyond(&costly), ErrLimit)
	assert.ErrorContains(t, o.beyond(&costly), "5.1 %")
	var out bytes.Buffer
	require.NoError(t, Report{right, slow}.WriteText(&out))
	assert.Equal(t, 3, bytes.Count(out.Bytes(), []byte("\n")))
}

func TestErrors(t *testing.T) {
	for want, o := range map[string]Options{
		"loss: got 0":                          {Packets: 1},
		"loss: got 1":                          {Packets: 1, Loss: 1},
		"packets: got 0":                       {Loss: 0.1},
		"bench loss: mode 3: simulator: stat ": {Loss: 0.1, Packets: 1, Modes: []int{3}, Ranks: 2, Payload: 256, Sim: "x", DataW: 64},
		"mtu: got 100":                         {Loss: 0.1, Packets: 1, Modes: []int{3}, Ranks: 2, Payload: 100, Sim: "x", DataW: 64},
	} {
		_, err := Run(t.Context(), o)
		assert.ErrorContains(t, err, want)
	}
}
