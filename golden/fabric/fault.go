package fabric

import (
	"fmt"
	"slices"

	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// FaultKind is what a Fault does to its frame.
type FaultKind uint8

// The kinds of faults.
const (
	FaultDrop      FaultKind = iota
	FaultDuplicate           // it arrives once more, Fault.Late later
	FaultDelay               // it arrives Fault.Late later, behind what is sent meanwhile
	FaultCorrupt             // a bit of its PSN turns over
	FaultTruncate            // its second half is cut off
)

// String names the kind.
func (k FaultKind) String() string {
	return [...]string{"drop", "duplicate", "delay", "corrupt", "truncate"}[k]
}

// Place names a frame: the Nth, counted from 0, with an opcode that a node sends at a port.
type Place struct {
	From   ID
	Port   int
	Opcode spec.Opcode
	Nth    int
}

// Fault is done to the one frame at a place, besides what its link does to frames.
type Fault struct {
	Place
	Kind FaultKind
	Late uint64 // clocks
}

// count says where the fault stands.
type count struct {
	fault  *Fault
	seen   map[Place]int // by place with Nth 0
	struck bool
}

// SetFault arms a fault, which must be done before anything is sent.
func (f *Fabric) SetFault(fault Fault) { f.count = count{fault: &fault, seen: map[Place]int{}} }

// Struck says whether the frame of the fault has been sent.
func (f *Fabric) Struck() bool { return f.count.struck }

// strike changes what becomes of a frame, and the frame, if the fault is for it.
func (f *Fabric) strike(from ID, port int, frame []byte, c *Crossing) []byte {
	if f.count.fault == nil || f.count.struck {
		return frame
	}
	pkt, bad := roce.Decode(frame)
	if bad != nil {
		return frame
	}
	at := Place{From: from, Port: port, Opcode: pkt.Opcode}
	n := f.count.seen[at]
	f.count.seen[at]++
	at.Nth = n
	fault := f.count.fault
	if at != fault.Place {
		return frame
	}
	f.count.struck = true
	switch fault.Kind {
	case FaultDrop:
		c.Fate, c.Arrives, c.Again = Lost, 0, 0
	case FaultDuplicate:
		c.Again = c.Arrives + fault.Late
	case FaultDelay:
		c.Fate, c.Arrives = Late, c.Arrives+fault.Late
	case FaultCorrupt:
		frame = slices.Clone(frame)
		frame[psnAt(pkt)] ^= 1
	case FaultTruncate:
		frame = frame[:len(frame)/2]
	}
	return frame
}

// psnAt is where the last byte of a packet's PSN is in its frame.
func psnAt(pkt *roce.Packet) int {
	ip := 20
	if pkt.IsV6() {
		ip = 40
	}
	const ethernet, tag, udp, last = 14, 4, 8, 11
	return ethernet + tag*len(pkt.VLAN) + ip + udp + last
}

// String names the place in words.
func (p Place) String() string {
	return fmt.Sprintf("%v %d of port %d", p.Opcode, p.Nth, p.Port)
}

// OpcodeOf is the opcode of a frame, if it is a RoCE frame.
func OpcodeOf(frame []byte) (spec.Opcode, bool) {
	pkt, bad := roce.Decode(frame)
	if bad != nil {
		return 0, false
	}
	return pkt.Opcode, true
}
