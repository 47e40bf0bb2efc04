package roce

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// The ICRC (IBTA A17.3.3, 7.8.1) is the Ethernet CRC-32 of the packet from the IP header to the pad,
// with what a router may change replaced by ones, after eight bytes of ones that stand for the local
// route header. It is sent least significant byte first. Ethernet header and VLAN tags are not covered.
//
//	IPv4: TOS, TTL, header checksum
//	IPv6: traffic class, flow label, hop limit
//	UDP:  checksum
//	BTH:  byte 4 (FECN, BECN, Resv6)

// ICRC computes the invariant CRC of a packet that begins with an IPv4 header (of 4*IHL bytes) or an
// IPv6 header and ends before its ICRC. It holds at least IP, UDP and BTH. What goes on the wire is the
// little-endian form.
func ICRC(ip []byte) uint32 {
	var masked [8 + 60 + udpSize + BTHSize]byte
	for i := range 8 {
		masked[i] = 0xff
	}
	m := masked[8:]
	var l3 int
	if ip[0]>>4 == 6 {
		l3 = ipv6Size
		copy(m, ip[:l3+udpSize+BTHSize])
		m[0] |= 0x0f
		m[1], m[2], m[3] = 0xff, 0xff, 0xff
		m[7] = 0xff
	} else {
		l3 = max(ipv4Size, int(ip[0]&0xf)*4)
		copy(m, ip[:l3+udpSize+BTHSize])
		m[1] = 0xff
		m[8] = 0xff
		m[10], m[11] = 0xff, 0xff
	}
	m[l3+6], m[l3+7] = 0xff, 0xff
	m[l3+udpSize+4] = 0xff
	head := l3 + udpSize + BTHSize
	return crc32.Update(crc32.ChecksumIEEE(masked[:8+head]), crc32.IEEETable, ip[head:])
}

// SetICRC computes the ICRC of a whole frame and writes it to its place, which the IP length gives.
// The error says why a frame has no such place.
func SetICRC(frame []byte) error {
	at, m := locate(frame)
	if m != nil {
		return fmt.Errorf("set ICRC: %w", m)
	}
	if m := at.checkLengths(frame); m != nil {
		return fmt.Errorf("set ICRC: %w", m)
	}
	binary.LittleEndian.PutUint32(frame[at.end-ICRCSize:], ICRC(frame[at.l3:at.end-ICRCSize]))
	return nil
}
