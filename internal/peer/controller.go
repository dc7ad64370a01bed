package peer

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
)

// This file has what a broker and a controller tell the active controller. A code in an answer is returned as a kafka.Error.

// RegisterBroker makes a broker known and returns its epoch.
func (q *Quorum) RegisterBroker(ctx context.Context, to kraft.Node, cmd meta.Registration) (kafka.BrokerEpoch, error) {
	m := kmsg.NewPtrBrokerRegistrationRequest()
	m.BrokerID, m.ClusterID, m.IncarnationID = int32(cmd.ID), q.cluster(), cmd.Incarnation
	m.Rack, m.IsMigratingZkBroker, m.PreviousBrokerEpoch = cmd.Rack, cmd.Migrating, int64(cmd.PreviousEpoch)
	m.LogDirs = rawIDs(cmd.LogDirs)
	for _, e := range cmd.Endpoints {
		row := kmsg.NewBrokerRegistrationRequestListener()
		row.Name, row.Host, row.Port, row.SecurityProtocol = e.Name, e.Host, e.Port, e.SecurityNumber()
		m.Listeners = append(m.Listeners, row)
	}
	for _, f := range cmd.Features {
		row := kmsg.NewBrokerRegistrationRequestFeature()
		row.Name, row.MinSupportedVersion, row.MaxSupportedVersion = f.Name, f.Min, f.Max
		m.Features = append(m.Features, row)
	}
	response, err := q.others.client(address(to.Endpoint), heartbeatLine).Do(ctx, m, 2) // the first that names log directories
	if err != nil {
		return meta.NoBrokerEpoch, err
	}
	r := response.(*kmsg.BrokerRegistrationResponse)
	if r.ErrorCode != 0 {
		return meta.NoBrokerEpoch, kafka.Error(r.ErrorCode)
	}
	return kafka.BrokerEpoch(r.BrokerEpoch), nil
}

// Heartbeat tells that a broker lives.
func (q *Quorum) Heartbeat(ctx context.Context, to kraft.Node, cmd meta.Heartbeat) (meta.HeartbeatResult, error) {
	m := kmsg.NewPtrBrokerHeartbeatRequest()
	response, err := q.others.client(address(to.Endpoint), heartbeatLine).Do(ctx, asVersion{m, func(version int16) { heartbeat(m, &cmd, version) }}, 0)
	if err != nil {
		return meta.HeartbeatResult{}, err
	}
	r := response.(*kmsg.BrokerHeartbeatResponse)
	if r.ErrorCode != 0 {
		return meta.HeartbeatResult{}, kafka.Error(r.ErrorCode)
	}
	return meta.HeartbeatResult{CaughtUp: r.IsCaughtUp, Fenced: r.IsFenced, ShouldShutDown: r.ShouldShutdown}, nil
}

// heartbeat fills a message: kmsg sends tagged fields at any version.
func heartbeat(m *kmsg.BrokerHeartbeatRequest, cmd *meta.Heartbeat, version int16) {
	m.BrokerID, m.BrokerEpoch, m.CurrentMetadataOffset = int32(cmd.Broker), int64(cmd.Epoch), int64(cmd.MetadataOffset)
	m.WantFence, m.WantShutdown = cmd.WantFence, cmd.WantShutDown
	if version >= 1 {
		m.OfflineLogDirs = rawIDs(cmd.OfflineDirs)
	}
	if version >= 2 {
		m.CordonedLogDirs = rawIDs(cmd.CordonedDirs)
	}
}

// AllocateProducerIDs takes a block of producer ids, of which first is the first.
func (q *Quorum) AllocateProducerIDs(ctx context.Context, to kraft.Node, broker kafka.NodeID, epoch kafka.BrokerEpoch) (
	first kafka.ProducerID, count int32, err error,
) {
	m := kmsg.NewPtrAllocateProducerIDsRequest()
	m.BrokerID, m.BrokerEpoch = int32(broker), int64(epoch)
	response, err := q.others.client(address(to.Endpoint), controllerLine).Do(ctx, m, 0)
	if err != nil {
		return kafka.NoProducer, 0, err
	}
	r := response.(*kmsg.AllocateProducerIDsResponse)
	if r.ErrorCode != 0 {
		return kafka.NoProducer, 0, kafka.Error(r.ErrorCode)
	}
	return kafka.ProducerID(r.ProducerIDStart), r.ProducerIDLen, nil
}

// AssignDirs tells in which log directories replicas are (KIP-858).
func (q *Quorum) AssignDirs(ctx context.Context, to kraft.Node, cmd meta.AssignDirs) (meta.AssignDirsResult, error) {
	m := kmsg.NewPtrAssignReplicasToDirsRequest()
	m.BrokerID, m.BrokerEpoch = int32(cmd.Broker), int64(cmd.Epoch)
	for _, d := range cmd.Dirs {
		dir := kmsg.NewAssignReplicasToDirsRequestDirectory()
		dir.ID = d.ID
		for _, t := range d.Topics {
			topic := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
			topic.TopicID = t.ID
			for _, p := range t.Partitions {
				topic.Partitions = append(topic.Partitions, kmsg.AssignReplicasToDirsRequestDirectoryTopicPartition{Partition: p})
			}
			dir.Topics = append(dir.Topics, topic)
		}
		m.Directories = append(m.Directories, dir)
	}
	response, err := q.others.client(address(to.Endpoint), dirsLine).Do(ctx, m, 0)
	if err != nil {
		return meta.AssignDirsResult{}, err
	}
	r := response.(*kmsg.AssignReplicasToDirsResponse)
	if r.ErrorCode != 0 {
		return meta.AssignDirsResult{}, kafka.Error(r.ErrorCode)
	}
	var result meta.AssignDirsResult
	for _, d := range r.Directories {
		dir := meta.DirAssignmentResult{ID: d.ID}
		for _, t := range d.Topics {
			topic := meta.DirTopicResult{ID: t.TopicID}
			for _, p := range t.Partitions {
				topic.Partitions = append(topic.Partitions, meta.DirPartitionResult{Index: p.Partition, Err: kafka.Error(p.ErrorCode)})
			}
			dir.Topics = append(dir.Topics, topic)
		}
		result.Dirs = append(result.Dirs, dir)
	}
	return result, nil
}

// RegisterController makes a controller known.
func (q *Quorum) RegisterController(ctx context.Context, to kraft.Node, cmd meta.RegisterController) error {
	m := kmsg.NewPtrControllerRegistrationRequest()
	m.ControllerID, m.IncarnationID = int32(cmd.ID), cmd.Incarnation
	for _, e := range cmd.Endpoints {
		row := kmsg.NewControllerRegistrationRequestListener()
		row.Name, row.Host, row.Port, row.SecurityProtocol = e.Name, e.Host, e.Port, e.SecurityNumber()
		m.Listeners = append(m.Listeners, row)
	}
	for _, f := range cmd.Features {
		row := kmsg.NewControllerRegistrationRequestFeature()
		row.Name, row.MinSupportedVersion, row.MaxSupportedVersion = f.Name, f.Min, f.Max
		m.Features = append(m.Features, row)
	}
	response, err := q.others.client(address(to.Endpoint), controllerLine).Do(ctx, m, 0)
	if err != nil {
		return err
	}
	r := response.(*kmsg.ControllerRegistrationResponse)
	if code := kafka.Error(r.ErrorCode); code != kafka.None {
		if r.ErrorMessage != nil {
			return kafka.Refuse(code, "%s", *r.ErrorMessage)
		}
		return code
	}
	return nil
}

// AlterPartition asks for other in-sync sets of partitions that this broker leads.
func (q *Quorum) AlterPartition(ctx context.Context, to kraft.Node, cmd meta.AlterPartition) (meta.AlterPartitionResult, error) {
	m := kmsg.NewPtrAlterPartitionRequest()
	m.BrokerID, m.BrokerEpoch = int32(cmd.Broker), int64(cmd.Epoch)
	for _, t := range cmd.Topics {
		topic := kmsg.NewAlterPartitionRequestTopic()
		topic.TopicID = t.ID
		for i := range t.Partitions {
			topic.Partitions = append(topic.Partitions, alteration(&t.Partitions[i]))
		}
		m.Topics = append(m.Topics, topic)
	}
	response, err := q.others.client(address(to.Endpoint), controllerLine).Do(ctx, m, 2)
	if err != nil {
		return meta.AlterPartitionResult{}, err
	}
	r := response.(*kmsg.AlterPartitionResponse)
	if r.ErrorCode != 0 {
		return meta.AlterPartitionResult{}, kafka.Error(r.ErrorCode)
	}
	var result meta.AlterPartitionResult
	for _, t := range r.Topics {
		topic := meta.AlterPartitionTopicResult{ID: t.TopidID}
		for i := range t.Partitions {
			topic.Partitions = append(topic.Partitions, alteredPartition(&t.Partitions[i]))
		}
		result.Topics = append(result.Topics, topic)
	}
	return result, nil
}

func alteration(p *meta.PartitionAlteration) kmsg.AlterPartitionRequestTopicPartition {
	row := kmsg.NewAlterPartitionRequestTopicPartition()
	row.Partition, row.LeaderEpoch, row.PartitionEpoch = p.Index, int32(p.LeaderEpoch), int32(p.PartitionEpoch)
	row.LeaderRecoveryState = p.RecoveryState
	for _, member := range p.ISR {
		at := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
		at.BrokerID, at.BrokerEpoch = int32(member.Broker), int64(member.Epoch)
		row.NewISR, row.NewEpochISR = append(row.NewISR, at.BrokerID), append(row.NewEpochISR, at)
	}
	return row
}

func alteredPartition(row *kmsg.AlterPartitionResponseTopicPartition) meta.AlteredPartition {
	p := meta.AlteredPartition{
		Index: row.Partition, Err: kafka.Error(row.ErrorCode), Leader: kafka.NodeID(row.LeaderID), LeaderEpoch: kafka.Epoch(row.LeaderEpoch),
		RecoveryState: row.LeaderRecoveryState, PartitionEpoch: kafka.Epoch(row.PartitionEpoch),
	}
	for _, id := range row.ISR {
		p.ISR = append(p.ISR, kafka.NodeID(id))
	}
	return p
}

func rawIDs(ids []kafka.UUID) [][16]byte {
	if ids == nil {
		return nil
	}
	raw := make([][16]byte, len(ids))
	for i, id := range ids {
		raw[i] = id
	}
	return raw
}
