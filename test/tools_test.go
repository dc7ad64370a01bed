package test

import (
	"os/exec"
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
	wants(tool("", "broker-api-versions"), "Produce(0)")
	tool("", "topics", "--delete", "--topic", "quickstart")
	if out := tool("", "topics", "--list"); strings.Contains(out, "quickstart") {
		t.Errorf("the topic is listed after it was deleted:\n%s", out)
	}
}
