package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// connectWorker is a worker of Kafka Connect in distributed mode, with a connector that reads a file into a topic, and one that
// writes the topic to a file.
type connectWorker struct {
	t           *testing.T
	settings    string // the worker's properties file
	rest        string
	source, got string // the files
	written     int
}

func newConnectWorker(t *testing.T, bootstrap string) *connectWorker {
	plugins := must(filepath.Abs(".deps/connect"))(t)
	dir, rest := t.TempDir(), fmt.Sprintf("127.0.0.1:%d", freePort(t))
	c := &connectWorker{
		t: t, settings: filepath.Join(dir, "worker.properties"), rest: "http://" + rest,
		source: filepath.Join(dir, "in.txt"), got: filepath.Join(dir, "out.txt"),
	}
	// What Kafka ships as connect-distributed.properties, but for the last four: flushes that come sooner, a worker that is missed
	// sooner, and plugins that are found, without reading every class.
	write(t, c.settings, strings.Join([]string{
		"bootstrap.servers=" + bootstrap, "group.id=connect-cluster", "listeners=http://" + rest,
		"key.converter=org.apache.kafka.connect.json.JsonConverter", "value.converter=org.apache.kafka.connect.json.JsonConverter",
		"offset.storage.topic=connect-offsets", "offset.storage.replication.factor=1",
		"config.storage.topic=connect-configs", "config.storage.replication.factor=1",
		"status.storage.topic=connect-status", "status.storage.replication.factor=1",
		"offset.flush.interval.ms=1000", "session.timeout.ms=6000", "plugin.path=" + plugins, "plugin.discovery=service_load",
	}, "\n"))
	write(t, c.source, "")
	return c
}

// start starts the worker, and waits until both connectors run, which it makes at the first start.
func (c *connectWorker) start(create bool) *process {
	c.t.Helper()
	worker := startProcess(c.t, c.rest, exec.Command("kafka/kafka", "jvm", "-Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
		"org.apache.kafka.connect.cli.ConnectDistributed", c.settings))
	connectors := map[string]map[string]string{
		"source": {
			"connector.class": "FileStreamSource", "file": c.source, "topic": "lines", "tasks.max": "1",
			"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1",
		},
		"sink": {"connector.class": "FileStreamSink", "file": c.got, "topics": "lines", "tasks.max": "1"},
	}
	for name, config := range connectors {
		eventually(c.t, atLast, name+" runs", func() error {
			select {
			case <-worker.exited:
				c.t.Fatalf("the worker ended: %v", worker.err)
			default:
			}
			var status struct {
				Connector struct{ State string }
				Tasks     []struct{ State, Trace string }
			}
			err := c.call("GET", "/connectors/"+name+"/status", nil, &status)
			if err != nil && create {
				return c.call("PUT", "/connectors/"+name+"/config", config, &status)
			}
			if err == nil && (status.Connector.State != "RUNNING" || len(status.Tasks) != 1 || status.Tasks[0].State != "RUNNING") {
				return fmt.Errorf("it is %+v", status)
			}
			return err
		})
	}
	return worker
}

// call asks the worker's REST interface.
func (c *connectWorker) call(method, path string, body, answer any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.rest+path, bytes.NewReader(content))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Timeout: 30 * time.Second}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s %s (%w)", method, path, resp.Status, text, err)
	}
	if len(text) == 0 {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// write appends lines to the file that is read.
func (c *connectWorker) write(lines int) {
	c.t.Helper()
	file, err := os.OpenFile(c.source, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	defer file.Close()
	var text strings.Builder
	for ; lines > 0; lines-- {
		fmt.Fprintln(&text, "line", c.written)
		c.written++
	}
	if _, err := file.WriteString(text.String()); err != nil {
		c.t.Fatal(err)
	}
}

// check waits until every line has come out, in order. After a kill lines may come again, from one that was not committed on.
func (c *connectWorker) check(killed bool) {
	c.t.Helper()
	eventually(c.t, atLast, fmt.Sprintf("%d lines come out", c.written), func() error {
		content, _ := os.ReadFile(c.got)
		next := 0
		for line := range strings.Lines(string(content)) {
			n, err := strconv.Atoi(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "line "))
			if err != nil || n > next || n < next && !killed {
				c.t.Fatalf("line %d is followed by %q", next-1, line)
			}
			next = n + 1
		}
		if next != c.written {
			return fmt.Errorf("only up to %d", next)
		}
		return nil
	})
}

// TestConnect has Kafka Connect, in distributed mode, carry a file through a topic into another file, while the worker is stopped and
// killed and the broker is killed: no line is lost, and none is out of order.
func TestConnect(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broker := startBroker(t, dir)
	c := newConnectWorker(t, broker.addr)
	worker := c.start(true)
	c.write(500)
	c.check(false)
	adm := kadm.NewClient(crashClient(t, broker.addr))
	for topic, partitions := range map[string]int{"connect-configs": 1, "connect-offsets": 25, "connect-status": 5} {
		details := must(adm.ListTopics(t.Context(), topic))(t)
		if got := len(details[topic].Partitions); got != partitions {
			t.Errorf("%s has %d partitions, want %d", topic, got, partitions)
		}
		if policy := must(adm.DescribeTopicConfigs(t.Context(), topic))(t); configOf(policy[0], "cleanup.policy") != "compact" {
			t.Errorf("%s has cleanup.policy %s", topic, configOf(policy[0], "cleanup.policy"))
		}
	}

	c.write(100)
	broker.kill()
	broker = startBrokerAt(t, dir, portOf(t, broker.addr))
	c.write(100)
	c.check(true)

	c.write(100)
	worker.kill()
	c.write(100)
	worker = c.start(false)
	c.check(true)
	eventually(t, atLast, "the sink commits all", func() error {
		offsets, err := adm.FetchOffsets(t.Context(), "connect-sink")
		if err != nil {
			return err
		}
		ends, err := adm.ListEndOffsets(t.Context(), "lines")
		end, _ := ends.Lookup("lines", 0)
		if at, _ := offsets.Lookup("lines", 0); at.At != end.Offset || end.Offset < int64(c.written) {
			return fmt.Errorf("committed %d of %d (%w)", at.At, end.Offset, err)
		}
		return nil
	})
	if err := c.call("DELETE", "/connectors/source", nil, nil); err != nil {
		t.Error(err)
	}
	worker.terminate()
}

func configOf(r kadm.ResourceConfig, key string) string {
	for _, c := range r.Configs {
		if c.Key == key {
			return c.MaybeValue()
		}
	}
	return ""
}
