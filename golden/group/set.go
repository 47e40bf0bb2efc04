package group

import (
	"fmt"
	"slices"
	"strings"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/tree"
)

// Set is groups that may share switches and hosts, each with its own queue pairs, endpoints, pipes and
// blocks. Switches are the same if their names are, hosts if their IP addresses are.
type Set struct {
	Groups   []*Group
	Switches []string // names, in the order in which the groups first have them
	Hosts    []NIC
	Clock    Clock // the same in all groups
}

// NIC is a host: the ranks that it is, and the switch port it is at.
type NIC struct {
	Name   string // rank/3 of the first group that has it; of a later group g1:rank/3
	IP     IP
	Ranks  []Member
	Switch int // index in Set.Switches
	Port   int
}

// Member is a rank of a group of a Set.
type Member struct{ Group, Rank int }

// Wire joins two ports, of a switch and of a switch or host; it is as the first group that has it says.
type Wire struct {
	Switch, Port int // indices in Set.Switches; port
	Peer         tree.Node
	PeerPort     int // 0 of a host
	Link         Link
}

// NewSet checks that the groups go together: the same clock and sizes of a switch, one neighbour at a port,
// no QPN, block or table row of two. A single group always does.
func NewSet(groups ...*Group) (*Set, error) {
	if len(groups) == 0 {
		return nil, fmt.Errorf("set of groups: got none, want at least one")
	}
	s := &Set{Groups: groups, Clock: groups[0].Clock}
	for i, g := range groups {
		if g.Clock != s.Clock {
			return nil, fmt.Errorf("group %d: got clock %+v, want %+v as group 0", i, g.Clock, s.Clock)
		}
		for _, sw := range g.Switches {
			n := s.index(sw.Name)
			if n < 0 {
				s.Switches = append(s.Switches, sw.Name)
				continue
			}
			for k := range i {
				o, ok := groups[k].SwitchIndex(s.Switches[n])
				if !ok {
					continue
				}
				other := groups[k].Switches[o]
				if got, want := sw.sizes(), other.sizes(); got != want {
					return nil, fmt.Errorf("group %d: switch %s has ports, endpoint_entries, pipe_entries, pool_kb %v, want %v as in group %d", i, sw.Name, got, want, k)
				}
			}
		}
	}
	if err := s.hosts(); err != nil {
		return nil, err
	}
	if _, err := s.Wires(); err != nil {
		return nil, err
	}
	for _, name := range s.Switches {
		if err := s.checkSwitch(name); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s Switch) sizes() [4]int { return [4]int{s.Ports, s.EndpointEntries, s.PipeEntries, s.PoolKB} }

func (s *Set) index(name string) int { return slices.Index(s.Switches, name) }

// hosts finds the NICs and where they are.
func (s *Set) hosts() error {
	byIP := map[IP]int{}
	for i, g := range s.Groups {
		for r, rank := range g.Ranks {
			sw, e, err := g.RankPeer(r, 0)
			if err != nil {
				return fmt.Errorf("group %d: %w", i, err)
			}
			at := s.index(g.Switches[sw].Name)
			port := g.Switches[sw].Endpoints[e].Port
			n, known := byIP[rank.IP]
			if !known {
				name := RankName(r)
				if i > 0 {
					name = fmt.Sprintf("g%d:%s", i, name)
				}
				n = len(s.Hosts)
				byIP[rank.IP] = n
				s.Hosts = append(s.Hosts, NIC{Name: name, IP: rank.IP, Switch: at, Port: port})
			}
			h := &s.Hosts[n]
			if h.Switch != at || h.Port != port {
				return fmt.Errorf("group %d: rank %d (%v) is at port %d of %s, want port %d of %s as %s of the same address",
					i, r, rank.IP, port, s.Switches[at], h.Port, s.Switches[h.Switch], h.Name)
			}
			qpns := map[uint32]bool{}
			for _, m := range h.Ranks {
				other := s.Groups[m.Group]
				if other.Ranks[m.Rank].MAC != rank.MAC {
					return fmt.Errorf("group %d: rank %d (%v) has MAC %v, want %v as in group %d", i, r, rank.IP, rank.MAC, other.Ranks[m.Rank].MAC, m.Group)
				}
				for _, sub := range other.SubgroupList() {
					qpns[sub.QPNs[m.Rank]] = true
				}
			}
			for _, sub := range g.SubgroupList() {
				if qpns[sub.QPNs[r]] {
					return fmt.Errorf("group %d: rank %d (%v) has QPN %#06x, which another group has there already", i, r, rank.IP, sub.QPNs[r])
				}
			}
			h.Ranks = append(h.Ranks, Member{i, r})
		}
	}
	return nil
}

// Wires lists the links of all groups, each once.
func (s *Set) Wires() ([]Wire, error) {
	type end struct{ sw, port int }
	at := map[end]int{}
	var wires []Wire
	for i, g := range s.Groups {
		for k, sw := range g.Switches {
			here := s.index(sw.Name)
			for e, ep := range sw.Endpoints {
				p := g.peers[k][e]
				w := Wire{Switch: here, Port: ep.Port}
				if p.node.IsRank() {
					w.Peer = tree.Rank(s.host(Member{i, p.node.Index}))
				} else {
					peer := g.Switches[p.node.Index]
					n := s.index(peer.Name)
					w.Peer, w.PeerPort = tree.Switch(n), peer.Endpoints[p.endpoint].Port
				}
				w.Link = g.LinkBetween(sw.Name, g.nodeName(p.node))
				if n, known := at[end{here, ep.Port}]; known {
					o := wires[n]
					same := o.Switch == w.Switch && o.Peer == w.Peer && o.PeerPort == w.PeerPort ||
						o.Peer == tree.Switch(w.Switch) && w.Peer == tree.Switch(o.Switch) && o.PeerPort == w.Port && o.Port == w.PeerPort
					if !same {
						return nil, fmt.Errorf("group %d: port %d of %s leads elsewhere than in another group, want one neighbour at a port", i, ep.Port, sw.Name)
					}
					continue
				}
				at[end{here, ep.Port}] = len(wires)
				if !p.node.IsRank() {
					at[end{w.Peer.Index, w.PeerPort}] = len(wires)
				}
				wires = append(wires, w)
			}
		}
	}
	return wires, nil
}

// host is the index of the NIC that a member is.
func (s *Set) host(m Member) int {
	for i, h := range s.Hosts {
		for _, o := range h.Ranks {
			if o == m {
				return i
			}
		}
	}
	return -1
}

// EngineConfig makes the engine of a switch: the endpoints and pipes of the first group, then those of the
// next. With several groups the names begin with g0/, g1/ and so on.
func (s *Set) EngineConfig(name string) (engine.Config, error) {
	var all engine.Config
	for i, g := range s.Groups {
		if _, ok := g.SwitchIndex(name); !ok {
			continue
		}
		cfg, err := g.EngineConfig(name)
		if err != nil {
			return engine.Config{}, err
		}
		if len(s.Groups) > 1 {
			for e := range cfg.Endpoints {
				cfg.Endpoints[e].Name = fmt.Sprintf("g%d/%s", i, cfg.Endpoints[e].Name)
			}
			for p := range cfg.Pipes {
				cfg.Pipes[p].Name = fmt.Sprintf("g%d/%s", i, cfg.Pipes[p].Name)
			}
		}
		if all.Name == "" {
			all = cfg
			continue
		}
		endpoints, pipes := len(all.Endpoints), len(all.Pipes)
		for _, ep := range cfg.Endpoints {
			for _, p := range []*int{&ep.InPipe, &ep.OutPipe} {
				if *p != engine.None {
					*p += pipes
				}
			}
			all.Endpoints = append(all.Endpoints, ep)
		}
		for _, p := range cfg.Pipes {
			for _, list := range [][]int{p.Ins, p.Outs} {
				for k := range list {
					list[k] += endpoints
				}
			}
			all.Pipes = append(all.Pipes, p)
		}
	}
	if all.Name == "" {
		return engine.Config{}, fmt.Errorf("switch %q does not exist, want one of %s", name, some(s.Switches))
	}
	return all, nil
}

// checkSwitch sees that the tables of a switch hold what all groups put there.
func (s *Set) checkSwitch(name string) error {
	if len(s.Groups) == 1 {
		return nil // its own check has seen to it
	}
	cfg, err := s.EngineConfig(name)
	if err != nil {
		return err
	}
	var sw Switch
	for _, g := range s.Groups {
		if i, ok := g.SwitchIndex(name); ok {
			sw = g.Switches[i]
		}
	}
	rows := map[int]string{}
	for e, ep := range cfg.Endpoints {
		row := cfg.EntryIndex(e, sw.EndpointEntries)
		if other, twice := rows[row]; twice {
			return fmt.Errorf("switch %s: endpoints %s and %s have the same low bits of their QPN, row %d of %d, want others", name, other, ep.Name, row, sw.EndpointEntries)
		}
		rows[row] = ep.Name
	}
	if len(cfg.Pipes) > sw.PipeEntries {
		return fmt.Errorf("switch %s: got %d pipes in all groups, want at most pipe_entries, %d", name, len(cfg.Pipes), sw.PipeEntries)
	}
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("switch %s: %s", name, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}

// Moved is the group with another first PSN for each subgroup, in the order of SubgroupList: what it is after
// its subgroups have been created again on the same queue pairs (protocol.md 2).
func (g *Group) Moved(psn0 []psn.PSN) (*Group, error) {
	subgroups := g.SubgroupList()
	if len(psn0) != len(subgroups) {
		return nil, fmt.Errorf("move PSNs: got %d, want %d, one for each subgroup", len(psn0), len(subgroups))
	}
	c := *g
	c.Switches = slices.Clone(g.Switches)
	for s := range c.Switches {
		pipes := slices.Clone(c.Switches[s].Pipes)
		for p := range pipes {
			n := slices.IndexFunc(subgroups, func(sub Subgroup) bool { return sub.Name == pipes[p].Subgroup })
			pipes[p].PSN0 = uint32(psn0[n])
		}
		c.Switches[s].Pipes = pipes
	}
	return &c, nil
}

// RankConfig makes the rank of a member with a queue pair for each subgroup, in the order of SubgroupList;
// its program is still empty.
func (g *Group) RankConfig(rank int) (host.RankConfig, error) {
	c := host.RankConfig{Name: RankName(rank), MessagePackets: g.Host.MessagePackets, WindowPackets: g.Host.WindowPackets}
	for i := range g.SubgroupList() {
		qp, err := g.HostConfig(rank, i)
		if err != nil {
			return host.RankConfig{}, err
		}
		c.QPs = append(c.QPs, qp)
	}
	return c, nil
}

// Steps is what the group carries if nothing else is asked for: its collective, or that of each subgroup.
func (g *Group) Steps() []tree.Step {
	var steps []tree.Step
	for _, s := range g.SubgroupList() {
		c, err := tree.ParseCollective(s.Collective)
		if err != nil {
			continue
		}
		step := tree.Step{Collective: c}
		if s.RootRank != nil {
			step.Root = *s.RootRank
		}
		steps = append(steps, step)
	}
	return steps
}
