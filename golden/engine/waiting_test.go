package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
)

func TestWaiting(t *testing.T) {
	for mode := 1; mode <= 3; mode++ {
		c := flat(3, 8, 0xfffffe)
		c.Pipes[0].Mode = mode
		e, err := New(c)
		require.NoError(t, err)
		e.Program()
		require.Empty(t, e.Waiting(0).Missing, "nobody has begun")

		e.Run(dataFrom(&c, 1, 0xfffffe, 1))
		require.Equal(t, Wait{PSN: 0xfffffe, Missing: []int{0, 2}}, without(e.Waiting(0)), "mode %d", mode)
		e.Run(dataFrom(&c, 1, 0xffffff, 1))
		e.Run(dataFrom(&c, 0, 0xfffffe, 1))
		e.Run(dataFrom(&c, 2, 0xfffffe, 1))
		e.Run(dataFrom(&c, 1, 0xffffff, 1)) // Mode-I had no buffer for it
		require.Equal(t, Wait{PSN: 0xffffff, Missing: []int{0, 2}}, without(e.Waiting(0)), "mode %d", mode)
		rx, tx := e.EndpointState(1)
		if mode == 3 {
			require.Equal(t, psn.PSN(0), psn.PSN(rx.EPSN))
			require.True(t, tx.TimerArmed)
			require.Equal(t, []int{0, 1, 2}, e.Waiting(0).Unacked)
			require.Equal(t, psn.PSN(0xfffffe), e.Waiting(0).Oldest)
			e.Run(ackFrom(&c, 0, 0xfffffe, spec.SyndromeAck))
			e.Run(ackFrom(&c, 2, 0xfffffe, spec.SyndromeAck))
			require.Equal(t, []int{1}, e.Waiting(0).Unacked)
		}
	}
}

// Data beyond a gap is there, but what is before it is not: the in that sent it is missing too.
func TestWaitingBeyondAGap(t *testing.T) {
	c := flat(2, 8, 5)
	e, err := New(c)
	require.NoError(t, err)
	e.Program()
	e.Run(dataFrom(&c, 0, 6, 1))
	require.Equal(t, Wait{PSN: 5, Missing: []int{0, 1}}, without(e.Waiting(0)))
}

// without the outs, which are looked at by themselves.
func without(w Wait) Wait {
	w.Unacked, w.Oldest = nil, 0
	return w
}
