package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/peer"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/session"
	"github.com/raftsman/raftsman/internal/sysrecord"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// cluster is several Managers with a network between them and a controller that is simple, never fails, and elects only who is in sync. It is
// used in a synctest bubble: time passes when everybody waits.
type cluster struct {
	testing.TB
	seed uint64
	log  *lockedBuffer

	mu     sync.Mutex // guards all below
	random *rand.Rand
	image  *meta.Image
	nodes  map[kafka.NodeID]*clusterNode
	epochs kafka.BrokerEpoch // the last one that was given out
	cuts   map[[2]kafka.NodeID]bool
	refuse kafka.Error // what the controller answers to AlterPartition instead of doing it
	asked  int         // how often it was asked
}

type clusterNode struct {
	c     *cluster
	id    kafka.NodeID
	props map[string]string
	fs    *gateFS
	disk  *faultfs.Disk
	dirs  int
	// firstDir is where the metadata has the replicas of new topics, until the disk is wiped.
	firstDir kafka.UUID

	// Guarded by the cluster's mu.
	m        *Manager // nil while it is down
	sessions *session.Cache
	images   chan *meta.Image
	applied  *sync.WaitGroup
	held     []*meta.Image // not nil: images wait here
}

var errDown = errors.New("the other side does not answer")

// newCluster starts nodes 1 to n; settings are pairs of name=value.
func newCluster(t testing.TB, seed uint64, n int, settings ...string) *cluster {
	c := &cluster{
		TB: t, seed: seed, log: &lockedBuffer{}, random: rand.New(rand.NewPCG(seed, 7)), image: meta.NewImage("test"),
		nodes: map[kafka.NodeID]*clusterNode{}, cuts: map[[2]kafka.NodeID]bool{}, epochs: 100,
	}
	for i := 1; i <= n; i++ {
		node := &clusterNode{c: c, id: kafka.NodeID(i), disk: faultfs.NewDisk(seed + uint64(i)), dirs: 1, props: map[string]string{
			"node.id": strconv.Itoa(i), "replica.lag.time.max.ms": "2000", "broker.rack": "rack" + strconv.Itoa(i),
		}}
		for _, s := range settings {
			name, value, _ := cutSetting(s)
			node.props[name] = value
		}
		node.fs = &gateFS{FS: node.disk}
		node.format()
		c.nodes[node.id] = node
		node.start()
	}
	return c
}

func cutSetting(s string) (name, value string, ok bool) {
	for i := range s {
		if s[i] == '=' {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

func (n *clusterNode) format() {
	n.c.Helper()
	for i := range n.dirs {
		id := kafka.NewUUID(randomBytes)
		if i == 0 {
			n.firstDir = id
		}
		properties := commitlog.MetaProperties{ClusterID: "test", NodeID: n.id, ID: id}
		if err := commitlog.FormatDir(n.fs, fmt.Sprintf("/data%d", i), properties); err != nil {
			n.c.Fatal(err)
		}
	}
}

// start registers the node and lets it serve.
func (n *clusterNode) start() {
	c := n.c
	c.Helper()
	broker, err := config.NewBroker(n.props)
	if err != nil {
		c.Fatal(err)
	}
	var dirs []*commitlog.Dir
	for i := range n.dirs {
		d, err := commitlog.OpenDir(n.fs, fmt.Sprintf("/data%d", i), randomBytes)
		if err != nil {
			c.Fatalf("node %d: %v", n.id, err)
		}
		d.SetJournal(32<<10, 0)
		dirs = append(dirs, d)
	}
	m := New(Options{
		NodeID: n.id, Dirs: dirs, Broker: broker, Log: slog.New(slog.NewTextHandler(c.log, nil)).With("node", n.id),
		Peers: clusterPeers{n}, AlterPartition: func(ctx context.Context, req meta.AlterPartition) (meta.AlterPartitionResult, error) {
			return c.alterPartition(n.id, req)
		},
		OnDirReport: func() {},
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	n.m, n.sessions = m, session.NewCache(1000, rand.New(rand.NewPCG(c.seed, 9)))
	n.images, n.applied, n.held = make(chan *meta.Image, 10_000), new(sync.WaitGroup), nil
	images := n.images
	n.applied.Go(func() {
		last := meta.NewImage("test")
		for image := range images {
			m.Apply(last, image)
			last = image
		}
	})
	c.epochs++
	c.changeLocked(c.registration(n.id, c.epochs)...)
	c.electLocked()
}

func (c *cluster) registration(id kafka.NodeID, epoch kafka.BrokerEpoch) []sysrecord.Record {
	r := sysrecord.NewRegisterBrokerRecord()
	r.BrokerID, r.BrokerEpoch, r.IncarnationID, r.Fenced = id, epoch, kafka.NewUUID(randomBytes), false
	rack := "rack" + strconv.Itoa(int(id))
	r.Rack = &rack
	return []sysrecord.Record{r}
}

// stop takes a node away: by a power cut, or in order.
func (c *cluster) stop(id kafka.NodeID, cut bool) {
	c.Helper()
	n := c.nodes[id]
	c.mu.Lock()
	m := n.m
	n.m = nil
	close(n.images)
	applied := n.applied
	c.mu.Unlock()
	if m == nil {
		c.Fatalf("node %d is down", id)
	}
	if cut {
		n.disk.CutAt(0)
	}
	applied.Wait()
	ctx := context.Background()
	if err := m.Close(ctx); err != nil && !cut {
		c.Errorf("close node %d: %v", id, err)
	}
	if cut {
		n.disk.Restart()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fenceLocked(id)
}

// wipe gives a node that is down an empty disk.
func (c *cluster) wipe(id kafka.NodeID) {
	n := c.nodes[id]
	n.disk = faultfs.NewDisk(c.seed + 1000 + uint64(id))
	n.fs = &gateFS{FS: n.disk}
	n.format()
}

func (c *cluster) close() {
	for _, id := range c.ids() {
		c.mu.Lock()
		up := c.nodes[id].m != nil
		c.mu.Unlock()
		if up {
			c.stop(id, false)
		}
	}
}

func (c *cluster) ids() []kafka.NodeID {
	var ids []kafka.NodeID
	for id := range c.nodes {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// change applies metadata records and tells all nodes.
func (c *cluster) change(records ...sysrecord.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changeLocked(records...)
}

func (c *cluster) changeLocked(records ...sysrecord.Record) {
	c.Helper()
	u := c.image.Update()
	for _, r := range records {
		if err := u.Apply(meta.Entry{Record: r}); err != nil {
			c.Fatal(err)
		}
	}
	c.image = u.Image(c.image.Offset()+1, 1, 0)
	for _, n := range c.nodes {
		switch {
		case n.m == nil:
		case n.held != nil:
			n.held = append(n.held, c.image)
		default:
			n.images <- c.image
		}
	}
}

// hold keeps the metadata from a node, until release.
func (c *cluster) hold(id kafka.NodeID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[id].held = []*meta.Image{}
}

func (c *cluster) release(id kafka.NodeID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[id]
	for _, image := range n.held {
		if n.m != nil {
			n.images <- image
		}
	}
	n.held = nil
}

// fenceLocked takes a node out of all in-sync sets but those in which it is alone, and elects others.
func (c *cluster) fenceLocked(id kafka.NodeID) {
	b, _ := c.image.Broker(id)
	fence := sysrecord.NewBrokerRegistrationChangeRecord()
	fence.BrokerID, fence.BrokerEpoch, fence.Fenced = id, b.Epoch, 1
	records := []sysrecord.Record{fence}
	for t := range c.image.Topics() {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			r := sysrecord.NewPartitionChangeRecord()
			r.TopicID, r.PartitionID = t.ID, int32(i)
			changed := false
			others := slices.DeleteFunc(slices.Clone(p.ISR), func(other kafka.NodeID) bool { return other == id })
			if len(others) < len(p.ISR) && len(others) > 0 {
				r.ISR, changed = others, true
			}
			if p.Leader == id {
				changed = true
				r.Leader = kafka.NoNode
				for _, other := range p.Replicas {
					if slices.Contains(others, other) && c.image.Alive(other) {
						r.Leader = other
						break
					}
				}
			}
			if changed {
				records = append(records, r)
			}
		}
	}
	c.changeLocked(records...)
}

// electLocked gives partitions without a leader one that is in sync and up.
func (c *cluster) electLocked() {
	var records []sysrecord.Record
	for t := range c.image.Topics() {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			if p.Leader != kafka.NoNode {
				continue
			}
			for _, id := range p.ISR {
				if c.image.Alive(id) {
					r := sysrecord.NewPartitionChangeRecord()
					r.TopicID, r.PartitionID, r.Leader = t.ID, int32(i), id
					records = append(records, r)
					break
				}
			}
		}
	}
	if len(records) > 0 {
		c.changeLocked(records...)
	}
}

// elect makes a node the leader in a new epoch, in sync or not.
func (c *cluster) elect(topic string, index int32, leader kafka.NodeID, isr ...kafka.NodeID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, _ := c.image.Topic(topic)
	r := sysrecord.NewPartitionChangeRecord()
	r.TopicID, r.PartitionID, r.Leader = t.ID, index, leader
	r.ISR = isr
	c.changeLocked(r)
}

// topic creates a topic; the first replica leads.
func (c *cluster) topic(name string, partitions int32, replicas []kafka.NodeID, settings ...string) {
	c.Helper()
	id := kafka.NewUUID(randomBytes)
	created := sysrecord.NewTopicRecord()
	created.Name, created.TopicID = name, id
	records := []sysrecord.Record{created}
	for i := range partitions {
		p := sysrecord.NewPartitionRecord()
		p.TopicID, p.PartitionID = id, i
		p.Replicas, p.ISR, p.Leader, p.LeaderEpoch = replicas, replicas, replicas[int(i)%len(replicas)], 0
		for _, r := range replicas {
			p.Directories = append(p.Directories, c.nodes[r].firstDir)
		}
		records = append(records, p)
	}
	for _, s := range settings {
		records = append(records, configRecord(name, s))
	}
	c.change(records...)
}

func (c *cluster) partition(topic string, index int32) meta.Partition {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.image.Partition(kafka.TopicPartition{Topic: topic, Partition: index})
	if !ok {
		return meta.Partition{Leader: kafka.NoNode}
	}
	return *p
}

// manager returns a node's Manager, or nil while it is down.
func (c *cluster) manager(id kafka.NodeID) *Manager {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.nodes[id]; n != nil {
		return n.m
	}
	return nil
}

// alterPartition is the controller's side of AlterPartition.
func (c *cluster) alterPartition(from kafka.NodeID, req meta.AlterPartition) (meta.AlterPartitionResult, error) {
	time.Sleep(time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.refuse != kafka.None {
		return meta.AlterPartitionResult{}, c.refuse
	}
	if b, ok := c.image.Broker(from); !ok || b.Epoch != req.Epoch {
		return meta.AlterPartitionResult{}, kafka.StaleBrokerEpoch
	}
	var result meta.AlterPartitionResult
	for _, t := range req.Topics {
		rows := meta.AlterPartitionTopicResult{ID: t.ID}
		for _, p := range t.Partitions {
			rows.Partitions = append(rows.Partitions, c.alterLocked(from, t.ID, p))
		}
		result.Topics = append(result.Topics, rows)
	}
	return result, nil
}

func (c *cluster) alterLocked(from kafka.NodeID, id kafka.TopicID, p meta.PartitionAlteration) meta.AlteredPartition {
	failed := func(code kafka.Error) meta.AlteredPartition { return meta.AlteredPartition{Index: p.Index, Err: code} }
	t, ok := c.image.TopicByID(id)
	if !ok {
		return failed(kafka.UnknownTopicId)
	}
	is := &t.Partitions[p.Index]
	switch {
	case is.Leader != from:
		return failed(kafka.InvalidRequest)
	case p.LeaderEpoch < is.LeaderEpoch:
		return failed(kafka.FencedLeaderEpoch)
	case p.LeaderEpoch > is.LeaderEpoch || p.PartitionEpoch > is.PartitionEpoch:
		return failed(kafka.NotController)
	case p.PartitionEpoch < is.PartitionEpoch:
		return failed(kafka.InvalidUpdateVersion)
	}
	r := sysrecord.NewPartitionChangeRecord()
	r.TopicID, r.PartitionID = id, p.Index
	for _, member := range p.ISR {
		b, known := c.image.Broker(member.Broker)
		if !known || b.Fenced || member.Epoch != meta.NoBrokerEpoch && member.Epoch != b.Epoch {
			return failed(kafka.IneligibleReplica)
		}
		r.ISR = append(r.ISR, member.Broker)
	}
	c.changeLocked(r)
	t, _ = c.image.TopicByID(id)
	is = &t.Partitions[p.Index]
	return meta.AlteredPartition{
		Index: p.Index, Leader: is.Leader, LeaderEpoch: is.LeaderEpoch, ISR: is.ISR, PartitionEpoch: is.PartitionEpoch,
	}
}

// clusterPeers is how one node reaches the others.
type clusterPeers struct{ n *clusterNode }

// reach returns the other node, unless it is down or cut off.
func (c *cluster) reach(from, to kafka.NodeID) (*Manager, *session.Cache, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[to]
	if n == nil || n.m == nil || c.cuts[[2]kafka.NodeID{from, to}] {
		return nil, nil, errDown
	}
	return n.m, n.sessions, nil
}

func (c *cluster) delay() {
	c.mu.Lock()
	d := time.Duration(c.random.IntN(300)) * time.Microsecond
	c.mu.Unlock()
	time.Sleep(d)
}

// cut loses all that goes from one node to another, until heal.
func (c *cluster) cut(from, to kafka.NodeID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cuts[[2]kafka.NodeID{from, to}] = true
}

func (c *cluster) heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.cuts)
}

func (p clusterPeers) Fetch(ctx context.Context, from kafka.NodeID, _ int, req *peer.FetchRequest) (*peer.FetchResponse, error) {
	c := p.n.c
	c.delay()
	m, sessions, err := c.reach(p.n.id, from)
	if err != nil {
		return nil, err
	}
	var named []session.Partition
	var forget []session.Key
	for _, t := range req.Topics {
		for _, q := range t.Partitions {
			named = append(named, session.Partition{
				Key: session.Key{ID: t.ID, Partition: q.Index}, CurrentLeaderEpoch: q.CurrentLeaderEpoch, FetchOffset: q.Offset,
				LastFetchedEpoch: q.LastFetchedEpoch, LogStart: q.LogStart, MaxBytes: q.MaxBytes,
			})
		}
	}
	for _, t := range req.Forgotten {
		for _, index := range t.Partitions {
			forget = append(forget, session.Key{ID: t.ID, Partition: index})
		}
	}
	c.mu.Lock()
	own, parts, err := sessions.Begin(session.Request{
		ID: session.ID(req.SessionID), Epoch: req.SessionEpoch, ByID: true, Follower: true, Partitions: named, Forget: forget,
	}, time.Now().UnixMilli(), nil)
	c.mu.Unlock()
	if err != nil {
		code, _ := kafka.Answer(err)
		return &peer.FetchResponse{Error: code}, nil
	}
	ask := FetchRequest{
		ReplicaID: req.Replica, ReplicaEpoch: req.BrokerEpoch, MaxWaitMs: req.MaxWaitMs, MinBytes: req.MinBytes, MaxBytes: req.MaxBytes,
	}
	for _, q := range parts {
		ask.Partitions = append(ask.Partitions, FetchPartition{
			TopicID: q.ID, Partition: q.Partition, CurrentLeaderEpoch: q.CurrentLeaderEpoch, LastFetchedEpoch: q.LastFetchedEpoch,
			Offset: q.FetchOffset, LogStart: q.LogStart, MaxBytes: q.MaxBytes,
		})
	}
	answered := make(chan *peer.FetchResponse, 1)
	m.Read(&ask, func(rows []FetchResult) { answered <- c.response(sessions, &own, parts, rows) })
	select {
	case resp := <-answered:
		c.delay()
		if _, _, err := c.reach(from, p.n.id); err != nil {
			return nil, err
		}
		return resp, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *cluster) response(sessions *session.Cache, own *session.Fetch, parts []session.Partition, rows []FetchResult) *peer.FetchResponse {
	answers := make([]session.Answer, len(rows))
	for i := range rows {
		r := &rows[i]
		answers[i] = session.Answer{Error: r.Err, HighWatermark: r.HighWatermark, LogStart: r.LogStart, Bytes: r.Chunk.Len, Diverging: r.Diverges}
	}
	resp := &peer.FetchResponse{}
	c.mu.Lock()
	id, err := sessions.End(own, parts, answers, time.Now().UnixMilli(), func(i int, must bool) {
		if !must {
			return
		}
		r := &rows[i]
		row := peer.FetchedPartition{
			TopicID: parts[i].ID, Index: parts[i].Partition, Error: r.Err, HighWatermark: r.HighWatermark, LastStable: r.LastStable, LogStart: r.LogStart,
		}
		if r.Diverges {
			row.Diverging = &peer.EpochEnd{Epoch: r.SharedEpoch, End: r.SharedEnd}
		}
		if r.Chunk.Len > 0 {
			row.Records = make([]byte, r.Chunk.Len)
			if _, err := r.Chunk.File.ReadAt(row.Records, r.Chunk.Pos); err != nil {
				row.Records = nil
				row.Error = kafka.UnknownServerError
			}
		}
		resp.Partitions = append(resp.Partitions, row)
	})
	c.mu.Unlock()
	for i := range rows {
		rows[i].Chunk.Release()
	}
	resp.SessionID = int32(id)
	resp.Error, _ = kafka.Answer(err)
	return resp
}

func (p clusterPeers) ListOffset(_ context.Context, from kafka.NodeID, tp kafka.TopicPartition, epoch kafka.Epoch, timestampMs int64) (kafka.Offset, error) {
	c := p.n.c
	c.delay()
	m, _, err := c.reach(p.n.id, from)
	if err != nil {
		return kafka.NoOffset, err
	}
	found, err := m.ListOffset(tp, OffsetQuery{TimestampMs: timestampMs, CurrentLeaderEpoch: epoch, Debug: true})
	return found.Offset, err
}

// produce sends a batch to the leader as the metadata has it, and waits for the answer.
func (c *cluster) produce(topic string, index int32, acks int16, timeoutMs int32, batch []byte) ProduceResult {
	m := c.manager(c.partition(topic, index).Leader)
	if m == nil {
		return failedProduce(kafka.NetworkException)
	}
	answered := make(chan ProduceResult, 1)
	m.Produce(&ProduceRequest{Acks: acks, TimeoutMs: timeoutMs, Partitions: []ProducePartition{
		{Topic: topic, Partition: index, Records: batch},
	}}, func(r []ProduceResult) { answered <- r[0] })
	return <-answered
}

// mustProduce is produce with acks=all, again while the metadata is on its way to the leader, and the test ends if it is refused.
func (c *cluster) mustProduce(topic string, index int32, values ...string) kafka.Offset {
	c.Helper()
	r := c.produce(topic, index, -1, 30_000, plain(values...))
	for tries := 0; tries < 100 && (r.Err == kafka.UnknownTopicOrPartition || r.Err == kafka.NotLeaderOrFollower); tries++ {
		time.Sleep(time.Millisecond)
		r = c.produce(topic, index, -1, 30_000, plain(values...))
	}
	if r.Err != kafka.None {
		c.Fatalf("produce to %s-%d: %v %s\n%s", topic, index, r.Err.Name(), r.Message, c.log)
	}
	return r.BaseOffset
}

// on is a node for the helpers of tests of one node.
func (c *cluster) on(id kafka.NodeID) *world { return &world{TB: c.TB, m: c.manager(id), log: c.log} }

// fetch reads a partition as a consumer does, from a node.
func (c *cluster) fetch(id kafka.NodeID, topic string, index int32, from kafka.Offset, waitMs int32) fetched {
	if c.manager(id) == nil {
		return fetched{FetchResult: failedFetch(kafka.NetworkException)}
	}
	req := FetchRequest{ReplicaID: -1, FromFollower: true, MaxWaitMs: waitMs, MinBytes: 1, MaxBytes: 1 << 20, Partitions: []FetchPartition{at(topic, index, from)}}
	return (<-c.on(id).readRequest(req))[0]
}

// values reads all committed records of a partition from a node.
func (c *cluster) values(id kafka.NodeID, topic string, index int32) []string {
	c.Helper()
	var all []string
	from := kafka.Offset(0)
	for {
		got := c.fetch(id, topic, index, from, 0)
		if got.Err != kafka.None {
			c.Fatalf("read %s-%d from %d at node %d: %v\n%s", topic, index, from, id, got.Err.Name(), c.log)
		}
		if len(got.bytes) == 0 {
			return all
		}
		var values []string
		values, from = decodeValues(c, got.bytes, from)
		all = append(all, values...)
	}
}

// waitFor waits until a condition holds.
func (c *cluster) waitFor(what string, condition func() bool) {
	c.Helper()
	for began := time.Now(); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 5*time.Minute {
			for _, id := range c.ids() {
				if m := c.manager(id); m != nil {
					for p := range m.replicas() {
						c.Logf("node %d: %s ends at %d, flushed %d, high watermark %d, leads in %d, follows in %d", id, p.tp, p.log.EndOffset(), p.log.FlushedOffset(),
							p.high.Load(), p.epoch.Load(), p.following.Load())
					}
				}
			}
			c.Fatalf("%s: not in 5 minutes of the bubble's time\n%s", what, c.log)
		}
	}
}

// waitLeads waits until a node leads tp0 in the newest epoch.
func (c *cluster) waitLeads(id kafka.NodeID) {
	c.Helper()
	c.waitFor(fmt.Sprintf("node %d leads", id), func() bool {
		epoch, leads := c.manager(id).Leads(tp0)
		return leads && epoch == c.partition("t", 0).LeaderEpoch
	})
}

// waitInSync waits until the in-sync set of a partition is that.
func (c *cluster) waitInSync(topic string, index int32, isr ...kafka.NodeID) {
	c.Helper()
	c.waitFor(fmt.Sprintf("%s-%d in sync on %v", topic, index, isr), func() bool {
		is := slices.Clone(c.partition(topic, index).ISR)
		slices.Sort(is)
		return slices.Equal(is, isr)
	})
}

// waitSame waits until a partition ends, and is committed up to, the same offset on all of its replicas that are up, and compares their bytes.
func (c *cluster) waitSame(topic string, index int32) {
	c.Helper()
	has := c.partition(topic, index)
	tp := kafka.TopicPartition{Topic: topic, Partition: index}
	replicas := func() (found []*replica) {
		for _, id := range has.Replicas {
			if m := c.manager(id); m != nil {
				if p, err := m.find(kafka.TopicID{}, tp.Topic, tp.Partition); err == nil && p.log != nil {
					found = append(found, p)
				}
			}
		}
		return found
	}
	c.waitFor(tp.String()+" the same on all replicas", func() bool {
		all := replicas()
		for _, p := range all {
			if p.log.EndOffset() != all[0].log.EndOffset() || p.high.Load() != int64(p.log.EndOffset()) || p.log.FlushedOffset() != p.log.EndOffset() {
				return false
			}
		}
		return len(all) > 0
	})
	var want []record.Batch
	for i, p := range replicas() {
		var got []record.Batch
		for b, err := range p.log.Batches(p.log.StartOffset()) {
			if err != nil {
				c.Fatalf("read %s on node %d: %v", tp, p.m.node, err)
			}
			got = append(got, slices.Clone(b))
		}
		if i == 0 {
			want = got
			continue
		}
		if !slices.EqualFunc(got, want, func(a, b record.Batch) bool { return slices.Equal(a, b) }) {
			c.Errorf("%s differs between nodes: %d batches on node %d, %d on the first; seed %d\n%s", tp, len(got), p.m.node, len(want), c.seed, c.log)
		}
	}
}

// tp0 is the partition that most tests use.
var tp0 = kafka.TopicPartition{Topic: "t"}

// replica is a partition on a node that is up.
func (c *cluster) replica(id kafka.NodeID, topic string, index int32) *replica {
	c.Helper()
	p, err := c.manager(id).find(kafka.TopicID{}, topic, index)
	if err != nil {
		c.Fatalf("%s-%d on node %d: %v", topic, index, id, err)
	}
	return p
}

// bounce restarts a node with all that it had, and the controller hears of the new start alone.
func (c *cluster) bounce(id kafka.NodeID) {
	c.Helper()
	n := c.nodes[id]
	c.mu.Lock()
	m := n.m
	n.m = nil
	close(n.images)
	c.mu.Unlock()
	n.applied.Wait()
	if err := m.Close(context.Background()); err != nil {
		c.Fatal(err)
	}
	n.start()
}

func (c *cluster) remove(topic string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, _ := c.image.Topic(topic)
	r := sysrecord.NewRemoveTopicRecord()
	r.TopicID = t.ID
	c.changeLocked(r)
}

// reassign gives a partition other replicas, and another in-sync set unless that is nil.
func (c *cluster) reassign(topic string, index int32, replicas, isr []kafka.NodeID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, _ := c.image.Topic(topic)
	r := sysrecord.NewPartitionChangeRecord()
	r.TopicID, r.PartitionID, r.Replicas, r.ISR = t.ID, index, replicas, isr
	c.changeLocked(r)
}

func (c *cluster) setRefuse(code kafka.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = code
}
