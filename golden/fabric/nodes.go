package fabric

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// Scale says how many clocks a time lasts: Clocks in Per. Models run at a scale of their own when the
// timers of real time would be too slow to wait for (protocol.md 6).
type Scale struct {
	Clocks uint64
	Per    time.Duration
}

// Of returns the clocks that d lasts, at least 1, rounded up.
func (s Scale) Of(d time.Duration) uint64 {
	hi, lo := bits.Mul64(uint64(d), s.Clocks)
	if hi >= uint64(s.Per) {
		return ^uint64(0) >> 1
	}
	q, r := bits.Div64(hi, lo, uint64(s.Per))
	if r > 0 {
		q++
	}
	return max(1, q)
}

func (s Scale) check() error {
	if s.Clocks < 1 || s.Per < 1 {
		return fmt.Errorf("scale: got %d clocks in %v, want at least 1 in at least 1ns", s.Clocks, s.Per)
	}
	return nil
}

// alarms are the timers of a node. There are few, so the next is found by looking at all.
type alarms []struct {
	at  uint64
	set bool
}

func (a alarms) arm(i int, at uint64) { a[i].at, a[i].set = at, true }
func (a alarms) stop(i int)           { a[i].set = false }

// next returns the earliest, of equal times the one with the lowest number.
func (a alarms) next() (i int, at uint64, ok bool) {
	for n := range a {
		if a[n].set && (!ok || a[n].at < at) {
			i, at, ok = n, a[n].at, true
		}
	}
	return i, at, ok
}

// Switch is an engine in a fabric: frames reach it after decoding, timers run in clocks.
type Switch struct {
	Engine *engine.Engine
	// Retired, if set, sees every record of the engine, and the verdicts of frames that did not decode.
	Retired func(now uint64, r *spec.Record)
	// Bypassed, if set, sees the frames that go to the bypass port.
	Bypassed func(now uint64, port int, frame []byte)

	scale  Scale
	emit   Emit
	timers alarms // retransmission and RNR wait of endpoint i at 2i and 2i+1
}

// NewSwitch puts an engine, programmed already, into a node.
func NewSwitch(e *engine.Engine, s Scale) (*Switch, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	return &Switch{Engine: e, scale: s, timers: make(alarms, 2*len(e.Config().Endpoints))}, nil
}

// Restart puts another engine, programmed already, in the place of the one that was there; its timers are gone.
func (s *Switch) Restart(e *engine.Engine) {
	s.Engine, s.timers = e, make(alarms, 2*len(e.Config().Endpoints))
}

// Bind is Node's.
func (s *Switch) Bind(emit Emit) { s.emit = emit }

// Receive is Node's.
func (s *Switch) Receive(now uint64, port int, frame []byte) {
	ev := engine.Event{Cause: spec.CauseDrop, Port: port}
	pkt, malformed := roce.Decode(frame)
	if malformed != nil {
		ev.Verdict = malformed.Verdict
	} else {
		ev.Packet = pkt
	}
	s.run(now, ev, frame)
}

func (s *Switch) run(now uint64, ev engine.Event, frame []byte) {
	if err := s.Engine.Legal(ev); err != nil {
		panic(fmt.Sprintf("clock %d: %v", now, err)) // a stray timer or port: a mistake of this package
	}
	for _, o := range s.Engine.Run(ev) {
		switch o.Kind {
		case engine.Retire:
			if s.Retired != nil {
				s.Retired(now, &o.Record)
			}
		case engine.Frame:
			s.emit(o.Port, o.Packet.Encode())
		case engine.Bypass:
			if s.Bypassed != nil {
				s.Bypassed(now, o.Port, frame)
			}
		case engine.SetTimer:
			i := 2*o.Endpoint + int(o.Timer.Kind)
			if o.Timer.Arm {
				s.timers.arm(i, now+s.scale.Of(time.Duration(o.Timer.Ticks)*spec.TickNs*time.Nanosecond))
			} else {
				s.timers.stop(i)
			}
		}
	}
}

// NextWake is Node's.
func (s *Switch) NextWake() (uint64, bool) {
	_, at, ok := s.timers.next()
	return at, ok
}

// Wake is Node's: a timer has run out.
func (s *Switch) Wake(now uint64) {
	i, at, ok := s.timers.next()
	if !ok || at > now {
		return
	}
	s.timers.stop(i)
	ev := engine.Event{Cause: spec.CauseTimer, Endpoint: i / 2}
	if engine.TimerKind(i%2) == engine.RNRWait {
		ev.Cause = spec.CauseRNRExpiry
	}
	s.run(now, ev, nil)
}

// Host is a NIC in a fabric, with one port, 0, and the ranks of one or more groups behind it.
type Host struct {
	Ranks []*host.Rank
	// Ran, if set, is called after every event of a rank, with its index, before what it sends leaves.
	Ran func(now uint64, rank int)

	scale   Scale
	emit    Emit
	timers  alarms // of the queue pairs: two each, in the order of ranks
	first   []int  // of each rank: its first timer
	start   uint64
	started bool
}

// NewHost puts ranks with different QPNs into a node; they start at time start.
func NewHost(s Scale, start uint64, ranks ...*host.Rank) (*Host, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	h := &Host{scale: s, start: start}
	h.Restart(start, ranks...)
	return h, nil
}

// Restart puts other ranks in the place of those that were there; timers of those are gone.
func (h *Host) Restart(start uint64, ranks ...*host.Rank) {
	h.Ranks, h.start, h.started, h.first = ranks, start, false, nil
	n := 0
	for _, r := range ranks {
		h.first = append(h.first, 2*n)
		n += r.QPs()
	}
	h.timers = make(alarms, 2*n)
}

// Bind is Node's.
func (h *Host) Bind(emit Emit) { h.emit = emit }

// Receive is Node's.
func (h *Host) Receive(now uint64, _ int, frame []byte) {
	pkt, malformed := roce.Decode(frame)
	if malformed != nil {
		return
	}
	for i, r := range h.Ranks {
		if r.Owns(pkt) {
			h.take(now, i, r.Run(host.Event{Kind: host.Deliver, Packet: pkt}))
			return
		}
	}
}

func (h *Host) take(now uint64, rank int, outs []host.Output) {
	if h.Ran != nil {
		h.Ran(now, rank)
	}
	for _, o := range outs {
		timer := h.first[rank] + 2*o.QP + int(o.Timer)
		switch o.Kind {
		case host.Frame:
			h.emit(0, o.Packet.Encode())
		case host.SetTimer:
			if o.Arm {
				h.timers.arm(timer, now+h.scale.Of(o.After))
			} else {
				h.timers.stop(timer)
			}
		}
	}
}

// NextWake is Node's.
func (h *Host) NextWake() (uint64, bool) {
	if !h.started {
		return h.start, true
	}
	_, at, ok := h.timers.next()
	return at, ok
}

// Wake is Node's: it is time to start, or a timer has run out.
func (h *Host) Wake(now uint64) {
	if !h.started {
		if now >= h.start {
			h.started = true
			for i, r := range h.Ranks {
				h.take(now, i, r.Start())
			}
		}
		return
	}
	n, at, ok := h.timers.next()
	if !ok || at > now {
		return
	}
	h.timers.stop(n)
	rank := len(h.first) - 1
	for h.first[rank] > n {
		rank--
	}
	n -= h.first[rank]
	h.take(now, rank, h.Ranks[rank].Run(host.Event{Kind: host.Expire, QP: n / 2, Timer: host.Timer(n % 2)}))
}

// Done says that every rank is.
func (h *Host) Done() bool {
	for _, r := range h.Ranks {
		if !r.Done() {
			return false
		}
	}
	return true
}
