package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/epic-inc/epic/driver/coll"
	"github.com/epic-inc/epic/driver/job"
	"github.com/epic-inc/epic/golden/spec"
	"github.com/epic-inc/epic/golden/tree"
)

func rankCommand() *cobra.Command {
	return groupOf(&cobra.Command{
		Use:   "rank",
		Short: "Take part in a collective as one rank, from file to file",
		Long: `A rank sends its vector through the network, a switch reduces or copies it on the way, and the result comes
back into a file. Every rank gives the same command but for --rank, --link and its files. Where the network does not
carry the collective the ranks do it among themselves, as a ring, and say why.

Who the others are and what the switches do, a group file says (--group, for switches that are programmed from the same
file) or a control plane (--control). Vectors are elements one after the other, little-endian.

A raw link needs the capability CAP_NET_RAW: root, or setcap cap_net_raw+ep on the program.`,
		Example: `  epic rank allreduce --rank 0 --group group.yaml --link raw:eth0 --in grad0.f32 --dtype f32 --op sum --out sum0.f32
  epic rank barrier --rank 1 --ranks 4 --job train --control 10.0.0.9:7700 --link raw:eth0`,
	},
		rankCollective(tree.AllReduce, "Reduce the vectors of all ranks into every rank's file"),
		rankCollective(tree.Reduce, "Reduce the vectors of all ranks into the root's file"),
		rankCollective(tree.Broadcast, "Copy the root's vector to every rank"),
		rankCollective(tree.Barrier, "Wait until every rank has come"),
		rankCollective(tree.ReduceScatter, "Reduce the vectors of all ranks, and give each rank its part"),
		rankCollective(tree.AllGather, "Put the ranks' parts together in every rank's file"))
}

func rankCollective(kind tree.Collective, short string) *cobra.Command {
	o := job.Options{Collective: kind, DType: spec.DTypeFloat32, Op: spec.OpSum}
	var asJSON, quiet bool
	var algorithm string
	example := "  epic rank " + kind.String() + " --rank 0 --group group.yaml --link raw:eth0"
	if kind != tree.Barrier {
		example += " --in vector --out result"
	}
	c := &cobra.Command{
		Use:     kind.String(),
		Short:   short,
		Example: example,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Algorithm, err = coll.ParseAlgorithm(algorithm); err != nil {
				return fmt.Errorf("--algorithm: %w", err)
			}
			o.Notice = func(s string) {
				if !quiet {
					fmt.Fprintln(cmd.ErrOrStderr(), "epic: "+s)
				}
			}
			r, err := job.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), r)
			}
			return r.WriteText(cmd.OutOrStdout())
		},
	}
	f := c.Flags()
	f.IntVar(&o.Rank, "rank", 0, "number of this rank, from 0")
	f.StringVar(&o.Link, "link", "", "raw:INTERFACE, raw:INTERFACE@NAMESPACE or datagram:LOCAL,REMOTE (UDP addresses; a datagram is a frame)")
	f.StringVar(&o.Group, "group", "", "group.yaml from which the switches are programmed")
	f.StringVar(&o.Control, "control", "", "host:port of the control plane, in place of --group")
	if kind != tree.Barrier {
		f.StringVar(&o.In, "in", "", "file of the vector that this rank gives")
		f.StringVar(&o.Out, "out", "", "file for the result; it may be that of --in")
	}
	if kind != tree.Barrier && kind != tree.Broadcast {
		f.Var(&named[spec.DType]{&o.DType, parseDType, words[spec.DType]()}, "dtype", "type of the elements: "+strings.Join(words[spec.DType](), ", ")+"; or i32, u32, i64, f32, f16, bf16, i8")
	}
	if kind == tree.AllReduce || kind == tree.Reduce || kind == tree.ReduceScatter {
		f.Var(&named[spec.Op]{&o.Op, spec.ParseOp, words[spec.Op]()}, "op", "how elements are reduced: "+strings.Join(words[spec.Op](), ", "))
	}
	if kind.HasRoot() {
		f.IntVar(&o.Root, "root", 0, "rank of the root")
	}
	switch kind {
	case tree.Broadcast:
		f.IntVar(&o.Bytes, "bytes", 0, "bytes of the root's vector, for the other ranks")
	case tree.AllGather:
		f.IntVar(&o.Bytes, "bytes", 0, "bytes of the result; 0: as many from each rank as from this")
	}
	f.StringVar(&algorithm, "algorithm", coll.Algorithms()[0], "who does it: auto (the network, else the ranks), network, or ring (the ranks)")
	f.DurationVar(&o.Patience, "patience", coll.DefaultPatience, "how long nothing may move before it is given up, while every rank is alive")
	f.StringVar(&o.Name, "job", "", "name of the job, the same at every rank")
	f.IntVar(&o.Ranks, "ranks", 0, "number of ranks, with --control")
	f.StringVar(&o.MAC, "mac", "", "MAC address of this rank, with --control; absent: the interface's")
	f.StringVar(&o.IP, "ip", "", "IP address of this rank, with --control; absent: the interface's")
	f.StringVar(&o.Switch, "switch", "", "switch at which this rank is, with --control, if its file does not say")
	f.IntVar(&o.Port, "port", 0, "port of that switch")
	f.IntVar(&o.Mode, "mode", 0, "protocol mode to ask the control plane for, 1 to 3; 0: any")
	f.BoolVar(&o.Reproducible, "reproducible", false, "ask the control plane for sums in the order of ranks")
	f.BoolVar(&quiet, "quiet", false, "do not say that the ranks take the network's place")
	jsonFlag(c, &asJSON)
	f.SortFlags = false
	return c
}

// parseDType takes the short names that frameworks use, too.
func parseDType(s string) (spec.DType, error) {
	short := map[string]spec.DType{"i32": spec.DTypeInt32, "u32": spec.DTypeUint32, "i64": spec.DTypeInt64, "f32": spec.DTypeFloat32,
		"f16": spec.DTypeFloat16, "bf16": spec.DTypeBfloat16, "i8": spec.DTypeInt8}
	if d, ok := short[s]; ok {
		return d, nil
	}
	return spec.ParseDType(s)
}
