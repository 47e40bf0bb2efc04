package interop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/interop/guest"
)

// nic is the end of a guest's cable as a device.Link, for switches that run in real time. It loses frames as its
// seed says, and all while it is unplugged.
type nic struct {
	g      *guest.Guest
	in     chan []byte // from the guest
	closed chan struct{}
	once   sync.Once

	unplugged atomic.Bool
	lost      atomic.Uint64

	mu   sync.Mutex
	rng  *rand.Rand
	loss float64
}

// nicDepth is how many frames of a guest wait for the switch.
const nicDepth = 1024

func newNIC(g *guest.Guest, seed uint64, loss float64) *nic {
	return &nic{g: g, in: make(chan []byte, nicDepth), closed: make(chan struct{}), rng: rand.New(rand.NewPCG(seed, 0)), loss: loss}
}

var _ device.Link = (*nic)(nil)

// loses decides the fate of a frame.
func (n *nic) loses() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unplugged.Load() || n.rng.Float64() < n.loss {
		n.lost.Add(1)
		return true
	}
	return false
}

// take is given a frame of the guest.
func (n *nic) take(frame []byte) {
	if n.loses() {
		return
	}
	select {
	case n.in <- frame:
	default: // as a NIC's queue
		n.lost.Add(1)
	}
}

// Send is device.Link's.
func (n *nic) Send(_ context.Context, frame []byte) error {
	if err := device.CheckFrame(frame, n.MTU()); err != nil {
		return err
	}
	select {
	case <-n.closed:
		return fmt.Errorf("guest's link: %w", device.ErrClosed)
	default:
	}
	if n.loses() {
		return nil
	}
	return n.g.Send(frame)
}

// Receive is device.Link's.
func (n *nic) Receive(ctx context.Context) ([]byte, error) {
	select {
	case f := <-n.in:
		return f, nil
	case <-n.closed:
		return nil, fmt.Errorf("guest's link: %w", device.ErrClosed)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// MTU is device.Link's.
func (n *nic) MTU() int { return guest.MTU }

// Close is device.Link's. The guest goes on.
func (n *nic) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}
