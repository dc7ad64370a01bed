package api

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// askMetadata asks for topics by name: all of them when names is nil.
func (n *node) askMetadata(version int16, create bool, names []string) *kmsg.MetadataResponse {
	n.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation = version, create
	if names != nil {
		req.Topics = []kmsg.MetadataRequestTopic{}
	}
	for _, name := range names {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		req.Topics = append(req.Topics, topic)
	}
	return n.call(req).(*kmsg.MetadataResponse)
}

// rows is the topics of an answer as name:code.
func rows(m *kmsg.MetadataResponse) string {
	var words []string
	for _, t := range m.Topics {
		name := "null"
		if t.Topic != nil {
			name = *t.Topic
		}
		words = append(words, fmt.Sprintf("%s:%d", name, t.ErrorCode))
	}
	return strings.Join(words, " ")
}

// settings replaces the configuration that the API sees.
func (n *node) settings(properties map[string]string) {
	n.Helper()
	properties["node.id"] = "1"
	broker, err := config.NewBroker(properties)
	if err != nil {
		n.Fatal(err)
	}
	n.api.Config = broker
}

func TestRule14MetadataOfAllOrOfNone(t *testing.T) {
	n := newNode(t)
	for _, name := range []string{"a", "b", "c"} {
		n.topic(name, 1)
	}
	for _, test := range []struct {
		version int16
		names   []string
		want    int
	}{{0, []string{}, 3}, {1, nil, 3}, {1, []string{}, 0}, {12, []string{}, 0}, {12, nil, 3}, {13, nil, 3}} {
		m := n.askMetadata(test.version, true, test.names)
		if len(m.Topics) != test.want || len(m.Brokers) != 1 {
			t.Errorf("v%d, names %v: got %d topics and %d brokers, want %d and 1", test.version, test.names, len(m.Topics), len(m.Brokers), test.want)
		}
	}
	if got := rows(n.askMetadata(12, false, []string{"b", "nope", "b"})); got != "b:0 nope:3" {
		t.Errorf("got %s", got)
	}
}

func TestRule15AutoCreationAnswersRetriableThenLeads(t *testing.T) {
	n := newNode(t)
	if got := rows(n.askMetadata(12, true, []string{"new"})); got != "new:3" {
		t.Errorf("first answer %s, want new:3", got)
	}
	m := n.askMetadata(12, true, []string{"new"})
	if rows(m) != "new:0" || len(m.Topics[0].Partitions) != 1 || m.Topics[0].Partitions[0].Leader != 1 {
		t.Errorf("second answer %+v", m.Topics)
	}
	n.askMetadata(12, true, []string{"__consumer_offsets", "__transaction_state", "__share_group_state"})
	for name, policy := range map[string]string{"__consumer_offsets": "compact", "__transaction_state": "compact", "__share_group_state": "delete"} {
		internal, ok := n.api.Quorum.Image().Topic(name)
		if !ok || len(internal.Partitions) != 50 {
			t.Errorf("%s: got %+v, want 50 partitions", name, internal)
		}
		if got := n.api.Quorum.Image().Config(meta.Resource{Type: meta.TopicResource, Name: name})["cleanup.policy"]; got != policy {
			t.Errorf("%s has cleanup.policy %q, want %q", name, got, policy)
		}
	}
}

func TestRule16AutoCreationNeedsBothFlags(t *testing.T) {
	n := newNode(t)
	n.askMetadata(4, false, []string{"x"})
	n.settings(map[string]string{"auto.create.topics.enable": "false"})
	n.askMetadata(4, true, []string{"x"})
	n.askMetadata(1, false, []string{"x"})
	if n.api.Quorum.Image().TopicCount() != 0 {
		t.Error("a topic was created though one flag was off")
	}
	n.settings(map[string]string{})
	n.askMetadata(3, false, []string{"x"}) // which has no flag of its own
	if _, ok := n.api.Quorum.Image().Topic("x"); !ok {
		t.Error("version 3 does not create topics")
	}
}

func TestRule17TheAddressIsTheListeners(t *testing.T) {
	n := newNode(t)
	address := func() string {
		b := n.askMetadata(12, false, nil).Brokers
		if len(b) != 1 {
			return "none"
		}
		return fmt.Sprintf("%s:%d", b[0].Host, b[0].Port)
	}
	n.settings(map[string]string{"listeners": "PLAINTEXT://:9092", "advertised.listeners": "PLAINTEXT://broker.example:9092"})
	n.peer.Local = netip.MustParseAddrPort("10.0.0.7:1234")
	if got := address(); got != "broker.example:9092" {
		t.Errorf("advertised: got %s", got)
	}
	n.settings(map[string]string{"listeners": "PLAINTEXT://:9092"})
	for local, want := range map[string]string{"10.0.0.7:1234": "10.0.0.7:1234", "[::1]:99": "::1:99", "[::ffff:10.0.0.7]:5": "10.0.0.7:5"} {
		n.peer.Local = netip.MustParseAddrPort(local)
		if got := address(); got != want {
			t.Errorf("nothing advertised, client connected to %s: got %s, want %s", local, got, want)
		}
	}
	n.peer.Listener = "OTHER"
	if got := address(); got != "none" {
		t.Errorf("on a listener that is not registered: got %s", got)
	}
}

func TestRule18NoLeaderIsInvented(t *testing.T) {
	n := newNode(t)
	n.topic("a", 1)
	if err := n.api.Quorum.UnregisterBroker(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for version := range int16(14) {
		m := n.askMetadata(version, false, []string{"a"})
		p := m.Topics[0].Partitions[0]
		if p.Leader != -1 || p.ErrorCode != int16(kafka.LeaderNotAvailable) || version >= 7 && p.LeaderEpoch != 1 || version >= 5 && len(p.OfflineReplicas) != 1 {
			t.Errorf("v%d: got %+v", version, p)
		}
		if wantReplicas := 1; version == 0 && len(p.Replicas) != 0 || version > 0 && len(p.Replicas) != wantReplicas {
			t.Errorf("v%d: got replicas %v", version, p.Replicas)
		}
	}
}

func TestALeaderOnAnotherListenerIsSaidSo(t *testing.T) {
	n := newNode(t)
	n.topic("a", 1)
	n.peer.Listener = "OTHER"
	for version, want := range map[int16]kafka.Error{5: kafka.LeaderNotAvailable, 6: kafka.ListenerNotFound, 12: kafka.ListenerNotFound} {
		if p := n.askMetadata(version, false, []string{"a"}).Topics[0].Partitions[0]; p.Leader != -1 || p.ErrorCode != int16(want) {
			t.Errorf("v%d: got %+v, want %v", version, p, want)
		}
	}
}

func TestRule19And21EpochsAndIdsAreReal(t *testing.T) {
	n := newNode(t)
	id := n.topic("a", 2)
	for version := range int16(14) {
		topic := n.askMetadata(version, false, []string{"a"}).Topics[0]
		if version >= 7 && topic.Partitions[1].LeaderEpoch != 0 || version < 7 && topic.Partitions[1].LeaderEpoch != -1 {
			t.Errorf("v%d: leader epoch %d", version, topic.Partitions[1].LeaderEpoch)
		}
		if version >= 10 && (id.IsZero() || kafka.TopicID(topic.TopicID) != id) {
			t.Errorf("v%d: topic id %v, want %v", version, topic.TopicID, id)
		}
	}
}

func TestMetadataByTopicID(t *testing.T) {
	n := newNode(t)
	id := n.topic("a", 1)
	ask := func(version int16, ids ...kafka.TopicID) *kmsg.MetadataResponse {
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.Topics = version, []kmsg.MetadataRequestTopic{}
		for _, id := range ids {
			topic := kmsg.NewMetadataRequestTopic()
			topic.TopicID = id
			req.Topics = append(req.Topics, topic)
		}
		return n.call(req).(*kmsg.MetadataResponse)
	}
	if got := rows(ask(12, id, kafka.TopicID{9}, kafka.TopicID{}, id)); got != "a:0 null:100" {
		t.Errorf("got %s", got)
	}
	if m := ask(10, id); rows(m) != ":42" || len(m.Brokers) != 0 {
		t.Errorf("version 10 serves ids: %s", rows(m))
	}
}

func TestRule26BadNamesInMetadata(t *testing.T) {
	n := newNode(t)
	n.topic("m.1", 1)
	got := rows(n.askMetadata(12, true, []string{"", ".", "a b", "m_1"}))
	if got != ":17 .:17 a b:17 m_1:3" {
		t.Errorf("got %s", got)
	}
	if n.api.Quorum.Image().TopicCount() != 1 {
		t.Error("a topic of a bad name was created")
	}
}

func TestAuthorizedOperationsOnlyWhenAsked(t *testing.T) {
	n := newNode(t)
	n.topic("a", 1)
	for _, ask := range []bool{false, true} {
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.IncludeClusterAuthorizedOperations, req.IncludeTopicAuthorizedOperations = 10, ask, ask
		m := n.call(req).(*kmsg.MetadataResponse)
		cluster, topic := int32(-2147483648), int32(-2147483648)
		if ask {
			cluster, topic = 8096, 3576
		}
		if m.AuthorizedOperations != cluster || m.Topics[0].AuthorizedOperations != topic {
			t.Errorf("asked %v: got %d and %d, want %d and %d", ask, m.AuthorizedOperations, m.Topics[0].AuthorizedOperations, cluster, topic)
		}
	}
}

func TestRule32DescribeClusterNamesLivingBrokers(t *testing.T) {
	n := newNode(t)
	ask := func(version int16, kind int8, fenced bool) *kmsg.DescribeClusterResponse {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.Version, req.EndpointType, req.IncludeFencedBrokers = version, kind, fenced
		return n.call(req).(*kmsg.DescribeClusterResponse)
	}
	for version := range int16(3) {
		c := ask(version, 1, false)
		if c.ErrorCode != 0 || c.ClusterID != "cluster" || c.ControllerID != 1 || len(c.Brokers) != 1 || c.Brokers[0].Host != "broker.example" {
			t.Errorf("v%d: got %+v", version, c)
		}
	}
	if c := ask(1, 2, false); c.ErrorCode != int16(kafka.MismatchedEndpointType) || c.ControllerID != -1 {
		t.Errorf("controllers on a broker's listener: got %+v", c)
	}
	if c := ask(1, 7, false); c.ErrorCode != int16(kafka.UnsupportedEndpointType) {
		t.Errorf("endpoint type 7: got %+v", c)
	}
}

func TestDescribeTopicPartitionsInPages(t *testing.T) {
	n := newNode(t)
	for name, partitions := range map[string]int32{"p1": 3, "p2": 3, "p3": 2} {
		n.topic(name, partitions)
	}
	ask := func(limit int32, cursor string, names ...string) string {
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit = limit
		for _, name := range names {
			topic := kmsg.NewDescribeTopicPartitionsRequestTopic()
			topic.Topic = name
			req.Topics = append(req.Topics, topic)
		}
		if topic, partition, ok := strings.Cut(cursor, "/"); ok {
			c := kmsg.NewDescribeTopicPartitionsRequestCursor()
			c.Topic = topic
			fmt.Sscan(partition, &c.Partition)
			req.Cursor = &c
		}
		resp := n.call(req).(*kmsg.DescribeTopicPartitionsResponse)
		var words []string
		for _, topic := range resp.Topics {
			word := fmt.Sprintf("%s:%d", *topic.Topic, topic.ErrorCode)
			for _, p := range topic.Partitions {
				word += fmt.Sprintf(",%d", p.Partition)
			}
			words = append(words, word)
		}
		if resp.NextCursor != nil {
			words = append(words, fmt.Sprintf("next %s/%d", resp.NextCursor.Topic, resp.NextCursor.Partition))
		}
		return strings.Join(words, " ")
	}
	for _, test := range []struct {
		limit  int32
		cursor string
		names  []string
		want   string
	}{
		{2000, "", nil, "p1:0,0,1,2 p2:0,0,1,2 p3:0,0,1"},
		{2000, "", []string{"p2", "p1", "nope", "p1"}, "nope:3 p1:0,0,1,2 p2:0,0,1,2"},
		{4, "", []string{"p2", "p1", "p3"}, "p1:0,0,1,2 p2:0,0 next p2/1"},
		{4, "p2/1", []string{"p2", "p1", "p3"}, "p2:0,1,2 p3:0,0,1"},
		{4, "p2/9", []string{"p2", "p1", "p3"}, "p2:0 p3:0,0,1"},
		{4, "p2/1", nil, "p2:0,1,2 p3:0,0,1"},
		{4, "p2/-1", []string{"p2", "p1"}, "p2:42 p1:42"},
		{4, "p25/1", []string{"p2", "p1"}, "p2:42 p1:42"},
		{0, "", []string{"p1"}, "p1:0,0 next p1/1"},
		{1, "", []string{"p1", "nope"}, "nope:3 p1:0,0 next p1/1"},
		{3, "", []string{"p1", "p2"}, "p1:0,0,1,2 next p2/0"},
		{3, "", []string{"p1", "zzz"}, "p1:0,0,1,2 next zzz/0"},
		{3, "", []string{"p 1"}, "p 1:17"},
		{1 << 30, "", []string{"p3"}, "p3:0,0,1"},
	} {
		if got := ask(test.limit, test.cursor, test.names...); got != test.want {
			t.Errorf("limit %d, cursor %q, topics %q: got %s, want %s", test.limit, test.cursor, test.names, got, test.want)
		}
	}
}

func TestInitProducerIdHandsOutNewIds(t *testing.T) {
	n := newNode(t)
	ask := func(version int16, change func(*kmsg.InitProducerIDRequest)) *kmsg.InitProducerIDResponse {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.Version = version
		change(req)
		return n.call(req).(*kmsg.InitProducerIDResponse)
	}
	var ids []int64
	for version := range int16(6) {
		r := ask(version, func(*kmsg.InitProducerIDRequest) {})
		if r.ErrorCode != 0 || r.ProducerEpoch != 0 || slices.Contains(ids, r.ProducerID) {
			t.Errorf("v%d: got %+v after %v", version, r, ids)
		}
		ids = append(ids, r.ProducerID)
	}
	if r := ask(4, func(r *kmsg.InitProducerIDRequest) { r.ProducerID, r.ProducerEpoch = 5, 3 }); r.ErrorCode != 0 || r.ProducerID == 5 {
		t.Errorf("asked again with an id: got %+v, want another id", r)
	}
	for name, test := range map[string]struct {
		change func(*kmsg.InitProducerIDRequest)
		want   kafka.Error
	}{
		"id alone":          {func(r *kmsg.InitProducerIDRequest) { r.ProducerID = 5 }, kafka.InvalidRequest},
		"epoch alone":       {func(r *kmsg.InitProducerIDRequest) { r.ProducerEpoch = 5 }, kafka.InvalidRequest},
		"empty transaction": {func(r *kmsg.InitProducerIDRequest) { r.TransactionalID = new("") }, kafka.InvalidRequest},
	} {
		if r := ask(4, test.change); r.ErrorCode != int16(test.want) || r.ProducerID != -1 || r.ProducerEpoch != -1 || test.want.Retriable() {
			t.Errorf("%s: got %+v, want %v", name, r, test.want)
		}
	}
}
