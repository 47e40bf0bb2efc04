package explore

import (
	"sync"
	"sync/atomic"

	"github.com/zeebo/xxh3"
)

// A state is remembered by 128 bits of its hash: among 10^9 states the chance that any two share them is 10^-21.

const (
	pageBits = 16
	pageSize = 1 << pageBits
	maxPages = 1 << 15 // 2^31 states
	shardN   = 256
)

// page holds what is kept of pageSize states, in the order of their numbers.
type page struct {
	print  [pageSize]xxh3.Uint128
	parent [pageSize]uint32
	why    [pageSize]step
}

// step is what led to a state: what which node did, and what the channel did with the frame.
type step struct {
	why  cause
	node uint8
	fate fate
}

// visited numbers states. Its methods may be called by several workers at once.
type visited struct {
	pages  [maxPages]atomic.Pointer[page]
	next   atomic.Uint32 // number of the next new state
	shards [shardN]shard
}

type shard struct {
	mu    sync.Mutex
	slots []uint32 // number + 1, 0 if free; a power of two
	used  int
}

func newVisited() *visited {
	v := &visited{}
	for i := range v.shards {
		v.shards[i].slots = make([]uint32, 64)
	}
	return v
}

func (v *visited) page(n uint32) *page {
	p := &v.pages[n>>pageBits]
	if got := p.Load(); got != nil {
		return got
	}
	p.CompareAndSwap(nil, new(page))
	return p.Load()
}

func (v *visited) print(n uint32) xxh3.Uint128 {
	return v.page(n).print[n&(pageSize-1)]
}

// came says how a state was first found, and from which.
func (v *visited) came(n uint32) (uint32, step) {
	p := v.page(n)
	return p.parent[n&(pageSize-1)], p.why[n&(pageSize-1)]
}

// states is how many there are.
func (v *visited) states() uint32 { return v.next.Load() }

// find returns the number of a state, if it has one.
func (v *visited) find(print xxh3.Uint128) (n uint32, known bool) {
	s := &v.shards[print.Hi>>56]
	s.mu.Lock()
	defer s.mu.Unlock()
	mask := uint64(len(s.slots) - 1)
	for i := print.Lo & mask; s.slots[i] != 0; i = (i + 1) & mask {
		if n := s.slots[i] - 1; v.print(n) == print {
			return n, true
		}
	}
	return 0, false
}

// add returns the number of a state, and whether it is new; if it is, it came from parent.
func (v *visited) add(print xxh3.Uint128, parent uint32, why step) (n uint32, fresh bool) {
	s := &v.shards[print.Hi>>56]
	s.mu.Lock()
	defer s.mu.Unlock()
	mask := uint64(len(s.slots) - 1)
	i := print.Lo & mask
	for ; s.slots[i] != 0; i = (i + 1) & mask {
		if n := s.slots[i] - 1; v.print(n) == print {
			return n, false
		}
	}
	n = v.next.Add(1) - 1
	p := v.page(n)
	p.print[n&(pageSize-1)], p.parent[n&(pageSize-1)], p.why[n&(pageSize-1)] = print, parent, why
	s.slots[i] = n + 1
	if s.used++; 4*s.used > 3*len(s.slots) {
		v.grow(s)
	}
	return n, true
}

func (v *visited) grow(s *shard) {
	old := s.slots
	s.slots = make([]uint32, 2*len(old))
	mask := uint64(len(s.slots) - 1)
	for _, n := range old {
		if n == 0 {
			continue
		}
		i := v.print(n-1).Lo & mask
		for s.slots[i] != 0 {
			i = (i + 1) & mask
		}
		s.slots[i] = n
	}
}

// bytes is what the table takes in memory.
func (v *visited) bytes() uint64 {
	pages := uint64(v.states()>>pageBits) + 1
	total := pages * (pageSize * (16 + 4 + 8))
	for i := range v.shards {
		v.shards[i].mu.Lock()
		total += uint64(len(v.shards[i].slots)) * 4
		v.shards[i].mu.Unlock()
	}
	return total
}
