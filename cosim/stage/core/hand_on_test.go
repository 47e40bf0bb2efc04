package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// Destinations of a command (inc_pkg FWD_*).
const (
	fwdEP = iota
	fwdOuts
	fwdIns
)

// handed is golden beside inc_minimum_ack and inc_forward.
type handed struct {
	*golden
	r              *run
	index          []int // table entry of each endpoint
	outs           []int // endpoints that are outs
	acks           []*roce.Packet
	ackAt          []int // endpoint of each
	frames         uint32
	acked          []psn.PSN  // lastAcked of each endpoint
	cmds           []command  // to come
	data           [pipes]int // data commands of each pipe so far
	history        []given
	asked, drained int   // clocks: since when the drain has been asked for, and when it was last answered
	total          int   // jobs that the commands so far lead to
	granted        int   // of them
	reads          []int // clocks in which they were read
	failed         []bool
	seen           map[string]int
}

// command is a data frame or a CNP that a test lets the pipe decide on.
type command struct {
	pipe, out int // out: of a CNP
	cnp       bool
	block     int
	jobs      int
}

// given is a command that was: the number of its last job, counted from 1, and for data its block.
type given struct{ clock, last, block int }

func (r *run) newHanded() *handed {
	cfg := engine.Config{Name: "hand on"}
	h := &handed{r: r, seen: map[string]int{}}
	add := func(in, out int, leaf bool) int {
		i := len(cfg.Endpoints)
		ep := r.endpoint((i*5+3)%entries, false)
		ep.InPipe, ep.OutPipe, ep.Leaf = in, out, leaf
		cfg.Endpoints = append(cfg.Endpoints, ep)
		return i
	}
	pipe := func(rule spec.AckRule, n int, p0 psn.PSN, base int) *engine.Pipe {
		cfg.Pipes = append(cfg.Pipes, engine.Pipe{Mode: 2, N: n, MTU: 256, PSN0: p0, AckRule: rule, Base: base})
		return &cfg.Pipes[len(cfg.Pipes)-1]
	}
	p := pipe(spec.AckRuleMinimum, 8, 0xfffffc, 0) // a Broadcast to 4
	p.Ins = []int{add(0, engine.None, false)}
	for range 4 {
		p.Outs = append(p.Outs, add(engine.None, 0, true))
	}
	p = pipe(spec.AckRuleReflect, 4, 0x7ffffe, 8) // an AllReduce of 2 ranks and a switch
	for n := range 3 {
		i := add(1, 1, n != 1)
		cfg.Endpoints[i].InIndex = n
		p.Ins, p.Outs = append(p.Ins, i), append(p.Outs, i)
	}
	p = pipe(spec.AckRuleReplicate, 4, 7, 16) // a Reduce of 3
	for n := range 3 {
		i := add(2, engine.None, true)
		cfg.Endpoints[i].InIndex = n
		p.Ins = append(p.Ins, i)
	}
	p.Outs = []int{add(engine.None, 2, false)}
	p = pipe(spec.AckRuleMinimum, 4, 0xffffff, 24) // a Broadcast to 2
	p.Ins = []int{add(3, engine.None, true)}
	for range 2 {
		p.Outs = append(p.Outs, add(engine.None, 3, false))
	}
	for i := range cfg.Endpoints {
		p := cfg.Endpoints[i].InPipe
		if p == engine.None {
			p = cfg.Endpoints[i].OutPipe
		}
		cfg.Endpoints[i].PSN0 = cfg.Pipes[p].PSN0
	}
	h.golden = newGolden(r.t, cfg)
	h.Program()
	h.failed = make([]bool, len(cfg.Pipes))
	for i, ep := range cfg.Endpoints {
		h.index = append(h.index, cfg.EntryIndex(i, entries))
		h.acked = append(h.acked, psn.Prev(ep.PSN0))
		if ep.OutPipe != engine.None {
			h.outs = append(h.outs, i)
		}
		r.Push(12, 0, r.New(12).Set("ep", uint64(h.index[i])).Set("psn", uint64(ep.PSN0)))
	}
	outBase, inBase := 0, 1 // lists lie at different places
	for n, pipe := range cfg.Pipes {
		r.Push(10, 0, r.New(10).Set("index", uint64(n)).Set("cfg.fan_in", uint64(len(pipe.Ins))).
			Set("cfg.fan_out", uint64(len(pipe.Outs))).Set("cfg.out_base", uint64(outBase)).
			Set("cfg.in_base", uint64(inBase)).Set("cfg.n_log2", uint64(log2(pipe.N))))
		for _, i := range pipe.Outs {
			r.Push(11, 0, r.New(11).Set("index", uint64(outBase)).Set("ep", uint64(h.index[i])))
			outBase++
		}
		for _, i := range pipe.Ins {
			r.Push(13, 0, r.New(13).Set("index", uint64(inBase)).Set("ep", uint64(h.index[i])))
			inBase++
		}
	}
	r.drain(2000, 2)
	h.level()
	r.drain(2000, 0)
	return h
}

func log2(n int) int {
	l := 0
	for ; n > 1; n >>= 1 {
		l++
	}
	return l
}

func (h *handed) level() {
	var failed uint64
	for p, f := range h.failed {
		if f {
			failed |= 1 << p
		}
	}
	h.r.Push(8, 0, h.r.New(8).Set("live", 1<<len(h.cfg.Pipes)-1).Set("pipe_error", failed))
}

func (h *handed) ack(i int, k psn.PSN, syndrome uint8) {
	ep := h.cfg.Endpoints[i]
	pkt := ackPacket(ep, k, syndrome)
	pkt.MSN = uint32(h.r.below(1 << 24))
	h.acks, h.ackAt = append(h.acks, pkt), append(h.ackAt, i)
	pipe := h.cfg.Pipes[ep.OutPipe]
	h.r.Push(9, h.r.below(2)*h.r.below(6), h.r.New(9).Set("ep", uint64(h.index[i])).Set("pipe", uint64(ep.OutPipe)).
		Set("rule", uint64(pipe.AckRule)).SetBool("leaf", ep.Leaf).
		Set("psn", uint64(k)).Set("syndrome", uint64(syndrome)).Set("msn", uint64(pkt.MSN)).Set("frame", uint64(h.frames)))
	h.frames++
}

// decide gives the command of a completed slot, or of a CNP.
func (h *handed) decide() {
	r := h.r
	c := command{pipe: r.below(len(h.cfg.Pipes)), cnp: r.chance(25)}
	pipe := h.cfg.Pipes[c.pipe]
	t := r.New(14).Set("pipe", uint64(c.pipe))
	if c.cnp {
		c.out = pipe.Outs[r.below(len(pipe.Outs))]
		if h.failed[c.pipe] || pipe.AckRule == spec.AckRuleReflect && !h.cfg.Endpoints[c.out].Leaf {
			return
		}
		c.jobs = len(pipe.Ins)
		t.Set("kind", txCNP).Set("dest", fwdIns)
		if pipe.AckRule == spec.AckRuleReflect {
			c.jobs = 1
			t.Set("dest", fwdEP).Set("ep", uint64(h.index[c.out]))
		}
	} else {
		if h.failed[c.pipe] {
			return
		}
		k := h.nextData(c.pipe)
		c.jobs = len(pipe.Outs)
		c.block = pipe.Base + int(k)&(pipe.N-1)
		t.Set("kind", txData).Set("dest", fwdOuts).Set("psn", uint64(k)).Set("block", uint64(c.block)).
			SetBool("ack_req", k&1 != 0)
	}
	h.cmds = append(h.cmds, c)
	r.Push(14, r.below(2)*r.below(20), t)
}

// nextData is the psn of the next command of a pipe.
func (h *handed) nextData(p int) psn.PSN {
	k := psn.Add(h.cfg.Pipes[p].PSN0, h.data[p])
	for _, c := range h.cmds {
		if c.pipe == p && !c.cnp {
			k = psn.Next(k)
		}
	}
	return k
}

// compare holds the fields of a record to golden's.
func (h *handed) compare(ev Event, prefix string, want spec.Record, frame uint32) {
	h.r.t.Helper()
	want.Frame = frame
	for name, w := range recordFields(want) {
		if got := ev.Get(prefix + name); got != w {
			h.r.fail(ev, "%s of a record with cause %v: got %#x, want %#x", name, spec.Cause(want.Cause), got, w)
		}
	}
}

func recordFields(r spec.Record) map[string]uint64 {
	return map[string]uint64{"cause": uint64(r.Cause), "verdict": uint64(r.Verdict), "frame": uint64(r.Frame),
		"pipe_id": uint64(r.PipeID), "endpoint": uint64(r.Endpoint), "psn": uint64(r.PSN), "slot": uint64(r.Slot),
		"groups": uint64(r.Groups), "last_acked": uint64(r.LastAcked), "cursor": uint64(r.Cursor), "sent_max": uint64(r.SentMax),
		"retries": uint64(r.Retries), "timer_armed": uint64(r.TimerArmed), "rnr_wait": uint64(r.RNRWait), "ep_error": uint64(r.EpError)}
}

// take replays what moved. Within a clock the decisions come before what leaves.
func (h *handed) take(events []Event) {
	r := h.r
	var left engine.Output // what golden sent for the record before
	for _, ev := range events {
		switch ev.Stream {
		case 0:
			h.acknowledged(ev)
		case 1:
			jobs := 1
			if ev.Get("dest") == fwdIns {
				jobs = len(h.cfg.Pipes[ev.Get("pipe")].Ins)
			}
			h.given(ev.Clock, jobs)
		case 2:
			outs := h.step(engine.Event{Cause: spec.CauseForward})
			rec := outs[0].Record
			left = outs[1]
			rec.Endpoint = uint32(h.index[rec.Endpoint])
			h.compare(ev, "", rec, uint32(h.granted))
			h.granted++
		case 3:
			h.busy(ev)
		case 4:
			pkt := left.Packet
			want := []uint64{txData, uint64(h.index[left.Endpoint]), uint64(pkt.PSN), uint64(pkt.Syndrome), uint64(pkt.MSN)}
			switch {
			case pkt.HasAETH():
				want[0] = txACK
			case pkt.Opcode == spec.OpcodeCNP:
				want[0] = txCNP
			default:
				pipe := h.cfg.Pipes[h.cfg.Endpoints[left.Endpoint].OutPipe]
				require.Equal(r.t, []uint64{uint64(pipe.Base + int(pkt.PSN)&(pipe.N-1)), b2u(pkt.AckReq)},
					[]uint64{ev.Get("block"), ev.Get("ack_req")}, "clock %d: block and AckReq of data", ev.Clock)
			}
			require.Equal(r.t, want, []uint64{ev.Get("kind"), ev.Get("ep"), ev.Get("psn"), ev.Get("syndrome"), ev.Get("msn")},
				"clock %d: kind, endpoint, PSN, syndrome, MSN of a job", ev.Clock)
			h.seen[pkt.Opcode.String()]++
		case 14:
			h.decided(ev)
		case 16:
			h.reads = append(h.reads, ev.Clock)
		case 17:
			// Asked again without a pause, the engine still answers for the first time it was asked.
			if ev.Since != h.drained+1 {
				h.asked = ev.Since
			}
			h.drained = ev.Clock
			for _, c := range h.history {
				if c.clock < h.asked && c.last > h.granted {
					r.fail(ev, "drained, but the command of clock %d has %d jobs to come; asked in clock %d", c.clock, c.last-h.granted, ev.Since)
				}
			}
			h.seen["drain"]++
		}
	}
}

// given notes a command that leads to so many jobs.
func (h *handed) given(clock, jobs int) {
	h.total += jobs
	h.history = append(h.history, given{clock: clock, last: h.total, block: engine.None})
}

func (h *handed) acknowledged(ev Event) {
	i, pkt := h.ackAt[0], h.acks[0]
	number := h.frames - uint32(len(h.acks))
	h.acks, h.ackAt = h.acks[1:], h.ackAt[1:]
	step := engine.Event{Cause: spec.CauseDrop, Port: h.cfg.Endpoints[i].Port, Packet: pkt}
	if spec.Verdict(ev.Get("rec.verdict")) == spec.VerdictTxFull {
		step.Verdict = spec.VerdictTxFull
		waiting := 0
		for _, c := range h.history {
			if c.last > h.granted || c.block != engine.None && h.unread(ev.Clock, c) {
				waiting++
			}
		}
		if waiting < 4 {
			h.r.fail(ev, "no room, but only %d commands wait", waiting)
		}
	}
	rec := h.step(step)[0].Record
	rec.Endpoint = uint32(h.index[i])
	h.compare(ev, "rec.", rec, number)
	h.acked[i] = psn.PSN(rec.LastAcked)
	h.seen[rec.Verdict.String()]++
	wants := uint64(0)
	if rec.Verdict == spec.VerdictOk {
		counter := spec.CounterRxNak
		switch pkt.Syndrome >> 5 {
		case 0:
			counter = spec.CounterRxAck
		case 1:
			counter = spec.CounterRxRNR
		}
		wants = 1 << (counter - spec.Counter(spec.VerdictCount))
		h.seen["ACK, "+h.cfg.Pipes[h.cfg.Endpoints[i].OutPipe].AckRule.String()]++
	}
	require.Equal(h.r.t, wants, ev.Get("stat_event"), "clock %d: events of an ACK", ev.Clock)
}

// decided: golden decides what the command stands for.
func (h *handed) decided(ev Event) {
	c := h.cmds[0]
	h.cmds = h.cmds[1:]
	h.given(ev.Clock, c.jobs)
	pipe := h.cfg.Pipes[c.pipe]
	if c.cnp {
		ep := h.cfg.Endpoints[c.out]
		pkt := packet(ep, spec.OpcodeCNP, 0)
		pkt.Payload = make([]byte, roce.CNPBodySize)
		rec := h.frame(ep.Port, pkt)[0].Record
		require.Equal(h.r.t, spec.VerdictOk, rec.Verdict)
		return
	}
	k := psn.Add(pipe.PSN0, h.data[c.pipe])
	h.data[c.pipe]++
	for _, i := range pipe.Ins {
		pkt := packet(h.cfg.Endpoints[i], spec.OpcodeSendOnly, k)
		pkt.AckReq = k&1 != 0
		h.frame(h.cfg.Endpoints[i].Port, pkt)
	}
	h.history[len(h.history)-1].block = c.block
}

// unread: the last job of a command is not read, or was a few clocks ago.
func (h *handed) unread(clock int, c given) bool {
	return c.last > len(h.reads) || clock-h.reads[c.last-1] <= 8
}

// busy holds an answer to what is waiting. A block is free a few clocks after its last job was read.
func (h *handed) busy(ev Event) {
	must, may := false, false
	for _, c := range h.history {
		if c.block == int(ev.Get("block")) {
			must = must || c.last > len(h.reads)
			may = may || h.unread(ev.Clock, c)
		}
	}
	got := ev.Get("busy") != 0
	if got && !may || !got && must {
		h.r.fail(ev, "block %d: got busy %v, want %v", ev.Get("block"), got, must)
	}
	if got {
		h.seen["busy"]++
	} else {
		h.seen["free"]++
	}
}

func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// TestHandOn: ACKs, NAKs and RNR NAKs at the outs of Mode-II pipes, results and CNPs, in the order of the decisions.
func TestHandOn(t *testing.T) {
	streams := map[int]string{0: "hand_record_t", 1: "fwd_t", 2: "record_t", 3: "block_busy_t", 4: "txjob_t", 8: "hand_level_t",
		9: "hand_ack_t", 10: "pipe_write_t", 11: "out_write_t", 12: "ep_psn_t", 13: "out_write_t", 14: "fwd_t", 15: "block_busy_t",
		16: "pulse_t", 17: "pulse_t"}
	each(t, HandOn, streams, func(r *run) {
		h := r.newHanded()
		round := func(n int) {
			for range n {
				for range r.below(4) {
					i := h.outs[r.below(len(h.outs))]
					syndrome := uint8(spec.SyndromeAck)
					switch r.below(8) {
					case 0:
						syndrome = spec.SyndromeNakSequence
					case 1:
						syndrome = spec.SyndromeRNR | uint8(r.below(32))
					case 2:
						if r.chance(20) {
							syndrome = spec.SyndromeNakOperation
						}
					}
					h.ack(i, psn.Add(h.acked[i], r.below(4)-r.below(2)), syndrome)
				}
				for range r.below(3) {
					h.decide()
				}
				for range r.below(6) {
					r.Push(15, r.below(12), r.New(15).Set("block", uint64(r.below(32))))
				}
				for range 4 {
					r.Push(16, r.below(3)*r.below(9), r.New(16))
				}
				if r.chance(10) {
					r.Push(17, 0, r.New(17))
				}
				h.take(r.clocks(r.below(40)))
			}
			for range 20 { // all that is decided leaves, and is read
				for range 40 {
					r.Push(16, 0, r.New(16))
				}
				h.take(r.clocks(100))
			}
			require.Empty(r.t, h.acks, "ACKs that were not taken")
			require.Empty(r.t, h.cmds, "commands that were not taken")
			require.Equal(r.t, h.total, h.granted, "jobs")
			require.Len(r.t, h.reads, h.granted, "jobs read")
		}
		round(400)
		// A contribution that differs stops a pipe; its outs are told nothing any more.
		pipe := h.cfg.Pipes[1]
		for n, i := range pipe.Ins[:2] {
			pkt := packet(h.cfg.Endpoints[i], spec.OpcodeSendOnly, psn.Add(pipe.PSN0, h.data[1]))
			pkt.Payload = make([]byte, 4*n)
			h.frame(h.cfg.Endpoints[i].Port, pkt)
		}
		h.failed[1] = true
		h.level()
		h.take(r.clocks(20))
		round(100)
		for _, what := range []string{spec.VerdictOk.String(), spec.VerdictAckStale.String(), spec.VerdictPipeError.String(), "busy", "free",
			"drain", "ACK, minimum", "ACK, reflect", "ACK, replicate", spec.OpcodeAcknowledge.String(), spec.OpcodeCNP.String(),
			spec.OpcodeSendOnly.String()} {
			require.NotZero(r.t, h.seen[what], "never seen: %s", what)
		}
		if r.pacing.stall > 0 {
			require.NotZero(r.t, h.seen[spec.VerdictTxFull.String()], "never full")
		}
	})
}
