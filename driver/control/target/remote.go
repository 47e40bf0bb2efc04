package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/epic-inc/epic/driver/control/controlpb"
	"github.com/epic-inc/epic/driver/table"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/spec"
)

// Serve offers a switch to a control plane in another process, until ctx is done. It closes the listener.
func Serve(ctx context.Context, at net.Listener, sw Switch) error {
	s := grpc.NewServer(grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: silence / 2, PermitWithoutStream: true}))
	controlpb.RegisterSwitchServer(s, &server{sw: sw})
	stop := context.AfterFunc(ctx, s.Stop)
	defer stop()
	if err := s.Serve(at); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve switch at %v: %w", at.Addr(), err)
	}
	return ctx.Err()
}

type server struct {
	controlpb.UnimplementedSwitchServer
	sw Switch
}

// coded gives an error the status code by which the other side knows it again.
func coded(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrBusy):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.Is(err, ErrNotInstalled):
		return status.Error(codes.NotFound, err.Error())
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.Unknown, err.Error())
}

func (s *server) Info(ctx context.Context, _ *controlpb.InfoRequest) (*controlpb.InfoReply, error) {
	i, err := s.sw.Info(ctx)
	if err != nil {
		return nil, coded(err)
	}
	r := &controlpb.InfoReply{
		Name: i.Name, Ports: uint32(i.Ports), EndpointEntries: uint32(i.EndpointEntries), PipeEntries: uint32(i.PipeEntries),
		ListEntries: uint32(i.ListEntries), PoolKb: uint32(i.PoolKB), Mtu: uint32(i.MTU), FanIn: uint32(i.FanIn),
		NoFloat: i.NoFloat, Boot: i.Boot,
	}
	r.Modes = uints(i.Modes)
	for _, h := range i.Held {
		r.Held = append(r.Held, &controlpb.Held{Pipe: int32(h.Pipe), Base: uint32(h.Base), Blocks: uint32(h.Blocks), Out: uint32(h.Out),
			Outs: uint32(h.Outs), In: uint32(h.In), Ins: uint32(h.Ins), Endpoints: uints(h.Endpoints)})
	}
	return r, nil
}

func (s *server) Install(ctx context.Context, q *controlpb.InstallRequest) (*controlpb.InstallReply, error) {
	g, err := group.Parse(q.Id, []byte(q.Document))
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	rows := Rows{Pipes: ints(q.Pipes), Outs: ints(q.Outs), Ins: ints(q.Ins)}
	if err := s.sw.Install(ctx, q.Id, g, rows); err != nil {
		return nil, coded(err)
	}
	return &controlpb.InstallReply{}, nil
}

func (s *server) Quiesce(ctx context.Context, q *controlpb.QuiesceRequest) (*controlpb.QuiesceReply, error) {
	if err := s.sw.Quiesce(ctx, q.Id); err != nil {
		return nil, coded(err)
	}
	return &controlpb.QuiesceReply{}, nil
}

func (s *server) State(ctx context.Context, q *controlpb.StateRequest) (*controlpb.StateReply, error) {
	st, err := s.sw.State(ctx, q.Id)
	if err != nil {
		return nil, coded(err)
	}
	return &controlpb.StateReply{Drained: st.Drained, Known: st.Known, Next: uint32(st.Next)}, nil
}

func (s *server) Remove(ctx context.Context, q *controlpb.RemoveRequest) (*controlpb.RemoveReply, error) {
	if err := s.sw.Remove(ctx, q.Id, q.Force); err != nil {
		return nil, coded(err)
	}
	return &controlpb.RemoveReply{}, nil
}

func (s *server) Installed(ctx context.Context, _ *controlpb.InstalledRequest) (*controlpb.InstalledReply, error) {
	ids, err := s.sw.Installed(ctx)
	if err != nil {
		return nil, coded(err)
	}
	return &controlpb.InstalledReply{Ids: ids}, nil
}

func (s *server) Watch(_ *controlpb.WatchRequest, stream grpc.ServerStreamingServer[controlpb.Fault]) error {
	ctx, stop := context.WithCancelCause(stream.Context())
	defer stop(nil)
	err := s.sw.Watch(ctx, func(f Fault) {
		err := stream.Send(&controlpb.Fault{Id: f.ID, Pipe: f.Pipe, Endpoint: f.Endpoint, Kind: f.Kind.String(), Psn: uint32(f.PSN),
			Got: f.Got, Wanted: f.Wanted})
		if err != nil {
			stop(err)
		}
	})
	if err == nil {
		err = context.Cause(ctx)
	}
	return coded(err)
}

// Remote is a switch in another process.
type Remote struct {
	addr   string
	conn   *grpc.ClientConn
	client controlpb.SwitchClient
}

// silence is how long a connection may say nothing before the other side is asked whether it is there, and how long
// it then has to answer.
const silence = 10 * time.Second

// retry is the longest time between two attempts to connect.
const retry = time.Second

// Dial makes a switch of the service at addr, host:port. It does not wait until the switch is there: calls fail while
// it is not.
func Dial(addr string) (*Remote, error) {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: silence, Timeout: silence}),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second,
			Backoff: backoff.Config{BaseDelay: retry / 20, Multiplier: 1.6, Jitter: 0.2, MaxDelay: retry}}))
	if err != nil {
		return nil, fmt.Errorf("switch at %s: %w", addr, err)
	}
	return &Remote{addr, conn, controlpb.NewSwitchClient(conn)}, nil
}

// Close ends the connection.
func (r *Remote) Close() error { return r.conn.Close() }

// plain is an error of the other side as it was there.
func (r *Remote) plain(err error) error {
	if err == nil {
		return nil
	}
	st := status.Convert(err)
	switch st.Code() {
	case codes.FailedPrecondition:
		return fmt.Errorf("switch at %s: %w (%s)", r.addr, ErrBusy, st.Message())
	case codes.NotFound:
		return fmt.Errorf("switch at %s: %w (%s)", r.addr, ErrNotInstalled, st.Message())
	case codes.Canceled:
		return fmt.Errorf("switch at %s: %w", r.addr, context.Canceled)
	case codes.DeadlineExceeded:
		return fmt.Errorf("switch at %s: %w", r.addr, context.DeadlineExceeded)
	}
	return fmt.Errorf("switch at %s: %s", r.addr, st.Message())
}

// Info of the switch.
func (r *Remote) Info(ctx context.Context) (Info, error) {
	p, err := r.client.Info(ctx, &controlpb.InfoRequest{})
	if err != nil {
		return Info{}, r.plain(err)
	}
	i := Info{
		Name: p.Name, Ports: int(p.Ports), EndpointEntries: int(p.EndpointEntries), PipeEntries: int(p.PipeEntries),
		ListEntries: int(p.ListEntries), PoolKB: int(p.PoolKb), MTU: int(p.Mtu), FanIn: int(p.FanIn), Modes: ints(p.Modes),
		NoFloat: p.NoFloat, Boot: p.Boot,
	}
	for _, h := range p.Held {
		i.Held = append(i.Held, table.Held{Pipe: int(h.Pipe), Base: int(h.Base), Blocks: int(h.Blocks), Out: int(h.Out), Outs: int(h.Outs),
			In: int(h.In), Ins: int(h.Ins), Endpoints: ints(h.Endpoints)})
	}
	return i, nil
}

// Install puts a subgroup in.
func (r *Remote) Install(ctx context.Context, id string, g *group.Group, rows Rows) error {
	text, err := g.Marshal()
	if err != nil {
		return err
	}
	_, err = r.client.Install(ctx, &controlpb.InstallRequest{Id: id, Document: string(text), Pipes: uints(rows.Pipes),
		Outs: uints(rows.Outs), Ins: uints(rows.Ins)})
	return r.plain(err)
}

// Quiesce a subgroup.
func (r *Remote) Quiesce(ctx context.Context, id string) error {
	_, err := r.client.Quiesce(ctx, &controlpb.QuiesceRequest{Id: id})
	return r.plain(err)
}

// State of a subgroup.
func (r *Remote) State(ctx context.Context, id string) (State, error) {
	p, err := r.client.State(ctx, &controlpb.StateRequest{Id: id})
	if err != nil {
		return State{}, r.plain(err)
	}
	return State{Drained: p.Drained, Known: p.Known, Next: psn.PSN(p.Next)}, nil
}

// Remove takes a subgroup out.
func (r *Remote) Remove(ctx context.Context, id string, force bool) error {
	_, err := r.client.Remove(ctx, &controlpb.RemoveRequest{Id: id, Force: force})
	return r.plain(err)
}

// Installed lists the ids.
func (r *Remote) Installed(ctx context.Context) ([]string, error) {
	p, err := r.client.Installed(ctx, &controlpb.InstalledRequest{})
	if err != nil {
		return nil, r.plain(err)
	}
	return p.Ids, nil
}

// Watch the pipes.
func (r *Remote) Watch(ctx context.Context, tell func(Fault)) error {
	stream, err := r.client.Watch(ctx, &controlpb.WatchRequest{})
	if err != nil {
		return r.plain(err)
	}
	for {
		p, err := stream.Recv()
		if err != nil {
			return r.plain(err)
		}
		var kind spec.ErrorKind
		if err := kind.UnmarshalText([]byte(p.Kind)); err != nil {
			return fmt.Errorf("switch at %s: fault: %w", r.addr, err)
		}
		tell(Fault{ID: p.Id, Pipe: p.Pipe, Endpoint: p.Endpoint, Kind: kind, PSN: psn.PSN(p.Psn), Got: p.Got, Wanted: p.Wanted})
	}
}

func ints(list []uint32) []int {
	var all []int
	for _, v := range list {
		all = append(all, int(v))
	}
	return all
}

func uints(list []int) []uint32 {
	var all []uint32
	for _, v := range list {
		all = append(all, uint32(v))
	}
	return all
}
