package control_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/control"
)

// The file of docs/control.md is one.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "control.md"))
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(page), "    version: 1\n")
	require.True(t, ok)
	text := "version: 1\n"
	for _, line := range strings.Split(rest, "\n") {
		line, indented := strings.CutPrefix(line, "    ")
		if !indented {
			break
		}
		text += line + "\n"
	}
	n, err := control.ParseNetwork("docs/control.md", []byte(text))
	require.NoError(t, err)
	assert.Len(t, n.Hosts, 2)
	assert.Equal(t, 15, n.TimeoutCode)
	assert.Equal(t, 10000, n.Timers.TimeoutTicks)
	assert.Equal(t, 64, n.WindowPackets)
	assert.Equal(t, 3, n.Mode)
}

// What is wrong with a file is told by field, all of it at once.
func TestBadNetwork(t *testing.T) {
	for _, tt := range []struct {
		name, from, to string
		want           []string
	}{
		{"version", "version: 1", "version: 2", []string{"n.yaml: version: got 2, want 1"}},
		{"field", "version: 1", "version: 1\ncolour: red", []string{`n.yaml:3:1: unknown field "colour"`}},
		{"syntax", "version: 1", "version: [", []string{"n.yaml:2:10: "}},
		{"name", "name: root", "name: Root", []string{`n.yaml: switches[0].name: got "Root", want a lower-case letter`, `cables[0]: got switch "root", want one of Root, leaf0, leaf1`}},
		{"twice", "name: leaf1", "name: leaf0", []string{`switches[2].name: "leaf0" is entry 1 already`, `cables[1]: got switch "leaf1"`}},
		{"no address", `ip: 10.10.0.1, ip6: "fd01::1"`, "ip: 10.10.0.300", []string{"switches[0]: got neither ip nor ip6"}},
		{"same address", "ip: 10.10.0.2", "ip: 10.10.0.1", []string{"switches[1]: 10.10.0.1 is that of root already"}},
		{"IPv6 as IPv4", "ip: 10.10.0.2", `ip: "fd09::1"`, []string{"switches[1].ip: got fd09::1, want an IPv4 address"}},
		{"port", "ports: [0, 8]", "ports: [64, 8]", []string{"cables[0]: got 64, want 0..63"}},
		{"port twice", "ports: [8, 1]", "ports: [8, 0]", []string{"cables[1]: port 0 of root leads to leaf0 already"}},
		{"host's port", "switch: leaf1, port: 3", "switch: leaf1, port: 8", []string{"hosts[7].port: port 8 of leaf1 leads to root already"}},
		{"host twice", "ip: 10.9.0.8", "ip: 10.9.0.7", []string{"hosts[7].ip: 10.9.0.7 is entry 6 already"}},
		{"window", "window_packets: 16", "window_packets: 3", []string{"window_packets: got 3, want 4..2097152"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Contains(t, networkText, tt.from)
			_, err := control.ParseNetwork("n.yaml", []byte(strings.Replace(networkText, tt.from, tt.to, 1)))
			require.Error(t, err)
			for _, want := range tt.want {
				assert.ErrorContains(t, err, want)
			}
		})
	}
}

// A network that is no tree has no plain placer.
func TestNoTreeNetwork(t *testing.T) {
	for _, tt := range []struct{ from, to, want string }{
		{"hosts:", "  - {between: [leaf0, leaf1], ports: [20, 20]}\nhosts:", "closes a loop, want a tree"},
		{"  - {between: [leaf1, root], ports: [8, 1]}\n", "", "network: no cables lead from switch root to leaf1, want one tree"},
	} {
		n, err := control.ParseNetwork("n.yaml", []byte(strings.Replace(networkText, tt.from, tt.to, 1)))
		require.NoError(t, err)
		_, err = control.NewWhole(n)
		assert.ErrorContains(t, err, tt.want)
	}
}
