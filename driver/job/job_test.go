package job_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/coll"
	"github.com/epic-inc/epic/driver/control"
	"github.com/epic-inc/epic/driver/control/target"
	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/device/datagram"
	"github.com/epic-inc/epic/driver/job"
	"github.com/epic-inc/epic/driver/softswitch"
	"github.com/epic-inc/epic/golden/expect"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

const ranks = 3

func free(t *testing.T) netip.AddrPort {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort()
}

// world is a switch whose ports are UDP sockets, programmed from a file.
type world struct {
	dir, file string
	links     []string // of the ranks
}

func build(t *testing.T) *world {
	t.Helper()
	o := group.DefaultOptions()
	o.Ranks, o.Unpinned, o.Collective = ranks, true, "allreduce,reduce:1,broadcast:2,reducescatter,allgather"
	o.ClockMHz, o.ClocksPerTick, o.TimeoutTicks, o.HostTimeout = 1000, 10000, 100000, 18
	g, err := group.Generate(o)
	require.NoError(t, err)
	text, err := g.Marshal()
	require.NoError(t, err)
	w := &world{dir: t.TempDir()}
	w.file = filepath.Join(w.dir, "group.yaml")
	require.NoError(t, os.WriteFile(w.file, text, 0o644))
	ports := map[int]device.Link{}
	for r := range ranks {
		a, b := free(t), free(t)
		ports[r], err = datagram.Open(datagram.Options{Local: a, Remote: b})
		require.NoError(t, err)
		w.links = append(w.links, fmt.Sprintf("datagram:%v,%v", b, a))
	}
	s, err := softswitch.New(softswitch.Options{Name: g.Switches[0].Name, Ports: ports})
	require.NoError(t, err)
	cfg, err := g.EngineConfig(g.Switches[0].Name)
	require.NoError(t, err)
	require.NoError(t, s.Install("group", cfg))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return w
}

func (w *world) path(what string, r int) string { return filepath.Join(w.dir, fmt.Sprint(what, r)) }

// run is every rank's job at once.
func (w *world) run(ctx context.Context, o job.Options, change func(r int, o *job.Options)) ([]*job.Report, []error) {
	reports, errs := make([]*job.Report, ranks), make([]error, ranks)
	var running sync.WaitGroup
	for r := range ranks {
		running.Go(func() {
			mine := o
			mine.Rank, mine.Group, mine.Link = r, w.file, w.links[r]
			change(r, &mine)
			reports[r], errs[r] = job.Run(ctx, mine)
		})
	}
	running.Wait()
	return reports, errs
}

func TestSixCollectives(t *testing.T) {
	const bytesEach = 4 * 5003
	in := expect.Vectors(1, ranks, bytesEach, spec.DTypeFloat32, spec.OpSum)
	for _, step := range []tree.Step{{Collective: tree.AllReduce}, {Collective: tree.Reduce, Root: 1}, {Collective: tree.Broadcast, Root: 2},
		{Collective: tree.ReduceScatter}, {Collective: tree.AllGather}, {Collective: tree.Barrier}} {
		t.Run(step.Collective.String(), func(t *testing.T) {
			t.Parallel()
			w := build(t)
			want, err := expect.Results(step, spec.DTypeFloat32, spec.OpSum, in)
			require.NoError(t, err)
			reports, errs := w.run(t.Context(), job.Options{Collective: step.Collective, Root: step.Root, DType: spec.DTypeFloat32}, func(r int, o *job.Options) {
				v := in[r]
				switch step.Collective {
				case tree.Barrier:
					return
				case tree.AllGather:
					from, to := coll.Part(len(v), 4, r, ranks)
					v, o.Bytes = v[from:to], bytesEach
				}
				o.Out = w.path("out", r)
				if step.Collective == tree.Broadcast && r != step.Root {
					o.Bytes = bytesEach
					return
				}
				o.In = w.path("in", r)
				assert.NoError(t, os.WriteFile(o.In, v, 0o644))
				if step.Collective == tree.AllReduce {
					o.Out = o.In // in place
				}
			})
			require.NoError(t, errors.Join(errs...))
			for r, report := range reports {
				assert.Equal(t, "network", report.By)
				assert.Equal(t, r, report.Rank)
				var text bytes.Buffer
				require.NoError(t, report.WriteText(&text))
				assert.Contains(t, text.String(), fmt.Sprintf("rank %d of 3: %v", r, step.Collective))
				if step.Collective == tree.Barrier || step.Collective == tree.Reduce && r != step.Root {
					assert.NoFileExists(t, w.path("out", r))
					continue
				}
				got, err := os.ReadFile(report.Out)
				require.NoError(t, err)
				require.Empty(t, expect.Differs(spec.DTypeFloat32, got, want[r]), "rank %d", r)
			}
			left, err := filepath.Glob(filepath.Join(w.dir, "*.part-*"))
			require.NoError(t, err)
			assert.Empty(t, left)
		})
	}
}

// A wrong count at one rank: no rank writes anything, and all name it.
func TestDisagreement(t *testing.T) {
	w := build(t)
	_, errs := w.run(t.Context(), job.Options{DType: spec.DTypeInt32}, func(r int, o *job.Options) {
		o.In, o.Out = w.path("in", r), w.path("out", r)
		n := 4000
		if r == 1 {
			n = 2000
		}
		assert.NoError(t, os.WriteFile(o.In, make([]byte, n), 0o644))
	})
	for r, err := range errs {
		var f *coll.Failure
		require.ErrorAs(t, err, &f)
		assert.Contains(t, err.Error(), "rank 1 does allreduce of 2000 bytes of int32, sum")
		assert.NoFileExists(t, w.path("out", r))
	}
}

// Ctrl-C ends a rank soon, and the others by name.
func TestInterrupted(t *testing.T) {
	w := build(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(3*time.Second, cancel) // when both are there and wait, on a busy machine too
	start := time.Now()
	patient := context.Background()
	errs := make([]error, 2)
	var running sync.WaitGroup
	for r, ctx := range []context.Context{ctx, patient} {
		running.Go(func() {
			_, errs[r] = job.Run(ctx, job.Options{Collective: tree.Barrier, Rank: r, Group: w.file, Link: w.links[r]})
		})
	}
	running.Wait()
	require.ErrorIs(t, errs[0], context.Canceled)
	require.ErrorContains(t, errs[1], "rank 0 has given up: context canceled")
	assert.Less(t, time.Since(start), 15*time.Second)
}

// The control plane in place of a file, twice with the same switch: a group that is made again begins where its queue
// pairs have not been.
func TestControlPlane(t *testing.T) {
	n, err := control.ParseNetwork("network.yaml", []byte(`
version: 1
window_packets: 16
message_packets: 4
switches:
  - {name: root, mac: "52:54:00:01:00:01", ip: 10.10.0.1}
`))
	require.NoError(t, err)
	ports := map[int]device.Link{}
	var links []string
	for r := range ranks {
		a, b := free(t), free(t)
		ports[r], err = datagram.Open(datagram.Options{Local: a, Remote: b})
		require.NoError(t, err)
		links = append(links, fmt.Sprintf("datagram:%v,%v", b, a))
	}
	s, err := softswitch.New(softswitch.Options{Name: "root", Ports: ports})
	require.NoError(t, err)
	store, err := control.OpenStore(filepath.Join(t.TempDir(), "control.db"))
	require.NoError(t, err)
	server, err := control.Open(control.Options{Network: n, Switches: map[string]target.Switch{"root": s.Target(1, 2, 3)}, Store: store})
	require.NoError(t, err)
	at, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	running.Go(func() { assert.NoError(t, server.Serve(ctx, at)) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		assert.NoError(t, errors.Join(server.Close(), store.Close()))
	})

	dir := t.TempDir()
	for round := range 2 {
		in := expect.Vectors(uint64(round), ranks, 4*5003, spec.DTypeInt32, spec.OpMax)
		want, err := expect.Reduce(spec.DTypeInt32, spec.OpMax, in)
		require.NoError(t, err)
		errs := make([]error, ranks)
		var all sync.WaitGroup
		for r := range ranks {
			o := job.Options{Control: at.Addr().String(), Name: "train", Rank: r, Ranks: ranks, Link: links[r], Switch: "root", Port: r,
				MAC: fmt.Sprintf("52:54:00:00:00:%02x", r+1), IP: fmt.Sprintf("10.9.0.%d", r+1), Mode: 2 + round, DType: spec.DTypeInt32, Op: spec.OpMax,
				In: filepath.Join(dir, fmt.Sprint("in", r)), Out: filepath.Join(dir, fmt.Sprint("out", r)), Algorithm: coll.Network}
			require.NoError(t, os.WriteFile(o.In, in[r], 0o644))
			all.Go(func() { _, errs[r] = job.Run(t.Context(), o) })
		}
		all.Wait()
		require.NoError(t, errors.Join(errs...), "round %d", round)
		for r := range ranks {
			got, err := os.ReadFile(filepath.Join(dir, fmt.Sprint("out", r)))
			require.NoError(t, err)
			require.Empty(t, expect.Differs(spec.DTypeInt32, got, want), "rank %d", r)
		}
	}
}

func TestBadInput(t *testing.T) {
	w := build(t)
	vector := w.path("in", 0)
	require.NoError(t, os.WriteFile(vector, make([]byte, 10), 0o644))
	right := job.Options{Group: w.file, Link: w.links[0], In: vector, Out: w.path("out", 0)}
	for want, change := range map[string]func(*job.Options){
		"want one of --group FILE and --control HOST:PORT":          func(o *job.Options) { o.Group = "" },
		"rank: got 3, want 0..2, as the group has 3 ranks":          func(o *job.Options) { o.Rank = 3 },
		"ranks: got 4, want 3 as the file has them":                 func(o *job.Options) { o.Ranks = 4 },
		"got 10 bytes, want whole elements of int32, 4 bytes each":  func(*job.Options) {},
		"allreduce: got no vector of rank 0, want --in FILE":        func(o *job.Options) { o.In = "" },
		"--in: open " + w.path("none", 1):                           func(o *job.Options) { o.In = w.path("none", 1) },
		"there is no directory":                                     func(o *job.Options) { o.Out = w.path("none", 1) + "/x" },
		"is a directory, want a file":                               func(o *job.Options) { o.Out = w.dir },
		"--root: got 3, want 0..2":                                  func(o *job.Options) { o.Collective, o.Root = tree.Reduce, 3 },
		"broadcast: got no size at rank 0, want --bytes N":          func(o *job.Options) { o.Collective, o.Root, o.In = tree.Broadcast, 1, "" },
		"want none: it gives nothing":                               func(o *job.Options) { o.Collective, o.Root = tree.Broadcast, 1 },
		"rank 0's part of 100 bytes":                                func(o *job.Options) { o.Collective, o.Bytes, o.DType = tree.AllGather, 100, spec.DTypeInt8 },
		`link: got "carrier pigeon", want raw:INTERFACE`:            func(o *job.Options) { o.Link, o.DType = "carrier pigeon", spec.DTypeInt8 },
		`link: got "datagram:here", want raw:INTERFACE`:             func(o *job.Options) { o.Link, o.DType = "datagram:here", spec.DTypeInt8 },
		`link: raw link none0: interface "none0"`:                   func(o *job.Options) { o.Link, o.DType = "raw:none0", spec.DTypeInt8 },
		"are for the control plane":                                 func(o *job.Options) { o.IP = "10.0.0.1" },
		"want --rank 0..R-1 and --ranks R":                          func(o *job.Options) { o.Group, o.Control = "", "127.0.0.1:1" },
		"job: got no name, want --job NAME":                         func(o *job.Options) { o.Group, o.Control, o.Ranks = "", "127.0.0.1:1", 3 },
		"only a link raw:INTERFACE without a namespace has its own": func(o *job.Options) { o.Group, o.Control, o.Ranks, o.Name = "", "127.0.0.1:1", 3, "x" },
		`--mac: got "x", want six bytes as 52:54:00:00:00:01`: func(o *job.Options) {
			o.Group, o.Control, o.Ranks, o.Name, o.MAC, o.IP = "", "127.0.0.1:1", 3, "x", "x", "10.9.0.1"
		},
		`--ip: got "x", want an address`: func(o *job.Options) {
			o.Group, o.Control, o.Ranks, o.Name, o.MAC, o.IP = "", "127.0.0.1:1", 3, "x", "52:54:00:00:00:01", "x"
		},
	} {
		t.Run(want, func(t *testing.T) {
			o := right
			change(&o)
			_, err := job.Run(t.Context(), o)
			require.ErrorContains(t, err, want)
			assert.NoFileExists(t, w.path("out", 0))
		})
	}
}
