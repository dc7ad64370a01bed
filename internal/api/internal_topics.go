package api

import (
	"strconv"

	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/meta"
)

// InternalTopic returns how a coordinator's topic is created, by Kafka's settings for it; false for every other name.
func InternalTopic(broker *config.Broker, name string) (meta.NewTopic, bool) {
	var prefix string
	var configs map[string]string
	switch name {
	case meta.OffsetsTopic:
		prefix = "offsets.topic."
		configs = map[string]string{"cleanup.policy": "compact", "compression.type": "producer"}
	case meta.TransactionsTopic:
		prefix = "transaction.state.log."
		configs = map[string]string{
			"cleanup.policy": "compact", "compression.type": "uncompressed", "unclean.leader.election.enable": "false",
			"min.insync.replicas": strconv.Itoa(broker.Int(prefix + "min.isr")),
		}
	case meta.ShareStateTopic:
		prefix = "share.coordinator.state.topic."
		configs = map[string]string{
			"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1",
			"min.insync.replicas": strconv.Itoa(broker.Int(prefix + "min.isr")),
		}
	default:
		return meta.NewTopic{}, false
	}
	configs["segment.bytes"] = strconv.Itoa(broker.Int(prefix + "segment.bytes"))
	topic := meta.NewTopic{
		Name: name, Partitions: int32(broker.Int(prefix + "num.partitions")),
		ReplicationFactor: int16(broker.Int(prefix + "replication.factor")),
	}
	for _, key := range sortedKeys(configs) {
		topic.Configs = append(topic.Configs, meta.ConfigValue{Name: key, Value: new(configs[key])})
	}
	return topic, true
}
