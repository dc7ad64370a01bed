package main

import (
	"encoding/json"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

func TestHealthOfAClusterThatIsWell(t *testing.T) {
	bootstrap := startBroker(t)
	topicFor(t, bootstrap, 3)
	var v healthView
	if err := json.Unmarshal([]byte(must(t, bootstrap, "", "cluster", "health", "-o", "json")), &v); err != nil {
		t.Fatal(err)
	}
	if v.Status != "ok" || v.Brokers != 1 || v.Partitions < 3 || v.Controller < 0 {
		t.Errorf("got %+v", v)
	}
	if text := must(t, bootstrap, "", "cluster", "health"); !strings.HasPrefix(text, "ok (cluster ") {
		t.Errorf("printed %q", text)
	}
}

func TestHealthOfAClusterThatIsNotThereEndsWithTwo(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	s := newLiveSession(address)
	if code := s.run("cluster", "health"); code != exitUnreachable || !strings.Contains(s.err.String(), "nothing listens at "+address) {
		t.Errorf("ends with %d and says %q", code, s.err.String())
	}
}

func TestHealthTellsWhatIsWrongWithAPartition(t *testing.T) {
	var v healthView
	for _, p := range []struct {
		leader        int32
		isr, replicas int
		minISR        int
	}{{-1, 0, 3, 2}, {1, 1, 3, 2}, {1, 2, 3, 2}, {1, 3, 3, 2}, {1, 1, 1, 2}, {1, 1, 1, 0}} {
		v.judge(kadm.PartitionDetail{Topic: "t", Leader: p.leader, ISR: make([]int32, p.isr), Replicas: make([]int32, p.replicas)}, p.minISR)
	}
	var kinds []string
	slices.SortStableFunc(v.Problems, severest)
	for _, p := range v.Problems {
		kinds = append(kinds, p.Kind)
	}
	if want := []string{offlinePartition, underMinISR, underReplicated}; !slices.Equal(kinds, want) {
		t.Errorf("got %v, want %v", kinds, want)
	}
}
