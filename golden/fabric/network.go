package fabric

import (
	"fmt"
	"math"
	"time"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/spec"
)

// LinkOf is a link of a group at a clock.
func LinkOf(l group.Link, c group.Clock) Link {
	const clocks = 1000
	bytes := l.Gbps / 8 * 1000 / c.MHz * clocks
	return Link{
		Delay: max(1, uint64(math.Round(l.DelayNs*c.MHz/1000))),
		Rate:  Rate{Bytes: max(1, uint64(math.Round(bytes))), Clocks: clocks},
		Loss:  l.Loss, Dup: l.Dup, Reorder: l.Reorder,
	}
}

// ScaleOf is the time scale of everything that has timers: a tick of the engine is 10 us by name.
func ScaleOf(c group.Clock) Scale {
	return Scale{Clocks: uint64(c.PerTick), Per: spec.TickNs * time.Nanosecond}
}

// Network is the switches, hosts and links of groups in a fabric.
type Network struct {
	*Fabric
	Set      *group.Set
	Switches []ID // in the order of Set.Switches
	Hosts    []ID // in the order of Set.Hosts
}

// Build joins the switches that sw(i) makes and the hosts that host(i) makes, i as in Set, by the links of
// the groups. A switch that sw does not make (nil) is a foreign node.
func Build(set *group.Set, seed uint64, sw, host func(i int) (Node, error)) (*Network, error) {
	n := &Network{Fabric: New(seed), Set: set}
	for i, name := range set.Switches {
		node, err := sw(i)
		if err != nil {
			return nil, fmt.Errorf("switch %s: %w", name, err)
		}
		if node == nil {
			n.Switches = append(n.Switches, n.AddForeign(name))
		} else {
			n.Switches = append(n.Switches, n.Add(name, node))
		}
	}
	for i, nic := range set.Hosts {
		node, err := host(i)
		if err != nil {
			return nil, fmt.Errorf("host %s: %w", nic.Name, err)
		}
		n.Hosts = append(n.Hosts, n.Add(nic.Name, node))
	}
	wires, err := set.Wires()
	if err != nil {
		return nil, err
	}
	for _, w := range wires {
		to := n.Hosts
		if !w.Peer.IsRank() {
			to = n.Switches
		}
		l := LinkOf(w.Link, set.Clock)
		if err := n.Connect(n.Switches[w.Switch], w.Port, to[w.Peer.Index], w.PeerPort, l, l); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// GoldenSwitch is the golden engine of a switch of the set, programmed.
func GoldenSwitch(set *group.Set, i int) (*Switch, error) {
	cfg, err := set.EngineConfig(set.Switches[i])
	if err != nil {
		return nil, err
	}
	e, err := engine.New(cfg)
	if err != nil {
		return nil, err
	}
	e.Program()
	return NewSwitch(e, ScaleOf(set.Clock))
}
