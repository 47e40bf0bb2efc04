package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/device/raw"
	"github.com/epic-inc/epic/driver/softswitch"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/roce"
)

// Host is what was seen at the interface of a rank.
type Host struct {
	Group     int            `json:"group"`
	Rank      int            `json:"rank"`
	Interface string         `json:"interface"`
	Err       string         `json:"error,omitempty"` // why nothing was seen
	Up        bool           `json:"up"`
	Carrier   bool           `json:"carrier"`
	MTU       int            `json:"mtu"`
	MAC       string         `json:"mac"`
	IPs       []netip.Prefix `json:"ips"`   // that the kernel has there
	Peers     []Peer         `json:"peers"` // the switches' addresses that it talks to
}

// Peer is an address that was asked.
type Peer struct {
	IP   netip.Addr `json:"ip"`
	Want string     `json:"want"` // MAC in the group
	MAC  string     `json:"mac"`  // of the answer to ARP or a neighbour solicitation; empty: none
	Echo bool       `json:"echo"` // a short echo request was answered
	Full bool       `json:"full"` // one as long as the longest RoCE packet
}

// answerPatience is how long an answer may take.
const answerPatience = 500 * time.Millisecond

// ProbeHost looks at the interface of a rank, in a network namespace unless it is empty, and asks over it. It needs
// CAP_NET_RAW, and sends nothing of RoCE. The rank may run meanwhile.
func ProbeHost(ctx context.Context, namespace, name string, groups []*group.Group, groupIndex, rank int) Host {
	h := Host{Group: groupIndex, Rank: rank, Interface: name}
	if err := h.look(namespace); err != nil {
		h.Err = err.Error()
		return h
	}
	if !h.Up || !h.Carrier {
		return h
	}
	link, err := raw.Open(raw.Options{Interface: name, Namespace: namespace})
	if err != nil {
		h.Err = err.Error()
		return h
	}
	defer link.Close()
	g := groups[groupIndex]
	seen := map[netip.Addr]bool{}
	for i := range g.SubgroupList() {
		s, e, err := g.RankPeer(rank, i)
		if err != nil {
			h.Err = err.Error()
			return h
		}
		ep := g.Switches[s].Endpoints[e]
		if !seen[ep.IP.Addr] {
			seen[ep.IP.Addr] = true
			p := Peer{IP: ep.IP.Addr, Want: ep.MAC.String()}
			ask := &asker{link: link, mac: roce.MAC(g.Ranks[rank].MAC), ip: g.Ranks[rank].IP.Addr}
			p.ask(ctx, ask, roce.IPBytes(g.MTU, ep.IP.Is6()))
			h.Peers = append(h.Peers, p)
		}
	}
	return h
}

func (h *Host) look(namespace string) error {
	ns := netns.None()
	if namespace != "" {
		var err error
		if ns, err = netns.GetFromName(namespace); err != nil {
			return fmt.Errorf("namespace %s: %w", namespace, err)
		}
		defer ns.Close()
	}
	handle, err := netlink.NewHandleAt(ns)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	defer handle.Close()
	link, err := handle.LinkByName(h.Interface)
	if err != nil {
		return err
	}
	a := link.Attrs()
	h.Up = a.Flags&net.FlagUp != 0
	h.Carrier = a.OperState == netlink.OperUp || a.OperState == netlink.OperUnknown
	h.MTU, h.MAC = a.MTU, a.HardwareAddr.String()
	list, err := handle.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("IP addresses: %w", err)
	}
	for _, one := range list {
		bits, _ := one.Mask.Size()
		if ip, ok := netip.AddrFromSlice(one.IP); ok {
			h.IPs = append(h.IPs, netip.PrefixFrom(ip.Unmap(), bits))
		}
	}
	return nil
}

// has says whether the kernel has an IP address at the interface.
func (h *Host) has(ip netip.Addr) bool {
	return slices.ContainsFunc(h.IPs, func(p netip.Prefix) bool { return p.Addr() == ip })
}

func (p *Peer) ask(ctx context.Context, a *asker, full int) {
	mac, ok := a.resolve(ctx, p.IP)
	if !ok {
		return
	}
	p.MAC = mac.String()
	const short = 64
	p.Echo = a.echo(ctx, mac, p.IP, short)
	p.Full = p.Echo && a.echo(ctx, mac, p.IP, full)
}

// asker asks over a link.
type asker struct {
	link device.Link
	mac  roce.MAC
	ip   netip.Addr
	seq  uint16
}

// exchange sends a frame until one comes that answers it, three times.
func (a *asker) exchange(ctx context.Context, is func(gopacket.Packet) bool, request ...gopacket.SerializableLayer) bool {
	b := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, request...); err != nil {
		return false
	}
	const tries = 3
	for range tries {
		if a.link.Send(ctx, b.Bytes()) != nil {
			return false
		}
		if a.hears(ctx, is) {
			return true
		}
	}
	return false
}

func (a *asker) hears(ctx context.Context, is func(gopacket.Packet) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	for {
		frame, err := a.link.Receive(ctx)
		if err != nil {
			return false
		}
		if is(gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.DecodeOptions{Lazy: true, NoCopy: true})) {
			return true
		}
	}
}

// resolve asks who has an address.
func (a *asker) resolve(ctx context.Context, ip netip.Addr) (mac roce.MAC, ok bool) {
	if ip.Is6() {
		group := netip.AddrFrom16([16]byte(append([]byte{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff}, ip.AsSlice()[13:]...))) // RFC 4291 2.7.1
		to := roce.MAC(append([]byte{0x33, 0x33}, group.AsSlice()[12:]...))
		head := &layers.IPv6{Version: 6, HopLimit: 255, NextHeader: layers.IPProtocolICMPv6, SrcIP: a.ip.AsSlice(), DstIP: group.AsSlice()}
		icmp := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(layers.ICMPv6TypeNeighborSolicitation, 0)}
		if icmp.SetNetworkLayerForChecksum(head) != nil {
			return mac, false
		}
		ok = a.exchange(ctx, func(p gopacket.Packet) bool {
			na, is := p.Layer(layers.LayerTypeICMPv6NeighborAdvertisement).(*layers.ICMPv6NeighborAdvertisement)
			if !is || !na.TargetAddress.Equal(ip.AsSlice()) {
				return false
			}
			for _, o := range na.Options {
				if o.Type == layers.ICMPv6OptTargetAddress && len(o.Data) == len(mac) {
					copy(mac[:], o.Data)
				}
			}
			return true
		}, a.ethernet(to, layers.EthernetTypeIPv6), head, icmp, &layers.ICMPv6NeighborSolicitation{TargetAddress: ip.AsSlice(),
			Options: layers.ICMPv6Options{{Type: layers.ICMPv6OptSourceAddress, Data: a.mac[:]}}})
		return mac, ok
	}
	ok = a.exchange(ctx, func(p gopacket.Packet) bool {
		arp, is := p.Layer(layers.LayerTypeARP).(*layers.ARP)
		if !is || arp.Operation != layers.ARPReply || !net.IP(arp.SourceProtAddress).Equal(ip.AsSlice()) {
			return false
		}
		copy(mac[:], arp.SourceHwAddress)
		return true
	}, a.ethernet(roce.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, layers.EthernetTypeARP), &layers.ARP{
		AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4, Operation: layers.ARPRequest,
		SourceHwAddress: a.mac[:], SourceProtAddress: a.ip.AsSlice(), DstHwAddress: make([]byte, 6), DstProtAddress: ip.AsSlice(),
	})
	return mac, ok
}

func (a *asker) ethernet(to roce.MAC, kind layers.EthernetType) *layers.Ethernet {
	return &layers.Ethernet{SrcMAC: a.mac[:], DstMAC: to[:], EthernetType: kind}
}

// echo asks for an echo with an IP packet of so many bytes.
func (a *asker) echo(ctx context.Context, mac roce.MAC, ip netip.Addr, bytes int) bool {
	const id, icmp, v4, v6 = 0x4550, 8, 20, 40
	a.seq++
	seq := a.seq
	if ip.Is6() {
		head := &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolICMPv6, SrcIP: a.ip.AsSlice(), DstIP: ip.AsSlice()}
		ask := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(layers.ICMPv6TypeEchoRequest, 0)}
		if ask.SetNetworkLayerForChecksum(head) != nil {
			return false
		}
		return a.exchange(ctx, func(p gopacket.Packet) bool {
			m, _ := p.Layer(layers.LayerTypeICMPv6).(*layers.ICMPv6)
			e, is := p.Layer(layers.LayerTypeICMPv6Echo).(*layers.ICMPv6Echo)
			return is && m.TypeCode.Type() == layers.ICMPv6TypeEchoReply && e.Identifier == id && e.SeqNumber == seq
		}, a.ethernet(mac, layers.EthernetTypeIPv6), head, ask, &layers.ICMPv6Echo{Identifier: id, SeqNumber: seq}, gopacket.Payload(make([]byte, bytes-v6-icmp)))
	}
	return a.exchange(ctx, func(p gopacket.Packet) bool {
		e, is := p.Layer(layers.LayerTypeICMPv4).(*layers.ICMPv4)
		return is && e.TypeCode.Type() == layers.ICMPv4TypeEchoReply && e.Id == id && e.Seq == seq
	}, a.ethernet(mac, layers.EthernetTypeIPv4),
		&layers.IPv4{Version: 4, TTL: 64, Flags: layers.IPv4DontFragment, Protocol: layers.IPProtocolICMPv4, SrcIP: a.ip.AsSlice(), DstIP: ip.AsSlice()},
		&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(layers.ICMPv4TypeEchoRequest, 0), Id: id, Seq: seq}, gopacket.Payload(make([]byte, bytes-v4-icmp)))
}

// Fetch reads the states of the switches of a process: at unix:PATH, or at http://HOST:PORT (epic switch --metrics).
func Fetch(ctx context.Context, address string) ([]softswitch.State, error) {
	const limit = 5 * time.Second
	client, url := &http.Client{Timeout: limit}, strings.TrimSuffix(address, "/")+"/state"
	if path, local := strings.CutPrefix(address, "unix:"); local {
		url = "http://switch/state"
		client.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("switch at %s: %w", address, err)
	}
	reply, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("switch at %s: %w", address, err)
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("switch at %s: got %s, want the state of a switch", address, reply.Status)
	}
	var states []softswitch.State
	if err := json.NewDecoder(reply.Body).Decode(&states); err != nil {
		return nil, fmt.Errorf("switch at %s: got no state of switches: %w", address, err)
	}
	return states, errors.Join(ctx.Err())
}
