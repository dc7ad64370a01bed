package group

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/raftsman/raftsman/internal/kafka"
)

// Cluster is the metadata at one moment, as far as groups go by it. It does not change; the machine is given another.
type Cluster interface {
	Topic(name string) (Topic, bool)
	TopicByID(id kafka.TopicID) (Topic, bool)
	TopicNames() iter.Seq[string]
	// Racks returns the racks of the brokers that have a replica of the partition: one for each broker that has a rack.
	Racks(id kafka.TopicID, partition int32) []string
	// Version grows with each change.
	Version() int64
	// Consumers is what is set for members of the consumer protocol in a group.
	Consumers(group string) ConsumerSettings
}

// noCluster is what a machine knows before it has learned.
type noCluster struct{}

func (noCluster) Topic(string) (Topic, bool)            { return Topic{}, false }
func (noCluster) TopicByID(kafka.TopicID) (Topic, bool) { return Topic{}, false }
func (noCluster) TopicNames() iter.Seq[string]          { return func(func(string) bool) {} }
func (noCluster) Racks(kafka.TopicID, int32) []string   { return nil }
func (noCluster) Version() int64                        { return 0 }
func (noCluster) Consumers(string) ConsumerSettings     { return ConsumerSettings{} }

// Topic is a topic that exists.
type Topic struct {
	Name       string
	ID         kafka.TopicID
	Partitions int32
}

// ConsumerSettings is what is set for members of the consumer protocol, for all groups or for one.
type ConsumerSettings struct {
	SessionTimeout     time.Duration // consumer.session.timeout.ms
	HeartbeatInterval  time.Duration // consumer.heartbeat.interval.ms
	AssignmentInterval time.Duration // consumer.assignment.interval.ms: a target is not made sooner after the last
	AssignorOffload    bool          // consumer.assignor.offload.enable: targets of large groups are made aside
}

// MigrationPolicy is which groups may change between the classic and the consumer protocol while they have members.
type MigrationPolicy struct{ Upgrade, Downgrade bool }

// Learn gives the machine the metadata from now on. changed names the topics that are not as they were, or no more; created tells
// that some of them are new. It is called before the first command that follows a change, and must not come between a Handle and
// its Settle, but for those of a Commit.
func (m *Machine) Learn(c Cluster, changed []string, created bool) {
	m.cluster = c
	if created || m.newTopicsAt == 0 {
		m.newTopicsAt = c.Version()
	}
	if len(changed) > 0 {
		m.learned++
	}
	for _, name := range changed {
		delete(m.hashes, name)
	}
}

// hashesMax bounds how many topics' hashes are kept.
const hashesMax = 10_000

// metadataHash tells whether the topics that a group reads are still as they were, by Kafka's formula: a group that moves between
// the two has nothing to assign anew. Topics that do not exist do not count.
func (m *Machine) metadataHash(reads map[string]readers) int64 {
	var h hashed
	for _, name := range slices.Sorted(maps.Keys(reads)) {
		if t, exists := m.cluster.Topic(name); exists {
			h.uint64(m.topicHash(t))
		}
	}
	if len(h) == 0 {
		return 0
	}
	return int64(xxh3.Hash(h))
}

func (m *Machine) topicHash(t Topic) uint64 {
	if hash, known := m.hashes[t.Name]; known {
		return hash
	}
	h := hashed{0} // the version of the formula
	h = append(h, reversed(t.ID[:8])...)
	h = append(h, reversed(t.ID[8:])...)
	h.string(t.Name)
	h.uint32(uint32(t.Partitions))
	for p := range t.Partitions {
		h.uint32(uint32(p))
		for _, rack := range slices.Sorted(slices.Values(m.cluster.Racks(t.ID, p))) {
			h.uint32(uint32(javaLength(rack)))
			h.string(rack)
		}
	}
	if len(m.hashes) >= hashesMax {
		clear(m.hashes)
	}
	hash := xxh3.Hash(h)
	m.hashes[t.Name] = hash
	return hash
}
