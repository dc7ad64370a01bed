package meta

import (
	"iter"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
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
func DecideReassign(im *Image, cmd Reassign, env Env) (entries []Entry, results []error) {
	results = make([]error, len(cmd.Partitions))
	changes := changesOf(im, &env)
	for i, r := range cmd.Partitions {
		t, _ := im.Topic(r.Topic)
		if _, results[i] = t.partition(r.Partition); results[i] != nil {
			continue
		}
		change := changes.changeOf(t, r.Partition, changes.partition(t, r.Partition))
		if results[i] = change.wantReplicas(r, cmd.FixedFactors); results[i] == nil {
			changes.take(change.entries())
		}
		if len(changes.entries) > requestRecordsMax {
			for i := range results {
				results[i] = tooManyRecords()
			}
			return nil, results
		}
	}
	return changes.entries, results
}

// wantReplicas begins, changes or cancels a reassignment.
func (c *partitionChange) wantReplicas(r Reassignment, fixed bool) error {
	if r.Cancel {
		return c.cancelReassignment(r)
	}
	if err := checkReplicas(c.im, r.Replicas); err != nil {
		return err
	}
	if have := len(without(c.old.Replicas, c.old.Removing...)); fixed && len(r.Replicas) != have {
		return kafka.Refuse(kafka.InvalidReplicationFactor, "the replication factor would change from %d to %d", have, len(r.Replicas))
	}
	c.moveTo(r.Replicas)
	return nil
}

// moveTo sends the partition on its way to target. Replicas that are on their way of old and have no part in it are dropped, unless
// nobody else has everything.
func (c *partitionChange) moveTo(target []kafka.NodeID) {
	p := c.old
	c.election = cleanElection
	dropped := without(p.Adding, target...)
	if len(without(slices.Concat(p.ISR, p.ELR), dropped...)) == 0 {
		dropped = nil
	}
	had := without(p.Replicas, dropped...)
	settled := without(had, within(p.Adding, target)...)
	c.adding = slices.Sorted(slices.Values(without(target, settled...)))
	c.removing = slices.Sorted(slices.Values(without(had, target...)))
	c.replicas = slices.Concat(target, c.removing)
	c.isr = within(p.ISR, c.replicas)
}

// checkReplicas judges the brokers that a partition is to be on.
func checkReplicas(im *Image, replicas []kafka.NodeID) error {
	refuse := func(format string, args ...any) error {
		return kafka.Refuse(kafka.InvalidReplicaAssignment, format, args...)
	}
	if len(replicas) == 0 {
		return refuse("the assignment has no replicas; null cancels a reassignment")
	}
	for i, id := range replicas {
		switch b, registered := im.Broker(id); {
		case !registered:
			return refuse("the assignment names broker %d, which is not registered", id)
		case b.allCordoned():
			return refuse("the assignment names broker %d, of which all log directories are cordoned", id)
		case slices.Contains(replicas[:i], id):
			return refuse("the assignment names broker %d more than once", id)
		}
	}
	return nil
}

// cancelReassignment brings the partition back to where it was.
func (c *partitionChange) cancelReassignment(r Reassignment) error {
	p := c.old
	if !p.Reassigning() {
		return kafka.NoReassignmentInProgress
	}
	c.replicas, c.isr, c.adding, c.removing = without(p.Replicas, p.Adding...), without(p.ISR, p.Adding...), nil, nil
	complete := len(c.isr)+len(within(p.ELR, c.replicas)) > 0
	if !complete && (!c.mayBeUnclean() || !slices.ContainsFunc(c.replicas, c.fit)) {
		return kafka.Refuse(kafka.InvalidReplicaAssignment,
			"%s-%d can't go back: of the replicas that it had none is in sync, so that it would take an unclean election", r.Topic, r.Partition)
	}
	return nil
}

// Reassigning tells whether a reassignment is under way.
func (p *Partition) Reassigning() bool { return len(p.Adding)+len(p.Removing) > 0 }

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
