// Package kraft is the consensus of the metadata quorum (KIP-595, 630, 853, 996) as a pure state machine: a [Member] is told of events and
// time, and returns what is to be done.
package kraft

import (
	"fmt"

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
