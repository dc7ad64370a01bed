package config

import (
	"testing"
	"time"
)

// TestConsumersOfGroup: what is set on the group counts before what is set on the brokers, within the broker's limits.
func TestConsumersOfGroup(t *testing.T) {
	b, _, err := Parse("group.consumer.session.timeout.ms=50000\n", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cluster, group map[string]string
		want           Consumers
	}{
		{want: Consumers{50 * time.Second, 5 * time.Second, time.Second, true}},
		{
			cluster: map[string]string{"group.consumer.assignment.interval.ms": "2000"},
			want:    Consumers{50 * time.Second, 5 * time.Second, 2 * time.Second, true},
		},
		{
			cluster: map[string]string{"group.consumer.assignment.interval.ms": "2000"},
			group:   map[string]string{"consumer.session.timeout.ms": "47000", "consumer.assignment.interval.ms": "0"},
			want:    Consumers{47 * time.Second, 5 * time.Second, 0, true},
		},
		{
			cluster: map[string]string{"group.consumer.assignor.offload.enable": "false"},
			want:    Consumers{50 * time.Second, 5 * time.Second, time.Second, false},
		},
		{
			cluster: map[string]string{"group.consumer.assignor.offload.enable": "false"},
			group:   map[string]string{"consumer.assignor.offload.enable": "true"},
			want:    Consumers{50 * time.Second, 5 * time.Second, time.Second, true},
		},
		{ // the limits were narrowed since it was set
			group: map[string]string{"consumer.session.timeout.ms": "900000", "consumer.heartbeat.interval.ms": "1"},
			want:  Consumers{time.Minute, 5 * time.Second, time.Second, true},
		},
		{group: map[string]string{"consumer.session.timeout.ms": "soon"}, want: Consumers{50 * time.Second, 5 * time.Second, time.Second, true}},
	} {
		if got := b.Consumers(Dynamic{Cluster: c.cluster}, c.group); got != c.want {
			t.Errorf("cluster %v group %v: %v, want %v", c.cluster, c.group, got, c.want)
		}
	}
}
