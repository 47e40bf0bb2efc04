package interop

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/epic-inc/epic/golden/tree"
)

const wordBytes = 4 // of every element here

// vectors are random inputs of the ranks. Floats are of the size of gradients, so that their sums round, and the
// order of the additions shows in the bits; one word in eight is zero.
func vectors(seed uint64, ranks, bytes int, numbers string) [][]byte {
	list := make([][]byte, ranks)
	for r := range list {
		rng := rand.New(rand.NewPCG(seed, uint64(r)))
		for len(list[r]) < bytes {
			w := rng.Uint32()
			if numbers != Int32 {
				w = math.Float32bits(float32(math.Ldexp(rng.NormFloat64(), -rng.IntN(12))))
			}
			if rng.IntN(8) == 0 {
				w = 0
			}
			list[r] = binary.LittleEndian.AppendUint32(list[r], w)
		}
	}
	return list
}

// add is one addition, by the machine's own arithmetic.
func add(numbers string, a, b uint32) uint32 {
	if numbers == Int32 {
		return a + b
	}
	return math.Float32bits(math.Float32frombits(a) + math.Float32frombits(b))
}

// sums are the sums of the words that an engine may give: one, in their order; of Float32, those of every order.
func sums(numbers string, words []uint32) []uint32 {
	var found []uint32
	var extend func(total uint32, left []uint32)
	extend = func(total uint32, left []uint32) {
		if len(left) == 0 {
			if !slices.Contains(found, total) {
				found = append(found, total)
			}
			return
		}
		for i := range left {
			if i > 0 && numbers != Float32 {
				break
			}
			extend(add(numbers, total, left[i]), slices.Delete(slices.Clone(left), i, i+1))
		}
	}
	for i := range words {
		if i > 0 && numbers != Float32 {
			break
		}
		extend(words[i], slices.Delete(slices.Clone(words), i, i+1))
	}
	return found
}

// part is the share of rank r of a vector of so many bytes, in whole elements.
func part(bytes, ranks, r int) (from, to int) {
	n := bytes / wordBytes
	return r * n / ranks * wordBytes, (r + 1) * n / ranks * wordBytes
}

// check holds the ranks' results of a step against the vectors: what rank r has is got[r]; nil if it gets nothing.
func check(step tree.Step, numbers string, in, got [][]byte) error {
	for r, g := range got {
		if err := checkRank(step, numbers, in, g, r); err != nil {
			return fmt.Errorf("%v: result of rank %d: %w", step, r, err)
		}
		if step.Collective == tree.AllReduce && string(g) != string(got[0]) {
			return fmt.Errorf("%v: ranks 0 and %d do not have the same result", step, r)
		}
	}
	return nil
}

func checkRank(step tree.Step, numbers string, in [][]byte, got []byte, r int) error {
	bytes := len(in[0])
	switch step.Collective {
	case tree.AllReduce:
		return checkSum(numbers, in, nil, got)
	case tree.Reduce:
		if step.Root != r {
			return same(nil, got)
		}
		return checkSum(numbers, without(in, r), in[r], got)
	case tree.ReduceScatter:
		from, to := part(bytes, len(in), r)
		cut := make([][]byte, len(in))
		for i, v := range in {
			cut[i] = v[from:to]
		}
		return checkSum(numbers, without(cut, r), cut[r], got)
	case tree.Broadcast:
		return same(in[step.Root], got)
	case tree.AllGather:
		var whole []byte
		for i, v := range in {
			from, to := part(bytes, len(in), i)
			whole = append(whole, v[from:to]...)
		}
		return same(whole, got)
	}
	return same(nil, got)
}

func without(list [][]byte, i int) [][]byte { return slices.Delete(slices.Clone(list), i, i+1) }

func same(want, got []byte) error {
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			return fmt.Errorf("byte %d is %#02x, want %#02x", i, got[i], want[i])
		}
	}
	if len(want) != len(got) {
		return fmt.Errorf("got %d bytes, want %d", len(got), len(want))
	}
	return nil
}

// checkSum holds a result against the sums of the vectors that the network adds, to which own, if it is not nil, is
// added last.
func checkSum(numbers string, in [][]byte, own, got []byte) error {
	if len(got) != len(in[0]) {
		return fmt.Errorf("got %d bytes, want %d", len(got), len(in[0]))
	}
	words := make([]uint32, len(in))
	for at := 0; at < len(got); at += wordBytes {
		for i, v := range in {
			words[i] = binary.LittleEndian.Uint32(v[at:])
		}
		may := sums(numbers, words)
		if own != nil {
			for i := range may {
				may[i] = add(numbers, may[i], binary.LittleEndian.Uint32(own[at:]))
			}
		}
		if w := binary.LittleEndian.Uint32(got[at:]); !slices.Contains(may, w) {
			return fmt.Errorf("element %d is %#08x, want %s of %#08x", at/wordBytes, w, map[bool]string{true: "the sum in any order, one", false: "exactly"}[numbers == Float32], may)
		}
	}
	return nil
}
