package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/peer"
	"github.com/raftsman/raftsman/internal/quorum"
	"github.com/raftsman/raftsman/internal/txn"
)

// others are this node's connections to other nodes. A node that is the whole cluster has none.
type others struct {
	raft, network *peer.Network
	quorum        *peer.Quorum
	brokers       *peer.Brokers

	ctx    context.Context // ends the calls that were spawned
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex // guards closed
	closed bool
}

func (n *Node) peerOptions() peer.Options {
	return peer.Options{
		Dial: n.dial, ClientID: fmt.Sprintf("raftsman-%d", n.config.NodeID()),
		DialTimeout: n.config.Duration("socket.connection.setup.timeout.ms"), RequestTimeout: n.config.Duration("request.timeout.ms"),
	}
}

// connect makes ready to talk to other nodes, where there are any.
func (n *Node) connect() {
	if n.config.SingleNode() {
		return
	}
	network, name := peer.NewNetwork(n.peerOptions()), n.config.ControllerListeners()[0]
	soon := n.peerOptions()
	soon.RequestTimeout = n.config.Duration("controller.quorum.request.timeout.ms")
	soon.DialTimeout = min(soon.DialTimeout, soon.RequestTimeout)
	raft := peer.NewNetwork(soon)
	n.others = &others{
		raft: raft, network: network,
		quorum:  peer.NewQuorum(raft, network, n.ClusterID, name),
		brokers: peer.NewBrokers(network, n.config.NodeID(), n.brokerEndpoint),
	}
	n.others.ctx, n.others.cancel = context.WithCancel(context.Background())
}

// askCoordinator asks the coordinator of a transactional id, here or on another broker, about partitions that a producer writes to here.
func (n *Node) askCoordinator(transactionalID string, cmd txn.Command, reply func(txn.Reply)) {
	adds, is := cmd.(*txn.AddPartitions)
	leader := n.transactionCoordinator(transactionalID)
	if !is || leader == kafka.NoNode || leader == n.config.NodeID() {
		n.coord.Transact(transactionalID, cmd, reply)
		return
	}
	if !n.others.spawn(func(ctx context.Context) {
		codes, err := n.others.brokers.AddPartitions(ctx, leader, transactionalID, adds.ID.Producer, adds.ID.Epoch, adds.VerifyOnly, adds.Partitions)
		answer := &txn.AddPartitionsReply{Codes: codes}
		if err != nil && !errors.As(err, &answer.Code) {
			answer.Code = kafka.NetworkException
		}
		reply(answer)
	}) {
		reply(cmd.Fail(kafka.NotCoordinator))
	}
}

// transactionCoordinator is the broker that leads the partition of a transactional id, kafka.NoNode while none does.
func (n *Node) transactionCoordinator(transactionalID string) kafka.NodeID {
	t, ok := n.quorum.Image().Topic(meta.TransactionsTopic)
	if !ok {
		return kafka.NoNode
	}
	return t.Partitions[kafka.PartitionFor(transactionalID, int32(len(t.Partitions)))].Leader
}

// spawn runs fn on a goroutine that close waits for. It returns false when close has begun.
func (o *others) spawn(fn func(context.Context)) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return false
	}
	o.wg.Go(func() { fn(o.ctx) })
	return true
}

func (o *others) close() {
	if o != nil {
		o.mu.Lock()
		o.closed = true
		o.mu.Unlock()
		o.cancel()
		defer o.wg.Wait()
		o.raft.Close()
		o.network.Close()
	}
}

// brokerEndpoint is where a broker listens for other brokers, by the newest metadata.
func (n *Node) brokerEndpoint(id kafka.NodeID) (peer.Endpoint, bool) {
	b, ok := n.quorum.Image().Broker(id)
	if !ok {
		return peer.Endpoint{}, false
	}
	e, ok := b.Endpoint(n.config.InterBrokerListener())
	return peer.Endpoint{Host: e.Host, Port: e.Port, Security: e.Security}, ok
}

// transport is what the quorum reaches other nodes by.
type transport struct{ *peer.Quorum }

// AllocateProducerIDs is as in [peer.Quorum].
func (t transport) AllocateProducerIDs(ctx context.Context, to kraft.Node, broker kafka.NodeID, epoch kafka.BrokerEpoch) (quorum.ProducerIDs, error) {
	first, count, err := t.Quorum.AllocateProducerIDs(ctx, to, broker, epoch)
	return quorum.ProducerIDs{First: first, Count: count}, err
}

// controller is what the api asks of this node's part in the quorum.
type controller struct{ *quorum.Node }

// AllocateProducerIDs is as in [quorum.Node].
func (c controller) AllocateProducerIDs(ctx context.Context, broker kafka.NodeID, epoch kafka.BrokerEpoch) (kafka.ProducerID, int32, error) {
	ids, err := c.Node.AllocateProducerIDs(ctx, broker, epoch)
	return ids.First, ids.Count, err
}

// alterPartition has the active controller change in-sync sets, wherever it is.
func (n *Node) alterPartition(ctx context.Context, cmd meta.AlterPartition) (meta.AlterPartitionResult, error) {
	if n.others == nil || n.quorum.IsActive() {
		return n.quorum.AlterPartition(ctx, cmd)
	}
	leader, _, known := n.quorum.Leader()
	if !known || leader.ID == n.config.NodeID() {
		return meta.AlterPartitionResult{}, kafka.NotController
	}
	return n.others.quorum.AlterPartition(ctx, leader, cmd)
}
