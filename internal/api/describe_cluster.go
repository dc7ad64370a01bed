package api

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

// The kinds of endpoint that DescribeCluster can be asked about.
const (
	brokerEndpoints     = 1
	controllerEndpoints = 2
)

// describeCluster names the cluster and its brokers (key 60). What is asked about controllers is for a controller's listener.
func (a *API) describeCluster(c call) {
	req := kmsg.NewPtrDescribeClusterRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.EndpointType, resp.ControllerID = brokerEndpoints, int32(kafka.NoNode)
	if c.Version >= 1 && req.EndpointType != brokerEndpoints {
		code, message := kafka.UnsupportedEndpointType, fmt.Sprintf("unknown endpoint type %d: brokers are 1, controllers 2", req.EndpointType)
		if req.EndpointType == controllerEndpoints {
			code, message = kafka.MismatchedEndpointType, "this is a broker's listener: controllers are described on a controller's"
		}
		resp.ErrorCode, resp.ErrorMessage = int16(code), &message
		c.answer(resp)
		return
	}
	image := a.Quorum.Image()
	resp.ClusterID, resp.ControllerID = image.ClusterID(), int32(dialableController(image))
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = allClusterOperations
	}
	for _, b := range image.Brokers() {
		host, port, ok := a.addressOn(c, b)
		if !ok || b.Fenced && !req.IncludeFencedBrokers {
			continue
		}
		row := kmsg.NewDescribeClusterResponseBroker()
		row.NodeID, row.Host, row.Port, row.Rack, row.IsFenced = int32(b.ID), host, port, b.Rack, b.Fenced
		resp.Brokers = append(resp.Brokers, row)
	}
	c.answer(resp)
}
