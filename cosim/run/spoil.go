package run

import (
	"encoding/binary"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// spoil makes of a packet that an endpoint would take one that is wrong in one respect, or not RoCE at all.
// It may by chance be right after all: golden decides.
func (a *adversary) spoil(i int, pkt *roce.Packet) (port int, frame []byte, macError bool) {
	port = a.cfg.Endpoints[i].Port
	ways := []func(){
		func() { frame, macError = a.dress(pkt), true },
		func() { frame = a.flip(a.dress(pkt)) },
		func() { frame = a.dress(pkt); frame = frame[:1+a.rng.IntN(len(frame)-1)] }, // cut
		func() { frame = a.headerByte(pkt) },
		func() { frame = a.headerByte(pkt) },
		func() { a.apart(i, pkt); frame = a.length(pkt) },
		func() { a.apart(i, pkt); frame = a.length(pkt) },
		func() { a.stranger(i, pkt, &port); frame = a.dress(pkt) },
		func() { a.stranger(i, pkt, &port); frame = a.dress(pkt) },
		func() { a.apart(i, pkt); a.kind(pkt); frame = a.dress(pkt) },
		func() { frame = a.foreign(pkt) },
		func() { frame = pkt.Encode(); setUDPChecksum(frame, pkt); frame = a.flip(frame) },
		func() { frame = a.icrc(pkt) },
		func() { frame = a.pad(pkt) },
	}
	ways[a.rng.IntN(len(ways))]()
	return port, frame, macError
}

// apart moves a contribution that is to have another kind or length than those of the other ins, and may be
// right otherwise, to where it ends no life: behind the window, mostly.
func (a *adversary) apart(i int, pkt *roce.Packet) {
	if p := a.cfg.Endpoints[i].InPipe; p != engine.None && a.rng.IntN(32) > 0 {
		pkt.PSN = psn.Add(psn.PSN(a.pipe[p].PSNStart), -1-a.rng.IntN(2))
	}
}

// flip turns one bit of a frame.
func (a *adversary) flip(frame []byte) []byte {
	frame[a.rng.IntN(len(frame))] ^= 1 << a.rng.IntN(8)
	return frame
}

// icrc spoils one byte of the ICRC alone.
func (a *adversary) icrc(pkt *roce.Packet) []byte {
	frame := pkt.Encode()
	frame[len(frame)-1-a.rng.IntN(4)] ^= byte(1 + a.rng.IntN(255))
	return frame
}

// pad sets the pad count to any value, mostly where there is nothing to pad.
func (a *adversary) pad(pkt *roce.Packet) []byte {
	if !pkt.HasAETH() && a.rng.IntN(4) > 0 {
		pkt.Opcode, pkt.Payload = spec.OpcodeSendOnly, nil
	}
	frame := pkt.Encode()
	frame[udpAt(pkt)+9] ^= byte(1+a.rng.IntN(3)) << 4
	_ = roce.SetICRC(frame)
	return frame
}

// ipAt and udpAt are where the headers of an encoded packet begin.
func ipAt(pkt *roce.Packet) int { return 14 + 4*len(pkt.VLAN) }

func udpAt(pkt *roce.Packet) int {
	if pkt.IsV6() {
		return ipAt(pkt) + 40
	}
	return ipAt(pkt) + 20
}

// headerByte gives one byte from the EtherType to the extended header any value, with checksum and ICRC
// right after it as far as there are any.
func (a *adversary) headerByte(pkt *roce.Packet) []byte {
	frame := pkt.Encode()
	l3, l4 := ipAt(pkt), udpAt(pkt)
	at := l3 - 2 + a.rng.IntN(min(len(frame), l4+24)-l3+2)
	if a.rng.IntN(2) == 0 {
		frame[at] ^= 1 << a.rng.IntN(8)
	} else {
		frame[at] = byte(a.rng.Uint32())
	}
	if at != l3+10 && at != l3+11 {
		setIPChecksum(frame, pkt)
	}
	_ = roce.SetICRC(frame) // if its lengths no longer say where it is, it stays as it was
	return frame
}

// length makes one of the lengths wrong, and all that follows from it right: too long and too short for the
// frame, for UDP, for BTH, for the opcode.
func (a *adversary) length(pkt *roce.Packet) []byte {
	by := []int{-64, -28, -24, -20, -16, -12, -8, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 8, 16, 28, 1024}[a.rng.IntN(21)]
	if a.rng.IntN(3) == 0 { // the frame itself
		if size := max(0, len(pkt.Payload)+by); pkt.HasAETH() {
			pkt.Payload = make([]byte, min(size, 16))
		} else {
			pkt.Payload = make([]byte, size)
		}
		return pkt.Encode()
	}
	frame := pkt.Encode()
	l3, l4 := ipAt(pkt), udpAt(pkt)
	ip := l3 + 2
	if pkt.IsV6() {
		ip = l3 + 4
	}
	which := 1 + a.rng.IntN(3)
	for bit, at := range []int{ip, l4 + 4} {
		if which>>bit&1 != 0 {
			binary.BigEndian.PutUint16(frame[at:], uint16(int(binary.BigEndian.Uint16(frame[at:]))+by))
		}
	}
	setIPChecksum(frame, pkt)
	_ = roce.SetICRC(frame)
	return frame
}

// stranger changes who a packet is from or for.
func (a *adversary) stranger(i int, pkt *roce.Packet, port *int) {
	entries := uint32(a.rtl.engine.Params().Endpoints)
	other := a.cfg.Endpoints[a.rng.IntN(len(a.cfg.Endpoints))]
	switch a.rng.IntN(9) {
	case 0:
		pkt.SrcMAC[a.rng.IntN(6)] ^= 1 << a.rng.IntN(8)
	case 1:
		ip := pkt.Src.AsSlice()
		pkt.Src = addr(a.flip(ip))
	case 2:
		ip := pkt.Dst.AsSlice()
		pkt.Dst = addr(a.flip(ip))
	case 3: // the same table entry
		pkt.DestQP = (pkt.DestQP + entries*uint32(1+a.rng.IntN(15))) & 0xffffff
	case 4:
		pkt.DestQP ^= 1 << a.rng.IntN(24)
	case 5:
		pkt.PKey = []uint16{pkt.PKey ^ 1<<a.rng.IntN(15), pkt.PKey &^ fullMember, pkt.PKey &^ fullMember, uint16(a.rng.Uint32())}[a.rng.IntN(4)]
	case 6:
		*port = a.rng.IntN(a.rtl.engine.Params().Ports)
	case 7: // another endpoint's address and QPN, or either
		pkt.DestQP = other.QPN
	case 8:
		*port, pkt.SrcMAC = other.Port, other.PeerMAC
	}
}

// kind makes another kind of packet of it: another opcode with what belongs to it, a CNP, an undefined AETH.
func (a *adversary) kind(pkt *roce.Packet) {
	switch a.rng.IntN(6) {
	case 0:
		pkt.Opcode = spec.Opcode(a.rng.IntN(256))
	case 1, 2: // RDMA WRITEs and what else is known
		pkt.Opcode = spec.Opcodes[a.rng.IntN(len(spec.Opcodes))]
		if pkt.Opcode == spec.OpcodeCNP {
			pkt.Payload = make([]byte, 16)
		}
	case 3:
		pkt.Opcode, pkt.Payload = spec.OpcodeCNP, make([]byte, 16-4*(a.rng.IntN(5)/4))
	case 4: // never a fatal NAK: that is how a life ends
		pkt.Opcode, pkt.Payload = spec.OpcodeAcknowledge, nil
		for pkt.Syndrome = 0x61; pkt.Syndrome>>5 == 3 && pkt.Syndrome&0x1f <= 4 || pkt.Syndrome == 0x20; {
			pkt.Syndrome = uint8(a.rng.Uint32())
			if pkt.Syndrome>>5 == 1 {
				pkt.Syndrome = 0x21 // nor an RNR wait that lasts for the rest of the run
			}
		}
	case 5: // odd bytes
		pkt.Payload = append(pkt.Payload, make([]byte, 1+a.rng.IntN(3))...)
		if pkt.HasAETH() {
			pkt.Payload = nil
		}
	}
}

// foreign is a frame for the bypass: other protocols, and frames longer than any MTU.
func (a *adversary) foreign(pkt *roce.Packet) []byte {
	frame := a.dress(pkt)
	l3, l4 := ipAt(pkt), udpAt(pkt)
	switch a.rng.IntN(6) {
	case 0: // ARP, LLDP, anything
		binary.BigEndian.PutUint16(frame[l3-2:], []uint16{0x0806, 0x88cc, 0x8915, 0x8100, uint16(a.rng.Uint32())}[a.rng.IntN(5)])
	case 1: // TCP, ICMP
		at := l3 + 9
		if pkt.IsV6() {
			at = l3 + 6
		}
		frame[at] = []byte{1, 6, 58, 16, 19}[a.rng.IntN(5)]
	case 2:
		binary.BigEndian.PutUint16(frame[l4+2:], []uint16{4790, 4792, 53, 4791 ^ 0x1000}[a.rng.IntN(4)])
	case 3: // a jumbo frame
		frame = append(frame, make([]byte, 1500+a.rng.IntN(9000))...)
		binary.BigEndian.PutUint16(frame[l4+2:], 443)
	case 4:
		frame = make([]byte, 1+a.rng.IntN(200))
		for n := range frame {
			frame[n] = byte(a.rng.Uint32())
		}
	case 5: // a later fragment
		if !pkt.IsV6() {
			frame[l3+7] |= 1 << a.rng.IntN(8)
			setIPChecksum(frame, pkt)
		}
	}
	return frame
}
