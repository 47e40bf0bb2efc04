// Package cdc builds and runs the bench of rtl/prim/inc_frame_cdc.sv: bench/cdc_tb.cpp.
package cdc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	root   = "../../.."
	module = "rtl/prim/inc_frame_cdc.sv"
	depth  = 16
)

// build makes the bench of a source and returns its path.
func build(t *testing.T, source string, lossy int) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "inc_frame_cdc.sv")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o644))
	bench, err := filepath.Abs("bench/cdc_tb.cpp")
	require.NoError(t, err)
	_, err = os.ReadFile(bench) // go test runs again when it changes
	require.NoError(t, err)
	out, err := exec.Command(filepath.Join(root, "scripts/verilator"), "--cc", "--exe", "--build", "-j", "2", "--top-module", "inc_frame_cdc",
		"-GDATA_W=16", fmt.Sprint("-GDEPTH=", depth), fmt.Sprint("-GLOSSY=", lossy),
		"--assert", "-DINC_ASSERT", "--x-assign", "unique", "--x-initial", "unique", "-Wno-lint", "-Wno-style",
		"-CFLAGS", "-std=c++17 -O1", "-MAKEFLAGS", "CFG_CXXFLAGS_PCH_I=-include",
		"--Mdir", filepath.Join(dir, "obj"), "-o", filepath.Join(dir, "cdc_tb"), file, bench).CombinedOutput()
	require.NoError(t, err, "scripts/setup sim brings what the build needs; it said:\n%s", out)
	return filepath.Join(dir, "cdc_tb")
}

func run(program string, lossy, seed int) (string, error) {
	out, err := exec.Command(program, fmt.Sprint(seed), fmt.Sprint(lossy), fmt.Sprint(depth)).CombinedOutput()
	return string(out), err
}

func TestFrames(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a Verilator model: -short")
	}
	source, err := os.ReadFile(filepath.Join(root, module))
	require.NoError(t, err)
	for lossy := range 2 {
		program := build(t, string(source), lossy)
		for seed := 1; seed <= 8; seed++ {
			out, err := run(program, lossy, seed)
			assert.NoError(t, err, out)
			assert.Contains(t, out, "right")
		}
	}
}

// The bench notices what is wrong.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("builds Verilator models: -short")
	}
	source, err := os.ReadFile(filepath.Join(root, module))
	require.NoError(t, err)
	for _, tt := range []struct {
		name, good, bad string
		lossy           int
	}{
		{"a dropped frame comes", "s_drop || !store", "!store", 0},
		{"the pointer jumps", "shown_d = shown_q + PW'(shown_q != commit_q)", "shown_d = commit_q", 0},
		{"full is one late", "wr_q - freed_q == PW'(DEPTH);", "wr_q - freed_q == PW'(DEPTH + 1);", 1},
		{"a frame is cut short", "take && !full && !over_q", "take && !full", 1},
		{"a word that waits is replaced", "(!valid_q || m_ready)", "1'b1", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, 1, strings.Count(string(source), tt.good))
			program := build(t, strings.Replace(string(source), tt.good, tt.bad, 1), tt.lossy)
			for seed := 1; seed <= 8; seed++ {
				if out, err := run(program, tt.lossy, seed); err != nil {
					t.Log(strings.TrimSpace(out))
					return
				}
			}
			t.Error("nobody noticed")
		})
	}
}
