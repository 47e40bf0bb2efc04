package fabric

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// What is not the engine's goes to the bypass, whole; what is spoiled is dropped, and both are seen.
func TestSwitchBypass(t *testing.T) {
	p := newPlan(4)
	p.twoLevel, p.ackEvery = false, 1
	w := build(t, p)
	w.f = nil // the switch alone
	s := w.switches[0]
	var sent int
	s.Bind(func(int, []byte) { sent++ })
	var bypassed [][]byte
	s.Bypassed = func(now uint64, port int, frame []byte) {
		require.Equal(t, uint64(5), now)
		require.Equal(t, 1, port)
		bypassed = append(bypassed, frame)
	}
	var records []spec.Record
	s.Retired = func(_ uint64, r *spec.Record) { records = append(records, *r) }

	arp := append(make([]byte, 12), 0x08, 0x06, 0, 1)
	s.Receive(5, 1, arp)
	require.Equal(t, [][]byte{arp}, bypassed)
	require.Len(t, records, 1)
	require.Equal(t, spec.VerdictNotRoCE, records[0].Verdict)

	var frame *roce.Packet
	for _, o := range w.hosts[1].Ranks[0].Start() {
		if o.Kind == host.Frame && frame == nil {
			frame = o.Packet
		}
	}
	require.NotNil(t, frame)
	bytes := frame.Encode()
	bytes[len(bytes)-1] ^= 1
	s.Receive(5, 1, bytes)
	require.Equal(t, spec.VerdictICRC, records[1].Verdict)
	require.Len(t, bypassed, 1)
	require.Zero(t, sent, "a spoiled frame is not answered")
	bytes[len(bytes)-1] ^= 1
	s.Receive(5, 1, bytes)
	require.Equal(t, spec.CauseData, records[2].Cause)
	require.Equal(t, spec.VerdictOk, records[2].Verdict)
	require.Equal(t, 1, sent, "its ACK")
}
