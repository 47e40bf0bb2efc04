package engine

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// net1 is a tree of Mode-I engines with ranks at its leaves, built as a net2. The ranks keep to RC, with as much
// outstanding as they like: the adversary decides who acts, which of the enabled events of which engine happens and
// when a timer runs out, and delivers any packet ever sent any number of times, however late, in any order, or never.
type net1 struct {
	rng      *rand.Rand
	p0       psn.PSN
	messages []int // packets of each
	at       []int // of each psn of the run: its message
	engines  []*Engine
	peers    [][]end
	ranks    []rank2
	wire     []packet2
	rnr      int // RNR NAKs that an engine sent
}

func newNet1(t *testing.T, build func(*topology2), wrong Mistake, seed uint64) *net1 {
	t.Helper()
	var top topology2
	build(&top)
	rng := rand.New(rand.NewPCG(seed, 3))
	packets := 2 << rng.IntN(2)
	n := &net1{rng: rng, p0: psn.PSN(0xfffff0 + rng.IntN(16)), peers: top.peers, ranks: top.ranks}
	for m := range 12 {
		n.messages = append(n.messages, 1+rng.IntN(packets))
		for range n.messages[m] {
			n.at = append(n.at, m)
		}
	}
	for _, c := range top.cfgs {
		c.Variant.Mistake = wrong
		for p := range c.Pipes {
			c.Pipes[p].Mode, c.Pipes[p].DType, c.Pipes[p].N, c.Pipes[p].PSN0 = 1, spec.DTypeFloat32, packets, n.p0
			c.Pipes[p].AckEvery, c.Pipes[p].RNRCode, c.Pipes[p].Retries, c.Pipes[p].Timeout = 1, 1, 15, 1
		}
		for i := range c.Endpoints {
			c.Endpoints[i].PSN0 = n.p0
		}
		n.engines = append(n.engines, programmed(t, c))
	}
	return n
}

// last says whether psn k ends its message.
func (n *net1) last(k int) bool { return k+1 == len(n.at) || n.at[k+1] != n.at[k] }

// value is what rank r contributes to psn k: a float whose sums depend on the order.
func value(r, k int) float32 {
	x := rand.New(rand.NewPCG(uint64(r), uint64(k))).Uint32()
	return math.Float32frombits(x&0x807fffff | (120+x>>24&15)<<23)
}

// leaving is what must leave as psn k at an out: the values of the pipe's ins, added in their order in float32.
func (n *net1) leaving(at end, k int) float32 {
	cfg := n.engines[at.engine].cfg
	var sum float32
	for i, in := range cfg.Pipes[cfg.Endpoints[at.endpoint].OutPipe].Ins {
		v := float32(0)
		if to := n.peers[at.engine][in]; to.rank >= 0 {
			v = value(to.rank, k)
		} else {
			v = n.leaving(to, k)
		}
		if i == 0 {
			sum = v
		} else {
			sum += v
		}
	}
	return sum
}

// send: rank r sends psn k, a packet of its message.
func (n *net1) send(r, k int) {
	rank := &n.ranks[r]
	rank.sent = max(rank.sent, k+1)
	first, last := k == 0 || n.at[k-1] != n.at[k], n.last(k)
	op := spec.OpcodeSendMiddle
	switch {
	case first && last:
		op = spec.OpcodeSendOnly
	case first:
		op = spec.OpcodeSendFirst
	case last:
		op = spec.OpcodeSendLast
	}
	ev := dataFrom(&n.engines[rank.at.engine].cfg, rank.at.endpoint, psn.Add(n.p0, k))
	ev.Packet.Opcode, ev.Packet.AckReq = op, n.rng.IntN(2) == 0
	words := 64
	if last {
		words = 1 + k%3
	}
	ev.Packet.Payload = nil
	for range words {
		ev.Packet.Payload = binary.LittleEndian.AppendUint32(ev.Packet.Payload, math.Float32bits(value(r, k)))
	}
	n.wire = append(n.wire, packet2{rank.at, ev.Packet})
}

func (n *net1) answer(r, k int, syndrome uint8) {
	at := n.ranks[r].at
	n.wire = append(n.wire, packet2{at, ackFrom(&n.engines[at.engine].cfg, at.endpoint, psn.Add(n.p0, k), syndrome).Packet})
}

func (n *net1) step(e int, ev Event) error {
	if err := n.engines[e].Legal(ev); err != nil {
		return err
	}
	outs := n.engines[e].Step(ev)
	switch r := outs[0].Record; r.Verdict {
	case spec.VerdictOk, spec.VerdictDuplicate, spec.VerdictBeyond, spec.VerdictAckStale:
	default:
		return fmt.Errorf("engine %d: %v %v", e, r.Cause, r.Verdict)
	}
	for _, o := range outs {
		if o.Kind == Frame {
			n.wire = append(n.wire, packet2{n.peers[e][o.Endpoint], o.Packet})
			if o.Packet.HasAETH() && isRNR(o.Packet.Syndrome) {
				n.rnr++
			}
		}
	}
	return n.invariants(e)
}

// invariants: no more is held than the buffers of protocol.md 7 have room for, and psns are in order.
func (n *net1) invariants(e int) error {
	en := n.engines[e]
	for p := range en.pipes {
		st, cfg := &en.pipes[p], &en.cfg.Pipes[p]
		if psn.Less(st.nextSend, st.psnStart) || st.sum.packets > cfg.N || len(st.sum.payload) > cfg.MessageBytes() {
			return fmt.Errorf("engine %d pipe %d: psnStart %v, nextSend %v, sum of %d packets", e, p, st.psnStart, st.nextSend, st.sum.packets)
		}
		for _, i := range cfg.Ins {
			in := &en.endpoints[i]
			held := in.receive.packets
			if len(cfg.Ins) == 1 {
				held = psn.Sub(in.in.ePSN, st.psnStart)
			}
			if held > cfg.N || len(in.receive.payload) > cfg.MessageBytes() {
				return fmt.Errorf("engine %d in %d: holds %d packets, want at most %d", e, i, held, cfg.N)
			}
		}
		for _, o := range cfg.Outs {
			out := &en.endpoints[o].out
			if psn.Less(psn.Next(out.lastAcked), st.psnStart) || psn.Less(st.nextSend, out.cursor) || psn.Less(out.sentMax, out.lastAcked) {
				return fmt.Errorf("engine %d out %d: %+v with psnStart %v, nextSend %v", e, o, *out, st.psnStart, st.nextSend)
			}
		}
	}
	for _, ev := range en.Enabled() {
		if err := en.Legal(ev); err != nil {
			return fmt.Errorf("enabled but not legal: %w", err)
		}
	}
	return nil
}

func (n *net1) deliver(p packet2) error {
	if p.to.rank >= 0 {
		return n.receive(p.to.rank, p.pkt)
	}
	return n.step(p.to.engine, Event{Cause: spec.CauseDrop, Port: p.to.endpoint, Packet: p.pkt})
}

// receive: a packet has come to rank r.
func (n *net1) receive(r int, pkt *roce.Packet) error {
	rank, k := &n.ranks[r], psn.Sub(pkt.PSN, n.p0)
	if pkt.HasAETH() {
		if !isAck(pkt.Syndrome) {
			k--
		}
		ended := 0
		for j := range k + 1 {
			if j < len(n.at) && n.last(j) {
				ended++
			}
		}
		switch {
		case !rank.sends || k >= rank.sent || isFatal(pkt.Syndrome):
			return fmt.Errorf("rank %d got an answer %#x for psn %v, of %d it sent", r, pkt.Syndrome, pkt.PSN, rank.sent)
		case int(pkt.MSN) != ended:
			return fmt.Errorf("rank %d got MSN %d with psn %v, syndrome %#x, want %d", r, pkt.MSN, pkt.PSN, pkt.Syndrome, ended)
		}
		rank.acked = max(rank.acked, k+1)
		return nil
	}
	if !rank.receives || k < 0 || k >= len(n.at) {
		return fmt.Errorf("rank %d got psn %v, which is not for it", r, pkt.PSN)
	}
	op, _ := pkt.Opcode.Info()
	if want := n.leaving(rank.at, k); op.Last != n.last(k) || op.First != (k == 0 || n.at[k-1] != n.at[k]) {
		return fmt.Errorf("rank %d got %v as psn %v, of a message of %d", r, pkt.Opcode, pkt.PSN, n.messages[n.at[k]])
	} else if got := binary.LittleEndian.Uint32(pkt.Payload); got != math.Float32bits(want) {
		return fmt.Errorf("rank %d got %v as psn %v, want %v", r, math.Float32frombits(got), pkt.PSN, want)
	}
	switch {
	case k > rank.expected:
		n.answer(r, rank.expected, spec.SyndromeNakSequence)
	case k < rank.expected:
		n.answer(r, rank.expected-1, spec.SyndromeAck)
	case n.rng.IntN(6) == 0:
		n.answer(r, k, spec.SyndromeRNR|1)
	default:
		rank.expected++
		if pkt.AckReq {
			n.answer(r, k, spec.SyndromeAck)
		}
	}
	return nil
}

// expire lets a timer of engine e run out, if one runs and it is not one too many.
func (n *net1) expire(e, i int) error {
	for _, cause := range []spec.Cause{spec.CauseTimer, spec.CauseRNRExpiry} {
		ev := Event{Cause: cause, Endpoint: i}
		if n.engines[e].Legal(ev) == nil && n.engines[e].endpoints[i].out.retries < 12 {
			return n.step(e, ev)
		}
	}
	return nil
}

// act does one thing of the adversary's choice.
func (n *net1) act() error {
	e := n.rng.IntN(len(n.engines))
	switch x := n.rng.IntN(16); {
	case x < 2:
		if r := n.rng.IntN(len(n.ranks)); n.ranks[r].sends && n.ranks[r].acked < len(n.at) {
			n.send(r, min(len(n.at)-1, n.ranks[r].acked+n.rng.IntN(8)))
		}
	case x < 4: // any packet ever sent arrives
		if len(n.wire) > 0 {
			return n.deliver(n.wire[n.rng.IntN(len(n.wire))])
		}
	case x < 9: // one of the newest does
		if len(n.wire) > 0 {
			return n.deliver(n.wire[len(n.wire)-1-n.rng.IntN(min(8, len(n.wire)))])
		}
	case x < 10:
		return n.expire(e, n.rng.IntN(len(n.peers[e])))
	default:
		if evs := n.engines[e].Enabled(); len(evs) > 0 {
			return n.step(e, evs[n.rng.IntN(len(evs))])
		}
	}
	return nil
}

// finish lets everybody be kind: what is sent arrives, once and in order, timers run out, and what is not acknowledged
// is sent again.
func (n *net1) finish() error {
	for range 40 * len(n.at) {
		done := true
		from := len(n.wire)
		for r := range n.ranks {
			rank := &n.ranks[r]
			done = done && (!rank.sends || rank.acked == len(n.at)) && (!rank.receives || rank.expected == len(n.at))
			for k := rank.acked; rank.sends && k < min(len(n.at), rank.acked+4); k++ {
				n.send(r, k)
			}
		}
		if done {
			return nil
		}
		for e := range n.engines {
			for i := range n.peers[e] {
				if err := n.expire(e, i); err != nil {
					return err
				}
			}
		}
		for more := true; more; {
			more = false
			for ; from < len(n.wire); from++ {
				if err := n.deliver(n.wire[from]); err != nil {
					return err
				}
			}
			for e := range n.engines {
				for evs := n.engines[e].Enabled(); len(evs) > 0; evs = n.engines[e].Enabled() {
					if err := n.step(e, evs[0]); err != nil {
						return err
					}
					more = true
				}
			}
		}
	}
	return fmt.Errorf("does not end: %+v of %d", n.ranks, len(n.at))
}

func (n *net1) run() (err error) {
	for range 2500 {
		if err := n.act(); err != nil {
			return err
		}
	}
	return n.finish()
}

// collectives1 are the topologies of the Mode-II adversary, with an AllReduce whose leaves differ in number.
var collectives1 = map[string]func(t *topology2){
	"allreduce flat": collectives2["allreduce flat"], "allreduce two-level": collectives2["allreduce two-level"], "reduce tree": collectives2["reduce tree"],
	"broadcast flat": collectives2["broadcast flat"], "broadcast tree": collectives2["broadcast tree"],
}

func TestAdversary1(t *testing.T) {
	rnr := 0
	for name, build := range collectives1 {
		t.Run(name, func(t *testing.T) {
			seeds := []uint64{*seedFlag}
			if *seedFlag == 0 {
				seeds = nil
				for s := range uint64(40) {
					seeds = append(seeds, s+1)
				}
			}
			for _, seed := range seeds {
				n := newNet1(t, build, NoMistake, seed)
				require.NoError(t, n.run(), "-seed %d", seed)
				for _, e := range n.engines {
					for p := range e.pipes {
						require.Equal(t, spec.ErrorKindNone, e.Fault(p).Kind, "-seed %d", seed)
					}
				}
				rnr += n.rnr
			}
		})
	}
	require.Greater(t, rnr, 100, "buffers were never full: there was no back-pressure to speak of")
}

// What is known to be wrong must fall to the same adversary, or it proves nothing.
func TestAdversary1FindsWhatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		collective string
		wrong      Mistake
	}{
		"a sum in the order of arrival":          {"allreduce flat", ArrivalOrder},
		"a result before all have sent":          {"allreduce flat", EarlyRelease},
		"a buffer that is overwritten":           {"allreduce flat", Overwrites},
		"a broadcast buffer that is overwritten": {"broadcast flat", Overwrites},
		"data beyond a gap":                      {"reduce tree", TakesGaps},
		"a duplicate that counts again":          {"reduce tree", RetakesDuplicates},
		"the fastest ACK":                        {"broadcast flat", FastestAck},
		"the fastest ACK of an AllReduce":        {"allreduce two-level", FastestAck},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(60) {
				if err := survive(newNet1(t, collectives1[tc.collective], tc.wrong, seed)); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Fatal("it survived")
		})
	}
}

// survive runs an engine that is wrong: one that falls over has not survived either.
func survive(n *net1) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return n.run()
}

// A clone lives a life of its own, and a state is one string of bytes: two engines in the same state append the same.
func TestMode1Clone(t *testing.T) {
	n := newNet1(t, collectives1["allreduce two-level"], NoMistake, 7)
	for range 1500 {
		require.NoError(t, n.act())
		e := n.rng.IntN(len(n.engines))
		c := n.engines[e].Clone()
		before := n.engines[e].AppendState(nil)
		require.Equal(t, before, c.AppendState(nil))
		evs := c.Enabled()
		for _, p := range n.wire[max(0, len(n.wire)-4):] {
			if p.to.rank < 0 && p.to.engine == e {
				evs = append(evs, Event{Cause: spec.CauseDrop, Port: p.to.endpoint, Packet: p.pkt})
			}
		}
		for _, ev := range evs {
			if c.Legal(ev) == nil {
				c.Step(ev)
			}
		}
		require.True(t, slices.Equal(before, n.engines[e].AppendState(nil)), "what a clone did changed the other")
	}
}
