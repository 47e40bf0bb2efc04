package board_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"

	"github.com/epic-inc/epic/driver/coll"
	"github.com/epic-inc/epic/driver/job"
	"github.com/epic-inc/epic/driver/table"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/oracle"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// cables makes n veths, of which the board has one end each, and returns the names of both ends.
func cables(t *testing.T, n int) (board, host []string) {
	t.Helper()
	if os.Geteuid() != 0 {
		oracle.Skip(t, "to make a veth needs root")
	}
	for i := range n {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = fmt.Sprintf("vb%d.%d", os.Getpid(), i)
		peer := fmt.Sprintf("vh%d.%d", os.Getpid(), i)
		require.NoError(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: peer}))
		t.Cleanup(func() { assert.NoError(t, netlink.LinkDel(&netlink.Veth{LinkAttrs: attrs})) })
		for _, name := range []string{attrs.Name, peer} {
			l, err := netlink.LinkByName(name)
			require.NoError(t, err)
			require.NoError(t, netlink.LinkSetUp(l))
		}
		board, host = append(board, attrs.Name), append(host, peer)
	}
	for _, name := range append(append([]string{}, board...), host...) {
		require.Eventually(t, func() bool {
			l, err := netlink.LinkByName(name)
			return err == nil && l.Attrs().OperState == netlink.OperUp
		}, 10*time.Second, time.Millisecond, "%s does not come up", name)
	}
	return board, host
}

// Four ranks on raw Ethernet add their vectors through the virtual board, whose tables are written by its serial line
// from the group file that the ranks have.
func TestAllReduce(t *testing.T) {
	for _, mode := range []int{3, 2} {
		t.Run(fmt.Sprint("mode ", mode), func(t *testing.T) { allReduce(t, mode) })
	}
}

func allReduce(t *testing.T, mode int) {
	const ranks, elements = 4, 16384
	boardEnds, hostEnds := cables(t, ranks)
	var args []string
	for _, name := range boardEnds {
		args = append(args, "--ethernet", name)
	}
	u := open(t, start(t, args...))

	o := group.DefaultOptions()
	o.Mode, o.Slots, o.Op, o.DType = mode, 32, spec.OpSum, spec.DTypeInt32
	o.HostTimeout = 18 // a second: the board's time is slower than the hosts'
	g, err := group.Generate(o)
	require.NoError(t, err)
	text, err := g.Marshal()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "group.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o644))
	set, err := group.NewSet(g)
	require.NoError(t, err)
	cfg, err := set.EngineConfig(set.Switches[0])
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	began := time.Now()
	engine, err := table.Open(ctx, u)
	require.NoError(t, err)
	require.NoError(t, engine.SetTickClocks(ctx, 2500))
	_, err = engine.Program(ctx, cfg)
	require.NoError(t, err)
	t.Logf("tables written in %v", time.Since(began))

	random := rand.New(rand.NewPCG(uint64(mode), 7))
	want := make([]byte, 4*elements)
	all, ctx := errgroup.WithContext(ctx)
	dir := t.TempDir()
	out := func(r int) string { return filepath.Join(dir, fmt.Sprint("out", r)) }
	for r := range ranks {
		in := make([]byte, 4*elements)
		for i := 0; i < len(in); i += 4 {
			v := random.Uint32()
			binary.LittleEndian.PutUint32(in[i:], v)
			binary.LittleEndian.PutUint32(want[i:], binary.LittleEndian.Uint32(want[i:])+v)
		}
		name := filepath.Join(dir, fmt.Sprint("in", r))
		require.NoError(t, os.WriteFile(name, in, 0o644))
		all.Go(func() error {
			report, err := job.Run(ctx, job.Options{
				Link: "raw:" + hostEnds[r], Group: file, Rank: r, Collective: tree.AllReduce, Op: spec.OpSum, DType: spec.DTypeInt32,
				In: name, Out: out(r), Algorithm: coll.Network, Patience: 2 * time.Minute,
			})
			if err == nil && report.By != "network" {
				err = fmt.Errorf("done by %s", report.By)
			}
			if err == nil {
				t.Logf("rank %d: %.2f s", r, report.Seconds)
			}
			return err
		})
	}
	require.NoError(t, all.Wait())
	for r := range ranks {
		got, err := os.ReadFile(out(r))
		require.NoError(t, err)
		assert.True(t, string(got) == string(want), "rank %d has another sum", r)
	}
}
