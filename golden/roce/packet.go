package roce

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
)

// MAC is an Ethernet address, first byte on the wire first.
type MAC [6]byte

// String prints the six bytes as 52:54:00:00:00:01.
func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// VLANTag is one 802.1Q or 802.1ad tag.
type VLANTag struct {
	TPID uint16 // 0x8100 or 0x88a8
	TCI  uint16 // priority 3, DEI 1, VLAN ID 12
}

// Packet is one RoCEv2 RC packet: all that a frame says beyond lengths, checksums and the ICRC. It is a
// value: nothing in it is shared with the frame it was decoded from, and Clone copies it.
//
// Which of the extended fields exist follows from the opcode (HasRETH, HasImm, HasAETH). Those that do
// not exist are zero after Decode and ignored by Encode. The pad follows from the payload's length.
type Packet struct {
	DstMAC, SrcMAC MAC
	VLAN           []VLANTag // outermost first, at most 2

	Src, Dst  netip.Addr // both IPv4 or both IPv6; a zone is not sent
	TOS       uint8      // IPv4 TOS or IPv6 traffic class; bits 1:0 are ECN
	TTL       uint8      // IPv4 TTL or IPv6 hop limit
	IPID      uint16     // IPv4 identification
	DF        bool       // IPv4 don't fragment
	FlowLabel uint32     // IPv6, 20 bits
	SrcPort   uint16     // UDP source port; the destination port is 4791

	Opcode spec.Opcode
	SE     bool
	MigReq bool
	PKey   uint16
	FECN   bool
	BECN   bool
	Resv6  uint8  // BTH bits 37:32 of the second word, sent as received
	DestQP uint32 // 24 bits
	AckReq bool
	Resv7  uint8 // BTH bits next to AckReq
	PSN    psn.PSN

	VA        uint64 // RETH
	RKey      uint32 // RETH
	DMALength uint32 // RETH
	Imm       uint32 // ImmDt, first byte on the wire most significant
	Syndrome  uint8  // AETH
	MSN       uint32 // AETH, 24 bits

	Payload []byte // without pad; of a CNP its reserved body
}

const (
	ethSize  = 14
	tagSize  = 4
	ipv4Size = 20
	ipv6Size = 40
	udpSize  = 8
	protoUDP = 17
	// MaxPayload is the most payload bytes Encode takes: what any IPv4 packet can hold after the
	// longest headers. A RoCE MTU ends at 4096.
	MaxPayload = 65535 - ipv4Size - udpSize - BTHSize - RETHSize - ImmDtSize - 3 - ICRCSize
)

// IsV6 says that the packet goes over IPv6.
func (p *Packet) IsV6() bool { return p.Dst.Is6() }

// CE says that the packet was marked congestion experienced on its way (ECN bits 3).
func (p *Packet) CE() bool { return p.TOS&3 == 3 }

// Pad is the number of pad bytes after the payload, 0..3.
func (p *Packet) Pad() int { return -len(p.Payload) & 3 }

// HasRETH says that the opcode has a RETH: VA, RKey and DMALength count.
func (p *Packet) HasRETH() bool { return hasRETH(p.Opcode) }

// HasImm says that the opcode has an ImmDt: Imm counts.
func (p *Packet) HasImm() bool { return hasImm(p.Opcode) }

// HasAETH says that the opcode has an AETH: Syndrome and MSN count.
func (p *Packet) HasAETH() bool { return hasAETH(p.Opcode) }

// Clone is a copy that shares nothing with p.
func (p *Packet) Clone() *Packet {
	c := *p
	c.VLAN = slices.Clone(p.VLAN)
	c.Payload = slices.Clone(p.Payload)
	return &c
}

// Equal says that the two packets encode to the same frame: all fields that the opcode and the IP
// version have are equal.
func (p *Packet) Equal(q *Packet) bool { return bytes.Equal(p.Encode(), q.Encode()) }

// Check says what of the packet cannot be put on the wire; nil if Encode can.
func (p *Packet) Check() error {
	v4 := p.Src.Is4() && p.Dst.Is4()
	v6 := p.Src.Is6() && p.Dst.Is6()
	switch {
	case len(p.VLAN) > 2:
		return fmt.Errorf("roce packet: %d VLAN tags, want at most 2", len(p.VLAN))
	case !v4 && !v6:
		return fmt.Errorf("roce packet: addresses are %v and %v, want two IPv4 or two IPv6", p.Src, p.Dst)
	case p.FlowLabel >= 1<<20:
		return fmt.Errorf("roce packet: flow label is %#x, want 20 bits", p.FlowLabel)
	case p.DestQP > psn.Mask:
		return fmt.Errorf("roce packet: destination QP is %#x, want 24 bits", p.DestQP)
	case !psn.Valid(p.PSN):
		return fmt.Errorf("roce packet: PSN is %#x, want 24 bits", uint32(p.PSN))
	case p.MSN > psn.Mask:
		return fmt.Errorf("roce packet: MSN is %#x, want 24 bits", p.MSN)
	case p.Resv6 >= 1<<6:
		return fmt.Errorf("roce packet: Resv6 is %#x, want 6 bits", p.Resv6)
	case p.Resv7 >= 1<<7:
		return fmt.Errorf("roce packet: Resv7 is %#x, want 7 bits", p.Resv7)
	case len(p.Payload) > MaxPayload:
		return fmt.Errorf("roce packet: payload is %d bytes, want at most %d", len(p.Payload), MaxPayload)
	}
	for i, t := range p.VLAN {
		if t.TPID != spec.EtherTypeVLAN && t.TPID != spec.EtherTypeQinQ {
			return fmt.Errorf("roce packet: VLAN tag %d has TPID %#04x, want %#04x or %#04x",
				i, t.TPID, spec.EtherTypeVLAN, spec.EtherTypeQinQ)
		}
	}
	return nil
}

// Encode is the whole frame, from the Ethernet destination to the ICRC, without Ethernet padding or
// FCS. It computes the lengths, the IPv4 header checksum and the ICRC; it writes the UDP checksum and
// the pad as 0. It panics with the error of Check: making such a packet is a mistake of the program.
//
// The opcode is not looked up: one that is not RC's is written without extended headers.
func (p *Packet) Encode() []byte { return p.AppendFrame(nil) }

// AppendFrame appends the frame that Encode makes to dst.
func (p *Packet) AppendFrame(dst []byte) []byte {
	if err := p.Check(); err != nil {
		panic(err)
	}
	pad := p.Pad()
	udpLen := udpSize + BTHSize + extSize(p.Opcode) + len(p.Payload) + pad + ICRCSize
	dst = slices.Grow(dst, ethSize+tagSize*len(p.VLAN)+ipv6Size+udpLen)

	dst = append(dst, p.DstMAC[:]...)
	dst = append(dst, p.SrcMAC[:]...)
	for _, t := range p.VLAN {
		dst = binary.BigEndian.AppendUint16(dst, t.TPID)
		dst = binary.BigEndian.AppendUint16(dst, t.TCI)
	}
	if p.IsV6() {
		dst = binary.BigEndian.AppendUint16(dst, spec.EtherTypeIPv6)
	} else {
		dst = binary.BigEndian.AppendUint16(dst, spec.EtherTypeIPv4)
	}

	l3 := len(dst)
	if p.IsV6() {
		dst = binary.BigEndian.AppendUint32(dst, 6<<28|uint32(p.TOS)<<20|p.FlowLabel)
		dst = binary.BigEndian.AppendUint16(dst, uint16(udpLen))
		dst = append(dst, protoUDP, p.TTL)
	} else {
		dst = append(dst, 0x45, p.TOS)
		dst = binary.BigEndian.AppendUint16(dst, uint16(ipv4Size+udpLen))
		dst = binary.BigEndian.AppendUint16(dst, p.IPID)
		dst = append(dst, bit(p.DF, 6), 0, p.TTL, protoUDP, 0, 0)
	}
	dst = append(dst, p.Src.AsSlice()...)
	dst = append(dst, p.Dst.AsSlice()...)
	if !p.IsV6() {
		binary.BigEndian.PutUint16(dst[l3+10:], ^OnesSum(0, dst[l3:l3+ipv4Size]))
	}

	dst = binary.BigEndian.AppendUint16(dst, p.SrcPort)
	dst = binary.BigEndian.AppendUint16(dst, spec.RoCEUDPPort)
	dst = binary.BigEndian.AppendUint16(dst, uint16(udpLen))
	dst = append(dst, 0, 0)

	bth := BTH{Opcode: p.Opcode, SE: p.SE, MigReq: p.MigReq, Pad: uint8(pad), PKey: p.PKey,
		FECN: p.FECN, BECN: p.BECN, Resv6: p.Resv6, DestQP: p.DestQP,
		AckReq: p.AckReq, Resv7: p.Resv7, PSN: p.PSN}
	var h [RETHSize]byte
	bth.write(h[:])
	dst = append(dst, h[:BTHSize]...)
	if p.HasRETH() {
		reth := RETH{VA: p.VA, RKey: p.RKey, DMALength: p.DMALength}
		reth.write(h[:])
		dst = append(dst, h[:RETHSize]...)
	}
	if p.HasImm() {
		dst = binary.BigEndian.AppendUint32(dst, p.Imm)
	}
	if p.HasAETH() {
		aeth := AETH{Syndrome: p.Syndrome, MSN: p.MSN}
		aeth.write(h[:])
		dst = append(dst, h[:AETHSize]...)
	}
	dst = append(dst, p.Payload...)
	dst = append(dst, make([]byte, pad)...)
	return binary.LittleEndian.AppendUint32(dst, ICRC(dst[l3:]))
}

// OnesSum adds big-endian 16-bit words in ones' complement (RFC 1071), an odd last byte as if a zero
// followed, to a sum so far.
func OnesSum(sum uint32, b []byte) uint16 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}
