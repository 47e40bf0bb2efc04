package run

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/epic-inc/epic/cosim/server"
	"github.com/epic-inc/epic/golden/group"
)

// BenchOptions of Bench.
type BenchOptions struct {
	DataW    int
	Sim      string    // path of inc_sim; empty: build/sim/w<DataW>/inc_sim
	Seed     uint64    // of the traffic
	Clocks   uint64    // about how many to simulate; 0: a million
	Progress io.Writer // nil: silent

	// Cocotb is the program that plays the beginning of the traffic in a cocotb bench, without checks
	// (scripts/cocotb-bench); empty: none.
	Cocotb string

	// MinRatio, MinBusy and MinCocotb are what the ratio, the part of the clocks that are busy, and checked by
	// cocotb must reach: less is an ErrDifference, with the report all the same.
	MinRatio, MinBusy, MinCocotb float64
}

// benchRuns is how often each kind of run is done: what else a machine does can only slow one down.
const benchRuns = 3

// Bench measures how fast the engine is simulated with the link and every check, and bare.
//
// The traffic is an AllReduce of 4 ranks with 1 KiB payloads. What the server sends to the simulator is
// recorded, and the bare run is the same simulator playing that record by itself: the same RTL, the same
// frames at the same clocks, but nobody at the other end, no probe and no frame looked at.
func Bench(ctx context.Context, o BenchOptions) (*BenchReport, error) {
	if o.Clocks == 0 {
		o.Clocks = 1_000_000
	}
	shape := group.DefaultOptions()
	shape.Ranks, shape.MTU = 4, 1024
	// Long links: the server's quantum is half their delay. The window covers them, and the pool the window.
	shape.Slots, shape.DelayNs, shape.MessagePackets = 256, 4000, 8
	// Each link has more than its share of the engine's rate, so that the engine is what is full.
	shape.Gbps = float64(o.DataW) * shape.ClockMHz / 1000 / 4 * 1.2
	g, err := group.Generate(shape)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	// Each slot takes four frames of 1082 bytes, and about two clocks more.
	beats := uint64(1082*8/o.DataW + 3)
	ro := Options{Group: g, DataW: o.DataW, Sim: o.Sim, Seed: o.Seed, Progress: o.Progress,
		Bytes: int(max(256, o.Clocks/(4*beats))) * 1024}
	if err := errors.Join(ro.fill(), checkRun(&ro)); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "epic-bench-")
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	defer os.RemoveAll(dir)
	record := filepath.Join(dir, "run.link")
	out := &BenchReport{DataW: o.DataW, Runs: benchRuns, Seed: o.Seed}
	for i := range benchRuns {
		rep := newReport(&ro)
		if err := benchChecked(ctx, &ro, rep, record); err != nil {
			return nil, err
		}
		p := rep.traffic
		say(o.Progress, "checked %d/%d: %d clocks in %.2f s", i+1, benchRuns, p.clocks, p.wallS)
		out.CheckedClocksPerS = max(out.CheckedClocksPerS, float64(p.clocks)/p.wallS)
		out.Clocks = p.clocks
		part := func(n uint64) float64 { return float64(n) / float64(p.clocks) }
		out.Busy, out.RxBusy, out.TxBusy = part(p.busy), part(p.rx), part(p.tx)
		clocks, wall, err := benchBare(ctx, ro.Sim, record)
		if err != nil {
			return nil, err
		}
		say(o.Progress, "bare    %d/%d: %d clocks in %.2f s", i+1, benchRuns, clocks, wall)
		out.BareClocksPerS = max(out.BareClocksPerS, float64(clocks)/wall)
	}
	out.Ratio = out.CheckedClocksPerS / out.BareClocksPerS
	if o.Cocotb != "" {
		clocks, wall, err := benchCocotb(ctx, o.Cocotb, o.DataW, record, dir)
		if err != nil {
			return nil, err
		}
		say(o.Progress, "cocotb: %d clocks in %.2f s", clocks, wall)
		out.CocotbClocksPerS = float64(clocks) / wall
		out.CocotbRatio = out.CheckedClocksPerS / out.CocotbClocksPerS
		if out.CocotbRatio < o.MinCocotb {
			return out, fmt.Errorf("bench: %w: got %.1f times the clocks per second of cocotb, want at least %.1f",
				ErrDifference, out.CocotbRatio, o.MinCocotb)
		}
	}
	if out.Ratio < o.MinRatio || out.Busy < o.MinBusy {
		return out, fmt.Errorf("bench: %w: got ratio %.2f and %.1f %% of the clocks busy, want at least %.2f and %.1f %%",
			ErrDifference, out.Ratio, 100*out.Busy, o.MinRatio, 100*o.MinBusy)
	}
	return out, nil
}

func benchChecked(ctx context.Context, o *Options, rep *Report, record string) error {
	file, err := os.Create(record)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	w := bufio.NewWriterSize(file, 1<<20)
	err = runRecorded(ctx, o, rep, w)
	return errors.Join(err, w.Flush(), file.Close())
}

func benchBare(ctx context.Context, sim, record string) (clocks uint64, wall float64, err error) {
	out, err := exec.CommandContext(ctx, sim, "--replay", record).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return 0, 0, fmt.Errorf("bench: %w: bare run: %w\n%s", server.ErrLost, err, exit.Stderr)
		}
		return 0, 0, fmt.Errorf("bench: bare run: %w", err)
	}
	var r struct {
		Clocks uint64  `json:"clocks"`
		WallS  float64 `json:"wall_s"`
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return 0, 0, fmt.Errorf("bench: bare run printed %q: %w", out, err)
	}
	if r.WallS <= 0 {
		return 0, 0, errors.New("bench: bare run took no time: " + strconv.Quote(string(out)))
	}
	return r.Clocks, r.WallS, nil
}
