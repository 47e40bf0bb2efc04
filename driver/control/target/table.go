package target

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/epic-inc/epic/driver/table"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
)

// Table is a Switch of hardware: an engine behind its registers. Nobody else may use the engine meanwhile.
//
// A pipe that was taken out by force before it was drained cannot be written again until it is, or goes to error: a
// Mode-III pipe does so within its retries, a Mode-II pipe with a slot that nobody will complete only by a reset
// (protocol.md 9). Info says what such pipes hold.
type Table struct {
	name string
	boot string
	poll time.Duration

	mu    sync.Mutex // an engine takes one command at a time
	e     *table.Engine
	plans map[string]*installedPlan
}

type installedPlan struct {
	plan  *table.Plan
	group *group.Group
	rows  Rows
	pipes []group.Pipe
}

// NewTable makes a Switch of an engine. What is in its tables is taken out: it belongs to nobody any more.
func NewTable(ctx context.Context, name string, e *table.Engine) (*Table, error) {
	if err := e.Clear(ctx); err != nil {
		return nil, fmt.Errorf("switch %s: %w", name, err)
	}
	return &Table{name: name, boot: strconv.FormatInt(time.Now().UnixNano(), 36), poll: 20 * time.Millisecond, e: e, plans: map[string]*installedPlan{}}, nil
}

// Info of the engine.
func (t *Table) Info(ctx context.Context) (Info, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.e.Capabilities()
	i := Info{Name: t.name, Ports: c.Ports, EndpointEntries: c.Endpoints, PipeEntries: c.Pipes, ListEntries: c.Outs, PoolKB: c.PoolKB, MTU: c.MTU,
		FanIn: c.FanIn, NoFloat: !c.Float, Boot: t.boot}
	if c.Mode2 {
		i.Modes = append(i.Modes, 2)
	}
	if c.Mode3 {
		i.Modes = append(i.Modes, 3)
	}
	held, err := t.e.Held(ctx, t.uses)
	if err != nil {
		return Info{}, fmt.Errorf("switch %s: %w", t.name, err)
	}
	endpoint, out := t.e.Reserved()
	i.Held = append(held, table.Held{Pipe: -1, Out: out, Outs: 1, Endpoints: []int{endpoint}})
	return i, nil
}

func (t *Table) uses(row int) bool {
	for _, p := range t.plans {
		if slices.Contains(p.rows.Pipes, row) {
			return true
		}
	}
	return false
}

// Install writes a subgroup's rows.
func (t *Table) Install(ctx context.Context, id string, g *group.Group, rows Rows) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.plans[id]; ok {
		return nil
	}
	cfg, err := g.EngineConfig(t.name)
	if err != nil {
		return err
	}
	plan, err := table.NewPlanAt(cfg, t.e.Capabilities(), table.Rows{Pipes: rows.Pipes, Outs: rows.Outs, Ins: slices.Clone(rows.Ins)})
	if err != nil {
		return fmt.Errorf("switch %s: %w", t.name, err)
	}
	if err := t.e.Install(ctx, plan); err != nil {
		// Some of it may be written; taken out, that is nobody's.
		if !errors.Is(err, table.ErrTaken) && !table.IsBusy(err) {
			err = errors.Join(err, t.e.Uninstall(context.WithoutCancel(ctx), plan))
		}
		return fmt.Errorf("switch %s: %w", t.name, err)
	}
	n, _ := g.SwitchIndex(t.name) // EngineConfig has found it
	t.plans[id] = &installedPlan{plan, g, rows, g.Switches[n].Pipes}
	return nil
}

// find is called with the lock.
func (t *Table) find(id string) (*installedPlan, error) {
	p, ok := t.plans[id]
	if !ok {
		return nil, fmt.Errorf("switch %s: %q: %w", t.name, id, ErrNotInstalled)
	}
	return p, nil
}

// Quiesce the Mode-II pipes of a subgroup.
func (t *Table) Quiesce(ctx context.Context, id string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, err := t.find(id)
	if err != nil {
		return err
	}
	return t.quiesce(ctx, p)
}

func (t *Table) quiesce(ctx context.Context, p *installedPlan) error {
	for i := range p.pipes {
		if p.group.ModeOf(&p.pipes[i]) != 2 {
			continue
		}
		if err := t.e.Quiesce(ctx, p.rows.Pipes[i]); err != nil {
			return fmt.Errorf("switch %s: %w", t.name, err)
		}
	}
	return nil
}

// State of a subgroup.
func (t *Table) State(ctx context.Context, id string) (State, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, err := t.find(id)
	if err != nil {
		return State{}, err
	}
	return t.state(ctx, p)
}

func (t *Table) state(ctx context.Context, p *installedPlan) (State, error) {
	st := State{Drained: true, Known: true}
	read, err := t.e.ReadState(ctx, p.plan)
	if err != nil {
		return State{}, fmt.Errorf("switch %s: %w", t.name, err)
	}
	first := true
	further := func(at psn.PSN) {
		if first || psn.Less(st.Next, at) {
			st.Next, first = at, false
		}
	}
	for i, row := range p.rows.Pipes {
		drained, err := t.e.Drained(ctx, row)
		if err != nil {
			return State{}, fmt.Errorf("switch %s: %w", t.name, err)
		}
		st.Drained = st.Drained && drained
		if p.group.ModeOf(&p.pipes[i]) == 2 && len(p.pipes[i].Ins) == 1 {
			st.Known = false // what passes is not counted
			continue
		}
		further(psn.PSN(read.Pipes[i].NextSend))
		if p.group.ModeOf(&p.pipes[i]) != 3 {
			continue
		}
		for e, rx := range read.Rx { // an in is acknowledged what the others have not sent yet
			if in := p.plan.Endpoint(e); in.InValid && int(in.InPipe) == row {
				further(psn.PSN(rx.EPSN))
			}
		}
	}
	return st, nil
}

// Remove takes the endpoints of a subgroup out.
func (t *Table) Remove(ctx context.Context, id string, force bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.plans[id]
	if !ok {
		return nil
	}
	if !force {
		st, err := t.state(ctx, p)
		if err != nil {
			return err
		}
		if !st.Drained {
			return fmt.Errorf("switch %s: %q: %w", t.name, id, ErrBusy)
		}
	} else if err := t.quiesce(ctx, p); err != nil { // nobody waits any more
		return err
	}
	if err := t.e.Uninstall(ctx, p.plan); err != nil {
		return fmt.Errorf("switch %s: %w", t.name, err)
	}
	delete(t.plans, id)
	return nil
}

// Installed lists the ids.
func (t *Table) Installed(context.Context) ([]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.plans)), nil
}

// Watch asks the engine again and again.
func (t *Table) Watch(ctx context.Context, tell func(Fault)) error {
	told := map[string]bool{}
	tick := time.NewTicker(t.poll)
	defer tick.Stop()
	for {
		faults, err := t.faults(ctx, told)
		if err != nil {
			return err
		}
		for _, f := range faults {
			tell(f)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// faults are those not told yet.
func (t *Table) faults(ctx context.Context, told map[string]bool) ([]Fault, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rows, err := t.e.PipesInError(ctx)
	if err != nil {
		return nil, fmt.Errorf("switch %s: %w", t.name, err)
	}
	var list []Fault
	for _, id := range slices.Sorted(maps.Keys(t.plans)) {
		p := t.plans[id]
		for i, row := range p.rows.Pipes {
			key := id + "/" + p.pipes[i].Name
			if told[key] || !slices.Contains(rows, row) {
				continue
			}
			told[key] = true
			f, ok, err := t.e.PipeFault(ctx, row)
			if err != nil {
				return nil, fmt.Errorf("switch %s: %w", t.name, err)
			}
			if !ok {
				f.Kind = spec.ErrorKindNone
			}
			list = append(list, Fault{ID: id, Pipe: p.pipes[i].Name, Endpoint: t.endpointAt(p, f.Endpoint), Kind: f.Kind, PSN: psn.PSN(f.PSN), Got: f.Got, Wanted: f.Wanted})
		}
	}
	return list, nil
}

// endpointAt names the endpoint of a row.
func (t *Table) endpointAt(p *installedPlan, row int) string {
	n, _ := p.group.SwitchIndex(t.name)
	for e, ep := range p.group.Switches[n].Endpoints {
		if p.plan.EndpointIndex(e) == row {
			return ep.Name
		}
	}
	return fmt.Sprintf("row %d", row)
}

var _ Switch = (*Table)(nil)
