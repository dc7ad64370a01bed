package api_test

import (
	"context"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/api"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/peer"
	"github.com/raftsman/raftsman/internal/raw"
	"github.com/raftsman/raftsman/internal/server"
)

// fakeController notes what it is asked and answers what it is told to.
type fakeController struct {
	asked  any
	answer any
	err    error
	leader kraft.Node
}

func (f *fakeController) take(asked any) (any, error) {
	f.asked = asked
	return f.answer, f.err
}

func (f *fakeController) Handle(_ context.Context, r kraft.Request) (kraft.Response, error) {
	answer, err := f.take(r)
	if err != nil {
		return nil, err
	}
	return answer.(kraft.Response), nil
}

func (f *fakeController) Leader() (kraft.Node, kafka.Epoch, bool) {
	return f.leader, 1, f.leader.ID != kafka.NoNode
}
func (f *fakeController) IsActive() bool { return false }

func as[T any](answer any, err error) (t T, _ error) {
	if err == nil {
		t = answer.(T)
	}
	return t, err
}

func (f *fakeController) RegisterBroker(_ context.Context, cmd meta.Registration) (kafka.BrokerEpoch, error) {
	return as[kafka.BrokerEpoch](f.take(cmd))
}

func (f *fakeController) Heartbeat(_ context.Context, cmd meta.Heartbeat) (meta.HeartbeatResult, error) {
	return as[meta.HeartbeatResult](f.take(cmd))
}

func (f *fakeController) AlterPartition(_ context.Context, cmd meta.AlterPartition) (meta.AlterPartitionResult, error) {
	return as[meta.AlterPartitionResult](f.take(cmd))
}

func (f *fakeController) AllocateProducerIDs(_ context.Context, broker kafka.NodeID, epoch kafka.BrokerEpoch) (kafka.ProducerID, int32, error) {
	ids, err := as[[2]int64](f.take([2]int64{int64(broker), int64(epoch)}))
	return kafka.ProducerID(ids[0]), int32(ids[1]), err
}

func (f *fakeController) AssignDirs(_ context.Context, cmd meta.AssignDirs) (meta.AssignDirsResult, error) {
	return as[meta.AssignDirsResult](f.take(cmd))
}

func (f *fakeController) RegisterController(_ context.Context, cmd meta.RegisterController) error {
	_, err := f.take(cmd)
	return err
}

const testCluster = "AAAAAAAAAAAAAAAAAAAAAg"

// controllerWorld is a controller's listener that serves a fake, and the calls of another node to it.
func controllerWorld(t *testing.T) (f *fakeController, quorum *peer.Quorum, at kraft.Node, heartbeats chan kafka.NodeID) {
	t.Helper()
	f = &fakeController{leader: kraft.Node{ID: kafka.NoNode}}
	heartbeats = make(chan kafka.NodeID, 1)
	a := api.New(slog.New(slog.DiscardHandler))
	a.NodeID, a.ClusterID, a.Controller = 1, func() string { return testCluster }, f
	a.Heartbeats = api.NewHeartbeats(func(id kafka.NodeID, _ kafka.BrokerEpoch) { heartbeats <- id })
	s := server.New(server.Config{Gone: a.Heartbeats.Disconnected}, a.OnControllers())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Serve(server.Listener{Listener: listener, Name: "CONTROLLER"})
	network := peer.NewNetwork(peer.Options{})
	t.Cleanup(func() {
		network.Close()
		_ = s.Shutdown(context.Background())
	})
	address := netip.MustParseAddrPort(listener.Addr().String())
	at = kraft.Node{ID: 1, Endpoint: kraft.Endpoint{Name: "CONTROLLER", Host: address.Addr().String(), Port: address.Port()}}
	return f, peer.NewQuorum(network, network, func() string { return testCluster }, "CONTROLLER"), at, heartbeats
}

// What one member says is what the other hears, in both directions.
func TestMessagesOfTheQuorumArriveAsTheyWere(t *testing.T) {
	t.Parallel()
	f, quorum, at, _ := controllerWorld(t)
	one, two := kafka.UUID{1}, kafka.UUID{2}
	leader := kraft.Current{Leader: 3, Epoch: 7, Endpoints: []kraft.Endpoint{{Name: "CONTROLLER", Host: "three", Port: 93}}}
	listeners := []kraft.Endpoint{{Name: "CONTROLLER", Host: "here", Port: 1}, {Name: "OTHER", Host: "there", Port: 2}}
	for _, pair := range []struct {
		request  kraft.Request
		response kraft.Response
	}{
		{
			&kraft.VoteRequest{Epoch: 5, Candidate: kraft.ReplicaKey{ID: 2, Directory: two}, Voter: kraft.ReplicaKey{ID: 1, Directory: one}, LastEpoch: 4, End: 99},
			&kraft.VoteResponse{Granted: true, Current: kraft.Current{Leader: kafka.NoNode, Epoch: 5}},
		},
		{
			&kraft.VoteRequest{Epoch: 5, Candidate: kraft.ReplicaKey{ID: 2}, Voter: kraft.ReplicaKey{ID: 1}, LastEpoch: 4, End: 99, PreVote: true},
			&kraft.VoteResponse{Error: kafka.FencedLeaderEpoch, Current: leader},
		},
		{
			&kraft.BeginQuorumEpochRequest{Leader: 2, Epoch: 6, Voter: kraft.ReplicaKey{ID: 1, Directory: one}, Endpoints: listeners},
			&kraft.BeginQuorumEpochResponse{Current: kraft.Current{Leader: 2, Epoch: 6}},
		},
		{
			&kraft.EndQuorumEpochRequest{Leader: 2, Epoch: 6, Preferred: []kraft.ReplicaKey{{ID: 1, Directory: one}, {ID: 3}}, Endpoints: listeners},
			&kraft.EndQuorumEpochResponse{Error: kafka.UnknownLeaderEpoch, Current: leader},
		},
		{
			&kraft.FetchRequest{Replica: kraft.ReplicaKey{ID: 2, Directory: two}, Epoch: 6, Offset: 10, LastEpoch: 5, MaxWaitMs: 500, MaxBytes: 1000, HighWatermark: 8},
			&kraft.FetchResponse{Current: leader, HighWatermark: 9, LogStart: 1, Records: []byte("records")},
		},
		{
			&kraft.FetchRequest{Replica: kraft.ReplicaKey{ID: kafka.NoNode, Directory: two}, Epoch: kafka.NoEpoch, MaxBytes: 1, LastEpoch: kafka.NoEpoch, HighWatermark: math.MaxInt64},
			&kraft.FetchResponse{Error: kafka.NotLeaderOrFollower, Current: leader, HighWatermark: kafka.NoOffset, Records: []byte{}},
		},
		{
			&kraft.FetchRequest{Replica: kraft.ReplicaKey{ID: 2}, Epoch: 6, Offset: 10, LastEpoch: 5, MaxBytes: 1000, HighWatermark: kafka.NoOffset},
			&kraft.FetchResponse{Current: leader, HighWatermark: 9, Diverging: &kraft.EpochEnd{Epoch: 4, End: 8}, Records: []byte{}},
		},
		{
			&kraft.FetchRequest{Replica: kraft.ReplicaKey{ID: 2}, Epoch: 6, MaxBytes: 1000, HighWatermark: 0},
			&kraft.FetchResponse{Current: leader, HighWatermark: 9, Snapshot: &kraft.SnapshotID{End: 8, Epoch: 4}, Records: []byte{}},
		},
		{
			&kraft.FetchSnapshotRequest{Replica: kraft.ReplicaKey{ID: 2, Directory: two}, Epoch: 6, Snapshot: kraft.SnapshotID{End: 8, Epoch: 4}, Position: 77, MaxBytes: 1000},
			&kraft.FetchSnapshotResponse{Current: leader, Snapshot: kraft.SnapshotID{End: 8, Epoch: 4}, Size: 100, Position: 77, Bytes: []byte("bytes")},
		},
		{
			&kraft.AddVoterRequest{TimeoutMs: 9, Voter: kraft.Voter{ID: 2, Directory: two, Endpoints: listeners}, AckWhenCommitted: true},
			&kraft.AddVoterResponse{Error: kafka.DuplicateVoter, Message: "it is one"},
		},
		{&kraft.RemoveVoterRequest{Voter: kraft.ReplicaKey{ID: 2, Directory: two}}, &kraft.RemoveVoterResponse{}},
		{
			&kraft.UpdateVoterRequest{Epoch: 6, Voter: kraft.Voter{ID: 2, Directory: two, Endpoints: listeners, MaxVersion: 1}},
			&kraft.UpdateVoterResponse{Error: kafka.NotLeaderOrFollower, Current: leader},
		},
	} {
		f.answer = pair.response
		got, err := quorum.Ask(t.Context(), at, pair.request)
		if err != nil || !reflect.DeepEqual(f.asked, any(pair.request)) || !reflect.DeepEqual(got, pair.response) {
			t.Errorf("%T: %v\n heard  %+v\n said   %+v\n answer %+v\n want   %+v", pair.request, err, f.asked, pair.request, got, pair.response)
		}
	}
}

// What a broker says is what the active controller hears, and codes come back as they were.
func TestWhatABrokerTellsTheControllerArrivesAsItWas(t *testing.T) {
	t.Parallel()
	f, quorum, at, _ := controllerWorld(t)
	ctx := t.Context()
	dir, topic := kafka.UUID{1}, kafka.UUID{2}
	registration := meta.Registration{
		ID: 2, Incarnation: kafka.UUID{9}, Rack: new("rack"), LogDirs: []kafka.UUID{dir}, PreviousEpoch: 5,
		Endpoints: []meta.Endpoint{{Name: "PLAINTEXT", Host: "two", Port: 92, Security: "PLAINTEXT"}, {Name: "TLS", Host: "two", Port: 94, Security: "SSL"}},
		Features:  []meta.FeatureRange{{Name: "metadata.version", Min: 7, Max: 25}},
	}
	beat := meta.Heartbeat{Broker: 2, Epoch: 8, MetadataOffset: 70, WantShutDown: true, OfflineDirs: []kafka.UUID{dir}, CordonedDirs: []kafka.UUID{{4}}}
	alter := meta.AlterPartition{Broker: 2, Epoch: 8, Topics: []meta.AlterPartitionTopic{{ID: topic, Partitions: []meta.PartitionAlteration{{
		Index: 3, LeaderEpoch: 4, PartitionEpoch: 5, ISR: []meta.ISRMember{{Broker: 2, Epoch: 8}, {Broker: 1, Epoch: 6}}, RecoveryState: meta.Recovering,
	}}}}}
	altered := meta.AlterPartitionResult{Topics: []meta.AlterPartitionTopicResult{{ID: topic, Partitions: []meta.AlteredPartition{{
		Index: 3, Leader: 2, LeaderEpoch: 4, ISR: []kafka.NodeID{2, 1}, RecoveryState: meta.Recovering, PartitionEpoch: 6,
	}}}}}
	assign := meta.AssignDirs{Broker: 2, Epoch: 8, Dirs: []meta.DirAssignment{{ID: dir, Topics: []meta.TopicIDPartitions{{ID: topic, Partitions: []int32{0, 3}}}}}}
	assigned := meta.AssignDirsResult{Dirs: []meta.DirAssignmentResult{{ID: dir, Topics: []meta.DirTopicResult{{
		ID: topic, Partitions: []meta.DirPartitionResult{{Index: 0}, {Index: 3, Err: kafka.UnknownTopicOrPartition}},
	}}}}}
	controller := meta.RegisterController{
		ID: 2, Incarnation: kafka.UUID{9}, Endpoints: []meta.Endpoint{{Name: "CONTROLLER", Host: "two", Port: 93, Security: "PLAINTEXT"}},
		Features: []meta.FeatureRange{{Name: "kraft.version", Min: 0, Max: 1}},
	}
	for _, c := range []struct {
		said, answer any
		ask          func() (any, error)
	}{
		{registration, kafka.BrokerEpoch(12), func() (any, error) { return quorum.RegisterBroker(ctx, at, registration) }},
		{beat, meta.HeartbeatResult{CaughtUp: true, Fenced: true, ShouldShutDown: true}, func() (any, error) { return quorum.Heartbeat(ctx, at, beat) }},
		{alter, altered, func() (any, error) { return quorum.AlterPartition(ctx, at, alter) }},
		{assign, assigned, func() (any, error) { return quorum.AssignDirs(ctx, at, assign) }},
		{[2]int64{2, 8}, [2]int64{1000, 10}, func() (any, error) {
			first, count, err := quorum.AllocateProducerIDs(ctx, at, 2, 8)
			return [2]int64{int64(first), int64(count)}, err
		}},
		{controller, nil, func() (any, error) { return nil, quorum.RegisterController(ctx, at, controller) }},
	} {
		f.answer, f.err = c.answer, nil
		got, err := c.ask()
		if err != nil || !reflect.DeepEqual(f.asked, c.said) || !reflect.DeepEqual(got, c.answer) {
			t.Errorf("%T: %v\n heard  %+v\n said   %+v\n answer %+v\n want   %+v", c.said, err, f.asked, c.said, got, c.answer)
		}
		f.err = kafka.StaleBrokerEpoch
		if _, err := c.ask(); err != kafka.StaleBrokerEpoch {
			t.Errorf("%T was refused with %v, want STALE_BROKER_EPOCH", c.said, err)
		}
	}
}

// The end of the connection on which a broker was heard of last is told; what it used before does not count.
func TestTheEndOfABrokersConnectionIsTold(t *testing.T) {
	t.Parallel()
	f, quorum, at, gone := controllerWorld(t)
	f.answer = meta.HeartbeatResult{}
	if _, err := quorum.Heartbeat(t.Context(), at, meta.Heartbeat{Broker: 7}); err != nil {
		t.Fatal(err)
	}
	network := peer.NewNetwork(peer.Options{})
	again := peer.NewQuorum(network, network, func() string { return testCluster }, "CONTROLLER")
	if _, err := again.Heartbeat(t.Context(), at, meta.Heartbeat{Broker: 7}); err != nil {
		t.Fatal(err)
	}
	network.Close()
	select {
	case id := <-gone:
		if id != 7 {
			t.Errorf("told of broker %d, want 7", id)
		}
	case <-time.After(10 * time.Second):
		t.Error("nobody told that the broker's connection has ended")
	}
}

// Messages for another cluster, and of other topics than the quorum's, are refused as Kafka does.
func TestMessagesForOthersAreRefused(t *testing.T) {
	t.Parallel()
	_, _, at, _ := controllerWorld(t)
	l := connect(t, (peer.Endpoint{Host: at.Endpoint.Host, Port: at.Endpoint.Port}).Address())
	vote := raw.At(2, kmsg.NewPtrVoteRequest())
	vote.ClusterID = new("another")
	code(t, "a vote in another cluster", l.Ask(vote).(*kmsg.VoteResponse).ErrorCode, kafka.InconsistentClusterId)
	vote.ClusterID = nil
	code(t, "a vote on nothing", l.Ask(vote).(*kmsg.VoteResponse).ErrorCode, kafka.InvalidRequest)
	begin := raw.At(1, kmsg.NewPtrBeginQuorumEpochRequest())
	begin.ClusterID = new("another")
	code(t, "a leader of another cluster", l.Ask(begin).(*kmsg.BeginQuorumEpochResponse).ErrorCode, kafka.InconsistentClusterId)
	end := raw.At(1, kmsg.NewPtrEndQuorumEpochRequest())
	end.Topics = []kmsg.EndQuorumEpochRequestTopic{{Topic: "t", Partitions: make([]kmsg.EndQuorumEpochRequestTopicPartition, 1)}}
	code(t, "the end of another topic's leader", l.Ask(end).(*kmsg.EndQuorumEpochResponse).ErrorCode, kafka.InvalidRequest)
	fetch := raw.At(17, kmsg.NewPtrFetchRequest())
	fetch.ClusterID = new("another")
	code(t, "a fetch in another cluster", l.Ask(fetch).(*kmsg.FetchResponse).ErrorCode, kafka.InconsistentClusterId)
	fetch.ClusterID = nil
	fetch.Topics = []kmsg.FetchRequestTopic{{TopicID: kafka.UUID{5}, Partitions: []kmsg.FetchRequestTopicPartition{kmsg.NewFetchRequestTopicPartition()}}}
	code(t, "a fetch of another topic", l.Ask(fetch).(*kmsg.FetchResponse).ErrorCode, kafka.InvalidRequest)
	snapshot := raw.At(1, kmsg.NewPtrFetchSnapshotRequest())
	snapshot.Topics = []kmsg.FetchSnapshotRequestTopic{{Topic: "t", Partitions: []kmsg.FetchSnapshotRequestTopicPartition{kmsg.NewFetchSnapshotRequestTopicPartition()}}}
	code(t, "a snapshot of another topic", l.Ask(snapshot).(*kmsg.FetchSnapshotResponse).Topics[0].Partitions[0].ErrorCode, kafka.UnknownTopicOrPartition)
	register := raw.At(4, kmsg.NewPtrBrokerRegistrationRequest())
	register.ClusterID = "another"
	code(t, "a broker of another cluster", l.Ask(register).(*kmsg.BrokerRegistrationResponse).ErrorCode, kafka.InconsistentClusterId)
	envelope := raw.At(0, kmsg.NewPtrEnvelopeRequest())
	code(t, "an envelope of nobody", l.Ask(envelope).(*kmsg.EnvelopeResponse).ErrorCode, kafka.PrincipalDeserializationFailure)
	envelope.RequestPrincipal = (&kmsg.DefaultPrincipalData{Type: "User", Name: "a"}).AppendTo(nil)
	code(t, "an envelope from nowhere", l.Ask(envelope).(*kmsg.EnvelopeResponse).ErrorCode, kafka.InvalidRequest)
	envelope.ClientHostAddress = []byte{127, 0, 0, 1}
	envelope.RequestData = kmsg.NewRequestFormatter().AppendRequest(nil, raw.At(2, kmsg.NewPtrVoteRequest()), 1)[4:]
	code(t, "a vote in an envelope", l.Ask(envelope).(*kmsg.EnvelopeResponse).ErrorCode, kafka.InvalidRequest)
}
