// Package target is what the control plane programs: a switch behind the interface Switch.
//
// It is programmed a subgroup at a time. A subgroup is a complete group document of one collective (golden/group), and
// shares neither endpoints nor pipes, blocks or table rows with another, so that putting one in or taking it out
// changes nothing for those that run. Table is a Switch of hardware, through its registers; Serve and Dial carry any
// Switch to another process.
package target

import (
	"context"
	"errors"
	"fmt"

	"github.com/epic-inc/epic/driver/table"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
)

// Switch is one switch that runs subgroups for the control plane. Its methods may be called from several goroutines at
// once, and return when they are done or ctx is. A call may be made again after one whose outcome is not known.
type Switch interface {
	// Info says what the switch is and has.
	Info(ctx context.Context) (Info, error)
	// Install puts a subgroup in under an id of the caller's and returns when its pipes take data. With an id that is
	// installed it changes nothing: an id never stands for two documents.
	Install(ctx context.Context, id string, g *group.Group, rows Rows) error
	// Quiesce says that every rank of a subgroup has its send completions (protocol.md 9): only then is a Mode-II
	// pipe drained. In other modes it changes nothing.
	Quiesce(ctx context.Context, id string) error
	// State of a subgroup.
	State(ctx context.Context, id string) (State, error)
	// Remove takes a subgroup out: what arrives for it is not the engine's any more. One that is not drained is refused
	// with ErrBusy, unless force. An id that is not installed is no error.
	Remove(ctx context.Context, id string, force bool) error
	// Installed lists the ids.
	Installed(ctx context.Context) ([]string, error)
	// Watch tells of pipes in error, those that are so already first, and returns when ctx is done or the switch
	// cannot be watched any more.
	Watch(ctx context.Context, tell func(Fault)) error
}

// Info is what a switch is and has.
type Info struct {
	Name            string // as in the documents
	Ports           int    // 1..64
	EndpointEntries int    // a power of two: rows of the endpoint table
	PipeEntries     int
	ListEntries     int // rows of the out list, and of the in list
	PoolKB          int // payload pool
	MTU             int // largest payload of a packet, bytes
	FanIn           int // most ins of a pipe
	Modes           []int
	NoFloat         bool         // it reduces integers only
	Boot            string       // another one whenever the tables were lost
	Held            []table.Held // what pipes keep that no subgroup has any more; pipe -1: only the rest is the switch's own
}

// Blocks is the size of the pool in blocks of spec.BlockBytes.
func (i Info) Blocks() int { return spec.PoolBlocks(i.PoolKB) }

// Rows are the table rows of a subgroup at one switch: of each of the switch's pipes in the document, in its order. The
// row of an endpoint is the low bits of its QPN, its blocks are in the document.
type Rows struct {
	Pipes []int `json:"pipes"`
	Outs  []int `json:"outs"` // first entry in the out list
	Ins   []int `json:"ins"`  // first entry in the in list, which Mode-II alone uses
}

// State is that of a subgroup at one switch.
type State struct {
	Drained bool // Remove needs no force
	// Next is a bound: no rank has an acknowledgement of a psn from Next on, so that none has sent one from Next+MW on.
	// Known is false where the switch keeps no count, as a Mode-II pipe of one in.
	Next  psn.PSN
	Known bool
}

// Fault is a pipe in error. Pipe and Endpoint are names of the document.
type Fault struct {
	ID          string // of the subgroup
	Pipe        string
	Endpoint    string // at which it was seen
	Kind        spec.ErrorKind
	PSN         psn.PSN
	Got, Wanted uint32 // as the kind's text says (rtl/spec/inc.yaml, error_kinds)
}

// String is the fault in one line.
func (f Fault) String() string {
	return fmt.Sprintf("%v at pipe %s, endpoint %s, psn %v: got %d, want %d", f.Kind, f.Pipe, f.Endpoint, f.PSN, f.Got, f.Wanted)
}

// ErrBusy says that a subgroup is not drained: it may be removed later, or with force.
var ErrBusy = errors.New("not drained")

// ErrNotInstalled says that the switch does not know the id.
var ErrNotInstalled = errors.New("not installed")
