package coord

import (
	"errors"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

// format is how records of a kind are written down; value returns false for one that is null.
type format[T any] struct {
	key   func(dst []byte, r T) []byte
	value func(dst []byte, r T) ([]byte, bool)
}

// staging makes batches of what machines want appended.
type staging[T any] struct {
	format  format[T]
	batch   record.Builder
	scratch []byte
	fields  []field // of the records that scratch holds
	bytes   int     // that these take in a batch, at most
}

// field is where in scratch a record's key begins, its value, and where it ends.
type field struct {
	key, value, end int
	gone            bool // the value is null
}

// recordOverhead bounds what a record takes in a batch beside its key and value.
const recordOverhead = 32

// encode writes records down, for add, as long as they fit into a batch of their own of so many bytes, and returns how many do.
func (g *staging[T]) encode(records []T, limit int) (n int) {
	g.scratch, g.fields, g.bytes = g.scratch[:0], g.fields[:0], 0
	for _, r := range records {
		f := field{key: len(g.scratch)}
		key := g.format.key(g.scratch, r)
		f.value = len(key)
		all, ok := g.format.value(key, r)
		f.end, f.gone = len(all), !ok
		if g.bytes+len(all)-f.key+recordOverhead+record.HeaderBytes > limit {
			break
		}
		g.bytes += len(all) - f.key + recordOverhead
		g.scratch, g.fields = all, append(g.fields, f)
	}
	return len(g.fields)
}

// add appends the first n records that were encoded last to the batch.
func (g *staging[T]) add(n int, nowMs int64) {
	for _, f := range g.fields[:n] {
		value := g.scratch[f.value:f.end]
		if f.gone {
			value = nil
		}
		g.batch.Add(g.scratch[f.key:f.value], value, nil, nowMs)
	}
}

// unwritten tells whether an error that Append reported before it returned says that nothing was written. A disk error does
// when the partition is led on: then the disk was full, and the log is as it was.
func (c *Coordinator) unwritten(tp kafka.TopicPartition, epoch kafka.Epoch, err error) bool {
	for _, code := range []kafka.Error{
		kafka.NotEnoughReplicas, kafka.MessageTooLarge, kafka.RecordListTooLarge, kafka.UnknownTopicOrPartition, kafka.PolicyViolation,
		kafka.InvalidProducerEpoch, kafka.TransactionCoordinatorFenced, kafka.InvalidTxnState,
	} {
		if errors.Is(err, code) {
			return true
		}
	}
	now, leads := c.opts.Partitions.Leads(tp)
	return errors.Is(err, kafka.KafkaStorageError) && leads && now == epoch
}
