package softswitch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/control/target"
	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/golden/fabric"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/roce"
)

// network is switches of groups on pairs, with golden's hosts at their ports.
type network struct {
	set      *group.Set
	switches []*Switch
	hosts    []device.Link // by index in Set.Hosts
}

const linkMTU = 9000

func build(t *testing.T, set *group.Set) *network {
	t.Helper()
	n := &network{set: set, hosts: make([]device.Link, len(set.Hosts))}
	ports := make([]map[int]device.Link, len(set.Switches))
	for i := range ports {
		ports[i] = map[int]device.Link{}
	}
	wires, err := set.Wires()
	require.NoError(t, err)
	for _, w := range wires {
		a, b, err := device.Pair(linkMTU)
		require.NoError(t, err)
		ports[w.Switch][w.Port] = a
		if w.Peer.IsRank() {
			n.hosts[w.Peer.Index] = b
		} else {
			ports[w.Peer.Index][w.PeerPort] = b
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i, name := range set.Switches {
		s, err := New(Options{Name: name, Ports: ports[i]})
		require.NoError(t, err)
		for k, g := range set.Groups {
			if _, there := g.SwitchIndex(name); !there {
				continue
			}
			cfg, err := g.EngineConfig(name)
			require.NoError(t, err)
			require.NoError(t, s.Install(fmt.Sprintf("g%d", k), cfg))
		}
		n.switches = append(n.switches, s)
		all.Go(func() {
			if err := s.Run(ctx); err != nil {
				t.Errorf("switch: %v", err)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
	return n
}

// patience is for a machine that does much else; without loss nothing else takes long.
const patience = 2 * time.Minute

// play runs golden's hosts of a job in real time until all are done.
func (n *network) play(t *testing.T, job *fabric.Job) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	over, end := context.WithCancel(ctx)
	defer end()
	var left atomic.Int64
	left.Store(int64(len(n.set.Hosts)))
	done := func(h *fabric.Host) {
		failed := slices.ContainsFunc(h.Ranks, func(r *host.Rank) bool { return r.Err() != nil })
		if left.Add(-1) == 0 || failed {
			end() // until then a host that is done answers those who ask again
		}
	}
	start := time.Now()
	var all sync.WaitGroup
	for i := range n.set.Hosts {
		h, err := job.Host(i, 0)
		require.NoError(t, err)
		all.Go(func() { drive(over, start, n.hosts[i], h, done) })
	}
	all.Wait()
	require.NoError(t, job.Err())
	require.NoError(t, ctx.Err(), "the hosts are not done")
	require.NoError(t, job.Check())
}

// drive gives a node of a fabric real time, clocks of 1 ns, until ctx ends. It calls done when the node is.
func drive(ctx context.Context, start time.Time, link device.Link, h *fabric.Host, done func(*fabric.Host)) {
	now := func() uint64 { return uint64(time.Since(start)) }
	h.Bind(func(_ int, frame []byte) { _ = link.Send(ctx, frame) })
	h.Wake(now())
	told := false
	for ctx.Err() == nil {
		if !told && h.Done() {
			told = true
			done(h)
		}
		wait, cancel := ctx, context.CancelFunc(func() {})
		if at, ok := h.NextWake(); ok {
			wait, cancel = context.WithDeadline(ctx, start.Add(time.Duration(at)))
		}
		frame, err := link.Receive(wait)
		cancel()
		if err == nil {
			h.Receive(now(), 0, frame)
			continue
		}
		h.Wake(now())
	}
}

// options of a group whose clocks are nanoseconds, as drive wants it.
func options() group.Options {
	o := group.DefaultOptions()
	o.ClockMHz, o.ClocksPerTick = 1000, 10000
	o.TimeoutTicks, o.HostTimeout = 100000, 18 // 1 s: a machine that is busy must not look like one that loses frames
	return o
}

func job(t *testing.T, seed uint64, bytes int, options ...group.Options) (*group.Set, *fabric.Job) {
	t.Helper()
	set, err := group.GenerateSet(options...)
	require.NoError(t, err)
	var works []*fabric.Work
	for i, g := range set.Groups {
		steps, err := options[i].Steps()
		require.NoError(t, err)
		work, err := fabric.RandomWork(g, seed+uint64(i), steps, bytes)
		require.NoError(t, err)
		works = append(works, work)
	}
	j, err := fabric.NewJob(set, works...)
	require.NoError(t, err)
	return set, j
}

func TestCollectives(t *testing.T) {
	for _, mode := range []int{2, 3} {
		for _, tree := range group.TreeShapes() {
			t.Run(fmt.Sprintf("mode%d/%s", mode, tree), func(t *testing.T) {
				o := options()
				o.Mode, o.Tree, o.Ranks, o.PSN0 = mode, tree, 5, 0xfffff0
				o.Collective = "allreduce,barrier,reduce:3,broadcast:1,reducescatter,allgather"
				set, j := job(t, 1, 50_000, o)
				n := build(t, set)
				n.play(t, j)
				for _, s := range n.switches {
					require.Empty(t, s.Faults())
					require.Empty(t, s.State().Notes)
				}
			})
		}
	}
}

// Two groups on the same switches and hosts at once.
func TestGroupsAtOnce(t *testing.T) {
	a, b := options(), options()
	a.Mode, b.Mode = 2, 3
	set, j := job(t, 1, 100_000, a, b)
	build(t, set).play(t, j)
}

func TestInstallAndRemove(t *testing.T) {
	set, j := job(t, 1, 1000, options())
	n := build(t, set)
	s := n.switches[0]
	cfg, err := set.Groups[0].EngineConfig(set.Switches[0])
	require.NoError(t, err)
	require.ErrorContains(t, s.Install("g0", cfg), `"g0" is installed already`)
	require.ErrorContains(t, s.Install("other", cfg), `has QPN 0x000101, which "g0" has already`)
	st, err := s.Target(2, 3).State(t.Context(), "g0")
	require.NoError(t, err)
	require.Equal(t, target.State{Drained: true, Known: true}, st)
	require.Equal(t, []string{"g0"}, s.Installed())
	require.ErrorContains(t, s.Remove("g1"), `"g1" is not installed, want one of ["g0"]`)
	require.NoError(t, s.Remove("g0"))
	require.Empty(t, s.Installed())

	far := cfg
	far.Endpoints = append(far.Endpoints[:0:0], far.Endpoints...)
	far.Endpoints[2].Port, far.Ports = 9, 0
	require.ErrorContains(t, s.Install("far", far), "endpoint rank2 is at port 9, want one of [0 1 2 3]")
	require.Empty(t, s.Installed(), "what is refused leaves nothing")

	require.NoError(t, s.Install("again", cfg))
	n.play(t, j)
	st, err = s.Target(2, 3).State(t.Context(), "again")
	require.NoError(t, err)
	require.Equal(t, target.State{Drained: true, Known: true, Next: 1}, st, "one packet of 1000 bytes went through")
}

// A pipe whose ranks disagree goes to error, and the watcher hears of it once.
func TestFaultIsTold(t *testing.T) {
	set, _ := job(t, 1, 1000, options())
	n := build(t, set)
	faults := make(chan Fault, 10)
	n.switches[0].WatchFaults(t.Context(), func(f Fault) { faults <- f })
	g := set.Groups[0]
	send := func(rank int, bytes int) {
		cfg, err := g.HostConfig(rank, 0)
		require.NoError(t, err)
		q, err := host.New(cfg)
		require.NoError(t, err)
		for _, o := range q.Run(host.Event{Kind: host.PostSend, Message: host.Message{Payload: make([]byte, bytes)}}) {
			if o.Kind == host.Frame {
				require.NoError(t, n.hosts[rank].Send(t.Context(), o.Packet.Encode()))
			}
		}
	}
	send(0, 8)
	time.Sleep(50 * time.Millisecond) // rank 0's is the first
	send(1, 12)
	f := <-faults
	send(2, 16) // another error of a pipe that is in error
	require.Equal(t, "g0: pipe root: mismatch_length at endpoint rank1, psn 000000: got 0xc, want 0x8", f.Error())
	require.Equal(t, []Fault{f}, n.switches[0].Faults())
	time.Sleep(50 * time.Millisecond)
	require.Empty(t, faults)
	require.Equal(t, f.Error(), n.switches[0].State().Pipes[0].Fault)
}

func TestBadOptions(t *testing.T) {
	_, err := New(Options{Name: "s"})
	require.EqualError(t, err, "switch s: got no port, want at least one")
	a, _, err := device.Pair(1500)
	require.NoError(t, err)
	_, err = New(Options{Name: "s", Ports: map[int]device.Link{64: a}})
	require.EqualError(t, err, "switch s: got port 64, want 0..63")

	// A link that does not carry the group's packets.
	s, err := New(Options{Name: "s", Ports: map[int]device.Link{0: a, 1: a, 2: a, 3: a}})
	require.NoError(t, err)
	o := options()
	o.MTU = 2048
	g, err := group.Generate(o)
	require.NoError(t, err)
	cfg, err := g.EngineConfig(g.Switches[0].Name)
	require.NoError(t, err)
	require.ErrorContains(t, s.Install("g", cfg), "packets of 2048 bytes, which port 0 does not carry: its MTU is 1500, want at least 2096")
}

// The bridge: what is not for the switch reaches the port where the address was seen, and at first all.
func TestBridge(t *testing.T) {
	set, _ := job(t, 1, 1000, options())
	n := build(t, set)
	mac := func(i byte) roce.MAC { return roce.MAC{2, 0, 0, 0, 0, i} }
	frame := func(dst, src roce.MAC) []byte { return append(append(dst[:], src[:]...), 0x88, 0xb5, 'h', 'i') }
	send := func(port int, f []byte) { require.NoError(t, n.hosts[port].Send(t.Context(), f)) }
	got := func(port int) []byte {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		f, err := n.hosts[port].Receive(ctx)
		if err != nil {
			return nil
		}
		return f
	}
	hello := frame(mac(1), mac(0)) // nobody knows 1 yet
	send(0, hello)
	for port := 1; port < 4; port++ {
		require.Equal(t, hello, got(port), port)
	}
	back := frame(mac(0), mac(1))
	send(1, back)
	require.Equal(t, back, got(0))
	require.Nil(t, got(2))
	require.Nil(t, got(1), "not where it came from")
	send(0, hello)
	require.Equal(t, hello, got(1))
	require.Nil(t, got(3), "1 is known now")

	own := roce.MAC(set.Groups[0].Switches[0].Endpoints[0].MAC)
	send(2, frame(own, mac(2)))
	for port := range 4 {
		require.Nil(t, got(port), "a frame to the switch itself goes nowhere")
	}
	all := frame(roce.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, mac(2))
	send(2, all)
	for _, port := range []int{0, 1, 3} {
		require.Equal(t, all, got(port), port)
	}
}
