package group

// EventKind says what has happened to a group.
type EventKind uint8

// What happens to groups.
const (
	Rebalancing   EventKind = iota // a round of joins begins
	NewGeneration                  // it is over, and the next generation begins
	NowEmpty                       // the last member has gone
	MemberJoined
	MemberLeft    // by itself, or taken out by an administrator
	MemberExpired // its session has ended
	Converted     // a group of another type that had no members becomes a classic one
	JoinRefused   // a member of the classic protocol wants to join a group of another type
	Upgraded      // a classic group with members becomes a consumer group
	Downgraded    // a consumer group in which only members of the classic protocol are left becomes a classic one
	RegexRefused  // the topics that regular expressions match could not be written
	TargetRefused // an assignment could not be written
	MemberSilent  // it did not join again, or ask for its assignment, in time
)

// Event is what those who run groups want to know of: to be logged and counted.
type Event struct {
	Kind       EventKind
	Group      string
	Generation int32  // the present one, or epoch
	Members    int    // in the group now
	Member     string // of the events of one member
	Reason     string // what the client said; mostly empty
}

// TakeEvents returns what has happened since the last call. The list is valid until the next call of the machine.
func (m *Machine) TakeEvents() []Event {
	taken := m.events
	m.events = m.events[:0]
	return taken
}

func (m *Machine) note(kind EventKind, g *group, memberID, reason string) {
	e := Event{Kind: kind, Group: g.id, Generation: g.generation, Members: len(g.members), Member: memberID, Reason: reason}
	if g.consumer != nil {
		e.Generation, e.Members = g.consumer.epoch, len(g.consumer.members)
	}
	m.events = append(m.events, e)
}
