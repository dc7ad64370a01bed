package test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	crashTopic      = "crash"
	crashPartitions = 3
	crashProducers  = 2
)

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
	members   []*committer
	before    census
	committed map[string][crashPartitions]int64 // by group
	stray     strayWork
}

// strayWork is what was asked for while the broker was killed.
type strayWork struct {
	topic          string
	created        bool
	tried, commits int64 // offsets that the in-flight group tried to commit, and that were acknowledged
}

// TestEveryAcknowledgedRecordOutlivesKill9 kills the broker again and again, also while it starts, under idempotent acks=all
// producers, a reader, a member of a group of either protocol and an administrator. Then Apache Kafka takes its place, is killed and stopped
// itself, and Raftsman takes over again, while the same clients go on.
func TestEveryAcknowledgedRecordOutlivesKill9(t *testing.T) {
	t.Parallel()
	rounds := 50
	if soak() {
		rounds = 300
	}
	seed := testSeed(t)
	w := &crashWorld{t: t, swap: newSwapDir(t, "--override", "metadata.log.max.record.bytes.between.snapshots=20000"), random: rand.New(rand.NewPCG(seed, 0)), story: newStory()}
	w.broker = w.swap.raftsman(t)
	w.adm = kadm.NewClient(crashClient(t, w.swap.addr(), kgo.RetryTimeout(atLast)))
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
	w.members = newCommitters(t, w.swap.addr())
	for _, m := range w.members {
		clients.Go(func() { m.run(ctx, w.story) })
	}

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
	for protocol, group := range crashGroups {
		if kind, state := groupNow(t, w.swap.addr(), group); kind != protocol {
			t.Errorf("%s is a group of protocol %q, %s, want %q", group, kind, state, protocol)
		}
	}
	for _, m := range w.members {
		if m.acknowledged() == [crashPartitions]int64{} {
			t.Errorf("the member of %s has committed nothing", m.group)
		}
	}
	t.Logf("%d rounds in %v, %d records acknowledged, %d read", rounds, time.Since(began).Round(time.Second), acked, seen)

	w.takeTurns()
	w.story.awaitAcks(t, 100, w.broker.exited)
	stop()
	clients.Wait()
	w.settle() // or what is acknowledged from now on could lie behind the ends that are read below
	w.story.check(t)
	w.checkRecords()
}

// takeTurns has Apache Kafka and Raftsman follow each other on the directory, after a kill and after a stop in order.
func (w *crashWorld) takeTurns() {
	dump := func() { w.t.Logf("dump-log read %v", dumpAll(w.t, w.swap.data)) }
	const loading = atLast
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
	w.settle()
}

// settle waits until it is known of all that the producers sent what became of it.
func (w *crashWorld) settle() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), atLast)
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
	w.committed, w.stray = w.acknowledged(), strayWork{}
	end()
	ended := time.Now()
	w.broker, w.patience = start(w.t), patience
	started := time.Now()
	w.compare(name, patience)
	w.t.Logf("%s: ended after %v, started in %v, compared in %v", name, ended.Sub(began), started.Sub(ended), time.Since(started))
}

// acknowledged is what the members have committed.
func (w *crashWorld) acknowledged() map[string][crashPartitions]int64 {
	all := map[string][crashPartitions]int64{}
	for _, m := range w.members {
		all[m.group] = m.acknowledged()
	}
	return all
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
	ctx, cancel := context.WithTimeout(w.t.Context(), atLast)
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
	w.committed = w.acknowledged()
	w.stray = strayWork{topic: fmt.Sprint(inFlight, "-", round)}
	cl := crashClient(w.t, w.swap.addr(), kgo.RequestRetries(0), kgo.RetryTimeout(5*time.Second))
	adm := kadm.NewClient(cl)
	ctx, cancel := context.WithTimeout(w.t.Context(), atLast)
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
		if took := w.broker.terminate(); took > stopSeen || w.broker.err != nil {
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
	ctx, cancel := context.WithTimeout(t.Context(), atLast)
	defer cancel()
	for _, m := range w.members {
		m.check(t, w.committed[m.group], w.offsets(ctx, m.group, patience))
	}
	if w.stray.topic != "" {
		w.compareStray(ctx, patience)
	}
	if t.Failed() {
		t.Fatalf("failed: %s", when)
	}
}

// offsets asks for what a group has committed, by the ids of topics that a Kafka that has just started may not know yet.
func (w *crashWorld) offsets(ctx context.Context, group string, patience time.Duration) (found kadm.OffsetResponses) {
	w.t.Helper()
	eventually(w.t, patience, "the offsets of group "+group+" are there", func() (err error) {
		found, err = w.adm.FetchOffsets(ctx, group)
		return err
	})
	return found
}

func (w *crashWorld) compareStray(ctx context.Context, patience time.Duration) {
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
	commit, _ := w.offsets(ctx, inFlight, patience).Lookup(crashTopic, 0)
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
