package softswitch

import (
	"context"
	"fmt"
	"strconv"

	"github.com/epic-inc/epic/driver/control/target"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
)

// Target is the switch as the control plane programs it. It has no tables that could fill: its size is the largest
// that a configuration may name. Each Target of a switch is the same one.
func (s *Switch) Target(modes ...int) target.Switch { return &controlled{s, modes} }

type controlled struct {
	s     *Switch
	modes []int
}

// The size of the tables and pool that a Target claims. What is in use is memory of the process, taken when it is
// installed.
const (
	targetListEntries = 1 << 15
	targetPoolKB      = 16 << 10
)

func (c *controlled) Info(context.Context) (target.Info, error) {
	info := target.Info{Name: c.s.name, EndpointEntries: engine.MaxEndpoints, PipeEntries: engine.MaxPipes, ListEntries: targetListEntries,
		PoolKB: targetPoolKB, FanIn: engine.MaxFan, Modes: c.modes, Boot: strconv.FormatInt(c.s.started.UnixNano(), 36)}
	for _, p := range c.s.ports {
		if p != nil {
			info.Ports = p.number + 1
			if mtu := payloadOf(p.link.MTU()); info.MTU == 0 || mtu < info.MTU {
				info.MTU = mtu
			}
		}
	}
	return info, nil
}

func (c *controlled) Install(_ context.Context, id string, g *group.Group, _ target.Rows) error {
	if c.s.table.Load().sets[id] != nil {
		return nil
	}
	cfg, err := g.EngineConfig(c.s.name)
	if err != nil {
		return err
	}
	return c.s.Install(id, cfg)
}

func (c *controlled) units(id string) ([]*unit, error) {
	units, ok := c.s.table.Load().sets[id]
	if !ok {
		return nil, fmt.Errorf("switch %s: %q: %w", c.s.name, id, target.ErrNotInstalled)
	}
	return units, nil
}

func (c *controlled) Quiesce(_ context.Context, id string) error {
	units, err := c.units(id)
	for _, u := range units {
		u.quiesce()
	}
	return err
}

func (c *controlled) State(_ context.Context, id string) (target.State, error) {
	units, err := c.units(id)
	st := target.State{Drained: true, Known: true}
	for i, u := range units {
		next, known := u.position()
		if st.Known = st.Known && known; i == 0 || psn.Less(st.Next, next) {
			st.Next = next
		}
		st.Drained = st.Drained && u.drained()
	}
	return st, err
}

func (c *controlled) Remove(_ context.Context, id string, force bool) error {
	units, err := c.units(id)
	if err != nil {
		return nil
	}
	for _, u := range units {
		if !force && !u.drained() && len(u.faults()) == 0 {
			return fmt.Errorf("switch %s: %q: %w", c.s.name, id, target.ErrBusy)
		}
	}
	return c.s.Remove(id)
}

func (c *controlled) Installed(context.Context) ([]string, error) { return c.s.Installed(), nil }

func (c *controlled) Watch(ctx context.Context, tell func(target.Fault)) error {
	// Faults of before come again if they happen meanwhile: better twice than not at all.
	faults := make(chan Fault, 64)
	c.s.WatchFaults(ctx, func(f Fault) {
		select {
		case faults <- f:
		case <-ctx.Done():
		}
	})
	one := func(f Fault) {
		tell(target.Fault{ID: f.ID, Pipe: f.Pipe, Endpoint: f.Endpoint, Kind: f.Kind, PSN: f.PSN, Got: f.Got, Wanted: f.Wanted})
	}
	for _, f := range c.s.Faults() {
		one(f)
	}
	for {
		select {
		case f := <-faults:
			one(f)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// quiesce: every rank has had its send completions.
func (u *unit) quiesce() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for p := range u.faulty {
		u.engine.Step(engine.Event{Cause: spec.CauseTableWrite, Endpoint: engine.None, Pipe: p, Quiesce: true})
	}
}

// drained says whether the pipes hold nothing that anyone waits for.
func (u *unit) drained() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for p := range u.faulty {
		if !u.engine.Drained(p) {
			return false
		}
	}
	return true
}

// position is a psn of which, and of all after it, no rank has an acknowledgement; false if the engine does not
// count.
func (u *unit) position() (next psn.PSN, known bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for p, cfg := range u.engine.Config().Pipes {
		at := psn.PSN(u.engine.PipeState(p).NextSend)
		if cfg.Mode == 2 {
			if len(cfg.Ins) == 1 { // what passes is not counted
				return 0, false
			}
		} else { // an in is acknowledged what the others have not sent yet
			for _, i := range cfg.Ins {
				if rx, _ := u.engine.EndpointState(i); psn.Less(at, psn.PSN(rx.EPSN)) {
					at = psn.PSN(rx.EPSN)
				}
			}
		}
		if p == 0 || psn.Less(next, at) {
			next = at
		}
	}
	return next, true
}
