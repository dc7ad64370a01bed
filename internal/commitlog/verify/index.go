package verify

import (
	"slices"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
)

// checkIndex compares an offset index with the batches. Each entry names the begin of a batch and its last
// offset. One of a later batch is let pass: Kafka may have written several batches at once, and a search only begins earlier.
func (p *partition) checkIndex(name string, s *segment, content []byte) {
	const entryBytes = 8
	entries, _ := commitlog.ParseIndex(content, s.base) // what cannot be read was told
	for i, e := range entries {
		n, ok := slices.BinarySearchFunc(s.batches, e.Position, func(b batch, at int64) int { return int(min(max(b.at-at, -1), 1)) })
		if !ok || !slices.ContainsFunc(s.batches[n:], func(b batch) bool { return b.last == e.Offset }) {
			p.found(name, int64(i)*entryBytes, remedyIndex, "offset %d at byte %d: there is no such batch", e.Offset, e.Position)
		}
	}
}

// checkTimes compares a time index with the batches. One that may end early need not have the segment's last timestamp.
func (p *partition) checkTimes(name string, s *segment, content []byte, early bool) {
	const entryBytes = 12
	entries, err := commitlog.ParseTimeIndex(content, s.base)
	for i, e := range entries {
		n, _ := slices.BinarySearchFunc(s.batches, e.Offset, func(b batch, offset kafka.Offset) int { return int(min(max(b.last-offset, -1), 1)) })
		if n == len(s.batches) || s.batches[n].base > e.Offset || s.batches[n].maxMs != e.TimestampMs {
			p.found(name, int64(i)*entryBytes, remedyIndex, "timestamp %d at offset %d: that is not the largest one up to there", e.TimestampMs, e.Offset)
		}
	}
	if n := len(entries); err == nil && !early && n > 0 && len(s.batches) > 0 && entries[n-1].TimestampMs < s.batches[len(s.batches)-1].maxMs {
		p.found(name, int64(n)*entryBytes, remedyIndex, "the last timestamp is %d, the segment has %d", entries[n-1].TimestampMs, s.batches[len(s.batches)-1].maxMs)
	}
}

// checkAborted compares a transaction index with the aborted transactions whose markers are in the segment. In a compacted log
// the records that began them may be gone, and so may they where the snapshot of the log's begin is: there it may say more than they do.
func (p *partition) checkAborted(name string, s *segment, content []byte) {
	const entryBytes = 34
	entries, err := commitlog.ParseTxnIndex(content)
	if p.gaps || !p.known {
		p.checkListed(name, s, entries)
		return
	}
	for i, e := range entries {
		if i >= len(s.aborted) || e != s.aborted[i] {
			p.found(name, int64(i)*entryBytes, remedyDerived, "aborted transaction %+v: the records say otherwise", e)
			return
		}
	}
	if err == nil && len(entries) < len(s.aborted) {
		p.found(name, int64(len(content)), remedyDerived, "%d aborted transactions, the segment has %d", len(entries), len(s.aborted))
	}
}

// checkListed looks for the entries of aborted transactions that have a batch in the log.
func (p *partition) checkListed(name string, s *segment, entries []commitlog.AbortedTxn) {
	for _, a := range s.aborted {
		listed := slices.ContainsFunc(entries, func(e commitlog.AbortedTxn) bool { return e.LastOffset == a.LastOffset && e.ProducerID == a.ProducerID })
		if a.FirstOffset >= p.segments[0].base && !listed {
			p.found(name, 0, remedyDerived, "it lacks the aborted transaction %+v", a)
			return
		}
	}
}
