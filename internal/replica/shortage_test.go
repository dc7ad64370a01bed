package replica

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

// TestDeleteRecordsOnAFullDisk: it is what an operator does to get room, so it must not end the broker.
func TestDeleteRecordsOnAFullDisk(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	for range 3 {
		w.mustProduce("t", 0, plain("a"))
	}
	w.fs.set(func(name string) error {
		if strings.Contains(name, "checkpoint") {
			return syscall.ENOSPC
		}
		return nil
	})
	tp := kafka.TopicPartition{Topic: "t"}
	if _, err := w.deleteRecords(tp, 2); !isCode(err, kafka.KafkaStorageError) {
		t.Errorf("on a full disk: %v, want KAFKA_STORAGE_ERROR", err)
	}
	w.fs.set(nil)
	if start, err := w.deleteRecords(tp, 2); err != nil || start != 2 {
		t.Errorf("with room again: start %d, %v, want 2", start, err)
	}
	if len(w.fallen()) > 0 {
		t.Errorf("%v went offline for a full disk", w.fallen())
	}
}

// TestOutOfFileDescriptors: what cannot be opened for a moment is refused, and works again later.
func TestOutOfFileDescriptors(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	w.mustProduce("t", 0, plain("a"))
	for range 2 { // files that nobody needed in between are closed
		w.m.background.sweep(time.Now())
	}
	w.fs.setOpen(func(string) error { return syscall.EMFILE })
	if got := w.fetch(at("t", 0, 0)); got.Err != kafka.KafkaStorageError {
		t.Errorf("fetch: %v, want KAFKA_STORAGE_ERROR", got.Err)
	}
	if got := w.produce("t", 0, plain("b")); got.Err != kafka.KafkaStorageError {
		t.Errorf("produce: %v, want KAFKA_STORAGE_ERROR", got.Err)
	}
	w.fs.setOpen(nil)
	w.mustProduce("t", 0, plain("c"))
	if got := w.values("t", 0, 0); strings.Join(got, " ") != "a c" {
		t.Errorf("read %v, want a c", got)
	}
	if len(w.fallen()) > 0 {
		t.Errorf("%v went offline", w.fallen())
	}
}

// TestDamageTakesOnePartitionOutOfUse, and not all that lie in the directory.
func TestDamageTakesOnePartitionOutOfUse(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 2)
	for i := range int32(2) {
		w.mustProduce("t", i, plain("a"))
		w.mustProduce("t", i, plain("b"))
	}
	file, err := w.fs.Open(filepath.Join(w.dirs[0], "t-0", "00000000000000000000.log"), os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const magicAt = 16
	if _, err := file.WriteAt([]byte{9}, magicAt); err != nil {
		t.Fatal(err)
	}
	damaged := at("t", 0, 0)
	damaged.MaxBytes = 1
	for range 2 {
		if got := w.fetch(damaged); got.Err != kafka.KafkaStorageError {
			t.Errorf("fetch: %v, want KAFKA_STORAGE_ERROR", got.Err)
		}
	}
	if n := strings.Count(w.log.String(), "a partition is damaged"); n != 1 {
		t.Errorf("%d lines about it in the log, want 1:\n%s", n, w.log.String())
	}
	w.mustProduce("t", 1, plain("c"))
	if len(w.fallen()) > 0 {
		t.Errorf("%v went offline", w.fallen())
	}
}

func isCode(err error, want kafka.Error) bool {
	code, _ := kafka.Answer(err)
	return code == want
}

// TestFlushWaitsForADescriptor: connections have taken the file descriptors. Nothing is acknowledged meanwhile, and nothing is wrong with
// the disk.
func TestFlushWaitsForADescriptor(t *testing.T) {
	for _, partitions := range []int32{1, flushAllFrom - 1, 2 * flushAllFrom} {
		w := newWorld(t)
		w.topic("t", partitions)
		refused := make(chan struct{}, 3)
		w.fs.set(func(name string) error {
			select {
			case refused <- struct{}{}:
				return &fs.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
			default:
				return nil
			}
		})
		var sent []<-chan ProduceResult
		for i := range partitions {
			sent = append(sent, w.send("t", i, -1, plain("a")))
		}
		for i, s := range sent {
			if r := answer(t, s); r.Err != kafka.None {
				t.Errorf("%d partitions, number %d: %v", partitions, i, r.Err)
			}
		}
		if len(refused) != cap(refused) || len(w.fallen()) > 0 {
			t.Errorf("%d partitions: %d flushes could not begin, offline are %v", partitions, len(refused), w.fallen())
		}
		for i := range partitions {
			if got := w.values("t", i, 0); !slices.Equal(got, []string{"a"}) {
				t.Errorf("%d partitions, number %d: %v", partitions, i, got)
			}
		}
		if n := strings.Count(w.log.String(), "too many files open: acknowledgements wait"); n != 1 {
			t.Errorf("%d lines in the log, want 1", n)
		}
	}
}

// TestATopicIsDeletedWhileItIsLoaded: a coordinator reads it, and the segments that it would come to are gone. The disk is all right.
func TestATopicIsDeletedWhileItIsLoaded(t *testing.T) {
	w := newWorld(t)
	id := w.topic("t", 1, "segment.bytes=1048576")
	for range 4 {
		w.mustProduce("t", 0, plain(strings.Repeat("a", 600<<10)))
	}
	batches := 0
	err := w.m.Load(kafka.TopicPartition{Topic: "t"}, func(record.Batch) error {
		if batches++; batches == 1 {
			w.deleteTopic(id)
		}
		return nil
	})
	if !isCode(err, kafka.NotLeaderOrFollower) || batches == 4 {
		t.Errorf("%v after %d batches, want NOT_LEADER_OR_FOLLOWER before the end", err, batches)
	}
	if len(w.fallen()) > 0 {
		t.Errorf("%v went offline for a deleted topic", w.fallen())
	}
}

// TestLoadTellsOfNothingThatIsNotDurable: groups that are loaded again, while what they have appended before is not flushed, must not show
// offsets that a power cut takes away.
func TestLoadTellsOfNothingThatIsNotDurable(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	w.mustProduce("t", 0, plain("a"))
	p, err := w.m.find(kafka.TopicID{}, "t", 0)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	_, err = p.append(record.Batch(plain("b")), -1, writer{kind: byNode}, time.Now()) // and nobody tells the flusher
	p.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	batches := 0
	err = w.m.Load(p.tp, func(b record.Batch) error {
		if batches++; b.NextOffset() > p.log.FlushedOffset() {
			t.Errorf("offset %d was loaded, flushed is up to %d", b.BaseOffset(), p.log.FlushedOffset())
		}
		return nil
	})
	if err != nil || batches != 2 {
		t.Errorf("%d batches, %v", batches, err)
	}
}
