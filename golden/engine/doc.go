// Package engine is the specification of the IncEngine: what the hardware must do, event by event.
//
// An Engine is a pure state machine. It has no clock, no I/O, no goroutine, and nothing in it depends
// on the order of a map. Step takes one event and returns what came of it. A frame or a timer comes
// from outside; what hardware does when its arbiters get to it (move ePSN, release a result, send a
// frame, ...) is an event too, enabled by the state. So a checker may choose every order, a
// scoreboard may follow the order in which hardware committed, and software just calls Run.
//
// The rules are those of docs/protocol.md, sections 5 to 7 for Mode-II, III and I; the comments quote them.
package engine
