package commitlog

import (
	"encoding/binary"
	"fmt"
	"sync"

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

// txnIndex is a segment's index of aborted transactions, in memory. The file, which exists only if there are any, is written
// when the segment is rolled or closed.
type txnIndex struct {
	mu      sync.Mutex // guards all below; held for memory only, but for load
	loaded  bool
	pinned  bool // as in index
	entries []AbortedTxn
	changed bool // the file says something else
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

// keep forgets transactions whose marker lies at or behind an end.
func (x *txnIndex) keep(end kafka.Offset) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for n := len(x.entries); n > 0 && x.entries[n-1].LastOffset >= end; n-- {
		x.entries, x.changed = x.entries[:n-1:n-1], true
	}
}

// aborted returns the segment's aborted transactions.
func (s *segment) aborted() ([]AbortedTxn, error) {
	s.txns.mu.Lock()
	defer s.txns.mu.Unlock()
	if s.txns.loaded {
		return s.txns.entries, nil
	}
	content, err := s.readSide(txnIndexSuffix)
	if err != nil && !vfs.IsNotExist(err) {
		return nil, fmt.Errorf("read transaction index: %w", err)
	}
	entries, err := ParseTxnIndex(content)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.name(txnIndexSuffix), err)
	}
	s.txns.loaded, s.txns.entries = true, entries
	return entries, nil
}

// saveAborted brings the file up to date.
func (s *segment) saveAborted() error {
	s.txns.mu.Lock()
	defer s.txns.mu.Unlock()
	if !s.txns.changed {
		return nil
	}
	name := s.name(txnIndexSuffix)
	if len(s.txns.entries) == 0 {
		if err := s.fs.Remove(name); err != nil && !vfs.IsNotExist(err) {
			return fmt.Errorf("remove transaction index: %w", err)
		}
	} else if err := vfs.WriteFile(s.fs, name, encodeTxnIndex(s.txns.entries)); err != nil {
		return err
	}
	s.txns.changed = false
	return nil
}

// NoteCompleted keeps a transaction that Producers().Apply said is complete, for AbortedTxns, if it was aborted. It belongs to
// the caller's lock, as Apply does, and comes before the next append.
func (l *Log) NoteCompleted(c producer.Completed) {
	if c.Aborted {
		l.active().txns.add(c)
		l.anyAborted.Store(true)
	}
}

// AbortedTxns returns the aborted transactions that have a record in [from, to), as a reader of committed records needs them.
func (l *Log) AbortedTxns(from, to kafka.Offset) ([]AbortedTxn, error) {
	if !l.anyAborted.Load() {
		return nil, nil
	}
	var found []AbortedTxn
	segments := *l.segments.Load()
	for i := find(segments, from); i < len(segments); i++ {
		entries, err := segments[i].aborted()
		if err != nil {
			return nil, l.readError(err)
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
