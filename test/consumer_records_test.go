package test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// TestConsumerGroupRecordsAreKafkas has the same conversation with Apache Kafka 4.4 and with Raftsman, and compares what stands in
// __consumer_offsets then, record by record, byte by byte, but for the topic's id, times and hashes of ids.
func TestConsumerGroupRecordsAreKafkas(t *testing.T) {
	t.Parallel()
	k := kafkaHome{root: t.TempDir(), port: freePort(t), settings: []string{
		"offsets.topic.num.partitions=1", "group.consumer.assignment.interval.ms=0",
	}}
	k.start(t)
	want := groupRecords(t, k.addr())
	k.stop(t)
	p := startBroker(t, t.TempDir(), "--override", "offsets.topic.num.partitions=1", "--override", "group.consumer.assignment.interval.ms=0")
	got := groupRecords(t, p.addr)
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Fatalf("record %d is missing: %s", i, want[i])
		case i >= len(want):
			t.Fatalf("record %d is one too many: %s", i, got[i])
		case got[i] != want[i]:
			t.Fatalf("record %d is\n%s\nby Kafka\n%s\nbefore them:\n%s", i, got[i], want[i], strings.Join(want[max(0, i-6):i], "\n"))
		}
	}
	if len(want) < 50 {
		t.Errorf("only %d records", len(want))
	}
}

// recordTalk is one conversation.
type recordTalk struct {
	testing.TB
	ctx  context.Context
	cl   *kgo.Client
	id   [16]byte // of the topic
	mine string   // the member id that the broker has made up
}

// beat is a heartbeat of the consumer protocol. has: what the member works on, nil unsaid.
func (r *recordTalk) beat(member string, epoch int32, has []int32, more func(*kmsg.ConsumerGroupHeartbeatRequest)) {
	r.Helper()
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = "g", member, epoch, -1
	if epoch == 0 {
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 60_000, []string{"t"}
	}
	if epoch == 0 || has != nil {
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	if len(has) > 0 {
		topic := kmsg.NewConsumerGroupHeartbeatRequestTopic()
		topic.TopicID, topic.Partitions = r.id, has
		req.Topics = append(req.Topics, topic)
	}
	if more != nil {
		more(req)
	}
	eventually(r, atLast, fmt.Sprintf("heartbeat of %s at epoch %d", member, epoch), func() error {
		resp, err := req.RequestWith(r.ctx, r.cl)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
}

// classic joins in the classic protocol, and asks for what it was given.
func (r *recordTalk) classic(given []byte) {
	r.Helper()
	join := kmsg.NewPtrJoinGroupRequest()
	join.SetVersion(3)
	join.Group, join.MemberID, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis, join.ProtocolType = "g", r.mine, 45_000, 60_000, "consumer"
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name = "range"
	protocol.Metadata = []byte{0, 1, 0, 0, 0, 1, 0, 1, 't', 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}
	join.Protocols = append(join.Protocols, protocol)
	joined := must(r.old(join))(r).(*kmsg.JoinGroupResponse)
	if joined.ErrorCode != 0 {
		r.Fatalf("join: %v", kerr.ErrorForCode(joined.ErrorCode))
	}
	r.mine = joined.MemberID
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.SetVersion(3)
	sync.Group, sync.MemberID, sync.Generation = "g", r.mine, joined.Generation
	if given != nil {
		sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: r.mine, MemberAssignment: given}}
	}
	synced := must(r.old(sync))(r).(*kmsg.SyncGroupResponse)
	if synced.ErrorCode != 0 {
		r.Fatalf("sync: %v", kerr.ErrorForCode(synced.ErrorCode))
	}
}

// leave takes members out.
func (r *recordTalk) leave(ids ...string) {
	r.Helper()
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group = "g"
	for _, id := range ids {
		member := kmsg.NewLeaveGroupRequestMember()
		if member.MemberID = id; id == "C" {
			member.InstanceID = new("one")
		}
		leave.Members = append(leave.Members, member)
	}
	left := must(leave.RequestWith(r.ctx, r.cl))(r)
	for _, m := range left.Members {
		if err := kerr.ErrorForCode(m.ErrorCode); err != nil {
			r.Fatalf("leave %s: %v", m.MemberID, err)
		}
	}
}

// old sends a request at its own version.
func (r *recordTalk) old(req kmsg.Request) (kmsg.Response, error) {
	return r.cl.Request(r.ctx, req)
}

// groupRecords talks, and returns what has been written.
func groupRecords(t *testing.T, addr string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*atLast)
	defer cancel()
	cl := crashClient(t, addr, kgo.ClientID("talk"), kgo.MaxVersions(oldJoins()))
	adm := kadm.NewClient(cl)
	created := must(adm.CreateTopic(ctx, 6, 1, nil, "t"))(t)
	r := &recordTalk{TB: t, ctx: ctx, cl: cl, id: created.ID}
	eventually(t, atLast, "the topic is there", func() error {
		topics, err := adm.ListTopics(ctx, "t")
		if err == nil && len(topics["t"].Partitions) != 6 {
			err = fmt.Errorf("%+v", topics)
		}
		return err
	})
	instance := "one"
	static := func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.InstanceID = &instance }
	// Numbers of partitions that can be shared evenly leave no choice to the order of members, which differs.
	r.beat("A", 0, nil, nil)
	r.beat("A", 2, []int32{0, 1, 2, 3, 4, 5}, nil)
	r.beat("B", 0, nil, static)
	r.beat("A", 2, []int32{0, 1, 2, 3, 4, 5}, nil)
	r.beat("A", 2, []int32{0, 1, 2}, nil)
	r.beat("B", 3, []int32{}, static)
	r.beat("B", -2, nil, static)
	r.beat("C", 0, nil, static)
	r.beat("A", 3, []int32{0, 1, 2}, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.ServerAssignor = new("uniform") })
	r.classic(nil)
	r.beat("A", 3, []int32{0, 1, 2}, nil)
	r.beat("A", 3, []int32{0, 1}, nil)
	r.beat("C", 3, []int32{3, 4}, static)
	r.classic(nil)
	r.leave("A", "C") // which leaves a classic group
	r.classic([]byte{0, 1, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff})
	r.beat("D", 0, nil, nil) // which makes it a consumer group
	r.leave(r.mine)
	r.beat("D", -1, nil, nil)
	must(adm.DeleteGroups(ctx, "g"))(t)
	return readRecords(t, addr, r)
}

// readRecords reads the group's partition to its end, and writes down each record without what differs between two brokers.
func readRecords(t *testing.T, addr string, r *recordTalk) (all []string) {
	t.Helper()
	cl := crashClient(t, addr, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"__consumer_offsets": {0: kgo.NewOffset().AtStart()}}))
	end := must(kadm.NewClient(cl).ListEndOffsets(r.ctx, "__consumer_offsets"))(t)["__consumer_offsets"][0].Offset
	for next := int64(0); next < end; {
		fetches := cl.PollFetches(r.ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			next = record.Offset + 1
			all = append(all, shownRecord(r, record))
		})
	}
	// Kafka goes through members in the order of a hash table.
	for from := 0; from < len(all); {
		to := from + 1
		for to < len(all) && kindOf(all[to]) == kindOf(all[from]) {
			to++
		}
		slices.Sort(all[from:to])
		from = to
	}
	return all
}

func kindOf(shown string) string {
	kind, _, _ := strings.Cut(shown, " ")
	return kind
}

func shownRecord(r *recordTalk, record *kgo.Record) string {
	kind := int(record.Key[0])<<8 | int(record.Key[1])
	value := slices.Clone(record.Value)
	if value != nil {
		switch kind {
		case 2: // the group in the classic protocol: when it came into its state
			at := bytes.Index(value, []byte("range"))
			value = []byte(fmt.Sprintf("%q", strings.ReplaceAll(string(value), r.mine, "MINE")))
			if at < 0 {
				value = []byte("a classic group without a protocol")
			}
			value = masked(value)
		case 3, 6: // the epoch alone: a hash and a time follow
			value = value[:6]
		}
		value = bytes.ReplaceAll(value, r.id[:], []byte("TOPIC-ID"))
	}
	text := fmt.Sprintf("%d %q %q", kind, record.Key[2:], value)
	return strings.ReplaceAll(text, r.mine, "MINE")
}

// masked leaves out the time, which stands before the members.
func masked(value []byte) []byte {
	text := string(value)
	if at := strings.Index(text, "MINE"); at > 0 {
		rest := text[at:]
		if members := strings.Index(rest[4:], "MINE"); members > 0 {
			return []byte(text[:at] + rest[4+members:])
		}
	}
	return value
}

// oldJoins holds JoinGroup and SyncGroup at versions in which a member may come without an id.
func oldJoins() *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(11, 3)
	v.SetMaxKeyVersion(14, 3)
	return v
}
