package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

// saysNotController tells whether an answer says that this node was not the active controller. It holds for the whole request then, so
// that the first row tells.
func saysNotController(response kmsg.Response) bool {
	code := int16(kafka.None)
	switch r := response.(type) {
	case *kmsg.CreateTopicsResponse:
		code = first(r.Topics).ErrorCode
	case *kmsg.DeleteTopicsResponse:
		code = first(r.Topics).ErrorCode
	case *kmsg.CreatePartitionsResponse:
		code = first(r.Topics).ErrorCode
	case *kmsg.AlterConfigsResponse:
		code = first(r.Resources).ErrorCode
	case *kmsg.IncrementalAlterConfigsResponse:
		code = first(r.Resources).ErrorCode
	case *kmsg.AlterClientQuotasResponse:
		code = first(r.Entries).ErrorCode
	case *kmsg.ElectLeadersResponse:
		code = r.ErrorCode
	case *kmsg.AlterPartitionAssignmentsResponse:
		code = r.ErrorCode
	case *kmsg.ListPartitionReassignmentsResponse:
		code = r.ErrorCode
	case *kmsg.DescribeQuorumResponse:
		code = r.ErrorCode
	case *kmsg.UpdateFeaturesResponse:
		code = r.ErrorCode
	case *kmsg.UnregisterBrokerResponse:
		code = r.ErrorCode
	case *kmsg.UnregisterControllerResponse:
		code = r.ErrorCode
	case *kmsg.AllocateProducerIDsResponse:
		code = r.ErrorCode
	case *kmsg.AddRaftVoterResponse:
		code = r.ErrorCode
	case *kmsg.RemoveRaftVoterResponse:
		code = r.ErrorCode
	}
	return kafka.Error(code) == kafka.NotController || kafka.Error(code) == kafka.NotLeaderOrFollower
}

// first returns the first row, or an empty one if there is none.
func first[T any](rows []T) (row T) {
	if len(rows) > 0 {
		row = rows[0]
	}
	return row
}
