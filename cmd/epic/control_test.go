package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/cmd/epic/internal/exit"
)

// A control plane is served, asked, and ends when it is interrupted.
func TestControl(t *testing.T) {
	dir := t.TempDir()
	network, state := filepath.Join(dir, "network.yaml"), filepath.Join(dir, "control.db")
	require.NoError(t, os.WriteFile(network, []byte(`
version: 1
switches: [{name: root, mac: "52:54:00:01:00:01", ip: 10.10.0.1, at: "127.0.0.1:1"}]
`), 0o600))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	said, out := io.Pipe()
	served := make(chan exit.Status, 1)
	go func() {
		served <- execute(ctx, []string{"control", "serve", "--network", network, "--state", state, "--listen", "127.0.0.1:0"}, out, io.Discard)
		_ = out.Close() // a pipe's never fails
	}()
	line := make([]byte, 256)
	n, err := said.Read(line)
	require.NoError(t, err)
	m := regexp.MustCompile(`^control plane at (\S+), 1 switches\n$`).FindSubmatch(line[:n])
	require.NotNil(t, m, "%q", line[:n])
	at := string(m[1])

	ask := func(args ...string) (exit.Status, string, string) {
		var stdout, stderr bytes.Buffer
		status := execute(t.Context(), args, &stdout, &stderr)
		return status, stdout.String(), stderr.String()
	}
	status, text, _ := ask("control", "status", "--at", at)
	assert.Equal(t, exit.Right, status)
	assert.Regexp(t, `^switch +endpoints +pipes +blocks *\nroot +does not answer: `, text)
	status, text, _ = ask("control", "status", "--at", at, "--json")
	assert.Equal(t, exit.Right, status)
	assert.Regexp(t, `"name": +"root"`, text)
	status, _, text = ask("control", "destroy", "--at", at, "train")
	assert.Equal(t, exit.BadInput, status)
	assert.Equal(t, "epic: job \"train\": there is none; there are: none\n", text)

	stop()
	select {
	case status := <-served:
		assert.Equal(t, exit.Right, status)
	case <-time.After(30 * time.Second):
		t.Fatal("it did not end when interrupted")
	}
	status, _, text = ask("control", "status", "--at", at)
	assert.Equal(t, exit.Lost, status)
	assert.Contains(t, text, "epic: control plane at "+at+": does not answer: ")
}

func TestControlBadInput(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("version: 7\n"), 0o600))
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"control"}, "epic control: want one of destroy, join, serve, status\n"},
		{[]string{"control", "serve", "--lease", "1"}, "epic: --lease: got \"1\", want a time as 500ms, 10s or 2m: a rank that is not heard of for so long is dead\n"},
		{[]string{"control", "serve", "--lease", "1ms"}, "epic: --lease: got 1ms, want 100ms..1h\n"},
		{[]string{"control", "serve", "--network", bad}, bad + ": version: got 7, want 1\n" + bad + ": switches: got none, want one at least\n"},
		{[]string{"control", "join"}, "epic: PROGRAM: got none, want the rank's program behind --\n"},
		{[]string{"control", "join", "--ip", "1", "--", "true"}, "epic: --ip: got \"1\", want an address as 10.9.0.1 or fd00::1\n"},
		{[]string{"control", "join", "--ip", "10.9.0.1", "--ranks", "1", "--", "true"}, "epic: rank: got 0 of 1 ranks, want 0..R-1 of R, at least 2\n"},
		{[]string{"control", "destroy"}, "epic control destroy: got 0 JOB, want 1 (epic control destroy JOB [flags])\n"},
	} {
		var stderr bytes.Buffer
		assert.Equal(t, exit.BadInput, execute(t.Context(), tt.args, io.Discard, &stderr), tt.args)
		assert.Equal(t, tt.want, stderr.String())
	}
}
