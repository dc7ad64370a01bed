package meta

import (
	"slices"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// elections say who can lead in one decision: brokers that are in service by the image, but for one that comes or goes with what
// is decided.
type elections struct {
	im     *Image
	env    *Env
	coming *Broker      // counts as in service, with the log directories that it brings; nil for nobody
	going  kafka.NodeID // counts as out of service; kafka.NoNode for nobody
}

func electionsOf(im *Image, env *Env) *elections {
	return &elections{im: im, env: env, going: kafka.NoNode}
}

// canLead tells whether a broker is in service, stays so, and has the replica in this log directory.
func (e *elections) canLead(id kafka.NodeID, dir kafka.UUID) bool {
	b, registered := e.im.Broker(id)
	switch {
	case id == e.going:
		return false
	case e.coming != nil && id == e.coming.ID:
		return dirOnline(dir, e.coming.LogDirs)
	}
	return registered && b.inService() && dirOnline(dir, b.LogDirs)
}

// inService tells whether the broker may lead and be in sync.
func (b *Broker) inService() bool { return !b.Fenced && !b.InControlledShutdown }

// election is how far a change goes to have a leader.
type election int8

const (
	topicElection     election = iota // one that has everything; where the topic allows it anyone, rather than nobody
	cleanElection                     // only one that has everything
	preferredElection                 // the same, and the first replica before the one that leads
	uncleanElection                   // anyone, rather than nobody
)

// partitionChange is a change of a partition on its way: what is wanted, from which record makes what follows by the rules. All
// but old may be set; a new one changes nothing.
type partitionChange struct {
	*elections
	topic  *Topic
	number int32
	old    *Partition

	replicas, isr    []kafka.NodeID
	adding, removing []kafka.NodeID
	recovering       bool
	election         election
	moved            kafka.NodeID // the broker whose replica is in movedTo now, or kafka.NoNode
	movedTo          kafka.UUID
	lost             kafka.NodeID // a broker that may have lost what it acknowledged, or kafka.NoNode
	newEpoch         bool         // the leader gets a new epoch also if it stays
}

// change begins a change of a partition.
func (e *elections) change(t *Topic, number int32) *partitionChange {
	return e.changeOf(t, number, &t.Partitions[number])
}

// changeOf is change for a partition that was changed already, in the same decision.
func (e *elections) changeOf(t *Topic, number int32, p *Partition) *partitionChange {
	return &partitionChange{
		elections: e, topic: t, number: number, old: p,
		replicas: p.Replicas, isr: p.ISR, adding: p.Adding, removing: p.Removing,
		recovering: p.Recovering, moved: kafka.NoNode, lost: kafka.NoNode,
	}
}

// entries returns the record in the form that decisions have, none if nothing changes.
func (c *partitionChange) entries() []Entry {
	if r := c.record(); r != nil {
		return []Entry{{Record: r, Version: c.im.partitionRecordVersion()}}
	}
	return nil
}

// record returns the change with all that follows from it, nil if nothing changes: a reassignment ends when it can; the eligible
// leader replicas are those that have left the in-sync set while it was too small to acknowledge anything (KIP-966); a leader that
// can't stay is followed by another one.
func (c *partitionChange) record() *sysrecord.PartitionChangeRecord {
	c.endReassignment()
	elr := c.eligible()
	isr := c.isr
	r := sysrecord.NewPartitionChangeRecord()
	r.TopicID, r.PartitionID = c.topic.ID, c.number

	leader, clean := c.elect(isr, elr)
	if leader != c.old.Leader {
		r.Leader = leader
	}
	switch {
	case leader == kafka.NoNode:
	case !clean:
		isr, elr = []kafka.NodeID{leader}, nil
		c.recovering = true
	case slices.Contains(elr, leader):
		isr, elr = []kafka.NodeID{leader}, without(elr, leader)
	}
	if c.keepsELR() {
		c.noteLastLeader(r)
	} else {
		elr = nil
		if len(isr) == 0 {
			isr = c.old.ISR // the last one in sync stays: nothing else tells who has everything
		}
	}

	changed := r.Leader != leaderUnchanged || r.LastKnownELR != nil
	put := func(field *[]kafka.NodeID, old, now []kafka.NodeID) {
		if !slices.Equal(old, now) {
			*field, changed = append([]kafka.NodeID{}, now...), true
		}
	}
	put(&r.Replicas, c.old.Replicas, c.replicas)
	put(&r.ISR, c.old.ISR, isr)
	put(&r.EligibleLeaderReplicas, c.old.ELR, elr)
	put(&r.AddingReplicas, c.old.Adding, c.adding)
	put(&r.RemovingReplicas, c.old.Removing, c.removing)
	if dirs := c.dirs(); c.im.level() >= levelDirectories && !slices.Equal(dirs, c.old.Dirs) {
		r.Directories, changed = dirs, true
	}
	if c.recovering != c.old.Recovering {
		r.LeaderRecoveryState, changed = recoveryState(c.recovering), true
	}
	if r.Leader == leaderUnchanged && c.needsEpoch(isr) {
		r.Leader, changed = c.old.Leader, true
	}
	if !changed {
		return nil
	}
	return r
}

// needsEpoch tells whether a leader that stays gets a new epoch: when replicas go, so that they are not listened to any more, and
// below 3.6 when the in-sync set shrinks (KAFKA-15021).
func (c *partitionChange) needsEpoch(isr []kafka.NodeID) bool {
	shrinks := len(without(c.old.ISR, isr...)) > 0
	return c.newEpoch || len(without(c.old.Replicas, c.replicas...)) > 0 || shrinks && c.im.level() < levelShrinkKeepsEpoch
}

// keepsELR tells whether eligible leader replicas are kept at all.
func (c *partitionChange) keepsELR() bool { return c.im.features[ELRVersion] > 0 }

// eligible returns the eligible leader replicas, sorted: while the in-sync set is smaller than min.insync.replicas the high
// watermark stands still, so that who leaves the set still has everything below it.
func (c *partitionChange) eligible() []kafka.NodeID {
	if !c.keepsELR() {
		return c.old.ELR // in use until the next change, if nobody else is left
	}
	if len(c.isr) >= min(c.im.minISR(c.topic.Name, c.env), len(c.replicas)) {
		return nil
	}
	candidates := slices.Concat(c.old.ELR, c.old.ISR)
	elr := without(within(candidates, c.replicas), append([]kafka.NodeID{c.lost}, c.isr...)...)
	slices.Sort(elr)
	return slices.Compact(elr)
}

// noteLastLeader keeps the leader that a partition had last, for when nobody is eligible any more, and forgets it when there is one
// again.
func (c *partitionChange) noteLastLeader(r *sysrecord.PartitionChangeRecord) {
	switch {
	case r.Leader == kafka.NoNode && len(c.old.LastELR) == 0:
		r.LastKnownELR = []kafka.NodeID{c.old.Leader}
	case r.Leader >= 0 && len(c.old.LastELR) > 0:
		r.LastKnownELR = []kafka.NodeID{}
	}
}

// elect returns the leader, and whether it has everything that was acknowledged.
func (c *partitionChange) elect(isr, elr []kafka.NodeID) (leader kafka.NodeID, clean bool) {
	complete := func(id kafka.NodeID) bool {
		return (slices.Contains(isr, id) || len(isr) == 0 && slices.Contains(elr, id)) && c.fit(id)
	}
	candidates := append([]kafka.NodeID{c.old.Leader}, c.replicas...)
	if c.election == preferredElection {
		candidates = append(slices.Clone(c.replicas[:1]), candidates...)
	}
	if i := slices.IndexFunc(candidates, complete); i >= 0 {
		return candidates[i], true
	}
	// KIP-966: when all that were eligible have lost something, the last leader is as good as any.
	if last := c.old.LastELR; c.keepsELR() && len(isr)+len(elr) == 0 && len(last) == 1 && slices.Contains(c.replicas, last[0]) && c.fit(last[0]) {
		return last[0], false
	}
	if c.mayBeUnclean() {
		if i := slices.IndexFunc(c.replicas, c.fit); i >= 0 {
			return c.replicas[i], false
		}
	}
	return kafka.NoNode, true
}

// mayBeUnclean tells whether somebody may lead who lacks something.
func (c *partitionChange) mayBeUnclean() bool {
	return c.election == uncleanElection || c.election == topicElection && c.im.uncleanAllowed(c.topic.Name, c.env)
}

// fit tells whether a replica's broker and log directory are there to lead.
func (c *partitionChange) fit(id kafka.NodeID) bool {
	return id != c.lost && c.canLead(id, c.dirOf(id))
}

// endReassignment ends a reassignment whose target can do without those that leave: all that come are in sync, somebody stays, and
// where there are to be fewer replicas all of the target are in sync.
func (c *partitionChange) endReassignment() {
	if len(c.adding)+len(c.removing) == 0 {
		return
	}
	replicas, isr := without(c.replicas, c.removing...), without(c.isr, c.removing...)
	missing := without(c.adding, isr...)
	if len(c.adding) < len(c.removing) {
		missing = without(replicas, isr...)
	}
	if len(isr) > 0 && len(missing) == 0 {
		c.replicas, c.isr, c.adding, c.removing = replicas, isr, nil, nil
	}
}

// dirOf returns the log directory of a replica: of a new one what is known of its broker.
func (c *partitionChange) dirOf(id kafka.NodeID) kafka.UUID {
	if id == c.moved {
		return c.movedTo
	}
	if at := slices.Index(c.old.Replicas, id); at >= 0 {
		return c.old.Dirs[at]
	}
	return c.im.soleDir(id)
}

func (c *partitionChange) dirs() []kafka.UUID {
	dirs := make([]kafka.UUID, len(c.replicas))
	for i, id := range c.replicas {
		dirs[i] = c.dirOf(id)
	}
	return dirs
}

// changes are those of a decision about many partitions, of which one may be named again: it is as it is by then.
type changes struct {
	*elections
	entries []Entry
	changed map[partitionID]*Partition
}

type partitionID struct {
	topic  kafka.TopicID
	number int32
}

func changesOf(im *Image, env *Env) *changes {
	return &changes{elections: electionsOf(im, env), changed: map[partitionID]*Partition{}}
}

// partition returns a topic's partition as the changes so far leave it, nil if there is none.
func (c *changes) partition(t *Topic, number int32) *Partition {
	if t == nil || number < 0 || int(number) >= len(t.Partitions) {
		return nil
	}
	if p, changed := c.changed[partitionID{t.ID, number}]; changed {
		return p
	}
	return &t.Partitions[number]
}

// take adds what was decided of one partition.
func (c *changes) take(entries []Entry) {
	for _, e := range entries {
		r := e.Record.(*sysrecord.PartitionChangeRecord)
		t, _ := c.im.TopicByID(r.TopicID)
		next := *c.partition(t, r.PartitionID)
		next.change(r)
		c.changed[partitionID{r.TopicID, r.PartitionID}] = &next
	}
	c.entries = append(c.entries, entries...)
}

func recoveryState(recovering bool) int8 {
	if recovering {
		return Recovering
	}
	return Recovered
}

// after returns the image with entries applied, for a decision that has more than one step. Its offset stays.
func (im *Image) after(entries []Entry) *Image {
	if len(entries) == 0 {
		return im
	}
	u := im.Update()
	for _, e := range entries {
		err := u.Apply(e)
		invariant.Check(err == nil, "a decision contradicts the image: %v", err)
	}
	return u.Image(im.offset, im.epoch, im.appendMs)
}

// within returns the ids that are among others.
func within(ids, others []kafka.NodeID) []kafka.NodeID {
	return without(ids, without(ids, others...)...)
}

// without returns the ids that are not among those that go, never nil.
func without(ids []kafka.NodeID, gone ...kafka.NodeID) []kafka.NodeID {
	left := []kafka.NodeID{}
	for _, id := range ids {
		if !slices.Contains(gone, id) {
			left = append(left, id)
		}
	}
	return left
}
