package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/cosim/run"
	"github.com/epic-inc/epic/cosim/server"
	"github.com/epic-inc/epic/cosim/server/servertest"
	"github.com/epic-inc/epic/golden/capture"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/fabric"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/spec"
)

const (
	root = "../.."
	data = root + "/testdata"
)

// Counters of frames that come again.
var (
	duplicate = spec.VerdictDuplicate.Counter().String()
	behind    = spec.VerdictBehind.Counter().String()
)

// nobody is a file in the place of the simulator, for runs that do not start it.
func nobody(t *testing.T) Options {
	t.Helper()
	dir := t.TempDir()
	sim := filepath.Join(dir, "inc_sim")
	require.NoError(t, os.WriteFile(sim, []byte("#!/bin/sh\necho no simulator >&2\nexit 7\n"), 0o755))
	return Options{Data: data, DataW: 512, Sim: sim, OutDir: filepath.Join(dir, "demo"), Seed: 1, Loss: 0.02}
}

// canned are runs whose ranks get the sum, and which meet what each part must.
func canned(t *testing.T) runner {
	t.Helper()
	in, err := load(data)
	require.NoError(t, err)
	capture := func(o run.Options) {
		require.NoError(t, os.WriteFile(o.Capture, []byte(o.Capture[len(o.Capture)-12:]), 0o644))
	}
	sums := func() [][]byte { return [][]byte{in.sum, in.sum, in.sum, slices.Clone(in.sum)} }
	lat := func(l ...uint32) ([]uint32, run.LatencyStats) {
		return l, run.LatencyStats{Min: l[0], Median: l[len(l)/2], Max: l[len(l)-1]}
	}
	return runner{
		replay: func(_ context.Context, o run.Options, files []string) (*run.Report, error) {
			require.Len(t, files, 4)
			require.Equal(t, in.sum, o.Expect)
			capture(o)
			r := &run.Report{FramesIn: 10, FramesOut: 8, Slots: 2, ComparedBytes: 800, SumEqual: true, Clocks: 1000, WallS: 0.5,
				Seed: o.Seed, Results: sums(), Gbps: 2, SimTimeNs: 3200, TrafficFrom: 5000, Acks: 2,
				Counters: map[string]uint64{spec.CounterRxData.String(): 8, spec.CounterRxAck.String(): 2, spec.CounterTxData.String(): 6}}
			r.Latencies, r.Latency = lat(30, 30)
			if filepath.Base(files[0]) == "retransmit_rank0.pcap" {
				r.Naks, r.FramesOut, r.FramesIn = 1, 9, 13
				r.Counters[duplicate], r.Counters[behind], r.Counters[spec.CounterTxNak.String()] = 1, 2, 1
				r.Latencies, r.Latency = lat(40, 90)
			}
			if o.Trace != "" {
				require.EqualValues(t, 5000+250, o.TraceFrom, "a link's delay after the set-up of the part before")
				require.EqualValues(t, 5000+250+2000, o.TraceTo)
			}
			return r, nil
		},
		hosts: func(_ context.Context, o run.Options) (*run.Report, error) {
			require.Equal(t, in.tensors, o.Inputs)
			require.Equal(t, in.sum, o.Expect)
			require.InDelta(t, 0.02, o.Group.Link.Loss, 0)
			require.Equal(t, "linux-rxe", o.Group.Host.Preset)
			require.Equal(t, 16384, o.Group.Host.MessagePackets*o.Group.MTU)
			capture(o)
			r := &run.Report{FramesIn: 20, FramesOut: 30, Slots: 2, ComparedBytes: 3000, SumEqual: true, Clocks: 500, WallS: 0.25,
				Seed: o.Seed, Results: sums(), Resends: 5, Counters: map[string]uint64{spec.CounterRxData.String(): 20, spec.CounterTxData.String(): 25}}
			r.Latencies, r.Latency = lat(31, 700)
			return r, nil
		},
	}
}

func TestReportAddsUp(t *testing.T) {
	o := nobody(t)
	rep, err := canned(t).demo(t.Context(), o)
	require.NoError(t, err)

	b, err := os.ReadFile(filepath.Join(o.OutDir, "report.json"))
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal(b, &got))
	for field, want := range map[string]any{"frames_in": 53.0, "frames_out": 55.0, "acks": 6.0, "naks": 1.0, "resends": 5.0, "slots": 8.0,
		"compared_bytes": 5400.0, "mismatches": 0.0, "sum_equal": true, "clocks": 3500.0, "seed": 1.0, "clocks_per_s": 2000.0,
		"latency_clocks":       map[string]any{"min": 30.0, "median": 31.0, "max": 700.0},
		"latency_empty_clocks": map[string]any{"min": 30.0, "median": 30.0, "max": 30.0}} {
		assert.Equal(t, want, got[field], field)
	}
	assert.Greater(t, got["wall_s"], 0.0)
	parts := got["parts"].([]any)
	require.Len(t, parts, 4)
	for i, name := range []string{"quiet", "replay", "retransmit", "loss"} {
		p := parts[i].(map[string]any)
		assert.Equal(t, name, p["name"])
		for _, field := range []string{"frames_in", "frames_out", "acks", "naks", "resends", "slots", "compared_bytes", "mismatches",
			"sum_equal", "latency_clocks", "clocks", "wall_s", "seed"} {
			assert.Contains(t, p, field, name)
		}
	}
	assert.Equal(t, In{Data: 8, Repeat: 3, Ack: 2}, rep.Parts[2].In)

	joined, err := os.ReadFile(filepath.Join(o.OutDir, "out.pcapng"))
	require.NoError(t, err)
	assert.Equal(t, "quiet.pcapng", string(joined[:12]))
	assert.Len(t, joined, 4*12, "all parts")
	left, err := filepath.Glob(filepath.Join(o.OutDir, "parts-*"))
	require.NoError(t, err)
	assert.Empty(t, left)

	var text bytes.Buffer
	require.NoError(t, rep.WriteText(&text))
	for _, want := range []string{
		`quiet +replay +retransmit +loss +all`, `frames in +10 +10 +13 +20 +53`, ` data repeated +0 +0 +3 +0 +3`, ` resends +0 +0 +0 +5 +5`,
		`mismatches +0 +0 +0 +0 +0`, `sum equal +yes +yes +yes +yes +yes`, `latency, clocks: min +30 +30 +40 +31 +30`,
		`simulated Gb/s out +2.0 +2.0 +2.0 +- +-`, `clocks per second .*2000`, `headers of the packet that completes a slot end`, `seed 1`,
	} {
		assert.Regexp(t, want, text.String())
	}
}

// Whatever a part must show and does not is a difference: no demo passes by showing nothing.
func TestPartsMustShowSomething(t *testing.T) {
	hosts := func(change func(*run.Report)) func(*runner) {
		return func(d *runner) {
			was := d.hosts
			d.hosts = func(ctx context.Context, o run.Options) (*run.Report, error) {
				r, err := was(ctx, o)
				change(r)
				return r, err
			}
		}
	}
	replay := func(change func(*run.Report)) func(*runner) {
		return func(d *runner) {
			was := d.replay
			d.replay = func(ctx context.Context, o run.Options, f []string) (*run.Report, error) {
				r, err := was(ctx, o, f)
				change(r)
				return r, err
			}
		}
	}
	for name, tc := range map[string]struct {
		change func(*runner)
		want   string
		parts  int
		wrong  int
	}{
		"nothing sent again":    {hosts(func(r *run.Report) { r.Resends = 0 }), "part loss: a difference was found: the engine sent no result again", 4, 0},
		"no duplicate":          {replay(func(r *run.Report) { delete(r.Counters, duplicate); delete(r.Counters, behind) }), "part retransmit: a difference was found: the engine sent 1 NAKs and met 0 packets again", 3, 0},
		"a repair without loss": {replay(func(r *run.Report) { r.Resends = 1 }), "part quiet: a difference was found: the engine sent 1 results again", 1, 0},
		"one wrong byte":        {hosts(func(r *run.Report) { r.Results[3][105471] ^= 1 }), "part loss: a difference was found: result of rank 3: 105472 bytes that first differ from the 105472 of sum.i32 at byte 105471", 4, 1},
		"one byte too few":      {hosts(func(r *run.Report) { r.Results[1] = r.Results[1][:105471] }), "result of rank 1: 105471 bytes that first differ from the 105472 of sum.i32 at byte 105471", 4, 1},
		"a result missing":      {hosts(func(r *run.Report) { r.Results = r.Results[:3] }), "got the results of 3 ranks, want 4", 4, 1},
		"the engine is not right": {func(d *runner) {
			was := d.hosts
			d.hosts = func(ctx context.Context, o run.Options) (*run.Report, error) {
				r, _ := was(ctx, o)
				r.Mismatches, r.SumEqual = 1, false
				return r, fmt.Errorf("%w: record 5", run.ErrDifference)
			}
		}, "part loss: a difference was found: record 5", 4, 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := nobody(t)
			d := canned(t)
			tc.change(&d)
			rep, err := d.demo(t.Context(), o)
			require.ErrorIs(t, err, run.ErrDifference)
			require.ErrorContains(t, err, tc.want)
			require.NotNil(t, rep)
			assert.Len(t, rep.Parts, tc.parts)
			assert.Equal(t, tc.wrong, rep.Mismatches)
			assert.Equal(t, tc.wrong == 0, rep.SumEqual, "what a part does not show is no wrong sum")
			b, rerr := os.ReadFile(filepath.Join(o.OutDir, "report.json"))
			require.NoError(t, rerr)
			assert.Contains(t, string(b), fmt.Sprintf(`"mismatches": %d`, tc.wrong))
			assert.Contains(t, string(b), `"difference": "demo: part`)
			var text bytes.Buffer
			require.NoError(t, rep.WriteText(&text))
			assert.Contains(t, text.String(), "difference: "+err.Error())
		})
	}
}

func TestBadInput(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no simulator": {func(o *Options) { o.Sim = filepath.Join(o.OutDir, "none"); o.DataW = 256 }, "it is not there; make sim W=256 builds it"},
		"no data":      {func(o *Options) { o.Data = o.OutDir }, "want the folder testdata of the repository"},
		"no loss":      {func(o *Options) { o.Loss = 0 }, "loss: got 0, want more than 0"},
		"all lost":     {func(o *Options) { o.Loss = 1 }, "loss: got 1, want more than 0"},
	} {
		t.Run(name, func(t *testing.T) {
			o := nobody(t)
			tc.change(&o)
			rep, err := Run(t.Context(), o)
			require.ErrorContains(t, err, tc.want)
			require.NotErrorIs(t, err, run.ErrDifference)
			require.NotErrorIs(t, err, server.ErrLost)
			require.Nil(t, rep)
		})
	}
}

// A simulator that ends is lost, and what an earlier demo wrote does not stay to be taken for this one's.
func TestSimulatorEnds(t *testing.T) {
	o := nobody(t)
	require.NoError(t, os.MkdirAll(o.OutDir, 0o755))
	old := filepath.Join(o.OutDir, "report.json")
	require.NoError(t, os.WriteFile(old, []byte("{}"), 0o644))
	start := time.Now()
	_, err := Run(t.Context(), o)
	require.ErrorIs(t, err, server.ErrLost)
	require.Less(t, time.Since(start), 5*time.Second)
	require.NoFileExists(t, old)
}

// The groups of the parts, with virtual hosts and golden in the place of the RTL: the sum comes out, and
// with loss only because golden's engine sends again. Not that of "quiet": its links are too slow for the
// timers of hosts.
func TestGoldenAlone(t *testing.T) {
	in, err := load(data)
	require.NoError(t, err)
	for _, p := range in.parts(0.02) {
		if p.name == "quiet" {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			results, resends := golden(t, &p.group, in.tensors)
			for r := range results {
				require.Equal(t, in.sum, results[r], "rank %d", r)
			}
			if p.name == "loss" {
				require.Positive(t, resends)
			} else {
				require.Zero(t, resends)
			}
		})
	}
}

// golden reduces tensors in golden's engine, and returns what each rank got and how many results it sent again.
func golden(t *testing.T, g *group.Group, tensors [][]byte) ([][]byte, int) {
	t.Helper()
	sw := g.Switches[0]
	cfg, err := g.EngineConfig(sw.Name)
	require.NoError(t, err)
	e, err := engine.New(cfg)
	require.NoError(t, err)
	e.Program()
	scale := fabric.Scale{Clocks: uint64(g.Clock.PerTick), Per: spec.TickNs * time.Nanosecond}
	node, err := fabric.NewSwitch(e, scale)
	require.NoError(t, err)
	resends := 0
	node.Retired = func(_ uint64, r *spec.Record) {
		if r.Cause == spec.CauseResend {
			resends++
		}
	}
	net := fabric.New(1)
	id := net.Add(sw.Name, node)
	hosts := make([]*fabric.Host, len(g.Ranks))
	for r := range hosts {
		qp, err := g.HostConfig(r, 0)
		require.NoError(t, err)
		rank, err := host.NewRank(host.RankConfig{QPs: []host.Config{qp}, Ops: []host.Op{{Send: tensors[r], Recv: len(tensors[r])}},
			MessagePackets: g.Host.MessagePackets, WindowPackets: g.Host.WindowPackets})
		require.NoError(t, err)
		hosts[r], err = fabric.NewHost(scale, 0, rank)
		require.NoError(t, err)
		l := g.LinkBetween(sw.Name, group.RankName(r))
		wire := fabric.Link{Delay: uint64(l.DelayNs * g.Clock.MHz / 1000), Loss: l.Loss,
			Rate: fabric.Rate{Bytes: uint64(l.Gbps * 1000), Clocks: uint64(8 * g.Clock.MHz)}}
		require.NoError(t, net.Connect(id, sw.Endpoints[r].Port, net.Add(group.RankName(r), hosts[r]), 0, wire, wire))
	}
	done := func() bool {
		for _, h := range hosts {
			if !h.Done() {
				return false
			}
		}
		return true
	}
	for until := uint64(10_000); !done(); until += 10_000 {
		require.Less(t, until, uint64(20_000_000), "nothing moves")
		net.Run(until)
	}
	results := make([][]byte, len(hosts))
	for r, h := range hosts {
		require.NoError(t, h.Ranks[0].Err())
		results[r] = h.Ranks[0].Result(0)
	}
	return results, resends
}

func TestDemo(t *testing.T) {
	o := nobody(t)
	o.Sim = servertest.Simulator(t, 512)
	rep, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.True(t, rep.SumEqual)
	require.Zero(t, rep.Mismatches)
	require.EqualValues(t, 4*103, rep.Slots)
	require.Positive(t, rep.Resends)
	for _, p := range rep.Parts {
		assert.EqualValues(t, 412, p.In.Data, "%s: each of the 103 packets of four ranks is taken once", p.Name)
		assert.EqualValues(t, 412, p.Out.Result, p.Name)
		assert.Zero(t, p.Out.Other, p.Name)
	}
	e := rep.LatencyEmpty
	assert.Equal(t, e.Min, e.Median, "no queue: results cut through")
	assert.Less(t, e.Max-e.Min, uint32(2*18), "but where something else just leaves: then a frame of 18 beats is in first, and read once more")

	file, err := capture.Open(filepath.Join(o.OutDir, "out.pcapng"))
	require.NoError(t, err)
	defer file.Close()
	frames := uint64(0)
	for ; ; frames++ {
		if _, err := file.Next(); err != nil {
			break
		}
	}
	assert.Equal(t, rep.FramesIn+rep.FramesOut, frames)
	wave, err := os.ReadFile(filepath.Join(o.OutDir, "wave.fst"))
	require.NoError(t, err)
	assert.Greater(t, len(wave), 100_000, "an FST with every signal of %d clocks", TraceClocks)
	assert.Zero(t, wave[0], "FST header block")
}

func TestPacing(t *testing.T) {
	o := nobody(t)
	o.Sim, o.Pacing = servertest.Simulator(t, 512), 2
	rep, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.True(t, rep.SumEqual)
	require.Equal(t, "burst", rep.Pacing)
}

// within is how soon a demo must end whose simulator is killed or which is interrupted.
const within = 5 * time.Second

func TestKilledSimulator(t *testing.T) {
	o := nobody(t)
	sim := servertest.Simulator(t, 512)
	script := fmt.Sprintf("#!/bin/sh\n(sleep 0.3; kill -9 $$) &\nexec %s \"$@\"\n", sim)
	require.NoError(t, os.WriteFile(o.Sim, []byte(script), 0o755))
	start := time.Now()
	_, err := Run(t.Context(), o)
	require.ErrorIs(t, err, server.ErrLost)
	require.ErrorContains(t, err, "killed")
	require.Less(t, time.Since(start), within)
	require.NoFileExists(t, filepath.Join(o.OutDir, "report.json"))
}

func TestInterrupted(t *testing.T) {
	o := nobody(t)
	o.Sim = servertest.Simulator(t, 512)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	start := time.Now()
	_, err := Run(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, time.Since(start), within)
	left, err := filepath.Glob(filepath.Join(o.OutDir, "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
