// Package reduce holds the element operations: what AggregateData does to one payload
// (protocol.md section 11). Elements are little-endian, lane 0 first.
package reduce

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/epic-inc/epic/golden/spec"
)

// ErrUndefined: protocol.md gives a pair of type and operator no meaning (bitwise operators on
// floats).
var ErrUndefined = errors.New("is not defined")

// kernel folds in into acc, element by element; both have the same length, whole elements.
type kernel func(acc, in []byte)

// element is what is known of one dtype: a row of the table below. A nil kernel is not defined.
type element struct {
	bytes   int
	kernels [spec.OpXor + 1]kernel // by operator: sum, min, max, and, or, xor
}

// elements is indexed by spec.DType.
var elements = [...]element{
	spec.DTypeInt32: {4, [...]kernel{
		lanes32(func(a, b uint32) uint32 { return a + b }), // mod 2^32: two's complement
		lanes32(func(a, b uint32) uint32 { return uint32(min(int32(a), int32(b))) }),
		lanes32(func(a, b uint32) uint32 { return uint32(max(int32(a), int32(b))) }),
		and, or, xor,
	}},
	spec.DTypeUint32: {4, [...]kernel{
		lanes32(func(a, b uint32) uint32 { return a + b }),
		lanes32(func(a, b uint32) uint32 { return min(a, b) }),
		lanes32(func(a, b uint32) uint32 { return max(a, b) }),
		and, or, xor,
	}},
	spec.DTypeInt64: {8, [...]kernel{
		lanes64(func(a, b uint64) uint64 { return a + b }),
		lanes64(func(a, b uint64) uint64 { return uint64(min(int64(a), int64(b))) }),
		lanes64(func(a, b uint64) uint64 { return uint64(max(int64(a), int64(b))) }),
		and, or, xor,
	}},
	spec.DTypeFloat32: {4, [...]kernel{
		lanes32(float32Format.add), lanes32(float32Format.minimum), lanes32(float32Format.maximum),
		nil, nil, nil,
	}},
	spec.DTypeFloat16: {2, [...]kernel{
		lanes16(float16Format.add), lanes16(float16Format.minimum), lanes16(float16Format.maximum),
		nil, nil, nil,
	}},
	spec.DTypeBfloat16: {2, [...]kernel{
		lanes16(bfloat16Format.add), lanes16(bfloat16Format.minimum), lanes16(bfloat16Format.maximum),
		nil, nil, nil,
	}},
	spec.DTypeInt8: {1, [...]kernel{
		lanes8(func(a, b int8) int8 { return int8(min(max(int(a)+int(b), -128), 127)) }), // saturates
		lanes8(func(a, b int8) int8 { return min(a, b) }),
		lanes8(func(a, b int8) int8 { return max(a, b) }),
		and, or, xor,
	}},
}

// lanes8 makes a kernel of a function of two 8-bit elements.
func lanes8(f func(a, b int8) int8) kernel {
	return func(acc, in []byte) {
		for i := range acc {
			acc[i] = byte(f(int8(acc[i]), int8(in[i])))
		}
	}
}

// lanes16 makes a kernel of a function of two 16-bit elements.
func lanes16(f func(a, b uint32) uint32) kernel {
	return func(acc, in []byte) {
		for i := 0; i+2 <= len(acc); i += 2 {
			a, b := binary.LittleEndian.Uint16(acc[i:]), binary.LittleEndian.Uint16(in[i:])
			binary.LittleEndian.PutUint16(acc[i:], uint16(f(uint32(a), uint32(b))))
		}
	}
}

// lanes32 makes a kernel of a function of two 32-bit elements.
func lanes32(f func(a, b uint32) uint32) kernel {
	return func(acc, in []byte) {
		for i := 0; i+4 <= len(acc); i += 4 {
			a, b := acc[i:i+4:i+4], in[i:i+4:i+4]
			binary.LittleEndian.PutUint32(a, f(binary.LittleEndian.Uint32(a), binary.LittleEndian.Uint32(b)))
		}
	}
}

// lanes64 makes a kernel of a function of two 64-bit elements.
func lanes64(f func(a, b uint64) uint64) kernel {
	return func(acc, in []byte) {
		for i := 0; i+8 <= len(acc); i += 8 {
			a, b := binary.LittleEndian.Uint64(acc[i:]), binary.LittleEndian.Uint64(in[i:])
			binary.LittleEndian.PutUint64(acc[i:], f(a, b))
		}
	}
}

// The bitwise operators do not see where an element ends.

func and(acc, in []byte) {
	for i := range acc {
		acc[i] &= in[i]
	}
}

func or(acc, in []byte) {
	for i := range acc {
		acc[i] |= in[i]
	}
}

func xor(acc, in []byte) {
	for i := range acc {
		acc[i] ^= in[i]
	}
}

// ElementBytes is the size of one element of dtype: 1, 2, 4 or 8.
func ElementBytes(dtype spec.DType) (int, error) {
	if int(dtype) >= len(elements) {
		return 0, fmt.Errorf("element type %v is unknown, want 0..%d", dtype, len(elements)-1)
	}
	return elements[dtype].bytes, nil
}

// IsFloat says that dtype is floating point: what a build without FLOAT cannot reduce.
func IsFloat(dtype spec.DType) bool {
	switch dtype {
	case spec.DTypeFloat32, spec.DTypeFloat16, spec.DTypeBfloat16:
		return true
	}
	return false
}

// Supported returns nil if the pair has a meaning; otherwise an error that names both, and wraps
// ErrUndefined if each by itself is known.
func Supported(dtype spec.DType, op spec.Op) error {
	_, err := find(dtype, op)
	return err
}

func find(dtype spec.DType, op spec.Op) (kernel, error) {
	if _, err := ElementBytes(dtype); err != nil {
		return nil, err
	}
	if op > spec.OpXor {
		return nil, fmt.Errorf("operator %v is unknown, want %d..%d", op, spec.OpSum, spec.OpXor)
	}
	k := elements[dtype].kernels[op]
	if k == nil {
		return nil, fmt.Errorf("%v of %v %w: bitwise operators are for integers", op, dtype, ErrUndefined)
	}
	return k, nil
}

// Accumulate replaces each element of acc by the op of it and the same element of in. The two have
// the same length, a whole number of elements; they must not overlap. On an error acc is untouched.
func Accumulate(dtype spec.DType, op spec.Op, acc, in []byte) error {
	k, err := find(dtype, op)
	if err != nil {
		return err
	}
	if len(acc) != len(in) {
		return fmt.Errorf("%v of %v: contribution has %d bytes, want %d as the accumulator", op, dtype, len(in), len(acc))
	}
	if n := elements[dtype].bytes; len(acc)%n != 0 {
		return fmt.Errorf("%v of %v: payload has %d bytes, want a multiple of %d", op, dtype, len(acc), n)
	}
	k(acc, in)
	return nil
}

// Fold is the op over the copies of a slot from left to right, which is endpoint order: the result of
// a reproducible pipe. The first copy is taken as it is. All copies have the same length, a whole
// number of elements; none is changed. With no copy there is no result, which is an error.
func Fold(dtype spec.DType, op spec.Op, copies [][]byte) ([]byte, error) {
	if _, err := find(dtype, op); err != nil {
		return nil, err
	}
	if len(copies) == 0 {
		return nil, fmt.Errorf("%v of %v: got no copies, want at least 1", op, dtype)
	}
	acc := bytes.Clone(copies[0])
	for i, in := range copies[1:] {
		if err := Accumulate(dtype, op, acc, in); err != nil {
			return nil, fmt.Errorf("copy %d of %d: %w", i+1, len(copies), err)
		}
	}
	return acc, nil
}
