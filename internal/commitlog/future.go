package commitlog

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

// A future replica is the copy of a partition's log that takes its place when it has caught up, as the partition moves from
// another log directory to this one. It lives in NAME.UUID-future, as in Kafka, and is a log like others, but for its name.

// CreateFuture makes the folder of a future replica and opens its log, which begins at an offset. What there was of another one
// is removed.
func (d *Dir) CreateFuture(tp kafka.TopicPartition, id kafka.TopicID, base kafka.Offset, c Config, now time.Time) (*Log, error) {
	if err := d.DropFuture(tp); err != nil {
		return nil, err
	}
	if err := d.dropCheckpoints(tp); err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.forget(tp)
	d.noted.start[tp] = base
	d.mu.Unlock()
	folder := asideFolder(tp, kafka.NewUUID(d.random), folderFutureSuffix)
	if err := d.fs.MkdirAll(filepath.Join(d.path, folder)); err != nil {
		return nil, d.failUnlessFull(err)
	}
	return d.openFolder(folder, tp, id, c, now)
}

// AppendCopied writes a batch of the log that this one is a copy of: a follower's, and a future replica's.
func (l *Log) AppendCopied(b record.Batch, now time.Time) error {
	if _, err := l.AppendAsFollower(b, now); err != nil {
		return err
	}
	if done, ok := l.producers.Apply(b, now); ok {
		l.NoteCompleted(done)
	}
	return nil
}

// Promote makes a future replica that has all that from has into the partition's log, durably, and returns that. The caller sees
// to it that nothing is appended to from, and removes it afterwards. After an error the directory has no log of the partition
// or has failed, and from is as it was.
func (d *Dir) Promote(future, from *Log, now time.Time) (*Log, error) {
	l, err := d.promote(future, from, now)
	if err == nil {
		return l, nil
	}
	if d.Failed() == nil {
		err = errors.Join(err, d.Delete(future.partition), d.DropFuture(future.partition))
	}
	return nil, fmt.Errorf("move %s to %s: %w", future.partition, d.path, err)
}

func (d *Dir) promote(future, from *Log, now time.Time) (*Log, error) {
	entries, _ := from.epochs.all()
	for _, e := range entries {
		if e.Epoch > future.LatestEpoch() { // begun, and nothing was written in it
			future.AssignEpoch(e.Epoch, e.Start)
		}
	}
	if start := from.StartOffset(); start > future.StartOffset() {
		if start > future.EndOffset() {
			if err := future.Reset(start); err != nil {
				return nil, err
			}
		} else if err := future.SetStart(start); err != nil {
			return nil, err
		}
	}
	future.NoteHighWatermark(from.HighWatermark())
	if err := future.Close(); err != nil {
		return nil, err
	}
	if err := d.WriteCheckpoints(); err != nil {
		return nil, err
	}
	if err := d.fs.SyncFS(d.path); err != nil { // also of a log in which nothing was flushed, as it is empty
		return nil, d.fail(err)
	}
	if err := d.fs.Rename(future.folder, filepath.Join(d.path, future.partition.String())); err != nil {
		return nil, d.failUnlessFull(err)
	}
	if err := d.fs.SyncDir(d.path); err != nil {
		return nil, d.fail(err)
	}
	return d.Open(future.partition, future.topicID, future.Config(), now)
}

func parseFuture(name string) (kafka.TopicPartition, bool) {
	folder, suffix := cutFolderSuffix(name)
	if suffix != folderFutureSuffix {
		return kafka.TopicPartition{}, false
	}
	return ParseFolder(folder)
}

// HoldsFuture tells whether a partition's name is short enough for the folder of a future replica.
func HoldsFuture(tp kafka.TopicPartition) bool {
	return strings.HasPrefix(asideFolder(tp, kafka.UUID{}, folderFutureSuffix), tp.Topic+"-")
}

// DropFuture removes the future replicas of a partition, if there are any.
func (d *Dir) DropFuture(tp kafka.TopicPartition) error {
	if err := d.Failed(); err != nil {
		return err
	}
	if l, ok := d.Log(tp); ok {
		if _, future := parseFuture(filepath.Base(l.folder)); !future {
			return nil
		}
		if err := d.Delete(tp); err != nil {
			return err
		}
	}
	entries, err := d.fs.ReadDir(d.path)
	if err != nil {
		return fmt.Errorf("list %s: %w", d.path, err)
	}
	for _, e := range entries {
		if found, ok := parseFuture(e.Name); ok && e.Dir && found == tp {
			if err := d.fs.RemoveAll(filepath.Join(d.path, e.Name)); err != nil {
				return d.failUnlessFull(fmt.Errorf("remove future replica: %w", err))
			}
		}
	}
	return nil
}
