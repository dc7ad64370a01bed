package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/raftsman/raftsman/brokertest"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/plan"
)

func TestPlansAreShown(t *testing.T) {
	on := func(ids ...kafka.NodeID) []kafka.NodeID { return ids }
	c := plan.Cluster{Brokers: []plan.Broker{{ID: 1, Rack: "a"}, {ID: 2, Rack: "b"}, {ID: 3, Rack: "b", Cordoned: true}, {ID: 4, Rack: "c", Down: true}}}
	for n := range int32(movesShown + 2) {
		c.Partitions = append(c.Partitions, plan.Partition{Topic: "orders", Number: n, Replicas: on(3, 1), ISR: on(3, 1), Leader: 3, Bytes: 3 << 20})
	}
	c.Partitions = append(c.Partitions, plan.Partition{Topic: "small", Replicas: on(3, 2), ISR: on(3, 2), Leader: 3})
	drained, err := plan.Drain(&c, 3)
	if err != nil {
		t.Fatal(err)
	}
	led, _ := plan.DrainLeaders(&c, 3)
	golden(t, "moves", rendered(t, func(a *app) error {
		for i, moves := range [][]plan.Move{drained, led[:2], nil} {
			v := viewPlan(&c, moves)
			v.Executed = i == 1
			if a.json() {
				v.Moves = v.Moves[:min(2, len(v.Moves))]
			}
			if err := a.writePlan(&v); err != nil {
				return err
			}
		}
		return a.exportPlan(drained[:2])
	}))
}

func TestFilesOfMovesAreReadAsKafkaWritesThem(t *testing.T) {
	p := &placement{Cluster: plan.Cluster{
		Brokers:    []plan.Broker{{ID: 1}, {ID: 2}},
		Partitions: []plan.Partition{{Topic: "t", Replicas: []kafka.NodeID{1}, Bytes: 7}, {Topic: "t", Number: 1, Replicas: []kafka.NodeID{2, 1}}},
	}}
	file := t.TempDir() + "/plan.json"
	for text, want := range map[string]string{
		`{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,1],"log_dirs":["any","any"]},{"topic":"t","partition":1,"replicas":[2,1]}]}`: "[{t 0 [1] [2 1] 7}]",
		`{"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["/a"]}]}`:                                                                   "names log directories",
		`{"partitions":[{"topic":"t","partition":0,"replicas":[]}]}`:                                                                                      "has no replicas",
		`{"partitions":[{"topic":"t","partition":0,"replicas":[1]},{"topic":"t","partition":0,"replicas":[2]}]}`:                                          "is there twice",
		`{"partitions":[{"topic":"t","partition":2,"replicas":[1]}]}`:                                                                                     "there is no partition 2 of topic t",
		`{"partitions":[{"topic":"t","partition":0,"replicas":[1,1]}]}`:                                                                                   "broker 1 is named twice",
		`{"partitions":[{"topic":"t","partition":0,"replicas":[3]}]}`:                                                                                     "there is no broker 3",
		`{"partitions":[]}`: "has no partitions",
		`nonsense`:          "invalid character",
	} {
		writeFile(t, file, text)
		f, err := readPlan(file)
		var moves []plan.Move
		if err == nil {
			moves, err = p.wishes(f)
		}
		got := fmt.Sprint(moves)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// writing produces to a topic without a pause until it is stopped, and knows what was acknowledged.
type writing struct {
	t    *testing.T
	quit context.CancelFunc
	wg   sync.WaitGroup
	sent int
	err  error
}

func keepWriting(t *testing.T, c *brokertest.Cluster, topic string) *writing {
	ctx, quit := context.WithCancel(t.Context())
	w := &writing{t: t, quit: quit}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Seeds()...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(quit)
	w.wg.Go(func() {
		defer client.Close()
		for ctx.Err() == nil {
			if w.err = client.ProduceSync(context.WithoutCancel(ctx), kgo.StringRecord(fmt.Sprint("w", w.sent))).FirstErr(); w.err != nil {
				return
			}
			w.sent++
		}
	})
	return w
}

func (w *writing) stop() int {
	w.t.Helper()
	w.quit()
	w.wg.Wait()
	if w.err != nil {
		w.t.Fatalf("a producer was refused after %d records: %v", w.sent, w.err)
	}
	return w.sent
}

// placesOf returns the replicas of each partition.
func placesOf(t *testing.T, bootstrap, topic string) (replicas [][]int32, views []partitionView) {
	t.Helper()
	var topics []topicView
	if err := json.Unmarshal([]byte(must(t, bootstrap, "", "topic", "describe", topic, "-o", "json")), &topics); err != nil {
		t.Fatal(err)
	}
	for _, p := range topics[0].Partitions {
		replicas = append(replicas, p.Replicas)
	}
	return replicas, topics[0].Partitions
}

// sameRecords fails unless the topic has the lines that were produced, and the acknowledged records of w, each once.
func sameRecords(t *testing.T, bootstrap, topic string, lines []string, acknowledged int) {
	t.Helper()
	got := strings.Fields(must(t, bootstrap, "", "consume", topic, "-e"))
	want := slices.Clone(lines)
	for i := range acknowledged {
		want = append(want, fmt.Sprint("w", i))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s has %d records, %d were acknowledged", topic, len(got), len(want))
	}
}

func manyLines(n int) (lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprintf("%d-%s", i, strings.Repeat("x", 1000)))
	}
	return lines
}

// While somebody writes, a broker is drained; the command is interrupted half-way and comes again; the broker dies for good, and another
// broker's disk with it would be one too many: all that was acknowledged is there.
func TestADrainThatIsInterruptedIsGoneOnWith(t *testing.T) {
	t.Parallel()
	c := brokertest.StartCluster(t, 4, brokertest.Property("replica.fetch.max.bytes", "10000")) // the throttle holds back what comes after a fetch
	bootstrap := strings.Join(c.Seeds(), ",")
	must(t, bootstrap, "", "topic", "create", "orders", "-p", "6", "-r", "2", "-c", "min.insync.replicas=2")
	must(t, bootstrap, "", "topic", "reassign", "orders:0,1,2", "--replicas", "4,1", "--execute")
	lines := manyLines(6000)
	must(t, bootstrap, strings.Join(lines, "\n")+"\n", "produce", "orders")
	w := keepWriting(t, c, "orders")

	drain := newLiveSession(bootstrap).start(t, nil, "cluster", "drain", "4", "--execute", "--throttle", "20kB", "--at-once", "2")
	eventually(t, "two partitions on their way", func() bool {
		var ways []wayView
		if err := json.Unmarshal([]byte(must(t, bootstrap, "", "topic", "reassign", "--status", "-o", "json")), &ways); err != nil {
			t.Fatal(err)
		}
		return len(ways) == 2 && slices.Equal(ways[0].Removing, []int32{4}) && ways[0].Bytes > 0
	})
	if text := must(t, bootstrap, "", "topic", "reassign", "--status"); !strings.Contains(text, "orders") {
		t.Errorf("--status prints %s", text)
	}
	if got := must(t, bootstrap, "", "config", "show", "topic", "orders", "--changed"); !strings.Contains(got, followerReplicas) || !strings.Contains(got, leaderReplicas) {
		t.Errorf("nothing is throttled: %s", got)
	}
	if v := healthOf(t, bootstrap); v.Status != "ok" {
		t.Errorf("a partition that is on its way is told as a problem: %+v", v.Problems)
	}
	drain.interrupt()
	if code := drain.end(); code != exitFailure || !strings.Contains(drain.err.String(), "what is on its way (2 partitions) goes on") {
		t.Errorf("interrupted, it ends with %d and says %s", code, drain.err.String())
	}
	again := newLiveSession(bootstrap)
	if code := again.run("cluster", "drain", "4", "--execute", "--throttle", "1GB"); code != exitOK || !strings.Contains(again.err.String(), "2 partitions on the way already: done") {
		t.Fatalf("again, it ends with %d and says %s", code, again.err.String())
	}
	replicas, _ := placesOf(t, bootstrap, "orders")
	for n, on := range replicas {
		if slices.Contains(on, 4) || len(on) != 2 {
			t.Errorf("partition %d is on %v", n, on)
		}
	}
	for _, resource := range []string{"topic orders", "broker 1", "broker 4"} {
		if got := must(t, bootstrap, "", append([]string{"config", "show", "--changed"}, strings.Fields(resource)...)...); strings.Contains(got, "throttled") {
			t.Errorf("a throttle is left: %s", got)
		}
	}
	must(t, bootstrap, "", "topic", "create", "new", "-p", "8", "-r", "2")
	replicas, _ = placesOf(t, bootstrap, "new")
	for n, on := range replicas {
		if slices.Contains(on, 4) {
			t.Errorf("partition %d of a new topic is on %v, where nothing new is to be", n, on)
		}
	}
	if got := must(t, bootstrap, "", "cluster", "drain", "4"); got != "nothing has to move\n" {
		t.Errorf("drained, it is to be drained of %s", got)
	}
	c.Kill(4)
	sent := w.stop()
	sameRecords(t, bootstrap, "orders", lines, sent)

	refuse := newLiveSession(bootstrap)
	if code := refuse.run("cluster", "drain", "9"); code != exitFailure || !strings.Contains(refuse.err.String(), "there is no broker 9") {
		t.Errorf("a broker that is not there: ends with %d and says %s", code, refuse.err.String())
	}
	must(t, bootstrap, "", "topic", "create", "three", "-p", "1", "-r", "3")
	refuse = newLiveSession(bootstrap)
	if code := refuse.run("cluster", "drain", "1", "--execute"); code != exitFailure || !strings.Contains(refuse.err.String(), "three partition 0 wants 3 replicas, and finds 2 brokers") {
		t.Errorf("where there are too few brokers it ends with %d and says %s", code, refuse.err.String())
	}
	must(t, bootstrap, "", "cluster", "drain", "1", "--leaders", "--execute")
	for _, topic := range []string{"orders", "new", "three"} {
		_, partitions := placesOf(t, bootstrap, topic)
		for _, p := range partitions {
			if p.Leader == 1 || p.Leader < 0 {
				t.Errorf("%s partition %d is led by %d, and is on %v", topic, p.Partition, p.Leader, p.Replicas)
			}
		}
	}
}

// A reassignment is taken back half-way, and made for good then: with more replicas, and those of a file.
func TestTopicsAreReassigned(t *testing.T) {
	t.Parallel()
	c := brokertest.StartCluster(t, 3)
	bootstrap := strings.Join(c.Seeds(), ",")
	must(t, bootstrap, "", "topic", "create", "orders", "-p", "3", "-r", "1")
	must(t, bootstrap, "", "topic", "reassign", "orders", "--brokers", "1,2", "--execute")
	lines := manyLines(5000)
	must(t, bootstrap, strings.Join(lines, "\n")+"\n", "produce", "orders")
	w := keepWriting(t, c, "orders")
	before, _ := placesOf(t, bootstrap, "orders")

	move := newLiveSession(bootstrap).start(t, nil, "topic", "reassign", "orders", "--brokers", "3", "--execute", "--throttle", "20kB")
	eventually(t, "all on their way", func() bool {
		return strings.Count(must(t, bootstrap, "", "topic", "reassign", "--status", "-o", "json"), `"topic"`) == 3
	})
	if got := must(t, bootstrap, "", "topic", "reassign", "orders", "--cancel"); got != "3 partitions brought back\n" {
		t.Errorf("--cancel prints %s", got)
	}
	if now, _ := placesOf(t, bootstrap, "orders"); !slices.EqualFunc(now, before, slices.Equal) {
		t.Errorf("it is on %v, was on %v", now, before)
	}
	move.interrupt() // it doubts still whether the brokers know all
	move.end()
	if got := must(t, bootstrap, "", "topic", "reassign", "--finish"); got != "0 partitions arrived\n" {
		t.Errorf("--finish prints %s", got)
	}
	if got := must(t, bootstrap, "", "topic", "reassign", "--status"); got != "nothing is on its way\n" {
		t.Errorf("--status prints %s", got)
	}

	preview := must(t, bootstrap, "", "topic", "reassign", "orders", "-r", "3")
	if now, _ := placesOf(t, bootstrap, "orders"); !slices.EqualFunc(now, before, slices.Equal) || !strings.Contains(preview, "3 partitions to move") {
		t.Errorf("a preview moves to %v, and prints %s", now, preview)
	}
	plan := t.TempDir() + "/plan.json"
	writeFile(t, plan, must(t, bootstrap, "", "topic", "reassign", "orders", "-r", "3", "--export"))
	must(t, bootstrap, "", "topic", "reassign", "--from-file", plan, "--execute")
	replicas, partitions := placesOf(t, bootstrap, "orders")
	for n, p := range partitions {
		if len(p.ISR) != 3 || p.Leader != replicas[n][0] {
			t.Errorf("partition %d is on %v, led by %d, in sync %v", n, replicas[n], p.Leader, p.ISR)
		}
	}
	if got := must(t, bootstrap, "", "topic", "reassign", "orders", "-r", "3"); got != "nothing has to move\n" {
		t.Errorf("once more: %s", got)
	}
	must(t, bootstrap, "", "topic", "reassign", "orders:1", "--replicas", "3,1", "--execute")
	if replicas, partitions = placesOf(t, bootstrap, "orders"); !slices.Equal(replicas[1], []int32{3, 1}) || partitions[1].Leader != 3 {
		t.Errorf("partition 1 is on %v, led by %d", replicas[1], partitions[1].Leader)
	}
	sameRecords(t, bootstrap, "orders", lines, w.stop())
}

// What three of four brokers had is shared by all, with the leaders.
func TestARebalancedClusterUsesItsNewBroker(t *testing.T) {
	t.Parallel()
	c := brokertest.StartCluster(t, 4)
	bootstrap := strings.Join(c.Seeds(), ",")
	must(t, bootstrap, "", "topic", "create", "orders", "-p", "12", "-r", "2")
	must(t, bootstrap, "", "topic", "reassign", "orders", "--brokers", "1,2,3", "--execute")
	lines := manyLines(6000)
	must(t, bootstrap, strings.Join(lines, "\n")+"\n", "produce", "orders")
	w := keepWriting(t, c, "orders")
	if text := must(t, bootstrap, "", "rebalance"); !strings.Contains(text, " to move, ") {
		t.Errorf("it proposes %s", text)
	}
	var v planView
	if err := json.Unmarshal([]byte(must(t, bootstrap, "", "rebalance", "--execute", "-o", "json")), &v); err != nil {
		t.Fatal(err)
	}
	if !v.Executed || len(v.Moves) < 4 || v.Brokers[3].Bytes != 0 {
		t.Errorf("the new broker got %+v", v)
	}
	sent := w.stop()
	replicas, partitions := placesOf(t, bootstrap, "orders")
	has, leads := map[int32]int{}, map[int32]int{}
	for n, p := range partitions {
		leads[p.Leader]++
		for _, id := range replicas[n] {
			has[id]++
		}
	}
	for id := int32(1); id <= 4; id++ {
		if leads[id] < 2 || leads[id] > 4 || has[id] < 4 || has[id] > 8 {
			t.Errorf("broker %d leads %d of 12, and has %d of 24 replicas", id, leads[id], has[id])
		}
	}
	sameRecords(t, bootstrap, "orders", lines, sent)
}

// A node dies: it is missed, as a broker and as a voter, and no longer when it is back. Without a majority that is told.
func TestHealthOfAClusterThatLosesNodes(t *testing.T) {
	t.Parallel()
	c := brokertest.StartCluster(t, 3)
	bootstrap := strings.Join(c.Seeds(), ",")
	must(t, bootstrap, "", "topic", "create", "orders", "-p", "3", "-r", "3", "-c", "min.insync.replicas=2")
	well := func(what string) {
		t.Helper()
		var v healthView
		eventually(t, what+": all to be well", func() bool { v = healthOf(t, bootstrap); return v.Status == "ok" })
	}
	well("at first")
	c.Kill(3)
	has := func(what string, kinds ...string) {
		t.Helper()
		var v healthView
		eventually(t, what, func() bool {
			v = healthOf(t, bootstrap)
			return !slices.ContainsFunc(kinds, func(kind string) bool { return v.problem(kind) == "" })
		})
		if down := v.problem(brokerDown); strings.HasPrefix(down, "broker 1 ") {
			t.Errorf("%s: %s, and that is the one that lives", what, down)
		}
		t.Logf("%s: %+v", what, v.Problems)
	}
	has("a dead node is missed", brokerFenced, underReplicated, quorumLag)
	c.Restart(3)
	well("when it is back")
	c.Kill(2)
	c.Kill(3)
	has("no majority", noQuorum)
	c.Restart(2, 3)
	well("when both are back")
}

func TestHealthTellsWhoIsBehindInTheQuorum(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	at := func(id int32, fetched, caughtUp, lag int64) replicaState {
		return replicaState{ID: id, LastFetchMs: fetched, LastCaughtUpMs: caughtUp, Lag: lag}
	}
	v := healthView{}
	v.judgeReplicas(quorumState{Leader: 1, Voters: []replicaState{
		at(1, 1_000_000, 1_000_000, 0), at(2, 999_900, 999_500, 3), at(3, 999_900, 900_000, 1200), at(4, -1, -1, -1), at(5, 999_900, -1, 77),
	}, Observers: []replicaState{at(6, 990_000, 990_000, 1)}}, now.Add(time.Hour)) // this clock is wrong
	var got []string
	for _, p := range v.Problems {
		got = append(got, p.Kind+": "+p.What)
	}
	want := []string{
		"quorum-lag: voter 3 had all metadata 1m40s ago, and is 1,200 records behind",
		"quorum-lag: voter 4 has not been heard of by the metadata quorum's leader",
		"quorum-lag: voter 5 has not had all metadata yet: 77 records behind",
		"quorum-lag: observer 6 had all metadata 10s ago, and is 1 record behind",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
