package raw

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/config"
)

// produceUnverified is the last version in which a broker does not take a partition into the transaction by itself.
const produceUnverified = 11

// Begin asks for the producer id of a transactional id, until its coordinator is there.
func (l *Conn) Begin(id string, timeoutMs int32) Txn {
	l.Helper()
	find := At(2, kmsg.NewPtrFindCoordinatorRequest())
	find.CoordinatorKey, find.CoordinatorType = id, 1
	Until(l, find, "a coordinator", func(r *kmsg.FindCoordinatorResponse) bool { return r.ErrorCode == 0 })
	t := NewTxn(id)
	resp := Until(l, t.Init(4, timeoutMs), "a producer id", func(r *kmsg.InitProducerIDResponse) bool { return r.ErrorCode == 0 })
	t.Producer, t.Epoch = resp.ProducerID, resp.ProducerEpoch
	return t
}

// Hang leaves a transaction of one record, of LongAgoMs, open in a partition that its coordinator does not know to be part of it. Meanwhile
// brokers ask no coordinator about what is produced (transaction.partition.verification.enable).
func (l *Conn) Hang(id, topic string, partition int32) Txn {
	l.Helper()
	t := l.Begin(id, 60_000)
	everywhere := func(change string) {
		req := IncrementalAlterConfigs(1, false, Assignments{Kind: config.KindBroker, Sets: []string{change}})
		Until(l, req, change, func(r *kmsg.IncrementalAlterConfigsResponse) bool { return r.Resources[0].ErrorCode == 0 })
	}
	everywhere("transaction.partition.verification.enable=false")
	// A coordinator that is asked does not know of it; and a broker takes up settings when it has read them.
	Until(l, t.Produce(produceUnverified, ProduceRow{Topic: topic, Partition: partition, Records: t.Batch(0, 1)}), "an answer", func(r *kmsg.ProduceResponse) bool {
		code := r.Topics[0].Partitions[0].ErrorCode
		if code != 0 && !slices.Contains([]int16{kerr.TransactionAbortable.Code, kerr.ConcurrentTransactions.Code, kerr.NotLeaderForPartition.Code}, code) {
			l.Fatalf("a transaction that is to hang in %s-%d: %v", topic, partition, kerr.ErrorForCode(code))
		}
		return code == 0
	})
	everywhere("-transaction.partition.verification.enable")
	return t
}
