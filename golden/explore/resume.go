package explore

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/zeebo/xxh3"
)

// That the end can be reached from every state (protocol.md 8.3) is asked of what is worst: all frames that are on their
// way are lost. From where the nodes are then, timers and all that comes of them must lead to the end. One way is enough,
// so a kind network is tried first: it delivers everything, once and in order. A vector of nodes from which the end can be
// reached with nothing on its way is good; what comes to a good vector with something on its way can lose it, and is good too.

// resume is the search for the ends.
type resume struct {
	*search
	seen   *visited                // of vectors
	vector func(n uint32) []uint64 // the words of one
	good   []atomic.Bool
}

// A kind network is given up when all timers have run out so often, or so many frames have arrived: in an engine that is
// wrong they may go to and fro for ever.
const (
	kindRounds = 64
	kindFrames = 512
)

// resume asks of all vectors, the last found first: its successors are known by then.
func (s *search) resume(ctx context.Context, workers []*worker, seen *visited, vector func(uint32) []uint64) (*Result, error) {
	r := &resume{search: s, seen: seen, vector: vector, good: make([]atomic.Bool, seen.states())}
	r.all(ctx, workers)
	for n := range r.good { // what is left: the first is the nearest
		if r.good[n].Load() || ctx.Err() != nil {
			continue
		}
		if s.kind == Merged { // the exact search will tell
			return s.result(Unreachable), nil
		}
		if !r.any(ctx, workers[0], uint32(n)) && ctx.Err() == nil {
			k, _ := seen.came(uint32(n))
			return s.stuck(Unreachable, k), nil
		}
		r.good[n].Store(true)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.result(Pass), nil
}

// all tries the kind network from all vectors.
func (r *resume) all(ctx context.Context, workers []*worker) {
	var next atomic.Int64
	next.Store(int64(len(r.good)))
	r.parallel(workers, func(_ int, w *worker) {
		for ctx.Err() == nil {
			to := next.Add(-chunk) + chunk
			if to <= 0 {
				return
			}
			for n := to - 1; n >= max(0, to-chunk); n-- {
				if r.kind(w, uint32(n)) {
					r.good[n].Store(true)
				}
			}
		}
	})
}

// arrived says whether the end can be reached from a state, as far as is known.
func (r *resume) arrived(w *worker, s []uint64) bool {
	if r.done(s) {
		return true
	}
	if len(w.images) > 0 {
		s = append(w.rotated[:0], s...)
		w.rotated = s
		w.least(s)
	}
	n, known := r.seen.find(w.hash(s[:r.nodeWords()]))
	return known && r.good[n].Load()
}

// kind tries the network that loses nothing from vector n on.
func (r *resume) kind(w *worker, n uint32) bool {
	s := w.kindState
	clear(s)
	copy(s, r.vector(n)[:r.nodeWords()])
	if r.done(s) {
		return true
	}
	q := w.kindQueue[:0]
	defer func() { w.kindQueue = q[:0] }()
	move := func(node int, m *transition) bool {
		if m.err != nil {
			return false // somebody else reports it, if it can happen
		}
		r.setNode(s, node, m.to)
		q = append(q, m.sends...)
		return true
	}
	for range kindRounds {
		before := slices.Clone(s)
		for node := range r.nodes { // all timers run out that run now
			state := r.node(s, node)
			for k := range r.local(node, state).own {
				now := r.node(s, node)
				if now != state {
					break // the others may not be there any more; there is another round
				}
				if !move(node, w.move(w.row(node, now, -1), node, now, acts(k))) {
					return false
				}
			}
		}
		for frames := 0; len(q) > 0; frames++ {
			if frames == kindFrames {
				return false
			}
			x := q[0]
			q = q[1:]
			c := r.channels[x.channel]
			state := r.node(s, c.to)
			if !move(c.to, w.move(w.row(c.to, state, c.index), c.to, state, takes(c.index, x.frame))) {
				return false
			}
			if r.arrived(w, s) {
				return true
			}
		}
		if r.arrived(w, s) {
			return true
		}
		if slices.Equal(s, before) {
			break
		}
	}
	return false
}

// any looks at everything that can come of vector n with nothing on its way.
func (r *resume) any(ctx context.Context, w *worker, n uint32) bool {
	first := make([]uint64, r.words)
	copy(first, r.vector(n)[:r.nodeWords()])
	seen := map[xxh3.Uint128]bool{w.hash(first): true}
	todo := [][]uint64{first}
	for len(todo) > 0 && ctx.Err() == nil {
		copy(w.now, todo[0])
		todo = todo[1:]
		if r.arrived(w, w.now) {
			return true
		}
		w.each(func(step) {
			if key := w.hash(w.next); !seen[key] {
				seen[key] = true
				todo = append(todo, append([]uint64(nil), w.next...))
			}
		})
	}
	return false
}
