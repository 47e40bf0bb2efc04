package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/cosim/points"
)

// planned is a point of docs/testplan.yaml.
type planned struct {
	Point   string
	Stages  []string
	Go      []string
	Runs    []string
	Mutants []string
	Proofs  []string
	Points  []string
}

// there is what a plan may name.
type there struct {
	stages, mutants, proofs, points, tests []string
	runs                                   []string // whole lines
}

// housekeeping are stages that test nothing of the engine, and unit-short, whose tests are unit's.
var housekeeping = []string{"setup", "files", "generated", "gofmt", "vet", "staticcheck", "shellcheck", "unit-short"}

// planFaults says what is wrong with a plan.
func planFaults(plan []planned, is *there) (bad []string) {
	wrong := func(p *planned, what, name string) {
		bad = append(bad, fmt.Sprintf("%q names %s %q, want one that there is", p.Point, what, name))
	}
	var stages, proofs, kinds []string
	for i := range plan {
		p := &plan[i]
		if p.Point == "" || len(p.Stages)+len(p.Go)+len(p.Runs)+len(p.Mutants)+len(p.Proofs)+len(p.Points) == 0 {
			bad = append(bad, fmt.Sprintf("%q names nothing, want a test", p.Point))
		}
		for _, list := range []struct {
			what      string
			names, of []string
		}{{"stage", p.Stages, is.stages}, {"test", p.Go, is.tests}, {"mutant", p.Mutants, is.mutants}, {"proof", p.Proofs, is.proofs}} {
			for _, name := range list.names {
				if !slices.Contains(list.of, name) {
					wrong(p, list.what, name)
				}
			}
		}
		for _, words := range p.Runs {
			n := 0
			for _, line := range is.runs {
				if strings.Contains(line+" ", words+" ") {
					n++
				}
			}
			if n != 1 {
				bad = append(bad, fmt.Sprintf("%q: run %q is in %d lines of the regression, want one", p.Point, words, n))
			}
		}
		for _, pattern := range p.Points {
			if !slices.ContainsFunc(is.points, func(name string) bool {
				ok, _ := path.Match(pattern, name)
				return ok || strings.HasPrefix(name, pattern+"/")
			}) {
				wrong(p, "functional point", pattern)
			}
			kind, _, _ := strings.Cut(pattern, "/")
			kinds = append(kinds, kind)
		}
		stages, proofs = append(stages, p.Stages...), append(proofs, p.Proofs...)
	}
	for _, name := range is.stages {
		if !slices.Contains(stages, name) && !slices.Contains(housekeeping, name) {
			bad = append(bad, fmt.Sprintf("stage %s is in no point of the plan", name))
		}
	}
	for _, name := range is.proofs {
		if !slices.Contains(proofs, name) {
			bad = append(bad, fmt.Sprintf("proof %s is in no point of the plan", name))
		}
	}
	for _, name := range is.points {
		if kind, _, _ := strings.Cut(name, "/"); !slices.Contains(kinds, kind) {
			bad = append(bad, fmt.Sprintf("functional points %s are in no point of the plan", kind))
			kinds = append(kinds, kind)
		}
	}
	return bad
}

// lookAround finds what a plan may name.
func lookAround(t *testing.T) *there {
	names := func(pattern, end string) (list []string) {
		files, err := filepath.Glob(filepath.Join(repo, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, f := range files {
			list = append(list, strings.TrimSuffix(filepath.Base(f), end))
		}
		return list
	}
	lines := func(file string) (list []string) {
		text, err := os.ReadFile(filepath.Join(repo, file))
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				list = append(list, line)
			}
		}
		return list
	}
	is := &there{mutants: names("rtl/mutants/*.patch", ".patch"), proofs: names("rtl/formal/*.sby", ".sby"), runs: lines("scripts/regression")}
	for _, line := range lines("scripts/stages") {
		is.stages = append(is.stages, strings.Fields(line)[0])
	}
	never, err := points.Never()
	require.NoError(t, err)
	for _, name := range points.All() {
		if never[name] == "" {
			is.points = append(is.points, name)
		}
	}
	require.NoError(t, filepath.WalkDir(repo, func(file string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", ".tools", "build"}, d.Name()) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(file, "_test.go") {
			return nil
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		for _, c := range tree.Comments { // one that a build must ask for runs in no stage
			if c.Pos() < tree.Package && strings.HasPrefix(c.List[0].Text, "//go:build") {
				return nil
			}
		}
		dir, err := filepath.Rel(repo, filepath.Dir(file))
		for _, decl := range tree.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && (strings.HasPrefix(f.Name.Name, "Test") || strings.HasPrefix(f.Name.Name, "Fuzz")) {
				is.tests = append(is.tests, filepath.ToSlash(dir)+" "+f.Name.Name)
			}
		}
		return err
	}))
	return is
}

func TestPlan(t *testing.T) {
	is := lookAround(t)
	text, err := os.ReadFile(filepath.Join(repo, "docs", "testplan.yaml"))
	require.NoError(t, err)
	var plan []planned
	require.NoError(t, yaml.UnmarshalWithOptions(text, &plan, yaml.Strict()))
	assert.Empty(t, planFaults(plan, is))

	// What it must notice: each kind of name that is not there, and what is left out.
	for _, change := range []struct {
		want string
		do   func(*planned)
	}{
		{`stage "regres"`, func(p *planned) { p.Stages = append(p.Stages, "regres") }},
		{`test "golden/roce TestNothing"`, func(p *planned) { p.Go = append(p.Go, "golden/roce TestNothing") }},
		{`test "golden/psn TestCapturesAgreeWithTshark"`, func(p *planned) { p.Go = append(p.Go, "golden/psn TestCapturesAgreeWithTshark") }},
		{`mutant "none"`, func(p *planned) { p.Mutants = append(p.Mutants, "none") }},
		{`proof "none"`, func(p *planned) { p.Proofs = append(p.Proofs, "none") }},
		{`run "--seed" is in`, func(p *planned) { p.Runs = append(p.Runs, "--seed") }},
		{`run "--seed 777" is in 0`, func(p *planned) { p.Runs = append(p.Runs, "--seed 777") }},
		{`functional point "verdict/fine"`, func(p *planned) { p.Points = append(p.Points, "verdict/fine") }},
		{"names nothing", func(p *planned) { *p = planned{Point: "nothing"} }},
		{"stage fuzz is in no point", func(p *planned) { p.Stages = nil }},
		{"functional points taken are in no point", func(p *planned) { p.Points = nil }},
	} {
		spoiled := slices.Clone(plan)
		change.do(&spoiled[0])
		assert.Contains(t, strings.Join(planFaults(spoiled, is), "\n"), change.want)
	}
}
