package host

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

func steps(t *testing.T, list string) []tree.Step {
	t.Helper()
	s, err := tree.ParseSteps(list)
	require.NoError(t, err)
	return s
}

// What a rank of three sends and gets in each collective; the queue pair is that of the subgroup.
func TestPlan(t *testing.T) {
	v := []byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0} // four elements: shares of one, one and two
	qp := func(s tree.Step) (int, error) {
		return map[tree.Collective]int{tree.Reduce: 10, tree.Broadcast: 20}[s.Collective] + s.Root, nil
	}
	for list, want := range map[string][]Op{
		"allreduce":   {{Send: v, Recv: 16}},
		"barrier":     {{Barrier: true}},
		"reduce:1":    {{QP: 11, Recv: 16, Own: v}},
		"reduce:2":    {{QP: 12, Send: v}},
		"broadcast:1": {{QP: 21, Send: v}},
		"broadcast:0": {{QP: 20, Recv: 16}},
		"reducescatter": {
			{QP: 10, Send: v[:4]}, {QP: 11, Recv: 4, Own: v[4:8], Pipelined: true}, {QP: 12, Send: v[8:], Pipelined: true},
		},
		"allgather": {
			{QP: 20, Recv: 4}, {QP: 21, Send: v[4:8], Pipelined: true}, {QP: 22, Recv: 8, Pipelined: true},
		},
	} {
		p := Program{Rank: 1, Ranks: 3, Steps: steps(t, list), Input: [][]byte{v}, QP: qp}
		ops, first, err := p.Plan()
		require.NoError(t, err)
		require.Equal(t, want, ops, list)
		require.Equal(t, []int{0, len(want)}, first)
	}
	p := Program{Rank: 1, Ranks: 3, Steps: steps(t, "reducescatter,allreduce"), Input: [][]byte{v[:8], v}, QP: qp}
	ops, first, err := p.Plan()
	require.NoError(t, err)
	require.Len(t, ops, 3, "rank 0 has no share of two elements")
	require.Equal(t, []int{0, 2, 3}, first)
	p.Input = p.Input[:1]
	_, _, err = p.Plan()
	require.ErrorContains(t, err, "got 1 vectors for 2 collectives")
}

// A control signal goes before each step, numbered in its subgroup; a Barrier is its own.
func TestPlanSignals(t *testing.T) {
	v := make([]byte, 8)
	p := Program{Rank: 0, Ranks: 2, Steps: steps(t, "allreduce,barrier,reduce:0"), Input: [][]byte{v, nil, v}, Unpinned: true, Flags: 1, Op: spec.OpMax,
		DType: spec.DTypeInt64, QP: func(s tree.Step) (int, error) { return int(s.Collective % 3), nil }}
	ops, first, err := p.Plan()
	require.NoError(t, err)
	require.Equal(t, []int{0, 2, 3, 5}, first)
	imm := func(v uint32) *uint32 { return &v }
	size := []byte{0, 0, 0, 0, 0, 0, 0, 8}
	numbered := func(bytes []byte, n byte) []byte { return append(append([]byte{}, bytes...), 0, 0, 0, 0, 0, 0, 0, n) }
	allreduce, barrier, reduce := numbered(size, 0), numbered(make([]byte, 8), 1), numbered(size, 0)
	require.Equal(t, []Op{
		{Imm: imm(0x02210000), Send: allreduce, Recv: 16, Want: allreduce},
		{Send: v, Recv: 8, Op: spec.OpMax, DType: spec.DTypeInt64},
		{Imm: imm(0x32210000), Barrier: true, Send: barrier, Recv: 16, Want: barrier},
		{QP: 1, Imm: imm(0x12210000), Recv: 16, Want: reduce},
		{QP: 1, Recv: 8, Own: v, Op: spec.OpMax, DType: spec.DTypeInt64},
	}, ops)
}

// A signal that comes back otherwise than the rank's own is an error.
func TestWrongSignal(t *testing.T) {
	imm, other := uint32(0x02210000), uint32(0x02210001)
	for want, pkt := range map[string]func(*roce.Packet){
		"":                               func(p *roce.Packet) { p.Imm = imm },
		"immediate 0x02210001, want 0x0": func(p *roce.Packet) { p.Imm = other },
		"immediate false, want true":     func(p *roce.Packet) { p.Opcode = spec.OpcodeSendOnly },
		"got 09000000, want 01000000":    func(p *roce.Packet) { p.Imm, p.Payload[0] = imm, 9 },
	} {
		r, err := NewRank(RankConfig{QPs: qps(), Ops: []Op{{Recv: 4, Imm: &imm, Want: []byte{1, 0, 0, 0}}}, MessagePackets: 2, WindowPackets: 2})
		require.NoError(t, err)
		r.Start()
		p := toHost(spec.OpcodeSendOnlyImm, r.NextRecvPSN(0))
		p.Payload = []byte{1, 0, 0, 0}
		pkt(p)
		r.Run(Event{Kind: Deliver, Packet: p})
		if want == "" {
			require.NoError(t, r.Err())
			continue
		}
		require.ErrorContains(t, r.Err(), want)
	}
}

// Of pipelined steps two are under way at most; of others, one.
func TestPipelined(t *testing.T) {
	for name, tc := range map[string]struct {
		pipelined bool
		want      []uint32 // QPs of the packets after each ACK
	}{"one after the other": {false, []uint32{1, 2, 3}}, "pipelined": {true, []uint32{2, 3, 0}}} {
		t.Run(name, func(t *testing.T) {
			var c []Config
			var ops []Op
			for i := range 3 {
				one := config(LinuxRXE())
				one.QPN, one.PeerQPN = uint32(0x20+i), uint32(1+i)
				c = append(c, one)
				ops = append(ops, Op{QP: i, Send: make([]byte, 8), Pipelined: tc.pipelined})
			}
			r, err := NewRank(RankConfig{QPs: c, Ops: ops, MessagePackets: 1, WindowPackets: 4})
			require.NoError(t, err)
			sent := func(outs []Output) (last uint32) {
				for _, o := range outs {
					if o.Kind == Frame {
						last = o.Packet.DestQP
						require.EqualValues(t, last-1, o.QP)
					}
				}
				return last
			}
			require.Equal(t, tc.want[0], sent(r.Start()))
			for i := range 2 {
				pkt := toHost(spec.OpcodeAcknowledge, c[i].SendPSN)
				pkt.DestQP, pkt.Syndrome = c[i].QPN, spec.SyndromeAck
				require.True(t, r.Owns(pkt))
				require.Equal(t, tc.want[i+1], sent(r.Run(Event{Kind: Deliver, Packet: pkt})))
				require.Equal(t, i+1, r.Ended())
			}
		})
	}
}

// The root of a Reduce adds its own part to what came, once that is here.
func TestRootAddsItsOwn(t *testing.T) {
	r, err := NewRank(RankConfig{QPs: qps(), Ops: []Op{{Recv: 8, Own: []byte{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}}}, MessagePackets: 2, WindowPackets: 2})
	require.NoError(t, err)
	r.Start()
	pkt := toHost(spec.OpcodeSendOnly, r.NextRecvPSN(0))
	pkt.Payload = []byte{9, 0, 0, 0, 1, 0, 0, 0}
	before := r.NextRecvPSN(0)
	r.Run(Event{Kind: Deliver, Packet: pkt})
	require.Equal(t, psn.Next(before), r.NextRecvPSN(0))
	require.Equal(t, []byte{10, 0, 0, 0, 0, 0, 0, 0}, r.Result(0))
	require.True(t, r.Done())
	require.NoError(t, r.Err())
}

// A message that is shorter than the step's is an error, not a result.
func TestShortMessage(t *testing.T) {
	r, err := NewRank(RankConfig{QPs: qps(), Ops: []Op{{Recv: 8}}, MessagePackets: 2, WindowPackets: 2})
	require.NoError(t, err)
	r.Start()
	pkt := toHost(spec.OpcodeSendOnly, r.NextRecvPSN(0))
	pkt.Payload = []byte{9, 0, 0, 0}
	r.Run(Event{Kind: Deliver, Packet: pkt})
	require.ErrorContains(t, r.Err(), "step 0: a message came with 4 bytes, want 8")
}
