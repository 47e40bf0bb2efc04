package run

import (
	"encoding/binary"
	"net/netip"

	"github.com/epic-inc/epic/golden/roce"
)

// setIPChecksum makes the IPv4 header checksum of an encoded packet right for its bytes.
func setIPChecksum(frame []byte, pkt *roce.Packet) {
	if pkt.IsV6() {
		return
	}
	ip := frame[ipAt(pkt):][:20]
	ip[10], ip[11] = 0, 0
	binary.BigEndian.PutUint16(ip[10:], ^roce.OnesSum(0, ip))
}

// setUDPChecksum writes the right UDP checksum over an encoded packet, of which the ICRC does not cover it.
func setUDPChecksum(frame []byte, pkt *roce.Packet) {
	udp := frame[udpAt(pkt):]
	size := binary.BigEndian.Uint16(udp[4:])
	udp = udp[:size]
	udp[6], udp[7] = 0, 0
	sum := roce.OnesSum(uint32(size)+17, pkt.Src.AsSlice())
	sum = roce.OnesSum(uint32(roce.OnesSum(uint32(sum), pkt.Dst.AsSlice())), udp)
	if sum == 0xffff {
		sum = 0 // a sum of 0 is sent as ffff
	}
	binary.BigEndian.PutUint16(udp[6:], ^sum)
}

// addr is an address of 4 or 16 bytes.
func addr(b []byte) netip.Addr {
	ip, _ := netip.AddrFromSlice(b)
	return ip
}
