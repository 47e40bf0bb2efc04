package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epic-inc/epic/driver/lab"
	"github.com/epic-inc/epic/driver/lab/matrix"
	"github.com/epic-inc/epic/driver/softswitch"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/tree"
)

func labCommand() *cobra.Command {
	return groupOf(&cobra.Command{
		Use:   "lab",
		Short: "Groups on one machine: namespaces, veths, software switches and wires that lose frames",
		Long: `Lab makes a network namespace for every host of a group, with an interface eth0 that has its MAC and
IP, and runs the group's switches in software. The wires between pace, delay, lose, duplicate and reorder
frames as the group's link says, from a seed: the n-th frame of a direction has the same fate each time.

It needs root, or CAP_SYS_ADMIN, CAP_NET_ADMIN and CAP_NET_RAW.`,
		Example: `  epic lab up --ranks 4 --loss 0.01 --seed 7
  epic lab run -- ip address show eth0
  epic lab status
  epic lab down`,
	}, labUp(), labDown(), labStatus(), labRun(), labAgain(), labMatrix())
}

// labName adds the flags that say which lab.
func labName(c *cobra.Command, name, folder *string) {
	c.Flags().StringVar(name, "name", lab.DefaultName, "name of the lab, 1..6 small letters and digits")
	c.Flags().StringVar(folder, "folder", lab.DefaultFolder, "folder of the labs' states")
}

func labUp() *cobra.Command {
	shape := lab.Shape()
	var o lab.Options
	var config []string
	var foreground bool
	c := &cobra.Command{
		Use:   "up",
		Short: "Make a lab and start its switches",
		Long: `Up makes the lab of a group of the given shape, or of the groups of --config, and returns when its switches run;
with --foreground it stays, shows their counters, and takes the lab down when it is interrupted. What a lab of
the name left that ended badly is removed first.`,
		Example: `  epic lab up --ranks 8 --mode 2 --paced --link-gbps 0.05
  epic lab up --config group.yaml --seed 7 --foreground`,
		Args: noArgs,
	}
	f := c.Flags()
	shapeFlags(f, &shape)
	names := shapeNames(f)
	f.StringArrayVar(&config, "config", nil, "group.yaml instead of a shape; more of them share its switches and hosts")
	f.BoolVar(&o.Paced, "paced", false, "hold the wires to the rate of the links (--link-gbps)")
	f.BoolVar(&o.Apart, "apart", false, "leave the switches out: how to start epic switch for each is printed")
	f.BoolVar(&foreground, "foreground", false, "stay, and show the counters of the switches")
	seedFlag(c, &o.Seed)
	labName(c, &o.Name, &o.Folder)
	completeShape(c)
	c.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		var s simFlags
		s.config = config
		if err := s.group(f, shape, names); err != nil {
			return err
		}
		groups := []*group.Group{s.options.Group}
		for _, b := range s.options.Beside {
			groups = append(groups, b.Group)
		}
		if o.Set, err = group.NewSet(groups...); err != nil {
			return err
		}
		o.Seed = seed(cmd, o.Seed)
		if err := o.Check(); err != nil {
			return err
		}
		if err := lab.Permitted(); err != nil {
			return err
		}
		if !foreground {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			args := []string{"lab", "up", "--foreground", "--seed=" + strconv.FormatUint(o.Seed, 10)}
			for _, file := range config {
				args = append(args, "--config="+file)
			}
			f.Visit(func(f *pflag.Flag) {
				if f.Name != "seed" && f.Name != "config" {
					args = append(args, "--"+f.Name+"="+f.Value.String())
				}
			})
			st, err := lab.Detach(o.Folder, o.Name, self, args...)
			if err != nil {
				return err
			}
			return writeLab(cmd.OutOrStdout(), st)
		}
		l, err := lab.Up(o)
		if err != nil {
			return err
		}
		err = errors.Join(writeLab(cmd.OutOrStdout(), &l.State), softswitch.Show(cmd.Context(), cmd.OutOrStdout(), l.Switches()...), l.Err())
		return errors.Join(err, l.Close())
	}
	return c
}

// writeLab says where things are.
func writeLab(w io.Writer, st *lab.State) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "lab %s\tprocess %d, up since %s, seed %d\n", st.Name, st.PID, st.Started.Format(time.TimeOnly), st.Seed)
	fmt.Fprintf(t, "groups\t%s\n", strings.Join(st.Groups, " "))
	fmt.Fprintf(t, "hosts\t%s, interface %s\n", strings.Join(st.Namespaces, " "), st.Interface)
	if len(st.Apart) == 0 {
		fmt.Fprintf(t, "switches\tunix:%s (/state, /metrics)\n", st.Socket)
	}
	for _, a := range st.Apart {
		command, err := a.Command(st.Groups)
		if err != nil {
			return err
		}
		fmt.Fprintf(t, "switch %s\t%s\n", a.Name, command)
	}
	return t.Flush()
}

func labDown() *cobra.Command {
	var name, folder string
	c := &cobra.Command{
		Use:     "down",
		Short:   "Take a lab down, also one whose process has ended",
		Example: "  epic lab down --name lab",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			removed, err := lab.Down(folder, name)
			if err != nil {
				return err
			}
			text := "nothing was left of lab " + name
			if len(removed) > 0 {
				text = "removed " + strings.Join(removed, " ")
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		},
	}
	labName(c, &name, &folder)
	return c
}

func labStatus() *cobra.Command {
	var folder string
	var asJSON bool
	c := &cobra.Command{
		Use:     "status",
		Short:   "List the labs that are up",
		Example: "  epic lab status --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := lab.All(folder)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(append([]*lab.State{}, all...))
			}
			if len(all) == 0 {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "no lab is up")
				return err
			}
			for _, st := range all {
				if err := writeLab(cmd.OutOrStdout(), st); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().StringVar(&folder, "folder", lab.DefaultFolder, "folder of the labs' states")
	jsonFlag(c, &asJSON)
	return c
}

func labRun() *cobra.Command {
	var name, folder string
	var groupIndex int
	var asItStands bool
	c := &cobra.Command{
		Use:   "run [--] COMMAND...",
		Short: "Run a command for every rank of a lab, in the namespace of its host",
		Long: `Run starts the command once for each rank, in its namespace, and waits for all. In its words {rank} stands for
the rank, {ranks} for how many there are, {group} for the file of the group and {interface} for the interface.
Lines of their output begin with the rank. It fails if one of them does.

Before that the lab's groups are created again, their PSNs 2^22 further on, so that nothing that earlier ranks left
counts; the file says where they begin. Not those of a lab whose switches are processes of their own (lab up --apart): there
ranks run once, until epic lab again. It ends with status 3 if all ranks that failed had lost another, or were killed.`,
		Example: `  epic lab run -- ip address show {interface}
  epic lab run -- epic rank allreduce --rank {rank} --group {group} --link raw:{interface} --in v{rank} --out s{rank}`,
		Args: files(1, "COMMAND"),
		RunE: func(cmd *cobra.Command, args []string) error {
			st, err := lab.Find(folder, name)
			if err != nil {
				return err
			}
			if groupIndex < 0 || groupIndex >= len(st.Groups) {
				return fmt.Errorf("--group: got %d, want 0..%d", groupIndex, len(st.Groups)-1)
			}
			switch {
			case asItStands:
			case len(st.Apart) > 0: // these have read the files
				err = st.Claim(groupIndex)
			default:
				err = st.Again(cmd.Context())
			}
			if err != nil {
				return err
			}
			return st.Run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), st.Commands(groupIndex, args)...)
		},
	}
	c.Flags().SetInterspersed(false)
	c.Flags().BoolVar(&asItStands, "as-it-stands", false, "do not create the groups again first: in Mode-II ranks may then get the results of those before them")
	c.Flags().IntVar(&groupIndex, "group", 0, "group whose ranks run it, of a lab with several")
	labName(c, &name, &folder)
	return c
}

func labAgain() *cobra.Command {
	var name, folder string
	c := &cobra.Command{
		Use:   "again",
		Short: "Create a lab's groups again on the same queue pairs, as lab run does before it runs anything",
		Long: `Again moves the first PSNs of a lab's groups by 2^22, so that nothing that earlier ranks left counts, and writes their
files anew. Switches that are apart (lab up --apart) have to be started again with them.`,
		Example: "  epic lab again --name lab",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			st, err := lab.Find(folder, name)
			if err != nil {
				return err
			}
			if err := st.Again(cmd.Context()); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "written: "+strings.Join(st.Groups, " "))
			return err
		},
	}
	labName(c, &name, &folder)
	return c
}

func labMatrix() *cobra.Command {
	var o matrix.Options
	var asJSON bool
	c := &cobra.Command{
		Use:   "matrix",
		Short: "Run collective x mode x ranks x size x loss in the lab; every result must be exact",
		Long: `Matrix runs a pairwise slice of the cases, or --whole, and goes on where it was stopped: results are kept
by case, seed and a hash of this program. The vectors are of int32, the packets of 4096 bytes.`,
		Example: `  epic lab matrix --budget 5m
  epic lab matrix --whole --mode 3 --loss 0.01 --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			for _, m := range o.Axes.Modes {
				if err := oneOf("mode", m, softswitch.Modes()); err != nil {
					return err
				}
			}
			var sizes []string
			for _, s := range matrix.Sizes() {
				sizes = append(sizes, s.Name)
			}
			if o.Axes.Sizes, err = levels("size", o.Axes.Sizes, sizes, asItIs); err != nil {
				return err
			}
			if o.Axes.Collectives, err = levels("collective", o.Axes.Collectives, tree.Collectives(), asItIs); err != nil {
				return err
			}
			for _, n := range o.Axes.Ranks {
				if n < tree.MinRanks || n > 64 {
					return fmt.Errorf("--ranks: got %d, want %d..64", n, tree.MinRanks)
				}
			}
			for _, p := range o.Axes.Losses {
				if !(p >= 0 && p < 1) {
					return fmt.Errorf("--loss: got %g, want 0 or more, and less than 1", p)
				}
			}
			o.Progress = cmd.ErrOrStderr()
			report, err := matrix.Run(cmd.Context(), o)
			if report == nil {
				return err
			}
			return errors.Join(print(cmd, report, asJSON), err)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.BoolVar(&o.Whole, "whole", false, "every case, not a pairwise slice")
	f.IntSliceVar(&o.Axes.Modes, "mode", nil, "protocol modes, all if absent")
	f.StringSliceVar(&o.Axes.Collectives, "collective", nil, "collectives, all if absent")
	f.IntSliceVar(&o.Axes.Ranks, "ranks", nil, "numbers of ranks, "+commas(matrix.Ranks())+" if absent")
	f.StringSliceVar(&o.Axes.Sizes, "size", nil, "names of sizes, all if absent")
	f.Float64SliceVar(&o.Axes.Losses, "loss", nil, "probabilities that a link loses a frame, 0 and 0.01 if absent")
	f.DurationVar(&o.Budget, "budget", 0, "time after which no case is begun; 0: none")
	f.DurationVar(&o.Limit, "limit", matrix.DefaultLimit, "time of one case after which it has failed")
	f.StringVar(&o.Results, "results", "", "results file, build/lab/results.jsonl if absent")
	f.Uint64Var(&o.Seed, "seed", 1, "decides vectors, roots, PSNs and which frames are lost")
	f.StringVar(&o.Name, "name", "matrix", "name of the lab that it makes")
	f.StringVar(&o.Folder, "folder", lab.DefaultFolder, "folder of the labs' states")
	jsonFlag(c, &asJSON)
	return c
}

func oneOf(flag string, got int, want []int) error {
	for _, w := range want {
		if got == w {
			return nil
		}
	}
	return fmt.Errorf("--%s: got %d, want one of %s", flag, got, commas(want))
}
