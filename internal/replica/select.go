package replica

import (
	"strings"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// racks are those of the brokers that are up, for consumers that are to read from a replica near them (KIP-392).
type racks map[kafka.NodeID]string

// racksOf is nil unless replica.selector.class is the one that goes by racks: other classes are Java's.
func (m *Manager) racksOf(image *meta.Image) *racks {
	if !strings.HasSuffix(m.broker.String("replica.selector.class"), ".RackAwareReplicaSelector") {
		return nil
	}
	found := racks{}
	for _, b := range image.Brokers() {
		if !b.Fenced && b.Rack != nil {
			found[b.ID] = *b.Rack
		}
	}
	return &found
}

// preferredFor is the replica from which a consumer in a rack is to read on from an offset: one in its rack, if the leader is in another. It is
// kafka.NoNode if the leader is as near, or none is.
func (p *replica) preferredFor(rack string, from kafka.Offset) kafka.NodeID {
	known := p.m.racks.Load()
	if known == nil || (*known)[p.m.node] == rack {
		return kafka.NoNode
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.core == nil {
		return kafka.NoNode
	}
	return p.core.Nearest(from, func(id kafka.NodeID) bool { return (*known)[id] == rack })
}
