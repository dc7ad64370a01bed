package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

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

// TestKafkaTools works with Kafka's own tools, from its jars, as its documentation shows them.
func TestKafkaTools(t *testing.T) {
	addr := target(t)
	tool := func(stdin, name string, args ...string) string {
		t.Helper()
		return kafkaTool(t, stdin, name, append(args, "--bootstrap-server", addr)...)
	}
	wants := func(out string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(out, part) {
				t.Errorf("the tool printed no %q:\n%s", part, out)
			}
		}
	}
	tool("", "topics", "--create", "--topic", "quickstart", "--partitions", "3", "--config", "retention.ms=3600000")
	wants(tool("", "topics", "--describe", "--topic", "quickstart"), "PartitionCount: 3", "retention.ms=3600000", "Partition: 2", "Leader: 1")
	tool("", "topics", "--alter", "--topic", "quickstart", "--partitions", "4")
	wants(tool("", "topics", "--describe", "--topic", "quickstart"), "PartitionCount: 4")
	wants(tool("", "topics", "--list"), "quickstart")

	tool("k1:first\nk2:second\nk1:third\n", "console-producer", "--topic", "quickstart", "--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
	out := tool("", "console-consumer", "--topic", "quickstart", "--from-beginning", "--max-messages", "3", "--timeout-ms", "60000",
		"--group", "tools", "--formatter-property", "print.key=true")
	wants(out, "k1\tfirst", "k2\tsecond", "k1\tthird")
	if strings.Index(out, "first") > strings.Index(out, "third") {
		t.Errorf("the records of k1 came out of order:\n%s", out)
	}
	wants(tool("", "consumer-groups", "--describe", "--group", "tools"), "quickstart")
	wants(tool("", "get-offsets", "--topic", "quickstart"), "quickstart:3:")
	wants(tool("", "configs", "--describe", "--entity-type", "topics", "--entity-name", "quickstart"), "retention.ms=3600000")
	tool("", "configs", "--alter", "--entity-type", "topics", "--entity-name", "quickstart", "--add-config", "max.message.bytes=2000000")
	wants(tool("", "configs", "--describe", "--entity-type", "topics", "--entity-name", "quickstart"), "max.message.bytes=2000000")
	for kind, setting := range map[string]string{"client-metrics": "interval.ms=5000", "groups": "consumer.session.timeout.ms=50000"} {
		tool("", "configs", "--alter", "--entity-type", kind, "--entity-name", "listed", "--add-config", setting)
		wants(tool("", "configs", "--describe", "--entity-type", kind), "listed", setting)
	}
	wants(tool("", "client-metrics", "--list"), "listed")
	wants(tool("", "broker-api-versions"), "Produce(0)")
	tool("", "topics", "--delete", "--topic", "quickstart")
	if out := tool("", "topics", "--list"); strings.Contains(out, "quickstart") {
		t.Errorf("the topic is listed after it was deleted:\n%s", out)
	}
}

// TestKafkaToolsThatLogInFailAtOnce gives one of Kafka's own tools a user and a password for a listener that asks for none: it must
// say so, and not try for ever.
func TestKafkaToolsThatLogInFailAtOnce(t *testing.T) {
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
