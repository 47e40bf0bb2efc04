package interop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/epic-inc/epic/golden/fabric"
	"github.com/epic-inc/epic/interop/guest"
)

// port is a guest in a fabric.
type port struct {
	g    *guest.Guest
	emit fabric.Emit
	come [][]byte // from the guest, not yet on its link
	tape *tape    // nil: none
	err  error
}

// Bind is fabric.Node's.
func (p *port) Bind(emit fabric.Emit) { p.emit = emit }

// Receive is fabric.Node's.
func (p *port) Receive(_ uint64, _ int, frame []byte) {
	if err := errors.Join(p.tape.add(frame), p.g.Send(frame)); err != nil && p.err == nil {
		p.err = err
	}
}

// NextWake is fabric.Node's.
func (p *port) NextWake() (uint64, bool) { return 0, len(p.come) > 0 }

// Wake is fabric.Node's.
func (p *port) Wake(uint64) {
	for _, f := range p.come {
		if err := p.tape.add(f); err != nil && p.err == nil {
			p.err = err
		}
		p.emit(0, f)
	}
	p.come = nil
}

var _ fabric.Node = (*port)(nil)

// arrival is a frame of a guest, or that there will be none.
type arrival struct {
	guest int
	frame []byte
	err   error
}

// receiver hands the frames of a guest over until the guest is closed.
func receiver(g *guest.Guest, i int, to chan<- arrival, stop <-chan struct{}) {
	for {
		frame, err := g.Receive()
		select {
		case to <- arrival{i, frame, err}:
		case <-stop:
			return
		}
		if err != nil {
			return
		}
	}
}

// pace ties the time of a network to that of the guests.
type pace struct {
	net    *fabric.Fabric
	ports  []*port
	ids    []fabric.ID
	frames <-chan arrival
	period time.Duration // of a clock
	zero   time.Time     // when clock 0 was
}

// slack is how much later than it should be a clock may come without the network's time being held.
const slack = 2 * time.Millisecond

// drain throws away what guests have sent to a run before.
func drain(frames <-chan arrival) error {
	for {
		select {
		case a := <-frames:
			if a.err != nil {
				return a.err
			}
		default:
			return nil
		}
	}
}

// Await waits until real time has come to a clock or, if early is allowed, a frame has come from a guest, and gives
// the network what came. It returns the clock that it is. If that clock has passed long ago, because something
// was slow, the network's time stands still meanwhile: what the guests sent in that time is still on time.
func (p *pace) Await(ctx context.Context, until uint64, early bool) (uint64, error) {
	at := p.zero.Add(time.Duration(until) * p.period)
	for {
		got, err := p.take(ctx, time.Until(at))
		if err != nil {
			return 0, err
		}
		late := time.Since(at)
		if late >= 0 {
			if late > slack {
				p.zero = p.zero.Add(late)
			}
			return until, nil
		}
		if got && early {
			return min(until, uint64(time.Since(p.zero)/p.period)), nil
		}
	}
}

// take waits for a frame, for so long, and takes all that have come.
func (p *pace) take(ctx context.Context, wait time.Duration) (got bool, err error) {
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case a := <-p.frames:
			if err := p.give(a); err != nil {
				return false, err
			}
			got = true
		case <-t.C:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	for {
		select {
		case a := <-p.frames:
			if err := p.give(a); err != nil {
				return false, err
			}
			got = true
		default:
			return got, context.Cause(ctx)
		}
	}
}

func (p *pace) give(a arrival) error {
	if a.err != nil {
		return a.err
	}
	if a.guest < len(p.ports) { // the others sleep in this run
		p.ports[a.guest].come = append(p.ports[a.guest].come, a.frame)
		p.net.Rouse(p.ids[a.guest])
	}
	return nil
}

// err is the first failure of a port.
func (p *pace) err() error {
	for _, o := range p.ports {
		if o.err != nil {
			return o.err
		}
	}
	return nil
}

// Fates counts what the wire did.
type Fates struct {
	Frames     uint64 `json:"frames"`
	Lost       uint64 `json:"lost"`
	Duplicates uint64 `json:"duplicates"`
	Late       uint64 `json:"late"`
}

func (f *Fates) see(p fabric.Passage) {
	switch p.Fate {
	case fabric.Lost:
		f.Lost++
	case fabric.Duplicate:
		f.Duplicates++
		return // of a frame that is counted
	case fabric.Late:
		f.Late++
	}
	f.Frames++
}

// check sees that the wire of a case did what its name says: a run over a wire that lost nothing shows nothing.
func (f Fates) check(wire string) error {
	for _, w := range []struct {
		what  string
		got   uint64
		wires []string
	}{{"lost", f.Lost, []string{Lossy, Wild}}, {"duplicated", f.Duplicates, []string{Wild}}, {"delayed", f.Late, []string{Wild}}} {
		if want := slices.Contains(w.wires, wire); want != (w.got > 0) {
			return fmt.Errorf("wire %s: %d of %d frames were %s, want %s", wire, w.got, f.Frames, w.what, map[bool]string{true: "some", false: "none"}[want])
		}
	}
	return nil
}
