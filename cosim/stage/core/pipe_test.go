package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// pipeFrame is a frame on its way through the pipe stage.
type pipeFrame struct {
	endpoint int
	packet   *roce.Packet // nil: dropped before, or an ACK
	token    Token
	verdict  spec.Verdict // of wire and tables
	fits     bool
	isAck    bool         // it is answered
	number   int          // of an ACK
	end      spec.Verdict // what its end must say
	bypass   bool
}

// receiver is golden beside the pipe stage: it steps what the records say, in their order.
type receiver struct {
	*golden
	r       *run
	index   []int // table entry of each endpoint
	byIndex map[int]int
	frames  []*pipeFrame // not at their end yet
	number  int          // of the first of them
	acks    []*pipeFrame // left the sequencer, not answered yet
	said    []*pipeFrame // left the sequencer, not counted yet
	writes  []engine.Event
	beats   []Event // of the first frame
	bank    map[int]uint64
	jobs    uint64
	answers []timed // ACKs recorded and not sent yet: each is due a clock later
	fault   int     // pipe whose fault is due in this clock
	acked   []psn.PSN
	next    []psn.PSN
	failed  []bool
	ePSN    []psn.PSN
	seen    map[spec.Cause]int
	ended   map[spec.Verdict]int
}

func (r *run) newReceiver() *receiver {
	cfg := engine.Config{Name: "receiver"}
	for p, ins := range []int{3, 2} {
		pipe := engine.Pipe{Mode: 3, N: 8 << p, MTU: 256 << p, PSN0: []psn.PSN{0xfffffc, 0x7ffff4}[p], AckEvery: 1 + p, RNRCode: 5 + p, Retries: 2,
			Timeout: 5, Base: 16 * p}
		for n := range ins + 1 {
			i := len(cfg.Endpoints)
			ep := r.endpoint((i*5+3)%entries, false)
			ep.PSN0 = pipe.PSN0
			if n < ins {
				ep.InPipe, ep.InIndex = p, n
				pipe.Ins = append(pipe.Ins, i)
			} else {
				ep.OutPipe = p
				pipe.Outs = []int{i}
			}
			cfg.Endpoints = append(cfg.Endpoints, ep)
		}
		cfg.Pipes = append(cfg.Pipes, pipe)
	}
	g := &receiver{golden: newGolden(r.t, cfg), r: r, byIndex: map[int]int{}, bank: map[int]uint64{}, fault: engine.None,
		acked: make([]psn.PSN, len(cfg.Pipes)), next: make([]psn.PSN, len(cfg.Pipes)), failed: make([]bool, len(cfg.Pipes)),
		ePSN: make([]psn.PSN, len(cfg.Endpoints)), seen: map[spec.Cause]int{}, ended: map[spec.Verdict]int{}}
	for i := range cfg.Endpoints {
		g.index = append(g.index, cfg.EntryIndex(i, entries))
		g.byIndex[g.index[i]] = i
	}
	return g
}

// program writes all entries anew, endpoints first.
func (g *receiver) program() {
	r, tables := g.r, plan(g.t, g.cfg)
	write := func(t Token, ev engine.Event) {
		ev.Cause = spec.CauseTableWrite
		g.writes = append(g.writes, ev)
		r.Push(12, 0, t)
	}
	for i, ep := range g.cfg.Endpoints {
		g.ePSN[i] = ep.PSN0
		write(r.New(12).Set("id", uint64(spec.TableEpCfg)).Set("index", uint64(g.index[i])).SetWords("ep", tables.Endpoint(i).Words()),
			engine.Event{Endpoint: i, Pipe: engine.None})
	}
	for p, pipe := range g.cfg.Pipes {
		g.acked[p], g.next[p], g.failed[p] = psn.Prev(pipe.PSN0), pipe.PSN0, false
		write(r.New(12).Set("id", uint64(spec.TablePipeCfg)).Set("index", uint64(p)).SetWords("pipe", tables.Pipe(p).Words()),
			engine.Event{Endpoint: engine.None, Pipe: p})
	}
	g.take(r.drain(20_000, 0)) // the last pipe still binds
}

// timed is what is due in a clock.
type timed struct {
	clock int
	engine.Output
}

// offer gives the stage one frame, mostly data near the ePSN of an in.
func (g *receiver) offer() {
	r := g.r
	i := r.below(len(g.cfg.Endpoints))
	ep := g.cfg.Endpoints[i]
	f := &pipeFrame{endpoint: i, token: r.layouts.New("lookup_t"), fits: r.chance(70)}
	p := max(ep.InPipe, ep.OutPipe)
	f.isAck = ep.InPipe == engine.None
	f.token.SetBool("ok", true).SetBool("is_data", !f.isAck).SetBool("is_ack", f.isAck).Set("ep", uint64(g.index[i])).Set("pipe", uint64(p))
	pipe := g.cfg.Pipes[p]
	if f.isAck {
		f.token.Set("psn", uint64(r.below(1<<24))).Set("syndrome", uint64(r.below(256)))
		answer := []spec.Verdict{spec.VerdictOk, spec.VerdictAckStale}[r.below(2)]
		f.end = answer
	} else {
		k := g.ePSN[i]
		switch n := r.below(100); {
		case n < 60:
			g.ePSN[i] = psn.Add(k, 1)
		case n < 68:
			k = psn.Add(k, r.below(4*pipe.N)-2*pipe.N)
		case n < 90:
			k = psn.Add(k, 1+r.below(3))
		case n < 98:
			k = psn.Add(k, -1-r.below(3))
		default:
			k = psn.Add(k, 1<<23-2+r.below(4))
		}
		// All contributions to one psn agree, but for a few.
		op, size := spec.Opcode(uint32(k)%6), pipe.MTU
		if r.chance(1) {
			op = spec.Opcode(r.below(6))
		}
		info, _ := op.Info()
		if info.Last {
			size = 4 * (1 + int(k)*7%(pipe.MTU/4))
			if r.chance(1) {
				size = 4 * (1 + r.below(pipe.MTU/4))
			}
		}
		pkt := packet(ep, op, k)
		pkt.Payload, pkt.SE, pkt.AckReq, pkt.TOS = r.bytes(size), r.chance(50), r.chance(30), uint8(r.below(256))
		if info.ImmDt {
			pkt.Imm = uint32(k) * 77
			if r.chance(1) {
				pkt.Imm ^= 1 << r.below(32)
			}
		}
		f.packet = pkt
		entry := plan(g.t, g.cfg).Pipe(p)
		meta := r.layouts.New("slot_meta_t").Set("opcode", uint64(op)).SetBool("se", pkt.SE).
			SetBool("ce", pkt.CE()).SetBool("ack_req", pkt.AckReq).Set("plen", uint64(size)).
			Set("imm", uint64(pkt.Imm))
		f.token.Set("in_index", uint64(ep.InIndex)).Set("pinned", 1).Set("psn", uint64(k)).Set("n_log2", uint64(entry.NLog2)).
			Set("mtu_log2", uint64(entry.MTULog2)).Set("block", uint64(uint32(entry.BaseBlock)+uint32(k)%(1<<entry.NLog2)<<(entry.MTULog2-8))).Set("fan_in", uint64(entry.FanIn)).
			Set("ack_every", uint64(entry.AckEvery)).SetWords("meta", meta.Words).
			Set("pay_beats", uint64((size+r.beatBytes()-1)/r.beatBytes()))
	}
	eof := spec.VerdictOk
	switch n := r.below(100); {
	case n < 6: // known only at its end
		f.verdict, eof = spec.VerdictICRC, spec.VerdictICRC
	case n < 14:
		f.verdict = spec.Verdict(1 + r.below(int(spec.VerdictPayloadLength)))
		f.token = r.layouts.New("lookup_t").Set("verdict", uint64(f.verdict))
		if f.verdict < spec.VerdictICRC { // of the wire: the end says the same
			eof = f.verdict
		}
		if f.verdict == spec.VerdictICRC {
			f.token.Set("verdict", uint64(spec.VerdictNoPipe))
			eof = spec.VerdictICRC
		}
	}
	if f.isAck && f.verdict == spec.VerdictOk {
		r.Push(13, r.below(6), r.New(13).Set("verdict", uint64(f.end)))
	} else {
		f.isAck = false
	}
	for n, beats := 0, int(f.token.Get("pay_beats")); n < beats; n++ {
		b := f.packet.Payload[n*r.beatBytes() : min(len(f.packet.Payload), (n+1)*r.beatBytes())]
		r.Push(9, 0, r.New(9).SetWords("data", r.padded(b)).SetBool("last", n == beats-1))
	}
	g.frames = append(g.frames, f)
	r.Push(8, 0, f.token)
	r.Push(10, 0, r.New(10).Set("verdict", uint64(eof)))
	r.Push(11, 0, r.New(11).SetBool("fits", f.fits))
}

func (r *run) padded(b []byte) []uint32 {
	return words(append(append([]byte(nil), b...), make([]byte, r.beatBytes()-len(b))...))
}

// record steps golden by one record and compares.
func (g *receiver) record(ev Event) {
	cause := spec.Cause(ev.Get("cause"))
	i, known := g.byIndex[int(ev.Get("endpoint"))]
	p := int(ev.Get("pipe_id"))
	frame := uint64(0)
	step := engine.Event{Cause: cause, Endpoint: i, Pipe: p, PSN: psn.PSN(ev.Get("psn")), Slot: int(ev.Get("slot"))}
	var f *pipeFrame
	switch cause {
	case spec.CauseData, spec.CauseDrop:
		if len(g.frames) == 0 {
			g.r.fail(ev, "record of a frame that was not given")
		}
		f = g.frames[0]
		frame = uint64(g.number)
		step = engine.Event{Cause: spec.CauseDrop, Port: g.cfg.Endpoints[f.endpoint].Port, Packet: f.packet, Verdict: f.verdict}
	case spec.CauseAdvance, spec.CauseAckOut:
		if !known {
			g.r.fail(ev, "record of endpoint entry %d, which nobody has", ev.Get("endpoint"))
		}
		if cause == spec.CauseAckOut {
			frame = g.jobs
			g.jobs++
		}
	case spec.CauseTableWrite:
		if len(g.writes) == 0 {
			g.r.fail(ev, "record of a write that was not given")
		}
		step, g.writes = g.writes[0], g.writes[1:]
	}
	if err := g.Legal(step); err != nil {
		g.r.fail(ev, "%v", err)
	}
	outs := g.Step(step)
	want := outs[0].Record
	if f != nil {
		for _, o := range outs[1:] {
			f.bypass = f.bypass || o.Kind == engine.Bypass
		}
		if f.bypass && !f.fits {
			f.bypass, want.Verdict = false, spec.VerdictBypassFull
		}
		f.end = want.Verdict
	}
	if want.Groups&(spec.GroupRx|spec.GroupTx) != 0 {
		want.Endpoint = uint32(g.index[want.Endpoint])
	}
	for n, field := range spec.RecordFields {
		wanted := want.Field(n)
		switch field.Name {
		case "clock":
			continue
		case "frame":
			wanted = frame
		}
		if got := ev.Get(field.Name); got != wanted {
			g.r.fail(ev, "%v: %s: got %#x, want %#x; all: %v", cause, field.Name, got, wanted, &want)
		}
	}
	g.seen[cause]++
	switch cause {
	case spec.CauseData:
		g.checkBeats(ev, f, &want)
		if want.Verdict == spec.VerdictMismatch {
			g.fault, g.failed[want.PipeID] = int(want.PipeID), true
		}
	case spec.CauseAckOut:
		require.Equal(g.t, engine.Frame, outs[1].Kind)
		o := outs[1]
		g.answers = append(g.answers, timed{ev.Clock + 1, o})
	case spec.CauseRelease:
		g.next[p] = psn.PSN(want.NextSend)
	case spec.CauseError:
		g.failed[p] = true
	}
}

func (g *receiver) block(p, slot int) int {
	return g.cfg.Pipes[p].Base + slot*g.cfg.Pipes[p].MTU/spec.BlockBytes
}

// checkBeats: all of a frame that counts went to the hidden copy of its slot, nothing of one that does not.
func (g *receiver) checkBeats(ev Event, f *pipeFrame, want *spec.Record) {
	if want.Verdict != spec.VerdictOk { // the first is written before that is known, where nobody looks
		bank, known := g.bank[g.block(int(want.PipeID), int(want.Slot))]
		if len(g.beats) > 1 || len(g.beats) == 1 && known && g.beats[0].Get("bank") != bank {
			g.r.fail(ev, "%d beats of a frame with verdict %v", len(g.beats), want.Verdict)
		}
		return
	}
	size := g.r.beatBytes()
	if got, wanted := len(g.beats), (len(f.packet.Payload)+size-1)/size; got != wanted {
		g.r.fail(ev, "got %d beats, want %d", got, wanted)
	}
	block := g.block(int(want.PipeID), int(want.Slot))
	if _, known := g.bank[block]; !known && len(g.beats) > 0 { // memories power up unknown
		g.bank[block] = g.beats[0].Get("bank")
	}
	for n, b := range g.beats {
		data := f.packet.Payload[n*size : min(len(f.packet.Payload), (n+1)*size)]
		if b.Get("start") != 0 != (want.Degree == 1) || b.Get("bank") != g.bank[block] ||
			int(b.Get("addr")) != block*spec.BlockBytes/size+n || !equal(b.GetWords("data"), g.r.padded(data)) {
			g.r.fail(b, "beat %d of psn %#x: start %d bank %d address %d data %08x; degree %d, want bank %d of block %d", n, want.PSN,
				b.Get("start"), b.Get("bank"), b.Get("addr"), b.GetWords("data"), want.Degree, g.bank[block], block)
		}
	}
	g.bank[block] ^= 1
}

// take replays what moved.
func (g *receiver) take(events []Event) {
	for n, ev := range events {
		switch ev.Stream {
		case 0:
			g.beats = append(g.beats, ev)
		case 1:
			g.record(ev)
		case 2:
			f := g.frames[0]
			if f.bypass != (ev.Get("bypass") != 0) {
				g.r.fail(ev, "end of a frame: bypass %d, want %v", ev.Get("bypass"), f.bypass)
			}
			if f.isAck {
				f.number = g.number
				g.acks = append(g.acks, f)
			} else if len(g.acks) > 0 {
				g.r.fail(ev, "frame %d ended before ACK %d ahead of it was answered", g.number, g.acks[0].number)
			}
			g.said = append(g.said, f)
			g.frames, g.beats = g.frames[1:], nil
			g.number++
		case 3:
			if g.fault == engine.None {
				g.r.fail(ev, "a fault and no mismatch")
			}
			want := g.Fault(g.fault)
			require.Equal(g.t, []uint64{uint64(g.fault), uint64(want.Kind), uint64(g.index[want.Endpoint]), uint64(want.PSN), uint64(want.Got),
				uint64(want.Wanted)}, []uint64{ev.Get("pipe"), ev.Get("kind"), ev.Get("ep"), ev.Get("psn"), ev.Get("got"), ev.Get("wanted")},
				"clock %d: fault", ev.Clock)
			g.fault = engine.None
		case 4:
			if len(g.acks) == 0 || ev.Get("frame") != uint64(g.acks[0].number) {
				g.r.fail(ev, "ACK of frame %d, which is none", ev.Get("frame"))
			}
			f := g.acks[0]
			for _, name := range []string{"ep", "pipe", "psn", "syndrome"} {
				require.Equal(g.t, f.token.Get(name), ev.Get(name), "clock %d: %s of an ACK", ev.Clock, name)
			}
			g.acks = g.acks[1:]
		case 5:
			if len(g.answers) == 0 || g.answers[0].clock != ev.Clock {
				g.r.fail(ev, "an ACK was sent and there is no record of it in the clock before")
			}
			a := g.answers[0].Output
			pkt := a.Packet
			require.Equal(g.t, []uint64{txACK, uint64(g.index[a.Endpoint]), uint64(pkt.PSN), uint64(pkt.Syndrome), uint64(pkt.MSN)},
				[]uint64{ev.Get("kind"), ev.Get("ep"), ev.Get("psn"), ev.Get("syndrome"), ev.Get("msn")}, "clock %d: ACK sent", ev.Clock)
			g.answers = g.answers[1:]
		case 6:
			if len(g.said) == 0 {
				g.r.fail(ev, "the verdict of a frame that has not ended")
			}
			f := g.said[0]
			if got := spec.Verdict(ev.Get("verdict")); got != f.end {
				g.r.fail(ev, "verdict of a frame: got %v, want %v", got, f.end)
			}
			g.ended[f.end]++
			g.said = g.said[1:]
		}
		if n+1 == len(events) || events[n+1].Clock != ev.Clock {
			if len(g.answers) > 0 && g.answers[0].clock <= ev.Clock || g.fault != engine.None || len(g.said) > len(g.acks) {
				g.r.fail(ev, "an ACK, a fault or a verdict that did not come")
			}
		}
	}
}

// acknowledge has the outs of pipe p send and acknowledge some of what was released.
func (g *receiver) acknowledge(p int) {
	room := psn.Sub(g.next[p], psn.Next(g.acked[p]))
	if g.failed[p] || room <= 0 {
		return
	}
	out := g.cfg.Pipes[p].Outs[0]
	for g.Legal(engine.Event{Cause: spec.CauseSend, Endpoint: out}) == nil {
		g.Step(engine.Event{Cause: spec.CauseSend, Endpoint: out})
	}
	k := psn.Add(g.acked[p], 1+g.r.below(room))
	g.frame(g.cfg.Endpoints[out].Port, ackPacket(g.cfg.Endpoints[out], k, spec.SyndromeAck))
	g.acked[p] = k
	g.minimum(p)
}

// minimum is the end of a walk over the outs of pipe p. Walks go on and on: what comes while others wait may be forgotten.
func (g *receiver) minimum(p int) {
	k := g.acked[p]
	g.r.Push(14, 0, g.r.New(14).Set("pipe", uint64(p)).Set("psn", uint64(psn.Next(k))))
}

// TestPipe: the records of random data, near the window and far from it, over several lives of two pipes.
func TestPipe(t *testing.T) {
	each(t, Pipe, map[int]string{0: "beat_t", 1: "record_t", 2: "frame_end_t", 3: "fault_t", 4: "ack_req_t", 5: "txjob_t", 6: "frame_end_t", 7: "pulse_t", 8: "lookup_t",
		9: "pay_t", 10: "verdict_t", 11: "room_t", 12: "table_write_t", 13: "verdict_t", 14: "pipe_psn_t", 15: "pipe_psn_t"}, func(r *run) {
		g := r.newReceiver()
		for range 24 {
			g.program()
			for range 60 {
				for range r.below(8) {
					g.offer()
				}
				for p := range g.cfg.Pipes {
					g.acknowledge(p)
				}
				g.take(r.clocks(1 + r.below(150)))
				if r.chance(30) { // peers send again what is missing
					for i := range g.cfg.Endpoints {
						if p := g.cfg.Endpoints[i].InPipe; p != engine.None && r.chance(70) {
							g.ePSN[i] = g.next[p]
						}
					}
				}
			}
			g.take(r.drain(100_000, 200))
			for range 2 {
				for p := range g.cfg.Pipes {
					g.minimum(p)
					g.take(r.drain(1000, 100))
				}
			}
			require.Empty(r.t, g.frames, "frames without an end")
			require.Empty(r.t, g.said, "frames without a verdict")
			require.Empty(r.t, g.acks, "ACKs without an answer")
			for _, ev := range g.Enabled() {
				require.NotContains(r.t, []spec.Cause{spec.CauseAdvance, spec.CauseRelease, spec.CauseAckOut, spec.CauseRecycle}, ev.Cause,
					"left undone: %v", ev)
			}
			for p := range g.cfg.Pipes { // a pipe in error may be written anew
				if g.failed[p] {
					continue
				}
				out := g.cfg.Endpoints[g.cfg.Pipes[p].Outs[0]]
				g.frame(out.Port, ackPacket(out, psn.Next(g.acked[p]), spec.SyndromeNakOperation))
				r.Push(15, 0, r.New(15).Set("pipe", uint64(p)))
			}
			g.take(r.drain(1000, 50))
		}
		for _, cause := range []spec.Cause{spec.CauseData, spec.CauseDrop, spec.CauseAdvance, spec.CauseRelease, spec.CauseRecycle, spec.CauseError,
			spec.CauseAckOut, spec.CauseBindStep, spec.CauseBindDone, spec.CauseTableWrite} {
			require.NotZero(r.t, g.seen[cause], "no %v", cause)
		}
		for _, v := range []spec.Verdict{spec.VerdictOk, spec.VerdictICRC, spec.VerdictBypassFull, spec.VerdictNoSlots, spec.VerdictPipeError,
			spec.VerdictBehind, spec.VerdictBeyond, spec.VerdictDuplicate, spec.VerdictMismatch, spec.VerdictAckStale} {
			require.NotZero(r.t, g.ended[v], "no %v", v)
		}
	})
}
