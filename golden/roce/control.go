package roce

import (
	"encoding/binary"

	"github.com/epic-inc/epic/golden/spec"
)

// Control is a control signal: the SEND Only with Immediate that opens a collective on an unpinned pipe
// (protocol.md 10). Its immediate is laid out in rtl/spec/inc.yaml; its payload is two 64-bit numbers, all in
// network byte order.
type Control struct {
	Type     spec.CollType // 4 bits, like the next three
	Op       spec.Op
	DType    spec.DType
	Flags    uint8
	Root     uint16 // of Reduce and Broadcast, else 0
	Bytes    uint64 // of the collective
	Sequence uint64 // number of the subgroup's collectives before it
}

// ParseControl reads the immediate and the spec.ControlBytes bytes of payload. Any bits are a Control.
func ParseControl(imm uint32, payload []byte) Control {
	return Control{
		Type:     spec.CollType(imm >> spec.ControlTypeShift & 0xf),
		Op:       spec.Op(imm >> spec.ControlOpShift & 0xf),
		DType:    spec.DType(imm >> spec.ControlDTypeShift & 0xf),
		Flags:    uint8(imm >> spec.ControlFlagsShift & 0xf),
		Root:     uint16(imm),
		Bytes:    binary.BigEndian.Uint64(payload),
		Sequence: binary.BigEndian.Uint64(payload[8:]),
	}
}

// Imm is the immediate; bits beyond a field's width are cut off.
func (c Control) Imm() uint32 {
	return uint32(c.Type&0xf)<<spec.ControlTypeShift | uint32(c.Op&0xf)<<spec.ControlOpShift |
		uint32(c.DType&0xf)<<spec.ControlDTypeShift | uint32(c.Flags&0xf)<<spec.ControlFlagsShift | uint32(c.Root)
}

// Payload is the spec.ControlBytes bytes after the immediate.
func (c Control) Payload() []byte {
	b := binary.BigEndian.AppendUint64(nil, c.Bytes)
	return binary.BigEndian.AppendUint64(b, c.Sequence)
}

// Packets is how many packets of mtu bytes the collective has: PSNs of the window that the signal opens.
func (c Control) Packets(mtu int) uint64 {
	n := c.Bytes / uint64(mtu)
	if c.Bytes%uint64(mtu) != 0 {
		n++
	}
	return n
}
