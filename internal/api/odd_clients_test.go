package api_test

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/brokertest"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/raw"
	"github.com/raftsman/raftsman/internal/record"
)

// oddFrames are requests that no client library would write, and what Apache Kafka 4.4 makes of them: an answer, or the end of
// the connection.
var oddFrames = []struct {
	name     string
	frame    []byte
	answered bool
}{
	{"Metadata v1, plain", raw.Frame(kmsg.Metadata, 1, 7, false, "\x00\x00\x00\x00"), true},
	{"bytes after the body", raw.Frame(kmsg.Metadata, 1, 7, false, "\x00\x00\x00\x00more"), true},
	{"bytes after a flexible body", raw.Frame(kmsg.Metadata, 12, 7, true, "\x01\x00\x00\x00more"), true},
	{"a null list where there is none (v0)", raw.Frame(kmsg.Metadata, 0, 7, false, "\xff\xff\xff\xff"), false},
	{"a list of -2 where null may be", raw.Frame(kmsg.Metadata, 1, 7, false, "\xff\xff\xff\xfe"), true},
	{"a null name", raw.Frame(kmsg.Metadata, 1, 7, false, "\x00\x00\x00\x01\xff\xff"), false},
	{"a null name, compact", raw.Frame(kmsg.Metadata, 9, 7, true, "\x02\x00\x00\x00\x00\x00\x00"), false},
	{"a null group", raw.Frame(kmsg.Heartbeat, 0, 7, false, "\xff\xff\x00\x00\x00\x01\x00\x01m"), false},
	{"null records' topics", raw.Frame(kmsg.Produce, 3, 7, false, "\xff\xff\x00\x01\x00\x00\x00\x00\xff\xff\xff\xff"), false},
	{"null protocols", raw.Frame(kmsg.JoinGroup, 0, 7, false, "\x00\x01g\x00\x00\x27\x10\x00\x00\x00\x08consumer\xff\xff\xff\xff"), false},
	{"a bool of 2", raw.Frame(kmsg.Metadata, 4, 7, false, "\x00\x00\x00\x00\x02"), true},
	{"an unknown tag in the body", raw.Frame(kmsg.Metadata, 12, 7, true, "\x01\x00\x00\x01\x63\x02hi"), true},
	{"a varint with zeros in front", raw.Frame(kmsg.Metadata, 12, 7, true, "\x81\x00\x00\x00\x00"), true},
	{"an unknown tag in the header", tagged("\x01\x63\x02hi"), true},
	{"a header with a thousand tags", tagged("\xe8\x07" + manyTags(1000)), true},
	{"no client id", clientID("\xff\xff"), true},
	{"an empty client id", clientID("\x00\x00"), true},
	{"a client id of 30,000 bytes", clientID("\x75\x30" + strings.Repeat("c", 30000)), true},
	{"a client id that is no UTF-8", clientID("\x00\x02\xff\xfe"), true},
	{"a topic's name that is no UTF-8", raw.Frame(kmsg.Metadata, 4, 7, false, "\x00\x00\x00\x01\x00\x02\xff\xfe\x00"), true},
	{"a name of 32,767 bytes, compact", raw.Frame(kmsg.Metadata, 12, 7, true, "\x02"+strings.Repeat("\x00", 16)+"\x80\x80\x02"+strings.Repeat("n", 32767)+"\x00\x00\x00\x00"), true},
	{"a name of 32,768 bytes, compact", raw.Frame(kmsg.Metadata, 12, 7, true, "\x02"+strings.Repeat("\x00", 16)+"\x81\x80\x02"+strings.Repeat("n", 32768)+"\x00\x00\x00\x00"), false},
	{"a group of 32,768 bytes, compact", raw.Frame(kmsg.Heartbeat, 4, 7, true, "\x81\x80\x02"+strings.Repeat("g", 32768)+"\x00\x00\x00\x01\x02m\x00\x00"), false},
	{"a topic to produce to of 32,768 bytes, compact", raw.Frame(kmsg.Produce, 9, 7, true, "\x00\x00\x01\x00\x00\x00\x00\x02\x81\x80\x02"+strings.Repeat("g", 32768)+"\x01\x00\x00"), false},
	{"a name with a zero byte", raw.Frame(kmsg.Metadata, 4, 7, false, "\x00\x00\x00\x01\x00\x03a\x00b\x00"), true},
}

// tagged is a Metadata v12 of no topics with tags in its header.
func tagged(tags string) []byte {
	return clientIDs("\x00\x03raw"+tags, 12, "\x01\x00\x00\x00")
}

// clientID is a Metadata v1 of no topics from a client that calls itself so.
func clientID(id string) []byte { return clientIDs(id, 1, "\x00\x00\x00\x00") }

func clientIDs(id string, version byte, body string) []byte {
	b := append([]byte{0, 0, 0, 0, 0, 3, 0, version, 0, 0, 0, 7}, id+body...)
	n := len(b) - 4
	b[0], b[1], b[2], b[3] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	return b
}

func manyTags(n int) string {
	var b []byte
	for tag := range n {
		if tag >= 128 {
			b = append(b, byte(tag)|0x80, byte(tag>>7), 0)
			continue
		}
		b = append(b, byte(tag), 0)
	}
	return string(b)
}

var oddKafka = flag.String("odd-kafka", "", "address of an Apache Kafka 4.4 to send the odd frames to as well")

// TestOddFramesAreTakenAsKafkaDoes asks a Kafka too when -odd-kafka names one.
func TestOddFramesAreTakenAsKafkaDoes(t *testing.T) {
	addresses := []string{brokertest.Start(t).Addr()}
	if *oddKafka != "" {
		addresses = append(addresses, *oddKafka)
	}
	for i, address := range addresses {
		for _, f := range oddFrames {
			l := connect(t, address)
			l.SendBytes(f.frame)
			correlation, _, err := l.Receive()
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("broker %d, %s: no answer", i, f.name)
				continue
			}
			if answered := err == nil; answered != f.answered || answered && correlation != 7 {
				t.Errorf("broker %d, %s: answered %v (id %d, %v), want %v", i, f.name, answered, correlation, err, f.answered)
			}
			if f.answered && err == nil {
				l.TopicsOf(12) // the connection is as good as before
			}
			l.Net.Close()
		}
	}
}

// A client on a bad line sends a byte at a time, and one on a good line everything at once.
func TestBytesComeOneByOneAndAllAtOnce(t *testing.T) {
	b := brokertest.Start(t)
	slow, fast := connect(t, b.Addr()), connect(t, b.Addr())
	slow.Create("t", 1)
	req := raw.Produce(9, -1, raw.ProduceRow{Topic: "t", Records: raw.Values("x")})
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID("slow")).AppendRequest(nil, req, 9)
	for i := range f {
		slow.SendBytes(f[i : i+1])
	}
	if p := slow.Answer(req, 9).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != 0 {
		t.Errorf("a byte at a time: %+v", p)
	}
	var all []byte
	const count = 500
	for i := range int32(count) {
		all = append(all, kmsg.NewRequestFormatter().AppendRequest(nil, req, i)...)
	}
	go func() { fast.SendBytes(all) }()
	for i := range int32(count) {
		if p := fast.Answer(req, i).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != int64(i)+1 {
			t.Fatalf("request %d of %d in one piece: %+v", i, count, p)
		}
	}
}

// The oldest versions that are served still make a whole client: one that produces, reads in a group, commits and leaves.
func TestTheOldestVersionsMakeAClient(t *testing.T) {
	b := brokertest.Start(t)
	l := connect(t, b.Addr())
	code(t, "create", l.Ask(raw.CreateTopics(2, raw.NewTopic("t", 1, 1))).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode, kafka.None)
	if m := l.Ask(raw.Metadata(0, []string{"t"})).(*kmsg.MetadataResponse); len(m.Brokers) != 1 || m.Topics[0].Partitions[0].Leader != m.Brokers[0].NodeID {
		t.Errorf("metadata: %+v", m)
	}
	code(t, "produce", l.produce(3, "t", raw.Values("a", "b")).ErrorCode, kafka.None)
	find := raw.At(0, kmsg.NewPtrFindCoordinatorRequest())
	find.CoordinatorKey = "old"
	raw.Until(l.Conn, find, "a coordinator", raw.Found)
	l.coordinator("old") // which may still load
	joined := l.join(0, "old", nil)
	l.assign(0, "old", joined)
	code(t, "heartbeat", l.Ask(raw.Heartbeat(0, "old", joined.MemberID, joined.Generation)).(*kmsg.HeartbeatResponse).ErrorCode, kafka.None)
	first := l.Ask(raw.ListOffsets(1, raw.ListRow{Topic: "t", Timestamp: -2})).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].Offset
	read := l.Ask(raw.Fetch(4, raw.FetchRow{Topic: "t", Offset: first})).(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if b := whole(t, read.RecordBatches); len(b) != 1 || b[0].Count() != 2 {
		t.Errorf("fetch: %d batches", len(b))
	}
	commit := raw.Commit(2, "old", joined.MemberID, joined.Generation, raw.CommitRow{Topic: "t", Offset: 2})
	commit.RetentionTimeMillis = 86_400_000
	code(t, "commit", l.Ask(commit).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode, kafka.None)
	got := l.Ask(raw.Offsets(1, "old", []raw.CommitRow{{Topic: "t"}})).(*kmsg.OffsetFetchResponse).Topics[0].Partitions[0]
	if got.ErrorCode != 0 || got.Offset != 2 || got.Metadata == nil {
		t.Errorf("committed: %+v", got)
	}
	code(t, "leave", l.Ask(raw.Leave(0, "old", joined.MemberID)).(*kmsg.LeaveGroupResponse).ErrorCode, kafka.None)
	gone := raw.At(1, kmsg.NewPtrDeleteTopicsRequest())
	gone.TopicNames = []string{"t"}
	code(t, "delete", l.Ask(gone).(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode, kafka.None)
}

// Lists of thousands are as honest as lists of one.
func TestLongListsAreAnsweredWhole(t *testing.T) {
	b := brokertest.Start(t)
	l := connect(t, b.Addr())
	const many = 3000
	var names []string
	var topics []kmsg.CreateTopicsRequestTopic
	for i := range many / 10 {
		names = append(names, fmt.Sprintf("topic-%04d", i))
		topics = append(topics, raw.NewTopic(names[i], 10, 1))
	}
	for _, row := range l.Ask(raw.CreateTopics(7, topics...)).(*kmsg.CreateTopicsResponse).Topics {
		code(t, row.Topic, row.ErrorCode, kafka.None)
	}
	for _, version := range []int16{0, 1, 9, 12, 13} {
		asked := slices.Clone(names)
		for i := range 10_000 {
			asked = append(asked, fmt.Sprintf("bad name %d", i))
		}
		if version == 13 {
			asked = names
		}
		rows := l.Ask(raw.Metadata(version, asked)).(*kmsg.MetadataResponse).Topics
		good, partitions := 0, 0
		for _, row := range rows {
			if row.ErrorCode == 0 {
				good, partitions = good+1, partitions+len(row.Partitions)
			}
		}
		if len(rows) != len(asked) || good != len(names) || partitions != many {
			t.Errorf("Metadata v%d of %d names: %d rows, %d good, %d partitions", version, len(asked), len(rows), good, partitions)
		}
	}
	var produces []raw.ProduceRow
	var fetches []raw.FetchRow
	var lists []raw.ListRow
	var commits []raw.CommitRow
	for _, name := range names {
		for p := range int32(10) {
			produces = append(produces, raw.ProduceRow{Topic: name, Partition: p, Records: raw.Values("x")})
			fetches = append(fetches, raw.FetchRow{Topic: name, Partition: p})
			lists = append(lists, raw.ListRow{Topic: name, Partition: p, Timestamp: -1})
			commits = append(commits, raw.CommitRow{Topic: name, Partition: p, Offset: int64(p)})
		}
	}
	count := 0
	for _, topic := range l.Ask(raw.Produce(9, -1, produces...)).(*kmsg.ProduceResponse).Topics {
		for _, p := range topic.Partitions {
			if code(t, "produce", p.ErrorCode, kafka.None); p.BaseOffset == 0 {
				count++
			}
		}
	}
	if count != many {
		t.Errorf("%d partitions were produced to, want %d", count, many)
	}
	read := 0
	for rounds := 0; read < many; rounds++ { // an answer has the records of some, and a row for each
		fetch := raw.Fetch(12, fetches...)
		fetch.MaxBytes = 10 << 20
		rows := rowsOf(l.Ask(fetch))
		if len(rows) != len(fetches) || rounds == many/1000 {
			t.Fatalf("%d rows for %d partitions; %d were read in %d fetches, want %d", len(rows), len(fetches), read, rounds, many)
		}
		var left []raw.FetchRow
		for _, f := range fetches {
			if rows[fmt.Sprint(f.Topic, "-", f.Partition)] == 0 {
				left = append(left, f)
			}
		}
		read, fetches = read+len(fetches)-len(left), left
	}
	count = 0
	for _, topic := range l.Ask(raw.ListOffsets(7, lists...)).(*kmsg.ListOffsetsResponse).Topics {
		for _, p := range topic.Partitions {
			count += int(p.Offset)
		}
	}
	if count != many {
		t.Errorf("ends add up to %d, want %d", count, many)
	}
	l.coordinator("many")
	for _, topic := range l.Ask(raw.Commit(8, "many", "", -1, commits...)).(*kmsg.OffsetCommitResponse).Topics {
		for _, p := range topic.Partitions {
			code(t, "commit", p.ErrorCode, kafka.None)
		}
	}
	count = 0
	for _, topic := range l.Ask(raw.Offsets(8, "many", nil)).(*kmsg.OffsetFetchResponse).Groups[0].Topics {
		count += len(topic.Partitions)
	}
	if count != many {
		t.Errorf("%d offsets come back, want %d", count, many)
	}
	unknown := raw.At(5, kmsg.NewPtrDescribeGroupsRequest())
	for i := range many {
		unknown.Groups = append(unknown.Groups, fmt.Sprint("group ", i))
	}
	if n := len(l.Ask(unknown).(*kmsg.DescribeGroupsResponse).Groups); n != many {
		t.Errorf("%d groups are described, want %d", n, many)
	}
	gone := raw.At(5, kmsg.NewPtrDeleteTopicsRequest())
	gone.TopicNames = names
	for _, row := range l.Ask(gone).(*kmsg.DeleteTopicsResponse).Topics {
		code(t, "delete "+deref(row.Topic), row.ErrorCode, kafka.None)
	}
}

// A group may be called anything: its offsets and its members are found again under that name, also after a restart.
func TestGroupsOfAnyName(t *testing.T) {
	dir := t.TempDir()
	b := brokertest.Start(t, brokertest.Dir(dir))
	l := connect(t, b.Addr())
	l.Create("r", 1)
	l.coordinator("g")
	names := []string{"grüppe ☃", "日本語", "🦀🦀", " ", "a/b\\c", "../..", "\x00", "e\u0301", "é", strings.Repeat("g", 32767)}
	for i, name := range names {
		for version := int16(2); version <= 9; version++ {
			row := l.Ask(raw.Commit(version, name, "", -1, raw.CommitRow{Topic: "r", Offset: int64(i)})).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0]
			code(t, fmt.Sprintf("commit v%d to %.20q", version, name), row.ErrorCode, kafka.None)
		}
		joined := l.join(7, name, new(name))
		sync := raw.Sync(5, name, joined.MemberID, joined.Generation, joined.MemberID)
		sync.InstanceID = new(name)
		code(t, fmt.Sprintf("sync %.20q", name), l.Ask(sync).(*kmsg.SyncGroupResponse).ErrorCode, kafka.None)
	}
	check := func() {
		t.Helper()
		var listed []string
		for _, g := range l.Ask(raw.At(5, kmsg.NewPtrListGroupsRequest())).(*kmsg.ListGroupsResponse).Groups {
			listed = append(listed, g.Group)
		}
		slices.Sort(listed)
		if want := slices.Sorted(slices.Values(names)); !slices.Equal(listed, want) {
			t.Errorf("listed %.200q, want %.200q", listed, want)
		}
		for i, name := range names {
			if got := l.committed(name, "r", 0); got != int64(i) {
				t.Errorf("%.20q has committed %d, want %d", name, got, i)
			}
			g := l.Ask(raw.DescribeGroups(6, name)).(*kmsg.DescribeGroupsResponse).Groups[0]
			if g.ErrorCode != 0 || g.State != "Stable" || len(g.Members) != 1 || deref(g.Members[0].InstanceID) != name {
				t.Errorf("%.20q: %v, %s, %d members", name, kafka.Error(g.ErrorCode), g.State, len(g.Members))
			}
		}
	}
	check()
	b.Close()
	l = connect(t, brokertest.Start(t, brokertest.Dir(dir)).Addr())
	l.coordinator("g")
	check()
}

// Null records are bytes that are not there: refused, and never left without an answer.
func TestNullRecordsAreRefused(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	id := l.Create("t", 1)
	for version := int16(3); version <= 13; version++ {
		row := raw.ProduceRow{Topic: "t"}
		if version >= 13 {
			row.Topic, row.ID = "", id
		}
		resp, err := l.TryAsk(raw.Produce(version, -1, row))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("v%d: no answer", version)
		}
		if err == nil && resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode == 0 {
			t.Errorf("v%d: taken", version)
		}
	}
}

// A session of fetches that names a partition twice, drops what it does not have and asks for what it has, stays a session.
func TestSessionsOfConfusedClients(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	l.Create("t", 2)
	for p := range int32(2) {
		l.Ask(raw.Produce(9, -1, raw.ProduceRow{Topic: "t", Partition: p, Records: raw.Values("x")}))
	}
	open := raw.Fetch(12, raw.FetchRow{Topic: "t"}, raw.FetchRow{Topic: "t", Offset: 1}, raw.FetchRow{Topic: "t", Partition: 1}, raw.FetchRow{Topic: "nope"})
	open.SessionEpoch = 0
	first := l.Ask(open).(*kmsg.FetchResponse)
	if first.SessionID == 0 || first.ErrorCode != 0 {
		t.Fatalf("opened: %+v", first)
	}
	for epoch := int32(1); epoch < 20; epoch++ {
		next := raw.Fetch(12, raw.FetchRow{Topic: "t", Partition: epoch % 2, Offset: int64(epoch % 3)}, raw.FetchRow{Topic: "t", Partition: epoch % 2})
		next.SessionID, next.SessionEpoch = first.SessionID, epoch
		forget := kmsg.NewFetchRequestForgottenTopic()
		forget.Topic, forget.Partitions = []string{"t", "nope", "never"}[epoch%3], []int32{0, 0, 7}
		next.ForgottenTopics = append(next.ForgottenTopics, forget)
		got := l.Ask(next).(*kmsg.FetchResponse)
		if got.ErrorCode != 0 || got.SessionID != first.SessionID {
			t.Fatalf("epoch %d: %v, session %d, was %d", epoch, kafka.Error(got.ErrorCode), got.SessionID, first.SessionID)
		}
		for _, topic := range got.Topics {
			for _, p := range topic.Partitions {
				if topic.Topic == "t" && p.ErrorCode != 0 && kafka.Error(p.ErrorCode) != kafka.OffsetOutOfRange {
					t.Errorf("epoch %d: %s-%d: %v", epoch, topic.Topic, p.Partition, kafka.Error(p.ErrorCode))
				}
			}
		}
	}
}

// Sixty clients with their own idea of everything at once do not disturb each other.
func TestManyClientsOfEveryVersion(t *testing.T) {
	b := brokertest.Start(t)
	connect(t, b.Addr()).Create("t", 4)
	done := make(chan struct{})
	const clients = 60
	for i := range clients {
		go func() {
			defer func() { done <- struct{}{} }()
			l := connect(t, b.Addr())
			for round := range 10 {
				for _, k := range []kmsg.Key{kmsg.Metadata, kmsg.Produce, kmsg.Fetch, kmsg.ListOffsets, kmsg.DescribeConfigs, kmsg.ListGroups} {
					versions := raw.VersionsOf(k)
					req := raw.Odd(k, versions[(i+round)%len(versions)], raw.Single)
					l.Send(req)
					if got, _, err := l.Receive(); err != nil || got != l.Last {
						t.Errorf("client %d: %s: id %d, %v; want id %d", i, raw.Describe(req), got, err, l.Last)
						return
					}
				}
			}
		}()
	}
	for range clients {
		<-done
	}
}

// Every string of every request as long as a string can be: each is answered, in a form that can be read, or the connection
// ends; and what can be stored of it is found again by the next start.
func TestTheLongestStrings(t *testing.T) {
	dir := t.TempDir()
	b := brokertest.Start(t, brokertest.Dir(dir))
	l := connect(t, b.Addr())
	l.Create("r", 1)
	l.coordinator("g")
	answered := 0
	for _, k := range raw.Keys {
		if k.Comes != "" {
			continue
		}
		for _, version := range raw.VersionsOf(k.Key) {
			for _, refine := range []func(kmsg.Request){func(kmsg.Request) {}, sensible} {
				req := raw.Odd(k.Key, version, raw.Longest)
				refine(req)
				l.Last++
				l.SendBytes(kmsg.NewRequestFormatter(kmsg.FormatterClientID(raw.LongestString)).AppendRequest(nil, req, l.Last))
				_, body, err := l.Receive()
				if errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatalf("%s: no answer", raw.Describe(req))
				}
				if err != nil {
					l.Net.Close()
					l.Redial()
					continue
				}
				answered++
				resp, err := raw.Decode(req, body)
				if err != nil {
					t.Errorf("%v", err)
					continue
				}
				checkLengths(t, raw.Describe(req), reflect.ValueOf(resp).Elem())
			}
		}
	}
	if answered < 200 {
		t.Errorf("only %d were answered", answered)
	}
	b.Close()
	l = connect(t, brokertest.Start(t, brokertest.Dir(dir)).Addr())
	l.TopicsOf(12, "r")
	raw.Until(l.Conn, raw.At(5, kmsg.NewPtrListGroupsRequest()), "the groups", func(r *kmsg.ListGroupsResponse) bool { return r.ErrorCode == 0 })
}

// sensible makes a request of longest strings one that goes further than its first check.
func sensible(req kmsg.Request) {
	switch req := req.(type) {
	case *kmsg.JoinGroupRequest:
		req.Group = raw.LongestString[:math.MaxInt16-4] + fmt.Sprint("-v", req.Version)
		req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.MemberID = 300_000, 300_000, ""
	case *kmsg.OffsetCommitRequest:
		req.MemberID, req.InstanceID, req.Generation = "", nil, -1
		req.Topics[0].Topic = "r"
	case *kmsg.CreateTopicsRequest:
		req.Topics[0].Topic, req.Topics[0].NumPartitions, req.Topics[0].ReplicationFactor = "long", 1, 1
		req.Topics[0].ReplicaAssignment = nil
	case *kmsg.ProduceRequest:
		req.Topics[0].Topic = "r"
		b := record.Builder{Producer: &record.Producer{ID: 5}, Transactional: true}
		b.Add(nil, []byte("v"), nil, raw.LongAgoMs)
		req.Topics[0].Partitions[0].Records = b.Build()
	case *kmsg.DescribeConfigsRequest:
		req.Resources[0].ResourceType = 32 // a group
	case *kmsg.AlterConfigsRequest:
		req.Resources[0].ResourceType = 32 // a group
	case *kmsg.IncrementalAlterConfigsRequest:
		req.Resources[0].ResourceType, req.Resources[0].ResourceName = kmsg.ConfigResourceTypeTopic, "r"
	}
}

// checkLengths holds that no string of an answer is longer than clients read.
func checkLengths(t *testing.T, where string, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		if v.Len() > math.MaxInt16 {
			t.Errorf("%s: a string of %d bytes: %.100q", where, v.Len(), v.String())
		}
	case reflect.Pointer:
		if !v.IsNil() {
			checkLengths(t, where, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			checkLengths(t, where, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "UnknownTags" {
				checkLengths(t, where+" "+v.Type().Field(i).Name, v.Field(i))
			}
		}
	}
}
