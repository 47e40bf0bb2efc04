package roce_test

import (
	"math/rand/v2"
	"net"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

func types(p *roce.Packet) []gopacket.LayerType {
	ts := []gopacket.LayerType{layers.LayerTypeEthernet}
	for range p.VLAN {
		ts = append(ts, layers.LayerTypeDot1Q)
	}
	if p.IsV6() {
		ts = append(ts, layers.LayerTypeIPv6)
	} else {
		ts = append(ts, layers.LayerTypeIPv4)
	}
	ts = append(ts, layers.LayerTypeUDP, roce.LayerTypeBTH)
	if p.HasRETH() {
		ts = append(ts, roce.LayerTypeRETH)
	}
	if p.HasImm() {
		ts = append(ts, roce.LayerTypeImmDt)
	}
	if p.HasAETH() {
		ts = append(ts, roce.LayerTypeAETH)
	}
	if len(p.Payload) > 0 {
		ts = append(ts, gopacket.LayerTypePayload)
	}
	return ts
}

// The layers, strung behind gopacket's own Ethernet, IP and UDP, read what Decode reads.
func TestParserAgreesWithDecode(t *testing.T) {
	parser := roce.NewParser()
	check := func(frame []byte) {
		p, m := roce.Decode(frame)
		if m != nil {
			return
		}
		found, err := parser.Decode(frame)
		require.NoError(t, err)
		require.Equal(t, types(p), found)
		require.Equal(t, net.HardwareAddr(p.DstMAC[:]), parser.Ethernet.DstMAC)
		require.Equal(t, net.HardwareAddr(p.SrcMAC[:]), parser.Ethernet.SrcMAC)
		require.Len(t, parser.VLAN, len(p.VLAN))
		for i, tag := range p.VLAN {
			require.Equal(t, tag.TCI&0xfff, parser.VLAN[i].VLANIdentifier)
		}
		if p.IsV6() {
			require.Equal(t, net.IP(p.Src.AsSlice()), parser.IPv6.SrcIP)
			require.Equal(t, net.IP(p.Dst.AsSlice()), parser.IPv6.DstIP)
			require.Equal(t, p.TOS, parser.IPv6.TrafficClass)
			require.Equal(t, p.FlowLabel, parser.IPv6.FlowLabel)
			require.Equal(t, p.TTL, parser.IPv6.HopLimit)
		} else {
			require.Equal(t, net.IP(p.Src.AsSlice()), parser.IPv4.SrcIP)
			require.Equal(t, net.IP(p.Dst.AsSlice()), parser.IPv4.DstIP)
			require.Equal(t, p.TOS, parser.IPv4.TOS)
			require.Equal(t, p.IPID, parser.IPv4.Id)
			require.Equal(t, p.TTL, parser.IPv4.TTL)
			require.Equal(t, p.DF, parser.IPv4.Flags&layers.IPv4DontFragment != 0)
		}
		require.EqualValues(t, p.SrcPort, parser.UDP.SrcPort)
		b := parser.BTH
		require.Equal(t, []any{p.Opcode, p.SE, p.MigReq, uint8(p.Pad()), uint8(0), p.PKey, p.FECN, p.BECN, p.Resv6,
			p.DestQP, p.AckReq, p.Resv7, p.PSN},
			[]any{b.Opcode, b.SE, b.MigReq, b.Pad, b.TVer, b.PKey, b.FECN, b.BECN, b.Resv6,
				b.DestQP, b.AckReq, b.Resv7, b.PSN})
		if p.HasRETH() {
			require.Equal(t, []any{p.VA, p.RKey, p.DMALength}, []any{parser.RETH.VA, parser.RETH.RKey, parser.RETH.DMALength})
		}
		if p.HasImm() {
			require.Equal(t, p.Imm, parser.ImmDt.Value)
		}
		if p.HasAETH() {
			require.Equal(t, []any{p.Syndrome, p.MSN}, []any{parser.AETH.Syndrome, parser.AETH.MSN})
		}
		if len(p.Payload) > 0 {
			require.Equal(t, p.Payload, []byte(parser.Payload))
		}
	}
	for _, file := range captures(t) {
		for _, f := range frames(t, file) {
			check(f)
		}
	}
	r := rand.New(rand.NewPCG(4, 4791))
	for range 1000 {
		check(append(random(r).Encode(), make([]byte, r.IntN(8))...)) // with a trailer
	}
}

func TestParserFollowsTheDestinationPortAlone(t *testing.T) {
	r := sendOnly()
	f := r.frame(t)
	copy(f[34:], []byte{0x12, 0xb7, 0x00, 0x35}) // from 4791 to 53
	found, err := roce.NewParser().Decode(f)
	require.NoError(t, err)
	assert.NotContains(t, found, roce.LayerTypeBTH)
	r.sport = 53
	found, err = roce.NewParser().Decode(r.frame(t))
	require.NoError(t, err)
	assert.Contains(t, found, roce.LayerTypeBTH)
	assert.Equal(t, gopacket.LayerTypePayload, layers.UDPPort(4791).LayerType(), "the port is not registered globally")
}

func TestParserErrors(t *testing.T) {
	parser := roce.NewParser()
	each(t, func(t *testing.T, v6 bool, tags string) {
		r := sendOnly()
		r.v6, r.tags = v6, tags
		whole := r.frame(t)
		for n := range len(whole) {
			_, err := parser.Decode(whole[:n])
			require.Error(t, err, "%d of %d bytes", n, len(whole))
		}
	})
}

// The layers' own errors name both lengths; at the length itself there is none.
func TestLayersTruncated(t *testing.T) {
	for _, c := range []struct {
		layer gopacket.DecodingLayer
		size  int
		want  string
	}{
		{&roce.BTH{}, 16, "BTH: got 15 bytes, want at least 16 (BTH 12 and ICRC 4)"},
		{&roce.RETH{}, 16, "RETH: got 15 bytes, want 16"},
		{&roce.AETH{}, 4, "AETH: got 3 bytes, want 4"},
		{&roce.ImmDt{}, 4, "ImmDt: got 3 bytes, want 4"},
	} {
		assert.EqualError(t, c.layer.DecodeFromBytes(make([]byte, c.size-1), gopacket.NilDecodeFeedback), c.want)
		assert.NoError(t, c.layer.DecodeFromBytes(make([]byte, c.size), gopacket.NilDecodeFeedback))
	}
	padded := make([]byte, 18)
	padded[1] = 0x30
	assert.EqualError(t, (&roce.BTH{}).DecodeFromBytes(padded, gopacket.NilDecodeFeedback),
		"BTH: pad is 3 bytes, want at most the 2 between BTH and ICRC")
}

// gopacket.NewPacket from BTH on: every opcode brings its headers, the immediate data of WRITE Only too.
func TestNewPacketFromBTH(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 4791))
	seen := map[spec.Opcode]bool{}
	for range 300 {
		p := random(r)
		seen[p.Opcode] = true
		f := p.Encode()
		l4 := 14 + 4*len(p.VLAN) + 20
		if p.IsV6() {
			l4 += 20
		}
		packet := gopacket.NewPacket(f[l4+8:], roce.LayerTypeBTH, gopacket.Default)
		require.Nil(t, packet.ErrorLayer())
		all := types(p)
		var want, got []gopacket.LayerType
		for i, typ := range all {
			if typ == roce.LayerTypeBTH {
				want = all[i:]
			}
		}
		for _, l := range packet.Layers() {
			got = append(got, l.LayerType())
		}
		require.Equal(t, want, got, "%v", p.Opcode)
	}
	assert.Len(t, seen, len(spec.Opcodes))
	bad := gopacket.NewPacket(make([]byte, 15), roce.LayerTypeBTH, gopacket.Default)
	assert.NotNil(t, bad.ErrorLayer())
}

// SerializeTo behind gopacket's own layers makes the frames that are made by hand.
func TestSerializeLayers(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for n := range 9 {
			want := sendOnly()
			want.v6, want.opcode, want.bth1 = v6, 0x0b, byte(-n&3)<<4
			want.ext = "1112131415161718212223243132333401020304"
			want.payload = append(counting(n), make([]byte, -n&3)...)

			eth := &layers.Ethernet{DstMAC: unhex(t, refDstMAC), SrcMAC: unhex(t, refSrcMAC), EthernetType: layers.EthernetTypeIPv4}
			var ip gopacket.SerializableLayer = &layers.IPv4{Version: 4, TOS: 2, TTL: 64, Id: 0x1234,
				Flags: layers.IPv4DontFragment, Protocol: layers.IPProtocolUDP, SrcIP: unhex(t, refSrc4), DstIP: unhex(t, refDst4)}
			if v6 {
				eth.EthernetType = layers.EthernetTypeIPv6
				ip = &layers.IPv6{Version: 6, TrafficClass: 2, HopLimit: 64, NextHeader: layers.IPProtocolUDP,
					SrcIP: unhex(t, refSrc6), DstIP: unhex(t, refDst6)}
			}
			udp := &layers.UDP{SrcPort: 49999, DstPort: 4791}
			bth := &roce.BTH{Opcode: spec.OpcodeWriteOnlyImm, PKey: 0xffff, DestQP: 0x101, AckReq: true, PSN: psn.PSN(0xfffff0)}
			reth := &roce.RETH{VA: 0x1112131415161718, RKey: 0x21222324, DMALength: 0x31323334}
			imm := &roce.ImmDt{Value: 0x01020304}

			buf := gopacket.NewSerializeBuffer()
			lengths := gopacket.SerializeOptions{FixLengths: true}
			sums := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
			clear, err := buf.PrependBytes(n)
			require.NoError(t, err)
			copy(clear, counting(n))
			require.NoError(t, imm.SerializeTo(buf, lengths))
			require.NoError(t, reth.SerializeTo(buf, lengths))
			require.NoError(t, bth.SerializeTo(buf, lengths))
			require.NoError(t, udp.SerializeTo(buf, lengths)) // checksum stays 0
			require.NoError(t, ip.SerializeTo(buf, sums))
			require.NoError(t, eth.SerializeTo(buf, lengths))
			got := buf.Bytes()
			require.NoError(t, roce.SetICRC(got))
			require.Empty(t, roce.Diff(got, want.frame(t)), "%d bytes, v6 %t", n, v6)
			require.EqualValues(t, -n&3, bth.Pad)
		}
	}
	buf := gopacket.NewSerializeBuffer()
	require.NoError(t, (&roce.AETH{Syndrome: 0x63, MSN: 0xabcdef}).SerializeTo(buf, gopacket.SerializeOptions{}))
	assert.Equal(t, []byte{0x63, 0xab, 0xcd, 0xef}, buf.Bytes())
}
