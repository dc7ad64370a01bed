package replica

import (
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/partition"
)

// followerAt tells the leader's rules how far a follower is, which may commit records, and ask for the follower to be in sync. Where its log
// is not a part of this one it only finds out whether it may ask.
func (p *replica) followerAt(req *FetchRequest, f *FetchPartition, shared bool) error {
	at := partition.Fetched{ID: req.ReplicaID, Epoch: f.CurrentLeaderEpoch, BrokerEpoch: req.ReplicaEpoch, Start: f.LogStart, End: f.Offset}
	nowMs := p.m.upMs(p.m.now())
	var few [8]partition.Release
	p.mu.Lock()
	if p.core == nil {
		p.mu.Unlock()
		return kafka.NotLeaderOrFollower
	}
	if !shared {
		err := p.core.Follows(at)
		p.mu.Unlock()
		return err
	}
	before := p.core.HighWatermark()
	released, err := p.core.FollowerAt(at, nowMs, few[:0])
	p.ruled(before, released)
	return err
}

// event lets the leader's rules take something in, if this node leads. They may have moved to another log directory with the partition.
func (p *replica) event(take func(core *partition.Leader, nowMs int64) []partition.Release) {
	nowMs := p.m.upMs(p.m.now())
	p.mu.Lock()
	if p.core == nil {
		p.mu.Unlock()
		if next := p.successor(kafka.NotLeaderOrFollower); next != nil {
			next.event(take)
		}
		return
	}
	before := p.core.HighWatermark()
	p.ruled(before, take(p.core, nowMs))
}

// ruled does what follows from an event that the leader's rules took in: the high watermark was before, and released is to be answered. The
// caller holds mu, which is given back.
func (p *replica) ruled(before kafka.Offset, released []partition.Release) {
	moved := p.core.HighWatermark() > before
	if moved {
		p.publish()
		p.countReadable()
	}
	wants := p.core.Wants()
	p.mu.Unlock()
	if moved {
		p.dir.unsaved.Store(true)
		p.wakeReaders()
	}
	answerReleased(released)
	if wants {
		p.m.alterer.add(p)
	}
}

// checkLag asks for followers to leave the in-sync sets that are behind for too long.
func (m *Manager) checkLag() {
	for p := range m.replicas() {
		if p.leads() && p.serves() == nil {
			p.event(func(core *partition.Leader, nowMs int64) []partition.Release {
				if core.Alone() {
					return nil
				}
				return core.CheckLag(nowMs, nil)
			})
		}
	}
}

// takeBrokers takes over what the metadata says of brokers.
func (m *Manager) takeBrokers(image *meta.Image) {
	brokers := make(partition.Brokers, len(image.Brokers()))
	for _, b := range image.Brokers() {
		brokers[b.ID] = partition.Broker{Epoch: b.Epoch, Fenced: b.Fenced, Stopping: b.InControlledShutdown}
	}
	m.brokers.Store(&brokers)
	m.racks.Store(m.racksOf(image))
	for p := range m.replicas() {
		p.takeBrokers()
	}
}

// takeBrokers tells the leader's rules what the metadata says of brokers by now.
func (p *replica) takeBrokers() {
	if p.leads() {
		p.event(func(core *partition.Leader, nowMs int64) []partition.Release {
			return core.SetBrokers(*p.m.brokers.Load(), nowMs, nil)
		})
	}
}
