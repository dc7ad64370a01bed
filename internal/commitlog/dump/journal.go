package dump

import (
	"fmt"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

// Journaled is an entry of a journal.
type Journaled struct {
	At         int64        `json:"at"`
	Lap        uint64       `json:"lap"`
	TopicID    string       `json:"topicId"`
	Partition  int32        `json:"partition"`
	Cut        bool         `json:"cut"`           // what entries before say of the partition does not count
	Durable    kafka.Offset `json:"durableBefore"` // up to where the log was durable before
	Batches    int          `json:"batches"`
	BaseOffset kafka.Offset `json:"baseOffset"` // of the first batch, -1 without one
	LastOffset kafka.Offset `json:"lastOffset"` // of the last batch, -1 without one
	Bytes      int          `json:"bytes"`
}

// Text is the entry as a line.
func (e Journaled) Text() string {
	of := fmt.Sprintf("at %d  lap %016x  topic id %s  partition %d", e.At, e.Lap, e.TopicID, e.Partition)
	if e.Cut {
		return of + "  cut: earlier entries do not count"
	}
	return fmt.Sprintf("%s  durable before up to %d  offsets %d to %d  batches %d  bytes %d",
		of, e.Durable, e.BaseOffset, e.LastOffset, e.Batches, e.Bytes)
}

// journal shows the entries of the lap at the front of a journal: what lies behind is of an earlier one, or was never written.
func journal(content []byte) ([]Entry, error) {
	var entries []Entry
	for e := range commitlog.JournalEntries(content) {
		shown := Journaled{
			At: e.At, Lap: e.Lap, TopicID: e.TopicID.String(), Partition: e.Partition, Cut: e.Cut, Durable: e.Durable,
			BaseOffset: kafka.NoOffset, LastOffset: kafka.NoOffset, Bytes: len(e.Batches),
		}
		for left := e.Batches; len(left) > 0; {
			b, rest, err := record.Split(left)
			if err == nil {
				err = b.Check()
			}
			if err != nil {
				return entries, &commitlog.CorruptError{At: e.At, Reason: err.Error()}
			}
			if shown.Batches == 0 {
				shown.BaseOffset = b.BaseOffset()
			}
			shown.Batches++
			shown.LastOffset = b.LastOffset()
			left = rest
		}
		entries = append(entries, shown)
	}
	return entries, nil
}
