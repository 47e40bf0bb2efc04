package group

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

const captures = "../../testdata/allreduce4/group.yaml"

// two is the smallest useful file; the numbers of its lines are those the tests expect.
const two = `version: 1
switches:
  - name: s
    endpoints:
      - {name: a, port: 0, mac: "02:00:00:00:00:63", ip: 10.0.0.99, qpn: 0x101, peer_mac: "02:00:00:00:00:01", peer_ip: 10.0.0.1, peer_qpn: 17}
      - {name: b, port: 1, mac: "02:00:00:00:00:63", ip: 10.0.0.99, qpn: 0x102, peer_mac: "02:00:00:00:00:02", peer_ip: 10.0.0.2, peer_qpn: 17}
    pipes:
      - {name: p, ins: [a, b], outs: [a, b], slots: 64, psn0: 0xfffff0}
ranks:
  - {mac: "02:00:00:00:00:01", ip: 10.0.0.1, qpn: 17}
  - {mac: "02:00:00:00:00:02", ip: 10.0.0.2, qpn: 17}
`

// twoLevel is a root over one leaf with both ranks.
const twoLevel = `version: 1
collective: allreduce
switches:
  - name: root
    endpoints:
      - {name: leaf, port: 0, mac: "02:00:00:01:00:01", ip: fd00::1, qpn: 0x101, peer_mac: "02:00:00:01:00:02", peer_ip: fd00::2, peer_qpn: 0x103}
    pipes:
      - {name: top, ins: [leaf], outs: [leaf], slots: 64}
  - name: leaf
    endpoints:
      - {name: r0, port: 0, mac: "02:00:00:01:00:02", ip: fd00::2, qpn: 0x101, peer_mac: "02:00:00:00:00:01", peer_ip: fd00::11, peer_qpn: 17}
      - {name: r1, port: 1, mac: "02:00:00:01:00:02", ip: fd00::2, qpn: 0x102, peer_mac: "02:00:00:00:00:02", peer_ip: fd00::12, peer_qpn: 17}
      - {name: up, port: 2, mac: "02:00:00:01:00:02", ip: fd00::2, qpn: 0x103, peer_mac: "02:00:00:01:00:01", peer_ip: fd00::1, peer_qpn: 0x101}
    pipes:
      - {name: up, ins: [r0, r1], outs: [up], slots: 64}
      - {name: down, ins: [up], outs: [r1, r0], slots: 64}
ranks:
  - {mac: "02:00:00:00:00:01", ip: fd00::11, qpn: 17}
  - {mac: "02:00:00:00:00:02", ip: fd00::12, qpn: 17}
`

func TestCapturesGroup(t *testing.T) {
	g, err := Load(captures)
	require.NoError(t, err)
	assert.Equal(t, 3, g.Mode)
	assert.Equal(t, 1024, g.MTU)
	cfg, err := g.EngineConfig("root")
	require.NoError(t, err)
	require.NoError(t, cfg.Validate())
	require.Len(t, cfg.Endpoints, 4)
	for k, ep := range cfg.Endpoints {
		assert.Equal(t, engine.Endpoint{
			Name: fmt.Sprintf("rank%d", k), Port: k,
			MAC: roce.MAC{0x52, 0x54, 0, 0, 0, 0x63}, PeerMAC: roce.MAC{0x52, 0x54, 0, 0, 0, byte(k + 1)},
			IP: netip.MustParseAddr("10.9.0.99"), PeerIP: netip.MustParseAddr(fmt.Sprintf("10.9.0.%d", k+1)),
			QPN: 0x101 + uint32(k), PeerQPN: 17, PKey: 0xffff, UDPSport: 49999, TTL: 64,
			PSN0: 0xfffff0, Leaf: true, InPipe: 0, OutPipe: 0, InIndex: k,
		}, ep)
	}
	assert.Equal(t, []engine.Pipe{{
		Name: "allreduce", Mode: 3, Op: spec.OpSum, DType: spec.DTypeInt32, Ins: []int{0, 1, 2, 3}, Outs: []int{0, 1, 2, 3},
		N: 128, MTU: 1024, PSN0: 0xfffff0, AckEvery: 1, RNRCode: 1, Retries: 7, BackoffMax: 3, Timeout: 1678,
	}}, cfg.Pipes)
	assert.Equal(t, 512, cfg.Blocks)
	_, err = g.EngineConfig("leaf0")
	assert.ErrorContains(t, err, `switch "leaf0" does not exist, want one of root`)
}

// A file that an editor on another system wrote.
func TestMarkAndLineEnds(t *testing.T) {
	text, err := os.ReadFile(captures)
	require.NoError(t, err)
	want, err := Parse("a.yaml", text)
	require.NoError(t, err)
	got, err := Parse("a.yaml", []byte("\ufeff"+strings.ReplaceAll(string(text), "\n", "\r\n")))
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestHostConfig(t *testing.T) {
	g, err := Load(captures)
	require.NoError(t, err)
	for k := range 4 {
		got, err := g.HostConfig(k, 0)
		require.NoError(t, err)
		require.NoError(t, got.Validate())
		assert.Equal(t, host.Config{
			Name: fmt.Sprintf("rank/%d", k), MAC: roce.MAC{0x52, 0x54, 0, 0, 0, byte(k + 1)}, PeerMAC: roce.MAC{0x52, 0x54, 0, 0, 0, 0x63},
			IP: netip.MustParseAddr(fmt.Sprintf("10.9.0.%d", k+1)), PeerIP: netip.MustParseAddr("10.9.0.99"),
			QPN: 17, PeerQPN: 0x101 + uint32(k), PKey: 0xffff, UDPSport: 0xc000 + uint16(k), TTL: 64,
			SendPSN: 0xfffff0, RecvPSN: 0xfffff0, MTU: 1024, Timeout: 12, RetryCnt: 7, RNRRetry: 7, MinRNRTimer: 1,
			Settings: host.LinuxRXE(),
		}, got)
	}
	_, err = g.HostConfig(4, 0)
	assert.ErrorContains(t, err, "rank 4 does not exist, want 0..3")

	// Rank 1 is the root of a reduce: it only receives, from the same first PSN; limited endpoint, own preset.
	o := DefaultOptions()
	o.Ranks, o.Collective, o.RootRank, o.PSN0 = 3, "reduce", 1, 77
	g, err = Generate(o)
	require.NoError(t, err)
	g.Ranks[1].Preset = "strict-nic"
	g.Switches[0].Endpoints[1].PKey = 0x7001
	got, err := g.HostConfig(1, 0)
	require.NoError(t, err)
	assert.EqualValues(t, 77, got.RecvPSN)
	assert.EqualValues(t, 0xf001, got.PKey)
	assert.Equal(t, host.StrictNIC(), got.Settings)
}

func TestDefaultsAndPlacement(t *testing.T) {
	g, err := Parse("two", []byte(two))
	require.NoError(t, err)
	assert.Equal(t, Timers{TimeoutTicks: 1678, Retries: 7, BackoffMax: 3, RNRCode: 1, AckEvery: 1}, g.Timers)
	assert.Equal(t, Clock{250, 2500}, g.Clock)
	assert.Equal(t, Host{"linux-rxe", 16, 32, 12, 7, 7, 1}, g.Host)
	assert.Equal(t, 64, g.Switches[0].EndpointEntries)
	assert.Equal(t, uint16(0xffff), g.Switches[0].Endpoints[1].PKey)
	assert.Equal(t, uint16(49999), g.Switches[0].Endpoints[1].Sport)
	assert.Equal(t, uint8(64), g.Switches[0].Endpoints[1].TTL)

	g, err = Parse("twoLevel", []byte(twoLevel))
	require.NoError(t, err)
	cfg, err := g.EngineConfig("leaf")
	require.NoError(t, err)
	assert.Equal(t, 0, cfg.Pipes[0].Base)
	assert.Equal(t, 64*4, cfg.Pipes[1].Base, "after the 64 slots of four blocks before it")
	assert.Equal(t, []int{0, 1}, cfg.Pipes[0].Ins)
	assert.Equal(t, []int{1, 0}, cfg.Pipes[1].Outs, "the file's order")
	up := cfg.Endpoints[2]
	assert.Equal(t, []int{1, 0, 0}, []int{up.InPipe, up.OutPipe, up.InIndex})
	r1 := cfg.Endpoints[1]
	assert.Equal(t, []int{0, 1, 1}, []int{r1.InPipe, r1.OutPipe, r1.InIndex})

	tr, err := g.Tree()
	require.NoError(t, err)
	assert.Equal(t, "root\n└── leaf\n    ├── rank 0\n    └── rank 1\n", tr.Draw(nil))
	drawn, err := g.Draw()
	require.NoError(t, err)
	assert.Contains(t, drawn, "    └── rank 1  fd00::12 02:00:00:00:00:02 qpn 0x000011  at port 1, endpoint r1 qpn 0x000102\n")
	assert.Contains(t, drawn, "└── leaf  8 ports  fd00::2 02:00:00:01:00:02  up by port 2, endpoint up qpn 0x000103")
	assert.Equal(t, Peer{tree.Switch(0), 0}, g.Peer(1, 2))
	assert.Equal(t, Peer{tree.Rank(1), 0}, g.Peer(1, 1))
	s, e, err := g.RankPeer(1, 0)
	require.NoError(t, err)
	assert.Equal(t, []int{1, 1}, []int{s, e})
	_, _, err = g.RankPeer(2, 0)
	assert.ErrorContains(t, err, "rank 2 does not exist, want 0..1")
}

func TestLinks(t *testing.T) {
	g, err := Parse("x", []byte(twoLevel+`link: {delay_ns: 500, loss: 0.25}
links:
  - {ends: [leaf, root], loss: 0, gbps: 40}
  - {ends: [rank/1, leaf], dup: 0.5}
`))
	require.NoError(t, err)
	assert.Equal(t, Link{DelayNs: 500, Gbps: 40}, g.LinkBetween("root", "leaf"))
	assert.Equal(t, Link{DelayNs: 500, Gbps: 100, Loss: 0.25, Dup: 0.5}, g.LinkBetween("leaf", RankName(1)))
	assert.Equal(t, Link{DelayNs: 500, Gbps: 100, Loss: 0.25}, g.LinkBetween(RankName(0), "leaf"))
}

// A file with one thing wrong has one problem, at that thing's line and column.
func TestWrong(t *testing.T) {
	for _, tc := range []struct {
		name     string
		base     string // two if empty
		old, new string // the change that makes it wrong; an empty old appends
		at       string // text around the place that the problem names, which is at the bar
		want     string // how the message after the place begins
	}{
		{"version", "", "version: 1", "version: 2", `version: |2`, "version: got 2, want 1"},
		{"no version", "", "version: 1\n", "", `|switches:`, "field version is missing (version of this format)"},
		{"no endpoint qpn", "", "qpn: 0x102, ", "", `- |{name: b, `, "switches[0].endpoints[1]: field qpn is missing (queue pair number, 24 bits)"},
		{"unknown field", "", "slots: 64", "slotz: 64", `ts: [a, b], |slotz: 64,`, `switches[0].pipes[0].slotz: unknown field, want one of base_block, dtype, ins, mode, name, op, outs, psn0, reproducible, slots, subgroup, unpinned`},
		{"unknown field at the top", "", "ranks:", "speed: 3\nranks:", `|speed: 3`, "speed: unknown field, want one of clock, collective, host"},
		{"string for a number", "", "slots: 64", "slots: many", ` b], slots: |many, psn0`, "switches[0].pipes[0].slots: got the string"},
		{"not a power of two", "", "slots: 64", "slots: 100", ` b], slots: |100, psn0:`, "switches[0].pipes[0].slots: got 100, want a power of two, 2..4194304"},
		{"one slot", "", "slots: 64", "slots: 1", ` b], slots: |1, psn0: 0`, "switches[0].pipes[0].slots: got 1, want 2..4194304 (0x400000)"},
		{"too many slots", "", "slots: 64", "slots: 8388608", ` b], slots: |8388608, p`, "switches[0].pipes[0].slots: got 8388608 (0x800000), want 2..4194304 (0x400000)"},
		{"pool", "", "slots: 64", "slots: 256", ` b], slots: |256, psn0:`, "switches[0].pipes[0].slots: pipe p takes blocks 0..1023 (256 slots of 1024 bytes), want at most 512 blocks of 256 bytes: pool_kb is 128"},
		{"psn above 24 bits", "", "psn0: 0xfffff0", "psn0: 0x1000000", `: 64, psn0: |0x1000000}`, "switches[0].pipes[0].psn0: got 16777216 (0x1000000), want 0..16777215 (0xffffff) (packet sequence number, 24 bits)"},
		{"psn above 64 bits", "", "psn0: 0xfffff0", "psn0: 0x1ffffffffffffffff", `: 64, psn0: |0x1fffffff`, "switches[0].pipes[0].psn0: got the string"},
		{"negative psn", "", "psn0: 0xfffff0", "psn0: -1", `: 64, psn0: |-1}`, "switches[0].pipes[0].psn0: got -1, want 0..16777215"},
		{"leading zero", "", "slots: 64", "slots: 064", ` b], slots: |064, psn0:`, "switches[0].pipes[0].slots: got 064, want a number without leading zeros"},
		{"mtu", "", "version: 1", "version: 1\nmtu: 1000", `mtu: |1000`, "mtu: got 1000, want one of 256, 512, 1024, 2048, 4096"},
		{"mtu 9000", "", "version: 1", "version: 1\nmtu: 9000", `mtu: |9000`, "mtu: got 9000, want one of 256, 512, 1024, 2048, 4096"},
		{"mode", "", "version: 1", "version: 1\nmode: 4", `mode: |4`, "mode: got 4, want one of 1, 2, 3"},
		{"endpoint_entries", "", "  - name: s", "  - name: s\n    endpoint_entries: 48", `nt_entries: |48`, "switches[0].endpoint_entries: got 48, want a power of two, 1..4096"},
		{"one QPN twice", "", "qpn: 0x102", "qpn: 0x101", `.0.99, qpn: |0x101, pee`, "switches[0].endpoints[1].qpn: QPN 0x000101 is endpoint a's already, want another"},
		{"same low bits", "", "qpn: 0x102", "qpn: 0x141", `.0.99, qpn: |0x141, pee`, "switches[0].endpoints[1].qpn: QPN 0x000141 has the low 6 bits of endpoint a's 0x000101, want others: they are the row in the table of endpoint_entries 64"},
		{"fan-in 0", "", "ins: [a, b]", "ins: []", `me: p, ins: |[], outs: `, "switches[0].pipes[0].ins: got 0 ins (fan-in), want 1..64"},
		{"fan-out 0", "", "outs: [a, b]", "outs: []", `, b], outs: |[], slots:`, "switches[0].pipes[0].outs: got 0 outs (fan-out), want 1..64"},
		{"no such endpoint", "", "ins: [a, b]", "ins: [a, c]", `p, ins: [a, |c], outs: `, `switches[0].pipes[0].ins[1]: got "c", want an endpoint of switch s: a, b`},
		{"in twice", "", "ins: [a, b]", "ins: [b, b]", `p, ins: [b, |b], outs: `, "switches[0].pipes[0].ins[1]: in b is entry 0 already"},
		{"port", "", "port: 1", "port: 8", `e: b, port: |8, mac: "0`, "switches[0].endpoints[1].port: got 8, want 0..7, a port of switch s"},
		{"port out of the schema", "", "port: 1", "port: 64", `e: b, port: |64, mac: "`, "switches[0].endpoints[1].port: got 64, want 0..63"},
		{"port shared", "", "port: 1", "port: 0", `e: b, port: |0, mac: "0`, "switches[0].endpoints[1].port: port 0 leads to rank/1, but also to rank/0, want one neighbour at a port"},
		{"peer qpn", "", "10.0.0.2, peer_qpn: 17", "10.0.0.2, peer_qpn: 18", `, peer_qpn: |18}`, "switches[0].endpoints[1].peer_qpn: no rank or endpoint at 10.0.0.2 has QPN 0x000012, want an existing peer (rank/1 has QPN 0x000011)"},
		{"peer ip", "", "peer_ip: 10.0.0.2", "peer_ip: 10.0.0.3", `", peer_ip: |10.0.0.3, `, "switches[0].endpoints[1].peer_ip: no rank or endpoint has IP 10.0.0.3, want an existing peer"},
		{"peer mac", "", `peer_mac: "02:00:00:00:00:02"`, `peer_mac: "02:00:00:00:00:04"`, `, peer_mac: |"02:00:00:`, "switches[0].endpoints[1].peer_mac: got 02:00:00:00:00:04, want 02:00:00:00:00:02 as rank/1 says"},
		{"mac", "", `peer_mac: "02:00:00:00:00:02"`, `peer_mac: "02:00:00:00:00"`, `, peer_mac: |"02:00:00:`, `switches[0].endpoints[1].peer_mac: got "02:00:00:00:00", want six bytes as 52:54:00:00:00:01`},
		{"group mac", "", `- {mac: "02:00:00:00:00:02"`, `- {mac: "ff:ff:ff:ff:ff:ff"`, `- {mac: |"ff:ff:ff:`, `ranks[1].mac: got "ff:ff:ff:ff:ff:ff", want the address of one station`},
		{"ip", "", "peer_ip: 10.0.0.2", "peer_ip: 10.0.0.256", `", peer_ip: |10.0.0.256`, `switches[0].endpoints[1].peer_ip: got "10.0.0.256", want an IPv4 or IPv6 address`},
		{"ip versions", "", "peer_ip: 10.0.0.2", "peer_ip: fd00::1", `", peer_ip: |fd00::1, p`, "switches[0].endpoints[1].peer_ip: got fd00::1, want the IP version of the endpoint's own 10.0.0.99"},
		{"pkey 0", "", "qpn: 0x102,", "qpn: 0x102, pkey: 0x8000,", `x102, pkey: |0x8000, pe`, "switches[0].endpoints[1].pkey: got 0x8000, want a partition: its low 15 bits must not be 0"},
		{"pkey wide", "", "qpn: 0x102,", "qpn: 0x102, pkey: 0x1ffff,", `x102, pkey: |0x1ffff, p`, "switches[0].endpoints[1].pkey: got 131071 (0x1ffff), want 0..65535"},
		{"ecn", "", "qpn: 0x102,", "qpn: 0x102, tos: 3,", `0x102, tos: |3, peer_ma`, "switches[0].endpoints[1].tos: got 0x03, want ECN bits 1:0 of 0"},
		{"unused endpoint", "", "ins: [a, b], outs: [a, b]", "ins: [a], outs: [a]", `- {name: |b, port: 1`, "switches[0].endpoints[1].name: endpoint b is neither an in nor an out of a pipe"},
		{"endpoint named twice", "", "name: b", "name: a", `- {name: |a, port: 1`, "switches[0].endpoints[1].name: endpoint a is entry 0 already"},
		{"in of two pipes", "", "psn0: 0xfffff0}\n", "psn0: 0xfffff0}\n      - {name: q, ins: [a], outs: [b], slots: 64, psn0: 0xfffff0}\n", `e: q, ins: [|a], outs: `, "switches[0].pipes[1].ins[0]: endpoint a is an in of pipe p already, want one pipe in each direction"},
		{"op on floats", "", "slots: 64", "slots: 64, op: xor, dtype: float32", `ts: 64, op: |xor, dtype`, "switches[0].pipes[0].op: xor of float32 is not defined: bitwise operators are for integers"},
		{"unknown op", "", "slots: 64", "slots: 64, op: avg", `ts: 64, op: |avg, psn0:`, `switches[0].pipes[0].op: got "avg", want one of "sum", "min", "max", "and", "or", "xor"`},
		{"blocks beyond the pool", "", "slots: 64", "slots: 64, base_block: 400", `base_block: |400, psn0:`, "switches[0].pipes[0].base_block: pipe p takes blocks 400..655"},
		{"message of mode 1", "", "version: 1", "version: 1\nmode: 1\nhost: {message_packets: 65}", `slots: |64`, "switches[0].pipes[0].slots: got 64, want at least 65 in mode 1"},
		{"ack_every of mode 1", "", "version: 1", "version: 1\nmode: 1\ntimers: {ack_every: 17}", `{ack_every: |17}`, "timers.ack_every: got 17, want at most 16"},
		{"ack_every", "", "version: 1", "version: 1\ntimers: {ack_every: 17}", `{ack_every: |17}`, "timers.ack_every: got 17, want at most 16: a quarter of the 64 slots of pipe p of switch s"},
		{"rnr_code", "", "version: 1", "version: 1\ntimers: {rnr_code: 32}", ` {rnr_code: |32}`, "timers.rnr_code: got 32, want 0..31 (timer code of RNR NAKs sent"},
		{"loss", "", "version: 1", "version: 1\nlink: {loss: 1.5}", `ink: {loss: |1.5}`, "link.loss: got 1.5, want 0..1"},
		{"bandwidth 0", "", "version: 1", "version: 1\nlink: {gbps: 0}", `ink: {gbps: |0}`, "link.gbps: got 0, want more than 0 (bandwidth)"},
		{"preset", "", "version: 1", "version: 1\nhost: {preset: windows}", `t: {preset: |windows}`, `host.preset: got "windows", want one of "linux-rxe", "strict-nic"`},
		{"window below a message", "", "version: 1", "version: 1\nhost: {message_packets: 8, window_packets: 4}", `ow_packets: |4}`, "host.window_packets: got 4, want at least the 8 packets of one message"},
		{"rank without endpoint", "", "", "  - {mac: \"02:00:00:00:00:03\", ip: 10.0.0.3, qpn: 17}\n", `- |{mac: "02:`, "ranks[2]: no endpoint has rank 2 as its peer"},
		{"rank twice", "", "- {mac: \"02:00:00:00:00:02\", ip: 10.0.0.2", "- {mac: \"02:00:00:00:00:02\", ip: 10.0.0.1", `00:02", ip: |10.0.0.1, `, "ranks[1].ip: 10.0.0.1 is rank 0's already"},
		{"root switch", "", "version: 1", "version: 1\nroot_switch: t", `oot_switch: |t`, `root_switch: got "t", want a switch: s`},
		{"root rank without collective", "", "version: 1", "version: 1\nroot_rank: 0", `root_rank: |0`, "root_rank: given without collective, want collective: reduce or broadcast"},
		{"root rank of an allreduce", "", "version: 1", "version: 1\ncollective: allreduce\nroot_rank: 0", `root_rank: |0`, "root_rank: got 0 with collective allreduce, want none"},
		{"reduce without root", "", "version: 1", "version: 1\ncollective: reduce", `collective: |reduce`, "collective: reduce has no root_rank, want 0..1"},
		{"root rank too large", "", "version: 1", "version: 1\ncollective: reduce\nroot_rank: 2", `root_rank: |2`, "root_rank: got 2, want 0..1"},
		{"other collective's pipes", "", "version: 1", "version: 1\ncollective: reduce\nroot_rank: 1", `- |{name: p, `, "switches[0].pipes[0]: pipe p goes from rank 0, rank 1 to rank 0, rank 1, want for reduce: from rank 0 to rank 1"},
		{"link to nowhere", "", "", "links:\n  - {ends: [s, rank/2]}\n", ` {ends: [s, |rank/2]}`, `links[0].ends[1]: got "rank/2", want one of 2 ranks`},
		{"link of one end", "", "", "links:\n  - {ends: [s]}\n", `- {ends: |[s]}`, "links[0].ends: got 1 entries, want 2..2"},
		{"link twice", "", "", "links:\n  - {ends: [s, rank/0]}\n  - {ends: [rank/0, s]}\n", `- {ends: |[rank/0, s`, "links[1].ends: link between rank/0 and s is entry 0 already"},
		{"no link there", twoLevel, "", "links:\n  - {ends: [root, rank/0]}\n", `- {ends: |[root, ran`, "links[0].ends: root and rank/0 are not neighbours"},
		{"ends disagree", twoLevel, "peer_ip: fd00::1, peer_qpn: 0x101", "peer_ip: fd00::11, peer_qpn: 17", `, peer_qpn: |0x103}`, "switches[0].endpoints[0].peer_qpn: endpoint up of switch leaf has peer fd00::11 QPN 0x000011, want fd00::1 QPN 0x000101: the two ends must name each other"},
		{"psn of one endpoint", twoLevel, "{name: down, ", "{name: down, psn0: 5, ", `down, psn0: |5, ins: [u`, "switches[1].pipes[1].psn0: got 0x000005"},
		{"psn between switches", twoLevel, "{name: top, ", "{name: top, psn0: 5, ", `, peer_qpn: |0x103}`, "switches[0].endpoints[0].peer_qpn: pipe top starts at PSN 0x000005, but pipe down of switch leaf, which it sends to, at 0x000000"},
		{"no in on the way down", twoLevel, "      - {name: down, ins: [up], outs: [r1, r0], slots: 64}\n", "", `, peer_qpn: |0x103}`, "switches[0].endpoints[0].peer_qpn: pipe top sends to endpoint up of switch leaf, which is no in of a pipe"},
		{"partition between switches", twoLevel, "peer_qpn: 0x103}", "peer_qpn: 0x103, pkey: 0x8001}", `x103, pkey: |0x8001}`, "switches[0].endpoints[0].pkey: got 0x8001, want the partition of endpoint up of switch leaf, 0xffff"},
		{"given twice", "", "version: 1", "version: 1\nversion: 1", `|version: 1`, `not valid YAML: mapping key "version" already defined at [1:1]`},
		{"syntax", "", "ins: [a, b]", "ins: [a, b", "psn0: 0xfffff0|}", "not valid YAML: "},
		{"tab", "", "switches:", "switches:\n\t- x", `|	- x`, "not valid YAML: found character '\t' that cannot start any token"},
		{"two documents", "", "", "---\nversion: 1\n", `|version: 1`, "got a second YAML document, want one"},
		{"merge key", "", "version: 1", "version: 1\n<<: {mode: 3}", `|<<: {mode:`, "got the key <<, want a plain name"},
		{"alias of nothing", "", "version: 1", "version: *v", `version: |*v`, "version: alias *v has no anchor &v before it"},
		{"tag", "", "version: 1", "version: !!int 1", `version: |!!int 1`, "version: got tag, want a plain mapping"},
		{"null", "", "version: 1", "version: ~", `version: |~`, "version: got nothing, want 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			base := tc.base
			if base == "" {
				base = two
			}
			require.Contains(t, base, tc.old)
			i := strings.LastIndex(base, tc.old)
			if tc.old == "" {
				i = len(base)
			}
			wrong := base[:i] + tc.new + base[i+len(tc.old):]
			_, err := Parse("f", []byte(wrong))
			require.Error(t, err)
			first := strings.SplitN(err.Error(), "\n", 2)[0]
			line, column := locate(t, wrong, tc.at)
			want := fmt.Sprintf("f:%d:%d: %s", line, column, tc.want)
			assert.Equal(t, want, first[:min(len(first), len(want))])
		})
	}
}

// locate finds the line and column of the bar in mark; the last place if there are several.
func locate(t *testing.T, text, mark string) (line, column int) {
	t.Helper()
	before, after, ok := strings.Cut(mark, "|")
	require.True(t, ok)
	i := strings.LastIndex(text, before+after)
	require.GreaterOrEqual(t, i, 0, "%q is not in the text", mark)
	head := text[:i+len(before)]
	return 1 + strings.Count(head, "\n"), len(head) - strings.LastIndexByte(head, '\n')
}

func TestWholeFileWrong(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", "f:1:1: got an empty file"},
		{"comment only", "# nothing\n", "f:1:1: got an empty file"},
		{"a list", "- 1\n", "f:1:1: got array, want object"},
		{"a word", "hello\n", `f:1:1: got the string "hello", want object`},
		{"pcap", "version: 1\n\xd4\xc3\xb2\xa1\x02\x00", "f:2:1: got the byte 0xd4, want YAML text in UTF-8"},
		{"nul", "a\x00", "f:1:2: got the byte 0x00"},
		{"billion laughs", laughs(), "values once aliases are put in"},
		{"brackets", "version: 1\na: " + strings.Repeat("[", 100000), "f:2:1: nested more than 64 deep"},
		{"braces", strings.Repeat("{a: ", 65), "f:1:1: nested more than 64 deep"},
		{"dashes", strings.Repeat("- ", 10000) + "x", "f:1:1: nested more than 64 deep"},
		{"brackets in strings and comments", "version: 1\nx: \"" + strings.Repeat("[", 99) + "\" # " + strings.Repeat("{", 99), "f:1:1: field switches is missing"},
		{"loop", "version: &a [*a]\n", "alias *a has no anchor"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Parse("f", []byte(tc.text))
			require.Error(t, err)
			assert.Contains(t, strings.SplitN(err.Error(), "\n", 2)[0], tc.want)
		})
	}
	_, err := Load(filepath.Join(t.TempDir(), "none.yaml"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = Load(t.TempDir())
	assert.Error(t, err)
}

func laughs() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 9; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	return b.String()
}

// Every problem of a file is told, in the order of its lines, once.
func TestAllProblems(t *testing.T) {
	text := strings.NewReplacer("slots: 64", "slots: 100", "qpn: 0x102", "qpn: 0x101", "port: 1", "port: 9").Replace(two)
	_, err := Parse("f", []byte(text))
	var p Problems
	require.ErrorAs(t, err, &p)
	require.Len(t, p, 3)
	assert.Equal(t, []string{"switches[0].endpoints[1].port", "switches[0].endpoints[1].qpn", "switches[0].pipes[0].slots"},
		[]string{p[0].Path, p[1].Path, p[2].Path})
	assert.Equal(t, Problem{"f", 6, 25, "switches[0].endpoints[1].port", "got 9, want 0..7, a port of switch s"}, p[0])
}

func TestAnchors(t *testing.T) {
	g, err := Parse("f", []byte(strings.Replace(two, "ins: [a, b], outs: [a, b]", "ins: &all [a, b], outs: *all", 1)))
	require.NoError(t, err)
	assert.Equal(t, g.Switches[0].Pipes[0].Ins, g.Switches[0].Pipes[0].Outs)
}

func TestReadDefaultsOnlyFromSchema(t *testing.T) {
	a, err := Parse("a", []byte(two))
	require.NoError(t, err)
	a.Timers.Retries = 1
	a.Ranks = append(a.Ranks, Rank{})
	b, err := Parse("b", []byte(two))
	require.NoError(t, err)
	assert.Equal(t, 7, b.Timers.Retries, "two files share no defaults")
	assert.Len(t, b.Ranks, 2)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(two))
	f.Add([]byte(twoLevel))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		g, err := Parse("f", text)
		if err != nil {
			for _, line := range strings.Split(err.Error(), "\n") {
				if !strings.HasPrefix(line, "f:") {
					t.Fatalf("problem without a place: %q", line)
				}
			}
			return
		}
		// What is taken can be written and read back as the same.
		out, err := g.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse("f", out)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if !assert.ObjectsAreEqual(g, back) {
			t.Fatalf("read back differs:\n%+v\n%+v", g, back)
		}
	})
}
