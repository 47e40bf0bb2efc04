package coll

import (
	"fmt"
	"unsafe"

	"github.com/epic-inc/epic/golden/reduce"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// Call is one collective as an application asks for it. Every rank of the communicator makes the same calls in the
// same order: same collective, root, type, operator and number of bytes.
type Call struct {
	Collective tree.Collective
	Root       int        // of Reduce and Broadcast, else 0
	DType      spec.DType // of all but Broadcast and Barrier, which move bytes
	Op         spec.Op    // of AllReduce, Reduce and ReduceScatter
	// In is what the rank gives and Out where its result goes. Out may be In, or the rank's part of it; otherwise they
	// must not overlap.
	//
	//	AllReduce      In n bytes, Out n bytes
	//	Reduce         In n bytes, Out n bytes at the root, else unused
	//	Broadcast      In n bytes at the root, else unused; Out n bytes, at the root it may be empty
	//	ReduceScatter  In n bytes, Out the rank's Part of n
	//	AllGather      In the rank's Part of n, Out n bytes
	//	Barrier        neither
	In, Out []byte
}

// Part is the share of a rank of a vector of so many bytes with elements of a size: bytes from..to-1, whole elements.
// Shares differ by one element at most; if the ranks divide the elements they are equal, as in MPI and NCCL.
func Part(bytes, element, rank, ranks int) (from, to int) {
	n := bytes / element
	return rank * n / ranks * element, (rank + 1) * n / ranks * element
}

// reduces says whether elements are added: whether Op counts.
func (c *Call) reduces() bool {
	switch c.Collective {
	case tree.AllReduce, tree.Reduce, tree.ReduceScatter:
		return true
	}
	return false
}

// element is the size of what is not cut.
func (c *Call) element() int {
	if !c.reduces() && c.Collective != tree.AllGather {
		return 1
	}
	n, err := reduce.ElementBytes(c.DType)
	if err != nil {
		return 1
	}
	return n
}

// Bytes is n of the table above, at a rank.
func (c *Call) Bytes(rank int) int {
	switch {
	case c.Collective == tree.AllGather, c.Collective == tree.Broadcast && rank != c.Root:
		return len(c.Out)
	}
	return len(c.In)
}

// text describes the call; those of two ranks are equal if and only if they go together.
func (c *Call) text(rank int) string {
	s := c.Collective.String()
	if c.Collective == tree.Barrier {
		return s
	}
	s += fmt.Sprintf(" of %d bytes", c.Bytes(rank))
	switch {
	case c.reduces():
		s += fmt.Sprintf(" of %v, %v", c.DType, c.Op)
	case c.Collective == tree.AllGather:
		s += fmt.Sprintf(" of %v", c.DType)
	}
	if c.Collective.HasRoot() {
		s += fmt.Sprintf(", root %d", c.Root)
	}
	return s
}

// Check returns nil if rank of ranks can make the call, or what is wrong with it.
func (c *Call) Check(rank, ranks int) error {
	if c.Collective > tree.AllGather {
		return fmt.Errorf("got collective %d, want one of %v", uint8(c.Collective), tree.Collectives())
	}
	if c.Root < 0 || c.Root >= ranks || c.Root != 0 && !c.Collective.HasRoot() {
		return fmt.Errorf("%v: got root %d, want 0..%d of reduce and broadcast, 0 of others", c.Collective, c.Root, ranks-1)
	}
	if _, err := reduce.ElementBytes(c.DType); err != nil {
		return fmt.Errorf("%v: %w", c.Collective, err)
	}
	if c.reduces() {
		if err := reduce.Supported(c.DType, c.Op); err != nil {
			return fmt.Errorf("%v: %w", c.Collective, err)
		}
	}
	n, element := c.Bytes(rank), c.element()
	if n%element != 0 {
		return fmt.Errorf("%v: got %d bytes, want whole elements of %v, %d bytes each", c.Collective, n, c.DType, element)
	}
	from, to := Part(n, element, rank, ranks)
	in, out := n, n
	switch c.Collective {
	case tree.Barrier:
		in, out = 0, 0
	case tree.Reduce:
		if rank != c.Root {
			out = len(c.Out) // unused
		}
	case tree.Broadcast:
		if rank != c.Root {
			in = len(c.In) // unused
		} else if len(c.Out) == 0 {
			out = 0
		}
	case tree.ReduceScatter:
		out = to - from
	case tree.AllGather:
		in = to - from
	}
	if len(c.In) != in || len(c.Out) != out {
		return fmt.Errorf("%v at rank %d of %d: got %d bytes in and %d out, want %d and %d", c.Collective, rank, ranks, len(c.In), len(c.Out), in, out)
	}
	return c.checkOverlap(from, rank)
}

// checkOverlap lets Out be In, or its part at `from`, and nothing between.
func (c *Call) checkOverlap(from, rank int) error {
	at, apart := distance(c.In, c.Out)
	want := 0 // of Out from In
	switch c.Collective {
	case tree.ReduceScatter:
		want = from
	case tree.AllGather:
		want = -from
	case tree.Reduce:
		apart = apart || rank != c.Root
	case tree.Broadcast:
		apart = apart || rank != c.Root
	}
	if apart || at == want {
		return nil
	}
	return fmt.Errorf("%v: in and out overlap, out begins %d bytes after in; want the same memory (%d) or memory of its own", c.Collective, at, want)
}

// distance is how many bytes out begins after in; apart says that they share no byte.
func distance(in, out []byte) (bytes int, apart bool) {
	if len(in) == 0 || len(out) == 0 {
		return 0, true
	}
	i, o := uintptr(unsafe.Pointer(&in[0])), uintptr(unsafe.Pointer(&out[0]))
	return int(o) - int(i), i+uintptr(len(in)) <= o || o+uintptr(len(out)) <= i
}
