package config

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
)

// change is one IncrementalAlterConfigs of one resource, and what Apache Kafka 4.4 made of it.
type change struct {
	Kind     kind
	Resource string
	Legacy   bool              `json:",omitempty"` // AlterConfigs, which replaces all
	Existing map[string]string `json:",omitempty"`
	Ops      []op
	Code     int16
	Message  string            // Kafka's; ours begins as it does where kafkasWords says so
	After    map[string]string `json:",omitempty"` // what is set on the resource afterwards
}

// kafkasWords are what scripts look for in the messages; how a message goes on is ours.
var kafkasWords = []*regexp.Regexp{
	regexp.MustCompile(`^(Unknown (?:topic|group) config name: \S*)`),
	regexp.MustCompile(`^(Unknown client metrics configuration: \S*)`),
	regexp.MustCompile(`^(Invalid value \S+ for configuration [a-z0-9.]+: )(?:Not a number|Value must)`),
	regexp.MustCompile(`^(Cannot update these configs dynamically: .*)`),
}

func (c change) words() string {
	for _, pattern := range kafkasWords {
		if m := pattern.FindStringSubmatch(c.Message); m != nil && !strings.HasPrefix(c.Ops[0].Name, "listener.") { // those we name whole
			return m[1]
		}
	}
	return ""
}

func set(name, value string) op      { return op{name, 0, &value} }
func del(name string) op             { return op{name, 1, nil} }
func appendTo(name, value string) op { return op{name, 2, &value} }
func subtract(name, value string) op { return op{name, 3, &value} }
func setNull(name string) op         { return op{name, 0, nil} }

func topicChange(ops ...op) change { return change{Kind: topicKind, Resource: "altered", Ops: ops} }
func nodeChange(ops ...op) change  { return change{Kind: brokerKind, Resource: "1", Ops: ops} }
func allChange(ops ...op) change   { return change{Kind: brokerKind, Resource: "", Ops: ops} }
func groupChange(ops ...op) change { return change{Kind: groupKind, Resource: "altered", Ops: ops} }
func metricChange(ops ...op) change {
	return change{Kind: clientMetricsKind, Resource: "altered", Ops: ops}
}

func (c change) legacy() change { c.Legacy = true; return c }

func (c change) after(settings ...string) change {
	c.Existing = map[string]string{}
	for i := 0; i < len(settings); i += 2 {
		c.Existing[settings[i]] = settings[i+1]
	}
	return c
}

var changes = []change{
	topicChange(set("retention.ms", "1000")),
	topicChange(set("retention.ms", "-1")),
	topicChange(set("retention.ms", "-2")),
	topicChange(set("retention.ms", "abc")),
	topicChange(set("retention.ms", "1.5")),
	topicChange(set("retention.ms", "+7")),
	topicChange(set("retention.ms", " 7 ")),
	topicChange(set("retention.ms", "")),
	topicChange(set("retention.ms", "99999999999999999999")),
	topicChange(setNull("retention.ms")),
	topicChange(set("no.such.key", "1")),
	topicChange(del("no.such.key")),
	topicChange(set("", "1")),
	topicChange(del("retention.ms")),
	topicChange(set("retention.ms", "1"), set("retention.ms", "2")),
	topicChange(set("retention.ms", "1"), del("retention.bytes")),
	topicChange(set("retention.ms", "1"), set("retention.bytes", "x")),
	topicChange(op{"retention.ms", 4, nil}),
	topicChange(op{"retention.ms", -1, nil}),
	topicChange(set("cleanup.policy", "compact,delete")),
	topicChange(set("cleanup.policy", "compact, delete")),
	topicChange(set("cleanup.policy", "delete,delete")),
	topicChange(set("cleanup.policy", "")),
	topicChange(set("cleanup.policy", "none")),
	topicChange(set("cleanup.policy", "compact,")),
	topicChange(set("cleanup.policy", "COMPACT")),
	topicChange(appendTo("cleanup.policy", "compact")),
	topicChange(appendTo("cleanup.policy", "delete")),
	topicChange(appendTo("cleanup.policy", "compact")).after("cleanup.policy", "compact"),
	topicChange(appendTo("cleanup.policy", "compact, delete")).after("cleanup.policy", "compact"),
	topicChange(appendTo("cleanup.policy", "wrong")),
	topicChange(appendTo("cleanup.policy", "")),
	topicChange(op{"cleanup.policy", 2, nil}),
	topicChange(subtract("cleanup.policy", "delete")),
	topicChange(subtract("cleanup.policy", "compact")),
	topicChange(subtract("cleanup.policy", "delete")).after("cleanup.policy", "compact,delete"),
	topicChange(subtract("cleanup.policy", "compact,delete")).after("cleanup.policy", "compact,delete"),
	topicChange(subtract("cleanup.policy", "absent")),
	topicChange(appendTo("cleanup.policy", "compact"), subtract("cleanup.policy", "delete")),
	topicChange(appendTo("retention.ms", "1")),
	topicChange(subtract("retention.ms", "1")),
	topicChange(appendTo("leader.replication.throttled.replicas", "0:1")),
	topicChange(appendTo("leader.replication.throttled.replicas", "1:1")).after("leader.replication.throttled.replicas", "0:1"),
	topicChange(set("leader.replication.throttled.replicas", "*")),
	topicChange(set("leader.replication.throttled.replicas", "none")),
	topicChange(set("leader.replication.throttled.replicas", "NONE")),
	topicChange(set("leader.replication.throttled.replicas", "0:1,*")),
	topicChange(set("leader.replication.throttled.replicas", "0:1:2")),
	topicChange(set("leader.replication.throttled.replicas", "0:1,0:1")),
	topicChange(set("leader.replication.throttled.replicas", "0:1,")),
	topicChange(set("compression.type", "gzip")),
	topicChange(set("compression.type", "GZIP")),
	topicChange(set("compression.type", "none")),
	topicChange(set("compression.type", "lzma")),
	topicChange(set("compression.gzip.level", "0")),
	topicChange(set("compression.gzip.level", "-1")),
	topicChange(set("compression.gzip.level", "9")),
	topicChange(set("compression.gzip.level", "10")),
	topicChange(set("compression.lz4.level", "0")),
	topicChange(set("compression.lz4.level", "17")),
	topicChange(set("compression.zstd.level", "-131072")),
	topicChange(set("compression.zstd.level", "23")),
	topicChange(set("segment.bytes", "1048575")),
	topicChange(set("segment.bytes", "1048576")),
	topicChange(set("segment.bytes", "14")),
	topicChange(set("segment.bytes", "2147483648")),
	topicChange(set("internal.segment.bytes", "1000")),
	topicChange(set("segment.ms", "0")),
	topicChange(set("segment.jitter.ms", "99999999999")),
	topicChange(set("segment.jitter.ms", "10"), set("segment.ms", "5")),
	topicChange(set("segment.index.bytes", "3")),
	topicChange(set("index.interval.bytes", "-1")),
	topicChange(set("max.message.bytes", "0")),
	topicChange(set("max.message.bytes", "-1")),
	topicChange(set("max.message.bytes", "2000000000")),
	topicChange(set("max.message.bytes", "2097152"), set("segment.bytes", "1048576")),
	topicChange(set("message.timestamp.type", "LogAppendTime")),
	topicChange(set("message.timestamp.type", "logappendtime")),
	topicChange(set("message.timestamp.before.max.ms", "-1")),
	topicChange(set("message.timestamp.after.max.ms", "0")),
	topicChange(set("message.timestamp.difference.max.ms", "0")),
	topicChange(set("message.format.version", "3.0")),
	topicChange(set("message.downconversion.enable", "true")),
	topicChange(set("min.cleanable.dirty.ratio", "1.1")),
	topicChange(set("min.cleanable.dirty.ratio", "-0.1")),
	topicChange(set("min.cleanable.dirty.ratio", "1e-1")),
	topicChange(set("min.cleanable.dirty.ratio", "0.5d")),
	topicChange(set("min.cleanable.dirty.ratio", "NaN")),
	topicChange(set("min.cleanable.dirty.ratio", ".5")),
	topicChange(set("min.cleanable.dirty.ratio", "0,5")),
	topicChange(set("min.insync.replicas", "0")),
	topicChange(set("min.insync.replicas", "5")),
	topicChange(set("min.compaction.lag.ms", "100"), set("max.compaction.lag.ms", "50")),
	topicChange(set("max.compaction.lag.ms", "50"), set("min.compaction.lag.ms", "100")),
	topicChange(set("max.compaction.lag.ms", "0")),
	topicChange(set("preallocate", "TRUE")),
	topicChange(set("preallocate", "yes")),
	topicChange(set("preallocate", "")),
	topicChange(set("unclean.leader.election.enable", "true")),
	topicChange(set("flush.messages", "0")),
	topicChange(set("flush.ms", "0")),
	topicChange(set("file.delete.delay.ms", "-1")),
	topicChange(set("delete.retention.ms", "0")),
	topicChange(set("retention.bytes", "-2")),
	topicChange(set("retention.bytes", "0")),
	topicChange(set("remote.storage.enable", "true")),
	topicChange(set("remote.storage.enable", "false")),
	topicChange(set("remote.log.copy.disable", "true")),
	topicChange(set("remote.log.delete.on.disable", "true")),
	topicChange(set("local.retention.ms", "-2")),
	topicChange(set("local.retention.ms", "5000")),
	topicChange(set("local.retention.ms", "5000"), set("retention.ms", "1000")),
	topicChange(set("local.retention.ms", "-1"), set("retention.ms", "1000")),
	topicChange(set("local.retention.bytes", "5000"), set("retention.bytes", "1000")),
	topicChange(set("local.retention.ms", "-3")),
	topicChange(set("remote.copy.lag.ms", "5"), set("local.retention.ms", "1")),
	topicChange(set("errors.deadletterqueue.group.enable", "true")),
	topicChange(set("max.decompressed.message.bytes", "0")),
	topicChange(set("max.decompressed.message.bytes", "2147483639")),
	topicChange(set("max.decompressed.message.bytes", "1000")),
	{Kind: topicKind, Resource: "absent", Ops: []op{set("retention.ms", "1")}},
	{Kind: topicKind, Resource: "bad name", Ops: []op{set("retention.ms", "1")}},
	{Kind: topicKind, Resource: "", Ops: []op{set("retention.ms", "1")}},
	{Kind: topicKind, Resource: "altered"},

	nodeChange(set("num.io.threads", "4")),
	nodeChange(set("num.io.threads", "100")),
	nodeChange(set("num.io.threads", "0")),
	nodeChange(set("log.retention.ms", "1000")),
	nodeChange(set("log.retention.hours", "1")),
	nodeChange(set("node.id", "2")),
	nodeChange(set("num.partitions", "2")),
	nodeChange(set("own.plugin.key", "2")),
	nodeChange(set("own.plugin.key", "")),
	nodeChange(del("own.plugin.key")),
	nodeChange(set("log.segment.bytes", "1048575")),
	nodeChange(set("log.segment.bytes", "1048576")),
	nodeChange(set("message.max.bytes", "-1")),
	nodeChange(set("log.cleanup.policy", "wrong")),
	nodeChange(set("log.cleanup.policy", "")),
	nodeChange(set("log.cleaner.threads", "100")),
	nodeChange(set("log.cleaner.threads", "2")),
	nodeChange(set("min.insync.replicas", "1")),
	nodeChange(set("unclean.leader.election.enable", "true")),
	nodeChange(set("compression.type", "zstd")),
	nodeChange(set("compression.type", "wrong")),
	nodeChange(set("leader.replication.throttled.rate", "1000")),
	nodeChange(set("leader.replication.throttled.rate", "-1")),
	nodeChange(set("max.connections", "10")),
	nodeChange(set("max.connections.per.ip.overrides", "127.0.0.1:5")),
	nodeChange(set("max.connections.per.ip.overrides", "wrong")),
	nodeChange(set("ssl.keystore.password", "secret")),
	nodeChange(set("ssl.keystore.type", "PEM")),
	nodeChange(set("listener.name.plaintext.ssl.keystore.type", "PEM")),
	nodeChange(set("listener.name.plaintext.max.connections", "20")),
	nodeChange(set("listener.name.plaintext.num.network.threads", "2")),
	nodeChange(set("listener.name.plaintext.no.such", "20")),
	nodeChange(set("listener.name.plaintext.max.connections", "x")),
	nodeChange(set("advertised.listeners", "PLAINTEXT://127.0.0.1:23092")),
	nodeChange(set("listeners", "PLAINTEXT://127.0.0.1:23092")),
	nodeChange(appendTo("log.cleanup.policy", "compact")),
	nodeChange(appendTo("num.io.threads", "1")),
	nodeChange(appendTo("own.plugin.list", "a")),
	nodeChange(set("metric.reporters", "")),
	nodeChange(set("log.retention.ms", "1"), set("log.retention.bytes", "x")),
	nodeChange(set("producer.id.expiration.ms", "1000")),
	nodeChange(set("producer.id.expiration.ms", "0")),
	nodeChange(set("transaction.partition.verification.enable", "false")),
	nodeChange(set("cordoned.log.dirs", "*")),
	nodeChange(set("cordoned.log.dirs", "/no/such/dir")),
	{Kind: brokerKind, Resource: "2", Ops: []op{set("num.io.threads", "4")}},
	{Kind: brokerKind, Resource: "x", Ops: []op{set("num.io.threads", "4")}},
	{Kind: brokerKind, Resource: "-1", Ops: []op{set("num.io.threads", "4")}},

	allChange(set("num.io.threads", "4")),
	allChange(set("ssl.keystore.type", "PEM")),
	allChange(set("sasl.enabled.mechanisms", "PLAIN")),
	allChange(set("listener.name.plaintext.max.connections", "20")),
	allChange(set("node.id", "2")),
	allChange(set("own.plugin.key", "2")),
	allChange(set("log.retention.ms", "x")),
	allChange(set("min.insync.replicas", "2")),
	allChange(set("min.insync.replicas", "0")),
	allChange(set("cordoned.log.dirs", "*")),
	allChange(set("leader.replication.throttled.rate", "1000")),
	allChange(set("group.consumer.assignment.interval.ms", "20000")),
	allChange(set("group.coordinator.cached.buffer.max.bytes", "5")),
	allChange(set("message.max.bytes", "2000")),

	groupChange(set("consumer.session.timeout.ms", "50000")),
	groupChange(set("consumer.session.timeout.ms", "1000")),
	groupChange(set("consumer.session.timeout.ms", "70000")),
	groupChange(set("consumer.heartbeat.interval.ms", "5000")),
	groupChange(set("consumer.heartbeat.interval.ms", "1000")),
	groupChange(set("consumer.heartbeat.interval.ms", "15000"), set("consumer.session.timeout.ms", "45000")),
	groupChange(set("consumer.assignment.interval.ms", "20000")),
	groupChange(set("share.delivery.count.limit", "11")),
	groupChange(set("share.delivery.count.limit", "3")),
	groupChange(set("share.record.lock.duration.ms", "1000")),
	groupChange(set("share.record.lock.duration.ms", "70000")),
	groupChange(set("share.auto.offset.reset", "EARLIEST")),
	groupChange(set("share.auto.offset.reset", "by_duration:PT1H")),
	groupChange(set("share.auto.offset.reset", "by_duration:P1DT2H3M4.5S")),
	groupChange(set("share.auto.offset.reset", "by_duration:-PT1H")),
	groupChange(set("share.auto.offset.reset", "by_duration:PT-1H")),
	groupChange(set("share.auto.offset.reset", "by_duration:PT0S")),
	groupChange(set("share.auto.offset.reset", "by_duration:P")),
	groupChange(set("share.auto.offset.reset", "by_duration:P1D")),
	groupChange(set("share.auto.offset.reset", "by_duration:PT")),
	groupChange(set("share.auto.offset.reset", "by_duration:pt1h")),
	groupChange(set("share.auto.offset.reset", "BY_DURATION:PT1H")),
	groupChange(set("share.auto.offset.reset", "by_duration:PT1.5H")),
	groupChange(set("share.auto.offset.reset", "by_duration:PT1M1H")),
	groupChange(set("share.auto.offset.reset", "by_duration:P1W")),
	groupChange(set("share.auto.offset.reset", "by_duration:")),
	groupChange(set("share.auto.offset.reset", "none")),
	groupChange(set("share.isolation.level", "read_committed")),
	groupChange(set("share.isolation.level", "READ_COMMITTED")),
	groupChange(set("share.partition.max.record.locks", "5000")),
	groupChange(set("share.heartbeat.interval.ms", "1")),
	groupChange(set("share.session.timeout.ms", "1")),
	groupChange(set("streams.num.standby.replicas", "3")),
	groupChange(set("streams.num.standby.replicas", "1")),
	groupChange(set("streams.session.timeout.ms", "1")),
	groupChange(set("streams.heartbeat.interval.ms", "1")),
	groupChange(set("streams.initial.rebalance.delay.ms", "0")),
	groupChange(set("streams.assignor.name", "x")),
	groupChange(set("streams.num.warmup.replicas", "5")),
	groupChange(set("streams.task.offset.interval.ms", "5")),
	groupChange(set("errors.deadletterqueue.topic.name", "dlq.t")),
	groupChange(set("errors.deadletterqueue.topic.name", "bad name")),
	groupChange(set("errors.deadletterqueue.topic.name", "x")),
	groupChange(set("errors.deadletterqueue.topic.name", "__consumer_offsets")),
	groupChange(set("no.such", "x")),
	{Kind: groupKind, Resource: "", Ops: []op{set("consumer.session.timeout.ms", "50000")}},

	metricChange(set("interval.ms", "60000")),
	metricChange(set("interval.ms", "99")),
	metricChange(set("interval.ms", "100")),
	metricChange(set("interval.ms", "3600000")),
	metricChange(set("interval.ms", "3600001")),
	metricChange(set("metrics", "*")),
	metricChange(set("metrics", "org.a.,org.b.")),
	metricChange(set("metrics", "")),
	metricChange(appendTo("metrics", "org.c.")).after("metrics", "org.a."),
	metricChange(set("match", "client_id=a.*")),
	metricChange(set("match", "client_id=a,client_software_name=b")),
	metricChange(set("match", "wrong=a")),
	metricChange(set("match", "client_id")),
	metricChange(set("match", "client_id=(")),
	metricChange(set("match", "client_id=a=b")),
	metricChange(set("match", "client_source_address=127.0.0.1,client_source_port=1")),
	metricChange(set("match", "client_id=a,client_id=b")),
	metricChange(set("no.such", "b")),
	{Kind: clientMetricsKind, Resource: "", Ops: []op{set("interval.ms", "60000")}},

	{Kind: loggerKind, Resource: "1", Ops: []op{set("kafka.server", "DEBUG")}},
	{Kind: loggerKind, Resource: "1", Ops: []op{set("kafka.server", "WRONG")}},
	{Kind: loggerKind, Resource: "1", Ops: []op{set("no.such.logger", "INFO")}},
	{Kind: loggerKind, Resource: "1", Ops: []op{del("kafka.server")}},
	{Kind: loggerKind, Resource: "1", Ops: []op{appendTo("kafka.server", "INFO")}},
	{Kind: loggerKind, Resource: "2", Ops: []op{set("kafka.server", "DEBUG")}},
	{Kind: loggerKind, Resource: "", Ops: []op{set("kafka.server", "DEBUG")}},
	{Kind: kind(0), Resource: "x", Ops: []op{set("a", "b")}},
	{Kind: kind(99), Resource: "x", Ops: []op{set("a", "b")}},

	topicChange(op{"retention.ms", 4, ptr("1")}),
	topicChange(op{"retention.ms", -1, ptr("1")}),
	topicChange(appendTo("no.such.key", "1")),
	topicChange(subtract("no.such.key", "1")),
	topicChange(op{"retention.ms", 1, ptr("5")}).after("retention.ms", "5"),
	topicChange(appendTo("cleanup.policy", "compact,compact")),
	topicChange(set("cleanup.policy", " compact ")),
	topicChange(set("leader.replication.throttled.replicas", "")),
	topicChange(set("leader.replication.throttled.replicas", ",")),
	topicChange(set("leader.replication.throttled.replicas", ",0:1")),
	topicChange(set("min.cleanable.dirty.ratio", "Infinity")),
	topicChange(set("min.cleanable.dirty.ratio", "0x1p-1")),
	topicChange(set("min.cleanable.dirty.ratio", "1e-5")),
	topicChange(set("min.cleanable.dirty.ratio", "0.00012345")),
	topicChange(set("min.cleanable.dirty.ratio", "1")),
	topicChange(set("min.cleanable.dirty.ratio", "inf")),
	topicChange(set("min.cleanable.dirty.ratio", "")),
	topicChange(set("retention.ms", "0x10")),
	topicChange(set("retention.ms", "1_000")),
	topicChange(set("retention.ms", "-0")),
	topicChange(set("retention.ms", "007")),
	topicChange(set("retention.ms", "\u00a07")),
	topicChange(set("retention.ms", "7")).after("cleanup.policy", "compact"),
	topicChange(set("min.compaction.lag.ms", "100")).after("max.compaction.lag.ms", "50"),
	topicChange(set("retention.ms", "7"), set("cleanup.policy", "delete")).legacy().after("segment.ms", "500"),
	topicChange().legacy().after("segment.ms", "500", "retention.ms", "1"),
	topicChange(setNull("retention.ms")).legacy().after("segment.ms", "500"),
	topicChange(set("retention.ms", "x")).legacy().after("segment.ms", "500"),
	topicChange(set("retention.ms", "1"), set("retention.ms", "2")).legacy().after("segment.ms", "500"),
	topicChange(set("no.such", "1")).legacy().after("segment.ms", "500"),
	{Kind: topicKind, Resource: "absent", Legacy: true, Ops: []op{set("retention.ms", "1")}},
	{Kind: topicKind, Resource: "", Legacy: true, Ops: []op{set("retention.ms", "1")}},
	nodeChange(set("log.retention.ms", "7")).legacy().after("log.roll.ms", "500"),
	nodeChange(set("node.id", "7")).legacy().after("log.roll.ms", "500"),
	nodeChange(set("log.retention.ms", "x")).legacy().after("log.roll.ms", "500"),
	{Kind: brokerKind, Resource: "2", Legacy: true, Ops: []op{set("num.io.threads", "4")}},
	groupChange(set("consumer.session.timeout.ms", "50000")).legacy().after("share.delivery.count.limit", "3"),
	groupChange(set("consumer.session.timeout.ms", "1")).legacy().after("share.delivery.count.limit", "3"),
	metricChange(set("interval.ms", "60000")).legacy().after("metrics", "a."),
	{Kind: loggerKind, Resource: "1", Legacy: true, Ops: []op{set("root", "INFO")}},
	{Kind: kind(0), Resource: "x", Legacy: true, Ops: []op{set("a", "b")}},
	{Kind: kind(99), Resource: "x", Legacy: true, Ops: []op{set("a", "b")}},

	{Kind: loggerKind, Resource: "1", Ops: []op{set("root", "DEBUG")}},
	{Kind: loggerKind, Resource: "1", Ops: []op{set("root", "info")}},
	{Kind: loggerKind, Resource: "1", Ops: []op{set("root", "OFF")}},
	{Kind: loggerKind, Resource: "1", Ops: []op{set("root", "WRONG")}},
	{Kind: loggerKind, Resource: "1", Ops: []op{del("root")}},
	{Kind: loggerKind, Resource: "1", Ops: []op{setNull("root")}},
	{Kind: loggerKind, Resource: "1", Ops: []op{subtract("root", "INFO")}},
	{Kind: loggerKind, Resource: "1", Ops: []op{set("root", "INFO"), set("root", "INFO")}},
	{Kind: loggerKind, Resource: "1"},

	nodeChange(set("num.io.threads", "16")),
	nodeChange(set("num.io.threads", "3")),
	nodeChange(set("background.threads", "4")),
	nodeChange(set("num.replica.fetchers", "3")),
	nodeChange(set("num.recovery.threads.per.data.dir", "5")),
	nodeChange(setNull("num.io.threads")),
	nodeChange(del("log.retention.ms")).after("log.retention.ms", "5"),
	nodeChange(del("no.such.key")),
	nodeChange(del("node.id")),
	nodeChange(del("min.insync.replicas")),
	nodeChange(set("max.connections.per.ip.overrides", "")),
	nodeChange(set("max.connections.per.ip.overrides", "a:1,b:2")),
	nodeChange(set("max.connections.per.ip.overrides", "127.0.0.1:x")),
	nodeChange(set("max.connections.per.ip.overrides", "127.0.0.1:-5")),
	nodeChange(set("log.roll.ms", "0")),
	nodeChange(set("log.retention.ms", "-1")),
	nodeChange(set("log.retention.ms", "0")),
	nodeChange(set("log.retention.ms", "-2")),
	nodeChange(set("log.message.timestamp.type", "LogAppendTime")),
	nodeChange(set("log.cleaner.min.compaction.lag.ms", "500"), set("log.cleaner.max.compaction.lag.ms", "100")),
	nodeChange(set("log.cleaner.io.buffer.size", "1")),
	nodeChange(set("log.cleaner.dedupe.buffer.size", "100")),
	nodeChange(set("log.cleaner.io.buffer.load.factor", "2")),
	nodeChange(set("log.flush.interval.messages", "0")),
	nodeChange(set("principal.builder.class", "no.Such")),
	nodeChange(set("metric.reporters", "no.Such")),
	nodeChange(set("config.providers", "file")),
	nodeChange(set("sasl.enabled.mechanisms", "PLAIN")),
	nodeChange(set("ssl.client.auth", "required")),
	nodeChange(set("ssl.cipher.suites", "a")),
	nodeChange(set("listener.name.nolistener.max.connections", "5")),
	nodeChange(set("remote.log.manager.copy.max.bytes.per.second", "5")),
	nodeChange(set("group.share.assignment.interval.ms", "20000")),
	nodeChange(set("", "5")),
	nodeChange(set("num.io.threads", "4"), set("num.io.threads", "5")),
	allChange(del("min.insync.replicas")),
	allChange(set("num.io.threads", "17")),
	allChange(set("max.connections.per.ip.overrides", "wrong")),
	allChange(set("advertised.listeners", "PLAINTEXT://127.0.0.1:23092")),
	allChange(appendTo("log.cleanup.policy", "compact")).after("log.cleanup.policy", "compact"),

	groupChange(appendTo("streams.rack.aware.assignment.tags", "a")),
	groupChange(subtract("streams.rack.aware.assignment.tags", "a")).after("streams.rack.aware.assignment.tags", "a,b"),
	groupChange(set("streams.rack.aware.assignment.tags", "a,a")),
	groupChange(set("streams.rack.aware.assignment.tags", "a,")),
	groupChange(set("streams.assignor.name", "sticky")),
	groupChange(set("streams.assignor.name", "")),
	groupChange(set("streams.num.warmup.replicas", "21")),
	groupChange(set("streams.acceptable.recovery.lag", "-1")),
	groupChange(set("consumer.heartbeat.interval.ms", "15000")),
	groupChange(set("consumer.session.timeout.ms", "45000"), set("share.session.timeout.ms", "45000"), set("share.heartbeat.interval.ms", "15000")),
	groupChange(set("consumer.assignor.offload.enable", "false")),
	groupChange(set("share.renew.acknowledge.enable", "no")),
	groupChange(set("share.auto.offset.reset", "by_duration:PT0.5S")),
	groupChange(set("share.auto.offset.reset", "by_duration:PT.5S")),
	groupChange(set("share.auto.offset.reset", "by_duration:PT5.S")),
	groupChange(set("share.auto.offset.reset", "by_duration:PT1.1234567891S")),
	groupChange(set("share.auto.offset.reset", "by_duration:+PT1H")),
	groupChange(set("share.auto.offset.reset", "by_duration:PT+1H")),
	groupChange(set("share.auto.offset.reset", "by_duration:PT-0H")),
	groupChange(set("share.auto.offset.reset", "by_duration:P1DT")),
	groupChange(set("share.auto.offset.reset", "by_duration:PT99999999999999999999H")),
	groupChange(set("share.auto.offset.reset", "by_duration:PT2H-30M")),
	groupChange(set("share.auto.offset.reset", "by_duration:P-1DT25H")),
	groupChange(set("share.auto.offset.reset", " latest ")),
	groupChange(set("errors.deadletterqueue.topic.name", "")),
	groupChange(set("streams.session.timeout.ms", "50000")),
	groupChange(set("streams.initial.rebalance.delay.ms", "-1")),

	metricChange(set("metrics", "a,")),
	metricChange(set("metrics", "a,a")),
	metricChange(set("interval.ms", "x")),
	metricChange(set("match", "")),
	metricChange(set("match", "client_instance_id=b69cc35a-7a54-4790-aa69-cc2bd4ee4538")),
	metricChange(set("match", "client_id=(?=a)b")),
	metricChange(set("match", "CLIENT_ID=b")),
	metricChange(set("match", " client_id = b ")),
	metricChange(set("match", "client_id=")),
	metricChange(del("interval.ms")).after("interval.ms", "5000"),
}

func ptr(s string) *string { return &s }

// TestRule29And30ChangesAnswerAsKafka compares what Apache Kafka 4.4 made of each change with what Check says, and what is set
// afterwards with what a description shows. To record: go test ./internal/config -run Rule29 -record HOST:PORT, on a Kafka that
// nothing was changed on. Package api replays the same file through its handlers.
func TestRule29And30ChangesAnswerAsKafka(t *testing.T) {
	if *record != "" {
		recordChanges(t)
	}
	var recorded []change
	readJSON(t, "changes.json", &recorded)
	b, _, err := Parse("", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range recorded {
		next, ok := c.apply()
		if !ok {
			continue
		}
		change := Change{Kind: Kind(c.Kind), Name: c.Resource, Changed: sortedNames(next), Next: next, After: Dynamic{Node: next}}
		if change.Name == "" {
			change.After = Dynamic{Cluster: next}
		}
		err := b.Check(change)
		code, message := kafka.Answer(err)
		if int16(code) != c.Code {
			t.Errorf("%s: got %d (%s), Kafka answers %d (%s)", changeText(c), code, message, c.Code, c.Message)
		}
		if words := c.words(); !strings.HasPrefix(message, words) {
			t.Errorf("%s: got %q, which scripts want to begin with %q", changeText(c), message, words)
		}
		want := maps.Clone(c.After)
		if c.Kind == brokerKind && c.Resource == "" && next["min.insync.replicas"] == "" {
			delete(want, "min.insync.replicas") // set by eligible leader replicas, not by the change
		}
		if got := shown(b, change.Kind, next); err == nil && !maps.Equal(got, want) {
			t.Errorf("%s: leaves %v, Kafka leaves %v", changeText(c), got, want)
		}
	}
}

// apply returns what the change leaves set, and false when it is refused for other reasons than its values.
func (c change) apply() (map[string]string, bool) {
	next := map[string]string{}
	if !c.Legacy {
		maps.Copy(next, c.Existing)
	}
	seen := map[string]bool{}
	elsewhere := c.Kind == loggerKind || c.Kind == 0 || c.Kind == 99 || c.Kind != brokerKind && c.Resource != "altered" ||
		c.Kind == brokerKind && c.Resource != "" && c.Resource != "1"
	for _, o := range c.Ops {
		unset, isList := ListDefault(Kind(c.Kind), o.Name)
		if elsewhere || seen[o.Name] || o.Value == nil && o.Op != 1 || o.Op < 0 || o.Op > 3 || o.Op >= 2 && !isList ||
			c.Kind == brokerKind && o.Name == "min.insync.replicas" && c.Code == int16(kafka.InvalidConfig) {
			return nil, false
		}
		seen[o.Name] = true
		list, ok := next[o.Name]
		if !ok {
			list = unset
		}
		switch o.Op {
		case 0:
			next[o.Name] = *o.Value
		case 1:
			delete(next, o.Name)
		case 2:
			for item := range strings.SplitSeq(*o.Value, ",") {
				if !slices.Contains(strings.Split(list, ","), item) {
					list = strings.TrimPrefix(list+","+item, ",")
				}
			}
			next[o.Name] = list
		case 3:
			items := slices.DeleteFunc(strings.Split(list, ","), func(item string) bool {
				return slices.Contains(strings.Split(*o.Value, ","), item)
			})
			next[o.Name] = strings.Join(items, ",")
		}
	}
	return next, !elsewhere
}

// shown returns the settings as a description shows them.
func shown(b *Broker, k Kind, settings map[string]string) map[string]string {
	var entries []Entry
	switch k {
	case KindTopic:
		entries = b.DescribeTopic(Dynamic{}, settings)
	case KindGroup:
		entries = b.DescribeGroup(Dynamic{}, settings)
	case KindClientMetrics:
		entries = DescribeClientMetrics(settings)
	case KindBroker:
		entries = b.DescribeBroker(Dynamic{Node: settings})
	case KindLogger:
	}
	text := map[string]string{}
	for _, e := range entries {
		if _, ok := settings[e.Name]; !ok {
			continue
		}
		text[e.Name] = "(hidden)"
		if v := e.Synonyms[0].Value; v != nil {
			text[e.Name] = *v
		}
	}
	return text
}

func changeText(c change) string {
	text, err := json.Marshal(struct {
		Kind     int
		Resource string
		Legacy   bool
		Existing map[string]string
		Ops      []op
	}{int(c.Kind), c.Resource, c.Legacy, c.Existing, c.Ops})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func recordChanges(t *testing.T) {
	c := dialKafka(t)
	c.createTopic("altered")
	for i := range changes {
		ch := &changes[i]
		c.set(ch.Kind, ch.Resource, ch.Existing)
		if ch.Legacy {
			ch.Code, ch.Message = c.replace(ch.Kind, ch.Resource, ch.Ops)
		} else {
			ch.Code, ch.Message = c.alter(ch.Kind, ch.Resource, ch.Ops, false)
		}
		if ch.Kind == loggerKind || ch.Kind < topicKind || ch.Code != 0 && ch.Existing == nil {
			continue
		}
		c.awaitSettled()
		ch.After = map[string]string{}
		own := map[kind]Source{topicKind: SourceTopic, brokerKind: SourceNode, groupKind: SourceGroup, clientMetricsKind: SourceClientMetrics}
		for _, e := range c.describe(ch.Kind, ch.Resource) {
			source := own[ch.Kind]
			if ch.Kind == brokerKind && ch.Resource == "" {
				source = SourceCluster
			}
			for _, s := range e.Synonyms {
				if s.Source == source && e.Name == s.Name {
					ch.After[s.Name] = "(hidden)"
					if s.Value != nil {
						ch.After[s.Name] = *s.Value
					}
				}
			}
		}
		leftover := maps.Clone(ch.After)
		delete(leftover, "min.insync.replicas")
		if ch.Kind == topicKind {
			leftover = ch.After
		}
		c.unset(ch.Kind, ch.Resource, leftover)
		if ch.Kind == brokerKind && ch.Resource == "" {
			c.set(ch.Kind, "", map[string]string{"min.insync.replicas": "1"})
		}
	}
	writeJSON(t, "changes.json", changes)
}

// TestTheLastCleanerThreadStays: with log.cleaner.threads=0 stored, Kafka applies nothing of what is stored of its broker.
func TestTheLastCleanerThreadStays(t *testing.T) {
	b, _, err := Parse("", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for count, want := range map[string]string{
		"0": "log.cleaner.threads is 1 now: it can be changed to from 1 to 2 at once", "1": "", "2": "",
		"3": "log.cleaner.threads is 1 now: it can be changed to from 1 to 2 at once",
	} {
		next := map[string]string{"log.cleaner.threads": count}
		got := ""
		if err := b.Check(Change{Kind: KindBroker, Name: "1", Changed: sortedNames(next), Next: next, After: Dynamic{Node: next}}); err != nil {
			_, got = kafka.Answer(err)
		}
		if got != want {
			t.Errorf("log.cleaner.threads=%s: %q, want %q", count, got, want)
		}
	}
}

// TestBrokersRefuseWhatKafkaRefuses has values that are right by themselves; Kafka's own answers are in test/parity.
func TestBrokersRefuseWhatKafkaRefuses(t *testing.T) {
	b, err := NewBroker(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, value string
		refused     bool
	}{
		{"max.connections", "0", true},
		{"max.connections", "1", false},
		{"max.connection.creation.rate", "0", true},
		{"log.cleanup.policy", "compact,compact", true},
		{"log.cleanup.policy", "compact,delete", false},
		{"ssl.enabled.protocols", "TLSv1.3, TLSv1.3", true},
		{"config.providers", "x,x", false},
		{"principal.builder.class", "", true},
		{"remote.log.reader.threads", "1", true},
		{"remote.log.reader.threads", "20", false},
		{"listener.security.protocol.map", "x", true},
		{"listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT", false},
	} {
		settings := map[string]string{c.name: c.value}
		err := b.Check(Change{Kind: KindBroker, Name: "1", Changed: []string{c.name}, Next: settings, After: Dynamic{Node: settings}})
		if code, _ := kafka.Answer(err); (code == kafka.InvalidRequest) != c.refused || !c.refused && err != nil {
			t.Errorf("%s=%q: %v, want refused %v", c.name, c.value, err, c.refused)
		}
	}
}
