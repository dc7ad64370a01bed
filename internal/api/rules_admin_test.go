package api_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/brokertest"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/raw"
)

// Features are updated all or none, and stay as they are set. Without group.version there is no consumer protocol.
func TestRule36FeatureUpdates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := brokertest.Start(t, brokertest.Dir(dir))
	l := connect(t, b.Addr())
	l.Create("t", 1)
	coordinator := func() {
		find := raw.At(4, kmsg.NewPtrFindCoordinatorRequest())
		find.CoordinatorKeys = []string{"g"}
		raw.Until(l.Conn, find, "a coordinator", raw.Found)
	}
	update := func(kind int8, levels ...string) kafka.Error {
		return kafka.Error(l.Ask(raw.UpdateFeatures(2, kind, levels...)).(*kmsg.UpdateFeaturesResponse).ErrorCode)
	}
	level := func() int16 {
		req := raw.At(4, kmsg.NewPtrApiVersionsRequest())
		req.ClientSoftwareName, req.ClientSoftwareVersion = "test", "1"
		for _, f := range l.Ask(req).(*kmsg.ApiVersionsResponse).FinalizedFeatures {
			if f.Name == "group.version" {
				return f.MaxVersionLevel
			}
		}
		return 0
	}
	beat := raw.At(1, kmsg.NewPtrConsumerGroupHeartbeatRequest())
	beat.Group, beat.MemberID, beat.RebalanceTimeoutMillis = "g", "m", 60_000
	beat.SubscribedTopicNames, beat.Topics = []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	heartbeat := func() kafka.Error {
		return kafka.Error(l.Ask(beat).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode)
	}
	for _, levels := range [][]string{{"group.version=0", "nope=1"}, {"group.version=0", "metadata.version=7"}} {
		if code := update(raw.SafeDowngrade, levels...); code != kafka.InvalidUpdateVersion || level() != 1 {
			t.Errorf("%q: %v, and group.version is %d; want INVALID_UPDATE_VERSION and 1", levels, code, level())
		}
	}
	if code := update(raw.Upgrade, "group.version=0"); code != kafka.InvalidUpdateVersion {
		t.Errorf("a downgrade without leave: %v", code)
	}
	if code := update(raw.SafeDowngrade, "group.version=0"); code != kafka.None || level() != 0 || heartbeat() != kafka.UnsupportedVersion {
		t.Errorf("a downgrade: %v, group.version %d, heartbeat %v; want the consumer protocol off", code, level(), heartbeat())
	}
	b.Close()
	l = connect(t, brokertest.Start(t, brokertest.Dir(dir)).Addr())
	if code := heartbeat(); level() != 0 || code != kafka.UnsupportedVersion {
		t.Errorf("after a restart: group.version %d, heartbeat %v; want the consumer protocol off", level(), code)
	}
	if code := update(raw.Upgrade, "group.version=1"); code != kafka.None || level() != 1 {
		t.Errorf("an upgrade: %v, group.version %d", code, level())
	}
	coordinator()
	raw.Until(l.Conn, beat, "a member", func(r *kmsg.ConsumerGroupHeartbeatResponse) bool { return r.ErrorCode == 0 })
}

// A broker that unregisters itself leads nothing, and is back when it is started again.
func TestABrokerUnregistersItself(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := brokertest.Start(t, brokertest.Dir(dir))
	l := connect(t, b.Addr())
	l.Create("t", 1)
	if row := l.produce(9, "t", raw.Values("a")); row.ErrorCode != 0 {
		t.Fatal(kafka.Error(row.ErrorCode))
	}
	req := raw.At(0, kmsg.NewPtrUnregisterBrokerRequest())
	req.BrokerID = 1
	for _, want := range []kafka.Error{kafka.None, kafka.BrokerIdNotRegistered} {
		if code := kafka.Error(l.Ask(req).(*kmsg.UnregisterBrokerResponse).ErrorCode); code != want {
			t.Errorf("unregister: %v, want %v", code, want)
		}
	}
	if row := l.produce(9, "t", raw.Values("b")); kafka.Error(row.ErrorCode) != kafka.NotLeaderOrFollower {
		t.Errorf("a produce to nobody: %v", kafka.Error(row.ErrorCode))
	}
	b.Close()
	l = connect(t, brokertest.Start(t, brokertest.Dir(dir)).Addr())
	if row := l.produce(9, "t", raw.Values("c")); row.ErrorCode != 0 || row.BaseOffset != 1 {
		t.Errorf("after a restart: %v at offset %d, want offset 1", kafka.Error(row.ErrorCode), row.BaseOffset)
	}
}
