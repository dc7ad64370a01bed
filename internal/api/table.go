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
	{key: kmsg.CreateTopics, min: 2, max: 7, handle: (*API).createTopics},
	{key: kmsg.DeleteTopics, min: 1, max: 6, handle: (*API).deleteTopics},
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
	{key: kmsg.CreatePartitions, min: 0, max: 3, handle: (*API).createPartitions},
	{key: kmsg.DeleteGroups, min: 0, max: 3, handle: (*API).deleteGroups},
	{key: kmsg.ElectLeaders, min: 0, max: 2, handle: (*API).electLeaders},
	{key: kmsg.IncrementalAlterConfigs, min: 0, max: 1, handle: (*API).incrementalAlterConfigs},
	{key: kmsg.AlterPartitionAssignments, min: 0, max: 1, handle: (*API).alterPartitionReassignments},
	{key: kmsg.ListPartitionReassignments, min: 0, max: 0, handle: (*API).listPartitionReassignments},
	{key: kmsg.OffsetDelete, min: 0, max: 0, handle: (*API).offsetDelete},
	{key: kmsg.DescribeClientQuotas, min: 0, max: 1, handle: (*API).describeClientQuotas},
	{key: kmsg.AlterClientQuotas, min: 0, max: 1, handle: (*API).alterClientQuotas},
	{key: kmsg.DescribeUserSCRAMCredentials, min: 0, max: 0, handle: (*API).describeUserScramCredentials},
	{key: kmsg.DescribeQuorum, min: 0, max: 2, handle: (*API).describeQuorum},
	{key: kmsg.UpdateFeatures, min: 0, max: 2, handle: (*API).updateFeatures},
	{key: kmsg.DescribeCluster, min: 0, max: 2, handle: (*API).describeCluster},
	{key: kmsg.DescribeProducers, min: 0, max: 0, handle: (*API).describeProducers},
	{key: kmsg.UnregisterBroker, min: 0, max: 0, handle: (*API).unregisterBroker},
	{key: kmsg.DescribeTransactions, min: 0, max: 0, handle: (*API).describeTransactions},
	{key: kmsg.ListTransactions, min: 0, max: 2, handle: (*API).listTransactions},
	{key: kmsg.ConsumerGroupHeartbeat, min: 0, max: 1, handle: (*API).consumerGroupHeartbeat},
	{key: kmsg.ConsumerGroupDescribe, min: 0, max: 1, handle: (*API).consumerGroupDescribe},
	{key: kmsg.GetTelemetrySubscriptions, min: 0, max: 0, handle: (*API).getTelemetrySubscriptions},
	{key: kmsg.PushTelemetry, min: 0, max: 0, handle: (*API).pushTelemetry},
	{key: kmsg.ListConfigResources, min: 0, max: 1, handle: (*API).listConfigResources},
	{key: kmsg.DescribeTopicPartitions, min: 0, max: 0, handle: (*API).describeTopicPartitions},
	{key: kmsg.UnregisterController, min: 0, max: 0, handle: (*API).unregisterController},
}

// entry is one row of the table. handle must call reply (through the call's answer, silence or close, or with a response
// made by wire's own codecs) exactly once.
type entry struct {
	key      kmsg.Key
	min, max int16
	handle   func(*API, call)
}

// served finds an entry by key.
type served [kmsg.MaxKey + 1]*entry

func index(rows []entry) (s served) {
	for i := range rows {
		s[rows[i].key] = &rows[i]
	}
	return s
}

func (s *served) entry(key int16) *entry {
	if key < 0 || int(key) >= len(s) {
		return nil
	}
	return s[key]
}
