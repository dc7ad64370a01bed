package kraft

import "github.com/raftsman/raftsman/internal/kafka"

// ReplicaKey names one copy of the metadata log: the node, and the directory that the copy is in (KIP-853). A node with an
// emptied disk is another replica than it was.
type ReplicaKey struct {
	ID        kafka.NodeID // NoNode where a request does not say
	Directory kafka.UUID   // zero where it is not known: before kraft.version 1, and in old versions of requests
}

// SnapshotID names a snapshot: it holds all records below End, the last of which was appended under Epoch.
type SnapshotID struct {
	End   kafka.Offset
	Epoch kafka.Epoch
}

// EpochEnd is where an epoch's records end in a log.
type EpochEnd struct {
	Epoch kafka.Epoch
	End   kafka.Offset
}

// Node is whom a message goes to.
type Node struct {
	ID       kafka.NodeID // NoNode for a bootstrap server, of which only the address is known
	Endpoint Endpoint     // a bootstrap server's has no Name
}

// Message is a request that a member wants sent. Its answer is told by [Member.Answered] or [Member.Failed], under ID.
type Message struct {
	ID      uint64
	To      Node
	Request Request
}

// Request is one of the pointers below. Cluster id, topic and partition are checked and filled in at the edge: a request of another
// cluster is answered there with INCONSISTENT_CLUSTER_ID, another topic or partition with INVALID_REQUEST (Fetch:
// UNKNOWN_TOPIC_OR_PARTITION).
type Request interface{ request() }

// Response is one of the pointers below. Error is the partition's where Kafka's message has one, and else the message's; a code at the
// top of such a message (INCONSISTENT_CLUSTER_ID, UNSUPPORTED_VERSION, …) comes as Error too, with Current left as [NoCurrent].
type Response interface{ response() }

// Current is what a response says of the quorum's leader. Messages carry it in NodeEndpoints and CurrentLeader.
type Current struct {
	Leader    kafka.NodeID // or NoNode
	Epoch     kafka.Epoch
	Endpoints []Endpoint // of Leader; empty where the message has no room for them or they are not known
}

// NoCurrent is what a response says that knows nothing.
var NoCurrent = Current{Leader: kafka.NoNode, Epoch: kafka.NoEpoch}

// VoteRequest asks for a vote (KIP-595), or with PreVote whether there would be one (KIP-996).
type VoteRequest struct {
	Epoch     kafka.Epoch // the candidate's; with PreVote its present one
	Candidate ReplicaKey
	Voter     ReplicaKey  // whom the candidate means; ID is NoNode before version 1
	LastEpoch kafka.Epoch // of the candidate's log
	End       kafka.Offset
	PreVote   bool
}

// VoteResponse answers a VoteRequest.
type VoteResponse struct {
	Error   kafka.Error
	Current Current
	Granted bool
}

// BeginQuorumEpochRequest is how a leader makes itself known.
type BeginQuorumEpochRequest struct {
	Leader    kafka.NodeID
	Epoch     kafka.Epoch
	Voter     ReplicaKey // whom the leader means; ID is NoNode before version 1
	Endpoints []Endpoint // the leader's; empty before version 1
}

// BeginQuorumEpochResponse answers a BeginQuorumEpochRequest.
type BeginQuorumEpochResponse struct {
	Error   kafka.Error
	Current Current
}

// EndQuorumEpochRequest is how a leader says that it goes, and who should follow it, the best first.
type EndQuorumEpochRequest struct {
	Leader    kafka.NodeID
	Epoch     kafka.Epoch
	Preferred []ReplicaKey // PreferredCandidates, or before version 1 PreferredSuccessors without directories
	Endpoints []Endpoint   // the leader's; empty before version 1
}

// EndQuorumEpochResponse answers an EndQuorumEpochRequest.
type EndQuorumEpochResponse struct {
	Error   kafka.Error
	Current Current
}

// FetchRequest is a replica's Fetch of __cluster_metadata.
type FetchRequest struct {
	Replica       ReplicaKey
	Epoch         kafka.Epoch // CurrentLeaderEpoch, or NoEpoch
	Offset        kafka.Offset
	LastEpoch     kafka.Epoch // LastFetchedEpoch
	MaxWaitMs     int32
	MaxBytes      int32        // of the request and of the partition, the smaller
	HighWatermark kafka.Offset // that the replica knows (KIP-1166, version 18); math.MaxInt64 where it is not told
}

// FetchResponse answers a FetchRequest. A member's own answer has Records nil: where Error is None, and Diverging and Snapshot are nil,
// the caller reads the batches from the request's Offset to below End, as many as fit into MaxBytes, the first in any case.
type FetchResponse struct {
	Error         kafka.Error
	Current       Current
	HighWatermark kafka.Offset // NoOffset while not known
	LogStart      kafka.Offset
	Diverging     *EpochEnd
	Snapshot      *SnapshotID
	End           kafka.Offset // not on the wire
	Records       []byte
}

// FetchSnapshotRequest asks for a part of a snapshot (KIP-630).
type FetchSnapshotRequest struct {
	Replica  ReplicaKey
	Epoch    kafka.Epoch // CurrentLeaderEpoch
	Snapshot SnapshotID
	Position int64
	MaxBytes int32
}

// FetchSnapshotResponse answers a FetchSnapshotRequest. A member's own answer with Error None is not complete: the caller fills in Size
// and Bytes from the file, or answers SNAPSHOT_NOT_FOUND or POSITION_OUT_OF_RANGE.
type FetchSnapshotResponse struct {
	Error    kafka.Error
	Current  Current
	Snapshot SnapshotID
	Size     int64 // of the whole file
	Position int64
	Bytes    []byte // UnalignedRecords
}

// AddVoterRequest adds a voter (KIP-853). From an admin client, or from an observer that joins by itself (KIP-1186).
type AddVoterRequest struct {
	TimeoutMs        int32
	Voter            Voter // MinVersion and MaxVersion are not told: the leader asks the voter
	AckWhenCommitted bool  // true before version 1
}

// AddVoterResponse answers an AddVoterRequest.
type AddVoterResponse struct {
	Error   kafka.Error
	Message string
}

// RemoveVoterRequest removes a voter.
type RemoveVoterRequest struct{ Voter ReplicaKey }

// RemoveVoterResponse answers a RemoveVoterRequest.
type RemoveVoterResponse struct {
	Error   kafka.Error
	Message string
}

// UpdateVoterRequest is how a voter tells the leader its endpoints and which levels of kraft.version it supports.
type UpdateVoterRequest struct {
	Epoch kafka.Epoch
	Voter Voter
}

// UpdateVoterResponse answers an UpdateVoterRequest.
type UpdateVoterResponse struct {
	Error   kafka.Error
	Current Current
}

// VersionsRequest asks, by ApiVersions, which levels of kraft.version a node supports.
type VersionsRequest struct{}

// VersionsResponse answers a VersionsRequest. A node that does not name kraft.version supports 0 to 0.
type VersionsResponse struct {
	Error                  kafka.Error
	MinVersion, MaxVersion int16
}

// UpgradeRequest raises kraft.version: UpdateFeatures asks the active controller for it, it is no message of Kafka's between
// controllers. The answer comes when the records are appended.
type UpgradeRequest struct {
	Level        int16
	ValidateOnly bool
}

// UpgradeResponse answers an UpgradeRequest.
type UpgradeResponse struct {
	Error   kafka.Error
	Message string
}

func (*VoteRequest) request()             {}
func (*BeginQuorumEpochRequest) request() {}
func (*EndQuorumEpochRequest) request()   {}
func (*FetchRequest) request()            {}
func (*FetchSnapshotRequest) request()    {}
func (*AddVoterRequest) request()         {}
func (*RemoveVoterRequest) request()      {}
func (*UpdateVoterRequest) request()      {}
func (*VersionsRequest) request()         {}
func (*UpgradeRequest) request()          {}

func (*VoteResponse) response()             {}
func (*BeginQuorumEpochResponse) response() {}
func (*EndQuorumEpochResponse) response()   {}
func (*FetchResponse) response()            {}
func (*FetchSnapshotResponse) response()    {}
func (*AddVoterResponse) response()         {}
func (*RemoveVoterResponse) response()      {}
func (*UpdateVoterResponse) response()      {}
func (*VersionsResponse) response()         {}
func (*UpgradeResponse) response()          {}
