package group

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/raftsman/raftsman/internal/group/assign"
	"github.com/raftsman/raftsman/internal/kafka"
)

// checkConsumerHeartbeat refuses what no state of the group could make right.
func (c *Config) checkConsumerHeartbeat(groupID string, beat *ConsumerHeartbeat) *ConsumerHeartbeatReply {
	invalid := func(why string) *ConsumerHeartbeatReply {
		return &ConsumerHeartbeatReply{Code: kafka.InvalidRequest, Message: why}
	}
	blank := func(s *string) bool { return s != nil && strings.TrimSpace(*s) == "" }
	switch {
	case strings.TrimSpace(beat.MemberID) == "" && (beat.OwnMemberID || beat.Epoch > 0 || beat.Epoch == -1):
		return invalid("the member id is empty: the client makes one, and keeps it for as long as it lives")
	case strings.TrimSpace(groupID) == "":
		return invalid("the group id is empty")
	case blank(beat.InstanceID):
		return invalid("the instance id is empty: leave it out, or name the instance")
	case blank(beat.RackID):
		return invalid("the rack is empty: leave it out, or name it")
	case beat.Epoch == 0 && beat.RebalanceTimeoutMs == -1:
		return invalid("a member that joins has to say its rebalance timeout")
	case beat.Epoch == 0 && (!beat.HasKnown || len(beat.Has) > 0):
		return invalid("a member that joins has no partitions, and has to say so")
	case beat.Epoch == 0 && beat.Topics == nil && beat.Regex == nil:
		return invalid("a member that joins has to say what it reads, by names or by a regular expression")
	case beat.Epoch == leftForNow && beat.InstanceID == nil:
		return invalid("only a static member can leave for now: its instance id is missing")
	case beat.Epoch < leftForNow:
		return invalid("an epoch below -2 means nothing")
	case beat.Assignor != nil && !slices.Contains(c.Assignors, *beat.Assignor):
		return &ConsumerHeartbeatReply{Code: kafka.UnsupportedAssignor, Message: fmt.Sprintf(
			"there is no assignor %s; there are %s", *beat.Assignor, strings.Join(c.Assignors, ", "))}
	}
	return nil
}

// change is what one request makes of a consumer group. It is decided on what is, and becomes true as its records are applied.
type change struct {
	m       *Machine
	now     time.Time
	id      string // of the group
	c       *consumerGroup
	records []Record
	aside   []Aside

	assigning *assignment // which aside makes
	resolving bool        // aside resolves regular expressions

	member   *consumerMember // as it is; one that comes new has said nothing
	replaced *consumerMember // whose place it takes: a static member under the id that it had before
	said     memberSaid      // what it says now
	place    memberPlace     // where it comes to

	from    int32 // the epoch of the group before
	epoch   int32 // and after
	looked  bool  // the group has looked at its topics
	placed  bool  // there is a record of where it comes to
	changed bool  // what it reads
	joined  bool  // the member is new

	converted *group // the classic group that becomes this one
}

// refusedBeat answers a heartbeat that is not taken.
func refusedBeat(r *kafka.Refusal) *ConsumerHeartbeatReply {
	return &ConsumerHeartbeatReply{Code: r.Code, Message: r.Message}
}

// consumerHeartbeat is ConsumerGroupHeartbeat: with it a member joins, says what it reads and has, and learns what it is to have.
func (m *Machine) consumerHeartbeat(now time.Time, ticket Ticket, groupID string, g *group, beat *ConsumerHeartbeat) Effects {
	if beat.Epoch < 0 {
		return m.consumerLeave(now, ticket, g, groupID, beat)
	}
	ch := &change{m: m, now: now, id: groupID}
	if refused := ch.consumerGroupFor(g, beat.Epoch == 0); refused != nil {
		return reply(ticket, refusedBeat(refused))
	}
	if refused := ch.heartbeat(beat); refused != nil {
		return reply(ticket, refusedBeat(refused))
	}
	settings := m.cluster.Consumers(groupID)
	answer := &ConsumerHeartbeatReply{
		MemberID: ch.member.id, Epoch: ch.place.epoch, HeartbeatIntervalMs: toMillis(settings.HeartbeatInterval),
	}
	full := beat.RebalanceTimeoutMs != -1 && (beat.Topics != nil || beat.Regex != nil) && beat.HasKnown
	if beat.Epoch == 0 || full || !ch.place.assigned.equal(ch.member.assigned) {
		answer.Assigned, answer.Assignment = true, ch.place.assigned.assignment()
	}
	answer.Steady = len(ch.records) == 0 && !answer.Assigned && answer.Epoch == beat.Epoch
	return ch.effects(ticket, answer, func(code kafka.Error) Reply { return &ConsumerHeartbeatReply{Code: code} }, settings.SessionTimeout)
}

// consumerGroupFor finds the group; with create it makes one of nothing, or of a classic group.
func (ch *change) consumerGroupFor(g *group, create bool) *kafka.Refusal {
	switch {
	case g != nil && g.consumer != nil:
		ch.c, ch.from = g.consumer, g.consumer.epoch
	case g == nil && !create:
		return kafka.Refuse(kafka.GroupIdNotFound, "there is no group %s", ch.id)
	case g != nil && (g.foreign != nil || !create):
		return kafka.Refuse(kafka.GroupIdNotFound, "group %s is not of the consumer protocol", ch.id)
	case g == nil:
		ch.c = newConsumerGroup()
	case g.state == Empty:
		ch.c = newConsumerGroup()
		ch.records = append(ch.records, &GroupRecord{Group: ch.id})
	default:
		return ch.upgrade(g)
	}
	return nil
}

// heartbeat decides what the request makes of the member and the group.
func (ch *change) heartbeat(beat *ConsumerHeartbeat) *kafka.Refusal {
	if refused := ch.roomFor(beat.MemberID, beat.InstanceID); refused != nil {
		return refused
	}
	id := beat.MemberID
	if id == "" {
		id = ch.m.randomID()
	}
	if refused := ch.find(id, beat); refused != nil {
		return refused
	}
	if ch.member.state > memberUnreleased && !(beat.HasKnown && len(beat.Has) == 0) {
		return kafka.Refuse(kafka.FencedMemberEpoch, "a later version has put the member in a state that is not known here: it has to give up all "+
			"partitions and join again")
	}
	ch.said = ch.member.memberSaid
	ch.said.hear(beat)
	topicsChanged := ch.say()
	regex, refused := ch.regexSaid()
	if refused != nil {
		return refused
	}
	ch.changed = topicsChanged || regex != regexSame
	bump := topicsChanged || regex == regexKnown || ch.assignorChanged()
	// A round of the classic group may have been on, or be forgotten since the log was read: a member may be missing whose partitions nobody
	// has, also where the one that comes reads nothing.
	bump = bump || ch.converted != nil
	ch.look(bump)
	targetEpoch, target := ch.makeTarget()
	ch.reconcile(targetEpoch, target, beat.Has, beat.HasKnown)
	return nil
}

// roomFor applies group.consumer.max.size to who is not a member yet.
func (ch *change) roomFor(id string, instanceID *string) *kafka.Refusal {
	if ch.c.staticMember(instanceID) != nil || len(ch.c.members) < ch.m.cfg.ConsumersMax || ch.c.members[id] != nil {
		return nil
	}
	return kafka.Refuse(kafka.GroupMaxSizeReached, "the group has %d members, which is as many as group.consumer.max.size allows", ch.m.cfg.ConsumersMax)
}

// randomID makes the id of a member that has none: a random UUID as Kafka writes them.
func (m *Machine) randomID() string {
	var u [16]byte
	m.random(u[:])
	u[0] &= 0x7f // no id begins with a dash
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return base64.RawURLEncoding.EncodeToString(u[:])
}

// find finds the member, or makes a new one of who joins.
func (ch *change) find(id string, beat *ConsumerHeartbeat) *kafka.Refusal {
	joins := beat.Epoch == 0
	if beat.InstanceID == nil {
		if ch.member = ch.c.members[id]; ch.member == nil {
			if !joins {
				return kafka.Refuse(kafka.UnknownMemberId, "%s is not a member of group %s", id, ch.id)
			}
			ch.member, ch.joined = newConsumerMember(id), true
		}
		return ch.checkEpoch(beat)
	}
	owner := ch.c.staticMember(beat.InstanceID)
	switch {
	case joins && owner == nil:
		if ch.member = ch.c.members[id]; ch.member == nil {
			ch.member, ch.joined = newConsumerMember(id), true
		}
		return nil
	case joins && owner.classic == nil && owner.epoch != leftForNow:
		return kafka.Refuse(kafka.UnreleasedInstanceId, "member %s cannot be instance %s: member %s is, and has not left",
			id, *beat.InstanceID, owner.id)
	case joins:
		ch.replace(owner, id)
		return nil
	case owner == nil:
		return kafka.Refuse(kafka.UnknownMemberId, "no member is instance %s", *beat.InstanceID)
	case owner.id != id:
		return fencedInstance(id, *beat.InstanceID, owner)
	}
	ch.member = owner
	return ch.checkEpoch(beat)
}

func fencedInstance(id, instanceID string, owner *consumerMember) *kafka.Refusal {
	return kafka.Refuse(kafka.FencedInstanceId, "member %s is instance %s no more: member %s is", id, instanceID, owner.id)
}

// checkEpoch fences who is at another epoch than the group knows it at. At the epoch before, it has missed an answer: it may go on
// if it has nothing that it is not to have.
func (ch *change) checkEpoch(beat *ConsumerHeartbeat) *kafka.Refusal {
	m := ch.member
	switch {
	case beat.Epoch == 0 || beat.Epoch == m.epoch:
		return nil
	case beat.Epoch < m.epoch && beat.Epoch == m.previous && beat.HasKnown && within(beat.Has, m.assigned):
		return nil
	}
	return kafka.Refuse(kafka.FencedMemberEpoch, "the member says epoch %d and is at %d: it has to give up all partitions and join again", beat.Epoch, m.epoch)
}

func within(has assign.Assignment, assigned held) bool {
	for _, t := range has {
		for _, p := range t.Partitions {
			if !assigned.has(t.ID, p) {
				return false
			}
		}
	}
	return true
}

// replace lets a static member come back under another id: it takes over all that it had.
func (ch *change) replace(owner *consumerMember, id string) {
	ch.replaced = owner
	ch.member = newConsumerMember(id)
	ch.member.memberSaid, ch.member.memberPlace = owner.memberSaid, owner.memberPlace
	ch.member.epoch, ch.member.previous = 0, 0
	ch.records = append(ch.records, removeMemberRecords(ch.id, owner.id)...)
	ch.records = append(ch.records, ch.member.memberSaid.record(ch.id, id), targetRecord(ch.id, id, ch.c.target[owner.id]),
		ch.member.memberPlace.record(ch.id, id))
}

// hear takes over what a heartbeat says.
func (s *memberSaid) hear(beat *ConsumerHeartbeat) {
	s.clientID, s.clientHost, s.classic = beat.ClientID, beat.ClientHost, nil
	if beat.InstanceID != nil {
		s.instanceID = beat.InstanceID
	}
	if beat.RackID != nil {
		s.rackID = beat.RackID
	}
	if beat.RebalanceTimeoutMs != -1 {
		s.rebalanceTimeoutMs = beat.RebalanceTimeoutMs
	}
	if beat.Assignor != nil {
		s.assignor = beat.Assignor
	}
	if beat.Topics != nil {
		s.topics = inOrder(beat.Topics)
	}
	if beat.Regex != nil {
		s.regex = *beat.Regex
	}
}

// say writes down what the member says, if that is new. It tells whether it names other topics.
func (ch *change) say() bool {
	if ch.said.equal(&ch.member.memberSaid) {
		return false
	}
	ch.records = append(ch.records, ch.said.record(ch.id, ch.member.id))
	return !slices.Equal(ch.said.topics, ch.member.topics)
}

// reconcile leads the member to its target.
func (ch *change) reconcile(targetEpoch int32, target assign.Assignment, has assign.Assignment, hasKnown bool) {
	ch.place = ch.member.memberPlace
	if !ch.changed && ch.place.state == memberStable && ch.place.epoch == targetEpoch {
		return
	}
	reads := newTopicIDs(ch.m.cluster, ch.c.regexes).of(ch.said.topics, ch.said.regex)
	r := reconciliation{
		member: &ch.member.memberPlace, targetEpoch: targetEpoch, target: target, has: has, hasKnown: hasKnown, changed: ch.changed,
		reads: func(id kafka.TopicID) bool {
			_, found := slices.BinarySearchFunc(reads, id, assign.CompareIDs)
			return found
		},
		owned: func(id kafka.TopicID, p int32) bool {
			_, owned := ch.c.owner(id, p)
			return owned
		},
	}
	if ch.place = r.next(); !ch.place.equal(&ch.member.memberPlace) {
		ch.placed = true
		ch.records = append(ch.records, ch.place.record(ch.id, ch.member.id))
	}
}

// effects are the change's: its answer leaves, and the member's clocks go on, when its records are applied.
func (ch *change) effects(ticket Ticket, answer Reply, fail func(kafka.Error) Reply, session time.Duration) Effects {
	if len(ch.records) == 0 {
		ch.settled(ch.now, session)
		e := reply(ticket, answer)
		e.Aside = ch.aside
		return e
	}
	var parked []Sent
	if ch.converted != nil {
		parked = ch.converted.parkedIn()
	}
	return Effects{
		Records: ch.records,
		settle: func(now time.Time, refused kafka.Error) Effects {
			if refused != kafka.None {
				return reply(ticket, fail(refused))
			}
			ch.settled(now, session)
			return Effects{Replies: append(parked, Sent{ticket, answer}), Aside: ch.aside}
		},
	}
}

// settled starts the member's clocks.
func (ch *change) settled(now time.Time, session time.Duration) {
	g := ch.m.groups[ch.id]
	if g == nil || g.consumer == nil {
		return
	}
	if ch.looked {
		g.consumer.seen = ch.m.learned
	}
	g.consumer.resolving = g.consumer.resolving || ch.resolving
	if ch.assigning != nil {
		g.consumer.assigning = ch.assigning
	}
	member := g.consumer.members[ch.member.id]
	if member == nil {
		return
	}
	if ch.converted != nil {
		ch.m.note(Upgraded, g, "", "")
		for _, id := range g.consumer.ids() {
			if other := g.consumer.members[id]; other.classic != nil {
				ch.m.heardConsumer(now, g, other, millis(other.classic.sessionTimeoutMs))
			}
		}
	}
	if ch.joined {
		ch.m.note(MemberJoined, g, member.id, "")
	}
	if ch.epoch != ch.from {
		ch.m.note(Rebalancing, g, "", "")
	}
	ch.m.heardConsumer(now, g, member, session)
	if member.classic != nil {
		cancelAll(member.rebalance)
		return
	}
	cancelAll(member.join, member.sync) // it may have used the classic protocol before
	if ch.placed {
		ch.m.awaitRevocation(now, g, member)
	}
}
