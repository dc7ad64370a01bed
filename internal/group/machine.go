// Package group decides everything about consumer groups, of the classic protocol and of the new one (KIP-848), and about committed
// offsets: who is in a group, which generation or epoch it is at, who leads or is assigned what, what is stored. It is a pure machine: time, chance and order are arguments.
//
// The caller does, for every command: Handle; append the records of its effects; when they are appended, Apply each and then
// Settle; when they were refused, Settle with the code and nothing applied. Between Handle and Settle no other command may
// touch the same group, except Commit and Heartbeat. Durable state (offsets, generations) changes only in Apply, live and on
// recovery alike; who is joining, and every timer, is volatile and begins anew after Loaded.
package group

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
)

// State is what a group is doing.
type State uint8

// The states of the classic protocol.
const (
	Dead State = iota
	Empty
	PreparingRebalance
	CompletingRebalance
	Stable
)

// Groups of other types are Empty, Stable, or in one of these.
const (
	Assigning   State = Stable + 1 + iota // what its members are to have is not decided yet
	Reconciling                           // some of them do not have it yet
)

var stateNames = [...]string{"Dead", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Assigning", "Reconciling"}

// String returns Kafka's name of the state.
func (s State) String() string { return stateNames[s] }

// Config is what the broker's configuration says about groups.
type Config struct {
	SessionTimeoutMin     time.Duration // group.min.session.timeout.ms
	SessionTimeoutMax     time.Duration // group.max.session.timeout.ms
	InitialRebalanceDelay time.Duration // group.initial.rebalance.delay.ms
	MembersMax            int           // group.max.size
	OffsetMetadataMax     int           // offset.metadata.max.bytes
	OffsetsRetention      time.Duration // offsets.retention.minutes
	// NewMemberJoinTimeout ends a JoinGroup of a new member that is parked for longer: its client has long given up. Kafka
	// has 5 minutes and no setting.
	NewMemberJoinTimeout time.Duration

	ConsumersMax int             // group.consumer.max.size
	Assignors    []string        // group.consumer.assignors: names of package assign, the first is the default
	RegexRefresh time.Duration   // group.consumer.regex.refresh.interval.ms
	Migration    MigrationPolicy // group.consumer.migration.policy
}

// Sent is an answer to a request.
type Sent struct {
	Ticket Ticket
	Reply  Reply
}

// Effects is what a Handle, a Tick or a Settle wants done.
type Effects struct {
	Records []Record // to append, in this order
	// Separable records may be appended in several batches: each of them is true alone.
	Separable bool
	// Txn, when not nil, has Records in the open transaction of its producer: to be appended as one transactional batch of that
	// producer, and applied with ApplyOpen.
	Txn *TxnCommit
	// Replies may leave at once where Records is empty; else when the records are applied. The caller holds back those that
	// show durable state until what they show is committed.
	Replies []Sent
	// Aside is to be done by the caller, at its leisure.
	Aside []Aside

	settle func(now time.Time, refused kafka.Error) Effects
	commit *Commit // instead of settle
}

// Machine is one shard: the groups of one partition of __consumer_offsets. It is not safe for concurrent use.
type Machine struct {
	cfg    Config
	random func([]byte)
	groups map[string]*group
	timers timerQueue
	open   map[kafka.ProducerID]map[openKey]stored // offsets of transactions that have not ended
	seq    uint64                                  // counts applied offset records: the order of the log

	cluster     Cluster
	learned     uint64            // counts changes of topics
	newTopicsAt int64             // the version of the metadata in which a topic was created last
	hashes      map[string]uint64 // of topics, by name: see topicHash

	events []Event // that nobody has taken yet

	inPlaceMax int // a constant, but to tests
}

// New returns a machine that has read nothing. Apply the log's records, call Learn, then Loaded. The bytes that random fills make
// member ids.
func New(cfg Config, random func([]byte)) *Machine {
	return &Machine{
		cfg: cfg, random: random, groups: map[string]*group{}, open: map[kafka.ProducerID]map[openKey]stored{},
		cluster: noCluster{}, learned: 1, hashes: map[string]uint64{}, inPlaceMax: inPlaceMax,
	}
}

// Check refuses a command that no state of the group could make right: nil when it may be handled.
func (c *Config) Check(groupID string, cmd Command) Reply {
	switch cmd := cmd.(type) {
	case *Join:
		if groupID == "" {
			return cmd.Fail(kafka.InvalidGroupId)
		}
		if session := millis(cmd.SessionTimeoutMs); session < c.SessionTimeoutMin || session > c.SessionTimeoutMax {
			return cmd.Fail(kafka.InvalidSessionTimeout)
		}
	case *ConsumerHeartbeat:
		if refused := c.checkConsumerHeartbeat(groupID, cmd); refused != nil {
			return refused
		}
	case *Sync, *Heartbeat, *Leave, *TxnCommit, *DeleteOffsets, *ConsumerDescribe:
		if groupID == "" {
			return cmd.Fail(kafka.InvalidGroupId)
		}
	}
	return nil
}

// Handle decides a command. The reply may come later, in the effects of another call.
func (m *Machine) Handle(now time.Time, ticket Ticket, groupID string, cmd Command) Effects {
	if refused := m.cfg.Check(groupID, cmd); refused != nil {
		return reply(ticket, refused)
	}
	g := m.groups[groupID]
	switch cmd := cmd.(type) {
	case *Join:
		return m.joinGroup(now, ticket, groupID, g, cmd)
	case *Sync:
		return m.syncGroup(now, ticket, g, cmd)
	case *Heartbeat:
		return reply(ticket, &HeartbeatReply{Code: m.heartbeat(now, g, cmd)})
	case *Leave:
		return m.leave(now, ticket, g, cmd)
	case *ConsumerHeartbeat:
		return m.consumerHeartbeat(now, ticket, groupID, g, cmd)
	case *ConsumerDescribe:
		return reply(ticket, m.describeConsumer(groupID, g))
	case *Commit:
		return m.commit(now, ticket, groupID, g, cmd)
	case *TxnCommit:
		return m.txnCommit(now, ticket, groupID, g, cmd)
	case *Fetch:
		return reply(ticket, m.fetch(g, cmd))
	case *Describe:
		return reply(ticket, m.describe(g))
	case *Delete:
		return m.deleteGroup(ticket, g)
	case *DeleteOffsets:
		return m.deleteOffsets(ticket, g, cmd)
	}
	invariant.Check(false, "unknown command %T", cmd)
	return Effects{}
}

// Settle ends what Handle or Tick began: refused is None when the records of the effects are applied, and else why they were
// not appended. It must be called for every effects with records. Its own effects have no records.
func (m *Machine) Settle(now time.Time, e Effects, refused kafka.Error) Effects {
	switch {
	case e.commit != nil:
		return e.commit.settle(refused)
	case e.settle == nil:
		return Effects{}
	}
	after := e.settle(now, refused)
	invariant.Check(len(after.Records) == 0, "settling wants %d records appended", len(after.Records))
	return after
}

// Next returns when Tick is to be called.
func (m *Machine) Next() (time.Time, bool) { return m.timers.next() }

// Tick lets one timer fire that is due. It returns false when there is none.
func (m *Machine) Tick(now time.Time) (Effects, bool) {
	t := m.timers.pop(now)
	if t == nil {
		return Effects{}, false
	}
	e := Effects{}
	switch t.kind {
	case sessionTimer:
		m.sessionOver(now, t, &e)
	case joinTimer:
		m.joinsOver(now, t.group, &e)
	case syncTimer:
		m.syncsOver(now, t.group, &e)
	case consumerSessionTimer, rebalanceTimer, consumerJoinTimer, consumerSyncTimer:
		m.consumerOver(now, t, &e)
	}
	return e, true
}

// Loaded starts the clocks of all members when the log has been read.
func (m *Machine) Loaded(now time.Time) Effects {
	e := Effects{}
	for _, id := range slices.Sorted(maps.Keys(m.groups)) {
		g := m.groups[id]
		for _, member := range g.members {
			m.heard(now, member)
		}
		if g.consumer != nil {
			m.consumerLoaded(now, g)
		}
		if len(g.members) > m.cfg.MembersMax {
			m.prepareRebalance(now, g, &e) // the limit was lowered
		}
	}
	return e
}

// List returns the groups, by name.
func (m *Machine) List() []Listed {
	list := make([]Listed, 0, len(m.groups))
	for _, id := range slices.Sorted(maps.Keys(m.groups)) {
		g := m.groups[id]
		listed := Listed{Group: id, ProtocolType: g.protocolType, State: g.state, Members: len(g.members)}
		switch {
		case g.consumer != nil:
			listed.Type, listed.ProtocolType, listed.State = Consumer, "consumer", g.consumer.state()
			listed.Members = len(g.consumer.members)
		case g.foreign != nil:
			listed.Type, listed.ProtocolType, listed.State = g.foreign.kind, g.foreign.kind.String(), g.foreign.state()
			listed.Members = len(g.foreign.members)
		}
		list = append(list, listed)
	}
	return list
}

// Groups returns how many groups there are.
func (m *Machine) Groups() int { return len(m.groups) }

func (m *Machine) describe(g *group) *DescribeReply {
	if g == nil || g.foreign != nil || g.consumer != nil {
		return &DescribeReply{State: Dead, NotClassic: g != nil}
	}
	r := &DescribeReply{Found: true, State: g.state, ProtocolType: g.protocolType}
	if g.state == Stable && g.protocol != nil {
		r.Protocol = *g.protocol
	}
	for _, member := range g.members {
		d := DescribedMember{
			MemberID: member.id, InstanceID: member.instanceID, ClientID: member.clientID, ClientHost: member.clientHost,
			Assignment: member.assignment,
		}
		if g.state == Stable {
			d.Metadata = member.metadata(g.protocol)
		}
		r.Members = append(r.Members, d)
	}
	return r
}

// memberNameMax leaves room for the rest of a member id in a string of the protocol, which ends at 32,767 bytes.
const memberNameMax = math.MaxInt16 - len("-00112233-4455-6677-8899-aabbccddeeff")

// newMemberID makes the id of a new member: what names it to people, and 122 random bits as Java writes them.
func (m *Machine) newMemberID(c *Join) string {
	name := c.ClientID
	if c.InstanceID != nil {
		name = *c.InstanceID
	}
	if n := memberNameMax; len(name) > n {
		for n > 0 && !utf8.RuneStart(name[n]) {
			n--
		}
		name = name[:n]
	}
	var u [16]byte
	m.random(u[:])
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%s-%x-%x-%x-%x-%x", name, u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

func reply(ticket Ticket, r Reply) Effects { return Effects{Replies: []Sent{{ticket, r}}} }

func (e *Effects) send(ticket Ticket, r Reply) { e.Replies = append(e.Replies, Sent{ticket, r}) }
