// Package commitlog stores the log of a partition as Apache Kafka does: a folder of segments with indexes, in a log directory
// with checkpoints. It is synchronous and starts no goroutine; what must happen in the background is a method to call.
//
// What is on the disk is Kafka's, file by file (docs/format). What is promised is more: a record below [Log.FlushedOffset] is
// there after a power cut, whatever else is not.
package commitlog

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// Log is the log of one partition.
//
// Append, AppendAsFollower, AssignEpoch, SetStart, Leave, Retain, Truncate, Reset, Close and the use of Producers must be serialised by
// the caller: the partition's lock does. Everything else is safe beside them and beside itself. Reading needs no lock that is
// held across a write or a flush.
type Log struct {
	place
	partition kafka.TopicPartition
	topicID   kafka.TopicID
	config    atomic.Pointer[Config]

	// Published for readers. A reader loads end before segments: then every offset below end has its segment.
	segments      atomic.Pointer[[]*segment]
	start         atomic.Int64
	end           atomic.Int64
	flushed       atomic.Int64
	settled       atomic.Int64 // how much of flushed is durable in the segments; the rest is in the journal
	highWatermark atomic.Int64
	checkpointed  atomic.Int64 // the recovery point on the disk
	folderVersion atomic.Int32 // counts files that were made in the folder
	transactional atomic.Bool  // there was a transaction in the log, as far as is known; most never have one

	epochs epochs

	// Owned by who appends.
	producers *producer.State
	snapshots []kafka.Offset // of the snapshot files, ascending
	seenMs    int64          // the latest time that a call told
	closed    atomic.Bool

	flushMu sync.Mutex // serialises flushes and truncation; held across them, never taken to append or read
	// What is known to be durable beside the segments.
	folderSynced   atomic.Int32 // the folderVersion; written with flushMu
	metadataSynced bool         // partition.metadata and the folder's own name; guarded by flushMu
	deleted        bool         // the folder is gone; guarded by flushMu

	unsweepable     atomic.Bool // damage keeps removed segments on the disk, which was said
	indexesUnsynced atomic.Bool // indexes or snapshots were written since the last checkpoint

	// swapMu is held while compaction makes, renames or removes files, and by whoever else changes the list of segments but by
	// adding one: taken after flushMu, before listMu and doomedMu. Retain tries only.
	swapMu sync.Mutex
	listMu sync.Mutex   // guards changes of segments; held for memory only
	cuts   atomic.Int32 // counts truncations

	doomedMu sync.Mutex // guards doomed; held across renames, never taken to append or read
	doomed   []doomedSegment
}

// doomedSegment is out of the log; its files are still there.
type doomedSegment struct {
	*segment
	renamed  bool
	replaced bool      // another one of its base has taken the names of its files
	removeAt time.Time // zero until Sweep sees it
}

// Appended tells where a batch went.
type Appended struct {
	Base, Last kafka.Offset
	Rolled     bool // a new segment was begun for it
}

// Partition names the log.
func (l *Log) Partition() kafka.TopicPartition { return l.partition }

// TopicID is the topic's id.
func (l *Log) TopicID() kafka.TopicID { return l.topicID }

// Dir is the log directory that holds the log.
func (l *Log) Dir() *Dir { return l.dir }

// StartOffset is the first offset that can be read.
func (l *Log) StartOffset() kafka.Offset { return kafka.Offset(l.start.Load()) }

// EndOffset is one past the last record.
func (l *Log) EndOffset() kafka.Offset { return kafka.Offset(l.end.Load()) }

// FlushedOffset is the end of what survives a power cut.
func (l *Log) FlushedOffset() kafka.Offset { return kafka.Offset(l.flushed.Load()) }

// HighWatermark is what NoteHighWatermark was told last, or the checkpoint says: 0 without one.
func (l *Log) HighWatermark() kafka.Offset { return kafka.Offset(l.highWatermark.Load()) }

// setFlushed tells that everything up to an offset is durable in the segments. It needs flushMu.
func (l *Log) setFlushed(end kafka.Offset) {
	l.settled.Store(int64(end))
	l.flushed.Store(int64(end))
}

// NoteHighWatermark tells the log which high watermark to write into the next checkpoint.
func (l *Log) NoteHighWatermark(hw kafka.Offset) { l.highWatermark.Store(int64(hw)) }

// Producers is the idempotence window at the log's end. It belongs to the caller's lock; Truncate and Reset replace it.
func (l *Log) Producers() *producer.State { return l.producers }

// Config returns the log's settings.
func (l *Log) Config() Config { return *l.config.Load() }

// SetConfig changes the settings, from the next append and the next Retain on.
func (l *Log) SetConfig(c Config) { l.config.Store(l.dir.shared(c)) }

// Size is the number of bytes in all segments.
func (l *Log) Size() int64 {
	var size int64
	for _, s := range *l.segments.Load() {
		size += s.size.Load()
	}
	return size
}

// SegmentInfo describes a segment.
type SegmentInfo struct {
	Base, Next kafka.Offset
	Bytes      int64
}

// Segments lists the segments, the oldest first.
func (l *Log) Segments() []SegmentInfo {
	end := l.EndOffset()
	segments := *l.segments.Load()
	infos := make([]SegmentInfo, len(segments))
	for i, s := range segments {
		infos[i] = SegmentInfo{Base: s.base, Next: nextBase(segments, i, end), Bytes: s.size.Load()}
	}
	return infos
}

// SegmentCount is how many segments there are.
func (l *Log) SegmentCount() int { return len(*l.segments.Load()) }

// nextBase is where the i-th segment ends: at the base of the next one, or at the log's end.
func nextBase(segments []*segment, i int, end kafka.Offset) kafka.Offset {
	if i+1 < len(segments) {
		return segments[i+1].base
	}
	return end
}

func (l *Log) active() *segment {
	segments := *l.segments.Load()
	return segments[len(segments)-1]
}

// LatestEpoch is the leader epoch of the last record, or a newer one that AssignEpoch was told; NoEpoch in an empty log.
func (l *Log) LatestEpoch() kafka.Epoch { return l.epochs.latest() }

// EpochEnd answers OffsetForLeaderEpoch: the largest epoch up to the asked one, and the offset at which the next one begins.
func (l *Log) EpochEnd(epoch kafka.Epoch) (kafka.Epoch, kafka.Offset) {
	return l.epochs.end(epoch, l.EndOffset())
}

// EpochAt returns the leader epoch in which an offset was written.
func (l *Log) EpochAt(offset kafka.Offset) kafka.Epoch { return l.epochs.at(offset) }

// AssignEpoch notes that a leader begins an epoch at an offset, its log's end, before it has written anything.
func (l *Log) AssignEpoch(epoch kafka.Epoch, start kafka.Offset) { l.epochs.assign(epoch, start) }

// Append stamps the log's end as base offset and the leader epoch into one whole batch, in place, and writes it. The batch is
// durable when FlushedOffset has passed it. The caller must not touch b until Append returns and may reuse it afterwards.
//
// An error leaves the log as it was: a full disk (vfs.IsFull), or ErrDiskFailed.
func (l *Log) Append(b record.Batch, epoch kafka.Epoch, now time.Time) (Appended, error) {
	b.SetBaseOffset(l.EndOffset())
	b.SetLeaderEpoch(epoch)
	return l.append(b, now)
}

// AppendAsFollower writes a batch as the leader stamped it. Offsets may be left out in front of it, where the leader has
// compacted, but not go back.
func (l *Log) AppendAsFollower(b record.Batch, now time.Time) (Appended, error) {
	if b.BaseOffset() < l.EndOffset() {
		return Appended{}, fmt.Errorf("append offset %d to %s, which ends at %d", b.BaseOffset(), l.partition, l.EndOffset())
	}
	if b.BaseOffset() > l.EndOffset() {
		if err := l.noteGaps(); err != nil {
			return Appended{}, err
		}
	}
	return l.append(b, now)
}

func (l *Log) append(b record.Batch, now time.Time) (Appended, error) {
	if err := l.writable(); err != nil {
		return Appended{}, err
	}
	l.seenMs = now.UnixMilli()
	appended := Appended{Base: b.BaseOffset(), Last: b.LastOffset()}
	maxMs := b.MaxTimestampMs()
	s := l.active()
	if l.rollDue(s, b, maxMs, now) {
		if err := l.roll(b.BaseOffset(), now); err != nil {
			return Appended{}, err
		}
		appended.Rolled = true
		s = l.active()
	} else if err := l.leaveMark(s); err != nil {
		return Appended{}, l.writeError(err)
	}
	file, err := s.acquire()
	if err != nil {
		return Appended{}, l.writeError(err)
	}
	defer file.release() // when size tells of the batch: who closes a file asks then whether all in it is flushed
	position := s.size.Load()
	s.takeRoom(file, position, int64(len(b)))
	if err := file.write(b, position); err != nil {
		s.room = 0
		return Appended{}, l.writeError(err)
	}
	l.epochs.assign(b.LeaderEpoch(), appended.Base)
	s.noteBatch(maxMs, appended.Last)
	s.noteIndex(appended.Last, position, len(b), l.config.Load().IndexIntervalBytes)
	s.tail.add(mark{appended.Last + 1, position + int64(len(b))})
	s.size.Store(position + int64(len(b)))
	l.end.Store(int64(appended.Last + 1))
	return appended, nil
}

func (l *Log) writable() error {
	if l.closed.Load() {
		return fmt.Errorf("%s: %w", l.partition, ErrClosed)
	}
	return l.dir.Failed()
}

// write puts a batch behind what the segment holds. After an error nothing of it is left, or the caller takes the directory
// offline.
func (f *openFile) write(b []byte, position int64) error {
	if _, err := f.WriteAt(b, position); err != nil {
		if cut := f.Truncate(position); cut != nil {
			if vfs.IsFull(cut) {
				cut = errors.New(cut.Error()) // this is no longer a disk that is only full: what is left would end up inside the log
			}
			return fmt.Errorf("cut off what was written to %s: %w (the write: %v)", f.segment, cut, err) //nolint:errorlint
		}
		return fmt.Errorf("write %s: %w", f.segment, err)
	}
	return nil
}

// noteIndex adds an index entry for a batch when enough bytes lie between it and the entry before, as Kafka does.
func (s *segment) noteIndex(last kafka.Offset, position int64, size, interval int) {
	if s.sinceIndex > interval {
		s.index.add(last, position)
		s.mu.Lock()
		maxTime := s.maxTime
		s.mu.Unlock()
		s.index.addTime(maxTime.TimestampMs, maxTime.Offset)
		s.sinceIndex = 0
	}
	s.sinceIndex += size
}

// rollDue tells whether the batch goes to a new segment.
func (l *Log) rollDue(s *segment, b record.Batch, maxMs int64, now time.Time) bool {
	c := l.config.Load()
	size := s.size.Load()
	if size == 0 {
		return b.LastOffset()-s.base > math.MaxInt32
	}
	return size > int64(c.SegmentBytes)-int64(len(b)) || l.agedMs(s, maxMs, now) > c.SegmentMs-s.jitterMs ||
		s.index.isFull(c.IndexBytes) || b.LastOffset()-s.base > math.MaxInt32
}

// agedMs is how far the records went on since the segment's first one, or without timestamps the time.
func (l *Log) agedMs(s *segment, maxMs int64, now time.Time) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.firstMs >= 0 {
		return maxMs - s.firstMs
	}
	return now.UnixMilli() - s.createdMs
}

// roll begins a new segment. The producer snapshot belongs to its base, so the caller has applied all batches before.
func (l *Log) roll(base kafka.Offset, now time.Time) error {
	if err := l.active().leaveRoom(); err != nil {
		return l.writeError(err)
	}
	if err := l.finish(l.active(), base); err != nil {
		return l.writeError(err)
	}
	s, err := l.createSegment(base, now)
	if err != nil {
		return l.writeError(err) // the active segment stays, with more in its index than is needed
	}
	s.txns.noteOpen(l.producers)
	l.listMu.Lock()
	defer l.listMu.Unlock()
	segments := *l.segments.Load()
	grown := append(segments[:len(segments):len(segments)], s)
	l.segments.Store(&grown)
	return nil
}

// Leave begins a new segment if a file is that of the active one and holds anything.
func (l *Log) Leave(file string, now time.Time) error {
	if err := l.writable(); err != nil {
		return err
	}
	if s := l.active(); s.String() != file || s.size.Load() == 0 {
		return nil
	}
	return l.roll(l.EndOffset(), now)
}

// keepNames makes the names of the segments durable if that was not done since the last one was begun. Otherwise a power cut
// could leave a later segment without an older one, and if that was the first one, a log that begins in the middle.
func (l *Log) keepNames() error {
	if l.folderVersion.Load() == l.folderSynced.Load() {
		return nil
	}
	return l.syncFolder("begin a segment of")
}

// syncFolder makes the names in the folder durable.
func (l *Log) syncFolder(why string) error {
	err := l.fs.SyncDir(l.folder)
	if err == nil || l.closed.Load() && vfs.IsNotExist(err) {
		return l.readError(err)
	}
	return l.dir.failUntried(fmt.Errorf("%s %s: %w", why, l.partition, err))
}

// writeError takes the directory offline after a failed write, unless the disk is only full, or the partition was deleted
// beside it.
func (l *Log) writeError(err error) error {
	if err = l.readError(err); errors.Is(err, ErrClosed) || isCorrupt(err) {
		return err
	}
	return l.dir.failUnlessFull(err)
}

// createSegment makes a new, empty segment.
func (l *Log) createSegment(base kafka.Offset, now time.Time) (*segment, error) {
	s := newSegment(&l.place, base)
	return s, l.create(s, now)
}

// create makes the file of a new segment, when all that come before it have durable names: it may be the only one that a power
// cut leaves, whether it is begun by a roll or behind a truncated end.
func (l *Log) create(s *segment, now time.Time) error {
	if err := l.keepNames(); err != nil {
		return err
	}
	f, err := l.fs.Open(s.name(logSuffix), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	l.folderVersion.Add(1)
	s.begin(now.UnixMilli())
	s.jitterMs = l.jitter(s.base)
	s.tail.add(mark{s.base, 0})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened(f)
	return nil
}

// finish writes what belongs to the end of a segment that will not be written to any more: the indexes, and the producer
// snapshot at its end.
func (l *Log) finish(s *segment, end kafka.Offset) error {
	if err := l.finishIndex(s); err != nil {
		return err
	}
	return l.writeSnapshotAtEnd(end)
}

// finishIndex makes the largest timestamp the last entry of the time index, and writes both indexes.
func (l *Log) finishIndex(s *segment) error {
	s.mu.Lock()
	maxTime := s.maxTime
	s.mu.Unlock()
	s.index.addTime(maxTime.TimestampMs, maxTime.Offset)
	if err := s.index.save(l.fs, s.name(indexSuffix), s.name(timeIndexSuffix), s.base); err != nil {
		return err
	}
	if err := s.saveAborted(l.transactional.Load()); err != nil {
		return err
	}
	l.indexesUnsynced.Store(true)
	return nil
}

// jitter is a chance of the segment's own, the same whenever it is asked for: 0 up to segment.jitter.ms.
func (l *Log) jitter(base kafka.Offset) int64 {
	c := l.config.Load()
	limit := min(c.SegmentJitterMs, c.SegmentMs)
	if limit <= 0 {
		return 0
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", l.partition, base)
	return int64(h.Sum64()>>1) % limit
}

// setSegments publishes a list that is shorter or other than before. The last one is the active segment.
func (l *Log) setSegments(segments []*segment) {
	invariant.Check(len(segments) > 0, "%s without a segment", l.partition)
	l.segments.Store(&segments)
}

// Close flushes the log and writes its indexes and a snapshot of its producers. Chunks that are in use stay readable. The next
// checkpoint, or Dir.Close, makes the rest durable.
func (l *Log) Close() error { return l.close((*Log).finishAll) }

// CloseBriefly is Close for many logs in little time: it leaves out the files that a start can do without.
func (l *Log) CloseBriefly() error { return l.close((*Log).finishBriefly) }

func (l *Log) close(finish func(*Log) error) error {
	if l.closed.Swap(true) {
		return nil
	}
	err := finish(l)
	l.dir.release(l, err == nil)
	for _, s := range *l.segments.Load() {
		s.abandon()
	}
	return err
}

func (l *Log) finishAll() error {
	return l.finishWith(func(s *segment) error { return l.finish(s, l.EndOffset()) })
}

// finishWith flushes the log, and has what was appended since it was closed before finished.
func (l *Log) finishWith(finish func(*segment) error) error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	l.swapMu.Lock()
	defer l.swapMu.Unlock()
	if _, err := l.flush(); err != nil {
		return err
	}
	if l.Finished() {
		return nil
	}
	l.checkpointed.Store(math.MaxInt64) // it will be trusted, or read from a segment's begin
	return l.dir.failUnlessFull(finish(l.active()))
}

// Finished tells whether nothing was appended since the log was closed before. Whoever appends waits meanwhile.
func (l *Log) Finished() bool {
	n := len(l.snapshots)
	return n > 0 && l.snapshots[n-1] == l.EndOffset() && l.active().saved()
}

// briefBytesMax is how many bytes of batches the next start reads of a log that was closed briefly, to make anew what was left out.
const briefBytesMax = 16 << 10

// finishBriefly leaves out the indexes of a small segment that has none on the disk yet: an old one would tell Kafka of too early a
// largest timestamp, by which records would be deleted. It leaves out the producers where a snapshot tells of them but for the last
// batches. Where there is none, or none behind the log's start, one is written: Kafka would begin without them, and append a second time
// what a producer repeats after it was acknowledged here.
func (l *Log) finishBriefly() error {
	if l.transactional.Load() {
		return l.finishAll()
	}
	return l.finishWith(func(s *segment) error {
		l.indexesUnsynced.Store(true) // nothing of it is, but where nothing was appended its folder may not be durable
		if s.size.Load() > l.dir.briefBytes || !s.bare() {
			if err := l.finishIndex(s); err != nil {
				return err
			}
		}
		if l.bytesBehindSnapshot(s) <= l.dir.briefBytes {
			return nil
		}
		return l.writeSnapshotAtEnd(l.EndOffset())
	})
}

// bytesBehindSnapshot is how much of the active segment a start reads to know the producers. It is math.MaxInt64 where that is not enough
// for them, or not for a Kafka that starts: it does not look at snapshots up to the log's start, which may be all that tells of some.
func (l *Log) bytesBehindSnapshot(s *segment) int64 {
	newest := kafka.NoOffset
	if n := len(l.snapshots); n > 0 {
		newest = l.snapshots[n-1]
	}
	start, known := l.StartOffset(), l.producers.Len()
	switch {
	case newest == kafka.NoOffset && known == 0:
		return s.size.Load()
	case newest < s.base, newest <= start && start > 0 && known > 0 && newest < l.EndOffset():
		return math.MaxInt64
	}
	return s.size.Load() - s.index.before(newest).Position
}

// bare tells whether there are no index files.
func (s *segment) bare() bool {
	for _, suffix := range []string{indexSuffix, timeIndexSuffix} {
		if _, err := s.fs.Stat(s.name(suffix)); !vfs.IsNotExist(err) {
			return false
		}
	}
	return true
}
