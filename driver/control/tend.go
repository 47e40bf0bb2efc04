package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/epic-inc/epic/driver/control/controlpb"
	"github.com/epic-inc/epic/driver/control/failure"
	"github.com/epic-inc/epic/driver/control/target"
	"github.com/epic-inc/epic/golden/psn"
)

// attached is a switch and what is known of it.
type attached struct {
	sw   target.Switch
	info target.Info
	up   bool
	err  error     // why it is not
	down time.Time // since when
}

// How long to wait before a switch is asked again.
const (
	retryFirst = 50 * time.Millisecond
	retryMost  = time.Second
)

// attach finds the switches of the network and begins to watch them.
func (s *Server) attach() error {
	for _, n := range s.o.Network.Switches {
		sw := s.o.Switches[n.Name]
		if sw == nil {
			if n.At == "" {
				return fmt.Errorf("network: switch %s: has no address `at`, want host:port of its service", n.Name)
			}
			r, err := target.Dial(n.At)
			if err != nil {
				return fmt.Errorf("network: %w", err)
			}
			s.remotes = append(s.remotes, r)
			sw = r
		}
		s.switches[n.Name] = &attached{sw: sw, err: errors.New("not asked yet"), down: time.Now()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.switches {
		s.spawn(func() { s.watch(name) })
	}
	return nil
}

// sleep waits; false when the Server ends.
func (s *Server) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// watch keeps up with one switch.
func (s *Server) watch(name string) {
	wait := retryFirst
	for {
		err := s.greet(name)
		if err == nil {
			wait = retryFirst
			err = s.sw(name).Watch(s.ctx, func(f target.Fault) { s.fault(name, f) })
		}
		if s.ctx.Err() != nil {
			return
		}
		s.lost(name, err)
		if !s.sleep(wait) {
			return
		}
		wait = min(2*wait, retryMost)
	}
}

func (s *Server) sw(name string) target.Switch { return s.switches[name].sw } // never changes

// greet asks a switch what it is and what it holds: what no subgroup of ours has there is taken out, and a job whose
// subgroup is not there any more fails.
func (s *Server) greet(name string) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.o.SwitchTimeout)
	defer cancel()
	info, err := s.sw(name).Info(ctx)
	if err != nil {
		return err
	}
	if info.Name != name {
		return fmt.Errorf("it says that it is %q", info.Name)
	}
	there, err := s.sw(name).Installed(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	a := s.switches[name]
	a.info, a.up, a.err = info, true, nil
	s.log.Info("switch answers", "switch", name, "subgroups", len(there))
	ours := map[string]bool{}
	for _, j := range s.current {
		for _, sub := range j.Subgroups {
			if _, on := sub.Rows[name]; !on || !sub.holds() {
				continue
			}
			ours[sub.ID] = true
			if sub.State == subgroupReady && !slices.Contains(there, sub.ID) {
				_ = s.end(j, failure.New(controlpb.Kind_KIND_SWITCH_LOST, nil, "job %s: switch %s has lost its tables: it was started again", j.Name, name), sub.ID)
				break
			}
		}
		j.move() // who waits for a switch looks again
	}
	s.mu.Unlock()
	for _, id := range there {
		if !ours[id] && strings.HasPrefix(id, s.o.Store.instance+".") {
			s.log.Warn("switch holds a subgroup of no job: taken out", "switch", name, "subgroup", id)
			if err := s.sw(name).Remove(ctx, id, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// lost notes that a switch does not answer. If it has not for long, its jobs fail.
func (s *Server) lost(name string, err error) {
	if err == nil {
		err = errors.New("it ended the watch")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.switches[name]
	if a.up {
		a.up, a.down = false, time.Now()
		s.log.Warn("switch does not answer", "switch", name, "error", err)
	}
	a.err = err
	if time.Since(a.down) < s.o.SwitchTimeout {
		return
	}
	for _, j := range s.current {
		j.move() // who waits for the switch gives it up
		if j.Placement != nil && slices.Contains(j.Placement.Switches, name) && slices.ContainsFunc(j.Subgroups, (*subgroup).holds) {
			_ = s.end(j, failure.New(controlpb.Kind_KIND_SWITCH_LOST, nil, "job %s: switch %s has not answered for %v: %v", j.Name, name, s.o.SwitchTimeout, err), "")
		}
	}
}

// tend takes a subgroup from one state to the next until nothing of it is in a switch. It is what runs, and what runs
// again after a restart.
func (s *Server) tend(j *job, sub *subgroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.ctx.Err() == nil {
		switch sub.State {
		case subgroupInstalling:
			s.install(j, sub)
		case subgroupRemoving:
			s.takeOut(j, sub)
		case subgroupEnded:
			return
		case subgroupReady:
			if s.pause(s.ctx, j.changed) != nil {
				return
			}
		}
	}
}

// everywhere calls f for each switch of a subgroup at once, without the lock, and joins the errors.
func (s *Server) everywhere(sub *subgroup, f func(name string, sw target.Switch) error) error {
	s.mu.Unlock()
	defer s.mu.Lock()
	names := slices.Sorted(maps.Keys(sub.Rows))
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			if err := f(name, s.sw(name)); err != nil {
				errs[i] = fmt.Errorf("switch %s: %w", name, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// install puts a subgroup into its switches.
func (s *Server) install(j *job, sub *subgroup) {
	err := s.everywhere(sub, func(name string, sw target.Switch) error {
		ctx, cancel := context.WithTimeout(s.ctx, s.o.SwitchTimeout)
		defer cancel()
		return sw.Install(ctx, sub.ID, sub.group, sub.Rows[name])
	})
	if s.ctx.Err() != nil || sub.State != subgroupInstalling {
		return
	}
	if err != nil {
		sub.Failure = failure.New(controlpb.Kind_KIND_NO_RESOURCE, nil, "job %s: %s cannot be put into the network: %s", j.Name, sub.name(), strings.ReplaceAll(err.Error(), "\n", "; "))
		sub.State = subgroupRemoving
	} else {
		sub.State = subgroupReady
	}
	if s.save(change{put: j}) != nil {
		return
	}
	if err != nil {
		s.log.Warn("no subgroup", "job", j.Name, "subgroup", sub.ID, "reason", sub.Failure.Message)
	} else {
		s.log.Info("subgroup is ready", "job", j.Name, "subgroup", sub.ID, "psn0", sub.psn0())
	}
	j.move()
}

// takeOut takes a subgroup out of its switches, however long it takes to reach them. How far its queue pairs have come
// is written down before the first switch forgets it.
func (s *Server) takeOut(j *job, sub *subgroup) {
	if sub.LastUsed == nil {
		if s.settle(j, sub) != nil {
			return // the Server ends; the next one goes on
		}
		last := sub.lastUsed(j.Terms.WindowPackets)
		sub.LastUsed = &last
		if s.save(change{put: j}) != nil {
			return
		}
	}
	infos := map[string]target.Info{}
	var mu sync.Mutex
	if s.everywhere(sub, func(name string, sw target.Switch) error {
		return s.insist(sub, func(ctx context.Context) error {
			if err := sw.Remove(ctx, sub.ID, true); err != nil {
				return err
			}
			info, err := sw.Info(ctx) // it may hold on to something
			mu.Lock()
			defer mu.Unlock()
			infos[name] = info
			return err
		})
	}) != nil {
		return
	}
	for name, info := range infos {
		s.switches[name].info = info
	}
	c := change{put: j}
	for _, d := range directions(sub.group) {
		u := used{d, *sub.LastUsed, time.Now()}
		s.last[d] = u
		c.used = append(c.used, u)
	}
	sub.State = subgroupEnded
	if s.save(c) != nil {
		return
	}
	s.log.Info("subgroup is out of the switches", "subgroup", sub.ID, "last_psn", *sub.LastUsed)
	j.move()
	_ = s.reap(j) // what goes wrong has ended the Server
}

// settle lets a subgroup drain that its ranks have given back, and asks the switches how far it has come.
func (s *Server) settle(j *job, sub *subgroup) error {
	orderly := j.Failure == nil && sub.Failure == nil
	quiesced := orderly && !slices.Contains(sub.Quiesced, false)
	until := time.Now()
	if orderly {
		until = until.Add(s.o.Drain)
	}
	var mu sync.Mutex
	return s.everywhere(sub, func(_ string, sw target.Switch) error {
		var state target.State
		err := s.insist(sub, func(ctx context.Context) error {
			if quiesced {
				if err := sw.Quiesce(ctx, sub.ID); err != nil {
					return err
				}
			}
			var err error
			if state, err = sw.State(ctx, sub.ID); err == nil && !state.Drained && time.Now().Before(until) {
				return target.ErrBusy
			}
			return err
		})
		mu.Lock()
		defer mu.Unlock()
		if err == nil && state.Known {
			if sub.next == nil || psn.Less(*sub.next, state.Next) {
				sub.next = &state.Next
			}
		}
		return err
	})
}

// insist calls f until it succeeds or the Server ends. That the subgroup is not installed is success: it never was, or
// one of the two was started again in between.
func (s *Server) insist(sub *subgroup, f func(context.Context) error) error {
	wait := retryFirst
	for {
		ctx, cancel := context.WithTimeout(s.ctx, s.o.SwitchTimeout)
		err := f(ctx)
		cancel()
		if err == nil || errors.Is(err, target.ErrNotInstalled) {
			return nil
		}
		if !errors.Is(err, target.ErrBusy) {
			s.log.Warn("subgroup is not out yet", "subgroup", sub.ID, "error", err)
		}
		if !s.sleep(wait) {
			return context.Cause(s.ctx)
		}
		wait = min(2*wait, retryMost)
	}
}

// lastUsed is the last psn that any rank of the subgroup may have sent. If all have said it, it is the largest of these;
// else a switch's count and the window MW bound it; else the newest report counts, and at worst nothing was sent.
func (s *subgroup) lastUsed(window int) psn.PSN {
	before := psn.Prev(s.psn0())
	if !slices.Contains(s.Quiesced, false) {
		last := before
		for i, l := range s.Last {
			of := before
			if l != nil {
				of = psn.PSN(*l)
			}
			if i == 0 || psn.Less(last, of) {
				last = of
			}
		}
		return last
	}
	if s.next != nil {
		return psn.Add(*s.next, window-1)
	}
	var newest report
	for _, r := range s.reports {
		if r.at.After(newest.at) {
			newest = r
		}
	}
	if newest.at.IsZero() {
		return before
	}
	return newest.last
}
