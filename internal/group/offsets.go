package group

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/raftsman/raftsman/internal/kafka"
)

// commit is OffsetCommit.
func (m *Machine) commit(now time.Time, ticket Ticket, groupID string, g *group, c *Commit) Effects {
	if code := checkCommit(g, c.committer()); code != kafka.None {
		return reply(ticket, c.Fail(code))
	}
	if g != nil && (g.state == Stable || g.state == PreparingRebalance) {
		if member := g.byID[c.MemberID]; member != nil {
			m.heard(now, member) // committing shows that a member is alive
		}
	}
	count := 0
	for i := range c.Topics {
		count += len(c.Topics[i].Partitions)
	}
	c.ticket = ticket
	c.writes, c.records = slices.Grow(c.writes[:0], count)[:count], slices.Grow(c.records[:0], count)
	codes := slices.Grow(c.answer.Codes[:0], count)
	nowMs, expires := now.UnixMilli(), int64(-1)
	if c.RetentionMs >= 0 {
		expires = nowMs + c.RetentionMs
	}
	for i := range c.Topics {
		t := &c.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if m.tooLarge(p.Metadata) {
				codes = append(codes, kafka.OffsetMetadataTooLarge)
				continue
			}
			codes = append(codes, kafka.None)
			w := &c.writes[len(c.records)]
			w.value = p.value(t.ID, nowMs, expires)
			w.record = OffsetRecord{Group: groupID, Topic: t.Topic, Partition: p.Partition, Value: &w.value}
			c.records = append(c.records, &w.record)
		}
	}
	c.answer = CommitReply{Codes: codes}
	if len(c.records) == 0 {
		return c.settle(kafka.None)
	}
	return Effects{Records: c.records, commit: c}
}

// settle answers the commit: it is stored, or was refused.
func (c *Commit) settle(refused kafka.Error) Effects {
	if refused != kafka.None {
		c.answer.Code, c.answer.Codes = refused, c.answer.Codes[:0]
	}
	c.sent[0] = Sent{c.ticket, &c.answer}
	return Effects{Replies: c.sent[:]}
}

// tooLarge tells whether a client wants more stored beside an offset than offset.metadata.max.bytes.
func (m *Machine) tooLarge(metadata *string) bool {
	return metadata != nil && len(*metadata) > m.cfg.OffsetMetadataMax && javaLength(*metadata) > m.cfg.OffsetMetadataMax
}

// value is what is stored of a commit.
func (p *CommitPartition) value(topicID kafka.TopicID, nowMs, expiresMs int64) OffsetValue {
	v := OffsetValue{Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, CommittedMs: nowMs, ExpiresMs: expiresMs, TopicID: topicID}
	if p.Metadata != nil {
		v.Metadata = *p.Metadata
	}
	return v
}

// javaLength is the length of a string as Kafka counts it: in units of UTF-16.
func javaLength(s string) int {
	n := utf8.RuneCountInString(s)
	for _, r := range s {
		if r >= 0x10000 {
			n++
		}
	}
	return n
}

// fetch is OffsetFetch.
func (m *Machine) fetch(g *group, c *Fetch) *FetchReply {
	code := kafka.None
	switch {
	case g != nil && g.consumer != nil:
		code = g.consumer.checkFetch(c.Member)
	case g != nil && g.foreign != nil:
		code = g.foreign.checkFetch(c.Member)
	}
	if code != kafka.None {
		return &FetchReply{Code: code}
	}
	if c.Topics == nil {
		return m.fetchAll(g, c.RequireStable)
	}
	answer := &FetchReply{Topics: make([]FetchedTopic, len(c.Topics))}
	for i, t := range c.Topics {
		answer.Topics[i] = FetchedTopic{Topic: t.Topic, Partitions: make([]FetchedPartition, len(t.Partitions))}
		for j, p := range t.Partitions {
			f := g.fetched(kafka.TopicPartition{Topic: t.Topic, Partition: p}, c.RequireStable)
			answer.Topics[i].Partitions[j] = f.unless(t.ID)
		}
	}
	return answer
}

func (m *Machine) fetchAll(g *group, stable bool) *FetchReply {
	answer := &FetchReply{}
	if g == nil {
		return answer
	}
	for _, topic := range slices.Sorted(maps.Keys(g.offsets)) {
		fetched := FetchedTopic{Topic: topic}
		for _, p := range slices.Sorted(maps.Keys(g.offsets[topic])) {
			fetched.Partitions = append(fetched.Partitions, g.fetched(kafka.TopicPartition{Topic: topic, Partition: p}, stable))
		}
		answer.Topics = append(answer.Topics, fetched)
	}
	return answer
}

func (g *group) fetched(tp kafka.TopicPartition, stable bool) FetchedPartition {
	f := FetchedPartition{Partition: tp.Partition, Offset: kafka.NoOffset, LeaderEpoch: kafka.NoEpoch}
	if g == nil {
		return f
	}
	if stable && g.unstable[tp] > 0 {
		f.Code = kafka.UnstableOffsetCommit
		return f
	}
	if s, ok := g.offsets[tp.Topic][tp.Partition]; ok {
		f.Offset, f.LeaderEpoch, f.Metadata, f.TopicID = s.Offset, s.LeaderEpoch, s.Metadata, s.TopicID
	}
	return f
}

// unless drops what was committed in a topic that had the same name before: its offsets mean nothing in the new one.
func (f FetchedPartition) unless(present kafka.TopicID) FetchedPartition {
	if f.TopicID.IsZero() || present.IsZero() || f.TopicID == present {
		return f
	}
	return FetchedPartition{Partition: f.Partition, Offset: kafka.NoOffset, LeaderEpoch: kafka.NoEpoch}
}

// deleteOffsets is OffsetDelete: topics that members read keep their offsets.
func (m *Machine) deleteOffsets(ticket Ticket, g *group, c *DeleteOffsets) Effects {
	switch {
	case g == nil || g.foreign != nil && g.foreign.kind == Share:
		return reply(ticket, c.Fail(kafka.GroupIdNotFound))
	case g.consumer == nil && g.state != Empty && !g.usesConsumerProtocol():
		return reply(ticket, c.Fail(kafka.NonEmptyGroup))
	}
	answer, e := &DeleteOffsetsReply{}, Effects{Separable: true}
	for _, t := range c.Topics {
		for _, p := range t.Partitions {
			if g.reads(t.Topic) {
				answer.Codes = append(answer.Codes, kafka.GroupSubscribedToTopic)
				continue
			}
			answer.Codes = append(answer.Codes, kafka.None)
			tp := kafka.TopicPartition{Topic: t.Topic, Partition: p}
			if _, there := g.offsets[t.Topic][p]; there || g.unstable[tp] > 0 {
				e.Records = append(e.Records, g.tombstone(tp))
			}
		}
	}
	return e.answered(ticket, answer, c)
}

// deleteGroup is DeleteGroups of one group.
func (m *Machine) deleteGroup(ticket Ticket, g *group) Effects {
	switch {
	case g == nil:
		return reply(ticket, &DeleteReply{Code: kafka.GroupIdNotFound})
	case g.consumer != nil:
		if len(g.consumer.members) > 0 {
			return reply(ticket, &DeleteReply{Code: kafka.NonEmptyGroup})
		}
	case g.foreign != nil:
		if code, why := g.foreign.deletion(); code != kafka.None {
			return reply(ticket, &DeleteReply{Code: code, Reason: why})
		}
	case g.state != Empty:
		return reply(ticket, &DeleteReply{Code: kafka.NonEmptyGroup})
	}
	e := Effects{Separable: true}
	for _, tp := range g.stored() {
		e.Records = append(e.Records, g.tombstone(tp))
	}
	e.Records = append(e.Records, g.tombstones()...)
	return e.answered(ticket, &DeleteReply{}, &Delete{})
}

// answered completes effects whose command is answered when its records are applied.
func (e Effects) answered(ticket Ticket, answer Reply, c Command) Effects {
	if len(e.Records) == 0 {
		return reply(ticket, answer)
	}
	e.settle = func(_ time.Time, refused kafka.Error) Effects {
		if refused != kafka.None {
			return reply(ticket, c.Fail(refused))
		}
		return reply(ticket, answer)
	}
	return e
}

// stored lists the partitions for which the group has something stored, open transactions included.
func (g *group) stored() []kafka.TopicPartition {
	list := slices.SortedFunc(maps.Keys(g.unstable), comparePartitions)
	for _, topic := range slices.Sorted(maps.Keys(g.offsets)) {
		for _, p := range slices.Sorted(maps.Keys(g.offsets[topic])) {
			if tp := (kafka.TopicPartition{Topic: topic, Partition: p}); g.unstable[tp] == 0 {
				list = append(list, tp)
			}
		}
	}
	slices.SortFunc(list, comparePartitions)
	return list
}

// tombstones removes a group without members from the log, but not its offsets.
func (g *group) tombstones() []Record {
	switch {
	case g.consumer != nil:
		return g.consumer.tombstones(g.id)
	case g.foreign != nil:
		return g.foreign.tombstones(g.id)
	}
	return []Record{&GroupRecord{Group: g.id}}
}

func (g *group) tombstone(tp kafka.TopicPartition) *OffsetRecord {
	return &OffsetRecord{Group: g.id, Topic: tp.Topic, Partition: tp.Partition}
}

// TopicsDeleted removes all that groups have committed in topics that are no more: under the same name another topic may
// come, whose offsets begin at 0.
func (m *Machine) TopicsDeleted(topics []string) Effects {
	e := Effects{Separable: true}
	for _, id := range slices.Sorted(maps.Keys(m.groups)) {
		g := m.groups[id]
		for _, tp := range g.stored() {
			if slices.Contains(topics, tp.Topic) {
				e.Records = append(e.Records, g.tombstone(tp))
			}
		}
	}
	return e
}

// Expire removes offsets that nobody has needed for offsets.retention.minutes, and groups that have neither members nor
// offsets.
func (m *Machine) Expire(now time.Time) Effects {
	e := Effects{Separable: true}
	for _, id := range slices.Sorted(maps.Keys(m.groups)) {
		g := m.groups[id]
		since, may := g.expirySince()
		if !may {
			continue
		}
		kept := len(g.unstable)
		for _, tp := range g.stored() {
			s, there := g.offsets[tp.Topic][tp.Partition]
			if !there || g.unstable[tp] > 0 || g.reads(tp.Topic) || !m.expired(now, s, since) {
				kept++
				continue
			}
			e.Records = append(e.Records, g.tombstone(tp))
		}
		if kept == 0 && g.empty() {
			e.Records = append(e.Records, g.tombstones()...)
		}
	}
	return e
}

// expirySince tells from when the retention of a group's offsets counts, -1 meaning from each one's commit, and whether any
// may expire: those of groups without members, and those in topics that the members of a stable group do not read.
func (g *group) expirySince() (sinceMs int64, may bool) {
	switch {
	case g.consumer != nil:
		return -1, true
	case g.foreign != nil:
		return -1, g.foreign.kind != Share // they commit nothing
	case g.protocolType == "":
		return -1, g.state == Empty
	case g.state == Empty:
		return g.sinceMs, true
	case g.state == Stable && g.usesConsumerProtocol() && g.subscribed != nil:
		return -1, true
	}
	return 0, false
}

// empty tells whether nobody is in the group, or about to join it.
func (g *group) empty() bool {
	switch {
	case g.consumer != nil:
		return len(g.consumer.members) == 0
	case g.foreign != nil:
		return g.foreign.empty()
	}
	return g.state == Empty && len(g.pending) == 0
}

func (m *Machine) expired(now time.Time, s stored, sinceMs int64) bool {
	if s.ExpiresMs >= 0 {
		return now.UnixMilli() >= s.ExpiresMs
	}
	if sinceMs < 0 {
		sinceMs = s.CommittedMs
	}
	return now.UnixMilli()-sinceMs >= m.cfg.OffsetsRetention.Milliseconds()
}

func comparePartitions(a, b kafka.TopicPartition) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

func (a openKey) compare(b openKey) int {
	return cmp.Or(strings.Compare(a.group, b.group), comparePartitions(a.tp, b.tp))
}
