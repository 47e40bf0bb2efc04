package engine

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/spec"
)

// awkward are, in each row, the elements of four ranks whose sum depends on the order, or on what becomes of NaNs,
// infinities and signed zeros.
var awkward = [][4]float32{
	{1, 1 << 24, 1, -(1 << 24)},
	{1e30, 1, -1e30, 1},
	{float32(math.Inf(1)), 3, float32(math.Inf(-1)), 4},
	{math.Float32frombits(0x7f812345), 1, 2, 3},
	{float32(math.Copysign(0, -1)), float32(math.Copysign(0, -1)), 0, float32(math.Copysign(0, -1))},
	{float32(math.Copysign(0, -1)), float32(math.Copysign(0, -1)), float32(math.Copysign(0, -1)), float32(math.Copysign(0, -1))},
	{math.MaxFloat32, math.MaxFloat32, -math.MaxFloat32, -math.MaxFloat32},
	{math.SmallestNonzeroFloat32, 1e-45, -1e-45, 3},
}

// inOrder is the sum of a row from left to right, by Go's own float32.
func inOrder(row [4]float32) uint32 {
	sum := row[0]
	for _, x := range row[1:] {
		sum = float32(sum + x)
	}
	if sum != sum {
		return 0x7fc00000 // the canonical quiet NaN
	}
	return math.Float32bits(sum)
}

func orders(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for _, o := range orders(n - 1) {
		for at := range n {
			all = append(all, append(append(append([]int{}, o[:at]...), n-1), o[at:]...))
		}
	}
	return all
}

// arrive returns the result for every order in which the ranks' packets arrive.
func arrive(t *testing.T, mode int, reproducible bool) map[string]bool {
	t.Helper()
	results := map[string]bool{}
	for _, order := range orders(4) {
		c := flat(4, 4, 0xffffff)
		c.Pipes[0].Mode, c.Pipes[0].DType, c.Pipes[0].Reproducible = mode, spec.DTypeFloat32, reproducible
		e := programmed(t, c)
		for n, i := range order {
			var elements []uint32
			for _, row := range awkward {
				elements = append(elements, math.Float32bits(row[i]))
			}
			ev := dataFrom(&c, i, 0xffffff, elements...)
			for _, pkt := range frames(e.Run(ev)) {
				results[string(pkt.Payload)] = true
			}
			clear(ev.Packet.Payload) // the engine keeps nothing of the frame
			e = e.Clone()
			if n < 3 { // and a duplicate adds nothing
				e.Run(dataFrom(&c, i, 0xffffff, make([]uint32, len(awkward))...))
			}
		}
	}
	return results
}

func TestReproducible(t *testing.T) {
	require.Len(t, orders(4), 24)
	var want []byte
	for _, row := range awkward {
		want = binary.LittleEndian.AppendUint32(want, inOrder(row))
	}
	for _, mode := range []int{2, 3} {
		t.Run(fmt.Sprint("mode ", mode), func(t *testing.T) {
			require.Equal(t, map[string]bool{string(want): true}, arrive(t, mode, true))
			require.Greater(t, len(arrive(t, mode, false)), 1, "these elements do not tell one order from another")
		})
	}
}

// A control signal over a reproducible pipe is compared, not summed.
func TestReproducibleUnpinned(t *testing.T) {
	for _, mode := range []int{2, 3} {
		c := unpinned(mode)
		c.Pipes[0].Reproducible = true
		e := programmed(t, c)
		s := signal
		s.Flags, s.Op, s.DType, s.Bytes = 1, spec.OpSum, spec.DTypeFloat32, 4
		var outs []Output
		for i := range 3 {
			outs = append(outs, e.Run(controlFrom(&c, i, 0xfffffe, s))...)
		}
		require.Len(t, frames(outs), 3)
		require.Equal(t, s.Payload(), frames(outs)[0].Payload)
		one, big := math.Float32bits(1), math.Float32bits(1<<24)
		var results []Output
		for _, x := range []struct {
			in int
			v  uint32
		}{{2, big}, {0, one}, {1, one}} {
			results = append(results, e.Run(dataFrom(&c, x.in, 0xffffff, x.v))...)
		}
		require.Len(t, frames(results), 3)
		require.Equal(t, float32(1<<24+2), math.Float32frombits(binary.LittleEndian.Uint32(frames(results)[0].Payload)))
	}
}
