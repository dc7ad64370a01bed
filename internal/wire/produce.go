package wire

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

// ProduceRequest is a decoded Produce request, version 3 to 13. Decoding into the same value again reuses its slices. Records
// alias the body; everything else may be kept.
type ProduceRequest struct {
	TransactionalID *string
	Acks            int16
	TimeoutMs       int32
	Topics          []ProduceTopic

	partitions []ProducePartition // backs the Partitions of all topics
}

// ProduceTopic is named by Name up to version 12 and by ID from 13 on.
type ProduceTopic struct {
	Name       string
	ID         kafka.TopicID
	Partitions []ProducePartition
}

// ProducePartition is what a Produce request brings to one partition.
type ProducePartition struct {
	Index   int32
	Records []byte // nil when the client sent null
}

// keptMax is how many elements a decoded request keeps room for when it is used again.
const keptMax = 4096

// Decode reads the body of a Produce request. Names keep the strings that return in every request.
func (p *ProduceRequest) Decode(version int16, body []byte, names *Names) error {
	flexible := Flexible(int16(kmsg.Produce), version)
	r := reader{src: body}
	p.Reset()
	p.TransactionalID = names.pointer(p.TransactionalID, r.nullableString(flexible))
	p.Acks, p.TimeoutMs = r.int16(), r.int32()
	topicBytesMin, partitionBytesMin := 6, 8
	switch {
	case version >= 13:
		topicBytesMin, partitionBytesMin = 18, 6
	case flexible:
		topicBytesMin, partitionBytesMin = 3, 6
	}
	for n := r.count(flexible, topicBytesMin); n > 0 && !r.bad; n-- {
		var t ProduceTopic
		if version >= 13 {
			t.ID = r.uuid()
		} else {
			t.Name = names.String(r.string(flexible))
		}
		first := len(p.partitions)
		for m := r.count(flexible, partitionBytesMin); m > 0 && !r.bad; m-- {
			p.partitions = append(p.partitions, ProducePartition{Index: r.int32(), Records: r.nullableBytes(flexible)})
			r.tagsIf(flexible)
		}
		t.Partitions = p.partitions[first:]
		r.tagsIf(flexible)
		p.Topics = append(p.Topics, t)
	}
	r.tagsIf(flexible)
	if r.bad {
		p.Reset()
		return fmt.Errorf("%w: Produce v%d of %d bytes", ErrMalformed, version, len(body))
	}
	rest := p.partitions // growing may have moved it since the topics were cut from it
	for i := range p.Topics {
		n := len(p.Topics[i].Partitions)
		p.Topics[i].Partitions, rest = rest[:n:n], rest[n:]
	}
	return nil
}

// Reset lets go of the topics and records of the last request. Their slices are used again by the next.
func (p *ProduceRequest) Reset() {
	clear(p.Topics)
	clear(p.partitions)
	p.Topics, p.partitions = p.Topics[:0], p.partitions[:0]
	if cap(p.Topics) > keptMax || cap(p.partitions) > keptMax {
		p.Topics, p.partitions = nil, nil
	}
}

// ProduceResponse is the answer to a Produce request, version 3 to 13.
type ProduceResponse struct {
	Topics     []ProducedTopic
	ThrottleMs int32
	Endpoints  []NodeEndpoint // of the leaders named in CurrentLeader; sent from version 10 on
}

// ProducedTopic echoes Name up to version 12 and ID from 13 on.
type ProducedTopic struct {
	Name       string
	ID         kafka.TopicID
	Partitions []ProducedPartition
}

// ProducedPartition is one partition's result. FailedProduce fills one for an error.
type ProducedPartition struct {
	Index           int32
	Err             kafka.Error
	BaseOffset      kafka.Offset
	LogAppendTimeMs int64 // -1 unless the topic's timestamps are LogAppendTime
	LogStartOffset  kafka.Offset
	RecordErrors    []RecordError
	ErrorMessage    *string
	CurrentLeader   Leader
}

// RecordError names one record of a refused batch.
type RecordError struct {
	BatchIndex int32
	Message    *string
}

// FailedProduce returns the result of a partition to which nothing was appended, with the protocol's defaults.
func FailedProduce(index int32, code kafka.Error) ProducedPartition {
	return ProducedPartition{
		Index: index, Err: code,
		BaseOffset: kafka.NoOffset, LogAppendTimeMs: -1, LogStartOffset: kafka.NoOffset,
	}
}

// Leader tells a client where to turn instead (KIP-951). The zero value is not sent; fill it only for NotLeaderOrFollower and
// FencedLeaderEpoch.
type Leader struct {
	Known bool
	ID    kafka.NodeID
	Epoch kafka.Epoch
}

// NodeEndpoint is the address of a leader that a response names.
type NodeEndpoint struct {
	ID   kafka.NodeID
	Host string
	Port int32
	Rack *string
}

// producedBytes is what a partition takes in an answer if its records were appended.
const producedBytes = 33

// AppendTo appends the body of the answer, in the layout of the version.
func (p *ProduceResponse) AppendTo(dst []byte, version int16) []byte {
	flexible := Flexible(int16(kmsg.Produce), version)
	dst = appendLength(dst, len(p.Topics), flexible)
	for i := range p.Topics {
		t := &p.Topics[i]
		if version >= 13 {
			dst = append(dst, t.ID[:]...)
		} else {
			dst = appendString(dst, t.Name, flexible)
		}
		dst = appendLength(dst, len(t.Partitions), flexible)
		dst = slices.Grow(dst, len(t.Partitions)*producedBytes)
		for j := range t.Partitions {
			dst = t.Partitions[j].appendTo(dst, version, flexible)
		}
		dst = appendNoTags(dst, flexible)
	}
	dst = appendInt32(dst, p.ThrottleMs)
	if version >= 10 {
		return appendEndpointsTag(dst, p.Endpoints)
	}
	return appendNoTags(dst, flexible)
}

func (p *ProducedPartition) appendTo(dst []byte, version int16, flexible bool) []byte {
	dst = appendInt32(dst, p.Index)
	dst = appendInt16(dst, int16(p.Err))
	dst = appendInt64(dst, int64(p.BaseOffset))
	dst = appendInt64(dst, p.LogAppendTimeMs)
	if version >= 5 {
		dst = appendInt64(dst, int64(p.LogStartOffset))
	}
	if version >= 8 {
		dst = appendLength(dst, len(p.RecordErrors), flexible)
		for i := range p.RecordErrors {
			dst = appendInt32(dst, p.RecordErrors[i].BatchIndex)
			dst = appendNullableString(dst, p.RecordErrors[i].Message, flexible)
			dst = appendNoTags(dst, flexible)
		}
		dst = appendNullableString(dst, p.ErrorMessage, flexible)
	}
	if version >= 10 && p.CurrentLeader.Known {
		return p.CurrentLeader.appendTag(append(dst, 1), 0)
	}
	return appendNoTags(dst, flexible)
}

// appendTag appends the leader as one tagged field.
func (l *Leader) appendTag(dst []byte, tag byte) []byte {
	dst = append(dst, tag, 4+4+1)
	dst = appendInt32(dst, int32(l.ID))
	dst = appendInt32(dst, int32(l.Epoch))
	return append(dst, 0)
}

// appendEndpointsTag appends the tags at the end of a response, whose only known one is tag 0, the endpoints.
func appendEndpointsTag(dst []byte, endpoints []NodeEndpoint) []byte {
	if len(endpoints) == 0 {
		return append(dst, 0)
	}
	size := uvarintBytes(uint32(len(endpoints) + 1))
	for i := range endpoints {
		size += endpoints[i].bytes()
	}
	dst = append(dst, 1, 0)
	dst = appendUvarint(dst, uint32(size))
	dst = appendLength(dst, len(endpoints), true)
	for i := range endpoints {
		e := &endpoints[i]
		dst = appendInt32(dst, int32(e.ID))
		dst = appendString(dst, e.Host, true)
		dst = appendInt32(dst, e.Port)
		dst = appendNullableString(dst, e.Rack, true)
		dst = append(dst, 0)
	}
	return dst
}

func (e *NodeEndpoint) bytes() int {
	n := 4 + uvarintBytes(uint32(len(e.Host)+1)) + len(e.Host) + 4 + 1 + 1
	if e.Rack != nil {
		n += uvarintBytes(uint32(len(*e.Rack)+1)) + len(*e.Rack) - 1
	}
	return n
}
