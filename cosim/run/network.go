package run

import (
	"slices"

	"github.com/epic-inc/epic/golden/fabric"
	"github.com/epic-inc/epic/golden/psn"
)

// fullMember is the bit of a P_Key that lets the other side be a limited member.
const fullMember = 0x8000

// newNetwork joins the hosts' nodes, made by node(i), to golden engines and the places of the RTL, where the
// switch is nil.
func newNetwork(o *Options, node func(i int) (fabric.Node, error)) (*fabric.Network, []*fabric.Switch, error) {
	golden := make([]*fabric.Switch, len(o.set.Switches))
	n, err := fabric.Build(o.set, o.Seed, func(i int) (_ fabric.Node, err error) {
		if slices.Contains(o.rtlAt, i) {
			return nil, nil // foreign
		}
		golden[i], err = fabric.GoldenSwitch(o.set, i)
		return golden[i], err
	}, node)
	if err == nil && o.Network != nil {
		o.Network(n)
	}
	return n, golden, err
}

// psnAt is the n-th psn from psn0.
func psnAt(psn0 psn.PSN, n int) psn.PSN { return psn.PSN((uint32(psn0) + uint32(n)) & psn.Mask) }
