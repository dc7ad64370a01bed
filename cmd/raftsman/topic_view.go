package main

import (
	"context"
	"encoding/base64"
	"errors"

	"github.com/twmb/franz-go/pkg/kadm"
)

// unknown stands for a number that no broker could tell.
const unknown = -1

// topicView is a topic as a person judges it: metadata, offsets and sizes together.
type topicView struct {
	Topic             string            `json:"topic"`
	ID                string            `json:"id"`
	Internal          bool              `json:"internal,omitempty"`
	ReplicationFactor int               `json:"replicationFactor"`
	Records           int64             `json:"records"`
	Bytes             int64             `json:"bytes"`
	Configs           map[string]string `json:"configs,omitempty"` // what differs from the broker's defaults
	Partitions        []partitionView   `json:"partitions"`
	Skew              *skew             `json:"skew,omitempty"`
	Keys              *keySample        `json:"keys,omitempty"`
	FullDirs          []dirCondition    `json:"fullLogDirs,omitempty"` // log directories of its partitions that refuse what clients produce
}

// partitionView is one partition. Records is the span of its offsets: compaction and transactions leave fewer to read.
// Bytes is what the leader stores. Offsets, records and bytes are -1 when no broker could tell.
type partitionView struct {
	Partition   int32   `json:"partition"`
	Leader      int32   `json:"leader"`
	Epoch       int32   `json:"leaderEpoch"`
	Replicas    []int32 `json:"replicas"`
	ISR         []int32 `json:"isr"`
	Offline     []int32 `json:"offlineReplicas,omitempty"`
	StartOffset int64   `json:"startOffset"`
	EndOffset   int64   `json:"endOffset"`
	Records     int64   `json:"records"`
	Bytes       int64   `json:"bytes"`
	Share       float64 `json:"share"` // of the topic's bytes, or of its records when sizes are unknown; -1 when both are
	Hot         bool    `json:"hot,omitempty"`
	Error       string  `json:"error,omitempty"`

	OpenTransaction *openTransaction `json:"openTransaction,omitempty"`

	// Only Raftsman tells these.
	Compaction  *compactionView `json:"compaction,omitempty"`  // of a compacted topic
	Uncleanable string          `json:"uncleanable,omitempty"` // why it is not compacted any more
	Damage      *damageView     `json:"damage,omitempty"`
}

// viewTopics asks for what details do not hold. A partition that has no leader, or a broker that does not answer, leaves
// numbers unknown; it is no error.
func viewTopics(ctx context.Context, adm *kadm.Client, details kadm.TopicDetails) ([]topicView, error) {
	names := details.Names()
	if len(names) == 0 {
		return nil, nil
	}
	starts, err := adm.ListStartOffsets(ctx, names...)
	if err = unlessPartial(err); err != nil {
		return nil, err
	}
	ends, err := adm.ListEndOffsets(ctx, names...)
	if err = unlessPartial(err); err != nil {
		return nil, err
	}
	// Sizes are a comfort: a cluster that does not tell them is still worth a description.
	dirs, err := adm.DescribeAllLogDirs(ctx, details.TopicsSet())
	if ctx.Err() != nil {
		return nil, err
	}
	views := make([]topicView, 0, len(details))
	for _, d := range details.Sorted() {
		v := topicView{Topic: d.Topic, ID: topicID(d.ID), Internal: d.IsInternal}
		for _, p := range d.Partitions.Sorted() {
			v.Partitions = append(v.Partitions, viewPartition(p, starts, ends, dirs))
			v.ReplicationFactor = max(v.ReplicationFactor, len(p.Replicas))
		}
		v.total()
		views = append(views, v)
	}
	return views, nil
}

func viewPartition(p kadm.PartitionDetail, starts, ends kadm.ListedOffsets, dirs kadm.DescribedAllLogDirs) partitionView {
	v := partitionView{
		Partition: p.Partition, Leader: p.Leader, Epoch: p.LeaderEpoch, Replicas: orEmpty(p.Replicas), ISR: orEmpty(p.ISR), Offline: p.OfflineReplicas,
		StartOffset: listed(starts, p.Topic, p.Partition), EndOffset: listed(ends, p.Topic, p.Partition), Records: unknown, Bytes: unknown,
	}
	if v.StartOffset >= 0 && v.EndOffset >= 0 {
		v.Records = max(0, v.EndOffset-v.StartOffset)
	}
	for _, dir := range dirs[p.Leader].Sorted() {
		if in, ok := dir.Topics.Lookup(p.Topic, p.Partition); ok && !in.IsFuture {
			v.Bytes = in.Size
		}
	}
	if p.Err != nil {
		v.Error = refused("partition", p.Err, "").Error()
	}
	return v
}

func listed(offsets kadm.ListedOffsets, topic string, partition int32) int64 {
	if o, ok := offsets.Lookup(topic, partition); ok && o.Err == nil {
		return o.Offset
	}
	return unknown
}

// total fills in what follows from the partitions: sums, shares, skew.
func (v *topicView) total() {
	v.Records, v.Bytes = 0, 0
	for _, p := range v.Partitions {
		v.Records = plus(v.Records, p.Records)
		v.Bytes = plus(v.Bytes, p.Bytes)
	}
	for i := range v.Partitions {
		p := &v.Partitions[i]
		switch {
		case v.Bytes < 0 && v.Records < 0:
			p.Share = unknown
		case v.Bytes > 0:
			p.Share = float64(p.Bytes) / float64(v.Bytes)
		case v.Bytes < 0 && v.Records > 0:
			p.Share = float64(p.Records) / float64(v.Records)
		}
	}
	v.Skew = findSkew(v.Partitions)
	if v.Skew != nil {
		for i := range v.Partitions {
			v.Partitions[i].Hot = v.Partitions[i].Partition == v.Skew.Partition
		}
	}
}

// plus adds counts of which one may be unknown.
func plus(sum, n int64) int64 {
	if sum < 0 || n < 0 {
		return unknown
	}
	return sum + n
}

func (v *topicView) summary() topicSummary {
	s := topicSummary{
		Topic: v.Topic, ID: v.ID, Internal: v.Internal, Partitions: len(v.Partitions), ReplicationFactor: v.ReplicationFactor,
		Records: v.Records, Bytes: v.Bytes,
	}
	for _, p := range v.Partitions {
		switch {
		case p.Leader < 0:
			s.Offline++
		case len(p.ISR) < len(p.Replicas):
			s.UnderReplicated++
		}
	}
	return s
}

// unlessPartial passes over an error that left part of an answer usable.
func unlessPartial(err error) error {
	var shards *kadm.ShardErrors
	if errors.As(err, &shards) && !shards.AllFailed {
		return nil
	}
	return err
}

// topicID writes an id as Kafka's tools do, or nothing if it is unset.
func topicID(id kadm.TopicID) string {
	if id == (kadm.TopicID{}) {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(id[:])
}

func orEmpty(ids []int32) []int32 {
	if ids == nil {
		return []int32{}
	}
	return ids
}
