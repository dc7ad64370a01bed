package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/brokertest"
)

func conditionedTopic() topicView {
	v := topicView{
		Topic: "accounts", ReplicationFactor: 1, Configs: map[string]string{"cleanup.policy": "compact"},
		Partitions: []partitionView{
			{
				Partition: 0, Leader: 1, Replicas: []int32{1}, ISR: []int32{1}, EndOffset: 120_000, Records: 120_000, Bytes: 12_000_000,
				Compaction: &compactionView{CleanedOffset: 98_000, DirtyBytes: 1 << 20, DirtyRatio: 0.25, LastCleaned: "2026-01-02T15:04:05.000Z"},
			},
			{
				Partition: 1, Leader: 1, Replicas: []int32{1}, ISR: []int32{1}, EndOffset: 10, Records: 10, Bytes: 1000,
				Compaction: &compactionView{CleanedOffset: -1, OverdueMs: 61_000},
			},
			{
				Partition: 2, Leader: 1, Replicas: []int32{1}, ISR: []int32{1}, EndOffset: 10, Records: 10, Bytes: 900,
				Uncleanable: "/data/accounts-2/00000000000000000000.log is no log of keys",
			},
			{
				Partition: 3, Leader: 1, Replicas: []int32{1}, ISR: []int32{1}, StartOffset: unknown, EndOffset: unknown, Records: unknown, Bytes: 0,
				Damage: &damageView{File: "/data/accounts-3/00000000000000000000.log", Byte: 61, Reason: "crc", Remedy: "take it from a backup"},
			},
		},
		FullDirs: []dirCondition{{Broker: 1, Path: "/data", UsableBytes: 1 << 20, ReserveBytes: 256 << 20}},
	}
	v.total()
	return v
}

func TestTopicDescribeShowsConditions(t *testing.T) {
	v := conditionedTopic()
	golden(t, "topic_describe_conditions", rendered(t, func(a *app) error {
		if a.json() {
			return a.writeJSON([]topicView{v})
		}
		return v.write(a.out, a.paint(), 0)
	}))
}

// A topic that is compacted, and then damaged: what the broker knows of it comes out of `topic describe`, and of `cluster health`.
func TestTopicDescribeShowsWhatTheBrokerKnows(t *testing.T) {
	dir := t.TempDir()
	start := func(enable string) (*brokertest.Broker, string) {
		b := brokertest.Start(t, brokertest.Dir(dir), brokertest.Property("log.cleaner.backoff.ms", "10"), brokertest.Property("log.cleaner.enable", enable),
			brokertest.Property("raftsman.log.scrub.bytes.per.second", "0")) // the cleaner is to meet the damage
		return b, b.Addr()
	}
	describe := func(bootstrap string) partitionView {
		t.Helper()
		var views []topicView
		text := must(t, bootstrap, "", "topic", "describe", "accounts", "-o", "json")
		if err := json.Unmarshal([]byte(text), &views); err != nil || len(views) != 1 || len(views[0].Partitions) != 1 {
			t.Fatalf("%v: %s", err, text)
		}
		return views[0].Partitions[0]
	}
	write := func(bootstrap string) {
		t.Helper()
		var lines bytes.Buffer
		for i := range 3000 {
			fmt.Fprintf(&lines, "k%d\t%s\n", i%7, strings.Repeat(fmt.Sprint(i%10), 1000))
		}
		must(t, bootstrap, lines.String(), "produce", "accounts", "--key-separator", "\t", "--compression", "none")
	}
	b, bootstrap := start("true")
	must(t, bootstrap, "", "topic", "create", "accounts", "-p", "1",
		"-c", "cleanup.policy=compact", "-c", "segment.bytes=1048576", "-c", "min.cleanable.dirty.ratio=0.1")
	write(bootstrap)
	eventually(t, "the last cleaning", func() bool { // there may be one as soon as the first segment is rolled, too
		is := describe(bootstrap).Compaction
		return is.CleanedOffset > 0 && is.LastCleaned != "" && is.DirtyRatio < 0.5
	})
	if is := describe(bootstrap); is.Damage != nil || is.Uncleanable != "" {
		t.Errorf("after a cleaning: %+v, %+v", is, is.Compaction)
	}
	if text := must(t, bootstrap, "", "topic", "describe", "accounts"); !strings.Contains(text, "LAST CLEANED") {
		t.Errorf("no table of compaction in\n%s", text)
	}
	b.Close()

	b, bootstrap = start("false")
	write(bootstrap)
	b.Close()
	logs, err := filepath.Glob(filepath.Join(dir, "accounts-0", "*.log"))
	if err != nil || len(logs) < 3 {
		t.Fatalf("%d segments, %v", len(logs), err)
	}
	content, err := os.ReadFile(logs[len(logs)-3])
	if err != nil {
		t.Fatal(err)
	}
	content[100] ^= 1
	if err := os.WriteFile(logs[len(logs)-3], content, 0o600); err != nil {
		t.Fatal(err)
	}

	_, bootstrap = start("true")
	var is partitionView
	eventually(t, "the damage to be met by the cleaner", func() bool {
		is = describe(bootstrap)
		return is.Damage != nil && is.Uncleanable != ""
	})
	if is.Damage.File != logs[len(logs)-3] || !strings.Contains(is.Damage.Reason, "crc") || is.Damage.Remedy == "" || !strings.Contains(is.Uncleanable, "crc") {
		t.Errorf("the broker tells %+v and uncleanable %q", is.Damage, is.Uncleanable)
	}
	text := must(t, bootstrap, "", "topic", "describe", "accounts")
	for _, want := range []string{"◀ damaged", "is damaged: file " + logs[len(logs)-3] + ", byte 0", "remedy: take the partition", "is uncleanable: "} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	health := healthOf(t, bootstrap)
	if what, want := health.problem(damagedPartition), "broker 1: accounts partition 0 is damaged in "+is.Damage.File+": "+is.Damage.Remedy; what != want {
		t.Errorf("health tells %q, want %q", what, want)
	}
}
