package broker_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/raftsman/raftsman/broker"
)

// TestFormatOfAFixedQuorumHasTheLevels: whichever of the controllers is the first to lead, also one that is no Raftsman, finds the feature
// levels that the cluster begins with. Kafka's tool makes a file of the same size, without voters.
func TestFormatOfAFixedQuorumHasTheLevels(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	properties := map[string]string{
		"process.roles": "controller", "node.id": "1", "log.dirs": dir, "controller.listener.names": "CONTROLLER",
		"listeners": "CONTROLLER://127.0.0.1:9093", "controller.quorum.voters": "1@127.0.0.1:9093,2@127.0.0.1:9193,3@127.0.0.1:9293",
	}
	if _, err := broker.Format(broker.Config{Properties: properties}, broker.Quorum{ClusterID: "MkU3OEVBNTcwNTJENDM2Qg"}); err != nil {
		t.Fatal(err)
	}
	begin, err := os.ReadFile(filepath.Join(dir, "__cluster_metadata-0", "00000000000000000000-0000000000.checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	if want := 411; len(begin) != want {
		t.Errorf("the first snapshot has %d bytes, want %d", len(begin), want)
	}
	for _, feature := range []string{"metadata", "eligible.leader.replicas", "group", "share", "streams", "transaction"} {
		if !bytes.Contains(begin, []byte(feature+".version")) {
			t.Errorf("the first snapshot lacks %s.version", feature)
		}
	}
}
