package group

import (
	"fmt"
	"math/bits"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// Tree is the IncTree of the group. Switch i of the tree is Switches[i], and a switch's children are
// in the order of its endpoints.
func (g *Group) Tree() (*tree.Tree, error) {
	names := make([]string, len(g.Switches))
	root := 0
	var edges []tree.Edge
	seen := map[tree.Edge]bool{}
	for s, sw := range g.Switches {
		names[s] = sw.Name
		if sw.Name == g.RootSwitch {
			root = s
		}
		for e := range sw.Endpoints {
			edge := tree.Edge{A: tree.Switch(s), B: g.peers[s][e].node}
			if !seen[edge] && !seen[tree.Edge{A: edge.B, B: edge.A}] {
				edges = append(edges, edge)
				seen[edge] = true
			}
		}
	}
	t, err := tree.New(names, len(g.Ranks), edges, root)
	if err != nil {
		return nil, fmt.Errorf("IncTree: %w", err)
	}
	return t, nil
}

// nodeName is how links names a node.
func (g *Group) nodeName(n tree.Node) string {
	if n.IsRank() {
		return RankName(n.Index)
	}
	return g.Switches[n.Index].Name
}

// Peer is what an endpoint's peer addresses lead to: a rank, or an endpoint of another switch.
type Peer struct {
	Node     tree.Node
	Endpoint int // at a switch: index of its endpoint
}

// Peer of endpoint e of switch s.
func (g *Group) Peer(s, e int) Peer {
	p := g.peers[s][e]
	return Peer{p.node, p.endpoint}
}

// RankPeer finds the switch and endpoint that rank r talks to in a subgroup, an index in SubgroupList.
func (g *Group) RankPeer(r, subgroup int) (s, e int, err error) {
	for s := range g.peers {
		for e, p := range g.peers[s] {
			if p.node == tree.Rank(r) && p.subgroup == subgroup {
				return s, e, nil
			}
		}
	}
	if n := len(g.SubgroupList()); subgroup < 0 || subgroup >= n {
		return 0, 0, fmt.Errorf("subgroup %d does not exist, want 0..%d", subgroup, n-1)
	}
	return 0, 0, fmt.Errorf("rank %d does not exist, want 0..%d", r, len(g.Ranks)-1)
}

// EngineConfig makes the engine of a switch. Endpoints and pipes keep the order of the file.
func (g *Group) EngineConfig(switchName string) (engine.Config, error) {
	s, ok := g.SwitchIndex(switchName)
	if !ok {
		return engine.Config{}, fmt.Errorf("switch %q does not exist, want one of %s", switchName, g.switchNames())
	}
	return g.engineConfig(s)
}

func (g *Group) engineConfig(s int) (engine.Config, error) {
	sw := g.Switches[s]
	cfg := engine.Config{Name: sw.Name, Ports: sw.Ports, Blocks: spec.PoolBlocks(sw.PoolKB)}
	index := map[string]int{}
	subgroups := map[string]Subgroup{}
	for _, sub := range g.SubgroupList() {
		subgroups[sub.Name] = sub
	}
	for e, ep := range sw.Endpoints {
		index[ep.Name] = e
		cfg.Endpoints = append(cfg.Endpoints, engine.Endpoint{
			Name: ep.Name, Port: ep.Port, MAC: roce.MAC(ep.MAC), PeerMAC: roce.MAC(ep.PeerMAC), IP: ep.IP.Addr, PeerIP: ep.PeerIP.Addr,
			QPN: ep.QPN, PeerQPN: ep.PeerQPN, PKey: ep.PKey, UDPSport: ep.Sport, TTL: ep.TTL, TOS: ep.TOS,
			Leaf:   len(g.peers) > s && g.peers[s][e].node.IsRank(),
			MigReq: ep.MigReq, VLAN: ep.VLAN, InPipe: engine.None, OutPipe: engine.None,
		})
	}
	for p, pipe := range sw.Pipes {
		cp := engine.Pipe{
			Name: pipe.Name, Mode: g.ModeOf(&pipe), Op: pipe.Op, DType: pipe.DType, N: pipe.Slots, MTU: g.MTU, PSN0: psn.PSN(pipe.PSN0),
			AckEvery: g.Timers.AckEvery, RNRCode: g.Timers.RNRCode, Retries: g.Timers.Retries,
			BackoffMax: g.Timers.BackoffMax, Timeout: g.Timers.TimeoutTicks, Base: *pipe.BaseBlock,
			Reproducible: pipe.Reproducible, Unpinned: pipe.Unpinned,
		}
		if err := carry(&cp, subgroups[pipe.Subgroup]); err != nil {
			return engine.Config{}, fmt.Errorf("switch %s: pipe %s: %w", sw.Name, pipe.Name, err)
		}
		for i, name := range pipe.Ins {
			e, ok := index[name]
			if !ok {
				return engine.Config{}, fmt.Errorf("switch %s: pipe %s: in %q is no endpoint", sw.Name, pipe.Name, name)
			}
			cp.Ins = append(cp.Ins, e)
			ep := &cfg.Endpoints[e]
			ep.InPipe, ep.InIndex, ep.PSN0 = p, i, cp.PSN0
		}
		for _, name := range pipe.Outs {
			e, ok := index[name]
			if !ok {
				return engine.Config{}, fmt.Errorf("switch %s: pipe %s: out %q is no endpoint", sw.Name, pipe.Name, name)
			}
			cp.Outs = append(cp.Outs, e)
			ep := &cfg.Endpoints[e]
			ep.OutPipe, ep.PSN0 = p, cp.PSN0
		}
		cfg.Pipes = append(cfg.Pipes, cp)
	}
	return cfg, nil
}

// carry sets what depends on the collective of a pipe.
func carry(p *engine.Pipe, sub Subgroup) error {
	if sub.Collective == "" {
		return nil
	}
	kind, err := tree.ParseCollective(sub.Collective)
	if err != nil {
		return err
	}
	switch kind {
	case tree.Reduce:
		p.AckRule = spec.AckRuleReplicate
	case tree.Broadcast:
		p.AckRule = spec.AckRuleMinimum
	}
	p.Coll = spec.CollType((tree.Step{Collective: kind}).Subgroup().Collective)
	if sub.RootRank != nil {
		p.Root = *sub.RootRank
	}
	return nil
}

// hostSportBase is the first UDP source port of the ranks: rank k sends from hostSportBase + k mod 2^14.
const hostSportBase = 0xc000

// HostConfig makes the queue pair of a rank in a subgroup, connected to its switch's endpoint. It is in the
// endpoint's partition as a full member, and tags as the endpoint does.
func (g *Group) HostConfig(rank, subgroup int) (host.Config, error) {
	s, e, err := g.RankPeer(rank, subgroup)
	if err != nil {
		return host.Config{}, err
	}
	r, ep := g.Ranks[rank], g.Switches[s].Endpoints[e]
	preset := r.Preset
	if preset == "" {
		preset = g.Host.Preset
	}
	settings, err := host.Preset(preset)
	if err != nil {
		return host.Config{}, fmt.Errorf("rank %d: %w", rank, err)
	}
	in, out := g.Switches[s].pipesOf(ep.Name)
	if in == nil {
		in = out
	}
	return host.Config{
		Name: RankName(rank), MAC: roce.MAC(r.MAC), PeerMAC: roce.MAC(ep.MAC), IP: r.IP.Addr, PeerIP: ep.IP.Addr,
		QPN: ep.PeerQPN, PeerQPN: ep.QPN, PKey: ep.PKey | 0x8000, UDPSport: hostSportBase + uint16(rank&0x3fff), TTL: 64,
		VLAN: ep.VLAN, SendPSN: psn.PSN(in.PSN0), RecvPSN: psn.PSN(in.PSN0), MTU: g.MTU,
		Timeout: g.Host.TimeoutCode, RetryCnt: g.Host.RetryCnt, RNRRetry: g.Host.RNRRetry, MinRNRTimer: g.Host.MinRNRTimer,
		Settings: settings,
	}, nil
}

// Classifier gives the verdict of the table stage on a frame that came in at a port (negative: not
// known) of the named switch. With no name it is that of the first switch that has an endpoint for the
// frame; no_endpoint if none has.
func (g *Group) Classifier(switchName string) (func(port int, p *roce.Packet) spec.Verdict, error) {
	var engines []*engine.Engine
	for _, sw := range g.Switches {
		if switchName != "" && sw.Name != switchName {
			continue
		}
		cfg, err := g.EngineConfig(sw.Name)
		if err != nil {
			return nil, err
		}
		e, err := engine.New(cfg)
		if err != nil {
			return nil, fmt.Errorf("switch %s: %w", sw.Name, err)
		}
		e.Program()
		engines = append(engines, e)
	}
	if len(engines) == 0 {
		return nil, fmt.Errorf("switch %q does not exist, want one of %s", switchName, g.switchNames())
	}
	return func(port int, p *roce.Packet) spec.Verdict {
		verdict := spec.VerdictNoEndpoint
		for _, e := range engines {
			v := e.Classify(port, p)
			if v.Class() != spec.ClassBypass {
				return v
			}
			verdict = max(verdict, v) // dst_ip says more than no_endpoint
		}
		return verdict
	}, nil
}

// Draw pictures the IncTree with addresses, ports and pipes.
func (g *Group) Draw() (string, error) {
	t, err := g.Tree()
	if err != nil {
		return "", err
	}
	return t.Draw(func(n tree.Node) string {
		if n.IsRank() {
			r := g.Ranks[n.Index]
			text := fmt.Sprintf("%v  %v %v", n, r.IP, r.MAC)
			for i, sub := range g.SubgroupList() {
				s, e, err := g.RankPeer(n.Index, i)
				if err != nil {
					return err.Error()
				}
				ep := g.Switches[s].Endpoints[e]
				text += fmt.Sprintf(" qpn %#06x  at port %d, endpoint %s qpn %#06x", sub.QPNs[n.Index], ep.Port, ep.Name, ep.QPN)
			}
			return text
		}
		sw := g.Switches[n.Index]
		text := fmt.Sprintf("%s  %d ports", sw.Name, sw.Ports)
		if p, ok := t.Parent(n); ok {
			for e := range sw.Endpoints {
				if g.peers[n.Index][e].node == p {
					ep := sw.Endpoints[e]
					text += fmt.Sprintf("  %v %v  up by port %d, endpoint %s qpn %#06x", ep.IP, ep.MAC, ep.Port, ep.Name, ep.QPN)
				}
			}
		}
		for _, p := range sw.Pipes {
			text += fmt.Sprintf("  [%s: %d in, %d out, N %d, %v %v, psn0 %#06x]", p.Name, len(p.Ins), len(p.Outs), p.Slots, p.DType, p.Op, p.PSN0)
		}
		return text
	}), nil
}

func nextPowerOfTwo(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) }

// Summary is the group in one line.
func (g *Group) Summary() string {
	count := func(n int, what string) string {
		if n != 1 {
			if what == "switch" {
				what += "e"
			}
			what += "s"
		}
		return fmt.Sprintf("%d %s", n, what)
	}
	endpoints, pipes := 0, 0
	for _, s := range g.Switches {
		endpoints += len(s.Endpoints)
		pipes += len(s.Pipes)
	}
	what := ""
	if g.Collective != "" {
		what = " " + g.Collective
	}
	if n := len(g.Subgroups); n > 0 {
		what = " " + count(n, "subgroup")
	}
	return fmt.Sprintf("mode %d%s, MTU %d, %s, %s, %s, %s", g.Mode, what, g.MTU, count(len(g.Switches), "switch"),
		count(endpoints, "endpoint"), count(pipes, "pipe"), count(len(g.Ranks), "rank"))
}
