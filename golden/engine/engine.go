package engine

import (
	"fmt"
	"iter"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// Event is one thing that happens to an engine. Which fields count depends on Cause:
//
//	frame (spec.CauseDrop)   Port, Packet, Verdict
//	forward                  none: the oldest that waits leaves
//	advance, aggregate,
//	ack_out                  Endpoint (of an in)
//	send, resend,
//	timer, rnr_expiry        Endpoint (of an out)
//	send, forward, Verdict
//	poisoned                 Endpoint (of an out), Port, Packet (see poison)
//	release, error,
//	bind_done                Pipe
//	recycle                  Pipe, PSN
//	bind_step                Pipe, Slot
//	table_write              Endpoint or Pipe, the other None; Remove, NewEndpoint, NewPipe, Quiesce, Unquiesce
type Event struct {
	Cause spec.Cause // of a frame: spec.CauseDrop, the engine finds out which it is

	Port   int          // ingress port of a frame
	Packet *roce.Packet // decoded frame; the engine keeps nothing of it. nil if it did not decode
	// Verdict is the wire stage's of a frame, ok if Packet is to be looked at; or tx_full: Packet is to be
	// refused because what it would make leave has no room. Of a send or forward: ok or poisoned.
	Verdict spec.Verdict

	Endpoint, Pipe int
	PSN            psn.PSN // recycle: the new psnStart
	Slot           int     // bind_step

	// table_write: what is written. Without any of them it is the entry that New was given, or that
	// was written last.
	Remove      bool // the entry becomes invalid; endpoints only
	NewEndpoint *Endpoint
	NewPipe     *Pipe
	// These write the pipe's quiesced bit (table pipe_ctl), to 1 and to 0, and nothing else.
	Quiesce, Unquiesce bool
}

// String names the event and the fields that count, for messages.
func (ev Event) String() string {
	switch ev.Cause {
	case spec.CauseDrop:
		return fmt.Sprintf("frame(port %d, %v)", ev.Port, ev.Verdict)
	case spec.CauseAdvance, spec.CauseAggregate, spec.CauseAckOut, spec.CauseSend, spec.CauseResend, spec.CauseTimer, spec.CauseRNRExpiry:
		return fmt.Sprintf("%v(endpoint %d)", ev.Cause, ev.Endpoint)
	case spec.CauseRecycle:
		return fmt.Sprintf("recycle(pipe %d, psn %v)", ev.Pipe, ev.PSN)
	case spec.CauseBindStep:
		return fmt.Sprintf("bind_step(pipe %d, slot %d)", ev.Pipe, ev.Slot)
	case spec.CauseTableWrite:
		return fmt.Sprintf("table_write(endpoint %d, pipe %d)", ev.Endpoint, ev.Pipe)
	case spec.CauseForward:
		return "forward"
	}
	return fmt.Sprintf("%v(pipe %d)", ev.Cause, ev.Pipe)
}

// OutputKind says what an Output is.
type OutputKind uint8

// The kinds of output.
const (
	Retire   OutputKind = iota // what was done; one per event, always the first output of a Step
	Frame                      // a frame leaves on a port
	Bypass                     // the frame of the event goes to the bypass port, whole and unchanged
	SetTimer                   // a timer is armed or stopped
)

// Output is one thing that came of an event.
type Output struct {
	Kind     OutputKind
	Record   spec.Record  // Retire: Clock and Frame are left 0
	Endpoint int          // Frame, SetTimer
	Port     int          // Frame: egress; Bypass: ingress
	Packet   *roce.Packet // Frame: the caller's to keep, but its payload is shared and must not be written
	Poisoned bool         // Frame: it leaves with its ICRC inverted, and tuser 1
	Timer    Timer        // SetTimer
}

// TimerKind tells the two timers of an out-endpoint apart.
type TimerKind uint8

// The timers.
const (
	Retransmit TimerKind = iota // its expiry is the event timer
	RNRWait                     // its expiry is the event rnr_expiry
)

// Timer is an order to whoever keeps the time. Arming an armed timer starts it again.
type Timer struct {
	Kind  TimerKind
	Arm   bool // false: stop it
	Ticks int  // of 10 us, when armed
}

// inState is what an endpoint remembers as an in (record group rx).
type inState struct {
	ePSN     psn.PSN // next psn expected; all before it have arrived
	msn      uint32  // Last/Only packets below ePSN, mod 2^24
	nakSent  bool    // the gap or the wait at ePSN has been answered
	ackKind  spec.AckKind
	ackCount int // advances since the last ACK was asked for
}

// outState is what an endpoint remembers as an out (record group tx).
type outState struct {
	lastAcked  psn.PSN
	cursor     psn.PSN // next psn to send
	sentMax    psn.PSN // newest psn ever sent
	retries    int     // timeouts since the last progress
	timerArmed bool
	rnrWait    bool
	failed     bool // ep_error
}

type endpointState struct {
	valid bool
	in    inState
	out   outState
	fatal uint8 // syndrome of the fatal NAK that put it in error, 0 if none did
	least leastState
	// receive is the buffer of an in of a Mode-I pipe.
	receive message
}

// meta is what a slot remembers of its contributions beside the payload.
type meta struct {
	opcode    spec.Opcode
	plen      int
	imm       uint32 // 0 if the opcode has none
	offset    uint64 // RETH: VA less inVA; 0 if the opcode has none, like the next
	dmaLength uint32 // RETH
	se        bool   // OR over the contributions, like the two below
	ce        bool
	ackReq    bool
	control   bool // a control signal: compared, not added
	op        spec.Op
	dtype     spec.DType
}

// slot is one place of the aggregation buffer. Once it is complete its payload is not written again:
// a slot that starts takes a new array, so a result may be shared with frames and clones.
type slot struct {
	valid   bool
	tag     uint32 // psn / N
	bitmap  uint64 // which ins have contributed
	degree  int    // how many: the ones in bitmap
	meta    meta
	payload []byte
	copies  [][]byte // of a reproducible pipe, by in-index, until the slot is complete; each written once
}

type pipeState struct {
	valid    bool // written
	binding  bool
	bindNext int // next slot to clear while binding
	psnStart psn.PSN
	nextSend psn.PSN // Mode-II: C, 1 + the highest psn completed
	failed   bool    // pipe_error
	fault    Fault
	slots    []slot
	quiesced bool
	window   window
	sum      sum // of Mode-I, which has no slots
}

// Fault is the first cause of a pipe's error, for whoever has to repair it.
type Fault struct {
	Kind        spec.ErrorKind // none: the pipe is in order
	Endpoint    int
	PSN         psn.PSN
	Got, Wanted uint32 // as the kind's text in the spec says
}

// Engine is one IncEngine. It is not safe for concurrent use.
type Engine struct {
	cfg       Config
	space     psn.Space
	byQPN     map[uint32]int // looked up by key only
	endpoints []endpointState
	pipes     []pipeState
	forwards  []forward // of Mode-II pipes, the oldest first
	step, run []Output  // reused by Step and Run
}

// New returns an engine as it is after power-up: it has the entries of cfg at hand, but none is
// written yet, so it takes no frame. Program writes all; a scoreboard steps each table_write.
func New(cfg Config) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	for i, p := range cfg.Pipes {
		if err := cfg.reducible(p.DType, p.Op); err != nil && len(p.Ins) > 1 && !p.Unpinned {
			return nil, fmt.Errorf("engine %q: %s: %w", cfg.Name, cfg.pipeName(i), err)
		}
	}
	space, err := psn.NewSpace(cfg.psnBits())
	if err != nil {
		return nil, fmt.Errorf("engine %q: %w", cfg.Name, err)
	}
	e := &Engine{
		cfg:       cfg.clone(),
		space:     space,
		endpoints: make([]endpointState, len(cfg.Endpoints)),
		pipes:     make([]pipeState, len(cfg.Pipes)),
	}
	e.index()
	return e, nil
}

func (e *Engine) index() {
	e.byQPN = make(map[uint32]int, len(e.cfg.Endpoints))
	for i, ep := range e.cfg.Endpoints {
		e.byQPN[ep.QPN] = i
	}
}

// Program writes every entry, endpoints first, and binds all pipes to the end: afterwards the engine
// takes data. Nothing leaves an engine while it is programmed, so there is nothing to return.
func (e *Engine) Program() {
	for i := range e.endpoints {
		e.Step(Event{Cause: spec.CauseTableWrite, Endpoint: i, Pipe: None})
	}
	for p := range e.pipes {
		e.Step(Event{Cause: spec.CauseTableWrite, Endpoint: None, Pipe: p})
		for s := range e.pipes[p].slots {
			e.Step(Event{Cause: spec.CauseBindStep, Pipe: p, Slot: s})
		}
		e.Step(Event{Cause: spec.CauseBindDone, Pipe: p})
	}
}

// PipeState returns what table pipe_state shows of a pipe.
func (e *Engine) PipeState(pipe int) spec.PipeState {
	st := &e.pipes[pipe]
	s := spec.PipeState{
		PSNStart: uint32(st.psnStart), NextSend: uint32(st.nextSend), Binding: st.binding, PipeError: st.failed,
		Bound: st.valid && !st.binding, Quiesced: st.quiesced, Op: st.window.op, DType: st.window.dtype,
	}
	if e.cfg.Pipes[pipe].Mode == 2 {
		s.Incomplete = uint16(e.incomplete(pipe))
	}
	if e.cfg.Pipes[pipe].Unpinned {
		s.ControlPSN = uint32(st.window.control)
	}
	return s
}

// Config returns the entries as they are now. The caller must not change what it points to.
func (e *Engine) Config() Config { return e.cfg }

// Fault returns the first cause of a pipe's error.
func (e *Engine) Fault(pipe int) Fault { return e.pipes[pipe].fault }

// Drained says that a pipe holds nothing that anyone waits for, so that it may be written again
// (protocol.md 9). Mode-I and III: nextSend == psnStart and every ePSN == nextSend. Mode-II: it is quiesced and
// no started slot is incomplete.
func (e *Engine) Drained(pipe int) bool {
	p := &e.pipes[pipe]
	if e.cfg.Pipes[pipe].Mode == 2 {
		return p.quiesced && e.incomplete(pipe) == 0
	}
	if p.psnStart != p.nextSend {
		return false
	}
	for _, i := range e.cfg.Pipes[pipe].Ins {
		if e.endpoints[i].valid && e.endpoints[i].in.ePSN != p.nextSend {
			return false
		}
	}
	return true
}

// Step does one event, which must be Legal, and returns what came of it: the record first. The slice
// is used again by the next Step.
func (e *Engine) Step(ev Event) []Output {
	e.step = append(e.step[:0], Output{Kind: Retire, Record: spec.Record{Cause: ev.Cause}})
	if ev.poisons() {
		e.poison(ev)
		return e.step
	}
	switch ev.Cause {
	case spec.CauseDrop:
		e.frame(ev)
	case spec.CauseAdvance:
		e.advance(ev.Endpoint)
	case spec.CauseAggregate:
		e.addMessage(ev.Endpoint)
	case spec.CauseRelease:
		e.release(ev.Pipe)
	case spec.CauseRecycle:
		e.recycle(ev.Pipe, ev.PSN)
	case spec.CauseSend, spec.CauseResend:
		e.send(ev.Endpoint)
	case spec.CauseAckOut:
		e.ackOut(ev.Endpoint)
	case spec.CauseForward:
		e.forward()
	case spec.CauseTimer:
		e.timer(ev.Endpoint)
	case spec.CauseRNRExpiry:
		e.rnrExpiry(ev.Endpoint)
	case spec.CauseError:
		e.pipeError(ev.Pipe)
	case spec.CauseBindStep:
		e.bindStep(ev.Pipe, ev.Slot)
	case spec.CauseBindDone:
		e.bindDone(ev.Pipe)
	case spec.CauseTableWrite:
		e.tableWrite(ev)
	}
	return e.step
}

// Run steps an event and then every internal event that becomes enabled, the first of Enabled each
// time, until there is none. The slice is used again by the next Run.
func (e *Engine) Run(ev Event) []Output {
	e.run = append(e.run[:0], e.Step(ev)...)
	for {
		next, ok := e.firstEnabled()
		if !ok {
			return e.run
		}
		e.run = append(e.run, e.Step(next)...)
	}
}

// Enabled lists the internal events that may happen now, in a fixed order: pipes (binding, error,
// release, recycle), then advance or aggregate, then send or resend, then ack_out, each by index, then forward. Timers
// and table writes are not among them; recycle is there once a pipe, to the furthest.
func (e *Engine) Enabled() []Event {
	var evs []Event
	for ev := range e.enabled() {
		evs = append(evs, ev)
	}
	return evs
}

func (e *Engine) firstEnabled() (Event, bool) {
	for ev := range e.enabled() {
		return ev, true
	}
	return Event{}, false
}

func (e *Engine) enabled() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for p := range e.pipes {
			if !e.enabledPipe(p, yield) {
				return
			}
		}
		for i := range e.endpoints {
			if e.canAdvance(i) && !yield(Event{Cause: spec.CauseAdvance, Endpoint: i}) {
				return
			}
			if e.canAdd(i) && !yield(Event{Cause: spec.CauseAggregate, Endpoint: i}) {
				return
			}
		}
		for i := range e.endpoints {
			if e.canSend(i) && !yield(Event{Cause: e.sendCause(i), Endpoint: i}) {
				return
			}
		}
		for i := range e.endpoints {
			if e.canAckOut(i) && !yield(Event{Cause: spec.CauseAckOut, Endpoint: i}) {
				return
			}
		}
		if len(e.forwards) > 0 {
			yield(Event{Cause: spec.CauseForward})
		}
	}
}

func (e *Engine) enabledPipe(p int, yield func(Event) bool) bool {
	st := &e.pipes[p]
	if st.binding {
		if st.bindNext < len(st.slots) {
			return yield(Event{Cause: spec.CauseBindStep, Pipe: p, Slot: st.bindNext})
		}
		return yield(Event{Cause: spec.CauseBindDone, Pipe: p})
	}
	if e.canError(p) && !yield(Event{Cause: spec.CauseError, Pipe: p}) {
		return false
	}
	if e.canRelease(p) && !yield(Event{Cause: spec.CauseRelease, Pipe: p}) {
		return false
	}
	if s, ok := e.recycleLimit(p); ok && e.space.Less(st.psnStart, s) {
		return yield(Event{Cause: spec.CauseRecycle, Pipe: p, PSN: s})
	}
	return true
}

// Legal returns nil if the event may happen now, otherwise an error that says why not.
func (e *Engine) Legal(ev Event) error {
	if err := e.legal(ev); err != nil {
		return fmt.Errorf("engine %q: %v: %w", e.cfg.Name, ev, err)
	}
	return nil
}

func (e *Engine) legal(ev Event) error {
	if ev.poisons() {
		_, err := e.spoiled(ev)
		return err
	}
	switch ev.Cause {
	case spec.CauseDrop:
		if ev.Port < 0 || ev.Port >= MaxPorts {
			return fmt.Errorf("got port %d, want 0..%d", ev.Port, MaxPorts-1)
		}
		if ev.Verdict == spec.VerdictOk && ev.Packet == nil {
			return fmt.Errorf("got verdict %v without a packet", ev.Verdict)
		}
		if ev.Verdict == spec.VerdictTxFull {
			return e.legalRefusal(ev)
		}
		return nil
	case spec.CauseForward:
		if len(e.forwards) == 0 {
			return fmt.Errorf("nothing waits to be forwarded")
		}
		return nil
	case spec.CauseTableWrite:
		return e.legalWrite(ev)
	case spec.CauseAdvance, spec.CauseAggregate, spec.CauseSend, spec.CauseResend, spec.CauseAckOut, spec.CauseTimer, spec.CauseRNRExpiry:
		if ev.Endpoint < 0 || ev.Endpoint >= len(e.endpoints) {
			return fmt.Errorf("got endpoint %d, want 0..%d", ev.Endpoint, len(e.endpoints)-1)
		}
		return e.legalEndpoint(ev)
	case spec.CauseRelease, spec.CauseRecycle, spec.CauseError, spec.CauseBindStep, spec.CauseBindDone:
		if ev.Pipe < 0 || ev.Pipe >= len(e.pipes) {
			return fmt.Errorf("got pipe %d, want 0..%d", ev.Pipe, len(e.pipes)-1)
		}
		return e.legalPipe(ev)
	}
	return fmt.Errorf("an engine has no such event of its own")
}

func (e *Engine) legalEndpoint(ev Event) error {
	st := &e.endpoints[ev.Endpoint]
	switch ev.Cause {
	case spec.CauseAdvance:
		if !e.canAdvance(ev.Endpoint) {
			return fmt.Errorf("ePSN %v has not arrived there, or its pipe takes no data", st.in.ePSN)
		}
	case spec.CauseAggregate:
		if !e.canAdd(ev.Endpoint) {
			return fmt.Errorf("no whole message is there, or it is not the turn of it in the order of the ins")
		}
	case spec.CauseSend, spec.CauseResend:
		if !e.canSend(ev.Endpoint) {
			return fmt.Errorf("nothing to send: cursor %v, rnrWait %v, ep_error %v, %s",
				st.out.cursor, st.out.rnrWait, st.out.failed, e.describePipe(e.outPipe(ev.Endpoint)))
		}
		if e.sendCause(ev.Endpoint) != ev.Cause {
			return fmt.Errorf("psn %v with sentMax %v is the other of send and resend", st.out.cursor, st.out.sentMax)
		}
	case spec.CauseAckOut:
		if !e.canAckOut(ev.Endpoint) {
			return fmt.Errorf("no ACK or NAK is pending")
		}
	case spec.CauseTimer:
		if !st.out.timerArmed {
			return fmt.Errorf("the retransmission timer is not armed")
		}
	case spec.CauseRNRExpiry:
		if !st.out.rnrWait {
			return fmt.Errorf("it does not wait after an RNR NAK")
		}
	}
	return nil
}

func (e *Engine) legalPipe(ev Event) error {
	st := &e.pipes[ev.Pipe]
	switch ev.Cause {
	case spec.CauseRelease:
		if !e.canRelease(ev.Pipe) {
			return fmt.Errorf("nextSend %v is not complete, or an in has a gap below it", st.nextSend)
		}
	case spec.CauseRecycle:
		limit, ok := e.recycleLimit(ev.Pipe)
		if !ok || !e.space.Less(st.psnStart, ev.PSN) || !e.space.LessEq(ev.PSN, limit) {
			return fmt.Errorf("psnStart is %v and min(lastAcked)+1 is %v", st.psnStart, limit)
		}
	case spec.CauseError:
		if !e.canError(ev.Pipe) {
			return fmt.Errorf("no out is in error, or the pipe is already")
		}
	case spec.CauseBindStep:
		if !st.binding || ev.Slot != st.bindNext || ev.Slot >= len(st.slots) {
			return fmt.Errorf("binding is %v, %d of %d slots cleared", st.binding, st.bindNext, len(st.slots))
		}
	case spec.CauseBindDone:
		if !st.binding || st.bindNext < len(st.slots) {
			return fmt.Errorf("binding is %v, %d of %d slots cleared", st.binding, st.bindNext, len(st.slots))
		}
	}
	return nil
}

func (e *Engine) describePipe(p int) string {
	if p == None {
		return "no pipe"
	}
	st := &e.pipes[p]
	return fmt.Sprintf("nextSend %v, pipe_error %v, binding %v", st.nextSend, st.failed, st.binding)
}

// inPipe returns the pipe that takes data from endpoint i, None if it is not there.
func (e *Engine) inPipe(i int) int { return e.attached(i, e.cfg.Endpoints[i].InPipe) }

// outPipe returns the pipe whose results leave at endpoint i, None if it is not there.
func (e *Engine) outPipe(i int) int { return e.attached(i, e.cfg.Endpoints[i].OutPipe) }

func (e *Engine) attached(i, p int) int {
	if p == None || !e.endpoints[i].valid || !e.pipes[p].valid {
		return None
	}
	return p
}

// running says that a pipe of Mode-I or III is written and bound, so that its internal events may happen.
func (e *Engine) running(p int) bool {
	return p != None && e.cfg.Pipes[p].Mode != 2 && e.pipes[p].valid && !e.pipes[p].binding
}

// slotAt returns the slot of psn in pipe p, and whether it belongs to psn (protocol.md 4).
func (e *Engine) slotAt(p int, psn psn.PSN) (*slot, bool) {
	s := &e.pipes[p].slots[e.slotIndex(p, psn)]
	return s, s.valid && (s.tag == e.tag(p, psn) || e.mistaken(ClearAhead))
}

// slotIndex is psn mod N, tag psn / N; N divides the space.
func (e *Engine) slotIndex(p int, psn psn.PSN) int { return int(psn) % e.cfg.Pipes[p].N }

func (e *Engine) tag(p int, psn psn.PSN) uint32 { return uint32(psn) / uint32(e.cfg.Pipes[p].N) }

// record is the Retire output of the event that is being done.
func (e *Engine) record() *spec.Record { return &e.step[0].Record }

// retire says in the record where the event happened.
func (e *Engine) retire(pipe, endpoint int, psn psn.PSN) {
	r := e.record()
	r.PipeID = uint32(pipe)
	r.Endpoint = uint32(endpoint)
	r.PSN = uint32(psn)
	if e.cfg.Pipes[pipe].Mode != 1 {
		r.Slot = uint32(e.slotIndex(pipe, psn))
	}
}

func (e *Engine) retireRx(i int) {
	r, in := e.record(), &e.endpoints[i].in
	r.Groups |= spec.GroupRx
	r.EPSN = uint32(in.ePSN)
	r.MSN = in.msn
	r.NakSent = bit(in.nakSent)
	r.AckKind = in.ackKind
}

func (e *Engine) retireTx(i int) {
	r, out := e.record(), &e.endpoints[i].out
	r.Groups |= spec.GroupTx
	r.LastAcked = uint32(out.lastAcked)
	r.Cursor = uint32(out.cursor)
	r.SentMax = uint32(out.sentMax)
	r.Retries = uint32(out.retries)
	r.TimerArmed = bit(out.timerArmed)
	r.RNRWait = bit(out.rnrWait)
	r.EpError = bit(out.failed)
	if p := e.cfg.Endpoints[i].OutPipe; p != None && e.cfg.Pipes[p].Mode == 2 {
		least := &e.endpoints[i].least
		r.Cursor, r.SentMax, r.RNRWait = least.msn, uint32(least.nakPSN), bit(least.nakPending)
	}
}

func (e *Engine) retirePipe(p int) {
	r, st := e.record(), &e.pipes[p]
	r.Groups |= spec.GroupPipe
	r.PSNStart = uint32(st.psnStart)
	r.NextSend = uint32(st.nextSend)
	r.PipeError = bit(st.failed)
	if e.cfg.Pipes[p].Unpinned {
		r.ControlPSN = uint32(st.window.control)
	}
}

func (e *Engine) retireSlot(s *slot) {
	r := e.record()
	r.Groups |= spec.GroupSlot
	if s.valid {
		r.SlotValid = 1
		r.Tag = s.tag
		r.Bitmap = s.bitmap
		r.Degree = uint32(s.degree)
	}
}

func bit(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
