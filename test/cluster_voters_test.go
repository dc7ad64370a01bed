package test

import (
	"encoding/base64"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestKafkasToolChangesTheVoters: kafka-metadata-quorum.sh makes a controller of ours a voter and takes its vote, asking brokers or
// controllers.
func TestKafkasToolChangesTheVoters(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.healed()
	address, dir := fmt.Sprintf("127.0.0.1:%d", freePort(t)), filepath.Join(t.TempDir(), "node-4")
	file := filepath.Join(t.TempDir(), "controller.properties")
	write(t, file, "node.id=4\nprocess.roles=controller\ncontroller.listener.names=CONTROLLER\nlisteners=CONTROLLER://"+address+
		"\ncontroller.quorum.bootstrap.servers="+c.nodes[0].controller+"\nlog.dirs="+dir+"\n")
	startProcess(t, address, exec.Command(binary(t), "serve", file, "--override", "controller.quorum.auto.join.enable=false"))

	var directory string
	follows := func(votes bool) {
		t.Helper()
		eventually(t, atLast, fmt.Sprintf("node 4 votes: %v", votes), func() error {
			q, err := c.quorum()
			if err != nil {
				return err
			}
			among := q.Observers
			if votes {
				among = q.CurrentVoters
			}
			for _, r := range among {
				if r.ReplicaID == 4 && r.LogEndOffset >= q.HighWatermark {
					directory = base64.RawURLEncoding.EncodeToString(r.ReplicaDirectoryID[:])
					return nil
				}
			}
			return fmt.Errorf("voters %+v, observers %+v", q.CurrentVoters, q.Observers)
		})
	}
	follows(false)
	for _, asked := range [][2]string{{"--bootstrap-server", c.nodes[1].addr}, {"--bootstrap-controller", c.nodes[1].controller}} {
		option, at := asked[0], asked[1]
		out := kafkaTool(t, "", "metadata-quorum", option, at, "--command-config", file, "add-controller")
		if want := "Added controller 4 with directory id " + directory + " and endpoints: CONTROLLER://" + address; !strings.Contains(out, want) {
			t.Errorf("add-controller by %s says\n%s\nwant %s", option, out, want)
		}
		follows(true)
		out = kafkaTool(t, "", "metadata-quorum", option, at, "remove-controller", "--controller-id", "4", "--controller-directory-id", directory)
		if want := "Removed KRaft controller 4 with directory id " + directory; !strings.Contains(out, want) {
			t.Errorf("remove-controller by %s says\n%s\nwant %s", option, out, want)
		}
		follows(false)
	}
	c.stop()
}
