// Package csr builds and runs the bench of the register block (rtl/csr): bench/csr_tb.cpp around
// bench/inc_csr_tb.sv.
package csr

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../../.."

func TestRegisterBlock(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a Verilator model")
	}
	dir := t.TempDir()
	here, err := filepath.Abs(".")
	require.NoError(t, err)
	verilator := filepath.Join(here, root, "scripts/verilator")

	args := []string{"--cc", "--exe", "--build", "-j", "2", "--top-module", "inc_csr_tb",
		"--assert", "-DINC_ASSERT", "--x-assign", "unique", "--x-initial", "unique", "-Wno-lint", "-Wno-style",
		"-CFLAGS", "-std=c++17 -O1 -I" + filepath.Join(here, root, "cosim/dpi"),
		// The Python wheel's makefile lacks the option that includes a precompiled header.
		"-MAKEFLAGS", "CFG_CXXFLAGS_PCH_I=-include",
		"--Mdir", dir, "-o", "csr_tb"}
	sources := []string{"scripts/verilator", "cosim/dpi/inc_spec.h", "cosim/dpi/inc_csr.h"}
	for _, f := range []string{"rtl/pkg/inc_spec_pkg.sv", "rtl/pkg/inc_build_pkg.sv", "rtl/prim/inc_lutram.sv", "rtl/csr/inc_csr_pkg.sv",
		"rtl/csr/inc_csr.sv", "rtl/csr/inc_axil.sv", "rtl/csr/inc_csr_block.sv", "rtl/csr/inc_counters.sv", "cosim/stage/csr/bench/csr.vlt",
		"cosim/stage/csr/bench/inc_csr_tb.sv", "cosim/stage/csr/bench/csr_tb.cpp"} {
		args = append(args, filepath.Join(here, root, f))
		sources = append(sources, f)
	}
	// go test runs again when a file that a test has read changes: what the compilers read is read here.
	for _, f := range sources {
		_, err := os.ReadFile(filepath.Join(root, f))
		require.NoError(t, err)
	}
	out, err := exec.Command(verilator, args...).CombinedOutput()
	require.NoError(t, err, "scripts/setup sim brings what the build needs; it said:\n%s", out)

	for _, seed := range []string{"1", "2", "3", "4"} {
		t.Run("seed "+seed, func(t *testing.T) {
			out, err := exec.Command(filepath.Join(dir, "csr_tb"), seed).CombinedOutput()
			require.NoError(t, err, string(out))
			require.Contains(t, string(out), "right")
		})
	}
}
