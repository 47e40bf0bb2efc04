// Package raw is a device.Link on a network interface of Linux: a NIC, one end of a veth, a TAP. It needs the
// capability CAP_NET_RAW.
package raw

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/mdlayher/packet"
	"golang.org/x/sys/unix"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/device/internal/socket"
	"github.com/epic-inc/epic/driver/namespace"
)

const (
	// bufferBytes is what the kernel is asked to hold in each direction; it may give less.
	bufferBytes = 16 << 20
	// downPoll is how often a link whose interface is down looks whether it still exists.
	downPoll = 200 * time.Millisecond
	// fullPause is how long Send waits before it offers a frame again to an interface whose queue is full. The kernel
	// does not say when there is room.
	fullPause = 50 * time.Microsecond
)

// Options say which interface.
type Options struct {
	Interface string
	// Namespace is the network namespace the interface is in: a name of `ip netns`, or a path as /proc/1234/ns/net.
	// Empty: that of the calling process.
	Namespace string
}

type link struct {
	conn *socket.Conn
	name string
	mtu  int
	down atomic.Bool // the kernel said so, and nothing has come since

	scratch, oob []byte // of Receive, within its turn
}

// Open makes a link of an interface, promiscuous, so that its owner may have any address. While the interface is
// down frames are lost; when it is removed the link is closed. What the own machine sends through the same interface
// is not received.
func Open(o Options) (device.Link, error) {
	name := "raw link " + o.Interface
	if o.Namespace != "" {
		name += " in namespace " + o.Namespace
	}
	l := &link{name: name, oob: make([]byte, unix.CmsgSpace(auxBytes))}
	err := namespace.Inside(o.Namespace, func() error { return l.open(o.Interface) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, namespace.Explain(err))
	}
	return l, nil
}

func (l *link) open(name string) error {
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return fmt.Errorf("interface %q: %w (ip link lists them)", name, err)
	}
	p, err := packet.Listen(ifi, packet.Raw, unix.ETH_P_ALL, nil)
	if err != nil {
		return err
	}
	conn, err := socket.New(p)
	if err != nil {
		return err
	}
	if err := prepare(p, conn); err != nil {
		return errors.Join(err, conn.Close())
	}
	l.conn, l.mtu = conn, min(ifi.MTU, device.MaxMTU)
	l.scratch = make([]byte, device.MaxFrame(l.mtu)+1)
	return nil
}

func prepare(p *packet.Conn, conn *socket.Conn) error {
	if err := p.SetPromiscuous(true); err != nil {
		return fmt.Errorf("promiscuous mode: %w", err)
	}
	return conn.Control(func(fd uintptr) error {
		socket.Enlarge(fd, bufferBytes)
		return errors.Join(
			os.NewSyscallError("PACKET_AUXDATA", unix.SetsockoptInt(int(fd), unix.SOL_PACKET, unix.PACKET_AUXDATA, 1)),
			os.NewSyscallError("PACKET_IGNORE_OUTGOING", unix.SetsockoptInt(int(fd), unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1)))
	})
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
	for {
		var failed error
		err := l.conn.Write.Do(ctx, func(fd uintptr) bool {
			for {
				switch _, failed = unix.Write(int(fd), frame); failed {
				case unix.EINTR:
					continue
				case unix.EAGAIN:
					return false
				}
				return true
			}
		})
		switch {
		case err != nil:
			return l.said("send", err)
		case failed == nil, failed == unix.ENETDOWN: // lost, as on a cable that is not plugged in
			return nil
		case failed == unix.ENOBUFS: // the queue of the interface is full
			select {
			case <-time.After(fullPause):
			case <-ctx.Done():
				return ctx.Err()
			}
		default:
			return l.said("send", l.gone(failed))
		}
	}
}

func (l *link) Receive(ctx context.Context) ([]byte, error) {
	for {
		frame, err := l.receive(ctx)
		switch {
		case err != nil:
			return nil, l.said("receive", err)
		case frame != nil:
			l.down.Store(false)
			return frame, nil
		}
	}
}

// receive waits once; without a frame and an error there may be one the next time.
func (l *link) receive(ctx context.Context) ([]byte, error) {
	once := ctx
	if l.down.Load() {
		var cancel context.CancelFunc
		once, cancel = context.WithTimeout(ctx, downPoll)
		defer cancel()
	}
	var frame []byte
	var failed error
	err := l.conn.Read.Do(once, func(fd uintptr) bool {
		for {
			var n, oobn int
			switch n, oobn, _, _, failed = unix.Recvmsg(int(fd), l.scratch, l.oob, 0); failed {
			case nil:
				frame = withTag(l.scratch[:n], parseAux(l.oob[:oobn]))
			case unix.EINTR:
				continue
			case unix.EAGAIN:
				return false
			}
			return true
		}
	})
	switch {
	case err != nil && ctx.Err() == nil && once.Err() != nil:
		return nil, l.gone(nil)
	case err != nil:
		return nil, err
	case failed == unix.ENETDOWN:
		l.down.Store(true)
		return nil, l.gone(nil)
	case failed != nil:
		return nil, l.gone(failed)
	case device.CheckFrame(frame, l.mtu) != nil:
		return nil, nil // merged by the interface (GRO): what a NIC of this MTU would drop
	}
	return frame, nil
}

// withTag is a copy of a frame with the VLAN tag that the kernel has taken out of it.
func withTag(frame []byte, aux auxData) []byte {
	const addresses = 12
	if !aux.tagged || len(frame) < addresses {
		return bytes.Clone(frame)
	}
	tagged := make([]byte, 0, len(frame)+4)
	tagged = append(tagged, frame[:addresses]...)
	tagged = binary.BigEndian.AppendUint16(tagged, aux.tpid)
	tagged = binary.BigEndian.AppendUint16(tagged, aux.tci)
	return append(tagged, frame[addresses:]...)
}

// gone turns an error into ErrClosed if the interface does not exist any more.
func (l *link) gone(err error) error {
	removed := false
	if ctlErr := l.conn.Control(func(fd uintptr) error {
		sa, nameErr := unix.Getsockname(int(fd))
		ll, ok := sa.(*unix.SockaddrLinklayer)
		removed = nameErr == nil && ok && ll.Ifindex == -1 // packet(7) does not say so; the kernel has since 2.6
		return nil
	}); ctlErr != nil {
		return ctlErr
	}
	if removed {
		return fmt.Errorf("the interface has been removed: %w", device.ErrClosed)
	}
	return err
}

func (l *link) said(what string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%s: %s: %w", l.name, what, err)
}

// auxBytes is the size of struct tpacket_auxdata.
const auxBytes = 20

// auxData is what packet(7) tells beside a frame.
type auxData struct {
	tagged    bool
	tpid, tci uint16
}

// parseAux reads struct tpacket_auxdata: status, len, snaplen of 32 bits, then mac, net, tci, tpid of 16.
func parseAux(oob []byte) auxData {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return auxData{}
	}
	for _, m := range messages {
		if m.Header.Level != unix.SOL_PACKET || m.Header.Type != unix.PACKET_AUXDATA || len(m.Data) < auxBytes {
			continue
		}
		status := binary.NativeEndian.Uint32(m.Data)
		a := auxData{tagged: status&unix.TP_STATUS_VLAN_VALID != 0, tpid: unix.ETH_P_8021Q,
			tci: binary.NativeEndian.Uint16(m.Data[16:])}
		if status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
			a.tpid = binary.NativeEndian.Uint16(m.Data[18:])
		}
		return a
	}
	return auxData{}
}
