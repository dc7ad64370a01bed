package replica

import (
	"maps"
	"strconv"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/record/compress"
)

// settings are what a topic's configuration means to the parts that act on it.
type settings struct {
	topic config.Topic
	rules record.Rules // NowMs and TransactionalRequest are each request's own
	log   commitlog.Config

	leaderThrottled, followerThrottled throttledReplicas
}

// settingsCache makes settings. Most topics set nothing of their own and share one.
type settingsCache struct {
	broker  *config.Broker
	dynamic map[string]string // what the metadata sets for brokers
	shared  *settings
}

// update takes over the brokers' dynamic settings and tells whether they have changed.
func (c *settingsCache) update(image *meta.Image, node kafka.NodeID) bool {
	dynamic := config.MergeDynamic(image.BrokerConfig(node))
	if c.shared != nil && maps.Equal(c.dynamic, dynamic) {
		return false
	}
	c.dynamic, c.shared = dynamic, c.resolve(dynamic, nil)
	return true
}

// cordoned returns the log directories that take no new partitions, as they are configured.
func (c *settingsCache) cordoned() []string {
	return c.broker.With(config.Dynamic{Node: c.dynamic}).CordonedLogDirs()
}

// moveRate is how many bytes a second moves between log directories may copy.
func (c *settingsCache) moveRate() int64 {
	return c.broker.With(config.Dynamic{Node: c.dynamic}).Int64("replica.alter.log.dirs.io.max.bytes.per.second")
}

// of returns the settings of a topic that sets overrides itself.
func (c *settingsCache) of(overrides map[string]string) *settings {
	if len(overrides) == 0 {
		return c.shared
	}
	s := c.resolve(c.dynamic, overrides)
	node := strconv.Itoa(int(c.broker.NodeID()))
	s.leaderThrottled = parseThrottled(overrides["leader.replication.throttled.replicas"], node)
	s.followerThrottled = parseThrottled(overrides["follower.replication.throttled.replicas"], node)
	return s
}

// replicationRates are how many bytes a second throttled followers may be given, and may take.
func (c *settingsCache) replicationRates() (asLeader, asFollower int64) {
	b := c.broker.With(config.Dynamic{Node: c.dynamic})
	return b.Int64("leader.replication.throttled.rate"), b.Int64("follower.replication.throttled.rate")
}

func (c *settingsCache) resolve(dynamic, overrides map[string]string) *settings {
	t := c.broker.Topic(dynamic, overrides)
	broker := c.broker.With(config.Dynamic{Node: dynamic})
	return &settings{
		topic: t,
		rules: record.Rules{
			MaxBytes: t.MaxMessageBytes, MaxRecordBytes: t.DecompressedMax, Compacted: t.CleanupCompact,
			LogAppendTime: t.LogAppendTime, BeforeMaxMs: t.TimestampBeforeMaxMs, AfterMaxMs: t.TimestampAfterMaxMs,
			DecompressedMax: broker.Int64("raftsman.batch.decompressed.bytes.max"), Compression: compression(&t),
		},
		log: commitlog.Config{
			SegmentBytes: t.SegmentBytes, SegmentMs: segmentMs(&t), SegmentJitterMs: t.SegmentJitterMs,
			IndexBytes: t.IndexBytes, IndexIntervalBytes: t.IndexIntervalBytes,
			Delete: t.CleanupDelete, Compact: t.CleanupCompact, DeleteRetentionMs: t.DeleteRetentionMs,
			CompactionLagMinMs: t.CompactionLagMinMs, CompactionLagMaxMs: t.CompactionLagMaxMs,
			RetentionMs: t.RetentionMs, RetentionBytes: t.RetentionBytes, FileDeleteDelayMs: t.FileDeleteDelayMs,
			BeginsElsewhere:      t.RemoteStorage,
			ProducerIDExpiration: time.Duration(broker.Int64("producer.id.expiration.ms")) * time.Millisecond,
			MaxProducers:         broker.Int("raftsman.producers.per.partition.max"),
		},
	}
}

// compression returns the codec that a topic stores in, or nil where batches stay as the producer sent them.
func compression(t *config.Topic) *compress.Spec {
	codec, ok := compress.Parse(t.Compression)
	if !ok {
		return nil
	}
	spec := compress.Spec{Codec: codec}
	switch codec {
	case compress.Gzip:
		spec.Level = t.GzipLevel
	case compress.LZ4:
		spec.Level = t.LZ4Level
	case compress.Zstd:
		spec.Level = t.ZstdLevel
	}
	return &spec
}

// segmentMs is segment.ms, or less where records must be compacted before: only what is not in the active segment is.
func segmentMs(t *config.Topic) int64 {
	if t.CleanupCompact && t.CompactionLagMaxMs > 0 {
		return min(t.SegmentMs, t.CompactionLagMaxMs)
	}
	return t.SegmentMs
}
