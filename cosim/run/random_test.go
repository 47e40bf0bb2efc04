package run_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/cosim/link"
	"github.com/epic-inc/epic/cosim/run"
	"github.com/epic-inc/epic/cosim/server/servertest"
	"github.com/epic-inc/epic/golden/group"
)

// The number of random runs at each width, and the first seed. `go test` does few; EPIC_COSIM_RUNS asks
// for more, and EPIC_COSIM_SEED repeats one.
const (
	runsEnv = "EPIC_COSIM_RUNS"
	seedEnv = "EPIC_COSIM_SEED"
)

func fromEnv(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, name)
	return n
}

// randomOptions draws a shape, faults and pacing from a seed.
func randomOptions(seed uint64) (group.Options, run.Options) {
	r := rand.New(rand.NewPCG(seed, 17))
	pick := func(list ...int) int { return list[r.IntN(len(list))] }
	chance := func(p float64, v float64) float64 {
		if r.Float64() < p {
			return v * r.Float64()
		}
		return 0
	}
	g := group.DefaultOptions()
	g.Ranks = pick(2, 2, 3, 4, 4, 5, 8)
	if g.Ranks > 3 && r.IntN(3) == 0 {
		g.Tree = group.TreeTwoLevel
	}
	g.Collective = []string{"allreduce", "allreduce", "allreduce", "allreduce", "reduce", "broadcast"}[r.IntN(6)]
	if g.Collective != "allreduce" {
		g.RootRank = r.IntN(g.Ranks)
	}
	g.MTU = pick(256, 256, 512, 1024, 2048, 4096)
	g.Slots = pick(4, 8, 16, 32, 64)
	g.PSN0 = uint64(pick(0, 1, 0xfffff0, 0xffffff, r.IntN(1<<24)))
	g.MessagePackets = pick(1, 2, 3, g.Slots/4+1)
	g.MessagePackets = min(g.MessagePackets, g.Slots/2)
	g.Loss, g.Dup, g.Reorder = chance(0.6, 0.05), chance(0.5, 0.1), chance(0.5, 0.1)
	g.DelayNs = float64(pick(100, 400, 1000, 3000))
	g.Gbps = float64(pick(10, 25, 100, 400))
	g.AckEvery = pick(1, 1, 1, max(1, g.Slots/4))
	g.RNRCode = pick(1, 2, 3)
	g.ClocksPerTick = pick(3, 10, 25)
	// Some timeouts are too short, so that much is sent twice; none by more than what the back-off makes
	// good, or an out would be in error by right.
	queue := g.Ranks * g.Slots / 2 * (g.MTU/8 + 24) // clocks that a full window of all ranks takes at 64 bits
	g.TimeoutTicks = max(pick(500, 1678), queue/4/g.ClocksPerTick)
	g.Preset = []string{"linux-rxe", "strict-nic"}[r.IntN(2)]
	o := run.Options{Seed: seed, Bytes: 4 * (1 + r.IntN(12*g.MTU/4)), Pacing: link.Pacing(r.IntN(3))}
	if r.IntN(2) == 0 {
		o.IdlePPM = uint32(r.IntN(600_000))
	}
	if r.IntN(2) == 0 {
		o.BackpressurePPM = uint32(r.IntN(700_000))
	}
	return g, o
}

func TestRandom(t *testing.T) {
	n, first := fromEnv(t, runsEnv, 8), fromEnv(t, seedEnv, 1)
	for _, width := range []int{64, 512} {
		sim := servertest.Simulator(t, width)
		for seed := first; seed < first+n; seed++ {
			t.Run(fmt.Sprintf("w%d/seed%d", width, seed), func(t *testing.T) {
				shape, o := randomOptions(seed)
				var err error
				o.Group, err = group.Generate(shape)
				require.NoError(t, err, "%+v", shape)
				o.DataW, o.Sim, o.OutDir = width, sim, "../../build/cosim"
				if len(o.Group.Switches) > 1 {
					o.RTLAt = o.Group.Switches[int(seed)%len(o.Group.Switches)].Name
				}
				rep, err := run.Run(t.Context(), o)
				require.NoError(t, err, "%+v", shape)
				require.True(t, rep.SumEqual)
				t.Logf("%d frames in, %d resends, %d clocks, %d records", rep.FramesIn, rep.Resends, rep.Clocks, rep.Records)
			})
		}
	}
}
