package parity

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

const page = "../../docs/compatibility.md"

var pageNow = flag.Bool("page", false, "write docs/compatibility.md")

// TestPageIsUpToDate holds that the page says what the tables and recordings say.
func TestPageIsUpToDate(t *testing.T) {
	if *pageNow {
		writePage(t)
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != compatibility(t) {
		t.Errorf("%s is stale: run `cd test && go test ./parity -run TestPageIsUpToDate -page`", page)
	}
}

func writePage(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(page, []byte(compatibility(t)), 0o644); err != nil {
		t.Fatal(err)
	}
}

const preface = `<!-- Generated from test/parity by ` + "`make parity`" + `; do not edit. -->
# Compatibility with Apache Kafka 4.4

Apache Kafka 4.4.0 and this broker are asked the same, %d cases, and every field of every answer is compared: each API that is
served, at every version, rightly, wrongly and oddly, and in conversations that build on each other (groups, fetch sessions,
producers' sequences, settings). Kafka's answers are recorded in ` + "`test/parity/testdata`" + `; ` + "`make parity`" + ` asks it again.

What brokers choose freely is masked by rule: addresses, directories, sizes, the wording of messages and the present time only have
to be there; ids of topics, members, producers and sessions have to be the same ones as before. Order counts in the pages of
DescribeTopicPartitions alone. Where Kafka gives no message and this broker does, and in Kafka's own
topics nothing is compared. Where Kafka does not answer at all, and where a difference stays, this broker is held to what it answered
before, which is in ` + "`test/parity/testdata/ours`" + `.
`

// compatibility is the page.
func compatibility(t *testing.T) string {
	t.Helper()
	c := everything()
	cases := map[kmsg.Key]int{}
	for i := range c.steps {
		cases[c.steps[i].key]++
	}
	var p strings.Builder
	fmt.Fprintf(&p, preface, len(c.steps))
	p.WriteString("\n## APIs\n\n| key | API | Kafka 4.4 | here | cases | differences |\n|---|---|---|---|---|---|\n")
	for _, k := range raw.Keys {
		here, stay := versions(k.Min, k.Max), 0
		if k.Comes != "" {
			here = "–"
		}
		for _, d := range differences {
			if d.key == k.Key {
				stay++
			}
		}
		fmt.Fprintf(&p, "| %d | %s | %s | %s | %s | %s |\n", k.Key, kmsg.NameForKey(int16(k.Key)), versions(k.Min, k.Max), here, count(cases[k.Key]), count(stay))
	}
	p.WriteString("\nProduce is advertised from version 0 and refused below 3, both as in Kafka.\n\n## Differences that stay\n\n| API | cases | fields | how many | why |\n|---|---|---|---|---|\n")
	for _, k := range raw.Keys {
		for _, d := range differences {
			if d.key == k.Key {
				fmt.Fprintf(&p, "| %s | %s | %s | %d | %s |\n", k.Key.Name(), d.title, cmp.Or(d.field, "all"), casesOf(c, d), d.why)
			}
		}
	}
	p.WriteString("\n## Not served yet\n\nApiVersions, in each of its versions, lacks these keys and features of Kafka's, and nothing else. (Kafka lists 71 and\n72 only where a plug-in takes them.)\n\n| key | API | Kafka 4.4 | comes with |\n|---|---|---|---|\n")
	for _, k := range raw.Keys {
		if k.Comes != "" {
			fmt.Fprintf(&p, "| %d | %s | %s | %s |\n", k.Key, kmsg.NameForKey(int16(k.Key)), versions(k.Min, k.Max), k.Comes)
		}
	}
	p.WriteString("\n| feature | Kafka 4.4 supports | a new cluster runs at | here |\n|---|---|---|---|\n")
	for _, f := range featuresOf(kafkasRecorded.read(t)) {
		fmt.Fprintf(&p, "| %s | %s | %s | %s |\n", f.name, f.supported, f.finalized, cmp.Or(laterFeatures[f.name], "as in Kafka"))
	}
	return p.String()
}

func versions(from, to int16) string {
	if from == to {
		return fmt.Sprint(from)
	}
	return fmt.Sprintf("%d–%d", from, to)
}

func count(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func casesOf(c *conversation, d *stays) (n int) {
	for i := range c.steps {
		if d.of(&c.steps[i]) {
			n++
		}
	}
	return n
}
