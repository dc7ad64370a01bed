package api

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/wire"
)

// Controller is what a node of the quorum does for others. Its calls may wait for the quorum; they end with their context. On a node that
// is not the active controller those that are for it alone return [kafka.NotController].
type Controller interface {
	// Handle takes a message of the quorum. The answer's type belongs to the request's. An error says that the node is not there yet, or
	// no more.
	Handle(ctx context.Context, request kraft.Request) (kraft.Response, error)
	// Leader returns the active controller, as far as this node knows one.
	Leader() (kraft.Node, kafka.Epoch, bool)
	// IsActive tells whether this node is the active controller.
	IsActive() bool

	RegisterBroker(ctx context.Context, cmd meta.Registration) (kafka.BrokerEpoch, error)
	Heartbeat(ctx context.Context, cmd meta.Heartbeat) (meta.HeartbeatResult, error)
	AlterPartition(ctx context.Context, cmd meta.AlterPartition) (meta.AlterPartitionResult, error)
	AllocateProducerIDs(ctx context.Context, broker kafka.NodeID, epoch kafka.BrokerEpoch) (first kafka.ProducerID, count int32, err error)
	AssignDirs(ctx context.Context, cmd meta.AssignDirs) (meta.AssignDirsResult, error)
	RegisterController(ctx context.Context, cmd meta.RegisterController) error
}

// ControllerListener serves a controller's listener: other requests, other answers than a broker's.
type ControllerListener struct{ a *API }

// OnControllers returns what serves the controllers' listener of the node.
func (a *API) OnControllers() ControllerListener { return ControllerListener{a} }

// Serves is as [API.Serves].
func (l ControllerListener) Serves(key, version int16) bool {
	return l.a.servedToControllers.serves(key, version)
}

// Carries tells that nothing here carries a producer's records.
func (l ControllerListener) Carries(int16) bool { return false }

// Overlaps tells that each request waits for the one before.
func (l ControllerListener) Overlaps(int16) bool { return false }

// Handle is as [API.Handle].
func (l ControllerListener) Handle(req *wire.Request, reply func(*wire.Response)) {
	served := &l.a.servedToControllers
	served.entry(req.Key).handle(l.a, call{Request: req, reply: reply, served: served})
}

// What messages of the quorum name: the one partition that has one.
const metadataPartition = 0

// ofThisCluster tells whether a message is meant for this cluster. A message need not say.
func (a *API) ofThisCluster(id *string) bool { return id == nil || *id == a.ClusterID() }

// anotherCluster is what is said to who names another cluster. The name is not repeated: it may be as long as a string can be.
func (a *API) anotherCluster() *string {
	return new(fmt.Sprintf("The given id doesn't match the cluster id %q", a.ClusterID()))
}

// only returns the row of rows if there is one alone, else an empty one.
func only[T any](rows []T) (row T) {
	if len(rows) == 1 {
		row = rows[0]
	}
	return row
}

// misdirected returns the code for a message of the quorum that isn't meant for this one: it names another cluster, or another partition than
// the one of the metadata, or more than that. partition is the one of its partitions.
func (a *API) misdirected(cluster *string, topic string, partitions int, partition int32) kafka.Error {
	switch {
	case !a.ofThisCluster(cluster):
		return kafka.InconsistentClusterId
	case topic != meta.ClusterMetadataTopic || partitions != 1 || partition != metadataPartition:
		return kafka.InvalidRequest
	}
	return kafka.None
}

// ask hands a message to the quorum. When ok is false the connection was closed: the node is not there.
func ask[R kraft.Response](a *API, c call, request kraft.Request) (response R, ok bool) {
	answer, err := a.Controller.Handle(context.Background(), request)
	if err == nil {
		if response, ok = answer.(R); ok {
			return response, true
		}
	}
	c.close()
	return response, false
}

// leaderAddressOn returns where the leader listens, on the listener that the client uses if it has that one.
func leaderAddressOn(c call, current kraft.Current) (kraft.Endpoint, bool) {
	if current.Leader == kafka.NoNode || len(current.Endpoints) == 0 {
		return kraft.Endpoint{}, false
	}
	i := slices.IndexFunc(current.Endpoints, func(e kraft.Endpoint) bool { return e.Name == c.Peer.Listener })
	return current.Endpoints[max(i, 0)], true
}

// codeOf returns the code of an error of the active controller's, None for nil.
func codeOf(err error) int16 {
	code, _ := kafka.Answer(err)
	return int16(code)
}

// endpointsOf reads the listeners of a message, each by row.
func endpointsOf[T any](rows []T, row func(*T) kraft.Endpoint) []kraft.Endpoint {
	endpoints := make([]kraft.Endpoint, len(rows))
	for i := range rows {
		endpoints[i] = row(&rows[i])
	}
	return endpoints
}

// describeControllers names the cluster and its controllers (key 60). What is asked about brokers is for a broker's listener.
func (a *API) describeControllers(c call) {
	req := kmsg.NewPtrDescribeClusterRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.EndpointType, resp.ControllerID = controllerEndpoints, int32(kafka.NoNode)
	if c.Version == 0 || req.EndpointType != controllerEndpoints {
		code, message := kafka.MismatchedEndpointType, "this is a controller's listener: brokers are described on a broker's"
		resp.ErrorCode, resp.ErrorMessage = int16(code), &message
		c.answer(resp)
		return
	}
	resp.ClusterID = a.ClusterID()
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = allClusterOperations
	}
	if leader, _, known := a.Controller.Leader(); known {
		resp.ControllerID = int32(leader.ID)
	}
	for _, controller := range a.Quorum.Image().Controllers() {
		i := slices.IndexFunc(controller.Endpoints, func(e meta.Endpoint) bool { return e.Name == c.Peer.Listener })
		if i < 0 {
			continue
		}
		row := kmsg.NewDescribeClusterResponseBroker()
		row.NodeID, row.Host, row.Port = int32(controller.ID), controller.Endpoints[i].Host, int32(controller.Endpoints[i].Port)
		resp.Brokers = append(resp.Brokers, row)
	}
	c.answer(resp)
}
