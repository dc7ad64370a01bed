package group

import (
	"time"

	"github.com/raftsman/raftsman/internal/group/assign"
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
	ch.looked = true
	reads := ch.readers()
	if hash := ch.m.metadataHash(reads); bump || hash != c.hash {
		ch.epoch++
		ch.records = append(ch.records, epochRecord(ch.id, ch.epoch, hash))
	}
	if c.oldRecord {
		ch.records = append(ch.records, &ConsumerRecord{Group: ch.id, Key: &sysrecord.ConsumerGroupPartitionMetadataKey{GroupID: ch.id}})
	}
}

// readers is who will read each topic when what this member says counts.
func (ch *change) readers() map[string]readers {
	c := ch.c
	reads := make(map[string]readers, len(c.reads)+len(ch.said.topics))
	for topic, r := range c.reads {
		reads[topic] = r
	}
	countNames(reads, ch.member.topics, -1)
	countNames(reads, ch.said.topics, 1)
	if old := c.regexes[ch.member.regex]; old != nil && ch.said.regex != ch.member.regex && c.regexReads[ch.member.regex] == 1 {
		c.countRegex(reads, old, -1)
	}
	return reads
}

// regexReaders is how many members will read by each regular expression then.
func (ch *change) regexReaders() map[string]int {
	all := make(map[string]int, len(ch.c.regexReads)+1)
	for regex, n := range ch.c.regexReads {
		all[regex] = n
	}
	add(all, ch.member.regex, -1)
	add(all, ch.said.regex, 1)
	return all
}

// alike tells whether all members will read the same topics. It is asked for every target: also a member that makes no new epoch changes
// it, as one that comes and reads nothing, or by an expression of which no topic is known yet.
func (ch *change) alike() bool {
	members := len(ch.c.members)
	if ch.c.members[ch.member.id] == nil && ch.replaced == nil {
		members++
	}
	return alike(ch.regexReaders(), ch.readers(), members)
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
// members that come one by one need not be assigned a thousand times. That of a large group is made aside. It returns what the member is
// led to.
func (ch *change) makeTarget() (epoch int32, target assign.Assignment) {
	c := ch.c
	last := c.targetOf(ch.member.id, ch.said.instanceID)
	if ch.replaced != nil {
		last = c.target[ch.replaced.id]
	}
	settings := ch.m.cluster.Consumers(ch.id)
	if c.targetAt >= ch.epoch || c.assigning != nil || !c.mayAssign(ch.now, settings.AssignmentInterval) {
		return c.targetAt, last
	}
	a := ch.toAssign(last)
	if settings.AssignorOffload && a.work() > ch.m.inPlaceMax {
		ch.assignAside(a)
		return c.targetAt, last
	}
	target = last
	for _, each := range a.compute().news {
		if each.member.id == ch.member.id {
			target = each.assignment
		}
		ch.records = append(ch.records, targetRecord(ch.id, each.member.id, each.assignment))
	}
	ch.records = append(ch.records, targetEpochRecord(ch.id, ch.epoch, ch.now.UnixMilli()))
	return ch.epoch, target
}

// assignAgainAfter is when a target is made again that could not be written.
const assignAgainAfter = time.Second

// mayAssign tells whether the last target was made, or refused, long enough ago.
func (c *consumerGroup) mayAssign(now time.Time, interval time.Duration) bool {
	ms := now.UnixMilli()
	if c.unassignedMs != 0 && ms < c.unassignedMs+max(interval, assignAgainAfter).Milliseconds() {
		return false
	}
	return c.targetMs == 0 || interval <= 0 || ms >= c.targetMs+interval.Milliseconds()
}
