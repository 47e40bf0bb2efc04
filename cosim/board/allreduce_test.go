package board_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"

	"github.com/epic-inc/epic/cosim/board"
	driver "github.com/epic-inc/epic/driver/board"
	"github.com/epic-inc/epic/driver/coll"
	"github.com/epic-inc/epic/driver/device"
	ethernet "github.com/epic-inc/epic/driver/device/raw"
	"github.com/epic-inc/epic/driver/job"
	"github.com/epic-inc/epic/driver/stream"
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

// wired is a board with a cable at each port, and the hosts' ends of those.
func wired(t *testing.T) (*board.Board, []string) {
	boardEnds, hostEnds := cables(t, board.Ports)
	var args []string
	for _, name := range boardEnds {
		args = append(args, "--ethernet", name)
	}
	return start(t, args...), hostEnds
}

// What is not the engine's goes from host to host, whole and unchanged: to all while nobody knows where its destination
// is, then to that port alone.
func TestBridge(t *testing.T) {
	_, ends := wired(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var links []device.Link
	for _, end := range ends {
		l, err := ethernet.Open(ethernet.Options{Interface: end})
		require.NoError(t, err)
		defer l.Close()
		links = append(links, l)
	}
	// A frame from one host to another, of an EtherType for experiments, with its number.
	mac := func(host int) []byte { return []byte{2, 0, 0, 0, 7, byte(host)} }
	everybody := []byte{255, 255, 255, 255, 255, 255}
	frame := func(to []byte, from, number, length int) []byte {
		f := append(append(append([]byte{}, to...), mac(from)...), 0x88, 0xb5, byte(number))
		for len(f) < length {
			f = append(f, byte(len(f)*7+number))
		}
		return f
	}
	// next is the next such frame that a host gets: the kernel sends frames of its own.
	next := func(host int) []byte {
		for {
			f, err := links[host].Receive(ctx)
			if !assert.NoError(t, err) {
				t.FailNow()
			}
			if f[12] == 0x88 && f[13] == 0xb5 {
				return f
			}
		}
	}
	number := 0
	for _, step := range []struct {
		to       []byte
		from     int
		length   int
		receives []int
	}{
		{mac(2), 0, 60, []int{1, 2, 3}},      // nobody knows 2
		{mac(0), 2, 61, []int{0}},            // 0 was seen
		{mac(2), 0, 1514, []int{2}},          // and 2 by now
		{everybody, 1, 67, []int{0, 2, 3}},   // group addresses go to all
		{mac(1), 3, 64, []int{1}},            // 1 was seen in the one to all
		{mac(3), 1, 71, []int{3}},            //
		{mac(0), 0, 100, nil},                // to itself: nowhere
		{everybody, 2, 1000, []int{0, 1, 3}}, // each host's next, so that it had none of the others
		{everybody, 0, 1000, []int{1, 2, 3}},
	} {
		number++
		f := frame(step.to, step.from, number, step.length)
		require.NoError(t, links[step.from].Send(ctx, f))
		for _, host := range step.receives {
			assert.Equal(t, f, next(host), "frame %d at host %d", number, host)
		}
	}
}

// Four ranks on raw Ethernet add their vectors through the virtual board, whose tables are written by its serial line
// from the group file that the ranks have. EPIC_BOARD_KIB is the size of the vector, 64 if it is not set.
func TestAllReduce(t *testing.T) {
	for _, mode := range []int{3, 2} {
		t.Run(fmt.Sprint("mode ", mode), func(t *testing.T) { allReduce(t, mode) })
	}
}

func allReduce(t *testing.T, mode int) {
	const ranks = board.Ports
	kib := 64
	if text := os.Getenv("EPIC_BOARD_KIB"); text != "" {
		var err error
		kib, err = strconv.Atoi(text)
		require.NoError(t, err, "EPIC_BOARD_KIB")
		require.Positive(t, kib, "EPIC_BOARD_KIB")
	}
	elements := kib << 10 / 4
	b, hostEnds := wired(t)

	o := group.DefaultOptions()
	o.Mode, o.Slots, o.Op, o.DType = mode, 32, spec.OpSum, spec.DTypeInt32
	o.HostTimeout = 18 // a second: the board's time is slower than the hosts'
	g, err := group.Generate(o)
	require.NoError(t, err)
	text, err := g.Marshal()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "group.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o644))
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	began := time.Now()
	programmed, err := driver.Program(ctx, driver.ProgramOptions{Where: driver.Where{Port: b.Path}, File: file})
	require.NoError(t, err)
	t.Logf("tables written in %v: %+v", time.Since(began), *programmed)

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
	counts, err := driver.Counters(t.Context(), driver.Where{Port: b.Path})
	require.NoError(t, err)
	require.Len(t, counts, int(spec.CounterCount))
	value := map[string]uint64{}
	for _, c := range counts {
		value[c.Name] = c.Value
	}
	packets := uint64(kib<<10/o.MTU) * ranks
	results := map[int]spec.Counter{2: spec.CounterTxForward, 3: spec.CounterTxData}[mode]
	assert.GreaterOrEqual(t, value[results.String()], packets, "every rank was sent every result")
	assert.GreaterOrEqual(t, value[spec.VerdictOk.Counter().String()], packets, "and contributed to each")
}

// Frames that are not the engine's are played through the board from host to host, and each is recognised.
func TestStream(t *testing.T) {
	b, ends := wired(t)
	frames, err := stream.Load{Payload: 256, Flows: 2, Frames: 100, Seed: 1}.Make()
	require.NoError(t, err)
	r, err := stream.Run(t.Context(), stream.Options{Send: ends[0], Receive: ends[1], Frames: frames, Total: 300, Rate: 200, Linger: 5 * time.Second})
	require.NoError(t, err)
	assert.NoError(t, r.Err())
	assert.EqualValues(t, 300, r.Received)
	counts, err := driver.Counters(t.Context(), driver.Where{Port: b.Path})
	require.NoError(t, err)
	for _, c := range counts {
		if c.Name == spec.VerdictNoEndpoint.Counter().String() {
			assert.EqualValues(t, 300, c.Value, "the engine says that it is not their endpoint")
		}
	}
}
