// Package datagram is a device.Link over UDP: one datagram is one Ethernet frame, as QEMU's `-netdev dgram` and
// `-netdev socket,udp=` have it.
package datagram

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/device/internal/socket"
)

const (
	// DefaultMTU carries a RoCE packet of 4096 bytes.
	DefaultMTU = 9000
	// maxMTU: the frame is the payload of one datagram over IPv4.
	maxMTU = 65507 - device.HeaderBytes - 8
	// bufferBytes is what the kernel is asked to hold in each direction; it may give less.
	bufferBytes = 8 << 20
)

// Options are the two ends of a link.
type Options struct {
	Local  netip.AddrPort // where it receives; what comes from anyone but Remote is not seen
	Remote netip.AddrPort // where it sends
	MTU    int            // largest IP packet in bytes, 576..65485; 0: DefaultMTU
}

type link struct {
	conn    *socket.Conn
	name    string
	mtu     int
	scratch []byte // of Receive, within its turn
}

// Open makes a link. The other end need not be there: until it is, and when it has gone, frames are lost.
func Open(o Options) (device.Link, error) {
	name := fmt.Sprintf("datagram link %v to %v", o.Local, o.Remote)
	if o.MTU == 0 {
		o.MTU = DefaultMTU
	}
	if !o.Local.IsValid() || !o.Remote.IsValid() || o.Remote.Port() == 0 {
		return nil, fmt.Errorf("%s: want two addresses as 127.0.0.1:5000", name)
	}
	if err := device.CheckMTU(o.MTU); err != nil || o.MTU > maxMTU {
		return nil, fmt.Errorf("%s: MTU: got %d bytes, want %d..%d", name, o.MTU, device.MinMTU, maxMTU)
	}
	conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(o.Local), net.UDPAddrFromAddrPort(o.Remote))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	c, err := socket.New(conn)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := c.Control(func(fd uintptr) error { socket.Enlarge(fd, bufferBytes); return nil }); err != nil {
		return nil, fmt.Errorf("%s: %w", name, errors.Join(err, c.Close()))
	}
	return &link{conn: c, name: name, mtu: o.MTU, scratch: make([]byte, device.MaxFrame(o.MTU)+1)}, nil
}

func (l *link) MTU() int { return l.mtu }

func (l *link) Close() error {
	if err := l.conn.Close(); err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	return nil
}

func (l *link) Send(ctx context.Context, frame []byte) error {
	if err := device.CheckFrame(frame, l.mtu); err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	var failed error
	err := l.conn.Write.Do(ctx, func(fd uintptr) bool {
		for {
			switch _, failed = unix.Write(int(fd), frame); failed {
			case unix.EINTR:
				continue
			case unix.EAGAIN:
				return false
			case unix.ECONNREFUSED: // an earlier frame found nobody there; this one has not been sent
				continue
			}
			return true
		}
	})
	return l.said("send", err, failed)
}

func (l *link) Receive(ctx context.Context) ([]byte, error) {
	for {
		var frame []byte
		var failed error
		err := l.conn.Read.Do(ctx, func(fd uintptr) bool {
			for {
				var n int
				switch n, failed = unix.Read(int(fd), l.scratch); failed {
				case nil:
					frame = bytes.Clone(l.scratch[:n])
				case unix.EINTR, unix.ECONNREFUSED: // nobody is there, as on an unplugged cable
					continue
				case unix.EAGAIN:
					return false
				}
				return true
			}
		})
		if err := l.said("receive", err, failed); err != nil {
			return nil, err
		}
		if device.CheckFrame(frame, l.mtu) == nil { // what is no frame is dropped, as a NIC does
			return frame, nil
		}
	}
}

func (l *link) said(what string, err, failed error) error {
	if err == nil {
		err = failed
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return fmt.Errorf("%s: %s: %w", l.name, what, err)
}
