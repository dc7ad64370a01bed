package kraft

import "github.com/raftsman/raftsman/internal/kafka"

// Effects is what comes of one event, to be done in the order of the fields. All but Send and Answers is done before the member is told of
// the next event, except that an append is told to it by [Member.Appended] at once.
type Effects struct {
	// Warn is one line for the operator: a peer said what can't be. Empty for nothing.
	Warn string
	// Persist is to be durable in the quorum-state file before anything else is done. Nil when the state is as it was.
	Persist *State
	// Truncate cuts the log, durably: it ends there afterwards. What was read of it and not committed (images, voters) goes with it;
	// the member has dropped its own voters. Should a crash bring it back nothing that is committed is lost, but voters of a change that
	// came to nothing may count again at this replica, and hold an election up.
	Truncate *kafka.Offset
	// Chunk is a part of a snapshot that is being downloaded.
	Chunk *Chunk
	// Append are a leader's batches, to be appended as they are. The caller had checked them before it told of the answer that they
	// were in (see [Member.Answered]).
	Append []byte
	// Controls are control records of the leader's own, to be appended as one batch in its epoch.
	Controls []Control
	// Role is what the member is now. Nil when nothing of it has changed.
	Role *Role
	// HighWatermark is the new end of what is committed and flushed here. Nil when it is as it was.
	HighWatermark *kafka.Offset
	// Answers go to those who asked, in any order.
	Answers []Answer
	// Send are requests to other nodes, in any order.
	Send []Message
}

// Ticket names a request that waits for its answer.
type Ticket uint64

// Answer ends a request.
type Answer struct {
	Ticket   Ticket
	Response Response
}

// Chunk is a part of a snapshot from a leader. Position counts up from 0 without a gap; a Chunk at 0 begins the file anew, whatever was there.
// After Last the caller reads the snapshot, makes it durable, gives up the whole log, which then begins and ends at Snapshot.End, and
// says [Member.Restored]; or, if the snapshot can't be used, [Member.SnapshotRefused].
type Chunk struct {
	Snapshot SnapshotID
	Position int64
	Bytes    []byte
	Last     bool
}

// Control is a control record: LeaderChange, VersionChange or VotersChange.
type Control interface{ control() }

// LeaderChange is the first record of each epoch.
type LeaderChange struct {
	Leader           kafka.NodeID
	Voters, Granting []ReplicaKey // by id; Directory is zero under kraft.version 0
}

// VersionChange is a KRaftVersionRecord.
type VersionChange struct{ Level int16 }

// VotersChange is a VotersRecord.
type VotersChange struct{ Voters []Voter }

func (LeaderChange) control()  {}
func (VersionChange) control() {}
func (VotersChange) control()  {}

// Batch is what a member wants to know of a batch that was appended.
type Batch struct {
	Base, End kafka.Offset // its first record's offset, and one past its last's
	Epoch     kafka.Epoch
	// Controls are the records of a control batch, at Base and up: nil where a record is of a kind that is not named here. Nil for
	// data.
	Controls []Control
}

// RoleKind says what a member does.
type RoleKind int8

// The kinds of Kafka's states. An observer, which does not vote, is Unattached or Follower.
const (
	Unattached  RoleKind = iota // knows no leader of its epoch; it may have voted
	Prospective                 // asks whether it would be elected (KIP-996)
	Candidate                   // asks for votes
	Leader
	Follower
	Resigned // led the epoch, or stood for it, and has given up
)

func (k RoleKind) String() string {
	return [...]string{"unattached", "prospective", "candidate", "leader", "follower", "resigned"}[k]
}

// Role is what a member is.
type Role struct {
	Kind   RoleKind
	Epoch  kafka.Epoch
	Leader kafka.NodeID // of Epoch, or NoNode
	// Endpoints are the leader's, where they are known.
	Endpoints []Endpoint
	// EpochStart is where a leader's own records begin. It may act as the active controller when the high watermark is above: by
	// then all that was committed before is committed again and known to it.
	EpochStart kafka.Offset
	Voter      bool // whether the member votes
}
