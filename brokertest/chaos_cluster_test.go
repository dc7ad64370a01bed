package brokertest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/raftsman/raftsman/brokertest"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// TestChaosOfACluster lets producers, readers and groups at three nodes that are killed, stopped, cut off, lose their power and their disks
// under them, as long as what is acknowledged can survive. It must: once, in order, and alike on all replicas.
func TestChaosOfACluster(t *testing.T) {
	seed, d := *chaosSeed, *chaosFor
	if seed == 0 {
		seed = rand.Uint64() >> 1
	}
	switch {
	case d > 0:
	case soaking():
		d = 5 * time.Minute
	default:
		d = 4 * time.Second
	}
	t.Logf("to repeat: go test ./brokertest -run TestChaosOfACluster -chaos-seed %d -chaos-for %v", seed, d)
	w := newClusterWorld(t, seed)
	w.run(d)
}

// clusterWorld is a cluster, the clients, and what they told the checker.
type clusterWorld struct {
	testing.TB
	seed    uint64
	r       *rand.Rand
	cluster *brokertest.Cluster
	disks   atomic.Uint64 // that were made
	asker   *kgo.Client
	admin   *kadm.Client // by asker
	topic   string
	places  []place
	ledger  *ledger
	faults  atomic.Int32

	down    []int // nodes that don't run
	counts  map[string]int
	workers sync.WaitGroup
}

const clusterNodes = 3

func newClusterWorld(t *testing.T, seed uint64) *clusterWorld {
	t.Helper()
	w := &clusterWorld{TB: t, seed: seed, r: rand.New(rand.NewPCG(seed, 0)), topic: "t", counts: map[string]int{}}
	w.ledger = newLedger(w.fault)
	opts := []brokertest.Option{
		brokertest.Disks(func() vfs.FS { return faultfs.NewDisk(seed + w.disks.Add(1)) }),
		brokertest.Property("replica.lag.time.max.ms", "1500"),
		brokertest.Property("broker.session.timeout.ms", "3000"),
		brokertest.Property("broker.heartbeat.interval.ms", "300"),
		brokertest.Property("offsets.topic.num.partitions", "3"),
		brokertest.Property("min.insync.replicas", "2"),
		brokertest.Property("metadata.log.max.record.bytes.between.snapshots", "20000"),
	}
	if *chaosLog {
		opts = append(opts, brokertest.Verbose())
	}
	w.cluster = brokertest.StartCluster(t, clusterNodes, opts...)
	w.asker = w.client()
	w.admin = kadm.NewClient(w.asker)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const partitions = 3
	created, err := w.admin.CreateTopic(ctx, partitions, clusterNodes, nil, w.topic)
	if err != nil {
		t.Fatal(err)
	}
	for index := range int32(partitions) {
		w.places = append(w.places, place{topic: created.ID, name: w.topic, index: index})
	}
	return w
}

// fault reports what must not be. After some the rest is noise.
func (w *clusterWorld) fault(format string, args ...any) {
	w.Helper()
	if n := w.faults.Add(1); n <= 10 {
		w.Errorf("seed %d: %s", w.seed, fmt.Sprintf(format, args...))
	}
}

// client connects a client to the cluster until the test ends.
func (w *clusterWorld) client(extra ...kgo.Opt) *kgo.Client {
	w.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(w.cluster.Seeds()...),
		kgo.MetadataMinAge(50 * time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.RequestTimeoutOverhead(5 * time.Second), kgo.AlwaysRetryEOF(), // a node that ends breaks connections that are new, too
	}, extra...)...)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(client.Close)
	return client
}

// run disturbs the cluster for some time and then checks everything.
func (w *clusterWorld) run(d time.Duration) {
	w.Helper()
	ctx, over := context.WithCancel(context.Background())
	defer over()
	const producers = 2
	for i := range producers {
		w.workers.Go(func() { w.produce(ctx, fmt.Sprint("producer", i)) })
	}
	w.workers.Go(func() { w.consume(ctx, "readers") })
	w.workers.Go(func() { w.keep(ctx, "kept") })
	w.disturb(d)
	w.calm()
	over()
	w.workers.Wait()
	w.check("readers", "kept")
}

// disturb does harm until the time is over.
func (w *clusterWorld) disturb(d time.Duration) {
	w.Helper()
	for began := time.Now(); time.Since(began) < d; {
		time.Sleep(time.Duration(100+w.r.IntN(900)) * time.Millisecond) // the workload goes on meanwhile
		w.harm()
	}
}

// harm does one thing to the cluster. A majority may be gone, but no disk is emptied that others need.
func (w *clusterWorld) harm() {
	w.Helper()
	if len(w.down) > 0 && w.r.IntN(3) > 0 {
		w.calm()
		return
	}
	id := 1 + w.r.IntN(clusterNodes)
	other := 1 + (id+w.r.IntN(clusterNodes-1))%clusterNodes
	switch n := w.r.IntN(20); {
	case n < 4:
		w.end("kill", id, w.cluster.Kill)
	case n < 7:
		w.end("stop", id, w.cluster.Stop)
	case n < 10:
		w.end("cut the power of", id, w.cutPower)
	case n < 11:
		for id := 1; id <= clusterNodes; id++ {
			w.end("cut the power of", id, w.cutPower)
		}
	case n < 14:
		w.did("cut the way", fmt.Sprint(id, " to ", other))
		w.cluster.Cut(id, other)
	case n < 16:
		w.did("isolate", fmt.Sprint(id))
		w.cluster.Isolate(id)
	case n < 18:
		w.did("heal", "")
		w.cluster.Heal()
	default:
		w.wipe(id)
	}
}

func (w *clusterWorld) did(what, whom string) {
	w.counts[what]++
	w.Logf("%s: %s %s", time.Now().Format("05.000"), what, whom)
}

// end ends a node that runs.
func (w *clusterWorld) end(what string, id int, how func(int)) {
	w.Helper()
	if slices.Contains(w.down, id) {
		return
	}
	w.did(what, fmt.Sprint(id))
	how(id)
	w.down = append(w.down, id)
}

// cutPower has a node's disk fail at one of its next operations. What was not flushed is lost in part.
func (w *clusterWorld) cutPower(id int) {
	fs, _ := w.cluster.Disk(id)
	disk := fs.(*faultfs.Disk)
	disk.CutAt(w.r.IntN(40))
	late := time.NewTimer(time.Duration(w.r.IntN(200)) * time.Millisecond)
	defer late.Stop()
	select {
	case <-w.cluster.Node(id).Ended():
	case <-late.C:
	}
	w.cluster.Kill(id)
	disk.Restart()
}

// calm has all nodes run, and reach each other.
func (w *clusterWorld) calm() {
	w.Helper()
	w.cluster.Heal()
	if len(w.down) > 0 {
		w.did("restart", fmt.Sprint(w.down))
		w.cluster.Restart(w.down...)
		w.down = nil
	}
}

// wipe empties the disk of a node, where all nodes have everything.
func (w *clusterWorld) wipe(id int) {
	w.Helper()
	w.calm()
	if w.inSync(3*time.Second) != "" {
		return
	}
	w.end("kill", id, w.cluster.Kill)
	w.did("wipe", fmt.Sprint(id))
	w.cluster.Wipe(id)
}

// inSync waits until all replicas are in sync and all nodes vote, and returns what is missing, if it is in the end.
func (w *clusterWorld) inSync(most time.Duration) (lacks string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	for {
		now := w.lacking(ctx)
		if now == "" {
			return ""
		}
		if ctx.Err() != nil {
			return lacks
		}
		lacks = now
		time.Sleep(20 * time.Millisecond)
	}
}

func (w *clusterWorld) lacking(ctx context.Context) string {
	topics, err := w.admin.ListTopicsWithInternal(ctx)
	if err != nil || topics.Error() != nil {
		return fmt.Sprintf("topics: %v, %v", err, topics.Error())
	}
	for _, topic := range topics.Sorted() {
		for _, p := range topic.Partitions.Sorted() {
			if len(p.ISR) < clusterNodes {
				return fmt.Sprintf("%s-%d: leader %d of epoch %d, in sync %v, offline %v", p.Topic, p.Partition, p.Leader, p.LeaderEpoch, p.ISR, p.OfflineReplicas)
			}
		}
	}
	for id := 1; id <= clusterNodes; id++ {
		quorum, err := describeQuorum().RequestWith(ctx, w.asker.Broker(id))
		if err != nil || quorum.ErrorCode != 0 || len(quorum.Topics) != 1 || quorum.Topics[0].Partitions[0].ErrorCode != 0 {
			return fmt.Sprintf("node %d describes the quorum: %+v, %v", id, quorum, err)
		}
		metadata := quorum.Topics[0].Partitions[0]
		upToDate := map[int32]bool{}
		for _, v := range metadata.CurrentVoters {
			upToDate[v.ReplicaID] = v.LogEndOffset >= metadata.HighWatermark
		}
		for id := range int32(clusterNodes) {
			if !upToDate[id+1] || len(metadata.CurrentVoters) > clusterNodes {
				return fmt.Sprintf("high watermark %d, voters %+v", metadata.HighWatermark, metadata.CurrentVoters)
			}
		}
	}
	return ""
}

// produce sends numbered records to all partitions, and returns when all of them are acknowledged.
func (w *clusterWorld) produce(ctx context.Context, name string) {
	client := w.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.ProduceRequestTimeout(5*time.Second))
	r := w.chance(name)
	numbers := make([]int, len(w.places))
	for ctx.Err() == nil {
		p := w.places[r.IntN(len(w.places))]
		number := numbers[p.index]
		numbers[p.index]++
		id := fmt.Sprintf("%s/%d/%d", name, p.index, number)
		value := []byte(id + strings.Repeat(" ", r.IntN(300)))
		w.ledger.sending(id, sent{producer: name, number: number, hash: recordHash(nil, value, nil)})
		client.Produce(context.Background(), &kgo.Record{Topic: p.name, Partition: p.index, Value: value}, func(record *kgo.Record, err error) {
			if err != nil {
				w.fault("%s: record %s: %v", name, id, err)
				return
			}
			w.ledger.acked(p, record.Offset, id)
		})
		time.Sleep(time.Duration(r.IntN(6)) * time.Millisecond)
	}
	flushing, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := client.Flush(flushing); err != nil {
		w.fault("%s: %d records were not acknowledged within %v after all was mended: %v", name, client.BufferedProduceRecords(), patience, err)
	}
}

// consume is the only member of a group, and commits what it has read.
func (w *clusterWorld) consume(ctx context.Context, group string) {
	client := w.client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(w.topic), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		w.noLoss(group, fetches)
		w.learn(group, fetches)
		records := fetches.Records()
		if len(records) == 0 {
			continue
		}
		committing, cancel := context.WithTimeout(ctx, 5*time.Second)
		if err := client.CommitRecords(committing, records...); err == nil {
			for _, r := range records {
				w.ledger.committed(group, w.places[r.Partition], r.Offset+1)
			}
		}
		cancel()
		w.findCommits(ctx, group, 5*time.Second)
	}
}

// keep commits ever greater offsets without being a member.
func (w *clusterWorld) keep(ctx context.Context, group string) {
	for at := int64(1); ctx.Err() == nil; at++ {
		var offsets kadm.Offsets
		for _, p := range w.places {
			offsets.AddOffset(p.name, p.index, at, -1)
		}
		committing, cancel := context.WithTimeout(ctx, 5*time.Second)
		committed, err := w.admin.CommitOffsets(committing, group, offsets)
		cancel()
		for _, p := range w.places {
			if c, ok := committed.Lookup(p.name, p.index); err == nil && ok && c.Err == nil {
				w.ledger.committed(group, p, at)
			}
		}
		w.findCommits(ctx, group, 5*time.Second)
		time.Sleep(5 * time.Millisecond)
	}
}

// findCommits asks for committed offsets, and tells whether there was an answer.
func (w *clusterWorld) findCommits(ctx context.Context, group string, most time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	floors := make([]int64, len(w.places))
	for i, p := range w.places {
		floors[i] = w.ledger.commitFloor(group, p)
	}
	found, err := w.admin.FetchOffsets(ctx, group)
	if err != nil || found.Error() != nil {
		return false
	}
	for i, p := range w.places {
		at := int64(-1)
		if o, ok := found.Lookup(p.name, p.index); ok {
			at = o.At
		}
		w.ledger.foundCommit("somebody", group, p, floors[i], at)
	}
	return true
}

// noLoss reports that a reader found the log shorter than it was.
func (w *clusterWorld) noLoss(who string, fetches kgo.Fetches) {
	fetches.EachError(func(topic string, partition int32, err error) {
		if loss := new(kgo.ErrDataLoss); errors.As(err, &loss) {
			w.fault("%s: partition %d of %s: %v", who, partition, topic, err)
		}
	})
}

// learn tells the ledger what somebody has read.
func (w *clusterWorld) learn(who string, fetches kgo.Fetches) {
	fetches.EachRecord(func(r *kgo.Record) {
		w.ledger.read(who, w.places[r.Partition], r.Offset, fact{
			id: strings.TrimRight(string(r.Value), " "), hash: recordHash(nil, r.Value, nil), epoch: r.LeaderEpoch, ms: r.Timestamp.UnixMilli(),
		})
	})
}

// check looks at all that is there when nobody writes any more.
func (w *clusterWorld) check(groups ...string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, group := range groups {
		for !w.findCommits(ctx, group, patience) {
			if ctx.Err() != nil {
				w.Fatalf("seed %d: the committed offsets of group %s were not to be had within %v", w.seed, group, patience)
			}
		}
	}
	ends, err := w.admin.ListEndOffsets(ctx, w.topic)
	if err != nil || ends.Error() != nil {
		w.Fatalf("seed %d: the ends of all partitions: %v, %v", w.seed, err, ends.Error())
	}
	w.readAll(ctx, ends)
	records := 0
	for _, p := range w.places {
		end, _ := ends.Lookup(p.name, p.index)
		records += w.ledger.finish(p, 0, end.Offset)
	}
	acked, sent := w.ledger.acknowledged()
	if acked != sent || records != sent {
		w.fault("%d records were sent, %d acknowledged, %d are there", sent, acked, records)
	}
	if lacks := w.inSync(patience); lacks != "" {
		w.Fatalf("seed %d: not all replicas are in sync and all nodes voters %v after all was mended: %s", w.seed, patience, lacks)
	}
	w.alike()
	w.Logf("%d records; %v", records, w.counts)
}

func (w *clusterWorld) readAll(ctx context.Context, ends kadm.ListedOffsets) {
	w.Helper()
	reader := w.client(kgo.ConsumeTopics(w.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	next := make([]int64, len(w.places))
	behind := func() bool {
		return slices.ContainsFunc(w.places, func(p place) bool {
			end, _ := ends.Lookup(p.name, p.index)
			return next[p.index] < end.Offset
		})
	}
	for behind() {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			w.Fatalf("seed %d: read up to %v within %v, not to the ends %v", w.seed, next, patience, ends)
		}
		w.noLoss("the last reader", fetches)
		w.learn("the last reader", fetches)
		fetches.EachRecord(func(r *kgo.Record) { next[r.Partition] = r.Offset + 1 })
	}
}

// alike stops the nodes and compares their logs.
func (w *clusterWorld) alike() {
	w.Helper()
	for id := 1; id <= clusterNodes; id++ {
		w.cluster.Kill(id)
	}
	for _, p := range w.places {
		first := w.log(1, p)
		for id := 2; id <= clusterNodes; id++ {
			if log := w.log(id, p); !bytes.Equal(first, log) {
				same := 0
				for same < min(len(first), len(log)) && first[same] == log[same] {
					same++
				}
				w.fault("the logs of %s on the nodes 1 and %d, of %d and %d bytes, differ from byte %d on", p, id, len(first), len(log), same)
			}
		}
	}
}

// log is what a replica's segments hold together.
func (w *clusterWorld) log(id int, p place) (all []byte) {
	w.Helper()
	fs, dir := w.cluster.Disk(id)
	dir = filepath.Join(dir, p.String())
	entries, err := fs.ReadDir(dir)
	if err != nil {
		w.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name, ".log") {
			continue
		}
		segment, err := vfs.ReadFile(fs, filepath.Join(dir, e.Name))
		if err != nil {
			w.Fatal(err)
		}
		all = append(all, segment...)
	}
	return all
}

// chance is the dice of one client: the same for the same seed and name.
func (w *clusterWorld) chance(name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return rand.New(rand.NewPCG(w.seed, h.Sum64()))
}
