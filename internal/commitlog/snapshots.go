package commitlog

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/vfs"
)

// A snapshot file holds the producers at an offset. It is written at the log's end, when a segment is finished or grows (AtEnd); at the
// base of a segment that is recovered (AtBase); and at the log's new begin, before segments are deleted (AtBegin). That one is durable, as
// it alone tells of what was before. The others are not flushed by themselves: a checksum tells whether one can be used, and if not, an
// older one and the batches behind it serve.

func (l *Log) snapshotFile(at kafka.Offset) string {
	return filepath.Join(l.folder, offsetName(at, snapshotSuffix))
}

// writeSnapshotAtEnd writes the producers at the log's end, and removes older snapshots that are not at a segment's base, but for what
// recovery may go on from.
func (l *Log) writeSnapshotAtEnd(end kafka.Offset) error {
	if err := l.putSnapshot(end, l.producers.Encode()); err != nil {
		return err
	}
	segments := *l.segments.Load()
	kept := make([]kafka.Offset, 0, len(l.snapshots)+1)
	for _, at := range l.snapshots {
		if at == end {
			continue
		}
		newer := func(other kafka.Offset) bool { return other > at && other < kafka.Offset(l.checkpointed.Load()) }
		isBase := slices.ContainsFunc(segments, func(s *segment) bool { return s.base == at })
		if isBase || !slices.ContainsFunc(l.snapshots, newer) && !slices.ContainsFunc(segments, func(s *segment) bool { return newer(s.base) }) {
			kept = append(kept, at)
			continue
		}
		if err := l.removeSnapshot(at); err != nil {
			return err
		}
	}
	l.snapshots = append(kept, end)
	return nil
}

// writeSnapshotAtBase writes the producers as recovery has them at the base of a segment. A file that is there may be torn, or tell of
// batches that are lost; it is removed first, as one that is written over can come back with a power cut, and would be believed.
func (o *opening) writeSnapshotAtBase(base kafka.Offset) error {
	if err := o.removeSnapshot(base); err != nil {
		return o.dir.failUnlessFull(err)
	}
	if err := vfs.WriteFile(o.fs, o.snapshotFile(base), o.producers.Encode()); err != nil {
		return o.dir.failUnlessFull(err)
	}
	if i, found := slices.BinarySearch(o.snapshots, base); !found {
		o.snapshots = slices.Insert(o.snapshots, i, base)
	}
	return nil
}

// writeSnapshotAtBegin makes the producers durable as they are behind the first of some doomed segments, before it is deleted: nothing
// else would tell of a transaction that was open there. It needs doomedMu.
func (l *Log) writeSnapshotAtBegin(doomed []doomedSegment) error {
	if l.closed.Load() {
		return nil
	}
	var list []*segment
	for _, s := range doomed {
		if !s.renamed {
			list = append(list, s.segment)
		}
	}
	list = append(list, *l.segments.Load()...)
	state, err := l.producersAt(list, 1)
	if err == nil {
		err = l.replaceSnapshot(list[1].base, state.Encode())
	}
	if err != nil {
		return l.writeError(fmt.Errorf("keep producer snapshot: %w", err))
	}
	return nil
}

// putSnapshot writes a snapshot file. The one at the begin of an empty segment may be all that tells of what was before: there it is
// the old or the new one after a power cut. At offset 0 there was nothing before.
func (l *Log) putSnapshot(at kafka.Offset, content []byte) error {
	if at == 0 || l.active().base != at {
		return vfs.WriteFile(l.fs, l.snapshotFile(at), content)
	}
	if there, err := vfs.ReadFile(l.fs, l.snapshotFile(at)); err == nil && bytes.Equal(there, content) {
		return nil
	}
	return vfs.Replace(l.fs, l.snapshotFile(at), content)
}

// replaceSnapshot makes a snapshot durable. On a full disk, where retention is to make room, the one that was written with the segment
// does if it says the same.
func (l *Log) replaceSnapshot(at kafka.Offset, content []byte) error {
	name := l.snapshotFile(at)
	full := vfs.Replace(l.fs, name, content)
	if !vfs.IsFull(full) {
		return full
	}
	if there, err := vfs.ReadFile(l.fs, name); err != nil || !bytes.Equal(there, content) {
		return full
	}
	f, err := l.fs.Open(name, os.O_RDWR)
	if err != nil {
		return full
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return l.dir.fail(err)
	}
	return l.syncFolder("keep a producer snapshot of")
}

func (l *Log) removeSnapshot(at kafka.Offset) error {
	if err := l.fs.Remove(l.snapshotFile(at)); err != nil && !vfs.IsNotExist(err) {
		return fmt.Errorf("remove producer snapshot: %w", err)
	}
	return nil
}

// dropSnapshots removes those beyond the log's end. After a recovery only those at the base of a segment are kept, and the one it went
// on from: the others may be of batches that were cut off.
func (o *opening) dropSnapshots() error {
	var kept []kafka.Offset
	for _, at := range o.snapshots {
		if at <= o.end && (o.trusted || o.isBase(at) || at == o.resumed) {
			kept = append(kept, at)
			continue
		}
		if err := o.removeSnapshot(at); err != nil {
			return o.dir.failUnlessFull(err)
		}
	}
	o.Log.snapshots = kept
	return nil
}

func (o *opening) isBase(offset kafka.Offset) bool {
	return slices.ContainsFunc(o.list, func(s *segment) bool { return s.base == offset })
}

// loadProducers makes the producers as they are at an offset: those of the newest snapshot at or below limit that can be used,
// and the batches behind it.
func (o *opening) loadProducers(at, limit kafka.Offset) error {
	o.addBases()
	begin := kafka.Offset(0)
	for i, from := range slices.Backward(o.snapshots) {
		if from > limit || !o.trusted && !o.isBase(from) {
			continue
		}
		state, err := o.readSnapshot(from)
		if err != nil {
			return err
		}
		if state != nil {
			o.producers, begin = state, from
			break
		}
		if err := o.removeSnapshot(from); err != nil {
			return o.dir.failUnlessFull(err)
		}
		o.snapshots = slices.Delete(o.snapshots, i, i+1) // applyBatches writes it again
	}
	if err := o.applyBatches(begin, at); err != nil {
		return err
	}
	if o.producers.Transactional() {
		o.transactional.Store(true)
	}
	return nil
}

// addBases adds the bases of segments to the offsets at which there may be a snapshot: writeSnapshotAtBegin tells nobody.
func (o *opening) addBases() {
	for _, s := range o.list {
		if i, found := slices.BinarySearch(o.snapshots, s.base); !found {
			o.snapshots = slices.Insert(o.snapshots, i, s.base)
		}
	}
}

// readSnapshot returns the producers that a snapshot file tells, or nil if it is not there or can't be used.
func (l *Log) readSnapshot(at kafka.Offset) (*producer.State, error) {
	content, err := vfs.ReadFile(l.fs, l.snapshotFile(at))
	if vfs.IsNotExist(err) {
		return nil, nil //nolint:nilnil // retention removed it with its segment, or it was lost
	}
	if err != nil {
		return nil, fmt.Errorf("read producer snapshot: %w", err)
	}
	state, err := producer.Decode(content)
	if err == nil && state.End() > at {
		err = fmt.Errorf("it tells of offset %d", state.End()-1)
	}
	if err != nil {
		l.dir.note("%s: %v; an older one is used", l.snapshotFile(at), err)
		return nil, nil //nolint:nilnil,nilerr // an older one is used
	}
	state.SetMax(l.config.Load().MaxProducers)
	return state, nil
}

// producersAt makes the producers as they were at the base of the i-th segment, from the newest snapshot up to there that can be
// used and the batches behind it.
func (l *Log) producersAt(segments []*segment, i int) (*producer.State, error) {
	first, state := i, (*producer.State)(nil)
	for ; state == nil; first-- {
		var err error
		if state, err = l.readSnapshot(segments[first].base); err != nil {
			return nil, err
		}
		if state == nil && first == 0 {
			state = producer.New(l.config.Load().MaxProducers)
		}
	}
	for j := first + 1; j < i; j++ {
		if err := segments[j].tellProducers(state, segments[j].base, segments[j+1].base, time.Time{}, nil); err != nil {
			return nil, err
		}
	}
	return state, nil
}

// applyBatches tells the producers about the batches of an offset range. Their CRCs are not checked: they were. Snapshots that
// are missing on the way are written.
func (o *opening) applyBatches(from, to kafka.Offset) error {
	for i, s := range o.list {
		if s.base >= to || nextBase(o.list, i, to) <= from {
			continue
		}
		if _, found := slices.BinarySearch(o.snapshots, s.base); s.base > from && !found {
			if err := o.writeSnapshotAtBase(s.base); err != nil && !vfs.IsFull(err) {
				return err
			}
			o.indexesUnsynced.Store(true)
		}
		if err := s.tellProducers(o.producers, from, to, o.now, nil); err != nil {
			return err
		}
	}
	return nil
}

// tellProducers applies the batches of an offset range in the segment to producers, and hands on the transactions that end in it.
func (s *segment) tellProducers(
	producers *producer.State, from, to kafka.Offset, now time.Time, completed func(producer.Completed),
) error {
	w, err := s.walk(bodyAhead)
	if err != nil {
		return err
	}
	defer w.done()
	at, err := s.position(w, from)
	if err != nil {
		return err
	}
	for at < w.limit {
		head, size, err := w.head(at)
		if err != nil {
			return err
		}
		if head.BaseOffset() >= to {
			return nil
		}
		if head.BaseOffset() >= from && head.ProducerID() != kafka.NoProducer {
			if head.IsControl() {
				if head, err = w.batch(at); err != nil {
					return err
				}
			}
			if done, ok := producers.Apply(head, now); ok && completed != nil {
				completed(done)
			}
		}
		at += size
	}
	return nil
}
