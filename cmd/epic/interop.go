package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/epic-inc/epic/cmd/epic/internal/exit"
	"github.com/epic-inc/epic/interop"
	"github.com/epic-inc/epic/interop/guest"
)

func interopCommand() *cobra.Command {
	o := interop.Options{Seed: 1}
	var asJSON bool
	var accel string
	var modes, members, mtus, ips, signals []string
	all := interop.AllAxes()
	c := &cobra.Command{
		Use:   "interop",
		Short: "Run collectives of virtual machines with Linux's RoCE stack through the engines",
		Long: `Interop boots virtual machines with Linux's own RoCE stack (rdma_rxe), in which a program that uses
libibverbs is a rank, and runs collectives of two to four of them, some with a golden rank beside them,
through the golden engine and through the Verilog engine, which golden checks event by event. The wire between
loses, repeats and reorders frames as the seed says; how many there are depends on the guests, whose time
is real. Results must be exact, but for float32 in the order of arrival, where they must be the sum in some order;
every queue pair must be in RTS at the end.

Without --whole it runs a pairwise slice: every two levels of two factors that can stand together stand in a case.
Results are kept in --out, by case and by a hash of guest, simulator and program: what passed is not run
again until one of them changes. The guests are made by: scripts/setup interop.`,
		Example: `  epic interop
  epic interop --whole --json
  epic interop --engine rtl --collective allreduce --members 2 --wire loss --latency`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			o.Progress = cmd.ErrOrStderr()
			o.Accel = guest.Accel(accel)
			if o.Axes.Engines, err = levels("engine", o.Axes.Engines, all.Engines, asItIs); err != nil {
				return err
			}
			if o.Axes.Modes, err = levels("mode", modes, all.Modes, strconv.Atoi); err != nil {
				return err
			}
			if o.Axes.Collectives, err = levels("collective", o.Axes.Collectives, all.Collectives, asItIs); err != nil {
				return err
			}
			if o.Axes.Numbers, err = levels("numbers", o.Axes.Numbers, all.Numbers, asItIs); err != nil {
				return err
			}
			if o.Axes.Members, err = levels("members", members, all.Members, interop.ParseMembers); err != nil {
				return err
			}
			if o.Axes.MTUs, err = levels("mtu", mtus, all.MTUs, strconv.Atoi); err != nil {
				return err
			}
			if o.Axes.IPs, err = levels("ip", ips, all.IPs, strconv.Atoi); err != nil {
				return err
			}
			if o.Axes.Wires, err = levels("wire", o.Axes.Wires, all.Wires, asItIs); err != nil {
				return err
			}
			if o.Axes.Unpinned, err = levels("unpinned", signals, all.Unpinned, strconv.ParseBool); err != nil {
				return err
			}
			if !slices.Contains(dataWidths, o.DataW) {
				return fmt.Errorf("--data-w: got %d, want one of %s", o.DataW, commas(dataWidths))
			}
			report, err := interop.Run(cmd.Context(), o)
			if report == nil || exit.Of(err) == exit.Interrupted {
				return err
			}
			return errors.Join(err, print(cmd, report, asJSON))
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.BoolVar(&o.Whole, "whole", false, "every case, not the pairwise slice")
	f.StringSliceVar(&o.Axes.Engines, "engine", nil, "only these engines: "+commas(all.Engines))
	f.StringSliceVar(&modes, "mode", nil, "only these modes: "+commas(all.Modes))
	f.StringSliceVar(&o.Axes.Collectives, "collective", nil, "only these collectives")
	f.StringSliceVar(&o.Axes.Numbers, "numbers", nil, "only these: "+commas(all.Numbers))
	f.StringSliceVar(&members, "members", nil, "only these numbers of guests, or of guests and golden ranks: "+commas(all.Members))
	f.StringSliceVar(&mtus, "mtu", nil, "only these path MTUs: "+commas(all.MTUs))
	f.StringSliceVar(&ips, "ip", nil, "only these versions of IP: "+commas(all.IPs))
	f.StringSliceVar(&o.Axes.Wires, "wire", nil, "only these wires: "+commas(all.Wires))
	f.StringSliceVar(&signals, "unpinned", nil, "only pipes that are opened by control signals (true), or not (false)")
	f.IntVar(&o.Packets, "packets", interop.VectorPackets, "packets of a rank's vector, the last one not full")
	f.StringVar(&o.Capture, "capture", "", "pcap file for the RoCE frames at the port of rank 0, of one case")
	f.BoolVar(&o.Latency, "latency", false, "measure small messages, too, beside ib_send_lat")
	f.BoolVar(&o.Again, "again", false, "run what is known to have passed, too")
	f.DurationVar(&o.Budget, "budget", 0, "time after which no case is begun, as 10m; what is left is a failure. 0: no limit")
	f.StringVar(&accel, "accel", "", "kvm or tcg; if absent KVM where it works")
	f.StringVar(&o.Image, "image", "", "folder of the guest, "+guest.ImageFolder+" if absent")
	f.IntVar(&o.DataW, "data-w", 512, "width of the Verilog engine's data path, in bits")
	f.StringVar(&o.Sims, "sims", "", "folder of the simulators, build/sim if absent")
	f.StringVar(&o.OutDir, "out", "", "folder for results and what explains a difference, build/interop if absent")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "decides vectors, and the fate of frames in the order in which they are sent")
	jsonFlag(c, &asJSON)
	complete(c, "engine", all.Engines)
	complete(c, "collective", all.Collectives)
	complete(c, "wire", all.Wires)
	return c
}
