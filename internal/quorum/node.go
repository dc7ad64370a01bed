// Package quorum runs the metadata quorum: it persists __cluster_metadata, applies what is committed and publishes the
// cluster's Image. Today the quorum has one voter, this node.
package quorum

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// Node is this process's member of the metadata quorum. All methods are safe for concurrent use. Every command answers when
// what it decided is flushed, applied, published and all watchers have returned.
type Node struct {
	image atomic.Pointer[meta.Image]

	mu       sync.Mutex // guards watchers until Start
	watchers []func(old, now *meta.Image)
}

// Image returns the newest published image. One atomic load.
func (n *Node) Image() *meta.Image { return n.image.Load() }

// Watch registers fn, to be called with each published image and its predecessor, one call at a time, in order, before the
// command that caused it returns. Watchers are registered before Start, whose first call has an empty image as old. A watcher
// must not call a command of the Node.
func (n *Node) Watch(fn func(old, now *meta.Image)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.watchers = append(n.watchers, fn)
}

// CreateTopics decides, commits and publishes new topics.
func (n *Node) CreateTopics(ctx context.Context, cmd meta.CreateTopics) ([]meta.TopicResult, error) {
	return nil, kafka.NotController
}

// DeleteTopics deletes topics.
func (n *Node) DeleteTopics(ctx context.Context, cmd meta.DeleteTopics) ([]meta.DeleteResult, error) {
	return nil, kafka.NotController
}

// CreatePartitions grows topics.
func (n *Node) CreatePartitions(ctx context.Context, cmd meta.CreatePartitions) ([]meta.GrowthResult, error) {
	return nil, kafka.NotController
}

// AlterConfigs changes configurations.
func (n *Node) AlterConfigs(ctx context.Context, cmd meta.AlterConfigs) ([]meta.ConfigResult, error) {
	return nil, kafka.NotController
}

// NextProducerID returns an id that was never returned before, also not before a crash.
func (n *Node) NextProducerID(ctx context.Context) (kafka.ProducerID, error) {
	return kafka.NoProducer, kafka.NotController
}
