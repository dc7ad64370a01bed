// Package meta is the metadata of a cluster: topics, partitions, brokers, configurations and feature levels as an immutable
// [Image], how each record of __cluster_metadata changes it, and the controller's decisions, which are pure functions from an
// Image and a command to records and results.
package meta

import (
	"bytes"
	"cmp"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/raftsman/raftsman/internal/kafka"
)

// Image is the state of the cluster at one offset of the metadata log. It never changes: a new one shares with its
// predecessor all that is equal. Everything that it returns (slices, maps, pointers) is shared by all readers and must not be
// changed by them.
type Image struct {
	clusterID  string
	offset     kafka.Offset
	epoch      kafka.Epoch
	appendMs   int64
	controller kafka.NodeID

	topics     tree[string, *Topic]
	topicIDs   tree[kafka.TopicID, *Topic]
	collisions tree[string, []string] // the names of topics that read so with '.' as '_'
	partitions int
	brokers    []*Broker // by id
	configs    tree[Resource, map[string]string]
	features   map[string]int16
	quotas     quotas
	producerID producerBlock
	kept       tree[string, keptRecord]
	unknown    []rawRecord
}

type producerBlock struct {
	known  bool
	broker kafka.NodeID
	epoch  kafka.BrokerEpoch
	next   kafka.ProducerID
}

// NewImage returns the image of a cluster whose metadata log is empty.
func NewImage(clusterID string) *Image {
	return &Image{
		clusterID: clusterID, offset: kafka.NoOffset, epoch: 0, controller: kafka.NoNode,
		topics:     newTree[string, *Topic](strings.Compare),
		topicIDs:   newTree[kafka.TopicID, *Topic](compareIDs),
		collisions: newTree[string, []string](strings.Compare),
		configs:    newTree[Resource, map[string]string](compareResources),
		features:   map[string]int16{},
		quotas:     newQuotas(),
		kept:       newTree[string, keptRecord](strings.Compare),
	}
}

// Topic is one topic and its partitions; the index of a partition is its number.
type Topic struct {
	Name       string
	ID         kafka.TopicID
	Partitions []Partition
}

// Partition is where one partition lives and who leads it.
type Partition struct {
	Replicas []kafka.NodeID // in order of preference
	ISR      []kafka.NodeID // replicas in sync
	ELR      []kafka.NodeID // eligible leader replicas (KIP-966): out of sync, but safe to lead
	LastELR  []kafka.NodeID // the last known eligible leader replicas
	Removing []kafka.NodeID // replicas that a reassignment takes away
	Adding   []kafka.NodeID // replicas that a reassignment brings
	Dirs     []kafka.UUID   // the log directory of each replica, in the order of Replicas; the zero id where not known

	Leader         kafka.NodeID // kafka.NoNode while there is none
	LeaderEpoch    kafka.Epoch
	PartitionEpoch kafka.Epoch
	Recovering     bool // elected uncleanly and not yet recovered
}

// Broker is one registered broker.
type Broker struct {
	ID                   kafka.NodeID
	Epoch                kafka.BrokerEpoch
	Incarnation          kafka.UUID
	Fenced               bool
	InControlledShutdown bool
	Rack                 *string
	Endpoints            []Endpoint
	Features             []FeatureRange
	LogDirs              []kafka.UUID
	CordonedDirs         []kafka.UUID // nil until the broker has told them

	migrating bool // from ZooKeeper; only in logs of old
}

// Endpoint is an address that a broker or controller advertises.
type Endpoint struct {
	Name     string // of the listener
	Host     string
	Port     uint16
	Security string // PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
}

// FeatureRange is the levels of a feature that a node supports.
type FeatureRange struct {
	Name     string
	Min, Max int16
}

// ResourceType is the kind of thing that has a configuration, by Kafka's numbers.
type ResourceType int8

// The resource types that Kafka 4.4 stores.
const (
	TopicResource         ResourceType = 2
	BrokerResource        ResourceType = 4 // the empty name is the default of all brokers
	ClientMetricsResource ResourceType = 16
	GroupResource         ResourceType = 32
)

// Resource names what a configuration belongs to.
type Resource struct {
	Type ResourceType
	Name string
}

// ClusterID returns the id that the cluster got when it was formatted.
func (im *Image) ClusterID() string { return im.clusterID }

// Offset returns the offset of the last metadata record that the image contains, or -1.
func (im *Image) Offset() kafka.Offset { return im.offset }

// Epoch returns the quorum epoch of the last metadata record that the image contains.
func (im *Image) Epoch() kafka.Epoch { return im.epoch }

// AppendMs returns when the last metadata record that the image contains was appended.
func (im *Image) AppendMs() int64 { return im.appendMs }

// Controller returns the active controller's node id, or kafka.NoNode.
func (im *Image) Controller() kafka.NodeID { return im.controller }

// Topic returns the topic of that name.
func (im *Image) Topic(name string) (*Topic, bool) { return im.topics.get(name) }

// TopicByID returns the topic of that id.
func (im *Image) TopicByID(id kafka.TopicID) (*Topic, bool) { return im.topicIDs.get(id) }

// Topics yields all topics in the order of their names.
func (im *Image) Topics() iter.Seq[*Topic] { return im.TopicsFrom("") }

// TopicsFrom yields the topics whose name is not before name, in the order of their names.
func (im *Image) TopicsFrom(name string) iter.Seq[*Topic] {
	return func(yield func(*Topic) bool) {
		im.topics.from(name, func(_ string, t *Topic) bool { return yield(t) })
	}
}

// TopicCount returns the number of topics.
func (im *Image) TopicCount() int { return im.topics.len() }

// PartitionCount returns the number of partitions of all topics.
func (im *Image) PartitionCount() int { return im.partitions }

// Partition returns one partition.
func (im *Image) Partition(tp kafka.TopicPartition) (*Partition, bool) {
	t, ok := im.topics.get(tp.Topic)
	if !ok || tp.Partition < 0 || int(tp.Partition) >= len(t.Partitions) {
		return nil, false
	}
	return &t.Partitions[tp.Partition], true
}

// Brokers returns all registered brokers, fenced ones too, by id.
func (im *Image) Brokers() []*Broker { return im.brokers }

// Broker returns one registered broker.
func (im *Image) Broker(id kafka.NodeID) (*Broker, bool) {
	i, ok := im.brokerIndex(id)
	if !ok {
		return nil, false
	}
	return im.brokers[i], true
}

func (im *Image) brokerIndex(id kafka.NodeID) (int, bool) {
	return slices.BinarySearchFunc(im.brokers, id, func(b *Broker, id kafka.NodeID) int { return cmp.Compare(b.ID, id) })
}

// Alive tells whether the broker is registered and not fenced.
func (im *Image) Alive(id kafka.NodeID) bool {
	b, ok := im.Broker(id)
	return ok && !b.Fenced
}

// Endpoint returns the address that the broker advertises on the listener.
func (b *Broker) Endpoint(listener string) (Endpoint, bool) {
	for _, e := range b.Endpoints {
		if e.Name == listener {
			return e, true
		}
	}
	return Endpoint{}, false
}

// Config returns what was set on the resource: nil when nothing was.
func (im *Image) Config(r Resource) map[string]string {
	values, _ := im.configs.get(r)
	return values
}

// BrokerConfig returns what was set for all brokers, and for one of them: that counts before.
func (im *Image) BrokerConfig(id kafka.NodeID) (all, own map[string]string) {
	return im.Config(Resource{Type: BrokerResource}), im.Config(Resource{Type: BrokerResource, Name: strconv.Itoa(int(id))})
}

// Resources yields the resources of the type for which something is set, by name.
func (im *Image) Resources(kind ResourceType) iter.Seq[Resource] {
	return func(yield func(Resource) bool) {
		im.configs.from(Resource{Type: kind}, func(r Resource, _ map[string]string) bool { return r.Type == kind && yield(r) })
	}
}

// Features returns the finalised level of each feature that the log has set above 0.
func (im *Image) Features() map[string]int16 { return im.features }

// FeatureNames returns the names of Features, sorted.
func (im *Image) FeatureNames() []string { return slices.Sorted(maps.Keys(im.features)) }

// NextProducerID returns the first producer id that no block in the log covers.
func (im *Image) NextProducerID() kafka.ProducerID { return im.producerID.next }

func compareIDs(a, b kafka.UUID) int { return bytes.Compare(a[:], b[:]) }

func compareResources(a, b Resource) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), strings.Compare(a.Name, b.Name))
}
