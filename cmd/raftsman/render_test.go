package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// rendered returns what a rendering prints as a table and as JSON.
func rendered(t *testing.T, render func(*app) error) string {
	t.Helper()
	var all strings.Builder
	for _, form := range []string{"table", "json"} {
		s := newSession()
		s.app.output = form
		if err := render(s.app); err != nil {
			t.Fatal(err)
		}
		all.WriteString("-- " + form + "\n" + s.out.String())
		if s.err.String() != "" {
			all.WriteString("-- " + form + ", standard error\n" + s.err.String())
		}
	}
	return all.String()
}

func skewedTopic() topicView {
	v := topicView{
		Topic: "orders", ID: "Gm6XQthqQsyHBG8FRJ02sg", ReplicationFactor: 2, Configs: map[string]string{"retention.ms": "86400000", "cleanup.policy": "delete"},
		Partitions: []partitionView{
			{Partition: 0, Leader: 1, Epoch: 3, Replicas: []int32{1, 2}, ISR: []int32{1, 2}, StartOffset: 0, EndOffset: 120, Records: 120, Bytes: 12_000},
			{Partition: 1, Leader: 2, Epoch: 0, Replicas: []int32{2, 1}, ISR: []int32{2}, StartOffset: 1000, EndOffset: 1_203_400, Records: 1_202_400, Bytes: 1 << 30},
			{Partition: 2, Leader: 1, Epoch: 7, Replicas: []int32{1, 2}, ISR: []int32{1, 2}, StartOffset: 0, EndOffset: 0, Records: 0, Bytes: 0},
		},
	}
	v.total()
	return v
}

func TestTopicDescribeMarksTheSkewedPartition(t *testing.T) {
	v := skewedTopic()
	golden(t, "topic_describe_skewed", rendered(t, func(a *app) error {
		if a.json() {
			return a.writeJSON([]topicView{v})
		}
		return v.write(a.out, a.paint(), 0)
	}))
}

func TestTopicDescribeWithUnknownsAndNoLeader(t *testing.T) {
	v := topicView{Topic: "t", ReplicationFactor: 1, Partitions: []partitionView{
		{Partition: 0, Leader: -1, Epoch: 2, Replicas: []int32{2}, ISR: []int32{}, StartOffset: unknown, EndOffset: unknown, Records: unknown, Bytes: unknown},
		{Partition: 1, Leader: 1, Epoch: 0, Replicas: []int32{1}, ISR: []int32{1}, StartOffset: 0, EndOffset: 10, Records: 10, Bytes: unknown},
	}}
	v.total()
	golden(t, "topic_describe_offline", rendered(t, func(a *app) error {
		if a.json() {
			return a.writeJSON([]topicView{v})
		}
		return v.write(a.out, a.paint(), 0)
	}))
}

func TestTopicDescribeTellsOfOpenTransactions(t *testing.T) {
	open := oldestOpen(kadm.DescribedProducers{
		3: {ProducerID: 3, CurrentTxnStartOffset: -1}, 7: {ProducerID: 7, CurrentTxnStartOffset: 40, LastTimestamp: 1_700_000_000_000},
		8: {ProducerID: 8, CurrentTxnStartOffset: 41},
	})
	v := topicView{Topic: "t", Partitions: []partitionView{{Partition: 0}, {Partition: 1, OpenTransaction: open}}}
	want := "! partition 1 has a transaction open since offset 40 (producer 7, its last record is of 2023-11-14T22:13:20.000Z): readers of committed " +
		"records wait there until it ends"
	if got := v.hints(paint{}); len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTopicDescribeColoursOnATerminal(t *testing.T) {
	v := skewedTopic()
	var b strings.Builder
	if err := v.write(&b, paint{on: true}, 120); err != nil {
		t.Fatal(err)
	}
	golden(t, "topic_describe_colours", b.String())
}

func TestKeySampleNamesTheDominantKey(t *testing.T) {
	c := keyCounter{}
	for range 970 {
		c.add([]byte("eu"))
	}
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "f", ""} {
		c.add([]byte(key))
	}
	c.add(nil)
	want := `keys of the newest 979 records of partition 4: key "eu" 99.1%, key "f" 0.2%, no key 0.1%, key "" 0.1%, key "a" 0.1%, others 0.4%`
	if got := c.sample(4).text(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTopicListForms(t *testing.T) {
	golden(t, "topic_list", rendered(t, func(a *app) error {
		return a.writeTopics([]topicSummary{
			{Topic: "orders", ID: "Gm6XQthqQsyHBG8FRJ02sg", Partitions: 3, ReplicationFactor: 2, Records: 1_202_520, Bytes: 1 << 30, UnderReplicated: 1},
			{Topic: "payments", Partitions: 12, ReplicationFactor: 3, Records: unknown, Bytes: unknown, Offline: 2, UnderReplicated: 1},
			{Topic: "small", Partitions: 1, ReplicationFactor: 1, Records: 0, Bytes: 0},
		})
	}))
	golden(t, "topic_list_empty", rendered(t, func(a *app) error { return a.writeTopics([]topicSummary{}) }))
}

func TestTopicCreateTellsEachResult(t *testing.T) {
	results := []kadm.CreateTopicResponse{
		{Topic: "made", NumPartitions: 3, ReplicationFactor: 1, ID: kadm.TopicID{1}},
		{Topic: "there", Err: kerr.TopicAlreadyExists, ErrMessage: "Topic 'there' already exists."},
		{Topic: "wide", Err: kerr.InvalidReplicationFactor},
	}
	golden(t, "topic_create", rendered(t, func(a *app) error {
		err := a.writeCreated(results, true, false)
		for _, line := range a.tell(err) {
			a.note("%s", line)
		}
		return nil
	}))
}

func TestGroupForms(t *testing.T) {
	hour, zero := int64(3_725_000), int64(0)
	v := groupView{
		Group: "billing", State: "Stable", Type: "classic", Assignor: "range", Coordinator: 1, Lag: 1042,
		Members: []memberView{{MemberID: "m-1", ClientID: "app", Host: "/10.0.0.7", Partitions: 2}, {MemberID: "m-2", InstanceID: "static-2", ClientID: "app", Host: "/10.0.0.8"}},
		Partitions: []lagView{
			{Topic: "orders", Partition: 0, Committed: 958, Start: 0, End: 2000, Lag: 1042, LagMs: &hour, MemberID: "m-1", Member: "app@10.0.0.7"},
			{Topic: "orders", Partition: 1, Committed: 2000, Start: 0, End: 2000, Lag: 0, LagMs: &zero, MemberID: "m-1", Member: "app@10.0.0.7"},
			{Topic: "orders", Partition: 2, Committed: unknown, Start: 0, End: 5, Lag: unknown},
		},
	}
	golden(t, "group_describe", rendered(t, func(a *app) error { return a.writeGroupViews([]groupView{v}) }))
	golden(t, "group_list", rendered(t, func(a *app) error {
		return a.writeGroups([]groupSummary{
			{Group: "billing", State: "Stable", Type: "classic", ProtocolType: "consumer", Coordinator: 1},
			{Group: "old", State: "Empty", Type: "consumer", ProtocolType: "consumer", Coordinator: 2},
		}, nil)
	}))
	golden(t, "group_reset", rendered(t, func(a *app) error {
		return a.writeMoves("billing", []movedOffset{
			{Topic: "orders", Partition: 0, From: 958, To: 0, Start: 0, End: 2000, Lag: 2000},
			{Topic: "orders", Partition: 1, From: unknown, To: 2000, Start: 0, End: 2000, Lag: 0},
			{Topic: "orders", Partition: 2, From: 5, To: 7, Start: 0, End: 7, Lag: 0},
		}, false)
	}))
}

func TestConfigForms(t *testing.T) {
	text := func(s string) *string { return &s }
	settings := []setting{
		{Key: "cleanup.policy", Value: text("compact"), Source: "topic", Default: text("delete"), Changed: true, Type: "list", Doc: "What happens to old records."},
		{Key: "follower.replication.throttled.replicas", Value: text(""), Source: "default", Default: text("")},
		{Key: "ssl.key", Source: "server.properties", Sensitive: true, ReadOnly: true},
	}
	resource := configResource{kmsg.ConfigResourceTypeBroker, "1"}
	golden(t, "config_get", rendered(t, func(a *app) error { return a.writeSettings(resource, settings, false) }))
	golden(t, "config_get_doc", rendered(t, func(a *app) error { return a.writeSettings(resource, settings[:2], true) }))
	golden(t, "config_set", rendered(t, func(a *app) error {
		return a.writeChanges(configResource{kmsg.ConfigResourceTypeTopic, "orders"},
			[]changedSetting{{"retention.ms", text("1"), text("2")}, {"cleanup.policy", nil, text("compact")}, {"segment.ms", text("7"), nil}}, true)
	}))
}

func TestClusterForms(t *testing.T) {
	v := clusterView{
		ClusterID: "AVabtxXuRI2WdH4sUheEng", Controller: 1,
		Brokers: []brokerView{
			{ID: 1, Host: "10.0.0.1", Port: 9092, Rack: "a", Listeners: []string{"PLAINTEXT://10.0.0.1:9092"}, LogDirs: []dirView{
				{Path: "/data/1", Partitions: 53, Bytes: 7 << 30, TotalBytes: 100 << 30, UsableBytes: 5 << 30},
				{Path: "/data/2", TotalBytes: unknown, UsableBytes: unknown, Error: "directory: disk failed (KAFKA_STORAGE_ERROR)"},
			}},
			{ID: 2, Host: "10.0.0.2", Port: 9092, Listeners: []string{}, LogDirs: []dirView{}},
		},
		Quorum:   &quorumView{Leader: 1, Epoch: 4, HighWatermark: 1741, Voters: []voterView{{ID: 1, EndOffset: 1741, Directory: "Gm6XQthqQsyHBG8FRJ02sg"}}},
		Features: []featureView{{Name: "metadata.version", Finalized: 33, Min: 7, Max: 33}},
	}
	golden(t, "cluster_describe", rendered(t, func(a *app) error {
		if a.json() {
			return a.writeJSON(v)
		}
		return v.write(a)
	}))
	golden(t, "cluster_api_versions", rendered(t, func(a *app) error {
		return a.writeVersions([]apiRange{{Key: 0, Name: "Produce", Min: 3, Max: 13}, {Key: 74, Name: "ListConfigResources", Min: 0, Max: 1, Missing: []int32{2, 3}}})
	}))
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	a := newSession().app
	for _, c := range []struct {
		err  error
		want string
	}{
		{refused("create topic x", kerr.TopicAlreadyExists, "Topic 'x' already exists."), "create topic x: Topic 'x' already exists (TOPIC_ALREADY_EXISTS): --if-not-exists takes it as it is"},
		{refused("delete group g", kerr.NonEmptyGroup, ""), "delete group g: The group is not empty (NON_EMPTY_GROUP): stop the group's members first, `raftsman group describe` names them"},
		{errors.New("several\nlines \x1b[31m"), `several lines \x1b[31m`},
		{errReported, ""},
	} {
		if got := a.explain(c.err); got != c.want {
			t.Errorf("explain(%v) = %q, want %q", c.err, got, c.want)
		}
	}
	lines := a.tell(failures{errors.New("one"), errors.New("two")})
	if len(lines) != 2 || lines[0] != "one" || lines[1] != "two" {
		t.Errorf("two failures were told as %q", lines)
	}
}
