package condition

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/raftsman/raftsman/internal/kafka"
)

var partitions = []Partition{
	{},
	{Compaction: &Compaction{Cleaned: kafka.NoOffset, CleanedMs: -1}},
	{Compaction: &Compaction{Cleaned: 1 << 40, CleanBytes: 5, DirtyBytes: math.MaxInt64, OverdueMs: 7, CleanedMs: 1_700_000_000_000}, Uncleanable: "why"},
	{Uncleanable: "a", Damage: &Damage{File: "/d/t-0/0.log", At: 61, Reason: "crc", Remedy: "restore it"}},
	{Damage: &Damage{}},
}

func TestRoundTrip(t *testing.T) {
	for _, want := range partitions {
		sent := want.Append([]byte("before"))
		got, err := ReadPartition(sent[len("before"):])
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v was sent, %+v read, %v", want, got, err)
		}
	}
	for _, want := range []Directory{{}, {ReserveBytes: 1 << 28, RefusedBatches: 3, RefusesProduces: true}, {RefusesCommits: true}} {
		if got, err := ReadDirectory(want.Append(nil)); err != nil || got != want {
			t.Errorf("%+v was sent, %+v read, %v", want, got, err)
		}
	}
}

func TestLongTextsAreCutBetweenCharacters(t *testing.T) {
	p := Partition{Uncleanable: "x" + strings.Repeat("€", TextBytesMax)}
	got, err := ReadPartition(p.Append(nil))
	if err != nil || !utf8.ValidString(got.Uncleanable) || len(got.Uncleanable) > TextBytesMax || len(got.Uncleanable) < TextBytesMax-3 {
		t.Errorf("%d bytes came, %v; want at most %d of whole characters", len(got.Uncleanable), err, TextBytesMax)
	}
	// What is no text at all is cut as well.
	p.Uncleanable = strings.Repeat("\x80", 2*TextBytesMax)
	if got, err := ReadPartition(p.Append(nil)); err != nil || len(got.Uncleanable) > TextBytesMax {
		t.Errorf("%d bytes came, %v", len(got.Uncleanable), err)
	}
}

func TestMalformedIsRefused(t *testing.T) {
	for _, p := range partitions {
		whole := p.Append(nil)
		for n := range whole {
			if _, err := ReadPartition(whole[:n]); !errors.Is(err, ErrMalformed) {
				t.Errorf("%d of %d bytes of %+v: %v", n, len(whole), p, err)
			}
		}
		if _, err := ReadPartition(append(whole, 0)); !errors.Is(err, ErrMalformed) {
			t.Errorf("a byte too many behind %+v: %v", p, err)
		}
	}
	for _, text := range []string{"", "00", "0008", "00020000", "000204ff", "ff00", "000404"} {
		content, _ := hex.DecodeString(text)
		if _, err := ReadPartition(content); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := ReadPartition(make([]byte, bytesMax+1)); !errors.Is(err, ErrMalformed) {
		t.Errorf("more than is ever sent: %v", err)
	}
}

func TestALaterVersionIsReadAsFarAsItIsKnown(t *testing.T) {
	p := partitions[3]
	later := append(p.Append(nil), "and more"...)
	later[0] = Version + 1
	later[1] |= 1 << 7
	if got, err := ReadPartition(later); err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("%+v, %v; want %+v", got, err, p)
	}
	if !Asked(Asks()) || !Asked([]byte{Version + 1}) || Asked(nil) || Asked([]byte{0xff}) || Asked([]byte{0, 0}) {
		t.Error("who asks at this version or a later one is answered, and nobody else")
	}
}

// The page shows the bytes of partitions[3].
func TestThePageShowsTheBytes(t *testing.T) {
	page, err := os.ReadFile("../../docs/format/condition.md")
	if err != nil {
		t.Fatal(err)
	}
	dump := regexp.MustCompile("(?s)```hex\n(.*?)```").FindSubmatch(page)
	if dump == nil {
		t.Fatal("the page has no hex block")
	}
	content, err := hex.DecodeString(strings.Join(strings.Fields(string(dump[1])), ""))
	if err != nil {
		t.Fatal(err)
	}
	if want := partitions[3].Append(nil); !bytes.Equal(content, want) {
		t.Errorf("the page shows\n%x\nwhat is sent is\n%x", content, want)
	}
}

func FuzzRead(f *testing.F) {
	for _, p := range partitions {
		f.Add(p.Append(nil))
	}
	d := Directory{ReserveBytes: 1, RefusesProduces: true}
	f.Add(d.Append(nil))
	f.Fuzz(func(t *testing.T, content []byte) {
		if p, err := ReadPartition(content); err == nil {
			again := p.Append(nil)
			if content[0] == Version && !bytes.Equal(again, content) {
				t.Errorf("%x was read as %+v, which is %x", content, p, again)
			}
			if got, err := ReadPartition(again); err != nil || !reflect.DeepEqual(got, p) {
				t.Errorf("%+v was written and read as %+v, %v", p, got, err)
			}
		}
		if d, err := ReadDirectory(content); err == nil && content[0] == Version && !bytes.Equal(d.Append(nil), content) {
			t.Errorf("%x was read as %+v", content, d)
		}
	})
}
