package test

import (
	bigendian "encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The topics of the round trip, by what becomes of them. Kafka makes each of them anew, or writes it, or takes of it what the journal
// of Raftsman, which was killed, still has.
const (
	tripKept    = "kept"
	tripCut     = "cut"     // a power cut takes the end of what Raftsman wrote; Kafka writes partition 0 again, and nothing to partition 1
	tripAgain   = "again"   // Kafka deletes it, and creates another one of that name
	tripEmptied = "emptied" // Kafka deletes its records
	tripHarmed  = "harmed"  // a bit flips
)

// harmedFrom is the offset of the record that is damaged.
const harmedFrom = 11

// TestKafkaAndRaftsmanTakeTurnsOnTwoLogDirectories: what Kafka wrote, truncated, emptied and created again while Raftsman was gone
// is what counts, whatever Raftsman's journals still have. A partition that Raftsman has found damaged is opened by Kafka like any
// other, and what Kafka makes of it is served again.
func TestKafkaAndRaftsmanTakeTurnsOnTwoLogDirectories(t *testing.T) {
	t.Parallel()
	r := newRoundTrip(t)
	r.k.start(t)
	r.fill()
	before := viewOf(t, r.k.addr())
	r.k.stop(t)

	p := r.k.raftsman(t)
	before.check(t, r.k.addr(), "Raftsman after Kafka was stopped")
	r.produceUntilJournals()
	before = viewOf(t, r.k.addr())
	p.kill()
	p = r.k.raftsman(t)
	before.check(t, r.k.addr(), "Raftsman after it was killed")
	r.produceUntilJournals()
	before = viewOf(t, r.k.addr())
	p.kill()
	for partition := range 2 {
		r.powerCut(tripCut, partition)
	}

	r.k.start(t)
	lost := viewOf(t, r.k.addr())
	for topic := range before.records {
		if same := lost.records[topic] == before.records[topic]; same == (topic == tripCut) {
			t.Fatalf("topic %s: what Raftsman wrote is the same for Kafka: %v:\n%s", topic, same, difference(before.records[topic], lost.records[topic]))
		}
	}
	r.rewrite()
	before = viewOf(t, r.k.addr())
	run(t, atLast, nil, "kafka/kafka", "stop", r.k.root, "KILL")
	r.journals()

	p = r.k.raftsman(t, "--override", "raftsman.log.scrub.interval.ms=500")
	before.check(t, r.k.addr(), "Raftsman after Kafka was killed")
	if told := p.log.String(); strings.Contains(told, "were taken from the journal") {
		t.Errorf("Raftsman took records from a journal of before Kafka:\n%s", p.log.tail(20))
	}
	r.flip(tripHarmed)
	note := r.noted()
	p.kill()

	r.k.start(t)
	damaged := before
	damaged.records = without(before.records, tripHarmed)
	damaged.check(t, r.k.addr(), "Kafka after Raftsman was killed")
	before = viewOf(t, r.k.addr())
	if told := before.records[tripHarmed]; !strings.HasPrefix(told, fmt.Sprintf("0 from 0 to %d\n", harmedFrom)) {
		t.Errorf("Kafka has not cut off what was damaged: %.100s", told)
	}
	if content, _ := os.ReadFile(filepath.Join(r.k.root, "server.log")); strings.Contains(string(content), "raftsman") {
		t.Error("Kafka says something of a file of Raftsman's")
	}
	r.k.stop(t)
	if _, err := os.Stat(note); err != nil {
		t.Errorf("after Kafka: %v", err)
	}
	p = r.k.raftsman(t)
	before.check(t, r.k.addr(), "Raftsman after Kafka was stopped again")
	if _, err := os.Stat(note); err == nil {
		t.Errorf("%s is still there, though Kafka has cut off what was damaged", note)
	}
	p.terminate()
	for _, dir := range r.dirs {
		if left := must(filepath.Glob(filepath.Join(dir, "raftsman.*")))(t); len(left) > 0 {
			t.Errorf("after a stop in order there is still %q", left)
		}
	}
	t.Logf("dump-log read %v", dumpAll(t, r.dirs...))
}

func without(m map[string]string, key string) map[string]string {
	rest := map[string]string{}
	for k, v := range m {
		if k != key {
			rest[k] = v
		}
	}
	return rest
}

type roundTrip struct {
	testing.TB
	k    kafkaHome
	dirs []string
}

func newRoundTrip(t *testing.T) roundTrip {
	root := t.TempDir()
	r := roundTrip{TB: t, dirs: []string{filepath.Join(root, "data"), filepath.Join(root, "more")}}
	r.k = kafkaHome{root: root, port: freePort(t), settings: []string{
		"log.dirs=" + strings.Join(r.dirs, ","), "offsets.topic.num.partitions=4",
		"log.flush.start.offset.checkpoint.interval.ms=100",
	}}
	return r
}

// partitions are those of all topics.
func (r roundTrip) partitions() map[string]int32 {
	return map[string]int32{tripKept: 4, tripCut: 2, tripAgain: 2, tripEmptied: 1, tripHarmed: 1}
}

func (r roundTrip) fill() {
	r.Helper()
	adm := kadm.NewClient(crashClient(r, r.k.addr()))
	for topic, partitions := range r.partitions() {
		settings := map[string]*string{"max.message.bytes": new("900000")}
		if topic == tripAgain {
			settings = nil // Kafka 4.4 gives them to the next topic of the name when it starts
		}
		must(adm.CreateTopic(r.Context(), partitions, 1, settings, topic))(r)
		produceAll(r, r.k.addr(), topic, "by Kafka")
	}
	var commits kadm.Offsets
	for p := range int32(4) {
		commits.Add(kadm.Offset{Topic: tripKept, Partition: p, At: int64(p) + 2, LeaderEpoch: 0, Metadata: fmt.Sprint("of ", p)})
	}
	for n := range 6 {
		if err := adm.CommitAllOffsets(r.Context(), fmt.Sprint("group-", n), commits); err != nil {
			r.Fatal(err)
		}
	}
	for _, dir := range r.dirs {
		if found := must(filepath.Glob(filepath.Join(dir, "*-[0-9]")))(r); len(found) < 3 {
			r.Fatalf("%s holds only %q", dir, found)
		}
	}
}

// produceUntilJournals writes to all partitions, and goes on until every directory has a journal, and entries for each partition.
func (r roundTrip) produceUntilJournals() {
	r.Helper()
	cl := crashClient(r, r.k.addr(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for after, n := 0, 0; after < 3; n++ {
		if n > journalRoundsMax {
			r.Fatal("there are no journals")
		}
		for topic, partitions := range r.partitions() {
			for p := range partitions {
				record := &kgo.Record{Topic: topic, Partition: p, Key: fmt.Appendf(nil, "key %d", n%7), Value: fmt.Appendf(nil, "%d by Raftsman", n)}
				if err := cl.ProduceSync(r.Context(), record).FirstErr(); err != nil {
					r.Fatal(err)
				}
			}
		}
		missing := false
		for _, dir := range r.dirs {
			_, err := os.Stat(filepath.Join(dir, "raftsman.journal"))
			missing = missing || err != nil
		}
		if !missing {
			after++
		}
	}
}

// journals makes sure that what Kafka has not written is in the journals of before.
func (r roundTrip) journals() {
	r.Helper()
	for _, dir := range r.dirs {
		name := filepath.Join(dir, "raftsman.journal")
		if out := run(r, atLast, nil, binary(r), "log", "dump", name); strings.Count(out, "  offsets ") < 5 {
			r.Fatalf("%s holds only\n%s", name, last(out, 2000))
		}
	}
}

// folder is where a partition is.
func (r roundTrip) folder(topic string, partition int) string {
	r.Helper()
	for _, dir := range r.dirs {
		folder := filepath.Join(dir, fmt.Sprint(topic, "-", partition))
		if _, err := os.Stat(folder); err == nil {
			return folder
		}
	}
	r.Fatalf("%s-%d is nowhere", topic, partition)
	return ""
}

// powerCut takes the end of a segment away, in the middle of its last batch but one.
func (r roundTrip) powerCut(topic string, partition int) {
	r.Helper()
	name := filepath.Join(r.folder(topic, partition), "00000000000000000000.log")
	info, err := os.Stat(name)
	if err == nil {
		err = os.Truncate(name, info.Size()-100)
	}
	if err != nil {
		r.Fatal(err)
	}
}

// rewrite has Kafka write other records in place of those that were lost, and take away others.
func (r roundTrip) rewrite() {
	r.Helper()
	adm := kadm.NewClient(crashClient(r, r.k.addr()))
	cl := crashClient(r, r.k.addr(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := cl.ProduceSync(r.Context(), &kgo.Record{Topic: tripCut, Partition: 0, Value: []byte("by Kafka instead")}).FirstErr(); err != nil {
		r.Fatal(err)
	}
	if err := must(adm.DeleteTopics(r.Context(), tripAgain))(r).Error(); err != nil {
		r.Fatal(err)
	}
	eventually(r, atLast, "the topic is created again", func() error {
		resp, err := adm.CreateTopic(r.Context(), 2, 1, nil, tripAgain)
		return errors.Join(err, resp.Err)
	})
	produceAll(r, r.k.addr(), tripAgain, "by Kafka again")
	all := must(adm.ListEndOffsets(r.Context(), tripEmptied))(r)
	must(adm.DeleteRecords(r.Context(), all.Offsets()))(r)
	eventually(r, atLast, "Kafka has noted where the log begins, which it forgets otherwise when it is killed", func() error {
		name := filepath.Join(filepath.Dir(r.folder(tripEmptied, 0)), "log-start-offset-checkpoint")
		if noted := string(must(os.ReadFile(name))(r)); !strings.Contains(noted, tripEmptied+" 0 ") {
			return errors.New(noted)
		}
		return nil
	})
	produceAll(r, r.k.addr(), tripKept, "by Kafka behind Raftsman")
}

// flip damages a batch that was flushed before the last start, with others behind it.
func (r roundTrip) flip(topic string) {
	r.Helper()
	name := filepath.Join(r.folder(topic, 0), "00000000000000000000.log")
	content := must(os.ReadFile(name))(r)
	at := 0
	for range harmedFrom { // batches of one record: base offset, 8 bytes, and the length of what follows, 4 bytes
		at += 12 + int(bigendian.BigEndian.Uint32(content[at+8:]))
	}
	content[at+61] ^= 0x10 // behind the header
	write(r, name, string(content))
}

// noted returns the file with Raftsman's word that the topic is damaged.
func (r roundTrip) noted() string {
	r.Helper()
	name := filepath.Join(r.folder(tripHarmed, 0), "raftsman.damaged")
	eventually(r, atLast, "the damage is noted", func() error {
		_, err := os.Stat(name)
		return err
	})
	return name
}
