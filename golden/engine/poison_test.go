package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
)

// poisonOf is the end of a result at out o that the frame of ev completed, had it been good.
func poisonOf(mode, o int, ev Event) Event {
	cause := map[int]spec.Cause{2: spec.CauseForward, 3: spec.CauseSend}[mode]
	return Event{Cause: cause, Verdict: spec.VerdictPoisoned, Endpoint: o, Port: ev.Port, Packet: ev.Packet}
}

// A poisoned result is the one that would have left, and no state moves.
func TestPoison(t *testing.T) {
	for _, mode := range []int{2, 3} {
		c := flat(2, 4, 0xffffff)
		c.Pipes[0].Mode = mode
		e := programmed(t, c)
		e.Run(dataFrom(&c, 0, 0xffffff, 5))
		before := e.AppendState(nil)
		for o := range 2 {
			ev := poisonOf(mode, o, dataFrom(&c, 1, 0xffffff, 7))
			require.NoError(t, e.Legal(ev))
			outs := append([]Output(nil), e.Step(ev)...)
			require.Len(t, outs, 2)
			require.Equal(t, spec.Record{Cause: ev.Cause, Verdict: spec.VerdictPoisoned, Endpoint: uint32(o), PSN: 0xffffff, Slot: 3}, outs[0].Record)
			require.True(t, outs[1].Poisoned)
			require.Equal(t, o, outs[1].Endpoint)
			require.Equal(t, o, outs[1].Port)
			require.Equal(t, []byte{12, 0, 0, 0}, outs[1].Packet.Payload)
			require.Equal(t, before, e.AppendState(nil))
		}
		// Then it comes as it should.
		require.Len(t, frames(e.Run(dataFrom(&c, 1, 0xffffff, 7))), 2)
	}
}

func TestPoisonIsNotLegal(t *testing.T) {
	for _, mode := range []int{2, 3} {
		c := flat(3, 8, 0)
		c.Pipes[0].Mode = mode
		base := func(ins ...int) *Engine {
			e := programmed(t, c)
			for _, i := range ins {
				e.Run(dataFrom(&c, i, 0, 1))
			}
			return e
		}
		last := dataFrom(&c, 2, 0, 1)
		require.NoError(t, base(0, 1).Legal(poisonOf(mode, 0, last)))

		require.ErrorContains(t, base(0).Legal(poisonOf(mode, 0, last)), "would not")
		require.ErrorContains(t, base(0, 1, 2).Legal(poisonOf(mode, 0, last)), "had the frame been good, it would be data duplicate")
		require.ErrorContains(t, base(0, 1).Legal(poisonOf(mode, 9, last)), "got endpoint 9, want 0..2")
		require.ErrorContains(t, base(0, 1).Legal(poisonOf(mode, 0, Event{})), "no frame")
		stranger := dataFrom(&c, 2, 0, 1)
		stranger.Packet.SrcMAC[0] = 9
		require.ErrorContains(t, base(0, 1).Legal(poisonOf(mode, 0, stranger)), "drop src_mac")
		require.ErrorContains(t, base(0, 1).Legal(poisonOf(mode, 0, ackFrom(&c, 2, 0, spec.SyndromeAck))), "had the frame been good")
	}

	// Mode-III sends in order: not behind what is still to be sent, nor what waits for a gap.
	c := flat(2, 8, 0)
	e := programmed(t, c)
	e.Run(dataFrom(&c, 0, 0, 1))
	e.Run(dataFrom(&c, 0, 1, 1))
	require.ErrorContains(t, e.Legal(poisonOf(3, 0, dataFrom(&c, 1, 1, 1))), "psn 000001 would not leave there", "0 is not complete")
	e.Run(dataFrom(&c, 1, 1, 1))
	require.NoError(t, e.Legal(poisonOf(3, 0, dataFrom(&c, 1, 0, 1))), "the gap is filled, and 0 is the first of two to leave")
	e.Run(dataFrom(&c, 1, 0, 1))
	e.Run(dataFrom(&c, 0, 2, 1))
	e.Step(ackFrom(&c, 0, 1, spec.SyndromeRNR|1))
	require.ErrorContains(t, e.Legal(poisonOf(3, 0, dataFrom(&c, 1, 2, 1))), "psn 000002 would not leave there", "it waits")
	e.Step(ackFrom(&c, 1, 1, spec.SyndromeNakSequence))
	require.ErrorContains(t, e.Legal(poisonOf(3, 1, dataFrom(&c, 1, 2, 1))), "psn 000002 would not be the next", "1 goes again first")
}

// Mode-II's leave in the order of the decisions: nothing may wait before it.
func TestPoisonBehindOthers(t *testing.T) {
	c := flat(2, 8, 0)
	c.Pipes[0].Mode = 2
	e := programmed(t, c)
	for _, p := range []psn.PSN{0, 1} {
		e.Step(dataFrom(&c, 0, p, 1))
	}
	e.Step(dataFrom(&c, 1, 0, 1))
	ev := poisonOf(2, 1, dataFrom(&c, 1, 1, 1))
	require.ErrorContains(t, e.Legal(ev), "psn 000001 would not be the next to leave there")
	e.Step(Event{Cause: spec.CauseForward})
	require.Error(t, e.Legal(ev))
	e.Step(Event{Cause: spec.CauseForward})
	require.NoError(t, e.Legal(ev))
}
