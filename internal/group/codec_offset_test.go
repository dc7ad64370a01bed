package group

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

func TestOffsetsAreWrittenAsTheSchemaSays(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	text := func() string { return strings.Repeat("ä", r.IntN(150)) }
	for range 500 {
		o := &OffsetRecord{Group: text(), Topic: text(), Partition: int32(r.Uint32()), Value: &OffsetValue{
			Offset: kafka.Offset(r.Uint64()), LeaderEpoch: kafka.Epoch(r.Uint32()), Metadata: text(), CommittedMs: r.Int64(), ExpiresMs: -1,
		}}
		v, version := o.Value, int16(offsetValueWithoutTopicID)
		if r.IntN(2) == 0 {
			v.TopicID, version = kafka.TopicID{byte(r.IntN(255) + 1), 7}, offsetValueVersion
		}
		key := sysrecord.AppendKey(nil, &sysrecord.OffsetCommitKey{Group: o.Group, Topic: o.Topic, Partition: o.Partition})
		value := sysrecord.AppendValue(nil, &sysrecord.OffsetCommitValue{
			Offset: v.Offset, LeaderEpoch: v.LeaderEpoch, Metadata: v.Metadata, CommitTimestamp: v.CommittedMs, TopicID: v.TopicID,
		}, version)
		gotKey := AppendKey(nil, o)
		gotValue, there := AppendValue(nil, o)
		if !bytes.Equal(gotKey, key) || !bytes.Equal(gotValue, value) || !there {
			t.Fatalf("seed %d: %+v\nkey %x\nwant %x\nvalue %x\nwant %x", seed, o, gotKey, key, gotValue, value)
		}
	}
}
