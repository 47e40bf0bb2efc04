package softswitch

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// unit is an engine with the pipes that share endpoints, and its timers.
type unit struct {
	s         *Switch
	id        string
	endpoints []engine.Endpoint

	mu      sync.Mutex
	engine  *engine.Engine
	stopped bool
	faulty  []bool // pipes whose fault has been told
	seen    []seen // of each endpoint

	// Timers are kept as deadlines; one alarm serves all. Most are moved on long before they are due, and the alarm
	// finds that out when it goes off instead of being set again each time.
	deadlines []time.Time // retransmission and RNR wait of endpoint i at 2i and 2i+1; zero: not armed
	alarm     *time.Timer
	alarmAt   time.Time // zero: not set
}

// seen is what frames at an endpoint were like.
type seen struct {
	data, acks  uint64
	first, last psn.PSN // of data
	verdicts    []uint64
	at          time.Time
}

// split makes the units of a valid configuration: endpoints that share a pipe are in one.
func (s *Switch) split(id string, cfg engine.Config) ([]*unit, error) {
	of := make([]int, len(cfg.Endpoints)) // endpoint -> lowest endpoint it is joined with
	for i := range of {
		of[i] = i
	}
	find := func(i int) int {
		for of[i] != i {
			i = of[i]
		}
		return i
	}
	for _, p := range cfg.Pipes {
		members := append(slices.Clone(p.Ins), p.Outs...)
		for _, m := range members[1:] {
			a, b := find(members[0]), find(m)
			of[max(a, b)] = min(a, b)
		}
	}
	var units []*unit
	for first := range cfg.Endpoints {
		if find(first) != first {
			continue
		}
		part := cfg
		part.Endpoints, part.Pipes = nil, nil
		endpoint, pipe := map[int]int{}, map[int]int{engine.None: engine.None}
		for i, ep := range cfg.Endpoints {
			if find(i) == first {
				endpoint[i] = len(part.Endpoints)
				part.Endpoints = append(part.Endpoints, ep)
			}
		}
		for i, p := range cfg.Pipes {
			if find(p.Ins[0]) != first {
				continue
			}
			pipe[i] = len(part.Pipes)
			p.Ins, p.Outs = slices.Clone(p.Ins), slices.Clone(p.Outs)
			for _, list := range [][]int{p.Ins, p.Outs} {
				for k := range list {
					list[k] = endpoint[list[k]]
				}
			}
			part.Pipes = append(part.Pipes, p)
		}
		for i := range part.Endpoints {
			ep := &part.Endpoints[i]
			ep.InPipe, ep.OutPipe = pipe[ep.InPipe], pipe[ep.OutPipe]
		}
		e, err := engine.New(part)
		if err != nil {
			return nil, err
		}
		e.Program()
		u := &unit{s: s, id: id, endpoints: part.Endpoints, engine: e, faulty: make([]bool, len(part.Pipes)),
			seen: make([]seen, len(part.Endpoints)), deadlines: make([]time.Time, 2*len(part.Endpoints))}
		for i := range u.seen {
			u.seen[i].verdicts = make([]uint64, verdictCount())
		}
		u.alarm = time.AfterFunc(time.Hour, u.ring)
		u.alarm.Stop()
		units = append(units, u)
	}
	return units, nil
}

// stop ends the unit: it takes nothing any more.
func (u *unit) stop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopped = true
	u.alarm.Stop()
}

// frame lets the engine take a frame.
func (u *unit) frame(p *port, pkt *roce.Packet) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.stopped {
		return
	}
	outs := u.engine.Run(engine.Event{Cause: spec.CauseDrop, Port: p.number, Packet: pkt})
	r := &outs[0].Record // of the frame; the others are of what followed
	p.counters.verdicts[r.Verdict].Add(1)
	if r.Cause == spec.CauseDrop {
		u.s.notes.add(p.number, r.Verdict, pkt, u.refusal(r.Verdict, pkt))
	} else {
		u.seen[r.Endpoint].frame(r, pkt)
	}
	u.take(outs)
}

func (s *seen) frame(r *spec.Record, pkt *roce.Packet) {
	s.verdicts[r.Verdict]++
	s.at = time.Now()
	if r.Cause != spec.CauseData {
		s.acks++
		return
	}
	if s.data == 0 {
		s.first = pkt.PSN
	}
	s.data++
	s.last = pkt.PSN
}

// refusal says what was got and wanted of a frame that no endpoint takes.
func (u *unit) refusal(v spec.Verdict, pkt *roce.Packet) string {
	for _, ep := range u.endpoints {
		if ep.QPN != pkt.DestQP {
			continue
		}
		want := map[spec.Verdict]string{
			spec.VerdictDstIP:       fmt.Sprintf("to %v, want %v", pkt.Dst, ep.IP),
			spec.VerdictIngressPort: fmt.Sprintf("want port %d", ep.Port),
			spec.VerdictSrcMAC:      fmt.Sprintf("from MAC %v, want %v", pkt.SrcMAC, ep.PeerMAC),
			spec.VerdictSrcIP:       fmt.Sprintf("from %v, want %v", pkt.Src, ep.PeerIP),
			spec.VerdictPKey:        fmt.Sprintf("P_Key %#04x, want %#04x", pkt.PKey, ep.PKey),
		}[v]
		if want == "" {
			want = v.Doc()
		}
		return fmt.Sprintf("endpoint %s: %s", ep.Name, want)
	}
	return v.Doc()
}

// take does what the engine has put out.
func (u *unit) take(outs []engine.Output) {
	for i := range outs {
		switch o := &outs[i]; o.Kind {
		case engine.Frame:
			u.s.ports[o.Port].enqueue(item{packet: o.Packet, poisoned: o.Poisoned})
		case engine.SetTimer:
			u.arm(2*o.Endpoint+int(o.Timer.Kind), o.Timer)
		}
	}
	for p := range u.faulty {
		if f := u.engine.Fault(p); f.Kind != spec.ErrorKindNone && !u.faulty[p] {
			u.faulty[p] = true
			u.s.failed(u.fault(p, f))
		}
	}
}

func (u *unit) fault(p int, f engine.Fault) Fault {
	return Fault{ID: u.id, Pipe: u.engine.Config().Pipes[p].Name, Endpoint: u.endpoints[f.Endpoint].Name, Fault: f}
}

func (u *unit) faults() []Fault {
	u.mu.Lock()
	defer u.mu.Unlock()
	var list []Fault
	for p := range u.faulty {
		if f := u.engine.Fault(p); f.Kind != spec.ErrorKindNone {
			list = append(list, u.fault(p, f))
		}
	}
	return list
}

// arm sets or clears a deadline.
func (u *unit) arm(i int, t engine.Timer) {
	if !t.Arm {
		u.deadlines[i] = time.Time{}
		return
	}
	at := time.Now().Add(time.Duration(t.Ticks) * spec.TickNs * time.Nanosecond)
	u.deadlines[i] = at
	if u.alarmAt.IsZero() || at.Before(u.alarmAt) {
		u.set(at)
	}
}

func (u *unit) set(at time.Time) {
	u.alarmAt = at
	u.alarm.Reset(time.Until(at))
}

// ring steps the timers that are due.
func (u *unit) ring() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.stopped {
		return
	}
	u.alarmAt = time.Time{}
	now := time.Now()
	for i := range u.deadlines {
		if at := u.deadlines[i]; at.IsZero() || at.After(now) {
			continue
		}
		u.deadlines[i] = time.Time{}
		ev := engine.Event{Cause: spec.CauseTimer, Endpoint: i / 2}
		if engine.TimerKind(i%2) == engine.RNRWait {
			ev.Cause = spec.CauseRNRExpiry
		}
		u.take(u.engine.Run(ev))
	}
	var next time.Time
	for _, at := range u.deadlines {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if !next.IsZero() && (u.alarmAt.IsZero() || next.Before(u.alarmAt)) {
		u.set(next)
	}
}
