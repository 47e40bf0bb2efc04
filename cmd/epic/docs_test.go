package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a page names: commands in its code, and files.
var (
	codeSpan  = regexp.MustCompile("`([^`]+)`")
	pageLink  = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	epicWords = regexp.MustCompile(`^(?:build/)?epic((?: [^|>&;#]+)?)`)
	makeWord  = regexp.MustCompile(`^make ([a-z-]+)`)
	filePath  = regexp.MustCompile(`^(?:cmd|cosim|docs|driver|fpga|golden|rtl|scripts|testdata)/[A-Za-z0-9_./-]*$`)
	makeRule  = regexp.MustCompile(`(?m)^([a-z-]+):.*## `)
)

// untrue returns what a page names that is not there: commands and flags of epic, targets of make, files.
func untrue(repo, dir, page string, root func() *cobra.Command, targets []string) []string {
	var bad []string
	exists := func(path string) {
		if _, err := os.Stat(path); err != nil {
			bad = append(bad, "file "+path)
		}
	}
	code := func(text string) {
		text = strings.TrimSpace(text)
		word, _, _ := strings.Cut(text, " ")
		if m := makeWord.FindStringSubmatch(text); m != nil && !slices.Contains(targets, m[1]) {
			bad = append(bad, "target make "+m[1])
		}
		if filePath.MatchString(word) {
			exists(filepath.Join(repo, strings.TrimSuffix(word, "...")))
		}
		m := epicWords.FindStringSubmatch(text)
		if m == nil {
			return
		}
		words := strings.Fields(m[1])
		if len(words) > 0 && words[0] == "help" {
			words = words[1:]
		}
		cmd, rest, err := root().Find(words)
		if err != nil || cmd.HasAvailableSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
			bad = append(bad, "command "+text)
			return
		}
		cmd.InitDefaultHelpFlag()
		for _, w := range words {
			if w == "--" { // another command's
				break
			}
			name, _, _ := strings.Cut(strings.TrimLeft(w, "-"), "=")
			if strings.HasPrefix(w, "--") && cmd.Flags().Lookup(name) == nil {
				bad = append(bad, fmt.Sprintf("flag --%s of %s", name, cmd.CommandPath()))
			}
		}
	}
	for _, line := range strings.Split(page, "\n") {
		if strings.HasPrefix(line, "    ") {
			code(line)
		}
		for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
			code(m[1])
		}
	}
	for _, m := range pageLink.FindAllStringSubmatch(page, -1) {
		exists(filepath.Join(repo, dir, m[1]))
	}
	return bad
}

func TestPagesNameWhatThereIs(t *testing.T) {
	repo, err := filepath.Abs("../..")
	require.NoError(t, err)
	rules, err := os.ReadFile(filepath.Join(repo, "Makefile"))
	require.NoError(t, err)
	var targets []string
	for _, m := range makeRule.FindAllStringSubmatch(string(rules), -1) {
		targets = append(targets, m[1])
	}
	list, err := exec.Command("git", "-C", repo, "ls-files", "*.md").Output()
	require.NoError(t, err)
	pages := strings.Fields(string(list))
	require.Contains(t, pages, "README.md")
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(repo, page))
		require.NoError(t, err)
		assert.Empty(t, untrue(repo, filepath.Dir(page), string(text), rootCommand, targets), "%s names what is not there", page)
	}

	// The check itself.
	for text, want := range map[string]string{
		"`epic cosim walk`":                         "command epic cosim walk",
		"`epic help tea`":                           "command epic help tea",
		"    build/epic demo --fast 3 | less":       "flag --fast of epic demo",
		"`make tea`":                                "target make tea",
		"see `scripts/none --list`":                 "file " + filepath.Join(repo, "scripts/none"),
		"[page](docs/none.md#top)":                  "file " + filepath.Join(repo, "docs/none.md"),
		"    epic config check group.yaml > x --no": "",
	} {
		assert.Equal(t, want, strings.Join(untrue(repo, ".", text, rootCommand, targets), "; "), text)
	}
}

// Every module that is written by hand has its line in the table of README.md.
func TestReadmeNamesEveryModule(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	files, err := filepath.Glob("../../rtl/*/inc_*.sv")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range append(files, "../../rtl/inc_engine.sv") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.HasPrefix(string(text), "// Generated") || strings.HasSuffix(file, "_pkg.sv") {
			continue
		}
		name := strings.TrimSuffix(filepath.Base(file), ".sv")
		assert.Contains(t, string(readme), fmt.Sprintf("[`%s`](%s)", name, strings.TrimPrefix(file, "../../")))
	}
}
