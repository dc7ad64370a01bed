//go:build soak

package test

import (
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

	"github.com/twmb/franz-go/pkg/kadm"
)

// clusterStream is producers and groups of released clients, each in a process of its own, on a topic of a cluster, and what they were told.
// A producer numbers what it sends to a partition, and never gives up.
type clusterStream struct {
	t         testing.TB
	cluster   *cluster
	producers []*streamProducer
	members   []*streamMember

	mu      sync.Mutex                         // guards the rest
	records map[place]string                   // that were acknowledged or read
	acked   map[string]*[clusterPartitions]int // by producer: how many
	groups  map[string]*streamGroup
	ends    [clusterPartitions]int64 // behind what was acknowledged last
	faults  []string
}

// streamProducer is a program that sends until it is told to stop.
type streamProducer struct {
	name    string
	process *process
}

// streamMember is a member of a group, which is started again when it ends.
type streamMember struct {
	*member
	lib    library
	group  string
	starts int
}

// streamGroup is what the members of a group have read.
type streamGroup struct {
	read   [clusterPartitions]map[int64]bool
	latest [clusterPartitions]int64 // the greatest offset, -1 for none
}

const (
	// streamRate is how many records a second each producer sends.
	streamRate = 30
	// streamWaiting is how many records of a producer wait for their acknowledgement at most; see clients/python/client.py.
	streamWaiting = 20
)

// startStream makes the topic and starts the clients: producers of four libraries, and groups of either protocol.
func (c *cluster) startStream() *clusterStream {
	c.t.Helper()
	s := &clusterStream{t: c.t, cluster: c, records: map[place]string{}, acked: map[string]*[clusterPartitions]int{}, groups: map[string]*streamGroup{}}
	c.createTopic(clusterTopic, clusterPartitions)
	libs := map[string]library{}
	for _, lib := range libraries(c.t) {
		libs[lib.name] = lib
	}
	for _, name := range []string{"java", "confluent-kafka", "franz-go", "kafkajs"} {
		s.produce(libs[name])
	}
	s.consume("classic", libs["confluent-kafka"], libs["confluent-kafka"])
	s.consume("classic-kafkajs", libs["kafkajs"])
	s.consume("consumer", libs["confluent-kafka"].with(toldConsumer), libs["franz-go"].with(toldConsumer))
	return s
}

func (s *clusterStream) produce(lib library) {
	s.t.Helper()
	s.acked[lib.name] = &[clusterPartitions]int{}
	args := append(slices.Clone(lib.command[1:]), "stream", clusterTopic, fmt.Sprint(clusterPartitions), lib.name, fmt.Sprint(streamRate))
	command := exec.Command(lib.command[0], args...)
	command.Env = append(os.Environ(), "BOOTSTRAP="+strings.Join(s.cluster.seeds(), ","))
	command.Stdout = &eachLine{do: func(line []byte) { s.acknowledged(lib.name, line) }}
	s.producers = append(s.producers, &streamProducer{name: lib.name, process: startProcess(s.t, "", command)})
}

func (s *clusterStream) consume(group string, libs ...library) {
	s.t.Helper()
	g := &streamGroup{}
	for p := range clusterPartitions {
		g.read[p], g.latest[p] = map[int64]bool{}, -1
	}
	s.groups[group] = g
	for _, lib := range libs {
		m := &streamMember{lib: lib, group: group}
		s.members = append(s.members, m)
		s.join(m)
	}
}

// join starts a member.
func (s *clusterStream) join(m *streamMember) {
	s.t.Helper()
	m.starts++
	m.member = &member{takes: func(r report) { s.read(m, r) }}
	m.start(s.t, m.lib, strings.Join(s.cluster.seeds(), ","), m.group, clusterTopic)
}

func (s *clusterStream) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// learn is told of a record in the log. Whoever sees a place sees the same there.
func (s *clusterStream) learn(who string, at place, value string) {
	if was, known := s.records[at]; known && was != value {
		s.fault("%s: %s at offset %d of partition %d, where %s was", who, value, at.offset, at.partition, was)
		return
	}
	s.records[at] = value
}

// acknowledged takes what a producer prints.
func (s *clusterStream) acknowledged(name string, line []byte) {
	var r report
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := json.Unmarshal(line, &r); err != nil || r.Value == nil || r.Partition < 0 || r.Partition >= clusterPartitions {
		s.fault("producer %s printed %s", name, line)
		return
	}
	acked := s.acked[name]
	if want := fmt.Sprintf("%s/%d/%d", name, r.Partition, acked[r.Partition]); *r.Value != want {
		s.fault("producer %s: %s was acknowledged where %s is next", name, *r.Value, want)
	}
	acked[r.Partition]++
	s.ends[r.Partition] = max(s.ends[r.Partition], r.Offset+1)
	s.learn("producer "+name, place{int32(r.Partition), r.Offset}, *r.Value)
}

// read takes what a member has read.
func (s *clusterStream) read(m *streamMember, r report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[m.group]
	g.read[r.Partition][r.Offset] = true
	g.latest[r.Partition] = max(g.latest[r.Partition], r.Offset)
	s.learn("group "+m.group, place{int32(r.Partition), r.Offset}, *r.Value)
}

// tend fails the test if something is wrong, or if a producer has ended, and starts members again that have.
func (s *clusterStream) tend() {
	s.t.Helper()
	for _, p := range s.producers {
		select {
		case <-p.process.exited:
			s.t.Fatalf("producer %s has given up: %v", p.name, p.process.err)
		default:
		}
	}
	for _, m := range s.members {
		select {
		case <-m.process.exited:
			s.t.Logf("a member of group %s, of %s, ended, and is started again: %v: %s", m.group, m.lib.name, m.process.err, last(m.process.log.tail(2), 300))
			s.join(m)
		default:
		}
	}
	s.check()
}

func (s *clusterStream) check() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	const most = 20
	for _, f := range s.faults[:min(len(s.faults), most)] {
		s.t.Error(f)
	}
	if len(s.faults) > 0 {
		s.t.FailNow()
	}
}

// progress returns what tells, later, whether in every partition each producer was acknowledged what it sent after this call, and each group
// has read what came after it.
func (s *clusterStream) progress() func() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, ends := map[string][clusterPartitions]int{}, s.ends
	for name, acked := range s.acked {
		before[name] = *acked
	}
	return func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for p := range clusterPartitions {
			for name, acked := range s.acked {
				if acked[p] <= before[name][p]+streamWaiting {
					return fmt.Errorf("partition %d: producer %s was acknowledged %d records, of them %d since", p, name, acked[p], acked[p]-before[name][p])
				}
			}
			for name, g := range s.groups {
				if g.latest[p] <= ends[p] {
					return fmt.Errorf("partition %d: group %s has read up to offset %d, of %d that were there before", p, name, g.latest[p], ends[p])
				}
			}
		}
		return nil
	}
}

// finish ends the producers when all that they have sent is acknowledged, and the members when they have read and committed it.
func (s *clusterStream) finish() {
	s.t.Helper()
	for _, p := range s.producers {
		_ = p.process.command.Process.Signal(syscall.SIGTERM)
	}
	for _, p := range s.producers {
		p.process.terminate()
	}
	s.producers = nil
	eventually(s.t, atLast, "the groups have read and committed all", func() error {
		s.tend()
		return s.cluster.ask(func(ctx context.Context, admin *kadm.Client) error {
			for name := range s.groups {
				committed, err := admin.FetchOffsets(ctx, name)
				if err != nil {
					return err
				}
				if err := s.readAll(name, committed); err != nil {
					return err
				}
			}
			return nil
		})
	})
	for _, m := range s.members {
		m.process.kill()
	}
}

func (s *clusterStream) readAll(group string, committed kadm.OffsetResponses) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, end := range s.ends {
		read := s.groups[group].read[p]
		if at, _ := committed.Lookup(clusterTopic, int32(p)); at.At != end || int64(len(read)) != end {
			return fmt.Errorf("group %s, partition %d: %d records are there, %d were read, %d are committed", group, p, end, len(read), at.At)
		}
	}
	return nil
}

// onDisk compares what a node has with what was acknowledged: all of it once, in the order of each producer, and nothing else.
func (s *clusterStream) onDisk(n *clusterNode) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range clusterPartitions {
		next := map[string]int{}
		found := recordsIn(s.t, n.partition(clusterTopic, p))
		for offset, value := range found {
			if want := s.records[place{int32(p), int64(offset)}]; value != want {
				s.t.Fatalf("node %d, partition %d, offset %d: %q, and clients were told of %q", n.id, p, offset, value, want)
			}
			name, number, _ := strings.Cut(value, fmt.Sprintf("/%d/", p))
			if number != fmt.Sprint(next[name]) {
				s.t.Fatalf("node %d, partition %d, offset %d: %q, where record %d of that producer is next", n.id, p, offset, value, next[name])
			}
			next[name]++
		}
		for name, acked := range s.acked {
			if next[name] != acked[p] {
				s.t.Errorf("node %d, partition %d: %d records of producer %s, %d were acknowledged", n.id, p, next[name], name, acked[p])
			}
		}
	}
}

// String counts.
func (s *clusterStream) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var told []string
	for name, acked := range s.acked {
		told = append(told, fmt.Sprintf("%s %v", name, *acked))
	}
	slices.Sort(told)
	for _, m := range s.members {
		told = append(told, fmt.Sprintf("a member of %s started %d times", m.group, m.starts))
	}
	return "acknowledged: " + strings.Join(told, ", ")
}
