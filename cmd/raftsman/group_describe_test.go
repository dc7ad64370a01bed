package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestGroupOfTheConsumerProtocolWithALiveMember: describe shows its epoch, assignor, members and lag; nothing takes its offsets away.
func TestGroupOfTheConsumerProtocolWithALiveMember(t *testing.T) {
	bootstrap := startBroker(t)
	topic := topicFor(t, bootstrap, 2)
	must(t, bootstrap, "", "produce", topic, "-p", "0", "a", "b", "c")
	ctx := context.WithValue(t.Context(), "opt_in_kafka_next_gen_balancer_beta", true) //nolint:staticcheck // the client's own name for it
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.WithContext(ctx), kgo.ClientID("shop"), kgo.ConsumerGroup("modern"), kgo.ConsumeTopics(topic),
		kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	records := cl.PollRecords(ctx, 2).Records()
	if err := cl.CommitRecords(ctx, records...); err != nil || len(records) != 2 {
		t.Fatalf("commit %d records: %v", len(records), err)
	}
	var views []groupView
	eventually(t, "the group to be stable", func() bool {
		if err := json.Unmarshal([]byte(must(t, bootstrap, "", "group", "describe", "modern", "-o", "json")), &views); err != nil {
			t.Fatal(err)
		}
		return len(views) == 1 && views[0].State == "Stable" && len(views[0].Members) == 1
	})
	v := views[0]
	if v.Type != "consumer" || v.Epoch == nil || *v.Epoch < 1 || v.Assignor != "uniform" || v.Lag != 1 || len(v.Partitions) != 2 {
		t.Errorf("got %+v", v)
	}
	if m := v.Members[0]; m.ClientID != "shop" || m.Partitions != 2 || m.MemberID == "" {
		t.Errorf("its member is %+v", m)
	}
	for _, p := range v.Partitions {
		if p.MemberID != v.Members[0].MemberID {
			t.Errorf("%s partition %d is of %q, not of %+v", p.Topic, p.Partition, p.MemberID, v.Members[0])
		}
	}
	if text := must(t, bootstrap, "", "group", "describe", "modern"); !strings.Contains(text, "state Stable, consumer protocol, epoch ") ||
		!strings.Contains(text, ", assignor uniform, coordinator 1, 1 member, lag 1\n") || !strings.Contains(text, "shop@127.0.0.1") {
		t.Errorf("printed %s", text)
	}
	for _, line := range []string{"group reset modern --to-earliest --execute", "group delete modern --yes", "group delete-offsets modern -t " + topic + " --yes"} {
		s := newLiveSession(bootstrap)
		if code := s.run(strings.Fields(line)...); code != exitFailure || !strings.Contains(s.err.String(), "modern") {
			t.Errorf("`%s` ends with %d, prints %q and says %q", line, code, s.out.String(), s.err.String())
		}
	}
	if text := must(t, bootstrap, "", "group", "describe", "modern"); !strings.Contains(text, "1 member, lag 1\n") {
		t.Errorf("afterwards it prints %s", text)
	}
}
