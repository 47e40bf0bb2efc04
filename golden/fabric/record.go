package fabric

import (
	"fmt"
	"io"
	"time"

	"github.com/epic-inc/epic/golden/capture"
)

// Recorder writes the frames of a fabric as pcapng, one interface per node and port that sent, named
// "node:port". The time of a frame is when it began to leave; clockPS says how long one is, in picoseconds.
// A frame that was lost is recorded too: it did leave. So a duplicated frame is there once.
type Recorder struct {
	f     *Fabric
	clock uint64
	w     *capture.Writer
	err   error
}

// Record starts recording to out. Only one recorder or other tap can be set at a time.
func (f *Fabric) Record(out io.Writer, clockPS uint64) *Recorder {
	r := &Recorder{f: f, clock: clockPS, w: capture.NewWriter(out, "epic golden/fabric")}
	f.SetTap(r.Passage)
	return r
}

// Passage records one frame. It is what Record sets as tap; a tap that does more may call it.
func (r *Recorder) Passage(p Passage) {
	if r.err != nil || p.Fate == Duplicate {
		return
	}
	r.err = r.w.Write(fmt.Sprintf("%s:%d", r.f.Name(p.From), p.FromPort), time.Duration(p.Sent*r.clock/1000), p.Frame)
}

// Flush writes what is buffered and returns the first error of recording.
func (r *Recorder) Flush() error {
	if r.err == nil {
		r.err = r.w.Flush()
	}
	return r.err
}
