package stream

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/epic-inc/epic/golden/roce"
)

// Counts are what is known of the frames of one flow, or of all.
type Counts struct {
	Sent       uint64 `json:"sent"`
	Received   uint64 `json:"received"`   // of those that were sent, whole and unchanged
	Lost       uint64 `json:"lost"`       // never came
	Duplicated uint64 `json:"duplicated"` // came once more
	Reordered  uint64 `json:"reordered"`  // came after one of the flow that was sent later
}

func (c *Counts) add(d Counts) {
	c.Sent += d.Sent
	c.Received += d.Received
	c.Lost += d.Lost
	c.Duplicated += d.Duplicated
	c.Reordered += d.Reordered
}

// Flow is the frames of one connection in one direction; those that are not RoCE are one flow without name.
type Flow struct {
	Name string `json:"name"` // source > destination, and the destination QPN
	Counts
}

// checker knows the frames that are played again and again, and recognises them as they come back. The place of a frame in
// its flow is its sequence number, which goes round with every pass: what comes is ahead or late by serial arithmetic, late
// within a quarter of the flow. So more than three quarters of a flow lost in a row are taken for frames that come late.
type checker struct {
	seed   maphash.Seed
	frames [][]byte
	first  map[uint64]int // by hash: index + 1 of a frame
	same   []int          // of each frame: index + 1 of another with its hash
	flowOf []*flow
	place  []int // of each frame in its flow
	flows  []*flow
	// received is how many different ones came, of all flows.
	received uint64
}

type flow struct {
	name   string
	frames []int   // indices
	latest int64   // the furthest that came: passes * len(frames) + place; -1 before
	seen   []int64 // of each place: the furthest of it that came, or -1
	Counts
}

func newChecker(frames [][]byte) *checker {
	c := &checker{seed: maphash.MakeSeed(), frames: frames, first: map[uint64]int{}, same: make([]int, len(frames)),
		flowOf: make([]*flow, len(frames)), place: make([]int, len(frames))}
	byName := map[string]*flow{}
	for i, frame := range frames {
		h := maphash.Bytes(c.seed, frame)
		c.same[i] = c.first[h]
		c.first[h] = i + 1
		name := flowName(frame)
		f := byName[name]
		if f == nil {
			f = &flow{name: name, latest: -1}
			byName[name] = f
			c.flows = append(c.flows, f)
		}
		c.flowOf[i], c.place[i] = f, len(f.frames)
		f.frames, f.seen = append(f.frames, i), append(f.seen, -1)
	}
	return c
}

// flowName says which flow a frame is of.
func flowName(frame []byte) string {
	if pkt, malformed := roce.Decode(frame); malformed == nil {
		return fmt.Sprintf("%v > %v QPN 0x%06x", pkt.Src, pkt.Dst, pkt.DestQP)
	}
	return "other"
}

// take counts a frame that came; false: it is none of those that were sent.
func (c *checker) take(frame []byte) bool {
	best, bestAt, bestCame := -1, int64(0), false
	for i := c.first[maphash.Bytes(c.seed, frame)]; i != 0; i = c.same[i-1] {
		if !bytes.Equal(c.frames[i-1], frame) {
			continue
		}
		// Of frames that are the same it is the one that is due next, or else the first that has not come.
		f, place := c.flowOf[i-1], c.place[i-1]
		at := f.at(place)
		if at == f.latest+1 {
			best, bestAt = i-1, at
			break
		}
		came := f.came(place, at)
		if best < 0 || bestCame && !came || bestCame == came && at < bestAt {
			best, bestAt, bestCame = i-1, at, came
		}
	}
	if best < 0 {
		return false
	}
	if c.flowOf[best].take(c.place[best], bestAt) {
		c.received++
	}
	return true
}

// at is which frame of the flow, counted over all passes, one at a place is.
func (f *flow) at(place int) int64 {
	n := int64(len(f.frames))
	ahead := ((int64(place)-f.latest-1)%n + n) % n
	if at := f.latest + 1 + ahead - n; n-ahead <= n/4 && at >= 0 {
		return at
	}
	return f.latest + 1 + ahead
}

func (f *flow) came(place int, at int64) bool { return f.seen[place] == at }

// take counts a frame; false: it came before.
func (f *flow) take(place int, at int64) bool {
	if f.came(place, at) {
		f.Duplicated++
		return false
	}
	if at < f.latest {
		f.Reordered++
	}
	f.Received++
	f.latest = max(f.latest, at)
	f.seen[place] = at
	return true
}

// finish says how things are when so many frames were played.
func (c *checker) finish(sent uint64) (all Counts, flows []Flow) {
	passes, rest := sent/uint64(len(c.frames)), int(sent%uint64(len(c.frames)))
	for _, f := range c.flows {
		within, _ := slices.BinarySearch(f.frames, rest)
		f.Sent = passes*uint64(len(f.frames)) + uint64(within)
		f.Lost = f.Sent - min(f.Sent, f.Received)
		all.add(f.Counts)
		flows = append(flows, Flow{Name: f.name, Counts: f.Counts})
	}
	return all, flows
}
