package engine

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

var seedFlag = flag.Uint64("seed", 0, "replay the adversary with this seed")

// world is one engine between senders and receivers that keep to RC but nothing more: the adversary
// decides who acts, which of the engine's enabled events happens next, and delivers any frame ever
// sent any number of times, in any order, or never.
type world struct {
	cfg   Config
	e     *Engine
	rng   *rand.Rand
	total int // psns of the run
	p0    psn.PSN

	acked    []int // of each sender: psns below it are acknowledged
	expected []int // of each receiver: next psn it takes
	wire     []Event
	sums     []uint32 // of each psn, by plain addition
	maxSent  []int    // of each out: psns sent so far, to see that they leave in order
}

func contribution(in, k int) uint32 { return uint32(1000003*in + 7919*k + 1) }

// stride: of an unpinned pipe every fourth psn is a control signal, which opens a window of three.
const stride = 4

// contributed is what in i sends as the k-th psn: data, or the control signal of an unpinned pipe.
func contributed(c *Config, endpoint, i, k int, p psn.PSN) Event {
	if pipe := c.Endpoints[endpoint].InPipe; c.Pipes[pipe].Unpinned && k%stride == 0 {
		n := uint64(stride - 1)
		return controlFrom(c, endpoint, p, roce.Control{Op: spec.OpSum, DType: spec.DTypeUint32,
			Bytes: n * uint64(c.Pipes[pipe].MTU), Sequence: uint64(k / stride)})
	}
	return dataFrom(c, endpoint, p, contribution(i, k))
}

// delivered is the word of a result that sums is about: of a control signal that which says its sequence.
func delivered(pkt *roce.Packet) uint32 {
	if len(pkt.Payload) == spec.ControlBytes {
		return binary.BigEndian.Uint32(pkt.Payload[12:])
	}
	return binary.LittleEndian.Uint32(pkt.Payload)
}

func newWorld(t *testing.T, cfg Config, total int, seed uint64) *world {
	w := &world{cfg: cfg, e: programmed(t, cfg), rng: rand.New(rand.NewPCG(seed, 0)), total: total, p0: cfg.Pipes[0].PSN0}
	n := len(cfg.Endpoints)
	w.acked, w.expected, w.maxSent = make([]int, n), make([]int, n), make([]int, n)
	for k := range total {
		var sum uint32
		for in := range cfg.Pipes[0].Ins {
			sum += contribution(in, k)
		}
		if cfg.Pipes[0].Unpinned && k%stride == 0 {
			sum = uint32(k / stride)
		}
		w.sums = append(w.sums, sum)
	}
	return w
}

func (w *world) psn(k int) psn.PSN   { return psn.Add(w.p0, k) }
func (w *world) index(p psn.PSN) int { return psn.Sub(p, w.p0) }

// maySend: over an unpinned pipe a rank sends control when all its earlier results are delivered, and data when
// control's is (protocol.md 10). Without that a signal could close the window behind it before all of it has started.
func maySend(unpinned bool, k, delivered int) bool {
	switch {
	case !unpinned:
		return true
	case k%stride == 0:
		return delivered >= k
	}
	return delivered > k/stride*stride
}

// send: sender i sends any psn from the oldest not acknowledged to 3 beyond the window.
func (w *world) send(i, k int) {
	if !maySend(w.cfg.Pipes[0].Unpinned, k, w.expected[i]) {
		return
	}
	w.wire = append(w.wire, contributed(&w.cfg, i, i, k, w.psn(k)))
}

// take looks at what the engine did, and lets the peers react.
func (w *world) take(outs []Output) error {
	for _, o := range outs {
		if o.Kind != Frame {
			continue
		}
		pkt, i := o.Packet, o.Endpoint
		k := w.index(pkt.PSN)
		if pkt.HasAETH() { // the peer as sender
			if !isAck(pkt.Syndrome) {
				k--
			}
			if k >= w.total {
				return fmt.Errorf("endpoint %d acknowledged psn %v, which was never sent", i, pkt.PSN)
			}
			w.acked[i] = max(w.acked[i], k+1)
			continue
		}
		if k < 0 || k >= w.total {
			return fmt.Errorf("endpoint %d got psn %v, which no one sent", i, pkt.PSN)
		}
		if got := delivered(pkt); got != w.sums[k] {
			return fmt.Errorf("endpoint %d got %d as sum of psn %v, want %d", i, got, pkt.PSN, w.sums[k])
		}
		if k > w.maxSent[i] {
			return fmt.Errorf("endpoint %d got psn %v before %v", i, pkt.PSN, w.psn(w.maxSent[i]))
		}
		w.maxSent[i] = max(w.maxSent[i], k+1)
		// The receiver takes it in order, or it is lost; either way an answer may come, now or late.
		if k == w.expected[i] && w.rng.IntN(3) > 0 {
			w.expected[i]++
		}
		switch w.rng.IntN(4) {
		case 0:
			w.wire = append(w.wire, ackFrom(&w.cfg, i, w.psn(w.expected[i]), spec.SyndromeNakSequence))
		case 1:
			w.wire = append(w.wire, ackFrom(&w.cfg, i, w.psn(w.expected[i]), spec.SyndromeRNR|1))
		default:
			if w.expected[i] > 0 {
				w.wire = append(w.wire, ackFrom(&w.cfg, i, w.psn(w.expected[i]-1), spec.SyndromeAck))
			}
		}
	}
	return w.invariants()
}

// invariants hold after every single event.
func (w *world) invariants() error {
	st := &w.e.pipes[0]
	start, next := w.index(st.psnStart), w.index(st.nextSend)
	if start > next {
		return fmt.Errorf("psnStart %v is beyond nextSend %v", st.psnStart, st.nextSend)
	}
	for _, i := range w.cfg.Pipes[0].Ins {
		if e := w.index(w.e.endpoints[i].in.ePSN); e < next || e > start+w.cfg.Pipes[0].N {
			return fmt.Errorf("in %d: ePSN %v outside nextSend %v .. psnStart+N", i, w.e.endpoints[i].in.ePSN, st.nextSend)
		}
	}
	for _, i := range w.cfg.Pipes[0].Outs {
		out := w.e.endpoints[i].out
		acked, cursor, sent := w.index(out.lastAcked), w.index(out.cursor), w.index(out.sentMax)
		if acked+1 < start || cursor <= acked || cursor > next || sent >= next || acked > sent || cursor > sent+1 {
			return fmt.Errorf("out %d: lastAcked %d, cursor %d, sentMax %d, psnStart %d, nextSend %d", i, acked, cursor, sent, start, next)
		}
		if out.timerArmed && out.rnrWait {
			return fmt.Errorf("out %d: timer armed during an RNR wait", i)
		}
		if !out.timerArmed && !out.rnrWait && acked < sent && cursor > sent {
			return fmt.Errorf("out %d: %d..%d outstanding, nothing to send and no timer", i, acked+1, sent)
		}
	}
	for _, ev := range w.e.Enabled() {
		if err := w.e.Legal(ev); err != nil {
			return fmt.Errorf("enabled but not legal: %w", err)
		}
	}
	return nil
}

func (w *world) step(ev Event) error {
	if err := w.e.Legal(ev); err != nil {
		return err
	}
	return w.take(w.e.Step(ev))
}

// act does one thing of the adversary's choice.
func (w *world) act() error {
	n := len(w.cfg.Endpoints)
	switch i := w.rng.IntN(n); w.rng.IntN(6) {
	case 0: // a sender sends, or sends again
		if w.acked[i] < w.total {
			w.send(i, min(w.total-1, w.acked[i]+w.rng.IntN(w.cfg.Pipes[0].N+3)))
		}
	case 1: // any frame ever sent arrives, and stays to arrive again
		if len(w.wire) > 0 {
			return w.step(w.wire[w.rng.IntN(len(w.wire))])
		}
	case 2: // the newest arrives
		if len(w.wire) > 0 {
			return w.step(w.wire[len(w.wire)-1])
		}
	case 3: // a timer
		if out := w.e.endpoints[i].out; out.timerArmed && out.retries < w.cfg.Pipes[0].Retries {
			return w.step(Event{Cause: spec.CauseTimer, Endpoint: i})
		}
	case 4:
		if w.e.endpoints[i].out.rnrWait {
			return w.step(Event{Cause: spec.CauseRNRExpiry, Endpoint: i})
		}
	default: // the engine does any one thing it can
		if evs := w.e.Enabled(); len(evs) > 0 {
			ev := evs[w.rng.IntN(len(evs))]
			if ev.Cause == spec.CauseRecycle { // hardware may stop on the way
				ev.PSN = psn.Add(w.e.pipes[0].psnStart, 1+w.rng.IntN(psn.Sub(ev.PSN, w.e.pipes[0].psnStart)))
			}
			return w.step(ev)
		}
	}
	return nil
}

// finish lets everybody be kind: whatever happened before, the run can end (protocol.md 8.3).
func (w *world) finish() error {
	for round := 0; round < 40*w.total; round++ {
		done := true
		for i := range w.cfg.Endpoints {
			if w.acked[i] < w.total {
				done = false
			}
			if w.acked[i] < w.total && maySend(w.cfg.Pipes[0].Unpinned, w.acked[i], w.expected[i]) {
				if err := w.step(contributed(&w.cfg, i, i, w.acked[i], w.psn(w.acked[i]))); err != nil {
					return err
				}
			}
			if w.expected[i] < w.total {
				done = false
				if out := w.e.endpoints[i].out; out.rnrWait {
					if err := w.step(Event{Cause: spec.CauseRNRExpiry, Endpoint: i}); err != nil {
						return err
					}
				} else if out.timerArmed && out.retries < w.cfg.Pipes[0].Retries {
					if err := w.step(Event{Cause: spec.CauseTimer, Endpoint: i}); err != nil {
						return err
					}
				}
			}
			for evs := w.e.Enabled(); len(evs) > 0; evs = w.e.Enabled() {
				if err := w.step(evs[0]); err != nil {
					return err
				}
			}
			// The receiver's newest ACK arrives.
			if w.expected[i] > 0 {
				if err := w.step(ackFrom(&w.cfg, i, w.psn(w.expected[i]-1), spec.SyndromeAck)); err != nil {
					return err
				}
			}
		}
		if done {
			return nil
		}
	}
	return fmt.Errorf("does not end: acked %v, expected %v of %d", w.acked, w.expected, w.total)
}

func TestAdversary(t *testing.T) {
	seeds := []uint64{*seedFlag}
	if *seedFlag == 0 {
		seeds = nil
		for s := range uint64(150) {
			seeds = append(seeds, s+1)
		}
	}
	for _, seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 1))
		cfg := flat(1+rng.IntN(4), 2<<rng.IntN(3), psn.PSN(0xfffff0+rng.IntN(16)))
		cfg.Variant.Strict = rng.IntN(4) == 0
		cfg.Variant.PlainNAK = rng.IntN(4) == 0
		cfg.Pipes[0].AckEvery = 1 + rng.IntN(max(1, cfg.Pipes[0].N/4))
		cfg.Pipes[0].Retries = 15
		cfg.Pipes[0].Unpinned = rng.IntN(3) == 0
		cfg.Pipes[0].Reproducible = !cfg.Pipes[0].Unpinned && rng.IntN(3) == 0
		w := newWorld(t, cfg, 24, seed)
		for n := range 4000 {
			require.NoError(t, w.act(), "-seed %d, action %d", seed, n)
		}
		require.NoError(t, w.finish(), "-seed %d", seed)
		require.Equal(t, spec.ErrorKindNone, w.e.Fault(0).Kind)
	}
}

// The paper's literal RecycleBuffer must fall to the same adversary, or it proves nothing.
func TestAdversaryFindsThatClearAheadIsWrong(t *testing.T) {
	for seed := range uint64(50) {
		cfg := flat(2, 4, 0)
		cfg.Variant.Mistake = ClearAhead
		cfg.Pipes[0].Retries = 15
		w := newWorld(t, cfg, 24, seed)
		for range 4000 {
			if err := w.act(); err != nil {
				t.Logf("seed %d: %v", seed, err)
				return
			}
		}
		if err := w.finish(); err != nil {
			t.Logf("seed %d: %v", seed, err)
			return
		}
	}
	t.Fatal("the literal RecycleBuffer survived")
}
