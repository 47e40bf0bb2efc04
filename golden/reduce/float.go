package reduce

import "math/bits"

// format is an IEEE 754 binary interchange format, or bfloat16, which differs from binary32 in the
// length of its fraction alone: a sign, exponent bits, fraction bits. An element is its bits,
// right-aligned.
type format struct {
	exponent, fraction int
}

var (
	float32Format  = format{exponent: 8, fraction: 23}
	float16Format  = format{exponent: 5, fraction: 10}
	bfloat16Format = format{exponent: 8, fraction: 7}
)

func (f format) sign() uint32     { return 1 << (f.exponent + f.fraction) }
func (f format) infinity() uint32 { return (1<<f.exponent - 1) << f.fraction }

// nan is the canonical quiet NaN: positive, the top bit of the fraction set, the others clear.
func (f format) nan() uint32 { return f.infinity() | 1<<(f.fraction-1) }

func (f format) isNaN(x uint32) bool { return x&^f.sign() > f.infinity() }

// finite takes a finite element apart: its magnitude is m * 2^(e-1) in units of the least subnormal.
// Subnormals and zero have the exponent of the least normals, and no leading one.
func (f format) finite(x uint32) (m int64, e int) {
	m = int64(x & (1<<f.fraction - 1))
	e = int(x &^ f.sign() >> f.fraction)
	if e == 0 {
		return m, 1
	}
	return m | 1<<f.fraction, e
}

// guard is how many bits below the last place of the larger operand a sum is computed to.
const guard = 32

// add is the sum, rounded to nearest, ties to even; subnormals are kept. Any NaN in, or opposite
// infinities, give the canonical NaN. A sum of exactly zero is +0, of two -0 it is -0 (IEEE 754 6.3).
func (f format) add(a, b uint32) uint32 {
	inf := f.infinity()
	switch {
	case f.isNaN(a), f.isNaN(b):
		return f.nan()
	case a&^f.sign() == inf && b&^f.sign() == inf && a != b:
		return f.nan()
	case a&^f.sign() == inf:
		return a
	case b&^f.sign() == inf:
		return b
	}
	if a&^f.sign() < b&^f.sign() {
		a, b = b, a
	}
	ma, ea := f.finite(a)
	mb, eb := f.finite(b)
	// Both operands as integers of one unit, 2^-guard of the larger's last place: at most 24 + 32
	// bits. Where their exponents differ by more than that, b is less than 2^-8 of this last place,
	// whatever it is, and only that it is there, on its side of a, decides the rounding.
	n := ma << guard
	m := mb << (guard - min(ea-eb, guard))
	if a&f.sign() != b&f.sign() {
		m = -m
	}
	n += m // not negative: |a| >= |b|
	if n == 0 {
		return a & b & f.sign()
	}
	return a&f.sign() | f.round(uint64(n), ea-guard)
}

// round is the magnitude n * 2^(e-1), in units of the least subnormal, as the nearest element, ties
// to even. n is not 0.
func (f format) round(n uint64, e int) uint32 {
	drop := bits.Len64(n) - (f.fraction + 1) // a normal keeps a one and a fraction
	drop = max(drop, 1-e)                    // nothing lies below the least subnormal
	e += drop
	if drop <= 0 {
		n <<= -drop
	} else {
		rest, half := n&(1<<drop-1), uint64(1)<<(drop-1)
		n >>= drop
		if rest > half || rest == half && n&1 == 1 {
			n++
		}
	}
	// The leading one, if there is one, adds itself to the exponent; so does the carry of a fraction
	// that was rounded up to the next power of two.
	return uint32(min(uint64(e-1)<<f.fraction+n, uint64(f.infinity())))
}

// order maps the numbers of the format to integers in their order, with -0 before +0.
func (f format) order(x uint32) int64 {
	if x&f.sign() != 0 {
		return -1 - int64(x&^f.sign())
	}
	return int64(x)
}

// minimum is IEEE 754-2019 minimumNumber with -0 < +0: a number if there is one.
func (f format) minimum(a, b uint32) uint32 {
	switch {
	case f.isNaN(a) && f.isNaN(b):
		return f.nan()
	case f.isNaN(a):
		return b
	case f.isNaN(b), f.order(a) <= f.order(b):
		return a
	}
	return b
}

// maximum is IEEE 754-2019 maximumNumber with -0 < +0: a number if there is one.
func (f format) maximum(a, b uint32) uint32 {
	switch {
	case f.isNaN(a) && f.isNaN(b):
		return f.nan()
	case f.isNaN(a):
		return b
	case f.isNaN(b), f.order(a) >= f.order(b):
		return a
	}
	return b
}
