package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/plan"
)

// reassignFlags is the command line of `topic reassign`.
type reassignFlags struct {
	moveFlags
	brokers, replicas string
	onBrokers, on     []kafka.NodeID // of brokers and replicas
	factor            int
	file              string
	planned           reassignmentFile // of file
	export            bool
	status            bool
	finish, cancel    bool
}

func topicReassignCommand(a *app) *cobra.Command {
	var f reassignFlags
	c := &cobra.Command{
		Use:   "reassign [TOPIC[:0,3]...]",
		Short: "Move topics to other brokers, or give them more replicas or fewer",
		Long: `Move partitions to other brokers, or give them more replicas or fewer. Replicas that may stay stay; the others go where least is, to other
racks if there are any. Without --execute only a preview is shown.

With it the partitions are moved, some at a time, and the command says how far it is until all is done. Clients go on meanwhile. What is
interrupted goes on by itself as far as it was begun; the same command again does the rest. --status shows what is on its way, --finish waits for
it and takes a throttle away that is left, --cancel brings partitions back to where they were; all of them of all topics, or of those named.`,
		Example: `  raftsman topic reassign orders --brokers 1,2,4
  raftsman topic reassign orders -r 3 --execute --throttle 50MiB
  raftsman topic reassign orders:0,3 --replicas 3,1,2 --execute
  raftsman topic reassign orders --brokers 1,2,4 --export > plan.json
  raftsman topic reassign --from-file plan.json --execute
  raftsman topic reassign --status`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(c.Flags().Changed, args); err != nil {
				return err
			}
			topics, err := parseTopicPartitions(args)
			if err != nil {
				return err
			}
			return a.operate(c.Context(), func(ctx context.Context, cl *kgo.Client, adm *kadm.Client) error {
				if f.status || f.finish || f.cancel {
					return a.tendMoves(ctx, cl, adm, topics, &f)
				}
				return a.reassign(ctx, cl, adm, topics, &f)
			})
		},
		ValidArgsFunction: a.completeTopics,
	}
	flags := c.Flags()
	flags.StringVar(&f.brokers, "brokers", "", "on these brokers only, as 1,2,4")
	flags.StringVar(&f.replicas, "replicas", "", "on exactly these brokers, of which the first is to lead, as 3,1,2")
	flags.IntVarP(&f.factor, "replication-factor", "r", 0, "so many replicas of each partition")
	flags.StringVar(&f.file, "from-file", "", "as this file says: JSON as --export and Kafka's kafka-reassign-partitions.sh write it")
	flags.BoolVar(&f.export, "export", false, "print the plan as JSON, for --from-file and kafka-reassign-partitions.sh")
	flags.BoolVar(&f.status, "status", false, "show what is on its way")
	flags.BoolVar(&f.finish, "finish", false, "wait for what is on its way, and take a throttle away that is left")
	flags.BoolVar(&f.cancel, "cancel", false, "bring back what is on its way")
	f.add(c)
	return c
}

func (f *reassignFlags) check(given func(string) bool, args []string) error {
	var named []string
	for _, flag := range []string{"brokers", "replicas", "replication-factor", "from-file", "status", "finish", "cancel"} {
		if given(flag) {
			named = append(named, "--"+flag)
		}
	}
	tends := f.status || f.finish || f.cancel
	switch {
	case len(named) == 0:
		return usagef("where the partitions have to go is missing: --brokers, --replicas, -r or --from-file; --status, --finish and --cancel are about what is on its way")
	case len(named) > 1 && !slices.Equal(named, []string{"--brokers", "--replication-factor"}):
		return usagef("%s can't be together: choose one", strings.Join(named, " and "))
	case tends && (f.execute || f.export):
		return usagef("%s is done at once: leave out --execute and --export", named[0])
	case f.file != "" && len(args) > 0:
		return usagef("%q is too much: --from-file says which partitions there are", args[0])
	case !tends && f.file == "" && len(args) == 0:
		return usagef("which topics have to move is missing: name them, as TOPIC or TOPIC:0,3")
	case given("replication-factor") && f.factor < 1:
		return usagef("-r %d cannot be: give 1 or more", f.factor)
	case f.export && (f.execute || f.throttle != ""):
		return usagef("--export only shows the plan, as JSON: leave out --execute and --throttle")
	}
	if err := f.moveFlags.check(); err != nil {
		return err
	}
	return f.read()
}

// read reads what flags say of brokers and files.
func (f *reassignFlags) read() (err error) {
	switch {
	case f.file != "":
		f.planned, err = readPlan(f.file)
	case f.replicas != "":
		f.on, err = parseBrokers("--replicas", f.replicas)
	case f.brokers != "":
		f.onBrokers, err = parseBrokers("--brokers", f.brokers)
	}
	return err
}

// parseBrokers reads 1,2,4.
func parseBrokers(flag, text string) ([]kafka.NodeID, error) {
	var ids []kafka.NodeID
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(part), 10, 32)
		if err != nil || n < 0 {
			return nil, usagef("%s %s: %q is no broker; it is a list of numbers like 1,2,4", flag, text, part)
		}
		if slices.Contains(ids, kafka.NodeID(n)) {
			return nil, usagef("%s %s: %d is there twice", flag, text, n)
		}
		ids = append(ids, kafka.NodeID(n))
	}
	return ids, nil
}

func (a *app) reassign(ctx context.Context, cl *kgo.Client, adm *kadm.Client, topics map[string][]int32, f *reassignFlags) error {
	p, err := readPlacement(ctx, cl, adm)
	if err != nil {
		return err
	}
	moves, err := f.plan(p, topics)
	if err != nil {
		return err
	}
	if f.export {
		return a.exportPlan(moves)
	}
	mine := func(u *underWay) bool { return names(topics, u.topicPartition) }
	return a.moveOrShow(ctx, cl, adm, p, moves, mine, &f.moveFlags)
}

// names tells whether a partition is among those that the command line names; a topic without numbers means all of it.
func names(topics map[string][]int32, tp topicPartition) bool {
	numbers, named := topics[tp.topic]
	return named && (numbers == nil || slices.Contains(numbers, tp.partition))
}

// moveOrShow shows a plan, or carries it out.
func (a *app) moveOrShow(ctx context.Context, cl *kgo.Client, adm *kadm.Client, p *placement, moves []plan.Move, resume func(*underWay) bool, f *moveFlags) error {
	v := viewPlan(&p.Cluster, moves)
	if f.execute {
		if err := a.carryOut(ctx, cl, adm, p, moves, resume, f); err != nil {
			return err
		}
		v.Executed = true
	}
	if err := a.writePlan(&v); err != nil {
		return err
	}
	if !f.execute && len(moves) > 0 {
		a.note("this is a preview, nothing is changed: add --execute to do it")
	}
	return nil
}

func (f *reassignFlags) plan(p *placement, topics map[string][]int32) ([]plan.Move, error) {
	if f.file != "" {
		return p.wishes(f.planned)
	}
	for _, topic := range sortedKeys(topics) {
		of := slices.IndexFunc(p.Partitions, func(q plan.Partition) bool { return q.Topic == topic })
		if of < 0 {
			return nil, unknownTopic(topic, kerr.UnknownTopicOrPartition)
		}
		for _, n := range topics[topic] {
			if p.partitionOf(topicPartition{topic, n}) == nil {
				return nil, fmt.Errorf("%s has no partition %d", topic, n)
			}
		}
	}
	wanted := func(q *plan.Partition) bool { return names(topics, topicPartition{q.Topic, q.Number}) }
	if f.on != nil {
		var file reassignmentFile
		for i := range p.Partitions {
			if q := &p.Partitions[i]; wanted(q) {
				file.Partitions = append(file.Partitions, reassignmentFileItem{Topic: q.Topic, Partition: q.Number, Replicas: numbersOf(f.on)})
			}
		}
		return p.wishes(file)
	}
	for _, id := range f.onBrokers {
		if p.broker(id) == nil {
			return nil, noBroker(id)
		}
	}
	return plan.Assign(&p.Cluster, wanted, plan.Wish{Brokers: f.onBrokers, Factor: f.factor})
}

// wayView is a partition on its way.
type wayView struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Target    []int32 `json:"target"`
	Adding    []int32 `json:"adding"`
	Removing  []int32 `json:"removing"`
	Bytes     int64   `json:"bytes"`  // to be copied in all
	Copied    int64   `json:"copied"` // of them
}

// tendMoves shows, waits for, or takes back what is on its way.
func (a *app) tendMoves(ctx context.Context, cl *kgo.Client, adm *kadm.Client, topics map[string][]int32, f *reassignFlags) error {
	p, err := readPlacement(ctx, cl, adm)
	if err != nil {
		return err
	}
	mine := func(u *underWay) bool { return len(topics) == 0 || names(topics, u.topicPartition) }
	of := slices.DeleteFunc(slices.Clone(p.underWay), func(u underWay) bool { return !mine(&u) })
	switch {
	case f.status:
		return a.writeWays(ctx, cl, p, of)
	case f.cancel:
		if err := cancelMoves(ctx, adm, of); err != nil {
			return err
		}
	default:
		if err := a.carryOut(ctx, cl, adm, p, nil, mine, &f.moveFlags); err != nil {
			return err
		}
	}
	if err := a.sweepThrottles(ctx, cl, adm, p, topics); err != nil {
		return err
	}
	if a.json() {
		ways := []wayView{}
		for _, u := range of {
			ways = append(ways, u.view(p, nil))
		}
		return a.writeJSON(map[string]any{"cancelled": f.cancel, "partitions": ways})
	}
	verb := "arrived"
	if f.cancel {
		verb = "brought back"
	}
	_, err = fmt.Fprintf(a.out, "%s %s\n", plural(int64(len(of)), "partition"), verb)
	return err
}

// sweepThrottles takes throttles away of topics that have nothing on its way, also where a command that set them was broken off.
func (a *app) sweepThrottles(ctx context.Context, cl *kgo.Client, adm *kadm.Client, p *placement, topics map[string][]int32) error {
	m := &mover{a: a, cl: cl, adm: adm, flags: &moveFlags{}, topics: map[string]bool{}, up: p.up()}
	for _, q := range p.Partitions {
		if _, named := topics[q.Topic]; named || len(topics) == 0 {
			m.topics[q.Topic] = true
		}
	}
	return m.unlimit(ctx)
}

func cancelMoves(ctx context.Context, adm *kadm.Client, of []underWay) error {
	var req kadm.AlterPartitionAssignmentsReq
	for _, u := range of {
		req.CancelAssign(u.topic, u.partition)
	}
	results, err := adm.AlterPartitionAssignments(ctx, req)
	if err != nil {
		return err
	}
	var failed failures
	for _, r := range results.Sorted() {
		if r.Err != nil && !errors.Is(r.Err, kerr.NoReassignmentInProgress) { // it has arrived meanwhile
			failed = append(failed, refused(fmt.Sprintf("bring back %s partition %d", r.Topic, r.Partition), r.Err, r.ErrMessage))
		}
	}
	return failed.join()
}

func (u *underWay) view(p *placement, sizes replicaSizes) wayView {
	v := wayView{u.topic, u.partition, numbersOf(u.target), numbersOf(u.adding), numbersOf(u.removing), 0, 0}
	if q := p.partitionOf(u.topicPartition); q != nil {
		v.Bytes = q.Bytes * int64(len(u.adding))
	}
	for _, id := range u.adding {
		v.Copied += sizes[id][u.topicPartition]
	}
	v.Copied = min(v.Copied, v.Bytes)
	return v
}

func (a *app) writeWays(ctx context.Context, cl *kgo.Client, p *placement, of []underWay) error {
	var tps []topicPartition
	for _, u := range of {
		tps = append(tps, u.topicPartition)
	}
	sizes := replicaSizes{}
	if len(tps) > 0 {
		var err error
		if sizes, _, err = readSizes(ctx, cl, tps); err != nil {
			return err
		}
	}
	views := []wayView{}
	for _, u := range of {
		views = append(views, u.view(p, sizes))
	}
	if a.json() {
		return a.writeJSON(views)
	}
	if len(views) == 0 {
		_, err := fmt.Fprintln(a.out, "nothing is on its way")
		return err
	}
	t := newTable(column{title: "TOPIC", flexible: true}, column{title: "PARTITION", right: true}, column{title: "TO"}, column{title: "ADDING"}, column{title: "REMOVING"},
		column{title: "COPIED", right: true}, column{title: "OF", right: true}, column{})
	for _, v := range views {
		t.add(plain(v.Topic), number(v.Partition), strong(joinNumbers(v.Target)), plain(cmp.Or(joinNumbers(v.Adding), "-")), plain(cmp.Or(joinNumbers(v.Removing), "-")),
			plain(formatBytes(v.Copied)), plain(formatBytes(v.Bytes)), when(v.Bytes == 0, plain(""), plain(formatPercent(float64(v.Copied)/float64(max(1, v.Bytes))))))
	}
	return t.write(a.out, a.paint(), a.width())
}
