package raw_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/device/devicetest"
	"github.com/epic-inc/epic/driver/device/raw"
	"github.com/epic-inc/epic/golden/oracle"
)

// veth makes a namespace with a veth in it, and returns the names of all three and a handle of the namespace.
func veth(t *testing.T) (namespace, a, b string, h *netlink.Handle) {
	t.Helper()
	if os.Geteuid() != 0 {
		oracle.Skip(t, "to make a veth needs root")
	}
	namespace = fmt.Sprintf("epic-raw-%d-%d", os.Getpid(), time.Now().UnixNano()%1e6)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := netns.Get()
	require.NoError(t, err)
	defer home.Close()
	ns, err := netns.NewNamed(namespace)
	require.NoError(t, err)
	require.NoError(t, netns.Set(home))
	t.Cleanup(func() { assert.NoError(t, netns.DeleteNamed(namespace)) })
	h, err = netlink.NewHandleAt(ns)
	require.NoError(t, err)
	require.NoError(t, ns.Close())
	t.Cleanup(h.Close)

	a, b = "left", "right"
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = a, 4200
	require.NoError(t, h.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: b}))
	for _, name := range []string{a, b} {
		l, err := h.LinkByName(name)
		require.NoError(t, err)
		require.NoError(t, h.LinkSetMTU(l, 4200))
		require.NoError(t, h.LinkSetUp(l))
	}
	for _, name := range []string{a, b} {
		require.Eventually(t, func() bool {
			l, err := h.LinkByName(name)
			return err == nil && l.Attrs().OperState == netlink.OperUp
		}, 5*time.Second, time.Millisecond, "%s does not come up", name)
	}
	return namespace, a, b, h
}

func TestConformance(t *testing.T) {
	ns, a, b, _ := veth(t)
	devicetest.Run(t, devicetest.Backend{Open: func() (device.Link, device.Link, error) {
		x, err := raw.Open(raw.Options{Interface: a, Namespace: ns})
		if err != nil {
			return nil, nil, err
		}
		y, err := raw.Open(raw.Options{Interface: b, Namespace: ns})
		return x, y, err
	}})
}

func TestDownUpAndRemoved(t *testing.T) {
	ns, a, b, h := veth(t)
	x, err := raw.Open(raw.Options{Interface: a, Namespace: ns})
	require.NoError(t, err)
	defer x.Close()
	y, err := raw.Open(raw.Options{Interface: b, Namespace: ns})
	require.NoError(t, err)
	defer y.Close()
	assert.Equal(t, 4200, x.MTU())
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	right, err := h.LinkByName(b)
	require.NoError(t, err)

	got := make(chan []byte)
	ended := make(chan error, 1)
	go func() {
		for {
			f, err := y.Receive(ctx)
			if err != nil {
				ended <- err
				return
			}
			if f[12] == 0x88 && f[13] == 0xb5 {
				got <- f
			}
		}
	}()
	frame := append(make([]byte, 12), 0x88, 0xb5, 1, 2, 3)
	receives := func() bool {
		for range 100 {
			if err := x.Send(ctx, frame); err != nil {
				t.Error(err)
				return false
			}
			select {
			case f := <-got:
				return assert.Equal(t, frame, f)
			case <-time.After(20 * time.Millisecond):
			}
		}
		return false
	}
	require.True(t, receives())
	require.NoError(t, h.LinkSetDown(right))
	for range 10 {
		require.NoError(t, y.Send(ctx, frame), "while the interface is down frames are lost")
	}
	time.Sleep(300 * time.Millisecond)
	require.NoError(t, h.LinkSetUp(right))
	require.True(t, receives(), "nothing came after the interface was up again")

	// Removed while it is down: the kernel says nothing.
	require.NoError(t, h.LinkSetDown(right))
	time.Sleep(50 * time.Millisecond)
	require.NoError(t, h.LinkDel(right))
	select {
	case err := <-ended:
		require.ErrorIs(t, err, device.ErrClosed)
		assert.Contains(t, err.Error(), "raw link right in namespace "+ns+": receive: the interface has been removed")
	case <-time.After(3 * time.Second):
		t.Fatal("Receive waits for an interface that does not exist")
	}
	assert.ErrorIs(t, y.Send(ctx, frame), device.ErrClosed)
}

func TestOpenRefuses(t *testing.T) {
	_, err := raw.Open(raw.Options{Interface: "epic-none"})
	require.Error(t, err)
	assert.Contains(t, err.Error(), `raw link epic-none: interface "epic-none": `)
	_, err = raw.Open(raw.Options{Interface: "lo", Namespace: "epic-none"})
	require.Error(t, err)
	assert.Contains(t, err.Error(), `namespace "epic-none": got none of that name or path`)
	assert.Contains(t, err.Error(), "ip netns")
}

// Without the capability the error says which.
func TestNotPermitted(t *testing.T) {
	if os.Getenv("EPIC_RAW_UNPRIVILEGED") == "1" {
		_, err := raw.Open(raw.Options{Interface: "lo"})
		if err == nil || !errors.Is(err, os.ErrPermission) {
			t.Fatalf("got %v, want a permission error", err)
		}
		assert.Contains(t, err.Error(), "it needs the capability CAP_NET_RAW (root, or setcap cap_net_raw+ep on the program)")
		return
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		oracle.Skip(t, "setpriv (util-linux) is not installed")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	args := []string{self, "-test.run=^TestNotPermitted$"}
	if os.Geteuid() == 0 {
		args = append([]string{setpriv, "--bounding-set=-all", "--inh-caps=-all"}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "EPIC_RAW_UNPRIVILEGED=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
