package test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// memory returns a value of /proc/PID/status in bytes: VmRSS is what is resident now, VmHWM the most that ever was.
func (p *process) memory(name string) int64 {
	p.t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, name+": %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	p.t.Fatalf("no %s in /proc/PID/status", name)
	return 0
}

// resetPeak makes VmHWM begin again at what is resident now.
func (p *process) resetPeak() {
	p.t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.command.Process.Pid), []byte("5"), 0); err != nil {
		p.t.Fatal(err)
	}
}

func createRequest(topic string, partitions int32, replicas int16) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 5, 10_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, partitions, replicas
	req.Topics = append(req.Topics, t)
	return req
}

// TestStartAndIdleCost prints what a start on an empty directory takes until a first record is acknowledged, and the memory of a
// broker that has nothing to do. The bounds only catch what is badly wrong: `make bench` measures.
func TestStartAndIdleCost(t *testing.T) {
	best := time.Hour
	var p *process
	for n := range 5 {
		port := freePort(t)
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		began := time.Now()
		p = launchBroker(t, filepath.Join(t.TempDir(), fmt.Sprint(n)), port)
		for {
			conn, err := net.Dial("tcp", addr)
			if err == nil {
				_ = conn.Close()
				break
			}
			if time.Since(began) > atLast {
				t.Fatalf("nobody listens: %v\n%s", err, p.log.tail(10))
			}
		}
		listens := time.Since(began)
		c := dialRaw(t, addr)
		if code := ask[*kmsg.CreateTopicsResponse](c, createRequest("first", 1, 1), atLast).Topics[0].ErrorCode; code != 0 {
			t.Fatal(kerr.ErrorForCode(code))
		}
		if code, err := produceOne(c, "first", 0, -1); err != nil || code != 0 {
			t.Fatalf("the first record: code %d, %v", code, err)
		}
		took := time.Since(began)
		best = min(best, took)
		t.Logf("start of an empty directory: listens after %v, first record acknowledged after %v", listens.Round(100*time.Microsecond), took.Round(100*time.Microsecond))
	}
	if best > 5*time.Second {
		t.Errorf("the fastest of five starts took %v to the first acknowledged record", best)
	}
	idle := p.memory("VmRSS")
	dialRaw(t, p.addr).form("group") // with the 50 partitions of __consumer_offsets
	withGroups := p.memory("VmRSS")
	t.Logf("resident: %.1f MB with one topic, %.1f MB with a group", float64(idle)/1e6, float64(withGroups)/1e6)
	if withGroups > 80<<20 {
		t.Errorf("%d MB resident in an idle broker", withGroups>>20)
	}
}
