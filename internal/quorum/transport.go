package quorum

import (
	"context"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
)

// Transport reaches other nodes of the cluster. It is safe for concurrent use. A call ends with its context at the latest; an error means
// that it was not answered, or that it could not be asked.
type Transport interface {
	// Ask sends a message of the quorum and returns its answer, which is of the type that belongs to the request's. Error codes stand
	// in the answer. Fetches wait at the leader for as long as they say: they must not hold up other calls. Records and bytes of the
	// answer are the caller's.
	Ask(ctx context.Context, to kraft.Node, req kraft.Request) (kraft.Response, error)

	// What follows is asked of the active controller. An error code in the answer is returned as a kafka.Error.
	RegisterBroker(ctx context.Context, to kraft.Node, cmd meta.Registration) (kafka.BrokerEpoch, error)
	Heartbeat(ctx context.Context, to kraft.Node, cmd meta.Heartbeat) (meta.HeartbeatResult, error)
	AllocateProducerIDs(ctx context.Context, to kraft.Node, broker kafka.NodeID, epoch kafka.BrokerEpoch) (ProducerIDs, error)
	AssignDirs(ctx context.Context, to kraft.Node, cmd meta.AssignDirs) (meta.AssignDirsResult, error)
	RegisterController(ctx context.Context, to kraft.Node, cmd meta.RegisterController) error
}

// ProducerIDs is a block of producer ids that a broker may hand out.
type ProducerIDs struct {
	First kafka.ProducerID
	Count int32
}
