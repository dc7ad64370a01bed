package commitlog

import (
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// cleanedSegment is a segment that compaction writes, in files called .cleaned until it takes the place of others.
type cleanedSegment struct {
	*segment
	log     *Log
	file    vfs.File
	buffer  []byte
	written int64 // bytes in the file
	changed bool  // it is not what it was made of
}

// createCleaned makes the file of a new segment. Names in the folder are only touched while the folder is the log's own.
func (l *Log) createCleaned(base kafka.Offset, bufferBytes int) (*cleanedSegment, error) {
	l.swapMu.Lock()
	defer l.swapMu.Unlock()
	if l.closed.Load() {
		return nil, fmt.Errorf("%s: %w", l.partition, ErrClosed)
	}
	w := &cleanedSegment{segment: newSegment(&l.place, base), log: l, buffer: make([]byte, 0, bufferBytes)}
	f, err := l.fs.Open(w.name(logSuffix)+cleanedSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, err
	}
	w.file = f
	w.begin(0)
	return w, nil
}

// append writes a batch behind the others.
func (w *cleanedSegment) append(b record.Batch, interval int) error {
	position := w.size.Load()
	if position+int64(len(b)) > math.MaxInt32 {
		return fmt.Errorf("compact %s: the segment would grow beyond %d bytes; its records stay as they are", w.segment, math.MaxInt32)
	}
	w.noteBatch(b.RecordsMaxTimestampMs(), b.LastOffset())
	w.noteIndex(b.LastOffset(), position, len(b), interval)
	w.size.Store(position + int64(len(b)))
	if len(w.buffer)+len(b) > cap(w.buffer) {
		if err := w.flushBuffer(); err != nil {
			return err
		}
	}
	w.buffer = append(w.buffer, b...)
	return nil
}

func (w *cleanedSegment) flushBuffer() error {
	n, err := w.file.WriteAt(w.buffer, w.written)
	if err != nil {
		return fmt.Errorf("write %s: %w", w.name(logSuffix)+cleanedSuffix, err)
	}
	w.written += int64(n)
	w.buffer = w.buffer[:0]
	return nil
}

// seal completes the segment and makes its files durable, their names excepted.
func (w *cleanedSegment) seal(aborted []AbortedTxn, createdMs int64) error {
	if err := w.flushBuffer(); err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil {
		return w.log.dir.fail(fmt.Errorf("flush %s: %w", w.name(logSuffix)+cleanedSuffix, err))
	}
	if err := w.file.Close(); err != nil {
		return fmt.Errorf("close %s: %w", w.name(logSuffix)+cleanedSuffix, err)
	}
	w.file = nil
	w.createdMs = createdMs
	w.index.addTime(w.maxTime.TimestampMs, w.maxTime.Offset)
	w.index.written.offsets, w.index.written.times = len(w.index.offsets), len(w.index.times)
	w.txns.entries, w.txns.changed = slices.Clone(aborted), false
	w.synced.Store(w.size.Load())
	w.log.swapMu.Lock()
	defer w.log.swapMu.Unlock()
	if w.log.closed.Load() {
		return fmt.Errorf("%s: %w", w.log.partition, ErrClosed)
	}
	if err := w.side(indexSuffix, encodeIndex(w.index.offsets, w.base)); err != nil {
		return err
	}
	if err := w.side(timeIndexSuffix, encodeTimeIndex(w.index.times, w.base)); err != nil {
		return err
	}
	if len(aborted) == 0 && !w.log.transactional.Load() {
		return nil
	}
	return w.side(txnIndexSuffix, encodeTxnIndex(aborted))
}

// side writes a file beside the .log.
func (w *cleanedSegment) side(suffix string, content []byte) error {
	name := w.name(suffix) + cleanedSuffix
	f, err := w.fs.Open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt(content, 0); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := f.Sync(); err != nil { // nothing rests on it: but for a .txnindex, as an index that does not fit its batches is made anew
		return w.log.dir.fail(fmt.Errorf("flush %s: %w", name, err))
	}
	return nil
}

// discard removes the files. What can't be removed goes when the log is opened.
func (w *cleanedSegment) discard() {
	if w.file != nil {
		w.file.Close() // of no use
		w.file = nil
	}
	w.log.swapMu.Lock()
	defer w.log.swapMu.Unlock()
	if w.log.closed.Load() || w.log.dir.Failed() != nil {
		return
	}
	for _, suffix := range segmentSuffixes {
		_ = w.fs.Remove(w.name(suffix) + cleanedSuffix)
	}
}

// segmentSuffixes are those of all files that a segment can have, the .log first.
var segmentSuffixes = []string{logSuffix, indexSuffix, timeIndexSuffix, txnIndexSuffix}
