package interop

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/coll"
	"github.com/epic-inc/epic/driver/control/proxy"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
	"github.com/epic-inc/epic/interop/guest"
)

// The collectives of a job, as the guests' program has them and as driver/coll has; their order and their types are
// the same. What epic_rank has not, ReduceScatter and AllGather, are Reduces and Broadcasts to it, of each rank in turn.
const joinedSteps = "allreduce/int32,barrier/int32,broadcast:1/int8,reduce:0/int32,allreduce/float32"

const joinedElements = 5000

// vector of a rank: element i is (i mod 1000) (rank + 1), whose sums are exact in float32 too.
func joinedVector(r int, d spec.DType) []byte {
	var v []byte
	for i := range joinedElements {
		n := uint32(i % 1000 * (r + 1))
		if d == spec.DTypeFloat32 {
			n = math.Float32bits(float32(n))
		}
		v = binary.LittleEndian.AppendUint32(v, n)
	}
	return v
}

// joinedSum is the sum of all ranks' vectors: 1 + 2 + 3 + 4 times rank 0's.
func joinedSum(d spec.DType) []byte { return joinedVector(9, d) }

// communicate does the same collectives with driver/coll.
func communicate(ctx context.Context, c *coll.Comm) error {
	r := c.Rank()
	ints, floats := joinedVector(r, spec.DTypeInt32), joinedVector(r, spec.DTypeFloat32)
	out := func() []byte { return make([]byte, 4*joinedElements) }
	calls := []coll.Call{
		{Collective: tree.AllReduce, In: ints, Out: out(), DType: spec.DTypeInt32, Op: spec.OpSum},
		{Collective: tree.Barrier},
		{Collective: tree.Broadcast, Out: out(), Root: 1, DType: spec.DTypeInt8},
		{Collective: tree.Reduce, In: ints, DType: spec.DTypeInt32, Op: spec.OpSum},
		{Collective: tree.AllReduce, In: floats, Out: out(), DType: spec.DTypeFloat32, Op: spec.OpSum},
	}
	// All are begun before one is waited for, since the guests ask for all their subgroups at first.
	var requests []*coll.Request
	for _, call := range calls {
		q, err := c.Start(ctx, call)
		if err != nil {
			return err
		}
		requests = append(requests, q)
	}
	for _, q := range requests {
		if err := q.Wait(ctx); err != nil {
			return err
		}
	}
	for i, want := range map[int][]byte{0: joinedSum(spec.DTypeInt32), 2: joinedVector(1, spec.DTypeInt32), 4: joinedSum(spec.DTypeFloat32)} {
		if err := same(want, calls[i].Out); err != nil {
			return fmt.Errorf("%w: rank %d: %v: %w", ErrWrong, r, calls[i].Collective, err)
		}
	}
	return nil
}

// joinedRun is a job of the two guests and two ranks of driver/coll. inputs change the guests' vectors; begun is called
// when a guest's queue pairs are in RTS. It returns the guests' errors, then the others'.
func joinedRun(ctx context.Context, t *testing.T, j *joined, w wish, inputs func(r int, in [][]byte), begun func([]*joiner)) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	errs := make([]error, joinedRanks)
	var guests []*joiner
	for r := range joinedGuests {
		in := [][]byte{joinedVector(r, spec.DTypeInt32), nil, joinedVector(r, spec.DTypeInt32), joinedVector(r, spec.DTypeInt32), joinedVector(r, spec.DTypeFloat32)}
		if inputs != nil {
			inputs(r, in)
		}
		k, err := j.join(ctx, w, r, joinedSteps, in)
		require.NoError(t, err)
		defer func() { require.NoError(t, k.job.Remove()) }()
		guests = append(guests, k)
	}
	done := make(chan int)
	for r := joinedGuests; r < joinedRanks; r++ {
		go func() {
			defer func() { done <- r }()
			c, client, err := j.communicator(ctx, w, r)
			if err != nil {
				errs[r] = err
				return
			}
			errs[r] = communicate(ctx, c)
			if err := c.Close(ctx); errs[r] == nil {
				errs[r] = err
			}
			if err := client.Close(); errs[r] == nil {
				errs[r] = err
			}
		}()
	}
	if begun != nil {
		folder := proxy.Folder(guests[0].job.Folder())
		require.NoError(t, folder.Await(ctx, proxy.Ready))
		begun(guests)
	}
	for r, k := range guests {
		var result guest.Result
		result, errs[r] = k.wait(ctx)
		if errs[r] == nil {
			errs[r] = checkStates(r, result.Stdout, 3)
		}
		for i, want := range map[int][]byte{0: joinedSum(spec.DTypeInt32), 3: joinedSum(spec.DTypeInt32), 4: joinedSum(spec.DTypeFloat32), 2: joinedVector(1, spec.DTypeInt32)} {
			if errs[r] != nil || i == 3 && r != 0 || i == 2 && r == 1 {
				continue
			}
			got, err := os.ReadFile(filepath.Join(k.job.Folder(), fmt.Sprintf("out.%d", i)))
			if err == nil {
				err = same(want, got)
			}
			if err != nil {
				errs[r] = fmt.Errorf("%w: rank %d: step %d: %w", ErrWrong, r, i, err)
			}
		}
	}
	for range joinedRanks - joinedGuests {
		<-done
	}
	return errs
}

// Guests join a control plane with ranks of driver/coll, and do collectives with them through a tree of three switches.
func testJoined(ctx context.Context, t *testing.T, lab *Lab) {
	const seed, lease = 1, 5 * time.Second
	begin := func(t *testing.T, loss float64) *joined {
		var log *slog.Logger
		if testing.Verbose() {
			log = slog.New(slog.NewTextHandler(t.Output(), nil))
		}
		j, err := lab.startJoined(t.TempDir(), seed, loss, lease, log)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, j.end()) })
		return j
	}
	for _, w := range []wish{
		{job: "mode-1", mode: 1, mtu: 1024},
		{job: "mode-2", mode: 2, mtu: 4096, ip6: true},
		{job: "mode-3", mode: 3, mtu: 1024},
		{job: "mode-3-in-order", mode: 3, mtu: 4096, ip6: true, reproducible: true},
	} {
		t.Run(w.job, func(t *testing.T) {
			j := begin(t, 0.02)
			for r, err := range joinedRun(ctx, t, j, w, nil, nil) {
				assert.NoError(t, err, "rank %d; seed %d", r, seed)
			}
			require.NotZero(t, j.nics[0].lost.Load()+j.nics[1].lost.Load(), "frames are lost")
		})
	}
	w := wish{job: "train", mode: 3, mtu: 1024}
	t.Run("link down and up", func(t *testing.T) {
		j := begin(t, 0)
		for r, err := range joinedRun(ctx, t, j, w, nil, func([]*joiner) {
			j.nics[1].unplugged.Store(true)
			time.AfterFunc(2*time.Second, func() { j.nics[1].unplugged.Store(false) })
		}) {
			assert.NoError(t, err, r)
		}
		require.NotZero(t, j.nics[1].lost.Load())
	})
	t.Run("a guest is killed", func(t *testing.T) {
		j := begin(t, 0)
		var killed time.Time
		errs := joinedRun(ctx, t, j, w, nil, func(guests []*joiner) {
			killed = time.Now()
			j.nics[1].unplugged.Store(true) // the rest of it would be done before it is killed
			require.NoError(t, guests[1].job.Kill())
		})
		require.ErrorContains(t, errs[1], "its program has ended")
		for _, r := range []int{0, 2, 3} {
			require.ErrorContains(t, errs[r], "rank 1 (10.9.0.2)", r)
		}
		require.ErrorIs(t, errs[0], proxy.ErrOver)
		require.Less(t, time.Since(killed), 6*lease)
	})
	t.Run("a guest has another count", func(t *testing.T) {
		j := begin(t, 0)
		start := time.Now()
		errs := joinedRun(ctx, t, j, w, func(r int, in [][]byte) {
			if r == 1 {
				in[0] = in[0][4:]
			}
		}, nil)
		for r, err := range errs {
			require.ErrorContains(t, err, "control_count", r)
			require.ErrorContains(t, err, "rank 1 (10.9.0.2)", r)
		}
		require.Less(t, time.Since(start), time.Minute)
	})
}
