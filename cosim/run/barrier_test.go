package run

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/fabric"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// A rank that gets out of a Barrier which another has not entered must be noticed.
func TestBarrierEarly(t *testing.T) {
	o := group.DefaultOptions()
	o.Collective, o.Ranks = "barrier", 2
	g, err := group.Generate(o)
	require.NoError(t, err)
	var hosts []*fabric.Host
	var cfg host.Config
	for r := range 2 {
		c, _, _, err := hostConfig(g, r)
		require.NoError(t, err)
		rank, err := host.NewRank(host.RankConfig{QP: c, Barriers: 2, MessagePackets: 1, WindowPackets: 8})
		require.NoError(t, err)
		h, err := fabric.NewHost(rank, scaleOf(g.Clock), 0)
		require.NoError(t, err)
		hosts = append(hosts, h)
		if r == 0 {
			cfg = c
		}
	}
	pass := func(n int) {
		hosts[0].Rank.Run(host.Event{Kind: host.Deliver, Packet: &roce.Packet{Opcode: spec.OpcodeSendOnly, DestQP: cfg.QPN,
			Src: cfg.PeerIP, Dst: cfg.IP, DstMAC: cfg.MAC, SrcMAC: cfg.PeerMAC, PKey: cfg.PKey, PSN: psn.Add(cfg.RecvPSN, n), AckReq: true}})
	}
	hosts[0].Rank.Start()
	hosts[1].Rank.Start()
	require.NoError(t, barrierEarly(hosts, 0))
	pass(0)
	require.NoError(t, barrierEarly(hosts, 0), "both have entered the first")
	pass(1)
	require.EqualError(t, barrierEarly(hosts, 0), "rank 0 has passed Barrier 2, but rank 1 has entered only 1")
}

func TestBarrierOptions(t *testing.T) {
	o := group.DefaultOptions()
	sum, err := group.Generate(o)
	require.NoError(t, err)
	o.Collective = "barrier"
	barrier, err := group.Generate(o)
	require.NoError(t, err)
	for _, tc := range []struct {
		o    Options
		want string
	}{
		{Options{Group: barrier, Bytes: 64}, ""},
		{Options{Group: barrier, Barriers: -1}, "barriers: got -1"},
		{Options{Group: barrier, Inputs: [][]byte{{1, 2, 3, 4}}}, "and 1 vectors"},
		{Options{Group: sum, Bytes: 4, Barriers: 3}, `barriers: got 3 of the collective "allreduce", want 0`},
	} {
		err := checkRun(&tc.o)
		if tc.want != "" {
			require.ErrorContains(t, err, tc.want, fmt.Sprintf("%+v", tc.o))
			continue
		}
		require.NoError(t, err)
		require.Equal(t, defaultBarriers, tc.o.Barriers)
		require.Zero(t, tc.o.Bytes)
	}
}
