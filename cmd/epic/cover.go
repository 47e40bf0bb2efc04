package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/epic-inc/epic/cosim/points"
	"github.com/epic-inc/epic/cosim/run"
)

func cosimCover() *cobra.Command {
	var sample bool
	c := &cobra.Command{
		Use:   "cover REPORT...",
		Short: "Add up what the runs of reports reached of all that can happen",
		Long: `Cover adds up the points of functional coverage that runs reached (--report of epic cosim run, replay and
fuzz), and prints how many of each kind there are. A point that no run reached is an error, unless it is one
that cannot happen (cosim/points/never.yaml); and if one of those was reached, that is an error too.`,
		Example: "  epic cosim cover build/coverage/w64/*/report.json",
		Args:    files(1, "REPORT"),
	}
	c.Flags().BoolVar(&sample, "sample", false, "the reports are some of the runs: points that none reached are counted, and no error")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		counts := points.Counts{}
		for _, name := range args {
			file, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			var r run.Report
			if err := json.Unmarshal(file, &r); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if r.Cover == nil {
				return fmt.Errorf("%s: got no points, want the report of a run", name)
			}
			counts.Add(r.Cover)
		}
		t, err := points.Tabulate(counts)
		if err != nil {
			return err
		}
		if err := t.WriteText(cmd.OutOrStdout()); err != nil {
			return err
		}
		for _, name := range t.Against {
			fmt.Fprintf(cmd.ErrOrStderr(), "  %s was reached: never.yaml says that it cannot happen\n", name)
		}
		for _, name := range t.Missed {
			fmt.Fprintf(cmd.ErrOrStderr(), "  %s was not reached\n", name)
		}
		if n := len(t.Against); n > 0 {
			return fmt.Errorf("%w: %d points that cannot happen were reached", run.ErrDifference, n)
		}
		if n := len(t.Missed); n > 0 && !sample {
			return fmt.Errorf("%w: %d points were not reached", run.ErrDifference, n)
		}
		return nil
	}
	return c
}
