// Package replica owns the partitions of this node: their logs, the rules of their leaders, and the requests that wait for
// them. Appends are made durable by one flusher per log directory; fetches wait without a goroutine and are woken when the
// high watermark moves.
package replica

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/metric"
	"github.com/raftsman/raftsman/internal/partition"
)

// Options are what a Manager stands on.
type Options struct {
	NodeID kafka.NodeID
	Dirs   []*commitlog.Dir // opened, in the order of log.dirs; closed by the Manager
	// MetadataDir is the metadata log's where that is none of Dirs: it is looked after and closed like them, but takes no
	// partitions. nil otherwise.
	MetadataDir *commitlog.Dir
	Metadata    MetadataLog    // which the scrub reads too; nil: it does not
	Broker      *config.Broker // static configuration
	Log         *slog.Logger
	Now         func() time.Time // nil: time.Now
	// OnDirFailure is called once for each log directory that goes offline, with how many are left. The node ends when none is.
	OnDirFailure func(path string, left int, cause error)
	// OnDirReport is called when TakeDirReport has something to tell. It must not block. nil: nobody wants to know.
	OnDirReport func()

	// Peers are the other brokers, which this node's followers fetch from. nil: it follows nobody.
	Peers Peers
	// AlterPartition asks the active controller to change in-sync sets. A code of the whole answer is a kafka.Error. nil: none changes.
	AlterPartition func(ctx context.Context, wanted meta.AlterPartition) (meta.AlterPartitionResult, error)

	dutiesByCaller bool // for tests: what the background does every so often is done by nobody but them
}

// Manager owns the partitions that live on this node. All methods are safe for concurrent use, except that Apply calls follow
// each other.
type Manager struct {
	node         kafka.NodeID
	dirs         []*logDir // for partitions
	allDirs      []*logDir // these, and the metadata log's if it has one of its own
	broker       *config.Broker
	log          *slog.Logger
	now          func() time.Time
	began        time.Time
	onDirFailure func(string, int, error)
	onDirReport  func()
	osDurability bool // raftsman.durability=os: acknowledged means in the page cache
	lagMaxMs     int64
	brokers      atomic.Pointer[partition.Brokers] // those of the last image
	racks        atomic.Pointer[racks]             // nil: consumers read from leaders alone
	brokerEpoch  atomic.Int64                      // under which this node is registered; -1 before
	fetchers     fetchers
	alterer      alterer
	asLeader     throttle // of replication
	asFollower   throttle

	fetchOps sync.Pool // *fetchOp; the Manager's own, as they keep timers

	table  table
	expiry expiry
	guards atomic.Uint64 // the last producer.Guard that was given out

	trafficMu sync.Mutex   // guards gone, and that a topic is counted in the table or there; held for memory only
	gone      TrafficNow   // of topics that were deleted
	parked    metric.Gauge // produces that wait, by partition
	deletions metric.Gauge // the same of DeleteRecords
	flushes   FlushMetrics

	applyMu  sync.Mutex // guards what only Apply, the ticker and Close use
	settings settingsCache
	found    map[kafka.TopicPartition]*logDir // the folders that were on disk at the start and have no topic yet
	closed   bool

	unmade  unmade
	report  dirReport
	moves   moves
	futures map[kafka.TopicPartition]*logDir // moves that a restart cut short: where to

	recovery   recovery
	background background
	cleaner    cleaner
	damage     DamageMetrics
	metadata   MetadataLog
	scrubber   scrubber
}

// table finds partitions without a lock. It is changed by Apply alone, topic by topic.
type table struct {
	byName sync.Map // string → *topic
	byID   sync.Map // kafka.TopicID → *topic
}

// topic is a topic of the cluster. It never changes: growth makes another.
type topic struct {
	name  string
	id    kafka.TopicID
	image *meta.Topic
	slots []*slot // by partition number; nil where the partition is not on this node
	// traffic is the same for all that a topic ever was; nil while none of its partitions was on this node.
	traffic *Traffic
}

// upMs is how long the Manager has been there, in milliseconds: what waits counts by it, and a clock that is set ends no wait.
func (m *Manager) upMs(now time.Time) int64 { return now.Sub(m.began).Milliseconds() }

// New returns a Manager without partitions: Apply brings them.
func New(o Options) *Manager {
	m := &Manager{
		node: o.NodeID, broker: o.Broker, log: o.Log, now: o.Now, onDirFailure: o.OnDirFailure, onDirReport: o.OnDirReport, metadata: o.Metadata,
		osDurability: o.Broker.String("raftsman.durability") == "os", lagMaxMs: o.Broker.Int64("replica.lag.time.max.ms"),
	}
	m.brokers.Store(new(partition.Brokers))
	m.brokerEpoch.Store(int64(partition.NoBrokerEpoch))
	if m.now == nil {
		m.now = time.Now
	}
	m.began = m.now()
	for _, disk := range o.Dirs {
		m.dirs = append(m.dirs, newLogDir(m, disk))
	}
	m.allDirs = m.dirs
	if o.MetadataDir != nil {
		m.allDirs = append(m.dirs[:len(m.dirs):len(m.dirs)], newLogDir(m, o.MetadataDir))
	}
	m.expiry.m = m
	m.cleaner.m = m
	m.settings.broker = o.Broker
	m.recovery.init(m)
	m.asLeader.init()
	m.asFollower.init()
	m.fetchers.start(m, o.Peers)
	m.alterer.start(m, o.AlterPartition)
	m.moves.start(m)
	m.background.start(m, o.dutiesByCaller)
	m.scrubber.start(m)
	return m
}

// find returns the local replica of a partition, by topic id when one is given. One that sleeps wakes.
func (m *Manager) find(id kafka.TopicID, name string, number int32) (*replica, error) {
	t, unknown := m.table.topic(id, name)
	if t == nil {
		return nil, unknown
	}
	if number < 0 || int(number) >= len(t.slots) {
		return nil, kafka.UnknownTopicOrPartition
	}
	s := t.slots[number]
	if s == nil {
		return nil, kafka.NotLeaderOrFollower
	}
	return s.replica()
}

// topic returns a topic, or nil and the error that a client gets.
func (t *table) topic(id kafka.TopicID, name string) (*topic, error) {
	if id.IsZero() && name != "" {
		return t.named(name), kafka.UnknownTopicOrPartition
	}
	found, _ := t.byID.Load(id)
	topic, _ := found.(*topic)
	return topic, kafka.UnknownTopicId
}

// named returns a topic by its name, or nil.
func (t *table) named(name string) *topic {
	found, _ := t.byName.Load(name)
	topic, _ := found.(*topic)
	return topic
}

func (t *table) add(new *topic) {
	t.byName.Store(new.name, new)
	t.byID.Store(new.id, new)
}

// replace puts one replica in the place of another. Apply's lock is held.
func (t *table) replace(p, next *replica) {
	t.named(p.tp.Topic).slots[p.tp.Partition].awake.Store(next)
}

// remove forgets a topic, unless another one has taken its place.
func (t *table) remove(gone *topic) {
	t.byName.CompareAndDelete(gone.name, gone)
	t.byID.CompareAndDelete(gone.id, gone)
}

// growTo returns a slice of n zero elements, in s's array if it is large enough.
func growTo[E any](s []E, n int) []E {
	if cap(s) < n {
		return make([]E, n)
	}
	return s[:n]
}
