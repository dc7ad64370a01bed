package test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestGroupsOfOtherTypes starts Raftsman where Apache Kafka 4.4 had groups of the consumer protocol and a share group: the members of
// consumer groups go on at their epochs, here and back on Kafka, with no new assignment; groups without members can be used and
// deleted; the share group is told apart and stays.
func TestGroupsOfOtherTypes(t *testing.T) {
	t.Parallel()
	k := kafkaHome{root: t.TempDir(), port: freePort(t), settings: []string{
		"offsets.topic.num.partitions=3", "group.consumer.session.timeout.ms=1800000", "group.consumer.max.session.timeout.ms=3600000",
	}}
	k.start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*atLast)
	defer cancel()
	cl := crashClient(t, k.addr())
	g := otherGroups{TB: t, ctx: ctx, cl: cl, adm: kadm.NewClient(cl)}
	must(g.adm.CreateTopic(ctx, 1, 1, nil, "t"))(t)
	for i := range 3 {
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: fmt.Append(nil, "record ", i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"moves", "goes", "gone", "idle"} {
		id := g.beat(name, "", 0)
		g.commit(name, 1)
		g.beat(name, id, -1)
	}
	g.beat("stays", "", 0)
	g.share("shares")
	must(g.adm.DeleteGroups(ctx, "gone"))(t)
	g.list("Kafka", "goes consumer Empty", "idle consumer Empty", "moves consumer Empty", "shares share Empty", "stays consumer Stable")
	k.stop(t)

	p := k.raftsman(t)
	g.list("Raftsman after Kafka", "goes consumer Empty", "idle consumer Empty", "moves consumer Empty", "shares share Empty", "stays consumer Stable")
	if read := g.read(k.addr(), "moves"); read != "record 1" {
		t.Errorf("the group goes on with %q, want record 1", read)
	}
	if err := g.deleted("goes"); err != nil {
		t.Errorf("delete an empty consumer group: %v", err)
	}
	if err := g.deleted("stays"); !errors.Is(err, kerr.NonEmptyGroup) {
		t.Errorf("delete a consumer group with a member: %v", err)
	}
	if err := g.deleted("shares"); !errors.Is(err, kerr.GroupDeletionFailed) || !strings.Contains(err.Error(), "__share_group_state") {
		t.Errorf("delete a share group: %v", err)
	}
	g.goesOn("Raftsman", "stays", "member of stays", 2, 2, "assigned at 2")
	g.beatAs("stays", "second of stays", 0)
	g.goesOn("Raftsman", "stays", "member of stays", 2, 3, "assigned at 3")
	g.refused("shares", p, "it is a share group")
	now := []string{"idle consumer Empty", "moves classic Empty", "shares share Empty", "stays consumer Stable"}
	g.list("Raftsman", now...)
	p.kill()
	p = k.raftsman(t)
	g.list("Raftsman after it was killed", now...)
	p.terminate()

	k.start(t)
	g.list("Kafka after Raftsman", now...)
	g.goesOn("Kafka", "stays", "member of stays", 3, 3, "assigned at 3")
	g.goesOn("Kafka", "stays", "second of stays", 3, 3, "assigned at 3")
	k.stop(t)
	p = k.raftsman(t, "--override", "group.consumer.session.timeout.ms=6000", "--override", "group.consumer.min.session.timeout.ms=6000")
	now[3] = "stays consumer Empty" // nobody heard of its member
	g.list("Raftsman when the sessions have ended", now...)
	p.terminate()

	k.start(t)
	g.list("Kafka after Raftsman", now...)
	if offsets := must(g.adm.FetchOffsets(ctx, "moves"))(t); offsets["t"][0].At != 2 {
		t.Errorf("Kafka knows of %+v, want offset 2", offsets)
	}
	id := g.beat("moves", "", 0)
	g.list("Kafka", "idle consumer Empty", "moves consumer Stable", "shares share Empty", "stays consumer Empty")
	g.beat("moves", id, -1)
	k.stop(t)
}

type otherGroups struct {
	testing.TB
	ctx context.Context
	cl  *kgo.Client
	adm *kadm.Client
}

// beat is a heartbeat of the consumer protocol: epoch 0 joins, -1 leaves. It returns the member's id.
func (g *otherGroups) beat(name, id string, epoch int32) string {
	g.Helper()
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = name, id, epoch
	if epoch == 0 {
		req.MemberID, req.RebalanceTimeoutMillis = "member of "+name, 60_000
		req.SubscribedTopicNames, req.Topics = []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	eventually(g, atLast, "heartbeat of "+name, func() error { // the coordinator may have yet to be created
		resp, err := req.RequestWith(g.ctx, g.cl)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
	return req.MemberID
}

// goesOn lets a member of a group be heard of at its epoch, and tells which epoch it has then, and what the group is.
func (g *otherGroups) goesOn(where, group, member string, epoch, want int32, described string) {
	g.Helper()
	if got := g.beatAs(group, member, epoch); got != want {
		g.Errorf("%s: %s at epoch %d is at epoch %d then, want %d", where, member, epoch, got, want)
	}
	d := must(g.adm.DescribeConsumerGroups(g.ctx, group))(g)[group]
	if is := fmt.Sprintf("assigned at %d", d.AssignmentEpoch); is != described || d.Epoch != d.AssignmentEpoch {
		g.Errorf("%s: the group is at epoch %d, %s, want %s", where, d.Epoch, is, described)
	}
}

// beatAs is a heartbeat of a member that works on all of t, or joins with epoch 0. It returns the epoch that it is told.
func (g *otherGroups) beatAs(group, member string, epoch int32) (now int32) {
	g.Helper()
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = group, member, epoch, -1
	if epoch == 0 {
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames, req.Topics = 60_000, []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	eventually(g, atLast, "heartbeat of "+member, func() error {
		resp, err := req.RequestWith(g.ctx, g.cl)
		if err != nil {
			return err
		}
		now = resp.MemberEpoch
		return kerr.ErrorForCode(resp.ErrorCode)
	})
	return now
}

// share joins a share group and leaves it.
func (g *otherGroups) share(name string) {
	g.Helper()
	for _, epoch := range []int32{0, -1} {
		req := kmsg.NewPtrShareGroupHeartbeatRequest()
		req.GroupID, req.MemberID, req.MemberEpoch, req.SubscribedTopicNames = name, "mmmmmmmmmmmmmmmmmmmmmm", epoch, []string{"t"}
		eventually(g, atLast, "heartbeat of "+name, func() error {
			resp, err := req.RequestWith(g.ctx, g.cl)
			if err != nil {
				return err
			}
			return kerr.ErrorForCode(resp.ErrorCode)
		})
	}
}

// commit commits as the member that beat has let join.
func (g *otherGroups) commit(name string, at int64) {
	g.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = name, "member of "+name, must(g.adm.DescribeConsumerGroups(g.ctx, name))(g)[name].Epoch
	topic, partition := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	topic.Topic, topic.TopicID, partition.Offset = "t", must(g.adm.ListTopics(g.ctx, "t"))(g)["t"].ID, at
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	resp := must(req.RequestWith(g.ctx, g.cl))(g)
	if err := kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode); err != nil {
		g.Fatalf("commit of %s: %v", name, err)
	}
}

func (g *otherGroups) list(when string, want ...string) {
	g.Helper()
	eventually(g, atLast, when+" lists the groups", func() error {
		listed, err := g.adm.ListGroups(g.ctx)
		var is []string
		for _, name := range slices.Sorted(maps.Keys(listed)) {
			is = append(is, fmt.Sprint(name, " ", listed[name].GroupType, " ", listed[name].State))
		}
		if err == nil && !slices.Equal(is, want) {
			err = fmt.Errorf("it lists %q, want %q", is, want)
		}
		return err
	})
}

// read is the next record of the group, read by a member of the classic protocol.
func (g *otherGroups) read(addr, name string) string {
	g.Helper()
	cl := crashClient(g, addr, kgo.ConsumerGroup(name), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit())
	fetches := cl.PollRecords(g.ctx, 1)
	if err := fetches.Err(); err != nil {
		g.Fatal(err)
	}
	records := fetches.Records()
	if err := cl.CommitRecords(g.ctx, records...); err != nil {
		g.Fatal(err)
	}
	cl.Close()
	return string(records[0].Value)
}

func (g *otherGroups) deleted(name string) error {
	deleted := must(g.adm.DeleteGroups(g.ctx, name))(g)[name]
	if deleted.ErrMessage != "" {
		return fmt.Errorf("%w: %s", deleted.Err, deleted.ErrMessage)
	}
	return deleted.Err
}

// refused lets a member of the classic protocol try to join, and looks for the reason in Raftsman's log.
func (g *otherGroups) refused(name string, p *process, why string) {
	g.Helper()
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = name, 10_000, 10_000, "consumer"
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name = "range"
	req.Protocols = append(req.Protocols, protocol)
	resp := must(req.RequestWith(g.ctx, g.cl))(g)
	if err := kerr.ErrorForCode(resp.ErrorCode); !errors.Is(err, kerr.InconsistentGroupProtocol) {
		g.Errorf("join %s: %v", name, err)
	}
	eventually(g, atLast, "the log tells why "+name+" cannot be joined", func() error {
		if log := p.log.String(); !strings.Contains(log, why) {
			return fmt.Errorf("the log:\n%s", log)
		}
		return nil
	})
}
