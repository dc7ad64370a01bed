package commitlog

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sort"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// Chunk is a range of whole batches in a segment's file. It keeps the file open, also when retention deletes the segment, until
// Release. After a truncation the file can end within the range: who sends it then closes the connection.
type Chunk struct {
	File vfs.File // nil in an empty chunk
	Pos  int64
	Len  int
	Next kafka.Offset // where to read on

	file *openFile
	more int64 // bytes behind it, in the segment, that its reader may read too
}

const (
	readAheadMin = 64 << 10 // below that the reader is nearly there, or asks for little
	readAheadMax = 8 << 20
)

// ReadAhead has what the reader will ask for next brought into memory, while it works through this chunk: twice as much as it gets
// now, as far as the segment goes. Who reads near the end of the log has everything there already; for who catches up the disk is
// asked in large pieces, whatever the system would do by itself. It may wait for the disk. Not after Release.
func (c *Chunk) ReadAhead() {
	if ahead := min(c.more, 2*int64(c.Len), readAheadMax); ahead >= readAheadMin {
		vfs.ReadAhead(c.file.File, c.Pos+int64(c.Len), ahead)
	}
}

// Release gives the file back. It may be called once, or not at all for a chunk without File.
func (c *Chunk) Release() {
	if c.file != nil {
		c.file.release()
		c.file, c.File = nil, nil
	}
}

// Read returns the batches from the one that holds an offset on, or from the next one where it is gone, up to a bound that is
// not reached, as far as they lie in one segment and maxBytes allows. With atLeastOne the first batch is returned even if
// it is larger. The error is kafka.OffsetOutOfRange for an offset before the log's start or beyond its end.
func (l *Log) Read(from, bound kafka.Offset, maxBytes int, atLeastOne bool) (Chunk, error) {
	for {
		end, seen := l.EndOffset(), l.segments.Load()
		chunk, err := l.readFrom(*seen, from, bound, end, maxBytes, atLeastOne)
		if err == nil || !l.wasCut(err, seen, end) {
			return chunk, l.readError(err)
		}
	}
}

// ReadCommitted is Read with the aborted transactions that have a record in the chunk, in the order in which they begin:
// Kafka's is that of their markers, which kafkajs takes for this one, so that it delivers the records of a transaction within which another
// began and was aborted.
func (l *Log) ReadCommitted(from, bound kafka.Offset, maxBytes int, atLeastOne bool) (Chunk, []AbortedTxn, error) {
	for {
		end, seen := l.EndOffset(), l.segments.Load()
		chunk, err := l.readFrom(*seen, from, bound, end, maxBytes, atLeastOne)
		var aborted []AbortedTxn
		if err == nil && chunk.Len > 0 {
			// Of the same segments: compaction drops what is aborted and what tells of it together.
			if aborted, err = l.abortedTxns(*seen, from, chunk.Next); err != nil {
				chunk.Release()
			}
		}
		if err == nil || !l.wasCut(err, seen, end) {
			slices.SortFunc(aborted, func(a, b AbortedTxn) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
			return chunk, aborted, l.readError(err)
		}
	}
}

func (l *Log) readFrom(segments []*segment, from, bound, end kafka.Offset, maxBytes int, atLeastOne bool) (Chunk, error) {
	if from < l.StartOffset() || from > end {
		return Chunk{}, kafka.OffsetOutOfRange
	}
	bound = min(bound, end)
	for i := find(segments, from); from < bound && i < len(segments); i++ {
		chunk, err := segments[i].read(from, bound, nextBase(segments, i, end), maxBytes, atLeastOne)
		if err != nil || chunk.File != nil {
			return chunk, err
		}
		if chunk.Next <= from {
			break
		}
		if i+1 < len(segments) && !l.mayHaveGaps() {
			return Chunk{}, missingBefore(segments[i+1], from)
		}
		from = chunk.Next
	}
	return Chunk{Next: from}, nil
}

// look lets a reader look at the log's segments, again if a truncation came in between.
func (l *Log) look(reader func(segments []*segment, end kafka.Offset) error) error {
	for {
		end, seen := l.EndOffset(), l.segments.Load()
		if err := reader(*seen, end); err == nil || !l.wasCut(err, seen, end) {
			return l.readError(err)
		}
	}
}

// wasCut tells whether a reader's error may come from a truncation beside it, which left it with bytes that make no sense.
func (l *Log) wasCut(err error, seen *[]*segment, end kafka.Offset) bool {
	if l.segments.Load() == seen && l.EndOffset() >= end {
		return false
	}
	var corrupt *CorruptError
	return errors.Is(err, errRetired) || errors.As(err, &corrupt) || vfs.IsNotExist(err)
}

// readError explains that a deleted log's files are gone.
func (l *Log) readError(err error) error {
	if l.closed.Load() && (vfs.IsNotExist(err) || errors.Is(err, errRetired)) {
		return fmt.Errorf("%s: %w", l.partition, ErrClosed)
	}
	return err
}

// find returns the segment that holds an offset, or the first one.
func find(segments []*segment, offset kafka.Offset) int {
	n := sort.Search(len(segments), func(i int) bool { return segments[i].base > offset })
	return max(n-1, 0)
}

// read is Read in one segment, which ends before next. Without anything to return, the chunk's Next is next if only this
// segment has nothing, and from otherwise.
func (s *segment) read(from, bound, next kafka.Offset, maxBytes int, atLeastOne bool) (Chunk, error) {
	if err := s.load(next); err != nil {
		return Chunk{}, err
	}
	file, err := s.acquire()
	if err != nil {
		return Chunk{}, err
	}
	chunk, err := s.readFile(file, from, bound, next, maxBytes, atLeastOne)
	if err != nil || chunk.Len == 0 {
		file.release()
		return Chunk{Next: chunk.Next}, err
	}
	chunk.File, chunk.file = file, file
	return chunk, nil
}

func (s *segment) readFile(file vfs.File, from, bound, next kafka.Offset, maxBytes int, atLeastOne bool) (Chunk, error) {
	w := newWalker(file, s, s.size.Load(), headAhead)
	defer w.done()
	begin, err := s.position(w, from)
	if err != nil {
		return Chunk{}, err
	}
	limit, after := w.limit, next
	if bound < next {
		after = bound
	}
	if bound <= next {
		if limit, err = s.position(w, bound); err != nil {
			return Chunk{}, err
		}
	}
	switch {
	case begin >= limit && bound >= next:
		return Chunk{Next: next}, nil // compaction has left nothing up to there
	case begin >= limit:
		return Chunk{Next: from}, nil
	case limit-begin <= int64(maxBytes):
		return Chunk{Pos: begin, Len: int(limit - begin), Next: after}, nil
	}
	return s.cut(w, begin, limit, int64(maxBytes), from, atLeastOne)
}

// cut returns as many whole batches between begin and limit as maxBytes allows.
func (s *segment) cut(w *walker, begin, limit, maxBytes int64, from kafka.Offset, atLeastOne bool) (Chunk, error) {
	end, next := begin, from
	at, err := s.indexed(w, func(x *index) IndexEntry { return x.beforePosition(begin + maxBytes) })
	if err != nil {
		return Chunk{}, err
	}
	at = max(begin, at)
	for at < limit {
		head, size, err := w.head(at)
		if err != nil {
			return Chunk{}, err
		}
		fits := at+size-begin <= maxBytes
		if !fits && (at > begin || !atLeastOne) {
			if at > begin {
				end, next = at, head.BaseOffset()
			}
			break
		}
		end, next = at+size, head.NextOffset()
		at += size
		if !fits {
			break
		}
	}
	return Chunk{Pos: begin, Len: int(end - begin), Next: next, more: limit - end}, nil
}

// position returns where the first batch begins that ends at or after an offset: the end of the walker's limit if none does.
func (s *segment) position(w *walker, offset kafka.Offset) (int64, error) {
	if offset <= s.base {
		return 0, nil
	}
	if at, ok := s.tail.find(offset); ok && at <= w.limit {
		return at, nil
	}
	at, err := s.indexed(w, func(x *index) IndexEntry { return x.before(offset) })
	if err != nil {
		return 0, err
	}
	for at < w.limit {
		head, size, err := w.head(at)
		if err != nil {
			return 0, err
		}
		if head.BaseOffset() < s.base {
			return 0, w.corrupt(at, "offset %d in the segment that begins with %d", head.BaseOffset(), s.base)
		}
		if head.LastOffset() >= offset {
			return at, nil
		}
		at += size
	}
	return at, nil
}

// Batches reads whole batches from the one that holds an offset on, to what is the log's end now, and checks each one's CRC. A
// batch is valid until the next step. What compaction replaces on the way is read as it is then. Iteration ends after an error: a
// *CorruptError, ErrClosed, or kafka.OffsetOutOfRange, also where retention was faster.
func (l *Log) Batches(from kafka.Offset) iter.Seq2[record.Batch, error] {
	return func(yield func(record.Batch, error) bool) {
		for end := l.EndOffset(); ; {
			seen := l.segments.Load()
			next, err := l.eachBatch(*seen, from, end, yield)
			switch {
			case err == nil || errors.Is(err, errStop):
				return
			case !l.wasCut(err, seen, end):
				yield(nil, l.readError(err))
				return
			}
			from, end = next, min(end, l.EndOffset())
		}
	}
}

// eachBatch is Batches as long as the segments are the log's. It returns how far it has come.
func (l *Log) eachBatch(segments []*segment, from, end kafka.Offset, yield func(record.Batch, error) bool) (kafka.Offset, error) {
	if from < l.StartOffset() || from > end {
		return from, kafka.OffsetOutOfRange
	}
	for i := find(segments, from); i < len(segments) && from < end; i++ {
		next := nextBase(segments, i, end)
		err := segments[i].batches(from, next, func(b record.Batch) error {
			if b.BaseOffset() >= end || !yield(b, nil) {
				return errStop
			}
			from = b.NextOffset()
			return nil
		})
		if err != nil {
			return from, err
		}
		if i+1 < len(segments) && from < next && !l.mayHaveGaps() {
			return from, missingBefore(segments[i+1], from)
		}
		from = max(from, next)
	}
	return from, nil
}

var errStop = errors.New("stop")

// batches calls each with the checked batches from an offset on.
func (s *segment) batches(from, next kafka.Offset, each func(record.Batch) error) error {
	if err := s.load(next); err != nil {
		return err
	}
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
		b, err := w.batch(at)
		if err != nil {
			return err
		}
		if err := b.Check(); err != nil {
			return w.corrupt(at, "%v", err)
		}
		at += int64(len(b))
		if err := each(b); err != nil {
			return err
		}
	}
	return nil
}

// load brings the indexes into memory. Damaged or missing ones are made anew from the batches.
func (s *segment) load(next kafka.Offset) error {
	s.index.mu.Lock()
	loaded := s.index.loaded
	s.index.mu.Unlock()
	if loaded {
		return nil
	}
	offsets, times, ok, err := s.readIndexes(next)
	if err != nil {
		return err
	}
	if !ok {
		s.mended.Store(true)
		return s.rebuildIndexes()
	}
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	if !s.index.loaded {
		s.index.loaded, s.index.offsets, s.index.times = true, offsets, times
		s.index.written.offsets, s.index.written.times = len(offsets), len(times)
	}
	return nil
}

// readIndexes reads the index files, and tells whether they make sense.
func (s *segment) readIndexes(next kafka.Offset) (offsets []IndexEntry, times []TimeEntry, ok bool, err error) {
	content, err := s.readSide(indexSuffix)
	if err != nil {
		return nil, nil, false, ignoreNotExist(err)
	}
	timeContent, err := s.readSide(timeIndexSuffix)
	if err != nil {
		return nil, nil, false, ignoreNotExist(err)
	}
	offsets, damaged := ParseIndex(content, s.base)
	times, timesDamaged := ParseTimeIndex(timeContent, s.base)
	if errors.Join(damaged, timesDamaged) != nil {
		return nil, nil, false, nil //nolint:nilerr // not ok: they are made anew
	}
	size := s.size.Load()
	if n := len(offsets); n > 0 && (offsets[n-1].Offset >= next || offsets[n-1].Position >= size) {
		return nil, nil, false, nil
	}
	if n := len(times); n > 0 && times[n-1].Offset >= next || n == 0 && size > 0 {
		return nil, nil, false, nil
	}
	return offsets, times, true, nil
}

// readSide reads a file beside the .log.
func (s *segment) readSide(suffix string) ([]byte, error) {
	name := s.name(suffix)
	s.mu.Lock()
	deleted := s.deleted
	s.mu.Unlock()
	if deleted {
		name += deletedSuffix
	}
	return vfs.ReadFile(s.fs, name)
}

func ignoreNotExist(err error) error {
	if vfs.IsNotExist(err) {
		return nil
	}
	return fmt.Errorf("read index: %w", err)
}
