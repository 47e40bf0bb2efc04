package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/epic-inc/epic/driver/lab"
	"github.com/epic-inc/epic/driver/lab/bench"
	"github.com/epic-inc/epic/driver/softswitch"
)

func benchLab() *cobra.Command {
	var o bench.Options
	var asJSON bool
	c := &cobra.Command{
		Use:   "lab",
		Short: "Measure AllReduce in the lab: through the network, and by the hosts' ring over the same veths",
		Long: `Bench lab reduces a vector of float32 in the lab, once through the software switch and once by a ring of the same
ranks over the same links, all held to one rate that is below what the machine can carry. A ring sends
2(D-1)/D times what the network takes; the ratio of both speeds is held against that. Rates without pacing are
those of the machine and judged by nobody. Small AllReduces are timed beside a ping-pong of two hosts.`,
		Example: "  epic bench lab --ranks 4,8 --bytes 67108864 --link-gbps 0.01 --min-ratio 0.85 --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, n := range o.Ranks {
				if n < bench.MinRanks || n > 64 {
					return fmt.Errorf("--ranks: got %d, want %d..64", n, bench.MinRanks)
				}
			}
			if err := oneOf("mode", o.Mode, softswitch.Modes()); err != nil {
				return err
			}
			if !(o.Gbps > 0) {
				return fmt.Errorf("--link-gbps: got %g, want more than 0", o.Gbps)
			}
			if o.Rounds < 0 {
				return fmt.Errorf("--rounds: got %d, want 0 or more", o.Rounds)
			}
			o.Progress = cmd.ErrOrStderr()
			report, err := bench.Run(cmd.Context(), o)
			if report == nil || len(report.Rows) == 0 {
				return err
			}
			return errors.Join(print(cmd, report, asJSON), err)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.IntSliceVar(&o.Ranks, "ranks", []int{4, 8}, "numbers of ranks")
	f.IntVar(&o.Mode, "mode", 3, "protocol mode")
	f.IntVar(&o.Bytes, "bytes", 64<<20, "bytes of each rank's vector")
	f.Float64Var(&o.Gbps, "link-gbps", 0.01, "rate of every link, in each direction")
	f.Float64Var(&o.MinRatio, "min-ratio", 0, "part of the ideal ratio below which the bench fails, with status 1")
	f.BoolVar(&o.Unpaced, "unpaced", true, "measure without pacing too")
	f.StringVar(&o.Profile, "cpuprofile", "", "file for a CPU profile of the unpaced AllReduce through the network, of the last of --ranks (go tool pprof)")
	f.IntVar(&o.Rounds, "rounds", 1000, "AllReduces of 8 bytes, and round trips; 0: none")
	f.Uint64Var(&o.Seed, "seed", 1, "decides the vectors")
	f.StringVar(&o.Name, "name", "bench", "name of the lab that it makes")
	f.StringVar(&o.Folder, "folder", lab.DefaultFolder, "folder of the labs' states")
	jsonFlag(c, &asJSON)
	return c
}
