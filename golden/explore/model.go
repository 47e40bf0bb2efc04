package explore

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/expect"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// mtu is U: the smallest, for the protocol does not look at payload.
const mtu = 256

// Config is what is checked. Start from Default.
type Config struct {
	Mode       int    // 1..3
	Collective string // as tree.ParseSteps takes it; ReduceScatter and AllGather, which are made of the others, not
	RootRank   int    // of a single Reduce or Broadcast
	Ranks      int
	Tree       string // one of group.TreeShapes
	Packets    int    // of each collective
	Message    int    // M, packets of a message
	Window     int    // MW; 0: half the slots, in mode 1 two messages
	Slots      int    // N
	PSNBits    int    // width of a PSN; the first is such that the wrap comes in the middle of the run
	Preset     string // how the hosts behave
	Unpinned   bool   // control signals open the collectives

	// Any, or how many frames are lost, come twice, and how many a frame may overtake. All are Any or none is.
	Loss, Dup, Reorder int
	// Lifetime is how many packets of its queue pair a frame may outlive, without bounds; 0: the run is so short that
	// no psn comes twice, or 2^PSNBits - 2N.
	Lifetime int
	// Retries is R of the engines; Any: no timeout is one too many (engine.Variant.Untiring).
	Retries int
	Fine    bool // every internal event of an engine is a step of its own
	// Waits lets anything happen while a sender waits after an RNR NAK. Otherwise its wait is over before anything else
	// comes: what it does not send in that time is as if it were on its way.
	Waits   bool
	Strict  bool // engine.Variant.Strict
	Mistake engine.Mistake
}

// Default is a Mode-III AllReduce of two ranks at one switch.
func Default() Config {
	return Config{
		Mode: 3, Collective: "allreduce", Ranks: 2, Tree: group.TreeSingle, Packets: 4, Message: 1, Slots: 2, PSNBits: 4,
		Preset: "linux-rxe", Loss: Any, Dup: Any, Reorder: Any, Retries: Any,
	}
}

// bounded says that the channels are queues.
func (c *Config) bounded() bool { return c.Loss != Any || c.Dup != Any || c.Reorder != Any }

// Check says what is wrong with a configuration, with the option's name; the rest is the generated group's to say.
func (c *Config) Check() error {
	bad := func(option, format string, args ...any) error {
		return &group.OptionError{Option: option, Reason: fmt.Sprintf(format, args...)}
	}
	for _, r := range []struct {
		option      string
		got, lo, hi int
	}{
		{"packets", c.Packets, 1, 1 << 12},
		{"message", c.Message, 1, c.Packets},
		{"psn-bits", c.PSNBits, engine.MinPSNBits, psn.Bits},
		{"loss", c.Loss, Any, 255}, {"dup", c.Dup, Any, 255}, {"reorder", c.Reorder, Any, queueMax - 1},
		{"retries", c.Retries, Any, 15},
		{"ranks", c.Ranks, tree.MinRanks, 8},
	} {
		if r.got < r.lo || r.got > r.hi {
			return bad(r.option, "got %d, want %d..%d", r.got, r.lo, r.hi)
		}
	}
	if c.bounded() && (c.Loss == Any || c.Dup == Any || c.Reorder == Any) {
		return bad("loss", "got loss %s, dup %s, reorder %s; want any of each, or a number of each",
			BoundText(c.Loss), BoundText(c.Dup), BoundText(c.Reorder))
	}
	if size := 1 << c.PSNBits; c.Lifetime < 0 || c.Lifetime > max(0, size-c.Slots-1) {
		return bad("lifetime", "got %d, want 0..%d: a frame must not outlive its psn by more than 2^psn-bits - N", c.Lifetime, size-c.Slots-1)
	}
	return nil
}

// BoundText is a number, or any.
func BoundText(n int) string {
	if n == Any {
		return "any"
	}
	return strconv.Itoa(n)
}

// ParseBound reads what BoundText writes.
func ParseBound(s string) (int, error) {
	if s == "any" {
		return Any, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("got %q, want any or a number of 0 or more", s)
	}
	return n, nil
}

// model is the automata of a configuration, and the state that they start in.
type model struct {
	Config
	unfolding
	space    psn.Space
	slots    int
	lifetime int // 0: frames do not age
	nodes    int
	words    int // of a state
	start    []uint64
	// alike says which nodes are ranks that are interchangeable; subgroups is how many queue pairs a link has.
	alike     []bool
	subgroups int
	inputs    [][]int // of each node: channels that end there
}

// newModel makes the golden group of a configuration, and takes it apart.
func newModel(c Config) (*model, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	space, err := psn.NewSpace(c.PSNBits)
	if err != nil {
		return nil, err
	}
	m := &model{Config: c, space: space, slots: c.Slots}
	m.Waits = c.Waits || c.bounded() // a link is quiet while its sender waits, and that is when the other's timeout may come
	o := group.DefaultOptions()
	o.Mode, o.Collective, o.RootRank, o.Ranks, o.Tree = c.Mode, c.Collective, c.RootRank, c.Ranks, c.Tree
	o.MTU, o.Slots, o.DType, o.Preset, o.Unpinned = mtu, c.Slots, spec.DTypeUint32, c.Preset, c.Unpinned
	o.MessagePackets, o.WindowPackets = c.Message, c.Window
	o.PSN0 = uint64(space.Add(0, -(c.Packets / 2)))
	set, err := group.GenerateSet(o)
	if err != nil {
		return nil, err
	}
	steps, err := o.Steps()
	if err != nil {
		return nil, err
	}
	total := c.Packets * len(steps)
	if m.lifetime = c.Lifetime; m.lifetime == 0 && total > space.Size()/2-c.Slots && !c.bounded() {
		m.lifetime = space.Size() - 2*c.Slots
	}
	if err := m.build(set, steps); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *model) build(set *group.Set, steps []tree.Step) error {
	g := set.Groups[0]
	for _, name := range set.Switches {
		e, err := m.engine(set, name)
		if err != nil {
			return err
		}
		m.add(name, &switchNode{e: e, name: name, fine: m.Fine, waits: m.Waits})
	}
	ranks, err := m.ranks(g, steps)
	if err != nil {
		return err
	}
	started := make([][]emission, len(m.automata))
	hosts := len(m.automata)
	for _, nic := range set.Hosts {
		n := ranks[nic.Ranks[0].Rank]
		sent, err := n.take(n.r.Start())
		if err != nil {
			return err
		}
		m.add(nic.Name, n)
		started = append(started, sent)
	}
	wires, err := set.Wires()
	if err != nil {
		return err
	}
	for _, w := range wires {
		peer := w.Peer.Index
		if w.Peer.IsRank() {
			peer += hosts
		}
		m.join(w.Switch, w.Port, peer, w.PeerPort)
	}
	m.nodes = len(m.automata)
	m.subgroups = len(g.SubgroupList())
	m.alike = make([]bool, m.nodes)
	for i := range set.Hosts {
		m.alike[hosts+i] = true
		for _, s := range steps {
			if s.Collective.HasRoot() && s.Root == set.Hosts[i].Ranks[0].Rank {
				m.alike[hosts+i] = false
			}
		}
	}
	m.words = (m.nodes+1)/2 + len(m.channels) + 1
	m.start = make([]uint64, m.words)
	m.inputs = make([][]int, m.nodes)
	for _, c := range m.channels {
		m.inputs[c.to] = append(m.inputs[c.to], c.index)
	}
	if m.bounded() {
		m.setBudget(m.start, m.Loss, m.Dup)
	}
	for i, out := range started {
		sends, err := m.send(m.automata[i], out, &frame{})
		if err != nil {
			return err
		}
		for _, s := range sends {
			if err := m.put(m.start, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// engine is that of a switch, programmed.
func (m *model) engine(set *group.Set, name string) (*engine.Engine, error) {
	cfg, err := set.EngineConfig(name)
	if err != nil {
		return nil, err
	}
	cfg.PSNBits = m.PSNBits
	cfg.Variant = engine.Variant{Untiring: m.Retries == Any, Strict: m.Strict, Mistake: m.Mistake}
	for p := range cfg.Pipes {
		if m.Retries != Any {
			cfg.Pipes[p].Retries = m.Retries
		}
	}
	e, err := engine.New(cfg)
	if err != nil {
		return nil, err
	}
	e.Program()
	return e, nil
}

// ranks are those of a group with their programs.
func (m *model) ranks(g *group.Group, steps []tree.Step) ([]*rankNode, error) {
	var input, want [][][]byte
	for k, s := range steps {
		if s.Collective > tree.Barrier {
			return nil, &group.OptionError{Option: "collective", Reason: fmt.Sprintf("got %v, want allreduce, barrier, reduce or broadcast, of which it is made", s)}
		}
		var in [][]byte
		out := make([][]byte, m.Ranks)
		if s.Collective != tree.Barrier {
			for r := range m.Ranks {
				in = append(in, vector(r, k*m.Packets, m.Packets))
			}
			var err error
			if out, err = expect.Results(s, spec.DTypeUint32, spec.OpSum, in); err != nil {
				return nil, err
			}
		}
		input, want = append(input, in), append(want, out)
	}
	unpinned, flags, err := g.Control()
	if err != nil {
		return nil, err
	}
	var all []*rankNode
	for r := range m.Ranks {
		cfg, err := g.RankConfig(r)
		if err != nil {
			return nil, err
		}
		for q := range cfg.QPs {
			cfg.QPs[q].PSNBits = m.PSNBits
		}
		p := host.Program{Rank: r, Ranks: m.Ranks, Steps: steps, Op: spec.OpSum, DType: spec.DTypeUint32, QP: g.SubgroupOf, Unpinned: unpinned, Flags: flags}
		n := &rankNode{waits: m.Waits}
		for k := range steps {
			var v []byte
			if input[k] != nil {
				v = input[k][r]
			}
			p.Input = append(p.Input, v)
		}
		ops, first, err := p.Plan()
		if err != nil {
			return nil, err
		}
		n.want = make([][]byte, len(ops))
		for k := range steps {
			n.want[first[k+1]-1] = want[k][r]
		}
		cfg.Ops = ops
		if n.r, err = host.NewRank(cfg); err != nil {
			return nil, err
		}
		n.name = cfg.Name
		all = append(all, n)
	}
	return all, nil
}

// vector is what rank r contributes: in the words of each packet only the rank's own is not 0, and tells the packet. A
// sum thereby shows which contributions are in it, and how often.
func vector(r, first, packets int) []byte {
	v := make([]byte, packets*mtu)
	for k := range packets {
		binary.LittleEndian.PutUint32(v[k*mtu+4*r:], uint32(0x10000+first+k))
	}
	return v
}

func (m *model) add(name string, n machine) {
	a := &automaton{name: name, out: map[int]int{}, byKey: map[string]uint32{}, moves: map[uint64]*transition{}}
	m.automata = append(m.automata, a)
	m.intern(a, n)
}

// join makes the two channels of a link.
func (m *model) join(a, aPort, b, bPort int) {
	at := len(m.channels)
	for i, c := range []*channel{{from: a, to: b, toPort: bPort}, {from: b, to: a, toPort: aPort}} {
		c.index, c.back = at+i, at+1-i
		c.byBytes = map[string]uint8{}
		c.name = m.automata[c.from].name + " -> " + m.automata[c.to].name
		m.channels = append(m.channels, c)
	}
	m.automata[a].out[aPort], m.automata[b].out[bPort] = at, at+1
}

// A state is the numbers of the nodes' states, two a word, the channels, and what faults are left.

func (m *model) node(s []uint64, i int) uint32 { return uint32(s[i/2] >> (32 * (i % 2))) }

func (m *model) setNode(s []uint64, i int, n uint32) {
	shift := 32 * (i % 2)
	s[i/2] = s[i/2]&^(0xffffffff<<shift) | uint64(n)<<shift
}

func (m *model) channelWord(s []uint64, c int) *uint64 { return &s[(m.nodes+1)/2+c] }

func (m *model) budget(s []uint64) (loss, dup int) {
	w := s[m.words-1]
	return int(w & 0xff), int(w >> 8 & 0xff)
}

func (m *model) setBudget(s []uint64, loss, dup int) { s[m.words-1] = uint64(loss) | uint64(dup)<<8 }

// put sends a frame.
func (m *model) put(s []uint64, x sent) error {
	w, c := m.channelWord(s, int(x.channel)), m.channels[x.channel]
	if !m.bounded() {
		*w = m.insert(c, *w, x.frame)
		return nil
	}
	if queueFull(*w) {
		return fmt.Errorf("channel %s: more than %d frames are on their way, want fewer: take a smaller window", c.name, queueMax)
	}
	*w = queueAdd(*w, x.frame)
	return nil
}

// done says that every rank has what it wants.
func (m *model) done(s []uint64) bool {
	for i := range m.nodes {
		if !m.local(i, m.node(s, i)).done {
			return false
		}
	}
	return true
}

// quiet says that nothing is on its way on the link of a port.
func (m *model) quiet(s []uint64, node, port int) bool {
	out, ok := m.automata[node].out[port]
	return !ok || *m.channelWord(s, out) == 0 && *m.channelWord(s, m.channels[out].back) == 0
}
