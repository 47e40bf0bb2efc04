package run

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// vectors makes a random vector of int32 for each rank: `bytes` (a multiple of 4) of any values, so that
// sums overflow, with runs of zeros as real gradients have.
func vectors(seed uint64, ranks, bytes int) [][]byte {
	out := make([][]byte, ranks)
	for i := range out {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		b := make([]byte, 0, bytes)
		for len(b) < bytes {
			v := r.Uint32()
			if v&7 == 0 {
				v = 0
			}
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		out[i] = b
	}
	return out
}

// sum adds vectors of int32, modulo 2^32, element by element. It shares no code with golden: it is what
// results are held against.
func sum(in [][]byte) ([]byte, error) {
	out := make([]byte, len(in[0]))
	for at := 0; at < len(out); at += 4 {
		var total uint32
		for i, v := range in {
			if len(v) != len(out) || len(v)%4 != 0 {
				return nil, fmt.Errorf("vector of rank %d: got %d bytes, want %d, a multiple of 4", i, len(v), len(out))
			}
			total += uint32(v[at]) | uint32(v[at+1])<<8 | uint32(v[at+2])<<16 | uint32(v[at+3])<<24
		}
		binary.LittleEndian.PutUint32(out[at:], total)
	}
	return out, nil
}
