package board

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/epic-inc/epic/driver/table"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/spec"
)

// ProgramOptions say what is written where.
type ProgramOptions struct {
	Where
	File   string // group.yaml
	Switch string // of the file; empty: the only one
}

// Programmed is what was written.
type Programmed struct {
	Switch     string `json:"switch"`
	Endpoints  int    `json:"endpoints"`
	Pipes      int    `json:"pipes"`
	TickClocks uint32 `json:"tick_clocks"`
}

// WriteText prints it for people.
func (p *Programmed) WriteText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "switch %s: %d endpoints, %d pipes, a tick of %d clocks\n", p.Switch, p.Endpoints, p.Pipes, p.TickClocks)
	return err
}

// Program writes the tables of a switch into the engine of a board that is as after its reset.
func Program(ctx context.Context, o ProgramOptions) (p *Programmed, err error) {
	g, err := group.Load(o.File)
	if err != nil {
		return nil, err
	}
	set, err := group.NewSet(g)
	if err != nil {
		return nil, err
	}
	name := o.Switch
	if name == "" && len(set.Switches) == 1 {
		name = set.Switches[0]
	}
	if !slices.Contains(set.Switches, name) {
		return nil, fmt.Errorf("%s: switch: got %q, want one of %s (--switch)", o.File, name, strings.Join(set.Switches, ", "))
	}
	cfg, err := set.EngineConfig(name)
	if err != nil {
		return nil, err
	}
	b, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	engine, err := table.Open(ctx, b)
	if err != nil {
		return nil, err
	}
	ticks := uint32(uint64(b.Hello().ClockHz) * spec.TickNs / 1e9)
	if err := engine.SetTickClocks(ctx, ticks); err != nil {
		return nil, err
	}
	if _, err := engine.Program(ctx, cfg); err != nil {
		return nil, err
	}
	return &Programmed{name, len(cfg.Endpoints), len(cfg.Pipes), ticks}, nil
}
