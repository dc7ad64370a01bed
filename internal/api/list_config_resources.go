package api

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// listedKinds are the kinds of resources that can be listed, in the order in which they are.
var listedKinds = []config.Kind{config.KindGroup, config.KindClientMetrics, config.KindLogger, config.KindBroker, config.KindTopic}

// listConfigResources lists what has a configuration: the topics, the brokers and their loggers, and those groups and client-metrics
// subscriptions for which something is set (KIP-1142). Version 0 knew only the last (KIP-1000).
func (a *API) listConfigResources(c call) {
	req := kmsg.NewPtrListConfigResourcesRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrListConfigResourcesResponse()
	wanted := listedKinds
	switch {
	case c.Version == 0:
		wanted = []config.Kind{config.KindClientMetrics}
	case len(req.ResourceTypes) > 0:
		wanted = nil
		for _, kind := range listedKinds {
			if slices.Contains(req.ResourceTypes, int8(kind)) {
				wanted = append(wanted, kind)
			}
		}
		for _, kind := range req.ResourceTypes {
			if !slices.Contains(listedKinds, config.Kind(kind)) {
				resp.ErrorCode = int16(kafka.UnsupportedVersion)
				wanted = nil
				break
			}
		}
	}
	image := a.Quorum.Image()
	for _, kind := range wanted {
		resp.ConfigResources = appendResources(resp.ConfigResources, image, kind)
	}
	c.answer(resp)
}

// appendResources adds the resources of one kind, by name.
func appendResources(rows []kmsg.ListConfigResourcesResponseConfigResource, image *meta.Image, kind config.Kind,
) []kmsg.ListConfigResourcesResponseConfigResource {
	add := func(name string) {
		row := kmsg.NewListConfigResourcesResponseConfigResource()
		row.Name, row.Type = name, int8(kind)
		rows = append(rows, row)
	}
	switch kind {
	case config.KindTopic:
		for topic := range image.Topics() {
			add(topic.Name)
		}
	case config.KindBroker, config.KindLogger:
		for _, b := range image.Brokers() {
			if !b.Fenced {
				add(strconv.Itoa(int(b.ID)))
			}
		}
	case config.KindGroup, config.KindClientMetrics:
		for r := range image.Resources(meta.ResourceType(kind)) {
			add(r.Name)
		}
	}
	return rows
}
