package softswitch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/oracle"
)

// tap is the end of a TAP interface that a virtual machine has: frames by read and write. It is a device.Link.
type tap struct {
	name string
	file *os.File
}

func (p *tap) MTU() int     { return linkMTU }
func (p *tap) Close() error { return p.file.Close() }

func (p *tap) Send(_ context.Context, frame []byte) error {
	_, err := p.file.Write(frame)
	return err
}

func (p *tap) Receive(ctx context.Context) ([]byte, error) {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(over)
		_ = p.file.SetReadDeadline(time.Unix(1, 0))
	})
	defer func() {
		if !stop() {
			<-over
			_ = p.file.SetReadDeadline(time.Time{})
		}
	}()
	b := make([]byte, device.MaxFrame(linkMTU)+1)
	n, err := p.file.Read(b)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, io.EOF), errors.Is(err, os.ErrClosed):
		return nil, device.ErrClosed
	}
	return b[:n], err
}

// newTap makes a TAP interface, up. It goes with its file.
func newTap(t *testing.T, name string) *tap {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	l := &netlink.Tuntap{LinkAttrs: attrs, Mode: netlink.TUNTAP_MODE_TAP, Flags: netlink.TUNTAP_NO_PI | unix.IFF_TUN_EXCL, Queues: 1, NonPersist: true}
	require.NoError(t, netlink.LinkAdd(l))
	// Go waits for a file in its poller only if it does not block from the beginning.
	fd, err := unix.Dup(int(l.Fds[0].Fd()))
	require.NoError(t, err)
	require.NoError(t, unix.SetNonblock(fd, true))
	require.NoError(t, l.Fds[0].Close())
	p := &tap{name: name, file: os.NewFile(uintptr(fd), name)}
	t.Cleanup(func() { p.Close() })
	// The kernel says nothing of its own there.
	if err := os.WriteFile(filepath.Join("/proc/sys/net/ipv6/conf", name, "disable_ipv6"), []byte("1"), 0); !errors.Is(err, os.ErrNotExist) {
		require.NoError(t, err)
	}
	require.NoError(t, netlink.LinkSetMTU(l, linkMTU))
	require.NoError(t, netlink.LinkSetUp(l))
	return p
}

// Ports can be TAP interfaces, as virtual machines have them: here the hosts are behind their files.
func TestTap(t *testing.T) {
	if os.Geteuid() != 0 {
		oracle.Skip(t, "to make a TAP interface needs root")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skipf("not run: this kernel has no TAP interfaces: %v", err) // no setup can change that
	}
	for mode := 1; mode <= 3; mode++ {
		t.Run(fmt.Sprintf("mode%d", mode), func(t *testing.T) {
			o := options()
			o.Mode, o.Ranks = mode, 3
			set, j := job(t, 1, 50_000, o)
			n := &network{set: set}
			var ports []Port
			for r := range o.Ranks {
				p := newTap(t, fmt.Sprintf("epictap%d", r))
				n.hosts = append(n.hosts, p)
				port, err := ParsePort(fmt.Sprintf("%d=%s", r, p.name))
				require.NoError(t, err)
				ports = append(ports, port)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			service := Service{Groups: []*group.Group{set.Groups[0]}, Ports: ports, MTU: linkMTU, Metrics: "unix:" + filepath.Join(t.TempDir(), "metrics")}
			go func() { ended <- service.Run(ctx, io.Discard) }()
			require.Eventually(t, func() bool { _, err := os.Stat(service.Metrics[len("unix:"):]); return err == nil }, 10*time.Second, time.Millisecond)
			n.play(t, j)
			cancel()
			require.NoError(t, <-ended)
		})
	}
}
