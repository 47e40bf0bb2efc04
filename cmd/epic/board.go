package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	cosimboard "github.com/epic-inc/epic/cosim/board"
	"github.com/epic-inc/epic/driver/board"
	"github.com/epic-inc/epic/driver/device/uart"
)

func boardCommand() *cobra.Command {
	return groupOf(&cobra.Command{
		Use:   "board",
		Short: "Boards: what they are, their bitstreams and registers, by a serial line",
		Long: `Board reaches a board by its UART bridge (docs/serial.md): it loads bitstreams into the flash behind the golden
image, and reads and writes the engine's registers. docs/boards.md has the first steps with a board.`,
		Example: `  epic board list
  epic board info --port /dev/ttyUSB0
  epic board load engine.bit --port /dev/ttyUSB0 --reload
  epic board reg ID SCRATCH=0x1234 SCRATCH --port /dev/ttyUSB0`,
	}, boardList(), boardInfo(), boardLoad(), boardReg(), boardCounters(), boardProgram(), boardStream(), boardVirtual())
}

// boardWhere adds the flags that say which board.
func boardWhere(c *cobra.Command, w *board.Where) {
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&w.Port, "port", "", "serial port of the board; may be left out if there is only one")
	f.IntVar(&w.Baud, "baud", uart.DefaultBaud, "rate of the board's bridge")
}

func boardList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Short: "List the serial ports there are, and the FPGAs whose bitstreams are known",
		Example: "  epic board list",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return print(cmd, board.List(), asJSON) },
	}
	jsonFlag(c, &asJSON)
	return c
}

func boardInfo() *cobra.Command {
	var w board.Where
	var asJSON bool
	c := &cobra.Command{
		Use: "info", Short: "Say what a board is: FPGA, clock, flash, engine",
		Example: "  epic board info --port /dev/ttyUSB0",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, err := board.Ask(cmd.Context(), w)
			if err != nil {
				return err
			}
			return print(cmd, info, asJSON)
		},
	}
	boardWhere(c, &w)
	jsonFlag(c, &asJSON)
	return c
}

func boardLoad() *cobra.Command {
	var o board.LoadOptions
	var asJSON, quiet bool
	c := &cobra.Command{
		Use:   "load FILE",
		Short: "Load a bitstream into a board's flash",
		Long: `Load checks the file (all of it, and that it is for the board's FPGA), compares it with what is in the flash, erases
and writes what differs, and reads it back. The golden image, with which the board comes up, is never written; so
Ctrl-C, or a cable pulled, leaves a board that boots, and the next load goes on where this one was. The first load of
a new board, which has no bridge yet, is that of the golden image by JTAG: --via openfpgaloader.`,
		Example: `  epic board load engine.bit --port /dev/ttyUSB0 --reload
  epic board load golden.bit --via openfpgaloader --jtag-board ecpix5`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%s: got %d files, want one bitstream (%s)", cmd.CommandPath(), len(args), cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.File = args[0]
			if !quiet && term.IsTerminal(os.Stderr.Fd()) {
				o.Progress = cmd.ErrOrStderr()
			}
			l, err := board.Load(cmd.Context(), o)
			if err != nil {
				return err
			}
			return print(cmd, l, asJSON)
		},
	}
	boardWhere(c, &o.Where)
	f := c.Flags()
	f.BoolVar(&o.Reload, "reload", false, "let the FPGA load the image when it is there")
	f.StringVar(&o.Via, "via", board.Ways[0], "how: "+strings.Join(board.Ways, ", "))
	f.StringVar(&o.JTAGBoard, "jtag-board", "", "name of the board in openFPGALoader")
	f.StringVar(&o.JTAGCable, "jtag-cable", "", "cable of openFPGALoader, if not the board's own")
	f.BoolVar(&quiet, "quiet", false, "no progress bar")
	jsonFlag(c, &asJSON)
	complete(c, "via", board.Ways)
	return c
}

func boardReg() *cobra.Command {
	var w board.Where
	var asJSON bool
	c := &cobra.Command{
		Use:   "reg [NAME|ADDRESS][=VALUE]...",
		Short: "Read and write registers, in the order given; without any, read all that are no arrays",
		Example: `  epic board reg --port /dev/ttyUSB0
  epic board reg SCRATCH=0x1234 SCRATCH TABLE_DATA[3] 0x30 --port /dev/ttyUSB0`,
		RunE: func(cmd *cobra.Command, args []string) error {
			values, err := board.Registers(cmd.Context(), w, args)
			if err != nil {
				return err
			}
			return print(cmd, values, asJSON)
		},
	}
	boardWhere(c, &w)
	jsonFlag(c, &asJSON)
	return c
}

func boardCounters() *cobra.Command {
	var w board.Where
	var asJSON bool
	c := &cobra.Command{
		Use:     "counters",
		Short:   "Read the engine's counters: those that are not 0, or with --json all",
		Example: "  epic board counters --port /dev/ttyUSB0",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			counts, err := board.Counters(cmd.Context(), w)
			if err != nil {
				return err
			}
			return print(cmd, counts, asJSON)
		},
	}
	boardWhere(c, &w)
	jsonFlag(c, &asJSON)
	return c
}

func boardProgram() *cobra.Command {
	var o board.ProgramOptions
	var asJSON bool
	c := &cobra.Command{
		Use:   "program FILE",
		Short: "Write the tables of a switch of a group.yaml into a board's engine",
		Long: `Program writes the endpoints and pipes of one switch of the file into the engine, sets its timers by the clock that the
bridge tells, and returns when every pipe takes data. The engine must be as after its reset.`,
		Example: "  epic board program group.yaml --port /dev/ttyUSB0",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%s: got %d files, want one group.yaml (%s)", cmd.CommandPath(), len(args), cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.File = args[0]
			p, err := board.Program(cmd.Context(), o)
			if err != nil {
				return err
			}
			return print(cmd, p, asJSON)
		},
	}
	boardWhere(c, &o.Where)
	c.Flags().StringVar(&o.Switch, "switch", "", "which switch of the file; may be left out if it has one")
	jsonFlag(c, &asJSON)
	return c
}

func boardVirtual() *cobra.Command {
	var root string
	var interfaces []string
	c := &cobra.Command{
		Use:   "virtual",
		Short: "Run the virtual board: the core of every board under Verilator",
		Long: `Virtual builds the bench of cosim/board (a few minutes the first time), prints the path of its serial port, and runs
until Ctrl-C. Its four Ethernet ports are at the network interfaces given, in their order, as packet sockets: one end
of a veth, or a NIC; root or CAP_NET_RAW. Time on the board passes only while something is under way; what it was,
against wall time, is printed at the end.`,
		Example: `  epic board virtual
  epic board virtual --ethernet veth0 --ethernet veth1 --ethernet veth2 --ethernet veth3`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cosimboard.Run(cmd.Context(), root, interfaces, cmd.OutOrStdout())
		},
	}
	c.Flags().StringVar(&root, "root", ".", "the repository")
	c.Flags().StringArrayVar(&interfaces, "ethernet", nil, "network interface of the next port, at most 4 times")
	return c
}
