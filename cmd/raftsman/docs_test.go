package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// docsPath is written by go test ./cmd/raftsman -update.
const docsPath = "../../docs/cli.md"

func TestDocsAreWhatTheCommandsSay(t *testing.T) {
	root := newRoot(newSession().app)
	root.InitDefaultCompletionCmd()
	var b strings.Builder
	b.WriteString("# The command line\n\n")
	b.WriteString("<!-- Generated from the commands: go test ./cmd/raftsman -update -->\n\n")
	b.WriteString(root.Long + "\n\n")
	b.WriteString("```sh\n" + unindent(root.Example) + "\n```\n\n")
	b.WriteString("## Flags of every command\n\n" + flagTable(root.PersistentFlags()))
	for _, c := range root.Commands() {
		document(&b, c, 2)
	}
	compareFile(t, docsPath, strings.TrimRight(b.String(), "\n")+"\n")
}

func document(b *strings.Builder, c *cobra.Command, level int) {
	if c.Hidden || c.Name() == "help" || !c.IsAvailableCommand() {
		return
	}
	fmt.Fprintf(b, "\n%s %s\n\n", strings.Repeat("#", level), c.CommandPath())
	if c.Name() == "completion" {
		// The library's own texts are long, and are shown by the command itself.
		fmt.Fprintf(b, "%s: bash, zsh, fish or powershell. `raftsman completion bash --help` says how to load it.\n", c.Short)
		return
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(b, "%s.\n", c.Short)
		for _, child := range c.Commands() {
			document(b, child, level+1)
		}
		return
	}
	fmt.Fprintf(b, "```\n%s\n```\n\n", c.UseLine())
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	b.WriteString(markdown(text) + "\n")
	if c.Example != "" {
		fmt.Fprintf(b, "\n```sh\n%s\n```\n", unindent(c.Example))
	}
	if table := flagTable(c.LocalNonPersistentFlags()); table != "" {
		b.WriteString("\n" + table)
	}
}

func flagTable(flags *pflag.FlagSet) string {
	var b strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		initial := f.DefValue
		if initial == "[]" {
			initial = ""
		}
		if initial != "" && f.Value.Type() != "bool" || initial == "true" {
			initial = "`" + initial + "`"
		} else {
			initial = ""
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, initial, strings.ReplaceAll(markdown(f.Usage), "|", `\|`))
	})
	if b.Len() == 0 {
		return ""
	}
	return "| flag | default | |\n|---|---|---|\n" + b.String()
}

// markdown keeps backslashes and percent signs of help texts as they are.
func markdown(text string) string { return strings.NewReplacer(`\`, `\\`, "<", "&lt;").Replace(text) }

func unindent(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  ")
	}
	return strings.Join(lines, "\n")
}
