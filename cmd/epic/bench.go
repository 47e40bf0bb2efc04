package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/epic-inc/epic/cosim/bench"
	"github.com/epic-inc/epic/cosim/server"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

func benchRTL() *cobra.Command {
	o := bench.Options{}
	var dtypes []string
	var sim string
	var asJSON bool
	c := &cobra.Command{
		Use:   "rtl",
		Short: "Measure the engine's latency and how busy its ports can be",
		Long: `Bench runs one switch with golden's hosts at its ports, and golden beside it to check every byte.

Latency is counted with empty queues, from the beat of the completing packet that ends its headers to the
first beat of the result. Efficiency is the part of the clocks with a beat on the busier side, rx or tx,
while the hosts offer more than the engine can take.`,
		Example: "  epic bench rtl --data-w 512 --mode 3 --payload 256,1024,4096 --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.DTypes, err = levels("dtype", dtypes, nil, spec.ParseDType); err != nil {
				return err
			}
			for _, l := range []struct {
				flag string
				got  []int
				ok   func(int) bool
				want string
			}{
				{"data-w", o.DataW, func(n int) bool { return slices.Contains(dataWidths, n) }, commas(dataWidths)},
				{"mode", o.Modes, func(n int) bool { return n == 2 || n == 3 }, "2 or 3"},
				{"payload", o.Payloads, func(n int) bool { return n >= 0 && n <= 4096 }, "0..4096 bytes; 0: a Barrier"},
				{"ranks", o.Ranks, func(n int) bool { return n >= 2 && n <= 64 }, "2..64"},
			} {
				for _, n := range l.got {
					if !l.ok(n) {
						return fmt.Errorf("--%s: got %d, want %s", l.flag, n, l.want)
					}
				}
			}
			if o.Collectives, err = levels("collective", o.Collectives, tree.Collectives(), asItIs); err != nil {
				return err
			}
			if o.MinEfficiency < 0 || o.MinEfficiency > 1 {
				return fmt.Errorf("--min-efficiency: got %g, want 0..1", o.MinEfficiency)
			}
			if o.MaxClocksPerPacket < 0 {
				return fmt.Errorf("--max-clocks-per-packet: got %g, want 0 (no limit) or more", o.MaxClocksPerPacket)
			}
			o.Sim = func(w int) string {
				if sim != "" {
					return sim
				}
				return server.BinaryPath(server.BinaryFolder, w)
			}
			o.Progress = cmd.ErrOrStderr()
			report, err := bench.Run(cmd.Context(), o)
			if len(report) == 0 {
				return err
			}
			return errors.Join(print(cmd, report, asJSON), err)
		},
	}
	f := c.Flags()
	f.IntSliceVar(&o.DataW, "data-w", []int{512}, "widths of the data path in bits: "+commas(dataWidths))
	f.IntSliceVar(&o.Modes, "mode", []int{3}, "protocol modes: 2, 3")
	f.StringSliceVar(&dtypes, "dtype", []string{"int32"}, "element types")
	f.IntSliceVar(&o.Payloads, "payload", []int{0, 64, 256, 1024, 4096}, "payload bytes of every packet; 0: Barriers")
	f.IntSliceVar(&o.Ranks, "ranks", []int{4}, "ranks at the switch")
	f.StringSliceVar(&o.Collectives, "collective", []string{"allreduce"}, "collectives")
	f.BoolVar(&o.Reproducible, "reproducible", false, "reproducible pipes")
	f.StringVar(&sim, "sim", "", "simulator, build/sim/w<DATA_W>/inc_sim if absent")
	f.Uint64Var(&o.MaxLatency, "max-latency", 0, "clocks of latency above which the bench fails, with status 1")
	f.Float64Var(&o.MinEfficiency, "min-efficiency", 0, "part of the clocks that must be busy for payloads of max(256, 8 beats) bytes and up")
	f.Float64Var(&o.MaxClocksPerPacket, "max-clocks-per-packet", 0, "clocks that a smaller packet may take, if the clocks are not busy")
	seedFlag(c, &o.Seed)
	jsonFlag(c, &asJSON)
	return c
}
