package stage_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// sample is a frame for inc_parse and what it was before it was cut off.
type sample struct {
	name  string
	bytes []byte
	whole []byte // the frame before it was cut; nil if it was not
	mac   bool   // MAC error
}

// opcodes are all that the wire carries.
var opcodes = []spec.Opcode{
	spec.OpcodeSendFirst, spec.OpcodeSendMiddle, spec.OpcodeSendLast, spec.OpcodeSendLastImm,
	spec.OpcodeSendOnly, spec.OpcodeSendOnlyImm, spec.OpcodeWriteFirst, spec.OpcodeWriteMiddle,
	spec.OpcodeWriteLast, spec.OpcodeWriteLastImm, spec.OpcodeWriteOnly, spec.OpcodeWriteOnlyImm,
	spec.OpcodeAcknowledge, spec.OpcodeCNP,
}

var syndromes = []uint8{0, 0x1f, 0x20, 0x3f, 0x60, 0x61, 0x62, 0x63, 0x64}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// randomPacket is a good packet with random fields.
func randomPacket(r *rand.Rand, opcode spec.Opcode, v6 bool, tags, payload int) *roce.Packet {
	p := &roce.Packet{
		DstMAC: roce.MAC(randomBytes(r, 6)), SrcMAC: roce.MAC(randomBytes(r, 6)),
		Src: netip.AddrFrom4([4]byte(randomBytes(r, 4))), Dst: netip.AddrFrom4([4]byte(randomBytes(r, 4))),
		TOS: uint8(r.Uint32()), TTL: uint8(r.Uint32()), IPID: uint16(r.Uint32()), DF: r.IntN(2) == 0,
		FlowLabel: r.Uint32N(1 << 20), SrcPort: uint16(r.Uint32()),
		Opcode: opcode, SE: r.IntN(2) == 0, MigReq: r.IntN(2) == 0, PKey: uint16(r.Uint32()),
		FECN: r.IntN(2) == 0, BECN: r.IntN(2) == 0, Resv6: uint8(r.Uint32N(64)),
		DestQP: r.Uint32N(1 << 24), AckReq: r.IntN(2) == 0, Resv7: uint8(r.Uint32N(128)),
		PSN: psn.PSN(r.Uint32N(1 << 24)),
		VA:  r.Uint64(), RKey: r.Uint32(), DMALength: r.Uint32(), Imm: r.Uint32(),
		Syndrome: syndromes[r.IntN(len(syndromes))], MSN: r.Uint32N(1 << 24),
		Payload: randomBytes(r, payload),
	}
	if v6 {
		p.Src, p.Dst = netip.AddrFrom16([16]byte(randomBytes(r, 16))), netip.AddrFrom16([16]byte(randomBytes(r, 16)))
		for p.Src.Is4In6() || p.Dst.Is4In6() {
			p.Src, p.Dst = netip.AddrFrom16([16]byte(randomBytes(r, 16))), netip.AddrFrom16([16]byte(randomBytes(r, 16)))
		}
	}
	for range tags {
		tpid := uint16(spec.EtherTypeVLAN)
		if r.IntN(2) == 0 {
			tpid = spec.EtherTypeQinQ
		}
		p.VLAN = append(p.VLAN, roce.VLANTag{TPID: tpid, TCI: uint16(r.Uint32())})
	}
	switch opcode {
	case spec.OpcodeAcknowledge:
		p.Payload = nil
	case spec.OpcodeCNP:
		p.Payload = randomBytes(r, roce.CNPBodySize)
	}
	return p
}

// place is where the parts of a frame begin, from its Ethernet header alone.
type place struct {
	l3, l4 int
	v6     bool
}

func placeOf(frame []byte) place {
	at := 12
	for n := 0; n < 2; n++ {
		if t := binary.BigEndian.Uint16(frame[at:]); t != 0x8100 && t != 0x88a8 {
			break
		}
		at += 4
	}
	p := place{l3: at + 2, v6: binary.BigEndian.Uint16(frame[at:]) == 0x86dd}
	p.l4 = p.l3 + 20
	if p.v6 {
		p.l4 = p.l3 + 40
	}
	return p
}

// sum16 is the ones' complement sum of big-endian words (RFC 1071), written here anew: it makes inputs.
func sum16(b []byte) uint16 {
	var s uint64
	for i, v := range b {
		s += uint64(v) << (8 * (1 - i%2))
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}

// fixIP makes the IPv4 header checksum right, so that a spoiled field is seen for itself.
func fixIP(frame []byte) {
	p := placeOf(frame)
	if p.v6 || len(frame) < p.l3+20 {
		return
	}
	frame[p.l3+10], frame[p.l3+11] = 0, 0
	binary.BigEndian.PutUint16(frame[p.l3+10:], ^sum16(frame[p.l3:p.l3+20]))
}

// setUDPSum writes the right UDP checksum (of the bytes that the UDP length names).
func setUDPSum(frame []byte) {
	p := placeOf(frame)
	n := int(binary.BigEndian.Uint16(frame[p.l4+4:]))
	frame[p.l4+6], frame[p.l4+7] = 0, 0
	addresses := frame[p.l3+12 : p.l4]
	if p.v6 {
		addresses = frame[p.l3+8 : p.l4]
	}
	pseudo := append([]byte{0, 17, byte(n >> 8), byte(n)}, addresses...)
	s := ^sum16(append(pseudo, frame[p.l4:p.l4+n]...))
	if s == 0 {
		s = 0xffff
	}
	binary.BigEndian.PutUint16(frame[p.l4+6:], s)
}

// goodSamples are right frames: every opcode, IP version and number of tags, payloads around what a beat
// holds, with and without trailer and UDP checksum.
func goodSamples(r *rand.Rand, width int) []sample {
	beat := width / 8
	sizes := []int{0, 1, 2, 3, 4, 5, 8, 10, 16, 31, 64, beat - 1, beat, beat + 1, beat + beat/2, 2*beat - 3, 2 * beat, 256, 257, 1024}
	var out []sample
	for _, opcode := range opcodes {
		for _, v6 := range []bool{false, true} {
			for tags := range 3 {
				for range 5 {
					n := sizes[r.IntN(len(sizes))]
					f := randomPacket(r, opcode, v6, tags, n).Encode()
					name := fmt.Sprintf("good %v v6=%v tags=%d payload=%d", opcode, v6, tags, n)
					if r.IntN(3) == 0 {
						setUDPSum(f)
						name += " checksum"
					}
					if r.IntN(3) == 0 {
						n := 1 + r.IntN(beat+20)
						f = append(f, randomBytes(r, n)...)
						name += fmt.Sprintf(" trailer=%d", n)
					}
					out = append(out, sample{name: name, bytes: f})
				}
			}
		}
	}
	for n := range 2*beat + 8 { // each alignment of the end
		out = append(out, sample{name: fmt.Sprintf("good length %d", n),
			bytes: randomPacket(r, spec.OpcodeSendOnly, r.IntN(2) == 0, r.IntN(3), n).Encode()})
	}
	for _, n := range []int{2048, 4095, 4096} {
		out = append(out, sample{name: fmt.Sprintf("good payload=%d", n),
			bytes: randomPacket(r, spec.OpcodeWriteOnlyImm, true, 2, n).Encode()})
	}
	for _, n := range []int{4097, 9000} { // good on the wire, larger than any RoCE MTU: no payload comes
		out = append(out, sample{name: fmt.Sprintf("large payload=%d", n),
			bytes: randomPacket(r, spec.OpcodeSendOnly, false, 0, n).Encode()})
	}
	return out
}

// cutSamples end after every possible number of bytes.
func cutSamples(r *rand.Rand, width int) []sample {
	var out []sample
	for i, n := range []int{0, 37, 3 * width / 8} {
		whole := randomPacket(r, opcodes[r.IntN(12)], i%2 == 1, i, n).Encode()
		for cut := 1; cut < len(whole); cut++ {
			out = append(out, sample{name: fmt.Sprintf("cut at %d of %d", cut, len(whole)),
				bytes: whole[:cut:cut], whole: whole})
		}
	}
	return out
}

// spoiledSamples have one byte changed; some have the checksums that would hide it made right again.
func spoiledSamples(r *rand.Rand) []sample {
	var out []sample
	for i := range 8 {
		opcode := opcodes[r.IntN(len(opcodes))]
		if i < 2 {
			opcode = spec.OpcodeAcknowledge
		}
		good := randomPacket(r, opcode, i%2 == 1, i%3, 4*r.IntN(12)+r.IntN(4)).Encode()
		if i >= 4 {
			setUDPSum(good)
		}
		for at := range good {
			for _, mask := range []byte{1 << r.IntN(8), byte(1 + r.IntN(255))} {
				f := append([]byte(nil), good...)
				f[at] ^= mask
				name := fmt.Sprintf("byte %d ^ %#02x (%s)", at, mask, roce.FieldAt(good, at))
				out = append(out, sample{name: name, bytes: f})
				g := append([]byte(nil), f...)
				fixIP(g)
				if roce.SetICRC(g) == nil {
					name += " refitted"
				}
				out = append(out, sample{name: name, bytes: g})
			}
		}
	}
	return out
}

// oddSamples break one rule, or several, on purpose.
func oddSamples(r *rand.Rand) []sample {
	var out []sample
	add := func(name string, f []byte) { out = append(out, sample{name: name, bytes: f}) }
	edit := func(name string, opcode spec.Opcode, v6 bool, tags, payload int, change func(f []byte, at place)) {
		f := randomPacket(r, opcode, v6, tags, payload).Encode()
		change(f, placeOf(f))
		fixIP(f)
		_ = roce.SetICRC(f) // an error: the lengths do not say where it is, so nothing changes
		add(name, f)
	}
	for tags := range 3 {
		for _, v6 := range []bool{false, true} {
			for length := range 64 {
				edit(fmt.Sprintf("IP length %d", length), spec.OpcodeSendOnly, v6, tags, 20, func(f []byte, at place) {
					if v6 {
						binary.BigEndian.PutUint16(f[at.l3+4:], uint16(length))
					} else {
						binary.BigEndian.PutUint16(f[at.l3+2:], uint16(length))
					}
				})
				edit(fmt.Sprintf("UDP and IP length say %d", length), opcodes[r.IntN(len(opcodes))], v6, tags, 20+r.IntN(40),
					func(f []byte, at place) {
						binary.BigEndian.PutUint16(f[at.l4+4:], uint16(length))
						if v6 {
							binary.BigEndian.PutUint16(f[at.l3+4:], uint16(length))
						} else {
							binary.BigEndian.PutUint16(f[at.l3+2:], uint16(length+20))
						}
					})
			}
			for pad := range 4 {
				for payload := range 5 {
					edit(fmt.Sprintf("pad %d payload %d", pad, payload), opcodes[r.IntN(len(opcodes))], v6, tags, payload,
						func(f []byte, at place) { f[at.l4+9] = f[at.l4+9]&0xcf | byte(pad)<<4 })
				}
			}
			for opcode := range 256 {
				edit(fmt.Sprintf("opcode %#02x", opcode), spec.OpcodeSendOnly, v6, tags, 4*r.IntN(12),
					func(f []byte, at place) { f[at.l4+8] = byte(opcode) })
			}
			for syndrome := range 256 {
				edit(fmt.Sprintf("syndrome %#02x", syndrome), spec.OpcodeAcknowledge, v6, tags, 0,
					func(f []byte, at place) { f[at.l4+20] = byte(syndrome) })
			}
			for tver := range 16 {
				edit(fmt.Sprintf("tver %d", tver), spec.OpcodeSendOnly, v6, tags, 8,
					func(f []byte, at place) { f[at.l4+9] = f[at.l4+9]&0xf0 | byte(tver) })
			}
			f := randomPacket(r, spec.OpcodeSendOnly, v6, tags, 33).Encode()
			setUDPSum(f)
			f[placeOf(f).l4+7]++
			add("UDP checksum off by one", f)
			f = append([]byte(nil), f...)
			f[placeOf(f).l4+6], f[placeOf(f).l4+7] = 0xff, 0xff
			add("UDP checksum 0xffff", f)
			// A sum that comes out as 0 is sent as 0xffff: choose the source port for it. The ICRC is then wrong.
			f = randomPacket(r, spec.OpcodeSendOnly, v6, tags, 32).Encode()
			setUDPSum(f)
			at := placeOf(f)
			port, sum := f[at.l4:at.l4+2], f[at.l4+6:at.l4+8]
			binary.BigEndian.PutUint16(port, sum16([]byte{port[0], port[1], sum[0], sum[1]}))
			setUDPSum(f)
			if sum[0] != 0xff || sum[1] != 0xff {
				panic("the checksum is not 0xffff")
			}
			add("UDP checksum sent as 0xffff", f)
		}
		for ihl := range 16 { // with and without port 4791 where the header length puts UDP
			for _, port := range []bool{false, true} {
				for _, payload := range []int{0, 24, 64} {
					edit(fmt.Sprintf("ihl %d payload %d port %v", ihl, payload, port), spec.OpcodeSendOnly, false, tags, payload,
						func(f []byte, at place) {
							f[at.l3] = 0x40 | byte(ihl)
							if l4 := at.l3 + 4*ihl; port && ihl > 5 && l4+4 <= len(f) {
								binary.BigEndian.PutUint16(f[at.l4+2:], uint16(r.Uint32()))
								binary.BigEndian.PutUint16(f[l4+2:], 4791)
							}
						})
				}
			}
		}
		for version := range 16 {
			edit(fmt.Sprintf("version %d", version), spec.OpcodeSendOnly, version%2 == 0, tags, 8,
				func(f []byte, at place) { f[at.l3] = f[at.l3]&15 | byte(version)<<4 })
		}
		for flags := range 8 {
			edit(fmt.Sprintf("fragment flags %d", flags), spec.OpcodeSendOnly, false, tags, 8,
				func(f []byte, at place) { f[at.l3+6] = byte(flags) << 5 })
		}
		edit("fragment offset", spec.OpcodeSendOnly, false, tags, 8, func(f []byte, at place) { f[at.l3+7] = 185 })
	}
	third := randomPacket(r, spec.OpcodeSendOnly, false, 2, 8).Encode()
	third = append(third[:20:20], append([]byte{0x81, 0, 0, 1}, third[20:]...)...)
	add("three tags", third)
	arp := append(randomBytes(r, 12), 8, 6)
	add("ARP", append(arp, randomBytes(r, 46)...))
	for range 200 { // noise, some of it with a plausible beginning
		f := randomBytes(r, 1+r.IntN(200))
		if len(f) > 40 && r.IntN(2) == 0 {
			copy(f[12:], []byte{8, 0, 0x45})
			f[23] = 17
		}
		add("noise", f)
	}
	for range 20 { // several faults at once
		f := randomPacket(r, opcodes[r.IntN(len(opcodes))], r.IntN(2) == 0, r.IntN(3), r.IntN(64)).Encode()
		for range 1 + r.IntN(4) {
			f[14+r.IntN(len(f)-14)] ^= byte(r.Uint32())
		}
		add("several faults", f)
	}
	return out
}

// smallSamples are the shortest frames, one after the other, whose state would leak into the next.
func smallSamples(r *rand.Rand) []sample {
	var out []sample
	for i := range 300 {
		var f []byte
		switch i % 5 {
		case 0, 1:
			f = randomPacket(r, spec.OpcodeAcknowledge, false, 0, 0).Encode()
		case 2:
			f = randomPacket(r, spec.OpcodeSendOnly, false, 0, r.IntN(8)).Encode()
		case 3:
			f = randomPacket(r, spec.OpcodeSendOnly, r.IntN(2) == 0, r.IntN(3), 0).Encode()
		case 4:
			f = randomBytes(r, 1+r.IntN(60))
		}
		out = append(out, sample{name: fmt.Sprintf("small %d", i), bytes: f})
	}
	return out
}
