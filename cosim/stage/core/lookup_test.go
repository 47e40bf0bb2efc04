package core

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// rxHeader is a received frame as the parser hands it on.
func (r *run) rxHeader(port int, p *roce.Packet, v spec.Verdict) Token {
	info, _ := p.Opcode.Info()
	t := r.layouts.New("hdr_t").Set("verdict", uint64(v)).Set("port", uint64(port)).Set("dmac", mac(p.DstMAC)).
		Set("smac", mac(p.SrcMAC)).SetBool("is_v6", p.Src.Is6()).SetWords("sip", addr(p.Src)).SetWords("dip", addr(p.Dst)).
		Set("tos", uint64(p.TOS)).Set("opcode", uint64(p.Opcode)).SetBool("se", p.SE).SetBool("mig_req", p.MigReq).
		Set("pkey", uint64(p.PKey)).Set("dqpn", uint64(p.DestQP)).SetBool("ack_req", p.AckReq).Set("psn", uint64(p.PSN)).
		SetBool("is_data", info.Kind == spec.KindData).SetBool("is_ack", info.Kind == spec.KindAck).
		SetBool("is_cnp", info.Kind == spec.KindCNP).
		SetBool("is_write", info.Kind == spec.KindData && p.Opcode >= spec.OpcodeWriteFirst).
		SetBool("is_first", info.First).SetBool("is_last", info.Last).SetBool("has_imm", info.ImmDt).Set("imm", uint64(p.Imm)).
		Set("syndrome", uint64(p.Syndrome)).Set("msn", uint64(p.MSN)).Set("plen", uint64(len(p.Payload)))
	if v == spec.VerdictOk && info.Kind == spec.KindData {
		t.Set("pay_beats", uint64((len(p.Payload)+r.beatBytes()-1)/r.beatBytes()))
	}
	return t
}

// arrival is one frame on its way to the lookup.
type arrival struct {
	port    int
	packet  *roce.Packet
	verdict spec.Verdict // of the wire
}

// lookupConfig has endpoints in every direction, of both IP versions, full and limited members, and pipes of every
// element size.
func (r *run) lookupConfig() engine.Config {
	cfg := engine.Config{Name: "lookup"}
	type place struct{ in, out int }
	for i, p := range []place{{0, 0}, {0, 1}, {1, engine.None}, {engine.None, 2}, {2, 3}, {3, engine.None}, {0, 0}} {
		ep := r.endpoint(i*2, i%3 == 1)
		ep.InPipe, ep.OutPipe, ep.PSN0 = p.in, p.out, 0xfffffe
		if i%3 == 2 {
			ep.PKey &= 0x7fff
		}
		cfg.Endpoints = append(cfg.Endpoints, ep)
	}
	for p, dtype := range []spec.DType{spec.DTypeInt32, spec.DTypeInt64, spec.DTypeInt8, spec.DTypeFloat16} {
		pipe := engine.Pipe{Mode: 3, DType: dtype, N: 4, MTU: 256 << p, PSN0: 0xfffffe, AckEvery: 1, RNRCode: p + 1, Retries: p + 3,
			BackoffMax: p, Timeout: 100 + p, Base: []int{0, 4, 12, 28}[p]}
		for i := range cfg.Endpoints {
			if cfg.Endpoints[i].InPipe == p {
				cfg.Endpoints[i].InIndex = len(pipe.Ins)
				pipe.Ins = append(pipe.Ins, i)
			}
			if cfg.Endpoints[i].OutPipe == p {
				pipe.Outs = append(pipe.Outs, i)
			}
		}
		cfg.Pipes = append(cfg.Pipes, pipe)
	}
	cfg.Pipes[3].N = 2
	return cfg
}

// spoil changes one thing of a frame; whether that matters is golden's to say.
var spoil = []func(r *run, ep engine.Endpoint, a *arrival){
	func(r *run, ep engine.Endpoint, a *arrival) { a.packet.DestQP ^= 1 << r.below(24) },
	func(r *run, ep engine.Endpoint, a *arrival) { a.packet.DestQP ^= uint32(entries) << r.below(20) }, // the same entry
	func(r *run, ep engine.Endpoint, a *arrival) { a.packet.Dst = flip(a.packet.Dst, r.below(128)) },
	func(r *run, ep engine.Endpoint, a *arrival) { a.packet.Src = flip(a.packet.Src, r.below(128)) },
	func(r *run, ep engine.Endpoint, a *arrival) { // the same number in the other version
		a.packet.Dst, a.packet.Src = other(a.packet.Dst), other(a.packet.Src)
	},
	func(r *run, ep engine.Endpoint, a *arrival) { a.port ^= 1 << r.below(6) },
	func(r *run, ep engine.Endpoint, a *arrival) { a.packet.SrcMAC[r.below(6)] ^= 1 << r.below(8) },
	func(r *run, ep engine.Endpoint, a *arrival) { a.packet.DstMAC[r.below(6)] ^= 1 << r.below(8) },
	func(r *run, ep engine.Endpoint, a *arrival) { a.packet.PKey ^= 1 << r.below(16) },
	func(r *run, ep engine.Endpoint, a *arrival) { a.packet.PKey &^= 0x8000 },
	func(r *run, ep engine.Endpoint, a *arrival) { a.packet.PKey |= 0x8000 },
	func(r *run, ep engine.Endpoint, a *arrival) {
		a.packet.Opcode = spec.Opcodes[r.below(len(spec.Opcodes))]
	},
	func(r *run, ep engine.Endpoint, a *arrival) {
		u := 256 << r.below(5)
		a.packet.Payload = make([]byte, max(0, []int{0, 1, 2, 3, 4, 6, 8, 12, u - 1, u - 2, u - 4, u - 8, u, u + 1, u + 8}[r.below(15)]))
	},
	func(r *run, ep engine.Endpoint, a *arrival) {
		a.verdict = spec.Verdict(1 + r.below(int(spec.VerdictICRC)-1))
	},
	func(r *run, ep engine.Endpoint, a *arrival) { a.packet.PSN = psn.PSN(r.below(1 << 24)) },
	func(r *run, ep engine.Endpoint, a *arrival) {},
}

func flip(a netip.Addr, bit int) netip.Addr {
	b := a.AsSlice()
	b[bit/8%len(b)] ^= 1 << (bit % 8)
	out, _ := netip.AddrFromSlice(b)
	return out
}

func other(a netip.Addr) netip.Addr {
	return spec.Uint128FromAddr(a).Addr(a.Is4())
}

// arrive is a good frame for an endpoint.
func (r *run) arrive(cfg engine.Config, i int) *arrival {
	ep := cfg.Endpoints[i]
	p := ackPacket(ep, psn.PSN(r.below(1<<24)), []uint8{0x1f, 0x60, 0x21, 0x63}[r.below(4)])
	if ep.InPipe != engine.None && (ep.OutPipe == engine.None || r.chance(70)) {
		op := spec.Opcode(r.below(6))
		p = packet(ep, op, psn.Add(0xfffffe, r.below(8)-2))
		if info, _ := op.Info(); !info.Last {
			p.Payload = make([]byte, cfg.Pipes[ep.InPipe].MTU)
		} else {
			p.Payload = make([]byte, 8*(1+r.below(cfg.Pipes[ep.InPipe].MTU/8)))
		}
	}
	p.SE, p.AckReq, p.MSN = r.chance(50), r.chance(50), uint32(r.below(1<<24))
	p.TOS, p.TTL, p.MigReq = uint8(r.below(256)), uint8(r.below(256)), r.chance(50)
	return &arrival{ep.Port, p, spec.VerdictOk}
}

var lookupStreams = map[int]string{0: "lookup_t", 1: "ep_cfg_t", 2: "pipe_readout_t", 8: "ep_write_t", 9: "pipe_write_t",
	10: "hdr_t", 11: "ep_read_t", 12: "pipe_read_t", 13: "out_write_t"}

// TestLookup gives golden and the lookup the same frames and table writes, in the order in which the lookup took them.
func TestLookup(t *testing.T) {
	each(t, Lookup, lookupStreams, func(r *run) {
		g := newGolden(r.t, r.lookupConfig())
		type write struct {
			token Token
			event engine.Event
		}
		var (
			arrivals   []*arrival
			writes     = map[int][]write{} // by stream
			wants      []expected
			epTable    = make([][]uint32, entries)
			pipeTable  = make([][]uint32, pipes)
			epReads    [][]uint32
			seen       = map[spec.Verdict]int{}
			rewritten  int
			emptyEntry = r.layouts.New("ep_cfg_t").Words
		)
		take := func(events []Event) {
			for _, ev := range events {
				switch ev.Stream {
				case 0:
					w := wants[0]
					wants = wants[1:]
					if got := spec.Verdict(ev.Get("verdict")); got != w.verdict {
						r.fail(ev, "verdict: got %v, want %v", got, w.verdict)
					}
					for name := range ev.Fields {
						if w.verdict != spec.VerdictOk && name != "pay_beats" {
							continue
						}
						if got, wanted := ev.GetWords(name), w.token.GetWords(name); name != "meta" && !equal(got, wanted) {
							r.fail(ev, "%s: got %08x, want %08x", name, got, wanted)
						}
					}
					if w.verdict == spec.VerdictOk && w.token.Get("is_data") != 0 && !equal(ev.GetWords("meta"), w.token.GetWords("meta")) {
						r.fail(ev, "meta: got %08x, want %08x", ev.GetWords("meta"), w.token.GetWords("meta"))
					}
				case 1:
					if !equal(ev.Words, epReads[0]) {
						r.fail(ev, "ep_cfg read for sending: got %08x, want %08x", ev.Words, epReads[0])
					}
					epReads = epReads[1:]
				case 2:
					for _, port := range []string{"op", "tx", "send", "keep"} {
						if want := pipeTable[ev.Get("at."+port)]; want != nil && !equal(ev.GetWords(port+"_cfg"), want) {
							r.fail(ev, "pipe_cfg %d read at %s: got %08x, want %08x", ev.Get("at."+port), port, ev.GetWords(port+"_cfg"), want)
						}
					}
				case 8, 9:
					w := writes[ev.Stream][0]
					writes[ev.Stream] = writes[ev.Stream][1:]
					g.step(w.event)
					if ev.Stream == 8 {
						epTable[w.token.Get("index")] = w.token.GetWords("cfg")
						break
					}
					pipeTable[w.token.Get("index")] = w.token.GetWords("cfg")
					for s := range g.Config().Pipes[w.event.Pipe].N {
						g.step(engine.Event{Cause: spec.CauseBindStep, Pipe: w.event.Pipe, Slot: s})
					}
					g.step(engine.Event{Cause: spec.CauseBindDone, Pipe: w.event.Pipe})
				case 10:
					a := arrivals[0]
					arrivals = arrivals[1:]
					w := r.expect(g, a)
					seen[w.verdict]++
					wants = append(wants, w)
				case 11:
					entry := epTable[ev.Get("index")]
					if entry == nil {
						entry = emptyEntry
					}
					epReads = append(epReads, entry)
				}
			}
		}
		send := func(a *arrival) {
			arrivals = append(arrivals, a)
			r.Push(10, 0, r.rxHeader(a.port, a.packet, a.verdict))
		}
		some := func(cfg engine.Config, n int) {
			for range n {
				i := r.below(len(cfg.Endpoints))
				a := r.arrive(cfg, i)
				for range r.below(3) {
					spoil[r.below(len(spoil))](r, cfg.Endpoints[i], a)
				}
				send(a)
				r.Push(11, 0, r.New(11).Set("index", uint64(r.below(entries))))
				r.Push(12, 0, r.New(12).Set("op", uint64(r.below(pipes))).Set("tx", uint64(r.below(pipes))).
					Set("send", uint64(r.below(pipes))).Set("keep", uint64(r.below(pipes))))
			}
		}
		writeEp := func(cfg engine.Config, i int, remove, change bool) {
			tables := plan(r.t, cfg)
			entry := tables.Endpoint(i)
			entry.Valid = !remove
			w := write{r.New(8).Set("index", uint64(tables.EndpointIndex(i))).SetWords("cfg", entry.Words()),
				engine.Event{Cause: spec.CauseTableWrite, Endpoint: i, Pipe: engine.None, Remove: remove}}
			if change {
				ep := cfg.Endpoints[i]
				w.event.NewEndpoint = &ep
			}
			writes[8] = append(writes[8], w)
			r.Push(8, 0, w.token)
		}
		writePipe := func(cfg engine.Config, p int) {
			pipe := cfg.Pipes[p]
			w := write{r.New(9).Set("index", uint64(p)).SetWords("cfg", plan(r.t, cfg).Pipe(p).Words()),
				engine.Event{Cause: spec.CauseTableWrite, Endpoint: engine.None, Pipe: p, NewPipe: &pipe}}
			writes[9] = append(writes[9], w)
			r.Push(9, 0, w.token)
		}

		cfg := g.cfg
		some(cfg, 60) // nothing is there yet
		take(r.drain(5000, 4))
		for i := range cfg.Endpoints {
			writeEp(cfg, i, false, false)
		}
		take(r.drain(5000, 4))
		some(cfg, 60) // no pipe is
		take(r.drain(5000, 4))
		for p := range cfg.Pipes {
			base := int(plan(r.t, cfg).Pipe(p).OutBase)
			for i, out := range cfg.Pipes[p].Outs {
				r.Push(13, 0, r.New(13).Set("index", uint64(base+i)).Set("ep", uint64(cfg.EntryIndex(out, entries))))
			}
			writePipe(cfg, p)
		}
		take(r.drain(5000, 4))

		// Every endpoint with every single fault, and every opcode with every length near its bounds.
		for i := range cfg.Endpoints {
			for _, f := range spoil {
				for range 4 {
					a := r.arrive(cfg, i)
					f(r, cfg.Endpoints[i], a)
					send(a)
				}
			}
			for _, op := range spec.Opcodes {
				for _, u := range []int{256, 512, 1024, 2048} {
					for _, n := range []int{0, 1, 2, 4, 6, 8, u - 8, u - 4, u - 1, u, u + 4} {
						a := r.arrive(cfg, i)
						a.packet.Opcode, a.packet.Payload = op, make([]byte, n)
						send(a)
					}
				}
			}
			take(r.drain(40_000, 4))
		}
		// Tables rewritten between the frames: frames back to back before and after.
		for range 60 {
			some(cfg, 20+r.below(30))
			cfg.Endpoints = slices.Clone(cfg.Endpoints)
			cfg.Pipes = slices.Clone(cfg.Pipes)
			switch i := r.below(len(cfg.Endpoints)); r.below(4) {
			case 0:
				writeEp(cfg, i, true, false)
			case 1:
				ep := r.endpoint(int(cfg.Endpoints[i].QPN%entries), r.chance(50))
				ep.InPipe, ep.OutPipe, ep.InIndex, ep.PSN0 = cfg.Endpoints[i].InPipe, cfg.Endpoints[i].OutPipe, cfg.Endpoints[i].InIndex, 0xfffffe
				cfg.Endpoints[i] = ep
				writeEp(cfg, i, false, true)
			case 2:
				writeEp(cfg, i, false, false)
			case 3:
				p := r.below(pipes)
				cfg.Pipes[p].MTU = 256 << r.below(p+1)
				cfg.Pipes[p].RNRCode = r.below(32)
				writePipe(cfg, p)
			}
			rewritten++
			if r.chance(50) {
				some(cfg, 20)
			}
			take(r.drain(5000, r.below(4)))
		}
		take(r.drain(5000, 10))
		require.Empty(r.t, wants, "frames without a result")
		for v := spec.VerdictMACError; v <= spec.VerdictPayloadLength; v++ {
			if v != spec.VerdictICRC {
				require.NotZero(r.t, seen[v], "no case of %v", v)
			}
		}
	})
}

// TestLookupRate: with nothing in the way a frame passes in every clock.
func TestLookupRate(t *testing.T) {
	each(t, Lookup, lookupStreams, func(r *run) {
		if r.pacing != pacings[0] {
			return
		}
		r.clocks(2 * entries) // the tables are cleared after reset
		for range 100 {
			r.Push(10, 0, r.New(10).Set("verdict", uint64(spec.VerdictOpcode)))
		}
		var out []int
		for _, ev := range r.drain(2000, 10) {
			if ev.Stream == 0 {
				out = append(out, ev.Clock)
			}
		}
		require.Len(r.t, out, 100)
		require.Equal(r.t, 99, out[99]-out[0])
	})
}

// expected is what the lookup must say of a frame.
type expected struct {
	verdict spec.Verdict
	token   Token // all of it, if the verdict is ok
}

// expect asks golden. A frame that reaches its pipe or out has passed the lookup, whatever becomes of it there.
func (r *run) expect(g *golden, a *arrival) expected {
	header := r.rxHeader(a.port, a.packet, a.verdict)
	t := r.layouts.New("lookup_t").Set("pay_beats", header.Get("pay_beats"))
	ev := engine.Event{Port: a.port, Packet: a.packet, Verdict: a.verdict}
	if a.verdict != spec.VerdictOk {
		ev.Packet = nil
	}
	rec := g.step(ev)[0].Record
	if rec.Cause == spec.CauseDrop {
		return expected{rec.Verdict, t}
	}
	cfg := g.Config()
	i, p := int(rec.Endpoint), int(rec.PipeID)
	entry, pipe := plan(r.t, cfg).Endpoint(i), plan(r.t, cfg).Pipe(p)
	info, _ := a.packet.Opcode.Info()
	require.Equal(r.t, rec.PSN, uint32(a.packet.PSN))
	t.SetBool("ok", true).Set("is_data", header.Get("is_data")).Set("is_ack", header.Get("is_ack")).
		Set("ep", uint64(cfg.EntryIndex(i, entries))).Set("lead", uint64(cfg.EntryIndex(cfg.Pipes[p].Outs[0], entries))).Set("pipe", uint64(p)).Set("in_index", uint64(entry.InIndex)).
		Set("psn", uint64(rec.PSN)).Set("syndrome", uint64(a.packet.Syndrome)).
		Set("n_log2", uint64(pipe.NLog2)).Set("mtu_log2", uint64(pipe.MTULog2)).Set("block", uint64(uint16(uint32(pipe.BaseBlock)+rec.PSN%(1<<pipe.NLog2)<<(pipe.MTULog2-8)))).
		Set("fan_in", uint64(pipe.FanIn)).Set("dtype", uint64(pipe.DType)).Set("op", uint64(pipe.Op)).Set("ack_every", uint64(pipe.AckEvery)).Set("msn", uint64(a.packet.MSN)).
		SetBool("mode2", pipe.Mode == 2).Set("ack_rule", uint64(pipe.AckRule)).SetBool("leaf", entry.Leaf).
		SetBool("to_asker", pipe.ReplayAsker && entry.Leaf && entry.OutValid && entry.InPipe == entry.OutPipe).
		SetBool("pinned", pipe.Pinned).SetBool("reproducible", pipe.Reproducible).Set("coll", uint64(pipe.Coll)).
		Set("root", uint64(pipe.Root))
	meta := r.layouts.New("slot_meta_t").Set("opcode", uint64(a.packet.Opcode&15)).
		SetBool("se", a.packet.SE).SetBool("ce", a.packet.CE()).SetBool("ack_req", a.packet.AckReq).
		Set("op", uint64(pipe.Op)).Set("dtype", uint64(pipe.DType))
	if info.Kind == spec.KindData {
		meta.Set("plen", uint64(len(a.packet.Payload)))
	}
	if info.ImmDt {
		meta.Set("imm", uint64(a.packet.Imm))
	}
	return expected{spec.VerdictOk, t.SetWords("meta", meta.Words)}
}
