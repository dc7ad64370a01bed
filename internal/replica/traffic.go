package replica

import (
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/metric"
)

// Traffic is what went into a topic and out of it on this node since the start, as Kafka's BrokerTopicMetrics count it. It is kept by
// topic, not by partition, as there may be many of those; it fills a cache line.
type Traffic struct {
	MessagesIn      metric.Counter // by offsets; those of coordinators too
	BytesIn         metric.Counter // of batches as they were appended
	BytesOut        metric.Counter // of batches in the answers to consumers
	BytesRejected   metric.Counter // of batches that were too large
	ProduceRequests metric.Counter // appends that were asked for, by partition
	FetchRequests   metric.Counter // reads that were asked for, by partition
	FailedProduces  metric.Counter // of these appends, those that failed and not because the client's metadata is old
	FailedFetches   metric.Counter // of these reads, those that the disk or a damaged log failed
}

// TrafficNow is what a Traffic counts at one moment.
type TrafficNow struct {
	MessagesIn, BytesIn, BytesOut, BytesRejected, ProduceRequests, FetchRequests, FailedProduces, FailedFetches int64
}

// Now reads the counters.
func (t *Traffic) Now() TrafficNow {
	return TrafficNow{
		t.MessagesIn.Value(), t.BytesIn.Value(), t.BytesOut.Value(), t.BytesRejected.Value(),
		t.ProduceRequests.Value(), t.FetchRequests.Value(), t.FailedProduces.Value(), t.FailedFetches.Value(),
	}
}

// add adds what another has counted.
func (n *TrafficNow) add(o *TrafficNow) {
	n.MessagesIn += o.MessagesIn
	n.BytesIn += o.BytesIn
	n.BytesOut += o.BytesOut
	n.BytesRejected += o.BytesRejected
	n.ProduceRequests += o.ProduceRequests
	n.FetchRequests += o.FetchRequests
	n.FailedProduces += o.FailedProduces
	n.FailedFetches += o.FailedFetches
}

// produceFailed counts an append that was refused. Those that Kafka does not count are answered anew in the course of things, as the
// client looks for the leader, or are the client's: too large, or not what a batch is.
func (t *Traffic) produceFailed(code kafka.Error, records []byte) {
	switch code {
	case kafka.UnknownTopicOrPartition, kafka.UnknownTopicId, kafka.NotLeaderOrFollower, kafka.RecordListTooLarge, kafka.CorruptMessage:
	case kafka.MessageTooLarge:
		t.BytesRejected.Add(int64(len(records)))
	default:
		t.FailedProduces.Inc()
	}
}

// forget takes a deleted topic from the table. What it has counted stays in the sum of all topics.
func (m *Manager) forget(gone *topic) {
	m.trafficMu.Lock()
	defer m.trafficMu.Unlock()
	m.table.remove(gone)
	if gone.traffic != nil {
		now := gone.traffic.Now()
		m.gone.add(&now)
	}
}

// topicsAndGone returns all topics, in the order of their names, and what topics that were deleted have counted: each topic is in
// one of both.
func (m *Manager) topicsAndGone() ([]*topic, TrafficNow) {
	m.trafficMu.Lock()
	defer m.trafficMu.Unlock()
	return m.topics(), m.gone
}
