package config

import (
	"strconv"

	"github.com/raftsman/raftsman/internal/invariant"
)

// Dynamic is what a cluster's metadata holds for its brokers: settings for all of them (Kafka's broker resource with the empty
// name) and settings for one.
type Dynamic struct {
	Cluster map[string]string
	Node    map[string]string
}

// merged returns one map, in which the node's settings hide the cluster's.
func (d Dynamic) merged() map[string]string { return MergeDynamic(d.Cluster, d.Node) }

// MergeDynamic returns the settings for one broker: its own hide the cluster's.
func MergeDynamic(cluster, node map[string]string) map[string]string {
	merged := make(map[string]string, len(cluster)+len(node))
	for _, settings := range []map[string]string{cluster, node} {
		for _, name := range sortedNames(settings) {
			merged[name] = settings[name]
		}
	}
	return merged
}

// Topic is what one topic is configured to, every key resolved. The zero value is not useful.
type Topic struct {
	CleanupCompact     bool
	CleanupDelete      bool
	Compression        string // producer, uncompressed, gzip, snappy, lz4, zstd
	GzipLevel          int    // -1 is the codec's own default
	LZ4Level           int
	ZstdLevel          int
	DecompressedMax    int // the most that a batch may unpack to
	DeleteRetentionMs  int64
	DirtyRatioMin      float64
	FileDeleteDelayMs  int64
	FlushMessages      int64
	FlushMs            int64
	IndexBytes         int // of one index file
	IndexIntervalBytes int
	CompactionLagMinMs int64
	CompactionLagMaxMs int64
	MaxMessageBytes    int
	MinISR             int
	Preallocate        bool
	RetentionBytes     int64 // -1 is no limit
	RetentionMs        int64 // -1 is no limit
	SegmentBytes       int
	SegmentJitterMs    int64
	SegmentMs          int64
	LogAppendTime      bool
	// TimestampBeforeMaxMs and TimestampAfterMaxMs say how far a record's timestamp may be behind and ahead of the clock.
	TimestampBeforeMaxMs int64
	TimestampAfterMaxMs  int64
	UncleanElection      bool
	DeadLetterQueue      bool // errors.deadletterqueue.group.enable

	LeaderThrottled   []string // partition:broker pairs, or *
	FollowerThrottled []string

	RemoteStorage         bool
	RemoteCopyDisable     bool
	RemoteDeleteOnDisable bool
	RemoteCopyLagBytes    int64
	RemoteCopyLagMs       int64
	LocalRetentionBytes   int64 // -2 is retention.bytes
	LocalRetentionMs      int64 // -2 is retention.ms
}

// Topic resolves the configuration of a topic: its own settings, then the broker's keys that stand in for them, dynamic before
// static, then defaults. dynamicBroker is what [MergeDynamic] returns. Values that do not parse are passed over.
func (b *Broker) Topic(dynamicBroker, topicOverrides map[string]string) Topic {
	var t Topic
	r := topicResolver{b, topicOverrides}
	if len(dynamicBroker) > 0 {
		r.broker = b.With(Dynamic{Node: dynamicBroker})
	}
	for _, item := range r.value("cleanup.policy").list {
		t.CleanupCompact = t.CleanupCompact || item == "compact"
		t.CleanupDelete = t.CleanupDelete || item == "delete"
	}
	t.Compression = r.value("compression.type").text
	t.GzipLevel = r.int("compression.gzip.level")
	t.LZ4Level = r.int("compression.lz4.level")
	t.ZstdLevel = r.int("compression.zstd.level")
	t.DecompressedMax = r.int("max.decompressed.message.bytes")
	t.DeleteRetentionMs = r.long("delete.retention.ms")
	t.DirtyRatioMin = r.value("min.cleanable.dirty.ratio").f
	t.FileDeleteDelayMs = r.long("file.delete.delay.ms")
	t.FlushMessages = r.long("flush.messages")
	t.FlushMs = r.long("flush.ms")
	t.IndexBytes = r.int("segment.index.bytes")
	t.IndexIntervalBytes = r.int("index.interval.bytes")
	t.CompactionLagMinMs = r.long("min.compaction.lag.ms")
	t.CompactionLagMaxMs = r.long("max.compaction.lag.ms")
	t.MaxMessageBytes = r.int("max.message.bytes")
	t.MinISR = r.int("min.insync.replicas")
	t.Preallocate = r.bool("preallocate")
	t.RetentionBytes = r.long("retention.bytes")
	t.RetentionMs = r.long("retention.ms")
	t.SegmentBytes = r.int("segment.bytes")
	if v := r.value("internal.segment.bytes"); !v.null {
		t.SegmentBytes = int(v.i)
	}
	t.SegmentJitterMs = r.long("segment.jitter.ms")
	t.SegmentMs = r.long("segment.ms")
	t.LogAppendTime = r.value("message.timestamp.type").text == "LogAppendTime"
	t.TimestampBeforeMaxMs = r.long("message.timestamp.before.max.ms")
	t.TimestampAfterMaxMs = r.long("message.timestamp.after.max.ms")
	t.UncleanElection = r.bool("unclean.leader.election.enable")
	t.DeadLetterQueue = r.bool("errors.deadletterqueue.group.enable")
	t.LeaderThrottled = r.value("leader.replication.throttled.replicas").list
	t.FollowerThrottled = r.value("follower.replication.throttled.replicas").list
	t.RemoteStorage = r.bool("remote.storage.enable")
	t.RemoteCopyDisable = r.bool("remote.log.copy.disable")
	t.RemoteDeleteOnDisable = r.bool("remote.log.delete.on.disable")
	t.RemoteCopyLagBytes = r.long("remote.copy.lag.bytes")
	t.RemoteCopyLagMs = r.long("remote.copy.lag.ms")
	t.LocalRetentionBytes = r.long("local.retention.bytes")
	t.LocalRetentionMs = r.long("local.retention.ms")
	return t
}

// topicResolver finds the effective value of a topic's keys.
type topicResolver struct {
	broker    *Broker
	overrides map[string]string
}

func (r topicResolver) value(name string) value {
	k, ok := Lookup(ScopeTopic, name)
	invariant.Check(ok, "no topic configuration %q", name)
	if text, ok := r.overrides[name]; ok {
		if v, err := k.parse(text); err == nil {
			return v
		}
	}
	return r.broker.inherited(k)
}

func (r topicResolver) int(name string) int    { return int(r.value(name).i) }
func (r topicResolver) long(name string) int64 { return r.value(name).i }
func (r topicResolver) bool(name string) bool  { return r.value(name).b }

// inherited returns the value that a topic or group has which does not set the key: that of the first broker synonym that is
// set, or of the first whose default is a value, or the key's own default.
func (b *Broker) inherited(k *Key) value {
	for _, s := range k.Synonyms {
		if v := b.resolved[s.Name]; b.IsSet(s.Name) && !v.null {
			return v.times(k.Type, s.Factor)
		}
	}
	for _, s := range k.Synonyms {
		if v, ok := b.resolved[s.Name]; ok && !v.null {
			return v.times(k.Type, s.Factor)
		}
	}
	return k.defaultValue()
}

// defaultValue returns the key's default, parsed.
func (k *Key) defaultValue() value {
	if k.DefaultState != DefaultValue {
		return value{null: true}
	}
	v, err := parseType(k.Type, k.Default)
	invariant.Check(err == nil, "default %q of %s: %v", k.Default, k.Name, err)
	return v
}

// times returns v in another unit; text follows.
func (v value) times(t Type, factor int64) value {
	if factor == 1 || t != Long && t != Int {
		return v
	}
	if v.i < 0 { // -1 is "no limit" in every unit
		return v
	}
	v.i *= factor
	v.text = strconv.FormatInt(v.i, 10)
	return v
}
