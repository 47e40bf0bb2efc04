package run

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/fabric"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
)

// fullMember is the bit of a P_Key that lets the other side be a limited member.
const fullMember = 0x8000

// linkOf is a link of the group at the engine's clock.
func linkOf(l group.Link, c group.Clock) fabric.Link {
	const clocks = 1000
	bytes := l.Gbps / 8 * 1000 / c.MHz * clocks
	return fabric.Link{
		Delay: max(1, uint64(math.Round(l.DelayNs*c.MHz/1000))),
		Rate:  fabric.Rate{Bytes: max(1, uint64(math.Round(bytes))), Clocks: clocks},
		Loss:  l.Loss, Dup: l.Dup, Reorder: l.Reorder,
	}
}

// scaleOf is the time scale of everything that has timers: a tick of the engine is 10 us by name.
func scaleOf(c group.Clock) fabric.Scale {
	return fabric.Scale{Clocks: uint64(c.PerTick), Per: spec.TickNs * time.Nanosecond}
}

// hostConfig is the queue pair of rank r, connected to its endpoint of a switch.
func hostConfig(g *group.Group, r int) (host.Config, engine.Config, int, error) {
	s, e, err := g.RankPeer(r)
	if err != nil {
		return host.Config{}, engine.Config{}, 0, err
	}
	cfg, err := g.EngineConfig(g.Switches[s].Name)
	if err != nil {
		return host.Config{}, engine.Config{}, 0, err
	}
	c, err := g.HostConfig(r)
	return c, cfg, e, err
}

// network is a group's nodes and links in a fabric, with the RTL engine as a foreign node.
type network struct {
	*fabric.Fabric
	rtl      fabric.ID
	switches []fabric.ID
	ranks    []fabric.ID
}

// newNetwork joins the ranks' nodes, made by node(r), to golden engines and the place of the RTL.
func newNetwork(o *Options, node func(r int) (fabric.Node, error)) (*network, error) {
	g := o.Group
	n := &network{Fabric: fabric.New(o.Seed)}
	for s, sw := range g.Switches {
		if sw.Name == o.RTLAt {
			n.rtl = n.AddForeign(sw.Name)
			n.switches = append(n.switches, n.rtl)
			continue
		}
		cfg, err := g.EngineConfig(g.Switches[s].Name)
		if err != nil {
			return nil, err
		}
		e, err := engine.New(cfg)
		if err != nil {
			return nil, err
		}
		e.Program()
		golden, err := fabric.NewSwitch(e, scaleOf(g.Clock))
		if err != nil {
			return nil, err
		}
		n.switches = append(n.switches, n.Add(sw.Name, golden))
	}
	for r := range g.Ranks {
		h, err := node(r)
		if err != nil {
			return nil, err
		}
		n.ranks = append(n.ranks, n.Add(group.RankName(r), h))
	}
	for s, sw := range g.Switches {
		for e, ep := range sw.Endpoints {
			p := g.Peer(s, e)
			to, port, name := fabric.ID(0), 0, ""
			switch {
			case p.Node.IsRank():
				to, name = n.ranks[p.Node.Index], group.RankName(p.Node.Index)
			case p.Node.Index < s:
				continue // joined from the other side
			default:
				peer := g.Switches[p.Node.Index]
				to, port, name = n.switches[p.Node.Index], peer.Endpoints[p.Endpoint].Port, peer.Name
			}
			l := linkOf(g.LinkBetween(sw.Name, name), g.Clock)
			if err := n.Connect(n.switches[s], ep.Port, to, port, l, l); err != nil {
				return nil, err
			}
		}
	}
	return n, nil
}

// task is what each rank contributes, and what it must get.
type task struct {
	send [][]byte // nil: nothing
	want [][]byte // nil: nothing
}

// newTask shares out the vectors as the group's collective says.
func newTask(g *group.Group, in [][]byte) (*task, error) {
	t := &task{send: slices.Clone(in), want: make([][]byte, len(in))}
	root := -1
	if g.RootRank != nil {
		root = *g.RootRank
	}
	switch g.Collective {
	case "allreduce":
		total, err := sum(in)
		if err != nil {
			return nil, err
		}
		for r := range t.want {
			t.want[r] = total
		}
	case "reduce": // the network reduces all but the root's own
		total, err := sum(slices.Delete(slices.Clone(in), root, root+1))
		if err != nil {
			return nil, err
		}
		t.send[root], t.want[root] = nil, total
	case "broadcast":
		for r := range in {
			if r != root {
				t.send[r], t.want[r] = nil, in[root]
			}
		}
	case "barrier": // neither
		t.send = make([][]byte, len(in))
	default:
		return nil, fmt.Errorf("collective: got %q, want allreduce, reduce, broadcast or barrier", g.Collective)
	}
	return t, nil
}

// checkSum says whether a group is one that sum can check.
func checkSum(g *group.Group) error {
	for _, sw := range g.Switches {
		for _, p := range sw.Pipes {
			if (p.DType != spec.DTypeInt32 || p.Op != spec.OpSum) && len(p.Ins) > 1 {
				return fmt.Errorf("switch %s: pipe %s: got %v of %v, want sum of int32, which runs can check", sw.Name, p.Name, p.Op, p.DType)
			}
		}
	}
	return nil
}

// differs says where two vectors of int32 first differ; "" if they do not.
func differs(got, want []byte) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			e := i &^ 3
			return fmt.Sprintf("element %d (byte %d) is %x, want %x", e/4, i, got[e:min(e+4, len(got))], want[e:min(e+4, len(want))])
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("got %d bytes, want %d", len(got), len(want))
	}
	return ""
}

// psnAt is the n-th psn from psn0.
func psnAt(psn0 psn.PSN, n int) psn.PSN { return psn.PSN((uint32(psn0) + uint32(n)) & psn.Mask) }
