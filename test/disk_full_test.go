package test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// smallDisk is a file system of 64 MiB, gone when the test ends.
func smallDisk(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("raftsman-test", dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Fatalf("this test fills a file system of its own: mount a tmpfs: %v; run it as root, or by `unshare -rm go test …`", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// fullDisk is a broker whose disk fills up, and its clients.
type fullDisk struct {
	t       testing.TB
	broker  *process
	adm     *kadm.Client
	acked   int64 // records of the topic that fills the disk
	pending chan error
}

const (
	fillTopic = "fill"
	keepTopic = "keep"
	fillBytes = 256 << 10
)

// TestAFullDiskRefusesProducesAndNothingElse fills a file system of 64 MiB by a producer. Produces end in an error that
// clients repeat, before the disk is full; reads, commits, deletes and restarts go on; and what waited is taken, by itself, when
// a topic was deleted.
func TestAFullDiskRefusesProducesAndNothingElse(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t)
	dir := filepath.Join(disk, "data")
	f := &fullDisk{t: t, pending: make(chan error, 1)}
	f.start(dir)
	f.fill()
	if usable := free(t, disk); usable < 2<<20 {
		t.Errorf("%d bytes are free: the reserve of 5 %% is gone", usable)
	}
	f.sendPending()
	f.everythingElseWorks("before a restart")

	select {
	case err := <-f.pending:
		t.Fatalf("a record was taken while there was no room, or its producer gave up: %v", err)
	default:
	}

	f.broker.kill()
	f.broker = startBrokerAt(t, dir, portOf(t, f.broker.addr), fullDiskSettings...)
	f.everythingElseWorks("after kill -9 and a start on the full disk")
	f.broker.terminate()
	f.broker = startBrokerAt(t, dir, portOf(t, f.broker.addr), fullDiskSettings...)
	f.fill() // what a stop makes room for
	f.everythingElseWorks("after a stop in order")
	select {
	case err := <-f.pending:
		if err != nil {
			t.Fatalf("the producer gave up: %v", err)
		}
		f.sendPending()
	default:
	}

	must(f.adm.DeleteTopic(t.Context(), fillTopic))(t)
	f.resumes()
}

// TestADiskThatFillsUpWithoutAReserve: another program, or a quota, can take the last byte. Then it is the write that fails, and
// nothing of it stays.
func TestADiskThatFillsUpWithoutAReserve(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t)
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &fullDisk{t: t, pending: make(chan error, 1)}
	dir := filepath.Join(disk, "data")
	f.start(dir, "--override", "raftsman.log.dir.reserve.bytes=0")
	f.fill()
	f.sendPending()
	f.readAll("with no byte left")
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	f.resumes()
	f.broker.kill()
	f.broker = startBrokerAt(t, dir, portOf(t, f.broker.addr), fullDiskSettings...)
	f.readAll("after kill -9")
}

// TestEveryClientWaitsForRoom: what is refused for want of room, clients send again as they are, until there is room.
func TestEveryClientWaitsForRoom(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t)
	broker := startBroker(t, filepath.Join(disk, "data"))
	createTopic(t, broker.addr, keepTopic, 1)
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, free(t, disk)-2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, atLast, "the broker notices", func() error {
		if !strings.Contains(broker.log.String(), "has only its reserve left") {
			return errors.New("no line in its log")
		}
		return nil
	})
	type outcome struct {
		name, out string
		err       error
	}
	const records = 3
	// sarama tries three times within half a second, whatever the error, unless it is told otherwise.
	all := slices.DeleteFunc(libraries(t), func(l library) bool { return l.name == "sarama" })
	ended := make(chan outcome, len(all))
	for i, lib := range all {
		args := append(slices.Clone(lib.command[1:]), "produce", keepTopic, "none", strconv.Itoa(records*i), strconv.Itoa(records), "2")
		go func() {
			out, err := tryRun(atLast, []string{"BOOTSTRAP=" + broker.addr}, lib.command[0], args...)
			ended <- outcome{lib.name, out, err}
		}()
	}
	select {
	case early := <-ended:
		t.Fatalf("%s did not wait: %v %s", early.name, early.err, early.out)
	case <-time.After(4 * time.Second): // for as long as all of them have patience: kafka-go and kafkajs count the times they try
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for range all {
		if o := <-ended; o.err != nil {
			t.Errorf("%s: %v", o.name, o.err)
		}
	}
	cl := crashClient(t, broker.addr, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{keepTopic: {0: kgo.NewOffset().At(0)}}))
	ctx, stop := context.WithTimeout(t.Context(), atLast)
	defer stop()
	seen := map[string]int{}
	for len(seen) < records*len(all) && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) { seen[string(r.Value)]++ })
	}
	for i := range records * len(all) {
		if n := seen[fmt.Sprintf("value-%d", i)]; n != 1 {
			t.Errorf("value-%d of %s is there %d times", i, all[i/records].name, n)
		}
	}
}

var fullDiskSettings = []string{"--override", "log.segment.delete.delay.ms=100"}

func (f *fullDisk) start(dir string, more ...string) {
	f.t.Helper()
	f.broker = startBroker(f.t, dir, append(more, fullDiskSettings...)...)
	f.adm = kadm.NewClient(crashClient(f.t, f.broker.addr))
	segments := "4194304"
	if _, err := f.adm.CreateTopic(f.t.Context(), 1, 1, map[string]*string{"segment.bytes": &segments}, fillTopic); err != nil {
		f.t.Fatal(err)
	}
	createTopic(f.t, f.broker.addr, keepTopic, 1)
	cl := crashClient(f.t, f.broker.addr)
	for i := range 10 {
		if err := cl.ProduceSync(f.t.Context(), &kgo.Record{Topic: keepTopic, Value: fmt.Appendf(nil, "%d", i)}).FirstErr(); err != nil {
			f.t.Fatal(err)
		}
	}
	f.commit(1)
}

// fill produces, without trying again, until that is refused ten times in a row.
func (f *fullDisk) fill() {
	f.t.Helper()
	config := sarama.NewConfig()
	config.Producer.Return.Successes, config.Producer.Retry.Max = true, 0
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Version = sarama.V2_1_0_0
	producer, err := sarama.NewSyncProducer([]string{f.broker.addr}, config)
	if err != nil {
		f.t.Fatal(err)
	}
	defer producer.Close()
	value := strings.Repeat("x", fillBytes)
	for refused := 0; refused < 10; {
		_, offset, err := producer.SendMessage(&sarama.ProducerMessage{Topic: fillTopic, Value: sarama.StringEncoder(value)})
		switch {
		case err == nil && offset == f.acked:
			f.acked++
			refused = 0
		case errors.Is(err, sarama.ErrKafkaStorageError):
			refused++
		default:
			f.t.Fatalf("produce of record %d on a disk that fills up: offset %d, %v, want KAFKA_STORAGE_ERROR", f.acked, offset, err)
		}
		if f.acked*fillBytes > 64<<20 {
			f.t.Fatalf("%d records of %d bytes were taken on a disk of 64 MiB", f.acked, fillBytes)
		}
	}
	if f.acked*fillBytes < 40<<20 {
		f.t.Errorf("refused after %d records of %d bytes on a disk of 64 MiB", f.acked, fillBytes)
	}
}

// sendPending produces a record as applications do: its client repeats it until it is taken.
func (f *fullDisk) sendPending() {
	cl := crashClient(f.t, f.broker.addr)
	cl.Produce(f.t.Context(), &kgo.Record{Topic: keepTopic, Value: []byte("pending")}, func(_ *kgo.Record, err error) { f.pending <- err })
}

// everythingElseWorks on a disk on which nothing can be produced.
func (f *fullDisk) everythingElseWorks(when string) {
	f.t.Helper()
	f.readAll(when)
	f.commit(5)
	name := "made-" + strings.ReplaceAll(when, " ", "-")
	createTopic(f.t, f.broker.addr, name, 1)
	must(f.adm.DeleteTopic(f.t.Context(), name))(f.t)
	var to kadm.Offsets
	to.AddOffset(keepTopic, 0, 2, -1)
	deleted, err := f.adm.DeleteRecords(f.t.Context(), to)
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		f.t.Errorf("%s: delete records: %v", when, err)
	}
}

func (f *fullDisk) commit(at int64) {
	f.t.Helper()
	var offsets kadm.Offsets
	offsets.AddOffset(keepTopic, 0, at, -1)
	if err := f.adm.CommitAllOffsets(f.t.Context(), "group", offsets); err != nil {
		f.t.Errorf("commit: %v", err)
	}
	found, err := f.adm.FetchOffsets(f.t.Context(), "group")
	if err != nil {
		f.t.Fatal(err)
	}
	if got, _ := found.Lookup(keepTopic, 0); got.At != at {
		f.t.Errorf("committed %d, found %d", at, got.At)
	}
}

// readAll reads what was acknowledged of the topic that fills the disk.
func (f *fullDisk) readAll(when string) {
	f.t.Helper()
	cl := crashClient(f.t, f.broker.addr, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{fillTopic: {0: kgo.NewOffset().At(0)}}),
		kgo.FetchMaxWait(100*time.Millisecond))
	defer cl.Close()
	ctx, stop := context.WithTimeout(f.t.Context(), atLast)
	defer stop()
	next := int64(0)
	for next < f.acked {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			f.t.Fatalf("%s: read of %s at %d, %d were acknowledged: %v", when, fillTopic, next, f.acked, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset != next || len(r.Value) != fillBytes {
				f.t.Fatalf("%s: read offset %d of %d bytes, want offset %d", when, r.Offset, len(r.Value), next)
			}
			next++
		})
	}
}

// resumes waits until the record that waited for room is taken, and more is.
func (f *fullDisk) resumes() {
	f.t.Helper()
	select {
	case err := <-f.pending:
		if err != nil {
			f.t.Fatalf("the producer gave up: %v", err)
		}
	case <-time.After(atLast):
		f.t.Fatalf("there is room again, and produces are still refused:\n%s", f.broker.log.tail(20))
	}
	cl := crashClient(f.t, f.broker.addr)
	if err := cl.ProduceSync(f.t.Context(), &kgo.Record{Topic: keepTopic, Value: []byte("more")}).FirstErr(); err != nil {
		f.t.Errorf("produce with room again: %v", err)
	}
	for _, said := range []string{"produces are refused with KAFKA_STORAGE_ERROR", "produces are taken"} {
		if n := strings.Count(f.broker.log.String(), said); n > 3 {
			f.t.Errorf("%q is said %d times: once for each change is enough", said, n)
		}
	}
}

func portOf(t testing.TB, addr string) int {
	t.Helper()
	_, port, _ := net.SplitHostPort(addr)
	return must(strconv.Atoi(port))(t)
}

func free(t testing.TB, dir string) int64 {
	t.Helper()
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		t.Fatal(err)
	}
	return int64(s.Bavail) * s.Bsize
}
