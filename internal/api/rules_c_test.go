package api_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/brokertest"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/raw"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/record/compress"
)

// produce sends one batch to partition 0 of a topic, waits for it to be safe and returns its row.
func (l *link) produce(version int16, topic string, records []byte) kmsg.ProduceResponseTopicPartition {
	l.Helper()
	return l.Ask(raw.Produce(version, -1, raw.ProduceRow{Topic: topic, Records: records})).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
}

// fetch reads partition 0 of a topic.
func (l *link) fetch(topic string, offset int64) kmsg.FetchResponseTopicPartition {
	l.Helper()
	return l.Ask(raw.Fetch(12, raw.FetchRow{Topic: topic, Offset: offset})).(*kmsg.FetchResponse).Topics[0].Partitions[0]
}

// end is the log's end of partition 0.
func (l *link) end(topic string) int64 {
	l.Helper()
	return l.Ask(raw.ListOffsets(7, raw.ListRow{Topic: topic, Timestamp: -1})).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].Offset
}

// whole splits bytes into batches, all of them whole.
func whole(t testing.TB, b []byte) (batches []record.Batch) {
	t.Helper()
	for len(b) > 0 {
		batch, rest, err := record.Split(b)
		if err != nil {
			t.Fatalf("batch %d: %v", len(batches), err)
		}
		batches, b = append(batches, batch), rest
	}
	return batches
}

// The limit is on the batch as it was sent, compressed or not, and touches no other partition.
func TestRule38SizeOfABatch(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	l.Create("small", 1, "max.message.bytes", "1000")
	l.Create("large", 1)
	large := raw.Values(strings.Repeat("x", 1100))
	b := record.Builder{Compression: compress.Spec{Codec: compress.Gzip}}
	b.Add([]byte("k"), []byte(strings.Repeat("x", 1100)), nil, raw.LongAgoMs)
	packed := slices.Clone(b.Build())
	for version := int16(3); version <= 12; version++ {
		resp := l.Ask(raw.Produce(version, -1, raw.ProduceRow{Topic: "small", Records: large}, raw.ProduceRow{Topic: "large", Records: large})).(*kmsg.ProduceResponse)
		code(t, fmt.Sprintf("v%d: 1100 bytes", version), resp.Topics[0].Partitions[0].ErrorCode, kafka.MessageTooLarge)
		code(t, fmt.Sprintf("v%d: the other partition", version), resp.Topics[1].Partitions[0].ErrorCode, kafka.None)
		code(t, fmt.Sprintf("v%d: compressed", version), l.produce(version, "small", packed).ErrorCode, kafka.None)
	}
	if small, large := l.end("small"), l.end("large"); small != 10 || large != 10 {
		t.Errorf("%d and %d records were kept, want 10 and 10", small, large)
	}
}

func TestRule39BatchLargerThanASegment(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	l.Create("t", 1, "segment.bytes", "1048576", "max.message.bytes", "2097152")
	code(t, "1.5 MB into segments of 1 MiB", l.produce(9, "t", raw.Values(strings.Repeat("x", 1_500_000))).ErrorCode, kafka.RecordListTooLarge)
	code(t, "0.5 MB", l.produce(9, "t", raw.Values(strings.Repeat("x", 500_000))).ErrorCode, kafka.None)
	if end := l.end("t"); end != 1 {
		t.Errorf("%d records were kept, want 1", end)
	}
}

func TestRule40NoKeyInACompactedTopic(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	l.Create("c", 1, "cleanup.policy", "compact")
	b := record.Builder{}
	b.Add([]byte("k"), []byte("v"), nil, raw.LongAgoMs)
	b.Add(nil, []byte("v"), nil, raw.LongAgoMs)
	b.Add([]byte{}, []byte("an empty key is one"), nil, raw.LongAgoMs)
	b.Add(nil, []byte("v"), nil, raw.LongAgoMs)
	batch := b.Build()
	for version := int16(3); version <= 12; version++ {
		row := l.produce(version, "c", slices.Clone(batch))
		code(t, fmt.Sprintf("v%d", version), row.ErrorCode, kafka.InvalidRecord)
		if version < 8 {
			continue
		}
		var named []int32
		for _, r := range row.ErrorRecords {
			named = append(named, r.RelativeOffset)
		}
		if !slices.Equal(named, []int32{1, 3}) || row.ErrorMessage == nil {
			t.Errorf("v%d: records %v are named, want 1 and 3; message %s", version, named, deref(row.ErrorMessage))
		}
	}
	if end := l.end("c"); end != 0 {
		t.Errorf("%d records of a refused batch were kept", end)
	}
}

func TestRule41CRCOfABatch(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	l.Create("t", 1)
	good := raw.Values("a", "b")
	for i := range good {
		b := slices.Clone(good)
		b[i] ^= 1
		switch row := l.produce(9, "t", b); {
		case i >= 12 && i < 16: // the leader epoch, which the CRC does not cover
			code(t, fmt.Sprintf("byte %d", i), row.ErrorCode, kafka.None)
		case i >= 17:
			code(t, fmt.Sprintf("byte %d", i), row.ErrorCode, kafka.CorruptMessage)
		default: // base offset, length and magic: refused in other ways too
			if row.ErrorCode == 0 {
				t.Errorf("byte %d was flipped and the batch taken", i)
			}
		}
	}
	if end := l.end("t"); end != 8 {
		t.Errorf("%d records were kept, want the 8 of four good batches", end)
	}
	for _, b := range whole(t, l.fetch("t", 0).RecordBatches) {
		if err := b.CheckCRC(); err != nil || b.LeaderEpoch() != 0 {
			t.Errorf("stored with epoch %d, %v", b.LeaderEpoch(), err)
		}
	}
}

func TestRule42ShapeOfABatch(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	l.Create("t", 1)
	producer := func(b []byte) { raw.Put(43, int64(5))(b); raw.Put(51, int16(0))(b); raw.Put(53, int32(-1))(b) }
	for _, c := range []struct {
		name    string
		records []byte
		want    kafka.Error
	}{
		{"two batches", append(raw.Values("a"), raw.Values("b")...), kafka.InvalidRecord},
		{"count below the last offset", raw.Forged(raw.Put(57, int32(2))), kafka.InvalidRecord},
		{"count above the last offset", raw.Forged(raw.Put(57, int32(4))), kafka.InvalidRecord},
		{"a count of 0", raw.Forged(func(b []byte) { raw.Put(57, int32(0))(b); raw.Put(23, int32(-1))(b) }), kafka.InvalidRecord},
		{"a negative count", raw.Forged(raw.Put(57, int32(-1))), kafka.InvalidRecord},
		{"last offset delta of 2^31-1", raw.Forged(raw.Put(23, int32(math.MaxInt32))), kafka.InvalidRecord},
		{"control", raw.Forged(raw.Put(21, int16(0x20))), kafka.InvalidRecord},
		{"negative sequence with a producer", raw.Forged(producer), kafka.InvalidRecord},
		{"base offset 5", raw.Forged(raw.Put(0, int64(5))), kafka.InvalidRecord},
		{"base offset -1", raw.Forged(raw.Put(0, int64(-1))), kafka.InvalidRecord},
		{"magic 0", raw.Forged(func(b []byte) { b[16] = 0 }), kafka.InvalidRecord},
		{"magic 1", raw.Forged(func(b []byte) { b[16] = 1 }), kafka.InvalidRecord},
		{"magic 3", raw.Forged(func(b []byte) { b[16] = 3 }), kafka.CorruptMessage},
		{"transactional", raw.Forged(raw.Put(21, int16(0x10))), kafka.TransactionalIdAuthorizationFailed},
		{"transactional control", raw.Forged(raw.Put(21, int16(0x30))), kafka.TransactionalIdAuthorizationFailed},
	} {
		for _, version := range []int16{3, 9, 12} {
			row := l.produce(version, "t", slices.Clone(c.records))
			code(t, fmt.Sprintf("v%d: %s", version, c.name), row.ErrorCode, c.want)
			if row.BaseOffset != -1 {
				t.Errorf("v%d: %s: refused with base offset %d", version, c.name, row.BaseOffset)
			}
		}
	}
	if end := l.end("t"); end != 0 {
		t.Errorf("%d forged records were kept", end)
	}
}

func TestRule43MalformedInside(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	l.Create("t", 1)
	b := record.Builder{Compression: compress.Spec{Codec: compress.Gzip}}
	b.Add([]byte("k"), []byte(strings.Repeat("v", 500)), nil, raw.LongAgoMs)
	packed := slices.Clone(b.Build())
	for name, c := range map[string]struct {
		records []byte
		want    []kafka.Error
	}{
		"length -1":                {raw.Forged(raw.Put(8, int32(-1))), []kafka.Error{kafka.CorruptMessage}},
		"length of 2^31-1":         {raw.Forged(raw.Put(8, int32(math.MaxInt32))), []kafka.Error{kafka.InvalidRecord}},
		"length too small":         {raw.Forged(raw.Put(8, int32(10))), []kafka.Error{kafka.CorruptMessage}},
		"length beyond the blob":   {raw.Forged(raw.Put(8, int32(5000))), []kafka.Error{kafka.InvalidRecord}},
		"cut":                      {raw.Values("a", "b")[:70], []kafka.Error{kafka.InvalidRecord}},
		"no bytes":                 {[]byte{}, []kafka.Error{kafka.InvalidRecord}},
		"more records than said":   {raw.Forged(func(b []byte) { raw.Put(57, int32(2))(b); raw.Put(23, int32(1))(b) }), []kafka.Error{kafka.InvalidRecord, kafka.CorruptMessage}},
		"fewer records than said":  {raw.Forged(func(b []byte) { raw.Put(57, int32(4))(b); raw.Put(23, int32(3))(b) }), []kafka.Error{kafka.InvalidRecord, kafka.CorruptMessage}},
		"a record's length is -1":  {raw.Forged(func(b []byte) { b[61] = 1 }), []kafka.Error{kafka.InvalidRecord, kafka.CorruptMessage}},
		"a record's length is 60":  {raw.Forged(func(b []byte) { b[61] = 120 }), []kafka.Error{kafka.InvalidRecord, kafka.CorruptMessage}},
		"compressed and cut":       {raw.Sealed(cut(packed, 20)), []kafka.Error{kafka.InvalidRecord, kafka.CorruptMessage}},
		"compressed with rubbish":  {raw.Sealed(spoilt(packed)), []kafka.Error{kafka.InvalidRecord, kafka.CorruptMessage}},
		"compressed, says snappy":  {raw.Sealed(recoded(packed, 2)), []kafka.Error{kafka.InvalidRecord, kafka.CorruptMessage}},
		"compressed, says zstd":    {raw.Sealed(recoded(packed, 4)), []kafka.Error{kafka.InvalidRecord, kafka.CorruptMessage}},
		"compressed, says nothing": {raw.Sealed(recoded(packed, 0)), []kafka.Error{kafka.InvalidRecord, kafka.CorruptMessage}},
		"an unknown codec":         {raw.Sealed(recoded(packed, 5)), []kafka.Error{kafka.InvalidRecord, kafka.CorruptMessage, kafka.UnsupportedCompressionType}},
	} {
		row := l.produce(9, "t", c.records)
		if got := kafka.Error(row.ErrorCode); !slices.Contains(c.want, got) {
			t.Errorf("%s: %v, want one of %v", name, got, c.want)
		}
	}
	if end := l.end("t"); end != 0 {
		t.Errorf("%d malformed records were kept", end)
	}
}

// cut takes bytes from the end of a batch, and says so in its length.
func cut(b []byte, n int) []byte {
	b = slices.Clone(b[:len(b)-n])
	raw.Put(8, int32(len(b)-12))(b)
	return b
}

// spoilt turns bits in the middle of the records.
func spoilt(b []byte) []byte {
	b = slices.Clone(b)
	for i := 70; i < len(b)-4; i++ {
		b[i] ^= 0x55
	}
	return b
}

// recoded claims another codec.
func recoded(b []byte, codec byte) []byte {
	b = slices.Clone(b)
	b[22] = b[22]&^7 | codec
	return b
}

// The broker's time comes with the answer where the topic says so, and -1 where the record's own counts.
func TestRule44AppendTimeInTheAnswer(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	l.Create("created", 1)
	l.Create("appended", 1, "message.timestamp.type", "LogAppendTime")
	for version := int16(3); version <= 12; version++ {
		before := time.Now().UnixMilli()
		appended, created := l.produce(version, "appended", raw.Values("x")), l.produce(version, "created", raw.Values("x"))
		after := time.Now().UnixMilli()
		if appended.ErrorCode != 0 || appended.LogAppendTime < before || appended.LogAppendTime > after || created.LogAppendTime != -1 {
			t.Errorf("v%d: append time %d between %d and %d, create time %d, want -1", version, appended.LogAppendTime, before, after, created.LogAppendTime)
		}
	}
}

// The batch itself says that the broker's time counts, with a CRC that is right, and a client sees that time on every record.
func TestRule45AppendTimeInTheBatch(t *testing.T) {
	b := brokertest.Start(t)
	l := connect(t, b.Addr())
	l.Create("t", 1, "message.timestamp.type", "LogAppendTime")
	began := time.Now().Add(-time.Millisecond)
	for _, codec := range []compress.Codec{compress.None, compress.Gzip, compress.Snappy, compress.LZ4, compress.Zstd} {
		code(t, codec.String(), l.produce(9, "t", raw.Batch(codec, 2, 3)).ErrorCode, kafka.None)
	}
	for _, b := range whole(t, l.fetch("t", 0).RecordBatches) {
		if err := b.CheckCRC(); err != nil || !b.LogAppendTime() || b.MaxTimestampMs() < began.UnixMilli() {
			t.Errorf("batch at %d: append time %v, max timestamp %d, %v", b.BaseOffset(), b.LogAppendTime(), b.MaxTimestampMs(), err)
		}
	}
	cl := client(t, b, kgo.ConsumeTopics("t"))
	for seen := 0; seen < 10; {
		fetches := cl.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			seen++
			if r.Attrs.TimestampType() != 1 || r.Timestamp.Before(began) {
				t.Errorf("offset %d: type %d, time %v", r.Offset, r.Attrs.TimestampType(), r.Timestamp)
			}
		})
	}
}

// A commit to a partition that is not there is refused by itself, and the others are kept.
func TestRule47CommitsToPartitionsThatAreNotThere(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	id := l.Create("t", 1)
	l.coordinator("g")
	for version := int16(2); version <= 10; version++ {
		row := raw.CommitRow{Topic: "t", Offset: int64(version)}
		gone := raw.CommitRow{Topic: "t", Partition: 99, Offset: 1}
		if version >= 10 {
			row.Topic, row.ID, gone.Topic, gone.ID = "", id, "", id
		}
		resp := l.Ask(raw.Commit(version, "g", "", -1, row, gone)).(*kmsg.OffsetCommitResponse).Topics[0].Partitions
		code(t, fmt.Sprintf("v%d: partition 0", version), resp[0].ErrorCode, kafka.None)
		code(t, fmt.Sprintf("v%d: partition 99", version), resp[1].ErrorCode, kafka.UnknownTopicOrPartition)
		if got := l.committed("g", "t", 0); got != int64(version) {
			t.Errorf("v%d: committed %d, want %d", version, got, version)
		}
		if got := l.committed("g", "t", 99); got != -1 {
			t.Errorf("v%d: partition 99 has %d", version, got)
		}
	}
}

// coordinator waits until the group's coordinator is there, and has loaded what it is to know.
func (l *link) coordinator(group string) {
	l.Helper()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey = group
	raw.Until(l.Conn, req, "a coordinator", raw.Found)
	raw.Until(l.Conn, raw.At(5, kmsg.NewPtrListGroupsRequest()), "all groups", func(r *kmsg.ListGroupsResponse) bool { return r.ErrorCode == 0 })
}

// committed is a group's offset in one partition, -1 for none.
func (l *link) committed(group, topic string, partition int32) int64 {
	l.Helper()
	resp := l.Ask(raw.Offsets(7, group, []raw.CommitRow{{Topic: topic, Partition: partition}})).(*kmsg.OffsetFetchResponse)
	return resp.Topics[0].Partitions[0].Offset
}

// acks is -1, 0 or 1, and nothing else.
func TestRule48AcksAndInSyncReplicas(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	l.Create("t", 1)
	for version := int16(3); version <= 12; version++ {
		for acks, want := range map[int16]kafka.Error{2: kafka.InvalidRequiredAcks, -2: kafka.InvalidRequiredAcks, 32767: kafka.InvalidRequiredAcks, 1: kafka.None, -1: kafka.None} {
			row := l.Ask(raw.Produce(version, acks, raw.ProduceRow{Topic: "t", Records: raw.Values("x")})).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
			code(t, fmt.Sprintf("v%d: acks=%d", version, acks), row.ErrorCode, want)
			if row.ErrorCode != 0 && row.BaseOffset != -1 {
				t.Errorf("v%d: acks=%d: refused with base offset %d", version, acks, row.BaseOffset)
			}
		}
	}
	if end := l.end("t"); end != 20 {
		t.Errorf("%d records were kept, want 20", end)
	}
}

// One replica is all there is: a minimum of two counts as one.
func TestRuleH1InSyncMinimumOfASingleReplica(t *testing.T) {
	l := connect(t, brokertest.Start(t, brokertest.Property("min.insync.replicas", "2")).Addr())
	l.Create("by-default", 1)
	l.Create("by-topic", 1, "min.insync.replicas", "3")
	for _, name := range []string{"by-default", "by-topic"} {
		code(t, name, l.produce(9, name, raw.Values("x")).ErrorCode, kafka.None)
	}
}
