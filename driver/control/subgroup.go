package control

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/epic-inc/epic/driver/control/controlpb"
	"github.com/epic-inc/epic/driver/control/failure"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/tree"
)

// creation is a subgroup for which not all ranks have asked.
type creation struct {
	sequence int
	step     tree.Step
	first    int // who asked first
	asked    map[int]*request
	began    time.Time
	timer    *time.Timer
}

type request struct{ qpn uint32 }

// CreateSubgroup is the call of the service.
func (s *Server) CreateSubgroup(ctx context.Context, q *controlpb.CreateSubgroupRequest) (*controlpb.CreateSubgroupReply, error) {
	limit := s.limit(q.WaitMs)
	mine := &request{q.Qpn}
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		j, r, err := s.member(q.Session)
		if err != nil {
			return nil, err
		}
		step, err := stepOf(j, q)
		if err != nil {
			return nil, err
		}
		sub, err := s.ask(j, r, step, q, mine, limit)
		if err != nil {
			return nil, err
		}
		if sub != nil && sub.State == subgroupReady {
			return &controlpb.CreateSubgroupReply{Id: sub.ID, Document: sub.Document}, nil
		}
		if err := s.pause(ctx, j.changed); err != nil {
			if c := s.creating[j.ID]; c != nil && c.asked[r] == mine {
				delete(c.asked, r)
			}
			return nil, err
		}
	}
}

func stepOf(j *job, q *controlpb.CreateSubgroupRequest) (step tree.Step, err error) {
	c, err := tree.ParseCollective(q.Collective)
	step = tree.Step{Collective: c, Root: int(q.Root)}
	switch {
	case err != nil || step.Subgroup() != step || len(step.Split(len(j.Members))) != 1:
		return step, badRequest("job %s: got collective %q, want allreduce, reduce or broadcast: the others are made of these", j.Name, q.Collective)
	case c.HasRoot() && step.Root >= len(j.Members):
		return step, badRequest("job %s: %s: got root rank %d, want 0..%d", j.Name, q.Collective, step.Root, len(j.Members)-1)
	case !c.HasRoot() && step.Root != 0:
		return step, badRequest("job %s: %s: got root rank %d, want none", j.Name, q.Collective, step.Root)
	case q.Qpn < 2 || q.Qpn > psn.Mask:
		return step, badRequest("job %s: got QPN %#x, want 0x2..0xffffff", j.Name, q.Qpn)
	}
	return step, nil
}

// ask notes that a rank wants its n-th subgroup. It returns the subgroup once there is one, and the error that all of
// its ranks get if there will be none.
func (s *Server) ask(j *job, r int, step tree.Step, q *controlpb.CreateSubgroupRequest, mine *request, limit time.Duration) (*subgroup, error) {
	n := int(q.Sequence)
	if n < len(j.Subgroups) {
		sub := j.Subgroups[n]
		if sub.Failure != nil {
			return nil, sub.Failure
		}
		own, err := sub.step()
		if err != nil {
			return nil, err
		}
		if own != step || sub.QPNs[r] != q.Qpn {
			return nil, failure.New(controlpb.Kind_KIND_DISAGREE, []int{r}, "job %s: subgroup %d is %v, with QPN %#06x of %s; it asks for %v with QPN %#06x",
				j.Name, n, own, sub.QPNs[r], j.who(r), step, q.Qpn)
		}
		if sub.State == subgroupRemoving || sub.State == subgroupEnded {
			return nil, failure.New(controlpb.Kind_KIND_DESTROYED, nil, "job %s: subgroup %d (%v) was given back", j.Name, n, own)
		}
		return sub, nil
	}
	if n > len(j.Subgroups) {
		return nil, badRequest("job %s: %s asks for its subgroup %d, but the next is %d", j.Name, j.who(r), n, len(j.Subgroups))
	}
	if j.NoTree != nil {
		return nil, j.NoTree
	}
	for k, m := range j.Members {
		if m.Left {
			return nil, failure.New(controlpb.Kind_KIND_LEFT, []int{k}, "job %s: %s has left, %s asks for %v", j.Name, j.who(k), j.who(r), step)
		}
	}
	c := s.creating[j.ID]
	if c == nil {
		c = &creation{sequence: n, step: step, first: r, asked: map[int]*request{}, began: time.Now()}
		c.timer = time.AfterFunc(limit, func() { s.unasked(j, c) })
		s.creating[j.ID] = c
	}
	if c.step != step {
		return nil, s.refuse(j, c, failure.New(controlpb.Kind_KIND_DISAGREE, []int{c.first, r}, "job %s: ranks disagree: the subgroup %d of %s is for %v, that of %s for %v",
			j.Name, n, j.who(c.first), c.step, j.who(r), step))
	}
	if c.asked[r] == nil || c.asked[r].qpn != q.Qpn {
		c.asked[r] = mine
	}
	if len(c.asked) < len(j.Members) || s.releasing(j, c) || s.coming(j) {
		return nil, nil
	}
	return s.allocate(j, c)
}

// unasked ends a creation whose time is over.
func (s *Server) unasked(j *job, c *creation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil || s.creating[j.ID] != c || j.State != jobRunning {
		return
	}
	var missing []int
	for r := range j.Members {
		if c.asked[r] == nil {
			missing = append(missing, r)
		}
	}
	took := time.Since(c.began).Round(100 * time.Millisecond)
	if len(missing) == 0 {
		_ = s.refuse(j, c, short("job %s: the queue pairs of %v are still those of a subgroup that is not drained, after %v", j.Name, c.step, took))
		return
	}
	_ = s.refuse(j, c, failure.New(controlpb.Kind_KIND_MISSING_RANK, missing, "job %s: %s not asked for %v within %v, which %s asked for",
		j.Name, have(missing), c.step, took, have(slices.Sorted(maps.Keys(c.asked)))))
}

// refuse makes the outcome of a creation an error, for all ranks, and returns it.
func (s *Server) refuse(j *job, c *creation, why error) error {
	c.timer.Stop()
	delete(s.creating, j.ID)
	f, ok := why.(*failure.Error)
	if !ok {
		f = failure.New(controlpb.Kind_KIND_NO_RESOURCE, nil, "%v", why)
	}
	j.Subgroups = append(j.Subgroups, &subgroup{ID: c.id(j), Collective: c.step.Collective.String(), Root: c.step.Root, State: subgroupEnded, Failure: f})
	if err := s.save(change{put: j}); err != nil {
		return err
	}
	s.log.Warn("no subgroup", "job", j.Name, "subgroup", c.step.String(), "reason", f.Message)
	j.move()
	return f
}

func (c *creation) id(j *job) string { return fmt.Sprintf("%s.%d.%v", j.ID, c.sequence, c.step) }

// releasing says whether a subgroup that is being taken out still has one of the queue pairs.
func (s *Server) releasing(j *job, c *creation) bool {
	for _, sub := range j.Subgroups {
		if sub.State != subgroupRemoving {
			continue
		}
		for r, m := range c.asked {
			if sub.QPNs[r] == m.qpn {
				return true
			}
		}
	}
	return false
}

// coming says whether a switch of the job does not answer, but has not been given up either.
func (s *Server) coming(j *job) bool {
	return slices.ContainsFunc(j.Placement.Switches, func(name string) bool {
		a := s.switches[name]
		return !a.up && time.Since(a.down) < s.o.SwitchTimeout
	})
}

// allocate gives a subgroup for which all ranks have asked what it needs, and begins to put it into the switches.
func (s *Server) allocate(j *job, c *creation) (*subgroup, error) {
	qpns := make([]uint32, len(j.Members))
	for r := range qpns {
		qpns[r] = c.asked[r].qpn
	}
	held := s.holding()
	p, err := layout(s.o.Network, j, c.step, qpns, rooms(s.infos(), held))
	if err != nil {
		return nil, s.refuse(j, c, err)
	}
	var last []psn.PSN
	for _, d := range directions(p.group) {
		if u, ok := s.last[d]; ok {
			last = append(last, u.Last)
		}
	}
	psn0, err := firstPSN(last, s.o.FirstPSN())
	if err != nil {
		return nil, s.refuse(j, c, fmt.Errorf("job %s: %v: %w", j.Name, c.step, err))
	}
	text, g, err := p.finish(c.id(j), psn0)
	if err != nil {
		return nil, s.refuse(j, c, fmt.Errorf("job %s: %v: %w", j.Name, c.step, err))
	}
	set := []*group.Group{g}
	for _, sub := range held {
		set = append(set, sub.group)
	}
	if _, err := group.NewSet(set...); err != nil {
		return nil, s.refuse(j, c, badRequest("job %s: %v beside the %d subgroups that there are: %v", j.Name, c.step, len(held), err))
	}
	n := len(j.Members)
	sub := &subgroup{ID: c.id(j), Collective: c.step.Collective.String(), Root: c.step.Root, QPNs: qpns, State: subgroupInstalling, Document: text,
		Rows: p.rows, Quiesced: make([]bool, n), Last: make([]*uint32, n), Gone: make([]bool, n), group: g}
	c.timer.Stop()
	delete(s.creating, j.ID)
	j.Subgroups = append(j.Subgroups, sub)
	if err := s.save(change{put: j}); err != nil {
		return nil, err
	}
	s.spawn(func() { s.tend(j, sub) })
	j.move()
	return sub, nil
}

// subgroupOf finds a subgroup of a running job by its id.
func (s *Server) subgroupOf(session, id string) (*job, int, *subgroup, error) {
	j, r, err := s.member(session)
	if err != nil {
		return nil, 0, nil, err
	}
	for _, sub := range j.Subgroups {
		if sub.ID == id && sub.group != nil {
			return j, r, sub, nil
		}
	}
	return nil, 0, nil, failure.New(controlpb.Kind_KIND_UNKNOWN, nil, "job %s: has no subgroup %q", j.Name, id)
}

// Quiesced is the call of the service.
func (s *Server) Quiesced(_ context.Context, q *controlpb.QuiescedRequest) (*controlpb.QuiescedReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, r, sub, err := s.subgroupOf(q.Session, q.Subgroup)
	if err != nil {
		return nil, err
	}
	if q.LastPsn != nil && *q.LastPsn > psn.Mask {
		return nil, badRequest("job %s: %s: last PSN: got %#x, want 24 bits", j.Name, j.who(r), *q.LastPsn)
	}
	if !sub.Quiesced[r] {
		sub.Quiesced[r], sub.Last[r] = true, q.LastPsn
		if err := s.save(change{put: j}); err != nil {
			return nil, err
		}
		j.move()
	}
	return &controlpb.QuiescedReply{Waiting: without(sub.Quiesced)}, nil
}

// without lists the ranks that are not.
func without(are []bool) []uint32 {
	var ranks []uint32
	for r, is := range are {
		if !is {
			ranks = append(ranks, uint32(r))
		}
	}
	return ranks
}

// Destroy is the call of the service.
func (s *Server) Destroy(_ context.Context, q *controlpb.DestroyRequest) (*controlpb.DestroyReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case q.Session == "":
		return s.destroyJob(q)
	case q.Subgroup == "":
		return s.leave(q)
	}
	j, r, sub, err := s.subgroupOf(q.Session, q.Subgroup)
	if err != nil {
		return nil, err
	}
	if !sub.Gone[r] {
		sub.Gone[r] = true
		if sub.holds() && !slices.Contains(sub.Gone, false) {
			sub.State = subgroupRemoving
		}
		if err := s.save(change{put: j}); err != nil {
			return nil, err
		}
		j.move()
	}
	return &controlpb.DestroyReply{Done: sub.State == subgroupEnded, Waiting: without(sub.Gone)}, nil
}

func (s *Server) leave(q *controlpb.DestroyRequest) (*controlpb.DestroyReply, error) {
	if err := s.ctx.Err(); err != nil {
		return nil, s.gone()
	}
	j, ok := s.sessions[q.Session]
	if !ok {
		return &controlpb.DestroyReply{Done: true}, nil // it ended long ago
	}
	r, _ := j.bySession(q.Session)
	left := make([]bool, len(j.Members))
	if m := &j.Members[r]; j.State == jobRunning && !m.Left {
		m.Left = true
		s.log.Info("rank leaves", "job", j.Name, "rank", r)
		var err error
		if slices.ContainsFunc(j.Members, func(m member) bool { return !m.Left }) {
			err = s.save(change{put: j})
		} else {
			err = s.end(j, nil, "") // in one write: a job that all have left must not be left running
		}
		if err != nil {
			return nil, err
		}
		j.move()
	}
	for k := range j.Members {
		left[k] = j.Members[k].Left
	}
	return &controlpb.DestroyReply{Done: j.State == jobEnded, Waiting: without(left)}, nil
}

func (s *Server) destroyJob(q *controlpb.DestroyRequest) (*controlpb.DestroyReply, error) {
	if err := s.ctx.Err(); err != nil {
		return nil, s.gone()
	}
	why := failure.New(controlpb.Kind_KIND_DESTROYED, nil, "job %s: was destroyed by the operator", q.Job)
	if g, ok := s.joining[q.Job]; ok && !g.forming {
		s.dissolve(g, why)
		return &controlpb.DestroyReply{Done: true}, nil
	}
	j, ok := s.current[q.Job]
	if !ok {
		return nil, failure.New(controlpb.Kind_KIND_UNKNOWN, nil, "job %q: there is none; there are: %s", q.Job, cmp.Or(s.names(), "none"))
	}
	if err := s.end(j, why, ""); err != nil {
		return nil, err
	}
	return &controlpb.DestroyReply{Done: j.State == jobEnded}, nil
}

func (s *Server) names() string {
	text := ""
	for i, n := range slices.Sorted(maps.Keys(s.current)) {
		if i == 8 {
			return text + ", ..."
		}
		if i > 0 {
			text += ", "
		}
		text += n
	}
	return text
}

// Renew is the call of the service.
func (s *Server) Renew(_ context.Context, q *controlpb.RenewRequest) (*controlpb.RenewReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, r, err := s.member(q.Session)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	j.Members[r].heard, j.Members[r].lease = now, now.Add(s.o.Lease)
	for _, p := range q.Positions {
		for _, sub := range j.Subgroups {
			if sub.ID == p.Subgroup && p.LastPsn <= psn.Mask {
				if sub.reports == nil {
					sub.reports = map[int]report{}
				}
				sub.reports[r] = report{psn.PSN(p.LastPsn), now}
			}
		}
	}
	j.move() // who comes as the same rank waits to see it alive
	return &controlpb.RenewReply{LeaseMs: uint32(s.o.Lease.Milliseconds())}, nil
}

// WatchErrors is the call of the service.
func (s *Server) WatchErrors(q *controlpb.WatchErrorsRequest, stream grpc.ServerStreamingServer[controlpb.GroupError]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		j, r, err := s.member(q.Session)
		if err != nil {
			if j := s.sessions[q.Session]; j == nil || s.ctx.Err() != nil {
				return err
			} else if j.Failure != nil {
				told := &controlpb.GroupError{Failure: j.Failure.Proto(), Subgroup: j.FailedAt}
				s.mu.Unlock()
				defer s.mu.Lock()
				return stream.Send(told)
			}
			return nil
		}
		if err := s.pause(stream.Context(), j.changed); err != nil {
			if m := &j.Members[r]; s.ctx.Err() == nil && j.State == jobRunning && !m.Left {
				if soon := time.Now().Add(linger); soon.Before(m.lease) {
					m.lease = soon // its process has probably died
				}
			}
			return err
		}
	}
}
