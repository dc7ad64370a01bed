package peer

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

// controllersWanted asks DescribeCluster for controllers.
const controllersWanted = 2

// FindCluster asks a controller which cluster it is in. An *[Error] tells whether anybody is there.
func FindCluster(ctx context.Context, address string, o Options) (clusterID string, err error) {
	c := NewClient(address, o)
	defer c.Close()
	m := kmsg.NewPtrDescribeClusterRequest()
	m.EndpointType = controllersWanted
	decoded, err := c.Do(ctx, m, 1)
	if err != nil {
		return "", err
	}
	response := decoded.(*kmsg.DescribeClusterResponse)
	if response.ErrorCode != 0 {
		return "", kafka.Error(response.ErrorCode)
	}
	return response.ClusterID, nil
}
