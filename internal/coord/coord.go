// Package coord hosts the coordinators' machines on their topics: one shard for each partition of __consumer_offsets that this
// node leads. It loads them, appends what they decide, and lets answers go when what they show is committed.
package coord

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/record"
)

// Partitions is what the coordinators need of the partitions on this node.
type Partitions interface {
	// Append writes one batch and calls done when it is committed or has failed: exactly once, from any goroutine, perhaps
	// before Append returns. The batch may be reused when Append has returned.
	Append(tp kafka.TopicPartition, batch record.Batch, done func(last kafka.Offset, err error))
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
	Consumers func(im *meta.Image, group string) group.ConsumerSettings
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

// Coordinator answers for the groups whose partition of __consumer_offsets this node leads. It is safe for concurrent use.
type Coordinator struct {
	opts   Options
	view   atomic.Pointer[view] // what Do reads
	stop   context.Context      // ends when Close begins
	end    context.CancelFunc
	loads  chan struct{} // limits how many shards load at once: loading is reading the disk
	asides chan struct{} // limits how much work aside is done at once

	metrics Metrics
	wakes   wakes

	mu      sync.Mutex // guards what follows and changes of view; held for memory only
	closed  bool
	image   *meta.Image    // the last that Apply was given
	running sync.WaitGroup // loads and executors
	making  *creation
	sweep   *time.Timer // looks for expired offsets
}

// view is an immutable list of the shards here, by partition.
type view struct {
	partitions int32 // of __consumer_offsets; 0 while there is none
	shards     []*shard
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
	c.view.Store(&view{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep = time.AfterFunc(opts.RetentionCheck, c.expire)
	return c
}

func (o *Options) fill() {
	o.RetentionCheck = cmp.Or(o.RetentionCheck, 10*time.Minute)
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
	s := c.shardOf(groupID)
	if s == nil || !s.post(event{kind: commandEvent, group: groupID, cmd: cmd, reply: reply}) {
		reply(cmd.Fail(kafka.NotCoordinator))
	}
}

func (c *Coordinator) shardOf(groupID string) *shard {
	v := c.view.Load()
	if v.partitions == 0 {
		return nil
	}
	return v.shards[kafka.PartitionFor(groupID, v.partitions)]
}

// List hands all groups that this node answers for to reply, by name; COORDINATOR_LOAD_IN_PROGRESS when some are not known yet.
func (c *Coordinator) List(reply func([]group.Listed, kafka.Error)) {
	l := &listing{left: 1, reply: reply}
	for _, s := range c.view.Load().shards {
		if s == nil {
			continue
		}
		l.expect()
		if !s.post(event{kind: listEvent, list: l.add}) {
			l.add(nil, kafka.None)
		}
	}
	l.add(nil, kafka.None)
}

// listing gathers the groups of all shards.
type listing struct {
	mu    sync.Mutex // guards all below
	left  int
	found []group.Listed
	code  kafka.Error
	reply func([]group.Listed, kafka.Error)
}

func (l *listing) expect() {
	l.mu.Lock()
	l.left++
	l.mu.Unlock()
}

func (l *listing) add(groups []group.Listed, code kafka.Error) {
	l.mu.Lock()
	l.found = append(l.found, groups...)
	if code != kafka.None {
		l.code, l.found = code, nil
	}
	l.left--
	done := l.left == 0
	l.mu.Unlock()
	if done {
		slices.SortFunc(l.found, func(a, b group.Listed) int { return strings.Compare(a.Group, b.Group) })
		l.reply(l.found, l.code)
	}
}

// Apply follows the metadata: it loads shards for partitions that this node now leads, drops those that it leads no more, and
// removes what groups have committed in topics that were deleted. The partitions must have followed before. It costs as much as
// there are changes.
func (c *Coordinator) Apply(old, now *meta.Image) {
	c.mu.Lock()
	c.image = now
	c.mu.Unlock()
	if offsetsTopic(old) != offsetsTopic(now) {
		c.follow()
	}
	if deleted := deletedTopics(old, now); len(deleted) > 0 {
		for _, s := range c.view.Load().shards {
			if s != nil {
				s.postAsync(event{kind: deletedEvent, names: deleted})
			}
		}
	}
}

// offsetsTopic returns the topic that groups are stored in, or nil. Images share it as long as nothing of it changes.
func offsetsTopic(im *meta.Image) *meta.Topic {
	if im == nil {
		return nil
	}
	t, _ := im.Topic(meta.OffsetsTopic)
	return t
}

// follow makes the shards what the last image and the partitions say.
func (c *Coordinator) follow() {
	c.mu.Lock()
	now := c.image
	if c.closed || now == nil {
		c.mu.Unlock()
		return
	}
	before := c.view.Load()
	next := &view{}
	if t := offsetsTopic(now); t != nil {
		next.partitions = int32(len(t.Partitions))
	}
	next.shards = make([]*shard, next.partitions)
	var dropped, started []*shard
	for p := range next.partitions {
		tp := kafka.TopicPartition{Topic: meta.OffsetsTopic, Partition: p}
		epoch, leads := c.opts.Partitions.Leads(tp)
		var s *shard
		if int(p) < len(before.shards) {
			s = before.shards[p]
		}
		if s != nil && (!leads || s.epoch != epoch || s.failed.Load()) {
			dropped, s = append(dropped, s), nil
		}
		if s == nil && leads {
			s = newShard(c, tp, epoch)
			started = append(started, s)
		}
		next.shards[p] = s
	}
	for i := int(next.partitions); i < len(before.shards); i++ {
		if before.shards[i] != nil {
			dropped = append(dropped, before.shards[i])
		}
	}
	c.view.Store(next)
	c.mu.Unlock()
	for _, s := range dropped {
		s.postAsync(event{kind: closeEvent, code: kafka.NotCoordinator})
	}
	for _, s := range started {
		c.start(s.load)
	}
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
	for _, s := range c.view.Load().shards {
		if s != nil {
			s.post(event{kind: expireEvent})
		}
	}
	c.mu.Lock()
	if !c.closed {
		c.sweep.Reset(c.opts.RetentionCheck)
	}
	c.mu.Unlock()
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
	c.sweep.Stop()
	c.mu.Unlock()
	c.end()
	v := c.view.Swap(&view{})
	for _, s := range v.shards {
		if s != nil {
			s.post(event{kind: closeEvent, code: kafka.NotCoordinator})
		}
	}
	done := make(chan struct{})
	go func() { // ends with what it waits for
		for _, s := range v.shards {
			if s != nil {
				<-s.ended
			}
		}
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
