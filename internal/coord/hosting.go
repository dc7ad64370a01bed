package coord

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// hosted is a shard, of whatever kind.
type hosted interface {
	comparable
	load()
	isFor(epoch kafka.Epoch) bool
	drop()
	dropNow()
	wait()
}

// hosting is the shards of one topic: one for each of its partitions that this node leads.
type hosting[S hosted] struct {
	c     *Coordinator
	topic string
	build func(c *Coordinator, tp kafka.TopicPartition, epoch kafka.Epoch) S
	view  atomic.Pointer[view[S]] // changed with following and c.mu held

	following sync.Mutex // held while the shards are made what they are to be: one at a time
	making    *creation  // guarded by c.mu
	looking   bool       // guarded by c.mu: a timer will follow
}

// view is an immutable list of the shards here, by partition.
type view[S hosted] struct {
	topic      kafka.TopicID
	partitions int32 // of the topic; 0 while there is none
	shards     []S   // the zero value where another node leads
}

func (h *hosting[S]) open(c *Coordinator, topic string, build func(*Coordinator, kafka.TopicPartition, kafka.Epoch) S) {
	h.c, h.topic, h.build = c, topic, build
	h.view.Store(&view[S]{})
}

// of returns the shard that answers for a key, or nil.
func (h *hosting[S]) of(key string) S {
	v := h.view.Load()
	if v.partitions == 0 {
		var none S
		return none
	}
	return v.shards[kafka.PartitionFor(key, v.partitions)]
}

// at returns the shard of a partition, or nil.
func (h *hosting[S]) at(partition int32) (s S) {
	if v := h.view.Load(); partition >= 0 && partition < v.partitions {
		s = v.shards[partition]
	}
	return s
}

// all goes through the shards here.
func (h *hosting[S]) all() iter.Seq[S] { return h.view.Load().all() }

func (v *view[S]) all() iter.Seq[S] {
	return func(yield func(S) bool) {
		var none S
		for _, s := range v.shards {
			if s != none && !yield(s) {
				return
			}
		}
	}
}

// topicIn returns a topic, or nil. Images share it as long as nothing of it changes.
func topicIn(im *meta.Image, name string) *meta.Topic {
	if im == nil {
		return nil
	}
	t, _ := im.Topic(name)
	return t
}

// changed tells whether the topic has, or its leaders.
func (h *hosting[S]) changed(old, now *meta.Image) bool {
	return topicIn(old, h.topic) != topicIn(now, h.topic)
}

// followAgainAfter is how soon it is looked again whether partitions are led that the metadata says this node leads: their logs could not be
// opened, for want of room or descriptors.
const followAgainAfter = time.Second

// follow makes the shards what the last image and the partitions say.
func (h *hosting[S]) follow() {
	h.following.Lock()
	defer h.following.Unlock()
	c := h.c
	c.mu.Lock()
	now, closed := c.image, c.closed
	c.mu.Unlock()
	if now == nil || closed { // then no log is to be opened
		return
	}
	topic := topicIn(now, h.topic)
	led := h.led(topic)

	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	before := h.view.Load()
	next := &view[S]{partitions: int32(len(led)), shards: make([]S, len(led))}
	if topic != nil {
		next.topic = topic.ID
	}
	type start struct{ shard, after S }
	var dropped []S
	var started []start
	var none S
	for p, l := range led {
		s, old := h.at(int32(p)), none
		if s != none && (!l.leads || before.topic != next.topic || !s.isFor(l.epoch)) {
			dropped, s, old = append(dropped, s), none, s
		}
		if s == none && l.leads {
			s = h.build(c, kafka.TopicPartition{Topic: h.topic, Partition: int32(p)}, l.epoch)
			started = append(started, start{s, old})
		}
		next.shards[p] = s
		h.lookAgain(!l.leads && topic.Partitions[p].Leader == c.opts.NodeID)
	}
	for p := len(led); p < len(before.shards); p++ {
		if before.shards[p] != none {
			dropped = append(dropped, before.shards[p])
		}
	}
	h.view.Store(next)
	c.mu.Unlock()
	for _, s := range dropped {
		s.drop()
	}
	for _, s := range started {
		c.start(func() {
			if s.after != none {
				s.after.wait() // what it still appends is to be read
			}
			s.shard.load()
		})
	}
}

// leading is whether this node leads a partition, and in which epoch.
type leading struct {
	epoch kafka.Epoch
	leads bool
}

// led asks the partitions of the topic, which may open their logs: no lock is held that whoever is told of a disk's failure needs.
func (h *hosting[S]) led(topic *meta.Topic) []leading {
	if topic == nil {
		return nil
	}
	all := make([]leading, len(topic.Partitions))
	for p := range all {
		all[p].epoch, all[p].leads = h.c.opts.Partitions.Leads(kafka.TopicPartition{Topic: h.topic, Partition: int32(p)})
	}
	return all
}

// lookAgain follows once more after a while, if it is due. The caller holds c.mu.
func (h *hosting[S]) lookAgain(due bool) {
	if !due || h.looking {
		return
	}
	h.looking = true
	time.AfterFunc(followAgainAfter, func() {
		h.c.mu.Lock()
		h.looking = false
		h.c.mu.Unlock()
		h.follow()
	})
}

// close ends all shards. What it returns waits until they have answered everybody.
func (h *hosting[S]) close() (wait func()) {
	v := h.view.Swap(&view[S]{})
	for s := range v.all() {
		s.dropNow()
	}
	return func() {
		for s := range v.all() {
			s.wait()
		}
	}
}

// listing gathers what all shards have.
type listing[T any] struct {
	order func(a, b T) int
	reply func([]T, kafka.Error)

	mu    sync.Mutex // guards all below
	left  int
	found []T
	code  kafka.Error
}

// newListing expects one add beside those of the shards.
func newListing[T any](reply func([]T, kafka.Error), order func(a, b T) int) *listing[T] {
	return &listing[T]{order: order, reply: reply, left: 1}
}

func (l *listing[T]) expect() {
	l.mu.Lock()
	l.left++
	l.mu.Unlock()
}

func (l *listing[T]) add(some []T, code kafka.Error) {
	l.mu.Lock()
	l.found = append(l.found, some...)
	if code != kafka.None {
		l.code = code
	}
	l.left--
	done := l.left == 0
	l.mu.Unlock()
	switch {
	case !done:
	case l.code != kafka.None:
		l.reply(nil, l.code)
	default:
		slices.SortFunc(l.found, l.order)
		l.reply(l.found, kafka.None)
	}
}

// refused counts a shard that has ended as one that has nothing.
func (l *listing[T]) refused(code kafka.Error) {
	if code == kafka.NotCoordinator {
		code = kafka.None
	}
	l.add(nil, code)
}
