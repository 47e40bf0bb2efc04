package roce_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/oracle"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

var tsharkFields = []string{
	"eth.dst", "eth.src", "ieee8021ad.id", "vlan.id",
	"ip.src", "ip.dst", "ip.dsfield", "ip.ttl", "ip.id", "ip.flags.df", "ip.checksum.status",
	"ipv6.src", "ipv6.dst", "ipv6.tclass", "ipv6.hlim", "ipv6.flow",
	"udp.srcport", "udp.dstport", "udp.checksum.status",
	"infiniband.bth.opcode", "infiniband.bth.se", "infiniband.bth.m", "infiniband.bth.padcnt", "infiniband.bth.tver",
	"infiniband.bth.p_key", "infiniband.bth.destqp", "infiniband.bth.a", "infiniband.bth.reserved7", "infiniband.bth.psn",
	"infiniband.reth.va", "infiniband.reth.r_key", "infiniband.reth.dmalen", "infiniband.immdt",
	"infiniband.aeth.syndrome", "infiniband.aeth.msn", "data.data", "infiniband.invariant.crc",
	"_ws.malformed",
}

// number reads what tshark prints for a number or a boolean.
func number(t *testing.T, name, s string) uint64 {
	t.Helper()
	switch s {
	case "True":
		return 1
	case "False":
		return 0
	}
	v, err := strconv.ParseUint(s, 0, 64)
	require.NoError(t, err, "%s", name)
	return v
}

// agree holds one frame's dissection against tshark's.
func agree(t *testing.T, frame []byte, row []string) {
	t.Helper()
	d := roce.Dissect(frame)
	require.True(t, d.RoCE && d.HasBTH)
	p := d.Packet
	got := map[string]string{}
	for i, f := range tsharkFields {
		got[f] = row[i]
	}
	num := func(name string, want uint64) {
		t.Helper()
		require.Equal(t, want, number(t, name, got[name]), "%s", name)
	}
	flag := func(name string, want bool) {
		t.Helper()
		require.Equal(t, want, number(t, name, got[name]) == 1, "%s", name)
	}
	require.Equal(t, p.DstMAC.String(), got["eth.dst"])
	require.Equal(t, p.SrcMAC.String(), got["eth.src"])
	ids := map[uint16]string{}
	for _, tag := range p.VLAN { // at most one of each type here
		ids[tag.TPID] = fmt.Sprint(tag.TCI & 0xfff)
	}
	require.Equal(t, ids[0x88a8], got["ieee8021ad.id"])
	require.Equal(t, ids[0x8100], got["vlan.id"])
	if p.IsV6() {
		require.Equal(t, p.Src.String(), got["ipv6.src"])
		require.Equal(t, p.Dst.String(), got["ipv6.dst"])
		num("ipv6.tclass", uint64(p.TOS))
		num("ipv6.hlim", uint64(p.TTL))
		num("ipv6.flow", uint64(p.FlowLabel))
	} else {
		require.Equal(t, p.Src.String(), got["ip.src"])
		require.Equal(t, p.Dst.String(), got["ip.dst"])
		num("ip.dsfield", uint64(p.TOS))
		num("ip.ttl", uint64(p.TTL))
		num("ip.id", uint64(p.IPID))
		flag("ip.flags.df", p.DF)
		flag("ip.checksum.status", d.Malformed == nil || d.Malformed.Verdict != spec.VerdictIPChecksum)
	}
	num("udp.srcport", uint64(p.SrcPort))
	num("udp.dstport", 4791)
	require.Empty(t, got["_ws.malformed"])
	// tshark: 0 bad, 1 good, 2 unverified, 3 not present
	badSum := d.Malformed != nil && d.Malformed.Verdict == spec.VerdictUDPChecksum
	require.Equal(t, badSum, got["udp.checksum.status"] == "0", "udp.checksum.status %s", got["udp.checksum.status"])
	num("infiniband.bth.opcode", uint64(p.Opcode))
	flag("infiniband.bth.se", p.SE)
	flag("infiniband.bth.m", p.MigReq)
	num("infiniband.bth.padcnt", uint64(d.Pad))
	wantTVer := d.Malformed != nil && d.Malformed.Verdict == spec.VerdictBTHTver
	require.Equal(t, wantTVer, number(t, "tver", got["infiniband.bth.tver"]) != 0)
	num("infiniband.bth.p_key", uint64(p.PKey))
	num("infiniband.bth.destqp", uint64(p.DestQP))
	flag("infiniband.bth.a", p.AckReq)
	num("infiniband.bth.reserved7", uint64(p.Resv7))
	num("infiniband.bth.psn", uint64(p.PSN))
	exists := func(name string, want bool) bool {
		t.Helper()
		require.Equal(t, want, got[name] != "", "%s exists", name)
		return want
	}
	if exists("infiniband.reth.va", p.HasRETH()) {
		num("infiniband.reth.va", p.VA)
		num("infiniband.reth.r_key", uint64(p.RKey))
		num("infiniband.reth.dmalen", uint64(p.DMALength))
	}
	if exists("infiniband.immdt", p.HasImm()) {
		for _, v := range strings.Split(got["infiniband.immdt"], ",") { // it has two items of this name
			require.Equal(t, fmt.Sprintf("%08x", p.Imm), v)
		}
	}
	if exists("infiniband.aeth.msn", p.HasAETH()) {
		num("infiniband.aeth.syndrome", uint64(p.Syndrome))
		num("infiniband.aeth.msn", uint64(p.MSN))
	}
	if p.Opcode == spec.OpcodeCNP { // tshark stops at BTH
		return
	}
	if d.PayloadLen >= 0 { // tshark's payload has the pad in it
		require.Equal(t, hex.EncodeToString(p.Payload)+strings.Repeat("00", d.Pad), got["data.data"])
		require.Equal(t, d.PayloadLen, len(p.Payload))
	}
	num("infiniband.invariant.crc", uint64(binary.BigEndian.Uint32(frame[len(frame)-4:])))
}

// Every frame of the captures, field by field.
func TestCapturesAgreeWithTshark(t *testing.T) {
	var all [][]byte
	var names []string
	for _, file := range captures(t) {
		for i, f := range frames(t, file) {
			all = append(all, f)
			names = append(names, fmt.Sprintf("%s frame %d", file, i+1))
		}
	}
	require.Len(t, all, 2937)
	rows := oracle.Tshark(t, writePcap(t, all), tsharkFields...) // in one run: it starts slowly
	require.Len(t, rows, len(all))
	for i, f := range all {
		if !t.Run("", func(t *testing.T) { agree(t, f, rows[i]) }) {
			t.Fatal(names[i])
		}
	}
}

// writePcap writes frames to a file for tshark.
func writePcap(t *testing.T, all [][]byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "frames.pcap")
	f, err := os.Create(file)
	require.NoError(t, err)
	defer f.Close()
	w := pcapgo.NewWriter(f)
	require.NoError(t, w.WriteFileHeader(65535, layers.LinkTypeEthernet))
	for i, frame := range all {
		require.NoError(t, w.WritePacket(gopacket.CaptureInfo{
			Timestamp: time.Unix(int64(i), 0), CaptureLength: len(frame), Length: len(frame)}, frame))
	}
	return file
}

// generated are frames with all that the captures do not have: IPv6, tags, CNP, every flag and field.
func generated() [][]byte {
	r := rand.New(rand.NewPCG(7, 4791))
	var all [][]byte
	for len(all) < 400 {
		p := random(r)
		for i := range p.VLAN { // tshark knows 0x88a8 only outside
			p.VLAN[i].TPID = 0x8100
		}
		if len(p.VLAN) == 2 {
			p.VLAN[0].TPID = 0x88a8
		}
		all = append(all, p.Encode())
	}
	return all
}

func TestGeneratedFramesAgreeWithTshark(t *testing.T) {
	all := generated()
	rows := oracle.Tshark(t, writePcap(t, all), tsharkFields...)
	require.Len(t, rows, len(all))
	for i, f := range all {
		if !t.Run("", func(t *testing.T) { agree(t, f, rows[i]) }) {
			t.Fatalf("frame %d: %x\n%q", i, f, rows[i])
		}
	}
}

// icrcProgram reads frames in hex, one a line, and prints for each what scapy computes as its ICRC, as on
// the wire.
const icrcProgram = `
import sys, json
from scapy.layers.l2 import Ether
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.contrib.roce import BTH
out = []
for line in sys.stdin:
    p = Ether(bytes.fromhex(line.strip()))
    b = p[BTH]
    sent = b.icrc
    out.append([b.compute_icrc(None).hex(), "%08x" % sent])
json.dump(out, sys.stdout)
`

// scapyICRC is, for each frame, what scapy computes, and what it finds in the frame.
func scapyICRC(t *testing.T, all [][]byte) [][2]string {
	t.Helper()
	var in bytes.Buffer
	for _, f := range all {
		fmt.Fprintf(&in, "%x\n", f)
	}
	var out [][2]string
	require.NoError(t, json.Unmarshal(oracle.Python(t, icrcProgram, in.Bytes()), &out))
	require.Len(t, out, len(all))
	return out
}

func TestICRCAgreesWithScapy(t *testing.T) {
	var all [][]byte
	for _, file := range captures(t) {
		all = append(all, frames(t, file)...)
	}
	kernel := len(all)
	all = append(all, generated()...)
	wrong := 0
	for i, icrc := range scapyICRC(t, all) {
		f := all[i]
		d := roce.Dissect(f)
		require.True(t, d.ICRCKnown)
		require.Equal(t, icrc[0] == icrc[1], d.ICRCGood, "frame %d: scapy computes %s of %x", i, icrc[0], f)
		mended := slices.Clone(f)
		require.NoError(t, roce.SetICRC(mended))
		require.Equal(t, icrc[0], hex.EncodeToString(mended[len(mended)-4:]), "frame %d: %x", i, f)
		if !d.ICRCGood {
			require.Less(t, i, kernel)
			wrong++
		}
	}
	require.Equal(t, 2, wrong, "frames with a wrong ICRC")
}
