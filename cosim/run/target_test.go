package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/cosim/server"
	"github.com/epic-inc/epic/cosim/server/servertest"
	"github.com/epic-inc/epic/driver/control/target"
	"github.com/epic-inc/epic/driver/table"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// two ranks at the engine, whose queue pairs and blocks begin after those of `after` others.
func twoRanks(t *testing.T, after int) *group.Group {
	t.Helper()
	o := group.DefaultOptions()
	o.Ranks, o.Slots, o.PSN0 = 2, 32, 0xfffff0
	options := make([]group.Options, after+1)
	for i := range options {
		options[i] = o
	}
	set, err := group.GenerateSet(options...)
	require.NoError(t, err)
	return set.Groups[after]
}

// The control plane's way into an engine: subgroups are put in and taken out beside each other, at rows that are not
// their own numbers, and each adds up for its own ranks alone.
func TestTargetOnRTL(t *testing.T) {
	ctx := t.Context()
	rtl, err := server.Start(ctx, server.Options{Binary: servertest.Simulator(t, 64), Seed: 7})
	require.NoError(t, err)
	defer func() { require.NoError(t, rtl.Close()) }()
	tables, err := table.Open(ctx, rtl)
	require.NoError(t, err)
	require.NoError(t, tables.SetTickClocks(ctx, 0)) // nothing is lost, nothing is sent again
	sw, err := target.NewTable(ctx, "root", tables)
	require.NoError(t, err)

	a, b := twoRanks(t, 0), twoRanks(t, 1)
	require.NoError(t, sw.Install(ctx, "a", a, target.Rows{Pipes: []int{3}, Outs: []int{10}, Ins: []int{0}}))
	require.NoError(t, sw.Install(ctx, "b", b, target.Rows{Pipes: []int{1}, Outs: []int{4}, Ins: []int{0}}))

	const p0 = psn.PSN(0xfffff0)
	// exchange sends a contribution of each rank, and returns what comes out, by rank.
	exchange := func(g *group.Group, p psn.PSN, ranks ...int) map[int][]byte {
		cfg, err := g.EngineConfig("root")
		require.NoError(t, err)
		at := rtl.Granted() + 500
		for i, r := range ranks {
			ep := cfg.Endpoints[r]
			pkt := packetOf(ep, p, []byte{byte(r + 1), 0, 0, 0, 10, 0, 0, 0})
			_, err := rtl.Drive(at+uint64(10*i), ep.Port, pkt.Encode(), false)
			require.NoError(t, err)
		}
		got := map[int][]byte{}
		for rtl.Granted() < at+4000 {
			require.NoError(t, rtl.Grant(rtl.Granted()+500))
			w, err := rtl.Window(ctx)
			require.NoError(t, err)
			for _, f := range w.Frames {
				pkt, bad := roce.Decode(f.Bytes)
				require.Nil(t, bad)
				for r, ep := range cfg.Endpoints {
					if !pkt.HasAETH() && pkt.DestQP == ep.PeerQPN && pkt.PSN == p && int(f.Port) == ep.Port {
						got[r] = pkt.Payload
					}
				}
			}
		}
		return got
	}
	want := map[int][]byte{0: {3, 0, 0, 0, 20, 0, 0, 0}, 1: {3, 0, 0, 0, 20, 0, 0, 0}}
	require.Equal(t, want, exchange(a, p0, 0, 1))
	require.Equal(t, want, exchange(b, p0, 0, 1))

	// The results are not acknowledged: a is not drained, and what it had is kept when it is taken out all the same.
	st, err := sw.State(ctx, "a")
	require.NoError(t, err)
	require.Equal(t, target.State{Known: true, Next: psn.Next(p0)}, st)
	require.ErrorIs(t, sw.Remove(ctx, "a", false), target.ErrBusy)
	require.NoError(t, sw.Remove(ctx, "a", true))
	info, err := sw.Info(ctx)
	require.NoError(t, err)
	require.Equal(t, table.Held{Pipe: 3, Base: 0, Blocks: 128, Out: 10, Outs: 2, Endpoints: []int{1, 2}}, info.Held[0])
	require.True(t, table.IsBusy(sw.Install(ctx, "again", twoRanks(t, 2), target.Rows{Pipes: []int{3}, Outs: []int{10}, Ins: []int{0}})))
	require.Empty(t, exchange(a, psn.Next(p0), 0, 1), "taken out: its frames are not the engine's")
	require.Equal(t, want, exchange(b, psn.Next(p0), 0, 1), "the other runs on")

	// Another one takes other rows.
	c := twoRanks(t, 2)
	require.NoError(t, sw.Install(ctx, "c", c, target.Rows{Pipes: []int{0}, Outs: []int{20}, Ins: []int{0}}))
	require.Equal(t, want, exchange(c, p0, 0, 1))

	// One that is drained leaves rows to another pipe than its own, and looks at them no more: its results would leave
	// where the other's do.
	d := twoRanks(t, 3)
	require.NoError(t, sw.Install(ctx, "d", d, target.Rows{Pipes: []int{5}, Outs: []int{30}, Ins: []int{0}}))
	require.NoError(t, sw.Remove(ctx, "d", false), "drained: nothing was sent")
	e, err := d.Moved([]psn.PSN{0x3ffff0})
	require.NoError(t, err)
	require.NoError(t, sw.Install(ctx, "e", e, target.Rows{Pipes: []int{6}, Outs: []int{30}, Ins: []int{0}}))
	require.Equal(t, want, exchange(e, 0x3ffff0, 0, 1))
	drained, err := tables.Drained(ctx, 5)
	require.NoError(t, err)
	require.True(t, drained, "the old pipe is as idle as before")
	require.NoError(t, sw.Install(ctx, "f", twoRanks(t, 4), target.Rows{Pipes: []int{5}, Outs: []int{40}, Ins: []int{0}}))
	require.Equal(t, want, exchange(twoRanks(t, 4), p0, 0, 1))
}

// packetOf is what the peer of an endpoint sends.
func packetOf(ep engine.Endpoint, p psn.PSN, payload []byte) *roce.Packet {
	return &roce.Packet{DstMAC: ep.MAC, SrcMAC: ep.PeerMAC, Src: ep.PeerIP, Dst: ep.IP, TTL: 64, SrcPort: 50000, Opcode: spec.OpcodeSendOnly,
		PKey: 0xffff, DestQP: ep.QPN, PSN: p, AckReq: true, Payload: payload}
}
