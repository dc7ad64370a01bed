package meta

import (
	"strings"

	"github.com/raftsman/raftsman/internal/kafka"
)

// nameBytesMax leaves room for "-PARTITION" and for what a deleted partition's folder is called.
const nameBytesMax = 249

// ClusterMetadataTopic is the name of the log that the quorum keeps; no topic may be called so.
const ClusterMetadataTopic = "__cluster_metadata"

// The topics in which the coordinators keep what they know.
const (
	OffsetsTopic      = "__consumer_offsets"
	TransactionsTopic = "__transaction_state"
	ShareStateTopic   = "__share_group_state"
)

// CheckTopicName refuses what cannot be the name of a topic, with INVALID_TOPIC_EXCEPTION.
func CheckTopicName(name string) error {
	switch {
	case name == "":
		return kafka.Refuse(kafka.InvalidTopicException, "Topic name is invalid: the empty string is not allowed")
	case name == "." || name == "..":
		return kafka.Refuse(kafka.InvalidTopicException, "Topic name is invalid: '%s' is not allowed", name)
	case len(name) > nameBytesMax:
		return kafka.Refuse(kafka.InvalidTopicException, "Topic name is invalid: it has %d characters, %d are allowed", len(name), nameBytesMax)
	case strings.ContainsFunc(name, func(r rune) bool { return !nameRune(r) }):
		return kafka.Refuse(kafka.InvalidTopicException, "Topic name is invalid: %q has characters other than ASCII alphanumerics, '.', '_' and '-'", name)
	}
	return nil
}

func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
}

// collisionKey is equal for names that would have the same metric names.
func collisionKey(name string) string { return strings.ReplaceAll(name, ".", "_") }

// collidingTopic returns an existing topic whose name is equal to name when '.' reads as '_'.
func (im *Image) collidingTopic(name string) (string, bool) {
	names, ok := im.collisions.get(collisionKey(name))
	if !ok {
		return "", false
	}
	return names[0], true
}

// IsInternalTopic tells whether the topic belongs to a coordinator: clients are told so, and may not write to it.
func IsInternalTopic(name string) bool {
	return name == OffsetsTopic || name == TransactionsTopic || name == ShareStateTopic
}
