// Package socket is what links over sockets of the kernel have in common: waiting under a context, where Go's own
// sockets know deadlines alone, and large buffers.
package socket

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/epic-inc/epic/driver/device"
)

// Socket is what a link uses of a socket of Go.
type Socket interface {
	SyscallConn() (syscall.RawConn, error)
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	Close() error
}

// Conn is a socket with contexts.
type Conn struct {
	Read, Write *Side
	socket      Socket
	raw         syscall.RawConn
	closed      atomic.Bool
}

// New takes a socket, which is the Conn's to close, also if there is an error.
func New(s Socket) (*Conn, error) {
	raw, err := s.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	c := &Conn{socket: s, raw: raw}
	c.Read = &Side{conn: c, turn: make(chan struct{}, 1), poll: raw.Read, deadline: s.SetReadDeadline}
	c.Write = &Side{conn: c, turn: make(chan struct{}, 1), poll: raw.Write, deadline: s.SetWriteDeadline}
	return c, nil
}

// Close ends all that waits. Closing again does nothing.
func (c *Conn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	return c.socket.Close()
}

// Control calls f with the descriptor, and returns f's error.
func (c *Conn) Control(f func(fd uintptr) error) error {
	var failed error
	err := c.raw.Control(func(fd uintptr) { failed = f(fd) })
	return errors.Join(c.said(err), failed)
}

// said is device.ErrClosed for whatever a closed socket says.
func (c *Conn) said(err error) error {
	if err != nil && c.closed.Load() {
		return device.ErrClosed
	}
	return err
}

// Side is one direction of a socket. One caller at a time waits at it, because the deadline that ends a wait is the
// socket's.
type Side struct {
	conn     *Conn
	turn     chan struct{}
	poll     func(func(fd uintptr) bool) error
	deadline func(time.Time) error
}

// Do calls try until it returns true, when the socket may be ready. Its error is ctx's, or device.ErrClosed when the
// socket is closed.
func (s *Side) Do(ctx context.Context, try func(fd uintptr) bool) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// Most often it is ready at once: then nobody needs to watch ctx.
	done := false
	if err := s.poll(func(fd uintptr) bool { done = try(fd); return true }); err != nil || done {
		return s.conn.said(err)
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = s.deadline(time.Unix(1, 0)) // fails on a closed socket, and that ends the wait too
		close(ended)
	})
	err := s.poll(try)
	if !stop() {
		<-ended
		_ = s.deadline(time.Time{})
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ctx.Err()
	}
	return s.conn.said(err)
}

// Enlarge asks the kernel to hold so many bytes in each direction. Large buffers make losses rarer; it may give less,
// and that is no error.
func Enlarge(fd uintptr, bytes int) {
	for force, plain := range map[int]int{unix.SO_RCVBUFFORCE: unix.SO_RCVBUF, unix.SO_SNDBUFFORCE: unix.SO_SNDBUF} {
		if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, force, bytes) != nil {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, plain, bytes)
		}
	}
}
