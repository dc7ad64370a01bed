package api

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/record/compress"
)

var recordPartitions = flag.String("record-partitions", "", "address of a new Apache Kafka 4.4 with one node, to record the requests to partitions from")

// partitionStep is one request of the conversation. Topic ids are known only when it is made.
type partitionStep struct {
	name    string
	request func(ids map[string]kafka.TopicID) kmsg.Request
}

// partitionTopics are the topics of the conversation, with their settings.
var partitionTopics = []struct {
	name       string
	partitions int32
	settings   []string
}{
	{"t", 2, nil},
	{"compacted", 1, []string{"cleanup.policy", "compact"}},
	{"appended", 1, []string{"message.timestamp.type", "LogAppendTime"}},
	{"small", 1, []string{"max.message.bytes", "500"}},
	{"segmented", 1, []string{"segment.bytes", "1048576", "max.message.bytes", "2097152"}},
	{"sequences", 1, nil},
	{"times", 1, nil},
	{"epochs", 1, nil},
	{"sessions", 2, nil},
	{"deleted", 1, nil},
	{"repacked", 1, []string{"compression.type", "gzip"}},
}

// oldMs is the time of the conversation's records, and futureMs one that no broker takes.
const (
	oldMs    int64 = 1_600_000_000_000
	futureMs int64 = 4_000_000_000_000
)

// valuesAt is a batch of records at the given times.
func valuesAt(codec compress.Codec, times ...int64) []byte {
	b := record.Builder{Compression: compress.Spec{Codec: codec}}
	for i, ms := range times {
		b.Add(fmt.Appendf(nil, "k%d", i), fmt.Appendf(nil, "value %d", i), nil, ms)
	}
	return b.Build()
}

// forge changes a good batch; the CRC is made good again.
func forge(change func(b []byte)) []byte {
	b := valuesAt(compress.None, oldMs, oldMs+1, oldMs+2)
	change(b)
	fixed := record.Batch(b)
	if len(b) >= record.HeaderBytes {
		attributes := binary.BigEndian.Uint16(b[21:])
		fixed.SetMaxTimestamp(int64(binary.BigEndian.Uint64(b[35:])), attributes&8 != 0)
	}
	return b
}

func idempotent(id kafka.ProducerID, epoch kafka.ProducerEpoch, base kafka.Sequence, n int) []byte {
	b := record.Builder{Producer: &record.Producer{ID: id, Epoch: epoch, BaseSequence: base}}
	for i := range n {
		b.Add([]byte("k"), fmt.Appendf(nil, "%d", i), nil, oldMs)
	}
	return b.Build()
}

// conversation is what is asked, in order.
type conversation struct{ steps []partitionStep }

func (c *conversation) add(name string, request func(ids map[string]kafka.TopicID) kmsg.Request) {
	c.steps = append(c.steps, partitionStep{name, request})
}

func (c *conversation) produce(name string, version, acks int16, topic string, index int32, records []byte) {
	c.add(name, func(ids map[string]kafka.TopicID) kmsg.Request {
		return produceRequest(version, acks, topic, ids[topic], index, slices.Clone(records))
	})
}

func (c *conversation) fetch(name string, version int16, topic string, index int32, offset int64, change func(*kmsg.FetchRequest)) {
	c.add(name, func(ids map[string]kafka.TopicID) kmsg.Request {
		req := fetchRequest(version, topic, ids[topic], index, offset)
		if change != nil {
			change(req)
		}
		return req
	})
}

func (c *conversation) listOffset(name string, version int16, topic string, index int32, ms int64, change func(*kmsg.ListOffsetsRequest)) {
	c.add(name, func(map[string]kafka.TopicID) kmsg.Request {
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version, req.ReplicaID = version, -1
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = topic
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = index, ms, -1
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		if change != nil {
			change(req)
		}
		return req
	})
}

func (c *conversation) epochEnd(name string, version int16, topic string, index, current, asked int32) {
	c.add(name, func(map[string]kafka.TopicID) kmsg.Request {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.Version, req.ReplicaID = version, -2
		t := kmsg.NewOffsetForLeaderEpochRequestTopic()
		t.Topic = topic
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = index, current, asked
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return req
	})
}

func (c *conversation) deleteRecords(name string, version int16, topic string, index int32, offset int64) {
	c.add(name, func(map[string]kafka.TopicID) kmsg.Request {
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.Version, req.TimeoutMillis = version, 5000
		t := kmsg.NewDeleteRecordsRequestTopic()
		t.Topic = topic
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		p.Partition, p.Offset = index, offset
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return req
	})
}

func (c *conversation) describeDirs(name string, version int16, topics ...string) {
	c.add(name, func(map[string]kafka.TopicID) kmsg.Request {
		req := kmsg.NewPtrDescribeLogDirsRequest()
		req.Version = version
		req.Topics = []kmsg.DescribeLogDirsRequestTopic{}
		for _, name := range topics {
			t := kmsg.NewDescribeLogDirsRequestTopic()
			t.Topic, t.Partitions = name, []int32{0}
			req.Topics = append(req.Topics, t)
		}
		return req
	})
}

func (c *conversation) describeProducers(name, topic string, index int32) {
	c.add(name, func(map[string]kafka.TopicID) kmsg.Request {
		req := kmsg.NewPtrDescribeProducersRequest()
		t := kmsg.NewDescribeProducersRequestTopic()
		t.Topic, t.Partitions = topic, []int32{index}
		req.Topics = append(req.Topics, t)
		return req
	})
}

func partitionConversation() []partitionStep {
	var c conversation
	good := valuesAt(compress.None, oldMs, oldMs+1)
	for version := int16(3); version <= 13; version++ {
		c.produce("produce", version, -1, "t", 0, good)
		c.produce("produce: unknown topic", version, 1, "nope", 0, good)
		c.produce("produce: unknown partition", version, 1, "t", 9, good)
		c.produce("produce: negative partition", version, 1, "t", -1, good)
		c.produce("produce: null key, compacted", version, 1, "compacted", 0, forge(func([]byte) {}))
		c.produce("produce: time in the future", version, 1, "t", 0, valuesAt(compress.None, oldMs, futureMs))
		c.produce("rule 44: append time", version, -1, "appended", 0, good)
		c.produce("rule 38: too large", version, 1, "small", 0, valuesAt(compress.None, slices.Repeat([]int64{oldMs}, 40)...))
	}
	for _, codec := range []compress.Codec{compress.Gzip, compress.Snappy, compress.LZ4, compress.Zstd} {
		for _, version := range []int16{3, 6, 7, 9} {
			c.produce("produce: "+codec.String(), version, 1, "t", 1, valuesAt(codec, oldMs))
		}
	}
	c.forged()
	c.sequences()
	c.fetches()
	c.offsets()
	c.sessionless()
	return c.steps
}

// forged sends batches with one field that is wrong.
func (c *conversation) forged() {
	for _, acks := range []int16{2, -2} {
		c.produce(fmt.Sprintf("rule 48: acks=%d", acks), 9, acks, "t", 0, valuesAt(compress.None, oldMs))
		c.produce(fmt.Sprintf("rule 48: acks=%d, unknown topic", acks), 9, acks, "nope", 0, valuesAt(compress.None, oldMs))
	}
	put16 := func(at int, v uint16) func([]byte) {
		return func(b []byte) { binary.BigEndian.PutUint16(b[at:], v) }
	}
	put32 := func(at int, v int32) func([]byte) {
		return func(b []byte) { binary.BigEndian.PutUint32(b[at:], uint32(v)) }
	}
	put64 := func(at int, v int64) func([]byte) {
		return func(b []byte) { binary.BigEndian.PutUint64(b[at:], uint64(v)) }
	}
	flipped := valuesAt(compress.None, oldMs)
	flipped[len(flipped)-1] ^= 1
	two := append(valuesAt(compress.None, oldMs), valuesAt(compress.None, oldMs)...)
	for _, f := range []struct {
		name    string
		records []byte
	}{
		{"rule 41: a flipped byte", flipped},
		{"rule 41: the leader epoch", forge(put32(12, 77))},
		{"rule 42: two batches", two},
		{"rule 42: count", forge(put32(57, 2))},
		{"rule 42: last offset delta", forge(put32(23, 5))},
		{"rule 42: control batch", forge(put16(21, 0x20))},
		{"rule 42: transactional", forge(put16(21, 0x10))},
		{"rule 42: transactional control", forge(put16(21, 0x30))},
		{"rule 42: base offset", forge(put64(0, 5))},
		{"rule 42: magic 1", forge(func(b []byte) { b[16] = 1 })},
		{"rule 42: magic 3", forge(func(b []byte) { b[16] = 3 })},
		{"rule 42: append time from a client", forge(put16(21, 0x08))},
		{"rule 42: unknown codec", forge(put16(21, 0x05))},
		{"rule 43: length -1", forge(put32(8, -1))},
		{"rule 43: length too small", forge(put32(8, 10))},
		{"rule 43: length beyond the bytes", forge(put32(8, 10_000))},
		{"rule 43: torn", valuesAt(compress.None, oldMs)[:70]},
		{"rule 43: no bytes", []byte{}},
		{"rule 52: negative sequence", idempotent(50, 0, -5, 1)},
		{"producer id without an epoch", forge(put64(43, 50))},
	} {
		c.produce(f.name, 9, 1, "t", 0, f.records)
	}
	c.add("an id that is no topic's", func(map[string]kafka.TopicID) kmsg.Request {
		return produceRequest(13, 1, "", kafka.TopicID{9, 9}, 0, valuesAt(compress.None, oldMs))
	})
	c.add("the id of none", func(map[string]kafka.TopicID) kmsg.Request {
		return produceRequest(13, 1, "", kafka.TopicID{}, 0, valuesAt(compress.None, oldMs))
	})
	large := record.Builder{}
	large.Add([]byte("k"), []byte(strings.Repeat("x", 1_500_000)), nil, oldMs)
	c.produce("rule 39: larger than a segment", 9, 1, "segmented", 0, large.Build())
	c.produce("stored in another codec", 9, 1, "repacked", 0, valuesAt(compress.None, oldMs, oldMs))
	c.produce("stored in another codec", 9, 1, "repacked", 0, valuesAt(compress.LZ4, oldMs, oldMs))
}

// sequences sends what idempotent producers do right and wrong.
func (c *conversation) sequences() {
	for _, s := range []struct {
		name  string
		epoch kafka.ProducerEpoch
		base  kafka.Sequence
		n     int
	}{
		{"rule 49: batch 1", 0, 0, 2},
		{"rule 49: batch 2", 0, 2, 2},
		{"rule 49: batch 3", 0, 4, 2},
		{"rule 49: batch 4", 0, 6, 2},
		{"rule 49: batch 5", 0, 8, 2},
		{"rule 49: batch 1 again", 0, 0, 2},
		{"rule 49: batch 5 again", 0, 8, 2},
		{"rule 49: a part of batch 2", 0, 2, 1},
		{"rule 49: batches 2 and 3 in one", 0, 2, 4},
		{"rule 49: batch 6", 0, 10, 2},
		{"rule 49: batch 1, out of the window", 0, 0, 2},
		{"rule 50: a gap", 0, 13, 1},
		{"rule 53: a new epoch from 7", 1, 7, 1},
		{"rule 53: a new epoch from 0", 1, 0, 1},
		{"rule 53: the old epoch", 0, 12, 1},
		{"rule 53: the new epoch goes on", 1, 1, 1},
	} {
		c.produce(s.name, 9, -1, "sequences", 0, idempotent(51, s.epoch, s.base, s.n))
	}
	c.produce("an unknown producer from 5", 9, -1, "sequences", 0, idempotent(52, 3, 5, 1))
	c.produce("rule 51: up to the wrap", 9, -1, "sequences", 0, idempotent(53, 0, 2147483640, 20))
	c.produce("rule 51: beyond the wrap", 9, -1, "sequences", 0, idempotent(53, 0, 12, 1))
	c.describeProducers("rule 68: producers", "sequences", 0)
	c.describeProducers("rule 68: producers of an unknown topic", "nope", 0)
	c.describeProducers("rule 68: producers of an unknown partition", "t", 7)
}

func (c *conversation) fetches() {
	for version := int16(4); version <= 18; version++ {
		c.fetch("fetch", version, "t", 0, 0, nil)
		c.fetch("fetch: committed", version, "t", 0, 2, func(r *kmsg.FetchRequest) { r.IsolationLevel = 1 })
		c.fetch("fetch: the end", version, "compacted", 0, 33, nil)
		c.fetch("fetch: beyond the end", version, "t", 1, 1000, nil)
		c.fetch("fetch: negative offset", version, "t", 1, -5, nil)
		c.fetch("fetch: unknown topic", version, "nope", 0, 0, nil)
		c.fetch("fetch: unknown partition", version, "t", 9, 0, nil)
		c.fetch("rule 71: limit of the partition", version, "t", 0, 0, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].PartitionMaxBytes = 1 })
		c.fetch("rule 71: limit of the request", version, "t", 0, 0, func(r *kmsg.FetchRequest) { r.MaxBytes = 1 })
		c.fetch("rule 76: newer leader epoch", version, "t", 0, 0, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].CurrentLeaderEpoch = 5 })
		c.fetch("rule 76: newer fetched epoch", version, "t", 0, 1, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].LastFetchedEpoch = 5 })
		c.fetch("rule 76: the fetched epoch", version, "t", 0, 1, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].LastFetchedEpoch = 0 })
		c.fetch("rule 76: the fetched epoch, beyond the end", version, "t", 0, 1000, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].LastFetchedEpoch = 0 })
	}
}

func (c *conversation) offsets() {
	c.produce("times", 9, 1, "times", 0, valuesAt(compress.None, oldMs+2, oldMs+4, oldMs+6, oldMs+8))
	c.produce("times, packed", 9, 1, "times", 0, valuesAt(compress.Gzip, oldMs+5, oldMs+19, oldMs+7))
	c.produce("times, later", 9, 1, "times", 0, valuesAt(compress.Zstd, oldMs+11, oldMs+12))
	for version := int16(1); version <= 11; version++ {
		for _, ms := range []int64{-1, -2, -3, -4, -5, -6, -7, -100, 0, oldMs + 3, oldMs + 8, oldMs + 9, oldMs + 12, oldMs + 19, oldMs + 20} {
			c.listOffset("rules 79, 80: times", version, "times", 0, ms, nil)
		}
		for _, ms := range []int64{-1, -2, -3, 5} {
			c.listOffset("rule 80: an empty partition", version, "epochs", 0, ms, nil)
			c.listOffset("rule 80: unknown topic", version, "nope", 0, ms, nil)
			c.listOffset("rule 80: unknown partition", version, "t", 9, ms, nil)
			c.listOffset("rule 80: committed", version, "times", 0, ms, func(r *kmsg.ListOffsetsRequest) { r.IsolationLevel = 1 })
			c.listOffset("rule 80: a tool", version, "times", 0, ms, func(r *kmsg.ListOffsetsRequest) { r.ReplicaID = -2 })
		}
		c.listOffset("newer leader epoch", version, "times", 0, -1, func(r *kmsg.ListOffsetsRequest) { r.Topics[0].Partitions[0].CurrentLeaderEpoch = 4 })
		c.listOffset("a partition twice", version, "times", 0, -1, func(r *kmsg.ListOffsetsRequest) {
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, r.Topics[0].Partitions[0])
		})
	}
	for version := int16(2); version <= 4; version++ {
		for asked := int32(-1); asked < 3; asked++ {
			c.epochEnd("rule 77: epochs", version, "times", 0, -1, asked)
			c.epochEnd("rule 77: epochs of an empty partition", version, "epochs", 0, -1, asked)
		}
		c.epochEnd("rule 78: current", version, "times", 0, 0, 0)
		c.epochEnd("rule 78: newer", version, "times", 0, 3, 0)
		c.epochEnd("rule 77: unknown topic", version, "nope", 0, -1, 0)
		c.epochEnd("rule 77: unknown partition", version, "t", 9, -1, 0)
	}
	for version := range int16(3) {
		c.produce("delete: fill", 9, 1, "deleted", 0, valuesAt(compress.None, oldMs, oldMs+1, oldMs+2))
		for _, offset := range []int64{-2, 100, int64(version) * 3, int64(version)*3 + 1, 0} {
			c.deleteRecords("delete", version, "deleted", 0, offset)
		}
		c.deleteRecords("delete: compacted", version, "compacted", 0, 0)
		c.deleteRecords("delete: unknown topic", version, "nope", 0, 0)
		c.deleteRecords("delete: unknown partition", version, "t", 9, 0)
		c.fetch("delete: read from the start", 12, "deleted", 0, 0, nil)
		c.fetch("delete: read inside the first batch", 12, "deleted", 0, int64(version)*3+1, nil)
		// Not -3: of a record with the highest timestamp that was deleted, Kafka still tells the offset.
		for _, ms := range []int64{-1, -2, 0, oldMs} {
			c.listOffset("rule 80: after a delete", 11, "deleted", 0, ms, nil)
		}
		c.deleteRecords("delete: all", version, "deleted", 0, -1)
		for _, ms := range []int64{-1, -2, 0, oldMs} {
			c.listOffset("rule 80: after all were deleted", 11, "deleted", 0, ms, nil)
		}
		c.epochEnd("rule 77: after all were deleted", 4, "deleted", 0, -1, 0)
	}
	for version := int16(1); version <= 5; version++ {
		c.describeDirs("rule 31: some topics", version, "times", "deleted", "nope")
		c.describeDirs("rule 31: no topics", version)
	}
}

// sessionless sends fetches with session fields that name none, in all the ways there are.
func (c *conversation) sessionless() {
	for _, version := range []int16{7, 11, 12, 13, 18} {
		for _, s := range []struct {
			id, epoch int32
		}{{0, -1}, {0, 0}, {0, 1}, {12345, 1}, {12345, 0}, {12345, -1}, {0, -2}} {
			c.fetch(fmt.Sprintf("rule 74: session %d, epoch %d", s.id, s.epoch), version, "sessions", 0, 0, func(r *kmsg.FetchRequest) {
				r.SessionID, r.SessionEpoch = s.id, s.epoch
			})
		}
	}
}

// partitionAnswer is a response as text, without what differs from broker to broker: ids that are chosen at random, the clock,
// and the wording of messages. Records are shown by a hash of their bytes.
func partitionAnswer(t *testing.T, resp kmsg.Response, nowMs int64) string {
	t.Helper()
	smooth(reflect.ValueOf(resp).Elem(), nowMs)
	text, err := json.Marshal(resp)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), `,"UnknownTags":{}`, "")
}

func smooth(v reflect.Value, nowMs int64) {
	switch v.Kind() {
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			smooth(v.Index(i), nowMs)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field, name := v.Field(i), v.Type().Field(i).Name
			switch name {
			case "TopicID":
				field.SetZero()
			case "ErrorMessage", "BatchIndexErrorMessage":
				if !field.IsNil() {
					field.Set(reflect.ValueOf(new("some message")))
				}
			case "SessionID":
				field.SetInt(min(field.Int(), 1))
			case "LogAppendTime", "LastTimestamp":
				if ms := field.Int(); ms > nowMs-600_000 {
					field.SetInt(1)
				}
			case "RecordBatches":
				field.SetBytes(hashed(field.Bytes(), nowMs))
			case "Dir":
				field.SetString("")
			case "TotalBytes", "UsableBytes":
				if field.Int() > 0 {
					field.SetInt(1)
				}
			case "Host", "Port", "ThrottleMillis":
				field.SetZero()
			case "Topics":
				sortTopics(field)
				smooth(field, nowMs)
			default:
				smooth(field, nowMs)
			}
		}
	}
}

// sortTopics orders rows of topics by name, where a broker keeps none.
func sortTopics(v reflect.Value) {
	if topics, ok := v.Interface().([]kmsg.DescribeLogDirsResponseDirTopic); ok {
		slices.SortFunc(topics, func(a, b kmsg.DescribeLogDirsResponseDirTopic) int { return strings.Compare(a.Topic, b.Topic) })
	}
}

// hashed names the bytes of whole batches. A batch cut off at the end, as Kafka sends, is left out; times of the broker's clock
// are, too.
func hashed(b []byte, nowMs int64) []byte {
	if b == nil {
		return nil
	}
	var whole []byte
	n := 0
	for len(b) > 0 {
		batch, rest, err := record.Split(b)
		if err != nil {
			break
		}
		if batch.LogAppendTime() && batch.MaxTimestampMs() > nowMs-600_000 {
			batch.SetMaxTimestamp(1, true)
		}
		whole, b = append(whole, batch...), rest
		n++
	}
	sum := sha256.Sum256(whole)
	return fmt.Appendf(nil, "%d batches, %x", n, sum[:8])
}

// TestRequestsToPartitionsAnswerAsKafka replays a conversation that was recorded from Apache Kafka 4.4. To record:
// go test ./internal/api -run RequestsToPartitions -record-partitions HOST:PORT, on a Kafka that was just formatted.
func TestRequestsToPartitionsAnswerAsKafka(t *testing.T) {
	const file = "testdata/partitions.json"
	steps := partitionConversation()
	if *recordPartitions != "" {
		recordPartitionConversation(t, steps, file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var recorded []string
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatal(err)
	}
	if len(steps) != len(recorded) {
		t.Fatalf("%d steps, %d recorded", len(steps), len(recorded))
	}
	n := newNode(t)
	ids := map[string]kafka.TopicID{}
	for _, topic := range partitionTopics {
		ids[topic.name] = n.topic(topic.name, topic.partitions, topic.settings...)
	}
	for i, step := range steps {
		req := step.request(ids)
		got := partitionAnswer(t, n.call(req), time.Now().UnixMilli())
		if diff := diffFields(got, recorded[i]); diff != "" {
			t.Errorf("%s, %s v%d:\n%s", step.name, kmsg.NameForKey(req.Key()), req.GetVersion(), diff)
		}
	}
}

// diffFields shows the fields in which two texts differ. A message where Kafka sends none is no difference: ours say what to do.
func diffFields(got, want string) string {
	g, w := strings.Split(got, ","), strings.Split(want, ",")
	var out []string
	for i := range max(len(g), len(w)) {
		var a, b string
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		ours := strings.Contains(a, `"ErrorMessage":"some message"`) && strings.Contains(b, `"ErrorMessage":null`)
		if a != b && !ours {
			out = append(out, "got "+a+" want "+b)
		}
	}
	return strings.Join(out, "\n")
}

func recordPartitionConversation(t *testing.T, steps []partitionStep, file string) {
	t.Helper()
	c := dial(t, *recordPartitions)
	ids := map[string]kafka.TopicID{}
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.TimeoutMillis = 7, 30_000
	for _, topic := range partitionTopics {
		nt := kmsg.NewCreateTopicsRequestTopic()
		nt.Topic, nt.NumPartitions, nt.ReplicationFactor = topic.name, topic.partitions, 1
		for i := 0; i < len(topic.settings); i += 2 {
			setting := kmsg.NewCreateTopicsRequestTopicConfig()
			setting.Name, setting.Value = topic.settings[i], &topic.settings[i+1]
			nt.Configs = append(nt.Configs, setting)
		}
		create.Topics = append(create.Topics, nt)
	}
	for _, created := range c.call(create).(*kmsg.CreateTopicsResponse).Topics {
		if created.ErrorCode != 0 {
			t.Fatalf("create %s: %v", created.Topic, kafka.Error(created.ErrorCode))
		}
		ids[created.Topic] = created.TopicID
	}
	awaitTopics(t, c, ids)
	var answers []string
	for _, step := range steps {
		req := step.request(ids)
		t.Logf("%s, %s v%d", step.name, kmsg.NameForKey(req.Key()), req.GetVersion())
		answers = append(answers, partitionAnswer(t, c.call(req), time.Now().UnixMilli()))
	}
	text, err := json.MarshalIndent(answers, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// awaitTopics waits until the broker leads all the topics' first partitions.
func awaitTopics(t *testing.T, c *client, ids map[string]kafka.TopicID) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for _, topic := range partitionTopics {
		for {
			row := fetchedRow(c.call(fetchRequest(12, topic.name, ids[topic.name], 0, 0)))
			if row.ErrorCode == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %v", topic.name, kafka.Error(row.ErrorCode))
			}
		}
	}
}
