package api

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/replica"
)

// writeTxnMarkers ends transactions in partitions (key 27): for the coordinator on another node, and for an operator who clears a
// transaction that hangs. Each partition holds the producer's epoch and the coordinator's against what it knows; where there is nothing to
// end a marker is written all the same, as it may come again.
func (a *API) writeTxnMarkers(c call) {
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrWriteTxnMarkersResponse()
	rows := make([]kmsg.WriteTxnMarkersResponseMarker, len(req.Markers))
	var left atomic.Int64
	left.Store(int64(len(req.Markers)) + 1)
	done := func() {
		if left.Add(-1) != 0 {
			return
		}
		for _, row := range rows {
			if len(row.Topics) > 0 { // Kafka says nothing of a marker for no partition
				resp.Markers = append(resp.Markers, row)
			}
		}
		c.answer(resp)
	}
	image := a.Coord.Image()
	for i := range req.Markers {
		m := &req.Markers[i]
		rows[i] = kmsg.NewWriteTxnMarkersResponseMarker()
		rows[i].ProducerID = m.ProducerID
		marked := markedPartitions(image, m, &rows[i])
		if len(marked.partitions) == 0 {
			done()
			continue
		}
		a.Coord.WriteMarkers(replica.Marker{
			ProducerID: kafka.ProducerID(m.ProducerID), ProducerEpoch: kafka.ProducerEpoch(m.ProducerEpoch),
			CoordinatorEpoch: m.CoordinatorEpoch, Commit: m.Committed, Protocol: int16(m.TransactionVersion),
		}, marked.partitions, func(codes []kafka.Error) {
			for j, code := range codes {
				*marked.codes[j] = int16(code)
			}
			done()
		})
	}
	done()
}

// marking is what a marker is to be written to, and where in the answer the code of each goes.
type marking struct {
	partitions []kafka.TopicPartition
	codes      []*int16
}

// markedPartitions lists the partitions of a marker that exist, and answers for those that do not. The coordinators of transactions have
// their own log, in which no transaction is ever open.
func markedPartitions(image *meta.Image, m *kmsg.WriteTxnMarkersRequestMarker, row *kmsg.WriteTxnMarkersResponseMarker) (marked marking) {
	for _, t := range m.Topics {
		if len(t.Partitions) == 0 {
			continue
		}
		topic, exists := image.Topic(t.Topic)
		answer := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
		answer.Topic, answer.Partitions = t.Topic, make([]kmsg.WriteTxnMarkersResponseMarkerTopicPartition, len(t.Partitions))
		for i, n := range t.Partitions {
			p := &answer.Partitions[i]
			p.Partition = n
			switch {
			case !exists || n < 0 || int(n) >= len(topic.Partitions):
				p.ErrorCode = int16(kafka.UnknownTopicOrPartition)
			case t.Topic == meta.TransactionsTopic:
				p.ErrorCode = int16(kafka.InvalidTopicException)
			default:
				marked.partitions = append(marked.partitions, kafka.TopicPartition{Topic: t.Topic, Partition: n})
				marked.codes = append(marked.codes, &p.ErrorCode)
			}
		}
		row.Topics = append(row.Topics, answer)
	}
	return marked
}
