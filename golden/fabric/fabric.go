package fabric

import (
	"container/heap"
	"fmt"
)

// Emit is how a node sends: a whole frame leaves a port now. The frame must not be written afterwards.
type Emit func(port int, frame []byte)

// Node is something that frames reach. It is called for one event at a time, and sends by the Emit it
// was bound to, only while it is called.
type Node interface {
	// Bind is called once, before anything else.
	Bind(emit Emit)
	// Receive is a frame's arrival at a port. The frame must not be written, and may be kept.
	Receive(now uint64, port int, frame []byte)
	// NextWake is when the node wants Wake to be called; false: not before it receives something.
	NextWake() (at uint64, ok bool)
	// Wake is called at the time that NextWake said, or when the fabric starts.
	Wake(now uint64)
}

// ID names a node of a fabric, counted from 0.
type ID int

// Rate is the speed of a link: so many bytes in so many clocks. The zero value is without limit.
type Rate struct{ Bytes, Clocks uint64 }

// Link is what one direction of a link does to a frame. Probabilities are 0..1, and independent.
type Link struct {
	Delay   uint64 // clocks from the last byte in to arrival; at least 1
	Rate    Rate   // frames wait until the ones before them are through
	Loss    float64
	Dup     float64 // arrives twice, the second time up to Late clocks later
	Reorder float64 // arrives up to Late clocks later than it should
	Late    uint64  // 0: 8 times Delay
}

func (l Link) check() error {
	for _, p := range []struct {
		what string
		v    float64
	}{{"loss", l.Loss}, {"dup", l.Dup}, {"reorder", l.Reorder}} {
		if !(p.v >= 0 && p.v <= 1) {
			return fmt.Errorf("%s: got %v, want 0..1", p.what, p.v)
		}
	}
	if l.Delay < 1 {
		return fmt.Errorf("delay: got %d clocks, want at least 1", l.Delay)
	}
	if (l.Rate.Bytes == 0) != (l.Rate.Clocks == 0) {
		return fmt.Errorf("rate: got %d bytes in %d clocks, want both or neither 0", l.Rate.Bytes, l.Rate.Clocks)
	}
	return nil
}

// Fate is what a link did with a frame.
type Fate uint8

// The fates.
const (
	Delivered Fate = iota
	Lost
	Duplicate // the second arrival of a frame
	Late      // delivered later than it should have been
	Unplugged // sent on a port without a link
)

// String names the fate.
func (f Fate) String() string {
	return [...]string{"delivered", "lost", "duplicate", "late", "unplugged"}[f]
}

// Tap sees every frame as it is sent, once per fate: a duplicated frame twice.
type Tap func(Passage)

// Passage is a frame on a link.
type Passage struct {
	Sent, Arrives    uint64 // the first clock on the link, and the arrival; Arrives is 0 if Lost
	From, To         ID
	FromPort, ToPort int
	Frame            []byte
	Fate             Fate
}

// direction is one way of a link.
type direction struct {
	*Wire
	to     ID
	toPort int
}

type node struct {
	name    string
	node    Node // nil: foreign
	ports   map[int]*direction
	arrived arrivals // of a foreign node: what it has not taken
	wake    uint64
	wakes   bool
}

// Fabric is a network. Add nodes, connect them, then Run.
type Fabric struct {
	seed   uint64
	now    uint64
	nodes  []*node
	links  int
	seq    uint64
	queue  arrivals
	tap    Tap
	frames uint64
	count  count
}

// New returns an empty fabric whose randomness comes from seed.
func New(seed uint64) *Fabric { return &Fabric{seed: seed} }

// Seed returns what New was given.
func (f *Fabric) Seed() uint64 { return f.seed }

// Now is the time up to which everything has happened.
func (f *Fabric) Now() uint64 { return f.now }

// Frames counts the frames sent so far.
func (f *Fabric) Frames() uint64 { return f.frames }

// Name returns the name a node was added with.
func (f *Fabric) Name(id ID) string { return f.nodes[id].name }

// SetTap hands every frame to tap, or to nobody if it is nil.
func (f *Fabric) SetTap(tap Tap) { f.tap = tap }

// Add adds a node. Its Wake is called when the fabric runs first.
func (f *Fabric) Add(name string, n Node) ID {
	id := ID(len(f.nodes))
	f.nodes = append(f.nodes, &node{name: name, node: n, ports: map[int]*direction{}, wake: f.now, wakes: true})
	n.Bind(func(port int, frame []byte) { f.send(id, port, f.now, frame) })
	return id
}

// AddForeign adds a node that lives elsewhere: Arrivals takes what reaches it, Inject is what it sends.
func (f *Fabric) AddForeign(name string) ID {
	f.nodes = append(f.nodes, &node{name: name, ports: map[int]*direction{}})
	return ID(len(f.nodes) - 1)
}

// Connect joins two ports by a link; ab is what it does from a to b, ba the other way.
func (f *Fabric) Connect(a ID, portA int, b ID, portB int, ab, ba Link) error {
	for _, end := range []struct {
		id   ID
		port int
	}{{a, portA}, {b, portB}} {
		if end.id < 0 || int(end.id) >= len(f.nodes) {
			return fmt.Errorf("connect: got node %d, want 0..%d", end.id, len(f.nodes)-1)
		}
		if f.nodes[end.id].ports[end.port] != nil {
			return fmt.Errorf("connect %s to %s: port %d of %s has a link already",
				f.nodes[a].name, f.nodes[b].name, end.port, f.nodes[end.id].name)
		}
	}
	if a == b && portA == portB {
		return fmt.Errorf("connect: port %d of %s to itself", portA, f.nodes[a].name)
	}
	for _, l := range []*Link{&ab, &ba} {
		if err := l.check(); err != nil {
			return fmt.Errorf("connect %s to %s: %w", f.nodes[a].name, f.nodes[b].name, err)
		}
	}
	f.nodes[a].ports[portA] = f.direction(ab, b, portB)
	f.nodes[b].ports[portB] = f.direction(ba, a, portA)
	return nil
}

func (f *Fabric) direction(l Link, to ID, port int) *direction {
	f.links++
	return &direction{Wire: newWire(l, f.seed, uint64(f.links)), to: to, toPort: port}
}

// Inject is a frame that a foreign node sends; it leaves port at time at, which may not be before Now.
func (f *Fabric) Inject(id ID, port int, at uint64, frame []byte) error {
	if f.nodes[id].node != nil {
		return fmt.Errorf("inject at %s: it is not a foreign node", f.nodes[id].name)
	}
	if at < f.now {
		return fmt.Errorf("inject at %s: got time %d, which is over; now is %d", f.nodes[id].name, at, f.now)
	}
	f.send(id, port, at, frame)
	return nil
}

// send puts a frame on the link of a port.
func (f *Fabric) send(from ID, port int, at uint64, frame []byte) {
	f.frames++
	d := f.nodes[from].ports[port]
	if d == nil {
		f.see(Passage{Sent: at, From: from, To: -1, FromPort: port, ToPort: -1, Frame: frame, Fate: Unplugged})
		return
	}
	c := d.Cross(at, len(frame))
	frame = f.strike(from, port, frame, &c)
	p := Passage{Sent: c.Start, Arrives: c.Arrives, From: from, To: d.to, FromPort: port, ToPort: d.toPort, Frame: frame, Fate: c.Fate}
	if c.Fate == Lost {
		f.see(p)
		return
	}
	f.arrive(p)
	if c.Again > 0 {
		p.Fate, p.Arrives = Duplicate, c.Again
		f.arrive(p)
	}
}

// duration is how long n bytes occupy the link, rounded up.
func (r Rate) duration(n int) uint64 {
	if r.Bytes == 0 {
		return 0
	}
	return (uint64(n)*r.Clocks + r.Bytes - 1) / r.Bytes
}

func (f *Fabric) arrive(p Passage) {
	f.see(p)
	f.seq++
	a := Arrival{At: p.Arrives, Port: p.ToPort, Frame: p.Frame, seq: f.seq, to: p.To}
	if n := f.nodes[p.To]; n.node == nil {
		heap.Push(&n.arrived, a)
		return
	}
	heap.Push(&f.queue, a)
}

func (f *Fabric) see(p Passage) {
	if f.tap != nil {
		f.tap(p)
	}
}

// Arrival is a frame that reaches a port.
type Arrival struct {
	At    uint64
	Port  int
	Frame []byte
	seq   uint64 // of equal times, what was sent first arrives first
	to    ID
}

type arrivals []Arrival

func (a arrivals) Len() int { return len(a) }
func (a arrivals) Less(i, j int) bool {
	return a[i].At < a[j].At || a[i].At == a[j].At && a[i].seq < a[j].seq
}
func (a arrivals) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *arrivals) Push(x any)   { *a = append(*a, x.(Arrival)) }
func (a *arrivals) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	(*a)[last] = Arrival{}
	*a = (*a)[:last]
	return x
}

// Arrivals takes the frames that reach a foreign node before `until`, in order. Once taken up to a
// time, nothing may come before it: so until may be at most LookAhead from now.
func (f *Fabric) Arrivals(id ID, until uint64) ([]Arrival, error) {
	n := f.nodes[id]
	if n.node != nil {
		return nil, fmt.Errorf("arrivals at %s: it is not a foreign node", n.name)
	}
	if limit := f.now + f.LookAhead(id); until > limit {
		return nil, fmt.Errorf("arrivals at %s before %d: something sent now may come at %d", n.name, until, limit)
	}
	var out []Arrival
	for len(n.arrived) > 0 && n.arrived[0].At < until {
		out = append(out, heap.Pop(&n.arrived).(Arrival))
	}
	return out, nil
}

// LookAhead is the shortest delay of a link to a node: what is sent from now on does not reach it
// within fewer clocks.
func (f *Fabric) LookAhead(id ID) uint64 {
	ahead := ^uint64(0) >> 1
	for _, n := range f.nodes {
		for _, d := range n.ports {
			if d.to == id {
				ahead = min(ahead, d.link.Delay)
			}
		}
	}
	return ahead
}

// Rouse asks a node again when it wants to wake, after something outside of the fabric has changed it.
func (f *Fabric) Rouse(id ID) {
	if n := f.nodes[id]; n.node != nil {
		n.wake, n.wakes = n.node.NextWake()
	}
}

// Next is the time of the next event, false if there is none. Frames to foreign nodes are not events.
func (f *Fabric) Next() (uint64, bool) {
	at, ok := uint64(0), false
	if len(f.queue) > 0 {
		at, ok = f.queue[0].At, true
	}
	for _, n := range f.nodes {
		if n.wakes && (!ok || n.wake < at) {
			at, ok = n.wake, true
		}
	}
	return max(at, f.now), ok
}

// Step lets the next event happen if it is before `until`, and says whether there was one. Of equal
// times frames come first, in the order they were sent, then wakes in the order of nodes.
func (f *Fabric) Step(until uint64) bool {
	at, ok := f.Next()
	if !ok || at >= until {
		return false
	}
	f.now = at
	if len(f.queue) > 0 && f.queue[0].At <= at {
		a := heap.Pop(&f.queue).(Arrival)
		n := f.nodes[a.to]
		n.node.Receive(at, a.Port, a.Frame)
		n.wake, n.wakes = n.node.NextWake()
		return true
	}
	for _, n := range f.nodes {
		if n.wakes && n.wake <= at {
			n.wakes = false
			n.node.Wake(at)
			n.wake, n.wakes = n.node.NextWake()
			return true
		}
	}
	return false
}

// Run lets everything before `until` happen; Now is `until` then.
func (f *Fabric) Run(until uint64) {
	for f.Step(until) {
	}
	f.now = max(f.now, until)
}

// RunWhile steps as long as cond says so and something happens before `until`; it returns whether
// cond became false.
func (f *Fabric) RunWhile(cond func() bool, until uint64) bool {
	for cond() {
		if !f.Step(until) {
			return false
		}
	}
	return true
}
