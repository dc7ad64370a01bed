package commitlog

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// After a power cut the journal has what the segments lack. It is read when the directory is opened, each log takes its part when that
// is opened, and what belongs to logs that did not open is kept for the next start.

// journalEntry holds batches that continue a log which ended at From, or in between.
type journalEntry struct {
	from    kafka.Offset
	batches []byte
}

// recovering tells whether logs may still need what was found in the journal: until SyncRecovered.
func (d *Dir) recovering() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.journal.found != nil
}

// readJournal reads what a power cut may have left of the journal alone, and what an earlier start could not give to its logs.
func (d *Dir) readJournal() error {
	found := make(map[journaled][]journalEntry)
	for _, name := range []string{d.keptName(), d.journalName()} {
		content, err := vfs.ReadStart(d.fs, name, journalReadBytes)
		if vfs.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		parseJournal(content, found)
	}
	d.journal.found, d.journal.owed = found, make(map[journaled]bool)
	return nil
}

// parseJournal adds the entries of the lap that begins at the front to those that were found.
func parseJournal(b []byte, found map[journaled][]journalEntry) {
	for e := range JournalEntries(b) {
		of := journaled{e.TopicID, e.Partition}
		switch {
		case e.Cut:
			delete(found, of)
		case e.Batches != nil:
			found[of] = append(found[of], journalEntry{e.Durable, e.Batches})
		}
	}
}

// keepJournal writes what belongs to logs that did not open, as it is nowhere else, into a file that the next start reads as well.
func (d *Dir) keepJournal() error {
	d.mu.Lock()
	var kept []byte
	chain := uint32(0)
	for _, of := range slices.SortedFunc(maps.Keys(d.journal.owed), compareJournaled) {
		for _, e := range d.journal.found[of] {
			at := len(kept)
			kept = appendJournalHeader(kept, 0, of, journalBatches, e.from)
			kept = append(kept, e.batches...)
			chain = sealJournalEntry(kept[at:], chain)
		}
	}
	d.mu.Unlock()
	if err := d.replaceKept(kept); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.journal.found, d.journal.owed = nil, nil
	return nil
}

func (d *Dir) replaceKept(content []byte) error {
	if len(content) > 0 {
		d.note("a partition could not be opened: the next start will look in %s for records of it", d.keptName())
		return vfs.Replace(d.fs, d.keptName(), content)
	}
	if _, err := d.fs.Stat(d.keptName()); vfs.IsNotExist(err) {
		return nil
	}
	return d.removeDurably(d.keptName())
}

func compareJournaled(a, b journaled) int {
	return cmp.Or(bytes.Compare(a.topic[:], b.topic[:]), cmp.Compare(a.partition, b.partition))
}

// split yields the batches of an entry. An error ends it.
func (e journalEntry) split() iter.Seq2[record.Batch, error] {
	return func(yield func(record.Batch, error) bool) {
		for left := e.batches; len(left) > 0; {
			b, rest, err := record.Split(left)
			if !yield(b, err) || err != nil {
				return
			}
			left = rest
		}
	}
}

// replay writes into the last segment what the journal holds behind the end of what recovery found in the segments. Only what
// continues the log is taken, and nothing of an older epoch than the last one there: another broker may have written since.
func (o *opening) replay() error {
	before := o.end
	for _, e := range o.journal {
		from := e.from
		for b, err := range e.split() {
			if err != nil || b.Check() != nil {
				return &CorruptError{File: o.dir.journalName(), Reason: fmt.Sprintf("an entry of %s is not made of batches", o.partition)}
			}
			if b.NextOffset() > o.end {
				if from > o.end || b.BaseOffset() < o.end || b.LeaderEpoch() < o.epochs.latest() {
					return nil
				}
				if err := o.replayBatch(b); err != nil {
					return err
				}
			}
			from = b.NextOffset()
		}
	}
	if o.end > before {
		o.dir.note("%s: offsets %d to %d were taken from the journal", o.partition, before, o.end-1)
	}
	return nil
}

// inFoundJournal tells whether the journal has some of what lies between. Then it is missing from the segments, and was not taken
// away by compaction.
func (o *opening) inFoundJournal(from, to kafka.Offset) bool {
	for _, e := range o.journal {
		for b, err := range e.split() {
			if err != nil {
				return false // replay tells
			}
			if b.NextOffset() > from && b.BaseOffset() < to {
				return true
			}
		}
	}
	return false
}

// takeFound takes what the journal has of the log, unless that is of before somebody else led it: leader-epoch-checkpoint then has an
// epoch that no entry knows, as Kafka writes it when it begins to lead. An epoch of this broker's own is in that file only when all
// before it is durable in the segments. The epochs must be as the file has them.
func (o *opening) takeFound() {
	d := o.dir
	d.mu.Lock()
	defer d.mu.Unlock()
	newest := kafka.NoEpoch
	for _, e := range d.journal.found[o.journaled()] {
		for b, err := range e.split() {
			if err != nil {
				break // replay tells
			}
			newest = max(newest, b.LeaderEpoch())
		}
	}
	if o.epochs.latest() > newest {
		delete(d.journal.found, o.journaled())
		delete(d.journal.owed, o.journaled())
	}
	o.journal = d.journal.found[o.journaled()]
}

func (o *opening) replayBatch(b record.Batch) error {
	s := o.list[len(o.list)-1]
	file, err := s.acquire()
	if err != nil {
		return o.dir.failUnlessFull(err)
	}
	defer file.release()
	position := s.size.Load()
	if err := file.write(b, position); err != nil {
		return o.dir.failUnlessFull(err)
	}
	o.noteBatch(s, b, position)
	s.size.Store(position + int64(len(b)))
	return nil
}
