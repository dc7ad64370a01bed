package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

// saysNotController tells whether an answer says that this node was not the active controller. It holds for the whole request then, so
// that the first row tells.
func saysNotController(response kmsg.Response) bool {
	code := kafka.None
	switch r := response.(type) {
	case *kmsg.CreateTopicsResponse:
		if len(r.Topics) > 0 {
			code = kafka.Error(r.Topics[0].ErrorCode)
		}
	case *kmsg.DeleteTopicsResponse:
		if len(r.Topics) > 0 {
			code = kafka.Error(r.Topics[0].ErrorCode)
		}
	case *kmsg.CreatePartitionsResponse:
		if len(r.Topics) > 0 {
			code = kafka.Error(r.Topics[0].ErrorCode)
		}
	case *kmsg.AlterConfigsResponse:
		if len(r.Resources) > 0 {
			code = kafka.Error(r.Resources[0].ErrorCode)
		}
	case *kmsg.IncrementalAlterConfigsResponse:
		if len(r.Resources) > 0 {
			code = kafka.Error(r.Resources[0].ErrorCode)
		}
	case *kmsg.AlterClientQuotasResponse:
		if len(r.Entries) > 0 {
			code = kafka.Error(r.Entries[0].ErrorCode)
		}
	case *kmsg.ElectLeadersResponse:
		code = kafka.Error(r.ErrorCode)
	case *kmsg.AlterPartitionAssignmentsResponse:
		code = kafka.Error(r.ErrorCode)
	case *kmsg.ListPartitionReassignmentsResponse:
		code = kafka.Error(r.ErrorCode)
	case *kmsg.DescribeQuorumResponse:
		code = kafka.Error(r.ErrorCode)
		if code == kafka.None && len(r.Topics) > 0 && len(r.Topics[0].Partitions) > 0 {
			code = kafka.Error(r.Topics[0].Partitions[0].ErrorCode)
		}
	case *kmsg.UpdateFeaturesResponse:
		code = kafka.Error(r.ErrorCode)
	case *kmsg.UnregisterBrokerResponse:
		code = kafka.Error(r.ErrorCode)
	case *kmsg.UnregisterControllerResponse:
		code = kafka.Error(r.ErrorCode)
	case *kmsg.AllocateProducerIDsResponse:
		code = kafka.Error(r.ErrorCode)
	case *kmsg.AddRaftVoterResponse:
		code = kafka.Error(r.ErrorCode)
	case *kmsg.RemoveRaftVoterResponse:
		code = kafka.Error(r.ErrorCode)
	}
	return code == kafka.NotController || code == kafka.NotLeaderOrFollower
}
