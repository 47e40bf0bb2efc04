package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/psn"
)

// TestRecycle: a psnStart is published only after every job that was granted by the end of its walk has been read, never
// for a pipe that was written anew since, and soon.
func TestRecycle(t *testing.T) {
	each(t, Recycle, map[int]string{0: "pipe_psn_t", 1: "recycle_status_t", 8: "pipe_psn_t", 9: "jobs_t", 10: "pipe_psn_t"}, func(r *run) {
		type walk struct {
			clock int
			psn   psn.PSN
		}
		var (
			now      [pipes]psn.PSN // published or initial
			next     [pipes]psn.PSN // of the coming minimum
			walks    [pipes][]walk
			grants   []int // clocks, by number of the job
			dones    []int
			unread   int // jobs given to the bench and not done there
			lastWalk = -100
			pend     uint64
			rises    [pipes]int // clock in which a pipe's value was first seen pending
		)
		// needed is the clock in which the last of the jobs granted by `clock` was read; ok if all are.
		needed := func(clock int) (int, bool) {
			n := 0
			for n < len(grants) && grants[n] <= clock {
				n++
			}
			if n > len(dones) {
				return 0, false
			}
			if n == 0 {
				return 0, true
			}
			return dones[n-1], true
		}
		published := 0
		check := func(ev Event, p int, v psn.PSN) {
			published++
			found := false
			for _, w := range walks[p] {
				read, ok := needed(w.clock)
				if w.psn == v && w.clock < ev.Clock && ok && read < ev.Clock {
					found = true
				}
			}
			if !found {
				r.fail(ev, "pipe %d: psnStart %v published; walks %v, jobs granted %v, read %v", p, v, walks[p], grants, dones)
			}
		}
		take := func(events []Event) {
			for _, ev := range events {
				switch ev.Stream {
				case 0:
					p, v := int(ev.Get("pipe")), psn.PSN(ev.Get("psn"))
					check(ev, p, v)
					now[p] = v
				case 1:
					was := pend
					pend = ev.Get("pend")
					for p := range rises {
						if pend>>p&1 != 0 && was>>p&1 == 0 {
							rises[p] = ev.Clock
						}
					}
					if idle := len(grants) == len(dones); idle != (ev.Get("jobs_idle") != 0) {
						r.fail(ev, "jobs_idle %d with %d of %d jobs read", ev.Get("jobs_idle"), len(dones), len(grants))
					}
				case 8:
					p := int(ev.Get("pipe"))
					walks[p] = append(walks[p], walk{ev.Clock, psn.PSN(ev.Get("psn"))})
					lastWalk = ev.Clock
				case 9:
					if ev.Get("granted") != 0 {
						grants = append(grants, ev.Clock)
					}
					if ev.Get("done") != 0 {
						dones = append(dones, ev.Clock)
					}
				case 10:
					p := int(ev.Get("pipe"))
					now[p] = psn.PSN(ev.Get("psn"))
					walks[p] = nil
				}
			}
		}
		jobs := func(granted, done bool) {
			r.Push(9, 0, r.New(9).SetBool("granted", granted).SetBool("done", done))
		}
		write := func(p int) {
			next[p] = psn.PSN(r.below(1 << 24))
			if r.chance(30) {
				next[p] = 0xfffffe
			}
			r.Push(10, 0, r.New(10).Set("pipe", uint64(p)).Set("psn", uint64(next[p])))
		}
		for p := range pipes {
			write(p)
		}
		take(r.drain(200, 2))

		// Everything at once: walks of all pipes, jobs in flight, a pipe written anew now and then.
		for range 800 {
			for range r.below(4) {
				p := r.below(pipes)
				next[p] = psn.Add(next[p], r.below(3))
				r.Push(8, r.below(4), r.New(8).Set("pipe", uint64(p)).Set("psn", uint64(next[p])))
			}
			for range r.below(6) {
				granted, done := unread < 12 && r.chance(50), unread > 0 && r.chance(45)
				jobs(granted, done)
				if granted {
					unread++
				}
				if done {
					unread--
				}
			}
			take(r.drain(1000, 0))
			if r.chance(3) {
				// As inc_pipe does: nothing is granted and unread, nothing pending.
				for ; unread > 0; unread-- {
					jobs(false, true)
				}
				take(r.drain(1000, 60))
				p := r.below(pipes)
				// The walk of its former life that ended just before, behind a fence of one job, must not follow.
				if r.chance(50) {
					write(p)
					take(r.drain(1000, 30))
					require.Zero(r.t, pend>>p&1, "clock %d: pipe %d was written, a former walk was published", r.Clock, p)
				} else {
					jobs(true, false)
					r.Push(8, 3, r.New(8).Set("pipe", uint64(p)).Set("psn", uint64(psn.Add(next[p], 1))))
					take(r.drain(1000, 2))
					write(p)
					take(r.drain(1000, 1))
					jobs(false, true)
					take(r.drain(1000, 30))
					require.Zero(r.t, pend>>p&1, "clock %d: pipe %d was written, a former walk was published", r.Clock, p)
				}
			}
		}

		// Alone: in the second clock after the last job of the walk was read, and not lost while others wait.
		for range 100 {
			for ; unread > 0; unread-- {
				jobs(false, true)
			}
			take(r.drain(1000, 80))
			p := r.below(pipes)
			before := r.below(4)
			for range before {
				jobs(true, false)
			}
			take(r.drain(1000, 3))
			next[p] = psn.Add(now[p], 1+r.below(5))
			r.Push(8, 0, r.New(8).Set("pipe", uint64(p)).Set("psn", uint64(next[p])))
			take(r.drain(1000, 1+r.below(4)))
			for range before {
				jobs(false, true)
			}
			rises[p] = 0
			take(r.drain(1000, 80))
			read, _ := needed(lastWalk)
			require.Equal(r.t, next[p], now[p], "pipe %d: the walk of clock %d was not published", p, lastWalk)
			require.LessOrEqual(r.t, rises[p], max(read, lastWalk)+2, "pipe %d: published late", p)
		}
		require.Greater(r.t, published, 200)
	})
}
