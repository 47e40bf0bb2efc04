package core

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/reduce"
	"github.com/epic-inc/epic/golden/spec"
)

// reduction is a type and an operator that has a meaning on it.
type reduction struct {
	dtype spec.DType
	op    spec.Op
}

func (d reduction) String() string { return fmt.Sprintf("%v of %v", d.op, d.dtype) }

// float is whether the type is a floating-point one; its format is in fields.
func (d reduction) float() bool { _, ok := fields[d.dtype]; return ok }

// latency is that of inc_alu's header.
func (d reduction) latency(compare bool) int {
	switch {
	case compare:
		return 2
	case d.float():
		return 6
	case d.op == spec.OpMin, d.op == spec.OpMax, d.op == spec.OpSum && d.dtype == spec.DTypeInt8:
		return 2
	}
	return 1
}

// reductions are all there are.
func reductions() (all []reduction) {
	for dtype := spec.DType(0); dtype.Valid(); dtype++ {
		for op := spec.Op(0); op.Valid(); op++ {
			if reduce.Supported(dtype, op) == nil {
				all = append(all, reduction{dtype, op})
			}
		}
	}
	return all
}

// fields are the bits of exponent and fraction of a floating-point type.
var fields = map[spec.DType][2]int{spec.DTypeFloat32: {8, 23}, spec.DTypeFloat16: {5, 10}, spec.DTypeBfloat16: {8, 7}}

// edges are elements of a type where something changes: of floats zeros, subnormals, the least normals, around 1, half
// an ulp, the largest, infinities and NaNs, of either sign.
func (d reduction) edges() (out []uint64) {
	size, _ := reduce.ElementBytes(d.dtype)
	if !d.float() {
		top := uint64(1) << (8*size - 1)
		return []uint64{0, 1, 2, top - 1, top, top + 1, 2*top - 1, 2*top - 2, 0x55 * (top >> 7), 0x0f, top >> 1, top>>1 - 1}
	}
	e, f := fields[d.dtype][0], fields[d.dtype][1]
	ulp := uint64(1) << f // of the exponent
	one := uint64(1<<(e-1)-1) << f
	inf := uint64(1<<e-1) << f
	for _, m := range []uint64{0, 1, ulp/2 + 1, ulp - 1, ulp, ulp + 1, 2*ulp - 1, one - ulp, one - 1, one, one + 1, one + 2, one + ulp/2, one + ulp,
		one - uint64(f+1)*ulp, one - uint64(f+1)*ulp + 1, one - uint64(f+2)*ulp, one + uint64(f+1)*ulp, one + uint64(f+2)*ulp,
		inf - uint64(f+1)*ulp - ulp, inf - uint64(f+2)*ulp - 1, inf - ulp, inf - 1, inf, inf + 1, inf + ulp/2, inf + ulp - 1} {
		out = append(out, m, m|1<<(e+f))
	}
	return out
}

// draw is a random pair of elements; floats have exponents near each other or at an end of the range.
func (d reduction) draw(r *run) (a, b uint64) {
	size, _ := reduce.ElementBytes(d.dtype)
	mask := ^uint64(0) >> (64 - 8*size)
	a, b = r.random.Uint64(), r.random.Uint64()
	if !d.float() {
		if r.chance(30) { // near each other, or near the ends
			b = a + uint64(r.below(5)) - 2
		}
		if r.chance(20) {
			b = -a
		}
		return a & mask, b & mask
	}
	e, f := fields[d.dtype][0], fields[d.dtype][1]
	top := 1<<e - 1
	place := func(x uint64, exponent int) uint64 {
		switch low := uint64(1)<<r.below(f+1) - 1; r.below(4) {
		case 0:
			x &^= low
		case 1:
			x |= low
		}
		return x&(1<<(e+f)|1<<f-1) | uint64(min(max(exponent, 0), top))<<f
	}
	x := r.below(top + 1)
	switch r.below(4) {
	case 0:
		x = r.below(4)
	case 1:
		x = top - r.below(4)
	}
	y := x - r.below(f+5)*r.below(2)
	if r.chance(10) {
		y = r.below(top + 1)
	}
	a, b = place(a, x), place(b, y)
	if r.chance(10) {
		b = a ^ b&(1<<(e+f))
	}
	if r.chance(50) {
		a, b = b, a
	}
	return a, b
}

// element puts an element into a payload.
func element(d reduction, payload []byte, v uint64) []byte {
	size, _ := reduce.ElementBytes(d.dtype)
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	return append(payload, b[:size]...)
}

// operands are payloads of whole beats: all pairs of edges, then random pairs.
func (d reduction) operands(r *run, random int) (a, x []byte) {
	for _, p := range d.edges() {
		for _, q := range d.edges() {
			a, x = element(d, a, p), element(d, x, q)
		}
	}
	for range random {
		p, q := d.draw(r)
		a, x = element(d, a, p), element(d, x, q)
	}
	for len(a)%r.beatBytes() != 0 {
		p, q := d.draw(r)
		a, x = element(d, a, p), element(d, x, q)
	}
	return a, x
}

// TestALU gives inc_alu every type and operator: edges against each other and random elements, some beats as a start
// or a compare; types follow each other as soon as the order of inc_alu lets them. Results must be those of
// golden/reduce, in order, each after its own latency.
func TestALU(t *testing.T) {
	each(t, ALU, map[int]string{0: "alu_out_t", 1: "pulse_t", 8: "alu_in_t"}, func(r *run) {
		n := r.beatBytes()
		type want struct {
			of      reduction
			latency int
			data    []byte
			diff    []uint32
			a, x    []byte
			what    string
		}
		var wants []want
		seen := map[string]int{}
		last := 1 // latency of the beat before
		push := func(d reduction, a, x []byte, start, compare bool) {
			w := want{of: d, latency: d.latency(compare), a: a, x: x, diff: make([]uint32, (n/4+31)/32), what: d.String()}
			switch {
			case start:
				w.data, w.what = x, "start, "+w.what
			case compare:
				w.data, w.what = a, "compare, "+w.what
				for i := range n / 4 {
					if !slices.Equal(a[4*i:4*i+4], x[4*i:4*i+4]) {
						w.diff[i/32] |= 1 << (i % 32)
					}
				}
			default:
				w.data = slices.Clone(a)
				require.NoError(r.t, reduce.Accumulate(d.dtype, d.op, w.data, x))
			}
			seen[w.what]++
			pause := max(0, last-w.latency)
			if last == 6 && w.latency < last {
				pause = 5 // inc_alu's rule is the same for all
			}
			r.Push(8, pause, r.New(8).Set("dtype", uint64(d.dtype)).Set("op", uint64(d.op)).SetBool("start", start).
				SetBool("compare", compare).Set("tag", uint64(len(wants)&0xffff)).SetWords("a", words(a)).SetWords("x", words(x)))
			last = w.latency
			wants = append(wants, w)
		}
		for _, d := range reductions() {
			a, x := d.operands(r, 2000)
			for i := 0; i < len(a); i += n {
				push(d, a[i:i+n], x[i:i+n], r.chance(5), r.chance(5))
			}
		}
		all := reductions()
		for range 2000 { // types in turn
			d := all[r.below(len(all))]
			a, x := d.operands(r, 0)
			i := r.below(len(a)/n) * n
			push(d, a[i:i+n], x[i:i+n], r.chance(20), r.chance(20))
		}
		var entered []int // clocks
		next := 0
		for _, ev := range r.drain(2_000_000, 20) {
			switch ev.Stream {
			case 8:
				entered = append(entered, ev.Clock)
			case 0:
				w := wants[next]
				if got := int(ev.Get("tag")); got != next&0xffff {
					r.fail(ev, "result %d has the tag %d: out of order", next, got)
				}
				if got := ev.GetWords("data"); !slices.Equal(got, words(w.data)) {
					r.fail(ev, "%s: %x and %x give %08x, want %08x", w.what, w.a, w.x, got, words(w.data))
				}
				if got := ev.GetWords("diff"); !slices.Equal(got, w.diff) {
					r.fail(ev, "%s: %x and %x differ in words %x, want %x", w.what, w.a, w.x, got, w.diff)
				}
				if next >= len(entered) {
					r.fail(ev, "%s: came before its beat", w.what)
				}
				if got := ev.Clock - entered[next]; got != w.latency {
					r.fail(ev, "%s: took %d clocks, want %d", w.what, got, w.latency)
				}
				next++
			}
		}
		require.Equal(r.t, len(wants), next, "results")
		require.GreaterOrEqual(r.t, len(seen), 3*len(all), "each also as a start and as a compare")
	})
}
