package group

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/reduce"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// check makes the checks that a schema cannot say. It runs on a group that fits the schema.
type check struct {
	g *Group
	d *document
}

// peer is what an endpoint's peer addresses lead to.
type peer struct {
	node     tree.Node
	endpoint int // at a switch
	subgroup int // at a rank: whose queue pair
	known    bool
}

func newCheck(g *Group, d *document) *check { return &check{g: g, d: d} }

func (c *check) bad(place, format string, args ...any) {
	c.d.fail(c.d.at(place), place, format, args...)
}

func place(format string, args ...any) string { return fmt.Sprintf(format, args...) }

func (c *check) run() {
	c.names()
	c.addresses()
	c.ranks()
	c.subgroups()
	for s := range c.g.Switches {
		c.endpoints(s)
		c.pipes(s)
		c.pool(s)
	}
	if len(c.d.problems) > 0 {
		return // the checks below need references that exist
	}
	c.collective()
	c.connect()
	if len(c.d.problems) > 0 {
		return
	}
	c.tree()
	if len(c.d.problems) > 0 {
		return
	}
	for s := range c.g.Switches {
		// The engine has the last word; what it refuses was said above with its line, or is said here.
		cfg, err := c.g.engineConfig(s)
		if err == nil {
			err = cfg.Validate()
		}
		if err != nil {
			c.bad(place("/switches/%d", s), "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
}

// names finds names given twice, and references to names that do not exist.
func (c *check) names() {
	switches := map[string]int{}
	for s, sw := range c.g.Switches {
		at := place("/switches/%d", s)
		c.once(switches, sw.Name, s, at+"/name", "switch")
		if sw.Name == "rank" {
			c.bad(at+"/name", `got "rank", want another name: links name ranks as rank/3`)
		}
		endpoints, pipes := map[string]int{}, map[string]int{}
		for e, ep := range sw.Endpoints {
			c.once(endpoints, ep.Name, e, place("%s/endpoints/%d/name", at, e), "endpoint")
		}
		for p, pipe := range sw.Pipes {
			c.once(pipes, pipe.Name, p, place("%s/pipes/%d/name", at, p), "pipe")
			for _, side := range []struct {
				name string
				list []string
			}{{"ins", pipe.Ins}, {"outs", pipe.Outs}} {
				seen := map[string]int{}
				for i, name := range side.list {
					here := place("%s/pipes/%d/%s/%d", at, p, side.name, i)
					c.once(seen, name, i, here, side.name[:len(side.name)-1])
					if _, ok := endpoints[name]; !ok {
						c.bad(here, "got %q, want an endpoint of switch %s: %s", name, sw.Name, sw.endpointNames())
					}
				}
			}
		}
	}
	if n := c.g.RootSwitch; n != "" {
		if _, ok := switches[n]; !ok {
			c.bad("/root_switch", "got %q, want a switch: %s", n, c.g.switchNames())
		}
	}
	pairs := map[string]int{}
	for l, link := range c.g.Links {
		at := place("/links/%d/ends", l)
		for i, end := range link.Ends {
			here := place("%s/%d", at, i)
			if r, ok := strings.CutPrefix(end, "rank/"); ok {
				n, err := strconv.Atoi(r)
				if err != nil || n >= len(c.g.Ranks) || RankName(n) != end {
					c.bad(here, "got %q, want one of %d ranks, rank/0 and up", end, len(c.g.Ranks))
				}
			} else if _, ok := switches[end]; !ok {
				c.bad(here, "got %q, want a switch (%s) or rank/N", end, c.g.switchNames())
			}
		}
		ends := []string{link.Ends[0], link.Ends[1]}
		slices.Sort(ends)
		c.once(pairs, strings.Join(ends, " and "), l, at, "link between")
	}
}

func (c *check) once(seen map[string]int, name string, i int, at, what string) {
	if first, twice := seen[name]; twice {
		c.bad(at, "%s %s is entry %d already", what, name, first)
		return
	}
	seen[name] = i
}

func (s Switch) endpointNames() string {
	var n []string
	for _, e := range s.Endpoints {
		n = append(n, e.Name)
	}
	return some(n)
}

func (g *Group) switchNames() string {
	var n []string
	for _, s := range g.Switches {
		n = append(n, s.Name)
	}
	return some(n)
}

// some lists at most eight names.
func some(names []string) string {
	if len(names) > 8 {
		return strings.Join(names[:8], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}

// addresses checks every IP and MAC.
func (c *check) addresses() {
	ip := func(at string, a IP) {
		text := c.d.text(at)
		switch {
		case !a.IsValid():
			c.bad(at, "got %q, want an IPv4 or IPv6 address as 10.9.0.1 or fd00::1", text)
		case a.IsMulticast() || a.IsUnspecified():
			c.bad(at, "got %q, want the address of one host", text)
		}
	}
	mac := func(at string, m MAC) {
		if m[0]&1 != 0 || m == (MAC{}) {
			c.bad(at, "got %q, want the address of one station (bit 0 of the first byte is 0)", m)
		}
	}
	for s, sw := range c.g.Switches {
		for e, ep := range sw.Endpoints {
			at := place("/switches/%d/endpoints/%d", s, e)
			ip(at+"/ip", ep.IP)
			ip(at+"/peer_ip", ep.PeerIP)
			mac(at+"/mac", ep.MAC)
			mac(at+"/peer_mac", ep.PeerMAC)
			if ep.IP.IsValid() && ep.PeerIP.IsValid() && ep.IP.Is4() != ep.PeerIP.Is4() {
				c.bad(at+"/peer_ip", "got %v, want the IP version of the endpoint's own %v", ep.PeerIP, ep.IP)
			}
			if ep.IP.IsValid() && ep.IP == ep.PeerIP && ep.QPN == ep.PeerQPN {
				c.bad(at+"/peer_qpn", "endpoint is its own peer: IP %v and QPN %#06x at both ends", ep.IP, ep.QPN)
			}
			if ep.PKey&0x7fff == 0 {
				c.bad(at+"/pkey", "got %#04x, want a partition: its low 15 bits must not be 0", ep.PKey)
			}
			if ep.TOS&3 != 0 {
				c.bad(at+"/tos", "got %#02x, want ECN bits 1:0 of 0: the engine sets them when a contribution was marked", ep.TOS)
			}
		}
	}
	for r, rank := range c.g.Ranks {
		at := place("/ranks/%d", r)
		ip(at+"/ip", rank.IP)
		mac(at+"/mac", rank.MAC)
	}
}

// text is the value in the file at a place, as written.
func (d *document) text(place string) string {
	here := d.root
	for _, t := range strings.Split(strings.TrimPrefix(place, "/"), "/") {
		switch v := here.(type) {
		case map[string]any:
			here = v[unescape(t)]
		case []any:
			i, err := strconv.Atoi(t)
			if err != nil || i >= len(v) {
				return ""
			}
			here = v[i]
		}
	}
	return fmt.Sprint(here)
}

func (c *check) ranks() {
	for r, rank := range c.g.Ranks {
		for q, other := range c.g.Ranks[:r] {
			if rank.IP.IsValid() && rank.IP == other.IP {
				c.bad(place("/ranks/%d/ip", r), "%v is rank %d's already", rank.IP, q)
			}
			if rank.MAC == other.MAC {
				c.bad(place("/ranks/%d/mac", r), "%v is rank %d's already", rank.MAC, q)
			}
		}
	}
	if w, n := c.g.Host.WindowPackets, c.g.Host.MessagePackets; c.d.given("/host/window_packets") && c.d.given("/host/message_packets") && w < n {
		c.bad("/host/window_packets", "got %d, want at least the %d packets of one message", w, n)
	}
}

// given says whether the file itself has a value at a place.
func (d *document) given(place string) bool {
	_, ok := d.values[place]
	return ok
}

// subgroups checks the list itself, and that each pipe names one of it if there is one.
func (c *check) subgroups() {
	g := c.g
	names, users := map[string]int{}, map[string]int{}
	if len(g.Subgroups) == 0 {
		for r := range g.Ranks {
			if g.Ranks[r].QPN == 0 {
				c.bad(place("/ranks/%d", r), "field qpn is missing (queue pair number, 24 bits), or subgroups with qpns")
			}
		}
	} else {
		for field, given := range map[string]bool{"collective": g.Collective != "", "root_rank": g.RootRank != nil} {
			if given {
				c.bad("/"+field, "given with subgroups, want one of them: each subgroup has its own")
			}
		}
		for r := range g.Ranks {
			if g.Ranks[r].QPN != 0 {
				c.bad(place("/ranks/%d/qpn", r), "given with subgroups, want none: each subgroup has its qpns")
			}
		}
	}
	for i, s := range g.Subgroups {
		at := place("/subgroups/%d", i)
		c.once(names, s.Name, i, at+"/name", "subgroup")
		if len(s.QPNs) != len(g.Ranks) {
			c.bad(at+"/qpns", "got %d, want %d, one for each rank", len(s.QPNs), len(g.Ranks))
		}
		kind, _ := tree.ParseCollective(s.Collective) // the schema knows the names
		root := 0
		if s.RootRank != nil {
			root = *s.RootRank
		}
		switch {
		case kind.HasRoot() && s.RootRank == nil:
			c.bad(at+"/collective", "%s has no root_rank, want 0..%d", s.Collective, len(g.Ranks)-1)
		case !kind.HasRoot() && s.RootRank != nil:
			c.bad(at+"/root_rank", "got %d with collective %s, want none: only reduce and broadcast have a root rank", root, s.Collective)
		case s.RootRank != nil && root >= len(g.Ranks):
			c.bad(at+"/root_rank", "got %d, want 0..%d", root, len(g.Ranks)-1)
		default:
			c.once(users, tree.Step{Collective: kind, Root: root}.String(), i, at+"/collective", "the subgroup of")
		}
	}
	for s, sw := range g.Switches {
		for p, pipe := range sw.Pipes {
			at := place("/switches/%d/pipes/%d", s, p)
			_, known := names[pipe.Subgroup]
			switch {
			case len(g.Subgroups) == 0 && pipe.Subgroup != "":
				c.bad(at+"/subgroup", "got %q, but the group has no subgroups", pipe.Subgroup)
			case len(g.Subgroups) > 0 && !known:
				var list []string
				for _, s := range g.Subgroups {
					list = append(list, s.Name)
				}
				c.bad(at+"/subgroup", "got %q, want a subgroup: %s", pipe.Subgroup, some(list))
			}
		}
	}
}

func (c *check) endpoints(s int) {
	sw := c.g.Switches[s]
	at := func(e int, field string) string { return place("/switches/%d/endpoints/%d/%s", s, e, field) }
	if len(sw.Endpoints) > sw.EndpointEntries {
		c.bad(place("/switches/%d/endpoints", s), "got %d endpoints, want at most endpoint_entries, %d", len(sw.Endpoints), sw.EndpointEntries)
	}
	qpns, rows := map[uint32]int{}, map[uint32]int{}
	in, out := map[string]int{}, map[string]int{}
	for p, pipe := range sw.Pipes {
		for i, n := range pipe.Ins {
			if q, twice := in[n]; twice {
				c.bad(place("/switches/%d/pipes/%d/ins/%d", s, p, i), "endpoint %s is an in of pipe %s already, want one pipe in each direction", n, sw.Pipes[q].Name)
			}
			in[n] = p
		}
		for i, n := range pipe.Outs {
			if q, twice := out[n]; twice {
				c.bad(place("/switches/%d/pipes/%d/outs/%d", s, p, i), "endpoint %s is an out of pipe %s already, want one pipe in each direction", n, sw.Pipes[q].Name)
			}
			out[n] = p
		}
	}
	for e, ep := range sw.Endpoints {
		if ep.Port >= sw.Ports {
			c.bad(at(e, "port"), "got %d, want 0..%d, a port of switch %s", ep.Port, sw.Ports-1, sw.Name)
		}
		row := ep.QPN & uint32(sw.EndpointEntries-1)
		if first, twice := qpns[ep.QPN]; twice {
			c.bad(at(e, "qpn"), "QPN %#06x is endpoint %s's already, want another", ep.QPN, sw.Endpoints[first].Name)
		} else if first, twice := rows[row]; twice {
			c.bad(at(e, "qpn"), "QPN %#06x has the low %d bits of endpoint %s's %#06x, want others: they are the row in the table of endpoint_entries %d",
				ep.QPN, bits.TrailingZeros(uint(sw.EndpointEntries)), sw.Endpoints[first].Name, sw.Endpoints[first].QPN, sw.EndpointEntries)
		} else {
			rows[row] = e
		}
		qpns[ep.QPN] = e
		p, isIn := in[ep.Name]
		q, isOut := out[ep.Name]
		if !isIn && !isOut {
			c.bad(at(e, "name"), "endpoint %s is neither an in nor an out of a pipe", ep.Name)
		}
		if isIn && isOut && sw.Pipes[p].Subgroup != sw.Pipes[q].Subgroup {
			c.bad(place("/switches/%d/pipes/%d/subgroup", s, q), "got %q, want %q as pipe %s: they share endpoint %s",
				sw.Pipes[q].Subgroup, sw.Pipes[p].Subgroup, sw.Pipes[p].Name, ep.Name)
		}
		if isIn && isOut && sw.Pipes[p].PSN0 != sw.Pipes[q].PSN0 {
			if !c.d.given(place("/switches/%d/pipes/%d/psn0", s, q)) {
				p, q = q, p // say it where the file says something
			}
			c.bad(place("/switches/%d/pipes/%d/psn0", s, q), "got %#06x, want %#06x as pipe %s: they share endpoint %s, which has one first PSN",
				sw.Pipes[q].PSN0, sw.Pipes[p].PSN0, sw.Pipes[p].Name, ep.Name)
		}
	}
}

func (c *check) pipes(s int) {
	sw := c.g.Switches[s]
	if len(sw.Pipes) > sw.PipeEntries {
		c.bad(place("/switches/%d/pipes", s), "got %d pipes, want at most pipe_entries, %d", len(sw.Pipes), sw.PipeEntries)
	}
	for p, pipe := range sw.Pipes {
		at := place("/switches/%d/pipes/%d", s, p)
		if bits.OnesCount(uint(pipe.Slots)) != 1 {
			c.bad(at+"/slots", "got %d, want a power of two, 2..%d: psn mod N must be continuous where the PSN wraps", pipe.Slots, engine.MaxSlots)
		} else if a := c.g.Timers.AckEvery; c.g.ModeOf(&pipe) != 2 && a > max(1, pipe.Slots/4) {
			c.bad("/timers/ack_every", "got %d, want at most %d: a quarter of the %d slots of pipe %s of switch %s", a, max(1, pipe.Slots/4), pipe.Slots, pipe.Name, sw.Name)
		}
		if m := c.g.Host.MessagePackets; c.g.ModeOf(&pipe) == 1 && m > pipe.Slots {
			c.bad(at+"/slots", "got %d, want at least %d in mode 1, in which a buffer takes a whole message: message_packets", pipe.Slots, m)
		}
		if h := &c.g.Host; c.g.ModeOf(&pipe) == 2 {
			if h.WindowPackets > pipe.Slots/2 {
				c.bad(at+"/slots", "got %d, want at least %d in mode 2: twice window_packets", pipe.Slots, 2*h.WindowPackets)
			}
			if h.RetryCnt != 7 || h.RNRRetry != 7 || h.TimeoutCode == 0 {
				c.bad("/host", "got retry_cnt %d, rnr_retry %d, timeout_code %d, want 7, 7 and 1..31: pipe %s of switch %s is of mode 2, in which the ranks alone send again",
					h.RetryCnt, h.RNRRetry, h.TimeoutCode, pipe.Name, sw.Name)
			}
		}
		if err := reduce.Supported(pipe.DType, pipe.Op); err != nil {
			field := "/dtype"
			if c.d.given(at + "/op") {
				field = "/op"
			}
			c.bad(at+field, "%v", err)
		}
		if size, err := reduce.ElementBytes(pipe.DType); err == nil && c.g.MTU%size != 0 {
			c.bad("/mtu", "got %d, want a multiple of the %d bytes of %v", c.g.MTU, size, pipe.DType)
		}
	}
}

func (c *check) pool(s int) {
	sw := c.g.Switches[s]
	total := spec.PoolBlocks(sw.PoolKB)
	for p, pipe := range sw.Pipes {
		at := place("/switches/%d/pipes/%d", s, p)
		n, base := c.g.blocks(&pipe), *pipe.BaseBlock
		if base+n > total {
			field := "/slots"
			if c.d.given(at + "/base_block") {
				field = "/base_block"
			}
			c.bad(at+field, "pipe %s takes blocks %d..%d (%d slots of %d bytes), want at most %d blocks of %d bytes: pool_kb is %d",
				pipe.Name, base, base+n-1, pipe.Slots, c.g.MTU, total, spec.BlockBytes, sw.PoolKB)
		}
		if base > 1<<16-1 {
			c.bad(at+"/slots", "pipe %s starts at block %d, want 0..65535", pipe.Name, base)
		}
		for _, q := range sw.Pipes[:p] {
			if base < *q.BaseBlock+c.g.blocks(&q) && *q.BaseBlock < base+n {
				c.bad(at+"/base_block", "blocks %d..%d overlap those of pipe %s, %d..%d", base, base+n-1, q.Name, *q.BaseBlock, *q.BaseBlock+c.g.blocks(&q)-1)
			}
		}
	}
}

func (c *check) collective() {
	kind, _ := tree.ParseCollective(c.g.Collective) // the schema knows the names; none is the first case
	switch {
	case c.g.Collective == "" && c.g.RootRank != nil:
		c.bad("/root_rank", "given without collective, want collective: reduce or broadcast")
	case c.g.RootRank == nil && kind.HasRoot():
		c.bad("/collective", "%s has no root_rank, want 0..%d", c.g.Collective, len(c.g.Ranks)-1)
	case c.g.RootRank != nil && !kind.HasRoot():
		c.bad("/root_rank", "got %d with collective %s, want none: only reduce and broadcast have a root rank", *c.g.RootRank, c.g.Collective)
	case c.g.RootRank != nil && *c.g.RootRank >= len(c.g.Ranks):
		c.bad("/root_rank", "got %d, want 0..%d", *c.g.RootRank, len(c.g.Ranks)-1)
	}
}

// connect finds the peer of every endpoint and checks that both ends agree.
func (c *check) connect() {
	type address struct {
		ip  IP
		qpn uint32
	}
	type station struct {
		peer
		mac  MAC
		name string
	}
	at := map[address]station{}
	ips := map[IP]string{}
	subgroups := c.g.SubgroupList()
	for i, sub := range subgroups {
		for r, rank := range c.g.Ranks {
			a := address{rank.IP, sub.QPNs[r]}
			if other, twice := at[a]; twice {
				c.bad(place("/subgroups/%d/qpns/%d", i, r), "got %#06x, which %s has in subgroup %s already", sub.QPNs[r], RankName(r), subgroups[other.subgroup].Name)
			}
			at[a] = station{peer{tree.Rank(r), 0, i, true}, rank.MAC, RankName(r)}
			if _, known := ips[rank.IP]; !known {
				ips[rank.IP] = place("%s has QPN %#06x", RankName(r), sub.QPNs[r])
			}
		}
	}
	for s, sw := range c.g.Switches {
		for e, ep := range sw.Endpoints {
			a := address{ep.IP, ep.QPN}
			name := place("endpoint %s of switch %s", ep.Name, sw.Name)
			if other, twice := at[a]; twice {
				c.bad(place("/switches/%d/endpoints/%d/ip", s, e), "IP %v and QPN %#06x are those of %s", ep.IP, ep.QPN, other.name)
				continue
			}
			at[a] = station{peer{tree.Switch(s), e, 0, true}, ep.MAC, name}
			if _, known := ips[ep.IP]; !known {
				ips[ep.IP] = place("%s has QPN %#06x", name, ep.QPN)
			}
		}
	}
	c.g.peers = make([][]peer, len(c.g.Switches))
	type queuePair struct{ rank, subgroup int }
	served := map[queuePair]string{} // -> endpoint
	for s, sw := range c.g.Switches {
		ports, links := map[int]station{}, map[tree.Node]int{}
		for e, ep := range sw.Endpoints {
			here := place("/switches/%d/endpoints/%d", s, e)
			to, ok := at[address{ep.PeerIP, ep.PeerQPN}]
			if !ok {
				if hint, known := ips[ep.PeerIP]; known {
					c.bad(here+"/peer_qpn", "no rank or endpoint at %v has QPN %#06x, want an existing peer (%s)", ep.PeerIP, ep.PeerQPN, hint)
				} else {
					c.bad(here+"/peer_ip", "no rank or endpoint has IP %v, want an existing peer", ep.PeerIP)
				}
				c.g.peers[s] = append(c.g.peers[s], peer{})
				continue
			}
			c.g.peers[s] = append(c.g.peers[s], to.peer)
			if ep.PeerMAC != to.mac {
				c.bad(here+"/peer_mac", "got %v, want %v as %s says", ep.PeerMAC, to.mac, to.name)
			}
			if other, used := ports[ep.Port]; used && other.node != to.node {
				c.bad(here+"/port", "port %d leads to %s, but also to %s, want one neighbour at a port", ep.Port, to.name, other.name)
			}
			ports[ep.Port] = to
			if port, used := links[to.node]; used && port != ep.Port {
				c.bad(here+"/port", "got %d, but port %d leads to %s already, want one port for a neighbour", ep.Port, port, to.name)
			}
			links[to.node] = ep.Port
			if to.node.IsRank() {
				name := place("endpoint %s of switch %s", ep.Name, sw.Name)
				qp := queuePair{to.node.Index, to.subgroup}
				if first, twice := served[qp]; twice {
					c.bad(here+"/peer_qpn", "%s is the peer of %s already, want one endpoint for each queue pair of a rank", to.name, first)
				}
				served[qp] = name
				if in, out := sw.pipesOf(ep.Name); len(c.g.Subgroups) > 0 {
					for _, p := range []*Pipe{in, out} {
						if want := subgroups[to.subgroup].Name; p != nil && p.Subgroup != want {
							c.bad(here+"/peer_qpn", "%s has QPN %#06x in subgroup %s, but pipe %s is of %s", to.name, ep.PeerQPN, want, p.Name, p.Subgroup)
						}
					}
				}
				continue
			}
			back := c.g.Switches[to.node.Index].Endpoints[to.endpoint]
			if back.PeerIP != ep.IP || back.PeerQPN != ep.QPN {
				c.bad(here+"/peer_qpn", "%s has peer %v QPN %#06x, want %v QPN %#06x: the two ends must name each other",
					to.name, back.PeerIP, back.PeerQPN, ep.IP, ep.QPN)
			}
			c.flow(s, e, to.node.Index, to.endpoint, here, to.name)
			if (back.PKey^ep.PKey)&0x7fff != 0 || (back.PKey|ep.PKey)&0x8000 == 0 {
				c.bad(here+"/pkey", "got %#04x, want the partition of %s, %#04x, with one full member at least", ep.PKey, to.name, back.PKey)
			}
		}
	}
	for i, sub := range subgroups {
		for r := range c.g.Ranks {
			if _, ok := served[queuePair{r, i}]; !ok {
				what := ""
				if sub.Name != "" {
					what = " in subgroup " + sub.Name
				}
				c.bad(place("/ranks/%d", r), "no endpoint has rank %d as its peer%s", r, what)
			}
		}
	}
}

// flow checks that what leaves one end of an edge between switches is taken at the other, from the
// same first PSN.
func (c *check) flow(s, e, peerSwitch, peerEndpoint int, here, peerName string) {
	near, far := &c.g.Switches[s], &c.g.Switches[peerSwitch]
	_, out := near.pipesOf(near.Endpoints[e].Name)
	in, _ := far.pipesOf(far.Endpoints[peerEndpoint].Name)
	switch {
	case out == nil:
	case in == nil:
		c.bad(here+"/peer_qpn", "pipe %s sends to %s, which is no in of a pipe", out.Name, peerName)
	case in.Subgroup != out.Subgroup:
		c.bad(here+"/peer_qpn", "pipe %s is of subgroup %s, but pipe %s of switch %s, which it sends to, of %s", out.Name, out.Subgroup, in.Name, far.Name, in.Subgroup)
	case in.PSN0 != out.PSN0:
		c.bad(here+"/peer_qpn", "pipe %s starts at PSN %#06x, but pipe %s of switch %s, which it sends to, at %#06x",
			out.Name, out.PSN0, in.Name, far.Name, in.PSN0)
	}
}

// pipesOf finds the pipes that have the endpoint as an in and as an out; nil where there is none.
func (s *Switch) pipesOf(endpoint string) (in, out *Pipe) {
	for p := range s.Pipes {
		if slices.Contains(s.Pipes[p].Ins, endpoint) {
			in = &s.Pipes[p]
		}
		if slices.Contains(s.Pipes[p].Outs, endpoint) {
			out = &s.Pipes[p]
		}
	}
	return in, out
}

// tree checks that the edges are a tree and the pipes those of the collective.
func (c *check) tree() {
	if len(c.g.Ranks) == 0 {
		if c.g.Collective != "" {
			c.bad("/collective", "got %s and no ranks, want ranks", c.g.Collective)
		}
		return
	}
	t, err := c.g.Tree()
	if err != nil {
		c.bad("/switches", "%v", err)
		return
	}
	for l, link := range c.g.Links {
		if !joined(t, c.g, link.Ends) {
			c.bad(place("/links/%d/ends", l), "%s and %s are not neighbours", link.Ends[0], link.Ends[1])
		}
	}
	for i, sub := range c.g.SubgroupList() {
		if sub.Collective != "" {
			c.pipesOf(t, i, sub)
		}
	}
}

// pipesOf checks that the pipes of a subgroup are those of its collective.
func (c *check) pipesOf(t *tree.Tree, index int, sub Subgroup) {
	where := "/collective"
	if sub.Name != "" {
		where = place("/subgroups/%d/collective", index)
	}
	kind, err := tree.ParseCollective(sub.Collective)
	if err != nil {
		c.bad(where, "%v", err)
		return
	}
	root := 0
	if sub.RootRank != nil {
		root = *sub.RootRank
	}
	want, err := t.Pipes(kind, root)
	if err != nil {
		c.bad(where, "%v", err)
		return
	}
	for s, sw := range c.g.Switches {
		var need []tree.Pipe
		for _, w := range want {
			if w.Switch == s {
				need = append(need, w)
			}
		}
		neighbour := map[string]tree.Node{}
		for e, ep := range sw.Endpoints {
			neighbour[ep.Name] = c.g.peers[s][e].node
		}
		sides := func(ins, outs []tree.Node) string {
			return place("from %s to %s", c.nodeNames(t, ins), c.nodeNames(t, outs))
		}
		before := len(c.d.problems)
		for p, pipe := range sw.Pipes {
			if pipe.Subgroup != sub.Name {
				continue
			}
			var ins, outs []tree.Node
			for _, n := range pipe.Ins {
				ins = append(ins, neighbour[n])
			}
			for _, n := range pipe.Outs {
				outs = append(outs, neighbour[n])
			}
			got := sides(ins, outs)
			i := slices.IndexFunc(need, func(w tree.Pipe) bool { return sides(w.Ins, w.Outs) == got })
			if i < 0 {
				var allowed []string
				for _, w := range need {
					allowed = append(allowed, sides(w.Ins, w.Outs))
				}
				if len(allowed) == 0 {
					allowed = []string{"none more"}
				}
				c.bad(place("/switches/%d/pipes/%d", s, p), "pipe %s goes %s, want for %v: %s", pipe.Name, got, kind, strings.Join(allowed, "; "))
				continue
			}
			need = slices.Delete(need, i, i+1)
		}
		if len(c.d.problems) > before {
			continue
		}
		for _, w := range need {
			c.bad(place("/switches/%d/pipes", s), "%v needs a pipe %s", tree.Step{Collective: kind, Root: root}, sides(w.Ins, w.Outs))
		}
	}
}

// nodeNames lists nodes in an order of their own: that of a pipe's ins is free.
func (c *check) nodeNames(t *tree.Tree, nodes []tree.Node) string {
	var names []string
	for _, n := range nodes {
		names = append(names, t.Name(n))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func joined(t *tree.Tree, g *Group, ends [2]string) bool {
	for _, e := range t.Edges() {
		a, b := g.nodeName(e.A), g.nodeName(e.B)
		if a == ends[0] && b == ends[1] || a == ends[1] && b == ends[0] {
			return true
		}
	}
	return false
}
