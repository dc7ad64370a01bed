package coord

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/replica"
	"github.com/raftsman/raftsman/internal/sysrecord"
	"github.com/raftsman/raftsman/internal/txn"
)

// logs is Partitions in memory. What is appended is committed before Append returns, unless hold was called.
type logs struct {
	mu      sync.Mutex // guards all below
	batches map[kafka.TopicPartition][]record.Batch
	appends int
	holding bool
	waiting []func(error)
	refuse  error                          // nothing is written
	refuses map[kafka.TopicPartition]error // nothing is written there
	holds   map[kafka.TopicPartition]bool  // holding, there alone
	lost    error                          // written, but not known to be committed
	leads   bool
	epoch   kafka.Epoch
	stalls  map[kafka.TopicPartition]chan struct{} // Append waits for it
	gate    chan struct{}                          // Load waits for it
	failing int                                    // so many loads fail
	most    int                                    // bytes of a batch; 0 for 1 MiB
	asked   int                                    // calls of Leads
}

func newLogs() *logs {
	return &logs{
		batches: map[kafka.TopicPartition][]record.Batch{}, leads: true,
		refuses: map[kafka.TopicPartition]error{}, holds: map[kafka.TopicPartition]bool{},
		stalls: map[kafka.TopicPartition]chan struct{}{},
	}
}

func (l *logs) Append(tp kafka.TopicPartition, b record.Batch, done func(kafka.Offset, error)) {
	l.mu.Lock()
	if stall := l.stalls[tp]; stall != nil {
		l.mu.Unlock()
		<-stall
		l.mu.Lock()
	}
	if err := cmp.Or(l.refuses[tp], l.refuse); err != nil {
		l.mu.Unlock()
		done(kafka.NoOffset, err)
		return
	}
	kept := slices.Clone(b)
	if before := l.batches[tp]; len(before) > 0 {
		kept.SetBaseOffset(before[len(before)-1].NextOffset())
	}
	l.batches[tp] = append(l.batches[tp], kept)
	l.appends++
	if l.holding || l.holds[tp] {
		l.waiting = append(l.waiting, func(err error) { done(kept.LastOffset(), err) })
		l.mu.Unlock()
		return
	}
	err := l.lost
	l.mu.Unlock()
	if err != nil {
		go done(kafka.NoOffset, err)
		return
	}
	done(kept.LastOffset(), nil)
}

// AppendTransactional takes guard 1, and any where the producer has a transaction open.
func (l *logs) AppendTransactional(tp kafka.TopicPartition, b record.Batch, guard producer.Guard, done func(kafka.Offset, error)) {
	if guard != 1 && !l.open(tp, b.ProducerID()) {
		done(kafka.NoOffset, kafka.InvalidTxnState)
		return
	}
	l.Append(tp, b, done)
}

func (l *logs) EndTransaction(tp kafka.TopicPartition, m replica.Marker, done func(error)) {
	marker := record.Marker{Commit: m.Commit, CoordinatorEpoch: m.CoordinatorEpoch}
	l.Append(tp, record.EndTransaction(m.ProducerID, m.ProducerEpoch, marker, 0), func(_ kafka.Offset, err error) { done(err) })
}

func (l *logs) Together(appends func()) { appends() }

// open tells whether a producer's last batch in a partition is no marker.
func (l *logs) open(tp kafka.TopicPartition, id kafka.ProducerID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range slices.Backward(l.batches[tp]) {
		if b.IsTransactional() && b.ProducerID() == id {
			return !b.IsControl()
		}
	}
	return false
}

// markers lists the markers in a partition: a minus in front of the producer id stands for an abort.
func (l *logs) markers(tp kafka.TopicPartition) (list []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.batches[tp] {
		if m, ok, _ := b.Marker(); ok {
			id := int64(b.ProducerID())
			if !m.Commit {
				id = -id
			}
			list = append(list, id)
		}
	}
	return list
}

// AwaitCommitted has nothing to wait for.
func (l *logs) AwaitCommitted(kafka.TopicPartition, <-chan struct{}, <-chan struct{}) error {
	return nil
}

func (l *logs) Load(tp kafka.TopicPartition, each func(record.Batch) error) error {
	l.mu.Lock()
	batches, gate := slices.Clone(l.batches[tp]), l.gate
	fails := l.failing > 0
	if fails {
		l.failing--
	}
	l.mu.Unlock()
	if gate != nil {
		<-gate
	}
	if fails {
		return errors.New("bad disk")
	}
	for _, b := range batches {
		if err := each(b); err != nil {
			return err
		}
	}
	return nil
}

func (l *logs) Leads(kafka.TopicPartition) (kafka.Epoch, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	return l.epoch, l.leads
}

func (l *logs) BatchBytesMax(kafka.TopicPartition) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return cmp.Or(l.most, 1<<20)
}

func (l *logs) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

func (l *logs) hold() { l.set(func() { l.holding = true }) }

// release ends all that is held, and hold with it.
func (l *logs) release(err error) {
	l.mu.Lock()
	waiting := l.waiting
	l.waiting, l.holding = nil, false
	clear(l.holds)
	l.mu.Unlock()
	for _, done := range waiting {
		done(err)
	}
}

func (l *logs) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.appends
}

// world is a coordinator with its metadata and its log.
type world struct {
	t     testing.TB
	logs  *logs
	image atomic.Pointer[meta.Image]
	opts  Options
	c     *Coordinator
	ids   atomic.Int64 // the last producer id
}

// topicID makes ids that tests can tell apart.
func topicID(n byte) kafka.TopicID { return kafka.TopicID{15: n} }

func entry(t testing.TB, u *meta.Update, r sysrecord.Record) {
	t.Helper()
	_, highest := r.Versions()
	if err := u.Apply(meta.Entry{Record: r, Version: highest}); err != nil {
		t.Fatal(err)
	}
}

func addTopic(t testing.TB, im *meta.Image, name string, id kafka.TopicID, partitions int32) *meta.Image {
	t.Helper()
	u := im.Update()
	entry(t, u, &sysrecord.TopicRecord{Name: name, TopicID: id})
	for p := range partitions {
		r := sysrecord.NewPartitionRecord()
		r.PartitionID, r.TopicID, r.Replicas, r.ISR, r.Leader = p, id, []kafka.NodeID{1}, []kafka.NodeID{1}, 1
		entry(t, u, r)
	}
	return u.Image(im.Offset()+1, 1, 0)
}

// atProtocol finalises transaction.version.
func atProtocol(t testing.TB, im *meta.Image, level int16) *meta.Image {
	t.Helper()
	u := im.Update()
	entry(t, u, &sysrecord.FeatureLevelRecord{Name: meta.TransactionVersion, FeatureLevel: level})
	return u.Image(im.Offset()+1, 1, 0)
}

func removeTopic(t testing.TB, im *meta.Image, id kafka.TopicID) *meta.Image {
	t.Helper()
	u := im.Update()
	entry(t, u, &sysrecord.RemoveTopicRecord{TopicID: id})
	return u.Image(im.Offset()+1, 1, 0)
}

// newWorld has __consumer_offsets with four partitions and a topic t with three.
func newWorld(t testing.TB, change ...func(*world)) *world {
	w := &world{t: t, logs: newLogs()}
	image := addTopic(t, atProtocol(t, meta.NewImage("test"), 2), meta.OffsetsTopic, topicID(1), 4)
	w.image.Store(addTopic(t, image, "t", topicID(2), 3))
	w.opts = Options{
		NodeID: 1, Partitions: w.logs, Image: w.image.Load,
		CreateTopic: func(context.Context, string) error { return errors.New("it is there") },
		Group: group.Config{
			SessionTimeoutMin: time.Second, SessionTimeoutMax: time.Hour, MembersMax: 100, OffsetMetadataMax: 100,
			OffsetsRetention: 24 * time.Hour, NewMemberJoinTimeout: 5 * time.Minute,
		},
		Transactions:   txn.Config{TimeoutMax: time.Hour, IDExpiration: 24 * time.Hour},
		NextProducerID: func(context.Context) (kafka.ProducerID, error) { return kafka.ProducerID(w.ids.Add(1)), nil },
		LoadGrace:      time.Minute, // however long the scheduler takes
	}
	for _, f := range change {
		f(w)
	}
	w.start()
	return w
}

// newTxnWorld is a world that has __transaction_state too, with two partitions.
func newTxnWorld(t testing.TB, change ...func(*world)) *world {
	return newWorld(t, append(change, func(w *world) {
		w.image.Store(addTopic(t, w.image.Load(), meta.TransactionsTopic, topicID(3), 2))
	})...)
}

func (w *world) start() {
	w.c = New(w.opts)
	w.c.Apply(nil, w.image.Load())
}

// publish makes an image the present one.
func (w *world) publish(now *meta.Image) {
	old := w.image.Swap(now)
	w.c.Apply(old, now)
}

// publishMove says that something about the leaders of __consumer_offsets has changed: who leads is up to logs.
func (w *world) publishMove() {
	w.t.Helper()
	now := w.image.Load()
	u := now.Update()
	change := sysrecord.NewPartitionChangeRecord()
	change.TopicID, change.PartitionID, change.Leader = topicID(1), 2, 1
	entry(w.t, u, change)
	w.publish(u.Image(now.Offset()+1, 1, 0))
}

func (w *world) close() {
	w.t.Helper()
	if err := w.c.Close(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) restart() {
	w.t.Helper()
	w.close()
	w.start()
}

// ask sends a command; the channel gets the reply.
func (w *world) ask(groupID string, cmd group.Command) <-chan group.Reply {
	ch := make(chan group.Reply, 1)
	w.c.Do(groupID, cmd, func(r group.Reply) { ch <- r })
	return ch
}

func do[R group.Reply](w *world, groupID string, cmd group.Command) R {
	return (<-w.ask(groupID, cmd)).(R)
}

// commitOf is a commit from outside a group.
func commitOf(offsets ...kafka.Offset) *group.Commit {
	c := &group.Commit{Generation: -1, RetentionMs: -1, UnknownGroup: kafka.IllegalGeneration, Topics: []group.CommitTopic{{Topic: "t", ID: topicID(2)}}}
	for p, offset := range offsets {
		c.Topics[0].Partitions = append(c.Topics[0].Partitions, group.CommitPartition{Partition: int32(p), Offset: offset, LeaderEpoch: -1})
	}
	return c
}

func (w *world) commit(groupID string, offsets ...kafka.Offset) kafka.Error {
	w.t.Helper()
	r := do[*group.CommitReply](w, groupID, commitOf(offsets...))
	if r.Code != kafka.None {
		return r.Code
	}
	return r.Codes[0]
}

func (w *world) committed(groupID string) kafka.Offset {
	w.t.Helper()
	r := do[*group.FetchReply](w, groupID, &group.Fetch{Topics: []group.FetchTopic{{Topic: "t", Partitions: []int32{0}}}})
	if r.Code != kafka.None {
		w.t.Fatalf("fetch offsets of %s: %v", groupID, r.Code)
	}
	return r.Topics[0].Partitions[0].Offset
}

func joinOf(memberID string) *group.Join {
	return &group.Join{
		MemberID: memberID, ClientID: "c", ClientHost: "/127.0.0.1", SessionTimeoutMs: 10_000, RebalanceTimeoutMs: 30_000,
		ProtocolType: "consumer", Protocols: []group.Protocol{{Name: "range", Metadata: []byte{0, 0, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 0}}},
	}
}

// member joins an empty group alone and takes all: its id.
func (w *world) member(groupID string) string {
	w.t.Helper()
	joined := do[*group.JoinReply](w, groupID, joinOf(""))
	if joined.Code != kafka.None {
		w.t.Fatalf("join %s: %v", groupID, joined.Code)
	}
	synced := do[*group.SyncReply](w, groupID, &group.Sync{
		Generation: joined.Generation, MemberID: joined.MemberID, Assignments: []group.Assignment{{MemberID: joined.MemberID, Bytes: []byte("all")}},
	})
	if synced.Code != kafka.None || string(synced.Assignment) != "all" {
		w.t.Fatalf("sync %s: %+v", groupID, synced)
	}
	return joined.MemberID
}

func (w *world) beat(groupID, memberID string, generation int32) kafka.Error {
	return do[*group.HeartbeatReply](w, groupID, &group.Heartbeat{MemberID: memberID, Generation: generation}).Code
}
