// Package faults is the fault matrix: every frame of short messages is lost, doubled, overtaken, spoiled, cut or late by
// turns of the ring, one in each run, through golden engines alone and through the RTL. The results must be exact, and
// the RTL what golden is, in every run.
//
// Which frames there are is taken from a run without a fault. All is without randomness but for the vectors, whose seed
// is fixed: a case is the same run every time.
package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/epic-inc/epic/cosim/run"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/fabric"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// The message: four times three packets over a ring of four slots, so that three turns pass while the last is delivered.
const (
	slots       = 4
	perMessage  = 3
	messages    = 4
	mtu         = 256
	bytes       = perMessage * mtu
	seed        = 1
	ranks       = 2
	goldenLimit = 1 << 24 // clocks; a collective takes ten thousand
)

// strike is a kind of fault, and how much later its frame comes.
type strike struct {
	name string
	kind fabric.FaultKind
	late uint64 // clocks
}

// A frame that is late by 40 clocks comes behind the next ones; one that is late by 4000 has long been sent again, and
// comes when its slot is that of another packet (TestLate).
var strikes = []strike{
	{"drop", fabric.FaultDrop, 0},
	{"duplicate", fabric.FaultDuplicate, 40},
	{"duplicate a turn later", fabric.FaultDuplicate, 4000},
	{"reorder", fabric.FaultDelay, 40},
	{"delay past a turn", fabric.FaultDelay, 4000},
	{"corrupt", fabric.FaultCorrupt, 0},
	{"truncate", fabric.FaultTruncate, 0},
}

// Engines that a case runs through.
const (
	Golden = "golden"
	RTL    = "rtl"
)

// Setting is a mode and a collective through one kind of engine.
type Setting struct {
	Engine     string
	Mode       int
	Collective string
}

// Settings lists all; Mode-I is golden's alone.
func Settings() (list []Setting) {
	for _, on := range []string{Golden, RTL} {
		for mode := 1; mode <= 3; mode++ {
			for _, c := range []string{"allreduce", "reduce", "broadcast", "barrier"} {
				if on == Golden || mode != 1 {
					list = append(list, Setting{on, mode, c})
				}
			}
		}
	}
	return list
}

// Case is one run.
type Case struct {
	Setting
	strike
	At   fabric.Place
	From string // name of the node
}

// String names the case as a person reads it.
func (c Case) String() string {
	return fmt.Sprintf("%s, mode %d, %s: %s of %v %d from %s", c.Engine, c.Mode, c.Collective, c.name, c.At.Opcode, c.At.Nth, c.From)
}

// Options of Run.
type Options struct {
	DataW    int
	Sim      string
	Every    int // every nth case
	Progress io.Writer

	spoil func(*engine.Config) // of a test: the mistake that golden engines make
	deaf  bool                 // of a test: faults are forgotten
	only  func(Setting) bool   // of a test: which settings; nil: all
}

// Row is the cases of a setting.
type Row struct {
	Setting
	Places, Cases, Passed int // frames of a run without a fault; runs with one
}

// Report is what was found.
type Report struct {
	Rows   []Row
	Failed []string
}

// Run does the cases of the matrix.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Every < 1 {
		return nil, fmt.Errorf("every: got %d, want at least 1", o.Every)
	}
	rep, n := &Report{}, 0
	for _, s := range Settings() {
		if o.only != nil && !o.only(s) {
			continue
		}
		var places []Case
		tap := func(net *fabric.Network) { net.SetTap(note(net, &places)) }
		if err := o.do(ctx, s, tap); err != nil {
			if ctx.Err() != nil || !errors.Is(err, run.ErrDifference) {
				return rep, err
			}
			rep.Rows = append(rep.Rows, Row{Setting: s})
			rep.Failed = append(rep.Failed, fmt.Sprintf("%s, mode %d, %s, without a fault: %v", s.Engine, s.Mode, s.Collective, err))
			continue
		}
		row := Row{Setting: s, Places: len(places)}
		for _, p := range places {
			for _, k := range strikes {
				if n++; n%o.Every != 0 {
					continue
				}
				row.Cases++
				c := Case{Setting: s, strike: k, At: p.At, From: p.From}
				var net *fabric.Network
				err := o.do(ctx, s, func(n *fabric.Network) {
					net = n
					if !o.deaf {
						n.SetFault(fabric.Fault{Place: c.At, Kind: k.kind, Late: k.late})
					}
				})
				switch {
				case ctx.Err() != nil:
					return rep, context.Cause(ctx)
				case err != nil && !errors.Is(err, run.ErrDifference):
					return rep, fmt.Errorf("%v: %w", c, err)
				case err != nil:
					rep.Failed = append(rep.Failed, fmt.Sprintf("%v: %v", c, err))
				case !net.Struck(): // up to its fault a run is the run without one
					rep.Failed = append(rep.Failed, fmt.Sprintf("%v: got no such frame, want the one of the run without a fault", c))
				default:
					row.Passed++
				}
			}
		}
		if o.Progress != nil {
			fmt.Fprintf(o.Progress, "  %s, mode %d, %s: %d of %d passed\n", s.Engine, s.Mode, s.Collective, row.Passed, row.Cases)
		}
		rep.Rows = append(rep.Rows, row)
	}
	return rep, nil
}

// note lists every frame that is sent.
func note(net *fabric.Network, places *[]Case) fabric.Tap {
	seen := map[fabric.Place]int{}
	return func(p fabric.Passage) {
		op, ok := fabric.OpcodeOf(p.Frame)
		if !ok {
			return
		}
		at := fabric.Place{From: p.From, Port: p.FromPort, Opcode: op}
		n := seen[at]
		seen[at]++
		at.Nth = n
		*places = append(*places, Case{At: at, From: fmt.Sprintf("%s, port %d", net.Name(p.From), p.FromPort)})
	}
}

// shape is the group of a setting.
func shape(s Setting) group.Options {
	o := group.DefaultOptions()
	o.Ranks, o.Mode, o.Collective, o.MTU, o.Slots, o.PSN0 = ranks, s.Mode, s.Collective, mtu, slots, 0xfffffb
	o.ClocksPerTick, o.TimeoutTicks, o.HostTimeout, o.MessagePackets = 25, 100, 8, perMessage
	if s.Mode == 1 {
		o.Slots = 2 * slots // of a buffer, which must hold a message
	}
	return o
}

// do lets ranks do the collective of a setting, `messages` times.
func (o *Options) do(ctx context.Context, s Setting, prepare func(*fabric.Network)) error {
	g, err := group.Generate(shape(s))
	if err != nil {
		return err
	}
	var steps []tree.Step
	for range messages {
		steps = append(steps, g.Steps()[0])
	}
	if s.Engine == Golden {
		return o.golden(g, steps, prepare)
	}
	size := bytes
	if s.Collective == spec.CollTypeBarrier.String() {
		size = 4 // of no vector
	}
	_, err = run.Run(ctx, run.Options{Group: g, Steps: steps, Bytes: size, DataW: o.DataW, Sim: o.Sim, Seed: seed, Once: true, Network: prepare})
	return err
}

// golden is do through golden engines.
func (o *Options) golden(g *group.Group, steps []tree.Step, prepare func(*fabric.Network)) error {
	set, err := group.NewSet(g)
	if err != nil {
		return err
	}
	work, err := fabric.RandomWork(g, seed, steps, bytes)
	if err != nil {
		return err
	}
	job, err := fabric.NewJob(set, work)
	if err != nil {
		return err
	}
	var switches []*fabric.Switch
	net, err := fabric.Build(set, seed, func(i int) (fabric.Node, error) {
		sw, err := o.goldenSwitch(set, i)
		switches = append(switches, sw)
		return sw, err
	},
		func(i int) (fabric.Node, error) { return job.Host(i, 0) })
	if err != nil {
		return err
	}
	prepare(net)
	ended := net.RunWhile(func() bool { return !job.Done() && job.Err() == nil }, goldenLimit)
	err = job.Err()
	if err == nil && !ended {
		err = fmt.Errorf("not done after %d clocks", goldenLimit)
	}
	if err == nil {
		net.Run(net.Now() + goldenLimit/256) // what is late arrives yet, and must do no harm
		err = errors.Join(job.Err(), job.Check())
		for _, sw := range switches {
			for p := range sw.Engine.Config().Pipes {
				if f := sw.Engine.Fault(p); f.Kind != spec.ErrorKindNone {
					err = errors.Join(err, fmt.Errorf("pipe %d is in error: %v", p, f.Kind))
				}
			}
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", run.ErrDifference, err)
	}
	return nil
}

func (o *Options) goldenSwitch(set *group.Set, i int) (*fabric.Switch, error) {
	if o.spoil == nil {
		return fabric.GoldenSwitch(set, i)
	}
	cfg, err := set.EngineConfig(set.Switches[i])
	if err != nil {
		return nil, err
	}
	o.spoil(&cfg)
	e, err := engine.New(cfg)
	if err != nil {
		return nil, err
	}
	e.Program()
	return fabric.NewSwitch(e, fabric.ScaleOf(set.Clock))
}

// WriteText prints the report as a table for a page.
func (r *Report) WriteText(w io.Writer) error {
	b := &strings.Builder{}
	fmt.Fprintln(b, "| engine | mode | collective | frames | runs | passed |\n| --- | --- | --- | --- | --- | --- |")
	var all Row
	for _, row := range r.Rows {
		fmt.Fprintf(b, "| %s | %d | %s | %d | %d | %d |\n", row.Engine, row.Mode, row.Collective, row.Places, row.Cases, row.Passed)
		all.Places, all.Cases, all.Passed = all.Places+row.Places, all.Cases+row.Cases, all.Passed+row.Passed
	}
	fmt.Fprintf(b, "| all | | | %d | %d | %d |\n", all.Places, all.Cases, all.Passed)
	_, err := io.WriteString(w, b.String())
	return err
}
