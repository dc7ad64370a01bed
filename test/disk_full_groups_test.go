package test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// TestGroupsLiveThroughAFullDisk: when hardly a byte is left commits are refused, and nobody may join; but those who are members stay
// so, in both protocols, and what was committed can be read. With room again groups go on as they were.
func TestGroupsLiveThroughAFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t)
	p := startBroker(t, filepath.Join(disk, "data"), "--override", "offsets.topic.num.partitions=1", "--override", "group.initial.rebalance.delay.ms=0")
	createTopic(t, p.addr, keepTopic, 1)
	g := &groupsOnDisk{T: t, cl: crashClient(t, p.addr, kgo.MaxVersions(kversion.V2_4_0())), next: crashClient(t, p.addr)}
	g.join()
	if code := g.commit(3); code != 0 {
		t.Fatal(kerr.ErrorForCode(code))
	}
	ballast := filepath.Join(disk, "ballast")
	for step := 4 << 20; step >= 64<<10; step /= 2 { // as much as goes
		f := must(os.OpenFile(ballast, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600))(t)
		for free(t, disk) > int64(step)+256<<10 {
			must(f.Write(make([]byte, step)))(t)
		}
		must(0, f.Close())(t)
	}
	refused := int64(0)
	eventually(t, atLast, "commits are refused", func() error {
		refused++
		if code := g.commit(100 + refused); code != kerr.NotCoordinator.Code {
			return fmt.Errorf("commit: %v", kerr.ErrorForCode(code))
		}
		return nil
	})
	known := g.committed()
	for range 20 {
		if code := g.commit(7); code != kerr.NotCoordinator.Code {
			t.Errorf("commit on a full disk: %v", kerr.ErrorForCode(code))
		}
		g.beat("on a full disk")
		if at := g.committed(); at != known {
			t.Errorf("%d is committed, which was refused; it was %d", at, known)
		}
	}
	must(0, os.Remove(ballast))(t)
	eventually(t, atLast, "commits are taken", func() error { return kerr.ErrorForCode(g.commit(8)) })
	g.beat("with room again")
	if at := g.committed(); at != 8 {
		t.Errorf("%d is committed, want 8", at)
	}
}

// groupsOnDisk is a member of each protocol, in a group of its own.
type groupsOnDisk struct {
	*testing.T
	cl         *kgo.Client // of versions that name topics and one group
	next       *kgo.Client
	member     string
	generation int32
	epoch      int32
}

func (g *groupsOnDisk) ask(req kmsg.Request) kmsg.Response {
	g.Helper()
	return must(g.cl.Broker(1).Request(g.Context(), req))(g)
}

func (g *groupsOnDisk) join() {
	g.Helper()
	var joined *kmsg.JoinGroupResponse
	eventually(g, atLast, "a member joins", func() error {
		find := kmsg.NewPtrFindCoordinatorRequest() // which creates __consumer_offsets
		find.CoordinatorKey = "classic"
		g.ask(find)
		join := kmsg.NewPtrJoinGroupRequest()
		join.Group, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis, join.ProtocolType = "classic", 60_000, 60_000, "own"
		join.MemberID = g.member
		protocol := kmsg.NewJoinGroupRequestProtocol()
		protocol.Name = "own"
		join.Protocols = append(join.Protocols, protocol)
		joined = g.ask(join).(*kmsg.JoinGroupResponse)
		g.member, g.generation = joined.MemberID, joined.Generation
		return kerr.ErrorForCode(joined.ErrorCode)
	})
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = "classic", g.member, g.generation
	sync.ProtocolType, sync.Protocol = joined.ProtocolType, joined.Protocol
	if resp := g.ask(sync).(*kmsg.SyncGroupResponse); resp.ErrorCode != 0 {
		g.Fatal(kerr.ErrorForCode(resp.ErrorCode))
	}
	g.beatConsumer(0, "as it joins")
}

func (g *groupsOnDisk) beat(when string) {
	g.Helper()
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Group, beat.MemberID, beat.Generation = "classic", g.member, g.generation
	if resp := g.ask(beat).(*kmsg.HeartbeatResponse); resp.ErrorCode != 0 {
		g.Errorf("heartbeat %s: %v", when, kerr.ErrorForCode(resp.ErrorCode))
	}
	g.beatConsumer(g.epoch, when)
}

func (g *groupsOnDisk) beatConsumer(epoch int32, when string) {
	g.Helper()
	beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	beat.Group, beat.MemberID, beat.MemberEpoch, beat.RebalanceTimeoutMillis = "next", "m", epoch, -1
	if epoch == 0 {
		beat.RebalanceTimeoutMillis, beat.SubscribedTopicNames = 60_000, []string{keepTopic}
		beat.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	resp := must(g.next.Broker(1).Request(g.Context(), beat))(g).(*kmsg.ConsumerGroupHeartbeatResponse)
	if resp.ErrorCode != 0 {
		g.Errorf("heartbeat of the consumer protocol %s: %v", when, kerr.ErrorForCode(resp.ErrorCode))
	}
	g.epoch = resp.MemberEpoch
}

// commit is of a third group, without members.
func (g *groupsOnDisk) commit(at int64) int16 {
	g.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = "simple", -1
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = keepTopic
	partition := kmsg.NewOffsetCommitRequestTopicPartition()
	partition.Offset = at
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	return g.ask(req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
}

func (g *groupsOnDisk) committed() int64 {
	g.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = "simple"
	topic := kmsg.NewOffsetFetchRequestTopic()
	topic.Topic, topic.Partitions = keepTopic, []int32{0}
	req.Topics = append(req.Topics, topic)
	resp := g.ask(req).(*kmsg.OffsetFetchResponse)
	if resp.ErrorCode != 0 {
		g.Fatalf("fetch offsets: %v", kerr.ErrorForCode(resp.ErrorCode))
	}
	return resp.Topics[0].Partitions[0].Offset
}
