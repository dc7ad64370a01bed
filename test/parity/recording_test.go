package parity

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A recording is the cases of one API with what Apache Kafka answered to them:
//
//	[v4 v5] unknown topic             the cases that were answered alike: versions and name
//	  answer: ErrorCode=NONE(0)       a row of the answer and its fields
//
// It is one of Apache Kafka, or in a folder of its own the fields in which this broker differs from it, with a minus those of Kafka.
type recorded struct{ folder, who string }

var (
	kafkasRecorded = recorded{"testdata", "Apache Kafka 4.4 answers"}
	oursRecorded   = recorded{"testdata/ours", "this broker, and with a minus Apache Kafka 4.4, has alone in the answer"}
)

// of is an API's file.
func (r recorded) of(api string) string { return filepath.Join(r.folder, api+".txt") }

// block is one answer and the cases that got it.
type block struct {
	names    []string            // in the order in which they were asked
	versions map[string][]string // by name
	text     string
}

// write writes the answers to the cases that have one.
func (r recorded) write(t *testing.T, c *conversation, answers map[string]answer) {
	t.Helper()
	stale, err := filepath.Glob(r.of("*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range stale {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	blocks := map[kmsg.Key][]*block{}
	for i := range c.steps {
		s := &c.steps[i]
		a, asked := answers[s.title()]
		if !asked {
			continue
		}
		text := a.text()
		n := slices.IndexFunc(blocks[s.key], func(b *block) bool { return b.text == text })
		if n < 0 {
			n = len(blocks[s.key])
			blocks[s.key] = append(blocks[s.key], &block{versions: map[string][]string{}, text: text})
		}
		b := blocks[s.key][n]
		if b.versions[s.name] == nil {
			b.names = append(b.names, s.name)
		}
		b.versions[s.name] = append(b.versions[s.name], fmt.Sprint("v", s.v))
	}
	for key, all := range blocks {
		var text strings.Builder
		fmt.Fprintf(&text, "What %s to %s. Written by `make parity`.\n", r.who, key.Name())
		for _, b := range all {
			text.WriteByte('\n')
			for _, name := range b.names {
				fmt.Fprintf(&text, "[%s] %s\n", strings.Join(b.versions[name], " "), name)
			}
			text.WriteString(b.text)
		}
		if err := os.WriteFile(r.of(key.Name()), []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// text is an answer as lines, one a row.
func (a answer) text() string {
	var text strings.Builder
	row := ""
	for _, f := range a {
		if f.row != row {
			if row != "" {
				text.WriteByte('\n')
			}
			row = f.row
			text.WriteString("  " + row + ":")
		}
		text.WriteString(" " + f.name + "=" + f.value)
	}
	text.WriteByte('\n')
	return text.String()
}

// read returns the answers of all files by the titles of their cases.
func (r recorded) read(t *testing.T) map[string]answer {
	t.Helper()
	files, err := filepath.Glob(r.of("*"))
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]answer{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		api := strings.TrimSuffix(filepath.Base(file), ".txt")
		_, content2, _ := strings.Cut(string(content), "\n\n")
		for _, text := range strings.Split(strings.TrimSuffix(content2, "\n"), "\n\n") {
			var titles []string
			var a answer
			for _, line := range strings.Split(text, "\n") {
				if cases, ok := strings.CutPrefix(line, "["); ok {
					versions, name, _ := strings.Cut(cases, "] ")
					for _, v := range strings.Fields(versions) {
						titles = append(titles, api+" "+v+": "+name)
					}
					continue
				}
				fields, err := parseRow(line)
				if err != nil {
					t.Fatalf("%s: %q: %v", file, line, err)
				}
				a = append(a, fields...)
			}
			for _, title := range titles {
				answers[title] = a
			}
		}
	}
	return answers
}

// parseRow reads "  row: Name=value Name=value". A value has spaces only between the brackets or quotes that it is in.
func parseRow(line string) (fields answer, err error) {
	row, rest, ok := strings.Cut(strings.TrimPrefix(line, "  "), ": ")
	if !ok {
		return nil, fmt.Errorf("no row")
	}
	for rest != "" {
		name, after, ok := strings.Cut(rest, "=")
		if !ok {
			return nil, fmt.Errorf("no value after %q", rest)
		}
		n := valueEnd(after)
		fields = append(fields, field{row, name, after[:n]})
		rest = strings.TrimPrefix(after[n:], " ")
	}
	return fields, nil
}

// valueEnd is where the value at the beginning of text ends.
func valueEnd(text string) int {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '<' || c == '(':
			depth++
		case c == ']' || c == '>' || c == ')':
			depth--
		case c == ' ' && depth == 0:
			return i
		}
	}
	return len(text)
}
