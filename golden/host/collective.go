package host

import (
	"fmt"

	"github.com/epic-inc/epic/golden/reduce"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// Program is a list of collectives that a rank takes part in, one after the other.
type Program struct {
	Rank, Ranks int
	Steps       []tree.Step
	Input       [][]byte // the rank's vector for each collective; a Barrier has none
	// Output is where each collective's result goes, as long as Result says; nil, or nil of one: memory of its own. The
	// rank's part of an AllGather, and a Broadcast at its root, stay where they are.
	Output [][]byte
	Op     spec.Op
	DType  spec.DType
	// Unpinned says that each collective is opened by a control signal (protocol.md 10), with these flags.
	Unpinned bool
	Flags    uint8
	// Sequence is the number of each queue pair's next collective, and Plan counts it on; nil: all begin with 0.
	Sequence map[int]uint64
	// Longest is the most bytes of one collective, whole packets; a longer one is cut (protocol.md 10), and its result
	// is in Output alone. 0: any.
	Longest int
	// QP is the queue pair of the subgroup for AllReduce, Barrier, a Reduce or a Broadcast.
	QP func(tree.Step) (int, error)
}

// Part is the share of rank r of a vector of so many bytes, in whole elements: bytes from..to-1.
// Shares differ by one element at most.
func (p *Program) Part(bytes, r int) (from, to int) {
	size, err := reduce.ElementBytes(p.DType)
	if err != nil {
		return 0, 0
	}
	n := bytes / size
	return r * n / p.Ranks * size, (r + 1) * n / p.Ranks * size
}

// Plan returns the steps of the program, and of each collective the index of its first; the last entry is
// the number of all. ReduceScatter and AllGather become Reduces and Broadcasts of the ranks' parts, in rank
// order, pipelined; the part of a rank that is empty is left out.
func (p *Program) Plan() (ops []Op, first []int, err error) {
	if _, err := reduce.ElementBytes(p.DType); err != nil {
		return nil, nil, err
	}
	if len(p.Input) != len(p.Steps) {
		return nil, nil, fmt.Errorf("program of rank %d: got %d vectors for %d collectives", p.Rank, len(p.Input), len(p.Steps))
	}
	sequence := p.Sequence
	if sequence == nil {
		sequence = map[int]uint64{}
	}
	for i, s := range p.Steps {
		first = append(first, len(ops))
		v, out := p.Input[i], []byte(nil)
		if p.Output != nil {
			out = p.Output[i]
		}
		for r, one := range s.Split(p.Ranks) {
			from, to := 0, len(v)
			if one != s { // a part
				from, to = p.Part(len(v), r)
			}
			into := out
			switch {
			case into == nil:
			case s.Collective == tree.AllGather:
				into = out[from:to]
			case one.Collective == tree.Reduce && one.Root != p.Rank:
				into = nil
			}
			added, err := p.plan(one, v[from:to], into, one != s && r > 0, sequence)
			if err != nil {
				return nil, nil, fmt.Errorf("program of rank %d: collective %d, %v: %w", p.Rank, i, s, err)
			}
			ops = append(ops, added...)
		}
	}
	return ops, append(first, len(ops)), nil
}

// plan is the steps of an AllReduce, Barrier, Reduce or Broadcast of a vector, whose result goes to out if it is not
// nil; pipelined if its first step may begin before what comes before it has ended.
func (p *Program) plan(s tree.Step, v, out []byte, pipelined bool, sequence map[int]uint64) (ops []Op, err error) {
	if p.Longest > 0 && len(v) > p.Longest {
		for at := 0; at < len(v); at += p.Longest {
			to, into := min(len(v), at+p.Longest), []byte(nil)
			if out != nil {
				into = out[at:to]
			}
			cut, err := p.plan(s, v[at:to], into, pipelined, sequence)
			if err != nil {
				return nil, err
			}
			ops = append(ops, cut...)
		}
		return ops, nil
	}
	if len(v) == 0 && s.Collective != tree.Barrier {
		return nil, nil
	}
	op := Op{Op: p.Op, DType: p.DType, Pipelined: pipelined}
	if op.QP, err = p.QP(s); err != nil {
		return nil, err
	}
	root := s.Root == p.Rank
	switch s.Collective {
	case tree.AllReduce:
		op.Send, op.Recv = v, len(v)
	case tree.Barrier:
		op.Barrier = true
	case tree.Reduce:
		if root {
			op.Recv, op.Own = len(v), v
		} else {
			op.Send = v
		}
	case tree.Broadcast:
		if root {
			op.Send = v
		} else {
			op.Recv = len(v)
		}
	}
	if op.Recv > 0 {
		op.Into = out
	}
	if p.Unpinned {
		signal := p.signal(s, op, len(v), sequence[op.QP])
		signal.Pipelined = pipelined
		sequence[op.QP]++
		ops = append(ops, signal)
		if op.Pipelined = false; s.Collective == tree.Barrier {
			return ops, nil // the signal's own result is the Barrier
		}
	}
	return append(ops, op), nil
}

// signal is the step of the control signal before another step.
func (p *Program) signal(s tree.Step, data Op, bytes int, sequence uint64) Op {
	c := roce.Control{Type: spec.CollType(s.Collective), Op: p.Op, DType: p.DType, Flags: p.Flags, Root: uint16(s.Root), Bytes: uint64(bytes), Sequence: sequence}
	imm, payload := c.Imm(), c.Payload()
	op := Op{QP: data.QP, Barrier: data.Barrier, Imm: &imm, Want: payload}
	if len(data.Send) > 0 || data.Barrier {
		op.Send = payload
	}
	if data.Recv > 0 || data.Barrier {
		op.Recv = len(payload)
	}
	return op
}

// Result is what the rank has of collective i of the program that r ran: a vector as long as its input
// after AllReduce, Broadcast and AllGather, and after Reduce at the root; its part after ReduceScatter;
// nil where it gets nothing.
func (p *Program) Result(r *Rank, first []int, i int) []byte {
	v, s := p.Input[i], p.Steps[i]
	if len(v) == 0 { // it has no steps
		return nil
	}
	from, each := first[i], 1
	if p.Unpinned { // each step has its signal before it
		from, each = from+1, 2
	}
	switch s.Collective {
	case tree.AllReduce:
		return r.Result(from)
	case tree.Reduce:
		if s.Root == p.Rank {
			return r.Result(from)
		}
	case tree.Broadcast:
		if s.Root == p.Rank {
			return v
		}
		return r.Result(from)
	case tree.ReduceScatter, tree.AllGather:
		var whole []byte
		at := from
		for k := range p.Ranks {
			lo, hi := p.Part(len(v), k)
			if lo == hi {
				continue
			}
			switch {
			case s.Collective == tree.AllGather && k == p.Rank:
				whole = append(whole, v[lo:hi]...)
			case s.Collective == tree.AllGather, k == p.Rank:
				whole = append(whole, r.Result(at)...)
			}
			at += each
		}
		return whole
	}
	return nil
}
