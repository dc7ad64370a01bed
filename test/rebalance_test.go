package test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
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
	takes   func(report) // is given what it has read, instead of read
}

func startMember(t testing.TB, lib library, bootstrap, group, topic string) *member {
	t.Helper()
	m := &member{}
	m.start(t, lib, bootstrap, group, topic)
	return m
}

func (m *member) start(t testing.TB, lib library, bootstrap, group, topic string) {
	t.Helper()
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
	case r.Value != nil && m.takes != nil:
		m.takes(r)
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

// crashable is a broker that can be killed and started again at once. What RAFTSMAN_TEST_BOOTSTRAP names is left alone.
func crashable(t testing.TB) (addr string, crash func()) {
	t.Helper()
	if os.Getenv("RAFTSMAN_TEST_BOOTSTRAP") != "" {
		return target(t), func() {}
	}
	dir := t.TempDir()
	broker := startBroker(t, dir)
	return broker.addr, func() {
		t.Helper()
		broker.kill()
		broker = startBrokerAt(t, dir, portOf(t, broker.addr))
	}
}

// TestThreeMembersOnTwoPartitions: one member is idle; the broker is killed and started again, and the members go on; a member that
// is killed is replaced by the idle one; nothing is lost, and the records of a key stay in order.
func TestThreeMembersOnTwoPartitions(t *testing.T) {
	t.Parallel()
	for _, lib := range libraries(t) {
		t.Run(lib.name, func(t *testing.T) {
			t.Parallel()
			broker, crash := crashable(t)
			topic := fmt.Sprintf("rebalance-%s-%d", lib.name, os.Getpid())
			group := topic
			if _, err := kadm.NewClient(crashClient(t, broker)).CreateTopic(t.Context(), 2, 1, nil, topic); err != nil {
				t.Fatal(err)
			}
			stop := produceSteadily(t, broker, topic)
			var members []*member
			for range 3 {
				members = append(members, startMember(t, lib, broker, group, topic))
			}
			owner := ownerOfOne(t, lib, members)
			crash()
			before := readBy(members)
			eventually(t, atLast, "members read on", func() error {
				if now := readBy(members); now <= before+20 {
					return fmt.Errorf("%d records read, %d before", now, before)
				}
				return nil
			})
			if owner = ownerOfOne(t, lib, members); owner == nil {
				owner = members[0]
			}
			_ = syscall.Kill(-owner.process.command.Process.Pid, syscall.SIGKILL)
			rest := slices.DeleteFunc(slices.Clone(members), func(m *member) bool { return m == owner })
			if !lib.tellsNothing {
				owning(t, rest, 1, 1)
			}
			valuesRead(t, members, stop())
			for i, m := range members {
				_, read := m.state()
				checkOrder(t, fmt.Sprintf("member %d", i), read)
			}
		})
	}
}

// ownerOfOne waits until two of three members own a partition each, and returns one of them; of programs that do not tell, it only
// waits until they read, and returns nil.
func ownerOfOne(t testing.TB, lib library, members []*member) (owner *member) {
	t.Helper()
	if lib.tellsNothing {
		eventually(t, atLast, "members read", func() error {
			if readBy(members) == 0 {
				return errors.New("nothing was read")
			}
			return nil
		})
		return nil
	}
	owning(t, members, 0, 1, 1)
	for _, m := range members {
		if len(m.partitions(t)) == 1 {
			owner = m
		}
	}
	return owner
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
