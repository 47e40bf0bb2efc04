package coll

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// Rendezvous is where the ranks of a group find each other and what the network does for them: a control plane, or a
// file. Its errors name the rank or switch that is at fault; one that has a method Culprits() []int lists the ranks. It is called by one goroutine at a time, but for Watch.
type Rendezvous interface {
	// Join takes the rank's place in its job and returns when every rank has. An error says who is missing, who is
	// there twice, or who disagrees about what.
	Join(ctx context.Context, m Member) (*Peers, error)
	// Subgroup connects the rank's queue pair for an AllReduce (which carries Barrier), a Reduce or a Broadcast; step
	// is as tree.Step.Subgroup returns it, and every rank asks. It returns when the network is ready to take data of
	// all of them. An error that wraps ErrRefused, the same at every rank, says that the network does not carry it:
	// then the hosts do it among themselves.
	Subgroup(ctx context.Context, step tree.Step, qpn uint32) (*Subgroup, error)
	// Quiesced tells that every send of the rank in a subgroup has completed and that it sends no more (protocol.md 9);
	// last is the last psn it used, p0-1 if none: from there a subgroup made again moves on (protocol.md 2).
	Quiesced(ctx context.Context, s *Subgroup, last psn.PSN) error
	// Watch returns when the network says that the group has failed, with an error that says which rank and why, or
	// when ctx ends, with its error.
	Watch(ctx context.Context) error
	// Leave gives the rank's place up.
	Leave(ctx context.Context) error
}

// ErrRefused says that the network does not carry a collective: it has no resource left, or cannot do it. Errors wrap
// it and say why.
var ErrRefused = errors.New("the network does not carry it")

// Member is what a rank says of itself when it joins.
type Member struct {
	Job         string // all ranks of a group give the same
	Rank, Ranks int    // 0..Ranks-1
	MAC         roce.MAC
	IP          netip.Addr
	LinkMTU     int // largest IP packet of its link, in bytes
	// Ring are the QPNs with which the ranks do without the network: towards the rank before it, and the one after it. Both
	// are 0 of a rank that has none: a program that knows nothing but queue pairs to switches. Its job has no ring.
	Ring [2]uint32
	// RingPSN is the first psn that it sends on them, another one each time it joins.
	RingPSN psn.PSN
}

// Peers is what a rank learns by joining.
type Peers struct {
	Members []Member // by rank; the own is among them
	MTU     int      // path MTU of RoCE between the ranks, payload bytes of a packet
	// QP is what the queue pairs of the ring have beside addresses, QPNs and PSNs: timeouts, retries, settings, P_Key.
	QP host.Config
	// MessagePackets and WindowPackets are M and MW of the ring.
	MessagePackets, WindowPackets int
}

// Subgroup is one queue pair of the rank and the pipes behind it.
type Subgroup struct {
	ID string // of whoever made it; Quiesced takes it back
	// QP is complete: addresses, QPNs, p0 in both directions, path MTU, timers. Its QPN decides, whatever was asked for.
	QP host.Config
	// MessagePackets and WindowPackets are M and MW: packets of a message, and the most that are not acknowledged.
	MessagePackets, WindowPackets int
	Mode                          int // of the protocol, 1 to 3
	// Unpinned pipes open by control signals, and each collective has its own operator and type. Others have Op and
	// DType for good.
	Unpinned     bool
	Op           spec.Op
	DType        spec.DType
	Reproducible bool
}

// Refused makes an error that wraps ErrRefused.
func Refused(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrRefused, fmt.Errorf(format, args...))
}
