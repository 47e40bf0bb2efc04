package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/cosim/scoreboard"
	"github.com/epic-inc/epic/cosim/server/servertest"
	"github.com/epic-inc/epic/golden/capture"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/roce"
)

func smallRun(t *testing.T) Options {
	t.Helper()
	sim := servertest.Simulator(t, 64)
	shape := group.DefaultOptions()
	shape.Ranks, shape.MTU, shape.ClocksPerTick = 2, 256, 10
	g, err := group.Generate(shape)
	require.NoError(t, err)
	return Options{Group: g, DataW: 64, Sim: sim, Bytes: 4096, Seed: 3, OutDir: t.TempDir()}
}

// With a TTL in golden that the engine was not given, the first ACK differs in one byte. All that a
// difference comes with is there, and says so.
func TestDifference(t *testing.T) {
	o := smallRun(t)
	o.golden = func(c *engine.Config) { c.Endpoints[1].TTL = 65 }
	rep, err := Run(t.Context(), o)
	require.ErrorIs(t, err, ErrDifference)
	var diff *scoreboard.Difference
	require.ErrorAs(t, err, &diff)
	assert.Equal(t, "byte 22 (ip.ttl)", diff.Field)
	assert.Equal(t, "0x40", diff.Got)
	assert.Equal(t, "0x41", diff.Want)
	assert.EqualValues(t, 3, diff.Seed)
	assert.Equal(t, 1, rep.Mismatches)
	assert.False(t, rep.SumEqual)
	assert.Contains(t, rep.Difference, "seed 3, clock ")

	base := filepath.Join(o.OutDir, "difference-w64-seed3")
	require.Equal(t, []string{base + ".txt", base + ".pcapng", base + ".fst"}, rep.Artifacts)
	text, err := os.ReadFile(base + ".txt")
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(string(text), diff.Error()+"\n"), "%s", text)
	assert.NotContains(t, string(text), "did not end the same way")

	// The capture has what went in and out, up to the frame that differs.
	f, err := capture.Open(base + ".pcapng")
	require.NoError(t, err)
	defer f.Close()
	var last []byte
	ins := 0
	for {
		frame, err := f.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		switch frame.Name {
		case "s_axis_rx":
			ins++
		case "m_axis_tx":
			last = frame.Data
		}
		_, bad := roce.Decode(frame.Data)
		require.Nil(t, bad)
	}
	assert.Positive(t, ins)
	assert.NotNil(t, last)

	fst, err := os.Stat(base + ".fst")
	require.NoError(t, err)
	assert.Greater(t, fst.Size(), int64(10_000))
	short, err := os.ReadFile(base + ".fst")
	require.NoError(t, err)
	assert.NotEqual(t, make([]byte, 8), short[17:25], "the trace was closed")
}

// A second run that does not get as far as the first says why, and names no file that it did not write.
func TestSecondRunFails(t *testing.T) {
	o := smallRun(t)
	old := filepath.Join(o.OutDir, "difference-w64-seed3.fst")
	require.NoError(t, os.WriteFile(old, []byte("of an earlier run"), 0o600))
	var progress strings.Builder
	o.Progress = &progress
	runs := 0
	rep, err := explain(t.Context(), o, func(context.Context, *Options, *Report) error {
		runs++
		if runs == 1 {
			return fmt.Errorf("%w: seed 3: the first", ErrDifference)
		}
		return errors.New("the simulator is lost")
	})
	require.ErrorIs(t, err, ErrDifference)
	assert.Equal(t, 2, runs)
	base := filepath.Join(o.OutDir, "difference-w64-seed3")
	require.Equal(t, []string{base + ".txt"}, rep.Artifacts)
	text, err := os.ReadFile(base + ".txt")
	require.NoError(t, err)
	assert.Contains(t, string(text), "seed 3: the first")
	assert.Contains(t, string(text), "did not end the same way:\nthe simulator is lost\n")
	assert.Contains(t, progress.String(), "seed 3: the first", "said before the second run, which may be interrupted")
	assert.NoFileExists(t, old)
}

func TestOnce(t *testing.T) {
	o := smallRun(t)
	o.Once = true
	o.golden = func(c *engine.Config) { c.Endpoints[1].TTL = 65 }
	rep, err := Run(t.Context(), o)
	require.ErrorIs(t, err, ErrDifference)
	assert.Empty(t, rep.Artifacts)
	files, err := os.ReadDir(o.OutDir)
	require.NoError(t, err)
	assert.Empty(t, files)
}

// An out in error is no difference between golden and the engine, but the run cannot end well.
func TestStuck(t *testing.T) {
	o := smallRun(t)
	shape := group.DefaultOptions()
	shape.Ranks, shape.MTU, shape.ClocksPerTick, shape.TimeoutTicks, shape.Loss = 2, 256, 1, 20, 0.9
	g, err := group.Generate(shape)
	require.NoError(t, err)
	o.Group = g
	rep, err := Run(t.Context(), o)
	require.ErrorIs(t, err, ErrDifference)
	assert.ErrorContains(t, err, "in error, in golden as in the engine: retries")
	assert.Equal(t, 1, rep.Mismatches)
	assert.Len(t, rep.Artifacts, 3)
}
