package meta

import (
	"math/rand/v2"

	"github.com/raftsman/raftsman/internal/kafka"
)

// What one request may do to the metadata at most, as in Kafka.
const (
	requestPartitionsMax = 10_000
	requestRecordsMax    = 10_000
)

// Env is what decisions need beside the image: chance, defaults and the rules of configurations. Defaults are those of the
// configuration file of the node that decides.
type Env struct {
	Random *rand.Rand // placement begins anywhere
	NewID  func() kafka.UUID

	KRaft int16 // the quorum's kraft.version, which is not in the image

	Node kafka.NodeID // the controller that decides: what was set for it alone counts for topics too

	Partitions        int32 // num.partitions
	ReplicationFactor int16 // default.replication.factor
	MinISR            int32 // min.insync.replicas; 0 is 1
	UncleanElections  bool  // unclean.leader.election.enable

	Configs ConfigRules
}

// ConfigRules is what the table of configurations knows. Errors are what the client is told: a kafka.Error or a
// *kafka.Refusal.
type ConfigRules interface {
	// Validate judges what a resource would have in all. Of a broker, only the changed names are judged, and whether they may
	// change while it runs.
	Validate(r Resource, changed []string, all map[string]string) error
	// ListDefault returns the built-in default of a key of list type, to which APPEND and SUBTRACT of an unset key apply, and
	// false for a key of another type.
	ListDefault(kind ResourceType, name string) (string, bool)
}

// tooMany refuses a whole request that would do too much at once.
func tooMany(what string) *kafka.Refusal {
	return kafka.Refuse(kafka.PolicyViolation, "a request can make at most %d %s", requestPartitionsMax, what)
}

func tooManyRecords() *kafka.Refusal {
	return kafka.Refuse(kafka.PolicyViolation, "a request can cause at most %d metadata records: ask for less at once", requestRecordsMax)
}
