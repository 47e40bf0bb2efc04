package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/doctor"
	"github.com/epic-inc/epic/driver/lab"
	"github.com/epic-inc/epic/golden/expect"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/oracle"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
)

// site is a lab in which the switch and every rank are processes.
type site struct {
	*testing.T
	lab    *lab.Lab
	folder string
	sw     *process
}

// process is an epic in a namespace.
type process struct {
	*exec.Cmd
	out    bytes.Buffer
	ended  chan struct{}
	result string // where a rank writes
}

// bounded is how long whatever goes wrong may take to be told, on a machine that is busy.
const bounded = 60 * time.Second

func newSite(t *testing.T, name string, ranks int) *site {
	if err := lab.Permitted(); err != nil {
		oracle.Skip(t, "%v", err)
	}
	o := lab.Shape()
	o.Ranks, o.Gbps = ranks, 0.05 // slow enough for things to happen meanwhile
	set, err := group.GenerateSet(o)
	require.NoError(t, err)
	s := &site{T: t, folder: t.TempDir()}
	s.lab, err = lab.Up(lab.Options{Name: name, Folder: s.folder, Set: set, Seed: 1, Paced: true, Apart: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.lab.Close()) })
	s.startSwitch()
	return s
}

// epic starts a command in a namespace.
func (s *site) epic(namespace string, args ...string) *process {
	s.Helper()
	one := epicCommand(s.T, args...)
	p := &process{Cmd: exec.Command("ip", append([]string{"netns", "exec", namespace, one.Path}, args...)...), ended: make(chan struct{})}
	p.Stdout, p.Stderr = &p.out, &p.out
	require.NoError(s, p.Start())
	go func() {
		_ = p.Wait() // status says how
		close(p.ended)
	}()
	s.Cleanup(func() { p.kill() })
	return p
}

func (p *process) signal(sig syscall.Signal) { _ = p.Process.Signal(sig) } // one that has ended is no error

// kill ends it as a crash does.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// status is its exit status and what it said, once it has ended in bounded time.
func (s *site) status(p *process) (int, string) {
	s.Helper()
	select {
	case <-p.ended:
	case <-time.After(bounded):
		s.Errorf("%v does not end within %v", p.Args, bounded)
		p.kill()
	}
	return p.ProcessState.ExitCode(), p.out.String()
}

// startSwitch starts it with the groups' files of now, and returns when it forwards.
func (s *site) startSwitch() {
	s.Helper()
	at := s.lab.Apart[0]
	s.sw = s.epic(at.Namespace, at.Args(s.lab.Groups)...)
	require.Eventually(s, func() bool { _, err := s.reduced(); return err == nil }, bounded, 20*time.Millisecond, "the switch does not come up")
}

// reduced is how many packets the switch has had from every rank.
func (s *site) reduced() (int, error) {
	st, err := doctor.Fetch(context.Background(), s.lab.Apart[0].Metrics)
	if err != nil {
		return 0, err
	}
	p := st[0].Pipes[0]
	return psn.Sub(p.NextSend, p.PSN0), nil
}

// underway returns when the collective is, at every rank.
func (s *site) underway() {
	s.Helper()
	require.Eventually(s, func() bool { n, err := s.reduced(); return err == nil && n > 100 }, bounded, 2*time.Millisecond, "nothing flows")
}

// start starts an AllReduce in the namespace of a rank, of as many elements of a vector that the seed gives.
func (s *site) start(r int, seed uint64, elements int) *process {
	s.Helper()
	in := expect.Vectors(seed, len(s.lab.Hosts[0]), elements*expect.Element(spec.DTypeInt32), spec.DTypeInt32, spec.OpSum)
	file := filepath.Join(s.folder, fmt.Sprintf("in%d-%d-%d", r, seed, elements))
	require.NoError(s, os.WriteFile(file, in[r], 0o644))
	out := filepath.Join(s.TempDir(), "out")
	p := s.epic(s.lab.Namespaces[s.lab.Hosts[0][r]], "rank", "allreduce", "--rank", strconv.Itoa(r), "--group", s.lab.Groups[0], "--link", "raw:"+s.lab.Interface,
		"--dtype", "int32", "--in", file, "--out", out, "--patience", "5s", "--algorithm", "network")
	p.result = out
	return p
}

// startAll starts every rank.
func (s *site) startAll(seed uint64, elements int) []*process {
	s.Helper()
	var all []*process
	for r := range s.lab.Hosts[0] {
		all = append(all, s.start(r, seed, elements))
	}
	return all
}

// exact wants that every rank has ended well, with the sum.
func (s *site) exact(ranks []*process, seed uint64, elements int) {
	s.Helper()
	in := expect.Vectors(seed, len(ranks), elements*expect.Element(spec.DTypeInt32), spec.DTypeInt32, spec.OpSum)
	want, err := expect.Reduce(spec.DTypeInt32, spec.OpSum, in)
	require.NoError(s, err)
	for r, p := range ranks {
		code, said := s.status(p)
		require.Zero(s, code, "rank %d: %s", r, said)
		got, err := os.ReadFile(p.result)
		require.NoError(s, err)
		require.Empty(s, expect.Differs(spec.DTypeInt32, got, want), "rank %d", r)
	}
}

// fails wants that a rank has ended with status 3, one line that has the words, and without a result.
func (s *site) fails(p *process, words ...string) {
	s.Helper()
	code, said := s.status(p)
	assert.Equal(s, 3, code, said)
	assert.Equal(s, 1, strings.Count(said, "\n"), said)
	for _, w := range words {
		assert.Contains(s, said, w)
	}
	assert.NoFileExists(s, p.result)
}

// again creates the group again on the same queue pairs, with a switch that knows nothing.
func (s *site) again() {
	s.Helper()
	s.sw.kill()
	require.NoError(s, s.lab.Again())
	s.startSwitch()
}

func (s *site) set(namespace, state string) {
	s.Helper()
	out, err := exec.Command("ip", "-n", namespace, "link", "set", s.lab.Interface, state).CombinedOutput()
	require.NoError(s, err, string(out))
}

// examine is the exit status of epic doctor of the lab, and what it found.
func (s *site) examine() (int, doctor.Report) {
	s.Helper()
	cmd := epicCommand(s.T, "doctor", "--json", "--name", s.lab.Name, "--folder", s.folder)
	out, err := cmd.Output()
	var ended *exec.ExitError
	if !errors.As(err, &ended) {
		require.NoError(s, err)
	}
	var r doctor.Report
	require.NoError(s, json.Unmarshal(out, &r), string(out))
	return cmd.ProcessState.ExitCode(), r
}

// The doctor asks switches that are processes of their own, and names one that does not answer, where it was looked for
// and the command line that lab up prints for it.
func TestDoctorOfSwitchesApart(t *testing.T) {
	s := newSite(t, "apart", 2)
	code, r := s.examine()
	require.Zero(t, code, r)
	require.Empty(t, r.Findings)
	require.Contains(t, r.Looked, "switch root")

	self, err := os.Executable()
	require.NoError(t, err)
	at := s.lab.Apart[0]
	require.Equal(t, "unix:"+filepath.Join(s.folder, s.lab.Name, "switch0.sock"), at.Metrics)
	start := fmt.Sprintf("ip netns exec %s %s switch --name root --group %s --port 0=s0p0 --port 1=s0p1 --metrics %s", at.Namespace, self, s.lab.Groups[0], at.Metrics)
	var printed bytes.Buffer
	require.NoError(t, writeLab(&printed, &s.lab.State))
	require.Contains(t, printed.String(), start+"\n")

	for _, c := range []struct {
		name, text string
		spoil      func()
	}{
		{"hangs", "it does not say how it is at " + at.Metrics, func() { s.sw.signal(syscall.SIGSTOP) }},
		{"killed", "nobody listens at " + at.Metrics + ": it does not run", s.sw.kill},
		{"never started", "nobody listens at " + at.Metrics + ": it does not run", func() { require.NoError(t, os.Remove(strings.TrimPrefix(at.Metrics, "unix:"))) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spoil()
			code, r := s.examine()
			require.Equal(t, 1, code)
			require.NotEmpty(t, r.Findings)
			f := r.Findings[0]
			require.Equal(t, doctor.Switch, f.Kind, "the cause is told first: %+v", r.Findings)
			require.Equal(t, "root", f.Switch)
			require.Contains(t, f.Text, c.text)
			require.Contains(t, f.Do, start)
		})
	}

	s.startSwitch()
	code, r = s.examine()
	require.Zero(t, code, r)
}

// Whatever ends, or is cut, is told in bounded time to every rank that lives, by name; no result is written; and after
// the group was created again the same ranks and switch give right results.
func TestProcessesEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute: go test without -short runs it")
	}
	const elements, seed = 1 << 20, 7
	for i, c := range []struct {
		name string
		run  func(s *site)
	}{
		{"killed rank", func(s *site) {
			all := s.startAll(seed, elements)
			s.underway()
			all[2].kill()
			s.fails(all[0], "rank 2 does not answer any more")
			s.fails(all[1], "rank 2 does not answer any more")
		}},
		{"restarted rank with old state", func(s *site) {
			all := s.startAll(seed, elements)
			s.underway()
			all[2].kill()
			all[2] = s.start(2, seed, elements) // from the first PSNs, which the others have left behind
			s.fails(all[0], "rank 2 has been started again")
			s.fails(all[1], "rank 2 has been started again")
			s.fails(all[2])
		}},
		{"killed switch", func(s *site) {
			all := s.startAll(seed, elements)
			s.underway()
			s.sw.kill()
			for _, p := range all {
				s.fails(p, "no other rank answers any more in the middle of it: the switch is down, or this rank's link")
			}
		}},
		{"restarted switch", func(s *site) {
			all := s.startAll(seed, elements)
			s.underway()
			s.sw.kill()
			s.startSwitch()
			for _, p := range all {
				s.fails(p, "the switch is down, was not programmed for this job, or still holds an earlier one")
			}
		}},
		{"interface down and up", func(s *site) {
			all := s.startAll(seed, elements)
			s.underway()
			s.set(s.lab.Namespaces[1], "down")
			time.Sleep(time.Second)
			s.set(s.lab.Namespaces[1], "up")
			s.exact(all, seed, elements)
		}},
		{"port of the switch down and up", func(s *site) {
			all := s.startAll(seed, elements)
			s.underway()
			at := s.lab.Apart[0]
			for _, state := range []string{"down", "up"} {
				out, err := exec.Command("ip", "-n", at.Namespace, "link", "set", at.Ports[1], state).CombinedOutput()
				require.NoError(s, err, string(out))
				time.Sleep(time.Second)
			}
			s.exact(all, seed, elements)
		}},
		{"two of one rank", func(s *site) {
			all := s.startAll(seed, elements)
			s.underway()
			twin := s.start(1, seed+1, elements)
			for _, p := range append(all, twin) {
				s.fails(p, "rank 1")
			}
		}},
		{"wrong count", func(s *site) {
			all := []*process{s.start(0, seed, elements), s.start(1, seed, elements-1), s.start(2, seed, elements)}
			said := 0
			for _, p := range all {
				s.fails(p)
				if strings.Contains(p.out.String(), "rank 1 does allreduce of 4194300 bytes") {
					said++
				}
			}
			require.GreaterOrEqual(s, said, 2, "the last to start may find nobody there any more")
		}},
		// The rank was not killed: it stood still, and goes on when the next job runs, with all it had to send.
		{"rank of a dead job", func(s *site) {
			all := s.startAll(seed, elements)
			s.underway()
			all[2].signal(syscall.SIGSTOP)
			s.fails(all[0], "rank 2 does not answer any more")
			s.fails(all[1], "rank 2 does not answer any more")
			s.again()
			next := s.startAll(seed+1, elements)
			s.underway()
			all[2].signal(syscall.SIGCONT)
			s.exact(next, seed+1, elements)
			s.fails(all[2])
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, fmt.Sprintf("end%d", i), 3)
			c.run(s)
			s.again()
			const few = 50_000
			s.exact(s.startAll(seed+2, few), seed+2, few)
		})
	}
}
