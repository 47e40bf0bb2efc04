package control

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/epic-inc/epic/driver/control/controlpb"
	"github.com/epic-inc/epic/driver/control/failure"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// joiner is a rank that waits for the others.
type joiner struct {
	rank, ranks int
	tenant      string
	member      member
	wish        wish
}

// wish is controlpb.Wish, checked; zero values are open.
type wish struct {
	mode, mtu, message, window int
	pinned                     bool
	op                         spec.Op
	dtype                      spec.DType
	reproducible               bool
}

// gathering is a job of which not all ranks have come.
type gathering struct {
	name    string
	members map[int]*joiner
	began   time.Time
	timer   *time.Timer
	forming bool          // all are there
	done    chan struct{} // closed at the end
	job     *job          // at the end, or
	err     error
}

func badRequest(format string, args ...any) error {
	return failure.New(controlpb.Kind_KIND_BAD_REQUEST, nil, format, args...)
}

// limit is how long a call waits for other ranks.
func (s *Server) limit(ms uint32) time.Duration {
	if d := time.Duration(ms) * time.Millisecond; d > 0 && d < s.o.Wait {
		return d
	}
	return s.o.Wait
}

// Join is the call of the service.
func (s *Server) Join(ctx context.Context, q *controlpb.JoinRequest) (*controlpb.JoinReply, error) {
	who, err := s.joiner(q)
	if err != nil {
		return nil, err
	}
	limit := s.limit(q.WaitMs)
	arrived := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	j, err := s.again(q)
	if j == nil && err == nil {
		if err = s.awaitEnd(ctx, q, who, arrived, limit); err == nil {
			j, err = s.gather(ctx, q, who, limit-time.Since(arrived))
		}
	}
	if err != nil {
		return nil, err
	}
	return s.welcome(j), nil
}

// again finds the job that the session has joined already.
func (s *Server) again(q *controlpb.JoinRequest) (*job, error) {
	if err := s.ctx.Err(); err != nil {
		return nil, s.gone()
	}
	j, ok := s.sessions[q.Session]
	if !ok {
		return nil, nil
	}
	r, _ := j.bySession(q.Session)
	switch {
	case j.Name != q.Job || r != int(q.Rank) || len(j.Members) != int(q.Ranks):
		return nil, badRequest("session %q is rank %d of %d of job %s, want another session for rank %d of %d of job %s", q.Session, r, len(j.Members), j.Name, q.Rank, q.Ranks, q.Job)
	case j.State != jobRunning:
		return nil, j.why()
	}
	j.Members[r].lease = time.Now().Add(s.o.Lease)
	return j, nil
}

// awaitEnd waits until no other incarnation of the job is left. A rank of it that is alive, which shows when it renews
// its lease, is a duplicate of the one that comes; a dead one will lose it.
func (s *Server) awaitEnd(ctx context.Context, q *controlpb.JoinRequest, who *joiner, arrived time.Time, limit time.Duration) error {
	ctx, cancel := context.WithDeadline(ctx, arrived.Add(limit))
	defer cancel()
	for {
		j := s.current[q.Job]
		if j == nil {
			return nil
		}
		if j.State == jobRunning {
			holder := min(who.rank, len(j.Members)-1)
			if m := j.Members[holder]; !m.Left && m.heard.After(arrived) {
				if who.ranks != len(j.Members) {
					return failure.New(controlpb.Kind_KIND_DISAGREE, []int{who.rank}, "job %s: runs with %d ranks since %s, rank %d (%v) says %d",
						j.Name, len(j.Members), j.Began.Format(time.TimeOnly), who.rank, who.member.IP, who.ranks)
				}
				return failure.New(controlpb.Kind_KIND_DUPLICATE_RANK, []int{who.rank}, "job %s: rank %d is there twice: it runs at %v since %s, and comes again from %v",
					j.Name, who.rank, m.IP, j.Began.Format(time.TimeOnly), who.member.IP)
			}
		}
		if err := s.pause(ctx, j.changed); err != nil {
			if s.ctx.Err() == nil && time.Since(arrived) >= limit {
				return failure.New(controlpb.Kind_KIND_MISSING_RANK, nil, "job %s: its last run has not ended within %v: %s", j.Name, limit, s.holdsUp(j))
			}
			return err
		}
	}
}

// holdsUp says what a job that should be over waits for.
func (s *Server) holdsUp(j *job) string {
	if j.State == jobRunning {
		var there []string
		for r, m := range j.Members {
			if !m.Left {
				there = append(there, j.who(r))
			}
		}
		return strings.Join(there, ", ") + " has not left"
	}
	var down []string
	for _, name := range slices.Sorted(maps.Keys(s.switches)) {
		if a := s.switches[name]; !a.up && slices.Contains(j.Placement.Switches, name) {
			down = append(down, fmt.Sprintf("switch %s does not answer (%v)", name, a.err))
		}
	}
	if len(down) > 0 {
		return strings.Join(down, ", ")
	}
	return "its pipes are not drained"
}

// places says where two processes are.
func places(a, b netip.Addr) string {
	if a == b {
		return fmt.Sprintf("two processes at %v", a)
	}
	return fmt.Sprintf("at %v and at %v", a, b)
}

// gather waits for the other ranks.
func (s *Server) gather(ctx context.Context, q *controlpb.JoinRequest, who *joiner, limit time.Duration) (*job, error) {
	g := s.joining[q.Job]
	if g == nil {
		g = &gathering{name: q.Job, members: map[int]*joiner{}, began: time.Now(), done: make(chan struct{})}
		g.timer = time.AfterFunc(limit, func() { s.late(g) })
		s.joining[q.Job] = g
		s.log.Info("job gathers", "job", g.name, "ranks", who.ranks)
	}
	if other, twice := g.members[who.rank]; twice && other.member.Session != who.member.Session {
		err := failure.New(controlpb.Kind_KIND_DUPLICATE_RANK, []int{who.rank}, "job %s: rank %d is there twice: %s", g.name, who.rank, places(other.member.IP.Addr, who.member.IP.Addr))
		if !g.forming { // else all are there, and the one that comes is none of them
			s.dissolve(g, err)
		}
		return nil, err
	}
	if !g.forming {
		g.members[who.rank] = who
		if err := g.agree(); err != nil {
			s.dissolve(g, err)
			return nil, err
		}
		if len(g.members) == who.ranks {
			g.forming = true
			g.timer.Stop()
			s.spawn(func() { s.form(g) })
		}
	} else if g.members[who.rank] == nil {
		return nil, failure.New(controlpb.Kind_KIND_DISAGREE, []int{who.rank}, "job %s: has %d ranks, all there; rank %d (%v) says %d", g.name, len(g.members), who.rank, who.member.IP, who.ranks)
	}
	if err := s.pause(ctx, g.done); err != nil {
		if !g.forming && g.members[who.rank] == who {
			delete(g.members, who.rank) // it has gone away before the job was made
			if len(g.members) == 0 && s.joining[g.name] == g {
				g.timer.Stop()
				delete(s.joining, g.name)
			}
		}
		return nil, err
	}
	return g.job, g.err
}

// dissolve fails a gathering for all who wait.
func (s *Server) dissolve(g *gathering, err error) {
	g.timer.Stop()
	g.err = err
	close(g.done)
	if s.joining[g.name] == g {
		delete(s.joining, g.name)
	}
	s.log.Warn("job did not form", "job", g.name, "reason", err)
}

// late ends a gathering whose time is over.
func (s *Server) late(g *gathering) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil || g.forming || g.err != nil || s.joining[g.name] != g {
		return
	}
	ranks := 0
	var there []int
	for r, m := range g.members {
		ranks = m.ranks
		there = append(there, r)
	}
	var missing []int
	for r := range ranks {
		if g.members[r] == nil {
			missing = append(missing, r)
		}
	}
	slices.Sort(there)
	s.dissolve(g, failure.New(controlpb.Kind_KIND_MISSING_RANK, missing, "job %s: %s not joined within %v; %s there",
		g.name, have(missing), time.Since(g.began).Round(100*time.Millisecond), be(there)))
}

func list(ranks []int) string {
	var words []string
	for i, r := range ranks {
		if i == 16 {
			words = append(words, fmt.Sprintf("%d more", len(ranks)-i))
			break
		}
		words = append(words, fmt.Sprint(r))
	}
	return strings.Join(words, ", ")
}

func have(ranks []int) string {
	if len(ranks) == 1 {
		return "rank " + list(ranks) + " has"
	}
	return "ranks " + list(ranks) + " have"
}

func be(ranks []int) string {
	if len(ranks) == 1 {
		return "rank " + list(ranks) + " is"
	}
	return "ranks " + list(ranks) + " are"
}

// joiner checks what a rank says of itself.
func (s *Server) joiner(q *controlpb.JoinRequest) (*joiner, error) {
	at := fmt.Sprintf("job %s: rank %d", q.Job, q.Rank)
	switch {
	case !jobName.MatchString(q.Job):
		return nil, badRequest("job: got %q, want a letter or digit, and then up to 63 letters, digits, '_', '.' or '-'", q.Job)
	case q.Ranks < tree.MinRanks || q.Ranks > tree.MaxRanks:
		return nil, badRequest("job %s: got %d ranks, want %d..%d", q.Job, q.Ranks, tree.MinRanks, tree.MaxRanks)
	case q.Rank >= q.Ranks:
		return nil, badRequest("job %s: got rank %d, want 0..%d", q.Job, q.Rank, q.Ranks-1)
	case q.Session == "" || len(q.Session) > 64:
		return nil, badRequest("%s: got a session of %d characters, want 1..64", at, len(q.Session))
	}
	w := &joiner{rank: int(q.Rank), ranks: int(q.Ranks), tenant: q.Tenant,
		member: member{Session: q.Session, LinkMTU: int(q.LinkMtu), Ring: ring{q.GetRing().GetBeforeQpn(), q.GetRing().GetAfterQpn(), q.GetRing().GetPsn()}}}
	if err := w.member.MAC.UnmarshalText([]byte(q.Mac)); err != nil || w.member.MAC[0]&1 != 0 || w.member.MAC == (group.MAC{}) {
		return nil, badRequest("%s: MAC: got %q, want that of one station, as 52:54:00:00:00:01", at, q.Mac)
	}
	addr, err := netip.ParseAddr(q.Ip)
	if err != nil || addr.Is4In6() || addr.Zone() != "" || addr.IsMulticast() || addr.IsUnspecified() {
		return nil, badRequest("%s: IP: got %q, want the address of a host, as 10.9.0.1 or fd00::1", at, q.Ip)
	}
	w.member.IP = group.IP{Addr: addr}
	if mtuOf(w.member.LinkMTU, addr.Is4()) == 0 || q.LinkMtu > 1<<16-1 {
		return nil, badRequest("%s: link MTU: got %d bytes, want %d..65535", at, q.LinkMtu, roce.MTUs()[0]+overhead(addr.Is4()))
	}
	for what, v := range map[string]uint32{"QPN of the ring": max(q.GetRing().GetBeforeQpn(), q.GetRing().GetAfterQpn()), "PSN of the ring": q.GetRing().GetPsn()} {
		if v > psn.Mask {
			return nil, badRequest("%s: %s: got %#x, want 24 bits", at, what, v)
		}
	}
	if err := w.place(s.o.Network, q, at); err != nil {
		return nil, err
	}
	w.wish, err = wishOf(q.Wish, at)
	return w, err
}

// place finds where the rank is.
func (w *joiner) place(n *Network, q *controlpb.JoinRequest, at string) error {
	i := slices.IndexFunc(n.Hosts, func(h Host) bool { return h.IP == w.member.IP })
	switch {
	case q.Switch != "":
		if _, ok := n.Switch(q.Switch); !ok {
			return badRequest("%s: got switch %q, want one of %s", at, q.Switch, n.names())
		}
		if q.Port >= engine.MaxPorts {
			return badRequest("%s: got port %d, want 0..%d", at, q.Port, engine.MaxPorts-1)
		}
		w.member.Place = &Place{q.Switch, int(q.Port)}
		if i >= 0 && (n.Hosts[i].Switch != q.Switch || n.Hosts[i].Port != int(q.Port)) {
			return badRequest("%s: says that %v is at port %d of %s, but the network's file has it at port %d of %s", at, w.member.IP, q.Port, q.Switch, n.Hosts[i].Port, n.Hosts[i].Switch)
		}
	case i >= 0:
		w.member.Place = &Place{n.Hosts[i].Switch, n.Hosts[i].Port}
	}
	return nil
}

func wishOf(q *controlpb.Wish, at string) (w wish, err error) {
	if q == nil {
		return wish{}, nil
	}
	w = wish{mode: int(q.Mode), mtu: int(q.Mtu), message: int(q.MessagePackets), window: int(q.WindowPackets), reproducible: q.Reproducible}
	switch {
	case w.mode > 3:
		return w, badRequest("%s: mode: got %d, want 1..3", at, w.mode)
	case w.mtu != 0 && !roce.ValidMTU(w.mtu):
		return w, badRequest("%s: MTU: got %d, want %s", at, w.mtu, roce.WantMTU())
	case w.message > host.MaxMessagePackets || w.window > engine.MaxSlots/2:
		return w, badRequest("%s: got messages of %d packets and a window of %d, want at most %d and %d", at, w.message, w.window, host.MaxMessagePackets, engine.MaxSlots/2)
	case (q.Op == "") != (q.Dtype == ""):
		return w, badRequest("%s: got op %q and dtype %q, want both (pinned pipes) or neither", at, q.Op, q.Dtype)
	case q.Op != "":
		w.pinned = true
		if err := w.op.UnmarshalText([]byte(q.Op)); err != nil {
			return w, badRequest("%s: op: %v", at, err)
		}
		if err := w.dtype.UnmarshalText([]byte(q.Dtype)); err != nil {
			return w, badRequest("%s: dtype: %v", at, err)
		}
	}
	return w, nil
}

// agree says which two ranks want different things.
func (g *gathering) agree() error {
	order := slices.Sorted(maps.Keys(g.members))
	differ := func(a, b *joiner, format string, x, y any) error {
		who := func(j *joiner) string { return fmt.Sprintf("rank %d (%v)", j.rank, j.member.IP) }
		return failure.New(controlpb.Kind_KIND_DISAGREE, []int{a.rank, b.rank}, "job %s: ranks disagree: %s says %s, %s says %s",
			g.name, who(a), fmt.Sprintf(format, x), who(b), fmt.Sprintf(format, y))
	}
	pin := func(w wish) string {
		if !w.pinned {
			return ""
		}
		return fmt.Sprintf("%v of %v", w.op, w.dtype)
	}
	for _, one := range []struct {
		format string
		of     func(*joiner) any
		open   any // the value that leaves it to the others; nil: none does
	}{
		{"%v ranks", func(j *joiner) any { return j.ranks }, nil},
		{"tenant %q", func(j *joiner) any { return j.tenant }, nil},
		{"mode %v", func(j *joiner) any { return j.wish.mode }, 0},
		{"MTU %v", func(j *joiner) any { return j.wish.mtu }, 0},
		{"messages of %v packets", func(j *joiner) any { return j.wish.message }, 0},
		{"a window of %v packets", func(j *joiner) any { return j.wish.window }, 0},
		{"pinned %q", func(j *joiner) any { return pin(j.wish) }, nil},
		{"reproducible %v", func(j *joiner) any { return j.wish.reproducible }, nil},
	} {
		var first *joiner
		for _, r := range order {
			j := g.members[r]
			switch v := one.of(j); {
			case v == one.open:
			case first == nil:
				first = j
			case one.of(first) != v:
				return differ(first, j, one.format, one.of(first), v)
			}
		}
	}
	macs := map[group.MAC]*joiner{}
	ips := map[group.IP]*joiner{}
	for _, r := range order {
		j := g.members[r]
		if other, twice := ips[j.member.IP]; twice {
			return failure.New(controlpb.Kind_KIND_DISAGREE, []int{other.rank, r}, "job %s: ranks %d and %d have the same IP %v", g.name, other.rank, r, j.member.IP)
		}
		if other, twice := macs[j.member.MAC]; twice {
			return failure.New(controlpb.Kind_KIND_DISAGREE, []int{other.rank, r}, "job %s: ranks %d and %d have the same MAC %v", g.name, other.rank, r, j.member.MAC)
		}
		ips[j.member.IP], macs[j.member.MAC] = j, j
	}
	return nil
}

// overhead is what RoCEv2 adds to a payload below Ethernet: IP, UDP, BTH, RETH, ImmDt, ICRC.
func overhead(v4 bool) int {
	n := 8 + 12 + 16 + 4 + 4
	if v4 {
		return n + 20
	}
	return n + 40
}

// mtuOf is the largest path MTU that a link carries; 0 if it carries none.
func mtuOf(link int, v4 bool) int {
	best := 0
	for _, m := range roce.MTUs() {
		if m+overhead(v4) <= link {
			best = m
		}
	}
	return best
}

// form makes the job of a gathering that is complete.
func (s *Server) form(g *gathering) {
	j := &job{Name: g.name, State: jobRunning, Began: time.Now(), changed: make(chan struct{})}
	for r := range len(g.members) {
		m := g.members[r]
		j.Tenant = m.tenant
		j.Members = append(j.Members, m.member)
	}
	s.mu.Lock()
	free := map[string]Use{}
	for name, r := range rooms(s.infos(), s.holding()) {
		free[name] = r.use()
	}
	s.mu.Unlock()

	err := s.terms(j, g)
	if err == nil {
		err = s.placeJob(j, free)
	}
	if err == nil && j.NoTree == nil {
		s.limitMTU(j, g)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		j.Generation, err = s.generation()
	}
	if err == nil {
		j.ID = fmt.Sprintf("%s.%d", s.o.Store.instance, j.Generation)
		for r := range j.Members {
			j.Members[r].lease = time.Now().Add(s.o.Lease)
		}
		err = s.save(change{put: j})
	}
	if err != nil {
		if s.ctx.Err() == nil {
			s.dissolve(g, err)
		}
		return
	}
	s.jobs[j.ID], s.current[j.Name] = j, j
	for _, m := range j.Members {
		s.sessions[m.Session] = j
	}
	delete(s.joining, g.name)
	g.job = j
	close(g.done)
	s.log.Info("job runs", "job", j.Name, "id", j.ID, "ranks", len(j.Members), "mode", j.Terms.Mode, "mtu", j.Terms.MTU)
}

// terms settles what the ranks left open.
func (s *Server) terms(j *job, g *gathering) error {
	n := s.o.Network
	j.Terms = terms{Mode: n.Mode, MTU: n.MTU, MessagePackets: n.MessagePackets, WindowPackets: n.WindowPackets}
	message, window := 0, 0
	asked := 0
	for r := range j.Members {
		w := g.members[r].wish
		j.Terms.Mode, asked = cmp.Or(w.mode, j.Terms.Mode), cmp.Or(w.mtu, asked)
		message, window = cmp.Or(w.message, message), cmp.Or(w.window, window)
		j.Terms.Pinned, j.Terms.Op, j.Terms.DType, j.Terms.Reproducible = w.pinned, w.op, w.dtype, w.reproducible
	}
	switch {
	case message > 0 && window > 0 && window < message:
		return badRequest("job %s: got a window of %d packets, want at least the %d of one message", j.Name, window, message)
	case message > 0 || window > 0:
		j.Terms.WindowPackets = cmp.Or(window, max(j.Terms.WindowPackets, message))
		j.Terms.MessagePackets = cmp.Or(message, min(j.Terms.MessagePackets, j.Terms.WindowPackets))
	}
	if asked > 0 {
		j.Terms.MTU = asked
	}
	for r, m := range j.Members {
		carries := mtuOf(m.LinkMTU, m.IP.Is4())
		if asked > carries {
			return failure.New(controlpb.Kind_KIND_BAD_REQUEST, []int{r}, "job %s: MTU %d is asked for, but the link of %s carries IP packets of %d bytes, want at least %d",
				j.Name, asked, j.who(r), m.LinkMTU, asked+overhead(m.IP.Is4()))
		}
		if j.Terms.MTU == 0 || carries < j.Terms.MTU {
			j.Terms.MTU = carries
		}
	}
	return nil
}

// limitMTU takes what the switches carry, if the ranks did not ask for an MTU. It waits for switches that may still come.
func (s *Server) limitMTU(j *job, g *gathering) {
	for _, m := range g.members {
		if m.wish.mtu != 0 {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.coming(j) {
		s.mu.Unlock()
		s.sleep(retryFirst)
		s.mu.Lock()
		if s.ctx.Err() != nil {
			return
		}
	}
	for _, name := range j.Placement.Switches {
		if a := s.switches[name]; a.up {
			j.Terms.MTU = min(j.Terms.MTU, a.info.MTU)
		}
	}
}

// placeJob gives the job its tree, or says why it has none.
func (s *Server) placeJob(j *job, free map[string]Use) error {
	none := func(ranks []int, format string, args ...any) error {
		j.NoTree = failure.New(controlpb.Kind_KIND_NO_RESOURCE, ranks, "job %s: "+format, append([]any{j.Name}, args...)...)
		return nil
	}
	q := PlaceRequest{Job: j.Name, Tenant: j.Tenant, Free: free}
	taken := map[Place]int{}
	v4 := j.Members[0].IP.Is4()
	for r, m := range j.Members {
		if m.Place == nil {
			return none([]int{r}, "the network's file has no host %v, and rank %d did not say at which switch and port it is", m.IP, r)
		}
		if other, twice := taken[*m.Place]; twice {
			return none([]int{other, r}, "ranks %d and %d are both at port %d of switch %s, want a port for each", other, r, m.Place.Port, m.Place.Switch)
		}
		taken[*m.Place] = r
		if m.IP.Is4() != v4 {
			return none([]int{0, r}, "rank 0 has the address %v and rank %d %v, want one IP version", j.Members[0].IP, r, m.IP)
		}
		q.Ranks = append(q.Ranks, *m.Place)
	}
	placement, err := s.o.Placer.Place(s.ctx, q)
	if failure.Is(err, controlpb.Kind_KIND_NO_RESOURCE) {
		return none(nil, "%v", err)
	}
	if err != nil {
		return err
	}
	for _, name := range placement.Switches {
		sw, ok := s.o.Network.Switch(name)
		if !ok {
			return fmt.Errorf("job %s: placed on switch %q, which is not in the network", j.Name, name)
		}
		if _, ok := sw.address(v4); !ok {
			return none(nil, "switch %s has no address of the IP version of %v", name, j.Members[0].IP)
		}
	}
	j.Placement = placement
	return nil
}

// welcome is what a rank of a running job gets.
func (s *Server) welcome(j *job) *controlpb.JoinReply {
	t := j.Terms
	r := &controlpb.JoinReply{
		Id: j.ID, Mode: uint32(t.Mode), Mtu: uint32(t.MTU), MessagePackets: uint32(t.MessagePackets), WindowPackets: uint32(t.WindowPackets),
		Reproducible: t.Reproducible, LeaseMs: uint32(s.o.Lease.Milliseconds()),
		TimeoutCode: uint32(s.o.Network.TimeoutCode), Preset: s.o.Network.Preset,
	}
	if t.Pinned {
		r.Op, r.Dtype = t.Op.String(), t.DType.String()
	}
	for k, m := range j.Members {
		r.Members = append(r.Members, &controlpb.Member{Rank: uint32(k), Mac: m.MAC.String(), Ip: m.IP.String(), LinkMtu: uint32(m.LinkMTU),
			Ring: &controlpb.Ring{BeforeQpn: m.Ring.Before, AfterQpn: m.Ring.After, Psn: m.Ring.PSN}})
	}
	if j.NoTree != nil {
		r.NoTree = j.NoTree.Proto()
	}
	return r
}
