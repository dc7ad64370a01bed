package api

import (
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/wire"
)

// currentLeader returns the leader of a partition as the metadata knows it, for a client that asked another node, and adds its
// address to the endpoints, if it is not there.
func (a *API) currentLeader(listener, topic string, id kafka.TopicID, index int32, endpoints []wire.NodeEndpoint) (
	wire.Leader, []wire.NodeEndpoint,
) {
	image := a.Quorum.Image()
	t, ok := image.TopicByID(id)
	if id.IsZero() {
		t, ok = image.Topic(topic)
	}
	if !ok || index < 0 || int(index) >= len(t.Partitions) {
		return wire.Leader{}, endpoints
	}
	p := &t.Partitions[index]
	leader := wire.Leader{Known: true, ID: p.Leader, Epoch: p.LeaderEpoch}
	if slices.ContainsFunc(endpoints, func(e wire.NodeEndpoint) bool { return e.ID == p.Leader }) {
		return leader, endpoints
	}
	if address, ok := leaderAddress(image, p.Leader, listener); ok {
		endpoints = append(endpoints, address)
	}
	return leader, endpoints
}

func leaderAddress(image *meta.Image, id kafka.NodeID, listener string) (wire.NodeEndpoint, bool) {
	b, ok := image.Broker(id)
	if !ok {
		return wire.NodeEndpoint{}, false
	}
	e, ok := b.Endpoint(listener)
	return wire.NodeEndpoint{ID: id, Host: e.Host, Port: int32(e.Port), Rack: b.Rack}, ok
}

// answerOf returns an error's code and message, nil for none, as responses hold them.
func answerOf(err error) (kafka.Error, *string) {
	code, message := kafka.Answer(err)
	if message == "" {
		return code, nil
	}
	return code, &message
}
