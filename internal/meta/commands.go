package meta

import "github.com/raftsman/raftsman/internal/kafka"

// CreateTopics asks for new topics. Each is created whole or not at all, independently of the others.
type CreateTopics struct {
	Topics       []NewTopic
	ValidateOnly bool // decide and answer, but create nothing
	Charge       Charge
}

// Charge is told of the partitions of each topic before they are made, grown or deleted; its error refuses the topic. nil: all are
// free.
type Charge func(partitions int) error

func (c Charge) ask(partitions int) error {
	if c == nil {
		return nil
	}
	return c(partitions)
}

// NewTopic describes a topic to create: either counts, or assignments and both counts -1.
type NewTopic struct {
	Name              string
	Partitions        int32 // -1 for the broker's default
	ReplicationFactor int16 // -1 for the broker's default
	Assignments       map[int32][]kafka.NodeID
	Configs           []ConfigValue
}

// ConfigValue is one configuration entry; nil means that the default holds.
type ConfigValue struct {
	Name  string
	Value *string
}

// TopicResult tells what became of one topic of CreateTopics.
type TopicResult struct {
	Name              string
	ID                kafka.TopicID
	Partitions        int32
	ReplicationFactor int16
	Configs           map[string]string // what was set on the topic
	Err               error             // nil, a kafka.Error or a *kafka.Refusal
}

// DeleteTopics names topics to delete, by name or by id.
type DeleteTopics struct {
	Names  []string
	IDs    []kafka.TopicID
	Charge Charge
}

// DeleteResult tells what became of one topic of DeleteTopics; results stand in the order of Names, then IDs.
type DeleteResult struct {
	Name string // empty when an id was asked for that is no topic's to delete
	ID   kafka.TopicID
	ByID bool
	Err  error
}

// CreatePartitions asks to grow topics.
type CreatePartitions struct {
	Topics       []TopicGrowth
	ValidateOnly bool
	Charge       Charge
}

// TopicGrowth asks for a topic to have Count partitions in all.
type TopicGrowth struct {
	Name        string
	Count       int32
	Assignments [][]kafka.NodeID // one row per new partition, nil to let the controller place them
}

// GrowthResult tells what became of one topic of CreatePartitions.
type GrowthResult struct {
	Name string
	Err  error
}

// OpKind is what a change does to one configuration entry.
type OpKind int8

// The operations of IncrementalAlterConfigs, by Kafka's numbers.
const (
	Set      OpKind = 0
	Delete   OpKind = 1
	Append   OpKind = 2
	Subtract OpKind = 3
)

// AlterConfigs changes configurations: incrementally, or as the legacy request does, which replaces all that is set on a
// resource.
type AlterConfigs struct {
	Incremental  bool
	Resources    []ConfigChange
	ValidateOnly bool
}

// ConfigChange is the change of one resource, whole or not at all.
type ConfigChange struct {
	Resource Resource
	Ops      []ConfigOp
}

// ConfigOp is one entry's change.
type ConfigOp struct {
	Name  string
	Op    OpKind
	Value *string
}

// ConfigResult tells what became of one resource of AlterConfigs.
type ConfigResult struct {
	Resource Resource
	Err      error
}
