package meta

import (
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
)

// The transcripts rule33… and rule34… in testdata show the rest.
func TestRule33ElectionsFollowTheOrderOfReplicas(t *testing.T) {
	s := newScenario(t)
	s.run("brokers 1 2 3\ncreate a as=1+2+3\nreassign a 0=2+3+1")
	elect := func(topics ...TopicPartitions) []ElectionResult {
		entries, results, err := DecideElectLeaders(s.im, ElectLeaders{Type: PreferredElection, Topics: topics}, s.env)
		if err != nil {
			t.Fatal(err)
		}
		s.apply(entries)
		return results
	}
	a := TopicPartitions{Topic: "a", Partitions: []int32{0}}
	if err := elect(a)[0].Partitions[0].Err; err != nil {
		t.Errorf("elect: %v", err)
	}
	topic, _ := s.im.Topic("a")
	if p := topic.Partitions[0]; p.Leader != 2 || p.LeaderEpoch != 1 {
		t.Errorf("leader %d in epoch %d, want 2 in epoch 1", p.Leader, p.LeaderEpoch)
	}
	if code, _ := kafka.Answer(elect(a)[0].Partitions[0].Err); code != kafka.ElectionNotNeeded {
		t.Errorf("elect again: %v, want ELECTION_NOT_NEEDED", code)
	}
	if all := elect(); len(all) != 1 || len(all[0].Partitions) != 0 {
		t.Errorf("elect all: %+v, want no partitions", all)
	}
}

// The answer for a partition is as short as what asks for it, however long the topic's name: it would be a multiple of the request.
func TestRefusedPartitionsDoNotRepeatLongNames(t *testing.T) {
	s := newScenario(t)
	s.run("brokers 1\ncreate a as=1")
	long := strings.Repeat("x", 32_000)
	_, elected, err := DecideElectLeaders(s.im, ElectLeaders{Topics: []TopicPartitions{{Topic: long, Partitions: []int32{0, 1}}, {Topic: "a", Partitions: []int32{7}}}}, s.env)
	_, moved := DecideReassign(s.im, Reassign{Partitions: []Reassignment{{Topic: long, Replicas: []kafka.NodeID{1}}, {Topic: "a", Partition: 7, Cancel: true}}}, s.env)
	if err != nil || len(elected) != 2 {
		t.Fatalf("%v, %v", elected, err)
	}
	all := append(moved, elected[1].Partitions[0].Err)
	for _, p := range elected[0].Partitions {
		all = append(all, p.Err)
	}
	for _, err := range all {
		if code, message := kafka.Answer(err); code != kafka.UnknownTopicOrPartition || message == "" || len(message) > 64 {
			t.Errorf("%v with a message of %d bytes", code, len(message))
		}
	}
}

func TestRule34And35ReassignmentsAreCancelledAndReplaced(t *testing.T) {
	s := newScenario(t)
	s.run("brokers 1 2 3\ncreate a as=1")
	reassign := func(cancel bool, replicas ...kafka.NodeID) kafka.Error {
		entries, results := DecideReassign(s.im, Reassign{Partitions: []Reassignment{{Topic: "a", Replicas: replicas, Cancel: cancel}}}, s.env)
		s.apply(entries)
		code, _ := kafka.Answer(results[0])
		return code
	}
	if code := reassign(true); code != kafka.NoReassignmentInProgress {
		t.Errorf("cancel nothing: %v", code)
	}
	for _, target := range []kafka.NodeID{2, 3} {
		if code := reassign(false, target); code != kafka.None {
			t.Fatalf("to %d: %v", target, code)
		}
	}
	topic, _ := s.im.Topic("a")
	for n, p := range topic.Reassignments() {
		if n != 0 || p.Replicas[0] != 3 || len(p.Adding) != 1 || p.Adding[0] != 3 {
			t.Errorf("partition %d: %+v, want 3 to come", n, p)
		}
	}
	if code := reassign(true); code != kafka.None {
		t.Errorf("cancel: %v", code)
	}
	topic, _ = s.im.Topic("a")
	if p := topic.Partitions[0]; p.Reassigning() || len(p.Replicas) != 1 || p.Replicas[0] != 1 || p.Leader != 1 {
		t.Errorf("after the cancel: %+v, want replica 1 alone", p)
	}
}

// One request writes no more than 10,000 records, which are one batch of the log.
func TestElectionsAndReassignmentsAreBounded(t *testing.T) {
	s := newScenario(t)
	s.run("brokers 1 2\ncreate a p=5000 rf=2\ncreate b p=5001 rf=2")
	reassign := Reassign{}
	for topic := range s.im.Topics() {
		for n, p := range topic.Partitions { // so that another is to lead
			replicas := []kafka.NodeID{p.Replicas[1], p.Replicas[0]}
			reassign.Partitions = append(reassign.Partitions, Reassignment{Topic: topic.Name, Partition: int32(n), Replicas: replicas})
		}
	}
	entries, results := DecideReassign(s.im, reassign, s.env)
	for i, err := range results {
		if code, _ := kafka.Answer(err); code != kafka.PolicyViolation || entries != nil {
			t.Fatalf("partition %d of 10,001: %v, %d records", i, err, len(entries))
		}
	}
	for _, half := range [][]Reassignment{reassign.Partitions[:5000], reassign.Partitions[5000:]} {
		entries, _ := DecideReassign(s.im, Reassign{Partitions: half}, s.env)
		if len(entries) != len(half) {
			t.Fatalf("%d records for %d partitions", len(entries), len(half))
		}
		s.apply(entries)
	}
	_, _, err := DecideElectLeaders(s.im, ElectLeaders{Type: PreferredElection}, s.env)
	if code, _ := kafka.Answer(err); code != kafka.PolicyViolation {
		t.Errorf("10,001 elections: %v", err)
	}
	elect := ElectLeaders{Type: PreferredElection, Topics: []TopicPartitions{{Topic: "b"}}}
	for n := range int32(5001) {
		elect.Topics[0].Partitions = append(elect.Topics[0].Partitions, n)
	}
	if entries, _, err := DecideElectLeaders(s.im, elect, s.env); len(entries) != 5001 || err != nil {
		t.Errorf("5,001 elections: %d records, %v", len(entries), err)
	}
}

// All controllers must be able to read what is written, not only the one that decides.
func TestFeaturesAreHeldBackByOtherControllers(t *testing.T) {
	s := newScenario(t)
	old := RegisterController{ID: 2, Endpoints: []Endpoint{{Name: "C", Host: "h", Port: 1, Security: "SSL"}}, Features: SupportedFeatures()}
	for i := range old.Features {
		if old.Features[i].Name == ShareVersion {
			old.Features[i].Max = 1
		}
	}
	entries, err := DecideRegisterController(s.im, old)
	if err != nil {
		t.Fatal(err)
	}
	s.apply(entries)
	if got := s.im.Controllers(); len(got) != 1 || got[0].ID != 2 || got[0].Endpoints[0] != old.Endpoints[0] || len(got[0].Features) != len(old.Features) {
		t.Errorf("controllers are %+v", got)
	}
	_, _, err = DecideUpdateFeatures(s.im, UpdateFeatures{Updates: []FeatureUpdate{{ShareVersion, 2, UpgradeOnly}}})
	if code, message := kafka.Answer(err); code != kafka.InvalidUpdateVersion || !strings.Contains(message, "controller 2") {
		t.Errorf("with a controller that supports less: %v", err)
	}
	if _, err := DecideUnregisterController(s.im, 2, 2); err == nil {
		t.Error("the active controller was unregistered")
	}
	entries, err = DecideUnregisterController(s.im, 2, 1)
	s.apply(entries)
	if err != nil || len(s.im.Controllers()) != 0 {
		t.Errorf("unregistered, there are %+v: %v", s.im.Controllers(), err)
	}
	if _, _, err := DecideUpdateFeatures(s.im, UpdateFeatures{Updates: []FeatureUpdate{{ShareVersion, 2, UpgradeOnly}}}); err != nil {
		t.Errorf("without it: %v", err)
	}
}
