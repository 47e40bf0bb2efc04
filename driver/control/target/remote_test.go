package target_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/epic-inc/epic/driver/control/target"
	"github.com/epic-inc/epic/driver/control/target/targettest"
	"github.com/epic-inc/epic/driver/table"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/spec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// remote is a Fake in another process, as far as the caller can tell.
func remote(t *testing.T, info target.Info) (*targettest.Fake, *target.Remote) {
	t.Helper()
	f := targettest.NewFake(info)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- target.Serve(ctx, l, f) }()
	r, err := target.Dial(l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		stop()
		require.ErrorIs(t, <-done, context.Canceled)
	})
	return f, r
}

// What goes to a switch in another process, and what comes back, is what it would be in this one.
func TestRemote(t *testing.T) {
	info := targettest.Info("root")
	info.NoFloat = true
	info.Held = []table.Held{{Pipe: 3, Base: 128, Blocks: 64, Out: 5, Outs: 2, In: 9, Ins: 1, Endpoints: []int{7, 8}}}
	f, r := remote(t, info)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	want, err := f.Info(ctx)
	require.NoError(t, err)
	got, err := r.Info(ctx)
	require.NoError(t, err)
	assert.Equal(t, want, got)

	o := group.DefaultOptions()
	o.Ranks = 3
	g, err := group.Generate(o)
	require.NoError(t, err)
	rows := target.Rows{Pipes: []int{2}, Outs: []int{4}, Ins: []int{6}}
	require.NoError(t, r.Install(ctx, "a", g, rows))
	there, ok := f.Document("a")
	require.True(t, ok)
	text, err := g.Marshal()
	require.NoError(t, err)
	same, err := there.Marshal()
	require.NoError(t, err)
	assert.Equal(t, string(text), string(same))
	err = r.Install(ctx, "b", g, rows)
	assert.ErrorContains(t, err, "endpoint row 1 is taken")
	ids, err := r.Installed(ctx)
	require.NoError(t, err)
	assert.Equal(t, []string{"a"}, ids)

	f.SetState("a", target.State{Known: true, Next: 0xabcdef})
	st, err := r.State(ctx, "a")
	require.NoError(t, err)
	assert.Equal(t, target.State{Known: true, Next: 0xabcdef}, st)
	_, err = r.State(ctx, "b")
	require.ErrorIs(t, err, target.ErrNotInstalled)
	require.ErrorIs(t, r.Remove(ctx, "a", false), target.ErrBusy)
	require.NoError(t, r.Quiesce(ctx, "a"))
	require.ErrorIs(t, r.Quiesce(ctx, "b"), target.ErrNotInstalled)

	fault := target.Fault{ID: "a", Pipe: "root", Endpoint: "rank1", Kind: spec.ErrorKindRetries, PSN: 0x123456, Got: 8, Wanted: 7}
	f.Fault(fault)
	watching, stop := context.WithCancel(ctx)
	faults, done := make(chan target.Fault, 4), make(chan error, 1)
	go func() { done <- r.Watch(watching, func(f target.Fault) { faults <- f }) }()
	assert.Equal(t, fault, <-faults, "one that there was before")
	fault.PSN = 1
	f.Fault(fault)
	assert.Equal(t, fault, <-faults)
	stop()
	require.ErrorIs(t, <-done, context.Canceled)

	require.NoError(t, r.Remove(ctx, "a", true))
	assert.Equal(t, []string{"install a", "quiesce a", "remove a"}, f.History())
}

// A switch that ends is noticed, by the watch too; one that does not answer costs no more than the caller's time.
func TestRemoteEnds(t *testing.T) {
	f, r := remote(t, targettest.Info("root"))
	done := make(chan error, 1)
	go func() { done <- r.Watch(t.Context(), func(target.Fault) {}) }()
	time.Sleep(50 * time.Millisecond)
	f.Kill(errors.New("no power"))
	assert.ErrorContains(t, <-done, "no power")
	_, err := r.Info(t.Context())
	assert.ErrorContains(t, err, ": no power")
	f.Start(false)

	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts nothing
	require.NoError(t, err)
	defer l.Close()
	silent, err := target.Dial(l.Addr().String())
	require.NoError(t, err)
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = silent.Info(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
