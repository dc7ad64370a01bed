package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/brokertest"
)

// When a key or a rule that is not served comes: the work it waits for.
const (
	comesWithAPI          = "issue 5: the rest of the single node's API"
	comesWithTransactions = "issue 6: transactions"
	comesWithCluster      = "issue 7: cluster"
	comesWithSecurity     = "later: users, passwords, access"
	comesWithShare        = "later: share groups"
	comesWithStreams      = "later: streams groups"
)

// keyRow is one kind of request.
type keyRow struct {
	key      kmsg.Key
	min, max int16
	comes    string // empty: it is served
}

// kafkaKeys are the requests that a broker's listener of Apache Kafka 4.4 takes, with the versions it advertises, and for those
// that this broker does not take yet, when they come.
var kafkaKeys = []keyRow{
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
	{kmsg.AddPartitionsToTxn, 0, 5, comesWithTransactions},
	{kmsg.AddOffsetsToTxn, 0, 4, comesWithTransactions},
	{kmsg.EndTxn, 0, 5, comesWithTransactions},
	{kmsg.WriteTxnMarkers, 1, 2, comesWithTransactions},
	{kmsg.TxnOffsetCommit, 0, 6, comesWithTransactions},
	{kmsg.DescribeACLs, 1, 3, comesWithSecurity},
	{kmsg.CreateACLs, 1, 3, comesWithSecurity},
	{kmsg.DeleteACLs, 1, 3, comesWithSecurity},
	{kmsg.DescribeConfigs, 1, 4, ""},
	{kmsg.AlterConfigs, 0, 2, ""},
	{kmsg.AlterReplicaLogDirs, 1, 2, ""},
	{kmsg.DescribeLogDirs, 1, 5, ""},
	{kmsg.SASLAuthenticate, 0, 2, ""},
	{kmsg.CreatePartitions, 0, 3, ""},
	{kmsg.CreateDelegationToken, 1, 3, comesWithSecurity},
	{kmsg.RenewDelegationToken, 1, 2, comesWithSecurity},
	{kmsg.ExpireDelegationToken, 1, 2, comesWithSecurity},
	{kmsg.DescribeDelegationToken, 1, 3, comesWithSecurity},
	{kmsg.DeleteGroups, 0, 3, ""},
	{kmsg.ElectLeaders, 0, 2, comesWithAPI},
	{kmsg.IncrementalAlterConfigs, 0, 1, ""},
	{kmsg.AlterPartitionAssignments, 0, 1, comesWithCluster},
	{kmsg.ListPartitionReassignments, 0, 0, comesWithCluster},
	{kmsg.OffsetDelete, 0, 0, ""},
	{kmsg.DescribeClientQuotas, 0, 1, comesWithAPI},
	{kmsg.AlterClientQuotas, 0, 1, comesWithAPI},
	{kmsg.DescribeUserSCRAMCredentials, 0, 0, comesWithSecurity},
	{kmsg.AlterUserSCRAMCredentials, 0, 0, comesWithSecurity},
	{kmsg.DescribeQuorum, 0, 2, comesWithAPI},
	{kmsg.UpdateFeatures, 0, 2, comesWithAPI},
	{kmsg.DescribeCluster, 0, 2, ""},
	{kmsg.DescribeProducers, 0, 0, ""},
	{kmsg.UnregisterBroker, 0, 0, comesWithCluster},
	{kmsg.DescribeTransactions, 0, 0, comesWithTransactions},
	{kmsg.ListTransactions, 0, 2, comesWithTransactions},
	{kmsg.ConsumerGroupHeartbeat, 0, 1, ""},
	{kmsg.ConsumerGroupDescribe, 0, 1, ""},
	{kmsg.GetTelemetrySubscriptions, 0, 0, comesWithAPI},
	{kmsg.PushTelemetry, 0, 0, comesWithAPI},
	{kmsg.ListConfigResources, 0, 1, ""},
	{kmsg.DescribeTopicPartitions, 0, 0, ""},
	{76, 1, 1, comesWithShare},   // ShareGroupHeartbeat
	{77, 1, 1, comesWithShare},   // ShareGroupDescribe
	{78, 1, 2, comesWithShare},   // ShareFetch
	{79, 1, 2, comesWithShare},   // ShareAcknowledge
	{80, 0, 1, comesWithCluster}, // AddRaftVoter
	{81, 0, 0, comesWithCluster}, // RemoveRaftVoter
	{83, 0, 0, comesWithShare},   // InitializeShareGroupState
	{84, 0, 0, comesWithShare},   // ReadShareGroupState
	{85, 0, 1, comesWithShare},   // WriteShareGroupState
	{86, 0, 0, comesWithShare},   // DeleteShareGroupState
	{87, 0, 1, comesWithShare},   // ReadShareGroupStateSummary
	{88, 0, 1, comesWithStreams}, // StreamsGroupHeartbeat
	{89, 0, 1, comesWithStreams}, // StreamsGroupDescribe
	{90, 0, 1, comesWithShare},   // DescribeShareGroupOffsets
	{91, 0, 0, comesWithShare},   // AlterShareGroupOffsets
	{92, 0, 0, comesWithShare},   // DeleteShareGroupOffsets
	{93, 0, 0, comesWithStreams}, // StreamsGroupTopologyDescriptionUpdate
	{94, 0, 0, comesWithCluster}, // UnregisterController
}

// versionsOf returns the versions of a key that are answered: those of the table, and for Produce from 3 on.
func versionsOf(key kmsg.Key) (versions []int16) {
	for _, k := range kafkaKeys {
		if k.key != key {
			continue
		}
		for v := k.min; v <= k.max; v++ {
			if key != kmsg.Produce || v >= 3 {
				versions = append(versions, v)
			}
		}
	}
	return versions
}

// TestApiVersionsIsKafkasLessWhatIsNotServed pins what is advertised: Kafka's ranges exactly, for exactly the keys that the
// table has as served, in every version of ApiVersions.
func TestApiVersionsIsKafkasLessWhatIsNotServed(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	var want, missing []string
	for _, k := range kafkaKeys {
		if k.comes != "" {
			missing = append(missing, fmt.Sprintf("%s (%d) %s", kmsg.NameForKey(int16(k.key)), k.key, k.comes))
			continue
		}
		want = append(want, fmt.Sprintf("%s %d-%d", k.key.Name(), k.min, k.max))
	}
	for version := range int16(6) {
		req := at(version, kmsg.NewPtrApiVersionsRequest())
		req.ClientSoftwareName, req.ClientSoftwareVersion = "test", "1"
		var got []string
		for _, row := range l.ask(req).(*kmsg.ApiVersionsResponse).ApiKeys {
			got = append(got, fmt.Sprintf("%s %d-%d", kmsg.NameForKey(row.ApiKey), row.MinVersion, row.MaxVersion))
		}
		if !slices.Equal(got, want) {
			t.Errorf("v%d advertises\n%s\nwant\n%s", version, strings.Join(got, ", "), strings.Join(want, ", "))
		}
	}
	t.Logf("%d keys of Kafka's broker listener are not served yet:\n%s", len(missing), strings.Join(missing, "\n"))
}

// TestKeysNotServedCloseTheConnection sends every key that is not in the table, and one version above and below each that is.
func TestKeysNotServedCloseTheConnection(t *testing.T) {
	b := brokertest.Start(t)
	served := map[int16][2]int16{}
	for _, k := range kafkaKeys {
		if k.comes == "" {
			served[int16(k.key)] = [2]int16{k.min, k.max}
		}
	}
	served[int16(kmsg.Produce)] = [2]int16{3, 13} // advertised from 0
	refuse := func(key, version int16) {
		l := connect(t, b.Addr())
		l.sendBytes(frame(kmsg.Key(key), version, 1, false, strings.Repeat("\x00", 64)))
		if n := l.ended(); n != 0 {
			t.Errorf("key %d version %d: %d bytes came before the end of the connection", key, version, n)
		}
		l.conn.Close()
	}
	for key := int16(-1); key < 100; key++ {
		versions, ok := served[key]
		switch {
		case !ok:
			refuse(key, 0)
		case key != int16(kmsg.ApiVersions): // which never ends a connection
			refuse(key, versions[0]-1)
			refuse(key, versions[1]+1)
		}
	}
	refuse(-32768, 0)
	refuse(32767, 32767)
}
