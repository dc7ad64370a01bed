package producer

import "github.com/raftsman/raftsman/internal/kafka"

// Last is what compaction must leave of a producer that is remembered: the batch that ends with Offset, for its sequence. Without
// one, Offset is kafka.NoOffset, it is the marker of Epoch, which fences older producers.
type Last struct {
	Epoch  kafka.ProducerEpoch
	Offset kafka.Offset
}

// Lasts returns the last batch of every producer.
func (s *State) Lasts() map[kafka.ProducerID]Last {
	lasts := make(map[kafka.ProducerID]Last, s.count)
	for _, e := range s.byID() {
		last := Last{Epoch: e.epoch, Offset: kafka.NoOffset}
		if newest, ok := e.last(); ok {
			last.Offset = newest.lastOffset
		}
		lasts[e.id] = last
	}
	return lasts
}
