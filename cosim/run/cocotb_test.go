package run

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/spec"
)

// record writes messages as a server sends them.
func record(t *testing.T, messages ...spec.Message) string {
	t.Helper()
	var b []byte
	for _, m := range messages {
		b = spec.AppendMessage(b, m)
	}
	file := filepath.Join(t.TempDir(), "run.link")
	require.NoError(t, os.WriteFile(file, b, 0o600))
	return file
}

func TestWriteScript(t *testing.T) {
	in := record(t, &spec.RegReq{Write: 1, Addr: 0x24, Data: 9}, &spec.RegReq{Addr: 0x34}, &spec.Grant{Until: 90},
		&spec.FrameIn{Time: 100, Port: 3, Bytes: []byte{0xab, 1}}, &spec.FrameIn{Time: 100 + cocotbClocks, Bytes: []byte{2}},
		&spec.FrameIn{Time: 101 + cocotbClocks, Bytes: []byte{4}})
	out := filepath.Join(t.TempDir(), "script")
	frames, err := writeScript(in, out)
	require.NoError(t, err)
	assert.Equal(t, 2, frames)
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.Equal(t, `{"write":[36,9]}
{"read":52}
{"frame":[100,3,"ab01"]}
{"frame":[5100,0,"02"]}
{"until":5101}
`, string(text))

	_, err = writeScript(record(t, &spec.FrameIn{Time: 1}), out)
	assert.ErrorContains(t, err, "the record ends before 5000 clocks of traffic")
}

// A peer that plays nothing would make any ratio.
func TestCocotbThatDoesNothing(t *testing.T) {
	in := record(t, &spec.FrameIn{Time: 1, Bytes: []byte{1}}, &spec.FrameIn{Time: 2 + cocotbClocks})
	program := filepath.Join(t.TempDir(), "peer")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho '{\"clocks\":9,\"wall_s\":1,\"frames_in\":0,\"frames_out\":0}'\n"), 0o700))
	_, _, err := benchCocotb(t.Context(), program, 512, in, t.TempDir())
	assert.ErrorContains(t, err, "got 0 frames in, 0 out in 1.00 s, want 1 in")
}
