package test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// clusterTraffic writes to the topic, and reads it in a group of two, while the cluster meets its faults. The values of each partition count
// from 0, so a record's offset is its value: a record that is lost, twice there or out of order moves all that follow.
type clusterTraffic struct {
	t        testing.TB
	cluster  *cluster
	producer *kgo.Client
	stop     context.CancelFunc // ends the producer
	produced sync.WaitGroup

	mu    sync.Mutex // guards the rest
	acked [clusterPartitions]int
	read  [clusterPartitions]map[int64]bool // offsets that the group has read
}

const (
	clusterGroup = "billing"
	// bufferedMax is how many records wait for their acknowledgement at most.
	bufferedMax = 100
)

// createTopic makes a topic of which each broker has all.
func (c *cluster) createTopic(name string, partitions int32) {
	c.t.Helper()
	eventually(c.t, atLast, "topic "+name+" is made", func() error {
		return c.ask(func(ctx context.Context, admin *kadm.Client) error {
			_, err := admin.CreateTopic(ctx, partitions, int16(len(c.brokers())), map[string]*string{"min.insync.replicas": new(strconv.Itoa(len(c.brokers()) - 1))}, name)
			return unlessThere(err)
		})
	})
}

// createPlaced makes a topic with the replicas of each of its partitions, of which the first leads.
func (c *cluster) createPlaced(name string, replicas ...[]int32) {
	c.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, -1, -1
	topic.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "min.insync.replicas", Value: new("2")}}
	for i, ids := range replicas {
		topic.ReplicaAssignment = append(topic.ReplicaAssignment, kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: int32(i), Replicas: ids})
	}
	req.Topics = append(req.Topics, topic)
	eventually(c.t, atLast, "topic "+name+" is made", func() error {
		return c.ask(func(ctx context.Context, _ *kadm.Client) error {
			resp, err := req.RequestWith(ctx, c.client)
			if err != nil {
				return err
			}
			return unlessThere(kerr.ErrorForCode(resp.Topics[0].ErrorCode))
		})
	})
}

// startTraffic makes the topic and begins.
func (c *cluster) startTraffic() *clusterTraffic {
	c.t.Helper()
	w := &clusterTraffic{t: c.t, cluster: c}
	for p := range w.read {
		w.read[p] = map[int64]bool{}
	}
	c.createTopic(clusterTopic, clusterPartitions)
	seeds := c.seeds()
	w.producer = clusterClient(c.t, seeds, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(bufferedMax), kgo.ProducerLinger(0))
	ctx, cancel := context.WithCancel(c.t.Context())
	w.stop = cancel
	w.produced.Go(func() { w.produce(ctx) })
	for range 2 {
		w.consume(seeds)
	}
	c.t.Cleanup(func() { // also of a test that fails: nobody logs after it
		cancel()
		w.producer.Close() // it may wait for a cluster that is gone
		w.produced.Wait()
	})
	return w
}

// unlessThere is the error of making a topic, nil where it was made by a try before that has not heard its answer.
func unlessThere(err error) error {
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	return err
}

// produce writes until ctx ends. Records wait for their acknowledgement as long as it takes.
func (w *clusterTraffic) produce(ctx context.Context) {
	pace := time.NewTicker(2 * time.Millisecond)
	defer pace.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		partition, value := i%clusterPartitions, i/clusterPartitions
		record := &kgo.Record{Topic: clusterTopic, Partition: int32(partition), Value: []byte(strconv.Itoa(value))}
		w.producer.Produce(context.WithoutCancel(ctx), record, func(r *kgo.Record, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			switch {
			case errors.Is(err, kgo.ErrClientClosed): // the test has failed already
			case err != nil:
				w.t.Errorf("%d-%d was not acknowledged: %v", partition, value, err)
			case r.Offset != int64(value) || w.acked[partition] != value:
				w.t.Errorf("%d-%d was acknowledged at offset %d, after %d others", partition, value, r.Offset, w.acked[partition])
			default:
				w.acked[partition]++
			}
		})
	}
}

// consume starts a member of the group. It stays until the test ends.
func (w *clusterTraffic) consume(seeds []string) {
	client := clusterClient(w.t, seeds, kgo.ConsumerGroup(clusterGroup), kgo.ConsumeTopics(clusterTopic), kgo.SessionTimeout(10*time.Second),
		kgo.HeartbeatInterval(time.Second), kgo.RebalanceTimeout(10*time.Second), kgo.AutoCommitInterval(200*time.Millisecond),
		kgo.FetchMaxWait(500*time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			fetches := client.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			w.saw(fetches)
		}
	}()
	w.t.Cleanup(func() {
		client.CloseAllowingRebalance()
		<-done
	})
}

// saw judges what the group was given.
func (w *clusterTraffic) saw(fetches kgo.Fetches) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range fetches.Errors() {
		if lost := (*kgo.ErrDataLoss)(nil); errors.As(f.Err, &lost) {
			w.t.Errorf("the group misses records: %v", f.Err)
		}
	}
	fetches.EachRecord(func(r *kgo.Record) {
		if string(r.Value) != strconv.FormatInt(r.Offset, 10) && !w.t.Failed() { // those that follow are wrong as well
			w.t.Errorf("the group has read %q at offset %d of partition %d", r.Value, r.Offset, r.Partition)
		}
		w.read[r.Partition][r.Offset] = true
	})
}

// killAhead kills a leader after its followers have stood still for a while: what it alone has must not have been acknowledged.
func (w *clusterTraffic) killAhead(leader *clusterNode) {
	w.t.Helper()
	others := slices.DeleteFunc(slices.Clone(w.cluster.nodes), func(n *clusterNode) bool { return n == leader })
	for _, n := range others {
		n.signal(syscall.SIGSTOP)
	}
	eventually(w.t, atLast, "the producer waits while all followers stand still", func() error {
		if waiting := w.producer.BufferedProduceRecords(); waiting < bufferedMax {
			return fmt.Errorf("%d records wait", waiting)
		}
		return nil
	})
	leader.kill()
	for _, n := range others {
		n.proceed()
	}
}

// step does something to a node, sees the clients go on, mends it, and sees them go on again.
func (w *clusterTraffic) step(what string, node *clusterNode, fault, mend func(*clusterNode)) {
	w.t.Helper()
	began := time.Now()
	since := func() time.Duration { return time.Since(began).Round(time.Millisecond) }
	fault(node)
	done := since()
	w.goesOn(what)
	going := since()
	mend(node)
	w.cluster.healed()
	healed := since()
	w.goesOn("after that: " + what)
	w.t.Logf("%s: node %d, done after %v, clients went on by %v, healed by %v, clients went on by %v", what, node.id, done, going, healed, since())
}

// end ends clients and nodes, and checks what the brokers have.
func (w *clusterTraffic) end() {
	w.t.Helper()
	w.finish()
	w.cluster.stop()
	for _, n := range w.cluster.nodes {
		if n.isBroker() {
			w.check(n)
		}
	}
	w.t.Logf("acknowledged, and on every broker: %v", w.acked)
}

// goesOn waits until, in every partition, records are acknowledged that were not written yet, and the group has read them.
func (w *clusterTraffic) goesOn(what string) {
	w.t.Helper()
	w.mu.Lock()
	from := w.acked
	w.mu.Unlock()
	var missing error
	began := time.Now()
	eventually(w.t, atLast, "producer and group go on: "+what, func() error {
		if w.t.Failed() {
			w.t.FailNow()
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for p, acked := range from {
			const more = bufferedMax // those may have been written before
			if w.acked[p] <= acked+more || !w.read[p][int64(acked+more)] {
				missing = fmt.Errorf("partition %d: %d acknowledged, of them %d since; the group has read %d in all", p, w.acked[p], w.acked[p]-acked, len(w.read[p]))
				return missing
			}
		}
		return nil
	})
	const long = 10 * time.Second
	if took := time.Since(began); took > long {
		w.t.Logf("%s: after %v only the last of this was done: %v", what, took, missing)
	}
}

// finish ends the producer when all that it has written is acknowledged, and waits until the group has read all of it and committed that.
func (w *clusterTraffic) finish() {
	w.t.Helper()
	w.stop()
	w.produced.Wait()
	ctx, cancel := context.WithTimeout(w.t.Context(), atLast)
	defer cancel()
	if err := w.producer.Flush(ctx); err != nil {
		w.t.Fatalf("not all is acknowledged: %v", err)
	}
	eventually(w.t, atLast, "the group has read and committed all", func() error {
		return w.cluster.ask(func(ctx context.Context, admin *kadm.Client) error {
			committed, err := admin.FetchOffsets(ctx, clusterGroup)
			if err != nil {
				return err
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			for p, acked := range w.acked {
				if at, _ := committed.Lookup(clusterTopic, int32(p)); at.At != int64(acked) || len(w.read[p]) != acked {
					return fmt.Errorf("partition %d: %d acknowledged, %d read, committed %d", p, acked, len(w.read[p]), at.At)
				}
			}
			return nil
		})
	})
}

// check compares what a node has on its disk with what was acknowledged, which is all that was written.
func (w *clusterTraffic) check(n *clusterNode) {
	w.t.Helper()
	run(w.t, atLast, nil, binary(w.t), "log", "verify", n.dir)
	w.mu.Lock()
	defer w.mu.Unlock()
	for p, acked := range w.acked {
		want := make([]string, acked)
		for i := range want {
			want[i] = strconv.Itoa(i)
		}
		if got := recordsIn(w.t, n.partition(clusterTopic, p)); !slices.Equal(got, want) {
			at := 0
			for at < min(len(got), len(want)) && got[at] == want[at] {
				at++
			}
			w.t.Errorf("node %d, partition %d: %d records, %d were acknowledged; it differs from offset %d on: %v, not %v",
				n.id, p, len(got), len(want), at, got[at:min(at+5, len(got))], want[at:min(at+5, len(want))])
		}
	}
}

// recordsIn returns the values of all records in a partition's folder. A record at another offset than its place says so.
func recordsIn(t testing.TB, dir string) (values []string) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("segments in %s: %v, %v", dir, segments, err)
	}
	dumped := run(t, atLast, nil, binary(t), append([]string{"log", "dump", "--records", "-o", "json"}, segments...)...)
	decoder := json.NewDecoder(bytes.NewBufferString(dumped))
	for decoder.More() {
		var line struct {
			Entry struct {
				Records []struct {
					Offset int64
					Value  string
				}
			}
		}
		if err := decoder.Decode(&line); err != nil {
			t.Fatal(err)
		}
		for _, r := range line.Entry.Records {
			if r.Offset != int64(len(values)) {
				r.Value += fmt.Sprintf(" at offset %d", r.Offset)
			}
			values = append(values, r.Value)
		}
	}
	return values
}
