package explore

import (
	"fmt"
	"sync"

	"github.com/epic-inc/epic/golden/roce"
)

// maxFrames is how many different frames a channel may ever carry: a state has a bit for each, or a byte for a number.
const maxFrames = 64 // bits of a word

// channel is one direction of a link, and the different frames that have been sent into it so far. A frame is not
// changed once it has a number.
type channel struct {
	index    int
	name     string
	from, to int // nodes
	toPort   int
	back     int // index of the other direction
	frames   [maxFrames]frame
	used     int
	byBytes  map[string]uint8
}

type frame struct {
	pkt *roce.Packet
	ack bool
	// How it came to be sent first: what the node did in a state, and which of what it sent there. Not sent: at the start.
	sent bool
	from uint32
	why  cause
	nth  int
}

// sent is what a transition puts into a channel.
type sent struct {
	channel uint16
	frame   uint8
}

// transition is what a node does with a frame or by itself.
type transition struct {
	to    uint32
	sends []sent
	err   error // it must not have happened
}

// cause is what a node does: take frame n of a channel, or the n-th of its own actions.
type cause uint32

const ownCause = 1 << 31

func takes(channel int, frame uint8) cause { return cause(channel)<<8 | cause(frame) }
func acts(n int) cause                     { return ownCause | cause(n) }

func (c cause) own() bool    { return c&ownCause != 0 }
func (c cause) channel() int { return int(c &^ ownCause >> 8) }
func (c cause) n() int {
	if c.own() {
		return int(c &^ ownCause)
	}
	return int(c & 0xff)
}

// local is a state of one node.
type local struct {
	machine machine
	own     []action
	done    bool
	// How it was reached first, if it is not the one at the start.
	reached bool
	from    uint32
	why     cause
}

// automaton is a node, unfolded as far as it has been asked for. Its states are numbered in the order in which they were
// found, so numbers differ between runs of several workers; what is counted does not.
type automaton struct {
	name string
	out  map[int]int // channel that begins at a port

	states []*local
	byKey  map[string]uint32
	moves  map[uint64]*transition
}

// unfolding is the automata of a model, shared by the workers.
type unfolding struct {
	mu       sync.Mutex
	automata []*automaton
	channels []*channel
	scratch  []byte
}

// intern gives a machine's state its number.
func (u *unfolding) intern(a *automaton, m machine) uint32 {
	u.scratch = m.appendState(u.scratch[:0])
	if id, known := a.byKey[string(u.scratch)]; known {
		return id
	}
	id := uint32(len(a.states))
	a.byKey[string(u.scratch)] = id
	a.states = append(a.states, &local{machine: m, own: m.own(), done: m.done()})
	return id
}

// send gives frames their numbers. origin says how they came about.
func (u *unfolding) send(a *automaton, out []emission, origin *frame) (all []sent, err error) {
	nth := map[int]int{}
	for _, o := range out {
		index, ok := a.out[o.port]
		if !ok {
			return nil, fmt.Errorf("%s sends at port %d, where nothing is", a.name, o.port)
		}
		c := u.channels[index]
		u.scratch = append(u.scratch[:0], o.pkt.Encode()...)
		id, known := c.byBytes[string(u.scratch)]
		if !known {
			if c.used == maxFrames {
				return nil, &TooManyFrames{c.name}
			}
			id = uint8(c.used)
			c.byBytes[string(u.scratch)] = id
			f := *origin
			f.pkt, f.ack, f.nth = o.pkt, o.pkt.HasAETH(), nth[index]
			c.frames[id] = f
			c.used++
		}
		nth[index]++
		all = append(all, sent{uint16(index), id})
	}
	return all, nil
}

// TooManyFrames says that a channel would carry more different frames than a state has room for.
type TooManyFrames struct{ Channel string }

// Error says where, and what to do.
func (t *TooManyFrames) Error() string {
	return fmt.Sprintf("channel %s: got more than %d different frames, want fewer: take fewer packets, or a smaller window", t.Channel, maxFrames)
}

// move computes a transition of a node, or finds it.
func (u *unfolding) move(node int, state uint32, why cause) *transition {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.moveLocked(node, state, why)
}

func (u *unfolding) moveLocked(node int, state uint32, why cause) *transition {
	a := u.automata[node]
	key := uint64(state)<<32 | uint64(why)
	if t := a.moves[key]; t != nil {
		return t
	}
	t := u.step(a, state, why)
	a.moves[key] = t
	return t
}

func (u *unfolding) step(a *automaton, state uint32, why cause) *transition {
	from := a.states[state]
	m := from.machine.clone()
	var out []emission
	var err error
	if why.own() {
		out, err = m.act(from.own[why.n()])
	} else {
		c := u.channels[why.channel()]
		out, err = m.deliver(c.toPort, c.frames[why.n()].pkt)
	}
	t := &transition{err: err}
	known := len(a.states)
	sends, err := u.send(a, out, &frame{sent: true, from: state, why: why})
	if t.err == nil {
		t.err = err
	}
	t.sends = sends
	if t.to = u.intern(a, m); int(t.to) == known {
		l := a.states[t.to]
		l.reached, l.from, l.why = true, state, why
	}
	return t
}

// isStale asks a node in a state about a frame of a channel.
func (u *unfolding) isStale(node int, state uint32, channel, frame int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	c := u.channels[channel]
	return u.automata[node].states[state].machine.stale(c.toPort, c.frames[frame].pkt)
}

// local returns a state, which is not changed any more.
func (u *unfolding) local(node int, state uint32) *local {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.automata[node].states[state]
}
