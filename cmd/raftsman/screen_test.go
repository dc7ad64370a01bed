package main

import (
	"bytes"
	"strings"
	"testing"
)

// However the text is cut into pieces.
func TestScreenEscapes(t *testing.T) {
	const text = "gr\u00fc\u00dfe \u65e5\u672c \U0001f600\tx\n\x1b[2J\x1b]0;mine\x07\r\xff\u009b\xf0\x9f\x98"
	const want = "gr\u00fc\u00dfe \u65e5\u672c \U0001f600\tx\n" + `\x1b[2J\x1b]0;mine\x07\r\xff\u009b\xf0\x9f\x98`
	for size := 1; size <= len(text); size++ {
		var got bytes.Buffer
		s := screen{to: &got}
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if written, err := s.Write([]byte(rest[:n])); written != n || err != nil {
				t.Fatalf("wrote %d of %d: %v", written, n, err)
			}
			rest = rest[n:]
		}
		s.end()
		if got.String() != want {
			t.Errorf("in pieces of %d bytes: %q, want %q", size, got.String(), want)
		}
	}
}

// A terminal is spared what a pipe gets as it is.
func TestScriptsOnATerminal(t *testing.T) {
	for _, tty := range []bool{true, false} {
		s := newSession()
		s.app.tty = terminal{out: tty, err: tty}
		code, is := asScript(t.Context(), s.app, "kafka-topics.sh", []string{"--\x1b[2J"})
		said := s.out.String() + s.err.String()
		if !is || code == exitOK || strings.Contains(said, "\x1b") == tty || strings.Contains(said, `\x1b[2J is not`) != tty {
			t.Errorf("terminal %t: ends with %d and says %q", tty, code, said)
		}
	}
}
