// Package spec holds every number that the golden model, the RTL and the co-simulation share: opcodes, verdicts,
// causes, the retirement record, table entries and the messages of the link. spec_gen.go is generated from
// rtl/spec/inc.yaml; the rest of the package is what generated code stands on.
package spec

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net"
	"net/netip"
	"strings"
)

//go:generate go run ../../scripts/generate -root ../..

// PoolBlocks is the blocks of a pool of so many KiB.
func PoolBlocks(kb int) int { return kb * 1024 / BlockBytes }

// Kind is what an opcode is for.
type Kind uint8

// Kinds of opcodes.
const (
	KindData Kind = iota // SEND or RDMA WRITE: goes to a pipe
	KindAck              // ACKNOWLEDGE: ACK, NAK or RNR NAK by its AETH
	KindCNP              // congestion notification
)

// String is the name in inc.yaml.
func (k Kind) String() string {
	switch k {
	case KindData:
		return "data"
	case KindAck:
		return "ack"
	case KindCNP:
		return "cnp"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// OpcodeInfo is what inc.yaml says about an opcode. The headers follow BTH in the order RETH, ImmDt, AETH.
type OpcodeInfo struct {
	Name  string // as in inc.yaml
	Kind  Kind
	First bool // First or Only: starts a message
	Last  bool // Last or Only: ends a message, counts in MSN
	RETH  bool
	ImmDt bool
	AETH  bool
}

// HeaderBytes is the length of the headers between BTH and payload.
func (i OpcodeInfo) HeaderBytes() int {
	n := 0
	if i.RETH {
		n += 16
	}
	if i.ImmDt {
		n += 4
	}
	if i.AETH {
		n += 4
	}
	return n
}

// String is the name in inc.yaml, or the number of an opcode the engine does not carry.
func (o Opcode) String() string {
	if info, ok := o.Info(); ok {
		return info.Name
	}
	return fmt.Sprintf("opcode(%#02x)", uint8(o))
}

// Known says whether the engine carries the opcode.
func (o Opcode) Known() bool {
	_, ok := o.Info()
	return ok
}

// ParseOpcode finds an opcode by its name in inc.yaml.
func ParseOpcode(name string) (Opcode, error) {
	names := make([]string, len(Opcodes))
	for i, o := range Opcodes {
		names[i] = o.String()
		if names[i] == name {
			return o, nil
		}
	}
	return 0, unknownName("opcode", name, names)
}

// Class is what is done with a frame of a verdict.
type Class uint8

// Classes of verdicts.
const (
	ClassOk     Class = iota // taken
	ClassBypass              // whole and unchanged to m_axis_bypass
	ClassDrop                // dropped and counted
)

// String is the name in inc.yaml.
func (c Class) String() string {
	switch c {
	case ClassOk:
		return "ok"
	case ClassBypass:
		return "bypass"
	case ClassDrop:
		return "drop"
	}
	return fmt.Sprintf("class(%d)", uint8(c))
}

// Stage is where in the engine a verdict is found.
type Stage uint8

// Stages of verdicts.
const (
	StageWire   Stage = iota // needs nothing but the frame
	StageTable               // needs the endpoint and pipe tables
	StageEngine              // needs the state of the engine
)

// String is the name in inc.yaml.
func (s Stage) String() string {
	switch s {
	case StageWire:
		return "wire"
	case StageTable:
		return "table"
	case StageEngine:
		return "engine"
	}
	return fmt.Sprintf("stage(%d)", uint8(s))
}

// VerdictInfo is what inc.yaml says about a verdict.
type VerdictInfo struct {
	Class Class
	Stage Stage
	Doc   string
}

// Class of the verdict; a number that has none counts as a drop.
func (v Verdict) Class() Class {
	if info, ok := v.Info(); ok {
		return info.Class
	}
	return ClassDrop
}

// Doc says what the verdict means.
func (v Verdict) Doc() string {
	info, _ := v.Info()
	return info.Doc
}

// Counter is the counter of the verdict.
func (v Verdict) Counter() Counter { return Counter(v) }

// RNRTicks is the wait that an RNR timer code asks for, in ticks of TickNs. Only the low five bits of the
// code count, as in the AETH syndrome (IBTA table 45).
func RNRTicks(code uint8) uint32 { return rnrTicks[code&0x1f] }

// RecordFieldInfo describes one field of a Record.
type RecordFieldInfo struct {
	Name  string
	Word  int    // first 32-bit word
	Words int    // 1 or 2
	Group Groups // the group the field belongs to; 0: always valid
	Doc   string
}

// Has says whether field i of RecordFields is valid in this record: it belongs to no group, or to one whose bit is set.
func (r *Record) Has(i int) bool {
	g := RecordFields[i].Group
	return g == 0 || r.Groups&g != 0
}

// String shows the valid fields, in order.
func (r *Record) String() string {
	var b strings.Builder
	for i, f := range RecordFields {
		if !r.Has(i) {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%s", f.Name, r.FieldString(i))
	}
	return b.String()
}

// String names the groups, joined by "|".
func (g Groups) String() string {
	var names []string
	for _, n := range []struct {
		bit  Groups
		name string
	}{{GroupRx, "rx"}, {GroupTx, "tx"}, {GroupPipe, "pipe"}, {GroupSlot, "slot"}} {
		if g&n.bit != 0 {
			names = append(names, n.name)
		}
		g &^= n.bit
	}
	if g != 0 {
		names = append(names, fmt.Sprintf("%#x", uint32(g)))
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, "|")
}

// TableInfo describes one table of the engine.
type TableInfo struct {
	Name     string
	Bits     int // of an entry
	Words    int // 32-bit words of an entry
	ReadOnly bool
	Fields   []TableFieldInfo
}

// TableFieldInfo describes one field of a table entry.
type TableFieldInfo struct {
	Name  string
	LSB   int // first bit
	Width int // bits
	Doc   string
}

// Entry is an entry of a table.
type Entry interface {
	Table() TableID
	Validate() error
	Words() []uint32
	SetWords([]uint32) error
}

// EntryDifference names the first field in which two entries of one table differ, with both values in hexadecimal;
// ok is false if they are equal.
func EntryDifference(a, b Entry) (field, inA, inB string, ok bool) {
	wa, wb := a.Words(), b.Words()
	for _, f := range Tables[a.Table()].Fields {
		va, vb := bitsHex(wa, f), bitsHex(wb, f)
		if va != vb {
			return f.Name, va, vb, true
		}
	}
	return "", "", "", false
}

// bitsHex is a field of a packed entry in hexadecimal.
func bitsHex(w []uint32, f TableFieldInfo) string {
	lo := getBits(w, f.LSB, min(f.Width, 64))
	if f.Width > 64 {
		if hi := getBits(w, f.LSB+64, f.Width-64); hi != 0 {
			return fmt.Sprintf("%#x%016x", hi, lo)
		}
	}
	return fmt.Sprintf("%#x", lo)
}

// Uint128 is a 128-bit number, as the IP addresses of a table entry are held.
type Uint128 struct {
	Lo, Hi uint64 // bits 63:0 and 127:64
}

// Uint128FromAddr is an IP address as table entries hold it: IPv4 in bits 31:0, the first byte on the wire most
// significant.
func Uint128FromAddr(a netip.Addr) Uint128 {
	if !a.IsValid() {
		return Uint128{}
	}
	if a.Is4() {
		b := a.As4()
		return Uint128{Lo: uint64(binary.BigEndian.Uint32(b[:]))}
	}
	b := a.As16()
	return Uint128{Lo: binary.BigEndian.Uint64(b[8:]), Hi: binary.BigEndian.Uint64(b[:8])}
}

// Addr is the reverse of Uint128FromAddr.
func (u Uint128) Addr(isV6 bool) netip.Addr {
	if !isV6 {
		return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(u.Lo))))
	}
	b := binary.BigEndian.AppendUint64(nil, u.Hi)
	return netip.AddrFrom16([16]byte(binary.BigEndian.AppendUint64(b, u.Lo)))
}

// MACToUint64 is a MAC address as table entries hold it: the first byte on the wire in bits 47:40. An address
// that is not six bytes long is an error.
func MACToUint64(a net.HardwareAddr) (uint64, error) {
	if len(a) != 6 {
		return 0, fmt.Errorf("MAC address %q: got %d bytes, want 6", a, len(a))
	}
	return uint64(binary.BigEndian.Uint16(a))<<32 | uint64(binary.BigEndian.Uint32(a[2:])), nil
}

// Message is a message of the co-simulation link.
type Message interface {
	MessageID() MessageID
	AppendBody([]byte) []byte
	DecodeBody([]byte) error
}

// MessageHeaderBytes is the length of what precedes every message: its length in bytes, these eight
// included, and its type.
const MessageHeaderBytes = 8

// AppendMessage appends a whole message: length, type, fields, bytes.
func AppendMessage(b []byte, m Message) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(m.MessageID()))
	b = m.AppendBody(b)
	binary.LittleEndian.PutUint32(b[start:], uint32(len(b)-start))
	return b
}

// DecodeMessage reads one whole message, of exactly len(b) bytes. Raw bytes of the message alias b.
func DecodeMessage(b []byte) (Message, error) {
	if len(b) < MessageHeaderBytes {
		return nil, fmt.Errorf("message: got %d bytes, want a header of %d", len(b), MessageHeaderBytes)
	}
	if n := binary.LittleEndian.Uint32(b); uint64(n) != uint64(len(b)) {
		return nil, fmt.Errorf("message: header says %d bytes, got %d", n, len(b))
	}
	id := MessageID(binary.LittleEndian.Uint32(b[4:]))
	m := NewMessage(id)
	if m == nil {
		return nil, fmt.Errorf("message: got type %d, want one of the spec's", uint32(id))
	}
	if err := m.DecodeBody(b[MessageHeaderBytes:]); err != nil {
		return nil, err
	}
	return m, nil
}

// bodyLength checks the length of a message's body against that of its fixed fields.
func bodyLength(id MessageID, got, fixed int, raw bool) error {
	if got == fixed || raw && got > fixed {
		return nil
	}
	atLeast := ""
	if raw {
		atLeast = "at least "
	}
	return fmt.Errorf("message %s: got %d bytes of fields, want %s%d", id, got, atLeast, fixed)
}

func unknownName(what, name string, known []string) error {
	return fmt.Errorf("%s: got %q, want one of %s", what, name, strings.Join(known, ", "))
}

// fits says whether v has no more than width bits.
func fits(name string, v uint64, width int) error {
	if bits.Len64(v) > width {
		return fmt.Errorf("%s: got %d, want 0..%d (%d bits)", name, v, uint64(1)<<width-1, width)
	}
	return nil
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// putBits writes the low width (1..64) bits of v at bit lsb of w, whose bits there are 0.
func putBits(w []uint32, lsb, width int, v uint64) {
	for width > 0 {
		at := lsb % 32
		n := min(32-at, width)
		w[lsb/32] |= uint32(v&(1<<n-1)) << at
		v >>= n
		lsb += n
		width -= n
	}
}

// getBits reads width (1..64) bits at bit lsb of w.
func getBits(w []uint32, lsb, width int) uint64 {
	var v uint64
	for got := 0; got < width; {
		at := (lsb + got) % 32
		n := min(32-at, width-got)
		v |= uint64(w[(lsb+got)/32]>>at) & (1<<n - 1) << got
		got += n
	}
	return v
}
