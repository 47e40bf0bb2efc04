package engine

import (
	"fmt"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
)

// Mistake is one way in which an engine can be wrong. Checkers are checked with them: each must be found (protocol.md 8,
// docs/verification.md).
type Mistake uint8

//go:generate go tool stringer -type Mistake -linecomment

// The mistakes. The comments are their names.
const (
	NoMistake Mistake = iota // none

	// Of Mode-II and III.

	// ClearAhead is the paper's literal RecycleBuffer: on completion of psn it clears the slot (psn + N/2) mod N, and a
	// slot has no tag (protocol.md 4). A late duplicate enters a newer slot.
	ClearAhead // clear-ahead
	// NoValidWalk opens a pipe without clearing the valid bits of its slots (protocol.md 4).
	NoValidWalk // no-valid-walk
	// WindowOnReplays applies the window of the control signal to duplicates too (protocol.md 10).
	WindowOnReplays // window-on-replays

	// Of Mode-II.

	// AnyTag starts a slot on any difference of its tag, with no window around C: late packets take the slots of
	// those that are needed (protocol.md 5).
	AnyTag // any-tag
	// ReplayIncomplete answers a duplicate with what its slot holds, complete or not.
	ReplayIncomplete // replay-incomplete
	// MinAckOnAdvance forwards a Broadcast's ACK only when the minimum moves: one lost ACK kills the QP.
	MinAckOnAdvance // min-ack-on-advance
	// MinAckArriving forwards each of a Broadcast's ACKs as it came: the root is told of what only one out has.
	MinAckArriving // min-ack-arriving

	// Of Mode-III (protocol.md 6).

	// RecycleOnRelease is Mode-II's rule: a slot is free when its result may leave, not when it has arrived.
	RecycleOnRelease // recycle-on-release
	// ReleaseEarly releases what is complete, though an in has a gap below it.
	ReleaseEarly // release-early
	// AckBeyondGap acknowledges the newest that has come, though there is a gap below it.
	AckBeyondGap // ack-beyond-gap
	// DuplicatesIgnored answers no duplicate: a lost last ACK is never made good.
	DuplicatesIgnored // duplicates-ignored
	// NakStopsTimer lets a NAK stop the timer for what is sent again.
	NakStopsTimer // nak-stops-timer
	// RNRCountsAsRetry lets an RNR NAK consume a retry.
	RNRCountsAsRetry // rnr-counts-as-retry

	// Of Mode-I and III.

	// FastestAck takes what one out has acknowledged for acknowledged by all.
	FastestAck // fastest-ack

	// Of Mode-I (protocol.md 7).

	// ArrivalOrder adds messages as they come: floating point depends on it.
	ArrivalOrder // arrival-order
	// EarlyRelease lets the result leave when the first message is in it.
	EarlyRelease // early-release
	// Overwrites takes a message into a buffer that holds one: no back-pressure.
	Overwrites // overwrites
	// TakesGaps goes on behind a gap.
	TakesGaps // takes-gaps
	// RetakesDuplicates counts a packet that comes again once more.
	RetakesDuplicates // retakes-duplicates

	mistakes // how many
)

// Mistakes lists all of them.
func Mistakes() []Mistake {
	var all []Mistake
	for m := NoMistake + 1; m < mistakes; m++ {
		all = append(all, m)
	}
	return all
}

// ParseMistake reads the name of a mistake.
func ParseMistake(name string) (Mistake, error) {
	for m := NoMistake; m < mistakes; m++ {
		if m.String() == name {
			return m, nil
		}
	}
	return NoMistake, fmt.Errorf("mistake: got %q, want one of %v", name, Mistakes())
}

func (e *Engine) mistaken(m Mistake) bool { return e.cfg.Variant.Mistake == m }

// leftover is what slot n may hold when nobody clears it, at its worst: a contribution of the first in to the very psn
// that comes there first.
func (e *Engine) leftover(p, n int) slot {
	cfg := &e.cfg.Pipes[p]
	first := e.space.Add(cfg.PSN0, (n-e.slotIndex(p, cfg.PSN0)+cfg.N)%cfg.N)
	return slot{
		valid: true, tag: e.tag(p, first), bitmap: 1, degree: 1,
		meta:    meta{opcode: spec.OpcodeSendOnly, plen: cfg.MTU, op: cfg.Op, dtype: cfg.DType},
		payload: make([]byte, cfg.MTU),
	}
}

// newest is the newest psn that has come from in i, or ePSN-1.
func (e *Engine) newest(p, i int) psn.PSN {
	last := e.space.Prev(e.endpoints[i].in.ePSN)
	for n := range e.cfg.Pipes[p].N {
		k := e.space.Add(e.pipes[p].psnStart, n)
		if s, belongs := e.slotAt(p, k); belongs && s.bitmap>>e.cfg.Endpoints[i].InIndex&1 != 0 {
			last = e.space.Max(last, k)
		}
	}
	return last
}
