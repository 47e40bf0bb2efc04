package explore

import (
	"fmt"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/group"
)

// Case is a configuration of which the verdict is known beforehand: from protocol.md 14, or because a mistake was put in.
type Case struct {
	Name   string
	Config Config
	Want   Verdict
	Long   bool // more than a minute
}

// Cases are all of them: what is right, then the mistakes, each in the smallest configuration that shows it.
func Cases() []Case {
	var all []Case
	add := func(name string, want Verdict, change func(*Config)) {
		c := Default()
		change(&c)
		all = append(all, Case{Name: name, Config: c, Want: want})
	}
	long := func(name string, change func(*Config)) {
		add(name, Pass, change)
		all[len(all)-1].Long = true
	}
	mode2 := func(c *Config) { c.Mode, c.Slots = 2, 4 }
	rooted := func(collective string, ranks int) func(*Config) {
		return func(c *Config) { c.Collective, c.Ranks = collective, ranks }
	}
	both := func(a, b func(*Config)) func(*Config) { return func(c *Config) { a(c); b(c) } }

	add("III AllReduce, 2 ranks", Pass, func(*Config) {})
	add("III AllReduce, 2 ranks, waits", Pass, func(c *Config) { c.Waits = true })
	add("III AllReduce, 2 ranks, N 4, window 4", Pass, func(c *Config) { c.Slots, c.Window, c.PSNBits = 4, 4, 5 })
	add("III AllReduce, 2 ranks, messages of 2", Pass, func(c *Config) { c.Message, c.Window = 2, 2 })
	add("III AllReduce, 2 ranks, 12 packets, 8 PSNs", Pass, func(c *Config) { c.Packets, c.PSNBits = 12, 3 })
	add("III AllReduce, 2 ranks, strict engine", Pass, func(c *Config) { c.Strict, c.Window = true, 2 })
	add("III AllReduce, 2 ranks, strict hosts", Pass, func(c *Config) { c.Preset, c.Window = "strict-nic", 2 })
	add("III AllReduce, 2 ranks, control signals", Pass, func(c *Config) { c.Unpinned = true })
	add("III AllReduce, 2 ranks, event by event", Pass, func(c *Config) { c.Fine, c.Packets = true, 2 })
	add("III AllReduce, 3 ranks", Pass, func(c *Config) { c.Ranks = 3 })
	add("III AllReduce, 2 ranks in two levels", Pass, func(c *Config) { c.Tree = group.TreeTwoLevel })
	add("III Reduce, 3 ranks", Pass, rooted("reduce", 3))
	add("III Broadcast, 3 ranks", Pass, rooted("broadcast", 3))
	add("III Barrier, 3 ranks", Pass, rooted("barrier", 3))
	add("III AllReduce, 1 lost, 1 twice", Pass, func(c *Config) { c.Loss, c.Dup, c.Reorder = 1, 1, 0 })
	add("III AllReduce, 1 lost, overtaking 1", Pass, func(c *Config) { c.Loss, c.Dup, c.Reorder = 1, 0, 1 })
	add("II AllReduce, 2 lost, 1 twice", Pass, both(mode2, func(c *Config) { c.Loss, c.Dup, c.Reorder = 2, 1, 0 }))
	add("II AllReduce, 2 ranks", Pass, mode2)
	add("II AllReduce, 2 ranks, control signals", Pass, both(mode2, func(c *Config) { c.Unpinned, c.Packets = true, 2 }))
	add("II AllReduce, 3 ranks", Pass, both(mode2, func(c *Config) { c.Ranks = 3 }))
	add("II AllReduce, 2 ranks in two levels", Pass, both(mode2, func(c *Config) { c.Tree = group.TreeTwoLevel }))
	add("II AllReduce, 3 ranks in two levels", Pass, both(mode2, func(c *Config) { c.Ranks, c.Tree = 3, group.TreeTwoLevel }))
	add("II Reduce, 3 ranks", Pass, both(mode2, rooted("reduce", 3)))
	add("II Reduce, 3 ranks in two levels", Pass, both(mode2, both(rooted("reduce", 3), func(c *Config) { c.Tree = group.TreeTwoLevel })))
	add("II Broadcast, 3 ranks", Pass, both(mode2, rooted("broadcast", 3)))
	add("II Barrier, 3 ranks", Pass, both(mode2, rooted("barrier", 3)))
	add("I AllReduce, 2 ranks", Pass, func(c *Config) { c.Mode = 1 })
	add("I AllReduce, 2 ranks, messages of 2", Pass, func(c *Config) { c.Mode, c.Message, c.Window = 1, 2, 4 })
	add("I Broadcast, 3 ranks", Pass, both(rooted("broadcast", 3), func(c *Config) { c.Mode = 1 }))
	add("I Reduce, 3 ranks", Pass, both(rooted("reduce", 3), func(c *Config) { c.Mode = 1 }))
	long("III AllReduce, 3 ranks in two levels", func(c *Config) { c.Ranks, c.Tree, c.Preset = 3, group.TreeTwoLevel, "strict-nic" })

	mistake := func(m engine.Mistake, want Verdict, change func(*Config)) {
		add("mistake "+m.String(), want, func(c *Config) {
			c.Mistake = m
			change(c)
		})
	}
	mistake(engine.ClearAhead, Unreachable, both(mode2, func(c *Config) { c.Packets = 3 }))
	mistake(engine.NoValidWalk, Violation, func(*Config) {})
	mistake(engine.WindowOnReplays, Unreachable, both(mode2, func(c *Config) { c.Unpinned, c.Packets = true, 2 }))
	mistake(engine.AnyTag, Unreachable, both(mode2, func(c *Config) { c.Packets = 5 }))
	mistake(engine.ReplayIncomplete, Violation, mode2)
	mistake(engine.MinAckOnAdvance, Unreachable, both(mode2, rooted("broadcast", 3)))
	mistake(engine.MinAckArriving, Unreachable, both(mode2, rooted("broadcast", 3)))
	mistake(engine.RecycleOnRelease, Violation, func(*Config) {})
	mistake(engine.ReleaseEarly, Unreachable, func(c *Config) { c.Fine, c.Packets, c.Preset = true, 3, "strict-nic" })
	mistake(engine.AckBeyondGap, Unreachable, func(c *Config) { c.Window = 2 })
	mistake(engine.DuplicatesIgnored, Unreachable, func(*Config) {})
	mistake(engine.NakStopsTimer, Unreachable, func(*Config) {})
	mistake(engine.RNRCountsAsRetry, Violation, func(c *Config) { c.Retries = 1 })
	mistake(engine.FastestAck, Unreachable, func(*Config) {})
	mistake(engine.Overwrites, Unreachable, func(c *Config) { c.Mode = 1 })
	mistake(engine.TakesGaps, Unreachable, func(c *Config) { c.Mode, c.Window = 1, 2 })
	mistake(engine.RetakesDuplicates, Unreachable, func(c *Config) { c.Mode, c.Packets = 1, 3 })
	mistake(engine.EarlyRelease, Violation, func(c *Config) { c.Mode = 1 })
	return all
}

// Named are the cases of a name: short, those that take less than a minute each; long, the others; all.
func Named(name string) (cases []Case, err error) {
	if name != "short" && name != "long" && name != "all" {
		return nil, fmt.Errorf("got %q, want short, long or all", name)
	}
	for _, c := range Cases() {
		if name == "all" || c.Long == (name == "long") {
			cases = append(cases, c)
		}
	}
	return cases, nil
}
