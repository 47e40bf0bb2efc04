package engine

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// net2 is a tree of Mode-II engines with ranks at its leaves. The ranks keep to RC and to MW = N/2, and nothing
// more: the adversary decides who acts and which engine forwards, refuses what an engine may refuse, and delivers
// any packet ever sent any number of times, however late, in any order, or never.
type net2 struct {
	rng     *rand.Rand
	p0      psn.PSN
	total   int // psns of the run
	window  int // MW
	engines []*Engine
	cfgs    []Config
	peers   [][]end // of each engine, by endpoint
	ranks   []rank2
	wire    []packet2
	want    func(k int) uint32 // what a receiver must get

	unpinned bool // every fourth psn is a control signal
}

// end is one end of a link: an endpoint of an engine, or a rank.
type end struct{ engine, endpoint, rank int }

type packet2 struct {
	to  end
	pkt *roce.Packet
}

type rank2 struct {
	at       end // the endpoint of its switch
	sends    bool
	receives bool
	sent     int // psns below it were sent at least once
	acked    int // psns below it are acknowledged
	expected int // next psn it takes
}

// topology2 grows a net2.
type topology2 struct {
	cfgs  []Config
	peers [][]end
	ranks []rank2

	allReduce bool // every rank sends and receives: what it has delivered tells it what it may send
}

func (t *topology2) node(name string) int {
	t.cfgs = append(t.cfgs, Config{Name: name})
	t.peers = append(t.peers, nil)
	return len(t.cfgs) - 1
}

// endpoint adds an endpoint to engine e, with addresses no other has.
func (t *topology2) endpoint(e int) int {
	c := &t.cfgs[e]
	i := len(c.Endpoints)
	c.Endpoints = append(c.Endpoints, Endpoint{
		Port: i, MAC: roce.MAC{2, 0, 0, 0, byte(e), byte(i)}, IP: netip.AddrFrom4([4]byte{10, 1, byte(e), byte(i)}),
		QPN: uint32(0x100*(e+1) + i), PKey: 0xffff, TTL: 64, InPipe: None, OutPipe: None,
	})
	t.peers[e] = append(t.peers[e], end{rank: -1})
	return i
}

func (t *topology2) rank(e int) int {
	i, r := t.endpoint(e), len(t.ranks)
	ep := &t.cfgs[e].Endpoints[i]
	ep.Leaf = true
	ep.PeerMAC, ep.PeerIP, ep.PeerQPN = roce.MAC{2, 0, 0, 1, 0, byte(r)}, netip.AddrFrom4([4]byte{10, 2, 0, byte(r)}), uint32(0x10+r)
	t.peers[e][i] = end{rank: r}
	t.ranks = append(t.ranks, rank2{at: end{engine: e, endpoint: i, rank: -1}})
	return i
}

// link joins two engines and returns the endpoint of each.
func (t *topology2) link(a, b int) (int, int) {
	i, j := t.endpoint(a), t.endpoint(b)
	x, y := &t.cfgs[a].Endpoints[i], &t.cfgs[b].Endpoints[j]
	x.PeerMAC, x.PeerIP, x.PeerQPN = y.MAC, y.IP, y.QPN
	y.PeerMAC, y.PeerIP, y.PeerQPN = x.MAC, x.IP, x.QPN
	t.peers[a][i], t.peers[b][j] = end{b, j, -1}, end{a, i, -1}
	return i, j
}

func (t *topology2) pipe(e int, rule spec.AckRule, ins, outs []int) {
	c := &t.cfgs[e]
	p := len(c.Pipes)
	c.Pipes = append(c.Pipes, Pipe{Mode: 2, MTU: 256, AckRule: rule, Ins: ins, Outs: outs})
	for n, i := range ins {
		c.Endpoints[i].InPipe, c.Endpoints[i].InIndex = p, n
	}
	for _, i := range outs {
		c.Endpoints[i].OutPipe = p
	}
}

// collectives builds each topology of the test: who sends and receives follows from the pipes.
var collectives2 = map[string]func(t *topology2){
	"allreduce flat": func(t *topology2) {
		s := t.node("root")
		all := []int{t.rank(s), t.rank(s), t.rank(s)}
		t.pipe(s, spec.AckRuleReflect, all, all)
		t.roles(0b111, 0b111)
		t.allReduce = true
	},
	"allreduce two-level": func(t *topology2) {
		root, left, right := t.node("root"), t.node("left"), t.node("right")
		var children []int
		for _, s := range []int{left, right} {
			leaves := []int{t.rank(s), t.rank(s)}
			up, down := t.link(s, root)
			t.pipe(s, spec.AckRuleReflect, leaves, []int{up})
			t.pipe(s, spec.AckRuleReflect, []int{up}, leaves)
			children = append(children, down)
		}
		t.pipe(root, spec.AckRuleReflect, children, children)
		t.roles(0b1111, 0b1111)
		t.allReduce = true
	},
	"reduce tree": func(t *topology2) { // to rank 0
		root, left, right := t.node("root"), t.node("left"), t.node("right")
		r0, r1, r2, r3 := t.rank(left), t.rank(left), t.rank(right), t.rank(right)
		up, downL := t.link(left, root)
		upR, downR := t.link(right, root)
		t.pipe(right, spec.AckRuleReplicate, []int{r2, r3}, []int{upR})
		t.pipe(root, spec.AckRuleReplicate, []int{downR}, []int{downL})
		t.pipe(left, spec.AckRuleReplicate, []int{r1, up}, []int{r0})
		t.roles(0b1110, 0b0001)
	},
	"broadcast flat": func(t *topology2) { // from rank 0
		s := t.node("root")
		t.pipe(s, spec.AckRuleMinimum, []int{t.rank(s)}, []int{t.rank(s), t.rank(s), t.rank(s)})
		t.roles(0b0001, 0b1110)
	},
	"broadcast tree": func(t *topology2) { // from rank 0
		root, left, right := t.node("root"), t.node("left"), t.node("right")
		r0, r1, r2, r3 := t.rank(left), t.rank(left), t.rank(right), t.rank(right)
		up, downL := t.link(left, root)
		upR, downR := t.link(right, root)
		t.pipe(left, spec.AckRuleMinimum, []int{r0}, []int{r1, up})
		t.pipe(root, spec.AckRuleMinimum, []int{downL}, []int{downR})
		t.pipe(right, spec.AckRuleMinimum, []int{upR}, []int{r2, r3})
		t.roles(0b0001, 0b1110)
	},
}

// roles says by bit which ranks send and which receive.
func (t *topology2) roles(send, receive uint) {
	for i := range t.ranks {
		t.ranks[i].sends, t.ranks[i].receives = send>>i&1 != 0, receive>>i&1 != 0
	}
}

func newNet2(t *testing.T, build func(*topology2), v Variant, total int, seed uint64) *net2 {
	t.Helper()
	var top topology2
	build(&top)
	rng := rand.New(rand.NewPCG(seed, 2))
	slots := 2 << rng.IntN(3)
	n := &net2{rng: rng, p0: psn.PSN(0xfffff0 + rng.IntN(16)), total: total, window: slots / 2, cfgs: top.cfgs,
		peers: top.peers, ranks: top.ranks}
	replayAll := rng.IntN(3) == 0
	n.unpinned = top.allReduce && rng.IntN(2) == 0
	for _, c := range n.cfgs {
		c.Variant = v
		for p := range c.Pipes {
			c.Pipes[p].Unpinned, c.Pipes[p].Reproducible = n.unpinned, !n.unpinned && rng.IntN(3) == 0
			c.Pipes[p].N, c.Pipes[p].PSN0, c.Pipes[p].ReplayAll = slots, n.p0, replayAll
		}
		for i := range c.Endpoints {
			c.Endpoints[i].PSN0 = n.p0
		}
		n.engines = append(n.engines, programmed(t, c))
	}
	n.want = func(k int) uint32 {
		if n.unpinned && k%stride == 0 {
			return uint32(k / stride)
		}
		var sum uint32
		for i, r := range n.ranks {
			if r.sends {
				sum += contribution(i, k)
			}
		}
		return sum
	}
	return n
}

// emit puts a packet on the wire; it stays there.
func (n *net2) emit(to end, pkt *roce.Packet) { n.wire = append(n.wire, packet2{to, pkt}) }

func (n *net2) send(i, k int) {
	r := &n.ranks[i]
	if !maySend(n.unpinned, k, r.expected) {
		return
	}
	r.sent = max(r.sent, k+1)
	ev := contributed(&n.cfgs[r.at.engine], r.at.endpoint, i, k, psn.Add(n.p0, k))
	ev.Packet.AckReq = n.rng.IntN(2) == 0
	n.emit(r.at, ev.Packet)
}

func (n *net2) answer(i int, k int, syndrome uint8) {
	r := &n.ranks[i]
	ev := ackFrom(&n.cfgs[r.at.engine], r.at.endpoint, psn.Add(n.p0, k), syndrome)
	ev.Packet.MSN = uint32(r.expected)
	n.emit(r.at, ev.Packet)
}

// deliver hands a packet to whom it is for.
func (n *net2) deliver(p packet2) error {
	if p.to.rank >= 0 {
		return n.receive(p.to.rank, p.pkt)
	}
	e := n.engines[p.to.engine]
	ev := Event{Cause: spec.CauseDrop, Port: p.to.endpoint, Packet: p.pkt}
	if n.rng.IntN(8) == 0 { // no room?
		refused := ev
		refused.Verdict = spec.VerdictTxFull
		if e.Legal(refused) == nil {
			before := e.AppendState(nil)
			e.Step(refused)
			if string(before) != string(e.AppendState(nil)) {
				return fmt.Errorf("a refused frame changed the state")
			}
			return nil
		}
	}
	if err := e.Legal(ev); err != nil {
		return err
	}
	switch r := e.Step(ev)[0].Record; r.Verdict {
	case spec.VerdictOk, spec.VerdictStale, spec.VerdictDuplicate, spec.VerdictAckStale:
		return nil
	default:
		return fmt.Errorf("%s: %v %v", n.cfgs[p.to.engine].Name, r.Cause, r.Verdict)
	}
}

// forward lets engine e emit its oldest frame.
func (n *net2) forward(e int) {
	for _, o := range n.engines[e].Step(Event{Cause: spec.CauseForward}) {
		if o.Kind == Frame {
			n.emit(n.peers[e][o.Endpoint], o.Packet)
		}
	}
}

// receive: a packet has come to rank i.
func (n *net2) receive(i int, pkt *roce.Packet) error {
	r := &n.ranks[i]
	k := psn.Sub(pkt.PSN, n.p0)
	if pkt.HasAETH() {
		msn := k + 1
		if !isAck(pkt.Syndrome) {
			k, msn = k-1, k
		}
		switch {
		case !r.sends:
			return fmt.Errorf("rank %d, which sends nothing, got an answer", i)
		case k >= r.sent:
			return fmt.Errorf("rank %d got an answer for psn %v, which it never sent", i, pkt.PSN)
		case int(pkt.MSN) != msn:
			return fmt.Errorf("rank %d got MSN %d with psn %v, syndrome %#x, want %d", i, pkt.MSN, pkt.PSN, pkt.Syndrome, msn)
		}
		for j, other := range n.ranks { // whoever must have the result has it; in an AllReduce that is the rank itself
			if other.receives && other.expected <= k && (i == j || !r.receives) {
				return fmt.Errorf("rank %d is told that psn %v arrived, but rank %d has only %d", i, pkt.PSN, j, other.expected)
			}
		}
		r.acked = max(r.acked, k+1)
		return nil
	}
	if !r.receives || k < 0 || k >= n.total {
		return fmt.Errorf("rank %d got psn %v, which is not for it", i, pkt.PSN)
	}
	switch got, want := delivered(pkt), n.want(k); {
	case k > r.expected:
		n.answer(i, r.expected, spec.SyndromeNakSequence)
	case k < r.expected:
		n.answer(i, r.expected-1, spec.SyndromeAck)
	case n.rng.IntN(6) == 0:
		n.answer(i, k, spec.SyndromeRNR|1)
	case got != want:
		return fmt.Errorf("rank %d got %d as psn %v, want %d", i, got, pkt.PSN, want)
	default:
		r.expected++
		n.answer(i, k, spec.SyndromeAck)
	}
	return nil
}

// act does one thing of the adversary's choice.
func (n *net2) act() error {
	switch x := n.rng.IntN(16); {
	case x < 2: // a rank sends, or sends again
		i := n.rng.IntN(len(n.ranks))
		if r := &n.ranks[i]; r.sends && r.acked < n.total {
			from := len(n.wire)
			n.send(i, min(n.total-1, r.acked+n.rng.IntN(n.window)))
			if n.rng.IntN(2) == 0 { // and what comes of it goes far
				return n.settle(from, 8)
			}
		}
	case x < 5: // any packet ever sent arrives
		if len(n.wire) > 0 {
			return n.deliver(n.wire[n.rng.IntN(len(n.wire))])
		}
	case x < 10: // one of the newest does
		if len(n.wire) > 0 {
			return n.deliver(n.wire[len(n.wire)-1-n.rng.IntN(min(8, len(n.wire)))])
		}
	default:
		if e := n.rng.IntN(len(n.engines)); len(n.engines[e].Enabled()) > 0 {
			n.forward(e)
		}
	}
	return nil
}

// finish lets everybody be kind: what is sent arrives, once and in order, and what is not acknowledged is sent again.
func (n *net2) finish() error {
	for range 40 * n.total {
		done := true
		for i := range n.ranks {
			r := &n.ranks[i]
			done = done && (!r.sends || r.acked == n.total) && (!r.receives || r.expected == n.total)
			if !r.sends {
				continue
			}
			for k := r.acked; k < min(n.total, r.acked+n.window); k++ {
				from := len(n.wire)
				n.send(i, k)
				if err := n.settle(from, 0); err != nil {
					return err
				}
			}
		}
		if done {
			return nil
		}
	}
	return fmt.Errorf("does not end: %+v of %d", n.ranks, n.total)
}

// settle delivers what was sent from a place of the wire on, and all that comes of it, but loses one packet of
// `loss` (0: none).
func (n *net2) settle(from, loss int) error {
	for {
		for ; from < len(n.wire); from++ {
			if loss > 0 && n.rng.IntN(loss) == 0 {
				continue
			}
			if err := n.deliver(n.wire[from]); err != nil {
				return err
			}
		}
		for e := range n.engines {
			for len(n.engines[e].Enabled()) > 0 {
				n.forward(e)
			}
		}
		if from == len(n.wire) {
			return nil
		}
	}
}

func (n *net2) run() error {
	for range 3000 {
		if err := n.act(); err != nil {
			return err
		}
	}
	return n.finish()
}

func TestAdversary2(t *testing.T) {
	for name, build := range collectives2 {
		t.Run(name, func(t *testing.T) {
			seeds := []uint64{*seedFlag}
			if *seedFlag == 0 {
				seeds = nil
				for s := range uint64(60) {
					seeds = append(seeds, s+1)
				}
			}
			for _, seed := range seeds {
				require.NoError(t, newNet2(t, build, Variant{}, 24, seed).run(), "-seed %d", seed)
			}
		})
	}
}

// What is known to be wrong must fall to the same adversary, or it proves nothing.
func TestAdversary2FindsWhatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		collective string
		variant    Variant
	}{
		"a slot starts on any tag difference":     {"allreduce flat", Variant{Mistake: AnyTag}},
		"a slot starts on any tag, in a tree":     {"allreduce two-level", Variant{Mistake: AnyTag}},
		"the literal RecycleBuffer":               {"allreduce flat", Variant{Mistake: ClearAhead}},
		"an ACK only when the minimum moves":      {"broadcast flat", Variant{Mistake: MinAckOnAdvance}},
		"an ACK only when it moves, in a tree":    {"broadcast tree", Variant{Mistake: MinAckOnAdvance}},
		"the ACK as it came from the last to ask": {"broadcast flat", Variant{Mistake: MinAckArriving}},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(60) {
				if err := newNet2(t, collectives2[tc.collective], tc.variant, 24, seed).run(); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Fatal("it survived")
		})
	}
}
