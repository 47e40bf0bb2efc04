package bench

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/epic-inc/epic/driver/namespace"
)

// Cable is a veth in a namespace of its own, in which the kernel says nothing by itself.
type Cable struct {
	A, B      string // its ends, INTERFACE@NAMESPACE
	Namespace string
}

// Ends of a cable in its namespace.
const (
	endA = "a"
	endB = "b"
)

// cableMTU is more than any frame of RoCE wants.
const cableMTU = 5000

var cables atomic.Int64

// NewCable makes a cable. It needs root.
func NewCable() (*Cable, error) {
	name := fmt.Sprintf("epic-cable-%d-%d", os.Getpid(), cables.Add(1))
	err := namespace.Inside("", func() error {
		ns, err := netns.NewNamed(name) // enters it
		if err != nil {
			return err
		}
		return errors.Join(ns.Close(), plug())
	})
	c := &Cable{A: endA + "@" + name, B: endB + "@" + name, Namespace: name}
	if err != nil {
		if _, there := os.Stat("/var/run/netns/" + name); there == nil {
			err = errors.Join(err, c.Close())
		}
		return nil, fmt.Errorf("make a veth in namespace %s: %w (it needs root)", name, err)
	}
	return c, nil
}

// Close takes the cable away.
func (c *Cable) Close() error {
	if err := netns.DeleteNamed(c.Namespace); err != nil {
		return fmt.Errorf("namespace %s: %w", c.Namespace, err)
	}
	return nil
}

func plug() error {
	err := os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
	if err != nil && !errors.Is(err, os.ErrNotExist) { // a kernel without IPv6
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = endA, cableMTU
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: endB, PeerMTU: cableMTU}); err != nil {
		return err
	}
	for _, end := range []string{endA, endB} {
		l, err := netlink.LinkByName(end)
		if err != nil {
			return fmt.Errorf("%s: %w", end, err)
		}
		if err := netlink.LinkSetUp(l); err != nil {
			return fmt.Errorf("%s up: %w", end, err)
		}
	}
	// The kernel tells that there is a carrier up to a second later.
	for wait := time.Now(); ; time.Sleep(time.Millisecond) {
		l, err := netlink.LinkByName(endA)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", endA, err)
		case l.Attrs().OperState == netlink.OperUp:
			return nil
		case time.Since(wait) > 5*time.Second:
			return fmt.Errorf("%s: got state %v after 5 s, want up", endA, l.Attrs().OperState)
		}
	}
}
