package explore

import (
	"fmt"
	"math/bits"

	"github.com/epic-inc/epic/golden/psn"
)

// Any is a bound that is none.
const Any = -1

// A channel is one word of a state. There are two kinds.
//
// Without bounds it is the set of the frames that were ever sent into it: any of them may arrive at any time, any number
// of times, in any order, or never. So nothing that a network can do is left out, and timeouts may come at any time. Where
// PSNs are used again a frame may not outlive them (protocol.md 1): one that is Lifetime packets older than what is sent is
// gone.
//
// With bounds it is a queue of at most seven frames: the count in the low byte, then their numbers, the oldest first. All
// faults together are counted over the run, and what has not happened until then may still happen later. A timeout comes
// only when nothing is on its way between the two ends: it is longer than a round trip.

// fate is what a channel does with a frame.
type fate uint8

const (
	arrives fate = iota
	isLost
	isRepeated   // it arrives, and a copy stays where it was
	isPutOffLate // it arrives, and a copy goes to the end of the queue
	fateKinds    = 4
)

// at is the fate of the frame with so many before it.
func (f fate) at(position int) fate { return f + fate(position*fateKinds) }
func (f fate) kind() fate           { return f % fateKinds }
func (f fate) position() int        { return int(f / fateKinds) }

// String says it for people.
func (f fate) String() string {
	s := [...]string{"arrives", "is lost", "arrives, and will come again", "arrives, and a copy will come late"}[f.kind()]
	if n := f.position(); n > 0 {
		s += fmt.Sprintf(" (overtaking %d)", n)
	}
	return s
}

const queueMax = 7

func queueLen(q uint64) int         { return int(q & 0xff) }
func queueAt(q uint64, i int) uint8 { return uint8(q >> (8 * (i + 1))) }
func queueFull(q uint64) bool       { return queueLen(q) == queueMax }
func queueAdd(q uint64, f uint8) uint64 {
	n := queueLen(q)
	return q + 1 | uint64(f)<<(8*(n+1))
}

// queueDrop takes out the frame at i.
func queueDrop(q uint64, i int) uint64 {
	low := uint64(1)<<(8*(i+1)) - 1
	return (q&low | q>>8&^low) - 1
}

// insert puts a frame into the set of a channel, and takes out what it has outlived.
func (m *model) insert(c *channel, set uint64, f uint8) uint64 {
	set |= 1 << f
	if m.lifetime == 0 {
		return set
	}
	p := c.frames[f]
	for rest := set; rest != 0; rest &= rest - 1 {
		n := bits.TrailingZeros64(rest)
		if o := c.frames[n]; o.ack == p.ack && m.outlived(p.pkt.PSN, o.pkt.PSN) {
			set &^= 1 << n
		}
	}
	return set
}

// outlived says that psn old is Lifetime packets behind the one that is sent, or more. What is less than N ahead on the
// circle is not old: the one that is sent may be sent again.
func (m *model) outlived(sent, old psn.PSN) bool {
	return m.space.InWindow(m.space.Add(sent, -m.lifetime), old, m.space.Size()-m.lifetime-m.slots)
}
