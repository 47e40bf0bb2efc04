package interop

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/tree"
)

func floats(list ...float32) (b []byte) {
	for _, f := range list {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}

func ints(list ...int32) (b []byte) {
	for _, i := range list {
		b = binary.LittleEndian.AppendUint32(b, uint32(i))
	}
	return b
}

// 2^24 + 1 + 1 in float32: 2^24 from the left, since 2^24 + 1 rounds to even, and 2^24 + 2 if the ones meet first.
func TestSumsOfEveryOrder(t *testing.T) {
	words := []uint32{math.Float32bits(1 << 24), math.Float32bits(1), math.Float32bits(1)}
	require.Equal(t, []uint32{math.Float32bits(1 << 24)}, sums(Reproducible, words))
	got := sums(Float32, words)
	slices.Sort(got)
	require.Equal(t, []uint32{math.Float32bits(1 << 24), math.Float32bits(1<<24 + 2)}, got)
	require.Equal(t, []uint32{1}, sums(Int32, []uint32{math.MaxUint32, 2}))
}

func TestCheck(t *testing.T) {
	big, one := floats(1<<24, 1), floats(1, 1)
	order, other := floats(1<<24, 3), floats(1<<24+2, 3)
	in := [][]byte{big, one, one}
	allreduce, reduce := tree.Step{Collective: tree.AllReduce}, tree.Step{Collective: tree.Reduce, Root: 2}
	scatter, gather, cast := tree.Step{Collective: tree.ReduceScatter}, tree.Step{Collective: tree.AllGather}, tree.Step{Collective: tree.Broadcast, Root: 1}
	whole := [][]byte{ints(1, 2, 3), ints(10, 20, 30), ints(100, 200, 300)}
	for _, c := range []struct {
		name    string
		step    tree.Step
		numbers string
		in, got [][]byte
		want    string // of the error; empty: none
	}{
		{"in order", allreduce, Reproducible, in, [][]byte{order, order, order}, ""},
		{"in another order", allreduce, Reproducible, in, [][]byte{other, other, other}, "result of rank 0: element 0"},
		{"any order", allreduce, Float32, in, [][]byte{other, other, other}, ""},
		{"ranks differ", allreduce, Float32, in, [][]byte{order, order, other}, "ranks 0 and 2 do not have the same"},
		{"one rank twice", allreduce, Float32, in, [][]byte{floats(1<<25, 3), order, order}, "result of rank 0: element 0"},
		{"one rank missing", allreduce, Int32, whole, [][]byte{ints(111, 222, 333), ints(111, 222, 333), ints(101, 222, 333)}, "result of rank 2: element 0"},
		{"short", allreduce, Int32, whole, [][]byte{ints(111, 222), ints(111, 222, 333), ints(111, 222, 333)}, "got 8 bytes, want 12"},
		{"root adds last", reduce, Reproducible, [][]byte{one, one, big}, [][]byte{nil, nil, floats(1<<24+2, 3)}, ""},
		{"root adds first", reduce, Float32, [][]byte{one, one, big}, [][]byte{nil, nil, order}, "result of rank 2: element 0"},
		{"no root", reduce, Int32, whole, [][]byte{ints(1), nil, ints(111, 222, 333)}, "result of rank 0: got 4 bytes, want 0"},
		{"parts", scatter, Int32, whole, [][]byte{ints(111), ints(222), ints(333)}, ""},
		{"wrong part", scatter, Int32, whole, [][]byte{ints(111), ints(333), ints(222)}, "result of rank 1: element 0"},
		{"gathered", gather, Int32, whole, [][]byte{ints(1, 20, 300), ints(1, 20, 300), ints(1, 20, 300)}, ""},
		{"gathered badly", gather, Int32, whole, [][]byte{ints(1, 20, 300), ints(1, 20, 30), ints(1, 20, 300)}, "result of rank 1: byte 8"},
		{"broadcast", cast, Int32, whole, [][]byte{whole[1], whole[1], whole[1]}, ""},
		{"broadcast of another", cast, Int32, whole, [][]byte{whole[1], whole[1], whole[2]}, "result of rank 2: byte 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := check(c.step, c.numbers, c.in, c.got)
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
		})
	}
}

// The vectors are such that the order shows: else a check of the order would check nothing.
func TestOrderShowsInVectors(t *testing.T) {
	in := vectors(1, 3, 4000, Float32)
	several := 0
	for at := 0; at < len(in[0]); at += wordBytes {
		var words []uint32
		for _, v := range in {
			words = append(words, binary.LittleEndian.Uint32(v[at:]))
		}
		if len(sums(Float32, words)) > 1 {
			several++
		}
	}
	require.Greater(t, several, 200, "of 1000 elements")
}

func TestStates(t *testing.T) {
	require.NoError(t, checkStates(1, "step 0 x\nqp 17 subgroup allreduce:0 state RTS\nqp 18 subgroup reduce:1 state RTS\n", 2))
	require.ErrorContains(t, checkStates(1, "qp 17 subgroup allreduce:0 state ERROR\n", 1), "rank 1: qp 17 subgroup allreduce:0 state ERROR, want RTS")
	require.ErrorContains(t, checkStates(1, "qp 17 subgroup allreduce:0 state RTS\n", 2), "1 queue pairs, want 2")
}

func TestFates(t *testing.T) {
	require.NoError(t, Fates{Frames: 9}.check(Quiet))
	require.NoError(t, Fates{Frames: 9, Lost: 1}.check(Lossy))
	require.NoError(t, Fates{Frames: 9, Lost: 1, Duplicates: 1, Late: 1}.check(Wild))
	require.ErrorContains(t, Fates{Frames: 9, Lost: 1}.check(Quiet), "1 of 9 frames were lost, want none")
	require.ErrorContains(t, Fates{Frames: 9}.check(Lossy), "0 of 9 frames were lost, want some")
	require.ErrorContains(t, Fates{Frames: 9, Lost: 1, Late: 1}.check(Wild), "0 of 9 frames were duplicated, want some")
}

func TestTimes(t *testing.T) {
	median, p99, err := stepTimes("step 0 allreduce:0 repetitions 200 ms_min 0.100 ms_median 0.250 ms_p99 1.5\nqp 17")
	require.NoError(t, err)
	require.Equal(t, []float64{250, 1500}, []float64{median, p99})
	_, _, err = stepTimes("qp 17")
	require.ErrorContains(t, err, "no times")
	median, p99, err = sendLatTimes(" #bytes #iterations    t_min[usec]\n 8       200          240.10   990.2   300.50   310.1   4.2   800.0  990.2 \n", 8)
	require.NoError(t, err)
	require.Equal(t, []float64{300.5, 800}, []float64{median, p99})
	_, _, err = sendLatTimes("Couldn't connect", 8)
	require.ErrorContains(t, err, "no line of 8 bytes")
}
