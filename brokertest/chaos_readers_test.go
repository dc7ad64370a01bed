package brokertest_test

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/record"
)

// eye is a reader with a position in each partition, and sometimes a fetch session.
type eye struct {
	*worker
	topics    []*topic
	positions map[place]int64

	session, epoch int32
	told           map[place]int64 // what the session knows
}

// read reads topics over and over, from wherever, until the workload is over.
func (k *worker) read(topics []*topic) {
	e := &eye{worker: k, topics: topics, positions: map[place]int64{}}
	for e.running() {
		switch e.r.IntN(40) {
		case 0:
			clear(e.positions) // from the start again
		case 1:
			e.hangUp() // and leaves its session behind
			e.session = 0
		case 2, 3:
			e.lookUp()
		case 4:
			e.session, e.epoch = 0, -1
			if e.r.IntN(2) == 0 {
				e.epoch = 0 // a new session
			}
		}
		e.fetch()
		e.pause(4 * time.Millisecond)
	}
}

// fetch sends one request for all partitions and gives what comes to the ledger.
func (e *eye) fetch() {
	req := kmsg.NewPtrFetchRequest()
	req.Version = 7 + int16(e.r.IntN(12))
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = e.r.Int32N(200), e.r.Int32N(500), 1+e.r.Int32N(200_000)
	req.SessionID, req.SessionEpoch = e.session, e.epoch
	if e.session != 0 {
		req.Version = 13 // a session names topics by id or by name, for ever
	}
	before := map[place]marks{}
	if e.epoch <= 0 {
		e.told = map[place]int64{}
	}
	for _, t := range e.topics {
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic, rt.TopicID = t.name, t.id
		for index := range t.partitions.Load() {
			at := t.place(index)
			before[at] = e.ledger.marks(at)
			if known, ok := e.told[at]; ok && known == e.positions[at] {
				continue
			}
			rp := kmsg.NewFetchRequestTopicPartition()
			rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes, rp.CurrentLeaderEpoch = index, e.positions[at], 1+e.r.Int32N(50_000), -1
			rt.Partitions = append(rt.Partitions, rp)
			e.told[at] = e.positions[at]
		}
		if len(rt.Partitions) > 0 {
			req.Topics = append(req.Topics, rt)
		}
	}
	if req.SessionEpoch == 0 {
		req.Version = 13
	}
	resp, ok := e.ask(req)
	if !ok {
		e.session, e.epoch = 0, -1
		return
	}
	r, life := resp.(*kmsg.FetchResponse), e.life
	switch code := r.ErrorCode; {
	case code == kerr.FetchSessionIDNotFound.Code: // it was evicted, or the broker is another
		e.session, e.epoch = 0, -1
		return
	case code != 0:
		e.unexpected("Fetch", code)
		e.session, e.epoch = 0, -1
		return
	}
	if e.epoch >= 0 && r.SessionID != 0 {
		e.session = r.SessionID
		e.epoch++
	}
	for i := range r.Topics {
		t := e.topicOf(&r.Topics[i])
		if t == nil {
			e.fault("%s: Fetch answered about topic %q %x", e.name, r.Topics[i].Topic, r.Topics[i].TopicID)
			continue
		}
		for j := range r.Topics[i].Partitions {
			p := &r.Topics[i].Partitions[j]
			e.take(t.place(p.Partition), t, before[t.place(p.Partition)], life, p)
		}
	}
}

func (e *eye) topicOf(r *kmsg.FetchResponseTopic) *topic {
	for _, t := range e.topics {
		if r.Topic == t.name || r.TopicID == t.id {
			return t
		}
	}
	return nil
}

// take gives one partition's records to the ledger and moves the position.
func (e *eye) take(at place, t *topic, before marks, life *life, p *kmsg.FetchResponseTopicPartition) {
	switch {
	case p.ErrorCode == 0:
	case p.ErrorCode == kerr.OffsetOutOfRange.Code && e.ledger.mayLackStart(at):
		e.positions[at] = max(e.positions[at], e.startOf(t, at))
		return
	default:
		e.unexpectedOf(life, fmt.Sprintf("Fetch of partition %d of %s at %d", at.index, t.name, e.positions[at]), p.ErrorCode)
		return
	}
	e.ledger.told(e.name, at, before, marks{high: p.HighWatermark, start: p.LogStartOffset, epoch: -1})
	e.positions[at] = e.records(e.name, at, e.positions[at], p.HighWatermark, p.RecordBatches)
}

// records gives records to the ledger and returns what comes after them. There is no offset without its record.
func (k *worker) records(who string, at place, position, high int64, bytes []byte) int64 {
	for len(bytes) > 0 {
		b, rest, err := record.Split(bytes)
		if err != nil {
			break // the last one may be cut off
		}
		bytes = rest
		if err := b.Check(); err != nil {
			k.fault("%s: %s at %d: %v", who, at, position, err)
			return position
		}
		for r, err := range b.Records(1 << 30) {
			if err != nil {
				k.fault("%s: %s at %d: %v", who, at, position, err)
				return position
			}
			offset := int64(r.Offset)
			if offset < position {
				continue
			}
			if offset > position {
				k.fault("%s: %s: offset %d after %d", who, at, offset, position-1)
			}
			if offset >= high {
				k.fault("%s: %s: offset %d, high watermark %d", who, at, offset, high)
			}
			k.ledger.read(who, at, offset, fact{nameOf(r.Value), recordHash(r.Key, r.Value, r.Headers), int32(b.LeaderEpoch()), r.TimestampMs})
			position = offset + 1
		}
	}
	return position
}

// listOffset asks for one offset. It returns -1 if there was no answer.
func (k *worker) listOffset(t *topic, at place, ms int64) (offset, foundMs int64, epoch int32) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version = 4 + int16(k.r.IntN(8))
	if ms == -3 {
		req.Version = max(req.Version, 7)
	}
	req.ReplicaID = -1
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = t.name
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = at.index, ms, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, ok := k.ask(req)
	if !ok {
		return -1, -1, -1
	}
	p := resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		k.unexpected("ListOffsets", p.ErrorCode)
		return -1, -1, -1
	}
	return p.Offset, p.Timestamp, p.LeaderEpoch
}

func (k *worker) startOf(t *topic, at place) int64 {
	before := k.ledger.marks(at)
	start, _, _ := k.listOffset(t, at, -2)
	if start >= 0 {
		k.ledger.told(k.name+" (ListOffsets)", at, before, marks{high: -1, start: start, epoch: -1})
	}
	return max(start, 0)
}

// lookUp asks for offsets and epochs of a random partition.
func (e *eye) lookUp() {
	t := e.topics[e.r.IntN(len(e.topics))]
	at := t.place(e.r.Int32N(t.partitions.Load()))
	who := e.name + " (ListOffsets)"
	before := e.ledger.marks(at)
	switch e.r.IntN(4) {
	case 0:
		if end, _, epoch := e.listOffset(t, at, -1); end >= 0 {
			e.ledger.told(who, at, before, marks{high: end, start: -1, epoch: epoch})
			if e.r.IntN(3) == 0 {
				e.positions[at] = e.r.Int64N(end + 1) // read on from anywhere
			}
		}
	case 1:
		e.startOf(t, at)
	case 2:
		ms := time.Now().UnixMilli() - e.r.Int64N(3000)
		if offset, found, _ := e.listOffset(t, at, ms); offset >= 0 && found < ms {
			e.fault("%s: offset %d of %s has time %d, asked for the first not before %d", who, offset, at, found, ms)
		}
	case 3:
		req := kmsg.NewPtrMetadataRequest()
		req.Version = 7 + int16(e.r.IntN(7))
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(t.name)
		req.Topics = append(req.Topics, rt)
		resp, ok := e.ask(req)
		if !ok {
			return
		}
		got := resp.(*kmsg.MetadataResponse).Topics[0]
		if got.ErrorCode != 0 || req.Version >= 10 && got.TopicID != t.id {
			e.unexpected(fmt.Sprintf("Metadata of %s with id %x", t.name, got.TopicID), got.ErrorCode)
			return
		}
		for _, p := range got.Partitions {
			if p.Partition == at.index {
				e.ledger.told(e.name+" (Metadata)", at, before, marks{high: -1, start: -1, epoch: p.LeaderEpoch})
			}
		}
	}
}

// readAll reads a partition from its start to its end.
func (k *worker) readAll(t *topic, at place) (start, end int64) {
	who := k.name + ", reading all"
	before := k.ledger.marks(at)
	end, _, epoch := k.listOffset(t, at, -1)
	k.ledger.told(who, at, before, marks{high: end, start: -1, epoch: epoch})
	start = k.startOf(t, at)
	for position := start; position < end; {
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.MaxBytes, req.MinBytes = 12, 1<<20, 0
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic = t.name
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes, rp.CurrentLeaderEpoch = at.index, position, 1<<20, -1
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		resp, ok := k.ask(req)
		if !ok {
			return start, end
		}
		p := &resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
		next := k.records(who, at, position, p.HighWatermark, p.RecordBatches)
		if p.ErrorCode == kerr.OffsetOutOfRange.Code && k.ledger.mayLackStart(at) {
			if start = k.startOf(t, at); start > position {
				next = start
			}
		}
		if next == position {
			k.fault("%s: %s at %d of %d: error %d, no records", who, at, position, end, p.ErrorCode)
			return start, end
		}
		position = next
	}
	return start, end
}
