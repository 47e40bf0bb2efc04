package control

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/epic-inc/epic/driver/control/controlpb"
	"github.com/epic-inc/epic/driver/control/failure"
)

// Status is the call of the service.
func (s *Server) Status(_ context.Context, q *controlpb.StatusRequest) (*controlpb.StatusReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, s.gone()
	}
	reply := &controlpb.StatusReply{}
	all := rooms(s.infos(), s.holding())
	for _, n := range s.o.Network.Switches {
		a := s.switches[n.Name]
		one := &controlpb.SwitchStatus{Name: n.Name}
		if !a.up {
			one.Error = a.err.Error()
		}
		if r := all[n.Name]; r != nil {
			u := r.use()
			one.Endpoints = &controlpb.Use{Used: uint32(u.Endpoints), Total: uint32(u.EndpointsOf)}
			one.Pipes = &controlpb.Use{Used: uint32(u.Pipes), Total: uint32(u.PipesOf)}
			one.Blocks = &controlpb.Use{Used: uint32(u.Blocks), Total: uint32(u.BlocksOf)}
		}
		reply.Switches = append(reply.Switches, one)
	}
	for _, name := range slices.Sorted(maps.Keys(s.joining)) {
		if q.Job == "" || q.Job == name {
			reply.Jobs = append(reply.Jobs, s.joining[name].status())
		}
	}
	jobs := slices.SortedFunc(maps.Values(s.jobs), func(a, b *job) int { return int(int64(a.Generation) - int64(b.Generation)) })
	for _, j := range jobs {
		if q.Job == "" || q.Job == j.Name {
			reply.Jobs = append(reply.Jobs, s.status(j))
		}
	}
	if q.Job != "" && len(reply.Jobs) == 0 {
		return nil, failure.New(controlpb.Kind_KIND_UNKNOWN, nil, "job %q: there is none", q.Job)
	}
	return reply, nil
}

func (g *gathering) status() *controlpb.JobStatus {
	one := &controlpb.JobStatus{Name: g.name, State: "gathering"}
	for _, r := range slices.Sorted(maps.Keys(g.members)) {
		m := g.members[r]
		one.Ranks = uint32(m.ranks)
		one.Members = append(one.Members, memberStatus(r, m.member))
	}
	return one
}

func memberStatus(rank int, m member) *controlpb.MemberStatus {
	one := &controlpb.MemberStatus{Rank: uint32(rank), Mac: m.MAC.String(), Ip: m.IP.String(), Left: m.Left}
	if m.Place != nil {
		one.Switch, one.Port = m.Place.Switch, uint32(m.Place.Port)
	}
	return one
}

func (s *Server) status(j *job) *controlpb.JobStatus {
	one := &controlpb.JobStatus{Name: j.Name, Id: j.ID, State: string(j.State), Ranks: uint32(len(j.Members)), Mode: uint32(j.Terms.Mode), Mtu: uint32(j.Terms.MTU)}
	switch {
	case j.Failure != nil:
		one.Error = j.Failure.Message
	case j.NoTree != nil:
		one.Error = j.NoTree.Message
	}
	for r, m := range j.Members {
		ms := memberStatus(r, m)
		if j.State == jobRunning && !m.Left {
			ms.LeaseMs = max(0, time.Until(m.lease).Milliseconds())
		}
		one.Members = append(one.Members, ms)
	}
	for _, sub := range j.Subgroups {
		ss := &controlpb.SubgroupStatus{Id: sub.ID, Collective: sub.name(), State: string(sub.State)}
		if sub.group != nil {
			ss.Psn0 = uint32(sub.psn0())
		}
		for r, q := range sub.Quiesced {
			if q {
				ss.Quiesced = append(ss.Quiesced, uint32(r))
			}
		}
		if sub.Failure != nil {
			ss.Error = sub.Failure.Message
		}
		one.Subgroups = append(one.Subgroups, ss)
	}
	if c := s.creating[j.ID]; c != nil {
		one.Subgroups = append(one.Subgroups, &controlpb.SubgroupStatus{Collective: c.step.String(), State: "gathering"})
	}
	return one
}
