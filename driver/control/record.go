package control

import (
	"fmt"
	"math/bits"
	"net/netip"
	"time"

	"github.com/epic-inc/epic/driver/control/controlpb"
	"github.com/epic-inc/epic/driver/control/failure"
	"github.com/epic-inc/epic/driver/control/target"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// What is on disk of a job. A record is written before anything is done that it speaks of, so that whoever reads it
// after a crash knows what may have been done, and does it again.

// job is one incarnation of a job: from the moment at which all ranks had come.
type job struct {
	ID         string         `json:"id"`
	Name       string         `json:"name"`
	Tenant     string         `json:"tenant,omitempty"`
	Members    []member       `json:"members"` // by rank
	Terms      terms          `json:"terms"`
	Placement  *Placement     `json:"placement,omitempty"`
	NoTree     *failure.Error `json:"no_tree,omitempty"`
	Subgroups  []*subgroup    `json:"subgroups"` // by sequence
	State      jobState       `json:"state"`
	Failure    *failure.Error `json:"failure,omitempty"` // why it ends; nil: its ranks left it
	FailedAt   string         `json:"failed_at,omitempty"`
	Began      time.Time      `json:"began"`
	Generation uint64         `json:"generation"`

	changed chan struct{} // closed and made anew whenever the state moves
}

type jobState string

const (
	jobRunning  jobState = "running"
	jobRemoving jobState = "removing" // subgroups are being taken out of the switches
	jobEnded    jobState = "ended"    // kept to answer those who ask for it late
)

// terms are what the ranks of a job agreed on.
type terms struct {
	Mode           int        `json:"mode"`
	MTU            int        `json:"mtu"`
	MessagePackets int        `json:"message_packets"`
	WindowPackets  int        `json:"window_packets"`
	Pinned         bool       `json:"pinned"`
	Op             spec.Op    `json:"op"`
	DType          spec.DType `json:"dtype"`
	Reproducible   bool       `json:"reproducible"`
}

// slots is N of the pipes: of Mode-I the packets of a message (protocol.md 7), else what the window needs.
func (t terms) slots() int {
	if t.Mode == 1 {
		return max(engine.MinSlots, 1<<bits.Len(uint(t.MessagePackets-1)))
	}
	return slots(t.WindowPackets)
}

type member struct {
	Session string    `json:"session"`
	MAC     group.MAC `json:"mac"`
	IP      group.IP  `json:"ip"`
	LinkMTU int       `json:"link_mtu"`
	Place   *Place    `json:"place,omitempty"` // nil: not at a switch that is known
	Ring    ring      `json:"ring"`
	Left    bool      `json:"left"`

	lease time.Time // when it ends
	heard time.Time // when it last renewed
}

type ring struct {
	Before uint32 `json:"before"`
	After  uint32 `json:"after"`
	PSN    uint32 `json:"psn"`
}

// subgroup is the n-th of its job.
type subgroup struct {
	ID         string                 `json:"id"`
	Collective string                 `json:"collective"`
	Root       int                    `json:"root"`
	QPNs       []uint32               `json:"qpns"`
	State      subgroupState          `json:"state"`
	Document   string                 `json:"document,omitempty"`  // group.yaml; none if it never came to one
	Rows       map[string]target.Rows `json:"rows,omitempty"`      // by switch
	Failure    *failure.Error         `json:"failure,omitempty"`   // why it is none
	Quiesced   []bool                 `json:"quiesced"`            // by rank: it has its send completions
	Last       []*uint32              `json:"last"`                // by rank: the last psn it has sent, of those who quiesced; nil: none
	Gone       []bool                 `json:"gone"`                // by rank: it gave the subgroup back
	LastUsed   *psn.PSN               `json:"last_used,omitempty"` // the last psn of any rank, once it is being taken out

	group   *group.Group // parsed Document
	reports map[int]report
	next    *psn.PSN // target.State's, the largest, while it is taken out
}

type report struct {
	last psn.PSN
	at   time.Time
}

type subgroupState string

const (
	subgroupInstalling subgroupState = "installing"
	subgroupReady      subgroupState = "ready"
	subgroupRemoving   subgroupState = "removing"
	subgroupEnded      subgroupState = "ended"
)

// holds says whether the subgroup may have something in switches, and so holds what it was given of them.
func (s *subgroup) holds() bool { return s.Document != "" && s.State != subgroupEnded }

func (s *subgroup) step() (tree.Step, error) {
	c, err := tree.ParseCollective(s.Collective)
	return tree.Step{Collective: c, Root: s.Root}, err
}

// name is reduce:2.
func (s *subgroup) name() string {
	step, err := s.step()
	if err != nil {
		return s.Collective
	}
	return step.String()
}

// parse fills what is not on disk.
func (s *subgroup) parse() error {
	if s.Document == "" {
		return nil
	}
	g, err := group.Parse(s.ID, []byte(s.Document))
	if err != nil {
		return fmt.Errorf("subgroup %s: %w", s.ID, err)
	}
	s.group = g
	return nil
}

// psn0 is the first psn of the subgroup.
func (s *subgroup) psn0() psn.PSN { return psn.PSN(s.group.Switches[0].Pipes[0].PSN0) }

// direction is one way between two queue pairs; leftovers of it are told apart by nothing but their PSNs.
type direction struct {
	From netip.Addr `json:"from"`
	To   netip.Addr `json:"to"`
	QPN  uint32     `json:"qpn"` // destination
}

func (d direction) String() string { return fmt.Sprintf("%v>%v/%06x", d.From, d.To, d.QPN) }

// directions of a subgroup's document: both ways of every edge.
func directions(g *group.Group) []direction {
	var list []direction
	seen := map[direction]bool{}
	for _, sw := range g.Switches {
		for _, ep := range sw.Endpoints {
			for _, d := range []direction{{ep.PeerIP.Addr, ep.IP.Addr, ep.QPN}, {ep.IP.Addr, ep.PeerIP.Addr, ep.PeerQPN}} {
				if !seen[d] {
					seen[d] = true
					list = append(list, d)
				}
			}
		}
	}
	return list
}

// who is a rank for messages.
func (j *job) who(rank int) string { return fmt.Sprintf("rank %d (%v)", rank, j.Members[rank].IP) }

func (j *job) bySession(session string) (int, bool) {
	for r := range j.Members {
		if j.Members[r].Session == session {
			return r, true
		}
	}
	return 0, false
}

// move wakes those who wait for the job.
func (j *job) move() {
	close(j.changed)
	j.changed = make(chan struct{})
}

// why is what a call for a job that is not running gets.
func (j *job) why() *failure.Error {
	if j.Failure != nil {
		return j.Failure
	}
	return failure.New(controlpb.Kind_KIND_LEFT, nil, "job %s: has ended: its ranks have left it", j.Name)
}
