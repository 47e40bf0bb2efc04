package server

import (
	"context"
	"net"
	"sync"
	"time"
)

// writer writes to a simulator that may have stopped reading: a write ends after the patience given,
// with os.ErrDeadlineExceeded, or when ctx ends, with its cause.
type writer struct {
	sock net.Conn

	mu       sync.Mutex // the end of ctx comes in a goroutine of its own
	ctx      context.Context
	patience time.Duration
}

func newWriter(ctx context.Context, sock net.Conn, patience time.Duration) *writer {
	w := &writer{sock: sock, ctx: ctx, patience: patience}
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.ctx == ctx {
			_ = sock.SetWriteDeadline(time.Unix(1, 0))
		}
	})
	return w
}

func (w *writer) Write(p []byte) (int, error) {
	if err := w.begin(); err != nil {
		return 0, err
	}
	n, err := w.sock.Write(p)
	if cause := w.interrupted(); err != nil && cause != nil {
		err = cause
	}
	return n, err
}

// begin sets the time that a write has. It either sees that ctx has ended, or the end of ctx comes after
// it and takes that time away.
func (w *writer) begin() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	return w.sock.SetWriteDeadline(time.Now().Add(w.patience))
}

// interrupted returns why ctx ended, nil if it has not.
func (w *writer) interrupted() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return context.Cause(w.ctx)
}

// last makes the writes that follow take at most d, even after the end of ctx.
func (w *writer) last(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ctx, w.patience = context.Background(), d
}
