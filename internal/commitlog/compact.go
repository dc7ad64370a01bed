package commitlog

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// CompactOptions are what a cleaning of one log goes by.
type CompactOptions struct {
	MapBytes      int64   // memory of the offset map (log.cleaner.dedupe.buffer.size, divided among the threads)
	MapLoadFactor float64 // log.cleaner.io.buffer.load.factor
	BufferBytes   int     // of reading and of writing (log.cleaner.io.buffer.size, divided as well)
	// Producers are those that the partition remembers: the batch with the last sequence of each stays.
	Producers map[kafka.ProducerID]producer.Last
}

// CompactStats is what a cleaning did so far.
type CompactStats struct {
	Range                     Cleanable
	Cleaned                   kafka.Offset // the log is clean below; set at the end
	ReadBytes, WrittenBytes   int64
	ReadRecords, KeptRecords  int64
	NoKeyRecords              int64 // dropped, as nothing can supersede them
	OldSegments, NewSegments  int
	OldSegmentBytes, NewBytes int64
}

// ErrCompactionStale tells that the log was truncated, or lost its begin, under a cleaning. Nothing was changed by it.
var ErrCompactionStale = errors.New("the log has changed")

// Compaction is one cleaning of a log. It first notes the newest offset of every key of the dirty range, then writes the log's
// segments anew, group by group, without the records that have a newer one, and lets each new segment take the place of its
// group. Steps may run beside everything else that is done with the log, one at a time.
type Compaction struct {
	log       *Log
	options   CompactOptions
	now       time.Time
	stats     CompactStats
	cuts      int32 // the log's truncations when it began
	segments  []*segment
	dirtyFrom int // where the dirty range begins in segments

	offsets *offsetMap
	txns    *cleanedTxns
	reader  segmentReader
	next    int // the segment to read next
	mapped  bool
	groups  [][]*segment
	writer  *cleanedSegment
	done    bool
}

// Compact begins a cleaning of the range that Cleanable found. The caller ends it with Close.
func (l *Log) Compact(found Cleanable, o CompactOptions, now time.Time) (*Compaction, error) {
	if err := l.writable(); err != nil {
		return nil, err
	}
	cuts := l.cuts.Load()
	c := &Compaction{log: l, options: o, now: now, cuts: cuts, stats: CompactStats{Range: found}, txns: newCleanedTxns()}
	all := *l.segments.Load()
	for _, s := range all[:len(all)-1] {
		if s.base < found.End {
			c.segments = append(c.segments, s)
		}
	}
	if len(c.segments) == 0 || found.First >= found.End {
		return nil, fmt.Errorf("compact %s: nothing is dirty in [%d, %d)", l.partition, found.First, found.End)
	}
	for c.dirtyFrom+1 < len(c.segments) && c.segments[c.dirtyFrom+1].base <= found.First {
		c.dirtyFrom++
	}
	aborted, err := l.AbortedTxns(max(found.First, c.segments[c.dirtyFrom].base), found.End)
	if err != nil {
		return nil, err
	}
	c.txns.expect(aborted)
	c.offsets = newOffsetMap(o.MapBytes, int64(found.End-found.First), o.MapLoadFactor)
	c.next = c.dirtyFrom
	return c, nil
}

// Stats tells what was done so far.
func (c *Compaction) Stats() CompactStats { return c.stats }

// Step goes on until about so many bytes were read and written, and tells how many it was, and whether the cleaning is complete.
// After an error it is over: a *CorruptError names what is damaged in the log, ErrCompactionStale and ErrClosed that somebody was
// faster; the log is sound in any case, unless it is ErrDiskFailed.
func (c *Compaction) Step(budgetBytes int64) (usedBytes int64, done bool, err error) {
	before := c.stats.ReadBytes + c.stats.WrittenBytes
	for !c.done && usedBytes < budgetBytes {
		if c.log.closed.Load() {
			return usedBytes, false, fmt.Errorf("%s: %w", c.log.partition, ErrClosed)
		}
		if c.log.cuts.Load() != c.cuts {
			return usedBytes, false, c.stale()
		}
		if err := c.log.dir.Failed(); err != nil {
			return usedBytes, false, err
		}
		switch {
		case !c.mapped:
			err = c.stepMap()
		default:
			err = c.stepClean()
		}
		if err != nil {
			return usedBytes, false, c.explain(err)
		}
		usedBytes = c.stats.ReadBytes + c.stats.WrittenBytes - before
	}
	return usedBytes, c.done, nil
}

// explain tells an error from what comes of a segment that retention or a truncation took away.
func (c *Compaction) explain(err error) error {
	gone := func(s *segment) bool { return !slices.Contains(*c.log.segments.Load(), s) }
	if c.log.closed.Load() {
		return c.log.readError(err)
	}
	if errors.Is(err, errRetired) || vfs.IsNotExist(err) && slices.ContainsFunc(c.segments, gone) {
		return c.stale()
	}
	return err
}

func (c *Compaction) stale() error {
	return fmt.Errorf("compact %s: %w", c.log.partition, ErrCompactionStale)
}

// Close ends the cleaning. What is not in place yet is removed.
func (c *Compaction) Close() {
	c.reader.close()
	if c.writer != nil {
		c.writer.discard()
		c.writer = nil
	}
	c.offsets = nil
}

// stepMap takes the next batch of the dirty range into the offset map.
func (c *Compaction) stepMap() error {
	if c.reader.file == nil {
		if c.next == len(c.segments) {
			return c.endMap()
		}
		if err := c.reader.open(c.segments[c.next], c.aheadBytes()); err != nil {
			return err
		}
		c.next++
		if err := c.skipClean(); err != nil {
			return err
		}
	}
	if c.reader.end() {
		c.reader.close()
		end := c.stats.Range.End
		if c.next < len(c.segments) {
			end = c.segments[c.next].base
		}
		c.offsets.latest = max(c.offsets.latest, end-1)
		return nil
	}
	b, err := c.reader.batch()
	if err != nil {
		return err
	}
	c.stats.ReadBytes += int64(len(b))
	full, err := c.mapBatch(b)
	if err != nil {
		return err
	}
	if full {
		c.reader.close()
		return c.endMap()
	}
	if b.LastOffset() >= c.stats.Range.First {
		c.offsets.latest = max(c.offsets.latest, b.LastOffset())
	}
	return nil
}

// skipClean lets the reader begin with the first batch that reaches into the dirty range.
func (c *Compaction) skipClean() error {
	s, first := c.reader.segment, c.stats.Range.First
	if first <= s.base {
		return nil
	}
	if err := s.load(math.MaxInt64); err != nil {
		return err
	}
	at, err := s.position(c.reader.walker, first)
	c.reader.at = at
	return err
}

func (c *Compaction) aheadBytes() int { return max(c.options.BufferBytes, headAhead) }

// mapBatch is false as long as there is room.
func (c *Compaction) mapBatch(b record.Batch) (full bool, err error) {
	if b.IsControl() {
		if err := c.checkListed(b); err != nil {
			return false, err
		}
		if _, err := c.txns.control(b); err != nil {
			return false, c.reader.senseless(b, err)
		}
		return false, nil
	}
	if c.txns.batch(b) {
		return false, nil
	}
	for r, err := range b.Bare(decompressedMax) {
		if err != nil {
			return false, c.reader.senseless(b, err)
		}
		if r.Key != nil && r.Offset >= c.stats.Range.First && !c.offsets.put(r.Key, r.Offset) {
			return true, nil
		}
	}
	return false, nil
}

// endMap divides what lies below the map's end into groups that become one segment each.
func (c *Compaction) endMap() error {
	c.mapped = true
	end := c.offsets.latest + 1
	n := 0
	for n < len(c.segments) && c.segments[n].base < end {
		n++
	}
	c.segments = c.segments[:n]
	groups, err := c.group()
	if err != nil {
		return err
	}
	c.groups, c.txns = groups, newCleanedTxns()
	if err := c.log.noteGaps(); err != nil {
		return err
	}
	if err := c.log.settleFor(end); err != nil {
		return err
	}
	return c.log.dir.checkpointBefore(c.log, end)
}

// group keeps the sum of a group's segments, and of its indexes, within the topic's limits.
func (c *Compaction) group() ([][]*segment, error) {
	limits := c.log.config.Load()
	var groups [][]*segment
	var bytes int64
	var offsets, times int
	for i, s := range c.segments {
		next := c.nextBase(i)
		if err := s.load(next); err != nil {
			return nil, err
		}
		s.index.mu.Lock()
		moreOffsets, moreTimes := len(s.index.offsets), len(s.index.times)
		s.index.mu.Unlock()
		bytes, offsets, times = bytes+s.size.Load(), offsets+moreOffsets, times+moreTimes
		n := len(groups)
		if n > 0 && bytes <= int64(limits.SegmentBytes) && offsets <= limits.IndexBytes/indexEntryBytes && times <= limits.IndexBytes/timeEntryBytes &&
			(s.size.Load() == 0 || next-1-groups[n-1][0].base <= math.MaxInt32) {
			groups[n-1] = append(groups[n-1], s)
			continue
		}
		groups = append(groups, []*segment{s})
		bytes, offsets, times = s.size.Load(), moreOffsets, moreTimes
	}
	return groups, nil
}

// nextBase is where the i-th of the cleaning's segments ends.
func (c *Compaction) nextBase(i int) kafka.Offset {
	if i+1 < len(c.segments) {
		return c.segments[i+1].base
	}
	all := *c.log.segments.Load()
	for j, s := range all {
		if s == c.segments[i] {
			return nextBase(all, j, c.log.EndOffset())
		}
	}
	return c.stats.Range.End
}

// stepClean filters the next batch into the new segment of its group, and puts that in place after the last one.
func (c *Compaction) stepClean() error {
	if len(c.groups) == 0 {
		return c.complete()
	}
	group := c.groups[0]
	if c.writer == nil {
		w, err := c.log.createCleaned(group[0].base, c.options.BufferBytes)
		if err != nil {
			return c.log.writeError(err)
		}
		c.writer, c.next = w, 0
		c.txns.kept = nil
	}
	if c.reader.file != nil && !c.reader.end() {
		return c.cleanBatch()
	}
	c.reader.close()
	if c.next < len(group) {
		return c.openNext(group)
	}
	err := c.replace(group)
	if err != nil {
		return err
	}
	c.groups = c.groups[1:]
	return nil
}

// openNext begins with the next segment of the group.
func (c *Compaction) openNext(group []*segment) error {
	s := group[c.next]
	next := c.stats.Range.End
	for i := range c.segments {
		if c.segments[i] == s {
			next = c.nextBase(i)
		}
	}
	aborted, err := c.log.AbortedTxns(s.base, next)
	if err != nil {
		return err
	}
	c.txns.expect(aborted)
	c.next++
	return c.reader.open(s, c.aheadBytes())
}

// cleanBatch writes what stays of the next batch.
func (c *Compaction) cleanBatch() error {
	b, err := c.reader.batch()
	if err != nil {
		return err
	}
	c.stats.ReadBytes += int64(len(b))
	c.stats.ReadRecords += int64(b.Count())
	kept, records, err := c.filter(b)
	if err != nil {
		return c.reader.senseless(b, err)
	}
	c.stats.KeptRecords += int64(records)
	if len(kept) != len(b) || len(b) > 0 && &kept[0] != &b[0] {
		c.writer.changed = true
	}
	if kept == nil {
		return nil
	}
	c.stats.WrittenBytes += int64(len(kept))
	if err := c.writer.append(kept, c.log.config.Load().IndexIntervalBytes); err != nil {
		return c.log.writeError(err)
	}
	return nil
}

// filter decides what stays of a batch, as Kafka does: of data what nothing newer supersedes; a marker as long as there is any
// batch of its transaction, and then until its delete horizon; and, be it empty, the last batch of each producer and of the
// range.
func (c *Compaction) filter(b record.Batch) (kept record.Batch, records int, err error) {
	gone, err := c.discards(b)
	if err != nil {
		return nil, 0, err
	}
	r := record.Retention{
		KeepEmpty: c.isLastOfProducer(b) || b.NextOffset() == c.stats.Range.End,
		HorizonMs: c.now.UnixMilli() + c.log.config.Load().DeleteRetentionMs,
	}
	horizonMs, stamped := b.DeleteHorizonMs()
	passed := stamped && horizonMs <= c.now.UnixMilli()
	switch {
	case b.IsControl() && !(gone && passed):
		r.IsDone = gone
		r.Keep = func(record.Record) bool { return true }
	case !b.IsControl() && !gone:
		r.Keep = func(rec record.Record) bool { return c.keeps(rec, passed) }
	case !r.KeepEmpty:
		return nil, 0, nil
	}
	return b.Retain(r, decompressedMax)
}

// discards tells whether a batch belongs to an aborted transaction, or ends one that has no batch any more.
func (c *Compaction) discards(b record.Batch) (bool, error) {
	if b.IsControl() {
		return c.txns.control(b)
	}
	return c.txns.batch(b), nil
}

// keeps decides about a record. Tombstones go when the delete horizon of their batch has passed.
func (c *Compaction) keeps(r record.Record, horizonPassed bool) bool {
	if r.Offset > c.offsets.latest {
		return true
	}
	if r.Key == nil {
		c.stats.NoKeyRecords++
		return false
	}
	return !c.offsets.supersedes(r.Key, r.Offset) && (r.Value != nil || !horizonPassed)
}

func (c *Compaction) isLastOfProducer(b record.Batch) bool {
	last, ok := c.options.Producers[b.ProducerID()]
	switch {
	case !ok || b.ProducerID() < 0:
		return false
	case last.Offset >= 0:
		return b.LastOffset() == last.Offset
	}
	return b.IsControl() && b.ProducerEpoch() == last.Epoch
}

// complete notes how far the log is clean.
func (c *Compaction) complete() error {
	c.done = true
	c.stats.Cleaned = c.offsets.latest + 1
	return c.log.dir.saveCleaned(c.log, c.stats.Cleaned, c.cuts)
}
