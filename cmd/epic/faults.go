package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/epic-inc/epic/cosim/faults"
)

func cosimFaults() *cobra.Command {
	var o faults.Options
	var slice string
	var asJSON bool
	c := &cobra.Command{
		Use:   "faults",
		Short: "Do each kind of fault to each frame of short collectives, and want every result right",
		Long: `Faults loses, doubles, delays, corrupts or cuts one frame of a short collective: each kind of fault, each frame that a run
without it has, data and answers, in each mode and collective, with messages of one packet and of three; and each
again in runs where a frame was lost before, which have NAKs and what is sent again. The golden engine alone, and the Verilog
engine with golden beside it, have to make every one good.`,
		Example: `  epic cosim faults --engine golden
  epic cosim faults --engine rtl --slice 0/100`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if slice != "" {
				if o.First, o.Every, err = oneOfMany(slice); err != nil || o.Every < 1 || o.First < 0 || o.First >= o.Every {
					return fmt.Errorf("--slice: got %q, want I/N, as 0/100", slice)
				}
			}
			o.Progress = cmd.ErrOrStderr()
			r, err := faults.Run(cmd.Context(), o)
			if r == nil {
				return err
			}
			return errors.Join(print(cmd, r, asJSON), err)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringSliceVar(&o.Engines, "engine", nil, "only these engines: "+strings.Join(faults.Engines(), ", "))
	f.IntSliceVar(&o.Modes, "mode", nil, "only these modes; the Verilog engine has 2 and 3")
	f.StringVar(&slice, "slice", "", "I/N: only every Nth case, from case I on (0..N-1)")
	f.IntVar(&o.Jobs, "jobs", 0, "cases at a time; 0: one a core")
	f.StringVar(&o.OutDir, "out", "", "folder for what explains a difference, build/faults if absent")
	dataW(c, &o.DataW, &o.Sim)
	jsonFlag(c, &asJSON)
	complete(c, "engine", faults.Engines())
	return c
}
