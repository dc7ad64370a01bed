package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// place is where a record was acknowledged or read.
type place struct {
	partition int32
	offset    int64
}

// story is what clients were told about the records of the crash topic, for as long as the test runs and whatever broker serves.
type story struct {
	mu      sync.Mutex // guards the rest
	acked   map[place]string
	seen    map[place]string
	next    [crashPartitions]int64 // the offset that the reader gets next
	faults  []string
	changed chan struct{} // closed when acked or seen grows, and replaced

	gate sync.RWMutex // held by producers while they hand over a record, and by who wants them to pause
}

func newStory() *story {
	return &story{acked: map[place]string{}, seen: map[place]string{}, changed: make(chan struct{})}
}

func (s *story) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// note adds a record to one of the two maps.
func (s *story) note(to map[place]string, at place, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, twice := to[at]; twice && was != value {
		s.faults = append(s.faults, fmt.Sprintf("%+v holds %.30q, and held %.30q", at, value, was))
	}
	to[at] = value
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *story) counts() (acked, seen int, changed chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.acked), len(s.seen), s.changed
}

// awaitAcks waits for that many more acknowledgements.
func (s *story) awaitAcks(t testing.TB, more int, ended <-chan struct{}) {
	t.Helper()
	timeout := time.After(atLast)
	from, _, _ := s.counts()
	for {
		acked, _, changed := s.counts()
		if acked >= from+more {
			return
		}
		s.check(t)
		select {
		case <-changed:
		case <-ended:
			return
		case <-timeout:
			t.Fatalf("%d records acknowledged within %v, want %d", acked-from, atLast, more)
		}
	}
}

func (s *story) check(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		t.Error(f)
	}
	if len(s.faults) > 0 {
		t.FailNow()
	}
}

// value is what the n-th record of a producer to a partition holds: its name, and filling of a length that only it has.
func value(producer int, partition int32, n int) string {
	name := fmt.Sprintf("%d/%d/%d ", producer, partition, n)
	return name + strings.Repeat(string(rune('a'+n%26)), (n*7919+producer)%1500)
}

func crashClient(t testing.TB, addr string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(strings.Split(addr, ",")...), kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }), kgo.RequestRetries(1 << 20),
		kgo.RetryTimeout(time.Hour), kgo.MetadataMinAge(10 * time.Millisecond), kgo.UnknownTopicRetries(-1),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// produceInOrder keeps an idempotent producer busy until ctx ends.
func (s *story) produceInOrder(ctx context.Context, cl *kgo.Client, producer int) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for n := 0; ctx.Err() == nil; n++ {
		for partition := range int32(crashPartitions) {
			r := &kgo.Record{Topic: crashTopic, Partition: partition, Value: []byte(value(producer, partition, n))}
			s.gate.RLock()
			cl.Produce(ctx, r, func(r *kgo.Record, err error) {
				switch {
				case err == nil:
					s.note(s.acked, place{r.Partition, r.Offset}, string(r.Value))
				case ctx.Err() == nil:
					s.fault("producer %d: partition %d: record %d of producer id %d: %v", producer, r.Partition, n, r.ProducerID, err)
					stop()
				}
			})
			s.gate.RUnlock()
		}
	}
}

// readAll follows the topic from its beginning until ctx ends: every offset once, none left out.
func (s *story) readAll(ctx context.Context, cl *kgo.Client) {
	for {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		for _, f := range fetches.Errors() {
			var code *kerr.Error
			var lost *kgo.ErrDataLoss
			if errors.As(f.Err, &code) || errors.As(f.Err, &lost) { // and not a connection that was cut
				s.fault("reader: partition %d: %v", f.Partition, f.Err)
				return
			}
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if want := s.next[r.Partition]; r.Offset != want {
				s.fault("reader: partition %d: offset %d where %d is next", r.Partition, r.Offset, want)
			}
			s.next[r.Partition] = r.Offset + 1
			s.note(s.seen, place{r.Partition, r.Offset}, string(r.Value))
		})
	}
}

// committer is a member of a group, one that reads in a group and commits all that it was given.
type committer struct {
	group string
	cl    *kgo.Client

	mu        sync.Mutex // guards the rest
	delivered [crashPartitions]int64
	tried     [crashPartitions]int64
	committed [crashPartitions]int64
}

// crashGroups are the groups of the committers by their protocols: the classic one, and that of KIP-848.
var crashGroups = map[string]string{"classic": "crash-members", "consumer": "crash-consumers"}

// newCommitters returns a member of each group.
func newCommitters(t testing.TB, addr string) (all []*committer) {
	t.Helper()
	for protocol, group := range crashGroups {
		options := []kgo.Opt{
			kgo.ConsumerGroup(group), kgo.ConsumeTopics(crashTopic), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.FetchMaxWait(100 * time.Millisecond), kgo.HeartbeatInterval(500 * time.Millisecond),
		}
		if protocol == "consumer" {
			options = append(options, kgo.ServerSideBalancer())
		}
		all = append(all, &committer{group: group, cl: crashClient(t, addr, options...)})
	}
	return all
}

func (c *committer) run(ctx context.Context, s *story) {
	for ctx.Err() == nil {
		fetches := c.cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		records := fetches.Records()
		c.mu.Lock()
		for _, r := range records {
			if r.Offset > c.delivered[r.Partition] {
				s.fault("member of %s: partition %d: offset %d, and had got all below %d", c.group, r.Partition, r.Offset, c.delivered[r.Partition])
			}
			c.delivered[r.Partition] = max(c.delivered[r.Partition], r.Offset+1)
			c.tried[r.Partition] = max(c.tried[r.Partition], r.Offset+1)
		}
		c.mu.Unlock()
		if len(records) == 0 || c.cl.CommitRecords(ctx, records...) != nil {
			continue // moved away by a rebalance or a restart: what was not committed comes again
		}
		c.mu.Lock()
		for _, r := range records {
			c.committed[r.Partition] = max(c.committed[r.Partition], r.Offset+1)
		}
		c.mu.Unlock()
	}
}

// check compares what the group's coordinator says with what was acknowledged before it was asked.
func (c *committer) check(t testing.TB, acknowledged [crashPartitions]int64, offsets kadm.OffsetResponses) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range int32(crashPartitions) {
		got := int64(0)
		if o, ok := offsets.Lookup(crashTopic, p); ok {
			got = max(o.At, 0)
		}
		if got < acknowledged[p] || got > c.tried[p] {
			t.Errorf("group %s, partition %d: committed offset %d, acknowledged was %d, sent %d", c.group, p, got, acknowledged[p], c.tried[p])
		}
	}
}

func (c *committer) acknowledged() [crashPartitions]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.committed
}

// census is everything but records that must outlive a crash.
type census struct {
	Cluster string
	Topics  map[string]string            // id, partitions, replicas
	Configs map[string]map[string]string // by resource
	Groups  map[string]map[string]string // commits by partition
}

func (c census) String() string {
	text, _ := json.MarshalIndent(c, "", " ")
	return string(text)
}

// takeCensus leaves out what `inFlight` names, and the groups whose members go on.
func takeCensus(t testing.TB, adm *kadm.Client) census {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), atLast)
	defer cancel()
	c := census{Topics: map[string]string{}, Configs: map[string]map[string]string{}, Groups: map[string]map[string]string{}}
	metadata := must(adm.Metadata(ctx))(t)
	c.Cluster = metadata.Cluster
	var names []string
	for _, topic := range metadata.Topics {
		if strings.HasPrefix(topic.Topic, inFlight) {
			continue
		}
		names = append(names, topic.Topic)
		c.Topics[topic.Topic] = fmt.Sprintf("%s, %d partitions, internal %v, %v", topic.ID, len(topic.Partitions), topic.IsInternal, topic.Err)
	}
	topics := must(adm.DescribeTopicConfigs(ctx, names...))(t)
	brokers := must(adm.DescribeBrokerConfigs(ctx))(t)
	for _, r := range append(topics, brokers...) {
		if r.Err != nil {
			t.Fatalf("configs of %q: %v", r.Name, r.Err)
		}
		own := map[string]string{}
		for _, entry := range r.Configs {
			if entry.Source == kmsg.ConfigSourceDynamicTopicConfig || r.Name == "" && entry.Source == kmsg.ConfigSourceDynamicDefaultBrokerConfig {
				own[entry.Key] = entry.MaybeValue()
			}
		}
		c.Configs[r.Name] = own
	}
	for _, group := range must(adm.ListGroups(ctx))(t).Groups() {
		if group == crashGroups["classic"] || group == crashGroups["consumer"] || group == inFlight {
			continue
		}
		commits := map[string]string{}
		for _, offset := range must(adm.FetchOffsets(ctx, group))(t).Offsets().Sorted() {
			commits[fmt.Sprintf("%s/%d", offset.Topic, offset.Partition)] = fmt.Sprintf("%d %q", offset.At, offset.Metadata)
		}
		c.Groups[group] = commits
	}
	return c
}

// must is for calls that may not fail.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// inFlight begins the names of what is changed at the moment of the crash: it may be there or not, but not in part.
const inFlight = "in-flight"

// readTopic reads all records of a topic, by partition and, as no offset may be missing, by offset.
func readTopic(t testing.TB, addr, topic string) map[int32][]string {
	t.Helper()
	cl := crashClient(t, addr)
	adm := kadm.NewClient(cl)
	ctx, cancel := context.WithTimeout(t.Context(), atLast)
	defer cancel()
	ends := must(adm.ListEndOffsets(ctx, topic))(t)
	from, missing := map[int32]kgo.Offset{}, int64(0)
	ends.Each(func(o kadm.ListedOffset) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		from[o.Partition] = kgo.NewOffset().At(0)
		missing += o.Offset
	})
	reader := crashClient(t, addr, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	log := map[int32][]string{}
	for missing > 0 {
		fetches := reader.PollFetches(ctx)
		if err := errors.Join(fetches.Err0(), ctx.Err()); err != nil {
			t.Fatal(err)
		}
		fetches.EachError(func(topic string, p int32, err error) { t.Fatalf("%s/%d: %v", topic, p, err) })
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset != int64(len(log[r.Partition])) {
				t.Fatalf("%s/%d: offset %d follows %d records", topic, r.Partition, r.Offset, len(log[r.Partition]))
			}
			log[r.Partition] = append(log[r.Partition], string(r.Value))
			missing--
		})
	}
	return log
}

// difference shows the lines that only one of two texts has.
func difference(was, is string) string {
	count := map[string]int{}
	for line := range strings.SplitSeq(was, "\n") {
		count[line]++
	}
	for line := range strings.SplitSeq(is, "\n") {
		count[line]--
	}
	var out []string
	for _, line := range slices.Sorted(maps.Keys(count)) {
		switch n := count[line]; {
		case n > 0:
			out = append(out, "- "+line)
		case n < 0:
			out = append(out, "+ "+line)
		}
	}
	return strings.Join(out, "\n")
}

// testSeed is CRASH_SEED, or a fresh one; it is printed with the line that repeats it.
func testSeed(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("CRASH_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("CRASH_SEED=%d go test -run '^%s$' .", seed, t.Name())
	return seed
}
