//go:build soak

package test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/raftsman/raftsman/test/anomaly"
)

const (
	clusterNodes = 3
	// worldSession is how long a node may be silent before it is fenced.
	worldSession = 2 * time.Second
	// worldRecovery is how long all clients may take to go on once all is mended, on a machine that has other things to do.
	worldRecovery = time.Minute
)

// TestClusterUnderFaults has three nodes serve producers of four libraries, groups of both protocols, and jobs that copy a topic in
// transactions, while nodes are killed, stopped, cut off, restarted, drained and emptied, and partitions move, by a seed. In the end every
// acknowledged record is there once and in order, for the groups, for readers of committed records, and on the disks of all nodes; and
// whenever all was mended, all clients went on. With RAFTSMAN_SOAK=1 it takes ten minutes.
func TestClusterUnderFaults(t *testing.T) {
	t.Parallel()
	w := newFaultyWorld(t)
	w.copies.during(func() {
		w.goOn(2*atLast, "all clients have begun")
		if soak() {
			w.suffer(10 * time.Minute)
		} else {
			w.sufferOnce()
		}
		w.stream.finish()
	})
	w.cluster.healed()
	w.cluster.stop()
	for _, n := range w.cluster.nodes {
		run(t, atLast, nil, binary(t), "log", "verify", n.dir)
		w.stream.onDisk(n)
	}
	t.Logf("%v; faults: %v", w.stream, w.counts)
}

// faultyWorld is a cluster, its clients, and who does harm to them.
type faultyWorld struct {
	t       *testing.T
	random  *rand.Rand
	cluster *cluster
	stream  *clusterStream
	copies  *copyWorld
	down    []*clusterNode
	paused  []*clusterNode
	moved   bool // some partitions have not all replicas
	counts  map[string]int
}

func newFaultyWorld(t *testing.T) *faultyWorld {
	t.Helper()
	seed := testSeed(t)
	w := &faultyWorld{t: t, random: rand.New(rand.NewPCG(seed, 0)), counts: map[string]int{}}
	w.cluster = clusterPlan{doors: true, settings: []string{
		"min.insync.replicas=2", "transaction.state.log.num.partitions=3", "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000",
		"group.consumer.min.session.timeout.ms=6000", "group.consumer.session.timeout.ms=6000",
		"group.consumer.min.heartbeat.interval.ms=500", "group.consumer.heartbeat.interval.ms=500",
		"replica.lag.time.max.ms=5000", "metadata.log.max.record.bytes.between.snapshots=20000",
	}}.start(t)
	w.stream = w.cluster.startStream()
	w.copies = newCopyWorld(t, seed, strings.Join(w.cluster.seeds(), ","))
	w.copies.history.StableWithin = worldRecovery
	w.copies.backlog = 200 // clients are many here, and one waits for all of it in the end
	w.copies.begin(clusterNodes, []string{"franz-go", "confluent-kafka", "aiokafka", "kafkajs"}, []string{"java", "franz"})
	w.copies.job(javaCopies, "java", "java-1", toldConsumer)
	w.copies.job(franzCopies, "franz-go", "franz-1", "GROUP_INSTANCE=franz-1")
	return w
}

// A harm is done to the world, and mended by mend.
type harm struct {
	name string
	do   func(*faultyWorld) (whom string)
	last func(*rand.Rand) time.Duration // until it is mended
}

func between(least, most time.Duration) func(*rand.Rand) time.Duration {
	return func(r *rand.Rand) time.Duration { return least + time.Duration(r.Int64N(int64(most-least))) }
}

var harms = []harm{
	{"kill", (*faultyWorld).kill, between(0, 3*time.Second)},
	{"stop within the session", (*faultyWorld).pause, between(100*time.Millisecond, worldSession-500*time.Millisecond)},
	{"stop for longer than the session", (*faultyWorld).pause, between(worldSession+time.Second, 2*worldSession+time.Second)},
	{"cut one way", (*faultyWorld).cutOneWay, between(time.Second, 2*worldSession)},
	{"cut off", (*faultyWorld).cutOff, between(time.Second, 2*worldSession)},
	{"restart", (*faultyWorld).restart, between(0, time.Second)},
	{"drain", (*faultyWorld).drain, between(time.Second, 3*time.Second)},
	{"wipe", (*faultyWorld).wipe, between(0, time.Second)},
	{"kill all", (*faultyWorld).killAll, between(0, time.Second)},
	{"reassign", (*faultyWorld).reassign, between(0, 2*time.Second)},
}

// sufferOnce does every harm once, in an order by the seed, and lets all recover after each.
func (w *faultyWorld) sufferOnce() {
	w.t.Helper()
	for _, i := range w.random.Perm(len(harms)) {
		w.cluster.healed()
		w.harm(harms[i])
		w.mend()
		w.goOn(worldRecovery, harms[i].name)
	}
}

// suffer does harms by the seed, one or two at a time, also to what has not recovered.
func (w *faultyWorld) suffer(d time.Duration) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		if w.random.IntN(3) > 0 {
			w.cluster.healed()
		}
		var names []string
		for range 1 + w.random.IntN(2) {
			h := harms[w.random.IntN(len(harms))]
			w.harm(h)
			names = append(names, h.name)
		}
		w.mend()
		w.goOn(worldRecovery, strings.Join(names, ", then "))
	}
}

func (w *faultyWorld) harm(h harm) {
	w.t.Helper()
	whom := h.do(w)
	lasting := h.last(w.random).Round(time.Millisecond)
	w.t.Logf("%s: %s: %s, for %v", time.Now().Format("15:04:05.000"), h.name, whom, lasting)
	w.counts[h.name]++
	w.rest(lasting)
}

// rest lets the clients work, and tends them.
func (w *faultyWorld) rest(d time.Duration) {
	w.t.Helper()
	w.copies.pause(d)
	w.stream.tend()
}

// mend has all nodes run, and reach each other, and all partitions on all of them.
func (w *faultyWorld) mend() {
	w.t.Helper()
	w.cluster.network.heal()
	for _, n := range w.paused {
		n.proceed()
	}
	for _, n := range w.down {
		n.start()
	}
	w.paused, w.down = nil, nil
	if w.moved && !w.assign(atLast, func() []int32 { return w.replicas(clusterNodes) }) {
		w.t.Fatalf("partitions can't be assigned to all nodes")
	}
	w.moved = false
}

// goOn waits until all clients go on.
func (w *faultyWorld) goOn(most time.Duration, after string) {
	w.t.Helper()
	began := time.Now()
	stream, copies := w.stream.progress(), w.copies.goingOn()
	eventually(w.t, most, "all clients go on: "+after, func() error {
		w.stream.tend()
		w.copies.tend()
		return errors.Join(stream(), copies())
	})
	w.t.Logf("%s: went on after %v: %s", time.Now().Format("15:04:05.000"), time.Since(began).Round(time.Millisecond), after)
}

// goingOn returns what tells, later, whether each group has committed a transaction that began after this call: a job has one at a time.
func (w *copyWorld) goingOn() func() error {
	committed := func() (all []int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, of := range w.history.Copies {
			all = append(all, len(of.Committed))
		}
		return all
	}
	before := committed()
	return func() error {
		for i, now := range committed() {
			const more = 2
			if now < before[i]+more {
				return fmt.Errorf("the copy of group %s has committed %d transactions, of them %d since", w.history.Copies[i].Group, now, now-before[i])
			}
		}
		return nil
	}
}

// running is a node that runs, by the seed; nil for none.
func (w *faultyWorld) running() *clusterNode {
	nodes := slices.DeleteFunc(slices.Clone(w.cluster.nodes), func(n *clusterNode) bool {
		return slices.Contains(w.down, n) || slices.Contains(w.paused, n)
	})
	if len(nodes) == 0 {
		return nil
	}
	return nodes[w.random.IntN(len(nodes))]
}

const nobody = "nobody"

// toOne does something to a node that runs.
func (w *faultyWorld) toOne(do func(*clusterNode)) (whom string) {
	n := w.running()
	if n == nil {
		return nobody
	}
	do(n)
	return fmt.Sprint("node ", n.id)
}

func (w *faultyWorld) kill() string {
	return w.toOne(func(n *clusterNode) { n.kill(); w.down = append(w.down, n) })
}

func (w *faultyWorld) pause() string {
	return w.toOne(func(n *clusterNode) { n.signal(syscall.SIGSTOP); w.paused = append(w.paused, n) })
}

func (w *faultyWorld) drain() string {
	return w.toOne(func(n *clusterNode) { n.end(); w.down = append(w.down, n) })
}

func (w *faultyWorld) restart() string {
	return w.toOne(func(n *clusterNode) { n.end(); n.start() })
}

func (w *faultyWorld) cutOneWay() string {
	from := w.cluster.nodes[w.random.IntN(clusterNodes)]
	to := w.cluster.nodes[(int(from.id)+w.random.IntN(clusterNodes-1))%clusterNodes]
	w.cluster.network.cut(from.id, to.id)
	return fmt.Sprintf("node %d to node %d", from.id, to.id)
}

func (w *faultyWorld) cutOff() string {
	one := w.cluster.nodes[w.random.IntN(clusterNodes)]
	for _, n := range w.cluster.nodes {
		if n != one {
			w.cluster.network.cut(one.id, n.id)
			w.cluster.network.cut(n.id, one.id)
		}
	}
	return fmt.Sprint("node ", one.id)
}

func (w *faultyWorld) killAll() string {
	var wg sync.WaitGroup
	for _, n := range w.cluster.nodes {
		if !slices.Contains(w.down, n) {
			wg.Go(n.kill)
		}
	}
	wg.Wait()
	w.down, w.paused = slices.Clone(w.cluster.nodes), nil
	return "all nodes"
}

// wipe kills a node where the others have everything, empties its disk and starts it at once, before anyone may have noticed.
func (w *faultyWorld) wipe() string {
	w.mend()
	w.cluster.healed()
	return w.toOne(func(n *clusterNode) {
		n.lose()
		n.start()
	})
}

// reassign moves partitions to some of the nodes, the first of which shall lead.
func (w *faultyWorld) reassign() string {
	w.moved = true
	to := map[string]int{}
	const patience = 5 * time.Second // of who may have no controller
	if !w.assign(patience, func() []int32 {
		replicas := w.replicas(2 + w.random.IntN(2))
		to[fmt.Sprint(replicas)]++
		return replicas
	}) {
		return nobody
	}
	return fmt.Sprintf("partitions by where they move: %v", to)
}

// replicas are so many nodes, by the seed.
func (w *faultyWorld) replicas(n int) (ids []int32) {
	for _, i := range w.random.Perm(clusterNodes)[:n] {
		ids = append(ids, w.cluster.nodes[i].id)
	}
	return ids
}

// assign tells the controller which nodes partitions are to be on, and returns whether it has agreed before the time was over.
func (w *faultyWorld) assign(most time.Duration, replicas func() []int32) bool {
	w.t.Helper()
	chosen := map[anomaly.Partition][]int32{}
	var failed error
	for end := time.Now().Add(most); time.Now().Before(end); w.rest(100 * time.Millisecond) {
		failed = w.cluster.ask(func(ctx context.Context, admin *kadm.Client) error {
			topics, err := admin.ListTopicsWithInternal(ctx)
			if err != nil {
				return err
			}
			var req kadm.AlterPartitionAssignmentsReq
			for _, p := range topics.TopicsSet().Sorted() {
				for _, index := range p.Partitions {
					at := anomaly.Partition{Topic: p.Topic, Partition: index}
					if chosen[at] == nil {
						chosen[at] = replicas()
					}
					req.Assign(p.Topic, index, chosen[at])
				}
			}
			altered, err := admin.AlterPartitionAssignments(ctx, req)
			return errors.Join(err, altered.Error())
		})
		if failed == nil {
			return true
		}
	}
	w.t.Logf("partitions were not assigned within %v: %v", most, failed)
	return false
}
