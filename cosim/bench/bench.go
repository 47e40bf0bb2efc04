// Package bench measures the RTL engine: its latency with empty queues, and how busy its ports are when
// the peers offer more than it can take. The peers are golden's hosts, without a network between: what
// the engine sends reaches them at once. Golden steps along and checks every record and byte, so what is
// measured is known to be right.
package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/epic-inc/epic/cosim/scoreboard"
	"github.com/epic-inc/epic/cosim/server"
	"github.com/epic-inc/epic/driver/table"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/reduce"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// Case is what one row measures: a collective at one switch.
type Case struct {
	Sim          string // path of inc_sim
	DataW        int
	Mode         int
	Collective   string // allreduce, reduce, broadcast
	Ranks        int
	DType        spec.DType
	Op           spec.Op
	Payload      int // bytes of every packet, 0..4096; 0: Barriers
	Reproducible bool
	Seed         uint64
}

// Row is what was measured. Efficiency is the part of the clocks with a beat on the busier of the two
// sides, rx and tx, in a stretch in which the peers always have more to send; acknowledgements count.
type Row struct {
	DataW           int     `json:"data_w"`
	Mode            int     `json:"mode"`
	Collective      string  `json:"collective"`
	Ranks           int     `json:"ranks"`
	DType           string  `json:"dtype"`
	Op              string  `json:"op"`
	Payload         int     `json:"payload"`
	Reproducible    bool    `json:"reproducible"`
	LatencyClocks   uint64  `json:"latency_clocks"` // the longest of LatencySamples
	LatencyMin      uint64  `json:"latency_min"`
	LatencySamples  int     `json:"latency_samples"`
	Efficiency      float64 `json:"efficiency"`
	RxBusy          float64 `json:"rx_busy"`
	TxBusy          float64 `json:"tx_busy"`
	ClocksPerPacket float64 `json:"clocks_per_packet"` // of the side with more packets
	Clocks          uint64  `json:"clocks"`            // of the stretch
}

const (
	latencySamples = 12
	quantum        = 64   // clocks granted at a time
	quietClocks    = 1024 // without anything at all: the queues are empty
	warmUpPSNs     = 64
	measuredClocks = 20_000
	pool           = 128 << 10 // bytes of slots, at most
	maxSlots       = 256
	stuckClocks    = 200_000
)

// Measure runs a case.
func Measure(ctx context.Context, c Case) (row *Row, err error) {
	b, err := start(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("bench rtl: %s: %w", c, err)
	}
	defer func() {
		if cerr := b.engine.Close(); err == nil && cerr != nil {
			err = cerr
		}
	}()
	row = &Row{DataW: c.DataW, Mode: c.Mode, Collective: c.Collective, Ranks: c.Ranks, DType: c.DType.String(), Op: c.Op.String(),
		Payload: c.Payload, Reproducible: c.Reproducible}
	if c.Payload == 0 {
		row.Collective = "barrier"
	}
	if err := b.latency(ctx, row); err != nil {
		return nil, fmt.Errorf("bench rtl: %s: latency: %w", c, err)
	}
	if err := b.saturate(ctx, row); err != nil {
		return nil, fmt.Errorf("bench rtl: %s: efficiency: %w", c, err)
	}
	if err := b.board.Finish(ctx, b.tables); err != nil {
		return nil, fmt.Errorf("bench rtl: %s: %w", c, err)
	}
	return row, nil
}

// String names a case in messages.
func (c Case) String() string {
	return fmt.Sprintf("%d bits, mode %d, %s of %d ranks, %v %v, %d bytes", c.DataW, c.Mode, c.Collective, c.Ranks, c.DType, c.Op, c.Payload)
}

// peer is a rank's queue pair and what it has to send.
type peer struct {
	qp      *host.QP
	port    int
	sends   bool
	payload []byte
	posted  uint64
	unsent  int      // posted and not completed
	window  int      // most of them
	outbox  [][]byte // frames on their way, in order
}

type bench struct {
	c      Case
	engine *server.Engine
	board  *scoreboard.Scoreboard
	tables *table.Engine
	peers  []*peer
	byPort map[int]*peer

	turn     int
	inFlight []int // beats of the frames driven and not accepted, in order
	backlog  int   // their sum
	headers  []uint64
	results  []uint64 // clocks of the first beats of results
	packets  [2]uint64
	last     *server.Window
	quietAt  uint64 // clock since when nothing has happened
}

func start(ctx context.Context, c Case) (*bench, error) {
	o := group.DefaultOptions()
	o.Ranks, o.Collective, o.Mode, o.DType, o.Op = c.Ranks, c.Collective, c.Mode, c.DType, c.Op
	mtus := roce.MTUs()
	fits := slices.IndexFunc(mtus, func(u int) bool { return u >= c.Payload })
	if fits < 0 {
		return nil, fmt.Errorf("payload: got %d bytes, want 0..%d", c.Payload, mtus[len(mtus)-1])
	}
	element, err := reduce.ElementBytes(c.DType)
	if err != nil {
		return nil, err
	}
	if c.Payload%element != 0 {
		return nil, fmt.Errorf("payload: got %d bytes, want whole elements of %d bytes", c.Payload, element)
	}
	o.MTU = mtus[fits]
	o.MessagePackets = 1
	o.Slots = maxSlots
	copies := 1
	if c.Reproducible {
		copies = c.Ranks
	}
	for o.Slots*copies*o.MTU > pool && o.Slots > 4 {
		o.Slots /= 2
	}
	o.Reproducible = c.Reproducible
	o.TimeoutTicks = 1 << 19 // nothing is lost
	g, err := group.Generate(o)
	if err != nil {
		return nil, err
	}
	sw := g.Switches[0].Name
	cfg, err := g.EngineConfig(sw)
	if err != nil {
		return nil, err
	}
	b := &bench{c: c, byPort: map[int]*peer{}, last: &server.Window{}}
	for r := range g.Ranks {
		hc, err := g.HostConfig(r, 0)
		if err != nil {
			return nil, err
		}
		qp, err := host.New(hc)
		if err != nil {
			return nil, err
		}
		_, e, err := g.RankPeer(r, 0)
		if err != nil {
			return nil, err
		}
		ep := cfg.Endpoints[e]
		p := &peer{qp: qp, port: ep.Port, sends: ep.InPipe >= 0, window: o.Slots / 2, payload: make([]byte, c.Payload)}
		for i := range p.payload {
			p.payload[i] = byte(1 + r)
		}
		for range 2 * o.Slots {
			b.do(p, host.Event{Kind: host.PostRecv, Receive: host.Receive{Bytes: o.MTU}})
		}
		b.peers = append(b.peers, p)
		b.byPort[p.port] = p
	}
	if b.engine, err = server.Start(ctx, server.Options{Binary: c.Sim, Seed: c.Seed}); err != nil {
		return nil, err
	}
	fail := func(err error) (*bench, error) { return nil, errors.Join(err, b.engine.Close()) }
	params := b.engine.Params()
	if params.DataW != c.DataW {
		return fail(fmt.Errorf("simulator %s: built for %d bits, want %d", c.Sim, params.DataW, c.DataW))
	}
	if c.Ranks > params.Ports {
		return fail(fmt.Errorf("ranks: got %d, want at most the %d ports of the simulator", c.Ranks, params.Ports))
	}
	if b.board, err = scoreboard.New(scoreboard.Config{Engine: cfg, Entries: params.Endpoints,
		TickClocks: uint64(g.Clock.PerTick), Seed: c.Seed}); err != nil {
		return fail(err)
	}
	if b.tables, err = table.Open(ctx, b.engine); err != nil {
		return fail(err)
	}
	if err := b.tables.SetTickClocks(ctx, uint32(g.Clock.PerTick)); err != nil {
		return fail(err)
	}
	if _, err := b.tables.Program(ctx, cfg); err != nil {
		return fail(err)
	}
	if err := b.window(ctx); err != nil {
		return fail(err)
	}
	return b, nil
}

// do lets a peer's queue pair do one event; what it sends waits in its outbox.
func (b *bench) do(p *peer, ev host.Event) {
	for _, o := range slices.Clone(p.qp.Run(ev)) {
		switch {
		case o.Kind == host.Frame:
			p.outbox = append(p.outbox, o.Packet.Encode())
		case o.Kind == host.Complete && o.Completion.Recv:
			b.do(p, host.Event{Kind: host.PostRecv, Receive: host.Receive{Bytes: max(1, len(p.payload))}})
		case o.Kind == host.Complete:
			p.unsent--
		}
	}
}

func (b *bench) post(p *peer) {
	p.posted++
	p.unsent++
	b.do(p, host.Event{Kind: host.PostSend, Message: host.Message{ID: p.posted, Payload: p.payload}})
}

// drive offers the peers' frames in turn until `beats` wait at the engine.
func (b *bench) drive(beats int) error {
	idle := 0
	for b.backlog < beats && idle < len(b.peers) {
		p := b.peers[b.turn]
		b.turn = (b.turn + 1) % len(b.peers)
		if len(p.outbox) == 0 {
			idle++
			continue
		}
		idle = 0
		frame := p.outbox[0]
		p.outbox = p.outbox[1:]
		at := b.engine.Granted()
		if _, err := b.engine.Drive(at, p.port, frame, false); err != nil {
			return err
		}
		b.board.Drive(at, p.port, frame, false)
		n := (8*len(frame) + b.c.DataW - 1) / b.c.DataW
		b.inFlight = append(b.inFlight, n)
		b.backlog += n
	}
	return nil
}

// quantum drives, grants and takes one quantum.
func (b *bench) quantum(ctx context.Context) error {
	if err := b.drive(3 * quantum); err != nil {
		return err
	}
	if err := b.engine.Grant(b.engine.Granted() + quantum); err != nil {
		return err
	}
	return b.window(ctx)
}

func (b *bench) window(ctx context.Context) error {
	w, err := b.engine.Window(ctx)
	if d := b.board.Window(w); d != nil {
		return d
	}
	if err != nil {
		return err
	}
	if len(w.Accepted)+len(w.Frames)+len(w.Records) > 0 {
		b.quietAt = w.Clock
	}
	for _, a := range w.Accepted {
		b.headers = append(b.headers, a.Header)
		b.backlog -= b.inFlight[0]
		b.inFlight = b.inFlight[1:]
	}
	b.packets[0] += uint64(len(w.Accepted))
	for i := range w.Frames {
		f := &w.Frames[i]
		if f.Stream != 0 {
			return fmt.Errorf("a frame of %d bytes went to the bypass port", len(f.Bytes))
		}
		b.packets[1]++
		pkt, bad := roce.Decode(f.Bytes)
		if bad != nil {
			return fmt.Errorf("the engine sent a frame that does not decode: %w", bad)
		}
		if !pkt.HasAETH() {
			b.results = append(b.results, f.First)
		}
		p, ok := b.byPort[int(f.Port)]
		if !ok {
			return fmt.Errorf("the engine sent a frame to port %d, where nobody is", f.Port)
		}
		b.do(p, host.Event{Kind: host.Deliver, Packet: pkt})
	}
	b.last = w
	return nil
}

// settle runs until the queues are empty.
func (b *bench) settle(ctx context.Context) error {
	from := b.last.Clock
	b.quietAt = from
	for b.last.Clock-b.quietAt < quietClocks || b.waiting() {
		if b.last.Clock-from > stuckClocks {
			return fmt.Errorf("after %d clocks not everything is done: %w", stuckClocks, b.board.Quiescent())
		}
		if err := b.quantum(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) waiting() bool {
	return b.backlog > 0 || slices.ContainsFunc(b.peers, func(p *peer) bool { return len(p.outbox) > 0 })
}

// latency: all but one contribute, the queues run empty, the last one contributes.
func (b *bench) latency(ctx context.Context, row *Row) error {
	var senders []*peer
	for _, p := range b.peers {
		if p.sends {
			senders = append(senders, p)
		}
	}
	for range latencySamples {
		for _, p := range senders[:len(senders)-1] {
			b.post(p)
		}
		if err := b.settle(ctx); err != nil {
			return err
		}
		frame, results := len(b.headers), len(b.results)
		b.post(senders[len(senders)-1])
		if err := b.settle(ctx); err != nil {
			return err
		}
		if len(b.results) == results {
			return errors.New("the last contribution was followed by no result")
		}
		clocks := b.results[results] - b.headers[frame]
		if row.LatencySamples == 0 || clocks < row.LatencyMin {
			row.LatencyMin = clocks
		}
		row.LatencyClocks = max(row.LatencyClocks, clocks)
		row.LatencySamples++
	}
	return nil
}

// saturate: every sender always has as much outstanding as its window allows.
func (b *bench) saturate(ctx context.Context, row *Row) error {
	fill := func() {
		for _, p := range b.peers {
			for p.sends && p.unsent < p.window {
				b.post(p)
			}
		}
	}
	results := len(b.results)
	var from *server.Window
	var packets [2]uint64
	for start := b.last.Clock; ; {
		fill()
		if err := b.quantum(ctx); err != nil {
			return err
		}
		if from == nil && len(b.results)-results >= warmUpPSNs {
			from, packets = b.last, b.packets
		}
		if from != nil && b.last.Clock-from.Clock >= measuredClocks {
			break
		}
		if from == nil && b.last.Clock-start > stuckClocks {
			return fmt.Errorf("only %d results in %d clocks: %w", len(b.results)-results, stuckClocks, b.board.Quiescent())
		}
	}
	to := b.last
	row.Clocks = to.Clock - from.Clock
	part := func(n uint64) float64 { return float64(n) / float64(row.Clocks) }
	row.RxBusy, row.TxBusy = part(to.RxBusy-from.RxBusy), part(to.TxBusy-from.TxBusy)
	row.Efficiency = max(row.RxBusy, row.TxBusy)
	row.ClocksPerPacket = float64(row.Clocks) / float64(max(b.packets[0]-packets[0], b.packets[1]-packets[1]))
	return b.settle(ctx)
}
