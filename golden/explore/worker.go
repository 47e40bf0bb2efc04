package explore

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/zeebo/xxh3"
)

// row is what a node in a state does with the frames of a channel, as far as anybody asked.
type row struct {
	moves []*transition
	still uint64 // frames that change nothing and bring forth nothing
	stale uint64 // frames that never will again
	asked uint64 // of which stale is known
}

// worker expands states. Its rows are its own, so that it asks the automata, which all share, only once.
type worker struct {
	*search
	rows  [][]*row // of each channel, and then of each node for what it does by itself: by the state of the node
	from  uint32   // the state that is being expanded
	now   []uint64 // likewise
	next  []uint64 // the state after a step of it
	bytes []byte
	count uint64 // transitions not added up yet

	images       []*images
	best, joined []uint64
	rotated      []uint64

	kindState []uint64
	kindQueue []sent
}

func newWorker(s *search) *worker {
	return &worker{search: s, rows: make([][]*row, len(s.channels)+s.nodes), next: make([]uint64, s.words), now: make([]uint64, s.words),
		kindState: make([]uint64, s.words)}
}

// row is that of a node in a state, and of one of its channels, or of what it does by itself if that is -1.
func (w *worker) row(node int, state uint32, channel int) *row {
	index := channel
	if channel < 0 {
		index = len(w.channels) + node
	}
	for int(state) >= len(w.rows[index]) {
		w.rows[index] = append(w.rows[index], nil)
	}
	r := w.rows[index][state]
	if r == nil {
		r = &row{}
		if channel < 0 {
			r.moves = make([]*transition, len(w.local(node, state).own))
		}
		w.rows[index][state] = r
	}
	return r
}

func (w *worker) move(r *row, node int, state uint32, why cause) *transition {
	n := why.n()
	for n >= len(r.moves) {
		r.moves = append(r.moves, nil)
	}
	if r.moves[n] == nil {
		t := w.unfolding.move(node, state, why)
		r.moves[n] = t
		if t.err == nil && t.to == state && len(t.sends) == 0 && !why.own() {
			r.still |= 1 << n
		}
	}
	return r.moves[n]
}

// each calls visit for every step of w.now that changes something, with the state after it in w.next.
func (w *worker) each(visit func(step)) {
	for node := range w.nodes {
		state := w.node(w.now, node)
		for _, c := range w.inputs[node] {
			word := *w.channelWord(w.now, c)
			if word == 0 {
				continue
			}
			r := w.row(node, state, c)
			if w.bounded() {
				w.eachOfQueue(node, state, c, word, r, visit)
				continue
			}
			for rest := word &^ r.still; rest != 0; rest &= rest - 1 {
				why := step{takes(c, uint8(bits.TrailingZeros64(rest))), uint8(node), arrives}
				w.after(w.move(r, node, state, why.why), why, nil, visit)
			}
		}
		r := w.row(node, state, -1)
		for n := range r.moves {
			why := step{acts(n), uint8(node), arrives}
			if w.bounded() {
				if a := w.local(node, state).own[n]; a.timer && !w.quiet(w.now, node, a.port) {
					continue
				}
			}
			w.after(w.move(r, node, state, why.why), why, nil, visit)
		}
	}
}

// eachOfQueue is all that may become of the frames of a queue.
func (w *worker) eachOfQueue(node int, state uint32, c int, q uint64, r *row, visit func(step)) {
	loss, dup := w.budget(w.now)
	for i := range min(queueLen(q), w.Reorder+1) {
		f := queueAt(q, i)
		rest := queueDrop(q, i)
		why := func(k fate) step { return step{takes(c, f), uint8(node), k.at(i)} }
		t := w.move(r, node, state, takes(c, f))
		w.after(t, why(arrives), func(s []uint64) { *w.channelWord(s, c) = rest }, visit)
		if loss > 0 {
			w.after(nil, why(isLost), func(s []uint64) {
				*w.channelWord(s, c) = rest
				w.setBudget(s, loss-1, dup)
			}, visit)
		}
		if dup > 0 {
			w.after(t, why(isRepeated), func(s []uint64) { w.setBudget(s, loss, dup-1) }, visit)
			if queueLen(q) > i+1 {
				w.after(t, why(isPutOffLate), func(s []uint64) {
					*w.channelWord(s, c) = queueAdd(rest, f)
					w.setBudget(s, loss, dup-1)
				}, visit)
			}
		}
	}
}

// after does a step of w.now: what the channel does, then the node.
func (w *worker) after(t *transition, why step, channel func([]uint64), visit func(step)) {
	if t != nil && t.err != nil {
		w.violation(found{w.from, why, t.err})
		return
	}
	copy(w.next, w.now)
	if channel != nil {
		channel(w.next)
	}
	if t != nil {
		w.setNode(w.next, int(why.node), t.to)
		for _, x := range t.sends {
			if err := w.put(w.next, x); err != nil {
				w.stop(err)
				return
			}
		}
		if !w.bounded() {
			w.forget(int(why.node), t)
		}
	}
	if !slices.Equal(w.next, w.now) {
		w.count++
		visit(why)
	}
}

// forget takes out what is stale: at the node that has moved, and of what it has sent. States that differ in nothing else
// go on alike, so one of them will do.
func (w *worker) forget(node int, t *transition) {
	for _, c := range w.inputs[node] {
		w.forgetIn(c)
	}
	for _, x := range t.sends {
		w.forgetIn(int(x.channel))
	}
}

func (w *worker) forgetIn(c int) {
	word := w.channelWord(w.next, c)
	if *word == 0 {
		return
	}
	to := w.channels[c].to
	state := w.node(w.next, to)
	r := w.row(to, state, c)
	for rest := *word &^ r.asked; rest != 0; rest &= rest - 1 {
		f := bits.TrailingZeros64(rest)
		r.asked |= 1 << f
		if w.isStale(to, state, c, f) {
			r.stale |= 1 << f
		}
	}
	*word &^= r.stale
}

// hash is that of some words of a state.
func (w *worker) hash(words []uint64) xxh3.Uint128 {
	b := w.bytes[:0]
	for _, x := range words {
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	w.bytes = b
	return xxh3.Hash128(b)
}
