package host

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
)

func qps() []Config { return []Config{config(LinuxRXE())} }

// The library, not the NIC, keeps to MW: outstanding messages x M <= MW.
func TestRankKeepsToItsWindow(t *testing.T) {
	tensor := make([]byte, 11*256+4) // 12 packets in messages of 3; the last has 4 bytes
	for i := range tensor {
		tensor[i] = byte(i * 7)
	}
	r, err := NewRank(RankConfig{QPs: qps(), Ops: []Op{{Send: tensor, Recv: len(tensor)}}, MessagePackets: 3, WindowPackets: 7})
	require.NoError(t, err)

	var payload []byte
	sent := func(outs []Output) []psn.PSN {
		for _, o := range outs {
			if o.Kind == Frame {
				payload = append(payload, o.Packet.Payload...)
			}
		}
		return psns(outs)
	}
	ack := func(p psn.PSN) []psn.PSN {
		pkt := toHost(spec.OpcodeAcknowledge, p)
		pkt.Syndrome = spec.SyndromeAck
		return sent(r.Run(Event{Kind: Deliver, Packet: pkt}))
	}
	require.Equal(t, []psn.PSN{0xfffffe, 0xffffff, 0, 1, 2, 3}, sent(r.Start()), "two messages; a third would make nine")
	require.Equal(t, 6, r.Outstanding(0))
	require.Empty(t, ack(0xffffff), "half a message")
	require.Equal(t, []psn.PSN{4, 5, 6}, ack(0), "one message for one")
	require.Equal(t, 6, r.Outstanding(0))
	require.Equal(t, []psn.PSN{7, 8, 9}, ack(3))
	require.Empty(t, ack(9))
	require.Equal(t, tensor, payload)
	require.Zero(t, r.Outstanding(0))
	require.Equal(t, psn.PSN(10), r.NextPSN(0))
	require.False(t, r.Done(), "nothing has been received")

	// The sum comes back.
	for i := range 12 {
		op := []spec.Opcode{spec.OpcodeSendFirst, spec.OpcodeSendMiddle, spec.OpcodeSendLast}[i%3]
		pkt := toHost(op, psn.Add(0x10, i))
		pkt.Payload = tensor[i*256 : min(len(tensor), (i+1)*256)]
		pkt.AckReq = true
		outs := r.Run(Event{Kind: Deliver, Packet: pkt})
		require.Equal(t, []psn.PSN{psn.Add(0x10, i)}, psns(outs))
	}
	require.Equal(t, tensor, r.Result(0))
	require.True(t, r.Done())
	require.NoError(t, r.Err())
}

func TestRankConfigErrors(t *testing.T) {
	for _, cfg := range []RankConfig{
		{QPs: qps(), MessagePackets: 0, WindowPackets: 4},
		{QPs: qps(), MessagePackets: 8, WindowPackets: 4},
	} {
		_, err := NewRank(cfg)
		require.ErrorContains(t, err, "want 1 <= M <= MW")
	}
	for want, cfg := range map[string]RankConfig{
		"QPN: got 0x0":                     {QPs: []Config{{}}},
		"got no queue pair":                {},
		"two queue pairs have QPN":         {QPs: append(qps(), qps()...), MessagePackets: 1, WindowPackets: 1},
		"step 0: got queue pair 1":         {QPs: qps(), MessagePackets: 1, WindowPackets: 1, Ops: []Op{{QP: 1}}},
		"-1 to receive":                    {QPs: qps(), MessagePackets: 1, WindowPackets: 1, Ops: []Op{{Recv: -1}}},
		"its own part has 4 bytes, want 8": {QPs: qps(), MessagePackets: 1, WindowPackets: 1, Ops: []Op{{Recv: 8, Own: make([]byte, 4)}}},
		"is not defined":                   {QPs: qps(), MessagePackets: 1, WindowPackets: 1, Ops: []Op{{Recv: 4, Own: make([]byte, 4), Op: spec.OpXor, DType: spec.DTypeFloat32}}},
	} {
		_, err := NewRank(cfg)
		require.ErrorContains(t, err, want)
	}
}

func TestRankNamesItsError(t *testing.T) {
	r, err := NewRank(RankConfig{QPs: qps(), Ops: []Op{{Send: make([]byte, 64)}}, MessagePackets: 1, WindowPackets: 1})
	require.NoError(t, err)
	r.Start()
	pkt := toHost(spec.OpcodeAcknowledge, 0xfffffe)
	pkt.Syndrome = spec.SyndromeNakOperation
	r.Run(Event{Kind: Deliver, Packet: pkt})
	require.EqualError(t, r.Err(), "rank h (QPN 0x000011): send 1 of QPN 0x000011 completed with status 11, remote operation error")
	require.True(t, r.Done())
}
