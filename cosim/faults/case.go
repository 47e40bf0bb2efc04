// Package faults does one fault to one frame of a short collective, and wants every result right all the same: each kind of
// fault, at every frame of the run, in each mode and collective, by the golden engine and by the RTL with golden beside it.
//
// Which frames there are a run without the fault tells, so the list is whole: each opcode at each place of a message, data and
// answers, both ways. As retransmissions are what a fault brings forth, the frames of runs in which one was lost before are struck too.
package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/epic-inc/epic/cosim/link"
	"github.com/epic-inc/epic/cosim/run"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/fabric"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// Engines that cases are run on.
const (
	Golden = "golden"
	RTL    = "rtl"
)

// Engines lists them.
func Engines() []string { return []string{Golden, RTL} }

// How the cases are run. A vector has more packets than slots, and the PSNs wrap.
const (
	ranks = 2
	mtu   = 256
	psn0  = 0xfffffd
	seed  = 1

	switchName = "root"
)

// Base is a run before its fault.
type Base struct {
	Engine     string `json:"engine"`
	Mode       int    `json:"mode"`
	Collective string `json:"collective"`
	Message    int    `json:"message"`  // packets; of three there is a first, a middle and a last
	Unpinned   bool   `json:"unpinned"` // control signals open the collective, which have immediate data
	Lost       string `json:"lost"`     // frame that is lost before: "", "up" (to the switch) or "down"
}

// Case is a fault in a base.
type Case struct {
	Base
	From  string           `json:"from"` // node that sends the frame
	Port  int              `json:"port"`
	Class string           `json:"class"` // fabric.ClassOf
	N     int              `json:"n"`     // the n-th of its class from there, from 0
	Kind  fabric.FaultKind `json:"-"`
	Fault string           `json:"fault"`

	which  fabric.Which
	before []fabric.Which // frames that are lost
}

// Key names the base.
func (b Base) Key() string {
	words := []string{b.Engine, fmt.Sprintf("mode%d", b.Mode), b.Collective, fmt.Sprintf("message%d", b.Message)}
	if b.Unpinned {
		words = append(words, "unpinned")
	}
	if b.Lost != "" {
		words = append(words, b.Lost+"-lost")
	}
	return strings.Join(words, " ")
}

// Key names the case.
func (c Case) Key() string {
	return fmt.Sprintf("%s: %v %s %d from %s.%d", c.Base.Key(), c.Kind, c.Class, c.N, c.From, c.Port)
}

// Bases are all runs. Mode-I is in the golden engine alone.
func Bases(engines []string, modes []int) (all []Base) {
	for _, e := range engines {
		for _, mode := range modes {
			if e == RTL && mode == 1 {
				continue
			}
			for _, collective := range []string{"allreduce", "reduce:1", "broadcast:0", "barrier,barrier"} {
				for _, v := range []struct {
					message  int
					unpinned bool
				}{{1, false}, {3, false}, {3, true}} {
					barrier := strings.HasPrefix(collective, tree.Barrier.String())
					if v.unpinned && mode == 1 || barrier && v.message != 1 {
						continue // no control signals in Mode-I; a Barrier is one packet
					}
					for _, lost := range []string{"", "up", "down"} {
						all = append(all, Base{Engine: e, Mode: mode, Collective: collective, Message: v.message, Unpinned: v.unpinned, Lost: lost})
					}
				}
			}
		}
	}
	return all
}

func (b Base) group() (*group.Set, []tree.Step, error) {
	o := group.DefaultOptions()
	o.Mode, o.Collective, o.Ranks, o.MTU, o.Slots, o.PSN0 = b.Mode, b.Collective, ranks, mtu, b.slots(), psn0
	o.MessagePackets, o.WindowPackets, o.Unpinned = b.Message, b.slots()/2, b.Unpinned
	o.ClocksPerTick, o.TimeoutTicks, o.HostTimeout = 10, 400, 10
	if b.Mode == 1 {
		o.WindowPackets = 0
	}
	steps, err := o.Steps()
	if err != nil {
		return nil, nil, err
	}
	set, err := group.GenerateSet(o)
	return set, steps, err
}

// slots of each pipe; half of them hold the longest message.
func (b Base) slots() int {
	if b.Message == 1 {
		return 4
	}
	return 8
}

// bytes of a vector.
func (b Base) bytes() int { return b.slots() * 3 / 2 * mtu }

// turn is how many frames pass a delayed one: the data and answers of a whole turn of the ring.
func (b Base) turn() int { return 2 * b.slots() }

// frame is one that a run had.
type frame struct {
	fabric.Which
	from   string
	behind int // frames that the direction carried after it
}

// ErrWrong says that a fault was not made good.
var ErrWrong = errors.New("a fault was not made good")

// do runs a base with faults, and returns the frames that were sent.
func (b Base) do(ctx context.Context, o *Options, faults ...*fabric.Fault) (frames []frame, err error) {
	set, steps, err := b.group()
	if err != nil {
		return nil, err
	}
	type direction struct {
		from fabric.ID
		port int
	}
	counts := map[fabric.Which]int{}
	var directions []direction
	prepare := func(n *fabric.Network) {
		n.Break(faults...)
		n.SetTap(func(p fabric.Passage) {
			if p.Fate == fabric.Duplicate || p.Fate == fabric.Late {
				return // it was seen when it was sent
			}
			w := fabric.Which{From: p.From, Port: p.FromPort, Class: fabric.ClassOf(p.Frame)}
			w.N = counts[w]
			counts[fabric.Which{From: w.From, Port: w.Port, Class: w.Class}]++
			frames = append(frames, frame{Which: w, from: n.Name(p.From)})
			directions = append(directions, direction{p.From, p.FromPort})
		})
	}
	switch b.Engine {
	case Golden:
		err = b.golden(set, steps, o.mistake, prepare)
	case RTL:
		_, err = run.Run(ctx, run.Options{Group: set.Groups[0], Steps: steps, DataW: o.DataW, Sim: o.Sim, Bytes: b.bytes(), Seed: seed, OutDir: o.OutDir,
			Pacing: link.PacingNone, Once: true, Prepare: prepare})
	default:
		err = fmt.Errorf("engine: got %q, want one of %s", b.Engine, strings.Join(Engines(), ", "))
	}
	behind := map[direction]int{}
	for i := len(frames) - 1; i >= 0; i-- {
		frames[i].behind = behind[directions[i]]
		behind[directions[i]]++
	}
	return frames, err
}

// limit is the clocks after which a golden run is stuck.
const limit = 1 << 23

func (b Base) golden(set *group.Set, steps []tree.Step, mistake engine.Mistake, prepare func(*fabric.Network)) error {
	work, err := fabric.RandomWork(set.Groups[0], seed, steps, b.bytes())
	if err != nil {
		return err
	}
	job, err := fabric.NewJob(set, work)
	if err != nil {
		return err
	}
	var sw *fabric.Switch
	n, err := fabric.Build(set, seed, func(i int) (fabric.Node, error) {
		cfg, err := set.EngineConfig(set.Switches[i])
		if err != nil {
			return nil, err
		}
		cfg.Variant.Mistake = mistake
		e, err := engine.New(cfg)
		if err != nil {
			return nil, err
		}
		e.Program()
		sw, err = fabric.NewSwitch(e, fabric.ScaleOf(set.Clock))
		return sw, err
	}, func(i int) (fabric.Node, error) { return job.Host(i, 0) })
	if err != nil {
		return err
	}
	prepare(n)
	ended := n.RunWhile(func() bool { return job.Err() == nil && !job.Done() }, limit)
	if err := job.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrWrong, err)
	}
	if !ended {
		return fmt.Errorf("%w: the ranks do not end", ErrWrong)
	}
	if err := job.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrWrong, err)
	}
	n.Run(limit)
	for p, pipe := range sw.Engine.Config().Pipes {
		if f := sw.Engine.Fault(p); f.Kind != spec.ErrorKindNone {
			return fmt.Errorf("%w: pipe %s is in error: %v", ErrWrong, pipe.Name, f.Kind)
		}
		if pipe.Mode == 3 && !sw.Engine.Drained(p) {
			return fmt.Errorf("%w: pipe %s is not drained", ErrWrong, pipe.Name)
		}
	}
	return nil
}

// before is the loss of a base: the second frame to the switch, or from it, that carries data; none if there is no second.
func (b Base) before(frames []frame) (lost []fabric.Which) {
	n := 0
	for _, f := range frames {
		answer := f.Class == "ack" || f.Class == "nak" || f.Class == "rnr_nak"
		if f.Class == "" || answer || (f.from == switchName) != (b.Lost == "down") {
			continue
		}
		if n++; n == 2 {
			return []fabric.Which{f.Which}
		}
	}
	return nil
}

func drops(lost []fabric.Which) (all []*fabric.Fault) {
	for _, w := range lost {
		all = append(all, &fabric.Fault{Which: w, Kind: fabric.Drop})
	}
	return all
}

// Cases are all faults of a base; it is run to see which frames there are. None if it has no frame to lose before.
func (b Base) Cases(ctx context.Context, o *Options) ([]Case, error) {
	frames, err := b.do(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("%s: without a fault: %w", b.Key(), err)
	}
	var before []fabric.Which
	if b.Lost != "" {
		if before = b.before(frames); before == nil {
			return nil, nil
		}
		if frames, err = b.do(ctx, o, drops(before)...); err != nil {
			return nil, fmt.Errorf("%s: without another fault: %w", b.Key(), err)
		}
	}
	var all []Case
	for _, f := range frames {
		for _, kind := range fabric.FaultKinds() {
			switch {
			case f.Class == "", slices.Contains(before, f.Which): // nothing of RoCE, or lost already
			case kind == fabric.Stale && f.behind < b.turn(): // the run ends before the ring has turned
			default:
				all = append(all, Case{Base: b, From: f.from, Port: f.Port, Class: f.Class, N: f.N, Kind: kind, Fault: kind.String(),
					which: f.Which, before: before})
			}
		}
	}
	return all, nil
}

// Do runs a case; an error is that the fault was not made good, or did not happen.
func (c Case) Do(ctx context.Context, o *Options) error {
	fault := &fabric.Fault{Which: c.which, Kind: c.Kind, Turn: c.turn()}
	if _, err := c.do(ctx, o, append(drops(c.before), fault)...); err != nil {
		return err
	}
	if !fault.Hit() {
		return fmt.Errorf("%w: the frame never came, though the run is the same until then", ErrWrong)
	}
	return nil
}
