package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/epic-inc/epic/cmd/epic/internal/exit"
	"github.com/epic-inc/epic/cosim/demo"
)

func demoCommand() *cobra.Command {
	var asJSON bool
	o := demo.Options{Loss: 0.02}
	c := &cobra.Command{
		Use:   "demo",
		Short: "Send real gradients, in the Linux kernel's own frames, through the Verilog engine",
		Long: `Demo reduces the gradients of a training step of four ranks in the Verilog engine, a one-switch
AllReduce, four times: from captures of the Linux kernel's RoCE stack, so slowly that every queue is
empty, then as fast as the links go, then with a rank that lost frames and sent them again; and from
virtual hosts over links that lose frames, so that the engine itself sends again. Every frame, record
and state is compared with the golden model, and what every rank gets with the known sum.

It prints a table and writes report.json, out.pcapng (frames in and out, a section for each part) and
wave.fst (the first ` + strconv.Itoa(demo.TraceClocks) + ` clocks of traffic of the part "replay") into the folder of --out.

` + demo.LatencyMeans,
		Example: `  epic demo
  epic demo --pacing burst --loss 0.05 --seed 7 --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Progress = cmd.ErrOrStderr()
			report, err := demo.Run(cmd.Context(), o)
			switch exit.Of(err) {
			case exit.Right, exit.Difference: // otherwise the report tells of half a demo
				if report != nil {
					err = errors.Join(err, print(cmd, report, asJSON))
				}
			}
			return err
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.Var(&pacing{&o.Pacing}, "pacing", "how the captured frames are spaced on the way in: "+strings.Join(pacings(), ", "))
	f.Var(&loss{&o.Loss}, "loss", "probability that a link of the virtual hosts loses a frame")
	f.Uint64Var(&o.Seed, "seed", 1, "decides which frames are lost, and all else that is random")
	dataW(c, &o.DataW, &o.Sim)
	f.StringVar(&o.Data, "data", "testdata", "folder with the captures and gradients")
	f.StringVar(&o.OutDir, "out", "build/demo", "folder for what the demo writes")
	jsonFlag(c, &asJSON)
	complete(c, "pacing", pacings())
	return c
}

// loss is a flag of more than 0, up to what the hosts' retries endure.
type loss struct{ value *float64 }

func (l *loss) String() string {
	if l.value == nil {
		return ""
	}
	return strconv.FormatFloat(*l.value, 'g', -1, 64)
}
func (l *loss) Type() string { return "probability" }
func (l *loss) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) || v <= 0 || v > demo.MaxLoss {
		return fmt.Errorf("got %q, want more than 0, so that the engine must send again, and at most %g", s, demo.MaxLoss)
	}
	*l.value = v
	return nil
}
