package peer

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

// Brokers are the calls from one broker to another.
type Brokers struct {
	self     kafka.NodeID
	network  *Network
	endpoint func(kafka.NodeID) (Endpoint, bool)
}

// NewBrokers returns the calls that the broker self makes. endpoint tells where a broker listens for other brokers, by the newest
// metadata; it is asked at each call.
func NewBrokers(n *Network, self kafka.NodeID, endpoint func(kafka.NodeID) (Endpoint, bool)) *Brokers {
	return &Brokers{self: self, network: n, endpoint: endpoint}
}

// errUnknownBroker says that the metadata has no address of a broker.
var errUnknownBroker = errors.New("no address is known")

func (b *Brokers) client(of kafka.NodeID, line int) (*Client, error) {
	e, ok := b.endpoint(of)
	if !ok {
		return nil, &Error{Address: fmt.Sprintf("broker %d", of), Doing: dialling, Err: errUnknownBroker}
	}
	return b.network.client(e.Address(), line), nil
}

// The timestamps by which ListOffset asks for the ends of a log.
const (
	LogEnd   = -1
	LogStart = -2
)

// ListOffset asks the leader of a partition, as a replica, where its log ends ([LogEnd]) or begins ([LogStart]). A code in the answer is
// returned as a kafka.Error.
func (b *Brokers) ListOffset(ctx context.Context, from kafka.NodeID, tp kafka.TopicPartition, epoch kafka.Epoch, timestampMs int64) (
	kafka.Offset, error,
) {
	client, err := b.client(from, callLine)
	if err != nil {
		return kafka.NoOffset, err
	}
	row := kmsg.NewListOffsetsRequestTopicPartition()
	row.Partition, row.CurrentLeaderEpoch, row.Timestamp = tp.Partition, int32(epoch), timestampMs
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic, topic.Partitions = tp.Topic, append(topic.Partitions, row)
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID, request.Topics = int32(b.self), append(request.Topics, topic)
	decoded, err := client.Do(ctx, request, 4)
	if err != nil {
		return kafka.NoOffset, err
	}
	response := decoded.(*kmsg.ListOffsetsResponse)
	if len(response.Topics) != 1 || len(response.Topics[0].Partitions) != 1 {
		return kafka.NoOffset, kafka.UnknownServerError
	}
	answer := &response.Topics[0].Partitions[0]
	if answer.ErrorCode != 0 {
		return kafka.NoOffset, kafka.Error(answer.ErrorCode)
	}
	return kafka.Offset(answer.Offset), nil
}
