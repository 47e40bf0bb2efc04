package control

import (
	"context"
	"fmt"
	"slices"

	"github.com/epic-inc/epic/driver/control/controlpb"
	"github.com/epic-inc/epic/driver/control/failure"
)

// Placer decides which switches carry a job. It is asked once, when all ranks of the job are there. An error that is a
// failure.Error goes to the ranks as it is; with the kind NO_RESOURCE they do without switches.
type Placer interface {
	Place(ctx context.Context, r PlaceRequest) (*Placement, error)
}

// PlaceRequest is a job that wants switches.
type PlaceRequest struct {
	Job, Tenant string
	Ranks       []Place        // where each rank is
	Free        map[string]Use // of each switch that answers
}

// Place is a port of a switch.
type Place struct {
	Switch string `json:"switch"`
	Port   int    `json:"port"`
}

// Use is what of a switch is taken.
type Use struct {
	Endpoints, Pipes, Blocks                int // taken
	EndpointsOf, PipesOf, BlocksOf, MaxPort int // there are
}

// Placement is a tree of switches. Every rank's switch is one of them, and each has at least two neighbours among
// switches and ranks.
type Placement struct {
	Root     string   `json:"root"`
	Switches []string `json:"switches"`
	Cables   []Cable  `json:"cables"`
}

// Whole is the plain Placer: the network is one tree, and a job has all of it that lies between its ranks. Its root is
// the switch at which the paths to the first switch of the file meet.
type Whole struct {
	names  []string
	up     map[string]string // neighbour towards the first switch
	cables map[string]Cable  // by the lower switch
	depth  map[string]int
}

// NewWhole refuses a network that is no tree.
func NewWhole(n *Network) (*Whole, error) {
	w := &Whole{up: map[string]string{}, cables: map[string]Cable{}, depth: map[string]int{}}
	beside := map[string][]Cable{}
	for _, c := range n.Cables {
		beside[c.Between[0]] = append(beside[c.Between[0]], c)
		beside[c.Between[1]] = append(beside[c.Between[1]], c)
	}
	root := n.Switches[0].Name
	w.depth[root] = 0
	queue := []string{root}
	used := map[Cable]bool{}
	for len(queue) > 0 {
		here := queue[0]
		queue = queue[1:]
		w.names = append(w.names, here)
		for _, c := range beside[here] {
			if used[c] {
				continue
			}
			used[c] = true
			there := c.Between[0]
			if there == here {
				there = c.Between[1]
			}
			if _, seen := w.depth[there]; seen {
				return nil, fmt.Errorf("network: the cable between %s and %s closes a loop, want a tree", here, there)
			}
			w.depth[there], w.up[there], w.cables[there] = w.depth[here]+1, here, c
			queue = append(queue, there)
		}
	}
	for _, s := range n.Switches {
		if _, ok := w.depth[s.Name]; !ok {
			return nil, fmt.Errorf("network: no cables lead from switch %s to %s, want one tree", root, s.Name)
		}
	}
	return w, nil
}

// Place finds the smallest part of the tree that joins the ranks.
func (w *Whole) Place(_ context.Context, r PlaceRequest) (*Placement, error) {
	if len(r.Ranks) == 0 {
		return nil, failure.New(controlpb.Kind_KIND_BAD_REQUEST, nil, "job %s: no ranks to place", r.Job)
	}
	top := r.Ranks[0].Switch
	for _, p := range r.Ranks[1:] {
		top = w.meet(top, p.Switch)
	}
	in := map[string]bool{top: true}
	for _, p := range r.Ranks {
		for s := p.Switch; s != top; s = w.up[s] {
			in[s] = true
		}
	}
	placement := &Placement{Root: top}
	for _, s := range w.names { // from the root downwards
		if !in[s] {
			continue
		}
		placement.Switches = append(placement.Switches, s)
		if s != top {
			placement.Cables = append(placement.Cables, w.cables[s])
		}
	}
	return placement, nil
}

// meet is the first switch that is on the way up from both.
func (w *Whole) meet(a, b string) string {
	for w.depth[a] > w.depth[b] {
		a = w.up[a]
	}
	for w.depth[b] > w.depth[a] {
		b = w.up[b]
	}
	for a != b {
		a, b = w.up[a], w.up[b]
	}
	return a
}

// ends are a cable's port at a switch, and the switch and port at its other end.
func (c Cable) ends(at string) (port int, other string, otherPort int) {
	i := slices.Index(c.Between[:], at)
	return c.Ports[i], c.Between[1-i], c.Ports[1-i]
}
