package commitlog

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

const formatDocs = "../../docs/format"

// examples returns the blocks of a page that are fenced with a language.
func examples(t *testing.T, page, language string) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(formatDocs, page))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for i, block := range strings.Split(string(content), "\n```") {
		if first, rest, _ := strings.Cut(block, "\n"); i%2 == 1 && first == language { // the others are between the fences
			found = append(found, rest+"\n")
		}
	}
	return found
}

func hexExample(t *testing.T, name string) []byte {
	t.Helper()
	found := examples(t, "segment.md", "hex "+name)
	if len(found) != 1 {
		t.Fatalf("%d examples of %s", len(found), name)
	}
	b, err := hex.DecodeString(strings.Join(strings.Fields(found[0]), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestExamplesOfTheFormatPages(t *testing.T) {
	b, rest, err := record.Split(hexExample(t, "log"))
	if err != nil || len(rest) > 0 || b.Check() != nil || b.ProducerID() != 22 || b.Count() != 1 {
		t.Errorf("log: %v, %d bytes left", err, len(rest))
	}
	index, err := ParseIndex(hexExample(t, "index"), 20)
	if err != nil || !slices.Equal(index, []IndexEntry{{27, 397}, {31, 580}, {35, 758}, {39, 969}}) {
		t.Errorf("index: %v, %v", index, err)
	}
	times, err := ParseTimeIndex(hexExample(t, "timeindex"), 20)
	if err != nil || len(times) != 4 || times[0] != (TimeEntry{1_700_000_001_013, 27}) {
		t.Errorf("timeindex: %v, %v", times, err)
	}
	txns, err := ParseTxnIndex(hexExample(t, "txnindex"))
	if err != nil || !slices.Equal(txns, []AbortedTxn{{22, 0, 3, 4}, {22, 8, 11, 12}}) {
		t.Errorf("txnindex: %v, %v", txns, err)
	}
	text := examples(t, "log-directory.md", "")
	if len(text) != 4 {
		t.Fatalf("%d examples", len(text))
	}
	p, err := ParseMetaProperties([]byte(text[0]))
	if err != nil || !bytes.Equal(p.format(), []byte(text[0])) {
		t.Errorf("meta.properties: %+v, %v", p, err)
	}
	offsets, err := ParseOffsets([]byte(text[1]))
	if err != nil || len(offsets) != 2 || offsets[0].Offset != 1200 {
		t.Errorf("checkpoint: %v, %v", offsets, err)
	}
	epochs, err := ParseEpochs([]byte(text[2]))
	if err != nil || !slices.Equal(epochs, []EpochStart{{0, 0}, {3, 1180}}) || string(formatEpochs(epochs)) != text[2] {
		t.Errorf("epochs: %v, %v", epochs, err)
	}
	id, err := ParsePartitionMetadata([]byte(text[3]))
	if err != nil || id == (kafka.TopicID{}) || string(formatPartitionMetadata(id))+"\n" != text[3] {
		t.Errorf("partition.metadata: %v, %v", id, err)
	}
}
