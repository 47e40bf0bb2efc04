package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/epic-inc/epic/golden/capture"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/expect"
	"github.com/epic-inc/epic/golden/fabric"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// ErrInput means that captures and group do not fit each other.
var ErrInput = errors.New("the captures do not fit the group")

// Replay feeds the ranks' side of captured conversations to the RTL engine, each frame as it is, as fast
// as its link takes it; the captures' times do not count. Golden responders receive the results and
// acknowledge them; what the engine itself answers goes to nobody, for the captured ranks cannot hear.
//
// The side of a rank is what comes from the MAC address of an endpoint's peer, but for its ACKs, which
// are about another run's results. Its vector is the payload of its packets in the order of their PSNs,
// each counted once.
func Replay(ctx context.Context, o Options, files []string) (*Report, error) {
	if o.Group == nil {
		return nil, errors.New("replay: no group")
	}
	if len(o.Group.Switches) != 1 {
		return nil, fmt.Errorf("%w: got %d switches, want one: a capture is of ranks at one switch", ErrInput, len(o.Group.Switches))
	}
	if o.Group.Collective != "allreduce" {
		return nil, fmt.Errorf("%w: collective: got %q, want allreduce", ErrInput, o.Group.Collective)
	}
	tapes, err := readTapes(o.Group, files)
	if err != nil {
		return nil, err
	}
	o.Bytes = len(tapes[0].vector)
	rep, err := explain(ctx, o, func(ctx context.Context, o *Options, rep *Report) error { return replay(ctx, o, rep, tapes) })
	if rep != nil {
		rep.Replay = true
	}
	return rep, err
}

// tape is the side of one rank.
type tape struct {
	frames  [][]byte
	vector  []byte
	longest int // bytes of its longest message
}

// readTapes takes each rank's frames from the files, in the order of the files and of their frames.
func readTapes(g *group.Group, files []string) ([]*tape, error) {
	cfg, err := g.EngineConfig(g.Switches[0].Name)
	if err != nil {
		return nil, err
	}
	tapes := make([]*tape, len(g.Ranks))
	byMAC := map[roce.MAC]*tape{}
	endpoints := make([]engine.Endpoint, len(tapes))
	for r := range tapes {
		_, e, err := g.RankPeer(r, 0)
		if err != nil {
			return nil, err
		}
		tapes[r] = &tape{}
		endpoints[r] = cfg.Endpoints[e]
		byMAC[endpoints[r].PeerMAC] = tapes[r]
	}
	for _, file := range files {
		if err := readTape(file, byMAC); err != nil {
			return nil, err
		}
	}
	for r, t := range tapes {
		if len(t.frames) == 0 {
			return nil, fmt.Errorf("%w: no frame in %v comes from rank %d (%v)", ErrInput, files, r, g.Ranks[r].MAC)
		}
		if err := t.assemble(endpoints[r]); err != nil {
			return nil, fmt.Errorf("%w: rank %d (%v): %w", ErrInput, r, g.Ranks[r].MAC, err)
		}
		if len(t.vector) != len(tapes[0].vector) {
			return nil, fmt.Errorf("%w: rank %d sends %d bytes, rank 0 %d: want the same of all", ErrInput, r, len(t.vector), len(tapes[0].vector))
		}
	}
	return tapes, nil
}

func readTape(file string, byMAC map[roce.MAC]*tape) error {
	f, err := capture.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		frame, err := f.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(frame.Data) < 14 || frame.Length > len(frame.Data) {
			if frame.Length > len(frame.Data) {
				return fmt.Errorf("%w: %s: frame %d: %d of its %d bytes were captured, want all", ErrInput, file, frame.N, len(frame.Data), frame.Length)
			}
			continue
		}
		t := byMAC[roce.MAC(frame.Data[6:12])]
		if t == nil {
			continue
		}
		if pkt, bad := roce.Decode(frame.Data); bad == nil && pkt.HasAETH() {
			continue
		}
		t.frames = append(t.frames, frame.Data)
	}
}

// assemble puts the payloads of the tape's good packets to endpoint ep together.
func (t *tape) assemble(ep engine.Endpoint) error {
	type piece struct {
		payload []byte
		last    bool
	}
	pieces := map[psn.PSN]piece{}
	for _, f := range t.frames {
		pkt, bad := roce.Decode(f)
		if bad != nil || pkt.DestQP != ep.QPN || pkt.Dst != ep.IP {
			continue
		}
		if info, _ := pkt.Opcode.Info(); info.Kind == spec.KindData {
			if _, seen := pieces[pkt.PSN]; !seen {
				pieces[pkt.PSN] = piece{pkt.Payload, info.Last}
			}
		}
	}
	message := 0
	for n := range len(pieces) {
		p, ok := pieces[psnAt(ep.PSN0, n)]
		if !ok {
			return fmt.Errorf("%d packets are there for QPN %#06x, but not psn %#06x: want all from psn0 %#06x on",
				len(pieces), ep.QPN, uint32(psnAt(ep.PSN0, n)), uint32(ep.PSN0))
		}
		t.vector = append(t.vector, p.payload...)
		message += len(p.payload)
		t.longest = max(t.longest, message)
		if p.last {
			message = 0
		}
	}
	if len(t.vector) == 0 {
		return fmt.Errorf("it sends no data to QPN %#06x", ep.QPN)
	}
	return nil
}

// player is a rank that sends its tape and hears only results.
type player struct {
	tape   *tape
	qp     *host.QP
	rate   fabric.Rate
	result []byte

	emit   fabric.Emit
	next   int    // frame of the tape
	nextAt uint64 // when the link is free for it
}

const postedReceives = 64

func newPlayer(t *tape, cfg host.Config, rate fabric.Rate) (*player, error) {
	qp, err := host.New(cfg)
	if err != nil {
		return nil, err
	}
	p := &player{tape: t, qp: qp, rate: rate}
	for range postedReceives {
		p.qp.Run(host.Event{Kind: host.PostRecv, Receive: host.Receive{Bytes: t.longest}})
	}
	return p, nil
}

// Bind is fabric.Node's.
func (p *player) Bind(emit fabric.Emit) { p.emit = emit }

// Receive is fabric.Node's.
func (p *player) Receive(_ uint64, _ int, frame []byte) {
	pkt, bad := roce.Decode(frame)
	if bad != nil || pkt.HasAETH() {
		return
	}
	p.take(p.qp.Run(host.Event{Kind: host.Deliver, Packet: pkt}))
}

func (p *player) take(outs []host.Output) {
	received := 0
	for _, o := range outs {
		switch {
		case o.Kind == host.Frame:
			p.emit(0, o.Packet.Encode())
		case o.Kind == host.Complete && o.Completion.Recv && o.Completion.Status == host.StatusSuccess:
			p.result = append(p.result, o.Completion.Payload...)
			received++
		}
	}
	for range received {
		p.take(p.qp.Run(host.Event{Kind: host.PostRecv, Receive: host.Receive{Bytes: p.tape.longest}}))
	}
}

// NextWake is fabric.Node's.
func (p *player) NextWake() (uint64, bool) { return p.nextAt, p.next < len(p.tape.frames) }

// Wake is fabric.Node's: the link takes the next frame. ACKs go in between.
func (p *player) Wake(now uint64) {
	if p.next == len(p.tape.frames) || now < p.nextAt {
		return
	}
	f := p.tape.frames[p.next]
	p.next++
	p.emit(0, f)
	p.nextAt = now + max(1, (uint64(len(f))*p.rate.Clocks+p.rate.Bytes-1)/p.rate.Bytes)
}

func replay(ctx context.Context, o *Options, rep *Report, tapes []*tape) error {
	in := make([][]byte, len(tapes))
	for r, t := range tapes {
		in[r] = t.vector
	}
	op, dtype, err := o.Group.Arithmetic()
	if err != nil {
		return err
	}
	want, err := expect.Reduce(dtype, op, in)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInput, err)
	}
	if o.Expect != nil && !bytes.Equal(want, o.Expect) {
		return fmt.Errorf("%w: the sum of the captured vectors is not what is expected: %s", ErrDifference, expect.Differs(dtype, want, o.Expect))
	}
	players := make([]*player, len(tapes))
	n, _, err := newNetwork(o, func(r int) (fabric.Node, error) {
		cfg, err := o.Group.HostConfig(r, 0)
		if err != nil {
			return nil, err
		}
		rate := fabric.LinkOf(o.Group.LinkBetween(o.Group.Switches[0].Name, group.RankName(r)), o.Group.Clock).Rate
		players[r], err = newPlayer(tapes[r], cfg, rate)
		return players[r], err
	})
	if err != nil {
		return err
	}
	done := func() (bool, error) {
		all := true
		for r, p := range players {
			if p.qp.Failed() {
				return false, fmt.Errorf("%w: seed %d: the responder of rank %d refused a result", ErrDifference, o.Seed, r)
			}
			all = all && p.next == len(p.tape.frames) && len(p.result) >= len(want)
		}
		return all, nil
	}
	doneBy := func() (got, total int) {
		for _, p := range players {
			got += len(p.result)
			total += len(want)
		}
		return got, total
	}
	if err := simulate(ctx, o, rep, nil, traffic{net: n, done: done, doneBy: doneBy}); err != nil {
		return err
	}
	for r, p := range players {
		rep.Results = append(rep.Results, p.result)
		if d := expect.Differs(dtype, p.result, want); d != "" && rep.FirstResult < 0 {
			rep.FirstResult = r
		}
	}
	if r := rep.FirstResult; r >= 0 {
		return fmt.Errorf("%w: seed %d: result of rank %d: %s", ErrDifference, o.Seed, r, expect.Differs(dtype, rep.Results[r], want))
	}
	rep.SumEqual = true
	return nil
}

var _ fabric.Node = (*player)(nil)
