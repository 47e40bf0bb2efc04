package control

import (
	"fmt"
	"maps"
	"slices"

	"github.com/epic-inc/epic/driver/control/controlpb"
	"github.com/epic-inc/epic/driver/control/failure"
	"github.com/epic-inc/epic/driver/control/target"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// room is what of a switch is taken, and by what a new subgroup is fitted in.
type room struct {
	info      target.Info
	endpoints map[int]bool // rows
	pipes     map[int]bool
	blocks    []span
	outs, ins []span
}

// span is [from, to).
type span struct{ from, to int }

// rooms are those of all switches that are known, with what the subgroups hold.
func rooms(infos map[string]target.Info, subgroups []*subgroup) map[string]*room {
	all := map[string]*room{}
	for name, info := range infos {
		r := &room{info: info, endpoints: map[int]bool{}, pipes: map[int]bool{}}
		for _, h := range info.Held {
			if h.Pipe >= 0 {
				r.pipes[h.Pipe] = true
				r.blocks = append(r.blocks, span{h.Base, h.Base + h.Blocks})
			}
			r.outs, r.ins = append(r.outs, span{h.Out, h.Out + h.Outs}), append(r.ins, span{h.In, h.In + h.Ins})
			for _, e := range h.Endpoints {
				r.endpoints[e] = true
			}
		}
		all[name] = r
	}
	for _, sub := range subgroups {
		for _, sw := range sub.group.Switches {
			r, ok := all[sw.Name]
			if !ok {
				continue
			}
			for _, ep := range sw.Endpoints {
				r.endpoints[int(ep.QPN)&(r.info.EndpointEntries-1)] = true
			}
			rows := sub.Rows[sw.Name]
			for i, p := range sw.Pipes {
				r.pipes[rows.Pipes[i]] = true
				r.outs = append(r.outs, span{rows.Outs[i], rows.Outs[i] + len(p.Outs)})
				r.ins = append(r.ins, span{rows.Ins[i], rows.Ins[i] + len(p.Ins)})
				n := blocksOf(sub.group.ModeOf(&p), sub.group.MTU, p)
				r.blocks = append(r.blocks, span{*p.BaseBlock, *p.BaseBlock + n})
			}
		}
	}
	return all
}

// use is the room as a Placer sees it.
func (r *room) use() Use {
	taken := 0
	for _, b := range r.blocks {
		taken += b.to - b.from
	}
	return Use{
		Endpoints: len(r.endpoints), EndpointsOf: r.info.EndpointEntries, Pipes: len(r.pipes), PipesOf: r.info.PipeEntries,
		Blocks: taken, BlocksOf: r.info.Blocks(), MaxPort: r.info.Ports - 1,
	}
}

func blocksOf(mode, mtu int, p group.Pipe) int {
	return engine.Pipe{Mode: mode, N: p.Slots, MTU: mtu, Ins: make([]int, len(p.Ins)), Outs: make([]int, len(p.Outs)), Reproducible: p.Reproducible}.Blocks()
}

// row takes the first free of n rows.
func row(taken map[int]bool, n int) (int, bool) {
	for i := range n {
		if !taken[i] {
			taken[i] = true
			return i, true
		}
	}
	return 0, false
}

// fit takes the first free span of n within [0, limit), from a multiple of align on.
func fit(taken *[]span, n, limit, align int) (int, bool) {
	slices.SortFunc(*taken, func(a, b span) int { return a.from - b.from })
	at := 0
	for _, s := range *taken {
		if at+n <= s.from {
			break
		}
		at = max(at, (s.to+align-1)/align*align)
	}
	if at+n > limit {
		return 0, false
	}
	*taken = append(*taken, span{at, at + n})
	return at, true
}

// short says what a switch has too little of.
func short(format string, args ...any) error {
	return failure.New(controlpb.Kind_KIND_NO_RESOURCE, nil, format, args...)
}

// plan is a subgroup that fits: its document, still with p0 0, and its rows.
type plan struct {
	group *group.Group
	rows  map[string]target.Rows
}

// maxBaseBlock is the last block at which a pipe may start (rtl/spec/inc.yaml: pipe_cfg.base_block).
const maxBaseBlock = 1<<16 - 1

// layout fits a subgroup of a job into the rooms, which it changes.
func layout(n *Network, j *job, step tree.Step, qpns []uint32, all map[string]*room) (*plan, error) {
	t, err := treeOf(j)
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", j.Name, err)
	}
	pipes, err := t.Pipes(step.Collective, step.Root)
	if err != nil {
		return nil, failure.New(controlpb.Kind_KIND_BAD_REQUEST, nil, "job %s: %v", j.Name, err)
	}
	g := &group.Group{
		Version: group.Version, Mode: j.Terms.Mode, Collective: step.Collective.String(), RootSwitch: j.Placement.Root, MTU: j.Terms.MTU,
		Clock: n.Clock, Timers: n.Timers,
		Host: group.Host{Preset: n.Preset, MessagePackets: j.Terms.MessagePackets, WindowPackets: j.Terms.WindowPackets,
			TimeoutCode: n.TimeoutCode, RetryCnt: 7, RNRRetry: 7, MinRNRTimer: 1},
		Link: group.Link{Gbps: 100}, // of models; the network's own links are as they are
	}
	if step.Collective.HasRoot() {
		g.RootRank = &step.Root
	}
	for r, m := range j.Members {
		g.Ranks = append(g.Ranks, group.Rank{MAC: m.MAC, IP: m.IP, QPN: qpns[r]})
	}
	p := &plan{group: g, rows: map[string]target.Rows{}}
	v4 := j.Members[0].IP.Is4()
	qpnOf := map[edgeEnd]uint32{}
	for s, name := range j.Placement.Switches {
		r, ok := all[name]
		if !ok {
			return nil, failure.New(controlpb.Kind_KIND_SWITCH_LOST, nil, "job %s: switch %s does not answer", j.Name, name)
		}
		if !slices.Contains(r.info.Modes, j.Terms.Mode) {
			return nil, short("job %s: switch %s has not mode %d, it has %v", j.Name, name, j.Terms.Mode, r.info.Modes)
		}
		if j.Terms.MTU > r.info.MTU {
			return nil, short("job %s: switch %s takes payloads of %d bytes at most, MTU is %d", j.Name, name, r.info.MTU, j.Terms.MTU)
		}
		if err := p.pipes(j, t, s, pipes, r); err != nil {
			return nil, err
		}
		for _, neighbour := range t.Neighbours(s) {
			entry, ok := row(r.endpoints, r.info.EndpointEntries)
			if !ok {
				return nil, short("job %s: %v: switch %s has no endpoint left, of %d", j.Name, step, name, r.info.EndpointEntries)
			}
			// QPN 0 and 1 are special in InfiniBand; the bits above the row are free.
			qpnOf[edgeEnd{tree.Switch(s), neighbour}] = uint32(r.info.EndpointEntries + entry)
		}
	}
	for s, name := range j.Placement.Switches {
		own, _ := n.Switch(name)
		ip, _ := own.address(v4)
		for _, neighbour := range t.Neighbours(s) {
			ep := group.Endpoint{Name: t.EndpointName(neighbour), MAC: own.MAC, IP: ip, QPN: qpnOf[edgeEnd{tree.Switch(s), neighbour}],
				PKey: 0xffff, Sport: 49999, TTL: 64}
			if neighbour.IsRank() {
				m := j.Members[neighbour.Index]
				ep.Port, ep.PeerMAC, ep.PeerIP, ep.PeerQPN = m.Place.Port, m.MAC, m.IP, qpns[neighbour.Index]
			} else {
				other, _ := n.Switch(j.Placement.Switches[neighbour.Index])
				ep.Port = cableBetween(j.Placement.Cables, name, other.Name)
				ep.PeerMAC, ep.PeerQPN = other.MAC, qpnOf[edgeEnd{neighbour, tree.Switch(s)}]
				ep.PeerIP, _ = other.address(v4)
			}
			if limit := all[name].info.Ports; ep.Port >= limit {
				return nil, short("job %s: switch %s has ports 0..%d, but %s is said to be at port %d", j.Name, name, limit-1, t.EndpointName(neighbour), ep.Port)
			}
			g.Switches[s].Endpoints = append(g.Switches[s].Endpoints, ep)
		}
	}
	return p, nil
}

// edgeEnd is a switch's end of an edge.
type edgeEnd struct{ at, to tree.Node }

// pipes gives switch s of the tree its pipes, with rows and blocks.
func (p *plan) pipes(j *job, t *tree.Tree, s int, pipes []tree.Pipe, r *room) error {
	name := j.Placement.Switches[s]
	sw := group.Switch{Name: name, Ports: r.info.Ports, EndpointEntries: r.info.EndpointEntries, PipeEntries: r.info.PipeEntries, PoolKB: r.info.PoolKB}
	var rows target.Rows
	for _, want := range pipes {
		if want.Switch != s {
			continue
		}
		if len(want.Ins) > r.info.FanIn {
			return short("job %s: switch %s joins %d contributions at most, %d are wanted", j.Name, name, r.info.FanIn, len(want.Ins))
		}
		pipe := group.Pipe{Name: want.Role.String(), Slots: j.Terms.slots(), Op: j.Terms.Op, DType: j.Terms.DType, Unpinned: !j.Terms.Pinned,
			Reproducible: j.Terms.Reproducible && (!j.Terms.Pinned || len(want.Ins) > 1)}
		for _, in := range want.Ins {
			pipe.Ins = append(pipe.Ins, t.EndpointName(in))
		}
		for _, out := range want.Outs {
			pipe.Outs = append(pipe.Outs, t.EndpointName(out))
		}
		entry, ok := row(r.pipes, r.info.PipeEntries)
		if !ok {
			return short("job %s: switch %s has no pipe left, of %d", j.Name, name, r.info.PipeEntries)
		}
		outs, ok := fit(&r.outs, len(pipe.Outs), r.info.ListEntries, 1)
		if !ok {
			return short("job %s: switch %s has no %d entries of the out list left, of %d", j.Name, name, len(pipe.Outs), r.info.ListEntries)
		}
		ins, ok := fit(&r.ins, len(pipe.Ins), r.info.ListEntries, 1)
		if !ok {
			return short("job %s: switch %s has no %d entries of the in list left, of %d", j.Name, name, len(pipe.Ins), r.info.ListEntries)
		}
		n := blocksOf(j.Terms.Mode, j.Terms.MTU, pipe)
		base, ok := fit(&r.blocks, n, min(r.info.Blocks(), maxBaseBlock+n), j.Terms.MTU/spec.BlockBytes)
		if !ok {
			return short("job %s: switch %s has no %d blocks of the pool in one piece left, of %d (%d slots of %d bytes for a window of %d packets)",
				j.Name, name, n, r.info.Blocks(), n*spec.BlockBytes/j.Terms.MTU, j.Terms.MTU, j.Terms.WindowPackets)
		}
		pipe.BaseBlock = &base
		sw.Pipes = append(sw.Pipes, pipe)
		rows.Pipes, rows.Outs, rows.Ins = append(rows.Pipes, entry), append(rows.Outs, outs), append(rows.Ins, ins)
	}
	p.group.Switches = append(p.group.Switches, sw)
	p.rows[name] = rows
	return nil
}

// finish gives the document its first psn and checks it.
func (p *plan) finish(id string, psn0 psn.PSN) (text string, g *group.Group, err error) {
	for s := range p.group.Switches {
		for i := range p.group.Switches[s].Pipes {
			p.group.Switches[s].Pipes[i].PSN0 = uint32(psn0)
		}
	}
	document, err := p.group.Marshal()
	if err != nil {
		return "", nil, err
	}
	g, err = group.Parse(id, document)
	return string(document), g, err
}

// treeOf is the IncTree of a placed job: switch i is Placement.Switches[i].
func treeOf(j *job) (*tree.Tree, error) {
	index := map[string]int{}
	for i, name := range j.Placement.Switches {
		index[name] = i
	}
	var edges []tree.Edge
	for r, m := range j.Members {
		edges = append(edges, tree.Edge{A: tree.Switch(index[m.Place.Switch]), B: tree.Rank(r)})
	}
	for _, c := range j.Placement.Cables {
		edges = append(edges, tree.Edge{A: tree.Switch(index[c.Between[0]]), B: tree.Switch(index[c.Between[1]])})
	}
	return tree.New(j.Placement.Switches, len(j.Members), edges, index[j.Placement.Root])
}

func cableBetween(cables []Cable, at, to string) (port int) {
	for _, c := range cables {
		if c.Between == [2]string{at, to} || c.Between == [2]string{to, at} {
			port, _, _ = c.ends(at)
		}
	}
	return port
}

// minLeap is the least distance, when queue pairs have used several: more than any window, both ways. A window has no
// more packets than its pool has blocks, 2^16 at most.
const minLeap = 1 << 17

// firstPSN chooses p0 for queue pairs that have sent the psns of `last`, each the last of one direction: the last plus
// psn.Leap where all are the same (protocol.md 2). Where they differ, one that is at least as far from each, and failing
// that the middle of the widest gap between them. With no past any psn does: fresh.
func firstPSN(last []psn.PSN, fresh psn.PSN) (psn.PSN, error) {
	if len(last) == 0 {
		return fresh, nil
	}
	distinct := map[psn.PSN]bool{}
	for _, l := range last {
		distinct[l] = true
	}
	sorted := slices.Sorted(maps.Keys(distinct))
	apart := func(p psn.PSN) bool {
		for _, l := range sorted {
			if d := psn.Sub(p, l); max(d, -d) < psn.Leap {
				return false
			}
		}
		return true
	}
	for _, l := range sorted {
		if p := psn.Add(l, psn.Leap); apart(p) {
			return p, nil
		}
	}
	var best psn.PSN
	widest := 0
	for i, l := range sorted {
		next := sorted[(i+1)%len(sorted)]
		if gap := int(uint32(next-l) & psn.Mask); gap > widest {
			widest, best = gap, psn.Add(l, gap/2)
		}
	}
	if widest/2 < minLeap {
		return 0, short("the queue pairs have used PSNs all over the circle, at most %d apart: use other ones", widest)
	}
	return best, nil
}
