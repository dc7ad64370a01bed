package commitlog

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

const formatDocs = "../../docs/format"

func readPage(t *testing.T, page string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(formatDocs, page))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// examples returns the blocks of a page that are fenced with a language.
func examples(t *testing.T, page, language string) []string {
	t.Helper()
	var found []string
	for i, block := range strings.Split(readPage(t, page), "\n```") {
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

// TestTheFormatPageNamesEveryFile: a kind of file or folder that is not on the page is one that nobody can look up.
func TestTheFormatPageNamesEveryFile(t *testing.T) {
	page := readPage(t, "log-directory.md")
	for _, name := range []string{
		MetaPropertiesFile, LockFile, CleanShutdownFile, RecoveryPointFile, LogStartFile, HighWatermarkFile, JournalFile, CleanerFile,
		EpochsFile, PartitionMetadataFile, "BASE" + logSuffix, "BASE" + indexSuffix, "BASE" + timeIndexSuffix, "BASE" + txnIndexSuffix,
		"OFFSET" + snapshotSuffix, "*" + deletedSuffix, "BASE.log" + cleanedSuffix, "BASE.log" + swapSuffix, "*" + tmpSuffix,
		"TOPIC-PARTITION.UUID" + folderDeleteSuffix + "/", "TOPIC-PARTITION.UUID" + folderFutureSuffix + "/",
		"TOPIC-PARTITION.UUID" + folderStraySuffix + "/",
	} {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("%s/log-directory.md does not tell of %s", formatDocs, name)
		}
	}
}

// TestTheJournalPageHasItsFields compares the first column of the page's table with where the fields are.
func TestTheJournalPageHasItsFields(t *testing.T) {
	var fields []int
	for line := range strings.Lines(readPage(t, "journal.md")) {
		if at, err := strconv.Atoi(strings.TrimSpace(strings.Split(line+"|", "|")[1])); err == nil {
			fields = append(fields, at)
		}
	}
	want := []int{
		0, journalPosLength, journalPosLap, journalPosTopic, journalPosPartition, journalPosKind, journalPosFrom, journalHeaderBytes,
	}
	if !slices.Equal(fields, want) {
		t.Errorf("the page has fields at %v, the journal at %v", fields, want)
	}
}
