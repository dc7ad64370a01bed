package api_test

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/brokertest"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/raw"
)

// join makes the link's client a member of a group: the only one, so that it need not wait.
func (l *link) join(version int16, group string, instance *string) *kmsg.JoinGroupResponse {
	l.Helper()
	req := raw.Join(version, group, "", "range")
	req.InstanceID = instance
	resp := l.Ask(req).(*kmsg.JoinGroupResponse)
	if kafka.Error(resp.ErrorCode) == kafka.MemberIdRequired {
		req.MemberID = resp.MemberID
		resp = l.Ask(req).(*kmsg.JoinGroupResponse)
	}
	if resp.ErrorCode != 0 {
		l.Fatalf("join %s: %v", group, kafka.Error(resp.ErrorCode))
	}
	return resp
}

// assign brings the assignment of a group whose only member is the link's client.
func (l *link) assign(version int16, group string, joined *kmsg.JoinGroupResponse) *kmsg.SyncGroupResponse {
	l.Helper()
	resp := l.Ask(raw.Sync(version, group, joined.MemberID, joined.Generation, joined.MemberID)).(*kmsg.SyncGroupResponse)
	if resp.ErrorCode != 0 || string(resp.MemberAssignment) != "assignment" {
		l.Fatalf("sync %s: %v, %q", group, kafka.Error(resp.ErrorCode), resp.MemberAssignment)
	}
	return resp
}

// beat is a heartbeat's code.
func (l *link) beat(group, member string, generation int32, instance *string) kafka.Error {
	l.Helper()
	req := raw.Heartbeat(4, group, member, generation)
	req.InstanceID = instance
	return kafka.Error(l.Ask(req).(*kmsg.HeartbeatResponse).ErrorCode)
}

// groupBroker is one whose sessions may be short, with a topic r of three partitions.
func groupBroker(t *testing.T, opts ...brokertest.Option) *brokertest.Broker {
	t.Helper()
	b := brokertest.Start(t, append(opts, brokertest.Property("group.min.session.timeout.ms", "100"))...)
	l := connect(t, b.Addr())
	l.Create("r", 3)
	l.coordinator("g")
	return b
}

// From version 4 on a newcomer gets an id first. One that never comes back holds up the others for no longer than its session.
func TestRule83MemberIDsFirst(t *testing.T) {
	b := groupBroker(t)
	l := connect(t, b.Addr())
	for version := range int16(10) {
		first := l.Ask(raw.Join(version, fmt.Sprint("g", version), "", "range")).(*kmsg.JoinGroupResponse)
		want := kafka.MemberIdRequired
		if version < 4 {
			want = kafka.None
		}
		code(t, fmt.Sprintf("v%d", version), first.ErrorCode, want)
		if first.MemberID == "" || version >= 4 && (first.Generation != -1 || len(first.Members) != 0) {
			t.Errorf("v%d: %+v", version, first)
		}
		if version < 4 {
			continue
		}
		code(t, fmt.Sprintf("v%d, with the id", version), l.Ask(raw.Join(version, fmt.Sprint("g", version), first.MemberID, "range")).(*kmsg.JoinGroupResponse).ErrorCode, kafka.None)
		static := raw.Join(version, fmt.Sprint("s", version), "", "range")
		static.InstanceID = new("i")
		if version >= 5 {
			code(t, fmt.Sprintf("v%d, static", version), l.Ask(static).(*kmsg.JoinGroupResponse).ErrorCode, kafka.None)
		}
	}
	lost := raw.Join(5, "lost", "", "range")
	lost.SessionTimeoutMillis, lost.RebalanceTimeoutMillis = 500, int32((10 * raw.Patience).Milliseconds())
	code(t, "an id that is never used", l.Ask(lost).(*kmsg.JoinGroupResponse).ErrorCode, kafka.MemberIdRequired)
	next := raw.Join(5, "lost", "", "range")
	next.RebalanceTimeoutMillis = lost.RebalanceTimeoutMillis // so that nothing else ends the round
	next.MemberID = l.Ask(next).(*kmsg.JoinGroupResponse).MemberID
	if joined := l.Ask(next).(*kmsg.JoinGroupResponse); joined.ErrorCode != 0 || len(joined.Members) != 1 {
		t.Errorf("the second member's round has %d members: %v", len(joined.Members), kafka.Error(joined.ErrorCode))
	}
}

// A static member comes back under its instance id: same generation, same assignment; its old member id is fenced, also after the
// broker was started again.
func TestRule84StaticMembersReturn(t *testing.T) {
	dir := t.TempDir()
	b := groupBroker(t, brokertest.Dir(dir))
	l := connect(t, b.Addr())
	me := new("instance")
	comeBack := func(before *kmsg.JoinGroupResponse) *kmsg.JoinGroupResponse {
		t.Helper()
		req := raw.Join(7, "g", "", "range")
		req.InstanceID = me
		after := l.Ask(req).(*kmsg.JoinGroupResponse)
		if after.ErrorCode != 0 || after.MemberID == before.MemberID || after.Generation != before.Generation {
			t.Fatalf("came back as %q in generation %d (%v), was %q in %d", after.MemberID, after.Generation, kafka.Error(after.ErrorCode), before.MemberID, before.Generation)
		}
		if c := l.beat("g", before.MemberID, before.Generation, me); c != kafka.FencedInstanceId {
			t.Errorf("the id before: %v, want it fenced", c)
		}
		sync := raw.Sync(5, "g", after.MemberID, after.Generation)
		sync.InstanceID = me
		if got := l.Ask(sync).(*kmsg.SyncGroupResponse); got.ErrorCode != 0 || string(got.MemberAssignment) != "assignment" {
			t.Errorf("its assignment after: %v, %q", kafka.Error(got.ErrorCode), got.MemberAssignment)
		}
		if c := l.beat("g", after.MemberID, after.Generation, me); c != kafka.None {
			t.Errorf("its heartbeat after: %v", c)
		}
		return after
	}
	joined := l.join(7, "g", me)
	sync := raw.Sync(5, "g", joined.MemberID, joined.Generation, joined.MemberID)
	sync.InstanceID = me
	code(t, "sync", l.Ask(sync).(*kmsg.SyncGroupResponse).ErrorCode, kafka.None)
	joined = comeBack(joined)
	joined = comeBack(joined)
	b.Close()
	l = connect(t, brokertest.Start(t, brokertest.Dir(dir)).Addr())
	l.coordinator("g")
	if c := l.beat("g", joined.MemberID, joined.Generation, me); c != kafka.None {
		t.Errorf("after a restart: %v", c)
	}
	comeBack(joined)
}

// What each request is told in each state of a group.
func TestRule85CodesOfClassicGroups(t *testing.T) {
	b := groupBroker(t)
	l, second := connect(t, b.Addr()), connect(t, b.Addr())
	const group = "g"
	commit := func(member string, generation int32) kafka.Error {
		t.Helper()
		resp := l.Ask(raw.Commit(8, group, member, generation, raw.CommitRow{Topic: "r", Offset: 5})).(*kmsg.OffsetCommitResponse)
		return kafka.Error(resp.Topics[0].Partitions[0].ErrorCode)
	}
	expect := func(state string, got, want kafka.Error) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %v, want %v", state, got, want)
		}
	}
	expect("empty: commit without a member", commit("", -1), kafka.None)
	expect("empty: heartbeat of a stranger", l.beat(group, "stranger", 1, nil), kafka.UnknownMemberId)
	one := l.join(3, group, nil)
	gen := one.Generation
	expect("completing: commit", commit(one.MemberID, gen), kafka.RebalanceInProgress)
	expect("completing: heartbeat", l.beat(group, one.MemberID, gen, nil), kafka.None)
	l.assign(3, group, one)
	expect("stable: commit", commit(one.MemberID, gen), kafka.None)
	expect("stable: commit of another generation", commit(one.MemberID, gen+1), kafka.IllegalGeneration)
	expect("stable: commit of a stranger", commit("stranger", gen), kafka.UnknownMemberId)
	expect("stable: commit without a member", commit("", -1), kafka.UnknownMemberId)
	expect("stable: heartbeat", l.beat(group, one.MemberID, gen, nil), kafka.None)
	expect("stable: heartbeat of another generation", l.beat(group, one.MemberID, gen-1, nil), kafka.IllegalGeneration)
	expect("stable: heartbeat of a stranger", l.beat(group, "stranger", gen, nil), kafka.UnknownMemberId)
	joining := raw.Join(3, group, "", "range")
	second.Send(joining)
	raw.Until(l.Conn, raw.Heartbeat(4, group, one.MemberID, gen), "a rebalance", func(r *kmsg.HeartbeatResponse) bool {
		return kafka.Error(r.ErrorCode) == kafka.RebalanceInProgress
	})
	expect("preparing: commit", commit(one.MemberID, gen), kafka.None)
	expect("preparing: sync", kafka.Error(l.Ask(raw.Sync(3, group, one.MemberID, gen)).(*kmsg.SyncGroupResponse).ErrorCode), kafka.RebalanceInProgress)
	l.Ask(raw.Join(3, group, one.MemberID, "range"))
	two := second.Answer(joining, second.Last).(*kmsg.JoinGroupResponse)
	if two.Generation != gen+1 || two.LeaderID != one.MemberID {
		t.Errorf("the next round: %+v", two)
	}
	expect("completing: heartbeat of the generation before", l.beat(group, one.MemberID, gen, nil), kafka.IllegalGeneration)
	expect("completing: commit of the second", commit(two.MemberID, gen+1), kafka.RebalanceInProgress)
	code(t, "the leader assigns", l.Ask(raw.Sync(3, group, one.MemberID, gen+1, one.MemberID, two.MemberID)).(*kmsg.SyncGroupResponse).ErrorCode, kafka.None)
	code(t, "the second", second.Ask(raw.Sync(3, group, two.MemberID, gen+1)).(*kmsg.SyncGroupResponse).ErrorCode, kafka.None)
	expect("stable again: commit of the second", commit(two.MemberID, gen+1), kafka.None)
}

func TestRule86DeletingGroupsAndOffsets(t *testing.T) {
	b := groupBroker(t)
	l := connect(t, b.Addr())
	l.assign(3, "live", l.join(3, "live", nil))
	other := raw.Join(3, "other", "", "range")
	other.ProtocolType = "connect"
	l.Ask(other)
	for version := range int16(3) {
		l.Ask(raw.Commit(8, "offsets", "", -1, raw.CommitRow{Topic: "r", Offset: 5}))
		gone := l.join(3, "left", nil)
		l.Ask(raw.Leave(2, "left", gone.MemberID))
		req := raw.At(version, kmsg.NewPtrDeleteGroupsRequest())
		req.Groups = []string{"live", "unknown", "offsets", "left"}
		for _, g := range l.Ask(req).(*kmsg.DeleteGroupsResponse).Groups {
			want := map[string]kafka.Error{"live": kafka.NonEmptyGroup, "unknown": kafka.GroupIdNotFound}[g.Group]
			code(t, fmt.Sprintf("v%d: delete %s", version, g.Group), g.ErrorCode, want)
		}
		if got := l.committed("offsets", "r", 0); got != -1 {
			t.Errorf("v%d: an offset of a deleted group is %d", version, got)
		}
	}
	l.Ask(raw.Commit(8, "offsets", "", -1, raw.CommitRow{Topic: "r", Offset: 5}, raw.CommitRow{Topic: "r", Partition: 1, Offset: 6}))
	remove := func(group string) (kafka.Error, kafka.Error) {
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = group
		row := kmsg.NewOffsetDeleteRequestTopic()
		row.Topic, row.Partitions = "r", []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}
		req.Topics = append(req.Topics, row)
		resp := l.Ask(req).(*kmsg.OffsetDeleteResponse)
		if len(resp.Topics) == 0 {
			return kafka.Error(resp.ErrorCode), kafka.None
		}
		return kafka.Error(resp.ErrorCode), kafka.Error(resp.Topics[0].Partitions[0].ErrorCode)
	}
	for group, want := range map[string][2]kafka.Error{
		"live": {kafka.None, kafka.GroupSubscribedToTopic}, "other": {kafka.NonEmptyGroup, kafka.None}, "unknown": {kafka.GroupIdNotFound, kafka.None},
		"offsets": {kafka.None, kafka.None},
	} {
		if whole, row := remove(group); whole != want[0] || row != want[1] {
			t.Errorf("offset delete of %s: %v, %v; want %v", group, whole, row, want)
		}
	}
	if first, second := l.committed("offsets", "r", 0), l.committed("offsets", "r", 1); first != -1 || second != 6 {
		t.Errorf("offsets after one was deleted: %d and %d", first, second)
	}
}

func TestRule87DescribingAndListingGroups(t *testing.T) {
	b := groupBroker(t)
	l := connect(t, b.Addr())
	l.assign(3, "live", l.join(3, "live", nil))
	l.Ask(raw.Commit(8, "offsets", "", -1, raw.CommitRow{Topic: "r", Offset: 5}))
	for version := range int16(7) {
		for _, g := range l.Ask(raw.DescribeGroups(version, "live", "offsets", "unknown")).(*kmsg.DescribeGroupsResponse).Groups {
			state, want := map[string]string{"live": "Stable", "offsets": "Empty", "unknown": "Dead"}[g.Group], kafka.None
			if g.Group == "unknown" && version >= 6 {
				want = kafka.GroupIdNotFound
			}
			code(t, fmt.Sprintf("v%d: %s", version, g.Group), g.ErrorCode, want)
			if g.State != state {
				t.Errorf("v%d: %s is %s, want %s", version, g.Group, g.State, state)
			}
		}
	}
	for version := range int16(6) {
		for filter, want := range map[[2]string][]string{
			{"", ""}: {"live", "offsets"}, {"Stable", ""}: {"live"}, {"empty", ""}: {"offsets"}, {"Dead", ""}: nil, {"", "classic"}: {"live", "offsets"},
			{"", "consumer"}: nil, {"Stable", "Classic"}: {"live"},
		} {
			if version < 4 && filter[0] != "" || version < 5 && filter[1] != "" {
				continue
			}
			req := raw.At(version, kmsg.NewPtrListGroupsRequest())
			if filter[0] != "" {
				req.StatesFilter = []string{filter[0]}
			}
			if filter[1] != "" {
				req.TypesFilter = []string{filter[1]}
			}
			var got []string
			for _, g := range l.Ask(req).(*kmsg.ListGroupsResponse).Groups {
				got = append(got, g.Group)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("v%d, states and types %v: %v, want %v", version, filter, got, want)
			}
		}
	}
}

// In rows of topics and partitions that are not there, every field whose default is -1 or null has it, in every version of every
// request that names any.
func TestRule96DefaultsInAnswers(t *testing.T) {
	b := groupBroker(t)
	l := connect(t, b.Addr())
	rows := 0
	for _, k := range raw.Keys {
		if k.Comes != "" {
			continue
		}
		for _, v := range raw.VersionsOf(k.Key) {
			resp := l.Ask(raw.Odd(k.Key, v, raw.Single))
			checkDefaults(t, raw.Describe(raw.Odd(k.Key, v, raw.Single)), reflect.ValueOf(resp).Elem(), &rows)
		}
	}
	if rows < 100 {
		t.Errorf("only %d rows with an error were seen", rows)
	}
	for version := int16(10); version <= 13; version++ {
		req := raw.Produce(version, -1, raw.ProduceRow{Topic: "", ID: raw.StrangeID, Records: raw.Values("x")})
		if version < 13 {
			req = raw.Produce(version, -1, raw.ProduceRow{Topic: "nope", Records: raw.Values("x")})
		}
		p := l.Ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if p.CurrentLeader.LeaderID != -1 || p.CurrentLeader.LeaderEpoch != -1 {
			t.Errorf("Produce v%d: leader %+v of a topic that is not there", version, p.CurrentLeader)
		}
	}
	for version := int16(12); version <= 18; version++ {
		req := raw.Fetch(version, raw.FetchRow{Topic: "", ID: raw.StrangeID})
		if version < 13 {
			req = raw.Fetch(version, raw.FetchRow{Topic: "nope"})
		}
		p := l.Ask(req).(*kmsg.FetchResponse).Topics[0].Partitions[0]
		if p.CurrentLeader.LeaderID != -1 || p.CurrentLeader.LeaderEpoch != -1 || p.PreferredReadReplica != -1 || p.SnapshotID.Epoch != -1 || p.DivergingEpoch.Epoch != -1 {
			t.Errorf("Fetch v%d: %+v", version, p)
		}
	}
}

// checkDefaults compares the fields of each row that has an error with a new row's, as far as those are -1.
func checkDefaults(t *testing.T, where string, v reflect.Value, rows *int) {
	t.Helper()
	if c := v.FieldByName("ErrorCode"); c.IsValid() && c.Int() != 0 {
		*rows++
		fresh := reflect.New(v.Type())
		fresh.MethodByName("Default").Call(nil)
		for i := range v.NumField() {
			want, got := fresh.Elem().Field(i), v.Field(i)
			if want.CanInt() && want.Int() == -1 && got.Int() != -1 {
				t.Errorf("%s: %s.%s is %d, its default is %d", where, v.Type().Name(), v.Type().Field(i).Name, got.Int(), want.Int())
			}
		}
	}
	for i := range v.NumField() {
		field := v.Field(i)
		switch {
		case v.Type().Field(i).Name == "UnknownTags":
		case field.Kind() == reflect.Struct:
			checkDefaults(t, where, field, rows)
		case field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct:
			for j := range field.Len() {
				checkDefaults(t, where, field.Index(j), rows)
			}
		}
	}
}

// A group lies in the partition that Java's hash of its id says, in records that Kafka's tools read.
func TestRuleH3WhereAGroupsOffsetsLie(t *testing.T) {
	b := groupBroker(t)
	l := connect(t, b.Addr())
	count := int32(len(l.row(12, "__consumer_offsets").Partitions))
	if count != 50 {
		t.Errorf("%d partitions, Kafka makes 50", count)
	}
	for _, group := range []string{"billing", "polygenelubricants", "grüppe ☃", "a", strings.Repeat("long ", 100)} { // the second one's hash is -2^31
		l.Ask(raw.Commit(8, group, "", -1, raw.CommitRow{Topic: "r", Offset: 5}))
		hash := int32(0)
		for _, unit := range utf16.Encode([]rune(group)) {
			hash = 31*hash + int32(unit)
		}
		partition := int32(0)
		if hash != math.MinInt32 { // which has no absolute value
			partition = max(hash, -hash) % count
		}
		p := l.Ask(raw.Fetch(12, raw.FetchRow{Topic: "__consumer_offsets", Partition: partition})).(*kmsg.FetchResponse).Topics[0].Partitions[0]
		at := false
		for _, batch := range whole(t, p.RecordBatches) {
			for r, err := range batch.Records(1 << 20) {
				if err != nil {
					t.Fatal(err)
				}
				key := kmsg.NewOffsetCommitKey()
				if err := key.ReadFrom(r.Key); err == nil && key.Version <= 1 && key.Group == group && key.Topic == "r" {
					value := kmsg.NewOffsetCommitValue()
					if err := value.ReadFrom(r.Value); err != nil || value.Offset != 5 {
						t.Errorf("%.20q: %+v, %v", group, value, err)
					}
					at = true
				}
			}
		}
		if !at {
			t.Errorf("%.20q: not in partition %d", group, partition)
		}
	}
}

// CreateTopics tells what the topic got; the legacy AlterConfigs, which some clients still send, replaces all of it.
func TestRuleH4SettingsOfNewTopics(t *testing.T) {
	l := connect(t, brokertest.Start(t, brokertest.Property("log.segment.bytes", "2000000")).Addr())
	for version := int16(5); version <= 7; version++ {
		name := fmt.Sprint("t", version)
		row := l.Ask(raw.CreateTopics(version, raw.NewTopic(name, 1, 1, "cleanup.policy", "compact"))).(*kmsg.CreateTopicsResponse).Topics[0]
		told := map[string]string{}
		for _, c := range row.Configs {
			told[c.Name] = fmt.Sprint(deref(c.Value), " from ", c.Source)
		}
		for key, want := range map[string]string{"cleanup.policy": "compact from 1", "segment.bytes": "2000000 from 4", "retention.ms": "604800000 from 5"} {
			if told[key] != want {
				t.Errorf("v%d: %s: %s, want %s", version, key, told[key], want)
			}
		}
		if c := l.replace(version-5, name, "retention.ms", "1000"); c != kafka.None {
			t.Errorf("v%d: replace: %v", version-5, c)
		}
		if got := l.setting(4, kmsg.ConfigResourceTypeTopic, name, "cleanup.policy"); deref(got.Value) != "delete" {
			t.Errorf("v%d: cleanup.policy is %s after everything was replaced", version-5, deref(got.Value))
		}
	}
}

// Who writes and reads goes on when the topic is deleted and made again: by name at once, by id when it has asked for the new one.
func TestRuleH5ClientsOutliveATopicMadeAnew(t *testing.T) {
	b := brokertest.Start(t, brokertest.Property("auto.create.topics.enable", "false"))
	l, reader := connect(t, b.Addr()), connect(t, b.Addr())
	before, session, epoch := [16]byte{}, int32(0), int32(0)
	for round := range 4 {
		id := l.Create("t", 1)
		if id == before || l.row(12, "t").TopicID != id {
			t.Fatalf("round %d: the new topic's id is %x, Metadata says %x, the old one had %x", round, id, l.row(12, "t").TopicID, before)
		}
		if round > 0 {
			stale := l.Ask(raw.Produce(13, -1, raw.ProduceRow{Topic: "", ID: before, Records: raw.Values("x")})).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
			code(t, "produce to the id before", stale.ErrorCode, kafka.UnknownTopicId)
			gone := l.Ask(raw.Fetch(13, raw.FetchRow{Topic: "", ID: before})).(*kmsg.FetchResponse).Topics[0].Partitions[0]
			code(t, "fetch from the id before", gone.ErrorCode, kafka.UnknownTopicId)
		}
		byName, byID := raw.Values("by name"), raw.Values("by id")
		code(t, "by name", l.produce(12, "t", byName).ErrorCode, kafka.None)
		code(t, "by id", l.Ask(raw.Produce(13, -1, raw.ProduceRow{Topic: "", ID: id, Records: byID})).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode, kafka.None)
		// One session that reads by name all the time, as librdkafka has it, and starts again where it is out of range.
		next := raw.Fetch(12, raw.FetchRow{Topic: "t"})
		next.SessionID, next.SessionEpoch = session, epoch
		got := reader.Ask(next).(*kmsg.FetchResponse)
		if got.ErrorCode != 0 || len(got.Topics) != 1 || got.Topics[0].Partitions[0].ErrorCode != 0 || len(got.Topics[0].Partitions[0].RecordBatches) != len(byName)+len(byID) {
			t.Errorf("round %d: the session by name reads %+v", round, got)
		}
		session, epoch = got.SessionID, epoch+1
		read := l.Ask(raw.Fetch(16, raw.FetchRow{Topic: "", ID: id})).(*kmsg.FetchResponse).Topics[0].Partitions[0]
		if read.ErrorCode != 0 || len(read.RecordBatches) != len(byName)+len(byID) {
			t.Errorf("round %d: by the new id: %v, %d bytes", round, kafka.Error(read.ErrorCode), len(read.RecordBatches))
		}
		del := raw.At(5, kmsg.NewPtrDeleteTopicsRequest())
		del.TopicNames = []string{"t"}
		code(t, "delete", l.Ask(del).(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode, kafka.None)
		idle := raw.Fetch(12)
		idle.SessionID, idle.SessionEpoch = session, epoch
		if got := reader.Ask(idle).(*kmsg.FetchResponse); got.ErrorCode != 0 || len(got.Topics) != 1 || kafka.Error(got.Topics[0].Partitions[0].ErrorCode) != kafka.UnknownTopicOrPartition {
			t.Errorf("round %d: the session of a topic that is gone: %+v", round, got)
		}
		before, epoch = id, epoch+1
	}
}
