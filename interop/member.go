package interop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/epic-inc/epic/driver/control/proxy"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/tree"
	"github.com/epic-inc/epic/interop/guest"
)

// ErrRank means that a rank's program failed, or that a queue pair of it is in error.
var ErrRank = errors.New("a rank failed")

// member is a rank that is a guest: interop/client runs there. They meet in the job's folder, as epic_rank.c says.
type member struct {
	rank    int
	program []action
	job     *guest.Job
	group   []tree.Step // the client's subgroups, in its order
}

// action is a step of the client: a collective in one subgroup, of a part of a vector.
type action struct {
	step     tree.Step // as Pipes takes it
	of       int       // the step of the case that it belongs to
	from, to int       // bytes of the vector
}

// actions are the steps of the case as the client does them: ReduceScatter as Reduces of parts, AllGather as
// Broadcasts; empty parts are left out.
func actions(steps []tree.Step, ranks, bytes int) []action {
	var list []action
	for i, s := range steps {
		for r, one := range s.Split(ranks) {
			a := action{step: one, of: i, to: bytes}
			if one != s {
				a.from, a.to = part(bytes, ranks, r)
			}
			if a.from < a.to || one.Collective == tree.Barrier {
				list = append(list, a)
			}
		}
	}
	return list
}

// extra is what a run asks of the client beside its program.
type extra struct {
	repeat   int
	busyPoll bool
	giveUp   int // seconds; 0: guestGiveUp

	begun func(*world) error // of a test: called once the ranks have begun
}

// newMember starts the client in a guest.
func newMember(g *guest.Guest, c Case, rank int, steps []tree.Step, vectors [][]byte, fabric *group.Group, x extra) (*member, error) {
	m := &member{rank: rank, program: actions(steps, c.ranks(), c.bytes())}
	dtype := "int32"
	if c.Numbers != Int32 {
		dtype = "float32"
	}
	var words []string
	for _, a := range m.program {
		words = append(words, a.step.String())
		sub := a.step.Subgroup()
		known := false
		for _, s := range m.group {
			known = known || s == sub
		}
		if !known {
			m.group = append(m.group, sub)
		}
	}
	giveUp := x.giveUp
	if giveUp == 0 {
		giveUp = guestGiveUp
	}
	var err error
	m.job, err = g.Start(func(j *guest.Job) (string, error) {
		for i, a := range m.program {
			if a.step.Collective == tree.Barrier {
				continue
			}
			if err := os.WriteFile(filepath.Join(j.Folder(), fmt.Sprintf("in.%d", i)), vectors[a.of][a.from:a.to], 0o644); err != nil {
				return "", err
			}
		}
		var script strings.Builder
		// A switch answers ARP and neighbour discovery; here nobody is there to do so before the run begins.
		for _, e := range fabric.Switches[0].Endpoints {
			fmt.Fprintf(&script, "/usr/bin/ip neigh replace %v lladdr %v dev eth0 nud permanent\n", e.IP, e.MAC)
		}
		fmt.Fprintf(&script, "exec epic_rank --dir %s --ip %v --rank %d --ranks %d --steps %s --dtype %s --repeat %d --give-up %d",
			j.Inside(), fabric.Ranks[rank].IP, rank, c.ranks(), strings.Join(words, ","), dtype, max(1, x.repeat), giveUp)
		if x.busyPoll {
			script.WriteString(" --busy-poll")
		}
		return script.String() + "\n", nil
	})
	return m, err
}

func (m *member) file(name string) string { return filepath.Join(m.job.Folder(), name) }

// folder is where the client meets this side.
func (m *member) folder() proxy.Folder { return proxy.Folder(m.job.Folder()) }

// check says how the client failed, if it has ended before it should.
func (m *member) check(ctx context.Context) error {
	if !m.job.Ended() {
		return nil
	}
	r, err := m.job.Wait(ctx)
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: rank %d: exit status %d: %s %s", ErrRank, m.rank, r.Status, strings.TrimSpace(r.Stderr), strings.TrimSpace(r.Stdout))
}

// await waits for a file of the client.
func (m *member) await(ctx context.Context, name string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-m.job.Over():
			cancel(m.check(ctx))
		case <-ctx.Done():
		}
	}()
	if err := m.folder().Await(ctx, name); err != nil {
		return fmt.Errorf("rank %d: %w", m.rank, err)
	}
	return nil
}

// tell writes a file for the client.
func (m *member) tell(name, text string) error {
	if err := m.folder().Tell(name, text); err != nil {
		return fmt.Errorf("rank %d: %w", m.rank, err)
	}
	return nil
}

// qpns reads the numbers of the client's queue pairs into the group's order of subgroups.
func (m *member) qpns(g *group.Group) ([]uint32, error) {
	list := make([]uint32, len(g.SubgroupList()))
	if len(m.group) != len(list) {
		return nil, fmt.Errorf("rank %d: got %d subgroups of the client, want %d", m.rank, len(m.group), len(list))
	}
	qpns, err := m.folder().QPNs(len(list))
	if err != nil {
		return nil, fmt.Errorf("rank %d: %w", m.rank, err)
	}
	for i, qpn := range qpns {
		sub, err := g.SubgroupOf(m.group[i])
		if err != nil {
			return nil, err
		}
		list[sub] = qpn
	}
	return list, nil
}

// join tells the client all that it needs of the group.
func (m *member) join(g *group.Group) error {
	unpinned, flags, err := g.Control()
	if err != nil {
		return err
	}
	told := proxy.Group{MTU: g.MTU, MessagePackets: g.Host.MessagePackets, WindowPackets: g.Host.WindowPackets, Timeout: g.Host.TimeoutCode,
		MinRNRTimer: g.Host.MinRNRTimer, Unpinned: unpinned, Flags: flags}
	for _, step := range m.group {
		sub, err := g.SubgroupOf(step)
		if err != nil {
			return err
		}
		cfg, err := g.HostConfig(m.rank, sub)
		if err != nil {
			return err
		}
		told.QPs = append(told.QPs, proxy.QP{PeerIP: cfg.PeerIP, PeerQPN: cfg.PeerQPN, PSN: cfg.SendPSN})
	}
	if err := m.folder().TellGroup(told); err != nil {
		return fmt.Errorf("rank %d: %w", m.rank, err)
	}
	return nil
}

// results are what the rank has of each step of the case; own are its vectors.
func (m *member) results(steps []tree.Step, own [][]byte) ([][]byte, error) {
	out := make([][]byte, len(steps))
	for i, a := range m.program {
		s := steps[a.of]
		switch {
		case s.Collective == tree.Barrier, a.step.Collective == tree.Reduce && a.step.Root != m.rank:
			continue
		case a.step.Collective == tree.Broadcast && a.step.Root == m.rank:
			out[a.of] = append(out[a.of], own[a.of][a.from:a.to]...)
			continue
		}
		b, err := os.ReadFile(m.file(fmt.Sprintf("out.%d", i)))
		if err != nil {
			return nil, fmt.Errorf("rank %d: %w", m.rank, err)
		}
		out[a.of] = append(out[a.of], b...)
	}
	return out, nil
}

// leave lets the client end, and looks at how it did.
func (m *member) leave(ctx context.Context) (string, error) {
	if err := m.tell(proxy.Leave, ""); err != nil {
		return "", err
	}
	r, err := m.job.Wait(ctx)
	if err != nil {
		return "", err
	}
	if r.Status != 0 {
		return r.Stdout, fmt.Errorf("%w: rank %d: exit status %d: %s %s", ErrRank, m.rank, r.Status, strings.TrimSpace(r.Stderr), strings.TrimSpace(r.Stdout))
	}
	return r.Stdout, checkStates(m.rank, r.Stdout, len(m.group))
}

// checkStates sees that the client has told the state of each queue pair, and that it is RTS.
func checkStates(rank int, report string, qps int) error {
	seen := 0
	for _, line := range strings.Split(report, "\n") {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "qp" {
			continue
		}
		seen++
		if words[len(words)-1] != "RTS" {
			return fmt.Errorf("%w: rank %d: %s, want RTS", ErrRank, rank, line)
		}
	}
	if seen != qps {
		return fmt.Errorf("%w: rank %d told the states of %d queue pairs, want %d", ErrRank, rank, seen, qps)
	}
	return nil
}
