// Package matrix runs the co-simulation over everything that a build of the engine can be asked for: mode,
// collective, element type, operator, data path width, MTU and tree, each case with loss, duplication,
// reordering and back-pressure on every link and engine, and with PSNs that wrap.
package matrix

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/epic-inc/epic/cosim/link"
	"github.com/epic-inc/epic/cosim/run"
	"github.com/epic-inc/epic/golden/cover"
	"github.com/epic-inc/epic/golden/expect"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/reduce"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// Case is one point of the matrix.
type Case struct {
	Mode       int        `json:"mode"`
	Collective string     `json:"collective"`
	DType      spec.DType `json:"dtype"`
	Op         spec.Op    `json:"op"`
	DataW      int        `json:"data_w"`
	MTU        int        `json:"mtu"`
	Tree       string     `json:"tree"`
}

// Key names the case.
func (c Case) Key() string {
	return fmt.Sprintf("mode%d %s %v %v %d bits mtu %d %s", c.Mode, c.Collective, c.DType, c.Op, c.DataW, c.MTU, c.Tree)
}

// The factors of a case beside its mode, in the order of Axes' space.
const (
	axisCollective = iota
	axisDType
	axisOp
	axisDataW
	axisMTU
	axisTree
)

// Axes are the levels of each factor; empty: all that there are, of DataW those that `make test` builds.
type Axes struct {
	Modes       []int
	Collectives []string
	DTypes      []spec.DType
	Ops         []spec.Op
	DataW       []int
	MTUs        []int
	Trees       []string
}

func (a Axes) fill() Axes {
	fill(&a.Modes, 2, 3)
	fill(&a.Collectives, tree.Collectives()...)
	fill(&a.DTypes, every[spec.DType]()...)
	fill(&a.Ops, every[spec.Op]()...)
	fill(&a.DataW, 64, 128, 256, 512)
	fill(&a.MTUs, roce.MTUs()...)
	fill(&a.Trees, group.TreeShapes()...)
	return a
}

func fill[T any](to *[]T, all ...T) {
	if len(*to) == 0 {
		*to = all
	}
}

// every is all values of an enum of the spec.
func every[T interface {
	~uint8
	Valid() bool
}]() (all []T) {
	for v := T(0); v.Valid(); v++ {
		all = append(all, v)
	}
	return all
}

// space of the axes. A Barrier has no elements and is taken once, with the first type; what does not reduce
// is taken with the first operator; bitwise operators are not for floating point.
func (a Axes) space() *cover.Space {
	return &cover.Space{
		Factors: []cover.Factor{axisCollective: {Name: "collective", Levels: len(a.Collectives)}, axisDType: {Name: "dtype", Levels: len(a.DTypes)}, axisOp: {Name: "op", Levels: len(a.Ops)},
			axisDataW: {Name: "data_w", Levels: len(a.DataW)}, axisMTU: {Name: "mtu", Levels: len(a.MTUs)}, axisTree: {Name: "tree", Levels: len(a.Trees)}},
		Never: func(p cover.Pair) bool {
			switch {
			case p.A == axisDType && p.B == axisOp:
				return reduce.Supported(a.DTypes[p.LevelA], a.Ops[p.LevelB]) != nil
			case p.A == axisCollective && p.B == axisDType:
				return a.Collectives[p.LevelA] == tree.Barrier.String() && p.LevelB != 0
			case p.A == axisCollective && p.B == axisOp:
				reduces := []string{tree.AllReduce.String(), tree.Reduce.String(), tree.ReduceScatter.String()}
				return !slices.Contains(reduces, a.Collectives[p.LevelA]) && p.LevelB != 0
			}
			return false
		},
	}
}

// Cases are all points of the axes, or a pairwise slice of them: one in which, in each mode, every two levels
// of two other factors that can stand in a case stand in one.
func (a Axes) Cases(pairwise bool) []Case {
	a = a.fill()
	s := a.space()
	rows := s.Whole
	if pairwise {
		rows = s.Pairwise
	}
	var list []Case
	for _, r := range rows() {
		for _, mode := range a.Modes {
			list = append(list, Case{mode, a.Collectives[r[axisCollective]], a.DTypes[r[axisDType]], a.Ops[r[axisOp]],
				a.DataW[r[axisDataW]], a.MTUs[r[axisMTU]], a.Trees[r[axisTree]]})
		}
	}
	return list
}

// How the cases are run. A vector has more packets than a pipe has slots, and the first PSN is so near to
// the wrap that even the shortest stream of a rank, a share of ReduceScatter, goes over it.
const (
	caseRanks   = 4
	caseSlots   = 8
	casePackets = 20 // of a vector; 5 of a share
	caseBarrier = 8  // Barriers one after the other
	caseSkew    = 5000
	casePSN0    = 0xfffffd
)

// Options of the run of a case. The seed is the case's own, so it is the same run in every slice.
func (c Case) Options(seed uint64) (run.Options, error) {
	o := group.DefaultOptions()
	o.Mode, o.DType, o.Op, o.MTU, o.Tree, o.Ranks = c.Mode, c.DType, c.Op, c.MTU, c.Tree, caseRanks
	o.Slots, o.PSN0, o.MessagePackets, o.WindowPackets = caseSlots, casePSN0, 2, caseSlots/2
	o.ClocksPerTick = 10
	// No timeout may run out while what is outstanding still waits for the engine's output: all slots for all
	// ranks, half of the clocks taken by back-pressure, pauses and ACKs.
	frame := (c.MTU + 100) * 8 / c.DataW
	o.TimeoutTicks = max(400, 2*caseRanks*caseSlots*frame/o.ClocksPerTick)
	for o.HostTimeout = 10; host.AckTimeout(o.HostTimeout) < time.Duration(o.TimeoutTicks)*spec.TickNs; {
		o.HostTimeout++
	}
	o.Loss, o.Dup, o.Reorder = 0.02, 0.02, 0.03
	o.Collective = c.Collective
	switch c.Collective {
	case tree.Reduce.String(), tree.Broadcast.String():
		o.Collective += ":1" // a list of one: what goes on at switches without a pipe is then no error
	case tree.Barrier.String():
		o.Collective = strings.Repeat(","+c.Collective, caseBarrier)[1:]
	}
	g, err := group.Generate(o)
	if err != nil {
		return run.Options{}, fmt.Errorf("%s: %w", c.Key(), err)
	}
	steps, err := o.Steps()
	if err != nil {
		return run.Options{}, err
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", seed, c.Key())
	size := expect.Element(c.DType)
	return run.Options{Group: g, Steps: steps, RTLAt: run.AllSwitches, DataW: c.DataW, Bytes: casePackets*c.MTU - size, Seed: h.Sum64() >> 32, Skew: caseSkew,
		Pacing: link.PacingBurst, IdlePPM: 100_000, BackpressurePPM: 200_000, BypassBackpressurePPM: 200_000}, nil
}
