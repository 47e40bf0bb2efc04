package faults

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/fabric"
)

// Every fault at every frame is made good by golden, and the frames are of every class that there is.
func TestGolden(t *testing.T) {
	o := Options{Engines: []string{Golden}}
	if testing.Short() {
		o.Every = 20
	}
	r, err := Run(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, []string{"ack", "nak", "rnr_nak", "send_first", "send_last", "send_middle", "send_only", "send_only_imm"}, r.Classes)
	require.Len(t, r.Rows, 3*len(fabric.FaultKinds()))
	for _, row := range r.Rows {
		assert.Positive(t, row.Cases, "%+v", row)
	}
}

// Engines that are wrong do not make good some, each in a mode that has the mistake. The other mistakes want more than one
// fault, and the model checker finds them.
func TestMistakes(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of runs that do not end: -short")
	}
	for m, mode := range map[engine.Mistake]int{
		engine.ReplayIncomplete: 2, engine.MinAckOnAdvance: 2, engine.RecycleOnRelease: 3, engine.AckBeyondGap: 3,
		engine.DuplicatesIgnored: 3, engine.FastestAck: 3, engine.NoValidWalk: 3,
	} {
		t.Run(m.String(), func(t *testing.T) {
			_, err := Run(t.Context(), Options{Engines: []string{Golden}, Modes: []int{mode}, Every: 20, mistake: m})
			assert.ErrorIs(t, err, ErrWrong)
		})
	}
}

// A fault whose frame never comes is none that was made good.
func TestNoSuchFrame(t *testing.T) {
	b := Base{Engine: Golden, Mode: 3, Collective: "allreduce", Message: 1}
	cases, err := b.Cases(t.Context(), &Options{})
	require.NoError(t, err)
	c := cases[0]
	require.NoError(t, c.Do(t.Context(), &Options{}))
	c.which.N = 1000
	assert.ErrorContains(t, c.Do(t.Context(), &Options{}), "the frame never came")
}

func TestErrors(t *testing.T) {
	for want, o := range map[string]Options{
		`engine: got "x", want one of golden, rtl`: {Engines: []string{"x"}},
		"mode: got 4, want 1..3":                   {Modes: []int{4}, Engines: []string{Golden}},
		"slice: got 3 of every 2, want 0..1":       {Every: 2, First: 3},
		"simulator: stat nowhere":                  {Sim: "nowhere"},
	} {
		_, err := Run(t.Context(), o)
		assert.ErrorContains(t, err, want)
	}
}
