package proxy

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/coll"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/tree"
)

// meeting is a control plane that answers at once, and notes what it is told.
type meeting struct {
	refuse error
	fails  chan error // the job
	asked  []tree.Step
	qpns   []uint32
	last   []psn.PSN
	left   bool
}

func (m *meeting) Join(context.Context, coll.Member) (*coll.Peers, error) { return &coll.Peers{}, nil }

func (m *meeting) Subgroup(_ context.Context, step tree.Step, qpn uint32) (*coll.Subgroup, error) {
	m.asked, m.qpns = append(m.asked, step), append(m.qpns, qpn)
	return &coll.Subgroup{MessagePackets: 4, WindowPackets: 16, Unpinned: true, Reproducible: true,
		QP: host.Config{PeerIP: netip.MustParseAddr("10.10.0.1"), PeerQPN: 0x100 + qpn, SendPSN: 0xfffff0, MTU: 1024, Timeout: 15, MinRNRTimer: 1}}, m.refuse
}

func (m *meeting) Quiesced(_ context.Context, _ *coll.Subgroup, last psn.PSN) error {
	m.last = append(m.last, last)
	return nil
}

func (m *meeting) Watch(ctx context.Context) error {
	select {
	case err := <-m.fails:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *meeting) Leave(context.Context) error {
	m.left = true
	return nil
}

// A program of two subgroups, in shell.
const (
	program = `
put() { cat > "$1.tmp"; mv "$1.tmp" "$1"; }
await() { until [ -e "$1" ]; do [ -e failed ] && { cat failed; exit 1; }; sleep 0.01; done; }
cd {dir} || exit 9
printf '17\n18\n' | put qpns
await group
: | put ready
await go
`
	finish = `
printf '17 4\n18 16777199\n' | put done
await leave
`
)

func command(t *testing.T, m *meeting, text string) (Command, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	subgroups, err := ParseSubgroups("allreduce/float32,barrier/int32,reduce:1")
	require.NoError(t, err)
	return Command{Options: Options{Folder: Folder(t.TempDir()), Job: "train", Rank: 1, Ranks: 2, Subgroups: subgroups, Rendezvous: m},
		Argv: []string{"sh", "-c", text}, Stdout: &out, patienceAtClose: time.Second}, &out
}

func TestProgram(t *testing.T) {
	m := &meeting{}
	c, _ := command(t, m, program+finish)
	require.NoError(t, c.run(t.Context()))
	require.Equal(t, []tree.Step{{Collective: tree.AllReduce}, {Collective: tree.Reduce, Root: 1}}, m.asked)
	require.Equal(t, []uint32{17, 18}, m.qpns)
	require.Equal(t, []psn.PSN{4, 0xffffef}, m.last)
	require.True(t, m.left)
	text, err := os.ReadFile(filepath.Join(string(c.Folder), "group"))
	require.NoError(t, err)
	require.Equal(t, "mtu 1024\nmessage_packets 4\nwindow_packets 16\ntimeout 15\nmin_rnr_timer 1\nunpinned 1\nflags 1\n"+
		"qp 10.10.0.1 273 16777200\nqp 10.10.0.1 274 16777200\n", string(text))

	// A folder is for one run.
	require.ErrorContains(t, c.run(t.Context()), "a file group already")
}

func TestProgramFails(t *testing.T) {
	for _, k := range []struct {
		name, program string
		fails, refuse error
		want          string
		is            error
	}{
		{name: "it ends early", program: program + "exit 7", want: "the rank's program has ended: exit status 7"},
		{name: "it ends early without an error", program: program, want: "the rank's program has ended: exit status 0"},
		{name: "it ends badly", program: program + finish + "exit 7", want: "job train: rank 1: the rank's program: exit status 7"},
		{name: "it does not end", program: program + finish + "exec sleep 60", want: "had not ended 1s after"},
		{name: "another queue pair", program: program + "printf '17 4\\n19 4\\n' | put done; await leave", want: "line 2: got queue pair 19, want 18"},
		{name: "too few", program: "cd {dir}; echo 17 > qpns; sleep 60", want: "qpns: got 1 lines, want 2"},
		{name: "no number", program: "cd {dir}; printf '17\\n0x9\\n' > q; mv q qpns; exec sleep 60", want: `qpns: line 2: strconv.ParseUint: parsing "0x9"`},
		{name: "no QPN", program: "cd {dir}; printf '17\\n0\\n' > q; mv q qpns; exec sleep 60", want: "qpns: line 2: got QPN 0, want 1..16777215"},
		{name: "refused", program: program, refuse: coll.ErrRefused, want: "subgroup of allreduce: ", is: coll.ErrRefused},
		{name: "the job fails", program: program + "await never", fails: errors.New("lost rank 0"), want: "job train: rank 1: the job is over: lost rank 0", is: ErrOver},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			m := &meeting{fails: make(chan error, 1), refuse: k.refuse}
			c, out := command(t, m, k.program)
			if k.fails != nil {
				go func() {
					if c.Folder.Await(t.Context(), Ready) == nil {
						m.fails <- k.fails
					}
				}()
			}
			start := time.Now()
			err := c.run(t.Context())
			require.ErrorContains(t, err, k.want)
			if k.is != nil {
				require.ErrorIs(t, err, k.is)
			}
			if k.fails != nil {
				require.Contains(t, out.String(), "lost rank 0", "the program is told")
			}
			require.Less(t, time.Since(start), 20*time.Second)
		})
	}
}

func TestInterrupted(t *testing.T) {
	m := &meeting{}
	c, _ := command(t, m, program+"exec sleep 60")
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		_ = c.Folder.Await(t.Context(), Ready)
		stop()
	}()
	require.ErrorIs(t, c.run(ctx), context.Canceled)
	require.False(t, m.left, "its lease tells the others")
}

func TestBadCommand(t *testing.T) {
	good := Command{Options: Options{Folder: Folder(t.TempDir()), Job: "train", Ranks: 2}, Interface: "lo", Steps: "allreduce", Argv: []string{"true"}}
	for want, change := range map[string]func(*Command){
		"command: got none":                      func(c *Command) { c.Argv = nil },
		"rank: got 2 of 2 ranks":                 func(c *Command) { c.Rank = 2 },
		"steps: ":                                func(c *Command) { c.Steps = "gossip" },
		"want its parts, as reduce:0,reduce:1":   func(c *Command) { c.Steps = "reducescatter" },
		"no such file or directory":              func(c *Command) { c.Folder += "/none" },
		`interface "none7"`:                      func(c *Command) { c.Interface = "none7" },
		`interface "lo" has no Ethernet address`: func(*Command) {},
	} {
		c := good
		change(&c)
		require.ErrorContains(t, c.Run(t.Context()), want)
	}
}
