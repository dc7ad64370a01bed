package quorum

import (
	"context"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// What administrators ask of the active controller. On another node each command fails with kafka.NotController, and so does one whose
// node stops leading before the command is committed: its effect may show later all the same.

// CreateTopics creates topics.
func (n *Node) CreateTopics(ctx context.Context, cmd meta.CreateTopics) (results []meta.TopicResult, err error) {
	err = n.propose(ctx, func(im *meta.Image) (entries []meta.Entry, _ error) {
		entries, results = meta.DecideCreateTopics(im, cmd, n.o.env())
		return entries, nil
	})
	return results, err
}

// DeleteTopics deletes topics.
func (n *Node) DeleteTopics(ctx context.Context, cmd meta.DeleteTopics) (results []meta.DeleteResult, err error) {
	err = n.propose(ctx, func(im *meta.Image) (entries []meta.Entry, _ error) {
		entries, results = meta.DecideDeleteTopics(im, cmd)
		return entries, nil
	})
	return results, err
}

// CreatePartitions grows topics.
func (n *Node) CreatePartitions(ctx context.Context, cmd meta.CreatePartitions) (results []meta.GrowthResult, err error) {
	err = n.propose(ctx, func(im *meta.Image) (entries []meta.Entry, _ error) {
		entries, results = meta.DecideCreatePartitions(im, cmd, n.o.env())
		return entries, nil
	})
	return results, err
}

// AlterConfigs changes configurations.
func (n *Node) AlterConfigs(ctx context.Context, cmd meta.AlterConfigs) (results []meta.ConfigResult, err error) {
	err = n.propose(ctx, func(im *meta.Image) (entries []meta.Entry, _ error) {
		entries, results = meta.DecideAlterConfigs(im, cmd, n.o.env())
		return entries, nil
	})
	return results, err
}

// AlterQuotas changes client quotas. There is one result for each change, nil or why it was refused.
func (n *Node) AlterQuotas(ctx context.Context, cmd meta.AlterQuotas) (results []error, err error) {
	err = n.propose(ctx, func(im *meta.Image) (entries []meta.Entry, _ error) {
		entries, results = meta.DecideAlterQuotas(im, cmd)
		return entries, nil
	})
	return results, err
}

// ElectLeaders elects leaders. The error of a wrong request is a *kafka.Refusal.
func (n *Node) ElectLeaders(ctx context.Context, cmd meta.ElectLeaders) (results []meta.ElectionResult, err error) {
	err = n.propose(ctx, func(im *meta.Image) (entries []meta.Entry, refused error) {
		entries, results, refused = meta.DecideElectLeaders(im, cmd, n.o.env())
		return entries, refused
	})
	return results, err
}

// Reassign changes on which brokers partitions are. There is one result for each, nil or why it was refused.
func (n *Node) Reassign(ctx context.Context, cmd meta.Reassign) (results []error, err error) {
	err = n.propose(ctx, func(im *meta.Image) (entries []meta.Entry, _ error) {
		entries, results = meta.DecideReassign(im, cmd, n.o.env())
		return entries, nil
	})
	return results, err
}

// UnregisterController removes a controller that is not coming back.
func (n *Node) UnregisterController(ctx context.Context, id kafka.NodeID) error {
	return n.propose(ctx, func(im *meta.Image) ([]meta.Entry, error) {
		return meta.DecideUnregisterController(im, id, n.o.NodeID)
	})
}

// UnregisterBroker removes a broker that is not coming back.
func (n *Node) UnregisterBroker(ctx context.Context, id kafka.NodeID) error {
	return n.propose(ctx, func(im *meta.Image) ([]meta.Entry, error) {
		return meta.DecideUnregister(im, id, n.o.env())
	})
}
