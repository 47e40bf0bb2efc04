package scoreboard_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/cosim/link"
	"github.com/epic-inc/epic/cosim/scoreboard"
	"github.com/epic-inc/epic/cosim/server"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

const (
	ranks      = 3
	slots      = 8
	mtu        = 256
	entries    = 64
	tickClocks = 100
	psn0       = 0xfffffa
	timeout    = 50 // ticks
	refused    = 4  // table commands
)

func config() engine.Config {
	cfg := engine.Config{Name: "test", Blocks: 64}
	p := engine.Pipe{Name: "all", Mode: 3, N: slots, MTU: mtu, PSN0: psn0, AckEvery: 2, RNRCode: 1, Retries: 3,
		BackoffMax: 2, Timeout: timeout}
	for i := range ranks {
		p.Ins = append(p.Ins, i)
		p.Outs = append(p.Outs, i)
		cfg.Endpoints = append(cfg.Endpoints, engine.Endpoint{
			Name: fmt.Sprint("r", i), Port: i + 1, MAC: mac(0x99), PeerMAC: mac(byte(i)), IP: ip(99), PeerIP: ip(byte(i)),
			// The table entry of an endpoint is not its index here.
			QPN: uint32(0x105 + 3*i), PeerQPN: uint32(0x11 + i), PKey: 0xffff, UDPSport: 49999, TTL: 64, PSN0: psn0,
			InPipe: 0, OutPipe: 0, InIndex: i,
		})
	}
	cfg.Pipes = []engine.Pipe{p}
	return cfg
}

func mac(b byte) [6]byte     { return [6]byte{0x52, 0x54, 0, 0, 0, b} }
func ip(b byte) netip.Addr   { return netip.AddrFrom4([4]byte{10, 9, 0, b}) }
func entryOf(i int) uint32   { return uint32(0x105+3*i) % entries }
func at(n psn.PSN) psn.PSN   { return psn.PSN((psn0 + uint32(n)) & 0xffffff) }
func word(r *rand.Rand) byte { return byte(r.Uint32()) }

// packet from rank i to the engine.
func packet(i int, op spec.Opcode, p psn.PSN) *roce.Packet {
	return &roce.Packet{DstMAC: mac(0x99), SrcMAC: mac(byte(i)), Src: ip(byte(i)), Dst: ip(99), TTL: 64, DF: true,
		SrcPort: 55555, Opcode: op, PKey: 0xffff, DestQP: uint32(0x105 + 3*i), PSN: p}
}

// device is an engine that does what golden does, and says so as the RTL would: the scoreboard's
// counterpart, right unless a test doctors what it says.
type device struct {
	cfg    engine.Config
	golden *engine.Engine
	clock  uint64
	tx     uint32
	rx     uint32
	out    server.Window
	driven []scoreboard.Frame
	hold   bool // settle leaves forwards waiting

	// What a run knows of itself, by hand.
	counted map[spec.Counter]uint64
	pipes   map[int]spec.PipeState // what a record does not tell of pipe_state
}

func newDevice(t *testing.T, cfg engine.Config) *device {
	t.Helper()
	g, err := engine.New(cfg)
	require.NoError(t, err)
	d := &device{cfg: cfg, golden: g}
	for i := range cfg.Endpoints {
		d.step(engine.Event{Cause: spec.CauseTableWrite, Endpoint: i, Pipe: engine.None}, nil)
	}
	for p := range cfg.Pipes {
		d.step(engine.Event{Cause: spec.CauseTableWrite, Endpoint: engine.None, Pipe: p}, nil)
		if cfg.Pipes[p].Mode == 2 { // the other leaves no record of its lists
			for n, o := range cfg.Pipes[p].Outs {
				d.clock++
				d.out.Records = append(d.out.Records, spec.Record{Clock: d.clock, Cause: spec.CauseTableWrite,
					Slot: uint32(spec.TableOutList), PSN: uint32(n), Endpoint: entryOf(o)})
			}
		}
	}
	d.settle()
	return d
}

// settle lets the engine do all it can.
func (d *device) settle() {
	for evs := d.golden.Enabled(); len(evs) > 0; evs = d.golden.Enabled() {
		if d.hold && evs[len(evs)-1].Cause == spec.CauseForward {
			return
		}
		d.step(evs[len(evs)-1], nil) // not the first: the scoreboard follows any order
	}
}

func (d *device) frame(port int, b []byte, macError bool) { d.receive(port, b, macError, false) }

// receive takes a frame, and refuses what would come of it if full.
func (d *device) receive(port int, b []byte, macError, full bool) {
	d.driven = append(d.driven, scoreboard.Frame{Clock: d.clock, Port: port, Bytes: b, Error: macError})
	ev := engine.Event{Cause: spec.CauseDrop, Port: port, Verdict: spec.VerdictMACError}
	if !macError {
		pkt, bad := roce.Decode(b)
		ev.Packet, ev.Verdict = pkt, spec.VerdictOk
		if bad != nil {
			ev.Verdict = bad.Verdict
		} else if full {
			ev.Verdict = spec.VerdictTxFull
		}
	}
	d.clock += 3
	d.out.Accepted = append(d.out.Accepted, spec.FrameAck{Frame: d.rx, First: d.clock - 2, Header: d.clock - 1, Last: d.clock})
	d.step(ev, b)
	d.settle()
}

func (d *device) step(ev engine.Event, in []byte) {
	d.clock++
	outs := d.golden.Step(ev)
	r := outs[0].Record
	r.Clock = d.clock
	switch r.Cause {
	case spec.CauseDrop, spec.CauseData, spec.CauseAck, spec.CauseNak, spec.CauseCNP:
		r.Frame = d.rx
		d.rx++
	}
	switch {
	case r.Groups&(spec.GroupRx|spec.GroupTx) != 0, r.Cause == spec.CauseForward, r.Cause == spec.CauseCNP,
		r.Verdict == spec.VerdictPoisoned:
		r.Endpoint = entryOf(int(r.Endpoint))
	}
	for _, o := range outs[1:] {
		switch o.Kind {
		case engine.Frame:
			r.Frame = d.tx
			d.tx++
			d.out.Frames = append(d.out.Frames, spec.FrameOut{First: d.clock + 5, Last: d.clock + 9, Port: uint32(o.Port), Bytes: o.Packet.Encode()})
			if f := &d.out.Frames[len(d.out.Frames)-1]; o.Poisoned {
				f.Error = 1
				for n := range 4 {
					f.Bytes[len(f.Bytes)-1-n] ^= 0xff
				}
			}
		case engine.Bypass:
			d.out.Frames = append(d.out.Frames, spec.FrameOut{First: d.clock + 5, Last: d.clock + 9, Stream: link.StreamBypass,
				Port: uint32(o.Port), Bytes: slices.Clone(in)})
		}
	}
	d.out.Records = append(d.out.Records, r)
	d.out.Clock = d.clock
}

// run is a run with every cause and most verdicts in it.
func run(t *testing.T) *device {
	t.Helper()
	d := newDevice(t, config())
	// Three NAKs and one RNR NAK come in; the scoreboard is told by no record.
	d.counted = map[spec.Counter]uint64{spec.CounterRxNak: ranks, spec.CounterRxRNR: 1}
	r := rand.New(rand.NewPCG(1, 2))
	data := func(i int, n psn.PSN) {
		p := packet(i, spec.OpcodeSendOnly, at(n))
		p.Payload = make([]byte, mtu)
		for j := range p.Payload {
			p.Payload[j] = word(r)
		}
		p.AckReq = n%3 == 0
		d.frame(i+1, p.Encode(), false)
	}
	answer := func(i int, syndrome uint8, n psn.PSN) {
		p := packet(i, spec.OpcodeAcknowledge, at(n))
		p.Syndrome, p.MSN = syndrome, uint32(n)
		d.frame(i+1, p.Encode(), false)
	}
	for n := range psn.PSN(12) {
		if n == 5 { // 4 is not acknowledged yet: a NAK, then an RNR NAK, whose wait ends
			for i := range ranks {
				answer(i, spec.SyndromeNakSequence, 4)
			}
			answer(1, spec.SyndromeRNR|1, 4)
			d.clock += tickClocks
			d.step(engine.Event{Cause: spec.CauseRNRExpiry, Endpoint: 1}, nil)
			d.settle()
		}
		data(0, n)
		if n == 5 {
			data(0, n)     // duplicate
			data(1, n+1)   // beyond a gap
			data(2, n+100) // beyond
			answer(2, spec.SyndromeAck, 200)
		}
		data(1, n)
		data(2, n)
		if n == 7 {
			d.frame(2, []byte("no RoCE at all, whole and unchanged"), false)
			d.frame(2, packet(0, spec.OpcodeSendOnly, at(n)).Encode(), true) // MAC error
			bad := packet(0, spec.OpcodeSendOnly, at(n)).Encode()
			bad[len(bad)-1] ^= 1
			d.frame(1, bad, false)
			stranger := packet(0, spec.OpcodeSendOnly, at(n))
			stranger.DestQP = 0x777
			d.frame(1, stranger.Encode(), false)
		}
		for i := range ranks {
			if n == 4 || n == 11 && i == 2 {
				continue // what rank 2 does not acknowledge is sent again
			}
			answer(i, spec.SyndromeAck, n)
		}
	}
	data(1, 0) // behind
	d.clock += timeout * tickClocks
	d.step(engine.Event{Cause: spec.CauseTimer, Endpoint: 2}, nil)
	d.settle()
	answer(2, spec.SyndromeAck, 11)
	return d
}

// check plays a device's words to a scoreboard.
func check(t *testing.T, d *device) (*scoreboard.Scoreboard, error) {
	t.Helper()
	s, err := scoreboard.New(scoreboard.Config{Engine: d.cfg, Entries: entries, TickClocks: tickClocks, Seed: 77})
	require.NoError(t, err)
	for _, f := range d.driven {
		s.Drive(f.Clock, f.Port, f.Bytes, f.Error)
	}
	return s, s.Window(&d.out)
}

func clone(d *device) *device {
	c := *d
	c.out.Records = slices.Clone(d.out.Records)
	c.out.Frames = slices.Clone(d.out.Frames)
	for i := range c.out.Frames {
		c.out.Frames[i].Bytes = slices.Clone(c.out.Frames[i].Bytes)
	}
	return &c
}

// registers answers as a right engine would.
type registers struct {
	counters [spec.CounterCount]uint64
	entries  map[string]spec.Entry
}

func (r *registers) Counter(_ context.Context, c spec.Counter) (uint64, error) {
	return r.counters[c], nil
}

func (r *registers) Refused() uint64 { return refused }

func (r *registers) ReadEntry(_ context.Context, index int, e spec.Entry) error {
	got, ok := r.entries[fmt.Sprint(e.Table(), index)]
	if !ok {
		return fmt.Errorf("no %v entry %d", e.Table(), index)
	}
	return e.SetWords(got.Words())
}

// registersOf counts a device's own records, and takes the states they end with.
func registersOf(d *device) *registers {
	r := &registers{entries: map[string]spec.Entry{}}
	c := &r.counters
	ofCause := map[spec.Cause]spec.Counter{spec.CauseAdvance: spec.CounterAdvance, spec.CauseRelease: spec.CounterRelease,
		spec.CauseRecycle: spec.CounterRecycle, spec.CauseSend: spec.CounterTxData, spec.CauseResend: spec.CounterTxResend,
		spec.CauseTimer: spec.CounterTimer, spec.CauseRNRExpiry: spec.CounterRNRExpiry, spec.CauseBindDone: spec.CounterBindDone,
		spec.CauseForward: spec.CounterTxForward, spec.CauseTableWrite: spec.CounterTableWrite}
	for _, rec := range d.out.Records {
		if rec.Verdict == spec.VerdictPoisoned {
			c[spec.CounterTxPoisoned]++
			continue
		}
		if n, ok := ofCause[rec.Cause]; ok {
			c[n]++
		}
		switch rec.Cause {
		case spec.CauseDrop, spec.CauseData, spec.CauseAck, spec.CauseNak, spec.CauseCNP:
			c[rec.Verdict]++
		}
		if rec.Cause == spec.CauseCNP && rec.Verdict == spec.VerdictOk {
			c[spec.CounterRxCNP]++
		}
		if rec.Cause == spec.CauseData && rec.Verdict == spec.VerdictOk {
			c[spec.CounterRxData]++
			if rec.Degree == 1 {
				c[spec.CounterSlotStart]++
			}
			if int(rec.Degree) == len(d.cfg.Pipes[rec.PipeID].Ins) {
				c[spec.CounterSlotComplete]++
			}
		}
		if rec.Cause == spec.CauseAck && rec.Verdict == spec.VerdictOk {
			c[spec.CounterRxAck]++
		}
		if rec.Groups&spec.GroupRx != 0 {
			r.entries[fmt.Sprint(spec.TableEpRx, rec.Endpoint)] = &spec.EpRx{EPSN: rec.EPSN, MSN: rec.MSN,
				NakSent: rec.NakSent != 0, AckKind: rec.AckKind}
		}
		if rec.Groups&spec.GroupTx != 0 {
			r.entries[fmt.Sprint(spec.TableEpTx, rec.Endpoint)] = &spec.EpTx{LastAcked: rec.LastAcked, Cursor: rec.Cursor,
				SentMax: rec.SentMax, Retries: uint8(rec.Retries), TimerArmed: rec.TimerArmed != 0, RNRWait: rec.RNRWait != 0}
		}
		if rec.Groups&spec.GroupPipe != 0 {
			st := d.pipes[int(rec.PipeID)]
			st.PSNStart, st.NextSend, st.PipeError, st.ControlPSN, st.Bound = rec.PSNStart, rec.NextSend, rec.PipeError != 0,
				rec.ControlPSN, true
			r.entries[fmt.Sprint(spec.TablePipeState, rec.PipeID)] = &st
			f := d.golden.Fault(int(rec.PipeID))
			why := spec.PipeError{Kind: uint8(f.Kind), PSN: uint32(f.PSN), Got: f.Got, Wanted: f.Wanted}
			if f.Kind != spec.ErrorKindNone {
				why.Endpoint = uint16(entryOf(f.Endpoint))
			}
			r.entries[fmt.Sprint(spec.TablePipeError, rec.PipeID)] = &why
		}
	}
	for n, v := range d.counted {
		c[n] = v
	}
	for _, f := range d.out.Frames {
		if pkt, bad := roce.Decode(f.Bytes); bad == nil && d.cfg.Pipes[0].Mode == 3 && f.Stream == link.StreamTx && pkt.HasAETH() {
			switch pkt.Syndrome {
			case 0x1f:
				c[spec.CounterTxAck]++
			case 0x60:
				c[spec.CounterTxNak]++
			default:
				c[spec.CounterTxRNR]++
			}
		}
	}
	c[spec.CounterTableRefused] = refused
	return r
}

func TestRight(t *testing.T) {
	d := run(t)
	s, err := check(t, d)
	require.NoError(t, err)
	require.NoError(t, s.Quiescent())
	require.NoError(t, s.Finish(t.Context(), registersOf(d)))

	seen := map[spec.Cause]bool{}
	for _, r := range d.out.Records {
		seen[r.Cause] = true
	}
	for c := range spec.Cause(spec.CauseTableWrite + 1) {
		switch c {
		case spec.CauseError, spec.CauseCNP, spec.CauseForward: // the last two are Mode-II's: TestRight2
		default:
			assert.True(t, seen[c], "the run has no %v", c)
		}
	}
	st := s.Stats()
	assert.EqualValues(t, len(d.driven), st.FramesIn)
	assert.EqualValues(t, len(d.out.Frames), st.FramesOut)
	assert.EqualValues(t, 2, st.Bypassed)
	assert.EqualValues(t, 12, st.Slots)
	bytes := 0
	for _, f := range d.out.Frames {
		bytes += len(f.Bytes)
	}
	assert.EqualValues(t, bytes, st.ComparedBytes)
	require.Len(t, s.Latency(), 12)
}

// In any windows, the same verdict.
func TestWindows(t *testing.T) {
	d := run(t)
	s, err := scoreboard.New(scoreboard.Config{Engine: config(), Entries: entries, TickClocks: tickClocks})
	require.NoError(t, err)
	for _, f := range d.driven {
		s.Drive(f.Clock, f.Port, f.Bytes, f.Error)
	}
	r, f := d.out.Records, d.out.Frames
	for len(r)+len(f) > 0 {
		// Frames may be ahead of their records.
		w := server.Window{Records: r[:min(3, len(r))], Frames: f[:min(2, len(f))]}
		w.Clock = d.clock
		if len(w.Records) > 0 {
			w.Clock = w.Records[len(w.Records)-1].Clock
		}
		r, f = r[len(w.Records):], f[len(w.Frames):]
		require.NoError(t, s.Window(&w))
	}
	require.NoError(t, s.Finish(t.Context(), registersOf(d)))
}

// Every field of every kind of record, changed by one, is found where it is.
func TestDoctoredRecords(t *testing.T) {
	assert.Greater(t, doctorRecords(t, run(t)), 20)
}

// doctorRecords returns how many kinds of records it doctored.
func doctorRecords(t *testing.T, d *device) int {
	t.Helper()
	type kind struct {
		cause   spec.Cause
		verdict spec.Verdict
	}
	seen := map[kind]bool{}
	for n, r := range d.out.Records {
		k := kind{r.Cause, r.Verdict}
		if seen[k] {
			continue
		}
		seen[k] = true
		for i, f := range spec.RecordFields {
			if i == spec.RecordFieldClock || i == spec.RecordFieldPSN && r.Cause == spec.CauseTableWrite && r.Groups == 0 {
				continue // nor which entry of a list it was, which is the driver's to say
			}
			t.Run(fmt.Sprintf("%v %v %s", r.Cause, r.Verdict, f.Name), func(t *testing.T) {
				bad := clone(d)
				bad.out.Records[n].SetField(i, r.Field(i)+1)
				_, err := check(t, bad)
				var diff *scoreboard.Difference
				require.ErrorAs(t, err, &diff)
				assert.EqualValues(t, n, diff.Record)
				assert.EqualValues(t, 77, diff.Seed)
				assert.Equal(t, r.Clock, diff.Clock)
				assert.Contains(t, diff.Error(), "seed 77")
				assert.Contains(t, diff.Detail(), "engine: ")
				// These say what happened: another value may be an event that golden refuses, or another
				// event altogether.
				says := []int{spec.RecordFieldCause, spec.RecordFieldFrame, spec.RecordFieldPipeID, spec.RecordFieldEndpoint,
					spec.RecordFieldPSN, spec.RecordFieldSlot, spec.RecordFieldGroups}
				if !slices.Contains(says, i) {
					assert.Equal(t, f.Name, diff.Field)
					assert.NotEqual(t, diff.Got, diff.Want)
				}
			})
		}
	}
	return len(seen)
}

func TestDoctoredFrames(t *testing.T) { doctorFrames(t, run(t)) }

func doctorFrames(t *testing.T, d *device) {
	t.Helper()
	kinds := map[string]int{}
	for n, f := range d.out.Frames {
		pkt, _ := roce.Decode(f.Bytes)
		name := fmt.Sprint(f.Stream)
		if pkt != nil {
			name += fmt.Sprint(pkt.Opcode, pkt.Syndrome)
		}
		kinds[name] = n
	}
	require.Greater(t, len(kinds), 4)
	for name, n := range kinds {
		t.Run(name, func(t *testing.T) {
			for i := range d.out.Frames[n].Bytes {
				bad := clone(d)
				bad.out.Frames[n].Bytes[i] ^= 0x10
				_, err := check(t, bad)
				var diff *scoreboard.Difference
				require.ErrorAs(t, err, &diff, "byte %d", i)
				require.Contains(t, diff.Field, fmt.Sprintf("byte %d (%s", i, roce.FieldAt(d.out.Frames[n].Bytes, i)))
			}
			for what, doctor := range map[string]func(*spec.FrameOut){
				"port":  func(f *spec.FrameOut) { f.Port++ },
				"tuser": func(f *spec.FrameOut) { f.Error ^= 1 },
				"byte ": func(f *spec.FrameOut) { f.Bytes[len(f.Bytes)-1]++ },
			} {
				bad := clone(d)
				doctor(&bad.out.Frames[n])
				_, err := check(t, bad)
				var diff *scoreboard.Difference
				require.ErrorAs(t, err, &diff, what)
				require.Contains(t, diff.Field, what)
			}
			for _, cut := range []int{1, -1} {
				bad := clone(d)
				f := &bad.out.Frames[n]
				if cut > 0 {
					f.Bytes = f.Bytes[:len(f.Bytes)-cut]
				} else {
					f.Bytes = append(f.Bytes, 0)
				}
				_, err := check(t, bad)
				require.ErrorContains(t, err, "length is")
			}
		})
	}
}

func finish(t *testing.T, d *device, r *registers) error {
	t.Helper()
	s, err := check(t, d)
	if err != nil {
		return err
	}
	return s.Finish(t.Context(), r)
}

// What is missing, too many or in the wrong order is found.
func TestOrder(t *testing.T) { disorder(t, run(t)) }

func disorder(t *testing.T, d *device) {
	t.Helper()
	r := registersOf(d)
	require.NoError(t, finish(t, d, r))
	for n := range d.out.Records {
		bad := clone(d)
		bad.out.Records = slices.Delete(bad.out.Records, n, n+1)
		require.Error(t, finish(t, bad, r), "without record %d: %v", n, &d.out.Records[n])
		if d.out.Records[n].Cause == spec.CauseTableWrite && d.out.Records[n].Groups&spec.GroupRx != 0 {
			continue // writing an endpoint twice is no mistake
		}
		bad = clone(d)
		bad.out.Records = slices.Insert(bad.out.Records, n, d.out.Records[n])
		require.Error(t, finish(t, bad, r), "with record %d twice: %v", n, &d.out.Records[n])
	}
	for n := range d.out.Frames {
		bad := clone(d)
		bad.out.Frames = slices.Delete(bad.out.Frames, n, n+1)
		require.Error(t, finish(t, bad, r), "without frame %d", n)
		bad = clone(d)
		bad.out.Frames = slices.Insert(bad.out.Frames, n, d.out.Frames[n])
		require.Error(t, finish(t, bad, r), "with frame %d twice", n)
	}
	swapped := 0
	for n := range d.out.Frames[1:] {
		a, b := d.out.Frames[n], d.out.Frames[n+1]
		if a.Stream != b.Stream || slices.Equal(a.Bytes, b.Bytes) {
			continue
		}
		bad := clone(d)
		bad.out.Frames[n], bad.out.Frames[n+1] = b, a
		require.Error(t, finish(t, bad, r), "with frames %d and %d swapped", n, n+1)
		swapped++
	}
	require.Positive(t, swapped)
}

func TestTimers(t *testing.T) {
	d := run(t)
	reference, err := scoreboard.New(scoreboard.Config{Engine: config(), Entries: entries, TickClocks: tickClocks})
	require.NoError(t, err)
	late := reference.TimerSlack() + tickClocks
	for n, r := range d.out.Records {
		ticks := 0
		switch r.Cause {
		case spec.CauseTimer:
			ticks = timeout
		case spec.CauseRNRExpiry:
			ticks = 1
		default:
			continue
		}
		// The run's clocks jump to just after the time.
		bad := clone(d)
		bad.out.Records[n].Clock -= 2 + uint64(ticks)*tickClocks/2
		_, err := check(t, bad)
		require.ErrorContains(t, err, ": armed at", "%v", r.Cause)
		bad = clone(d)
		for i := n; i < len(bad.out.Records); i++ {
			bad.out.Records[i].Clock += late
		}
		_, err = check(t, bad)
		require.ErrorContains(t, err, ": armed at", "%v late", r.Cause)
	}

	// A timer that never fires is missed when its slack is over, not before.
	s, err := scoreboard.New(scoreboard.Config{Engine: config(), Entries: entries, TickClocks: tickClocks})
	require.NoError(t, err)
	cut := slices.IndexFunc(d.out.Records, func(r spec.Record) bool { return r.Cause == spec.CauseTimer })
	require.Positive(t, cut)
	for _, f := range d.driven {
		s.Drive(f.Clock, f.Port, f.Bytes, f.Error)
	}
	w := d.out
	w.Records = w.Records[:cut]
	w.Clock = w.Records[cut-1].Clock
	require.NoError(t, s.Window(&w))
	require.Equal(t, 1, s.Outstanding())
	due, ok := s.NextTimer()
	require.True(t, ok)
	require.NoError(t, s.Window(&server.Window{Clock: due + s.TimerSlack()}))
	err = s.Window(&server.Window{Clock: due + s.TimerSlack() + 1})
	require.ErrorContains(t, err, "retransmission timer of endpoint entry")
}

func TestBypassFull(t *testing.T) {
	d := run(t)
	n := slices.IndexFunc(d.out.Records, func(r spec.Record) bool { return r.Verdict == spec.VerdictNotRoCE })
	m := slices.IndexFunc(d.out.Frames, func(f spec.FrameOut) bool { return f.Stream == link.StreamBypass })
	full := clone(d)
	full.out.Records[n].Verdict = spec.VerdictBypassFull
	full.out.Frames = slices.Delete(full.out.Frames, m, m+1)
	require.NoError(t, finish(t, full, registersOf(full)))

	// A frame that is the engine's may not be dropped so.
	n = slices.IndexFunc(d.out.Records, func(r spec.Record) bool { return r.Verdict == spec.VerdictICRC })
	bad := clone(d)
	bad.out.Records[n].Verdict = spec.VerdictBypassFull
	_, err := check(t, bad)
	require.ErrorContains(t, err, "verdict is bypass_full, want icrc")
}

func TestFinish(t *testing.T) { doctorRegisters(t, run(t)) }

func doctorRegisters(t *testing.T, d *device) {
	t.Helper()
	right := registersOf(d)
	for c := range spec.Counter(spec.CounterCount) {
		bad := *right
		bad.counters[c]++
		require.ErrorContains(t, finish(t, d, &bad), fmt.Sprintf("counter: %v is", c))
	}
	for name, e := range right.entries {
		for bit := range spec.Tables[e.Table()].Bits {
			words := slices.Clone(e.Words())
			words[bit/32] ^= 1 << (bit % 32)
			other := map[spec.TableID]spec.Entry{spec.TableEpRx: new(spec.EpRx), spec.TableEpTx: new(spec.EpTx),
				spec.TablePipeState: new(spec.PipeState), spec.TablePipeError: new(spec.PipeError)}[e.Table()]
			if other.SetWords(words) != nil {
				continue
			}
			bad := &registers{counters: right.counters, entries: map[string]spec.Entry{}}
			for k, v := range right.entries {
				bad.entries[k] = v
			}
			bad.entries[name] = other
			require.ErrorContains(t, finish(t, d, bad), "state is", "%s bit %d", name, bit)
		}
	}
	delete(right.entries, fmt.Sprint(spec.TableEpRx, entryOf(0)))
	err := finish(t, d, right)
	require.ErrorContains(t, err, "read ep_rx entry")
	var diff *scoreboard.Difference
	require.False(t, errors.As(err, &diff), "what cannot be read is no difference")
}

func TestNew(t *testing.T) {
	good := scoreboard.Config{Engine: config(), Entries: 64, TickClocks: 1}
	for name, tc := range map[string]struct {
		change func(*scoreboard.Config)
		want   string
	}{
		"entries": {func(c *scoreboard.Config) { c.Entries = 48 }, "48 endpoint entries, want a power of two"},
		"shared":  {func(c *scoreboard.Config) { c.Entries = 1 }, "share table entry"},
		"tick":    {func(c *scoreboard.Config) { c.TickClocks = 0 }, "clocks a tick"},
		"engine":  {func(c *scoreboard.Config) { c.Engine.Pipes[0].N = 3 }, "slots: got 3"},
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			c.Engine = config()
			tc.change(&c)
			_, err := scoreboard.New(c)
			assert.ErrorContains(t, err, tc.want)
		})
	}
}
