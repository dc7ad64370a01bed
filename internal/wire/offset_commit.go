package wire

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

// OffsetCommitRequest is a decoded OffsetCommit request, version 2 to 10. Decoding into the same value again reuses its slices. Nothing
// of it aliases the body.
type OffsetCommitRequest struct {
	Group       string
	Generation  int32 // or the member's epoch
	MemberID    string
	InstanceID  *string
	RetentionMs int64 // -1 where the version has none
	Topics      []OffsetCommitTopic

	partitions []OffsetCommitPartition // backs the Partitions of all topics
}

// OffsetCommitTopic is named by Name up to version 9 and by ID from 10 on.
type OffsetCommitTopic struct {
	Name       string
	ID         kafka.TopicID
	Partitions []OffsetCommitPartition
}

// OffsetCommitPartition is what is to be stored for one partition.
type OffsetCommitPartition struct {
	Index       int32
	Offset      kafka.Offset
	LeaderEpoch kafka.Epoch // NoEpoch where the version has none
	Metadata    *string
}

// Versions of OffsetCommit from which on a field is there, or stands for another.
const (
	commitRetentionUntil = 4
	commitEpochFrom      = 6
	commitInstanceFrom   = 7
	commitByID           = 10
)

// noMetadata is what most clients send.
var noMetadata = new("")

// Decode reads the body of an OffsetCommit request. Names keep the strings that return in every request.
func (c *OffsetCommitRequest) Decode(version int16, body []byte, names *Names) error {
	flexible := Flexible(int16(kmsg.OffsetCommit), version)
	r := reader{src: body}
	instance := c.InstanceID
	c.Reset()
	c.Group, c.Generation, c.MemberID = names.String(r.string(flexible)), r.int32(), names.String(r.string(flexible))
	if version >= commitInstanceFrom {
		c.InstanceID = names.pointer(instance, r.nullableString(flexible))
	}
	if version <= commitRetentionUntil {
		c.RetentionMs = r.int64()
	}
	for n := r.count(flexible, 3); n > 0 && !r.bad; n-- {
		var t OffsetCommitTopic
		if version >= commitByID {
			t.ID = r.uuid()
		} else {
			t.Name = names.String(r.string(flexible))
		}
		first := len(c.partitions)
		for m := r.count(flexible, 13); m > 0 && !r.bad; m-- {
			p := OffsetCommitPartition{Index: r.int32(), Offset: kafka.Offset(r.int64()), LeaderEpoch: kafka.NoEpoch}
			if version >= commitEpochFrom {
				p.LeaderEpoch = kafka.Epoch(r.int32())
			}
			switch metadata := r.nullableString(flexible); {
			case metadata == nil:
			case len(metadata) == 0:
				p.Metadata = noMetadata
			default:
				p.Metadata = new(string(metadata))
			}
			r.tagsIf(flexible)
			c.partitions = append(c.partitions, p)
		}
		t.Partitions = c.partitions[first:]
		r.tagsIf(flexible)
		c.Topics = append(c.Topics, t)
	}
	r.tagsIf(flexible)
	if r.bad {
		c.Reset()
		return fmt.Errorf("%w: OffsetCommit v%d of %d bytes", ErrMalformed, version, len(body))
	}
	rest := c.partitions // growing may have moved it since the topics were cut from it
	for i := range c.Topics {
		n := len(c.Topics[i].Partitions)
		c.Topics[i].Partitions, rest = rest[:n:n], rest[n:]
	}
	return nil
}

// Reset lets go of the last request. Its slices are used again by the next.
func (c *OffsetCommitRequest) Reset() {
	clear(c.Topics)
	clear(c.partitions)
	*c = OffsetCommitRequest{RetentionMs: -1, Topics: c.Topics[:0], partitions: c.partitions[:0]}
	if cap(c.Topics) > keptMax || cap(c.partitions) > keptMax {
		c.Topics, c.partitions = nil, nil
	}
}

// AppendAnswer appends the body of the response, version 2 to 10, with a code for each partition in request order.
func (c *OffsetCommitRequest) AppendAnswer(dst []byte, version int16, codes []kafka.Error, throttleMs int32) []byte {
	flexible := Flexible(int16(kmsg.OffsetCommit), version)
	if version >= 3 {
		dst = appendInt32(dst, throttleMs)
	}
	dst = appendLength(dst, len(c.Topics), flexible)
	for i := range c.Topics {
		t := &c.Topics[i]
		if version >= commitByID {
			dst = append(dst, t.ID[:]...)
		} else {
			dst = appendString(dst, t.Name, flexible)
		}
		dst = appendLength(dst, len(t.Partitions), flexible)
		for j := range t.Partitions {
			dst = appendInt32(dst, t.Partitions[j].Index)
			dst = appendInt16(dst, int16(codes[0]))
			dst = appendNoTags(dst, flexible)
			codes = codes[1:]
		}
		dst = appendNoTags(dst, flexible)
	}
	return appendNoTags(dst, flexible)
}
