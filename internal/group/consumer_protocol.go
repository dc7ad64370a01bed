package group

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"github.com/raftsman/raftsman/internal/group/assign"
	"github.com/raftsman/raftsman/internal/kafka"
)

// What members of the classic protocol say to each other when they are consumers: Kafka's ConsumerProtocolSubscription and
// ConsumerProtocolAssignment, versions 0 to 3. A later version adds only at the end.

var errMalformed = errors.New("malformed consumer protocol")

// consumerSubscription is what a consumer says when it joins.
type consumerSubscription struct {
	version int16
	topics  []string
	owned   map[string][]int32
	rack    *string
}

// protocolReader reads the embedded protocol. After an error everything it returns is empty.
type protocolReader struct {
	b   []byte
	bad bool
}

func (r *protocolReader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.b) {
		r.bad = true
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *protocolReader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *protocolReader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// count reads how many items follow, each of so many bytes at least.
func (r *protocolReader) count(least int) int {
	n := int(r.int32())
	if n < 0 || n > len(r.b)/least {
		r.bad = true
		return 0
	}
	return n
}

func (r *protocolReader) string() string { return string(r.take(int(r.int16()))) }

func (r *protocolReader) bytes() []byte {
	n := r.int32()
	if n < 0 {
		return nil
	}
	return r.take(int(n))
}

func (r *protocolReader) topics() map[string][]int32 {
	topics := map[string][]int32{}
	for range r.count(6) {
		name := r.string()
		partitions := make([]int32, r.count(4))
		for i := range partitions {
			partitions[i] = r.int32()
		}
		topics[name] = append(topics[name], partitions...)
	}
	return topics
}

func readConsumerSubscription(b []byte) (s consumerSubscription, err error) {
	r := protocolReader{b: b}
	s.version = r.int16()
	for range r.count(2) {
		s.topics = append(s.topics, r.string())
	}
	r.bytes()
	if s.version >= 1 {
		s.owned = r.topics()
	}
	if s.version >= 2 {
		r.int32() // the generation
	}
	if s.version >= 3 {
		if n := r.int16(); n > 0 {
			rack := string(r.take(int(n)))
			s.rack = &rack
		}
	}
	if r.bad || s.version < 0 {
		return s, errMalformed
	}
	return s, nil
}

// readConsumerAssignment reads what a consumer was given. foreign tells that an assignor of the user's own has added something.
func readConsumerAssignment(b []byte) (topics map[string][]int32, foreign bool, err error) {
	if len(b) == 0 {
		return nil, false, nil
	}
	r := protocolReader{b: b}
	version := r.int16()
	topics = r.topics()
	foreign = len(r.bytes()) > 0
	if r.bad || version < 0 {
		return nil, false, errMalformed
	}
	return topics, foreign, nil
}

const consumerProtocolMax = 3

func appendConsumerAssignment(version int16, topics []NamedPartitions) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(min(version, consumerProtocolMax)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(topics)))
	for _, t := range topics {
		b = binary.BigEndian.AppendUint16(b, uint16(len(t.Topic)))
		b = append(b, t.Topic...)
		b = binary.BigEndian.AppendUint32(b, uint32(len(t.Partitions)))
		for _, p := range t.Partitions {
			b = binary.BigEndian.AppendUint32(b, uint32(p))
		}
	}
	return binary.BigEndian.AppendUint32(b, 0xffffffff) // no user data
}

// byID turns partitions by name into an assignment; topics that do not exist are left out.
func (m *Machine) byID(topics map[string][]int32) assign.Assignment {
	ids := map[kafka.TopicID][]int32{}
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		if topic, exists := m.cluster.Topic(name); exists {
			if partitions := inNumber(topics[name]); len(partitions) > 0 {
				ids[topic.ID] = partitions
			}
		}
	}
	var a assign.Assignment
	for _, id := range slices.SortedFunc(maps.Keys(ids), assign.CompareIDs) {
		a = append(a, assign.Topic{ID: id, Partitions: ids[id]})
	}
	return a
}
