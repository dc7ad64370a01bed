package quorum

import (
	"context"
	"sync"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
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
	var first kafka.ProducerID
	err := n.propose(context.Background(), func(im *meta.Image) (entries []meta.Entry, err error) {
		entries, first, err = meta.DecideProducerIDs(im, n.o.NodeID, n.brokerEpoch)
		return entries, err
	})
	n.ids.mu.Lock()
	defer n.ids.mu.Unlock()
	if err == nil {
		n.ids.next, n.ids.end = first, first+meta.ProducerIDBlock
	}
	taking.err = err
	n.ids.taking = nil
	close(taking.done)
}
