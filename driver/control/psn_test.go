package control

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/control/controlpb"
	"github.com/epic-inc/epic/driver/control/failure"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/psn"
)

func TestFirstPSN(t *testing.T) {
	for _, tt := range []struct {
		name string
		last []psn.PSN
		want psn.PSN
	}{
		{"no past", nil, 0x123456},
		{"one", []psn.PSN{0x000010}, 0x400010},
		{"the same of all", []psn.PSN{0x000010, 0x000010, 0x000010}, 0x400010},
		{"over the wrap", []psn.PSN{0xfffff0}, 0x3ffff0},
		{"two near each other", []psn.PSN{0x000010, 0x000500}, 0x400500},
		{"two opposite: between them", []psn.PSN{0x000000, 0x800000}, 0x400000},
		{"three: the first that is far from each", []psn.PSN{0x000000, 0x400000, 0x700000}, 0xb00000},
		{"four at a quarter each: the middle of a gap", []psn.PSN{0x000000, 0x400000, 0x800000, 0xc00000}, 0x200000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := firstPSN(tt.last, 0x123456)
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
		})
	}
	var all []psn.PSN
	for p := psn.PSN(0); p <= psn.Mask; p += 1 << 17 {
		all = append(all, p)
	}
	_, err := firstPSN(all, 0)
	assert.True(t, failure.Is(err, controlpb.Kind_KIND_NO_RESOURCE), err)
}

// However the pasts lie, nobody's window meets another's leftovers.
func TestFirstPSNIsFar(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 1000 {
		var last []psn.PSN
		for range 1 + rng.IntN(40) {
			last = append(last, psn.PSN(rng.Uint32()&psn.Mask))
		}
		p, err := firstPSN(last, 0)
		if err != nil {
			continue // said to be impossible; that there is a gap then is checked above
		}
		for _, l := range last {
			d := int(uint32(p-l) & psn.Mask)
			require.GreaterOrEqual(t, min(d, 1<<24-d), 1<<17, "%v of %v", p, last)
		}
	}
}

// What is the last psn of a subgroup depends on who has said what.
func TestLastUsed(t *testing.T) {
	p := newSubgroup(t, 0xfffff0)
	u := func(v uint32) *uint32 { return &v }
	assert.Equal(t, psn.PSN(0xffffef), p.lastUsed(16), "nobody has said anything")
	p.Quiesced, p.Last = []bool{true, true, true}, []*uint32{u(0x000010), nil, u(0x000012)}
	assert.Equal(t, psn.PSN(0x000012), p.lastUsed(16), "all have; one has sent nothing")
	p.Quiesced[1] = false
	next := psn.PSN(0x000020)
	p.next = &next
	assert.Equal(t, psn.PSN(0x00002f), p.lastUsed(16), "not all: the switch's count and the window")
}

func newSubgroup(t *testing.T, psn0 uint32) *subgroup {
	t.Helper()
	o := group.DefaultOptions()
	o.Ranks, o.PSN0 = 3, uint64(psn0)
	g, err := group.Generate(o)
	require.NoError(t, err)
	return &subgroup{group: g, Quiesced: make([]bool, 3), Last: make([]*uint32, 3)}
}
