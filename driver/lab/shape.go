package lab

import (
	"github.com/epic-inc/epic/golden/group"
)

// Shape is where the options of a lab's group start: large packets, links without delay, and timers that a machine can
// keep which has other things to do. A process may be off the CPU for tens of milliseconds; that must not be taken for
// a loss. And the engine gives a rank up (after R timeouts that double, 12 s) only when the other ranks have had the time to
// notice which one is dead.
func Shape() group.Options {
	o := group.DefaultOptions()
	o.MTU = 4096
	o.ClockMHz, o.ClocksPerTick = 1000, 10000 // a clock is a nanosecond
	o.DelayNs = 0
	o.TimeoutTicks = 25000 // 250 ms
	o.HostTimeout = 15     // 134 ms
	return o
}
