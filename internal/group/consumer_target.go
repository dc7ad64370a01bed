package group

import (
	"slices"
	"strings"

	"github.com/raftsman/raftsman/internal/group/assign"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// assignorChanged tells whether most members want another assignor now.
func (ch *change) assignorChanged() bool {
	return ch.wantedAssignor() != preferred(ch.c.assignors, ch.m.cfg.defaultAssignor())
}

func (ch *change) wantedAssignor() string {
	counts := make(map[string]int, len(ch.c.assignors)+1)
	for name, n := range ch.c.assignors {
		counts[name] = n
	}
	if old := ch.member.assignor; old != nil {
		add(counts, *old, -1)
	}
	if ch.said.assignor != nil {
		add(counts, *ch.said.assignor, 1)
	}
	return preferred(counts, ch.m.cfg.defaultAssignor())
}

func (c *Config) defaultAssignor() string {
	if len(c.Assignors) == 0 {
		return assign.UniformName
	}
	return c.Assignors[0]
}

// look makes a new epoch of the group when a member reads something else, or when the topics that are read have changed.
func (ch *change) look(bump bool) {
	c := ch.c
	ch.epoch = c.epoch
	if !bump && c.seen == ch.m.learned {
		return
	}
	reads, regexReads := ch.readers()
	members := len(c.members)
	if c.members[ch.member.id] == nil && ch.replaced == nil {
		members++
	}
	ch.alike, ch.looked = alike(regexReads, reads, members), true
	if hash := ch.m.metadataHash(reads); bump || hash != c.hash {
		ch.epoch++
		ch.records = append(ch.records, epochRecord(ch.id, ch.epoch, hash))
	}
	if c.oldRecord {
		ch.records = append(ch.records, &ConsumerRecord{Group: ch.id, Key: &sysrecord.ConsumerGroupPartitionMetadataKey{GroupID: ch.id}})
	}
}

// readers is what the members will read when what this one says counts.
func (ch *change) readers() (reads map[string]readers, regexReads map[string]int) {
	c := ch.c
	reads = make(map[string]readers, len(c.reads)+len(ch.said.topics))
	for topic, r := range c.reads {
		reads[topic] = r
	}
	countNames(reads, ch.member.topics, -1)
	countNames(reads, ch.said.topics, 1)
	if old := c.regexes[ch.member.regex]; old != nil && ch.said.regex != ch.member.regex && c.regexReads[ch.member.regex] == 1 {
		c.countRegex(reads, old, -1)
	}
	return reads, ch.regexReaders()
}

// regexReaders is the second half of readers.
func (ch *change) regexReaders() map[string]int {
	all := make(map[string]int, len(ch.c.regexReads)+1)
	for regex, n := range ch.c.regexReads {
		all[regex] = n
	}
	add(all, ch.member.regex, -1)
	add(all, ch.said.regex, 1)
	return all
}

func countNames(reads map[string]readers, topics []string, by int) {
	for _, topic := range topics {
		r := reads[topic]
		r.byName += by
		if reads[topic] = r; r == (readers{}) {
			delete(reads, topic)
		}
	}
}

// makeTarget makes a new target assignment if the group has a new epoch, and the last one was made long enough ago: a thousand
// members that come one by one need not be assigned a thousand times. It returns what the member is led to.
func (ch *change) makeTarget() (epoch int32, target assign.Assignment) {
	c := ch.c
	last := c.targetOf(ch.member.id, ch.said.instanceID)
	if ch.replaced != nil {
		last = c.target[ch.replaced.id]
	}
	interval := ch.m.cluster.Consumers(ch.id).AssignmentInterval
	if c.targetAt >= ch.epoch || c.targetMs != 0 && interval > 0 && ch.now.UnixMilli() < c.targetMs+interval.Milliseconds() {
		return c.targetAt, last
	}
	members, g := ch.toAssign(last)
	assignor, _ := assign.ByName(ch.wantedAssignor())
	for i, given := range assignor(g) {
		id := members[i]
		before, had := c.target[id]
		if id == ch.member.id {
			target = given
			if ch.replaced != nil {
				before, had = last, true
			}
		}
		if !had || !before.Equal(given) {
			ch.records = append(ch.records, targetRecord(ch.id, id, given))
		}
	}
	ch.records = append(ch.records, targetEpochRecord(ch.id, ch.epoch, ch.now.UnixMilli()))
	return ch.epoch, target
}

// toAssign is the group as it will be.
func (ch *change) toAssign(last assign.Assignment) (ids []string, g assign.Group) {
	c := ch.c
	if !ch.looked {
		ch.alike = alike(c.regexReads, c.reads, len(c.members))
	}
	names := newTopicIDs(ch.m.cluster, c)
	ids = c.ids()
	if ch.replaced != nil {
		ids = slices.DeleteFunc(ids, func(id string) bool { return id == ch.replaced.id })
	}
	if at, known := slices.BinarySearch(ids, ch.member.id); !known {
		ids = slices.Insert(ids, at, ch.member.id)
	}
	g = assign.Group{Alike: ch.alike, Partitions: names.partitions}
	for _, id := range ids {
		said, owned := &ch.said, last
		if id != ch.member.id {
			said, owned = &c.members[id].memberSaid, c.target[id]
		}
		g.Members = append(g.Members, assign.Member{
			ID: id, InstanceID: said.instanceID, Topics: names.of(said), Owned: owned,
		})
	}
	return ids, g
}

func (c *consumerGroup) regexTopics(regex string) []string {
	if r := c.regexes[regex]; r != nil && regex != "" {
		return r.topics
	}
	return nil
}

// topicIDs turns what members of a group read into the ids of the topics that exist. Members that say the same share one list.
type topicIDs struct {
	cluster Cluster
	group   *consumerGroup
	topics  map[kafka.TopicID]int32
	lists   map[whatIsRead][]kafka.TopicID
}

// whatIsRead is names, joined, and a regular expression.
type whatIsRead struct{ names, regex string }

func newTopicIDs(c Cluster, g *consumerGroup) *topicIDs {
	return &topicIDs{cluster: c, group: g, topics: map[kafka.TopicID]int32{}, lists: map[whatIsRead][]kafka.TopicID{}}
}

func (t *topicIDs) partitions(id kafka.TopicID) int32 { return t.topics[id] }

func (t *topicIDs) of(said *memberSaid) []kafka.TopicID {
	key := whatIsRead{strings.Join(said.topics, "\x00"), said.regex}
	if list, known := t.lists[key]; known {
		return list
	}
	var list []kafka.TopicID
	for _, each := range [...][]string{said.topics, t.group.regexTopics(said.regex)} {
		for _, name := range each {
			if topic, exists := t.cluster.Topic(name); exists {
				t.topics[topic.ID] = topic.Partitions
				list = append(list, topic.ID)
			}
		}
	}
	slices.SortFunc(list, assign.CompareIDs)
	list = slices.Compact(list)
	t.lists[key] = list
	return list
}
