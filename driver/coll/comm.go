package coll

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/epic-inc/epic/driver/rank"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/reduce"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// Algorithm says who does the collectives.
type Algorithm int

// The algorithms.
const (
	Auto    Algorithm = iota // the network, and the hosts' ring where the network refuses
	Network                  // the network; an error where it refuses
	Ring                     // the hosts' ring
)

// Algorithms are the names that ParseAlgorithm takes.
func Algorithms() []string { return []string{"auto", "network", "ring"} }

// ParseAlgorithm reads a name of Algorithms.
func ParseAlgorithm(s string) (Algorithm, error) {
	if i := slices.Index(Algorithms(), s); i >= 0 {
		return Algorithm(i), nil
	}
	return 0, fmt.Errorf("algorithm: got %q, want one of %v", s, Algorithms())
}

// DefaultPatience is how long a collective may stand still before it is given up.
const DefaultPatience = 30 * time.Second

// Options of a communicator.
type Options struct {
	// Endpoint is the rank's, without queue pairs; it is the communicator's from here on, and closed with it.
	Endpoint    *rank.Endpoint
	Rendezvous  Rendezvous
	Job         string // the same at every rank, other than that of every other job on these hosts
	Rank, Ranks int
	Algorithm   Algorithm
	// Patience is how long a collective may stand still, while every rank is alive, before the communicator fails; 0:
	// DefaultPatience. A rank that has died is noticed sooner.
	Patience time.Duration
	// Notice, if set, is told what a user should know and is no error: that the hosts do it in the network's place, and
	// why.
	Notice func(string)
}

// Comm is one rank's communicator. Its methods may be called from several goroutines, but the order of its
// collectives, which must be that of all ranks, is then the caller's business.
//
// Collectives are done one after the other. When one fails the communicator has failed, at every rank: what is under
// way and what is called later ends with the same error.
type Comm struct {
	endpoint    *rank.Endpoint
	rendezvous  Rendezvous
	job         string
	rank, ranks int
	life        uint64
	of          uint64 // the same at all members of one job, and another when it is created again
	algorithm   Algorithm
	patience    time.Duration
	notice      func(string)
	members     []Member
	ring        ring
	noRing      error // why there is none
	cancel      context.CancelFunc
	watching    sync.WaitGroup

	order    sync.Mutex // held while a collective is begun: what follows is its
	carriers map[tree.Step]*carrier
	sequence map[int]uint64 // of each queue pair's next collective
	nextQPN  uint32
	told     map[string]bool
	longest  int // packets of a collective that one control signal opens

	mu      sync.Mutex
	err     *Failure
	cause   error  // what the rendezvous says has failed
	begun   uint64 // collectives
	done    []*rank.Work
	doneAt  uint64 // number of done[0]
	started map[uint64]time.Time
	history map[uint64]string // what the latest collectives were
	peers   []peer
	doubt   time.Time // since when ranks are known to disagree
	closing bool
}

// kept is how many collectives a rank remembers for others that ask.
const kept = 256

// carrier is a subgroup that the network carries, or not.
type carrier struct {
	*Subgroup
	qp      int
	refused error
}

// Failure is why a communicator has failed.
type Failure struct {
	Origin int   // the rank that noticed
	Ranks  []int // those at fault, as far as it is known
	Reason string
}

// Error is the reason, and who says so if it is another rank.
func (f *Failure) Error() string { return f.Reason }

// New joins the rank's job and returns when the rendezvous says that every rank has.
func New(ctx context.Context, o Options) (*Comm, error) {
	if o.Ranks < tree.MinRanks || o.Rank < 0 || o.Rank >= o.Ranks {
		return nil, fmt.Errorf("communicator: got rank %d of %d, want 0..%d of %d at least", o.Rank, o.Ranks, max(0, o.Ranks-1), tree.MinRanks)
	}
	if o.Patience == 0 {
		o.Patience = DefaultPatience
	}
	if o.Notice == nil {
		o.Notice = func(string) {}
	}
	// QPNs and PSNs that another job on this host does not have, nor this one before it was started again.
	own := Member{Job: o.Job, Rank: o.Rank, Ranks: o.Ranks, MAC: o.Endpoint.MAC(), IP: o.Endpoint.IP(), LinkMTU: o.Endpoint.LinkMTU()}
	base := 0x10000 + rand.Uint32N(0xe0)<<16
	own.Ring = [2]uint32{base, base + 1}
	own.RingPSN = psn.PSN(rand.Uint32N(psn.Mask + 1))
	peers, err := o.Rendezvous.Join(ctx, own)
	if err != nil {
		return nil, fmt.Errorf("join %s as rank %d of %d: %w", o.Job, o.Rank, o.Ranks, err)
	}
	if len(peers.Members) != o.Ranks {
		return nil, fmt.Errorf("join %s as rank %d: got %d members, want %d", o.Job, o.Rank, len(peers.Members), o.Ranks)
	}
	c := &Comm{
		endpoint: o.Endpoint, rendezvous: o.Rendezvous, job: o.Job, rank: o.Rank, ranks: o.Ranks, life: 1 + rand.Uint64N(1<<62),
		of: identity(peers.Members), algorithm: o.Algorithm, patience: o.Patience, notice: o.Notice, members: peers.Members,
		carriers: map[tree.Step]*carrier{}, sequence: map[int]uint64{}, nextQPN: base + 2, told: map[string]bool{}, longest: psn.MaxWindow,
		started: map[uint64]time.Time{}, history: map[uint64]string{}, peers: make([]peer, o.Ranks),
	}
	if err := c.connectRing(peers); err != nil {
		return nil, fmt.Errorf("join %s as rank %d: connections to other ranks: %w", o.Job, o.Rank, err)
	}
	c.endpoint.Handle(c.hear)
	c.mu.Lock()
	c.ask(0) // so that all know of each other
	c.mu.Unlock()
	watch, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.watching.Go(func() { c.watch(watch) })
	return c, nil
}

// identity is a number of the members and of where their connections begin: those of a job that is created again, with
// names and addresses as before, begin elsewhere. A rank that a dead job left has nothing to say in the next.
func identity(members []Member) uint64 {
	h := fnv.New64a()
	for _, m := range members {
		fmt.Fprintf(h, "%d %v %v %x %v\n", m.Rank, m.MAC, m.IP, m.Ring, m.RingPSN)
	}
	return h.Sum64()
}

// rnrTimer is the code of the RNR timer of a rank that is late, 0.64 ms: it is software that others ask again.
const rnrTimer = 12

func (c *Comm) connectRing(p *Peers) error {
	const toPrev, toNext = 0, 1
	for r, m := range p.Members {
		if m.Ring == [2]uint32{} {
			c.noRing = fmt.Errorf("rank %d takes no part in a ring of the hosts", r)
			return nil
		}
	}
	me := p.Members[c.rank]
	connect := func(r, mine, theirs int) (int, error) {
		other := p.Members[(r+c.ranks)%c.ranks]
		cfg := p.QP
		cfg.Name = fmt.Sprintf("%s rank %d, connection to rank %d", c.job, c.rank, other.Rank)
		cfg.MAC, cfg.IP, cfg.QPN, cfg.SendPSN = me.MAC, me.IP, me.Ring[mine], me.RingPSN
		cfg.PeerMAC, cfg.PeerIP, cfg.PeerQPN, cfg.RecvPSN = other.MAC, other.IP, other.Ring[theirs], other.RingPSN
		cfg.MTU = p.MTU
		cfg.MinRNRTimer = rnrTimer
		return c.endpoint.AddQP(cfg, p.MessagePackets, p.WindowPackets)
	}
	next, err := connect(c.rank+1, toNext, toPrev)
	if err != nil {
		return err
	}
	prev, err := connect(c.rank-1, toPrev, toNext)
	if err != nil {
		return err
	}
	c.ring = ring{rank: c.rank, ranks: c.ranks, next: next, prev: prev, segment: 4 * p.MessagePackets * p.MTU}
	return nil
}

// Rank is the communicator's.
func (c *Comm) Rank() int { return c.rank }

// Ranks is how many there are.
func (c *Comm) Ranks() int { return c.ranks }

// Part is the share of this rank of a vector of so many bytes of a type.
func (c *Comm) Part(bytes int, d spec.DType) (from, to int, err error) {
	n, err := reduce.ElementBytes(d)
	if err != nil {
		return 0, 0, err
	}
	from, to = Part(bytes, n, c.rank, c.ranks)
	return from, to, nil
}

// AllReduce puts the op of every rank's in into every rank's out.
func (c *Comm) AllReduce(ctx context.Context, in, out []byte, d spec.DType, op spec.Op) error {
	return c.Do(ctx, Call{Collective: tree.AllReduce, DType: d, Op: op, In: in, Out: out})
}

// Reduce puts the op of every rank's in into out of the root; that of others is not used.
func (c *Comm) Reduce(ctx context.Context, in, out []byte, d spec.DType, op spec.Op, root int) error {
	return c.Do(ctx, Call{Collective: tree.Reduce, Root: root, DType: d, Op: op, In: in, Out: out})
}

// Broadcast puts the root's buf into everybody's.
func (c *Comm) Broadcast(ctx context.Context, buf []byte, root int) error {
	return c.Do(ctx, Call{Collective: tree.Broadcast, Root: root, In: buf, Out: buf})
}

// Barrier returns when every rank has called it.
func (c *Comm) Barrier(ctx context.Context) error {
	return c.Do(ctx, Call{Collective: tree.Barrier})
}

// ReduceScatter puts this rank's Part of the op of every rank's in into out.
func (c *Comm) ReduceScatter(ctx context.Context, in, out []byte, d spec.DType, op spec.Op) error {
	return c.Do(ctx, Call{Collective: tree.ReduceScatter, DType: d, Op: op, In: in, Out: out})
}

// AllGather puts every rank's in, its Part of the whole, into every rank's out.
func (c *Comm) AllGather(ctx context.Context, in, out []byte, d spec.DType) error {
	return c.Do(ctx, Call{Collective: tree.AllGather, DType: d, In: in, Out: out})
}

// Do does a collective. If ctx ends first the communicator fails, here and at the other ranks: they cannot go on
// without this one.
func (c *Comm) Do(ctx context.Context, call Call) error {
	r, err := c.Start(ctx, call)
	if err != nil {
		return err
	}
	err = r.Wait(ctx)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		c.Abort(ctx.Err())
	}
	return err
}

// Request is a collective under way.
type Request struct {
	c      *Comm
	number uint64
	work   *rank.Work // nil: nothing had to be done
}

// Start begins a collective, after those begun before. The first of each kind (of each root of Reduce and Broadcast)
// connects its subgroup, which waits for the other ranks until ctx ends; otherwise Start does not wait. In and Out are
// the communicator's until Wait has returned nil or the communicator has failed. A call that is wrong by itself is an
// error, and the communicator is as before.
func (c *Comm) Start(ctx context.Context, call Call) (*Request, error) {
	if err := call.Check(c.rank, c.ranks); err != nil {
		return nil, err
	}
	c.order.Lock()
	defer c.order.Unlock()
	if err := c.Err(); err != nil {
		return nil, err
	}
	n := c.begin(&call)
	ops, err := c.plan(ctx, &call)
	if err != nil {
		if failed := c.Err(); failed != nil {
			return nil, failed
		}
		// The other ranks may be in it already.
		c.mu.Lock()
		defer c.mu.Unlock()
		at := culprits(err)
		if at == nil {
			at = []int{c.rank}
		}
		c.fail(at, "%s: %v", c.history[n], err)
		return nil, err
	}
	if call.Collective == tree.Broadcast && c.rank == call.Root {
		copy(call.Out, call.In)
	}
	r := &Request{c: c, number: n}
	if len(ops) > 0 {
		if r.work, err = c.endpoint.Post(ops...); err != nil {
			return nil, c.explain(ctx, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = append(c.done, r.work)
	c.ended()
	return r, nil
}

// begin notes what the next collective is, for other ranks that ask, and returns its number.
func (c *Comm) begin(call *Call) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.begun
	c.begun++
	c.started[n] = time.Now()
	c.history[n] = call.text(c.rank)
	if n >= kept {
		delete(c.history, n-kept)
	}
	return n
}

// ended is how many collectives have been done. It is called with mu held.
func (c *Comm) ended() uint64 {
	for len(c.done) > 0 {
		if w := c.done[0]; w != nil {
			select {
			case <-w.Done():
			default:
				return c.doneAt
			}
			if w.Err() != nil {
				return c.doneAt
			}
		}
		delete(c.started, c.doneAt)
		c.done = c.done[1:]
		c.doneAt++
	}
	return c.doneAt
}

// plan makes the steps of a call, and says so if the hosts take the network's place.
func (c *Comm) plan(ctx context.Context, call *Call) ([]host.Op, error) {
	if call.Collective != tree.Barrier && call.Bytes(c.rank) == 0 {
		return nil, nil
	}
	refused := error(nil)
	if c.algorithm != Ring {
		var ops []host.Op
		if ops, refused = c.throughNetwork(ctx, call); refused == nil || !errors.Is(refused, ErrRefused) || c.algorithm == Network {
			return ops, refused
		}
		if c.noRing != nil {
			return nil, fmt.Errorf("%w, and the hosts cannot do it: %w", refused, c.noRing)
		}
		if text := fmt.Sprintf("%v is done by the hosts, as a ring: %v", call.Collective, refused); !c.told[text] {
			c.told[text] = true
			c.notice(text)
		}
	}
	if c.noRing != nil {
		return nil, c.noRing
	}
	return c.ring.plan(call)
}

// throughNetwork makes the steps of a call that the network carries.
func (c *Comm) throughNetwork(ctx context.Context, call *Call) ([]host.Op, error) {
	step := tree.Step{Collective: call.Collective, Root: call.Root}
	p := host.Program{Rank: c.rank, Ranks: c.ranks, Steps: []tree.Step{step}, Input: [][]byte{call.In}, Output: [][]byte{call.Out},
		Op: call.Op, DType: call.DType, Sequence: c.sequence}
	switch call.Collective {
	case tree.Barrier:
		p.Input, p.Output = [][]byte{nil}, nil
		p.Op, p.DType = spec.OpSum, spec.DTypeInt32 // what every build adds
	case tree.Broadcast:
		p.Op, p.DType = spec.OpSum, spec.DTypeInt8 // bytes
		if c.rank != call.Root {
			p.Input = [][]byte{call.Out}
		}
	case tree.AllGather:
		p.Op = spec.OpSum
		p.Input = [][]byte{call.Out}
	case tree.Reduce:
		if c.rank != call.Root {
			p.Output = nil
		}
	}
	parts := step.Split(c.ranks)
	for i, one := range parts {
		s, err := c.carrier(ctx, one.Subgroup())
		switch {
		case err != nil:
			return nil, err
		case s.refused != nil:
			return nil, s.refused
		}
		if i == 0 {
			p.Longest = c.longest * s.QP.MTU
		}
		p.Unpinned = s.Unpinned
		if p.Flags = 0; s.Reproducible && s.Unpinned {
			p.Flags = spec.ControlReproducible
		}
		if err := s.takes(call, p.Part, len(parts)); err != nil {
			return nil, err
		}
	}
	if call.Collective == tree.AllGather {
		from, _ := p.Part(len(call.Out), c.rank)
		copy(call.Out[from:], call.In)
	}
	p.QP = func(one tree.Step) (int, error) { return c.carriers[one.Subgroup()].qp, nil }
	ops, _, err := p.Plan()
	for i := range ops {
		ops[i].Paced = true
	}
	return ops, err
}

// takes returns nil if the pipes of a subgroup take a call: those that are pinned have one type and operator.
func (s *carrier) takes(call *Call, part func(bytes, r int) (from, to int), parts int) error {
	if s.Unpinned || call.Collective == tree.Barrier {
		return nil
	}
	if call.reduces() && (s.Op != call.Op || s.DType != call.DType) {
		return Refused("its pipes are pinned to %v of %v, want %v of %v", s.Op, s.DType, call.Op, call.DType)
	}
	size, err := reduce.ElementBytes(s.DType)
	if err != nil {
		return err
	}
	n := max(len(call.In), len(call.Out))
	for r := range parts {
		from, to := 0, n
		if parts > 1 {
			from, to = part(n, r)
		}
		if (to-from)%size != 0 {
			return Refused("its pipes are pinned to %v and take whole elements, %d bytes each; got %d bytes", s.DType, size, to-from)
		}
	}
	return nil
}

// carrier connects a subgroup when it is first used.
func (c *Comm) carrier(ctx context.Context, step tree.Step) (*carrier, error) {
	if s := c.carriers[step]; s != nil {
		return s, nil
	}
	sub, err := c.rendezvous.Subgroup(ctx, step, c.nextQPN)
	c.nextQPN++
	switch {
	case errors.Is(err, ErrRefused):
		c.carriers[step] = &carrier{refused: err}
		return c.carriers[step], nil
	case err != nil:
		return nil, fmt.Errorf("subgroup of %v: %w", step, err)
	}
	sub.QP.MinRNRTimer = rnrTimer
	q, err := c.endpoint.AddQP(sub.QP, sub.MessagePackets, sub.WindowPackets)
	if err != nil {
		return nil, fmt.Errorf("subgroup of %v: %w", step, err)
	}
	c.carriers[step] = &carrier{Subgroup: sub, qp: q}
	return c.carriers[step], nil
}

// Wait returns when the collective is done, with nil, or the communicator has failed. If ctx ends first it returns
// ctx's error, and the collective goes on.
func (r *Request) Wait(ctx context.Context) error {
	if r.work == nil {
		return nil
	}
	tick := time.NewTimer(askEvery)
	defer tick.Stop()
	for {
		select {
		case <-r.work.Done():
			if err := r.work.Err(); err != nil {
				return r.c.explain(ctx, err)
			}
			return nil
		default:
		}
		select {
		case <-r.work.Done():
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			r.c.look()
			tick.Reset(askEvery)
		}
	}
}

// explain fails the communicator for an error of a queue pair or of the link, once the others have said what they know.
// Such an error says least of all that can be said: when ranks disagree the switch breaks the connections of all, and a rank
// may see that before it has heard of the others. What they do, or what the rendezvous says, is the reason then. It waits
// for that no longer than explainMost, or until ctx ends.
func (c *Comm) explain(ctx context.Context, err error) error {
	start := time.Now()
	var agreed time.Time // since when all are known to mean the same
	for pause := explainFirst; ; pause = min(2*pause, askEvery) {
		c.mu.Lock()
		if n := c.ended(); c.err == nil && !c.disagree(n) {
			silent, late := c.unsaid(n, start)
			if agreed.IsZero() && len(silent)+len(late) == 0 {
				agreed = time.Now()
			}
			over := time.Since(start) > explainMost || ctx.Err() != nil || !agreed.IsZero() && time.Since(agreed) > explainGrace
			switch what := c.history[n]; {
			case !over:
				c.ask(n)
			case c.cause != nil:
				c.fail(culprits(c.cause), "%v", c.cause)
			case len(silent) == c.ranks-1 && c.ranks > 2:
				c.fail(nil, "%s: %v; no other rank answers", what, err)
			case len(silent) > 0:
				c.fail(silent, "%s: %v; %s", what, err, say(silent, "does not answer", "do not answer"))
			case len(late) > 0:
				c.fail(late, "%s: %v; %s", what, err, say(late, "has not come to it", "have not come to it"))
			default:
				c.fail(nil, "%s: %v", what, err)
			}
		}
		failed := c.err
		c.mu.Unlock()
		if failed != nil {
			return failed
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// watch fails the communicator when the rendezvous says that the group has failed. A switch can say at which rank a packet
// was not like the others', and not which of the ranks is wrong: so the ranks are asked first, if they are in a collective.
func (c *Comm) watch(ctx context.Context) {
	err := c.rendezvous.Watch(ctx)
	start := time.Now()
	for ctx.Err() == nil && err != nil {
		c.mu.Lock()
		c.cause = err
		if n := c.ended(); c.err == nil && !c.disagree(n) {
			silent, late := c.unsaid(n, start)
			if n == c.begun || len(silent)+len(late) == 0 || c.doubt.IsZero() && time.Since(start) > explainGrace {
				c.fail(culprits(err), "%v", err)
			} else {
				c.ask(n)
			}
		}
		failed := c.err
		c.mu.Unlock()
		if failed != nil {
			return
		}
		select {
		case <-time.After(explainFirst):
		case <-ctx.Done():
		}
	}
}

// How long to ask for what is behind an error of a queue pair.
const (
	explainFirst = 50 * time.Millisecond // then twice as long each time, up to askEvery
	explainGrace = time.Second           // when the ranks agree, for what the rendezvous may say
	explainMost  = deadAfter             // while ranks do not answer
)

// culprits are the ranks that an error of a Rendezvous names.
func culprits(err error) []int {
	var named interface{ Culprits() []int }
	if errors.As(err, &named) {
		return named.Culprits()
	}
	return nil
}

// Err is why the communicator has failed, a *Failure; nil while it works.
func (c *Comm) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return nil
	}
	return c.err
}

// Abort fails the communicator, here and at every other rank. No buffer of a collective is read or written after it
// has returned.
func (c *Comm) Abort(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail([]int{c.rank}, "rank %d has given up: %v", c.rank, cause)
}

// fail is called with mu held. What failed first counts.
func (c *Comm) fail(ranks []int, format string, args ...any) {
	c.failWith(&Failure{Origin: c.rank, Ranks: ranks, Reason: fmt.Sprintf(format, args...)})
}

// failAs fails as another rank did.
func (c *Comm) failAs(origin int, ranks []int, reason string) {
	if origin != c.rank && !strings.HasPrefix(reason, fmt.Sprintf("rank %d ", origin)) {
		reason = fmt.Sprintf("rank %d says: %s", origin, reason)
	}
	c.failWith(&Failure{Origin: origin, Ranks: ranks, Reason: reason})
}

func (c *Comm) failWith(f *Failure) {
	if c.err != nil {
		return
	}
	c.err = f
	c.endpoint.Abort(f)
	for r := range c.members {
		if r != c.rank {
			c.tell(r, status{})
		}
	}
}

// Close gives the rank's place up and closes its endpoint. A rank that closes while others are in a collective with it
// makes them fail.
func (c *Comm) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	var errs []error
	if c.Err() == nil {
		// A peer whose last ACK was lost asks again.
		c.endpoint.Linger(ctx, lingerQuiet, lingerMost)
		c.order.Lock()
		for _, s := range c.carriers {
			if s.refused == nil {
				errs = append(errs, c.rendezvous.Quiesced(ctx, s.Subgroup, psn.Prev(c.endpoint.NextPSN(s.qp))))
			}
		}
		c.order.Unlock()
	} else {
		c.spread(ctx)
	}
	errs = append(errs, c.rendezvous.Leave(ctx))
	c.cancel()
	c.watching.Wait()
	return errors.Join(append(errs, c.endpoint.Close())...)
}

// spread tells the other ranks why the communicator has failed, until each that is alive has said that its own has too.
func (c *Comm) spread(ctx context.Context) {
	for start := time.Now(); time.Since(start) < lingerMost && ctx.Err() == nil; {
		c.mu.Lock()
		unaware := 0
		for r, p := range c.peers {
			alive := p.life != 0 && time.Since(p.heard) < deadAfter || time.Since(start) < lingerQuiet
			if r != c.rank && !p.failed && alive {
				unaware++
				c.tell(r, status{Ask: true})
			}
		}
		c.mu.Unlock()
		if unaware == 0 {
			return
		}
		select {
		case <-time.After(lingerQuiet / 3):
		case <-ctx.Done():
		}
	}
}

// How long Close stays to answer: until nothing came for a while, but not for ever.
const (
	lingerQuiet = 300 * time.Millisecond
	lingerMost  = 3 * time.Second
)
