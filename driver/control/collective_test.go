package control_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/driver/coll"
	"github.com/epic-inc/epic/driver/control"
	"github.com/epic-inc/epic/driver/control/rendezvous"
	"github.com/epic-inc/epic/driver/control/target"
	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/rank"
	"github.com/epic-inc/epic/driver/softswitch"
	"github.com/epic-inc/epic/golden/spec"
)

// wires joins the golden engine's switches of the network, each programmed over TCP as in another process, and gives
// the hosts' ends of the links: 0 to 3 at leaf0, 4 to 7 at leaf1.
func wires(t *testing.T, o *control.Options) func(host int) device.Link {
	t.Helper()
	ports := map[string]map[int]device.Link{"root": {}, "leaf0": {}, "leaf1": {}}
	pair := func() (a, b device.Link) {
		a, b, err := device.Pair(1500)
		require.NoError(t, err)
		return a, b
	}
	for _, c := range o.Network.Cables {
		ports[c.Between[0]][c.Ports[0]], ports[c.Between[1]][c.Ports[1]] = pair()
	}
	hosts := make([]device.Link, len(o.Network.Hosts))
	plug := func(host int) device.Link {
		at := o.Network.Hosts[host]
		ports[at.Switch][at.Port], hosts[host] = pair()
		return hosts[host]
	}
	for h := range hosts {
		plug(h)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	for i := range o.Network.Switches {
		s, err := softswitch.New(softswitch.Options{Name: o.Network.Switches[i].Name, Ports: ports[o.Network.Switches[i].Name]})
		require.NoError(t, err)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		o.Network.Switches[i].At = l.Addr().String()
		running.Go(func() { _ = target.Serve(ctx, l, s.Target(1, 2, 3)) })
		running.Go(func() { _ = s.Run(ctx) }) // the links of its hosts close before it
	}
	o.Switches = nil
	return func(host int) device.Link { return hosts[host] }
}

// Collectives of real ranks over real switches, in every mode: joined, connected and given back by the control plane.
func TestCollectives(t *testing.T) {
	for _, mode := range []int{1, 2, 3} {
		t.Run(fmt.Sprintf("mode %d", mode), func(t *testing.T) {
			var link func(int) device.Link
			p := newPlane(t, func(o *control.Options) {
				o.Lease, o.Wait, o.SwitchTimeout = 20*time.Second, 20*time.Second, 20*time.Second // the machine may be busy
				link = wires(t, o)
			})
			p.switches = nil
			ctx := soon(t)
			hosts := []int{0, 1, 4, 5}
			errs := make([]error, len(hosts))
			var all sync.WaitGroup
			for r, host := range hosts {
				k := p.rank("train", host, 8, func(o *rendezvous.Options) { o.Mode = mode })
				all.Go(func() { errs[r] = collectives(ctx, k, link(host), r, len(hosts)) })
			}
			all.Wait()
			for r, err := range errs {
				assert.NoError(t, err, r)
			}
			p.given()
		})
	}
}

func collectives(ctx context.Context, k *client, link device.Link, r, ranks int) error {
	e, err := rank.New(rank.Options{Name: fmt.Sprint("rank ", r), Link: link, MAC: k.member.MAC, IP: k.member.IP})
	if err != nil {
		return err
	}
	var notice string
	c, err := coll.New(ctx, coll.Options{Endpoint: e, Rendezvous: k.Client, Job: "train", Rank: r, Ranks: ranks, Notice: func(s string) { notice = s }})
	if err != nil {
		return err
	}
	const elements = 5000
	in, out := make([]byte, 4*elements), make([]byte, 4*elements)
	for i := range elements {
		binary.LittleEndian.PutUint32(in[4*i:], uint32(i*(r+1)))
	}
	check := func(what string, factor int) error {
		for i := range elements {
			if got := binary.LittleEndian.Uint32(out[4*i:]); got != uint32(i*factor) {
				return fmt.Errorf("%s: element %d: got %d, want %d", what, i, got, i*factor)
			}
		}
		return nil
	}
	if err := c.AllReduce(ctx, in, out, spec.DTypeInt32, spec.OpSum); err != nil {
		return err
	}
	if err := check("allreduce", 1+2+3+4); err != nil {
		return err
	}
	copy(out, in)
	if err := c.Broadcast(ctx, out, 2); err != nil {
		return err
	}
	if err := check("broadcast", 3); err != nil {
		return err
	}
	if err := c.Barrier(ctx); err != nil {
		return err
	}
	if notice != "" {
		return fmt.Errorf("done without the network: %s", notice)
	}
	return c.Close(ctx)
}
