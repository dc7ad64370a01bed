package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// transactionLoad is a load of transactions, one after another on the connection of each producer. Each is one Produce to all partitions and
// its end, as clients do it from transaction.version 2 on. Batches are made before the clock starts and only stamped while it runs.
type transactionLoad struct {
	producers    int
	transactions int // in a turn, of all producers
	records      int // in each transaction, over the partitions
	size         int // of a value
	abortEvery   int // every so many of them are aborted; 0: none
}

func transactionFigures() []figure {
	return []figure{{"throughput", "transactions/s", true, 2}, {cpu, "µs/transaction", false, 0}, {machine, "µs/transaction", false, 0}}
}

// transactionRow asks both brokers for all of a transaction on stable storage, its records and what the coordinator writes: Kafka by
// flush.messages=1.
func transactionRow(load transactionLoad) func(context.Context, *broker, float64) (map[string]float64, error) {
	return func(ctx context.Context, b *broker, scale float64) (map[string]float64, error) {
		ctx, cancel := ctxFor(ctx)
		defer cancel()
		topic, drop, err := newTopic(ctx, b, partitions, map[string]*string{"flush.messages": new("1")})
		if err != nil {
			return nil, err
		}
		defer drop()
		all, end, err := newTransactors(ctx, b, load, topic)
		if err != nil {
			return nil, err
		}
		defer end()
		if err := flushState(ctx, b); err != nil {
			return nil, err
		}
		each := max(int(scale*float64(load.transactions))/load.producers, 20)
		elapsed, used, err := metered(b, func() error { return runAll(all, each, load.abortEvery) })
		if err != nil {
			return nil, err
		}
		count := float64(each * load.producers)
		return map[string]float64{
			"throughput": count / elapsed.Seconds(), cpu: float64(used.cpu.Microseconds()) / count, machine: float64(used.machine.Microseconds()) / count,
		}, nil
	}
}

// flushState has Kafka flush each record of the coordinators, too.
func flushState(ctx context.Context, b *broker) error {
	cl, err := b.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	changed, err := kadm.NewClient(cl).AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "flush.messages", Value: new("1")}}, "__transaction_state")
	if err != nil {
		return err
	}
	for _, c := range changed {
		err = cmp.Or(err, c.Err)
	}
	return err
}

// committedRow reads a log of transactions, some of them aborted, as readers of committed records do.
func committedRow(load transactionLoad) func(context.Context, *broker, float64) (map[string]float64, error) {
	return func(ctx context.Context, b *broker, scale float64) (map[string]float64, error) {
		ctx, cancel := ctxFor(ctx)
		defer cancel()
		topic, drop, err := newTopic(ctx, b, partitions, nil)
		if err != nil {
			return nil, err
		}
		defer drop()
		all, end, err := newTransactors(ctx, b, load, topic)
		if err != nil {
			return nil, err
		}
		defer end()
		each := max(int(scale*float64(load.transactions))/load.producers, 2*load.abortEvery)
		if err := runAll(all, each, load.abortEvery); err != nil {
			return nil, err
		}
		if err := stable(ctx, b, topic); err != nil {
			return nil, err
		}
		committed := load.producers * (each - each/load.abortEvery) * load.records
		elapsed, used, err := metered(b, func() error { return drain(ctx, b, topic, committed, kgo.FetchIsolationLevel(kgo.ReadCommitted())) })
		if err != nil {
			return nil, err
		}
		gigabytes := float64(load.producers*each*load.records*load.size) / 1e9
		return map[string]float64{
			"throughput": gigabytes * 1000 / elapsed.Seconds(), cpu: used.cpu.Seconds() / gigabytes, machine: used.machine.Seconds() / gigabytes,
		}, nil
	}
}

// stable waits until no transaction is open in a topic.
func stable(ctx context.Context, b *broker, topic string) error {
	cl, err := b.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	for {
		ends, err := adm.ListEndOffsets(ctx, topic)
		if err != nil {
			return err
		}
		committed, err := adm.ListCommittedOffsets(ctx, topic)
		if err != nil {
			return err
		}
		open := false
		ends.Each(func(o kadm.ListedOffset) {
			at, _ := committed.Lookup(topic, o.Partition)
			open = open || at.Offset < o.Offset
		})
		if !open {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// transactor is a producer with a transactional id.
type transactor struct {
	session *session
	produce *kmsg.ProduceRequest
	end     *kmsg.EndTxnRequest
}

// newTransactors returns the producers of a load, and what closes them.
func newTransactors(ctx context.Context, b *broker, load transactionLoad, topic string) ([]*transactor, func(), error) {
	var all []*transactor
	end := func() {
		for _, t := range all {
			t.session.close()
		}
	}
	for i := range load.producers {
		t, err := newTransactor(ctx, b, load, topic, fmt.Sprintf("bench-%d", i))
		if err != nil {
			end()
			return nil, nil, err
		}
		all = append(all, t)
	}
	return all, end, nil
}

// The versions of the requests are those of transaction.version 2, with topics by name.
const (
	transactionProduceVersion = 12
	transactionEndVersion     = 5
)

func newTransactor(ctx context.Context, b *broker, load transactionLoad, topic, id string) (*transactor, error) {
	s, err := dial(ctx, b)
	if err != nil {
		return nil, err
	}
	t := &transactor{session: s}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.SetVersion(2)
	find.CoordinatorKey, find.CoordinatorType = id, 1
	begin := kmsg.NewPtrInitProducerIDRequest()
	begin.SetVersion(5)
	begin.TransactionalID, begin.TransactionTimeoutMillis, begin.ProducerID, begin.ProducerEpoch = &id, 60_000, -1, -1
	given := kmsg.NewPtrInitProducerIDResponse()
	err = retried(func() error {
		found := kmsg.NewPtrFindCoordinatorResponse() // a fresh broker creates the topic that the states are in
		if err := s.askFor(find, found, &found.ErrorCode); err != nil {
			return err
		}
		return s.askFor(begin, given, &given.ErrorCode)
	})
	if err != nil {
		s.close()
		return nil, fmt.Errorf("%s: %w", id, err)
	}
	t.produce = kmsg.NewPtrProduceRequest()
	t.produce.SetVersion(transactionProduceVersion)
	t.produce.TransactionID, t.produce.Acks, t.produce.TimeoutMillis = &id, -1, 30_000
	to := kmsg.NewProduceRequestTopic()
	to.Topic = topic
	all := values(load.size)
	for p := range partitions {
		from, until := p*load.records/partitions, (p+1)*load.records/partitions
		toPartition := kmsg.NewProduceRequestTopicPartition()
		toPartition.Partition, toPartition.Records = int32(p), transactionalBatch(all[from:until])
		to.Partitions = append(to.Partitions, toPartition)
	}
	t.produce.Topics = append(t.produce.Topics, to)
	t.end = kmsg.NewPtrEndTxnRequest()
	t.end.SetVersion(transactionEndVersion)
	t.end.TransactionalID, t.end.ProducerID, t.end.ProducerEpoch = id, given.ProducerID, given.ProducerEpoch
	return t, nil
}

// transactionalBatch returns a batch of a transaction. Its producer and CRC are still to be set.
func transactionalBatch(values [][]byte) []byte {
	now := time.Now().UnixMilli()
	var records []byte
	for i, value := range values {
		record := kbin.AppendVarint([]byte{0, 0}, int32(i)) // attributes, timestamp delta
		record = kbin.AppendVarint(append(record, 1), int32(len(value)))
		record = append(append(record, value...), 0)
		records = append(kbin.AppendVarint(records, int32(len(record))), record...)
	}
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: 0x10, LastOffsetDelta: int32(len(values) - 1), FirstTimestamp: now, MaxTimestamp: now,
		NumRecords: int32(len(values)), Records: records,
	}
	b := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	return b
}

func runAll(all []*transactor, each, abortEvery int) error {
	failed := make([]error, len(all))
	var wait sync.WaitGroup
	for i, t := range all {
		wait.Go(func() {
			for n := 1; n <= each && failed[i] == nil; n++ {
				failed[i] = t.run(abortEvery == 0 || n%abortEvery != 0)
			}
		})
	}
	wait.Wait()
	return errors.Join(failed...)
}

// concurrentPause is before what is sent again because the transaction before is still ending.
const concurrentPause = time.Millisecond

// run makes one transaction.
func (t *transactor) run(commit bool) error {
	for i := range t.produce.Topics[0].Partitions {
		b := t.produce.Topics[0].Partitions[i].Records
		binary.BigEndian.PutUint64(b[43:], uint64(t.end.ProducerID))
		binary.BigEndian.PutUint16(b[51:], uint16(t.end.ProducerEpoch)) // which each end makes a new one: sequences begin at 0 again
		binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	}
	err := untilEnded(func() error {
		produced := kmsg.NewPtrProduceResponse()
		if err := t.session.ask(t.produce, produced); err != nil {
			return err
		}
		var failed error
		for _, p := range produced.Topics[0].Partitions {
			failed = cmp.Or(failed, kerr.ErrorForCode(p.ErrorCode))
		}
		return failed
	})
	if err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	t.end.Commit = commit
	ended := kmsg.NewPtrEndTxnResponse()
	err = untilEnded(func() error { return t.session.askFor(t.end, ended, &ended.ErrorCode) })
	if err != nil {
		return fmt.Errorf("end: %w", err)
	}
	t.end.ProducerID, t.end.ProducerEpoch = ended.ProducerID, ended.ProducerEpoch
	return nil
}

// askFor is ask, and the error that the response names.
func (s *session) askFor(request kmsg.Request, response kmsg.Response, code *int16) error {
	if err := s.ask(request, response); err != nil {
		return err
	}
	return kerr.ErrorForCode(*code)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// untilEnded does it again while the producer's last transaction is still ending.
func untilEnded(do func() error) error {
	for {
		err := do()
		if !errors.Is(err, kerr.ConcurrentTransactions) {
			return err
		}
		time.Sleep(concurrentPause)
	}
}
