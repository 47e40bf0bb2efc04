package scoreboard

import "github.com/epic-inc/epic/golden/spec"

// latency pairs the packet that completed a slot with the first result of that slot. The clocks of both
// come in messages of their own, in any order within a window.
type latency struct {
	header    []uint64 // by number of the frame in: clock of the beat that ended its headers
	firstBeat []uint64 // by number of the frame on m_axis_tx: clock of its first beat
	completer map[slotKey]uint32
	waiting   []pair
	clocks    []uint32
}

type slotKey struct {
	pipe, psn uint32
}

type pair struct {
	in, out uint32
}

func (l *latency) accepted(acks []spec.FrameAck) {
	for _, a := range acks {
		l.header = append(l.header, a.Header)
	}
}

func (l *latency) completed(r *spec.Record) {
	if l.completer == nil {
		l.completer = map[slotKey]uint32{}
	}
	l.completer[slotKey{r.PipeID, r.PSN}] = r.Frame
}

// sent takes the record of a first send. The first out to send a result takes its completer along.
func (l *latency) sent(r *spec.Record, frame uint32) {
	k := slotKey{r.PipeID, r.PSN}
	if in, ok := l.completer[k]; ok {
		delete(l.completer, k)
		l.waiting = append(l.waiting, pair{in, frame})
	}
}

func (l *latency) left(first uint64) { l.firstBeat = append(l.firstBeat, first) }

func (l *latency) resolve() {
	left := l.waiting[:0]
	for _, p := range l.waiting {
		if int(p.in) < len(l.header) && int(p.out) < len(l.firstBeat) {
			l.clocks = append(l.clocks, uint32(l.firstBeat[p.out]-l.header[p.in]))
		} else {
			left = append(left, p)
		}
	}
	l.waiting = left
}
