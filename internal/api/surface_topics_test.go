package api_test

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// longName is the longest name that a topic may have.
var longName = strings.Repeat("n", 249)

// strangeID is no topic's.
var strangeID = [16]byte{0: 9, 6: 0x49, 8: 0x89, 15: 9}

// surface is the whole conversation. Metadata comes first: of all topics, while there are few.
func surface() *conversation {
	c := &conversation{}
	c.versions()
	c.metadata()
	c.createTopics()
	c.cluster()
	c.growAndDelete()
	c.settings()
	c.listed()
	c.logins()
	c.records()
	c.groups()
	c.odd()
	c.consumers()
	return c
}

func (c *conversation) versions() {
	for _, v := range versionsOf(kmsg.ApiVersions) {
		for _, software := range [][2]string{{"test", "1.0"}, {"te st", "1.0"}, {"test", ""}, {"kafka-python-ng", "0.0.0-x.1"}} {
			req := at(v, kmsg.NewPtrApiVersionsRequest())
			req.ClientSoftwareName, req.ClientSoftwareVersion = software[0], software[1]
			c.add(fmt.Sprintf("software %q", software), req)
		}
	}
	for _, node := range []int32{1, -1, 5} {
		req := at(5, kmsg.NewPtrApiVersionsRequest())
		req.ClientSoftwareName, req.ClientSoftwareVersion, req.ClusterID, req.NodeID = "test", "1", new("another cluster"), node
		c.add(fmt.Sprintf("another cluster, node %d", node), req)
	}
}

// waitFor asks until every one of the topics can be seen: Apache Kafka publishes them a moment after it has answered.
func (c *conversation) waitFor(names ...string) {
	c.add("wait for "+strings.Join(names, ", "), metadataRequest(12, names)).till = func(resp kmsg.Response) bool {
		for _, t := range resp.(*kmsg.MetadataResponse).Topics {
			if t.ErrorCode != 0 {
				return false
			}
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					return false
				}
			}
		}
		return true
	}
}

func (c *conversation) waitGone(names ...string) {
	c.add("wait until there is no "+strings.Join(names, ", "), metadataRequest(12, names)).till = func(resp kmsg.Response) bool {
		for _, t := range resp.(*kmsg.MetadataResponse).Topics {
			if t.ErrorCode == 0 {
				return false
			}
		}
		return true
	}
}

func assigned(topic kmsg.CreateTopicsRequestTopic, rows ...[]int32) kmsg.CreateTopicsRequestTopic {
	for i, replicas := range rows {
		row := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		row.Partition, row.Replicas = int32(i), replicas
		topic.ReplicaAssignment = append(topic.ReplicaAssignment, row)
	}
	return topic
}

func numbered(topic kmsg.CreateTopicsRequestTopic, numbers ...int32) kmsg.CreateTopicsRequestTopic {
	for i, n := range numbers {
		topic.ReplicaAssignment[i].Partition = n
	}
	return topic
}

func (c *conversation) createTopics() {
	var made []string
	for _, v := range versionsOf(kmsg.CreateTopics) {
		name := fmt.Sprint("made", v)
		made = append(made, name)
		c.add("good", createRequest(v, newTopic(name, 2, 1, "cleanup.policy", "compact,delete", "segment.ms", "604800000")))
		c.add("exists", createRequest(v, newTopic(name, 2, 1), newTopic("x.y", 1, 1)))
		c.add("collides", createRequest(v, newTopic("x_y", 1, 1)))
		c.add("no topics", createRequest(v))
		for _, n := range [][2]int32{{1, 0}, {1, 3}, {1, -2}, {1, 32767}, {0, 1}, {-2, 1}, {0, 3}, {-1, 1}, {1, -1}, {-1, -1}, {10_000_000, 1}, {1 << 30, 1}} {
			req := createRequest(v, newTopic("counts", n[0], int16(n[1])))
			req.ValidateOnly = true
			c.add(fmt.Sprintf("%d partitions, %d replicas", n[0], n[1]), req)
		}
		for _, bad := range []string{"", ".", "..", "a b", "a/b", "ä", "a\x00b", longName + "n", longName, "_", "-", "A.b_C-9"} {
			req := createRequest(v, newTopic(bad, 1, 1))
			req.ValidateOnly = true
			c.add(fmt.Sprintf("name %.20q, %d bytes", bad, len(bad)), req)
		}
		for what, topic := range orderedTopics(v) {
			req := createRequest(v, topic)
			req.ValidateOnly = true
			c.add(what, req)
		}
		twice := createRequest(v, newTopic("twice", 1, 1), newTopic("twice", 2, 1), newTopic("once", 1, 1))
		twice.ValidateOnly = true
		c.add("a name twice", twice)
		half := createRequest(v, newTopic(fmt.Sprint("half", v), 1, 1), newTopic("other", 1, 5))
		made = append(made, fmt.Sprint("half", v))
		c.add("one good, one bad", half)
		hasty := createRequest(v, newTopic("hasty", 1, 1))
		hasty.TimeoutMillis, hasty.ValidateOnly = 0, true
		c.add("no time", hasty)
	}
	c.waitFor(made...)
}

// orderedTopics yields topics with assignments and settings, right and wrong.
func orderedTopics(v int16) func(func(string, kmsg.CreateTopicsRequestTopic) bool) {
	plain := func() kmsg.CreateTopicsRequestTopic { return newTopic("assigned", -1, -1) }
	nullValue := newTopic("nothing", 1, 1, "retention.ms", "")
	nullValue.Configs[0].Value = nil
	return func(yield func(string, kmsg.CreateTopicsRequestTopic) bool) {
		_ = yield("assigned", assigned(plain(), []int32{1}, []int32{1})) &&
			yield("assigned, and counts", assigned(newTopic("assigned", 2, 1), []int32{1}, []int32{1})) &&
			yield("assigned to nobody known", assigned(plain(), []int32{7})) &&
			yield("assigned to nobody", assigned(plain(), []int32{})) &&
			yield("assigned twice to one", assigned(plain(), []int32{1, 1})) &&
			yield("assigned with a gap", numbered(assigned(plain(), []int32{1}, []int32{1}), 0, 2)) &&
			yield("assigned from 1", numbered(assigned(plain(), []int32{1}), 1)) &&
			yield("one partition assigned twice", numbered(assigned(plain(), []int32{1}, []int32{1}), 0, 0)) &&
			yield("assigned below 0", numbered(assigned(plain(), []int32{1}), -1)) &&
			yield("assigned to -1", assigned(plain(), []int32{-1})) &&
			yield("unknown setting", newTopic("set", 1, 1, "nonsense", "1")) &&
			yield("bad setting", newTopic("set", 1, 1, "retention.ms", "soon")) &&
			yield("setting out of range", newTopic("set", 1, 1, "segment.bytes", "1")) &&
			yield("setting twice", newTopic("set", 1, 1, "retention.ms", "1", "retention.ms", "2")) &&
			yield("setting of null", nullValue) &&
			yield("empty list", newTopic("set", 1, 1, "cleanup.policy", "")) &&
			yield("a broker's setting", newTopic("set", 1, 1, "log.retention.ms", "1"))
	}
}

func (c *conversation) metadata() {
	c.add("for metadata", createRequest(7, newTopic("m1", 2, 1), newTopic("m2", 1, 1)))
	c.waitFor("m1", "m2")
	for _, v := range versionsOf(kmsg.Metadata) {
		c.add("all", metadataRequest(v, nil))
	}
	for _, v := range versionsOf(kmsg.Metadata) {
		c.add("none", metadataRequest(v, []string{}))
		c.add("named", metadataRequest(v, []string{"m1", "m2", "m1", "", "a b", ".", longName + "n", "ünïcode"}))
		if v >= 4 { // before, every name that may be is created
			c.add("unknown", metadataRequest(v, []string{"nope", "m1", longName}))
		}
		use := fmt.Sprint("first-use", v)
		create := metadataRequest(v, []string{use, "bad name"})
		create.AllowAutoTopicCreation = true
		c.add("created on first use", create)
		c.waitFor(use)
		allowed := metadataRequest(v, []string{"m1"})
		allowed.IncludeClusterAuthorizedOperations, allowed.IncludeTopicAuthorizedOperations = true, true
		c.add("with operations", allowed)
		if v < 10 {
			continue
		}
		byID := func(rows ...string) func(*world) kmsg.Request {
			return func(w *world) kmsg.Request {
				req := metadataRequest(v, []string{})
				for _, row := range rows {
					topic := kmsg.NewMetadataRequestTopic()
					name, id, _ := strings.Cut(row, "/")
					if name != "null" {
						topic.Topic = &name
					}
					topic.TopicID = w.ids[id]
					if id == "strange" {
						topic.TopicID = strangeID
					}
					req.Topics = append(req.Topics, topic)
				}
				return req
			}
		}
		c.with("by id", kmsg.Metadata, v, byID("null/m2", "null/strange", "null/m2"))
		c.with("null and no id", kmsg.Metadata, v, byID("null/"))
		c.with("id and name", kmsg.Metadata, v, byID("m2/m2"))
		c.with("ids and names", kmsg.Metadata, v, byID("null/m2", "m1/"))
		c.with("an id and another's name", kmsg.Metadata, v, byID("m1/m2"))
	}
}

func (c *conversation) cluster() {
	for _, v := range versionsOf(kmsg.DescribeCluster) {
		for _, kind := range []int8{1, 2, 0, 3, -1} {
			for _, more := range []bool{false, true} {
				req := at(v, kmsg.NewPtrDescribeClusterRequest())
				req.EndpointType, req.IncludeClusterAuthorizedOperations, req.IncludeFencedBrokers = kind, more, more
				c.add(fmt.Sprintf("endpoints %d, more %v", kind, more), req)
			}
		}
	}
	for _, limit := range []int32{2000, 3, 1, 0, -1} {
		for _, names := range [][]string{{}, {"made2", "made3", "nope", "bad name", "made2"}, {"made4"}, {"nope"}, {""}} {
			if limit != 2000 && len(names) == 0 {
				continue // Kafka's own topics would take the room
			}
			for _, cursor := range []string{"", "made3/1", "made3/0", "made3/5", "made3/-1", "nope/0", "zzz/0", "/0"} {
				req := kmsg.NewPtrDescribeTopicPartitionsRequest()
				req.ResponsePartitionLimit = limit
				for _, name := range names {
					topic := kmsg.NewDescribeTopicPartitionsRequestTopic()
					topic.Topic = name
					req.Topics = append(req.Topics, topic)
				}
				if name, partition, ok := strings.Cut(cursor, "/"); ok {
					from := kmsg.NewDescribeTopicPartitionsRequestCursor()
					from.Topic = name
					fmt.Sscan(partition, &from.Partition)
					req.Cursor = &from
				}
				c.add(fmt.Sprintf("limit %d, topics %q, from %q", limit, names, cursor), req)
			}
		}
	}
}

func growRequest(version int16, name string, count int32, assignment ...[]int32) *kmsg.CreatePartitionsRequest {
	req := at(version, kmsg.NewPtrCreatePartitionsRequest())
	req.TimeoutMillis = 20_000
	topic := kmsg.NewCreatePartitionsRequestTopic()
	topic.Topic, topic.Count = name, count
	for _, replicas := range assignment {
		row := kmsg.NewCreatePartitionsRequestTopicAssignment()
		row.Replicas = replicas
		topic.Assignment = append(topic.Assignment, row)
	}
	req.Topics = append(req.Topics, topic)
	return req
}

func (c *conversation) growAndDelete() {
	for _, v := range versionsOf(kmsg.CreatePartitions) {
		now := int32(v)*2 + 2 // what made3 has
		c.add("one more", growRequest(v, "made3", now+1))
		c.add("as many", growRequest(v, "made3", now+1))
		c.add("fewer", growRequest(v, "made3", 1))
		c.add("none", growRequest(v, "made3", 0))
		c.add("below none", growRequest(v, "made3", -1))
		c.add("far too many", growRequest(v, "made3", 10_000_000))
		c.add("unknown", growRequest(v, "nope", 5))
		c.add("bad name", growRequest(v, "a b", 5))
		c.add("assigned", growRequest(v, "made3", now+2, []int32{1}))
		c.add("too few assigned", growRequest(v, "made3", now+4, []int32{1}))
		c.add("assigned to nobody known", growRequest(v, "made3", now+3, []int32{9}))
		c.add("assigned to too many", growRequest(v, "made3", now+3, []int32{1, 2}))
		c.add("assigned to nobody", growRequest(v, "made3", now+3, []int32{}))
		tried := growRequest(v, "made3", now+9)
		tried.ValidateOnly = true
		c.add("only tried", tried)
		twice := growRequest(v, "made3", now+9)
		twice.Topics = append(twice.Topics, twice.Topics[0], growRequest(v, "nope", 3).Topics[0])
		twice.ValidateOnly = true
		c.add("a topic twice", twice)
	}
	for _, v := range versionsOf(kmsg.DeleteTopics) {
		c.remove(v)
	}
}

// remove deletes topics: by name, and from version 6 on by id too.
func (c *conversation) remove(v int16) {
	name := fmt.Sprint("half", v+1)
	if v < 6 {
		named := func(names ...string) *kmsg.DeleteTopicsRequest {
			req := at(v, kmsg.NewPtrDeleteTopicsRequest())
			req.TopicNames, req.TimeoutMillis = names, 20_000
			return req
		}
		use := fmt.Sprint("first-use", v)
		c.add("good", named(name))
		c.add("good and unknown", named(use, "nope"))
		c.waitGone(name, use)
		c.add("bad names", named("", "a b", "."))
		c.add("a name twice", named("nope", "nope", name))
		return
	}
	rows := func(rows ...string) func(w *world) kmsg.Request {
		return func(w *world) kmsg.Request {
			req := at(v, kmsg.NewPtrDeleteTopicsRequest())
			req.TimeoutMillis = 20_000
			for _, row := range rows {
				topic := kmsg.NewDeleteTopicsRequestTopic()
				name, id, _ := strings.Cut(row, "/")
				if name != "null" {
					topic.Topic = &name
				}
				topic.TopicID = w.ids[id]
				if id == "strange" {
					topic.TopicID = strangeID
				}
				req.Topics = append(req.Topics, topic)
			}
			return req
		}
	}
	c.with("by name, and unknown", kmsg.DeleteTopics, v, rows(name+"/", "nope/"))
	c.waitGone(name)
	c.with("by id", kmsg.DeleteTopics, v, rows("null/made6"))
	c.waitGone("made6")
	c.with("an id twice", kmsg.DeleteTopics, v, rows("null/made5", "null/made5"))
	c.with("a name twice", kmsg.DeleteTopics, v, rows("made5/", "made5/"))
	c.with("name and id", kmsg.DeleteTopics, v, rows("made5/made5"))
	c.with("one by name and by id", kmsg.DeleteTopics, v, rows("made5/", "null/made5"))
	c.with("neither", kmsg.DeleteTopics, v, rows("null/"))
	c.with("unknown id", kmsg.DeleteTopics, v, rows("null/strange"))
}
