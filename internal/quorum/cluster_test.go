package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/sysrecord"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// cluster is a few nodes with disks of their own, in the time of a synctest bubble. Messages take a ms or two.
type cluster struct {
	t       testing.TB
	seed    uint64
	options func(*Options)
	nodes   []*clusterNode

	mu      sync.Mutex // guards what follows
	random  *rand.Rand
	cut     map[[2]kafka.NodeID]bool // from, to
	leaders map[kafka.Epoch]kafka.NodeID
	faults  []string
	verbose strings.Builder
}

// clusterNode is one machine.
type clusterNode struct {
	c        *cluster
	id       kafka.NodeID
	disk     *faultfs.Disk
	dir      *commitlog.Dir
	node     *Node       // nil while the process is down
	life     *lifeOfNode // of the process
	starting sync.WaitGroup

	faults     *faultfs.Injector // between the process and the disk, or nil
	cutAtStart bool              // the power went while a process opened its files
	key        kraft.Voter
}

// lifeOfNode is what one process saw.
type lifeOfNode struct {
	last   *meta.Image
	failed chan struct{} // closed when its metadata log failed
}

var errRefused = refusedError{}

// refusedError is what a Transport says of an address where nobody listens.
type refusedError struct{}

func (refusedError) Error() string { return "connection refused" }
func (refusedError) Dead() bool    { return true }

var errCut = errors.New("the network is cut")

func newCluster(t testing.TB, seed uint64, size int, options func(*Options)) *cluster {
	c := &cluster{
		t: t, seed: seed, options: options, random: rand.New(rand.NewPCG(seed, 7)),
		cut: map[[2]kafka.NodeID]bool{}, leaders: map[kafka.Epoch]kafka.NodeID{},
	}
	var voters []kraft.Voter
	for range size {
		voters = append(voters, c.add().key)
	}
	for _, cn := range c.nodes {
		c.must(cn.format(voters))
	}
	return c
}

// add adds a machine, of which the disk is blank.
func (c *cluster) add() *clusterNode {
	id := kafka.NodeID(len(c.nodes) + 1)
	cn := &clusterNode{c: c, id: id, disk: faultfs.NewDisk(c.seed*100 + uint64(id))}
	cn.key = kraft.Voter{ID: id, Directory: kafka.NewUUID(c.fill), MaxVersion: 1, Endpoints: []kraft.Endpoint{c.endpoint(id)}}
	c.nodes = append(c.nodes, cn)
	return cn
}

func (c *cluster) endpoint(id kafka.NodeID) kraft.Endpoint {
	return kraft.Endpoint{Name: "CONTROLLER", Host: "node", Port: 9000 + uint16(id)}
}

func (c *cluster) fill(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range b {
		b[i] = byte(c.random.Uint32())
	}
}

func (c *cluster) chance(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n)
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.fatal("%v", err)
	}
}

func (c *cluster) fatal(format string, args ...any) {
	c.t.Helper()
	c.mu.Lock()
	said := c.verbose.String()
	c.mu.Unlock()
	if len(said) > 20_000 {
		said = said[len(said)-20_000:]
	}
	c.t.Fatalf("seed %d: %s\n%s", c.seed, fmt.Sprintf(format, args...), said)
}

func (c *cluster) fault(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

// Write takes what the nodes log, for failures.
func (c *cluster) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteLeaders(p)
	return c.verbose.Write(p)
}

func (cn *clusterNode) path() string { return "/data" }

// format makes a voter's directory, as the format command does with the initial voters; without voters one of a node that joins.
func (cn *clusterNode) format(voters []kraft.Voter) error {
	if err := cn.disk.MkdirAll(cn.path()); err != nil {
		return err
	}
	p := commitlog.MetaProperties{ClusterID: "c1uster", NodeID: cn.id, ID: cn.key.Directory}
	if len(voters) == 0 {
		return commitlog.FormatDir(cn.disk, cn.path(), p)
	}
	return FormatVoters(cn.disk, cn.path(), p, voters, time.Now())
}

// start starts the process and returns when it serves, or can't. Within a bubble it may be called on a goroutine.
func (cn *clusterNode) start(ctx context.Context) error {
	if err := cn.launch(); err != nil {
		return err
	}
	return cn.node.Start(ctx, cn.registration())
}

func (cn *clusterNode) launch() error {
	c := cn.c
	fs := vfs.FS(cn.disk)
	if cn.faults != nil {
		fs = cn.faults
	}
	dir, err := commitlog.OpenDir(fs, cn.path(), c.fill)
	if err != nil {
		return err
	}
	life := &lifeOfNode{failed: make(chan struct{})}
	e := c.endpoint(cn.id)
	o := Options{
		FS: fs, Dir: dir, NodeID: cn.id, ClusterID: "c1uster", Configs: anyConfig{}, Random: c.fill,
		Controller: meta.Endpoint{Name: e.Name, Host: e.Host, Port: e.Port, Security: "PLAINTEXT"},
		Transport:  &network{c, cn.id}, Log: slog.New(slog.NewTextHandler(c, &slog.HandlerOptions{Level: slog.LevelDebug})).With("node", cn.id),
		OnFailure: func(error) { close(life.failed) }, ReplicationFactor: 3,
	}
	for _, other := range c.nodes {
		o.Bootstrap = append(o.Bootstrap, c.endpoint(other.id))
	}
	if c.options != nil {
		c.options(&o)
	}
	node, err := Open(o)
	if err != nil {
		return errors.Join(err, dir.Close(false, -1))
	}
	node.Watch(func(old, now *meta.Image) {
		if life.last != nil && life.last != old || life.last == nil && old.Offset() != kafka.NoOffset || now.Offset() <= old.Offset() {
			c.fault("node %d: watched %d to %d", cn.id, old.Offset(), now.Offset())
		}
		life.last = now
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	cn.dir, cn.node, cn.life = dir, node, life
	return nil
}

func (cn *clusterNode) registration() meta.Registration {
	return meta.Registration{
		Incarnation: kafka.NewUUID(cn.c.fill), LogDirs: []kafka.UUID{cn.dir.ID()}, Unclean: !cn.dir.WasClean(), PreviousEpoch: meta.NoBrokerEpoch,
		Endpoints: []meta.Endpoint{{Name: "PLAINTEXT", Host: "127.0.0.1", Port: 9092, Security: "PLAINTEXT"}},
	}
}

// running returns the process, or nil.
func (cn *clusterNode) running() *Node {
	cn.c.mu.Lock()
	defer cn.c.mu.Unlock()
	return cn.node
}

// down takes the process from the network.
func (cn *clusterNode) down() *Node {
	cn.c.mu.Lock()
	defer cn.c.mu.Unlock()
	node := cn.node
	cn.node = nil
	return node
}

// stop ends the process in order.
func (cn *clusterNode) stop() {
	cn.c.t.Helper()
	node := cn.running()
	cn.c.must(node.Leave(context.Background()))
	cn.c.must(node.Close())
	cn.down()
	cn.c.must(cn.dir.Close(true, node.BrokerEpoch()))
}

// kill ends the process as kill -9 does, or with it the power.
func (cn *clusterNode) kill(power bool) {
	node := cn.down()
	node.Kill()
	if power {
		cn.disk.Restart()
		return
	}
	_ = cn.dir.Close(false, meta.NoBrokerEpoch) // lets go of the lock, as the system does
}

// network is how one node reaches the others.
type network struct {
	c    *cluster
	from kafka.NodeID
}

// reach returns the node at an address, when a message got there.
func (n *network) reach(ctx context.Context, to kraft.Node) (*Node, kafka.NodeID, error) {
	id := kafka.NodeID(to.Endpoint.Port - 9000)
	time.Sleep(time.Duration(1+n.c.chance(2)) * time.Millisecond)
	n.c.mu.Lock()
	cut := n.c.cut[[2]kafka.NodeID{n.from, id}]
	var node *Node
	for _, cn := range n.c.nodes {
		if cn.id == id {
			node = cn.node
		}
	}
	n.c.mu.Unlock()
	switch {
	case cut:
		<-ctx.Done()
		return nil, id, errCut
	case node == nil:
		return nil, id, errRefused
	}
	return node, id, ctx.Err()
}

// back is the way of an answer.
func (n *network) back(ctx context.Context, id kafka.NodeID, node *Node) error {
	time.Sleep(time.Duration(1+n.c.chance(2)) * time.Millisecond)
	n.c.mu.Lock()
	cut := n.c.cut[[2]kafka.NodeID{id, n.from}]
	alive := false
	for _, cn := range n.c.nodes {
		alive = alive || cn.id == id && cn.node == node
	}
	n.c.mu.Unlock()
	if cut {
		<-ctx.Done()
		return errCut
	}
	if !alive {
		return errRefused // it died meanwhile
	}
	return ctx.Err()
}

// call carries one request.
func call[T any](ctx context.Context, n *network, to kraft.Node, ask func(*Node) (T, error)) (answer T, err error) {
	node, id, err := n.reach(ctx, to)
	if err != nil {
		return answer, err
	}
	answer, err = ask(node)
	if lost := n.back(ctx, id, node); lost != nil {
		return answer, lost
	}
	return answer, err
}

func (n *network) Ask(ctx context.Context, to kraft.Node, req kraft.Request) (kraft.Response, error) {
	if _, ok := req.(*kraft.VersionsRequest); ok {
		return call(ctx, n, to, func(*Node) (kraft.Response, error) { return &kraft.VersionsResponse{MaxVersion: 1}, nil })
	}
	return call(ctx, n, to, func(node *Node) (kraft.Response, error) {
		resp, err := node.Handle(ctx, req)
		if fetched, ok := resp.(*kraft.FetchResponse); ok && err == nil {
			copied := *fetched
			copied.Records = slices.Clone(fetched.Records)
			return &copied, nil
		}
		return resp, err
	})
}

func (n *network) RegisterBroker(ctx context.Context, to kraft.Node, cmd meta.Registration) (kafka.BrokerEpoch, error) {
	return call(ctx, n, to, func(node *Node) (kafka.BrokerEpoch, error) { return node.RegisterBroker(ctx, cmd) })
}

func (n *network) Heartbeat(ctx context.Context, to kraft.Node, cmd meta.Heartbeat) (meta.HeartbeatResult, error) {
	return call(ctx, n, to, func(node *Node) (meta.HeartbeatResult, error) { return node.Heartbeat(ctx, cmd) })
}

func (n *network) AllocateProducerIDs(ctx context.Context, to kraft.Node, broker kafka.NodeID, epoch kafka.BrokerEpoch) (ProducerIDs, error) {
	return call(ctx, n, to, func(node *Node) (ProducerIDs, error) { return node.AllocateProducerIDs(ctx, broker, epoch) })
}

func (n *network) AssignDirs(ctx context.Context, to kraft.Node, cmd meta.AssignDirs) (meta.AssignDirsResult, error) {
	return call(ctx, n, to, func(node *Node) (meta.AssignDirsResult, error) { return node.AssignDirs(ctx, cmd) })
}

func (n *network) RegisterController(ctx context.Context, to kraft.Node, cmd meta.RegisterController) error {
	_, err := call(ctx, n, to, func(node *Node) (struct{}, error) { return struct{}{}, node.RegisterController(ctx, cmd) })
	return err
}

// split cuts the network between some nodes and the rest, both ways; heal mends it.
func (c *cluster) split(ids ...kafka.NodeID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.nodes {
		for _, b := range c.nodes {
			if slices.Contains(ids, a.id) != slices.Contains(ids, b.id) {
				c.cut[[2]kafka.NodeID{a.id, b.id}] = true
			}
		}
	}
}

func (c *cluster) heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.cut)
}

// startAll starts all nodes that are down, at once, and waits until they serve.
func (c *cluster) startAll() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var starting sync.WaitGroup
	for _, cn := range c.nodes {
		if cn.running() != nil {
			continue
		}
		starting.Go(func() {
			if err := cn.start(ctx); err != nil {
				c.fault("start node %d: %v", cn.id, err)
			}
		})
	}
	starting.Wait()
	c.check()
}

// check fails if anything was seen that must not be.
func (c *cluster) check() {
	c.t.Helper()
	c.mu.Lock()
	faults := slices.Clone(c.faults)
	c.mu.Unlock()
	if len(faults) > 0 {
		c.fatal("%s", strings.Join(faults, "\n"))
	}
}

// stopAll ends all processes.
func (c *cluster) stopAll() {
	for _, cn := range c.nodes {
		if cn.running() != nil {
			cn.kill(false)
		}
	}
	c.check()
}

// active returns the active controller, as soon as there is one among the nodes that are up and not cut off.
func (c *cluster) active(but ...kafka.NodeID) *clusterNode {
	c.t.Helper()
	var found *clusterNode
	c.until("there is an active controller", func() bool {
		for _, cn := range c.nodes {
			if node := cn.running(); node != nil && node.IsActive() && !slices.Contains(but, cn.id) {
				found = cn
				return true
			}
		}
		return false
	})
	return found
}

// until waits on a condition, for a minute of the bubble.
func (c *cluster) until(what string, condition func() bool) {
	c.t.Helper()
	for range 6000 {
		if condition() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.fatal("for a minute it was not so that %s", what)
}

// settle waits until all nodes that are up have published the same image, and returns its description.
func (c *cluster) settle() string {
	c.t.Helper()
	var texts []string
	c.until("all images are equal", func() bool {
		texts = nil
		var first *meta.Image
		for _, cn := range c.nodes {
			node := cn.running()
			if node == nil {
				continue
			}
			im := node.Image()
			if first == nil {
				first = im
			}
			if im.Offset() != first.Offset() || im.Offset()+1 < node.log.EndOffset() {
				return false
			}
			texts = append(texts, describe(im)+fmt.Sprint("controller ", im.Controller()))
		}
		return true
	})
	for _, text := range texts {
		if text != texts[0] {
			c.fatal("images at one offset differ:\n%s\n%s", texts[0], text)
		}
	}
	c.check()
	return texts[0]
}

// create makes a topic through whoever is the active controller, also if that changes meanwhile.
func (c *cluster) create(name string) {
	c.t.Helper()
	c.until(name+" is made", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		results, err := c.active().running().CreateTopics(ctx, oneTopic(name))
		return err == nil && (results[0].Err == nil || errors.Is(results[0].Err, kafka.TopicAlreadyExists))
	})
}

func TestThreeNodesElectApplyAndFailOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 3, nil)
		defer c.stopAll()
		c.startAll()
		c.create("one")
		before := c.settle()
		if !strings.Contains(before, "topic one") || strings.Count(before, "fenced false") != 3 {
			c.fatal("got\n%s", before)
		}
		leader := c.active()
		leader.kill(false)
		c.create("two")
		c.startAll()
		c.create("three")
		if after := c.settle(); !strings.Contains(after, "topic two") || strings.Count(after, "fenced false") != 3 {
			c.fatal("got\n%s", after)
		}
	})
}

// TestALeaderThatIsCutOffIsReplaced, and what it could not commit is cut from its log when it is back.
func TestALeaderThatIsCutOffIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, 3, nil)
		defer c.stopAll()
		c.startAll()
		c.create("before")
		c.settle()
		old := c.active()
		c.split(old.id)
		var lost [30]error
		var asking sync.WaitGroup
		for i := range lost {
			asking.Go(func() {
				_, lost[i] = old.running().CreateTopics(context.Background(), oneTopic(fmt.Sprint("lost-", i)))
			})
		}
		now := c.active(old.id)
		asking.Wait()
		for _, err := range lost {
			if !errors.Is(err, kafka.NotController) {
				c.fatal("a command of a leader that was replaced: %v, want %v", err, kafka.NotController)
			}
		}
		if _, err := old.running().CreateTopics(context.Background(), oneTopic("refused")); !errors.Is(err, kafka.NotController) {
			c.fatal("a command to a node that does not lead: %v, want %v", err, kafka.NotController)
		}
		results, err := now.running().CreateTopics(context.Background(), oneTopic("after"))
		c.must(errors.Join(err, results[0].Err))
		c.heal()
		if text := c.settle(); !strings.Contains(text, "topic after") || strings.Contains(text, "topic lost-") || strings.Contains(text, "topic refused") {
			c.fatal("got\n%s", text)
		}
		for c.active() != old { // in the same life it leads again
			c.active().kill(false)
			c.active()
			c.startAll()
		}
		for i := range 5 {
			name := fmt.Sprint("again-", i)
			results, err := old.running().CreateTopics(context.Background(), oneTopic(name))
			c.must(errors.Join(err, results[0].Err))
			if _, published := old.running().Image().Topic(name); !published {
				c.fatal("topic %s is answered and not published", name)
			}
		}
	})
}

// TestAFollowerThatIsFarBehindTakesASnapshot, also one that has nothing.
func TestAFollowerThatIsFarBehindTakesASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, 3, func(o *Options) {
			o.SegmentBytes, o.RetentionBytes, o.snapshotsByCaller, o.SnapshotFetchBytes = 4096, 1, true, 1000
		})
		defer c.stopAll()
		c.startAll()
		c.settle()
		leader := c.active()
		behind := c.nodes[leader.id%3]
		behind.kill(false)
		for i := range 40 {
			c.create(fmt.Sprint("topic-", i))
			if i%10 == 9 {
				c.must(leader.running().Snapshot())
			}
		}
		if start := leader.running().log.StartOffset(); start < 50 {
			c.fatal("the leader's log begins at %d", start)
		}
		c.startAll()
		text := c.settle()
		if n := strings.Count(text, "topic topic-"); n != 40 {
			c.fatal("%d topics, want 40:\n%s", n, text)
		}
		if start := behind.running().log.StartOffset(); start < 50 {
			c.fatal("the follower's log begins at %d: it took no snapshot", start)
		}
		behind.kill(true)
		c.startAll()
		if again := c.settle(); strings.Count(again, "topic topic-") != 40 {
			c.fatal("after a power cut:\n%s", again)
		}
	})
}

// TestASnapshotOfTheLeadersTakesThePlaceOfALongerLog: a crash between the end of its download and the cut of the log leaves a log that goes
// beyond the snapshot and is not of the same history.
func TestASnapshotOfTheLeadersTakesThePlaceOfALongerLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 11, 3, func(o *Options) { o.snapshotsByCaller = true })
		defer c.stopAll()
		c.startAll()
		c.create("before")
		c.settle()
		old := c.active()
		c.split(old.id)
		var asking sync.WaitGroup
		for i := range 30 {
			asking.Go(func() { _, _ = old.running().CreateTopics(context.Background(), oneTopic(fmt.Sprint("lost-", i))) })
		}
		now := c.active(old.id)
		asking.Wait()
		old.kill(false)
		c.heal()
		c.create("after")
		c.must(now.running().Snapshot())
		known := now.running().snapshotsKnown()
		newest := known[len(known)-1]
		now.kill(false)
		folder := metadataFolder(old.path())
		content, err := vfs.ReadFile(now.disk, filepath.Join(folder, snapshotName(newest)))
		c.must(err)
		c.must(vfs.WriteFile(old.disk, filepath.Join(folder, snapshotName(newest)), content))
		c.must(old.launch())
		if end := old.running().log.EndOffset(); end != newest.End {
			c.fatal("the log ends at %d, want %d as the snapshot", end, newest.End)
		}
		old.starting.Go(func() { c.must(old.node.Start(context.Background(), old.registration())) })
		c.create("with-its-vote")
		old.starting.Wait()
		c.startAll()
		if text := c.settle(); !strings.Contains(text, "topic after") || !strings.Contains(text, "topic with-its-vote") || strings.Contains(text, "topic lost-") {
			c.fatal("got\n%s", text)
		}
	})
}

// TestABrokerThatIsSilentIsFencedAndComesBack when the network heals, without being started anew.
func TestABrokerThatIsSilentIsFencedAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 4, 3, nil)
		defer c.stopAll()
		c.startAll()
		c.settle()
		leader := c.active()
		silent := c.nodes[leader.id%3]
		epoch := silent.running().BrokerEpoch()
		c.split(silent.id)
		began := time.Now()
		c.until("it is fenced", func() bool { return !leader.running().Image().Alive(silent.id) })
		if after := time.Since(began); after < 7*time.Second || after > 11*time.Second {
			c.fatal("it is fenced after %v, want the session's 9 s", after)
		}
		c.heal()
		c.until("it is in service", func() bool { return leader.running().Image().Alive(silent.id) })
		c.settle()
		if again := silent.running().BrokerEpoch(); again != epoch {
			c.fatal("it has registered again, under epoch %d after %d", again, epoch)
		}
	})
}

func TestABrokerThatStopsInOrderIsLetGoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5, 3, nil)
		defer c.stopAll()
		c.startAll()
		c.settle()
		for _, cn := range []*clusterNode{c.active(), c.nodes[c.active().id%3]} {
			began := time.Now()
			cn.stop()
			if took := time.Since(began); took > 500*time.Millisecond {
				c.fatal("node %d took %v to stop", cn.id, took)
			}
			other := c.active(cn.id)
			if took := time.Since(began); took > time.Second {
				c.fatal("after %v another node leads", took)
			}
			if b, _ := other.running().Image().Broker(cn.id); !b.Fenced && !b.InControlledShutdown {
				c.fatal("broker %d is in service: %+v", cn.id, b)
			}
			c.startAll()
			c.settle()
		}
	})
}

// TestAllNodesStopAtOnce, of which one is the last: there is nobody whom it could wait for.
func TestAllNodesStopAtOnce(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, seed, 3, nil)
			defer c.stopAll()
			c.startAll()
			c.settle()
			began := time.Now()
			var stopping sync.WaitGroup
			for _, cn := range c.nodes {
				stopping.Go(cn.stop)
			}
			stopping.Wait()
			if took := time.Since(began); took > 3*time.Second {
				c.fatal("they took %v to stop", took)
			}
		})
	}
}

// TestProducerIDsOfAllNodesDiffer, whoever gives the blocks.
func TestProducerIDsOfAllNodesDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 6, 3, nil)
		defer c.stopAll()
		c.startAll()
		seen := map[kafka.ProducerID]kafka.NodeID{}
		for round := range 3 {
			for _, cn := range c.nodes {
				for range 700 {
					id, err := cn.running().NextProducerID(t.Context())
					c.must(err)
					if other, twice := seen[id]; twice {
						c.fatal("nodes %d and %d both have producer id %d", other, cn.id, id)
					}
					seen[id] = cn.id
				}
			}
			if round == 1 {
				c.active().kill(true)
				c.startAll()
			}
		}
	})
}

// TestABrokerWhoseProcessIsGoneIsFencedAtOnce, where the controller is told of that, and may register again at once.
func TestABrokerWhoseProcessIsGoneIsFencedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 7, 3, nil)
		defer c.stopAll()
		c.startAll()
		c.settle()
		leader := c.active()
		dead := c.nodes[leader.id%3]
		epoch := dead.running().BrokerEpoch()
		dead.kill(false)
		if err := c.nodes[dead.id%3].running().BrokerDied(t.Context(), dead.id, epoch); !errors.Is(err, kafka.NotController) {
			c.fatal("told to a node that does not lead: %v", err)
		}
		c.must(leader.running().BrokerDied(t.Context(), dead.id, epoch-1)) // of a life before
		if !leader.running().Image().Alive(dead.id) {
			c.fatal("it is fenced for a former life of its")
		}
		c.must(leader.running().BrokerDied(t.Context(), dead.id, epoch))
		if leader.running().Image().Alive(dead.id) {
			c.fatal("it is in service")
		}
		began := time.Now()
		c.startAll()
		if took := time.Since(began); took > time.Second {
			c.fatal("it took %v to come back", took)
		}
		c.settle()
	})
}

// TestAFullDiskOfOneNodeHoldsUpNobody: a follower that has no room is behind until it has, a leader gives up.
func TestAFullDiskOfOneNodeHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 8, 3, nil)
		defer c.stopAll()
		for _, cn := range c.nodes {
			cn.faults = faultfs.Inject(cn.disk)
		}
		c.startAll()
		c.settle()
		leader := c.active()
		full := c.nodes[leader.id%3]
		full.faults.Add(faultfs.Rule{Op: faultfs.OpWrite, Name: ".log", Times: 20, Err: syscall.ENOSPC})
		for i := range 5 {
			c.create(fmt.Sprint("topic-", i))
		}
		if text := c.settle(); !strings.Contains(text, "topic topic-4") {
			c.fatal("got\n%s", text)
		}
		leader.faults.Add(faultfs.Rule{Op: faultfs.OpWrite, Name: ".log", Times: 3, Err: syscall.ENOSPC})
		refused := 0
		for i := range 5 {
			results, err := c.active().running().CreateTopics(t.Context(), oneTopic(fmt.Sprint("perhaps-", i)))
			if errors.Is(err, kafka.KafkaStorageError) {
				refused++
			} else if err == nil {
				err = results[0].Err
				c.must(err)
			}
		}
		if refused != 3 {
			c.fatal("%d commands were refused, want 3", refused)
		}
		c.create("last")
		c.settle()
	})
}

// TestALeaderGivesUpWithinALargeDecision, as when the process stood still before it: the rest of the decision is not appended.
func TestALeaderGivesUpWithinALargeDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 10, 3, nil)
		defer c.stopAll()
		c.startAll()
		c.settle()
		old := c.active().running()
		err := old.propose(t.Context(), func(*meta.Image) (entries []meta.Entry, _ error) {
			old.began = old.began.Add(-time.Minute) // so long nobody was heard of
			for i := range batchEntriesMax + 1 {
				entries = append(entries, meta.Entry{Record: &sysrecord.ConfigRecord{
					ResourceType: int8(meta.BrokerResource), Name: fmt.Sprint("name-", i), Value: new("value"),
				}})
			}
			return entries, nil
		})
		if !errors.Is(err, kafka.NotController) {
			c.fatal("got %v, want %v", err, kafka.NotController)
		}
		c.create("after")
		c.settle()
	})
}

// TestOneOfThreeWaitsForTheOthers, and says so when it is to give up.
func TestOneOfThreeWaitsForTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 9, 3, nil)
		defer c.stopAll()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		began := time.Now()
		err := c.nodes[0].start(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no active controller") || time.Since(began) > 21*time.Second {
			c.fatal("after %v: %v", time.Since(began), err)
		}
		c.nodes[0].kill(false)
		c.startAll()
		c.settle()
	})
}
