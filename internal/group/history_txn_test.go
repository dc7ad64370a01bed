package group

import (
	"github.com/raftsman/raftsman/internal/kafka"
)

// historyProducers have transactions in a history.
const historyProducers kafka.ProducerID = 3

// logged is one entry of the log: a record, of a transaction or not, or a marker.
type logged struct {
	record   Record // nil: a marker
	txn      bool
	producer kafka.ProducerID // of a transaction's record, or a marker
	commit   bool
}

func (l logged) apply(m *Machine) {
	switch {
	case l.record == nil:
		m.EndTransaction(l.producer, l.commit)
	case l.txn:
		m.ApplyOpen(l.producer, l.record)
	default:
		m.Apply(l.record)
	}
}

func (h *history) append(l logged) {
	h.log = append(h.log, l)
	l.apply(h.live)
	l.apply(h.shadow)
}

func (h *history) commitTopics() []CommitTopic {
	var topics []CommitTopic
	for _, topic := range []string{"t1", "t2"} {
		topics = append(topics, CommitTopic{Topic: topic, Partitions: []CommitPartition{
			{Partition: int32(h.rand.IntN(2)), Offset: kafka.Offset(h.tickets), LeaderEpoch: -1},
		}})
	}
	return topics
}

// storedOpen checks that what a producer was told to be stored in its transaction is pending.
func (h *history) storedOpen(group string, c *TxnCommit, r *CommitReply) {
	if r.Code != kafka.None {
		return
	}
	for _, t := range c.Topics {
		for _, p := range t.Partitions {
			if _, pending := h.says(group, kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition}); !pending {
				h.fail("producer %d was told that %s-%d of %s is stored; the log says no", c.ProducerID, t.Topic, p.Partition, group)
			}
		}
	}
}

// decide ends a transaction; the marker is still to come.
func (h *history) decide() {
	producer := kafka.ProducerID(h.rand.IntN(int(historyProducers)))
	if _, over := h.ending[producer]; !over {
		h.ending[producer] = h.rand.IntN(3) > 0
	}
}

// marker writes one that is on its way, or one of an older transaction again; or it arrives, and its writer does not learn of it.
func (h *history) marker() {
	producer := kafka.ProducerID(h.rand.IntN(int(historyProducers)))
	commit, over := h.ending[producer]
	if !over {
		return
	}
	h.end(producer, commit)
	if h.rand.IntN(3) == 0 {
		h.ending[producer] = commit // it comes again
	}
}

func (h *history) end(producer kafka.ProducerID, commit bool) {
	for _, l := range h.log {
		if r, ok := l.record.(*OffsetRecord); ok && l.txn && l.producer == producer {
			delete(h.acked[r.Group], kafka.TopicPartition{Topic: r.Topic, Partition: r.Partition}) // it may be another now
		}
	}
	h.append(logged{producer: producer, commit: commit})
	delete(h.ending, producer)
}

// says reads off the log what a group has committed in a partition, and whether something is pending there. An offset in a transaction
// counts if the marker after it commits; the last record that counts is the offset; and a tombstone is the end of all before it.
func (h *history) says(group string, tp kafka.TopicPartition) (offset kafka.Offset, pending bool) {
	offset = kafka.NoOffset
	for i, l := range h.log {
		r, ok := l.record.(*OffsetRecord)
		if !ok || r.Group != group || r.Topic != tp.Topic || r.Partition != tp.Partition {
			continue
		}
		switch {
		case r.Value == nil:
			offset, pending = kafka.NoOffset, false
		case !l.txn:
			offset = r.Value.Offset
		default:
			switch end := h.fate(i, r); end {
			case open:
				pending = true
			case committed:
				offset = r.Value.Offset
			}
		}
	}
	return offset, pending
}

// fate is what became of a record in a transaction.
type fate uint8

const (
	open fate = iota
	committed
	dropped
)

func (h *history) fate(at int, r *OffsetRecord) fate {
	for _, l := range h.log[at+1:] {
		later, ok := l.record.(*OffsetRecord)
		switch {
		case l.record == nil && l.producer == h.log[at].producer && l.commit:
			return committed
		case l.record == nil && l.producer == h.log[at].producer:
			return dropped
		case ok && later.Value == nil && later.Group == r.Group && later.Topic == r.Topic && later.Partition == r.Partition:
			return dropped
		}
	}
	return open
}

// checkOffsets asks for all offsets of a group, in every way, and compares with what the log says.
func (h *history) checkOffsets(g *group) {
	want := map[kafka.TopicPartition]FetchedPartition{}
	for _, topic := range []string{"t1", "t2"} {
		for p := range int32(2) {
			tp := kafka.TopicPartition{Topic: topic, Partition: p}
			offset, pending := h.says(g.id, tp)
			w := FetchedPartition{Partition: p, Offset: offset, LeaderEpoch: kafka.NoEpoch}
			if got := g.fetched(tp, false); got != w {
				h.fail("%s has %v at %+v, the log says %+v", g.id, tp, got, w)
			}
			if pending {
				w.Offset, w.Code = kafka.NoOffset, kafka.UnstableOffsetCommit
			}
			if got := g.fetched(tp, true); got != w {
				h.fail("%s has %v stable at %+v, the log says %+v", g.id, tp, got, w)
			}
			if offset != kafka.NoOffset {
				want[tp] = w
			}
		}
	}
	for _, t := range h.live.fetchAll(g, true).Topics {
		for _, got := range t.Partitions {
			tp := kafka.TopicPartition{Topic: t.Topic, Partition: got.Partition}
			if got != want[tp] {
				h.fail("%s lists %v at %+v, the log says %+v", g.id, tp, got, want[tp])
			}
			delete(want, tp)
		}
	}
	if len(want) > 0 {
		h.fail("%s does not list %v", g.id, want)
	}
}
