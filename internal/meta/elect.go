package meta

import (
	"errors"

	"github.com/raftsman/raftsman/internal/kafka"
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
func DecideElectLeaders(im *Image, cmd ElectLeaders, env Env) (entries []Entry, results []ElectionResult, refused error) {
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
	changes := changesOf(im, &env)
	for _, row := range cmd.Topics {
		result := ElectionResult{Topic: row.Topic}
		t, _ := im.Topic(row.Topic)
		for _, n := range row.Partitions {
			_, err := t.partition(n)
			if err == nil {
				var elected []Entry
				elected, err = changes.changeOf(t, n, changes.partition(t, n)).electAs(cmd.Type)
				changes.take(elected)
			}
			if len(changes.entries) > requestRecordsMax {
				return nil, nil, tooManyRecords()
			}
			if !all || !errors.Is(err, kafka.ElectionNotNeeded) {
				result.Partitions = append(result.Partitions, PartitionResult{n, err})
			}
		}
		results = append(results, result)
	}
	return changes.entries, results, nil
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

// electAs returns the change that gives the partition the leader that is wanted.
func (c *partitionChange) electAs(kind ElectionType) ([]Entry, error) {
	leads := c.old.Leader
	if kind == PreferredElection && c.old.preferredLeads() || kind == UncleanElection && leads != kafka.NoNode {
		return nil, errElected
	}
	c.election = preferredElection
	if kind == UncleanElection {
		c.election = uncleanElection
	}
	entries := c.newLeader()
	switch {
	case len(entries) > 0:
		return entries, nil
	case kind == PreferredElection:
		return nil, kafka.Refuse(kafka.PreferredLeaderNotAvailable, "the first replica is not in sync, or its broker or log directory is down")
	}
	return nil, kafka.Refuse(kafka.EligibleLeadersNotAvailable, "no broker that has a replica is alive")
}

// newLeader returns the change if it brings another leader.
func (c *partitionChange) newLeader() []Entry {
	if r := c.record(); r != nil && r.Leader != leaderUnchanged {
		return []Entry{{Record: r, Version: c.im.partitionRecordVersion()}}
	}
	return nil
}

// preferredLeads tells whether the first replica leads.
func (p *Partition) preferredLeads() bool { return len(p.Replicas) > 0 && p.Leader == p.Replicas[0] }

// electionsMax bounds what one periodic decision changes, as in Kafka.
const electionsMax = 1000

// DecideBalance gives partitions that another leads back to their first replica, where that is in sync (auto.leader.rebalance.enable):
// due every leader.imbalance.check.interval.seconds. more tells that it is to be asked again at once.
func DecideBalance(im *Image, env Env) (entries []Entry, more bool) {
	return electWhere(im, env, func(c *partitionChange) []Entry {
		if c.old.preferredLeads() {
			return nil
		}
		c.election = preferredElection
		return c.newLeader()
	})
}

// DecideElections finds leaders for partitions that have none: one that has everything, or where the topic allows it
// (unclean.leader.election.enable) anyone: due every unclean.leader.election.interval.ms, as a setting may have changed. more tells
// that it is to be asked again at once.
func DecideElections(im *Image, env Env) (entries []Entry, more bool) {
	return electWhere(im, env, func(c *partitionChange) []Entry {
		if c.old.Leader != kafka.NoNode {
			return nil
		}
		return c.newLeader()
	})
}

func electWhere(im *Image, env Env, elect func(*partitionChange) []Entry) (entries []Entry, more bool) {
	with := electionsOf(im, &env)
	for t := range im.Topics() {
		for i := range t.Partitions {
			if len(entries) >= electionsMax {
				return entries, true
			}
			if p := &t.Partitions[i]; p.Leader == kafka.NoNode || !p.preferredLeads() {
				entries = append(entries, elect(with.change(t, int32(i)))...)
			}
		}
	}
	return entries, false
}
