package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The test binary, called by the name epic, is epic.
func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"epic": main}) }

// TestScripts runs testdata/script/*.txtar. Besides testscript's own commands they have
//
//	exits STATUS COMMAND...   runs COMMAND, which must end with exactly that status
//	refuses COMMAND...        as exits 2, with nothing on stdout and one line on stderr
//
// and $REPO, the top of the project.
func TestScripts(t *testing.T) {
	repo, err := filepath.Abs("../..")
	require.NoError(t, err)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("REPO", repo)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) < 2 {
					ts.Fatalf("usage: exits STATUS COMMAND...")
				}
				want, err := strconv.Atoi(args[0])
				ts.Check(err)
				expectStatus(ts, want, args[1:])
			},
			"refuses": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) < 1 {
					ts.Fatalf("usage: refuses COMMAND...")
				}
				expectStatus(ts, 2, args)
				if out := ts.ReadFile("stdout"); out != "" {
					ts.Fatalf("standard output is not empty: %q", out)
				}
				if text := ts.ReadFile("stderr"); strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
					ts.Fatalf("standard error has not one line: %q", text)
				}
			},
		},
		RequireUniqueNames: true,
	})
}

func expectStatus(ts *testscript.TestScript, want int, command []string) {
	got := 0
	if err := ts.Exec(command[0], command[1:]...); err != nil {
		var ended *exec.ExitError
		if !errors.As(err, &ended) {
			ts.Fatalf("%v: %v", command, err)
		}
		got = ended.ExitCode()
	}
	if got != want {
		ts.Fatalf("%v: exit status %d, want %d", command, got, want)
	}
}

// epicCommand is the command line as a process of its own.
func epicCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "epic")
	require.NoError(t, os.Symlink(self, path))
	return exec.Command(path, args...)
}

// Ctrl-C ends a command that waits for its input, with one line and status 130.
func TestInterrupt(t *testing.T) {
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		capture, err := os.ReadFile("../../testdata/captures/allreduce4/allreduce4_i32_rank0.pcap")
		require.NoError(t, err)
		cmd := epicCommand(t, "decode", "--json", "-")
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		defer in.Close()
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		require.NoError(t, cmd.Start())
		_, err = in.Write(capture[:len(capture)-1]) // and the rest never comes
		require.NoError(t, err)
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		assert.Contains(t, line, `"n":1,`)
		start := time.Now()
		require.NoError(t, cmd.Process.Signal(sig))
		go io.Copy(io.Discard, out)
		err = cmd.Wait()
		var ended *exec.ExitError
		require.ErrorAs(t, err, &ended)
		assert.Equal(t, 130, ended.ExitCode())
		assert.Equal(t, "epic: interrupted\n", stderr.String())
		assert.Less(t, time.Since(start), 5*time.Second)
	}
}

// Ctrl-C while a simulator runs ends both, with one line and status 130.
func TestInterruptedRunLeavesNoSimulator(t *testing.T) {
	dir := t.TempDir()
	sim, pidFile := filepath.Join(dir, "inc_sim"), filepath.Join(dir, "pid")
	require.NoError(t, os.WriteFile(sim, []byte("#!/bin/sh\necho $$ > "+pidFile+"\nexec sleep 600\n"), 0o755))
	cmd := epicCommand(t, "cosim", "run", "--sim", sim)
	cmd.Dir = dir
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Start())
	var pid int
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(pidFile)
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	}, 20*time.Second, 10*time.Millisecond, "the simulator starts")
	start := time.Now()
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	var ended *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &ended)
	assert.Equal(t, 130, ended.ExitCode())
	assert.Less(t, time.Since(start), 5*time.Second)
	assert.Equal(t, "epic: interrupted\n", stderr.String())
	assert.Empty(t, stdout.String())
	assert.Eventually(t, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }, 5*time.Second, 10*time.Millisecond,
		"the simulator has ended")
}

// Every command explains itself, and with an example.
func TestEveryCommandHasHelpAndExample(t *testing.T) {
	var walk func(path string, depth int)
	commands := 0
	root := rootCommand()
	root.InitDefaultCompletionCmd()
	walk = func(path string, depth int) {
		c, _, err := root.Find(strings.Fields(path)[1:])
		require.NoError(t, err)
		for _, child := range c.Commands() {
			if !child.IsAvailableCommand() || child.Name() == "completion" || child.Name() == "help" {
				continue
			}
			commands++
			assert.NotEmpty(t, child.Short, child.CommandPath())
			assert.Contains(t, child.Example, "epic "+strings.TrimPrefix(child.CommandPath(), "epic "), "%s: its example is of itself", child.CommandPath())
			walk(child.CommandPath(), depth+1)
		}
	}
	walk("epic", 0)
	assert.GreaterOrEqual(t, commands, 7, fmt.Sprint("the walk found ", commands))
}
