package replica

import (
	"cmp"
	"strings"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/partition"
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

// preferredFor is the replica from which a consumer in a rack is to read on from an offset: one in its rack that is in sync and has the
// offset. It is kafka.NoNode if the leader is as near, or none is.
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
	best := partition.FollowerState{ID: kafka.NoNode}
	for f := range p.core.Followers() {
		if !f.InSync || f.End < from || (*known)[f.ID] != rack {
			continue
		}
		if best.ID == kafka.NoNode || cmp.Or(cmp.Compare(f.End, best.End), cmp.Compare(f.CaughtUpMs, best.CaughtUpMs), cmp.Compare(f.ID, best.ID)) > 0 {
			best = f
		}
	}
	return best.ID
}
