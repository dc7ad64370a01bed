// Package coord hosts the coordinators' machines on their topics: one shard for each partition of __consumer_offsets and of
// __transaction_state that this node leads. It loads them, appends what they decide, lets answers go when what they show is
// committed, and writes the markers of transactions.
package coord

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/replica"
	"github.com/raftsman/raftsman/internal/txn"
)

// Partitions is what the coordinators need of the partitions on this node.
type Partitions interface {
	// Append writes one batch and calls done when it is committed or has failed: exactly once, from any goroutine, perhaps
	// before Append returns. The batch may be reused when Append has returned.
	Append(tp kafka.TopicPartition, batch record.Batch, done func(last kafka.Offset, err error))
	// AppendTransactional is Append for a batch that belongs to a producer's transaction. Where it is the first one in the partition,
	// guard is what the caller was given before the transaction's coordinator was asked.
	AppendTransactional(tp kafka.TopicPartition, batch record.Batch, guard producer.Guard, done func(last kafka.Offset, err error))
	// EndTransaction writes a marker, and calls done like Append.
	EndTransaction(tp kafka.TopicPartition, m replica.Marker, done func(error))
	// Together lets what is appended meanwhile, little to each of several partitions, become durable in one go.
	Together(appends func())
	// AwaitCommitted waits until what this node leads with is committed, or one of the channels is closed, which is an error.
	AwaitCommitted(tp kafka.TopicPartition, ended, stop <-chan struct{}) error
	// Load hands every batch to each, from the start of the log to its end.
	Load(tp kafka.TopicPartition, each func(record.Batch) error) error
	// Leads tells whether this node leads the partition, and in which epoch.
	Leads(tp kafka.TopicPartition) (kafka.Epoch, bool)
	// BatchBytesMax is the largest batch that Append takes now.
	BatchBytesMax(tp kafka.TopicPartition) int
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
	// Consumers is what is set for members of the consumer protocol in a group.
	Consumers    func(im *meta.Image, group string) group.ConsumerSettings
	Transactions txn.Config
	// Brokers are those that lead partitions of transactions which this node does not lead. nil: there are none.
	Brokers Brokers
	// NextProducerID returns a producer id that nobody has had.
	NextProducerID func(ctx context.Context) (kafka.ProducerID, error)
	// AbortCheck is how often transactions are looked for that are over their time:
	// transaction.abort.timed.out.transaction.cleanup.interval.ms.
	AbortCheck time.Duration
	// ExpireCheck is how often transactional ids are looked for that nobody uses:
	// transaction.remove.expired.transaction.cleanup.interval.ms.
	ExpireCheck time.Duration
	// RetentionCheck is how often expired offsets are looked for: offsets.retention.check.interval.ms.
	RetentionCheck time.Duration
	// CommitTimeout is how long an answer waits for its records to be committed: offsets.commit.timeout.ms.
	CommitTimeout time.Duration
	// LoadGrace is how long requests wait for a shard that loads before they are told COORDINATOR_LOAD_IN_PROGRESS: most
	// loads are over sooner than a client would ask again.
	LoadGrace time.Duration
	Log       *slog.Logger
	Now       func() time.Time
	Random    func([]byte)
}

// Coordinator answers for the groups and the transactional ids whose partition of their topic this node leads. It is safe for concurrent use.
type Coordinator struct {
	opts   Options
	stop   context.Context // ends when Close begins
	end    context.CancelFunc
	loads  chan struct{} // limits how many shards load at once: loading is reading the disk
	asides chan struct{} // limits how much work aside is done at once

	groups       hosting[*groupShard]
	transactions hosting[*txnShard]
	markers      markers
	remote       remoteMarkers

	metrics Metrics
	wakes   wakes

	mu      sync.Mutex // guards what follows and changes of view; held for memory only
	closed  bool
	image   *meta.Image    // the last that Apply was given
	running sync.WaitGroup // loads and executors
	sweeps  []*time.Timer  // look for what has expired
}

// loadsAtOnce is how many partitions are loaded in parallel.
const loadsAtOnce = 4

// asidesAtOnce is how many groups have their regular expressions resolved, or their members assigned, in parallel, as Kafka's group.coordinator.background.threads
// says unless it is set.
const asidesAtOnce = 2

// New returns a Coordinator of nothing: Apply tells it what to host. Options left at zero are Kafka's defaults.
func New(opts Options) *Coordinator {
	opts.fill()
	c := &Coordinator{opts: opts, loads: make(chan struct{}, loadsAtOnce), asides: make(chan struct{}, asidesAtOnce)}
	c.wakes.start = c.start
	c.stop, c.end = context.WithCancel(context.Background())
	c.groups.open(c, meta.OffsetsTopic, newGroupShard)
	c.transactions.open(c, meta.TransactionsTopic, newTxnShard)
	c.markers.open(c)
	c.remote.open(c)
	c.every(opts.RetentionCheck, c.expire)
	c.every(opts.AbortCheck, c.abortTimedOut)
	c.every(opts.ExpireCheck, c.expireIDs)
	return c
}

func (o *Options) fill() {
	o.RetentionCheck = cmp.Or(o.RetentionCheck, 10*time.Minute)
	o.AbortCheck = cmp.Or(o.AbortCheck, 10*time.Second)
	o.ExpireCheck = cmp.Or(o.ExpireCheck, time.Hour)
	o.CommitTimeout = cmp.Or(o.CommitTimeout, 5*time.Second)
	o.LoadGrace = cmp.Or(o.LoadGrace, 500*time.Millisecond)
	if o.Consumers == nil {
		o.Consumers = func(*meta.Image, string) group.ConsumerSettings {
			return group.ConsumerSettings{
				SessionTimeout: 45 * time.Second, HeartbeatInterval: 5 * time.Second, AssignmentInterval: time.Second, AssignorOffload: true,
			}
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = func(b []byte) { _, _ = rand.Read(b) } // crypto/rand never fails
	}
}

// Do lets the group's shard decide a command. reply is called exactly once, from any goroutine, perhaps before Do returns, and
// must not block. The command is borrowed until then.
func (c *Coordinator) Do(groupID string, cmd group.Command, reply func(group.Reply)) {
	if refused := c.opts.Group.Check(groupID, cmd); refused != nil {
		reply(refused)
		return
	}
	s := c.groups.of(groupID)
	if s == nil || !s.post(groupEvent{kind: commandEvent, key: groupID, cmd: cmd, reply: reply}) {
		reply(cmd.Fail(kafka.NotCoordinator))
	}
}

// List hands all groups that this node answers for to reply, by name; COORDINATOR_LOAD_IN_PROGRESS when some are not known yet.
func (c *Coordinator) List(reply func([]group.Listed, kafka.Error)) {
	l := newListing(reply, func(a, b group.Listed) int { return strings.Compare(a.Group, b.Group) })
	for s := range c.groups.all() {
		l.expect()
		e := groupEvent{kind: taskEvent, task: func() { l.add(s.machine.List(), kafka.None) }, refused: l.refused}
		if !s.post(e) {
			l.add(nil, kafka.None)
		}
	}
	l.add(nil, kafka.None)
}

// Apply follows the metadata: it loads shards for partitions that this node now leads, drops those that it leads no more, and
// removes what groups have committed in topics that were deleted. The partitions must have followed before. It costs as much as
// there are changes.
func (c *Coordinator) Apply(old, now *meta.Image) {
	c.mu.Lock()
	c.image = now
	c.mu.Unlock()
	if c.groups.changed(old, now) {
		c.groups.follow()
	}
	if c.transactions.changed(old, now) {
		c.transactions.follow()
	}
	c.markers.retryAll()
	if deleted := deletedTopics(old, now); len(deleted) > 0 {
		for s := range c.groups.all() {
			s.postAsync(groupEvent{kind: taskEvent, keep: true, task: func() {
				s.maintain(func() group.Effects { return s.machine.TopicsDeleted(deleted) })
			}})
		}
	}
}

// follow makes the shards what the last image and the partitions say.
func (c *Coordinator) follow() {
	c.groups.follow()
	c.transactions.follow()
}

// newest is the metadata that the partitions have followed last.
func (c *Coordinator) newest() *meta.Image {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.image
}

// deletedTopics lists the names of topics that are no more, under their id.
func deletedTopics(old, now *meta.Image) []string {
	if old == nil {
		return nil
	}
	var names []string
	for change := range meta.TopicChanges(old, now) {
		gone := change.Old != nil && (change.New == nil || change.New.ID != change.Old.ID)
		if gone && change.Old.Name != meta.OffsetsTopic {
			names = append(names, change.Old.Name)
		}
	}
	return names
}

// expire lets all shards look for expired offsets.
func (c *Coordinator) expire() {
	for s := range c.groups.all() {
		s.task(func() { s.maintain(func() group.Effects { return s.machine.Expire(c.opts.Now()) }) })
	}
}

// every does something again and again until Close.
func (c *Coordinator) every(interval time.Duration, do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var timer *time.Timer
	timer = time.AfterFunc(interval, func() {
		do()
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.closed {
			timer.Reset(interval)
		}
	})
	c.sweeps = append(c.sweeps, timer)
}

// start runs work on a goroutine that Close waits for. It returns false when Close has begun.
func (c *Coordinator) start(work func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.running.Go(work)
	return true
}

// Close answers all that wait with NOT_COORDINATOR, at once, and ends when nothing of the Coordinator runs any more.
func (c *Coordinator) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	for _, timer := range c.sweeps {
		timer.Stop()
	}
	c.mu.Unlock()
	c.end()
	groupsEnded, transactionsEnded := c.groups.close(), c.transactions.close()
	c.markers.close()
	done := make(chan struct{})
	go func() { // ends with what it waits for
		groupsEnded()
		transactionsEnded()
		c.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close coordinator: %w", ctx.Err())
	}
}

// Image returns the metadata that the Coordinator goes by.
func (c *Coordinator) Image() *meta.Image { return c.opts.Image() }
