package fabric

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A wire by itself does to the n-th frame what the link of a fabric does, at whatever times they enter.
func TestWireByItself(t *testing.T) {
	link := Link{Delay: 20, Loss: 0.2, Dup: 0.2, Reorder: 0.3, Rate: Rate{Bytes: 1, Clocks: 1}}
	f, a, _ := pair(t, 11, link, link)
	var seen []Passage
	f.SetTap(func(p Passage) { seen = append(seen, p) })
	for range 300 {
		a.emit(3, make([]byte, 10))
		f.Run(f.Now() + 3)
	}
	w, err := NewWire(link, 11, 1)
	require.NoError(t, err)
	apart, err := NewWire(link, 11, 1)
	require.NoError(t, err)
	fates := map[Fate]int{}
	for i := range 300 {
		c, later := w.Cross(uint64(3*i), 10), apart.Cross(uint64(1000*i), 10)
		require.Equal(t, Passage{Sent: c.Start, Arrives: c.Arrives, Fate: c.Fate}, Passage{Sent: seen[0].Sent, Arrives: seen[0].Arrives, Fate: seen[0].Fate})
		fates[c.Fate]++
		seen = seen[1:]
		if c.Again > 0 {
			require.Equal(t, Passage{Arrives: c.Again, Fate: Duplicate}, Passage{Arrives: seen[0].Arrives, Fate: seen[0].Fate})
			fates[Duplicate]++
			seen = seen[1:]
		}
		require.Equal(t, c.Fate, later.Fate)
		require.Equal(t, c.Again > 0, later.Again > 0)
	}
	require.Empty(t, seen)
	for _, fate := range []Fate{Delivered, Lost, Duplicate, Late} {
		require.Greater(t, fates[fate], 30, fate)
	}
	_, err = NewWire(Link{Loss: 2, Delay: 1}, 1, 1)
	require.ErrorContains(t, err, "loss: got 2, want 0..1")
}
