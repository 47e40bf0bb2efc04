package run_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/cosim/scoreboard"
	"github.com/epic-inc/epic/cosim/server"
	"github.com/epic-inc/epic/cosim/server/servertest"
	"github.com/epic-inc/epic/driver/table"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// Two groups of two ranks on one engine: pipe 0 is steady and runs all the while, pipe 1 is re-pointed.
const (
	steady, moving = 0, 1
	repointWidth   = 512
	repointBytes   = 1024
	steadyPackets  = 2000
	steadyClocks   = 150 // between the steady group's packets
)

func twoGroups(mode int) engine.Config {
	cfg := engine.Config{Name: "two groups"}
	for i := range 4 {
		cfg.Endpoints = append(cfg.Endpoints, engine.Endpoint{
			Name: fmt.Sprintf("rank%d", i), Port: i, Leaf: true,
			MAC: roce.MAC{0x52, 0x54, 0, 0, 0, 0x63}, PeerMAC: roce.MAC{0x52, 0x54, 0, 0, 0, byte(i + 1)},
			IP: netip.MustParseAddr("10.9.0.99"), PeerIP: netip.MustParseAddr(fmt.Sprintf("10.9.0.%d", i+1)),
			QPN: uint32(0x101 + i), PeerQPN: uint32(17 + i), PKey: 0xffff, UDPSport: 49999, TTL: 64, MigReq: true,
			PSN0: 0xfffff0, InPipe: i / 2, OutPipe: i / 2, InIndex: i % 2,
		})
	}
	for p := range 2 {
		cfg.Pipes = append(cfg.Pipes, engine.Pipe{
			Name: []string{"steady", "moving"}[p], Mode: mode, Op: spec.OpSum, DType: spec.DTypeInt32,
			Ins: []int{2 * p, 2*p + 1}, Outs: []int{2 * p, 2*p + 1}, N: 32, MTU: 1024, PSN0: 0xfffff0,
			AckEvery: 1, RNRCode: 1, Retries: 7, BackoffMax: 3, Timeout: 1 << 19, Base: 128 * p, AckRule: spec.AckRuleReflect,
		})
	}
	return cfg
}

// repointRun is an engine under test, with golden beside it.
type repointRun struct {
	t       *testing.T
	cfg     engine.Config
	engine  *server.Engine
	board   *scoreboard.Scoreboard
	tables  *table.Engine
	results [4]map[psn.PSN][]byte // at each port; a result that comes again must be the same
	coming  []timed               // frames to drive, by time
	sends   []uint64              // clocks at which results of the steady pipe were sent
}

// frame is what rank r sends.
func (r *repointRun) frame(rank int, opcode spec.Opcode, p psn.PSN, payload []byte) []byte {
	ep := r.cfg.Endpoints[rank]
	pkt := roce.Packet{DstMAC: ep.MAC, SrcMAC: ep.PeerMAC, Src: ep.PeerIP, Dst: ep.IP, TTL: 64, SrcPort: 50000, Opcode: opcode,
		PKey: 0xffff, DestQP: ep.QPN, PSN: p, MigReq: true, AckReq: true, Payload: payload}
	if opcode == spec.OpcodeAcknowledge {
		pkt.AckReq, pkt.Syndrome = false, spec.SyndromeAck
	}
	return pkt.Encode()
}

// vector is what rank r contributes to psn p.
func vector(rank int, p psn.PSN) []byte {
	var b []byte
	for i := range uint32(repointBytes / 4) {
		b = binary.LittleEndian.AppendUint32(b, uint32(p)*0x01000193+i<<7+uint32(rank)*0x7fff_fff1)
	}
	return b
}

// total is the sum that both ranks of a group must get.
func total(group int, p psn.PSN) []byte {
	a, b := vector(2*group, p), vector(2*group+1, p)
	for i := 0; i < len(a); i += 4 {
		binary.LittleEndian.PutUint32(a[i:], binary.LittleEndian.Uint32(a[i:])+binary.LittleEndian.Uint32(b[i:]))
	}
	return a
}

type timed struct {
	at    uint64
	port  int
	frame []byte
}

// packets are n packets of a group from psn p on, one every `every` clocks, and the ACKs of their results.
func (r *repointRun) packets(group int, p psn.PSN, n int, from, every uint64) []timed {
	var list []timed
	for i := range n {
		at, q := from+uint64(i)*every, psn.Add(p, i)
		for m := range 2 {
			rank := 2*group + m
			list = append(list, timed{at + uint64(m)*7, rank, r.frame(rank, spec.OpcodeSendOnly, q, vector(rank, q))},
				timed{at + 400 + uint64(m)*9, rank, r.frame(rank, spec.OpcodeAcknowledge, q, nil)})
		}
	}
	return list
}

// insert adds frames to those that are to come.
func (r *repointRun) insert(list ...timed) {
	r.coming = append(r.coming, list...)
	slices.SortStableFunc(r.coming, func(a, b timed) int { return cmp.Compare(a.at, b.at) })
}

// ahead is how many clocks before its time a frame is handed over: more than a register access takes.
const ahead = 256

// feed hands over what is to come soon.
func (r *repointRun) feed() {
	for len(r.coming) > 0 && r.coming[0].at < r.engine.Granted()+ahead {
		f := r.coming[0]
		r.coming = r.coming[1:]
		_, err := r.engine.Drive(f.at, f.port, f.frame, false)
		require.NoError(r.t, err)
		r.board.Drive(f.at, f.port, f.frame, false)
	}
}

// Read32 and Write32 are the engine's registers, with traffic going on.
func (r *repointRun) Read32(ctx context.Context, addr uint32) (uint32, error) {
	r.feed()
	return r.engine.Read32(ctx, addr)
}

func (r *repointRun) Write32(ctx context.Context, addr, value uint32) error {
	r.feed()
	return r.engine.Write32(ctx, addr, value)
}

// until runs the engine up to a clock.
func (r *repointRun) until(clock uint64) {
	for r.engine.Granted() < clock {
		r.feed()
		require.NoError(r.t, r.engine.Grant(r.engine.Granted()+ahead/2))
		r.window()
	}
}

// window takes what happened since the last one; register accesses are part of it.
func (r *repointRun) window() {
	w, err := r.engine.Window(r.t.Context())
	if d := r.board.Window(w); d != nil {
		var diff *scoreboard.Difference
		require.True(r.t, errors.As(d, &diff))
		require.NoError(r.t, d, diff.Detail())
	}
	require.NoError(r.t, err)
	for _, rec := range w.Records {
		if rec.PipeID == steady && (rec.Cause == spec.CauseSend || rec.Cause == spec.CauseForward) {
			r.sends = append(r.sends, rec.Clock)
		}
	}
	for _, f := range w.Frames {
		pkt, bad := roce.Decode(f.Bytes)
		require.Nil(r.t, bad)
		if pkt.HasAETH() {
			continue
		}
		port := int(f.Port)
		if old, again := r.results[port][pkt.PSN]; again {
			require.Equal(r.t, old, pkt.Payload, "port %d, psn %v", port, pkt.PSN)
		}
		r.results[port][pkt.PSN] = pkt.Payload
	}
}

// gets checks that both ranks of a group got the sums of n packets from psn p on.
func (r *repointRun) gets(group int, p psn.PSN, n int) {
	r.t.Helper()
	for m := range 2 {
		for i := range n {
			q := psn.Add(p, i)
			require.Equal(r.t, total(group, q), r.results[2*group+m][q], "rank %d, psn %v", 2*group+m, q)
		}
	}
}

// A pipe is given new entries while another pipe carries traffic: `busy` while it is not drained, done when it is, and
// the other group sees nothing of it.
func TestRepointOnRTL(t *testing.T) {
	for _, mode := range []int{3, 2} {
		t.Run(fmt.Sprintf("mode%d", mode), func(t *testing.T) { testRepoint(t, mode) })
	}
}

func testRepoint(t *testing.T, mode int) {
	ctx := t.Context()
	r := &repointRun{t: t, cfg: twoGroups(mode)}
	for i := range r.results {
		r.results[i] = map[psn.PSN][]byte{}
	}
	var err error
	r.engine, err = server.Start(ctx, server.Options{Binary: servertest.Simulator(t, repointWidth), Seed: 5})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.engine.Close()) }()
	r.board, err = scoreboard.New(scoreboard.Config{Engine: r.cfg, Entries: r.engine.Params().Endpoints, TickClocks: 1 << 31, Seed: 5})
	require.NoError(t, err)
	r.tables, err = table.Open(ctx, r)
	require.NoError(t, err)
	if mode == 2 && !r.tables.Capabilities().Mode2 {
		_, err := r.tables.Program(ctx, r.cfg)
		require.ErrorContains(t, err, "pipe 0 (steady): mode 2 is not in this build, which has mode 3")
		err = r.tables.WriteEntry(ctx, 0, &spec.InList{})
		require.ErrorContains(t, err, "write of in_list[0] refused: bad_table")
		err = r.tables.WriteEntry(ctx, 0, &spec.PipeCtl{Quiesced: true})
		require.ErrorContains(t, err, "write of pipe_ctl[0] refused: bad_table")
		t.Skip("Mode-II is not built into this engine; that it says so was checked")
	}
	require.NoError(t, r.tables.SetTickClocks(ctx, 0)) // nothing is lost, nothing is sent again
	plan, err := r.tables.Program(ctx, r.cfg)
	require.NoError(t, err)
	require.NoError(t, r.tables.Verify(ctx, plan))
	r.window()

	// One rank alone: the moving pipe holds what the other waits for.
	const p0 = psn.PSN(0xfffff0)
	start := r.engine.Granted() + 100
	traffic := r.packets(steady, p0, steadyPackets, start, steadyClocks)
	r.insert(append(traffic, timed{start, 2, r.frame(2, spec.OpcodeSendOnly, p0, vector(2, p0))})...)
	r.until(start + 1000)

	next := twoGroups(mode)
	const p1 = psn.PSN(0x123456)
	next.Pipes[moving].PSN0, next.Pipes[moving].N, next.Pipes[moving].Base = p1, 16, 256
	for i := 2; i < 4; i++ {
		next.Endpoints[i].PSN0 = p1
	}
	_, err = r.tables.Repoint(ctx, next, moving)
	require.ErrorContains(t, err, "pipe 1 (moving)")
	require.True(t, table.IsBusy(err), "%v", err)
	drained, err := r.tables.Drained(ctx, moving)
	require.NoError(t, err)
	require.False(t, drained)
	nextPlan, err := table.NewPlan(next, r.tables.Capabilities())
	require.NoError(t, err)
	err = r.tables.WriteEntry(ctx, moving, nextPlan.Pipe(moving)) // past the driver: the engine refuses too
	require.True(t, table.IsBusy(err), "%v", err)

	// The other rank comes; both acknowledge.
	at := r.engine.Granted() + 200
	require.Less(t, at, start+steadyPackets*steadyClocks/2, "the steady group has still enough to do")
	r.insert(timed{at, 3, r.frame(3, spec.OpcodeSendOnly, p0, vector(3, p0))},
		timed{at + 400, 2, r.frame(2, spec.OpcodeAcknowledge, p0, nil)}, timed{at + 410, 3, r.frame(3, spec.OpcodeAcknowledge, p0, nil)})
	r.until(at + 1000)
	if mode == 2 {
		_, err = r.tables.Repoint(ctx, next, moving)
		require.ErrorContains(t, err, "not quiesced")
		require.NoError(t, r.tables.Quiesce(ctx, moving))
	}
	require.NoError(t, r.tables.WaitDrained(ctx, moving))

	for i := 2; i < 4; i++ {
		r.board.Announce(engine.Event{Endpoint: i, Pipe: engine.None, Remove: true})
		r.board.Announce(engine.Event{Endpoint: i, Pipe: engine.None, NewEndpoint: &next.Endpoints[i]})
	}
	r.board.Announce(engine.Event{Endpoint: engine.None, Pipe: moving, NewPipe: &next.Pipes[moving]})
	begin := r.engine.Granted()
	nextPlan, err = r.tables.Repoint(ctx, next, moving)
	require.NoError(t, err)
	end := r.engine.Granted()
	require.NoError(t, r.tables.Verify(ctx, nextPlan))

	r.cfg = next
	at = r.engine.Granted() + 200
	const again = 40 // more than the new pipe has slots
	r.insert(r.packets(moving, p1, again, at, 500)...)
	r.until(max(start+steadyPackets*steadyClocks, at+again*500) + 5000)

	r.gets(moving, p0, 1)
	r.gets(moving, p1, again)
	r.gets(steady, p0, steadyPackets)
	during := 0
	for _, clock := range r.sends {
		if clock > begin && clock < end {
			during++
		}
	}
	require.Greater(t, during, 50, "results of the steady group in the %d clocks of the re-pointing", end-begin)
	t.Logf("%d results of the steady group in the %d clocks of the re-pointing", during, end-begin)
	require.NoError(t, r.board.Finish(ctx, r.tables))
	busy, err := r.tables.Counter(ctx, spec.CounterTableRefused)
	require.NoError(t, err)
	require.Equal(t, uint64(1), busy, "the one write that the engine itself refused")
	r.window()
}
