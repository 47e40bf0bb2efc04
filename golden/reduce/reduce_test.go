package reduce

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/spec"
)

// add32 is the oracle: integer addition of unbounded numbers, byte by byte from the text of
// protocol.md, then mod 2^32.
func add32(acc, in []byte) []byte {
	mod := new(big.Int).Lsh(big.NewInt(1), 32)
	number := func(b []byte) *big.Int {
		n := new(big.Int)
		for i := len(b) - 1; i >= 0; i-- {
			n.Lsh(n, 8).Add(n, big.NewInt(int64(b[i])))
		}
		return n
	}
	var out []byte
	for i := 0; i < len(acc); i += 4 {
		s := new(big.Int).Add(number(acc[i:i+4]), number(in[i:i+4]))
		s.Mod(s, mod)
		for range 4 {
			out = append(out, byte(new(big.Int).And(s, big.NewInt(255)).Int64()))
			s.Rsh(s, 8)
		}
	}
	return out
}

func TestInt32SumAgainstBigIntegers(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	edges := []uint32{0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0x01020304, 0xff, 0xff00}
	for lanes := 1; lanes <= 64; lanes++ {
		acc, in := make([]byte, 4*lanes), make([]byte, 4*lanes)
		for i := 0; i < len(acc); i += 4 {
			binary.LittleEndian.PutUint32(acc[i:], rnd.Uint32())
			binary.LittleEndian.PutUint32(in[i:], rnd.Uint32())
			if rnd.IntN(2) == 0 {
				binary.LittleEndian.PutUint32(acc[i:], edges[rnd.IntN(len(edges))])
				binary.LittleEndian.PutUint32(in[i:], edges[rnd.IntN(len(edges))])
			}
		}
		want, keep := add32(acc, in), append([]byte(nil), in...)
		require.NoError(t, Accumulate(spec.DTypeInt32, spec.OpSum, acc, in))
		assert.Equal(t, want, acc)
		assert.Equal(t, keep, in, "the contribution is only read")
	}
}

func TestInt32SumByHand(t *testing.T) {
	for _, tc := range []struct {
		name          string
		acc, in, want []byte
	}{
		{"little-endian carry", []byte{0xff, 0, 0, 0}, []byte{1, 0, 0, 0}, []byte{0, 1, 0, 0}},
		{"no carry between lanes", []byte{0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0}, []byte{1, 0, 0, 0, 2, 0, 0, 0}, []byte{0, 0, 0, 0, 3, 0, 0, 0}},
		{"largest plus one wraps", []byte{0xff, 0xff, 0xff, 0x7f}, []byte{1, 0, 0, 0}, []byte{0, 0, 0, 0x80}},
		{"-1 + -1", []byte{0xff, 0xff, 0xff, 0xff}, []byte{0xff, 0xff, 0xff, 0xff}, []byte{0xfe, 0xff, 0xff, 0xff}},
		{"empty", nil, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.NoError(t, Accumulate(spec.DTypeInt32, spec.OpSum, tc.acc, tc.in))
			assert.Equal(t, tc.want, tc.acc)
		})
	}
}

// TestByHand has results that IEEE 754 or two's complement give at a glance: they hold the reference too.
func TestByHand(t *testing.T) {
	const f32, f16, bf16 = spec.DTypeFloat32, spec.DTypeFloat16, spec.DTypeBfloat16
	for _, tc := range []struct {
		name       string
		dtype      spec.DType
		op         spec.Op
		a, b, want uint64
	}{
		{"1 + 2 = 3", f32, spec.OpSum, 0x3f800000, 0x40000000, 0x40400000},
		{"1 + 2 = 3", f16, spec.OpSum, 0x3c00, 0x4000, 0x4200},
		{"1 + 2 = 3", bf16, spec.OpSum, 0x3f80, 0x4000, 0x4040},
		{"1 + half an ulp is a tie: even", f32, spec.OpSum, 0x3f800000, 0x33800000, 0x3f800000},
		{"1 + more than half an ulp", f32, spec.OpSum, 0x3f800000, 0x33800001, 0x3f800001},
		{"odd + half an ulp is a tie: even", f16, spec.OpSum, 0x3c01, 0x1000, 0x3c02},
		{"odd + half an ulp is a tie: even", bf16, spec.OpSum, 0x3f81, 0x3b80, 0x3f82},
		{"subnormals add exactly", f16, spec.OpSum, 0x0001, 0x0001, 0x0002},
		{"the largest subnormal and the least make the least normal", f32, spec.OpSum, 0x007fffff, 1, 0x00800000},
		{"the least normal less the least subnormal", bf16, spec.OpSum, 0x0080, 0x8001, 0x007f},
		{"twice the largest is infinite", f16, spec.OpSum, 0x7bff, 0x7bff, 0x7c00},
		{"the largest and half its ulp is infinite", f16, spec.OpSum, 0x7bff, 0x4c00, 0x7c00},
		{"the largest and less than half its ulp is the largest", f16, spec.OpSum, 0x7bff, 0x4bff, 0x7bff},
		{"inf - inf", f32, spec.OpSum, 0x7f800000, 0xff800000, 0x7fc00000},
		{"-inf + 1", bf16, spec.OpSum, 0xff80, 0x3f80, 0xff80},
		{"a NaN with its sign and payload", f32, spec.OpSum, 0xffc12345, 0x3f800000, 0x7fc00000},
		{"a signalling NaN and infinity", f16, spec.OpSum, 0xfc00, 0x7c01, 0x7e00},
		{"1 - 1 = +0", f32, spec.OpSum, 0x3f800000, 0xbf800000, 0},
		{"-0 + -0 = -0", bf16, spec.OpSum, 0x8000, 0x8000, 0x8000},
		{"-0 + +0 = +0", f16, spec.OpSum, 0x8000, 0, 0},
		{"min of zeros", f32, spec.OpMin, 0, 0x80000000, 0x80000000},
		{"max of zeros", f32, spec.OpMax, 0x80000000, 0, 0},
		{"min of -1 and -2", f16, spec.OpMin, 0xbc00, 0xc000, 0xc000},
		{"max of -inf and NaN", bf16, spec.OpMax, 0xff80, 0x7fc0, 0xff80},
		{"min of a signalling NaN and 1", f32, spec.OpMin, 0x7f800001, 0x3f800000, 0x3f800000},
		{"max of NaNs", f16, spec.OpMax, 0xfe01, 0x7c01, 0x7e00},
		{"127 + 1 saturates", spec.DTypeInt8, spec.OpSum, 0x7f, 1, 0x7f},
		{"-128 - 1 saturates", spec.DTypeInt8, spec.OpSum, 0x80, 0xff, 0x80},
		{"-1 + 1", spec.DTypeInt8, spec.OpSum, 0xff, 1, 0},
		{"max of -1 and 1", spec.DTypeInt8, spec.OpMax, 0xff, 1, 1},
		{"min of -1 and 1", spec.DTypeInt32, spec.OpMin, 0xffffffff, 1, 0xffffffff},
		{"min of 2^32-1 and 1", spec.DTypeUint32, spec.OpMin, 0xffffffff, 1, 1},
		{"carry into the upper half", spec.DTypeInt64, spec.OpSum, 0xffffffff, 1, 0x100000000},
		{"largest + 1 wraps", spec.DTypeInt64, spec.OpSum, 1<<63 - 1, 1, 1 << 63},
		{"min looks at the upper half first", spec.DTypeInt64, spec.OpMin, 1 << 32, 0xffffffff, 0xffffffff},
		{"and", spec.DTypeInt8, spec.OpAnd, 0x0f, 0x55, 0x05},
		{"or", spec.DTypeUint32, spec.OpOr, 0x0f000000, 0x50, 0x0f000050},
		{"xor", spec.DTypeInt64, spec.OpXor, 0xff00000000000000, 0x0f00000000000001, 0xf000000000000001},
	} {
		t.Run(fmt.Sprintf("%v/%s", tc.dtype, tc.name), func(t *testing.T) {
			for _, pair := range [][2]uint64{{tc.a, tc.b}, {tc.b, tc.a}} { // all of them commute
				acc := pack(tc.dtype, []uint64{pair[0]})
				require.NoError(t, Accumulate(tc.dtype, tc.op, acc, pack(tc.dtype, []uint64{pair[1]})))
				assert.Equal(t, tc.want, unpack(tc.dtype, acc)[0], "%#x and %#x", pair[0], pair[1])
			}
		})
	}
}

func TestFold(t *testing.T) {
	const big, small, minus = 0x4b800000, 0x3f800000, 0xcb800000 // 2^24, 1, -2^24
	f := func(x uint64) []byte { return pack(spec.DTypeFloat32, []uint64{x}) }
	for _, tc := range []struct {
		name   string
		copies [][]byte
		want   uint64
	}{
		{"one copy is the result, whatever it is", [][]byte{f(0x7f800001)}, 0x7f800001},
		{"the 1 is lost", [][]byte{f(big), f(small), f(minus)}, 0},
		{"the 1 is kept", [][]byte{f(big), f(minus), f(small)}, small},
	} {
		t.Run(tc.name, func(t *testing.T) {
			keep := bytes.Clone(tc.copies[0])
			got, err := Fold(spec.DTypeFloat32, spec.OpSum, tc.copies)
			require.NoError(t, err)
			assert.Equal(t, f(tc.want), got)
			assert.Equal(t, keep, tc.copies[0], "the copies are only read")
		})
	}
	_, err := Fold(spec.DTypeFloat32, spec.OpSum, nil)
	require.ErrorContains(t, err, "sum of float32: got no copies, want at least 1")
	_, err = Fold(spec.DTypeFloat32, spec.OpAnd, [][]byte{f(0)})
	require.ErrorIs(t, err, ErrUndefined)
	_, err = Fold(spec.DTypeInt8, spec.OpSum, [][]byte{{1, 2}, {3}})
	require.ErrorContains(t, err, "copy 1 of 2: sum of int8: contribution has 1 bytes, want 2")
}

func TestRefused(t *testing.T) {
	for _, tc := range []struct {
		name    string
		dtype   spec.DType
		op      spec.Op
		acc, in int
		is      error
		want    string
	}{
		{"float bitwise", spec.DTypeFloat32, spec.OpXor, 4, 4, ErrUndefined, "xor of float32 is not defined"},
		{"half bitwise", spec.DTypeBfloat16, spec.OpAnd, 4, 4, ErrUndefined, "and of bfloat16 is not defined"},
		{"float16 bitwise", spec.DTypeFloat16, spec.OpOr, 4, 4, ErrUndefined, "or of float16 is not defined: bitwise operators are for integers"},
		{"lengths", spec.DTypeInt32, spec.OpSum, 8, 4, nil, "contribution has 4 bytes, want 8"},
		{"part of an element", spec.DTypeInt32, spec.OpSum, 6, 6, nil, "payload has 6 bytes, want a multiple of 4"},
		{"unknown type", spec.DType(7), spec.OpSum, 4, 4, nil, "is unknown, want 0..6"},
		{"unknown operator", spec.DTypeInt32, spec.Op(6), 4, 4, nil, "is unknown, want 0..5"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			acc, in := make([]byte, tc.acc), make([]byte, tc.in)
			for i := range in {
				in[i] = 0xa5
			}
			err := Accumulate(tc.dtype, tc.op, acc, in)
			require.ErrorContains(t, err, tc.want)
			if tc.is != nil {
				assert.ErrorIs(t, err, tc.is)
				assert.ErrorIs(t, Supported(tc.dtype, tc.op), tc.is)
			}
			assert.Equal(t, make([]byte, tc.acc), acc, "the accumulator is untouched")
		})
	}
	assert.NoError(t, Supported(spec.DTypeInt32, spec.OpSum))
}

func TestElementBytes(t *testing.T) {
	for dtype, want := range map[spec.DType]int{
		spec.DTypeInt32: 4, spec.DTypeUint32: 4, spec.DTypeInt64: 8, spec.DTypeFloat32: 4,
		spec.DTypeFloat16: 2, spec.DTypeBfloat16: 2, spec.DTypeInt8: 1,
	} {
		got, err := ElementBytes(dtype)
		require.NoError(t, err)
		assert.Equal(t, want, got, "%v", dtype)
	}
	_, err := ElementBytes(7)
	assert.Error(t, err)
}

func BenchmarkInt32Sum1KB(b *testing.B) {
	acc, in := make([]byte, 1024), make([]byte, 1024)
	b.SetBytes(1024)
	for b.Loop() {
		if err := Accumulate(spec.DTypeInt32, spec.OpSum, acc, in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFloat32Sum1KB(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 1))
	var acc, in []byte
	for range 256 {
		x, y := draw(rnd, spec.DTypeFloat32)
		acc, in = append(acc, pack(spec.DTypeFloat32, []uint64{x})...), append(in, pack(spec.DTypeFloat32, []uint64{y})...)
	}
	b.SetBytes(1024)
	for b.Loop() {
		if err := Accumulate(spec.DTypeFloat32, spec.OpSum, acc, in); err != nil {
			b.Fatal(err)
		}
	}
}
