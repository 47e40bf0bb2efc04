// Package job is one rank of a job from end to end: its link, its rendezvous, its communicator, and one collective from
// file to file.
package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/epic-inc/epic/driver/coll"
	"github.com/epic-inc/epic/driver/control/rendezvous"
	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/device/datagram"
	"github.com/epic-inc/epic/driver/device/raw"
	"github.com/epic-inc/epic/driver/rank"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/reduce"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// Options of Run.
type Options struct {
	Link        string // as OpenLink takes it
	Group       string // group.yaml, or
	Control     string // host:port of the control plane
	Name        string // of the job, the same at every rank
	Rank, Ranks int    // Ranks 0: as the file has it
	// MAC and IP of the rank, if there is no file; of a raw link without a namespace they may be empty: the interface's.
	MAC, IP      string
	Switch       string // where the rank hangs, if the control plane does not know its IP: switch, and
	Port         int    // its port
	Mode         int    // of the protocol that the control plane is asked for; 0: any
	Reproducible bool   // sums in the order of ranks; of the control plane

	Collective tree.Collective
	Root       int
	DType      spec.DType
	Op         spec.Op
	In         string // file; a vector, as coll.Call has it
	Out        string // file for the result; may be In. Empty: the result is not written
	Bytes      int    // of the whole vector, where no file says: Broadcast beside the root, AllGather of unequal parts

	Algorithm coll.Algorithm
	Patience  time.Duration // 0: coll.DefaultPatience
	Notice    func(string)
}

// Report is what was done.
type Report struct {
	Collective string  `json:"collective"`
	Root       *int    `json:"root,omitempty"`
	DType      string  `json:"dtype,omitempty"`
	Op         string  `json:"op,omitempty"`
	Rank       int     `json:"rank"`
	Ranks      int     `json:"ranks"`
	Bytes      int     `json:"bytes"`   // of the whole vector
	Seconds    float64 `json:"seconds"` // of the collective, without joining
	By         string  `json:"by"`      // network, or ring with the reason after a colon
	Out        string  `json:"out,omitempty"`
	OutBytes   int     `json:"out_bytes"`
}

// WriteText prints the report for people.
func (r *Report) WriteText(w io.Writer) error {
	what := r.Collective
	if r.Bytes > 0 {
		what += fmt.Sprintf(" of %d bytes", r.Bytes)
	}
	if r.DType != "" {
		what += " of " + r.DType
	}
	if r.Op != "" {
		what += ", " + r.Op
	}
	if r.Root != nil {
		what += fmt.Sprintf(", root %d", *r.Root)
	}
	_, err := fmt.Fprintf(w, "rank %d of %d: %s, by %s, in %.6f s\n", r.Rank, r.Ranks, what, r.By, r.Seconds)
	if err == nil && r.Out != "" {
		_, err = fmt.Fprintf(w, "written: %s, %d bytes\n", r.Out, r.OutBytes)
	}
	return err
}

// Run joins, does the collective, writes the result and leaves. A *coll.Failure is another rank's or the network's
// fault; context.Canceled that of who stopped it.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	where, err := o.place()
	if err != nil {
		return nil, err
	}
	call, err := o.call(where.ranks)
	if err != nil {
		return nil, err
	}
	link, err := OpenLink(o.Link)
	if err != nil {
		return nil, fmt.Errorf("link: %w", err)
	}
	endpoint, err := rank.New(rank.Options{Name: strconv.Itoa(o.Rank), Link: link, MAC: where.mac, IP: where.ip})
	if err != nil {
		return nil, errors.Join(err, link.Close())
	}
	meeting, done, err := where.rendezvous()
	if err != nil {
		return nil, errors.Join(err, endpoint.Close())
	}
	defer func() { err = errors.Join(err, done()) }()
	by := "network"
	if o.Algorithm == coll.Ring {
		by = "ring: asked for"
	}
	c, err := coll.New(ctx, coll.Options{Endpoint: endpoint, Rendezvous: meeting, Job: o.Name, Rank: o.Rank, Ranks: where.ranks,
		Algorithm: o.Algorithm, Patience: o.Patience, Notice: func(s string) {
			by = "ring: " + s
			if o.Notice != nil {
				o.Notice(s)
			}
		}})
	if err != nil {
		return nil, errors.Join(err, endpoint.Close())
	}
	start := time.Now()
	err = c.Do(ctx, *call)
	seconds := time.Since(start).Seconds()
	report = o.report(call, where.ranks, seconds, by)
	if err == nil && o.Out != "" && report.OutBytes >= 0 {
		err = write(o.Out, call.Out)
	}
	// A rank that leaves in a hurry leaves others without answers. After Ctrl-C it does not stay for long.
	stay := leave
	if ctx.Err() != nil {
		stay = leaveInterrupted
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stay)
	defer cancel()
	if closed := c.Close(last); err == nil {
		err = closed
	}
	if err != nil {
		return nil, err
	}
	return report, nil
}

// How long a rank stays at most to answer others, and to tell the control plane.
const (
	leave            = 10 * time.Second
	leaveInterrupted = time.Second
)

// place is who the rank is, and where it meets the others.
type place struct {
	ranks      int
	mac        roce.MAC
	ip         netip.Addr
	rendezvous func() (coll.Rendezvous, func() error, error)
}

func nothing() error { return nil }

func (o *Options) place() (*place, error) {
	switch {
	case (o.Group == "") == (o.Control == ""):
		return nil, errors.New("got group file and control plane both or neither, want one of --group FILE and --control HOST:PORT")
	case o.Group != "":
		if o.MAC != "" || o.IP != "" || o.Switch != "" || o.Mode != 0 || o.Reproducible {
			return nil, errors.New("--mac, --ip, --switch, --mode and --reproducible are for the control plane: the group file says them")
		}
		g, err := group.Load(o.Group)
		if err != nil {
			return nil, err
		}
		s, err := coll.NewStatic(g, o.Rank)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Group, err)
		}
		if o.Ranks != 0 && o.Ranks != s.Ranks() {
			return nil, fmt.Errorf("%s: ranks: got %d, want %d as the file has them", o.Group, o.Ranks, s.Ranks())
		}
		p := &place{ranks: s.Ranks(), rendezvous: func() (coll.Rendezvous, func() error, error) { return s, nothing, nil }}
		p.mac, p.ip = s.Address()
		return p, nil
	}
	if o.Rank < 0 || o.Rank >= o.Ranks || o.Ranks < tree.MinRanks {
		return nil, fmt.Errorf("rank: got %d of %d ranks, want --rank 0..R-1 and --ranks R, at least %d", o.Rank, o.Ranks, tree.MinRanks)
	}
	if o.Name == "" {
		return nil, errors.New("job: got no name, want --job NAME, the same at every rank: the control plane knows jobs by it")
	}
	p := &place{ranks: o.Ranks}
	if err := o.address(p); err != nil {
		return nil, err
	}
	p.rendezvous = func() (coll.Rendezvous, func() error, error) {
		c, err := rendezvous.Dial(rendezvous.Options{Addr: o.Control, Switch: o.Switch, Port: o.Port, Mode: o.Mode, Reproducible: o.Reproducible})
		if err != nil {
			return nil, nil, err
		}
		return c, c.Close, nil
	}
	return p, nil
}

// address reads MAC and IP, or takes the interface's.
func (o *Options) address(p *place) error {
	name, ok := strings.CutPrefix(o.Link, "raw:")
	ok = ok && !strings.Contains(name, "@")
	if (o.MAC == "" || o.IP == "") && !ok {
		return fmt.Errorf("got MAC %q and IP %q, want --mac and --ip: only a link raw:INTERFACE without a namespace has its own", o.MAC, o.IP)
	}
	if o.MAC != "" {
		hw, err := net.ParseMAC(o.MAC)
		if err != nil || len(hw) != len(p.mac) {
			return fmt.Errorf("--mac: got %q, want six bytes as 52:54:00:00:00:01", o.MAC)
		}
		p.mac = roce.MAC(hw)
	}
	if o.IP != "" {
		ip, err := netip.ParseAddr(o.IP)
		if err != nil || ip.Zone() != "" {
			return fmt.Errorf("--ip: got %q, want an address as 10.9.0.1 or fd00::1", o.IP)
		}
		p.ip = ip.Unmap()
	}
	if o.MAC != "" && o.IP != "" {
		return nil
	}
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return fmt.Errorf("link: interface %q: %w (ip link lists them)", name, err)
	}
	if o.MAC == "" {
		if len(ifi.HardwareAddr) != len(p.mac) {
			return fmt.Errorf("link: interface %q has no Ethernet address, want --mac", name)
		}
		p.mac = roce.MAC(ifi.HardwareAddr)
	}
	if o.IP != "" {
		return nil
	}
	all, err := ifi.Addrs()
	if err != nil {
		return fmt.Errorf("link: interface %q: %w", name, err)
	}
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && !prefix.Addr().IsLinkLocalUnicast() {
			p.ip = prefix.Addr().Unmap()
			return nil
		}
	}
	return fmt.Errorf("link: interface %q has no IP address, want --ip", name)
}

// call reads the input and makes room for the result.
func (o *Options) call(ranks int) (*coll.Call, error) {
	c := &coll.Call{Collective: o.Collective, Root: o.Root, DType: o.DType, Op: o.Op}
	element, err := reduce.ElementBytes(o.DType)
	if err != nil {
		return nil, err
	}
	gives := o.Collective != tree.Barrier && (o.Collective != tree.Broadcast || o.Rank == o.Root)
	switch {
	case o.Root < 0 || o.Root >= ranks:
		return nil, fmt.Errorf("--root: got %d, want 0..%d", o.Root, ranks-1)
	case gives && o.In == "":
		return nil, fmt.Errorf("%v: got no vector of rank %d, want --in FILE", o.Collective, o.Rank)
	case !gives && o.In != "":
		return nil, fmt.Errorf("%v: got --in %s at rank %d, want none: it gives nothing", o.Collective, o.In, o.Rank)
	case gives:
		in, err := os.ReadFile(o.In)
		if err != nil {
			return nil, fmt.Errorf("--in: %w", err)
		}
		c.In = in
	}
	if err := writable(o.Out); err != nil {
		return nil, err
	}
	switch o.Collective {
	case tree.AllReduce:
		c.Out = c.In
	case tree.Reduce:
		if o.Rank == o.Root {
			c.Out = c.In
		}
	case tree.Broadcast:
		if c.Out = c.In; !gives {
			if o.Bytes < 1 {
				return nil, fmt.Errorf("broadcast: got no size at rank %d, want --bytes N: how many come from the root", o.Rank)
			}
			c.Out = make([]byte, o.Bytes)
		}
	case tree.ReduceScatter:
		from, to := coll.Part(len(c.In), element, o.Rank, ranks)
		c.Out = c.In[from:to]
	case tree.AllGather:
		n := o.Bytes
		if n == 0 {
			n = ranks * len(c.In)
		}
		c.Out = make([]byte, n)
		if from, to := coll.Part(n, element, o.Rank, ranks); to-from != len(c.In) {
			return nil, fmt.Errorf("allgather: got %d bytes in %s, want %d: rank %d's part of %d bytes", len(c.In), o.In, to-from, o.Rank, n)
		}
	}
	return c, c.Check(o.Rank, ranks)
}

func (o *Options) report(c *coll.Call, ranks int, seconds float64, by string) *Report {
	r := &Report{Collective: c.Collective.String(), Rank: o.Rank, Ranks: ranks, Bytes: c.Bytes(o.Rank), Seconds: seconds, By: by, Out: o.Out, OutBytes: len(c.Out)}
	if c.Collective.HasRoot() {
		r.Root = &c.Root
	}
	switch c.Collective {
	case tree.AllReduce, tree.Reduce, tree.ReduceScatter:
		r.DType, r.Op = c.DType.String(), c.Op.String()
	case tree.AllGather:
		r.DType = c.DType.String()
	}
	if c.Collective == tree.Barrier || c.Collective == tree.Reduce && o.Rank != o.Root {
		r.Out, r.OutBytes = "", -1
	}
	return r
}

// writable sees that a result can be written before the work is done for nothing.
func writable(name string) error {
	if name == "" {
		return nil
	}
	dir := filepath.Dir(name)
	if s, err := os.Stat(dir); err != nil || !s.IsDir() {
		return fmt.Errorf("--out: %s: there is no directory %s", name, dir)
	}
	if s, err := os.Stat(name); err == nil && s.IsDir() {
		return fmt.Errorf("--out: %s is a directory, want a file", name)
	}
	return nil
}

// write puts the whole result into place at once, or leaves what was there.
func write(name string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".part-")
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("--out: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// OpenLink opens a link by its name: raw:INTERFACE, raw:INTERFACE@NAMESPACE, or datagram:LOCAL,REMOTE with two UDP
// addresses.
func OpenLink(name string) (device.Link, error) {
	kind, rest, _ := strings.Cut(name, ":")
	switch kind {
	case "raw":
		iface, namespace, _ := strings.Cut(rest, "@")
		if iface == "" {
			break
		}
		return raw.Open(raw.Options{Interface: iface, Namespace: namespace})
	case "datagram":
		local, remote, ok := strings.Cut(rest, ",")
		a, errA := netip.ParseAddrPort(local)
		b, errB := netip.ParseAddrPort(remote)
		if !ok || errA != nil || errB != nil {
			break
		}
		return datagram.Open(datagram.Options{Local: a, Remote: b})
	}
	return nil, fmt.Errorf("got %q, want raw:INTERFACE, raw:INTERFACE@NAMESPACE or datagram:127.0.0.1:5000,127.0.0.1:5001", name)
}
