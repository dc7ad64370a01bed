package commitlog

import (
	"fmt"
	"math"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// A transaction index that lost whole entries looks like any other, and nothing tells of it when a log is opened: who reads all
// batches anyway, as the scrub and compaction do, compares it with their abort markers. Each marker of a transaction that has a batch
// in the log has an entry, be the log compacted or not.

// abortMarkers goes through the batches of a log in their order.
type abortMarkers struct {
	open    map[kafka.ProducerID]bool // with a batch of a transaction that has not ended; nil while there was none
	markers []kafka.Offset            // of aborts in the segment that is read, of transactions with a batch
}

// see takes the next batch, of which the records count only if it is a control batch.
func (a *abortMarkers) see(b record.Batch, maxProducers int) {
	id := b.ProducerID()
	switch {
	case !b.IsTransactional() || id < 0:
	case b.IsControl():
		marker, ok, err := b.Marker()
		if err == nil && ok && !marker.Commit && a.open[id] {
			a.markers = append(a.markers, b.LastOffset())
		}
		delete(a.open, id)
	case len(a.open) <= maxProducers: // of the others nothing is told
		if a.open == nil {
			a.open = make(map[kafka.ProducerID]bool)
		}
		a.open[id] = true
	}
}

// forget is for batches that were passed over.
func (a *abortMarkers) forget() { *a = abortMarkers{} }

// checkAborted compares the markers of the segment that was read with its transaction index, and makes that anew if one is missing.
func (s *Scrub) checkAborted() error {
	markers := s.aborts.markers
	s.aborts.markers = nil
	if len(markers) == 0 {
		return nil
	}
	l, bound := s.log, kafka.Offset(math.MaxInt64)
	if s.segment == l.active() {
		bound = l.HighWatermark() // who appended a marker may not have told of it yet
	}
	var entries []AbortedTxn
	err := l.look(func(segments []*segment, _ kafka.Offset) (err error) {
		i := slices.Index(segments, s.segment)
		if i < 0 {
			bound = 0 // it is gone
			return nil
		}
		entries, err = l.aborted(segments, i)
		return err
	})
	if err != nil {
		return err
	}
	for _, at := range markers {
		if at >= bound || slices.ContainsFunc(entries, func(e AbortedTxn) bool { return e.LastOffset == at }) {
			continue
		}
		made, err := l.renewAborted(s.segment, bound)
		if err == nil && !made {
			l.dir.note("%s has no entry of the transaction that was aborted at offset %d, and making it anew gives none", s.segment.name(txnIndexSuffix), at)
		}
		return err
	}
	return nil
}

// renewAborted makes the transaction index of a segment anew from its records below an offset, as it lacks an entry, and tells whether
// it says something else now, or the segment is gone.
func (l *Log) renewAborted(s *segment, bound kafka.Offset) (made bool, err error) {
	err = l.look(func(segments []*segment, end kafka.Offset) (err error) {
		i := slices.Index(segments, s)
		if i < 0 {
			made = true
			return nil
		}
		bound := min(bound, nextBase(segments, i, end))
		found, err := l.findAborted(segments, i, bound)
		if err != nil {
			return err
		}
		before, err := l.aborted(segments, i)
		if err != nil {
			return err
		}
		made, err = l.takeFoundAborted(s, found, before, bound)
		return err
	})
	return made, err
}

// takeFoundAborted puts what was found below an offset in the place of what a transaction index said before.
func (l *Log) takeFoundAborted(s *segment, found, before []AbortedTxn, bound kafka.Offset) (made bool, err error) {
	s.txns.mu.Lock()
	defer s.txns.mu.Unlock()
	if s.txns.loaded {
		before = s.txns.entries // some may have come
	}
	for _, e := range before {
		if e.LastOffset >= bound {
			found = append(found, e)
		}
	}
	if slices.Equal(found, before) {
		return false, nil
	}
	l.transactional.Store(true)
	l.dir.note("%s lacks transactions that were aborted: it is made anew from the records", s.name(txnIndexSuffix))
	s.txns.loaded, s.txns.entries, s.txns.changed = true, found, true
	if s.txns.pinned || s == l.active() {
		return true, nil // its name is another segment's; or it is written when the segment is finished
	}
	if err := s.replaceAborted(); err != nil && !vfs.IsFull(err) { // with a full disk it stays in memory
		return true, l.writeError(err)
	}
	return true, nil
}

// checkListed compares a control batch of the dirty range with the aborted transactions that the cleaning goes by. One that is in no
// entry would have its records kept as committed, for good: then the index is made anew, and the cleaning begins again.
func (c *Compaction) checkListed(b record.Batch) error {
	marker, ok, err := b.Marker()
	if err != nil || !ok || marker.Commit || !c.txns.committed[b.ProducerID()] {
		return nil //nolint:nilerr // who takes the batch tells
	}
	made, err := c.log.renewAborted(c.reader.segment, c.stats.Range.End)
	switch {
	case err != nil:
		return err
	case made:
		return c.stale()
	}
	return fmt.Errorf("%s has no entry of the transaction that was aborted at offset %d, and making it anew gives none",
		c.reader.segment.name(txnIndexSuffix), b.LastOffset())
}
