// Package ledger keeps results in a file of one JSON line each, so that a long run goes on where it was stopped.
package ledger

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Read reads the last result of each key. No file is no results; a last line that was cut off is left out.
func Read[R any](path string, key func(R) string) (map[string]R, error) {
	known := map[string]R{}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return known, nil
	}
	if err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	defer f.Close()
	lines := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return known, nil
		}
		if err != nil {
			return nil, fmt.Errorf("results: %w", err)
		}
		var r R
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("results: %s: line %d: %w; delete the file to begin anew", path, n, err)
		}
		known[key(r)] = r
	}
}

// Append opens the file, and the folders to it, at the end of its last whole line.
func Append(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	all, err := io.ReadAll(f)
	if err == nil {
		end := int64(len(all))
		for end > 0 && all[end-1] != '\n' {
			end--
		}
		if err = f.Truncate(end); err == nil {
			_, err = f.Seek(end, io.SeekStart)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("results: %w", errors.Join(err, f.Close()))
	}
	return f, nil
}

// Write writes a result as one line.
func Write(w io.Writer, r any) error {
	line, err := json.Marshal(r)
	if err == nil {
		_, err = w.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("results: %w", err)
	}
	return nil
}
