// Package neighbour answers what a host asks an address before it sends to it: ARP, neighbour solicitation (RFC
// 4861) and echo, of IPv4 and IPv6.
package neighbour

import (
	"bytes"
	"net/netip"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/epic-inc/epic/golden/roce"
)

// Reply is the frame that answers a frame; nil if it asks nothing, or nothing of an address that macOf knows.
func Reply(frame []byte, macOf func(netip.Addr) (roce.MAC, bool)) []byte {
	reply := answer(frame, func(ip []byte) (roce.MAC, bool) {
		a, ok := netip.AddrFromSlice(ip)
		if !ok {
			return roce.MAC{}, false
		}
		return macOf(a.Unmap())
	})
	if reply == nil {
		return nil
	}
	b := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, reply...); err != nil {
		return nil // what asks so has no answer
	}
	return b.Bytes()
}

func answer(frame []byte, macOf func(ip []byte) (roce.MAC, bool)) []gopacket.SerializableLayer {
	pkt := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.DecodeOptions{Lazy: true, NoCopy: true})
	eth, ok := pkt.LinkLayer().(*layers.Ethernet)
	if !ok {
		return nil
	}
	back := func(mac roce.MAC) *layers.Ethernet {
		return &layers.Ethernet{SrcMAC: mac[:], DstMAC: eth.SrcMAC, EthernetType: eth.EthernetType}
	}
	if arp, ok := pkt.Layer(layers.LayerTypeARP).(*layers.ARP); ok {
		mac, mine := macOf(arp.DstProtAddress)
		if arp.Operation != layers.ARPRequest || !mine {
			return nil
		}
		return []gopacket.SerializableLayer{back(mac), &layers.ARP{
			AddrType: arp.AddrType, Protocol: arp.Protocol, HwAddressSize: 6, ProtAddressSize: 4, Operation: layers.ARPReply,
			SourceHwAddress: mac[:], SourceProtAddress: arp.DstProtAddress, DstHwAddress: arp.SourceHwAddress, DstProtAddress: arp.SourceProtAddress,
		}}
	}
	if ip, ok := pkt.Layer(layers.LayerTypeIPv4).(*layers.IPv4); ok {
		echo, ok := pkt.Layer(layers.LayerTypeICMPv4).(*layers.ICMPv4)
		mac, mine := macOf(ip.DstIP)
		if !ok || !mine || echo.TypeCode.Type() != layers.ICMPv4TypeEchoRequest {
			return nil
		}
		return []gopacket.SerializableLayer{back(mac),
			&layers.IPv4{Version: 4, TTL: 64, TOS: ip.TOS, Protocol: layers.IPProtocolICMPv4, SrcIP: ip.DstIP, DstIP: ip.SrcIP},
			&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(layers.ICMPv4TypeEchoReply, 0), Id: echo.Id, Seq: echo.Seq},
			gopacket.Payload(echo.Payload)}
	}
	ip, ok := pkt.Layer(layers.LayerTypeIPv6).(*layers.IPv6)
	if !ok {
		return nil
	}
	v6 := func(mac roce.MAC, from, to []byte, icmp *layers.ICMPv6, rest ...gopacket.SerializableLayer) []gopacket.SerializableLayer {
		const hops = 255 // RFC 4861 wants it of neighbour discovery
		head := &layers.IPv6{Version: 6, HopLimit: hops, NextHeader: layers.IPProtocolICMPv6, SrcIP: from, DstIP: to}
		if icmp.SetNetworkLayerForChecksum(head) != nil {
			return nil
		}
		return append([]gopacket.SerializableLayer{back(mac), head, icmp}, rest...)
	}
	if ask, ok := pkt.Layer(layers.LayerTypeICMPv6NeighborSolicitation).(*layers.ICMPv6NeighborSolicitation); ok {
		mac, mine := macOf(ask.TargetAddress)
		if !mine {
			return nil
		}
		const solicited, override = 0x40, 0x20
		to, flags := ip.SrcIP, uint8(solicited|override)
		if to.IsUnspecified() { // duplicate address detection: all nodes are told
			to, flags = netip.MustParseAddr("ff02::1").AsSlice(), override
		}
		return v6(mac, ask.TargetAddress, to, &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(layers.ICMPv6TypeNeighborAdvertisement, 0)},
			&layers.ICMPv6NeighborAdvertisement{Flags: flags, TargetAddress: ask.TargetAddress,
				Options: layers.ICMPv6Options{{Type: layers.ICMPv6OptTargetAddress, Data: bytes.Clone(mac[:])}}})
	}
	if echo, ok := pkt.Layer(layers.LayerTypeICMPv6Echo).(*layers.ICMPv6Echo); ok {
		icmp, _ := pkt.Layer(layers.LayerTypeICMPv6).(*layers.ICMPv6)
		mac, mine := macOf(ip.DstIP)
		const numbers = 4 // identifier and sequence number, before the data
		if icmp == nil || len(icmp.Payload) < numbers || icmp.TypeCode.Type() != layers.ICMPv6TypeEchoRequest || !mine {
			return nil
		}
		return v6(mac, ip.DstIP, ip.SrcIP, &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(layers.ICMPv6TypeEchoReply, 0)},
			&layers.ICMPv6Echo{Identifier: echo.Identifier, SeqNumber: echo.SeqNumber}, gopacket.Payload(icmp.Payload[numbers:]))
	}
	return nil
}
