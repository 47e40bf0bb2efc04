package core

import (
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// slotSeen is what golden's records have said of a slot, and the first contribution to it.
type slotSeen struct {
	valid  bool
	tag    uint32
	bitmap uint64
	meta   *roce.Packet
}

// window is one pipe of two ins and one out, walked through golden; the bench's inputs are what golden's records say.
type window struct {
	*golden
	n        int
	psnStart psn.PSN
	ePSN     [2]psn.PSN
	slots    map[uint32]*slotSeen
	binding  bool
	failed   bool
}

func (r *run) newWindow(n int, psn0 psn.PSN) *window {
	cfg := engine.Config{Name: "window", Endpoints: []engine.Endpoint{r.endpoint(0, false), r.endpoint(1, false), r.endpoint(2, false)},
		Pipes: []engine.Pipe{{Mode: 3, Ins: []int{0, 1}, Outs: []int{2}, N: n, MTU: 256, PSN0: psn0, AckEvery: 1, Timeout: 1}}}
	for i := range cfg.Endpoints {
		cfg.Endpoints[i].PSN0 = psn0
	}
	cfg.Endpoints[0].InPipe, cfg.Endpoints[1].InPipe, cfg.Endpoints[1].InIndex = 0, 0, 1
	cfg.Endpoints[2].OutPipe = 0
	w := &window{golden: newGolden(r.t, cfg), n: n, slots: map[uint32]*slotSeen{}, psnStart: psn0, binding: true}
	w.ePSN = [2]psn.PSN{psn0, psn0}
	for i := range cfg.Endpoints {
		w.step(engine.Event{Cause: spec.CauseTableWrite, Endpoint: i, Pipe: engine.None})
	}
	w.step(engine.Event{Cause: spec.CauseTableWrite, Endpoint: engine.None, Pipe: 0})
	return w
}

func (w *window) bind() {
	for s := range w.n {
		w.step(engine.Event{Cause: spec.CauseBindStep, Slot: s})
	}
	w.step(engine.Event{Cause: spec.CauseBindDone})
	w.binding = false
}

// note keeps what a record says.
func (w *window) note(rec spec.Record, pkt *roce.Packet) {
	if rec.Groups&spec.GroupRx != 0 {
		w.ePSN[rec.Endpoint] = psn.PSN(rec.EPSN)
	}
	if rec.Groups&spec.GroupPipe != 0 {
		w.psnStart, w.failed = psn.PSN(rec.PSNStart), rec.PipeError != 0
	}
	if rec.Groups&spec.GroupSlot != 0 && rec.Cause == spec.CauseData {
		s := &slotSeen{rec.SlotValid != 0, rec.Tag, rec.Bitmap, pkt}
		if old := w.slots[rec.Slot]; rec.Degree > 1 || rec.Verdict != spec.VerdictOk {
			s.meta = old.meta
		}
		w.slots[rec.Slot] = s
	}
}

func (w *window) do(ev engine.Event) { w.note(w.step(ev)[0].Record, ev.Packet) }

// data is a contribution of in i. An odd kind has another length.
func (w *window) data(i int, k psn.PSN, odd bool) *roce.Packet {
	p := packet(w.cfg.Endpoints[i], spec.OpcodeSendOnly, k)
	p.Payload = make([]byte, 4)
	if odd {
		p.Payload = make([]byte, 8)
	}
	return p
}

// move does one event that may happen.
func (w *window) move(r *run) {
	evs := w.Enabled()
	if out := w.cfg.Endpoints[2]; r.chance(40) {
		k := psn.Add(w.psnStart, r.below(w.n+1)-1)
		evs = append(evs, engine.Event{Port: out.Port, Packet: ackPacket(out, k, spec.SyndromeAck)})
	}
	i := r.below(2)
	evs = append(evs, engine.Event{Port: w.cfg.Endpoints[i].Port, Packet: w.data(i, psn.Add(w.ePSN[i], r.below(w.n)), false)})
	w.do(evs[r.below(len(evs))])
}

func TestCheckDuplicate(t *testing.T) {
	type want struct {
		verdict                   spec.Verdict
		start, inOrder, behind    bool
		psn, psnStart, ePSN, slot uint32
	}
	each(t, Check, map[int]string{0: "check_out_t", 8: "check_in_t"}, func(r *run) {
		var wants []want
		seen := map[spec.Verdict]int{}
		probe := func(w *window) {
			for i := range 2 {
				near := []psn.PSN{psn.Add(w.psnStart, 1<<23), psn.Add(w.psnStart, 1<<23-1), psn.Add(w.psnStart, r.below(1<<24))}
				for d := -w.n - 1; d <= 2*w.n+1; d++ {
					near = append(near, psn.Add(w.psnStart, d))
				}
				for _, k := range near {
					odd := r.chance(30)
					slot := w.slots[uint32(k)%uint32(w.n)]
					pkt := w.data(i, k, odd)
					rec := w.clone().frame(w.cfg.Endpoints[i].Port, pkt)[0].Record
					require.Equal(r.t, spec.CauseData, rec.Cause)
					in := r.New(8).Set("psn", uint64(k)).Set("first", uint64(w.psnStart)).Set("epsn", uint64(w.ePSN[i])).
						Set("n_log2", uint64(bits.TrailingZeros(uint(w.n)))).SetBool("pipe_error", w.failed).SetBool("binding", w.binding)
					if slot == nil {
						in.Set("slot_tag", uint64(k)/uint64(w.n)).SetBool("slot_bit", r.chance(50)).SetBool("meta_equal", r.chance(50))
					} else {
						in.Set("slot_valid", 1).Set("slot_tag", uint64(slot.tag)).Set("slot_bit", slot.bitmap>>i&1).
							SetBool("meta_equal", len(slot.meta.Payload) == len(pkt.Payload))
					}
					r.Push(8, 0, in)
					wants = append(wants, want{rec.Verdict, rec.Verdict == spec.VerdictOk && rec.Degree == 1, k == w.ePSN[i],
						psn.Less(k, w.psnStart), uint32(k), uint32(w.psnStart), uint32(w.ePSN[i]), rec.Slot})
					seen[rec.Verdict]++
				}
			}
		}
		for _, n := range []int{2, 8, 64} {
			for _, psn0 := range []psn.PSN{0xfffffe, 0x7ffffd, psn.PSN(r.below(1 << 24))} {
				w := r.newWindow(n, psn0)
				probe(w)
				w.bind()
				probe(w)
				for range 400 / n {
					for range r.below(2 * n) {
						w.move(r)
					}
					probe(w)
				}
				for k, s := range w.slots { // a contribution that differs: the pipe is in error
					missing := 0
					if s.bitmap&1 != 0 {
						missing = 1
					}
					at := psn.PSN(s.tag*uint32(n) + k)
					if s.bitmap == 3 || psn.Less(at, w.psnStart) {
						continue
					}
					w.do(engine.Event{Port: w.cfg.Endpoints[missing].Port, Packet: w.data(missing, at, true)})
					require.True(r.t, w.failed)
					break
				}
				probe(w)
			}
		}
		for _, v := range []spec.Verdict{spec.VerdictPipeError, spec.VerdictNoSlots, spec.VerdictBehind, spec.VerdictBeyond,
			spec.VerdictDuplicate, spec.VerdictMismatch} {
			require.NotZero(r.t, seen[v], "no case of %v", v)
		}
		require.NotZero(r.t, seen[spec.VerdictOk])

		for n, ev := range r.drain(10*len(wants), 3) {
			if ev.Stream != 0 {
				continue
			}
			n /= 2 // an output beside each input
			w := wants[n]
			got := want{spec.Verdict(ev.Get("verdict")), ev.Get("start") != 0 && w.verdict == spec.VerdictOk, ev.Get("in_order") != 0,
				ev.Get("behind") != 0, w.psn, w.psnStart, w.ePSN, w.slot}
			if got != w {
				r.fail(ev, "psn %06x, psnStart %06x, ePSN %06x: got %+v, want %+v", w.psn, w.psnStart, w.ePSN, got, w)
			}
			wants[n].verdict = spec.VerdictCount // seen
		}
		for n, w := range wants {
			require.EqualValues(r.t, spec.VerdictCount, w.verdict, "no output for input %d", n)
		}
	})
}
