package fabric

import "math/rand/v2"

// Wire is one direction of a link by itself: it says when each frame that enters it arrives. The n-th frame of
// a seed has the same fate whenever it enters, for every frame draws the same numbers.
type Wire struct {
	link Link
	rng  *rand.Rand
	busy uint64 // until when earlier frames occupy it
}

// NewWire returns the direction with a number, counted from 1, of a network with a seed.
func NewWire(l Link, seed, number uint64) (*Wire, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	return newWire(l, seed, number), nil
}

func newWire(l Link, seed, number uint64) *Wire {
	if l.Late == 0 {
		l.Late = 8 * l.Delay
	}
	return &Wire{link: l, rng: rand.New(rand.NewPCG(seed, number))}
}

// Crossing is what becomes of a frame on a wire.
type Crossing struct {
	Start   uint64 // first clock on the link, after the frames before it
	Fate    Fate   // Delivered, Lost or Late
	Arrives uint64 // 0 if Lost
	Again   uint64 // second arrival of a frame that is duplicated, 0 if it is not
}

// Cross lets a frame of so many bytes enter at a time, which is not before that of the frame before it.
func (w *Wire) Cross(at uint64, bytes int) Crossing {
	c := Crossing{Start: max(at, w.busy)}
	w.busy = c.Start + w.link.Rate.duration(bytes)
	c.Arrives = w.busy + w.link.Delay

	// Every frame draws the same numbers whatever becomes of it.
	lost, late, dup := w.rng.Float64() < w.link.Loss, w.rng.Float64() < w.link.Reorder, w.rng.Float64() < w.link.Dup
	lateBy, dupBy := 1+w.rng.Uint64N(w.link.Late), w.rng.Uint64N(w.link.Late)
	if lost {
		c.Fate, c.Arrives = Lost, 0
		return c
	}
	if late {
		c.Fate = Late
		c.Arrives += lateBy
	}
	if dup {
		c.Again = c.Arrives + dupBy
	}
	return c
}
