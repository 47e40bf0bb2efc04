package explore

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The merged search takes states that differ only in which frames were ever sent for one, with all of them. That allows
// more than can happen, never less: what it finds nothing wrong with is right, and what it finds wrong is looked for again
// by the exact search. An ACK or NAK tells how far its sender was, and the states that are merged agree on how far
// everybody is; so a right protocol has nothing to fear from the frames of another history.

// merged is a search over the vectors of the nodes' states.
type merged struct {
	*search
	pages   [maxPages]atomic.Pointer[[]uint64] // of each vector its words, then those of its channels
	pagesMu sync.Mutex
	locks   [1024]sync.Mutex // of vectors, by number
	dirty   [maxPages]atomic.Pointer[[pageSize]bool]
}

// vector returns the words of vector n. Those of its channels are read and written under its lock.
func (m *merged) vector(n uint32) []uint64 {
	p := m.pages[n>>pageBits].Load()
	if p == nil {
		m.pagesMu.Lock()
		if p = m.pages[n>>pageBits].Load(); p == nil {
			fresh := make([]uint64, pageSize*m.words)
			p = &fresh
			m.dirty[n>>pageBits].Store(new([pageSize]bool))
			m.pages[n>>pageBits].Store(p)
		}
		m.pagesMu.Unlock()
	}
	at := int(n&(pageSize-1)) * m.words
	return (*p)[at : at+m.words : at+m.words]
}

func (m *merged) lock(n uint32) *sync.Mutex { return &m.locks[n%uint32(len(m.locks))] }

// nodeWords is how many of a state's words say where the nodes are; those of the channels follow.
func (m *model) nodeWords() int { return (m.nodes + 1) / 2 }

// merge adds w.next to the vector of its nodes, and says whether there is now more to do there.
func (m *merged) merge(w *worker, from uint32, why step) (n uint32, more bool) {
	s := w.next
	w.least(s)
	n, isNew := m.seen.add(w.hash(s[:m.nodeWords()]), from, why)
	v := m.vector(n)
	l := m.lock(n)
	l.Lock()
	defer l.Unlock()
	if isNew {
		copy(v, s[:m.nodeWords()])
	}
	grown := isNew
	for i := m.nodeWords(); i < m.words; i++ {
		if s[i]&^v[i] != 0 {
			v[i] |= s[i]
			grown = true
		}
	}
	d := &m.dirty[n>>pageBits].Load()[n&(pageSize-1)]
	if !grown || *d {
		return n, false
	}
	*d = true
	return n, true
}

func newMerged(s *search) *merged {
	m := &merged{search: s}
	s.memory = func() uint64 {
		pages := uint64(s.seen.states()>>pageBits) + 1
		return s.seen.bytes() + pages*pageSize*uint64(8*s.words+1)
	}
	return m
}

// check visits all vectors until no more frames come to any, and then asks of each whether the end can be reached.
func (m *merged) check(ctx context.Context) (*Result, error) {
	stop := m.report(ctx)
	defer stop()
	workers := m.workers()
	var permutations []permutation
	if !m.Distinct {
		permutations = m.permutations()
	}
	for _, w := range workers {
		for i := range permutations {
			w.images = append(w.images, newImages(m.model, &permutations[i]))
		}
	}
	todo := []uint32{}
	copy(workers[0].next, m.model.start)
	if n, more := m.merge(workers[0], 0, step{}); more {
		todo = append(todo, n)
	}
	for len(todo) > 0 {
		m.round(len(todo))
		var next atomic.Int64
		found := make([][]uint32, len(workers))
		m.parallel(workers, func(k int, w *worker) {
			for ctx.Err() == nil && !m.failed() {
				from := int(next.Add(chunk)) - chunk
				if from >= len(todo) {
					return
				}
				for _, n := range todo[from:min(len(todo), from+chunk)] {
					found[k] = m.expand(w, n, found[k])
				}
			}
		})
		todo = slices.Concat(found...)
		if err := m.ended(ctx, len(todo) > 0); err != nil {
			return m.outOfMemory(err)
		}
		if len(m.found) > 0 {
			return m.result(Violation), nil // the exact search will tell how
		}
	}
	if err := m.checkImages(permutations); err != nil {
		return nil, err
	}
	r, err := m.resume(ctx, workers, m.seen, m.vector)
	if err != nil || r.Result != Pass {
		return r, err
	}
	return m.measure(ctx, workers, r)
}

// measure counts the steps of the graph as it is now, and how far its furthest vector is from the start. How often a vector was
// visited before that, and when, depends on which worker was faster.
func (m *merged) measure(ctx context.Context, workers []*worker, r *Result) (*Result, error) {
	m.transitions.Store(0)
	met := make([]atomic.Bool, m.seen.states())
	met[0].Store(true)
	depth := -1
	for todo := []uint32{0}; len(todo) > 0; depth++ {
		var next atomic.Int64
		found := make([][]uint32, len(workers))
		m.parallel(workers, func(k int, w *worker) {
			for ctx.Err() == nil {
				from := int(next.Add(chunk)) - chunk
				if from >= len(todo) {
					return
				}
				for _, n := range todo[from:min(len(todo), from+chunk)] {
					copy(w.now, m.vector(n))
					w.each(func(step) {
						w.least(w.next)
						to, known := m.seen.find(w.hash(w.next[:m.nodeWords()]))
						if known && met[to].CompareAndSwap(false, true) {
							found[k] = append(found[k], to)
						}
					})
				}
			}
		})
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		todo = slices.Concat(found...)
	}
	r.Transitions, r.Diameter, r.TimeS = m.transitions.Load(), depth, time.Since(m.start).Seconds()
	return r, nil
}

// expand does all that can happen at vector n, and appends the vectors at which there is more to do now.
func (m *merged) expand(w *worker, n uint32, todo []uint32) []uint32 {
	v, l := m.vector(n), m.lock(n)
	l.Lock()
	m.dirty[n>>pageBits].Load()[n&(pageSize-1)] = false
	copy(w.now, v)
	l.Unlock()
	w.from = n
	w.each(func(why step) {
		if to, more := m.merge(w, n, why); more {
			todo = append(todo, to)
		}
	})
	return todo
}
