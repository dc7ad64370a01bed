package main

import (
	"fmt"
	"maps"
	"regexp"
	"strings"

	"github.com/raftsman/raftsman/internal/clientconf"
	"github.com/spf13/cobra"
)

func contextCommand(a *app) *cobra.Command {
	return family("context", "Name clusters, and choose between them",
		contextListCommand(a), contextUseCommand(a), contextSetCommand(a), contextDeleteCommand(a))
}

// contextView is one line of `context list`.
type contextView struct {
	Context    string            `json:"context"`
	Current    bool              `json:"current"`
	Properties map[string]string `json:"properties"`
}

func contextListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the contexts",
		Args:    wants(0, 0),
		RunE: func(*cobra.Command, []string) error {
			c, err := a.readContexts()
			if err != nil {
				return err
			}
			views := []contextView{}
			for _, name := range sortedKeys(c.named) {
				views = append(views, contextView{Context: name, Current: name == c.current, Properties: c.named[name]})
			}
			if a.json() {
				return a.writeJSON(views)
			}
			if len(views) == 0 {
				a.note("there are no contexts: `raftsman context set NAME -b host:port` makes one")
				return nil
			}
			t := newTable(column{title: "CONTEXT"}, column{title: "BROKERS", flexible: true}, column{title: "SETTINGS"}, column{})
			for _, v := range views {
				rest := maps.Clone(v.Properties)
				delete(rest, bootstrapKey)
				var pairs []string
				for _, key := range sortedKeys(rest) {
					pairs = append(pairs, key+"="+rest[key])
				}
				t.add(when(v.Current, strong(v.Context), plain(v.Context)), plain(v.Properties[bootstrapKey]),
					plain(strings.Join(pairs, " ")), when(v.Current, cell{text: "current", paint: paint.green}, plain("")))
			}
			return t.write(a.out, a.paint(), a.width())
		},
	}
}

func contextUseCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "use NAME",
		Short: "Choose the context of all commands that name none",
		Args:  wants(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := a.readContexts()
			if err != nil {
				return err
			}
			properties, err := c.find(args[0])
			if err != nil {
				return err
			}
			c.current = args[0]
			if err := c.write(); err != nil {
				return err
			}
			return a.writeContext("uses", contextView{Context: args[0], Current: true, Properties: properties})
		},
		ValidArgsFunction: a.completeContexts,
	}
}

// contextName is what a context may be called: it is part of a key of the file.
var contextName = regexp.MustCompile(fmt.Sprintf(`^[A-Za-z0-9_-]{1,%d}$`, contextNameMax))

func contextSetCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "set NAME [KEY=VALUE...]",
		Short: "Make a context, or change its settings",
		Long: `Make a context, or change its settings; all others stay as they are. A setting is one of Kafka's clients (client.id=shop); without a value
(client.id=) it is taken back. -b says which brokers. The contexts are in $XDG_CONFIG_HOME/raftsman/config, ~/.config/raftsman/config or
%AppData%\raftsman\config.`,
		Example: `  raftsman context set prod -b kafka-1:9092,kafka-2:9092
  raftsman context use prod
  raftsman topic list --context prod`,
		Args: wants(1, -1),
		RunE: func(_ *cobra.Command, args []string) error {
			if !contextName.MatchString(args[0]) {
				return usagef("%q is no name for a context: at most %d letters, digits, - and _", args[0], contextNameMax)
			}
			values, err := parsePairs(args[1:], "set")
			if err != nil {
				return err
			}
			if a.bootstrap != "" {
				values[bootstrapKey] = &a.bootstrap
			}
			return a.setContext(args[0], values)
		},
		ValidArgsFunction: a.completeContexts,
	}
}

func (a *app) setContext(name string, values map[string]*string) error {
	c, err := a.readContexts()
	if err != nil {
		return err
	}
	properties := c.add(name)
	for _, key := range sortedKeys(values) {
		if properties[key] = *values[key]; *values[key] == "" {
			delete(properties, key)
		}
	}
	settings, unknown, err := clientconf.Read(properties)
	if err != nil {
		return usagef("%w", err)
	}
	if _, err := seeds(settings.Servers); err != nil {
		return err
	}
	for _, key := range unknown {
		a.note("%s is no setting of a Kafka client: it has no effect", key)
	}
	if err := c.write(); err != nil {
		return err
	}
	return a.writeContext("set", contextView{Context: name, Current: name == c.current, Properties: properties})
}

func contextDeleteCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "delete NAME...",
		Aliases: []string{"rm"},
		Short:   "Forget contexts; the clusters stay as they are",
		Args:    wants(1, -1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := a.readContexts()
			if err != nil {
				return err
			}
			for _, name := range args {
				if _, err := c.find(name); err != nil {
					return err
				}
				if delete(c.named, name); c.current == name {
					c.current = ""
				}
			}
			if err := c.write(); err != nil {
				return err
			}
			if a.json() {
				return a.writeJSON(map[string]any{"deleted": args})
			}
			_, err = fmt.Fprintf(a.out, "deleted %s\n", strings.Join(args, ", "))
			return err
		},
		ValidArgsFunction: a.completeContexts,
	}
}

func (a *app) writeContext(done string, v contextView) error {
	if a.json() {
		return a.writeJSON(v)
	}
	_, err := fmt.Fprintf(a.out, "%s %s: %s\n", done, v.Context, printable(v.Properties[bootstrapKey]))
	return err
}

func (a *app) completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	c, err := a.readContexts()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return sortedKeys(c.named), cobra.ShellCompDirectiveNoFileComp
}
