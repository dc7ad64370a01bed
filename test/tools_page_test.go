package test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

const toolsPage = "../docs/tools.md"

var toolsPageNow = flag.Bool("page", false, "write docs/tools.md")

// TestToolsPageIsUpToDate holds that docs/tools.md says what the transcript and the tables say.
func TestToolsPageIsUpToDate(t *testing.T) {
	want := pageOfTools(t)
	if *toolsPageNow {
		write(t, toolsPage, want)
	}
	if got, err := os.ReadFile(toolsPage); err != nil || string(got) != want {
		t.Errorf("%s is stale (%v): run `cd test && go test . -run TestToolsPage -page`", toolsPage, err)
	}
}

func pageOfTools(t testing.TB) string {
	commands := map[string]int{}
	all := 0
	for _, c := range readTranscript(t) {
		if c.tool() != "" {
			commands[c.tool()]++
			all++
		}
	}
	var p strings.Builder
	fmt.Fprintf(&p, `<!-- Generated from test/kafka/tools.txt by `+"`cd test && go test . -run TestToolsPage -page`"+`; do not edit. -->
# Kafka's own tools

Apache Kafka 4.4's tools, unchanged, from its jars, are given the %d commands of `+"[`test/kafka/tools.txt`](../test/kafka/tools.txt)"+` against a
real Apache Kafka 4.4 and against this broker, in the same run of CI; what they print, and their exit status, is compared line by line.

| tool | commands |
|---|---|
`, all)
	for _, name := range slices.Sorted(maps.Keys(commands)) {
		fmt.Fprintf(&p, "| kafka-%s.sh | %d |\n", scriptNames.Replace(name), commands[name])
	}
	p.WriteString("\n## Differences that stay\n\nLines that are left out of the comparison.\n\n| command | why |\n|---|---|\n")
	for _, d := range toolDifferences {
		fmt.Fprintf(&p, "| `%s` | %s |\n", strings.TrimPrefix(d.command, "$ "), d.why)
	}
	p.WriteString("\nWith `--bootstrap-controller` nothing is asked: a node that is its own quorum opens no listener for controllers.\n\n## What is masked\n\nAddresses, directories, and:\n\n")
	var said []string
	for _, m := range masks {
		if !slices.Contains(said, m.why) {
			said = append(said, m.why)
			fmt.Fprintf(&p, "- %s\n", m.why)
		}
	}
	p.WriteString("- the order of what a tool prints as a set\n")
	return p.String()
}

// scriptNames are the tools whose script has another name than test/kafka/kafka gives them.
var scriptNames = strings.NewReplacer("producer-perf", "producer-perf-test", "consumer-perf", "consumer-perf-test")
