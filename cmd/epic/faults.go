package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/epic-inc/epic/cosim/faults"
	"github.com/epic-inc/epic/cosim/run"
)

func cosimFaults() *cobra.Command {
	var o faults.Options
	c := &cobra.Command{
		Use:   "faults",
		Short: "Lose, double, overtake, spoil, cut and delay every single frame of short messages",
		Long: `Faults runs short collectives of two ranks in each mode, through golden engines alone and through the
Verilog engine, once for every frame that any link carries and everything that can happen to it: lost, twice,
behind later ones, late by turns of the slots' ring, a bit turned, cut off. Every result must be exact, and
the Verilog engine what the golden model is.`,
		Example: `  epic cosim faults --data-w 64
  epic cosim faults --data-w 64 --every 20`,
		Args: noArgs,
	}
	dataW(c, &o.DataW, &o.Sim)
	c.Flags().IntVar(&o.Every, "every", 1, "do every nth run")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		o.Progress = cmd.ErrOrStderr()
		rep, err := faults.Run(cmd.Context(), o)
		if err != nil {
			return err
		}
		err = rep.WriteText(cmd.OutOrStdout())
		for _, text := range rep.Failed {
			fmt.Fprintf(cmd.ErrOrStderr(), "  FAIL %s\n", text)
		}
		if n := len(rep.Failed); n > 0 {
			err = errors.Join(err, fmt.Errorf("%w: %d runs failed", run.ErrDifference, n))
		}
		return err
	}
	return c
}
