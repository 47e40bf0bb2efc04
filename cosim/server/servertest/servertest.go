// Package servertest gives tests the simulator of the engine.
package servertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/cosim/server"
)

// Simulator is the path of the engine's simulator of a width; scripts/build-sim builds it if it is out of
// date. A short test is skipped.
func Simulator(t *testing.T, width int) string {
	t.Helper()
	if testing.Short() {
		t.Skip("the engine's simulator takes minutes to build")
	}
	root, err := filepath.Abs(".")
	require.NoError(t, err)
	for root != filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		root = filepath.Dir(root)
	}
	out, err := exec.Command(filepath.Join(root, "scripts/build-sim"), strconv.Itoa(width)).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return server.BinaryPath(filepath.Join(root, server.BinaryFolder), width)
}
