// Package expect makes random vectors and computes what collectives of them must give. It shares no code
// with the models: it is what their results are held against. Whole vectors are taken as numbers, worked
// out in 64 bits or in big enough floats, and cut to the element type only at the end.
//
// Engines add in the order of arrival, so a result that depends on the order is no one value. The vectors
// are therefore of values that give the same bits in every order: of floating point, small integers, of
// which every partial sum is exact; of saturating int8, integers of which no partial sum saturates.
package expect

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// format of an element type.
type format struct {
	bytes    int
	signed   bool
	fraction int // bits; of floating point
	bias     int // 0: an integer
}

var formats = map[spec.DType]format{
	spec.DTypeInt32:    {bytes: 4, signed: true},
	spec.DTypeUint32:   {bytes: 4},
	spec.DTypeInt64:    {bytes: 8, signed: true},
	spec.DTypeInt8:     {bytes: 1, signed: true},
	spec.DTypeFloat32:  {bytes: 4, fraction: 23, bias: 127},
	spec.DTypeFloat16:  {bytes: 2, fraction: 10, bias: 15},
	spec.DTypeBfloat16: {bytes: 2, fraction: 7, bias: 127},
}

// Element is the size of an element in bytes.
func Element(d spec.DType) int { return formats[d].bytes }

// word reads one element as an unsigned number.
func (f format) word(b []byte) uint64 {
	var w [8]byte
	copy(w[:], b[:f.bytes])
	return binary.LittleEndian.Uint64(w[:])
}

func (f format) appendWord(b []byte, w uint64) []byte {
	var full [8]byte
	binary.LittleEndian.PutUint64(full[:], w)
	return append(b, full[:f.bytes]...)
}

// integer reads one element of an integer type.
func (f format) integer(w uint64) int64 {
	if shift := 64 - 8*f.bytes; f.signed {
		return int64(w<<shift) >> shift
	}
	return int64(w)
}

// number reads one finite element of a floating-point type; every one is a float64.
func (f format) number(w uint64) float64 {
	bits := 8 * f.bytes
	fraction, exponent := w&(1<<f.fraction-1), int(w>>f.fraction)&(1<<(bits-1-f.fraction)-1)
	v := math.Ldexp(float64(fraction), 1-f.bias-f.fraction)
	if exponent > 0 {
		v = math.Ldexp(float64(1<<f.fraction|fraction), exponent-f.bias-f.fraction)
	}
	if w>>(bits-1) != 0 {
		return -v
	}
	return v
}

// encode writes an integer that the floating-point type has exactly.
func (f format) encode(v float64) (uint64, error) {
	sign := uint64(0)
	if math.Signbit(v) {
		sign, v = 1<<(8*f.bytes-1), -v
	}
	if v == 0 {
		return sign, nil
	}
	m, e := math.Frexp(v) // v = m 2^e, 0.5 <= m < 1
	whole := math.Ldexp(m, f.fraction+1)
	if whole != math.Trunc(whole) {
		return 0, fmt.Errorf("%v is not exact in %d fraction bits", v, f.fraction)
	}
	return sign | uint64(e-1+f.bias)<<f.fraction | uint64(whole)&(1<<f.fraction-1), nil
}

// Vectors makes a vector of `bytes` for each rank, of any values but those whose sum over all ranks, in
// whatever order, would round or saturate; with runs of zeros, as gradients have.
func Vectors(seed uint64, ranks, bytes int, d spec.DType, op spec.Op) [][]byte {
	f := formats[d]
	out := make([][]byte, ranks)
	for i := range out {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		b := make([]byte, 0, bytes)
		for len(b) < bytes {
			w := r.Uint64()
			switch {
			case w&7 == 0:
				w = 0
			case f.bias > 0:
				limit := uint64(1) << (f.fraction + 1) / uint64(ranks)
				w, _ = f.encode(float64(w>>8%limit) * float64(1-2*int(w>>7&1))) // 0 may be -0
				if w<<(64-8*f.bytes)<<1 == 0 {
					w = 0 // -0 + +0 is +0, -0 + -0 is not: a sum of -0 alone depends on who sends it
				}
			case d == spec.DTypeInt8 && op == spec.OpSum:
				limit := 127 / ranks
				w = uint64(int64(w>>8%uint64(2*limit+1)) - int64(limit))
			}
			b = f.appendWord(b, w)
		}
		out[i] = b
	}
	return out
}

// Reduce is the element-wise op of vectors of one length. An error says that the vectors have none that
// does not depend on the order.
func Reduce(d spec.DType, op spec.Op, in [][]byte) ([]byte, error) {
	f, ok := formats[d]
	if !ok || len(in) == 0 {
		return nil, fmt.Errorf("reduce %d vectors of %v: want at least one, of a known type", len(in), d)
	}
	out := make([]byte, 0, len(in[0]))
	for i, v := range in {
		if len(v) != len(in[0]) || len(v)%f.bytes != 0 {
			return nil, fmt.Errorf("vector of rank %d: got %d bytes, want %d, a multiple of %d", i, len(v), len(in[0]), f.bytes)
		}
	}
	words := make([]uint64, len(in))
	for at := 0; at < len(in[0]); at += f.bytes {
		for i, v := range in {
			words[i] = f.word(v[at:])
		}
		w, err := f.reduce(d, op, words)
		if err != nil {
			return nil, fmt.Errorf("%v of %v, element %d: %w", op, d, at/f.bytes, err)
		}
		out = f.appendWord(out, w)
	}
	return out, nil
}

func (f format) reduce(d spec.DType, op spec.Op, words []uint64) (uint64, error) {
	if f.bias > 0 {
		return f.reduceFloats(op, words)
	}
	total, best := uint64(0), f.integer(words[0])
	low, high := int64(0), int64(0) // of int8: the least and the most that any order passes through
	all, any, odd := ^uint64(0), uint64(0), uint64(0)
	for _, w := range words {
		v := f.integer(w)
		total += uint64(v)
		low, high = low+min(v, 0), high+max(v, 0)
		if op == spec.OpMin && v < best || op == spec.OpMax && v > best {
			best = v
		}
		all, any, odd = all&w, any|w, odd^w
	}
	switch op {
	case spec.OpSum:
		if d == spec.DTypeInt8 && (low < math.MinInt8 || high > math.MaxInt8) {
			return 0, fmt.Errorf("saturates in some order, between %d and %d", low, high)
		}
		return total, nil
	case spec.OpMin, spec.OpMax:
		return uint64(best), nil
	case spec.OpAnd:
		return all, nil
	case spec.OpOr:
		return any, nil
	case spec.OpXor:
		return odd, nil
	}
	return 0, fmt.Errorf("operator: got %v, want sum, min, max, and, or, xor", op)
}

func (f format) reduceFloats(op spec.Op, words []uint64) (uint64, error) {
	total, most, best := 0.0, 0.0, f.number(words[0])
	for _, w := range words {
		v := f.number(w)
		if v != math.Trunc(v) {
			return 0, fmt.Errorf("got %v, want an integer", v)
		}
		total, most = total+v, most+math.Abs(v)
		if op == spec.OpMin && v < best || op == spec.OpMax && v > best {
			best = v
		}
	}
	switch op {
	case spec.OpSum:
		if most > math.Ldexp(1, f.fraction+1) {
			return 0, fmt.Errorf("rounds in some order: partial sums up to %v", most)
		}
		return f.encode(total)
	case spec.OpMin, spec.OpMax:
		return f.encode(best)
	}
	return 0, fmt.Errorf("operator is not for floating point")
}

// Results is what each rank has after a collective of the vectors: nil of one that gets nothing. A share
// of ReduceScatter and AllGather is elements r n/R .. (r+1) n/R - 1 of n, rounded down.
func Results(step tree.Step, d spec.DType, op spec.Op, in [][]byte) ([][]byte, error) {
	out := make([][]byte, len(in))
	size := formats[d].bytes
	share := func(r int) (from, to int) {
		n := len(in[0]) / size
		return size * (n * r / len(in)), size * (n * (r + 1) / len(in))
	}
	switch step.Collective {
	case tree.Barrier:
		return out, nil
	case tree.Broadcast:
		for r := range out {
			out[r] = in[step.Root]
		}
		return out, nil
	case tree.AllGather:
		var whole []byte
		for r, v := range in {
			from, to := share(r)
			whole = append(whole, v[from:to]...)
		}
		for r := range out {
			out[r] = whole
		}
		return out, nil
	}
	total, err := Reduce(d, op, in)
	if err != nil {
		return nil, err
	}
	for r := range out {
		switch step.Collective {
		case tree.AllReduce:
			out[r] = total
		case tree.Reduce:
			if r == step.Root {
				out[r] = total
			}
		case tree.ReduceScatter:
			from, to := share(r)
			out[r] = total[from:to]
		}
	}
	return out, nil
}

// Differs says where two vectors first differ; "" if they do not.
func Differs(d spec.DType, got, want []byte) string {
	size := formats[d].bytes
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			e := i / size * size
			return fmt.Sprintf("element %d (byte %d) is %x, want %x", e/size, i, got[e:min(e+size, len(got))], want[e:min(e+size, len(want))])
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("got %d bytes, want %d", len(got), len(want))
	}
	return ""
}
