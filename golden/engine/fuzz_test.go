package engine_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/capture"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// A tape is what FuzzFrames is given: a byte for the mode, then frames, each after a byte with its port (bits 1:0),
// whether its ICRC is to be mended (7), and whether a timer runs out before it (6), and two with its length.
const (
	tapePort  = 3
	tapeTimer = 0x40
	tapeMend  = 0x80
)

func appendFrame(tape []byte, port byte, frame []byte) []byte {
	tape = append(tape, port)
	tape = binary.LittleEndian.AppendUint16(tape, uint16(len(frame)))
	return append(tape, frame...)
}

// FuzzFrames: whatever comes from outside, in any mode, no event makes the engine fail, what it says is enabled is legal,
// what it sends can be read, and a frame that is nobody's or spoiled changes no state (protocol.md 8, 4 and 5).
func FuzzFrames(f *testing.F) {
	cfg := taped(f)
	files, err := filepath.Glob("../../testdata/captures/*/*.pcap")
	require.NoError(f, err)
	require.NotEmpty(f, files)
	for n, file := range files {
		tape := []byte{byte(n)}
		c, err := capture.Open(file)
		require.NoError(f, err)
		for i := range 24 {
			frame, err := c.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(f, err)
			tape = appendFrame(tape, byte(i)&tapePort|tapeMend, frame.Data)
		}
		require.NoError(f, c.Close())
		f.Add(tape)
	}
	for mode := range byte(3) {
		f.Add(tapeOfRanks(f, mode))
	}

	f.Fuzz(func(t *testing.T, tape []byte) {
		if len(tape) > 0 {
			play(t, cfg, tape)
		}
	})
}

// tapeOfRanks is all four ranks at once, as they were captured.
func tapeOfRanks(tb testing.TB, mode byte) []byte {
	tape := []byte{mode}
	var ranks [4]*capture.File
	for r := range ranks {
		var err error
		name := fmt.Sprintf("allreduce4_i32_rank%d.pcap", r)
		ranks[r], err = capture.Open(filepath.Join("../../testdata/captures/allreduce4", name))
		require.NoError(tb, err)
		defer ranks[r].Close()
	}
	for range 16 {
		for r := range ranks {
			frame, err := ranks[r].Next()
			require.NoError(tb, err)
			tape = appendFrame(tape, byte(r), frame.Data)
		}
	}
	return tape
}

// What the fuzzing begins with goes as far as results.
func TestTapesDeliver(t *testing.T) {
	for mode := range byte(3) {
		require.Positive(t, play(t, taped(t), tapeOfRanks(t, mode)), "mode %d", mode+1)
	}
}

// taped is the engine of the captures, with so few slots that they are soon full.
func taped(tb testing.TB) engine.Config {
	g, err := group.Load("../../testdata/allreduce4/group.yaml")
	require.NoError(tb, err)
	cfg, err := g.EngineConfig("root")
	require.NoError(tb, err)
	cfg.Pipes[0].N = 16
	return cfg
}

// play lets a tape come in, and returns how many data frames left.
func play(t *testing.T, cfg engine.Config, tape []byte) (results int) {
	cfg.Pipes = append([]engine.Pipe(nil), cfg.Pipes...)
	cfg.Pipes[0].Mode = 1 + int(tape[0])%3
	e, err := engine.New(cfg)
	require.NoError(t, err)
	e.Program()
	results += settle(t, e)
	for rest := tape[1:]; len(rest) >= 3; {
		flags, n := rest[0], int(binary.LittleEndian.Uint16(rest[1:]))
		n = min(n, len(rest)-3)
		frame := append([]byte(nil), rest[3:3+n]...)
		rest = rest[3+n:]
		if flags&tapeMend != 0 {
			_ = roce.SetICRC(frame) // what is too short stays as it is
		}
		if flags&tapeTimer != 0 {
			expire(t, e, int(flags)&tapePort)
		}
		arrive(t, e, int(flags)&tapePort, frame)
		results += settle(t, e)
	}
	return results
}

func arrive(t *testing.T, e *engine.Engine, port int, frame []byte) {
	ev := engine.Event{Cause: spec.CauseDrop, Port: port}
	pkt, bad := roce.Decode(frame)
	if bad != nil {
		ev.Verdict = bad.Verdict
	} else {
		ev.Packet = pkt
	}
	require.NoError(t, e.Legal(ev))
	before := e.AppendState(nil)
	outs := read(t, e.Step(ev))
	if r := outs[0].Record; r.Cause == spec.CauseDrop {
		require.Equal(t, before, e.AppendState(nil), "%v changed the state", r.Verdict)
	}
}

// expire lets what timers of an endpoint run run out.
func expire(t *testing.T, e *engine.Engine, endpoint int) {
	for _, cause := range []spec.Cause{spec.CauseTimer, spec.CauseRNRExpiry} {
		if ev := (engine.Event{Cause: cause, Endpoint: endpoint}); e.Legal(ev) == nil {
			read(t, e.Step(ev))
		}
	}
}

// settle lets the engine do all it can, and returns how many data frames left. A frame makes a bounded number of events.
func settle(t *testing.T, e *engine.Engine) (results int) {
	for n := 0; ; n++ {
		evs := e.Enabled()
		if len(evs) == 0 {
			return results
		}
		require.Less(t, n, 1000, "the engine does not come to rest: %v", evs[0])
		for _, ev := range evs {
			require.NoError(t, e.Legal(ev))
		}
		copied := e.Clone()
		for _, o := range read(t, e.Step(evs[0])) {
			if o.Kind == engine.Frame && !o.Packet.HasAETH() {
				results++
			}
		}
		copied.Step(evs[0])
		require.Equal(t, e.AppendState(nil), copied.AppendState(nil), "a copy does the same")
	}
}

// read decodes what the engine sends.
func read(t *testing.T, outs []engine.Output) []engine.Output {
	for _, o := range outs {
		if o.Kind == engine.Frame {
			_, bad := roce.Decode(o.Packet.Encode())
			require.Nil(t, bad)
		}
	}
	return outs
}
