package stream

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/google/gopacket/afpacket"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const (
	blockBytes = 1 << 20
	blocks     = 64
	// blockTime is how long a block of the ring waits for more frames before it is given to us.
	blockTime = time.Millisecond
	pollTime  = 20 * time.Millisecond
)

// receiver takes frames from an interface, out of a ring that the kernel fills.
type receiver struct {
	ring    *afpacket.TPacket
	name    string
	promisc int // socket that keeps the interface promiscuous
}

// openReceiver opens an interface of the namespace that the thread is in.
func openReceiver(name string) (*receiver, error) {
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("interface %q: %w (ip link lists them)", name, err)
	}
	ring, err := afpacket.NewTPacket(afpacket.OptInterface(name), afpacket.TPacketVersion3, afpacket.OptBlockSize(blockBytes),
		afpacket.OptNumBlocks(blocks), afpacket.OptFrameSize(1<<11), afpacket.OptBlockTimeout(blockTime), afpacket.OptPollTimeout(pollTime),
		afpacket.OptAddVLANHeader(true))
	if err != nil {
		return nil, fmt.Errorf("%s: ring: %w", name, err)
	}
	r := &receiver{ring: ring, name: name, promisc: -1}
	if err := errors.Join(r.incomingOnly(), r.promiscuous(ifi.Index)); err != nil {
		r.close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// incomingOnly leaves out what the own machine sends through the interface.
func (r *receiver) incomingOnly() error {
	filter, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.PACKET_OUTGOING, SkipTrue: 1},
		bpf.RetConstant{Val: 1 << 18},
		bpf.RetConstant{Val: 0},
	})
	if err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	if err := r.ring.SetBPF(filter); err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	return nil
}

// promiscuous lets the interface take frames of any address, as long as the receiver is open.
func (r *receiver) promiscuous(index int) (err error) {
	if r.promisc, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	if err := unix.SetsockoptPacketMreq(r.promisc, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP,
		&unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_PROMISC}); err != nil {
		return fmt.Errorf("promiscuous mode: %w", err)
	}
	return nil
}

func (r *receiver) close() {
	r.ring.Close()
	if r.promisc >= 0 {
		_ = unix.Close(r.promisc)
	}
}

// next is a frame, valid until the next call, or nil if none came for a while.
func (r *receiver) next() ([]byte, error) {
	frame, _, err := r.ring.ZeroCopyReadPacketData()
	switch {
	case errors.Is(err, afpacket.ErrTimeout), errors.Is(err, unix.EINTR):
		return nil, nil
	case errors.Is(err, afpacket.ErrPoll):
		return nil, fmt.Errorf("%s: receive: the interface is down, or has been removed", r.name)
	case err != nil:
		return nil, fmt.Errorf("%s: receive: %w", r.name, err)
	}
	return frame, nil
}

// dropped is how many frames found no room in the ring.
func (r *receiver) dropped() (uint64, error) {
	_, stats, err := r.ring.SocketStats()
	if err != nil {
		return 0, fmt.Errorf("%s: statistics of the ring: %w", r.name, err)
	}
	return uint64(stats.Drops()), nil
}
