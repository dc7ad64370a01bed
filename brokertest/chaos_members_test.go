package brokertest_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// member is a member of a group that makes every request itself.
type member struct {
	*worker
	group      string
	topics     []*topic
	instance   *string // of a static member
	session    time.Duration
	id         string
	generation int32
	owned      []place
	positions  map[place]int64
}

// retryCoordinator are codes after which a client asks again.
func retryCoordinator(code int16) bool {
	switch code {
	case kerr.CoordinatorLoadInProgress.Code, kerr.CoordinatorNotAvailable.Code, kerr.NotCoordinator.Code:
		return true
	}
	return false
}

// belong joins a group, works in it and leaves it in one way or another, until the workload is over.
func (k *worker) belong(group string, topics []*topic, instance *string) {
	m := &member{worker: k, group: group, topics: topics, instance: instance, session: time.Second}
	for m.running() {
		if !m.join() {
			m.pause(20 * time.Millisecond)
			continue
		}
		for m.running() && m.work() {
			m.pause(30 * time.Millisecond)
			switch m.r.IntN(60) {
			case 0:
				m.leave()
			case 1: // without a word
				m.hangUp()
				m.id = ""
			case 2: // while joining
				m.send(m.joinRequest())
				m.hangUp()
				if m.r.IntN(2) == 0 {
					m.id = ""
				}
			default:
				continue
			}
			break
		}
	}
}

func (m *member) joinRequest() *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version = m.version(4, 9, 5)
	req.Group, req.MemberID, req.ProtocolType, req.InstanceID = m.group, m.id, "consumer", m.instance
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(m.session.Milliseconds()), 2000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "chaos", []byte(m.name)
	req.Protocols = append(req.Protocols, p)
	return req
}

// version returns one from least to most that has instance ids if the member is static: those from static on.
func (m *member) version(least, most, static int16) int16 {
	if m.instance != nil {
		least = static
	}
	return least + int16(m.r.IntN(int(most-least)+1))
}

// join goes through JoinGroup and SyncGroup.
func (m *member) join() bool {
	resp, ok := m.ask(m.joinRequest())
	if !ok {
		return false
	}
	j := resp.(*kmsg.JoinGroupResponse)
	switch code := j.ErrorCode; {
	case code == 0:
	case code == kerr.MemberIDRequired.Code:
		m.id = j.MemberID
		return false
	case code == kerr.UnknownMemberID.Code, code == kerr.FencedInstanceID.Code:
		m.id = ""
		return false
	case code == kerr.RebalanceInProgress.Code, retryCoordinator(code):
		return false
	default:
		m.unexpected("JoinGroup", code)
		return false
	}
	m.id, m.generation = j.MemberID, j.Generation
	m.ledger.names(m.group, m.id, m.instance)
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version = m.version(0, 5, 3)
	req.Group, req.MemberID, req.Generation, req.InstanceID = m.group, m.id, m.generation, m.instance
	if req.Version >= 5 {
		req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), j.Protocol
	}
	if j.LeaderID == m.id && !j.SkipAssignment {
		req.GroupAssignment = m.assign(j.Members)
	} else if j.LeaderID != m.id && len(j.Members) > 0 {
		m.fault("%s: JoinGroup told a follower of %d members", m.name, len(j.Members))
	}
	if resp, ok = m.ask(req); !ok {
		return false
	}
	s := resp.(*kmsg.SyncGroupResponse)
	switch code := s.ErrorCode; {
	case code == 0:
	case code == kerr.UnknownMemberID.Code, code == kerr.FencedInstanceID.Code:
		m.id = ""
		return false
	case code == kerr.RebalanceInProgress.Code, code == kerr.IllegalGeneration.Code, retryCoordinator(code):
		return false
	default:
		m.unexpected("SyncGroup", code)
		return false
	}
	m.ledger.leads(m.group, m.generation, j.LeaderID)
	m.owned = m.parse(s.MemberAssignment)
	m.ledger.owns(m.group, m.generation, m.id, m.owned)
	m.positions = map[place]int64{}
	return m.fetchOffsets()
}

// assign deals the partitions out. An assignment is text: topic number and partition, separated by spaces.
func (m *member) assign(members []kmsg.JoinGroupResponseMember) []kmsg.SyncGroupRequestGroupAssignment {
	hands := make([][]string, len(members))
	n := m.r.IntN(len(members))
	for i, t := range m.topics {
		for index := range t.partitions.Load() {
			hands[n%len(members)] = append(hands[n%len(members)], fmt.Sprintf("%d:%d", i, index))
			n++
		}
	}
	var all []kmsg.SyncGroupRequestGroupAssignment
	for i, hand := range hands {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = members[i].MemberID, []byte(strings.Join(hand, " "))
		all = append(all, a)
	}
	return all
}

func (m *member) parse(assignment []byte) (owned []place) {
	for _, word := range strings.Fields(string(assignment)) {
		var t int
		var index int32
		if _, err := fmt.Sscanf(word, "%d:%d", &t, &index); err != nil || t >= len(m.topics) {
			m.fault("%s: SyncGroup gave assignment %q", m.name, assignment)
			return nil
		}
		owned = append(owned, m.topics[t].place(index))
	}
	return owned
}

// fetchOffsets finds out where the group is.
func (m *member) fetchOffsets() bool {
	floors := map[place]int64{}
	for _, at := range m.owned {
		floors[at] = m.ledger.commitFloor(m.group, at)
	}
	found, ok := m.committed(m.group, m.topics)
	if !ok {
		return false
	}
	for _, at := range m.owned {
		offset := int64(-1)
		if got, ok := found[at]; ok {
			offset = got
		}
		m.ledger.foundCommit(m.name, m.group, at, floors[at], offset)
		m.positions[at] = max(offset, 0)
	}
	return true
}

// committed asks for all committed offsets of a group in topics.
func (k *worker) committed(group string, topics []*topic) (map[place]int64, bool) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = 9
	rg := kmsg.NewOffsetFetchRequestGroup()
	rg.Group, rg.MemberEpoch = group, -1
	req.Groups = append(req.Groups, rg)
	resp, ok := k.ask(req)
	if !ok {
		return nil, false
	}
	g := resp.(*kmsg.OffsetFetchResponse).Groups[0]
	if g.ErrorCode != 0 {
		if !retryCoordinator(g.ErrorCode) {
			k.unexpected("OffsetFetch", g.ErrorCode)
		}
		return nil, false
	}
	found := map[place]int64{}
	for _, rt := range g.Topics {
		for _, t := range topics {
			if t.name != rt.Topic {
				continue
			}
			for _, p := range rt.Partitions {
				found[t.place(p.Partition)] = p.Offset
			}
		}
	}
	return found, true
}

// work reads a little, commits and tells that it is there. false: the group has to be joined again.
func (m *member) work() bool {
	for _, at := range m.owned {
		m.advance(at)
	}
	if len(m.owned) > 0 && m.r.IntN(2) == 0 && !m.commit() {
		return false
	}
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version = m.version(0, 4, 3)
	req.Group, req.MemberID, req.Generation, req.InstanceID = m.group, m.id, m.generation, m.instance
	resp, ok := m.ask(req)
	return ok && m.belongs("Heartbeat", resp.(*kmsg.HeartbeatResponse).ErrorCode)
}

// belongs tells what a code means for the membership.
func (m *member) belongs(what string, code int16) bool {
	switch {
	case code == 0:
		return true
	case code == kerr.UnknownMemberID.Code, code == kerr.FencedInstanceID.Code:
		m.id = ""
	case code == kerr.RebalanceInProgress.Code, code == kerr.IllegalGeneration.Code, retryCoordinator(code):
	default:
		m.unexpected(what, code)
	}
	return false
}

// advance reads from one partition.
func (m *member) advance(at place) {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.MinBytes = 13, 1<<20, 0
	rt := kmsg.NewFetchRequestTopic()
	rt.TopicID = at.topic
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes, rp.CurrentLeaderEpoch = at.index, m.positions[at], 20_000, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	before := m.ledger.marks(at)
	resp, ok := m.ask(req)
	if !ok {
		return
	}
	p := &resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
	switch {
	case p.ErrorCode == 0:
		m.ledger.told(m.name, at, before, marks{high: p.HighWatermark, start: p.LogStartOffset, epoch: -1})
		m.positions[at] = m.records(m.name, at, m.positions[at], p.HighWatermark, p.RecordBatches)
	case p.ErrorCode == kerr.OffsetOutOfRange.Code && m.ledger.mayLackStart(at):
		for _, t := range m.topics {
			if t.id == at.topic {
				m.positions[at] = max(m.positions[at], m.startOf(t, at))
			}
		}
	default:
		m.unexpected(fmt.Sprintf("Fetch of partition %d at %d", at.index, m.positions[at]), p.ErrorCode)
	}
}

// commit commits where the member is.
func (m *member) commit() bool {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version = m.version(5, 10, 7)
	req.Group, req.MemberID, req.Generation, req.InstanceID = m.group, m.id, m.generation, m.instance
	for _, t := range m.topics {
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic, rt.TopicID = t.name, t.id
		for _, at := range m.owned {
			if at.topic == t.id {
				rp := kmsg.NewOffsetCommitRequestTopicPartition()
				rp.Partition, rp.Offset = at.index, m.positions[at]
				rt.Partitions = append(rt.Partitions, rp)
			}
		}
		if len(rt.Partitions) > 0 {
			req.Topics = append(req.Topics, rt)
		}
	}
	latest := m.ledger.latestGeneration(m.group)
	resp, ok := m.ask(req)
	if !ok {
		return false
	}
	for i, rt := range resp.(*kmsg.OffsetCommitResponse).Topics {
		for _, p := range rt.Partitions {
			if !m.belongs("OffsetCommit", p.ErrorCode) {
				return false
			}
			at := place{req.Topics[i].TopicID, req.Topics[i].Topic, p.Partition}
			m.ledger.commitAccepted(m.group, m.id, m.generation, latest)
			m.ledger.committed(m.group, at, m.positions[at])
		}
	}
	return true
}

// leave says good-bye.
func (m *member) leave() {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version = m.version(0, 5, 3)
	req.Group, req.MemberID = m.group, m.id
	lm := kmsg.NewLeaveGroupRequestMember()
	lm.MemberID, lm.InstanceID = m.id, m.instance
	req.Members = append(req.Members, lm)
	if resp, ok := m.ask(req); ok {
		code := resp.(*kmsg.LeaveGroupResponse).ErrorCode
		if code != kerr.UnknownMemberID.Code {
			m.belongs("LeaveGroup", code)
		}
	}
	m.id = ""
}

// catchUp joins a group, reads to the end of all its partitions and commits that. It fails if the group does not let it.
func (k *worker) catchUp(group string, topics []*topic) {
	m := &member{worker: k, group: group, topics: topics, session: 10 * time.Second}
	late := time.Now().Add(patience)
	want := 0
	for _, t := range topics {
		want += int(t.partitions.Load())
	}
	for m.running() && time.Now().Before(late) {
		if !m.join() {
			m.pause(20 * time.Millisecond)
			continue
		}
		for m.work() {
			behind := want - len(m.owned) // others own what is missing, until their session times out
			for _, at := range m.owned {
				if m.positions[at] < m.ledger.marks(at).high {
					behind++
				}
			}
			if behind == 0 && m.commit() {
				m.leave()
				return
			}
			m.pause(20 * time.Millisecond)
		}
	}
	k.fault("%s: group %s does not move: member %q of generation %d owns %d of %d partitions", k.name, group, m.id, m.generation, len(m.owned), want)
}
