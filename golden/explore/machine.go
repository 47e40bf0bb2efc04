package explore

import (
	"bytes"
	"fmt"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// machine is a node: a golden engine, or a golden host.
type machine interface {
	clone() machine
	// deliver hands it a frame that has come in at a port.
	deliver(port int, pkt *roce.Packet) ([]emission, error)
	// stale says that a frame which comes in at a port changes nothing, and brings forth nothing, now and for ever: an
	// answer about what has been acknowledged already.
	stale(port int, pkt *roce.Packet) bool
	// own lists what it may do by itself, in a fixed order, which is the same for equal states.
	own() []action
	// act does one of own.
	act(action) ([]emission, error)
	// appendState appends its state in a canonical form.
	appendState([]byte) []byte
	// done says that it wants nothing more from anybody.
	done() bool
	// describe says where it stands, for people.
	describe() string
}

// emission is a frame that leaves.
type emission struct {
	port int
	pkt  *roce.Packet
}

// action is something that a node does by itself.
type action struct {
	port  int  // that of a timer's queue pair; none of what is about no port
	kind  any  // tells what is done at a port apart
	timer bool // it needs the channels of the port to be quiet, if a model says so
	event any  // engine.Event or host.Event
	text  string
}

const noPort = -1

// switchNode is an engine. Coarse, it does all that it can do at once after each frame and timer, in the order of
// engine.Run; fine, each internal event is a step of its own, which may come at any time.
type switchNode struct {
	e     *engine.Engine
	name  string
	fine  bool
	waits bool // see Config.Waits
}

func (n *switchNode) clone() machine {
	return &switchNode{e: n.e.Clone(), name: n.name, fine: n.fine, waits: n.waits}
}

func (n *switchNode) deliver(port int, pkt *roce.Packet) ([]emission, error) {
	return n.step(engine.Event{Cause: spec.CauseDrop, Port: port, Packet: pkt})
}

func (n *switchNode) step(ev engine.Event) (sent []emission, err error) {
	if err := n.e.Legal(ev); err != nil {
		return nil, err
	}
	for range restless {
		for _, o := range n.e.Step(ev) {
			if o.Kind == engine.Frame {
				sent = append(sent, emission{o.Port, o.Packet})
			}
		}
		if n.fine {
			return sent, n.check()
		}
		more := n.e.Enabled()
		for i := range n.e.Config().Endpoints {
			if ev := (engine.Event{Cause: spec.CauseRNRExpiry, Endpoint: i}); len(more) == 0 && !n.waits && n.e.Legal(ev) == nil {
				more = append(more, ev)
			}
		}
		if len(more) == 0 {
			return sent, n.check()
		}
		ev = more[0] // as engine.Run does
	}
	return sent, fmt.Errorf("%s: does not come to rest: %v after %d internal events", n.name, ev, restless)
}

// restless is how many internal events an engine may do on end: far more than it has slots and ports to do them with.
const restless = 1000

// check is what must hold of an engine after every event.
func (n *switchNode) check() error {
	for p := range n.e.Config().Pipes {
		if f := n.e.Fault(p); f.Kind != spec.ErrorKindNone {
			return fmt.Errorf("%s: pipe %d is in error: %v at endpoint %d, psn %v, got %#x, want %#x",
				n.name, p, f.Kind, f.Endpoint, f.PSN, f.Got, f.Wanted)
		}
	}
	return nil
}

func (n *switchNode) stale(port int, pkt *roce.Packet) bool {
	return pkt.HasAETH() && n.e.StaleAck(port, pkt)
}

func (n *switchNode) own() (all []action) {
	if n.fine {
		for _, ev := range n.e.Enabled() {
			a := action{port: noPort, event: ev, text: ev.String()}
			switch ev.Cause {
			case spec.CauseAdvance, spec.CauseAggregate, spec.CauseSend, spec.CauseResend, spec.CauseAckOut:
				a.port = n.e.Config().Endpoints[ev.Endpoint].Port
				a.kind = ev.Cause
			default:
				a.kind = ev.String()
			}
			all = append(all, a)
		}
	}
	for i, ep := range n.e.Config().Endpoints {
		for _, cause := range []spec.Cause{spec.CauseTimer, spec.CauseRNRExpiry} {
			ev := engine.Event{Cause: cause, Endpoint: i}
			if n.e.Legal(ev) == nil {
				all = append(all, action{port: ep.Port, kind: cause, timer: cause == spec.CauseTimer, event: ev,
					text: fmt.Sprintf("%v of %s", cause, ep.Name)})
			}
		}
	}
	return all
}

func (n *switchNode) act(a action) ([]emission, error) { return n.step(a.event.(engine.Event)) }

func (n *switchNode) appendState(b []byte) []byte { return n.e.AppendState(b) }

func (n *switchNode) done() bool { return true }

func (n *switchNode) describe() string {
	s := ""
	for p, cfg := range n.e.Config().Pipes {
		st := n.e.PipeState(p)
		s += fmt.Sprintf("pipe %d of %s: mode %d, psnStart %06x, nextSend %06x", p, n.name, cfg.Mode, st.PSNStart, st.NextSend)
	}
	return s
}

// rankNode is a host with one rank. It sends all that it may at once.
type rankNode struct {
	r     *host.Rank
	name  string
	want  [][]byte // of each step of its program
	waits bool
}

func (n *rankNode) clone() machine {
	return &rankNode{r: n.r.Clone(), name: n.name, want: n.want, waits: n.waits}
}

func (n *rankNode) deliver(_ int, pkt *roce.Packet) ([]emission, error) {
	return n.take(n.r.Run(host.Event{Kind: host.Deliver, Packet: pkt}))
}

func (n *rankNode) take(outs []host.Output) (sent []emission, err error) {
	for _, o := range outs {
		if o.Kind == host.Frame {
			sent = append(sent, emission{0, o.Packet})
		}
	}
	for q := range n.r.QPs() {
		if !n.waits && n.r.Armed(q, host.RNRWait) {
			more, err := n.take(n.r.Run(host.Event{Kind: host.Expire, QP: q, Timer: host.RNRWait}))
			return append(sent, more...), err
		}
	}
	return sent, n.check()
}

// check compares what has come with what must: every psn once, in order, and the reduction of one contribution of each
// rank, for the vectors have no two alike.
func (n *rankNode) check() error {
	if err := n.r.Err(); err != nil {
		return err
	}
	for i, want := range n.want {
		if got := n.r.Result(i); want != nil && !bytes.HasPrefix(want, got) {
			at := 0
			for at < len(got) && at < len(want) && got[at] == want[at] {
				at++
			}
			return fmt.Errorf("%s: wrong result of step %d: byte %d of %d that came differs", n.name, i, at, len(got))
		}
	}
	return nil
}

func (n *rankNode) stale(_ int, pkt *roce.Packet) bool { return pkt.HasAETH() && n.r.StaleAck(pkt) }

func (n *rankNode) own() (all []action) {
	for q := range n.r.QPs() {
		for _, t := range []host.Timer{host.Retransmit, host.RNRWait} {
			if n.r.Armed(q, t) {
				text := "timeout"
				if t == host.RNRWait {
					text = "end of the RNR wait"
				}
				all = append(all, action{kind: [2]int{q, int(t)}, timer: t == host.Retransmit, event: host.Event{Kind: host.Expire, QP: q, Timer: t},
					text: fmt.Sprintf("%s of queue pair %d", text, q)})
			}
		}
	}
	return all
}

func (n *rankNode) act(a action) ([]emission, error) { return n.take(n.r.Run(a.event.(host.Event))) }

func (n *rankNode) appendState(b []byte) []byte { return n.r.AppendState(b) }

func (n *rankNode) done() bool { return n.r.Done() }

func (n *rankNode) describe() string {
	return fmt.Sprintf("%s: step %d of %d, next psn to send %v, to come %v", n.name, n.r.Ended(), n.r.Steps(), n.r.NextPSN(0), n.r.NextRecvPSN(0))
}
