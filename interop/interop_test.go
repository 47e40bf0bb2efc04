package interop

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/capture"
	"github.com/epic-inc/epic/golden/oracle"
	"github.com/epic-inc/epic/interop/guest"
)

// Runs that must fail, each with what is wrong, and soon; and one that must not, before and after them in the same
// guests. Then they join a control plane.
func TestGuests(t *testing.T) {
	if testing.Short() {
		t.Skip("boots machines, which takes half a minute: not in -short")
	}
	image := filepath.Join("..", guest.ImageFolder)
	if _, err := os.Stat(filepath.Join(image, "initrd.gz")); err != nil {
		oracle.Skip(t, "no guest: %v (scripts/setup interop makes it)", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	lab, err := Boot(ctx, image, 2, guest.TCG, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, lab.Close()) }()
	good := Case{Engine: Golden, Mode: 3, Collective: "allreduce", Numbers: Int32, Guests: 2, MTU: 1024, IP: 4, Wire: Quiet, Packets: 20}
	o := Options{Seed: 1, Capture: filepath.Join(t.TempDir(), "rank0.pcap")}
	passes := func() {
		r := lab.RunCase(ctx, good, o)
		require.Equal(t, Passed, r.Status, r.Reason)
	}
	passes()
	f, err := capture.Open(o.Capture)
	require.NoError(t, err)
	_, err = f.Next()
	require.NoError(t, err)
	require.NoError(t, f.Close())

	t.Run("the wire loses everything", func(t *testing.T) {
		c := good
		c.dead = true
		_, err := lab.run(ctx, c, o, extra{giveUp: 5})
		require.ErrorIs(t, err, ErrRank)
		require.ErrorContains(t, err, "step 0 (allreduce:0), repetition 0: gave up: nothing completes: 0 of 5 messages received, 0 of 5 sends acknowledged")
	})
	t.Run("a rank dies", func(t *testing.T) {
		start := time.Now()
		_, err := lab.run(ctx, good, o, extra{begun: func(w *world) error {
			start = time.Now()
			return w.members[1].job.Kill()
		}})
		require.ErrorIs(t, err, ErrRank)
		require.ErrorContains(t, err, "rank 1: exit status 137")
		require.Less(t, time.Since(start), 20*time.Second)
	})
	t.Run("the ranks do not agree on what they add", func(t *testing.T) {
		_, err := lab.run(ctx, good, o, extra{begun: func(w *world) error {
			w.vectors[0][1][4]++ // rank 1 has sent another one
			return nil
		}})
		require.ErrorIs(t, err, ErrWrong)
		require.ErrorContains(t, err, "result of rank 0: element 1 is ")
	})
	t.Run("interrupted", func(t *testing.T) {
		stopped := errors.New("stopped")
		short, stop := context.WithCancelCause(ctx)
		_, err := lab.run(short, good, o, extra{begun: func(*world) error {
			stop(stopped)
			return nil
		}})
		require.ErrorIs(t, err, stopped)
	})
	passes()
	t.Run("joined", func(t *testing.T) { testJoined(ctx, t, lab) })
}
