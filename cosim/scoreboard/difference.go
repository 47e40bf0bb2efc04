package scoreboard

import (
	"fmt"
	"strings"

	"github.com/epic-inc/epic/golden/spec"
)

// Difference is the first thing in which an engine is not what golden says.
type Difference struct {
	Seed     uint64
	Clock    uint64
	Record   uint64 // number of the record, from 0; of a frame: of the last record before it was compared
	What     string // what was compared
	Field    string // the first field that differs
	Got      string // there, in the engine
	Want     string // there, in golden
	Actual   *spec.Record
	Expected *spec.Record  // as far as golden got
	Before   []spec.Record // the records before it, oldest first

	GotBytes, WantBytes []byte // of a frame
}

// Error is one line; Detail has the rest.
func (d *Difference) Error() string {
	return fmt.Sprintf("seed %d, clock %d, record %d: %s: %s is %s, want %s", d.Seed, d.Clock, d.Record, d.What, d.Field, d.Got, d.Want)
}

// Detail shows the records around the difference, and the frames.
func (d *Difference) Detail() string {
	var b strings.Builder
	for i := range d.Before {
		r := &d.Before[i]
		fmt.Fprintf(&b, "  before: %v\n", r)
	}
	if d.Actual != nil {
		fmt.Fprintf(&b, "  engine: %v\n", d.Actual)
	}
	if d.Expected != nil {
		fmt.Fprintf(&b, "  golden: %v\n", d.Expected)
	}
	if d.GotBytes != nil || d.WantBytes != nil {
		fmt.Fprintf(&b, "  engine: %x\n  golden: %x\n", d.GotBytes, d.WantBytes)
	}
	return b.String()
}

// differ completes a difference, keeps it as the first and returns it.
func (s *Scoreboard) differ(d *Difference, r *spec.Record) error {
	d.Seed = s.cfg.Seed
	d.Record = s.stats.Records
	if d.Record > 0 {
		d.Record--
	}
	d.Before = s.records.all()
	if r != nil {
		actual := *r
		d.Clock, d.Actual = r.Clock, &actual
		d.Before = d.Before[:len(d.Before)-1]
	}
	if d.Clock == 0 { // of the end of a run
		d.Clock = s.clock
	}
	s.first = d
	return d
}

// ring keeps the latest entries.
type ring[T any] struct {
	most int
	list []T
	next int
}

func (r *ring[T]) add(v T) {
	if len(r.list) < r.most {
		r.list = append(r.list, v)
		return
	}
	r.list[r.next] = v
	r.next = (r.next + 1) % r.most
}

// all returns the entries, oldest first.
func (r *ring[T]) all() []T {
	return append(append([]T(nil), r.list[r.next:]...), r.list[:r.next]...)
}
