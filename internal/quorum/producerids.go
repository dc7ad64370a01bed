package quorum

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
)

// producerIDs hands out ids from the block that this broker took. What is left of a block at a crash or stop is never used.
type producerIDs struct {
	mu        sync.Mutex // guards what follows; held for memory only
	next, end kafka.ProducerID
	taking    *blockTaken
}

// blockTaken is one request for a block, on which all wait that found none.
type blockTaken struct {
	done chan struct{}
	err  error
}

// NextProducerID returns an id that was never returned before, also not before a crash: its block is durable first.
func (n *Node) NextProducerID(ctx context.Context) (kafka.ProducerID, error) {
	for {
		id, taking, mine := n.ids.take()
		if taking == nil {
			return id, nil
		}
		if mine {
			n.takeBlock(taking)
		}
		select {
		case <-taking.done:
		case <-ctx.Done():
			return kafka.NoProducer, ctx.Err()
		}
		if taking.err != nil {
			return kafka.NoProducer, taking.err
		}
	}
}

// take returns an id, or the request for a block to wait for; mine tells the caller to carry it out.
func (p *producerIDs) take() (id kafka.ProducerID, taking *blockTaken, mine bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next < p.end {
		p.next++
		return p.next - 1, nil, false
	}
	if p.taking == nil {
		p.taking = &blockTaken{done: make(chan struct{})}
		return 0, p.taking, true
	}
	return 0, p.taking, false
}

// takeBlock is not bound to the context of the one who asked: others wait for it too.
func (n *Node) takeBlock(taking *blockTaken) {
	block, err := n.allocate()
	n.ids.mu.Lock()
	defer n.ids.mu.Unlock()
	if err == nil {
		n.ids.next, n.ids.end = block.First, block.First+kafka.ProducerID(block.Count)
	}
	taking.err = err
	n.ids.taking = nil
	close(taking.done)
}

// allocate asks the active controller for a block, also one that is elected while it asks. While there is none the error is
// kafka.CoordinatorLoadInProgress, as Kafka's: the client asks again.
func (n *Node) allocate() (ProducerIDs, error) {
	if n.o.Transport == nil {
		return n.AllocateProducerIDs(context.Background(), n.o.NodeID, n.BrokerEpoch())
	}
	ctx, cancel := context.WithTimeout(n.life, time.Duration(n.o.RequestTimeoutMs)*time.Millisecond)
	defer cancel()
	for again := againMin; ; again = min(2*again, againMax) {
		block, err := n.allocateOnce(ctx)
		if code := kafka.Error(0); err == nil || errors.As(err, &code) && code != kafka.NotController {
			return block, err
		}
		select {
		case <-ctx.Done():
			return ProducerIDs{}, kafka.CoordinatorLoadInProgress
		case <-time.After(again):
		}
	}
}

func (n *Node) allocateOnce(ctx context.Context) (ProducerIDs, error) {
	epoch := n.BrokerEpoch()
	if n.IsActive() {
		return n.AllocateProducerIDs(ctx, n.o.NodeID, epoch)
	}
	to, err := n.controller()
	if err != nil {
		return ProducerIDs{}, err
	}
	return n.o.Transport.AllocateProducerIDs(ctx, to, n.o.NodeID, epoch)
}
