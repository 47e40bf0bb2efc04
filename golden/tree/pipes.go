package tree

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/epic-inc/epic/golden/spec"
)

// Collective is an operation of a group. It is wider than spec's type on the wire, for
// ReduceScatter and AllGather are sequences of Reduce and Broadcast.
type Collective uint8

// The six collectives; the first four have the numbers of the wire.
const (
	AllReduce     = Collective(spec.CollTypeAllreduce)
	Reduce        = Collective(spec.CollTypeReduce)
	Broadcast     = Collective(spec.CollTypeBroadcast)
	Barrier       = Collective(spec.CollTypeBarrier)
	ReduceScatter = Barrier + 1
	AllGather     = Barrier + 2
)

var collectiveNames = [...]string{AllReduce: spec.CollTypeAllreduce.String(), Reduce: spec.CollTypeReduce.String(),
	Broadcast: spec.CollTypeBroadcast.String(), Barrier: spec.CollTypeBarrier.String(), ReduceScatter: "reducescatter", AllGather: "allgather"}

// Collectives lists all six names, in the order of their values.
func Collectives() []string { return append([]string(nil), collectiveNames[:]...) }

// String is the name in the configuration file.
func (c Collective) String() string {
	if int(c) < len(collectiveNames) {
		return collectiveNames[c]
	}
	return fmt.Sprintf("Collective(%d)", uint8(c))
}

// ParseCollective reads a name of Collectives.
func ParseCollective(s string) (Collective, error) {
	for i, n := range collectiveNames {
		if s == n {
			return Collective(i), nil
		}
	}
	return 0, fmt.Errorf("collective %q is unknown, want one of %v", s, Collectives())
}

// HasRoot says whether the collective names a root rank.
func (c Collective) HasRoot() bool { return c == Reduce || c == Broadcast }

// ParseSteps reads a list of collectives: names of Collectives with commas between them, reduce and
// broadcast with their root rank after a colon, as in "allreduce,reduce:2,allgather". A root left out is
// rank 0.
func ParseSteps(s string) ([]Step, error) {
	var steps []Step
	for _, one := range strings.Split(s, ",") {
		name, root, given := strings.Cut(one, ":")
		c, err := ParseCollective(name)
		if err != nil {
			return nil, err
		}
		step := Step{Collective: c}
		if given {
			if !c.HasRoot() {
				return nil, fmt.Errorf("collective %q has a root, want none: only reduce and broadcast have one", one)
			}
			if step.Root, err = strconv.Atoi(root); err != nil || step.Root < 0 {
				return nil, fmt.Errorf("collective %q: got root %q, want a rank, 0 and up", one, root)
			}
		}
		steps = append(steps, step)
	}
	return steps, nil
}

// Role of a pipe in its collective.
type Role uint8

// The roles of protocol.md section 2.
const (
	RoleRoot      Role = iota // AllReduce, Barrier at the tree root
	RoleUp                    // AllReduce, Barrier elsewhere, toward the root
	RoleDown                  // AllReduce, Barrier elsewhere, from the root
	RoleReduce                // Reduce
	RoleBroadcast             // Broadcast
)

// String is the role's name.
func (r Role) String() string {
	names := [...]string{"root", "up", "down", "reduce", "broadcast"}
	if int(r) < len(names) {
		return names[r]
	}
	return fmt.Sprintf("Role(%d)", uint8(r))
}

// Pipe is one unit of aggregation and replication at one switch, its ends named by neighbour.
type Pipe struct {
	Switch int
	Role   Role
	Ins    []Node // who sends into it; the position is the bit in the arrival bitmap
	Outs   []Node // whom its results go to
}

// Step is one collective that is a set of pipes by itself. Root is a rank, 0 where there is none.
type Step struct {
	Collective Collective
	Root       int
}

// String is as ParseSteps takes it.
func (s Step) String() string {
	if s.Collective.HasRoot() {
		return fmt.Sprintf("%v:%d", s.Collective, s.Root)
	}
	return s.Collective.String()
}

// Subgroups lists the subgroups that a list of collectives needs, each named by its first user: one for
// AllReduce and Barrier, one for each root of a Reduce, one for each of a Broadcast (protocol.md 2).
func (t *Tree) Subgroups(steps []Step) []Step {
	var list []Step
	for _, s := range steps {
		for _, one := range t.Steps(s.Collective, s.Root) {
			one = one.Subgroup()
			if !slices.Contains(list, one) {
				list = append(list, one)
			}
		}
	}
	return list
}

// Subgroup is the collective that names the subgroup of a step: a Barrier goes through AllReduce's.
func (s Step) Subgroup() Step {
	if s.Collective == Barrier {
		s.Collective = AllReduce
	}
	return s
}

// Steps splits a collective into those that Pipes takes.
func (t *Tree) Steps(c Collective, root int) []Step { return Step{c, root}.Split(t.ranks) }

// Split is the step as those that Pipes takes: ReduceScatter is Reduce(0), Reduce(1), ... and AllGather
// Broadcast(0), Broadcast(1), ... in rank order; every other is itself.
func (s Step) Split(ranks int) []Step {
	var one Collective
	switch s.Collective {
	case ReduceScatter:
		one = Reduce
	case AllGather:
		one = Broadcast
	default:
		return []Step{s}
	}
	steps := make([]Step, ranks)
	for r := range steps {
		steps[r] = Step{one, r}
	}
	return steps
}

// Pipes lists the pipes of a collective, by switch, up before down. root is the root rank of a
// Reduce or Broadcast, and must be 0 for the others: AllReduce has the tree's root, not a rank's.
// A switch that lies on no path of the collective has no pipe.
func (t *Tree) Pipes(c Collective, root int) ([]Pipe, error) {
	if c == ReduceScatter || c == AllGather {
		return nil, fmt.Errorf("%v is a sequence of collectives, take the pipes of each of its Steps", c)
	}
	if int(c) >= len(collectiveNames) {
		return nil, fmt.Errorf("collective %d is unknown, want one of %v", uint8(c), Collectives())
	}
	if c.HasRoot() && (root < 0 || root >= t.ranks) {
		return nil, fmt.Errorf("%v has root rank %d, want 0..%d", c, root, t.ranks-1)
	}
	if !c.HasRoot() && root != 0 {
		return nil, fmt.Errorf("%v has root rank %d, want 0: it has none", c, root)
	}
	var pipes []Pipe
	add := func(s int, role Role, ins, outs []Node) {
		if len(ins) > 0 && len(outs) > 0 {
			pipes = append(pipes, Pipe{s, role, ins, outs})
		}
	}
	for s := range t.names {
		switch c {
		case AllReduce, Barrier:
			parent, ok := t.Parent(Switch(s))
			if !ok {
				add(s, RoleRoot, t.Children(s), t.Children(s))
				continue
			}
			add(s, RoleUp, t.Children(s), []Node{parent})
			add(s, RoleDown, []Node{parent}, t.Children(s))
		case Reduce:
			to := t.Toward(s, root)
			add(s, RoleReduce, without(t.Neighbours(s), to), []Node{to})
		case Broadcast:
			from := t.Toward(s, root)
			add(s, RoleBroadcast, []Node{from}, without(t.Neighbours(s), from))
		}
	}
	return pipes, nil
}

func without(nodes []Node, drop Node) []Node {
	var kept []Node
	for _, n := range nodes {
		if n != drop {
			kept = append(kept, n)
		}
	}
	return kept
}
