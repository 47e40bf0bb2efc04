package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/epic-inc/epic/driver/control"
	"github.com/epic-inc/epic/driver/control/proxy"
)

func controlCommand() *cobra.Command {
	return groupOf(&cobra.Command{
		Use:   "control",
		Short: "Run the control plane, which sets groups up, and ask it",
		Example: `  epic control serve --network network.yaml --state control.db
  epic control status
  epic control destroy train`,
	}, controlServe(), controlJoin(), controlStatus(), controlDestroy())
}

const controlAddr = "127.0.0.1:7700"

func controlServe() *cobra.Command {
	var network, state, listen string
	o := control.Options{Lease: control.DefaultLease, Wait: control.DefaultWait, SwitchTimeout: control.DefaultSwitchTimeout}
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the control plane of a network until interrupted",
		Long: `Serve answers the ranks of collectives and programs the switches of the network's file. It may be
killed and started again at any moment: what it knows is in the state file. docs/control.md has the file's fields.`,
		Example: "  epic control serve --network network.yaml --state control.db --listen 10.0.0.1:7700",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			for _, f := range []struct {
				name string
				got  time.Duration
			}{{"lease", o.Lease}, {"wait", o.Wait}, {"switch-timeout", o.SwitchTimeout}} {
				if f.got < 100*time.Millisecond || f.got > time.Hour {
					return fmt.Errorf("--%s: got %v, want 100ms..1h", f.name, f.got)
				}
			}
			if o.Network, err = control.LoadNetwork(network); err != nil {
				return err
			}
			l, err := net.Listen("tcp", listen)
			if err != nil {
				return fmt.Errorf("--listen: %w", err)
			}
			if o.Store, err = control.OpenStore(state); err != nil {
				return errors.Join(err, l.Close())
			}
			defer func() { err = errors.Join(err, o.Store.Close()) }()
			o.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			s, err := control.Open(o)
			if err != nil {
				return errors.Join(err, l.Close())
			}
			fmt.Fprintf(cmd.OutOrStdout(), "control plane at %v, %d switches\n", l.Addr(), len(o.Network.Switches))
			return s.Serve(cmd.Context(), l)
		},
	}
	c.Flags().StringVar(&network, "network", "network.yaml", "file that says which switches there are and how they are joined")
	c.Flags().StringVar(&state, "state", "control.db", "file that keeps what the control plane knows; made if it does not exist")
	c.Flags().StringVar(&listen, "listen", controlAddr, "host:port to answer at; whoever reaches it may use the network")
	c.Flags().DurationVar(&o.Lease, "lease", o.Lease, "a rank that is not heard of for so long is dead")
	c.Flags().DurationVar(&o.Wait, "wait", o.Wait, "most that a rank waits for the others of its job")
	c.Flags().DurationVar(&o.SwitchTimeout, "switch-timeout", o.SwitchTimeout, "a switch that does not answer for so long is lost")
	return c
}

// askTime is how long a control plane may take to answer an operator.
const askTime = 10 * time.Second

func controlJoin() *cobra.Command {
	var c proxy.Command
	var ip, folder string
	cmd := &cobra.Command{
		Use:   "join --job JOB --rank K --ranks N --interface NAME --ip IP --dir DIR --steps LIST -- PROGRAM [ARG...]",
		Short: "Take a rank's place for a program that speaks no gRPC",
		Long: `Join runs a program that is one rank and has queue pairs of its own, as epic_rank of interop/client, and takes
its place in a job: it tells the control plane of its queue pairs, and the program what they are to be connected to,
by files of --dir, which epic_rank.c describes. In the program's arguments {dir}, {ip}, {rank}, {ranks} and {steps} are
replaced. It ends when the program has its results and all is given back. If the job fails the program is told why;
if the program ends before it should, the rank loses its lease, which tells the others.`,
		Example: `  epic control join --at 10.0.0.1:7700 --job train --rank 0 --ranks 4 --interface eth1 --ip 10.9.0.1 --dir /run/train \
      --steps allreduce,reduce:0 -- epic_rank --dir {dir} --ip {ip} --rank {rank} --ranks {ranks} --steps {steps}`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("PROGRAM: got none, want the rank's program behind --")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if c.IP, err = netip.ParseAddr(ip); err != nil {
				return fmt.Errorf("--ip: got %q, want an address as 10.9.0.1 or fd00::1", ip)
			}
			c.Folder, c.Argv, c.Stdout, c.Stderr = proxy.Folder(folder), args, cmd.OutOrStdout(), cmd.ErrOrStderr()
			return c.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&c.Meeting.Addr, "at", controlAddr, "host:port of the control plane")
	f.StringVar(&c.Job, "job", "", "name of the job, the same at every rank")
	f.IntVar(&c.Rank, "rank", 0, "number of this rank, from 0")
	f.IntVar(&c.Ranks, "ranks", 0, "number of ranks")
	f.StringVar(&c.Interface, "interface", "", "the program's network interface, for its MAC address and MTU")
	f.StringVar(&ip, "ip", "", "address of that interface that the queue pairs have")
	f.StringVar(&folder, "dir", "", "folder in which program and join meet, a new one for each run")
	f.StringVar(&c.Steps, "steps", "", "the program's collectives, as epic_rank takes them")
	f.StringVar(&c.Meeting.Switch, "switch", "", "switch at which this rank is, if the network's file does not say")
	f.IntVar(&c.Meeting.Port, "port", 0, "port of that switch")
	f.IntVar(&c.Meeting.Mode, "mode", 0, "protocol mode to ask the control plane for, 1 to 3; 0: any")
	f.IntVar(&c.Meeting.MTU, "mtu", 0, "path MTU to ask for; 0: any")
	f.BoolVar(&c.Meeting.Reproducible, "reproducible", false, "ask for sums in the order of ranks")
	return cmd
}

func controlStatus() *cobra.Command {
	var at, job string
	var asJSON bool
	c := &cobra.Command{
		Use:     "status",
		Short:   "Show the switches, jobs and subgroups of a control plane",
		Example: "  epic control status --job train",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := control.DialAdmin(at)
			if err != nil {
				return err
			}
			defer a.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), askTime)
			defer cancel()
			r, err := a.Status(ctx, job)
			if err != nil {
				return err
			}
			if asJSON {
				return control.WriteJSON(cmd.OutOrStdout(), r)
			}
			return control.WriteText(cmd.OutOrStdout(), r)
		},
	}
	c.Flags().StringVar(&at, "at", controlAddr, "host:port of the control plane")
	c.Flags().StringVar(&job, "job", "", "only this one")
	jsonFlag(c, &asJSON)
	return c
}

func controlDestroy() *cobra.Command {
	var at string
	c := &cobra.Command{
		Use:   "destroy JOB",
		Short: "End a job for all its ranks, and take it out of the switches",
		Long: `Destroy ends a job whose ranks will not leave it. Its ranks are told so; what it had in the switches is
free when epic control status shows the job as ended.`,
		Example: "  epic control destroy train",
		Args:    exactly(1, "JOB"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := control.DialAdmin(at)
			if err != nil {
				return err
			}
			defer a.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), askTime)
			defer cancel()
			done, err := a.Destroy(ctx, args[0])
			if err != nil {
				return err
			}
			text := "is being taken out of the switches"
			if done {
				text = "is out of the switches"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "job %s: destroyed, and %s\n", args[0], text)
			return err
		},
	}
	c.Flags().StringVar(&at, "at", controlAddr, "host:port of the control plane")
	return c
}
