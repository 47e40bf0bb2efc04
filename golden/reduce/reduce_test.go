package reduce

import (
	"encoding/binary"
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
		{"float sum", spec.DTypeFloat32, spec.OpSum, 4, 4, ErrUnsupported, "sum of float32 is not supported"},
		{"int32 max", spec.DTypeInt32, spec.OpMax, 4, 4, ErrUnsupported, "max of int32 is not supported"},
		{"uint32 or", spec.DTypeUint32, spec.OpOr, 4, 4, ErrUnsupported, "or of uint32 is not supported"},
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
