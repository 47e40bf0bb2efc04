package engine

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// flat is the AllReduce root of `ranks` leaves.
func flat(ranks, slots int, psn0 psn.PSN) Config {
	c := Config{Name: "root", Pipes: []Pipe{{
		Name: "root", Mode: 3, N: slots, MTU: 256, PSN0: psn0, AckEvery: 1, RNRCode: 1, Retries: 7, BackoffMax: 3, Timeout: 100,
	}}}
	for i := range ranks {
		n := byte(i + 1)
		c.Endpoints = append(c.Endpoints, Endpoint{
			Port: i, MAC: roce.MAC{2, 0, 0, 0, 0, n}, PeerMAC: roce.MAC{2, 0, 0, 0, 1, n},
			IP: netip.AddrFrom4([4]byte{10, 0, 0, n}), PeerIP: netip.AddrFrom4([4]byte{10, 0, 1, n}),
			QPN: 0x100 + uint32(n), PeerQPN: 0x200 + uint32(n), PKey: 0xffff, TTL: 64, PSN0: psn0, InIndex: i,
		})
		c.Pipes[0].Ins = append(c.Pipes[0].Ins, i)
		c.Pipes[0].Outs = append(c.Pipes[0].Outs, i)
	}
	return c
}

func programmed(t *testing.T, c Config) *Engine {
	t.Helper()
	e, err := New(c)
	require.NoError(t, err)
	e.Program()
	return e
}

// from is a frame of the peer of endpoint i.
func from(c *Config, i int, p psn.PSN) Event {
	ep := &c.Endpoints[i]
	return Event{Cause: spec.CauseDrop, Port: ep.Port, Packet: &roce.Packet{
		DstMAC: ep.MAC, SrcMAC: ep.PeerMAC, Src: ep.PeerIP, Dst: ep.IP, PKey: 0xffff, DestQP: ep.QPN,
		Opcode: spec.OpcodeSendOnly, PSN: p,
	}}
}

func dataFrom(c *Config, i int, p psn.PSN, elements ...uint32) Event {
	ev := from(c, i, p)
	for _, x := range elements {
		ev.Packet.Payload = binary.LittleEndian.AppendUint32(ev.Packet.Payload, x)
	}
	return ev
}

func ackFrom(c *Config, i int, p psn.PSN, syndrome uint8) Event {
	ev := from(c, i, p)
	ev.Packet.Opcode, ev.Packet.Syndrome = spec.OpcodeAcknowledge, syndrome
	return ev
}

func TestStateForgetsHowItCameAbout(t *testing.T) {
	c := flat(3, 4, 0xfffffe)
	rng := rand.New(rand.NewPCG(1, 2))
	var want []byte
	for trial := range 200 {
		e := programmed(t, c)
		// Every rank sends four psns in order; how the ranks interleave is random, and some packets
		// come twice. Only rank 0's results are acknowledged.
		next := [3]int{}
		for next != [3]int{4, 4, 4} {
			i := rng.IntN(3)
			if next[i] == 4 {
				continue
			}
			p := psn.Add(0xfffffe, next[i])
			ev := dataFrom(&c, i, p, uint32(p), uint32(i))
			e.Run(ev)
			if rng.IntN(3) == 0 {
				e.Run(ev)
			}
			next[i]++
		}
		e.Run(ackFrom(&c, 0, 1, spec.SyndromeAck))
		got := e.AppendState(nil)
		if trial == 0 {
			want = got
		}
		require.Equal(t, want, got, "trial %d", trial)
	}
}

func TestStateLeavesOutWhatIsDead(t *testing.T) {
	c := flat(1, 4, 0)
	c.Pipes[0].DType = spec.DTypeInt32
	states := map[string]bool{}
	for _, payload := range []uint32{1, 99} {
		e := programmed(t, c)
		e.Run(dataFrom(&c, 0, 0, payload))
		e.Run(ackFrom(&c, 0, 0, spec.SyndromeAck))
		require.True(t, e.Drained(0))
		states[string(e.AppendState(nil))] = true
	}
	require.Len(t, states, 1, "a slot behind the window is of no account")
}

func TestStateTellsApart(t *testing.T) {
	c := flat(2, 4, 0)
	base := func() *Engine {
		e := programmed(t, c)
		e.Run(dataFrom(&c, 0, 0, 1, 2))
		e.Run(dataFrom(&c, 1, 0, 3, 4))
		e.Run(dataFrom(&c, 0, 1, 5, 6))
		return e
	}
	want := base().AppendState(nil)
	require.Equal(t, want, base().AppendState(nil))
	changes := map[string]func(e *Engine){
		"valid":      func(e *Engine) { e.endpoints[0].valid = false },
		"ePSN":       func(e *Engine) { e.endpoints[0].in.ePSN++ },
		"msn":        func(e *Engine) { e.endpoints[0].in.msn++ },
		"nakSent":    func(e *Engine) { e.endpoints[0].in.nakSent = true },
		"ackKind":    func(e *Engine) { e.endpoints[0].in.ackKind = spec.AckKindAck },
		"ackCount":   func(e *Engine) { e.endpoints[0].in.ackCount++ },
		"lastAcked":  func(e *Engine) { e.endpoints[1].out.lastAcked++ },
		"cursor":     func(e *Engine) { e.endpoints[1].out.cursor-- },
		"sentMax":    func(e *Engine) { e.endpoints[1].out.sentMax++ },
		"retries":    func(e *Engine) { e.endpoints[1].out.retries++ },
		"timer":      func(e *Engine) { e.endpoints[1].out.timerArmed = false },
		"rnrWait":    func(e *Engine) { e.endpoints[1].out.rnrWait = true },
		"ep_error":   func(e *Engine) { e.endpoints[1].out.failed = true },
		"psnStart":   func(e *Engine) { e.pipes[0].psnStart++ },
		"nextSend":   func(e *Engine) { e.pipes[0].nextSend++ },
		"pipe_error": func(e *Engine) { e.pipes[0].failed = true },
		"binding":    func(e *Engine) { e.pipes[0].binding = true },
		"slot valid": func(e *Engine) { e.pipes[0].slots[1].valid = false },
		"slot tag":   func(e *Engine) { e.pipes[0].slots[1].tag++ },
		"bitmap":     func(e *Engine) { e.pipes[0].slots[1].bitmap = 2 },
		"opcode":     func(e *Engine) { e.pipes[0].slots[1].meta.opcode++ },
		"imm":        func(e *Engine) { e.pipes[0].slots[1].meta.imm++ },
		"se":         func(e *Engine) { e.pipes[0].slots[1].meta.se = true },
		"ce":         func(e *Engine) { e.pipes[0].slots[1].meta.ce = true },
		"ackReq":     func(e *Engine) { e.pipes[0].slots[1].meta.ackReq = true },
		"payload":    func(e *Engine) { e.pipes[0].slots[1].payload[7] ^= 1 },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			e := base()
			change(e)
			require.NotEqual(t, want, e.AppendState(nil))
		})
	}
}

// The states that only Mode-II, control signals and reproducible pipes have.
func TestStateTellsApartMode2(t *testing.T) {
	c := flat(2, 4, 0)
	c.Pipes[0].Mode, c.Pipes[0].Reproducible = 2, true
	base := func() *Engine {
		e := programmed(t, c)
		e.Step(dataFrom(&c, 0, 0, 1, 2))
		e.Step(dataFrom(&c, 1, 0, 3, 4)) // complete: two forwards wait
		e.Step(dataFrom(&c, 0, 1, 5, 6))
		return e
	}
	want := base().AppendState(nil)
	require.Equal(t, want, base().AppendState(nil))
	other := func() []byte { return []byte{1, 2, 3, 4, 5, 6, 7, 9} }
	for name, change := range map[string]func(e *Engine){
		"C":               func(e *Engine) { e.pipes[0].nextSend++ },
		"quiesced":        func(e *Engine) { e.pipes[0].quiesced = true },
		"window start":    func(e *Engine) { e.pipes[0].window.start++ },
		"control":         func(e *Engine) { e.pipes[0].window.control++ },
		"window op":       func(e *Engine) { e.pipes[0].window.op++ },
		"window dtype":    func(e *Engine) { e.pipes[0].window.dtype++ },
		"lastAcked":       func(e *Engine) { e.endpoints[1].out.lastAcked++ },
		"msn":             func(e *Engine) { e.endpoints[1].least.msn++ },
		"nak":             func(e *Engine) { e.endpoints[1].least.nakPending = true },
		"slot op":         func(e *Engine) { e.pipes[0].slots[1].meta.op++ },
		"slot dtype":      func(e *Engine) { e.pipes[0].slots[1].meta.dtype++ },
		"slot control":    func(e *Engine) { e.pipes[0].slots[1].meta.control = true },
		"offset":          func(e *Engine) { e.pipes[0].slots[1].meta.offset++ },
		"DMA length":      func(e *Engine) { e.pipes[0].slots[1].meta.dmaLength++ },
		"copy":            func(e *Engine) { e.pipes[0].slots[1].copies[0] = other() },
		"whose copy":      func(e *Engine) { e.pipes[0].slots[1].copies[1], e.pipes[0].slots[1].copies[0] = other(), nil },
		"result":          func(e *Engine) { e.pipes[0].slots[0].payload = other() },
		"forwards":        func(e *Engine) { e.forwards = e.forwards[1:] },
		"forwards' order": func(e *Engine) { e.forwards[0], e.forwards[1] = e.forwards[1], e.forwards[0] },
		"forward's pipe":  func(e *Engine) { e.forwards[0].pipe++ },
		"its endpoint":    func(e *Engine) { e.forwards[0].endpoint++ },
		"its psn":         func(e *Engine) { e.forwards[0].psn++ },
		"its slot":        func(e *Engine) { e.forwards[0].slot++ },
		"its meta":        func(e *Engine) { e.forwards[0].meta.ackReq = true },
		"its payload":     func(e *Engine) { e.forwards[0].payload = other() },
		"its syndrome":    func(e *Engine) { e.forwards[0].syndrome++ },
		"its MSN":         func(e *Engine) { e.forwards[0].msn++ },
		"incomplete, and behind": func(e *Engine) {
			e.pipes[0].slots[3] = slot{valid: true, tag: 77, degree: 1}
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := base()
			change(e)
			require.NotEqual(t, want, e.AppendState(nil))
		})
	}
	pending := func(psn psn.PSN, syndrome uint8) []byte {
		e := base()
		e.endpoints[1].least = leastState{nakPending: true, nakPSN: psn, nakSyndrome: syndrome}
		return e.AppendState(nil)
	}
	require.NotEqual(t, pending(1, 0x60), pending(2, 0x60))
	require.NotEqual(t, pending(1, 0x60), pending(1, 0x21))

	// What no event can read any more.
	e := base()
	e.pipes[0].slots[3] = slot{valid: true, tag: 77, degree: 2, payload: other()}
	e.endpoints[1].least.nakPSN, e.endpoints[1].least.nakSyndrome = 3, 0x60
	require.Equal(t, want, e.AppendState(nil))
}

// However the contributions of a reproducible pipe come in, the state is that of those that did.
func TestReproducibleStateForgetsTheOrder(t *testing.T) {
	c := flat(3, 4, 0)
	c.Pipes[0].Mode, c.Pipes[0].Reproducible = 2, true
	var states [2][]byte
	for n, order := range [][]int{{0, 2}, {2, 0}} {
		e := programmed(t, c)
		for _, i := range order {
			e.Run(dataFrom(&c, i, 0, uint32(i)))
		}
		states[n] = e.AppendState(nil)
	}
	require.Equal(t, states[0], states[1])
}

func TestCloneIsIndependentMode2(t *testing.T) {
	c := flat(2, 4, 0)
	c.Pipes[0].Mode, c.Pipes[0].Reproducible = 2, true
	e := programmed(t, c)
	e.Step(dataFrom(&c, 0, 0, 1))
	e.Step(dataFrom(&c, 1, 0, 2))
	e.Step(dataFrom(&c, 0, 1, 3))
	before := e.AppendState(nil)
	twin := e.Clone()
	require.Equal(t, before, twin.AppendState(nil))
	twin.Step(dataFrom(&c, 1, 1, 10))
	twin.Step(Event{Cause: spec.CauseForward})
	twin.Step(Event{Cause: spec.CauseTableWrite, Endpoint: None, Pipe: 0, Quiesce: true})
	require.Equal(t, before, e.AppendState(nil), "stepping the clone changed the original")
	e.Step(Event{Cause: spec.CauseForward})
	e.Step(Event{Cause: spec.CauseForward})
	e.Step(dataFrom(&c, 1, 1, 20))
	pkt := e.Step(Event{Cause: spec.CauseForward})[1].Packet
	require.Equal(t, uint32(23), binary.LittleEndian.Uint32(pkt.Payload))
}

func TestCloneIsIndependent(t *testing.T) {
	c := flat(2, 4, 0)
	e := programmed(t, c)
	e.Run(dataFrom(&c, 0, 0, 1))
	before := e.AppendState(nil)

	twin := e.Clone()
	require.Equal(t, before, twin.AppendState(nil))
	twin.Run(dataFrom(&c, 1, 0, 10))  // completes the slot that both began
	twin.Run(dataFrom(&c, 0, 1, 100)) // starts another
	require.Equal(t, before, e.AppendState(nil), "stepping the clone changed the original")

	for _, o := range e.Run(dataFrom(&c, 1, 0, 20)) {
		if o.Kind == Frame && o.Packet.Opcode == spec.OpcodeSendOnly {
			require.Equal(t, uint32(21), binary.LittleEndian.Uint32(o.Packet.Payload))
		}
	}

	ep := c.Endpoints[0]
	ep.PSN0 = 0x50
	write := Event{Cause: spec.CauseTableWrite, Endpoint: 0, Pipe: None, NewEndpoint: &ep}
	require.NoError(t, e.Legal(write))
	twin = e.Clone()
	twin.Step(write)
	require.Equal(t, psn.PSN(0), e.Config().Endpoints[0].PSN0, "writing the clone's table changed the original's")
	require.Equal(t, psn.PSN(0x50), twin.Config().Endpoints[0].PSN0)
}

// A frame that has left keeps its payload whatever becomes of its slot.
func TestPayloadOfASentFrameStays(t *testing.T) {
	c := flat(1, 2, 0)
	e := programmed(t, c)
	var sent []*roce.Packet
	for p := range 6 {
		ev := dataFrom(&c, 0, psn.PSN(p), uint32(p))
		for _, o := range e.Run(ev) {
			if o.Kind == Frame && !o.Packet.HasAETH() {
				sent = append(sent, o.Packet)
			}
		}
		ev.Packet.Payload[0] = 0xee // the engine keeps nothing of the frame
		e.Run(ackFrom(&c, 0, psn.PSN(p), spec.SyndromeAck))
	}
	require.Len(t, sent, 6)
	for p, pkt := range sent {
		require.Equal(t, uint32(p), binary.LittleEndian.Uint32(pkt.Payload))
	}
}
