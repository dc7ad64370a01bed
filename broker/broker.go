// Package broker turns a configuration into a running node: it puts the parts together, starts them in order and stops them in
// order, and does nothing else.
//
// Start: listen, open the log directories (format the first one where nothing is formatted yet), read the metadata log, become
// the quorum's leader or follow it and register, which opens the partitions and loads the coordinators, then accept connections. A node of
// several finds the others before, if it is new, and serves controllers before it registers. Close is the same way back: let others lead,
// answer what is parked, stop accepting, flush, mark the directories as cleanly closed.
package broker

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/raftsman/raftsman/internal/api"
	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/coord"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/otlp"
	"github.com/raftsman/raftsman/internal/quorum"
	"github.com/raftsman/raftsman/internal/replica"
	"github.com/raftsman/raftsman/internal/server"
	"github.com/raftsman/raftsman/internal/txn"
	"github.com/raftsman/raftsman/internal/vfs"
)

// Config says how a node runs.
type Config struct {
	// Properties are what a server.properties says, by Kafka's names. Empty: a single node on 127.0.0.1:9092 and [::1]:9092
	// with its data in ./raftsman-data.
	Properties map[string]string
	// Memory keeps everything in memory: nothing is written to disk, all is gone with the node.
	Memory bool
	// Log gets what the node has to say. nil: nothing.
	Log *slog.Logger
	// LogLevel is the level of Log, where an administrator may change it (BROKER_LOGGER configurations). nil: a level of its own
	// that nobody reads.
	LogLevel *slog.LevelVar

	// The rest is for this module: a configuration parsed before, and another file system.
	Parsed *config.Broker
	FS     vfs.FS
	// Dial connects to host:port of another node. nil: by TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// Node is a running broker.
type Node struct {
	config *config.Broker
	log    *slog.Logger
	fs     vfs.FS
	dial   func(ctx context.Context, address string) (net.Conn, error)

	dirs      []*commitlog.Dir // those of log.dirs first
	meta      *commitlog.Dir   // the one of the metadata log
	clusterID string
	founding  founding // of a node that is new
	fresh     bool     // formatted by this start

	quorum   *quorum.Node
	replicas *replica.Manager
	coord    *coord.Coordinator
	quotas   *api.Quotas
	fetches  *api.FetchSessions
	server   *server.Server
	api      *api.API

	others      *others // nil: this node is the whole cluster
	controllers *server.Server
	heartbeats  *api.Heartbeats
	deaths      *deaths

	clientMetrics *api.ClientMetrics
	forwarder     *otlp.Forwarder // nil: clients' metrics go nowhere

	listeners        []server.Listener
	controlListeners []server.Listener // for controllers
	http             *httpListener     // nil: HTTP is not answered

	reports dirReports

	stopping chan struct{} // closed when the node begins to stop
	ended    chan struct{} // closed when the node gave up by itself
	once     sync.Once     // guards closing of ended
	cause    error         // of the end, set before ended is closed
}

// Start starts a node and returns when it serves. ctx bounds the start alone.
func Start(ctx context.Context, c Config) (node *Node, err error) {
	n := &Node{
		config: c.Parsed, log: c.Log, fs: c.FS, dial: c.Dial, stopping: make(chan struct{}), ended: make(chan struct{}), reports: newDirReports(),
	}
	if n.log == nil {
		n.log = slog.New(slog.DiscardHandler)
	}
	n.log = slog.New(briefHandler{n.log.Handler()})
	if err := n.configure(c); err != nil {
		return nil, err
	}
	// Whatever a step that fails leaves behind is undone by the steps before it.
	var undo []func()
	defer func() {
		if err == nil {
			return
		}
		if vfs.IsOutOfFiles(err) {
			err = fmt.Errorf("%w: this process may have %d files open; raise its limit (ulimit -n) and start again", err, vfs.OpenFilesMax())
		}
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
	}()
	// Before anything listens: a node that waits for its cluster must not look like a member of it.
	if err := n.findCluster(ctx); err != nil {
		return nil, err
	}
	// Before the directories, so that a port in use does not cost one its clean-shutdown marker.
	if err := n.listen(); err != nil {
		return nil, err
	}
	undo = append(undo, n.closeListeners)
	if err := n.listenHTTP(); err != nil {
		return nil, err
	}
	undo = append(undo, n.http.close)
	if err := n.openDirs(); err != nil {
		return nil, err
	}
	undo = append(undo, n.abandonDirs)
	n.connect()
	undo = append(undo, n.others.close)
	if err := n.openQuorum(); err != nil {
		return nil, err
	}
	undo = append(undo, func() { _ = n.quorum.Close() })
	n.build(c.LogLevel)
	undo = append(undo, n.drop)
	n.controllers.Serve(n.controlListeners...)
	if err := n.quorum.Start(ctx, n.registration()); err != nil {
		return nil, err
	}
	n.reports.start(n)
	n.server.Serve(n.listeners...)
	n.http.serving(n)
	return n, nil
}

// drop ends what build has made, at once. The directories are left as after a crash: what was not flushed is recovered next time.
func (n *Node) drop() {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	close(n.stopping)
	n.others.close()
	_ = n.server.Shutdown(gone)
	_ = n.controllers.Shutdown(gone)
	n.deaths.close()
	n.stopForwarding()
	_ = n.coord.Close(gone)
	_ = n.quorum.Close()
	_ = n.replicas.Close(gone)
}

// Kill ends the node as a crash does, as far as a process can that goes on: connections break, nothing more is written, no one is told. It is
// for tests, in place of Close.
func (n *Node) Kill() {
	n.http.stopping()
	n.drop()
	n.reports.close()
	n.http.close()
}

// configure settles what the node is configured to and where its files are.
func (n *Node) configure(c Config) error {
	if n.config == nil {
		parsed, warnings, err := config.FromMap(c.Properties)
		if err != nil {
			return err
		}
		for _, w := range warnings {
			n.log.Warn(w.String())
		}
		n.config = parsed
	}
	switch {
	case n.fs != nil:
		return nil
	case c.Memory:
		n.fs = vfs.NewMemory()
		return nil
	}
	n.fs = vfs.OS()
	var err error
	if folder, gone := os.Getwd(); gone == nil { // where the folder was deleted, absolute paths can be served all the same
		n.config, err = n.config.In(folder)
	}
	return err
}

// openQuorum reads the metadata log.
func (n *Node) openQuorum() (err error) {
	b := n.config
	options := quorum.Options{
		FS: n.fs, Dir: n.meta, LogDirs: n.dirs, NodeID: b.NodeID(), ClusterID: n.clusterID,
		ControllerOnly: !b.IsBroker(), AutoJoin: b.Bool("controller.quorum.auto.join.enable"),
		ElectionTimeoutMs:    b.Int64("controller.quorum.election.timeout.ms"),
		ElectionBackoffMaxMs: b.Int64("controller.quorum.election.backoff.max.ms"),
		FetchTimeoutMs:       b.Int64("controller.quorum.fetch.timeout.ms"),
		RequestTimeoutMs:     b.Int64("controller.quorum.request.timeout.ms"),
		RetryBackoffMs:       b.Int64("controller.quorum.retry.backoff.ms"),
		FetchBytes:           b.Int64("controller.quorum.fetch.max.bytes"),
		SnapshotFetchBytes:   b.Int64("controller.quorum.fetch.snapshot.max.bytes"),
		SessionMs:            b.Int64("broker.session.timeout.ms"),
		HeartbeatMs:          b.Int64("broker.heartbeat.interval.ms"),
		Balance:              b.Bool("auto.leader.rebalance.enable"),
		BalanceMs:            b.Duration("leader.imbalance.check.interval.seconds").Milliseconds(),
		UncleanMs:            b.Int64("unclean.leader.election.interval.ms"),
		Factors: []meta.WantedFactor{
			{Topic: meta.OffsetsTopic, Factor: b.Int("offsets.topic.replication.factor")},
			{Topic: meta.TransactionsTopic, Factor: b.Int("transaction.state.log.replication.factor"), MinISR: b.Int("transaction.state.log.min.isr")},
		},
		Configs:           api.ConfigRules(b, func() *meta.Image { return n.quorum.Image() }),
		Partitions:        int32(b.Int("num.partitions")),
		ReplicationFactor: int16(b.Int("default.replication.factor")),
		MinISR:            strconv.Itoa(b.Int("min.insync.replicas")),
		UncleanElections:  b.Bool("unclean.leader.election.enable"),
		SegmentBytes:      b.Int("metadata.log.segment.bytes"),
		SegmentMs:         b.Int64("metadata.log.segment.ms"),
		SnapshotBytes:     b.Int64("metadata.log.max.record.bytes.between.snapshots"),
		SnapshotMs:        b.Int64("metadata.log.max.snapshot.interval.ms"),
		RetentionBytes:    b.Int64("metadata.max.retention.bytes"),
		RetentionMs:       b.Int64("metadata.max.retention.ms"),
		Log:               n.log,
		OnFailure:         func(cause error) { n.end(fmt.Errorf("metadata log in %s failed: %w", n.meta.Path(), cause)) },
	}
	if b.IsController() {
		options.Controller = n.controllerEndpoint()
	}
	name := b.ControllerListeners()[0]
	for _, voter := range b.Voters() {
		options.StaticVoters = append(options.StaticVoters, kraft.Voter{
			ID: voter.ID, Endpoints: []kraft.Endpoint{{Name: name, Host: voter.Host, Port: voter.Port}},
		})
	}
	for _, server := range b.BootstrapServers() {
		options.Bootstrap = append(options.Bootstrap, kraft.Endpoint{Host: server.Host, Port: server.Port})
	}
	if n.others != nil {
		options.Transport = transport{n.others.quorum}
	}
	n.quorum, err = quorum.Open(options)
	return err
}

// build makes the parts above the metadata and connects them.
func (n *Node) build(level *slog.LevelVar) {
	b := n.config
	options := replica.Options{
		NodeID: b.NodeID(), Dirs: n.dirs[:len(b.LogDirs())], Broker: b, Log: n.log, OnDirFailure: n.dirFailed,
		MetadataDir: n.separateMeta(), Metadata: n.quorum, OnDirReport: n.reports.poke,
		AlterPartition: n.alterPartition,
	}
	if n.others != nil {
		options.Peers = n.others.brokers
	}
	n.replicas = replica.New(options)
	coordinators := coord.Options{
		NodeID: b.NodeID(), Partitions: n.replicas, Image: n.quorum.Image, CreateTopic: n.createInternalTopic,
		Group:     groupConfig(b),
		Consumers: consumerSettings(b),
		Transactions: txn.Config{
			TimeoutMax:     b.Duration("transaction.max.timeout.ms"),
			IDExpiration:   b.Duration("transactional.id.expiration.ms"),
			TwoPhaseCommit: b.Bool("transaction.two.phase.commit.enable"),
		},
		NextProducerID: n.quorum.NextProducerID,
		AbortCheck:     b.Duration("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
		ExpireCheck:    b.Duration("transaction.remove.expired.transaction.cleanup.interval.ms"),
		RetentionCheck: b.Duration("offsets.retention.check.interval.ms"),
		CommitTimeout:  b.Duration("offsets.commit.timeout.ms"),
		LoadGrace:      time.Second,
		Log:            n.log, Now: time.Now, Random: random,
	}
	if n.others != nil {
		coordinators.Brokers = n.others.brokers
	}
	n.coord = coord.New(coordinators)
	n.quorum.Watch(n.replicas.Apply)
	n.quorum.Watch(n.coord.Apply)
	n.quorum.Watch(n.limitConnections)
	n.deaths = newDeaths(n)
	n.quorum.Watch(n.deaths.apply)
	handler := api.New(n.log)
	n.api = handler
	handler.Controller, handler.Stopping = controller{n.quorum}, n.stopping
	if n.others != nil {
		handler.Forward = n.others.quorum.Forward
		handler.AskCoordinator = n.askCoordinator
	}
	n.heartbeats = api.NewHeartbeats(n.deaths.disconnected)
	handler.Heartbeats = n.heartbeats
	handler.NodeID = b.NodeID()
	handler.Config = b
	handler.ClusterID = n.ClusterID
	handler.Features = n.features
	handler.Quorum = n.quorum
	handler.Replicas = n.replicas
	n.fetches = api.NewFetchSessions(b)
	handler.Fetches = n.fetches
	handler.Coord, handler.Transact = n.coord, n.coord.Transact
	n.quotas = api.NewQuotas(b, n.quorum.Image)
	handler.Quotas = n.quotas
	n.takeClientMetrics(handler)
	if level != nil {
		handler.LogLevel = level
	}
	serving := serverConfig(b, n.log)
	serving.Pace, serving.Admit = n.quotas.Pace, n.quotas.Admit
	serving.Gone = n.clientMetrics.Disconnected
	n.server = server.New(serving, handler)
	controlling := serverConfig(b, n.log)
	controlling.Limits, controlling.Gone = server.Limits{}, n.heartbeats.Disconnected
	n.controllers = server.New(controlling, handler.OnControllers())
}

// peersGrace is how long Close waits for peers to take their answers. The rest of its time is for the disk: a peer that reads
// nothing must not cost the clean-shutdown marker.
const peersGrace = 2 * time.Second

// Close stops the node: parked requests are answered, everything is flushed, and the directories are marked as cleanly closed.
// When ctx ends first, the rest is left for recovery at the next start. Close is called once.
func (n *Node) Close(ctx context.Context) error {
	defer n.http.close()
	n.http.stopping()
	var failed []error
	if err := n.leave(ctx); err != nil {
		n.log.Warn("this node stops before others lead what it has led", "error", err)
	}
	close(n.stopping)
	if err := n.coord.Close(ctx); err != nil {
		failed = append(failed, err)
	}
	n.replicas.Stop()
	peers, cancel := context.WithTimeout(ctx, peersGrace)
	defer cancel()
	if err := n.server.Shutdown(peers); ctx.Err() != nil {
		failed = append(failed, fmt.Errorf("close connections: %w", err))
	} else if err != nil {
		n.log.Warn("connections were cut whose peers did not take their answers", "after", peersGrace)
	}
	n.stopForwarding()
	n.reports.close()
	n.deaths.close()
	if err := n.quorum.Close(); err != nil {
		failed = append(failed, fmt.Errorf("close metadata log: %w", err))
	}
	_ = n.controllers.Shutdown(peers) // what is cut short is said again to the next leader
	n.others.close()
	if err := n.replicas.Close(ctx); err != nil {
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// leaveGrace is how long Close waits for others to lead what this node leads.
const leaveGrace = 2 * time.Second

// leave hands over what this node leads, where there is somebody to take it.
func (n *Node) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaveGrace)
	defer cancel()
	return n.quorum.Leave(ctx)
}

// Ended is closed when the node can't go on: the metadata log's directory failed, or the last log directory. Err then says
// why, and all that is left is Close.
func (n *Node) Ended() <-chan struct{} { return n.ended }

// Err returns why Ended is closed.
func (n *Node) Err() error {
	select {
	case <-n.ended:
		return n.cause
	default:
		return nil
	}
}

func (n *Node) dirFailed(path string, left int, cause error) {
	if left > 0 && path != n.meta.Path() {
		return
	}
	n.end(fmt.Errorf("log directory %s failed: %w", path, cause))
}

// end closes Ended. The first cause counts.
func (n *Node) end(cause error) {
	n.once.Do(func() {
		n.cause = cause
		n.http.failed(cause)
		close(n.ended)
	})
}

// ClusterID is the id of the cluster, 22 characters, made when its first directory was formatted.
func (n *Node) ClusterID() string { return n.clusterID }

// LogDirs returns the paths of the log directories, absolute where they are on a disk.
func (n *Node) LogDirs() []string { return n.config.LogDirs() }

// Fresh tells whether this start formatted the data directory.
func (n *Node) Fresh() bool { return n.fresh }

// Addrs returns the addresses that the node listens on for clients, or for controllers if it is no broker.
func (n *Node) Addrs() []net.Addr {
	var addrs []net.Addr
	for _, l := range n.listeners {
		addrs = append(addrs, l.Addr())
	}
	if !n.config.IsBroker() {
		for _, l := range n.controlListeners {
			addrs = append(addrs, l.Addr())
		}
	}
	return addrs
}

// features are the feature levels that clients may build on. Those of requests that are not served yet are left out: a client
// that saw share.version would use share groups.
func (n *Node) features() api.Features {
	image := n.quorum.Image()
	f := api.Features{Epoch: int64(image.Offset())}
	for _, feature := range meta.SupportedFeatures() {
		if !served(feature.Name) {
			continue
		}
		f.Supported = append(f.Supported, api.SupportedFeature{Name: feature.Name, Min: feature.Min, Max: feature.Max})
		level := image.Features()[feature.Name]
		if feature.Name == meta.KRaftVersion { // which the quorum's log says, not the metadata in it
			level = n.quorum.Membership().Version
		}
		if level > 0 {
			f.Finalized = append(f.Finalized, api.FinalizedFeature{Name: feature.Name, Level: level})
		}
	}
	return f
}

func served(feature string) bool {
	switch feature {
	case meta.MetadataVersion, meta.KRaftVersion, meta.ELRVersion, meta.GroupVersion, meta.TransactionVersion:
		return true
	}
	return false // a feature that is new here says so itself
}

// createInternalTopic creates a coordinator's topic with the settings that Kafka gives it.
func (n *Node) createInternalTopic(ctx context.Context, name string) error {
	topic, ok := n.api.InternalTopic(name)
	if !ok {
		return fmt.Errorf("%s is no internal topic", name)
	}
	results, err := n.api.CreateTopics(ctx, meta.CreateTopics{Topics: []meta.NewTopic{topic}})
	if err != nil {
		return err
	}
	if len(results) != 1 {
		return kafka.UnknownServerError
	}
	if err := results[0].Err; err != nil && !errors.Is(err, kafka.TopicAlreadyExists) {
		return err
	}
	return nil
}

// separateMeta is the metadata log's directory if it is none of log.dirs: partitions have no place there.
func (n *Node) separateMeta() *commitlog.Dir {
	if len(n.dirs) > len(n.config.LogDirs()) {
		return n.meta
	}
	return nil
}

// registration tells the cluster about this node.
func (n *Node) registration() meta.Registration {
	r := meta.Registration{ID: n.config.NodeID(), Incarnation: kafka.NewUUID(random), Endpoints: n.endpoints()}
	if rack := n.config.String("broker.rack"); rack != "" {
		r.Rack = &rack
	}
	for i, dir := range n.dirs {
		if i < len(n.config.LogDirs()) {
			r.LogDirs = append(r.LogDirs, dir.ID())
			if slices.Contains(n.config.CordonedLogDirs(), dir.Path()) {
				r.Cordoned = append(r.Cordoned, dir.ID())
			}
		}
		r.Unclean = r.Unclean || !n.fresh && !dir.WasClean()
	}
	return r
}

func random(p []byte) {
	_, _ = rand.Read(p) // never fails: the standard library ends the process first
}

// hostOr returns host, or other where it is empty or every address.
func hostOr(host, other string) string {
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return other
	}
	return cmp.Or(host, other)
}
