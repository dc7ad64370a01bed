package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestTranscripts runs the command lines of testdata/transcripts against a broker and compares what they print. In a
// transcript, "$ " begins a command line, "< " its standard input, "! " a line on standard error, "exit N" an exit code
// other than 0, and "# " a comment. -update writes what comes out now.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			compareFile(t, file, play(t, startBroker(t), string(text)))
		})
	}
}

// play runs the commands of a transcript and returns it with what they print now.
func play(t *testing.T, bootstrap, transcript string) string {
	t.Helper()
	var now strings.Builder
	lines := strings.Split(strings.TrimRight(transcript, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch {
		case strings.HasPrefix(line, "# "):
			now.WriteString(line + "\n")
		case strings.HasPrefix(line, "$ "):
			fmt.Fprintln(&now, line)
			var input []string
			for i+1 < len(lines) && strings.HasPrefix(lines[i+1], "< ") {
				i++
				fmt.Fprintln(&now, lines[i])
				input = append(input, strings.TrimPrefix(lines[i], "< ")+"\n")
			}
			now.WriteString(command(t, bootstrap, strings.TrimPrefix(line, "$ "), strings.Join(input, "")))
			now.WriteString("\n")
		}
	}
	return strings.TrimRight(now.String(), "\n") + "\n"
}

func command(t *testing.T, bootstrap, line, stdin string) string {
	t.Helper()
	words := splitWords(t, line)
	if words[0] != "raftsman" {
		t.Fatalf("%q is no raftsman command", line)
	}
	s := newSession()
	s.app.now = time.Now
	s.env[bootstrapVariable] = bootstrap
	code := s.runIn(t.Context(), stdin, words[1:]...)
	var b strings.Builder
	b.WriteString(mask(s.out.String()))
	for said := range strings.Lines(mask(s.err.String())) {
		b.WriteString("! " + said)
	}
	if code != exitOK {
		fmt.Fprintf(&b, "exit %d\n", code)
	}
	return b.String()
}

// splitWords splits as a shell does, as far as transcripts need it: blanks and single quotes.
func splitWords(t *testing.T, line string) []string {
	t.Helper()
	var words []string
	var word strings.Builder
	inWord, quoted := false, false
	for _, r := range line {
		switch {
		case r == '\'':
			quoted, inWord = !quoted, true
		case r == ' ' && !quoted:
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if quoted {
		t.Fatalf("a quote is open in %q", line)
	}
	if inWord {
		words = append(words, word.String())
	}
	return words
}

// masks take away what differs from run to run and from machine to machine.
var masks = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`(?m)^(raftsman: [a-z]+ [^:]*: ).* (\([A-Z_]+\))`), "$1… $2"}, // the sentence is the broker's
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`), "TIME"},
	{regexp.MustCompile(`("timestampMs": ?)\d+`), "${1}MS"},
	{regexp.MustCompile(`\bin [\d.]+(ms|s)\b`), "in TIME"},
	{regexp.MustCompile(`\b[\d.]+ ([KMGT]i)?B\b`), "SIZE"},
	{regexp.MustCompile(`("(bytes|lagMs|totalBytes|usableBytes)": ?)\d+`), "${1}N"},
	{regexp.MustCompile(`\b\d+ms\b`), "AGE"},
	{regexp.MustCompile(`\b[\d.]+s\b`), "AGE"},
	{regexp.MustCompile(`\b[A-Za-z0-9_-]{22}\b`), "ID"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`(\S) {2,}`), "$1  "},
	{regexp.MustCompile(`(?m) +$`), ""},
}

func mask(text string) string {
	for _, m := range masks {
		text = m.pattern.ReplaceAllString(text, m.with)
	}
	return text
}
