// Command generate writes every file that is derived from rtl/spec/inc.yaml: the Go package
// golden/spec, the SystemVerilog package inc_spec_pkg and the C header inc_spec.h; and from
// rtl/spec/uart.yaml: constants of the serial protocol in Go and SystemVerilog.
//
//	go run ./scripts/generate            # write
//	go run ./scripts/generate -check     # write nothing; fail if a file is not what would be written
//
// The output depends on these files and on this program alone: no time, no map order.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// The single sources, relative to the root of the repository.
const (
	specPath = "rtl/spec/inc.yaml"
	uartPath = "rtl/spec/uart.yaml"
)

func main() {
	root := flag.String("root", ".", "root of the repository")
	check := flag.Bool("check", false, "compare with the files that are there instead of writing them")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	return errors.Join(write(root, specPath, generate, check), write(root, uartPath, generateUART, check))
}

// write makes the files of one source, or compares them.
func write(root, from string, generate func([]byte) ([]file, error), check bool) error {
	source, err := os.ReadFile(filepath.Join(root, from))
	if err != nil {
		return fmt.Errorf("read the spec: %w", err)
	}
	files, err := generate(source)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	for _, f := range files {
		path := filepath.Join(root, f.path)
		if check {
			got, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("check: %w", err)
			}
			if !bytes.Equal(got, f.content) {
				return fmt.Errorf("%s is not what %s says (first difference at byte %d): run `make generate` and commit",
					f.path, from, firstDifference(got, f.content))
			}
			continue
		}
		// A file that is right stays as it is: whoever reads it now must not find half of it.
		if got, err := os.ReadFile(path); err == nil && bytes.Equal(got, f.content) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("write %s: %w", f.path, err)
		}
		if err := os.WriteFile(path, f.content, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", f.path, err)
		}
	}
	return nil
}

func firstDifference(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
