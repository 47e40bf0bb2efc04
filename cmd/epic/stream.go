package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/epic-inc/epic/driver/stream"
	"github.com/epic-inc/epic/driver/stream/bench"
)

func boardStream() *cobra.Command {
	var o stream.Options
	var load stream.Load
	var file string
	var gbps float64
	var asJSON, quiet bool
	c := &cobra.Command{
		Use:   "stream",
		Short: "Play frames through a NIC at a rate, and count what comes back",
		Long: `Stream plays the frames of a capture, or made ones (SENDs of one packet), through a network interface: as fast as it can, or at a
rate. What arrives at --receive is held against what was sent: lost, doubled, overtaken, changed. If anything is, the status is 1.
A board forwards frames that are not for its engine from port to port, so two NICs at two ports, or a veth, close the circle.

It needs the capability CAP_NET_RAW: root, or setcap cap_net_raw+ep on the program.`,
		Example: `  epic board stream --send eth1 --receive eth2 --payload 1024 --frames 1000000 --rate 100000
  epic board stream --send eth1 --receive eth2 --capture frames.pcapng --frames 100000 --json
  epic board stream --send eth1 --receive - --payload 64 --frames 10000000`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Send == "" {
				return errors.New("--send: got none, want the interface that the frames go through")
			}
			if gbps != 0 && o.Rate != 0 {
				return fmt.Errorf("got --rate %g and --gbps %g, want one of them", o.Rate, gbps)
			}
			if file != "" {
				o.Frames, err = stream.Capture(file)
			} else {
				o.Frames, err = load.Make()
			}
			if err != nil {
				return err
			}
			if gbps != 0 {
				o.Rate = stream.RateOf(o.Frames, gbps)
			}
			if !quiet && term.IsTerminal(os.Stderr.Fd()) {
				o.Progress = cmd.ErrOrStderr()
			}
			r, err := stream.Run(cmd.Context(), o)
			if r == nil {
				return err
			}
			return errors.Join(print(cmd, r, asJSON), err, r.Err())
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.Send, "send", "", "interface that the frames go through: NAME or NAME@NAMESPACE")
	f.StringVar(&o.Receive, "receive", "", "interface at which they come back, if not the same; - : nobody listens")
	f.StringVar(&file, "capture", "", "pcap or pcapng file of the frames; without one they are made")
	f.IntVar(&load.Payload, "payload", 1024, "bytes of a made frame's payload")
	f.IntVar(&load.Flows, "flows", 4, "queue pairs of made frames")
	f.IntVar(&load.Frames, "different", 4096, "made frames that are different; then they come again")
	f.Uint64Var(&load.Seed, "seed", 1, "decides the made payloads")
	f.Uint64Var(&o.Total, "frames", 0, "frames to send; 0: each once")
	f.Float64Var(&o.Rate, "rate", 0, "frames a second; 0: as many as can be")
	f.Float64Var(&gbps, "gbps", 0, "rate in Gb/s of frames, in place of --rate")
	f.DurationVar(&o.Linger, "linger", stream.DefaultLinger, "how long to wait when no more come")
	f.BoolVar(&quiet, "quiet", false, "no progress bar")
	jsonFlag(c, &asJSON)
	return c
}

func benchStream() *cobra.Command {
	var o bench.Options
	var asJSON bool
	c := &cobra.Command{
		Use:   "stream",
		Short: "Measure how many frames a second are played, received and checked, against tcpreplay",
		Long: `Bench stream plays frames into a veth as fast as it can, with nobody at the other end and then receiving and checking all of them there, and runs
tcpreplay at top speed on the same veth, in turn. Rates are those of the machine; their ratio is judged where nobody receives,
which is all that tcpreplay does. It needs root.`,
		Example: "  epic bench stream --payload 64,1024 --min-ratio 0.9 --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := bench.Run(cmd.Context(), o)
			if r == nil {
				return err
			}
			return errors.Join(print(cmd, r, asJSON), err)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.IntSliceVar(&o.Payloads, "payload", []int{64, 1024}, "bytes of the frames' payloads")
	f.IntVar(&o.Frames, "frames", 1<<20, "frames of a run")
	f.IntVar(&o.Rounds, "rounds", 3, "runs of each, in turn; the best are compared")
	f.Float64Var(&o.MinRatio, "min-ratio", 0, "ratio below which the bench fails, with status 1, where nobody receives")
	f.Uint64Var(&o.Seed, "seed", 1, "decides the payloads")
	jsonFlag(c, &asJSON)
	return c
}
