package api_test

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/record/compress"
)

// longAgoMs is the time of the conversation's records.
const longAgoMs int64 = 1_600_000_000_000

// batch is one of records at some times, one key each.
func batch(codec compress.Codec, times ...int64) record.Batch {
	b := record.Builder{Compression: compress.Spec{Codec: codec}}
	for i, ms := range times {
		b.Add(fmt.Appendf(nil, "k%d", i), fmt.Appendf(nil, "value %d", i), nil, ms)
	}
	return b.Build()
}

// values is a batch of strings at the present of longAgoMs.
func values(texts ...string) record.Batch {
	b := record.Builder{}
	for _, text := range texts {
		b.Add([]byte("k"), []byte(text), nil, longAgoMs)
	}
	return b.Build()
}

// produceRow is what one partition of a Produce is sent.
type produceRow struct {
	topic     string
	id        [16]byte
	partition int32
	records   []byte
}

// produceRequest keeps the order of rows, and makes one topic of those that follow each other.
func produceRequest(version, acks int16, rows ...produceRow) *kmsg.ProduceRequest {
	req := at(version, kmsg.NewPtrProduceRequest())
	req.Acks, req.TimeoutMillis = acks, 10_000
	for _, r := range rows {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != r.topic || req.Topics[n-1].TopicID != r.id {
			t := kmsg.NewProduceRequestTopic()
			t.Topic, t.TopicID = r.topic, r.id
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = r.partition, r.records
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	return req
}

// fetchRow is what one partition of a Fetch asks for.
type fetchRow struct {
	topic     string
	id        [16]byte
	partition int32
	offset    int64
}

// fetchRequest waits for nothing and has no session.
func fetchRequest(version int16, rows ...fetchRow) *kmsg.FetchRequest {
	req := at(version, kmsg.NewPtrFetchRequest())
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = 0, 1, 1<<20, -1
	for _, r := range rows {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != r.topic || req.Topics[n-1].TopicID != r.id {
			t := kmsg.NewFetchRequestTopic()
			t.Topic, t.TopicID = r.topic, r.id
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = r.partition, r.offset, 1<<20, -1
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	return req
}

// listRow is what one partition of a ListOffsets asks for.
type listRow struct {
	topic     string
	partition int32
	timestamp int64
}

func listRequest(version int16, rows ...listRow) *kmsg.ListOffsetsRequest {
	req := at(version, kmsg.NewPtrListOffsetsRequest())
	req.ReplicaID = -1
	for _, r := range rows {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != r.topic {
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = r.topic
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = r.partition, r.timestamp, -1
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	return req
}

func epochRequest(version int16, topic string, partitions ...int32) *kmsg.OffsetForLeaderEpochRequest {
	req := at(version, kmsg.NewPtrOffsetForLeaderEpochRequest())
	req.ReplicaID = -1
	t := kmsg.NewOffsetForLeaderEpochRequestTopic()
	t.Topic = topic
	for _, number := range partitions {
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = number, -1, 0
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return req
}

func deleteRecordsRequest(version int16, topic string, partition int32, offset int64) *kmsg.DeleteRecordsRequest {
	req := at(version, kmsg.NewPtrDeleteRecordsRequest())
	req.TimeoutMillis = 10_000
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = topic
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Partition, p.Offset = partition, offset
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// records asks what the recorded requests to partitions do not: many partitions in one request, some right and some wrong, some
// named twice, ids and names of different versions side by side.
func (c *conversation) records() {
	c.add("for records", createRequest(7, newTopic("r", 3, 1, "retention.ms", "-1"), newTopic("twice", 2, 1, "retention.ms", "-1"), newTopic("compact", 1, 1, "cleanup.policy", "compact"),
		newTopic(longName, 1, 1, "retention.ms", "-1")))
	c.waitFor("r", "compact", "twice", longName)
	c.add("wait for leaders", listRequest(1, listRow{"r", 0, -1}, listRow{"r", 1, -1}, listRow{"r", 2, -1}, listRow{"compact", 0, -1}, listRow{"twice", 1, -1}, listRow{longName, 0, -1})).
		till = func(resp kmsg.Response) bool {
		for _, t := range resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					return false
				}
			}
		}
		return true
	}
	c.produces()
	c.fetches()
	for _, v := range versionsOf(kmsg.ListOffsets) {
		c.add("right and wrong", listRequest(v, listRow{"r", 0, -1}, listRow{"r", 1, -2}, listRow{"r", 9, -1}, listRow{"nope", 0, -1},
			listRow{"r", 2, longAgoMs}, listRow{longName, 0, -2}, listRow{"", 0, -1}))
		c.add("a partition twice, in two rows", listRequest(v, listRow{"r", 0, -1}, listRow{"nope", 0, -1}, listRow{"r", 0, -2}))
		c.add("no topics", listRequest(v))
		follower := listRequest(v, listRow{"r", 0, -1})
		follower.ReplicaID = 5
		c.add("as a follower that is none", follower)
		isolated := listRequest(v, listRow{"r", 0, -1})
		isolated.IsolationLevel = 2
		c.add("isolation level 2", isolated)
	}
	for _, v := range versionsOf(kmsg.OffsetForLeaderEpoch) {
		c.add("right", epochRequest(v, "r", 0, 1))
		c.add("right and wrong", epochRequest(v, "r", 0, 9, -1, 0))
		c.add("unknown topic", epochRequest(v, "nope", 0))
		c.add("no partitions", epochRequest(v, "r"))
	}
	for _, v := range versionsOf(kmsg.DeleteRecords) {
		c.add("right", deleteRecordsRequest(v, "r", 2, 1+int64(v)))
		wrong := deleteRecordsRequest(v, "r", 2, 1000)
		wrong.Topics = append(wrong.Topics, deleteRecordsRequest(v, "nope", 0, 0).Topics[0], deleteRecordsRequest(v, "r", 9, 0).Topics[0])
		c.add("wrong", wrong)
		twice := deleteRecordsRequest(v, "r", 2, 1)
		twice.Topics = append(twice.Topics, twice.Topics[0])
		c.add("a topic twice", twice)
		c.add("an internal topic", deleteRecordsRequest(v, "__consumer_offsets", 0, 0))
	}
	c.producers()
	for _, v := range versionsOf(kmsg.DescribeLogDirs) {
		some := at(v, kmsg.NewPtrDescribeLogDirsRequest())
		for _, name := range []string{"r", "nope", "r", ""} {
			t := kmsg.NewDescribeLogDirsRequestTopic()
			t.Topic, t.Partitions = name, []int32{0, 7, 0}
			some.Topics = append(some.Topics, t)
		}
		c.add("right and wrong", some)
	}
	c.moves()
}

// moves asks to move partitions between log directories, of which there is one.
func (c *conversation) moves() {
	for _, v := range versionsOf(kmsg.AlterReplicaLogDirs) {
		row := func(dir, topic string, partitions ...int32) kmsg.AlterReplicaLogDirsRequestDir {
			return kmsg.AlterReplicaLogDirsRequestDir{Dir: dir, Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: topic, Partitions: partitions}}}
		}
		ask := func(name string, rows func(here string) []kmsg.AlterReplicaLogDirsRequestDir) {
			c.with(name, kmsg.AlterReplicaLogDirs, v, func(w *world) kmsg.Request {
				all := w.links[0].ask(at(4, kmsg.NewPtrDescribeLogDirsRequest())).(*kmsg.DescribeLogDirsResponse)
				req := kmsg.NewPtrAlterReplicaLogDirsRequest()
				req.Dirs = rows(all.Dirs[0].Dir)
				return req
			})
		}
		ask("where it is", func(here string) []kmsg.AlterReplicaLogDirsRequestDir {
			return []kmsg.AlterReplicaLogDirsRequestDir{row(here, "r", 0, 1)}
		})
		ask("to nowhere", func(string) []kmsg.AlterReplicaLogDirsRequestDir {
			return []kmsg.AlterReplicaLogDirsRequestDir{row("/nowhere", "r", 0), row("nowhere", "nope", 1)}
		})
		ask("what is not there", func(here string) []kmsg.AlterReplicaLogDirsRequestDir {
			return []kmsg.AlterReplicaLogDirsRequestDir{row(here, "r", 2, 7, -1), row(here, "nope", 0)}
		})
		ask("one partition twice", func(here string) []kmsg.AlterReplicaLogDirsRequestDir {
			return []kmsg.AlterReplicaLogDirsRequestDir{row("/nowhere", "r", 0), row(here, "r", 0, 0)}
		})
		ask("a name too long", func(here string) []kmsg.AlterReplicaLogDirsRequestDir {
			return []kmsg.AlterReplicaLogDirsRequestDir{row(here, strings.Repeat("x", 249), 0)}
		})
	}
}

func (c *conversation) produces() {
	for _, v := range versionsOf(kmsg.Produce) {
		one := func(w *world, topic string, partition int32, records []byte) produceRow {
			if v < 13 {
				return produceRow{topic, [16]byte{}, partition, records}
			}
			id, ok := w.ids[topic]
			if !ok {
				id = strangeID
			}
			return produceRow{"", id, partition, records}
		}
		rows := func(acks int16, make func(w *world) []produceRow) func(w *world) kmsg.Request {
			return func(w *world) kmsg.Request { return produceRequest(v, acks, make(w)...) }
		}
		c.with("right", kmsg.Produce, v, rows(-1, func(w *world) []produceRow {
			return []produceRow{one(w, "r", 0, values("a", "b")), one(w, "r", 2, values("c")), one(w, longName, 0, values("d"))}
		}))
		c.with("right and wrong", kmsg.Produce, v, rows(1, func(w *world) []produceRow {
			torn := values("a")
			return []produceRow{
				one(w, "r", 0, values("a")), one(w, "r", 9, values("b")), one(w, "r", -1, values("b")), one(w, "nope", 0, values("c")),
				one(w, "r", 1, torn[:len(torn)-1]), one(w, "r", 2, values("e")),
			}
		}))
		c.with("a partition twice", kmsg.Produce, v, rows(-1, func(w *world) []produceRow {
			return []produceRow{one(w, "twice", 1, values("x")), one(w, "twice", 1, values("y"))}
		}))
		c.with("a topic twice", kmsg.Produce, v, rows(-1, func(w *world) []produceRow {
			return []produceRow{one(w, "r", 1, values("x")), one(w, "compact", 0, values("x")), one(w, "r", 2, values("y"))}
		}))
		c.with("no records", kmsg.Produce, v, rows(-1, func(w *world) []produceRow {
			return []produceRow{one(w, "r", 0, []byte{}), one(w, "r", 1, values("z"))} // null leaves Kafka without an answer
		}))
		c.with("no topics", kmsg.Produce, v, rows(-1, func(*world) []produceRow { return nil }))
		for _, bits := range []int16{0, 0x10} {
			name := fmt.Sprintf("a transactional id, attributes %#x", bits)
			c.with(name, kmsg.Produce, v, func(w *world) kmsg.Request {
				b := record.Builder{Producer: &record.Producer{ID: 7000, Epoch: 0}, Transactional: bits != 0}
				b.Add([]byte("k"), []byte("v"), nil, longAgoMs)
				req := produceRequest(v, -1, one(w, "twice", 0, b.Build()), one(w, "nope", 0, values("x")))
				req.TransactionID = new("tx")
				return req
			})
		}
		c.with("two batches", kmsg.Produce, v, rows(1, func(w *world) []produceRow {
			return []produceRow{one(w, "r", 0, append(values("a"), values("b")...))}
		}))
		c.with("no key in a compacted topic", kmsg.Produce, v, rows(1, func(w *world) []produceRow {
			b := record.Builder{}
			b.Add([]byte("k"), nil, nil, longAgoMs)
			b.Add(nil, []byte("v"), nil, longAgoMs)
			return []produceRow{one(w, "compact", 0, b.Build())}
		}))
		c.with("zstd", kmsg.Produce, v, rows(1, func(w *world) []produceRow {
			return []produceRow{one(w, "r", 1, batch(compress.Zstd, longAgoMs))}
		}))
	}
}

func (c *conversation) fetches() {
	for _, v := range versionsOf(kmsg.Fetch) {
		one := func(w *world, topic string, partition int32, offset int64) fetchRow {
			if v < 13 {
				return fetchRow{topic, [16]byte{}, partition, offset}
			}
			id, ok := w.ids[topic]
			if !ok {
				id = strangeID
			}
			return fetchRow{"", id, partition, offset}
		}
		rows := func(change func(*kmsg.FetchRequest), make func(w *world) []fetchRow) func(w *world) kmsg.Request {
			return func(w *world) kmsg.Request {
				req := fetchRequest(v, make(w)...)
				if change != nil {
					change(req)
				}
				return req
			}
		}
		c.with("right", kmsg.Fetch, v, rows(nil, func(w *world) []fetchRow {
			return []fetchRow{one(w, "r", 0, 0), one(w, "r", 2, 1), one(w, longName, 0, 0)}
		}))
		c.with("right and wrong", kmsg.Fetch, v, rows(nil, func(w *world) []fetchRow {
			return []fetchRow{one(w, "r", 0, 1), one(w, "r", 9, 0), one(w, "nope", 0, 0), one(w, "r", 1, 1000), one(w, "r", 2, 0)}
		}))
		c.with("a partition twice", kmsg.Fetch, v, rows(nil, func(w *world) []fetchRow {
			return []fetchRow{one(w, "r", 0, 0), one(w, "r", 0, 1)}
		}))
		c.with("a topic twice", kmsg.Fetch, v, rows(nil, func(w *world) []fetchRow {
			return []fetchRow{one(w, "r", 0, 0), one(w, "compact", 0, 0), one(w, "r", 2, 0)}
		}))
		c.with("committed", kmsg.Fetch, v, rows(func(r *kmsg.FetchRequest) { r.IsolationLevel = 1 }, func(w *world) []fetchRow {
			return []fetchRow{one(w, "r", 0, 0), one(w, "nope", 0, 0)}
		}))
		c.with("isolation level 7", kmsg.Fetch, v, rows(func(r *kmsg.FetchRequest) { r.IsolationLevel = 7 }, func(w *world) []fetchRow {
			return []fetchRow{one(w, "r", 0, 0)}
		}))
		c.with("no topics", kmsg.Fetch, v, rows(nil, func(*world) []fetchRow { return nil }))
		c.with("limits below 0", kmsg.Fetch, v, rows(func(r *kmsg.FetchRequest) {
			r.MaxBytes, r.MinBytes, r.MaxWaitMillis, r.Topics[0].Partitions[0].PartitionMaxBytes = -1, -1, -1, -1
		}, func(w *world) []fetchRow { return []fetchRow{one(w, "r", 0, 0)} }))
		c.with("a rack", kmsg.Fetch, v, rows(func(r *kmsg.FetchRequest) { r.Rack = "rack" }, func(w *world) []fetchRow {
			return []fetchRow{one(w, "r", 0, 0)}
		}))
	}
}

func (c *conversation) producers() {
	for _, v := range versionsOf(kmsg.InitProducerID) {
		for _, ask := range []struct {
			id      int64
			epoch   int16
			timeout int32
			tx      *string
		}{{-1, -1, 60_000, nil}, {5, 0, 60_000, nil}, {5, -1, 60_000, nil}, {-1, 0, 60_000, nil}, {-1, -1, -1, nil}, {-2, -2, 0, nil}, {-1, -1, 60_000, new("")}, {-1, -1, 60_000, new("tx")}} {
			req := at(v, kmsg.NewPtrInitProducerIDRequest())
			req.ProducerID, req.ProducerEpoch, req.TransactionTimeoutMillis, req.TransactionalID = ask.id, ask.epoch, ask.timeout, ask.tx
			name := fmt.Sprintf("id %d, epoch %d, timeout %d", ask.id, ask.epoch, ask.timeout)
			if ask.tx != nil {
				name += fmt.Sprintf(", transactional %q", *ask.tx)
			}
			c.add(name, req)
		}
	}
	for _, t := range []struct {
		topic      string
		partitions []int32
	}{{"r", []int32{0, 1, 2}}, {"r", []int32{0, 9, -1, 0}}, {"nope", []int32{0}}, {"a b", []int32{0}}, {"r", nil}} {
		req := kmsg.NewPtrDescribeProducersRequest()
		row := kmsg.NewDescribeProducersRequestTopic()
		row.Topic, row.Partitions = t.topic, t.partitions
		req.Topics = append(req.Topics, row)
		c.add(fmt.Sprint(t.topic, t.partitions), req)
	}
}

// settings asks a little of each version; the recorded configuration requests ask the rest.
func (c *conversation) settings() {
	resource := func(kind kmsg.ConfigResourceType, name string, keys []string) kmsg.DescribeConfigsRequestResource {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.ConfigNames = kind, name, keys
		return r
	}
	for _, v := range versionsOf(kmsg.DescribeConfigs) {
		req := at(v, kmsg.NewPtrDescribeConfigsRequest())
		req.Resources = append(req.Resources, resource(kmsg.ConfigResourceTypeTopic, "made2", nil), resource(kmsg.ConfigResourceTypeTopic, "made3", []string{"segment.ms"}))
		c.add("right", req)
		wrong := at(v, kmsg.NewPtrDescribeConfigsRequest())
		wrong.Resources = append(wrong.Resources, resource(kmsg.ConfigResourceTypeTopic, "nope", nil), resource(kmsg.ConfigResourceTypeBroker, "x", nil), resource(99, "", nil))
		c.add("wrong", wrong)
	}
	for _, v := range versionsOf(kmsg.AlterConfigs) {
		for _, value := range []string{"604800000", "soon"} {
			req := at(v, kmsg.NewPtrAlterConfigsRequest())
			req.ValidateOnly = true
			for _, name := range []string{"made2", "nope"} {
				r := kmsg.NewAlterConfigsRequestResource()
				r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, name
				entry := kmsg.NewAlterConfigsRequestResourceConfig()
				entry.Name, entry.Value = "retention.ms", &value
				r.Configs = append(r.Configs, entry)
				req.Resources = append(req.Resources, r)
			}
			c.add("retention "+value, req)
			alone := at(v, kmsg.NewPtrAlterConfigsRequest())
			alone.ValidateOnly, alone.Resources = true, req.Resources[:1]
			c.add("one topic's retention "+value, alone)
		}
	}
	for _, v := range versionsOf(kmsg.IncrementalAlterConfigs) {
		for _, value := range []string{"604800000", "soon"} {
			req := at(v, kmsg.NewPtrIncrementalAlterConfigsRequest())
			req.ValidateOnly = true
			r := kmsg.NewIncrementalAlterConfigsRequestResource()
			r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, "made2"
			entry := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			entry.Name, entry.Value = "retention.ms", &value
			r.Configs = append(r.Configs, entry)
			req.Resources = append(req.Resources, r)
			c.add("retention "+value, req)
		}
	}
}
