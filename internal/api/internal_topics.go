package api

import (
	"math"
	"strconv"

	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/meta"
)

// InternalTopic is [InternalTopic] for this node's cluster as it is now: a topic that is wanted before enough brokers are there has as many
// replicas as there are, and gets the others when they come.
func (a *API) InternalTopic(name string) (meta.NewTopic, bool) {
	most := math.MaxInt16
	if a.Forward != nil {
		most = 0
		for _, b := range a.Quorum.Image().Brokers() {
			if !b.Fenced {
				most++
			}
		}
	}
	return InternalTopic(a.Config, name, max(most, 1))
}

// InternalTopic returns how a coordinator's topic is created, by Kafka's settings for it but with at most so many replicas; false for every
// other name.
func InternalTopic(broker *config.Broker, name string, replicasMax int) (meta.NewTopic, bool) {
	inSync := func(key string) string { return strconv.Itoa(min(broker.Int(key), replicasMax)) }
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
			"min.insync.replicas": inSync(prefix + "min.isr"),
		}
	case meta.ShareStateTopic:
		prefix = "share.coordinator.state.topic."
		configs = map[string]string{
			"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1",
			"min.insync.replicas": inSync(prefix + "min.isr"),
		}
	default:
		return meta.NewTopic{}, false
	}
	configs["segment.bytes"] = strconv.Itoa(broker.Int(prefix + "segment.bytes"))
	topic := meta.NewTopic{
		Name: name, Partitions: int32(broker.Int(prefix + "num.partitions")),
		ReplicationFactor: int16(min(broker.Int(prefix+"replication.factor"), replicasMax)),
	}
	for _, key := range sortedKeys(configs) {
		topic.Configs = append(topic.Configs, meta.ConfigValue{Name: key, Value: new(configs[key])})
	}
	return topic, true
}
