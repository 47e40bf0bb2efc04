package devicetest_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/device/devicetest"
)

func pair() (device.Link, device.Link, error) { return device.Pair(1500) }

func TestPair(t *testing.T) {
	devicetest.Run(t, devicetest.Backend{Open: pair, Notices: true, Lossless: true})
}

// broken is a link with one fault.
type broken struct {
	device.Link
	send    func(l device.Link, ctx context.Context, f []byte) error
	receive func(l device.Link, ctx context.Context) ([]byte, error)
	close   func(l device.Link) error
	mtu     int
}

func (b *broken) Send(ctx context.Context, f []byte) error {
	if b.send == nil {
		return b.Link.Send(ctx, f)
	}
	return b.send(b.Link, ctx, f)
}

func (b *broken) Receive(ctx context.Context) ([]byte, error) {
	if b.receive == nil {
		return b.Link.Receive(ctx)
	}
	return b.receive(b.Link, ctx)
}

func (b *broken) Close() error {
	if b.close == nil {
		return b.Link.Close()
	}
	return b.close(b.Link)
}

func (b *broken) MTU() int { return b.Link.MTU() + b.mtu }

// Each fault is one that the named check must find; the same link without it passes (TestPair).
func TestSuiteCatches(t *testing.T) {
	count := 0
	var kept, held []byte
	stay := make(chan struct{})
	defer close(stay)
	faults := []struct {
		name, check string
		break_      func() *broken
	}{
		{"swaps two frames", "order", func() *broken {
			return &broken{send: func(l device.Link, ctx context.Context, f []byte) error {
				if count++; count == 1000 {
					held = bytes.Clone(f)
					return nil
				}
				err := l.Send(ctx, f)
				if held != nil && err == nil {
					err, held = l.Send(ctx, held), nil
				}
				return err
			}}
		}},
		{"loses one in 2000", "order", func() *broken {
			return &broken{send: func(l device.Link, ctx context.Context, f []byte) error {
				if count++; count%2000 == 0 {
					return nil
				}
				return l.Send(ctx, f)
			}}
		}},
		{"sends one twice", "order", func() *broken {
			return &broken{send: func(l device.Link, ctx context.Context, f []byte) error {
				if count++; count == 77 {
					if err := l.Send(ctx, f); err != nil {
						return err
					}
				}
				return l.Send(ctx, f)
			}}
		}},
		{"pads short frames", "sizes", func() *broken {
			return &broken{send: func(l device.Link, ctx context.Context, f []byte) error {
				if n := 60 - len(f); n > 0 && len(f) >= 14 {
					f = append(bytes.Clone(f), make([]byte, n)...)
				}
				return l.Send(ctx, f)
			}}
		}},
		{"loses the VLAN tag", "sizes", func() *broken {
			return &broken{receive: func(l device.Link, ctx context.Context) ([]byte, error) {
				f, err := l.Receive(ctx)
				if err == nil && f[12] == 0x81 {
					f = append(f[:12], f[16:]...)
				}
				return f, err
			}}
		}},
		{"cuts off at the MTU, header and all", "sizes", func() *broken {
			return &broken{receive: func(l device.Link, ctx context.Context) ([]byte, error) {
				f, err := l.Receive(ctx)
				return f[:min(len(f), 1500)], err
			}}
		}},
		{"promises a larger MTU than it has", "sizes", func() *broken { return &broken{mtu: 100} }},
		{"uses its buffer again", "buffers", func() *broken {
			return &broken{receive: func(l device.Link, ctx context.Context) ([]byte, error) {
				f, err := l.Receive(ctx)
				if kept == nil {
					kept = make([]byte, 2000)
				}
				return kept[:copy(kept, f)], err
			}}
		}},
		{"swallows what is too long", "lengths refused", func() *broken {
			return &broken{send: func(l device.Link, ctx context.Context, f []byte) error {
				if len(f) > device.MaxFrame(1500) {
					return nil
				}
				return l.Send(ctx, f)
			}}
		}},
		{"goes on after Close", "close while receiving", func() *broken {
			return &broken{close: func(device.Link) error { return nil }}
		}},
		{"hears of the context late", "context ends", func() *broken {
			return &broken{receive: func(l device.Link, ctx context.Context) ([]byte, error) {
				short, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
				defer cancel()
				f, err := l.Receive(short)
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				return f, err
			}}
		}},
		{"loses what waits when the peer goes", "peer gone", func() *broken {
			return &broken{send: func(device.Link, context.Context, []byte) error { return nil }}
		}},
		{"loses what does not fit", "congestion", func() *broken {
			return &broken{send: func(l device.Link, ctx context.Context, f []byte) error {
				short, cancel := context.WithTimeout(ctx, time.Millisecond)
				defer cancel()
				if err := l.Send(short, f); err != nil && ctx.Err() == nil {
					return nil
				}
				return ctx.Err()
			}}
		}},
		{"does not end when it is congested", "congestion", func() *broken {
			return &broken{send: func(l device.Link, ctx context.Context, f []byte) error {
				long, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
				defer cancel()
				return l.Send(long, f)
			}}
		}},
		{"spoils a byte now and then", "concurrent", func() *broken {
			return &broken{receive: func(l device.Link, ctx context.Context) ([]byte, error) {
				f, err := l.Receive(ctx)
				if len(f) == 963 {
					f[962] ^= 1
				}
				return f, err
			}}
		}},
		{"leaves a goroutine behind", "order", func() *broken {
			go func() { <-stay }()
			return &broken{}
		}},
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			count, kept, held = 0, nil, nil
			b := devicetest.Backend{Notices: true, Lossless: true, Open: func() (device.Link, device.Link, error) {
				x, y, err := pair()
				if err != nil {
					return nil, nil, err
				}
				bx, by := f.break_(), f.break_()
				bx.Link, by.Link = x, y
				by.mtu = 0
				return bx, by, nil
			}}
			for _, c := range devicetest.Checks() {
				if c.Name == f.check {
					err := c.Do(b)
					require.Error(t, err)
					t.Log(err)
					return
				}
			}
			t.Fatalf("no check %q", f.check)
		})
	}
}
