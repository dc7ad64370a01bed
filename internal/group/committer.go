package group

import "github.com/raftsman/raftsman/internal/kafka"

// committer is who commits offsets, in a transaction or beside, and the codes for what may be wrong with it.
type committer struct {
	generation    int32
	memberID      string
	instanceID    *string
	transactional bool
	withoutEpochs bool
	unknownGroup  kafka.Error
	staleEpoch    kafka.Error
	topics        []CommitTopic
}

func (c *Commit) committer() committer {
	return committer{
		generation: c.Generation, memberID: c.MemberID, instanceID: c.InstanceID, withoutEpochs: c.WithoutEpochs,
		unknownGroup: c.UnknownGroup, staleEpoch: kafka.StaleMemberEpoch, topics: c.Topics,
	}
}

func (c *TxnCommit) committer() committer {
	return committer{
		generation: c.Generation, memberID: c.MemberID, instanceID: c.InstanceID, transactional: true,
		unknownGroup: c.UnknownGroup, staleEpoch: c.StaleEpoch, topics: c.Topics,
	}
}

// unnamed tells whether the committer says nothing of itself.
func (c *committer) unnamed() bool {
	return c.generation < 0 && c.memberID == "" && c.instanceID == nil
}

// unnamedInTransaction tells whether it is a producer that cannot say for whom it commits, or does not: versions 0 to 2 have no place for it. It is
// believed, as its transactional id fences it.
func (c *committer) unnamedInTransaction() bool { return c.transactional && c.unnamed() }

// checkCommit tells whether somebody may commit for the group: as a member in the present generation, or as somebody outside while the group has no
// members.
func checkCommit(g *group, by committer) kafka.Error {
	switch {
	case g != nil && g.consumer != nil:
		return g.consumer.checkCommit(by)
	case g != nil && g.foreign != nil:
		return g.foreign.checkCommit(by)
	case g == nil && by.generation >= 0:
		return by.unknownGroup
	case g == nil, g.state == Empty && by.generation < 0, by.unnamedInTransaction():
		return kafka.None
	case by.unnamed():
		return kafka.UnknownMemberId
	}
	if code := g.validate(by.memberID, by.instanceID); code != kafka.None {
		return code
	}
	switch {
	case by.generation != g.generation:
		return kafka.IllegalGeneration
	case g.state == CompletingRebalance && !by.transactional:
		return kafka.RebalanceInProgress
	}
	return kafka.None
}
