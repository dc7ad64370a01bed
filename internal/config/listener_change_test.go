package config

import (
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
)

// TestListenerSettingsBelongToOneBroker changes settings of a listener as Kafka 4.4 was seen to answer: but for three of them they
// are one broker's, known or not, and threads move by a factor of two at most.
func TestListenerSettingsBelongToOneBroker(t *testing.T) {
	t.Parallel()
	b, _, err := Parse("", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, value    string
		forAll, forOne bool // whether it may be set so
	}{
		{"listener.name.plaintext.ssl.keystore.type", "JKS", false, true},
		{"listener.name.foo.ssl.keystore.location", "/x", false, true},
		{"listener.name.plaintext.plain.sasl.jaas.config", "x", false, true},
		{"listener.name.plaintext.log.retention.ms", "1", false, true},
		{"listener.name.foo.bar", "5", false, true},
		{"listener.name.foo.max.connection.creation.rate", "5", true, true},
		{"listener.name.plaintext.max.connections", "5", true, true},
		{"listener.name.plaintext.num.network.threads", "5", true, true},
		{"listener.name.plaintext.num.network.threads", "500", false, false},
		{"listener.name.plaintext.ssl.client.auth", "foo", false, false},
	} {
		for _, resource := range []string{"", "1"} {
			want := c.forOne
			change := Change{Kind: KindBroker, Name: resource, Changed: []string{c.name}, Next: map[string]string{c.name: c.value}}
			if change.After.Node = change.Next; resource == "" {
				want = c.forAll
				change.After.Node, change.After.Cluster = nil, change.Next
			}
			code := kafka.None
			if err := b.Check(change); err != nil {
				code, _ = kafka.Answer(err)
			}
			if allowed := code == kafka.None; allowed != want || !allowed && code != kafka.InvalidRequest {
				t.Errorf("%s=%s of broker %q: %v, want allowed %v", c.name, c.value, resource, code, want)
			}
		}
	}
}
