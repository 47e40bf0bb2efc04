package explore

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// Ranks at one switch that do the same are interchangeable: what can happen to one can happen to the other, so of the
// states that differ only in who is who one will do. Nobody has to say what a state of an engine looks like after its
// ports were exchanged: it is the one that the engine comes to if all that led there happens at the other ports. So the
// image of a state is found by walking the automata, and that it is well defined, for every way that leads there, is
// checked when the search is done.

// permutation exchanges ranks, and with them channels and the ports of their switch.
type permutation struct {
	nodes    []int
	channels []int
	ports    []map[int]int // of each node: where what was at a port is now; what is not in it stays
	// Images that were found, so that the way to a state is walked once: of the states of each node, of the frames of
	// each channel. The unfolding's lock guards them.
	states []map[uint32]uint32
	frames []map[uint8]uint8
}

var errNotAlike = errors.New("ranks are not interchangeable")

// maxPermutations is the most of which a search takes the least image: more cost more than they save.
const maxPermutations = 24

// permutations are those of equal ranks, without the one that changes nothing. None in Mode-I, which adds in the order of
// endpoints, and where a link has several queue pairs.
func (m *model) permutations() []permutation {
	if m.Mode == 1 || m.subgroups > 1 {
		return nil
	}
	siblings := map[int][]int{} // of each switch: channels to its ranks that are alike
	for _, c := range m.channels {
		if m.alike[c.to] {
			siblings[c.from] = append(siblings[c.from], c.index)
		}
	}
	all := [][]int{nil} // where each channel to a rank goes; nil: nothing is exchanged
	all[0] = identity(len(m.channels))
	for sw := range m.automata {
		var more [][]int
		for _, order := range orders(siblings[sw]) {
			for _, p := range all {
				q := slices.Clone(p)
				for i, from := range siblings[sw] {
					q[from], q[m.channels[from].back] = order[i], m.channels[order[i]].back
				}
				more = append(more, q)
			}
		}
		if len(more) > maxPermutations {
			break
		}
		if len(more) > 0 {
			all = more
		}
	}
	var out []permutation
	for _, channels := range all[1:] {
		p := permutation{channels: channels, nodes: identity(m.nodes), ports: make([]map[int]int, m.nodes),
			states: make([]map[uint32]uint32, m.nodes), frames: make([]map[uint8]uint8, len(m.channels))}
		for i := range p.ports {
			p.ports[i], p.states[i] = map[int]int{}, map[uint32]uint32{}
		}
		for i := range p.frames {
			p.frames[i] = map[uint8]uint8{}
		}
		for _, c := range m.channels {
			to := m.channels[channels[c.index]]
			p.nodes[c.to] = to.to
			p.ports[c.to][c.toPort] = to.toPort
		}
		out = append(out, p)
	}
	return out
}

func identity(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// orders are all orders of some numbers, the given one first; none of none.
func orders(of []int) (all [][]int) {
	switch len(of) {
	case 0:
		return nil
	case 1:
		return [][]int{{of[0]}}
	}
	for i := range of {
		rest := append(slices.Clone(of[:i]), of[i+1:]...)
		for _, o := range orders(rest) {
			all = append(all, append([]int{of[i]}, o...))
		}
	}
	return all
}

// image of a state of a node.
func (u *unfolding) image(p *permutation, node int, state uint32) uint32 {
	l := u.automata[node].states[state]
	if !l.reached {
		return 0 // the first
	}
	image, known := p.states[node][state]
	if !known {
		image = u.imageMove(p, node, l.from, l.why).to
		p.states[node][state] = image
	}
	return image
}

// imageMove is what happens in the image of a state instead of a transition.
func (u *unfolding) imageMove(p *permutation, node int, state uint32, why cause) *transition {
	to, from := p.nodes[node], u.image(p, node, state)
	if !why.own() {
		f, ok := u.imageFrame(p, why.channel(), uint8(why.n()))
		if !ok {
			return &transition{err: errNotAlike}
		}
		return u.moveLocked(to, from, takes(p.channels[why.channel()], f))
	}
	a := u.automata[node].states[state].own[why.n()]
	a.port = p.port(node, a.port)
	for n, b := range u.automata[to].states[from].own {
		if b.port == a.port && b.kind == a.kind {
			return u.moveLocked(to, from, acts(n))
		}
	}
	return &transition{err: errNotAlike}
}

func (p *permutation) port(node, port int) int {
	if q, moved := p.ports[node][port]; moved {
		return q
	}
	return port
}

// imageFrame is the frame that is sent into the image of a channel when this one is sent into the channel; false if none is.
func (u *unfolding) imageFrame(p *permutation, channel int, f uint8) (uint8, bool) {
	x := &u.channels[channel].frames[f]
	if !x.sent {
		to := u.channels[p.channels[channel]] // at the start equal ranks send the same
		return f, int(f) < to.used && !to.frames[f].sent
	}
	if image, known := p.frames[channel][f]; known {
		return image, true
	}
	t := u.imageMove(p, u.channels[channel].from, x.from, x.why)
	nth := 0
	for _, s := range t.sends {
		if int(s.channel) == p.channels[channel] {
			if nth == x.nth {
				p.frames[channel][f] = s.frame
				return s.frame, true
			}
			nth++
		}
	}
	return 0, false
}

// checkImages says whether the images are what they have to be: each transition of an automaton has one, between the images
// of its states, which sends the images of its frames.
func (u *unfolding) checkImages(ps []permutation) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	type key struct {
		node  int
		state uint32
		why   cause
	}
	var all []key
	for node, a := range u.automata {
		for k := range a.moves {
			all = append(all, key{node, uint32(k >> 32), cause(k)})
		}
	}
	for i := range ps {
		p := &ps[i]
		for _, k := range all {
			t := u.automata[k.node].moves[uint64(k.state)<<32|uint64(k.why)]
			im := u.imageMove(p, k.node, k.state, k.why)
			want := make([]sent, len(t.sends))
			for n, s := range t.sends {
				f, ok := u.imageFrame(p, int(s.channel), s.frame)
				if !ok {
					return errNotAlike
				}
				want[n] = sent{uint16(p.channels[s.channel]), f}
			}
			if (t.err == nil) != (im.err == nil) || im.to != u.image(p, k.node, t.to) || !sameSends(want, im.sends) {
				return fmt.Errorf("%s: in state %d: %w", u.automata[k.node].name, k.state, errNotAlike)
			}
		}
	}
	return nil
}

func sameSends(a, b []sent) bool {
	less := func(x, y sent) int {
		if x.channel != y.channel {
			return int(x.channel) - int(y.channel)
		}
		return int(x.frame) - int(y.frame)
	}
	a, b = slices.Clone(a), slices.Clone(b)
	slices.SortFunc(a, less)
	slices.SortFunc(b, less)
	return slices.Equal(a, b)
}

// images are what a worker knows of a permutation.
type images struct {
	p      *permutation
	states [][]uint32 // of each node: number + 1 of a state's image; 0: not known
	frames [][maxFrames]uint8
	known  []uint64 // of each channel: frames whose image is known
	image  []uint64 // of the state that is looked at
}

func newImages(m *model, p *permutation) *images {
	return &images{p: p, states: make([][]uint32, m.nodes), frames: make([][maxFrames]uint8, len(m.channels)),
		known: make([]uint64, len(m.channels)), image: make([]uint64, m.words)}
}

// nodesOf puts the nodes of the image of s into im.image.
func (im *images) nodesOf(w *worker, s []uint64) {
	clear(im.image[:w.nodeWords()])
	for node := range w.nodes {
		state := w.node(s, node)
		for int(state) >= len(im.states[node]) {
			im.states[node] = append(im.states[node], 0)
		}
		if im.states[node][state] == 0 {
			w.unfolding.mu.Lock()
			im.states[node][state] = w.unfolding.image(im.p, node, state) + 1
			w.unfolding.mu.Unlock()
		}
		w.setNode(im.image, im.p.nodes[node], im.states[node][state]-1)
	}
}

// channelsOf puts the channels of the image of s into im.image.
func (im *images) channelsOf(w *worker, s []uint64) {
	for c := range w.channels {
		var set uint64
		for rest := *w.channelWord(s, c); rest != 0; rest &= rest - 1 {
			f := bits.TrailingZeros64(rest)
			if im.known[c]>>f&1 == 0 {
				w.unfolding.mu.Lock()
				of, ok := w.unfolding.imageFrame(im.p, c, uint8(f))
				w.unfolding.mu.Unlock()
				if !ok {
					w.stop(errNotAlike)
				}
				im.frames[c][f] = of
				im.known[c] |= 1 << f
			}
			set |= 1 << im.frames[c][f]
		}
		*w.channelWord(im.image, im.p.channels[c]) = set
	}
	im.image[w.words-1] = s[w.words-1]
}

// least makes s the least of its images: of those whose nodes are least, all together.
func (w *worker) least(s []uint64) {
	n := w.nodeWords()
	least := s
	for _, im := range w.images {
		im.nodesOf(w, s)
		if slices.Compare(im.image[:n], least[:n]) < 0 {
			least = im.image
		}
	}
	best := append(w.best[:0], least[:n]...)
	w.best = best
	same := slices.Equal(s[:n], best)
	joined := append(w.joined[:0], s...)
	w.joined = joined
	if !same {
		clear(joined[n:])
	}
	for _, im := range w.images {
		if slices.Equal(im.image[:n], best) {
			im.channelsOf(w, s)
			for i := n; i < len(joined); i++ {
				joined[i] |= im.image[i]
			}
		}
	}
	copy(s, best)
	copy(s[n:], joined[n:])
}
