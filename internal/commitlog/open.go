package commitlog

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/vfs"
)

// Create makes the folder of a new partition and opens its log. It is durable once something was flushed in it. The error is
// fs.ErrExist if there is a folder. After one of vfs.IsFull it can be called again.
func (d *Dir) Create(tp kafka.TopicPartition, id kafka.TopicID, c Config, now time.Time) (*Log, error) {
	if err := d.Failed(); err != nil {
		return nil, err
	}
	folder := filepath.Join(d.path, tp.String())
	d.mu.Lock()
	again := d.halfMade[tp]
	d.mu.Unlock()
	if _, err := d.fs.Stat(folder); err == nil && !again {
		return nil, fmt.Errorf("create %s: %w", folder, errExist)
	}
	if err := d.dropCheckpoints(tp); err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.forget(tp)
	d.halfMade[tp] = true
	d.mu.Unlock()
	if err := d.fs.MkdirAll(folder); err != nil {
		return nil, d.failUnlessFull(err)
	}
	l, err := d.Open(tp, id, c, now)
	if err == nil {
		d.mu.Lock()
		delete(d.halfMade, tp)
		d.mu.Unlock()
	}
	return l, err
}

// Open opens a partition's log. After an unclean stop it first recovers it: batches from the recovery point on are checked, what
// is torn at the end is cut off, indexes, leader epochs and producers are made anew. The error is a *CorruptError if bytes are
// damaged that had been flushed: then nothing is changed. After the last Open comes SyncRecovered.
func (d *Dir) Open(tp kafka.TopicPartition, id kafka.TopicID, c Config, now time.Time) (*Log, error) {
	return d.openFolder(tp.String(), tp, id, c, now)
}

func (d *Dir) openFolder(folder string, tp kafka.TopicPartition, id kafka.TopicID, c Config, now time.Time) (*Log, error) {
	if err := d.Failed(); err != nil {
		return nil, err
	}
	if err := d.settle(tp); err != nil {
		return nil, err
	}
	l := &Log{
		place: place{d, d.fs, filepath.Join(d.path, folder)}, partition: tp, topicID: id,
		producers: producer.New(c.MaxProducers), seenMs: now.UnixMilli(),
	}
	l.config.Store(d.shared(c))
	trusted, from, start := d.found(l)
	if _, err := d.fs.Stat(l.folder); err != nil {
		return nil, fmt.Errorf("open %s: %w", tp, err)
	}
	if err := l.checkTopic(); err != nil {
		return nil, err
	}
	o := opening{Log: l, now: now, trusted: trusted, floor: from, scanFrom: from, startCheckpoint: start}
	if err := o.run(); err != nil {
		if o.trusted && isCorrupt(err) {
			d.leaveUntried(tp)
		}
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.logs[tp] != nil {
		return nil, fmt.Errorf("open %s: it is open", tp)
	}
	d.logs[tp] = l
	delete(d.opened, tp)
	delete(d.journal.owed, l.journaled())
	delete(d.trusted, tp)
	return l, nil
}

// leaveUntried notes that a log was closed in order and is as it was then: what was found wrong with it must be found again.
func (d *Dir) leaveUntried(tp kafka.TopicPartition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.clean {
		delete(d.opened, tp)
	}
}

// settle finishes what a log left that was closed since the last checkpoint.
func (d *Dir) settle(tp kafka.TopicPartition) error {
	d.mu.Lock()
	unsettled := d.settling[tp] != nil
	d.mu.Unlock()
	if !unsettled {
		return nil
	}
	return d.WriteCheckpoints()
}

// found takes from the directory what is known about a log.
func (d *Dir) found(l *Log) (trusted bool, recoveryPoint, start kafka.Offset) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.highWatermark.Store(int64(d.noted.highWatermark[l.partition]))
	_, tried := d.opened[l.partition]
	tried = tried || d.logs[l.partition] != nil
	trusted = d.trusted[l.partition] || d.clean && !tried
	d.opened[l.partition] = false
	if of := l.journaled(); d.journal.found[of] != nil {
		d.journal.owed[of] = true
	}
	return trusted, d.noted.recovery[l.partition], d.noted.start[l.partition]
}

// checkTopic compares partition.metadata with the topic's id, or writes it where it is missing: the folder was made and never
// flushed, or is from before topics had ids.
func (l *Log) checkTopic() error {
	id, err := l.dir.topicID(filepath.Base(l.folder))
	if err != nil {
		return err
	}
	if id == l.topicID {
		return nil
	}
	if !id.IsZero() {
		return &CorruptError{
			File: filepath.Join(l.folder, PartitionMetadataFile), Reason: fmt.Sprintf("it tells of topic id %s, want %s", id, l.topicID),
			Remedy: "if the folder holds the topic's records, stop the broker, remove the file, start it: it is made anew; if not, move the folder away",
		}
	}
	return l.dir.failUnlessFull(vfs.WriteFile(l.fs, filepath.Join(l.folder, PartitionMetadataFile), formatPartitionMetadata(l.topicID)))
}

func (l *Log) epochsFile() string { return filepath.Join(l.folder, EpochsFile) }

// opening is what Open knows while it opens a log.
type opening struct {
	*Log
	now             time.Time
	trusted         bool         // the log was closed in order: nothing is torn
	fresh           bool         // there was no segment
	indexed         bool         // the active segment has an index file
	floor           kafka.Offset // what lies below had been flushed
	scanFrom        kafka.Offset // what lies below needs no recovery
	startCheckpoint kafka.Offset
	beginNoted      bool // it was refused before, as its begin was missing
	beginDeleted    bool // files of segments that retention took are still there

	list      []*segment
	snapshots []kafka.Offset // offsets of snapshot files, ascending
	journal   []journalEntry // that recovery goes on with
	resumed   kafka.Offset   // the snapshot from which recovery went on in a segment; 0 if it did not
	end       kafka.Offset
}

func (o *opening) run() error {
	if err := o.listFiles(); err != nil {
		return err
	}
	if err := o.readEpochs(); err != nil {
		return err
	}
	if err := o.checkBegin(); err != nil {
		return err
	}
	if err := o.findEnd(); err != nil {
		return err
	}
	if err := o.dropSnapshots(); err != nil {
		return err
	}
	if err := o.lowerCleaned(); err != nil {
		return err
	}
	if err := o.publish(); err != nil {
		return err
	}
	for _, s := range o.list {
		s.mu.Lock()
		s.used = false // opening it was no use
		s.mu.Unlock()
		if o.trusted {
			s.idle(s == o.list[len(o.list)-1])
		}
	}
	return nil
}

// lowerCleaned forgets that records were compacted that the log does not have any more, before others take their offsets and pass for
// compacted: their tombstones would go, and what they had deleted would stay. A power cut in the middle of a reset leaves such a log.
func (o *opening) lowerCleaned() error {
	if o.dir.cleanedOffset(o.partition) <= o.end {
		return nil
	}
	return o.dir.lower(o.partition, math.MaxInt64, math.MaxInt64, o.end)
}

// listFiles finds segments and snapshots and removes what is of no use: files that were deleted, or unfinished.
func (o *opening) listFiles() error {
	entries, err := o.fs.ReadDir(o.folder)
	if err != nil {
		return fmt.Errorf("open %s: %w", o.partition, err)
	}
	if finished, err := o.finishSwaps(entries); err != nil {
		return err
	} else if finished {
		return o.listFiles()
	}
	for _, e := range entries {
		if e.Name == DamagedFile {
			if err := o.checkNoted(); err != nil {
				return err
			}
		} else if base, ok := parseOffsetName(e.Name, logSuffix); ok {
			o.list = append(o.list, newSegment(&o.place, base))
		} else if offset, ok := parseOffsetName(e.Name, snapshotSuffix); ok {
			o.snapshots = append(o.snapshots, offset)
		} else if strings.HasSuffix(e.Name, txnIndexSuffix) {
			o.transactional.Store(true)
		} else if isLeftover(e.Name) {
			o.beginDeleted = o.beginDeleted || strings.HasSuffix(e.Name, logSuffix+deletedSuffix)
			if err := o.remove(e.Name); err != nil {
				return err
			}
		}
	}
	for _, s := range o.list {
		info, err := o.fs.Stat(s.name(logSuffix))
		if err != nil {
			return fmt.Errorf("open %s: %w", o.partition, err)
		}
		s.size.Store(info.Size)
	}
	if n := len(o.list); n > 0 {
		o.indexed = slices.ContainsFunc(entries, func(e vfs.Entry) bool {
			return e.Name == offsetName(o.list[n-1].base, indexSuffix) || e.Name == offsetName(o.list[n-1].base, timeIndexSuffix)
		})
	}
	return o.removeOrphans(entries)
}

func isLeftover(name string) bool {
	return strings.HasSuffix(name, deletedSuffix) || strings.HasSuffix(name, cleanedSuffix) || strings.HasSuffix(name, tmpSuffix)
}

// removeOrphans removes indexes without a segment.
func (o *opening) removeOrphans(entries []vfs.Entry) error {
	for _, e := range entries {
		for _, suffix := range []string{indexSuffix, timeIndexSuffix, txnIndexSuffix} {
			base, ok := parseOffsetName(e.Name, suffix)
			if !ok || slices.ContainsFunc(o.list, func(s *segment) bool { return s.base == base }) {
				continue
			}
			if err := o.checkOrphan(e.Name, base); err != nil {
				return err
			}
			if err := o.remove(e.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkOrphan tells an index whose segment was lost from one that retention, a truncation or compaction left.
func (o *opening) checkOrphan(name string, base kafka.Offset) error {
	i := slices.IndexFunc(o.list, func(s *segment) bool { return s.base > base })
	if i <= 0 || base >= o.floor || o.list[i].base <= o.startCheckpoint || o.mayHaveGaps() {
		return nil
	}
	end, err := o.list[i-1].endOffset()
	if err != nil || end >= o.list[i].base {
		return err
	}
	return &CorruptError{
		File:   filepath.Join(o.folder, offsetName(base, logSuffix)),
		Reason: fmt.Sprintf("it is missing, though %s is there; offsets %d to %d are gone", name, end, o.list[i].base-1),
	}
}

// endOffset reads the headers of a segment to tell where it ends.
func (s *segment) endOffset() (kafka.Offset, error) {
	w, err := s.walk(bodyAhead)
	if err != nil {
		return 0, err
	}
	defer w.done()
	end := s.base
	for at := int64(0); at < w.limit; {
		head, size, err := w.head(at)
		if err != nil {
			return 0, err
		}
		end = head.NextOffset()
		at += size
	}
	return end, nil
}

func (o *opening) remove(name string) error {
	if err := o.fs.Remove(filepath.Join(o.folder, name)); err != nil && !vfs.IsNotExist(err) {
		return o.dir.failUnlessFull(fmt.Errorf("remove leftover: %w", err))
	}
	return nil
}

// readEpochs reads leader-epoch-checkpoint. If that is impossible, all epochs are found again in the batches.
func (o *opening) readEpochs() error {
	content, err := vfs.ReadFile(o.fs, o.epochsFile())
	if vfs.IsNotExist(err) {
		o.trusted, o.scanFrom = o.trusted && len(o.list) == 0, 0
		return nil
	}
	if err != nil {
		return err
	}
	entries, err := ParseEpochs(content)
	if err != nil {
		o.dir.note("%s: %v; epochs are read from the batches", o.epochsFile(), err)
		o.trusted, o.scanFrom, entries = false, 0, nil
	}
	o.epochs.entries = entries
	return nil
}

// findEnd finds the end of the log, after an unclean stop by recovery.
func (o *opening) findEnd() error {
	if len(o.list) == 0 {
		o.fresh, o.end = true, o.startCheckpoint
		if o.floor > o.end {
			return &CorruptError{File: o.folder, Reason: fmt.Sprintf("it has no segment, but had been flushed up to offset %d", o.floor)}
		}
		return nil
	}
	if !o.trusted {
		return o.recover()
	}
	s := o.list[len(o.list)-1]
	for _, s := range o.list {
		s.synced.Store(s.size.Load())
		s.firstMs, s.createdMs = -1, o.now.UnixMilli()
	}
	next, err := o.scanTail(s)
	var corrupt *CorruptError
	if errors.As(err, &corrupt) {
		o.dir.note("%v although %s was closed in order; it is recovered", err, o.partition)
		o.trusted = false
		return o.recover()
	}
	if err != nil {
		return err
	}
	o.end = next
	if err := o.checkClosedAt(); err != nil {
		return err
	}
	if err := o.loadProducers(o.end, o.end); err != nil {
		return err
	}
	o.Log.end.Store(int64(o.end))
	_, err = o.aborted(o.list, len(o.list)-1)
	return err
}

// scanTail reads the headers behind the last index entry of the active segment, and makes it ready to be appended to. One that was closed
// briefly gets its indexes here.
func (o *opening) scanTail(s *segment) (kafka.Offset, error) {
	bare := !o.indexed && s.size.Load() <= o.dir.briefBytes
	if bare {
		s.index.reset()
	} else if err := s.load(1<<63 - 1); err != nil {
		return 0, err
	}
	w, err := s.walk(headAhead)
	if err != nil {
		return 0, err
	}
	defer w.done()
	if last, ok := s.index.lastTime(); ok {
		s.maxTime = last
	}
	s.maxKnown = true
	next := s.base
	at, err := s.indexed(w, func(x *index) IndexEntry { return x.beforePosition(1<<63 - 1) })
	if err != nil {
		return 0, err
	}
	if w.limit > 0 {
		head, _, err := w.head(0)
		if err != nil {
			return 0, err
		}
		s.firstMs = head.MaxTimestampMs()
	}
	for at < w.limit {
		head, size, err := w.head(at)
		if err != nil {
			return 0, err
		}
		s.noteBatch(head.RecordsMaxTimestampMs(), head.LastOffset())
		next = head.NextOffset()
		if bare {
			s.noteIndex(head.LastOffset(), at, int(size), o.config.Load().IndexIntervalBytes)
		} else {
			s.sinceIndex += int(size)
		}
		at += size
	}
	return next, nil
}

// publish makes the log ready to be read and written.
func (o *opening) publish() error {
	if o.fresh {
		s, err := o.createSegment(o.end, o.now)
		if err != nil {
			return o.dir.failUnlessFull(err)
		}
		o.list = append(o.list, s)
	}
	o.checkpointed.Store(int64(o.floor))
	active := o.list[len(o.list)-1]
	active.jitterMs = o.jitter(active.base)
	if o.trusted {
		active.marked = active.size.Load() // there is a snapshot at the end, or little before it
	}
	active.tail.add(mark{o.end, active.size.Load()})
	o.setSegments(o.list)
	start := max(o.startCheckpoint, o.list[0].base)
	if start > o.end && o.trusted && o.end > o.list[0].base {
		return &CorruptError{
			File:   filepath.Join(o.dir.path, LogStartFile),
			Reason: fmt.Sprintf("%s begins at offset %d, behind its end %d", o.partition, start, o.end),
			Remedy: "stop the broker, take the partition's line out of the file and lower the count in its second line, start it",
		}
	}
	if start > o.end {
		o.dir.note("%s begins at %d, behind its end %d: it is emptied", o.partition, start, o.end)
		o.Log.end.Store(int64(o.end))
		return o.Reset(start)
	}
	o.Log.end.Store(int64(o.end))
	o.highWatermark.Store(min(o.highWatermark.Load(), int64(o.end)))
	o.start.Store(int64(start))
	o.epochs.truncateEnd(o.end)
	o.epochs.truncateStart(start)
	switch {
	case o.fresh:
		o.setFlushed(o.end)
		return nil
	case o.trusted:
		o.setFlushed(o.end)
		o.folderSynced.Store(o.folderVersion.Load())
		o.metadataSynced = true
		return nil
	}
	o.setFlushed(min(o.floor, o.end))
	o.folderVersion.Add(1)
	return nil
}

var errExist = errors.New("there is a folder of that name")
