package host

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
)

// twoQPs are connected to different peers; the second has its own PSNs.
func twoQPs() (a, b Config) {
	a = config(LinuxRXE())
	b = a
	b.QPN, b.PeerQPN, b.SendPSN, b.RecvPSN = 0x12, 0x202, 100, 200
	return a, b
}

// data is a packet to queue pair c with a psn after its first.
func data(c Config, op spec.Opcode, n int, payload []byte) Event {
	pkt := toHost(op, psn.Add(c.RecvPSN, n))
	pkt.DestQP, pkt.Payload, pkt.AckReq = c.QPN, payload, true
	return Event{Kind: Deliver, Packet: pkt}
}

func ackOf(c Config, n int) Event {
	pkt := toHost(spec.OpcodeAcknowledge, psn.Add(c.SendPSN, n))
	pkt.DestQP, pkt.Syndrome = c.QPN, spec.SyndromeAck
	return Event{Kind: Deliver, Packet: pkt}
}

func frames(outs []Output) (payloads [][]byte) {
	for _, o := range outs {
		if o.Kind == Frame && o.Packet.Opcode != spec.OpcodeAcknowledge {
			payloads = append(payloads, o.Packet.Payload)
		}
	}
	return payloads
}

// A step of a ring: it sends on one queue pair and receives on the other, and the next sends what came with its own
// part added, in the same memory.
func TestRankPostsAtRunTime(t *testing.T) {
	a, b := twoQPs()
	r, err := NewRank(RankConfig{QPs: []Config{a}, MessagePackets: 2, WindowPackets: 4})
	require.NoError(t, err)
	require.Empty(t, r.Start())
	require.True(t, r.Done(), "a program without steps")
	q, err := r.AddQP(b, 1, 1)
	require.NoError(t, err)
	require.Equal(t, 1, q)

	own := bytes.Repeat([]byte{1, 0, 0, 0}, 128) // 512 bytes, of int32: two packets of 256
	into := own
	sent := bytes.Repeat([]byte{9}, 100)
	outs, err := r.Post(
		Op{QP: 0, From: &q, Send: sent, Recv: 512, Own: own, Into: into, Op: spec.OpSum, DType: spec.DTypeInt32},
		Op{QP: 0, Send: into},
	)
	require.NoError(t, err)
	require.Equal(t, [][]byte{sent}, frames(outs), "the second step waits")
	require.Equal(t, 2, r.Steps())

	// M of the second queue pair is 1: two messages.
	came := bytes.Repeat([]byte{2, 0, 0, 0}, 64)
	require.Empty(t, frames(r.Run(data(b, spec.OpcodeSendOnly, 0, came))))
	require.Equal(t, bytes.Repeat([]byte{3, 0, 0, 0}, 64), r.Result(0))
	require.Equal(t, bytes.Repeat([]byte{1, 0, 0, 0}, 64), own[256:], "nothing came of it yet")
	require.Empty(t, frames(r.Run(ackOf(a, 0))))
	require.Zero(t, r.Ended())
	want := bytes.Repeat([]byte{3, 0, 0, 0}, 128)
	outs = r.Run(data(b, spec.OpcodeSendOnly, 1, came))
	require.Equal(t, want, into)
	require.Equal(t, [][]byte{want[:256], want[256:]}, frames(outs), "the second step has begun")
	require.Equal(t, 1, r.Ended())

	// What has ended is forgotten; numbers go on.
	r.Forget()
	require.Equal(t, 2, r.Steps())
	require.Empty(t, frames(r.Run(ackOf(a, 2))))
	require.Equal(t, 2, r.Ended())
	require.True(t, r.Done())
	r.Forget()
	outs, err = r.Post(Op{QP: q, Recv: 4}, Op{QP: 0, Send: sent[:4]})
	require.NoError(t, err)
	require.Empty(t, frames(outs))
	require.Equal(t, 4, r.Steps())
	require.Equal(t, [][]byte{sent[:4]}, frames(r.Run(data(b, spec.OpcodeSendOnly, 2, []byte{1, 2, 3, 4}))))
	require.Equal(t, []byte{1, 2, 3, 4}, r.Result(2))
	require.NoError(t, r.Err())
}

// What comes is put where it belongs without a copy, as it comes.
func TestRankPutsResultsInPlace(t *testing.T) {
	a, _ := twoQPs()
	into := make([]byte, 600)
	r, err := NewRank(RankConfig{QPs: []Config{a}, MessagePackets: 2, WindowPackets: 4, Ops: []Op{{Recv: 600, Into: into}}})
	require.NoError(t, err)
	r.Start()
	first := bytes.Repeat([]byte{7}, 256)
	r.Run(data(a, spec.OpcodeSendFirst, 0, first))
	require.Equal(t, first, into[:256])
	require.Empty(t, r.Result(0), "the message is not complete")
	r.Run(data(a, spec.OpcodeSendLast, 1, first))
	require.Len(t, r.Result(0), 512)
	r.Run(data(a, spec.OpcodeSendOnly, 2, bytes.Repeat([]byte{8}, 88)))
	require.Equal(t, append(bytes.Repeat([]byte{7}, 512), bytes.Repeat([]byte{8}, 88)...), into)
	require.Same(t, &into[0], &r.Result(0)[0])
	require.True(t, r.Done())
}

// A paced step has no more than a window between what it sent and what came, however fast the ACKs are.
func TestRankPacesItself(t *testing.T) {
	a, _ := twoQPs()
	vector := make([]byte, 10*256)
	for _, paced := range []bool{false, true} {
		r, err := NewRank(RankConfig{QPs: []Config{a}, MessagePackets: 1, WindowPackets: 3, Ops: []Op{{Send: vector, Recv: len(vector), Paced: paced}}})
		require.NoError(t, err)
		require.Len(t, frames(r.Start()), 3)
		sent := 3
		for range 5 {
			sent += len(frames(r.Run(ackOf(a, sent-1))))
		}
		if !paced {
			require.Equal(t, 10, sent)
			continue
		}
		require.Equal(t, 3, sent)
		for i := range 10 {
			sent += len(frames(r.Run(data(a, spec.OpcodeSendOnly, i, vector[:256]))))
			require.Equal(t, min(10, 3+i+1), sent)
			r.Run(ackOf(a, sent-1))
		}
		require.True(t, r.Done())
		require.NoError(t, r.Err())
	}
}

// A message of another length than the step's is an error, and ends the rank.
func TestRankRefusesOtherLengths(t *testing.T) {
	a, _ := twoQPs()
	r, err := NewRank(RankConfig{QPs: []Config{a}, MessagePackets: 2, WindowPackets: 4, Ops: []Op{{Recv: 600}}})
	require.NoError(t, err)
	r.Start()
	r.Run(data(a, spec.OpcodeSendOnly, 0, make([]byte, 100)))
	require.ErrorContains(t, r.Err(), "step 0: a message came with 100 bytes, want 512")
	require.True(t, r.Done())
}

func TestPostErrors(t *testing.T) {
	a, b := twoQPs()
	r, err := NewRank(RankConfig{QPs: []Config{a}, MessagePackets: 1, WindowPackets: 1})
	require.NoError(t, err)
	r.Start()
	_, err = r.AddQP(a, 1, 1)
	require.ErrorContains(t, err, "two queue pairs have QPN 0x000011")
	_, err = r.AddQP(b, 2, 1)
	require.ErrorContains(t, err, "got M 2, MW 1; want 1 <= M <= MW")
	other := 1
	_, err = r.Post(Op{Send: []byte{1}}, Op{From: &other, Recv: 1})
	require.ErrorContains(t, err, "step 1: got queue pair 1, want 0..0")
	_, err = r.Post(Op{Recv: 8, Into: make([]byte, 4)})
	require.ErrorContains(t, err, "its result has room for 4 bytes, want 8 as it receives")
	require.Zero(t, r.Steps(), "nothing was added")
}
