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
	Hosts    []Place
}

// Place is the interface of a rank.
type Place struct {
	Group, Rank int
	Namespace   string // empty: that of the process
	Interface   string
}

// Examine looks everywhere that Options say, and diagnoses. A switch that does not answer is an error, an interface
// that is not there a finding.
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
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return Diagnose(o.Groups, hosts, states), nil
}

// Lab examines all of a lab.
func Lab(ctx context.Context, st *lab.State) (*Report, error) {
	o := Options{Switches: []string{"unix:" + st.Socket}}
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
