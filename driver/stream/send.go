package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	batch = 64 // frames of one system call
	// room is how long the sender waits when the interface takes no more. The kernel does not say when there is room.
	room = 50 * time.Microsecond
	// stuck is how long that may last.
	stuck = 2 * time.Second
	// coarse is the least the sender sleeps: what is due meanwhile goes out together.
	coarse = 100 * time.Microsecond
	// sendBuffer is what the kernel is asked to hold; it may give less.
	sendBuffer = 16 << 20
)

// sender puts frames onto an interface.
type sender struct {
	fd       int
	name     string
	mtu      int
	messages [batch]message
	vectors  [batch]unix.Iovec
}

// message is struct mmsghdr of sendmmsg(2).
type message struct {
	header unix.Msghdr
	length uint32
	_      [4]byte
}

// openSender opens an interface of the namespace that the thread is in.
func openSender(name string) (*sender, error) {
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("interface %q: %w (ip link lists them)", name, err)
	}
	// Protocol 0: it receives nothing.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	s := &sender{fd: fd, name: name, mtu: ifi.MTU}
	err = errors.Join(
		os.NewSyscallError("PACKET_QDISC_BYPASS", unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1)),
		os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: ifi.Index})))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), s.close())
	}
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sendBuffer) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer) // as much as one may have
	}
	for i := range s.messages {
		s.messages[i].header.Iov = &s.vectors[i]
		s.messages[i].header.Iovlen = 1
	}
	return s, nil
}

func (s *sender) close() error { return os.NewSyscallError("close", unix.Close(s.fd)) }

// some sends up to a batch of frames, and says how many; none if the interface takes no more now.
func (s *sender) some(frames [][]byte) (int, error) {
	n := min(len(frames), batch)
	for i, f := range frames[:n] {
		s.vectors[i].Base = &f[0]
		s.vectors[i].SetLen(len(f))
	}
	for {
		// Raw, for it does not block: the scheduler would take the processor away after 20 us, and give it back late.
		done, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.messages[0])), uintptr(n), 0, 0, 0)
		runtime.KeepAlive(frames)
		switch errno {
		case 0:
			return int(done), nil
		case unix.EINTR:
		case unix.EAGAIN, unix.ENOBUFS:
			return 0, nil
		default:
			return 0, fmt.Errorf("%s: send: %w", s.name, errno)
		}
	}
}

// play sends the frames in turn, so many in all, at a rate of frames a second or as fast as can be (0).
// It returns how many were sent; with ctx done these are fewer.
func (s *sender) play(ctx context.Context, frames [][]byte, total uint64, rate float64, progress func(more int)) (sent uint64, err error) {
	start := time.Now()
	var full time.Time // since when the interface takes nothing
	for at := 0; sent < total; {
		if ctx.Err() != nil {
			return sent, ctx.Err()
		}
		due := total
		if rate > 0 {
			due = min(total, 1+uint64(time.Since(start).Seconds()*rate))
			if due <= sent {
				next := time.Duration(float64(sent) / rate * float64(time.Second))
				if err := sleep(ctx, max(coarse, next-time.Since(start))); err != nil {
					return sent, err
				}
				continue
			}
		}
		n, err := s.some(frames[at:min(uint64(len(frames)), uint64(at)+due-sent)])
		if err != nil {
			return sent, err
		}
		if n > 0 {
			full = time.Time{}
		} else {
			if full.IsZero() {
				full = time.Now()
			}
			if time.Since(full) > stuck {
				return sent, fmt.Errorf("%s: send: the interface has taken no frame for %v; want one with a carrier (ip link shows it)", s.name, stuck)
			}
			if err := sleep(ctx, room); err != nil {
				return sent, err
			}
			continue
		}
		sent += uint64(n)
		if at += n; at == len(frames) {
			at = 0
		}
		progress(n)
	}
	return sent, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
