package coord

import (
	"iter"
	"runtime/debug"
	"slices"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// cluster shows an image to the machine.
type cluster struct {
	*meta.Image
	consumers func(im *meta.Image, group string) group.ConsumerSettings
}

func (c cluster) Topic(name string) (group.Topic, bool) {
	t, ok := c.Image.Topic(name)
	return shown(t, ok)
}

func (c cluster) TopicByID(id kafka.TopicID) (group.Topic, bool) {
	t, ok := c.Image.TopicByID(id)
	return shown(t, ok)
}

func shown(t *meta.Topic, ok bool) (group.Topic, bool) {
	if !ok {
		return group.Topic{}, false
	}
	return group.Topic{Name: t.Name, ID: t.ID, Partitions: int32(len(t.Partitions))}, true
}

func (c cluster) TopicNames() iter.Seq[string] {
	return func(yield func(string) bool) {
		for t := range c.Topics() {
			if !yield(t.Name) {
				return
			}
		}
	}
}

func (c cluster) Racks(id kafka.TopicID, partition int32) []string {
	var racks []string
	if t, ok := c.Image.TopicByID(id); ok && int(partition) < len(t.Partitions) {
		for _, replica := range t.Partitions[partition].Replicas {
			if b, ok := c.Broker(replica); ok && b.Rack != nil {
				racks = append(racks, *b.Rack)
			}
		}
	}
	return racks
}

func (c cluster) Version() int64 { return int64(c.Offset()) }

func (c cluster) Consumers(name string) group.ConsumerSettings { return c.consumers(c.Image, name) }

// learn tells the machine of the newest metadata, at the cost of what has changed since it was told last. Groups look at it when a
// member is heard of, so nobody need be told before.
func (s *groupShard) learn() {
	now := s.c.opts.Image()
	if now == s.learned {
		return
	}
	var changed []string
	created := false
	if s.learned != nil {
		for change := range meta.TopicChanges(s.learned, now) {
			if sameForGroups(change.Old, change.New) {
				continue
			}
			t := change.New
			if t == nil {
				t = change.Old
			}
			changed, created = append(changed, t.Name), created || change.Old == nil
		}
	}
	s.learned = now
	s.machine.Learn(cluster{now, s.c.opts.Consumers}, changed, created)
}

// sameForGroups tells whether a topic is as it was for those who assign its partitions: who leads or is in sync does not matter to
// them, and changes far more often.
func sameForGroups(a, b *meta.Topic) bool {
	return a != nil && b != nil && a.ID == b.ID && slices.EqualFunc(a.Partitions, b.Partitions, func(x, y meta.Partition) bool {
		return slices.Equal(x.Replicas, y.Replicas)
	})
}

// doAside does what the machine wants done without it, one after the other, and hands the machine what comes of it.
func (s *groupShard) doAside(asides []group.Aside) {
	if len(asides) == 0 {
		return
	}
	s.c.start(func() {
		for _, a := range asides {
			select {
			case s.c.asides <- struct{}{}:
			case <-s.ended:
				return
			}
			result, ok := s.workAside(a)
			<-s.c.asides
			if !ok {
				s.postAsync(groupEvent{kind: brokenEvent})
				return
			}
			s.task(func() {
				s.maintain(func() group.Effects {
					s.learn()
					return s.machine.Finish(s.c.opts.Now(), a.Group, result)
				})
			})
		}
	})
}

// workAside survives a panic as the shard does, which is loaded again then.
func (s *groupShard) workAside(a group.Aside) (result any, ok bool) {
	defer func() {
		if reason := recover(); reason != nil {
			if _, ours := reason.(invariant.Violation); ours {
				panic(reason)
			}
			s.c.opts.Log.Error("work for a group caused a panic", "partition", s.tp, "group", a.Group, "panic", reason, "stack", string(debug.Stack()))
		}
	}()
	return a.Work(s.goesOn), true
}
