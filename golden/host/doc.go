// Package host is a RoCEv2 reliable connection as the hosts' NICs behave: a requester that sends SEND
// messages of any length, and a responder that receives them.
//
// A QP is a pure state machine like the engine: Step takes one event and returns what came of it.
// It has no clock (timers are armed by outputs with a length of time, and their expiry is an event),
// no I/O and no goroutine. Sending one packet is an event of its own, so that a replay or a checker
// decides how sending and receiving interleave; Run sends all that may be sent.
//
// NICs differ where IBTA leaves room and where they do not keep to it. Each such behaviour is a field
// of Settings. LinuxRXE is what the kernel's software RoCE was observed to do (docs and captures in
// testdata/captures); StrictNIC is what IBTA volume 1 section 9.7 says.
package host
