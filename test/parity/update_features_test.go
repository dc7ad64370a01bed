package parity

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

// updateFeatures changes the levels of features, and puts back what it has changed.
func (c *conversation) updateFeatures() {
	for _, v := range raw.VersionsOf(kmsg.UpdateFeatures) {
		tried := func(kind int8, levels ...string) {
			if v == 0 {
				return // it can't be only tried there
			}
			req := raw.UpdateFeatures(v, kind, levels...)
			req.ValidateOnly = true
			c.add(fmt.Sprintf("try %.60q, kind %d", levels, kind), req)
		}
		done := func(kind int8, levels ...string) {
			c.add(fmt.Sprintf("%.60q, kind %d", levels, kind), raw.UpdateFeatures(v, kind, levels...))
		}
		for kind := int8(-1); kind <= 4; kind++ {
			tried(kind, "group.version=1")
			tried(kind, "group.version=0")
			tried(kind, "group.version=2")
			tried(kind, "group.version=-1")
			tried(kind, "nope=1")
			tried(kind, "nope=0")
			tried(kind, "=1")
			tried(kind, "kraft.version=0")
			tried(kind, "kraft.version=1")
			tried(kind, "kraft.version=2")
			tried(kind, "transaction.version=1")
			tried(kind, "transaction.version=0")
			tried(kind, "share.version=1")
			tried(kind, "streams.version=0")
			tried(kind, "eligible.leader.replicas.version=0")
			tried(kind, "eligible.leader.replicas.version=2")
			tried(kind, "group.version=0", "nope=1")
			tried(kind, "nope=1", "group.version=0")
			tried(kind, "group.version=0", "share.version=0", "streams.version=0")
			tried(kind, "group.version=0", "group.version=0")
			tried(kind, "group.version=0", "group.version=1")
			tried(kind, "group.version=1", "group.version=0")
			tried(kind)
			for _, level := range []int{-1, 0, 1, 6, 7, 13, 14, 20, 22, 28, 29, 30, 31, 32, 33, 34, 99} {
				tried(kind, fmt.Sprintf("metadata.version=%d", level))
			}
		}
		done(raw.Upgrade, "group.version=1")
		done(raw.Upgrade, "group.version=2")
		done(raw.Upgrade, "group.version=0")
		done(raw.SafeDowngrade, "group.version=0", "nope=1")
		done(raw.SafeDowngrade, "group.version=0", "group.version=0")
		c.featuresNow("without the consumer protocol")
		done(raw.SafeDowngrade, "group.version=0", "transaction.version=1")
		c.featuresNow("below")
		beat := raw.At(1, kmsg.NewPtrConsumerGroupHeartbeatRequest())
		beat.Group, beat.MemberID, beat.RebalanceTimeoutMillis = "featured", "m", 60_000
		beat.SubscribedTopicNames, beat.Topics = []string{"made1"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		c.add(fmt.Sprintf("the consumer protocol is off (%d)", v), beat)
		describe := raw.At(1, kmsg.NewPtrConsumerGroupDescribeRequest())
		describe.Groups = []string{"featured"}
		c.add(fmt.Sprintf("while the consumer protocol is off (%d)", v), describe)
		done(raw.SafeDowngrade, "group.version=0")
		done(raw.UnsafeDowngrade, "group.version=0")
		done(raw.Upgrade, "group.version=1", "transaction.version=2")
		c.featuresNow("above")
		c.add(fmt.Sprintf("the consumer protocol is on (%d)", v), beat)
		done(raw.SafeDowngrade, "metadata.version=32")
		c.featuresNow("lower metadata")
		tried(raw.SafeDowngrade, "metadata.version=28")
		tried(raw.UnsafeDowngrade, "metadata.version=7")
		tried(raw.Upgrade, "metadata.version=33")
		done(raw.Upgrade, "metadata.version=33")
		done(raw.UnsafeDowngrade, "eligible.leader.replicas.version=0")
		c.featuresNow("without eligible leader replicas")
		done(raw.Upgrade, "eligible.leader.replicas.version=1")
		done(raw.UnsafeDowngrade, "streams.version=0", "share.version=1")
		done(raw.Upgrade, "streams.version=1", "share.version=2")
		done(raw.Upgrade)
	}
}

// featuresNow shows the features.
func (c *conversation) featuresNow(when string) {
	c.settle()
	req := raw.At(4, kmsg.NewPtrApiVersionsRequest())
	req.ClientSoftwareName, req.ClientSoftwareVersion = "test", "1"
	c.add("features "+when, req)
}
