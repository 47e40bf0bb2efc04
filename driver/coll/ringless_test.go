package coll_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/coll"
	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/rank"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/tree"
)

// ringless has a rank 1 that knows queue pairs to switches alone, and a network that carries nothing.
type ringless struct{ coll.Rendezvous }

func (r ringless) Join(ctx context.Context, m coll.Member) (*coll.Peers, error) {
	p, err := r.Rendezvous.Join(ctx, m)
	if err == nil {
		p.Members[1].Ring = [2]uint32{}
	}
	return p, err
}

func (ringless) Subgroup(context.Context, tree.Step, uint32) (*coll.Subgroup, error) {
	return nil, coll.Refused("no room")
}

// Where the network refuses and a rank has no ring, the collective fails and both are said.
func TestNoRing(t *testing.T) {
	for algorithm, want := range map[coll.Algorithm]string{
		coll.Auto: "the network does not carry it: no room, and the hosts cannot do it: rank 1 takes no part in a ring of the hosts",
		coll.Ring: "rank 1 takes no part in a ring of the hosts",
	} {
		o := group.DefaultOptions()
		o.Ranks = 3
		g, err := group.Generate(o)
		require.NoError(t, err)
		static, err := coll.NewStatic(g, 0)
		require.NoError(t, err)
		mac, ip := static.Address()
		link, _, err := device.Pair(4300)
		require.NoError(t, err)
		e, err := rank.New(rank.Options{Name: "0", Link: link, MAC: mac, IP: ip})
		require.NoError(t, err)
		c, err := coll.New(t.Context(), coll.Options{Endpoint: e, Rendezvous: ringless{static}, Job: "train", Ranks: 3, Algorithm: algorithm})
		require.NoError(t, err)
		require.ErrorContains(t, c.Barrier(t.Context()), want)
		require.NoError(t, c.Close(t.Context()))
	}
}
