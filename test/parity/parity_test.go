// Package parity asks Apache Kafka 4.4 and this broker the same and compares every field of every answer.
//
//	conversation_test.go   what a case is, and how one broker is asked
//	answer_test.go         an answer as fields; what brokers may choose freely, masked by rule
//	recording_test.go      Apache Kafka's answers as text, one file an API under testdata
//	differences_test.go    every difference that stays, with its reason
//	page_test.go           docs/compatibility.md, made from the above
//	fetch_test.go, …       the cases, one file an API or a conversation between several
//
// A case is one line in an API's file: c.add("unknown topic", raw.ListOffsets(v, raw.ListRow{Topic: "nope"})). `make parity` asks
// Kafka again and shows what has changed; without it the recordings speak for Kafka.
package parity

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/brokertest"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/raw"
)

var (
	recordNow = flag.Bool("record", false, "start an Apache Kafka 4.4, record its answers and write the page")
	kafkaNow  = flag.Bool("kafka", os.Getenv("RAFTSMAN_PARITY_KAFKA") == "1", "start an Apache Kafka 4.4 and compare with what it answers now, not with what is recorded")
)

// properties are the settings of both brokers, beside addresses and directories.
var properties = map[string]string{
	"node.id": "1", "offsets.topic.replication.factor": "1", "group.initial.rebalance.delay.ms": "0",
	"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1",
	"share.coordinator.state.topic.replication.factor": "1", "share.coordinator.state.topic.min.isr": "1",
	"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
	"metric.reporters": "TelemetryReceiver", // without which Kafka takes no metrics of clients
}

// places are the settings that only Raftsman is given here: test/kafka/kafka has them for Kafka.
var places = map[string]string{
	"process.roles": "broker,controller", "controller.listener.names": "CONTROLLER", "inter.broker.listener.name": "PLAINTEXT",
	"listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:9093", "advertised.listeners": "PLAINTEXT://127.0.0.1:9092",
}

// everything is the whole conversation, in order. Metadata comes first: of all topics, while there are few.
func everything() *conversation {
	c := &conversation{}
	c.apiVersions()
	c.metadata()
	c.createTopics()
	c.describeCluster()
	c.describeTopicPartitions()
	c.createPartitions()
	c.deleteTopics()
	c.configs()
	c.settings()
	c.alterations()
	c.values()
	c.listConfigResources()
	c.clientQuotas()
	c.telemetry()
	c.logins()
	c.records()
	c.groups()
	c.recreated()
	c.odd()
	c.consumers()
	c.transactions()
	c.dynamics()
	c.describeQuorum()
	c.voters()
	c.electLeaders()
	c.reassignments()
	c.credentials()
	c.updateFeatures()
	c.unregister()
	c.nameApart()
	return c
}

// TestAnswersAsKafka asks for all that is served, at every version, rightly, wrongly and oddly, and compares each field of each
// answer with what Apache Kafka said when it was asked the same.
func TestAnswersAsKafka(t *testing.T) {
	c := everything()
	var want map[string]answer
	switch {
	case *recordNow:
		want = askKafka(t, c)
		kafkasRecorded.write(t, c, want)
		writePage(t)
	case *kafkaNow:
		want = askKafka(t, c)
	default:
		want = kafkasRecorded.read(t)
	}
	address := startRaftsman(t)
	warmUp(raw.Dial(t, address))
	w := newWorld(t, address)
	ours := map[string]answer{} // the differences that stay
	for i := range c.steps {
		s := &c.steps[i]
		kafkas, recorded := want[s.title()]
		if !recorded {
			t.Errorf("%s is not recorded: run `make parity`", s.title())
		}
		delete(want, s.title())
		stay, left := explain(s, w.run(s), kafkas)
		if recorded && len(left) > 0 {
			t.Errorf("%s:\n\t%s", s.title(), strings.Join(left, "\n\t"))
		}
		if len(stay) > 0 {
			ours[s.title()] = stay
		}
	}
	checkOurs(t, c, ours)
	for _, title := range slices.Sorted(maps.Keys(want)) {
		t.Errorf("%s is recorded and not asked: run `make parity`", title)
	}
	for _, d := range differences {
		for i := range c.steps {
			if s := &c.steps[i]; d.of(s) && !d.seen[s.title()] {
				t.Errorf("%s does not differ any more, and the table has: %s", s.title(), d.why)
			}
		}
	}
}

// TestEveryVersionHasAGoodAndABadCase holds that Kafka has answered every version of every key without an error and with one.
func TestEveryVersionHasAGoodAndABadCase(t *testing.T) {
	type at struct {
		key     kmsg.Key
		version int16
	}
	good, bad := map[at]bool{}, map[at]bool{}
	answers := kafkasRecorded.read(t)
	c := everything()
	for i := range c.steps {
		s := &c.steps[i]
		failed, coded := false, false
		for _, f := range answers[s.title()] {
			if strings.HasSuffix(f.name, "ErrorCode") {
				coded, failed = true, failed || f.value != kafka.None.Error()
			}
		}
		if failed {
			bad[at{s.key, s.v}] = true
		} else if coded {
			good[at{s.key, s.v}] = true
		}
	}
	for _, k := range raw.Keys {
		if k.Comes != "" {
			continue
		}
		for _, v := range raw.VersionsOf(k.Key) {
			if !good[at{k.Key, v}] && !neverSucceeds(k.Key) {
				t.Errorf("%s v%d has no good case", k.Key.Name(), v)
			}
			if !bad[at{k.Key, v}] && !neverFails(k.Key, v) {
				t.Errorf("%s v%d has no bad case", k.Key.Name(), v)
			}
		}
	}
}

// neverSucceeds names what is not to be done on a listener without logins, and by a quorum of one.
func neverSucceeds(key kmsg.Key) bool {
	switch key {
	case kmsg.SASLHandshake, kmsg.SASLAuthenticate, kmsg.UnregisterController, kmsg.AddRaftVoter, kmsg.RemoveRaftVoter:
		return true
	}
	return false
}

// neverFails names what has no way to go wrong on one healthy node.
func neverFails(key kmsg.Key, version int16) bool {
	switch key {
	case kmsg.ListGroups, kmsg.DescribeLogDirs, kmsg.ListPartitionReassignments:
		return true
	case kmsg.ApiVersions:
		return version < 3
	case kmsg.DescribeCluster:
		return version < 1
	case kmsg.DescribeGroups:
		return version < 6
	case kmsg.ListTransactions:
		return version < 2
	case kmsg.OffsetFetch:
		return version < 10
	case kmsg.FindCoordinator, kmsg.ListConfigResources:
		return version == 0
	}
	return false
}

func startRaftsman(t *testing.T) (address string) {
	t.Helper()
	options := []brokertest.Option{brokertest.Dir(t.TempDir())}
	for _, given := range []map[string]string{properties, places} {
		for name, value := range given {
			options = append(options, brokertest.Property(name, value))
		}
	}
	return brokertest.Start(t, options...).Addr()
}

// startKafka starts a fresh Apache Kafka and stops it when the test ends.
func startKafka(t *testing.T) (address string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "kafka")
	port := fmt.Sprint(raw.FreePort(t))
	args := []string{"start", dir, port}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		args = append(args, name+"="+properties[name])
	}
	plugins := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		command := exec.Command("../kafka/kafka", args...)
		command.Env = append(os.Environ(), "KAFKA_PLUGINS="+plugins, "QUICK_JVM=1")
		if out, err := command.CombinedOutput(); err != nil {
			log, _ := os.ReadFile(filepath.Join(dir, "server.log"))
			t.Fatalf("kafka %s: %v\n%s\nserver.log ends: %s", strings.Join(args, " "), err, out, log[max(0, len(log)-3000):])
		}
	}
	run("plugins", plugins)
	t.Cleanup(func() { run("stop", dir, "KILL") }) // one that has unregistered itself does not end in order
	run(args...)
	return "127.0.0.1:" + port
}

// askKafka returns the answers of a fresh Apache Kafka by the titles of the cases.
func askKafka(t *testing.T, c *conversation) map[string]answer {
	t.Helper()
	address := startKafka(t)
	warmUp(raw.Dial(t, address))
	w := newWorld(t, address)
	w.patience(silence)
	answers := map[string]answer{}
	for i := range c.steps {
		s := &c.steps[i]
		answers[s.title()] = w.run(s)
	}
	return answers
}

// warmUp waits for what a new Kafka makes when it is first asked: its groups' topic, and a block of producer ids.
func warmUp(l *raw.Conn) {
	l.Helper()
	find := raw.At(4, kmsg.NewPtrFindCoordinatorRequest())
	find.CoordinatorKeys = []string{"any"}
	raw.Until(l, find, "a coordinator", raw.Found)
	find.CoordinatorType = 1
	raw.Until(l, find, "a coordinator of transactions", raw.Found)
	raw.Until(l, raw.At(5, kmsg.NewPtrInitProducerIDRequest()), "a producer id", func(r *kmsg.InitProducerIDResponse) bool { return r.ErrorCode == 0 })
}
