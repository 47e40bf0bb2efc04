// Package oracle runs the independent tools that tests hold this project's own reading of frames
// against: tshark, which dissects, and scapy, which computes the ICRC; and MPFR, for its arithmetic. It
// is for tests only.
//
// A tool that is missing skips the test and says so; with EPIC_REQUIRE_TOOLS=1 it fails it (Skip, for
// every test that needs something of the machine). Under `go test -short` tshark and scapy are not run.
package oracle

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Root is the root of the repository.
func Root(tb testing.TB) string {
	tb.Helper()
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		tb.Fatal("oracle: built without the path of its source (-trimpath?)")
	}
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// Skip ends a test for want of something of the machine: a tool, a right, a file. It skips the test and
// prints why, or fails it where EPIC_REQUIRE_TOOLS is 1, as in `make test`, which has everything.
func Skip(tb testing.TB, format string, args ...any) {
	tb.Helper()
	if os.Getenv("EPIC_REQUIRE_TOOLS") == "1" {
		tb.Fatalf("EPIC_REQUIRE_TOOLS is 1: "+format, args...)
	}
	tb.Skipf("not run: "+format, args...)
}

func missing(tb testing.TB, tool, remedy string) {
	tb.Helper()
	Skip(tb, "%s is missing: %s", tool, remedy)
}

func short(tb testing.TB, tool string) {
	tb.Helper()
	if testing.Short() {
		tb.Skipf("not compared with %s: -short", tool)
	}
}

func run(tb testing.TB, stdin []byte, name string, args ...string) []byte {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), name, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		tb.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, errs.Bytes())
	}
	return out.Bytes()
}

// Tshark dissects a capture file and returns, for each frame, the value of each field as tshark prints
// it, "" where a frame does not have the field. Of a field that occurs twice (an inner VLAN tag) it has
// both, joined by a comma.
func Tshark(tb testing.TB, file string, fields ...string) [][]string {
	tb.Helper()
	short(tb, "tshark")
	if _, err := exec.LookPath("tshark"); err != nil {
		missing(tb, "tshark", "scripts/setup test")
	}
	// tshark takes some UDP source ports for other protocols' and RoCE for RPC over RDMA; it checks
	// checksums only when asked.
	args := []string{"-n", "-r", file, "-d", "udp.port==4791,infiniband", "--disable-protocol", "rpcordma",
		"-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE",
		"-T", "fields", "-E", "separator=/t", "-E", "occurrence=a"}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	var rows [][]string
	for line := range strings.Lines(string(run(tb, nil, "tshark", args...))) {
		row := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
		if len(row) != len(fields) {
			tb.Fatalf("tshark %s: frame %d has %d fields, want %d: %q", file, len(rows)+1, len(row), len(fields), line)
		}
		rows = append(rows, row)
	}
	return rows
}

// Python runs a program with the Python of .tools/venv (scapy in it) and returns what it prints.
func Python(tb testing.TB, program string, stdin []byte, args ...string) []byte {
	tb.Helper()
	short(tb, "scapy")
	return run(tb, stdin, python(tb, "scapy"), append([]string{"-c", program}, args...)...)
}

// GMPY2 runs a file with the Python of .tools/venv (gmpy2, which is MPFR, in it) and returns what it
// prints. It runs with -short too: the test draws less then.
func GMPY2(tb testing.TB, file string, stdin []byte) []byte {
	tb.Helper()
	return run(tb, stdin, python(tb, "gmpy2"), file)
}

// python is the interpreter of .tools/venv, if it has the module.
func python(tb testing.TB, module string) string {
	tb.Helper()
	path := filepath.Join(Root(tb), ".tools", "venv", "bin", "python")
	if _, err := os.Stat(path); err != nil {
		missing(tb, module, "scripts/setup test")
	}
	if err := exec.Command(path, "-c", "import "+module).Run(); err != nil {
		missing(tb, module, "scripts/setup test")
	}
	return path
}
