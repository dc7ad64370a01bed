package quorum

import (
	"log/slog"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/vfs"
)

// Options say where a Node keeps its log and how it decides. FS, Dir, NodeID, ClusterID, Controller and Configs have no
// defaults.
type Options struct {
	FS        vfs.FS
	Dir       *commitlog.Dir // metadata.log.dir, opened: it holds __cluster_metadata-0
	NodeID    kafka.NodeID
	ClusterID string
	// LogDirs are the log directories, opened, Dir among them or not: partitions there tell a lost metadata log from a new one.
	LogDirs []*commitlog.Dir

	// Controller is the controller listener's name and advertised address: what the voters' record says about this node. Empty on a
	// node that is a broker only.
	Controller meta.Endpoint
	// StaticVoters are controller.quorum.voters, for logs of kraft.version 0, which do not hold their voters. Empty means this node alone,
	// unless there is a Transport.
	StaticVoters []kraft.Voter
	// Bootstrap are controller.quorum.bootstrap.servers: where the quorum is found.
	Bootstrap []kraft.Endpoint
	// Transport reaches the other nodes. Nil: there are none, this node is the whole quorum.
	Transport Transport
	// ControllerOnly says that the node is no broker: it is not registered as one, and nothing waits for that.
	ControllerOnly bool
	AutoJoin       bool // controller.quorum.auto.join.enable: a controller that is no voter becomes one

	ElectionTimeoutMs    int64 // controller.quorum.election.timeout.ms; 1,000 by default
	ElectionBackoffMaxMs int64 // controller.quorum.election.backoff.max.ms; 1,000 by default
	FetchTimeoutMs       int64 // controller.quorum.fetch.timeout.ms; 2,000 by default
	RequestTimeoutMs     int64 // controller.quorum.request.timeout.ms; 2,000 by default
	RetryBackoffMs       int64 // controller.quorum.retry.backoff.ms; 20 by default
	FetchBytes           int64 // controller.quorum.fetch.max.bytes; 1 MiB by default
	SnapshotFetchBytes   int64 // controller.quorum.fetch.snapshot.max.bytes; 1 MiB by default

	SessionMs   int64 // broker.session.timeout.ms; 9,000 by default
	HeartbeatMs int64 // broker.heartbeat.interval.ms; 2,000 by default
	Balance     bool  // auto.leader.rebalance.enable: preferred leaders are elected every BalanceMs
	BalanceMs   int64 // leader.imbalance.check.interval.seconds; 300,000 by default
	UncleanMs   int64 // unclean.leader.election.interval.ms; 300,000 by default
	// Factors are the replicas that coordinators' topics are to have in a cluster that has the brokers for it.
	Factors []meta.WantedFactor

	Configs           meta.ConfigRules
	Partitions        int32  // num.partitions; 1 by default
	ReplicationFactor int16  // default.replication.factor; 1 by default
	MinISR            string // min.insync.replicas, stored cluster-wide when the cluster is new; "1" by default
	UncleanElections  bool   // unclean.leader.election.enable

	SegmentBytes      int   // metadata.log.segment.bytes; 1 GiB by default
	SegmentMs         int64 // metadata.log.segment.ms; 7 days by default
	SnapshotBytes     int64 // metadata.log.max.record.bytes.between.snapshots; 20 MiB by default
	SnapshotMs        int64 // metadata.log.max.snapshot.interval.ms; an hour by default, below 0 for never
	RetentionBytes    int64 // metadata.max.retention.bytes; 100 MiB by default
	RetentionMs       int64 // metadata.max.retention.ms; 7 days by default
	snapshotsByCaller bool  // tests call Snapshot themselves

	Now    func() time.Time // time.Now by default
	Random func([]byte)     // ids and placement; crypto/rand by default
	Log    *slog.Logger     // slog.Default() by default

	// OnFailure is called once, on any goroutine, when the metadata log cannot be written or flushed any more. The process must
	// end: nothing that depends on metadata can be promised.
	OnFailure func(error)
}

const (
	week        = 7 * 24 * time.Hour
	mebibyte    = 1 << 20
	metadataLog = meta.ClusterMetadataTopic
)

func (o Options) withDefaults() Options {
	orInt := func(v *int64, otherwise int64) {
		if *v == 0 {
			*v = otherwise
		}
	}
	orInt(&o.ElectionTimeoutMs, 1000)
	orInt(&o.ElectionBackoffMaxMs, 1000)
	orInt(&o.FetchTimeoutMs, 2000)
	orInt(&o.RequestTimeoutMs, 2000)
	orInt(&o.RetryBackoffMs, 20)
	orInt(&o.FetchBytes, mebibyte)
	orInt(&o.SnapshotFetchBytes, mebibyte)
	orInt(&o.SessionMs, 9000)
	orInt(&o.HeartbeatMs, 2000)
	orInt(&o.BalanceMs, 300_000)
	orInt(&o.UncleanMs, 300_000)
	orInt(&o.SegmentMs, week.Milliseconds())
	orInt(&o.SnapshotBytes, 20*mebibyte)
	orInt(&o.SnapshotMs, time.Hour.Milliseconds())
	orInt(&o.RetentionBytes, 100*mebibyte)
	orInt(&o.RetentionMs, week.Milliseconds())
	o.Partitions = max(o.Partitions, 1)
	o.ReplicationFactor = max(o.ReplicationFactor, 1)
	if o.SegmentBytes == 0 {
		o.SegmentBytes = 1 << 30
	}
	if o.MinISR == "" {
		o.MinISR = "1"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = cryptoRandom
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.OnFailure == nil {
		o.OnFailure = func(error) {}
	}
	return o
}

// env is what decisions need.
func (o *Options) env() meta.Env {
	minISR, _ := strconv.ParseInt(o.MinISR, 10, 32) // 0, which counts as 1, where it is no number
	return meta.Env{
		Node:   o.NodeID,
		Random: rand.New(rand.NewPCG(randomUint64(o.Random), randomUint64(o.Random))),
		NewID:  func() kafka.UUID { return kafka.NewUUID(o.Random) },

		Partitions: o.Partitions, ReplicationFactor: o.ReplicationFactor, Configs: o.Configs,
		MinISR: int32(minISR), UncleanElections: o.UncleanElections,
	}
}

// controllerEndpoints is where other controllers find this one, nil on a node that is a broker only.
func (o *Options) controllerEndpoints() []kraft.Endpoint {
	if o.Controller == (meta.Endpoint{}) {
		return nil
	}
	return []kraft.Endpoint{{Name: o.Controller.Name, Host: o.Controller.Host, Port: o.Controller.Port}}
}

// fetchMaxWaitMs is how long a fetch of the metadata log waits for something new, as Kafka's.
const fetchMaxWaitMs = 500

func (o *Options) member() kraft.Config {
	return kraft.Config{
		ID: o.NodeID, Directory: o.Dir.ID(), Endpoints: o.controllerEndpoints(),
		Bootstrap: o.Bootstrap, StaticVoters: o.staticVoters(), MaxVersion: 1, AutoJoin: o.AutoJoin,

		ElectionTimeoutMs: o.ElectionTimeoutMs, ElectionBackoffMaxMs: o.ElectionBackoffMaxMs, FetchTimeoutMs: o.FetchTimeoutMs,
		RequestTimeoutMs: o.RequestTimeoutMs, RetryBackoffMs: o.RetryBackoffMs,
		FetchMaxWaitMs: fetchMaxWaitMs, FetchMaxBytes: int32(min(o.FetchBytes, math.MaxInt32)), SnapshotMaxBytes: int32(min(o.SnapshotFetchBytes, math.MaxInt32)),

		Rand: rand.New(rand.NewPCG(randomUint64(o.Random), randomUint64(o.Random))),
	}
}

// staticVoters are this node alone where neither the configuration nor another node could know of others.
func (o *Options) staticVoters() []kraft.Voter {
	if len(o.StaticVoters) > 0 || o.Transport != nil {
		return o.StaticVoters
	}
	return []kraft.Voter{{ID: o.NodeID}}
}

func (o *Options) logConfig() commitlog.Config {
	c := commitlog.DefaultConfig()
	c.SegmentBytes, c.SegmentMs = o.SegmentBytes, o.SegmentMs
	c.Delete, c.RetentionMs, c.RetentionBytes = true, -1, -1
	c.BeginsElsewhere = true // in a snapshot: loadSnapshot tells if none goes before it
	return c
}
