package main

import (
	"io"
	"unicode/utf8"
)

// screen is the terminal for what prints texts of others as they are: names of groups may have any character in them, and records any
// byte. What would move the cursor or change the terminal's state is escaped.
type screen struct {
	to   io.Writer
	rest []byte // the beginning of a character, whose end comes with the next Write
}

func (s *screen) Write(b []byte) (int, error) {
	text := append(s.rest, b...)
	whole := len(text)
	for i := len(text) - 1; i >= max(0, len(text)-utf8.UTFMax); i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				whole = i
			}
			break
		}
	}
	if _, err := io.WriteString(s.to, printableLines(string(text[:whole]))); err != nil {
		return 0, err
	}
	s.rest = append([]byte(nil), text[whole:]...)
	return len(b), nil
}

// end writes what has no end.
func (s *screen) end() {
	_, _ = io.WriteString(s.to, printableLines(string(s.rest))) // nobody looks when a terminal is gone
	s.rest = nil
}
