package roce_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What follows makes frames byte by byte from the layout of the standards, with nothing of the package
// under test: lengths, RFC 1071 checksums and a CRC that works bit by bit.

// raw describes a frame to make. Zero lengths and checksums are filled in, others left as they are.
type raw struct {
	tags    string // hex of the VLAN tags, TPID and TCI each
	v6      bool
	tos     byte
	flow    uint32
	ttl     byte
	id      uint16
	flags   byte // byte 6 of IPv4: reserved, DF, MF
	sport   uint16
	udpSum  bool // compute the UDP checksum
	opcode  byte
	bth1    byte // SE, MigReq, pad, TVer
	pkey    uint16
	resv8a  byte // FECN, BECN, Resv6
	qpn     uint32
	ackreq  byte // AckReq and Resv7
	psn     uint32
	ext     string // hex of the extended headers
	payload []byte // with pad
	trailer []byte // after the IP length
}

const (
	refDstMAC = "525400000063"
	refSrcMAC = "525400000001"
	refSrc4   = "0a090001"
	refDst4   = "0a090063"
	refSrc6   = "20010db8000000000000000000000001"
	refDst6   = "20010db8000000000000000000000063"
)

func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(tb, err)
	return b
}

func be(n int, v uint64) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(v >> (8 * (n - 1 - i)))
	}
	return b
}

// frame makes the frame.
func (r raw) frame(tb testing.TB) []byte {
	tb.Helper()
	bth := append([]byte{r.opcode, r.bth1}, be(2, uint64(r.pkey))...)
	bth = append(bth, r.resv8a)
	bth = append(bth, be(3, uint64(r.qpn))...)
	bth = append(bth, r.ackreq)
	bth = append(bth, be(3, uint64(r.psn))...)
	body := append(bth, unhex(tb, r.ext)...)
	body = append(body, r.payload...)
	udpLen := 8 + len(body) + 4

	f := unhex(tb, refDstMAC+refSrcMAC+r.tags)
	if r.v6 {
		f = append(f, 0x86, 0xdd)
		f = append(f, be(4, 6<<28|uint64(r.tos)<<20|uint64(r.flow))...)
		f = append(f, be(2, uint64(udpLen))...)
		f = append(f, 17, r.ttl)
		f = append(f, unhex(tb, refSrc6+refDst6)...)
	} else {
		f = append(f, 0x08, 0x00, 0x45, r.tos)
		f = append(f, be(2, uint64(20+udpLen))...)
		f = append(f, be(2, uint64(r.id))...)
		f = append(f, r.flags, 0, r.ttl, 17, 0, 0)
		f = append(f, unhex(tb, refSrc4+refDst4)...)
	}
	f = append(f, be(2, uint64(r.sport))...)
	f = append(f, 0x12, 0xb7)
	f = append(f, be(2, uint64(udpLen))...)
	f = append(f, 0, 0)
	f = append(f, body...)
	f = append(f, 0, 0, 0, 0)
	l3 := 14 + len(r.tags)/2
	if !r.v6 {
		refFixIP(f, l3)
	}
	refFixICRC(f, l3, len(f))
	if r.udpSum {
		refFixUDP(f, l3, len(f))
	}
	return append(f, r.trailer...)
}

// l3 and l4 of the frame.
func (r raw) l3() int { return 14 + len(r.tags)/2 }

func (r raw) l4() int {
	if r.v6 {
		return r.l3() + 40
	}
	return r.l3() + 20
}

// refSum is the RFC 1071 sum of bytes, one at a time: even ones count 256.
func refSum(parts ...[]byte) uint16 {
	total := 0
	for _, p := range parts {
		for i, b := range p {
			if i%2 == 0 {
				total += 256 * int(b)
			} else {
				total += int(b)
			}
		}
	}
	total %= 65535 // ones' complement addition is addition mod 2^16-1
	return uint16(total)
}

// refFixIP writes the IPv4 header checksum.
func refFixIP(f []byte, l3 int) {
	f[l3+10], f[l3+11] = 0, 0
	copy(f[l3+10:], be(2, uint64(65535-refSum(f[l3:l3+20]))))
}

// refFixUDP writes the UDP checksum (over the pseudo header of the frame's IP version).
func refFixUDP(f []byte, l3, end int) {
	l4, addrs := l3+20, f[l3+12:l3+20]
	if f[l3]>>4 == 6 {
		l4, addrs = l3+40, f[l3+8:l3+40]
	}
	f[l4+6], f[l4+7] = 0, 0
	sum := 65535 - refSum(addrs, []byte{0, 17}, be(2, uint64(end-l4)), f[l4:end])
	if sum == 0 {
		sum = 65535
	}
	copy(f[l4+6:], be(2, uint64(sum)))
}

// refICRC is the four bytes on the wire: the CRC of IEEE 802.3 as a shift register over the bits in
// the order of the wire (least significant first), preset to ones, complemented, sent from the highest
// power on.
func refICRC(f []byte, l3, end int) [4]byte {
	p := make([]byte, 8, 8+len(f))
	for i := range p {
		p[i] = 0xff
	}
	p = append(p, f[l3:end-4]...)
	ones := func(offset int) { p[8+offset] = 0xff }
	udp := 20
	if f[l3]>>4 == 6 {
		udp = 40
		p[8] |= 0x0f
		for _, o := range []int{1, 2, 3, 7} {
			ones(o)
		}
	} else {
		for _, o := range []int{1, 8, 10, 11} {
			ones(o)
		}
	}
	ones(udp + 6)
	ones(udp + 7)
	ones(udp + 8 + 4)

	var reg [32]bool // reg[k] is the coefficient of x^k
	for i := range reg {
		reg[i] = true
	}
	for _, b := range p {
		for i := range 8 {
			feedback := reg[31] != (b>>i&1 == 1)
			for k := 31; k > 0; k-- {
				reg[k] = reg[k-1]
			}
			reg[0] = feedback
			for _, k := range []int{1, 2, 4, 5, 7, 8, 10, 11, 12, 16, 22, 23, 26} {
				reg[k] = reg[k] != feedback
			}
		}
	}
	var wire [4]byte
	for i := range 32 {
		if !reg[31-i] {
			wire[i/8] |= 1 << (i % 8)
		}
	}
	return wire
}

func refFixICRC(f []byte, l3, end int) {
	icrc := refICRC(f, l3, end)
	copy(f[end-4:], icrc[:])
}

// counting is n bytes 1, 2, 3, ...
func counting(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i + 1)
	}
	return b
}

// sendOnly is the frame most tests spoil: SEND Only of 20 bytes.
func sendOnly() raw {
	return raw{tos: 2, ttl: 64, id: 0x1234, flags: 0x40, sport: 49999, opcode: 0x04, bth1: 0x40, pkey: 0xffff,
		qpn: 0x000101, ackreq: 0x80, psn: 0xfffff0, payload: counting(20)}
}
