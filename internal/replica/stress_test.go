package replica

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
)

var stressSeed = flag.Uint64("stress-seed", 0, "seed of the stress test")

// TestProducersAndReadersSideBySide lets producers with all acks, readers with long polls over several partitions, leader changes
// and new settings run against each other. Each reader sees each record once and each producer's in order; in the end
// everything acknowledged was seen.
func TestProducersAndReadersSideBySide(t *testing.T) {
	for _, durability := range []string{"flush", "os"} {
		t.Run(durability, func(t *testing.T) {
			seed := *stressSeed
			if seed == 0 {
				seed = rand.Uint64()
			}
			t.Logf("to repeat: go test ./internal/replica -run SideBySide -stress-seed %d", seed)
			s := stress{world: newWorld(t, "dirs=2", "raftsman.durability="+durability), seed: seed}
			s.run()
		})
	}
}

type stress struct {
	*world
	seed uint64

	mu    sync.Mutex // guards acked
	acked [stressPartitions][]string
}

const (
	stressPartitions = 4
	stressProducers  = 4
	stressReaders    = 3
	stressBatches    = 150
)

func (s *stress) run() {
	id := s.topic("t", stressPartitions)
	var producers, others sync.WaitGroup
	for i := range stressProducers {
		producers.Go(func() { s.produceSome(i) })
	}
	seen := make([][stressPartitions][]string, stressReaders)
	finished := make(chan struct{})
	for i := range stressReaders {
		others.Go(func() { seen[i] = s.readAll(uint64(i), finished) })
	}
	others.Go(func() { s.disturb(id, finished) })
	producers.Wait()
	close(finished)
	others.Wait()
	for i := range seen {
		for p := range stressPartitions {
			s.compare(i, p, seen[i][p])
		}
	}
}

func (s *stress) produceSome(producer int) {
	random := rand.New(rand.NewPCG(s.seed, uint64(producer)))
	for i := range stressBatches {
		index, acks := random.Int32N(stressPartitions), int16(random.IntN(3)-1)
		value := fmt.Sprintf("%d/%05d", producer, i)
		r := answer(s, s.send("t", index, acks, plain(value, value+"+")))
		switch {
		case r.Err == kafka.None && acks != 0:
			s.mu.Lock()
			s.acked[index] = append(s.acked[index], value)
			s.mu.Unlock()
		case r.Err != kafka.None && r.Err != kafka.NotLeaderOrFollower:
			s.Errorf("seed %d: produce: %v", s.seed, r.Err)
		}
	}
}

// readAll reads all partitions from their starts until nothing comes any more after finished.
func (s *stress) readAll(reader uint64, finished <-chan struct{}) (seen [stressPartitions][]string) {
	random := rand.New(rand.NewPCG(s.seed, 100+reader))
	var next [stressPartitions]kafka.Offset
	for {
		done := false
		select {
		case <-finished:
			done = true
		default:
		}
		req := FetchRequest{ReplicaID: -1, MaxWaitMs: 20, MinBytes: random.Int32N(2000), MaxBytes: 1 + random.Int32N(4000)}
		for _, p := range random.Perm(stressPartitions) {
			req.Partitions = append(req.Partitions, at("t", int32(p), next[p]))
		}
		idle := true
		for i, r := range answer(s, s.readRequest(req)) {
			p := req.Partitions[i].Partition
			if r.Err != kafka.None {
				s.Errorf("seed %d: read partition %d: %v", s.seed, p, r.Err)
				return seen
			}
			if len(r.bytes) > 0 {
				idle = false
				var values []string
				values, next[p] = decodeValues(s, r.bytes, next[p])
				seen[p] = append(seen[p], values...)
			}
			if next[p] > r.HighWatermark {
				s.Errorf("seed %d: partition %d read to %d, high watermark %d", s.seed, p, next[p], r.HighWatermark)
			}
		}
		if done && idle {
			return seen
		}
	}
}

// disturb changes leader epochs and settings.
func (s *stress) disturb(id kafka.TopicID, finished <-chan struct{}) {
	random := rand.New(rand.NewPCG(s.seed, 200))
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-finished:
			return
		case <-ticker.C:
		}
		switch random.IntN(3) {
		case 0:
			s.elect(id, random.Int32N(stressPartitions), testNode)
		case 1:
			s.change(configRecord("t", fmt.Sprintf("max.message.bytes=%d", 10_000+random.IntN(1000))))
		case 2:
			s.m.background.retain(time.Now())
			s.m.background.checkpoint(time.Now())
		}
	}
}

// compare checks what one reader saw of one partition.
func (s *stress) compare(reader, partition int, seen []string) {
	s.Helper()
	var last [stressProducers]string
	for _, v := range seen {
		var producer int
		if _, err := fmt.Sscanf(v, "%d/", &producer); err != nil {
			s.Fatal(err)
		}
		if v <= last[producer] {
			s.Fatalf("seed %d: reader %d, partition %d: %s after %s", s.seed, reader, partition, v, last[producer])
		}
		last[producer] = v
	}
	for _, v := range s.acked[partition] {
		if !slices.Contains(seen, v) || !slices.ContainsFunc(seen, func(x string) bool { return strings.HasSuffix(x, "+") && x[:len(x)-1] == v }) {
			s.Fatalf("seed %d: reader %d did not see %s of partition %d, which was acknowledged", s.seed, reader, v, partition)
		}
	}
}

// BenchmarkProduceManyPartitions appends to 60 partitions at once, on a file system in memory: the cost of the path itself.
func BenchmarkProduceManyPartitions(b *testing.B) {
	w := newWorld(b)
	w.topic("t", 60)
	batch := plain(strings.Repeat("x", 1000))
	req := ProduceRequest{Acks: -1, TimeoutMs: 10_000}
	for i := range int32(60) {
		req.Partitions = append(req.Partitions, ProducePartition{Topic: "t", Partition: i, Records: slices.Clone(batch)})
	}
	done := make(chan struct{}, 1)
	b.ReportAllocs()
	for b.Loop() {
		for i := range req.Partitions {
			copy(req.Partitions[i].Records, batch)
		}
		w.m.Produce(&req, func([]ProduceResult) { done <- struct{}{} })
		<-done
	}
}

// BenchmarkLongPoll is the way of one record to a fetch that waits for it.
func BenchmarkLongPoll(b *testing.B) {
	w := newWorld(b)
	w.topic("t", 1)
	batch := plain(strings.Repeat("x", 100))
	scratch := slices.Clone(batch)
	produce := ProduceRequest{Acks: -1, TimeoutMs: 10_000, Partitions: []ProducePartition{{Topic: "t", Records: scratch}}}
	fetch := FetchRequest{ReplicaID: -1, MaxWaitMs: 10_000, MinBytes: 1, MaxBytes: 1 << 20, Partitions: []FetchPartition{at("t", 0, 0)}}
	acked, read := make(chan struct{}, 1), make(chan struct{}, 1)
	onProduced := func([]ProduceResult) { acked <- struct{}{} }
	onRead := func(r []FetchResult) {
		r[0].Chunk.Release()
		read <- struct{}{}
	}
	b.ReportAllocs()
	for b.Loop() {
		copy(scratch, batch)
		w.m.Read(&fetch, onRead)
		w.m.Produce(&produce, onProduced)
		<-read
		<-acked
		fetch.Partitions[0].Offset++
	}
}
