package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/inspect"
)

func decodeCommand() *cobra.Command {
	var asJSON, ports bool
	var config, sw string
	c := &cobra.Command{
		Use:   "decode FILE...",
		Short: "Print the frames of captures: fields, and what an engine would do with them and why",
		Long: `Decode prints a line for each frame of pcap and pcapng files; "-" is standard input. The verdict
is that of the checks that need no table; with --config also of those that do.`,
		Example: `  epic decode capture.pcap
  epic decode --config group.yaml --json rank0.pcap rank1.pcap`,
		Args: files(1, "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var opt inspect.Options
			if config != "" {
				g, err := group.Load(config)
				if err != nil {
					return err
				}
				if opt.Check, err = g.Classifier(sw); err != nil {
					return fmt.Errorf("--switch: %w", err)
				}
			} else if sw != "" || ports {
				return errors.New("--switch and --ports: got no --config, want one: only its tables have switches and ports")
			}
			opt.Ports = ports
			for _, name := range args {
				if err := decode(cmd, name, opt, asJSON); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().StringVar(&config, "config", "", "group.yaml whose tables the frames are held to")
	c.Flags().StringVar(&sw, "switch", "", "switch of --config where the frames came in; any that knows the frame if absent")
	c.Flags().BoolVar(&ports, "ports", false, "interface n of a pcapng file is port n of the switch")
	jsonFlag(c, &asJSON)
	markYAML(c)
	return c
}

func decode(cmd *cobra.Command, name string, opt inspect.Options, asJSON bool) error {
	out := cmd.OutOrStdout()
	emit, table := inspect.JSON(out), (*inspect.Table)(nil)
	if !asJSON {
		table = inspect.NewTable(out)
		emit = table.Add
	}
	frames := 0
	count := func(r inspect.Record) error {
		frames++
		return emit(r)
	}
	var err error
	if name == "-" {
		err = inspect.Stream(cmd.Context(), "standard input", cmd.InOrStdin(), opt, count)
	} else {
		err = inspect.File(cmd.Context(), name, opt, count)
	}
	if table != nil && (err == nil || frames > 0) { // of a file that is no capture there is nothing to count
		err = errors.Join(err, table.Close())
	}
	return err
}

// markYAML lets the shell complete --config with YAML files.
func markYAML(c *cobra.Command) {
	if err := c.MarkFlagFilename("config", "yaml", "yml"); err != nil {
		panic(err) // there is no such flag: a mistake in this file
	}
}
