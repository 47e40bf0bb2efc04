// Package scoreboard compares an engine, step by step, with golden/engine.
//
// The engine says in its retirement records what it did, in the order in which it committed. The
// scoreboard asks golden whether that may happen now, lets it happen there, and compares every field of
// the record, then every byte of every frame that leaves. At the end it compares the counters and the
// state tables, and wants golden to have nothing left that the engine should have done.
//
// What it checks beyond golden: frames retire in the order in which they came; results and ACKs leave in
// the order of their records; frames of the bypass leave whole, unchanged and in order; timers expire
// neither early nor later than TimerSlack allows.
//
// The freedoms: a frame whose verdict is a bypass may be dropped as bypass_full, and one that would make
// something leave a Mode-II pipe as tx_full, for only the engine knows how much room it had.
package scoreboard

import (
	"fmt"
	"math"
	"slices"

	"github.com/epic-inc/epic/cosim/link"
	"github.com/epic-inc/epic/cosim/points"
	"github.com/epic-inc/epic/cosim/server"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// How late a timer's expiry may be committed: one tick, because the engine counts whole ones, and one
// keeping walk (docs/microarchitecture.md: inc_retransmission).
const (
	walkClocksPerOut = 16 // where every visit meets an ACK or another visit of the same out
	walkClocks       = 32 // from the end of a walk to the start of the next
)

// TimerSlack is, in clocks, how long after its time a timer's expiry may be committed.
func (s *Scoreboard) TimerSlack() uint64 {
	outs := 0
	for _, p := range s.cfg.Engine.Pipes {
		outs += len(p.Outs)
	}
	return s.cfg.TickClocks + uint64(walkClocksPerOut*outs+walkClocks)
}

// historyRecords is how many of the latest records a difference shows.
const historyRecords = 12

// Config of a scoreboard.
type Config struct {
	Engine     engine.Config
	Entries    int    // endpoint entries of the build: record.endpoint is the QPN modulo this
	TickClocks uint64 // clocks of a timer tick
	Seed       uint64 // for messages
}

// Frame is a frame seen at the engine, and when.
type Frame struct {
	Clock  uint64 // of its first beat; in: of when it was to be offered
	Number uint32 // in its stream
	Stream int    // In, or link.StreamTx or link.StreamBypass
	Port   int
	Error  bool // tuser of its last beat
	Bytes  []byte
}

// In is Frame.Stream of frames on s_axis_rx.
const In = -1

// Stats counts what went right.
type Stats struct {
	FramesIn      uint64 // retired
	FramesOut     uint64 // compared, both streams
	Bypassed      uint64
	Records       uint64
	ComparedBytes uint64
	Counters      [spec.CounterCount]uint64 // as the engine's own must read, but for table_write and table_refused (Finish)
	TableWrites   uint64                    // table entries written
	Slots         uint64                    // results released
}

// Add adds what another scoreboard counted.
func (s *Stats) Add(o *Stats) {
	s.FramesIn += o.FramesIn
	s.FramesOut += o.FramesOut
	s.Bypassed += o.Bypassed
	s.Records += o.Records
	s.ComparedBytes += o.ComparedBytes
	for i, n := range o.Counters {
		s.Counters[i] += n
	}
	s.TableWrites += o.TableWrites
	s.Slots += o.Slots
}

// Scoreboard follows one engine. It is not safe for concurrent use.
type Scoreboard struct {
	cfg    Config
	golden *engine.Engine
	index  map[uint32]int // table entry -> endpoint of golden
	entry  []uint32       // endpoint of golden -> table entry

	in       []Frame // not retired yet, oldest first
	last     Frame   // the one that retired last
	inDriven uint32
	retired  uint32 // number of the next frame to retire

	writes     []engine.Event // announced table writes
	want       [2][]Frame     // expected of each stream, not seen yet
	got        [2][]Frame     // seen of each stream, not expected yet
	txRecorded uint32         // number of the next frame on m_axis_tx to be recorded
	seen       [2]uint32

	timers map[timerKey]timer
	bound  map[int]uint64 // by pipe: clock of its last bind_done
	fences fences
	state  shadow
	stats  Stats
	points *points.Collector
	first  *Difference
	clock  uint64 // up to which everything is known

	latency latency
	records ring[spec.Record]
}

type timerKey struct {
	endpoint int
	kind     engine.TimerKind
}

type timer struct {
	armed uint64
	sent  uint64 // clock of the first send at its endpoint that was recorded after it was due
	ticks int
}

// shadow is golden's state as its records last showed it, for the comparison of the state tables.
type shadow struct {
	rx   map[int]spec.Record // by endpoint: the last record with group rx
	tx   map[int]spec.Record
	pipe map[int]spec.Record // by pipe
}

// New returns a scoreboard for an engine that has just been reset.
func New(cfg Config) (*Scoreboard, error) {
	if cfg.Entries < 1 || cfg.Entries&(cfg.Entries-1) != 0 {
		return nil, fmt.Errorf("scoreboard: got %d endpoint entries, want a power of two", cfg.Entries)
	}
	if cfg.TickClocks < 1 {
		return nil, fmt.Errorf("scoreboard: got %d clocks a tick, want at least 1", cfg.TickClocks)
	}
	golden, err := engine.New(cfg.Engine)
	if err != nil {
		return nil, fmt.Errorf("scoreboard: %w", err)
	}
	s := &Scoreboard{
		cfg: cfg, golden: golden,
		index:   make(map[uint32]int, len(cfg.Engine.Endpoints)),
		timers:  map[timerKey]timer{},
		bound:   map[int]uint64{},
		state:   shadow{rx: map[int]spec.Record{}, tx: map[int]spec.Record{}, pipe: map[int]spec.Record{}},
		records: ring[spec.Record]{most: historyRecords},
		points:  points.NewCollector(&cfg.Engine),
	}
	for i := range cfg.Engine.Endpoints {
		at := uint32(cfg.Engine.EntryIndex(i, cfg.Entries))
		if other, taken := s.index[at]; taken {
			return nil, fmt.Errorf("scoreboard: endpoints %d and %d share table entry %d of %d: their QPNs agree modulo it",
				other, i, at, cfg.Entries)
		}
		s.index[at] = i
		s.entry = append(s.entry, at)
	}
	return s, nil
}

// Drive says that a frame is handed to the engine: the next one on s_axis_rx. The bytes must not change
// until it has retired.
func (s *Scoreboard) Drive(at uint64, port int, frame []byte, macError bool) {
	f := Frame{Clock: at, Number: s.inDriven, Stream: In, Port: port, Error: macError, Bytes: frame}
	s.inDriven++
	s.in = append(s.in, f)
}

// Window takes what the engine did in one quantum. The error is a *Difference, the first one; after it
// the scoreboard compares nothing more.
func (s *Scoreboard) Window(w *server.Window) error {
	if s.first != nil {
		return s.first
	}
	s.clock = max(s.clock, w.Clock)
	s.latency.accepted(w.Accepted)
	for i := range w.Records {
		if err := s.retire(&w.Records[i]); err != nil {
			return err
		}
	}
	for i := range w.Frames {
		if err := s.frameOut(&w.Frames[i]); err != nil {
			return err
		}
	}
	s.latency.resolve()
	if d, r := s.fences.resolve(); d != nil {
		return s.differ(d, r)
	}
	if err := s.match(); err != nil {
		return err
	}
	return s.overdue(w.Clock)
}

// Stats returns the counts so far.
func (s *Scoreboard) Stats() Stats { return s.stats }

// Points returns how often each point of functional coverage happened so far.
func (s *Scoreboard) Points() points.Counts { return s.points.Counts() }

// Latency returns, in clocks, how long after the beat that ended its headers the packet that completed a
// slot was followed by the first beat of the slot's first result; nil if no result left. Sorted.
func (s *Scoreboard) Latency() []uint32 {
	slices.Sort(s.latency.clocks)
	return s.latency.clocks
}

// Quiescent returns nil if golden has nothing to do, everything driven has retired and everything
// expected has left: what an engine must come to when nothing more arrives and no timer runs.
func (s *Scoreboard) Quiescent() error {
	if n := len(s.in); n > 0 {
		return fmt.Errorf("%d frames in have not retired, the first is number %d", n, s.retired)
	}
	for stream, want := range s.want {
		if len(want) > 0 {
			return fmt.Errorf("%d frames have not left on %s, the first is number %d", len(want), streamName(stream), want[0].Number)
		}
	}
	if evs := s.golden.Enabled(); len(evs) > 0 {
		return fmt.Errorf("%d events are due, the first is %v", len(evs), evs[0])
	}
	return nil
}

// Outstanding returns how many timers run: while any does, Quiescent is no end.
func (s *Scoreboard) Outstanding() int { return len(s.timers) }

// NextTimer returns the clock at which the first timer that runs is due, if any does.
func (s *Scoreboard) NextTimer() (clock uint64, ok bool) {
	for _, t := range s.timers {
		if due := t.due(s); !ok || due < clock {
			clock, ok = due, true
		}
	}
	return clock, ok
}

// retire steps golden by one record and compares.
func (s *Scoreboard) retire(r *spec.Record) error {
	s.records.add(*r)
	s.stats.Records++
	if r.Cause == spec.CauseTableWrite && r.Groups == 0 {
		return s.listWrite(r)
	}
	ev, d := s.event(r)
	if d != nil {
		return s.differ(d, r)
	}
	if err := s.golden.Legal(ev); err != nil {
		return s.differ(&Difference{What: "the engine did what golden does not allow", Field: "cause",
			Got: r.Cause.String(), Want: err.Error()}, r)
	}
	if ev.Verdict == spec.VerdictTxFull && s.golden.Rereads(ev) {
		s.fences.refused(r)
	}
	var in Frame
	if ev.Cause == spec.CauseDrop {
		in = s.in[0]
		s.last = in
		s.in[0] = Frame{}
		s.in = s.in[1:]
		s.retired++
		s.stats.FramesIn++
	}
	outs := s.golden.Step(ev)
	want := outs[0].Record
	bypass := false
	var out *roce.Packet
	for i := range outs[1:] {
		switch o := &outs[i+1]; o.Kind {
		case engine.Bypass:
			bypass = true
		case engine.Frame:
			out = o.Packet
			s.expectFrame(o, &want)
		case engine.SetTimer:
			s.setTimer(o, r.Clock)
		}
	}
	before := s.state.pipe[int(want.PipeID)]
	s.complete(ev, in, &want)
	if bypass && r.Verdict == spec.VerdictBypassFull {
		want.Verdict = spec.VerdictBypassFull
		bypass = false
	}
	if bypass {
		s.expect(link.StreamBypass, Frame{Port: in.Port, Bytes: in.Bytes})
	}
	want.Clock = r.Clock
	if d := differs(&want, r); d != nil {
		return s.differ(d, r)
	}
	s.count(&want, ev)
	s.point(&want, ev, out, &before)
	return nil
}

// point counts a record that was right as functional coverage; before is the pipe's state before it.
func (s *Scoreboard) point(r *spec.Record, ev engine.Event, out *roce.Packet, before *spec.Record) {
	fault := spec.ErrorKindNone
	if r.Groups&spec.GroupPipe != 0 && r.PipeError != 0 && before.PipeError == 0 {
		fault = s.golden.Fault(int(r.PipeID)).Kind
	}
	s.points.Record(r, ev.Packet, out, fault)
	if r.Cause == spec.CauseData && r.Groups&spec.GroupPipe != 0 && r.ControlPSN != before.ControlPSN {
		s.points.Opened(int(r.PipeID), roce.ParseControl(ev.Packet.Imm, ev.Packet.Payload).Type)
	}
}

// event is what a record says happened, as golden takes it.
func (s *Scoreboard) event(r *spec.Record) (engine.Event, *Difference) {
	ev := engine.Event{Cause: r.Cause, Pipe: int(r.PipeID), PSN: psn.PSN(r.PSN), Slot: int(r.Slot)}
	switch r.Cause {
	case spec.CauseDrop, spec.CauseData, spec.CauseAck, spec.CauseNak, spec.CauseCNP:
		if len(s.in) == 0 || r.Frame != s.retired {
			return ev, &Difference{What: "record", Field: "frame", Got: fmt.Sprint(r.Frame),
				Want: fmt.Sprintf("%d, the oldest frame that has not retired (of %d driven)", s.retired, s.inDriven)}
		}
		f := &s.in[0]
		ev = engine.Event{Cause: spec.CauseDrop, Port: f.Port, Verdict: spec.VerdictMACError}
		if !f.Error {
			pkt, bad := roce.Decode(f.Bytes)
			ev.Packet, ev.Verdict = pkt, spec.VerdictOk
			if bad != nil {
				ev.Verdict = bad.Verdict
			} else if r.Verdict == spec.VerdictTxFull {
				ev.Verdict = spec.VerdictTxFull
			}
		}
		return ev, nil
	case spec.CauseAdvance, spec.CauseSend, spec.CauseResend, spec.CauseAckOut, spec.CauseTimer, spec.CauseRNRExpiry,
		spec.CauseForward:
		i, ok := s.index[r.Endpoint]
		if !ok {
			return ev, s.noEndpoint(r)
		}
		ev.Endpoint = i
		if r.Verdict == spec.VerdictPoisoned {
			ev.Verdict, ev.Port, ev.Packet = r.Verdict, s.last.Port, asIfGood(s.last.Bytes)
		}
		if d := s.expiry(r, i); d != nil {
			return ev, d
		}
	case spec.CauseTableWrite:
		ev.Endpoint = engine.None
		if r.Groups&spec.GroupPipe == 0 {
			i, ok := s.index[r.Endpoint]
			if !ok {
				return ev, s.noEndpoint(r)
			}
			ev.Endpoint, ev.Pipe = i, engine.None
		} else if spec.TableID(r.Slot) == spec.TablePipeCtl {
			ev.Quiesce, ev.Unquiesce = r.PSN == 1, r.PSN == 0
			break
		}
		ev = s.announced(ev)
	}
	return ev, nil
}

// Announce says what the next write of an endpoint or pipe entry that was not announced yet will write, where it is
// not what is there: Remove, NewEndpoint or NewPipe of the event. A record does not tell.
func (s *Scoreboard) Announce(ev engine.Event) {
	ev.Cause = spec.CauseTableWrite
	s.writes = append(s.writes, ev)
}

// announced is the oldest announcement of a write of the same entry, or the write itself.
func (s *Scoreboard) announced(ev engine.Event) engine.Event {
	for i, w := range s.writes {
		if w.Endpoint == ev.Endpoint && w.Pipe == ev.Pipe {
			s.writes = slices.Delete(s.writes, i, i+1)
			return w
		}
	}
	return ev
}

// listWrite takes the record of a write of an entry of out_list or in_list, which golden has in its pipes:
// table in slot, entry in psn, and what was written in endpoint.
func (s *Scoreboard) listWrite(r *spec.Record) error {
	if t := spec.TableID(r.Slot); t != spec.TableOutList && t != spec.TableInList {
		return s.differ(&Difference{What: "record", Field: "slot", Got: fmt.Sprint(r.Slot),
			Want: fmt.Sprintf("the number of a table that leaves such a record: %d or %d", spec.TableOutList, spec.TableInList)}, r)
	}
	if _, ok := s.index[r.Endpoint]; !ok {
		return s.differ(s.noEndpoint(r), r)
	}
	want := spec.Record{Clock: r.Clock, Cause: r.Cause, Endpoint: r.Endpoint, PSN: r.PSN, Slot: r.Slot}
	if d := differs(&want, r); d != nil {
		return s.differ(d, r)
	}
	s.stats.TableWrites++
	return nil
}

// differs compares two records field by field.
func differs(want, got *spec.Record) *Difference {
	for i := range spec.RecordFields {
		if want.Field(i) != got.Field(i) {
			return &Difference{What: "record", Field: spec.RecordFields[i].Name,
				Got: got.FieldString(i), Want: want.FieldString(i), Expected: want}
		}
	}
	return nil
}

// asIfGood reads a frame that turned out bad as an engine does that cannot know it yet: what is missing of it
// is zero. nil if its headers say that it is no RoCE frame.
func asIfGood(frame []byte) *roce.Packet {
	frame = roce.Complete(frame)
	d := roce.Dissect(frame)
	if d.PayloadLen < 0 {
		return nil
	}
	return &d.Packet
}

func (s *Scoreboard) noEndpoint(r *spec.Record) *Difference {
	return &Difference{What: "record", Field: "endpoint", Got: fmt.Sprint(r.Endpoint),
		Want: fmt.Sprintf("one of the %d entries written", len(s.index))}
}

// complete fills in what golden leaves to its caller: numbers of frames, and the table's index of an
// endpoint in place of golden's.
func (s *Scoreboard) complete(ev engine.Event, in Frame, want *spec.Record) {
	if ev.Cause == spec.CauseDrop {
		want.Frame = in.Number
	}
	switch want.Cause {
	case spec.CauseData, spec.CauseAck, spec.CauseNak, spec.CauseCNP, spec.CauseAdvance, spec.CauseSend,
		spec.CauseResend, spec.CauseAckOut, spec.CauseForward, spec.CauseTimer, spec.CauseRNRExpiry:
		s.remember(want, int(want.Endpoint))
		want.Endpoint = s.entry[want.Endpoint]
	case spec.CauseTableWrite:
		s.remember(want, ev.Endpoint)
		if ev.Endpoint != engine.None {
			want.Endpoint = s.entry[ev.Endpoint]
		}
	default:
		s.remember(want, engine.None)
	}
}

// remember keeps the groups of a record as the state that a table must show, and counts what only a
// change of state tells.
func (s *Scoreboard) remember(r *spec.Record, endpoint int) {
	if r.Groups&spec.GroupRx != 0 {
		s.state.rx[endpoint] = *r
	}
	if r.Groups&spec.GroupTx != 0 {
		if r.EpError != 0 && s.state.tx[endpoint].EpError == 0 {
			s.stats.Counters[spec.CounterEpError]++
		}
		s.state.tx[endpoint] = *r
	}
	if r.Groups&spec.GroupPipe != 0 {
		p := int(r.PipeID)
		if r.PipeError != 0 && s.state.pipe[p].PipeError == 0 {
			s.stats.Counters[spec.CounterPipeError]++
		}
		if r.Cause == spec.CauseData && r.ControlPSN != s.state.pipe[p].ControlPSN {
			s.stats.Counters[spec.CounterWindowOpen]++
		}
		s.state.pipe[p] = *r
	}
}

// expectFrame turns a frame of golden into one that must leave on m_axis_tx, and numbers its record.
func (s *Scoreboard) expectFrame(o *engine.Output, want *spec.Record) {
	want.Frame = s.txRecorded
	if o.Poisoned {
		s.stats.Counters[spec.CounterTxPoisoned]++
		b := o.Packet.Encode()
		for i := len(b) - roce.ICRCSize; i < len(b); i++ {
			b[i] = ^b[i]
		}
		s.expect(link.StreamTx, Frame{Number: s.txRecorded, Port: o.Port, Bytes: b, Error: true})
		s.txRecorded++
		return
	}
	if op, _ := o.Packet.Opcode.Info(); want.Cause == spec.CauseSend || want.Cause == spec.CauseForward && op.Kind == spec.KindData {
		s.latency.sent(want, s.txRecorded)
		s.fences.sent(want, s.txRecorded)
	}
	if want.Cause == spec.CauseAckOut {
		s.stats.Counters[answerCounter(o.Packet.Syndrome)]++
	}
	s.expect(link.StreamTx, Frame{Number: s.txRecorded, Port: o.Port, Bytes: o.Packet.Encode()})
	s.txRecorded++
}

func answerCounter(syndrome uint8) spec.Counter {
	switch syndrome {
	case spec.SyndromeAck:
		return spec.CounterTxAck
	case spec.SyndromeNakSequence:
		return spec.CounterTxNak
	case spec.SyndromeNakOperation:
		return spec.CounterTxFatal
	}
	return spec.CounterTxRNR
}

func (s *Scoreboard) expect(stream int, f Frame) {
	f.Stream = stream
	s.want[stream] = append(s.want[stream], f)
}

// count adds a record that was right to the counters that the engine's own must equal.
func (s *Scoreboard) count(r *spec.Record, ev engine.Event) {
	c := &s.stats.Counters
	if r.Cause == spec.CauseSend {
		k := timerKey{ev.Endpoint, engine.Retransmit}
		if t, ok := s.timers[k]; ok && t.sent == 0 && r.Clock >= t.due(s) {
			t.sent = r.Clock
			s.timers[k] = t
		}
	}
	if r.Verdict == spec.VerdictPoisoned {
		return // counted as such
	}
	switch r.Cause {
	case spec.CauseDrop:
		c[r.Verdict.Counter()]++
	case spec.CauseData:
		c[r.Verdict.Counter()]++
		s.countData(r)
	case spec.CauseAck:
		c[r.Verdict.Counter()]++
		if r.Verdict == spec.VerdictOk {
			c[spec.CounterRxAck]++
		}
	case spec.CauseNak:
		c[r.Verdict.Counter()]++
		switch {
		case r.Verdict != spec.VerdictOk:
		case ev.Packet.Syndrome&^0x1f == spec.SyndromeRNR:
			c[spec.CounterRxRNR]++
		default:
			c[spec.CounterRxNak]++
		}
	case spec.CauseCNP:
		c[r.Verdict.Counter()]++
		if r.Verdict == spec.VerdictOk {
			c[spec.CounterRxCNP]++
		}
	case spec.CauseAdvance:
		c[spec.CounterAdvance]++
	case spec.CauseRelease:
		c[spec.CounterRelease]++
		s.stats.Slots++
	case spec.CauseRecycle:
		c[spec.CounterRecycle]++
	case spec.CauseSend:
		c[spec.CounterTxData]++
	case spec.CauseResend:
		c[spec.CounterTxResend]++
	case spec.CauseForward:
		c[spec.CounterTxForward]++
	case spec.CauseTimer:
		c[spec.CounterTimer]++
	case spec.CauseRNRExpiry:
		c[spec.CounterRNRExpiry]++
	case spec.CauseBindDone:
		s.bound[int(r.PipeID)] = r.Clock
		c[spec.CounterBindDone]++
	case spec.CauseTableWrite:
		s.stats.TableWrites++
	}
}

func (s *Scoreboard) countData(r *spec.Record) {
	c, p := &s.stats.Counters, &s.cfg.Engine.Pipes[r.PipeID]
	complete := int(r.Degree) == len(p.Ins)
	switch {
	case r.Verdict == spec.VerdictDuplicate && p.Mode == 2 && complete:
		c[spec.CounterReplay]++
	case r.Verdict != spec.VerdictOk:
	case r.Groups&spec.GroupSlot == 0: // a copy
		c[spec.CounterRxData]++
		s.latency.completed(r)
	default:
		c[spec.CounterRxData]++
		if r.Degree == 1 {
			c[spec.CounterSlotStart]++
		}
		if complete {
			c[spec.CounterSlotComplete]++
			s.latency.completed(r)
		}
	}
}

// frameOut takes a frame that left, and compares what can be compared.
func (s *Scoreboard) frameOut(m *spec.FrameOut) error {
	stream := int(m.Stream)
	if stream != link.StreamTx && stream != link.StreamBypass {
		return s.differ(&Difference{What: "frame out", Field: "stream", Got: fmt.Sprint(m.Stream), Want: "0 or 1"}, nil)
	}
	f := Frame{Clock: m.First, Number: s.seen[stream], Stream: stream, Port: int(m.Port), Error: m.Error != 0, Bytes: m.Bytes}
	s.seen[stream]++
	if stream == link.StreamTx {
		s.latency.left(m.First)
		s.fences.left(m.Last)
	}
	s.got[stream] = append(s.got[stream], f)
	return nil
}

// match compares frames seen with frames expected, both in order.
func (s *Scoreboard) match() error {
	for stream := range s.want {
		want, got := s.want[stream], s.got[stream]
		n := min(len(want), len(got))
		for i := range n {
			if err := s.compareFrame(&got[i], &want[i]); err != nil {
				return err
			}
		}
		s.want[stream], s.got[stream] = drop(want, n), drop(got, n)
	}
	return nil
}

// drop removes the first n frames of a queue without keeping their bytes alive.
func drop(q []Frame, n int) []Frame {
	clear(q[:n])
	return q[n:]
}

func (s *Scoreboard) compareFrame(got, want *Frame) error {
	d := Difference{What: fmt.Sprintf("frame %d on %s", got.Number, streamName(got.Stream)), Clock: got.Clock}
	switch {
	case got.Port != want.Port:
		d.Field, d.Got, d.Want = "port", fmt.Sprint(got.Port), fmt.Sprint(want.Port)
	case got.Error != want.Error:
		d.Field, d.Got, d.Want = "tuser", fmt.Sprint(got.Error), fmt.Sprint(want.Error)
	case !slices.Equal(got.Bytes, want.Bytes):
		d.Field, d.Got, d.Want = bytesDiffer(got.Bytes, want.Bytes)
	default:
		s.stats.FramesOut++
		s.stats.ComparedBytes += uint64(len(got.Bytes))
		if got.Stream == link.StreamBypass {
			s.stats.Bypassed++
		}
		return nil
	}
	d.GotBytes, d.WantBytes = got.Bytes, want.Bytes
	return s.differ(&d, nil)
}

func bytesDiffer(got, want []byte) (field, g, w string) {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("byte %d (%s)", i, roce.FieldAt(want, i)), fmt.Sprintf("%#02x", got[i]), fmt.Sprintf("%#02x", want[i])
		}
	}
	return "length", fmt.Sprintf("%d bytes", len(got)), fmt.Sprintf("%d bytes", len(want))
}

func streamName(stream int) string {
	switch stream {
	case In:
		return "s_axis_rx"
	case link.StreamTx:
		return "m_axis_tx"
	}
	return "m_axis_bypass"
}

// due is the first clock in which the timer's expiry may be committed.
func (t timer) due(s *Scoreboard) uint64 { return t.armed + uint64(t.ticks)*s.cfg.TickClocks }

func (s *Scoreboard) setTimer(o *engine.Output, clock uint64) {
	k := timerKey{o.Endpoint, o.Timer.Kind}
	if !o.Timer.Arm {
		delete(s.timers, k)
		return
	}
	s.timers[k] = timer{armed: clock, ticks: o.Timer.Ticks}
}

// expiry checks the time of a timer or rnr_expiry record.
func (s *Scoreboard) expiry(r *spec.Record, endpoint int) *Difference {
	kind := engine.Retransmit
	switch r.Cause {
	case spec.CauseTimer:
	case spec.CauseRNRExpiry:
		kind = engine.RNRWait
	default:
		return nil
	}
	k := timerKey{endpoint, kind}
	t, ok := s.timers[k]
	if !ok {
		return nil // golden.Legal says so better
	}
	delete(s.timers, k)
	due := t.due(s)
	if latest := s.latest(endpoint, t); r.Clock < due || r.Clock > latest {
		return &Difference{What: "record", Field: "clock", Got: fmt.Sprint(r.Clock),
			Want: fmt.Sprintf("%d..%d: armed at %d for %d ticks of %d clocks", due, latest, t.armed, t.ticks, s.cfg.TickClocks)}
	}
	return nil
}

// latest is the last clock at which a timer may expire. The keeping walk leaves out a pipe that binds. A timer that is
// due while a result leaves there whose last contribution is still arriving waits for the record of that send.
func (s *Scoreboard) latest(endpoint int, t timer) uint64 {
	p := s.golden.Config().Endpoints[endpoint].OutPipe
	if s.golden.PipeState(p).Binding {
		return math.MaxUint64
	}
	return max(t.due(s), s.bound[p], t.sent) + s.TimerSlack()
}

// overdue checks that no timer has been forgotten.
func (s *Scoreboard) overdue(clock uint64) error {
	for k, t := range s.timers {
		if len(s.in) > 0 && t.due(s) >= s.in[0].Clock {
			continue // that frame may be arriving, and its result leaving: expiry judges when it comes
		}
		if latest := s.latest(k.endpoint, t); clock > latest {
			what := "retransmission timer"
			if k.kind == engine.RNRWait {
				what = "RNR wait"
			}
			return s.differ(&Difference{What: fmt.Sprintf("%s of endpoint entry %d", what, s.entry[k.endpoint]), Field: "clock",
				Clock: clock, Got: "no expiry", Want: fmt.Sprintf("one by clock %d: armed at %d for %d ticks of %d clocks",
					latest, t.armed, t.ticks, s.cfg.TickClocks)}, nil)
		}
	}
	return nil
}
