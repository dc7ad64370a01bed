package raw

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// When a key or a rule that is not served comes: the work it waits for.
const (
	ComesWithSecurity = "later: users, passwords, access"
	ComesWithShare    = "later: share groups"
	ComesWithStreams  = "later: streams groups"
)

// Key is one kind of request.
type Key struct {
	Key      kmsg.Key
	Min, Max int16
	Comes    string // empty: it is served
}

// Keys are the requests that a broker's listener of Apache Kafka 4.4 takes, with the versions it advertises, and for those
// that this broker does not take yet, when they come.
var Keys = []Key{
	{kmsg.Produce, 0, 13, ""},
	{kmsg.Fetch, 4, 18, ""},
	{kmsg.ListOffsets, 1, 11, ""},
	{kmsg.Metadata, 0, 13, ""},
	{kmsg.OffsetCommit, 2, 10, ""},
	{kmsg.OffsetFetch, 1, 10, ""},
	{kmsg.FindCoordinator, 0, 6, ""},
	{kmsg.JoinGroup, 0, 9, ""},
	{kmsg.Heartbeat, 0, 4, ""},
	{kmsg.LeaveGroup, 0, 5, ""},
	{kmsg.SyncGroup, 0, 5, ""},
	{kmsg.DescribeGroups, 0, 6, ""},
	{kmsg.ListGroups, 0, 5, ""},
	{kmsg.SASLHandshake, 0, 1, ""},
	{kmsg.ApiVersions, 0, 5, ""},
	{kmsg.CreateTopics, 2, 7, ""},
	{kmsg.DeleteTopics, 1, 6, ""},
	{kmsg.DeleteRecords, 0, 2, ""},
	{kmsg.InitProducerID, 0, 5, ""},
	{kmsg.OffsetForLeaderEpoch, 2, 4, ""},
	{kmsg.AddPartitionsToTxn, 0, 5, ""},
	{kmsg.AddOffsetsToTxn, 0, 4, ""},
	{kmsg.EndTxn, 0, 5, ""},
	{kmsg.WriteTxnMarkers, 1, 2, ""},
	{kmsg.TxnOffsetCommit, 0, 6, ""},
	{kmsg.DescribeACLs, 1, 3, ComesWithSecurity},
	{kmsg.CreateACLs, 1, 3, ComesWithSecurity},
	{kmsg.DeleteACLs, 1, 3, ComesWithSecurity},
	{kmsg.DescribeConfigs, 1, 4, ""},
	{kmsg.AlterConfigs, 0, 2, ""},
	{kmsg.AlterReplicaLogDirs, 1, 2, ""},
	{kmsg.DescribeLogDirs, 1, 5, ""},
	{kmsg.SASLAuthenticate, 0, 2, ""},
	{kmsg.CreatePartitions, 0, 3, ""},
	{kmsg.CreateDelegationToken, 1, 3, ComesWithSecurity},
	{kmsg.RenewDelegationToken, 1, 2, ComesWithSecurity},
	{kmsg.ExpireDelegationToken, 1, 2, ComesWithSecurity},
	{kmsg.DescribeDelegationToken, 1, 3, ComesWithSecurity},
	{kmsg.DeleteGroups, 0, 3, ""},
	{kmsg.ElectLeaders, 0, 2, ""},
	{kmsg.IncrementalAlterConfigs, 0, 1, ""},
	{kmsg.AlterPartitionAssignments, 0, 1, ""},
	{kmsg.ListPartitionReassignments, 0, 0, ""},
	{kmsg.OffsetDelete, 0, 0, ""},
	{kmsg.DescribeClientQuotas, 0, 1, ""},
	{kmsg.AlterClientQuotas, 0, 1, ""},
	{kmsg.DescribeUserSCRAMCredentials, 0, 0, ""},
	{kmsg.AlterUserSCRAMCredentials, 0, 0, ComesWithSecurity},
	{kmsg.DescribeQuorum, 0, 2, ""},
	{kmsg.UpdateFeatures, 0, 2, ""},
	{kmsg.DescribeCluster, 0, 2, ""},
	{kmsg.DescribeProducers, 0, 0, ""},
	{kmsg.UnregisterBroker, 0, 0, ""},
	{kmsg.DescribeTransactions, 0, 0, ""},
	{kmsg.ListTransactions, 0, 2, ""},
	{kmsg.ConsumerGroupHeartbeat, 0, 1, ""},
	{kmsg.ConsumerGroupDescribe, 0, 1, ""},
	{kmsg.GetTelemetrySubscriptions, 0, 0, ""},
	{kmsg.PushTelemetry, 0, 0, ""},
	{kmsg.ListConfigResources, 0, 1, ""},
	{kmsg.DescribeTopicPartitions, 0, 0, ""},
	{76, 1, 1, ComesWithShare}, // ShareGroupHeartbeat
	{77, 1, 1, ComesWithShare}, // ShareGroupDescribe
	{78, 1, 2, ComesWithShare}, // ShareFetch
	{79, 1, 2, ComesWithShare}, // ShareAcknowledge
	{kmsg.AddRaftVoter, 0, 1, ""},
	{kmsg.RemoveRaftVoter, 0, 0, ""},
	{83, 0, 0, ComesWithShare},   // InitializeShareGroupState
	{84, 0, 0, ComesWithShare},   // ReadShareGroupState
	{85, 0, 1, ComesWithShare},   // WriteShareGroupState
	{86, 0, 0, ComesWithShare},   // DeleteShareGroupState
	{87, 0, 1, ComesWithShare},   // ReadShareGroupStateSummary
	{88, 0, 1, ComesWithStreams}, // StreamsGroupHeartbeat
	{89, 0, 1, ComesWithStreams}, // StreamsGroupDescribe
	{90, 0, 1, ComesWithShare},   // DescribeShareGroupOffsets
	{91, 0, 0, ComesWithShare},   // AlterShareGroupOffsets
	{92, 0, 0, ComesWithShare},   // DeleteShareGroupOffsets
	{93, 0, 0, ComesWithStreams}, // StreamsGroupTopologyDescriptionUpdate
	{94, 0, 0, ""},               // UnregisterController
}

// VersionsOf returns the versions of a key that are answered: those of the table, and for Produce from 3 on.
func VersionsOf(key kmsg.Key) (versions []int16) {
	for _, k := range Keys {
		if k.Key != key {
			continue
		}
		for v := k.Min; v <= k.Max; v++ {
			if key != kmsg.Produce || v >= 3 {
				versions = append(versions, v)
			}
		}
	}
	return versions
}

// ServedFeatures are those whose requests are all there.
var ServedFeatures = []string{"metadata.version", "kraft.version", "eligible.leader.replicas.version", "group.version", "transaction.version"}
