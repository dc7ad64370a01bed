package peer

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
)

// Quorum are the calls between the members of the metadata quorum. Each goes to a controller's listener. What the other member does not
// serve at a version that can say it is answered with UNSUPPORTED_VERSION.
type Quorum struct {
	raft     *Network
	others   *Network
	cluster  func() string
	listener string
}

// NewQuorum returns the calls of a member of a cluster: messages of the quorum go by raft, which gives up soon, and all else by others. The
// addresses of leaders that answers name are of the listener.
func NewQuorum(raft, others *Network, cluster func() string, listener string) *Quorum {
	return &Quorum{raft: raft, others: others, cluster: cluster, listener: listener}
}

// raftTopic is the one partition that there is a quorum of, as messages name it.
const (
	raftTopic     = meta.ClusterMetadataTopic
	raftPartition = 0
)

// send sends a message of the quorum. When ctx ends the call the connection is closed: the other side may be gone without a word, and the
// next message is not to wait for it.
func (q *Quorum) send(ctx context.Context, to kraft.Endpoint, line int, request kmsg.Request, x exchange) (kmsg.Response, kafka.Error, error) {
	x.alone = true
	return answered(q.raft.client(address(to), line).send(ctx, request, x))
}

func address(to kraft.Endpoint) string { return Endpoint{Host: to.Host, Port: to.Port}.Address() }

// Ask sends a message of the quorum to another member and returns the answer, which is of the type that belongs to the request's. Codes
// stand in it; its records and bytes are the caller's. A fetch waits on a connection of its own, and so does what waits for voters to change.
func (q *Quorum) Ask(ctx context.Context, to kraft.Node, request kraft.Request) (kraft.Response, error) {
	switch r := request.(type) {
	case *kraft.VoteRequest:
		return q.vote(ctx, to.Endpoint, r)
	case *kraft.BeginQuorumEpochRequest:
		return q.begin(ctx, to.Endpoint, r)
	case *kraft.EndQuorumEpochRequest:
		return q.end(ctx, to.Endpoint, r)
	case *kraft.FetchRequest:
		return q.fetch(ctx, to.Endpoint, r)
	case *kraft.FetchSnapshotRequest:
		return q.fetchSnapshot(ctx, to.Endpoint, r)
	case *kraft.AddVoterRequest:
		return q.addVoter(ctx, to.Endpoint, r)
	case *kraft.RemoveVoterRequest:
		return q.removeVoter(ctx, to.Endpoint, r)
	case *kraft.UpdateVoterRequest:
		return q.updateVoter(ctx, to.Endpoint, r)
	case *kraft.VersionsRequest:
		return q.versions(ctx, to.Endpoint)
	}
	return nil, fmt.Errorf("%T is no message between members of the quorum", request)
}

// call sends a request that the other side answers at once.
func (q *Quorum) call(ctx context.Context, to kraft.Endpoint, request kmsg.Request, min int16) (kmsg.Response, kafka.Error, error) {
	return q.send(ctx, to, raftLine, request, exchange{min: min, max: request.MaxVersion()})
}

// answered makes an answer of a version that is not served.
func answered(response kmsg.Response, err error) (kmsg.Response, kafka.Error, error) {
	if errors.Is(err, ErrUnsupported) {
		return nil, kafka.UnsupportedVersion, nil
	}
	return response, kafka.None, err
}

// vote asks for a vote.
func (q *Quorum) vote(ctx context.Context, to kraft.Endpoint, r *kraft.VoteRequest) (kraft.Response, error) {
	min := int16(0)
	if r.PreVote {
		min = 2
	}
	response, code, err := q.call(ctx, to, voteRequest(q.cluster(), r), min)
	if err != nil || code != kafka.None {
		return &kraft.VoteResponse{Error: code, Current: kraft.NoCurrent}, err
	}
	return q.voteResponse(response.(*kmsg.VoteResponse)), nil
}

// begin makes a leader known.
func (q *Quorum) begin(ctx context.Context, to kraft.Endpoint, r *kraft.BeginQuorumEpochRequest) (kraft.Response, error) {
	response, code, err := q.call(ctx, to, beginRequest(q.cluster(), r), 0)
	if err != nil || code != kafka.None {
		return &kraft.BeginQuorumEpochResponse{Error: code, Current: kraft.NoCurrent}, err
	}
	return q.beginResponse(response.(*kmsg.BeginQuorumEpochResponse)), nil
}

// end says that a leader goes.
func (q *Quorum) end(ctx context.Context, to kraft.Endpoint, r *kraft.EndQuorumEpochRequest) (kraft.Response, error) {
	response, code, err := q.call(ctx, to, endRequest(q.cluster(), r), 0)
	if err != nil || code != kafka.None {
		return &kraft.EndQuorumEpochResponse{Error: code, Current: kraft.NoCurrent}, err
	}
	return q.endResponse(response.(*kmsg.EndQuorumEpochResponse)), nil
}

// fetch asks for the metadata log's records. They are the caller's.
func (q *Quorum) fetch(ctx context.Context, to kraft.Endpoint, r *kraft.FetchRequest) (kraft.Response, error) {
	message := kmsg.NewPtrFetchRequest()
	cluster := q.cluster()
	request := asVersion{message, func(version int16) { raftFetchRequest(message, cluster, r, version) }}
	response, code, err := q.send(ctx, to, raftFetchLine, request, exchange{min: fetchMin, max: message.MaxVersion(), waitMs: r.MaxWaitMs})
	if err != nil || code != kafka.None {
		return &kraft.FetchResponse{Error: code, Current: kraft.NoCurrent, HighWatermark: kafka.NoOffset}, err
	}
	return q.fetchResponse(response.(*kmsg.FetchResponse)), nil
}

// fetchSnapshot asks for a part of a snapshot. Its bytes are the caller's.
func (q *Quorum) fetchSnapshot(ctx context.Context, to kraft.Endpoint, r *kraft.FetchSnapshotRequest) (kraft.Response, error) {
	message := kmsg.NewPtrFetchSnapshotRequest()
	cluster := q.cluster()
	request := asVersion{message, func(version int16) { snapshotRequest(message, cluster, r, version) }}
	response, code, err := q.send(ctx, to, raftFetchLine, request, exchange{max: message.MaxVersion()})
	if err != nil || code != kafka.None {
		return &kraft.FetchSnapshotResponse{Error: code, Current: kraft.NoCurrent}, err
	}
	return q.snapshotResponse(response.(*kmsg.FetchSnapshotResponse)), nil
}

// addVoter asks the leader to add a voter. The answer may take as long as the request says.
func (q *Quorum) addVoter(ctx context.Context, to kraft.Endpoint, r *kraft.AddVoterRequest) (kraft.Response, error) {
	request := addVoterRequest(q.cluster(), r)
	response, code, err := q.send(ctx, to, raftVoterLine, request, exchange{max: request.MaxVersion(), waitMs: r.TimeoutMs})
	if err != nil || code != kafka.None {
		return &kraft.AddVoterResponse{Error: code}, err
	}
	m := response.(*kmsg.AddRaftVoterResponse)
	return &kraft.AddVoterResponse{Error: kafka.Error(m.ErrorCode), Message: text(m.ErrorMessage)}, nil
}

// removeVoter asks the leader to remove a voter.
func (q *Quorum) removeVoter(ctx context.Context, to kraft.Endpoint, r *kraft.RemoveVoterRequest) (kraft.Response, error) {
	request := kmsg.NewPtrRemoveRaftVoterRequest()
	request.ClusterID, request.VoterID, request.VoterDirectoryID = new(q.cluster()), int32(r.Voter.ID), r.Voter.Directory
	response, code, err := q.send(ctx, to, raftVoterLine, request, exchange{max: request.MaxVersion()})
	if err != nil || code != kafka.None {
		return &kraft.RemoveVoterResponse{Error: code}, err
	}
	m := response.(*kmsg.RemoveRaftVoterResponse)
	return &kraft.RemoveVoterResponse{Error: kafka.Error(m.ErrorCode), Message: text(m.ErrorMessage)}, nil
}

// updateVoter tells the leader where a voter listens and what it supports.
func (q *Quorum) updateVoter(ctx context.Context, to kraft.Endpoint, r *kraft.UpdateVoterRequest) (kraft.Response, error) {
	request := updateVoterRequest(q.cluster(), r)
	response, code, err := q.send(ctx, to, raftVoterLine, request, exchange{max: request.MaxVersion()})
	if err != nil || code != kafka.None {
		return &kraft.UpdateVoterResponse{Error: code, Current: kraft.NoCurrent}, err
	}
	m := response.(*kmsg.UpdateRaftVoterResponse)
	current := kraft.Current{Leader: kafka.NodeID(m.CurrentLeader.LeaderID), Epoch: kafka.Epoch(m.CurrentLeader.LeaderEpoch)}
	if m.CurrentLeader.Host != "" {
		current.Endpoints = []kraft.Endpoint{{Name: q.listener, Host: m.CurrentLeader.Host, Port: uint16(m.CurrentLeader.Port)}}
	}
	return &kraft.UpdateVoterResponse{Error: kafka.Error(m.ErrorCode), Current: current}, nil
}

// kraftVersionsFrom is the first version of ApiVersions that names features which a node supports from level 0 on.
const kraftVersionsFrom = 4

// versions asks which levels of kraft.version a node supports. One that does not say supports 0 alone.
func (q *Quorum) versions(ctx context.Context, to kraft.Endpoint) (kraft.Response, error) {
	request := apiVersions()
	response, code, err := q.send(ctx, to, raftLine, request, exchange{min: kraftVersionsFrom, max: kraftVersionsFrom})
	if err != nil || code != kafka.None {
		return &kraft.VersionsResponse{Error: code}, err
	}
	m := response.(*kmsg.ApiVersionsResponse)
	answer := &kraft.VersionsResponse{Error: kafka.Error(m.ErrorCode)}
	for _, f := range m.SupportedFeatures {
		if f.Name == meta.KRaftVersion {
			answer.MinVersion, answer.MaxVersion = f.MinVersion, f.MaxVersion
		}
	}
	return answer, nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
