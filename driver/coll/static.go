package coll

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// Static is the rendezvous of a group.yaml: everybody has the file, and the switches are programmed from it. It knows
// nothing of what happens: who is missing, the ranks find out among themselves. Its subgroups begin at the PSNs of the
// file, so the switches are programmed anew before each job.
type Static struct {
	g    *group.Group
	rank int
}

// ringQPN is the first QPN that the ranks' rings use; those of a file are below it.
const ringQPN = 0x800000

// NewStatic is the rendezvous of a rank of the group.
func NewStatic(g *group.Group, rank int) (*Static, error) {
	if rank < 0 || rank >= len(g.Ranks) {
		return nil, fmt.Errorf("rank: got %d, want 0..%d, as the group has %d ranks", rank, len(g.Ranks)-1, len(g.Ranks))
	}
	for i, sub := range g.SubgroupList() {
		if q := slices.Max(sub.QPNs); q >= ringQPN/2 {
			return nil, fmt.Errorf("subgroup %d: got QPN %#06x of a rank, want less than %#06x: the ranks' own connections have the others", i, q, ringQPN/2)
		}
	}
	return &Static{g, rank}, nil
}

// Address is the rank's MAC and IP address in the file.
func (s *Static) Address() (roce.MAC, netip.Addr) {
	r := s.g.Ranks[s.rank]
	return roce.MAC(r.MAC), r.IP.Addr
}

// Ranks is how many ranks the file has.
func (s *Static) Ranks() int { return len(s.g.Ranks) }

// Join gives the addresses of the file at once, whoever is there.
func (s *Static) Join(_ context.Context, m Member) (*Peers, error) {
	mac, ip := s.Address()
	switch {
	case m.Rank != s.rank || m.Ranks != len(s.g.Ranks):
		return nil, fmt.Errorf("group file: got rank %d of %d, want %d of %d", m.Rank, m.Ranks, s.rank, len(s.g.Ranks))
	case m.MAC != mac || m.IP != ip:
		return nil, fmt.Errorf("group file: rank %d has MAC %v, IP %v; want %v, %v as the file", m.Rank, m.MAC, m.IP, mac, ip)
	}
	qp, err := s.g.HostConfig(s.rank, 0)
	if err != nil {
		return nil, err
	}
	p := &Peers{MTU: s.g.MTU, QP: qp, MessagePackets: s.g.Host.MessagePackets}
	// No slots are behind a ring: its window is as large as the NIC's.
	p.WindowPackets = max(s.g.Host.WindowPackets, qp.Settings.Window)
	for r, other := range s.g.Ranks {
		one := m
		one.Rank, one.MAC, one.IP = r, roce.MAC(other.MAC), other.IP.Addr
		first, err := s.g.HostConfig(r, 0)
		if err != nil {
			return nil, err
		}
		one.Ring = [2]uint32{ringQPN + 2*first.QPN, ringQPN + 2*first.QPN + 1}
		one.RingPSN = first.SendPSN
		p.Members = append(p.Members, one)
	}
	return p, nil
}

// Subgroup is that of the file.
func (s *Static) Subgroup(_ context.Context, step tree.Step, _ uint32) (*Subgroup, error) {
	i, err := s.g.SubgroupOf(step)
	if err != nil {
		return nil, Refused("group file: %w", err)
	}
	unpinned, flags, err := s.g.Control()
	if err != nil {
		return nil, Refused("group file: %w", err)
	}
	qp, err := s.g.HostConfig(s.rank, i)
	if err != nil {
		return nil, err
	}
	list := s.g.SubgroupList()
	one := &Subgroup{ID: list[i].Name, QP: qp, MessagePackets: s.g.Host.MessagePackets, WindowPackets: s.g.Host.WindowPackets,
		Unpinned: unpinned, Reproducible: flags&spec.ControlReproducible != 0}
	for _, sw := range s.g.Switches {
		for _, p := range sw.Pipes {
			if p.Subgroup == list[i].Name {
				one.Mode, one.Op, one.DType = s.g.ModeOf(&p), p.Op, p.DType
			}
		}
	}
	return one, nil
}

// Quiesced tells nobody.
func (s *Static) Quiesced(context.Context, *Subgroup, psn.PSN) error { return nil }

// Watch knows of nothing until ctx ends.
func (s *Static) Watch(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// Leave tells nobody.
func (s *Static) Leave(context.Context) error { return nil }
