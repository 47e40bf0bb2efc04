package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/device/raw"
	"github.com/epic-inc/epic/driver/lab/wire"
	"github.com/epic-inc/epic/driver/softswitch"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/roce"
)

// DefaultFolder is where labs keep their state.
const DefaultFolder = "/run/epic-lab"

// DefaultName of a lab.
const DefaultName = "lab"

// Options of a lab.
type Options struct {
	Name   string     // 1..6 letters and digits; empty: DefaultName
	Folder string     // of the states of all labs; empty: DefaultFolder
	Set    *group.Set // one group or several; Link of the groups is the wires'
	Seed   uint64     // of the wires
	// Paced says whether the rate of the groups' links counts. If not, frames go as fast as the process can.
	Paced bool
	// Apart leaves the switches out: State.Apart says where processes of their own (epic switch) find their ports.
	Apart bool
}

// State is what a lab writes down for other processes. It is in FOLDER/NAME/state.json.
type State struct {
	Name       string    `json:"name"`
	PID        int       `json:"pid"`
	Started    time.Time `json:"started"`
	Ready      bool      `json:"ready"`
	Seed       uint64    `json:"seed"`
	Groups     []string  `json:"groups"`     // files
	Namespaces []string  `json:"namespaces"` // of the hosts, in the order of the set
	Hosts      [][]int   `json:"hosts"`      // of each group, the host that each rank is
	Interface  string    `json:"interface"`  // in each of them
	Socket     string    `json:"socket"`     // HTTP: /metrics and /state of the switches
	Apart      []Apart   `json:"apart,omitempty"`
}

// Apart is a switch that is not the lab's, but a process of its own.
type Apart struct {
	Name      string   `json:"name"`
	Namespace string   `json:"namespace"`
	Ports     []string `json:"ports"`   // the interface of each, from port 0; empty: none
	Metrics   string   `json:"metrics"` // where it says how it is (epic switch --metrics)
}

// Args are the arguments of epic with which the switch runs, for the groups in those files.
func (a *Apart) Args(groups []string) []string {
	args := []string{"switch", "--name", a.Name}
	for _, file := range groups {
		args = append(args, "--group", file)
	}
	for n, name := range a.Ports {
		if name != "" {
			args = append(args, "--port", fmt.Sprintf("%d=%s", n, name))
		}
	}
	return append(args, "--metrics", a.Metrics)
}

// Command is the command line that starts the switch by this program, which need not be in the PATH.
func (a *Apart) Command(groups []string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("switch %s: the path of this program: %w", a.Name, err)
	}
	return strings.Join(append([]string{"ip", "netns", "exec", a.Namespace, self}, a.Args(groups)...), " "), nil
}

// Lab is one that this process has made.
type Lab struct {
	State
	o        Options
	folder   string
	lock     *os.File
	switches []*softswitch.Switch
	wires    []*wire.Wire // of each host
	quiet    []*os.File
	cancel   context.CancelFunc
	running  sync.WaitGroup
	failed   error // of a switch
	mu       sync.Mutex
	again    sync.Mutex
	closing  sync.Once
	closed   error
}

var goodName = regexp.MustCompile(`^[a-z0-9]{1,6}$`)

// Check puts what is usual where nothing is given, and says what is wrong.
func (o *Options) Check() error {
	if o.Name == "" {
		o.Name = DefaultName
	}
	if o.Folder == "" {
		o.Folder = DefaultFolder
	}
	if !goodName.MatchString(o.Name) {
		return fmt.Errorf("lab name: got %q, want 1..6 small letters and digits", o.Name)
	}
	if o.Set == nil {
		return errors.New("lab: got no group, want one at least")
	}
	return nil
}

// Up makes a lab and starts its switches. What a lab of the name left that ended badly is removed first; if one is up
// it is an error. Close takes it down.
func Up(o Options) (*Lab, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if err := Permitted(); err != nil {
		return nil, err
	}
	folder := filepath.Join(o.Folder, o.Name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("lab %s: %w", o.Name, err)
	}
	lock, err := hold(folder)
	if err != nil {
		return nil, fmt.Errorf("lab %s: %w", o.Name, err)
	}
	l := &Lab{o: o, folder: folder, lock: lock, cancel: func() {}}
	l.State = State{Name: o.Name, PID: os.Getpid(), Started: time.Now(), Seed: o.Seed, Interface: hostInterface, Socket: filepath.Join(folder, "switch.sock")}
	if _, err := clean(o.Name); err != nil {
		return nil, errors.Join(fmt.Errorf("lab %s: what an earlier one left: %w", o.Name, err), lock.Close())
	}
	if err := l.make(); err != nil {
		return nil, fmt.Errorf("lab %s: %w", o.Name, errors.Join(err, l.Close()))
	}
	return l, nil
}

// hold takes the lock of a lab, which its process holds as long as it lives.
func hold(folder string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("it is up (%s): take it down first (epic lab down), or give this one another name", folder)
		}
		return nil, fmt.Errorf("lock: %w", err)
	}
	return f, nil
}

func (l *Lab) make() error {
	if err := l.write(); err != nil { // before anything is there to be left
		return err
	}
	set := l.o.Set
	if err := makeNamespace(switchNamespace(l.Name)); err != nil {
		return err
	}
	if l.o.Apart {
		if err := makeNamespace(wireNamespace(l.Name)); err != nil {
			return err
		}
	}
	l.wires = make([]*wire.Wire, len(set.Hosts))
	ports := make([]map[int]device.Link, len(set.Switches))
	for i := range ports {
		ports[i] = map[int]device.Link{}
	}
	wires, err := set.Wires()
	if err != nil {
		return err
	}
	for n, w := range wires {
		link := w.Link
		if !l.o.Paced {
			link.Gbps = 0
		}
		if w.Peer.IsRank() {
			end, err := l.host(w, wire.Options{Link: link, Seed: l.o.Seed, Number: uint64(n)})
			if err != nil {
				return err
			}
			l.wires[w.Peer.Index], ports[w.Switch][w.Port] = end, end
			continue
		}
		near, far, err := device.Pair(l.mtu())
		if err != nil {
			return err
		}
		end, err := wire.New(far, wire.Options{Link: link, Seed: l.o.Seed, Number: uint64(n)})
		if err != nil {
			return err
		}
		ports[w.Switch][w.Port], ports[w.Peer.Index][w.PeerPort] = end, near
	}
	for i := range set.Hosts {
		l.Namespaces = append(l.Namespaces, hostNamespace(l.Name, i))
	}
	for _, g := range set.Groups {
		l.Hosts = append(l.Hosts, make([]int, len(g.Ranks)))
	}
	for i, h := range set.Hosts {
		for _, m := range h.Ranks {
			l.Hosts[m.Group][m.Rank] = i
		}
	}
	if err := l.start(ports); err != nil {
		return err
	}
	for i := range set.Groups {
		l.Groups = append(l.Groups, l.groupFile(i))
	}
	if err := l.writeGroups(); err != nil {
		return err
	}
	l.Ready = true
	return l.write()
}

func (l *Lab) groupFile(i int) string { return filepath.Join(l.folder, fmt.Sprintf("group%d.yaml", i)) }

// mtu of the interfaces: what the largest packets of the groups need, RDMA WRITEs too, and at least Ethernet's.
func (l *Lab) mtu() int {
	const ethernet = 1500
	mtu := ethernet
	for _, g := range l.o.Set.Groups {
		mtu = max(mtu, roce.IPBytes(g.MTU, true)+roce.RETHSize) // over IPv4 too: a control plane may ask for either
	}
	return mtu
}

// host makes the namespace of a host and the cable to its switch.
func (l *Lab) host(w group.Wire, o wire.Options) (*wire.Wire, error) {
	set, i := l.o.Set, w.Peer.Index
	nic := set.Hosts[i]
	first := nic.Ranks[0]
	rank := set.Groups[first.Group].Ranks[first.Rank]
	name := hostNamespace(l.Name, i)
	if err := makeNamespace(name); err != nil {
		return nil, err
	}
	c := cable{port: portName(w.Switch, w.Port), host: name, mac: rank.MAC[:], addr: alone(nic.IP.Addr), mtu: l.mtu(), switches: switchNamespace(l.Name)}
	if l.o.Apart {
		c.switches = wireNamespace(l.Name)
	}
	for _, ip := range l.addresses() {
		if ip != nic.IP.Addr {
			c.peers = append(c.peers, net.IP(ip.AsSlice()))
		}
	}
	if err := c.plug(); err != nil {
		return nil, fmt.Errorf("host %s: %w", nic.Name, err)
	}
	quiet, err := silence(name, nic.IP.Is6())
	if err != nil {
		return nil, err
	}
	l.quiet = append(l.quiet, quiet)
	link, err := raw.Open(raw.Options{Interface: c.port, Namespace: c.switches})
	if err != nil {
		return nil, err
	}
	end, err := wire.New(link, o)
	if err != nil {
		return nil, errors.Join(err, link.Close())
	}
	return end, nil
}

// alone is an address without a network: what else is on the link has routes.
func alone(ip netip.Addr) *net.IPNet {
	return &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(ip.BitLen(), ip.BitLen())}
}

// addresses are those of all switches and hosts.
func (l *Lab) addresses() []netip.Addr {
	seen := map[netip.Addr]bool{}
	var all []netip.Addr
	add := func(ip netip.Addr) {
		if !seen[ip] {
			seen[ip] = true
			all = append(all, ip)
		}
	}
	for _, h := range l.o.Set.Hosts {
		add(h.IP.Addr)
	}
	for _, g := range l.o.Set.Groups {
		for _, sw := range g.Switches {
			for _, ep := range sw.Endpoints {
				add(ep.IP.Addr)
			}
		}
	}
	return all
}

// start makes the switches and lets them run, or leads their ports to where others find them.
func (l *Lab) start(ports []map[int]device.Link) error {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	var err error
	if l.o.Apart {
		err = l.lead(ctx, ports)
	} else {
		err = l.makeSwitches(ports)
	}
	if err != nil {
		return err
	}
	_ = os.Remove(l.Socket) // of one that ended badly
	listener, err := net.Listen("unix", l.Socket)
	if err != nil {
		return err
	}
	h, err := l.handler()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	l.running.Go(func() { l.fail(softswitch.Serve(ctx, listener, h)) })
	for _, s := range l.switches {
		l.running.Go(func() { l.fail(s.Run(ctx)) })
	}
	return nil
}

func (l *Lab) makeSwitches(ports []map[int]device.Link) error {
	set := l.o.Set
	for i, name := range set.Switches {
		o := softswitch.Options{Name: name, Ports: ports[i]}
		for _, g := range set.Groups {
			if k, there := g.SwitchIndex(name); there {
				for _, ep := range g.Switches[k].Endpoints {
					o.Addresses = append(o.Addresses, softswitch.Address{IP: ep.IP.Addr, MAC: roce.MAC(ep.MAC)})
				}
			}
		}
		s, err := softswitch.New(o)
		if err != nil {
			return err
		}
		l.switches = append(l.switches, s)
		for k, g := range set.Groups {
			if _, there := g.SwitchIndex(name); !there {
				continue
			}
			cfg, err := g.EngineConfig(name)
			if err != nil {
				return err
			}
			if err := s.Install(GroupID(k), cfg); err != nil {
				return err
			}
		}
	}
	return nil
}

// lead puts an interface for each port into the switches' namespace, and carries between that and the wire.
func (l *Lab) lead(ctx context.Context, ports []map[int]device.Link) error {
	for i, name := range l.o.Set.Switches {
		a := Apart{Name: name, Namespace: switchNamespace(l.Name), Metrics: "unix:" + filepath.Join(l.folder, fmt.Sprintf("switch%d.sock", i))}
		for n := range engine.MaxPorts {
			end := ports[i][n]
			if end == nil {
				continue
			}
			for len(a.Ports) < n {
				a.Ports = append(a.Ports, "")
			}
			a.Ports = append(a.Ports, portName(i, n))
			peer, err := outlet(portName(i, n), l.mtu(), a.Namespace, wireNamespace(l.Name))
			if err != nil {
				return err
			}
			out, err := raw.Open(raw.Options{Interface: peer, Namespace: wireNamespace(l.Name)})
			if err != nil {
				return err
			}
			l.running.Go(func() { l.fail(carry(ctx, end, out)) })
			l.running.Go(func() { l.fail(carry(ctx, out, end)) })
			l.running.Go(func() { <-ctx.Done(); l.fail(errors.Join(end.Close(), out.Close())) })
		}
		l.State.Apart = append(l.State.Apart, a)
	}
	return nil
}

// carry brings what one link receives to another, until ctx ends.
func carry(ctx context.Context, from, to device.Link) error {
	for {
		frame, err := from.Receive(ctx)
		if err == nil {
			err = to.Send(ctx, frame)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// GroupID is the name under which a lab installs group k of its set.
func GroupID(k int) string { return fmt.Sprintf("g%d", k) }

func (l *Lab) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = errors.Join(l.failed, err)
}

// Err is what went wrong in a switch, nil if all are well.
func (l *Lab) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// Switches of the lab, in the order of the set.
func (l *Lab) Switches() []*softswitch.Switch { return l.switches }

// Wire is the cable of a host.
func (l *Lab) Wire(host int) *wire.Wire { return l.wires[host] }

// Link opens the interface of a host, as a rank there does.
func (l *Lab) Link(host int) (device.Link, error) {
	return raw.Open(raw.Options{Interface: hostInterface, Namespace: l.Namespaces[host]})
}

// write keeps the state for other processes.
func (l *Lab) write() error {
	text, err := json.MarshalIndent(l.State, "", "  ")
	if err != nil {
		return err
	}
	file := filepath.Join(l.folder, "state.json")
	if err := os.WriteFile(file+".new", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// Close takes the lab down: switches, wires, what runs in the namespaces, and all that was made.
func (l *Lab) Close() error {
	l.closing.Do(func() {
		l.cancel()
		l.running.Wait()
		var errs []error
		for _, w := range l.wires {
			if w != nil {
				errs = append(errs, w.Close())
			}
		}
		for _, f := range l.quiet {
			errs = append(errs, f.Close())
		}
		_, err := clean(l.Name)
		errs = append(errs, err, os.RemoveAll(l.folder), l.lock.Close())
		l.closed = errors.Join(errs...)
	})
	return l.closed
}
