package api

import (
	"slices"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/replica"
)

// writeTxnMarkers ends transactions in partitions (key 27): for the coordinator on another node, and for an operator who clears a
// transaction that hangs. Each partition holds the producer's epoch and the coordinator's against what it knows; where there is nothing to
// end a marker is written all the same, as it may come again. A marker of no producer, or of no epoch, ends the request: it and those
// after it are not written, and all is answered with UNKNOWN_SERVER_ERROR, as Kafka does.
func (a *API) writeTxnMarkers(c call) {
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrWriteTxnMarkersResponse()
	rows := make([]kmsg.WriteTxnMarkersResponseMarker, len(req.Markers))
	var left atomic.Int64
	left.Store(int64(len(req.Markers)) + 1)
	forged := false
	done := func() {
		if left.Add(-1) != 0 {
			return
		}
		if forged {
			c.answer(refusedMarkers(req))
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
		if len(marked.partitions) > 0 && (m.ProducerID < 0 || m.ProducerEpoch < 0) {
			forged = true
			left.Add(int64(i - len(req.Markers)))
			break
		}
		if len(marked.partitions) == 0 {
			done()
			continue
		}
		a.Coord.WriteMarkers(replica.Marker{
			ProducerID: kafka.ProducerID(m.ProducerID), ProducerEpoch: kafka.ProducerEpoch(m.ProducerEpoch),
			CoordinatorEpoch: m.CoordinatorEpoch, Commit: m.Committed, Protocol: int16(m.TransactionVersion),
		}, marked.partitions, func(codes []kafka.Error) {
			for j, code := range codes {
				for _, row := range marked.codes[j] {
					*row = int16(code)
				}
			}
			done()
		})
	}
	done()
}

// refusedMarkers answers for all partitions of all markers; of several markers of one producer for the last, as Kafka does.
func refusedMarkers(req *kmsg.WriteTxnMarkersRequest) *kmsg.WriteTxnMarkersResponse {
	resp := kmsg.NewPtrWriteTxnMarkersResponse()
	for i := range req.Markers {
		id := req.Markers[i].ProducerID
		if slices.ContainsFunc(req.Markers[i+1:], func(m kmsg.WriteTxnMarkersRequestMarker) bool { return m.ProducerID == id }) {
			continue
		}
		row := kmsg.NewWriteTxnMarkersResponseMarker()
		row.ProducerID = id
		for _, t := range req.Markers[i].Topics {
			topic := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
			topic.Topic = t.Topic
			for _, n := range t.Partitions {
				topic.Partitions = append(topic.Partitions, kmsg.WriteTxnMarkersResponseMarkerTopicPartition{
					Partition: n, ErrorCode: int16(kafka.UnknownServerError),
				})
			}
			row.Topics = append(row.Topics, topic)
		}
		resp.Markers = append(resp.Markers, row)
	}
	return resp
}

// marking is what a marker is to be written to, once each, and where in the answer the code of each goes.
type marking struct {
	partitions []kafka.TopicPartition
	codes      [][]*int16
	places     map[kafka.TopicPartition]int
}

// add has the code of a partition put there.
func (m *marking) add(tp kafka.TopicPartition, code *int16) {
	at, again := m.places[tp]
	if !again {
		at = len(m.partitions)
		m.places[tp] = at
		m.partitions, m.codes = append(m.partitions, tp), append(m.codes, nil)
	}
	m.codes[at] = append(m.codes[at], code)
}

// markedPartitions lists the partitions of a marker that exist, and answers for those that do not. The coordinators of transactions have
// their own log, in which no transaction is ever open.
func markedPartitions(image *meta.Image, m *kmsg.WriteTxnMarkersRequestMarker, row *kmsg.WriteTxnMarkersResponseMarker) marking {
	marked := marking{places: map[kafka.TopicPartition]int{}}
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
				marked.add(kafka.TopicPartition{Topic: t.Topic, Partition: n}, &p.ErrorCode)
			}
		}
		row.Topics = append(row.Topics, answer)
	}
	return marked
}
