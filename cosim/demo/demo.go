// Package demo is `epic demo`: the gradients of a real training step of four ranks, in the frames in which
// the Linux kernel's own RoCE stack sent them, through the RTL engine as a one-switch AllReduce.
//
// It has four parts, each a run of package cosim/run, which holds every frame, record and state to the
// golden model. What the ranks get is compared here once more, byte for byte, with a sum that neither
// computed: testdata/allreduce4/tensors/sum.i32, made by numpy together with the gradients.
package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/epic-inc/epic/cosim/link"
	"github.com/epic-inc/epic/cosim/run"
	"github.com/epic-inc/epic/cosim/server"
	"github.com/epic-inc/epic/golden/group"
)

// TraceClocks is how many clocks of traffic wave.fst holds.
const TraceClocks = 2000

// The part with empty queues: on links of quietGbps a frame of 1082 bytes takes 1731 ns, and each rank's
// frame of a slot comes quietStaggerNs after that of the rank before, so that at 250 MHz and 64 bits or
// wider no frame in meets another.
const (
	quietGbps      = 1
	quietStaggerNs = 2000
)

// Options of a demo.
type Options struct {
	Data     string      // the folder testdata; empty: testdata
	DataW    int         // 64, 128, 256, 512
	Sim      string      // path of inc_sim; empty: build/sim/w<DataW>/inc_sim
	OutDir   string      // for report.json, out.pcapng, wave.fst; empty: build/demo
	Seed     uint64      // of losses, and of what is random in the simulator
	Pacing   link.Pacing // of the frames from captures
	Loss     float64     // of every link, in the part with virtual hosts; above 0, at most MaxLoss
	Progress io.Writer   // nil: silent
}

// MaxLoss is the highest loss at which a rank's seven retries still get everything through.
const MaxLoss = 0.2

func (o *Options) fill() error {
	if o.Data == "" {
		o.Data = "testdata"
	}
	if o.OutDir == "" {
		o.OutDir = filepath.Join("build", "demo")
	}
	if o.Sim == "" {
		o.Sim = server.BinaryPath(server.BinaryFolder, o.DataW)
	}
	if !(o.Loss > 0 && o.Loss <= MaxLoss) { // a NaN neither
		return fmt.Errorf("loss: got %v, want more than 0, so that the engine must send again, and at most %v", o.Loss, MaxLoss)
	}
	if _, err := os.Stat(o.Sim); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("simulator %s: it is not there; make sim W=%d builds it", o.Sim, o.DataW)
	} else if err != nil {
		return fmt.Errorf("simulator: %w", err)
	}
	return nil
}

// input is the data of the demo.
type input struct {
	group   *group.Group
	tensors [][]byte
	sum     []byte
	folder  string // of the captures
}

func load(data string) (*input, error) {
	in := &input{folder: filepath.Join(data, "captures", "allreduce4")}
	var err error
	if in.group, err = group.Load(filepath.Join(data, "allreduce4", "group.yaml")); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: want the folder testdata of the repository", err)
		}
		return nil, err
	}
	tensor := func(name string) ([]byte, error) {
		return os.ReadFile(filepath.Join(data, "allreduce4", "tensors", name+".i32"))
	}
	if in.sum, err = tensor("sum"); err != nil {
		return nil, fmt.Errorf("read the sum: %w", err)
	}
	for r := range in.group.Ranks {
		t, err := tensor(fmt.Sprintf("rank%d", r))
		if err != nil {
			return nil, fmt.Errorf("read a rank's gradients: %w", err)
		}
		if len(t) != len(in.sum) {
			return nil, fmt.Errorf("gradients of rank %d: got %d bytes, want as many as the sum has, %d", r, len(t), len(in.sum))
		}
		in.tensors = append(in.tensors, t)
	}
	return in, nil
}

// captures are the files of the ranks' conversations; first is that of rank 0.
func (in *input) captures(first string) []string {
	files := []string{filepath.Join(in.folder, first+".pcap")}
	for r := 1; r < len(in.group.Ranks); r++ {
		files = append(files, filepath.Join(in.folder, fmt.Sprintf("allreduce4_i32_rank%d.pcap", r)))
	}
	return files
}

// part is one run.
type part struct {
	name, what string
	group      group.Group
	files      []string                // of a replay; none: virtual hosts
	must       func(*run.Report) error // what has to have happened, or the part shows nothing
}

func (in *input) parts(loss float64) []part {
	quiet, lossy := *in.group, *in.group
	quiet.Link.Gbps = quietGbps
	quiet.Links = nil
	for r := range quiet.Ranks {
		delay := quiet.Link.DelayNs + float64(r)*quietStaggerNs
		quiet.Links = append(quiet.Links, group.LinkEnds{Ends: [2]string{quiet.Switches[0].Name, group.RankName(r)}, DelayNs: &delay})
	}
	lossy.Link.Loss, lossy.Links = loss, nil
	return []part{
		{"quiet", "captures of the kernel's frames, so slowly that no frame meets another", quiet, in.captures("allreduce4_i32_rank0"), mustNot},
		{"replay", "the same captures, as fast as links of 100 Gb/s bring them", *in.group, in.captures("allreduce4_i32_rank0"), mustNot},
		{"retransmit", "the same, but rank 0 lost frames and sent them again", *in.group, in.captures("retransmit_rank0"), mustRepeat},
		{"loss", fmt.Sprintf("virtual hosts, every link loses %g %% of its frames", 100*loss), lossy, nil, mustResend},
	}
}

// mustNot wants a run without any repair.
func mustNot(r *run.Report) error {
	if n := r.Resends + r.Naks; n > 0 {
		return fmt.Errorf("the engine sent %d results again and %d NAKs, want none: nothing was lost", r.Resends, r.Naks)
	}
	return nil
}

// mustRepeat wants to have seen rank 0's losses and what it sent twice.
func mustRepeat(r *run.Report) error {
	repeats := repeated(r)
	if r.Naks == 0 || repeats == 0 {
		return fmt.Errorf("the engine sent %d NAKs and met %d packets again, want some of both: rank 0 lost frames", r.Naks, repeats)
	}
	return nil
}

// mustResend wants the engine's own retransmission to have worked.
func mustResend(r *run.Report) error {
	if r.Resends == 0 {
		return errors.New("the engine sent no result again, want at least one: no result was lost; more loss or another seed will lose one")
	}
	return nil
}

// runner does the runs; tests put others in its place.
type runner struct {
	hosts  func(context.Context, run.Options) (*run.Report, error)
	replay func(context.Context, run.Options, []string) (*run.Report, error)
}

// Run does the demo. A difference is an error that wraps run.ErrDifference, and comes with the report of
// what was run.
func Run(ctx context.Context, o Options) (*Report, error) {
	return runner{run.Run, run.Replay}.demo(ctx, o)
}

func (d runner) demo(ctx context.Context, o Options) (_ *Report, err error) {
	start := time.Now()
	if err := o.fill(); err != nil {
		return nil, err
	}
	in, err := load(o.Data)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.OutDir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the results: %w", err)
	}
	file := func(name string) string { return filepath.Join(o.OutDir, name) }
	for _, old := range []string{"report.json", "out.pcapng", "wave.fst"} { // a demo that fails must not leave another's
		if err := os.Remove(file(old)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("remove an old result: %w", err)
		}
	}
	scratch, err := os.MkdirTemp(o.OutDir, "parts-")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	defer os.RemoveAll(scratch)

	rep := &Report{DataW: o.DataW, Pacing: o.Pacing.String(), Loss: o.Loss}
	var captures []string
	var latencies []uint32
	parts := in.parts(o.Loss)
	traceFrom := uint64(0)
	for i, p := range parts {
		say(o.Progress, "demo: %d/%d %s: %s", i+1, len(parts), p.name, p.what)
		ro := run.Options{Group: &p.group, DataW: o.DataW, Sim: o.Sim, Seed: o.Seed, OutDir: o.OutDir, Progress: o.Progress,
			Expect: in.sum, Capture: filepath.Join(scratch, p.name+".pcapng")}
		if p.name == "replay" {
			// Its engine is set up like that of the part before, so its traffic begins at the same clock.
			ro.Trace, ro.TraceFrom, ro.TraceTo = file("wave.fst"), traceFrom, traceFrom+TraceClocks
		}
		var got *run.Report
		var err error
		if p.files != nil {
			ro.Pacing = o.Pacing
			got, err = d.replay(ctx, ro, p.files)
		} else {
			ro.Inputs = in.tensors
			got, err = d.hosts(ctx, ro)
		}
		if err == nil {
			err = in.check(got)
		}
		right := err == nil
		if right {
			if unmet := p.must(got); unmet != nil {
				err = fmt.Errorf("%w: %w", run.ErrDifference, unmet)
			}
		}
		if got != nil {
			rep.add(p, got, right)
			latencies = append(latencies, got.Latencies...)
			captures = append(captures, ro.Capture)
			traceFrom = got.TrafficFrom + uint64(math.Ceil(in.group.Link.DelayNs*in.group.Clock.MHz/1000))
		}
		if err != nil {
			err = fmt.Errorf("demo: part %s: %w", p.name, err)
			if ctx.Err() == nil && errors.Is(err, run.ErrDifference) && got != nil {
				rep.Difference = err.Error()
				rep.finish(o.Seed, latencies, time.Since(start))
				return rep, errors.Join(err, rep.write(file("report.json")))
			}
			return nil, err
		}
	}
	if err := join(file("out.pcapng"), captures); err != nil {
		return nil, err
	}
	rep.finish(o.Seed, latencies, time.Since(start))
	rep.Files = []string{file("report.json"), file("out.pcapng"), file("wave.fst")}
	return rep, rep.write(file("report.json"))
}

// check compares what each rank got with the known sum, byte for byte.
func (in *input) check(r *run.Report) error {
	if len(r.Results) != len(in.group.Ranks) {
		return fmt.Errorf("%w: got the results of %d ranks, want %d", run.ErrDifference, len(r.Results), len(in.group.Ranks))
	}
	for rank, got := range r.Results {
		if bytes.Equal(got, in.sum) {
			continue
		}
		at := 0
		for at < min(len(got), len(in.sum)) && got[at] == in.sum[at] {
			at++
		}
		return fmt.Errorf("%w: result of rank %d: %d bytes that first differ from the %d of sum.i32 at byte %d",
			run.ErrDifference, rank, len(got), len(in.sum), at)
	}
	return nil
}

// join writes the captures one after the other: sections of one pcapng file.
func join(to string, captures []string) (err error) {
	out, err := os.Create(to)
	if err != nil {
		return fmt.Errorf("write capture: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	for _, name := range captures {
		b, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("write capture %s: %w", to, err)
		}
		if _, err := out.Write(b); err != nil {
			return fmt.Errorf("write capture: %w", err)
		}
	}
	return nil
}

func (r *Report) write(name string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.WriteFile(name, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func say(w io.Writer, format string, args ...any) {
	if w != nil {
		fmt.Fprintf(w, format+"\n", args...)
	}
}
