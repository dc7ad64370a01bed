package meta

import (
	"slices"
	"strings"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// DecideCreateTopics judges each topic by itself. There is one result for each distinct name, in the order of the request.
// With ValidateOnly there are results but no entries.
func DecideCreateTopics(im *Image, cmd CreateTopics, env Env) ([]Entry, []TopicResult) {
	topics, results := distinctTopics(cmd.Topics)
	if total := partitionTotal(topics, env); total > requestPartitionsMax {
		return nil, refuseAll(results, tooMany("partitions"))
	}
	var entries []Entry
	for i := range topics {
		if results[i].Err != nil {
			continue
		}
		created, err := createTopic(im, topics[i], env, cmd.Charge, &results[i])
		if err != nil {
			results[i] = TopicResult{Name: topics[i].Name, Err: err}
			continue
		}
		entries = append(entries, created...)
		if len(entries) > requestRecordsMax {
			return nil, refuseAll(results, tooManyRecords())
		}
	}
	if cmd.ValidateOnly {
		return nil, results
	}
	return entries, results
}

// distinctTopics drops repetitions; a repeated name is refused once.
func distinctTopics(topics []NewTopic) ([]NewTopic, []TopicResult) {
	at := map[string]int{}
	var distinct []NewTopic
	var results []TopicResult
	for _, t := range topics {
		if i, repeated := at[t.Name]; repeated {
			results[i].Err = kafka.Refuse(kafka.InvalidRequest, "the topic is named more than once")
			continue
		}
		at[t.Name] = len(distinct)
		distinct = append(distinct, t)
		results = append(results, TopicResult{Name: t.Name})
	}
	return distinct, results
}

func refuseAll(results []TopicResult, err error) []TopicResult {
	for i := range results {
		results[i] = TopicResult{Name: results[i].Name, Err: err}
	}
	return results
}

func partitionTotal(topics []NewTopic, env Env) int64 {
	total := int64(0)
	for _, t := range topics {
		switch {
		case len(t.Assignments) > 0:
			total += int64(len(t.Assignments))
		case t.Partitions == -1:
			total += int64(env.Partitions)
		case t.Partitions > 0:
			total += int64(t.Partitions)
		}
	}
	return total
}

func createTopic(im *Image, t NewTopic, env Env, charge Charge, result *TopicResult) ([]Entry, error) {
	if err := checkNewName(im, t.Name); err != nil {
		return nil, err
	}
	configs, err := newTopicConfigs(t, env)
	if err != nil {
		return nil, err
	}
	rows, err := newTopicAssignment(im, t, env)
	if err != nil {
		return nil, err
	}
	if err := charge.ask(len(rows)); err != nil {
		return nil, err
	}
	id := env.NewID()
	for _, taken := im.TopicByID(id); taken; _, taken = im.TopicByID(id) {
		id = env.NewID()
	}
	result.ID, result.Partitions, result.ReplicationFactor = id, int32(len(rows)), int16(len(rows[0]))
	result.Configs = map[string]string{}
	entries := []Entry{{Record: &sysrecord.TopicRecord{Name: t.Name, TopicID: id}}}
	for _, c := range configs {
		result.Configs[c.Name] = *c.Value
		entries = append(entries, setConfig(Resource{TopicResource, t.Name}, c.Name, c.Value))
	}
	for number, replicas := range rows {
		entries = append(entries, newPartition(im, id, int32(number), replicas))
	}
	return entries, nil
}

func checkNewName(im *Image, name string) error {
	if name == ClusterMetadataTopic {
		return kafka.Refuse(kafka.InvalidRequest, "Creation of internal topic %s is prohibited. It is the metadata log", name)
	}
	if err := CheckTopicName(name); err != nil {
		return err
	}
	if _, exists := im.Topic(name); exists {
		return kafka.Refuse(kafka.TopicAlreadyExists, "Topic '%s' already exists.", name)
	}
	if other, collides := im.collidingTopic(name); collides {
		return kafka.Refuse(kafka.InvalidTopicException, "Topic '%s' collides with existing topic: %s. In names, '.' and '_' count as equal", name, other)
	}
	return nil
}

// newTopicConfigs returns the topic's settings, sorted by name; of a repeated name the last one counts.
func newTopicConfigs(t NewTopic, env Env) ([]ConfigValue, error) {
	values := map[string]string{}
	var configs []ConfigValue
	for _, c := range t.Configs {
		if c.Value == nil {
			return nil, kafka.Refuse(kafka.InvalidConfig, "Null value not supported for topic configs: %s", c.Name)
		}
		if err := checkValueLength(*c.Value); err != nil {
			return nil, err
		}
		configs = slices.DeleteFunc(configs, func(old ConfigValue) bool { return old.Name == c.Name })
		configs = append(configs, c)
		values[c.Name] = *c.Value
	}
	if len(configs) == 0 {
		return nil, nil
	}
	names := make([]string, len(configs))
	slices.SortFunc(configs, func(a, b ConfigValue) int { return strings.Compare(a.Name, b.Name) })
	for i, c := range configs {
		names[i] = c.Name
	}
	return configs, env.Configs.Validate(Resource{TopicResource, t.Name}, names, values)
}

func newTopicAssignment(im *Image, t NewTopic, env Env) ([][]kafka.NodeID, error) {
	if len(t.Assignments) > 0 {
		return manualAssignment(im, t)
	}
	switch {
	case t.ReplicationFactor < -1 || t.ReplicationFactor == 0:
		return nil, kafka.Refuse(kafka.InvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value.")
	case t.Partitions < -1 || t.Partitions == 0:
		return nil, kafka.Refuse(kafka.InvalidPartitions, "Number of partitions was set to an invalid non-positive value. It is 1 or more, or -1 for the default")
	}
	partitions, factor := t.Partitions, t.ReplicationFactor
	if partitions == -1 {
		partitions = env.Partitions
	}
	if factor == -1 {
		factor = env.ReplicationFactor
	}
	return place(im, int(partitions), int(factor), env.Random)
}

func manualAssignment(im *Image, t NewTopic) ([][]kafka.NodeID, error) {
	switch {
	case t.ReplicationFactor != -1:
		return nil, kafka.Refuse(kafka.InvalidRequest, "with an assignment of replicas the replication factor must be -1")
	case t.Partitions != -1:
		return nil, kafka.Refuse(kafka.InvalidRequest, "with an assignment of replicas the partition count must be -1")
	}
	rows := make([][]kafka.NodeID, len(t.Assignments))
	for number := range rows {
		replicas, given := t.Assignments[int32(number)]
		if !given {
			return nil, kafka.Refuse(kafka.InvalidReplicaAssignment, "the assignment must number the partitions from 0 without a gap")
		}
		rows[number] = replicas
	}
	for number, replicas := range rows {
		if err := checkManualReplicas(im, int32(number), replicas, len(rows[0])); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// checkManualReplicas judges the replicas that a client wants for one partition; the topic's partitions have factor each.
func checkManualReplicas(im *Image, number int32, replicas []kafka.NodeID, factor int) error {
	refuse := func(format string, args ...any) error {
		return kafka.Refuse(kafka.InvalidReplicaAssignment, format, args...)
	}
	if len(replicas) == 0 {
		return refuse("the assignment leaves partition %d without replicas", number)
	}
	sorted := slices.Sorted(slices.Values(replicas))
	for i, id := range sorted {
		switch b, registered := im.Broker(id); {
		case !registered:
			return refuse("the assignment of partition %d names broker %d, which is not registered", number, id)
		case b.allCordoned():
			return refuse("the assignment of partition %d names broker %d, of which all log directories are cordoned", number, id)
		case i > 0 && id == sorted[i-1]:
			return refuse("the assignment of partition %d names broker %d more than once", number, id)
		}
	}
	switch {
	case len(replicas) != factor:
		return refuse("the assignment gives partition %d %d replicas, where the other partitions have %d", number, len(replicas), factor)
	case len(inSync(im, replicas)) == 0:
		return refuse("no broker that the assignment names for partition %d is alive", number)
	}
	return nil
}

// newPartition is the record of a new partition: the replicas that are alive are in sync and the first of them leads.
func newPartition(im *Image, topic kafka.TopicID, number int32, replicas []kafka.NodeID) Entry {
	r := sysrecord.NewPartitionRecord()
	r.PartitionID, r.TopicID, r.Replicas = number, topic, replicas
	r.ISR = inSync(im, replicas)
	r.Leader, r.LeaderEpoch, r.PartitionEpoch = r.ISR[0], 0, 0
	for _, id := range replicas {
		r.Directories = append(r.Directories, im.soleDir(id))
	}
	return Entry{Record: r, Version: im.partitionRecordVersion()}
}

func inSync(im *Image, replicas []kafka.NodeID) []kafka.NodeID {
	var alive []kafka.NodeID
	for _, id := range replicas {
		if b, ok := im.Broker(id); ok && b.inService() {
			alive = append(alive, id)
		}
	}
	return alive
}

// soleDir is the broker's log directory if it has one only: with several, the broker itself chooses.
func (im *Image) soleDir(id kafka.NodeID) kafka.UUID {
	if b, ok := im.Broker(id); ok && len(b.LogDirs) == 1 {
		return b.LogDirs[0]
	}
	return unassignedDir
}
