// Package doctor says why nothing flows: it looks at the interfaces of ranks, asks the switches over them, and reads what
// the switches have counted and wait for, and turns that into findings that name a rank, what was got and what to do.
package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/epic-inc/epic/driver/softswitch"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// Kind of a finding, the likely cause before what follows from it.
type Kind string

// The kinds, in the order in which they are told.
const (
	Switch  Kind = "switch"  // one does not say how it is
	Link    Kind = "link"    // an interface or port is down or not there
	Address Kind = "address" // a MAC or IP address is not the group's
	MTU     Kind = "mtu"
	ARP     Kind = "arp"
	Echo    Kind = "echo"
	ICRC    Kind = "icrc"
	Frame   Kind = "frame" // frames are malformed in another way
	QPN     Kind = "qpn"
	PSN     Kind = "psn"
	Error   Kind = "error" // a pipe is in error
	Silent  Kind = "silent"
	Waits   Kind = "waits"   // a psn of a rank is missing
	Unacked Kind = "unacked" // a rank does not acknowledge
)

var kinds = []Kind{Switch, Link, Address, MTU, ARP, Echo, ICRC, Frame, QPN, PSN, Error, Silent, Waits, Unacked}

// NoRank is the rank of a finding about none.
const NoRank = -1

// Finding is one thing that is not as it should be.
type Finding struct {
	Kind   Kind   `json:"kind"`
	Group  int    `json:"group"`
	Rank   int    `json:"rank"`   // NoRank: not about a rank
	Switch string `json:"switch"` // empty: seen at the rank's interface
	Text   string `json:"text"`   // what was got and what is wanted
	Do     string `json:"do"`     // what to look at
}

// Report is all findings, causes first.
type Report struct {
	Findings []Finding `json:"findings"`
	// Looked says what was looked at, so that no finding means something.
	Looked []string `json:"looked"`
}

// WriteText prints a line for each finding and what to do about it.
func (r *Report) WriteText(w io.Writer) error {
	for _, f := range r.Findings {
		where := "rank " + fmt.Sprint(f.Rank)
		if f.Rank == NoRank {
			where = "switch " + f.Switch
		}
		if _, err := fmt.Fprintf(w, "%s: %s: %s\n    %s\n", f.Kind, where, f.Text, f.Do); err != nil {
			return err
		}
	}
	end := fmt.Sprintf("%d findings", len(r.Findings))
	if len(r.Findings) == 0 {
		end = "nothing is wrong that can be seen"
	}
	_, err := fmt.Fprintf(w, "%s; looked at %s\n", end, strings.Join(r.Looked, ", "))
	return err
}

// Diagnose reads what was seen at hosts and switches, and which switches were not heard.
func Diagnose(groups []*group.Group, hosts []Host, states []softswitch.State, unheard []Unheard) *Report {
	d := &diagnosis{groups: groups}
	for _, h := range hosts {
		d.host(h)
		d.looked = append(d.looked, fmt.Sprintf("interface %s of rank %d", h.Interface, h.Rank))
	}
	for _, s := range states {
		d.at = s
		d.state()
		d.looked = append(d.looked, "switch "+s.Switch)
	}
	for _, u := range unheard {
		d.unheard(u)
		d.looked = append(d.looked, "switch "+u.Name)
	}
	slices.SortStableFunc(d.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)), cmp.Compare(uint(a.Rank), uint(b.Rank))) // NoRank after all ranks
	})
	return &Report{Findings: d.findings, Looked: d.looked}
}

type diagnosis struct {
	groups   []*group.Group
	at       softswitch.State
	findings []Finding
	looked   []string
}

func (d *diagnosis) add(f Finding) { d.findings = append(d.findings, f) }

// host judges what was seen at the interface of a rank.
func (d *diagnosis) host(h Host) {
	g := d.groups[h.Group]
	rank := g.Ranks[h.Rank]
	bad := func(k Kind, do, format string, args ...any) {
		d.add(Finding{Kind: k, Group: h.Group, Rank: h.Rank, Text: fmt.Sprintf(format, args...), Do: do})
	}
	switch {
	case h.Err != "":
		bad(Link, "check the name of the interface, and that this runs where the rank does", "interface %s: %s", h.Interface, h.Err)
		return
	case !h.Up:
		bad(Link, "ip link set "+h.Interface+" up", "interface %s is down", h.Interface)
		return
	case !h.Carrier:
		bad(Link, "check the cable, and that the port at its other end is up", "interface %s has no carrier: nothing is connected, or the other end is down", h.Interface)
		return
	}
	if h.MAC != rank.MAC.String() {
		bad(Address, "give the interface the group's MAC, or the group the interface's", "interface %s has MAC %s, the group has %v", h.Interface, h.MAC, rank.MAC)
	}
	if !h.has(rank.IP.Addr) {
		bad(Address, giveIP(h.Interface, rank.IP.Addr), "interface %s has %s, the group has %v", h.Interface, h.addresses(), rank.IP)
	}
	if need := roce.IPBytes(g.MTU, rank.IP.Is6()); h.MTU < need {
		bad(MTU, fmt.Sprintf("ip link set %s mtu %d, at every hop", h.Interface, need), "interface %s has MTU %d, packets of %d bytes need %d", h.Interface, h.MTU, g.MTU, need)
	}
	for _, p := range h.Peers {
		switch {
		case p.MAC == "":
			bad(ARP, "check that the switch runs, has the group, and that the cable leads to it", "nobody answers for %v, its switch", p.IP)
		case p.MAC != p.Want:
			bad(ARP, "another host has the switch's address, or the group another switch's MAC", "%v, its switch, has MAC %s, the group has %s", p.IP, p.MAC, p.Want)
		case !p.Echo:
			bad(Echo, "something between lets ARP pass and not IP", "%v answers ARP and no echo request", p.IP)
		case !p.Full && h.MTU >= roce.IPBytes(g.MTU, rank.IP.Is6()):
			bad(MTU, "a link between has a smaller MTU", "an echo request of %d bytes to %v is not answered, a short one is", roce.IPBytes(g.MTU, rank.IP.Is6()), p.IP)
		}
	}
}

// giveIP says how an interface gets the address of a rank, and who needs it: a rank of epic sends, receives and
// answers for its address beside the kernel, and takes it from the interface only if nobody else says it.
func giveIP(name string, ip netip.Addr) string {
	text := fmt.Sprintf("give the interface the group's IP (ip address add %v/%d dev %s) and routes to its switches, or the group the interface's; "+
		"the kernel's RoCE stack has no GID without it and cannot use the interface, epic rank with the group's file or --ip does without", ip, ip.BitLen(), name)
	if ip.Is6() {
		text += fmt.Sprintf(" (IPv6 addresses go when an interface goes down, unless net.ipv6.conf.%s.keep_addr_on_down is 1)", name)
	}
	return text
}

// addresses are the IP addresses of the interface, in words.
func (h *Host) addresses() string {
	if len(h.IPs) == 0 {
		return "no IP address"
	}
	var list []string
	for _, p := range h.IPs {
		list = append(list, p.String())
	}
	return "IP " + strings.Join(list, ", ")
}

// unheard judges a switch that did not say how it is.
func (d *diagnosis) unheard(u Unheard) {
	f := Finding{Kind: Switch, Rank: NoRank, Switch: u.Name,
		Text: fmt.Sprintf("nobody listens at %s: it does not run, or was started without --metrics %s", u.Address, u.Address),
		Do:   "start it, after epic lab again if ranks have run: " + u.Start}
	if !errors.Is(u.Err, fs.ErrNotExist) && !errors.Is(u.Err, syscall.ECONNREFUSED) {
		f.Text = fmt.Sprintf("it does not say how it is at %s: %v", u.Address, u.Err)
		f.Do = "if it hangs kill it, and start it, after epic lab again if ranks have run: " + u.Start
	}
	d.add(f)
}

// rankOf finds the rank at a port of the switch whose state is looked at.
func (d *diagnosis) rankOf(port int) (groupIndex, rank int) {
	for i, g := range d.groups {
		s, there := g.SwitchIndex(d.at.Switch)
		if !there {
			continue
		}
		for e, ep := range g.Switches[s].Endpoints {
			if p := g.Peer(s, e); ep.Port == port && p.Node.IsRank() {
				return i, p.Node.Index
			}
		}
	}
	return 0, NoRank
}

func (d *diagnosis) port(port int, k Kind, do, format string, args ...any) {
	g, r := d.rankOf(port)
	text := fmt.Sprintf(format, args...)
	if r == NoRank {
		text = fmt.Sprintf("port %d: %s", port, text)
	}
	d.add(Finding{Kind: k, Group: g, Rank: r, Switch: d.at.Switch, Text: text, Do: do})
}

// qpns are those of the switch's endpoints at a port.
func (d *diagnosis) qpns(port int) string {
	var list []string
	for _, p := range d.at.Pipes {
		for _, ep := range append(slices.Clone(p.Ins), p.Outs...) {
			if q := fmt.Sprintf("%#06x", ep.QPN); ep.Port == port && !slices.Contains(list, q) {
				list = append(list, q)
			}
		}
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// state judges a switch.
func (d *diagnosis) state() {
	for _, p := range d.at.Ports {
		if p.Error != "" {
			d.port(p.Port, Link, "look at the switch's port", "port %d of switch %s: %s", p.Port, d.at.Switch, p.Error)
		}
	}
	for _, n := range d.at.Notes {
		d.note(n)
	}
	for _, p := range d.at.Pipes {
		d.pipe(p)
	}
}

// note judges a kind of frame that no endpoint took.
func (d *diagnosis) note(n softswitch.Note) {
	times := fmt.Sprintf("%d frames", n.Count)
	if n.Count == 1 {
		times = "one frame"
	}
	switch n.Verdict {
	case spec.VerdictICRC:
		d.port(n.Port, ICRC, "something on the way changes frames: a cable, a NIC, or one that rewrites headers", "%s from there came with a wrong ICRC (%s)", times, n.Text)
	case spec.VerdictNoEndpoint:
		d.port(n.Port, QPN, "the rank was connected to another queue pair, or the switch has not got its group", "%s went to QPN %#06x, which switch %s has not; at that port it has %s", times, n.QPN, d.at.Switch, d.qpns(n.Port))
	case spec.VerdictIngressPort:
		d.port(n.Port, QPN, "the cable, or the queue pair, is another rank's", "%s to QPN %#06x came in at port %d: %s", times, n.QPN, n.Port, n.Text)
	case spec.VerdictSrcMAC, spec.VerdictSrcIP, spec.VerdictDstIP, spec.VerdictPKey:
		d.port(n.Port, Address, "the rank and the group do not have the same addresses", "%s to QPN %#06x: %s", times, n.QPN, n.Text)
	default:
		d.port(n.Port, Frame, "epic decode explains a capture of them", "%s: %v: %s", times, n.Verdict, n.Text)
	}
}

// pipe judges what a pipe has seen and waits for.
func (d *diagnosis) pipe(p softswitch.PipeState) {
	if p.Fault != "" {
		d.add(Finding{Kind: Error, Rank: NoRank, Switch: d.at.Switch, Text: p.Fault, Do: "the group has to be created again; what the ranks did at that psn differs"})
	}
	anybody := false
	for _, ep := range p.Ins {
		anybody = anybody || ep.Data > 0
	}
	window := d.window(p)
	strange := map[string]bool{}
	for _, ep := range p.Ins {
		off := psn.Sub(ep.FirstPSN, p.PSN0)
		if ep.Data > 0 && (off < 0 || off >= window) {
			strange[ep.Name] = true
			d.port(ep.Port, PSN, "rank and switch were not given the same first PSN, or the rank is left over from an earlier group", "its first packet had psn %v, the group begins at %v (endpoint %s)", ep.FirstPSN, p.PSN0, ep.Name)
		}
	}
	if p.Waits == nil {
		return
	}
	var there []string
	for _, ep := range p.Ins {
		if !slices.Contains(p.Waits.Missing, ep.Name) {
			there = append(there, ep.Name)
		}
	}
	for _, ep := range p.Ins {
		if !slices.Contains(p.Waits.Missing, ep.Name) || strange[ep.Name] {
			continue
		}
		if ep.Data == 0 && anybody {
			d.port(ep.Port, Silent, "is it running, and has it come to this collective?", "%s has sent nothing in %s; psn %v of %s waits for it", ep.Name, p.ID, p.Waits.PSN, strings.Join(there, ", "))
			continue
		}
		d.port(ep.Port, Waits, "is it running, and does it send again?", "psn %v of %s is missing, its last was %v; %s waits, of %s it is there", p.Waits.PSN, ep.Name, ep.LastPSN, p.Pipe, strings.Join(there, ", "))
	}
	for _, ep := range p.Outs {
		if slices.Contains(p.Waits.Unacked, ep.Name) && len(p.Waits.Missing) == 0 && ep.Retries > 0 {
			d.port(ep.Port, Unacked, "does it run, and has it posted receives?", "%s has not acknowledged psn %v, which was sent again %d times", ep.Name, p.Waits.Oldest, ep.Retries)
		}
	}
}

// window is the slots of a pipe.
func (d *diagnosis) window(p softswitch.PipeState) int {
	for _, g := range d.groups {
		if s, there := g.SwitchIndex(d.at.Switch); there {
			for _, pipe := range g.Switches[s].Pipes {
				if pipe.Name == p.Pipe {
					return pipe.Slots
				}
			}
		}
	}
	return engine.MaxSlots // nobody says: as many as there can be
}
