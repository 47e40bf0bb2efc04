// Package interop holds the engines against hosts that are not ours: guests with the RoCE stack of Linux
// (interop/guest) as ranks, each a program that uses libibverbs (interop/client), through the golden engine or the
// Verilated one, over a wire that loses, repeats and reorders frames, alone and beside golden hosts.
package interop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/epic-inc/epic/driver/control/proxy"
	"github.com/epic-inc/epic/golden/fabric"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
	"github.com/epic-inc/epic/interop/guest"
)

// ErrWrong means that ranks have not what they must have, or an engine is not what golden says.
var ErrWrong = errors.New("a wrong result")

// Lab is guests that are booted, for one run after the other.
type Lab struct {
	Accel  guest.Accel
	Kernel string
	guests []*guest.Guest
	frames chan arrival
	stop   chan struct{}
}

// framesMost is how many frames of guests wait for a run; the guests' sockets hold a few more.
const framesMost = 4096

// Boot boots guests: rank k+1 of any case is guest k. accel is empty to use KVM if it works.
func Boot(ctx context.Context, image string, guests int, accel guest.Accel, progress io.Writer) (*Lab, error) {
	l := &Lab{Accel: accel, frames: make(chan arrival, framesMost), stop: make(chan struct{})}
	start := time.Now()
	if accel == "" {
		l.Accel = guest.TCG
		if why := l.tryKVM(ctx, image); why != nil {
			say(progress, "guests without KVM: %v", why)
		} else {
			l.Accel = guest.KVM
		}
	}
	for k := range guests {
		g, err := l.boot(image, k)
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l.guests = append(l.guests, g)
	}
	all, ctx := errgroup.WithContext(ctx)
	for _, g := range l.guests {
		all.Go(func() error { return g.Ready(ctx) })
	}
	if err := all.Wait(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	for k, g := range l.guests {
		go receiver(g, k, l.frames, l.stop)
	}
	l.Kernel = l.guests[0].Kernel()
	say(progress, "%d guests with Linux %s booted in %.0f s (%s)", guests, l.Kernel, time.Since(start).Seconds(), l.Accel)
	return l, nil
}

// tryKVM boots a guest with KVM as far as its first word: that /dev/kvm opens does not mean that it works.
func (l *Lab) tryKVM(ctx context.Context, image string) error {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_ = f.Close()
	l.Accel = guest.KVM
	g, err := l.boot(image, 0)
	l.Accel = guest.TCG
	if err != nil {
		return err
	}
	return errors.Join(g.Alive(ctx), g.Close())
}

func (l *Lab) boot(image string, k int) (*guest.Guest, error) {
	mac, v4, v6 := addresses(k)
	return guest.Boot(guest.Options{Image: image, Name: fmt.Sprint(k), MAC: mac, Accel: l.Accel,
		IPs: []netip.Prefix{netip.PrefixFrom(v4, networks[4]), netip.PrefixFrom(v6, networks[6])}})
}

// addresses are those of rank k: what group.Generate gives it, and addressIPv6.
func addresses(k int) (mac roce.MAC, v4, v6 netip.Addr) {
	return roce.MAC{0x52, 0x54, 0, 0, 0, byte(k + 1)}, netip.AddrFrom4([4]byte{10, 9, 0, byte(k + 1)}), netip.AddrFrom16([16]byte{0: 0xfd, 13: 9, 15: byte(k + 1)})
}

// Close ends the guests.
func (l *Lab) Close() error {
	close(l.stop)
	var all errgroup.Group
	for _, g := range l.guests {
		all.Go(g.Close)
	}
	return all.Wait()
}

// Result of one case. It is also a line of the results file.
type Result struct {
	Case
	Key     string  `json:"key"`
	Content string  `json:"content"` // hash of guest, simulator and this program
	Status  Status  `json:"status"`
	Reason  string  `json:"reason,omitempty"`
	Seed    uint64  `json:"seed"`
	Fates   Fates   `json:"fates"`
	Records uint64  `json:"records,omitempty"` // of the RTL, compared
	Clocks  uint64  `json:"clocks,omitempty"`
	Resends uint64  `json:"resends,omitempty"`
	WallS   float64 `json:"wall_s"`
	Reused  bool    `json:"reused,omitempty"`

	reports []string // of the guests
}

// world is what a case consists of once its guests have queue pairs.
type world struct {
	c       Case
	steps   []tree.Step
	vectors [][][]byte // step, rank
	group   *group.Group
	members []*member
	hosts   []*host.Rank // golden ranks, after the members
	program []host.Program
	first   [][]int
	result  *Result
	pace    *pace
	tape    *tape // nil: none
	looked  time.Time
	began   bool
	x       extra
}

// start starts the clients of the guests and lets them meet control.
func (l *Lab) start(ctx context.Context, c Case, seed uint64, x extra) (*world, error) {
	if c.Guests < 1 || c.Guests > len(l.guests) {
		return nil, fmt.Errorf("%s: got %d guests, want 1..%d", c.Key(), c.Guests, len(l.guests))
	}
	w := &world{c: c, x: x, result: &Result{Case: c, Key: c.Key(), Seed: seed}}
	var err error
	if w.steps, err = c.steps(); err != nil {
		return nil, err
	}
	for i, s := range w.steps {
		var v [][]byte
		if s.Collective == tree.Barrier {
			v = make([][]byte, c.ranks())
		} else {
			v = vectors(c.seed(seed)+uint64(i)<<32, c.ranks(), c.bytes(), c.Numbers)
		}
		w.vectors = append(w.vectors, v)
	}
	if w.group, err = c.group(); err != nil {
		return nil, err
	}
	qpns := map[int][]uint32{}
	for r := range c.Guests {
		m, err := newMember(l.guests[r], c, r, w.steps, w.inputs(r), w.group, x)
		if err != nil {
			return w, err
		}
		w.members = append(w.members, m)
	}
	for r, m := range w.members {
		if err := m.await(ctx, proxy.QPNs); err != nil {
			return w, err
		}
		if qpns[r], err = m.qpns(w.group); err != nil {
			return w, err
		}
	}
	if w.group, err = reached(w.group, qpns); err != nil {
		return w, err
	}
	for _, m := range w.members {
		if err := m.join(w.group); err != nil {
			return w, err
		}
	}
	for _, m := range w.members {
		if err := m.await(ctx, proxy.Ready); err != nil {
			return w, err
		}
	}
	return w, w.makeHosts()
}

// inputs are the vectors of a rank.
func (w *world) inputs(rank int) [][]byte {
	var list [][]byte
	for _, v := range w.vectors {
		list = append(list, v[rank])
	}
	return list
}

// makeHosts makes the golden ranks.
func (w *world) makeHosts() error {
	unpinned, flags, err := w.group.Control()
	if err != nil {
		return err
	}
	dtype := spec.DTypeFloat32
	if w.c.Numbers == Int32 {
		dtype = spec.DTypeInt32
	}
	for r := w.c.Guests; r < w.c.ranks(); r++ {
		p := host.Program{Rank: r, Ranks: w.c.ranks(), Steps: w.steps, Input: w.inputs(r), Op: spec.OpSum, DType: dtype, QP: w.group.SubgroupOf,
			Unpinned: unpinned, Flags: flags}
		cfg, err := w.group.RankConfig(r)
		if err != nil {
			return err
		}
		var first []int
		if cfg.Ops, first, err = p.Plan(); err != nil {
			return err
		}
		rank, err := host.NewRank(cfg)
		if err != nil {
			return err
		}
		w.hosts, w.program, w.first = append(w.hosts, rank), append(w.program, p), append(w.first, first)
	}
	return nil
}

// node makes the node of rank i: the set has one group, so its hosts are in the order of ranks.
func (w *world) node(l *Lab, i int) (fabric.Node, error) {
	if i < w.c.Guests {
		p := &port{g: l.guests[i]}
		if i == 0 {
			p.tape = w.tape
		}
		w.pace.ports = append(w.pace.ports, p)
		return p, nil
	}
	return fabric.NewHost(fabric.ScaleOf(w.group.Clock), 0, w.hosts[i-w.c.Guests])
}

// bind gives the pace its network.
func (w *world) bind(n *fabric.Network) {
	w.pace.net, w.pace.ids = n.Fabric, n.Hosts[:w.c.Guests]
	n.SetTap(w.result.Fates.see)
}

// begin lets the guests begin, now that the network runs.
func (w *world) begin() error {
	w.pace.zero = time.Now()
	for _, m := range w.members {
		if err := m.tell(proxy.Go, ""); err != nil {
			return err
		}
	}
	if w.x.begun != nil {
		return w.x.begun(w)
	}
	return nil
}

// lookEvery is how often the guests' files are looked at during a run.
const lookEvery = 10 * time.Millisecond

// done says that every rank has its results and every send of it is acknowledged.
func (w *world) done(ctx context.Context) (bool, error) {
	if !w.began {
		w.began = true
		return false, w.begin()
	}
	if time.Since(w.looked) < lookEvery {
		return false, nil
	}
	w.looked = time.Now()
	if err := w.pace.err(); err != nil {
		return false, err
	}
	all := true
	for _, m := range w.members {
		if m.folder().Has(proxy.Done) {
			continue
		}
		all = false
		if err := m.check(ctx); err != nil {
			return false, err
		}
	}
	for _, h := range w.hosts {
		if err := h.Err(); err != nil {
			return false, fmt.Errorf("%w: %w", ErrRank, err)
		}
		all = all && h.Done()
	}
	return all, nil
}

// finish lets the guests end and checks everything.
func (w *world) finish(ctx context.Context) error {
	results := make([][][]byte, len(w.steps)) // step, rank
	for _, m := range w.members {
		own, err := m.results(w.steps, w.inputs(m.rank))
		if err != nil {
			return err
		}
		for i := range w.steps {
			results[i] = append(results[i], own[i])
		}
	}
	for k, h := range w.hosts {
		for i := range w.steps {
			results[i] = append(results[i], w.program[k].Result(h, w.first[k], i))
		}
	}
	for _, m := range w.members {
		report, err := m.leave(ctx)
		w.result.reports = append(w.result.reports, report)
		if err != nil {
			return err
		}
	}
	for i, s := range w.steps {
		if err := check(s, w.c.Numbers, w.vectors[i], results[i]); err != nil {
			return fmt.Errorf("%w: %w", ErrWrong, err)
		}
	}
	return w.result.Fates.check(w.c.Wire)
}

// end removes what a run has left in the guests.
func (w *world) end() error {
	var errs []error
	for _, m := range w.members {
		if !m.job.Ended() {
			if err := m.job.Kill(); err != nil {
				errs = append(errs, err)
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			_, err := m.job.Wait(ctx)
			cancel()
			errs = append(errs, err)
		}
		errs = append(errs, m.job.Remove())
	}
	return errors.Join(errs...)
}

func say(w io.Writer, format string, args ...any) {
	if w != nil {
		fmt.Fprintf(w, format+"\n", args...)
	}
}
