// Package rendezvous is a rank's side of the control plane: coll.Rendezvous over gRPC.
package rendezvous

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/epic-inc/epic/driver/coll"
	"github.com/epic-inc/epic/driver/control/controlpb"
	"github.com/epic-inc/epic/driver/control/failure"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// Options of a Client. What is zero is left to the other ranks and to the network's file.
type Options struct {
	Addr   string // of the control plane, host:port
	Switch string // where the rank hangs, and Port, if the network's file does not know its IP
	Port   int
	Tenant string
	Wait   time.Duration // how long to wait for other ranks, and for a control plane that does not answer; 0: DefaultWait

	// What the rank asks of its groups; all that ask for something must ask for the same.
	Mode           int // of the protocol, 1..3
	MTU            int // path MTU, payload bytes
	MessagePackets int // M
	WindowPackets  int // MW
	Pinned         *Arithmetic
	Reproducible   bool
}

// Arithmetic is the one operator and type of pinned pipes, which take no control signals.
type Arithmetic struct {
	Op    spec.Op
	DType spec.DType
}

// DefaultWait is that of Options.
const DefaultWait = 60 * time.Second

// Client is a rank of one job. Its methods may be called from several goroutines.
type Client struct {
	o       Options
	conn    *grpc.ClientConn
	control controlpb.ControlClient
	session string

	ctx  context.Context // of the goroutines
	stop context.CancelFunc
	work sync.WaitGroup

	close  sync.Once
	closed error

	mu        sync.Mutex
	rank      int
	pinned    bool
	next      uint32 // sequence number of the next subgroup
	positions map[string]psn.PSN
	failed    chan struct{} // closed when the job has failed
	err       error         // why
}

var _ coll.Rendezvous = (*Client)(nil)

// How long between two attempts to reach a control plane.
const (
	retryFirst = 50 * time.Millisecond
	retryMost  = time.Second
)

// Dial makes a client; it does not wait until the control plane is there.
func Dial(o Options) (*Client, error) {
	if o.Wait == 0 {
		o.Wait = DefaultWait
	}
	conn, err := grpc.NewClient(o.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second,
			Backoff: backoff.Config{BaseDelay: retryFirst, Multiplier: 1.6, Jitter: 0.2, MaxDelay: retryMost}}))
	if err != nil {
		return nil, fmt.Errorf("control plane at %s: %w", o.Addr, err)
	}
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	c := &Client{o: o, conn: conn, control: controlpb.NewControlClient(conn), session: hex.EncodeToString(id[:]), failed: make(chan struct{}),
		positions: map[string]psn.PSN{}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// Close ends the client without a word to the control plane: a rank that has not left then loses its lease.
func (c *Client) Close() error {
	c.close.Do(func() {
		c.stop()
		c.closed = c.conn.Close()
		c.work.Wait()
	})
	return c.closed
}

// call makes a call until it has an outcome. A control plane that does not answer may be started again at any moment,
// and knows then what it did before; after Options.Wait it is given up.
func call[R any](ctx context.Context, c *Client, f func(context.Context) (R, error)) (R, error) {
	wait, since := retryFirst, time.Time{}
	for {
		began := time.Now()
		r, err := f(ctx)
		if err == nil {
			return r, nil
		}
		if fail, ok := failure.FromStatus(err); ok {
			return r, fail
		}
		if at, ok := ctx.Deadline(); ok && ended(status.Code(err)) && time.Until(at) < time.Second {
			<-ctx.Done() // the other side knows the deadline too, and its clock was first
		}
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		if status.Code(err) != codes.Unavailable {
			return r, fmt.Errorf("control plane at %s: %s", c.o.Addr, status.Convert(err).Message())
		}
		if time.Since(began) > time.Second { // it was there until now
			wait, since = retryFirst, time.Time{}
		}
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) > c.o.Wait {
			return r, fmt.Errorf("control plane at %s: %w for %v: %s", c.o.Addr, failure.ErrLost, c.o.Wait, status.Convert(err).Message())
		}
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-time.After(wait):
		}
		wait = min(2*wait, retryMost)
	}
}

func ended(c codes.Code) bool { return c == codes.Canceled || c == codes.DeadlineExceeded }

// Join takes the rank's place in its job.
func (c *Client) Join(ctx context.Context, m coll.Member) (*coll.Peers, error) {
	q := &controlpb.JoinRequest{
		Job: m.Job, Ranks: uint32(m.Ranks), Rank: uint32(m.Rank), Session: c.session, Tenant: c.o.Tenant, Mac: group.MAC(m.MAC).String(), Ip: m.IP.String(),
		LinkMtu: uint32(m.LinkMTU), Switch: c.o.Switch, Port: uint32(c.o.Port), WaitMs: uint32(c.o.Wait.Milliseconds()),
		Wish: &controlpb.Wish{Mode: uint32(c.o.Mode), Mtu: uint32(c.o.MTU), MessagePackets: uint32(c.o.MessagePackets),
			WindowPackets: uint32(c.o.WindowPackets), Reproducible: c.o.Reproducible},
		Ring: &controlpb.Ring{BeforeQpn: m.Ring[0], AfterQpn: m.Ring[1], Psn: uint32(m.RingPSN)},
	}
	if p := c.o.Pinned; p != nil {
		q.Wish.Op, q.Wish.Dtype = p.Op.String(), p.DType.String()
	}
	r, err := call(ctx, c, func(ctx context.Context) (*controlpb.JoinReply, error) { return c.control.Join(ctx, q) })
	if err != nil {
		return nil, err
	}
	peers, err := peersOf(m.Job, r)
	if err != nil {
		return nil, fmt.Errorf("control plane at %s: %w", c.o.Addr, err)
	}
	c.mu.Lock()
	c.rank, c.pinned = m.Rank, r.Op != ""
	c.mu.Unlock()
	lease := time.Duration(r.LeaseMs) * time.Millisecond
	c.work.Go(func() { c.renew(lease) })
	c.work.Go(c.watch)
	return peers, nil
}

func peersOf(job string, r *controlpb.JoinReply) (*coll.Peers, error) {
	settings, err := host.Preset(r.Preset)
	if err != nil {
		return nil, err
	}
	p := &coll.Peers{
		MTU: int(r.Mtu), MessagePackets: int(r.MessagePackets), WindowPackets: int(r.WindowPackets),
		QP: host.Config{PKey: 0xffff, TTL: 64, MTU: int(r.Mtu), Timeout: int(r.TimeoutCode), RetryCnt: 7, RNRRetry: 7, MinRNRTimer: 1, Settings: settings},
	}
	for i, m := range r.Members {
		one := coll.Member{Job: job, Rank: i, Ranks: len(r.Members), LinkMTU: int(m.LinkMtu),
			Ring: [2]uint32{m.GetRing().GetBeforeQpn(), m.GetRing().GetAfterQpn()}, RingPSN: psn.PSN(m.GetRing().GetPsn())}
		var mac group.MAC
		if err := mac.UnmarshalText([]byte(m.Mac)); err != nil {
			return nil, fmt.Errorf("rank %d: MAC: %w", i, err)
		}
		one.MAC = roce.MAC(mac)
		if one.IP, err = netip.ParseAddr(m.Ip); err != nil {
			return nil, fmt.Errorf("rank %d: IP: %w", i, err)
		}
		p.Members = append(p.Members, one)
	}
	return p, nil
}

// fail ends the job for this rank.
func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		close(c.failed)
	}
}

// renew keeps the lease. A control plane that does not answer stops nothing that runs.
func (c *Client) renew(lease time.Duration) {
	tick := time.NewTicker(max(lease/4, time.Millisecond))
	defer tick.Stop()
	for {
		c.mu.Lock()
		q := &controlpb.RenewRequest{Session: c.session}
		for id, p := range c.positions {
			q.Positions = append(q.Positions, &controlpb.Position{Subgroup: id, LastPsn: uint32(p)})
		}
		c.mu.Unlock()
		ctx, cancel := context.WithTimeout(c.ctx, max(lease/2, time.Millisecond))
		_, err := c.control.Renew(ctx, q)
		cancel()
		if fail, ok := failure.FromStatus(err); err != nil && ok {
			c.fail(fail)
			return
		}
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// watch waits for the job's failure.
func (c *Client) watch() {
	for c.ctx.Err() == nil {
		told, err := c.watchOnce()
		if told != nil {
			c.fail(told)
			return
		}
		if fail, ok := failure.FromStatus(err); err != nil && ok {
			c.fail(fail)
			return
		}
		select {
		case <-c.ctx.Done():
		case <-time.After(retryFirst):
		}
	}
}

func (c *Client) watchOnce() (*failure.Error, error) {
	stream, err := c.control.WatchErrors(c.ctx, &controlpb.WatchErrorsRequest{Session: c.session})
	if err != nil {
		return nil, err
	}
	told, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	return failure.FromProto(told.Failure), nil
}

// Subgroup connects a queue pair of the rank.
func (c *Client) Subgroup(ctx context.Context, step tree.Step, qpn uint32) (*coll.Subgroup, error) {
	c.mu.Lock()
	q := &controlpb.CreateSubgroupRequest{Session: c.session, Sequence: c.next, Collective: step.Collective.String(), Root: uint32(step.Root), Qpn: qpn,
		WaitMs: uint32(c.o.Wait.Milliseconds())}
	rank, pinned := c.rank, c.pinned
	c.mu.Unlock()
	r, err := call(ctx, c, func(ctx context.Context) (*controlpb.CreateSubgroupReply, error) {
		return c.control.CreateSubgroup(ctx, q)
	})
	refused := failure.Is(err, controlpb.Kind_KIND_NO_RESOURCE) || failure.Is(err, controlpb.Kind_KIND_SWITCH_LOST)
	if err == nil || refused || failure.Is(err, controlpb.Kind_KIND_DISAGREE) || failure.Is(err, controlpb.Kind_KIND_MISSING_RANK) {
		c.mu.Lock()
		c.next = q.Sequence + 1 // this one has its outcome
		c.mu.Unlock()
	}
	if refused {
		return nil, fmt.Errorf("%w: %w", coll.ErrRefused, err)
	}
	if err != nil {
		return nil, err
	}
	g, err := group.Parse(r.Id, []byte(r.Document))
	if err != nil {
		return nil, fmt.Errorf("control plane at %s: %w", c.o.Addr, err)
	}
	qp, err := g.HostConfig(rank, 0)
	if err != nil {
		return nil, fmt.Errorf("control plane at %s: subgroup %s: %w", c.o.Addr, r.Id, err)
	}
	pipe := g.Switches[0].Pipes[0]
	return &coll.Subgroup{
		ID: r.Id, QP: qp, MessagePackets: g.Host.MessagePackets, WindowPackets: g.Host.WindowPackets, Mode: g.Mode,
		Unpinned: !pinned, Op: pipe.Op, DType: pipe.DType, Reproducible: pipe.Reproducible,
	}, nil
}

// Report tells how far the rank has come in a subgroup: the last psn that it has sent. It goes with the next renewal of
// the lease, and counts if the rank dies.
func (c *Client) Report(s *coll.Subgroup, last psn.PSN) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.positions[s.ID] = last
}

// Quiesced tells that every send of the rank in a subgroup has completed, last psn and all.
func (c *Client) Quiesced(ctx context.Context, s *coll.Subgroup, last psn.PSN) error {
	n := uint32(last)
	_, err := call(ctx, c, func(ctx context.Context) (*controlpb.QuiescedReply, error) {
		return c.control.Quiesced(ctx, &controlpb.QuiescedRequest{Session: c.session, Subgroup: s.ID, LastPsn: &n})
	})
	return err
}

// Release gives a subgroup back; when all ranks have, its switches forget it.
func (c *Client) Release(ctx context.Context, s *coll.Subgroup) error {
	_, err := call(ctx, c, func(ctx context.Context) (*controlpb.DestroyReply, error) {
		return c.control.Destroy(ctx, &controlpb.DestroyRequest{Session: c.session, Subgroup: s.ID})
	})
	c.mu.Lock()
	delete(c.positions, s.ID)
	c.mu.Unlock()
	return err
}

// Watch waits for the failure of the job.
func (c *Client) Watch(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.failed:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.err
	}
}

// Leave gives the rank's place up, and ends the client's own work.
func (c *Client) Leave(ctx context.Context) error {
	_, err := call(ctx, c, func(ctx context.Context) (*controlpb.DestroyReply, error) {
		return c.control.Destroy(ctx, &controlpb.DestroyRequest{Session: c.session})
	})
	if err == nil {
		c.stop()
		c.work.Wait()
	}
	return err
}
