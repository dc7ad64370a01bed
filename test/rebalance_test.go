package test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// member is a client program that consumes in a group until it is killed.
type member struct {
	process *process
	mu      sync.Mutex // guards the rest
	partial []byte     // a line that is not finished yet
	printed []string   // the last lines, for a test that fails
	owned   []int      // nil: it is not in the group yet
	changes int        // how often it was told what it owns
	read    []report
}

func startMember(t testing.TB, lib library, bootstrap, group, topic string) *member {
	t.Helper()
	m := &member{}
	command := exec.Command(lib.command[0], append(slices.Clone(lib.command[1:]), "consume", group, topic, "0")...)
	command.Env = append(os.Environ(), "BOOTSTRAP="+bootstrap)
	command.Stdout = m
	m.mu.Lock() // what it prints waits
	m.process = startProcess(t, bootstrap, command)
	m.mu.Unlock()
	t.Cleanup(func() {
		if t.Failed() {
			owned, read := m.state()
			t.Logf("a member owns %v and has read %d records, the last lines that it printed:\n%s", owned, len(read), strings.Join(m.printed, "\n"))
		}
	})
	return m
}

// Write takes what the program prints, and keeps what it reports.
func (m *member) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.partial = append(m.partial, p...)
	for {
		end := bytes.IndexByte(m.partial, '\n')
		if end < 0 {
			return len(p), nil
		}
		m.take(m.partial[:end])
		m.partial = m.partial[end+1:]
	}
}

func (m *member) take(text []byte) {
	const kept = 5
	m.printed = append(m.printed[max(0, len(m.printed)-kept+1):], string(text))
	var r report
	switch err := json.Unmarshal(text, &r); {
	case err != nil: // the library's own log
		_, _ = fmt.Fprintf(m.process.log, "%s\n", text)
	case r.Assigned != nil:
		m.owned = r.Assigned
		m.changes++
	case r.Value != nil:
		m.read = append(m.read, r)
	}
}

// state tells which partitions the member owns, nil before it has joined, and what it has read.
func (m *member) state() ([]int, []report) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owned, slices.Clone(m.read)
}

// partitions is what the member owns. A member that has ended fails the test.
func (m *member) partitions(t testing.TB) []int {
	t.Helper()
	select {
	case <-m.process.exited:
		t.Fatalf("a member ended: %v", m.process.err)
	default:
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owned
}

// TestThreeMembersOnTwoPartitions: one member is idle; a member that is killed is replaced by the idle one; nothing is lost, and
// the records of a key stay in order.
func TestThreeMembersOnTwoPartitions(t *testing.T) {
	broker := target(t)
	for _, lib := range libraries(t) {
		if lib.name == "kcat" || lib.name == "kafka-go" {
			continue // their programs do not tell what they own
		}
		t.Run(lib.name, func(t *testing.T) {
			topic := fmt.Sprintf("rebalance-%s-%d", lib.name, os.Getpid())
			group := topic
			lib.run(t, broker, "create", topic, "2")
			stop := produceSteadily(t, broker, topic)

			var members []*member
			for range 3 {
				members = append(members, startMember(t, lib, broker, group, topic))
			}
			var owner *member
			eventually(t, atLast, "two members own a partition each, one is idle", func() error {
				counts := map[int]int{}
				for i, m := range members {
					owned := m.partitions(t)
					if owned == nil {
						return fmt.Errorf("member %d has not joined", i)
					}
					counts[len(owned)]++
					if len(owned) == 1 {
						owner = m
					}
				}
				if counts[1] != 2 || counts[0] != 1 {
					return fmt.Errorf("members by partitions owned: %v", counts)
				}
				return nil
			})
			_ = syscall.Kill(-owner.process.command.Process.Pid, syscall.SIGKILL)
			rest := slices.DeleteFunc(slices.Clone(members), func(m *member) bool { return m == owner })
			eventually(t, atLast, "the idle member takes over", func() error {
				for _, m := range rest {
					if owned := m.partitions(t); len(owned) != 1 {
						return fmt.Errorf("a member owns %v", owned)
					}
				}
				return nil
			})
			sent := stop()
			eventually(t, atLast, "every record is read", func() error {
				for _, m := range rest {
					m.partitions(t)
				}
				seen := map[int]bool{}
				for _, m := range members {
					_, read := m.state()
					for _, r := range read {
						var n int
						if _, err := fmt.Sscanf(*r.Value, "value-%d", &n); err == nil {
							seen[n] = true
						}
					}
				}
				for n := range sent {
					if !seen[n] {
						return fmt.Errorf("value-%d of %d was not read", n, sent)
					}
				}
				return nil
			})
			for i, m := range members {
				_, read := m.state()
				checkOrder(t, fmt.Sprintf("member %d", i), read)
			}
		})
	}
}

// checkOrder checks that a member saw the values of each key in the order in which they were sent, unless a rebalance sent it
// back to an offset that was not committed: then it sees the same values again.
func checkOrder(t testing.TB, who string, read []report) {
	t.Helper()
	lastOffset := map[int]int64{}
	lastOfKey := map[string]int{}
	for _, r := range read {
		var n int
		if _, err := fmt.Sscanf(*r.Value, "value-%d", &n); err != nil {
			t.Fatalf("%s read %q", who, *r.Value)
		}
		if r.Offset <= lastOffset[r.Partition] {
			clear(lastOfKey) // read again from the committed offset
		}
		lastOffset[r.Partition] = r.Offset
		if previous, ok := lastOfKey[*r.Key]; ok && n < previous {
			t.Errorf("%s: key %s: value-%d after value-%d", who, *r.Key, n, previous)
		}
		lastOfKey[*r.Key] = n
	}
}

// produceSteadily sends about 200 records a second until the function that it returns is called, which tells how many were
// acknowledged: value-0 … value-(n-1).
func produceSteadily(t testing.TB, broker, topic string) func() int {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	sent, done := 0, make(chan error, 1)
	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			record := &kgo.Record{Key: fmt.Appendf(nil, "key-%d", sent%7), Value: fmt.Appendf(nil, "value-%d", sent)}
			if err := cl.ProduceSync(context.Background(), record).FirstErr(); err != nil {
				done <- err
				return
			}
			sent++
			<-tick.C
		}
		done <- nil
	}()
	stop := func() int {
		cancel()
		if err := <-done; err != nil {
			t.Fatalf("produce: %v", err)
		}
		cl.Close()
		return sent
	}
	return sync.OnceValue(stop)
}
