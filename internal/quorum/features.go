package quorum

import (
	"context"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
)

// UpdateFeatures changes the levels of features, all or none.
func (n *Node) UpdateFeatures(ctx context.Context, cmd meta.UpdateFeatures) error {
	cmd.MinISR = n.o.MinISR
	return n.propose(ctx, func(im *meta.Image) ([]meta.Entry, error) {
		cmd.KRaft = n.member.Membership().Version
		entries, raise, err := meta.DecideUpdateFeatures(im, cmd)
		if err != nil || !raise {
			return entries, err
		}
		return entries, n.raiseKRaftVersionLocked()
	})
}

// raiseKRaftVersionLocked has kraft.version 1 and the voters, which only the configuration has named so far, written into the log. The
// quorum-state file keeps its old layout until the next epoch: both are read.
func (n *Node) raiseKRaftVersionLocked() error {
	waits := make(chan answer, 1)
	n.tickets++
	ticket := n.tickets
	n.answers[ticket] = waits
	n.stepLocked(func(nowMs int64) kraft.Effects {
		return n.member.Handle(nowMs, ticket, &kraft.UpgradeRequest{Level: 1})
	})
	if n.failure != nil {
		return n.failure
	}
	if !n.active.Load() {
		return kafka.NotController // there was no room for the records, or the member has not heard of a majority
	}
	if resp := (<-waits).Response.(*kraft.UpgradeResponse); resp.Error != kafka.None {
		return kafka.Refuse(resp.Error, "%s", resp.Message)
	}
	return nil
}
