package lab

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/epic-inc/epic/driver/coll"
	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/rank"
	"github.com/epic-inc/epic/golden/expect"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// team is the ranks of a lab's group, each with a communicator.
type team struct {
	links []device.Link
	comms []*coll.Comm
}

func form(t *testing.T, l *Lab) *team {
	t.Helper()
	g, err := group.Load(l.Groups[0])
	require.NoError(t, err)
	m := &team{}
	for r, one := range g.Ranks {
		link, err := l.Link(l.Hosts[0][r])
		require.NoError(t, err)
		e, err := rank.New(rank.Options{Name: group.RankName(r), Link: link, MAC: roce.MAC(one.MAC), IP: one.IP.Addr})
		require.NoError(t, err)
		static, err := coll.NewStatic(g, r)
		require.NoError(t, err)
		c, err := coll.New(t.Context(), coll.Options{Endpoint: e, Rendezvous: static, Job: "failures", Rank: r, Ranks: len(g.Ranks), Algorithm: coll.Network, Patience: 5 * time.Second})
		require.NoError(t, err)
		m.links, m.comms = append(m.links, link), append(m.comms, c)
	}
	return m
}

// reduce lets every rank add up vectors, that of a rank of so many bytes, and returns what each says.
func (m *team) reduce(ctx context.Context, bytes ...int) []error {
	const seed = 5
	errs := make([]error, len(m.comms))
	in := expect.Vectors(seed, len(m.comms), bytes[0], spec.DTypeInt32, spec.OpSum)
	want, err := expect.Reduce(spec.DTypeInt32, spec.OpSum, in)
	if err != nil {
		return []error{err}
	}
	var all sync.WaitGroup
	for r, c := range m.comms {
		all.Go(func() {
			v := in[r]
			if len(bytes) > 1 {
				v = v[:bytes[r]]
			}
			out := make([]byte, len(v))
			if errs[r] = c.AllReduce(ctx, v, out, spec.DTypeInt32, spec.OpSum); errs[r] != nil {
				return
			}
			if d := expect.Differs(spec.DTypeInt32, out, want); d != "" {
				errs[r] = errors.New(d)
			}
		})
	}
	all.Wait()
	return errs
}

func (m *team) end(ctx context.Context) {
	var all sync.WaitGroup
	for _, c := range m.comms {
		all.Go(func() { _ = c.Close(ctx) }) // of one that has failed it says so again
	}
	all.Wait()
}

// bounded is how long a failure may take to be told: patience, and a machine that is busy.
const bounded = 40 * time.Second

// Whatever happens is over in bounded time, every rank that lives is told which, and after the group has been created
// again on the same queue pairs, with frames of before still about, the same lab gives right results.
func TestFailures(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes most of a minute: go test without -short runs it")
	}
	const bytes = 4 << 20
	under := func(l *Lab, do func()) { // when the collective is under way
		for l.Switches()[0].State().Ports[0].TxFrames < 50 {
			time.Sleep(time.Millisecond)
		}
		do()
	}
	for _, f := range []struct {
		name    string
		happens func(t *testing.T, l *Lab, m *team)
		sizes   []int
		word    string // in what each other rank says; empty: all is well in the end
		but     int    // the rank that says nothing, or anything; -1: none
	}{
		{name: "killed rank", but: 2, word: "rank 2", happens: func(_ *testing.T, l *Lab, m *team) {
			under(l, func() { m.links[2].Close() })
		}},
		{name: "killed switch", but: -1, word: "switch", happens: func(t *testing.T, l *Lab, _ *team) {
			under(l, func() { require.NoError(t, l.Switches()[0].Remove(GroupID(0))) })
		}},
		{name: "cable cut for a second", but: -1, happens: func(_ *testing.T, l *Lab, _ *team) {
			under(l, func() { l.Wire(1).Cut(true) })
			time.Sleep(time.Second)
			l.Wire(1).Cut(false)
		}},
		{name: "interface down and up", but: -1, happens: func(t *testing.T, l *Lab, _ *team) {
			set := func(up bool) {
				ns, err := netns.GetFromName(l.Namespaces[1])
				require.NoError(t, err)
				defer ns.Close()
				h, err := netlink.NewHandleAt(ns)
				require.NoError(t, err)
				defer h.Close()
				link, err := h.LinkByName(hostInterface)
				require.NoError(t, err)
				if up {
					require.NoError(t, h.LinkSetUp(link))
				} else {
					require.NoError(t, h.LinkSetDown(link))
				}
			}
			under(l, func() { set(false) })
			time.Sleep(time.Second)
			set(true)
		}},
		{name: "wrong count", but: -1, word: "rank 1", sizes: []int{bytes, bytes - 4, bytes}, happens: func(*testing.T, *Lab, *team) {}},
	} {
		t.Run(f.name, func(t *testing.T) {
			o := Shape()
			o.Ranks, o.Gbps = 3, 0.05 // slow enough for things to happen meanwhile
			l := up(t, o, func(o *Options) { o.Paced = true })
			m := form(t, l)
			sizes := f.sizes
			if sizes == nil {
				sizes = []int{bytes}
			}
			ctx, cancel := context.WithTimeout(t.Context(), bounded)
			defer cancel()
			var all sync.WaitGroup
			all.Go(func() { f.happens(t, l, m) })
			errs := m.reduce(ctx, sizes...)
			all.Wait()
			require.NoError(t, ctx.Err(), "in bounded time")
			for r, err := range errs {
				switch {
				case r == f.but:
				case f.word == "":
					require.NoError(t, err, "rank %d", r)
				default:
					require.ErrorContains(t, err, f.word, "rank %d", r)
				}
			}
			m.end(ctx)

			require.NoError(t, l.Again())
			m = form(t, l)
			for r, err := range m.reduce(t.Context(), 100_000) {
				require.NoError(t, err, "after it was created again: rank %d", r)
			}
			m.end(t.Context())
		})
	}
}
