package config

import (
	"encoding/hex"
	"errors"
	"flag"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

var recordJava = flag.Bool("record-java", false, "record what java.util.Properties makes of random texts afresh")

func TestPropertiesAreReadAsJavaReadsThem(t *testing.T) {
	tests := []struct {
		name, text string
		want       map[string]string
	}{
		{"nothing", "", nil},
		{"pairs", "a=1\nb:2\nc 3\n", map[string]string{"a": "1", "b": "2", "c": "3"}},
		{"space around the sign", "a = 1\nb\t:\t2\n  c\f=3  ", map[string]string{"a": "1", "b": "2", "c": "3  "}},
		{"the last one wins", "a=1\na=2\n", map[string]string{"a": "2"}},
		{"comments", "#a=1\n  !b=2\nc=3#4\n", map[string]string{"c": "3#4"}},
		{"a comment does not go on", "#a\\\nb=2\n", map[string]string{"b": "2"}},
		{"continuation", "a=1,\\\n   2,\\\r\n\t3\nb=4", map[string]string{"a": "1,2,3", "b": "4"}},
		{"even backslashes end a line", "a=1\\\\\nb=2", map[string]string{"a": "1\\", "b": "2"}},
		{"comment sign after a continuation", "a=1\\\n#2\n", map[string]string{"a": "1#2"}},
		{"backslash at the end of the file", "a=1\\", map[string]string{"a": "1"}},
		{"escaped separators", `a\=b\:c\ d=1`, map[string]string{"a=b:c d": "1"}},
		{"escapes", `a=\t\n\r\f\q\\`, map[string]string{"a": "\t\n\r\fq\\"}},
		{"unicode", `a=\u00e4\uD83D\uDE00`, map[string]string{"a": "ä😀"}},
		{"bytes are ISO 8859-1", "a=\xe4\xc3", map[string]string{"a": "äÃ"}},
		{"no value", "a\nb=\nc", map[string]string{"a": "", "b": "", "c": ""}},
		{"no key", "=1\n", map[string]string{"": "1"}},
		{"two signs", "a==1\nb:=2\nc =:3", map[string]string{"a": "=1", "b": "=2", "c": ":3"}},
		{"line ends of all kinds", "a=1\rb=2\r\nc=3\n\r\nd=4", map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := ParseProperties(test.text)
			if err != nil {
				t.Fatalf("ParseProperties(%q): %v", test.text, err)
			}
			if !maps.Equal(asMap(got), test.want) {
				t.Errorf("ParseProperties(%q) = %q, want %q", test.text, asMap(got), test.want)
			}
		})
	}
}

func TestPropertiesNameTheLineThatIsWrong(t *testing.T) {
	_, err := ParseProperties("a=1\r\n\r\n# b\nc=\\\n\\u12\n")
	wrong, ok := errors.AsType[*PropertiesError](err)
	if !ok || wrong.Line != 4 || !errors.Is(err, ErrUnicodeEscape) {
		t.Errorf("got %v, want the escape of line 4", err)
	}
	got, err := ParseProperties("a=1\r\n\r\n# b\r\nc=2\rd=3\n\ne=4")
	if err != nil {
		t.Fatal(err)
	}
	var lines []int
	for _, p := range got {
		lines = append(lines, p.Line)
	}
	if want := []int{1, 4, 5, 7}; !slices.Equal(lines, want) {
		t.Errorf("lines are %v, want %v", lines, want)
	}
}

func asMap(properties []Property) map[string]string {
	m := map[string]string{}
	for _, p := range properties {
		m[p.Name] = p.Value
	}
	return m
}

// TestPropertiesAgreeWithJavaOnRandomTexts compares with answers of java.util.Properties. To record them:
// go test ./internal/config -run RandomTexts -record-java.
func TestPropertiesAgreeWithJavaOnRandomTexts(t *testing.T) {
	const file = "testdata/properties-java.txt"
	if *recordJava {
		recordJavaProperties(t, file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		in, want, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		raw, err := hex.DecodeString(in)
		if err != nil {
			t.Fatal(err)
		}
		got := "refused"
		if properties, err := ParseProperties(string(raw)); err == nil {
			var pairs []string
			m := asMap(properties)
			for _, name := range slices.Sorted(maps.Keys(m)) {
				pairs = append(pairs, hex.EncodeToString([]byte(name))+"="+hex.EncodeToString([]byte(m[name])))
			}
			slices.Sort(pairs)
			got = strings.Join(pairs, " ")
		}
		pairs := strings.Fields(want)
		slices.Sort(pairs)
		if want = strings.Join(pairs, " "); got != want {
			t.Errorf("%q: got %s, Java has %s", raw, got, want)
		}
	}
}

func recordJavaProperties(t *testing.T, file string) {
	const seed = 20
	random := rand.New(rand.NewPCG(seed, seed))
	pieces := []string{
		"a", "b", "key", "=", ":", " ", "\t", "\f", "\n", "\r", "\r\n", "\\", "\\\\", "\\\n", "\\\r\n", "\\\r", "#", "!", "\\u", "\\u0041",
		"\\u00e4", "\\u12", "\\t", "\\=", "\\ ", "\\:", "\xe4", "\x00", "1", ",", "\n#", "\n ",
	}
	var in strings.Builder
	var texts []string
	for range 2000 {
		var b strings.Builder
		for range random.IntN(14) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		texts = append(texts, hex.EncodeToString([]byte(b.String())))
		in.WriteString(texts[len(texts)-1] + "\n")
	}
	cmd := exec.Command("java", "gen/LoadProperties.java")
	cmd.Stdin, cmd.Stderr = strings.NewReader(in.String()), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("run gen/LoadProperties.java: %v", err)
	}
	answers := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(answers) != len(texts) {
		t.Fatalf("%d answers to %d texts", len(answers), len(texts))
	}
	var b strings.Builder
	for i, text := range texts {
		b.WriteString(text + "\t" + answers[i] + "\n")
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func FuzzParseProperties(f *testing.F) {
	for _, seed := range []string{"a=1\n", "a\\\n b=\\u0041", "#c\r\n\\", "listeners=PLAINTEXT://:9092", "a:\\u12"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		properties, err := ParseProperties(text)
		if err != nil {
			return
		}
		lines := strings.Count(text, "\n") + strings.Count(text, "\r") + 1
		for _, p := range properties {
			if p.Line < 1 || p.Line > lines {
				t.Errorf("%q: %q at line %d of %d", text, p.Name, p.Line, lines)
			}
		}
		// What is written out again reads the same.
		again, err := ParseProperties(FormatProperties(properties))
		if err != nil || len(again) != len(properties) {
			t.Fatalf("%q: formatted and read again: %v, %v, want %v", text, again, err, properties)
		}
		for i := range again {
			if again[i].Name != properties[i].Name || again[i].Value != properties[i].Value {
				t.Errorf("%q: formatted and read again: %+v, want %+v", text, again[i], properties[i])
			}
		}
	})
}
