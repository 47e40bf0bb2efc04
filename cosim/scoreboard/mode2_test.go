package scoreboard_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/cosim/scoreboard"
	"github.com/epic-inc/epic/cosim/server"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// config2 is a Mode-II engine: the AllReduce root of r0, r1 and r2; a Reduce of r3 and r4 to r5; a Broadcast of r6
// to r7 and r8, with RDMA WRITE; and an AllReduce of r9 and r10 that opens with a control signal.
func config2() engine.Config {
	cfg := engine.Config{Name: "test2", Blocks: 64}
	pipe := func(name string, rule spec.AckRule, ins, outs []int) *engine.Pipe {
		p := len(cfg.Pipes)
		cfg.Pipes = append(cfg.Pipes, engine.Pipe{Name: name, Mode: 2, N: slots, MTU: mtu, PSN0: psn0, Ins: ins, Outs: outs,
			AckRule: rule, Base: p * slots})
		for n, i := range ins {
			cfg.Endpoints[i].InPipe, cfg.Endpoints[i].InIndex = p, n
		}
		for _, i := range outs {
			cfg.Endpoints[i].OutPipe = p
		}
		return &cfg.Pipes[p]
	}
	for i := range 11 {
		cfg.Endpoints = append(cfg.Endpoints, engine.Endpoint{
			Name: fmt.Sprint("r", i), Port: i + 1, MAC: mac(0x99), PeerMAC: mac(byte(i)), IP: ip(99), PeerIP: ip(byte(i)),
			QPN: uint32(0x105 + 3*i), PeerQPN: uint32(0x11 + i), PKey: 0xffff, UDPSport: 49999, TTL: 64, PSN0: psn0,
			InPipe: engine.None, OutPipe: engine.None, Leaf: true,
		})
	}
	pipe("all", spec.AckRuleReflect, []int{0, 1, 2}, []int{0, 1, 2})
	pipe("reduce", spec.AckRuleReplicate, []int{3, 4}, []int{5})
	pipe("broadcast", spec.AckRuleMinimum, []int{6}, []int{7, 8})
	for i := range uint64(3) {
		cfg.Endpoints[6+i].Rewrite = &engine.Rewrite{InVA: 0x1000 * i, OutVA: 0x70000 * i, RKey: uint32(77 + i)}
	}
	pipe("opened", spec.AckRuleReflect, []int{9, 10}, []int{9, 10}).Unpinned = true
	return cfg
}

// run2 is a Mode-II run with every cause and every verdict of its own in it.
func run2(t *testing.T) *device {
	t.Helper()
	d := newDevice(t, config2())
	send := func(i int, n psn.PSN, op spec.Opcode, change ...func(*roce.Packet)) {
		p := packet(i, op, at(n))
		p.Payload = binary.LittleEndian.AppendUint32(nil, uint32(1000*i)+uint32(n))
		for _, f := range change {
			f(p)
		}
		d.frame(i+1, p.Encode(), false)
	}
	data := func(i int, n psn.PSN) { send(i, n, spec.OpcodeSendOnly) }
	answer := func(i int, syndrome uint8, n psn.PSN) {
		send(i, n, spec.OpcodeAcknowledge, func(p *roce.Packet) { p.Syndrome, p.MSN, p.Payload = syndrome, uint32(n), nil })
	}
	cnp := func(i int) {
		send(i, 0, spec.OpcodeCNP, func(p *roce.Packet) { p.Payload = make([]byte, roce.CNPBodySize) })
	}
	refused := func(p *roce.Packet) { d.receive(int(p.SrcMAC[5])+1, p.Encode(), false, true) }

	// AllReduce: results, a replay to one, stale data; ACKs come back.
	for n := range psn.PSN(3) {
		for i := range 3 {
			data(i, n)
			answer(i, spec.SyndromeAck, n)
		}
	}
	data(1, 2)
	data(0, 9)
	data(0, 3)
	data(0, 3) // a duplicate of what is not complete
	refused(packet(2, spec.OpcodeSendOnly, at(2)))
	answer(2, spec.SyndromeNakSequence, 3)
	ack := packet(2, spec.OpcodeAcknowledge, at(3))
	ack.Syndrome = spec.SyndromeAck
	refused(ack)
	cnp(1)
	mine := packet(1, spec.OpcodeCNP, 0)
	mine.Payload = make([]byte, roce.CNPBodySize)
	refused(mine)
	// Reduce: what leaves is held while more is decided on.
	d.hold = true
	data(3, 0)
	data(4, 0)
	answer(5, spec.SyndromeAck, 0)
	data(3, 1)
	data(4, 1)
	cnp(5)
	d.hold = false
	d.settle()
	// Broadcast of WRITEs; r7 loses one.
	write := func(va uint64) func(*roce.Packet) {
		return func(p *roce.Packet) { p.VA, p.DMALength = va, 4 }
	}
	send(6, 0, spec.OpcodeWriteOnly, write(0x40))
	answer(7, spec.SyndromeAck, 0)
	answer(8, spec.SyndromeAck, 0)
	answer(8, spec.SyndromeRNR|3, 1)
	answer(7, spec.SyndromeAck, 200)
	answer(7, spec.SyndromeNakOperation, 1)
	// A control signal opens a window of two; the third is beyond it.
	signal := roce.Control{Type: spec.CollTypeAllreduce, Op: spec.OpMax, DType: spec.DTypeFloat32, Bytes: 2 * mtu}
	for i := 9; i < 11; i++ {
		send(i, 0, spec.OpcodeSendOnlyImm, func(p *roce.Packet) { p.Imm, p.Payload = signal.Imm(), signal.Payload() })
	}
	data(9, 1)
	data(9, 4)
	data(10, 1)
	send(9, 2, spec.OpcodeSendOnly, func(p *roce.Packet) { p.Payload = []byte{1, 2} }) // half an element
	// The pipe is quiesced, and then goes wrong.
	d.step(engine.Event{Cause: spec.CauseTableWrite, Endpoint: engine.None, Pipe: 1, Quiesce: true}, nil)
	d.step(engine.Event{Cause: spec.CauseTableWrite, Endpoint: engine.None, Pipe: 0, Quiesce: true}, nil)
	d.step(engine.Event{Cause: spec.CauseTableWrite, Endpoint: engine.None, Pipe: 0, Unquiesce: true}, nil)
	send(1, 3, spec.OpcodeSendOnly, func(p *roce.Packet) { p.Payload = nil })
	data(2, 3)
	answer(2, spec.SyndromeAck, 2)
	cnp(0)

	d.counted = map[spec.Counter]uint64{
		spec.CounterReplay: 1, spec.CounterWindowOpen: 1, spec.CounterRxRNR: 1, spec.CounterRxNak: 2, spec.CounterPipeError: 1,
	}
	d.pipes = map[int]spec.PipeState{0: {Incomplete: 1}, 1: {Quiesced: true}, 3: {Op: spec.OpMax, DType: spec.DTypeFloat32}}
	return d
}

func TestRight2(t *testing.T) {
	d := run2(t)
	s, err := check(t, d)
	require.NoError(t, err)
	require.NoError(t, s.Finish(t.Context(), registersOf(d)))
	st := s.Stats()
	assert.EqualValues(t, len(d.driven), st.FramesIn)
	assert.EqualValues(t, len(d.out.Frames), st.FramesOut)

	seen := map[string]bool{}
	for _, r := range d.out.Records {
		seen[fmt.Sprint(r.Cause, " ", r.Verdict)] = true
	}
	for _, want := range []string{"data ok", "data stale", "data duplicate", "data mismatch", "data no_window", "data tx_full",
		"data pipe_error", "data payload_length", "ack ok", "ack ack_stale", "ack tx_full", "ack pipe_error", "nak ok", "cnp ok",
		"cnp tx_full", "cnp pipe_error", "forward ok", "table_write ok"} {
		assert.True(t, seen[want], "the run has no %s", want)
	}
	require.Len(t, s.Latency(), 3+2+1+2, "of each result, whatever left first")
}

func TestDoctored2(t *testing.T) {
	d := run2(t)
	assert.Greater(t, doctorRecords(t, d), 18)
	doctorFrames(t, d)
	doctorRegisters(t, d)
}

func TestOrder2(t *testing.T) { disorder(t, run2(t)) }

// What only a Mode-II engine can do wrong.
func TestForwards(t *testing.T) {
	d := run2(t)
	find := func(what func(r *spec.Record) bool) int {
		n := slices.IndexFunc(d.out.Records, func(r spec.Record) bool { return what(&r) })
		require.GreaterOrEqual(t, n, 0)
		return n
	}
	forward := find(func(r *spec.Record) bool { return r.Cause == spec.CauseForward })
	drop := find(func(r *spec.Record) bool { return r.Cause == spec.CauseData && r.Verdict == spec.VerdictStale })
	start := find(func(r *spec.Record) bool { return r.Cause == spec.CauseData && r.Degree == 1 })
	nak := find(func(r *spec.Record) bool { return r.Cause == spec.CauseNak })
	for name, tc := range map[string]struct {
		doctor func(r []spec.Record) []spec.Record
		want   string
	}{
		"to another out":   {func(r []spec.Record) []spec.Record { r[forward].Endpoint = entryOf(1); return r }, "endpoint is"},
		"to a stranger":    {func(r []spec.Record) []spec.Record { r[forward].Endpoint = 63; return r }, "endpoint is 63"},
		"of another psn":   {func(r []spec.Record) []spec.Record { r[forward].PSN++; return r }, "psn is"},
		"of another pipe":  {func(r []spec.Record) []spec.Record { r[forward].PipeID++; return r }, "pipe_id is"},
		"as another frame": {func(r []spec.Record) []spec.Record { r[forward].Frame++; return r }, "frame is"},
		"left out":         {func(r []spec.Record) []spec.Record { return slices.Delete(r, forward, forward+1) }, ""},
		"twice":            {func(r []spec.Record) []spec.Record { return slices.Insert(r, forward, r[forward]) }, ""},
		"before the next": {func(r []spec.Record) []spec.Record {
			r[forward].Endpoint, r[forward+1].Endpoint = r[forward+1].Endpoint, r[forward].Endpoint
			return r
		}, "endpoint is"},
		"refused, but nothing would leave": {func(r []spec.Record) []spec.Record {
			r[drop].Verdict = spec.VerdictTxFull
			return r
		}, "would be data stale"},
		"refused, but it only starts": {func(r []spec.Record) []spec.Record {
			r[start].Verdict = spec.VerdictTxFull
			return r
		}, "would be data ok"},
		"refused, and yet it counts": {func(r []spec.Record) []spec.Record {
			r[nak].Verdict = spec.VerdictTxFull
			return r
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bad := clone(d)
			bad.out.Records = tc.doctor(bad.out.Records)
			err := finish(t, bad, registersOf(d))
			var diff *scoreboard.Difference
			require.ErrorAs(t, err, &diff)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// A frame may be refused because its slot is being read, for as long as that slot's latest frame is leaving.
func TestRefusedWhileReading(t *testing.T) {
	d := newDevice(t, config2())
	data := func(i int, n psn.PSN) []byte {
		p := packet(i, spec.OpcodeSendOnly, at(n))
		p.Payload = make([]byte, 4)
		return p.Encode()
	}
	take := func(i int, n psn.PSN) { d.frame(i+1, data(i, n), false) }
	for n := range psn.PSN(4) {
		for i := range 3 {
			take(i, n)
		}
	}
	take(1, 0) // C is 4, and 0 is replayed
	replay := len(d.out.Frames) - 1
	for i := range 3 {
		take(i, 4)
	}
	d.receive(1, data(0, 8), false, true) // takes the slot of 0
	refused := d.out.Records[len(d.out.Records)-1].Clock
	take(0, 8)
	for last, want := range map[uint64]string{
		refused:     "",
		refused - 1: fmt.Sprintf("verdict is tx_full, want ok: frame %d, the latest of the slot, left by clock %d", replay, refused-1),
	} {
		c := clone(d)
		c.out.Frames[replay].Last = last
		_, err := check(t, c)
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
		// Also if the frame is seen long after.
		s, err := scoreboard.New(scoreboard.Config{Engine: c.cfg, Entries: entries, TickClocks: tickClocks})
		require.NoError(t, err)
		for _, f := range c.driven {
			s.Drive(f.Clock, f.Port, f.Bytes, f.Error)
		}
		w := c.out
		frames := w.Frames
		w.Frames = nil
		require.NoError(t, s.Window(&w))
		require.ErrorContains(t, s.Window(&server.Window{Clock: w.Clock, Frames: frames}), want)
	}
}

// Entries of the lists leave records too.
func TestListWrites(t *testing.T) {
	d := run2(t)
	n := slices.IndexFunc(d.out.Records, func(r spec.Record) bool { return r.Cause == spec.CauseTableWrite && r.Groups == 0 })
	require.Positive(t, n)
	d.out.Records[n].Slot = uint32(spec.TableInList) // either
	right := registersOf(d)
	require.NoError(t, finish(t, d, right))
	bad := *right
	bad.counters[spec.CounterTableWrite]++
	require.ErrorContains(t, finish(t, d, &bad), "counter: table_write is")
	for field, change := range map[string]func(r *spec.Record){
		"slot":     func(r *spec.Record) { r.Slot = uint32(spec.TableEpRx) },
		"endpoint": func(r *spec.Record) { r.Endpoint = 63 },
		"pipe_id":  func(r *spec.Record) { r.PipeID = 1 },
		"verdict":  func(r *spec.Record) { r.Verdict = spec.VerdictStale },
	} {
		wrong := clone(d)
		change(&wrong.out.Records[n])
		_, err := check(t, wrong)
		require.ErrorContains(t, err, field+" is")
	}
}

// A result that began to leave before its last contribution turned out bad ends with its ICRC inverted, and nothing
// else comes of it.
func TestPoisoned(t *testing.T) {
	spoil := map[string]func(b []byte) ([]byte, bool){
		"icrc":    func(b []byte) ([]byte, bool) { b[len(b)-1] ^= 1; return b, false },
		"mac":     func(b []byte) ([]byte, bool) { return b, true },
		"cut off": func(b []byte) ([]byte, bool) { return b[:len(b)-10], true }, // zeros in place of it, which it held
	}
	for name, f := range spoil {
		for mode, cfg := range map[int]engine.Config{2: config2(), 3: config()} {
			t.Run(fmt.Sprintf("%s mode %d", name, mode), func(t *testing.T) {
				d := newDevice(t, cfg)
				var last *roce.Packet
				var lastBytes []byte
				for i := range 3 {
					last = packet(i, spec.OpcodeSendOnly, at(0))
					last.Payload = make([]byte, mtu)
					last.Payload[5] = byte(1 + i)
					lastBytes = last.Encode()
					if i < 2 {
						d.frame(i+1, lastBytes, false)
					}
				}
				bad, macError := f(slices.Clone(lastBytes))
				d.frame(3, bad, macError)
				cause := map[int]spec.Cause{2: spec.CauseForward, 3: spec.CauseSend}[mode]
				ev := engine.Event{Cause: cause, Verdict: spec.VerdictPoisoned, Endpoint: 1, Port: 3, Packet: last}
				require.NoError(t, d.golden.Legal(ev))
				n := len(d.out.Records)
				d.step(ev, nil)
				// The sum, by hand: 1 + 2 + 3.
				left := d.out.Frames[len(d.out.Frames)-1]
				require.EqualValues(t, 1, left.Error)
				pkt, wrong := roce.Decode(left.Bytes)
				require.Nil(t, pkt)
				require.Equal(t, spec.VerdictICRC, wrong.Verdict)
				require.EqualValues(t, 6, left.Bytes[14+20+8+12+5])
				d.frame(3, lastBytes, false) // it comes again, and all is well
				s, err := check(t, d)
				require.NoError(t, err)
				require.EqualValues(t, 1, s.Stats().Counters[spec.CounterTxPoisoned])

				for what, doctor := range map[string]func(d *device){
					"field":                               func(d *device) { d.out.Records[n].PSN++ },
					"another out, that the mode has next": func(d *device) { d.out.Records[n].Endpoint = entryOf(0) },
					"good":                                func(d *device) { d.out.Records[n].Verdict = spec.VerdictOk },
					"early": func(d *device) {
						d.out.Records[n], d.out.Records[n-1] = d.out.Records[n-1], d.out.Records[n]
					},
					"byte": func(d *device) {
						i := slices.IndexFunc(d.out.Frames, func(f spec.FrameOut) bool { return f.Error != 0 })
						d.out.Frames[i].Bytes[60] ^= 1
					},
				} {
					wrong := clone(d)
					doctor(wrong)
					_, err := check(t, wrong)
					require.Error(t, err, what)
				}
			})
		}
	}
}
