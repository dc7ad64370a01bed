package test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// produceAll writes 30 records to all partitions of a topic: in every codec, with keys, headers and times of their own or without.
func produceAll(t testing.TB, addr, topic, what string) {
	t.Helper()
	began := time.Now().Add(-time.Minute)
	for i, codec := range txnCodecs {
		cl := crashClient(t, addr, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerBatchCompression(codec))
		for n := range 6 {
			r := kgo.StringRecord(fmt.Sprint(what, " ", i, "-", n))
			if n%2 == 0 {
				r.Key, r.Timestamp = []byte{0, byte(n), 0xff}, began.Add(-time.Duration(n*i)*time.Second)
			}
			if n%3 == 0 {
				r.Headers = []kgo.RecordHeader{{Key: "trace", Value: []byte{1, 2, 0}}, {Key: "trace", Value: nil}, {Key: "", Value: []byte{}}}
			}
			if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		cl.Close()
	}
}

// wholeRecord is all that a consumer learns of a record.
func wholeRecord(r *kgo.Record) string {
	var headers []string
	for _, h := range r.Headers {
		headers = append(headers, fmt.Sprintf("%q=%#v", h.Key, h.Value))
	}
	return fmt.Sprintf("%s, time %d of type %d, codec %d, leader epoch %d, producer %d epoch %d, transactional %v, headers %v",
		contentOf(r), r.Timestamp.UnixMilli(), r.Attrs.TimestampType(), r.Attrs.CompressionType(), r.LeaderEpoch, r.ProducerID,
		r.ProducerEpoch, r.Attrs.IsTransactional(), headers)
}

// contentOf is what of a record does not depend on who took it, and when.
func contentOf(r *kgo.Record) string {
	return fmt.Sprintf("%d offset %d %#v=%#v", r.Partition, r.Offset, r.Key, string(r.Value))
}

// committedRecords reads a topic from where its partitions begin up to the last stable offsets, without what was aborted, and
// returns a line for each record, and for where each partition begins and ends.
func committedRecords(t testing.TB, addr, topic string, line func(*kgo.Record) string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), atLast)
	defer cancel()
	adm := kadm.NewClient(crashClient(t, addr))
	starts, ends := must(adm.ListStartOffsets(ctx, topic))(t), must(adm.ListCommittedOffsets(ctx, topic))(t)
	from, open, told := map[int32]kgo.Offset{}, map[int32]int64{}, map[int32][]string{}
	if err := errors.Join(starts.Error(), ends.Error()); err != nil {
		t.Fatal(err)
	}
	ends.Each(func(end kadm.ListedOffset) {
		start, _ := starts.Lookup(topic, end.Partition)
		told[end.Partition] = []string{fmt.Sprintf("%d from %d to %d", end.Partition, start.Offset, end.Offset)}
		if end.Offset > start.Offset {
			from[end.Partition], open[end.Partition] = kgo.NewOffset().At(start.Offset), end.Offset
		}
	})
	reader := crashClient(t, addr, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords())
	for len(open) > 0 {
		fetches := reader.PollFetches(ctx)
		if err := errors.Join(fetches.Err0(), ctx.Err()); err != nil {
			t.Fatalf("%s is not read up to %v: %v", topic, open, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				told[r.Partition] = append(told[r.Partition], line(r))
			}
			if r.Offset+1 >= open[r.Partition] {
				delete(open, r.Partition)
			}
		})
	}
	var all []string
	for p := range int32(len(told)) {
		all = append(all, told[p]...)
	}
	return strings.Join(all, "\n")
}

// view is all that clients learn of a cluster's topics, configurations, groups and records.
type view struct {
	census  census
	records map[string]string // by topic
}

func viewOf(t testing.TB, addr string) view {
	t.Helper()
	v := view{takeCensus(t, kadm.NewClient(crashClient(t, addr))), map[string]string{}}
	for topic := range v.census.Topics {
		if !strings.HasPrefix(topic, "__") {
			v.records[topic] = committedRecords(t, addr, topic, wholeRecord)
		}
	}
	return v
}

// check compares the view with what a broker tells after it has taken over. Kafka serves before it has loaded its groups.
func (v view) check(t testing.TB, addr, when string) {
	t.Helper()
	adm := kadm.NewClient(crashClient(t, addr))
	eventually(t, atLast, when+": all is as before", func() error {
		if was, is := v.census.String(), takeCensus(t, adm).String(); is != was {
			return errors.New("\n" + difference(was, is))
		}
		return nil
	})
	for topic, was := range v.records {
		if is := committedRecords(t, addr, topic, wholeRecord); is != was {
			t.Errorf("%s: topic %s:\n%s", when, topic, difference(was, is))
		}
	}
}
