package bench

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/cosim/server/servertest"
	"github.com/epic-inc/epic/golden/spec"
)

// One row of a real engine. What is asserted of it follows from the frames alone: a frame of 1 KiB takes
// 17 beats at 512 bits, its ACK one; the engine sends as many results as it takes data.
func TestMeasure(t *testing.T) {
	sim := servertest.Simulator(t, 512)
	o := Options{DataW: []int{512}, Modes: []int{3}, DTypes: []spec.DType{spec.DTypeInt32}, Payloads: []int{1024}, Ranks: []int{2},
		Collectives: []string{"allreduce"}, Seed: 1, Sim: func(int) string { return sim }, MinEfficiency: 0.5}
	rows, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	r := rows[0]
	assert.Equal(t, latencySamples, r.LatencySamples)
	assert.GreaterOrEqual(t, r.LatencyClocks, r.LatencyMin)
	assert.Positive(t, r.LatencyMin)
	assert.LessOrEqual(t, r.Efficiency, 1.0)
	// At least half of the packets are data of 17 beats, the others ACKs of one, which may answer for several.
	beats := r.Efficiency * r.ClocksPerPacket
	assert.GreaterOrEqual(t, beats, 9*0.97)
	assert.Less(t, beats, 17.0)

	o.MaxLatency, o.MinEfficiency = r.LatencyMin-1, 1.01
	_, err = Run(t.Context(), o)
	require.ErrorIs(t, err, ErrLimit)
	assert.ErrorContains(t, err, "got a latency of")
	assert.ErrorContains(t, err, "of the clocks busy, want at least 101.0 %")
}

func TestSmallPayloadsAreHeldToPacketsPerClock(t *testing.T) {
	o := Options{MinEfficiency: 0.95, MaxClocksPerPacket: 4}
	small := Row{DataW: 512, Payload: 64, Efficiency: 0.3, ClocksPerPacket: 4.01}
	assert.ErrorContains(t, o.check(&small), "got a packet every 4.01 clocks, want one every 4.00")
	small.ClocksPerPacket = 4
	assert.NoError(t, o.check(&small))
	wide := Row{DataW: 4096, Payload: 4096, Efficiency: 0.949}
	assert.ErrorIs(t, o.check(&wide), ErrLimit)
	wide.Payload, wide.ClocksPerPacket = 2048, 4
	assert.NoError(t, o.check(&wide), "2048 bytes are 4 beats of 4096 bits")
}

func TestRefusesAPayloadThatFitsNoMTU(t *testing.T) {
	_, err := Measure(t.Context(), Case{Payload: 4097, Ranks: 2, Mode: 3, Collective: "allreduce", DataW: 512})
	assert.ErrorContains(t, err, "payload: got 4097 bytes, want 0..4096")
}
