package guest

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/oracle"
)

func image(t *testing.T) string {
	t.Helper()
	folder := filepath.Join("..", "..", ImageFolder)
	if _, err := os.Stat(filepath.Join(folder, "initrd.gz")); err != nil {
		oracle.Skip(t, "no guest: %v (scripts/setup interop makes it)", err)
	}
	return folder
}

func TestGuest(t *testing.T) {
	if testing.Short() {
		t.Skip("boots a machine, which takes half a minute: not in -short")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	g, err := Boot(Options{Image: image(t), Name: "one", MAC: [6]byte{0x52, 0x54, 0, 0, 0, 1},
		IPs: []netip.Prefix{netip.MustParsePrefix("10.9.0.1/13"), netip.MustParsePrefix("fd00::9:1/64")}})
	require.NoError(t, err)
	defer func() { require.NoError(t, g.Close()) }()
	start := time.Now()
	require.NoError(t, g.Ready(ctx))
	t.Logf("ready after %v, kernel %s", time.Since(start), g.Kernel())

	r, err := g.Run(ctx, "ibv_devinfo -v; echo no >&2; exit 3")
	require.NoError(t, err)
	require.Equal(t, 3, r.Status)
	require.Contains(t, r.Stdout, "rxe0")
	require.Contains(t, r.Stdout, "active_mtu:\t\t4096")
	require.Contains(t, r.Stdout, "fd00::9:1")
	require.Equal(t, "no\n", r.Stderr)

	// Its clock is that of the host, or its timers would not be those that were asked for.
	start = time.Now()
	r, err = g.Run(ctx, "sleep 5; cat /sys/devices/system/clocksource/clocksource0/current_clocksource")
	require.NoError(t, err)
	require.Greater(t, time.Since(start), 4*time.Second)
	require.Contains(t, r.Stdout, "hpet")

	// A job that does not end is killed with the context.
	short, stop := context.WithTimeout(ctx, 2*time.Second)
	defer stop()
	_, err = g.Run(short, "sleep 1000")
	require.ErrorIs(t, err, context.DeadlineExceeded)

	// epic_rank says what is wrong with its arguments, and what it waits for.
	r, err = g.Run(ctx, "epic_rank --dir /tmp --ip 10.9.0.1 --rank 0 --ranks 2 --steps reduce")
	require.NoError(t, err)
	require.Equal(t, 2, r.Status)
	require.Contains(t, r.Stderr, "want one, as reduce:0")
	r, err = g.Run(ctx, "epic_rank --dir /tmp --ip 10.9.0.1 --rank 0 --ranks 2 --steps barrier --give-up 1")
	require.NoError(t, err)
	require.Equal(t, 1, r.Status)
	require.Contains(t, r.Stderr, "control has not answered")
}

func TestNoImage(t *testing.T) {
	_, err := Boot(Options{Image: t.TempDir(), Name: "none"})
	require.ErrorContains(t, err, "scripts/setup interop")
}
