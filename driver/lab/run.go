package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/epic-inc/epic/driver/namespace"
)

// RankCommand is a command line for a rank of a lab's group.
type RankCommand struct {
	Group int // index in State.Groups
	Rank  int
	Args  []string // the program and its arguments
}

// Run runs a command for each rank in the namespace of its host, and returns when all have ended: an error that names
// each rank whose command failed. Every line of their output begins with the rank. When ctx ends they are told to.
func (st *State) Run(ctx context.Context, stdout, stderr io.Writer, commands ...RankCommand) error {
	var mu sync.Mutex // of both outputs: lines of ranks stay whole
	var all sync.WaitGroup
	errs := make([]error, len(commands))
	for i, c := range commands {
		if c.Group < 0 || c.Group >= len(st.Hosts) || c.Rank < 0 || c.Rank >= len(st.Hosts[c.Group]) || len(c.Args) == 0 {
			return fmt.Errorf("lab %s: got rank %d of group %d with command %q, want one of the lab's ranks and a command", st.Name, c.Rank, c.Group, c.Args)
		}
		cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = patience
		name := fmt.Sprintf("rank %d: ", c.Rank)
		out, errOut := &lines{prefix: name, to: stdout, mu: &mu}, &lines{prefix: name, to: stderr, mu: &mu}
		cmd.Stdout, cmd.Stderr = out, errOut
		// A child is in the namespace of the thread that starts it.
		if err := namespace.Inside(st.Namespaces[st.Hosts[c.Group][c.Rank]], cmd.Start); err != nil {
			errs[i] = fmt.Errorf("%s%w", name, err)
			continue
		}
		all.Go(func() {
			if err := cmd.Wait(); err != nil {
				errs[i] = fmt.Errorf("%s%w", name, err)
			}
			out.end()
			errOut.end()
		})
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	err := errors.Join(errs...)
	if err != nil && !slices.ContainsFunc(errs, ownFault) {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return err
}

// ErrLost says that every command that failed had lost another, as epic's exit status 3 has it, or was killed.
var ErrLost = errors.New("ranks lost each other")

// ownFault says whether a command failed in another way than ErrLost has it.
func ownFault(err error) bool {
	const lost, killed = 3, -1 // exit statuses
	var ended *exec.ExitError
	return err != nil && !(errors.As(err, &ended) && (ended.ExitCode() == lost || ended.ExitCode() == killed))
}

// lines puts a prefix before every line.
type lines struct {
	prefix string
	to     io.Writer
	mu     *sync.Mutex
	rest   []byte
}

// Write never fails: what a rank says is not worth ending it.
func (l *lines) Write(b []byte) (int, error) {
	n := len(b)
	for {
		line, after, whole := bytes.Cut(b, []byte("\n"))
		l.rest = append(l.rest, line...)
		if !whole {
			return n, nil
		}
		l.end()
		b = after
	}
}

func (l *lines) end() {
	if len(l.rest) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.to, "%s%s\n", l.prefix, l.rest)
	l.rest = l.rest[:0]
}

// Commands are a command line for every rank of a group. In its words {rank} stands for the rank, {ranks} for how many
// there are, {group} for the group's file and {interface} for the interface.
func (st *State) Commands(group int, args []string) []RankCommand {
	var all []RankCommand
	for rank := range st.Hosts[group] {
		words := strings.NewReplacer("{rank}", strconv.Itoa(rank), "{ranks}", strconv.Itoa(len(st.Hosts[group])), "{group}", st.Groups[group], "{interface}", st.Interface)
		c := RankCommand{Group: group, Rank: rank}
		for _, a := range args {
			c.Args = append(c.Args, words.Replace(a))
		}
		all = append(all, c)
	}
	return all
}
