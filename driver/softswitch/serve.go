package softswitch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/epic-inc/epic/driver/control/target"
	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/golden/group"
)

// Modes that the engine does.
func Modes() []int { return []int{1, 2, 3} }

// Service is a switch as a process of its own.
type Service struct {
	Name    string // of the switch in the groups; empty: the only one they have
	Groups  []*group.Group
	Ports   []Port
	MTU     int    // of ports over UDP
	Metrics string // HOST:PORT or unix:PATH of Handler over HTTP; empty: none
	Listen  string // address at which a control plane programs it; empty: none
}

// name of the switch.
func (o *Service) name(set *group.Set) (string, error) {
	switch {
	case set == nil && o.Name == "":
		return "", errors.New("switch: got neither a group nor a name, want one of them")
	case set == nil:
		return o.Name, nil
	case o.Name != "":
		return o.Name, nil
	case len(set.Switches) != 1:
		return "", fmt.Errorf("switch: the groups have %q, want the name of one", set.Switches)
	}
	return set.Switches[0], nil
}

// Run runs the switch until ctx ends, and shows its counters at out.
func (o *Service) Run(ctx context.Context, out io.Writer) error {
	var set *group.Set
	if len(o.Groups) > 0 {
		var err error
		if set, err = group.NewSet(o.Groups...); err != nil {
			return err
		}
	}
	name, err := o.name(set)
	if err != nil {
		return err
	}
	links, err := Open(o.Ports, o.MTU)
	if err != nil {
		return fmt.Errorf("switch %s: %w", name, err)
	}
	s, err := o.prepare(name, links)
	if err != nil {
		for _, l := range links {
			l.Close()
		}
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	part := func(run func() error) {
		all.Go(func() {
			if err := run(); err != nil {
				cancel(err)
			}
		})
	}
	if err := o.serve(ctx, s, part); err != nil {
		cancel(err)
	}
	part(func() error { return s.Run(ctx) })
	part(func() error { return Show(ctx, out, s) })
	all.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// prepare makes the switch with its groups.
func (o *Service) prepare(name string, links map[int]device.Link) (*Switch, error) {
	s, err := New(Options{Name: name, Ports: links})
	if err != nil {
		return nil, err
	}
	for i, g := range o.Groups {
		cfg, err := g.EngineConfig(name)
		if err != nil {
			return nil, err
		}
		if err := s.Install(fmt.Sprintf("g%d", i), cfg); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// serve opens what others ask the switch at.
func (o *Service) serve(ctx context.Context, s *Switch, part func(func() error)) error {
	if o.Metrics != "" {
		h, err := Handler(s)
		if err != nil {
			return err
		}
		l, err := listen(o.Metrics)
		if err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
		part(func() error { return Serve(ctx, l, h) })
	}
	if o.Listen != "" {
		l, err := net.Listen("tcp", o.Listen)
		if err != nil {
			return fmt.Errorf("control: %w", err)
		}
		part(func() error { return target.Serve(ctx, l, s.Target(Modes()...)) })
	}
	return nil
}

// listen listens at HOST:PORT or unix:PATH. A socket that a process left which was killed is removed.
func listen(address string) (net.Listener, error) {
	path, unix := strings.CutPrefix(address, "unix:")
	if !unix {
		return net.Listen("tcp", address)
	}
	if c, err := net.Dial("unix", path); err == nil {
		return nil, errors.Join(fmt.Errorf("%s: another process listens there, want another path", path), c.Close())
	} else if errors.Is(err, syscall.ECONNREFUSED) {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	return net.Listen("unix", path)
}
