// Package psn is serial-number arithmetic on packet sequence numbers (IBTA 9.7.1; protocol.md 1).
//
// A PSN lives on a circle of 2^w numbers. "Before" and "after" mean the shorter way round: b is after
// a when (b-a) mod 2^w is in [1, 2^(w-1)-1]. The number exactly half the circle away is before, as the
// Linux responder has it (expected+0x800000 is a duplicate, expected+0x7fffff is a gap).
//
// On the wire w is 24 and the package functions serve that; a checker that wants the wrap within few
// states takes a smaller Space.
package psn

import (
	"fmt"

	"github.com/epic-inc/epic/golden/spec"
)

// Bits is the width of a PSN on the wire (also of an MSN and a QPN; IBTA 9.2).
const Bits = spec.PSNW

// Mask holds the valid bits of a PSN on the wire.
const Mask = 1<<Bits - 1

// Leap is how far the first PSN of a subgroup that is created again on the same queue pairs lies behind the last that
// was used: what is left of the dead one falls outside every window (protocol.md 2).
const Leap = 1 << 22

// MaxWindow is the most packets that one control signal opens (protocol.md 10).
const MaxWindow = 1 << 22

// PSN is a packet sequence number: 0 .. 2^w-1 of the Space it is used with. Arithmetic with Go's
// operators does not wrap; use the functions here.
type PSN uint32

// String prints the six hex digits that captures and logs use.
func (p PSN) String() string { return fmt.Sprintf("%06x", uint32(p)) }

// Space is a circle of 2^w PSNs. The zero value is a circle of one number; use NewSpace or Wire.
type Space struct {
	mask uint32
}

// Wire is the 24-bit space of RoCEv2.
var Wire = Space{mask: Mask}

// NewSpace returns the space of PSNs of width bits, 1..24.
func NewSpace(width int) (Space, error) {
	if width < 1 || width > Bits {
		return Space{}, fmt.Errorf("psn: width is %d bits, want 1..%d", width, Bits)
	}
	return Space{mask: 1<<width - 1}, nil
}

// Size is the number of PSNs in the space, 2^w.
func (s Space) Size() int { return int(s.mask) + 1 }

// Last is the largest PSN as a plain number, 2^w-1; the next one after it is 0.
func (s Space) Last() PSN { return PSN(s.mask) }

// Valid says that p is a number of this space.
func (s Space) Valid(p PSN) bool { return uint32(p) <= s.mask }

// Add is the PSN n steps after p, or -n steps before it.
func (s Space) Add(p PSN, n int) PSN { return PSN(uint32(int64(p)+int64(n)) & s.mask) }

// Next is the PSN right after p.
func (s Space) Next(p PSN) PSN { return s.Add(p, 1) }

// Prev is the PSN right before p.
func (s Space) Prev(p PSN) PSN { return s.Add(p, -1) }

// Sub is the signed serial distance a-b, -2^(w-1) .. 2^(w-1)-1: positive when a is after b.
func (s Space) Sub(a, b PSN) int {
	d := uint32(a-b) & s.mask
	if d > s.mask>>1 {
		return int(d) - s.Size()
	}
	return int(d)
}

// Less says that a is before b.
func (s Space) Less(a, b PSN) bool { return s.Sub(a, b) < 0 }

// LessEq says that a is b or before it. With a exactly half the circle from b, a is before b and b
// before a, so LessEq is not the negation of Less the other way round at that one distance.
func (s Space) LessEq(a, b PSN) bool { return s.Sub(a, b) <= 0 }

// Max is the later of a and b; b if they are half the circle apart.
func (s Space) Max(a, b PSN) PSN {
	if s.Less(a, b) {
		return b
	}
	return a
}

// Min is the earlier of a and b; a if they are half the circle apart.
func (s Space) Min(a, b PSN) PSN {
	if s.Less(a, b) {
		return a
	}
	return b
}

// InWindow says that p is one of the n PSNs start, start+1, .. start+n-1, for n in 0 .. 2^w.
func (s Space) InWindow(p, start PSN, n int) bool {
	return int(uint32(p-start)&s.mask) < n
}

// Valid says that p has no more than 24 bits.
func Valid(p PSN) bool { return Wire.Valid(p) }

// Add is the wire PSN n steps after p, or -n steps before it.
func Add(p PSN, n int) PSN { return Wire.Add(p, n) }

// Next is the wire PSN right after p.
func Next(p PSN) PSN { return Wire.Next(p) }

// Prev is the wire PSN right before p.
func Prev(p PSN) PSN { return Wire.Prev(p) }

// Sub is the signed serial distance a-b of wire PSNs, -2^23 .. 2^23-1.
func Sub(a, b PSN) int { return Wire.Sub(a, b) }

// Less says that wire PSN a is before b.
func Less(a, b PSN) bool { return Wire.Less(a, b) }

// LessEq says that wire PSN a is b or before it.
func LessEq(a, b PSN) bool { return Wire.LessEq(a, b) }

// Max is the later of two wire PSNs.
func Max(a, b PSN) PSN { return Wire.Max(a, b) }

// Min is the earlier of two wire PSNs.
func Min(a, b PSN) PSN { return Wire.Min(a, b) }

// InWindow says that wire PSN p is one of the n PSNs from start on, for n in 0 .. 2^24.
func InWindow(p, start PSN, n int) bool { return Wire.InWindow(p, start, n) }
