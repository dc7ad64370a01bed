package commitlog

import (
	"math"
	"time"
)

// Config is what a topic's settings mean to the log of one partition. Zero and negative limits are as in Kafka: RetentionMs
// and RetentionBytes of -1 keep everything.
type Config struct {
	SegmentBytes       int   // segment.bytes: a segment is rolled before it would grow beyond
	SegmentMs          int64 // segment.ms
	SegmentJitterMs    int64 // segment.jitter.ms: segments roll up to so much earlier, each by its own chance
	IndexBytes         int   // segment.index.bytes: a segment is rolled when one of its indexes holds so much
	IndexIntervalBytes int   // index.interval.bytes

	Delete             bool  // cleanup.policy holds delete: retention applies
	Compact            bool  // cleanup.policy holds compact
	DeleteRetentionMs  int64 // delete.retention.ms
	CompactionLagMinMs int64 // min.compaction.lag.ms
	CompactionLagMaxMs int64 // max.compaction.lag.ms; math.MaxInt64 is none
	RetentionMs        int64
	RetentionBytes     int64
	FileDeleteDelayMs  int64 // file.delete.delay.ms: how long files of removed segments stay, renamed to .deleted
	BeginsElsewhere    bool  // what lies before the first segment is in a snapshot, or with remote.storage.enable another broker keeps it

	ProducerIDExpiration time.Duration // producer.id.expiration.ms
	MaxProducers         int           // how many producers the idempotence window remembers
}

// DefaultConfig has Kafka's defaults of a topic.
func DefaultConfig() Config {
	return Config{
		SegmentBytes:         1 << 30,
		SegmentMs:            7 * 24 * 60 * 60 * 1000,
		IndexBytes:           10 << 20,
		IndexIntervalBytes:   4096,
		Delete:               true,
		RetentionMs:          7 * 24 * 60 * 60 * 1000,
		RetentionBytes:       -1,
		DeleteRetentionMs:    24 * 60 * 60 * 1000,
		CompactionLagMaxMs:   math.MaxInt64,
		FileDeleteDelayMs:    60_000,
		ProducerIDExpiration: 24 * time.Hour,
		MaxProducers:         100_000,
	}
}
