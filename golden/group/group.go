// Package group reads, checks and makes the one configuration file, group.yaml: the switches,
// endpoints, pipes, ranks, links and timers of one group. From it come the engine of each switch,
// the host of each rank and the IncTree.
package group

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// Version of the format that this package reads and writes.
const Version = 1

// maxFileBytes is the largest file Load reads.
const maxFileBytes = 4 << 20

// Group is a file that has passed every check; defaults are filled in. Ranges, units and defaults
// of the fields are in group.schema.json.
type Group struct {
	Version    int        `json:"version"`
	Mode       int        `json:"mode"`
	Collective string     `json:"collective,omitempty"` // empty: the pipes are checked against none
	RootRank   *int       `json:"root_rank,omitempty"`
	Subgroups  []Subgroup `json:"subgroups"` // of a group of several collectives; see SubgroupList
	RootSwitch string     `json:"root_switch,omitempty"`
	MTU        int        `json:"mtu"`
	Clock      Clock      `json:"clock"`
	Timers     Timers     `json:"timers"`
	Host       Host       `json:"host"`
	Link       Link       `json:"link"`
	Switches   []Switch   `json:"switches"`
	Ranks      []Rank     `json:"ranks"`
	Links      []LinkEnds `json:"links"`

	peers [][]peer // what each endpoint of each switch leads to
}

// Clock is the time scale.
type Clock struct {
	MHz     float64 `json:"mhz"`
	PerTick int     `json:"per_tick"` // clocks
}

// Timers are the Mode-I and Mode-III settings of every pipe.
type Timers struct {
	TimeoutTicks int `json:"timeout_ticks"`
	Retries      int `json:"retries"`
	BackoffMax   int `json:"backoff_max"`
	RNRCode      int `json:"rnr_code"`
	AckEvery     int `json:"ack_every"`
}

// Host is what the ranks' NICs do.
type Host struct {
	Preset         string `json:"preset"`
	MessagePackets int    `json:"message_packets"`
	WindowPackets  int    `json:"window_packets"` // MW
	TimeoutCode    int    `json:"timeout_code"`
	RetryCnt       int    `json:"retry_cnt"`
	RNRRetry       int    `json:"rnr_retry"`
	MinRNRTimer    int    `json:"min_rnr_timer"`
}

// Link is one link, the same in both directions.
type Link struct {
	DelayNs float64 `json:"delay_ns"`
	Gbps    float64 `json:"gbps"`
	Loss    float64 `json:"loss"`
	Dup     float64 `json:"dup"`
	Reorder float64 `json:"reorder"`
}

// LinkEnds is a link that differs from the group's: what is nil is as there.
type LinkEnds struct {
	Ends    [2]string `json:"ends"` // a switch's name, or rank/3
	DelayNs *float64  `json:"delay_ns,omitempty"`
	Gbps    *float64  `json:"gbps,omitempty"`
	Loss    *float64  `json:"loss,omitempty"`
	Dup     *float64  `json:"dup,omitempty"`
	Reorder *float64  `json:"reorder,omitempty"`
}

// Switch is one inner node of the IncTree with its engine's size and tables.
type Switch struct {
	Name            string     `json:"name"`
	Ports           int        `json:"ports"`
	EndpointEntries int        `json:"endpoint_entries"`
	PipeEntries     int        `json:"pipe_entries"`
	PoolKB          int        `json:"pool_kb"`
	Endpoints       []Endpoint `json:"endpoints"`
	Pipes           []Pipe     `json:"pipes"`
}

// Endpoint is one end of an edge at a switch.
type Endpoint struct {
	Name    string  `json:"name"`
	Port    int     `json:"port"`
	MAC     MAC     `json:"mac"`
	IP      IP      `json:"ip"`
	QPN     uint32  `json:"qpn"`
	PeerMAC MAC     `json:"peer_mac"`
	PeerIP  IP      `json:"peer_ip"`
	PeerQPN uint32  `json:"peer_qpn"`
	PKey    uint16  `json:"pkey"`
	Sport   uint16  `json:"sport"`
	TTL     uint8   `json:"ttl"`
	TOS     uint8   `json:"tos"`
	VLAN    *uint16 `json:"vlan,omitempty"` // TCI
	MigReq  bool    `json:"mig_req"`
}

// Subgroup is one queue pair a rank and the pipes of one collective.
type Subgroup struct {
	Name       string   `json:"name"`
	Collective string   `json:"collective"` // empty: the pipes are checked against none
	RootRank   *int     `json:"root_rank,omitempty"`
	QPNs       []uint32 `json:"qpns"` // of the ranks
}

// Pipe names its ins and outs by the endpoints of its switch.
type Pipe struct {
	Name         string     `json:"name"`
	Ins          []string   `json:"ins"`
	Outs         []string   `json:"outs"`
	Slots        int        `json:"slots"`
	PSN0         uint32     `json:"psn0"`
	Op           spec.Op    `json:"op"`
	DType        spec.DType `json:"dtype"`
	Mode         int        `json:"mode,omitempty"`     // 0: the group's
	Subgroup     string     `json:"subgroup,omitempty"` // given if the group has subgroups
	Reproducible bool       `json:"reproducible"`
	Unpinned     bool       `json:"unpinned"`
	BaseBlock    *int       `json:"base_block,omitempty"` // always set once read
}

// Rank is one host.
type Rank struct {
	MAC    MAC    `json:"mac"`
	IP     IP     `json:"ip"`
	QPN    uint32 `json:"qpn,omitempty"`    // 0 if the group has subgroups
	Preset string `json:"preset,omitempty"` // empty: Host.Preset
}

// MAC is an Ethernet address.
type MAC [6]byte

// String is the address as 52:54:00:00:00:01.
func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// MarshalText is String.
func (m MAC) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads six bytes with colons; the schema has seen to the form.
func (m *MAC) UnmarshalText(b []byte) error {
	hw, err := net.ParseMAC(string(b))
	if err != nil || len(hw) != len(m) {
		return fmt.Errorf("got %q, want a MAC address as 52:54:00:00:00:01", b)
	}
	copy(m[:], hw)
	return nil
}

// IP is an IPv4 or IPv6 address. A text that is none is kept as the zero address; Parse refuses it.
type IP struct{ netip.Addr }

// UnmarshalText never fails, so that the check after it can say where the text stands.
func (a *IP) UnmarshalText(b []byte) error {
	addr, err := netip.ParseAddr(string(b))
	if err != nil || addr.Is4In6() || addr.Zone() != "" {
		addr = netip.Addr{}
	}
	a.Addr = addr
	return nil
}

// Load reads and checks a file. What is wrong with its content is a Problems.
func Load(path string) (*Group, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if len(text) > maxFileBytes {
		return nil, Problems{{File: path, Message: fmt.Sprintf("larger than %d MiB, want a group.yaml", maxFileBytes>>20)}}
	}
	return Parse(path, text)
}

// Parse checks the text of a file; name is what messages call it. What is wrong is a Problems.
func Parse(name string, text []byte) (*Group, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // some editors begin a file with a byte-order mark
	d := readDocument(name, text)
	if len(d.problems) == 0 {
		d.validate()
	}
	if len(d.problems) > 0 {
		return nil, sorted(d.problems)
	}
	addDefaults(schemaRoot, d.root)
	plain, err := json.Marshal(d.root)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	g := new(Group)
	dec := json.NewDecoder(bytes.NewReader(plain))
	dec.DisallowUnknownFields() // the schema and the types must not drift apart
	if err := dec.Decode(g); err != nil {
		return nil, Problems{{File: name, Message: strings.ReplaceAll(err.Error(), "\n", " ")}}
	}
	g.placeBlocks()
	c := newCheck(g, d)
	c.run()
	if len(d.problems) > 0 {
		return nil, sorted(d.problems)
	}
	return g, nil
}

// placeBlocks gives a pipe with no base_block the blocks after the pipe before it.
func (g *Group) placeBlocks() {
	for s := range g.Switches {
		next := 0
		for p := range g.Switches[s].Pipes {
			pipe := &g.Switches[s].Pipes[p]
			if pipe.BaseBlock == nil {
				base := next
				pipe.BaseBlock = &base
			}
			next = *pipe.BaseBlock + g.blocks(pipe)
		}
	}
	if g.Host.WindowPackets == 0 {
		slots := 0
		for _, s := range g.Switches {
			for _, p := range s.Pipes {
				if g.ModeOf(&p) != 1 && (slots == 0 || p.Slots < slots) {
					slots = p.Slots
				}
			}
		}
		if g.Host.WindowPackets = slots / 2; slots == 0 { // Mode-I asks for no window
			g.Host.WindowPackets = 2 * g.Host.MessagePackets
		}
	}
}

// SubgroupList is the subgroups of the group; one that lists none is one by itself, without a name.
func (g *Group) SubgroupList() []Subgroup {
	if len(g.Subgroups) > 0 {
		return g.Subgroups
	}
	one := Subgroup{Collective: g.Collective, RootRank: g.RootRank}
	for _, r := range g.Ranks {
		one.QPNs = append(one.QPNs, r.QPN)
	}
	return []Subgroup{one}
}

// SubgroupOf is the index in SubgroupList of the subgroup that carries an AllReduce, Barrier, Reduce or
// Broadcast.
func (g *Group) SubgroupOf(step tree.Step) (int, error) {
	var have []string
	for i, s := range g.SubgroupList() {
		c, err := tree.ParseCollective(s.Collective)
		if err != nil {
			continue
		}
		own := tree.Step{Collective: c}
		if s.RootRank != nil {
			own.Root = *s.RootRank
		}
		if own.Subgroup() == step.Subgroup() {
			return i, nil
		}
		have = append(have, own.String())
	}
	return 0, fmt.Errorf("no subgroup for %v, the group has those of %s", step, some(have))
}

// Arithmetic is the operator and type of the group's pipes that reduce; an error if they are not the same.
// With no such pipe they are those of its first pipe.
func (g *Group) Arithmetic() (op spec.Op, dtype spec.DType, err error) {
	found := ""
	op, dtype = g.Switches[0].Pipes[0].Op, g.Switches[0].Pipes[0].DType
	for _, sw := range g.Switches {
		for _, p := range sw.Pipes {
			here := fmt.Sprintf("switch %s: pipe %s", sw.Name, p.Name)
			switch {
			case len(p.Ins) < 2:
			case found == "":
				op, dtype, found = p.Op, p.DType, here
			case p.Op != op || p.DType != dtype:
				return 0, 0, fmt.Errorf("%s: got %v of %v, want %v of %v as %s: a group's vectors are of one type", here, p.Op, p.DType, op, dtype, found)
			}
		}
	}
	return op, dtype, nil
}

// Control says whether the pipes wait for control signals, and with what flags; an error if they differ.
func (g *Group) Control() (unpinned bool, flags uint8, err error) {
	first := g.Switches[0].Pipes[0]
	for _, sw := range g.Switches {
		for _, p := range sw.Pipes {
			if p.Unpinned != first.Unpinned || p.Unpinned && p.Reproducible != first.Reproducible {
				return false, 0, fmt.Errorf("switch %s: pipe %s: got unpinned %v, reproducible %v, want %v and %v as pipe %s of switch %s: one signal opens them all",
					sw.Name, p.Name, p.Unpinned, p.Reproducible, first.Unpinned, first.Reproducible, first.Name, g.Switches[0].Name)
			}
		}
	}
	if first.Unpinned && first.Reproducible {
		flags = spec.ControlReproducible
	}
	return first.Unpinned, flags, nil
}

// ModeOf is the protocol mode of a pipe.
func (g *Group) ModeOf(p *Pipe) int {
	if p.Mode != 0 {
		return p.Mode
	}
	return g.Mode
}

// blocks of the payload pool that a pipe takes.
func (g *Group) blocks(p *Pipe) int {
	return engine.Pipe{Mode: g.ModeOf(p), N: p.Slots, MTU: g.MTU, Ins: make([]int, len(p.Ins)), Reproducible: p.Reproducible}.Blocks()
}

// SwitchIndex finds a switch by name.
func (g *Group) SwitchIndex(name string) (int, bool) {
	for i := range g.Switches {
		if g.Switches[i].Name == name {
			return i, true
		}
	}
	return 0, false
}

// LinkBetween is the link that joins two nodes, each named as in links: a switch's name or rank/3.
func (g *Group) LinkBetween(a, b string) Link {
	l := g.Link
	for _, o := range g.Links {
		if o.Ends != [2]string{a, b} && o.Ends != [2]string{b, a} {
			continue
		}
		for _, f := range []struct {
			to   *float64
			from *float64
		}{{&l.DelayNs, o.DelayNs}, {&l.Gbps, o.Gbps}, {&l.Loss, o.Loss}, {&l.Dup, o.Dup}, {&l.Reorder, o.Reorder}} {
			if f.from != nil {
				*f.to = *f.from
			}
		}
	}
	return l
}

// RankName is how links names rank r.
func RankName(r int) string { return fmt.Sprintf("rank/%d", r) }
