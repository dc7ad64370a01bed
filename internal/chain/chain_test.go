package chain

import (
	"slices"
	"testing"
)

type word struct {
	text  string
	links Links[word]
}

func (w *word) Links() *Links[word] { return &w.links }

// Values are taken out of the begin, the middle and the end, and come back at the end.
func TestOrder(t *testing.T) {
	var l List[word, *word]
	a, b, c := &word{text: "a"}, &word{text: "b"}, &word{text: "c"}
	holds := func(want ...string) {
		t.Helper()
		var got []string
		for w := l.First(); w != nil; w = w.links.Next() {
			got = append(got, w.text)
		}
		last := ""
		if l.Last() != nil {
			last = l.Last().text
		}
		if !slices.Equal(got, want) || len(want) > 0 && last != want[len(want)-1] || len(want) == 0 && last != "" {
			t.Fatalf("%q, last %q; want %q", got, last, want)
		}
	}
	holds()
	l.Add(a)
	l.Add(b)
	l.Add(c)
	holds("a", "b", "c")
	l.Remove(b)
	holds("a", "c")
	l.Add(b)
	l.Remove(a)
	holds("c", "b")
	l.Remove(b)
	holds("c")
	l.Remove(c)
	holds()
	l.Add(a)
	holds("a")
}
