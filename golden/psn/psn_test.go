package psn_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/psn"
)

// walk counts steps forward from b until a is reached, on a circle of size numbers: the definition of
// distance, with nothing of the code under test in it.
func walk(a, b, size int) int {
	n := 0
	for b != a {
		b++
		if b == size {
			b = 0
		}
		n++
	}
	return n
}

func TestSpaceExhaustive(t *testing.T) {
	for width := 1; width <= 6; width++ {
		s, err := psn.NewSpace(width)
		require.NoError(t, err)
		size := 1
		for range width {
			size *= 2
		}
		require.Equal(t, size, s.Size())
		require.Equal(t, psn.PSN(size-1), s.Last())
		require.True(t, s.Valid(psn.PSN(size-1)))
		require.False(t, s.Valid(psn.PSN(size)))
		for a := range size {
			for b := range size {
				pa, pb := psn.PSN(a), psn.PSN(b)
				ahead := walk(a, b, size) // steps from b forward to a
				want := ahead
				if ahead >= size-ahead && ahead != 0 { // the way back is as short: a is before b
					want = ahead - size
				}
				require.Equal(t, want, s.Sub(pa, pb), "width %d: %d - %d", width, a, b)
				require.Equal(t, want < 0, s.Less(pa, pb), "width %d: %d < %d", width, a, b)
				require.Equal(t, want <= 0, s.LessEq(pa, pb), "width %d: %d <= %d", width, a, b)
				if 2*ahead != size { // one of the two is later
					later, earlier := pa, pb
					if want < 0 {
						later, earlier = pb, pa
					}
					require.Equal(t, later, s.Max(pa, pb), "width %d: max(%d, %d)", width, a, b)
					require.Equal(t, earlier, s.Min(pa, pb), "width %d: min(%d, %d)", width, a, b)
				} else {
					require.Equal(t, pb, s.Max(pa, pb))
					require.Equal(t, pa, s.Min(pa, pb))
				}
				for n := 0; n <= size; n++ {
					in := false
					for k := range n { // membership by listing the window
						in = in || (b+k)%size == a
					}
					require.Equal(t, in, s.InWindow(pa, pb, n), "width %d: %d in [%d, +%d)", width, a, b, n)
				}
			}
			for n := -3 * size; n <= 3*size; n++ {
				want := ((a+n)%size + size) % size
				require.Equal(t, psn.PSN(want), s.Add(psn.PSN(a), n), "width %d: %d + %d", width, a, n)
			}
			require.Equal(t, psn.PSN((a+1)%size), s.Next(psn.PSN(a)))
			require.Equal(t, psn.PSN((a+size-1)%size), s.Prev(psn.PSN(a)))
		}
	}
}

func TestNewSpaceRefuses(t *testing.T) {
	for _, width := range []int{-1, 0, 25, 32} {
		_, err := psn.NewSpace(width)
		assert.ErrorContains(t, err, "want 1..24", "width %d", width)
	}
	s, err := psn.NewSpace(24)
	require.NoError(t, err)
	assert.Equal(t, psn.Wire, s)
}

func TestWire(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b psn.PSN
		sub  int
	}{
		{"equal", 5, 5, 0},
		{"after", 7, 5, 2},
		{"before", 5, 7, -2},
		{"over the wrap", 0x000003, 0xfffff0, 19},
		{"back over the wrap", 0xfffff0, 0x000003, -19},
		{"farthest after", 0x7fffff, 0, 0x7fffff},
		{"half the circle is before", 0x800000, 0, -0x800000},
		{"half the circle, other way", 0, 0x800000, -0x800000},
		{"largest number is the one before 0", 0xffffff, 0, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.sub, psn.Sub(c.a, c.b))
			assert.Equal(t, c.sub < 0, psn.Less(c.a, c.b))
			assert.Equal(t, c.sub <= 0, psn.LessEq(c.a, c.b))
		})
	}
	assert.Equal(t, psn.PSN(0), psn.Next(0xffffff))
	assert.Equal(t, psn.PSN(0xffffff), psn.Prev(0))
	assert.Equal(t, psn.PSN(0x56), psn.Add(0xfffff0, 102), "last PSN of 103 packets from fffff0")
	assert.Equal(t, psn.PSN(0xfffff0), psn.Add(0x56, -102))
	assert.Equal(t, psn.PSN(2), psn.Max(2, 0xfffffe))
	assert.Equal(t, psn.PSN(0xfffffe), psn.Min(2, 0xfffffe))
	assert.True(t, psn.Valid(0xffffff))
	assert.False(t, psn.Valid(0x1000000))
	assert.Equal(t, "00004f", psn.PSN(0x4f).String())
	assert.True(t, psn.InWindow(0x0f, 0xfffff0, 32))
	assert.False(t, psn.InWindow(0x10, 0xfffff0, 32))
	assert.False(t, psn.InWindow(0xffffef, 0xfffff0, 32))
	assert.False(t, psn.InWindow(3, 3, 0))
	assert.True(t, psn.InWindow(2, 3, 1<<24))
}

// Laws on the full width, on random numbers: the sum undoes the difference, moving both ends moves
// nothing, and the wire functions are the 24-bit space.
func TestWireLaws(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 24))
	for range 100_000 {
		a, b := psn.PSN(r.Uint32N(1<<24)), psn.PSN(r.Uint32N(1<<24))
		n := int(r.Int64N(1<<40) - 1<<39)
		d := psn.Sub(a, b)
		require.Equal(t, a, psn.Add(b, d))
		require.Equal(t, d, psn.Sub(psn.Add(a, n), psn.Add(b, n)))
		require.Equal(t, 0, (int(a)-int(b)-d)%(1<<24))
		require.True(t, d >= -1<<23 && d < 1<<23, "%d", d)
		require.True(t, psn.Valid(psn.Add(a, n)))
	}
}
