package device

import (
	"context"
	"errors"
	"fmt"
)

// ErrClosed is what the calls of a Link or Board say after Close, and those of a Link when the other side is known to have gone for
// good. Errors wrap it.
var ErrClosed = errors.New("link is closed")

// Link carries Ethernet frames, without FCS, between a host and the network.
//
// It is no better than Ethernet: a frame may be lost without a word, above all when nobody receives. What arrives is
// whole and, unless the network between reorders, in the order of Send. All methods may be called from several
// goroutines at once.
type Link interface {
	// Send gives one frame to the link, which copies it. It blocks while the link is congested, until ctx ends.
	// A frame that is no Ethernet frame or longer than MTU allows is an error (CheckFrame).
	Send(ctx context.Context, frame []byte) error
	// Receive returns the next frame; the slice is the caller's. It blocks until there is one or ctx ends.
	Receive(ctx context.Context) ([]byte, error)
	// MTU is the largest IP packet it carries, in bytes.
	MTU() int
	// Close ends the calls under way and to come with ErrClosed. Closing again does nothing.
	Close() error
}

const (
	// HeaderBytes is the shortest frame: an Ethernet header without anything after it.
	HeaderBytes = 14
	// tagBytes of VLAN tags do not count against the MTU: two of them.
	tagBytes = 8
)

// MaxFrame is the longest frame of a link with an MTU, in bytes: header, two VLAN tags and the IP packet.
func MaxFrame(mtu int) int { return HeaderBytes + tagBytes + mtu }

// CheckFrame returns nil if a link with an MTU takes the frame, or what is wrong with its length.
func CheckFrame(frame []byte, mtu int) error {
	if n := len(frame); n < HeaderBytes || n > MaxFrame(mtu) {
		return fmt.Errorf("frame: got %d bytes, want %d..%d (MTU %d)", n, HeaderBytes, MaxFrame(mtu), mtu)
	}
	return nil
}

// MTU limits: the least that carries a RoCE packet of 256 bytes over IPv6 and the most that an IP packet has.
const (
	MinMTU = 576
	MaxMTU = 65535
)

// CheckMTU returns nil if a link can have the MTU.
func CheckMTU(mtu int) error {
	if mtu < MinMTU || mtu > MaxMTU {
		return fmt.Errorf("link MTU: got %d bytes, want %d..%d", mtu, MinMTU, MaxMTU)
	}
	return nil
}
