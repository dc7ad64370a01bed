package config

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var updateDocs = flag.Bool("update-docs", false, "write docs/configuration.md afresh")

const docsFile = "../../docs/configuration.md"

// TestDocsAreFresh compares docs/configuration.md with what the table makes. To write it:
// go generate ./internal/config.
func TestDocsAreFresh(t *testing.T) {
	want := configurationPage()
	if *updateDocs {
		if err := os.WriteFile(docsFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("docs/configuration.md is stale; run: go generate ./internal/config")
	}
}

const docsIntro = `<!-- Generated from the table of internal/config by go generate ./internal/config. Do not edit. -->

# Configuration

Raftsman takes Apache Kafka 4.4's configuration: names, types, defaults and ranges are Kafka's, and an existing
` + "`server.properties`" + ` starts it. What is Raftsman's own begins with ` + "`raftsman.`" + `.

## Where settings come from

Later ones win:

1. the defaults below,
2. ` + "`server.properties`" + `, named on the command line of ` + "`raftsman serve`" + ` and read as Java reads it,
3. environment variables that begin with ` + "`KAFKA_`" + `, as the apache/kafka image maps them: the rest of the name in small letters, with
   a dot for ` + "`_`" + `, an underscore for ` + "`__`" + ` and a dash for ` + "`___`" + `; ` + "`KAFKA_LOG_RETENTION_MS`" + ` is ` + "`log.retention.ms`" + `. Variables
   for the JVM and for logging (` + "`KAFKA_HEAP_OPTS`, `KAFKA_OPTS`, `KAFKA_JMX_*`, `KAFKA_LOG4J_*`" + ` and the like) are passed over,
4. ` + "`--override key=value`" + `,
5. for keys that can be changed while the broker runs: what is set for all brokers, then what is set for one.

A topic's own setting comes before all of these. ` + "`raftsman config show`" + ` and Kafka's tools show each value and where it comes from.

A key that nobody knows is warned of, with the nearest known one; ` + "`raftsman.config.strict=true`" + ` and ` + "`raftsman config check`" + ` refuse
it. An unknown key that begins with ` + "`raftsman.`" + ` is always refused. A value that is not allowed ends the start with a line that names
key, value and what is allowed. So do settings that would be unsafe to pass over: listeners that are not PLAINTEXT, an authorizer,
remote storage, providers of configuration values.

`

func configurationPage() string {
	var b strings.Builder
	b.WriteString(docsIntro)
	b.WriteString("## Where the defaults are not Kafka's\n\n| key | default | why |\n|---|---|---|\n")
	for _, d := range ownDefaults {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", d.name, d.text, d.why)
	}
	for _, c := range []struct {
		where    string
		defaults []ownDefault
	}{{"no other member", singleNodeDefaults}, {"another member", clusterDefaults}} {
		b.WriteString("\nWhere " + c.where + " of the quorum is configured:\n\n| key | default | Kafka's | why |\n|---|---|---|---|\n")
		for _, d := range c.defaults {
			k, _ := Lookup(ScopeBroker, d.name)
			fmt.Fprintf(&b, "| `%s` | `%s` | `%s` | %s |\n", d.name, d.text, k.Default, d.why)
		}
	}
	b.WriteString("\n## Raftsman's own\n\n")
	writeKeys(&b, ScopeBroker, func(k *Key) bool { return k.Effect == Acts && strings.HasPrefix(k.Name, "raftsman.") })
	b.WriteString("\n## Brokers\n\n*Changes* says whether a key can be changed while the broker runs: for one broker, or cluster-wide for all of them.\n\n")
	writeKeys(&b, ScopeBroker, func(k *Key) bool { return k.Effect == Acts && !strings.HasPrefix(k.Name, "raftsman.") })
	b.WriteString("\n## Topics\n\nEvery key can be set on a topic when it is created and later. Where it is not set, the broker's key holds.\n\n")
	writeTopicKeys(&b)
	b.WriteString("\n## Groups\n\nSet on a group, they come before the broker's.\n\n")
	writeKeys(&b, ScopeGroup, func(k *Key) bool { return k.Effect == Acts })
	b.WriteString("\n## Client metrics\n\nEach resource of the type client-metrics asks clients for metrics of their own (KIP-714), as `kafka-client-metrics` makes them.\n\n")
	writeKeys(&b, ScopeClientMetrics, func(k *Key) bool { return k.Effect == Acts })
	b.WriteString("\n## Stored, without effect yet\n\nThese keys are checked, stored and shown as Kafka does; nothing acts on them yet.\n\n")
	writeNames(&b, NotYet)
	b.WriteString("\n## Stored, without effect\n\nThese keys of brokers tune parts that Raftsman does not have, as thread pools and Java classes: ")
	writeList(&b, ScopeBroker, NeverMatters)
	b.WriteString(".\n")
	return b.String()
}

func writeKeys(b *strings.Builder, scope Scope, wanted func(*Key) bool) {
	b.WriteString("| key | type | default | allowed | changes | |\n|---|---|---|---|---|---|\n")
	for _, k := range Keys(scope) {
		if wanted(k) {
			fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s | %s |\n", k.Name, k.Type, defaultCell(k), cell(k.Valid), modeCell(k), k.Doc)
		}
	}
}

func writeTopicKeys(b *strings.Builder) {
	b.WriteString("| key | type | default | allowed | broker's key | |\n|---|---|---|---|---|---|\n")
	for _, k := range Keys(ScopeTopic) {
		if k.Effect != Acts || k.Internal {
			continue
		}
		var synonyms []string
		for _, s := range k.Synonyms {
			synonyms = append(synonyms, "`"+s.Name+"`")
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s | %s |\n", k.Name, k.Type, defaultCell(k), cell(k.Valid), strings.Join(synonyms, ", "), k.Doc)
	}
}

func writeNames(b *strings.Builder, effect Effect) {
	for _, s := range []struct {
		scope Scope
		name  string
	}{{ScopeBroker, "Brokers"}, {ScopeTopic, "Topics"}, {ScopeGroup, "Groups"}} {
		fmt.Fprintf(b, "- %s: ", s.name)
		writeList(b, s.scope, effect)
		b.WriteString("\n")
	}
}

func writeList(b *strings.Builder, scope Scope, effect Effect) {
	separator := ""
	for _, k := range Keys(scope) {
		if k.Effect == effect && !k.Internal {
			fmt.Fprintf(b, "%s`%s`", separator, k.Name)
			separator = ", "
		}
	}
}

func defaultCell(k *Key) string {
	if k.DefaultState != DefaultValue {
		return ""
	}
	return cell(k.Default)
}

func cell(text string) string {
	if text == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(text, "|", `\|`) + "`"
}

func modeCell(k *Key) string {
	switch k.Mode {
	case PerBroker:
		return "one broker"
	case ClusterWide:
		return "cluster-wide"
	case ReadOnly:
	}
	return ""
}
