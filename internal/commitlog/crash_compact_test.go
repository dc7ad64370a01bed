package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

// Some programs of the crash test compact their log. What comes back is then not what was written, but what compaction may have
// left of it: no key has lost its newest record, unless that was a tombstone, and then nothing older is there.

// compact cleans the log, with other things going on between its steps.
func (c *crasher) compact() error {
	if !c.config.Compact {
		return nil
	}
	found, err := c.log.Cleanable(c.now, c.log.FlushedOffset())
	if err != nil || found.DirtyBytes == 0 {
		return err
	}
	c.promise.cleaned = max(c.promise.cleaned, found.End)
	c.promise.acked = max(c.promise.acked, found.End) // flushed, if by an operation that told nobody: what is missing there is not torn
	o := CompactOptions{MapBytes: 1 << 16, MapLoadFactor: 0.9, BufferBytes: 500, Producers: c.log.Producers().Lasts()}
	if c.rand.IntN(3) == 0 {
		o.MapBytes = int64(slotBytes * (2 + c.rand.IntN(8)))
	}
	cleaning, err := c.log.Compact(found, o, c.now)
	if err != nil {
		return err
	}
	defer cleaning.Close()
	for done := false; !done; {
		_, done, err = cleaning.Step(int64(1 + c.rand.IntN(4000)))
		if errors.Is(err, ErrCompactionStale) {
			return nil
		}
		if err != nil {
			return err
		}
		if c.rand.IntN(60) == 0 {
			return nil // the broker stops
		}
		if err := c.meanwhile(); err != nil {
			return err
		}
	}
	return c.check()
}

// meanwhile does something beside a compaction.
func (c *crasher) meanwhile() error {
	others := []func() error{c.append, c.flush, c.checkpoint, c.sweep, c.retain, c.truncate}
	if n := c.rand.IntN(40); n < len(others) {
		return others[n]()
	}
	return nil
}

// key is of few, so that most records are superseded.
func (c *crasher) key() []byte {
	if !c.config.Compact {
		return nil
	}
	return fmt.Appendf(nil, "key %d", c.rand.IntN(6))
}

// checkCompacted compares the log with all that was written, and keeps what is there.
func (c *crasher) checkCompacted(start, end kafka.Offset) error {
	c.found = nil
	there := map[kafka.Offset]bool{}
	for b, err := range c.log.Batches(start) {
		if err != nil {
			return fmt.Errorf("read all from %d: %w", start, err)
		}
		i := slices.IndexFunc(c.promise.history, func(s stored) bool { return s.base == b.BaseOffset() })
		if i < 0 {
			return fmt.Errorf("the batch at offset %d was never written", b.BaseOffset())
		}
		was := c.promise.history[i]
		if was.next != b.NextOffset() || was.epoch != b.LeaderEpoch() || record.Batch(was.bytes).LastSequence() != b.LastSequence() {
			return fmt.Errorf("the batch at offset %d is not the one that was written", was.base)
		}
		if was.base >= c.promise.cleaned && !bytes.Equal(b, was.bytes) {
			return fmt.Errorf("the batch at offset %d is different, the log was cleaned up to %d", was.base, c.promise.cleaned)
		}
		if err := sameRecords(b, was.bytes, there); err != nil {
			return err
		}
		c.found = append(c.found, stored{base: was.base, next: was.next, epoch: was.epoch, bytes: bytes.Clone(b)})
	}
	if c.promise.resetting >= 0 {
		return nil // part of a log that was given up
	}
	return c.checkKeys(start, end, there)
}

// sameRecords finds each record of a batch in the one that was written.
func sameRecords(b, was record.Batch, there map[kafka.Offset]bool) error {
	written := map[kafka.Offset]string{}
	for r := range was.Records(1 << 20) {
		written[r.Offset] = fmt.Sprintf("%q %q %d", r.Key, r.Value, r.TimestampMs)
	}
	for r, err := range b.Records(1 << 20) {
		if err != nil {
			return fmt.Errorf("records at %d: %w", b.BaseOffset(), err)
		}
		if got := fmt.Sprintf("%q %q %d", r.Key, r.Value, r.TimestampMs); got != written[r.Offset] {
			return fmt.Errorf("offset %d holds %s, written was %s", r.Offset, got, written[r.Offset])
		}
		there[r.Offset] = true
	}
	return nil
}

func (c *crasher) checkKeys(start, end kafka.Offset, there map[kafka.Offset]bool) error {
	newest, oldest := map[string]record.Record{}, map[string]kafka.Offset{}
	for _, s := range c.promise.history {
		for r := range record.Batch(s.bytes).Records(1 << 20) {
			if r.Offset < start || r.Offset >= end {
				continue
			}
			if c.isTorn(s) {
				continue
			}
			if s.base >= c.promise.cleaned && !there[r.Offset] {
				return fmt.Errorf("offset %d is gone, the log was cleaned up to %d", r.Offset, c.promise.cleaned)
			}
			key := string(r.Key)
			newest[key] = r
			if _, ok := oldest[key]; there[r.Offset] && !ok {
				oldest[key] = r.Offset
			}
		}
	}
	for key, r := range newest {
		older, any := oldest[key]
		switch {
		case there[r.Offset]:
		case r.Value != nil:
			return fmt.Errorf("%s has lost its newest record, offset %d", key, r.Offset)
		case any:
			return fmt.Errorf("%s was deleted at offset %d, and offset %d is back", key, r.Offset, older)
		}
	}
	cut := func(s stored) bool { return s.base < end && s.next > end }
	if slices.ContainsFunc(c.promise.history, cut) {
		return fmt.Errorf("the log ends at %d, inside a batch", end)
	}
	return nil
}

// isTorn tells whether a batch that nobody was promised is gone, although later ones may be there: see mayHaveGap.
func (c *crasher) isTorn(s stored) bool {
	return c.config.Compact && s.base >= c.promise.acked && !slices.ContainsFunc(c.found, func(f stored) bool { return f.base == s.base })
}

// lastEnd is where the last batch ends up to an offset. Nothing may be there between them: see mayHaveGap.
func (c *crasher) lastEnd(offset kafka.Offset) kafka.Offset {
	last := c.log.Segments()[0].Base
	for _, s := range c.promise.history {
		if s.next <= offset {
			last = max(last, s.next)
		}
	}
	return last
}
