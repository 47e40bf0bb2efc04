package explore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// exact goes breadth-first over the states as they are, so what it finds is the shortest way there.
type exact struct {
	*search
	blocks    []block // of a bounded search: the whole graph
	edgeBytes uint64
	vectors   *vectors // of one without bounds: where nodes can be together
}

// block is the edges of some states that follow each other.
type block struct {
	first uint32
	count []uint16 // of each state
	to    []uint32
	end   []bool // the state is an end
}

func newExact(s *search) *exact {
	e := &exact{search: s}
	if !s.bounded() {
		e.vectors = &vectors{seen: newVisited(), words: s.nodeWords()}
	}
	s.memory = func() uint64 { return s.seen.bytes() + e.edgeBytes }
	return e
}

func (e *exact) check(ctx context.Context) (*Result, error) {
	stop := e.report(ctx)
	defer stop()
	workers := e.workers()
	n, _ := e.seen.add(workers[0].hash(e.model.start), 0, step{})
	first, words := n, e.model.start
	for len(words) > 0 {
		e.round(len(words) / e.words)
		if e.vectors != nil {
			e.vectors.add(workers[0], first, words, e.words)
		}
		next := &level{words: e.words, first: e.seen.states()}
		e.expand(ctx, workers, first, words, next)
		first, words = next.first, next.all(int(e.seen.states()-next.first))
		if err := e.ended(ctx, len(words) > 0); err != nil {
			return e.outOfMemory(err)
		}
		if len(e.found) > 0 {
			return e.violated(), nil
		}
	}
	if e.bounded() {
		return e.ends(ctx)
	}
	return e.resume(ctx, workers, e.vectors.seen, e.vectors.vector)
}

// expand visits the successors of all states of a level.
func (e *exact) expand(ctx context.Context, workers []*worker, first uint32, words []uint64, into *level) {
	count := len(words) / e.words
	jobs := (count + chunk - 1) / chunk
	blocks := make([]block, jobs)
	var next atomic.Int64
	e.parallel(workers, func(_ int, w *worker) {
		for ctx.Err() == nil && !e.failed() {
			j := int(next.Add(1)) - 1
			if j >= jobs {
				return
			}
			from, to := j*chunk, min(count, (j+1)*chunk)
			b := block{first: first + uint32(from)}
			for i := from; i < to; i++ {
				copy(w.now, words[i*e.words:(i+1)*e.words])
				w.from = first + uint32(i)
				before := len(b.to)
				w.each(func(why step) {
					n, isNew := e.seen.add(w.hash(w.next), w.from, why)
					if isNew {
						into.put(n, w.next)
					}
					if e.bounded() {
						b.to = append(b.to, n)
					}
				})
				if e.bounded() {
					b.count = append(b.count, uint16(len(b.to)-before))
					b.end = append(b.end, w.done(w.now))
				}
			}
			blocks[j] = b
		}
	})
	if e.bounded() {
		e.blocks = append(e.blocks, blocks...)
		for _, b := range blocks {
			e.edgeBytes += uint64(4*cap(b.to) + 2*cap(b.count) + cap(b.end))
		}
	}
}

// level collects the states of the next level at the places of their numbers.
type level struct {
	mu    sync.RWMutex
	words int
	first uint32
	pages [][]uint64
}

const levelPage = 1 << 12

func (l *level) put(n uint32, s []uint64) {
	at := int(n - l.first)
	p := at / levelPage
	l.mu.RLock()
	if p >= len(l.pages) {
		l.mu.RUnlock()
		l.mu.Lock()
		for p >= len(l.pages) {
			l.pages = append(l.pages, make([]uint64, levelPage*l.words))
		}
		l.mu.Unlock()
		l.mu.RLock()
	}
	page := l.pages[p]
	l.mu.RUnlock()
	copy(page[at%levelPage*l.words:], s)
}

func (l *level) all(n int) []uint64 {
	all := make([]uint64, 0, n*l.words)
	for _, p := range l.pages {
		all = append(all, p[:min(len(p), n*l.words-len(all))]...)
	}
	return all
}

// vectors are the states of the nodes that were found together, each with the first state in which they were.
type vectors struct {
	seen  *visited
	words int
	all   []uint64
}

func (v *vectors) add(w *worker, first uint32, states []uint64, words int) {
	for i := range len(states) / words {
		s := states[i*words : i*words+v.words]
		if _, isNew := v.seen.add(w.hash(s), first+uint32(i), step{}); isNew {
			v.all = append(v.all, s...)
		}
	}
}

func (v *vectors) vector(n uint32) []uint64 { return v.all[int(n)*v.words : (int(n)+1)*v.words] }

// ends looks at the whole graph of a bounded search: the end can be reached from every state (protocol.md 8.3).
func (e *exact) ends(ctx context.Context) (*Result, error) {
	good := make([]bool, e.seen.states())
	ends := 0
	for _, b := range e.blocks {
		for i, end := range b.end {
			if end {
				good[b.first+uint32(i)] = true
				ends++
			}
		}
	}
	if ends == 0 {
		return nil, fmt.Errorf("no state is an end, want at least one: nothing was checked")
	}
	// A state is good if one of its successors is. Numbers grow with depth, so going backwards finds most at once.
	for again := true; again; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		again = false
		for k := len(e.blocks) - 1; k >= 0; k-- {
			b := &e.blocks[k]
			at := len(b.to)
			for i := len(b.count) - 1; i >= 0; i-- {
				from := at - int(b.count[i])
				for _, to := range b.to[from:at] {
					if good[to] && !good[b.first+uint32(i)] {
						good[b.first+uint32(i)], again = true, true
					}
				}
				at = from
			}
		}
	}
	for k := range good { // the lowest number is nearest to the start
		if !good[k] {
			return e.stuck(Unreachable, uint32(k)), nil
		}
	}
	return e.result(Pass), nil
}

// stuck is the result of a state from which the run does not end.
func (s *search) stuck(v Verdict, n uint32) *Result {
	r := s.result(v)
	r.Trace = s.trace(n, nil)
	r.Reason = "the end cannot be reached any more: " + r.Trace.Stuck
	return r
}
