package lab

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/epic-inc/epic/driver/namespace"
	"github.com/epic-inc/epic/golden/fabric"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/oracle"
)

// require a machine on which labs can be made: `make test` runs as root.
func permitted(t *testing.T) {
	t.Helper()
	if err := Permitted(); err != nil {
		oracle.Skip(t, "%v", err)
	}
}

var labs int

// up makes a lab of one group for a test.
func up(t *testing.T, o group.Options, change ...func(*Options)) *Lab {
	t.Helper()
	permitted(t)
	set, err := group.GenerateSet(o)
	require.NoError(t, err)
	labs++
	options := Options{Name: fmt.Sprintf("t%d", labs), Folder: t.TempDir(), Set: set, Seed: 1}
	for _, c := range change {
		c(&options)
	}
	l, err := Up(options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// play runs golden's hosts of a job on the lab's interfaces.
func play(t *testing.T, l *Lab, job *fabric.Job, limit time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, err := l.Play(ctx, job)
	require.NoError(t, err)
}

func job(t *testing.T, l *Lab, seed uint64, o group.Options, bytes int) *fabric.Job {
	t.Helper()
	steps, err := o.Steps()
	require.NoError(t, err)
	work, err := fabric.RandomWork(l.o.Set.Groups[0], seed, steps, bytes)
	require.NoError(t, err)
	j, err := fabric.NewJob(l.o.Set, work)
	require.NoError(t, err)
	return j
}

func TestLab(t *testing.T) {
	for mode := 1; mode <= 3; mode++ {
		t.Run(fmt.Sprintf("mode%d", mode), func(t *testing.T) {
			o := Shape()
			o.Mode, o.Tree, o.Ranks = mode, group.TreeTwoLevel, 4
			o.WindowPackets, o.MessagePackets = 8, 4
			l := up(t, o)
			play(t, l, job(t, l, 1, o, 300_000), time.Minute)

			found(t, l)
		})
	}
}

// found wants that the kernel of a host finds the switch and the others (ARP, neighbour discovery), and that its packets
// are answered.
func found(t *testing.T, l *Lab) {
	t.Helper()
	g := l.o.Set.Groups[0]
	for _, to := range []group.IP{g.Switches[0].Endpoints[0].IP, g.Ranks[3].IP} {
		var err error
		for range 5 { // the wires may lose an echo
			if err = ping(l.Namespaces[0], to.Addr, 900); err == nil {
				break
			}
		}
		require.NoError(t, err, "to %v", to)
	}
}

// The same with IPv6 addresses.
func TestLabIPv6(t *testing.T) {
	for mode := 1; mode <= 3; mode++ {
		t.Run(fmt.Sprintf("mode%d", mode), func(t *testing.T) {
			o := Shape()
			o.Mode, o.Tree, o.Ranks, o.Loss = mode, group.TreeTwoLevel, 4, 0.01
			o.WindowPackets, o.MessagePackets = 8, 4
			l := up(t, o, func(o *Options) { o.Set = inIPv6(t, o.Set) })
			play(t, l, job(t, l, 1, o, 300_000), time.Minute)
			found(t, l)
		})
	}
}

// inIPv6 is a set whose group has IPv6 addresses in place of IPv4's.
func inIPv6(t *testing.T, set *group.Set) *group.Set {
	t.Helper()
	v6 := func(ip group.IP) group.IP {
		b := netip.MustParseAddr("fd00::").As16()
		copy(b[12:], ip.AsSlice())
		return group.IP{Addr: netip.AddrFrom16(b)}
	}
	g := set.Groups[0]
	for r := range g.Ranks {
		g.Ranks[r].IP = v6(g.Ranks[r].IP)
	}
	for _, sw := range g.Switches {
		for i := range sw.Endpoints {
			ep := &sw.Endpoints[i]
			ep.IP, ep.PeerIP = v6(ep.IP), v6(ep.PeerIP)
		}
	}
	text, err := g.Marshal()
	require.NoError(t, err)
	g, err = group.Parse("group.yaml", text)
	require.NoError(t, err)
	set, err = group.NewSet(g)
	require.NoError(t, err)
	return set
}

// ping sends an echo request by the kernel of a namespace.
func ping(ns string, to netip.Addr, bytes int) error {
	network, any, request, reply := "ip4:icmp", "0.0.0.0", icmp.Type(ipv4.ICMPTypeEcho), icmp.Type(ipv4.ICMPTypeEchoReply)
	if to.Is6() {
		network, any, request, reply = "ip6:ipv6-icmp", "::", ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply
	}
	return namespace.Inside(ns, func() error {
		c, err := icmp.ListenPacket(network, any)
		if err != nil {
			return err
		}
		defer c.Close()
		echo := icmp.Message{Type: request, Body: &icmp.Echo{ID: 7, Seq: 9, Data: make([]byte, bytes)}}
		text, err := echo.Marshal(nil)
		if err != nil {
			return err
		}
		if _, err := c.WriteTo(text, &net.IPAddr{IP: to.AsSlice()}); err != nil {
			return err
		}
		if err := c.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
			return err
		}
		buffer := make([]byte, 2000)
		for { // neighbour discovery is heard too
			n, from, err := c.ReadFrom(buffer)
			if err != nil {
				return err
			}
			m, err := icmp.ParseMessage(reply.Protocol(), buffer[:n])
			if err != nil {
				return err
			}
			body, ok := m.Body.(*icmp.Echo)
			if !ok {
				continue
			}
			if m.Type != reply || len(body.Data) != bytes || from.String() != to.String() {
				return fmt.Errorf("from %v: got %v with %d bytes", from, m.Type, n)
			}
			return nil
		}
	})
}

func TestLossyLab(t *testing.T) {
	o := Shape()
	o.Loss, o.Dup, o.Reorder, o.DelayNs = 0.02, 0.02, 0.02, 1000
	l := up(t, o)
	play(t, l, job(t, l, 1, o, 1<<20), time.Minute)
	out, in := l.Wire(0).Counts()
	for _, n := range []uint64{out.Lost, out.Late, out.Duplicated, in.Lost, in.Late, in.Duplicated} {
		require.Positive(t, n, "to the host: %+v, from it: %+v", out, in)
	}
}

// Nothing is left, and what a lab that ended badly left is removed by the next, or by Down.
func TestNothingIsLeft(t *testing.T) {
	permitted(t)
	set, err := group.GenerateSet(Shape())
	require.NoError(t, err)
	folder := t.TempDir()
	o := Options{Name: "gone", Folder: folder, Set: set}
	l, err := Up(o)
	require.NoError(t, err)
	_, err = Up(o)
	require.ErrorContains(t, err, "lab gone: it is up ("+filepath.Join(folder, "gone")+"): take it down first (epic lab down)")
	require.NoError(t, l.Close())
	names, err := left("gone")
	require.NoError(t, err)
	require.Empty(t, names)
	_, err = os.Stat(filepath.Join(folder, "gone"))
	require.ErrorIs(t, err, os.ErrNotExist)

	// As if the process had been killed: nothing of it runs any more, and all that it made in the kernel is there.
	crash := func() *exec.Cmd {
		l, err := Up(o)
		require.NoError(t, err)
		l.cancel()
		l.running.Wait()
		for _, w := range l.wires {
			require.NoError(t, w.Close())
		}
		for _, f := range l.quiet {
			require.NoError(t, f.Close())
		}
		require.NoError(t, l.lock.Close())
		sleeper := exec.Command("ip", "netns", "exec", l.Namespaces[1], "sleep", "1000")
		require.NoError(t, sleeper.Start())
		require.Eventually(t, func() bool {
			cmd, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", sleeper.Process.Pid))
			return strings.HasPrefix(string(cmd), "sleep") // ip has entered the namespace, and gone
		}, 5*time.Second, time.Millisecond)
		return sleeper
	}
	sleeper := crash()
	again, err := Up(o)
	require.NoError(t, err)
	require.Error(t, sleeper.Wait(), "a rank of the old lab is ended")
	require.NoError(t, again.Close())

	sleeper = crash()
	removed, err := Down(folder, "gone")
	require.NoError(t, err)
	require.ElementsMatch(t, strings.Fields("epic-gone-r0 epic-gone-r1 epic-gone-r2 epic-gone-r3 epic-gone-sw"), removed)
	require.Error(t, sleeper.Wait())
	removed, err = Down(folder, "gone")
	require.NoError(t, err)
	require.Empty(t, removed)
}
