package coord

import (
	"context"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// creation is one attempt to create __consumer_offsets: all who miss the topic wait for the same.
type creation struct {
	done chan struct{}
	err  error
}

// Find returns the node that answers for the group. The topic is created when it is missing. The error is
// COORDINATOR_NOT_AVAILABLE while nobody answers.
func (c *Coordinator) Find(ctx context.Context, groupID string) (kafka.NodeID, error) {
	t, ok := c.opts.Image().Topic(meta.OffsetsTopic)
	if !ok {
		if err := c.create(ctx); err != nil {
			return kafka.NoNode, kafka.CoordinatorNotAvailable
		}
		if t, ok = c.opts.Image().Topic(meta.OffsetsTopic); !ok {
			return kafka.NoNode, kafka.CoordinatorNotAvailable
		}
	}
	leader := t.Partitions[kafka.PartitionFor(groupID, int32(len(t.Partitions)))].Leader
	if leader == kafka.NoNode {
		return kafka.NoNode, kafka.CoordinatorNotAvailable
	}
	return leader, nil
}

// create creates the topic, or waits for who does it already.
func (c *Coordinator) create(ctx context.Context) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return kafka.CoordinatorNotAvailable
	}
	making := c.making
	if making == nil {
		making = &creation{done: make(chan struct{})}
		c.making = making
		c.running.Go(func() {
			making.err = c.opts.CreateTopic(c.stop, meta.OffsetsTopic)
			if making.err != nil {
				c.opts.Log.Warn("cannot create the topic that groups are stored in", "topic", meta.OffsetsTopic, "error", making.err)
			}
			c.mu.Lock()
			c.making = nil
			c.mu.Unlock()
			close(making.done)
		})
	}
	c.mu.Unlock()
	select {
	case <-making.done:
		return making.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
