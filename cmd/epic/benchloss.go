package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	lossbench "github.com/epic-inc/epic/cosim/bench/loss"
	"github.com/epic-inc/epic/cosim/server"
)

func benchLoss() *cobra.Command {
	var o lossbench.Options
	var asJSON bool
	c := &cobra.Command{
		Use:   "loss",
		Short: "Measure what lost frames cost a group, and one beside it",
		Long: `Bench loss lets two groups do AllReduce through one engine, and loses a part of what the engine sends to one rank of the second. It
says what that costs the first, and holds the second, by itself, against go-back-N: 1/(1 + p w), p lost frames a packet of
the vector, w frames sent again for each, both as measured.`,
		Example: "  epic bench loss --mode 2,3 --loss 0.01",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, m := range o.Modes {
				if m != 2 && m != 3 {
					return fmt.Errorf("--mode: got %d, want 2 or 3", m)
				}
			}
			if o.Sim == "" {
				o.Sim = server.BinaryPath(server.BinaryFolder, o.DataW)
			}
			o.Progress = cmd.ErrOrStderr()
			r, err := lossbench.Run(cmd.Context(), o)
			if r == nil {
				return err
			}
			return errors.Join(print(cmd, r, asJSON), err)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	dataW(c, &o.DataW, &o.Sim)
	f.IntSliceVar(&o.Modes, "mode", []int{3}, "protocol modes: 2, 3")
	f.IntVar(&o.Ranks, "ranks", 4, "ranks at the switch")
	f.IntVar(&o.Payload, "payload", 1024, "bytes of every packet, an MTU")
	f.IntVar(&o.Packets, "packets", 1000, "packets of each rank's vector")
	f.Float64Var(&o.Loss, "loss", 0.01, "part of the frames to one rank that is lost")
	f.Float64Var(&o.MaxCost, "max-cost", 0, "part of its goodput that the first group may lose; beyond it the bench fails, with status 1")
	f.Float64Var(&o.MinGoodput, "min-goodput", 0, "part of go-back-N's goodput that the second has to reach")
	f.StringVar(&o.Out, "out", "", "folder for what explains a difference, build/cosim if absent")
	seedFlag(c, &o.Seed)
	jsonFlag(c, &asJSON)
	return c
}
