package api

import (
	"context"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// What anyone may do where no authorizer is configured, as the protocol's bit sets.
const (
	allTopicOperations   = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
	allClusterOperations = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
)

// metadata tells who the brokers are and where topics are led (key 3), and creates missing topics where that is allowed.
func (a *API) metadata(c call) {
	req := kmsg.NewPtrMetadataRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrMetadataResponse()
	if c.Version < 12 && slices.ContainsFunc(req.Topics, func(t kmsg.MetadataRequestTopic) bool { return t.TopicID != kafka.TopicID{} || t.Topic == nil }) {
		refuseTopicIDs(resp, req)
		c.answer(resp)
		return
	}
	image := a.Quorum.Image()
	for _, b := range image.Brokers() {
		if host, port, ok := a.addressOn(c, b); ok && !b.Fenced {
			row := kmsg.NewMetadataResponseBroker()
			row.NodeID, row.Host, row.Port, row.Rack = int32(b.ID), host, port, b.Rack
			resp.Brokers = append(resp.Brokers, row)
		}
	}
	clusterID := image.ClusterID()
	resp.ClusterID, resp.ControllerID = &clusterID, int32(dialableController(image))
	if req.IncludeClusterAuthorizedOperations && c.Version >= 8 {
		resp.AuthorizedOperations = allClusterOperations
	}
	resp.Topics = a.metadataTopics(c, image, req)
	c.answer(resp)
}

// refuseTopicIDs answers versions that carry topic ids but are not served with them (10 and 11), as Kafka does.
func refuseTopicIDs(resp *kmsg.MetadataResponse, req *kmsg.MetadataRequest) {
	for _, t := range req.Topics {
		row := kmsg.NewMetadataResponseTopic()
		row.Topic, row.TopicID, row.ErrorCode = t.Topic, t.TopicID, int16(kafka.InvalidRequest)
		if row.Topic == nil {
			row.Topic = new("")
		}
		resp.Topics = append(resp.Topics, row)
	}
}

// addressOn is where the client that sent c reaches a broker: what the broker advertises on the listener that the request
// came in on, and for this node, if it advertises nothing there, the address at which the client has found it.
func (a *API) addressOn(c call, b *meta.Broker) (host string, port int32, ok bool) {
	e, ok := b.Endpoint(c.Peer.Listener)
	if !ok {
		return "", 0, false
	}
	if b.ID == a.NodeID && c.Peer.Local.IsValid() && (anyAddress(e.Host) || !a.advertises(c.Peer.Listener)) {
		return c.Peer.Local.Addr().Unmap().WithZone("").String(), int32(c.Peer.Local.Port()), true
	}
	return e.Host, int32(e.Port), true
}

// advertises tells whether this node's configuration names an address for the listener.
func (a *API) advertises(listener string) bool {
	for _, l := range a.Config.Listeners() {
		if l.Name == listener {
			return l.Advertised.Host != ""
		}
	}
	return true
}

// dialableController is the controller as clients know it: a living broker that takes what is meant for the controller.
func dialableController(image *meta.Image) kafka.NodeID {
	if image.Alive(image.Controller()) {
		return image.Controller()
	}
	for _, b := range image.Brokers() {
		if !b.Fenced {
			return b.ID
		}
	}
	return kafka.NoNode
}

// metadataTopics returns the rows of the topics that the request names: by id if it names any id, else by name; all topics
// when it names none, which is null, or empty in version 0.
func (a *API) metadataTopics(c call, image *meta.Image, req *kmsg.MetadataRequest) []kmsg.MetadataResponseTopic {
	rows := []kmsg.MetadataResponseTopic{}
	add := func(t *meta.Topic) { rows = append(rows, topicRow(c, image, req, t)) }
	if req.Topics == nil || c.Version == 0 && len(req.Topics) == 0 {
		for t := range image.Topics() {
			add(t)
		}
		return rows
	}
	names, ids := askedTopics(req)
	for _, id := range ids {
		if t, ok := image.TopicByID(id); ok {
			add(t)
			continue
		}
		row := kmsg.NewMetadataResponseTopic()
		row.TopicID, row.ErrorCode = id, int16(kafka.UnknownTopicId)
		rows = append(rows, row)
	}
	var missing []string
	for _, name := range names {
		if t, ok := image.Topic(name); ok {
			add(t)
			continue
		}
		row := kmsg.NewMetadataResponseTopic()
		row.Topic, row.IsInternal = &name, meta.IsInternalTopic(name)
		if req.IncludeTopicAuthorizedOperations && c.Version >= 8 {
			row.AuthorizedOperations = allTopicOperations
		}
		row.ErrorCode = int16(kafka.UnknownTopicOrPartition)
		if meta.CheckTopicName(name) != nil {
			row.ErrorCode = int16(kafka.InvalidTopicException)
		} else {
			missing = append(missing, name)
		}
		rows = append(rows, row)
	}
	if (c.Version < 4 || req.AllowAutoTopicCreation) && a.Config.Bool("auto.create.topics.enable") {
		a.autoCreate(c, missing)
	}
	return rows
}

// askedTopics returns the distinct names, or the distinct ids if there are any.
func askedTopics(req *kmsg.MetadataRequest) (names []string, ids []kafka.TopicID) {
	seenNames, seenIDs := map[string]bool{}, map[kafka.TopicID]bool{}
	for _, t := range req.Topics {
		if id := kafka.TopicID(t.TopicID); !id.IsZero() {
			if !seenIDs[id] {
				ids = append(ids, id)
			}
			seenIDs[id] = true
		} else if t.Topic != nil {
			if !seenNames[*t.Topic] {
				names = append(names, *t.Topic)
			}
			seenNames[*t.Topic] = true
		}
	}
	if len(ids) > 0 {
		return nil, ids
	}
	return names, nil
}

// autoCreate creates missing topics. The answer that is on its way still calls them unknown, which clients try again; the next
// one knows them.
func (a *API) autoCreate(c call, names []string) {
	if len(names) == 0 {
		return
	}
	cmd := meta.CreateTopics{Charge: a.Quotas.mutation(c, 0).charge}
	for _, name := range names {
		topic, internal := a.InternalTopic(name)
		if !internal {
			topic = meta.NewTopic{Name: name, Partitions: -1, ReplicationFactor: -1}
		}
		cmd.Topics = append(cmd.Topics, topic)
	}
	results, err := a.createAtController(context.Background(), c.Peer, c.ClientID, cmd)
	if err != nil {
		a.Log.Warn("create topics on first use", "topics", names, "error", err)
		return
	}
	for _, r := range results {
		switch code, _ := kafka.Answer(r.Err); code {
		case kafka.None, kafka.TopicAlreadyExists, kafka.ThrottlingQuotaExceeded:
		default:
			a.Log.Warn("create topic on first use", "topic", r.Name, "error", r.Err)
		}
	}
}

func topicRow(c call, image *meta.Image, req *kmsg.MetadataRequest, t *meta.Topic) kmsg.MetadataResponseTopic {
	row := kmsg.NewMetadataResponseTopic()
	row.Topic, row.TopicID, row.IsInternal = &t.Name, t.ID, meta.IsInternalTopic(t.Name)
	if req.IncludeTopicAuthorizedOperations && c.Version >= 8 {
		row.AuthorizedOperations = allTopicOperations
	}
	row.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for i := range t.Partitions {
		row.Partitions[i] = partitionRow(c, image, &t.Partitions[i], int32(i))
	}
	return row
}

func partitionRow(c call, image *meta.Image, p *meta.Partition, number int32) kmsg.MetadataResponseTopicPartition {
	row := kmsg.NewMetadataResponseTopicPartition()
	row.Partition, row.LeaderEpoch = number, int32(p.LeaderEpoch)
	reachable := func(id kafka.NodeID) bool { return reachableOn(image, id, c.Peer.Listener) }
	row.Replicas, row.ISR = nodeIDs(p.Replicas, nil), nodeIDs(p.ISR, nil)
	if c.Version == 0 { // which knows no offline replicas
		row.Replicas, row.ISR = nodeIDs(p.Replicas, reachable), nodeIDs(p.ISR, reachable)
	}
	row.OfflineReplicas = nodeIDs(p.Replicas, func(id kafka.NodeID) bool { return !reachable(id) || !image.ReplicaOnline(p, id) })
	row.Leader, row.ErrorCode = int32(p.Leader), int16(leaderError(c, image, p))
	switch {
	case row.ErrorCode != 0:
		row.Leader = int32(kafka.NoNode)
	case c.Version == 0 && (len(row.Replicas) < len(p.Replicas) || len(row.ISR) < len(p.ISR)):
		row.ErrorCode = int16(kafka.ReplicaNotAvailable)
	}
	return row
}

// leaderError tells why the client cannot reach the partition's leader.
func leaderError(c call, image *meta.Image, p *meta.Partition) kafka.Error {
	switch {
	case reachableOn(image, p.Leader, c.Peer.Listener):
		return kafka.None
	case c.Version >= 6 && image.Alive(p.Leader):
		return kafka.ListenerNotFound
	}
	return kafka.LeaderNotAvailable
}

// reachableOn tells whether a broker is alive and advertises something on the listener.
func reachableOn(image *meta.Image, id kafka.NodeID, listener string) bool {
	b, ok := image.Broker(id)
	if !ok || b.Fenced {
		return false
	}
	_, ok = b.Endpoint(listener)
	return ok
}

// nodeIDs returns the ids that pass, all of them without a filter, as the wire has them: never null.
func nodeIDs(ids []kafka.NodeID, pass func(kafka.NodeID) bool) []int32 {
	numbers := make([]int32, 0, len(ids))
	for _, id := range ids {
		if pass == nil || pass(id) {
			numbers = append(numbers, int32(id))
		}
	}
	return numbers
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
