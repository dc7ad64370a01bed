package kafka

import "math"

// StringHash is Java's String.hashCode, on UTF-16 units: Kafka places groups and transactional ids by it.
func StringHash(s string) int32 {
	var h int32
	for _, r := range s {
		if r >= 0x10000 {
			r -= 0x10000
			h = 31*h + (0xd800 + r>>10)
			h = 31*h + (0xdc00 + r&0x3ff)
			continue
		}
		h = 31*h + r
	}
	return h
}

// PartitionFor returns the partition of an internal topic that owns a group or a transactional id: the hash's absolute value
// as Kafka takes it (the smallest integer becomes 0), modulo the topic's partition count.
func PartitionFor(id string, partitions int32) int32 {
	h := StringHash(id)
	if h == math.MinInt32 {
		h = 0
	}
	return max(h, -h) % partitions
}
