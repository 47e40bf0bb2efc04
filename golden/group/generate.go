package group

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/goccy/go-yaml"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// The tree shapes of Options.
const (
	TreeSingle     = "single"
	TreeTwoLevel   = "two-level"
	TreeThreeLevel = "three-level"
)

// TreeShapes lists them.
func TreeShapes() []string { return []string{TreeSingle, TreeTwoLevel, TreeThreeLevel} }

// Options is a shape from which Generate makes a file. Start from DefaultOptions: a zero is a value,
// not a default. The option of each field, as command lines spell it, is in the comment.
type Options struct {
	Ranks          int        // ranks, at least 2; at most 64 ports at a switch
	Tree           string     // tree: one of TreeShapes
	Collective     string     // collective: one of Collectives, or a list as tree.ParseSteps takes it
	RootRank       int        // root-rank: of a reduce or broadcast that is not in a list
	Mode           int        // mode: 1..3
	MTU            int        // mtu: 256..4096
	PSN0           uint64     // psn0: 24 bits
	Slots          int        // slots: N, a power of two; in mode 1 a pipe has what a message needs of them
	Op             spec.Op    // op
	DType          spec.DType // dtype
	Unpinned       bool       // unpinned: control signals open the collectives
	Reproducible   bool       // reproducible: reduce in the order of endpoints
	Loss           float64    // loss: of every link, 0..1
	Dup            float64    // dup
	Reorder        float64    // reorder
	DelayNs        float64    // link-delay, in ns
	Gbps           float64    // link-gbps
	ClockMHz       float64    // clock-mhz
	ClocksPerTick  int        // clocks-per-tick: the time scale
	TimeoutTicks   int        // timeout, in ticks
	AckEvery       int        // ack-every
	RNRCode        int        // rnr-code
	MessagePackets int        // message-packets
	WindowPackets  int        // window; 0: half the slots, in mode 1 two messages
	HostTimeout    int        // host-timeout, the code of the ranks' ACK timeout
	Preset         string     // preset
}

// DefaultOptions are four ranks at one switch, everything else as group.schema.json's defaults.
func DefaultOptions() Options {
	return Options{
		Ranks: 4, Tree: TreeSingle, Collective: "allreduce", Mode: 3, MTU: 1024, Slots: 128, DelayNs: 1000, Gbps: 100,
		ClockMHz: 250, ClocksPerTick: 2500, TimeoutTicks: 1678, AckEvery: 1, RNRCode: 1, MessagePackets: 16, HostTimeout: 12, Preset: "linux-rxe",
	}
}

// OptionError names the option that is wrong.
type OptionError struct {
	Option string // as a command line spells it, without dashes
	Reason string // what was got and what is allowed
}

// Error is OPTION: REASON.
func (e *OptionError) Error() string { return e.Option + ": " + e.Reason }

func badOption(option, format string, args ...any) error {
	return &OptionError{option, fmt.Sprintf(format, args...)}
}

// Check says which option is wrong, the first if there are several; an *OptionError.
func (o Options) Check() error {
	for _, r := range []struct {
		option      string
		got, lo, hi float64
	}{
		{"ranks", float64(o.Ranks), tree.MinRanks, tree.MaxRanks},
		{"mode", float64(o.Mode), 1, 3},
		{"loss", o.Loss, 0, 1}, {"dup", o.Dup, 0, 1}, {"reorder", o.Reorder, 0, 1},
		{"link-delay", o.DelayNs, 0, 1e9},
		{"link-gbps", o.Gbps, 1e-6, 100000},
		{"clock-mhz", o.ClockMHz, 1e-6, 10000},
		{"clocks-per-tick", float64(o.ClocksPerTick), 1, engine.MaxClocksPerTick},
		{"timeout", float64(o.TimeoutTicks), 1, engine.MaxTimeoutTicks},
		{"rnr-code", float64(o.RNRCode), 0, 31},
		{"message-packets", float64(o.MessagePackets), 1, host.MaxMessagePackets},
		{"window", float64(o.WindowPackets), 0, psn.MaxWindow},
		{"host-timeout", float64(o.HostTimeout), 0, 31},
	} {
		if !(r.got >= r.lo && r.got <= r.hi) { // a NaN is in no range
			return badOption(r.option, "got %s, want %s..%s", plain(r.got), plain(r.lo), plain(r.hi))
		}
	}
	if !slices.Contains(TreeShapes(), o.Tree) {
		return badOption("tree", "got %q, want one of %s", o.Tree, strings.Join(TreeShapes(), ", "))
	}
	if o.RootRank < 0 || o.RootRank >= o.Ranks {
		return badOption("root-rank", "got %d, want 0..%d", o.RootRank, o.Ranks-1)
	}
	if kind, err := tree.ParseCollective(o.Collective); o.RootRank != 0 && (err != nil || !kind.HasRoot()) {
		return badOption("root-rank", "got %d with %s, want none: only reduce and broadcast have a root rank", o.RootRank, o.Collective)
	}
	if _, err := o.Steps(); err != nil {
		return err
	}
	if o.Tree == TreeThreeLevel && o.Ranks < 3 {
		return badOption("ranks", "got %d, want at least 3, one at each of the three switches", o.Ranks)
	}
	if !roce.ValidMTU(o.MTU) {
		return badOption("mtu", "got %d, want %s", o.MTU, roce.WantMTU())
	}
	if o.PSN0 > psn.Mask {
		return badOption("psn0", "got %#x, want at most 24 bits, 0..0xffffff", o.PSN0)
	}
	if bits.OnesCount(uint(max(o.Slots, 0))) != 1 || o.Slots < engine.MinSlots || o.Slots > engine.MaxSlots {
		return badOption("slots", "got %d, want a power of two, 2..%d", o.Slots, engine.MaxSlots)
	}
	if o.Mode == 1 && o.WindowPackets > 0 && o.MessagePackets > o.Slots {
		return badOption("message-packets", "got %d, want at most the %d slots in mode 1, in which a buffer takes a whole message", o.MessagePackets, o.Slots)
	}
	if a := max(1, o.slots()/4); o.AckEvery < 1 || o.AckEvery > a {
		return badOption("ack-every", "got %d, want 1..%d, a quarter of the slots", o.AckEvery, a)
	}
	if _, err := host.Preset(o.Preset); err != nil {
		return badOption("preset", "got %q, want one of %s", o.Preset, strings.Join(host.Presets(), ", "))
	}
	if o.WindowPackets != 0 && o.WindowPackets < o.MessagePackets {
		return badOption("window", "got %d, want at least message-packets, %d", o.WindowPackets, o.MessagePackets)
	}
	return nil
}

// slots are those of each pipe.
func (o Options) slots() int {
	if o.Mode == 1 {
		return min(o.Slots, max(engine.MinSlots, nextPowerOfTwo(o.MessagePackets)))
	}
	return o.Slots
}

// Steps are the collectives of the list; of a single name, with RootRank.
func (o Options) Steps() ([]tree.Step, error) {
	steps, err := tree.ParseSteps(o.Collective)
	if err != nil {
		return nil, badOption("collective", "%v", err)
	}
	if o.plain() {
		steps[0].Root = o.RootRank
	}
	for _, s := range steps {
		if s.Root >= o.Ranks {
			return nil, badOption("collective", "got root rank %d in %v, want 0..%d", s.Root, s, o.Ranks-1)
		}
	}
	return steps, nil
}

// plain says whether the collective is one that needs no subgroups in the file.
func (o Options) plain() bool {
	kind, err := tree.ParseCollective(o.Collective)
	return err == nil && kind <= tree.Barrier
}

func plain(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// Generate makes a group of the given shape: rank k has MAC 52:54:00:00:00:00 + k+1, IP 10.9.0.0 + k+1
// and QPN 17; switch s MAC 52:54:00:01:00:00 + s+1 and IP 10.10.0.0 + s+1, its endpoint i port i and
// QPN 0x101+i. With several subgroups the ranks' next QPNs follow, and a switch has endpoints for all its
// neighbours in the first, then in the second, and so on. A bad option is an *OptionError.
func Generate(o Options) (*Group, error) {
	set, err := GenerateSet(o)
	if err != nil {
		return nil, err
	}
	return set.Groups[0], nil
}

// GenerateSet makes groups that share switches, ports and hosts: the QPNs, endpoints, pipes and blocks of
// each follow those of the one before. The options must have one tree and one number of ranks.
func GenerateSet(options ...Options) (*Set, error) {
	if len(options) == 0 {
		return nil, badOption("groups", "got none, want at least one")
	}
	var t *tree.Tree
	var groups []*Group
	p := &placing{rankQPN: rankQPN}
	for _, o := range options {
		if err := o.Check(); err != nil {
			return nil, err
		}
		if o.Tree != options[0].Tree || o.Ranks != options[0].Ranks {
			return nil, badOption("tree", "got %s of %d ranks beside %s of %d, want the same for all groups", o.Tree, o.Ranks, options[0].Tree, options[0].Ranks)
		}
		if t == nil {
			var err error
			if t, err = o.tree(); err != nil {
				return nil, badOption("ranks", "%v", err)
			}
			p.switches = make([]placed, t.Switches())
		}
		g, err := o.build(t, p)
		if err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	for i, g := range groups { // the tables hold all of them
		for s := range g.Switches {
			sw, used := &g.Switches[s], p.switches[s]
			sw.EndpointEntries = max(64, nextPowerOfTwo(used.endpoints))
			sw.PipeEntries = max(16, used.pipes)
			sw.PoolKB = max(128, (used.blocks*spec.BlockBytes+1023)/1024)
			switch {
			case sw.EndpointEntries > engine.MaxEndpoints:
				return nil, badOption("collective", "got %d endpoints at switch %s, want at most %d: fewer ranks or subgroups", used.endpoints, sw.Name, engine.MaxEndpoints)
			case sw.PipeEntries > engine.MaxPipes:
				return nil, badOption("collective", "got %d pipes at switch %s, want at most %d: fewer subgroups", used.pipes, sw.Name, engine.MaxPipes)
			case sw.PoolKB > 16384:
				return nil, badOption("slots", "got %d of %d bytes in %d pipes of switch %s, want at most 16 MiB", options[i].slots(), g.MTU, used.pipes, sw.Name)
			}
		}
		text, err := g.Marshal()
		if err != nil {
			return nil, err
		}
		if groups[i], err = Parse("generated group", text); err != nil {
			return nil, err
		}
	}
	return NewSet(groups...)
}

// placing is what the groups made so far have taken.
type placing struct {
	rankQPN  uint32 // next of every rank
	switches []placed
}

type placed struct{ endpoints, pipes, blocks int }

func (o Options) tree() (*tree.Tree, error) {
	switch o.Tree {
	case TreeTwoLevel:
		return tree.TwoLevel(o.Ranks)
	case TreeThreeLevel:
		return tree.ThreeLevel(o.Ranks)
	}
	return tree.Single(o.Ranks)
}

func (o Options) build(t *tree.Tree, place *placing) (*Group, error) {
	g := &Group{
		Version: Version, Mode: o.Mode, RootSwitch: t.Name(tree.Switch(t.Root())), MTU: o.MTU,
		Clock:  Clock{o.ClockMHz, o.ClocksPerTick},
		Timers: Timers{TimeoutTicks: o.TimeoutTicks, Retries: 7, BackoffMax: 3, RNRCode: o.RNRCode, AckEvery: o.AckEvery},
		Host:   Host{o.Preset, o.MessagePackets, o.WindowPackets, o.HostTimeout, 7, 7, 1},
		Link:   Link{DelayNs: o.DelayNs, Gbps: o.Gbps, Loss: o.Loss, Dup: o.Dup, Reorder: o.Reorder},
	}
	switch {
	case g.Host.WindowPackets > 0:
	case o.Mode == 1:
		g.Host.MessagePackets = min(o.MessagePackets, o.Slots)
		g.Host.WindowPackets = 2 * g.Host.MessagePackets
	default:
		g.Host.WindowPackets = o.Slots / 2
		g.Host.MessagePackets = min(o.MessagePackets, g.Host.WindowPackets)
	}
	for s := range t.Switches() {
		neighbours := t.Neighbours(s)
		if len(neighbours) > engine.MaxPorts {
			return nil, badOption("ranks", "got %d, so switch %s has %d neighbours, want at most %d", o.Ranks, t.Name(tree.Switch(s)), len(neighbours), engine.MaxPorts)
		}
		g.Switches = append(g.Switches, Switch{Name: t.Name(tree.Switch(s)), Ports: len(neighbours)})
	}
	for r := range o.Ranks {
		g.Ranks = append(g.Ranks, Rank{MAC: mac(0, r), IP: ip(9, r)})
	}
	steps, err := o.Steps()
	if err != nil {
		return nil, err
	}
	if o.plain() {
		g.Collective = o.Collective
		if steps[0].Collective.HasRoot() {
			g.RootRank = &o.RootRank
		}
		for r := range g.Ranks {
			g.Ranks[r].QPN = place.rankQPN
		}
		if err := o.subgroup(g, t, place, steps[0], ""); err != nil {
			return nil, err
		}
	} else {
		for _, step := range t.Subgroups(steps) {
			sub := Subgroup{Name: step.Collective.String(), Collective: step.Collective.String()}
			if step.Collective.HasRoot() {
				root := step.Root
				sub.Name += strconv.Itoa(root)
				sub.RootRank = &root
			}
			for range g.Ranks {
				sub.QPNs = append(sub.QPNs, place.rankQPN)
			}
			g.Subgroups = append(g.Subgroups, sub)
			if err := o.subgroup(g, t, place, step, sub.Name); err != nil {
				return nil, err
			}
		}
	}
	for _, sw := range g.Switches {
		if len(sw.Pipes) == 0 {
			return nil, badOption("ranks", "switch %s takes no part in %s with root rank %d of %d ranks, want another shape", sw.Name, o.Collective, o.RootRank, o.Ranks)
		}
	}
	return g, nil
}

// subgroup adds the pipes and endpoints of one collective; name is empty if the group has no subgroups.
func (o Options) subgroup(g *Group, t *tree.Tree, place *placing, step tree.Step, name string) error {
	pipes, err := t.Pipes(step.Collective, step.Root)
	if err != nil {
		return badOption("collective", "%v", err)
	}
	prefix := ""
	if name != "" {
		prefix = name + "."
	}
	qpn := func(s, neighbour int) uint32 { return endpointQPN(place.switches[s].endpoints + neighbour) }
	used := map[int]int{} // switch -> endpoints
	for s := range g.Switches {
		sw := &g.Switches[s]
		neighbours := t.Neighbours(s)
		for _, p := range pipes {
			if p.Switch != s {
				continue
			}
			base := place.switches[s].blocks
			pipe := Pipe{Name: prefix + p.Role.String(), Subgroup: name, Slots: o.slots(), PSN0: uint32(o.PSN0), Op: o.Op, DType: o.DType,
				Unpinned: o.Unpinned, Reproducible: o.Reproducible && (o.Unpinned || len(p.Ins) > 1), BaseBlock: &base}
			for _, n := range p.Ins {
				pipe.Ins = append(pipe.Ins, prefix+t.EndpointName(n))
			}
			for _, n := range p.Outs {
				pipe.Outs = append(pipe.Outs, prefix+t.EndpointName(n))
			}
			sw.Pipes = append(sw.Pipes, pipe)
			place.switches[s].blocks += g.blocks(&pipe)
			place.switches[s].pipes++
			used[s] = len(neighbours)
		}
		if used[s] == 0 {
			continue
		}
		for i, n := range neighbours {
			ep := Endpoint{
				Name: prefix + t.EndpointName(n), Port: i, MAC: mac(1, s), IP: ip(10, s), QPN: qpn(s, i),
				PKey: 0xffff, Sport: 49999, TTL: 64,
			}
			if n.IsRank() {
				ep.PeerMAC, ep.PeerIP, ep.PeerQPN = mac(0, n.Index), ip(9, n.Index), place.rankQPN
			} else {
				back := slices.Index(t.Neighbours(n.Index), tree.Switch(s))
				ep.PeerMAC, ep.PeerIP, ep.PeerQPN = mac(1, n.Index), ip(10, n.Index), qpn(n.Index, back)
			}
			sw.Endpoints = append(sw.Endpoints, ep)
		}
	}
	for s, n := range used {
		place.switches[s].endpoints += n
	}
	place.rankQPN++
	return nil
}

const rankQPN = 17

func endpointQPN(i int) uint32 { return 0x101 + uint32(i) }

func mac(kind byte, i int) MAC {
	m := MAC{0x52, 0x54, 0x00, kind}
	binary.BigEndian.PutUint16(m[4:], uint16(i+1))
	return m
}

func ip(net byte, i int) IP {
	return IP{netip.AddrFrom4([4]byte{10, net, byte((i + 1) >> 8), byte(i + 1)})}
}

//go:embed group.yaml.tmpl
var fileText string

var fileTemplate = template.Must(template.New("group.yaml").Funcs(template.FuncMap{
	"hex24": func(v uint32) string { return fmt.Sprintf("0x%06x", v) },
	"hex16": func(v uint16) string { return fmt.Sprintf("0x%04x", v) },
	"num":   plain,
	"list": func(names []string) string {
		quoted := make([]string, len(names))
		for i, n := range names {
			quoted[i] = text(n)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	},
	"qpns": func(list []uint32) string {
		words := make([]string, len(list))
		for i, q := range list {
			words[i] = fmt.Sprintf("0x%06x", q)
		}
		return "[" + strings.Join(words, ", ") + "]"
	},
	"text": text,
	"rank": RankName,
}).Parse(fileText))

// text writes a string so that it is read back as one: null, true and the like are quoted.
func text(s string) string {
	var back any
	if err := yaml.Unmarshal([]byte(s), &back); err == nil && back == s {
		return s
	}
	return strconv.Quote(s)
}

// Marshal writes the group as a file; Parse reads back an equal one.
func (g *Group) Marshal() ([]byte, error) {
	var b strings.Builder
	if err := fileTemplate.Execute(&b, g); err != nil {
		return nil, fmt.Errorf("group.yaml: %w", err)
	}
	return []byte(b.String()), nil
}
