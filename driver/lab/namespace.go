package lab

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/epic-inc/epic/driver/namespace"
	"github.com/epic-inc/epic/golden/spec"
)

// netnsFolder is where `ip netns` and the netns package keep names.
const netnsFolder = "/var/run/netns"

// prefix of the names of a lab's namespaces.
func prefix(lab string) string { return "epic-" + lab + "-" }

func switchNamespace(lab string) string         { return prefix(lab) + "sw" }
func wireNamespace(lab string) string           { return prefix(lab) + "w" } // of a lab whose switches are apart
func hostNamespace(lab string, host int) string { return prefix(lab) + "r" + strconv.Itoa(host) }

// makeNamespace makes a named namespace with its loopback up.
func makeNamespace(name string) error {
	err := namespace.Inside("", func() error {
		ns, err := netns.NewNamed(name) // enters it
		if err != nil {
			return err
		}
		defer ns.Close()
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return fmt.Errorf("lo: %w", err)
		}
		return netlink.LinkSetUp(lo)
	})
	if err != nil {
		return fmt.Errorf("make namespace %s: %w", name, err)
	}
	return nil
}

// portName is the interface of a switch's port.
func portName(sw, port int) string { return fmt.Sprintf("s%dp%d", sw, port) }

// outlet makes a veth from a port in the switches' namespace to an interface in that of the wires, whose name it returns.
func outlet(port string, mtu int, switches, wires string) (string, error) {
	to, err := netns.GetFromName(wires)
	if err != nil {
		return "", fmt.Errorf("namespace %s: %w", wires, err)
	}
	defer to.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = port, mtu
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: port + "w", PeerMTU: uint32(mtu), PeerNamespace: netlink.NsFd(to)}
	if err := namespace.Inside(switches, func() error { return netlink.LinkAdd(veth) }); err != nil {
		return "", fmt.Errorf("make veth %s to %s in %s: %w", port, veth.PeerName, wires, err)
	}
	for at, name := range map[string]string{switches: port, wires: veth.PeerName} {
		if err := namespace.Inside(at, func() error { return mute(name) }); err != nil {
			return "", err
		}
	}
	return veth.PeerName, nil
}

// mute sets an interface up of which the kernel says nothing: it has no address, and needs none.
func mute(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := errors.Join(sysctl("net.ipv6.conf."+name+".disable_ipv6", "1"), plain(name)); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("%s up: %w", name, err)
	}
	return nil
}

// sysctl writes a setting of the namespace that the thread is in.
func sysctl(name, value string) error {
	path := "/proc/sys/" + strings.ReplaceAll(name, ".", "/")
	if err := os.WriteFile(path, []byte(value), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("sysctl %s: %w", name, err)
	}
	return nil
}

// cable is a veth between a switch's port and a host.
type cable struct {
	port     string // interface name at the switch
	host     string // namespace
	mac      net.HardwareAddr
	addr     *net.IPNet
	peers    []net.IP // all that the host may talk to, on the link
	mtu      int
	switches string // namespace
}

// hostInterface is the host's end of its cable.
const hostInterface = "eth0"

// plug makes the veth and sets up both of its ends.
func (c *cable) plug() error {
	v6 := c.addr.IP.To4() == nil
	quiet := func(name string) error { // the kernel says nothing of its own, so that frame n is always the same
		if v6 {
			return errors.Join(sysctl("net.ipv6.conf."+name+".accept_dad", "0"), sysctl("net.ipv6.conf."+name+".accept_ra", "0"),
				sysctl("net.ipv6.conf."+name+".router_solicitations", "0"))
		}
		return sysctl("net.ipv6.conf."+name+".disable_ipv6", "1")
	}
	peer, err := netns.GetFromName(c.host)
	if err != nil {
		return fmt.Errorf("namespace %s: %w", c.host, err)
	}
	defer peer.Close()
	err = namespace.Inside(c.switches, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = c.port, c.mtu
		veth := &netlink.Veth{LinkAttrs: attrs, PeerName: hostInterface, PeerHardwareAddr: c.mac, PeerMTU: uint32(c.mtu), PeerNamespace: netlink.NsFd(peer)}
		if err := netlink.LinkAdd(veth); err != nil {
			return fmt.Errorf("make veth %s to %s in %s: %w", c.port, hostInterface, c.host, err)
		}
		return mute(c.port)
	})
	if err != nil {
		return err
	}
	return namespace.Inside(c.host, func() error {
		link, err := netlink.LinkByName(hostInterface)
		if err != nil {
			return fmt.Errorf("%s: %w", hostInterface, err)
		}
		if err := errors.Join(quiet(hostInterface), plain(hostInterface)); err != nil {
			return err
		}
		if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: c.addr}); err != nil {
			return fmt.Errorf("address %v: %w", c.addr, err)
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("%s up: %w", hostInterface, err)
		}
		for _, ip := range c.peers {
			bits := 8 * len(c.addr.Mask)
			to := &net.IPNet{IP: ip, Mask: net.CIDRMask(bits, bits)}
			if err := netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK, Dst: to}); err != nil {
				return fmt.Errorf("route to %v: %w", to, err)
			}
		}
		return nil
	})
}

// plain lets an interface send what goes on a cable: packets not longer than the MTU, with their checksums.
func plain(name string) error {
	e, err := ethtool.NewEthtool()
	if err != nil {
		return fmt.Errorf("ethtool: %w", err)
	}
	defer e.Close()
	off := map[string]bool{}
	features, err := e.Features(name)
	if err != nil {
		return fmt.Errorf("features of %s: %w", name, err)
	}
	for _, f := range []string{"tx-checksum-ip-generic", "tx-generic-segmentation", "tx-tcp-segmentation", "tx-tcp6-segmentation", "rx-gro"} {
		if features[f] {
			off[f] = false
		}
	}
	if err := e.Change(name, off); err != nil {
		return fmt.Errorf("features of %s: %w", name, err)
	}
	return nil
}

// silence holds RoCE's UDP port in a namespace and takes nothing from it, so that the kernel does not answer each
// frame with port unreachable. The file keeps it.
func silence(ns string, v6 bool) (*os.File, error) {
	var f *os.File
	err := namespace.Inside(ns, func() error {
		family, address := unix.AF_INET, unix.Sockaddr(&unix.SockaddrInet4{Port: spec.RoCEUDPPort})
		if v6 {
			family, address = unix.AF_INET6, &unix.SockaddrInet6{Port: spec.RoCEUDPPort}
		}
		fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return os.NewSyscallError("socket", err)
		}
		f = os.NewFile(uintptr(fd), "roce")
		program, err := bpf.Assemble([]bpf.Instruction{bpf.RetConstant{Val: 0}})
		if err != nil {
			return err
		}
		filter := make([]unix.SockFilter, len(program))
		for i, op := range program {
			filter[i] = unix.SockFilter{Code: op.Op, Jt: op.Jt, Jf: op.Jf, K: op.K}
		}
		if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}); err != nil {
			return os.NewSyscallError("SO_ATTACH_FILTER", err)
		}
		return os.NewSyscallError("bind", unix.Bind(fd, address))
	})
	if err != nil {
		if f != nil {
			f.Close()
		}
		return nil, fmt.Errorf("UDP port %d in %s: %w", spec.RoCEUDPPort, ns, err)
	}
	return f, nil
}

// left lists the namespaces that a lab of the name has, or left.
func left(lab string) ([]string, error) {
	entries, err := os.ReadDir(netnsFolder)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("namespaces: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix(lab)) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// clean ends the processes in the namespaces of a lab and removes the namespaces, and so the veths. It returns what
// there was.
func clean(lab string) ([]string, error) {
	names, err := left(lab)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	var errs []error
	errs = append(errs, endProcesses(names))
	for _, name := range names {
		// One whose process ended while it was made is a file that is no mount.
		if err := netns.DeleteNamed(name); err != nil {
			if err := os.Remove(filepath.Join(netnsFolder, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				errs = append(errs, fmt.Errorf("remove namespace %s: %w", name, err))
			}
		}
	}
	return names, errors.Join(errs...)
}

// patience is how long processes have to end after SIGTERM.
const patience = 3 * time.Second

// endProcesses ends what runs in namespaces, this process apart.
func endProcesses(namespaces []string) error {
	in := map[string]bool{}
	for _, name := range namespaces {
		var st unix.Stat_t
		if unix.Stat(filepath.Join(netnsFolder, name), &st) == nil {
			in[fmt.Sprintf("net:[%d]", st.Ino)] = true
		}
	}
	find := func() []int {
		var pids []int
		entries, err := os.ReadDir("/proc")
		if err != nil {
			return nil
		}
		for _, e := range entries {
			pid, err := strconv.Atoi(e.Name())
			if err != nil || pid == os.Getpid() {
				continue
			}
			if ns, err := os.Readlink(filepath.Join("/proc", e.Name(), "ns/net")); err == nil && in[ns] {
				pids = append(pids, pid)
			}
		}
		return pids
	}
	pids := find()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		for _, pid := range pids {
			_ = syscall.Kill(pid, sig) // it may have ended
		}
		for end := time.Now().Add(patience); len(pids) > 0 && time.Now().Before(end); pids = find() {
			time.Sleep(20 * time.Millisecond)
		}
	}
	if len(pids) > 0 {
		return fmt.Errorf("processes %v of namespaces %v do not end", pids, namespaces)
	}
	return nil
}

// missing says which capabilities the process lacks for a lab.
func missing() ([]string, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return nil, fmt.Errorf("capabilities: %w", err)
	}
	var lack []string
	for _, c := range []struct {
		bit  int
		name string
	}{{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN"}, {unix.CAP_NET_RAW, "CAP_NET_RAW"}, {unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"}} {
		if data[c.bit/32].Effective>>(c.bit%32)&1 == 0 {
			lack = append(lack, c.name)
		}
	}
	slices.Sort(lack)
	return lack, nil
}

// Permitted returns nil if the process may make a lab, or says what it lacks.
func Permitted() error {
	lack, err := missing()
	if err != nil || len(lack) == 0 {
		return err
	}
	return fmt.Errorf("lab: it makes network namespaces, veths and raw sockets, and needs %s for that: run it as root", strings.Join(lack, ", "))
}
