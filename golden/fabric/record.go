package fabric

import (
	"fmt"
	"io"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
)

// Recorder writes the frames of a fabric as pcapng, one interface per node and port that sent, named
// "node:port". The time of a frame is when it began to leave; clockPS says how long one is, in picoseconds.
// A frame that was lost is recorded too: it did leave. So a duplicated frame is there once.
type Recorder struct {
	f     *Fabric
	out   io.Writer
	clock uint64
	w     *pcapgo.NgWriter
	ports map[recordedPort]int
	err   error
}

type recordedPort struct {
	node ID
	port int
}

// Record starts recording to out. Only one recorder or other tap can be set at a time.
func (f *Fabric) Record(out io.Writer, clockPS uint64) *Recorder {
	r := &Recorder{f: f, out: out, clock: clockPS, ports: map[recordedPort]int{}}
	f.SetTap(r.Passage)
	return r
}

// Passage records one frame. It is what Record sets as tap; a tap that does more may call it.
func (r *Recorder) Passage(p Passage) {
	if r.err != nil || p.Fate == Duplicate {
		return
	}
	key := recordedPort{p.From, p.FromPort}
	i, ok := r.ports[key]
	if !ok {
		if i, r.err = r.add(fmt.Sprintf("%s:%d", r.f.Name(p.From), p.FromPort)); r.err != nil {
			return
		}
		r.ports[key] = i
	}
	r.err = r.w.WritePacket(gopacket.CaptureInfo{
		Timestamp: time.Unix(0, 0).Add(time.Duration(p.Sent * r.clock / 1000)),
		Length:    len(p.Frame), CaptureLength: len(p.Frame), InterfaceIndex: i,
	}, p.Frame)
}

func (r *Recorder) add(name string) (int, error) {
	iface := pcapgo.NgInterface{Name: name, LinkType: layers.LinkTypeEthernet, TimestampResolution: 9}
	if r.w != nil {
		return r.w.AddInterface(iface)
	}
	w, err := pcapgo.NewNgWriterInterface(r.out, iface, pcapgo.NgWriterOptions{
		SectionInfo: pcapgo.NgSectionInfo{Application: "epic golden/fabric"},
	})
	r.w = w
	return 0, err
}

// Flush writes what is buffered and returns the first error of recording.
func (r *Recorder) Flush() error {
	if r.err == nil && r.w != nil {
		r.err = r.w.Flush()
	}
	if r.err != nil {
		return fmt.Errorf("record pcapng: %w", r.err)
	}
	return nil
}
