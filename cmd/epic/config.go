package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

func configCommand() *cobra.Command {
	return groupOf(&cobra.Command{
		Use:   "config",
		Short: "Check, show and make group.yaml, the one configuration file",
		Example: `  epic config generate --ranks 9 --tree two-level > group.yaml
  epic config check group.yaml
  epic config show --tree group.yaml`,
	}, configCheck(), configShow(), configGenerate(), configSchema())
}

func configCheck() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "check FILE...",
		Short: "Say what is wrong with a configuration, by line and column",
		Long: `Check reads each file and says everything that is wrong with it, a line each:
FILE:LINE:COLUMN: FIELD: what was got, and what is allowed.`,
		Example: "  epic config check group.yaml",
		Args:    files(1, "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var wrong group.Problems
			for _, name := range args {
				g, err := group.Load(name)
				var p group.Problems
				if err != nil && !errors.As(err, &p) {
					p = group.Problems{{File: name, Message: message(err)}}
				}
				wrong = append(wrong, p...)
				if asJSON {
					if p == nil {
						p = group.Problems{}
					}
					if err := printJSON(cmd.OutOrStdout(), checked{name, len(p) == 0, p}); err != nil {
						return err
					}
				} else if g != nil {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: right: %s\n", name, g.Summary())
				}
			}
			if len(wrong) > 0 {
				return wrong
			}
			return nil
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

type checked struct {
	File     string         `json:"file"`
	Right    bool           `json:"right"`
	Problems group.Problems `json:"problems"`
}

// message is what an error of the file system says, without the file's name, which comes before it.
func message(err error) string {
	var p *os.PathError
	if errors.As(err, &p) {
		return fmt.Sprintf("cannot be read: %v", p.Err)
	}
	return err.Error()
}

func configShow() *cobra.Command {
	var asTree, asJSON bool
	c := &cobra.Command{
		Use:   "show FILE",
		Short: "Print a configuration with its defaults filled in, or a drawing of its IncTree",
		Example: `  epic config show group.yaml
  epic config show --tree group.yaml`,
		Args: exactly(1, "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			g, err := group.Load(args[0])
			if err != nil {
				return err
			}
			switch {
			case asTree && asJSON:
				return errors.New("--tree: contradicts --json, want one of them")
			case asTree:
				text, err := g.Draw()
				if err != nil {
					return fmt.Errorf("%s: %w", args[0], err)
				}
				_, err = fmt.Fprint(cmd.OutOrStdout(), text)
				return err
			case asJSON:
				return printJSON(cmd.OutOrStdout(), g)
			}
			text, err := g.Marshal()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	c.Flags().BoolVar(&asTree, "tree", false, "draw the IncTree")
	jsonFlag(c, &asJSON)
	return c
}

func configGenerate() *cobra.Command {
	o := group.DefaultOptions()
	var out string
	c := &cobra.Command{
		Use:   "generate",
		Short: "Make a configuration of a given shape",
		Example: `  epic config generate --ranks 4 --psn0 0xfffff0 > group.yaml
  epic config generate --ranks 16 --tree two-level --mtu 4096 --loss 0.001 --out group.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			g, err := group.Generate(o)
			if err != nil {
				return err
			}
			text, err := g.Marshal()
			if err != nil {
				return err
			}
			if out != "" {
				return os.WriteFile(out, text, 0o644)
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	shapeFlags(c.Flags(), &o)
	completeShape(c)
	c.Flags().StringVarP(&out, "out", "o", "", "file to write instead of standard output")
	return c
}

func configSchema() *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON schema of group.yaml, for editors",
		Example: "  epic config schema > group.schema.json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(group.Schema())
			return err
		},
	}
}

// exactly wants n arguments of the named kind.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return fmt.Errorf("%s: got %d %s, want %d (%s)", cmd.CommandPath(), len(args), what, n, cmd.UseLine())
		}
		return nil
	}
}

// shapeFlags are the flags that say what group.Generate makes. Their names are those of
// group.OptionError.
func shapeFlags(f *pflag.FlagSet, o *group.Options) {
	f.IntVar(&o.Ranks, "ranks", o.Ranks, "number of ranks, at least 2; at most 64 at one switch")
	f.StringVar(&o.Tree, "tree", o.Tree, "shape of the IncTree: "+strings.Join(group.TreeShapes(), ", "))
	f.StringVar(&o.Collective, "collective", o.Collective, strings.Join(tree.Collectives(), ", ")+"; or several, as allreduce,reduce:2,allgather (root ranks after a colon)")
	f.IntVar(&o.RootRank, "root-rank", o.RootRank, "root of a reduce or broadcast that is not in a list")
	f.Var(&named[spec.Op]{&o.Op, spec.ParseOp, words[spec.Op]()}, "op", "how elements are reduced: "+strings.Join(words[spec.Op](), ", "))
	f.Var(&named[spec.DType]{&o.DType, spec.ParseDType, words[spec.DType]()}, "dtype", "type of the elements: "+strings.Join(words[spec.DType](), ", "))
	f.BoolVar(&o.Unpinned, "unpinned", o.Unpinned, "control signals open the collectives and say op and dtype")
	f.BoolVar(&o.Reproducible, "reproducible", o.Reproducible, "reduce in the order of endpoints, whatever the order of arrival")
	f.IntVar(&o.Mode, "mode", o.Mode, "protocol mode, 1 to 3")
	f.IntVar(&o.MTU, "mtu", o.MTU, "payload bytes of a full packet: 256, 512, 1024, 2048 or 4096")
	f.Uint64Var(&o.PSN0, "psn0", o.PSN0, "first PSN, 24 bits")
	f.IntVar(&o.Slots, "slots", o.Slots, "slots of each pipe, a power of two")
	f.Float64Var(&o.Loss, "loss", o.Loss, "probability that a link loses a frame")
	f.Float64Var(&o.Dup, "dup", o.Dup, "probability that a link delivers a frame twice")
	f.Float64Var(&o.Reorder, "reorder", o.Reorder, "probability that a link holds a frame back behind later ones")
	f.Float64Var(&o.DelayNs, "link-delay", o.DelayNs, "delay of a link, one way, in ns")
	f.Float64Var(&o.Gbps, "link-gbps", o.Gbps, "bandwidth of a link in Gb/s")
	f.Float64Var(&o.ClockMHz, "clock-mhz", o.ClockMHz, "clock of the engines in MHz")
	f.IntVar(&o.ClocksPerTick, "clocks-per-tick", o.ClocksPerTick, "clocks of one timer tick, nominally 10 us: the time scale")
	f.IntVar(&o.TimeoutTicks, "timeout", o.TimeoutTicks, "retransmission timeout in ticks")
	f.IntVar(&o.AckEvery, "ack-every", o.AckEvery, "packets between acknowledgements, at most a quarter of the slots")
	f.IntVar(&o.RNRCode, "rnr-code", o.RNRCode, "timer code of RNR NAKs, 0 to 31")
	f.IntVar(&o.MessagePackets, "message-packets", o.MessagePackets, "packets of one message")
	f.IntVar(&o.WindowPackets, "window", o.WindowPackets, "packets a rank may have unacknowledged; 0: half the slots")
	f.IntVar(&o.HostTimeout, "host-timeout", o.HostTimeout, "ACK timeout of the ranks' NICs: 4.096 us x 2^code, 0 for none")
	f.StringVar(&o.Preset, "preset", o.Preset, "how the ranks' NICs behave: "+strings.Join(host.Presets(), " or "))
	f.SortFlags = false
}

// enum is a numbered name of the spec, from 0 on.
type enum interface {
	~uint8
	fmt.Stringer
	Valid() bool
}

// named is a flag that takes such a name.
type named[T enum] struct {
	value *T
	parse func(string) (T, error)
	of    []string
}

func (n *named[T]) String() string {
	if n.value == nil {
		return ""
	}
	return (*n.value).String()
}
func (n *named[T]) Type() string { return "name" }
func (n *named[T]) Set(s string) error {
	v, err := n.parse(s)
	if err != nil {
		return fmt.Errorf("got %q, want one of %s", s, strings.Join(n.of, ", "))
	}
	*n.value = v
	return nil
}

// words are all the names.
func words[T enum]() []string {
	var list []string
	for v := T(0); v.Valid(); v++ {
		list = append(list, v.String())
	}
	return list
}

// completeShape completes the values of the shape flags.
func completeShape(c *cobra.Command) {
	for flag, values := range map[string][]string{
		"tree":       group.TreeShapes(),
		"collective": tree.Collectives(),
		"mode":       {"1", "2", "3"},
		"mtu":        {"256", "512", "1024", "2048", "4096"},
		"preset":     host.Presets(),
	} {
		if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // a flag of that name does not exist: a mistake in this file
		}
	}
}
