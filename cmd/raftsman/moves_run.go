package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/plan"
)

// moveFlags say how replicas are moved.
type moveFlags struct {
	execute  bool
	throttle string
	rate     int64 // of throttle, bytes a second; 0: any
	atOnce   int
}

func (f *moveFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.execute, "execute", false, "do it, do not only show it")
	c.Flags().StringVar(&f.throttle, "throttle", "", "bytes a second that each broker may copy for this, as 50MiB (default: as fast as it goes)")
	c.Flags().IntVar(&f.atOnce, "at-once", 10, "how many partitions are copied at a time")
}

func (f *moveFlags) check() error {
	if f.atOnce < 1 {
		return usagef("--at-once %d: at least one partition is copied at a time", f.atOnce)
	}
	if f.throttle == "" {
		return nil
	}
	rate, err := parseBytes(f.throttle)
	if err != nil || rate == 0 {
		return usagef("--throttle %s is no number of bytes like 1000000, 50MB or 50MiB", f.throttle)
	}
	f.rate = rate
	return nil
}

const (
	movesLookEvery  = 300 * time.Millisecond
	movesSizeEvery  = 2 * time.Second  // sizes are asked of all brokers
	movesTellEvery  = 10 * time.Second // where there is no terminal
	movesRequestMax = 1000             // partitions in one request
	movesDoubtMax   = 15 * time.Second // as long a broker may show what was before a partition was there
)

// mover carries moves out, some at a time, until all are done. It keeps nothing that the cluster does not know: who stops it and plans anew
// goes on where it was.
type mover struct {
	a     *app
	cl    *kgo.Client
	adm   *kadm.Client
	flags *moveFlags

	waiting []plan.Move
	going   []*goingMove
	done    int
	lost    failures              // what went wrong with single partitions
	topics  map[string]bool       // that were moved, and may have a throttle
	down    map[kafka.NodeID]bool // brokers that were down when last looked at
	up      []kafka.NodeID        // brokers in service when it began
	total   int                   // moves in all
	bytes   int64                 // to be copied in all
	copied  int64                 // by the moves that are done
	sized   time.Time             // when sizes were looked at
	told    time.Time             // when progress was told

	mu   sync.Mutex // guards line
	line string     // what progress shows
}

// goingMove is a move that the cluster carries out.
type goingMove struct {
	plan.Move
	copied int64
	ended  time.Time // since when it is not on its way any more; zero: it is
}

func (g *goingMove) tp() topicPartition { return topicPartition{g.Topic, g.Number} }

// carryOut does what is planned, with what is on its way already of the partitions that resume chooses, and returns when all is done.
// An end of ctx leaves what is on its way going on.
func (a *app) carryOut(ctx context.Context, cl *kgo.Client, adm *kadm.Client, p *placement, moves []plan.Move, resume func(*underWay) bool, flags *moveFlags) error {
	m := &mover{a: a, cl: cl, adm: adm, flags: flags, waiting: moves, topics: map[string]bool{}, down: map[kafka.NodeID]bool{}, up: p.up(), told: a.now()}
	for _, u := range p.underWay {
		if again := slices.ContainsFunc(moves, func(mv plan.Move) bool { return mv.Topic == u.topic && mv.Number == u.partition }); again || !resume(&u) {
			continue
		}
		bytes := p.partitionOf(u.topicPartition).Bytes * int64(len(u.adding))
		m.take(plan.Move{Topic: u.topic, Number: u.partition, From: append(slices.Clone(u.removing), u.target...), To: u.target, Bytes: bytes})
		m.total, m.bytes = m.total+1, m.bytes+bytes
	}
	resumed := m.total
	m.total += len(moves)
	for _, mv := range moves {
		m.bytes += mv.Bytes
	}
	if m.total == 0 {
		return nil
	}
	shown := a.startProgress(func(time.Duration) string {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.line
	})
	err := m.run(ctx)
	shown.stop()
	if ctx.Err() != nil && len(m.going) > 0 {
		a.note("what is on its way (%s) goes on without this command: `raftsman topic reassign --finish` waits for it, `--cancel` brings it back, and the same command again does the rest",
			plural(int64(len(m.going)), "partition"))
	}
	if err == nil {
		err = m.lost.join()
	}
	if err == nil && resumed > 0 {
		a.note("%s on the way already: done", plural(int64(resumed), "partition"))
	}
	return err
}

func (m *mover) take(mv plan.Move) {
	m.topics[mv.Topic] = true
	m.going = append(m.going, &goingMove{Move: mv})
}

func (m *mover) run(ctx context.Context) error {
	if err := m.limit(ctx); err != nil {
		return err
	}
	look := time.NewTicker(movesLookEvery)
	defer look.Stop()
	for {
		if err := m.start(ctx); err != nil {
			return err
		}
		if len(m.going) == 0 && len(m.waiting) == 0 {
			return m.unlimit(ctx)
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := m.look(ctx); err != nil {
			return err
		}
		m.tell()
	}
}

// start has the cluster begin as many moves as may be under way. Those that copy nothing are begun at once.
func (m *mover) start(ctx context.Context) error {
	copying := 0
	for _, g := range m.going {
		if len(g.Adding()) > 0 {
			copying++
		}
	}
	var next, later, elect []plan.Move
	for _, mv := range m.waiting {
		copies := len(mv.Adding()) > 0
		switch {
		case len(next)+len(elect) == movesRequestMax, copies && copying >= m.flags.atOnce:
			later = append(later, mv)
		case slices.Equal(mv.From, mv.To):
			elect = append(elect, mv)
		default:
			next = append(next, mv)
			if copies {
				copying++
			}
		}
	}
	m.waiting = later
	if err := m.request(ctx, next); err != nil {
		return err
	}
	if err := m.elect(ctx, elect); err != nil {
		return err
	}
	m.done += len(elect)
	return nil
}

// request begins moves.
func (m *mover) request(ctx context.Context, moves []plan.Move) error {
	if len(moves) == 0 {
		return nil
	}
	if err := m.limitTopics(ctx, moves); err != nil {
		return err
	}
	var req kadm.AlterPartitionAssignmentsReq
	for _, mv := range moves {
		req.Assign(mv.Topic, mv.Number, numbersOf(mv.To))
	}
	results, err := m.adm.AlterPartitionAssignments(ctx, req)
	if err != nil {
		return err
	}
	for _, mv := range moves {
		switch r := results[mv.Topic][mv.Number]; {
		case errors.Is(r.Err, kerr.UnknownTopicOrPartition):
			m.drop(mv)
		case r.Err != nil:
			m.fail(mv, refused(fmt.Sprintf("move %s partition %d", mv.Topic, mv.Number), r.Err, r.ErrMessage))
		default:
			m.take(mv)
		}
	}
	return nil
}

// drop forgets a move whose topic is gone.
func (m *mover) drop(mv plan.Move) {
	m.a.note("%s partition %d is not there any more", mv.Topic, mv.Number)
	m.total, m.bytes = m.total-1, m.bytes-mv.Bytes
}

func (m *mover) fail(mv plan.Move, err error) {
	m.lost = append(m.lost, err)
	m.total, m.bytes = m.total-1, m.bytes-mv.Bytes
}

// look asks what has become of what is on its way.
func (m *mover) look(ctx context.Context) error {
	if len(m.going) == 0 {
		return nil
	}
	slices.SortFunc(m.going, func(x, y *goingMove) int { return compareTopicPartitions(x.tp(), y.tp()) })
	var of []topicPartition
	for _, g := range m.going {
		of = append(of, g.tp())
	}
	list, err := readUnderWay(ctx, m.cl, of)
	if err != nil {
		return err
	}
	var ended []string
	for _, g := range m.going {
		if _, found := slices.BinarySearchFunc(list, g.tp(), underWay.compare); found {
			g.ended = time.Time{}
			continue
		}
		if g.ended.IsZero() {
			g.ended = m.a.now()
		}
		ended = append(ended, g.Topic)
	}
	if err := m.settle(ctx, slices.Compact(ended)); err != nil {
		return err
	}
	return m.size(ctx)
}

// settle looks where the partitions are that are on no way any more. A broker may not know yet that they are there, or have begun.
func (m *mover) settle(ctx context.Context, topics []string) error {
	if len(topics) == 0 {
		return nil
	}
	details, err := m.adm.ListTopicsWithInternal(ctx, topics...)
	if err != nil {
		return err
	}
	var elect []plan.Move
	m.going = slices.DeleteFunc(m.going, func(g *goingMove) bool {
		d := details[g.Topic]
		p, exists := d.Partitions[g.Number]
		switch {
		case g.ended.IsZero():
			return false
		case exists && slices.Equal(p.Replicas, numbersOf(g.To)):
			m.done, m.copied = m.done+1, m.copied+g.Bytes
			if p.Leader != int32(g.To[0]) {
				elect = append(elect, g.Move)
			}
			return true
		case m.a.now().Sub(g.ended) < movesDoubtMax:
			return false
		case errors.Is(d.Err, kerr.UnknownTopicOrPartition):
			m.drop(g.Move)
		case exists:
			m.fail(g.Move, fmt.Errorf("%s partition %d is on brokers %s and not on %s: somebody else has taken the move back, or changed it",
				g.Topic, g.Number, joinNumbers(p.Replicas), joinNumbers(numbersOf(g.To))))
		default:
			return false
		}
		return true
	})
	return m.elect(ctx, elect)
}

// elect has the first replicas lead.
func (m *mover) elect(ctx context.Context, moves []plan.Move) error {
	if len(moves) == 0 {
		return nil
	}
	of := kadm.TopicsSet{}
	for _, mv := range moves {
		of.Add(mv.Topic, mv.Number)
	}
	results, err := m.adm.ElectLeaders(ctx, kadm.ElectPreferredReplica, of)
	if err != nil {
		return err
	}
	for _, mv := range moves {
		if r := results[mv.Topic][mv.Number]; r.Err != nil && !errors.Is(r.Err, kerr.ElectionNotNeeded) {
			m.a.note("%s", oneLine(refused(fmt.Sprintf("have broker %d lead %s partition %d", mv.To[0], mv.Topic, mv.Number), r.Err, r.ErrMessage).Error()))
		}
	}
	return nil
}

// size looks how much is copied, and whether the brokers that are copied to are there.
func (m *mover) size(ctx context.Context) error {
	if m.a.now().Sub(m.sized) < movesSizeEvery || len(m.going) == 0 {
		return nil
	}
	m.sized = m.a.now()
	var of []topicPartition
	for _, g := range m.going {
		of = append(of, g.tp())
	}
	sizes, _, err := readSizes(ctx, m.cl, of)
	if err != nil {
		return err
	}
	brokers, err := m.adm.ListBrokers(ctx)
	if err != nil {
		return err
	}
	for _, g := range m.going {
		g.copied = 0
		for _, id := range g.Adding() {
			g.copied += sizes[id][g.tp()]
			is := !slices.ContainsFunc(brokers, func(b kadm.BrokerDetail) bool { return b.NodeID == int32(id) })
			if is && !m.down[id] {
				m.a.note("broker %d is down: what goes to it waits", id)
			}
			m.down[id] = is
		}
		g.copied = min(g.copied, g.Bytes)
	}
	return nil
}

// tell says how far it is: on a terminal in the line that changes, else now and then in one of its own.
func (m *mover) tell() {
	copied := m.copied
	for _, g := range m.going {
		copied += g.copied
	}
	line := fmt.Sprintf("%d of %s moved, %s of %s copied, %d on their way", m.done, plural(int64(m.total), "partition"), formatBytes(copied), formatBytes(m.bytes), len(m.going))
	m.mu.Lock()
	m.line = line
	m.mu.Unlock()
	if !m.a.tty.err && m.a.now().Sub(m.told) >= movesTellEvery {
		m.told = m.a.now()
		m.a.note("%s", line)
	}
}

// The settings that hold copies back (KIP-73).
const (
	leaderRate       = "leader.replication.throttled.rate"
	followerRate     = "follower.replication.throttled.rate"
	leaderReplicas   = "leader.replication.throttled.replicas"
	followerReplicas = "follower.replication.throttled.replicas"
)

// limit tells the brokers in service how much they may copy, if they are to be held back.
func (m *mover) limit(ctx context.Context) error {
	if m.flags.rate == 0 {
		return nil
	}
	rate := strconv.FormatInt(m.flags.rate, 10)
	return m.changeRates(ctx, configChange{kmsg.IncrementalAlterConfigOpSet, leaderRate, &rate}, configChange{kmsg.IncrementalAlterConfigOpSet, followerRate, &rate})
}

func (m *mover) changeRates(ctx context.Context, changes ...configChange) error {
	var resources []resourceChange
	for _, id := range m.up {
		resources = append(resources, resourceChange{configResource{kmsg.ConfigResourceTypeBroker, fmt.Sprint(id)}, changes})
	}
	return alterConfigs(ctx, m.cl, resources, false)
}

// limitTopics names the replicas that are held back: all that there are give, and those that are new take, no more than the rate.
func (m *mover) limitTopics(ctx context.Context, moves []plan.Move) error {
	if m.flags.rate == 0 {
		return nil
	}
	var resources []resourceChange
	for _, mv := range moves {
		adding := mv.Adding()
		if len(adding) == 0 {
			continue
		}
		resource := configResource{kmsg.ConfigResourceTypeTopic, mv.Topic}
		i := slices.IndexFunc(resources, func(r resourceChange) bool { return r.resource == resource })
		if i < 0 {
			i = len(resources)
			resources = append(resources, resourceChange{resource, []configChange{
				{kmsg.IncrementalAlterConfigOpAppend, leaderReplicas, new(string)}, {kmsg.IncrementalAlterConfigOpAppend, followerReplicas, new(string)},
			}})
		}
		resources[i].changes[0].value = extend(resources[i].changes[0].value, mv.Number, mv.From)
		resources[i].changes[1].value = extend(resources[i].changes[1].value, mv.Number, adding)
	}
	if len(resources) == 0 {
		return nil
	}
	return alterConfigs(ctx, m.cl, resources, false)
}

// extend adds replicas of a partition to a list of partition:broker.
func extend(list *string, partition int32, on []kafka.NodeID) *string {
	text := *list
	for _, id := range on {
		if text != "" {
			text += ","
		}
		text += fmt.Sprintf("%d:%d", partition, id)
	}
	return &text
}

// unlimit takes back what held the copies of these topics back: that of this run, and of others that were broken off. Where something is
// still on its way it stays.
func (m *mover) unlimit(ctx context.Context) error {
	list, err := readUnderWay(ctx, m.cl, nil)
	if err != nil {
		return err
	}
	topics := sortedKeys(m.topics)
	topics = slices.DeleteFunc(topics, func(topic string) bool {
		return slices.ContainsFunc(list, func(u underWay) bool { return u.topic == topic })
	})
	unlimited, err := unlimitTopics(ctx, m.cl, m.adm, topics)
	if err != nil {
		return err
	}
	if len(list) > 0 || !unlimited && m.flags.rate == 0 {
		return nil
	}
	return m.changeRates(ctx, configChange{kmsg.IncrementalAlterConfigOpDelete, leaderRate, nil}, configChange{kmsg.IncrementalAlterConfigOpDelete, followerRate, nil})
}

// unlimitTopics has no replica of these topics held back, unless all of a topic's are, and tells whether one was.
func unlimitTopics(ctx context.Context, cl *kgo.Client, adm *kadm.Client, topics []string) (were bool, err error) {
	if len(topics) == 0 {
		return false, nil
	}
	described, err := adm.DescribeTopicConfigs(ctx, topics...)
	if err = unlessPartial(err); err != nil {
		return false, err
	}
	var resources []resourceChange
	for _, r := range described {
		var changes []configChange
		for _, c := range r.Configs {
			if value := c.MaybeValue(); (c.Key == leaderReplicas || c.Key == followerReplicas) && value != "" && value != "*" {
				changes = append(changes, configChange{kmsg.IncrementalAlterConfigOpDelete, c.Key, nil})
			}
		}
		if len(changes) > 0 {
			resources = append(resources, resourceChange{configResource{kmsg.ConfigResourceTypeTopic, r.Name}, changes})
		}
	}
	if len(resources) == 0 {
		return false, nil
	}
	return true, alterConfigs(ctx, cl, resources, false)
}
