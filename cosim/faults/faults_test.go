package faults

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/fabric"
	"github.com/epic-inc/epic/golden/spec"
)

// golden are the settings that need no simulator.
func golden(s Setting) bool { return s.Engine == Golden }

func TestGolden(t *testing.T) {
	rep, err := Run(t.Context(), Options{Every: 7, only: golden})
	require.NoError(t, err)
	assert.Empty(t, rep.Failed)
	assert.Len(t, rep.Rows, 12)
	for _, r := range rep.Rows {
		assert.Greater(t, r.Cases, 20, "mode %d, %s", r.Mode, r.Collective)
		assert.Equal(t, r.Cases, r.Passed)
	}
}

// What the matrix must notice: a fault that is not made, and engines with mistakes that only faults show.
func TestNotices(t *testing.T) {
	rep, err := Run(t.Context(), Options{Every: 50, only: golden, deaf: true})
	require.NoError(t, err)
	cases, passed := 0, 0
	for _, r := range rep.Rows {
		cases, passed = cases+r.Cases, passed+r.Passed
	}
	assert.Zero(t, passed)
	assert.Len(t, rep.Failed, cases)

	for _, m := range []engine.Mistake{engine.DuplicatesIgnored, engine.AckBeyondGap} {
		t.Run(m.String(), func(t *testing.T) {
			rep, err := Run(t.Context(), Options{Every: 1, only: func(s Setting) bool { return golden(s) && s.Mode == 3 }, spoil: func(c *engine.Config) { c.Variant.Mistake = m }})
			require.NoError(t, err)
			assert.NotEmpty(t, rep.Failed)
		})
	}
}

// A frame that is late by a turn comes when its sender has sent packets of at least two more, and the run is not over.
func TestLate(t *testing.T) {
	for _, mode := range []int{2, 3} {
		var arrives, last uint64
		between := 0
		err := new(Options).do(t.Context(), Setting{Golden, mode, "allreduce"}, func(n *fabric.Network) {
			at := fabric.Place{From: n.Hosts[0], Opcode: spec.OpcodeSendFirst}
			n.SetFault(fabric.Fault{Place: at, Kind: fabric.FaultDelay, Late: strikes[4].late})
			n.SetTap(func(p fabric.Passage) {
				if p.Fate == fabric.Late {
					arrives = p.Arrives
				}
				op, _ := fabric.OpcodeOf(p.Frame)
				if p.From == at.From && op != spec.OpcodeAcknowledge && p.Sent < arrives {
					between++
				}
				last = p.Sent
			})
		})
		require.NoError(t, err)
		assert.Greater(t, between, 2*slots, "mode %d", mode)
		assert.Greater(t, last, arrives, "mode %d", mode)
	}
}

func TestBadOptions(t *testing.T) {
	_, err := Run(t.Context(), Options{})
	require.ErrorContains(t, err, "every: got 0")
}
