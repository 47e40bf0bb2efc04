package tree

import "fmt"

// Collective is an operation of a group. It is wider than spec's type on the wire, for
// ReduceScatter and AllGather are sequences of Reduce and Broadcast.
type Collective uint8

// The six collectives.
const (
	AllReduce Collective = iota
	Reduce
	Broadcast
	Barrier
	ReduceScatter
	AllGather
)

var collectiveNames = [...]string{"allreduce", "reduce", "broadcast", "barrier", "reducescatter", "allgather"}

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

// Steps splits a collective into those that Pipes takes: ReduceScatter is Reduce(0), Reduce(1), ...
// and AllGather Broadcast(0), Broadcast(1), ... in rank order; every other is itself.
func (t *Tree) Steps(c Collective, root int) []Step {
	one := c
	switch c {
	case ReduceScatter:
		one = Reduce
	case AllGather:
		one = Broadcast
	default:
		return []Step{{c, root}}
	}
	steps := make([]Step, t.ranks)
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
