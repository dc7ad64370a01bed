package commitlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/vfs"
)

// AbortedTxn is an entry of a .txnindex file: a transaction whose abort marker is in the segment.
type AbortedTxn struct {
	ProducerID  kafka.ProducerID
	FirstOffset kafka.Offset // of the transaction
	LastOffset  kafka.Offset // the marker's
	LastStable  kafka.Offset // the last stable offset that the marker left
}

const txnEntryBytes = 34 // int16 version 0, int64 producer id, first offset, last offset, last stable offset

// ParseTxnIndex reads a .txnindex file.
func ParseTxnIndex(content []byte) ([]AbortedTxn, error) {
	entries := make([]AbortedTxn, 0, len(content)/txnEntryBytes)
	for at := 0; at < len(content); at += txnEntryBytes {
		if len(content)-at < txnEntryBytes {
			return entries, &CorruptError{At: int64(at), Reason: "part of an entry"}
		}
		b := content[at:]
		if version := binary.BigEndian.Uint16(b); version != 0 {
			return entries, &CorruptError{At: int64(at), Reason: fmt.Sprintf("entry of version %d", version)}
		}
		e := AbortedTxn{
			ProducerID: kafka.ProducerID(binary.BigEndian.Uint64(b[2:])), FirstOffset: kafka.Offset(binary.BigEndian.Uint64(b[10:])),
			LastOffset: kafka.Offset(binary.BigEndian.Uint64(b[18:])), LastStable: kafka.Offset(binary.BigEndian.Uint64(b[26:])),
		}
		n := len(entries)
		if e.FirstOffset > e.LastOffset || e.FirstOffset < 0 || n > 0 && e.LastOffset <= entries[n-1].LastOffset {
			return entries, &CorruptError{At: int64(at), Reason: fmt.Sprintf("impossible entry %+v", e)}
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func encodeTxnIndex(entries []AbortedTxn) []byte {
	b := make([]byte, 0, len(entries)*txnEntryBytes)
	for _, e := range entries {
		b = binary.BigEndian.AppendUint16(b, 0)
		b = binary.BigEndian.AppendUint64(b, uint64(e.ProducerID))
		b = binary.BigEndian.AppendUint64(b, uint64(e.FirstOffset))
		b = binary.BigEndian.AppendUint64(b, uint64(e.LastOffset))
		b = binary.BigEndian.AppendUint64(b, uint64(e.LastStable))
	}
	return b
}

// checkAborted tells whether entries can be those of a segment, which ends before next.
func checkAborted(entries []AbortedTxn, base, next kafka.Offset) error {
	for _, e := range entries {
		if e.LastOffset < base || e.LastOffset >= next || e.ProducerID < 0 || e.LastStable < 0 || e.LastStable > e.LastOffset+1 {
			return &CorruptError{Reason: fmt.Sprintf("impossible entry %+v of the segment from %d to %d", e, base, next)}
		}
	}
	return nil
}

// txnIndex is what is known of the transactions of a segment, in memory. The file of those that were aborted is written when
// the segment is rolled or closed.
//
// A log in which there was a transaction has such a file for each of its segments, an empty one where nothing was aborted: where
// Kafka left none, or it was lost, the segment is read once for its markers. In all other logs none is looked for.
type txnIndex struct {
	mu        sync.Mutex // guards all below; held for memory, and while the file is read or made
	entries   []AbortedTxn
	loaded    bool
	pinned    bool // as in index
	changed   bool // the file says something else
	openKnown bool
	open      kafka.Offset // where the oldest transaction begins that is open at the segment's base; NoOffset: none is
}

func (x *txnIndex) add(c producer.Completed) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.entries = append(x.entries, AbortedTxn{c.ProducerID, c.FirstOffset, c.Marker, c.LastStable})
	x.changed = true
}

func (x *txnIndex) reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.loaded, x.entries, x.changed = true, nil, true
}

func (x *txnIndex) unload() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.changed && !x.pinned && len(x.entries) > 0 {
		x.loaded, x.entries = false, nil
	}
}

// noteOpen tells which transactions are open at the segment's base.
func (x *txnIndex) noteOpen(producers *producer.State) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.open, _ = producers.FirstUnstable()
	x.openKnown = true
}

// aborted returns the transactions whose abort markers are in the i-th segment.
func (l *Log) aborted(segments []*segment, i int) ([]AbortedTxn, error) {
	s, next := segments[i], nextBase(segments, i, l.EndOffset())
	s.txns.mu.Lock()
	defer s.txns.mu.Unlock()
	if s.txns.loaded {
		return s.txns.entries, nil
	}
	entries, err := s.readAborted(next)
	if err == nil {
		err = s.checkMarkers(entries, next)
	}
	var corrupt *CorruptError
	switch {
	case errors.As(err, &corrupt):
		l.dir.note("%s: %v; it is made anew", s.name(txnIndexSuffix), err)
	case vfs.IsNotExist(err) && !l.transactional.Load():
		s.txns.loaded = true
		return nil, nil
	case err == nil:
		s.txns.loaded, s.txns.entries = true, entries
		return entries, nil
	case !vfs.IsNotExist(err):
		return nil, fmt.Errorf("read transaction index: %w", err)
	}
	if entries, err = l.findAborted(segments, i, next); err != nil {
		return nil, err
	}
	s.txns.loaded, s.txns.entries, s.txns.changed = true, entries, true
	if i+1 == len(segments) {
		return entries, nil // it is written when the segment is finished
	}
	if err := s.replaceAborted(); err != nil && !vfs.IsFull(err) { // with a full disk it stays in memory
		return nil, err
	}
	return entries, nil
}

// readAborted reads the file, again if retention has renamed it meanwhile.
func (s *segment) readAborted(next kafka.Offset) ([]AbortedTxn, error) {
	content, err := s.readSide(txnIndexSuffix)
	if vfs.IsNotExist(err) {
		content, err = s.readSide(txnIndexSuffix)
	}
	if err != nil {
		return nil, err
	}
	entries, err := ParseTxnIndex(content)
	if err != nil {
		return nil, err
	}
	return entries, checkAborted(entries, s.base, next)
}

// findAborted reads the i-th segment for the transactions that were aborted in it.
func (l *Log) findAborted(segments []*segment, i int, next kafka.Offset) ([]AbortedTxn, error) {
	state, err := l.producersAt(segments, i)
	if err != nil {
		return nil, err
	}
	var found []AbortedTxn
	err = segments[i].tellProducers(state, segments[i].base, next, time.Time{}, func(c producer.Completed) {
		if c.Aborted {
			found = append(found, AbortedTxn{c.ProducerID, c.FirstOffset, c.Marker, c.LastStable})
		}
	})
	return found, err
}

// openAt returns where the oldest transaction begins that is open at the base of the i-th segment, or NoOffset.
func (l *Log) openAt(segments []*segment, i int) (kafka.Offset, error) {
	s := segments[i]
	s.txns.mu.Lock()
	defer s.txns.mu.Unlock()
	if s.txns.openKnown {
		return s.txns.open, nil
	}
	state, err := l.producersAt(segments, i)
	if err != nil {
		return 0, err
	}
	s.txns.open, _ = state.FirstUnstable()
	s.txns.openKnown = true
	return s.txns.open, nil
}

// replaceAborted writes the file such that a power cut leaves it whole or not at all. It needs txns.mu.
func (s *segment) replaceAborted() error {
	s.mu.Lock()
	deleted := s.deleted
	s.mu.Unlock()
	if !deleted {
		if err := vfs.Replace(s.fs, s.name(txnIndexSuffix), encodeTxnIndex(s.txns.entries)); err != nil {
			return fmt.Errorf("write transaction index: %w", err)
		}
	}
	s.txns.changed = false
	return nil
}

// saveAborted brings the file up to date. Without an aborted transaction it is empty, or there is none if none is wanted.
func (s *segment) saveAborted(wanted bool) error {
	s.txns.mu.Lock()
	defer s.txns.mu.Unlock()
	if !s.txns.changed {
		return nil
	}
	if len(s.txns.entries) > 0 || wanted { // otherwise there is no file: it would have told when the log was opened
		if err := vfs.WriteFile(s.fs, s.name(txnIndexSuffix), encodeTxnIndex(s.txns.entries)); err != nil {
			return err
		}
	}
	s.txns.changed = false
	return nil
}

// NoteCompleted keeps a transaction that Producers().Apply said is complete, for AbortedTxns. It belongs to the caller's lock,
// as Apply does, and comes before the next append, and before anyone reads beyond the transaction's begin.
func (l *Log) NoteCompleted(c producer.Completed) {
	if c.Aborted {
		l.active().txns.add(c)
	}
	l.transactional.Store(true)
}

// AbortedTxns returns the aborted transactions that have a record in [from, to), in the order of their markers. With records
// that are read, ReadCommitted returns them.
func (l *Log) AbortedTxns(from, to kafka.Offset) (found []AbortedTxn, err error) {
	err = l.look(func(segments []*segment, _ kafka.Offset) (err error) {
		found, err = l.abortedTxns(segments, from, to)
		return err
	})
	return found, err
}

func (l *Log) abortedTxns(segments []*segment, from, to kafka.Offset) ([]AbortedTxn, error) {
	if !l.transactional.Load() {
		return nil, nil
	}
	var found []AbortedTxn
	for i := find(segments, from); i < len(segments); i++ {
		if over, err := l.decidedBefore(segments, i, to); err != nil || over {
			return found, err
		}
		entries, err := l.aborted(segments, i)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.LastOffset >= from && e.FirstOffset < to {
				found = append(found, e)
			}
			if e.LastStable >= to {
				return found, nil
			}
		}
	}
	return found, nil
}

// decidedBefore tells whether no transaction that begins before an offset can end in the i-th segment or behind it.
func (l *Log) decidedBefore(segments []*segment, i int, to kafka.Offset) (bool, error) {
	if segments[i].base < to {
		return false, nil
	}
	open, err := l.openAt(segments, i)
	return open == kafka.NoOffset || open >= to, err
}
