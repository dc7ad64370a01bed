package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

// saysNotController tells whether an answer says that this node was not the active controller. It holds for the whole request then, so
// that the first code that there is one for tells.
func saysNotController(response kmsg.Response) bool {
	codes := codesIn(response)
	return len(codes) > 0 && isNotController(*codes[0])
}

// sayTimedOut has an answer say that no active controller was there in time, where it says that this node is not it.
func sayTimedOut(response kmsg.Response) {
	for _, code := range codesIn(response) {
		if isNotController(*code) {
			*code = int16(kafka.RequestTimedOut)
		}
	}
	switch r := response.(type) { // whose codes come with words
	case *kmsg.AddRaftVoterResponse:
		r.ErrorMessage = messageOr(kafka.Error(r.ErrorCode), "")
	case *kmsg.RemoveRaftVoterResponse:
		r.ErrorMessage = messageOr(kafka.Error(r.ErrorCode), "")
	}
}

func isNotController(code int16) bool {
	return kafka.Error(code) == kafka.NotController || kafka.Error(code) == kafka.NotLeaderOrFollower
}

// codesIn returns the codes in an answer of the active controller's: its own first, if it has one.
func codesIn(response kmsg.Response) []*int16 {
	switch r := response.(type) {
	case *kmsg.CreateTopicsResponse:
		return codesOfRows(r.Topics, func(t *kmsg.CreateTopicsResponseTopic) *int16 { return &t.ErrorCode })
	case *kmsg.DeleteTopicsResponse:
		return codesOfRows(r.Topics, func(t *kmsg.DeleteTopicsResponseTopic) *int16 { return &t.ErrorCode })
	case *kmsg.CreatePartitionsResponse:
		return codesOfRows(r.Topics, func(t *kmsg.CreatePartitionsResponseTopic) *int16 { return &t.ErrorCode })
	case *kmsg.AlterConfigsResponse:
		return codesOfRows(r.Resources, func(t *kmsg.AlterConfigsResponseResource) *int16 { return &t.ErrorCode })
	case *kmsg.IncrementalAlterConfigsResponse:
		return codesOfRows(r.Resources, func(t *kmsg.IncrementalAlterConfigsResponseResource) *int16 { return &t.ErrorCode })
	case *kmsg.AlterClientQuotasResponse:
		return codesOfRows(r.Entries, func(t *kmsg.AlterClientQuotasResponseEntry) *int16 { return &t.ErrorCode })
	case *kmsg.ElectLeadersResponse:
		codes := []*int16{&r.ErrorCode}
		for i := range r.Topics {
			codes = append(codes, codesOfRows(r.Topics[i].Partitions, func(p *kmsg.ElectLeadersResponseTopicPartition) *int16 { return &p.ErrorCode })...)
		}
		return codes
	case *kmsg.AlterPartitionAssignmentsResponse:
		return []*int16{&r.ErrorCode}
	case *kmsg.ListPartitionReassignmentsResponse:
		return []*int16{&r.ErrorCode}
	case *kmsg.DescribeQuorumResponse:
		return []*int16{&r.ErrorCode}
	case *kmsg.UpdateFeaturesResponse:
		return []*int16{&r.ErrorCode}
	case *kmsg.UnregisterBrokerResponse:
		return []*int16{&r.ErrorCode}
	case *kmsg.UnregisterControllerResponse:
		return []*int16{&r.ErrorCode}
	case *kmsg.AllocateProducerIDsResponse:
		return []*int16{&r.ErrorCode}
	case *kmsg.AddRaftVoterResponse:
		return []*int16{&r.ErrorCode}
	case *kmsg.RemoveRaftVoterResponse:
		return []*int16{&r.ErrorCode}
	}
	return nil
}

func codesOfRows[T any](rows []T, code func(*T) *int16) []*int16 {
	codes := make([]*int16, len(rows))
	for i := range rows {
		codes[i] = code(&rows[i])
	}
	return codes
}
