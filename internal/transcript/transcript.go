// Package transcript runs the transcripts in a package's testdata: what is told to a machine, and what comes of it. Tests alone use it.
package transcript

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite what the scenarios expect")

// Begin makes what a scenario talks to. command is given its commands one by one; outcome is asked at the end of each block what came of
// those since it was asked before.
type Begin func(*testing.T) (command func(string), outcome func() string)

// Run runs testdata/*.txt. A scenario is a list of blocks, with an empty line between them: commands, a line of four dashes, and what came of
// them, or "nothing". Lines that begin with # are for the reader. Run with -update to rewrite what came, and read the difference.
func Run(t *testing.T, begin Begin) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { File(t, file, begin) })
	}
}

// File runs one of them.
func File(t *testing.T, file string, begin Begin) {
	command, outcome := begin(t)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for i, block := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
		commands, want, _ := strings.Cut(block, "\n----")
		for line := range strings.SplitSeq(commands, "\n") {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				command(line)
			}
		}
		got := strings.TrimSpace(outcome())
		if got == "" {
			got = "nothing"
		}
		if want = strings.TrimSpace(want); got != want && !*update {
			t.Errorf("%s, block %d:\n%s\ngot:\n%s\n\nwant:\n%s", file, i+1, commands, got, want)
		}
		if i > 0 {
			out.WriteString("\n")
		}
		fmt.Fprintf(&out, "%s\n----\n%s\n", strings.TrimSpace(commands), got)
	}
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
