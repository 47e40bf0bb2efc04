package coll_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/coll"
	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/rank"
	"github.com/epic-inc/epic/driver/softswitch"
	"github.com/epic-inc/epic/golden/expect"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// options are those of a group whose timers are patient: a busy machine must not look like one that loses frames.
func options(ranks, mode int, collective string) group.Options {
	o := group.DefaultOptions()
	o.Ranks, o.Mode, o.Collective, o.Unpinned = ranks, mode, collective, true
	o.ClockMHz, o.ClocksPerTick = 1000, 10000
	o.TimeoutTicks, o.HostTimeout = 100000, 18 // 1 s, 1.07 s
	return o
}

// Timers of networks that lose frames: 100 ms and 134 ms.
const lossyTicks, lossyHost = 10000, 15

// lossy is a link that loses frames, by a seed.
type lossy struct {
	device.Link
	mu   sync.Mutex
	rng  *rand.Rand
	loss float64
	cut  atomic.Bool // all of them
	mute atomic.Bool // what ranks say of themselves

	counts bool
	data   atomic.Int64 // frames of vectors sent, if it counts
}

func (l *lossy) Send(ctx context.Context, frame []byte) error {
	l.mu.Lock()
	lost := l.loss > 0 && l.rng.Float64() < l.loss
	l.mu.Unlock()
	if l.counts {
		if pkt, bad := roce.Decode(frame); bad == nil && len(pkt.Payload) > 16 { // more than a signal
			l.data.Add(1)
		}
	}
	if lost || l.cut.Load() || l.mute.Load() && bytes.Contains(frame, []byte(`{"job":`)) {
		return nil
	}
	return l.Link.Send(ctx, frame)
}

// world is the switches of a group, and the wires to its ranks.
type world struct {
	t     testing.TB
	g     *group.Group
	ports []map[int]device.Link
	hosts []*lossy
}

// build runs the switches; programmed says whether the group's pipes are in them.
func build(t testing.TB, o group.Options, seed uint64, loss float64, programmed bool) *world {
	t.Helper()
	g, err := group.Generate(o)
	require.NoError(t, err)
	return buildOf(t, g, seed, loss, programmed)
}

func buildOf(t testing.TB, g *group.Group, seed uint64, loss float64, programmed bool) *world {
	t.Helper()
	set, err := group.NewSet(g)
	require.NoError(t, err)
	w := &world{t: t, g: g, hosts: make([]*lossy, len(g.Ranks))}
	wire := func(n uint64) (a, b *lossy) {
		x, y, err := device.Pair(9000)
		require.NoError(t, err)
		return &lossy{Link: x, rng: rand.New(rand.NewPCG(seed, 2*n)), loss: loss}, &lossy{Link: y, rng: rand.New(rand.NewPCG(seed, 2*n+1)), loss: loss}
	}
	w.ports = make([]map[int]device.Link, len(set.Switches))
	for i := range w.ports {
		w.ports[i] = map[int]device.Link{}
	}
	wires, err := set.Wires()
	require.NoError(t, err)
	for n, one := range wires {
		a, b := wire(uint64(n))
		w.ports[one.Switch][one.Port] = a
		if one.Peer.IsRank() {
			w.hosts[one.Peer.Index] = b
		} else {
			w.ports[one.Peer.Index][one.PeerPort] = b
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	for i, name := range set.Switches {
		s, err := softswitch.New(softswitch.Options{Name: name, Ports: w.ports[i]})
		require.NoError(t, err)
		if programmed {
			cfg, err := g.EngineConfig(name)
			require.NoError(t, err)
			require.NoError(t, s.Install("group", cfg))
		}
		running.Go(func() { _ = s.Run(ctx) }) // its ranks' links close before it
	}
	return w
}

// join makes the communicator of a rank.
func (w *world) join(r int, change func(*coll.Options)) (*coll.Comm, error) {
	s, err := coll.NewStatic(w.g, r)
	if err != nil {
		return nil, err
	}
	mac, ip := s.Address()
	e, err := rank.New(rank.Options{Name: fmt.Sprint(r), Link: w.hosts[r], MAC: mac, IP: ip})
	if err != nil {
		return nil, err
	}
	o := coll.Options{Endpoint: e, Rendezvous: s, Job: "test", Rank: r, Ranks: len(w.g.Ranks)}
	if change != nil {
		change(&o)
	}
	return coll.New(w.t.Context(), o)
}

// all does f at every rank at once, each with its communicator, and closes them.
func (w *world) all(change func(*coll.Options), f func(ctx context.Context, c *coll.Comm) error) []error {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	errs := make([]error, len(w.g.Ranks))
	var running sync.WaitGroup
	for r := range errs {
		c, err := w.join(r, change)
		require.NoError(w.t, err)
		running.Go(func() {
			errs[r] = f(ctx, c)
			if err := c.Close(ctx); err != nil && errs[r] == nil {
				errs[r] = fmt.Errorf("close: %w", err)
			}
		})
	}
	running.Wait()
	return errs
}

// each is the six collectives, of every root that a group of so many ranks is tried with.
func each(ranks int) []tree.Step {
	return []tree.Step{{Collective: tree.AllReduce}, {Collective: tree.Barrier}, {Collective: tree.Reduce, Root: ranks - 1}, {Collective: tree.Broadcast, Root: ranks / 2},
		{Collective: tree.ReduceScatter}, {Collective: tree.AllGather}}
}

// subgroups is all that each needs, as group.Options has it.
func subgroups(ranks int) string {
	return fmt.Sprintf("allreduce,reduce:%d,broadcast:%d,reducescatter,allgather", ranks-1, ranks/2)
}

// call makes rank r's call of a step, with memory of its own or in place.
func call(s tree.Step, r int, in [][]byte, d spec.DType, op spec.Op, inPlace bool) coll.Call {
	c := coll.Call{Collective: s.Collective, Root: s.Root, DType: d, Op: op}
	if s.Collective == tree.Barrier {
		return c
	}
	v := append([]byte(nil), in[r]...)
	from, to := coll.Part(len(v), expect.Element(d), r, len(in))
	switch s.Collective {
	case tree.AllReduce:
		c.In, c.Out = v, make([]byte, len(v))
		if inPlace {
			c.Out = c.In
		}
	case tree.Reduce:
		c.In = v
		if r == s.Root {
			if c.Out = make([]byte, len(v)); inPlace {
				c.Out = c.In
			}
		}
	case tree.Broadcast:
		c.In, c.Out = v, v
		if r != s.Root {
			c.In, c.Out = nil, make([]byte, len(v))
		}
	case tree.ReduceScatter:
		c.In, c.Out = v, make([]byte, to-from)
		if inPlace {
			c.Out = v[from:to]
		}
	case tree.AllGather:
		c.In, c.Out = v[from:to], make([]byte, len(v))
		if inPlace {
			c.Out = make([]byte, len(v))
			copy(c.Out[from:to], v[from:to])
			c.In = c.Out[from:to]
		}
	}
	return c
}

// run does steps at every rank, and compares what each has with what golden/expect says.
func (w *world) run(change func(*coll.Options), seed uint64, sizes []int, d spec.DType, op spec.Op) {
	w.t.Helper()
	ranks := len(w.g.Ranks)
	var work []struct {
		step tree.Step
		in   [][]byte
		want [][]byte
	}
	for i, bytes := range sizes {
		for k, step := range each(ranks) {
			in := expect.Vectors(seed+uint64(100*i+k), ranks, bytes, d, op)
			want, err := expect.Results(step, d, op, in)
			require.NoError(w.t, err)
			work = append(work, struct {
				step tree.Step
				in   [][]byte
				want [][]byte
			}{step, in, want})
		}
	}
	errs := w.all(change, func(ctx context.Context, c *coll.Comm) error {
		for i, one := range work {
			k := call(one.step, c.Rank(), one.in, d, op, i%2 == 1)
			if err := c.Do(ctx, k); err != nil {
				return fmt.Errorf("%v: %w", one.step, err)
			}
			if one.step.Collective == tree.Reduce && c.Rank() != one.step.Root {
				continue
			}
			if where := expect.Differs(d, k.Out, one.want[c.Rank()]); where != "" {
				return fmt.Errorf("%v of %d bytes at rank %d: %s", one.step, len(one.in), c.Rank(), where)
			}
		}
		return nil
	})
	require.NoError(w.t, errors.Join(errs...), "seed %d", seed)
}

const mtu = 1024 // U of group.DefaultOptions

// sizes of which one or another is wrong when something is: in bytes, for elements of 4.
func sizes(large int) []int { return []int{0, 4, mtu - 4, mtu, mtu + 4, 4 * 4093, large} }

// Every collective, in every mode, through one switch and through a tree, of ranks from 2 to 8.
func TestCollectives(t *testing.T) {
	large := 1 << 20
	if testing.Short() {
		large = 1 << 17
	}
	for _, mode := range []int{1, 2, 3} {
		for _, one := range []struct {
			ranks int
			tree  string
			large int
		}{{2, group.TreeSingle, large}, {3, group.TreeSingle, 0}, {4, group.TreeSingle, large}, {5, group.TreeTwoLevel, 0}, {8, group.TreeTwoLevel, 0}} {
			t.Run(fmt.Sprintf("mode%d/%d/%s", mode, one.ranks, one.tree), func(t *testing.T) {
				o := options(one.ranks, mode, subgroups(one.ranks))
				o.Tree, o.Slots = one.tree, 64
				build(t, o, 1, 0, true).run(nil, uint64(mode*1000+one.ranks), sizes(one.large), spec.DTypeInt32, spec.OpSum)
			})
		}
	}
}

// Over IPv6.
func TestIPv6(t *testing.T) {
	o := options(3, 3, subgroups(3))
	g, err := group.Generate(o)
	require.NoError(t, err)
	text, err := g.Marshal()
	require.NoError(t, err)
	text = regexp.MustCompile(`10\.(9|10)\.0\.(\d+)`).ReplaceAll(text, []byte(`"fd00:$1::$2"`))
	g, err = group.Parse("over IPv6", text)
	require.NoError(t, err)
	require.True(t, g.Ranks[2].IP.Is6())
	w := buildOf(t, g, 1, 0, true)
	w.run(nil, 6, []int{4, mtu + 4, 4 * 4093}, spec.DTypeInt32, spec.OpSum)
	w = buildOf(t, g, 1, 0, true)
	errs := w.all(nil, func(ctx context.Context, c *coll.Comm) error {
		buf := make([]byte, 4*(1+c.Rank()/2))
		return c.AllReduce(ctx, buf, buf, spec.DTypeInt32, spec.OpSum)
	})
	for _, err := range errs {
		require.ErrorContains(t, err, "but rank 2 does allreduce of 8 bytes", "the ranks ask each other over IPv6, too")
	}
}

// Links lose 1 % of their frames.
func TestLoss(t *testing.T) {
	for _, mode := range []int{1, 2, 3} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("mode%d/seed%d", mode, seed), func(t *testing.T) {
				if testing.Short() && seed > 0 {
					t.Skip("not run: one seed is enough for -short")
				}
				o := options(3, mode, subgroups(3))
				o.TimeoutTicks, o.HostTimeout, o.Slots = lossyTicks, lossyHost, 64
				build(t, o, seed, 0.01, true).run(nil, seed, []int{4, mtu + 4, 4 * 4093, 50000}, spec.DTypeFloat32, spec.OpSum)
			})
		}
	}
}

// The hosts do it alone: nothing is programmed.
func TestRing(t *testing.T) {
	for _, ranks := range []int{2, 3, 4, 8} {
		t.Run(fmt.Sprint(ranks), func(t *testing.T) {
			w := build(t, options(ranks, 3, "allreduce"), 1, 0, false)
			w.run(func(o *coll.Options) { o.Algorithm = coll.Ring }, uint64(ranks), sizes(1<<17), spec.DTypeFloat32, spec.OpSum)
		})
	}
	t.Run("loss", func(t *testing.T) {
		o := options(3, 3, "allreduce")
		o.HostTimeout = lossyHost
		w := build(t, o, 7, 0.01, false)
		w.run(func(o *coll.Options) { o.Algorithm = coll.Ring }, 7, []int{4, 4 * 4093, 50000}, spec.DTypeInt64, spec.OpMax)
	})
}

// Without loss no frame is sent twice, however far apart the ranks are: a rank that is ahead waits, and does not ask
// again and again.
func TestNothingIsSentTwice(t *testing.T) {
	const bytes, packets = 402 * mtu, 402 // 3 ranks divide it
	for _, one := range []struct {
		algorithm coll.Algorithm
		data      int // packets a rank sends
	}{{coll.Network, packets}, {coll.Ring, 2 * 2 * packets / 3}} {
		t.Run(coll.Algorithms()[one.algorithm], func(t *testing.T) {
			t.Parallel()
			o := options(3, 3, "allreduce")
			o.HostTimeout, o.TimeoutTicks, o.Slots = 22, 1<<20-1, 64
			w := build(t, o, 1, 0, true)
			for _, l := range w.hosts {
				l.counts = true
			}
			errs := w.all(func(o *coll.Options) { o.Algorithm = one.algorithm }, func(ctx context.Context, c *coll.Comm) error {
				time.Sleep(time.Duration(c.Rank()) * 300 * time.Millisecond)
				buf := make([]byte, bytes)
				return c.AllReduce(ctx, buf, buf, spec.DTypeInt32, spec.OpSum)
			})
			require.NoError(t, errors.Join(errs...))
			for r, l := range w.hosts {
				assert.EqualValues(t, one.data, l.data.Load(), "rank %d", r)
			}
		})
	}
}

// Every type and operator, through the network and round the ring.
func TestTypes(t *testing.T) {
	for _, a := range []coll.Algorithm{coll.Network, coll.Ring} {
		w := build(t, options(3, 3, subgroups(3)), 1, 0, true)
		type pair struct {
			d  spec.DType
			op spec.Op
		}
		var pairs []pair
		in, want := map[pair][][]byte{}, map[pair][]byte{}
		for d := spec.DType(0); d.Valid(); d++ {
			for op := spec.Op(0); op.Valid(); op++ {
				p := pair{d, op}
				v := expect.Vectors(uint64(d)<<8+uint64(op), 3, 3000*8, d, op)
				sum, err := expect.Reduce(d, op, v)
				if err != nil {
					continue // bitwise of floating point
				}
				pairs, in[p], want[p] = append(pairs, p), v, sum
			}
		}
		require.Len(t, pairs, 4*6+3*3)
		errs := w.all(func(o *coll.Options) { o.Algorithm = a }, func(ctx context.Context, c *coll.Comm) error {
			for _, p := range pairs {
				got := append([]byte(nil), in[p][c.Rank()]...)
				if err := c.AllReduce(ctx, got, got, p.d, p.op); err != nil {
					return fmt.Errorf("%v of %v: %w", p.op, p.d, err)
				}
				if where := expect.Differs(p.d, got, want[p]); where != "" {
					return fmt.Errorf("%v of %v: %s", p.op, p.d, where)
				}
			}
			return nil
		})
		require.NoError(t, errors.Join(errs...))
	}
}

// What the network does not carry the hosts do, and it is said why.
func TestFallback(t *testing.T) {
	pinned := options(3, 3, "allreduce")
	pinned.Unpinned = false // int32, sum
	w := build(t, pinned, 1, 0, true)
	in := expect.Vectors(1, 3, 4000, spec.DTypeFloat32, spec.OpSum)
	sum, err := expect.Reduce(spec.DTypeFloat32, spec.OpSum, in)
	require.NoError(t, err)
	var mu sync.Mutex
	notices := map[string]int{}
	errs := w.all(func(o *coll.Options) {
		o.Notice = func(s string) { mu.Lock(); notices[s]++; mu.Unlock() }
	}, func(ctx context.Context, c *coll.Comm) error {
		for range 2 {
			got := append([]byte(nil), in[c.Rank()]...)
			if err := c.AllReduce(ctx, got, got, spec.DTypeFloat32, spec.OpSum); err != nil {
				return err
			}
			if where := expect.Differs(spec.DTypeFloat32, got, sum); where != "" {
				return errors.New(where)
			}
			buf := append([]byte(nil), in[1]...)
			if c.Rank() != 1 {
				clear(buf)
			}
			if err := c.Broadcast(ctx, buf, 1); err != nil {
				return err
			}
			if where := expect.Differs(spec.DTypeFloat32, buf, in[1]); where != "" {
				return errors.New(where)
			}
		}
		return nil
	})
	require.NoError(t, errors.Join(errs...))
	require.Len(t, notices, 2)
	for text, n := range notices {
		assert.Equal(t, 3, n, "once at each rank: %s", text)
	}
	assert.Contains(t, notices, "allreduce is done by the hosts, as a ring: the network does not carry it: its pipes are pinned to sum of int32, want sum of float32")
	assert.Contains(t, notices, "broadcast is done by the hosts, as a ring: the network does not carry it: group file: no subgroup for broadcast:1, the group has those of allreduce")

	w = build(t, pinned, 1, 0, true)
	errs = w.all(func(o *coll.Options) { o.Algorithm = coll.Network }, func(ctx context.Context, c *coll.Comm) error {
		return c.Broadcast(ctx, make([]byte, 8), 1)
	})
	for _, err := range errs {
		assert.ErrorContains(t, err, "no subgroup for broadcast:1")
	}
}

// Several collectives are begun before any is waited for.
func TestAsynchronous(t *testing.T) {
	w := build(t, options(3, 3, subgroups(3)), 1, 0, true)
	errs := w.all(nil, func(ctx context.Context, c *coll.Comm) error {
		const n = 20
		var requests []*coll.Request
		var calls []coll.Call
		want := make([][]byte, n)
		for i := range n {
			in := expect.Vectors(uint64(i), 3, 400*i, spec.DTypeInt32, spec.OpSum)
			step := each(3)[i%6]
			all, err := expect.Results(step, spec.DTypeInt32, spec.OpSum, in)
			if err != nil {
				return err
			}
			if want[i] = all[c.Rank()]; step.Collective == tree.Broadcast {
				want[i] = in[step.Root]
			}
			k := call(step, c.Rank(), in, spec.DTypeInt32, spec.OpSum, false)
			r, err := c.Start(ctx, k)
			if err != nil {
				return err
			}
			requests, calls = append(requests, r), append(calls, k)
		}
		for i := range requests {
			i := n - 1 - i
			if err := requests[i].Wait(ctx); err != nil {
				return err
			}
			if where := expect.Differs(spec.DTypeInt32, calls[i].Out, want[i]); where != "" {
				return fmt.Errorf("collective %d: %s", i, where)
			}
		}
		return nil
	})
	require.NoError(t, errors.Join(errs...))
}

// The ranks disagree: every rank's error names the one that is wrong, soon.
func TestDisagreement(t *testing.T) {
	right := coll.Call{Collective: tree.AllReduce, DType: spec.DTypeInt32, Op: spec.OpSum, In: make([]byte, 8192), Out: make([]byte, 8192)}
	with := func(change func(*coll.Call)) coll.Call {
		c := right
		c.In, c.Out = make([]byte, 8192), make([]byte, 8192)
		change(&c)
		return c
	}
	for _, mode := range []int{1, 2, 3} {
		for name, one := range map[string]struct {
			call coll.Call
			want string
		}{
			"count":      {with(func(c *coll.Call) { c.In, c.Out = c.In[:4096], c.Out[:4096] }), "rank 1 does allreduce of 4096 bytes of int32, sum"},
			"type":       {with(func(c *coll.Call) { c.DType = spec.DTypeFloat32 }), "rank 1 does allreduce of 8192 bytes of float32, sum"},
			"operator":   {with(func(c *coll.Call) { c.Op = spec.OpMax }), "rank 1 does allreduce of 8192 bytes of int32, max"},
			"collective": {coll.Call{Collective: tree.Barrier}, "rank 1 does barrier"},
			"root":       {with(func(c *coll.Call) { c.Collective, c.Root = tree.Reduce, 1 }), "rank 1 does reduce of 8192 bytes of int32, sum, root 1"},
		} {
			t.Run(fmt.Sprintf("mode%d/%s", mode, name), func(t *testing.T) {
				t.Parallel()
				w := build(t, options(3, mode, subgroups(3)+",reduce:1"), 1, 0, true)
				start := time.Now()
				errs := w.all(nil, func(ctx context.Context, c *coll.Comm) error {
					k := with(func(*coll.Call) {})
					if c.Rank() == 1 {
						k = one.call
					}
					err := c.Do(ctx, k)
					if next := c.Barrier(ctx); err != nil && !errors.Is(next, err) {
						return fmt.Errorf("after a failure: got %w, want the same", next)
					}
					return err
				})
				for r, err := range errs {
					var f *coll.Failure
					require.ErrorAs(t, err, &f, "rank %d", r)
					assert.Contains(t, err.Error(), one.want, "rank %d", r)
				}
				assert.Less(t, time.Since(start), 15*time.Second)
			})
		}
	}
}

// The connections break before it is known why: the ranks wait for the reason. If a rank never says what it does, the
// error is that of the connection, and names the rank.
func TestReasonComesLate(t *testing.T) {
	for name, one := range map[string]struct {
		after time.Duration
		want  string
	}{
		"late":  {3 * time.Second, "rank 1 does allreduce of 4096 bytes of int32, sum"},
		"never": {time.Hour, "rank 1 does not answer"},
	} {
		for _, mode := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/mode%d", name, mode), func(t *testing.T) {
				t.Parallel()
				w := build(t, options(3, mode, "allreduce"), 1, 0, true)
				start := time.Now()
				errs := w.all(nil, func(ctx context.Context, c *coll.Comm) error {
					buf := make([]byte, 8192)
					if err := c.Barrier(ctx); err != nil {
						return err
					}
					if c.Rank() == 1 {
						buf = buf[:4096]
						w.hosts[1].mute.Store(true)
						time.AfterFunc(one.after, func() { w.hosts[1].mute.Store(false) })
					}
					return c.AllReduce(ctx, buf, buf, spec.DTypeInt32, spec.OpSum)
				})
				for _, r := range []int{0, 2} {
					var f *coll.Failure
					require.ErrorAs(t, errs[r], &f, "rank %d", r)
					assert.Contains(t, f.Reason, one.want, "rank %d", r)
					assert.Equal(t, []int{1}, f.Ranks, "rank %d", r)
				}
				assert.ErrorContains(t, errs[1], "rank 1 does allreduce of 4096 bytes", "it hears the others")
				assert.Less(t, time.Since(start), 20*time.Second)
			})
		}
	}
}

// A rank dies in the middle: no word from it any more.
func TestKilled(t *testing.T) {
	for _, a := range []coll.Algorithm{coll.Network, coll.Ring} {
		t.Run(coll.Algorithms()[a], func(t *testing.T) {
			t.Parallel()
			w := build(t, options(3, 3, "allreduce"), 1, 0, true)
			start := time.Now()
			errs := w.all(func(o *coll.Options) { o.Algorithm = a }, func(ctx context.Context, c *coll.Comm) error {
				buf := make([]byte, 1000)
				for i := 0; ; i++ {
					if i == 5 && c.Rank() == 2 {
						w.hosts[2].cut.Store(true)
						return c.Err()
					}
					if err := c.AllReduce(ctx, buf, buf, spec.DTypeInt32, spec.OpSum); err != nil {
						return err
					}
				}
			})
			for r, err := range errs[:2] {
				var f *coll.Failure
				require.ErrorAs(t, err, &f, "rank %d", r)
				assert.Equal(t, []int{2}, f.Ranks, "rank %d: %v", r, err)
				assert.Contains(t, err.Error(), "rank 2")
			}
			assert.Less(t, time.Since(start), 30*time.Second)
		})
	}
}

// A rank never starts, or does not come to the collective.
func TestMissingAndLate(t *testing.T) {
	for name, want := range map[string]string{"missing": "rank 2 was never heard of", "late": "rank 2 has not come to it"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := build(t, options(3, 3, "allreduce"), 1, 0, true)
			if name == "missing" {
				w.hosts[2].cut.Store(true)
			}
			errs := w.all(func(o *coll.Options) { o.Patience = 6 * time.Second }, func(ctx context.Context, c *coll.Comm) error {
				if c.Rank() == 2 {
					time.Sleep(8 * time.Second)
					return c.Err()
				}
				return c.Barrier(ctx)
			})
			for r, err := range errs[:2] {
				require.Error(t, err, "rank %d", r)
				assert.Contains(t, err.Error(), want, "rank %d", r)
			}
			if name == "late" {
				assert.ErrorContains(t, errs[2], "rank 2 has not come to it", "it is told")
			}
		})
	}
}

// A rank is started again within the job.
func TestRestarted(t *testing.T) {
	w := build(t, options(3, 3, "allreduce"), 1, 0, true)
	errs := w.all(nil, func(ctx context.Context, c *coll.Comm) error {
		buf := make([]byte, 1000)
		if err := c.AllReduce(ctx, buf, buf, spec.DTypeInt32, spec.OpSum); err != nil {
			return err
		}
		if c.Rank() == 2 {
			again, err := w.join(2, nil)
			if err != nil {
				return err
			}
			defer again.Close(ctx)
			return again.AllReduce(ctx, buf, buf, spec.DTypeInt32, spec.OpSum)
		}
		return c.AllReduce(ctx, buf, buf, spec.DTypeInt32, spec.OpSum)
	})
	for r, err := range errs {
		require.Error(t, err, "rank %d", r)
		assert.Regexp(t, "rank 2 (has been started again|is there twice)", err.Error(), "rank %d", r)
	}
}

// A context ends a collective here, and everywhere else by name.
func TestCancelled(t *testing.T) {
	w := build(t, options(3, 3, "allreduce"), 1, 0, true)
	errs := w.all(nil, func(ctx context.Context, c *coll.Comm) error {
		switch c.Rank() {
		case 1:
			short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			return c.Barrier(short)
		case 2:
			time.Sleep(500 * time.Millisecond)
		}
		return c.Barrier(ctx)
	})
	require.ErrorIs(t, errs[1], context.DeadlineExceeded)
	for _, r := range []int{0, 2} {
		require.ErrorContains(t, errs[r], "rank 1 has given up: context deadline exceeded")
	}
}

func TestCallErrors(t *testing.T) {
	w := build(t, options(3, 3, "allreduce"), 1, 0, true)
	eight, nine := make([]byte, 8), make([]byte, 9)
	errs := w.all(nil, func(ctx context.Context, c *coll.Comm) error {
		for want, k := range map[string]coll.Call{
			"got 9 bytes, want whole elements of int32, 4 bytes each": {In: nine, Out: nine},
			"got 8 bytes in and 9 out, want 8 and 8":                  {In: eight, Out: nine},
			"is not defined: bitwise operators are for integers":      {In: eight, Out: eight, DType: spec.DTypeFloat32, Op: spec.OpXor},
			"got root 3, want 0..2":                                   {Collective: tree.Reduce, Root: 3, In: eight, Out: eight},
			"0 of others":                                             {Root: 1, In: eight, Out: eight},
			"got collective 9":                                        {Collective: 9},
			"in and out overlap":                                      {In: nine[:4], Out: nine[1:5]},
		} {
			if err := c.Do(ctx, k); err == nil {
				return fmt.Errorf("got no error, want %q", want)
			} else if !assert.ErrorContains(t, err, want) {
				return err
			}
		}
		return c.Barrier(ctx) // it is as before
	})
	require.NoError(t, errors.Join(errs...))
}
