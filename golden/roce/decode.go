package roce

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/epic-inc/epic/golden/spec"
)

// Malformed says why a frame is not taken: the first verdict, in the order of rtl/spec/inc.yaml, that
// applies to it, and where it was seen. A frame that is merely not RoCEv2 comes back as
// spec.VerdictNotRoCE, whose class is bypass, not drop.
type Malformed struct {
	Verdict spec.Verdict
	Field   string // layer.field, as FieldAt has it, or a part of that field
	Got     string
	Want    string
	Offset  int // of the field from the first byte of the frame
}

// Error is one line: verdict, field, offset, got, wanted.
func (m *Malformed) Error() string {
	return fmt.Sprintf("%v: %s at byte %d is %s, want %s", m.Verdict, m.Field, m.Offset, m.Got, m.Want)
}

// Decode reads a whole Ethernet frame without FCS. Exactly one of the results is nil. Frame is not
// kept.
//
// A frame is RoCEv2 if, after at most two VLAN tags, its EtherType is IPv4 or IPv6, its protocol (next
// header) is UDP, its IPv4 fragment offset is 0, and the UDP header, found 4*IHL (at least 20) or 40
// bytes after the start of IP, is within the frame and has destination port 4791. Everything after
// that is a rule of which the first broken one is the verdict. Reserved bits, SE, MigReq, FECN and
// BECN may have any value, and bytes after the IP length are ignored.
func Decode(frame []byte) (*Packet, *Malformed) {
	at, m := locate(frame)
	if m != nil {
		return nil, m
	}
	if m := at.check(frame); m != nil {
		return nil, m
	}
	p := at.read(frame, at.end-ICRCSize)
	return &p, nil
}

// Dissection is what can be read of a frame, good or bad.
type Dissection struct {
	Malformed *Malformed // nil: good
	VLAN      []VLANTag  // first two tags, also of a frame that is not RoCE
	RoCE      bool       // Malformed is nil or not VerdictNotRoCE
	// HasBTH says that BTH lies within the captured bytes and within the UDP length, so that Packet
	// holds its fields. Packet's addresses and what else is before BTH count if RoCE is true.
	HasBTH bool
	Packet Packet
	Pad    int // BTH's pad field; may differ from Packet.Pad() in a malformed frame
	// PayloadLen is the number of bytes between the headers and the pad; -1 if it cannot be told. Not
	// negative, it says also that Packet holds the extended headers and the payload.
	PayloadLen int
	// ICRCKnown says that the lengths leave no doubt where the ICRC is; ICRCGood that it is right.
	ICRCKnown, ICRCGood bool
}

// Dissect reads as much of a frame as its bytes allow; its verdict is that of Decode.
func Dissect(frame []byte) Dissection {
	at, m := locate(frame)
	d := Dissection{Malformed: m, VLAN: at.vlan, RoCE: m == nil, PayloadLen: -1}
	if m != nil {
		return d
	}
	d.Malformed = at.check(frame)
	bthAt := at.l4 + udpSize
	udpLen := int(binary.BigEndian.Uint16(frame[at.l4+4:]))
	d.HasBTH = bthAt+BTHSize <= len(frame) && udpLen >= udpSize+BTHSize
	bodyEnd := 0
	if d.HasBTH {
		bodyEnd = bthAt + BTHSize
	}
	lengthsGood := at.checkLengths(frame) == nil
	if lengthsGood {
		bodyEnd = at.end - ICRCSize
		d.ICRCKnown, d.ICRCGood = true, at.checkICRC(frame) == nil
	}
	d.Packet = at.read(frame, bodyEnd)
	if d.HasBTH {
		d.Pad = int(frame[bthAt+1] >> 4 & 3)
		n := bodyEnd - bthAt - BTHSize - extSize(d.Packet.Opcode) - d.Pad
		if lengthsGood && d.Packet.Opcode.Known() && n >= 0 {
			d.PayloadLen = n
		}
	}
	return d
}

// Complete is a frame that was cut off behind its UDP header, with zeros in place of what is missing up to its
// IP length; any other frame as it is.
func Complete(frame []byte) []byte {
	at, m := locate(frame)
	if m != nil {
		return frame
	}
	end := at.l3 + int(binary.BigEndian.Uint16(frame[at.l3+2:]))
	if at.v6 {
		end = at.l4 + int(binary.BigEndian.Uint16(frame[at.l3+4:]))
	}
	if end <= len(frame) {
		return frame
	}
	return append(slices.Clone(frame), make([]byte, end-len(frame))...)
}

// place says where the parts of a frame are.
type place struct {
	vlan []VLANTag
	l3   int // IP header
	v6   bool
	l4   int // UDP header
	end  int // after the IP payload, which ends with the ICRC; set by checkIP
}

// locate finds IP and UDP, or says why the frame is not RoCEv2.
func locate(frame []byte) (place, *Malformed) {
	var at place
	notRoCE := func(field string, offset int, got, want string) (place, *Malformed) {
		return at, &Malformed{Verdict: spec.VerdictNotRoCE, Field: field, Offset: offset, Got: got, Want: want}
	}
	short := func(field string, offset, want int) (place, *Malformed) {
		return notRoCE(field, offset, fmt.Sprintf("cut off: the frame has %d bytes", len(frame)),
			fmt.Sprintf("at least %d", want))
	}
	typeAt := 12
	var etherType uint16
	for {
		if len(frame) < typeAt+2 {
			return short("eth.type", typeAt, typeAt+2)
		}
		etherType = binary.BigEndian.Uint16(frame[typeAt:])
		if etherType != spec.EtherTypeVLAN && etherType != spec.EtherTypeQinQ {
			break
		}
		if len(at.vlan) == 2 {
			return notRoCE("eth.type", typeAt, fmt.Sprintf("a third VLAN tag (%#04x)", etherType),
				fmt.Sprintf("%#04x or %#04x", spec.EtherTypeIPv4, spec.EtherTypeIPv6))
		}
		if len(frame) < typeAt+tagSize {
			return short(fmt.Sprintf("vlan[%d].tci", len(at.vlan)), typeAt+2, typeAt+tagSize)
		}
		at.vlan = append(at.vlan, VLANTag{TPID: etherType, TCI: binary.BigEndian.Uint16(frame[typeAt+2:])})
		typeAt += tagSize
	}
	at.l3 = typeAt + 2

	switch etherType {
	case spec.EtherTypeIPv4:
		if len(frame) < at.l3+ipv4Size+udpSize {
			return short("ip", at.l3, at.l3+ipv4Size+udpSize)
		}
		if got := frame[at.l3+9]; got != protoUDP {
			return notRoCE("ip.protocol", at.l3+9, fmt.Sprint(got), fmt.Sprint(protoUDP))
		}
		if got := binary.BigEndian.Uint16(frame[at.l3+6:]) & 0x1fff; got != 0 {
			return notRoCE("ip.fragment", at.l3+6, fmt.Sprintf("fragment offset %d", got), "0")
		}
		at.l4 = at.l3 + max(ipv4Size, int(frame[at.l3]&0xf)*4)
	case spec.EtherTypeIPv6:
		at.v6 = true
		if len(frame) < at.l3+ipv6Size+udpSize {
			return short("ip", at.l3, at.l3+ipv6Size+udpSize)
		}
		if got := frame[at.l3+6]; got != protoUDP {
			return notRoCE("ip.next_header", at.l3+6, fmt.Sprint(got), fmt.Sprint(protoUDP))
		}
		at.l4 = at.l3 + ipv6Size
	default:
		return notRoCE("eth.type", typeAt, fmt.Sprintf("%#04x", etherType),
			fmt.Sprintf("%#04x or %#04x", spec.EtherTypeIPv4, spec.EtherTypeIPv6))
	}
	if len(frame) < at.l4+udpSize {
		return short("udp", at.l4, at.l4+udpSize)
	}
	if got := binary.BigEndian.Uint16(frame[at.l4+2:]); got != spec.RoCEUDPPort {
		return notRoCE("udp.dst_port", at.l4+2, fmt.Sprint(got), fmt.Sprint(spec.RoCEUDPPort))
	}
	return at, nil
}

func bad(v spec.Verdict, field string, offset int, got, want string) *Malformed {
	return &Malformed{Verdict: v, Field: field, Offset: offset, Got: got, Want: want}
}

// checkIP applies the rules of the IP header but the checksum.
func (at *place) checkIP(frame []byte) *Malformed {
	version, want := frame[at.l3]>>4, byte(4)
	if at.v6 {
		want = 6
	}
	if version != want {
		return bad(spec.VerdictIPVersion, "ip.version", at.l3, fmt.Sprint(version), fmt.Sprint(want))
	}
	present := len(frame) - at.l3
	if at.v6 {
		n := int(binary.BigEndian.Uint16(frame[at.l3+4:]))
		if n < udpSize || n > present-ipv6Size {
			return bad(spec.VerdictIPLength, "ip.length", at.l3+4, fmt.Sprint(n),
				fmt.Sprintf("%d..%d (bytes in the frame)", udpSize, present-ipv6Size))
		}
		at.end = at.l4 + n
		return nil
	}
	if ihl := frame[at.l3] & 0xf; ihl != 5 {
		return bad(spec.VerdictIPHeaderLength, "ip.ihl", at.l3, fmt.Sprint(ihl), "5")
	}
	if frame[at.l3+6]&0x20 != 0 {
		return bad(spec.VerdictIPFragment, "ip.fragment", at.l3+6, "MF 1", "MF 0")
	}
	n := int(binary.BigEndian.Uint16(frame[at.l3+2:]))
	if n < ipv4Size+udpSize || n > present {
		return bad(spec.VerdictIPLength, "ip.length", at.l3+2, fmt.Sprint(n),
			fmt.Sprintf("%d..%d (bytes in the frame)", ipv4Size+udpSize, present))
	}
	at.end = at.l3 + n
	return nil
}

func (at *place) checkIPChecksum(frame []byte) *Malformed {
	if at.v6 {
		return nil
	}
	h := frame[at.l3 : at.l3+ipv4Size]
	want := ^OnesSum(uint32(OnesSum(0, h[:10])), h[12:])
	if got := binary.BigEndian.Uint16(h[10:]); OnesSum(0, h) != 0xffff {
		return bad(spec.VerdictIPChecksum, "ip.checksum", at.l3+10,
			fmt.Sprintf("%#04x", got), fmt.Sprintf("%#04x", want))
	}
	return nil
}

func (at *place) checkUDPLength(frame []byte) *Malformed {
	if got, want := int(binary.BigEndian.Uint16(frame[at.l4+4:])), at.end-at.l4; got != want {
		return bad(spec.VerdictUDPLength, "udp.length", at.l4+4, fmt.Sprint(got),
			fmt.Sprintf("%d (IP payload)", want))
	}
	return nil
}

func (at *place) checkUDPChecksum(frame []byte) *Malformed {
	got := binary.BigEndian.Uint16(frame[at.l4+6:])
	if got == 0 {
		return nil
	}
	addrs := frame[at.l3+12 : at.l3+20]
	if at.v6 {
		addrs = frame[at.l3+8 : at.l3+40]
	}
	udp := frame[at.l4:at.end]
	sum := uint32(protoUDP) + uint32(len(udp)) + uint32(OnesSum(0, addrs)) + uint32(OnesSum(0, udp[:6]))
	want := ^OnesSum(sum, udp[8:])
	if want == 0 { // 0 on the wire means "none" (RFC 768)
		want = 0xffff
	}
	if got != want {
		return bad(spec.VerdictUDPChecksum, "udp.checksum", at.l4+6,
			fmt.Sprintf("%#04x", got), fmt.Sprintf("0 or %#04x", want))
	}
	return nil
}

func (at *place) checkBTHLength(frame []byte) *Malformed {
	if got := at.end - at.l4 - udpSize; got < BTHSize+ICRCSize {
		return bad(spec.VerdictBTHLength, "bth", at.l4+udpSize, fmt.Sprintf("%d bytes of UDP payload", got),
			fmt.Sprintf("at least %d (BTH and ICRC)", BTHSize+ICRCSize))
	}
	return nil
}

// checkLengths applies only the rules that say where the ICRC is, and sets end.
func (at *place) checkLengths(frame []byte) *Malformed {
	if m := at.checkIP(frame); m != nil {
		return m
	}
	if m := at.checkUDPLength(frame); m != nil {
		return m
	}
	return at.checkBTHLength(frame)
}

// check applies every rule of a RoCEv2 frame in the order of the verdicts.
func (at *place) check(frame []byte) *Malformed {
	for _, rule := range [...]func(*place, []byte) *Malformed{
		(*place).checkIP, (*place).checkIPChecksum, (*place).checkUDPLength, (*place).checkUDPChecksum,
		(*place).checkBTHLength, (*place).checkTransport, (*place).checkICRC,
	} {
		if m := rule(at, frame); m != nil {
			return m
		}
	}
	return nil
}

// checkTransport applies the rules of BTH and what follows it.
func (at *place) checkTransport(frame []byte) *Malformed {
	bthAt := at.l4 + udpSize
	var bth BTH
	bth.read(frame[bthAt:])
	if bth.TVer != 0 {
		return bad(spec.VerdictBTHTver, "bth.tver", bthAt+1, fmt.Sprint(bth.TVer), "0")
	}
	if !bth.Opcode.Known() {
		return bad(spec.VerdictOpcode, "bth.opcode", bthAt, fmt.Sprintf("%#02x", uint8(bth.Opcode)),
			"an RC opcode of rtl/spec/inc.yaml")
	}
	bodyAt := bthAt + BTHSize
	body := at.end - ICRCSize - bodyAt
	ext := extSize(bth.Opcode)
	switch {
	case body < ext:
		return bad(spec.VerdictHeaderLength, "bth.body", bodyAt, fmt.Sprintf("%d bytes", body),
			fmt.Sprintf("at least %d (headers of %v)", ext, bth.Opcode))
	case bth.Opcode == spec.OpcodeAcknowledge && body != ext:
		return bad(spec.VerdictHeaderLength, "bth.body", bodyAt, fmt.Sprintf("%d bytes", body),
			fmt.Sprintf("%d (AETH alone)", ext))
	case bth.Opcode == spec.OpcodeCNP && body != CNPBodySize:
		return bad(spec.VerdictHeaderLength, "bth.body", bodyAt, fmt.Sprintf("%d bytes", body),
			fmt.Sprintf("%d (CNP)", CNPBodySize))
	case (body-ext)%4 != 0:
		return bad(spec.VerdictPad, "payload", bodyAt+ext, fmt.Sprintf("%d bytes with pad", body-ext),
			"a multiple of 4")
	case int(bth.Pad) > body-ext:
		return bad(spec.VerdictPad, "bth.pad", bthAt+1, fmt.Sprint(bth.Pad),
			fmt.Sprintf("at most %d (payload with pad)", body-ext))
	}
	if hasAETH(bth.Opcode) {
		aethAt := bodyAt + ext - AETHSize
		if s := frame[aethAt]; !goodSyndrome(s) {
			return bad(spec.VerdictAETHSyndrome, "aeth.syndrome", aethAt, fmt.Sprintf("%#02x", s),
				"0x00..0x1f (ACK), 0x20..0x3f (RNR NAK) or 0x60..0x64 (NAK)")
		}
	}
	return nil
}

func (at *place) checkICRC(frame []byte) *Malformed {
	icrcAt := at.end - ICRCSize
	got, want := binary.LittleEndian.Uint32(frame[icrcAt:]), ICRC(frame[at.l3:icrcAt])
	if got != want {
		return bad(spec.VerdictICRC, "icrc", icrcAt, fmt.Sprintf("%#08x", got), fmt.Sprintf("%#08x", want))
	}
	return nil
}

// read takes all fields from a frame. BTH's are left zero if it is beyond bodyEnd or the frame, and so
// are the headers and the payload if they do not fit before bodyEnd.
func (at *place) read(frame []byte, bodyEnd int) Packet {
	p := Packet{VLAN: at.vlan}
	copy(p.DstMAC[:], frame)
	copy(p.SrcMAC[:], frame[6:])
	ip := frame[at.l3:]
	if at.v6 {
		word := binary.BigEndian.Uint32(ip)
		p.TOS = uint8(word >> 20)
		p.FlowLabel = word & 0xfffff
		p.TTL = ip[7]
		p.Src = netip.AddrFrom16([16]byte(ip[8:]))
		p.Dst = netip.AddrFrom16([16]byte(ip[24:]))
	} else {
		p.TOS = ip[1]
		p.IPID = binary.BigEndian.Uint16(ip[4:])
		p.DF = ip[6]&0x40 != 0
		p.TTL = ip[8]
		p.Src = netip.AddrFrom4([4]byte(ip[12:]))
		p.Dst = netip.AddrFrom4([4]byte(ip[16:]))
	}
	p.SrcPort = binary.BigEndian.Uint16(frame[at.l4:])

	bodyAt := at.l4 + udpSize + BTHSize
	if bodyAt > bodyEnd || bodyAt > len(frame) {
		return p
	}
	var bth BTH
	bth.read(frame[bodyAt-BTHSize:])
	p.Opcode, p.SE, p.MigReq, p.PKey = bth.Opcode, bth.SE, bth.MigReq, bth.PKey
	p.FECN, p.BECN, p.Resv6, p.DestQP = bth.FECN, bth.BECN, bth.Resv6, bth.DestQP
	p.AckReq, p.Resv7, p.PSN = bth.AckReq, bth.Resv7, bth.PSN

	body := frame[bodyAt:bodyEnd]
	if len(body) < extSize(p.Opcode)+int(bth.Pad) {
		return p
	}
	if p.HasRETH() {
		var reth RETH
		reth.read(body)
		p.VA, p.RKey, p.DMALength = reth.VA, reth.RKey, reth.DMALength
		body = body[RETHSize:]
	}
	if p.HasImm() {
		p.Imm = binary.BigEndian.Uint32(body)
		body = body[ImmDtSize:]
	}
	if p.HasAETH() {
		var aeth AETH
		aeth.read(body)
		p.Syndrome, p.MSN = aeth.Syndrome, aeth.MSN
		body = body[AETHSize:]
	}
	p.Payload = append([]byte(nil), body[:len(body)-int(bth.Pad)]...)
	return p
}
