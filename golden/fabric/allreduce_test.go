package fabric

import (
	"encoding/binary"
	"flag"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

var seedFlag = flag.Uint64("seed", 0, "replay one random AllReduce")

// plan is a random AllReduce: everything follows from the seed.
type plan struct {
	seed      uint64
	ranks     int
	twoLevel  bool
	elements  int
	mtu       int
	slots     int
	message   int // M
	window    int // MW
	psn0      psn.PSN
	ackEvery  int
	variant   engine.Variant
	link      Link
	skew      uint64
	preset    func(rank int) host.Settings
	presets   string
	hostRetry int
}

func newPlan(seed uint64) plan {
	rng := rand.New(rand.NewPCG(seed, 0))
	p := plan{
		seed: seed, ranks: 2 + rng.IntN(15), twoLevel: rng.IntN(2) == 0, elements: 1 + rng.IntN(6000),
		mtu: 256 << rng.IntN(3), slots: 4 << rng.IntN(6), message: 1 + rng.IntN(8),
		psn0:      psn.PSN(0xffffff - rng.IntN(40)),
		skew:      uint64(rng.IntN(20000)),
		link:      Link{Delay: uint64(1 + rng.IntN(200)), Loss: 0.05 * rng.Float64(), Dup: 0.05 * rng.Float64(), Reorder: 0.05 * rng.Float64()},
		hostRetry: 7,
	}
	p.window = p.message * (1 + rng.IntN(16)) // now and then more than there are slots
	p.ackEvery = 1 + rng.IntN(max(1, p.slots/4))
	p.variant.Strict = rng.IntN(4) == 0
	p.variant.SparseAckReq = rng.IntN(4) == 0
	if rng.IntN(2) == 0 {
		p.link.Rate = Rate{Bytes: 8, Clocks: uint64(1 + rng.IntN(4))}
	}
	switch rng.IntN(3) {
	case 0:
		p.preset, p.presets = func(int) host.Settings { return host.LinuxRXE() }, "linux-rxe"
	case 1:
		p.preset, p.presets = func(int) host.Settings { return host.StrictNIC() }, "strict-nic"
	default:
		p.presets = "mixed"
		p.preset = func(r int) host.Settings {
			if r%2 == 0 {
				return host.LinuxRXE()
			}
			return host.StrictNIC()
		}
	}
	return p
}

func (p plan) String() string {
	return fmt.Sprintf("-seed %d: %d ranks, two-level %v, %d elements, MTU %d, N %d, M %d, MW %d, psn0 %v, A %d, %+v, link %+v, skew %d, %s",
		p.seed, p.ranks, p.twoLevel, p.elements, p.mtu, p.slots, p.message, p.window, p.psn0, p.ackEvery, p.variant, p.link, p.skew, p.presets)
}

// world is a plan built.
type world struct {
	plan
	f        *Fabric
	switches []*Switch
	hosts    []*Host
	sum      []byte // by plain int arithmetic
	causes   map[spec.Cause]int
	verdicts map[spec.Verdict]int
}

// end is one end of an edge: switch s, or rank s if rank is set.
type end struct {
	rank bool
	s    int
}

func (w *world) engineOf(s int) *engine.Config {
	return &engine.Config{Name: fmt.Sprintf("s%d", s), Variant: w.variant}
}

// addresses of an edge's two ends; a rank's are told from the rank, a switch's from switch and port.
func address(e end, port int) (roce.MAC, netip.Addr, uint32) {
	if e.rank {
		return roce.MAC{2, 1, 0, 0, 0, byte(e.s)}, netip.AddrFrom4([4]byte{10, 1, 0, byte(e.s + 1)}), 0x1000 + uint32(e.s)
	}
	return roce.MAC{2, 2, 0, 0, byte(e.s), byte(port)}, netip.AddrFrom4([4]byte{10, 2, byte(e.s), 1}), uint32(0x101 + port)
}

// build makes the tree: switch 0 is the root, its children are ranks, or switches with ranks.
func build(t *testing.T, p plan) *world {
	w := &world{plan: p, f: New(p.seed), causes: map[spec.Cause]int{}, verdicts: map[spec.Verdict]int{}}
	children := [][]end{{}}
	if !p.twoLevel {
		for r := range p.ranks {
			children[0] = append(children[0], end{true, r})
		}
	} else {
		leaf := int(math.Ceil(math.Sqrt(float64(p.ranks))))
		for r := range p.ranks {
			if r%leaf == 0 {
				children = append(children, nil)
				children[0] = append(children[0], end{false, len(children) - 1})
			}
			s := len(children) - 1
			children[s] = append(children[s], end{true, r})
		}
	}

	// The tensors, and their sum in int64, cut to 32 bits only at the end.
	rng := rand.New(rand.NewPCG(p.seed, 2))
	tensors := make([][]byte, p.ranks)
	sums := make([]int64, p.elements)
	for r := range tensors {
		for i := range p.elements {
			x := int32(rng.Uint32())
			sums[i] += int64(x)
			tensors[r] = binary.LittleEndian.AppendUint32(tensors[r], uint32(x))
		}
	}
	for _, s := range sums {
		w.sum = binary.LittleEndian.AppendUint32(w.sum, uint32(s))
	}

	scale := Scale{Clocks: 100, Per: spec.TickNs * time.Nanosecond}
	ids := make([]ID, len(children))
	for s, below := range children {
		cfg := w.engineOf(s)
		pipe := engine.Pipe{Mode: 3, N: p.slots, MTU: p.mtu, PSN0: p.psn0, AckEvery: p.ackEvery, RNRCode: 1, Retries: 15, BackoffMax: 3, Timeout: 200}
		add := func(port int, peer end, peerPort, in, out int) {
			mac, ip, qpn := address(end{false, s}, port)
			pmac, pip, pqpn := address(peer, peerPort)
			cfg.Endpoints = append(cfg.Endpoints, engine.Endpoint{
				Port: port, MAC: mac, PeerMAC: pmac, IP: ip, PeerIP: pip, QPN: qpn, PeerQPN: pqpn, PKey: 0xffff,
				UDPSport: 49152, TTL: 64, PSN0: p.psn0, InPipe: in, OutPipe: out, InIndex: port % len(below),
			})
		}
		var kids []int
		for port, child := range below {
			kids = append(kids, port)
			if s == 0 {
				add(port, child, len(childrenOf(children, child)), 0, 0)
			} else {
				add(port, child, 0, 0, 1)
			}
		}
		up := pipe
		up.Ins, up.Outs = kids, kids
		if s > 0 { // the parent's port is the one after the children's
			add(len(below), end{false, 0}, s-1, 1, 0)
			up.Outs = []int{len(below)}
			down := pipe
			down.Ins, down.Outs = []int{len(below)}, kids
			cfg.Pipes = []engine.Pipe{up, down}
		} else {
			cfg.Pipes = []engine.Pipe{up}
		}
		e, err := engine.New(*cfg)
		require.NoError(t, err, p)
		e.Program()
		node, err := NewSwitch(e, scale)
		require.NoError(t, err)
		node.Retired = func(_ uint64, r *spec.Record) {
			w.causes[r.Cause]++
			w.verdicts[r.Verdict]++
		}
		w.switches = append(w.switches, node)
		ids[s] = w.f.Add(cfg.Name, node)
	}
	for s, below := range children {
		for port, child := range below {
			if !child.rank {
				require.NoError(t, w.f.Connect(ids[s], port, ids[child.s], len(children[child.s]), p.link, p.link))
				continue
			}
			mac, ip, qpn := address(child, 0)
			pmac, pip, pqpn := address(end{false, s}, port)
			rank, err := host.NewRank(host.RankConfig{
				QPs: []host.Config{{Name: fmt.Sprintf("rank %d", child.s), MAC: mac, PeerMAC: pmac, IP: ip, PeerIP: pip, QPN: qpn, PeerQPN: pqpn,
					PKey: 0xffff, UDPSport: 50000, TTL: 64, SendPSN: p.psn0, RecvPSN: p.psn0, MTU: p.mtu, Timeout: 10,
					RetryCnt: p.hostRetry, RNRRetry: 7, MinRNRTimer: 1, Settings: p.preset(child.s)}},
				Ops: []host.Op{{Send: tensors[child.s], Recv: len(w.sum)}}, MessagePackets: p.message, WindowPackets: p.window,
			})
			require.NoError(t, err)
			h, err := NewHost(scale, rng.Uint64N(p.skew+1), rank)
			require.NoError(t, err)
			w.hosts = append(w.hosts, h)
			require.NoError(t, w.f.Connect(ids[s], port, w.f.Add(rank.String(), h), 0, p.link, p.link))
		}
	}
	return w
}

func childrenOf(children [][]end, e end) []end {
	if e.rank {
		return nil
	}
	return children[e.s]
}

// run lets it happen, checks it, and returns a digest of every frame.
func (w *world) run(t *testing.T) uint64 {
	digest := fnv.New64a()
	var wire uint64
	w.f.SetTap(func(p Passage) {
		var b [32]byte
		binary.LittleEndian.PutUint64(b[:], p.Sent)
		binary.LittleEndian.PutUint64(b[8:], p.Arrives)
		binary.LittleEndian.PutUint64(b[16:], uint64(p.From)<<32|uint64(p.FromPort)<<16|uint64(p.Fate))
		digest.Write(b[:])
		digest.Write(p.Frame)
		wire++
	})
	done := func() bool {
		for _, h := range w.hosts {
			require.LessOrEqual(t, h.Ranks[0].Outstanding(0), w.window, "%v: %v posts more than MW", w.plan, h.Ranks[0])
			if !h.Ranks[0].Done() {
				return true
			}
		}
		return false
	}
	const limit = 1 << 40
	require.True(t, w.f.RunWhile(done, limit), "%v: nothing happens any more at %d", w.plan, w.f.Now())
	for _, h := range w.hosts {
		require.NoError(t, h.Ranks[0].Err(), w.plan)
		require.Equal(t, w.sum, h.Ranks[0].Result(0), "%v: %v has another sum", w.plan, h.Ranks[0])
	}
	// The last ACKs may be lost: the switches go on until they have them. Then all is drained.
	w.f.Run(limit)
	for _, s := range w.switches {
		cfg := s.Engine.Config()
		for p := range cfg.Pipes {
			require.Equal(t, spec.ErrorKindNone, s.Engine.Fault(p).Kind, "%v: %s", w.plan, cfg.Name)
			require.True(t, s.Engine.Drained(p), "%v: %s pipe %d is not drained", w.plan, cfg.Name, p)
		}
		require.Empty(t, s.Engine.Enabled(), w.plan)
	}
	require.Positive(t, wire)
	return digest.Sum64()
}

func TestAllReduce(t *testing.T) {
	causes, verdicts := map[spec.Cause]int{}, map[spec.Verdict]int{}
	seeds := []uint64{*seedFlag}
	if *seedFlag == 0 {
		seeds = nil
		first := uint64(time.Now().UnixNano())
		for s := range uint64(20) {
			seeds = append(seeds, s+1, first+s)
		}
	}
	for _, seed := range seeds {
		p := newPlan(seed)
		if *seedFlag != 0 {
			t.Log(p)
		}
		w := build(t, p)
		w.run(t)
		for c, n := range w.causes {
			causes[c] += n
		}
		for v, n := range w.verdicts {
			verdicts[v] += n
		}
	}
	if *seedFlag != 0 {
		return
	}
	t.Logf("%v\n%v", causes, verdicts)
	for _, c := range []spec.Cause{spec.CauseData, spec.CauseAck, spec.CauseNak, spec.CauseAdvance, spec.CauseRelease, spec.CauseRecycle,
		spec.CauseSend, spec.CauseResend, spec.CauseAckOut, spec.CauseTimer, spec.CauseRNRExpiry} {
		require.Positive(t, causes[c], "no run had a %v", c)
	}
	for _, v := range []spec.Verdict{spec.VerdictBehind, spec.VerdictBeyond, spec.VerdictDuplicate, spec.VerdictAckStale} {
		require.Positive(t, verdicts[v], "no run had a frame %v", v)
	}
}

func TestAllReduceReplaysToTheByte(t *testing.T) {
	digest := build(t, newPlan(11)).run(t)
	require.Equal(t, digest, build(t, newPlan(11)).run(t))
	require.NotEqual(t, digest, build(t, newPlan(12)).run(t))
}

// A wire that is dead fails the rank with a name, and nothing hangs.
func TestDeadWire(t *testing.T) {
	p := newPlan(3)
	p.link.Loss, p.hostRetry = 1, 3
	w := build(t, p)
	w.f.Run(1 << 40)
	_, more := w.f.Next()
	require.False(t, more, "everything has given up")
	for _, h := range w.hosts {
		require.ErrorContains(t, h.Ranks[0].Err(), "completed with status 12")
		require.True(t, h.Ranks[0].Done())
	}
}
