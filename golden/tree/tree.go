// Package tree holds the IncTree, whose leaves are ranks and whose inner nodes are switches, and
// says which pipes every collective needs at every switch (protocol.md section 2).
package tree

import (
	"errors"
	"fmt"
	"math"
	"strconv"
)

// MinRanks is the fewest ranks of a tree: with one there is nothing to reduce.
const MinRanks = 2

// MaxRanks is the most ranks that a group or job may have.
const MaxRanks = 4096

// Kind tells switches from ranks.
type Kind uint8

// The two kinds of node.
const (
	KindSwitch Kind = iota
	KindRank
)

// Node names one node of a tree: switch Index or rank Index, both counted from 0.
type Node struct {
	Kind  Kind
	Index int
}

// Switch is the node of switch i.
func Switch(i int) Node { return Node{KindSwitch, i} }

// Rank is the node of rank r.
func Rank(r int) Node { return Node{KindRank, r} }

// IsRank says whether the node is a leaf.
func (n Node) IsRank() bool { return n.Kind == KindRank }

// String is "switch 3" or "rank 0".
func (n Node) String() string {
	if n.IsRank() {
		return fmt.Sprintf("rank %d", n.Index)
	}
	return fmt.Sprintf("switch %d", n.Index)
}

// Edge joins two nodes; its ends have no order.
type Edge struct{ A, B Node }

// Tree is an IncTree. It is never changed after New, so it may be shared.
type Tree struct {
	names []string // of the switches
	ranks int
	root  int
	edges []Edge

	children [][]Node // of each switch, in the order of edges
	up       []Node   // parent of each switch; its own node at the root
	rankUp   []Node   // switch of each rank
}

// New makes the tree of the named switches, the ranks 0..ranks-1 and the edges between them, rooted
// at switch root. The order of edges is the order of children, hence of a pipe's ins and outs.
// An error says which node is unreachable, which edge closes a loop, or which rank is no leaf.
func New(switches []string, ranks int, edges []Edge, root int) (*Tree, error) {
	if len(switches) == 0 {
		return nil, errors.New("tree has no switch, want at least 1")
	}
	if ranks < MinRanks {
		return nil, fmt.Errorf("tree has %d ranks, want at least %d", ranks, MinRanks)
	}
	if root < 0 || root >= len(switches) {
		return nil, fmt.Errorf("root is switch %d, want 0..%d", root, len(switches)-1)
	}
	t := &Tree{
		names:    append([]string(nil), switches...),
		ranks:    ranks,
		root:     root,
		edges:    append([]Edge(nil), edges...),
		children: make([][]Node, len(switches)),
		up:       make([]Node, len(switches)),
		rankUp:   make([]Node, ranks),
	}
	beside := make(map[Node][]Node) // looked up by key only, so its order does not matter
	joined := make(map[Edge]bool)
	for i, e := range edges {
		for _, n := range []Node{e.A, e.B} {
			if err := t.exists(n); err != nil {
				return nil, fmt.Errorf("edge %d: %w", i, err)
			}
		}
		if e.A.IsRank() && e.B.IsRank() {
			return nil, fmt.Errorf("edge %d joins %v and %v, want a switch at one end at least", i, e.A, e.B)
		}
		if e.A == e.B || joined[e] || joined[Edge{e.B, e.A}] {
			return nil, fmt.Errorf("edge %d joins %s and %s again", i, t.Name(e.A), t.Name(e.B))
		}
		joined[e] = true
		beside[e.A] = append(beside[e.A], e.B)
		beside[e.B] = append(beside[e.B], e.A)
	}
	for r := range ranks {
		if n := len(beside[Rank(r)]); n != 1 {
			return nil, fmt.Errorf("rank %d has %d edges, want 1", r, n)
		}
	}
	if err := t.orient(beside); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *Tree) exists(n Node) error {
	limit := len(t.names)
	if n.IsRank() {
		limit = t.ranks
	}
	if n.Index < 0 || n.Index >= limit {
		return fmt.Errorf("%v does not exist, want 0..%d", n, limit-1)
	}
	return nil
}

// orient walks from the root and fills children, up and rankUp.
func (t *Tree) orient(beside map[Node][]Node) error {
	seen := map[Node]bool{Switch(t.root): true}
	t.up[t.root] = Switch(t.root)
	queue := []Node{Switch(t.root)}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		for _, n := range beside[s] {
			if s.Index != t.root && n == t.up[s.Index] {
				continue
			}
			if seen[n] {
				return fmt.Errorf("edge between %s and %s closes a loop, want a tree", t.Name(s), t.Name(n))
			}
			seen[n] = true
			t.children[s.Index] = append(t.children[s.Index], n)
			if n.IsRank() {
				t.rankUp[n.Index] = s
				continue
			}
			t.up[n.Index] = s
			queue = append(queue, n)
		}
	}
	for s := range t.names {
		if !seen[Switch(s)] {
			return fmt.Errorf("%s is not reachable from root %s", t.Name(Switch(s)), t.Name(Switch(t.root)))
		}
		if len(t.children[s]) == 0 {
			return fmt.Errorf("%s has no children, want at least one rank or switch below it", t.Name(Switch(s)))
		}
	}
	for r := range t.ranks {
		if !seen[Rank(r)] {
			return fmt.Errorf("rank %d is not reachable from root %s", r, t.Name(Switch(t.root)))
		}
	}
	return nil
}

// Single is one switch "root" with all ranks at it, ranks >= MinRanks.
func Single(ranks int) (*Tree, error) {
	edges := make([]Edge, 0, max(ranks, 0))
	for r := range ranks {
		edges = append(edges, Edge{Switch(0), Rank(r)})
	}
	return New([]string{"root"}, ranks, edges, 0)
}

// TwoLevel is a switch "root" over switches "leaf0", "leaf1", ... of ceil(sqrt(ranks)) ranks each,
// fewer at the last. With 2 ranks the root has one leaf.
func TwoLevel(ranks int) (*Tree, error) {
	if ranks < MinRanks {
		return nil, fmt.Errorf("tree has %d ranks, want at least %d", ranks, MinRanks)
	}
	width := LeafWidth(ranks)
	names := []string{"root"}
	var edges []Edge
	for first := 0; first < ranks; first += width {
		leaf := Switch(len(names))
		names = append(names, fmt.Sprintf("leaf%d", leaf.Index-1))
		edges = append(edges, Edge{Switch(0), leaf})
		for r := first; r < min(first+width, ranks); r++ {
			edges = append(edges, Edge{leaf, Rank(r)})
		}
	}
	return New(names, ranks, edges, 0)
}

// ThreeLevel is a switch "leaf" under a switch "mid" under the switch "root", each with its share of the
// ranks: the first third at the root, the last at the leaf. With fewer than 3 ranks a switch would have none.
func ThreeLevel(ranks int) (*Tree, error) {
	if ranks < 3 {
		return nil, fmt.Errorf("tree has %d ranks, want at least 3, one at each switch", ranks)
	}
	var edges []Edge
	for s := range 3 {
		if s > 0 {
			edges = append(edges, Edge{Switch(s - 1), Switch(s)})
		}
		for r := s * ranks / 3; r < (s+1)*ranks/3; r++ {
			edges = append(edges, Edge{Switch(s), Rank(r)})
		}
	}
	return New([]string{"root", "mid", "leaf"}, ranks, edges, 0)
}

// LeafWidth is the number of ranks at each leaf of TwoLevel: ceil(sqrt(ranks)).
func LeafWidth(ranks int) int {
	w := int(math.Sqrt(float64(ranks)))
	for w*w < ranks {
		w++
	}
	return w
}

// Switches is the number of switches.
func (t *Tree) Switches() int { return len(t.names) }

// Ranks is the number of ranks.
func (t *Tree) Ranks() int { return t.ranks }

// Root is the index of the root switch.
func (t *Tree) Root() int { return t.root }

// Edges are those given to New, in that order.
func (t *Tree) Edges() []Edge { return append([]Edge(nil), t.edges...) }

// Name is the name of a switch, or "rank 3".
func (t *Tree) Name(n Node) string {
	if n.IsRank() {
		return n.String()
	}
	return t.names[n.Index]
}

// EndpointName is the name of a switch's endpoint that faces a node, as files of groups have it.
func (t *Tree) EndpointName(n Node) string {
	if n.IsRank() {
		return "rank" + strconv.Itoa(n.Index)
	}
	return t.Name(n)
}

// Children of switch s, in the order of the edges.
func (t *Tree) Children(s int) []Node { return append([]Node(nil), t.children[s]...) }

// Parent of a node; false at the root.
func (t *Tree) Parent(n Node) (Node, bool) {
	if n.IsRank() {
		return t.rankUp[n.Index], true
	}
	return t.up[n.Index], n.Index != t.root
}

// Neighbours of switch s: its children, then its parent if it has one.
func (t *Tree) Neighbours(s int) []Node {
	n := t.Children(s)
	if p, ok := t.Parent(Switch(s)); ok {
		n = append(n, p)
	}
	return n
}

// Toward is the neighbour of switch s on the path to rank r.
func (t *Tree) Toward(s, r int) Node {
	n := Rank(r)
	for {
		p, ok := t.Parent(n)
		if p == Switch(s) && ok {
			return n
		}
		if !ok {
			// r is not below s, so the path leaves s through its parent.
			up, _ := t.Parent(Switch(s))
			return up
		}
		n = p
	}
}
