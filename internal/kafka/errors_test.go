package kafka

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// A message may quote what a client sent, as long as that is; the answer's string may not be that long.
func TestLongMessagesAreCut(t *testing.T) {
	for _, text := range []string{"short", strings.Repeat("x", messageMax), strings.Repeat("x", messageMax+1), strings.Repeat("é☃", 20000)} {
		_, got := Answer(Refuse(InvalidRequest, "%s", text))
		if len(got) > messageMax+len("…") || !utf8.ValidString(got) || len(text) <= messageMax && got != text {
			t.Errorf("a message of %d bytes became one of %d, valid %v", len(text), len(got), utf8.ValidString(got))
		}
	}
}
