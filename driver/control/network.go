package control

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/roce"
)

// NetworkVersion is the version of the file that this package reads.
const NetworkVersion = 1

// Network is the file that says which switches there are, how they are joined, and where the hosts are. What the
// switches have of tables and memory they say themselves.
type Network struct {
	Version  int      `yaml:"version"`
	Switches []Switch `yaml:"switches"`
	Cables   []Cable  `yaml:"cables"`
	Hosts    []Host   `yaml:"hosts"` // those that need not say where they are

	// What a group has whose ranks ask for nothing else. Units and ranges are those of group.yaml.
	Mode           int          `yaml:"mode"`
	MTU            int          `yaml:"mtu"` // the largest; 0: what links and switches carry
	MessagePackets int          `yaml:"message_packets"`
	WindowPackets  int          `yaml:"window_packets"`
	TimeoutCode    int          `yaml:"timeout_code"` // of the ranks
	Preset         string       `yaml:"preset"`       // of the ranks
	Clock          group.Clock  `yaml:"clock"`
	Timers         group.Timers `yaml:"timers"`
}

// Switch is a switch of the network.
type Switch struct {
	Name string    `yaml:"name"`
	MAC  group.MAC `yaml:"mac"`
	IP   group.IP  `yaml:"ip"`  // at least one of
	IP6  group.IP  `yaml:"ip6"` // the two
	At   string    `yaml:"at"`  // host:port of its service Switch; empty: whoever makes the Server has it
}

// Cable joins two switches.
type Cable struct {
	Between [2]string `yaml:"between" json:"between"`
	Ports   [2]int    `yaml:"ports" json:"ports"`
}

// Host is where a host is.
type Host struct {
	IP     group.IP `yaml:"ip"`
	Switch string   `yaml:"switch"`
	Port   int      `yaml:"port"`
}

// The timeouts of hosts and switches if the file says nothing. They are longer than those of golden/group, 17 ms, which a
// program that waits for its turn on a busy machine may take to answer.
const (
	defaultTimeoutCode  = 15    // 134 ms
	defaultTimeoutTicks = 10000 // 100 ms
)

// defaults of the file are otherwise those of golden/group.
func defaults() Network {
	o := group.DefaultOptions()
	return Network{
		Mode: o.Mode, MessagePackets: o.MessagePackets, WindowPackets: o.Slots / 2, TimeoutCode: defaultTimeoutCode, Preset: o.Preset,
		Clock:  group.Clock{MHz: o.ClockMHz, PerTick: o.ClocksPerTick},
		Timers: group.Timers{TimeoutTicks: defaultTimeoutTicks, Retries: 7, BackoffMax: 3, RNRCode: o.RNRCode, AckEvery: o.AckEvery},
	}
}

// maxNetworkBytes is the largest file LoadNetwork reads.
const maxNetworkBytes = 4 << 20

// LoadNetwork reads and checks a file. What is wrong with it is a group.Problems, a line for each.
func LoadNetwork(path string) (*Network, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxNetworkBytes+1))
	if err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	if len(text) > maxNetworkBytes {
		return nil, group.Problems{{File: path, Message: fmt.Sprintf("larger than %d MiB, want a network.yaml", maxNetworkBytes>>20)}}
	}
	return ParseNetwork(path, text)
}

// ParseNetwork checks the text of a file; name is what messages call it.
func ParseNetwork(name string, text []byte) (*Network, error) {
	n := defaults()
	if err := yaml.UnmarshalWithOptions(text, &n, yaml.Strict()); err != nil && !errors.Is(err, io.EOF) {
		p := group.Problem{File: name, Message: strings.SplitN(err.Error(), "\n", 2)[0]}
		var y yaml.Error
		if errors.As(err, &y) {
			p.Message = y.GetMessage()
			if tk := y.GetToken(); tk != nil && tk.Position != nil {
				p.Line, p.Column = tk.Position.Line, tk.Position.Column
			}
		}
		return nil, group.Problems{p}
	}
	if problems := n.check(name); len(problems) > 0 {
		return nil, problems
	}
	return &n, nil
}

var (
	switchName = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,31}$`)
	jobName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
)

func (n *Network) check(file string) group.Problems {
	var problems group.Problems
	bad := func(path, format string, args ...any) {
		problems = append(problems, group.Problem{File: file, Path: path, Message: fmt.Sprintf(format, args...)})
	}
	inRange := func(path string, got, lo, hi int) {
		if got < lo || got > hi {
			bad(path, "got %d, want %d..%d", got, lo, hi)
		}
	}
	if n.Version != NetworkVersion {
		bad("version", "got %d, want %d", n.Version, NetworkVersion)
	}
	inRange("mode", n.Mode, 1, 3)
	if n.MTU != 0 && !roce.ValidMTU(n.MTU) {
		bad("mtu", "got %d, want %s", n.MTU, roce.WantMTU())
	}
	inRange("message_packets", n.MessagePackets, 1, host.MaxMessagePackets)
	// A pipe has twice the window in slots, so this is less than what a control signal may open.
	inRange("window_packets", n.WindowPackets, max(1, n.MessagePackets), engine.MaxSlots/2)
	inRange("timeout_code", n.TimeoutCode, 1, 31)
	if _, err := host.Preset(n.Preset); err != nil {
		bad("preset", "got %q, want one of %s", n.Preset, strings.Join(host.Presets(), ", "))
	}
	if !(n.Clock.MHz > 0 && n.Clock.MHz <= 10000) {
		bad("clock.mhz", "got %v, want more than 0, at most 10000", n.Clock.MHz)
	}
	inRange("clock.per_tick", n.Clock.PerTick, 1, engine.MaxClocksPerTick)
	inRange("timers.timeout_ticks", n.Timers.TimeoutTicks, 1, engine.MaxTimeoutTicks)
	inRange("timers.retries", n.Timers.Retries, 0, 15)
	inRange("timers.backoff_max", n.Timers.BackoffMax, 0, 7)
	inRange("timers.rnr_code", n.Timers.RNRCode, 0, 31)
	inRange("timers.ack_every", n.Timers.AckEvery, 1, max(1, slots(n.WindowPackets)/4))
	if len(n.Switches) == 0 {
		bad("switches", "got none, want one at least")
	}
	n.checkSwitches(bad)
	type end struct {
		name string
		port int
	}
	uses := map[end]string{}
	plug := func(path, name string, port int, what string) {
		if _, ok := n.Switch(name); !ok {
			bad(path, "got switch %q, want one of %s", name, n.names())
			return
		}
		inRange(path, port, 0, engine.MaxPorts-1)
		if other, twice := uses[end{name, port}]; twice {
			bad(path, "port %d of %s leads to %s already", port, name, other)
			return
		}
		uses[end{name, port}] = what
	}
	for i, c := range n.Cables {
		at := fmt.Sprintf("cables[%d]", i)
		if c.Between[0] == c.Between[1] {
			bad(at, "joins %s to itself", c.Between[0])
			continue
		}
		plug(at, c.Between[0], c.Ports[0], c.Between[1])
		plug(at, c.Between[1], c.Ports[1], c.Between[0])
		if a, ok := n.Switch(c.Between[0]); ok {
			if b, ok := n.Switch(c.Between[1]); ok && !(a.IP.IsValid() && b.IP.IsValid()) && !(a.IP6.IsValid() && b.IP6.IsValid()) {
				bad(at, "%s and %s have no IP version in common", a.Name, b.Name)
			}
		}
	}
	ips := map[group.IP]int{}
	for i, h := range n.Hosts {
		at := fmt.Sprintf("hosts[%d]", i)
		if !h.IP.IsValid() || h.IP.IsMulticast() || h.IP.IsUnspecified() {
			bad(at+".ip", "got no address of a host, want one as 10.9.0.1 or fd00::1")
			continue
		}
		if first, twice := ips[h.IP]; twice { // a host of two addresses has two entries at one port
			bad(at+".ip", "%v is entry %d already", h.IP, first)
			continue
		}
		ips[h.IP] = i
		if _, ok := n.Switch(h.Switch); !ok {
			bad(at+".switch", "got switch %q, want one of %s", h.Switch, n.names())
			continue
		}
		inRange(at+".port", h.Port, 0, engine.MaxPorts-1)
		if other, twice := uses[end{h.Switch, h.Port}]; twice {
			bad(at+".port", "port %d of %s leads to %s already", h.Port, h.Switch, other)
		}
	}
	return problems
}

func (n *Network) checkSwitches(bad func(path, format string, args ...any)) {
	names, addresses, macs := map[string]int{}, map[group.IP]string{}, map[group.MAC]string{}
	for i, s := range n.Switches {
		at := fmt.Sprintf("switches[%d]", i)
		if !switchName.MatchString(s.Name) || s.Name == "rank" {
			bad(at+".name", `got %q, want a lower-case letter and then up to 31 letters, digits, '_', '.' or '-'; not "rank"`, s.Name)
		}
		if first, twice := names[s.Name]; twice {
			bad(at+".name", "%q is entry %d already", s.Name, first)
		}
		names[s.Name] = i
		if s.MAC[0]&1 != 0 || s.MAC == (group.MAC{}) {
			bad(at+".mac", "got %v, want the address of one station", s.MAC)
		} else if other, twice := macs[s.MAC]; twice {
			bad(at+".mac", "%v is that of %s already", s.MAC, other)
		}
		macs[s.MAC] = s.Name
		if !s.IP.IsValid() && !s.IP6.IsValid() {
			bad(at, "got neither ip nor ip6, want an address as 10.10.0.1 or fd00::1")
		}
		if s.IP.IsValid() && !s.IP.Is4() {
			bad(at+".ip", "got %v, want an IPv4 address; the other goes into ip6", s.IP)
		}
		if s.IP6.IsValid() && !s.IP6.Is6() {
			bad(at+".ip6", "got %v, want an IPv6 address", s.IP6)
		}
		for _, a := range []group.IP{s.IP, s.IP6} {
			if !a.IsValid() {
				continue
			}
			if other, twice := addresses[a]; twice {
				bad(at, "%v is that of %s already", a, other)
			}
			addresses[a] = s.Name
		}
		if s.At != "" {
			if _, _, err := net.SplitHostPort(s.At); err != nil {
				bad(at+".at", "got %q, want host:port", s.At)
			}
		}
	}
}

// Switch finds a switch by its name.
func (n *Network) Switch(name string) (Switch, bool) {
	i := slices.IndexFunc(n.Switches, func(s Switch) bool { return s.Name == name })
	if i < 0 {
		return Switch{}, false
	}
	return n.Switches[i], true
}

func (n *Network) names() string {
	var names []string
	for _, s := range n.Switches {
		names = append(names, s.Name)
	}
	if len(names) > 8 {
		names = append(names[:8], "...")
	}
	return strings.Join(names, ", ")
}

// address is the switch's of an IP version.
func (s Switch) address(v4 bool) (group.IP, bool) {
	a := s.IP6
	if v4 {
		a = s.IP
	}
	return a, a.IsValid()
}

// slots is N of a pipe for a window of MW packets: at least 2 MW, which Mode-II needs (protocol.md 5), and a power of
// two.
func slots(window int) int { return max(engine.MinSlots, 1<<bits.Len(uint(2*window-1))) }
