package replica

import (
	"fmt"
	"slices"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/condition"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/partition"
	"github.com/raftsman/raftsman/internal/producer"
)

// The timestamps of ListOffsets that are not times.
const (
	Latest                int64 = -1 // the end of what the isolation level lets one read
	Earliest              int64 = -2
	LargestTimestamp      int64 = -3 // the first record with the highest timestamp
	EarliestLocal         int64 = -4 // without tiers the same as Earliest
	LatestTiered          int64 = -5
	EarliestPendingUpload int64 = -6
)

// OffsetQuery asks for one offset of a partition.
type OffsetQuery struct {
	TimestampMs        int64 // a time or one of the names above
	CurrentLeaderEpoch kafka.Epoch
	Committed          bool // isolation level read_committed
	Debug              bool // sees records beyond the high watermark, as tools with replica id -2 do
}

// FoundOffset is the answer; -1 in a field says that there is none.
type FoundOffset struct {
	Offset      kafka.Offset
	TimestampMs int64
	Epoch       kafka.Epoch
}

var noOffset = FoundOffset{Offset: kafka.NoOffset, TimestampMs: -1, Epoch: kafka.NoEpoch}

// leading returns the replica if this node leads it and the client's view of its epoch is not another.
func (m *Manager) leading(tp kafka.TopicPartition, known kafka.Epoch) (*replica, kafka.Epoch, error) {
	if tp.Topic == "" { // which find takes for a topic by id
		return nil, kafka.NoEpoch, kafka.UnknownTopicOrPartition
	}
	p, err := m.find(kafka.TopicID{}, tp.Topic, tp.Partition)
	if err != nil {
		return nil, kafka.NoEpoch, err
	}
	if err := p.serves(); err != nil {
		return nil, kafka.NoEpoch, err
	}
	epoch := kafka.Epoch(p.epoch.Load())
	if epoch == kafka.NoEpoch {
		return nil, epoch, kafka.NotLeaderOrFollower
	}
	return p, epoch, partition.CheckEpoch(known, epoch)
}

// ListOffset finds an offset by time, or one of the special ones.
func (m *Manager) ListOffset(tp kafka.TopicPartition, q OffsetQuery) (FoundOffset, error) {
	p, epoch, err := m.leading(tp, q.CurrentLeaderEpoch)
	if err != nil {
		return noOffset, err
	}
	high := kafka.Offset(p.high.Load())
	bound := high
	// After an election the high watermark may be lower than what the last leader told: then it is not told yet.
	behind := !q.Debug && bound < kafka.Offset(p.epochStart.Load())
	switch {
	case q.Debug:
		bound = p.log.EndOffset()
	case q.Committed:
		bound = p.decided(p.log.StartOffset(), bound)
	}
	var found commitlog.Timestamped
	var ok bool
	switch q.TimestampMs {
	case Latest:
		if behind {
			return noOffset, kafka.OffsetNotAvailable
		}
		return FoundOffset{Offset: bound, TimestampMs: -1, Epoch: epoch}, nil
	case Earliest, EarliestLocal:
		start := p.log.StartOffset()
		return FoundOffset{Offset: start, TimestampMs: -1, Epoch: p.log.EpochAt(start)}, nil
	case LatestTiered, EarliestPendingUpload:
		return noOffset, nil
	case LargestTimestamp:
		// Kafka looks for it among all records, also for who reads only what is decided.
		found, ok, err = p.log.MaxTimestamp(max(bound, high))
		ok = ok && found.Offset < bound
	default:
		found, ok, err = p.log.OffsetForTime(q.TimestampMs, bound)
	}
	switch {
	case err != nil:
		return noOffset, p.failedRead(err)
	case ok:
		return FoundOffset{Offset: found.Offset, TimestampMs: found.TimestampMs, Epoch: found.Epoch}, nil
	case behind:
		return noOffset, kafka.OffsetNotAvailable
	}
	return noOffset, nil
}

// EpochEnd returns the largest leader epoch that is not above the one asked for, and where it ends: the log's end for the
// current one, -1 and -1 for one that the log does not know.
func (m *Manager) EpochEnd(tp kafka.TopicPartition, current, asked kafka.Epoch) (kafka.Epoch, kafka.Offset, error) {
	p, epoch, err := m.leading(tp, current)
	if err != nil {
		return kafka.NoEpoch, kafka.NoOffset, err
	}
	if asked == epoch {
		return epoch, p.log.EndOffset(), nil
	}
	found, end := p.log.EpochEnd(asked)
	return found, end, nil
}

// Producers returns the idempotent and transactional producers that a partition remembers.
func (m *Manager) Producers(tp kafka.TopicPartition) ([]producer.Producer, error) {
	p, _, err := m.leading(tp, kafka.NoEpoch)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Producers().Producers(), nil
}

// DirUsage is what one log directory holds.
type DirUsage struct {
	Path          string
	ID            kafka.UUID
	Err           error // not nil when it is offline
	Total, Usable int64 // bytes of its file system; -1 when not known
	Cordoned      bool  // it takes no new partitions
	Room          condition.Directory
	Partitions    []PartitionUsage
}

// PartitionUsage is the space of one partition.
type PartitionUsage struct {
	kafka.TopicPartition
	Bytes  int64
	Lag    int64 // by how many offsets a future replica is behind
	Future bool  // the copy that is being made as the partition moves here
}

// Usage returns what each log directory holds, partitions in the order of their names.
func (m *Manager) Usage() []DirUsage {
	usage := make([]DirUsage, len(m.dirs))
	for i, d := range m.dirs {
		usage[i] = DirUsage{Path: d.disk.Path(), ID: d.disk.ID(), Total: -1, Usable: -1, Cordoned: d.shut.Load()}
		if d.failed() {
			usage[i].Err = fmt.Errorf("log directory %s: %w", d.disk.Path(), kafka.KafkaStorageError)
			continue
		}
		if total, usable, err := d.disk.Free(); err == nil {
			usage[i].Total, usage[i].Usable = total, usable
		}
		usage[i].Room = d.space.condition(usage[i].Total)
	}
	add := func(dir *logDir, p PartitionUsage) {
		if i := slices.Index(m.dirs, dir); usage[i].Err == nil {
			usage[i].Partitions = append(usage[i].Partitions, p)
		}
	}
	moving := m.moves.futures()
	for s := range m.slots() {
		dir, u, ok := s.usage()
		if !ok {
			continue
		}
		add(dir, u)
		if p := s.awakened(); moving[p] != nil {
			future := moving[p]
			lag := max(int64(p.log.EndOffset()-future.EndOffset()), 0)
			add(p.m.dirOf(future), PartitionUsage{TopicPartition: p.tp, Bytes: future.Size(), Lag: lag, Future: true})
		}
	}
	return usage
}

// dirOf returns the log directory that holds a log.
func (m *Manager) dirOf(l *commitlog.Log) *logDir {
	return m.dirs[slices.IndexFunc(m.dirs, func(d *logDir) bool { return d.disk == l.Dir() })]
}
