package roce_test

import (
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/capture"
	"github.com/epic-inc/epic/golden/oracle"
	"github.com/epic-inc/epic/golden/roce"
)

// What the RTL engine, golden hosts and golden responders sent in the demo, and the frames that the kernel sent them:
// field by field as tshark reads it, with the ICRC that scapy computes. `make demo` writes the file.
func TestEmittedFramesAgreeWithTsharkAndScapy(t *testing.T) {
	file := filepath.Join(oracle.Root(t), "build", "demo", "out.pcapng")
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		oracle.Skip(t, "%s is missing: make demo writes it", file)
	}
	in, err := capture.Open(file)
	require.NoError(t, err)
	defer in.Close()
	var all [][]byte
	for {
		f, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		all = append(all, f.Data)
	}
	require.NotEmpty(t, all)
	rows := oracle.Tshark(t, writePcap(t, all), tsharkFields...)
	require.Len(t, rows, len(all))
	for i, icrc := range scapyICRC(t, all) {
		f := all[i]
		p, bad := roce.Decode(f)
		require.Nil(t, bad, "frame %d: %x", i+1, f)
		require.Equal(t, f, p.Encode(), "frame %d", i+1)
		require.Equal(t, icrc[0], hex.EncodeToString(f[len(f)-4:]), "frame %d: ICRC of %x", i+1, f)
		if !t.Run("", func(t *testing.T) { agree(t, f, rows[i]) }) {
			t.Fatalf("frame %d: %x", i+1, f)
		}
	}
	t.Logf("%d frames", len(all))
}
