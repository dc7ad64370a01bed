package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
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

const (
	crashTopic      = "crash"
	crashPartitions = 3
	crashProducers  = 2
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
	timeout := time.After(60 * time.Second)
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
			t.Fatalf("%d records acknowledged within a minute, want %d", acked-from, more)
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
		kgo.SeedBrokers(addr), kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }), kgo.RequestRetries(1 << 20),
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

// member is one that reads in a group and commits all that it was given.
type committer struct {
	mu        sync.Mutex // guards the rest
	delivered [crashPartitions]int64
	tried     [crashPartitions]int64
	committed [crashPartitions]int64
}

const crashGroup = "crash-members"

func (c *committer) run(ctx context.Context, s *story, cl *kgo.Client) {
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		records := fetches.Records()
		c.mu.Lock()
		for _, r := range records {
			if r.Offset > c.delivered[r.Partition] {
				s.fault("group member: partition %d: offset %d, and had got all below %d", r.Partition, r.Offset, c.delivered[r.Partition])
			}
			c.delivered[r.Partition] = max(c.delivered[r.Partition], r.Offset+1)
			c.tried[r.Partition] = max(c.tried[r.Partition], r.Offset+1)
		}
		c.mu.Unlock()
		if len(records) == 0 || cl.CommitRecords(ctx, records...) != nil {
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
			t.Errorf("group %s, partition %d: committed offset %d, acknowledged was %d, sent %d", crashGroup, p, got, acknowledged[p], c.tried[p])
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

// takeCensus leaves out what `inFlight` names, and the group whose members go on.
func takeCensus(t testing.TB, adm *kadm.Client) census {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
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
		if group == crashGroup || group == inFlight {
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

// crashWorld is a broker that dies again and again, and the clients that go on.
type crashWorld struct {
	t         testing.TB
	swap      swapDir
	random    *rand.Rand
	broker    *process
	round     int
	patience  time.Duration // how long the broker may take to show what it has acknowledged, or loaded: none, but for Kafka
	adm       *kadm.Client
	producers []*kgo.Client
	story     *story
	member    *committer
	before    census
	committed [crashPartitions]int64
	stray     strayWork
}

// strayWork is what was asked for while the broker was killed.
type strayWork struct {
	topic          string
	created        bool
	tried, commits int64 // offsets that the in-flight group tried to commit, and that were acknowledged
}

// TestEveryAcknowledgedRecordOutlivesKill9 kills the broker again and again, also while it starts, under idempotent acks=all
// producers, a reader, a member of a group and an administrator. Then Apache Kafka takes its place, is killed and stopped
// itself, and Raftsman takes over again, while the same clients go on.
func TestEveryAcknowledgedRecordOutlivesKill9(t *testing.T) {
	rounds := 50
	if soak() {
		rounds = 300
	}
	seed := testSeed(t)
	w := &crashWorld{t: t, swap: newSwapDir(t, "--override", "metadata.log.max.record.bytes.between.snapshots=20000"), random: rand.New(rand.NewPCG(seed, 0)), story: newStory(), member: &committer{}}
	w.broker = w.swap.raftsman(t)
	w.adm = kadm.NewClient(crashClient(t, w.swap.addr(), kgo.RetryTimeout(20*time.Second)))
	w.createTopic()
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop()
	for producer := range crashProducers {
		codec := []kgo.CompressionCodec{kgo.Lz4Compression(), kgo.NoCompression()}[producer]
		cl := crashClient(t, w.swap.addr(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.StopProducerOnDataLossDetected(),
			kgo.ProducerBatchCompression(codec), kgo.MaxBufferedRecords(300), kgo.ProducerLinger(time.Millisecond))
		w.producers = append(w.producers, cl)
		clients.Go(func() { w.story.produceInOrder(ctx, cl, producer) })
	}
	fromStart := map[int32]kgo.Offset{}
	for p := range int32(crashPartitions) {
		fromStart[p] = kgo.NewOffset().At(0)
	}
	reader := crashClient(t, w.swap.addr(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{crashTopic: fromStart}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchMaxWait(100*time.Millisecond))
	clients.Go(func() { w.story.readAll(ctx, reader) })
	member := crashClient(t, w.swap.addr(), kgo.ConsumerGroup(crashGroup), kgo.ConsumeTopics(crashTopic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond), kgo.HeartbeatInterval(500*time.Millisecond))
	clients.Go(func() { w.member.run(ctx, w.story, member) })

	began := time.Now()
	for w.round = range rounds {
		round := w.round
		w.story.awaitAcks(t, 1+w.random.IntN(300), w.broker.exited)
		w.change(round)
		w.takeBefore(0)
		w.killAmidChanges(round)
		if round%3 == 0 {
			w.dieWhileStarting()
		}
		w.broker = w.swap.raftsman(t)
		w.compare(fmt.Sprintf("kill %d", round), 0)
	}
	acked, seen, _ := w.story.counts()
	t.Logf("%d rounds in %v, %d records acknowledged, %d read", rounds, time.Since(began).Round(time.Second), acked, seen)

	w.takeTurns()
	w.story.awaitAcks(t, 100, w.broker.exited)
	stop()
	clients.Wait()
	w.story.check(t)
	w.checkRecords()
}

// takeTurns has Apache Kafka and Raftsman follow each other on the directory, after a kill and after a stop in order.
func (w *crashWorld) takeTurns() {
	dump := func() { w.t.Logf("dump-log read %v", dumpAll(w.t, w.swap.data)) }
	const loading = 30 * time.Second
	// After a crash Kafka knows the last batch of each producer only, and refuses the one before it that is sent again: so to
	// Kafka the producers come with nothing in flight. And Kafka rolls no segment, of which Raftsman would learn as little.
	large := "67108864"
	must(w.adm.AlterTopicConfigs(w.t.Context(), []kadm.AlterConfig{{Name: "segment.bytes", Value: &large}}, crashTopic))(w.t)
	w.turn("Kafka after Raftsman was killed", func() { w.pause(); w.broker.kill(); dump(); w.story.gate.Unlock() }, w.swap.kafka, loading)
	w.turn("Raftsman after Kafka was killed", w.broker.kill, w.swap.raftsman, 0)
	w.turn("Kafka after Raftsman stopped", func() { w.broker.terminate(); dump() }, w.swap.kafka, loading)
	w.turn("Raftsman after Kafka stopped", func() { w.broker.terminate() }, w.swap.raftsman, 0)
}

// pause holds the producers back until the gate is unlocked, and waits until all that they sent is acknowledged.
func (w *crashWorld) pause() {
	w.t.Helper()
	w.story.gate.Lock()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	for _, cl := range w.producers {
		if err := cl.Flush(ctx); err != nil {
			w.t.Fatal(err)
		}
	}
}

// turn lets the clients work for a while, ends the broker, starts another, and compares.
func (w *crashWorld) turn(name string, end func(), start func(testing.TB) *process, patience time.Duration) {
	w.t.Helper()
	began := time.Now()
	w.story.awaitAcks(w.t, 200, w.broker.exited)
	w.round++
	w.change(w.round)
	w.takeBefore(w.patience)
	w.committed, w.stray = w.member.acknowledged(), strayWork{}
	end()
	ended := time.Now()
	w.broker, w.patience = start(w.t), patience
	started := time.Now()
	w.compare(name, patience)
	w.t.Logf("%s: ended after %v, started in %v, compared in %v", name, ended.Sub(began), started.Sub(ended), time.Since(started))
}

func (w *crashWorld) createTopic() {
	w.t.Helper()
	small := "1048576" // the least that Kafka allows: segments are rolled
	r := must(w.adm.CreateTopic(w.t.Context(), crashPartitions, 1, map[string]*string{"segment.bytes": &small}, crashTopic))(w.t)
	if r.Err != nil {
		w.t.Fatal(r.Err)
	}
}

// change has an administrator change something of everything, and waits for the answers.
func (w *crashWorld) change(round int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	text := func(n int) *string { s := fmt.Sprint(n); return &s }
	name := func(n int) string { return fmt.Sprintf("round-%d", n) }
	must(w.adm.CreateTopic(ctx, int32(round%5+1), 1, map[string]*string{"retention.ms": text(1_000_000 + round)}, name(round)))(w.t)
	if round > 0 {
		// The one before may have been of another start.
		if _, err := w.adm.CreatePartitions(ctx, 1, name(round-1)); err != nil {
			w.t.Fatal(err)
		}
	}
	if round > 3 {
		if _, err := w.adm.DeleteTopics(ctx, name(round-3)); err != nil {
			w.t.Fatal(err)
		}
	}
	must(w.adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "max.message.bytes", Value: text(1_048_588 + round)}}, crashTopic))(w.t)
	if round%2 == 0 {
		must(w.adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.DeleteConfig, Name: "retention.ms"}}, name(round)))(w.t)
	}
	var commits kadm.Offsets
	for p := range int32(crashPartitions) {
		commits.Add(kadm.Offset{Topic: crashTopic, Partition: p, At: int64(round + 1), LeaderEpoch: -1, Metadata: fmt.Sprint("round ", round)})
	}
	group := fmt.Sprint("group-", round%7)
	if err := w.adm.CommitAllOffsets(ctx, group, commits); err != nil {
		w.t.Fatalf("commit of %s: %v", group, err)
	}
	if round%5 == 4 {
		if err := must(w.adm.DeleteGroups(ctx, fmt.Sprint("group-", (round+3)%7)))(w.t).Error(); err != nil && !strings.Contains(err.Error(), "GROUP_ID_NOT_FOUND") {
			w.t.Fatal(err)
		}
	}
}

// takeBefore changes a last setting and takes the census when it shows.
func (w *crashWorld) takeBefore(patience time.Duration) {
	w.t.Helper()
	const key = "log.segment.delete.delay.ms"
	value := fmt.Sprint(60_000 + w.round)
	must(w.adm.AlterBrokerConfigs(w.t.Context(), []kadm.AlterConfig{{Name: key, Value: &value}}))(w.t)
	eventually(w.t, patience, "the broker shows what it has acknowledged", func() error {
		if got := takeCensus(w.t, w.adm).Configs[""][key]; got != value {
			return fmt.Errorf("%s is %s, was set to %s", key, got, value)
		}
		return nil
	})
	w.before = takeCensus(w.t, w.adm) // all of it after the last setting showed
}

// killAmidChanges ends the broker while a topic is created and offsets are committed.
func (w *crashWorld) killAmidChanges(round int) {
	w.committed = w.member.acknowledged()
	w.stray = strayWork{topic: fmt.Sprint(inFlight, "-", round)}
	cl := crashClient(w.t, w.swap.addr(), kgo.RequestRetries(0), kgo.RetryTimeout(5*time.Second))
	adm := kadm.NewClient(cl)
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	if err := cl.Ping(ctx); err != nil {
		w.t.Fatal(err)
	}
	var changes sync.WaitGroup
	asked := make(chan struct{}, 2)
	changes.Go(func() {
		asked <- struct{}{}
		r, err := adm.CreateTopic(ctx, 7, 1, nil, w.stray.topic)
		w.stray.created = err == nil && r.Err == nil
	})
	changes.Go(func() {
		asked <- struct{}{}
		for n := int64(round) * 1000; ; n++ {
			var commits kadm.Offsets
			commits.AddOffset(crashTopic, 0, n, -1)
			w.stray.tried = n
			if adm.CommitAllOffsets(ctx, inFlight, commits) != nil {
				return
			}
			w.stray.commits = n
		}
	})
	<-asked
	<-asked
	w.story.awaitAcks(w.t, w.random.IntN(20), w.broker.exited)
	if round%5 == 4 { // in order, for once: nobody may notice the difference
		if took := w.broker.terminate(); took > 5*time.Second || w.broker.err != nil {
			w.t.Errorf("SIGTERM ended the broker within %v: %v", took, w.broker.err)
		}
	} else {
		w.broker.kill()
	}
	changes.Wait()
}

// dieWhileStarting starts the broker and kills it at one of its first system calls that change files.
func (w *crashWorld) dieWhileStarting() {
	calls := []string{"pwrite64", "fdatasync,fsync", "openat", "rename,renameat,renameat2", "ftruncate", "unlink,unlinkat", "syncfs"}
	set, n := calls[w.random.IntN(len(calls))], 1+w.random.IntN(6)
	if set == "openat" {
		n *= 20
	}
	p := launchDoomed(w.t, w.swap.data, w.swap.port, set, n)
	w.story.awaitAcks(w.t, 50, p.exited)
	p.kill()
}

// launchDoomed starts the broker such that it is killed at the n-th of some system calls of one of its threads.
func launchDoomed(t testing.TB, dir string, port int, calls string, n int) *process {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	return startProcess(t, addr, exec.Command("strace", "-f", "-qqq", "-o", os.DevNull, "-e", "trace="+calls,
		"-e", fmt.Sprintf("inject=%s:signal=SIGKILL:when=%d", calls, n), binary(t), "serve", "--data", dir, "--listen", addr))
}

// TestKilledInTheMiddleOfAFirstStart kills the first start of a broker at one system call after the other, and as soon as one
// file after the other is there. Whatever it leaves of a new directory, the next start serves from it, and from then on the
// cluster stays the same.
func TestKilledInTheMiddleOfAFirstStart(t *testing.T) {
	starts, served := 0, 0
	try := func(what string, die func(dir string) *process) {
		dir := filepath.Join(t.TempDir(), "data")
		p := die(dir)
		starts++
		if strings.Contains(p.log.String(), "msg=serving") {
			served++
		}
		startAfterDeath(t, what, dir)
	}
	times := 8
	if soak() {
		times = 40
	}
	for _, calls := range []string{"mkdirat", "openat", "pwrite64,write", "fdatasync,fsync,syncfs", "renameat,renameat2", "unlinkat,ftruncate"} {
		for n := 1; n <= times; n++ {
			try(fmt.Sprintf("killed at %s %d", calls, n), func(dir string) *process {
				p := launchDoomed(t, dir, freePort(t), calls, n)
				eventually(t, 20*time.Second, "the first start dies or serves", func() error {
					select {
					case <-p.exited:
						return nil
					default:
					}
					if !strings.Contains(p.log.String(), "msg=serving") {
						return errors.New(p.log.tail(5))
					}
					return nil
				})
				p.kill()
				return p
			})
		}
	}
	metadata := "__cluster_metadata-0"
	for _, file := range []string{
		".", metadata, metadata + "/00000000000000000000-0000000000.checkpoint.part", metadata + "/00000000000000000000-0000000000.checkpoint",
		"meta.properties.tmp", "meta.properties", ".lock", metadata + "/partition.metadata", metadata + "/00000000000000000000.log", metadata + "/quorum-state",
	} {
		try("killed when there was "+file, func(dir string) *process {
			p := launchBroker(t, dir, freePort(t))
			for began := time.Now(); time.Since(began) < 10*time.Second; {
				if _, err := os.Lstat(filepath.Join(dir, file)); err == nil || strings.Contains(p.log.String(), "msg=serving") {
					break
				}
			}
			p.kill()
			return p
		})
	}
	t.Logf("%d first starts were killed, %d of them after they served", starts, served)
}

// startAfterDeath starts a broker on what is there, twice, and has it serve.
func startAfterDeath(t testing.TB, what, dir string) {
	t.Helper()
	var cluster string
	for round := range 2 {
		p := startBroker(t, dir)
		is := must(kadm.NewClient(crashClient(t, p.addr)).Metadata(t.Context()))(t).Cluster
		if round == 1 && is != cluster {
			t.Errorf("%s: cluster %s, was %s", what, is, cluster)
		}
		cluster = is
		if round == 0 {
			createTopic(t, p.addr, "first", 1)
		}
		if code, err := produceOne(dialRaw(t, p.addr), "first", 0, -1); err != nil || code != 0 {
			t.Fatalf("%s: produce: code %d, %v", what, code, err)
		}
		if got := len(readTopic(t, p.addr, "first")[0]); got != round+1 {
			t.Errorf("%s: %d records, want %d", what, got, round+1)
		}
		p.kill()
	}
}

// compare checks what the broker serves after a start against what was there before the end. Kafka serves before it has loaded
// its groups and gets a while.
func (w *crashWorld) compare(when string, patience time.Duration) {
	t := w.t
	t.Helper()
	eventually(t, patience, when+": all is as before", func() error {
		w.story.check(t)
		if was, is := w.before.String(), takeCensus(t, w.adm).String(); was != is {
			return errors.New("\n" + difference(was, is))
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	w.member.check(t, w.committed, must(w.adm.FetchOffsets(ctx, crashGroup))(t))
	if w.stray.topic != "" {
		w.compareStray(ctx)
	}
	if t.Failed() {
		t.Fatalf("failed: %s", when)
	}
}

func (w *crashWorld) compareStray(ctx context.Context) {
	t, s := w.t, w.stray
	t.Helper()
	topic, there := must(w.adm.ListTopics(ctx, s.topic))(t)[s.topic]
	there = there && topic.Err == nil
	switch {
	case s.created && !there:
		t.Errorf("topic %s was acknowledged and is gone: %v", s.topic, topic.Err)
	case there && len(topic.Partitions) != 7:
		t.Errorf("topic %s has %d of 7 partitions", s.topic, len(topic.Partitions))
	}
	if there {
		must(w.adm.DeleteTopics(ctx, s.topic))(t)
	}
	if s.tried == 0 {
		return
	}
	commit, _ := must(w.adm.FetchOffsets(ctx, inFlight))(t).Lookup(crashTopic, 0)
	if commit.At > s.tried || s.commits > 0 && commit.At < s.commits {
		t.Errorf("group %s: offset %d, acknowledged %d, sent %d", inFlight, commit.At, s.commits, s.tried)
	}
}

// checkRecords reads the whole topic and compares it with what producers and the reader were told.
func (w *crashWorld) checkRecords() {
	t := w.t
	t.Helper()
	log := readTopic(t, w.swap.addr(), crashTopic)
	next := map[string]int{}
	total := 0
	for p, values := range log {
		total += len(values)
		for offset, v := range values {
			name, _, _ := strings.Cut(v, " ")
			var producer, n int
			var partition int32
			if _, err := fmt.Sscanf(name, "%d/%d/%d", &producer, &partition, &n); err != nil || v != value(producer, partition, n) || partition != p {
				t.Fatalf("partition %d, offset %d: nobody sent %.40q", p, offset, v)
			}
			of := fmt.Sprint(producer, "/", partition)
			if n != next[of] {
				t.Fatalf("partition %d, offset %d: record %d of producer %d where %d is next", p, offset, n, producer, next[of])
			}
			next[of]++
		}
	}
	told := func(what string, records map[place]string) {
		for at, v := range records {
			if values := log[at.partition]; at.offset >= int64(len(values)) {
				t.Fatalf("%s at partition %d, offset %d: %.40q, which is gone: the log ends at %d", what, at.partition, at.offset, v, len(values))
			} else if values[at.offset] != v {
				t.Fatalf("%s at partition %d, offset %d: %.40q, where %.40q is", what, at.partition, at.offset, v, values[at.offset])
			}
		}
	}
	w.story.mu.Lock()
	defer w.story.mu.Unlock()
	told("acknowledged", w.story.acked)
	told("read", w.story.seen)
	t.Logf("%d records in the log, %d acknowledged, %d read by the reader", total, len(w.story.acked), len(w.story.seen))
}

// readTopic reads all records of a topic, by partition and, as no offset may be missing, by offset.
func readTopic(t testing.TB, addr, topic string) map[int32][]string {
	t.Helper()
	cl := crashClient(t, addr)
	adm := kadm.NewClient(cl)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
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
