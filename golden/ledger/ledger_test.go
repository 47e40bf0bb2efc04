package ledger

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

type result struct {
	Key  string `json:"key"`
	Mark int    `json:"mark"`
}

func key(r result) string { return r.Key }

// What was cut off is written anew, and the last result of a key counts.
func TestLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "results.jsonl")
	known, err := Read(path, key)
	require.NoError(t, err)
	require.Empty(t, known)
	f, err := Append(path)
	require.NoError(t, err)
	require.NoError(t, Write(f, result{"x", 1}))
	require.NoError(t, Write(f, result{"y", 2}))
	_, err = f.WriteString(`{"key": "x", "ma`)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	known, err = Read(path, key)
	require.NoError(t, err)
	require.Equal(t, map[string]result{"x": {"x", 1}, "y": {"y", 2}}, known)

	f, err = Append(path)
	require.NoError(t, err)
	require.NoError(t, Write(f, result{"x", 3}))
	require.NoError(t, f.Close())
	known, err = Read(path, key)
	require.NoError(t, err)
	require.Equal(t, map[string]result{"x": {"x", 3}, "y": {"y", 2}}, known)
}

func TestBroken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.jsonl")
	require.NoError(t, os.WriteFile(path, []byte("{\"key\": \"x\"}\nno\n"), 0o644))
	_, err := Read(path, key)
	require.ErrorContains(t, err, "line 2")
	require.ErrorContains(t, err, "delete the file")
	require.ErrorContains(t, Write(os.Stdin, make(chan int)), "results: ")
}
