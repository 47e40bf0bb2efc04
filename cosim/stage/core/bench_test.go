package core

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/cosim/stage"
	"github.com/epic-inc/epic/driver/table"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

const root = "../../.."

// Sizes of inc_bench_pkg.
const (
	entries = 16 // ENDPOINTS
	pipes   = 4  // PIPES
	blocks  = 64 // BLOCKS
)

var (
	seedFlag  = flag.Uint64("seed", 1, "seed of every random choice")
	widthFlag = flag.Int("width", 0, "only this width")
	rtlFlag   = flag.String("rtl", "", "build the bench from this rtl folder, a patched copy")
)

var widths = []int{64, 128, 256, 512}

// pacing is how often sources pause and sinks are not ready, in parts per million.
type pacing struct {
	name        string
	idle, stall int
}

var pacings = []pacing{
	{"full speed", 0, 0},
	{"idle", 400_000, 0},
	{"back-pressure", 0, 500_000},
	{"both", 200_000, 300_000},
}

// benchOf builds the bench of one width, or finds it built.
func benchOf(t *testing.T, width int) string {
	t.Helper()
	src := stage.Source{Root: root, Width: width}
	if *rtlFlag != "" {
		src.RTL, src.Out = *rtlFlag, filepath.Join(filepath.Dir(*rtlFlag), fmt.Sprintf("stage-w%d", width))
	}
	bench, err := stage.Build(t.Context(), src)
	require.NoError(t, err, "scripts/setup sim brings what the build needs")
	return bench
}

// run is one session in one test, and what it needs to fail well.
type run struct {
	*Session
	t       *testing.T
	random  *rand.Rand
	width   int // bits of the datapath
	pacing  pacing
	layouts Layouts
}

// each runs f at every width and pacing, with a seed that is printed if f fails.
func each(t *testing.T, stage Stage, streams map[int]string, f func(r *run)) {
	if testing.Short() {
		t.Skip("builds a Verilator model")
	}
	for _, width := range widths {
		if *widthFlag != 0 && width != *widthFlag {
			continue
		}
		bench := benchOf(t, width)
		layouts, err := ReadLayouts(width, filepath.Join(root, "rtl/pkg/inc_spec_pkg.sv"),
			filepath.Join(root, "rtl/pkg/inc_pkg.sv"), filepath.Join(root, "cosim/stage/bench/core/inc_bench_pkg.sv"))
		require.NoError(t, err)
		for n, p := range pacings {
			t.Run(fmt.Sprintf("%d/%s", width, p.name), func(t *testing.T) {
				t.Parallel()
				t.Logf("replay with -seed %d", *seedFlag)
				seed := *seedFlag*1000 + uint64(width) + uint64(n)
				s, err := Start(t.Context(), Options{Bench: bench, Stage: stage, Layouts: layouts, Streams: streams,
					Seed: seed, Idle: p.idle, Stall: p.stall})
				require.NoError(t, err)
				f(&run{s, t, rand.New(rand.NewPCG(seed, uint64(stage))), width, p, layouts})
				require.NoError(t, s.Close())
			})
		}
	}
}

func (r *run) clocks(n int) []Event {
	r.t.Helper()
	events, err := r.Run(n)
	require.NoError(r.t, err)
	return events
}

func (r *run) drain(limit, settle int) []Event {
	r.t.Helper()
	events, err := r.Drain(limit, settle)
	require.NoError(r.t, err)
	return events
}

// below draws 0..n-1.
func (r *run) below(n int) int { return r.random.IntN(n) }

func (r *run) chance(percent int) bool { return r.below(100) < percent }

func (r *run) beatBytes() int { return r.width / 8 }

// fail says where in the run something differs.
func (r *run) fail(ev Event, format string, args ...any) {
	r.t.Helper()
	r.t.Fatalf("clock %d, stream %d: %s", ev.Clock, ev.Stream, fmt.Sprintf(format, args...))
}

// words is a payload as a token holds it.
func words(b []byte) []uint32 {
	w := make([]uint32, (len(b)+3)/4)
	for i, v := range b {
		w[i/4] |= uint32(v) << (8 * (i % 4))
	}
	return w
}

func (r *run) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.random.Uint32())
	}
	return b
}

func mac(m roce.MAC) uint64 {
	var v uint64
	for _, b := range m {
		v = v<<8 | uint64(b)
	}
	return v
}

func addr(a netip.Addr) []uint32 {
	u := spec.Uint128FromAddr(a)
	return []uint32{uint32(u.Lo), uint32(u.Lo >> 32), uint32(u.Hi), uint32(u.Hi >> 32)}
}

// plan is the table entries of a configuration.
func plan(t *testing.T, cfg engine.Config) *table.Plan {
	t.Helper()
	p, err := table.NewPlan(cfg, table.Capabilities{DataW: 64, Ports: 64, Endpoints: entries, Pipes: pipes, Outs: entries, FanIn: spec.FaninMax,
		PoolKB: blocks * spec.BlockBytes / 1024, MTU: slices.Max(roce.MTUs()), Mode3: true, Float: true})
	require.NoError(t, err)
	return p
}

// endpoint is one that differs from every other in each of its fields. Its table index is n.
func (r *run) endpoint(n int, v6 bool) engine.Endpoint {
	ip := func(kind byte) netip.Addr {
		if v6 {
			return netip.AddrFrom16([16]byte{0xfd, 0, 15: byte(n), 14: kind, 7: byte(r.below(256))})
		}
		return netip.AddrFrom4([4]byte{10, kind, byte(r.below(256)), byte(n)})
	}
	return engine.Endpoint{
		Port: n % 8, MAC: roce.MAC{2, 0, byte(r.below(256)), 0, 1, byte(n)}, PeerMAC: roce.MAC{2, 1, 0, byte(r.below(256)), 2, byte(n)},
		IP: ip(1), PeerIP: ip(2), QPN: uint32(r.below(1<<20-1)+1)<<4 | uint32(n), PeerQPN: uint32(r.below(1<<24-1) + 1),
		PKey: 0x8000 | uint16(r.below(1<<15)), UDPSport: uint16(r.below(1 << 16)), TTL: uint8(r.below(256)),
		TOS: uint8(r.below(64)) << 2, MigReq: r.chance(50), InPipe: engine.None, OutPipe: engine.None,
	}
}

// packet is what the peer of an endpoint sends it, so far without payload.
func packet(ep engine.Endpoint, opcode spec.Opcode, k psn.PSN) *roce.Packet {
	return &roce.Packet{
		DstMAC: ep.MAC, SrcMAC: ep.PeerMAC, Src: ep.PeerIP, Dst: ep.IP, TTL: 64, SrcPort: 0xc000,
		Opcode: opcode, PKey: ep.PKey, DestQP: ep.QPN, PSN: k,
	}
}

// ackPacket is the peer's acknowledgement.
func ackPacket(ep engine.Endpoint, k psn.PSN, syndrome uint8) *roce.Packet {
	p := packet(ep, spec.OpcodeAcknowledge, k)
	p.Syndrome = syndrome
	return p
}

// golden is the specification in one state; every step must be legal.
type golden struct {
	*engine.Engine
	t   *testing.T
	cfg engine.Config
}

func newGolden(t *testing.T, cfg engine.Config) *golden {
	t.Helper()
	e, err := engine.New(cfg)
	require.NoError(t, err)
	return &golden{e, t, cfg}
}

// step does one event; the record comes first.
func (g *golden) step(ev engine.Event) []engine.Output {
	g.t.Helper()
	require.NoError(g.t, g.Legal(ev))
	return g.Step(ev)
}

func (g *golden) frame(port int, p *roce.Packet) []engine.Output {
	g.t.Helper()
	return g.step(engine.Event{Cause: spec.CauseDrop, Port: port, Packet: p})
}

// clone is an independent engine in the same state.
func (g *golden) clone() *golden { return &golden{g.Clone(), g.t, g.cfg} }
