package meta

import "strconv"

const (
	minInsyncReplicas = "min.insync.replicas"
	uncleanElections  = "unclean.leader.election.enable"
)

// topicSetting returns what was set for a topic: on itself, on the node that decides, or for all nodes.
func (im *Image) topicSetting(topic, name string, env *Env) (string, bool) {
	node := strconv.Itoa(int(env.Node))
	for _, r := range [...]Resource{{TopicResource, topic}, {BrokerResource, node}, {BrokerResource, ""}} {
		if value, set := im.Config(r)[name]; set {
			return value, true
		}
	}
	return "", false
}

// minISR is a topic's min.insync.replicas. It counts no further than a partition has replicas.
func (im *Image) minISR(topic string, env *Env) int {
	if value, set := im.topicSetting(topic, minInsyncReplicas, env); set {
		if n, err := strconv.Atoi(value); err == nil {
			return n
		}
	}
	return max(1, int(env.MinISR))
}

// uncleanAllowed tells whether somebody may lead who has not everything, when nobody has.
func (im *Image) uncleanAllowed(topic string, env *Env) bool {
	if value, set := im.topicSetting(topic, uncleanElections, env); set {
		return value == "true"
	}
	return env.UncleanElections
}
