package reduce

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/oracle"
	"github.com/epic-inc/epic/golden/spec"
)

var seedFlag = flag.Uint64("seed", 1, "seed of the random elements")

// formats are those of the floating-point types; the other types are integers.
var formats = map[spec.DType]format{
	spec.DTypeFloat32: float32Format, spec.DTypeFloat16: float16Format, spec.DTypeBfloat16: bfloat16Format,
}

// batch is pairs of elements under one operator.
type batch struct {
	dtype spec.DType
	op    spec.Op
	a, b  []uint64
	want  []uint64 // the reference's
}

// pack is elements as they lie in a payload.
func pack(dtype spec.DType, elements []uint64) []byte {
	size := int(must(ElementBytes(dtype)))
	out := make([]byte, 0, size*len(elements))
	for _, x := range elements {
		for i := range size {
			out = append(out, byte(x>>(8*i)))
		}
	}
	return out
}

func unpack(dtype spec.DType, payload []byte) []uint64 {
	size := int(must(ElementBytes(dtype)))
	out := make([]uint64, len(payload)/size)
	for i, x := range payload {
		out[i/size] |= uint64(x) << (8 * (i % size))
	}
	return out
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// corners are elements where something changes.
func corners(dtype spec.DType) []uint64 {
	f, float := formats[dtype]
	if !float {
		size := 8 * must(ElementBytes(dtype))
		mask := uint64(math.MaxUint64) >> (64 - size)
		var out []uint64
		for _, x := range []uint64{0, 1, 2, 3, 0x55, 0x5555555555555555, 0xaaaaaaaaaaaaaaaa, 0x0123456789abcdef, 0xff, 0x100, 0xffff, 0x10000, 0xffffffff, 0x100000000} {
			out = append(out, x&mask, -x&mask)
		}
		for _, at := range []int{size - 1, size - 2, size - 3, size / 2} { // the largest, the least, their halves
			for d := -2; d <= 2; d++ {
				out = append(out, (1<<at+uint64(d))&mask, (mask-1<<at+uint64(d))&mask)
			}
		}
		return out
	}
	one := uint32(1)<<(f.exponent-1)<<f.fraction - uint32(1)<<f.fraction
	full := uint32(1)<<f.fraction - 1
	steps := func(n int) uint32 { return uint32(n) << f.fraction }
	magnitudes := []uint32{
		0, 1, 2, 3, full / 2, full/2 + 1, full - 1, full, // zero, subnormals
		full + 1, full + 2, steps(2) - 1, steps(2), steps(2) + 1, // the least normals
		one - steps(1), one - 2, one - 1, one, one + 1, one + 2, one + 3, one + full/2 + 1, one + full, one + steps(1), one + steps(1) + 1,
		one + steps(f.fraction), one + steps(f.fraction) + 1, one + steps(f.fraction+1), one + steps(f.fraction+1) + 1, // one is an ulp, half an ulp
		one + steps(f.fraction+2), one - steps(f.fraction), one - steps(f.fraction) + 1, one - steps(f.fraction+1), one - steps(f.fraction+1) + 1, one - steps(f.fraction+2),
		f.infinity() - steps(f.fraction+1), f.infinity() - steps(f.fraction+1) - 1, f.infinity() - steps(f.fraction+2), // half an ulp of the largest
		f.infinity() - steps(1), f.infinity() - steps(1) + 1, f.infinity() - 2, f.infinity() - 1, f.infinity(), // the largest
		f.infinity() + 1, f.nan() - 1, f.nan(), f.nan() + 1, f.infinity() + full, // NaNs, signalling and quiet
	}
	var out []uint64
	for _, m := range magnitudes {
		out = append(out, uint64(m), uint64(m|f.sign()))
	}
	return out
}

// draw is a random pair. Of floats the exponents are mostly near each other, or near an end of the range,
// and the fractions often regular: cancellations, ties, subnormals and overflows are frequent.
func draw(rnd *rand.Rand, dtype spec.DType) (a, b uint64) {
	f, float := formats[dtype]
	if !float {
		size := 8 * must(ElementBytes(dtype))
		shift := func() int { return 64 - size + rnd.IntN(size)*rnd.IntN(2) }
		a, b = rnd.Uint64()>>shift(), rnd.Uint64()>>shift()
		if rnd.IntN(2) == 0 {
			a = -a
		}
		if rnd.IntN(2) == 0 {
			b = -b
		}
		mask := uint64(math.MaxUint64) >> (64 - size)
		return a & mask, b & mask
	}
	fraction := func() uint32 {
		x := rnd.Uint32()
		switch rnd.IntN(4) {
		case 0: // zeros below
			x &= ^uint32(0) << rnd.IntN(f.fraction+1)
		case 1: // ones below
			x |= 1<<rnd.IntN(f.fraction+1) - 1
		}
		return x & (1<<f.fraction - 1)
	}
	top := 1<<f.exponent - 1
	e := rnd.IntN(top + 1)
	switch rnd.IntN(5) {
	case 0:
		e = rnd.IntN(4)
	case 1:
		e = top - rnd.IntN(4)
	}
	d := rnd.IntN(f.fraction+4) * rnd.IntN(2)
	if rnd.IntN(8) == 0 {
		d = rnd.IntN(top + 1)
	}
	x := uint32(e)<<f.fraction | fraction()
	y := uint32(max(e-d, 0))<<f.fraction | fraction()
	if rnd.IntN(8) == 0 {
		y = x
	}
	if rnd.IntN(2) == 0 {
		x |= f.sign()
	}
	if rnd.IntN(2) == 0 {
		y |= f.sign()
	}
	if rnd.IntN(2) == 0 {
		x, y = y, x
	}
	return uint64(x), uint64(y)
}

// batches are what golden is held against the reference on: every pair of corners, random pairs, and of the
// 16-bit types every element with `slices` others.
func batches(tb testing.TB, random, slices int) []*batch {
	tb.Helper()
	rnd := rand.New(rand.NewPCG(*seedFlag, 0))
	var all []*batch
	for dtype := range spec.DType(len(elements)) {
		table := corners(dtype)
		require.GreaterOrEqual(tb, len(table), 60)
		for op := range spec.OpXor + 1 {
			if Supported(dtype, op) != nil {
				continue
			}
			s := &batch{dtype: dtype, op: op}
			for _, a := range table {
				for _, b := range table {
					s.a, s.b = append(s.a, a), append(s.b, b)
				}
			}
			n := random
			_, float := formats[dtype]
			if !float || op != spec.OpSum { // where rounding is, most of the work
				n /= 10
			}
			for range n {
				a, b := draw(rnd, dtype)
				s.a, s.b = append(s.a, a), append(s.b, b)
			}
			if float && must(ElementBytes(dtype)) == 2 {
				for range slices {
					_, b := draw(rnd, dtype)
					for a := range uint64(1 << 16) {
						s.a, s.b = append(s.a, a), append(s.b, b)
					}
				}
			}
			all = append(all, s)
		}
	}
	return all
}

// refer fills in what the reference says, all in one run of it.
func refer(tb testing.TB, all []*batch) {
	tb.Helper()
	var in bytes.Buffer
	for _, s := range all {
		head := binary.LittleEndian.AppendUint32(nil, uint32(len(s.a)))
		in.Write(append(head, byte(s.dtype), byte(s.op), 0, 0))
		in.Write(pack(s.dtype, s.a))
		in.Write(pack(s.dtype, s.b))
	}
	out := oracle.GMPY2(tb, "testdata/reference.py", in.Bytes())
	for _, s := range all {
		n := len(s.a) * must(ElementBytes(s.dtype))
		require.GreaterOrEqual(tb, len(out), n, "the reference's results are short")
		s.want, out = unpack(s.dtype, out[:n]), out[n:]
	}
	require.Empty(tb, out, "the reference's results are long")
}

// compare says where results differ from the reference, and in how many elements.
func (s *batch) compare(got []uint64) (first string, count int) {
	for i, want := range s.want {
		if got[i] != want {
			if count == 0 {
				first = fmt.Sprintf("%v of %v: %#x and %#x give %#x, want %#x", s.op, s.dtype, s.a[i], s.b[i], got[i], want)
			}
			count++
		}
	}
	return first, count
}

func TestAgainstReference(t *testing.T) {
	random, slices := 800_000, 4 // of each floating-point type's sums
	if testing.Short() {
		random, slices = 50_000, 0
	}
	t.Logf("replay with -seed %d", *seedFlag)
	all := batches(t, random, slices)
	refer(t, all)
	pairs := 0
	for _, s := range all {
		acc := pack(s.dtype, s.a)
		require.NoError(t, Accumulate(s.dtype, s.op, acc, pack(s.dtype, s.b)))
		if first, count := s.compare(unpack(s.dtype, acc)); count != 0 {
			t.Errorf("%s (%d of %d pairs differ)", first, count, len(s.a))
		}
		pairs += len(s.a)
	}
	t.Logf("%d pairs in %d batches", pairs, len(all))
}

// TestFloat32AgainstHardware is a second opinion: the machine's own adder, which is one of IEEE 754 but for the NaN
// it makes.
func TestFloat32AgainstHardware(t *testing.T) {
	rnd := rand.New(rand.NewPCG(*seedFlag, 1))
	for range 500_000 {
		a, b := draw(rnd, spec.DTypeFloat32)
		sum := math.Float32frombits(uint32(a)) + math.Float32frombits(uint32(b))
		want := math.Float32bits(sum)
		if sum != sum {
			want = 0x7fc00000
		}
		require.Equal(t, want, float32Format.add(uint32(a), uint32(b)), "%#08x + %#08x", a, b)
	}
}

// TestReferenceCatches holds faults that one could make against the reference: each must show.
func TestReferenceCatches(t *testing.T) {
	all := batches(t, 20_000, 0)
	refer(t, all)
	for _, fault := range []struct {
		name  string
		dtype spec.DType
		op    spec.Op
		f     func(f format, a, b uint64) uint64
	}{
		{"a NaN is passed on as it came", spec.DTypeFloat32, spec.OpSum, func(f format, a, b uint64) uint64 {
			if f.isNaN(uint32(a)) {
				return a
			}
			return uint64(f.add(uint32(a), uint32(b)))
		}},
		{"a NaN wins over a number in min", spec.DTypeBfloat16, spec.OpMin, func(f format, a, b uint64) uint64 {
			if f.isNaN(uint32(a)) || f.isNaN(uint32(b)) {
				return uint64(f.nan())
			}
			return uint64(f.minimum(uint32(a), uint32(b)))
		}},
		{"float16 sums are truncated", spec.DTypeFloat16, spec.OpSum, func(f format, a, b uint64) uint64 {
			// one more bit of precision, which is dropped
			wide := format{f.exponent, f.fraction + 1}
			sum := wide.add(uint32(a)<<1, uint32(b)<<1)
			if wide.isNaN(sum) {
				return uint64(f.nan())
			}
			return uint64(sum >> 1)
		}},
		{"ties go away from zero", spec.DTypeBfloat16, spec.OpSum, func(f format, a, b uint64) uint64 {
			wide := format{f.exponent, f.fraction + 1}
			sum := wide.add(uint32(a)<<1, uint32(b)<<1)
			if wide.isNaN(sum) || sum&^wide.sign() >= wide.infinity() {
				return uint64(f.add(uint32(a), uint32(b)))
			}
			return uint64((sum + 1) >> 1)
		}},
		{"subnormals are flushed", spec.DTypeFloat32, spec.OpSum, func(f format, a, b uint64) uint64 {
			sum := f.add(uint32(a), uint32(b))
			if sum&f.infinity() == 0 {
				sum &= f.sign()
			}
			return uint64(sum)
		}},
		{"x - x is -0", spec.DTypeFloat16, spec.OpSum, func(f format, a, b uint64) uint64 {
			if sum := f.add(uint32(a), uint32(b)); sum != 0 {
				return uint64(sum)
			}
			return uint64(f.sign())
		}},
		{"overflow stops at the largest number", spec.DTypeBfloat16, spec.OpSum, func(f format, a, b uint64) uint64 {
			sum := f.add(uint32(a), uint32(b))
			if sum == f.infinity() && uint32(a) != sum && uint32(b) != sum {
				sum--
			}
			return uint64(sum)
		}},
		{"-0 and +0 are equal in min", spec.DTypeFloat32, spec.OpMin, func(f format, a, b uint64) uint64 {
			if (a|b)&^uint64(f.sign()) == 0 {
				return a
			}
			return uint64(f.minimum(uint32(a), uint32(b)))
		}},
		{"-0 and +0 are equal in max", spec.DTypeFloat16, spec.OpMax, func(f format, a, b uint64) uint64 {
			if (a|b)&^uint64(f.sign()) == 0 {
				return a
			}
			return uint64(f.maximum(uint32(a), uint32(b)))
		}},
		{"int8 wraps", spec.DTypeInt8, spec.OpSum, func(_ format, a, b uint64) uint64 { return (a + b) & 0xff }},
		{"int32 min takes max", spec.DTypeInt32, spec.OpMin, func(_ format, a, b uint64) uint64 {
			return uint64(uint32(max(int32(a), int32(b))))
		}},
		{"uint32 is signed", spec.DTypeUint32, spec.OpMax, func(_ format, a, b uint64) uint64 {
			return uint64(uint32(max(int32(a), int32(b))))
		}},
		{"int64 does not carry into its upper half", spec.DTypeInt64, spec.OpSum, func(_ format, a, b uint64) uint64 {
			return uint64(uint32(a)+uint32(b)) | (a>>32+b>>32)<<32
		}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			for _, s := range all {
				if s.dtype != fault.dtype || s.op != fault.op {
					continue
				}
				got := make([]uint64, len(s.a))
				for i := range got {
					got[i] = fault.f(formats[s.dtype], s.a[i], s.b[i])
				}
				_, count := s.compare(got)
				assert.NotZero(t, count, "the reference does not notice")
				assert.Less(t, count, len(got), "not even one right: the fault itself is wrong")
				return
			}
			t.Fatal("no such batch")
		})
	}
}
