package telemetry

import (
	"net"
	"strconv"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/metric"
	"github.com/raftsman/raftsman/internal/quota"
	"github.com/raftsman/raftsman/internal/replica"
	"github.com/raftsman/raftsman/internal/server"
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
	perTopic      = []string{"topic"}
	perPartition  = []string{"topic", "partition"}
	perGroup      = []string{"consumergroup", "topic", "partition"}
	perGroupTopic = []string{"consumergroup", "topic"}
	perDir        = []string{"logdirectory"}
	perRequest    = []string{"request"}
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
func eachLocal(read func(p *open) int64) func(*scene, emit) {
	return func(s *scene, e emit) {
		for i := range s.open {
			e.labelled(float64(read(&s.open[i])), s.open[i].labels)
		}
	}
}

// eachPlaced reads a value of each partition of the cluster, as the metadata has it.
func eachPlaced(read func(p *meta.Partition) int64) func(*scene, emit) {
	return func(s *scene, e emit) {
		for i := range s.places {
			e.labelled(float64(read(s.places[i].has)), s.places[i].labels)
		}
	}
}

// total reads what all topics have counted, without a label, and what each has, as Kafka shows them. Deleted topics count on in the sum.
func total(read func(t *replica.TrafficNow) int64) func(*scene, emit) {
	return func(s *scene, e emit) {
		e.all(read(&s.seen.All))
		for i := range s.seen.Topics {
			e.count(read(&s.seen.Topics[i].TrafficNow), s.seen.Topics[i].Name)
		}
	}
}

// eachCommit reads a value of each committed offset, where there is one.
func eachCommit(read func(c *commit) (v float64, known bool)) func(*scene, emit) {
	return func(s *scene, e emit) {
		for i := range s.groups.commits {
			c := &s.groups.commits[i]
			if v, known := read(c); known {
				e.labelled(v, c.labels)
			}
		}
	}
}

// ofCommits adds a value of several commits up, or finds the largest.
func ofCommits(of []commit, read func(c *commit) (v float64, known bool), fold func(a, b float64) float64) (folded float64, known bool) {
	for i := range of {
		if v, is := read(&of[i]); is && known {
			folded = fold(folded, v)
		} else if is {
			folded, known = v, true
		}
	}
	return folded, known
}

func plus(a, b float64) float64 { return a + b }

func larger(a, b float64) float64 { return max(a, b) }

// sumByTopic adds a value of the commits of each group in each topic up.
func sumByTopic(read func(c *commit) (v float64, known bool)) func(*scene, emit) {
	return func(s *scene, e emit) {
		s.groups.eachTopic(func(of []commit) {
			if v, known := ofCommits(of, read, plus); known {
				e.value(v, of[0].group, of[0].topic)
			}
		})
	}
}

// largestOfGroup finds the largest value of the commits of each group.
func largestOfGroup(read func(c *commit) (v float64, known bool)) func(*scene, emit) {
	return func(s *scene, e emit) {
		s.groups.eachGroup(func(of []commit) {
			if v, known := ofCommits(of, read, larger); known {
				e.value(v, of[0].group)
			}
		})
	}
}

func offsetOf(c *commit) (float64, bool) { return float64(c.offset), true }

func lagOf(c *commit) (float64, bool) {
	lag, known := c.lag()
	return float64(lag), known
}

func secondsOf(c *commit) (float64, bool) { return c.seconds, c.seconds >= 0 }

// eachGroup reads a value of each group that has series.
func eachGroup(read func(g *group.Listed, e emit)) func(*scene, emit) {
	return func(s *scene, e emit) {
		for i := range s.groups.listed[:min(len(s.groups.listed), groupsMax)] {
			read(&s.groups.listed[i], e)
		}
	}
}

// groupsIn counts the groups in a state; there is no value while some are being loaded.
func groupsIn(state group.State) func(*scene, emit) {
	return func(s *scene, e emit) {
		if s.groups.known {
			e.count(s.groups.inState(state))
		}
	}
}

// table has all metrics but those of every Go program. docs/metrics.md is made from both.
var table = []family{
	// The cluster, by the names of kafka_exporter.
	{"kafka_brokers", gauge, nil, "Brokers of the cluster that are alive.", one((*scene).aliveBrokers)},
	{"kafka_broker_info", gauge, []string{"id", "address"}, "1 for each broker that is registered, with its id and the address of its first listener.", func(s *scene, e emit) {
		for _, b := range s.image.Brokers() {
			if len(b.Endpoints) > 0 {
				e.count(1, strconv.Itoa(int(b.ID)), net.JoinHostPort(b.Endpoints[0].Host, strconv.Itoa(int(b.Endpoints[0].Port))))
			}
		}
	}},
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
	{"kafka_topic_partition_leader_is_preferred", gauge, perPartition, "1 if the first replica leads.", eachPlaced(func(p *meta.Partition) int64 { return oneIf(preferred(p)) })},
	{"kafka_topic_partition_replicas", gauge, perPartition, "Replicas of the partition.", eachPlaced(func(p *meta.Partition) int64 { return int64(len(p.Replicas)) })},
	{"kafka_topic_partition_in_sync_replica", gauge, perPartition, "Replicas in sync.", eachPlaced(func(p *meta.Partition) int64 { return int64(len(p.ISR)) })},
	{"kafka_topic_partition_under_replicated_partition", gauge, perPartition, "1 if fewer replicas are in sync than there are.", eachPlaced(func(p *meta.Partition) int64 {
		return oneIf(len(p.ISR) < len(p.Replicas))
	})},
	{"kafka_topic_partition_current_offset", gauge, perPartition, "High watermark: where a consumer's end is. Of partitions that this node leads.", func(s *scene, e emit) {
		for i := range s.places {
			if s.places[i].high != kafka.NoOffset {
				e.labelled(float64(s.places[i].high), s.places[i].labels)
			}
		}
	}},
	{"kafka_topic_partition_oldest_offset", gauge, perPartition, "First offset of the partition. Of partitions that are open.", eachLocal(func(p *open) int64 { return int64(p.Start) })},
	{"kafka_consumergroup_current_offset", gauge, perGroup, "Offset that the group has committed.", eachCommit(offsetOf)},
	{"kafka_consumergroup_current_offset_sum", gauge, perGroupTopic, "Sum of the offsets that the group has committed in the topic.", sumByTopic(offsetOf)},
	{"kafka_consumergroup_lag", gauge, perGroup, "Records between the committed offset and the high watermark.", eachCommit(lagOf)},
	{"kafka_consumergroup_lag_sum", gauge, perGroupTopic, "Sum of these over the topic.", sumByTopic(lagOf)},
	{"kafka_consumergroup_members", gauge, []string{"consumergroup"}, "Members of the group.", eachGroup(func(g *group.Listed, e emit) { e.count(int64(g.Members), g.Group) })},
	{"kafka_consumergroup_group_lag_seconds", gauge, []string{"group", "topic", "partition"}, "How old the first record is that the group has not read, by its timestamp; 0 when it has read all. Where the records before the committed offset and after it are in one batch, it is between the batch's times. Missing for partitions that sleep, and for records without a timestamp.", func(s *scene, e emit) {
		for i := range s.groups.commits {
			if c := &s.groups.commits[i]; c.seconds >= 0 {
				e.value(c.seconds, c.group, c.topic, s.digits(c.partition))
			}
		}
	}},
	{"kafka_consumergroup_group_max_lag_seconds", gauge, []string{"group"}, "The largest of these of the group.", largestOfGroup(secondsOf)},
	{"kafka_consumergroup_group_max_lag", gauge, []string{"group"}, "Records by which the group lags behind in the partition where they are most.", largestOfGroup(lagOf)},
	{"raftsman_group_state", gauge, []string{"consumergroup", "type", "state"}, "1 for each group, with its type (classic, consumer, share or streams) and its state as Kafka's tools call it.", eachGroup(func(g *group.Listed, e emit) {
		e.count(1, g.Group, g.Type.String(), g.State.String())
	})},

	// The broker, by the names of Kafka's MBeans.
	{"kafka_server_kafkaserver_brokerstate", gauge, nil, "3: it runs.", one(func(*scene) int64 { return 3 })},
	{"kafka_server_replicamanager_partitioncount", gauge, nil, "Partitions on this node.", one((*scene).partitionCount)},
	{"kafka_server_replicamanager_leadercount", gauge, nil, "Partitions that this node leads.", one((*scene).leaderCount)},
	{"kafka_server_replicamanager_offlinereplicacount", gauge, nil, "Partitions on this node that answer KAFKA_STORAGE_ERROR.", one(func(s *scene) int64 { return int64(s.seen.Offline) })},
	{"kafka_server_replicamanager_underreplicatedpartitions", gauge, nil, "Partitions that this node leads with fewer replicas in sync than there are.", one(func(s *scene) int64 { return s.placed.underReplicated })},
	{"kafka_server_replicamanager_underminisrpartitioncount", gauge, nil, "Open partitions that this node leads with too few replicas in sync for acks=all.", one(func(s *scene) int64 { return s.countInSync(func(spare int) bool { return spare < 0 }) })},
	{"kafka_server_replicamanager_atminisrpartitioncount", gauge, nil, "Open partitions that this node leads with just as many replicas in sync as acks=all needs: with one replica these are all.", one(func(s *scene) int64 { return s.countInSync(func(spare int) bool { return spare == 0 }) })},
	{"kafka_cluster_partition_underminisr", gauge, perPartition, "1 if too few replicas are in sync for acks=all. Of partitions that are open, as the next one.", eachLocal(func(p *open) int64 { return oneIf(p.spare < 0) })},
	{"kafka_cluster_partition_atminisr", gauge, perPartition, "1 if just as many are in sync as acks=all needs.", eachLocal(func(p *open) int64 { return oneIf(p.spare == 0) })},
	{"kafka_controller_kafkacontroller_activecontrollercount", gauge, nil, "1 on the node that is the active controller.", one(func(s *scene) int64 { return oneIf(s.image.Controller() == s.from.NodeID) })},
	{"kafka_controller_kafkacontroller_activebrokercount", gauge, nil, "Brokers that are alive.", one((*scene).aliveBrokers)},
	{"kafka_controller_kafkacontroller_fencedbrokercount", gauge, nil, "Brokers that are fenced.", one(func(s *scene) int64 { return int64(len(s.image.Brokers())) - s.aliveBrokers() })},
	{"kafka_controller_kafkacontroller_globaltopiccount", gauge, nil, "Topics of the cluster.", one(func(s *scene) int64 { return int64(s.image.TopicCount()) })},
	{"kafka_controller_kafkacontroller_globalpartitioncount", gauge, nil, "Partitions of the cluster.", one(func(s *scene) int64 { return int64(s.image.PartitionCount()) })},
	{"kafka_controller_kafkacontroller_offlinepartitionscount", gauge, nil, "Partitions of the cluster that nobody leads.", one(func(s *scene) int64 { return s.placed.leaderless })},
	{"kafka_controller_kafkacontroller_preferredreplicaimbalancecount", gauge, nil, "Partitions of the cluster that another than their first replica leads.", one(func(s *scene) int64 { return s.placed.notPreferred })},
	{"kafka_controller_kafkacontroller_lastappliedrecordoffset", gauge, nil, "Offset of the last metadata record that was applied.", one(func(s *scene) int64 { return int64(s.image.Offset()) })},
	{"kafka_server_raft_metrics_current_leader", gauge, nil, "Node that is the active controller.", one(func(s *scene) int64 { return int64(s.image.Controller()) })},
	{"kafka_server_raft_metrics_current_epoch", gauge, nil, "Epoch in which the last metadata record was written.", one(func(s *scene) int64 { return int64(s.image.Epoch()) })},
	{"kafka_server_raft_metrics_high_watermark", gauge, nil, "End of the metadata records that were applied.", one(func(s *scene) int64 { return int64(s.image.Offset()) + 1 })},

	// Traffic. A topic that nobody has written to or read from since the start has no series.
	{"kafka_server_brokertopicmetrics_messagesin_total", counter, perTopic, "Records that were appended. This one and those below: with a topic for each that something was asked of since the start, without one for all together.", total(func(t *replica.TrafficNow) int64 { return t.MessagesIn })},
	{"kafka_server_brokertopicmetrics_bytesin_total", counter, perTopic, "Bytes of batches that were appended.", total(func(t *replica.TrafficNow) int64 { return t.BytesIn })},
	{"kafka_server_brokertopicmetrics_bytesout_total", counter, perTopic, "Bytes of batches in answers to consumers.", total(func(t *replica.TrafficNow) int64 { return t.BytesOut })},
	{"kafka_server_brokertopicmetrics_bytesrejected_total", counter, perTopic, "Bytes of batches that were larger than max.message.bytes.", total(func(t *replica.TrafficNow) int64 { return t.BytesRejected })},
	{"kafka_server_brokertopicmetrics_totalproducerequests_total", counter, perTopic, "Appends that were asked for: one for each partition of a Produce, as in Kafka.", total(func(t *replica.TrafficNow) int64 { return t.ProduceRequests })},
	{"kafka_server_brokertopicmetrics_totalfetchrequests_total", counter, perTopic, "Reads that were asked for: one for each partition of a Fetch. Kafka counts one that waits twice.", total(func(t *replica.TrafficNow) int64 { return t.FetchRequests })},
	{"kafka_server_brokertopicmetrics_failedproducerequests_total", counter, perTopic, "Appends that failed for another reason than that the client's metadata is old or the batch too large.", total(func(t *replica.TrafficNow) int64 { return t.FailedProduces })},
	{"kafka_server_brokertopicmetrics_failedfetchrequests_total", counter, perTopic, "Reads that the disk or a damaged log failed.", total(func(t *replica.TrafficNow) int64 { return t.FailedFetches })},

	{"kafka_network_requestmetrics_requests_total", counter, perRequest, "Requests of each API that were read. Fetch stands there twice, also as FetchConsumer: no broker follows this one.", func(s *scene, e emit) {
		s.eachKey(func(name string, of *server.KeyMetrics) { e.count(of.Requests.Value(), name) })
	}},
	{"kafka_network_requestmetrics_totaltimems", summary, perRequest, "Milliseconds from a request's arrival until its answer was written, since the start.", func(s *scene, e emit) {
		s.eachKey(func(name string, of *server.KeyMetrics) { e.summary(&of.Micros, 1000, name) })
	}},
	{"kafka_network_requestmetrics_requestqueuetimems", summary, perRequest, "Of these, until it was handled: requests before it on the connection are answered first.", eachPart(func(p *server.PartMetrics) *metric.Histogram { return &p.QueuedMicros })},
	{"kafka_network_requestmetrics_localtimems", summary, perRequest, "Of these, while it was handled.", eachPart(func(p *server.PartMetrics) *metric.Histogram { return &p.LocalMicros })},
	{"kafka_network_requestmetrics_remotetimems", summary, perRequest, "Of these, while it waited: a Produce for the disk, a Fetch for records, a JoinGroup for the other members.", eachPart(func(p *server.PartMetrics) *metric.Histogram { return &p.RemoteMicros })},
	{"kafka_network_requestmetrics_responsequeuetimems", summary, perRequest, "Of these, until the answer could be written.", eachPart(func(p *server.PartMetrics) *metric.Histogram { return &p.AnsweredMicros })},
	{"kafka_network_requestmetrics_responsesendtimems", summary, perRequest, "Of these, while the answer was written.", eachPart(func(p *server.PartMetrics) *metric.Histogram { return &p.SendMicros })},
	{"kafka_server_socket_server_metrics_connection_count", gauge, nil, "Connections that are open.", one((*scene).connections)},
	{"kafka_server_socketservermetrics_connection_count", gauge, nil, "The same, as other dashboards call it.", one((*scene).connections)},
	{"kafka_server_delayedoperationpurgatory_purgatorysize", gauge, []string{"delayedOperation"}, "What waits: Produce for the disk, Fetch for records, DeleteRecords for followers, one for each partition of a request.", func(s *scene, e emit) {
		e.count(s.seen.WaitingProduces, "Produce")
		e.count(s.seen.WaitingDeletes, "DeleteRecords")
		e.count(s.seen.WaitingFetches, "Fetch")
	}},
	{"kafka_server_fetchsessioncache_numincrementalfetchsessions", gauge, nil, "Fetch sessions.", one(func(s *scene) int64 {
		open, _ := s.from.FetchSessions()
		return int64(open)
	})},
	{"kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total", counter, nil, "Fetch sessions that made place for others.", one(func(s *scene) int64 {
		_, evicted := s.from.FetchSessions()
		return evicted
	})},
	{"kafka_coordinator_group_groupmetadatamanager_numgroups", gauge, nil, "Groups that this node coordinates, of all protocols. Missing while some are being loaded, as those below.", func(s *scene, e emit) {
		if s.groups.known {
			e.count(int64(len(s.groups.listed)))
		}
	}},
	{"kafka_coordinator_group_groupmetadatamanager_numgroupspreparingrebalance", gauge, nil, "Classic groups whose members are to join.", groupsIn(group.PreparingRebalance)},
	{"kafka_coordinator_group_groupmetadatamanager_numgroupscompletingrebalance", gauge, nil, "Classic groups that wait for their leader's assignment.", groupsIn(group.CompletingRebalance)},
	{"kafka_coordinator_group_groupmetadatamanager_numgroupsstable", gauge, nil, "Groups whose members have what they are to have.", groupsIn(group.Stable)},
	{"kafka_coordinator_group_groupmetadatamanager_numgroupsempty", gauge, nil, "Groups without members.", groupsIn(group.Empty)},
	{"raftsman_groups_assigning", gauge, nil, "Groups of the consumer protocol whose assignment is to be made.", groupsIn(group.Assigning)},
	{"raftsman_groups_reconciling", gauge, nil, "Groups of the consumer protocol whose members do not have their new assignment yet.", groupsIn(group.Reconciling)},

	// Logs.
	{"kafka_log_log_size", gauge, perPartition, "Bytes of the partition's segments. Of partitions that are open, as all below by partition.", eachLocal(func(p *open) int64 { return p.Bytes })},
	{"kafka_log_log_logstartoffset", gauge, perPartition, "First offset.", eachLocal(func(p *open) int64 { return int64(p.Start) })},
	{"kafka_log_log_logendoffset", gauge, perPartition, "Offset that the next record gets.", eachLocal(func(p *open) int64 { return int64(p.End) })},
	{"kafka_log_log_numlogsegments", gauge, perPartition, "Segments.", eachLocal(func(p *open) int64 { return int64(p.Segments) })},
	{"kafka_log_logflushstats_logflushrateandtimems", summary, nil, "Milliseconds of a group commit: the flush of all logs of a directory in which something waits for the disk.", func(s *scene, e emit) {
		e.summary(&s.from.Replicas.FlushMetrics().RoundMicros, 1000)
	}},
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
	{"raftsman_group_loads_total", counter, nil, "Partitions of __consumer_offsets that were read.", one(func(s *scene) int64 { return s.from.Coord.Metrics().Groups.Loads.Value() })},
	{"raftsman_group_load_seconds", summary, nil, "How long reading each took.", func(s *scene, e emit) { e.summary(&s.from.Coord.Metrics().Groups.LoadMicros, 1e6) }},
	{"raftsman_group_reloads_total", counter, nil, "Partitions of __consumer_offsets that were given up and read anew.", one(func(s *scene) int64 { return s.from.Coord.Metrics().Groups.Reloads.Value() })},

	// Transactions.
	{"raftsman_transaction_open", gauge, nil, "Transactions that are going on, of the transactional ids that this node coordinates. Missing while some are being loaded, as the next two.", openTransactions(func(t *transactions) float64 { return float64(t.open) })},
	{"raftsman_transaction_ending", gauge, nil, "Transactions whose end is decided, while partitions are still to be told.", openTransactions(func(t *transactions) float64 { return float64(t.ending) })},
	{"raftsman_transaction_oldest_seconds", gauge, nil, "How long the oldest transaction is open, or takes to end; 0 without one.", openTransactions(func(t *transactions) float64 { return t.oldest })},
	{"kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize", gauge, nil, "Markers that wait for a partition which takes none now: it has no leader, or its directory is full or offline.", one(func(s *scene) int64 { return s.from.Coord.Metrics().MarkersWaiting.Value() })},
	{"raftsman_transaction_markers_total", counter, nil, "Markers that were written, one for each partition of each transaction that ended.", one(func(s *scene) int64 { return s.from.Coord.Metrics().Markers.Value() })},
	{"raftsman_transaction_markers_waiting", gauge, nil, "Markers that their partitions do not take now, of transactions that cannot end.", one(func(s *scene) int64 { return s.from.Coord.Metrics().MarkersWaiting.Value() })},
	{"raftsman_transaction_timed_out_total", counter, nil, "Transactions that were over their time and were aborted.", one(func(s *scene) int64 { return s.from.Coord.Metrics().TimedOut.Value() })},
	{"raftsman_transaction_loads_total", counter, nil, "Partitions of __transaction_state that were read.", one(func(s *scene) int64 { return s.from.Coord.Metrics().Transactions.Loads.Value() })},
	{"raftsman_transaction_load_seconds", summary, nil, "How long reading each took.", func(s *scene, e emit) { e.summary(&s.from.Coord.Metrics().Transactions.LoadMicros, 1e6) }},
	{"raftsman_transaction_reloads_total", counter, nil, "Partitions of __transaction_state that were given up and read anew.", one(func(s *scene) int64 { return s.from.Coord.Metrics().Transactions.Reloads.Value() })},
}

// eachKey visits the APIs of which there were requests.
func (s *scene) eachKey(visit func(name string, of *server.KeyMetrics)) {
	keys := &s.from.Server.Metrics().Keys
	for key := range keys {
		if of := &keys[key]; of.Requests.Value() > 0 {
			visit(wire.KeyName(int16(key)), of)
			if key == fetchKey {
				visit("FetchConsumer", of)
			}
		}
	}
}

// eachPart reads where the time of each API's requests went.
func eachPart(read func(p *server.PartMetrics) *metric.Histogram) func(*scene, emit) {
	return func(s *scene, e emit) {
		s.eachKey(func(name string, of *server.KeyMetrics) {
			if parts := of.Parts(); parts != nil {
				e.summary(read(parts), 1000, name)
			}
		})
	}
}

// fetchKey is the API key of Fetch.
const fetchKey = 1

func (s *scene) connections() int64 { return s.from.Server.Metrics().Connections.Value() }

// countInSync counts the open partitions that this node leads by how many more replicas are in sync than acks=all needs.
func (s *scene) countInSync(is func(spare int) bool) int64 {
	n := int64(0)
	for i := range s.open {
		n += oneIf(s.open[i].Leads && is(s.open[i].spare))
	}
	return n
}
