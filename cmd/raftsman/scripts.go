package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/raftsman/raftsman/broker"
	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/scripts"
)

// serverStart is the script that runs a broker. It is not among those of package scripts, which are clients.
const serverStart = "kafka-server-start"

// scriptNames are those that the binary answers to.
func scriptNames() []string { return append(scripts.Names(), serverStart) }

// asScript runs what a script of Kafka's does if the program was called by its name, and returns its exit code.
func asScript(ctx context.Context, a *app, called string, args []string) (code int, is bool) {
	if base := filepath.Base(called); base == serverStart || base == serverStart+".sh" {
		return a.startServer(ctx, args), true
	}
	if scripts.Name(called) == "" {
		return 0, false
	}
	env := scripts.Env{In: a.in, Out: a.out, Err: a.err, Now: a.now, Dial: a.dial, Format: formatFor}
	if a.tty.out {
		out := &screen{to: a.out}
		defer out.end()
		env.Out = out
	}
	if a.tty.err {
		err := &screen{to: a.err}
		defer err.end()
		env.Err = err
	}
	return scripts.Run(ctx, called, args, env), true
}

// formatFor makes the log directories ready that a server.properties names.
func formatFor(how scripts.Format) (scripts.Formatted, error) {
	text, err := os.ReadFile(how.File)
	if err != nil {
		return scripts.Formatted{}, err
	}
	parsed, _, err := config.ParseFile(how.File, string(text), nil, nil)
	if err != nil {
		return scripts.Formatted{}, err
	}
	founding := broker.Quorum{ClusterID: how.ClusterID, Standalone: how.Standalone, None: how.NoInitial}
	if how.InitialControllers != "" {
		if founding.Initial, err = broker.ParseInitialControllers(how.InitialControllers); err != nil {
			return scripts.Formatted{}, err
		}
	}
	f, err := broker.Format(broker.Config{Parsed: parsed}, founding)
	if err == nil && len(f.Made) == 0 && len(f.Before) == 0 {
		err = errors.New("log.dirs names no directory")
	}
	return scripts.Formatted(f), err
}

// startServer is kafka-server-start.sh: [-daemon] server.properties [--override key=value]...
func (a *app) startServer(ctx context.Context, args []string) int {
	line := []string{"serve"}
	for _, arg := range args {
		switch arg {
		case "-daemon":
			fmt.Fprintln(a.err, "-daemon is not served: leave it out, and have a service manager, or nohup and &, keep the broker in the background")
			return exitFailure
		case "--version":
			line = []string{"version"}
		default:
			line = append(line, arg)
		}
	}
	if len(args) == 0 {
		fmt.Fprintf(a.err, "usage: %s server.properties [--override key=value]...; `raftsman serve` needs no file\n", serverStart)
		return exitFailure
	}
	return run(ctx, a, line)
}

func scriptsCommand(a *app) *cobra.Command {
	return family("scripts", "Stand in for Kafka's scripts: kafka-topics.sh and the others",
		scriptsLinkCommand(a), scriptsListCommand(a), scriptsRunCommand(a))
}

func scriptsListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the scripts that raftsman stands in for",
		Args:    wants(0, 0),
		RunE:    func(*cobra.Command, []string) error { return a.writeNames(scriptNames()) },
	}
}

func scriptsRunCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:                "run SCRIPT [ARGUMENT...]",
		Short:              "Do what a script of Kafka's does, with its arguments",
		Example:            "  raftsman scripts run kafka-topics --bootstrap-server localhost:9092 --list",
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usagef("something is missing: %s", usageLine(c))
			case args[0] == "--help" || args[0] == "-h":
				return c.Help()
			}
			code, is := asScript(c.Context(), a, args[0], args[1:])
			switch {
			case !is:
				return usagef("there is no script %s here: `raftsman scripts list` shows which there are", args[0])
			case code != exitOK:
				return &exitError{code, errReported}
			}
			return nil
		},
		ValidArgs: scriptNames(),
	}
}

func scriptsLinkCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "link DIRECTORY",
		Short: "Make links by the names of Kafka's scripts, with and without .sh",
		Long: `Make links by the names of Kafka's scripts, with and without .sh (on Windows: .bat files), to this program. Called by such a name it
takes the arguments of the script, prints what the script prints, and ends with its exit codes. What is there already under such a name
stays as it is.`,
		Example: "  raftsman scripts link ~/bin\n  ~/bin/kafka-topics.sh --bootstrap-server localhost:9092 --list",
		Args:    wants(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			program, err := os.Executable()
			if err != nil {
				return err
			}
			made, err := linkScripts(args[0], program)
			if err != nil {
				return err
			}
			if a.json() {
				return a.writeJSON(map[string]any{"directory": args[0], "linked": made})
			}
			_, err = fmt.Fprintf(a.out, "made %s in %s\n", plural(int64(len(made)), "link"), args[0])
			return err
		},
	}
}

// linkScripts makes the links and returns the names of those that were not there yet.
func linkScripts(dir, program string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	made := []string{}
	for _, script := range scriptNames() {
		for _, name := range linkNames(script) {
			path := filepath.Join(dir, name)
			if _, err := os.Lstat(path); err == nil {
				if target, err := os.Readlink(path); err == nil && target == program || strings.HasSuffix(name, ".bat") {
					continue
				}
				return made, fmt.Errorf("%s is there already, and is no link to this program: delete it, or choose another directory", path)
			} else if !errors.Is(err, fs.ErrNotExist) {
				return made, err
			}
			if err := link(path, program, script); err != nil {
				return made, err
			}
			made = append(made, name)
		}
	}
	return made, nil
}

func linkNames(script string) []string {
	if runtime.GOOS == "windows" {
		return []string{script + ".bat"}
	}
	return []string{script, script + ".sh"}
}

func link(path, program, script string) error {
	if runtime.GOOS == "windows" { // where links need rights that few have
		return os.WriteFile(path, []byte(fmt.Sprintf("@\"%s\" scripts run %s %%*\r\n", program, script)), 0o755)
	}
	return os.Symlink(program, path)
}
