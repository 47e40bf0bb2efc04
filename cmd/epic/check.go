package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/epic-inc/epic/golden/engine"
	"github.com/epic-inc/epic/golden/explore"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/host"
)

func checkCommand() *cobra.Command {
	c, o := explore.Default(), explore.Options{MemoryMB: 8192}
	var mistake, pcap string
	var asJSON, quiet bool
	var suite string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Model-check the protocol: every state that golden engines and hosts can come to",
		Long: `Check visits every state that the golden engines and hosts of a small group can come to, over channels that lose,
duplicate and reorder, and says whether every result is right, once and in order, and whether the end can be reached from
everywhere. With --loss, --dup and --reorder left at "any" a channel may do with a frame whatever it likes, however late.
What is found wrong is told step by step, on the shortest way there.`,
		Example: `  epic check --mode 3 --collective allreduce --ranks 3 --packets 4 --slots 2 --psn-bits 4
  epic check --mode 2 --slots 4 --mistake any-tag --packets 5 --pcap trace.pcapng
  epic check --suite short`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if c.Mistake, err = engine.ParseMistake(mistake); err != nil {
				return fmt.Errorf("--%w", err)
			}
			if !quiet {
				o.Progress = func(p explore.Progress) { fmt.Fprintln(cmd.ErrOrStderr(), p) }
			}
			if suite != "" {
				cases, err := explore.Named(suite)
				if err != nil {
					return fmt.Errorf("--suite: %w", err)
				}
				s, err := explore.RunCases(cmd.Context(), cases, o, cmd.ErrOrStderr())
				return errors.Join(print(cmd, s, asJSON), err)
			}
			save := func(*explore.Result) error { return nil }
			if pcap != "" { // a search may take hours: refuse a bad name before it
				f, err := os.Create(pcap)
				if err != nil {
					return fmt.Errorf("--pcap: %w", err)
				}
				save = func(r *explore.Result) error { return errors.Join(r.Trace.WritePcap(f), f.Close()) }
			}
			r, err := explore.Check(cmd.Context(), c, o)
			if err != nil {
				return err
			}
			return errors.Join(print(cmd, r, asJSON), save(r), r.Err())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&c.Mode, "mode", c.Mode, "protocol mode, 1..3")
	f.StringVar(&c.Collective, "collective", c.Collective, "allreduce, barrier, reduce, broadcast, or a list of them with commas")
	f.IntVar(&c.RootRank, "root-rank", 0, "root rank of a single reduce or broadcast")
	f.IntVar(&c.Ranks, "ranks", c.Ranks, "ranks")
	f.StringVar(&c.Tree, "tree", c.Tree, "shape of the tree: "+strings.Join(group.TreeShapes(), ", "))
	f.IntVar(&c.Packets, "packets", c.Packets, "packets of each collective")
	f.IntVar(&c.Message, "message", c.Message, "packets of a message")
	f.IntVar(&c.Window, "window", 0, "packets a rank may have outstanding; half the slots if 0, in mode 1 two messages")
	f.IntVar(&c.Slots, "slots", c.Slots, "slots of each pipe, N")
	f.IntVar(&c.PSNBits, "psn-bits", c.PSNBits, "width of a PSN; it wraps in the middle of the run")
	f.StringVar(&c.Preset, "preset", c.Preset, "how hosts behave: linux-rxe or strict-nic")
	f.BoolVar(&c.Unpinned, "unpinned", false, "control signals open the collectives")
	f.Var(bound{&c.Loss}, "loss", "frames lost in the run, or any")
	f.Var(bound{&c.Dup}, "dup", "frames that come twice, or any")
	f.Var(bound{&c.Reorder}, "reorder", "frames that a frame may overtake, or any")
	f.IntVar(&c.Lifetime, "lifetime", 0, "packets that a frame may outlive where PSNs come again; 2^psn-bits - 2N if 0")
	f.Var(bound{&c.Retries}, "retries", "timeouts in a row that an engine survives, or any")
	f.BoolVar(&c.Fine, "fine", false, "every internal event of an engine is a step of its own")
	f.BoolVar(&c.Waits, "waits", false, "let anything happen while a sender waits after an RNR NAK")
	f.BoolVar(&c.Strict, "strict", false, "the engine drops what is beyond a gap")
	f.StringVar(&mistake, "mistake", engine.NoMistake.String(), "break the golden engine in this way")
	f.StringVar(&suite, "suite", "", "run the cases whose verdict is known: short, long or all")
	f.BoolVar(&o.Exact, "exact", false, "merge no states")
	f.BoolVar(&o.Distinct, "distinct", false, "do not take equal ranks for each other")
	f.IntVar(&o.Workers, "workers", 0, "goroutines that search; as many as processors if 0")
	f.IntVar(&o.MemoryMB, "memory-mb", o.MemoryMB, "memory at which the search stops; 0: none")
	f.StringVar(&pcap, "pcap", "", "pcapng file for the frames of what is found; empty if nothing is")
	f.BoolVar(&quiet, "quiet", false, "no progress")
	jsonFlag(cmd, &asJSON)
	complete(cmd, "tree", group.TreeShapes())
	complete(cmd, "preset", host.Presets())
	return cmd
}

// bound is the flag of a number or any.
type bound struct{ n *int }

func (b bound) String() string {
	if b.n == nil {
		return ""
	}
	return explore.BoundText(*b.n)
}
func (b bound) Type() string             { return "N" }
func (b bound) Set(s string) (err error) { *b.n, err = explore.ParseBound(s); return err }
