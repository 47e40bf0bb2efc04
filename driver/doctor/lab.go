package doctor

import (
	"context"

	"github.com/epic-inc/epic/driver/lab"
	"github.com/epic-inc/epic/driver/softswitch"
	"github.com/epic-inc/epic/golden/group"
)

// Options say where to look.
type Options struct {
	Groups   []*group.Group
	Switches []string // addresses for Fetch
	Apart    []Apart
	Hosts    []Place
}

// Apart is a switch that is a process of its own, which may not run.
type Apart struct {
	Name    string
	Address string // for Fetch
	Start   string // the command line that starts it
}

// Unheard is a switch that did not answer.
type Unheard struct {
	Apart
	Err error
}

// Place is the interface of a rank.
type Place struct {
	Group, Rank int
	Namespace   string // empty: that of the process
	Interface   string
}

// Examine looks everywhere that Options say, and diagnoses. A switch of Switches that does not answer is an error, one of
// Apart a finding, as is an interface that is not there.
func Examine(ctx context.Context, o Options) (*Report, error) {
	var hosts []Host
	for _, p := range o.Hosts {
		hosts = append(hosts, ProbeHost(ctx, p.Namespace, p.Interface, o.Groups, p.Group, p.Rank))
	}
	var states []softswitch.State
	for _, address := range o.Switches {
		one, err := Fetch(ctx, address)
		if err != nil {
			return nil, err
		}
		states = append(states, one...)
	}
	var unheard []Unheard
	for _, a := range o.Apart {
		one, err := Fetch(ctx, a.Address)
		if err != nil {
			unheard = append(unheard, Unheard{Apart: a, Err: err})
		}
		states = append(states, one...)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return Diagnose(o.Groups, hosts, states, unheard), nil
}

// Lab examines all of a lab.
func Lab(ctx context.Context, st *lab.State) (*Report, error) {
	var o Options
	if len(st.Apart) == 0 {
		o.Switches = []string{"unix:" + st.Socket}
	}
	for _, a := range st.Apart {
		start, err := a.Command(st.Groups)
		if err != nil {
			return nil, err
		}
		o.Apart = append(o.Apart, Apart{Name: a.Name, Address: a.Metrics, Start: start})
	}
	for i, file := range st.Groups {
		g, err := group.Load(file)
		if err != nil {
			return nil, err
		}
		o.Groups = append(o.Groups, g)
		for rank, h := range st.Hosts[i] {
			o.Hosts = append(o.Hosts, Place{Group: i, Rank: rank, Namespace: st.Namespaces[h], Interface: st.Interface})
		}
	}
	return Examine(ctx, o)
}
