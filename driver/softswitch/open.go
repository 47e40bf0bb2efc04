package softswitch

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/device/datagram"
	"github.com/epic-inc/epic/driver/device/raw"
	"github.com/epic-inc/epic/golden/engine"
)

// PortForms are the ways to name a port.
const PortForms = "NUMBER=INTERFACE, or NUMBER=udp:LOCAL,REMOTE with an address and port each, where a datagram is a frame as of QEMU's -netdev dgram"

// Port says what a port of a switch is connected to.
type Port struct {
	Number        int
	Interface     string         // of this machine, or:
	Local, Remote netip.AddrPort // UDP, a datagram a frame
}

// ParsePort reads one of PortForms.
func ParsePort(s string) (Port, error) {
	bad := func() (Port, error) { return Port{}, fmt.Errorf("port: got %q, want %s", s, PortForms) }
	number, to, found := strings.Cut(s, "=")
	n, err := strconv.Atoi(number)
	if !found || err != nil || to == "" {
		return bad()
	}
	if n < 0 || n >= engine.MaxPorts {
		return Port{}, fmt.Errorf("port: got number %d in %q, want 0..%d", n, s, engine.MaxPorts-1)
	}
	ends, udp := strings.CutPrefix(to, "udp:")
	if !udp {
		return Port{Number: n, Interface: to}, nil
	}
	local, remote, found := strings.Cut(ends, ",")
	if !found {
		return bad()
	}
	p := Port{Number: n}
	if p.Local, err = netip.ParseAddrPort(local); err != nil {
		return bad()
	}
	if p.Remote, err = netip.ParseAddrPort(remote); err != nil {
		return bad()
	}
	return p, nil
}

// Open opens the links of ports; mtu is that of those over UDP.
func Open(ports []Port, mtu int) (map[int]device.Link, error) {
	links := map[int]device.Link{}
	for _, p := range ports {
		var l device.Link
		var err error
		switch {
		case links[p.Number] != nil:
			err = fmt.Errorf("port %d is given twice, want each once", p.Number)
		case p.Interface != "":
			l, err = raw.Open(raw.Options{Interface: p.Interface})
		default:
			l, err = datagram.Open(datagram.Options{Local: p.Local, Remote: p.Remote, MTU: mtu})
		}
		if err != nil {
			for _, l := range links {
				l.Close()
			}
			return nil, fmt.Errorf("port %d: %w", p.Number, err)
		}
		links[p.Number] = l
	}
	return links, nil
}
