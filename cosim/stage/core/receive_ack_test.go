package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
)

// syndromes: ACKs with and without credits, RNR NAKs, the sequence NAK and every fatal one (IBTA 9.7.5.1).
var syndromes = []uint8{0x1f, 0x00, 0x20, 0x2e, 0x3f, 0x60, 0x61, 0x62, 0x63, 0x64}

// setTx writes the transmit state of a record into a struct ep_tx_t.
func setTx(t Token, prefix string, rec spec.Record) Token {
	return t.Set(prefix+"last_acked", uint64(rec.LastAcked)).Set(prefix+"cursor", uint64(rec.Cursor)).
		Set(prefix+"sent_max", uint64(rec.SentMax)).Set(prefix+"retries", uint64(rec.Retries)).
		Set(prefix+"timer_armed", uint64(rec.TimerArmed)).Set(prefix+"rnr_wait", uint64(rec.RNRWait)).
		Set(prefix+"ep_error", uint64(rec.EpError))
}

// txOnly is the transmit state of a record.
func txOnly(rec spec.Record) spec.Record {
	return spec.Record{LastAcked: rec.LastAcked, Cursor: rec.Cursor, SentMax: rec.SentMax, Retries: rec.Retries,
		TimerArmed: rec.TimerArmed, RNRWait: rec.RNRWait, EpError: rec.EpError}
}

// timersOf says what a step leaves of the two timers: started anew by it or not.
func timersOf(outs []engine.Output) (retransmit, rnr bool) {
	for _, o := range outs {
		if o.Kind == engine.SetTimer && o.Timer.Kind == engine.Retransmit {
			retransmit = o.Timer.Arm
		}
		if o.Kind == engine.SetTimer && o.Timer.Kind == engine.RNRWait {
			rnr = o.Timer.Arm
		}
	}
	return retransmit, rnr
}

// TestReceiveAck visits every state that an out can reach with three results to send, and gives each every syndrome at
// every PSN near it and at the far side of the circle.
func TestReceiveAck(t *testing.T) {
	each(t, ReceiveAck, map[int]string{0: "aeth_out_t", 8: "aeth_in_t"}, func(r *run) {
		psn0 := map[int]psn.PSN{64: 0xfffffe, 128: 0x7ffffe, 256: 0, 512: psn.PSN(r.below(1 << 24))}[r.width]
		cfg := engine.Config{Name: "out", Endpoints: []engine.Endpoint{r.endpoint(0, false), r.endpoint(1, false)},
			Pipes: []engine.Pipe{{Mode: 3, Ins: []int{0}, Outs: []int{1}, N: 8, MTU: 256, PSN0: psn0, AckEvery: 1, Retries: 1, Timeout: 5}}}
		cfg.Endpoints[0].PSN0, cfg.Endpoints[1].PSN0 = psn0, psn0
		cfg.Endpoints[0].InPipe, cfg.Endpoints[1].OutPipe = 0, 0
		in, out := cfg.Endpoints[0], cfg.Endpoints[1]
		first := newGolden(t, cfg)
		first.Program()
		for k := range 3 {
			first.frame(in.Port, packet(in, spec.OpcodeSendOnly, psn.Add(psn0, k)))
			first.step(engine.Event{Cause: spec.CauseAdvance})
			first.step(engine.Event{Cause: spec.CauseRelease})
		}

		type node struct {
			*golden
			tx spec.Record
		}
		start := spec.Record{LastAcked: uint32(psn.Prev(psn0)), Cursor: uint32(psn0), SentMax: uint32(psn.Prev(psn0))}
		nodes := []node{{first, start}}
		known := map[spec.Record]bool{start: true}
		type vector struct {
			before, after spec.Record
			verdict       spec.Verdict
			restart, rnr  bool
			psn           psn.PSN
			syndrome      uint8
		}
		var vectors []vector
		verdicts := map[spec.Verdict]int{}
		for len(nodes) > 0 {
			n := nodes[0]
			nodes = nodes[1:]
			visit := func(ev engine.Event) []engine.Output {
				g := n.clone()
				outs := g.step(ev)
				if tx := txOnly(outs[0].Record); !known[tx] {
					known[tx] = true
					nodes = append(nodes, node{g, tx})
				}
				return outs
			}
			for _, cause := range []spec.Cause{spec.CauseSend, spec.CauseResend, spec.CauseTimer, spec.CauseRNRExpiry} {
				if ev := (engine.Event{Cause: cause, Endpoint: 1}); n.Legal(ev) == nil {
					visit(ev)
				}
			}
			psns := []psn.PSN{psn.Add(psn0, 1<<23), psn.Add(psn0, 1<<23-1), psn.Add(psn0, -1<<23+2)}
			for d := -3; d <= 6; d++ {
				psns = append(psns, psn.Add(psn0, d))
			}
			for _, k := range psns {
				for _, syndrome := range syndromes {
					outs := visit(engine.Event{Port: out.Port, Packet: ackPacket(out, k, syndrome)})
					v := vector{before: n.tx, after: txOnly(outs[0].Record), verdict: outs[0].Record.Verdict, psn: k, syndrome: syndrome}
					v.restart, v.rnr = timersOf(outs)
					vectors = append(vectors, v)
					verdicts[v.verdict]++
				}
			}
		}
		for _, v := range []spec.Verdict{spec.VerdictOk, spec.VerdictAckStale, spec.VerdictEpError} {
			require.NotZero(r.t, verdicts[v])
		}
		// The whole of it at full speed; pauses and back-pressure change nothing in a stage without a register.
		for n, v := range vectors {
			if r.pacing.idle+r.pacing.stall == 0 || n%8 == 0 {
				r.Push(8, 0, setTx(r.New(8), "st.", v.before).Set("psn", uint64(v.psn)).Set("syndrome", uint64(v.syndrome)))
			} else {
				vectors[n].syndrome = 0xff
			}
		}
		kept := vectors[:0]
		for _, v := range vectors {
			if v.syndrome != 0xff {
				kept = append(kept, v)
			}
		}
		done := 0
		for _, ev := range r.drain(20*len(kept), 3) {
			if ev.Stream != 0 {
				continue
			}
			v := kept[done]
			done++
			want := setTx(r.New(0), "st.", v.after).Set("verdict", uint64(v.verdict)).
				SetBool("restart", v.restart).SetBool("rnr_start", v.rnr)
			for name := range want.Fields {
				if name == "st" {
					continue
				}
				if got, wanted := ev.Get(name), want.Get(name); got != wanted {
					r.fail(ev, "psn %v, syndrome %#x, before %v: %s: got %#x, want %#x", v.psn, v.syndrome, &v.before, name, got, wanted)
				}
			}
		}
		require.Equal(r.t, len(kept), done)
		r.t.Logf("%d states, %d vectors", len(known), len(kept))
	})
}
