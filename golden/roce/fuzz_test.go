package roce_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/roce"
)

// No frame makes Decode, Dissect, FieldAt, Diff, SetICRC or the layers fail, and what Decode takes comes
// back from Encode and Decode the same.
func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(6, 4791))
	for range 40 {
		f.Add(random(r).Encode())
	}
	for _, v6 := range []bool{false, true} {
		s := sendOnly()
		s.v6, s.tags = v6, strip(tag2)
		whole := s.frame(f)
		f.Add(whole)
		f.Add(whole[:len(whole)-5])
	}
	for _, file := range captures(f) { // what a kernel sends; one of each length
		seen := map[int]bool{}
		for _, frame := range frames(f, file) {
			if !seen[len(frame)] {
				seen[len(frame)] = true
				f.Add(frame)
			}
		}
	}
	f.Add([]byte{})
	parser := roce.NewParser()
	f.Fuzz(func(t *testing.T, frame []byte) {
		fuzzOne(t, parser, frame)
		mended := append([]byte(nil), frame...) // checksums right, so that the rules behind them are reached
		if len(mended) >= 34 && mended[12] == 0x08 && mended[13] == 0x00 {
			refFixIP(mended, 14)
		}
		_ = roce.SetICRC(mended)
		fuzzOne(t, parser, mended)
	})
}

func fuzzOne(t *testing.T, parser *roce.Parser, frame []byte) {
	p, m := roce.Decode(frame)
	verdictOf(t, frame)
	_, _ = parser.Decode(frame)
	for i := range min(len(frame), 200) {
		require.NotEmpty(t, roce.FieldAt(frame, i))
	}
	if m != nil {
		require.NotEmpty(t, m.Error())
		return
	}
	q, m := roce.Decode(p.Encode())
	require.Nil(t, m)
	require.Equal(t, p, q)
	again := append([]byte(nil), frame...)
	require.NoError(t, roce.SetICRC(again))
	require.Equal(t, frame, again)
}

// Any bits are a control signal, and come out again as they were.
func FuzzControl(f *testing.F) {
	f.Add(uint32(0), uint64(0), uint64(0))
	f.Add(uint32(0x1203_0007), uint64(1)<<40, uint64(3))
	f.Fuzz(func(t *testing.T, imm uint32, bytes, sequence uint64) {
		payload := roce.Control{Bytes: bytes, Sequence: sequence}.Payload()
		c := roce.ParseControl(imm, payload)
		require.Equal(t, imm, c.Imm())
		require.Equal(t, payload, c.Payload())
		n := c.Packets(256)
		require.True(t, n == bytes>>8 && bytes&0xff == 0 || n == bytes>>8+1 && bytes&0xff != 0)
	})
}
