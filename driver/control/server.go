// Package control is the out-of-band side of the collectives: it brings the ranks of a job together, gives each of their
// collectives endpoints, pipes and memory in the switches, and takes them back, also from ranks that have died.
//
// A Server is the one process beside the switches. Ranks call it (package rendezvous); it programs switches (package
// target). What it has done and is about to do is in a Store, so that it may be killed and started again at any moment.
package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/epic-inc/epic/driver/control/controlpb"
	"github.com/epic-inc/epic/driver/control/failure"
	"github.com/epic-inc/epic/driver/control/target"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/psn"
)

// Options of a Server. Network and Store must be given.
type Options struct {
	Network *Network
	Store   *Store // the Server's until it is closed
	Placer  Placer // nil: NewWhole
	// Switches by name, of this process; the others are dialled where the network says.
	Switches map[string]target.Switch

	Lease         time.Duration // a rank not heard of for so long is dead; 0: DefaultLease
	Wait          time.Duration // most that a rank waits for the others; 0: DefaultWait
	SwitchTimeout time.Duration // a switch that does not answer for so long is lost; 0: DefaultSwitchTimeout
	Drain         time.Duration // most that a subgroup which its ranks gave back may take to drain; 0: DefaultDrain

	FirstPSN func() psn.PSN // of queue pairs without a past; nil: random
	Log      *slog.Logger   // nil: none
}

// The defaults of Options.
const (
	DefaultLease         = 10 * time.Second
	DefaultWait          = 60 * time.Second
	DefaultSwitchTimeout = 10 * time.Second
	DefaultDrain         = 2 * time.Second
)

// linger is what is left of the lease of a rank whose connection has broken.
const linger = 2 * time.Second

// keptJobs is how many jobs that have ended are kept, to tell their ranks why.
const keptJobs = 64

// pastLife is how long the last PSN of a direction is kept: far longer than any packet lives or queue pair retries.
const pastLife = 24 * time.Hour

// Server is the control plane.
type Server struct {
	controlpb.UnimplementedControlServer

	o     Options
	log   *slog.Logger
	ctx   context.Context // done when the Server is closed or its store has failed
	stop  context.CancelCauseFunc
	work  sync.WaitGroup
	close sync.Once

	mu       sync.Mutex
	jobs     map[string]*job // by id
	current  map[string]*job // by name: those not ended
	sessions map[string]*job
	joining  map[string]*gathering // by name
	creating map[string]*creation  // by id of the job
	last     map[direction]used
	switches map[string]*attached
	remotes  []*target.Remote
}

// errClosed is why a Server that was closed answers nothing.
var errClosed = errors.New("the control plane is ending")

// Open reads the store and takes up what it says: subgroups that were being put into switches or taken out are, and
// the leases of all ranks begin anew.
func Open(o Options) (*Server, error) {
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&o.Lease, DefaultLease)
	set(&o.Wait, DefaultWait)
	set(&o.SwitchTimeout, DefaultSwitchTimeout)
	set(&o.Drain, DefaultDrain)
	if o.Placer == nil {
		w, err := NewWhole(o.Network)
		if err != nil {
			return nil, err
		}
		o.Placer = w
	}
	if o.FirstPSN == nil {
		o.FirstPSN = func() psn.PSN { return psn.PSN(rand.Uint32() & psn.Mask) }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		o: o, log: o.Log,
		jobs: map[string]*job{}, current: map[string]*job{}, sessions: map[string]*job{}, joining: map[string]*gathering{},
		creating: map[string]*creation{}, switches: map[string]*attached{},
	}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	if err := s.resume(); err != nil {
		return nil, err
	}
	if err := s.attach(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		s.takeUp(j)
	}
	s.spawn(s.sweep)
	return s, nil
}

// resume loads the store.
func (s *Server) resume() error {
	jobs, last, err := s.o.Store.load()
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	s.last = last
	now := time.Now()
	for _, j := range jobs {
		s.jobs[j.ID] = j
		for r := range j.Members {
			s.sessions[j.Members[r].Session] = j
			j.Members[r].lease = now.Add(s.o.Lease)
		}
		if j.State == jobEnded {
			continue
		}
		s.current[j.Name] = j
		for _, sub := range j.Subgroups {
			if !sub.holds() {
				continue
			}
			for _, sw := range sub.group.Switches {
				if _, ok := s.o.Network.Switch(sw.Name); !ok {
					return fmt.Errorf("state: job %s has pipes in switch %s, which is not in the network's file: put it back there, or begin with an empty state", j.Name, sw.Name)
				}
			}
		}
	}
	return nil
}

// takeUp goes on with what a job was at.
func (s *Server) takeUp(j *job) {
	if j.State == jobEnded {
		return
	}
	for _, sub := range j.Subgroups {
		if sub.holds() {
			s.spawn(func() { s.tend(j, sub) })
		}
	}
	s.reap(j)
}

// spawn runs f, which ends when the Server does. It is called with the lock.
func (s *Server) spawn(f func()) {
	if s.ctx.Err() == nil {
		s.work.Go(f)
	}
}

// Close ends the Server: calls that wait get an error of the connection's kind, so that ranks ask again elsewhere. What
// is in the switches stays. It does not close the store.
func (s *Server) Close() error {
	s.close.Do(func() {
		s.mu.Lock()
		s.stop(errClosed)
		for _, g := range s.joining {
			g.timer.Stop()
		}
		for _, c := range s.creating {
			c.timer.Stop()
		}
		s.mu.Unlock()
		s.work.Wait()
		for _, r := range s.remotes {
			_ = r.Close() // nothing of it is wanted any more
		}
	})
	if err := context.Cause(s.ctx); !errors.Is(err, errClosed) {
		return err
	}
	return nil
}

// Serve answers at a listener until ctx is done, which is no error, or the store fails. It closes the listener and the
// Server.
func (s *Server) Serve(ctx context.Context, at net.Listener) error {
	g := grpc.NewServer(
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: s.o.Lease, Timeout: s.o.Lease}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	)
	controlpb.RegisterControlServer(g, s)
	served := make(chan error, 1)
	go func() { served <- g.Serve(at) }()
	var err error
	select {
	case <-ctx.Done():
	case <-s.ctx.Done():
	case err = <-served:
		served <- nil
	}
	closed := s.Close()
	g.Stop()
	<-served
	switch {
	case err != nil:
		return fmt.Errorf("control plane at %v: %w", at.Addr(), err)
	case closed != nil:
		return closed
	}
	return nil
}

// save writes to the store. If it cannot, the Server ends: what is on disk is what counts, and it says something else
// than memory from now on.
func (s *Server) save(c change) error {
	if err := s.ctx.Err(); err != nil {
		return s.gone()
	}
	return s.stored(s.o.Store.write(c))
}

func (s *Server) stored(err error) error {
	if err == nil {
		return nil
	}
	s.log.Error("state cannot be written", "error", err)
	s.stop(fmt.Errorf("state: %w", err))
	return s.gone()
}

// generation numbers an incarnation of a job.
func (s *Server) generation() (uint64, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, s.gone()
	}
	g, err := s.o.Store.generation()
	return g, s.stored(err)
}

// gone is the answer of a Server that has ended.
func (s *Server) gone() error {
	return status.Error(codes.Unavailable, context.Cause(s.ctx).Error())
}

// pause waits until changed is closed. It is called with the lock, and returns with it.
func (s *Server) pause(ctx context.Context, changed <-chan struct{}) error {
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-s.ctx.Done():
		return s.gone()
	}
}

// member finds the running job of a session.
func (s *Server) member(session string) (*job, int, error) {
	if err := s.ctx.Err(); err != nil {
		return nil, 0, s.gone()
	}
	j, ok := s.sessions[session]
	if !ok {
		return nil, 0, failure.New(controlpb.Kind_KIND_UNKNOWN, nil, "no job has the session %q: it has not joined, or its job ended long ago", session)
	}
	r, _ := j.bySession(session)
	if j.State != jobRunning {
		return nil, 0, j.why()
	}
	return j, r, nil
}

// end begins the end of a job. Why is nil if its ranks have left it.
func (s *Server) end(j *job, why *failure.Error, subgroupID string) error {
	if j.State != jobRunning {
		return nil
	}
	j.State, j.Failure, j.FailedAt = jobRemoving, why, subgroupID
	if why != nil {
		s.log.Warn("job fails", "job", j.Name, "id", j.ID, "reason", why.Message)
	} else {
		s.log.Info("job ends: its ranks have left", "job", j.Name, "id", j.ID)
	}
	for _, sub := range j.Subgroups {
		if sub.holds() {
			sub.State = subgroupRemoving
		}
	}
	if err := s.save(change{put: j}); err != nil {
		return err
	}
	j.move()
	return s.reap(j)
}

// reap lets a job that has nothing in switches any more be over.
func (s *Server) reap(j *job) error {
	if j.State != jobRemoving || slices.ContainsFunc(j.Subgroups, (*subgroup).holds) {
		return nil
	}
	j.State = jobEnded
	c := change{put: j}
	var ended []*job
	for _, other := range s.jobs {
		if other.State == jobEnded {
			ended = append(ended, other)
		}
	}
	slices.SortFunc(ended, func(a, b *job) int { return int(int64(b.Generation) - int64(a.Generation)) })
	for _, old := range ended[min(len(ended), keptJobs):] {
		c.remove = append(c.remove, old.ID)
	}
	if err := s.save(c); err != nil {
		return err
	}
	for _, id := range c.remove {
		for _, m := range s.jobs[id].Members {
			delete(s.sessions, m.Session)
		}
		delete(s.jobs, id)
	}
	if s.current[j.Name] == j {
		delete(s.current, j.Name)
	}
	delete(s.creating, j.ID)
	s.log.Info("job is over, and all it had is free", "job", j.Name, "id", j.ID)
	j.move()
	return nil
}

// holding lists the subgroups that hold something.
func (s *Server) holding() []*subgroup {
	var list []*subgroup
	for _, j := range s.current {
		for _, sub := range j.Subgroups {
			if sub.holds() {
				list = append(list, sub)
			}
		}
	}
	// In the order of their ids, so that nothing depends on that of a map.
	slices.SortFunc(list, func(a, b *subgroup) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return list
}

// infos are those of the switches that have answered.
func (s *Server) infos() map[string]target.Info {
	all := map[string]target.Info{}
	for name, a := range s.switches {
		if a.up {
			all[name] = a.info
		}
	}
	return all
}

// sweep ends jobs of which a rank was not heard of.
func (s *Server) sweep() {
	tick := time.NewTicker(max(s.o.Lease/16, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		s.expire(time.Now())
		s.mu.Unlock()
	}
}

func (s *Server) expire(now time.Time) {
	for _, j := range s.current {
		if j.State != jobRunning {
			continue
		}
		var dead []int
		var text string
		for r, m := range j.Members {
			if !m.Left && now.After(m.lease) {
				dead = append(dead, r)
				if text != "" {
					text += ", "
				}
				text += j.who(r)
				if !m.heard.IsZero() {
					text += fmt.Sprintf(", last heard of %v ago", now.Sub(m.heard).Round(100*time.Millisecond))
				}
			}
		}
		if len(dead) > 0 {
			_ = s.end(j, failure.New(controlpb.Kind_KIND_LEASE_LOST, dead, "job %s: lost %s", j.Name, text), "")
		}
	}
	for d, u := range s.last {
		if now.Sub(u.At) > pastLife {
			if s.save(change{forget: []direction{d}}) != nil {
				return
			}
			delete(s.last, d)
		}
	}
}

// fault is told by a switch.
func (s *Server) fault(at string, f target.Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.current {
		for _, sub := range j.Subgroups {
			if sub.ID != f.ID || !sub.holds() {
				continue
			}
			ranks, who := suspects(sub.group, at, f.Endpoint)
			if who != "" {
				who = j.who(ranks[0]) + ": "
			}
			_ = s.end(j, failure.New(controlpb.Kind_KIND_FAULT, ranks, "job %s: %s: %sswitch %s: %v", j.Name, sub.name(), who, at, f), sub.ID)
			return
		}
	}
}

// suspects is the rank behind an endpoint, if it is one.
func suspects(g *group.Group, at, endpoint string) (ranks []int, name string) {
	n, ok := g.SwitchIndex(at)
	if !ok {
		return nil, ""
	}
	for e, ep := range g.Switches[n].Endpoints {
		if node := g.Peer(n, e).Node; ep.Name == endpoint && node.IsRank() {
			return []int{node.Index}, node.String()
		}
	}
	return nil, ""
}
