package group

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The example of docs/configuration.md, with the rank it leaves out, is right.
func TestDocumentedExample(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
	require.NoError(t, err)
	_, example, ok := strings.Cut(string(page), "    version: 1\n")
	require.True(t, ok)
	example, _, ok = strings.Cut(example, "\nWrite MAC addresses")
	require.True(t, ok)
	text := "version: 1\n" + strings.ReplaceAll(strings.TrimPrefix(example, "    "), "\n    ", "\n")
	text = strings.Replace(text, "      # rank1, and so on\n", `      - {name: rank1, port: 1, mac: "52:54:00:00:00:63", ip: 10.9.0.99, qpn: 0x102, peer_mac: "52:54:00:00:00:02", peer_ip: 10.9.0.2, peer_qpn: 17}
`, 1)
	text = strings.Replace(text, "links: ", "  - {mac: \"52:54:00:00:00:02\", ip: 10.9.0.2, qpn: 17}\nlinks: ", 1)
	g, err := Parse("configuration.md", []byte(text))
	require.NoError(t, err, "%s", text)
	assert.Equal(t, 0.2, g.LinkBetween("root", "rank/0").Loss)
	assert.Equal(t, 0.01, g.LinkBetween("root", "rank/1").Loss)
	assert.Equal(t, 25, g.Clock.PerTick)
}
