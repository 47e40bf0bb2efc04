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
	slot  int
	start bool
	bank  int // visible copy: read; the other is written
	data  []byte
}

// TestAggregate adds random contributions to slots. Half of the slots are filled while the results of the other half are
// read for sending, in turn. Frames of one slot follow each other as closely as they may, those of others with no pause.
func TestAggregate(t *testing.T) {
	const slotBeats = 4
	const gap = 2 // clocks between the last beat of a frame and the first of the next of that slot, at least
	each(t, Aggregate, map[int]string{0: "data_t", 1: "slot_read_t", 8: "beat_t", 9: "slot_read_t"}, func(r *run) {
		slots := blocks * 2048 / r.width / slotBeats
		n := r.beatBytes()
		sums := make([][]byte, slots) // what golden says a slot holds
		flip := make([]int, slots)
		type beat struct {
			start bool
			bank  int
		}
		var reads []int // places of the reads asked for, in order
		var wants [][]byte
		beats := map[int]beat{} // by clock
		var waits []Event
		var recent []int // slots of the latest frames

		for phase := range 6 {
			mine := func(s int) bool { return s%2 == phase%2 }
			for range 150 {
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
				if r.chance(20) {
					for i := range c.data {
						c.data[i] = 0xff
					}
				}
				for b := range length {
					pause := 0
					if b == 0 && slices.Contains(recent, slot) {
						pause = gap
					}
					if b == 0 && r.chance(30) {
						pause += r.below(4)
					}
					r.Push(8, pause, r.New(8).SetBool("start", c.start).Set("bank", uint64(c.bank)).
						Set("addr", uint64(slot*slotBeats+b)).SetWords("data", words(c.data[b*n:(b+1)*n])))
				}
				recent = append(recent[max(0, len(recent)-gap):], slot)
				if r.chance(15) {
					continue // its end was bad: the visible copy stays, nobody may see what it wrote
				}
				if c.start {
					sums[slot] = c.data
				} else {
					sum := slices.Clone(sums[slot])
					require.NoError(r.t, reduce.Accumulate(spec.DTypeInt32, spec.OpSum, sum, c.data))
					sums[slot] = sum
				}
				flip[slot] ^= 1
			}
			for range 150 {
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
			for _, ev := range r.drain(20_000, 4) {
				switch ev.Stream {
				case 0:
					require.True(r.t, taken[ev.Clock-1], "clock %d: data without a read before", ev.Clock)
					if got := ev.GetWords("data"); !slices.Equal(got, words(wants[0])) {
						r.fail(ev, "beat %d: got %08x, want %08x", reads[0], got, words(wants[0]))
					}
					wants, reads = wants[1:], reads[1:]
				case 1:
					waits = append(waits, ev)
				case 8:
					beats[ev.Clock] = beat{ev.Get("start") != 0, int(ev.Get("bank"))}
				case 9:
					taken[ev.Clock] = true
				}
			}
			require.Empty(r.t, wants, "reads without data")
		}

		// A read waits only where both ports of its bank are taken: a sum is written two clocks after its beat, into
		// the bank that it was not read from, while a beat that adds reads there.
		for _, w := range waits {
			bank := int(w.Get("bank"))
			now, reading := beats[w.Clock]
			before, writing := beats[w.Clock-2]
			if !reading || now.start || now.bank != bank || !writing || before.bank == bank {
				r.fail(w, "a read of bank %d waits though a port is free", bank)
			}
		}
		if r.pacing == pacings[0] {
			require.NotEmpty(r.t, waits, "no conflict of all three came up")
		}
	})
}
