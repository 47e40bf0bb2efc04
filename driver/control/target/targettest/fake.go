// Package targettest is for tests of what programs switches, and of switches.
package targettest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/epic-inc/epic/driver/control/target"
	"github.com/epic-inc/epic/golden/group"
)

// Fake is a switch without frames: it keeps what it is given, and refuses what no control plane may do.
type Fake struct {
	mu     sync.Mutex
	info   target.Info
	boots  int
	there  map[string]*installed
	busy   map[string]bool // not drained
	next   map[string]target.State
	faults []target.Fault
	tell   map[int]func(target.Fault)
	cut    chan struct{} // closed to end the watches
	err    error         // what every call gets

	// Before is called at the beginning of each call with its name; what it returns the call returns. It may block.
	Before func(ctx context.Context, call string) error
	// After is called when a call has been carried out; what it returns the caller gets, as of one whose answer was lost.
	After func(call string) error
	// Log of what changed the switch: "install ID", "quiesce ID", "remove ID".
	Log []string
	// Wrong are the things that a switch may not be asked for.
	Wrong []string
}

type installed struct {
	text     string
	rows     target.Rows
	group    *group.Group
	quiesced bool
}

// Info of a Fake of a name: small, with all that the golden engine has.
func Info(name string) target.Info {
	return target.Info{Name: name, Ports: 16, EndpointEntries: 64, PipeEntries: 16, ListEntries: 64, PoolKB: 1024, MTU: 4096, FanIn: 64, Modes: []int{2, 3}}
}

// NewFake is a switch that is there.
func NewFake(info target.Info) *Fake {
	return &Fake{info: info, there: map[string]*installed{}, busy: map[string]bool{}, next: map[string]target.State{}, tell: map[int]func(target.Fault){},
		cut: make(chan struct{})}
}

func (f *Fake) call(ctx context.Context, name string, do func() error) error {
	f.mu.Lock()
	before, after := f.Before, f.After
	f.mu.Unlock()
	if before != nil {
		if err := before(ctx, name); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	if err := do(); err != nil {
		return err
	}
	if after != nil {
		return after(name)
	}
	return nil
}

// Info of the switch.
func (f *Fake) Info(ctx context.Context) (info target.Info, err error) {
	err = f.call(ctx, "info", func() error {
		info = f.info
		info.Boot = fmt.Sprint(f.boots)
		return nil
	})
	return info, err
}

// Install keeps the subgroup, if its rows and blocks are free.
func (f *Fake) Install(ctx context.Context, id string, g *group.Group, rows target.Rows) error {
	return f.call(ctx, "install", func() error {
		text, err := g.Marshal()
		if err != nil {
			return err
		}
		if old, ok := f.there[id]; ok {
			if old.text != string(text) {
				f.Wrong = append(f.Wrong, "install "+id+": another document under the same id")
			}
			return nil
		}
		one := &installed{text: string(text), rows: rows, group: g}
		if why := f.clash(one); why != "" {
			f.Wrong = append(f.Wrong, "install "+id+": "+why)
			return fmt.Errorf("%s", why)
		}
		f.there[id] = one
		f.Log = append(f.Log, "install "+id)
		return nil
	})
}

// clash says what of a subgroup is another's, or beyond the switch.
func (f *Fake) clash(one *installed) string {
	names := append(slices.Sorted(maps.Keys(f.there)), "")
	endpoints, pipes, outs, ins, blocks := map[int]bool{}, map[int]bool{}, map[int]bool{}, map[int]bool{}, map[int]bool{}
	take := func(what string, taken map[int]bool, from, n, limit int) string {
		for i := from; i < from+n; i++ {
			if i < 0 || i >= limit {
				return fmt.Sprintf("%s %d, want 0..%d", what, i, limit-1)
			}
			if taken[i] {
				return fmt.Sprintf("%s %d is taken", what, i)
			}
			taken[i] = true
		}
		return ""
	}
	for _, name := range names {
		in := one
		if name != "" {
			in = f.there[name]
		}
		s, ok := in.group.SwitchIndex(f.info.Name)
		if !ok {
			return "the document has not this switch"
		}
		sw := in.group.Switches[s]
		if len(in.rows.Pipes) != len(sw.Pipes) || len(in.rows.Outs) != len(sw.Pipes) || len(in.rows.Ins) != len(sw.Pipes) {
			return "rows are not those of the pipes"
		}
		for _, ep := range sw.Endpoints {
			if why := take("endpoint row", endpoints, int(ep.QPN)&(f.info.EndpointEntries-1), 1, f.info.EndpointEntries); why != "" {
				return why
			}
		}
		for i, p := range sw.Pipes {
			n := p.Slots * in.group.MTU / 256
			if p.Reproducible {
				n *= len(p.Ins)
			}
			for _, why := range []string{
				take("pipe", pipes, in.rows.Pipes[i], 1, f.info.PipeEntries),
				take("out", outs, in.rows.Outs[i], len(p.Outs), f.info.ListEntries),
				take("in", ins, in.rows.Ins[i], len(p.Ins), f.info.ListEntries),
				take("block", blocks, *p.BaseBlock, n, f.info.Blocks()),
			} {
				if why != "" {
					return why
				}
			}
		}
	}
	return ""
}

// Quiesce notes it.
func (f *Fake) Quiesce(ctx context.Context, id string) error {
	return f.call(ctx, "quiesce", func() error {
		one, ok := f.there[id]
		if !ok {
			return target.ErrNotInstalled
		}
		if !one.quiesced {
			f.Log = append(f.Log, "quiesce "+id)
		}
		one.quiesced = true
		return nil
	})
}

// State is what SetState said; a subgroup of Mode-II is drained when it is quiesced too.
func (f *Fake) State(ctx context.Context, id string) (st target.State, err error) {
	err = f.call(ctx, "state", func() error {
		one, ok := f.there[id]
		if !ok {
			return target.ErrNotInstalled
		}
		st = f.next[id]
		st.Drained = !f.busy[id] && (one.group.Mode != 2 || one.quiesced)
		return nil
	})
	return st, err
}

// Remove forgets the subgroup.
func (f *Fake) Remove(ctx context.Context, id string, force bool) error {
	return f.call(ctx, "remove", func() error {
		if _, ok := f.there[id]; !ok {
			return nil
		}
		if f.busy[id] && !force {
			return target.ErrBusy
		}
		delete(f.there, id)
		f.Log = append(f.Log, "remove "+id)
		return nil
	})
}

// Installed lists the ids.
func (f *Fake) Installed(ctx context.Context) (ids []string, err error) {
	err = f.call(ctx, "installed", func() error {
		ids = slices.Sorted(maps.Keys(f.there))
		return nil
	})
	return ids, err
}

// Watch tells of what Fault is called with.
func (f *Fake) Watch(ctx context.Context, tell func(target.Fault)) error {
	f.mu.Lock()
	if f.err != nil {
		defer f.mu.Unlock()
		return f.err
	}
	n := len(f.tell)
	f.tell[n] = tell
	now, cut := slices.Clone(f.faults), f.cut
	f.mu.Unlock()
	for _, fault := range now {
		tell(fault)
	}
	select {
	case <-ctx.Done():
	case <-cut:
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tell[n] = nil
	if f.err != nil {
		return f.err
	}
	return ctx.Err()
}

// SetState says what State answers.
func (f *Fake) SetState(id string, st target.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next[id] = st
	f.busy[id] = !st.Drained
}

// Fault puts a pipe in error.
func (f *Fake) Fault(fault target.Fault) {
	f.mu.Lock()
	f.faults = append(f.faults, fault)
	tell := slices.Collect(maps.Values(f.tell))
	f.mu.Unlock()
	for _, one := range tell {
		if one != nil {
			one(fault)
		}
	}
}

// Kill lets every call fail until Start.
func (f *Fake) Kill(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	close(f.cut)
	f.cut = make(chan struct{})
}

// Start brings the switch back; its tables are lost if lose.
func (f *Fake) Start(lose bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = nil
	if lose {
		f.there, f.busy, f.faults = map[string]*installed{}, map[string]bool{}, nil
		f.boots++
	}
}

// Holds lists what is installed.
func (f *Fake) Holds() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.there))
}

// History is a copy of Log.
func (f *Fake) History() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.Log)
}

// Mistakes is a copy of Wrong.
func (f *Fake) Mistakes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.Wrong)
}

// Document of a subgroup that is installed.
func (f *Fake) Document(id string) (*group.Group, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one, ok := f.there[id]
	if !ok {
		return nil, false
	}
	return one.group, true
}
