// Package kafka is the vocabulary of the broker: the ids, offsets, epochs and error codes of Kafka's protocol, as types that
// keep them apart. It does nothing and imports nothing of ours.
package kafka

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"math/bits"
	"strings"
)

// NodeID names a broker or controller (node.id). NoNode (-1) means none.
type NodeID int32

// NoNode is the node id of "no leader known" and of consumers that fetch.
const NoNode NodeID = -1

// Offset is the position of a record in a partition's log, dense from 0. An end offset is one past the last record.
type Offset int64

// NoOffset means unknown or not applicable in the protocol.
const NoOffset Offset = -1

// Epoch is a leader epoch of a partition, or a quorum epoch: it grows with every new leader.
type Epoch int32

// NoEpoch means unknown in the protocol, and no check in a request.
const NoEpoch Epoch = -1

// BrokerEpoch is the metadata offset at which a broker registered (KIP-380).
type BrokerEpoch int64

// ProducerID identifies an idempotent or transactional producer (KIP-98).
type ProducerID int64

// NoProducer is the id in batches of plain producers.
const NoProducer ProducerID = -1

// ProducerEpoch fences older instances of the same producer id.
type ProducerEpoch int16

// Sequence numbers the records of one producer in one partition: 2147483647 is followed by 0.
type Sequence int32

// UUID is Kafka's Uuid: topic ids, directory ids, incarnation ids. The zero value means none. Its text is base64url without
// padding, 22 characters.
type UUID [16]byte

// TopicID is the UUID of a topic: a topic deleted and created again under its name has another.
type TopicID = UUID

// MetadataTopicID is the fixed id of __cluster_metadata.
var MetadataTopicID = TopicID{15: 1}

// String returns Kafka's text of the id, 22 characters of base64url.
func (u UUID) String() string { return base64.RawURLEncoding.EncodeToString(u[:]) }

// IsZero tells whether the id is unset.
func (u UUID) IsZero() bool { return u == UUID{} }

// IsNear tells whether two ids differ in so few bits that one is the other, damaged: ids that are random differ in many more.
func (u UUID) IsNear(other UUID) bool {
	const bitsMax = 8
	differ := 0
	for i := range u {
		differ += bits.OnesCount8(u[i] ^ other[i])
	}
	return differ <= bitsMax
}

// MarshalText is String: ids are text in JSON too.
func (u UUID) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// ParseUUID reads the text that String returns.
func ParseUUID(text string) (UUID, error) {
	var u UUID
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != len(u) {
		return UUID{}, fmt.Errorf("%q is not a Kafka uuid: 22 characters of base64url are wanted", text)
	}
	copy(u[:], b)
	return u, nil
}

// NewUUID makes an id from 16 random bytes: version 4, and never one of Kafka's reserved ids (the first 100), nor one whose
// text begins with '-', which tools would take for a flag.
func NewUUID(random func([]byte)) UUID {
	for {
		var u UUID
		random(u[:])
		u[6] = u[6]&0x0f | 0x40
		u[8] = u[8]&0x3f | 0x80
		if u.String()[0] != '-' {
			return u
		}
	}
}

// TopicPartition names a partition by topic name.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String returns topic-partition, which is also the name of the partition's folder.
func (tp TopicPartition) String() string { return fmt.Sprintf("%s-%d", tp.Topic, tp.Partition) }

// Compare orders partitions by topic, then by number.
func (tp TopicPartition) Compare(other TopicPartition) int {
	return cmp.Or(strings.Compare(tp.Topic, other.Topic), cmp.Compare(tp.Partition, other.Partition))
}
