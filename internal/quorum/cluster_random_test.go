package quorum

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// TestClustersLoseNothingAcknowledged lets clients make and delete topics while nodes are killed, lose their power at any operation of
// the disk, are stopped, cut off both ways and one way, and write snapshots. In the end all nodes have the same image and log, with all
// that was acknowledged. No epoch has two leaders. More seeds: CLUSTER_SEEDS=100 go test -run TestClustersLose ./internal/quorum; one again:
// CLUSTER_SEED=n, which has the same faults, though not the same order of what happens at one time.
func TestClustersLoseNothingAcknowledged(t *testing.T) {
	first, count := uint64(time.Now().UnixNano())%1_000_000, 6
	if text := os.Getenv("CLUSTER_SEEDS"); text != "" {
		count, _ = strconv.Atoi(text)
	}
	if text := os.Getenv("CLUSTER_SEED"); text != "" {
		seed, _ := strconv.Atoi(text)
		first, count = uint64(seed), 1
	}
	acknowledged := 0
	for i := range count {
		seed := first + uint64(i)
		synctest.Test(t, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("again: CLUSTER_SEED=%d go test -run TestClustersLose ./internal/quorum", seed)
				}
			}()
			s := newStorm(t, seed)
			defer func() { // also of a test that has failed nothing may go on
				s.end()
				for _, cn := range s.nodes {
					cn.end(true)
				}
			}()
			acknowledged += s.run()
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d commands acknowledged", acknowledged)
	if count > 4 && acknowledged < 20*count {
		t.Errorf("%d commands of %d clusters were acknowledged: that shows little", acknowledged, count)
	}
}

// storm is a cluster in bad weather.
type storm struct {
	*cluster
	faults  *rand.Rand
	expects sync.Mutex // guards what follows
	there   map[string]bool
	gone    map[string]bool
	count   int
	over    bool
}

func newStorm(t testing.TB, seed uint64) *storm {
	s := &storm{faults: rand.New(rand.NewPCG(seed, 99)), there: map[string]bool{}, gone: map[string]bool{}}
	size := []int{3, 3, 3, 5}[s.faults.IntN(4)]
	s.cluster = newCluster(t, seed, size, func(o *Options) {
		o.SegmentBytes, o.RetentionBytes, o.SnapshotBytes = 4000, 20_000, 5000
		o.SnapshotFetchBytes = 3000
	})
	return s
}

// run returns how many commands were acknowledged.
func (s *storm) run() int {
	s.startAll()
	var clients sync.WaitGroup
	for client := range 3 {
		clients.Go(func() { s.ask(client) })
	}
	for range 40 {
		s.strike()
		s.check()
	}
	s.heal()
	for _, cn := range s.nodes {
		cn.end(true)
		cn.disk.Restart() // what it was to do is forgotten
	}
	for _, cn := range s.nodes {
		cn.mend()
	}
	s.end()
	clients.Wait()
	text := s.settle()
	for name := range s.there {
		if !strings.Contains(text, "topic "+name+" ") {
			s.fatal("topic %s was acknowledged and is gone", name)
		}
	}
	for name := range s.gone {
		if strings.Contains(text, "topic "+name+" ") {
			s.fatal("topic %s was deleted and is there", name)
		}
	}
	s.sameLogs()
	return s.count
}

func (s *storm) end() {
	s.expects.Lock()
	defer s.expects.Unlock()
	s.over = true
}

// ask makes topics and deletes some of them again, until the storm is over.
func (s *storm) ask(client int) {
	for i := 0; ; i++ {
		s.expects.Lock()
		over := s.over
		s.expects.Unlock()
		if over {
			return
		}
		time.Sleep(time.Duration(1+s.chance(150)) * time.Millisecond)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		cn := s.nodes[s.chance(len(s.nodes))]
		for _, other := range s.nodes {
			if node := other.running(); node != nil && node.IsActive() && s.chance(3) > 0 {
				cn = other
			}
		}
		if node := cn.running(); node != nil {
			s.command(ctx, node, fmt.Sprintf("t-%d-%d", client, i))
		}
		cancel()
	}
}

func (s *storm) command(ctx context.Context, node *Node, name string) {
	results, err := node.CreateTopics(ctx, oneTopic(name))
	if err != nil || results[0].Err != nil {
		return
	}
	s.acknowledge(s.there, name)
	if _, published := node.newest().Topic(name); !published {
		s.fault("topic %s was acknowledged and is not published there", name)
	}
	if s.chance(3) > 0 {
		return
	}
	s.expects.Lock()
	delete(s.there, name) // until it is known that it is gone
	s.expects.Unlock()
	deleted, err := node.DeleteTopics(ctx, meta.DeleteTopics{Names: []string{name}})
	if err == nil && deleted[0].Err == nil {
		s.acknowledge(s.gone, name)
	}
}

// newest is the published image, or on a node whose broker is not registered yet what it would have published.
func (n *Node) newest() *meta.Image {
	n.publishMu.Lock()
	defer n.publishMu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gate != nil {
		return n.taken
	}
	return n.image.Load()
}

func (s *storm) acknowledge(set map[string]bool, name string) {
	s.expects.Lock()
	defer s.expects.Unlock()
	set[name] = true
	s.count++
}

// strike lets something happen, and some time pass.
func (s *storm) strike() {
	cn := s.nodes[s.faults.IntN(len(s.nodes))]
	other := s.nodes[s.faults.IntN(len(s.nodes))]
	n := s.faults.IntN(100)
	cut := s.faults.IntN(60)
	wait := time.Duration(s.faults.IntN([]int{100, 1000, 4000}[s.faults.IntN(3)])) * time.Millisecond
	switch {
	case n < 20:
		cn.end(false)
	case n < 30:
		cn.end(true)
	case n < 45 && cn.running() != nil:
		cn.disk.CutAt(cut) // it fails by itself
	case n < 50:
		for _, each := range s.nodes {
			each.end(true)
		}
	case n < 60:
		s.split(cn.id)
	case n < 65:
		s.oneWay(cn.id, other.id)
	case n < 80:
		s.heal()
	}
	time.Sleep(wait)
	for _, each := range s.nodes {
		if s.faults.IntN(3) > 0 {
			each.mend()
		}
	}
}

func (s *storm) oneWay(from, to kafka.NodeID) {
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	s.cut[[2]kafka.NodeID{from, to}] = from != to
}

// end kills the process, if it is up.
func (cn *clusterNode) end(power bool) {
	if cn.running() != nil {
		cn.kill(power || cn.disk.Off())
		cn.starting.Wait()
	}
}

// mend starts the process again if it is down, or its disk has failed.
func (cn *clusterNode) mend() {
	if cn.running() != nil {
		select {
		case <-cn.life.failed:
			cn.end(true)
		default:
			return
		}
	}
	if err := cn.launch(); err != nil {
		if !cn.disk.Off() {
			cn.c.fault("start node %d: %v", cn.id, err)
		}
		cn.disk.Restart()
		cn.cutAtStart = true
		return
	}
	node, reg := cn.node, cn.registration()
	cn.starting.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err := node.Start(ctx, reg)
		if err != nil && cn.running() == node && !cn.disk.Off() && !errors.Is(err, context.DeadlineExceeded) {
			cn.c.fault("start node %d: %v", cn.id, err)
		}
	})
}

// sameLogs compares what the nodes have on their disks, as far as all have published it.
func (s *storm) sameLogs() {
	from, to := kafka.Offset(0), kafka.Offset(math.MaxInt64)
	for _, cn := range s.nodes {
		from, to = max(from, cn.node.log.StartOffset()), min(to, cn.node.Image().Offset()+1)
	}
	var first []byte
	for _, cn := range s.nodes {
		var content []byte
		for b, err := range cn.node.log.Batches(from) {
			s.must(err)
			if b.BaseOffset() >= from && b.BaseOffset() < to {
				content = append(content, b...)
			}
		}
		if first == nil {
			first = content
		}
		if !bytes.Equal(content, first) {
			s.fatal("the logs of nodes %d and %d differ from offset %d on", s.nodes[0].id, cn.id, from)
		}
	}
}

var leads = regexp.MustCompile(`msg="metadata quorum" node=(\d+) role=leader epoch=(\d+) `)

// noteLeaders sees from the logs who leads, and that an epoch has one leader. It needs mu.
func (c *cluster) noteLeaders(line []byte) {
	found := leads.FindSubmatch(line)
	if found == nil {
		return
	}
	id, _ := strconv.Atoi(string(found[1]))
	epoch, _ := strconv.Atoi(string(found[2]))
	if other, led := c.leaders[kafka.Epoch(epoch)]; led && other != kafka.NodeID(id) {
		c.faults = append(c.faults, fmt.Sprintf("nodes %d and %d both led in epoch %d", other, id, epoch))
	}
	c.leaders[kafka.Epoch(epoch)] = kafka.NodeID(id)
}

func TestLeadersAreSeenInTheLog(t *testing.T) {
	c := &cluster{t: t, leaders: map[kafka.Epoch]kafka.NodeID{}}
	for id := range 2 {
		_, _ = fmt.Fprintf(c, "time=x level=DEBUG msg=\"metadata quorum\" node=%d role=leader epoch=7 leader=%d\n", id, id)
	}
	if want := []string{"nodes 0 and 1 both led in epoch 7"}; !slices.Equal(c.faults, want) {
		t.Errorf("got %q, want %q", c.faults, want)
	}
}
