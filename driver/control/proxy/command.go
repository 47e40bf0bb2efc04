package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/epic-inc/epic/driver/control/rendezvous"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/tree"
)

// Command is a rank's program with its place: what `epic control join` does.
type Command struct {
	Options                // Folder, Job, Rank, Ranks and IP; the rest follows from what is below
	Interface       string // of this machine, that has IP
	Steps           string // the program's list, as ParseSubgroups takes it
	Meeting         rendezvous.Options
	Argv            []string // {dir}, {ip}, {rank}, {ranks} and {steps} stand for what belongs to the rank
	Stdout, Stderr  io.Writer
	patienceAtClose time.Duration // of a test; 0: patience
}

// patience is how long a program may take to end once it was told to, before it is killed.
const patience = 5 * time.Second

// Run starts the program, joins for it, and returns when both have ended: nil if the program ended with status 0 and has
// given its place back.
func (c Command) Run(ctx context.Context) (err error) {
	if len(c.Argv) == 0 {
		return errors.New("command: got none, want the rank's program behind --")
	}
	if c.Rank < 0 || c.Ranks < tree.MinRanks || c.Rank >= c.Ranks {
		return fmt.Errorf("rank: got %d of %d ranks, want 0..R-1 of R, at least %d", c.Rank, c.Ranks, tree.MinRanks)
	}
	if c.Subgroups, err = ParseSubgroups(c.Steps); err != nil {
		return fmt.Errorf("steps: %w", err)
	}
	if err := c.Folder.check(); err != nil {
		return err
	}
	ifi, err := net.InterfaceByName(c.Interface)
	if err != nil {
		return fmt.Errorf("interface %q: %w (ip link lists them)", c.Interface, err)
	}
	if len(ifi.HardwareAddr) != len(c.MAC) {
		return fmt.Errorf("interface %q has no Ethernet address", c.Interface)
	}
	c.MAC, c.LinkMTU = roce.MAC(ifi.HardwareAddr), ifi.MTU
	client, err := rendezvous.Dial(c.Meeting)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	c.Rendezvous = client
	return c.run(ctx)
}

// run is Run behind its checks.
func (c Command) run(ctx context.Context) error {
	most := c.patienceAtClose
	if most == 0 {
		most = patience
	}
	with := strings.NewReplacer("{dir}", string(c.Folder), "{ip}", c.IP.String(), "{rank}", strconv.Itoa(c.Rank), "{ranks}", strconv.Itoa(c.Ranks),
		"{steps}", c.Steps)
	var argv []string
	for _, word := range c.Argv {
		argv = append(argv, with.Replace(word))
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = c.Stdout, c.Stderr
	cmd.WaitDelay = time.Second // what it has started may hold its output
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("the rank's program: %w", err)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		ended <- err
		if err == nil {
			err = errors.New("exit status 0")
		}
		stop(fmt.Errorf("the rank's program has ended: %w", err))
	}()
	joined := Run(ctx, c.Options)
	if joined != nil && ctx.Err() != nil {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	}
	select {
	case err := <-ended:
		if joined == nil && err != nil {
			return fmt.Errorf("job %s: rank %d: the rank's program: %w", c.Job, c.Rank, err)
		}
	case <-time.After(most):
		_ = cmd.Process.Kill()
		<-ended
		if joined == nil {
			return fmt.Errorf("job %s: rank %d: the rank's program had not ended %v after it was told to, and was killed", c.Job, c.Rank, most)
		}
	}
	return joined
}
