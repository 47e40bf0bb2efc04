package expect

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

func int32s(v ...int32) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	return b
}

func float32s(v ...float32) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func TestReduceByHand(t *testing.T) {
	for _, tc := range []struct {
		d    spec.DType
		op   spec.Op
		in   [][]byte
		want []byte
	}{
		{spec.DTypeInt32, spec.OpSum, [][]byte{int32s(math.MaxInt32, -5), int32s(1, 3)}, int32s(math.MinInt32, -2)},
		{spec.DTypeInt32, spec.OpMin, [][]byte{int32s(-1, 7), int32s(1, 3)}, int32s(-1, 3)},
		{spec.DTypeUint32, spec.OpMin, [][]byte{int32s(-1, 7), int32s(1, 3)}, int32s(1, 3)},
		{spec.DTypeUint32, spec.OpMax, [][]byte{int32s(-1, 7), int32s(1, 3)}, int32s(-1, 7)},
		{spec.DTypeInt64, spec.OpSum, [][]byte{int32s(-1, 0), int32s(1, 0)}, int32s(0, 1)},
		{spec.DTypeInt8, spec.OpSum, [][]byte{{0xff, 100}, {2, 27}}, []byte{1, 127}},
		{spec.DTypeInt8, spec.OpMax, [][]byte{{0x80, 100}, {2, 27}}, []byte{2, 100}},
		{spec.DTypeInt8, spec.OpAnd, [][]byte{{0x8f}, {0xf3}}, []byte{0x83}},
		{spec.DTypeInt8, spec.OpOr, [][]byte{{0x81}, {0x12}}, []byte{0x93}},
		{spec.DTypeInt32, spec.OpXor, [][]byte{int32s(6), int32s(3), int32s(8)}, int32s(13)},
		{spec.DTypeFloat32, spec.OpSum, [][]byte{float32s(3, -7), float32s(-5, 7)}, float32s(-2, 0)},
		{spec.DTypeFloat32, spec.OpMin, [][]byte{float32s(3, -7), float32s(-5, 7)}, float32s(-5, -7)},
		{spec.DTypeFloat16, spec.OpSum, [][]byte{{0x00, 0x3c}, {0x00, 0xc0}}, []byte{0x00, 0xbc}},  // 1 + -2 = -1
		{spec.DTypeBfloat16, spec.OpSum, [][]byte{{0x80, 0x3f}, {0x40, 0x40}}, []byte{0x80, 0x40}}, // 1 + 3 = 4
	} {
		got, err := Reduce(tc.d, tc.op, tc.in)
		require.NoError(t, err)
		require.Equal(t, tc.want, got, "%v of %v", tc.op, tc.d)
	}
	for want, tc := range map[string]struct {
		d  spec.DType
		op spec.Op
		in [][]byte
	}{
		"saturates in some order": {spec.DTypeInt8, spec.OpSum, [][]byte{{100}, {100}, {0x80}}},
		"rounds in some order":    {spec.DTypeFloat32, spec.OpSum, [][]byte{float32s(1 << 24), float32s(1)}},
		"want an integer":         {spec.DTypeFloat32, spec.OpSum, [][]byte{float32s(0.5)}},
		"not for floating point":  {spec.DTypeFloat32, spec.OpXor, [][]byte{float32s(1)}},
		"got 4 bytes, want 8":     {spec.DTypeInt32, spec.OpSum, [][]byte{int32s(1, 2), int32s(1)}},
		"want at least one":       {spec.DTypeInt32, spec.OpSum, nil},
	} {
		_, err := Reduce(tc.d, tc.op, tc.in)
		require.ErrorContains(t, err, want)
	}
}

// Every type has vectors whose sum is the same in every order, and they are not trivial.
func TestVectors(t *testing.T) {
	for d, f := range formats {
		for _, op := range []spec.Op{spec.OpSum, spec.OpMin, spec.OpMax} {
			for _, ranks := range []int{1, 2, 5, 32, 64} {
				in := Vectors(7, ranks, 4096, d, op)
				require.Equal(t, in, Vectors(7, ranks, 4096, d, op))
				_, err := Reduce(d, op, in)
				require.NoError(t, err, "%v of %v over %d", op, d, ranks)
				values := map[uint64]bool{}
				for at := 0; at < 4096; at += f.bytes {
					values[f.word(in[0][at:])] = true
				}
				require.Greater(t, len(values), 2, "%v over %d", d, ranks)
			}
		}
	}
	require.NotEqual(t, Vectors(7, 2, 64, spec.DTypeInt32, spec.OpSum), Vectors(8, 2, 64, spec.DTypeInt32, spec.OpSum))
}

// The decoder of floats is right where Go has one of its own.
func TestFloats(t *testing.T) {
	f, r := formats[spec.DTypeFloat32], rand.New(rand.NewPCG(1, 2))
	for range 10000 {
		w := r.Uint32()
		if v := math.Float32frombits(w); !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) {
			require.Equal(t, float64(v), f.number(uint64(w)))
		}
		n := float64(int32(w) >> 8)
		got, err := f.encode(n)
		require.NoError(t, err)
		require.EqualValues(t, math.Float32bits(float32(n)), got)
	}
}

func TestResults(t *testing.T) {
	in := [][]byte{int32s(1, 2, 3, 4, 5), int32s(10, 20, 30, 40, 50), int32s(100, 200, 300, 400, 500)}
	for text, want := range map[string][][]byte{
		"allreduce":     {int32s(111, 222, 333, 444, 555), int32s(111, 222, 333, 444, 555), int32s(111, 222, 333, 444, 555)},
		"reduce:1":      {nil, int32s(111, 222, 333, 444, 555), nil},
		"broadcast:2":   {in[2], in[2], in[2]},
		"barrier":       {nil, nil, nil},
		"reducescatter": {int32s(111), int32s(222, 333), int32s(444, 555)},
		"allgather":     {int32s(1, 20, 30, 400, 500), int32s(1, 20, 30, 400, 500), int32s(1, 20, 30, 400, 500)},
	} {
		steps, err := tree.ParseSteps(text)
		require.NoError(t, err)
		got, err := Results(steps[0], spec.DTypeInt32, spec.OpSum, in)
		require.NoError(t, err)
		require.Equal(t, want, got, text)
	}
	require.Equal(t, "element 1 (byte 5) is 02010000, want 02000000", Differs(spec.DTypeInt32, int32s(1, 258), int32s(1, 2)))
	require.Equal(t, "got 4 bytes, want 8", Differs(spec.DTypeInt32, int32s(1), int32s(1, 2)))
	require.Empty(t, Differs(spec.DTypeInt32, int32s(1), int32s(1)))
}
