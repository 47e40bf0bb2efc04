package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
)

// answers are 16 pipes of one endpoint each, which is its in and its out: each in can be made to owe any answer at any time.
type answers struct {
	*golden
	in       [entries]spec.Record // receive state, of the last record that had it
	psnStart [entries]psn.PSN
	broken   [entries]bool
}

const answersN = 8 // slots

func (r *run) newAnswers() *answers {
	cfg := engine.Config{Name: "answers"}
	for i := range entries {
		ep := r.endpoint(i, false)
		ep.PSN0 = psn.Add(0xfffff0, i)
		ep.InPipe, ep.OutPipe = i, i
		cfg.Endpoints = append(cfg.Endpoints, ep)
		cfg.Pipes = append(cfg.Pipes, engine.Pipe{Mode: 3, Ins: []int{i}, Outs: []int{i}, N: answersN, MTU: 256, PSN0: ep.PSN0,
			AckEvery: 2, RNRCode: 1, Retries: 7, Timeout: 9})
	}
	a := &answers{golden: newGolden(r.t, cfg)}
	for i := range entries {
		a.write(i)
	}
	return a
}

func (a *answers) note(rec spec.Record) spec.Record {
	if rec.Groups&spec.GroupRx != 0 {
		a.in[rec.Endpoint] = rec
	}
	if rec.Groups&spec.GroupPipe != 0 {
		a.psnStart[rec.PipeID] = psn.PSN(rec.PSNStart)
	}
	return rec
}

func (a *answers) do(ev engine.Event) spec.Record { return a.note(a.step(ev)[0].Record) }

func (a *answers) data(i int, k psn.PSN, ackReq bool) spec.Record {
	p := packet(a.cfg.Endpoints[i], spec.OpcodeSendOnly, k)
	p.AckReq = ackReq
	return a.note(a.frame(a.cfg.Endpoints[i].Port, p)[0].Record)
}

func (a *answers) ack(i int, k psn.PSN, syndrome uint8) {
	a.frame(a.cfg.Endpoints[i].Port, ackPacket(a.cfg.Endpoints[i], k, syndrome))
}

// write takes endpoint and pipe i back to their first psn.
func (a *answers) write(i int) {
	a.do(engine.Event{Cause: spec.CauseTableWrite, Endpoint: engine.None, Pipe: i})
	for s := range answersN {
		a.do(engine.Event{Cause: spec.CauseBindStep, Pipe: i, Slot: s})
	}
	a.do(engine.Event{Cause: spec.CauseBindDone, Pipe: i})
	a.do(engine.Event{Cause: spec.CauseTableWrite, Endpoint: i, Pipe: engine.None})
	a.broken[i] = false
}

// ask is one thing that makes in i owe an answer, or not: the bench's token, and what golden does when it takes effect.
type ask struct {
	token Token
	apply func() spec.Record
}

func (a *answers) ask(r *run, i int) ask {
	before := a.in[i]
	e := psn.PSN(before.EPSN)
	full := e == psn.Add(a.psnStart[i], answersN)
	t := r.New(8).Set("ep", uint64(a.cfg.Endpoints[i].QPN%entries))
	set := func(kind spec.AckKind) Token { return t.Set("set", 1).Set("kind", uint64(kind)) }

	if a.broken[i] {
		if r.chance(40) {
			return ask{t.Set("init", 1), func() spec.Record { a.write(i); return a.in[i] }}
		}
		return ask{set(spec.AckKindFatal), func() spec.Record { return a.data(i, e, false) }}
	}
	switch roll := r.below(100); {
	case roll < 20: // acknowledged downstream already
		return ask{set(spec.AckKindAck), func() spec.Record { return a.data(i, psn.Prev(a.psnStart[i]), false) }}
	case roll < 45: // beyond a gap
		if before.NakSent == 0 {
			t = set(spec.AckKindNak).Set("nak_wr", 1).Set("nak", 1)
		}
		return ask{t, func() spec.Record { return a.data(i, psn.Add(a.psnStart[i], answersN+1), false) }}
	case roll < 48: // the out fails: so does the pipe
		return ask{t, func() spec.Record {
			for a.Legal(engine.Event{Cause: spec.CauseSend, Endpoint: i}) == nil {
				a.do(engine.Event{Cause: spec.CauseSend, Endpoint: i})
			}
			a.ack(i, a.psnStart[i], 0x63)
			a.do(engine.Event{Cause: spec.CauseError, Pipe: i})
			a.broken[i] = true
			return a.in[i]
		}}
	case roll < 70 && full: // in order, but too early
		return ask{set(spec.AckKindRNR).Set("nak_wr", 1).Set("nak", 1), func() spec.Record { return a.data(i, e, false) }}
	case full:
		return ask{t, func() spec.Record {
			a.ack(i, psn.Prev(e), spec.SyndromeAck)
			a.do(engine.Event{Cause: spec.CauseRecycle, Pipe: i, PSN: e})
			return a.in[i]
		}}
	}
	// In order: ePSN advances, and asks for an ACK if one is due.
	ackReq := before.AckKind != spec.AckKindNone || r.chance(40)
	apply := func(a *answers) spec.Record {
		a.data(i, e, ackReq)
		rec := a.do(engine.Event{Cause: spec.CauseAdvance, Endpoint: i})
		a.do(engine.Event{Cause: spec.CauseRelease, Pipe: i})
		a.do(engine.Event{Cause: spec.CauseSend, Endpoint: i})
		return rec
	}
	trial := &answers{golden: a.clone(), in: a.in, psnStart: a.psnStart}
	if apply(trial).AckKind != spec.AckKindNone {
		t = set(spec.AckKindAck).Set("force_ack", 1)
	}
	return ask{t.Set("nak_wr", 1), func() spec.Record { return apply(a) }}
}

// TestSendAck asks endpoints for answers in every order, and sends them as they are chosen.
func TestSendAck(t *testing.T) {
	each(t, SendAck, map[int]string{0: "ack_take_t", 1: "ack_seen_t", 8: "ack_set_t"}, func(r *run) {
		a := r.newAnswers()
		endpoint := map[uint64]int{}
		for i, ep := range a.cfg.Endpoints {
			endpoint[uint64(ep.QPN%entries)] = i
		}
		var owing [entries]int // answers to others since it began to wait
		kinds := map[spec.AckKind]int{}
		var asked []ask
		take := func(events []Event) {
			for _, ev := range events {
				i := endpoint[ev.Get("ep")]
				was := a.in[i]
				switch ev.Stream {
				case 0:
					if got := (spec.Record{AckKind: spec.AckKind(ev.Get("kind")), NakSent: uint32(ev.Get("nak"))}); got.AckKind != was.AckKind || got.NakSent != was.NakSent {
						r.fail(ev, "endpoint %d: sent %v (nakSent %d), want %v (%d)", i, got.AckKind, got.NakSent, was.AckKind, was.NakSent)
					}
					a.do(engine.Event{Cause: spec.CauseAckOut, Endpoint: i})
					kinds[was.AckKind]++
					owing[i] = 0
					for o := range owing {
						if o != i && a.in[o].AckKind != spec.AckKindNone {
							owing[o]++
							require.Less(r.t, owing[o], entries+2, "clock %d: endpoint %d starves", ev.Clock, o)
						}
					}
				case 1:
					init := asked[0].token.Get("init") != 0 // what was before it does not count
					if !init && ev.Get("old_kind") != uint64(was.AckKind) || !init && ev.Get("old_nak") != uint64(was.NakSent) {
						r.fail(ev, "endpoint %d: read kind %d and nakSent %d, want %v and %d", i, ev.Get("old_kind"), ev.Get("old_nak"), was.AckKind, was.NakSent)
					}
					after := asked[0].apply()
					if after.AckKind == spec.AckKindNone {
						owing[i] = 0
					}
					if asked[0].token.Get("set") != 0 && ev.Get("new_kind") != uint64(after.AckKind) {
						r.fail(ev, "endpoint %d: leaves kind %d, want %v", i, ev.Get("new_kind"), after.AckKind)
					}
					asked = asked[1:]
				}
			}
		}
		for i, ep := range a.cfg.Endpoints {
			first := ask{r.New(8).Set("ep", uint64(ep.QPN%entries)).Set("init", 1), func() spec.Record { return a.in[i] }}
			asked = append(asked, first)
			r.Push(8, 0, first.token)
		}
		take(r.drain(40*entries, 4))
		for range 1500 {
			first, count := r.below(entries), 1+r.below(6)
			if r.chance(5) {
				count = entries
			}
			for n := range count { // of different endpoints: one does not change what another's token must say
				next := a.ask(r, (first+n)%entries)
				asked = append(asked, next)
				r.Push(8, 0, next.token)
			}
			for len(asked) > 0 {
				take(r.clocks(1 + r.below(12)))
			}
		}
		take(r.clocks(60 * entries)) // everything that is owed is sent
		for i, in := range a.in {
			require.Equal(r.t, spec.AckKindNone, in.AckKind, "endpoint %d", i)
		}
		for kind := spec.AckKindAck; kind <= spec.AckKindFatal; kind++ {
			require.NotZero(r.t, kinds[kind], "no %v was sent", kind)
		}
	})
}
