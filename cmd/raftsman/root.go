package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newRoot returns the command tree. A new subcommand is one more entry here.
func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "raftsman",
		Short: "A Kafka-compatible event-streaming broker and its tools",
		Long: `Raftsman is an event-streaming broker that today's Kafka clients use unchanged, and the tools to work with it.
The tools speak Kafka's protocol and work with any Kafka-compatible cluster.

Exit codes: 0 done, 1 it did not work, 2 the command line is wrong. With -o json a command that shows or changes something prints JSON.`,
		Example: `  raftsman serve
  raftsman topic create orders -p 3
  echo 'de:{"id":1}' | raftsman produce orders -K :
  raftsman consume orders --since 10m
  raftsman topic describe orders`,
		Args:              noSuchCommand,
		RunE:              showHelp,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if text := wrongValue(err); text != "" {
			return usagef("%s: see `%s --help`", text, c.CommandPath())
		}
		return usagef("%w: see `%s --help`", err, c.CommandPath())
	})

	flags := root.PersistentFlags()
	flags.StringVarP(&a.bootstrap, "bootstrap-server", "b", "", "brokers to ask first, host:port with commas (environment: "+bootstrapVariable+"; else those of the context, or "+defaultBootstrap+")")
	flags.StringVar(&a.context, "context", "", "name of stored settings of the connection, see raftsman context (environment: "+contextVariable+")")
	flags.StringVar(&a.commandConfig, "command-config", "", "a file with the settings of a Kafka client (client.properties)")
	flags.StringVarP(&a.output, "output", "o", "table", "form of the result: table or json")
	flags.BoolVar(&a.noColor, "no-color", false, "no colours, also on a terminal (environment: NO_COLOR)")
	flags.DurationVar(&a.timeout, "timeout", 30*time.Second, "how long to wait for the brokers' answers")
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		a.timeoutGiven = c.Flags().Changed("timeout")
		return a.checkFlags()
	}

	for _, g := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"broker", "A broker:", []*cobra.Command{serveCommand(a), devCommand(a), storageCommand(a), logCommand(a)}},
		{"records", "Records and who reads them:", []*cobra.Command{topicCommand(a), produceCommand(a), consumeCommand(a), groupCommand(a), txnCommand(a)}},
		{"cluster", "A cluster:", []*cobra.Command{clusterCommand(a), rebalanceCommand(a), configCommand(a), quotaCommand(a)}},
		{"tool", "This tool:", []*cobra.Command{contextCommand(a), scriptsCommand(a), versionCommand(a)}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	root.SetHelpCommandGroupID("tool")
	root.SetCompletionCommandGroupID("tool")
	completeFlag(root, "output", "table", "json")
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.Run, c.RunE = nil, helpOf
		}
	}
	return root
}

// helpOf shows the help of the command that args name, or says that there is none.
func helpOf(c *cobra.Command, args []string) error {
	of, rest, err := c.Root().Find(args)
	if err != nil {
		return usagef("%w", err)
	}
	if len(rest) > 0 && of.HasSubCommands() {
		return noSuchCommand(of, rest)
	}
	of.InitDefaultHelpFlag()
	return of.Help()
}

// wrongValue says what a flag takes whose value could not be read, or "" for other errors.
func wrongValue(err error) string {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return ""
	}
	flag := invalid.GetFlag()
	name := "--" + flag.Name
	if flag.Shorthand != "" {
		name = "-" + flag.Shorthand
	}
	what, known := map[string]string{
		"int": "is no whole number", "int16": "is no whole number", "int32": "is no whole number", "int64": "is no whole number", "int32Slice": "is no whole number", "int64Slice": "is no whole number",
		"duration": "is no time: give 500ms, 30s or 5m, say", "bool": "is neither true nor false",
	}[flag.Value.Type()]
	if !known {
		return ""
	}
	if errors.Is(err, strconv.ErrRange) {
		what = "is too large a number"
	}
	return fmt.Sprintf("%s %s %s", name, invalid.GetValue(), what)
}

func (a *app) checkFlags() error {
	if a.output != "table" && a.output != "json" {
		return usagef("-o %s is unknown: it is table or json", a.output)
	}
	if a.timeout <= 0 {
		return usagef("--timeout %s is no time to wait: give 30s, say", a.timeout)
	}
	return nil
}

// run executes one command line and returns the exit code. It is all of main but for the process itself.
func run(ctx context.Context, a *app, args []string) int {
	root := newRoot(a)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	for _, text := range a.tell(err) {
		fmt.Fprintf(a.err, "%s %s\n", a.paintErr().red("raftsman:"), text)
	}
	var own *exitError
	var usage *usageError
	switch {
	case errors.As(err, &own):
		return own.code
	case errors.As(err, &usage):
		return exitUsage
	}
	return exitFailure
}

// family returns a command that only holds others.
func family(use, short string, children ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: noSuchCommand, RunE: showHelp}
	c.AddCommand(children...)
	return c
}

func showHelp(c *cobra.Command, _ []string) error { return c.Help() }

// noSuchCommand are the Args of a command that only holds others: whatever is left over is a subcommand that does not exist.
func noSuchCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		return usagef("there is no `%s %s`: did you mean `%s %s`?", c.CommandPath(), args[0], c.CommandPath(), near[0])
	}
	return usagef("there is no `%s %s`: see `%s --help`", c.CommandPath(), args[0], c.CommandPath())
}

// wants returns Args that take between least and most arguments (most < 0: any number), told as the usage line has them.
func wants(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usagef("something is missing: %s", usageLine(c))
		case most >= 0 && len(args) > most:
			return usagef("%q is too much: %s", args[most], usageLine(c))
		}
		return nil
	}
}

func usageLine(c *cobra.Command) string {
	return "it is `" + strings.TrimSuffix(c.UseLine(), " [flags]") + "`"
}

// completeFlag tells the shell which values a flag takes.
func completeFlag(c *cobra.Command, flag string, values ...string) {
	err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag's name is a constant beside its definition
	}
}
