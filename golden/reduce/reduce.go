// Package reduce holds the element operations: what AggregateData does to one payload
// (protocol.md section 11). Elements are little-endian, lane 0 first.
package reduce

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/epic-inc/epic/golden/spec"
)

// The two reasons why a pair of type and operator has no kernel; errors.Is tells them apart.
var (
	// ErrUndefined: protocol.md gives the pair no meaning (bitwise operators on floats).
	ErrUndefined = errors.New("is not defined")
	// ErrUnsupported: the pair has a meaning, this version does not implement it.
	ErrUnsupported = errors.New("is not supported")
)

// kernel folds in into acc, element by element; both have the same length, whole elements.
type kernel func(acc, in []byte)

// element is what is known of one dtype: a row of the table below.
type element struct {
	bytes   int
	float   bool
	kernels map[spec.Op]kernel // looked up by key only
}

// elements is indexed by spec.DType.
var elements = [...]element{
	spec.DTypeInt32:    {bytes: 4, kernels: map[spec.Op]kernel{spec.OpSum: lanes32(sum32)}},
	spec.DTypeUint32:   {bytes: 4},
	spec.DTypeInt64:    {bytes: 8},
	spec.DTypeFloat32:  {bytes: 4, float: true},
	spec.DTypeFloat16:  {bytes: 2, float: true},
	spec.DTypeBfloat16: {bytes: 2, float: true},
	spec.DTypeInt8:     {bytes: 1},
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

// sum32 wraps mod 2^32, which is two's complement for int32.
func sum32(a, b uint32) uint32 { return a + b }

// ElementBytes is the size of one element of dtype: 1, 2, 4 or 8.
func ElementBytes(dtype spec.DType) (int, error) {
	if int(dtype) >= len(elements) {
		return 0, fmt.Errorf("element type %v is unknown, want 0..%d", dtype, len(elements)-1)
	}
	return elements[dtype].bytes, nil
}

// Supported returns nil if Accumulate takes the pair; otherwise an error that names both and wraps
// ErrUndefined or ErrUnsupported.
func Supported(dtype spec.DType, op spec.Op) error {
	_, err := find(dtype, op)
	return err
}

func find(dtype spec.DType, op spec.Op) (kernel, error) {
	if _, err := ElementBytes(dtype); err != nil {
		return nil, err
	}
	e := elements[dtype]
	if k := e.kernels[op]; k != nil {
		return k, nil
	}
	switch op {
	case spec.OpSum, spec.OpMin, spec.OpMax:
		return nil, fmt.Errorf("%v of %v %w", op, dtype, ErrUnsupported)
	case spec.OpAnd, spec.OpOr, spec.OpXor:
		if e.float {
			return nil, fmt.Errorf("%v of %v %w: bitwise operators are for integers", op, dtype, ErrUndefined)
		}
		return nil, fmt.Errorf("%v of %v %w", op, dtype, ErrUnsupported)
	default:
		return nil, fmt.Errorf("operator %v is unknown, want %d..%d", op, spec.OpSum, spec.OpXor)
	}
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
