// Package run does whole runs of an RTL engine in a group: `epic cosim run` with virtual hosts and golden
// switches around it, `epic cosim replay` with frames from captures, and `epic bench cosim`.
//
// Everything random comes from the seed, and time is simulated, so a run is a function of its options. A
// run that finds a difference is therefore done once more with a trace around it.
package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/epic-inc/epic/cosim/link"
	"github.com/epic-inc/epic/cosim/scoreboard"
	"github.com/epic-inc/epic/cosim/server"
	"github.com/epic-inc/epic/driver/table"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/fabric"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/reduce"
	"github.com/epic-inc/epic/golden/tree"
)

// ErrDifference means that the engine is not what golden says, or that a result is wrong: exit status 1.
var ErrDifference = errors.New("a difference was found")

// Clocks traced around a difference. A failed assertion is up to a quantum after the clock that is known.
const (
	traceBefore = 2000
	traceAfter  = 2000
)

// maxRunBytes bounds the vectors of all ranks together; what they get back takes as much again.
const maxRunBytes = 1 << 30

// Options of a run.
type Options struct {
	Group *group.Group // never nil
	// Steps are the collectives of the group, back to back; nil: its own, of subgroups each once.
	Steps []tree.Step
	// Beside are groups that share the switches, and do theirs meanwhile.
	Beside []Beside
	// RTLAt names the switches whose engines are the RTL, with commas between them, or is AllSwitches;
	// empty: the root switch. The others are golden.
	RTLAt string
	DataW int    // 64 to 4096, a power of two
	Sim   string // path of inc_sim; empty: build/sim/w<DataW>/inc_sim
	Bytes int    // of each rank's vector; whole elements
	Seed  uint64 // decides everything random

	// Resets is how often, at times that the seed decides, every RTL engine is reset with traffic under way and
	// programmed again, and every golden one begins anew (loop.restart).
	Resets int

	// Skew is, in clocks, how much later than the first a rank may begin; the seed decides when each does.
	Skew uint64

	Barriers int // of the collective barrier, one after the other, which has no vectors; 0: 16

	Pacing                                          link.Pacing
	IdlePPM, BackpressurePPM, BypassBackpressurePPM uint32

	OutDir   string    // traces, pcapng of a difference; empty: build/cosim
	Progress io.Writer // nil: silent

	Inputs  [][]byte // vectors of the ranks, all of one length, for every collective; nil: random ones of Bytes
	Expect  []byte   // the result, if it is known from elsewhere; it too must be what the ranks get
	Capture string   // file for the frames at the engine's ports; empty: only of a difference
	Trace   string   // FST file; empty: only of a difference. With several engines each has its files, NAME-SWITCH.*
	// TraceFrom and TraceTo are the clocks traced; TraceTo 0: to the end.
	TraceFrom, TraceTo uint64

	// Prepare, if set, is called with the network before anything happens in it: to see its frames, or to break some.
	Prepare func(*fabric.Network)

	Once bool // do not run again with a trace after a difference

	golden     func(*engine.Config) // of a test: what golden is told otherwise than the engine
	writes     bool                 // FuzzOptions.Writes
	badSignals bool                 // FuzzOptions.BadSignals

	set   *group.Set
	rtlAt []int // in set.Switches
}

// AllSwitches is Options.RTLAt if every switch's engine is the RTL.
const AllSwitches = "all"

// Beside is a group that runs beside that of Options.
type Beside struct {
	Group *group.Group
	Steps []tree.Step // nil: its own
}

// fill sets what was left empty.
func (o *Options) fill() (err error) {
	if o.Group == nil {
		return errors.New("run: no group")
	}
	groups := []*group.Group{o.Group}
	for _, b := range o.Beside {
		groups = append(groups, b.Group)
	}
	if o.set, err = group.NewSet(groups...); err != nil {
		return err
	}
	if err := o.placeRTL(); err != nil {
		return err
	}
	if o.TraceTo != 0 && o.TraceFrom >= o.TraceTo {
		return fmt.Errorf("trace: got clocks from %d to before %d, want at least one", o.TraceFrom, o.TraceTo)
	}
	if o.Trace == "" && (o.TraceFrom != 0 || o.TraceTo != 0) {
		return errors.New("trace: got clocks but no file to write, want both")
	}
	if o.Sim == "" {
		o.Sim = server.BinaryPath(server.BinaryFolder, o.DataW)
	}
	if o.OutDir == "" {
		o.OutDir = filepath.Join("build", "cosim")
	}
	return nil
}

// placeRTL resolves RTLAt.
func (o *Options) placeRTL() error {
	o.rtlAt = nil
	names := strings.Split(o.RTLAt, ",")
	switch o.RTLAt {
	case AllSwitches:
		names = o.set.Switches
	case "":
		t, err := o.Group.Tree()
		if err != nil {
			return err
		}
		names = []string{o.Group.Switches[t.Root()].Name}
	}
	for _, name := range names {
		i := slices.Index(o.set.Switches, name)
		if i < 0 {
			_, err := o.set.EngineConfig(name)
			return fmt.Errorf("rtl-at: %w", err)
		}
		if slices.Contains(o.rtlAt, i) {
			return fmt.Errorf("rtl-at: got %s twice, want each switch once", name)
		}
		o.rtlAt = append(o.rtlAt, i)
	}
	slices.Sort(o.rtlAt) // the order in which the engines are served
	names = nil
	for _, i := range o.rtlAt {
		names = append(names, o.set.Switches[i])
	}
	o.RTLAt = strings.Join(names, ",")
	return o.knownModes()
}

// knownModes refuses, before a simulator is started, what no build has.
func (o *Options) knownModes() error {
	for _, i := range o.rtlAt {
		cfg, err := o.set.EngineConfig(o.set.Switches[i])
		if err != nil {
			return err
		}
		for _, p := range cfg.Pipes {
			if p.Mode == 1 {
				return &Unsupported{fmt.Sprintf("mode 1 of pipe %s at switch %s is the golden engine's alone, want mode 2 or 3", p.Name, cfg.Name)}
			}
		}
	}
	return nil
}

// file is the name of an engine's own file.
func (o *Options) file(path, name string) string {
	if path == "" || len(o.rtlAt) == 1 {
		return path
	}
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + "-" + name + ext
}

// files are the names of all engines' files.
func (o *Options) files(path string) []string {
	if path == "" {
		return nil
	}
	var list []string
	for _, i := range o.rtlAt {
		list = append(list, o.file(path, o.set.Switches[i]))
	}
	return list
}

// Unsupported means that the build of the engine lacks what a group asks for.
type Unsupported struct{ Reason string }

// Error is the reason.
func (u *Unsupported) Error() string { return "the engine's build lacks it: " + u.Reason }

// lacks says what a build lacks for a configuration; nil: nothing.
func lacks(cfg engine.Config, caps table.Capabilities) error {
	has := func(what string, got, limit int) error {
		if got > limit {
			return &Unsupported{fmt.Sprintf("switch %s has %d %s, the build %d", cfg.Name, got, what, limit)}
		}
		return nil
	}
	outs := 0
	for _, p := range cfg.Pipes {
		outs += len(p.Outs)
		switch {
		case p.Mode == 2 && !caps.Mode2, p.Mode == 3 && !caps.Mode3:
			return &Unsupported{fmt.Sprintf("mode %d", p.Mode)}
		case len(p.Ins) > 1 && !caps.Float && reduce.IsFloat(p.DType):
			return &Unsupported{fmt.Sprintf("%v (CAPS_DATA.float is 0)", p.DType)}
		}
		if err := has("bytes of MTU", p.MTU, caps.MTU); err != nil {
			return err
		}
		if err := has("blocks", p.Base+p.Blocks(), caps.Blocks()); err != nil {
			return err
		}
	}
	return errors.Join(has("endpoints", len(cfg.Endpoints), caps.Endpoints), has("pipes", len(cfg.Pipes), caps.Pipes),
		has("outs", outs, caps.Outs), has("ports", cfg.Ports, caps.Ports))
}

// rtl is an RTL engine with all that watches it.
type rtl struct {
	name    string
	engine  *server.Engine
	board   *scoreboard.Scoreboard
	past    []*scoreboard.Scoreboard // of before each reset
	tables  *table.Engine
	capture *recording
	clock   group.Clock

	firstNs, lastNs float64 // first frame driven, last beat that left
	start           time.Time
	last            *server.Window
	base            uint64        // clock at the network's time 0
	busyAt          uint64        // last time of the network at which anything happened in the engine
	before          server.Window // at base
}

// startRTL starts the simulator, programs the engine of a switch and lets its pipes bind.
func startRTL(ctx context.Context, o *Options, at int, record io.Writer) (*rtl, error) {
	name := o.set.Switches[at]
	cfg, err := o.engineConfig(name)
	if err != nil {
		return nil, err
	}
	to := o.TraceTo
	if to == 0 {
		to = 1 << 62
	}
	r := &rtl{name: name, clock: o.Group.Clock, start: time.Now(), last: &server.Window{}}
	r.engine, err = server.Start(ctx, server.Options{
		Binary: o.Sim, Seed: o.Seed + uint64(at)<<32, Pacing: o.Pacing, IdlePPM: o.IdlePPM, BackpressurePPM: o.BackpressurePPM,
		BypassBackpressurePPM: o.BypassBackpressurePPM, TraceFile: o.file(o.Trace, name), TraceFrom: o.TraceFrom, TraceTo: to, Record: record,
	})
	if err != nil {
		return nil, err
	}
	if err := r.program(ctx, o, cfg); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *rtl) program(ctx context.Context, o *Options, cfg engine.Config) (err error) {
	p := r.engine.Params()
	if p.DataW != o.DataW {
		return fmt.Errorf("simulator %s: built for %d bits, want %d", o.Sim, p.DataW, o.DataW)
	}
	if r.tables, err = table.Open(ctx, r.engine); err != nil {
		return err
	}
	if err := lacks(cfg, r.tables.Capabilities()); err != nil {
		return err
	}
	told := cfg
	told.NoFloat = !r.tables.Capabilities().Float
	if o.golden != nil {
		told.Endpoints = slices.Clone(cfg.Endpoints)
		o.golden(&told)
	}
	if r.board != nil {
		r.past = append(r.past, r.board)
	}
	r.board, err = scoreboard.New(scoreboard.Config{Engine: told, Entries: p.Endpoints,
		TickClocks: uint64(o.Group.Clock.PerTick), Seed: o.Seed})
	if err != nil {
		return err
	}
	if o.Capture != "" && r.capture == nil {
		if err := os.MkdirAll(filepath.Dir(o.Capture), 0o755); err != nil {
			return fmt.Errorf("write capture: %w", err)
		}
		if r.capture, err = createRecording(o.file(o.Capture, r.name), o.Group.Clock.MHz); err != nil {
			return err
		}
	}
	if err := r.tables.SetTickClocks(ctx, uint32(o.Group.Clock.PerTick)); err != nil {
		return err
	}
	plan, err := r.tables.Program(ctx, cfg)
	if err != nil {
		return err
	}
	if err := r.tables.Verify(ctx, plan); errors.Is(err, table.ErrDiffers) {
		return fmt.Errorf("%w: %w", ErrDifference, err)
	} else if err != nil {
		return err
	}
	if _, err = r.window(ctx); err != nil {
		return err
	}
	r.base, r.before = r.engine.Granted(), *r.last
	return nil
}

// reset holds the engine in reset for some clocks and programs it again, while the network stands at a time.
func (r *rtl) reset(ctx context.Context, o *Options, cfg engine.Config, clocks uint32, now uint64) error {
	if err := r.engine.Reset(ctx, clocks); err != nil {
		return err
	}
	if err := r.program(ctx, o, cfg); err != nil {
		return err
	}
	r.base -= now
	r.busyAt = now
	return nil
}

// drive hands a frame to the engine, not to be offered before clock `at`.
func (r *rtl) drive(at uint64, port int, frame []byte) error {
	return r.driveMAC(at, port, frame, false)
}

// driveMAC is drive of a frame in which the MAC may have seen an error.
func (r *rtl) driveMAC(at uint64, port int, frame []byte, macError bool) error {
	n, err := r.engine.Drive(at, port, frame, macError)
	if err != nil {
		return err
	}
	if n == 0 {
		r.firstNs = r.ns(at)
	}
	r.board.Drive(at, port, frame, macError)
	if r.capture != nil {
		return r.capture.write(&scoreboard.Frame{Clock: at, Number: n, Stream: scoreboard.In, Port: port, Bytes: frame})
	}
	return nil
}

// window waits for the oldest grant to be run, checks what the engine did and returns it.
func (r *rtl) window(ctx context.Context) (*server.Window, error) {
	w, err := r.engine.Window(ctx)
	for i := range w.Frames {
		f := &w.Frames[i]
		r.lastNs = r.ns(f.Last)
		if r.capture == nil {
			continue
		}
		if err := r.capture.write(&scoreboard.Frame{Clock: f.First, Stream: int(f.Stream), Port: int(f.Port), Bytes: f.Bytes}); err != nil {
			return nil, err
		}
	}
	if d := r.board.Window(w); d != nil { // it may explain why the simulation failed
		return nil, d
	}
	if err != nil {
		return nil, err
	}
	r.last = w
	return w, nil
}

// ns is the time of a clock.
func (r *rtl) ns(clock uint64) float64 { return float64(clock) * 1000 / r.clock.MHz }

// finish reads counters and state tables back once the engines are quiescent, and completes the report.
func finish(ctx context.Context, rep *Report, engines ...*rtl) (err error) {
	rep.RxBusy, rep.TxBusy = 0, 0
	clocks := uint64(0)
	first, last := math.Inf(1), 0.0
	for _, r := range engines {
		clocks = max(clocks, r.engine.Granted())
		rep.RxBusy += r.last.RxBusy
		rep.TxBusy += r.last.TxBusy
		if err == nil {
			if err = r.board.Finish(ctx, r.tables); err == nil {
				_, err = r.window(ctx)
			}
		}
		clocks = max(clocks, r.engine.Granted())
		rep.WallS = max(rep.WallS, time.Since(r.start).Seconds())
		first, last = min(first, r.firstNs), max(last, r.lastNs)
	}
	rep.take(engines...)
	rep.Clocks = clocks
	rep.SimTimeNs = last - first
	rep.rates()
	return err
}

func (r *rtl) close() error {
	var err error
	if r.capture != nil {
		err = r.capture.close()
		r.capture = nil
	}
	return errors.Join(err, r.engine.Close())
}

// attempt is one run of one network; a second call with other trace options is the same run.
type attempt func(ctx context.Context, o *Options, rep *Report) error

// explain runs an attempt. If it finds a difference, the attempt is done once more, so that there is a
// trace, a capture and a text to look at.
func explain(ctx context.Context, o Options, try attempt) (*Report, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	rep := newReport(&o)
	err := try(ctx, &o, rep)
	if err == nil {
		rep.Artifacts = append(append(rep.Artifacts, o.files(o.Capture)...), o.files(o.Trace)...)
		return rep, nil
	}
	text, clock, ok := differenceIn(err, rep)
	if !ok {
		return rep, err
	}
	if !errors.Is(err, ErrDifference) {
		err = fmt.Errorf("%w: %w", ErrDifference, err)
	}
	rep.Mismatches++
	rep.Difference = err.Error()
	if o.Once {
		return rep, err
	}
	say(o.Progress, "%v", err) // now: the second run may be interrupted
	files, werr := lookAgain(ctx, o, try, text, clock)
	rep.Artifacts = append(rep.Artifacts, files...)
	return rep, errors.Join(err, werr)
}

// differenceIn returns what there is to say of an error that tells of a difference, and near which clock
// of the engine it was seen.
func differenceIn(err error, rep *Report) (text string, clock uint64, ok bool) {
	var diff *scoreboard.Difference
	switch {
	case errors.As(err, &diff):
		return diff.Error() + "\n\n" + diff.Detail(), diff.Clock, true
	case errors.Is(err, ErrDifference), errors.Is(err, server.ErrFault):
		return err.Error() + "\n", rep.Clocks, true
	}
	return "", 0, false
}

// lookAgain does an attempt that ended with a difference once more: with a trace around the clock of the
// difference, and with every frame written.
func lookAgain(ctx context.Context, o Options, try attempt, text string, clock uint64) (files []string, err error) {
	if err := os.MkdirAll(o.OutDir, 0o755); err != nil {
		return nil, fmt.Errorf("look at the difference again: %w", err)
	}
	base := filepath.Join(o.OutDir, fmt.Sprintf("difference-w%d-seed%d", o.DataW, o.Seed))
	o.Trace, o.Capture = base+".fst", base+".pcapng"
	o.TraceFrom, o.TraceTo = clock-min(clock, traceBefore), clock+traceAfter
	written := append(append([]string{base + ".txt"}, o.files(o.Capture)...), o.files(o.Trace)...)
	for _, old := range written { // of another run with this seed
		if err := os.Remove(old); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("look at the difference again: %w", err)
		}
	}
	say(o.Progress, "running again with a trace of clocks %d..%d", o.TraceFrom, o.TraceTo)
	rep := newReport(&o)
	second := try(ctx, &o, rep)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	again, _, ok := differenceIn(second, rep)
	if !ok {
		again = fmt.Sprintf("%v\n", second)
	}
	if again != text {
		text += "\nThe second run, with a trace, did not end the same way:\n" + again
	}
	if err := os.WriteFile(base+".txt", []byte(text), 0o644); err != nil {
		return nil, fmt.Errorf("look at the difference again: %w", err)
	}
	for _, file := range written {
		if _, err := os.Stat(file); err == nil { // a second run that ended early may lack some
			files = append(files, file)
		}
	}
	return files, nil
}

func newReport(o *Options) *Report {
	return &Report{Seed: o.Seed, DataW: o.DataW, Ranks: len(o.Group.Ranks), Bytes: o.Bytes, Barriers: o.Barriers, RTLAt: o.RTLAt, Groups: len(o.set.Groups),
		ClockMHz: o.Group.Clock.MHz, FirstResult: -1}
}

func say(w io.Writer, format string, args ...any) {
	if w != nil {
		fmt.Fprintf(w, format+"\n", args...)
	}
}
