package control_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/epic-inc/epic/driver/coll"
	"github.com/epic-inc/epic/driver/control"
	"github.com/epic-inc/epic/driver/control/controlpb"
	"github.com/epic-inc/epic/driver/control/failure"
	"github.com/epic-inc/epic/driver/control/rendezvous"
	"github.com/epic-inc/epic/driver/control/target"
	"github.com/epic-inc/epic/driver/control/target/targettest"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/tree"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// networkText is a root with two leaves, and hosts 10.9.0.1 to .8 at them, four each.
const networkText = `
version: 1
window_packets: 16
message_packets: 4
switches:
  - {name: root, mac: "52:54:00:01:00:01", ip: 10.10.0.1, ip6: "fd01::1"}
  - {name: leaf0, mac: "52:54:00:01:00:02", ip: 10.10.0.2, ip6: "fd01::2"}
  - {name: leaf1, mac: "52:54:00:01:00:03", ip: 10.10.0.3, ip6: "fd01::3"}
cables:
  - {between: [root, leaf0], ports: [0, 8]}
  - {between: [leaf1, root], ports: [8, 1]}
hosts:
  - {ip: 10.9.0.1, switch: leaf0, port: 0}
  - {ip: 10.9.0.2, switch: leaf0, port: 1}
  - {ip: 10.9.0.3, switch: leaf0, port: 2}
  - {ip: 10.9.0.4, switch: leaf0, port: 3}
  - {ip: 10.9.0.5, switch: leaf1, port: 0}
  - {ip: 10.9.0.6, switch: leaf1, port: 1}
  - {ip: 10.9.0.7, switch: leaf1, port: 2}
  - {ip: 10.9.0.8, switch: leaf1, port: 3}
`

func network(t *testing.T) *control.Network {
	t.Helper()
	n, err := control.ParseNetwork("network.yaml", []byte(networkText))
	require.NoError(t, err)
	return n
}

// plane is a control plane that can be killed and started again, and its switches.
type plane struct {
	t        *testing.T
	state    string
	addr     string
	options  control.Options // Store is filled in
	switches map[string]*targettest.Fake
	step     func() error // around each write of the store

	mu     sync.Mutex
	store  *control.Store
	server *control.Server
	stop   context.CancelFunc
	served chan error
}

// patience is the time within which what must happen happens, on a slow machine.
const patience = 2 * time.Minute

func newPlane(t *testing.T, change func(*control.Options)) *plane {
	t.Helper()
	p := &plane{t: t, state: filepath.Join(t.TempDir(), "control.db"), switches: map[string]*targettest.Fake{}}
	p.options = control.Options{Network: network(t), Switches: map[string]target.Switch{}, Lease: 2 * time.Second, Wait: 5 * time.Second,
		SwitchTimeout: 2 * time.Second, Drain: 200 * time.Millisecond, FirstPSN: func() psn.PSN { return 0xfffff0 }}
	if testing.Verbose() {
		p.options.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	for _, s := range p.options.Network.Switches {
		p.switches[s.Name] = targettest.NewFake(targettest.Info(s.Name))
		p.options.Switches[s.Name] = p.switches[s.Name]
	}
	if change != nil {
		change(&p.options)
	}
	p.start()
	t.Cleanup(func() { p.kill() })
	t.Cleanup(func() {
		for name, f := range p.switches {
			require.Empty(t, f.Mistakes(), name)
		}
	})
	return p
}

func (p *plane) start() {
	p.t.Helper()
	require.NoError(p.t, p.tryStart())
}

func (p *plane) tryStart() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.addr
	if at == "" {
		at = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		return err
	}
	if p.addr == "" { // it keeps it: ranks read it while others start the control plane again
		p.addr = l.Addr().String()
	}
	if p.store, err = control.OpenStore(p.state); err != nil {
		return errors.Join(err, l.Close())
	}
	p.store.NoSync()
	if p.step != nil {
		p.store.Around(p.step)
	}
	o := p.options
	o.Store = p.store
	if p.server, err = control.Open(o); err != nil {
		return errors.Join(err, l.Close(), p.store.Close())
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop, p.served = stop, make(chan error, 1)
	go func(s *control.Server, served chan<- error) { served <- s.Serve(ctx, l) }(p.server, p.served)
	return nil
}

// kill ends the control plane without letting it finish anything.
func (p *plane) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		return
	}
	p.stop()
	<-p.served
	require.NoError(p.t, p.store.Close())
	p.server = nil
}

// holds is what all switches hold.
func (p *plane) holds() string {
	var all []string
	for name, f := range p.switches {
		for _, id := range f.Holds() {
			all = append(all, name+":"+id)
		}
	}
	return strings.Join(all, " ")
}

// client is one host's part.
type client struct {
	*rendezvous.Client
	member coll.Member
}

func (p *plane) rank(job string, r, ranks int, change func(*rendezvous.Options)) *client {
	p.t.Helper()
	o := rendezvous.Options{Addr: p.addr, Wait: 5 * time.Second}
	if change != nil {
		change(&o)
	}
	c, err := rendezvous.Dial(o)
	require.NoError(p.t, err)
	p.t.Cleanup(func() { require.NoError(p.t, c.Close()) })
	return &client{c, coll.Member{Job: job, Rank: r, Ranks: ranks, MAC: roce.MAC{0x52, 0x54, 0, 0, 0, byte(r + 1)},
		IP: netip.AddrFrom4([4]byte{10, 9, 0, byte(r + 1)}), LinkMTU: 1500, Ring: [2]uint32{uint32(100 + r), uint32(200 + r)}, RingPSN: psn.PSN(r)}}
}

func (p *plane) ranks(job string, n int) []*client {
	var all []*client
	for r := range n {
		all = append(all, p.rank(job, r, n, nil))
	}
	return all
}

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// each calls f for every rank at once and returns the errors.
func each(ranks []*client, f func(r int, k *client) error) []error {
	errs := make([]error, len(ranks))
	var all sync.WaitGroup
	for r, k := range ranks {
		all.Go(func() { errs[r] = f(r, k) })
	}
	all.Wait()
	return errs
}

func join(t *testing.T, ranks []*client) []*coll.Peers {
	t.Helper()
	peers := make([]*coll.Peers, len(ranks))
	ctx := soon(t)
	for r, err := range each(ranks, func(r int, k *client) (err error) { peers[r], err = k.Join(ctx, k.member); return err }) {
		require.NoError(t, err, r)
	}
	return peers
}

func create(t *testing.T, ranks []*client, step tree.Step, qpn uint32) []*coll.Subgroup {
	t.Helper()
	subs := make([]*coll.Subgroup, len(ranks))
	ctx := soon(t)
	for r, err := range each(ranks, func(r int, k *client) (err error) { subs[r], err = k.Subgroup(ctx, step, qpn+uint32(r)); return err }) {
		require.NoError(t, err, r)
	}
	return subs
}

func every(t *testing.T, ranks []*client, f func(r int, k *client) error) {
	t.Helper()
	for r, err := range each(ranks, f) {
		require.NoError(t, err, r)
	}
}

// empty waits until nothing is in any switch.
func (p *plane) empty() {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return p.holds() == "" }, patience, 10*time.Millisecond, "switches still hold %v", p.holds)
}

var (
	allReduce = tree.Step{Collective: tree.AllReduce}
	reduce2   = tree.Step{Collective: tree.Reduce, Root: 2}
)

func reduceTo(root int) tree.Step { return tree.Step{Collective: tree.Reduce, Root: root} }

func name(format string, args ...any) string { return fmt.Sprintf(format, args...) }

func roceAddr(s string) netip.Addr { return netip.MustParseAddr(s) }

func targettestInfo(name string) target.Info { return targettest.Info(name) }

// replace gives the network another switch of a name; the control plane is not running.
func (p *plane) replace(name string, info target.Info) {
	p.switches[name] = targettest.NewFake(info)
	p.options.Switches[name] = p.switches[name]
}

// ranksIn are those that a failure names.
func ranksIn(err error) []int {
	var f *failure.Error
	if errors.As(err, &f) {
		return f.Ranks
	}
	return nil
}

func (p *plane) status() (*controlpb.StatusReply, error) {
	a, err := control.DialAdmin(p.addr)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	return a.Status(soon(p.t), "")
}

// given waits until no switch has anything of a job any more: what the dead had is there for others.
func (p *plane) given() {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		st, err := p.status()
		if err != nil {
			return false
		}
		for _, one := range st.Switches {
			if one.Endpoints.GetUsed() != 0 || one.Pipes.GetUsed() != 0 || one.Blocks.GetUsed() != 0 {
				return false
			}
		}
		return true
	}, patience, 10*time.Millisecond, "all is given back")
}

func mustDial(t *testing.T, addr string, wait time.Duration) *rendezvous.Client {
	t.Helper()
	c, err := rendezvous.Dial(rendezvous.Options{Addr: addr, Wait: wait})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func documentOf(t *testing.T, f *targettest.Fake, id string) *group.Group {
	t.Helper()
	g, ok := f.Document(id)
	require.True(t, ok, id)
	return g
}
