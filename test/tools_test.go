package test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var keepTranscripts = flag.String("transcripts", "", "a folder to write what Kafka's tools printed to, Kafka.txt and Raftsman.txt")

// toolProperties are the settings of both brokers, beside addresses and directories.
var toolProperties = []string{
	"node.id=1", "offsets.topic.replication.factor=1", "offsets.topic.num.partitions=4", "group.initial.rebalance.delay.ms=0",
	"transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1", "transaction.state.log.num.partitions=4",
	"share.coordinator.state.topic.replication.factor=1", "share.coordinator.state.topic.min.isr=1",
}

// TestToolsPrintAsAgainstKafka gives Kafka's own tools, unchanged, the commands of kafka/tools.txt against a real Apache Kafka and
// against Raftsman, and compares what they print, line by line.
func TestToolsPrintAsAgainstKafka(t *testing.T) {
	t.Parallel()
	sides := []*side{kafkaSide(t), raftsmanSide(t)}
	began, n := time.Now(), 0
	for _, c := range readTranscript(t) {
		if !askBoth(t, sides, c) {
			break
		}
		n++
	}
	t.Logf("%d commands in %v", n, time.Since(began).Round(100*time.Millisecond))
	for _, s := range sides {
		if *keepTranscripts != "" {
			write(t, filepath.Join(*keepTranscripts, s.name+".txt"), s.transcript.String())
		}
	}
	for _, d := range toolDifferences {
		if !d.seen && !t.Failed() {
			t.Errorf("%q does not differ any more, and the table has: %s", d.command, d.why)
		}
	}
}

// askBoth gives both a command at once and reports what differs and should not. What changes nothing is asked again while the answers
// differ, for a while: Kafka shows what was changed a moment after it has answered. It returns false when the transcript can't go on.
func askBoth(t *testing.T, sides []*side, c *command) bool {
	deadline := time.Now().Add(10 * time.Second)
	for {
		asked := time.Now()
		var printed [2][]string
		var failed [2]error
		var both sync.WaitGroup
		for i, s := range sides {
			both.Go(func() { printed[i], failed[i] = s.run(c) })
		}
		both.Wait()
		if took := time.Since(asked); took > slow {
			t.Logf("kafka/tools.txt:%d took %v", c.line, took.Round(100*time.Millisecond))
		}
		if err := errors.Join(failed[:]...); err != nil {
			t.Errorf("kafka/tools.txt:%d: %s\n%v", c.line, c.text, err)
			return false
		}
		difference, explained := compareOutputs(c, printed[0], printed[1])
		if difference != "" && c.onlyAsks() && time.Now().Before(deadline) {
			continue
		}
		for _, d := range explained {
			d.seen = true
		}
		if difference != "" {
			t.Errorf("kafka/tools.txt:%d: %s\n%s", c.line, c.text, difference)
		}
		for i, s := range sides {
			fmt.Fprintf(&s.transcript, "%s\n\t%s\n", c.text, strings.Join(printed[i], "\n\t"))
		}
		return true
	}
}

// slow is how long a command takes that is worth a line in the log.
const slow = 5 * time.Second

// onlyAsks tells whether the command changes nothing, so that it may be given again.
func (c *command) onlyAsks() bool {
	return c.verb == "$" && (c.tool() == "get-offsets" || slices.ContainsFunc(c.words, func(w string) bool {
		return slices.Contains([]string{"--describe", "--list", "describe", "list", "--dry-run", "--export"}, w)
	}))
}

// compareOutputs returns the lines of a command that differ and should not, and which differences that stay there were.
func compareOutputs(c *command, kafka, ours []string) (difference string, explained []*toolDifference) {
	for _, d := range toolDifferences {
		if !strings.Contains(c.text, d.command) {
			continue
		}
		was := [2][]string{kafka, ours}
		kafka, ours = linesWithout(kafka, d), linesWithout(ours, d)
		if dropped := len(was[0]) - len(kafka); dropped != len(was[1])-len(ours) || !slices.Equal(was[0], was[1]) {
			explained = append(explained, d)
		}
	}
	if slices.Equal(kafka, ours) {
		return "", explained
	}
	from := 0
	for from < min(len(kafka), len(ours)) && kafka[from] == ours[from] {
		from++
	}
	end := 0
	for end < min(len(kafka), len(ours))-from && kafka[len(kafka)-1-end] == ours[len(ours)-1-end] {
		end++
	}
	show := func(lines []string) string {
		return strings.Join(lines[from:min(len(lines)-end, from+12)], "\n\t\t")
	}
	return fmt.Sprintf("\tagainst Kafka:\n\t\t%s\n\tagainst Raftsman:\n\t\t%s", show(kafka), show(ours)), explained
}

func linesWithout(lines []string, d *toolDifference) []string {
	return slices.DeleteFunc(slices.Clone(lines), d.line.MatchString)
}

// kafkaSide starts a fresh Apache Kafka, which ends with the test.
func kafkaSide(t *testing.T) *side {
	dir, port := filepath.Join(t.TempDir(), "kafka"), freePort(t)
	start := exec.Command("kafka/kafka", append([]string{"start", dir, fmt.Sprint(port)}, toolProperties...)...)
	start.Env = append(os.Environ(), "KAFKA_HEAP=512m")
	t.Cleanup(func() { _ = exec.Command("kafka/kafka", "stop", dir).Run() })
	if out, err := start.CombinedOutput(); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "server.log"))
		t.Fatalf("start Kafka: %v\n%s\nserver.log ends: %s", err, out, last(string(log), 3000))
	}
	return newSide(t, "Kafka", fmt.Sprintf("127.0.0.1:%d", port), fmt.Sprintf("127.0.0.1:%d", port+1), filepath.Join(dir, "data"))
}

// raftsmanSide starts Raftsman with the same settings.
func raftsmanSide(t *testing.T) *side {
	dir, port, control := t.TempDir(), freePort(t), freePort(t)
	address, controller := fmt.Sprintf("127.0.0.1:%d", port), fmt.Sprintf("127.0.0.1:%d", control)
	args := []string{"serve"}
	for _, p := range append([]string{
		"process.roles=broker,controller", "controller.listener.names=CONTROLLER", "inter.broker.listener.name=PLAINTEXT", "log.dirs=" + dir,
		"listeners=PLAINTEXT://" + address + ",CONTROLLER://" + controller, "advertised.listeners=PLAINTEXT://" + address,
	}, toolProperties...) {
		args = append(args, "--override", p)
	}
	p := startProcess(t, address, exec.Command(binary(t), args...))
	p.awaitServing(atLast)
	return newSide(t, "Raftsman", address, controller, dir)
}

// kafkaTool runs one of Kafka's own tools and returns what it printed.
func kafkaTool(t testing.TB, stdin, tool string, args ...string) string {
	t.Helper()
	command := exec.Command("kafka/kafka", append([]string{"tool", tool}, args...)...)
	command.Stdin = strings.NewReader(stdin)
	timer := time.AfterFunc(atLast, func() { _ = command.Process.Kill() })
	defer timer.Stop()
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("kafka tool %s %s: %v\n%s", tool, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestKafkaToolsThatLogInFailAtOnce gives one of Kafka's own tools a user and a password for a listener that asks for none: it must
// say so, and not try for ever.
func TestKafkaToolsThatLogInFailAtOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sasl.properties")
	if err := os.WriteFile(file, []byte(`security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";
`), 0o600); err != nil {
		t.Fatal(err)
	}
	const want = "client mechanism PLAIN, enabled mechanisms are []"
	out, err := tryRun(atLast, nil, "kafka/kafka", "tool", "topics", "--list", "--bootstrap-server", target(t), "--command-config", file)
	if err == nil || !strings.Contains(out+err.Error(), want) {
		t.Errorf("the tool said %q %v, want %q", out, err, want)
	}
}
