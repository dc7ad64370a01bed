package quorum

import (
	"log/slog"
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

	// Controller is the controller listener's name and advertised address: what the voters' record says about this node.
	Controller meta.Endpoint
	// StaticVoters are the ids of controller.quorum.voters, for logs of kraft.version 0, which do not hold their voters. Empty
	// means this node alone.
	StaticVoters []kafka.NodeID

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

func (o *Options) controllerEndpoints() []kraft.Endpoint {
	return []kraft.Endpoint{{Name: o.Controller.Name, Host: o.Controller.Host, Port: o.Controller.Port}}
}

func (o *Options) logConfig() commitlog.Config {
	c := commitlog.DefaultConfig()
	c.SegmentBytes, c.SegmentMs = o.SegmentBytes, o.SegmentMs
	c.Delete, c.RetentionMs, c.RetentionBytes = true, -1, -1
	c.BeginsElsewhere = true // in a snapshot: loadSnapshot tells if none goes before it
	return c
}
