package meta

import (
	"iter"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// Reassign says on which brokers partitions are to be.
type Reassign struct {
	Partitions   []Reassignment
	FixedFactors bool // refuse what changes the number of a partition's replicas
}

// Reassignment is where a partition is to be, in order of preference.
type Reassignment struct {
	Topic     string
	Partition int32
	Replicas  []kafka.NodeID
	Cancel    bool // instead: end what is under way, and be where it was before
}

// DecideReassign judges each partition by itself. A reassignment whose new replicas are all in sync is complete at once; another one
// stands in the partition's record until they are. There is one result, nil or why not, for each partition, in the order of the command.
func DecideReassign(im *Image, cmd Reassign) (entries []Entry, results []error) {
	results = make([]error, len(cmd.Partitions))
	changed := map[kafka.TopicPartition]*Partition{} // one that is named again is as it is by then
	for i, r := range cmd.Partitions {
		t, _ := im.Topic(r.Topic)
		p, err := t.partition(r.Partition)
		at := kafka.TopicPartition{Topic: r.Topic, Partition: r.Partition}
		if again, ok := changed[at]; ok {
			p = again
		}
		var change *sysrecord.PartitionChangeRecord
		if err == nil {
			change, err = p.reassign(im, r, cmd.FixedFactors)
		}
		results[i] = err
		if change == nil {
			continue
		}
		if len(entries) == requestRecordsMax {
			for i := range results {
				results[i] = tooManyRecords()
			}
			return nil, results
		}
		change.TopicID, change.PartitionID = t.ID, r.Partition
		entries = append(entries, Entry{Record: change, Version: im.partitionRecordVersion()})
		next := *p
		next.change(change)
		changed[at] = &next
	}
	return entries, results
}

func (p *Partition) reassign(im *Image, r Reassignment, fixed bool) (*sysrecord.PartitionChangeRecord, error) {
	if r.Cancel {
		return p.cancelReassignment(im, r)
	}
	if err := checkTarget(im, r.Replicas); err != nil {
		return nil, err
	}
	if have := len(p.Replicas) - len(p.Adding); fixed && len(r.Replicas) != have {
		return nil, kafka.Refuse(kafka.InvalidReplicationFactor, "the replication factor would change from %d to %d", have, len(r.Replicas))
	}
	settled := without(p.Replicas, p.Adding...) // those that are on their way of old have no part in it
	moved := p.moved(r.Replicas, without(r.Replicas, settled...), without(settled, r.Replicas...))
	return p.become(im, moved), nil
}

// checkTarget judges the brokers that a partition is to be on.
func checkTarget(im *Image, replicas []kafka.NodeID) error {
	if len(replicas) == 0 {
		return kafka.Refuse(kafka.InvalidReplicaAssignment, "the assignment has no replicas; null cancels a reassignment")
	}
	for i, id := range replicas {
		if _, registered := im.Broker(id); !registered {
			return kafka.Refuse(kafka.InvalidReplicaAssignment, "the assignment names broker %d, which is not registered", id)
		}
		if slices.Contains(replicas[:i], id) {
			return kafka.Refuse(kafka.InvalidReplicaAssignment, "the assignment names broker %d more than once", id)
		}
	}
	return nil
}

// moved returns the partition on its way to target: done, if those that come are in sync and somebody in sync stays.
func (p *Partition) moved(target, adding, removing []kafka.NodeID) Partition {
	next := *p
	staying := within(p.ISR, target)
	come := len(without(adding, staying...)) == 0
	if come && len(staying) > 0 {
		next.Replicas, next.ISR, next.Adding, next.Removing = target, staying, nil, nil
		return next
	}
	next.Adding, next.Removing = slices.Sorted(slices.Values(adding)), slices.Sorted(slices.Values(removing))
	next.Replicas = append(slices.Clone(target), removing...)
	next.ISR = within(p.ISR, next.Replicas)
	return next
}

// within returns the ids that are among others.
func within(ids, others []kafka.NodeID) []kafka.NodeID {
	return without(ids, without(ids, others...)...)
}

// cancelReassignment brings a partition back to where it was.
func (p *Partition) cancelReassignment(im *Image, r Reassignment) (*sysrecord.PartitionChangeRecord, error) {
	if !p.Reassigning() {
		return nil, kafka.NoReassignmentInProgress
	}
	next := *p
	next.Replicas, next.ISR, next.Adding, next.Removing = without(p.Replicas, p.Adding...), without(p.ISR, p.Adding...), nil, nil
	if len(next.ISR) == 0 {
		return nil, kafka.Refuse(kafka.InvalidReplicaAssignment,
			"%s-%d can't go back: of the replicas that it had none is in sync, so that it would take an unclean election", r.Topic, r.Partition)
	}
	return p.become(im, next), nil
}

// Reassigning tells whether a reassignment is under way.
func (p *Partition) Reassigning() bool { return len(p.Adding)+len(p.Removing) > 0 }

// become returns the change from one state of a partition to another, nil if there is none. A leader that goes is followed by
// another, and when a replica goes the leader gets a new epoch.
func (p *Partition) become(im *Image, next Partition) *sysrecord.PartitionChangeRecord {
	change := sysrecord.NewPartitionChangeRecord()
	changed := false
	put := func(field *[]kafka.NodeID, old, now []kafka.NodeID) {
		if !slices.Equal(old, now) {
			*field, changed = append([]kafka.NodeID{}, now...), true
		}
	}
	put(&change.Replicas, p.Replicas, next.Replicas)
	put(&change.ISR, p.ISR, next.ISR)
	put(&change.AddingReplicas, p.Adding, next.Adding)
	put(&change.RemovingReplicas, p.Removing, next.Removing)
	if !changed {
		return nil
	}
	gone := without(p.Replicas, next.Replicas...)
	if len(gone) > 0 {
		change.Leader = p.Leader
		if len(p.ELR) > 0 {
			change.EligibleLeaderReplicas = without(p.ELR, gone...)
		}
		if len(p.LastELR) > 0 {
			change.LastKnownELR = without(p.LastELR, gone...)
		}
	}
	if p.Leader == kafka.NoNode || !slices.Contains(next.ISR, p.Leader) {
		if leader := bestLeader(im, next.Replicas, next.ISR); leader != p.Leader {
			change.Leader = leader
		}
	}
	if change.Replicas != nil && im.level() >= levelDirectories {
		change.Directories = p.dirsOf(im, next.Replicas)
	}
	return change
}

// dirsOf returns the log directories of replicas, of new ones what is known of their brokers.
func (p *Partition) dirsOf(im *Image, replicas []kafka.NodeID) (dirs []kafka.UUID) {
	for _, id := range replicas {
		if at := slices.Index(p.Replicas, id); at >= 0 {
			dirs = append(dirs, p.Dirs[at])
		} else {
			dirs = append(dirs, im.soleDir(id))
		}
	}
	return dirs
}

// Reassignments yields the partitions of a topic that are on their way, by number.
func (t *Topic) Reassignments() iter.Seq2[int32, *Partition] {
	return func(yield func(int32, *Partition) bool) {
		for i := range t.Partitions {
			if p := &t.Partitions[i]; p.Reassigning() && !yield(int32(i), p) {
				return
			}
		}
	}
}
