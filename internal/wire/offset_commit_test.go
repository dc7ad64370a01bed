package wire

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

func TestOffsetCommitDecodesAsKmsgDoes(t *testing.T) {
	rng := newRandom(t)
	var got OffsetCommitRequest // one value for all, as handlers use it
	var names Names
	for range 200 {
		for version := int16(2); version <= 10; version++ {
			sent := randomRequest(rng, int16(kmsg.OffsetCommit), version).(*kmsg.OffsetCommitRequest)
			body := sent.AppendTo(nil)
			if err := got.Decode(version, body, &names); err != nil {
				t.Fatal(err)
			}
			want := kmsg.NewPtrOffsetCommitRequest() // with the defaults of what the version does not say
			want.Version = version
			if err := want.ReadFrom(body); err != nil {
				t.Fatal(err)
			}
			checkOffsetCommit(t, &got, want)

			resp := kmsg.NewPtrOffsetCommitResponse()
			resp.Version, resp.ThrottleMillis = version, rng.Int32()
			var codes []kafka.Error
			for _, topic := range want.Topics {
				answered := kmsg.OffsetCommitResponseTopic{Topic: topic.Topic, TopicID: topic.TopicID}
				for _, p := range topic.Partitions {
					code := int16(rng.IntN(100))
					codes = append(codes, kafka.Error(code))
					answered.Partitions = append(answered.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: code})
				}
				resp.Topics = append(resp.Topics, answered)
			}
			if got, want := got.AppendAnswer(nil, version, codes, resp.ThrottleMillis), resp.AppendTo(nil); !bytes.Equal(got, want) {
				t.Errorf("answer\n%x, want\n%x", got, want)
			}
			if t.Failed() {
				t.Fatalf("v%d body %x", version, body)
			}
		}
	}
}

func checkOffsetCommit(t *testing.T, got *OffsetCommitRequest, want *kmsg.OffsetCommitRequest) {
	t.Helper()
	again := kmsg.NewPtrOffsetCommitRequest()
	again.Version, again.Group, again.Generation, again.MemberID = want.Version, got.Group, got.Generation, got.MemberID
	again.InstanceID, again.RetentionTimeMillis = got.InstanceID, got.RetentionMs
	again.UnknownTags = want.UnknownTags
	for i, topic := range got.Topics {
		next := kmsg.OffsetCommitRequestTopic{Topic: topic.Name, TopicID: topic.ID, UnknownTags: want.Topics[i].UnknownTags}
		for j, p := range topic.Partitions {
			next.Partitions = append(next.Partitions, kmsg.OffsetCommitRequestTopicPartition{
				Partition: p.Index, Offset: int64(p.Offset), LeaderEpoch: int32(p.LeaderEpoch), Metadata: p.Metadata,
				Timestamp: want.Topics[i].Partitions[j].Timestamp, UnknownTags: want.Topics[i].Partitions[j].UnknownTags,
			})
		}
		again.Topics = append(again.Topics, next)
	}
	if !reflect.DeepEqual(again.AppendTo(nil), want.AppendTo(nil)) {
		t.Errorf("%+v, want %+v", again, want)
	}
}

func TestOffsetCommitRefusesEveryCutBody(t *testing.T) {
	rng := newRandom(t)
	var got OffsetCommitRequest
	for version := int16(2); version <= 10; version++ {
		body := randomRequest(rng, int16(kmsg.OffsetCommit), version).AppendTo(nil)
		for n := range body {
			if err := got.Decode(version, body[:n], &Names{}); !errors.Is(err, ErrMalformed) {
				t.Fatalf("v%d cut to %d of %d bytes: error %v, want ErrMalformed", version, n, len(body), err)
			}
			if len(got.Topics) != 0 {
				t.Fatalf("v%d: a refused request has %d topics", version, len(got.Topics))
			}
		}
	}
}
