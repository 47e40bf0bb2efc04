package fabric

import (
	"fmt"

	"github.com/epic-inc/epic/golden/expect"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// Work is what a group does: collectives back to back.
type Work struct {
	Steps []tree.Step
	Input [][][]byte // of each collective: the vector of each rank; nil for a Barrier
}

// RandomWork makes vectors of `bytes` for each collective from a seed.
func RandomWork(g *group.Group, seed uint64, steps []tree.Step, bytes int) (*Work, error) {
	op, dtype, err := g.Arithmetic()
	if err != nil {
		return nil, err
	}
	w := &Work{Steps: steps}
	for i, s := range steps {
		var in [][]byte
		if s.Collective != tree.Barrier {
			in = expect.Vectors(seed+uint64(i)<<32, len(g.Ranks), bytes, dtype, op)
		}
		w.Input = append(w.Input, in)
	}
	return w, nil
}

// Job is the ranks of groups with their programs, and what each must have in the end.
type Job struct {
	set    *group.Set
	groups []*groupJob
}

type groupJob struct {
	work     *Work
	dtype    spec.DType
	want     [][][]byte // collective, rank
	programs []host.Program
	firsts   [][]int // of each rank: where in its steps each collective begins
	ranks    []*host.Rank
	barriers []barriers // of each rank
	kept     int        // Barriers that all ranks have passed, and none before all were in
}

// barriers is when a rank entered and passed each of its Barriers. Only its own host writes it, so hosts may run side by
// side; ranks are compared when somebody asks.
type barriers struct{ entered, passed []uint64 }

func (b *barriers) note(now uint64, r *host.Rank) {
	entered, passed := r.Barriers()
	for len(b.entered) < entered {
		b.entered = append(b.entered, now)
	}
	for len(b.passed) < passed {
		b.passed = append(b.passed, now)
	}
}

// NewJob makes the ranks of every group of the set; work is in the order of its groups.
func NewJob(set *group.Set, work ...*Work) (*Job, error) {
	if len(work) != len(set.Groups) {
		return nil, fmt.Errorf("job: got the work of %d groups, want %d", len(work), len(set.Groups))
	}
	j := &Job{set: set}
	for i, g := range set.Groups {
		one, err := newGroupJob(g, work[i])
		if err != nil {
			return nil, fmt.Errorf("group %d: %w", i, err)
		}
		j.groups = append(j.groups, one)
	}
	return j, nil
}

func newGroupJob(g *group.Group, w *Work) (*groupJob, error) {
	op, dtype, err := g.Arithmetic()
	if err != nil {
		return nil, err
	}
	j := &groupJob{work: w, dtype: dtype}
	for i, s := range w.Steps {
		var want [][]byte
		switch {
		case s.Collective == tree.Barrier:
			want = make([][]byte, len(g.Ranks))
		case len(w.Input[i]) != len(g.Ranks):
			return nil, fmt.Errorf("%v: got %d vectors for %d ranks", s, len(w.Input[i]), len(g.Ranks))
		default:
			if want, err = expect.Results(s, dtype, op, w.Input[i]); err != nil {
				return nil, fmt.Errorf("%v: %w", s, err)
			}
		}
		j.want = append(j.want, want)
	}
	unpinned, flags, err := g.Control()
	if err != nil {
		return nil, err
	}
	for r := range g.Ranks {
		p := host.Program{Rank: r, Ranks: len(g.Ranks), Steps: w.Steps, Op: op, DType: dtype, QP: g.SubgroupOf, Unpinned: unpinned, Flags: flags}
		for i := range w.Steps {
			var v []byte
			if w.Input[i] != nil {
				v = w.Input[i][r]
			}
			p.Input = append(p.Input, v)
		}
		cfg, err := g.RankConfig(r)
		if err != nil {
			return nil, err
		}
		ops, first, err := p.Plan()
		if err != nil {
			return nil, err
		}
		cfg.Ops = ops
		rank, err := host.NewRank(cfg)
		if err != nil {
			return nil, err
		}
		j.programs, j.firsts, j.ranks = append(j.programs, p), append(j.firsts, first), append(j.ranks, rank)
	}
	j.barriers = make([]barriers, len(j.ranks))
	return j, nil
}

// Host is the node of host i of the set, which starts at time start.
func (j *Job) Host(i int, start uint64) (*Host, error) {
	h, err := NewHost(ScaleOf(j.set.Clock), start)
	if err != nil {
		return nil, err
	}
	j.Take(h, i, start)
	return h, nil
}

// Take gives host i's ranks of this job to a node that had those of another.
func (j *Job) Take(h *Host, i int, start uint64) {
	var ranks []*host.Rank
	members := j.set.Hosts[i].Ranks
	for _, m := range members {
		ranks = append(ranks, j.groups[m.Group].ranks[m.Rank])
	}
	h.Restart(start, ranks...)
	h.Ran = func(now uint64, k int) {
		g, r := j.groups[members[k].Group], members[k].Rank
		g.barriers[r].note(now, g.ranks[r])
	}
}

// early says whether a rank has passed a Barrier before another entered it.
func (j *groupJob) early() error {
	for ; ; j.kept++ {
		all := true
		for r := range j.barriers {
			passed := j.barriers[r].passed
			if len(passed) <= j.kept {
				all = false
				continue
			}
			for other := range j.barriers {
				entered := j.barriers[other].entered
				if len(entered) > j.kept && entered[j.kept] <= passed[j.kept] {
					continue
				}
				return fmt.Errorf("rank %d has passed Barrier %d, but rank %d has entered only %d", r, j.kept+1, other, j.kept)
			}
		}
		if !all {
			return nil
		}
	}
}

// Err is the first thing that went wrong. Where the hosts of the job run side by side they must have stopped.
func (j *Job) Err() error {
	for i, g := range j.groups {
		if err := g.early(); err != nil {
			return j.of(i, err)
		}
	}
	for i, g := range j.groups {
		for _, r := range g.ranks {
			if err := r.Err(); err != nil {
				return j.of(i, err)
			}
		}
	}
	return nil
}

func (j *Job) of(group int, err error) error {
	if len(j.groups) == 1 {
		return err
	}
	return fmt.Errorf("group %d: %w", group, err)
}

// Done says that every rank has run its program to the end.
func (j *Job) Done() bool {
	for i := range j.groups {
		if !j.GroupDone(i) {
			return false
		}
	}
	return true
}

// GroupDone says so of one group.
func (j *Job) GroupDone(group int) bool {
	for _, r := range j.groups[group].ranks {
		if !r.Done() {
			return false
		}
	}
	return true
}

// Progress counts bytes of results, those that ranks have and all.
func (j *Job) Progress() (got, total int) {
	for _, g := range j.groups {
		for r, rank := range g.ranks {
			for i := range g.work.Steps {
				total += len(g.want[i][r])
				if first := g.firsts[r]; rank.Ended() >= first[i+1] {
					got += len(g.want[i][r])
				}
			}
		}
	}
	return got, total
}

// Collectives is how many collectives every rank of a group has ended.
func (j *Job) Collectives(group int) int {
	g := j.groups[group]
	n := len(g.work.Steps)
	for r, rank := range g.ranks {
		for n > 0 && rank.Ended() < g.firsts[r][n] {
			n--
		}
	}
	return n
}

// Again is the job that is left when the engines have lost all they held: every subgroup is created again,
// with its PSNs moved, and every collective that a rank has not ended is begun anew by all. The results of
// the others are checked now. The set is that of the new job.
func (j *Job) Again() (*Job, error) {
	if err := j.Err(); err != nil {
		return nil, err
	}
	var groups []*group.Group
	var left []*Work
	for n, g := range j.groups {
		ended := j.Collectives(n)
		for i := range ended {
			if err := j.check(n, i); err != nil {
				return nil, err
			}
		}
		var psn0 []psn.PSN
		for q := range g.ranks[0].QPs() {
			last := g.ranks[0].NextPSN(q)
			for _, r := range g.ranks {
				for _, p := range []psn.PSN{r.NextPSN(q), r.NextRecvPSN(q)} {
					if psn.Less(last, p) {
						last = p
					}
				}
			}
			psn0 = append(psn0, psn.Add(psn.Prev(last), psn.Leap))
		}
		moved, err := j.set.Groups[n].Moved(psn0)
		if err != nil {
			return nil, err
		}
		groups = append(groups, moved)
		left = append(left, &Work{Steps: g.work.Steps[ended:], Input: g.work.Input[ended:]})
	}
	set, err := group.NewSet(groups...)
	if err != nil {
		return nil, err
	}
	return NewJob(set, left...)
}

// Set is the groups of the job.
func (j *Job) Set() *group.Set { return j.set }

// Rank is a rank of a group.
func (j *Job) Rank(group, rank int) *host.Rank { return j.groups[group].ranks[rank] }

// Result is what a rank has of collective i.
func (j *Job) Result(group, rank, i int) []byte {
	g := j.groups[group]
	return g.programs[rank].Result(g.ranks[rank], g.firsts[rank], i)
}

// Want is what a rank must have of collective i.
func (j *Job) Want(group, rank, i int) []byte { return j.groups[group].want[i][rank] }

// Differs says where two vectors of a group differ.
func (j *Job) Differs(group int, got, want []byte) string {
	return expect.Differs(j.groups[group].dtype, got, want)
}

// WrongResult is a result that is not what the vectors give.
type WrongResult struct {
	Group, Collective, Rank int
	Step                    tree.Step
	Where                   string
}

// Error says whose and where.
func (w *WrongResult) Error() string {
	return fmt.Sprintf("result of rank %d of collective %d, %v: %s", w.Rank, w.Collective, w.Step, w.Where)
}

// Check compares every rank's results with what they must be; a difference is a *WrongResult.
func (j *Job) Check() error {
	for n, g := range j.groups {
		for i := range g.work.Steps {
			if err := j.check(n, i); err != nil {
				return err
			}
		}
	}
	return nil
}

func (j *Job) check(group, i int) error {
	g := j.groups[group]
	for r := range g.ranks {
		if d := expect.Differs(g.dtype, j.Result(group, r, i), g.want[i][r]); d != "" {
			return j.of(group, &WrongResult{group, i, r, g.work.Steps[i], d})
		}
	}
	return nil
}
