package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// txHeader is a frame that golden sends, as the deparser takes it.
func (r *run) txHeader(port int, p *roce.Packet) Token {
	info, _ := p.Opcode.Info()
	t := r.layouts.New("txhdr_t").Set("port", uint64(port)).Set("dmac", mac(p.DstMAC)).Set("smac", mac(p.SrcMAC)).
		SetBool("is_v6", p.Src.Is6()).SetWords("sip", addr(p.Src)).SetWords("dip", addr(p.Dst)).
		Set("tos", uint64(p.TOS)).Set("ttl", uint64(p.TTL)).Set("udp_sport", uint64(p.SrcPort)).
		Set("opcode", uint64(p.Opcode)).SetBool("se", p.SE).SetBool("mig_req", p.MigReq).Set("pkey", uint64(p.PKey)).
		Set("dqpn", uint64(p.DestQP)).SetBool("ack_req", p.AckReq).Set("psn", uint64(p.PSN)).
		SetBool("has_imm", info.ImmDt).Set("imm", uint64(p.Imm)).SetBool("has_aeth", info.AETH).
		Set("syndrome", uint64(p.Syndrome)).Set("msn", uint64(p.MSN)).Set("plen", uint64(len(p.Payload)))
	if len(p.VLAN) > 0 {
		t.Set("vlan_valid", 1).Set("vlan_tci", uint64(p.VLAN[0].TCI))
	}
	return t
}

// Kinds of a job (inc_pkg TX_*).
const (
	txData = iota
	txACK
	txCNP
)

// TestTranslateHeader turns jobs into the headers of golden's frames: results of every opcode and ACKs of every kind.
func TestTranslateHeader(t *testing.T) {
	streams := map[int]string{0: "txhdr_t", 1: "read_desc_t", 8: "txjob_t", 9: "ep_write_t", 10: "slot_write_t"}
	each(t, Translate, streams, func(r *run) {
		cfg := engine.Config{Name: "translate"}
		const n = 8
		for i := range entries {
			ep := r.endpoint(i, i%3 == 2)
			if i%4 == 1 {
				tci := uint16(r.below(1 << 16))
				ep.VLAN = &tci
			}
			p := i / 4 // 4 endpoints of each pipe: the first sends, all receive
			ep.PSN0 = psn.Add(0xfffffc, p)
			ep.OutPipe = p
			if i%4 == 0 {
				ep.InPipe = p
			}
			cfg.Endpoints = append(cfg.Endpoints, ep)
		}
		for p, mtu := range []int{256, 512, 256, 512} {
			cfg.Pipes = append(cfg.Pipes, engine.Pipe{Mode: 3, Ins: []int{4 * p}, Outs: []int{4 * p, 4*p + 1, 4*p + 2, 4*p + 3}, N: n, MTU: mtu,
				PSN0: cfg.Endpoints[4*p].PSN0, AckEvery: 2, RNRCode: 5 + p, Retries: 7, Timeout: 9, Base: []int{0, 8, 24, 32}[p]})
		}
		g := newGolden(r.t, cfg)
		g.Program()
		tables := plan(r.t, cfg)
		for i := range cfg.Endpoints {
			r.Push(9, 0, r.New(9).Set("index", uint64(tables.EndpointIndex(i))).SetWords("cfg", tables.Endpoint(i).Words()))
		}
		r.drain(1000, 2)

		type want struct {
			header, read Token
			payload      bool
		}
		var wants []want
		sent := map[spec.Opcode]int{}
		opcodes := []spec.Opcode{spec.OpcodeSendFirst, spec.OpcodeSendMiddle, spec.OpcodeSendLast, spec.OpcodeSendLastImm,
			spec.OpcodeSendOnly, spec.OpcodeSendOnlyImm}
		flips := map[int]int{} // of the slots, by first block
		frame := func(outs []engine.Output, block int) {
			for _, o := range outs {
				if o.Kind != engine.Frame {
					continue
				}
				job := r.New(8).Set("ep", uint64(tables.EndpointIndex(o.Endpoint))).Set("psn", uint64(o.Packet.PSN))
				w := want{header: r.txHeader(o.Port, o.Packet), read: r.New(1)}
				if o.Packet.HasAETH() {
					job.Set("kind", txACK).Set("syndrome", uint64(o.Packet.Syndrome)).Set("msn", uint64(o.Packet.MSN))
				} else {
					job.SetBool("ack_req", o.Packet.AckReq).Set("block", uint64(block))
					w.payload = true
					w.read.Set("bank", uint64(flips[block])).Set("addr", uint64(block*spec.BlockBytes/r.beatBytes())).
						Set("beats", uint64((len(o.Packet.Payload)+r.beatBytes()-1)/r.beatBytes()))
				}
				r.Push(8, r.below(2)*r.below(4), job)
				wants = append(wants, w)
				sent[o.Packet.Opcode]++
			}
		}
		next := [4]psn.PSN{}
		for p := range next {
			next[p] = cfg.Pipes[p].PSN0
		}
		check := func(events []Event) {
			headers, reads := 0, 0
			for _, ev := range events {
				switch ev.Stream {
				case 0:
					for name := range ev.Fields {
						if got, wanted := ev.GetWords(name), wants[headers].header.GetWords(name); !equal(got, wanted) {
							r.fail(ev, "frame %d (opcode %#x): %s: got %08x, want %08x", headers, ev.Get("opcode"), name, got, wanted)
						}
					}
					headers++
				case 1:
					w := wants[reads]
					if ev.Get("beats") != w.read.Get("beats") || w.payload && w.read.Get("beats") > 0 && !equal(ev.Words, w.read.Words) {
						r.fail(ev, "frame %d: got bank %d, beat %d, %d beats; want %d, %d, %d", reads, ev.Get("bank"), ev.Get("addr"),
							ev.Get("beats"), w.read.Get("bank"), w.read.Get("addr"), w.read.Get("beats"))
					}
					reads++
				}
			}
			require.Equal(r.t, len(wants), headers, "headers")
			require.Equal(r.t, len(wants), reads, "read descriptors")
			wants = wants[:0]
		}
		for range 120 {
			p := r.below(4)
			in := cfg.Endpoints[4*p]
			u := cfg.Pipes[p].MTU
			op := opcodes[r.below(len(opcodes))]
			info, _ := op.Info()
			pkt := packet(in, op, next[p])
			switch {
			case !info.Last:
				pkt.Payload = r.bytes(u)
			case info.First:
				pkt.Payload = r.bytes(4 * r.below(u/4+1))
			default:
				pkt.Payload = r.bytes(4 + 4*r.below(u/4))
			}
			if info.ImmDt {
				pkt.Imm = r.random.Uint32()
			}
			pkt.SE, pkt.AckReq, pkt.TOS = r.chance(50), r.chance(50), uint8(r.below(4))
			rec := g.frame(in.Port, pkt)[0].Record
			require.Equal(r.t, spec.VerdictOk, rec.Verdict)
			block := cfg.Pipes[p].Base + int(rec.Slot)*u/spec.BlockBytes
			flips[block] = r.below(2)
			meta := r.New(10).Set("block", uint64(block)).Set("flip", uint64(flips[block])).
				Set("meta.opcode", uint64(op)).Set("meta.plen", uint64(len(pkt.Payload))).
				SetBool("meta.se", pkt.SE).SetBool("meta.ce", pkt.TOS&3 == 3).SetBool("meta.ack_req", pkt.AckReq).
				Set("meta.imm", uint64(pkt.Imm))
			r.Push(10, 0, meta)
			r.drain(1000, 1)
			g.step(engine.Event{Cause: spec.CauseAdvance, Endpoint: 4 * p})
			g.step(engine.Event{Cause: spec.CauseRelease, Pipe: p})
			ackOut := engine.Event{Cause: spec.CauseAckOut, Endpoint: 4 * p}
			if g.Legal(ackOut) == nil {
				frame(g.step(ackOut), 0)
			}
			for _, i := range cfg.Pipes[p].Outs {
				frame(g.step(engine.Event{Cause: spec.CauseSend, Endpoint: i}), block)
			}
			// Too early, after a gap: the other answers.
			for _, ahead := range []int{1 + r.below(3), n} {
				g.frame(in.Port, packet(in, spec.OpcodeSendOnly, psn.Add(next[p], ahead+n)))
				if g.Legal(ackOut) == nil {
					frame(g.step(ackOut), 0)
				}
			}
			check(r.drain(4000, 12))
			next[p] = psn.Next(next[p])
			for _, i := range cfg.Pipes[p].Outs {
				g.frame(cfg.Endpoints[i].Port, ackPacket(cfg.Endpoints[i], psn.Prev(next[p]), spec.SyndromeAck))
			}
			g.step(engine.Event{Cause: spec.CauseRecycle, Pipe: p, PSN: next[p]})
		}
		for _, op := range append(opcodes, spec.OpcodeAcknowledge) {
			require.NotZero(r.t, sent[op], "no %v", op)
		}
	})
}

func equal(a, b []uint32) bool {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return false
		}
	}
	return true
}
