package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/condition"
)

// healthView is what `cluster health` shows. Status is ok or degraded.
type healthView struct {
	Status     string        `json:"status"`
	ClusterID  string        `json:"clusterId"`
	Controller int32         `json:"controller"` // -1: none
	Brokers    int           `json:"brokers"`
	Topics     int           `json:"topics"`
	Partitions int           `json:"partitions"`
	Problems   []healthTrace `json:"problems"`
}

// healthTrace is one thing that is not as it should be.
type healthTrace struct {
	Kind string `json:"kind"`
	What string `json:"what"`
}

// The kinds of problems.
const (
	noController     = "no-controller"
	noQuorum         = "no-quorum"
	brokerDown       = "broker-down"
	brokerFenced     = "broker-fenced"
	quorumLag        = "quorum-lag"
	offlinePartition = "offline-partition"
	underMinISR      = "under-min-isr"
	underReplicated  = "under-replicated"
	logDirOffline    = "log-dir-offline"
	diskReserve      = "disk-reserve"
	diskTight        = "disk-tight"
	damagedPartition = "damaged-partition"
)

const problemsShown = 20 // in a table; JSON has all

func clusterHealthCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "health",
		Short: "Say whether anything is wrong, with an exit code for scripts",
		Long: `Say whether anything is wrong: brokers that do not answer or are fenced, no controller, nodes that are behind in the metadata quorum, partitions
that are offline, below min.insync.replicas or short of a replica, log directories that are offline, damaged or short of space. Exit codes: 0 all is well, 1 degraded, 2 the cluster can't be reached.`,
		Example: "  raftsman cluster health && ./deploy",
		Args:    wants(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			var v healthView
			err := a.reach(c.Context(), func(ctx context.Context, cl *kgo.Client, adm *kadm.Client) (err error) {
				v, err = a.viewHealth(ctx, cl, adm)
				return err
			})
			if usage := (*usageError)(nil); errors.As(err, &usage) {
				return err
			}
			if err != nil {
				return &exitError{exitUnreachable, err}
			}
			if err := a.writeHealth(&v); err != nil {
				return err
			}
			if len(v.Problems) > 0 {
				return errReported
			}
			return nil
		},
	}
}

func (a *app) viewHealth(ctx context.Context, cl *kgo.Client, adm *kadm.Client) (healthView, error) {
	meta, err := adm.Metadata(ctx)
	if err != nil {
		return healthView{}, err
	}
	v := healthView{ClusterID: meta.Cluster, Controller: meta.Controller, Brokers: len(meta.Brokers), Topics: len(meta.Topics), Problems: []healthTrace{}}
	if v.Controller < 0 {
		v.tell(noController, "no broker knows a controller: topics and settings can't be changed")
	}
	minISR, err := readMinISR(ctx, adm, meta.Topics.Names())
	if err != nil {
		return v, err
	}
	asking, cancel := context.WithTimeout(ctx, healthPatience)
	moving, err := readUnderWay(asking, cl, nil)
	cancel()
	if ctx.Err() != nil {
		return v, err // else it is a cluster that does not tell
	}
	for _, topic := range meta.Topics.Sorted() {
		for _, p := range topic.Partitions.Sorted() {
			v.Partitions++
			if i, found := slices.BinarySearchFunc(moving, topicPartition{p.Topic, p.Partition}, underWay.compare); found {
				p.Replicas = slices.DeleteFunc(slices.Clone(p.Replicas), moving[i].adds) // those need not be there yet
			}
			v.judge(p, minISR[topic.Topic])
		}
	}
	a.inquire(ctx, cl, meta.Brokers, &v)
	if err := ctx.Err(); err != nil {
		return v, err
	}
	slices.SortStableFunc(v.Problems, severest)
	v.Status = "ok"
	if len(v.Problems) > 0 {
		v.Status = "degraded"
	}
	return v, nil
}

func (v *healthView) tell(kind, format string, args ...any) {
	v.Problems = append(v.Problems, healthTrace{kind, fmt.Sprintf(format, args...)})
}

// readMinISR asks how many replicas of each topic have to be in sync; a topic that is not among them has none of that.
func readMinISR(ctx context.Context, adm *kadm.Client, topics []string) (map[string]int, error) {
	least := map[string]int{}
	if len(topics) == 0 {
		return least, nil
	}
	described, err := adm.DescribeTopicConfigs(ctx, topics...)
	if err = unlessPartial(err); err != nil {
		return nil, err
	}
	for _, r := range described {
		for _, c := range r.Configs {
			if n, err := strconv.Atoi(c.MaybeValue()); c.Key == "min.insync.replicas" && err == nil {
				least[r.Name] = n
			}
		}
	}
	return least, nil
}

func (v *healthView) judge(p kadm.PartitionDetail, minISR int) {
	name := fmt.Sprintf("%s partition %d", p.Topic, p.Partition)
	// No topic can have more in sync than it has replicas: then the setting asks for all.
	need := min(minISR, len(p.Replicas))
	switch {
	case p.Leader < 0:
		v.tell(offlinePartition, "%s has no leader: its replicas are on brokers %s", name, joinNumbers(p.Replicas))
	case len(p.ISR) < need:
		v.tell(underMinISR, "%s has %d in sync of %d that min.insync.replicas wants: acks=all is refused", name, len(p.ISR), need)
	case len(p.ISR) < len(p.Replicas):
		v.tell(underReplicated, "%s has %d in sync of %d replicas", name, len(p.ISR), len(p.Replicas))
	}
}

// healthPatience is how long a broker may take to answer. One that has died, where nobody is left to fence it, is asked again and again.
const healthPatience = 5 * time.Second

// inquire asks all brokers for what they have, and for the quorum, at the same time.
func (a *app) inquire(ctx context.Context, cl *kgo.Client, brokers kadm.BrokerDetails, v *healthView) {
	asking, cancel := context.WithTimeout(ctx, healthPatience)
	defer cancel()
	parts := make([]healthView, len(brokers)+2)
	var wg sync.WaitGroup
	for i, b := range brokers {
		wg.Go(func() { parts[i].visit(asking, cl, b) })
	}
	wg.Go(func() { parts[len(brokers)].judgeBrokers(asking, cl, brokers) })
	wg.Go(func() { parts[len(brokers)+1].judgeQuorum(asking, a) })
	wg.Wait()
	for i := range parts {
		v.Problems = append(v.Problems, parts[i].Problems...)
	}
}

// judgeBrokers tells of brokers that are registered and out of service, where the cluster tells of them.
func (v *healthView) judgeBrokers(ctx context.Context, cl *kgo.Client, inService kadm.BrokerDetails) {
	brokers, err := readBrokers(ctx, cl, inService)
	if err != nil {
		return
	}
	for _, b := range brokers {
		if b.Down {
			v.tell(brokerFenced, "broker %d is registered and out of service: it is dead or cut off, or has only just begun", b.ID)
		}
	}
}

const quorumLagMax = 5 * time.Second // since a node had all metadata: they ask twice a second

// judgeQuorum tells of nodes that do not follow the metadata quorum. A cluster that has none, or tells nothing of it, has no such problem.
// It asks over connections of its own: where nobody leads the quorum the answer is long in coming, and others would come behind it.
func (v *healthView) judgeQuorum(ctx context.Context, a *app) {
	cl, err := a.connect(ctx)
	if err != nil {
		return
	}
	defer cl.Close()
	p, _, err := describeQuorum(ctx, cl)
	switch {
	case ctx.Err() != nil:
		v.tell(noQuorum, "the metadata quorum does not answer: without a majority of its voters nothing can be changed, and nobody takes a dead leader's place")
	case err == nil:
		v.judgeReplicas(viewReplicas(p, nil), a.now())
	}
}

// judgeReplicas takes the leader's clock for the present, where it tells what it is.
func (v *healthView) judgeReplicas(q quorumState, now time.Time) {
	for _, r := range q.Voters {
		if r.ID == q.Leader && r.LastCaughtUpMs > 0 {
			now = time.UnixMilli(r.LastCaughtUpMs)
		}
	}
	judge := func(role string, r replicaState) {
		behind := now.Sub(time.UnixMilli(r.LastCaughtUpMs))
		switch {
		case r.ID == q.Leader && role == "voter":
		case r.LastCaughtUpMs < 0 && r.LastFetchMs < 0:
			v.tell(quorumLag, "%s %d has not been heard of by the metadata quorum's leader", role, r.ID)
		case r.LastCaughtUpMs < 0:
			v.tell(quorumLag, "%s %d has not had all metadata yet: %s behind", role, r.ID, plural(r.Lag, "record"))
		case behind > quorumLagMax:
			v.tell(quorumLag, "%s %d had all metadata %s ago, and is %s behind", role, r.ID, formatSpan(behind), plural(r.Lag, "record"))
		}
	}
	for _, r := range q.Voters {
		judge("voter", r)
	}
	for _, r := range q.Observers {
		judge("observer", r)
	}
}

func joinNumbers(ids []int32) string {
	texts := make([]string, 0, len(ids))
	for _, id := range ids {
		texts = append(texts, fmt.Sprint(id))
	}
	return strings.Join(texts, ", ")
}

// visit asks a broker for its log directories. Only Raftsman tells of reserves and damage.
func (v *healthView) visit(ctx context.Context, cl *kgo.Client, b kadm.BrokerDetail) {
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.UnknownTags.Set(condition.Tag, condition.Asks())
	answer, err := cl.Broker(int(b.NodeID)).RetriableRequest(ctx, req)
	if err != nil {
		v.tell(brokerDown, "broker %d does not answer at %s:%d", b.NodeID, b.Host, b.Port)
		return
	}
	for _, dir := range answer.(*kmsg.DescribeLogDirsResponse).Dirs {
		name := fmt.Sprintf("broker %d: log directory %s", b.NodeID, dir.Dir)
		is, err := condition.ReadDirectory(conditionOf(&dir.UnknownTags))
		switch {
		case dir.ErrorCode != 0:
			v.tell(logDirOffline, "%s is offline: the broker's log says why", name)
		case err == nil && (is.RefusesProduces || is.RefusesCommits):
			v.tell(diskReserve, "%s has only its reserve left (%s of %s are free): produces are refused until there is more", name, formatBytes(dir.UsableBytes), formatBytes(is.ReserveBytes))
		case dir.TotalBytes > 0 && dir.UsableBytes >= 0 && float64(dir.UsableBytes) < fullDisk*float64(dir.TotalBytes):
			v.tell(diskTight, "%s has %s left of %s", name, formatBytes(dir.UsableBytes), formatBytes(dir.TotalBytes))
		}
		for _, topic := range dir.Topics {
			for _, p := range topic.Partitions {
				if is, err := condition.ReadPartition(conditionOf(&p.UnknownTags)); err == nil && is.Damage != nil {
					v.tell(damagedPartition, "broker %d: %s partition %d is damaged in %s: %s", b.NodeID, topic.Topic, p.Partition, is.Damage.File, is.Damage.Remedy)
				}
			}
		}
	}
}

// fullDisk is the free share of a file system below which something has to be done soon.
const fullDisk = 0.05

func (a *app) writeHealth(v *healthView) error {
	if a.json() {
		return a.writeJSON(v)
	}
	p := a.paint()
	state := p.green(v.Status)
	if len(v.Problems) > 0 {
		state = p.red(v.Status) + ": " + plural(int64(len(v.Problems)), "problem")
	}
	controller := "no controller"
	if v.Controller >= 0 {
		controller = fmt.Sprintf("controller %d", v.Controller)
	}
	fmt.Fprintf(a.out, "%s (cluster %s, %s, %s, %s in %s)\n", state, printable(v.ClusterID), plural(int64(v.Brokers), "broker"), controller,
		plural(int64(v.Partitions), "partition"), plural(int64(v.Topics), "topic"))
	if len(v.Problems) == 0 {
		return nil
	}
	t := newTable(column{title: "PROBLEM"}, column{})
	for _, trace := range v.Problems[:min(problemsShown, len(v.Problems))] {
		t.add(alarm(trace.Kind), plain(trace.What))
	}
	if err := t.write(a.out, p, a.width()); err != nil {
		return err
	}
	if more := len(v.Problems) - problemsShown; more > 0 {
		a.note("and %d more: -o json shows all", more)
	}
	return nil
}

// severest sorts problems with those that stop clients first.
func severest(x, y healthTrace) int {
	order := []string{
		noQuorum, noController, offlinePartition, damagedPartition, logDirOffline, underMinISR, diskReserve, brokerDown, brokerFenced, quorumLag, underReplicated, diskTight,
	}
	return slices.Index(order, x.Kind) - slices.Index(order, y.Kind)
}
