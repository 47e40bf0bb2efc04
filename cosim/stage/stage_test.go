package stage_test

import (
	"errors"
	"fmt"
	"io"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/cosim/stage"
	"github.com/epic-inc/epic/golden/capture"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

const root = "../.."

// widths are those of this run: 64 bits, the one with the most beats in a header, in a short one; these, or
// what EPIC_STAGE_WIDTHS lists with commas, in others. `make test` does all there are, in two stages.
func widths(t *testing.T) []int {
	list := "64,512,4096"
	if env := os.Getenv("EPIC_STAGE_WIDTHS"); env != "" {
		list = env
	} else if testing.Short() {
		list = "64"
	}
	var out []int
	for word := range strings.SplitSeq(list, ",") {
		width, err := strconv.Atoi(word)
		require.NoError(t, err, "EPIC_STAGE_WIDTHS=%s: a list like 128,256", list)
		require.True(t, width >= 64 && width <= 4096 && width&(width-1) == 0,
			"EPIC_STAGE_WIDTHS=%s: a width is a power of two, 64..4096", list)
		out = append(out, width)
	}
	return out
}

// paces are idle x back-pressure; the first has neither. Short runs take the first and the fourth.
var paces = []stage.Pace{
	{Seed: 1},
	{Seed: 2, Idle: 400},
	{Seed: 3, Stall: 500, BypassStall: 300},
	{Seed: 4, Idle: 300, Stall: 300, BypassStall: 700},
	{Seed: 5, Idle: 900, Stall: 100},
	{Seed: 6, Idle: 50, Stall: 900},
}

// eachWidth builds the bench of each width and runs the test with it.
func eachWidth(t *testing.T, test func(t *testing.T, width int, bench *stage.Bench)) {
	for _, width := range widths(t) {
		t.Run(fmt.Sprintf("w%d", width), func(t *testing.T) {
			t.Parallel()
			test(t, width, newBench(t, width))
		})
	}
}

func newBench(t *testing.T, width int) *stage.Bench {
	bench, err := stage.NewBench(t.Context(), stage.Source{Root: root, RTL: os.Getenv("EPIC_RTL"), Width: width,
		Out: os.Getenv("EPIC_STAGE_OUT")})
	require.NoError(t, err)
	return bench
}

// pacesOf is those of this run; above 512 bits, where a clock takes long, those of a short one.
func pacesOf(width int) []stage.Pace {
	if testing.Short() || width > 512 {
		return []stage.Pace{paces[0], paces[3]}
	}
	return paces
}

// TestPrims needs one bench only: the primitives have widths of their own in it.
func TestPrims(t *testing.T) {
	bench := newBench(t, widths(t)[0])
	for seed := range uint64(4) {
		assert.NoError(t, bench.Prims(t.Context(), 100_000, seed))
	}
}

// captureSamples are the frames of every capture in testdata.
func captureSamples(t *testing.T) []sample {
	files, err := filepath.Glob(filepath.Join(root, "testdata", "captures", "*", "*.pcap*"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var out []sample
	for _, name := range files {
		f, err := capture.Open(name)
		require.NoError(t, err)
		for n := 0; n < 60; n++ { // the beginning of each: they repeat themselves
			frame, err := f.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			out = append(out, sample{name: fmt.Sprintf("%s #%d", filepath.Base(name), frame.N), bytes: frame.Data})
		}
		require.NoError(t, f.Close())
	}
	return out
}

// samplesOf is every kind of frame, shuffled: what one leaves behind meets any other.
func samplesOf(t *testing.T, r *rand.Rand, width int) []sample {
	var all []sample
	all = append(all, goodSamples(r, width)...)
	all = append(all, cutSamples(r, width)...)
	all = append(all, spoiledSamples(r)...)
	all = append(all, oddSamples(r)...)
	all = append(all, captureSamples(t)...)
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i := range all {
		all[i].mac = r.IntN(40) == 0
	}
	return append(all, smallSamples(r)...) // these back to back
}

// lateVerdicts are those that headers alone do not show.
var lateVerdicts = map[spec.Verdict]bool{
	spec.VerdictMACError: true, spec.VerdictIPLength: true, spec.VerdictIPChecksum: true,
	spec.VerdictUDPChecksum: true, spec.VerdictICRC: true,
}

// headerFields is what inc_parse must say of a packet.
func headerFields(p *roce.Packet, port uint8, beat int) map[string]uint64 {
	info, _ := p.Opcode.Info()
	f := map[string]uint64{
		"port": uint64(port), "dmac": mac(p.DstMAC), "smac": mac(p.SrcMAC), "is_v6": flag(p.IsV6()),
		"tos": uint64(p.TOS), "opcode": uint64(p.Opcode), "se": flag(p.SE), "mig_req": flag(p.MigReq),
		"pkey": uint64(p.PKey), "dqpn": uint64(p.DestQP), "ack_req": flag(p.AckReq), "psn": uint64(p.PSN),
		"is_data": flag(info.Kind == spec.KindData), "is_ack": flag(info.Kind == spec.KindAck),
		"is_cnp":   flag(info.Kind == spec.KindCNP),
		"is_write": flag(p.Opcode >= spec.OpcodeWriteFirst && p.Opcode <= spec.OpcodeWriteOnlyImm),
		"is_first": flag(info.First), "is_last": flag(info.Last), "has_imm": flag(p.HasImm()),
		"plen": uint64(len(p.Payload)), "pay_beats": 0,
	}
	if p.HasImm() {
		f["imm"] = uint64(p.Imm)
	}
	f["has_reth"] = flag(info.RETH)
	if info.RETH {
		f["va"], f["rkey"], f["dma_len"] = p.VA, uint64(p.RKey), uint64(p.DMALength)
	}
	if p.HasAETH() {
		f["syndrome"], f["msn"] = uint64(p.Syndrome), uint64(p.MSN)
	}
	if info.Kind == spec.KindData && len(p.Payload) <= 4096 {
		f["pay_beats"] = uint64((len(p.Payload) + beat - 1) / beat)
	}
	return f
}

func bit(v bool) int { return int(flag(v)) }

func flag(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}

func mac(m roce.MAC) uint64 { return new(big.Int).SetBytes(m[:]).Uint64() }

func address(p *roce.Packet, dst bool) *big.Int {
	a := p.Src
	if dst {
		a = p.Dst
	}
	return new(big.Int).SetBytes(a.AsSlice())
}

// checkParse compares all that came out of inc_parse with golden's reading of each frame.
func checkParse(t *testing.T, width int, samples []sample, rx []stage.RxFrame, out *stage.Output) {
	require.Len(t, out.Headers, len(samples))
	require.Len(t, out.Ends, len(samples))
	beat := width / 8
	payload := out.Payload
	for i, s := range samples {
		packet, bad := roce.Decode(s.bytes)
		want := spec.VerdictOk
		if bad != nil {
			want = bad.Verdict
		}
		if s.mac {
			want = spec.VerdictMACError
		}
		got, header := spec.Verdict(out.Ends[i].Verdict), out.Headers[i].Fields
		require.Equal(t, want, got, "%s: final verdict (golden: %v)\n%x", s.name, bad, s.bytes)
		early := spec.Verdict(header["verdict"].Uint64())
		if bad == nil {
			require.Equal(t, spec.VerdictOk, early, "%s: header verdict", s.name)
		}
		if early == spec.VerdictOk {
			require.True(t, want == spec.VerdictOk || lateVerdicts[want], "%s: header verdict ok, final %v", s.name, want)
		}

		// What the headers say is handed on for every frame whose headers are good, however it ends.
		whole := s.bytes
		if s.whole != nil {
			whole = s.whole
		}
		if bad == nil || early == spec.VerdictOk && (s.whole != nil || bad.Verdict != spec.VerdictIPLength) {
			d := roce.Dissect(whole)
			if bad == nil {
				d.Packet = *packet
			}
			require.GreaterOrEqual(t, d.PayloadLen, 0, s.name)
			for name, value := range headerFields(&d.Packet, rx[i].Port, beat) {
				require.Equal(t, value, header[name].Uint64(), "%s: %s", s.name, name)
			}
			require.Equal(t, d.Packet.DestQP, out.Headers[i].Early, "%s: QPN the clock before", s.name)
			require.Zero(t, address(&d.Packet, false).Cmp(header["sip"]), "%s: sip", s.name)
			require.Zero(t, address(&d.Packet, true).Cmp(header["dip"]), "%s: dip", s.name)
			// The payload as far as it came, then zeros.
			expected := make([]byte, int(header["pay_beats"].Uint64())*beat)
			if len(expected) > 0 {
				start := placeOf(whole).l4 + 20
				info, _ := d.Packet.Opcode.Info()
				start += info.HeaderBytes()
				copy(expected, whole[start:start+len(d.Packet.Payload)])
				if cut := len(s.bytes) - start; cut < len(expected) {
					clear(expected[max(0, cut):])
				}
			}
			for n := 0; n < len(expected)/beat; n++ {
				require.NotEmpty(t, payload, "%s: payload beat %d", s.name, n)
				require.Equal(t, expected[n*beat:(n+1)*beat], payload[0].Data, "%s: payload beat %d", s.name, n)
				require.Equal(t, (n+1)*beat == len(expected), payload[0].Last, "%s: last mark of payload beat %d", s.name, n)
				payload = payload[1:]
			}
			continue
		}
		for n := header["pay_beats"].Uint64(); n > 0; n-- { // bad, but only its end shows it
			require.NotEmpty(t, payload, s.name)
			require.Equal(t, n == 1, payload[0].Last, s.name)
			payload = payload[1:]
		}
		if early != spec.VerdictOk {
			require.Zero(t, header["pay_beats"].Uint64(), "%s: payload of a frame with header verdict %v", s.name, early)
		}
	}
	require.Empty(t, payload, "payload beats of no frame")
}

func TestParse(t *testing.T) {
	eachWidth(t, func(t *testing.T, width int, bench *stage.Bench) {
		for _, pace := range pacesOf(width) {
			t.Run(pace.String(), func(t *testing.T) {
				r := rand.New(rand.NewPCG(pace.Seed, uint64(width)))
				samples := samplesOf(t, r, width)
				verdicts := map[spec.Verdict]int{}
				rx := make([]stage.RxFrame, len(samples))
				for i, s := range samples {
					rx[i] = stage.RxFrame{Port: uint8(r.Uint32()), MACError: s.mac, Bytes: s.bytes}
					if _, bad := roce.Decode(s.bytes); bad != nil {
						verdicts[bad.Verdict]++
					}
				}
				for v := spec.VerdictNotRoCE; v <= spec.VerdictICRC; v++ {
					require.NotZero(t, verdicts[v], "no frame has verdict %v", v)
				}
				out, err := bench.Frames(t.Context(), t.TempDir(), pace, rx, nil)
				require.NoError(t, err)
				checkParse(t, width, samples, rx, out)
			})
		}
	})
}

// txHeader is the txhdr_t that asks for the packet.
func txHeader(p *roce.Packet, port uint8) stage.Struct {
	n := func(v uint64) *big.Int { return new(big.Int).SetUint64(v) }
	s := stage.Struct{
		"port": n(uint64(port)), "dmac": n(mac(p.DstMAC)), "smac": n(mac(p.SrcMAC)), "is_v6": n(flag(p.IsV6())),
		"sip": address(p, false), "dip": address(p, true), "tos": n(uint64(p.TOS)), "ttl": n(uint64(p.TTL)),
		"udp_sport": n(uint64(p.SrcPort)), "opcode": n(uint64(p.Opcode)), "se": n(flag(p.SE)), "mig_req": n(flag(p.MigReq)),
		"pkey": n(uint64(p.PKey)), "dqpn": n(uint64(p.DestQP)), "ack_req": n(flag(p.AckReq)), "psn": n(uint64(p.PSN)),
		"has_imm": n(flag(p.HasImm())), "has_aeth": n(flag(p.HasAETH())), "plen": n(uint64(len(p.Payload))),
		"imm": n(uint64(p.Imm)), "syndrome": n(uint64(p.Syndrome)), "msn": n(uint64(p.MSN)),
		"va": n(p.VA), "rkey": n(uint64(p.RKey)), "dma_len": n(uint64(p.DMALength)),
	}
	info, _ := p.Opcode.Info()
	s["has_reth"] = n(flag(info.RETH))
	if info.Kind == spec.KindCNP { // its body is no payload
		s["is_cnp"], s["plen"] = n(1), n(0)
	}
	if len(p.VLAN) > 0 {
		s["vlan_valid"], s["vlan_tci"] = n(1), n(uint64(p.VLAN[0].TCI))
	}
	return s
}

// sendable makes of a packet what inc_deparse writes: at most one tag, the fields it has no input for fixed.
func sendable(p *roce.Packet) *roce.Packet {
	p.IPID, p.DF, p.FlowLabel = 0, true, 0
	p.FECN, p.BECN, p.Resv6, p.Resv7 = false, false, 0, 0
	if len(p.VLAN) > 1 {
		p.VLAN = p.VLAN[:1]
	}
	for i := range p.VLAN {
		p.VLAN[i].TPID = spec.EtherTypeVLAN
	}
	if p.Opcode == spec.OpcodeCNP {
		clear(p.Payload)
	}
	return p
}

// txFrame is the frame that inc_deparse is to send the packet in.
func txFrame(p *roce.Packet, port uint8) stage.TxFrame {
	f := stage.TxFrame{Header: txHeader(p, port), Payload: p.Payload}
	if p.Opcode == spec.OpcodeCNP {
		f.Payload = nil
	}
	return f
}

// late makes the frame's end wait for the word that says whether it is right.
func late(f stage.TxFrame, poison bool, wait int) stage.TxFrame {
	f.Header["late"] = big.NewInt(1)
	f.Late, f.Poison, f.EndWait = true, poison, wait
	return f
}

// packetsToSend are packets of every opcode, IP version, tag, and alignment of the end.
func packetsToSend(r *rand.Rand, width int) []*roce.Packet {
	beat := width / 8
	var out []*roce.Packet
	for _, opcode := range opcodes {
		for n := range 2*beat + 10 {
			if width > 512 && n%7 != 0 && n > 16 && n < 2*beat-100 { // the rest is much the same
				continue
			}
			out = append(out, sendable(randomPacket(r, opcode, r.IntN(2) == 0, r.IntN(2), n)))
		}
		for range 4 {
			out = append(out, sendable(randomPacket(r, opcode, r.IntN(2) == 0, r.IntN(2), 256<<r.IntN(5)-r.IntN(2))))
		}
	}
	// IPv4 headers whose words add up to 0xffff and a carry and a bit more: folding carries once more.
	for _, opcode := range []spec.Opcode{spec.OpcodeSendOnly, spec.OpcodeAcknowledge} {
		for low := range uint32(24) {
			p := sendable(randomPacket(r, opcode, false, int(low&1), 0))
			p.Src, p.Dst = netip.AddrFrom4([4]byte{0xff, 0xff}), netip.AddrFrom4([4]byte{})
			f := p.Encode()
			l3 := placeOf(f).l3
			f[l3+10], f[l3+11] = 0, 0
			rest := uint32(0)
			for i := l3; i < l3+20; i += 2 {
				rest += uint32(f[i])<<8 | uint32(f[i+1])
			}
			// rest + last word = 0x1fff4 + low: low half and carries together pass 0xffff, or just do not.
			word := (0xfff4 + low - rest) & 0xffff
			p.Dst = netip.AddrFrom4([4]byte{0, 0, byte(word >> 8), byte(word)})
			out = append(out, p)
		}
	}
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func TestDeparse(t *testing.T) {
	eachWidth(t, func(t *testing.T, width int, bench *stage.Bench) {
		for _, pace := range pacesOf(width) {
			t.Run(pace.String(), func(t *testing.T) {
				r := rand.New(rand.NewPCG(pace.Seed, uint64(width)+1))
				packets := packetsToSend(r, width)
				tx := make([]stage.TxFrame, len(packets))
				poisoned := 0
				for i, p := range packets {
					tx[i] = txFrame(p, uint8(i))
					if r.IntN(3) == 0 {
						tx[i] = late(tx[i], r.IntN(3) == 0, r.IntN(2)*r.IntN(40))
						poisoned += bit(tx[i].Poison)
					}
				}
				require.NotZero(t, poisoned)
				out, err := bench.Frames(t.Context(), t.TempDir(), pace, nil, tx)
				require.NoError(t, err)
				require.Len(t, out.Sent, len(packets))
				for i, p := range packets {
					want := p.Encode()
					if tx[i].Poison { // all of it right, but for the ICRC
						for n := len(want) - roce.ICRCSize; n < len(want); n++ {
							want[n] = ^want[n]
						}
					}
					if diff := roce.Diff(out.Sent[i].Bytes, want); diff != "" {
						require.Equal(t, want, out.Sent[i].Bytes, "frame %d, %v payload %d: %s", i, p.Opcode, len(p.Payload), diff)
					}
					require.Equal(t, uint8(i), out.Sent[i].Port)
					require.Equal(t, tx[i].Poison, out.Sent[i].User, "frame %d: tuser", i)
				}
			})
		}
	})
}

// TestLoop feeds what inc_parse says of golden's frames to inc_deparse: the same frames come out.
func TestLoop(t *testing.T) {
	eachWidth(t, func(t *testing.T, width int, bench *stage.Bench) {
		r := rand.New(rand.NewPCG(7, uint64(width)))
		packets := packetsToSend(r, width)
		rx := make([]stage.RxFrame, len(packets))
		for i, p := range packets {
			rx[i] = stage.RxFrame{Port: uint8(i), Bytes: p.Encode()}
		}
		parsed, err := bench.Frames(t.Context(), t.TempDir(), stage.Pace{Seed: 7, Idle: 100, Stall: 100}, rx, nil)
		require.NoError(t, err)
		require.Len(t, parsed.Headers, len(packets))
		tx := make([]stage.TxFrame, len(packets))
		payload := parsed.Payload
		for i, p := range packets {
			h := stage.Struct{}
			for _, f := range bench.Tx {
				if v, ok := parsed.Headers[i].Fields[f.Name]; ok {
					h[f.Name] = v
				}
			}
			// The parser does not hand these on.
			for _, name := range []string{"vlan_valid", "vlan_tci", "ttl", "udp_sport"} {
				if v := txHeader(p, 0)[name]; v != nil {
					h[name] = v
				}
			}
			h["has_aeth"] = parsed.Headers[i].Fields["is_ack"]
			for range parsed.Headers[i].Fields["pay_beats"].Uint64() {
				tx[i].Payload = append(tx[i].Payload, payload[0].Data...)
				payload = payload[1:]
			}
			if p.Opcode == spec.OpcodeCNP { // its body is a payload length to the parser
				h["plen"] = new(big.Int)
			}
			tx[i].Header = h
		}
		require.Empty(t, payload)
		sent, err := bench.Frames(t.Context(), t.TempDir(), stage.Pace{Seed: 8, Idle: 100, Stall: 100}, nil, tx)
		require.NoError(t, err)
		require.Len(t, sent.Sent, len(packets))
		for i := range packets {
			require.Equal(t, rx[i].Bytes, sent.Sent[i].Bytes, "frame %d", i)
			require.Equal(t, rx[i].Port, sent.Sent[i].Port)
		}
	})
}

// TestBypass decides at random which frames are handed on: they come whole, in order, and no other.
func TestBypass(t *testing.T) {
	eachWidth(t, func(t *testing.T, width int, bench *stage.Bench) {
		for _, pace := range append(pacesOf(width), stage.Pace{Seed: 9, BypassStall: 990}) {
			t.Run(pace.String(), func(t *testing.T) {
				r := rand.New(rand.NewPCG(pace.Seed, 11))
				var rx []stage.RxFrame
				for range 1500 {
					n := 1 + r.IntN(300)
					if r.IntN(20) == 0 {
						n = 1 + r.IntN(9728)
					}
					rx = append(rx, stage.RxFrame{Port: uint8(r.Uint32()), Bypass: r.IntN(3) > 0, Bytes: randomBytes(r, n)})
				}
				out, err := bench.Frames(t.Context(), t.TempDir(), pace, rx, nil)
				require.NoError(t, err)
				require.Len(t, out.Decided, len(rx))
				got := out.Bypassed
				lost := 0
				for i, f := range rx {
					if !f.Bypass {
						continue
					}
					if !out.Decided[i].Fits {
						lost++
						continue
					}
					require.NotEmpty(t, got, "frame %d", i)
					require.Equal(t, f.Bytes, got[0].Bytes, "frame %d", i)
					require.Equal(t, f.Port, got[0].Port, "frame %d", i)
					got = got[1:]
				}
				require.Empty(t, got, "frames nobody asked for")
				if pace.BypassStall == 0 {
					require.Zero(t, lost, "frames that did not fit though the output never waited")
				}
			})
		}
	})
}

// TestBypassBlocked: an output that is never ready fills, and then frames do not fit; the input goes on at
// the rate of its beats.
func TestBypassBlocked(t *testing.T) {
	eachWidth(t, func(t *testing.T, width int, bench *stage.Bench) {
		r := rand.New(rand.NewPCG(1, 1))
		beat := width / 8
		var rx []stage.RxFrame
		beats := 0
		for range 400 {
			n := 1 + r.IntN(1500)
			beats += (n + beat - 1) / beat
			rx = append(rx, stage.RxFrame{Bypass: true, Bytes: randomBytes(r, n)})
		}
		out, err := bench.Frames(t.Context(), t.TempDir(), stage.Pace{Seed: 1, BypassStall: 1000}, rx, nil)
		require.NoError(t, err)
		require.Empty(t, out.Bypassed)
		require.Len(t, out.Decided, len(rx))
		room := 16384 / beat // beats of the output memory
		for i, f := range rx {
			n := (len(f.Bytes) + beat - 1) / beat
			require.Equal(t, n <= room, out.Decided[i].Fits, "frame %d of %d beats, room %d", i, n, room)
			if n <= room {
				room -= n
			}
		}
		last := out.Taken[len(rx)-1].Last
		require.EqualValues(t, beats-1, last-out.Taken[0].First, "clocks to take all beats")
	})
}

// TestBypassLong: a frame longer than the ring neither stops the input nor is handed on.
func TestBypassLong(t *testing.T) {
	eachWidth(t, func(t *testing.T, width int, bench *stage.Bench) {
		r := rand.New(rand.NewPCG(2, 1))
		var rx []stage.RxFrame
		for i := range 40 {
			n := 100
			if i%4 == 1 {
				n = []int{9728, 9729, 16384, 60000}[i/4%4]
			}
			rx = append(rx, stage.RxFrame{Bypass: true, Bytes: randomBytes(r, n)})
		}
		out, err := bench.Frames(t.Context(), t.TempDir(), stage.Pace{Seed: 3, Idle: 50}, rx, nil)
		require.NoError(t, err)
		require.Len(t, out.Decided, len(rx))
		got := out.Bypassed
		for i, f := range rx {
			require.Equal(t, len(f.Bytes) <= 9728, out.Decided[i].Fits, "frame %d of %d bytes", i, len(f.Bytes))
			if out.Decided[i].Fits {
				require.Equal(t, f.Bytes, got[0].Bytes, "frame %d", i)
				got = got[1:]
			}
		}
		require.Empty(t, got)
	})
}

// TestFullRate: one beat per clock in and out, frames back to back, whatever their length and order.
func TestFullRate(t *testing.T) {
	type kind struct {
		opcode  spec.Opcode
		payload int
		tags    int
		v6      bool
		late    bool
	}
	eachWidth(t, func(t *testing.T, width int, bench *stage.Bench) {
		beat := width / 8
		ack := kind{opcode: spec.OpcodeAcknowledge}
		for _, stream := range []struct {
			name  string
			kinds []kind // in turn
		}{
			{"ACK", []kind{ack}},
			{"ACK IPv6", []kind{{opcode: spec.OpcodeAcknowledge, v6: true}}},
			{"one beat", []kind{{opcode: spec.OpcodeSendOnly, payload: beat}}},
			{"four bytes", []kind{{opcode: spec.OpcodeSendOnly, payload: 4}}},
			{"1 KB", []kind{{opcode: spec.OpcodeSendMiddle, payload: 1024}}},
			{"IPv6 and tag", []kind{{opcode: spec.OpcodeSendOnlyImm, payload: 777, tags: 1, v6: true}}},
			{"WRITE", []kind{{opcode: spec.OpcodeWriteOnlyImm, payload: 256}}},
			{"ACK and 256 B", []kind{ack, {opcode: spec.OpcodeSendOnly, payload: 256}}},
			{"ACK and 8 beats", []kind{ack, {opcode: spec.OpcodeSendOnly, payload: min(8*beat, 4096)}}},
			{"ACK and 1 KB", []kind{ack, {opcode: spec.OpcodeSendMiddle, payload: 1024}}},
			{"ACKs and four bytes", []kind{ack, ack, {opcode: spec.OpcodeSendOnly, payload: 4}}},
			{"CNP, WRITE, ACK", []kind{{opcode: spec.OpcodeCNP}, {opcode: spec.OpcodeWriteFirst, payload: 256}, ack}},
			{"late 1 KB and ACK", []kind{{opcode: spec.OpcodeSendMiddle, payload: 1024, late: true}, ack}},
		} {
			t.Run(stream.name, func(t *testing.T) {
				r := rand.New(rand.NewPCG(4, 4))
				var rx []stage.RxFrame
				var tx []stage.TxFrame
				beats := 0
				for n := 0; n < 300 || beats < 1000; n++ {
					k := stream.kinds[n%len(stream.kinds)]
					p := sendable(randomPacket(r, k.opcode, k.v6, k.tags, k.payload))
					f := p.Encode()
					beats += (len(f) + beat - 1) / beat
					rx = append(rx, stage.RxFrame{Bytes: f})
					x := txFrame(p, 0)
					if k.late {
						x = late(x, false, 0)
					}
					tx = append(tx, x)
				}
				out, err := bench.Frames(t.Context(), t.TempDir(), stage.Pace{Seed: 1}, rx, tx)
				require.NoError(t, err)
				assert.EqualValues(t, beats, 1+out.Taken[len(rx)-1].Last-out.Taken[0].First, "clocks to take all beats")
				sent := int(1 + out.Sent[len(tx)-1].Last - out.Sent[0].First)
				// The first frame that waits for its ICRC makes the only gap.
				assert.LessOrEqual(t, sent, beats+icrcClocks(width), "clocks to send all beats")
				assert.Greater(t, float64(beats)/float64(sent), 0.99, "beats sent per clock")
				for _, e := range out.Ends {
					require.Zero(t, e.Verdict)
				}
			})
		}
	})
}

// icrcClocks is how much later than without it a beat leaves that holds bytes of the ICRC.
func icrcClocks(width int) int {
	return 4 + bits.Len(uint(width/32))/2 // 4 + ceil(log2(units of a beat) / 2)
}

// TestParseLatency holds the clocks that the header comment states.
func TestParseLatency(t *testing.T) {
	eachWidth(t, func(t *testing.T, width int, bench *stage.Bench) {
		beat := width / 8
		for _, payload := range []int{0, 4, beat, 256, 1024} {
			t.Run(fmt.Sprintf("payload %d", payload), func(t *testing.T) {
				r := rand.New(rand.NewPCG(5, 5))
				f := randomPacket(r, spec.OpcodeSendOnly, false, 0, payload).Encode()
				out, err := bench.Frames(t.Context(), t.TempDir(), stage.Pace{Seed: 1}, []stage.RxFrame{{Bytes: f}}, nil)
				require.NoError(t, err)
				first, last := out.Taken[0].First, out.Taken[0].Last
				assert.EqualValues(t, 2, out.Headers[0].Clock-first-uint64(53/beat), "end of headers to m_hdr")
				assert.EqualValues(t, 7, out.Ends[0].Clock-last, "last beat to m_eof")
				for i, b := range out.Payload {
					from := uint64(54/beat + i) // beat in which it starts
					if second := first + from + 1; second <= last {
						assert.EqualValues(t, 3, b.Clock-second, "second beat to payload beat %d", i)
					} else {
						assert.EqualValues(t, 4, b.Clock-last, "last beat to payload beat %d", i)
					}
				}
			})
		}
	})
}

// TestDeparseLatency holds the clocks that the header comment states.
func TestDeparseLatency(t *testing.T) {
	eachWidth(t, func(t *testing.T, width int, bench *stage.Bench) {
		beat := width / 8
		for _, payload := range []int{0, 4, beat, 256, 1024} {
			for _, wait := range []int{0, 1, 2, 10} {
				for _, end := range []int{-1, 0, 400} { // clocks that the word of s_end waits
					t.Run(fmt.Sprintf("payload %d wait %d end %d", payload, wait, end), func(t *testing.T) {
						r := rand.New(rand.NewPCG(5, 5))
						p := sendable(randomPacket(r, spec.OpcodeSendOnly, false, 0, payload))
						f := p.Encode()
						x := txFrame(p, 0)
						x.Wait = wait
						if end >= 0 {
							x = late(x, true, end)
						}
						out, err := bench.Frames(t.Context(), t.TempDir(), stage.Pace{Seed: 1}, nil, []stage.TxFrame{x})
						require.NoError(t, err)
						start, sent := out.Started[0], out.Sent[0]
						goes := start.Offered + 1 // the first beat does, if nothing is missing
						inFirst := payload > 0 && 54 < beat
						if inFirst {
							goes = max(goes, start.Payload)
						}
						beats := uint64((len(f) + beat - 1) / beat)
						icrcFirst := len(f)-roce.ICRCSize < beat
						if !icrcFirst {
							assert.Equal(t, goes+1, sent.First, "the first beat leaves")
						}
						if end < 400 {
							if inFirst || wait <= 2 { // else it waits in its middle
								assert.Equal(t, goes+beats+uint64(icrcClocks(width)), sent.Last, "the last beat leaves")
							}
						} else {
							split := (len(f)-1)/beat - (len(f)-roce.ICRCSize)/beat // beats behind that in which the ICRC starts
							assert.Equal(t, start.End+2+uint64(split), sent.Last, "the last beat leaves behind its s_end")
						}
					})
				}
			}
		}
	})
}
