package inspect

import (
	"context"
	"io"
)

// interruptible is a reader whose Read ends when the context does, although that of in goes on. Nothing
// is read from it after that.
type interruptible struct {
	ctx context.Context
	in  io.Reader
	buf []byte
}

func (r *interruptible) Read(p []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	if cap(r.buf) < len(p) {
		r.buf = make([]byte, len(p))
	}
	buf := r.buf[:len(p)]
	done := make(chan result, 1)
	go func() {
		n, err := r.in.Read(buf)
		done <- result{n, err}
	}()
	select {
	case got := <-done:
		copy(p, buf[:got.n])
		return got.n, got.err
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
}
