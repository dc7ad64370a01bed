package quorum

import (
	"context"
	"fmt"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
)

// UpdateFeatures changes the levels of features, all or none.
func (n *Node) UpdateFeatures(ctx context.Context, cmd meta.UpdateFeatures) error {
	cmd.MinISR = n.o.MinISR
	return n.propose(ctx, func(im *meta.Image) ([]meta.Entry, error) {
		cmd.KRaft = n.core.Membership().Version
		entries, raise, err := meta.DecideUpdateFeatures(im, cmd)
		if err != nil || !raise {
			return entries, err
		}
		return entries, n.raiseKRaftVersionLocked()
	})
}

// raiseKRaftVersionLocked writes kraft.version 1 and the voter, which only the configuration has named so far, into the log. The
// quorum-state file keeps its old layout until the next start: both are read.
func (n *Node) raiseKRaftVersionLocked() error {
	old := n.core.Membership()
	invariant.Check(old.Version == 0 && len(old.Voters) == 1, "kraft.version is raised from %d with %d voters", old.Version, len(old.Voters))
	raised := kraft.Membership{Version: 1, Voters: []kraft.Voter{{
		ID: n.o.NodeID, Directory: n.o.Dir.ID(), Endpoints: n.o.controllerEndpoints(), MaxVersion: 1,
	}}}
	nowMs := n.o.Now().UnixMilli()
	batch := encodeControl(membershipControls(raised), nowMs)
	epoch := n.core.State().Epoch
	appended, err := n.log.Append(batch, epoch, n.o.Now())
	if err != nil {
		return n.failLocked(fmt.Errorf("append to the metadata log: %w", err))
	}
	n.setMembershipLocked(raised)
	n.appendedLocked(n.tip.Update().Image(appended.Last, epoch, nowMs), int64(len(batch)))
	return nil
}
