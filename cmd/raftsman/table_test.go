package main

import (
	"strings"
	"testing"
)

func TestTableAlignsAndLeavesNoBlanksAtLineEnds(t *testing.T) {
	tab := newTable(column{title: "NAME"}, column{title: "N", right: true}, column{})
	tab.add(plain("orders"), count(1234), plain(""))
	tab.add(plain("日本"), count(7), alarm("offline"))
	tab.add(plain("a\x1b[31mb\n"), plain(""), plain(""))
	var b strings.Builder
	if err := tab.write(&b, paint{}, 0); err != nil {
		t.Fatal(err)
	}
	want := `NAME              N
orders        1,234
日本              7  offline
a\x1b[31mb\n
`
	if b.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", b.String(), want)
	}
}

func TestNarrowTerminalShortensTheFlexibleColumn(t *testing.T) {
	tab := newTable(column{title: "TOPIC", flexible: true}, column{title: "RECORDS", right: true})
	tab.add(plain(strings.Repeat("long-name-", 10)), count(5))
	var b strings.Builder
	if err := tab.write(&b, paint{}, 40); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if width := displayWidth(strings.TrimSuffix(line, "\n")); width > 40 {
			t.Errorf("%q is %d wide, want at most 40", line, width)
		}
	}
	if !strings.Contains(b.String(), "…") {
		t.Errorf("nothing shows that the name was cut:\n%s", b.String())
	}
}

func TestColoursTakeNoWidth(t *testing.T) {
	tab := newTable(column{title: "A"}, column{title: "B"})
	tab.add(alarm("x"), plain("y"))
	var with, without strings.Builder
	if err := tab.write(&with, paint{on: true}, 0); err != nil {
		t.Fatal(err)
	}
	if err := tab.write(&without, paint{}, 0); err != nil {
		t.Fatal(err)
	}
	stripped := strings.NewReplacer("\x1b[31;1m", "", "\x1b[1m", "", "\x1b[0m", "").Replace(with.String())
	if stripped != without.String() || with.String() == without.String() {
		t.Errorf("coloured %q, plain %q", with.String(), without.String())
	}
}

func TestBar(t *testing.T) {
	for share, want := range map[float64]string{0: "", 0.001: "▏", 0.5: "██", 0.55: "██▎", 1: "████", 1.5: "████"} {
		if got := bar(share, 4); got != want {
			t.Errorf("bar(%v, 4) = %q, want %q", share, got, want)
		}
	}
}

func TestEscapesKeepWhatIsPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain":       "plain",
		"ä日本":         "ä日本",
		"a\tb\nc\r":   `a\tb\nc\r`,
		"\x1b]0;x\a":  `\x1b]0;x\x07`,
		"\xff\xfe":    `\xff\xfe`,
		"\u202eright": `\u202eright`,
	} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
	if got, want := printableLines("a\n\tb\x1b"), "a\n\tb\\x1b"; got != want {
		t.Errorf("printableLines = %q, want %q", got, want)
	}
}
