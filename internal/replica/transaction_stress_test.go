package replica

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/record"
)

// TestTransactionsAndReadersSideBySide lets producers of transactions over several partitions, and readers of committed records with
// long polls, run against each other. No reader sees a record before its transaction is decided, none of one that was aborted,
// and in the end each has seen all the others, in order; nothing is left undecided.
func TestTransactionsAndReadersSideBySide(t *testing.T) {
	for _, durability := range []string{"flush", "os"} {
		t.Run(durability, func(t *testing.T) {
			seed := *stressSeed
			if seed == 0 {
				seed = rand.Uint64()
			}
			t.Logf("to repeat: go test ./internal/replica -run TransactionsAndReaders -stress-seed %d", seed)
			s := txnStress{world: newWorld(t, "dirs=2", "raftsman.durability="+durability), seed: seed, decided: map[string]bool{}}
			s.run()
		})
	}
}

type txnStress struct {
	*world
	seed uint64

	mu        sync.Mutex // guards all below
	decided   map[string]bool
	committed [txnPartitions][]string
}

const (
	txnPartitions = 3
	txnProducers  = 4
	txnReaders    = 2
	txnsOfEach    = 40
)

func (s *txnStress) run() {
	s.topic("t", txnPartitions)
	var producers, readers sync.WaitGroup
	for i := range txnProducers {
		producers.Go(func() { s.produce(kafka.ProducerID(i)) })
	}
	seen := make([][txnPartitions][]string, txnReaders)
	finished := make(chan struct{})
	for i := range txnReaders {
		readers.Go(func() { seen[i] = s.read(uint64(i), finished) })
	}
	producers.Wait()
	close(finished)
	readers.Wait()
	for p := range txnPartitions {
		got := s.fetch(at("t", int32(p), 0))
		if got.LastStable != got.HighWatermark {
			s.Errorf("seed %d: partition %d: the last stable offset stays at %d, the high watermark is %d", s.seed, p, got.LastStable, got.HighWatermark)
		}
		for i := range seen {
			s.compare(i, p, seen[i][p])
		}
	}
}

// produce runs the transactions of one producer: half of protocol 2, in which each has its epoch, half before it.
func (s *txnStress) produce(id kafka.ProducerID) {
	random := rand.New(rand.NewPCG(s.seed, uint64(id)))
	protocol := int16(1 + id%2)
	epoch := kafka.ProducerEpoch(0)
	var next [txnPartitions]kafka.Sequence
	for i := range txnsOfEach {
		name, commit := fmt.Sprintf("%d/%04d", id, i), random.IntN(3) > 0
		parts := random.Perm(txnPartitions)[:1+random.IntN(txnPartitions)]
		for _, p := range parts {
			for n := range 1 + random.IntN(2) {
				by := record.Producer{ID: id, Epoch: epoch, BaseSequence: next[p]}
				guard, needed, err := s.m.Verification("t", kafka.TopicID{}, int32(p), by, protocol == 2)
				if err != nil || needed != (n == 0) {
					s.Errorf("seed %d: %s: batch %d: verification needed %v, %v", s.seed, name, n, needed, err)
				}
				if r := s.inTransaction(int32(p), by, guard, name); r.Err != kafka.None {
					s.Errorf("seed %d: %s: %v %s", s.seed, name, r.Err, r.Message)
				}
				next[p]++
			}
		}
		s.mu.Lock()
		s.decided[name] = commit
		for _, p := range parts {
			if commit {
				s.committed[p] = append(s.committed[p], name)
			}
		}
		s.mu.Unlock()
		if protocol == 2 {
			epoch++
			next = [txnPartitions]kafka.Sequence{}
		}
		done := make(chan error, len(parts))
		for _, p := range parts {
			m := Marker{ProducerID: id, ProducerEpoch: epoch, CoordinatorEpoch: 1, Commit: commit, Protocol: protocol}
			s.m.EndTransaction(kafka.TopicPartition{Topic: "t", Partition: int32(p)}, m, func(err error) { done <- err })
		}
		for range parts {
			if err := answer(s, done); err != nil {
				s.Errorf("seed %d: the marker of %s: %v", s.seed, name, err)
			}
		}
		late := record.Producer{ID: id, Epoch: epoch, BaseSequence: next[parts[0]]}
		if r := s.inTransaction(int32(parts[0]), late, producer.NoGuard, "late"); r.Err != kafka.InvalidTxnState {
			s.Errorf("seed %d: a batch after the marker of %s: %v, want INVALID_TXN_STATE", s.seed, name, r.Err)
		}
	}
}

// read reads all partitions from their starts until nothing comes any more after finished.
func (s *txnStress) read(reader uint64, finished <-chan struct{}) (seen [txnPartitions][]string) {
	random := rand.New(rand.NewPCG(s.seed, 100+reader))
	var next [txnPartitions]kafka.Offset
	for {
		done := false
		select {
		case <-finished:
			done = true
		default:
		}
		req := FetchRequest{ReplicaID: -1, MaxWaitMs: 20, MinBytes: 1, MaxBytes: 1 + random.Int32N(2000), Committed: true}
		for _, p := range random.Perm(txnPartitions) {
			req.Partitions = append(req.Partitions, at("t", int32(p), next[p]))
		}
		idle := true
		for i, r := range answer(s, s.readRequest(req)) {
			p := req.Partitions[i].Partition
			if r.Err != kafka.None {
				s.Errorf("seed %d: read partition %d: %v", s.seed, p, r.Err)
				return seen
			}
			if len(r.bytes) == 0 {
				continue
			}
			idle = false
			var values []string
			values, next[p] = visible(s, r, next[p])
			if next[p] > r.LastStable {
				s.Errorf("seed %d: partition %d read to %d, last stable offset %d", s.seed, p, next[p], r.LastStable)
			}
			s.mu.Lock()
			for _, v := range values {
				if commit, is := s.decided[v]; !is || !commit {
					s.Errorf("seed %d: partition %d: %s is read: decided %v, committed %v", s.seed, p, v, is, commit)
				}
			}
			s.mu.Unlock()
			seen[p] = append(seen[p], values...)
		}
		if done && idle {
			return seen
		}
	}
}

// compare checks what one reader saw of one partition: each producer's transactions, in order.
func (s *txnStress) compare(reader, partition int, seen []string) {
	s.Helper()
	for id := range txnProducers {
		of := func(names []string) (own []string) {
			for _, name := range names {
				if name[0] == byte('0'+id) {
					own = append(own, name)
				}
			}
			return own
		}
		got, want := slices.Compact(of(seen)), of(s.committed[partition])
		if !slices.Equal(got, want) {
			s.Errorf("seed %d: reader %d, partition %d, producer %d: %v, want %v", s.seed, reader, partition, id, got, want)
		}
	}
}
