package coord

import (
	"context"

	"github.com/raftsman/raftsman/internal/kafka"
)

// creation is one attempt to create a topic: all who miss it wait for the same.
type creation struct {
	done chan struct{}
	err  error
}

// Find returns the node that answers for the group. The topic is created when it is missing. The error is
// COORDINATOR_NOT_AVAILABLE while nobody answers.
func (c *Coordinator) Find(ctx context.Context, groupID string) (kafka.NodeID, error) {
	return c.groups.find(ctx, groupID)
}

func (h *hosting[S]) find(ctx context.Context, key string) (kafka.NodeID, error) {
	t, ok := h.c.opts.Image().Topic(h.topic)
	if !ok {
		if err := h.create(ctx); err != nil {
			return kafka.NoNode, kafka.CoordinatorNotAvailable
		}
		if t, ok = h.c.opts.Image().Topic(h.topic); !ok {
			return kafka.NoNode, kafka.CoordinatorNotAvailable
		}
	}
	leader := t.Partitions[kafka.PartitionFor(key, int32(len(t.Partitions)))].Leader
	if leader == kafka.NoNode {
		return kafka.NoNode, kafka.CoordinatorNotAvailable
	}
	return leader, nil
}

// create creates the topic, or waits for who does it already.
func (h *hosting[S]) create(ctx context.Context) error {
	c := h.c
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return kafka.CoordinatorNotAvailable
	}
	making := h.making
	if making == nil {
		making = &creation{done: make(chan struct{})}
		h.making = making
		c.running.Go(func() {
			making.err = c.opts.CreateTopic(c.stop, h.topic)
			if making.err != nil {
				c.opts.Log.Warn("cannot create a coordinator's topic", "topic", h.topic, "error", making.err)
			}
			c.mu.Lock()
			h.making = nil
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
