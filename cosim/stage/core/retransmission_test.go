package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
)

const tickClocks = 20

// sender is golden beside the retransmission: it steps what the records say, in their order.
type sender struct {
	*golden
	r         *run
	outs      []int // endpoints that are outs
	index     []int // table entry of each endpoint
	byIndex   map[int]int
	tx        map[int]spec.Record // state of each out
	timers    map[int]timer
	rnrs      map[int]timer
	start     []psn.PSN // psnStart of each pipe
	next      []psn.PSN // nextSend
	failed    []bool    // golden has the pipe in error
	fault     []bool    // an out of the pipe is in error
	live      []bool
	acks      []pendingAck
	frames    uint32 // ACKs so far
	jobs      uint32 // results sent so far
	seen      map[spec.Cause]int
	expected  []spec.Counter // pulses due in this clock
	announced int            // clock before the latest ACK was offered
	mins      []psn.PSN
}

type timer struct {
	armed bool
	at    int // clock
	ticks int
}

type pendingAck struct {
	endpoint int
	psn      psn.PSN
	syndrome uint8
	frame    uint32
}

func (r *run) newSender() *sender {
	cfg := engine.Config{Name: "sender"}
	shape := []int{4, 1, 3} // outs of each pipe
	for p, outs := range shape {
		pipe := engine.Pipe{Mode: 3, N: 8, MTU: 256 << (p % 2), PSN0: []psn.PSN{0xfffff8, 0x7ffffc, 5}[p], AckEvery: 1, RNRCode: 1,
			Retries: 2 + p, BackoffMax: p, Timeout: 3 + 2*p, Base: 16 * p}
		for range outs {
			i := len(cfg.Endpoints)
			ep := r.endpoint((i*5+3)%entries, false)
			ep.OutPipe, ep.PSN0 = p, pipe.PSN0
			pipe.Outs = append(pipe.Outs, i)
			cfg.Endpoints = append(cfg.Endpoints, ep)
		}
		cfg.Pipes = append(cfg.Pipes, pipe)
	}
	for p := range cfg.Pipes {
		i := len(cfg.Endpoints)
		ep := r.endpoint((i*5+3)%entries, false)
		ep.InPipe, ep.PSN0 = p, cfg.Pipes[p].PSN0
		cfg.Pipes[p].Ins = []int{i}
		cfg.Endpoints = append(cfg.Endpoints, ep)
	}
	s := &sender{golden: newGolden(r.t, cfg), r: r, byIndex: map[int]int{}, tx: map[int]spec.Record{}, timers: map[int]timer{},
		rnrs: map[int]timer{}, seen: map[spec.Cause]int{}, failed: make([]bool, len(cfg.Pipes)), fault: make([]bool, len(cfg.Pipes)),
		live: make([]bool, len(cfg.Pipes)), mins: make([]psn.PSN, len(cfg.Pipes))}
	s.Program()
	tables := plan(r.t, cfg)
	for i, ep := range cfg.Endpoints {
		s.index = append(s.index, tables.EndpointIndex(i))
		s.byIndex[tables.EndpointIndex(i)] = i
		if ep.OutPipe != engine.None {
			s.outs = append(s.outs, i)
			s.reset(i)
		}
	}
	for p, pipe := range cfg.Pipes {
		s.start, s.next = append(s.start, pipe.PSN0), append(s.next, pipe.PSN0)
		entry := tables.Pipe(p)
		r.Push(10, 0, r.New(10).Set("index", uint64(p)).SetWords("cfg", entry.Words()))
		for n, i := range pipe.Outs {
			r.Push(11, 0, r.New(11).Set("index", uint64(int(entry.OutBase)+n)).Set("ep", uint64(s.index[i])))
			r.Push(12, 0, r.New(12).Set("ep", uint64(s.index[i])).Set("psn", uint64(pipe.PSN0)).Set("out", 1))
		}
	}
	r.drain(2000, 2)
	for p := range s.live {
		s.live[p] = true
	}
	s.level()
	r.drain(2000, 0)
	return s
}

func (s *sender) reset(i int) {
	ep := s.cfg.Endpoints[i]
	last := uint32(psn.Prev(ep.PSN0))
	s.tx[i] = spec.Record{LastAcked: last, Cursor: uint32(ep.PSN0), SentMax: last}
	s.timers[i], s.rnrs[i] = timer{}, timer{}
}

// level tells the bench how far the pipes are.
func (s *sender) level() {
	t := s.r.New(8).Set("tick_clocks", tickClocks)
	var live, failed uint64
	next := make([]uint32, 3)
	for p := range s.live {
		if s.live[p] {
			live |= 1 << p
		}
		if s.fault[p] {
			failed |= 1 << p
		}
		for b := range 24 {
			if s.next[p]>>b&1 != 0 {
				next[(24*p+b)/32] |= 1 << ((24*p + b) % 32)
			}
		}
	}
	s.r.Push(8, 0, t.Set("live", live).Set("pipe_error", failed).SetWords("next_send", next))
}

// release lets pipe p have one result more, if its window has room.
func (s *sender) release(p int) {
	in := s.cfg.Endpoints[s.cfg.Pipes[p].Ins[0]]
	if s.failed[p] || s.fault[p] || s.next[p] == psn.Add(s.start[p], s.cfg.Pipes[p].N) {
		return
	}
	rec := s.frame(in.Port, packet(in, spec.OpcodeSendOnly, s.next[p]))[0].Record
	require.Equal(s.t, spec.VerdictOk, rec.Verdict)
	s.step(engine.Event{Cause: spec.CauseAdvance, Endpoint: s.cfg.Pipes[p].Ins[0]})
	s.next[p] = psn.PSN(s.step(engine.Event{Cause: spec.CauseRelease, Pipe: p})[0].Record.NextSend)
}

func (s *sender) ack(i int, k psn.PSN, syndrome uint8) {
	a := pendingAck{i, k, syndrome, s.frames}
	s.frames++
	s.acks = append(s.acks, a)
	s.r.Push(9, 0, s.r.New(9).Set("ep", uint64(s.index[i])).Set("pipe", uint64(s.cfg.Endpoints[i].OutPipe)).
		Set("psn", uint64(k)).Set("syndrome", uint64(syndrome)).Set("frame", uint64(a.frame)))
}

// bound is how late a timer may be: one keeping walk in which every visit meets another operation.
func (s *sender) bound() int { return 16*len(s.outs) + 24 } // and what is under way when a walk begins

// due checks that an expiry came neither early nor late.
func (s *sender) due(ev Event, what string, i int, t timer) {
	early, late := t.at+t.ticks*tickClocks, t.at+(t.ticks+1)*tickClocks+s.bound()
	if ev.Clock < early || ev.Clock > late {
		s.r.fail(ev, "%s of endpoint %d: armed in clock %d for %d ticks of %d clocks: want clocks %d..%d", what, i, t.at, t.ticks,
			tickClocks, early, late)
	}
}

func (s *sender) record(ev Event) {
	i, ok := s.byIndex[int(ev.Get("endpoint"))]
	if !ok {
		s.r.fail(ev, "record of endpoint entry %d, which nobody has", ev.Get("endpoint"))
	}
	cause := spec.Cause(ev.Get("cause"))
	var outs []engine.Output
	frame := uint64(0)
	was := s.tx[i]
	switch cause {
	case spec.CauseAck, spec.CauseNak:
		if len(s.acks) == 0 {
			s.r.fail(ev, "a record of an ACK that was not given")
		}
		// 3 clocks, 3 more if a visit of the same out was before it, and 3 if one went first that had waited for other ACKs
		if took := ev.Clock - s.announced; took > 9 {
			s.r.fail(ev, "an ACK waited %d clocks; nothing may hold it for longer than 9", took)
		}
		a := s.acks[0]
		s.acks = s.acks[1:]
		require.Equal(s.t, a.endpoint, i, "clock %d: endpoint of the ACK", ev.Clock)
		frame = uint64(a.frame)
		outs = s.frame(s.cfg.Endpoints[i].Port, ackPacket(s.cfg.Endpoints[i], a.psn, a.syndrome))
		if outs[0].Record.Verdict == spec.VerdictOk {
			switch {
			case cause == spec.CauseAck:
				s.expected = append(s.expected, spec.CounterRxAck)
			case a.syndrome>>5 == 1:
				s.expected = append(s.expected, spec.CounterRxRNR)
			default:
				s.expected = append(s.expected, spec.CounterRxNak)
			}
		}
	case spec.CauseTimer:
		s.due(ev, "timeout", i, s.timers[i])
		s.expected = append(s.expected, spec.CounterTimer)
	case spec.CauseRNRExpiry:
		s.due(ev, "RNR expiry", i, s.rnrs[i])
		s.expected = append(s.expected, spec.CounterRNRExpiry)
	case spec.CauseSend, spec.CauseResend:
		frame = uint64(s.jobs)
		s.jobs++
		s.expected = append(s.expected, map[spec.Cause]spec.Counter{spec.CauseSend: spec.CounterTxData, spec.CauseResend: spec.CounterTxResend}[cause])
	default:
		s.r.fail(ev, "record of cause %v", cause)
	}
	if outs == nil {
		if err := s.Legal(engine.Event{Cause: cause, Endpoint: i}); err != nil {
			s.r.fail(ev, "%v", err)
		}
		outs = s.Step(engine.Event{Cause: cause, Endpoint: i})
	}
	s.seen[cause]++
	want := outs[0].Record
	want.Endpoint = uint32(s.index[i])
	for n, f := range spec.RecordFields {
		wanted := want.Field(n)
		switch f.Name {
		case "clock":
			continue
		case "frame":
			wanted = frame
		}
		if got := ev.Get(f.Name); got != wanted {
			s.r.fail(ev, "%v of endpoint %d: %s: got %#x, want %#x; before: %v", cause, i, f.Name, got, wanted, &was)
		}
	}
	s.tx[i] = txOnly(want)
	if s.tx[i].EpError != 0 && was.EpError == 0 {
		s.expected = append(s.expected, spec.CounterEpError)
	}
	for _, o := range outs {
		if o.Kind == engine.SetTimer {
			t := timer{armed: o.Timer.Arm, at: ev.Clock, ticks: o.Timer.Ticks}
			if o.Timer.Kind == engine.Retransmit {
				s.timers[i] = t
			} else {
				s.rnrs[i] = t
			}
		}
	}
	if s.tx[i].TimerArmed == 0 {
		s.timers[i] = timer{}
	}
	if s.tx[i].RNRWait == 0 {
		s.rnrs[i] = timer{}
	}
}

// take replays what moved.
func (s *sender) take(events []Event) {
	for n, ev := range events {
		switch ev.Stream {
		case 0:
			s.record(ev)
			sent := ev.Get("cause") == uint64(spec.CauseSend) || ev.Get("cause") == uint64(spec.CauseResend)
			jobs := 0
			for _, e := range events[n:] {
				if e.Clock == ev.Clock && e.Stream == 4 {
					jobs++
				}
			}
			require.Equal(s.t, sent, jobs == 1, "clock %d: a job and no record of it, or the other way round", ev.Clock)
		case 1:
			p, k := int(ev.Get("pipe")), psn.PSN(ev.Get("psn"))
			s.mins[p] = k
			if k == s.start[p] || s.failed[p] && !s.live[p] {
				break
			}
			if err := s.Legal(engine.Event{Cause: spec.CauseRecycle, Pipe: p, PSN: k}); err != nil {
				s.r.fail(ev, "minimum of a walk: %v", err)
			}
			s.step(engine.Event{Cause: spec.CauseRecycle, Pipe: p, PSN: k})
			s.start[p] = k
		case 2:
			p, i := int(ev.Get("pipe")), s.byIndex[int(ev.Get("ep"))]
			require.Equal(s.t, uint32(1), s.tx[i].EpError, "clock %d: a fault of endpoint %d, which has none", ev.Clock, i)
			if !s.fault[p] && !s.failed[p] {
				s.fault[p] = true
				trial := s.clone()
				trial.step(engine.Event{Cause: spec.CauseError, Pipe: p})
				f := trial.Fault(p)
				if f.Kind == spec.ErrorKindFatalNak {
					f.Wanted = 0x1f // an ACK
				}
				got := engine.Fault{Kind: spec.ErrorKind(ev.Get("kind")), Endpoint: i, PSN: psn.PSN(ev.Get("psn")), Got: uint32(ev.Get("got")),
					Wanted: uint32(ev.Get("wanted"))}
				require.Equal(s.t, f, got, "clock %d: first fault of pipe %d", ev.Clock, p)
			}
		case 3:
			var want uint64
			for _, c := range s.expected {
				want |= 1 << (c - spec.CounterRxData)
			}
			s.expected = s.expected[:0]
			if got := ev.Get("stat_event"); got != want {
				s.r.fail(ev, "pulses: got %#x, want %#x", got, want)
			}
		case 4:
			i := s.byIndex[int(ev.Get("ep"))]
			pipe := s.cfg.Pipes[s.cfg.Endpoints[i].OutPipe]
			k := psn.Prev(psn.PSN(s.tx[i].Cursor))
			want := s.r.New(4).Set("ep", uint64(s.index[i])).Set("psn", uint64(k)).Set("ack_req", 1).
				Set("block", uint64(pipe.Base+int(k)%pipe.N*pipe.MTU/spec.BlockBytes))
			if !equal(ev.Words, want.Words) {
				s.r.fail(ev, "job: got psn %06x, block %d; want %06x, %d", ev.Get("psn"), ev.Get("block"), want.Get("psn"), want.Get("block"))
			}
		case 8:
			for p := range s.failed {
				if ev.Get("pipe_error")>>p&1 != 0 && !s.failed[p] {
					s.step(engine.Event{Cause: spec.CauseError, Pipe: p})
					s.failed[p] = true
				}
			}
		case 9:
			s.announced = ev.Clock
		}
		if n+1 == len(events) || events[n+1].Clock != ev.Clock {
			require.Empty(s.t, s.expected, "clock %d: pulses that did not come", ev.Clock)
		}
	}
	for _, i := range s.outs {
		for what, t := range map[string]timer{"timeout": s.timers[i], "RNR expiry": s.rnrs[i]} {
			if t.armed && s.live[s.cfg.Endpoints[i].OutPipe] {
				require.LessOrEqual(s.t, s.r.Clock, t.at+(t.ticks+1)*tickClocks+2*s.bound(), "the %s of endpoint %d does not come: armed in clock %d for %d ticks",
					what, i, t.at, t.ticks)
			}
		}
	}
}

// rewrite takes pipe p back to its first psn, as the driver does: outs removed, pipe written, outs written.
func (s *sender) rewrite(p int) {
	r, pipe := s.r, s.cfg.Pipes[p]
	s.take(r.drain(5000, 2))
	write := func(i int, remove bool) {
		s.step(engine.Event{Cause: spec.CauseTableWrite, Endpoint: i, Pipe: engine.None, Remove: remove})
		s.reset(i)
	}
	outs := func(remove bool) {
		for _, i := range pipe.Outs {
			init := r.New(12).Set("ep", uint64(s.index[i])).Set("psn", uint64(pipe.PSN0)).SetBool("out", !remove)
			if remove {
				init.Set("psn", 0) // the driver writes an entry of zeros
			}
			r.Push(12, 0, init)
			for done := false; !done; {
				events := r.clocks(1)
				for n, ev := range events {
					if ev.Stream == 12 {
						s.take(events[:n])
						write(i, remove)
						events, done = events[n+1:], true
						break
					}
				}
				s.take(events)
			}
		}
	}
	s.mins[p] = pipe.PSN0
	outs(true)
	r.Push(13, 0, r.New(13).Set("pipe", uint64(p)))
	s.take(r.drain(1000, 4))
	s.live[p] = false
	write(pipe.Ins[0], true)
	s.step(engine.Event{Cause: spec.CauseTableWrite, Endpoint: engine.None, Pipe: p})
	for n := range pipe.N {
		s.step(engine.Event{Cause: spec.CauseBindStep, Pipe: p, Slot: n})
	}
	s.step(engine.Event{Cause: spec.CauseBindDone, Pipe: p})
	outs(false)
	write(pipe.Ins[0], false)
	s.start[p], s.next[p], s.failed[p], s.fault[p], s.live[p] = pipe.PSN0, pipe.PSN0, false, false, true
	s.level()
}

var senderStreams = map[int]string{0: "record_t", 1: "pipe_psn_t", 2: "fault_t", 3: "event_t", 4: "txjob_t", 5: "txjob_t", 8: "tx_level_t",
	9: "ack_req_t", 10: "pipe_write_t", 11: "out_write_t", 12: "ep_psn_t", 13: "pipe_psn_t"}

// TestRetransmission answers results with every kind of ACK and NAK, or not at all.
func TestRetransmission(t *testing.T) {
	each(t, Retransmission, senderStreams, func(r *run) {
		s := r.newSender()
		rewrites := 0
		for round := range 1200 {
			for p := range s.cfg.Pipes {
				for range r.below(3) {
					s.release(p)
				}
			}
			s.level()
			for range r.below(4) {
				i := s.outs[r.below(len(s.outs))]
				tx := s.tx[i]
				k := psn.Add(psn.PSN(tx.LastAcked), r.below(5)-1)
				if r.chance(40) {
					k = psn.Add(psn.PSN(tx.SentMax), r.below(3)-1)
				}
				syndrome := []uint8{0x1f, 0x1f, 0x1f, 0x1f, 0x1f, 0x00, 0x60, 0x60, 0x21, 0x23}[r.below(10)]
				if r.chance(1) {
					syndrome = 0x61 + uint8(r.below(4))
				}
				s.ack(i, k, syndrome)
			}
			wait := r.below(80)
			if r.chance(5) {
				wait = 30 * tickClocks
			}
			s.take(r.clocks(1 + wait))
			for p := range s.cfg.Pipes {
				if s.failed[p] && r.chance(10) {
					s.rewrite(p)
					rewrites++
				}
			}
			if round%100 == 0 { // from now on nothing leaves, or all
				stall := []int{r.pacing.stall, 1_000_000, r.pacing.stall, 900_000}[round/100%4]
				r.Pacing(r.pacing.idle, stall)
			}
		}
		r.Pacing(0, 0)
		// In the end all is sent and acknowledged, and the walks say so.
		for range 100 {
			for _, i := range s.outs {
				s.ack(i, psn.PSN(s.tx[i].SentMax), 0x1f)
			}
			s.take(r.drain(5000, 100))
			s.level() // an error that has not reached the pipe yet
		}
		for p := range s.cfg.Pipes {
			if s.failed[p] {
				continue
			}
			require.Equal(r.t, s.next[p], s.start[p], "pipe %d: psnStart", p)
			for _, i := range s.cfg.Pipes[p].Outs {
				require.Equal(r.t, psn.PSN(s.tx[i].Cursor), s.next[p], "endpoint %d: cursor", i)
			}
		}
		for _, ev := range s.Enabled() {
			require.NotContains(r.t, []spec.Cause{spec.CauseSend, spec.CauseResend, spec.CauseError}, ev.Cause, "left undone: %v", ev)
		}
		for _, cause := range []spec.Cause{spec.CauseAck, spec.CauseNak, spec.CauseSend, spec.CauseResend, spec.CauseTimer, spec.CauseRNRExpiry} {
			require.NotZero(r.t, s.seen[cause], "no %v", cause)
		}
		require.NotZero(r.t, rewrites, "no pipe was written anew")
	})
}

// TestRetransmissionInTurn: outs with results waiting are served in turn, each as often as every other.
func TestRetransmissionInTurn(t *testing.T) {
	each(t, Retransmission, senderStreams, func(r *run) {
		s := r.newSender()
		for p := range s.cfg.Pipes {
			for range s.cfg.Pipes[p].N {
				s.release(p)
			}
		}
		s.level()
		sent := map[int]int{}
		first, last := 0, 0
		for len(s.outs)*8 > int(s.jobs) {
			events := r.clocks(1)
			s.take(events)
			for _, ev := range events {
				if ev.Stream != 4 {
					continue
				}
				if first == 0 {
					first = ev.Clock
				}
				last = ev.Clock
				i := s.byIndex[int(ev.Get("ep"))]
				sent[i]++
				for _, o := range s.outs {
					require.LessOrEqual(r.t, sent[i], sent[o]+1, "clock %d: endpoint %d sends before endpoint %d has had its turn", ev.Clock, i, o)
				}
			}
			require.Less(r.t, r.Clock, 5000, "%d results sent", s.jobs)
			for _, i := range s.outs { // keep the timers quiet
				if psn.PSN(s.tx[i].LastAcked) != psn.PSN(s.tx[i].SentMax) && r.Clock-s.timers[i].at > 2*tickClocks && len(s.acks) == 0 {
					s.ack(i, psn.PSN(s.tx[i].SentMax), 0x1f)
				}
			}
		}
		if r.pacing.idle+r.pacing.stall == 0 {
			require.LessOrEqual(r.t, last-first, 4*len(s.outs)*8, "clocks for %d results", s.jobs)
		}
	})
}

// TestRetransmissionFlood: ACKs that come to one out without a pause hold up nobody, the out itself neither.
func TestRetransmissionFlood(t *testing.T) {
	each(t, Retransmission, senderStreams, func(r *run) {
		s := r.newSender()
		for p := range s.cfg.Pipes {
			for range s.cfg.Pipes[p].N {
				s.release(p)
			}
		}
		s.level()
		flooded := s.outs[0]
		for range 600 {
			s.ack(flooded, psn.PSN(s.tx[flooded].LastAcked), 0x1f) // stale: it changes nothing
		}
		for len(s.acks) > 0 && len(s.outs)*8 > int(s.jobs) {
			s.take(r.clocks(1))
		}
		if r.pacing.idle+r.pacing.stall == 0 {
			require.Equal(r.t, len(s.outs)*8, int(s.jobs), "results sent, with %d ACKs left of the flood", len(s.acks))
		}
		s.take(r.drain(20000, 100))
	})
}
