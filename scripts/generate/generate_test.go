package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/oracle"
)

const root = "../.."

// The files in the repository are what inc.yaml says now.
func TestUpToDate(t *testing.T) {
	assert.NoError(t, run(root, true))
}

func TestCheckNamesTheFile(t *testing.T) {
	dir := t.TempDir()
	source := readSpec(t)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "rtl/spec"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, specPath), source, 0o644))
	uartSource, err := os.ReadFile(filepath.Join(root, uartPath))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, uartPath), uartSource, 0o644))
	require.NoError(t, run(dir, false))
	require.NoError(t, run(dir, true))

	changed := bytes.Replace(source, []byte("tick_ns: {value: 10000"), []byte("tick_ns: {value: 10001"), 1)
	require.NotEqual(t, source, changed)
	require.NoError(t, os.WriteFile(filepath.Join(dir, specPath), changed, 0o644))
	assert.ErrorContains(t, run(dir, true), "golden/spec/spec_gen.go is not what rtl/spec/inc.yaml says")
}

func TestDeterministic(t *testing.T) {
	source := readSpec(t)
	first, err := generate(source)
	require.NoError(t, err)
	for range 3 {
		again, err := generate(source)
		require.NoError(t, err)
		require.Equal(t, first, again)
	}
}

// The hash is for two programs that must agree: what they could disagree on moves it, words do not.
func TestHash(t *testing.T) {
	source := string(readSpec(t))
	base, err := hash([]byte(source))
	require.NoError(t, err)
	for _, tt := range []struct {
		name, old, new string
		same           bool
	}{
		{"doc", `doc: "taken"`, `doc: "accepted"`, true},
		{"comment", "# What became of a frame.", "# The fate of a frame.", true},
		{"value", "value: 4791", "value: 4792", false},
		{"verdict order", "- {name: behind, ", "- {name: behind2, ", false},
		{"field width", "{name: port, w: 6}", "{name: port, w: 7}", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Contains(t, source, tt.old)
			got, err := hash([]byte(strings.Replace(source, tt.old, tt.new, 1)))
			require.NoError(t, err)
			assert.Equal(t, tt.same, got == base)
		})
	}
}

func TestRefused(t *testing.T) {
	source := string(readSpec(t))
	for _, tt := range []struct {
		name, old, new, want string
	}{
		{"unknown key", "version: 1\n", "version: 1\nverson: 2\n", `unknown field "verson"`},
		{"twice", "- {name: mac_error, ", "- {name: ok, ", `verdicts[1]: name "ok" is there twice`},
		{"not snake case", "- {name: mac_error, ", "- {name: MacError, ", `verdicts[1]: got name "MacError", want snake_case`},
		{"class", "class: bypass", "class: by", `.class: got "by", want one of ok, bypass, drop`},
		{"opcode value", "value: 0x01,", "value: 0x00,", "opcodes.send_middle: value 0x00 is that of send_first"},
		{"opcode header", "headers: [aeth]", "headers: [beth]", `opcodes.acknowledge.headers: got "beth"`},
		{"constant too wide", "value: 4791, w: 16", "value: 4791, w: 12", "constants.roce_udp_port: value 4791 does not fit w: 12"},
		{"table field width", "{name: port, w: 6}", "{name: port, w: 65}", "tables.ep_cfg.port: got w: 65, want 1..64 or 128"},
		{"table too wide", "    - {name: port, w: 6}", "    - {name: port, w: 64}\n    - {name: q, w: 64}", "tables.ep_cfg: got 806 bits, want at most 768"},
		{"record field width", "{name: clock, w: 64", "{name: clock, w: 48", "record.clock: got w: 48, want 32 or 64"},
		{"record group", "{name: epsn, group: rx}", "{name: epsn, group: rxx}", `record.epsn.group: got "rxx"`},
		{"read-only table", "read_only_tables: [ep_rx,", "read_only_tables: [ep_r,", `read_only_tables: got "ep_r"`},
		{"rnr codes", "[65536, 1, ", "[65536, ", "rnr_ticks: got 31 entries, want 32"},
		{"message from", "{name: grant,     from: go", "{name: grant,     from: c", `link.messages.grant.from: got "c"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Contains(t, source, tt.old)
			_, err := generate([]byte(strings.Replace(source, tt.old, tt.new, 1)))
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

func TestCamel(t *testing.T) {
	for snake, want := range map[string]string{
		"mac_error": "MACError", "epsn": "EPSN", "psn_start": "PSNStart", "peer_qpn": "PeerQPN", "not_roce": "NotRoCE",
		"ip_header_length": "IPHeaderLength", "is_v6": "IsV6", "ack_out": "AckOut", "n_log2": "NLog2",
	} {
		assert.Equal(t, want, camel(snake))
	}
}

// C and C++ take the header, and the offsets are those of the packed words.
func TestHeaderCompiles(t *testing.T) {
	compiler, err := exec.LookPath("g++")
	if err != nil {
		oracle.Skip(t, "g++ is missing: scripts/setup sim")
	}
	program := filepath.Join(t.TempDir(), "t.cpp")
	require.NoError(t, os.WriteFile(program, []byte(`#include "inc_spec.h"
static_assert(INC_VERDICT_OK == 0 && INC_VERDICT_MAC_ERROR == 1, "verdicts");
static_assert(INC_RECORD_CAUSE_WORD == 2 && INC_RECORD_BYTES == 120, "clock takes two words");
static_assert(INC_MSG_FRAME_IN_PORT == 8 && INC_MSG_FRAME_IN_BYTES == 16, "time takes two words");
static_assert(INC_MESSAGE_HELLO == 1, "0 is no message");
`), 0o644))
	for _, language := range [][]string{{"-x", "c++", "-std=c++17"}, {"-x", "c", "-std=c11", "-Dstatic_assert=_Static_assert"}} {
		args := append([]string{"-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only",
			"-I", filepath.Join(root, "cosim/dpi")}, language...)
		out, err := exec.Command(compiler, append(args, program)...).CombinedOutput()
		assert.NoError(t, err, string(out))
	}
}

func readSpec(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, specPath))
	require.NoError(t, err)
	return b
}

// What uart.yaml may not say.
func TestUARTRefused(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, uartPath))
	require.NoError(t, err)
	source := string(text)
	_, err = generateUART(text)
	require.NoError(t, err)
	for _, tt := range []struct{ name, old, new, want string }{
		{"version", "version: 1 #", "version: 16 #", "version: got 16, want 1..15"},
		{"name twice", "name: flash_id", "name: hello", `name "hello" is there twice`},
		{"name", "name: flash_id", "name: FlashID", `got name "FlashID", want snake_case`},
		{"width", "name: board, w: 32", "name: board, w: 24", "hello.board.w: got 24, want 8, 16 or 32"},
		{"value", "sector_log2: {value: 12", "sector_log2: {value: 256", "value 256 does not fit w: 8"},
		{"key", "features: #", "feature: #", "feature"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			changed := strings.Replace(source, tt.old, tt.new, 1)
			require.NotEqual(t, source, changed)
			_, err := generateUART([]byte(changed))
			assert.ErrorContains(t, err, tt.want)
		})
	}
}
