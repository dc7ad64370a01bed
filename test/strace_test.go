package test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// flushDelay is by how much every flush of the broker is held up before the kernel does it.
const flushDelay = 100 * time.Millisecond

// TestNothingIsAcknowledgedBeforeItsFlush runs the shipped binary with every flush of its disk held up by 100 ms: whatever is
// acknowledged or delivered sooner was not on the disk.
func TestNothingIsAcknowledgedBeforeItsFlush(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	trace := filepath.Join(t.TempDir(), "trace.txt")
	p := straceBroker(t, dir, freePort(t), "-y", "-o", trace, "-e", "trace=fdatasync,fsync,syncfs",
		"-e", fmt.Sprintf("inject=fdatasync,fsync,syncfs:delay_enter=%d", flushDelay.Microseconds()))
	began := time.Now()
	createTopic(t, p.addr, "slow", 2)
	if took := time.Since(began); took < flushDelay {
		t.Errorf("a topic was created within %v, its metadata flushed later than %v", took, flushDelay)
	}
	rounds := 10
	if soak() {
		rounds = 500
	}
	// Partition 0 gets one record at a time; beside it, partition 1 is never idle, so that flushes run all the time.
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	neighbour := crashClient(t, p.addr, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_ = neighbour.ProduceSync(ctx, &kgo.Record{Topic: "slow", Partition: 1, Value: []byte("x")})
		}
	}()
	defer func() { stop(); <-ended }()

	delivered := make(chan time.Time, 1)
	reader := crashClient(t, p.addr, kgo.FetchMinBytes(1), kgo.FetchMaxWait(30*time.Second),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"slow": {0: kgo.NewOffset().At(0)}}))
	go func() {
		for ctx.Err() == nil {
			reader.PollFetches(ctx).EachRecord(func(*kgo.Record) { delivered <- time.Now() })
		}
	}()
	for name, acks := range map[string]kgo.Acks{"all": kgo.AllISRAcks(), "1": kgo.LeaderAck(), "0": kgo.NoAck()} {
		t.Run("acks="+name, func(t *testing.T) {
			options := []kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.RequiredAcks(acks)}
			if name != "all" {
				options = append(options, kgo.DisableIdempotentWrite())
			}
			producer := crashClient(t, p.addr, options...)
			least := time.Hour
			for n := range rounds {
				began := time.Now()
				if err := producer.ProduceSync(ctx, &kgo.Record{Topic: "slow", Value: []byte("x")}).FirstErr(); err != nil {
					t.Fatal(err)
				}
				took := time.Since(began)
				if took < flushDelay && name != "0" {
					t.Errorf("record %d was acknowledged after %v, its flush began later and takes %v", n, took, flushDelay)
				}
				select {
				case at := <-delivered:
					if took := at.Sub(began); took < flushDelay {
						t.Errorf("record %d was delivered after %v, its flush began later and takes %v", n, took, flushDelay)
					}
					least = min(least, at.Sub(began))
				case <-time.After(atLast):
					t.Fatalf("record %d was not delivered", n)
				}
			}
			t.Logf("%d records, the soonest delivery after %v", rounds, least)
		})
	}
	t.Run("commit", func(t *testing.T) {
		adm := kadm.NewClient(crashClient(t, p.addr))
		for n := range int64(3) {
			var commits kadm.Offsets
			commits.AddOffset("slow", 0, n, -1)
			began := time.Now()
			if err := adm.CommitAllOffsets(ctx, "slow-group", commits); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took < flushDelay {
				t.Errorf("a commit was acknowledged after %v, its flush takes %v", took, flushDelay)
			}
		}
	})
	t.Run("many partitions", func(t *testing.T) {
		createTopic(t, p.addr, "wide", widePartitions)
		for _, acks := range []int16{-1, 1} {
			began := time.Now()
			checkWide(t, dialRaw(t, p.addr), acks, func(n int32, code int16) bool { return code == 0 })
			if took := time.Since(began); took < flushDelay {
				t.Errorf("acks=%d: %d partitions were acknowledged after %v, their flush takes %v", acks, widePartitions, took, flushDelay)
			}
		}
	})
	// That it was these flushes that were held up.
	content, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(content), "syncfs(") {
		t.Error("strace saw no syncfs")
	}
	for _, file := range []string{"slow-0/00000000000000000000.log", "__cluster_metadata-0/00000000000000000000.log"} {
		if n := strings.Count(string(content), filepath.Join(dir, file)+">"); n < 3 {
			t.Errorf("strace saw %d flushes of %s", n, file)
		}
	}
}

// widePartitions are so many that they are flushed all at once, with the file system.
const widePartitions = 40

// checkWide produces to all partitions of the topic "wide" in one request.
func checkWide(t testing.TB, c *rawConn, acks int16, good func(partition int32, code int16) bool) {
	t.Helper()
	req := produceRequest("wide", 0, acks, batch("x"))
	for n := int32(1); n < widePartitions; n++ {
		part := req.Topics[0].Partitions[0]
		part.Partition, part.Records = n, batch("x")
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, part)
	}
	c.send(req)
	resp, err := receive[*kmsg.ProduceResponse](c, req, atLast)
	if err != nil {
		if good(0, 0) {
			t.Error(err)
		}
		return
	}
	for _, part := range resp.Topics[0].Partitions {
		if !good(part.Partition, part.ErrorCode) {
			t.Errorf("acks=%d: partition %d was answered with code %d", acks, part.Partition, part.ErrorCode)
		}
	}
}

// TestFailedFlushOfTheFileSystem: the flush of many files at once, and that of what recovery found.
func TestFailedFlushOfTheFileSystem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startBroker(t, dir)
	createTopic(t, p.addr, "wide", widePartitions)
	createTopic(t, p.addr, "before", 1)
	checkWide(t, dialRaw(t, p.addr), -1, func(_ int32, code int16) bool { return code == 0 })
	p.terminate()

	// A flush of one file that takes a while comes before, so that all others wait for the next together.
	fails := append(segmentsOf(dir, "before", 1), "-P", dir, "-e", "trace=syncfs,fdatasync",
		"-e", "inject=fdatasync:delay_enter=3000000", "-e", "inject=syncfs:error=EIO")
	p = straceBroker(t, dir, freePort(t), fails...)
	delivery := awaitRecord(dialRaw(t, p.addr), topicID(t, p.addr, "wide"), 7, 1)
	before := dialRaw(t, p.addr)
	before.send(produceRequest("before", 0, 1, batch("x")))
	eventually(t, atLast, "the record before is written and its flush runs", func() error {
		info, err := os.Stat(filepath.Join(dir, "before-0", "00000000000000000000.log"))
		if err == nil && info.Size() == 0 {
			err = errors.New("empty")
		}
		return err
	})
	checkWide(t, dialRaw(t, p.addr), 1, func(_ int32, code int16) bool { return code == kerr.KafkaStorageError.Code })
	if err := <-delivery; err == nil {
		t.Error("a record was delivered, though its flush had failed")
	}
	p.awaitRefusal(atLast)
	if found := p.offlineLines(); len(found) != 1 || !strings.Contains(found[0], dir) {
		t.Errorf("want one line that says which directory is offline, got %d:\n%s", len(found), p.log.tail(20))
	}
	// What is found after this crash is in the page cache only: a start that can't flush it must not serve it.
	p = launchStrace(t, dir, freePort(t), fails...)
	p.awaitRefusal(atLast, "input/output error", dir)

	again := startBroker(t, dir)
	for n, values := range readTopic(t, again.addr, "wide") {
		if len(values) != 1 && len(values) != 2 {
			t.Errorf("partition %d holds %d records, want the acknowledged one and perhaps the other", n, len(values))
		}
	}
}

// segmentsOf are the first segments of a topic's partitions.
func segmentsOf(dir, topic string, partitions int) []string {
	var options []string
	for p := range partitions {
		options = append(options, "-P", filepath.Join(dir, fmt.Sprintf("%s-%d", topic, p), "00000000000000000000.log"))
	}
	return options
}

// produceOne sends one record to a partition on a connection and returns the code of the answer; an error if there was none.
func produceOne(c *rawConn, topic string, partition int32, acks int16) (int16, error) {
	req := produceRequest(topic, partition, acks, batch("x"))
	if _, err := c.Write(c.frame(req)); err != nil {
		return 0, err
	}
	resp, err := receive[*kmsg.ProduceResponse](c, req, atLast)
	if err != nil {
		return 0, err
	}
	return resp.Topics[0].Partitions[0].ErrorCode, nil
}

// awaitRecord parks a fetch at an offset and tells what became of it.
func awaitRecord(c *rawConn, id [16]byte, partition int32, offset int64) <-chan error {
	req := c.fetchRequest(id)
	req.Topics[0].Partitions[0].Partition, req.Topics[0].Partitions[0].FetchOffset = partition, offset
	c.send(req)
	result := make(chan error, 1)
	go func() {
		resp, err := receive[*kmsg.FetchResponse](c, req, atLast)
		switch {
		case err != nil:
			result <- err
		case fetchCode(resp) != 0:
			result <- kerr.ErrorForCode(fetchCode(resp))
		case len(resp.Topics) > 0 && len(resp.Topics[0].Partitions[0].RecordBatches) > 0:
			result <- nil
		default:
			result <- errors.New("nothing")
		}
	}()
	return result
}

// offlineLines are the lines that tell that a directory is gone.
func (p *process) offlineLines() (found []string) {
	lines(strings.NewReader(p.log.String()), func(line string) {
		if strings.Contains(line, "log directory is offline") {
			found = append(found, line)
		}
	})
	return found
}

// TestFailedFlushOfTheOnlyDirectory: a flush that fails is never an acknowledgement or a delivery, and as there is no other
// directory, the broker ends.
func TestFailedFlushOfTheOnlyDirectory(t *testing.T) {
	t.Parallel()
	for name, acks := range map[string]int16{"acks=all": -1, "acks=1": 1} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			p := straceBroker(t, dir, freePort(t),
				append(segmentsOf(dir, "bad", 1), "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO")...)
			createTopic(t, p.addr, "good", 1)
			createTopic(t, p.addr, "bad", 1)
			producer := dialRaw(t, p.addr)
			if code, err := produceOne(producer, "good", 0, acks); err != nil || code != 0 {
				t.Fatalf("produce to a sound partition: code %d, %v", code, err)
			}
			delivery := awaitRecord(dialRaw(t, p.addr), topicID(t, p.addr, "bad"), 0, 0)
			if code, err := produceOne(producer, "bad", 0, acks); err == nil && code != kerr.KafkaStorageError.Code {
				t.Errorf("produce was answered with code %d, want KAFKA_STORAGE_ERROR or no answer", code)
			}
			if err := <-delivery; err == nil {
				t.Error("the record was delivered, though its flush had failed")
			}
			p.awaitRefusal(atLast)
			if found := p.offlineLines(); len(found) != 1 || !strings.Contains(found[0], dir) || !strings.Contains(found[0], "input/output error") {
				t.Errorf("want one line that says which directory is offline and why, got %d:\n%s", len(found), p.log.tail(20))
			}
			again := startBroker(t, dir) // on a disk that works again
			if got := len(readTopic(t, again.addr, "good")[0]); got != 1 {
				t.Errorf("%d records in the sound partition after the next start, 1 was acknowledged", got)
			}
			if code, err := produceOne(dialRaw(t, again.addr), "bad", 0, acks); err != nil || code != 0 {
				t.Errorf("produce after the next start: code %d, %v", code, err)
			}
		})
	}
}

// TestFailedFlushOfOneOfTwoDirectories: the directory goes offline, its partitions answer KAFKA_STORAGE_ERROR, the other serves.
func TestFailedFlushOfOneOfTwoDirectories(t *testing.T) {
	t.Parallel()
	const partitions = 6
	root := t.TempDir()
	sound, bad := filepath.Join(root, "a"), filepath.Join(root, "b")
	p := straceBroker(t, sound+","+bad, freePort(t),
		append(segmentsOf(bad, "split", partitions), "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO")...)
	createTopic(t, p.addr, "split", partitions)
	id := topicID(t, p.addr, "split")
	var inSound, inBad []int32
	for n := range int32(partitions) {
		if _, err := os.Stat(filepath.Join(bad, fmt.Sprintf("split-%d", n))); err == nil {
			inBad = append(inBad, n)
		} else {
			inSound = append(inSound, n)
		}
	}
	if len(inSound) < 2 || len(inBad) < 2 {
		t.Fatalf("partitions %v in %s, %v in %s", inSound, sound, inBad, bad)
	}
	producer := dialRaw(t, p.addr)
	delivery := awaitRecord(dialRaw(t, p.addr), id, inBad[0], 0)
	for i, n := range inBad { // the first of them takes the directory down, the others are refused
		code, err := produceOne(producer, "split", n, []int16{-1, 1}[i%2])
		if err != nil || code != kerr.KafkaStorageError.Code {
			t.Errorf("produce to partition %d of the failed directory: code %d, %v; want KAFKA_STORAGE_ERROR", n, code, err)
		}
		if err := <-awaitRecord(dialRaw(t, p.addr), id, n, 0); !errors.Is(err, kerr.KafkaStorageError) {
			t.Errorf("fetch from partition %d of the failed directory: %v, want KAFKA_STORAGE_ERROR", n, err)
		}
	}
	if err := <-delivery; !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("the parked fetch ended with %v, want KAFKA_STORAGE_ERROR", err)
	}
	for _, n := range inSound {
		if code, err := produceOne(producer, "split", n, -1); err != nil || code != 0 {
			t.Errorf("produce to partition %d of the sound directory: code %d, %v", n, code, err)
		}
		if err := <-awaitRecord(dialRaw(t, p.addr), id, n, 0); err != nil {
			t.Errorf("fetch from partition %d of the sound directory: %v", n, err)
		}
	}
	dirs := must(kadm.NewClient(crashClient(t, p.addr)).DescribeAllLogDirs(t.Context(), nil))(t)
	dirs.Each(func(d kadm.DescribedLogDir) {
		if want := d.Dir == bad; want != errors.Is(d.Err, kerr.KafkaStorageError) {
			t.Errorf("DescribeLogDirs says of %s: %v", d.Dir, d.Err)
		}
	})
	if found := p.offlineLines(); len(found) != 1 || !strings.Contains(found[0], bad) {
		t.Errorf("want one line that says which directory is offline, got %q", found)
	}
	p.checkAlive()
	p.signal(15)
	select {
	case <-p.exited:
	case <-time.After(stopSeen):
		t.Error("SIGTERM does not end a broker with a failed directory")
	}
	if _, err := os.Stat(filepath.Join(bad, cleanMarker)); err == nil {
		t.Error("a clean-shutdown marker in the failed directory")
	}
	again := startBroker(t, sound+","+bad)
	for n := range int32(partitions) {
		if code, err := produceOne(dialRaw(t, again.addr), "split", n, -1); err != nil || code != 0 {
			t.Errorf("produce to partition %d after the next start: code %d, %v", n, code, err)
		}
	}
}

// TestFailedFlushOfTheMetadataLog: a change of metadata whose flush fails is not acknowledged, and the broker ends.
func TestFailedFlushOfTheMetadataLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// Calls are counted per thread: from the 20th flush of some thread on, which the start does not reach.
	p := straceBroker(t, dir, freePort(t), "-P", filepath.Join(dir, "__cluster_metadata-0", "00000000000000000000.log"),
		"-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=20+")
	cl := crashClient(t, p.addr, kgo.RequestRetries(0), kgo.RetryTimeout(5*time.Second))
	adm := kadm.NewClient(cl)
	var created []string
	for n := 0; ; n++ {
		if n == 1000 {
			t.Fatal("no flush failed")
		}
		topic := fmt.Sprint("topic-", n)
		r, err := adm.CreateTopic(t.Context(), 1, 1, nil, topic)
		if err != nil || r.Err != nil {
			t.Logf("topic %d: %v, %v", n, err, r.Err)
			break
		}
		created = append(created, topic)
	}
	p.awaitRefusal(atLast, "input/output error", dir)
	again := startBroker(t, dir)
	topics := must(kadm.NewClient(crashClient(t, again.addr)).ListTopics(t.Context()))(t)
	for _, topic := range created {
		if !topics.Has(topic) {
			t.Errorf("%s was acknowledged and is gone", topic)
		}
	}
	t.Logf("%d topics were created before the flush failed", len(created))
}
