package roce

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/epic-inc/epic/golden/spec"
)

// field is a run of bytes in a header. Bit fields that share a byte share a name, joined by "/".
type field struct {
	name string
	size int
}

var (
	ethFields  = []field{{"eth.dst", 6}, {"eth.src", 6}}
	ipv4Fields = []field{{"ip.version/ihl", 1}, {"ip.tos", 1}, {"ip.length", 2}, {"ip.id", 2}, {"ip.fragment", 2},
		{"ip.ttl", 1}, {"ip.protocol", 1}, {"ip.checksum", 2}, {"ip.src", 4}, {"ip.dst", 4}}
	ipv6Fields = []field{{"ip.version/traffic_class", 1}, {"ip.traffic_class/flow_label", 1}, {"ip.flow_label", 2},
		{"ip.length", 2}, {"ip.next_header", 1}, {"ip.hop_limit", 1}, {"ip.src", 16}, {"ip.dst", 16}}
	udpFields = []field{{"udp.src_port", 2}, {"udp.dst_port", 2}, {"udp.length", 2}, {"udp.checksum", 2}}
	bthFields = []field{{"bth.opcode", 1}, {"bth.se/migreq/pad/tver", 1}, {"bth.pkey", 2},
		{"bth.fecn/becn/resv6", 1}, {"bth.destqp", 3}, {"bth.ackreq/resv7", 1}, {"bth.psn", 3}}
	rethFields = []field{{"reth.va", 8}, {"reth.rkey", 4}, {"reth.dma_length", 4}}
	immFields  = []field{{"immdt", 4}}
	aethFields = []field{{"aeth.syndrome", 1}, {"aeth.msn", 3}}
)

// FieldAt names what the byte at an offset of a frame belongs to: "bth.psn", "payload[17]", "icrc",
// "trailer[0]". It takes the frame as its own headers describe it, good or bad.
func FieldAt(frame []byte, offset int) string {
	if offset < 0 || offset >= len(frame) {
		return fmt.Sprintf("beyond the frame's %d bytes", len(frame))
	}
	w := walk{left: offset}
	w.fields(ethFields)
	at := 12
	for range 2 {
		if len(frame) < at+2 {
			break
		}
		t := binary.BigEndian.Uint16(frame[at:])
		if t != spec.EtherTypeVLAN && t != spec.EtherTypeQinQ {
			break
		}
		w.take("vlan.tpid", 2)
		w.take("vlan.tci", 2)
		at += tagSize
	}
	w.take("eth.type", 2)
	if w.name != "" {
		return w.name
	}
	w.l3(frame, at+2, binary.BigEndian.Uint16(frame[at:]))
	return w.name
}

// walk goes over the fields of a frame until the wanted offset is used up.
type walk struct {
	left int    // bytes to go
	name string // set when found
}

func (w *walk) take(name string, size int) {
	if w.name == "" && w.left < size {
		w.name = name
	}
	w.left -= size
}

// run takes a field whose bytes are numbered.
func (w *walk) run(name string, size int) {
	if w.name == "" && w.left < size {
		w.name = fmt.Sprintf("%s[%d]", name, w.left)
	}
	w.left -= max(size, 0)
}

func (w *walk) fields(fs []field) {
	for _, f := range fs {
		w.take(f.name, f.size)
	}
}

func (w *walk) l3(frame []byte, l3 int, etherType uint16) {
	var l4, end int
	var udp bool
	present := len(frame)
	switch {
	case etherType == spec.EtherTypeIPv4:
		w.fields(ipv4Fields)
		if present < l3+ipv4Size {
			return
		}
		options := max(0, int(frame[l3]&0xf)*4-ipv4Size)
		w.run("ip.options", options)
		l4 = l3 + ipv4Size + options
		end = l3 + int(binary.BigEndian.Uint16(frame[l3+2:]))
		udp = frame[l3+9] == protoUDP && binary.BigEndian.Uint16(frame[l3+6:])&0x1fff == 0
	case etherType == spec.EtherTypeIPv6:
		w.fields(ipv6Fields)
		if present < l3+ipv6Size {
			return
		}
		l4 = l3 + ipv6Size
		end = l4 + int(binary.BigEndian.Uint16(frame[l3+4:]))
		udp = frame[l3+6] == protoUDP
	default:
		w.run("payload", present)
		return
	}
	if end < l4 || end > present { // a wrong length: what is there is all there is
		end = present
	}
	if udp && end >= l4+udpSize {
		w.fields(udpFields)
		if binary.BigEndian.Uint16(frame[l4+2:]) == spec.RoCEUDPPort && end >= l4+udpSize+BTHSize+ICRCSize {
			w.transport(frame[l4+udpSize : end])
		} else {
			w.run("payload", end-l4-udpSize)
		}
	} else {
		w.run("payload", end-l4)
	}
	w.run("trailer", present)
}

// transport goes over BTH .. ICRC.
func (w *walk) transport(d []byte) {
	w.fields(bthFields)
	info, _ := spec.Opcode(d[0]).Info()
	body := len(d) - BTHSize - ICRCSize
	if body >= info.HeaderBytes() {
		body -= info.HeaderBytes()
		if info.RETH {
			w.fields(rethFields)
		}
		if info.ImmDt {
			w.fields(immFields)
		}
		if info.AETH {
			w.fields(aethFields)
		}
	}
	pad := min(body, int(d[1]>>4&3))
	w.run("payload", body-pad)
	w.run("pad", pad)
	w.take("icrc", ICRCSize)
}

// Diff says where two frames first differ, and in which field of the wanted one; "" if they do not.
func Diff(got, want []byte) string {
	if bytes.Equal(got, want) {
		return ""
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("byte %d (%s) is %#02x, want %#02x", i, FieldAt(want, i), got[i], want[i])
		}
	}
	return fmt.Sprintf("frame is %d bytes, want %d", len(got), len(want))
}
