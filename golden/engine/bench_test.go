package engine

import (
	"testing"

	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
)

// BenchmarkAllReduce is the root of four leaves at 1 KB: a psn is four data frames, four results and
// four ACKs. It reports frames in and out per second.
func BenchmarkAllReduce(b *testing.B) {
	c := flat(4, 128, 0)
	c.Pipes[0].MTU = 1024
	e, err := New(c)
	if err != nil {
		b.Fatal(err)
	}
	e.Program()
	data := make([]uint32, 256)
	var evs []Event
	for i := range 4 {
		evs = append(evs, dataFrom(&c, i, 0, data...), ackFrom(&c, i, 0, spec.SyndromeAck))
	}
	frames := 0
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		for k := range 8 {
			ev := &evs[(k*2)%8+k/4]
			ev.Packet.PSN = psn.Add(0, n)
			for _, o := range e.Run(*ev) {
				if o.Kind == Frame {
					frames++
				}
			}
			frames++
		}
	}
	b.ReportMetric(float64(frames)/b.Elapsed().Seconds(), "frames/s")
}
