package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// alterPartition changes the in-sync sets of partitions for their leader (key 56).
func (a *API) alterPartition(c call) {
	req := kmsg.NewPtrAlterPartitionRequest()
	if !c.decode(req) {
		return
	}
	cmd := meta.AlterPartition{Broker: kafka.NodeID(req.BrokerID), Epoch: kafka.BrokerEpoch(req.BrokerEpoch)}
	for _, t := range req.Topics {
		topic := meta.AlterPartitionTopic{ID: t.TopicID}
		for i := range t.Partitions {
			topic.Partitions = append(topic.Partitions, alterationOf(c.Version, &t.Partitions[i]))
		}
		cmd.Topics = append(cmd.Topics, topic)
	}
	result, err := a.Controller.AlterPartition(context.Background(), cmd)
	resp := kmsg.NewPtrAlterPartitionResponse()
	resp.ErrorCode = codeOf(err)
	for _, t := range result.Topics {
		topic := kmsg.NewAlterPartitionResponseTopic()
		topic.TopidID = t.ID
		for i := range t.Partitions {
			topic.Partitions = append(topic.Partitions, alteredRow(&t.Partitions[i]))
		}
		resp.Topics = append(resp.Topics, topic)
	}
	c.answer(resp)
}

// alterationOf reads a row. Before version 3 the epochs of the replicas' brokers are not told, and not compared.
func alterationOf(version int16, row *kmsg.AlterPartitionRequestTopicPartition) meta.PartitionAlteration {
	p := meta.PartitionAlteration{
		Index: row.Partition, LeaderEpoch: kafka.Epoch(row.LeaderEpoch), PartitionEpoch: kafka.Epoch(row.PartitionEpoch),
		RecoveryState: row.LeaderRecoveryState,
	}
	if version < 3 {
		for _, id := range row.NewISR {
			p.ISR = append(p.ISR, meta.ISRMember{Broker: kafka.NodeID(id), Epoch: meta.NoBrokerEpoch})
		}
		return p
	}
	for _, member := range row.NewEpochISR {
		p.ISR = append(p.ISR, meta.ISRMember{Broker: kafka.NodeID(member.BrokerID), Epoch: kafka.BrokerEpoch(member.BrokerEpoch)})
	}
	return p
}

func alteredRow(p *meta.AlteredPartition) kmsg.AlterPartitionResponseTopicPartition {
	row := kmsg.NewAlterPartitionResponseTopicPartition()
	row.Partition, row.ErrorCode = p.Index, int16(p.Err)
	if p.Err != kafka.None {
		return row
	}
	row.LeaderID, row.LeaderEpoch, row.PartitionEpoch = int32(p.Leader), int32(p.LeaderEpoch), int32(p.PartitionEpoch)
	row.ISR, row.LeaderRecoveryState = nodeIDs(p.ISR, nil), p.RecoveryState
	return row
}
