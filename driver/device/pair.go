package device

import (
	"bytes"
	"context"
	"fmt"
	"sync"
)

// pairDepth is how many frames wait at the receiving end of a Pair before Send blocks.
const pairDepth = 1024

// Pair is a wire within the process: what is sent at one end is received at the other. It loses nothing: Send blocks
// while 1024 frames wait. When one end is closed the other receives what is still on the wire, and then ErrClosed.
func Pair(mtu int) (a, b Link, err error) {
	if err := CheckMTU(mtu); err != nil {
		return nil, nil, fmt.Errorf("pair: %w", err)
	}
	ab, ba := make(chan []byte, pairDepth), make(chan []byte, pairDepth)
	closedA, closedB := make(chan struct{}), make(chan struct{})
	return &pairEnd{mtu: mtu, out: ab, in: ba, closed: closedA, gone: closedB},
		&pairEnd{mtu: mtu, out: ba, in: ab, closed: closedB, gone: closedA}, nil
}

type pairEnd struct {
	mtu     int
	out, in chan []byte // never closed: a sender may be at it
	closed  chan struct{}
	gone    chan struct{} // the other end's closed
	once    sync.Once
}

func (p *pairEnd) MTU() int { return p.mtu }

func (p *pairEnd) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// over says whether the call must not go on, whatever else is possible.
func (p *pairEnd) over(ctx context.Context) error {
	select {
	case <-p.closed:
		return fmt.Errorf("pair: %w", ErrClosed)
	default:
		return ctx.Err()
	}
}

func (p *pairEnd) Send(ctx context.Context, frame []byte) error {
	if err := CheckFrame(frame, p.mtu); err != nil {
		return fmt.Errorf("pair: %w", err)
	}
	if err := p.over(ctx); err != nil {
		return err
	}
	select {
	case <-p.gone:
		return fmt.Errorf("pair: the other end has gone: %w", ErrClosed)
	default:
	}
	select {
	case p.out <- bytes.Clone(frame):
		return nil
	case <-p.gone:
		return fmt.Errorf("pair: the other end has gone: %w", ErrClosed)
	case <-p.closed:
		return fmt.Errorf("pair: %w", ErrClosed)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pairEnd) Receive(ctx context.Context) ([]byte, error) {
	if err := p.over(ctx); err != nil {
		return nil, err
	}
	select {
	case frame := <-p.in:
		return frame, nil
	default:
	}
	select {
	case frame := <-p.in:
		return frame, nil
	case <-p.gone:
		select {
		case frame := <-p.in: // sent before it went
			return frame, nil
		default:
			return nil, fmt.Errorf("pair: the other end has gone: %w", ErrClosed)
		}
	case <-p.closed:
		return nil, fmt.Errorf("pair: %w", ErrClosed)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
