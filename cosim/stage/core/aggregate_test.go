package core

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/reduce"
	"github.com/epic-inc/epic/golden/spec"
)

// contribution is one frame's payload on its way into a slot: its beats come one per clock, or with pauses.
type contribution struct {
	slot           int
	start, compare bool
	bank           int // visible copy: read; the other is written
	data           []byte
}

// distance is how many clocks after a beat the same place may be read, as inc_pkg::sum_distance says.
func distance(d reduction, compare bool) int { return d.latency(compare) + 2 }

// TestAggregate adds random contributions to slots. Half of the slots are filled while the results of the other half are
// read for sending, in turn; each phase has another type and operator. Frames of one slot follow each other as closely as
// they may, those of others with no pause. Every sum must come out as it is written, in its clock.
func TestAggregate(t *testing.T) {
	const slotBeats = 4
	streams := map[int]string{0: "data_t", 1: "slot_read_t", 2: "sum_t", 8: "beat_t", 9: "slot_read_t"}
	each(t, Aggregate, streams, func(r *run) {
		slots := blocks * 2048 / r.width / slotBeats
		n := r.beatBytes()
		sums := make([][]byte, slots) // what golden says a slot holds
		flip := make([]int, slots)
		type write struct {
			of         reduction
			bank, addr int
			last       bool
			data       []byte
			diff       []uint32
			after      int // clocks
		}
		var reads []int // places of the reads asked for, in order
		var wants [][]byte
		var writes []write
		var entered []int           // clocks of the beats
		beats := map[int]int{}      // bank of each, by clock
		writing := map[int]int{}    // bank by clock
		written := map[[2]int]int{} // bank and place: the soonest clock that may read it
		now, free := 0, 0           // clocks if no source pauses by itself; from free on any beat may come
		var waits []Event
		done := 0

		for phase, d := range []reduction{
			{spec.DTypeInt32, spec.OpSum}, {spec.DTypeFloat32, spec.OpSum}, {spec.DTypeInt8, spec.OpSum}, {spec.DTypeInt64, spec.OpMax},
			{spec.DTypeFloat16, spec.OpSum}, {spec.DTypeUint32, spec.OpXor}, {spec.DTypeBfloat16, spec.OpMin}, {spec.DTypeInt64, spec.OpSum},
		} {
			mine := func(s int) bool { return s%2 == phase%2 }
			for range 120 {
				slot := r.below(slots / 2 * 2)
				if !mine(slot) {
					slot ^= 1
				}
				if r.chance(40) { // the same slot again: the closest legal distance matters there
					slot = phase % 2
				}
				// Shorter ones too: one beat is the frame that follows itself soonest.
				length := 1 + r.below(slotBeats)
				if sums[slot] != nil {
					length = len(sums[slot]) / n
				}
				c := contribution{slot: slot, start: sums[slot] == nil || r.chance(25), bank: flip[slot], data: r.bytes(length * n)}
				c.compare = !c.start && r.chance(10)
				if r.chance(20) {
					for i := range c.data {
						c.data[i] = 0xff
					}
				}
				if c.compare {
					copy(c.data, sums[slot][:r.below(len(c.data)+1)])
				}
				sum := c.data
				switch {
				case c.compare:
					sum = sums[slot]
				case !c.start:
					sum = slices.Clone(sums[slot])
					require.NoError(r.t, reduce.Accumulate(d.dtype, d.op, sum, c.data))
				}
				latency := d.latency(c.compare)
				for b := range length {
					pause := 0
					if b == 0 && r.chance(30) {
						pause = r.below(4)
					}
					addr := slot*slotBeats + b
					if !c.start {
						pause = max(pause, written[[2]int{c.bank, addr}]-now)
					}
					if latency < 6 {
						pause = max(pause, free-now)
					}
					if latency == 1 && len(writes) > 0 && writes[len(writes)-1].after == 3 {
						pause = max(pause, 1)
					}
					now += pause
					written[[2]int{c.bank ^ 1, addr}] = now + distance(d, c.compare)
					if latency == 6 {
						free = now + 6
					}
					now++
					w := write{of: d, bank: c.bank ^ 1, addr: addr, last: b == length-1, data: sum[b*n : (b+1)*n],
						diff: make([]uint32, (n/4+31)/32), after: latency + 1}
					if c.compare {
						for i := range n / 4 {
							if !slices.Equal(w.data[4*i:4*i+4], c.data[b*n+4*i:b*n+4*i+4]) {
								w.diff[i/32] |= 1 << (i % 32)
							}
						}
					}
					writes = append(writes, w)
					r.Push(8, pause, r.New(8).SetBool("start", c.start).SetBool("compare", c.compare).Set("bank", uint64(c.bank)).
						Set("dtype", uint64(d.dtype)).Set("op", uint64(d.op)).SetBool("last", w.last).
						Set("addr", uint64(addr)).SetWords("data", words(c.data[b*n:(b+1)*n])))
				}
				if r.chance(15) {
					continue // its end was bad: the visible copy stays, nobody may see what it wrote
				}
				sums[slot] = sum
				flip[slot] ^= 1
			}
			for range 120 {
				slot := r.below(slots)
				if mine(slot) || sums[slot] == nil {
					continue
				}
				for b := range len(sums[slot]) / n {
					r.Push(9, 0, r.New(9).Set("bank", uint64(flip[slot])).Set("addr", uint64(slot*slotBeats+b)))
					reads = append(reads, slot*slotBeats+b)
					wants = append(wants, sums[slot][b*n:(b+1)*n])
				}
			}
			taken := map[int]bool{} // clocks in which a read was taken
			for _, ev := range r.drain(20_000, 12) {
				switch ev.Stream {
				case 0:
					require.True(r.t, taken[ev.Clock-1], "clock %d: data without a read before", ev.Clock)
					if got := ev.GetWords("data"); !slices.Equal(got, words(wants[0])) {
						r.fail(ev, "beat %d: got %08x, want %08x", reads[0], got, words(wants[0]))
					}
					wants, reads = wants[1:], reads[1:]
				case 1:
					waits = append(waits, ev)
				case 2:
					w := writes[done]
					writing[ev.Clock] = w.bank
					if got := ev.Clock - entered[done]; got != w.after {
						r.fail(ev, "sum %d, %v: %d clocks after its beat, want %d", done, w.of, got, w.after)
					}
					if ev.Get("bank") != uint64(w.bank) || ev.Get("addr") != uint64(w.addr) || (ev.Get("last") != 0) != w.last {
						r.fail(ev, "sum %d, %v: got bank %d, place %d, last %d; want bank %d, place %d, last %v", done, w.of, ev.Get("bank"),
							ev.Get("addr"), ev.Get("last"), w.bank, w.addr, w.last)
					}
					if got := ev.GetWords("data"); !slices.Equal(got, words(w.data)) {
						r.fail(ev, "sum %d, %v: got %08x, want %08x", done, w.of, got, words(w.data))
					}
					if got := ev.GetWords("diff"); !slices.Equal(got, w.diff) {
						r.fail(ev, "sum %d, %v: words %x differ, want %x", done, w.of, got, w.diff)
					}
					done++
				case 8:
					beats[ev.Clock] = int(ev.Get("bank"))
					entered = append(entered, ev.Clock)
				case 9:
					taken[ev.Clock] = true
				}
			}
			require.Empty(r.t, wants, "reads without data")
			require.Equal(r.t, len(writes), done, "sums")
		}

		// A read waits only where both ports of its bank are taken: a sum is written into it while a beat claims to read
		// there, even one that starts a slot.
		for _, w := range waits {
			bank := int(w.Get("bank"))
			now, reading := beats[w.Clock]
			to, writes := writing[w.Clock]
			if !reading || now != bank || !writes || to != bank {
				r.fail(w, "a read of bank %d waits though a port is free", bank)
			}
		}
		if r.pacing == pacings[0] {
			require.NotEmpty(r.t, waits, "no conflict of all three came up")
		}
	})
}
