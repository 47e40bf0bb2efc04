package core

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

var replicateStreams = map[int]string{0: "pay_t", 1: "slot_read_t", 2: "pulse_t", 8: "read_desc_t", 9: "beat_t"}

// TestReplicate reads slots in the order of their descriptors, also the same one again and again, as for every out.
func TestReplicate(t *testing.T) {
	each(t, Replicate, replicateStreams, func(r *run) {
		total := blocks * 2048 / r.width
		n := r.beatBytes()
		memory := [2][][]byte{}
		for bank := range memory {
			for at := range total {
				memory[bank] = append(memory[bank], r.bytes(n))
				r.Push(9, 0, r.New(9).Set("bank", uint64(bank)).Set("addr", uint64(at)).SetWords("data", words(memory[bank][at])))
			}
		}
		r.Pacing(0, r.pacing.stall)
		r.drain(20_000, 2)
		r.Pacing(r.pacing.idle, r.pacing.stall)

		type descriptor struct{ bank, at, beats int }
		var descs []descriptor
		for range 400 {
			d := descriptor{r.below(2), r.below(total), 0}
			switch r.below(4) {
			case 0: // an ACK: no payload
			case 1:
				d.beats = 1
			default:
				d.beats = 1 + r.below(min(12, total-d.at))
			}
			for range 1 + r.below(3) {
				descs = append(descs, d)
				r.Push(8, 0, r.New(8).Set("bank", uint64(d.bank)).Set("addr", uint64(d.at)).Set("beats", uint64(d.beats)))
			}
		}
		type beat struct {
			descriptor int
			bank, at   int
			last       bool
		}
		var beats []beat
		for i, d := range descs {
			for b := range d.beats {
				beats = append(beats, beat{i, d.bank, d.at + b, b == d.beats-1})
			}
		}
		read, paid, done := 0, 0, 0
		taken := 0                // descriptors
		dones := []int{}          // clocks
		lastRead := map[int]int{} // descriptor to the clock of its last read
		takenAt := []int{}
		for _, ev := range r.drain(40_000, 200) {
			switch ev.Stream {
			case 0:
				b := beats[paid]
				want := r.New(0).SetWords("data", words(memory[b.bank][b.at])).SetBool("last", b.last)
				if !slices.Equal(ev.Words, want.Words) {
					r.fail(ev, "payload %d: got %08x, want %08x", paid, ev.Words, want.Words)
				}
				paid++
			case 1:
				b := beats[read]
				if int(ev.Get("bank")) != b.bank || int(ev.Get("addr")) != b.at {
					r.fail(ev, "read %d: got bank %d beat %d, want bank %d beat %d", read, ev.Get("bank"), ev.Get("addr"), b.bank, b.at)
				}
				if b.last {
					lastRead[b.descriptor] = ev.Clock
				}
				read++
			case 2:
				done++
				dones = append(dones, ev.Clock)
			case 8:
				taken++
				takenAt = append(takenAt, ev.Clock)
			}
		}
		require.Equal(r.t, len(beats), read, "reads")
		require.Equal(r.t, len(beats), paid, "payload beats")
		require.Equal(r.t, len(descs), taken, "descriptors taken")
		require.Equal(r.t, len(descs), done, "done pulses: one for each descriptor")
		ended := 0                // clock of the last read so far
		for i, d := range descs { // no sooner than its last read or, without payload, the last one before it; and soon after it
			if d.beats > 0 {
				ended = lastRead[i]
			}
			from, soon := max(ended, takenAt[i]), 0
			if i > 0 {
				soon = dones[i-1]
			}
			require.GreaterOrEqual(r.t, dones[i], from, "done of descriptor %d came before its last read", i)
			require.LessOrEqual(r.t, dones[i], max(from, soon)+2, "done of descriptor %d came late", i)
		}
	})
}

// TestReplicateRate: with nothing in the way a beat moves in every clock, across descriptors too.
func TestReplicateRate(t *testing.T) {
	each(t, Replicate, replicateStreams, func(r *run) {
		if r.pacing != pacings[0] {
			return
		}
		r.Push(8, 0, r.New(8).Set("beats", 16))
		for range 9 {
			r.Push(8, 0, r.New(8).Set("beats", 16))
		}
		first, last, beats := 0, 0, 0
		for _, ev := range r.drain(2000, 60) {
			if ev.Stream == 0 {
				if beats == 0 {
					first = ev.Clock
				}
				last = ev.Clock
				beats++
			}
		}
		require.Equal(r.t, 160, beats)
		require.Equal(r.t, 159, last-first, "clocks between the first beat and the last")
	})
}
