// Gen writes the tables of package config: table.go from kafka.tsv (what Kafka knows), raftsman.tsv (what is ours) and
// own.tsv (what this broker does with a key, in our words). With -dump it first writes kafka.tsv afresh, by running Dump.java
// on Kafka's jars in the folder that KAFKA_LIBS names.
package main

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"go/format"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	log.SetFlags(0)
	dump := flag.Bool("dump", false, "write kafka.tsv afresh from Kafka's jars")
	dir := flag.String("dir", "gen", "the folder of this program")
	out := flag.String("out", "table.go", "the file to write")
	flag.Parse()
	if err := run(*dir, *out, *dump); err != nil {
		log.Fatal(err)
	}
}

func run(dir, out string, dump bool) error {
	if dump {
		if err := dumpKafka(dir); err != nil {
			return err
		}
	}
	source, err := makeTable(dir)
	if err != nil {
		return err
	}
	return os.WriteFile(out, source, 0o644)
}

// makeTable returns the text of table.go.
func makeTable(dir string) ([]byte, error) {
	var keys []key
	for _, name := range []string{"kafka.tsv", "raftsman.tsv"} {
		more, err := readKeys(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		keys = append(keys, more...)
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(scopeOrder(a.scope), scopeOrder(b.scope)), cmp.Compare(a.name, b.name))
	})
	if err := describe(keys, filepath.Join(dir, "own.tsv")); err != nil {
		return nil, err
	}
	return render(keys)
}

func dumpKafka(dir string) error {
	libs := os.Getenv("KAFKA_LIBS")
	if libs == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return fmt.Errorf("find Kafka's jars: %w", err)
		}
		libs = filepath.Join(home, ".cache", "apache-kafka-4.4.0", "libs")
	}
	cmd := exec.Command("java", "-cp", filepath.Join(libs, "*"), filepath.Join(dir, "Dump.java"))
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("run Dump.java with the jars of %s: %w", libs, err)
	}
	return os.WriteFile(filepath.Join(dir, "kafka.tsv"), text, 0o644)
}

// key is one line of a table: the columns that Dump.java prints, and what own.tsv adds.
type key struct {
	scope, name, typ, state, value, check, valid, importance, internal, mode, synonyms string
	effect, doc                                                                        string
}

func readKeys(file string) ([]key, error) {
	lines, err := readLines(file, 11)
	if err != nil {
		return nil, err
	}
	keys := make([]key, 0, len(lines))
	for _, f := range lines {
		keys = append(keys, key{
			scope: f[0], name: f[1], typ: f[2], state: f[3], value: f[4], check: f[5], valid: f[6],
			importance: f[7], internal: f[8], mode: f[9], synonyms: f[10],
		})
	}
	return keys, nil
}

func readLines(file string, columns int) ([][]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var lines [][]string
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, "\t")
		for len(fields) < columns {
			fields = append(fields, "")
		}
		if len(fields) > columns {
			return nil, fmt.Errorf("%s:%d: %d columns, want %d", file, i+1, len(fields), columns)
		}
		lines = append(lines, fields)
	}
	return lines, nil
}

// describe adds what own.tsv says; a line there without a key is an error, a key without a line is accepted and has no effect.
func describe(keys []key, file string) error {
	lines, err := readLines(file, 4)
	if err != nil {
		return err
	}
	for _, f := range lines {
		scope, name, effect, doc := f[0], f[1], f[2], f[3]
		i := slices.IndexFunc(keys, func(k key) bool { return k.scope == scope && k.name == name })
		if i < 0 {
			return fmt.Errorf("%s: no key %s in scope %s", file, name, scope)
		}
		if keys[i].effect != "" {
			return fmt.Errorf("%s: key %s of scope %s twice", file, name, scope)
		}
		keys[i].effect, keys[i].doc = effect, doc
	}
	return nil
}

var scopes = []string{"broker", "topic", "group", "client-metrics", "client-quota", "ip-quota"}

func scopeOrder(scope string) int { return slices.Index(scopes, scope) }

var (
	scopeNames = map[string]string{
		"broker": "ScopeBroker", "topic": "ScopeTopic", "group": "ScopeGroup",
		"client-metrics": "ScopeClientMetrics", "client-quota": "ScopeClientQuota", "ip-quota": "ScopeIPQuota",
	}
	typeNames = map[string]string{
		"BOOLEAN": "Boolean", "STRING": "String", "INT": "Int", "SHORT": "Short", "LONG": "Long",
		"DOUBLE": "Double", "LIST": "List", "CLASS": "Class", "PASSWORD": "Password",
	}
	stateNames      = map[string]string{"required": "DefaultNone", "null": "DefaultNull", "value": "DefaultValue"}
	importanceNames = map[string]string{"HIGH": "High", "MEDIUM": "Medium", "LOW": "Low"}
	modeNames       = map[string]string{
		"": "", "read-only": "", "per-broker": "PerBroker", "cluster-wide": "ClusterWide",
	}
	effectNames = map[string]string{"": "", "acts": "Acts", "never": "NeverMatters"}
	// classes are the validators of Kafka that are code; package config has the same rules in check.go.
	classes = map[string]string{
		"ConfigDef$NonEmptyString":                               "nonEmpty",
		"ConfigDef$NonNullValidator":                             "nonNull",
		"ThrottledReplicaListValidator":                          "throttledReplicas",
		"QuorumConfig$ControllerQuorumVotersValidator":           "quorumVoters",
		"QuorumConfig$ControllerQuorumBootstrapServersValidator": "quorumServers",
		"ShareGroupAutoOffsetResetStrategy$Validator":            "shareReset",
		"ConfigDef$LambdaValidator":                              "gzipLevel",
	}
)

func render(keys []key) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("// Code generated by internal/config/gen from kafka.tsv, raftsman.tsv and own.tsv; DO NOT EDIT.\n\n" +
		"package config\n\n// table holds every key, by scope and then by name.\nvar table = []Key{\n")
	for _, k := range keys {
		line, err := renderKey(k)
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", k.name, err)
		}
		b.WriteString(line)
	}
	b.WriteString("}\n")
	return format.Source(b.Bytes())
}

func renderKey(k key) (string, error) {
	var b strings.Builder
	var wrong error
	name := func(names map[string]string, word string) string {
		text, ok := names[word]
		if !ok {
			wrong = fmt.Errorf("unknown word %q", word)
		}
		return text
	}
	fmt.Fprintf(&b, "{Scope: %s, Name: %q, Type: %s", name(scopeNames, k.scope), k.name, name(typeNames, k.typ))
	fmt.Fprintf(&b, ", DefaultState: %s", name(stateNames, k.state))
	if k.value != "" {
		fmt.Fprintf(&b, ", Default: %q", unescape(k.value))
	}
	check, err := renderCheck(k)
	if err != nil {
		return "", err
	}
	b.WriteString(check)
	if k.valid != "" {
		fmt.Fprintf(&b, ", Valid: %q", unescape(k.valid))
	}
	fmt.Fprintf(&b, ", Importance: %s", name(importanceNames, k.importance))
	if k.internal != "" {
		b.WriteString(", Internal: true")
	}
	mode, flag, _ := strings.Cut(k.mode, ",")
	if text := name(modeNames, mode); text != "" {
		fmt.Fprintf(&b, ", Mode: %s", text)
	}
	switch flag {
	case "quota":
		b.WriteString(", DynamicOnly: true")
	case "listener":
		b.WriteString(", ListenerOnly: true")
	}
	if k.synonyms != "" {
		b.WriteString(", Synonyms: []BrokerSynonym{")
		for _, s := range strings.Split(k.synonyms, ",") {
			broker, factor, _ := strings.Cut(s, "*")
			fmt.Fprintf(&b, "{Name: %q, Factor: %s},", broker, factor)
		}
		b.WriteString("}")
	}
	if text := name(effectNames, k.effect); text != "" {
		fmt.Fprintf(&b, ", Effect: %s", text)
	}
	if k.doc != "" {
		fmt.Fprintf(&b, ", Doc: %q", k.doc)
	}
	b.WriteString("},\n")
	return b.String(), wrong
}

var (
	rangeCheck = regexp.MustCompile(`^range\(([^,]*),([^,]*)\)$`)
	wordCheck  = regexp.MustCompile(`^(string|anycase)\((.*)\)$`)
	listCheck  = regexp.MustCompile(`^list\((.*);empty=(true|false);null=(true|false)\)$`)
	classCheck = regexp.MustCompile(`^class\((?:[a-z0-9]+\.)*(.+)\)$`)
)

func renderCheck(k key) (string, error) {
	switch {
	case k.check == "":
		return "", nil
	case rangeCheck.MatchString(k.check):
		m := rangeCheck.FindStringSubmatch(k.check)
		if m[2] == "" {
			return fmt.Sprintf(", check: check{kind: atLeast, min: %s}", m[1]), nil
		}
		return fmt.Sprintf(", check: check{kind: between, min: %s, max: %s}", m[1], m[2]), nil
	case wordCheck.MatchString(k.check):
		m := wordCheck.FindStringSubmatch(k.check)
		kind := map[string]string{"string": "oneOf", "anycase": "oneOfAnyCase"}[m[1]]
		return fmt.Sprintf(", check: check{kind: %s, words: %#v}", kind, strings.Split(m[2], "|")), nil
	case listCheck.MatchString(k.check):
		m := listCheck.FindStringSubmatch(k.check)
		text := ", check: check{kind: listOf"
		if m[1] != "" {
			text += fmt.Sprintf(", words: %#v", strings.Split(m[1], "|"))
		}
		if m[2] == "true" {
			text += ", emptyAllowed: true"
		}
		return text + "}", nil
	case classCheck.MatchString(k.check):
		class := classCheck.FindStringSubmatch(k.check)[1]
		kind, ok := classes[class]
		if !ok || kind == "gzipLevel" && k.valid != "[1,...,9] or -1" {
			return "", fmt.Errorf("no rule for Kafka's validator %s (%s)", class, k.valid)
		}
		return fmt.Sprintf(", check: check{kind: %s}", kind), nil
	}
	return "", fmt.Errorf("no rule for %s", k.check)
}

func unescape(s string) string {
	return strings.NewReplacer(`\\`, `\`, `\t`, "\t", `\n`, "\n").Replace(s)
}
