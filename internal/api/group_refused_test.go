package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// TestARefusedCommitLeavesOtherGroupsAlone: what is too large in one group, a partition's metadata or the whole commit, is refused, and
// the other groups of the same partition of __consumer_offsets commit and beat as if nothing was.
func TestARefusedCommitLeavesOtherGroupsAlone(t *testing.T) {
	n := newGroupNode(t)
	n.topic("wide", 600)
	topic, _ := n.api.Quorum.Image().Topic(meta.OffsetsTopic)
	shard := func(name string) int32 { return kafka.PartitionFor(name, int32(len(topic.Partitions))) }
	other := "other"
	for i := 0; shard(other) != shard("refused"); i++ {
		other = fmt.Sprint("other", i)
	}
	joined := n.join(other, 9, nil)
	n.sync(other, 5, joined)

	alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, meta.OffsetsTopic
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = "max.message.bytes", new("4000")
	resource.Configs = append(resource.Configs, config)
	alter.Resources = append(alter.Resources, resource)
	if resp := n.call(alter).(*kmsg.IncrementalAlterConfigsResponse); resp.Resources[0].ErrorCode != 0 {
		t.Fatalf("%+v", resp)
	}

	commit := func(group string, metadata string, partitions int) map[kafka.Error]int {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.SetVersion(8)
		req.Group = group
		if group == other {
			req.Generation, req.MemberID = joined.Generation, joined.MemberID
		}
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic = "wide"
		for p := range int32(partitions) {
			rp := kmsg.NewOffsetCommitRequestTopicPartition()
			rp.Partition, rp.Offset, rp.Metadata = p, 7, &metadata
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
		codes := map[kafka.Error]int{}
		for _, p := range n.call(req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions {
			codes[kafka.Error(p.ErrorCode)]++
		}
		return codes
	}
	fine := func(after string) {
		t.Helper()
		if codes := commit(other, "", 1); codes[kafka.None] != 1 {
			t.Errorf("after %s another group commits: %v", after, codes)
		}
		beat := kmsg.NewPtrHeartbeatRequest()
		beat.SetVersion(4)
		beat.Group, beat.Generation, beat.MemberID = other, joined.Generation, joined.MemberID
		if resp := n.call(beat).(*kmsg.HeartbeatResponse); resp.ErrorCode != 0 {
			t.Errorf("after %s another group beats: %v", after, kafka.Error(resp.ErrorCode))
		}
	}
	for range 3 {
		if codes := commit("refused", strings.Repeat("x", 101), 2); codes[kafka.OffsetMetadataTooLarge] != 2 {
			t.Errorf("metadata above offset.metadata.max.bytes: %v", codes)
		}
		fine("metadata that is too long")
		if codes := commit("refused", strings.Repeat("x", 90), 600); codes[kafka.UnknownServerError] != 600 {
			t.Errorf("a commit above max.message.bytes: %v", codes)
		}
		fine("a commit that is too large")
	}
	if codes := commit("refused", "", 3); codes[kafka.None] != 3 {
		t.Errorf("the group itself, with less: %v", codes)
	}
}
