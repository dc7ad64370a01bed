// Package coord hosts the coordinators' machines on their topics: one shard for each partition of __consumer_offsets that this
// node leads. It loads them, appends what they decide, and lets answers go when what they show is committed.
package coord

import (
	"context"
	"log/slog"
	"time"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/record"
)

// OffsetsTopic is where groups and their offsets are stored.
const OffsetsTopic = "__consumer_offsets"

// Partitions is what the coordinators need of the partitions on this node.
type Partitions interface {
	// Append writes one batch and calls done when it is committed or has failed: exactly once, from any goroutine, perhaps
	// before Append returns. The batch may be reused when Append has returned.
	Append(tp kafka.TopicPartition, batch record.Batch, done func(last kafka.Offset, err error))
	// Load hands every batch to each, from the start of the log to its end.
	Load(tp kafka.TopicPartition, each func(record.Batch) error) error
	// Leads tells whether this node leads the partition, and in which epoch.
	Leads(tp kafka.TopicPartition) (kafka.Epoch, bool)
}

// Options are what a Coordinator stands on.
type Options struct {
	NodeID     kafka.NodeID
	Partitions Partitions
	Image      func() *meta.Image
	// CreateTopic creates an internal topic, with the settings that Kafka gives it, and returns when it is in the Image. It
	// returns nil when the topic was there already.
	CreateTopic func(ctx context.Context, name string) error
	Group       group.Config
	// RetentionCheck is how often expired offsets are looked for: offsets.retention.check.interval.ms.
	RetentionCheck time.Duration
	// CommitTimeout is how long an answer waits for its records to be committed: offset.commit.timeout.ms.
	CommitTimeout time.Duration
	// LoadGrace is how long requests wait for a shard that loads before they are told COORDINATOR_LOAD_IN_PROGRESS.
	LoadGrace time.Duration
	Log       *slog.Logger
	Now       func() time.Time
	Random    func([]byte)
}
