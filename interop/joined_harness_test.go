package interop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/epic-inc/epic/driver/coll"
	"github.com/epic-inc/epic/driver/control"
	"github.com/epic-inc/epic/driver/control/proxy"
	"github.com/epic-inc/epic/driver/control/rendezvous"
	"github.com/epic-inc/epic/driver/control/target"
	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/rank"
	"github.com/epic-inc/epic/driver/softswitch"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/interop/guest"
)

// joinedNetwork is the network of guests that join a control plane: a root with two leaves, and at each leaf a guest
// at port 0 and a rank of driver/coll at port 1. Ranks 0 and 1 are the guests. The ranks' timeouts are long: a guest may be
// ready seconds after another, and in Mode-II the ranks themselves send again until all are.
const joinedNetwork = `
version: 1
window_packets: 16
message_packets: 4
timeout_code: 18
switches:
  - {name: root, mac: "52:54:00:01:00:01", ip: 10.10.0.1, ip6: "fd00::a:1"}
  - {name: leaf0, mac: "52:54:00:01:00:02", ip: 10.10.0.2, ip6: "fd00::a:2"}
  - {name: leaf1, mac: "52:54:00:01:00:03", ip: 10.10.0.3, ip6: "fd00::a:3"}
cables:
  - {between: [root, leaf0], ports: [0, 8]}
  - {between: [root, leaf1], ports: [1, 8]}
hosts:
  - {ip: 10.9.0.1, switch: leaf0, port: 0}
  - {ip: 10.9.0.2, switch: leaf1, port: 0}
  - {ip: 10.9.0.3, switch: leaf0, port: 1}
  - {ip: 10.9.0.4, switch: leaf1, port: 1}
  - {ip: "fd00::9:1", switch: leaf0, port: 0}
  - {ip: "fd00::9:2", switch: leaf1, port: 0}
  - {ip: "fd00::9:3", switch: leaf0, port: 1}
  - {ip: "fd00::9:4", switch: leaf1, port: 1}
`

// The ranks of the network.
const (
	joinedGuests = 2
	joinedRanks  = 4
)

// joined is that network while it runs: switches of driver/softswitch, which a control plane programs.
type joined struct {
	l     *Lab
	at    string        // of the control plane
	nics  []*nic        // of the guests
	links []device.Link // of the other ranks
	stop  context.CancelFunc
	all   sync.WaitGroup
	store *control.Store
	errs  chan error // of what runs
}

// startJoined starts it, with its state in a folder. Its guests lose frames.
func (l *Lab) startJoined(folder string, seed uint64, loss float64, lease time.Duration, log *slog.Logger) (_ *joined, err error) {
	network, err := control.ParseNetwork("network of the guests", []byte(joinedNetwork))
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	j := &joined{l: l, stop: stop, errs: make(chan error, len(network.Switches)+1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, j.end())
		}
	}()
	ports := map[string]map[int]device.Link{}
	for _, s := range network.Switches {
		ports[s.Name] = map[int]device.Link{}
	}
	for _, c := range network.Cables {
		a, b, err := device.Pair(guest.MTU)
		if err != nil {
			return j, err
		}
		ports[c.Between[0]][c.Ports[0]], ports[c.Between[1]][c.Ports[1]] = a, b
	}
	for r, h := range network.Hosts[:joinedRanks] {
		if r < joinedGuests {
			j.nics = append(j.nics, newNIC(l.guests[r], seed+uint64(r), loss))
			ports[h.Switch][h.Port] = j.nics[r]
			continue
		}
		a, b, err := device.Pair(guest.MTU)
		if err != nil {
			return j, err
		}
		ports[h.Switch][h.Port] = a
		j.links = append(j.links, b)
	}
	j.all.Go(func() { j.hand(ctx) })
	o := control.Options{Network: network, Switches: map[string]target.Switch{}, Lease: lease, Wait: joinedWait, SwitchTimeout: joinedWait, Log: log}
	for name, p := range ports {
		s, err := softswitch.New(softswitch.Options{Name: name, Ports: p})
		if err != nil {
			return j, err
		}
		o.Switches[name] = s.Target(1, 2, 3)
		j.all.Go(func() { j.errs <- s.Run(ctx) })
	}
	if j.store, err = control.OpenStore(filepath.Join(folder, "control.db")); err != nil {
		return j, err
	}
	o.Store = j.store
	server, err := control.Open(o)
	if err != nil {
		return j, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return j, err
	}
	j.at = listener.Addr().String()
	j.all.Go(func() { j.errs <- server.Serve(ctx, listener) })
	return j, nil
}

// joinedWait is how long ranks wait for each other: guests on a busy machine begin seconds apart.
const joinedWait = 60 * time.Second

// hand hands the frames of the guests to their links.
func (j *joined) hand(ctx context.Context) {
	for {
		select {
		case a := <-j.l.frames:
			if a.err == nil && a.guest < len(j.nics) {
				j.nics[a.guest].take(a.frame)
			}
		case <-ctx.Done():
			return
		}
	}
}

// end ends it; nothing of it runs any more.
func (j *joined) end() error {
	j.stop()
	j.all.Wait()
	close(j.errs)
	var errs []error
	for err := range j.errs {
		errs = append(errs, err)
	}
	if j.store != nil {
		errs = append(errs, j.store.Close())
	}
	return errors.Join(errs...)
}

// wish is what the ranks of a job ask of the control plane.
type wish struct {
	job          string
	mode, mtu    int
	reproducible bool
	ip6          bool
}

func (w wish) dial(at string) (*rendezvous.Client, error) {
	return rendezvous.Dial(rendezvous.Options{Addr: at, Wait: joinedWait, Mode: w.mode, MTU: w.mtu, Reproducible: w.reproducible})
}

// host is rank r's entry of the network.
func (w wish) host(l *Lab, r int) (roce.MAC, group.IP) {
	mac, v4, v6 := addresses(r)
	if w.ip6 {
		return mac, group.IP{Addr: v6}
	}
	return mac, group.IP{Addr: v4}
}

// joiner is a guest's rank: its program, and the proxy that joins for it.
type joiner struct {
	job    *guest.Job
	client *rendezvous.Client
	ended  chan error // the proxy's
	die    context.CancelCauseFunc
}

// join starts epic_rank in guest r, with its vectors, and joins for it.
func (j *joined) join(ctx context.Context, w wish, r int, steps string, in [][]byte) (*joiner, error) {
	subgroups, err := proxy.ParseSubgroups(steps)
	if err != nil {
		return nil, err
	}
	mac, ip := w.host(j.l, r)
	k := &joiner{ended: make(chan error, 1)}
	k.job, err = j.l.guests[r].Start(func(g *guest.Job) (string, error) {
		for i, v := range in {
			if v == nil {
				continue
			}
			if err := os.WriteFile(filepath.Join(g.Folder(), fmt.Sprintf("in.%d", i)), v, 0o644); err != nil {
				return "", err
			}
		}
		// What a run before has set for the switches' addresses is not to help here: they answer for themselves.
		return fmt.Sprintf("/usr/bin/ip neigh flush dev eth0 nud permanent\nexec epic_rank --dir %s --ip %v --rank %d --ranks %d --steps %s --give-up %d\n",
			g.Inside(), ip, r, joinedRanks, steps, guestGiveUp), nil
	})
	if err != nil {
		return nil, err
	}
	if k.client, err = w.dial(j.at); err != nil {
		return nil, err
	}
	ctx, k.die = context.WithCancelCause(ctx)
	go func() {
		select {
		case <-k.job.Over():
			k.die(errors.New("its program has ended"))
		case <-ctx.Done():
		}
	}()
	go func() {
		err := proxy.Run(ctx, proxy.Options{Folder: proxy.Folder(k.job.Folder()), Job: w.job, Rank: r, Ranks: joinedRanks, MAC: mac, IP: ip.Addr,
			LinkMTU: guest.MTU, Subgroups: subgroups, Rendezvous: k.client})
		k.ended <- errors.Join(err, k.client.Close())
	}()
	return k, nil
}

// wait waits for the guest's program and its proxy, and returns what the program has printed.
func (k *joiner) wait(ctx context.Context) (guest.Result, error) {
	var told error
	select {
	case told = <-k.ended:
	case <-ctx.Done():
		return guest.Result{}, context.Cause(ctx)
	}
	r, err := k.job.Wait(ctx)
	if err == nil && r.Status != 0 {
		err = fmt.Errorf("%w: exit status %d: %s", ErrRank, r.Status, strings.TrimSpace(r.Stderr))
	}
	k.die(nil)
	return r, errors.Join(told, err)
}

// communicator is a rank of driver/coll in the same job.
func (j *joined) communicator(ctx context.Context, w wish, r int) (*coll.Comm, *rendezvous.Client, error) {
	mac, ip := w.host(j.l, r)
	client, err := w.dial(j.at)
	if err != nil {
		return nil, nil, err
	}
	e, err := rank.New(rank.Options{Name: fmt.Sprint("rank ", r), Link: j.links[r-joinedGuests], MAC: mac, IP: ip.Addr})
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	c, err := coll.New(ctx, coll.Options{Endpoint: e, Rendezvous: client, Job: w.job, Rank: r, Ranks: joinedRanks, Algorithm: coll.Network})
	if err != nil {
		return nil, nil, errors.Join(err, e.Close(), client.Close())
	}
	return c, client, nil
}
