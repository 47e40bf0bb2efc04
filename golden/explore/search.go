package explore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Options are how a search is done. They do not change what is found.
type Options struct {
	Workers  int            // 0: as many as processors
	MemoryMB int            // the search stops when it would take more; 0: no bound
	Exact    bool           // no merging, although the channels have no bounds
	Distinct bool           // equal ranks are not taken for each other
	Progress func(Progress) // called once every Tick, by one goroutine at a time
	Tick     time.Duration  // 0: a second
}

// Progress is how far a search has come.
type Progress struct {
	Search              string
	States, Transitions uint64
	Depth               int
	Frontier            int // states that are not expanded yet
	MemoryMB            int
	Elapsed             time.Duration
}

// Verdict is what a search found.
type Verdict string

// The verdicts.
const (
	Pass        Verdict = "pass"        // every state was visited, and all holds
	Violation   Verdict = "violation"   // a step must not have happened
	Unreachable Verdict = "unreachable" // from some state the end cannot be reached
	OutOfMemory Verdict = "memory"      // the bound was reached first
)

// The kinds of search.
const (
	Merged  = "merged"  // channels without bounds; states that differ in what is on its way are one
	Exact   = "exact"   // channels without bounds
	Bounded = "bounded" // channels with bounds
)

// Result is the outcome of a search.
type Result struct {
	Result      Verdict        `json:"result"`
	Search      string         `json:"search"`
	States      uint64         `json:"states"`
	Transitions uint64         `json:"transitions"` // that change the state
	Diameter    int            `json:"diameter"`    // steps from the start to what is furthest
	TimeS       float64        `json:"time_s"`
	MemoryMB    int            `json:"memory_mb"`
	LocalStates map[string]int `json:"local_states"` // of each node
	Reason      string         `json:"reason,omitempty"`
	Trace       *Trace         `json:"-"`
}

// search is what all searches share.
type search struct {
	*model
	Options
	kind        string
	seen        *visited
	memory      func() uint64 // bytes taken
	transitions atomic.Uint64
	start       time.Time

	mu       sync.Mutex
	depth    int
	frontier int
	found    []found // violations of this round
	fail     error
}

// found is a violation: the step of a state that must not happen.
type found struct {
	from uint32
	step step
	err  error
}

// chunk is how many states a worker takes at a time.
const chunk = 128

var errMemory = errors.New("the bound of memory is reached")

// Check searches everything that can happen. An error says that it could not be done, not that something is wrong:
// *group.OptionError for a configuration that cannot be, *TooManyFrames for one that is too large, ctx's error if it ended.
func Check(ctx context.Context, c Config, o Options) (*Result, error) {
	m, err := newModel(c)
	if err != nil {
		return nil, err
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Tick <= 0 {
		o.Tick = time.Second
	}
	start := time.Now()
	if !m.bounded() && !o.Exact {
		r, err := newMerged(newSearch(m, o, Merged, start)).check(ctx)
		if errors.Is(err, errNotAlike) { // a mistake may be one of one port
			o.Distinct = true
			r, err = newMerged(newSearch(m, o, Merged, start)).check(ctx)
		}
		if err != nil || r.Result == Pass || r.Result == OutOfMemory {
			return r, err
		}
	}
	kind := Exact
	if m.bounded() {
		kind = Bounded
	}
	return newExact(newSearch(m, o, kind, start)).check(ctx)
}

func newSearch(m *model, o Options, kind string, start time.Time) *search {
	return &search{model: m, Options: o, kind: kind, seen: newVisited(), start: start}
}

func (s *search) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fail != nil || len(s.found) > 0
}

// round starts another one.
func (s *search) round(frontier int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frontier = frontier
}

// ended ends it; more says that another follows.
func (s *search) ended(ctx context.Context, more bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case s.fail != nil:
		return s.fail
	case s.MemoryMB > 0 && s.memory() > uint64(s.MemoryMB)<<20:
		return errMemory
	}
	if more {
		s.depth++
	}
	return nil
}

// parallel runs f in every worker until all have returned.
func (s *search) parallel(workers []*worker, f func(k int, w *worker)) {
	var wg sync.WaitGroup
	for k, w := range workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			f(k, w)
		}()
	}
	wg.Wait()
	for _, w := range workers {
		s.transitions.Add(w.count)
		w.count = 0
	}
}

func (s *search) workers() []*worker {
	all := make([]*worker, s.Workers)
	for i := range all {
		all[i] = newWorker(s)
	}
	return all
}

func (s *search) violation(f found) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var full *TooManyFrames
	if errors.As(f.err, &full) {
		s.fail = f.err
		return
	}
	s.found = append(s.found, f)
}

func (s *search) stop(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// report calls Progress until it is stopped.
func (s *search) report(ctx context.Context) (stop func()) {
	if s.Progress == nil {
		return func() {}
	}
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		t := time.NewTicker(s.Tick)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-t.C:
				s.mu.Lock()
				p := Progress{Search: s.kind, States: uint64(s.seen.states()), Transitions: s.transitions.Load(), Depth: s.depth,
					Frontier: s.frontier, MemoryMB: int(s.seen.bytes() >> 20), Elapsed: time.Since(s.start)}
				s.mu.Unlock()
				s.Progress(p)
			}
		}
	}()
	return func() { close(done); <-over }
}

func (s *search) result(v Verdict) *Result {
	r := &Result{Result: v, Search: s.kind, States: uint64(s.seen.states()), Transitions: s.transitions.Load(), Diameter: s.depth,
		TimeS: time.Since(s.start).Seconds(), MemoryMB: int(s.memory() >> 20), LocalStates: map[string]int{}}
	for _, a := range s.automata {
		r.LocalStates[a.name] = len(a.states)
	}
	return r
}

// outOfMemory is the result if that is why a round ended.
func (s *search) outOfMemory(err error) (*Result, error) {
	if !errors.Is(err, errMemory) {
		return nil, err
	}
	r := s.result(OutOfMemory)
	r.Reason = fmt.Sprintf("%d MB are taken in round %d, more than the bound of %d", r.MemoryMB, s.depth, s.MemoryMB)
	return r, nil
}

// violated reports the violation whose state was found first.
func (s *search) violated() *Result {
	first := s.found[0]
	for _, f := range s.found[1:] {
		if f.from < first.from {
			first = f
		}
	}
	r := s.result(Violation)
	r.Trace = s.trace(first.from, &first)
	r.Reason = first.err.Error()
	return r
}
