package roce_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// Encode against the frames made by hand: every opcode, IP version, tags, payload length.
func TestEncodeIsTheFrameMadeByHand(t *testing.T) {
	for _, c := range []struct {
		opcode spec.Opcode
		ext    string
	}{
		{spec.OpcodeSendFirst, ""}, {spec.OpcodeSendMiddle, ""}, {spec.OpcodeSendLast, ""},
		{spec.OpcodeSendLastImm, "01020304"}, {spec.OpcodeSendOnly, ""}, {spec.OpcodeSendOnlyImm, "01020304"},
		{spec.OpcodeWriteFirst, "1112131415161718212223243132333401020304"[:32]},
		{spec.OpcodeWriteMiddle, ""}, {spec.OpcodeWriteLast, ""}, {spec.OpcodeWriteLastImm, "01020304"},
		{spec.OpcodeWriteOnly, "11121314151617182122232431323334"},
		{spec.OpcodeWriteOnlyImm, "1112131415161718212223243132333401020304"},
		{spec.OpcodeAcknowledge, "60abcdef"}, {spec.OpcodeCNP, ""},
	} {
		t.Run(c.opcode.String(), func(t *testing.T) {
			each(t, func(t *testing.T, v6 bool, tags string) {
				lengths := []int{0, 1, 2, 3, 4, 5, 255, 1024, 4096}
				switch c.opcode {
				case spec.OpcodeAcknowledge:
					lengths = []int{0}
				case spec.OpcodeCNP:
					lengths = []int{16, 15, 13}
				}
				for _, n := range lengths {
					pad := (4 - n%4) % 4
					r := raw{tags: tags, v6: v6, tos: 0x8b, ttl: 63, sport: 0xd111, opcode: byte(c.opcode),
						bth1: 0x80 | byte(pad)<<4, pkey: 0x7fff, resv8a: 0x95, qpn: 0xabcdef, ackreq: 0xd5,
						psn: 0x123456, ext: c.ext, payload: append(counting(n), make([]byte, pad)...)}
					p := roce.Packet{
						DstMAC: roce.MAC{0x52, 0x54, 0, 0, 0, 0x63}, SrcMAC: roce.MAC{0x52, 0x54, 0, 0, 0, 1},
						Src: netip.MustParseAddr("10.9.0.1"), Dst: netip.MustParseAddr("10.9.0.99"),
						TOS: 0x8b, TTL: 63, SrcPort: 0xd111, Opcode: c.opcode, SE: true, PKey: 0x7fff,
						FECN: true, Resv6: 0x15, DestQP: 0xabcdef, AckReq: true, Resv7: 0x55, PSN: 0x123456,
						Payload: counting(n),
					}
					if v6 {
						p.Src, p.Dst = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::63")
						p.FlowLabel, r.flow = 0xfedcb, 0xfedcb
					} else {
						p.IPID, r.id = 0xbeef, 0xbeef
						p.DF, r.flags = true, 0x40
					}
					for i := 0; i < len(tags); i += 8 {
						tag := unhex(t, tags[i:i+8])
						p.VLAN = append(p.VLAN, roce.VLANTag{
							TPID: uint16(tag[0])<<8 | uint16(tag[1]), TCI: uint16(tag[2])<<8 | uint16(tag[3])})
					}
					switch len(c.ext) {
					case 40:
						p.Imm = 0x01020304
						fallthrough
					case 32:
						p.VA, p.RKey, p.DMALength = 0x1112131415161718, 0x21222324, 0x31323334
					case 8:
						p.Imm = 0x01020304
						if c.opcode == spec.OpcodeAcknowledge {
							p.Imm, p.Syndrome, p.MSN = 0, 0x60, 0xabcdef
						}
					}
					want := r.frame(t)
					require.Empty(t, roce.Diff(p.Encode(), want), "%d bytes", n)
					got, m := roce.Decode(want)
					require.Nil(t, m, "%d bytes", n)
					if n == 0 {
						p.Payload = nil
					}
					require.Equal(t, &p, got, "%d bytes", n)
				}
			})
		})
	}
}

// random is a packet with every field that its opcode and IP version have, at random.
func random(r *rand.Rand) *roce.Packet {
	p := &roce.Packet{
		TOS: uint8(r.Uint32()), TTL: uint8(r.Uint32()), SrcPort: uint16(r.Uint32()),
		Opcode: spec.Opcodes[r.IntN(len(spec.Opcodes))], SE: r.IntN(2) == 0, MigReq: r.IntN(2) == 0,
		PKey: uint16(r.Uint32()), FECN: r.IntN(2) == 0, BECN: r.IntN(2) == 0, Resv6: uint8(r.IntN(64)),
		DestQP: r.Uint32N(1 << 24), AckReq: r.IntN(2) == 0, Resv7: uint8(r.IntN(128)), PSN: psn.PSN(r.Uint32N(1 << 24)),
	}
	for i := range p.DstMAC {
		p.DstMAC[i], p.SrcMAC[i] = byte(r.Uint32()), byte(r.Uint32())
	}
	for range r.IntN(3) {
		p.VLAN = append(p.VLAN, roce.VLANTag{TPID: []uint16{0x8100, 0x88a8}[r.IntN(2)], TCI: uint16(r.Uint32())})
	}
	if r.IntN(2) == 0 {
		var a, b [16]byte
		for i := range a {
			a[i], b[i] = byte(r.Uint32()), byte(r.Uint32())
		}
		p.Src, p.Dst, p.FlowLabel = netip.AddrFrom16(a), netip.AddrFrom16(b), r.Uint32N(1<<20)
	} else {
		p.Src = netip.AddrFrom4([4]byte{10, byte(r.Uint32()), byte(r.Uint32()), 1})
		p.Dst = netip.AddrFrom4([4]byte{10, byte(r.Uint32()), byte(r.Uint32()), 2})
		p.IPID, p.DF = uint16(r.Uint32()), r.IntN(2) == 0
	}
	if p.HasRETH() {
		p.VA, p.RKey, p.DMALength = r.Uint64(), r.Uint32(), r.Uint32()
	}
	if p.HasImm() {
		p.Imm = r.Uint32()
	}
	n := r.IntN(300)
	switch p.Opcode {
	case spec.OpcodeAcknowledge:
		n = 0
		p.MSN = r.Uint32N(1 << 24)
		p.Syndrome = []uint8{0x1f, 0x00, 0x20, 0x3f, 0x60, 0x61, 0x62, 0x63, 0x64}[r.IntN(9)]
	case spec.OpcodeCNP:
		n = 16
	}
	if n > 0 {
		p.Payload = make([]byte, n)
		for i := range p.Payload {
			p.Payload[i] = byte(r.Uint32())
		}
	}
	return p
}

func TestDecodeUndoesEncode(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 4791))
	for i := range 5000 {
		p := random(r)
		f := p.Encode()
		q, m := roce.Decode(f)
		require.Nil(t, m, "packet %d", i)
		require.Equal(t, p, q, "packet %d", i)
		require.True(t, p.Equal(q))
		require.Equal(t, p, p.Clone())
	}
}

// Each of ICRC and IPv4 checksum on random frames is what the references say.
func TestRandomFramesAgainstReferences(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4791))
	for i := range 500 {
		p := random(r)
		f := p.Encode()
		l3 := 14 + 4*len(p.VLAN)
		want := slices.Clone(f)
		refFixICRC(want, l3, len(want))
		if !p.IsV6() {
			refFixIP(want, l3)
		}
		require.Empty(t, roce.Diff(f, want), "packet %d", i)
	}
}

// What Decode returns shares nothing with the frame, and a clone nothing with its original.
func TestPacketIsAValue(t *testing.T) {
	r := sendOnly()
	r.tags = strip(tag2)
	f := r.frame(t)
	p, m := roce.Decode(f)
	require.Nil(t, m)
	c := p.Clone()
	clear(f)
	assert.Equal(t, counting(20), p.Payload)
	p.Payload[0], p.VLAN[0].TCI = 0xff, 0xffff
	assert.Equal(t, counting(20), c.Payload)
	assert.EqualValues(t, 7, c.VLAN[0].TCI)
	assert.False(t, p.Equal(c))
}

// Equal looks at what is on the wire only.
func TestEqualIgnoresWhatTheOpcodeDoesNotHave(t *testing.T) {
	p := &roce.Packet{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), Opcode: spec.OpcodeSendOnly}
	q := p.Clone()
	q.MSN, q.Imm, q.VA, q.FlowLabel = 1, 1, 1, 1
	assert.True(t, p.Equal(q))
	q.PSN = 1
	assert.False(t, p.Equal(q))
}

func TestCheck(t *testing.T) {
	v4, v6 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fe80::1")
	good := roce.Packet{Src: v4, Dst: v4, Opcode: spec.OpcodeSendOnly}
	require.NoError(t, good.Check())
	for _, c := range []struct {
		change func(p *roce.Packet)
		want   string
	}{
		{func(p *roce.Packet) { p.Dst = v6 }, "want two IPv4 or two IPv6"},
		{func(p *roce.Packet) { p.Src = netip.Addr{} }, "want two IPv4 or two IPv6"},
		{func(p *roce.Packet) { p.PSN = 1 << 24 }, "PSN is 0x1000000, want 24 bits"},
		{func(p *roce.Packet) { p.DestQP = 1 << 24 }, "destination QP is 0x1000000, want 24 bits"},
		{func(p *roce.Packet) { p.MSN = 1 << 24 }, "MSN is 0x1000000, want 24 bits"},
		{func(p *roce.Packet) { p.FlowLabel = 1 << 20 }, "flow label is 0x100000, want 20 bits"},
		{func(p *roce.Packet) { p.Resv6 = 64 }, "Resv6 is 0x40, want 6 bits"},
		{func(p *roce.Packet) { p.Resv7 = 128 }, "Resv7 is 0x80, want 7 bits"},
		{func(p *roce.Packet) { p.Payload = make([]byte, 65536) }, "payload is 65536 bytes"},
		{func(p *roce.Packet) { p.VLAN = make([]roce.VLANTag, 3) }, "3 VLAN tags, want at most 2"},
		{func(p *roce.Packet) { p.VLAN = make([]roce.VLANTag, 1) }, "VLAN tag 0 has TPID 0x0000"},
	} {
		p := good
		c.change(&p)
		assert.ErrorContains(t, p.Check(), c.want)
		assert.Panics(t, func() { p.Encode() })
	}
	big := good
	big.Opcode, big.Payload = spec.OpcodeWriteOnlyImm, make([]byte, roce.MaxPayload)
	_, m := roce.Decode(big.Encode())
	assert.Nil(t, m, "the longest payload")
}

func TestPredicates(t *testing.T) {
	p := &roce.Packet{TOS: 3}
	assert.True(t, p.CE())
	for _, tos := range []uint8{0, 1, 2, 4, 0xfc} {
		p.TOS = tos
		assert.False(t, p.CE())
	}
	assert.Equal(t, "52:54:00:00:0a:63", roce.MAC{0x52, 0x54, 0, 0, 0x0a, 0x63}.String())
}

func TestSetICRC(t *testing.T) {
	each(t, func(t *testing.T, v6 bool, tags string) {
		r := sendOnly()
		r.v6, r.tags, r.trailer = v6, tags, []byte{1, 2, 3}
		want := r.frame(t)
		f := slices.Clone(want)
		end := len(f) - 3
		clear(f[end-4 : end])
		require.NoError(t, roce.SetICRC(f))
		assert.Empty(t, roce.Diff(f, want))
		assert.ErrorContains(t, roce.SetICRC(f[:60]), "set ICRC: ")
	})
}

func TestFieldAt(t *testing.T) {
	r := sendOnly()
	r.tags, r.opcode, r.bth1, r.ext, r.trailer = strip(tag1), 0x0b, 0x20, fmt.Sprintf("%040x", 1), []byte{9, 9}
	f := r.frame(t)
	want := []string{}
	add := func(n int, name string) {
		for range n {
			want = append(want, name)
		}
	}
	run := func(n int, name string) {
		for i := range n {
			want = append(want, fmt.Sprintf("%s[%d]", name, i))
		}
	}
	add(6, "eth.dst")
	add(6, "eth.src")
	add(2, "vlan.tpid")
	add(2, "vlan.tci")
	add(2, "eth.type")
	add(1, "ip.version/ihl")
	add(1, "ip.tos")
	add(2, "ip.length")
	add(2, "ip.id")
	add(2, "ip.fragment")
	add(1, "ip.ttl")
	add(1, "ip.protocol")
	add(2, "ip.checksum")
	add(4, "ip.src")
	add(4, "ip.dst")
	add(2, "udp.src_port")
	add(2, "udp.dst_port")
	add(2, "udp.length")
	add(2, "udp.checksum")
	add(1, "bth.opcode")
	add(1, "bth.se/migreq/pad/tver")
	add(2, "bth.pkey")
	add(1, "bth.fecn/becn/resv6")
	add(3, "bth.destqp")
	add(1, "bth.ackreq/resv7")
	add(3, "bth.psn")
	add(8, "reth.va")
	add(4, "reth.rkey")
	add(4, "reth.dma_length")
	add(4, "immdt")
	run(18, "payload")
	run(2, "pad")
	add(4, "icrc")
	run(2, "trailer")
	got := []string{}
	for i := range f {
		got = append(got, roce.FieldAt(f, i))
	}
	assert.Equal(t, want, got)
	assert.Equal(t, fmt.Sprintf("beyond the frame's %d bytes", len(f)), roce.FieldAt(f, len(f)))

	six := sendOnly()
	six.v6, six.opcode, six.ext, six.payload = true, 0x11, "1f000001", nil
	f = six.frame(t)
	for at, name := range map[int]string{14: "ip.version/traffic_class", 15: "ip.traffic_class/flow_label",
		17: "ip.flow_label", 18: "ip.length", 20: "ip.next_header", 21: "ip.hop_limit", 22: "ip.src", 53: "ip.dst",
		54: "udp.src_port", 62: "bth.opcode", 74: "aeth.syndrome", 77: "aeth.msn", 78: "icrc"} {
		assert.Equal(t, name, roce.FieldAt(f, at), "byte %d", at)
	}
	arp := append(unhex(t, "ffffffffffff5254000000010806"), make([]byte, 46)...)
	assert.Equal(t, "eth.type", roce.FieldAt(arp, 13))
	assert.Equal(t, "payload[0]", roce.FieldAt(arp, 14))
}

func TestDiff(t *testing.T) {
	f := sendOnly().frame(t)
	g := slices.Clone(f)
	assert.Empty(t, roce.Diff(g, f))
	g[53] ^= 0x11
	assert.Equal(t, "byte 53 (bth.psn) is 0xe1, want 0xf0", roce.Diff(g, f))
	assert.Equal(t, "frame is 77 bytes, want 78", roce.Diff(f[:77], f))
}

func BenchmarkDecode(b *testing.B) {
	r := sendOnly()
	r.payload = make([]byte, 1024)
	f := r.frame(b)
	b.SetBytes(int64(len(f)))
	for b.Loop() {
		if _, m := roce.Decode(f); m != nil {
			b.Fatal(m)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	r := sendOnly()
	r.payload = make([]byte, 1024)
	f := r.frame(b)
	p, m := roce.Decode(f)
	require.Nil(b, m)
	b.SetBytes(int64(len(f)))
	for b.Loop() {
		f = p.AppendFrame(f[:0])
	}
}
