package coll

import (
	"fmt"

	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/tree"
)

// ring plans collectives that the hosts do among themselves: each rank sends to the one after it and receives from
// the one before. Every step sends what the step before it received, so a plan is a list of steps like any other
// collective's.
type ring struct {
	rank, ranks int
	next, prev  int // queue pairs
	segment     int // bytes that go on along a chain at once, whole elements of every type
}

// exchange is a step that sends a vector to the next rank and receives one of the previous: into, with own, if it is
// not nil, reduced into it.
func (r *ring) exchange(c *Call, send, into, own []byte) host.Op {
	prev := r.prev
	return host.Op{QP: r.next, From: &prev, Send: send, Recv: len(into), Into: into, Own: own, Op: c.Op, DType: c.DType}
}

// plan makes the steps of a call. Before anything else each rank tells the one before it that it has come: a rank that
// sent to one that has not would be told to wait again and again, with a window of packets each time.
func (r *ring) plan(c *Call) ([]host.Op, error) {
	ops, err := r.steps(c)
	if err != nil || len(ops) == 0 {
		return nil, err
	}
	next := r.next
	ready := host.Op{QP: r.prev, From: &next, Send: []byte{1}, Recv: 1, Into: make([]byte, 1)}
	return append([]host.Op{ready}, ops...), nil
}

func (r *ring) steps(c *Call) ([]host.Op, error) {
	switch c.Collective {
	case tree.AllReduce:
		scattered := r.reduceScatter(c, func(k int) []byte { return r.part(c, c.Out, k) })
		return append(scattered, r.allGather(c)...), nil
	case tree.ReduceScatter:
		// What others will have passes through: it needs memory, each part its own, because a rank that is ahead sends
		// the next before this one has passed the last on.
		scratch := make([]byte, len(c.In))
		return r.reduceScatter(c, func(k int) []byte {
			if k == r.rank {
				return c.Out
			}
			return r.part(c, scratch, k)
		}), nil
	case tree.AllGather:
		copy(r.part(c, c.Out, r.rank), c.In)
		return r.allGather(c), nil
	case tree.Reduce:
		return r.reduce(c), nil
	case tree.Broadcast:
		return r.broadcast(c), nil
	case tree.Barrier:
		return r.barrier(c), nil
	}
	return nil, fmt.Errorf("ring: collective %v is unknown", c.Collective)
}

// part is rank k's share of a vector; k is taken modulo the ranks.
func (r *ring) part(c *Call, v []byte, k int) []byte {
	k = ((k % r.ranks) + r.ranks) % r.ranks
	from, to := Part(len(v), c.element(), k, r.ranks)
	return v[from:to:to]
}

// reduceScatter: after step s rank r has part r-2-s of s+2 ranks, and of all of them in the end its own. work(k) is
// where part k is put.
func (r *ring) reduceScatter(c *Call, work func(k int) []byte) []host.Op {
	var ops []host.Op
	send := r.part(c, c.In, r.rank-1)
	for s := range r.ranks - 1 {
		k := (r.rank - 2 - s + 2*r.ranks) % r.ranks
		into := work(k)
		ops = r.add(ops, r.exchange(c, send, into, r.part(c, c.In, k)))
		send = into
	}
	return ops
}

// allGather: every rank has its own part of Out, and gets that of the ranks before it, the nearest first.
func (r *ring) allGather(c *Call) []host.Op {
	var ops []host.Op
	for s := range r.ranks - 1 {
		ops = r.add(ops, r.exchange(c, r.part(c, c.Out, r.rank-s), r.part(c, c.Out, r.rank-s-1), nil))
	}
	return ops
}

// add leaves out what moves nothing.
func (r *ring) add(ops []host.Op, op host.Op) []host.Op {
	if len(op.Send) == 0 && op.Recv == 0 {
		return ops
	}
	if op.Recv == 0 {
		op.Own, op.Into = nil, nil
	}
	return append(ops, op)
}

// reduce goes along the chain that begins after the root and ends with it, a segment at a time.
func (r *ring) reduce(c *Call) []host.Op {
	at := (r.rank - c.Root - 1 + r.ranks) % r.ranks // place in the chain
	switch at {
	case 0:
		return r.chain(c, c.In, nil, nil)
	case r.ranks - 1:
		return r.chain(c, nil, c.Out, c.In)
	}
	scratch := make([]byte, len(c.In))
	return r.chain(c, scratch, scratch, c.In)
}

// broadcast goes along the chain that begins with the root.
func (r *ring) broadcast(c *Call) []host.Op {
	switch (r.rank - c.Root + r.ranks) % r.ranks {
	case 0:
		return r.chain(c, c.In, nil, nil)
	case r.ranks - 1:
		return r.chain(c, nil, c.Out, nil)
	}
	return r.chain(c, c.Out, c.Out, nil)
}

// chain passes a vector on: each step receives a segment and sends the one received before it.
func (r *ring) chain(c *Call, send, into, own []byte) []host.Op {
	cut := func(v []byte, i int) []byte {
		from := min(len(v), i*r.segment)
		to := min(len(v), from+r.segment)
		return v[from:to:to]
	}
	segments := (max(len(send), len(into)) + r.segment - 1) / r.segment
	var ops []host.Op
	delay := 0 // of what is sent behind what is received
	if send != nil && into != nil {
		delay = 1
	}
	for i := range segments + delay {
		var mine []byte
		if own != nil {
			mine = cut(own, i)
		}
		var out []byte
		if i >= delay {
			out = cut(send, i-delay)
		}
		ops = r.add(ops, r.exchange(c, out, cut(into, i), mine))
	}
	return ops
}

// barrier: a byte goes round twice. It comes back to rank 0 when all have come, and the second round tells them so.
func (r *ring) barrier(c *Call) []host.Op {
	token := []byte{1}
	send := host.Op{QP: r.next, Send: token}
	receive := r.exchange(c, nil, make([]byte, 1), nil)
	if r.rank == 0 {
		return []host.Op{send, receive, send, receive}
	}
	return []host.Op{receive, send, receive, send}
}
