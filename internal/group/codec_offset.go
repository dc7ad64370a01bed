package group

import (
	"encoding/binary"

	"github.com/raftsman/raftsman/internal/sysrecord"
)

// The versions in which Kafka 4.4 writes offsets: the newest, but for what only an older one can say.
const (
	offsetKeyVersion          = 1
	offsetValueVersion        = 4
	offsetValueWithoutTopicID = 3
	offsetValueWithExpiry     = 1 // the only version with an expire timestamp
)

// appendOffsetKey and appendOffset write what package sysrecord would, byte for byte, without making its records: most of
// __consumer_offsets is this.
func appendOffsetKey(dst []byte, r *OffsetRecord) []byte {
	dst = binary.BigEndian.AppendUint16(dst, offsetKeyVersion)
	dst = appendString16(dst, r.Group)
	dst = appendString16(dst, r.Topic)
	return binary.BigEndian.AppendUint32(dst, uint32(r.Partition))
}

func appendOffset(dst []byte, v *OffsetValue) []byte {
	switch {
	case v.ExpiresMs >= 0:
		return sysrecord.AppendValue(dst, &sysrecord.OffsetCommitValue{
			Offset: v.Offset, LeaderEpoch: v.LeaderEpoch, Metadata: v.Metadata, CommitTimestamp: v.CommittedMs, ExpireTimestamp: v.ExpiresMs,
		}, offsetValueWithExpiry)
	case v.TopicID.IsZero():
		dst = binary.BigEndian.AppendUint16(dst, offsetValueWithoutTopicID)
		dst = binary.BigEndian.AppendUint64(dst, uint64(v.Offset))
		dst = binary.BigEndian.AppendUint32(dst, uint32(v.LeaderEpoch))
		dst = appendString16(dst, v.Metadata)
		return binary.BigEndian.AppendUint64(dst, uint64(v.CommittedMs))
	}
	dst = binary.BigEndian.AppendUint16(dst, offsetValueVersion)
	dst = binary.BigEndian.AppendUint64(dst, uint64(v.Offset))
	dst = binary.BigEndian.AppendUint32(dst, uint32(v.LeaderEpoch))
	dst = binary.AppendUvarint(dst, uint64(len(v.Metadata)+1))
	dst = append(dst, v.Metadata...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(v.CommittedMs))
	dst = append(dst, 1, 0, byte(len(v.TopicID))) // one tag, number 0
	return append(dst, v.TopicID[:]...)
}

func appendString16(dst []byte, s string) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
	return append(dst, s...)
}
