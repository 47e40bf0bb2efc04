// Command epic is the one command line of the project. It holds no logic: it turns arguments into
// calls of the packages beside it, prints what they return, and turns their errors into an exit
// status (epic help exit-status).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epic-inc/epic/cmd/epic/internal/exit"
	"github.com/epic-inc/epic/golden/group"
)

// grace is how long a command may take to end after Ctrl-C: a simulator is told to end, and traces
// are flushed.
const grace = 5 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // a second Ctrl-C ends the process at once
		time.Sleep(grace)
		fmt.Fprintf(os.Stderr, "epic: interrupted, and did not end within %v\n", grace)
		os.Exit(int(exit.Interrupted))
	}()
	os.Exit(int(execute(ctx, os.Args[1:], os.Stdout, os.Stderr)))
}

// execute carries out one command line. Every error is told here, one line each, and nowhere else.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) exit.Status {
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exit.Right
	}
	if ctx.Err() != nil {
		fmt.Fprintln(stderr, "epic: interrupted")
		return exit.Interrupted
	}
	for _, line := range messages(err) {
		fmt.Fprintln(stderr, line)
	}
	return exit.Of(err)
}

// messages is what the user is told of an error: a line for each problem of a file, which begins with
// its place so that editors find it, and one line of anything else.
func messages(err error) []string {
	var problems group.Problems
	if errors.As(err, &problems) {
		lines := make([]string, len(problems))
		for i, p := range problems {
			lines[i] = p.Error()
		}
		return lines
	}
	var option *group.OptionError
	if errors.As(err, &option) {
		return []string{"epic: --" + option.Error()}
	}
	text := strings.NewReplacer(":\n", ": ", "\n", "; ").Replace(strings.TrimSpace(err.Error()))
	if strings.HasPrefix(text, "epic: ") || strings.HasPrefix(text, "epic ") {
		return []string{text} // it names the command already
	}
	return []string{"epic: " + text}
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "epic",
		Short: "In-network collectives: an IncEngine in Verilog, and the golden model it is held to",
		Long: `epic runs, checks and explains the IncEngine: switches that add up the packets of
RoCE connections on their way, so that a collective costs one trip through the tree.`,
		Example: `  epic decode capture.pcap --json
  epic config generate --ranks 4 > group.yaml
  epic config show --tree group.yaml
  epic cosim run --ranks 4 --bytes 65536 --data-w 512 --loss 0.01`,
		SilenceErrors: true,
		SilenceUsage:  true,
		// cobra's own message has several lines; this one names the command and those there are.
		Args: oneOfTheCommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand())
	root.AddCommand(demoCommand(), checkCommand(), cosimCommand(), benchCommand(), switchCommand(), boardCommand(), labCommand(), doctorCommand(), decodeCommand(), configCommand(), controlCommand(), rankCommand(), interopCommand(), versionCommand(), exitStatusTopic())
	root.InitDefaultCompletionCmd() // which prints its help for a shell that it does not know
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			groupOf(c)
		}
	}
	return root
}

// helpCommand is cobra's, but a topic that does not exist is an error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND or TOPIC]",
		Short:   "Explain a command or topic",
		Example: "  epic help config generate\n  epic help exit-status",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			at, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, c := range at.Commands() {
				names = append(names, c.Name()+"\t"+c.Short)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			at, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return fmt.Errorf("epic help: no command or topic %q (epic help lists them)", strings.Join(args, " "))
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		},
	}
}

// groupOf makes a command that only holds others.
func groupOf(c *cobra.Command, children ...*cobra.Command) *cobra.Command {
	c.Args = oneOfTheCommands
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		return fmt.Errorf("%s: want one of %s", cmd.CommandPath(), commandNames(cmd))
	}
	c.AddCommand(children...)
	return c
}

func oneOfTheCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%s: no command %q, want one of %s", cmd.CommandPath(), args[0], commandNames(cmd))
}

func commandNames(cmd *cobra.Command) string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return strings.Join(names, ", ")
}

// files wants at least n arguments of the named kind.
func files(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return fmt.Errorf("%s: got no %s, want one at least (%s)", cmd.CommandPath(), what, cmd.UseLine())
		}
		return nil
	}
}

// noArgs refuses arguments, in one line that says what is taken.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s: got the argument %q, want flags only (%s)", cmd.CommandPath(), args[0], cmd.UseLine())
	}
	return nil
}

// flagError says what was got and wanted of a flag that pflag refused.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("%s: no flag %s, want one of %s", cmd.CommandPath(), dashes(unknown.GetSpecifiedName()), flagNames(cmd))
	case errors.As(err, &value):
		f := value.GetFlag()
		want := map[string]string{
			"int": "a whole number", "uint32": "a whole number from 0", "uint64": "a whole number from 0 (0x for hexadecimal)",
			"float64": "a number", "bool": "true or false", "duration": "a time as 500ms, 10s or 2m",
		}[f.Value.Type()]
		if want == "" {
			want = errors.Unwrap(value).Error()
			return fmt.Errorf("--%s: %s", f.Name, want)
		}
		return fmt.Errorf("--%s: got %q, want %s: %s", f.Name, value.GetValue(), want, f.Usage)
	case errors.As(err, &missing):
		return fmt.Errorf("--%s: got no value, want one: %s", missing.GetFlag().Name, missing.GetFlag().Usage)
	}
	return err
}

func dashes(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func flagNames(cmd *cobra.Command) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, "--"+f.Name)
		}
	})
	return strings.Join(names, " ")
}

// exitStatusTopic is a help topic: epic help exit-status.
func exitStatusTopic() *cobra.Command {
	return &cobra.Command{Use: "exit-status", Short: "What the exit status means", Long: strings.TrimSpace(exit.Help())}
}
