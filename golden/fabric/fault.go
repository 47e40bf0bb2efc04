package fabric

import (
	"bytes"

	"github.com/epic-inc/epic/golden/roce"
)

// FaultKind is what a Fault does to its frame.
type FaultKind uint8

//go:generate go tool stringer -type FaultKind -linecomment

// The kinds. The comments are their names.
const (
	// Drop loses the frame.
	Drop FaultKind = iota // drop
	// Twice sends it again at once.
	Twice // duplicate
	// Overtake lets the next frame of the direction pass it.
	Overtake // reorder
	// Corrupt turns a bit that the ICRC protects.
	Corrupt // corrupt
	// Truncate cuts off the second half.
	Truncate // truncate
	// Stale holds it until Turn more frames of the direction have passed.
	Stale // delay

	faultKinds // how many
)

// FaultKinds lists all of them.
func FaultKinds() (all []FaultKind) {
	for k := range faultKinds {
		all = append(all, k)
	}
	return all
}

// Which names one frame of a run that is the same every time: the N-th of its class, from 0, that a node sends at a port.
type Which struct {
	From  ID
	Port  int
	Class string // ClassOf
	N     int
}

// ClassOf is the name of a frame's opcode, of acknowledgements "ack", "nak" or "rnr_nak"; "" of what is not RoCE.
func ClassOf(frame []byte) string {
	pkt, malformed := roce.Decode(frame)
	switch {
	case malformed != nil:
		return ""
	case !pkt.HasAETH():
		return pkt.Opcode.String()
	}
	switch pkt.Syndrome >> 5 { // IBTA 9.7.5.1
	case 0:
		return "ack"
	case 1:
		return "rnr_nak"
	default:
		return "nak"
	}
}

// Fault is done to one frame, once.
type Fault struct {
	Which
	Kind FaultKind
	Turn int // of Stale, at least 1

	seen int // frames of the class so far
	hit  bool
	held *Passage
	more int // frames that still have to pass the one that is held
}

// Hit says that the frame was there.
func (f *Fault) Hit() bool { return f.hit }

// Break sets the faults of a run, before anything is sent. Frames of a Link that loses or delays by itself have their faults too.
func (f *Fabric) Break(faults ...*Fault) { f.faults = faults }

// Lose loses, beside what the links do, every frame of which lost says so. It is asked once for each that is sent.
func (f *Fabric) Lose(lost func(from ID, port int, frame []byte) bool) { f.lost = lost }

// strike does the fault that is for a passage, if one is. It returns the frames that pass instead, in order.
func (f *Fabric) strike(p Passage) []Passage {
	out := []Passage{p}
	for _, x := range f.faults {
		if x.From != p.From || x.Port != p.FromPort {
			continue
		}
		if x.held != nil {
			if x.more--; x.more <= 0 {
				late := *x.held
				late.Arrives, late.Fate, x.held = p.Arrives, Late, nil
				out = append(out, late)
			}
			continue
		}
		if x.hit || ClassOf(p.Frame) != x.Class {
			continue
		}
		if x.seen++; x.seen <= x.N {
			continue
		}
		x.hit = true
		switch x.Kind {
		case Drop:
			out = lose(out)
		case Twice:
			again := p
			again.Fate = Duplicate
			out = append(out, again)
		case Overtake, Stale:
			held := p
			x.held, x.more = &held, 1
			if x.Kind == Stale {
				x.more = x.Turn
			}
			out = lose(out)
		case Corrupt:
			out[0].Frame = corrupt(p.Frame)
		case Truncate:
			out[0].Frame = bytes.Clone(p.Frame[:len(p.Frame)/2])
		}
	}
	return out
}

// lose makes the first of some passages one that does not arrive.
func lose(out []Passage) []Passage {
	out[0].Fate, out[0].Arrives = Lost, 0
	return out
}

// corrupt turns a bit that the ICRC protects: of the payload, which would spoil a sum, or of the PSN where there is none.
func corrupt(frame []byte) []byte {
	c := bytes.Clone(frame)
	at := -1
	for i := range c {
		switch name := roce.FieldAt(c, i); {
		case name == "bth.psn", name == "payload[0]":
			at = i
		}
	}
	c[at] ^= 1
	return c
}
