package scoreboard

import (
	"fmt"

	"github.com/epic-inc/epic/golden/spec"
)

// fences checks the frames that a Mode-II engine refused only because they would write a slot that it was still
// reading: the latest frame with that slot's result must have had its last beat to come.
type fences struct {
	latest  map[slotKey]uint32 // by pipe and slot: number of the latest frame of it on m_axis_tx
	last    []uint64           // by number of the frame on m_axis_tx: clock of its last beat
	waiting []fence
}

type fence struct {
	refused spec.Record
	frame   uint32
	known   bool // such a frame there was
}

func (f *fences) sent(r *spec.Record, frame uint32) {
	if f.latest == nil {
		f.latest = map[slotKey]uint32{}
	}
	f.latest[slotKey{r.PipeID, r.Slot}] = frame
}

func (f *fences) left(last uint64) { f.last = append(f.last, last) }

func (f *fences) refused(r *spec.Record) {
	frame, known := f.latest[slotKey{r.PipeID, r.Slot}]
	f.waiting = append(f.waiting, fence{*r, frame, known})
}

// resolve judges every refusal of which the frame has left by now.
func (f *fences) resolve() (*Difference, *spec.Record) {
	left := f.waiting[:0]
	for _, w := range f.waiting {
		switch {
		case w.known && int(w.frame) >= len(f.last):
			left = append(left, w)
		case !w.known || f.last[w.frame] < w.refused.Clock:
			d := &Difference{What: "record", Field: "verdict", Got: w.refused.Verdict.String(), Want: "ok: nothing of the slot was left to send"}
			if w.known {
				d.Want = fmt.Sprintf("ok: frame %d, the latest of the slot, left by clock %d", w.frame, f.last[w.frame])
			}
			return d, &w.refused
		}
	}
	f.waiting = left
	return nil, nil
}
