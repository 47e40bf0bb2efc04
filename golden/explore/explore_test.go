package explore

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"github.com/epic-inc/epic/golden/capture"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/group"
)

// Every mistake of an engine is in a case; but the one that a checker of sums which do not depend on the order cannot see.
func TestCasesHaveEveryMistake(t *testing.T) {
	in := map[engine.Mistake]bool{engine.ArrivalOrder: true}
	for _, c := range Cases() {
		in[c.Config.Mistake] = true
	}
	for _, m := range engine.Mistakes() {
		assert.True(t, in[m], "no case has %v", m)
	}
}

// The numbers of a search do not depend on how many workers do it.
func TestWorkersDoNotMatter(t *testing.T) {
	for _, exact := range []bool{false, true} {
		var counts [][3]uint64
		for _, workers := range []int{1, 3} {
			r, err := Check(t.Context(), Default(), Options{Workers: workers, Exact: exact})
			require.NoError(t, err)
			require.Equal(t, Pass, r.Result, r.Reason)
			counts = append(counts, [3]uint64{r.States, r.Transitions, uint64(r.Diameter)})
		}
		require.Equal(t, counts[0], counts[1], "exact %v", exact)
	}
}

// Merging allows more than can happen, but in a right protocol it leads to no vector of nodes that cannot be.
func TestMergingFindsNoMoreThanThereIs(t *testing.T) {
	for _, mode := range []int{1, 2, 3} {
		c := Default()
		c.Mode, c.Packets = mode, 3
		if mode == 2 {
			c.Slots = 4
		}
		merged, err := Check(t.Context(), c, Options{Distinct: true})
		require.NoError(t, err)
		require.Equal(t, Merged, merged.Search)
		m, err := newModel(c)
		require.NoError(t, err)
		e := newExact(newSearch(m, Options{Workers: 1, Tick: time.Hour}, Exact, time.Now()))
		r, err := e.check(t.Context())
		require.NoError(t, err)
		require.Equal(t, Pass, r.Result)
		require.Equal(t, uint64(e.vectors.seen.states()), merged.States, "mode %d", mode)
		require.Greater(t, r.States, merged.States, "mode %d", mode)
	}
}

// Taking equal ranks for each other finds one vector of each set of images, no more and no fewer.
func TestSymmetryFindsOneOfEach(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"III AllReduce":              func(c *Config) { c.Ranks, c.Packets = 3, 3 },
		"III AllReduce, two levels":  func(c *Config) { c.Ranks, c.Packets, c.Tree = 3, 1, group.TreeTwoLevel },
		"III AllReduce, event after": func(c *Config) { c.Fine, c.Packets = true, 2 },
		"II AllReduce":               func(c *Config) { c.Mode, c.Slots, c.Ranks = 2, 4, 3 },
		"II Broadcast":               func(c *Config) { c.Mode, c.Slots, c.Ranks, c.Collective = 2, 4, 4, "broadcast" },
		"III Reduce":                 func(c *Config) { c.Ranks, c.Collective = 4, "reduce" },
	} {
		t.Run(name, func(t *testing.T) {
			c := Default()
			change(&c)
			if testing.Short() { // the race detector is slow
				c.Packets, c.Ranks = 1, min(c.Ranks, 3)
				if c.Tree != group.TreeSingle {
					c.Ranks = 2
				}
			}
			less, err := Check(t.Context(), c, Options{})
			require.NoError(t, err)
			require.Equal(t, Pass, less.Result, less.Reason)

			m, err := newModel(c)
			require.NoError(t, err)
			all := newMerged(newSearch(m, Options{Workers: 1, Tick: time.Hour, Distinct: true}, Merged, time.Now()))
			r, err := all.check(t.Context())
			require.NoError(t, err)
			w := newWorker(all.search)
			ps := m.permutations()
			require.NotEmpty(t, ps)
			for i := range ps {
				w.images = append(w.images, newImages(m, &ps[i]))
			}
			least := map[xxh3.Uint128]bool{}
			for n := range uint32(r.States) {
				s := slices.Clone(all.vector(n))
				w.least(s)
				least[w.hash(s[:m.nodeWords()])] = true
				_, known := all.seen.find(w.hash(s[:m.nodeWords()]))
				require.True(t, known, "an image that was not found")
			}
			require.Equal(t, uint64(len(least)), less.States)
			require.Less(t, less.States, r.States)
		})
	}
}

// Ranks that are not alike must not be taken for each other: the root of a Broadcast, and those of an engine that is wrong at one
// of its ports.
func TestRanksThatAreNotAlike(t *testing.T) {
	c := Default()
	c.Collective, c.Ranks = "broadcast", 3
	m, err := newModel(c)
	require.NoError(t, err)
	for i := range m.alike {
		m.alike[i] = i > 0 // all ranks
	}
	_, err = newMerged(newSearch(m, Options{Workers: 1, Tick: time.Hour}, Merged, time.Now())).check(t.Context())
	require.ErrorIs(t, err, errNotAlike)
}

// What a node calls stale must be without effect, in this state and in every one that follows.
func TestStaleFramesStayWithoutEffect(t *testing.T) {
	for _, mode := range []int{1, 3} {
		c := Default()
		c.Mode, c.Packets, c.Window = mode, 3, 2
		if testing.Short() {
			c.Packets = 2
		}
		m, err := newModel(c)
		require.NoError(t, err)
		_, err = newMerged(newSearch(m, Options{Workers: 1, Tick: time.Hour}, Merged, time.Now())).check(t.Context())
		require.NoError(t, err)
		stale := 0
		for node, a := range m.automata {
			for state := range a.states {
				for _, index := range m.inputs[node] {
					ch := m.channels[index]
					for f := range ch.used {
						if !m.isStale(node, uint32(state), index, f) {
							continue
						}
						stale++
						tr := m.move(node, uint32(state), takes(index, uint8(f)))
						require.NoError(t, tr.err)
						require.Equal(t, uint32(state), tr.to)
						require.Empty(t, tr.sends)
						for n := range ch.used { // and after any other frame
							next := m.move(node, uint32(state), takes(index, uint8(n)))
							require.True(t, m.isStale(node, next.to, index, f), "%s", a.name)
						}
					}
				}
			}
		}
		require.Greater(t, stale, 50)
	}
}

func TestTraceOfAViolation(t *testing.T) {
	c := Default()
	c.Mistake = engine.RecycleOnRelease
	r, err := Check(t.Context(), c, Options{})
	require.NoError(t, err)
	require.Equal(t, Violation, r.Result)
	require.Equal(t, Exact, r.Search, "the shortest way is told")
	require.Contains(t, r.Reason, "wrong result")
	require.Contains(t, r.Trace.String(), "wrong result")
	var pcap bytes.Buffer
	require.NoError(t, r.Trace.WritePcap(&pcap))
	frames := 0
	in, err := capture.NewReader("trace", &pcap)
	require.NoError(t, err)
	for {
		if _, err := in.Next(); err != nil {
			break
		}
		frames++
	}
	require.Equal(t, len(r.Trace.Frames), frames)
	require.NotZero(t, frames)
}

func TestBadConfigurations(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Config)
		option string
	}{
		"no packets":           {func(c *Config) { c.Packets = 0 }, "packets"},
		"half bounded":         {func(c *Config) { c.Loss = 1 }, "loss"},
		"a space too small":    {func(c *Config) { c.PSNBits = 2 }, "psn-bits"},
		"slots":                {func(c *Config) { c.Slots = 3 }, "slots"},
		"collective":           {func(c *Config) { c.Collective = "allgather" }, "collective"},
		"lifetime":             {func(c *Config) { c.Lifetime = 16 }, "lifetime"},
		"ranks":                {func(c *Config) { c.Ranks = 9 }, "ranks"},
		"tree":                 {func(c *Config) { c.Tree = "ring" }, "tree"},
		"message":              {func(c *Config) { c.Message = 5 }, "message"},
		"window":               {func(c *Config) { c.Message, c.Window = 2, 1 }, "window"},
		"too fast an overtake": {func(c *Config) { c.Loss, c.Dup, c.Reorder = 0, 0, 7 }, "reorder"},
	} {
		t.Run(name, func(t *testing.T) {
			c := Default()
			tc.change(&c)
			_, err := Check(t.Context(), c, Options{})
			var option *group.OptionError
			require.ErrorAs(t, err, &option)
			require.Equal(t, tc.option, option.Option)
		})
	}
}

func TestCheckEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	c := Default()
	c.Ranks, c.Tree = 3, group.TreeTwoLevel
	_, err := Check(ctx, c, Options{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestMemoryBound(t *testing.T) {
	c := Default()
	c.Ranks, c.Waits = 3, true
	r, err := Check(t.Context(), c, Options{MemoryMB: 6})
	require.NoError(t, err)
	require.Equal(t, OutOfMemory, r.Result)
}

func TestQueue(t *testing.T) {
	var q uint64
	for f := range uint8(queueMax) {
		require.False(t, queueFull(q))
		q = queueAdd(q, 10+f)
	}
	require.True(t, queueFull(q))
	q = queueDrop(q, 0)
	q = queueDrop(q, 3)
	var left []uint8
	for i := range queueLen(q) {
		left = append(left, queueAt(q, i))
	}
	require.Equal(t, []uint8{11, 12, 13, 15, 16}, left)
}
