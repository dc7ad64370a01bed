package meta

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// snapshotOf returns the values of the records of a snapshot.
func snapshotOf(im *Image) [][]byte {
	var values [][]byte
	for value := range im.Snapshot() {
		values = append(values, bytes.Clone(value))
	}
	return values
}

func replayed(t testing.TB, values [][]byte) *Image {
	t.Helper()
	u := NewImage("cluster").Update()
	for _, value := range values {
		f, err := sysrecord.ParseFrame(value)
		if err != nil {
			t.Fatal(err)
		}
		if err := u.ApplyFrame(f); err != nil {
			t.Fatal(err)
		}
	}
	return u.Image(0, 0, 0)
}

// everyKind is a log with each kind of record that Kafka 4.4 writes.
func everyKind() []Entry {
	topic, acl := kafka.UUID{1}, kafka.UUID{2}
	quota := &sysrecord.ClientQuotaRecord{
		Entity: []sysrecord.ClientQuotaRecordEntityData{{EntityType: "user", EntityName: new("joe")}, {EntityType: "client-id"}}, Key: "producer_byte_rate", Value: 1024,
	}
	removedQuota := *quota
	removedQuota.Key, removedQuota.Remove = "consumer_byte_rate", true
	controller := sysrecord.NewRegisterControllerRecord()
	controller.ControllerID = 3
	partition := sysrecord.NewPartitionRecord()
	partition.PartitionID, partition.TopicID, partition.Replicas, partition.ISR, partition.Leader = 0, topic, []kafka.NodeID{1, 2}, []kafka.NodeID{1}, 1
	partition.LeaderEpoch, partition.PartitionEpoch, partition.EligibleLeaderReplicas, partition.LeaderRecoveryState = 4, 9, []kafka.NodeID{2}, 1
	partition.Directories = []kafka.UUID{{7}, {8}}
	change := sysrecord.NewPartitionChangeRecord()
	change.TopicID, change.PartitionID, change.Leader, change.LastKnownELR, change.LeaderRecoveryState = topic, 0, 2, []kafka.NodeID{1}, 0
	broker := sysrecord.NewRegisterBrokerRecord()
	broker.BrokerID, broker.BrokerEpoch, broker.Rack = 1, 77, new("r1")
	broker.EndPoints = []sysrecord.RegisterBrokerRecordBrokerEndpoint{{Name: "SSL", Host: "h", Port: 9, SecurityProtocol: 1}}
	other := *broker
	other.BrokerID, other.BrokerEpoch = 2, 78
	scram := &sysrecord.UserScramCredentialRecord{Name: "joe", Mechanism: 1, Salt: []byte{1}, StoredKey: []byte{2}, ServerKey: []byte{3}, Iterations: 4096}
	sally := *scram
	sally.Name = "sally"
	token := &sysrecord.DelegationTokenRecord{TokenID: "t"}
	elr := sysrecord.NewClearElrRecord()
	elr.TopicName = "nothing"
	v := func(r sysrecord.Record, version int16) Entry { return Entry{Record: r, Version: version} }
	return append(Bootstrap(),
		v(broker, 4), v(&other, 4), v(&sysrecord.FenceBrokerRecord{ID: 1, Epoch: 77}, 0), v(&sysrecord.UnfenceBrokerRecord{ID: 1, Epoch: 77}, 0),
		v(&sysrecord.BrokerRegistrationChangeRecord{BrokerID: 2, BrokerEpoch: 78, InControlledShutdown: 1, LogDirs: []kafka.UUID{{5}}}, 2),
		v(controller, 0), v(&sysrecord.TopicRecord{Name: "a", TopicID: topic}, 0), v(partition, 2), v(change, 2), v(elr, 0),
		v(&sysrecord.TopicRecord{Name: "gone", TopicID: kafka.UUID{9}}, 0), v(&sysrecord.RemoveTopicRecord{TopicID: kafka.UUID{9}}, 0),
		setConfig(Resource{TopicResource, "a"}, "retention.ms", new("5")), setConfig(Resource{GroupResource, "g"}, "x", new("y")),
		setConfig(Resource{GroupResource, "g2"}, "x", new("y")), setConfig(Resource{GroupResource, "g2"}, "x", nil),
		v(quota, 0), v(&removedQuota, 0), v(&sysrecord.AccessControlEntryRecord{ID: acl, Principal: "User:joe", Host: "*", ResourceName: "a"}, 0),
		v(&sysrecord.AccessControlEntryRecord{ID: kafka.UUID{3}}, 0), v(&sysrecord.RemoveAccessControlEntryRecord{ID: kafka.UUID{3}}, 0),
		v(scram, 0), v(&sally, 0), v(&sysrecord.RemoveUserScramCredentialRecord{Name: "sally", Mechanism: 1}, 0), v(token, 0),
		v(&sysrecord.ProducerIdsRecord{BrokerID: 1, BrokerEpoch: 77, NextProducerID: 3000}, 0), v(sysrecord.NewNoOpRecord(), 0),
	)
}

func applied(t testing.TB, im *Image, entries []Entry) *Image {
	t.Helper()
	u := im.Update()
	for _, e := range entries {
		if err := u.Apply(e); err != nil {
			t.Fatalf("%s: %v", e.Record.RecordName(), err)
		}
	}
	return u.Image(im.Offset()+kafka.Offset(len(entries)), 1, 0)
}

func TestASnapshotIsTheWholeImage(t *testing.T) {
	im := applied(t, NewImage("cluster"), everyKind())
	u := im.Update()
	unknown := sysrecord.Frame{Key: 900, Version: 3, Body: []byte("from the future")}
	if err := u.ApplyFrame(unknown); err != nil {
		t.Fatal(err)
	}
	im = u.Image(100, 1, 0)
	want := snapshotOf(im)
	again := replayed(t, want)
	if got := snapshotOf(again); !slices.EqualFunc(got, want, bytes.Equal) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	if !slices.ContainsFunc(want, func(v []byte) bool { return bytes.Contains(v, []byte("from the future")) }) {
		t.Error("a record of an unknown kind is lost")
	}
	p, _ := again.Partition(kafka.TopicPartition{Topic: "a"})
	if p.Leader != 2 || p.LeaderEpoch != 5 || p.PartitionEpoch != 10 || p.Recovering || !slices.Equal(p.ELR, []kafka.NodeID{2}) || !slices.Equal(p.LastELR, []kafka.NodeID{1}) {
		t.Errorf("got partition %+v", p)
	}
	kinds := map[string]int{}
	for _, value := range want {
		f, _ := sysrecord.ParseFrame(value)
		if r, _ := f.Record(); r != nil {
			kinds[r.RecordName()]++
		}
	}
	for name, n := range map[string]int{
		"ClientQuotaRecord": 1, "AccessControlEntryRecord": 1, "UserScramCredentialRecord": 1, "DelegationTokenRecord": 1,
		"RegisterControllerRecord": 1, "RegisterBrokerRecord": 2, "TopicRecord": 1, "ConfigRecord": 2,
	} {
		if kinds[name] != n {
			t.Errorf("the snapshot has %d of %s, want %d", kinds[name], name, n)
		}
	}
}

func TestRecordVersionsFollowTheFinalisedLevel(t *testing.T) {
	for _, test := range []struct{ level, partition, broker int16 }{{7, 0, 1}, {13, 0, 2}, {17, 1, 3}, {23, 2, 3}, {33, 2, 4}} {
		im := applied(t, NewImage("cluster"), []Entry{{Record: &sysrecord.FeatureLevelRecord{Name: MetadataVersion, FeatureLevel: test.level}}})
		im = applied(t, im, DecideStart(im, Registration{ID: 1}, 1, testEnv()))
		entries, results := DecideCreateTopics(im, CreateTopics{Topics: []NewTopic{{Name: "a", Partitions: 1, ReplicationFactor: 1}}}, testEnv())
		if results[0].Err != nil || entries[1].Version != test.partition {
			t.Errorf("level %d: partition record version %d, want %d; %v", test.level, entries[1].Version, test.partition, results[0].Err)
		}
		im = applied(t, im, entries)
		for _, value := range snapshotOf(im) {
			f, _ := sysrecord.ParseFrame(value)
			if want := map[int16]int16{0: test.broker, 3: test.partition}; f.Key == 0 || f.Key == 3 {
				if f.Version != want[f.Key] {
					t.Errorf("level %d: record %d is written in version %d, want %d", test.level, f.Key, f.Version, want[f.Key])
				}
			}
		}
		if name := MetadataVersionName(test.level); name == "" {
			t.Errorf("level %d has no name", test.level)
		}
	}
}

func TestTransactionsAreAllOrNothing(t *testing.T) {
	begin, end, abort := sysrecord.NewBeginTransactionRecord(), sysrecord.NewEndTransactionRecord(), sysrecord.NewAbortTransactionRecord()
	topic := func(n byte) Entry {
		return Entry{Record: &sysrecord.TopicRecord{Name: fmt.Sprintf("t%d", n), TopicID: kafka.UUID{n}}}
	}
	start := applied(t, NewImage("cluster"), []Entry{topic(1)})
	u := start.Update()
	for _, e := range []Entry{{Record: begin}, topic(2), topic(3)} {
		if err := u.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	open := u.Image(10, 1, 0)
	if open.TopicCount() != 1 || open.Offset() != 10 || !u.InTransaction() {
		t.Errorf("an open transaction shows %d topics at offset %d", open.TopicCount(), open.Offset())
	}
	if err := u.Apply(Entry{Record: abort}); err != nil {
		t.Fatal(err)
	}
	if im := u.Image(11, 1, 0); im.TopicCount() != 1 || u.InTransaction() {
		t.Errorf("an aborted transaction shows %d topics", im.TopicCount())
	}
	for _, e := range []Entry{{Record: begin}, topic(4), {Record: end}} {
		if err := u.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	if im := u.Image(14, 1, 0); im.TopicCount() != 2 || start.TopicCount() != 1 {
		t.Errorf("a finished transaction shows %d topics, the image before it %d", im.TopicCount(), start.TopicCount())
	}
	if u.Apply(Entry{Record: end}) == nil {
		t.Error("the end of no transaction was accepted")
	}
}

func TestALogThatContradictsItselfIsRefused(t *testing.T) {
	partition := sysrecord.NewPartitionRecord()
	partition.TopicID, partition.PartitionID = kafka.UUID{1}, 5
	for name, entries := range map[string][]Entry{
		"partition of no topic":  {{Record: partition, Version: 2}},
		"partitions with a gap":  {{Record: &sysrecord.TopicRecord{Name: "a", TopicID: kafka.UUID{1}}}, {Record: partition, Version: 2}},
		"topic twice":            {{Record: &sysrecord.TopicRecord{Name: "a", TopicID: kafka.UUID{1}}}, {Record: &sysrecord.TopicRecord{Name: "a", TopicID: kafka.UUID{2}}}},
		"change of no partition": {{Record: &sysrecord.TopicRecord{Name: "a", TopicID: kafka.UUID{1}}}, {Record: &sysrecord.PartitionChangeRecord{TopicID: kafka.UUID{1}}, Version: 2}},
		"removal of no topic":    {{Record: &sysrecord.RemoveTopicRecord{TopicID: kafka.UUID{1}}}},
		"change of no broker":    {{Record: &sysrecord.BrokerRegistrationChangeRecord{BrokerID: 1}}},
		"removal of no broker":   {{Record: &sysrecord.UnregisterBrokerRecord{BrokerID: 1}}},
	} {
		u := NewImage("cluster").Update()
		var err error
		for _, e := range entries {
			if err == nil {
				err = u.Apply(e)
			}
		}
		if err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestEligibleReplicasLeadWhenNobodyElseCan(t *testing.T) {
	topic := kafka.UUID{1}
	partition := sysrecord.NewPartitionRecord()
	partition.PartitionID, partition.TopicID, partition.Replicas, partition.Leader = 0, topic, []kafka.NodeID{1, 2}, kafka.NoNode
	partition.EligibleLeaderReplicas, partition.LastKnownELR = []kafka.NodeID{1}, []kafka.NodeID{2}
	im := applied(t, NewImage("cluster"), append(Bootstrap(), Entry{Record: &sysrecord.TopicRecord{Name: "a", TopicID: topic}}, Entry{Record: partition, Version: 2}))
	im = applied(t, im, DecideStart(im, Registration{ID: 1}, im.Offset()+1, testEnv()))
	p, _ := im.Partition(kafka.TopicPartition{Topic: "a"})
	if p.Leader != 1 || !slices.Equal(p.ISR, []kafka.NodeID{1}) || len(p.ELR) != 0 || len(p.LastELR) != 0 {
		t.Errorf("got %+v, want leader 1, in sync alone", p)
	}
	clear := sysrecord.NewClearElrRecord()
	im = applied(t, applied(t, NewImage("c"), everyKind()), []Entry{{Record: clear}})
	if p, _ := im.Partition(kafka.TopicPartition{Topic: "a"}); len(p.ELR)+len(p.LastELR) != 0 {
		t.Errorf("cleared: %+v", p)
	}
}

func TestTopicChangesAreFoundByName(t *testing.T) {
	s := newScenario(t)
	s.run("brokers 1\ncreate a b c p=1")
	old := s.im
	s.run("delete a\ncreate a d p=1\ngrow b to=2\nincr 2 c set:retention.ms=5")
	var got []string
	for change := range TopicChanges(old, s.im) {
		got = append(got, fmt.Sprintf("%s %s", nameOf(change.Old), nameOf(change.New)))
	}
	if want := []string{"a-1 a-4", "b-1 b-2", "- d-1"}; len(got) != 3 || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("got %q", got)
	}
}

func nameOf(t *Topic) string {
	if t == nil {
		return "-"
	}
	return fmt.Sprintf("%s-%d", t.Name, len(t.Partitions))
}

// manyTopics is an image of n topics with one partition each.
func manyTopics(b testing.TB, n int) *Image {
	u := NewImage("cluster").Update()
	for _, e := range append(Bootstrap(), DecideStart(NewImage("cluster"), Registration{ID: 1}, 0, testEnv())...) {
		if err := u.Apply(e); err != nil {
			b.Fatal(err)
		}
	}
	for i := range n {
		p := sysrecord.NewPartitionRecord()
		p.PartitionID, p.TopicID, p.Replicas, p.ISR, p.Leader = 0, kafka.UUID{1, byte(i >> 16), byte(i >> 8), byte(i)}, []kafka.NodeID{1}, []kafka.NodeID{1}, 1
		for _, e := range []Entry{{Record: &sysrecord.TopicRecord{Name: fmt.Sprintf("topic-%d", i), TopicID: p.TopicID}}, {Record: p, Version: 2}} {
			if err := u.Apply(e); err != nil {
				b.Fatal(err)
			}
		}
	}
	return u.Image(1, 1, 1)
}

func BenchmarkCreateOneTopicAmong100000(b *testing.B) {
	im, env := manyTopics(b, 100_000), testEnv()
	b.ReportAllocs()
	for b.Loop() {
		entries, _ := DecideCreateTopics(im, CreateTopics{Topics: []NewTopic{{Name: "new", Partitions: 1, ReplicationFactor: 1}}}, env)
		applied(b, im, entries)
	}
}

func BenchmarkTopicAmong100000(b *testing.B) {
	im := manyTopics(b, 100_000)
	for b.Loop() {
		if _, ok := im.Topic("topic-77777"); !ok {
			b.Fatal("gone")
		}
	}
}

func BenchmarkReplaySnapshotOf100000Topics(b *testing.B) {
	values := snapshotOf(manyTopics(b, 100_000))
	b.ReportAllocs()
	for b.Loop() {
		replayed(b, values)
	}
}
