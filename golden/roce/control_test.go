package roce_test

import (
	"math"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// By hand from protocol.md 10: type(4) | op(4) | dtype(4) | flags(4) | root(16), then two 64-bit numbers.
func TestControl(t *testing.T) {
	c := roce.Control{Type: spec.CollTypeReduce, Op: spec.OpMax, DType: spec.DTypeFloat16, Flags: spec.ControlReproducible,
		Root: 0xabcd, Bytes: 0x0102030405060708, Sequence: 0xfffefdfcfbfaf9f8}
	imm := uint32(0x1241abcd)
	payload := []byte{1, 2, 3, 4, 5, 6, 7, 8, 0xff, 0xfe, 0xfd, 0xfc, 0xfb, 0xfa, 0xf9, 0xf8}
	assert.Equal(t, imm, c.Imm())
	assert.Equal(t, payload, c.Payload())
	assert.Len(t, payload, spec.ControlBytes)
	assert.Equal(t, c, roce.ParseControl(imm, payload))
	all := roce.ParseControl(math.MaxUint32, make([]byte, 16))
	assert.Equal(t, roce.Control{Type: 15, Op: 15, DType: 15, Flags: 15, Root: 0xffff}, all)
	assert.Equal(t, uint32(math.MaxUint32), all.Imm())
}

func TestControlPackets(t *testing.T) {
	for bytes, want := range map[uint64]uint64{0: 0, 1: 1, 255: 1, 256: 1, 257: 2, 256 << 22: 1 << 22, math.MaxUint64: 1 << 56} {
		assert.Equal(t, want, roce.Control{Bytes: bytes}.Packets(256), bytes)
	}
}

// A frame that was cut off comes back with zeros, up to its IP length and no further.
func TestComplete(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		p := &roce.Packet{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), Payload: []byte{1, 2, 3, 4, 5, 6, 7, 8}}
		if v6 {
			p.Src, p.Dst = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
		}
		whole := p.Encode()
		udpEnd := len(whole) - len(p.Payload) - roce.BTHSize - roce.ICRCSize
		for n := range len(whole) + 1 {
			got := roce.Complete(whole[:n])
			if n < udpEnd {
				require.Equal(t, whole[:n], got, "not known to be RoCE")
				continue
			}
			require.Len(t, got, len(whole))
			require.Equal(t, whole[:n], got[:n])
			require.Equal(t, make([]byte, len(whole)-n), got[n:])
		}
		trailed := append(whole[:len(whole):len(whole)], 0, 0, 7)
		require.Equal(t, trailed, roce.Complete(trailed))
	}
}
