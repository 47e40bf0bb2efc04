package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/epic-inc/epic/cmd/epic/internal/exit"
	"github.com/epic-inc/epic/cosim/matrix"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

// engines that `epic cosim matrix` runs its cases with.
var engines = []string{"local", "slurm"}

func cosimMatrix() *cobra.Command {
	o := matrix.Options{Seed: 1}
	var engine, shard string
	var modes, dtypes, ops, widths, mtus []string
	var asJSON bool
	c := &cobra.Command{
		Use:   "matrix",
		Short: "Run every combination of mode, collective, type, operator, width, MTU and tree",
		Long: `Matrix runs collectives in trees whose switches are all Verilog engines, each case with loss,
duplication, reordering and back-pressure everywhere and with PSNs that wrap. Without --whole it runs a
pairwise slice: every two levels of two factors that can stand together stand in a case (a covering array,
the same each time). A case that the build of the engine lacks is reported as unsupported, never as passed;
--require-all makes it a failure.

Results are kept in the file of --results, by case and by a hash of simulator and program: what passed is
not run again until one of them changes. --engine slurm hands --shards shards to an array job.`,
		Example: `  epic cosim matrix --budget 10m --json
  epic cosim matrix --whole --collective allreduce --data-w 512
  epic cosim matrix --whole --engine slurm --shards 64`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			o.Progress = cmd.ErrOrStderr()
			if o.Axes.Modes, err = levels("mode", modes, []int{2, 3}, strconv.Atoi); err != nil {
				return err
			}
			if o.Axes.DTypes, err = levels("dtype", dtypes, nil, spec.ParseDType); err != nil {
				return err
			}
			if o.Axes.Ops, err = levels("op", ops, nil, spec.ParseOp); err != nil {
				return err
			}
			if o.Axes.DataW, err = levels("data-w", widths, dataWidths, strconv.Atoi); err != nil {
				return err
			}
			if o.Axes.MTUs, err = levels("mtu", mtus, roce.MTUs(), strconv.Atoi); err != nil {
				return err
			}
			if o.Axes.Collectives, err = levels("collective", o.Axes.Collectives, tree.Collectives(), asItIs); err != nil {
				return err
			}
			if o.Axes.Trees, err = levels("tree", o.Axes.Trees, group.TreeShapes(), asItIs); err != nil {
				return err
			}
			if shard != "" {
				if o.Shard, o.Shards, err = oneOfMany(shard); err != nil || o.Shards == 0 {
					return fmt.Errorf("--shard: got %q, want I/N, as 0/8", shard)
				}
			}
			do := matrix.Run
			switch {
			case !slices.Contains(engines, engine):
				return fmt.Errorf("--engine: got %q, want one of %s", engine, strings.Join(engines, ", "))
			case engine == "slurm":
				do = matrix.Slurm
			case cmd.Flags().Changed("shards"):
				return errors.New("--shards: got it with --engine local, want --engine slurm, or --shard I/N for one of them")
			}
			report, err := do(cmd.Context(), o)
			if report == nil || exit.Of(err) == exit.Interrupted {
				return err
			}
			return errors.Join(err, print(cmd, report, asJSON))
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.BoolVar(&o.Whole, "whole", false, "every case, not the pairwise slice")
	f.StringSliceVar(&modes, "mode", nil, "only these modes")
	f.StringSliceVar(&o.Axes.Collectives, "collective", nil, "only these collectives")
	f.StringSliceVar(&dtypes, "dtype", nil, "only these element types")
	f.StringSliceVar(&ops, "op", nil, "only these operators")
	f.StringSliceVar(&widths, "data-w", nil, "only these widths of the data path")
	f.StringSliceVar(&mtus, "mtu", nil, "only these MTUs")
	f.StringSliceVar(&o.Axes.Trees, "tree", nil, "only these trees")
	f.BoolVar(&o.RequireAll, "require-all", false, "a case that the build lacks is a failure")
	f.DurationVar(&o.Budget, "budget", 0, "time after which no case is begun, as 10m; what is left is a failure. 0: no limit")
	f.IntVar(&o.Jobs, "jobs", 0, "cases at a time; 0: one a core")
	f.StringVar(&engine, "engine", "local", "who runs the cases: "+strings.Join(engines, ", "))
	f.IntVar(&o.Shards, "shards", 0, "shards of an array job")
	f.StringVar(&shard, "shard", "", "I/N: only every Nth case, from case I on (0..N-1)")
	f.StringVar(&o.Results, "results", "", "results file, build/matrix/results.jsonl if absent")
	f.StringVar(&o.Sims, "sims", "", "folder of the simulators, build/sim if absent")
	f.StringVar(&o.OutDir, "out", "", "folder for what explains a difference, build/matrix if absent")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "decides everything random")
	jsonFlag(c, &asJSON)
	complete(c, "engine", engines)
	complete(c, "collective", tree.Collectives())
	complete(c, "tree", group.TreeShapes())
	return c
}

// oneOfMany reads I/N.
func oneOfMany(s string) (i, n int, err error) {
	first, second, _ := strings.Cut(s, "/")
	i, err = strconv.Atoi(first)
	if err == nil {
		n, err = strconv.Atoi(second)
	}
	return i, n, err
}

// asItIs is the parse of levels that are words.
func asItIs(s string) (string, error) { return s, nil }

// levels reads the levels of a factor; allowed are those there are, nil: what parse takes.
func levels[T comparable](flag string, words []string, allowed []T, parse func(string) (T, error)) ([]T, error) {
	var list []T
	for _, w := range words {
		v, err := parse(w)
		if allowed != nil && (err != nil || !slices.Contains(allowed, v)) {
			return nil, fmt.Errorf("--%s: got %q, want one of %s", flag, w, commas(allowed))
		}
		if err != nil {
			return nil, fmt.Errorf("--%w", err) // as "dtype: got ..."
		}
		if slices.Contains(list, v) {
			return nil, fmt.Errorf("--%s: got %q twice, want each once", flag, w)
		}
		list = append(list, v)
	}
	return list, nil
}
