package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// journalRoundsMax is how many flushes of small appends there are at most before a directory has a journal.
const journalRoundsMax = 200

// produceUntilJournal produces to a topic's only partition until its directory has a journal. It returns how many records that took.
func produceUntilJournal(t *testing.T, c *rawConn, dir, topic string) (records int64) {
	t.Helper()
	for {
		if _, err := os.Stat(filepath.Join(dir, "raftsman.journal")); err == nil {
			return records
		}
		if records++; records > journalRoundsMax {
			t.Fatalf("no journal after %d records", records)
		}
		if code, err := produceOne(c, topic, 0, -1); err != nil || code != 0 {
			t.Fatalf("record %d: code %d, %v", records, code, err)
		}
	}
}

// TestNothingIsAcknowledgedBeforeTheJournalIsFlushed: once a directory has a journal, its flush is the only one that a small record
// waits for. It is held up; those of the segments are not.
func TestNothingIsAcknowledgedBeforeTheJournalIsFlushed(t *testing.T) {
	t.Parallel()
	dir, trace := t.TempDir(), filepath.Join(t.TempDir(), "trace.txt")
	p := straceBroker(t, dir, freePort(t), "-y", "-o", trace, "-P", filepath.Join(dir, "raftsman.journal"), "-e", "trace=fdatasync",
		"-e", fmt.Sprintf("inject=fdatasync:delay_enter=%d", flushDelay.Microseconds()))
	createTopic(t, p.addr, "slow", 1)
	producer, reader := dialRaw(t, p.addr), dialRaw(t, p.addr)
	id := topicID(t, p.addr, "slow")
	records := produceUntilJournal(t, producer, dir, "slow")
	const rounds = 5
	for _, acks := range []int16{-1, 1} {
		for range rounds {
			delivered := make(chan time.Time, 1)
			delivery := awaitRecord(reader, id, 0, records)
			go func() {
				if err := <-delivery; err != nil {
					t.Errorf("acks=%d: record %d was not delivered: %v", acks, records, err)
				}
				delivered <- time.Now()
			}()
			began := time.Now()
			if code, err := produceOne(producer, "slow", 0, acks); err != nil || code != 0 {
				t.Fatalf("acks=%d: code %d, %v", acks, code, err)
			}
			if took := time.Since(began); took < flushDelay {
				t.Errorf("acks=%d: record %d was acknowledged after %v, the journal's flush began later and takes %v", acks, records, took, flushDelay)
			}
			if took := (<-delivered).Sub(began); took < flushDelay {
				t.Errorf("acks=%d: record %d was delivered after %v, the journal's flush began later and takes %v", acks, records, took, flushDelay)
			}
			records++
		}
	}
	content, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(content), "raftsman.journal>"); n < 2*rounds {
		t.Errorf("strace saw %d flushes of the journal, there were %d records", n, 2*rounds)
	}
}

// TestFailedFlushOfTheJournal: what a flush of the journal that failed was to make durable is neither acknowledged nor delivered, and
// the directory goes offline; what was acknowledged before is there afterwards.
func TestFailedFlushOfTheJournal(t *testing.T) {
	t.Parallel()
	for name, acks := range map[string]int16{"acks=all": -1, "acks=1": 1} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			// Calls are counted per thread: from the third flush of some thread on, the first of all being part of making the file.
			p := straceBroker(t, dir, freePort(t), "-P", filepath.Join(dir, "raftsman.journal"), "-e", "trace=fdatasync",
				"-e", "inject=fdatasync:error=EIO:when=3+")
			createTopic(t, p.addr, "bad", 1)
			producer, reader := dialRaw(t, p.addr), dialRaw(t, p.addr)
			id := topicID(t, p.addr, "bad")
			acked := produceUntilJournal(t, producer, dir, "bad")
			for failed := false; !failed; {
				delivery := awaitRecord(reader, id, 0, acked)
				code, err := produceOne(producer, "bad", 0, acks)
				switch failed = err != nil || code != 0; {
				case err == nil && code != 0 && code != kerr.KafkaStorageError.Code:
					t.Errorf("record %d was answered with code %d, want KAFKA_STORAGE_ERROR or no answer", acked, code)
				case !failed:
					acked++
				}
				if err := <-delivery; (err == nil) == failed {
					t.Errorf("record %d: its produce failed: %v; its delivery ended with %v", acked, failed, err)
				}
				if acked > 10*journalRoundsMax {
					t.Fatalf("%d records, and no flush of the journal failed", acked)
				}
			}
			p.awaitRefusal(atLast)
			if found := p.offlineLines(); len(found) != 1 || !strings.Contains(found[0], dir) || !strings.Contains(found[0], "input/output error") {
				t.Errorf("want one line that says which directory is offline and why, got %d:\n%s", len(found), p.log.tail(20))
			}
			again := startBroker(t, dir) // on a disk that works again
			if got := int64(len(readTopic(t, again.addr, "bad")[0])); got < acked || got > acked+1 {
				t.Errorf("%d records after the next start, %d were acknowledged and one was not", got, acked)
			}
		})
	}
}
