package softswitch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// Address is one that the switch answers for.
type Address struct {
	IP  netip.Addr
	MAC roce.MAC
}

// Options of a switch.
type Options struct {
	Name  string
	Ports map[int]device.Link // by number, 0..63; Run closes them
	// Addresses that it has beside those of its endpoints' configurations.
	Addresses []Address
}

// Switch is a switch. Its methods may be called from several goroutines at once.
type Switch struct {
	name    string
	started time.Time
	ports   []*port // by number; nil where there is none
	bridge  bridge
	own     []Address // of the options
	notes   notes

	installing sync.Mutex // of those who change the table
	table      atomic.Pointer[table]

	watchers sync.Map // *watcher: nil
}

// table is what frames are looked up in. It is never changed, only replaced.
type table struct {
	units map[uint32]*unit // by the QPN of each endpoint
	sets  map[string][]*unit
	macs  map[roce.MAC]bool
	ips   map[netip.Addr]roce.MAC
}

// New returns a switch without groups. Nothing moves before Run.
func New(o Options) (*Switch, error) {
	s := &Switch{name: o.Name, started: time.Now(), own: o.Addresses}
	s.bridge.ports = make(map[roce.MAC]int)
	s.notes.byKey = make(map[noteKey]*Note)
	if len(o.Ports) == 0 {
		return nil, fmt.Errorf("switch %s: got no port, want at least one", o.Name)
	}
	for _, n := range slices.Sorted(maps.Keys(o.Ports)) {
		if n < 0 || n >= engine.MaxPorts {
			return nil, fmt.Errorf("switch %s: got port %d, want 0..%d", o.Name, n, engine.MaxPorts-1)
		}
		for len(s.ports) <= n {
			s.ports = append(s.ports, nil)
		}
		s.ports[n] = newPort(n, o.Ports[n])
	}
	s.table.Store(s.tableOf(nil))
	return s, nil
}

// Name of the switch.
func (s *Switch) Name() string { return s.name }

// Addresses are all that the switch answers for, in the order of their IPs.
func (s *Switch) Addresses() []Address {
	var all []Address
	for ip, mac := range s.table.Load().ips {
		all = append(all, Address{ip, mac})
	}
	slices.SortFunc(all, func(a, b Address) int { return a.IP.Compare(b.IP) })
	return all
}

func (s *Switch) tableOf(sets map[string][]*unit) *table {
	t := &table{units: map[uint32]*unit{}, sets: sets, macs: map[roce.MAC]bool{}, ips: map[netip.Addr]roce.MAC{}}
	add := func(ip netip.Addr, mac roce.MAC) {
		t.ips[ip] = mac
		t.macs[mac] = true
	}
	for _, a := range s.own {
		add(a.IP, a.MAC)
	}
	for _, units := range sets {
		for _, u := range units {
			for _, ep := range u.endpoints {
				t.units[ep.QPN] = u
				add(ep.IP, ep.MAC)
			}
		}
	}
	return t
}

// payloadOf is the largest payload whose packets a link with an MTU carries, over IPv4 and IPv6.
func payloadOf(mtu int) int {
	best := 0
	for _, m := range roce.MTUs() {
		if roce.IPBytes(m, true) <= mtu {
			best = m
		}
	}
	return best
}

// Install takes the endpoints and pipes of a configuration into service under a name of the caller's. They
// begin at their first PSNs. It is refused, and nothing has changed, if the name or a QPN is in use, an endpoint is at
// a port that is not there, or the engine does not take the configuration.
func (s *Switch) Install(id string, cfg engine.Config) error {
	s.installing.Lock()
	defer s.installing.Unlock()
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("switch %s: %q: %w", s.name, id, err)
	}
	old := s.table.Load()
	if _, twice := old.sets[id]; twice {
		return fmt.Errorf("switch %s: %q is installed already, want another name, or remove it first", s.name, id)
	}
	for _, ep := range cfg.Endpoints {
		if ep.Port >= len(s.ports) || ep.Port < 0 || s.ports[ep.Port] == nil {
			return fmt.Errorf("switch %s: %q: endpoint %s is at port %d, want one of %v", s.name, id, ep.Name, ep.Port, s.portNumbers())
		}
		if u := old.units[ep.QPN]; u != nil {
			return fmt.Errorf("switch %s: %q: endpoint %s has QPN %#06x, which %q has already", s.name, id, ep.Name, ep.QPN, u.id)
		}
		if mac, known := old.ips[ep.IP]; known && mac != ep.MAC {
			return fmt.Errorf("switch %s: %q: endpoint %s has IP %v with MAC %v, want %v as the switch has it", s.name, id, ep.Name, ep.IP, ep.MAC, mac)
		}
	}
	for _, p := range cfg.Pipes {
		for _, o := range p.Outs {
			ep := cfg.Endpoints[o]
			if need, mtu := roce.IPBytes(p.MTU, ep.IP.Is6()), s.ports[ep.Port].link.MTU(); mtu < need {
				return fmt.Errorf("switch %s: %q: pipe %s has packets of %d bytes, which port %d does not carry: its MTU is %d, want at least %d",
					s.name, id, p.Name, p.MTU, ep.Port, mtu, need)
			}
		}
	}
	units, err := s.split(id, cfg)
	if err != nil {
		return fmt.Errorf("switch %s: %q: %w", s.name, id, err)
	}
	sets := maps.Clone(old.sets)
	if sets == nil {
		sets = map[string][]*unit{}
	}
	sets[id] = units
	s.table.Store(s.tableOf(sets))
	return nil
}

// Remove takes what Install put in out of service at once, whatever is under way in it.
func (s *Switch) Remove(id string) error {
	s.installing.Lock()
	defer s.installing.Unlock()
	old := s.table.Load()
	units, ok := old.sets[id]
	if !ok {
		return fmt.Errorf("switch %s: %q is not installed, want one of %q", s.name, id, s.Installed())
	}
	sets := maps.Clone(old.sets)
	delete(sets, id)
	s.table.Store(s.tableOf(sets))
	for _, u := range units {
		u.stop()
	}
	return nil
}

// Installed are the names given to Install.
func (s *Switch) Installed() []string { return slices.Sorted(maps.Keys(s.table.Load().sets)) }

// Fault is an error of a pipe.
type Fault struct {
	ID       string // as installed
	Pipe     string
	Endpoint string // at which it was noticed
	engine.Fault
}

// Error says what, where, and what was got and wanted.
func (f Fault) Error() string {
	return fmt.Sprintf("%s: pipe %s: %v at endpoint %s, psn %v: got %#x, want %#x", f.ID, f.Pipe, f.Kind, f.Endpoint, f.PSN, f.Got, f.Wanted)
}

// Faults lists the pipes in error.
func (s *Switch) Faults() []Fault {
	var all []Fault
	t := s.table.Load()
	for _, id := range slices.Sorted(maps.Keys(t.sets)) {
		for _, u := range t.sets[id] {
			all = append(all, u.faults()...)
		}
	}
	return all
}

type watcher struct{ tell func(Fault) }

// WatchFaults calls tell for every pipe that goes to error from now on, until ctx ends. It must not block: the
// pipe's frames wait for it.
func (s *Switch) WatchFaults(ctx context.Context, tell func(Fault)) {
	w := &watcher{tell}
	s.watchers.Store(w, nil)
	context.AfterFunc(ctx, func() { s.watchers.Delete(w) })
}

func (s *Switch) failed(f Fault) {
	s.watchers.Range(func(w, _ any) bool {
		w.(*watcher).tell(f)
		return true
	})
}

func (s *Switch) portNumbers() []int {
	var list []int
	for n, p := range s.ports {
		if p != nil {
			list = append(list, n)
		}
	}
	return list
}

// Run moves frames until ctx ends, and then closes the ports. A port whose link closes is down from then on; when
// all are the switch ends, with an error.
func (s *Switch) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all, receiving sync.WaitGroup
	for _, p := range s.ports {
		if p == nil {
			continue
		}
		all.Go(func() { p.transmit(ctx) })
		receiving.Go(func() { s.receive(ctx, p) })
	}
	receiving.Wait()
	over := ctx.Err()
	cancel()
	all.Wait()
	var errs []error
	for _, p := range s.ports {
		if p != nil {
			errs = append(errs, p.down(), p.link.Close())
		}
	}
	for _, units := range s.table.Load().sets {
		for _, u := range units {
			u.stop()
		}
	}
	if over != nil {
		return nil
	}
	return fmt.Errorf("switch %s: every port is down: %w", s.name, errors.Join(errs...))
}

// receive takes the frames of a port.
func (s *Switch) receive(ctx context.Context, p *port) {
	for {
		frame, err := p.link.Receive(ctx)
		if err != nil {
			if ctx.Err() == nil {
				p.fail(err)
			}
			return
		}
		p.counters.received(len(frame))
		s.frame(p, frame)
	}
}

// frame decides by its destination whose a frame is.
func (s *Switch) frame(p *port, frame []byte) {
	if len(frame) < device.HeaderBytes {
		p.counters.verdicts[spec.VerdictNotRoCE].Add(1)
		return
	}
	dst, src := roce.MAC(frame[:6]), roce.MAC(frame[6:12])
	s.bridge.learn(src, p.number)
	t := s.table.Load()
	switch {
	case t.macs[dst]:
		s.mine(t, p, frame)
	case dst[0]&1 != 0:
		s.answer(t, p, frame)
		s.flood(p, frame)
	default:
		if to, known := s.bridge.port(dst); !known {
			s.flood(p, frame)
		} else if to != p.number {
			p.counters.bridged.Add(1)
			s.ports[to].enqueue(item{frame: frame})
		}
	}
}

// mine takes a frame to one of the switch's own addresses.
func (s *Switch) mine(t *table, p *port, frame []byte) {
	pkt, bad := roce.Decode(frame)
	if bad != nil {
		p.counters.verdicts[bad.Verdict].Add(1)
		if bad.Verdict == spec.VerdictNotRoCE {
			s.answer(t, p, frame)
			return
		}
		d := roce.Dissect(frame)
		s.notes.add(p.number, bad.Verdict, &d.Packet, bad.Error())
		return
	}
	u := t.units[pkt.DestQP]
	if u == nil {
		p.counters.verdicts[spec.VerdictNoEndpoint].Add(1)
		s.notes.add(p.number, spec.VerdictNoEndpoint, pkt, fmt.Sprintf("no endpoint has QPN %#06x", pkt.DestQP))
		return
	}
	u.frame(p, pkt)
}

func (s *Switch) flood(from *port, frame []byte) {
	from.counters.bridged.Add(1)
	for _, p := range s.ports {
		if p != nil && p != from {
			p.enqueue(item{frame: frame})
		}
	}
}

// bridge knows at which port a MAC address is.
type bridge struct {
	sync.RWMutex
	ports map[roce.MAC]int
}

// maxMACs bounds what the bridge learns: what it does not know it floods.
const maxMACs = 4096

func (b *bridge) learn(mac roce.MAC, port int) {
	if mac[0]&1 != 0 {
		return
	}
	b.RLock()
	at, known := b.ports[mac]
	full := len(b.ports) >= maxMACs
	b.RUnlock()
	if known && at == port || full && !known {
		return
	}
	b.Lock()
	b.ports[mac] = port
	b.Unlock()
}

func (b *bridge) port(mac roce.MAC) (int, bool) {
	b.RLock()
	defer b.RUnlock()
	at, known := b.ports[mac]
	return at, known
}
