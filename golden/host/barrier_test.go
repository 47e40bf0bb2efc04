package host

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
)

// A Barrier is a message without payload, and the next one waits for the answer to the one before.
func TestBarriersOneAfterTheOther(t *testing.T) {
	c := config(LinuxRXE())
	r, err := NewRank(RankConfig{QPs: []Config{c}, Ops: []Op{{Barrier: true}, {Barrier: true}, {Barrier: true}}, MessagePackets: 1, WindowPackets: 8})
	require.NoError(t, err)

	state := func() [2]int { e, p := r.Barriers(); return [2]int{e, p} }
	result := func(n int) []Output {
		pkt := toHost(spec.OpcodeSendOnly, psn.Add(c.RecvPSN, n))
		pkt.AckReq = true
		return r.Run(Event{Kind: Deliver, Packet: pkt})
	}
	ack := func(n int) []Output {
		pkt := toHost(spec.OpcodeAcknowledge, psn.Add(c.SendPSN, n))
		pkt.Syndrome = spec.SyndromeAck
		return r.Run(Event{Kind: Deliver, Packet: pkt})
	}
	require.Equal(t, []psn.PSN{c.SendPSN}, psns(r.Start()), "one packet")
	require.Equal(t, [2]int{1, 0}, state())
	require.Empty(t, psns(ack(0)), "acknowledged, but not answered")
	require.Equal(t, [2]int{1, 0}, state())
	for n := range 2 {
		outs := result(n)
		require.Equal(t, []psn.PSN{psn.Add(c.RecvPSN, n), psn.Add(c.SendPSN, n+1)}, psns(outs), "its ACK, and the next Barrier")
		for _, o := range outs {
			if o.Kind == Frame && o.Packet.Opcode != spec.OpcodeAcknowledge {
				require.Equal(t, spec.OpcodeSendOnly, o.Packet.Opcode)
				require.Empty(t, o.Packet.Payload)
			}
		}
		require.Equal(t, [2]int{n + 2, n + 1}, state())
		require.False(t, r.Done())
	}
	result(2)
	require.Equal(t, [2]int{3, 3}, state())
	require.False(t, r.Done(), "the last two are not acknowledged")
	ack(2)
	require.True(t, r.Done())
	require.NoError(t, r.Err())
}

func TestBarrierTakesNoTensor(t *testing.T) {
	for name, op := range map[string]Op{
		"with a tensor": {Barrier: true, Send: make([]byte, 4)},
		"with a result": {Barrier: true, Recv: 4},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewRank(RankConfig{QPs: qps(), Ops: []Op{op}, MessagePackets: 1, WindowPackets: 1})
			require.ErrorContains(t, err, "want a Barrier or bytes")
		})
	}
}
