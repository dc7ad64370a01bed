package test

import (
	"cmp"
	"context"
	bigendian "encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// viewTransactions asks a broker for everything that transactions change in its answers: fetches at both isolation levels from
// many offsets and with several limits, offsets by name and by time, and the producers. What two brokers may answer differently
// to the same log is left out: where the last bytes, of part of a batch, end; and aborted transactions behind the bytes that are
// returned, which Kafka lists as its sparse index ends later. Raftsman lists none of these, and all as
// they begin, where Kafka has them as they end.
func viewTransactions(t testing.TB, addr string, exact bool) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cl := crashClient(t, addr)
	var b strings.Builder
	for p := range int32(txnPartitions) {
		end := int64(0)
		for isolation := range int8(2) {
			for from := int64(0); from <= end+1; from += 1 + end/23 {
				for _, most := range []int32{1, 100_000, 3_000_000} {
					f := fetchFrom(ctx, t, cl, p, isolation, from, most)
					end = f.HighWatermark
					fmt.Fprintf(&b, "fetch %d isolation %d from %d most %d: %s\n", p, isolation, from, most, describeFetch(t, f, from, exact))
				}
			}
		}
		for isolation := range int8(2) {
			for _, ms := range append([]int64{-1, -2, -3, -4, 1 << 50}, timesOf(ctx, t, cl, p)...) {
				fmt.Fprintf(&b, "offset %d isolation %d time %d: %s\n", p, isolation, ms, describeOffset(ctx, t, cl, p, isolation, ms))
			}
		}
		for _, line := range describeProducers(ctx, t, cl, p) {
			fmt.Fprintf(&b, "producer %d %s\n", p, line)
		}
	}
	return b.String()
}

func fetchFrom(
	ctx context.Context, t testing.TB, cl *kgo.Client, partition int32, isolation int8, from int64, most int32,
) kmsg.FetchResponseTopicPartition {
	t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel, req.SessionEpoch = 0, 0, 50<<20, isolation, -1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = txnTopic
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition, part.FetchOffset, part.PartitionMaxBytes, part.CurrentLeaderEpoch = partition, from, most, -1
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	raw, err := cl.Broker(1).RetriableRequest(ctx, fetchByName{req})
	if err != nil {
		t.Fatal(err)
	}
	return raw.(*kmsg.FetchResponse).Topics[0].Partitions[0]
}

// fetchByName is a fetch of the last version that names topics.
type fetchByName struct{ *kmsg.FetchRequest }

func (fetchByName) MaxVersion() int16 { return 12 }

func describeFetch(t testing.TB, f kmsg.FetchResponseTopicPartition, from int64, exact bool) string {
	t.Helper()
	batches, next := 0, from
	for rest := f.RecordBatches; len(rest) >= 61; batches++ {
		size := int(bigendian.BigEndian.Uint32(rest[8:])) + 12
		if size > len(rest) {
			break
		}
		next = int64(bigendian.BigEndian.Uint64(rest)) + int64(bigendian.BigEndian.Uint32(rest[23:])) + 1
		rest = rest[size:]
	}
	asTheyBegin := func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) int {
		return cmp.Compare(a.FirstOffset, b.FirstOffset)
	}
	if exact && !slices.IsSortedFunc(f.AbortedTransactions, asTheyBegin) {
		t.Errorf("from %d: aborted transactions do not come as they begin: %v", from, f.AbortedTransactions)
	}
	slices.SortFunc(f.AbortedTransactions, asTheyBegin)
	aborted := "null"
	if f.AbortedTransactions != nil {
		aborted = ""
		for _, txn := range f.AbortedTransactions {
			if txn.FirstOffset < next {
				aborted += fmt.Sprintf("%d from %d, ", txn.ProducerID, txn.FirstOffset)
			} else if exact {
				t.Errorf("from %d: the aborted transaction at %d lies behind the bytes up to %d", from, txn.FirstOffset, next)
			}
		}
	}
	return fmt.Sprintf("%v, %d batches up to %d, high watermark %d, last stable %d, start %d, aborted (%s)", kerr.ErrorForCode(f.ErrorCode),
		batches, next, f.HighWatermark, f.LastStableOffset, f.LogStartOffset, aborted)
}

// timesOf returns the largest timestamps of some batches, of which the last are of a transaction that may be open.
func timesOf(ctx context.Context, t testing.TB, cl *kgo.Client, partition int32) (times []int64) {
	t.Helper()
	for from := int64(0); ; {
		f := fetchFrom(ctx, t, cl, partition, 0, from, 1)
		if len(f.RecordBatches) < 61 {
			break
		}
		b := f.RecordBatches
		times = append(times, int64(bigendian.BigEndian.Uint64(b[35:])))
		from = int64(bigendian.BigEndian.Uint64(b)) + int64(bigendian.BigEndian.Uint32(b[23:])) + 1
	}
	kept := times[:0:0]
	for i := 0; i < len(times); i += max(1, len(times)/20) {
		kept = append(kept, times[i], times[i]+1)
	}
	return append(kept, times[len(times)-1], slices.Max(times)+1)
}

func describeOffset(ctx context.Context, t testing.TB, cl *kgo.Client, partition int32, isolation int8, ms int64) string {
	t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel = -1, isolation
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = txnTopic
	part := kmsg.NewListOffsetsRequestTopicPartition()
	part.Partition, part.Timestamp = partition, ms
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	raw, err := cl.Broker(1).RetriableRequest(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	got := raw.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
	return fmt.Sprintf("%v, offset %d, time %d", kerr.ErrorForCode(got.ErrorCode), got.Offset, got.Timestamp)
}

func describeProducers(ctx context.Context, t testing.TB, cl *kgo.Client, partition int32) (told []string) {
	t.Helper()
	req := kmsg.NewPtrDescribeProducersRequest()
	topic := kmsg.NewDescribeProducersRequestTopic()
	topic.Topic, topic.Partitions = txnTopic, []int32{partition}
	req.Topics = append(req.Topics, topic)
	raw, err := cl.Broker(1).RetriableRequest(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	got := raw.(*kmsg.DescribeProducersResponse).Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
		t.Fatal(err)
	}
	for _, p := range got.ActiveProducers {
		told = append(told, fmt.Sprintf("%d epoch %d, sequence %d, time %d, coordinator epoch %d, open from %d", p.ProducerID, p.ProducerEpoch,
			p.LastSequence, p.LastTimestamp, p.CoordinatorEpoch, p.CurrentTxnStartOffset))
	}
	slices.Sort(told)
	return told
}
