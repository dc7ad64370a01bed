package kafka

import "testing"

// What Java's String.hashCode and Kafka's Utils.abs(hash) % 50 say, with a negative hash and the smallest one among them: a group
// in another partition than Kafka's has no offsets for it.
func TestPartitionForIsKafkas(t *testing.T) {
	for _, c := range []struct {
		id        string
		hash      int32
		partition int32
	}{
		{"", 0, 0},
		{"orders", -1008770331, 31},
		{"crash-members", -2007140109, 9},
		{"polygenelubricants", -2147483648, 0},
		{"grüße", 98768023, 23},
		{"日本", 835047, 47},
		{"🦫 dam", 878099997, 47},
	} {
		if hash, partition := StringHash(c.id), PartitionFor(c.id, 50); hash != c.hash || partition != c.partition {
			t.Errorf("%q: hash %d, partition %d; Kafka has %d, %d", c.id, hash, partition, c.hash, c.partition)
		}
	}
}
