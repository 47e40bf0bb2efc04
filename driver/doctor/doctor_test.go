package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/lab"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/oracle"
	"github.com/epic-inc/epic/golden/roce"
)

// ward is a lab with a group of four ranks, and the queue pair of each rank.
type ward struct {
	t     *testing.T
	lab   *lab.Lab
	group *group.Group
	links []device.Link
	qps   []*host.QP
}

var labs int

// admit makes a lab; change may spoil the configuration of a rank's queue pair.
func admit(t *testing.T, o group.Options, change func(rank int, c *host.Config)) *ward {
	t.Helper()
	set, err := group.GenerateSet(o)
	require.NoError(t, err)
	w := admitSet(t, lab.Options{Set: set})
	for r := range w.group.Ranks {
		c, err := w.group.HostConfig(r, 0)
		require.NoError(t, err)
		if change != nil {
			change(r, &c)
		}
		q, err := host.New(c)
		require.NoError(t, err)
		link, err := w.lab.Link(r)
		require.NoError(t, err)
		t.Cleanup(func() { link.Close() })
		w.qps, w.links = append(w.qps, q), append(w.links, link)
	}
	return w
}

// admitSet makes a lab without queue pairs.
func admitSet(t *testing.T, o lab.Options) *ward {
	t.Helper()
	if err := lab.Permitted(); err != nil {
		oracle.Skip(t, "%v", err)
	}
	labs++
	o.Name, o.Folder = fmt.Sprintf("doc%d", labs), t.TempDir()
	l, err := lab.Up(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return &ward{t: t, lab: l, group: o.Set.Groups[0]}
}

// inIPv6 is a set of one group with IPv6 addresses in place of IPv4's.
func inIPv6(t *testing.T, set *group.Set) *group.Set {
	t.Helper()
	text, err := set.Groups[0].Marshal()
	require.NoError(t, err)
	g, err := group.Parse("group.yaml", []byte(strings.NewReplacer("10.9.0.", "fd00::9:", "10.10.0.", "fd00::a:").Replace(string(text))))
	require.NoError(t, err)
	set, err = group.NewSet(g)
	require.NoError(t, err)
	return set
}

// send lets ranks send a message each.
func (w *ward) send(ranks ...int) {
	w.t.Helper()
	for _, r := range ranks {
		for _, o := range w.qps[r].Run(host.Event{Kind: host.PostSend, Message: host.Message{Payload: make([]byte, 8)}}) {
			if o.Kind == host.Frame {
				require.NoError(w.t, w.links[r].Send(w.t.Context(), o.Packet.Encode()))
			}
		}
	}
	time.Sleep(100 * time.Millisecond)
}

// report is what the doctor finds.
func (w *ward) report() *Report {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	r, err := Lab(ctx, &w.lab.State)
	require.NoError(w.t, err)
	return r
}

// finds wants one finding, about a rank, of a kind, with words, and returns it.
func (w *ward) finds(kind Kind, rank int, words ...string) Finding {
	w.t.Helper()
	r := w.report()
	var text strings.Builder
	require.NoError(w.t, r.WriteText(&text))
	require.Len(w.t, r.Findings, 1, text.String())
	f := r.Findings[0]
	require.Equal(w.t, kind, f.Kind, text.String())
	require.Equal(w.t, rank, f.Rank, text.String())
	for _, word := range words {
		require.Contains(w.t, f.Text, word)
	}
	require.NotEmpty(w.t, f.Do)
	return f
}

// inside lets netlink work in the namespace of a rank.
func (w *ward) inside(rank int, f func(*netlink.Handle, netlink.Link) error) {
	w.t.Helper()
	ns, err := netns.GetFromName(w.lab.Namespaces[rank])
	require.NoError(w.t, err)
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns)
	require.NoError(w.t, err)
	defer h.Close()
	link, err := h.LinkByName(w.lab.Interface)
	require.NoError(w.t, err)
	require.NoError(w.t, f(h, link))
}

// takeAddresses takes the IP addresses of an interface.
func takeAddresses(h *netlink.Handle, l netlink.Link) error {
	list, err := h.AddrList(l, netlink.FAMILY_ALL)
	for _, one := range list {
		err = errors.Join(err, h.AddrDel(l, &one))
	}
	return err
}

// The faults, each made for real.
func TestDiagnoses(t *testing.T) {
	o := lab.Shape()
	t.Run("nothing", func(t *testing.T) {
		w := admit(t, o, nil)
		r := w.report()
		require.Empty(t, r.Findings)
		require.Equal(t, strings.Split("interface eth0 of rank 0|interface eth0 of rank 1|interface eth0 of rank 2|interface eth0 of rank 3|switch root", "|"), r.Looked)
	})
	t.Run("interface down", func(t *testing.T) {
		w := admit(t, o, nil)
		w.inside(1, func(h *netlink.Handle, l netlink.Link) error { return h.LinkSetDown(l) })
		w.finds(Link, 1, "interface eth0 is down")
	})
	t.Run("MTU", func(t *testing.T) {
		w := admit(t, o, nil)
		w.inside(3, func(h *netlink.Handle, l netlink.Link) error { return h.LinkSetMTU(l, 1500) })
		w.finds(MTU, 3, "interface eth0 has MTU 1500, packets of 4096 bytes need 4144")
	})
	t.Run("MAC", func(t *testing.T) {
		w := admit(t, o, nil)
		w.inside(2, func(h *netlink.Handle, l netlink.Link) error {
			return h.LinkSetHardwareAddr(l, []byte{2, 0, 0, 0, 0, 9})
		})
		w.finds(Address, 2, "has MAC 02:00:00:00:00:09, the group has 52:54:00:00:00:03")
	})
	t.Run("no IP", func(t *testing.T) {
		w := admit(t, o, nil)
		w.inside(2, takeAddresses)
		f := w.finds(Address, 2, "interface eth0 has no IP address, the group has 10.9.0.3")
		require.Contains(t, f.Do, "ip address add 10.9.0.3/32 dev eth0")
	})
	t.Run("another IP", func(t *testing.T) {
		w := admit(t, o, nil)
		w.inside(2, func(h *netlink.Handle, l netlink.Link) error {
			other, err := netlink.ParseAddr("10.9.0.77/32")
			return errors.Join(err, takeAddresses(h, l), h.AddrAdd(l, other))
		})
		w.finds(Address, 2, "interface eth0 has IP 10.9.0.77/32, the group has 10.9.0.3")
	})
	t.Run("IPv6, down and up", func(t *testing.T) {
		set, err := group.GenerateSet(o)
		require.NoError(t, err)
		w := admitSet(t, lab.Options{Set: inIPv6(t, set)})
		require.Empty(t, w.report().Findings)
		w.inside(1, func(h *netlink.Handle, l netlink.Link) error { return errors.Join(h.LinkSetDown(l), h.LinkSetUp(l)) })
		f := w.finds(Address, 1, "interface eth0 has ", ", the group has fd00::9:2")
		require.Contains(t, f.Do, "net.ipv6.conf.eth0.keep_addr_on_down")
	})
	t.Run("cable cut", func(t *testing.T) {
		w := admit(t, o, nil)
		w.lab.Wire(0).Cut(true)
		w.finds(ARP, 0, "nobody answers for 10.10.0.1")
	})
	t.Run("ICRC", func(t *testing.T) {
		w := admit(t, o, nil)
		w.lab.Wire(2).Spoil(true)
		w.send(2)
		w.lab.Wire(2).Spoil(false)
		w.finds(ICRC, 2, "one frame from there came with a wrong ICRC")
	})
	t.Run("QPN", func(t *testing.T) {
		w := admit(t, o, func(r int, c *host.Config) {
			if r == 1 {
				c.PeerQPN = 0x777
			}
		})
		w.send(1)
		w.finds(QPN, 1, "one frame went to QPN 0x000777, which switch root has not; at that port it has 0x000102")
	})
	t.Run("another rank's QPN", func(t *testing.T) {
		w := admit(t, o, func(r int, c *host.Config) {
			if r == 1 {
				c.PeerQPN = 0x103
			}
		})
		w.send(1)
		w.finds(QPN, 1, "to QPN 0x000103 came in at port 1: endpoint rank2: want port 2")
	})
	t.Run("source IP", func(t *testing.T) {
		w := admit(t, o, func(r int, c *host.Config) {
			if r == 3 {
				c.IP = netip.MustParseAddr("10.9.0.77")
			}
		})
		w.send(3)
		w.finds(Address, 3, "endpoint rank3: from 10.9.0.77, want 10.9.0.4")
	})
	t.Run("PSN", func(t *testing.T) {
		w := admit(t, o, func(r int, c *host.Config) {
			if r == 0 {
				c.SendPSN = 0x5000
			}
		})
		w.send(0, 1, 2, 3)
		w.finds(PSN, 0, "its first packet had psn 005000, the group begins at 000000")
	})
	t.Run("no ACK", func(t *testing.T) {
		w := admit(t, o, nil)
		w.send(0, 1, 2, 3)
		for _, r := range []int{0, 1, 3} {
			w.acknowledge(r)
		}
		time.Sleep(400 * time.Millisecond) // the engine sends again after 250
		w.finds(Unacked, 2, "rank2 has not acknowledged psn 000000, which was sent again")
	})
	for _, mode := range []int{1, 2, 3} {
		o := o
		o.Mode = mode
		t.Run(fmt.Sprintf("silent rank, mode %d", mode), func(t *testing.T) {
			w := admit(t, o, nil)
			w.send(0, 1, 3)
			w.finds(Silent, 2, "rank2 has sent nothing in g0; psn 000000 of rank0, rank1, rank3 waits for it")
		})
		t.Run(fmt.Sprintf("missing psn, mode %d", mode), func(t *testing.T) {
			w := admit(t, o, nil)
			w.send(0, 1, 2, 3)
			if mode == 1 { // which takes the next message when all have acknowledged the sum of this
				for r := range 4 {
					w.acknowledge(r)
				}
			}
			w.lab.Wire(1).Cut(true)
			w.send(1)
			w.lab.Wire(1).Cut(false)
			w.send(0, 2, 3)
			w.finds(Waits, 1, "psn 000001 of rank1 is missing, its last was 000000; root waits, of rank0, rank2, rank3 it is there")
		})
	}
	t.Run("two levels", func(t *testing.T) {
		o := o
		o.Tree, o.Ranks = group.TreeTwoLevel, 4
		w := admit(t, o, nil)
		w.send(0, 1, 2)
		r := w.report()
		require.NotEmpty(t, r.Findings)
		require.Equal(t, Silent, r.Findings[0].Kind)
		require.Equal(t, 3, r.Findings[0].Rank, "the rank before the switch that waits for it")
	})
	t.Run("different lengths", func(t *testing.T) {
		w := admit(t, o, nil)
		w.send(0)
		for _, out := range w.qps[1].Run(host.Event{Kind: host.PostSend, Message: host.Message{Payload: make([]byte, 12)}}) {
			if out.Kind == host.Frame {
				require.NoError(t, w.links[1].Send(t.Context(), out.Packet.Encode()))
			}
		}
		time.Sleep(100 * time.Millisecond)
		r := w.report()
		require.Equal(t, Error, r.Findings[0].Kind)
		require.Contains(t, r.Findings[0].Text, "mismatch_length at endpoint rank1, psn 000000: got 0xc, want 0x8")
	})
}

// acknowledge lets a rank take a result, and acknowledge it.
func (w *ward) acknowledge(rank int) {
	w.t.Helper()
	q := w.qps[rank]
	q.Run(host.Event{Kind: host.PostRecv, Receive: host.Receive{Bytes: 8}})
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
	defer cancel()
	for done := false; !done; {
		frame, err := w.links[rank].Receive(ctx)
		require.NoError(w.t, err)
		pkt, malformed := roce.Decode(frame)
		if malformed != nil {
			continue
		}
		for _, o := range q.Run(host.Event{Kind: host.Deliver, Packet: pkt}) {
			switch o.Kind {
			case host.Frame:
				require.NoError(w.t, w.links[rank].Send(ctx, o.Packet.Encode()))
			case host.Complete:
				done = done || o.Completion.Recv
			}
		}
	}
}
