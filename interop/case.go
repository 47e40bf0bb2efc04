package interop

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	"github.com/epic-inc/epic/golden/cover"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// The engines that a case can run through.
const (
	Golden = "golden" // the golden engine
	RTL    = "rtl"    // the Verilated engine, each event of which golden checks
)

// The kinds of numbers that a case adds.
const (
	Int32        = "int32"
	Float32      = "float32"      // in the order of arrival
	Reproducible = "float32-repr" // in the order of endpoints
)

// The wires.
const (
	Quiet = "quiet"
	Lossy = "loss"
	Wild  = "wild" // loss, duplicates and reordering at once
)

// Case is one run: collectives of some ranks at one switch.
type Case struct {
	Engine     string `json:"engine"`
	Mode       int    `json:"mode"`
	Collective string `json:"collective"` // one of tree.Collectives
	Numbers    string `json:"numbers"`
	Guests     int    `json:"guests"` // ranks 0.. of them
	Hosts      int    `json:"hosts"`  // golden ranks after them
	MTU        int    `json:"mtu"`
	IP         int    `json:"ip"` // 4 or 6
	Wire       string `json:"wire"`
	Unpinned   bool   `json:"unpinned"`
	Packets    int    `json:"packets"` // of a rank's vector, the last one not full

	small bool // a vector of latencyBytes, over links of latencyDelay
	dead  bool // of a test: the wire loses every frame
}

// Key names the case.
func (c Case) Key() string {
	signal := "pinned"
	if c.Unpinned {
		signal = "unpinned"
	}
	key := fmt.Sprintf("%s mode%d %s %s %s mtu %d IPv%d %s %s", c.Engine, c.Mode, c.Collective, c.Numbers, c.members(), c.MTU, c.IP, c.Wire, signal)
	if c.Packets != VectorPackets {
		key += fmt.Sprintf(" %d packets", c.Packets)
	}
	return key
}

func (c Case) members() string { return Members{c.Guests, c.Hosts}.String() }

// Members of a group: guests with Linux's RoCE stack, and golden hosts.
type Members struct{ Guests, Hosts int }

// String is as 2, or 3+1.
func (m Members) String() string {
	if m.Hosts == 0 {
		return fmt.Sprint(m.Guests)
	}
	return fmt.Sprintf("%d+%d", m.Guests, m.Hosts)
}

// ParseMembers reads what String writes.
func ParseMembers(s string) (Members, error) {
	for _, m := range AllAxes().Members {
		if m.String() == s {
			return m, nil
		}
	}
	return Members{}, fmt.Errorf("members: got %q, want guests, or guests+hosts, one of %v", s, AllAxes().Members)
}

// Axes are the levels of each factor of a case; empty: all that there are.
type Axes struct {
	Engines     []string
	Modes       []int
	Collectives []string
	Numbers     []string
	Members     []Members
	MTUs        []int
	IPs         []int
	Wires       []string
	Unpinned    []bool
}

// AllAxes are all levels that there are.
func AllAxes() Axes { return Axes{}.fill() }

func (a Axes) fill() Axes {
	fill(&a.Engines, Golden, RTL)
	fill(&a.Modes, 1, 2, 3)
	fill(&a.Collectives, tree.Collectives()...)
	fill(&a.Numbers, Int32, Float32, Reproducible)
	fill(&a.Members, Members{2, 0}, Members{3, 1}, Members{4, 0})
	fill(&a.MTUs, 1024, 4096)
	fill(&a.IPs, 4, 6)
	fill(&a.Wires, Quiet, Lossy, Wild)
	fill(&a.Unpinned, false, true)
	return a
}

func fill[T any](to *[]T, all ...T) {
	if len(*to) == 0 {
		*to = all
	}
}

// The factors of a case, in the order of Axes' space.
const (
	axisEngine = iota
	axisMode
	axisCollective
	axisNumbers
	axisMembers
	axisMTU
	axisIP
	axisWire
	axisUnpinned
)

// space of the axes. What adds nothing is taken with the first kind of numbers alone. No Verilog engine has
// Mode-I, which is in the order of endpoints by itself and has no window to open.
func (a Axes) space() *cover.Space {
	adds := func(collective string) bool {
		return slices.Contains([]string{tree.AllReduce.String(), tree.Reduce.String(), tree.ReduceScatter.String()}, collective)
	}
	return &cover.Space{
		Factors: []cover.Factor{
			axisEngine: {Name: "engine", Levels: len(a.Engines)}, axisMode: {Name: "mode", Levels: len(a.Modes)},
			axisCollective: {Name: "collective", Levels: len(a.Collectives)}, axisNumbers: {Name: "numbers", Levels: len(a.Numbers)},
			axisMembers: {Name: "members", Levels: len(a.Members)}, axisMTU: {Name: "mtu", Levels: len(a.MTUs)},
			axisIP: {Name: "ip", Levels: len(a.IPs)}, axisWire: {Name: "wire", Levels: len(a.Wires)}, axisUnpinned: {Name: "unpinned", Levels: len(a.Unpinned)},
		},
		Never: func(p cover.Pair) bool {
			switch {
			case p.A == axisEngine && p.B == axisMode:
				return a.Engines[p.LevelA] == RTL && a.Modes[p.LevelB] == 1
			case p.A == axisMode && p.B == axisNumbers:
				return a.Modes[p.LevelA] == 1 && a.Numbers[p.LevelB] == Float32
			case p.A == axisMode && p.B == axisUnpinned:
				return a.Modes[p.LevelA] == 1 && a.Unpinned[p.LevelB]
			case p.A == axisCollective && p.B == axisNumbers:
				return !adds(a.Collectives[p.LevelA]) && p.LevelB != 0
			}
			return false
		},
	}
}

// always are the cases that stand in every slice, whatever the pairs happen to be: two guests, each mode of the RTL, AllReduce
// with loss.
func always() []Case {
	var list []Case
	for _, mode := range []int{2, 3} {
		list = append(list, Case{Engine: RTL, Mode: mode, Collective: tree.AllReduce.String(), Numbers: Int32, Guests: 2, MTU: 1024, IP: 4, Wire: Lossy,
			Packets: VectorPackets})
	}
	return list
}

// has says whether a case is a point of the axes.
func (a Axes) has(c Case) bool {
	return slices.Contains(a.Engines, c.Engine) && slices.Contains(a.Modes, c.Mode) && slices.Contains(a.Collectives, c.Collective) &&
		slices.Contains(a.Numbers, c.Numbers) && slices.Contains(a.Members, Members{c.Guests, c.Hosts}) && slices.Contains(a.MTUs, c.MTU) &&
		slices.Contains(a.IPs, c.IP) && slices.Contains(a.Wires, c.Wire) && slices.Contains(a.Unpinned, c.Unpinned)
}

// Cases are all points of the axes, or a pairwise slice of them with those that always stand in it.
func (a Axes) Cases(pairwise bool) []Case {
	a = a.fill()
	s := a.space()
	rows := s.Whole
	var list []Case
	if pairwise {
		rows = s.Pairwise
		for _, c := range always() {
			if a.has(c) {
				list = append(list, c)
			}
		}
	}
	for _, r := range rows() {
		m := a.Members[r[axisMembers]]
		c := Case{Engine: a.Engines[r[axisEngine]], Mode: a.Modes[r[axisMode]], Collective: a.Collectives[r[axisCollective]],
			Numbers: a.Numbers[r[axisNumbers]], Guests: m.Guests, Hosts: m.Hosts, MTU: a.MTUs[r[axisMTU]], IP: a.IPs[r[axisIP]],
			Wire: a.Wires[r[axisWire]], Unpinned: a.Unpinned[r[axisUnpinned]], Packets: VectorPackets}
		if !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	return list
}

// Time. The clocks of a case are of real time, not of hardware's: a network of golden engines has one each
// microsecond; of an RTL engine so few that a simulator which is held to golden, beside the guests, keeps up. A
// tick of its timers is one clock. If it does not keep up, its time stands still meanwhile, so that no timer of an
// engine runs out early for a guest; those of the guests do, which costs packets that are sent again.
const (
	goldenMHz, rtlMHz          = 1, 0.05
	goldenTick, rtlTick        = 10, 1    // clocks
	goldenGbps, rtlGbps        = 1, 0.025 // the RTL: a beat of 64 bytes a clock
	delayNs                    = 800_000  // of a link
	timeoutTicks               = 10_000   // a guest without hardware's help answers within 10 ms, but not always
	hostTimeout                = 16       // 268 ms, for the same reason
	guestGiveUp                = 90       // seconds until a rank says what it lacks
	barriers                   = 16
	vectorPackets              = 60
	casePSN0            uint64 = 0xfffff0 // so that the PSNs wrap
)

// VectorPackets is how many packets a vector has if nothing else is asked for: more than a pipe has slots, and the PSNs wrap.
const VectorPackets = 60

// steps of the collective: the roots are rank 1, which is a guest.
func (c Case) steps() ([]tree.Step, error) {
	list := c.Collective
	switch c.Collective {
	case tree.Reduce.String(), tree.Broadcast.String():
		list += ":1"
	case tree.Barrier.String():
		list = strings.Repeat(","+list, barriers)[1:]
	}
	return tree.ParseSteps(list)
}

// ranks of the case.
func (c Case) ranks() int { return c.Guests + c.Hosts }

// seed of the case under a seed of the whole, the same in every slice.
func (c Case) seed(of uint64) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", of, c.Key())
	return h.Sum64() >> 32
}

// bytes of a rank's vector.
func (c Case) bytes() int {
	if c.small {
		return latencyBytes
	}
	return c.Packets*c.MTU - 12
}

// group of the case; the queue pairs' numbers are still made up.
func (c Case) group() (*group.Group, error) {
	o := group.DefaultOptions()
	o.Ranks, o.Mode, o.MTU, o.Unpinned, o.PSN0 = c.ranks(), c.Mode, c.MTU, c.Unpinned, casePSN0
	o.Reproducible = c.Numbers == Reproducible && c.Mode != 1
	if o.DType = spec.DTypeFloat32; c.Numbers == Int32 {
		o.DType = spec.DTypeInt32
	}
	// Four subgroups with three copies of each slot fit a pool of 1 MiB.
	o.Slots, o.MessagePackets = 32, 4
	if c.MTU > 1024 {
		o.Slots, o.MessagePackets = 16, 4 // two messages at a time
	}
	if c.Mode != 1 { // whose switch takes two messages of a rank, and no more
		o.WindowPackets = o.Slots / 2
	}
	o.TimeoutTicks, o.HostTimeout = timeoutTicks, hostTimeout
	o.ClockMHz, o.ClocksPerTick, o.Gbps, o.DelayNs = goldenMHz, goldenTick, goldenGbps, delayNs
	if c.Engine == RTL {
		o.ClockMHz, o.ClocksPerTick, o.Gbps = rtlMHz, rtlTick, rtlGbps
		o.HostTimeout = hostTimeout + 1
	}
	if c.small {
		o.DelayNs = float64(latencyDelay)
	}
	switch c.Wire {
	case Lossy:
		o.Loss = 0.03
	case Wild:
		o.Loss, o.Dup, o.Reorder = 0.02, 0.03, 0.05
	}
	if c.dead {
		o.Loss = 1
	}
	steps, err := c.steps()
	if err != nil {
		return nil, err
	}
	var words []string
	for _, s := range steps {
		words = append(words, s.String())
	}
	o.Collective = strings.Join(words, ",")
	g, err := group.Generate(o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Key(), err)
	}
	if c.IP == 6 {
		addressIPv6(g)
	}
	return g, nil
}

// addressIPv6 gives switch and ranks IPv6 addresses in place of those that they have.
func addressIPv6(g *group.Group) {
	v6 := func(a group.IP) group.IP {
		b := a.As4() // 10.9.0.1 becomes fd00::9:1
		return group.IP{Addr: netip.AddrFrom16([16]byte{0: 0xfd, 13: b[1], 14: b[2], 15: b[3]})}
	}
	for r := range g.Ranks {
		g.Ranks[r].IP = v6(g.Ranks[r].IP)
	}
	for s := range g.Switches {
		for e := range g.Switches[s].Endpoints {
			ep := &g.Switches[s].Endpoints[e]
			ep.IP, ep.PeerIP = v6(ep.IP), v6(ep.PeerIP)
		}
	}
}

// networks are those of the guests: ranks and switches are in one, so that no router is needed.
var networks = map[int]int{4: 13, 6: 64} // bits of the prefix, by family

// reached gives each rank the queue pairs that it has: qpns of the guests, by rank and subgroup.
func reached(g *group.Group, qpns map[int][]uint32) (*group.Group, error) {
	for r, list := range qpns {
		for sub, qpn := range list {
			s, e, err := g.RankPeer(r, sub)
			if err != nil {
				return nil, err
			}
			g.Switches[s].Endpoints[e].PeerQPN = qpn
			if len(g.Subgroups) == 0 {
				g.Ranks[r].QPN = qpn
			} else {
				g.Subgroups[sub].QPNs[r] = qpn
			}
		}
	}
	text, err := g.Marshal()
	if err != nil {
		return nil, err
	}
	return group.Parse("group of the case", text)
}
