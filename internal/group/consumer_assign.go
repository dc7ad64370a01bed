package group

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/raftsman/raftsman/internal/group/assign"
	"github.com/raftsman/raftsman/internal/kafka"
)

// assignment is a target in the making: the group as it was at one moment. Nothing of it is changed once it is made, so that the target
// can be computed on another goroutine.
type assignment struct {
	epoch    int32 // that the target is for
	assignor assign.Assignor
	cluster  Cluster
	regexes  map[string]*resolvedRegex
	alike    bool
	members  []assignee
}

// assignee is a member to whom something is assigned.
type assignee struct {
	id         string
	instanceID *string
	topics     []string
	regex      string
	owned      assign.Assignment // what it was to have before
	had        bool              // it was to have something or, of which the log has a record, nothing
}

// newTarget is what is new for a member.
type newTarget struct {
	member     *assignee
	assignment assign.Assignment
}

// assigned is what came of an assignment.
type assigned struct {
	*assignment
	news []newTarget // by member id
}

// inPlaceMax is how many members, and topics of members, may be assigned while all other groups of the shard wait: about half a
// millisecond. Kafka 4.4 has group.consumer.assignor.offload.enable and does not act on it yet, so that its clients
// are used to their first partitions at once: those of all but the largest groups still get them so.
const inPlaceMax = 500

func (a *assignment) work() int {
	work := 0
	for i := range a.members {
		work += 1 + len(a.members[i].topics)
		if r := a.regexes[a.members[i].regex]; r != nil {
			work += len(r.topics)
		}
	}
	return work
}

// compute makes the target.
func (a *assignment) compute() assigned {
	slices.SortFunc(a.members, func(x, y assignee) int { return strings.Compare(x.id, y.id) })
	names := newTopicIDs(a.cluster, a.regexes)
	g := assign.Group{Alike: a.alike, Partitions: names.partitions, Members: make([]assign.Member, len(a.members))}
	for i := range a.members {
		m := &a.members[i]
		g.Members[i] = assign.Member{ID: m.id, InstanceID: m.instanceID, Topics: names.of(m.topics, m.regex), Owned: m.owned}
	}
	done := assigned{assignment: a}
	for i, each := range a.assignor(g) {
		if m := &a.members[i]; !m.had || !m.owned.Equal(each) {
			done.news = append(done.news, newTarget{m, each})
		}
	}
	return done
}

// toAssign is the group as it will be.
func (ch *change) toAssign(last assign.Assignment) *assignment {
	c := ch.c
	a := &assignment{
		epoch: ch.epoch, cluster: ch.m.cluster, regexes: maps.Clone(c.regexes), alike: ch.alike(), members: make([]assignee, 0, len(c.members)+1),
	}
	a.assignor, _ = assign.ByName(ch.wantedAssignor())
	add := func(id string, said *memberSaid, owned assign.Assignment, had bool) {
		a.members = append(a.members, assignee{id, said.instanceID, said.topics, said.regex, owned, had})
	}
	_, had := c.target[ch.member.id]
	add(ch.member.id, &ch.said, last, had || ch.replaced != nil)
	for _, id := range c.ids() {
		if member := c.members[id]; id != ch.member.id && member != ch.replaced {
			owned, had := c.target[id]
			add(id, &member.memberSaid, owned, had)
		}
	}
	return a
}

// assignAside has the target made aside; until that is done, the members are led to the one before.
func (ch *change) assignAside(a *assignment) {
	ch.assigning = a
	ch.aside = append(ch.aside, Aside{Group: ch.id, Work: func(goOn func() bool) any {
		if !goOn() {
			return nil
		}
		return a.compute()
	}})
}

// finishAssignment makes a target that was computed aside the group's. The group may have gone on meanwhile, to a later epoch: it is the
// target of the epoch that it was begun at all the same, and the next is made for the later one. Thrown away, a group to which somebody
// comes every few milliseconds would never get one.
func (m *Machine) finishAssignment(now time.Time, g *group, done *assigned) Effects {
	c := g.consumer
	if c.assigning != done.assignment {
		return Effects{} // it was begun by a group that has gone, or before the log was read again
	}
	c.assigning = nil
	if done.epoch <= c.targetAt {
		return Effects{} // all have left meanwhile
	}
	e := Effects{Records: make([]Record, 0, len(done.news)+1)}
	for i := range done.news {
		if id, there := c.nowKnownAs(done.news[i].member); there {
			e.Records = append(e.Records, targetRecord(g.id, id, done.news[i].assignment))
		}
	}
	e.Records = append(e.Records, targetEpochRecord(g.id, done.epoch, now.UnixMilli()))
	e.settle = func(now time.Time, refused kafka.Error) Effects {
		if refused != kafka.None {
			c.unassignedMs = now.UnixMilli()
			m.note(TargetRefused, g, "", refused.Error())
		}
		return Effects{}
	}
	return e
}

// nowKnownAs is the id of somebody who was a member when an assignment was begun: a static member may have come back under another,
// and has taken over what it was to have.
func (c *consumerGroup) nowKnownAs(was *assignee) (id string, there bool) {
	if c.members[was.id] != nil {
		return was.id, true
	}
	if owner := c.staticMember(was.instanceID); owner != nil {
		return owner.id, true
	}
	return "", false
}

// topicIDs turns what members of a group read into the ids of the topics that exist. Members that say the same share one list.
type topicIDs struct {
	cluster Cluster
	regexes map[string]*resolvedRegex
	topics  map[kafka.TopicID]int32
	lists   map[whatIsRead][]kafka.TopicID
}

// whatIsRead is names, joined, and a regular expression.
type whatIsRead struct{ names, regex string }

func newTopicIDs(c Cluster, regexes map[string]*resolvedRegex) *topicIDs {
	return &topicIDs{cluster: c, regexes: regexes, topics: map[kafka.TopicID]int32{}, lists: map[whatIsRead][]kafka.TopicID{}}
}

func (t *topicIDs) partitions(id kafka.TopicID) int32 { return t.topics[id] }

func (t *topicIDs) of(topics []string, regex string) []kafka.TopicID {
	key := whatIsRead{strings.Join(topics, "\x00"), regex}
	if list, known := t.lists[key]; known {
		return list
	}
	var matched []string
	if r := t.regexes[regex]; r != nil && regex != "" {
		matched = r.topics
	}
	var list []kafka.TopicID
	for _, each := range [...][]string{topics, matched} {
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
