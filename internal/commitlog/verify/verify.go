// Package verify reads a log directory and tells what in it is damaged: for `raftsman log verify`. It changes nothing.
package verify

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/commitlog/dump"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/vfs"
)

// Damage is something that is wrong with a file.
type Damage struct {
	File   string `json:"file"`
	At     int64  `json:"at"` // the position of the batch or entry in the file, 0 where a checksum covers all of it
	Reason string `json:"reason"`
	Remedy string `json:"remedy"`
}

// What can be done about damage.
const (
	remedyRecords = commitlog.RemedyRecords
	remedyIndex   = "stop the broker, remove the file, start it: it is made anew from the records"
	remedyDerived = "stop the broker and remove the file and .kafka_cleanshutdown, start it: it is made anew from the records"
	remedyMeta    = "restore the file from a backup, or from what raftsman log dump says of another broker's"
)

// Checker collects what is found. It is used by one goroutine; Read may be looked at by another one.
type Checker struct {
	FS      vfs.FS
	Live    bool         // a broker runs on the directory: what it still writes to is left out
	Read    atomic.Int64 // bytes of segments read so far
	Files   int          // files that were checked
	Damages []Damage
}

func (c *Checker) found(file string, at int64, remedy, reason string, args ...any) {
	c.Damages = append(c.Damages, Damage{File: file, At: at, Reason: fmt.Sprintf(reason, args...), Remedy: remedy})
}

// foundError tells where a parser stopped.
func (c *Checker) foundError(file, remedy string, err error) {
	damage := Damage{File: file, Reason: err.Error(), Remedy: remedy}
	if corrupt := new(commitlog.CorruptError); errors.As(err, &corrupt) {
		damage.At, damage.Reason = corrupt.At, corrupt.Reason
	}
	c.Damages = append(c.Damages, damage)
}

// Dir checks a log directory: its own files, and the folder of each partition. The error is of the file system.
func (c *Checker) Dir(path string) error {
	entries, err := c.FS.ReadDir(path)
	if err != nil {
		return fmt.Errorf("list %s: %w", path, err)
	}
	points := checkpoints{clean: slices.ContainsFunc(entries, func(e vfs.Entry) bool { return e.Name == commitlog.CleanShutdownFile })}
	files := make(map[string][]commitlog.PartitionOffset)
	for _, e := range entries {
		if kind, _, err := dump.KindOf(e.Name); e.Dir || err != nil || kind == dump.Snapshot {
			continue
		}
		name := filepath.Join(path, e.Name)
		content, err := c.side(name, remedyMeta)
		if err != nil {
			return err
		}
		if offsets, err := commitlog.ParseOffsets(content); err == nil && strings.HasSuffix(e.Name, "-offset-checkpoint") {
			files[e.Name] = offsets
		}
	}
	points.recovery, points.cleaned = byPartition(files[commitlog.RecoveryPointFile]), byPartition(files[commitlog.CleanerFile])
	points.start = byPartition(files[commitlog.LogStartFile])
	ranges := make(map[kafka.TopicPartition]span)
	for _, e := range entries {
		tp, ok := commitlog.ParseFolder(e.Name)
		if !e.Dir || !ok {
			continue
		}
		ranges[tp], err = c.partition(filepath.Join(path, e.Name), tp, points)
		if err != nil {
			return err
		}
	}
	if !c.Live {
		for _, file := range []string{commitlog.RecoveryPointFile, commitlog.LogStartFile, commitlog.HighWatermarkFile} {
			c.checkOffsets(filepath.Join(path, file), files[file], ranges)
		}
	}
	return nil
}

// checkpoints is what the directory says about its partitions.
type checkpoints struct {
	clean                    bool // the broker was stopped in order
	recovery, cleaned, start map[kafka.TopicPartition]kafka.Offset
}

// span is the offsets of a partition; valid is false where damage hides the end.
type span struct {
	start, end kafka.Offset
	valid      bool
}

func byPartition(offsets []commitlog.PartitionOffset) map[kafka.TopicPartition]kafka.Offset {
	m := make(map[kafka.TopicPartition]kafka.Offset, len(offsets))
	for _, o := range offsets {
		m[o.TopicPartition] = o.Offset
	}
	return m
}

// checkOffsets compares a checkpoint file with the logs: none may be behind the end of its log. Entries of partitions that are
// gone are left by Kafka, and by a broker that was killed.
func (c *Checker) checkOffsets(file string, offsets []commitlog.PartitionOffset, ranges map[kafka.TopicPartition]span) {
	at := int64(len(fmt.Sprintf("0\n%d\n", len(offsets))))
	for _, o := range offsets {
		if r, ok := ranges[o.TopicPartition]; ok && r.valid && o.Offset > r.end {
			c.found(file, at, remedyDerived, "%s %d: offset %d lies behind the end of the log, %d", o.Topic, o.TopicPartition.Partition, o.Offset, r.end)
		}
		at += int64(len(fmt.Sprintf("%s %d %d\n", o.Topic, o.TopicPartition.Partition, o.Offset)))
	}
}

// side reads and parses a file that is none of records, and returns its content.
func (c *Checker) side(name, remedy string) ([]byte, error) {
	kind, base, err := dump.KindOf(name)
	if err != nil {
		return nil, nil //nolint:nilerr // a stranger's file
	}
	content, err := vfs.ReadFile(c.FS, name)
	if vfs.IsNotExist(err) && c.Live {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c.Files++
	switch kind {
	case dump.Epochs:
		_, err = commitlog.ParseEpochs(content)
	case dump.Checkpoint:
		_, err = commitlog.ParseOffsets(content)
	case dump.OffsetIndex:
		_, err = commitlog.ParseIndex(content, base)
	case dump.TimeIndex:
		_, err = commitlog.ParseTimeIndex(content, base)
	case dump.TxnIndex:
		_, err = commitlog.ParseTxnIndex(content)
	case dump.Producers:
		_, err = producer.Decode(content)
	case dump.Meta:
		_, err = commitlog.ParseMetaProperties(content)
	case dump.Partition:
		_, err = commitlog.ParsePartitionMetadata(content)
	case dump.CleanShutdown:
		_, err = commitlog.ParseCleanShutdown(content)
	case dump.Log, dump.Snapshot, dump.QuorumState, dump.Journal, dump.Damaged:
	}
	if err != nil {
		c.foundError(name, remedy, err)
	}
	return content, nil
}

// File checks one file by itself.
func (c *Checker) File(name string) error {
	kind, base, err := dump.KindOf(name)
	if err != nil {
		return err
	}
	switch kind {
	case dump.Log:
		return c.single(name, base)
	case dump.Snapshot:
		return c.single(name, 0)
	}
	remedy := remedyMeta
	switch kind {
	case dump.OffsetIndex, dump.TimeIndex:
		remedy = remedyIndex
	case dump.TxnIndex, dump.Producers, dump.Epochs, dump.Checkpoint:
		remedy = remedyDerived
	}
	_, err = c.side(name, remedy)
	return err
}
