package meta

import (
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
)

// DecideAlterPartition judges a leader's wishes, each partition by itself. STALE_BROKER_EPOCH: the leader is not registered under
// this epoch.
func DecideAlterPartition(im *Image, cmd AlterPartition, env Env) ([]Entry, AlterPartitionResult, error) {
	if _, err := im.registered(cmd.Broker, cmd.Epoch); err != nil {
		return nil, AlterPartitionResult{}, err
	}
	changes := changesOf(im, &env)
	var result AlterPartitionResult
	for _, row := range cmd.Topics {
		topic := AlterPartitionTopicResult{ID: row.ID}
		t, exists := im.TopicByID(row.ID)
		for _, alter := range row.Partitions {
			answer := AlteredPartition{Index: alter.Index}
			if !exists {
				answer.Err = kafka.UnknownTopicId
			} else {
				answer = changes.alter(t, cmd.Broker, alter)
			}
			topic.Partitions = append(topic.Partitions, answer)
		}
		result.Topics = append(result.Topics, topic)
	}
	return changes.entries, result, nil
}

// alter judges one partition and takes the change. A leader that is no leader any more by what it brought about, the end of a
// reassignment, is told so.
func (c *changes) alter(t *Topic, leader kafka.NodeID, alter PartitionAlteration) AlteredPartition {
	p := c.partition(t, alter.Index)
	if err := p.judge(c.im, leader, alter); err != kafka.None {
		return AlteredPartition{Index: alter.Index, Err: err}
	}
	change := c.changeOf(t, alter.Index, p)
	change.isr, change.recovering = alter.members(), alter.RecoveryState == Recovering
	c.take(change.entries())
	p = c.partition(t, alter.Index)
	if p.Leader != leader {
		return AlteredPartition{Index: alter.Index, Err: kafka.NewLeaderElected}
	}
	return AlteredPartition{
		Index: alter.Index, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, ISR: p.ISR,
		RecoveryState: recoveryState(p.Recovering), PartitionEpoch: p.PartitionEpoch,
	}
}

func (a PartitionAlteration) members() []kafka.NodeID {
	ids := make([]kafka.NodeID, len(a.ISR))
	for i, m := range a.ISR {
		ids[i] = m.Broker
	}
	return ids
}

// judge tells why the partition can't be altered so. Epochs that this controller has not seen are of a newer one.
func (p *Partition) judge(im *Image, leader kafka.NodeID, alter PartitionAlteration) kafka.Error {
	switch isr := alter.members(); {
	case p == nil:
		return kafka.UnknownTopicOrPartition
	case alter.LeaderEpoch > p.LeaderEpoch, alter.PartitionEpoch > p.PartitionEpoch:
		return kafka.NotController
	case alter.LeaderEpoch < p.LeaderEpoch:
		return kafka.FencedLeaderEpoch
	case p.Leader != leader:
		return kafka.InvalidRequest
	case alter.PartitionEpoch < p.PartitionEpoch:
		return kafka.InvalidUpdateVersion
	case len(without(isr, p.Replicas...)) > 0, repeats(isr), !slices.Contains(isr, leader):
		return kafka.InvalidRequest
	case alter.RecoveryState != Recovered && (alter.RecoveryState != Recovering || !p.Recovering || len(isr) > 1):
		return kafka.InvalidRequest
	}
	for _, m := range alter.ISR {
		b, registered := im.Broker(m.Broker)
		if !registered || !b.inService() || m.Epoch != NoBrokerEpoch && m.Epoch != b.Epoch {
			return kafka.IneligibleReplica
		}
	}
	return kafka.None
}

func repeats(ids []kafka.NodeID) bool {
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			return true
		}
	}
	return false
}

// registered returns a broker that is registered under this epoch, or STALE_BROKER_EPOCH.
func (im *Image) registered(id kafka.NodeID, epoch kafka.BrokerEpoch) (*Broker, error) {
	switch b, ok := im.Broker(id); {
	case !ok:
		return nil, kafka.Refuse(kafka.StaleBrokerEpoch, "no broker is registered with the id %d", id)
	case b.Epoch != epoch:
		return nil, kafka.Refuse(kafka.StaleBrokerEpoch, "broker %d is registered under epoch %d, not %d", id, b.Epoch, epoch)
	default:
		return b, nil
	}
}
