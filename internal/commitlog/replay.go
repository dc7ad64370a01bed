package commitlog

import (
	"fmt"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

// replay writes into the last segment what the journal holds behind the end of what recovery found in the segments. Only what
// continues the log is taken, and nothing of an older epoch than the last one there: another broker may have written since.
func (o *opening) replay() error {
	before := o.end
	for _, e := range o.journal {
		from, left := e.from, e.batches
		for len(left) > 0 {
			b, rest, err := record.Split(left)
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
			from, left = b.NextOffset(), rest
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
		for left := e.batches; len(left) > 0; {
			b, rest, err := record.Split(left)
			if err != nil {
				return false // replay tells
			}
			if b.NextOffset() > from && b.BaseOffset() < to {
				return true
			}
			left = rest
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
		for left := e.batches; len(left) > 0; {
			b, rest, err := record.Split(left)
			if err != nil {
				break // replay tells
			}
			newest, left = max(newest, b.LeaderEpoch()), rest
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
