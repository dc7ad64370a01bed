package main

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestParseFrom(t *testing.T) {
	for text, want := range map[string]startingPoint{
		"start": {kind: fromStart}, "end": {kind: fromEnd}, "earliest": {kind: fromStart}, "latest": {kind: fromEnd},
		"0": {kind: fromOffset}, "4711": {kind: fromOffset, offset: 4711}, "-10": {kind: fromLast, offset: 10},
	} {
		if got, err := parseFrom(text); err != nil || got != want {
			t.Errorf("parseFrom(%q) = %+v, %v, want %+v", text, got, err, want)
		}
	}
	if _, err := parseFrom("middle"); err == nil {
		t.Error("--from middle was taken")
	}
}

func TestParseTopicPartitions(t *testing.T) {
	got, err := parseTopicPartitions([]string{"a", "b:0,3"})
	if want := map[string][]int32{"a": nil, "b": {0, 3}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, text := range []string{"", ":1", "a:", "a:x", "a:-1"} {
		if got, err := parseTopicPartitions([]string{text}); err == nil {
			t.Errorf("%q gave %v, want an error", text, got)
		}
	}
}

func TestParsePairs(t *testing.T) {
	got, err := parsePairs([]string{"a=1", "b=", "c=x=y"}, "-c")
	if err != nil || *got["a"] != "1" || *got["b"] != "" || *got["c"] != "x=y" {
		t.Errorf("got %v, %v", got, err)
	}
	for _, pairs := range [][]string{{"a"}, {"=1"}, {"a=1", "a=2"}} {
		if _, err := parsePairs(pairs, "-c"); err == nil {
			t.Errorf("%q was taken", pairs)
		}
	}
}

func TestParseResource(t *testing.T) {
	for _, c := range []struct {
		kind, name string
		want       configResource
		text       string
	}{
		{"topic", "orders", configResource{kmsg.ConfigResourceTypeTopic, "orders"}, "topic orders"},
		{"broker", "1", configResource{kmsg.ConfigResourceTypeBroker, "1"}, "broker 1"},
		{"broker", "default", configResource{kmsg.ConfigResourceTypeBroker, ""}, "brokers"},
		{"group", "g", configResource{kmsg.ConfigResourceTypeGroupConfig, "g"}, "group g"},
		{"client-metrics", "m", configResource{kmsg.ConfigResourceTypeClientMetrics, "m"}, "client-metrics m"},
	} {
		if got, err := parseResource(c.kind, c.name); err != nil || got != c.want || got.String() != c.text {
			t.Errorf("%s %s gave %v, %v, want %v", c.kind, c.name, got, err, c.want)
		}
	}
	for _, c := range [][2]string{{"broker", "x"}, {"broker", "-1"}, {"topic", ""}, {"user", "u"}} {
		if got, err := parseResource(c[0], c[1]); err == nil {
			t.Errorf("%v gave %v, want an error", c, got)
		}
	}
}

func TestResetTargets(t *testing.T) {
	m := movedOffset{From: 50, Start: 10, End: 100}
	fresh := movedOffset{From: unknown, Start: 10, End: 100}
	for _, c := range []struct {
		name   string
		target resetTarget
		m      movedOffset
		atTime int64
		want   int64
	}{
		{"earliest", resetTarget{kind: resetEarliest}, m, unknown, 10},
		{"latest", resetTarget{kind: resetLatest}, m, unknown, 100},
		{"current", resetTarget{kind: resetCurrent}, m, unknown, 50},
		{"current without a commit", resetTarget{kind: resetCurrent}, fresh, unknown, 10},
		{"offset", resetTarget{kind: resetOffset, offset: 7}, m, unknown, 7},
		{"shift back", resetTarget{kind: resetShift, offset: -60}, m, unknown, -10},
		{"shift without a commit", resetTarget{kind: resetShift, offset: 5}, fresh, unknown, 15},
		{"time", resetTarget{kind: resetTime, time: testNow}, m, 33, 33},
		{"time after the last record", resetTarget{kind: resetTime, time: testNow}, m, unknown, 100},
	} {
		if got := c.target.apply(c.m, c.atTime); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"retention.ms", "retention.bytes", "cleanup.policy"}
	for typed, want := range map[string]string{"retenton.ms": "retention.ms", "cleanup.plicy": "cleanup.policy", "zebra": "", "": ""} {
		if got := nearest(typed, names); got != want {
			t.Errorf("nearest(%q) = %q, want %q", typed, got, want)
		}
	}
}

func TestSeeds(t *testing.T) {
	for text, want := range map[string]string{
		"localhost": "localhost:9092", "a:1, b:2,": "a:1 b:2", "::1": "[::1]:9092", "[::1]:19092": "[::1]:19092", "[::1]": "[::1]:9092",
	} {
		got, err := seeds(text)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("-b %q gave %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", ",", "a:0", "a:x", "a:99999"} {
		var usage *usageError
		if got, err := seeds(text); !errors.As(err, &usage) {
			t.Errorf("-b %q gave %v, %v, want a usage error", text, got, err)
		}
	}
}

func TestSoftwareVersionIsFitForApiVersions(t *testing.T) {
	for in, want := range map[string]string{
		"v1.2.3": "v1.2.3", "v0.0.0-20261129+dirty": "v0.0.0-20261129-dirty", "(devel)": "devel", "devel": "devel",
	} {
		if got := softwareVersion(in); got != want {
			t.Errorf("softwareVersion(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestLinesAreReadWhole(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	read := lineReader(strings.NewReader("a\n\nb\r\n"+long+"\nlast"), 200_000)
	for _, want := range []string{"a", "", "b", long, "last"} {
		got, err := read()
		if err != nil || string(got) != want || got == nil {
			t.Fatalf("got %.20q, %v, want %.20q", got, err, want)
		}
	}
	if line, err := read(); err == nil {
		t.Errorf("after the last line came %q", line)
	}
}

func TestLineBeyondTheLimitIsRefused(t *testing.T) {
	read := lineReader(strings.NewReader(strings.Repeat("x", 5000)), 4096)
	var long *longLineError
	if _, err := read(); !errors.As(err, &long) {
		t.Errorf("got %v, want a longLineError", err)
	}
	whole := wholeReader(strings.NewReader(strings.Repeat("x", 5000)), 4096)
	if _, err := whole(); err == nil {
		t.Error("5000 bytes were taken with a limit of 4096")
	}
}

func TestRecordsFromLines(t *testing.T) {
	o := produceOptions{separator: ":", hasNull: true, null: "NULL"}
	s := &recordSource{o: o, name: "input", line: 3}
	r, err := s.record([]byte("k:v:w"))
	if err != nil || string(r.Key) != "k" || string(r.Value) != "v:w" {
		t.Errorf("got %+v, %v", r, err)
	}
	if r, err = s.record([]byte("k:NULL")); err != nil || r.Value != nil {
		t.Errorf("got %+v, %v, want a null value", r, err)
	}
	if r, err = s.record([]byte(":")); err != nil || r.Key == nil || r.Value == nil {
		t.Errorf("got %+v, %v, want empty key and value, not null", r, err)
	}
	if _, err = s.record([]byte("no separator")); err == nil || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("got %v, want an error that names line 3", err)
	}
	s.o = produceOptions{json: true}
	if _, err = s.record([]byte("{")); err == nil {
		t.Error("broken JSON was taken")
	}
}

func TestProduceReport(t *testing.T) {
	r := produceReport{Topic: "t", Records: 3, Acknowledged: 3, Bytes: 12, Seconds: 0.25, Acks: "all", Partitions: []producedPartition{{0, 1, 5, 5}, {2, 2, 0, 1}}}
	for _, c := range []struct {
		change func(*produceReport)
		want   string
	}{
		{func(*produceReport) {}, "3 records acknowledged, 12 B in 250ms; by partition 0: 1, 2: 2"},
		{func(r *produceReport) { r.Records = 9 }, "3 of 9 records acknowledged, 12 B in 250ms; by partition 0: 1, 2: 2"},
		{func(r *produceReport) { r.Acks = "0" }, "3 records sent, nobody acknowledges with --acks 0, 12 B in 250ms; by partition 0: 1, 2: 2"},
		{func(r *produceReport) { r.Records, r.Acknowledged, r.Partitions = 1, 1, r.Partitions[:1] }, "1 record acknowledged: t partition 0, offset 5"},
		{func(r *produceReport) { r.Records, r.Acknowledged, r.Partitions = 0, 0, nil }, "0 records acknowledged"},
		{func(r *produceReport) { r.Records, r.Acknowledged, r.Seconds, r.Bytes = 5000, 5000, 2, 4<<20 }, "5,000 records acknowledged, 4.0 MiB in 2s (2,500 records/s, 2.0 MiB/s); by partition 0: 1, 2: 2"},
		{func(r *produceReport) { r.Partitions = make([]producedPartition, 9) }, "3 records acknowledged, 12 B in 250ms, in 9 partitions"},
	} {
		changed := r
		c.change(&changed)
		if got := changed.String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestRateLine(t *testing.T) {
	if got, want := rateLine("read", 4000, 8<<20, 2*time.Second), "4,000 records read, 8.0 MiB, 2,000 records/s, 4.0 MiB/s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
