package meta

import (
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
)

// The transcripts rule33… and rule34… in testdata show the rest.
func TestRule33ElectionsFollowTheOrderOfReplicas(t *testing.T) {
	s := newScenario(t)
	s.run("brokers 1 2 3\ncreate a as=1+2+3\nreassign a 0=2+3+1")
	elect := func(topics ...TopicPartitions) []ElectionResult {
		entries, results, err := DecideElectLeaders(s.im, ElectLeaders{Type: PreferredElection, Topics: topics})
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

func TestRule34And35ReassignmentsAreCancelledAndReplaced(t *testing.T) {
	s := newScenario(t)
	s.run("brokers 1 2 3\ncreate a as=1")
	reassign := func(cancel bool, replicas ...kafka.NodeID) kafka.Error {
		entries, results := DecideReassign(s.im, Reassign{Partitions: []Reassignment{{Topic: "a", Replicas: replicas, Cancel: cancel}}})
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
