package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/epic-inc/epic/driver/coll"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// Options of Run.
type Options struct {
	Folder      Folder
	Job         string
	Rank, Ranks int
	MAC         roce.MAC
	IP          netip.Addr
	LinkMTU     int         // largest IP packet of its link, in bytes
	Subgroups   []tree.Step // of the program, in its order
	Rendezvous  coll.Rendezvous
}

// ErrOver says that the job has failed, and not this rank. Errors wrap it and say why.
var ErrOver = errors.New("the job is over")

// linger is how long the rank stays to answer when it has done: a peer whose last ACK was lost asks again.
const linger = time.Second

// ParseSubgroups reads the program's list of steps, as epic_rank takes it, and names its subgroups in its order.
func ParseSubgroups(list string) ([]tree.Step, error) {
	words := strings.Split(list, ",")
	for i := range words {
		words[i], _, _ = strings.Cut(words[i], "/") // a type
	}
	steps, err := tree.ParseSteps(strings.Join(words, ","))
	if err != nil {
		return nil, err
	}
	var subgroups []tree.Step
	for _, s := range steps {
		if len(s.Split(2)) > 1 {
			return nil, fmt.Errorf("collective %v: want its parts, as reduce:0,reduce:1 or broadcast:0,broadcast:1", s.Collective)
		}
		if s = s.Subgroup(); !slices.Contains(subgroups, s) {
			subgroups = append(subgroups, s)
		}
	}
	return subgroups, nil
}

// Run takes the rank's place in its job, connects its program's queue pairs, and gives the place back when the program
// has done. ctx is to end when the program does. Then, and when anything fails here, the place is not given back: close
// what Rendezvous is, and the rank loses its lease, which tells the others. If the job fails elsewhere the program is
// told why, and the error wraps ErrOver.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.Folder.check(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = o.Folder.Tell(Failed, err.Error())
			err = fmt.Errorf("job %s: rank %d: %w", o.Job, o.Rank, err)
		}
	}()
	if err := o.Folder.Await(ctx, QPNs); err != nil {
		return err
	}
	qpns, err := o.Folder.QPNs(len(o.Subgroups))
	if err != nil {
		return err
	}
	member := coll.Member{Job: o.Job, Rank: o.Rank, Ranks: o.Ranks, MAC: o.MAC, IP: o.IP, LinkMTU: o.LinkMTU}
	if _, err := o.Rendezvous.Join(ctx, member); err != nil {
		return err
	}
	running, stop := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if why := o.Rendezvous.Watch(running); running.Err() == nil {
			stop(fmt.Errorf("%w: %w", ErrOver, why))
		}
	}()
	defer func() {
		stop(nil)
		<-watched
	}()
	if err := o.serve(running, qpns); err != nil {
		if why := context.Cause(running); errors.Is(why, ErrOver) {
			return why // whatever this rank was at
		}
		return err
	}
	return nil
}

// serve lets the program run.
func (o *Options) serve(ctx context.Context, qpns []uint32) error {
	var g Group
	var subs []*coll.Subgroup
	for i, step := range o.Subgroups {
		s, err := o.Rendezvous.Subgroup(ctx, step, qpns[i])
		if err != nil {
			return fmt.Errorf("subgroup of %v: %w", step, err)
		}
		one := Group{MTU: s.QP.MTU, MessagePackets: s.MessagePackets, WindowPackets: s.WindowPackets, Timeout: s.QP.Timeout, MinRNRTimer: s.QP.MinRNRTimer,
			Unpinned: s.Unpinned}
		if s.Unpinned && s.Reproducible {
			one.Flags = spec.ControlReproducible
		}
		one.QPs = append(g.QPs, QP{PeerIP: s.QP.PeerIP, PeerQPN: s.QP.PeerQPN, PSN: s.QP.SendPSN})
		g, subs = one, append(subs, s) // they are alike in all else: the job's
	}
	if err := o.Folder.TellGroup(g); err != nil {
		return err
	}
	if err := o.Folder.Await(ctx, Ready); err != nil {
		return err
	}
	// The network takes data of all; a rank that is not ready yet is sent it again.
	if err := o.Folder.Tell(Go, ""); err != nil {
		return err
	}
	if err := o.Folder.Await(ctx, Done); err != nil {
		return err
	}
	last, err := o.Folder.LastPSNs(qpns)
	if err != nil {
		return err
	}
	select {
	case <-time.After(linger):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for i, s := range subs {
		if err := o.Rendezvous.Quiesced(ctx, s, psn.PSN(last[i])); err != nil {
			return err
		}
	}
	if err := o.Rendezvous.Leave(ctx); err != nil {
		return err
	}
	return o.Folder.Tell(Leave, "") // the last thing: the program ends then
}
