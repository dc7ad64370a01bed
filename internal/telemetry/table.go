package telemetry

import (
	"strconv"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/quota"
	"github.com/raftsman/raftsman/internal/wire"
)

// family is one metric: its name, what it means, and where a scrape finds it.
type family struct {
	name   string
	kind   kind
	labels []string
	help   string
	read   func(s *scene, emit emit)
}

type kind uint8

const (
	gauge kind = iota
	counter
	summary // quantiles, sum and count: emit.summary
)

var kindNames = [...]string{gauge: "gauge", counter: "counter", summary: "summary"}

var (
	perTopic     = []string{"topic"}
	perPartition = []string{"topic", "partition"}
	perGroup     = []string{"consumergroup", "topic", "partition"}
	perDir       = []string{"logdirectory"}
	perRequest   = []string{"request"}
)

// one makes the reading of a metric that has one value.
func one(read func(s *scene) int64) func(*scene, emit) {
	return func(s *scene, e emit) { e.count(read(s)) }
}

// eachDir reads a value of each log directory.
func eachDir(read func(d *dirScene) float64) func(*scene, emit) {
	return func(s *scene, e emit) {
		for i := range s.seen.Dirs {
			e.value(read(&s.seen.Dirs[i]), s.seen.Dirs[i].Path)
		}
	}
}

// eachLocal reads a value of each partition that is open here.
func eachLocal(read func(p *partitionScene) int64) func(*scene, emit) {
	return func(s *scene, e emit) {
		for i := range s.seen.Partitions {
			p := &s.seen.Partitions[i]
			e.count(read(p), p.Topic, digits(p.Partition))
		}
	}
}

// eachPlaced reads a value of each partition of the cluster, as the metadata has it.
func eachPlaced(read func(p *meta.Partition) int64) func(*scene, emit) {
	return func(s *scene, e emit) {
		s.eachPlaced(func(topic string, number int32, p *meta.Partition) { e.count(read(p), topic, digits(number)) })
	}
}

// eachPlaced visits the partitions of the cluster, as many as get series.
func (s *scene) eachPlaced(visit func(topic string, number int32, p *meta.Partition)) {
	left := partitionsMax
	for t := range s.image.Topics() {
		for i := range t.Partitions {
			if left--; left < 0 {
				return
			}
			visit(t.Name, int32(i), &t.Partitions[i])
		}
	}
}

func digits(n int32) string { return strconv.Itoa(int(n)) }

func oneIf(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// table has all metrics but those of every Go program. docs/metrics.md is made from both.
var table = []family{
	// The cluster, by the names of kafka_exporter.
	{"kafka_brokers", gauge, nil, "Brokers of the cluster that are alive.", one((*scene).aliveBrokers)},
	{"kafka_topic_partitions", gauge, perTopic, "Partitions of the topic.", func(s *scene, e emit) {
		left := topicsMax
		for t := range s.image.Topics() {
			if left--; left < 0 {
				return
			}
			e.count(int64(len(t.Partitions)), t.Name)
		}
	}},
	{"kafka_topic_partition_leader", gauge, perPartition, "Node that leads the partition; -1: none.", eachPlaced(func(p *meta.Partition) int64 { return int64(p.Leader) })},
	{"kafka_topic_partition_leader_is_preferred", gauge, perPartition, "1 if the first replica leads.", eachPlaced(func(p *meta.Partition) int64 {
		return oneIf(len(p.Replicas) > 0 && p.Replicas[0] == p.Leader)
	})},
	{"kafka_topic_partition_replicas", gauge, perPartition, "Replicas of the partition.", eachPlaced(func(p *meta.Partition) int64 { return int64(len(p.Replicas)) })},
	{"kafka_topic_partition_in_sync_replica", gauge, perPartition, "Replicas in sync.", eachPlaced(func(p *meta.Partition) int64 { return int64(len(p.ISR)) })},
	{"kafka_topic_partition_under_replicated_partition", gauge, perPartition, "1 if fewer replicas are in sync than there are.", eachPlaced(func(p *meta.Partition) int64 {
		return oneIf(len(p.ISR) < len(p.Replicas))
	})},
	{"kafka_topic_partition_current_offset", gauge, perPartition, "High watermark: where a consumer's end is. Of partitions that this node leads.", func(s *scene, e emit) {
		s.eachPlaced(func(topic string, number int32, _ *meta.Partition) {
			if high, known := s.from.Replicas.HighWatermark(kafka.TopicPartition{Topic: topic, Partition: number}); known {
				e.count(int64(high), topic, digits(number))
			}
		})
	}},
	{"kafka_topic_partition_oldest_offset", gauge, perPartition, "First offset of the partition. Of partitions that are open.", eachLocal(func(p *partitionScene) int64 { return int64(p.Start) })},
	{"kafka_consumergroup_current_offset", gauge, perGroup, "Offset that the group has committed.", func(s *scene, e emit) {
		for _, c := range s.commits {
			e.count(int64(c.offset), c.group, c.topic, digits(c.partition))
		}
	}},
	{"kafka_consumergroup_lag", gauge, perGroup, "Records between the committed offset and the high watermark.", func(s *scene, e emit) {
		for _, c := range s.commits {
			if c.high != kafka.NoOffset {
				e.count(max(int64(c.high-c.offset), 0), c.group, c.topic, digits(c.partition))
			}
		}
	}},

	// The broker, by the names of Kafka's MBeans.
	{"kafka_server_kafkaserver_brokerstate", gauge, nil, "3: it runs.", one(func(*scene) int64 { return 3 })},
	{"kafka_server_replicamanager_partitioncount", gauge, nil, "Partitions on this node.", one((*scene).partitionCount)},
	{"kafka_server_replicamanager_leadercount", gauge, nil, "Partitions that this node leads.", one((*scene).leaderCount)},
	{"kafka_server_replicamanager_offlinereplicacount", gauge, nil, "Partitions on this node that answer KAFKA_STORAGE_ERROR.", one(func(s *scene) int64 { return int64(s.seen.Offline) })},
	{"kafka_server_replicamanager_underreplicatedpartitions", gauge, nil, "Partitions that this node leads with fewer replicas in sync than there are.", one(func(s *scene) int64 { return s.placed.underReplicated })},
	{"kafka_controller_kafkacontroller_activecontrollercount", gauge, nil, "1 on the node that is the active controller.", one(func(s *scene) int64 { return oneIf(s.image.Controller() == s.from.NodeID) })},
	{"kafka_controller_kafkacontroller_activebrokercount", gauge, nil, "Brokers that are alive.", one((*scene).aliveBrokers)},
	{"kafka_controller_kafkacontroller_fencedbrokercount", gauge, nil, "Brokers that are fenced.", one(func(s *scene) int64 { return int64(len(s.image.Brokers())) - s.aliveBrokers() })},
	{"kafka_controller_kafkacontroller_globaltopiccount", gauge, nil, "Topics of the cluster.", one(func(s *scene) int64 { return int64(s.image.TopicCount()) })},
	{"kafka_controller_kafkacontroller_globalpartitioncount", gauge, nil, "Partitions of the cluster.", one(func(s *scene) int64 { return int64(s.image.PartitionCount()) })},
	{"kafka_controller_kafkacontroller_offlinepartitionscount", gauge, nil, "Partitions of the cluster that nobody leads.", one(func(s *scene) int64 { return s.placed.leaderless })},
	{"kafka_server_brokertopicmetrics_bytesin_total", counter, perTopic, "Bytes of batches that were appended to the topic.", func(s *scene, e emit) {
		for topic, n := range s.seen.Topics {
			e.count(n, topic)
		}
	}},
	{"kafka_network_requestmetrics_requests_total", counter, perRequest, "Requests of each API that were read.", func(s *scene, e emit) {
		s.eachKey(func(name string, key int) { e.count(s.from.Server.Metrics().Keys[key].Requests.Value(), name) })
	}},
	{"kafka_network_requestmetrics_totaltimems", summary, perRequest, "Milliseconds from a request's arrival until its answer was written, since the start.", func(s *scene, e emit) {
		s.eachKey(func(name string, key int) { e.summary(&s.from.Server.Metrics().Keys[key].Micros, 1000, name) })
	}},
	{"kafka_server_socket_server_metrics_connection_count", gauge, nil, "Connections that are open.", one(func(s *scene) int64 { return s.from.Server.Metrics().Connections.Value() })},
	{"kafka_coordinator_group_groupmetadatamanager_numgroups", gauge, nil, "Groups that this node coordinates; missing while some are being loaded.", func(s *scene, e emit) {
		if s.groups >= 0 {
			e.count(int64(s.groups))
		}
	}},

	// Logs.
	{"kafka_log_log_size", gauge, perPartition, "Bytes of the partition's segments. Of partitions that are open, as all below by partition.", eachLocal(func(p *partitionScene) int64 { return p.Bytes })},
	{"kafka_log_log_logstartoffset", gauge, perPartition, "First offset.", eachLocal(func(p *partitionScene) int64 { return int64(p.Start) })},
	{"kafka_log_log_logendoffset", gauge, perPartition, "Offset that the next record gets.", eachLocal(func(p *partitionScene) int64 { return int64(p.End) })},
	{"kafka_log_log_numlogsegments", gauge, perPartition, "Segments.", eachLocal(func(p *partitionScene) int64 { return int64(p.Segments) })},
	{"kafka_log_logmanager_offlinelogdirectorycount", gauge, nil, "Log directories that failed.", one(func(s *scene) int64 {
		n := int64(0)
		for _, d := range s.seen.Dirs {
			n += oneIf(d.Offline)
		}
		return n
	})},
	{"raftsman_partitions_asleep", gauge, nil, "Partitions whose log is not open: nobody has needed it since the start, and recovery has not come to it. They have no series of their own but the last high watermark that a checkpoint tells.", one(func(s *scene) int64 { return int64(s.seen.Asleep) })},
	{"raftsman_partitions_left_out", gauge, nil, "Open partitions without series of their own, as there are more than 10,000.", one(func(s *scene) int64 { return int64(s.seen.LeftOut) })},
	{"raftsman_log_dir_online", gauge, perDir, "0 if the log directory failed.", eachDir(func(d *dirScene) float64 { return float64(oneIf(!d.Offline)) })},
	{"raftsman_log_dir_recovered", gauge, perDir, "0 while logs in it are still to be opened after a stop that was not in order: nothing in it is compacted or moved, and a stop is not in order.", eachDir(func(d *dirScene) float64 { return float64(oneIf(d.Recovered)) })},
	{"raftsman_log_dir_cordoned", gauge, perDir, "1 if it takes no new partitions.", eachDir(func(d *dirScene) float64 { return float64(oneIf(d.Cordoned)) })},
	{"raftsman_log_dir_partitions", gauge, perDir, "Partitions in it.", eachDir(func(d *dirScene) float64 { return float64(d.Partitions) })},
	{"raftsman_log_dir_total_bytes", gauge, perDir, "Size of its file system; -1: not known.", eachDir(func(d *dirScene) float64 { return float64(d.Total) })},
	{"raftsman_log_dir_usable_bytes", gauge, perDir, "What is free on its file system; -1: not known.", eachDir(func(d *dirScene) float64 { return float64(d.Usable) })},
	{"raftsman_log_dir_reserve_bytes", gauge, perDir, "What is to stay free (raftsman.log.dir.reserve.bytes).", eachDir(func(d *dirScene) float64 { return float64(d.Room.ReserveBytes) })},
	{"raftsman_log_dir_refuses_produces", gauge, perDir, "1 while only the reserve is left.", eachDir(func(d *dirScene) float64 { return float64(oneIf(d.Room.RefusesProduces)) })},
	{"raftsman_log_dir_refuses_commits", gauge, perDir, "1 while most of the reserve is used.", eachDir(func(d *dirScene) float64 { return float64(oneIf(d.Room.RefusesCommits)) })},
	{"raftsman_log_dir_refused_batches_total", counter, perDir, "Batches that were refused for want of room.", eachDir(func(d *dirScene) float64 { return float64(d.Room.RefusedBatches) })},

	// Compaction.
	{"kafka_log_logcleanermanager_uncleanable_partitions_count", gauge, perDir, "Partitions that are not compacted any more, as their log is damaged; `raftsman topic describe` shows why.", eachDir(func(d *dirScene) float64 { return float64(d.Uncleanable) })},
	{"kafka_log_logcleanermanager_max_dirty_percent", gauge, nil, "Dirty part of the dirtiest log when it was last looked for.", one(func(s *scene) int64 { return s.cleaner().DirtiestRatioPercent.Value() })},
	{"raftsman_cleaner_running", gauge, nil, "Cleanings that run.", one(func(s *scene) int64 { return s.cleaner().Running.Value() })},
	{"raftsman_cleaner_cleanings_total", counter, nil, "Logs that were cleaned.", one(func(s *scene) int64 { return s.cleaner().Cleanings.Value() })},
	{"raftsman_cleaner_failures_total", counter, nil, "Cleanings that ended with an error.", one(func(s *scene) int64 { return s.cleaner().Failed.Value() })},
	{"raftsman_cleaner_read_bytes_total", counter, nil, "Bytes that cleanings read.", one(func(s *scene) int64 { return s.cleaner().ReadBytes.Value() })},
	{"raftsman_cleaner_written_bytes_total", counter, nil, "Bytes that cleanings wrote.", one(func(s *scene) int64 { return s.cleaner().WrittenBytes.Value() })},
	{"raftsman_cleaner_read_records_total", counter, nil, "Records that cleanings read.", one(func(s *scene) int64 { return s.cleaner().ReadRecords.Value() })},
	{"raftsman_cleaner_kept_records_total", counter, nil, "Records that cleanings kept.", one(func(s *scene) int64 { return s.cleaner().KeptRecords.Value() })},
	{"raftsman_cleaner_overdue_seconds", gauge, nil, "By how much a log was beyond max.compaction.lag.ms when it was last looked for.", func(s *scene, e emit) {
		e.value(float64(s.cleaner().LongestOverdueMs.Value()) / 1000)
	}},
	{"raftsman_cleaner_throttled_seconds_total", counter, nil, "How long cleanings waited for log.cleaner.io.max.bytes.per.second.", func(s *scene, e emit) {
		e.value(float64(s.cleaner().ThrottledMs.Value()) / 1000)
	}},
	{"raftsman_cleaner_cleaning_seconds", summary, nil, "How long a cleaning took.", func(s *scene, e emit) { e.summary(&s.cleaner().CleaningMs, 1000) }},

	// Damage.
	{"raftsman_damaged_partitions", gauge, perDir, "Partitions that answer KAFKA_STORAGE_ERROR as they are damaged; `raftsman topic describe` shows where.", eachDir(func(d *dirScene) float64 { return float64(d.Damaged) })},
	{"raftsman_scrub_read_bytes_total", counter, nil, "Bytes that the scrub read.", one(func(s *scene) int64 { return s.from.Replicas.DamageMetrics().ScrubbedBytes.Value() })},
	{"raftsman_scrub_rounds_total", counter, nil, "Rounds of the scrub through all logs.", one(func(s *scene) int64 { return s.from.Replicas.DamageMetrics().ScrubRounds.Value() })},

	// Connections.
	{"raftsman_network_received_bytes_total", counter, nil, "Bytes of requests.", one(func(s *scene) int64 { return s.from.Server.Metrics().BytesIn.Value() })},
	{"raftsman_network_sent_bytes_total", counter, nil, "Bytes of answers.", one(func(s *scene) int64 { return s.from.Server.Metrics().BytesOut.Value() })},
	{"raftsman_network_in_flight_bytes", gauge, nil, "Bytes of requests and answers in memory.", one(func(s *scene) int64 { return s.from.Server.BytesInFlight() })},
	{"raftsman_network_memory_waits_total", counter, nil, "Times that a connection was not read for want of memory (raftsman.requests.memory.bytes.max).", one(func(s *scene) int64 { return s.from.Server.BudgetWaits() })},
	{"raftsman_connections_accepted_total", counter, nil, "Connections that were accepted.", one(func(s *scene) int64 { return s.from.Server.Metrics().ConnectionsAccepted.Value() })},
	{"raftsman_connections_closed_total", counter, []string{"reason"}, "Connections that the broker closed: refused (over max.connections.per.ip), idle (connections.max.idle.ms) or slow (in the middle of a request or an answer).", func(s *scene, e emit) {
		m := s.from.Server.Metrics()
		e.count(m.ConnectionsRefused.Value(), "refused")
		e.count(m.ConnectionsIdle.Value(), "idle")
		e.count(m.ConnectionsSlow.Value(), "slow")
	}},
	{"raftsman_throttled_total", counter, []string{"quota"}, "Requests whose clients were told to wait, and connections that were closed, because of a client quota; connections that waited because of max.connection.creation.rate.", func(s *scene, e emit) {
		for k := range quota.Kind(quota.Kinds) {
			if s.from.Throttled != nil {
				e.count(s.from.Throttled[k].Value(), k.Key())
			}
		}
	}},
	{"raftsman_requests_rejected_total", counter, []string{"reason"}, "Requests that ended their connection: oversized, malformed, unsupported, or panic.", func(s *scene, e emit) {
		m := s.from.Server.Metrics()
		e.count(m.Oversized.Value(), "oversized")
		e.count(m.Malformed.Value(), "malformed")
		e.count(m.Unsupported.Value(), "unsupported")
		e.count(m.Panics.Value(), "panic")
	}},

	// Groups.
	{"raftsman_group_commits_total", counter, nil, "OffsetCommit requests whose records were appended.", one(func(s *scene) int64 { return s.from.Coord.Metrics().Commits.Value() })},
	{"raftsman_group_commit_batches_total", counter, nil, "Batches that they went in.", one(func(s *scene) int64 { return s.from.Coord.Metrics().CommitBatches.Value() })},
	{"raftsman_group_rebalances_total", counter, nil, "Rebalances that began.", one(func(s *scene) int64 { return s.from.Coord.Metrics().Rebalances.Value() })},
	{"raftsman_group_generations_total", counter, nil, "Rebalances that ended well.", one(func(s *scene) int64 { return s.from.Coord.Metrics().Generations.Value() })},
	{"raftsman_group_members_total", counter, []string{"event"}, "Members that joined, left or expired.", func(s *scene, e emit) {
		m := s.from.Coord.Metrics()
		e.count(m.MembersJoined.Value(), "joined")
		e.count(m.MembersLeft.Value(), "left")
		e.count(m.MembersExpired.Value(), "expired")
	}},
	{"raftsman_group_loads_total", counter, nil, "Partitions of __consumer_offsets that were read.", one(func(s *scene) int64 { return s.from.Coord.Metrics().Loads.Value() })},
	{"raftsman_group_load_seconds", summary, nil, "How long reading each took.", func(s *scene, e emit) { e.summary(&s.from.Coord.Metrics().LoadMicros, 1e6) }},
	{"raftsman_group_reloads_total", counter, nil, "Partitions of __consumer_offsets that were given up and read anew.", one(func(s *scene) int64 { return s.from.Coord.Metrics().Reloads.Value() })},
}

// eachKey visits the APIs of which there were requests.
func (s *scene) eachKey(visit func(name string, key int)) {
	keys := &s.from.Server.Metrics().Keys
	for key := range keys {
		if keys[key].Requests.Value() > 0 {
			visit(wire.KeyName(int16(key)), key)
		}
	}
}
