package parity

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

// listConfigResources asks for the resources that have a configuration.
func (c *conversation) listConfigResources() {
	setting := func(value *string, op kmsg.IncrementalAlterConfigOp) *kmsg.IncrementalAlterConfigsRequest {
		req := raw.At(1, kmsg.NewPtrIncrementalAlterConfigsRequest())
		add := func(kind kmsg.ConfigResourceType, name, key string) {
			r := kmsg.NewIncrementalAlterConfigsRequestResource()
			r.ResourceType, r.ResourceName = kind, name
			entry := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			entry.Name, entry.Value, entry.Op = key, value, op
			r.Configs = append(r.Configs, entry)
			req.Resources = append(req.Resources, r)
		}
		add(kmsg.ConfigResourceTypeClientMetrics, "subscription", "interval.ms")
		add(kmsg.ConfigResourceTypeGroupConfig, "configured", "consumer.session.timeout.ms")
		return req
	}
	c.add("settings of a group and of a subscription", setting(new("50000"), kmsg.IncrementalAlterConfigOpSet))
	for _, v := range raw.VersionsOf(kmsg.ListConfigResources) {
		for _, kinds := range [][]int8{nil, {16}, {32}, {2}, {4}, {8}, {2, 16}, {32, 4, 32}, {0}, {1}, {-1}, {16, 99}} {
			req := raw.At(v, kmsg.NewPtrListConfigResourcesRequest())
			req.ResourceTypes = kinds
			step := c.add(fmt.Sprintf("of types %d", kinds), req)
			if kinds == nil {
				step.till = func(resp kmsg.Response) bool { // Apache Kafka publishes them a moment after it has answered
					rows := resp.(*kmsg.ListConfigResourcesResponse).ConfigResources
					return len(rows) > 0 && (v == 0 || rows[0].Type == 32)
				}
			}
		}
	}
	c.add("no settings of a group and of a subscription", setting(nil, kmsg.IncrementalAlterConfigOpDelete))
	last := c.add("with nothing set", raw.At(0, kmsg.NewPtrListConfigResourcesRequest()))
	last.till = func(resp kmsg.Response) bool {
		return len(resp.(*kmsg.ListConfigResourcesResponse).ConfigResources) == 0
	}
}
