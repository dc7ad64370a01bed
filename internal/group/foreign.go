package group

import (
	"maps"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
)

// Type is the protocol that a group uses.
type Type uint8

// The types of groups. Of Share and Streams groups only what Kafka wrote is known: nobody can be their member here.
const (
	Classic Type = iota
	Consumer
	Share
	Streams
)

var typeNames = [...]string{"classic", "consumer", "share", "streams"}

// String returns Kafka's name of the type.
func (t Type) String() string { return typeNames[t] }

// foreign is what the log says of a group of a protocol that is not served here.
type foreign struct {
	kind    Type
	epoch   int32 // of the group
	target  int32 // of the assignment that its members are to have
	members map[string]*foreignMember
}

// foreignMember is a member that a group of another protocol had when the log was written.
type foreignMember struct {
	epoch   int32
	settled bool     // it has the assignment of its epoch, and gave back what it had to
	topics  []string // that it reads, by name
}

func (f *foreign) empty() bool { return len(f.members) == 0 }

// state is the state that Kafka lists. Whether the topology of a streams group fits its topics is not known here.
func (f *foreign) state() State {
	switch {
	case f.empty():
		return Empty
	case f.kind == Share:
		return Stable
	case f.epoch > f.target:
		return Assigning
	}
	for _, id := range slices.Sorted(maps.Keys(f.members)) {
		if m := f.members[id]; m.epoch != f.target || !m.settled {
			return Reconciling
		}
	}
	return Stable
}

// reads tells whether a member reads the topic, or may do so: what a streams group reads is in its topology.
func (f *foreign) reads(topic string) bool {
	if f.kind == Streams || f.empty() {
		return !f.empty()
	}
	for _, id := range slices.Sorted(maps.Keys(f.members)) {
		if slices.Contains(f.members[id].topics, topic) {
			return true
		}
	}
	return false
}

// applyForeign changes a group of another protocol by one record. The later record says of what type a group is.
func (m *Machine) applyForeign(r *ForeignRecord) {
	g := m.groups[r.Group]
	if r.Gone {
		if g != nil && g.foreign != nil && g.foreign.kind == r.Type {
			m.removeForeign(g, r)
		}
		return
	}
	if g = m.groupFor(r.Group); g.foreign == nil || g.foreign.kind != r.Type {
		g.adopt(&Generation{SinceMs: -1})
		g.leaveConsumerProtocol()
		g.durable = false
		g.foreign = &foreign{kind: r.Type, members: map[string]*foreignMember{}}
	}
	f := g.foreign
	switch r.Part {
	case WholePart:
		f.epoch = r.Epoch
	case TargetPart:
		f.target = r.Epoch
	case MemberPart:
		f.member(r.Name).topics = r.Topics
	case CurrentPart:
		member := f.member(r.Name)
		member.epoch, member.settled = r.Epoch, r.Settled
	}
}

func (f *foreign) member(id string) *foreignMember {
	if f.members[id] == nil {
		f.members[id] = &foreignMember{}
	}
	return f.members[id]
}

func (m *Machine) removeForeign(g *group, r *ForeignRecord) {
	switch r.Part {
	case WholePart:
		g.foreign = nil
		m.forgetIfNothing(g)
	case MemberPart:
		delete(g.foreign.members, r.Name)
	}
}

// tombstones removes all that the log has of an empty streams group but its offsets, in Kafka's order.
func (f *foreign) tombstones(group string) []Record {
	var gone []Record
	for _, part := range []Part{TargetPart, WholePart, TopologyPart} {
		gone = append(gone, &ForeignRecord{Group: group, Type: f.kind, Part: part, Gone: true})
	}
	return gone
}

// whyNotClassic tells why a member of the classic protocol cannot join; empty when it can: a group without members becomes a
// classic one, as in Kafka.
func (f *foreign) whyNotClassic() string {
	switch {
	case f.kind == Share:
		return "it is a share group; members of the classic protocol need a group of another name"
	case !f.empty():
		return "it is a " + f.kind.String() + " group and has members; it can become a classic group when they have left or their sessions have ended"
	}
	return ""
}

// checkCommit is checkCommit for a group of another protocol.
func (f *foreign) checkCommit(by committer) kafka.Error {
	switch {
	case f.kind == Share:
		return kafka.GroupIdNotFound
	case by.generation < 0 && f.empty(), by.unnamedInTransaction():
		return kafka.None
	}
	member := f.members[by.memberID]
	switch {
	case member == nil:
		return kafka.UnknownMemberId
	case member.epoch != by.generation && by.withoutEpochs:
		return kafka.UnsupportedVersion
	case member.epoch != by.generation:
		return by.staleEpoch
	}
	return kafka.None
}

// checkFetch tells whether somebody may read offsets as the member that it says it is.
func (f *foreign) checkFetch(as *FetchMember) kafka.Error {
	if as == nil || f.kind == Share {
		return kafka.None
	}
	member := f.members[as.ID]
	switch {
	case member == nil:
		return kafka.UnknownMemberId
	case member.epoch != as.Epoch:
		return kafka.StaleMemberEpoch
	}
	return kafka.None
}

// deletion is the code for deleting the group, and why it is not deleted.
func (f *foreign) deletion() (kafka.Error, string) {
	switch {
	case !f.empty():
		return kafka.NonEmptyGroup, ""
	case f.kind == Share:
		return kafka.GroupDeletionFailed, "share groups are not served here yet: what they have delivered is kept in __share_group_state"
	}
	return kafka.None, ""
}
