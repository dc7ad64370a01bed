package main

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/raftsman/raftsman/broker"
	"github.com/raftsman/raftsman/brokertest"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// healthOf asks for the health of a cluster as JSON; a code that does not go with what is printed fails the test.
func healthOf(t *testing.T, bootstrap string) healthView {
	t.Helper()
	s := newLiveSession(bootstrap)
	code := s.run("cluster", "health", "-o", "json")
	var v healthView
	if err := json.Unmarshal([]byte(s.out.String()), &v); err != nil {
		t.Fatalf("%v: ends with %d, prints %q and says %q", err, code, s.out.String(), s.err.String())
	}
	want, status := exitOK, "ok"
	if len(v.Problems) > 0 {
		want, status = exitFailure, "degraded"
	}
	if code != want || v.Status != status || s.err.String() != "" {
		t.Fatalf("ends with %d and says %q, of %+v", code, s.err.String(), v)
	}
	return v
}

// problem returns what is told of the first problem of a kind, "" if there is none.
func (v *healthView) problem(kind string) string {
	for _, p := range v.Problems {
		if p.Kind == kind {
			return p.What
		}
	}
	return ""
}

// TestHealthOfABrokerWhoseLogDirectoryFails: the directory, and each of its partitions, which have no leader any more.
func TestHealthOfABrokerWhoseLogDirectoryFails(t *testing.T) {
	disk := faultfs.Inject(vfs.NewMemory())
	node, err := broker.Start(t.Context(), broker.Config{FS: disk, Properties: map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": "/a,/b"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = node.Close(t.Context()) }()
	bootstrap := node.Addrs()[0].String()
	const partitions = 4
	must(t, bootstrap, "", "topic", "create", "orders", "-p", fmt.Sprint(partitions))
	if v := healthOf(t, bootstrap); v.Status != "ok" {
		t.Fatalf("before: %+v", v)
	}
	disk.Add(faultfs.Rule{Op: faultfs.OpAnySync, Name: "/b", Times: -1, Err: syscall.EIO})
	failed := 0
	for p := range partitions {
		if s := newLiveSession(bootstrap); s.run("produce", "orders", "-p", fmt.Sprint(p), "lost", "--timeout", "3s") != exitOK {
			failed++
		}
	}
	if failed == 0 {
		t.Fatal("no partition is in /b")
	}
	var v healthView
	eventually(t, "the metadata to say what is offline", func() bool {
		v = healthOf(t, bootstrap)
		return len(v.Problems) == failed+1
	})
	if what := v.problem(logDirOffline); what != "broker 1: log directory /b is offline: the broker's log says why" {
		t.Errorf("of the directory it tells %q in %+v", what, v)
	}
	if what := v.problem(offlinePartition); !strings.HasPrefix(what, "orders partition ") || !strings.HasSuffix(what, " has no leader: its replicas are on brokers 1") {
		t.Errorf("of a partition it tells %q in %+v", what, v)
	}
	if last := v.Problems[failed]; last.Kind != logDirOffline {
		t.Errorf("%+v comes after what stops clients", v.Problems)
	}
	s := newLiveSession(bootstrap)
	if code := s.run("cluster", "health"); code != exitFailure || !strings.HasPrefix(s.out.String(), fmt.Sprintf("degraded: %d problems (cluster ", failed+1)) ||
		!strings.Contains(s.out.String(), logDirOffline) || s.err.String() != "" {
		t.Errorf("ends with %d, prints %q and says %q", code, s.out.String(), s.err.String())
	}
}

func TestHealthOfABrokerWithNothingButItsReserve(t *testing.T) {
	dir := t.TempDir()
	bootstrap := brokertest.Start(t, brokertest.Dir(dir), brokertest.Property("raftsman.log.dir.reserve.bytes", fmt.Sprint(int64(1)<<60))).Addr()
	var v healthView
	eventually(t, "the broker to see how little is free", func() bool { v = healthOf(t, bootstrap); return v.problem(diskReserve) != "" })
	if what := v.problem(diskReserve); !strings.HasPrefix(what, "broker 1: log directory "+dir+" has only its reserve left (") || !strings.Contains(what, "produces are refused") {
		t.Errorf("it tells %q in %+v", what, v)
	}
}

func TestHealthOfAClusterThatIsWell(t *testing.T) {
	bootstrap := startBroker(t)
	topicFor(t, bootstrap, 3)
	v := healthOf(t, bootstrap)
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
