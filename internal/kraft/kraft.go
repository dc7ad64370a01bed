// Package kraft is the consensus of the metadata quorum (KIP-595, KIP-853) as a pure state machine. What runs today is the
// quorum of one: a single voter that elects itself and commits what it has flushed. Its rules are the ones that a larger
// quorum has, so that votes, fetching and more voters are added beside them and not instead of them.
package kraft

import (
	"fmt"
	"slices"
	"strings"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
)

// Voter is one member of the quorum that votes.
type Voter struct {
	ID        kafka.NodeID
	Directory kafka.UUID // of its metadata log; zero under kraft.version 0, which does not know it
	Endpoints []Endpoint
	// The levels of kraft.version that the voter supports.
	MinVersion, MaxVersion int16
}

// Endpoint is where a voter listens for other controllers.
type Endpoint struct {
	Name string
	Host string
	Port uint16
}

// String names the voter as Kafka's tools do: id-directory@host:port.
func (v Voter) String() string {
	text := fmt.Sprintf("%d-%s", v.ID, v.Directory)
	if len(v.Endpoints) > 0 {
		text += fmt.Sprintf("@%s:%d", v.Endpoints[0].Host, v.Endpoints[0].Port)
	}
	return text
}

// State is what a member must remember across crashes before it acts on it: the content of the quorum-state file.
type State struct {
	Epoch          kafka.Epoch
	Leader         kafka.NodeID // of Epoch, or kafka.NoNode while unknown
	Voted          kafka.NodeID // in Epoch, or kafka.NoNode
	VotedDirectory kafka.UUID
}

// NewState is the state of a member that has never been in a quorum.
func NewState() State { return State{Leader: kafka.NoNode, Voted: kafka.NoNode} }

// Membership is what the metadata log says about the quorum itself.
type Membership struct {
	Version int16   // kraft.version; from 1 on the voters stand in the log
	Voters  []Voter // by id; under version 0 as configured
}

// Log is what a member knows about its copy of the metadata log.
type Log struct {
	End         kafka.Offset
	LatestEpoch kafka.Epoch // of the last batch, or kafka.NoEpoch when empty
}

// NotAloneError refuses to lead where the quorum is not this node alone.
type NotAloneError struct {
	ID        kafka.NodeID
	Directory kafka.UUID
	Voters    []Voter
}

func (e *NotAloneError) Error() string {
	names := make([]string, len(e.Voters))
	for i, v := range e.Voters {
		names[i] = v.String()
	}
	return fmt.Sprintf("the metadata quorum is [%s], not this node alone (%d-%s): it cannot lead it", strings.Join(names, ", "), e.ID, e.Directory)
}

// Core is one member of the quorum.
type Core struct {
	id         kafka.NodeID
	directory  kafka.UUID
	state      State
	membership Membership
	log        Log

	epochStart    kafka.Offset // where the records of the own epoch begin
	highWatermark kafka.Offset // committed records lie below
}

// New returns a member that follows nobody yet.
func New(id kafka.NodeID, directory kafka.UUID, saved State, membership Membership, log Log) *Core {
	return &Core{id: id, directory: directory, state: saved, membership: membership, log: log}
}

// Campaign makes the member leader of a new epoch, above every epoch that it has seen. A quorum of one has its majority with
// the member's own vote. The returned state must be durable before anything is appended in that epoch.
func (c *Core) Campaign() (State, error) {
	if !c.alone() {
		return State{}, &NotAloneError{c.id, c.directory, c.membership.Voters}
	}
	c.state = State{Epoch: max(c.state.Epoch, c.log.LatestEpoch) + 1, Leader: c.id, Voted: kafka.NoNode}
	c.epochStart = c.log.End
	return c.state, nil
}

func (c *Core) alone() bool {
	if len(c.membership.Voters) != 1 || c.membership.Voters[0].ID != c.id {
		return false
	}
	return c.membership.Version == 0 || c.membership.Voters[0].Directory == c.directory
}

// State returns what the member has decided.
func (c *Core) State() State { return c.state }

// Membership returns the voters.
func (c *Core) Membership() Membership { return c.membership }

// SetMembership takes over voters, as they were appended or read.
func (c *Core) SetMembership(m Membership) { c.membership = m }

// UpdateVoter returns the voters with this member's own endpoints as they are now, and false when they stand so already or
// cannot be told under kraft.version 0.
func (c *Core) UpdateVoter(endpoints []Endpoint) (Membership, bool) {
	if c.membership.Version == 0 {
		return c.membership, false
	}
	i := slices.IndexFunc(c.membership.Voters, func(v Voter) bool { return v.ID == c.id })
	if i < 0 || slices.Equal(c.membership.Voters[i].Endpoints, endpoints) {
		return c.membership, false
	}
	m := Membership{Version: c.membership.Version, Voters: slices.Clone(c.membership.Voters)}
	m.Voters[i].Endpoints = endpoints
	return m, true
}

// Appended tells the end of the log after the leader has appended.
func (c *Core) Appended(end kafka.Offset) {
	invariant.Check(end >= c.log.End, "metadata log's end went from %d to %d", c.log.End, end)
	c.log.End = end
}

// Flushed tells up to where the own log is durable and returns the high watermark. A leader commits records of its own epoch
// only, and with them all before: until one of them is durable nothing is committed.
func (c *Core) Flushed(end kafka.Offset) kafka.Offset {
	invariant.Check(end <= c.log.End, "metadata log flushed to %d beyond its end %d", end, c.log.End)
	if end > c.epochStart {
		c.highWatermark = max(c.highWatermark, end)
	}
	return c.highWatermark
}

// HighWatermark returns the end of what is committed.
func (c *Core) HighWatermark() kafka.Offset { return c.highWatermark }
