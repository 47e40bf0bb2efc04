package roce_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// verdictOf is the verdict of Decode, with what must hold of every call.
func verdictOf(tb testing.TB, frame []byte) spec.Verdict {
	tb.Helper()
	before := slices.Clone(frame)
	p, m := roce.Decode(frame)
	require.Equal(tb, before, frame, "Decode changed the frame")
	d := roce.Dissect(frame)
	require.Equal(tb, m, d.Malformed, "Decode and Dissect differ")
	if m == nil {
		require.NotNil(tb, p)
		require.Equal(tb, *p, d.Packet)
		return spec.VerdictOk
	}
	require.Nil(tb, p)
	require.NotEqual(tb, spec.VerdictOk, m.Verdict)
	require.Equal(tb, spec.StageWire, must(m.Verdict.Info()).Stage)
	require.NotEmpty(tb, m.Field)
	require.NotEqual(tb, m.Got, m.Want)
	require.GreaterOrEqual(tb, m.Offset, 0)
	require.LessOrEqual(tb, m.Offset, max(len(frame), 12))
	return m.Verdict
}

func must[T any](v T, ok bool) T {
	if !ok {
		panic("no such number")
	}
	return v
}

const (
	tag1 = "8100 2064"           // 802.1Q, priority 1, VLAN 100
	tag2 = "88a8 0007 8100 2064" // 802.1ad outside
)

func strip(s string) string {
	out := make([]rune, 0, len(s))
	for _, r := range s {
		if r != ' ' {
			out = append(out, r)
		}
	}
	return string(out)
}

// each runs a test on IPv4 and IPv6, without, with one and with two VLAN tags.
func each(t *testing.T, test func(t *testing.T, v6 bool, tags string)) {
	for _, v6 := range []bool{false, true} {
		for i, tags := range []string{"", strip(tag1), strip(tag2)} {
			t.Run(fmt.Sprintf("v6=%t/tags=%d", v6, i), func(t *testing.T) { test(t, v6, tags) })
		}
	}
}

// A frame that ends early: not RoCE until the UDP header is whole, then shorter than IP says.
func TestTruncatedAtEveryByte(t *testing.T) {
	each(t, func(t *testing.T, v6 bool, tags string) {
		r := sendOnly()
		r.v6, r.tags = v6, tags
		whole := r.frame(t)
		for n := range len(whole) {
			want := spec.VerdictIPLength
			if n < r.l4()+8 {
				want = spec.VerdictNotRoCE
			}
			require.Equal(t, want, verdictOf(t, whole[:n]), "%d of %d bytes", n, len(whole))
		}
		require.Equal(t, spec.VerdictOk, verdictOf(t, whole))
	})
}

// A frame whose IP and UDP lengths agree with where it ends: by the bytes after BTH, of each opcode.
func TestShortPackets(t *testing.T) {
	for _, c := range []struct {
		name   string
		opcode byte
		ext    int // bytes of extended headers
	}{
		{"send_first", 0x00, 0}, {"send_middle", 0x01, 0}, {"send_last", 0x02, 0}, {"send_last_imm", 0x03, 4},
		{"send_only", 0x04, 0}, {"send_only_imm", 0x05, 4}, {"write_first", 0x06, 16}, {"write_middle", 0x07, 0},
		{"write_last", 0x08, 0}, {"write_last_imm", 0x09, 4}, {"write_only", 0x0a, 16},
		{"write_only_imm", 0x0b, 20}, {"acknowledge", 0x11, 4}, {"cnp", 0x81, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, v6 bool, tags string) {
				for n := 0; n <= 44; n++ { // n bytes of UDP payload
					r := sendOnly()
					r.v6, r.tags, r.opcode, r.payload = v6, tags, c.opcode, make([]byte, 64)
					f := r.frame(t)[:r.l4()+8+n]
					refFixLengths(f, r)
					if n >= 16 {
						refFixICRC(f, r.l3(), len(f))
					}
					body := n - 16
					want := spec.VerdictOk
					switch {
					case n < 16:
						want = spec.VerdictBTHLength
					case body < c.ext, c.opcode == 0x11 && body != 4, c.opcode == 0x81 && body != 16:
						want = spec.VerdictHeaderLength
					case (body-c.ext)%4 != 0:
						want = spec.VerdictPad
					}
					require.Equal(t, want, verdictOf(t, f), "%d bytes of UDP payload", n)
					f = append(f, counting(40)...) // what comes after the IP length is no part of it
					require.Equal(t, want, verdictOf(t, f), "%d bytes of UDP payload and a trailer", n)
				}
			})
		})
	}
}

// refFixLengths makes the IP and UDP lengths say where the frame ends, and the IPv4 checksum right.
func refFixLengths(f []byte, r raw) {
	copy(f[r.l4()+4:], be(2, uint64(len(f)-r.l4())))
	if r.v6 {
		copy(f[r.l3()+4:], be(2, uint64(len(f)-r.l4())))
		return
	}
	copy(f[r.l3()+2:], be(2, uint64(len(f)-r.l3())))
	refFixIP(f, r.l3())
}

// Pad 0..3 against bodies of 0..8 bytes.
func TestPad(t *testing.T) {
	for body := 0; body <= 8; body++ {
		for pad := range 4 {
			r := sendOnly()
			r.bth1, r.payload = byte(pad)<<4, counting(body)
			want := spec.VerdictOk
			if body%4 != 0 || pad > body {
				want = spec.VerdictPad
			}
			f := r.frame(t)
			require.Equal(t, want, verdictOf(t, f), "%d bytes, pad %d", body, pad)
			if want == spec.VerdictOk {
				p, _ := roce.Decode(f)
				require.Equal(t, counting(body)[:body-pad], append([]byte{}, p.Payload...))
				require.Equal(t, pad, p.Pad())
			}
		}
	}
}

func TestSyndromes(t *testing.T) {
	for s := range 256 {
		r := sendOnly()
		r.opcode, r.ext, r.payload = 0x11, fmt.Sprintf("%02x000007", s), nil
		want := spec.VerdictAETHSyndrome
		switch {
		case s <= 0x1f, s >= 0x20 && s <= 0x3f, s >= 0x60 && s <= 0x64:
			want = spec.VerdictOk
		}
		require.Equal(t, want, verdictOf(t, r.frame(t)), "%#02x", s)
	}
}

func TestOpcodes(t *testing.T) {
	carried := map[int]int{0: 0, 1: 0, 2: 0, 3: 4, 4: 0, 5: 4, 6: 16, 7: 0, 8: 0, 9: 4, 10: 16, 11: 20, 0x11: 4, 0x81: 0}
	for o := range 256 {
		r := sendOnly()
		r.opcode, r.payload = byte(o), nil
		ext, known := carried[o]
		r.ext = strings.Repeat("00", ext)
		if o == 0x81 {
			r.payload = make([]byte, 16)
		}
		want := spec.VerdictOpcode
		if known {
			want = spec.VerdictOk
		}
		require.Equal(t, want, verdictOf(t, r.frame(t)), "%#02x", o)
	}
}

// Every bit of every header of a good frame turned over, by itself: which rule sees it.
func TestEveryBitTurned(t *testing.T) {
	each(t, func(t *testing.T, v6 bool, tags string) {
		r := sendOnly()
		r.v6, r.tags = v6, tags
		whole := r.frame(t)
		l3, l4 := r.l3(), r.l4()
		bth := l4 + 8
		for at := range whole {
			for bit := range 8 {
				var want spec.Verdict
				switch {
				case at < 12: // MAC addresses
					want = spec.VerdictOk
				case at < l3: // tags and EtherType
					tci := at >= 14 && (at-12)%4 >= 2 && at < l3-2
					if want = spec.VerdictNotRoCE; tci {
						want = spec.VerdictOk
					}
				case at < l4 && v6:
					want = bitOfIPv6(at-l3, bit)
				case at < l4:
					want = bitOfIPv4(at-l3, bit, len(whole)-l3)
				case at < l4+2: // source port
					want = spec.VerdictICRC
				case at < l4+4: // destination port
					want = spec.VerdictNotRoCE
				case at < l4+6:
					want = spec.VerdictUDPLength
				case at < l4+8:
					want = spec.VerdictUDPChecksum
				case at == bth: // 0x04: 5 and 6, 0 are carried and fit; 0x0c, 0x14, 0x24, 0x44, 0x84 are not
					if want = spec.VerdictOpcode; bit <= 2 {
						want = spec.VerdictICRC
					}
				case at == bth+1: // SE, MigReq, pad 2 | TVer 4
					if want = spec.VerdictICRC; bit <= 3 {
						want = spec.VerdictBTHTver
					}
				case at == bth+4: // FECN, BECN, Resv6: not covered
					want = spec.VerdictOk
				default:
					want = spec.VerdictICRC
				}
				f := slices.Clone(whole)
				f[at] ^= 1 << bit
				require.Equal(t, want, verdictOf(t, f), "bit %d of byte %d (%s)", bit, at, roce.FieldAt(whole, at))
			}
		}
	})
}

func bitOfIPv4(at, bit, length int) spec.Verdict {
	switch at {
	case 0:
		switch bit {
		case 4, 5, 6, 7:
			return spec.VerdictIPVersion
		case 0, 2: // IHL 4 and 1: UDP is looked for at byte 20
			return spec.VerdictIPHeaderLength
		default: // IHL 7 and 13: no 4791 there
			return spec.VerdictNotRoCE
		}
	case 2, 3:
		n := length ^ 1<<bit
		if at == 2 {
			n = length ^ 1<<(8+bit)
		}
		if n < 28 || n > length {
			return spec.VerdictIPLength
		}
	case 6:
		switch {
		case bit <= 4:
			return spec.VerdictNotRoCE // a later fragment
		case bit == 5:
			return spec.VerdictIPFragment
		}
	case 7, 9:
		return spec.VerdictNotRoCE
	}
	return spec.VerdictIPChecksum
}

func bitOfIPv6(at, bit int) spec.Verdict {
	switch {
	case at == 0 && bit >= 4:
		return spec.VerdictIPVersion
	case at < 4, at == 7: // traffic class, flow label, hop limit: not covered
		return spec.VerdictOk
	case at == 4: // payload length 44: every bit of the high byte makes it longer than the frame
		return spec.VerdictIPLength
	case at == 5: // 0x2c: bits 2, 3 and 5 make it shorter, down to 12
		if bit == 2 || bit == 3 || bit == 5 {
			return spec.VerdictUDPLength
		}
		return spec.VerdictIPLength
	case at == 6:
		return spec.VerdictNotRoCE
	}
	return spec.VerdictICRC
}

// With the IPv4 checksum made right again, what a router may change is taken and the rest is not.
func TestIPv4FieldsUnderICRC(t *testing.T) {
	for _, c := range []struct {
		name string
		at   int
		want spec.Verdict
	}{
		{"TOS", 1, spec.VerdictOk}, {"identification", 4, spec.VerdictICRC}, {"flags", 6, spec.VerdictICRC},
		{"TTL", 8, spec.VerdictOk}, {"source", 12, spec.VerdictICRC}, {"destination", 19, spec.VerdictICRC},
	} {
		r := sendOnly()
		f := r.frame(t)
		f[r.l3()+c.at] ^= 0x40
		refFixIP(f, r.l3())
		assert.Equal(t, c.want, verdictOf(t, f), c.name)
	}
}

// A spoiler breaks one rule. Broken together, the first in the order of inc.yaml is the verdict.
func TestTwoRulesBroken(t *testing.T) {
	type spoiler struct {
		name    string
		verdict spec.Verdict
		only    int // 4, 6, or 0 for both
		spoil   func(f []byte, l3, l4 int)
	}
	// In the order in which they may be applied: later ones do not undo earlier ones.
	spoilers := []spoiler{
		{"EtherType", spec.VerdictNotRoCE, 0, func(f []byte, l3, _ int) { f[l3-1] ^= 1 }},
		{"protocol", spec.VerdictNotRoCE, 4, func(f []byte, l3, _ int) { f[l3+9] = 6 }},
		{"next header", spec.VerdictNotRoCE, 6, func(f []byte, l3, _ int) { f[l3+6] = 44 }},
		{"fragment offset", spec.VerdictNotRoCE, 4, func(f []byte, l3, _ int) { f[l3+7] = 1 }},
		{"version", spec.VerdictIPVersion, 0, func(f []byte, l3, _ int) { f[l3] ^= 0xf0 }},
		{"IHL", spec.VerdictIPHeaderLength, 4, func(f []byte, l3, _ int) { f[l3] = f[l3]&0xf0 | 3 }},
		{"MF", spec.VerdictIPFragment, 4, func(f []byte, l3, _ int) { f[l3+6] |= 0x20 }},
		{"total length", spec.VerdictIPLength, 4, func(f []byte, l3, _ int) { f[l3+2] = 0xff }},
		{"total length small", spec.VerdictIPLength, 4, func(f []byte, l3, _ int) { copy(f[l3+2:], be(2, 27)) }},
		{"payload length", spec.VerdictIPLength, 6, func(f []byte, l3, _ int) { f[l3+4] = 0xff }},
		{"payload length small", spec.VerdictIPLength, 6, func(f []byte, l3, _ int) { copy(f[l3+4:], be(2, 7)) }},
		{"IP checksum", spec.VerdictIPChecksum, 4, func(f []byte, l3, _ int) { f[l3+10] ^= 0x5a }},
		{"UDP length", spec.VerdictUDPLength, 0, func(f []byte, _, l4 int) { f[l4+4] ^= 0x80 }},
		{"UDP checksum", spec.VerdictUDPChecksum, 0, func(f []byte, _, l4 int) { f[l4+6] = 0xab }},
		{"TVer", spec.VerdictBTHTver, 0, func(f []byte, _, l4 int) { f[l4+8+1] |= 0x0f }},
		{"opcode", spec.VerdictOpcode, 0, func(f []byte, _, l4 int) { f[l4+8] = 0x64 }},
		{"headers", spec.VerdictHeaderLength, 0, func(f []byte, _, l4 int) { f[l4+8] = 0x0b }},
		{"pad", spec.VerdictPad, 0, func(f []byte, _, l4 int) { f[l4+8+1] |= 0x30 }},
		{"syndrome", spec.VerdictAETHSyndrome, 0, func(f []byte, _, l4 int) { f[l4+8+12] = 0x65 }},
		{"ICRC", spec.VerdictICRC, 0, func(f []byte, _, _ int) { f[len(f)-1] ^= 1 }},
	}
	each(t, func(t *testing.T, v6 bool, tags string) {
		family := 4
		if v6 {
			family = 6
		}
		r := sendOnly() // an ACK: its 4 bytes have room for no pad and too few for WRITE Only
		r.v6, r.tags, r.opcode, r.ext, r.payload = v6, tags, 0x11, "1f000001", nil
		whole := r.frame(t)
		require.Equal(t, spec.VerdictOk, verdictOf(t, whole))
		for i, a := range spoilers {
			for _, b := range spoilers[i:] {
				if a.only != 0 && a.only != family || b.only != 0 && b.only != family {
					continue
				}
				if a.name == "opcode" && b.name == "headers" { // both write the opcode
					continue
				}
				f := slices.Clone(whole)
				a.spoil(f, r.l3(), r.l4())
				if b.name != a.name {
					b.spoil(f, r.l3(), r.l4())
				}
				want := min(a.verdict, b.verdict)
				require.Equal(t, want, verdictOf(t, f), "%s and %s", a.name, b.name)
			}
		}
	})
	// The numbers that the table above stands on are in the order of inc.yaml.
	order := []spec.Verdict{spec.VerdictNotRoCE, spec.VerdictIPVersion, spec.VerdictIPHeaderLength,
		spec.VerdictIPFragment, spec.VerdictIPLength, spec.VerdictIPChecksum, spec.VerdictUDPLength,
		spec.VerdictUDPChecksum, spec.VerdictBTHLength, spec.VerdictBTHTver, spec.VerdictOpcode,
		spec.VerdictHeaderLength, spec.VerdictPad, spec.VerdictAETHSyndrome, spec.VerdictICRC}
	require.True(t, slices.IsSorted(order))
}

func TestUDPChecksum(t *testing.T) {
	each(t, func(t *testing.T, v6 bool, tags string) {
		for n := 0; n <= 32; n += 4 {
			r := sendOnly()
			r.v6, r.tags, r.payload, r.udpSum = v6, tags, counting(n), true
			f := r.frame(t)
			require.NotZero(t, int(f[r.l4()+6])<<8|int(f[r.l4()+7]))
			assert.Equal(t, spec.VerdictOk, verdictOf(t, f), "right")
			f[r.l4()+7] ^= 1
			assert.Equal(t, spec.VerdictUDPChecksum, verdictOf(t, f), "wrong")
			f[r.l4()+6], f[r.l4()+7] = 0, 0
			assert.Equal(t, spec.VerdictOk, verdictOf(t, f), "none")
		}
	})
}

// The checksum that comes out as 0 is sent as 0xffff (RFC 768).
func TestUDPChecksumOfAllOnes(t *testing.T) {
	r := sendOnly()
	r.resv8a = 0
	for sport := range 1 << 12 { // BTH byte 4 is free of the ICRC and counts 256 in the sum
		r.sport = uint16(sport)
		f := r.frame(t)
		lacking := 65535 - refSum(f[26:34], []byte{0, 17}, be(2, uint64(len(f)-34)), f[34:])
		if lacking%256 != 0 {
			continue
		}
		f[46] = byte(lacking / 256)
		require.Equal(t, spec.VerdictOk, verdictOf(t, f), "without")
		f[40], f[41] = 0xff, 0xff
		require.Equal(t, spec.VerdictOk, verdictOf(t, f))
		f[41] = 0xfe
		require.Equal(t, spec.VerdictUDPChecksum, verdictOf(t, f))
		return
	}
	t.Fatal("no source port found that makes the checksum 0xffff")
}

// Bytes after the IP length do not matter, whatever they are; VLAN tags are not covered by the ICRC.
func TestTrailerAndTags(t *testing.T) {
	each(t, func(t *testing.T, v6 bool, tags string) {
		bare := sendOnly()
		bare.v6 = v6
		want, m := roce.Decode(bare.frame(t))
		require.Nil(t, m)
		for _, n := range []int{0, 1, 2, 3, 4, 6, 18, 46, 64, 300} {
			for _, fill := range []byte{0, 0xff, 0x12} {
				r := sendOnly()
				r.v6, r.tags, r.trailer = v6, tags, make([]byte, n)
				for i := range r.trailer {
					r.trailer[i] = fill + byte(i)*(fill&1)
				}
				got, m := roce.Decode(r.frame(t))
				require.Nil(t, m, "%d bytes of trailer", n)
				require.Len(t, got.VLAN, len(tags)/8)
				got.VLAN = nil
				require.Equal(t, want, got)
			}
		}
	})
}

func TestNotRoCE(t *testing.T) {
	good := sendOnly()
	for _, c := range []struct {
		name  string
		frame func() []byte
		field string
	}{
		{"empty", func() []byte { return nil }, "eth.type"},
		{"three tags", func() []byte {
			r := good
			r.tags = "8100000181000002" + "81000003"
			return r.frame(t)
		}, "eth.type"},
		{"ARP", func() []byte { return append(unhex(t, "ffffffffffff5254000000010806"), make([]byte, 46)...) }, "eth.type"},
		{"source port 4791, other destination", func() []byte {
			f := good.frame(t)
			copy(f[34:], []byte{0x12, 0xb7, 0x00, 0x35})
			return f
		}, "udp.dst_port"},
		{"IHL 15 of a short frame", func() []byte {
			r := good
			r.payload = nil
			f := r.frame(t)
			f[14] = 0x4f
			return f
		}, "udp"},
		{"IPv6 hop-by-hop header first", func() []byte {
			r := good
			r.v6 = true
			f := r.frame(t)
			f[20] = 0
			return f
		}, "ip.next_header"},
		{"other TPID", func() []byte {
			r := good
			r.tags = "91000001"
			return r.frame(t)
		}, "eth.type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, m := roce.Decode(c.frame())
			require.NotNil(t, m)
			assert.Equal(t, spec.VerdictNotRoCE, m.Verdict)
			assert.Equal(t, c.field, m.Field)
			assert.Equal(t, spec.ClassBypass, m.Verdict.Class())
		})
	}
}

// IP options: the port is found behind them, so the frame is RoCE's, and refused.
func TestOptions(t *testing.T) {
	good := sendOnly().frame(t)
	for words := 6; words <= 15; words++ {
		f := slices.Clone(good[:34])
		f = append(f, make([]byte, 4*(words-5))...) // end of options
		f = append(f, good[34:]...)
		f[14] = 0x40 | byte(words)
		copy(f[16:], be(2, uint64(len(f)-14)))
		assert.Equal(t, spec.VerdictIPHeaderLength, verdictOf(t, f), "IHL %d", words)
		udpEnd := 14 + 4*words + 8
		assert.Equal(t, spec.VerdictIPHeaderLength, verdictOf(t, f[:udpEnd]), "IHL %d, no more than UDP", words)
		assert.Equal(t, spec.VerdictNotRoCE, verdictOf(t, f[:udpEnd-1]), "IHL %d, UDP not whole", words)
	}
}

// The source port decides nothing.
func TestAnySourcePort(t *testing.T) {
	for _, sport := range []uint16{0, 1, 53, 4789, 4791, 49152, 65535} {
		r := sendOnly()
		r.sport = sport
		p, m := roce.Decode(r.frame(t))
		require.Nil(t, m)
		assert.Equal(t, sport, p.SrcPort)
	}
}

func TestMalformedSaysWhatWasGotAndWanted(t *testing.T) {
	f := sendOnly().frame(t)
	_, m := roce.Decode(f[:70])
	require.NotNil(t, m)
	assert.Equal(t, "ip_length: ip.length at byte 16 is 64, want 28..56 (bytes in the frame)", m.Error())
	f[42] = 0x10
	_, m = roce.Decode(f)
	require.NotNil(t, m)
	assert.Equal(t, "opcode: bth.opcode at byte 42 is 0x10, want an RC opcode of rtl/spec/inc.yaml", m.Error())
}

func TestDissect(t *testing.T) {
	good := sendOnly()
	for _, c := range []struct {
		name       string
		change     func(f []byte) []byte
		bth, known bool
		icrc       bool
		payload    int
	}{
		{"good", func(f []byte) []byte { return f }, true, true, true, 20},
		{"bad IP checksum", func(f []byte) []byte { f[24] ^= 1; return f }, true, true, true, 20},
		{"bad UDP checksum", func(f []byte) []byte { f[40] ^= 1; return f }, true, true, true, 20},
		{"bad ICRC", func(f []byte) []byte { f[77] ^= 1; return f }, true, true, false, 20},
		{"TVer", func(f []byte) []byte { f[43] |= 1; return f }, true, true, false, 20},
		{"unknown opcode", func(f []byte) []byte { f[42] = 0x10; return f }, true, true, false, -1},
		{"headers fill the packet", func(f []byte) []byte { f[42] = 0x0b; return f }, true, true, false, 0},
		{"headers do not fit", func(f []byte) []byte { f[42], f[43] = 0x0b, 0x10; return f }, true, true, false, -1},
		{"cut in the payload", func(f []byte) []byte { return f[:70] }, true, false, false, -1},
		{"cut after BTH", func(f []byte) []byte { return f[:54] }, true, false, false, -1},
		{"cut in BTH", func(f []byte) []byte { return f[:53] }, false, false, false, -1},
		{"UDP length", func(f []byte) []byte { f[39] = 40; return f }, true, false, false, -1},
		{"UDP length without BTH", func(f []byte) []byte { f[39] = 19; return f }, false, false, false, -1},
		{"fragment", func(f []byte) []byte { f[20] |= 0x20; return f }, true, false, false, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := roce.Dissect(c.change(good.frame(t)))
			assert.True(t, d.RoCE)
			assert.Equal(t, c.bth, d.HasBTH)
			assert.Equal(t, c.known, d.ICRCKnown)
			assert.Equal(t, c.icrc, d.ICRCGood)
			assert.Equal(t, c.payload, d.PayloadLen)
			assert.Equal(t, "10.9.0.1", d.Packet.Src.String())
			assert.Equal(t, "10.9.0.99", d.Packet.Dst.String())
			if c.bth {
				assert.EqualValues(t, 0xfffff0, d.Packet.PSN)
				assert.EqualValues(t, 0x101, d.Packet.DestQP)
				assert.True(t, d.Packet.AckReq)
			} else {
				assert.Zero(t, d.Packet.PSN)
				assert.Zero(t, d.Packet.DestQP)
			}
		})
	}
	d := roce.Dissect(good.frame(t)[:41])
	assert.False(t, d.RoCE)
	assert.Equal(t, roce.Packet{}, d.Packet)
}
