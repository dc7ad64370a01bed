package config

import "testing"

func TestNothingGivenIsASingleNode(t *testing.T) {
	b, warnings, err := Parse("", nil, nil)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("Parse of nothing: %v, %v", warnings, err)
	}
	if got := b.Listeners(); len(got) != 2 || got[0].String() != "PLAINTEXT://127.0.0.1:9092" || got[1].String() != "PLAINTEXT://[::1]:9092" {
		t.Errorf("listeners are %v", got)
	}
	if !b.SingleNode() || b.NodeID() != 1 || b.Int("offsets.topic.replication.factor") != 1 || b.Int("group.initial.rebalance.delay.ms") != 0 {
		t.Errorf("not a single node: %+v", b)
	}
	topic := b.Topic(nil, map[string]string{"retention.ms": "5", "segment.bytes": "12"})
	if topic.RetentionMs != 5 || topic.SegmentBytes != 1<<30 || topic.SegmentMs != 604800000 || !topic.CleanupDelete {
		t.Errorf("topic is %+v", topic)
	}
}
