package meta

import (
	"errors"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// ElectionType is what is wanted of an election, by Kafka's numbers.
type ElectionType int8

// The kinds of election.
const (
	PreferredElection ElectionType = 0 // the first replica is to lead
	UncleanElection   ElectionType = 1 // where nobody leads, somebody is to, at the price of records
)

// ElectLeaders wants elections. Topics nil means of all partitions.
type ElectLeaders struct {
	Type   ElectionType
	Topics []TopicPartitions
}

// TopicPartitions names partitions of a topic.
type TopicPartitions struct {
	Topic      string
	Partitions []int32
}

// ElectionResult tells what became of one topic of ElectLeaders; of all partitions, those that need no election are left out.
type ElectionResult struct {
	Topic      string
	Partitions []PartitionResult
}

// PartitionResult tells what became of one partition.
type PartitionResult struct {
	Partition int32
	Err       error
}

// DecideElectLeaders judges each partition by itself. A partition that is named twice is elected once. An error is about the
// whole request.
func DecideElectLeaders(im *Image, cmd ElectLeaders) (entries []Entry, results []ElectionResult, refused error) {
	if cmd.Type != PreferredElection && cmd.Type != UncleanElection {
		return nil, nil, kafka.Refuse(kafka.InvalidRequest, "election type %d is none; 0 elects preferred leaders, 1 uncleanly", cmd.Type)
	}
	all := cmd.Topics == nil
	if all {
		for t := range im.Topics() {
			row := TopicPartitions{Topic: t.Name}
			for i := range t.Partitions {
				row.Partitions = append(row.Partitions, int32(i))
			}
			cmd.Topics = append(cmd.Topics, row)
		}
	}
	elected := map[kafka.TopicPartition]bool{}
	for _, row := range cmd.Topics {
		result := ElectionResult{Topic: row.Topic}
		t, _ := im.Topic(row.Topic)
		for _, n := range row.Partitions {
			p, err := t.partition(n)
			at := kafka.TopicPartition{Topic: row.Topic, Partition: n}
			var change *sysrecord.PartitionChangeRecord
			switch {
			case err != nil:
			case elected[at]:
				err = errElected
			default:
				change, err = p.elect(im, cmd.Type)
			}
			if change != nil {
				if len(entries) == requestRecordsMax {
					return nil, nil, tooManyRecords()
				}
				elected[at] = true
				change.TopicID, change.PartitionID = t.ID, n
				entries = append(entries, Entry{Record: change, Version: im.partitionRecordVersion()})
			}
			if !all || !errors.Is(err, kafka.ElectionNotNeeded) {
				result.Partitions = append(result.Partitions, PartitionResult{n, err})
			}
		}
		results = append(results, result)
	}
	return entries, results, nil
}

// errNoTopic is a *kafka.Refusal. It does not name the topic, which the answer does: names may be long, and be refused for each of many
// partitions.
var errNoTopic error = kafka.Refuse(kafka.UnknownTopicOrPartition, "there is no topic of that name")

// partition returns a partition of a topic, nil for one that is not there.
func (t *Topic) partition(number int32) (*Partition, error) {
	switch {
	case t == nil:
		return nil, errNoTopic
	case number < 0 || int(number) >= len(t.Partitions):
		return nil, kafka.Refuse(kafka.UnknownTopicOrPartition, "the topic has no partition %d", number)
	}
	return &t.Partitions[number], nil
}

// errElected is the answer where the leader stays.
var errElected error = kafka.Refuse(kafka.ElectionNotNeeded, "the partition has the leader that is wanted")

// elect returns the change that gives the partition the leader that is wanted.
func (p *Partition) elect(im *Image, kind ElectionType) (*sysrecord.PartitionChangeRecord, error) {
	preferred := len(p.Replicas) > 0 && p.Leader == p.Replicas[0]
	if kind == PreferredElection && preferred || kind == UncleanElection && p.Leader != kafka.NoNode {
		return nil, errElected
	}
	leader := p.cleanLeader(im, kind)
	change := sysrecord.NewPartitionChangeRecord()
	change.Leader = leader
	switch {
	case leader != kafka.NoNode && leader != p.Leader:
		p.enterISR(leader, change)
		return change, nil
	case kind == PreferredElection:
		return nil, kafka.Refuse(kafka.PreferredLeaderNotAvailable, "the first replica is not in sync, or its broker or log directory is down")
	}
	at := slices.IndexFunc(p.Replicas, func(id kafka.NodeID) bool { return im.ReplicaOnline(p, id) })
	if at < 0 {
		return nil, kafka.Refuse(kafka.EligibleLeadersNotAvailable, "no broker that has a replica is alive")
	}
	change.Leader, change.ISR, change.LeaderRecoveryState = p.Replicas[at], p.Replicas[at:at+1], recovering
	p.forgetELR(change)
	return change, nil
}

// recovering marks a leader that was elected uncleanly.
const recovering = 1

// cleanLeader is who can lead without a loss: the preferred replica, or the one that leads, or the first that can. An election
// that may be unclean has no leader to keep.
func (p *Partition) cleanLeader(im *Image, kind ElectionType) kafka.NodeID {
	candidates := p.Replicas
	if kind == PreferredElection && len(p.Replicas) > 0 {
		candidates = append([]kafka.NodeID{p.Replicas[0], p.Leader}, p.Replicas...)
	}
	for _, id := range candidates {
		if im.ReplicaOnline(p, id) && (slices.Contains(p.ISR, id) || slices.Contains(p.ELR, id)) {
			return id
		}
	}
	return kafka.NoNode
}

// enterISR puts a leader from among the eligible into the in-sync set. What was known of those that were eligible last is of use only
// while nobody leads.
func (p *Partition) enterISR(leader kafka.NodeID, change *sysrecord.PartitionChangeRecord) {
	if !slices.Contains(p.ISR, leader) {
		change.ISR = append(slices.Clone(p.ISR), leader)
		change.EligibleLeaderReplicas = without(p.ELR, leader)
	}
	if len(p.LastELR) > 0 {
		change.LastKnownELR = []kafka.NodeID{}
	}
}

// forgetELR clears the eligible leader replicas, where there are any.
func (p *Partition) forgetELR(change *sysrecord.PartitionChangeRecord) {
	if len(p.ELR) > 0 {
		change.EligibleLeaderReplicas = []kafka.NodeID{}
	}
	if len(p.LastELR) > 0 {
		change.LastKnownELR = []kafka.NodeID{}
	}
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
