package api

import "github.com/twmb/franz-go/pkg/kmsg"

// table lists every API that is served, in key order: one line each, its file is named as its handler. Versions are Kafka
// 4.4's unless a line says why not.
var table = []entry{
	{key: kmsg.Produce, min: 3, max: 13, handle: (*API).produce},
	{key: kmsg.Fetch, min: 4, max: 18, handle: (*API).fetch},
	{key: kmsg.ListOffsets, min: 1, max: 11, handle: (*API).listOffsets},
	{key: kmsg.Metadata, min: 0, max: 13, handle: (*API).metadata},
	{key: kmsg.OffsetCommit, min: 2, max: 10, handle: (*API).offsetCommit},
	{key: kmsg.OffsetFetch, min: 1, max: 10, handle: (*API).offsetFetch},
	{key: kmsg.FindCoordinator, min: 0, max: 6, handle: (*API).findCoordinator},
	{key: kmsg.JoinGroup, min: 0, max: 9, handle: (*API).joinGroup},
	{key: kmsg.Heartbeat, min: 0, max: 4, handle: (*API).heartbeat},
	{key: kmsg.LeaveGroup, min: 0, max: 5, handle: (*API).leaveGroup},
	{key: kmsg.SyncGroup, min: 0, max: 5, handle: (*API).syncGroup},
	{key: kmsg.DescribeGroups, min: 0, max: 6, handle: (*API).describeGroups},
	{key: kmsg.ListGroups, min: 0, max: 5, handle: (*API).listGroups},
	{key: kmsg.SASLHandshake, min: 0, max: 1, handle: (*API).saslHandshake},
	{key: kmsg.ApiVersions, min: 0, max: 5, handle: (*API).apiVersions},
	{key: kmsg.CreateTopics, min: 2, max: 7, handle: (*API).createTopics, forwarded: true},
	{key: kmsg.DeleteTopics, min: 1, max: 6, handle: (*API).deleteTopics, forwarded: true},
	{key: kmsg.DeleteRecords, min: 0, max: 2, handle: (*API).deleteRecords},
	{key: kmsg.InitProducerID, min: 0, max: 5, handle: (*API).initProducerId},
	{key: kmsg.OffsetForLeaderEpoch, min: 2, max: 4, handle: (*API).offsetForLeaderEpoch},
	{key: kmsg.AddPartitionsToTxn, min: 0, max: 5, handle: (*API).addPartitionsToTxn},
	{key: kmsg.AddOffsetsToTxn, min: 0, max: 4, handle: (*API).addOffsetsToTxn},
	{key: kmsg.EndTxn, min: 0, max: 5, handle: (*API).endTxn},
	{key: kmsg.WriteTxnMarkers, min: 1, max: 2, handle: (*API).writeTxnMarkers},
	{key: kmsg.TxnOffsetCommit, min: 0, max: 6, handle: (*API).txnOffsetCommit},
	{key: kmsg.DescribeConfigs, min: 1, max: 4, handle: (*API).describeConfigs},
	{key: kmsg.AlterConfigs, min: 0, max: 2, handle: (*API).alterConfigs},
	{key: kmsg.AlterReplicaLogDirs, min: 1, max: 2, handle: (*API).alterReplicaLogDirs},
	{key: kmsg.DescribeLogDirs, min: 1, max: 5, handle: (*API).describeLogDirs},
	{key: kmsg.SASLAuthenticate, min: 0, max: 2, handle: (*API).saslAuthenticate},
	{key: kmsg.CreatePartitions, min: 0, max: 3, handle: (*API).createPartitions, forwarded: true},
	{key: kmsg.DeleteGroups, min: 0, max: 3, handle: (*API).deleteGroups},
	{key: kmsg.ElectLeaders, min: 0, max: 2, handle: (*API).electLeaders, forwarded: true},
	{key: kmsg.IncrementalAlterConfigs, min: 0, max: 1, handle: (*API).incrementalAlterConfigs},
	{key: kmsg.AlterPartitionAssignments, min: 0, max: 1, handle: (*API).alterPartitionReassignments, forwarded: true},
	{key: kmsg.ListPartitionReassignments, min: 0, max: 0, handle: (*API).listPartitionReassignments, forwarded: true},
	{key: kmsg.OffsetDelete, min: 0, max: 0, handle: (*API).offsetDelete},
	{key: kmsg.DescribeClientQuotas, min: 0, max: 1, handle: (*API).describeClientQuotas},
	{key: kmsg.AlterClientQuotas, min: 0, max: 1, handle: (*API).alterClientQuotas, forwarded: true},
	{key: kmsg.DescribeUserSCRAMCredentials, min: 0, max: 0, handle: (*API).describeUserScramCredentials},
	{key: kmsg.DescribeQuorum, min: 0, max: 2, handle: (*API).describeQuorum, forwarded: true},
	{key: kmsg.UpdateFeatures, min: 0, max: 2, handle: (*API).updateFeatures, forwarded: true},
	{key: kmsg.DescribeCluster, min: 0, max: 2, handle: (*API).describeCluster},
	{key: kmsg.DescribeProducers, min: 0, max: 0, handle: (*API).describeProducers},
	{key: kmsg.UnregisterBroker, min: 0, max: 0, handle: (*API).unregisterBroker, forwarded: true},
	{key: kmsg.DescribeTransactions, min: 0, max: 0, handle: (*API).describeTransactions},
	{key: kmsg.ListTransactions, min: 0, max: 2, handle: (*API).listTransactions},
	{key: kmsg.ConsumerGroupHeartbeat, min: 0, max: 1, handle: (*API).consumerGroupHeartbeat},
	{key: kmsg.ConsumerGroupDescribe, min: 0, max: 1, handle: (*API).consumerGroupDescribe},
	{key: kmsg.GetTelemetrySubscriptions, min: 0, max: 0, handle: (*API).getTelemetrySubscriptions},
	{key: kmsg.PushTelemetry, min: 0, max: 0, handle: (*API).pushTelemetry},
	{key: kmsg.ListConfigResources, min: 0, max: 1, handle: (*API).listConfigResources},
	{key: kmsg.DescribeTopicPartitions, min: 0, max: 0, handle: (*API).describeTopicPartitions},
	{key: kmsg.AddRaftVoter, min: 0, max: 1, handle: (*API).addRaftVoter, forwarded: true},
	{key: kmsg.RemoveRaftVoter, min: 0, max: 0, handle: (*API).removeRaftVoter, forwarded: true},
	{key: kmsg.UnregisterController, min: 0, max: 0, handle: (*API).unregisterController, forwarded: true},
}

// controllerTable lists what is served to controllers, and to those who talk to them directly, on a controller's listener.
var controllerTable = []entry{
	{key: kmsg.Fetch, min: 4, max: 18, handle: (*API).fetchMetadata},
	{key: kmsg.SASLHandshake, min: 0, max: 1, handle: (*API).saslHandshake},
	{key: kmsg.ApiVersions, min: 0, max: 5, handle: (*API).apiVersions},
	{key: kmsg.CreateTopics, min: 2, max: 7, handle: (*API).createTopics, forwarded: true},
	{key: kmsg.DeleteTopics, min: 1, max: 6, handle: (*API).deleteTopics, forwarded: true},
	{key: kmsg.DescribeConfigs, min: 1, max: 4, handle: (*API).describeConfigs},
	{key: kmsg.AlterConfigs, min: 0, max: 2, handle: (*API).alterConfigs, forwarded: true},
	{key: kmsg.SASLAuthenticate, min: 0, max: 2, handle: (*API).saslAuthenticate},
	{key: kmsg.CreatePartitions, min: 0, max: 3, handle: (*API).createPartitions, forwarded: true},
	{key: kmsg.ElectLeaders, min: 0, max: 2, handle: (*API).electLeaders, forwarded: true},
	{key: kmsg.IncrementalAlterConfigs, min: 0, max: 1, handle: (*API).incrementalAlterConfigs, forwarded: true},
	{key: kmsg.AlterPartitionAssignments, min: 0, max: 1, handle: (*API).alterPartitionReassignments, forwarded: true},
	{key: kmsg.ListPartitionReassignments, min: 0, max: 0, handle: (*API).listPartitionReassignments, forwarded: true},
	{key: kmsg.AlterClientQuotas, min: 0, max: 1, handle: (*API).alterClientQuotas, forwarded: true},
	{key: kmsg.DescribeUserSCRAMCredentials, min: 0, max: 0, handle: (*API).describeUserScramCredentials},
	{key: kmsg.Vote, min: 0, max: 2, handle: (*API).vote},
	{key: kmsg.BeginQuorumEpoch, min: 0, max: 1, handle: (*API).beginQuorumEpoch},
	{key: kmsg.EndQuorumEpoch, min: 0, max: 1, handle: (*API).endQuorumEpoch},
	{key: kmsg.DescribeQuorum, min: 0, max: 2, handle: (*API).describeQuorum, forwarded: true},
	{key: kmsg.AlterPartition, min: 2, max: 3, handle: (*API).alterPartition},
	{key: kmsg.UpdateFeatures, min: 0, max: 2, handle: (*API).updateFeatures, forwarded: true},
	{key: kmsg.Envelope, min: 0, max: 0, handle: (*API).envelope},
	{key: kmsg.FetchSnapshot, min: 0, max: 1, handle: (*API).fetchSnapshot},
	{key: kmsg.DescribeCluster, min: 0, max: 2, handle: (*API).describeControllers},
	{key: kmsg.BrokerRegistration, min: 0, max: 4, handle: (*API).brokerRegistration},
	{key: kmsg.BrokerHeartbeat, min: 0, max: 2, handle: (*API).brokerHeartbeat},
	{key: kmsg.UnregisterBroker, min: 0, max: 0, handle: (*API).unregisterBroker, forwarded: true},
	{key: kmsg.AllocateProducerIDs, min: 0, max: 0, handle: (*API).allocateProducerIds, forwarded: true},
	{key: kmsg.ControllerRegistration, min: 0, max: 0, handle: (*API).controllerRegistration},
	{key: kmsg.AssignReplicasToDirs, min: 0, max: 0, handle: (*API).assignReplicasToDirs},
	{key: kmsg.AddRaftVoter, min: 0, max: 1, handle: (*API).addRaftVoter, forwarded: true},
	{key: kmsg.RemoveRaftVoter, min: 0, max: 0, handle: (*API).removeRaftVoter, forwarded: true},
	{key: kmsg.UpdateRaftVoter, min: 0, max: 0, handle: (*API).updateRaftVoter},
	{key: kmsg.UnregisterController, min: 0, max: 0, handle: (*API).unregisterController, forwarded: true},
}

// entry is one row of the table. handle must call reply (through the call's answer, silence or close, or with a response
// made by wire's own codecs) exactly once.
type entry struct {
	key       kmsg.Key
	min, max  int16
	handle    func(*API, call)
	forwarded bool // the active controller answers; a broker that is not it has it answer
}

// served finds an entry by key.
type served [kmsg.MaxKey + 1]*entry

func index(rows []entry) (s served) {
	for i := range rows {
		s[rows[i].key] = &rows[i]
	}
	return s
}

// serves tells whether a request of that version gets an answer. ApiVersions does at any version: a client that asks at one we
// do not know is told which ones we do.
func (s *served) serves(key, version int16) bool {
	e := s.entry(key)
	return e != nil && (key == int16(kmsg.ApiVersions) || version >= e.min && version <= e.max)
}

func (s *served) entry(key int16) *entry {
	if key < 0 || int(key) >= len(s) {
		return nil
	}
	return s[key]
}
