package config

import (
	"encoding/json"
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"
)

// situation is what is set beside the properties while Kafka is described.
type situation struct {
	Name          string
	Kafka         string // which -record it is for, where several are recorded
	Properties    string `json:",omitempty"` // filled in when recorded
	Cluster       map[string]string
	Node          map[string]string
	Topic         map[string]string
	Group         map[string]string
	ClientMetrics map[string]string
	Answers       struct{ Topic, Broker, Cluster, Group, ClientMetrics []Entry }
}

var situations = []situation{
	{Name: "plain"},
	{
		Name: "set",
		Cluster: map[string]string{
			"log.retention.ms": "3600000", "log.cleanup.policy": "compact, delete", "num.io.threads": "9", "log.flush.interval.ms": "70000",
			"group.consumer.assignment.interval.ms": "1500", "message.max.bytes": " 2000000", "own.plugin.key": "x",
		},
		Node: map[string]string{
			"log.retention.ms": "7200000", "log.roll.ms": "900000", "follower.replication.throttled.rate": "100000",
			"max.connections.per.ip": "100", "listener.name.plaintext.ssl.keystore.type": "PEM", "compression.type": "zstd",
		},
		Topic: map[string]string{
			"cleanup.policy": "delete", "retention.ms": "604800000", "segment.ms": " 1000000 ", "min.cleanable.dirty.ratio": "0.25",
			"leader.replication.throttled.replicas": "0:1,1:1", "preallocate": "TRUE", "compression.type": "gzip",
		},
		Group:         map[string]string{"consumer.session.timeout.ms": "50000", "share.auto.offset.reset": "earliest"},
		ClientMetrics: map[string]string{"interval.ms": "60000", "metrics": "org.apache.kafka.producer.", "match": "client_id=a"},
	},
	{Name: "static", Kafka: "static"},
	{
		Name: "static-set", Kafka: "static",
		Cluster: map[string]string{"log.roll.ms": "8000000"},
		Node:    map[string]string{"listener.name.plaintext.ssl.keystore.password": "secret"},
		Topic:   map[string]string{"retention.ms": "-1", "retention.bytes": "-1"},
		Group:   map[string]string{"errors.deadletterqueue.topic.name": "dlq.x", "streams.num.standby.replicas": "1"},
	},
}

// TestRule27And28DescribeAnswersAsKafka compares what Apache Kafka 4.4 answered, key by key, with what we would. To record:
// go test ./internal/config -run Rule27 -record HOST:PORT -properties FILE.
func TestRule27And28DescribeAnswersAsKafka(t *testing.T) {
	for _, s := range situations {
		t.Run(s.Name, func(t *testing.T) {
			if *record != "" && s.Kafka == *recordOf {
				recordSituation(t, s)
			}
			readJSON(t, "describe-"+s.Name+".json", &s)
			b, _, err := Parse(s.Properties, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			// A new cluster of 4.4 has eligible leader replicas on, and with them this setting for all brokers.
			d := Dynamic{Cluster: map[string]string{"min.insync.replicas": strconv.Itoa(b.Int("min.insync.replicas"))}, Node: s.Node}
			maps.Copy(d.Cluster, s.Cluster)
			compareEntries(t, "topic", b.DescribeTopic(d, s.Topic), s.Answers.Topic)
			compareEntries(t, "broker", b.DescribeBroker(d), s.Answers.Broker)
			compareEntries(t, "cluster", b.DescribeCluster(d), s.Answers.Cluster)
			compareEntries(t, "group", b.DescribeGroup(d, s.Group), s.Answers.Group)
			compareEntries(t, "client metrics", DescribeClientMetrics(s.ClientMetrics), s.Answers.ClientMetrics)
		})
	}
}

func recordSituation(t *testing.T, s situation) {
	c := dialKafka(t)
	text, err := os.ReadFile(*properties)
	if err != nil {
		t.Fatal(err)
	}
	s.Properties = string(text)
	c.createTopic("described")
	resources := []struct {
		kind     kind
		name     string
		settings map[string]string
		answer   *[]Entry
	}{
		{brokerKind, "", s.Cluster, &s.Answers.Cluster},
		{brokerKind, "1", s.Node, &s.Answers.Broker},
		{topicKind, "described", s.Topic, &s.Answers.Topic},
		{groupKind, "described", s.Group, &s.Answers.Group},
		{clientMetricsKind, "described", s.ClientMetrics, &s.Answers.ClientMetrics},
	}
	for _, r := range resources {
		c.set(r.kind, r.name, r.settings)
		defer c.unset(r.kind, r.name, r.settings)
	}
	c.awaitSettled()
	for _, r := range resources {
		*r.answer = c.describe(r.kind, r.name)
	}
	writeJSON(t, "describe-"+s.Name+".json", s)
}

// awaitSettled returns when the broker has seen all changes: a change made last, of another group, is shown.
func (c *kafkaClient) awaitSettled() {
	c.t.Helper()
	marker := map[string]string{"consumer.session.timeout.ms": "46000"}
	c.set(groupKind, "marker", marker)
	for shown := false; !shown; {
		for _, e := range c.describe(groupKind, "marker") {
			shown = shown || e.Name == "consumer.session.timeout.ms" && *e.Value == "46000"
		}
	}
	c.unset(groupKind, "marker", marker)
}

func compareEntries(t *testing.T, what string, got, want []Entry) {
	t.Helper()
	byName := func(entries []Entry) map[string]Entry {
		m := map[string]Entry{}
		for _, e := range entries {
			e.Doc = ""
			m[e.Name] = e
		}
		return m
	}
	g, w := byName(got), byName(want)
	for _, e := range want {
		ours, ok := g[e.Name]
		switch {
		case !ok:
			t.Errorf("%s: %s is missing; Kafka has %s", what, e.Name, entryText(e))
		case entryText(ours) != entryText(e):
			t.Errorf("%s: %s differs:\n ours  %s\n Kafka %s", what, e.Name, entryText(ours), entryText(e))
		}
	}
	for _, e := range got {
		if _, ok := w[e.Name]; !ok && !strings.HasPrefix(e.Name, "raftsman.") {
			t.Errorf("%s: %s is ours alone: %s", what, e.Name, entryText(e))
		}
	}
}

func entryText(e Entry) string {
	e.Doc = ""
	text, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return string(text)
}
