package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epic-inc/epic/cmd/epic/internal/exit"
	"github.com/epic-inc/epic/cosim/link"
	"github.com/epic-inc/epic/cosim/run"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/tree"
)

// cosimClocksPerTick is the time scale of generated groups that are simulated: timers run 100 times
// faster than their names at 250 MHz, so that a lost last packet does not cost millions of clocks.
const cosimClocksPerTick = 25

// dataWidths are the widths that scripts/build-sim builds.
var dataWidths = []int{64, 128, 256, 512, 1024, 2048, 4096}

func cosimCommand() *cobra.Command {
	return groupOf(&cobra.Command{
		Use:   "cosim",
		Short: "Run the Verilog engine and hold every byte and state of it to the golden model",
		Example: `  epic cosim run --ranks 4 --bytes 65536
  epic cosim replay --config group.yaml rank0.pcap rank1.pcap`,
	}, cosimRun(), cosimReplay(), cosimFuzz(), cosimFaults(), cosimMatrix(), cosimCover())
}

func benchCommand() *cobra.Command {
	return groupOf(&cobra.Command{
		Use:     "bench",
		Short:   "Measure",
		Example: "  epic bench cosim --data-w 512 --json",
	}, benchCosim(), benchRTL(), benchLoss(), benchLab(), benchStream())
}

func cosimRun() *cobra.Command {
	shape := group.DefaultOptions()
	shape.ClocksPerTick = cosimClocksPerTick
	var s simFlags
	var groups int
	c := &cobra.Command{
		Use:   "run",
		Short: "Run collectives of virtual hosts through engines",
		Long: `Run makes a group of the given shape, or takes that of --config, lets virtual hosts reduce random
vectors through it, and compares every record, frame and state of each Verilog engine with the golden
model, and the results with some computed apart from both. Collectives of a list follow one another
without a pause; groups that share the switches (--groups, or --config more than once) run at once.
Vectors of floating point are small integers, of which every order of adding gives the same bits, and
those of int8 do not saturate. Without --seed the seed is random; the report has it, and --seed repeats
the run to the byte.`,
		Example: `  epic cosim run --ranks 4 --bytes 65536 --data-w 512
  epic cosim run --ranks 9 --tree two-level --rtl-at leaf1 --psn0 0xfffff0 --loss 0.01 --seed 7 --json
  epic cosim run --tree three-level --rtl-at all --collective allreduce,reduce:2,allgather --groups 2 --slots 32
  epic cosim run --config group.yaml --backpressure 0.3 --capture out.pcapng --trace wave.fst`,
		Args: noArgs,
	}
	f := c.Flags()
	f.SortFlags = false
	shapeFlags(f, &shape)
	names := shapeNames(f)
	f.IntVar(&s.options.Bytes, "bytes", 64<<10, "bytes of each rank's vector for each collective, whole elements")
	f.IntVar(&groups, "groups", 1, "groups of this shape that share the switches and run at once")
	f.IntVar(&s.options.Barriers, "barriers", 0, "Barriers one after the other, 16 if absent; of --collective barrier alone")
	f.Uint64Var(&s.options.Skew, "skew", 0, "clocks by which ranks may begin later than the first")
	f.IntVar(&s.options.Resets, "resets", 0, "times that all engines are reset with traffic under way; what not all ranks have ended is begun anew")
	f.StringArrayVar(&s.inputs, "input", nil, "file with the vector of a rank; once for each rank, in their order, instead of --bytes")
	s.add(c, "group.yaml to run instead of a generated group; more of them share its switches")
	completeShape(c)
	delete(names, "collective") // of a file with subgroups it says which
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := s.groups(f, shape, names, groups); err != nil {
			return err
		}
		if f.Changed("bytes") && s.options.Group.Collective == "barrier" {
			return errors.New("--bytes: contradicts the collective barrier, which has no vectors (--barriers says how many)")
		}
		return s.run(cmd, run.Run)
	}
	return c
}

// group makes the group of the shape flags, or loads that of --config, with which they do not go.
func (s *simFlags) group(f *pflag.FlagSet, shape group.Options, names map[string]bool) error {
	return s.groups(f, shape, names, 1)
}

// groups is group for several that share the switches.
func (s *simFlags) groups(f *pflag.FlagSet, shape group.Options, names map[string]bool, n int) (err error) {
	if n < 1 || n > 64 {
		return fmt.Errorf("--groups: got %d, want 1..64", n)
	}
	if len(s.config) == 0 {
		set, err := group.GenerateSet(slices.Repeat([]group.Options{shape}, n)...)
		if err != nil {
			return err
		}
		steps, err := shape.Steps()
		if err != nil {
			return err
		}
		if s.options.Group = set.Groups[0]; len(s.options.Group.Subgroups) > 0 {
			s.options.Steps = steps
		}
		for _, g := range set.Groups[1:] {
			s.options.Beside = append(s.options.Beside, run.Beside{Group: g, Steps: s.options.Steps})
		}
		return nil
	}
	f.Visit(func(f *pflag.Flag) {
		if (names[f.Name] || f.Name == "groups") && err == nil {
			err = fmt.Errorf("--%s: contradicts --config, want one of them: the file says it", f.Name)
		}
	})
	if err != nil {
		return err
	}
	if s.options.Group, err = group.Load(s.config[0]); err != nil {
		return err
	}
	for _, file := range s.config[1:] {
		g, err := group.Load(file)
		if err != nil {
			return err
		}
		s.options.Beside = append(s.options.Beside, run.Beside{Group: g})
	}
	if f.Changed("collective") {
		if s.options.Steps, err = tree.ParseSteps(shape.Collective); err != nil {
			return fmt.Errorf("--collective: %w", err)
		}
	}
	return nil
}

func shapeNames(f *pflag.FlagSet) map[string]bool {
	names := map[string]bool{}
	f.VisitAll(func(f *pflag.Flag) { names[f.Name] = true })
	return names
}

func cosimFuzz() *cobra.Command {
	shape := group.DefaultOptions()
	shape.ClocksPerTick, shape.TimeoutTicks, shape.Slots, shape.MTU, shape.PSN0 = 8, 60, 8, 256, 0xfffffa
	var s simFlags
	var lives, frames int
	var writes, badSignals bool
	c := &cobra.Command{
		Use:   "fuzz",
		Short: "Play an adversary against the engine",
		Long: `Fuzz drives random frames into the Verilog engine: near every boundary of its windows, with every field
spoiled in turn, and foreign ones. No host answers; every record, frame, counter and table must be what
the golden model makes of the same frames. A life ends with an error of the engine's pipes, after
which its tables are written again. Without --seed the seed is random; --seed repeats the run.`,
		Example: `  epic cosim fuzz --data-w 64 --seed 1
  epic cosim fuzz --collective reduce --ranks 3 --bypass-backpressure 0.9`,
		Args: noArgs,
	}
	f := c.Flags()
	f.SortFlags = false
	shapeFlags(f, &shape)
	names := shapeNames(f)
	f.IntVar(&frames, "frames", 1000, "frames of a life")
	f.IntVar(&lives, "lives", 3, "lives of the engine")
	f.BoolVar(&writes, "writes", false, "give every endpoint a rewrite, and send RDMA WRITEs besides SENDs")
	f.BoolVar(&badSignals, "bad-signals", false, "spoil a third of the control signals of a pipe that is not pinned, each in one field")
	s.add(c, "group.yaml to take instead of a generated group")
	completeShape(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := s.group(f, shape, names); err != nil {
			return err
		}
		return s.run(cmd, func(ctx context.Context, o run.Options) (*run.Report, error) {
			return run.Fuzz(ctx, run.FuzzOptions{Options: o, Frames: frames, Lives: lives, Writes: writes, BadSignals: badSignals})
		})
	}
	return c
}

func cosimReplay() *cobra.Command {
	var s simFlags
	c := &cobra.Command{
		Use:   "replay --config FILE CAPTURE...",
		Short: "Feed the frames of captures to the engine",
		Long: `Replay drives the frames that the ranks of --config sent in the captures into the Verilog engine.
The times of the captures are ignored: --pacing spaces the frames. Golden hosts acknowledge the
results; what the engine says to the ranks otherwise goes to no one.`,
		Example: "  epic cosim replay --config testdata/allreduce4/group.yaml testdata/captures/allreduce4/allreduce4_i32_rank*.pcap",
		Args:    files(1, "CAPTURE"),
	}
	s.add(c, "group.yaml of the captures (needed)")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(s.config) != 1 {
			return fmt.Errorf("--config: got %d, want the group.yaml that the captures belong to", len(s.config))
		}
		var err error
		if s.options.Group, err = group.Load(s.config[0]); err != nil {
			return err
		}
		return s.run(cmd, func(ctx context.Context, o run.Options) (*run.Report, error) { return run.Replay(ctx, o, args) })
	}
	return c
}

func benchCosim() *cobra.Command {
	var o run.BenchOptions
	var asJSON bool
	c := &cobra.Command{
		Use:   "cosim",
		Short: "Compare the speed of the checked simulation with that of the bare engine",
		Long: `Bench runs the same engine and traffic (4 ranks, 1 KB payload) without and with the link and all
checks, and prints the clocks per second of both and their ratio.`,
		Example: "  epic bench cosim --data-w 512 --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Clocks == 0 {
				return errors.New("--clocks: got 0, want at least 1")
			}
			o.Seed = seed(cmd, o.Seed)
			o.Progress = cmd.ErrOrStderr()
			report, err := run.Bench(cmd.Context(), o)
			if report == nil {
				return err
			}
			return errors.Join(print(cmd, report, asJSON), err)
		},
	}
	dataW(c, &o.DataW, &o.Sim)
	c.Flags().Uint64Var(&o.Clocks, "clocks", 1_000_000, "about how many clocks to simulate")
	c.Flags().StringVar(&o.Cocotb, "cocotb", "", "program that plays the traffic in a cocotb bench: scripts/cocotb-bench; without: no such run")
	c.Flags().Float64Var(&o.MinCocotb, "min-cocotb", 0, "times the clocks per second of cocotb below which the bench fails, with status 1")
	c.Flags().Float64Var(&o.MinRatio, "min-ratio", 0, "ratio below which the bench fails, with status 1")
	c.Flags().Float64Var(&o.MinBusy, "min-busy", 0, "part of the clocks that must be busy, or the bench fails")
	seedFlag(c, &o.Seed)
	jsonFlag(c, &asJSON)
	return c
}

// simFlags are the flags that every run of the simulator has.
type simFlags struct {
	options run.Options
	config  []string
	inputs  []string
	expect  string
	report  string
	asJSON  bool
}

func (s *simFlags) add(c *cobra.Command, config string) {
	f, o := c.Flags(), &s.options
	f.StringArrayVar(&s.config, "config", nil, config)
	f.StringVar(&o.RTLAt, "rtl-at", "", "switches whose engines are the Verilog ones, with commas between them, or "+run.AllSwitches+"; the root if absent. The others are golden")
	dataW(c, &o.DataW, &o.Sim)
	f.Var(&pacing{&o.Pacing}, "pacing", "how frames are spaced on the way in: "+strings.Join(pacings(), ", "))
	f.Var(&probability{ppm: &o.IdlePPM}, "idle", "probability of an idle clock before each beat in")
	f.Var(&probability{ppm: &o.BackpressurePPM}, "backpressure", "probability of a clock in which the engine's output is not taken")
	f.Var(&probability{ppm: &o.BypassBackpressurePPM}, "bypass-backpressure", "the same of its bypass port")
	f.StringVar(&s.expect, "expect", "", "file with the sum that every rank must get, besides the one computed here")
	seedFlag(c, &o.Seed)
	f.StringVar(&o.OutDir, "out", "", "folder for what explains a difference, build/cosim if absent")
	f.StringVar(&o.Capture, "capture", "", "pcapng file to write, with the frames at the engine's ports")
	f.StringVar(&o.Trace, "trace", "", "FST file to write, with the engine's signals")
	f.Uint64Var(&o.TraceFrom, "trace-from", 0, "first clock of --trace")
	f.Uint64Var(&o.TraceTo, "trace-to", 0, "clock before which --trace ends; 0: the end of the run")
	f.BoolVar(&o.Once, "once", false, "after a difference, do not run again to trace it")
	f.StringVar(&s.report, "report", "", "file to write, with the report as JSON")
	jsonFlag(c, &s.asJSON)
	markYAML(c)
	complete(c, "pacing", pacings())
}

func (s *simFlags) run(cmd *cobra.Command, do func(context.Context, run.Options) (*run.Report, error)) error {
	for i, name := range append(s.inputs, s.expect) {
		if name == "" {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if i == len(s.inputs) {
			s.options.Expect = data
		} else {
			s.options.Inputs = append(s.options.Inputs, data)
		}
	}
	if s.report != "" { // now, and not after a long run
		if err := os.MkdirAll(filepath.Dir(s.report), 0o755); err != nil {
			return fmt.Errorf("--report: %w", err)
		}
	}
	s.options.Seed = seed(cmd, s.options.Seed)
	s.options.Progress = cmd.ErrOrStderr()
	report, err := do(cmd.Context(), s.options)
	switch exit.Of(err) {
	case exit.Lost: // there is no report to say the seed
		err = fmt.Errorf("seed %d: %w", s.options.Seed, err)
	case exit.Right, exit.Difference: // otherwise the report tells of half a run
		if report != nil {
			err = errors.Join(err, print(cmd, report, s.asJSON), s.writeReport(report))
		}
	}
	return err
}

// writeReport writes the file of --report.
func (s *simFlags) writeReport(report *run.Report) error {
	if s.report == "" {
		return nil
	}
	f, err := os.Create(s.report)
	if err != nil {
		return err
	}
	return errors.Join(printJSON(f, report), f.Close())
}

// print prints a report on standard output.
func print(cmd *cobra.Command, report interface{ WriteText(io.Writer) error }, asJSON bool) error {
	if asJSON {
		return printJSON(cmd.OutOrStdout(), report)
	}
	return report.WriteText(cmd.OutOrStdout())
}

func dataW(c *cobra.Command, w *int, sim *string) {
	*w = 512
	c.Flags().Var(&choice{w, dataWidths}, "data-w", "width of the engine's data path in bits: "+commas(dataWidths))
	c.Flags().StringVar(sim, "sim", "", "simulator, build/sim/w<DATA_W>/inc_sim if absent")
	complete(c, "data-w", strings.Split(commas(dataWidths), ", "))
}

func complete(c *cobra.Command, flag string, values []string) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // a flag of that name does not exist: a mistake in this file
	}
}

func seedFlag(c *cobra.Command, seed *uint64) {
	c.Flags().Uint64Var(seed, "seed", 0, "decides everything random; random itself if absent, and printed")
}

// seed is that of --seed, or a random one, short enough to be typed again.
func seed(cmd *cobra.Command, given uint64) uint64 {
	if cmd.Flags().Changed("seed") {
		return given
	}
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return uint64(binary.LittleEndian.Uint32(b[:]))
}

// choice is a flag that takes one of a few numbers.
type choice struct {
	value *int
	of    []int
}

func (c *choice) String() string {
	if c.value == nil {
		return ""
	}
	return strconv.Itoa(*c.value)
}
func (c *choice) Type() string { return "bits" }
func (c *choice) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || !slices.Contains(c.of, n) {
		return fmt.Errorf("got %q, want one of %s", s, commas(c.of))
	}
	*c.value = n
	return nil
}

func commas[T any](list []T) string {
	text := make([]string, len(list))
	for i, v := range list {
		text[i] = fmt.Sprint(v)
	}
	return strings.Join(text, ", ")
}

// probability is a flag of 0..0.99, kept in millionths.
type probability struct{ ppm *uint32 }

func (p *probability) String() string {
	if p.ppm == nil {
		return ""
	}
	return strconv.FormatFloat(float64(*p.ppm)/1e6, 'g', -1, 64)
}
func (p *probability) Type() string { return "probability" }
func (p *probability) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0 && v <= 0.99) { // at 1 nothing would ever move
		return fmt.Errorf("got %q, want 0..0.99", s)
	}
	*p.ppm = uint32(math.Round(v * 1e6))
	return nil
}

// pacing is a flag that takes a name of link.Pacing.
type pacing struct{ value *link.Pacing }

func (p *pacing) String() string {
	if p.value == nil {
		return ""
	}
	return p.value.String()
}
func (p *pacing) Type() string { return "name" }
func (p *pacing) Set(s string) error {
	v, err := link.ParsePacing(s)
	if err != nil {
		return fmt.Errorf("got %q, want one of %s", s, strings.Join(pacings(), ", "))
	}
	*p.value = v
	return nil
}

func pacings() []string {
	return []string{link.PacingNone.String(), link.PacingGap.String(), link.PacingBurst.String()}
}
