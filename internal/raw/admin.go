package raw

import (
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeQuorum asks for partitions of topics, of which there is one to ask for.
func DescribeQuorum(version int16, topic string, partitions ...int32) *kmsg.DescribeQuorumRequest {
	req := At(version, kmsg.NewPtrDescribeQuorumRequest())
	row := kmsg.NewDescribeQuorumRequestTopic()
	row.Topic = topic
	for _, n := range partitions {
		row.Partitions = append(row.Partitions, kmsg.DescribeQuorumRequestTopicPartition{Partition: n})
	}
	req.Topics = append(req.Topics, row)
	return req
}

// The upgrade types of UpdateFeatures.
const (
	Upgrade         = 1
	SafeDowngrade   = 2
	UnsafeDowngrade = 3
)

// UpdateFeatures wants features at levels, as "group.version=1". Before version 1 a downgrade is one that the client allows.
func UpdateFeatures(version int16, kind int8, levels ...string) *kmsg.UpdateFeaturesRequest {
	req := At(version, kmsg.NewPtrUpdateFeaturesRequest())
	for _, wanted := range levels {
		name, level, _ := strings.Cut(wanted, "=")
		row := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		row.Feature, row.UpgradeType, row.AllowDowngrade = name, kind, kind != Upgrade
		if n, err := strconv.ParseInt(level, 10, 16); err == nil {
			row.MaxVersionLevel = int16(n)
		}
		req.FeatureUpdates = append(req.FeatureUpdates, row)
	}
	return req
}

// The kinds of election.
const (
	Preferred = 0
	Unclean   = 1
)

// Partitions names partitions of a topic.
type Partitions struct {
	Topic   string
	Numbers []int32
}

// ElectLeaders wants leaders for some partitions, or for all if none are named.
func ElectLeaders(version int16, kind int8, topics ...Partitions) *kmsg.ElectLeadersRequest {
	req := At(version, kmsg.NewPtrElectLeadersRequest())
	req.ElectionType = kind
	for _, t := range topics {
		req.Topics = append(req.Topics, kmsg.ElectLeadersRequestTopic{Topic: t.Topic, Partitions: t.Numbers})
	}
	return req
}

// Reassignment is where a partition is to be; nil cancels what is under way.
type Reassignment struct {
	Topic     string
	Partition int32
	Replicas  []int32
}

// Reassign wants partitions to be on other nodes.
func Reassign(version int16, rows ...Reassignment) *kmsg.AlterPartitionAssignmentsRequest {
	req := At(version, kmsg.NewPtrAlterPartitionAssignmentsRequest())
	for _, r := range rows {
		row := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		row.Topic = r.Topic
		row.Partitions = append(row.Partitions, kmsg.AlterPartitionAssignmentsRequestTopicPartition{Partition: r.Partition, Replicas: r.Replicas})
		req.Topics = append(req.Topics, row)
	}
	return req
}

// ListReassignments asks what is under way, of all topics if none are named.
func ListReassignments(version int16, topics ...Partitions) *kmsg.ListPartitionReassignmentsRequest {
	req := At(version, kmsg.NewPtrListPartitionReassignmentsRequest())
	for _, t := range topics {
		row := kmsg.NewListPartitionReassignmentsRequestTopic()
		row.Topic, row.Partitions = t.Topic, t.Numbers
		req.Topics = append(req.Topics, row)
	}
	return req
}

// DescribeSCRAM asks for users' credentials, of all users if none are named.
func DescribeSCRAM(version int16, users ...string) *kmsg.DescribeUserSCRAMCredentialsRequest {
	req := At(version, kmsg.NewPtrDescribeUserSCRAMCredentialsRequest())
	for _, name := range users {
		req.Users = append(req.Users, kmsg.DescribeUserSCRAMCredentialsRequestUser{Name: name})
	}
	return req
}

// AddVoter wants a controller to vote that listens there.
func AddVoter(version int16, id int32, directory [16]byte, listeners ...kmsg.AddRaftVoterRequestListener) *kmsg.AddRaftVoterRequest {
	req := At(version, kmsg.NewPtrAddRaftVoterRequest())
	req.TimeoutMillis, req.VoterID, req.VoterDirectoryID, req.Listeners = 5000, id, directory, listeners
	return req
}

// RemoveVoter wants a controller not to vote any more.
func RemoveVoter(version int16, id int32, directory [16]byte) *kmsg.RemoveRaftVoterRequest {
	req := At(version, kmsg.NewPtrRemoveRaftVoterRequest())
	req.VoterID, req.VoterDirectoryID = id, directory
	return req
}
